// SPDX-License-Identifier: Apache-2.0
import type { Session } from '../index.js';
import type { TpTool } from '../options.js';

/** Tools for a ToolNode of LangGraph, whose calls go through the hooks of a session's runtime. A call that a hook
 *  denies has a ToolMessage with the denial and the status "error". */
export function guarded<T extends readonly { name: string }[]>(
  session: Session,
  tools: T,
  options?: TpTool,
): { -readonly [K in keyof T]: T[K] };
