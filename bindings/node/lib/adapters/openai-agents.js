// SPDX-License-Identifier: Apache-2.0
/* Hooks around the function tools of the OpenAI Agents SDK (@openai/agents). */
'use strict';

const { Gate, anyOf, objectOf } = require('./gate.js');

/** Copies of function tools, whose calls go through the hooks of a session's runtime. A call that a hook denies has the
 *  denial as its output. What the SDK makes of an exception is an output, too: such a call counts as ok in the records.
 *  Throws for a tool that does not run in this process. options: members of tp_tool of each: limitMs, maxConcurrent. */
function guarded(session, tools, options) {
  const gate = new Gate(session, options);
  return tools.map((tool) => {
    if (tool?.type !== 'function' || typeof tool.invoke !== 'function')
      throw new TypeError(`'${tool?.name}' is no function tool: its calls do not run in this process`);
    const invoke = async (context, text, details) => {
      const given = objectOf(text);
      const run = (left, signal) =>
        tool.invoke(context, left === given ? text : JSON.stringify(left), {
          ...details,
          signal: anyOf(signal, details?.signal),
        });
      const got = await gate.call(tool.name, given, run, { id: details?.toolCall?.callId, signal: details?.signal });
      return 'value' in got ? got.value : got.text;
    };
    return { ...tool, invoke };
  });
}

module.exports = { guarded };
