// SPDX-License-Identifier: Apache-2.0
/* The answers of hooks and tools, and the reports of turns. */
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

/** A complete answer of a tool: what the model reads (text), a structured result for the host (value), and parts. */
class Answer {
  constructor({ text, value, parts, isError }) {
    Object.assign(this, { text, value, parts, isError });
  }
}
const answer = (members) => new Answer(members);

/* Classes of structs. The addon calls a constructor with the members in the order of MEMBERS, undefined where one is
 * empty; an older or newer library has the same order, since members are added at the end. */
const none = Object.freeze([]);
const MEMBERS = {
  tp_message: 'role isError turnId text calls callId name parts value providerData ending',
  tp_tool_call: 'id name arguments malformed',
  tp_event:
    'kind phase sequence timeNs unixMs status visibility callIndex text subscription run contribution toolCall ' +
    'toolResult job inputTokens outputTokens costMicros startedNs endedNs lost model question parentTurn ' +
    'finish finishWord',
  tp_turn_result:
    'outcome code text reason turnId phase state why iterations toolCalls finish subscription bareReason inputTokens ' +
    'outputTokens costMicros startedNs endedNs finishWord value isStored retryMs',
};

class Message {
  constructor(
    role,
    isError = false,
    turnId = '',
    text = '',
    calls = none,
    callId = '',
    name = '',
    parts,
    value,
    providerData,
    ending,
  ) {
    this.role = role;
    this.text = text;
    this.calls = calls;
    this.callId = callId;
    this.name = name;
    this.isError = isError;
    this.turnId = turnId;
    if (parts !== undefined) this.parts = parts;
    if (value !== undefined) this.value = value;
    if (providerData !== undefined) this.providerData = providerData;
    if (ending !== undefined) this.ending = ending;
  }
}
Message.prototype.parts = none;

class ToolCall {
  constructor(id = '', name = '', given, malformed = false) {
    this.name = name;
    this.id = id;
    this.arguments = given;
    this.malformed = malformed;
  }
}

class TurnEvent {
  constructor(
    kind,
    phase = '',
    sequence = 0,
    timeNs,
    unixMs = 0,
    status = 0,
    visibility,
    callIndex = 0,
    text = '',
    subscription = '',
    run,
    contribution,
    toolCall,
    toolResult,
    job,
    inputTokens = 0,
    outputTokens = 0,
    costMicros = 0,
    startedNs,
    endedNs,
    lost = 0,
    model = '',
    question,
    parentTurn = '',
    finish,
    finishWord = '',
  ) {
    this.kind = kind;
    this.text = text;
    this.sessionId = this.turnId = this.agentId = '';
    Object.assign(this, { phase, sequence, unixMs, status, callIndex, subscription, model, lost, parentTurn });
    this.timeNs = timeNs;
    if (toolCall !== undefined) this.toolCall = toolCall;
    if (toolResult !== undefined) this.toolResult = toolResult;
    if (contribution !== undefined) this.contribution = contribution;
    if (question !== undefined) this.question = question;
    if (run !== undefined) this.run = run;
    if (job !== undefined) this.job = job;
    if (visibility !== undefined) this.visibility = visibility;
    if (finish !== undefined) this.finish = finish;
    if (endedNs !== undefined) Object.assign(this, { startedNs, endedNs });
    Object.assign(this, { finishWord, inputTokens, outputTokens, costMicros });
  }
}

/** How a turn ended. outcome: completed, failed, denied, cancelled or timed_out. */
class TurnResult {
  constructor(
    outcome = 'none',
    code = 0,
    text = '',
    reason = '',
    turnId = '',
    phase = '',
    state = '',
    why = '',
    iterations = 0,
    toolCalls = 0,
    finish = 'unknown',
    subscription = '',
    bareReason = '',
    inputTokens = 0,
    outputTokens = 0,
    costMicros = 0,
    startedNs = 0n,
    endedNs = 0n,
    finishWord = '',
    value,
    isStored = false,
    retryMs = 0,
  ) {
    this.outcome = outcome;
    this.code = code;
    this.text = text;
    this.value = value;
    this.reason = reason;
    this.bareReason = bareReason;
    this.turnId = turnId;
    this.subscription = subscription;
    this.phase = phase;
    this.state = state;
    this.why = why;
    this.iterations = iterations;
    this.toolCalls = toolCalls;
    this.finish = finish;
    this.finishWord = finishWord;
    this.inputTokens = inputTokens;
    this.outputTokens = outputTokens;
    this.costMicros = costMicros;
    this.startedNs = startedNs;
    this.endedNs = endedNs;
    this.isStored = isStored;
    this.retryMs = retryMs;
  }

  /** The result itself. Throws the error of its code where the turn did not complete. */
  check() {
    if (this.outcome === 'completed') return this;
    throw errorOfTurn(this.code, this.reason || this.outcome, this.subscription);
  }
}

const classes = { tp_message: Message, tp_tool_call: ToolCall, tp_event: TurnEvent, tp_turn_result: TurnResult };

/** Returns the class of a struct with these members; undefined: there is none. */
function classOf(struct, members) {
  if (struct in classes && members.join(' ') !== MEMBERS[struct])
    throw new Error(`${struct} has other members than lib/answers.js: ${members.join(' ')}`);
  return classes[struct];
}

module.exports = { Verdict, allow, deny, ask, failed, Answer, answer, TurnEvent, TurnResult, classOf, none };
