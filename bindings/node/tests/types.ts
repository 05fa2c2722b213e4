// SPDX-License-Identifier: Apache-2.0
/* Compiled by tsc --strict, and not run: what the types must accept and refuse. */
import { z } from 'zod';
import {
  allow,
  answer,
  ask,
  declaredHooks,
  deny,
  DeniedError,
  files,
  functionModel,
  mcp,
  memory,
  ModelError,
  openai,
  Runtime,
  script,
  sqlite,
  ToolError,
  type Call,
  type ModelRequest,
  type TurnResult,
} from 'turnphase';

export async function main(): Promise<string> {
  await using runtime = await Runtime.open({
    parts: [
      memory('m.db'),
      files('.', { writes: 'never' }),
      mcp('x', { arguments: ['y'] }),
      declaredHooks('h', { trusted: 'any' }),
    ],
    database: sqlite(new URL('file:///x.db')),
    turnsRunningMax: 4,
    onQuestion: async ({ tool }) => tool === 'x',
    onLog: ({ level, message }) => void [level, message],
  });
  runtime.guard('tool.pre', { tools: ['send_*'], limitMs: 500, after: 'x' }, async (call: Call) =>
    call.arguments.to === 'x' ? allow() : deny('no'),
  );
  runtime.hook('turn.intake', (call) => {
    call.replace({ text: call.text.trim() });
  });
  runtime.hook('tool.pre', () => ask());
  // @ts-expect-error: a hook returns a verdict or nothing
  runtime.hook('tool.pre', () => true);
  // @ts-expect-error: the name of a member
  runtime.hook('tool.pre', { limit_ms: 3 }, () => allow());
  // @ts-expect-error: a word of the enum
  runtime.hook('tool.pre', { failure: 'always' }, () => allow());
  runtime.tool(
    'rain',
    { schema: z.object({ city: z.string(), days: z.number().default(1) }) },
    async ({ city, days }, run) => {
      const total: number = days + 1;
      if (run.signal.aborted) throw new ToolError('late');
      // @ts-expect-error: no member of the schema
      ({}) satisfies typeof city;
      return answer({
        text: city.toUpperCase(),
        value: { total },
        parts: [{ kind: 'link', uri: 'https://example.org/' }],
      });
    },
  );
  runtime.tool('plain', { schema: { type: 'object', properties: { n: { type: 'number' } } } }, ({ n }) => n);
  runtime.tool('none', () => undefined);
  const agent = await runtime.agent({ id: 'clerk', model: script(['a']), tools: ['rain'] });
  async function* model(request: ModelRequest) {
    yield { thinking: 'hm' };
    yield request.messages.at(-1)?.text ?? '';
    yield { call: { name: 'rain', arguments: { city: 'Oslo' } } };
    yield { inputTokens: 3, finish: 'stop' as const };
  }
  runtime.session({ model: openai('gpt', { baseUrl: 'http://x' }) });
  runtime.session({
    model: functionModel(
      async () => {
        throw new ModelError('x', { retryable: true });
      },
      { provider: 'p' },
    ),
  });
  await using session = runtime.session({ id: 's', agent, model, tenant: 't' });
  const turn = session.turn('x', { signal: AbortSignal.timeout(100), events: ['model_delta'], limitMs: 100 });
  for await (const { kind, text } of turn) if (kind === 'model_delta') text.length;
  // @ts-expect-error: no such event
  session.turn('x', { events: ['nothing'] });
  // @ts-expect-error: a runtime is opened
  new Runtime();
  try {
    const result: TurnResult = await turn;
    const started: bigint = result.startedNs;
    return result.check().text + started;
  } catch (error) {
    return error instanceof DeniedError ? error.subject : '';
  }
}
