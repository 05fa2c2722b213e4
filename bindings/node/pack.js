// SPDX-License-Identifier: Apache-2.0
/* Makes the package as it is published, with the addon of a build: node pack.js ADDON FOLDER, then npm pack FOLDER. */
'use strict';

const fs = require('node:fs');
const path = require('node:path');

/** Makes the package in a folder, which is emptied. */
function pack(addon, folder) {
  const prebuilt = path.join(folder, 'prebuilds', `${process.platform}-${process.arch}`);
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(prebuilt, { recursive: true });
  fs.copyFileSync(addon, path.join(prebuilt, 'turnphase.node'));
  fs.cpSync(path.join(__dirname, 'lib'), path.join(folder, 'lib'), { recursive: true });
  fs.copyFileSync(path.join(path.dirname(addon), 'options.d.ts'), path.join(folder, 'lib', 'options.d.ts'));
  fs.copyFileSync(path.join(__dirname, 'package.json'), path.join(folder, 'package.json'));
  const root = path.join(__dirname, '../..');
  fs.copyFileSync(path.join(root, 'docs/node.md'), path.join(folder, 'README.md'));
  fs.copyFileSync(path.join(root, 'LICENSE'), path.join(folder, 'LICENSE'));
}

module.exports = { pack };
if (require.main === module) pack(...process.argv.slice(2));
