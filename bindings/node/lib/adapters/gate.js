// SPDX-License-Identifier: Apache-2.0
/* Shared code of the adapters: a tool call of another framework becomes a tool call of a session. */
'use strict';

const { AsyncLocalStorage } = require('node:async_hooks');
const { isDeepStrictEqual } = require('node:util');
const { answer } = require('../answers.js');
const { ToolError, CanceledError } = require('../errors.js');
const { Session } = require('../runtime.js');

const current = new AsyncLocalStorage();
const forwarded = new WeakMap(); // the names of the tools that a runtime forwards

/** The answer that hooks and records see for a value. */
const answerOf = (value) => answer({ text: typeof value === 'string' ? value : (JSON.stringify(value) ?? '') });

const isAsyncIterable = (value) => typeof value?.[Symbol.asyncIterator] === 'function';

/* A call, with what the framework's own function has returned or thrown. */
class Call {
  told; // the text with which the library was answered; undefined: the function has not ended

  constructor(run, shown) {
    this.run = run;
    this.shown = shown;
  }

  async answer(given, signal) {
    let said;
    try {
      this.value = await this.run(given, signal);
      said = this.shown(this.value);
    } catch (error) {
      this.failure = { error };
      const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
      said = answer({ text, isError: true });
    }
    this.told = said.text;
    return said;
  }
}

function forward(given, run) {
  const call = current.getStore();
  if (!call) throw new ToolError(`${run.name} runs inside its framework only`);
  return call.answer(given, run.signal);
}

/** Runs a framework's tool calls through a session. options: members of tp_tool for each of its tools. */
class Gate {
  #session;
  #options;

  constructor(session, options = {}) {
    if (!(session instanceof Session)) throw new TypeError('a session of a runtime is wanted');
    this.#session = session;
    this.#options = options;
  }

  #register(name) {
    const { runtime } = this.#session;
    const names = forwarded.get(runtime) ?? new Set();
    forwarded.set(runtime, names);
    if (names.has(name)) return;
    const description = 'a tool of another framework';
    runtime.tool(name, { description, schema: { type: 'object' }, ...this.#options }, forward); // the framework checks
                                                                                                // arguments itself
    names.add(name);
  }

  /** Runs a call through its gates. given: its arguments, an object, or a string that is no JSON object;
   *  run(left, signal): the framework's own function, with the arguments as hooks have left them, and a signal that is
   *  aborted when the answer is no longer wanted.
   *  @return {value} as the function returned it, or {text, isError}: a denial, a limit, or what a hook left of the
   *          answer. Throws what the function threw, unless a hook has replaced its words. */
  async call(name, given, run, { id, signal, shown = answerOf } = {}) {
    this.#register(name);
    const kept = (left, aborts) => run(isDeepStrictEqual(left, given) ? given : left, aborts);
    const call = new Call(kept, shown);
    const row = { name, arguments: given, id, malformed: typeof given === 'string' };
    const [{ kind, text }] = await current.run(call, () => this.#session.callTools([row], { signal }));
    if (kind === 'cancelled')
      throw new CanceledError(`the call of ${name} was cancelled`, { code: 'TP_ERR_CANCELLED', status: 400 });
    const isError = kind !== 'ok';
    if ((isError && kind !== 'handler_error') || call.told !== text) return { text, isError };
    if (call.failure) throw call.failure.error;
    return { value: call.value };
  }
}

/** One signal of two, either of which may be undefined. */
const anyOf = (...signals) => AbortSignal.any(signals.filter(Boolean));

/** The arguments of a call in JSON; the text itself where it holds no object. */
function objectOf(text) {
  try {
    const given = JSON.parse(text || '{}');
    return given !== null && typeof given === 'object' && !Array.isArray(given) ? given : text;
  } catch {
    return text;
  }
}

module.exports = { Gate, answerOf, anyOf, isAsyncIterable, objectOf };
