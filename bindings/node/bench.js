// SPDX-License-Identifier: Apache-2.0
/* What a turn costs: node bench.js PACKAGE [TURNS]. A turn has one guard, two tools and two requests to a model, all
 * async. The same calls in JavaScript alone are measured in the same run, in turn with it. The parts of a turn are
 * differences between turns that have them and turns that do not. */
'use strict';

const { execFileSync } = require('node:child_process');
const path = require('node:path');

const folder = path.resolve(process.argv[2]);
const { Runtime, allow, script } = require(folder);
const count = Number(process.argv[3] ?? 20000),
  ROUNDS = 5;

const guard = async (call) => (call.tool === 'delete' ? undefined : allow());
const tools = {
  look: async ({ path }) => 'seen ' + path,
  rain: async ({ city }) => 'rain in ' + city,
};
const CALLS = [
  { name: 'look', arguments: { path: 'a' } },
  { name: 'rain', arguments: { city: 'Oslo' } },
];
const model = async (request) => (request.messages.at(-1).role === 'user' ? { calls: CALLS } : 'done');

const EARLIER = [
  { role: 'user', text: 'y' },
  { role: 'assistant', text: 'z' },
]; // else the history grows

/* The same work in a host without the library. */
async function plainCall({ name, arguments: given }) {
  await guard({ tool: name });
  return tools[name](given);
}

async function plainTurn() {
  const messages = [{ role: 'user', text: 'x' }];
  const response = await model({ messages });
  const texts = await Promise.all(response.calls.map(plainCall));
  messages.push(...texts.map((text) => ({ role: 'tool', text })));
  return await model({ messages });
}

/* CPU time of one turn in us, of the whole process. */
async function inFlight(width, run) {
  let left = count;
  const lane = async (number) => {
    while (left-- > 0) await run(number);
  };
  const before = process.cpuUsage(),
    began = performance.now();
  await Promise.all(Array.from({ length: width }, (_, number) => lane(number)));
  const { user, system } = process.cpuUsage(before);
  return { cpu: (user + system) / count, second: (count / (performance.now() - began)) * 1e3 };
}

async function longestDelay(isOver) {
  let longest = 0;
  while (!isOver()) {
    const began = performance.now();
    await new Promise(setImmediate);
    longest = Math.max(longest, performance.now() - began);
  }
  return longest;
}

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];

async function measureTurns() {
  const runtime = await Runtime.open();
  runtime.guard('tool.pre', { id: 'guard' }, guard);
  for (const [name, run] of Object.entries(tools)) runtime.tool(name, run);
  const sessions = Array.from({ length: 64 }, () => runtime.session({ model }));
  const turn = async (number) => {
    if ((await sessions[number].turn('x', { messages: EARLIER })).text !== 'done') throw new Error('a turn went wrong');
  };
  for (const width of [1, 64]) {
    const ours = [],
      theirs = [],
      speeds = [];
    for (let round = 0; round < ROUNDS; round++) {
      const { cpu, second } = await inFlight(width, turn);
      ours.push(cpu);
      speeds.push(second);
      theirs.push((await inFlight(width, plainTurn)).cpu);
    }
    console.log(
      `${String(width).padStart(3)} in flight: ${median(ours).toFixed(1)} us of CPU a turn (` +
        `${Math.min(...ours).toFixed(1)} to ${Math.max(...ours).toFixed(1)}), ${median(speeds).toFixed(0)} turns/s; ` +
        `the calls alone ${median(theirs).toFixed(1)} us`,
    );
  }
  let isOver = false;
  const delay = longestDelay(() => isOver);
  await inFlight(64, turn);
  isOver = true;
  console.log(`longest delay of the loop beside 64 turns: ${(await delay).toFixed(1)} ms`);
  await runtime.close();
}

/* A function that runs a turn of these functions in one of 64 sessions. */
function turnOf(runtime, makeModel, look, run) {
  if (look) runtime.guard('tool.pre', { id: 'guard' }, look);
  for (const [name, tool] of Object.entries(run)) runtime.tool(name, tool);
  const sessions = Array.from({ length: 64 }, () => runtime.session({ model: makeModel() }));
  return async (number) => {
    if ((await sessions[number].turn('x', { messages: EARLIER })).text !== 'done') throw new Error('a turn went wrong');
  };
}

/* Each part is the difference of two rows; the rows are measured in turn. */
async function measureParts() {
  const plainGuard = (call) => (call.tool === 'delete' ? undefined : allow()),
    plainTools = { look: ({ path }) => 'seen ' + path, rain: ({ city }) => 'rain in ' + city },
    plainModel = (request) => (request.messages.at(-1).role === 'user' ? { calls: CALLS } : 'done');
  const scripted = () => script([{ tool_calls: CALLS }, 'done'], { repeat: true });
  const rows = [
    ['promises of the async functions', () => model, guard, tools],
    ['two requests and responses as objects of JavaScript', () => plainModel, plainGuard, plainTools],
    ['two calls of a guard', scripted, plainGuard, plainTools],
    ['two calls of tools, and a second request in the library', scripted, undefined, plainTools],
    ['a turn of one request that the library answers', () => script(['done'], { repeat: true }), undefined, {}],
  ];
  const runtimes = [],
    turns = [],
    least = [...rows.map(() => Infinity), 0];
  for (const [, ...given] of rows) {
    runtimes.push(await Runtime.open());
    turns.push(turnOf(runtimes.at(-1), ...given));
  }
  for (let round = 0; round < 2 * ROUNDS; round++)
    for (const [at, turn] of turns.entries()) least[at] = Math.min(least[at], (await inFlight(64, turn)).cpu);
  console.log('parts of a turn with 64 in flight, least of the rounds, us of CPU:');
  for (const [at, [name]] of rows.entries())
    console.log(`  ${(least[at] - least[at + 1]).toFixed(1).padStart(5)}  ${name}`);
  for (const runtime of runtimes) await runtime.close();
}

/* 1,000 turns that are begun at once, whose tool waits for 100 ms; and the same calls in JavaScript alone. */
async function measureWaits() {
  const wait = () =>
    new Promise((resolve) => {
      setTimeout(resolve, 100, 'x');
    });
  const waits = async (request) => (request.messages.at(-1).role === 'user' ? { calls: [{ name: 'wait' }] } : 'done');
  const plainWait = async () => {
    const messages = [{ role: 'user', text: 'x' }];
    const { calls } = await waits({ messages });
    messages.push({ role: 'tool', text: (await Promise.all(calls.map(wait)))[0] });
    return await waits({ messages });
  };
  const ours = [],
    theirs = [];
  for (let round = 0; round < ROUNDS; round++) {
    let began = performance.now();
    await Promise.all(Array.from({ length: 1000 }, plainWait));
    theirs.push(performance.now() - began);
    const runtime = await Runtime.open();
    runtime.tool('wait', wait);
    const sessions = Array.from({ length: 1000 }, () => runtime.session({ model: waits }));
    began = performance.now();
    await Promise.all(sessions.map((session) => session.turn('x')));
    ours.push(performance.now() - began);
    await runtime.close();
  }
  const said = (list) => `${median(list).toFixed(0)} ms (least ${Math.min(...list).toFixed(0)})`;
  console.log(`1,000 turns with a tool of 100 ms: ${said(ours)}, the calls alone ${said(theirs)}`);
}

function loadMs() {
  const code = `const began = performance.now(); require(${JSON.stringify(folder)});
    console.log(performance.now() - began)`;
  return median(Array.from({ length: 7 }, () => Number(execFileSync(process.execPath, ['-e', code]))));
}

console.log(`${process.arch}, Node ${process.version}, ${ROUNDS} rounds of ${count}, medians`);
console.log(`require('turnphase'): ${loadMs().toFixed(1)} ms`);
measureTurns()
  .then(measureParts)
  .then(measureWaits)
  .then(() => {
    console.log(`${(process.resourceUsage().maxRSS / 1024).toFixed(0)} MiB at most`);
  });
