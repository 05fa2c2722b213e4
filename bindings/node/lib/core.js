// SPDX-License-Identifier: Apache-2.0
/* The addon, which is inside the package: prebuilds/PLATFORM-ARCHITECTURE/turnphase.node. */
'use strict';

function load() {
  const name = `${process.platform}-${process.arch}`;
  try {
    return require(`../prebuilds/${name}/turnphase.node`);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    throw new Error(`this package of turnphase has no addon for ${name}: build it there (docs/node.md)`, {
      cause: error,
    });
  }
}

module.exports = load();
