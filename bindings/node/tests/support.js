// SPDX-License-Identifier: Apache-2.0
/* What the tests share. */
'use strict';

const { Runtime } = require('turnphase');

/** A model that makes these calls ([name, arguments] or a name), and then answers with `then` and the texts that it has
 *  read. */
function calls(tools, then = 'done') {
  return async (request) => {
    if (request.messages.at(-1).role === 'user') {
      return {
        calls: tools.map((tool) => (Array.isArray(tool) ? { name: tool[0], arguments: tool[1] } : { name: tool })),
      };
    }
    const read = request.messages.slice(request.messages.findLastIndex(({ role }) => role !== 'tool') + 1);
    return `${then}: ${read.map(({ text }) => text).join(' | ')}`;
  };
}

const saysHello = async (request) => 'hello ' + request.messages.at(-1).text;

/** The result of one turn in a session of its own. */
async function oneTurn(runtime, model = saysHello, text = 'x', options = undefined) {
  const session = runtime.session({ model });
  const result = await session.turn(text, options);
  await session.close();
  return result;
}

/** Runs a function with a runtime, and closes the runtime. `logged` has the messages of the library. */
async function withRuntime(options, run) {
  if (typeof options === 'function') [options, run] = [{}, options];
  const logged = [];
  if (process.env.TURNPHASE_TEST_THREADS) options = { pump: false, ...options }; // then the library has threads of its
                                                                                 // own
  const runtime = await Runtime.open({ onLog: (record) => logged.push(record), ...options });
  try {
    return await run(runtime, logged);
  } finally {
    await runtime.close({ drainMs: 1000 });
  }
}

/** A promise and its resolve function. */
function event() {
  let set;
  const promise = new Promise((resolve) => {
    set = resolve;
  });
  return { promise, set };
}
const never = () => new Promise(() => {});

module.exports = { calls, saysHello, oneTurn, withRuntime, event, never };
