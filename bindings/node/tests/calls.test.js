// SPDX-License-Identifier: Apache-2.0
/* Tool calls of a program other than a turn of the library: session.callTools(). */
'use strict';

const assert = require('node:assert');
const { AsyncLocalStorage } = require('node:async_hooks');
const { test } = require('node:test');
const tp = require('turnphase');
const { deny } = tp;
const { event, never, withRuntime } = require('./support.js');

const number = { type: 'object', properties: { number: { type: 'integer' } }, required: ['number'] };

/* Calls run(session, runtime, begun, ended) with a tool that doubles a number, and one that hangs until it is
 * aborted. */
const withTools = (run) =>
  withRuntime(async (runtime) => {
    const begun = event(),
      ended = event();
    runtime.tool('double', { schema: number }, async (given) => 2 * given.number);
    runtime.tool('hang', (given, { signal }) => {
      begun.set();
      signal.addEventListener('abort', ended.set);
      return never();
    });
    await run(runtime.session({ id: 's' }), runtime, begun.promise, ended.promise);
  });
const kindsOf = (rows) => rows.map(({ kind, text }) => [kind, text]);
const doubled = (value) => ({ name: 'double', arguments: { number: value } });

test('each goes through its gates', () =>
  withTools(async (session, runtime) => {
    const seen = [];
    runtime.guard('tool.pre', { id: 'small' }, (call) => (call.arguments.number > 9 ? deny('too large') : undefined));
    runtime.hook('tool.post', { id: 'post' }, (call) => {
      seen.push([call.sessionId, call.turnId, call.get('call_id'), call.get('status')]);
    });
    const calls = [1, 50, 3].map((value) => ({ ...doubled(value), id: `c${value}` }));
    const bad = { name: 'double', arguments: { number: 'x' } };
    assert.deepStrictEqual(kindsOf(await session.callTools([...calls, { name: 'none' }, bad], { id: 't' })), [
      ['ok', '2'],
      ['denied', 'hook small blocked the action: too large'],
      ['ok', '6'],
      ['unknown_tool', 'there is no tool of that name'],
      ['invalid_arguments', 'arguments.number: expected integer, got string'],
    ]);
    assert.deepStrictEqual(seen.sort(), [
      ['s', 't', 'c1', 'success'],
      ['s', 't', 'c3', 'success'],
    ]);
    assert.deepStrictEqual(await session.callTools([]), []);
  }));

test('several at once in a session, each in its async context', () =>
  withTools(async (session, runtime) => {
    const storage = new AsyncLocalStorage();
    runtime.tool('where', () => storage.getStore());
    const one = (at) => storage.run(`in ${at}`, () => session.callTools([doubled(at), { name: 'where' }]));
    const rows = await Promise.all(Array.from({ length: 20 }, (_, at) => one(at)));
    rows.forEach((row, at) =>
      assert.deepStrictEqual(kindsOf(row), [
        ['ok', String(2 * at)],
        ['ok', `in ${at}`],
      ]),
    );
  }));

test('no other phase runs', () =>
  withTools(async (session, runtime) => {
    const ran = [];
    for (const phase of ['turn.intake', 'model.pre', 'turn.stop', 'turn.post_turn', 'turn.pre_tool_materialization'])
      runtime.hook(phase, { id: phase }, (call) => {
        ran.push(call.phase);
      });
    await session.callTools([doubled(1)]);
    assert.deepStrictEqual(ran, ['turn.pre_tool_materialization']);
  }));

test('what is refused leaves nothing', () =>
  withTools(async (session, runtime) => {
    runtime.hook('turn.pre_tool_materialization', { id: 'broken', failure: 'required' }, () => {
      throw new Error('broken');
    });
    await assert.rejects(session.callTools([doubled(1)]), tp.HookError);
    runtime.removeHook('broken');
    for (const options of [{ id: 'a b' }, { system: 'x' }, { unknown: 1 }])
      await assert.rejects(session.callTools([doubled(1)], options));
    for (const calls of ['double', undefined, [null], [{ name: 'double', arguments: new Map([[1, () => 1]]), x: 1 }]])
      await assert.rejects(session.callTools(calls), TypeError);
    assert.deepStrictEqual(kindsOf(await session.callTools([doubled(1)])), [['ok', '2']]);
  }));

test('a signal cancels', () =>
  withTools(async (session, runtime, begun, ended) => {
    const abort = new AbortController();
    const calls = session.callTools([{ name: 'hang' }], { signal: abort.signal });
    await begun;
    abort.abort();
    await assert.rejects(calls, (error) => error === abort.signal.reason);
    await ended;
    const early = new AbortController(); // cancelled before its tools have come
    const second = session.callTools([{ name: 'hang' }], { signal: early.signal });
    early.abort();
    await assert.rejects(second, (error) => error === early.signal.reason);
    await assert.rejects(session.callTools([doubled(1)], { signal: early.signal }), { name: 'AbortError' });
  }));

test('a limit of the turn, and a runtime that is closed', () =>
  withTools(async (session, runtime, begun, ended) => {
    let isBegun = false;
    begun.then(() => {
      isBegun = true;
    });
    const [[kind]] = kindsOf(await session.callTools([{ name: 'hang' }], { limitMs: 20 }));
    assert.ok(['cancelled', 'timed_out'].includes(kind), kind);
    if (isBegun) await ended; // on a slow machine the call may be cancelled before it begins
    const begunAgain = event();
    runtime.tool('hangs', () => {
      begunAgain.set();
      return never();
    });
    const calls = session.callTools([{ name: 'hangs' }]);
    await begunAgain.promise;
    await runtime.close({ drainMs: 0 });
    const end = await calls.then(kindsOf, (error) => error.code);
    assert.ok(end === 'TP_ERR_USAGE' || end[0][0] === 'cancelled', String(end));
    await assert.rejects(session.callTools([doubled(1)]), tp.UsageError);
  }));
