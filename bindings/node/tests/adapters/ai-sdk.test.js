// SPDX-License-Identifier: Apache-2.0
/* The adapter of the AI SDK, with its generateText() and MockLanguageModelV3. */
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const { generateText, stepCountIs, tool } = require('ai');
const { MockLanguageModelV3 } = require('ai/test');
const { z } = require('zod');
const { Runtime } = require('turnphase');
const { guarded } = require('turnphase/adapters/ai-sdk');
const { cases } = require('./cases.js');

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const textOf = ({ type, value }) => (type === 'text' || type === 'error-text' ? value : JSON.stringify(value));

async function play(session, functions, calls, { signal, options }) {
  let read;
  const model = new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      const last = prompt.at(-1);
      if (last.role === 'tool') read = last.content.map(({ output }) => textOf(output));
      const content = read
        ? [{ type: 'text', text: 'done' }]
        : calls.map(([toolName, given], at) => ({
            type: 'tool-call',
            toolCallId: `c${at}`,
            toolName,
            input: JSON.stringify(given),
          }));
      const unified = read ? 'stop' : 'tool-calls';
      return { content, finishReason: { unified, raw: unified }, usage, warnings: [] };
    },
  });
  const made = Object.fromEntries(
    Object.entries(functions).map(([name, run]) => [
      name,
      tool({
        description: name,
        inputSchema: z.object({ path: z.string() }),
        execute: (given, { abortSignal }) => run(given, abortSignal),
      }),
    ]),
  );
  const tools = session ? guarded(session, made, options) : made;
  await generateText({ model, tools, prompt: 'go', stopWhen: stepCountIs(3), abortSignal: signal, maxRetries: 0 });
  return read;
}

cases('AI SDK', play);

test('AI SDK: what does not run here is refused, and the last of what is yielded counts', async () => {
  const runtime = await Runtime.open();
  const session = runtime.session();
  assert.throws(() => guarded(session, { ask: tool({ inputSchema: z.object({}) }) }), /no execute/);
  assert.throws(() => guarded(runtime, {}), TypeError);
  async function* execute() {
    yield 'a';
    yield 'b';
  }
  const { steps } = guarded(session, { steps: { inputSchema: z.object({}), execute } });
  assert.strictEqual(await steps.execute({}, { toolCallId: 'c' }), 'b');
  await runtime.close();
});
