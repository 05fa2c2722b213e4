// SPDX-License-Identifier: Apache-2.0
/* Turns with hooks, tools and models that are functions of JavaScript. */
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { AsyncLocalStorage } = require('node:async_hooks');
const { getEventListeners } = require('node:events');
const { test } = require('node:test');
const tp = require('turnphase');
const { allow, answer, ask, deny, failed, ModelError, Runtime, script, ToolError } = tp;
const { calls, event, never, oneTurn, saysHello, withRuntime } = require('./support.js');

const SHORT_MS = 50;

/* ---- models ---- */

test('a function answers', () =>
  withRuntime(async (runtime) => {
    for (const model of [saysHello, (request) => 'hello ' + request.messages[0].text, script(['hello Ada'])]) {
      const { outcome, text, finish } = await oneTurn(runtime, model, 'Ada');
      assert.deepStrictEqual([outcome, text, finish], ['completed', 'hello Ada', 'stop']);
    }
  }));

test('each event of the library can be asked for, and has its type', () =>
  withRuntime(async (runtime) => {
    const folder = path.dirname(require.resolve('turnphase'));
    const names = require(path.join(folder, 'core.js')).eventNames();
    assert.deepStrictEqual([names[0], names[19]], ['turn_begin', 'tool_progress']);
    const types = fs.readFileSync(path.join(folder, 'index.d.ts'), 'utf8');
    const union = types.slice(types.indexOf('type EventKind')).split(';')[0];
    assert.deepStrictEqual(
      [...union.matchAll(/'(\w+)'/g)].map((found) => found[1]),
      names,
    );
    const kinds = new Set();
    const events = names.filter((name) => name !== 'job'); // events of jobs belong to the runtime
    for await (const { kind } of runtime.session({ model: saysHello }).turn('x', { events })) kinds.add(kind);
    for (const kind of ['turn_begin', 'model_begin', 'model_end', 'turn_end']) assert.ok(kinds.has(kind), kind);
  }));

test('pieces are events and the answer', () =>
  withRuntime(async (runtime) => {
    const session = runtime.session({
      async *model() {
        yield { thinking: 'hm' };
        yield 'a';
        await null;
        yield 'b';
        yield { inputTokens: 3, outputTokens: 4, costMicros: 5, stopReason: 'end_turn' };
      },
    });
    const turn = session.turn('x'),
      events = [],
      said = [];
    for await (const seen of turn) events.push(seen);
    const result = await turn;
    for await (const piece of session.turn('y', { eachDelta: true }).deltas()) said.push(piece);
    const textOf = (kind) =>
      events
        .filter((seen) => seen.kind === kind)
        .map(({ text }) => text)
        .join('');
    assert.strictEqual(textOf('model_delta'), 'ab');
    assert.strictEqual(textOf('thinking'), 'hm');
    assert.deepStrictEqual(said, ['a', 'b']);
    assert.deepStrictEqual(
      [result.text, result.inputTokens, result.outputTokens, result.costMicros],
      ['ab', 3, 4, 5],
    );
    assert.strictEqual(typeof result.startedNs, 'bigint');
  }));

test('a model that throws or answers nothing fails the turn', () =>
  withRuntime(async (runtime) => {
    for (const [model, words] of [
      [
        async () => {
          throw new Error('no key');
        },
        'no key',
      ],
      [
        () => {
          throw new Error('no\0key');
        },
        'no\\0key',
      ],
      [
        async () => {
          throw 'words';
        },
        'words',
      ],
      [async () => {}, 'string or a response'],
      [async () => ['x'], 'string or a response'],
      [async () => ({ txt: 'x' }), 'txt'],
      [async () => ({ calls: [{ name: 'a', arguments: { f() {} } }] }), 'no function'],
      [
        async () => {
          throw new ModelError('too long', { contextLength: true });
        },
        'too long',
      ],
      [
        async function* pieces() {
          yield 'a';
          throw new Error('broken');
        },
        'broken',
      ],
    ]) {
      const result = await oneTurn(runtime, model);
      assert.strictEqual(result.outcome, 'failed', words);
      assert.ok(result.reason.includes(words), result.reason);
      assert.throws(
        () => result.check(),
        (error) => error instanceof tp.SystemFailure && error.category === 'system',
      );
    }
  }));

test('a generator of a model ends when nobody waits for it', () =>
  withRuntime(async (runtime) => {
    const ended = event();
    async function* model() {
      try {
        for (;;) {
          yield '.';
          await new Promise(setImmediate);
        }
      } finally {
        ended.set();
      }
    }
    const turn = runtime.session({ model }).turn('x', { events: ['model_delta'] });
    for await (const { text } of turn) if (text) turn.cancel();
    assert.strictEqual((await turn).outcome, 'cancelled');
    await ended.promise;
  }));

test('a retryable failure is tried again', () =>
  withRuntime(async (runtime) => {
    const tries = [];
    const { text } = await oneTurn(runtime, async ({ attempt }) => {
      tries.push(attempt);
      if (tries.length < 2) throw new ModelError('busy', { retryable: true });
      return 'ok';
    });
    assert.deepStrictEqual([text, tries], ['ok', [1, 2]]);
  }));

test('a request has messages, tools and parameters', () =>
  withRuntime(async (runtime) => {
    let seen;
    const schema = { type: 'object', required: ['path'], properties: { path: { type: 'string' } } };
    runtime.tool('look', { description: 'Reads a file.', schema }, async ({ path }) => path);
    const model = (request) => {
      const { messages, tools, parameters, sessionId, turnId, system, files, tenant, attempt, answerSchema } =
        request;
      assert.strictEqual(request.messages, messages); // the member is made only once
      assert.ok(request.timeLeftMs > 0 && request.isOpen);
      seen = { messages, tools, parameters, sessionId, turnId, system, files, tenant, attempt, answerSchema };
      return 'a';
    };
    const session = runtime.session({ id: 's', model, tenant: 't' });
    await session.turn('one');
    await session.turn('two', { system: 'be brief', parameters: { temperature: 0.5 }, id: 'turn-2' });
    assert.deepStrictEqual(
      seen.messages.map(({ role, text }) => [role, text]),
      [
        ['user', 'one'],
        ['assistant', 'a'],
        ['user', 'two'],
      ],
    );
    assert.deepStrictEqual(seen.tools, [{ name: 'look', description: 'Reads a file.', schema }]);
    assert.deepStrictEqual(
      [seen.parameters, seen.sessionId, seen.turnId, seen.tenant],
      [{ temperature: 0.5 }, 's', 'turn-2', 't'],
    );
    assert.deepStrictEqual([seen.files, seen.answerSchema, seen.attempt], [[], undefined, 1]);
    assert.ok(seen.system.includes('be brief'));
  }));

test('messages of a request are given to another turn', () =>
  withRuntime(async (runtime) => {
    let messages;
    const model = async (request) => {
      ({ messages } = request);
      return calls([['act', { n: 1 }]])(request);
    };
    runtime.tool('act', () => answer({ text: 'acted', value: { a: 1 } }));
    const { text } = await runtime.session({ model }).turn('go');
    assert.strictEqual(text, 'done: acted');
    const [user, assistant, tool] = messages;
    assert.deepStrictEqual(
      assistant.calls.map(({ name, arguments: given }) => [name, given]),
      [['act', { n: 1 }]],
    );
    assert.deepStrictEqual(
      [user.calls, user.parts, user.name, tool.isError, tool.value],
      [[], [], '', false, { a: 1 }],
    );
    assert.strictEqual(JSON.parse(JSON.stringify(tool)).callId, assistant.calls[0].id);
    const before = messages;
    await runtime.session({ model: saysBack }).turn('again', { messages });
    function saysBack(request) {
      messages = request.messages;
      return 'x';
    }
    assert.deepStrictEqual(
      messages.slice(0, 3).map(({ role, text }) => [role, text]),
      before.map(({ role, text }) => [role, text]),
    );
  }));

test('an answer with a schema', () =>
  withRuntime(async (runtime) => {
    const session = runtime.session({ model: script(['nonsense', '{"mm": 4}']) });
    const result = await session.turn('rain?', { answerSchema: '{"type": "object", "required": ["mm"]}' });
    assert.deepStrictEqual([result.value, result.iterations], [{ mm: 4 }, 2]);
  }));

test('what is no model is refused', () =>
  withRuntime(async (runtime) => {
    for (const model of [3.5, 'gpt', {}, []]) assert.throws(() => runtime.session({ model }), TypeError);
    const named = tp.functionModel(saysHello, { name: 'mine' });
    const turn = runtime.session({ model: named }).turn('x', { events: ['model_begin'] });
    for await (const { model } of turn) assert.strictEqual(model, 'mine');
  }));

/* ---- hooks ---- */

/* Returns [the text that the model reads, whether the tool ran] for a call with a guard. */
function guarded(guard, options = {}) {
  return withRuntime(async (runtime, logged) => {
    let ran = false;
    runtime.guard('tool.pre', { id: 'guard', limitMs: 60000, ...options }, guard);
    runtime.tool('act', () => {
      ran = true;
      return 'acted';
    });
    const { text } = await oneTurn(runtime, calls(['act']));
    return [text, ran, logged];
  });
}

test('verdicts decide', async () => {
  const [text, ran] = await guarded(async () => deny('not today'));
  assert.ok(!ran && text.includes('not today'), text);
  for (const verdict of [allow(), undefined, null]) assert.ok((await guarded(() => verdict))[1]);
  assert.ok(!(await guarded(() => ask('sure?')))[1]); // there is no channel for the question
  assert.ok(!(await guarded(() => failed('no')))[1]);
});

test('a guard that gives no clear answer denies', async () => {
  for (const guard of [
    async () => {
      throw new Error('secret');
    },
    () => {
      throw new TypeError('secret');
    },
    async () => {
      throw undefined;
    },
    () => Promise.reject(null),
    () => {
      throw Object.assign(new Error('x'), { name: 'a\0b' });
    },
    (call) => call.get('nothing of this name'),
    (call) => {
      call.replace({ tool: 'other' });
    },
    () => ({
      then(resolve) {
        resolve('allow');
      },
    }),
    () => ({
      then() {
        throw new Error('secret');
      },
    }),
    () => ({
      get then() {
        throw new Error('secret');
      },
    }),
    ...[true, false, 0, '', 'allow', allow, { kind: 'allow' }, [allow()], Symbol('allow')].map(
      (given) => () => given,
    ),
    async () => {
      throw Object.create(null);
    },
    async () => {
      throw new Proxy(
        {},
        {
          getPrototypeOf() {
            throw new Error('secret');
          },
        },
      );
    },
  ]) {
    const [text, ran] = await guarded(guard);
    assert.ok(!ran, guard);
    assert.ok(!text.includes('secret'), text);
  }
});

test('a promise that never settles is timed out, and its late answer is discarded', async () => {
  const late = event();
  let open,
    aborted = false,
    answered = false,
    call;
  const [text, ran, logged] = await guarded(
    async (given) => {
      call = given;
      call.signal.addEventListener('abort', () => {
        aborted = true;
        open = call.isOpen;
      });
      await late.promise;
      answered = true;
      return allow();
    },
    { limitMs: SHORT_MS },
  );
  late.set();
  await new Promise(setImmediate);
  assert.deepStrictEqual([ran, aborted, open, answered], [false, true, false, true]);
  assert.ok(text.includes('did not answer') || text.includes('limit') || text.length > 0, text);
  assert.ok(!logged.some(({ message }) => message.includes('thrown')));
  assert.throws(() => call.tool, { code: 'TP_ERR_USAGE' }); // after its runtime was closed
});

test('a call cannot be read after its answer', () =>
  withRuntime(async (runtime) => {
    let kept;
    runtime.guard('tool.pre', { id: 'g' }, async (call) => {
      kept = call;
      return allow();
    });
    runtime.tool('act', () => 'x');
    await oneTurn(runtime, calls(['act']));
    for (const read of [
      () => kept.tool,
      () => kept.phase,
      () => kept.payload(),
      () => kept.addReminder('x'),
      () => kept.turnId,
    ])
      assert.throws(read, { code: 'TP_ERR_STALE' });
    assert.ok(!kept.isOpen && kept.signal.aborted);
  }));

test('a call shows its payload', () =>
  withRuntime(async (runtime) => {
    let seen;
    runtime.guard('tool.pre', { id: 'watch' }, (call) => {
      assert.throws(() => call.get('no field'), RangeError);
      seen = [
        call.tool,
        call.arguments,
        call.phase,
        call.attempt,
        call.get('result'),
        call.subscription,
        call.sessionId,
        call.turnId,
        call.messages().map(({ role }) => role),
        call.timeLeftMs > 0,
        call.mode,
        call.agentConfig,
        call.text,
      ];
      assert.ok('arguments' in call.payload());
      return allow();
    });
    runtime.tool('act', ({ n }) => n);
    const session = runtime.session({ id: 's', model: calls([['act', { n: 7 }]]) });
    await session.turn('go', { id: 't', mode: 'plan' });
    assert.deepStrictEqual(seen, [
      'act',
      { n: 7 },
      'tool.pre',
      1,
      undefined,
      'watch',
      's',
      't',
      ['user', 'assistant'],
      true,
      'plan',
      {},
      '',
    ]);
  }));

test('hooks add to the prompt and replace payloads', () =>
  withRuntime(async (runtime) => {
    let system, last;
    runtime.hook('turn.intake', { id: 'shout' }, async (call) => call.replace({ text: call.text.toUpperCase() }));
    runtime.hook('turn.pre_prompt_context', { id: 'context' }, (call) => {
      call.addContext('city', 'They live in Oslo.');
    });
    runtime.hook('turn.pre_prompt_compile', { id: 'section' }, async (call) => {
      call.addSection('manners', 'Be polite.', { title: 'Manners' });
      call.addDiagnostic('here', 'It was added.');
    });
    const { outcome } = await oneTurn(
      runtime,
      (request) => {
        system = request.system;
        last = request.messages.at(-1).text;
        return 'a';
      },
      'hi',
    );
    assert.strictEqual(outcome, 'completed');
    assert.ok((system + last).includes('They live in Oslo.') && last.endsWith('HI') && system.includes('Be polite.'));
  }));

test('what a hook cannot add is refused', async () => {
  const refused = [];
  const [, ran] = await guarded((call) => {
    for (const add of [
      () => call.emit({ kind: 'nonsense' }),
      () => call.emit({ kind: 'audit', colour: 'red' }),
      () => call.addSection('', ''),
      () => call.replace({ nothing: 1 }),
      () => call.replace({ tool: 'other' }),
      () => call.replace({ text: 3 }),
    ]) {
      try {
        add();
      } catch (error) {
        refused.push(error.name);
      }
    }
    return allow();
  });
  assert.ok(!ran); // an answer is taken as a whole or rejected as a whole
  assert.deepStrictEqual(refused, ['RangeError', 'TypeError', 'UsageError', 'RangeError', 'UsageError', 'TypeError']);
});

test('a registration is refused with its place', () =>
  withRuntime(async (runtime) => {
    const hook = () => {};
    for (const [phase, options, kind, words] of [
      ['tool.never', {}, tp.UsageError, 'tool.never'],
      ['tool.pre', { failure: 'always' }, RangeError, 'best_effort'],
      ['tool.pre', { limit: 3 }, TypeError, "no option 'limit'"],
      ['tool.pre', { limit_ms: 3 }, TypeError, 'camelCase'],
      ['tool.pre', { limitMs: -1 }, RangeError, 'limitMs'],
      ['tool.pre', { limitMs: 2 ** 40 }, RangeError, 'limitMs'],
      ['tool.pre', { limitMs: 1.5 }, RangeError, 'limitMs'],
      ['tool.pre', { limitMs: NaN }, RangeError, 'limitMs'],
      ['tool.pre', { limitMs: 'x' }, TypeError, 'limitMs'],
      ['tool.pre', { tools: [3] }, TypeError, 'tools'],
      ['tool.pre', { after: ['nothing'] }, tp.UsageError, 'nothing'],
      ['tool.pre', { id: 'a b' }, tp.UsageError, 'a b'],
      ['tool.pre', { id: 'a\0b' }, TypeError, 'NUL'],
      ['turn.intake', { tools: ['x'] }, tp.UsageError, 'tool'],
    ])
      assert.throws(
        () => runtime.hook(phase, options, hook),
        (error) => error instanceof kind && error.message.includes(words),
      );
    assert.throws(() => runtime.hook('tool.pre', {}), TypeError);
    for (const options of [hook, null, 3, 'x'])
      assert.throws(() => runtime.hook('tool.pre', options, hook), TypeError);
    runtime.guard('tool.pre', { id: 'one' }, hook);
    assert.throws(() => runtime.guard('tool.pre', { id: 'one' }, hook), tp.UsageError);
    runtime.removeHook('one');
    runtime.guard('tool.pre', { id: 'one' }, hook);
    assert.throws(() => runtime.removeHook('two'), tp.UsageError);
  }));

test('what throws is told to onLog', () =>
  withRuntime(async (runtime, logged) => {
    runtime.hook('tool.pre', { id: 'fails', failure: 'best_effort' }, () => {
      throw new Error('why');
    });
    runtime.tool('act', () => {
      throw new ToolError('the model reads it');
    });
    await oneTurn(runtime, calls(['act']));
    assert.deepStrictEqual(
      logged.filter(({ error }) => error).map(({ error }) => error.message),
      ['why'],
    );
  }));

test('a guard is required where its phase is not', async () => {
  const outcomes = [];
  for (const name of ['hook', 'guard']) {
    await withRuntime(async (runtime) => {
      runtime[name]('turn.pre_prompt_context', { limitMs: 60000 }, () => {
        throw new Error('x');
      });
      outcomes.push((await oneTurn(runtime)).outcome);
    });
  }
  assert.deepStrictEqual(outcomes, ['completed', 'failed']);
});

test('patterns choose calls', () =>
  withRuntime(async (runtime) => {
    const seen = [];
    runtime.guard('tool.pre', { tools: ['file_*'] }, (call) => {
      seen.push(call.tool);
    });
    for (const name of ['file_read', 'rain']) runtime.tool(name, () => 'ok');
    await oneTurn(runtime, calls(['file_read', 'rain']));
    assert.deepStrictEqual(seen, ['file_read']);
  }));

/* ---- tools ---- */

/* Returns the text that the model reads of a call. */
function read(run, given = {}, options = {}) {
  return withRuntime(async (runtime) => {
    runtime.tool('act', options, run);
    return (await oneTurn(runtime, calls([['act', given]], 'read'))).text.slice('read: '.length);
  });
}

test('answers', async () => {
  for (const [given, text] of [
    ['text', 'text'],
    [undefined, ''],
    [{ a: [1, null] }, '{"a":[1,null]}'],
    [4, '4'],
    [[true], '[true]'],
    [1.5, '1.5'],
    [new Date(0), '"1970-01-01T00:00:00.000Z"'],
    [12n, '12'],
    [answer({ text: 't', value: 3, parts: [{ kind: 'link', uri: 'https://example.org/' }] }), 't'],
  ])
    assert.ok((await read(() => given)).startsWith(text), text);
});

test('what throws is an error that the model reads', async () => {
  for (const [run, words] of [
    [
      () => {
        throw new ToolError('only in Norway');
      },
      'only in Norway',
    ],
    [
      async () => {
        throw new TypeError('x is no y');
      },
      'TypeError: x is no y',
    ],
    [() => new Map([[1, 2]]), 'a Map'],
    [() => ({ f() {} }), 'function'],
    [() => 2n ** 70n, '64 bits'],
    [() => answer({ text: 3 }), 'tool_answer.text'],
    [() => answer({ parts: [{ kind: 'smell' }] }), 'smell'],
    [
      () => {
        const loop = {};
        loop.loop = loop;
        return loop;
      },
      'inside each other',
    ],
    [
      () => ({
        toJSON() {
          throw new Error('no JSON');
        },
      }),
      'no JSON',
    ],
    [() => new Float32Array(2), 'Uint8Array'],
  ])
    assert.ok((await read(run)).includes(words), words);
});

test('tools run at the same time', () =>
  withRuntime(async (runtime) => {
    const both = event();
    let running = 0;
    for (const name of ['one', 'two']) {
      runtime.tool(name, async () => {
        if (++running === 2) both.set();
        await both.promise;
        return name;
      });
    }
    assert.strictEqual((await oneTurn(runtime, calls(['one', 'two']))).text, 'done: one | two');
  }));

test('a tool that never settles is timed out', () =>
  withRuntime(async (runtime) => {
    let signal;
    runtime.tool('act', { limitMs: SHORT_MS }, (given, run) => {
      ({ signal } = run);
      return never();
    });
    const turn = runtime.session({ model: calls(['act']) }).turn('x', { events: ['tool_end'] });
    const kinds = [];
    for await (const { toolResult } of turn) kinds.push(toolResult.kind);
    assert.deepStrictEqual([kinds, (await turn).outcome], [['timed_out'], 'completed']);
    assert.ok(signal.aborted && signal.reason.name === 'AbortError');
  }));

test('arguments are checked before the call', async () => {
  const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
  let ran = false;
  const text = await read(
    () => {
      ran = true;
    },
    { n: 'x' },
    { schema },
  );
  assert.ok(!ran && text.includes('n'), text);
  assert.strictEqual(await read(({ n }) => n + 1, { n: 1 }, { schema }), '2');
});

test('a run is the second argument', async () => {
  const schema = { type: 'object' };
  const text = await read(
    (given, run) => [run.name, typeof run.callId, run.arguments, given, run.isOpen],
    { n: 1 },
    { schema },
  );
  assert.strictEqual(text, '["act","string",{"n":1},{"n":1},true]');
});

test('names of members that a model has chosen are only names', async () => {
  const given = JSON.parse('{"__proto__": {"admin": true}, "constructor": 1, "a": {"__proto__": 2}}');
  const text = await read(
    (seen) => [
      Object.keys(seen),
      Object.keys(seen.a),
      seen.admin ?? 'none',
      Object.getPrototypeOf(seen) === Object.prototype,
    ],
    given,
  );
  assert.strictEqual(text, '[["__proto__","constructor","a"],["__proto__"],"none",true]');
});

test('a nested turn ends with its call', () =>
  withRuntime(async (runtime) => {
    const inner = runtime.session({ id: 'inner', model: saysHello });
    let kept;
    runtime.tool('delegate', async (given, run) => {
      kept = run;
      return (await run.turn(inner, 'from ' + run.sessionId)).text;
    });
    const session = runtime.session({ id: 'outer', model: calls(['delegate']) });
    assert.strictEqual((await session.turn('x')).text, 'done: hello from outer');
    await assert.rejects(Promise.resolve(kept.turn(inner, 'late')), { code: 'TP_ERR_USAGE' });
  }));

/* ---- turns ---- */

test('an AbortSignal cancels the turn', () =>
  withRuntime(async (runtime) => {
    const begun = event(),
      abort = new AbortController(),
      reason = new Error('enough');
    const session = runtime.session({
      model: () => {
        begun.set();
        return never();
      },
    });
    const turn = session.turn('x', { signal: abort.signal });
    const waited = assert.rejects(Promise.resolve(turn), (error) => error === reason);
    const queued = session.turn('y').start();
    await begun.promise;
    abort.abort(reason);
    await waited;
    assert.strictEqual(turn.result.outcome, 'cancelled');
    await assert.rejects(Promise.resolve(session.turn('z', { signal: abort.signal })), (error) => error === reason);
    queued.cancel();
    assert.strictEqual((await queued).outcome, 'cancelled');
    assert.strictEqual((await queued).check.length, 0);
    assert.throws(() => queued.result.check(), tp.CanceledError);
    const unused = new AbortController();
    const done = await runtime.session({ model: saysHello }).turn('x', { signal: unused.signal });
    assert.deepStrictEqual(getEventListeners(unused.signal, 'abort'), []);
    unused.abort();
    assert.strictEqual(done.outcome, 'completed');
  }));

test('a limit ends a turn', () =>
  withRuntime(async (runtime) => {
    const result = await runtime.session({ model: never }).turn('x', { limitMs: SHORT_MS });
    assert.strictEqual(result.outcome, 'timed_out');
    assert.throws(() => result.check(), tp.TimeoutError);
  }));

test('a turn begins when it is used, once', () =>
  withRuntime(async (runtime) => {
    let asked = 0;
    const session = runtime.session({
      model: () => {
        asked++;
        return 'a';
      },
    });
    session.turn('never begun');
    const turn = session.turn('x');
    assert.strictEqual(turn.result, undefined);
    assert.strictEqual((await Promise.all([turn, turn, turn.start()])).length, 3);
    assert.strictEqual(await turn, turn.result);
    assert.strictEqual(asked, 1);
    assert.throws(() => turn[Symbol.asyncIterator](), tp.UsageError);
    assert.throws(() => session.turn('x', { events: ['nothing'] }), RangeError);
    assert.throws(() => session.turn(3), TypeError);
    assert.throws(() => turn.addMessage('late'), tp.UsageError);
    assert.throws(() => session.turn('x').addMessage('early'), tp.UsageError);
    await assert.rejects(Promise.resolve(session.turn('x', { colour: 1 })), TypeError);
    let last;
    await turn.finally(() => {
      last = 'f';
    });
    assert.strictEqual(last, 'f');
  }));

test('leaving the events early leaves the turn running', () =>
  withRuntime(async (runtime) => {
    const turn = runtime.session({ model: saysHello }).turn('x');
    for await (const { kind } of turn) {
      assert.strictEqual(kind, 'turn_begin');
      break;
    }
    assert.strictEqual((await turn).text, 'hello x');
  }));

test('each reader gets the events of its turn', () =>
  withRuntime(async (runtime) => {
    const session = runtime.session({ model: saysHello });
    const texts = await Promise.all(
      ['a', 'b', 'c'].map(async (text) => {
        const seen = [];
        for await (const { text: said } of session.turn(text, { events: ['turn_begin', 'model_end'] }))
          seen.push(said);
        return seen;
      }),
    );
    assert.deepStrictEqual(
      texts,
      ['a', 'b', 'c'].map((text) => [text, 'hello ' + text]),
    );
  }));

test('a slow reader is told what was lost', () =>
  withRuntime(async (runtime) => {
    const session = runtime.session({
      async *model() {
        for (let i = 0; i < 66000; i++) {
          yield '.';
          if (i % 500 === 0) await new Promise(setImmediate);
        }
      },
    });
    const turn = session.turn('x', { events: ['model_delta', 'lost'], eachDelta: true });
    const events = turn[Symbol.asyncIterator]();
    await turn;
    let count = 0,
      lost = 0;
    for await (const seen of events) {
      if (seen.kind === 'lost') lost += seen.lost;
      else count++;
    }
    assert.strictEqual(count + lost, 66000);
    assert.ok(lost >= 66000 - 65536, String(lost));
  }));

test('messages are added to a turn', () =>
  withRuntime(async (runtime) => {
    let turn;
    runtime.tool('act', () => {
      turn.addMessage('and quickly');
      return 'x';
    });
    let seen;
    turn = runtime
      .session({
        model: async (request) => {
          if (request.messages.length === 1) return { calls: [{ name: 'act' }] };
          seen = request.messages.map(({ text }) => text);
          return 'a';
        },
      })
      .turn('go')
      .start();
    await turn;
    assert.ok(seen.includes('and quickly'), seen);
  }));

test('the async context of the turn is that of its calls', () =>
  withRuntime(async (runtime) => {
    const storage = new AsyncLocalStorage(),
      seen = [];
    const look = (name) => {
      seen.push(`${name} ${storage.getStore()}`);
    };
    runtime.guard('tool.pre', { id: 'g' }, async () => {
      await null;
      look('guard');
    });
    runtime.tool('act', async () => {
      look('tool');
      return 'x';
    });
    const session = runtime.session({
      model: (request) => {
        look('model');
        return calls(['act'])(request);
      },
    });
    await Promise.all([1, 2].map((number) => storage.run(number, () => session.turn('x'))));
    assert.deepStrictEqual(seen.sort(), [
      'guard 1',
      'guard 2',
      'model 1',
      'model 1',
      'model 2',
      'model 2',
      'tool 1',
      'tool 2',
    ]);
  }));

test('a person decides', async () => {
  const asked = [];
  for (const [decision, wanted] of [
    [{ allow: true, person: 'eve' }, true],
    [true, true],
    [{ allow: false, reason: 'no' }, false],
    [undefined, false],
    ['yes', false],
    [{ allow: 'yes' }, false],
    [{ allow: true, reason: 3 }, false],
    [{ allow: true, arguments: { to: 'bob' } }, 'bob'],
  ]) {
    const onQuestion = async (question) => {
      asked.push(question);
      return decision;
    };
    await withRuntime({ onQuestion }, async (runtime) => {
      let ran = false;
      runtime.guard('tool.pre', { id: 'g' }, () => ask('mail leaves'));
      runtime.tool('act', ({ to }) => {
        ran = to === 'bob' ? to : true;
      });
      await oneTurn(runtime, calls([['act', { to: 'eve' }]]));
      assert.strictEqual(ran, wanted, decision);
    });
  }
  assert.deepStrictEqual([asked[0].tool, asked[0].arguments, asked[0].subscription], ['act', { to: 'eve' }, 'g']);
  assert.ok(asked[0].reason.includes('mail leaves'));
  await withRuntime(
    {
      onQuestion: () => {
        throw new Error('x');
      },
    },
    async (runtime) => {
      let ran = false;
      runtime.guard('tool.pre', { id: 'g' }, () => ask('sure?'));
      runtime.tool('act', () => {
        ran = true;
      });
      await oneTurn(runtime, calls(['act']));
      assert.ok(!ran);
    },
  );
});

test('agents', () =>
  withRuntime(async (runtime) => {
    let tools, config;
    runtime.hook('turn.intake', { id: 'config' }, (call) => {
      config = call.agentConfig;
    });
    for (const name of ['one', 'two']) runtime.tool(name, () => 'x');
    const model = (request) => {
      tools = request.tools.map(({ name }) => name);
      return request.system;
    };
    const agent = await runtime.agent({
      id: 'clerk',
      system: 'You are a clerk.',
      model,
      tools: ['two'],
      extra: { level: 3 },
    });
    const session = runtime.session({ agent });
    assert.ok((await session.turn('x')).text.includes('You are a clerk.'));
    assert.deepStrictEqual(tools, ['two']);
    assert.strictEqual(config.level, 3);
    const played = await runtime.agent({ id: 'played', model: script(['a']) });
    assert.strictEqual((await runtime.session({ agent: played }).turn('x')).text, 'a');
    await assert.rejects(runtime.agent({ id: 'a b', model }), (error) => error instanceof tp.UsageError);
    await assert.rejects(runtime.agent({ id: 'clerk', model }), tp.TurnphaseError);
    assert.throws(() => runtime.session({ agent: 'clerk' }), TypeError);
    await session.close();
    await agent.remove();
    assert.throws(() => runtime.session({ agent }), tp.UsageError);
  }));

test('what is not open is refused', async () => {
  assert.throws(() => new Runtime(), TypeError);
  await assert.rejects(Runtime.open({ colour: 1 }), TypeError);
  await assert.rejects(Runtime.open({ parts: [{}] }), TypeError);
  await assert.rejects(Runtime.open({ parts: 3 }), TypeError);
  await assert.rejects(Runtime.open({ onLog: 3 }), TypeError);
  await assert.rejects(Runtime.open({ database: 'x.db' }), TypeError);
  const runtime = await Runtime.open();
  const session = runtime.session({ model: saysHello }),
    other = runtime.session({ id: 'other', model: saysHello });
  assert.throws(() => runtime.session({ id: 'other', model: saysHello }), tp.TurnphaseError);
  await other.close();
  await other.close();
  assert.throws(() => other.turn('x').start(), tp.UsageError);
  runtime.session({ id: 'other', model: saysHello });
  await Promise.all([runtime.close(), runtime.close()]);
  assert.ok(runtime.isClosed);
  for (const use of [
    () => runtime.session(),
    () => session.turn('x').start(),
    () => runtime.tool('a', () => 1),
    () => runtime.guard('tool.pre', () => 1),
    () => session.turn('x')[Symbol.asyncIterator](),
  ])
    assert.throws(use, { code: 'TP_ERR_USAGE', category: 'usage' });
  await session.close();
});
