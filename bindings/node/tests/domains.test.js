// SPDX-License-Identifier: Apache-2.0
/* The libraries over the core, as options. */
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { after, test } = require('node:test');
const tp = require('turnphase');
const { declaredHooks, files, mcp, memory, openai, Runtime, skills, sqlite } = tp;
const { calls, oneTurn, saysHello, withRuntime } = require('./support.js');

const top = fs.mkdtempSync(path.join(os.tmpdir(), 'turnphase-node-'));
after(() => fs.rmSync(top, { recursive: true }));
let folders = 0;
function folder() {
  const made = path.join(top, String(++folders));
  fs.mkdirSync(made);
  return made;
}

test('a history in a file is there again', async () => {
  const file = path.join(folder(), 'a.db'),
    seen = [];
  const model = (request) => {
    seen.push(request.messages.map(({ text }) => text));
    return 'a';
  };
  for (const [text, where] of [
    ['one', file],
    ['two', pathToFileURL(file)],
  ]) {
    await withRuntime({ database: sqlite(where) }, async (runtime) => {
      assert.strictEqual((await runtime.session({ id: 's', model }).turn(text)).outcome, 'completed');
    });
  }
  assert.deepStrictEqual(seen, [['one'], ['one', 'a', 'two']]);
});

test('files', async () => {
  const root = folder();
  fs.writeFileSync(path.join(root, 'a.txt'), 'rain');
  await withRuntime({ parts: [files(root, { writes: 'never' })] }, async (runtime) => {
    const read = (name) => oneTurn(runtime, calls([['files_read', { path: name }]]));
    assert.ok((await read('a.txt')).text.includes('rain'));
    assert.ok(!(await read('/etc/passwd')).text.includes('root:'));
  });
});

test('memory', async () => {
  let seen;
  const model = (request) => {
    seen = request.system + request.messages.map(({ text }) => text).join();
    return 'ok';
  };
  await withRuntime({ parts: [memory(path.join(folder(), 'm.db'))] }, async (runtime) => {
    await runtime.session({ id: 's', model, workspace: 'w' }).turn('My cat is called Bertha.');
    assert.strictEqual(await runtime.waitForJobs(), true);
    await runtime.session({ id: 't', model, workspace: 'w' }).turn('What is my cat called?');
  });
  assert.ok(seen.includes('Bertha'), seen);
});

test('skills', async () => {
  const directory = folder();
  fs.writeFileSync(path.join(directory, 'review.md'), 'Reviews.\n\nRead every line.\n');
  await withRuntime({ parts: [skills(directory)] }, async (runtime) => {
    let seen;
    await oneTurn(
      runtime,
      (request) => {
        seen = request.messages.at(-1).text;
        return 'a';
      },
      '/review it',
    );
    assert.ok(seen.includes('Read every line.'), seen);
    assert.strictEqual((await oneTurn(runtime, saysHello, '/nothing')).outcome, 'denied');
  });
});

test('declared hooks', async () => {
  const directory = folder();
  fs.writeFileSync(
    path.join(directory, 'no.yaml'),
    'id: no\nevent_type: tool.pre\nhandler: {kind: script, command: [/bin/false]}\n',
  );
  await assert.rejects(
    Runtime.open({ parts: [declaredHooks(directory, { trusted: '0'.repeat(64) })] }),
    tp.UsageError,
  );
  assert.throws(() => declaredHooks(directory), TypeError);
  await withRuntime({ parts: [declaredHooks(directory, { trusted: 'any' })] }, async (runtime) => {
    let ran = false;
    runtime.tool('act', () => {
      ran = true;
    });
    await oneTurn(runtime, calls(['act']));
    assert.ok(!ran);
  });
});

test('an MCP server', async () => {
  const server = path.join(folder(), 'server.js');
  fs.writeFileSync(
    server,
    `
    const sum = ({ a, b }) => a + b;
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method, params } = JSON.parse(line);
      if (id === undefined) return;
      const result = method === 'initialize' ? { protocolVersion: params.protocolVersion, capabilities: { tools: {} },
          serverInfo: { name: 's', version: '1' } }
        : method === 'tools/list' ? { tools: [{ name: 'add', inputSchema: { type: 'object' } }] }
        : method === 'tools/call' ? { content: [{ type: 'text', text: String(sum(params.arguments)) }] }
        : {};
      console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
    });`,
  );
  await withRuntime({ parts: [mcp('sums', { arguments: [process.execPath, server] })] }, async (runtime) => {
    const result = await oneTurn(runtime, (request) => calls([[request.tools[0].name, { a: 2, b: 3 }]])(request));
    assert.ok(result.text.includes('5'), result.text);
  });
});

test('a model behind an endpoint', async () => {
  const bodies = [];
  const server = http.createServer((request, response) => {
    let text = '';
    request.on('data', (piece) => {
      text += piece;
    });
    request.on('end', () => {
      bodies.push(JSON.parse(text));
      const said = [
        { delta: { content: 'It ' } },
        { delta: { content: 'rains.' } },
        { delta: {}, finish_reason: 'stop' },
      ];
      const rows = said.map((choice) => `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`);
      response.writeHead(200, { 'Content-Type': 'text/event-stream' }).end(rows.join('') + 'data: [DONE]\n\n');
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await withRuntime(async (runtime) => {
      const model = openai('m', { baseUrl: `http://127.0.0.1:${server.address().port}/v1` });
      const session = runtime.session({ model }),
        said = [];
      const turn = session.turn('rain?', { eachDelta: true });
      for await (const piece of turn.deltas()) said.push(piece);
      assert.deepStrictEqual([said.join(''), (await turn).text], ['It rains.', 'It rains.']);
    });
  } finally {
    server.close();
  }
  assert.deepStrictEqual([bodies[0].model, bodies[0].messages.at(-1).content], ['m', 'rain?']);
});

test('what a part refuses is named, and leaves nothing', async () => {
  const nowhere = path.join(folder(), 'nowhere', 'x');
  const before = fs.readdirSync('/proc/self/fd').length;
  for (const [options, words] of [
    [{ parts: [files(nowhere)] }, 'nowhere'],
    [{ parts: [memory(undefined, { colour: 1 })] }, 'colour'],
    [{ parts: [mcp('a b', { arguments: ['x'] })] }, 'a b'],
    [{ parts: [files(top, { writes: 'sometimes' })] }, 'never'],
    [{ parts: [memory(undefined, { scope: 'planet' })] }, 'planet'],
    [{ database: sqlite(nowhere) }, ''],
    [{ database: sqlite('x', { colour: 1 }) }, 'colour'],
    [{ engineWorkers: -1 }, 'engineWorkers'],
    [{ parts: [skills(3)] }, 'directory'],
  ])
    await assert.rejects(
      Runtime.open(options),
      (error) => error instanceof Error && error.message.includes(words),
      words,
    );
  assert.ok(fs.readdirSync('/proc/self/fd').length <= before + 1);
  await withRuntime(async (runtime) => {
    assert.throws(() => runtime.session({ model: openai('m', { colour: 1 }) }), TypeError);
    assert.throws(() => runtime.session({ model: tp.script(['a', { nonsense: 1 }]) }), tp.TurnphaseError);
    assert.strictEqual((await oneTurn(runtime)).text, 'hello x');
  });
});
