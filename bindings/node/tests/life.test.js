// SPDX-License-Identifier: Apache-2.0
/* Ends at a bad moment: of signals, objects, workers and the process. */
'use strict';

const assert = require('node:assert');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { promisify } = require('node:util');
const { Worker } = require('node:worker_threads');
const tp = require('turnphase');
const { allow, Runtime } = tp;
const { calls, event, never, oneTurn, saysHello, withRuntime } = require('./support.js');

const env = { ...process.env, MALLOC_PERTURB_: '165' };
const PACKAGE = require.resolve('turnphase');

/* Runs a program in a process of its own, in which freed memory is overwritten. Returns {code, signal, output}. */
async function program(text, ...flags) {
  try {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [...flags, '-e', text], {
      timeout: 60000,
      env,
    });
    return { code: 0, signal: null, output: stdout + stderr };
  } catch ({ code, signal, stdout, stderr }) {
    return { code, signal, output: stdout + stderr };
  }
}

const SETUP = `
const { Runtime, allow, script } = require(${JSON.stringify(PACKAGE)});
const never = () => new Promise(() => {});
async function hanging(runtime) {
  await new Promise((begun) => runtime.session({ model: () => { begun(); return never(); } }).turn('x').start());
}
`;

test('many turns are cancelled', () =>
  withRuntime(async (runtime) => {
    const abort = new AbortController();
    const sessions = Array.from({ length: 20 }, () => runtime.session({ model: never }));
    const turns = sessions.flatMap((session) =>
      Array.from({ length: 50 }, () => session.turn('x', { signal: abort.signal }).start()),
    );
    await new Promise(setImmediate);
    abort.abort();
    const ends = await Promise.allSettled(turns);
    assert.ok(ends.every(({ reason }) => reason === abort.signal.reason));
    assert.ok(turns.every(({ result }) => result.outcome === 'cancelled'));
    await Promise.all(sessions.map((session) => session.close()));
  }));

test('nothing is kept of turns and registrations', async () => {
  const run = await program(
    `${SETUP}
    const fs = require('node:fs');
const os = require('node:os');
    async function main() {
      const runtime = await Runtime.open();
      runtime.guard('tool.pre', { id: 'g' }, async (call) => { call.signal; call.payload(); return allow(); });
      runtime.tool('act', async () => 'x');
      const model = (request) => request.messages.at(-1).role === 'user' ? { calls: [{ name: 'act' }] } : 'done';
      async function turns(count) {
        for (let i = 0; i < count; i++) {
          const session = runtime.session({ model }), abort = new AbortController();
          for await (const event of session.turn('x', { signal: abort.signal })) if (event.kind === 'model_end') break;
          await session.turn('y');
          runtime.hook('tool.pre', { id: 'passing' }, () => {});
          runtime.removeHook('passing');
          for (const refused of [
            () => session.turn('x', { id: 'a b' }).start(),
            () => session.turn('x', { id: 'a b' })[Symbol.asyncIterator](),
            () => runtime.session({ id: 'a b', model }),
            () => runtime.tool('a b', () => 1),
          ]) {
            try {
              refused();
              throw new Error('it was taken');
            } catch (error) {
              if (error.code !== 'TP_ERR_BAD_ID') throw error;
            }
          }
          await session.close();
        }
        gc();
        await new Promise(setImmediate);
        gc();
        return { heap: process.memoryUsage().heapUsed, fds: fs.readdirSync('/proc/self/fd').length };
      }
      let before = await turns(150);
      const grown = [], fds = before.fds;
      for (let i = 0; i < 3; i++) {
        const after = await turns(150);
        grown.push(after.heap - before.heap);
        before = after;
      }
      await runtime.close();
      console.log(JSON.stringify({ grown: Math.min(...grown), fds: before.fds - fds }));
    }
    main();`,
    '--expose-gc',
  );
  assert.strictEqual(run.code, 0, run.output);
  const { grown, fds } = JSON.parse(run.output);
  assert.ok(grown < 75000, `${grown} bytes`); // a leak would grow in each of the 150 rounds; this allows less than 500
                                              // bytes for each
  assert.strictEqual(fds, 0);
});

test('many turns leave nothing', async () => {
  const words = ['--expose-gc', path.join(__dirname, 'leaks.js'), '2000'];
  await promisify(execFile)(process.execPath, words, { timeout: 100000 });
});

test('collections during turns', async () => {
  const run = await program(
    `${SETUP}
    async function main() {
      const runtime = await Runtime.open();
      runtime.guard('tool.pre', { id: 'g' }, async (call) => {
        gc(); call.payload(); await null; gc(); return allow();
      });
      runtime.tool('act', async (given, run) => { gc(); return [run.name, given]; });
      const model = async (request) => {
        gc();
        return request.messages.at(-1).role === 'user' ? { calls: [{ name: 'act' }, { name: 'act' }] } : 'done';
      };
      const named = require(${JSON.stringify(PACKAGE)}).functionModel(model, { name: 'n' + 1, provider: 'p' + 1 });
      const results = await Promise.all(Array.from({ length: 10 }, () => runtime.session({ model: named }).turn('x')));
      gc();
      console.log(results.map(({ text }) => text).join());
      const played = await runtime.agent({ id: 'played', model: script(['a', 'b']) });
      for (let i = 0; i < 3; i++) { gc(); await new Promise(setImmediate); }
      if ((await runtime.session({ agent: played }).turn('x')).text !== 'a') throw new Error('its model is gone');
      const lost = await Runtime.open(); // never closed
      lost.session({ model });
      await runtime.close();
    }
    main();`,
    '--expose-gc',
  );
  assert.deepStrictEqual([run.code, run.output.trim()], [0, Array(10).fill('done').join()]);
});

test('two runtimes in one loop', async () => {
  const [one, two] = await Promise.all([Runtime.open(), Runtime.open()]);
  one.tool('who', () => 'one');
  two.tool('who', () => 'two');
  const texts = await Promise.all([one, two, one].map((runtime) => oneTurn(runtime, calls(['who']))));
  assert.deepStrictEqual(
    texts.map(({ text }) => text),
    ['done: one', 'done: two', 'done: one'],
  );
  const agent = await two.agent({ id: 'a', model: saysHello });
  assert.throws(() => one.session({ agent }), tp.UsageError);
  await Promise.all([one.close(), two.close()]);
});

test('closing cancels what runs, and settles what is awaited', async () => {
  const runtime = await Runtime.open({ drainMs: 0 });
  const begun = event();
  let signal;
  const session = runtime.session({
    model: (request) => {
      ({ signal } = request);
      begun.set();
      return never();
    },
  });
  const turns = [session.turn('x').start(), session.turn('y').start()];
  const events = [];
  const reading = (async () => {
    for await (const { kind } of session.turn('z')) events.push(kind);
  })();
  await begun.promise;
  await runtime.close();
  const outcomes = (await Promise.all(turns)).map(({ outcome }) => outcome);
  assert.deepStrictEqual(outcomes, ['cancelled', 'cancelled']);
  assert.ok(signal.aborted);
  await reading;
});

test('a call is answered after its runtime was closed', async () => {
  const late = event(),
    begun = event();
  const runtime = await Runtime.open();
  let answered = 0;
  runtime.tool('act', async () => {
    begun.set();
    await late.promise;
    answered++;
    return 'x';
  });
  const turn = runtime
    .session({ model: calls(['act']) })
    .turn('x')
    .start();
  await begun.promise;
  await runtime.close({ drainMs: 0 });
  late.set();
  await new Promise(setImmediate);
  assert.deepStrictEqual([(await turn).outcome, answered], ['cancelled', 1]);
});

test('the process ends in mid-turn', async () => {
  for (const [end, code] of [
    ['process.exit(7)', 7],
    ['throw new Error("end")', 1],
    ['process.exitCode = 7; process.reallyExit(7)', 7],
    ['process.on("exit", () => runtime.session({ model: never }).turn("y").start()); process.exit(7)', 7],
    ['runtime.close(); process.exit(7)', 7],
    ['Runtime.open(); process.exit(7)', 7],
    ['process.kill(process.pid, "SIGTERM"); await never()', null],
  ]) {
    const run = await program(
      `${SETUP} (async () => { const runtime = await Runtime.open(); await hanging(runtime); ${end}; })()`,
    );
    assert.deepStrictEqual([end, run.code], [end, code], run.output);
    assert.strictEqual(run.signal, code === null ? 'SIGTERM' : null, run.output);
  }
});

test('an idle runtime does not keep the process, and an awaited turn does', async () => {
  const idle = await program(`${SETUP} Runtime.open().then((runtime) => { runtime.tool('a', () => 1);
    runtime.session({ model: script(['a']) }); console.log('idle'); })`);
  assert.deepStrictEqual([idle.code, idle.output], [0, 'idle\n']);
  const awaited = await program(`${SETUP} Runtime.open().then(async (runtime) => {
    runtime.tool('wait', () => new Promise((resolve) => { setTimeout(resolve, 20, 'x').unref(); }));
    const session = runtime.session({ model: script([{ tool_calls: [{ name: 'wait' }] }, 'waited']) });
    console.log((await session.turn('x')).text); })`);
  assert.deepStrictEqual([awaited.code, awaited.output], [0, 'waited\n']);
});

test('each worker has runtimes of its own', async () => {
  const file = `const { parentPort } = require('node:worker_threads');
    const { Runtime } = require(${JSON.stringify(PACKAGE)});
    (async () => {
      const [one, two] = await Promise.all([Runtime.open(), Runtime.open()]);
      for (const runtime of [one, two]) runtime.tool('act', () => 'acted');
      const model = async (request) => request.messages.at(-1).role === 'user' ? { calls: [{ name: 'act' }] }
        : request.messages.at(-1).text;
      const texts = await Promise.all([one, two].flatMap((runtime) => Array.from({ length: 5 }, async () =>
        (await runtime.session({ model }).turn('x')).text)));
      await one.close();
      parentPort.postMessage(texts.join());
    })();`;
  const ends = Array.from({ length: 3 }, async () => {
    const worker = new Worker(file, { eval: true });
    const [text, code] = await Promise.all(
      ['message', 'exit'].map(
        (name) =>
          new Promise((resolve, reject) => {
            worker.once(name, resolve);
            worker.once('error', reject);
          }),
      ),
    );
    return [text, code];
  });
  for (const [text, code] of await Promise.all(ends))
    assert.deepStrictEqual([text, code], [Array(10).fill('acted').join(), 0]);
});

test('a worker is terminated in mid-turn', async () => {
  const before = fs.readdirSync('/proc/self/fd').length;
  for (const code of ['await hanging(runtime);', '', 'runtime.close();', 'Runtime.open();']) {
    const worker = new Worker(
      `${SETUP} (async () => { const runtime = await Runtime.open(); ${code}
        require('node:worker_threads').parentPort.postMessage('begun'); setInterval(() => {}, 1000); })()`,
      { eval: true },
    );
    await new Promise((resolve) => worker.once('message', resolve));
    assert.strictEqual(await worker.terminate(), 1);
  }
  assert.ok(fs.readdirSync('/proc/self/fd').length <= before + 2);
});

test('a runtime and a session are disposed', async () => {
  const dispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');
  const runtime = await Runtime.open();
  const begun = event();
  const session = runtime.session({
    id: 's',
    model: () => {
      begun.set();
      return never();
    },
  });
  const turn = session.turn('x').start();
  await session.turn('never begun')[dispose]();
  await begun.promise;
  await turn[dispose]();
  assert.strictEqual(turn.result.outcome, 'cancelled');
  await session[dispose]();
  assert.strictEqual(runtime.session({ id: 's', model: saysHello }).id, 's');
  await runtime[dispose]();
  assert.ok(runtime.isClosed);
  assert.ok(allow() === allow());
});

test('the loop does the work of the library where nothing in it blocks', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'pump-'));
  const threads = () =>
    fs
      .readdirSync('/proc/self/task')
      .map((task) => fs.readFileSync(`/proc/self/task/${task}/comm`, 'utf8'))
      .filter((name) => /^tp-(engine|timer)/.test(name)).length;
  const rows = [
    [{}, true],
    [{ pump: false }, false],
    [{ engineWorkers: 1 }, false],
    [{ toolThreads: 2 }, false],
    [{ parts: [tp.files(folder)] }, false],
    [{ database: tp.sqlite(path.join(folder, 'a.db')) }, false],
    [{ database: tp.sqlite(path.join(folder, 'b.db')), pump: true }, true],
  ];
  try {
    for (const [options, isPumped] of rows) {
      const runtime = await Runtime.open(options);
      runtime.tool('act', () => 'x');
      const result = await oneTurn(runtime, calls(['act']));
      assert.deepStrictEqual([result.text, threads() === 0], ['done: x', isPumped], JSON.stringify(options));
      await runtime.close();
    }
    await assert.rejects(Runtime.open({ pump: true, engineWorkers: 1 }), /pump/);
    await assert.rejects(Runtime.open({ pump: true, parts: [tp.files('/nonexistent')] }), /nonexistent/);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});

test('a deadline passes in the loop, where nothing else comes', async () => {
  const runtime = await Runtime.open({ pump: true });
  runtime.guard('tool.pre', { id: 'hangs', limitMs: 30 }, never);
  runtime.tool('act', () => 'x');
  assert.match((await oneTurn(runtime, calls(['act']))).text, /hook hangs blocked the action: timeout/);
  await runtime.close();
});

test('the event loop is not blocked', () =>
  withRuntime(async (runtime) => {
    runtime.tool('act', () => 'x');
    const sessions = Array.from({ length: 64 }, () => runtime.session({ model: calls(['act']) }));
    let isOver = false,
      looks = 0;
    const watch = (async () => {
      while (!isOver) {
        await fs.promises.stat(path.join(__dirname, 'life.test.js'));
        looks++;
      }
    })();
    let left = 640;
    await Promise.all(
      sessions.map(async (session) => {
        while (left-- > 0) await session.turn('x');
      }),
    );
    isOver = true;
    await watch;
    assert.ok(looks > 5, String(looks));
  }));
