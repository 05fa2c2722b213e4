// SPDX-License-Identifier: Apache-2.0
/* Hooks around the tools of the AI SDK (ai). */
'use strict';

const { Gate, anyOf, isAsyncIterable } = require('./gate.js');
const { HookError } = require('../errors.js');

/* Returns the last value that a tool yields: preliminary results are not used. */
async function lastOf(given) {
  if (!isAsyncIterable(given)) return given;
  let last;
  for await (const value of given) last = value;
  return last;
}

/** Copies of tools, whose calls go through the hooks of a session's runtime. A call that a hook denies fails with the
 *  denial, which the model reads as the error of the call. Throws for a tool without execute(): it does not run in this
 *  process. options: members of tp_tool of each: limitMs, maxConcurrent. */
function guarded(session, tools, options) {
  const gate = new Gate(session, options);
  const through = ([name, tool]) => {
    if (typeof tool?.execute !== 'function')
      throw new TypeError(`'${name}' has no execute(): its calls do not run in this process`);
    const execute = async (input, call) => {
      const run = (left, signal) =>
        lastOf(tool.execute(left, { ...call, abortSignal: anyOf(signal, call?.abortSignal) }));
      const got = await gate.call(name, input, run, { id: call?.toolCallId, signal: call?.abortSignal });
      if ('value' in got) return got.value;
      if (got.isError) throw new HookError(got.text);
      return got.text;
    };
    return [name, { ...tool, execute }];
  };
  return Object.fromEntries(Object.entries(tools).map(through));
}

module.exports = { guarded };
