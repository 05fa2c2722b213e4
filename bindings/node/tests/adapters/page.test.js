// SPDX-License-Identifier: Apache-2.0
/* Every program for Node of docs/adapters.md runs. */
'use strict';

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');

test('each program of the page runs', () => {
  const page = fs.readFileSync(path.join(process.env.TURNPHASE_ROOT, 'docs/adapters.md'), 'utf8');
  const programs = [...page.matchAll(/^```js\n(.*?)^```$/gms)].map(([, text]) => text);
  assert.strictEqual(programs.length, 1);
  const file = path.join(__dirname, 'page.mjs');
  fs.writeFileSync(file, programs[0]);
  const { NODE_TEST_CONTEXT, ...env } = process.env;
  assert.match(execFileSync(process.execPath, [file], { encoding: 'utf8', env }), /files are kept/);
});
