// SPDX-License-Identifier: Apache-2.0
/* The adapter of @openai/agents, with the SDK's runner and a model of its interface that asks nothing. */
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const { Agent, run, setTracingDisabled, tool, Usage, webSearchTool } = require('@openai/agents');
const { z } = require('zod');
const { Runtime } = require('turnphase');
const { guarded } = require('turnphase/adapters/openai-agents');
const { cases } = require('./cases.js');

setTracingDisabled(true);
const textOf = (output) => (typeof output === 'string' ? output : output.text);

function modelOf(calls, into) {
  return {
    async getResponse({ input }) {
      const results = Array.isArray(input) ? input.filter(({ type }) => type === 'function_call_result') : [];
      if (results.length) into.read = results.map(({ output }) => textOf(output));
      const content = [{ type: 'output_text', text: 'done' }];
      const output = results.length
        ? [{ type: 'message', role: 'assistant', status: 'completed', content }]
        : calls.map(([name, given], at) => ({
            type: 'function_call',
            callId: `c${at}`,
            name,
            status: 'completed',
            arguments: typeof given === 'string' ? given : JSON.stringify(given),
          }));
      return { usage: new Usage(), output };
    },
    async *getStreamedResponse() {},
  };
}

const toolOf = ([name, execute]) =>
  tool({
    name,
    description: name,
    parameters: z.object({ path: z.string() }),
    execute: (given, context, details) => execute(given, details?.signal),
  });

async function play(session, functions, calls, { signal, options }) {
  const into = {};
  const made = Object.entries(functions).map(toolOf);
  const tools = session ? guarded(session, made, options) : made;
  await run(new Agent({ name: 'a', model: modelOf(calls, into), tools }), 'go', { signal });
  return into.read;
}

cases('@openai/agents', play);

test('@openai/agents: what does not run here is refused, and what is no JSON does not run', async () => {
  const runtime = await Runtime.open();
  const session = runtime.session();
  assert.throws(() => guarded(session, [webSearchTool()]), /no function tool/);
  const ran = [];
  const texts = await play(session, { look: (given) => ran.push(given) }, [['look', '{"path": ']], {});
  assert.deepStrictEqual([texts.length, ran], [1, []]);
  await runtime.close();
});
