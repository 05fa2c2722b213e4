// SPDX-License-Identifier: Apache-2.0
/* The adapter of LangGraph.js: a graph of a model that is played and its ToolNode. */
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const { AIMessage } = require('@langchain/core/messages');
const { tool } = require('@langchain/core/tools');
const {
  Command,
  END,
  interrupt,
  isInterrupted,
  INTERRUPT,
  MemorySaver,
  MessagesAnnotation,
  START,
  StateGraph,
} = require('@langchain/langgraph');
const { ToolNode, toolsCondition } = require('@langchain/langgraph/prebuilt');
const { z } = require('zod');
const { deny, Runtime } = require('turnphase');
const { guarded } = require('turnphase/adapters/langgraph');
const { cases } = require('./cases.js');

function graphOf(node, calls, read, options) {
  const model = async ({ messages }) => {
    const results = messages.filter((message) => message.getType() === 'tool');
    read.push(...results);
    if (results.length) return { messages: [new AIMessage('done')] };
    const rows = calls.map(([name, args], at) => ({ name, args, id: `c${at}`, type: 'tool_call' }));
    return { messages: [new AIMessage({ content: '', tool_calls: rows })] };
  };
  return new StateGraph(MessagesAnnotation)
    .addNode('model', model)
    .addNode('tools', node)
    .addEdge(START, 'model')
    .addConditionalEdges('model', toolsCondition, ['tools', END])
    .addEdge('tools', 'model')
    .compile(options);
}

const toolOf = ([name, run]) =>
  tool((given, config) => run(given, config?.signal), {
    name,
    description: name,
    schema: z.object({ path: z.string() }),
  });
const go = { messages: [{ role: 'user', content: 'go' }] };

async function play(session, functions, calls, { signal, options }) {
  const read = [];
  const made = Object.entries(functions).map(toolOf);
  const node = new ToolNode(session ? guarded(session, made, options) : made);
  await graphOf(node, calls, read).invoke(go, { signal });
  assert.deepStrictEqual(
    read.map((message) => message.tool_call_id),
    calls.map((_, at) => `c${at}`),
  );
  return read.map(({ content }) => content);
}

cases('LangGraph.js', play);

test('LangGraph.js: a denial is an error of its call, and an interrupt passes', async () => {
  const runtime = await Runtime.open();
  const session = runtime.session();
  const read = [];
  runtime.guard('tool.pre', { id: 'keep', tools: ['look'] }, () => deny('kept'));
  const [look] = guarded(session, [toolOf(['look', () => 'seen'])]);
  assert.strictEqual(look.description, 'look');
  await graphOf(new ToolNode([look]), [['look', { path: 'a' }]], read).invoke(go);
  assert.deepStrictEqual([read[0].status, read[0].name], ['error', 'look']);
  const asks = toolOf(['asks', ({ path }) => interrupt('may I?') + path]);
  const answers = [];
  const node = new ToolNode(guarded(session, [asks]));
  const graph = graphOf(node, [['asks', { path: 'a' }]], answers, { checkpointer: new MemorySaver() });
  const config = { configurable: { thread_id: '1' } };
  const state = await graph.invoke(go, config);
  assert.ok(isInterrupted(state) && state[INTERRUPT][0].value === 'may I?');
  await graph.invoke(new Command({ resume: 'yes ' }), config);
  assert.deepStrictEqual(
    answers.map(({ content }) => content),
    ['yes a'],
  );
  await runtime.close();
});
