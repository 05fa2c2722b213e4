// SPDX-License-Identifier: Apache-2.0
/* Whole turns of LangGraph.js: a graph with a node that answers as a model does, at once, and its ToolNode with one
 * tool that is called twice. Its hooks are nodes that change nothing. measure.js says how to run it. */
'use strict';

process.env.NODE_ENV = 'production';
process.env.LANGSMITH_TRACING = 'false';

const { answer, callCount, counter, main, newCallIds, question } = require('./measure.js');

const count = () => { counter.calls++; };
const nothing = () => { count(); return {}; };
const callOf = (id) => ({ id, name: 'weather', args: {}, type: 'tool_call' });
const lastOf = ({ messages }) => messages[messages.length - 1];

function forms(require) {
  const { END, MemorySaver, MessagesAnnotation, START, StateGraph } = require('@langchain/langgraph');
  const { ToolNode } = require('@langchain/langgraph/prebuilt');
  const { AIMessage } = require('@langchain/core/messages');
  const { tool } = require('@langchain/core/tools');

  const weather = tool(() => { count(); return '12 degrees'; }, {
    name: 'weather', description: 'How warm it is.', schema: { type: 'object', properties: {} },
  });

  function model(state) {
    const message = lastOf(state).getType() === 'tool'
      ? new AIMessage(answer)
      : new AIMessage({ content: '', tool_calls: newCallIds().map(callOf) });
    return { messages: [message] };
  }

  /* One hook: a node between the model and the tools. Seven: nine runs of nodes in a turn. */
  function graphOf(hooks) {
    const graph = new StateGraph(MessagesAnnotation).addNode('model', model).addNode('tools', new ToolNode([weather]));
    const chain = (...names) => { for (let i = 1; i < names.length; i++) graph.addEdge(names[i - 1], names[i]); };
    const fork = (from, tools, end) =>
      graph.addConditionalEdges(from, (state) => lastOf(state).tool_calls?.length ? tools : end, [tools, end]);
    const nodes = {
      0: [], 1: ['tool.pre'], 7: ['intake', 'context', 'model.pre', 'model.post', 'tool.pre', 'tool.post', 'post'],
    };
    for (const name of nodes[hooks]) graph.addNode(name, nothing);
    if (hooks === 7) {
      chain(START, 'intake', 'context', 'model.pre', 'model', 'model.post');
      fork('model.post', 'tool.pre', 'post');
      chain('tool.pre', 'tools', 'tool.post', 'model.pre');
      chain('post', END);
    } else {
      chain(START, 'model');
      fork('model', hooks === 1 ? 'tool.pre' : 'tools', END);
      if (hooks === 1) chain('tool.pre', 'tools');
      chain('tools', 'model');
    }
    return graph;
  }

  function open(hooks, hasHistory) {
    const saver = new MemorySaver(), thread = 'bench';
    const compiled = graphOf(hooks).compile(hasHistory ? { checkpointer: saver } : {});
    const config = hasHistory ? { configurable: { thread_id: thread }, durability: 'exit' } : {};
    const input = { messages: [{ role: 'user', content: question }] };
    return {
      calls: callCount + { 0: 0, 1: 1, 7: 9 }[hooks],
      renew: hasHistory && (() => saver.deleteThread(thread)),
      turn: async () => lastOf(await compiled.invoke(input, config)).content,
    };
  }

  return {
    'no hooks': () => open(0, false),
    '1 hook': () => open(1, false),
    '7 hooks': () => open(7, false),
    '7 hooks, history in memory': () => open(7, true),
  };
}

main('@langchain/langgraph', forms);
