// SPDX-License-Identifier: Apache-2.0
'use strict';

const core = require('./core.js');
const { allow, deny, ask, failed, answer } = require('./answers.js');
const { errorOf, errorOfTurn, ...errors } = require('./errors.js');
const { sqlite, memory, files, skills, declaredHooks, mcp, openai, script, functionModel } = require('./parts.js');
const { Runtime, Session, Agent } = require('./runtime.js');
const { Turn } = require('./turn.js');

module.exports = {
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
  ...errors,
  version: core.version(),
};
