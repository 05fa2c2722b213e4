// SPDX-License-Identifier: Apache-2.0
/* Compiled by tsc --strict, and not run: the adapters keep the types of the frameworks. */
import { tool as toolOfAgents, Agent } from '@openai/agents';
import { tool as toolOfLangChain } from '@langchain/core/tools';
import { ToolNode } from '@langchain/langgraph/prebuilt';
import { generateText, tool, type LanguageModel } from 'ai';
import { z } from 'zod';
import { type Session, type ToolResult } from 'turnphase';
import * as aiSdk from 'turnphase/adapters/ai-sdk';
import * as langgraph from 'turnphase/adapters/langgraph';
import * as openaiAgents from 'turnphase/adapters/openai-agents';

declare const session: Session;
declare const model: LanguageModel;
const input = z.object({ path: z.string() });

const tools = aiSdk.guarded(session, { look: tool({ inputSchema: input, execute: async ({ path }) => path }) });
void generateText({ model, tools, prompt: 'go' });
const looks = toolOfAgents({ name: 'look', description: '', parameters: input, execute: async ({ path }) => path });
void new Agent({ name: 'a', tools: openaiAgents.guarded(session, [looks], { limitMs: 100 }) });
const finds = toolOfLangChain(async ({ path }) => path, { name: 'find', description: '', schema: input });
void new ToolNode(langgraph.guarded(session, [finds]));
const results: Promise<ToolResult[]> = session.callTools([{ name: 'look', arguments: { path: 'a' } }], { limitMs: 1 });
void results;

// @ts-expect-error: no such option
aiSdk.guarded(session, {}, { limit: 1 });
// @ts-expect-error: a session is wanted
langgraph.guarded({}, [finds]);
// @ts-expect-error: calls have names
void session.callTools([{ arguments: {} }]);
