// SPDX-License-Identifier: Apache-2.0
/* Many turns at once in Node's single loop; none may be denied, and each must end: COUNT=5000 node run.js ADDON FOLDER
   many.
   *
   * Each turn has a guard that reads a file, a model that asks for a tool, the tool, and the model again. Of every 50
   * one waits in its tool until the turn is cancelled, and another turn waits after it in its session, and is cancelled
   * there.
 */
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');
const { allow, Runtime } = require('turnphase');

const LIMIT_MS = 120000; // the limit of each call: the turns compete for time
const count = Number(process.env.COUNT ?? 5000);
const seen = { guard: 0, model: 0, look: 0, wait: 0, stopped: 0 };

async function model(request) {
  seen.model++;
  await sleep(10);
  const last = request.messages.at(-1);
  if (last.role !== 'user') return 'It is done.';
  return { calls: [{ name: last.text === 'wait' ? 'wait' : 'look' }] };
}

/* Reads a file, which needs threads of libuv's pool: if a host waited on these threads for the ends of its turns, it
 * would hang. */
async function guard() {
  seen.guard++;
  await fs.promises.readFile(__filename);
  return allow();
}

async function main() {
  const began = performance.now();
  const runtime = await Runtime.open();
  const waiting = Math.ceil(count / 50);
  let allWait;
  const areCalled = new Promise((resolve) => {
    allWait = resolve;
  });
  runtime.guard('turn.intake', { limitMs: LIMIT_MS }, guard);
  runtime.tool('look', async () => {
    seen.look++;
    await sleep(10);
    return 'seen';
  });
  runtime.tool(
    'wait',
    { limitMs: LIMIT_MS },
    (given, { signal }) =>
      new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => {
          seen.stopped++;
          reject(signal.reason);
        });
        if (++seen.wait === waiting) allWait();
      }),
  );
  const sessions = Array.from({ length: count }, () => runtime.session({ model }));
  const isWaiting = (_, at) => at % 50 === 0;
  const turns = sessions.map((session, at) => session.turn(isWaiting(session, at) ? 'wait' : 'look').start());
  const queued = sessions.filter(isWaiting).map((session) => session.turn('look').start());
  await areCalled;
  for (const turn of [...queued, ...turns.filter(isWaiting)]) turn.cancel();
  const outcomes = { completed: 0, cancelled: 0 };
  for (const { outcome } of await Promise.all(turns)) outcomes[outcome]++;
  assert.deepStrictEqual(outcomes, { completed: count - waiting, cancelled: waiting });
  assert.ok((await Promise.all(queued)).every(({ outcome }) => outcome === 'cancelled'));
  await Promise.all(sessions.map((session) => session.close()));
  assert.deepStrictEqual([seen.look, seen.wait, seen.stopped], [count - waiting, waiting, waiting]);
  await runtime.close();
  console.log(`${count} turns: ${((performance.now() - began) / 1000).toFixed(1)} s`, seen);
}

main();
