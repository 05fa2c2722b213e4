// SPDX-License-Identifier: Apache-2.0
/* measure.js: what the peers of npm have in common: whole turns, one after the other.
 *
 *   node PEER.js PACKAGES [--quick] [FORM…]   a JSON object a line and form: µs of single turns, CPU of the process
 *   node PEER.js PACKAGES --serve FORM        for bench/whole (child.h): says its name, and then answers each line that
 *                                             has a number of turns with a line: CPU time in µs, context switches, and
 *                                             the duration of each turn in ns
 *   node PEER.js PACKAGES --forms             their names
 *
 * PACKAGES is the folder with node_modules. Nothing here uses the network. */
'use strict';

const { createRequire } = require('module');
const path = require('path');
const readline = require('readline');

const WARM_UP_MS = 2000; // for each form: the compiler of V8 needs some thousand turns
const WARM_UP_BATCHES_MIN = 1;
const BATCHES = 200;
const TURNS = 8; // of a batch, in a conversation of their own if one is kept
const ANSWER = '12 degrees in both.';

const counter = { calls: 0 }; // the work of hooks and tools, in addition to their answer
exports.counter = counter;
exports.question = 'How warm is it there?';
exports.answer = ANSWER;
exports.callCount = 2; // tool calls of a turn

let ids = 0;
/** New ids for the calls of one response: LangGraph does not run a call again whose id is in the history. */
exports.newCallIds = () => [`toolu_${++ids}`, `toolu_${++ids}`];

/* @return the CPU time in µs, the context switches and the ns of each turn. */
async function batch(form, turns) {
  const calls = counter.calls, ns = [];
  if (form.renew) await form.renew();
  const cpu = process.cpuUsage(), before = process.resourceUsage();
  for (let i = 0; i < turns; i++) {
    const began = process.hrtime.bigint();
    const text = await form.turn();
    ns.push(Number(process.hrtime.bigint() - began));
    if (text !== ANSWER) throw new Error(`a turn ended with '${text}'`);
  }
  const used = process.cpuUsage(cpu), after = process.resourceUsage();
  if (counter.calls - calls !== turns * form.calls) throw new Error('a hook or a tool was not called');
  return {
    ns,
    cpu: used.user + used.system,
    switches: after.voluntaryContextSwitches + after.involuntaryContextSwitches -
      before.voluntaryContextSwitches - before.involuntaryContextSwitches,
  };
}

async function warmUp(form, ms) {
  const until = performance.now() + ms;
  for (let i = 0; i < WARM_UP_BATCHES_MIN || performance.now() < until; i++) await batch(form, TURNS);
}

async function serve(form, what, quick) {
  await warmUp(form, quick ? 0 : WARM_UP_MS);
  console.log(what);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const result = await batch(form, Number(line));
    console.log([result.cpu, result.switches, ...result.ns].join(' '));
  }
}

async function figures(form, of, quick) {
  const ns = [], batches = quick ? 2 : BATCHES;
  let cpu = 0;
  await warmUp(form, quick ? 0 : WARM_UP_MS);
  for (let i = 0; i < batches; i++) {
    const result = await batch(form, TURNS);
    ns.push(...result.ns);
    cpu += result.cpu;
  }
  ns.sort((a, b) => a - b);
  const at = (share) => ns[Math.floor(ns.length * share)] / 1e3;
  return {
    bench: 'npm', row: 'whole', ...of, unit: 'µs', turns: ns.length, median: at(0.5), least: at(0), p25: at(0.25),
    p99: at(0.99), cpu: cpu / ns.length, turns_per_second_of_cpu: 1e6 * ns.length / cpu,
  };
}

/** @param name  of the package
 *  @param forms  (require) → {FORM: () => {turn(): its text, renew()?, calls: of hooks and tools in a turn}}
 *                renew() begins a new conversation. */
exports.main = async function main(name, forms) {
  const [folder, ...words] = process.argv.slice(2);
  if (!folder) throw new Error('which folder has node_modules?');
  const load = createRequire(path.resolve(folder) + path.sep);
  const wanted = words.filter((word) => !word.startsWith('--'));
  const quick = words.includes('--quick'), all = forms(load);
  const version = require(path.resolve(folder, 'node_modules', name, 'package.json')).version;
  for (const form of wanted) if (!all[form]) throw new Error(`there is no form '${form}'`);
  if (words.includes('--forms')) return console.log(Object.keys(all).join('\n'));
  if (words.includes('--serve')) {
    return serve(all[wanted[0]](), `${name} ${version}, ${wanted[0]}`, quick);
  }
  for (const form of wanted.length > 0 ? wanted : Object.keys(all)) {
    console.log(JSON.stringify(await figures(all[form](), { peer: name, version, form }, quick)));
  }
};
