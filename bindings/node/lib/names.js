// SPDX-License-Identifier: Apache-2.0
/* Names of members that only the package uses, and names of events and other reports. */
'use strict';

const core = require('./core.js');

module.exports = {
  HANDLE: Symbol('handle'),
  HOST: Symbol('host'),
  ID: Symbol('id'),
  /** The bits of a listener, by the names of events. */
  EVENT_BITS: new Map(core.eventNames().map((kind, at) => [kind, 2 ** (at + 1)])),
  /** The events that a turn yields when it names no kinds: those that a chat shows. */
  DEFAULT_EVENTS: [
    'turn_begin',
    'model_begin',
    'model_delta',
    'thinking',
    'model_end',
    'tool_begin',
    'tool_end',
    'reminder',
    'diagnostic',
    'message',
    'turn_end',
  ],
  ASYNC_DISPOSE: Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose'),
};
