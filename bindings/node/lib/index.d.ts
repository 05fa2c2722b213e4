// SPDX-License-Identifier: Apache-2.0
import type * as options from './options.js';

// ---- what hooks answer ----

declare const verdict: unique symbol;
export interface Verdict {
  readonly [verdict]: true;
  readonly kind: string;
  readonly reason: string;
}
/** The verdict allow of a hook. */
export function allow(): Verdict;
/** The verdict deny of a hook, with a reason that is safe to show. */
export function deny(reason?: string): Verdict;
/** The verdict ask of a hook: a person decides. */
export function ask(reason?: string): Verdict;
/** A hook could not do its work: its failure policy decides what follows. */
export function failed(reason?: string, how?: { retryable?: boolean }): Verdict;

type Awaitable<T> = T | PromiseLike<T>;
/** A hook that returns nothing abstains; any other value but a verdict is no answer, and the hook fails. */
export type HookFunction = (call: Call) => Awaitable<Verdict | void | null | undefined>;

interface Work {
  readonly tenant: string;
  readonly agentId: string;
  readonly sessionId: string;
  readonly turnId: string;
  /** Milliseconds until its limit, after which its answer is discarded. */
  readonly timeLeftMs: number;
  /** Whether an answer would still have an effect. */
  readonly isOpen: boolean;
  /** Aborted when the limit passes or the turn is cancelled. */
  readonly signal: AbortSignal;
}
interface TurnWork extends Work {
  readonly mode: string;
  readonly agentConfig: Record<string, unknown>;
  /** A nested turn of another session; it ends with this call. */
  turn(session: Session, text: string, options?: TurnOptions): Turn;
}

/** A call of a hook. It can be read until it is answered; after that reading it throws TP_ERR_STALE. */
export interface Call extends TurnWork {
  readonly phase: string;
  readonly subscription: string;
  readonly attempt: number;
  /** The user's message. */
  readonly text: string;
  readonly tool: string;
  /** The arguments of the tool: an object; a string if the provider could not decode them. */
  readonly arguments: any;
  /** A field of the payload by its name in docs/phases.md; undefined if it is missing. */
  get(field: string): any;
  payload(): Record<string, unknown>;
  /** The conversation so far. */
  messages(): Message[];
  policy(domain: string, key: string): string;
  /** Replaces fields of the payload, in a phase that allows it, when this call succeeds. */
  replace(fields: Record<string, unknown>): void;
  /** Adds a contribution to the answer. */
  emit(contribution: options.TpContribution): void;
  addContext(key: string, text: string, how?: { weight?: number }): void;
  addSection(key: string, text: string, how?: { title?: string; weight?: number }): void;
  addPolicy(domain: string, key: string, value: string, how?: { weight?: number }): void;
  addReminder(text: string): void;
  addAudit(key: string, text: string): void;
  addDiagnostic(key: string, text: string, how?: { severity?: 'debug' | 'info' | 'warning' | 'error' }): void;
}

type Names = string | readonly string[];
export interface HookOptions extends Omit<options.TpHook, 'id' | 'phase' | 'match' | 'after' | 'before' | 'needs'> {
  id?: string;
  /** Patterns: the hook runs only for tools, agents and modes that fit one of them. */
  tools?: readonly string[];
  agents?: readonly string[];
  modes?: readonly string[];
  /** Ids of other hooks of the phase. */
  after?: Names;
  before?: Names;
  needs?: Names;
}

// ---- tools ----

/** A run of a tool: the second argument of its function. */
export interface ToolRun extends TurnWork {
  readonly name: string;
  readonly callId: string;
  readonly arguments: any;
}
export interface AnswerMembers {
  /** The text that the model reads. */
  text?: string;
  /** A structured result; without text the model reads it as JSON. */
  value?: unknown;
  parts?: readonly options.TpPart[];
  isError?: boolean;
}
declare const answered: unique symbol;
export interface Answer extends AnswerMembers {
  readonly [answered]: true;
}
/** A complete answer of a tool. */
export function answer(members: AnswerMembers): Answer;

/** A schema of zod 4.2, or of another library that supports Standard Schema and gives a JSON Schema. */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown, ...rest: any[]) => any;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}
export type Arguments<S> = S extends {
  readonly '~standard': { readonly types?: { readonly output: infer Output } | undefined };
}
  ? Output
  : any;
export interface ToolOptions<S> extends Omit<options.TpTool, 'name' | 'schema'> {
  /** A JSON Schema whose root is of type object, or a schema of zod; missing: any object. */
  schema?: S;
}
/** A string is what the model reads; other data it reads as JSON. */
export type ToolFunction<S> = (given: Arguments<S>, run: ToolRun) => unknown;

// ---- models ----

export interface ToolCall {
  name: string;
  arguments?: any;
  id?: string;
  malformed?: boolean;
}
export interface Message {
  readonly role: 'user' | 'assistant' | 'tool' | 'end' | 'system' | number;
  readonly text: string;
  readonly calls: readonly ToolCall[];
  readonly callId: string;
  readonly name: string;
  readonly isError: boolean;
  readonly parts: readonly any[];
  readonly turnId: string;
  readonly value?: unknown;
  readonly providerData?: unknown;
  readonly ending?: unknown;
}
/** A request to a model. Its members must be read before the answer. */
export interface ModelRequest extends Work {
  readonly messages: readonly Message[];
  readonly tools: readonly { name: string; description: string; schema: Record<string, unknown> }[];
  readonly system: string;
  /** The name of the wanted model; '' if none is named. */
  readonly model: string;
  readonly attempt: number;
  readonly parameters: Record<string, unknown>;
  readonly files: readonly string[];
  readonly answerSchema?: unknown;
}
export type Response = options.TpModelResponse;
/** What a model yields: text, its thinking, a call of a tool, and at last a response. */
export type Piece = string | { thinking: string } | { call: ToolCall } | Response;
export type ModelFunction = (request: ModelRequest) => Awaitable<string | Response> | AsyncIterable<Piece>;

declare const isModel: unique symbol;
export interface Model {
  readonly [isModel]: true;
}
/** A model behind an endpoint. The key is in an environment variable (keyEnv) or in a file (keyFile). */
export function openai(model: string, options?: Omit<options.TpOpenaiOptions, 'model'>): Model;
/** A model that plays responses, for tests. */
export function script(
  responses: readonly (
    string | { text?: string; tool_calls?: readonly unknown[]; stop_reason?: string; usage?: unknown }
  )[],
  how?: { repeat?: boolean },
): Model;
/** A function as a model, with further data about it for the library. */
export function functionModel(run: ModelFunction, options?: options.TpModel): Model;

// ---- parts ----

declare const isPart: unique symbol;
export interface Part {
  readonly [isPart]: true;
}
declare const isDatabase: unique symbol;
export interface Database {
  readonly [isDatabase]: true;
}
type Path = string | URL | Uint8Array;
/** History, records and jobs in a SQLite file. */
export function sqlite(path: Path, options?: Omit<options.TpSqliteStoreOptions, 'path'>): Database;
/** Long-term memory; without a path it ends with the runtime. */
export function memory(path?: Path, options?: Omit<options.TpMemoryOptions, 'path'>): Part;
/** Tools for the files below a directory. */
export function files(root: Path, options?: Omit<options.TpFilesOptions, 'root'>): Part;
/** Instructions in Markdown files. */
export function skills(directory: Path): Part;
/** The hooks of a directory of YAML files. trusted: the hash of the content that was reviewed, or 'any'. */
export function declaredHooks(
  directory: Path,
  options: Omit<options.TpHooksOptions, 'directory'> & { trusted: string },
): Part;
/** A server of the Model Context Protocol. */
export function mcp(name: string, options: Omit<options.TpMcpOptions, 'name'>): Part;

// ---- turns ----

export type EventKind =
  | 'turn_begin'
  | 'phase_begin'
  | 'run'
  | 'phase_end'
  | 'model_begin'
  | 'model_delta'
  | 'model_end'
  | 'tool_begin'
  | 'tool_end'
  | 'context'
  | 'reminder'
  | 'diagnostic'
  | 'turn_end'
  | 'audit'
  | 'question'
  | 'job'
  | 'lost'
  | 'thinking'
  | 'message'
  | 'tool_progress';
export interface ToolResult {
  readonly name: string;
  /** ok, handler_error, denied, timed_out, … */
  readonly kind: string;
  readonly text?: string;
  readonly value?: unknown;
  readonly [member: string]: unknown;
}
/** Something that happened in a turn; kind determines which members it has (tp_event of turnphase/turn.h). */
export interface TurnEvent {
  readonly kind: EventKind;
  readonly text: string;
  readonly phase: string;
  readonly subscription: string;
  readonly callIndex: number;
  readonly sequence: number;
  readonly unixMs: number;
  readonly model: string;
  readonly lost: number;
  readonly status: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly costMicros: number;
  readonly sessionId: string;
  readonly turnId: string;
  readonly agentId: string;
  readonly parentTurn: string;
  readonly toolCall?: ToolCall;
  readonly toolResult?: ToolResult;
  readonly contribution?: Record<string, unknown>;
  readonly run?: Record<string, unknown>;
  readonly finish?: string;
  readonly timeNs?: bigint;
  readonly startedNs?: bigint;
  readonly endedNs?: bigint;
}
export interface TurnResult {
  readonly outcome: 'completed' | 'failed' | 'denied' | 'cancelled' | 'timed_out';
  /** The number of its status (turnphase/status.def). */
  readonly code: number;
  readonly text: string;
  readonly reason: string;
  readonly bareReason: string;
  readonly turnId: string;
  readonly subscription: string;
  readonly phase: string;
  readonly state: string;
  readonly why: string;
  readonly iterations: number;
  readonly toolCalls: number;
  readonly finish: string;
  readonly finishWord: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly costMicros: number;
  readonly startedNs: bigint;
  readonly endedNs: bigint;
  readonly isStored: boolean;
  /** When a turn of another process has the session: how long its lease still lasts; 0: not known. */
  readonly retryMs: number;
  /** The value of an answer with answerSchema. */
  readonly value?: any;
  /** The result itself. Throws the error of its code if the turn did not complete. */
  check(): this;
}
export interface TurnOptions extends Omit<options.TpTurnRequest, 'text'> {
  /** The kinds of events that are iterated; missing: those that a chat shows. */
  events?: readonly EventKind[];
  /** Aborting it cancels the turn. */
  signal?: AbortSignal;
}
/** A turn begins when it is awaited, iterated or started. `await turn` gives its result, whatever its outcome; if its
 *  signal was aborted and it did not complete, it rejects with the signal's reason. */
export class Turn implements PromiseLike<TurnResult>, AsyncIterable<TurnEvent> {
  private constructor();
  readonly session: Session;
  /** undefined before the end. */
  readonly result: TurnResult | undefined;
  /** Submits the turn. After that its events cannot be iterated any more. */
  start(): this;
  /** Cancels the turn: its result will have the outcome cancelled. */
  cancel(): void;
  /** Adds a message of the user before the turn's next request. */
  addMessage(text: string, how?: { files?: readonly string[] }): void;
  then<A = TurnResult, B = never>(
    resolved?: ((result: TurnResult) => A | PromiseLike<A>) | null,
    rejected?: ((reason: any) => B | PromiseLike<B>) | null,
  ): Promise<A | B>;
  catch<B = never>(rejected?: ((reason: any) => B | PromiseLike<B>) | null): Promise<TurnResult | B>;
  finally(run?: (() => void) | null): Promise<TurnResult>;
  [Symbol.asyncIterator](): AsyncIterableIterator<TurnEvent>;
  /** The pieces of the model's answer. */
  deltas(): AsyncGenerator<string, void, void>;
  /** Cancels the turn, and waits for its end. */
  [Symbol.asyncDispose](): Promise<void>;
}

// ---- runtimes ----

export interface Question {
  readonly tool: string;
  readonly arguments: any;
  readonly reason: string;
  readonly subscription: string;
  readonly sessionId: string;
  readonly turnId: string;
}
/** arguments replaces the arguments of the call. */
export interface Decision {
  allow: boolean;
  reason?: string;
  person?: string;
  arguments?: Record<string, unknown>;
}
export interface LogRecord {
  readonly level: 'error' | 'warning' | 'info' | 'debug';
  readonly message: string;
  readonly error?: unknown;
  readonly subscription?: string;
  readonly turnId?: string;
  readonly sessionId?: string;
  readonly unixMs?: number;
  readonly lost?: number;
}
export interface RuntimeOptions extends options.TpRuntimeOptions {
  parts?: readonly Part[];
  /** The store of history, records and jobs; missing: in memory. */
  database?: Database;
  /** Puts a question to a person. Anything but allow: true denies. */
  onQuestion?: (question: Question) => Awaitable<Decision | boolean | void>;
  /** Receives log records of the library, and errors that functions have thrown; missing:
   *  util.debuglog('turnphase'). */
  onLog?: (record: LogRecord) => void;
  /** How long running turns may last after close(), in ms; 5000. */
  drainMs?: number;
  /** Whether the loop's thread also does the work of the library. Then a turn costs less, but library code that blocks
   *  also blocks the loop. Missing: true if there are no parts, no database, and no option that counts threads. */
  pump?: boolean;
}
export class Agent {
  private constructor();
  readonly runtime: Runtime;
  readonly id: string;
  remove(): Promise<void>;
}
/** A conversation: its turns run one after the other. */
export class Session {
  private constructor();
  readonly runtime: Runtime;
  readonly id: string;
  readonly isClosed: boolean;
  /** A turn that has not begun. */
  turn(text: string, options?: TurnOptions): Turn;
  /** Runs tool calls of a model that another program asks, each through its gates, all at the same time. */
  callTools(
    calls: readonly { name: string; arguments?: unknown; id?: string; malformed?: boolean }[],
    options?: Omit<TurnOptions, 'events'>,
  ): Promise<ToolResult[]>;
  /** Closes the session after its turns. */
  close(end?: options.TpSessionEnd): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
/** Registrations, and the sessions whose turns run with them, in one loop. */
export class Runtime {
  private constructor();
  static open(options?: RuntimeOptions): Promise<Runtime>;
  readonly isClosed: boolean;
  /** Registers a function as a hook of a phase. */
  hook(phase: string, run: HookFunction): void;
  hook(phase: string, options: HookOptions, run: HookFunction): void;
  /** A hook whose failure denies: hook() with failure: 'required'. */
  guard(phase: string, run: HookFunction): void;
  guard(phase: string, options: HookOptions, run: HookFunction): void;
  removeHook(id: string): void;
  /** Registers a function as a tool of every turn. */
  tool(name: string, run: ToolFunction<undefined>): void;
  tool<S extends StandardSchema | Record<string, unknown> | undefined = undefined>(
    name: string,
    options: ToolOptions<S>,
    run: ToolFunction<S>,
  ): void;
  removeTool(name: string): void;
  /** Adds an agent. tools: the names of the tools that its turns may use; extra: further keys of its config. */
  agent(
    options: Omit<options.TpAgentConfig, 'extra'> & {
      id: string;
      model?: Model | ModelFunction;
      tools?: readonly string[];
      extra?: Record<string, unknown>;
    },
  ): Promise<Agent>;
  /** Opens a session; without an id it gets one. */
  session(options?: options.TpSessionOptions & { agent?: Agent; model?: Model | ModelFunction }): Session;
  /** Waits until no background job is open. Gives false when the limit has passed. */
  waitForJobs(limitMs?: number): Promise<boolean>;
  /** Refuses new turns, lets running ones end, cancels the rest after drainMs, closes sessions, and frees the
   *  runtime. */
  close(how?: { drainMs?: number }): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

// ---- errors ----

/** An error of the library. */
export class TurnphaseError extends Error {
  protected constructor();
  /** The name of the status, such as TP_ERR_CYCLE. */
  readonly code: string;
  readonly status: number;
  readonly category: string;
  /** The id of the object at fault. */
  readonly subject: string;
  readonly line: number;
  readonly column: number;
  readonly systemError: number;
}
export class UsageError extends TurnphaseError {}
export class LimitError extends TurnphaseError {}
export class TimeoutError extends TurnphaseError {}
export class CanceledError extends TurnphaseError {}
/** A hook denied, or a required one did not answer. */
export class HookError extends TurnphaseError {}
/** A hook denied. */
export class DeniedError extends HookError {}
export class StoreError extends TurnphaseError {}
/** The operating system or a model provider failed. */
export class SystemFailure extends TurnphaseError {}
export class InternalError extends TurnphaseError {}
/** Thrown by a tool: its text is what the model reads, and nothing is logged. */
export class ToolError extends Error {}
/** Thrown by a model: the request failed. */
export class ModelError extends Error {
  constructor(
    message: string,
    how?: { retryable?: boolean; unavailable?: boolean; contextLength?: boolean; cause?: unknown },
  );
}
export const version: string;
