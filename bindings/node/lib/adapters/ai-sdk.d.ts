// SPDX-License-Identifier: Apache-2.0
import type { Session } from '../index.js';
import type { TpTool } from '../options.js';

/** Copies of tools of the AI SDK, whose calls go through the hooks of a session's runtime. A call that a hook denies
 *  fails with the denial, which the model reads as the error of the call. */
export function guarded<T extends Record<string, object>>(
  session: Session,
  tools: T,
  options?: TpTool,
): T;
