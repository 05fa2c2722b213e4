// SPDX-License-Identifier: Apache-2.0
/* Runs the tests of the package on the addon of a build: node run.js ADDON FOLDER [TEST…].
 *
 * The package is made in FOLDER/node_modules, as npm installs it, and the tests are copied beside it. */
'use strict';

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { pack } = require('../pack.js');

const [addon, folder, ...names] = process.argv.slice(2);
const tests = path.join(folder, 'tests');
pack(addon, path.join(folder, 'node_modules', 'turnphase'));
fs.rmSync(tests, { recursive: true, force: true });
fs.cpSync(__dirname, tests, { recursive: true });
if (names[0] === 'many') {
  process.exit(spawnSync(process.execPath, [path.join(tests, 'many.js')], { stdio: 'inherit' }).status ?? 1);
}
const found = fs.readdirSync(tests).filter((name) => name.endsWith('.test.js'));
const wanted = found.filter((name) => names.length === 0 || names.includes(name.replace('.test.js', '')));
const run = spawnSync(process.execPath, ['--test', ...wanted.map((name) => path.join(tests, name))], {
  stdio: 'inherit',
  env: { ...process.env, TURNPHASE_ROOT: path.resolve(__dirname, '../../..'), NODE_NO_WARNINGS: '1' },
});
process.exit(run.status ?? 1);
