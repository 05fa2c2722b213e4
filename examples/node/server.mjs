// SPDX-License-Identifier: Apache-2.0
/* A server of turns with Hono: answers are streamed (SSE), a turn ends when its client leaves, and a question to a
 * person is answered by a second request.
 *
 *     node server.mjs 8000                  # in a folder with the packages turnphase, hono and @hono/node-server
 *     curl -N localhost:8000/turns -d '{"session": "ada", "text": "mail bob"}'
 *     curl localhost:8000/questions/ID -d '{"allow": true}'
 *
 * With TURNPHASE_MODEL_URL and TURNPHASE_MODEL an endpoint is asked; without, a model that is played. It prints its
 * address, and ends at SIGTERM. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { streamSSE } from 'hono/streaming';
import { ask, openai, Runtime } from 'turnphase';

const streams = new Map(); // of the turn that each session runs: a function that tells its client
const questions = new Map(); // resolve functions of their answers

const runtime = await Runtime.open({
  onQuestion: ({ tool, arguments: given, reason, sessionId }) =>
    new Promise((resolve) => {
      const id = randomUUID();
      const decide = (decision) => {
        questions.delete(id);
        resolve(decision);
      };
      questions.set(id, { sessionId, decide });
      streams.get(sessionId)?.('question', { id, tool, arguments: given, reason });
    }),
});
runtime.tool('send_mail', ({ to }) => `sent to ${to}`);
runtime.guard('tool.pre', { id: 'mail', tools: ['send_mail'] }, () => ask('mail leaves the company'));

async function* played({ messages }) {
  const { role, text } = messages.at(-1);
  if (role !== 'user') yield text;
  else if (text.startsWith('mail ')) yield { call: { name: 'send_mail', arguments: { to: text.slice(5) } } };
  else
    for (const word of text.split(' ')) {
      yield `${word} `;
      await sleep(50);
    }
}
const { TURNPHASE_MODEL_URL: baseUrl, TURNPHASE_MODEL: name = 'gpt-5-mini' } = process.env;
const model = baseUrl ? openai(name, { baseUrl }) : played;

const app = new Hono();

app.post('/turns', async (context) => {
  const { session: id, text } = await context.req.json();
  if (typeof id !== 'string' || typeof text !== 'string') return context.text('session and text are strings', 422);
  if (streams.has(id)) return context.text('the session runs a turn', 409);
  streams.set(id, undefined);
  return streamSSE(context, async (stream) => {
    const left = new AbortController();
    stream.onAbort(() => left.abort());
    const tell = (event, data) => stream.writeSSE({ event, data: JSON.stringify(data) });
    streams.set(id, tell);
    let session;
    try {
      session = runtime.session({ id, model });
      const turn = session.turn(text, { signal: left.signal });
      for await (const event of turn) if (event.kind === 'model_delta') await tell('delta', { text: event.text });
      const { outcome, text: said, reason } = await turn;
      await tell('end', { outcome, text: said, reason });
    } catch (error) {
      await tell('end', { outcome: 'failed', text: '', reason: String(error.message) });
    } finally {
      for (const { sessionId, decide } of questions.values())
        if (sessionId === id) decide({ allow: false, reason: 'the turn has ended' }); // nobody answers it any more
      await session?.close();
      streams.delete(id);
    }
  });
});

app.post('/questions/:id', async (context) => {
  const { allow, reason } = await context.req.json();
  const question = questions.get(context.req.param('id'));
  if (!question) return context.text('no such question: it was answered, or its turn has ended', 404);
  question.decide({ allow: allow === true, reason, person: 'client' });
  return context.json({ decided: true });
});

app.get('/', (context) => context.json({ turns: streams.size, questions: questions.size }));

const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: Number(process.argv[2] ?? 8000) }, ({ port }) =>
  console.log(`http://127.0.0.1:${port}`),
);
process.once('SIGTERM', async () => {
  await runtime.close({ drainMs: 1000 });
  server.close();
});
