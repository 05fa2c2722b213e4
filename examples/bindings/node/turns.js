// SPDX-License-Identifier: Apache-2.0
/* Many turns at once in Node's one loop: none denied, none unheard.
 *
 *   npm ci --ignore-scripts && node turns.js [COUNT]
 *
 * Each turn has a guard that reads a file, a model that asks for a tool, the tool, and the model again. Of every 50
 * one waits in its tool until the turn is cancelled, and another turn waits after it in its session, and is cancelled
 * there.
 */
'use strict';

const fs = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');
const tp = require('./turnphase.js');
const { C, struct, text, words } = tp;

const LIMIT_MS = 120000; // of each call: the turns take their time from one another
const seen = { guard: 0, model: 0, look: 0, wait: 0, stopped: 0 };

let allWait; // called when one more turn waits in its tool

function check(what, holds) {
  console.log(`${holds ? 'ok' : 'WRONG'}: ${what}`);
  if (!holds) process.exit(1);
}

/* The threads of libuv's pool read the file: a host that waited on them for the ends of its turns would stand still. */
async function guard() {
  seen.guard++;
  await fs.promises.readFile(__filename);
  return { kind: C.TP_ANSWER_ALLOW };
}

async function model(request) {
  seen.model++;
  await sleep(10);
  const last = tp.messages(request).at(-1);
  if (last.role !== C.TP_ROLE_USER) return { text: text('It is done.') };
  const name = words(last.text) === 'wait' ? 'wait' : 'look';
  return { calls: [struct('tp_tool_call', { id: text('1'), name: text(name) })], call_count: 1 };
}

async function look() {
  seen.look++;
  await sleep(10);
  return 'seen';
}

function wait(run, { signal }) {
  seen.wait++;
  allWait();
  return new Promise((resolve, reject) => signal.addEventListener('abort', () => {
    seen.stopped++;
    reject(signal.reason);
  }));
}

async function play(host, count) {
  host.tool('look', look);
  host.tool('wait', wait);
  host.hook('guard', 'turn.intake', guard, { failure: C.TP_FAILURE_REQUIRED, limit_ms: LIMIT_MS });
  const sessions = Array.from({ length: count }, (_, i) => host.session(`session_${i}`, model));
  const isWaiting = (_, i) => i % 50 === 0;
  const turns = sessions.map((session, i) => session.turn(isWaiting(session, i) ? 'wait' : 'look'));
  const waiting = turns.filter(isWaiting);
  const queued = sessions.filter(isWaiting).map((session) => session.turn('look'));
  const areCalled = new Promise((resolve) => { allWait = () => seen.wait === waiting.length && resolve(true); });
  const early = await Promise.race([areCalled, ...waiting.map(({ end }) => end)]);
  check(`they wait in their tools${early === true ? '' : `; ${early.outcome}: ${early.reason}`}`, early === true);
  for (const turn of [...queued, ...waiting]) turn.cancel();
  const outcomes = {};
  for (const { outcome } of await Promise.all(turns.map(({ end }) => end))) {
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  }
  const stopped = await Promise.all(queued.map(({ end }) => end));
  console.log(outcomes, seen);
  check('every turn that was not cancelled has completed', outcomes[C.TP_TURN_COMPLETED] === count - waiting.length);
  check('every turn that waited in its tool is cancelled', outcomes[C.TP_TURN_CANCELLED] === waiting.length);
  check('each tool was called once', seen.look === count - waiting.length);
  check('so is every turn that had not begun', stopped.every(({ outcome }) => outcome === C.TP_TURN_CANCELLED));
  await Promise.all(sessions.map((session) => session.close()));
  check('every tool that waited was stopped', seen.stopped === waiting.length && host.cancels === waiting.length);
  check('no call is open', host.open.size === 0);
}

async function main(count) {
  const began = performance.now();
  const host = new tp.Host();
  await play(host, count);
  await host.close();
  check('no end is missing, and nothing is kept', host.known.size === 0);
  console.log(`${count} turns: ${((performance.now() - began) / 1000).toFixed(1)} s`);
}

const limit = setTimeout(() => check('every turn ends within 300 s', false), 300_000);
main(Number(process.argv[2] ?? 5000)).then(() => clearTimeout(limit), (error) => {
  console.error(error);
  process.exit(1);
});
