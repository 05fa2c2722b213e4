// SPDX-License-Identifier: Apache-2.0
/* Runs examples/node/server.mjs with Hono, as a program of its own, and talks to it with fetch(). */
'use strict';

const assert = require('node:assert');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');

async function* eventsOf(response) {
  let text = '';
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    const blocks = text.split('\n\n');
    text = blocks.pop();
    for (const block of blocks) {
      const [, kind, data] = /^event: (.*)\ndata: (.*)$/.exec(block);
      yield [kind, JSON.parse(data)];
    }
  }
}

async function withServer(run) {
  const file = path.join(__dirname, 'server.mjs');
  fs.copyFileSync(path.join(process.env.TURNPHASE_ROOT, 'examples/node/server.mjs'), file);
  const server = spawn(process.execPath, [file, '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [line] = await once(server.stdout, 'data');
    await run(String(line).trim());
  } finally {
    server.kill('SIGTERM');
    const [code] = await once(server, 'exit');
    assert.strictEqual(code, 0);
  }
}

test('Hono: a server of turns', () =>
  withServer(async (base) => {
    const post = (where, body, signal) =>
      fetch(base + where, { method: 'POST', body: JSON.stringify(body), signal });
    const turn = (text, signal) => post('/turns', { session: 's', text }, signal);
    const all = async (response) => {
      const rows = [];
      for await (const row of eventsOf(response)) rows.push(row);
      return rows;
    };
    const idle = async () => {
      for (;;) {
        const { turns, questions } = await (await fetch(`${base}/`)).json();
        if (turns === 0 && questions === 0) return;
        await sleep(5);
      }
    };

    const rows = await all(await turn('one two'));
    const deltas = rows.filter(([kind]) => kind === 'delta').map(([, { text }]) => text);
    assert.strictEqual(deltas.join(''), 'one two ');
    assert.deepStrictEqual(rows.at(-1), ['end', { outcome: 'completed', text: 'one two ', reason: '' }]);

    for (const [allow, words] of [[true, 'sent to bob'], [false, 'not now']]) {
      await idle();
      const events = eventsOf(await turn('mail bob'));
      const [kind, question] = (await events.next()).value;
      assert.deepStrictEqual([kind, question.tool, question.arguments], ['question', 'send_mail', { to: 'bob' }]);
      assert.strictEqual((await turn('x')).status, 409);
      const decide = () => post(`/questions/${question.id}`, { allow, reason: 'not now' });
      assert.strictEqual((await decide()).status, 200);
      let last;
      for await (const row of events) last = row;
      assert.ok(last[1].text.includes(words), last[1].text);
      assert.strictEqual((await decide()).status, 404);
    }

    for (const [text, first] of [['word '.repeat(2000), 'delta'], ['mail bob', 'question']]) {
      await idle();
      const leave = new AbortController();
      const events = eventsOf(await turn(text, leave.signal));
      assert.strictEqual((await events.next()).value[0], first);
      leave.abort();
      await idle(); // long before the 2,000 words are sent
    }
    assert.strictEqual((await all(await turn('again'))).at(-1)[1].outcome, 'completed');
    assert.strictEqual((await post('/turns', { session: 1 })).status, 422);
  }));
