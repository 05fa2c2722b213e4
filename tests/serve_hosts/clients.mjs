// SPDX-License-Identifier: Apache-2.0
// The client libraries of npm against turnphase serve: plain, streamed, with a tool, an error, a cancel, a structured
// answer. Prints a line of JSON for each case: {"library", "case", "ok", "why"}.
//
//     node clients.mjs URL LIBRARY…      in a folder with node_modules
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [url, ...libraries] = process.argv.slice(2);
const require = createRequire(pathToFileURL(process.cwd() + '/package.json'));
const load = async (name) => import(pathToFileURL(require.resolve(name)).href).then((m) => ({ ...m.default, ...m }));
const z = (await load('zod')).z;
const SHAPE = z.object({ steps: z.number() });
const TEXT = 'One two three.';
const apiKey = 'unused';
const HI = [{ role: 'user', content: 'hi' }];

/** Reads until the first piece has come, then aborts. @return what the rest of the stream throws or ends with. */
async function abortAfterFirst(stream, abort) {
  let pieces = 0;
  try {
    for await (const _ of stream) if (++pieces === 1) abort();
  } catch (error) {
    return { pieces, error };
  }
  return { pieces, error: null };
}

const CASES = {
  openai: async () => {
    const { OpenAI } = await load('openai');
    const { zodResponseFormat, zodTextFormat } = await load('openai/helpers/zod');
    const client = new OpenAI({ baseURL: url, apiKey, maxRetries: 0 });
    const tools = [
      {
        type: 'function',
        function: { name: 'look', parameters: { type: 'object', properties: { n: { type: 'integer' } } } },
      },
    ];
    return {
      plain: async () => {
        const answer = await client.chat.completions.create({ model: 'talker', messages: HI });
        assert.equal(answer.choices[0].message.content, TEXT);
        assert.equal((await client.responses.create({ model: 'talker', input: 'hi' })).output_text, TEXT);
      },
      streamed: async () => {
        const answer = await client.chat.completions.stream({ model: 'talker', messages: HI }).finalChatCompletion();
        assert.equal(answer.choices[0].message.content, TEXT);
        const response = await client.responses.stream({ model: 'talker', input: 'hi' }).finalResponse();
        assert.equal(response.output_text, TEXT);
      },
      tools: async () => {
        const runner = client.chat.completions.runTools({
          model: 'looker',
          messages: HI,
          tools: [
            {
              type: 'function',
              function: {
                name: 'look',
                parse: JSON.parse,
                parameters: tools[0].function.parameters,
                function: ({ n }) => 'seen ' + n,
              },
            },
          ],
        });
        assert.equal(await runner.finalContent(), 'Seen.');
      },
      errors: async () => {
        await assert.rejects(client.chat.completions.create({ model: 'nobody', messages: HI }), {
          status: 404,
          code: 'model_not_found',
        });
        await assert.rejects(client.chat.completions.create({ model: 'talker', messages: HI, n: 2 }), {
          status: 400,
          param: 'n',
        });
        await assert.rejects(
          client.responses.create({ model: 'talker', input: 'hi', previous_response_id: 'resp_no' }),
          { code: 'previous_response_not_found' },
        );
      },
      cancel: async () => {
        const stream = await client.chat.completions.create({ model: 'endless', messages: HI, stream: true });
        assert.equal((await abortAfterFirst(stream, () => stream.controller.abort())).pieces >= 1, true);
      },
      structured: async () => {
        const answer = await client.chat.completions.parse({
          model: 'shape',
          messages: HI,
          response_format: zodResponseFormat(SHAPE, 'shape'),
        });
        assert.equal(answer.choices[0].message.parsed.steps, 3);
        const response = await client.responses.parse({
          model: 'shape',
          input: 'hi',
          text: { format: zodTextFormat(SHAPE, 'shape') },
        });
        assert.equal(response.output_parsed.steps, 3);
      },
    };
  },

  '@openai/agents': async () => {
    const { Agent, run, tool, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled } =
      await load('@openai/agents');
    const { OpenAI } = await load('openai');
    setTracingDisabled(true);
    setDefaultOpenAIClient(new OpenAI({ baseURL: url, apiKey, maxRetries: 0 }));
    const look = tool({
      name: 'look',
      description: 'Looks.',
      parameters: z.object({ n: z.number() }),
      execute: async ({ n }) => 'seen ' + n,
    });
    const both = (each) => async () => {
      for (const api of ['responses', 'chat_completions']) {
        setOpenAIAPI(api);
        await each();
      }
    };
    return {
      plain: both(async () =>
        assert.equal((await run(new Agent({ name: 'a', model: 'talker' }), 'hi')).finalOutput, TEXT),
      ),
      streamed: both(async () => {
        const result = await run(new Agent({ name: 'a', model: 'talker' }), 'hi', { stream: true });
        let text = '';
        for await (const piece of result.toTextStream()) text += piece;
        await result.completed;
        assert.equal(text, TEXT);
      }),
      tools: both(async () =>
        assert.equal(
          (await run(new Agent({ name: 'a', model: 'looker', tools: [look] }), 'hi')).finalOutput,
          'Seen.',
        ),
      ),
      errors: both(async () => assert.rejects(run(new Agent({ name: 'a', model: 'nobody' }), 'hi'), { status: 404 })),
      cancel: both(async () => {
        const abort = new AbortController();
        const result = await run(new Agent({ name: 'a', model: 'endless' }), 'hi', {
          stream: true,
          signal: abort.signal,
        });
        assert.equal((await abortAfterFirst(result, () => abort.abort())).pieces >= 1, true);
        await result.completed.catch(() => {});
      }),
      structured: both(async () =>
        assert.equal(
          (await run(new Agent({ name: 'a', model: 'shape', outputType: SHAPE }), 'hi')).finalOutput.steps,
          3,
        ),
      ),
    };
  },

  '@ai-sdk/openai-compatible': async () => {
    const { generateText, streamText, generateObject, tool, stepCountIs } = await load('ai');
    const { createOpenAICompatible } = await load('@ai-sdk/openai-compatible');
    const provider = createOpenAICompatible({
      name: 'turnphase',
      baseURL: url,
      apiKey,
      includeUsage: true,
      supportsStructuredOutputs: true,
    });
    const ask = (model, more) => ({ model: provider(model), prompt: 'hi', maxRetries: 0, ...more });
    return {
      plain: async () => assert.equal((await generateText(ask('talker'))).text, TEXT),
      streamed: async () => {
        const result = streamText(ask('talker'));
        let text = '';
        for await (const piece of result.textStream) text += piece;
        assert.equal(text, TEXT);
        assert.equal((await result.usage).totalTokens, 9);
        assert.equal(await result.finishReason, 'stop');
      },
      tools: async () => {
        const look = tool({
          description: 'Looks.',
          inputSchema: z.object({ n: z.number() }),
          execute: async ({ n }) => 'seen ' + n,
        });
        assert.equal(
          (await generateText(ask('looker', { tools: { look }, stopWhen: stepCountIs(3) }))).text,
          'Seen.',
        );
      },
      errors: async () => assert.rejects(generateText(ask('nobody')), { statusCode: 404 }),
      cancel: async () => {
        const abort = new AbortController();
        const result = streamText(ask('endless', { abortSignal: abort.signal, onError: () => {} }));
        assert.equal((await abortAfterFirst(result.textStream, () => abort.abort())).pieces >= 1, true);
      },
      structured: async () => assert.equal((await generateObject(ask('shape', { schema: SHAPE }))).object.steps, 3),
    };
  },

  '@langchain/openai': async () => {
    const { ChatOpenAI } = await load('@langchain/openai');
    const { tool } = await load('@langchain/core/tools');
    const { HumanMessage, ToolMessage } = await load('@langchain/core/messages');
    const chat = (model, more) =>
      new ChatOpenAI({ model, apiKey, maxRetries: 0, configuration: { baseURL: url }, ...more });
    return {
      plain: async () => {
        assert.equal((await chat('talker').invoke('hi')).content, TEXT);
        assert.equal((await chat('talker', { useResponsesApi: true }).invoke('hi')).text, TEXT);
      },
      streamed: async () => {
        let text = '',
          tokens = 0;
        for await (const piece of await chat('talker', { streamUsage: true }).stream('hi')) {
          text += piece.content;
          tokens += piece.usage_metadata?.total_tokens ?? 0;
        }
        assert.deepEqual([text, tokens], [TEXT, 9]);
      },
      tools: async () => {
        const look = tool(async ({ n }) => 'seen ' + n, {
          name: 'look',
          description: 'Looks.',
          schema: z.object({ n: z.number() }),
        });
        const model = chat('looker').bindTools([look]),
          messages = [new HumanMessage('hi')];
        const first = await model.invoke(messages);
        assert.equal(first.tool_calls[0].name, 'look');
        messages.push(
          first,
          new ToolMessage({
            tool_call_id: first.tool_calls[0].id,
            content: await look.invoke(first.tool_calls[0].args),
          }),
        );
        assert.equal((await model.invoke(messages)).content, 'Seen.');
      },
      errors: async () => assert.rejects(chat('nobody').invoke('hi'), { status: 404 }),
      cancel: async () => {
        const abort = new AbortController();
        const stream = await chat('endless').stream('hi', { signal: abort.signal });
        assert.equal((await abortAfterFirst(stream, () => abort.abort())).pieces >= 1, true);
      },
      structured: async () =>
        assert.equal(
          (await chat('shape').withStructuredOutput(SHAPE, { method: 'jsonSchema' }).invoke('hi')).steps,
          3,
        ),
    };
  },
};

for (const library of libraries) {
  let cases;
  try {
    cases = await CASES[library]();
  } catch (error) {
    cases = { load: () => Promise.reject(error) };
  }
  for (const [name, play] of Object.entries(cases)) {
    let why = null;
    try {
      await Promise.race([
        play(),
        new Promise((_, no) => setTimeout(no, 30000, new Error('no end in 30 s')).unref()),
      ]);
    } catch (error) {
      why = String(error?.message ?? error).slice(0, 500);
    }
    console.log(JSON.stringify({ library, case: name, ok: why === null, why }));
  }
}
process.exit(0);
