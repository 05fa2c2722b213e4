// SPDX-License-Identifier: Apache-2.0
/* Tests that many turns leave nothing behind: node --expose-gc leaks.js COUNT, in the folder of the package. After a
 * first part, which fills everything that is kept for reuse, the heap, descriptors and memory must stay as they are
 * over COUNT turns with a guard, a tool, events, and calls without a turn. Exit: 0; 1 when something has grown, which
 * it prints. */
'use strict';

const fs = require('node:fs');
const { allow, Runtime } = require('turnphase');

const count = Number(process.argv[2]),
  SESSIONS = 16;
const BYTES_A_TURN_MAX = 50,
  HEAP_NOISE = 1 << 20,
  MEMORY_NOISE = 24 << 20; // the noise of the allocators

async function measured() {
  for (let i = 0; i < 3; i++) {
    gc();
    await new Promise(setImmediate);
  }
  const { heapUsed, rss } = process.memoryUsage();
  return [heapUsed, fs.readdirSync('/proc/self/fd').length, rss];
}

const CALL = { name: 'act', arguments: { text: 'x'.repeat(100) } };
const model = async (request) => (request.messages.at(-1).role === 'user' ? { calls: [CALL] } : 'done');

/* Sessions are closed after 50 turns. */
async function lane(runtime, turns) {
  for (let begin = 0; begin < turns; begin += 50) {
    const session = runtime.session({ model });
    for (let at = begin; at < Math.min(begin + 50, turns); at++) {
      const turn = session.turn('go');
      if (at % 4 === 0) for await (const { kind } of turn) if (kind === 'turn_end') continue;
      if ((await turn).outcome !== 'completed') throw new Error('a turn went wrong');
      if (at % 8 === 0) await session.callTools([CALL]);
      if (at % 16 === 0) session.turn('never').start().cancel();
    }
    await session.close();
  }
}

const play = (runtime, turns) =>
  Promise.all(Array.from({ length: SESSIONS }, () => lane(runtime, Math.floor(turns / SESSIONS))));

async function main() {
  const runtime = await Runtime.open();
  runtime.guard('tool.pre', { id: 'guard' }, async (call) => (call.arguments ? allow() : undefined));
  runtime.tool('act', async ({ text }) => text);
  await play(runtime, Math.max(count / 4, 800));
  const before = await measured();
  await play(runtime, count);
  const grown = (await measured()).map((after, at) => after - before[at]);
  await runtime.close();
  const [heap, fds, rss] = grown;
  console.log(`${count} turns: ${heap >> 10} KiB of heap, ${fds} descriptors, ${rss >> 10} KiB`);
  const more = BYTES_A_TURN_MAX * count;
  process.exitCode = heap > HEAP_NOISE + more || fds > 0 || rss > MEMORY_NOISE + more ? 1 : 0;
}

main();
