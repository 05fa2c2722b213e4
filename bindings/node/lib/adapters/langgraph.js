// SPDX-License-Identifier: Apache-2.0
/* Hooks around the tools of LangGraph.js (@langchain/langgraph). */
'use strict';

const { ToolMessage } = require('@langchain/core/messages');
const { Gate, answerOf, anyOf } = require('./gate.js');
const { answer } = require('../answers.js');

const isMessage = (value) => typeof value?.getType === 'function' && value.getType() === 'tool';

function shown(value) {
  if (!isMessage(value)) return answerOf(value);
  return answer({ text: answerOf(value.content).text, isError: value.status === 'error' });
}

/** Tools for a ToolNode, whose calls go through the hooks of a session's runtime. A call that a hook denies has a
 *  ToolMessage with the denial and the status "error". An interrupt passes as it does without hooks; the call's run
 *  comes again when the graph goes on. options: members of tp_tool of each: limitMs, maxConcurrent. */
function guarded(session, tools, options) {
  const gate = new Gate(session, options);
  return tools.map((tool) => {
    if (typeof tool?.invoke !== 'function' || typeof tool.name !== 'string')
      throw new TypeError(`'${tool?.name}' is no tool with invoke(): its calls do not run in this process`);
    const invoke = async (input, config) => {
      const isCall = input?.type === 'tool_call';
      const given = isCall ? input.args : input;
      const run = (left, signal) =>
        tool.invoke(isCall ? { ...input, args: left } : left, { ...config, signal: anyOf(signal, config?.signal) });
      const id = isCall ? input.id : undefined;
      const got = await gate.call(tool.name, given, run, { id, signal: config?.signal, shown });
      if ('value' in got) return got.value;
      const message = { content: got.text, name: tool.name, tool_call_id: id ?? '' };
      return new ToolMessage({ ...message, status: got.isError ? 'error' : 'success' });
    };
    return Object.create(tool, { invoke: { value: invoke } });
  });
}

module.exports = { guarded };
