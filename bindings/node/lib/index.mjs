// SPDX-License-Identifier: Apache-2.0
/* The same package for ESM: both have one set of classes. */
import turnphase from './index.js';

export const {
  Runtime,
  Session,
  Agent,
  Turn,
  allow,
  deny,
  ask,
  failed,
  answer,
  sqlite,
  memory,
  files,
  skills,
  declaredHooks,
  mcp,
  openai,
  script,
  functionModel,
  TurnphaseError,
  UsageError,
  LimitError,
  TimeoutError,
  CanceledError,
  HookError,
  DeniedError,
  StoreError,
  SystemFailure,
  InternalError,
  ToolError,
  ModelError,
  version,
} = turnphase;
export default turnphase;
