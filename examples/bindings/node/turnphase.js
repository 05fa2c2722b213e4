// SPDX-License-Identifier: Apache-2.0
/* turnphase through koffi 3, for Node's one thread: every struct, constant and function of the core, none of them
 * declared by hand. turnphase.abi.json, which is installed with the library, describes them.
 *
 * Handlers come out of an inbox: libuv polls its descriptor with the rest of Node's loop, and no thread waits. A turn
 * is submitted; its end is awaited on a thread of libuv's pool, which calls no JavaScript. A match and a tool have no
 * inbox: koffi has their thread of the library wait until Node's loop calls them, so a turn that has some must be
 * submitted, and Node's thread must not be in a synchronous call that waits for the runtime meanwhile.
 *
 * No exception crosses C: a callback that throws returns 0, which is no answer, and a handler that throws has failed.
 */
'use strict';

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const { promisify } = require('node:util');
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
koffi.proto('int32_t tp_callback(void *ctx, void *what)'); // a match or a tool

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
const submissionWait = promisify(lib.tp_submission_wait.async);

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

/** Makes a match or a tool callable from C; one that throws returns 0. It stays until the process ends. */
function callback(run) {
  return koffi.register((ctx, what) => {
    try {
      return run(what);
    } catch {
      return 0;
    }
  }, 'tp_callback *');
}

/** Calls the handlers whose work comes into the inbox, by the ids of their subscriptions: each returns the fields of
 *  its tp_outcome, now or later (a promise). One that throws has failed. */
class Inbox {
  constructor(runtime, handlers) {
    this.handle = made('tp_inbox_new', runtime, null);
    this.handlers = handlers;
    // uv_poll of libuv; koffi has it without a page in its manual, which is one reason to pin koffi's version.
    this.poll = koffi.node.poll(lib.tp_inbox_fd(this.handle), () => this.takeAll());
  }

  takeAll() {
    const work = [null];
    while (lib.tp_inbox_next(this.handle, work) === 0 && work[0] !== null) {
      void this.answer(koffi.decode(work[0], structs.tp_work));
    }
  }

  async answer(work) {
    let outcome;
    try {
      outcome = await this.handlers[lib.tp_call_subscription(work.call)](work.call);
    } catch (error) {
      outcome = { kind: C.TP_ANSWER_FAILED, reason: error.message };
    }
    lib.tp_token_complete(work.token, struct('tp_outcome', outcome), null); // TP_ERR_STALE: it came too late
  }

  close() {
    this.poll.close();
    lib.tp_inbox_free(this.handle);
  }
}

/** Runs a turn; Node's loop runs on meanwhile. Resolves with what came of it. */
async function turn(session, message) {
  const submission = made('tp_turn_submit', session, struct('tp_turn_request', { text: text(message) }), null, null);
  const result = [null], fault = {};
  try {
    if (await submissionWait(submission, 0xffffffff, result, fault) !== 0) throw new Error(fault.message);
    const ended = koffi.decode(result[0], structs.tp_turn_result);
    return {
      ...ended, text: words(ended.text), subscription: words(ended.subscription), reason: words(ended.bare_reason),
    };
  } finally {
    lib.tp_submission_unref(submission);
  }
}

module.exports = { C, Inbox, call, callback, lib, made, struct, text, turn, words };
