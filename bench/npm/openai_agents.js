// SPDX-License-Identifier: Apache-2.0
/* Whole turns of @openai/agents: a model that answers at once asks for two calls of a function tool, and answers with
 * text after their results. Its hooks are its own: a guard before tools is a tool input guardrail. measure.js says how
 * to run it. */
'use strict';

process.env.NODE_ENV = 'production';
process.env.OPENAI_AGENTS_DISABLE_TRACING = '1';

const { answer, callCount, counter, main, newCallIds, question } = require('./measure.js');

const count = () => { counter.calls++; };
const passed = async () => { count(); return { behavior: { type: 'allow' } }; };
const untripped = async () => { count(); return { tripwireTriggered: false, outputInfo: null }; };
const unfiltered = ({ modelData }) => { count(); return modelData; };
unfiltered.preserveInputIdentity = true; // unchanged input keeps its identity, which is faster

function forms(require) {
  const { Agent, MemorySession, Runner, Usage, setTracingDisabled, tool } = require('@openai/agents');
  setTracingDisabled(true);

  class Model {
    async getResponse({ input }) {
      const asks = input[input.length - 1].type !== 'function_call_result';
      const output = asks
        ? newCallIds().map((callId) => ({
          type: 'function_call', id: callId, callId, name: 'weather', status: 'completed', arguments: '{}',
        }))
        : [{
          type: 'message', role: 'assistant', id: 'msg_01', status: 'completed',
          content: [{ type: 'output_text', text: answer }],
        }];
      return { usage: new Usage(), output };
    }
  }

  /* One hook: the guard of the tool. Seven: one before and one after the tool, one before and one after the turn, two
     listeners, and one before the model. */
  function open(hooks, hasHistory) {
    const guard = hooks > 0 ? [{ type: 'tool_input', name: 'guard', run: passed }] : [];
    const check = hooks > 1 ? [{ type: 'tool_output', name: 'check', run: passed }] : [];
    const weather = tool({
      name: 'weather', description: 'How warm it is.', strict: false,
      parameters: { type: 'object', properties: {}, required: [], additionalProperties: true },
      execute: () => { count(); return '12 degrees'; },
      inputGuardrails: guard, outputGuardrails: check,
    });
    const agent = new Agent({
      name: 'bench', instructions: 'Answer.', model: new Model(), tools: [weather],
      inputGuardrails: hooks > 1 ? [{ name: 'intake', execute: untripped }] : [],
      outputGuardrails: hooks > 1 ? [{ name: 'outcome', execute: untripped }] : [],
    });
    if (hooks > 1) {
      agent.on('agent_start', count);
      agent.on('agent_end', count);
    }
    const runner = new Runner({ tracingDisabled: true, ...(hooks > 1 && { callModelInputFilter: unfiltered }) });
    const options = {};
    return {
      calls: callCount + { 0: 0, 1: 2, 7: 10 }[hooks],
      renew: hasHistory && (() => { options.session = new MemorySession(); }),
      turn: async () => (await runner.run(agent, question, options)).finalOutput,
    };
  }

  return {
    'no hooks': () => open(0, false),
    '1 hook': () => open(1, false),
    '7 hooks': () => open(7, false),
    '7 hooks, history in memory': () => open(7, true),
  };
}

main('@openai/agents', forms);
