// SPDX-License-Identifier: Apache-2.0
/* What hooks and tools answer, and what turns report. */
'use strict';

const { errorOfTurn } = require('./errors.js');

/** The answer of a hook. */
class Verdict {
  constructor(kind, reason, retryable = false) {
    this.kind = kind;
    this.reason = reason;
    this.retryable = retryable;
    Object.freeze(this);
  }
}

const allowed = new Verdict('allow', '');
/** The verdict allow of a hook. */
const allow = () => allowed;
/** The verdict deny of a hook, with a reason that is safe to show. */
const deny = (reason = '') => new Verdict('deny', reason);
/** The verdict ask of a hook: a person decides. */
const ask = (reason = '') => new Verdict('ask', reason);
/** A hook could not do its work: its failure policy decides what follows. */
const failed = (reason = '', { retryable = false } = {}) => new Verdict('failed', reason, retryable);

/** All that a tool can answer: what the model reads (text), a structured result for the host (value), and parts. */
class Answer {
  constructor({ text, value, parts, isError }) {
    Object.assign(this, { text, value, parts, isError });
  }
}
const answer = (members) => new Answer(members);

/* Objects of the addon have the members that are not empty; a class has the others in its prototype. */
function withDefaults(Kind, defaults) {
  Object.assign(Kind.prototype, defaults);
  return Kind;
}
const none = Object.freeze([]);

const Message = withDefaults(class Message {}, {
  text: '',
  calls: none,
  callId: '',
  name: '',
  isError: false,
  parts: none,
  turnId: '',
});

const ToolCall = withDefaults(class ToolCall {}, { name: '', id: '', malformed: false });

const TurnEvent = withDefaults(class TurnEvent {}, {
  text: '',
  phase: '',
  subscription: '',
  callIndex: 0,
  sequence: 0,
  model: '',
  lost: 0,
  status: 0,
  inputTokens: 0,
  outputTokens: 0,
  costMicros: 0,
  sessionId: '',
  turnId: '',
  agentId: '',
  parentTurn: '',
});

/** How a turn ended. outcome: completed, failed, denied, cancelled or timed_out. */
class TurnResult {
  /** The result itself. Throws the error of its code where the turn did not complete. */
  check() {
    if (this.outcome === 'completed') return this;
    throw errorOfTurn(this.code, this.reason || this.outcome, this.subscription);
  }
}
withDefaults(TurnResult, {
  outcome: 'none',
  code: 0,
  text: '',
  reason: '',
  bareReason: '',
  turnId: '',
  subscription: '',
  phase: '',
  state: '',
  why: '',
  iterations: 0,
  toolCalls: 0,
  finish: 'unknown',
  finishWord: '',
  inputTokens: 0,
  outputTokens: 0,
  costMicros: 0,
  startedNs: 0n,
  endedNs: 0n,
  isStored: false,
});

const classOf = {
  tp_message: Message,
  tp_tool_call: ToolCall,
  tp_event: TurnEvent,
  tp_turn_result: TurnResult,
};

module.exports = { Verdict, allow, deny, ask, failed, Answer, answer, TurnEvent, TurnResult, classOf, none };
