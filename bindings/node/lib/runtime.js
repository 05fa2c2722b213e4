// SPDX-License-Identifier: Apache-2.0
/* The runtime in the loop of Node. The loop polls the descriptor of the library's inbox: no thread waits for the
 * library, and no thread of the library runs JavaScript. Functions that may wait run on libuv's pool. */
'use strict';

const { randomUUID } = require('node:crypto');
const { debuglog } = require('node:util');
const core = require('./core.js');
const { classOf } = require('./answers.js');
const { Hook, Tool, Model } = require('./calls.js');
const { UsageError, errorOf } = require('./errors.js');
const { HANDLE, EVENT_BITS, ASYNC_DISPOSE } = require('./names.js');
const { Part, Database, LibraryModel, FunctionModel } = require('./parts.js');
const { schemaOf } = require('./schema.js');
const { Turn, Calls } = require('./turn.js');

core.setup(errorOf, classOf);

const CALL_MAX = 3,
  EVENT = 4,
  END = 5,
  CANCEL = 6,
  DESTROY = 7; // tp_work_kind; calls: 1 to 3
const ROW = 4,
  AT_ONCE = 64;
const debug = debuglog('turnphase');

// Options that count threads; a runtime without threads refuses them.
const OF_THREADS = [
  'engineWorkers',
  'noEngineWorkers',
  'handlerThreads',
  'detachedThreads',
  'toolThreads',
  'abandonedThreadsMax',
];

/** The end of something that was submitted. */
class End {
  constructor(resolve, reject) {
    Object.assign(this, { resolve, reject });
  }

  ended(shown, host) {
    host.await(-1);
    if (shown instanceof Error) this.reject(shown);
    else this.resolve(shown);
  }
}

/** The state of a runtime in this environment: the objects of its keys, and what is awaited. */
class Host {
  isClosed = false;
  isStarted = false;
  question;
  #kept = new Map();
  #lastKey = 0;
  #awaited = 0;
  #aborts = new Map(); // the AbortControllers of calls whose signal was read
  #rows = new Float64Array(ROW * AT_ONCE);
  #log;

  constructor(log) {
    this.#log = log;
  }

  async open(options, database, asks) {
    this[HANDLE] = await core.open(
      options,
      database,
      asks,
      (count, payloads) => this.#ready(count, payloads),
      this.#rows,
    );
  }

  /** Returns the handle, if the runtime may be used. */
  use() {
    if (this.isClosed) throw new UsageError('the runtime was closed', { code: 'TP_ERR_USAGE' });
    return this[HANDLE];
  }

  keep(thing) {
    this.#kept.set(++this.#lastKey, thing);
    return this.#lastKey;
  }

  /** Keeps an object under the key that it had before. */
  keepAt(key, thing) {
    this.#kept.set(key, thing);
  }

  drop(key) {
    this.#kept.delete(key);
  }

  /** Counts what is awaited: the loop stays alive as long as the count is not 0. */
  await(more) {
    const before = this.#awaited;
    this.#awaited += more;
    if (!this.isClosed && (before === 0) !== (this.#awaited === 0)) core.ref(this[HANDLE], this.#awaited > 0);
  }

  /** Returns a promise of the end of the operation that submit(handle, key) begins. */
  submit(submit) {
    return new Promise((resolve, reject) => {
      const key = this.keep(new End(resolve, reject));
      try {
        submit(this.use(), key);
      } catch (error) {
        this.drop(key);
        throw error;
      }
      this.await(1);
    });
  }

  warn(message, error) {
    this.#write({ level: 'warning', message, error });
  }

  #write(record) {
    if (!this.#log) return debug('%s: %s', record.level, record.message, ...(record.error ? [record.error] : []));
    try {
      this.#log(record);
    } catch (error) {
      process.nextTick(() => {
        throw error;
      }); // later, since a call may be under way now
    }
  }

  /* ---- work ---- */

  #ready(count, payloads) {
    if (count < 0) {
      for (const record of payloads) this.#write(record);
      return;
    }
    const rows = this.#rows;
    for (let i = 0; i < count; i++) {
      const kind = rows[ROW * i],
        key = rows[ROW * i + 1],
        turn = rows[ROW * i + 2],
        id = rows[ROW * i + 3];
      if (kind <= CALL_MAX) this.#begin(key, turn, id);
      else if (kind === EVENT) this.#event(this.#kept.get(key), turn, payloads[i]);
      else if (kind === END) this.#end(key, payloads?.[i]);
      else if (kind === CANCEL) this.#cancel(id);
      else if (kind === DESTROY) this.#kept.delete(key);
    }
  }

  #begin(key, turnKey, id) {
    if (this.isClosed) return; // the call is abandoned with the runtime
    const registered = this.#kept.get(key),
      turn = this.#kept.get(turnKey);
    if (turn instanceof Turn || turn instanceof Calls) turn.inContext(registered, this, id);
    else registered.begin(this, id);
  }

  #event(listener, turn, shown) {
    if (shown instanceof Error) return this.warn('an event could not be shown', shown);
    if (shown.kind === 'question') this.#ask(shown);
    listener?.event(turn, shown);
  }

  #end(key, shown) {
    const ended = this.#kept.get(key);
    this.#kept.delete(key);
    ended?.ended(shown, this);
  }

  /* Handles the cancel of a call: its answer is no longer wanted, so a promise that never settles holds nothing
   * back. */
  #cancel(id) {
    if (id < 0 || this.isClosed) return;
    const abort = this.#aborts.get(id);
    this.#aborts.delete(id);
    core.abandon(this[HANDLE], id);
    abort?.abort(new DOMException('the call was cancelled, or its limit has passed', 'AbortError'));
  }

  signalOf(id) {
    let abort = this.#aborts.get(id);
    if (abort) return abort.signal;
    abort = new AbortController();
    if (!this.isClosed && core.isOpen(this[HANDLE], id)) this.#aborts.set(id, abort);
    else abort.abort(new DOMException('the call is over', 'AbortError'));
    return abort.signal;
  }

  /** Notes that the call was answered. */
  over(id) {
    if (this.#aborts.size) this.#aborts.delete(id);
  }

  /* ---- questions ---- */

  async #ask(shown) {
    const { toolCall = {}, question = {}, questionToken } = shown;
    let decision = { allow: false, reason: 'no one was asked' };
    try {
      const given = await this.question({
        tool: toolCall.name ?? '',
        arguments: toolCall.arguments ?? {},
        reason: shown.text,
        subscription: shown.subscription,
        sessionId: shown.sessionId,
        turnId: shown.turnId,
      });
      decision = given !== null && typeof given === 'object' ? given : { allow: given === true };
    } catch (error) {
      this.warn('onQuestion has thrown', error);
    }
    if (this.isClosed) return;
    try {
      core.answerQuestion(this[HANDLE], questionToken, {
        verdict: decision.allow === true ? 'allow' : 'deny',
        argumentsHash: question.argumentsHash,
        reason: decision.reason,
        person: decision.person,
        arguments: decision.arguments,
      });
    } catch (error) {
      // the decision cannot be passed on, so nothing is allowed
      this.warn('the decision of onQuestion was refused', error);
      core.answerQuestion(this[HANDLE], questionToken, { verdict: 'deny', argumentsHash: question.argumentsHash });
    }
  }

  /* ---- the end ---- */

  async close(limitMs) {
    try {
      if (this.isStarted) await this.submit((handle, key) => core.drain(handle, limitMs, key));
    } finally {
      this.isClosed = true;
      for (const abort of this.#aborts.values())
        abort.abort(new DOMException('the runtime was closed', 'AbortError'));
      this.#aborts.clear();
      await core.free(this[HANDLE]);
      const closed = new UsageError('the runtime was closed', { code: 'TP_ERR_USAGE' });
      for (const thing of this.#kept.values())
        if (thing instanceof Turn || thing instanceof End || thing instanceof Calls) thing.ended(closed, this);
      this.#kept.clear();
    }
  }
}

/** A configuration that sessions share. */
class Agent {
  constructor(runtime, id, handle) {
    Object.assign(this, { runtime, id });
    this[HANDLE] = handle;
  }

  async remove() {
    await this.runtime[HANDLE].submit((handle, key) => core.agentRemove(handle, this[HANDLE], key));
  }
}

/** A conversation: its turns run one after the other. */
class Session {
  #closing;

  constructor(runtime, id, handle) {
    Object.assign(this, { runtime, id });
    this[HANDLE] = handle;
  }

  get isClosed() {
    return this.#closing !== undefined;
  }

  /** A turn that has not begun. options: events, signal, and members of tp_turn_request (turnphase/turn.h). */
  turn(text, options) {
    return new Turn(this, text, options);
  }

  /** Runs tool calls of a model that another program asks. They run at the same time, each through its gates, and with
   *  tool.post, events and records, as the calls of one response do. No other phase is run, and nothing enters the
   *  history. Several may run at once in a session. calls: [{ name, arguments, id }]; options: signal, which cancels
   *  them, and members of tp_turn_request. @return a promise of the result of each, in their order. */
  async callTools(calls, options = {}) {
    return await new Calls(this, calls, options).promise;
  }

  /** Closes the session after its turns. end: reason, changedFiles and the like (tp_session_end). */
  close(end) {
    const host = this.runtime[HANDLE];
    return (this.#closing ??= host.isClosed
      ? Promise.resolve()
      : host.submit((handle, key) => core.sessionClose(handle, this[HANDLE], end, key)).then(() => {}));
  }

  [ASYNC_DISPOSE]() {
    return this.close();
  }
}

/* (options, function), of which options may be left out. */
function optionsAnd(options, run, what) {
  if (typeof options === 'function' && run === undefined) return [{}, options];
  if (options !== undefined && (options === null || typeof options !== 'object'))
    throw new TypeError(`${what}: options are an object`);
  return [options ?? {}, functionOf(run, what)];
}

function functionOf(given, what) {
  if (typeof given === 'function') return given;
  throw new TypeError(`${what} needs a function`);
}

const edgesOf = (targets) =>
  targets === undefined ? undefined : (Array.isArray(targets) ? targets : [targets]).map((target) => ({ target }));

/** Registrations, and the sessions whose turns run with them, in one loop. */
class Runtime {
  #drainMs;
  #closing;
  #names = 0;

  constructor(host, drainMs) {
    if (!(host instanceof Host)) throw new TypeError('a runtime is opened: await Runtime.open()');
    this[HANDLE] = host;
    this.#drainMs = drainMs;
  }

  /** Opens a runtime: parts, database, onQuestion, onLog, drainMs, and members of tp_runtime_options. pump: whether the
   *  loop's thread also does the work of the library; left out: true if there are no parts, no database, and no option
   *  that counts threads. */
  static async open({ parts = [], database, onQuestion, onLog, drainMs = 5000, pump, ...options } = {}) {
    if (!Array.isArray(parts) || !parts.every((part) => part instanceof Part))
      throw new TypeError('parts are memory(), files(), skills(), declaredHooks() and mcp()');
    if (database !== undefined && !(database instanceof Database)) throw new TypeError('database is sqlite(path)');
    for (const [name, given] of Object.entries({ onQuestion, onLog }))
      if (given !== undefined) functionOf(given, name);
    pump ??= parts.length === 0 && database === undefined && !OF_THREADS.some((name) => options[name] !== undefined);
    const host = new Host(onLog);
    host.question = onQuestion;
    await host.open({ pump, ...options }, database?.options, onQuestion !== undefined);
    const runtime = new Runtime(host, drainMs);
    try {
      for (const part of parts) await core.domainAdd(host.use(), part.kind, part.options, part.trusted);
      if (onQuestion) core.listen(host.use(), undefined, EVENT_BITS.get('question'), 0);
      await core.start(host.use());
      host.isStarted = true;
    } catch (error) {
      await runtime.close({ drainMs: 0 });
      throw error;
    }
    return runtime;
  }

  get isClosed() {
    return this.#closing !== undefined;
  }

  /** Refuses new turns, lets running ones end, cancels the rest after drainMs, closes sessions, and frees the
   *  runtime. */
  close({ drainMs = this.#drainMs } = {}) {
    return (this.#closing ??= this[HANDLE].close(drainMs));
  }

  [ASYNC_DISPOSE]() {
    return this.close();
  }

  /* ---- registering ---- */

  #register(registered, add) {
    const host = this[HANDLE],
      key = host.keep(registered);
    try {
      add(host.use(), key);
    } catch (error) {
      host.drop(key);
      throw error;
    }
  }

  /** Registers a function as a hook of a phase: hook(phase, [options], function). */
  hook(phase, options, run) {
    [options, run] = optionsAnd(options, run, 'a hook');
    const { tools, agents, modes, after, before, needs, id = run.name || `hook-${++this.#names}`, ...rest } = options;
    const match = tools || agents || modes ? { tools, agents, modes } : undefined;
    const edges = { after: edgesOf(after), before: edgesOf(before), needs: edgesOf(needs) };
    this.#register(new Hook(run, id), (handle, key) =>
      core.hookAdd(handle, { id, phase, match, ...edges, ...rest }, key),
    );
  }

  /** A hook whose failure denies: hook() with failure: 'required'. */
  guard(phase, options, run) {
    [options, run] = optionsAnd(options, run, 'a guard');
    this.hook(phase, { failure: 'required', ...options }, run);
  }

  removeHook(id) {
    core.hookRemove(this[HANDLE].use(), id);
  }

  /** Registers a function as a tool of every turn: tool(name, [options], function). */
  tool(name, options, run) {
    [options, run] = optionsAnd(options, run, 'a tool');
    const { schema: given, ...rest } = options;
    const { schema, check } = schemaOf(given, name);
    const registered = new Tool(run, name, check);
    this.#register(registered, (handle, key) => core.toolAdd(handle, { name, schema, ...rest }, key));
  }

  removeTool(name) {
    core.toolRemove(this[HANDLE].use(), name);
  }

  /* Calls give(model, options and names of a function) for a model, and returns its result; on failure the model is not
   * kept. */
  #withModel(model, give) {
    const host = this[HANDLE];
    if (model === undefined || model === null) return give(undefined, undefined);
    if (model instanceof LibraryModel)
      return give(core.modelNew(host.use(), model.kind, model.script, model.options));
    if (typeof model === 'function') model = new FunctionModel(model, {});
    if (!(model instanceof FunctionModel))
      throw new TypeError('a model is openai(), script(), functionModel() or a function of a request');
    const { name = functionOf(model.run, 'a model').name || 'model', provider = '' } = model.options;
    const registered = new Model(model.run, name);
    registered.names = Buffer.from(`${name}\0${provider}\0`); // the library reads these bytes until it destroys the
                                                              // model
    const key = host.keep(registered);
    try {
      return give(key, { ...model.options, name }, registered.names);
    } catch (error) {
      host.drop(key);
      throw error;
    }
  }

  /* ---- agents, sessions ---- */

  /** Adds an agent. tools: the names of the tools that its turns may use; extra: further keys of its config; model;
   *  other options are members of tp_agent_config (turnphase/turn.h). */
  async agent({ model, tools, extra, ...options } = {}) {
    const config = tools || extra ? { ...extra, ...(tools && { tools }) } : undefined;
    const host = this[HANDLE];
    let made, key;
    const handle = await this.#withModel(model, (given, modelOptions, names) => {
      if (typeof given === 'number') key = given;
      else made = given;
      return host.submit((runtime, end) =>
        core.agentAdd(runtime, { ...options, extra: config }, given, modelOptions, names, end),
      );
    }).catch((error) => {
      if (key) host.drop(key);
      throw error;
    });
    if (made) core.disown(host.use(), made);
    return new Agent(this, options.id, handle);
  }

  /** Opens a session. agent; model: openai(), script(), functionModel(), or a function of a request; other options are
   *  members of tp_session_options (turnphase/turn.h). */
  session({ id = randomUUID(), agent, model, ...options } = {}) {
    const runtime = this[HANDLE].use();
    if (agent !== undefined && !(agent instanceof Agent)) throw new TypeError('agent is what runtime.agent() gives');
    return new Session(
      this,
      id,
      this.#withModel(model, (given, modelOptions, names) =>
        core.sessionOpen(runtime, { id, ...options }, agent?.[HANDLE], given, modelOptions, names),
      ),
    );
  }

  /** Waits until no background job is open. @return a promise of false when the limit has passed. */
  async waitForJobs(limitMs = 60000) {
    return (await this[HANDLE].submit((handle, key) => core.jobsWait(handle, limitMs, key))) === 0;
  }
}

module.exports = { Runtime, Session, Agent };
