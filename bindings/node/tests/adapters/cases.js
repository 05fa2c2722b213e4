// SPDX-License-Identifier: Apache-2.0
/* Tests that every adapter must pass, played against the real framework. The test of a framework provides a function
 * that runs an agent. */
'use strict';

const assert = require('node:assert');
const { AsyncLocalStorage } = require('node:async_hooks');
const { test } = require('node:test');
const { ask, deny, failed, Runtime } = require('turnphase');

const storage = new AsyncLocalStorage();
const never = () => new Promise(() => {});

function event() {
  let set;
  const promise = new Promise((resolve) => {
    set = resolve;
  });
  return { promise, set };
}

/* Tools for a framework, as functions (given, signal), and what has happened to them. */
function toolsOf() {
  const ran = [],
    begun = event(),
    aborted = event(),
    counted = event();
  const run = {
    look: async ({ path }) => {
      ran.push(['look', path, storage.getStore()]);
      return `seen ${path}`;
    },
    count: async ({ path }) => {
      ran.push(['count', path, storage.getStore()]);
      counted.set();
      return 7;
    },
    late: async ({ path }) => {
      await counted.promise;
      return `late ${path}`;
    },
    hang: (given, signal) => {
      begun.set();
      signal?.addEventListener('abort', aborted.set);
      return never();
    },
    fail: async () => {
      throw new RangeError('no such file');
    },
  };
  return { run, ran, begun: begun.promise, aborted: aborted.promise };
}

/* play(session, tools, calls, {signal, options}) runs an agent whose model makes these calls ([name, arguments]) at
 * once and then ends; it returns the texts that the model has read, in the order of the calls. session undefined: no
 * hooks. */
function cases(name, play) {
  const check = (title, run) =>
    test(`${name}: ${title}`, async () => {
      const asked = [];
      const runtime = await Runtime.open({ onQuestion: (question) => asked.shift()(question), onLog: () => {} });
      const tools = toolsOf();
      const go = (calls, more = {}) =>
        play(runtime.session(), tools.run, calls.map(([tool, path]) => [tool, { path }]), more);
      try {
        await run({ runtime, tools, go, asked });
      } finally {
        await runtime.close({ drainMs: 0 });
      }
    });

  check('a call goes through its gates', async ({ runtime, tools, go }) => {
    const seen = [];
    runtime.guard('tool.pre', { id: 'see' }, (call) => {
      seen.push([call.tool, call.arguments.path]);
    });
    runtime.hook('tool.post', { id: 'post' }, (call) => {
      seen.push([call.get('status'), call.get('result')]);
    });
    const calls = [['look', 'a'], ['count', 'b']];
    assert.deepStrictEqual(await storage.run('of the host', () => go(calls)), ['seen a', '7']);
    assert.deepStrictEqual(tools.ran.sort(), [['count', 'b', 'of the host'], ['look', 'a', 'of the host']]);
    assert.deepStrictEqual(seen.sort(), [...calls, ['success', '7'], ['success', 'seen a']].sort());
  });

  check('a denied call reads as denied', async ({ runtime, tools, go }) => {
    runtime.guard('tool.pre', { id: 'keep', tools: ['look'] }, () => deny('files are kept'));
    const [denied, counted] = await go([['look', 'a'], ['count', 'b']]);
    assert.match(denied, /files are kept/);
    assert.deepStrictEqual([counted, tools.ran.length], ['7', 1]);
  });

  check('a guard without a clear answer has not allowed', async ({ runtime, tools, go }) => {
    const raises = () => {
      throw new Error('broken');
    };
    for (const guard of [raises, never, () => true, () => failed('broken')]) {
      runtime.guard('tool.pre', { id: 'guard', limitMs: 30 }, guard);
      const [text] = await go([['look', 'a']]);
      assert.doesNotMatch(text, /seen/);
      runtime.removeHook('guard');
    }
    assert.deepStrictEqual(tools.ran, []);
  });

  check('a person is asked', async ({ runtime, tools, go, asked }) => {
    runtime.guard('tool.pre', { id: 'ask' }, () => ask('why not'));
    asked.push(() => ({ allow: true }), () => ({ allow: false, reason: 'not today' }));
    assert.deepStrictEqual(await go([['look', 'a']]), ['seen a']);
    assert.match((await go([['look', 'a']]))[0], /not today/);
    assert.strictEqual(tools.ran.length, 1);
  });

  check('calls keep their order', async ({ go }) => {
    assert.deepStrictEqual(await go([['late', 'a'], ['look', 'b'], ['count', 'c']]), ['late a', 'seen b', '7']);
  });

  check('hooks replace arguments and results', async ({ runtime, tools, go }) => {
    runtime.hook('tool.rewrite', { id: 'in', tools: ['look'], grants: 'rewrite' }, (call) => {
      call.replace({ arguments: { path: `public/${call.arguments.path}` } });
    });
    runtime.hook('tool.result', { id: 'out', tools: ['look'] }, (call) => {
      call.replace({ result: call.get('result').replace('seen', 'hidden') });
    });
    assert.deepStrictEqual(await go([['look', 'a'], ['count', 'b']]), ['hidden public/a', '7']);
    assert.ok(tools.ran.some(([, path]) => path === 'public/a'));
  });

  check('a result that a hook gives stands for the run', async ({ runtime, tools, go }) => {
    runtime.hook('tool.rewrite', { id: 'cache', grants: 'rewrite' }, (call) => call.replace({ result: 'cached' }));
    assert.deepStrictEqual([await go([['look', 'a']]), tools.ran], [['cached'], []]);
  });

  check('a tool that takes too long', async ({ tools, go }) => {
    const [late, seen] = await go([['hang', 'a'], ['look', 'b']], { options: { limitMs: 40 } });
    assert.match(late, /the tool did not answer in time/);
    assert.strictEqual(seen, 'seen b');
    await tools.aborted;
  });

  check('a run that is cancelled', async ({ tools, go }) => {
    const abort = new AbortController();
    const run = go([['hang', 'a']], { signal: abort.signal });
    await tools.begun;
    abort.abort();
    await assert.rejects(run);
    await tools.aborted;
  });

  check('a run that is cancelled in a guard', async ({ runtime, tools, go }) => {
    const abort = new AbortController(),
      asked = event(),
      gone = event();
    runtime.guard('tool.pre', { id: 'guard' }, (call) => {
      call.signal.addEventListener('abort', gone.set);
      asked.set();
      return never();
    });
    const run = go([['look', 'a']], { signal: abort.signal });
    await asked.promise;
    abort.abort();
    await assert.rejects(run);
    await gone.promise;
    assert.deepStrictEqual(tools.ran, []);
  });

  check('a runtime that is closed runs nothing', async ({ runtime, tools, go }) => {
    const run = go([['hang', 'a']]).then(String, String);
    await tools.begun;
    await runtime.close({ drainMs: 0 });
    assert.match(await run, /cancel|closed/i);
    assert.throws(() => runtime.session());
    assert.deepStrictEqual(tools.ran, []);
  });

  check('what a tool throws is the framework\'s', async ({ runtime, tools }) => {
    const seen = [];
    runtime.hook('tool.post', { id: 'post' }, (call) => {
      seen.push(call.get('status'));
    });
    const ends = [];
    for (const session of [undefined, runtime.session()])
      ends.push(await play(session, tools.run, [['fail', { path: 'a' }]], {}).then(String, String));
    assert.strictEqual(ends[0], ends[1]);
    assert.strictEqual(seen.length, 1);
  });

  check('a tool outside of its framework', async ({ runtime, go }) => {
    await go([['look', 'a']]);
    const [{ kind, text }] = await runtime.session().callTools([{ name: 'look', arguments: { path: 'a' } }]);
    assert.strictEqual(kind, 'handler_error');
    assert.match(text, /framework/);
  });
}

module.exports = { cases };
