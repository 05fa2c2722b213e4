// SPDX-License-Identifier: Apache-2.0
/* A guard, a match and a tool in Node through koffi, each of which also throws: denied, denied, handler_error. Another
 * tool answers with an image.
 *
 *   npm install && TURNPHASE_LIBRARY=/usr/local/lib/x86_64-linux-gnu/libturnphase.so.0.1 node guard.js */
'use strict';

const tp = require('./turnphase.js');
const { C, lib, made, struct, text, words } = tp;

const results = {}; // of tool calls: kind and media type of the first part

const matchThrows = tp.callback(() => { throw new Error('a match that throws'); });
async function guard(entry) {
  const message = words(lib.tp_call_text(entry, C.TP_FIELD_TEXT));
  await new Promise(setImmediate); // the answer may come later
  if (message === 'throw') throw new Error('a guard that throws');
  return message === 'deny' ? { kind: C.TP_ANSWER_DENY, reason: 'not today' } : { kind: C.TP_ANSWER_ALLOW };
}

function batch(entry) {
  const calls = lib.tp_call_text(entry, C.TP_FIELD_CALLS);
  const said = (map, key) => words(lib.tp_value_text(lib.tp_value_get(map, key)));
  for (let i = 0; i < lib.tp_value_count(calls); i++) {
    const call = lib.tp_value_at(calls, i);
    const part = lib.tp_value_at(lib.tp_value_get(call, 'parts'), 0);
    results[said(call, 'tool')] = `${said(call, 'kind')} ${said(part, 'media_type')}`;
  }
  return { kind: C.TP_ANSWER_DONE };
}

function chart() {
  const image = struct('tp_part', {
    kind: C.TP_PART_IMAGE, bytes: text(Buffer.from('iVBORw0KGgo=', 'base64')), media_type: text('image/png'),
  });
  return { text: text('Two peaks.'), parts: [image], part_count: 1 };
}

function scriptModel() {
  const wanted = ['broken', 'chart'].map((name) => struct('tp_tool_call', { name: text(name) }));
  const asks = struct('tp_model_response', { calls: wanted, call_count: wanted.length });
  const says = struct('tp_model_response', { text: text('It is done.') });
  return made('tp_script_model_new', [asks, says], 2, true);
}

function check(what, holds) {
  console.log(`${holds ? 'ok' : 'WRONG'}: ${what}`);
  if (!holds) process.exit(1);
}

async function main() {
  const host = new tp.Host();
  host.tool('broken', () => { throw new Error('a tool that throws'); });
  host.tool('chart', chart);
  host.hook('guard', 'turn.intake', guard, { failure: C.TP_FAILURE_REQUIRED });
  host.hook('batch', 'tool.batch', batch);
  const session = host.session('first', scriptModel());

  const isDenied = (ended, by, state, why) =>
    ended.outcome === C.TP_TURN_DENIED && ended.subscription === by && ended.state === state && ended.why === why;
  let ended = await session.turn('hello').end;
  check('a turn completes', ended.outcome === C.TP_TURN_COMPLETED && ended.text === 'It is done.');
  check('a tool that throws is a handler_error', results.broken === 'handler_error ');
  check('a tool answers with an image', results.chart === 'ok image/png');
  ended = await session.turn('deny').end; // a server says 403
  check('a guard denies',
    isDenied(ended, 'guard', C.TP_STATE_SUCCEEDED, C.TP_REASON_NONE) && ended.reason === 'not today');
  ended = await session.turn('throw').end; // a server says 503
  check('a guard that throws denies', isDenied(ended, 'guard', C.TP_STATE_FAILED, C.TP_REASON_ERROR));
  const match = struct('tp_match', { matches: matchThrows, description: 'a match that throws' });
  const never = () => ({ kind: C.TP_ANSWER_DENY, reason: 'never' });
  host.hook('strict', 'turn.intake', never, { failure: C.TP_FAILURE_REQUIRED, match });
  ended = await session.turn('hello').end;
  check('a match that throws denies', isDenied(ended, 'strict', C.TP_STATE_FAILED, C.TP_REASON_MALFORMED));
  await session.close();
  await host.close();
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
