// SPDX-License-Identifier: Apache-2.0
'use strict';
/* A resident worker for hooks of kind worker with frames: json (docs/hooks.md).
 *
 *   require('./turnphase_worker').serve(async (context) => {
 *     if (JSON.stringify(context.payload.arguments).includes('rm -rf')) return { continue: false, reason: 'not here' };
 *   });
 *
 * The function gets the context of one request and returns the structured result, now or later (a promise), or nothing.
 * What it throws is the request's error. Descriptor 1 belongs to the frames: console.log() goes to descriptor 2. Ends
 * at end-of-file, behind the requests that run. */
const readline = require('readline');

function serve(handle) {
  console.log = console.error;
  async function answer(request) {
    const reply = { id: request.id };
    try {
      reply.result = (await handle(request.context)) ?? null;
    } catch (error) {
      reply.error = String(error);
    }
    process.stdout.write(JSON.stringify(reply) + '\n');
  }
  readline.createInterface({ input: process.stdin, terminal: false }).on('line', (line) => answer(JSON.parse(line)));
}

module.exports = { serve };
