// SPDX-License-Identifier: Apache-2.0
/* Calls of hooks, tools and models. A call can be read until it is answered, its limit has passed, or its turn was
 * cancelled. After that, reading it throws a TurnphaseError with the code TP_ERR_STALE. */
'use strict';

const core = require('./core.js');
const { Verdict, Answer, none } = require('./answers.js');
const { ToolError, ModelError } = require('./errors.js');
const { Turn } = require('./turn.js');
const { HANDLE, HOST, ID } = require('./names.js');

const TENANT = 0,
  AGENT = 1,
  SESSION = 3,
  TURN = 5;

class Work {
  constructor(host, id) {
    this[HOST] = host;
    this[ID] = id;
  }

  get tenant() {
    return core.id(this[HOST][HANDLE], this[ID], TENANT);
  }
  get agentId() {
    return core.id(this[HOST][HANDLE], this[ID], AGENT);
  }
  get sessionId() {
    return core.id(this[HOST][HANDLE], this[ID], SESSION);
  }
  get turnId() {
    return core.id(this[HOST][HANDLE], this[ID], TURN);
  }
  /** Milliseconds until its limit, after which its answer is discarded. */
  get timeLeftMs() {
    return core.timeLeft(this[HOST][HANDLE], this[ID]);
  }
  /** Whether an answer would still have an effect. */
  get isOpen() {
    return !this[HOST].isClosed && core.isOpen(this[HOST][HANDLE], this[ID]);
  }
  /** An AbortSignal: aborted when the limit passes or the turn is cancelled. */
  get signal() {
    return this[HOST].signalOf(this[ID]);
  }
}

/** A call of a hook or a run of a tool. */
class TurnWork extends Work {
  get mode() {
    return core.mode(this[HOST][HANDLE], this[ID]);
  }
  get agentConfig() {
    return core.agentConfig(this[HOST][HANDLE], this[ID]);
  }

  /** A nested turn of another session; it ends with this call. */
  turn(session, text, options) {
    return new Turn(session, text, options, this[ID]);
  }
}

/** A call of a hook. */
class Call extends TurnWork {
  get phase() {
    return core.phase(this[HOST][HANDLE], this[ID]);
  }
  get subscription() {
    return core.subscription(this[HOST][HANDLE], this[ID]);
  }
  get attempt() {
    return core.attempt(this[HOST][HANDLE], this[ID]);
  }
  /** A field of the payload by its name in docs/phases.md; undefined if it is missing. */
  get(field) {
    return core.get(this[HOST][HANDLE], this[ID], field);
  }
  /** The user's message. */
  get text() {
    return this.get('text') ?? '';
  }
  get tool() {
    return this.get('tool') ?? '';
  }
  /** The arguments of the tool: an object; a string if the provider could not decode them. */
  get arguments() {
    return this.get('arguments');
  }
  payload() {
    return core.payload(this[HOST][HANDLE], this[ID]);
  }
  /** The conversation so far. */
  messages() {
    return core.messages(this[HOST][HANDLE], this[ID]);
  }
  policy(domain, key) {
    return core.policy(this[HOST][HANDLE], this[ID], domain, key);
  }
  /** Replaces fields of the payload, in a phase that allows it, when this call succeeds. */
  replace(fields) {
    core.replace(this[HOST][HANDLE], this[ID], fields);
  }
  /** Adds a contribution to the answer: tp_contribution of turnphase/handler.h. */
  emit(contribution) {
    core.emit(this[HOST][HANDLE], this[ID], contribution);
  }
  addContext(key, text, { weight } = {}) {
    this.emit({ kind: 'prompt_context', key, text, weight });
  }
  addSection(key, text, { title, weight } = {}) {
    this.emit({ kind: 'prompt_section', key, title, text, weight });
  }
  addPolicy(domain, key, value, { weight } = {}) {
    this.emit({ kind: 'policy', domain, key, text: value, weight });
  }
  addReminder(text) {
    this.emit({ kind: 'reminder', text });
  }
  addAudit(key, text) {
    this.emit({ kind: 'audit', key, text });
  }
  addDiagnostic(key, text, { severity = 'info' } = {}) {
    this.emit({ kind: 'diagnostic', key, text, severity });
  }
}

/** A run of a tool: the second argument of its function. */
class ToolRun extends TurnWork {
  get name() {
    return core.name(this[HOST][HANDLE], this[ID]);
  }
  get callId() {
    return core.callId(this[HOST][HANDLE], this[ID]);
  }
  get arguments() {
    return core.arguments(this[HOST][HANDLE], this[ID]);
  }
}

/** A request to a model. A member is made when it is first read, which must be before the answer. */
class ModelRequest extends Work {
  #members = {};

  #member(name, empty) {
    return (this.#members[name] ??= core.request(this[HOST][HANDLE], this[ID], name) ?? empty);
  }

  get messages() {
    return this.#member('messages', none);
  }
  get tools() {
    return (this.#members.shownTools ??= this.#member('tools', none).map(({ name, description = '', schema }) => ({
      name,
      description,
      schema: schema ?? { type: 'object' },
    })));
  }
  get system() {
    return this.#member('system', '');
  }
  /** The name of the wanted model; '' if none is named. */
  get model() {
    return this.#member('model', '');
  }
  get attempt() {
    return this.#member('attempt', 0);
  }
  get parameters() {
    return (this.#members.parameters ??= this.#member('parameters', {}));
  }
  get files() {
    return this.#member('files', none);
  }
  get answerSchema() {
    return this.#member('answer_schema');
  }
}

/* ---- functions that are registered ---- */

const isPromise = (value) => typeof value?.then === 'function';

class Registered {
  constructor(run, name) {
    Object.assign(this, { run, name });
  }

  /** Calls the function, and answers the call when the function has ended. */
  begin(host, id) {
    let given;
    try {
      given = this.call(host, id);
      if (isPromise(given)) {
        Promise.resolve(given).then(
          (value) => this.answer(host, id, value),
          (error) => this.fail(host, id, error),
        );
        return;
      }
    } catch (error) {
      this.fail(host, id, error);
      return;
    }
    this.answer(host, id, given);
  }

  answer(host, id, value) {
    if (host.isClosed) return; // the answer came too late
    try {
      this.complete(host, id, value);
    } catch (error) {
      this.fail(host, id, error);
      return;
    }
    host.over(id);
  }

  fail(host, id, error) {
    if (host.isClosed) return;
    if (!core.isOpen(host[HANDLE], id)) {
      // the answer came too late, or the call was cancelled: it is discarded
      core.abandon(host[HANDLE], id);
      return host.over(id);
    }
    const told = described(error);
    if (!told.isMeant) host.warn(`${this.name} has thrown ${told.kind}`, error);
    try {
      this.completeFailed(host, id, told);
    } catch (worse) {
      // there was no memory for the words
      host.warn(`${this.name}: its failure could not be answered`, worse);
      core.abandon(host[HANDLE], id);
    }
    host.over(id);
  }
}

/* Describes a thrown value: {kind, words, isMeant, status, retryable}. isMeant: it is a ToolError or a ModelError. */
function described(error) {
  try {
    const isModels = error instanceof ModelError,
      isMeant = isModels || error instanceof ToolError;
    const kind = error instanceof Error ? String(error.name) : `a ${typeof error}`;
    const message = error instanceof Error ? String(error.message) : typeof error === 'string' ? error : '';
    const words = isMeant ? message : message && kind !== 'a string' ? `${kind}: ${message}` : message || kind;
    return {
      kind,
      isMeant,
      words: words.replaceAll('\0', '\\0'),
      status: isModels ? error.status : 710,
      retryable: isModels && error.retryable === true,
    };
  } catch {
    // an object that cannot be read
    return { kind: 'an object', words: 'an object was thrown', isMeant: false, status: 710, retryable: false };
  }
}

class Hook extends Registered {
  call(host, id) {
    return this.run(new Call(host, id));
  }

  complete(host, id, verdict) {
    if (verdict === undefined || verdict === null) core.abstain(host[HANDLE], id);
    else if (!(verdict instanceof Verdict))
      throw new TypeError(
        `${this.name} returned a ${typeof verdict}: a hook returns allow(), deny(), ask(), failed() ` + 'or nothing',
      );
    else if (verdict.kind === 'allow') core.allow(host[HANDLE], id);
    else core.complete(host[HANDLE], id, verdict);
  }

  completeFailed(host, id, { kind }) {
    core.complete(host[HANDLE], id, { kind: 'failed', reason: `${this.name} has thrown ${kind}` });
  }
}

class Tool extends Registered {
  constructor(run, name, check) {
    super(run, name);
    this.check = check;
  }

  call(host, id) {
    const run = new ToolRun(host, id);
    if (!this.check) return this.run(run.arguments, run);
    const given = this.check(run.arguments);
    return isPromise(given) ? Promise.resolve(given).then((checked) => this.run(checked, run)) : this.run(given, run);
  }

  complete(host, id, given) {
    if (typeof given === 'string') core.answer(host[HANDLE], id, given);
    else if (given === undefined || given === null) core.answer(host[HANDLE], id, {});
    else core.answer(host[HANDLE], id, given instanceof Answer ? given : { value: given });
  }

  completeFailed(host, id, { words }) {
    core.answer(host[HANDLE], id, { isError: true, text: words });
  }
}

class Model extends Registered {
  call(host, id) {
    const given = this.run(new ModelRequest(host, id));
    return typeof given?.[Symbol.asyncIterator] === 'function' ? this.#pieces(host, id, given) : given;
  }

  /* Passes on what a model yields: deltas at once, the rest in its response. */
  async #pieces(host, id, pieces) {
    const calls = [];
    let said = '',
      last = {};
    for await (const piece of pieces) {
      if (host.isClosed) return last;
      if (typeof piece === 'string') {
        said += piece;
        if (!core.delta(host[HANDLE], id, piece)) break; // the call is over, so the generator ends
      } else if (typeof piece?.thinking === 'string') {
        if (!core.thinking(host[HANDLE], id, piece.thinking)) break;
      } else if (piece?.call) {
        calls.push(piece.call);
      } else {
        last = this.#response(piece);
      }
    }
    return { ...last, text: last.text || said, calls: [...calls, ...(last.calls ?? [])] };
  }

  #response(given) {
    if (typeof given === 'string') return { text: given };
    if (given !== null && typeof given === 'object' && !Array.isArray(given)) return given;
    throw new TypeError(
      `${this.name} returned ${given === null ? 'null' : `a ${typeof given}`}: a model returns a ` +
        'string or a response, or yields strings, { thinking }, { call } and at last a response',
    );
  }

  complete(host, id, given) {
    core.respond(host[HANDLE], id, typeof given === 'string' ? given : this.#response(given));
  }

  completeFailed(host, id, { status, words, retryable }) {
    core.fail(host[HANDLE], id, status, words, retryable);
  }
}

module.exports = { Call, ToolRun, ModelRequest, Hook, Tool, Model };
