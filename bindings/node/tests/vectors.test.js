// SPDX-License-Identifier: Apache-2.0
/* Plays tests/vectors/turns.json, which every language plays. */
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { allow, answer, ask, deny, failed, ModelError } = require('turnphase');
const { never, withRuntime } = require('./support.js');

const FILE = path.join(process.env.TURNPHASE_ROOT, 'tests/vectors/turns.json');
const KINDS = [
  'turn_begin',
  'model_begin',
  'model_delta',
  'model_end',
  'tool_begin',
  'tool_end',
  'message',
  'turn_end',
];
const VERDICTS = { done: () => undefined, allow, deny, ask, failed };
const camel = (row) =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name.replace(/_(.)/g, (_, letter) => letter.toUpperCase()), value]),
  );
const pick = (row, names) =>
  camel(Object.fromEntries(names.filter((name) => name in row).map((name) => [name, row[name]])));

function hookOf(row) {
  let left = row.times ?? Infinity;
  return async (call) => {
    for (const contribution of row.emit ?? []) call.emit(camel(contribution));
    if (row.replace) call.replace(row.replace);
    if (row.answer === 'raise') throw new Error('raised');
    if (row.answer === 'hang') await never();
    if (row.answer === 'nonsense') return 'allow';
    return VERDICTS[left-- > 0 ? row.answer : 'done'](row.reason ?? '');
  };
}

function toolOf(row, ran) {
  return async () => {
    ran.push(row.name);
    if (row.raise) throw new Error('raised');
    if (row.hang) await never();
    return answer({ text: row.text, value: row.value, isError: row.is_error });
  };
}

function modelOf(rows, requests) {
  return async function* model(request) {
    const row = rows[Math.min(requests.length, rows.length - 1)];
    requests.push(request.messages.at(-1).text);
    if (row.hang) await never();
    if (row.fail !== undefined) throw new ModelError(row.fail, { retryable: row.retryable });
    yield* row.deltas ?? [];
    yield {
      text: row.text ?? '',
      calls: (row.calls ?? []).map(({ name, arguments: given }) => ({ name, arguments: given })),
    };
  };
}

/* Plays a vector, and returns its results by the names of `expect`. */
function play(vector) {
  const ran = [],
    requests = [],
    events = [];
  return withRuntime(async (runtime) => {
    for (const row of vector.hooks ?? []) {
      const options = pick(row, ['id', 'failure', 'limit_ms', 'tools']);
      runtime.hook(row.phase, { ...options, ...(row.privileged && { grants: 'privileged_hooks' }) }, hookOf(row));
    }
    for (const row of vector.tools ?? []) runtime.tool(row.name, pick(row, ['limit_ms']), toolOf(row, ran));
    const session = runtime.session({ id: 's', model: modelOf(vector.model, requests) });
    const turn = session.turn(vector.text, { events: KINDS, ...camel(vector.request ?? {}) });
    for await (const event of turn) events.push(event);
    const result = await turn;
    const ends = events.filter(({ kind }) => kind === 'tool_end').sort((a, b) => a.callIndex - b.callIndex);
    const kinds = events.map(({ kind }) => kind);
    return {
      outcome: result.outcome,
      iterations: result.iterations,
      tool_calls: result.toolCalls,
      subscription: result.subscription,
      value: result.value,
      text: result.text,
      reason: result.reason,
      results: ends.map(({ toolResult: { name, kind, text = '' } }) => [name, kind, text]),
      ran: ran.sort(),
      requests: requests.length,
      seen: requests.at(-1) ?? '',
      events: kinds.filter((kind, at) => at === 0 || kind !== 'model_delta' || kinds[at - 1] !== kind),
    };
  });
}

function check(expected, got) {
  for (const [name, wanted] of Object.entries(expected)) {
    if (['text', 'reason', 'seen'].includes(name)) assert.ok(got[name].includes(wanted), `${name} is ${got[name]}`);
    else if (name !== 'results') assert.deepStrictEqual(got[name], wanted, name);
    else {
      assert.deepStrictEqual(
        got.results.map((row) => row.slice(0, 2)),
        wanted.map((row) => row.slice(0, 2)),
      );
      wanted.forEach((row, at) => assert.ok(got.results[at][2].includes(row[2]), got.results[at][2]));
    }
  }
}

test('each turn is as the file has it', async (t) => {
  const { vectors } = JSON.parse(fs.readFileSync(FILE, 'utf8'));
  assert.ok(vectors.length > 30);
  for (const vector of vectors) await t.test(vector.name, async () => check(vector.expect, await play(vector)));
});
