// SPDX-License-Identifier: Apache-2.0
import type { Session } from '../index.js';
import type { TpTool } from '../options.js';

/** Copies of function tools of @openai/agents, whose calls go through the hooks of a session's runtime. A call that a
 *  hook denies has the denial as its output. */
export function guarded<T extends readonly { type: string; name: string }[]>(
  session: Session,
  tools: T,
  options?: TpTool,
): { -readonly [K in keyof T]: T[K] };
