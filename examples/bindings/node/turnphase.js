// SPDX-License-Identifier: Apache-2.0
/* turnphase through koffi 3, for Node's one thread: the structs and functions that a guard, a match, a tool and a turn
 * need.
 *
 * Handlers come out of an inbox: libuv polls its descriptor with the rest of Node's loop, and no thread waits. A turn
 * is submitted; its end is awaited on a thread of libuv's pool, which calls no JavaScript. A match and a tool have no
 * inbox: koffi has their thread of the library wait until Node's loop calls them, so a turn that has some must be
 * submitted, and Node's thread must not be in a synchronous call that waits for the runtime meanwhile.
 *
 * No exception crosses C: a callback that throws returns 0, which is no answer, and a handler that throws has failed.
 */
'use strict';

const fs = require('node:fs');
const { promisify } = require('node:util');
const koffi = require('koffi');

const ANSWER = { NONE: 0, DONE: 1, ALLOW: 2, DENY: 3, FAILED: 5 }; // tp_answer
const MATCH = { NONE: 0, YES: 1, NO: 2 };                          // TP_MATCH_*
const OUTCOME = { COMPLETED: 1, DENIED: 3 };                       // tp_turn_outcome
const STATE = { SUCCEEDED: 3, FAILED: 4 };                         // tp_state
const REASON = { NONE: 0, ERROR: 1, MALFORMED: 6 };                // tp_reason
const REQUIRED = 3;                                                // tp_failure
const DECIDE = 1n << 32n;                                          // TP_CAPABILITY_DECIDE
const FIELD = { TEXT: 1, CALLS: 31 };                              // TP_FIELD_*

const structs = {}; // those with struct_size

function growable(name, fields) {
  structs[name] = koffi.struct(name, { struct_size: 'size_t', ...fields });
}

// A pointer is a BigInt, null, or what koffi copies for the time of the call: an object, an array, a Buffer.
const tp_text = koffi.struct('tp_text', { data: 'void *', size: 'size_t' });
const tp_token = koffi.struct('tp_token', { bits: 'uint64_t' });
const tp_fault = koffi.struct('tp_fault', {
  code: 'int32_t', phase: 'uint32_t', line: 'uint32_t', column: 'uint32_t', system_error: 'int32_t',
  reserved_: 'uint32_t', reserved_words_: koffi.array('uint64_t', 12), subject: koffi.array('char', 129),
  message: koffi.array('char', 512), reserved_bytes_: koffi.array('uint8_t', 7),
});
koffi.proto('int32_t tp_callback(void *ctx, void *what)'); // a match or a tool
growable('tp_work', { kind: 'uint32_t', reserved_: 'uint32_t', token: 'tp_token', ctx: 'void *', call: 'void *' });
growable('tp_outcome', {
  kind: 'int32_t', code: 'uint32_t', retryable: 'bool', reserved_: koffi.array('uint8_t', 3), why: 'uint32_t',
  reason: 'const char *', contributions: 'void *', contribution_count: 'size_t',
  replacements: 'void *', replacement_count: 'size_t',
});
growable('tp_hook', {
  id: 'const char *', phase: 'const char *', run: 'void *', inbox: 'void *', ctx: 'void *', destroy: 'void *',
  failure: 'uint32_t', limit_ms: 'uint32_t', placement: 'uint32_t', reserved_: 'uint32_t',
});
growable('tp_match', {
  matches: 'tp_callback *', destroy: 'void *', ctx: 'void *', description: 'const char *', fields: 'void *',
  field_count: 'size_t',
});
growable('tp_handler', {
  id: 'const char *', summary: 'const char *', run: 'void *', inbox: 'void *', ctx: 'void *', destroy: 'void *',
  phases: 'uint32_t *', phase_count: 'size_t', capabilities: 'uint64_t', contract_version: 'uint32_t',
  placement: 'uint32_t', idempotent: 'bool', reserved_: koffi.array('uint8_t', 7),
});
growable('tp_subscription', {
  id: 'const char *', handler: 'const char *', phase: 'uint32_t', phase_name: 'const char *', disabled: 'bool',
  priority: 'int32_t', execution: 'uint32_t', limit_ms: 'uint32_t', failure: 'uint32_t',
  fallback_verdict: 'uint32_t', fallback: 'void *', fallback_count: 'size_t', attempts: 'uint32_t',
  backoff: 'uint32_t', backoff_ms: 'uint32_t', max_concurrent: 'uint32_t', sequential: 'uint32_t',
  visibility: 'uint32_t', after: 'void *', before: 'void *', needs: 'void *', after_count: 'size_t',
  before_count: 'size_t', needs_count: 'size_t', match: 'tp_match *', metadata: 'const char *',
});
growable('tp_tool', {
  name: 'const char *', description: 'const char *', schema: tp_text, run: 'tp_callback *', ctx: 'void *',
  placement: 'uint32_t', idempotent: 'bool', max_concurrent: 'uint32_t', limit_ms: 'uint32_t',
  result_bytes_max: 'uint32_t', reserved_: 'uint32_t',
});
growable('tp_tool_call', {
  id: tp_text, name: tp_text, arguments: tp_text, malformed: 'bool', reserved_: 'uint32_t',
});
growable('tp_model_response', {
  text: tp_text, calls: 'tp_tool_call **', call_count: 'size_t', stop_reason: tp_text, input_tokens: 'int64_t',
  output_tokens: 'int64_t', cost_micros: 'int64_t',
});
// What stands behind the last field of these is left out: an older and shorter struct is as good.
growable('tp_session_options', {
  id: 'const char *', tenant: 'const char *', workspace: 'const char *', thread: 'const char *', agent: 'void *',
  model: 'void *',
});
growable('tp_turn_request', {
  id: 'const char *', task: 'const char *', run: 'const char *', mode: 'const char *', caller: 'uint32_t',
  text: tp_text,
});
growable('tp_turn_result', {
  outcome: 'uint32_t', code: 'uint32_t', text: tp_text, reason: tp_text, turn_id: tp_text, phase: 'uint32_t',
  state: 'uint32_t', why: 'uint32_t', iterations: 'uint32_t', tool_calls: 'uint32_t', reserved_: 'uint32_t',
  subscription: tp_text, bare_reason: tp_text,
});

const library = koffi.load(process.env.TURNPHASE_LIBRARY ?? 'libturnphase.so.0.1');
const lib = {};
for (const declaration of [
  'int32_t tp_runtime_new(void *options, _Out_ void **runtime, _Out_ tp_fault *fault)',
  'void tp_runtime_free(void *runtime)',
  'int32_t tp_inbox_new(void *runtime, void *options, _Out_ void **inbox, _Out_ tp_fault *fault)',
  'int tp_inbox_fd(void *inbox)',
  'int32_t tp_inbox_next(void *inbox, _Out_ void **work)',
  'void tp_inbox_free(void *inbox)',
  'int32_t tp_hook_add(void *runtime, tp_hook *hook, _Out_ tp_fault *fault)',
  'uint32_t tp_phase_find(void *runtime, const char *name)',
  'int32_t tp_edit_begin(void *runtime, void *owner, _Out_ void **edit, _Out_ tp_fault *fault)',
  'int32_t tp_edit_add_handler(void *edit, tp_handler *handler, _Out_ tp_fault *fault)',
  'int32_t tp_edit_add_subscription(void *edit, tp_subscription *subscription, _Out_ tp_fault *fault)',
  'int32_t tp_edit_commit(void *edit, void *report, _Out_ tp_fault *fault)',
  'int32_t tp_script_model_new(tp_model_response **responses, size_t count, bool repeat, _Out_ void **model, ' +
    '_Out_ tp_fault *fault)',
  'int32_t tp_session_open(void *runtime, tp_session_options *options, _Out_ void **session, _Out_ tp_fault *fault)',
  'void tp_session_close(void *session, void *on_end, void *ctx)',
  'int32_t tp_turn_submit(void *session, tp_turn_request *request, void *on_end, void *ctx, ' +
    '_Out_ void **submission, _Out_ tp_fault *fault)',
  'int32_t tp_submission_wait(void *submission, uint32_t limit_ms, _Out_ void **result, _Out_ tp_fault *fault)',
  'void tp_submission_unref(void *submission)',
  'const char *tp_call_subscription(void *call)',
  'tp_text tp_call_text(void *call, uint32_t field)',
  'int32_t tp_call_emit_tool_bundle(void *call, const char *id, tp_tool **tools, size_t count)',
  'int32_t tp_token_complete(tp_token token, tp_outcome *outcome)',
  'size_t tp_value_count(tp_text value)',
  'tp_text tp_value_at(tp_text value, size_t index)',
  'tp_text tp_value_get(tp_text value, const char *key)',
  'tp_text tp_value_text(tp_text value)',
]) {
  lib[/(tp_\w+)\(/.exec(declaration)[1]] = library.func(declaration);
}
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
      outcome = { kind: ANSWER.FAILED, reason: error.message };
    }
    lib.tp_token_complete(work.token, struct('tp_outcome', outcome)); // TP_ERR_STALE: it came too late
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

/** Whether the structs above lie as those of the headers do (tests/headers/layout.txt of the source tree). */
function checkLayout(path) {
  const places = new Map();
  let name;
  let lines;
  try {
    lines = fs.readFileSync(path, 'utf8').split('\n');
  } catch (error) {
    throw new Error(`${path}: ${error.code}; name tests/headers/layout.txt of the source tree`);
  }
  for (const line of lines) {
    const [, struct, size] = /^(tp_\w+) (\d+)/.exec(line) ?? [];
    if (struct) places.set(name = struct, size);
    const [, offset, bytes, field] = /^ {2}(\d+) (\d+) (\w+)/.exec(line) ?? [];
    if (field) places.set(`${name}.${field}`, `${offset} ${bytes}`);
  }
  if (!places.has('tp_text')) {
    throw new Error(`${path} has no table of structs; name tests/headers/layout.txt of the source tree`);
  }
  for (const [name, type] of Object.entries({ ...structs, tp_text, tp_token, tp_fault })) {
    for (const [field, member] of Object.entries(koffi.type(type).members)) {
      if (places.get(`${name}.${field}`) !== `${member.offset} ${koffi.sizeof(member.type)}`) {
        throw new Error(`${name}.${field} does not lie as the header says`);
      }
    }
  }
  if (places.get('tp_fault') !== String(koffi.sizeof(tp_fault))) { // the library writes all of it
    throw new Error('tp_fault has another size than the header says');
  }
}

module.exports = {
  ANSWER, MATCH, OUTCOME, STATE, REASON, REQUIRED, DECIDE, FIELD, Inbox, call, callback, checkLayout, lib, made, struct,
  text, turn, words,
};
