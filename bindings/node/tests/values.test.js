// SPDX-License-Identifier: Apache-2.0
/* Values, schemas and errors. */
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const tp = require('turnphase');
const core = require('../node_modules/turnphase/lib/core.js');
const { calls, oneTurn, withRuntime } = require('./support.js');

test('values come back', () => {
  for (const value of [
    null,
    true,
    false,
    0,
    -1,
    1.5,
    -0,
    NaN,
    Infinity,
    2 ** 53 - 1,
    2 ** 53,
    -(2 ** 53),
    1e300,
    5e-324,
    2n ** 62n,
    -(2n ** 63n),
    '',
    'å𝄞\0x',
    'x'.repeat(190),
    'x'.repeat(191),
    'å'.repeat(100),
    'x'.repeat(187) + '𝄞',
    'x'.repeat(188) + '𝄞',
    'y'.repeat(100000),
    [],
    {},
    [[], {}],
    { a: { b: [1, '2', null] } },
    Buffer.from([0, 255]),
    Buffer.alloc(0),
    Array.from({ length: 5000 }, (_, i) => ({ i })),
    Object.fromEntries(Array.from({ length: 3000 }, (_, i) => ['k' + i, i])),
  ])
    assert.deepStrictEqual(core.roundTrip(value), value);
  assert.deepStrictEqual(core.roundTrip(3n), 3);
  assert.deepStrictEqual(core.roundTrip({ a: undefined, b: [undefined], [Symbol('s')]: 1 }), { b: [null] });
  assert.deepStrictEqual(core.roundTrip('\ud800'), '\ufffd');
  assert.deepStrictEqual(core.roundTrip(new Uint8Array([1])), Buffer.from([1]));
  assert.deepStrictEqual(
    core.roundTrip(
      new (class Point {
        x = 1;
        #y = 2;
      })(),
    ),
    { x: 1 },
  );
  const deep = (depth) => (depth ? [deep(depth - 1)] : 1);
  assert.deepStrictEqual(core.roundTrip(deep(32)), deep(32));
  let tries = 0;
  assert.deepStrictEqual(
    core.roundTrip({
      get a() {
        return tries++ ? undefined : 1;
      },
    }),
    { a: 1 },
  );
});

test('any value comes back', () => {
  let seed = 20261127;
  const random = (n) => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return (seed >>> 8) % n;
  };
  const make = (depth) =>
    [
      () => null,
      () => random(2) === 0,
      () => random(2 ** 24) - 2 ** 23,
      () => (random(2 ** 24) - 2 ** 23) / 7,
      () => (random(2) ? 1n : -1n) * (2n ** 53n + BigInt(random(2 ** 24)) ** 2n),
      () =>
        String.fromCodePoint(
          ...Array.from({ length: random(6) }, () => [65, 228, 0x20ac, 0x1d11e][random(4)] + random(20)),
        ),
      () => Buffer.from(Array.from({ length: random(5) }, () => random(256))),
      () => Array.from({ length: depth ? random(4) : 0 }, () => make(depth - 1)),
      () =>
        Object.fromEntries(
          Array.from({ length: depth ? random(4) : 0 }, (_, i) => ['k' + i + random(9), make(depth - 1)]),
        ),
    ][random(9)]();
  for (let i = 0; i < 3000; i++) {
    const value = make(5);
    assert.deepStrictEqual(core.roundTrip(value), value);
  }
});

test('what is no value is refused', () => {
  const deep = (depth) => (depth ? [deep(depth - 1)] : 1);
  for (const [value, kind, words] of [
    [() => 1, TypeError, 'no function'],
    [Symbol('s'), TypeError, 'symbol'],
    [2n ** 63n, RangeError, '64 bits'],
    [new Set([1]), TypeError, 'a Set'],
    [new Map(), TypeError, 'a Map'],
    [[1][Symbol.iterator](), TypeError, 'iterable'],
    [deep(33), RangeError, '32 containers'],
    [
      {
        a: {
          get b() {
            throw new TypeError('mine');
          },
        },
      },
      TypeError,
      'mine',
    ],
    [
      new Proxy(
        {},
        {
          ownKeys() {
            throw new TypeError('mine');
          },
        },
      ),
      TypeError,
      'mine',
    ],
    [new Int32Array(1), TypeError, 'Uint8Array'],
  ])
    assert.throws(
      () => core.roundTrip(value),
      (error) => error instanceof kind && error.message.includes(words),
      words,
    );
});

/* A schema as zod 4.2 and others make it: https://standardschema.dev */
const positive = (convert = (value) => value) => ({
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (given) =>
      typeof given.n === 'number' && given.n > 0
        ? { value: convert({ n: given.n }) }
        : { issues: [{ message: 'too small', path: ['n', { key: 0 }] }] },
    jsonSchema: {
      input: ({ target }) => ({ $schema: target, type: 'object', properties: { n: { type: 'number' } } }),
    },
  },
});

test('a schema of another library checks and converts', () =>
  withRuntime(async (runtime) => {
    let shown;
    const converted = positive(({ n }) => ({ n: BigInt(n) }));
    const later = positive();
    later['~standard'].validate = async (given) => ({ value: { n: given.n * 2 } });
    runtime.tool('one', { schema: converted }, ({ n }) => typeof n);
    runtime.tool('two', { schema: later }, ({ n }) => n);
    const model = calls([
      ['one', { n: 1 }],
      ['one', { n: -1 }],
      ['two', { n: 4 }],
    ]);
    const { text } = await oneTurn(runtime, (request) => {
      shown = request.tools;
      return model(request);
    });
    assert.ok(text.includes('bigint') && text.includes('n.0: too small') && text.endsWith('8'), text);
    assert.deepStrictEqual(shown[0].schema, { type: 'object', properties: { n: { type: 'number' } } });
    for (const [schema, words] of [
      [{ '~standard': { version: 1, vendor: 'old' } }, 'old'],
      ['text', 'schema'],
      [{ type: 3 }, 'type'],
    ])
      assert.throws(
        () => runtime.tool('three', { schema }, () => 1),
        (error) => error.message.includes(words),
        words,
      );
  }));

test('zod', async (t) => {
  let z;
  try {
    ({ z } = require('zod'));
  } catch {
    return t.skip('npm install zod, and NODE_PATH');
  }
  await withRuntime(async (runtime) => {
    const schema = z.object({
      city: z.string(),
      days: z.number().int().min(1).default(3),
    });
    runtime.tool('rain', { schema }, ({ city, days }) => `${city} ${days}`);
    const { text } = await oneTurn(
      runtime,
      calls([
        ['rain', { city: 'Oslo' }],
        ['rain', { city: 'Oslo', days: 0 }],
      ]),
    );
    assert.ok(text.includes('Oslo 3') && text.includes('days'), text);
  });
});

test('errors have a category, a code and a subject', async () => {
  for (const [status, kind, category] of [
    [101, tp.UsageError, 'usage'],
    [201, tp.LimitError, 'limit'],
    [300, tp.TimeoutError, 'timeout'],
    [401, tp.CanceledError, 'canceled'],
    [501, tp.DeniedError, 'hook'],
    [500, tp.HookError, 'hook'],
    [601, tp.StoreError, 'store'],
    [701, tp.SystemFailure, 'system'],
    [801, tp.InternalError, 'internal'],
  ]) {
    const error = core.statusError(status, '', 'zebra');
    assert.ok(error instanceof kind && error instanceof tp.TurnphaseError, String(status));
    assert.deepStrictEqual(
      [error.category, error.status, error.subject, error.name],
      [category, status, 'zebra', kind.name],
    );
    assert.match(error.code, /^TP_ERR_/);
    assert.match(error.message, /^zebra: ./);
  }
  await withRuntime(async (runtime) => {
    runtime.guard('turn.intake', { id: 'g' }, () => tp.deny('not today'));
    const result = await oneTurn(runtime);
    assert.deepStrictEqual([result.outcome, result.subscription], ['denied', 'g']);
    assert.throws(
      () => result.check(),
      (error) => error instanceof tp.DeniedError && error.message.includes('not today') && error.subject === 'g',
    );
  });
});

test('both kinds of module have one set of classes', async () => {
  const esm = await import('turnphase');
  assert.deepStrictEqual(
    Object.keys(esm)
      .filter((name) => !['default', 'module.exports'].includes(name))
      .sort(),
    Object.keys(tp).sort(),
  );
  for (const [name, member] of Object.entries(tp)) assert.strictEqual(esm[name], member, name);
  assert.match(tp.version, /^\d+\.\d+\.\d+/);
});
