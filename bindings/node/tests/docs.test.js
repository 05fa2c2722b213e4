// SPDX-License-Identifier: Apache-2.0
/* Every program of the guide runs, from the guide only. */
'use strict';

const assert = require('node:assert');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { test } = require('node:test');
const { promisify } = require('node:util');

const GUIDE = path.join(process.env.TURNPHASE_ROOT, 'docs/node.md');
const SAID = [
  'It will rain 4 mm.completed\n',
  "asked: send_mail { to: 'bob' } mail leaves the company\nsent to bob\n",
  '4 mm in Oslo and save of session s: 1 characters\n',
  'It rains. I was asked 1 things.\nOne.\n',
  'pass 1',
];

function answerOf(asked) {
  if (asked.messages.at(-1).role !== 'user') return { content: 'It will rain 4 mm.' };
  const call = { name: 'rain', arguments: '{"city": "Oslo"}' };
  return { tool_calls: [{ index: 0, id: 'c', type: 'function', function: call }] };
}

function serve(request, response) {
  let text = '';
  request.on('data', (piece) => {
    text += piece;
  });
  request.on('end', () => {
    const choices = [{ delta: answerOf(JSON.parse(text)) }, { delta: {}, finish_reason: 'stop' }];
    const rows = choices.map((choice) => `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`);
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).end(rows.join('') + 'data: [DONE]\n\n');
  });
}

test('each program of the guide runs', async () => {
  const programs = [...fs.readFileSync(GUIDE, 'utf8').matchAll(/^```js\n(.*?)^```$/gms)].map(([, text]) => text);
  const server = http.createServer(serve);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const endpoint = `http://127.0.0.1:${server.address().port}`;
  try {
    assert.strictEqual(programs.length, SAID.length);
    await Promise.all(
      programs.map(async (program, at) => {
        const folder = path.join(__dirname, `guide-${at}`);
        fs.mkdirSync(folder, { recursive: true });
        fs.writeFileSync(path.join(folder, 'program.mjs'), program.replaceAll('http://127.0.0.1:8080', endpoint));
        const { NODE_TEST_CONTEXT, ...env } = process.env; // otherwise the tests in the program would report to this
                                                           // one
        const run = await promisify(execFile)(process.execPath, ['program.mjs'], {
          cwd: folder,
          env,
          timeout: 60000,
        });
        assert.ok((run.stdout + run.stderr).includes(SAID[at]), program + run.stdout + run.stderr);
      }),
    );
  } finally {
    server.close();
  }
});
