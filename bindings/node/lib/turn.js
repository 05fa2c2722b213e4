// SPDX-License-Identifier: Apache-2.0
/* A turn of a session: a promise of its result, and an async iterable of its events. */
'use strict';

const { AsyncResource } = require('node:async_hooks');
const core = require('./core.js');
const { TurnEvent } = require('./answers.js');
const { UsageError } = require('./errors.js');
const { HANDLE, EVENT_BITS, DEFAULT_EVENTS, ASYNC_DISPOSE } = require('./names.js');

const EVENTS_MAX = 65536; // how many events wait for a slow consumer; further ones are only counted, in the event
                          // `lost`

/** The events of a turn in order, from the moment when the turn was iterated to its end. */
class Events {
  #queue = [];
  #at = 0;
  #waiting = []; // the resolve functions of open calls of next()
  #lost = 0;
  #isOver = false;
  #leave;

  constructor(leave) {
    this.#leave = leave;
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  next() {
    if (this.#at < this.#queue.length) return Promise.resolve({ value: this.#shift(), done: false });
    if (this.#isOver) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Stops listening; the turn goes on. */
  return(value) {
    this.end();
    this.#queue = [];
    this.#at = 0;
    return Promise.resolve({ value, done: true });
  }

  #shift() {
    const event = this.#queue[this.#at];
    this.#queue[this.#at++] = undefined;
    if (this.#at === this.#queue.length) {
      this.#queue = [];
      this.#at = 0;
    }
    return event;
  }

  push(event) {
    const resolve = this.#waiting.shift();
    if (resolve) return resolve({ value: event, done: false });
    if (this.#queue.length - this.#at >= EVENTS_MAX) {
      this.#lost++;
      return;
    }
    if (this.#lost) {
      this.#queue.push(Object.assign(new TurnEvent('lost'), { lost: this.#lost }));
      this.#lost = 0;
    }
    this.#queue.push(event);
  }

  end() {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#lost) this.#queue.push(Object.assign(new TurnEvent('lost'), { lost: this.#lost }));
    for (const resolve of this.#waiting) resolve({ value: undefined, done: true });
    this.#leave();
  }
}

/** A turn begins when it is awaited, iterated or started. `await turn` gives its result, whatever its outcome; if its
 *  AbortSignal was aborted and it did not complete, it rejects with the signal's reason. */
class Turn {
  #session;
  #text;
  #options;
  #kinds;
  #signal;
  #around;
  #key = 0;
  #submission;
  #promise;
  #settle;
  #events;
  #abort;
  #context;
  result; // undefined before the end

  constructor(session, text, options = {}, around) {
    const { events = DEFAULT_EVENTS, signal, ...rest } = options;
    for (const kind of events)
      if (!EVENT_BITS.has(kind))
        throw new RangeError(`there are no events '${kind}': ${[...EVENT_BITS.keys()].join(', ')}`);
    if (typeof text !== 'string') throw new TypeError('the text of a turn is a string');
    this.#session = session;
    this.#text = text;
    this.#options = options === undefined || Object.keys(rest).length === 0 ? undefined : rest;
    this.#kinds = events;
    this.#signal = signal;
    this.#around = around;
    this.#context = new AsyncResource('turnphase.Turn');
  }

  get session() {
    return this.#session;
  }

  /** Submits the turn. After that its events cannot be iterated any more. @return the turn. */
  start() {
    if (this.#key) return this;
    const { runtime } = this.#session,
      host = runtime[HANDLE];
    this.#signal?.throwIfAborted();
    const key = host.keep(this);
    try {
      this.#submission = core.turnSubmit(
        host.use(),
        this.#session[HANDLE],
        this.#around,
        this.#text,
        this.#options,
        key,
      );
    } catch (error) {
      host.drop(key);
      throw error;
    }
    this.#key = key;
    host.await(1);
    if (this.#signal) {
      this.#abort = () => this.cancel();
      this.#signal.addEventListener('abort', this.#abort, { once: true });
    }
    return this;
  }

  /** Cancels the turn: its result will have the outcome cancelled. */
  cancel() {
    const host = this.#session.runtime[HANDLE];
    if (this.#submission && !host.isClosed) core.cancel(host[HANDLE], this.#submission);
  }

  /** Adds a message of the user before the turn's next request. */
  addMessage(text, { files } = {}) {
    if (!this.#key) throw new UsageError('the turn has not begun', { code: 'TP_ERR_USAGE' });
    if (!this.#submission) throw new UsageError('the turn has ended', { code: 'TP_ERR_USAGE' });
    core.addMessage(this.#session.runtime[HANDLE].use(), this.#submission, { text, files });
  }

  #wait() {
    if (this.#promise) return this.#promise;
    this.#promise = new Promise((resolve, reject) => {
      this.#settle = () => {
        if (this.result instanceof Error) reject(this.result);
        else if (this.#signal?.aborted && this.result.outcome !== 'completed') reject(this.#signal.reason);
        else resolve(this.result);
      };
      this.start();
      if (this.result) this.#settle();
    });
    return this.#promise;
  }

  then(resolved, rejected) {
    return this.#wait().then(resolved, rejected);
  }
  catch(rejected) {
    return this.#wait().catch(rejected);
  }
  finally(run) {
    return this.#wait().finally(run);
  }

  [Symbol.asyncIterator]() {
    if (this.#key)
      throw new UsageError('the turn has begun: iterate it first, and await it afterwards', { code: 'TP_ERR_USAGE' });
    const host = this.#session.runtime[HANDLE],
      session = this.#session[HANDLE];
    const kinds = [...new Set(this.#kinds)].reduce(
      (bits, kind) => (kind === 'lost' ? bits : bits + EVENT_BITS.get(kind)),
      0,
    );
    const key = host.keep(this);
    let listener;
    const leave = () => {
      this.#events = undefined;
      host.drop(key);
      if (listener !== undefined && !host.isClosed && !this.#session.isClosed)
        core.unlisten(host[HANDLE], session, listener);
    };
    this.#events = new Events(leave);
    const events = this.#events;
    try {
      listener = core.listen(host.use(), session, kinds, key);
      this.start();
    } catch (error) {
      leave();
      throw error;
    }
    return events;
  }

  /** The pieces of the model's answer. */
  async *deltas() {
    this.#kinds = ['model_delta'];
    for await (const { text } of this) yield text;
  }

  /** Cancels the turn, and waits for its end. */
  async [ASYNC_DISPOSE]() {
    if (!this.#key) return;
    this.cancel();
    await this.#wait().catch(() => {});
  }

  // ---- what the host reports ----

  /** Runs a call of the turn in the async context in which the turn was made. */
  inContext(registered, host, id) {
    this.#context.runInAsyncScope(registered.begin, registered, host, id);
  }

  event(turnKey, shown) {
    if (turnKey === this.#key || shown.kind === 'lost') this.#events?.push(shown);
  }

  ended(shown) {
    const host = this.#session.runtime[HANDLE];
    this.result = shown;
    if (this.#submission) core.leave(undefined, this.#submission);
    this.#submission = this.#around = undefined;
    this.#signal?.removeEventListener('abort', this.#abort);
    host.await(-1);
    this.#events?.end();
    this.#settle?.();
  }
}

const NO_PARTS = Object.freeze([]);

/** A turn of which only tool calls run. First the phase that contributes its tools is run. */
class Calls {
  #host;
  #calls;
  #key;
  #turn;
  #context = new AsyncResource('turnphase.Calls');
  #abort;
  #signal;
  promise;
  #resolve;
  #reject;

  constructor(session, calls, { signal, ...options }) {
    const host = (this.#host = session.runtime[HANDLE]);
    if (!Array.isArray(calls)) throw new TypeError('tool calls are an array of { name, arguments, id }');
    signal?.throwIfAborted();
    this.#calls = calls;
    this.#key = host.keep(this);
    try {
      this.#turn = core.turnBegin(host.use(), session[HANDLE], options, this.#key);
    } catch (error) {
      host.drop(this.#key);
      throw error;
    }
    host.await(1);
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    if (!signal) return;
    this.#signal = signal;
    this.#abort = () => {
      if (!host.isClosed) core.turnCancel(host[HANDLE], this.#turn);
      this.#reject(signal.reason);
    };
    signal.addEventListener('abort', this.#abort, { once: true });
  }

  inContext(registered, host, id) {
    this.#context.runInAsyncScope(registered.begin, registered, host, id);
  }

  ended(shown) {
    const host = this.#host;
    if (shown === undefined && !this.#signal?.aborted) {
      try {
        host.keepAt(this.#key, this);
        core.toolsSubmit(host[HANDLE], this.#turn, this.#calls, this.#key);
        return;
      } catch (error) {
        host.drop(this.#key);
        shown = error;
      }
    }
    this.#signal?.removeEventListener('abort', this.#abort);
    host.await(-1);
    if (!host.isClosed) core.turnEnd(host[HANDLE], this.#turn);
    if (!Array.isArray(shown)) this.#reject(shown ?? this.#signal.reason);
    else this.#resolve(shown.map((row) => ({ text: '', callId: '', started: false, parts: NO_PARTS, ...row })));
  }
}

module.exports = { Turn, Calls };
