// SPDX-License-Identifier: Apache-2.0
/* turnphase through koffi 3, for Node's one thread: every struct, constant and function of the core, none of them
 * declared by hand. turnphase.abi.json, which is installed with the library, describes them.
 *
 * Everything comes out of one inbox, whose descriptor libuv polls with the rest of Node's loop: calls of handlers,
 * tools and models, their cancels, and the ends of what was submitted. No thread waits for anything, neither of the
 * library nor of libuv's pool, so a guard may read a file however many turns there are. Only a match has no inbox:
 * koffi has its thread of the library wait until Node's loop calls it, so that Node's thread must not be in a
 * synchronous call that waits for the runtime meanwhile.
 *
 * No exception crosses C: a match that throws returns 0, which is no answer, and a handler that throws has failed.
 */
'use strict';

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const koffi = require('koffi');

const abiPath = process.env.TURNPHASE_ABI ??
  execFileSync('pkg-config', ['--variable=abi', 'turnphase'], { encoding: 'utf8' }).trim();
const abi = JSON.parse(fs.readFileSync(abiPath, 'utf8'));
const library = koffi.load(process.env.TURNPHASE_LIBRARY ?? 'libturnphase.so.0.1');

// Every constant: C.TP_FAILURE_REQUIRED. One of 64 bits is a BigInt.
const C = Object.assign({}, ...Object.values(abi.enums).map(({ values }) => values));
for (const [name, { type, value }] of Object.entries(abi.constants)) {
  C[name] = type === 'uint64_t' ? BigInt(value) : value;
}

const structs = {};

/* What koffi calls a type of C. A pointer to a struct is what koffi copies for the time of the call: an object; a list,
 * an array of them. Any other pointer is a BigInt, null or a Buffer. */
function typeOf(words) {
  const plain = words.replace(/\b(const|struct)\b\s*/g, '').replace(/\s/g, '').replace(/\[.*\]$/, '*');
  const [, name, stars] = /^(\w+)(\**)/.exec(plain);
  if (plain.includes('(*)') || name in abi.callbacks) return 'void *';
  if (name in abi.handles) return `void *${stars.slice(1)}`;
  if (name === 'char' && stars === '*') return 'const char *';
  if (name in abi.structs) return struct_(name) ? `${name} ${stars}` : 'void *';
  const { type } = abi.types[name] ?? abi.enums[name] ?? { type: plain };
  const number = type === 'enum' ? 'uint32_t' : type.replace(/\*.*/, '');
  return `${number === 'unsignedchar' ? 'uint8_t' : number} ${stars}`;
}

/* Makes the struct, and those that it names. @return false inside of a cycle of pointers. */
function struct_(name) {
  if (structs[name] !== undefined) return structs[name] !== null;
  structs[name] = null;
  const fields = {};
  for (const { name: field, type, kind, length } of abi.structs[name].members) {
    fields[field] = length ? koffi.array(typeOf(type).trim(), length) : kind === 'pointer' && type === 'const char *'
      ? 'void *' : typeOf(type);
  }
  structs[name] = koffi.struct(name, fields);
  for (const { name: field, offset, size } of abi.structs[name].members) {
    const member = koffi.type(structs[name]).members[field];
    if (member.offset !== offset || koffi.sizeof(member.type) !== size) {
      throw new Error(`${name}.${field} does not lie as ${abiPath} says`);
    }
  }
  return true;
}
for (const name of Object.keys(abi.structs)) struct_(name);
koffi.proto('int32_t tp_callback(void *ctx, void *what)'); // a match
koffi.proto('void tp_destroyed(void *ctx)');

/* Every function, declared when it is first named. What begins with ret_, and a fault, is an array or an object that
 * the function fills. */
const lib = new Proxy({}, {
  get(known, name) {
    if (!(name in known)) {
      const described = abi.functions[name];
      const parameters = described.parameters.map(({ name: parameter, type }) => {
        const isResult = /^ret_/.test(parameter);
        const kind = isResult && /\*\s*(const\s*)?\*$/.test(type) ? 'void **' : typeOf(type);
        return `${isResult || parameter === 'fault' ? '_Out_ ' : ''}${kind} ${parameter}`;
      });
      known[name] = library.func(`${typeOf(described.returns)} ${name}(${parameters.join(', ') || 'void'})`);
    }
    return known[name];
  },
});

/** A struct that may grow: struct_size is set, and koffi fills with zero what is not named. */
function struct(name, fields) {
  const { members } = koffi.type(structs[name]);
  for (const field of Object.keys(fields)) {
    if (!(field in members)) throw new TypeError(`${name} has no ${field}`);
  }
  return { struct_size: koffi.sizeof(structs[name]), ...fields };
}

/** A tp_text, as the value of a field. */
function text(words) {
  const data = Buffer.from(words);
  return { data, size: data.length };
}

/** What a tp_text says. */
function words(text) {
  return text.size ? koffi.decode.string(text.data, Number(text.size)) : '';
}

/** Calls a function whose last parameter is a fault. */
function call(name, ...args) {
  const fault = {};
  if (lib[name](...args, fault) !== 0) throw new Error(`${name}: ${fault.message}`);
}

/** What a function gives through the parameter before its fault. */
function made(name, ...args) {
  const result = [null];
  call(name, ...args, result);
  return result[0];
}

/** Makes a match callable from C; one that throws returns 0. It stays until the process ends. */
function callback(run) {
  return koffi.register((ctx, what) => {
    try {
      return run(what);
    } catch {
      return 0;
    }
  }, 'tp_callback *');
}

/** A runtime in Node's loop. What is called is a function of the host: of a handler's call, a tool's run or a model's
 *  request, and of { signal }, an AbortSignal for when the answer is no longer wanted. It returns the fields of a
 *  tp_outcome, a text or the fields of a tp_tool_answer, or the fields of a tp_model_response, now or later (a
 *  promise). One that throws has failed. */
class Host {
  constructor(options = {}) {
    this.runtime = made('tp_runtime_new', struct('tp_runtime_options', options));
    this.inbox = made('tp_inbox_new', this.runtime, null);
    this.known = new Map(); // what a ctx stands for: a function, or what to call with an end
    this.open = new Map();  // an AbortController for each taken call, by token
    this.cancels = 0;       // how many calls were no longer wanted
    this.next = 1n;
    this.destroy = koffi.register((ctx) => { this.known.delete(ctx); }, 'tp_destroyed *');
    // uv_poll of libuv; koffi has it without a page in its manual, which is one reason to pin koffi's version.
    this.poll = koffi.node.poll(lib.tp_inbox_fd(this.inbox), () => this.take());
  }

  /* The ctx of something that the library gives back. */
  ctxOf(value) {
    this.known.set(this.next, value);
    return this.next++;
  }

  take() {
    const taken = [null];
    while (lib.tp_inbox_next(this.inbox, taken) === C.TP_OK && taken[0] !== null) {
      const work = koffi.decode(taken[0], structs.tp_work);
      if (work.kind >= C.TP_WORK_HANDLER && work.kind <= C.TP_WORK_MODEL) {
        void this.answer(work);
        continue;
      }
      if (work.kind === C.TP_WORK_CANCEL) {
        this.cancels++;
        this.open.get(String(work.token.bits))?.abort();
      } else if (work.kind === C.TP_WORK_END) {
        const ended = koffi.decode(work.end, structs.tp_work_end);
        const resolve = this.known.get(BigInt(work.ctx));
        this.known.delete(BigInt(work.ctx));
        resolve(ended.kind === C.TP_END_TURN ? turnOf(ended.turn) : undefined);
      }
      lib.tp_work_release(taken[0]); // of a DESTROY it calls destroy
    }
  }

  async answer(work) {
    const token = String(work.token.bits);
    const controller = new AbortController();
    this.open.set(token, controller);
    const what = [, work.call, work.run, work.request][work.kind];
    let answer, problem;
    try {
      answer = await this.known.get(BigInt(work.ctx))(what, controller);
    } catch (error) {
      problem = String(error?.message ?? error);
    }
    this.open.delete(token);
    // What these return is TP_ERR_STALE when the answer came too late.
    if (work.kind === C.TP_WORK_HANDLER) {
      const failed = { kind: C.TP_ANSWER_FAILED, reason: problem };
      lib.tp_token_complete(work.token, struct('tp_outcome', problem === undefined ? answer : failed), null);
    } else if (work.kind === C.TP_WORK_TOOL) {
      const said = typeof answer === 'string' ? { text: text(answer) } : answer;
      const fields = problem === undefined ? said : { is_error: true, text: text(problem) };
      lib.tp_tool_complete_with(work.token, struct('tp_tool_answer', fields), null);
    } else if (problem === undefined) {
      lib.tp_model_complete(work.token, struct('tp_model_response', answer), null);
    } else {
      lib.tp_model_fail(work.token, C.TP_ERR_MODEL, problem, false, null);
    }
  }

  /* Submits something whose last parameters are on_end and ctx. @return a promise of its end. */
  ended(kind, submit) {
    let settle;
    const promise = new Promise((resolve) => { settle = resolve; });
    const ctx = this.ctxOf(settle);
    const end = made('tp_end_new', this.inbox, ctx);
    try {
      submit(library.symbol(`tp_end_of_${kind}`, 'void'), end);
    } catch (error) {
      lib.tp_end_free(end);
      this.known.delete(ctx);
      throw error;
    }
    return promise;
  }

  hook(id, phase, run, fields = {}) {
    call('tp_hook_add', this.runtime, struct('tp_hook', {
      id, phase, inbox: this.inbox, ctx: this.ctxOf(run), destroy: this.destroy, ...fields,
    }));
  }

  /** A tool that every turn has. */
  tool(name, run, fields = {}) {
    call('tp_tool_add', this.runtime, struct('tp_tool', {
      name, inbox: this.inbox, ctx: this.ctxOf(run), destroy: this.destroy, ...fields,
    }));
  }

  session(id, model, fields = {}) {
    const described = typeof model === 'function'
      ? struct('tp_model', { name: id, inbox: this.inbox, ctx: this.ctxOf(model), destroy: this.destroy })
      : model;
    return new Session(this, made('tp_session_open', this.runtime, struct('tp_session_options', {
      id, model: described, ...fields,
    })));
  }

  /** Drains the runtime and ends it. */
  async close() {
    await this.ended('drain', (onEnd, end) => call('tp_runtime_drain_submit', this.runtime, 10000, onEnd, end));
    lib.tp_runtime_free(this.runtime);
    this.take(); // what the end of the runtime put there: destroys
    this.poll.close();
    lib.tp_inbox_free(this.inbox);
  }
}

class Session {
  constructor(host, handle) {
    this.host = host;
    this.handle = handle;
  }

  /** Submits a turn. end: a promise of what came of it; cancel(): ends it now. */
  turn(message, fields = {}) {
    const submission = [null];
    const end = this.host.ended('turn', (onEnd, ctx) => call('tp_turn_submit', this.handle,
      struct('tp_turn_request', { text: text(message), ...fields }), onEnd, ctx, submission));
    const unref = () => { lib.tp_submission_unref(submission[0]); submission[0] = null; };
    return {
      end: end.finally(unref),
      cancel: () => lib.tp_submission_cancel(submission[0]), // accepts null
    };
  }

  /** @return a promise: the id may be opened again. */
  close() {
    return this.host.ended('session', (onEnd, end) => lib.tp_session_close(this.handle, onEnd, end));
  }
}

function turnOf(result) {
  const ended = koffi.decode(result, structs.tp_turn_result);
  return {
    ...ended, text: words(ended.text), subscription: words(ended.subscription), reason: words(ended.bare_reason),
  };
}

/** The messages of a model's request. */
function messages(request) {
  const { messages: list, message_count: count } = koffi.decode(request, structs.tp_model_request);
  return koffi.decode(list, 'void *', Number(count)).map((message) => koffi.decode(message, structs.tp_message));
}

module.exports = { C, Host, call, callback, lib, made, messages, struct, text, words };
