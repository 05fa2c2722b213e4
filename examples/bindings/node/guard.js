// SPDX-License-Identifier: Apache-2.0
/* A guard, a match and a tool in Node through koffi, each of which also throws: denied, denied, handler_error.
 *
 *   npm install && TURNPHASE_LIBRARY=/usr/local/lib/x86_64-linux-gnu/libturnphase.so.0.1 node guard.js */
'use strict';

const tp = require('./turnphase.js');
const { C, call, lib, made, struct, text, words } = tp;

const kinds = []; // of the results of tool calls

const matchThrows = tp.callback(() => { throw new Error('a match that throws'); });
const toolThrows = tp.callback(() => { throw new Error('a tool that throws'); });

const handlers = {
  async guard(entry) {
    const message = words(lib.tp_call_text(entry, C.TP_FIELD_TEXT));
    await new Promise(setImmediate); // the answer may come later
    if (message === 'throw') throw new Error('a guard that throws');
    return message === 'deny' ? { kind: C.TP_ANSWER_DENY, reason: 'not today' } : { kind: C.TP_ANSWER_ALLOW };
  },
  strict: () => ({ kind: C.TP_ANSWER_DENY, reason: 'never' }),
  tools(entry) {
    const tool = struct('tp_tool', { name: 'broken', run: toolThrows });
    const isBrought = lib.tp_call_emit_tool_bundle(entry, 'tools', [tool], 1, null) === 0;
    return { kind: isBrought ? C.TP_ANSWER_DONE : C.TP_ANSWER_FAILED };
  },
  batch(entry) {
    const calls = lib.tp_call_text(entry, C.TP_FIELD_CALLS);
    for (let i = 0; i < lib.tp_value_count(calls); i++) {
      kinds.push(words(lib.tp_value_text(lib.tp_value_get(lib.tp_value_at(calls, i), 'kind'))));
    }
    return { kind: C.TP_ANSWER_DONE };
  },
};

function scriptModel() {
  const asks = struct('tp_model_response', {
    calls: [struct('tp_tool_call', { name: text('broken') })], call_count: 1,
  });
  const says = struct('tp_model_response', { text: text('It is done.') });
  return made('tp_script_model_new', [asks, says], 2, true);
}

function subscribeWithMatch(runtime, inbox) {
  const phase = lib.tp_phase_find(runtime, 'turn.intake');
  const match = struct('tp_match', { matches: matchThrows, description: 'a match that throws' });
  const edit = made('tp_edit_begin', runtime, null);
  call('tp_edit_add_handler', edit, struct('tp_handler', {
    id: 'strict', inbox: inbox.handle, phases: [phase], phase_count: 1, capabilities: C.TP_CAPABILITY_DECIDE,
  }));
  call('tp_edit_add_subscription', edit, struct('tp_subscription', {
    id: 'strict', handler: 'strict', phase, failure: C.TP_FAILURE_REQUIRED, match,
  }));
  call('tp_edit_commit', edit, null);
}

function check(what, holds) {
  console.log(`${holds ? 'ok' : 'WRONG'}: ${what}`);
  if (!holds) process.exit(1);
}

async function main() {
  const runtime = made('tp_runtime_new', null);
  const inbox = new tp.Inbox(runtime, handlers);
  const hooks = [
    { id: 'guard', phase: 'turn.intake', failure: C.TP_FAILURE_REQUIRED },
    { id: 'tools', phase: 'turn.pre_tool_materialization' },
    { id: 'batch', phase: 'tool.batch' },
  ];
  for (const hook of hooks) call('tp_hook_add', runtime, struct('tp_hook', { ...hook, inbox: inbox.handle }));
  const session = made('tp_session_open', runtime, struct('tp_session_options', { id: 'first', model: scriptModel() }));

  const isDenied = (ended, by, state, why) =>
    ended.outcome === C.TP_TURN_DENIED && ended.subscription === by && ended.state === state && ended.why === why;
  let ended = await tp.turn(session, 'hello');
  check('a turn completes', ended.outcome === C.TP_TURN_COMPLETED && ended.text === 'It is done.');
  check('a tool that throws is a handler_error', kinds.join() === 'handler_error');
  ended = await tp.turn(session, 'deny'); // a server says 403
  check('a guard denies',
    isDenied(ended, 'guard', C.TP_STATE_SUCCEEDED, C.TP_REASON_NONE) && ended.reason === 'not today');
  ended = await tp.turn(session, 'throw'); // a server says 503
  check('a guard that throws denies', isDenied(ended, 'guard', C.TP_STATE_FAILED, C.TP_REASON_ERROR));
  subscribeWithMatch(runtime, inbox);
  ended = await tp.turn(session, 'hello');
  check('a match that throws denies', isDenied(ended, 'strict', C.TP_STATE_FAILED, C.TP_REASON_MALFORMED));
  lib.tp_session_close(session, null, null);
  lib.tp_runtime_free(runtime);
  inbox.close();
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
