// SPDX-License-Identifier: Apache-2.0
/* Errors: one class for each category of status (turnphase/status.def). */
'use strict';

const core = require('./core.js');

/** An error of the library. */
class TurnphaseError extends Error {
  static category = '';

  constructor(message, { status = 0, code = '', subject = '', line = 0, column = 0, systemError = 0 } = {}) {
    const place = line ? ` (line ${line}, column ${column})` : '';
    const said = subject && !message.includes(subject) ? `${subject}: ` : '';
    super(said + message + place);
    this.code = code;
    Object.assign(this, { status, subject, line, column, systemError });
  }

  get name() {
    return this.constructor.name;
  }
  get category() {
    return this.constructor.category;
  }
}

class UsageError extends TurnphaseError {
  static category = 'usage';
}
class LimitError extends TurnphaseError {
  static category = 'limit';
}
class TimeoutError extends TurnphaseError {
  static category = 'timeout';
}
class CanceledError extends TurnphaseError {
  static category = 'canceled';
}
/** A hook denied, or a required one did not answer. */
class HookError extends TurnphaseError {
  static category = 'hook';
}
/** A hook denied. */
class DeniedError extends HookError {}
class StoreError extends TurnphaseError {
  static category = 'store';
}
/** The operating system or a model provider failed. */
class SystemFailure extends TurnphaseError {
  static category = 'system';
}
class InternalError extends TurnphaseError {
  static category = 'internal';
}

/** Thrown by a tool: its text is what the model reads, and nothing is logged. */
class ToolError extends Error {
  get name() {
    return 'ToolError';
  }
}

/** Thrown by a model: the request failed. retryable: it may succeed when it is sent again; unavailable: the next model
 *  of the session's list is asked; contextLength: the context is too long, and may be made shorter. */
class ModelError extends Error {
  constructor(message, { retryable = false, unavailable = false, contextLength = false, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.retryable = retryable;
    this.status = unavailable ? 712 : contextLength ? 711 : 710;
  }

  get name() {
    return 'ModelError';
  }
}

const classes = new Map(
  [UsageError, LimitError, TimeoutError, CanceledError, HookError, StoreError, SystemFailure, InternalError].map(
    (kind) => [kind.category, kind],
  ),
);

/** The error of a status: what the addon throws. */
function errorOf(status, code, category, message, subject, line, column, systemError) {
  const Kind = code === 'TP_ERR_DENIED' ? DeniedError : (classes.get(category) ?? TurnphaseError);
  return new Kind(message, { status, code, subject, line, column, systemError });
}

/** The error of a turn that did not complete. */
function errorOfTurn(status, message, subject) {
  return core.statusError(status, message, subject);
}

module.exports = {
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
  errorOf,
  errorOfTurn,
};
