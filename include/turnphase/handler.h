/* SPDX-License-Identifier: Apache-2.0
 *
 * handler.h: for authors of handlers: what a handler is, what it can read, what it can answer, how it is subscribed.
 * Threads: a function with "that of the call" may be called by the thread that runs the handler, until the handler
 * returns; for a call from an inbox by one thread at a time, until its token is completed. A function with "that of the
 * match" may be called by the thread that runs the match, until the match returns. All other functions may be called by
 * any thread. The library calls a handler's function, a match and their destroy functions on any thread of the runtime,
 * or on that of a caller of a synchronous function. */
#ifndef TURNPHASE_HANDLER_H
#define TURNPHASE_HANDLER_H

#include "turnphase/base.h"

TP_BEGIN_DECLS

/** Fields of payloads. docs/phases.md lists the fields of each phase, and those that a chain may replace. The comment
 *  gives the kind of a field and what it holds. Numbers are written to stores. Fields that a host's own phases add are
 *  numbered from TP_FIELD_HOST; they have no name and may be of any kind. */
typedef uint32_t tp_field_id;
enum tp_field_ids {
  TP_FIELD_NONE = 0,
  TP_FIELD_TEXT = 1,            /* text: the user's message */
  TP_FIELD_MODEL = 2,           /* text: model name */
  TP_FIELD_FILES = 3,           /* value: array of str */
  TP_FIELD_AGENT_CONFIG = 4,    /* value: map (system, model, and the pairs of
                                     tp_agent_config.extra) */
  TP_FIELD_AGENT_ID = 5,        /* text */
  TP_FIELD_SESSION_ID = 6,      /* text */
  TP_FIELD_TOOL_NAMES = 7,      /* value: array of str */
  TP_FIELD_CAN_CALL_TOOLS = 8,  /* int: 0 or 1 */
  TP_FIELD_SYSTEM = 9,          /* text: compiled system text */
  TP_FIELD_REQUEST = 10,        /* value: map (messages: array of {role, text}; tools: array of str;
                                     model: str; parameters: map and files: array of str,
                                     where the turn has some) */
  TP_FIELD_ATTEMPT = 11,        /* int: from 1 */
  TP_FIELD_MESSAGE_COUNT = 12,  /* int */
  TP_FIELD_REQUEST_BYTES = 13,  /* int */
  TP_FIELD_RESPONSE_TEXT = 14,  /* text */
  TP_FIELD_STOP_REASON = 15,    /* text */
  TP_FIELD_INPUT_TOKENS = 16,   /* int */
  TP_FIELD_OUTPUT_TOKENS = 17,  /* int */
  TP_FIELD_COST_MICROS = 18,    /* int: millionths of a dollar */
  TP_FIELD_CALL_COUNT = 19,     /* int */
  TP_FIELD_ABILITY_REF = 20,    /* text */
  TP_FIELD_INPUT_SUMMARY = 21,  /* text: the arguments as JSON, at most 16 KiB; of a text in it that is longer than
                                      1,024 bytes the head and the tail */
  TP_FIELD_ENVIRONMENT = 22,    /* text */
  TP_FIELD_TOOL = 23,           /* text: tool name */
  TP_FIELD_ARGUMENTS = 24,      /* value: map; a text when the provider could not decode it */
  TP_FIELD_TASK_KEY = 25,       /* text */
  TP_FIELD_RESULT = 26,         /* text: what the model will read of the tool, without the signals of gates */
  TP_FIELD_STATUS = 27,         /* text: success, failure, partial (cut: result_bytes_max, parts_bytes_max) */
  TP_FIELD_DURATION_MS = 28,    /* int */
  TP_FIELD_OUTPUT_SUMMARY = 29, /* text: the first 512 bytes of the result */
  TP_FIELD_ERROR_MESSAGE = 30,  /* text */
  /* value: array of maps. In model.response each has id, tool, and arguments or malformed (true). A handler that
   * replaces the array keeps the calls that it names by id, in their order; other calls are dropped; tool and arguments
   * (a map) may be changed or left out. In tool.batch each has id, tool, arguments (as the model gave them) or
   * malformed, kind, and result: what the model reads (where all results together have more than 16 MiB, each keeps
   * head and tail of its share). A call that waited for conflicting ones also has waited_ms and waited_key. */
  TP_FIELD_CALLS = 31,
  TP_FIELD_PLAN = 32,              /* text: the reason: history_tokens_max, or context_length (of the provider) */
  TP_FIELD_TOKENS_BEFORE = 33,     /* int: of the history, as tp_message_tokens() counts */
  TP_FIELD_TOKENS_AFTER = 34,      /* int: what the new history may have */
  TP_FIELD_OUTCOME = 35,           /* text: completed, failed, denied, cancelled, timed_out;
                                     session.end: of the last turn that ran, absent without one */
  TP_FIELD_USER_PREVIEW = 36,      /* text: its first 4096 bytes */
  TP_FIELD_ASSISTANT_PREVIEW = 37, /* text: its first 4096 bytes */
  TP_FIELD_TOOL_EVENTS = 38,       /* value: array of maps */
  TP_FIELD_REASON = 39,            /* text; session.end: the host's (tp_session_end.reason); without one the
                                     tp_turn_ending_name() of a last turn that did not complete, else closed, phase or
                                     drained */
  TP_FIELD_CHANGED_FILES = 40,     /* value: array of str */
  TP_FIELD_ABILITIES_USED = 41,    /* value: array of str */
  TP_FIELD_TASKS_SUMMARY = 42,     /* value: array of maps */
  TP_FIELD_STARTED_AT = 43,        /* int: unix ms */
  TP_FIELD_ENDED_AT = 44,          /* int: unix ms */
  TP_FIELD_CODE = 45,              /* int: tp_status; session.end: of the last turn that ran */
  TP_FIELD_MESSAGE = 46,           /* text */
  TP_FIELD_CLOSED = 47,            /* int: 1 when the session itself ends, 0 at the end of a logical phase */
  TP_FIELD_SAID_AT = 48,           /* int: unix ms: when the user said the text (tp_turn_request.said_unix_ms) */
  TP_FIELD_CALL_ID = 49,           /* text: the model's id of the call */
  TP_FIELD_IS_ERROR = 50,          /* int: 0 or 1 */
  TP_FIELD_STOP_DENIALS = 51,      /* int: how often turn.stop was denied in this turn before */
  TP_FIELD_ABILITY_KIND = 52,      /* text: of ability_ref: ability_id, or operation_key (tp_tool.is_operation) */
  TP_FIELD_SOURCE = 53,            /* text: of a session: startup, or resume where its history had messages */
  TP_FIELD_ITERATIONS = 54,        /* int: model requests of the turn */
  TP_FIELD_RESULT_VALUE = 55,      /* value: the structured result of the tool; not there: none. A null in its place
                                      removes it */
  TP_FIELD_RESULT_PARTS = 56,      /* value: array of parts (part.h) of the result; not there: none. An empty array in
                                      its place removes them. Value and parts go with the text: another `result` removes
                                      both, unless the same handler replaces them, too */
  TP_FIELD_MESSAGES = 57,          /* value: array of maps, the messages of a request in their order: id (int: which
                                      message of the request it is, from 0), role (user, assistant, tool or system),
                                      text; of an assistant calls (array of {id, tool, arguments: map, or malformed:
                                      true with arguments as a text}); of a tool call_id, tool, is_error, value; of a
                                      user and a tool parts (part.h). What is empty is missing. When the array is
                                      replaced, each message is what its map says; a message that is unchanged, id
                                      included, keeps the data that its provider gave with it. At least one message */
  TP_FIELD_TOOLS = 58,          /* value: array of maps, the tools that the model is shown: name, description, schema.
                                      When the array is replaced, each item is the name of one of these tools, or a map
                                      in which description and schema may be changed; a call of a tool that is missing
                                      is not run */
  TP_FIELD_PARAMETERS = 59,     /* value: map of at most 1 MiB, for the provider (temperature, …) */
  TP_FIELD_RESPONSE = 60,       /* value: not there; a map with text, calls (as those of a message), stop_reason, finish
                                      (tp_finish_name()), input_tokens, output_tokens and cost_micros is the model's
                                      answer, and the model is not asked. text or calls must be there; a call may have
                                      no id. A null in its place removes it */
  TP_FIELD_THINKING = 61,       /* text: what the model thought, for people; not there: nothing. It goes with
                                      response_text: another text removes it, unless the same handler replaces it */
  TP_FIELD_USER_TEXT = 62,      /* text: the first 256 KiB of the text of which user_preview is the beginning; absent:
                                   the preview is the whole text */
  TP_FIELD_ASSISTANT_TEXT = 63, /* text: the same for assistant_preview */
  TP_FIELD_HOST = 256,          /* a host's own phases number their fields from here */
  TP_FIELD_LIMIT = 512          /* ids are below this */
};

/** The objects that a turn belongs to. tp_call_id() reads their ids, tp_call_data() the host's pointers. */
typedef enum tp_id_kind {
  TP_ID_TENANT = 0,
  TP_ID_AGENT = 1,
  TP_ID_WORKSPACE = 2,
  TP_ID_SESSION = 3,
  TP_ID_THREAD = 4,
  TP_ID_TURN = 5,
  TP_ID_TASK = 6,
  TP_ID_RUN = 7,
  TP_ID_COUNT = 8,
  TP_ID_RUNTIME = 255, /* has no id, only a pointer: for tp_call_data() and its like */
  TP_ID_FORCE_32 = 0x7fffffff
} tp_id_kind;

/** What submitted the turn. */
typedef enum tp_caller {
  TP_CALLER_AI_SESSION = 0,
  TP_CALLER_BACKGROUND_JOB = 1,
  TP_CALLER_CI_PIPELINE = 2,
  TP_CALLER_MANUAL_CLI = 3,
  TP_CALLER_FORCE_32 = 0x7fffffff
} tp_caller;

/** Kinds of contribution; the merge of each is described in docs/contributions.md. */
typedef enum tp_contribution_kind {
  TP_CONTRIBUTION_POLICY = 1,
  TP_CONTRIBUTION_PROMPT_CONTEXT = 2,
  TP_CONTRIBUTION_PROMPT_SECTION = 3,
  TP_CONTRIBUTION_TOOL_BUNDLE = 4,
  TP_CONTRIBUTION_SIGNAL = 5,
  TP_CONTRIBUTION_REMINDER = 6,
  TP_CONTRIBUTION_AUDIT = 7,
  TP_CONTRIBUTION_MANIFEST_DIAGNOSTIC = 8,
  TP_CONTRIBUTION_DIAGNOSTIC = 9,
  TP_CONTRIBUTION_BACKGROUND_JOB = 10,
  TP_CONTRIBUTION_COUNT = 11,
  TP_CONTRIBUTION_FORCE_32 = 0x7fffffff
} tp_contribution_kind;

/** What a handler may do: bits, declared in tp_handler.capabilities, checked at commit and at every emit. Contributing
 *  kind K needs the bit 1 << K; diagnostics need none. The bits from 32 are no kinds. A handler that declares none may
 *  do all that its phase allows. */
typedef uint32_t tp_capability;
enum tp_capabilities {
  TP_CAPABILITY_CONTRIBUTE_POLICY = 1 << TP_CONTRIBUTION_POLICY,
  TP_CAPABILITY_CONTRIBUTE_PROMPT_CONTEXT = 1 << TP_CONTRIBUTION_PROMPT_CONTEXT,
  TP_CAPABILITY_CONTRIBUTE_PROMPT_SECTION = 1 << TP_CONTRIBUTION_PROMPT_SECTION,
  TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE = 1 << TP_CONTRIBUTION_TOOL_BUNDLE,
  TP_CAPABILITY_EMIT_SIGNAL = 1 << TP_CONTRIBUTION_SIGNAL,
  TP_CAPABILITY_EMIT_REMINDER = 1 << TP_CONTRIBUTION_REMINDER,
  TP_CAPABILITY_EMIT_AUDIT = 1 << TP_CONTRIBUTION_AUDIT,
  TP_CAPABILITY_CONTRIBUTE_PROMPT_MANIFEST_DIAGNOSTIC = 1 << TP_CONTRIBUTION_MANIFEST_DIAGNOSTIC,
  TP_CAPABILITY_SCHEDULE_BACKGROUND_JOB = 1 << TP_CONTRIBUTION_BACKGROUND_JOB,
  TP_CAPABILITY_DECIDE = 1 << 24,         /* verdicts */
  TP_CAPABILITY_REPLACE_PAYLOAD = 1 << 25 /* tp_call_replace() */
};

/** Severity of a signal or diagnostic. */
typedef enum tp_severity {
  TP_SEVERITY_INFO = 0,
  TP_SEVERITY_WARNING = 1,
  TP_SEVERITY_ERROR = 2,
  TP_SEVERITY_FORCE_32 = 0x7fffffff
} tp_severity;

struct tp_tool;

/** One typed output of a handler. It is passed by pointer, in lists of pointers; struct_size is set by the code that
 *  fills it. Everything it points to is copied before the call that takes it returns. Which fields a kind uses (the
 *  others stay zero):
 *   policy           domain, key, text (the value), weight
 *   prompt_context   key (the id), domain, text, short_text, weight, sources
 *   prompt_section   key (the section id), title, text, short_text, weight
 *   tool_bundle      key (the bundle id), tools
 *   signal           key (the code), domain (routing_hint | normalized_intent | ability_preflight | ability_guard),
 *                    text or value (the payload), severity. ability_preflight and ability_guard are verdicts:
 *                    tp_signal_verdict()
 *   reminder         text
 *   audit, manifest_diagnostic, diagnostic   key (a code), text, severity
 *   background_job   key (the idempotency key), domain (handler id), value (payload), text (order key) */
typedef struct tp_contribution {
  size_t struct_size;
  /** TP_CONTRIBUTION_*. */
  tp_contribution_kind kind;
  /** The larger one wins; independent of a subscription's priority. */
  int32_t weight;
  tp_severity severity;
  uint32_t tool_count;
  tp_text domain;
  tp_text key;
  tp_text title;
  /** UTF-8. */
  tp_text text;
  /** The contribution's own shorter form, used when a budget would cut text. */
  tp_text short_text;
  /** One msgpack value. */
  tp_text value;
  /** Msgpack array of str: ids of turns or documents behind the text. */
  tp_text sources;
  /** tool.h; each is read by its struct_size and copied; what its function and ctx point to must stay valid while
   *  the handler is registered. */
  const struct tp_tool *const *tools;
} tp_contribution;

/** What a payload field holds. */
typedef enum tp_field_kind_id {
  TP_FIELD_KIND_NONE = 0,  /* no kind: refused */
  TP_FIELD_KIND_TEXT = 1,  /* text: UTF-8 */
  TP_FIELD_KIND_INT = 2,   /* number */
  TP_FIELD_KIND_VALUE = 3, /* text: one msgpack value (value.h) */
  TP_FIELD_KIND_FORCE_32 = 0x7fffffff
} tp_field_kind_id;

/** A field of a payload, as given to tp_phase_run() or tp_call_replace(). Frozen: 32 bytes, by value and side by side.
 *  The member that the kind does not name stays zero. */
typedef struct tp_field {
  tp_field_id id; /* TP_FIELD_* */
  uint32_t kind;  /* TP_FIELD_KIND_* */
  int64_t number;
  tp_text text;
} tp_field;
TP_STATIC_ASSERT(sizeof(tp_field) == 16 + sizeof(tp_text), "tp_field is frozen: 32 bytes where pointers have 8");

/** The name of a field of the built-in phases ("tool_names"), static text; NULL for any other number. Threads: any. */
TP_API const char *tp_field_name(tp_field_id field);
/** The field of a name. @return TP_FIELD_NONE (0) when there is none; name may be NULL. Threads: any. */
TP_API tp_field_id tp_field_find(const char *name);
/** TP_FIELD_KIND_*: how a field of the built-in phases is given; TP_FIELD_ARGUMENTS may be text, too, when its provider
 *  could not decode it. @return TP_FIELD_KIND_NONE for any other number. Threads: any. */
TP_API tp_field_kind_id tp_field_kind(tp_field_id field);

/** The answer of a handler's, tool's or match function: one of TP_ANSWER_*. It is an integer, so that every language
 *  can return it. 0 is no answer, since the bindings of most languages return 0 for a callback that threw an
 *  exception. */
typedef int32_t tp_answer;
enum tp_answers {
  TP_ANSWER_NONE = 0,    /* no answer: the attempt fails (malformed), as with any number that is not listed here */
  TP_ANSWER_DONE = 1,    /* the handler has succeeded; in a chain with verdicts it abstains */
  TP_ANSWER_ALLOW = 2,   /* verdict */
  TP_ANSWER_DENY = 3,    /* verdict */
  TP_ANSWER_ASK = 4,     /* verdict: ask a person */
  TP_ANSWER_FAILED = 5,  /* could not do its work */
  TP_ANSWER_DEFERRED = 6 /* answers later: only what tp_call_defer() or tp_tool_defer() returned */
};

/** A verdict in results, records and fallbacks. The larger number is the stricter one. */
typedef enum tp_verdict {
  TP_VERDICT_NONE = 1, /* abstained, or the phase takes none */
  TP_VERDICT_ALLOW = 2,
  TP_VERDICT_ASK = 3,
  TP_VERDICT_DENY = 4,
  TP_VERDICT_FORCE_32 = 0x7fffffff
} tp_verdict;

/** "none", "allow", "ask", "deny"; "" for any other number. Static text. Threads: any. */
TP_API const char *tp_verdict_name(tp_verdict verdict);

/** A deferred answer, for tp_token_complete(), which copies everything it points to. */
typedef struct tp_outcome {
  size_t struct_size;
  /** TP_ANSWER_DONE to TP_ANSWER_FAILED. */
  tp_answer kind;
  /** With FAILED: the handler's own number, kept in the record. */
  uint32_t code;
  /** With FAILED: may be tried again. */
  bool retryable;
  /** Zero. */
  uint8_t reserved_[3];
  /** With FAILED: how it failed, for the record; 0: TP_REASON_ERROR, else TP_REASON_TIMEOUT, CRASH, KILLED,
   *  CANNOT_START, MALFORMED (store.h), or POSTPONED, which answers as tp_call_postpone() does. */
  uint32_t why;
  /** Deny, ask, failed: a safe sentence, or NULL. */
  const char *reason;
  /** The contributions of the answer. */
  const tp_contribution *const *contributions;
  size_t contribution_count;
  /** Payload fields to replace, as by tp_call_replace(); where tp_call_replace() would refuse one of them, the attempt
   *  fails. */
  const tp_field *replacements;
  size_t replacement_count;
} tp_outcome;

/** One execution of a handler, valid until the handler's function returns. Only the thread that runs the handler may
 *  use it, except where a function says otherwise. */
typedef struct tp_call tp_call;

/** The handler's function. ctx is tp_handler.ctx. It may be called from several threads at once.
 *  The returned number is the answer: a handler that called tp_call_deny() and then returns TP_ANSWER_NONE has failed.
 *  A reason or code that a function of this header has stored belongs to the answer when the answer of that function is
 *  returned.
 *  It must return: longjmp, a C++ exception that leaves it, pthread_exit and thread cancellation leave the thread, the
 *  turn and the locks of the runtime in an undefined state. It must not wait for its own runtime: tp_turn_run(),
 *  tp_phase_run(), tp_tools_run(), tp_agent_add(), tp_jobs_wait(), tp_runtime_drain() and the other functions that wait
 *  return TP_ERR_USAGE there, and tp_runtime_free() writes an error to the log and frees nothing. The exceptions are
 *  tp_call_ask_model() (model.h) and tp_call_run_turn() (turn.h). It may use another runtime; in the child of a fork
 *  only one that the child has made.
 *  Threads: any of the runtime, or that of a caller of a synchronous function; several at once. */
typedef tp_answer (*tp_handler_fn)(void *ctx, tp_call *call);

/* ---- reading ------------------------------------------------------------------------------------------------- */

/** The id of a kind (TP_ID_*); empty when the turn has none. Borrowed until the handler returns. Threads: that of the
 *  call. */
TP_API tp_text tp_call_id(const tp_call *call, tp_id_kind id);
/** The host's own pointer: `data` in the options of the object that the id names. TP_ID_RUNTIME, TP_ID_AGENT,
 *  TP_ID_SESSION and TP_ID_TURN have one; any other id gives NULL. The library does not read what it points to. The
 *  object that it points to must stay valid:
 *  - of a runtime until tp_runtime_free() has returned;
 *  - of an agent until tp_agent_remove() has returned and the sessions that use the agent are closed;
 *  - of a session until the on_end of its close has returned and every turn that was begun in it has ended;
 *  - of a turn until its on_end or tp_turn_end() has returned.
 *  A handler or tool that was abandoned (tp_runtime_leaks()) may call this function later than that. Detached runs and
 *  jobs may run after the end of their turn: in them every pointer but the runtime's is NULL.
 *  Threads: that of the call. */
TP_API void *tp_call_data(const tp_call *call, tp_id_kind id);
/** What submitted the turn: tp_turn_request.caller. Threads: that of the call. */
TP_API tp_caller tp_call_caller(const tp_call *call);
/** caller_job and triggered_by of the turn's request; empty where the request has none, and in a background job.
 *  Borrowed until the handler returns.
 *  Threads: that of the call. */
TP_API tp_text tp_call_caller_job(const tp_call *call);
TP_API tp_text tp_call_triggered_by(const tp_call *call);
/** Where the turn works, such as dev, staging or prod: tp_turn_request.environment, else that of the session, else
 *  that of the turn whose call runs it; empty where none of them has one, and in a background job. Borrowed until the
 *  handler returns.
 *  Threads: that of the call. */
TP_API tp_text tp_call_environment(const tp_call *call);
/** Redacts a text that the handler keeps or shows outside the turn, as the library does with its own texts
 *  (tp_runtime_options.redact).
 *  @param buffer  size bytes for what the callback leaves: twice the text's size is enough for most. At most 4,096
 *                 bytes of the text are read.
 *  @return the text itself where the runtime has no redact; else a text in buffer, or "[redacted]"; empty for a call or
 *          a buffer that is NULL.
 *  Threads: that of the call. */
TP_API tp_text tp_call_redact(const tp_call *call, tp_redact_place place, tp_text text, char *buffer, size_t size);
/** tp_turn_request.mode ("plan", "auto", …); may be empty. Threads: that of the call. */
TP_API tp_text tp_call_mode(const tp_call *call);
/** The phase, and the subscription's own id. Threads: that of the call. */
TP_API tp_phase_id tp_call_phase(const tp_call *call);
TP_API const char *tp_call_subscription(const tp_call *call);
/** From 1: which attempt of a retried handler, or of a background job, this is. Threads: that of the call. */
TP_API uint32_t tp_call_attempt(const tp_call *call);
/** The id of the background job that this call is an attempt of; 0 when it is none. Threads: that of the call. */
TP_API uint64_t tp_call_job_id(const tp_call *call);
/** The idempotency key of the job, or the empty text. It is the same in every attempt, so that the handler can make an
 *  external effect once. Borrowed until the handler returns. Threads: that of the call. */
TP_API tp_text tp_call_idempotency_key(const tp_call *call);
/** The plan's hash, as records carry it. Threads: that of the call. */
TP_API uint64_t tp_call_plan_hash(const tp_call *call);
/** Milliseconds until this attempt's deadline, never negative; INT64_MAX where there is none.
 *  Threads: that of the call. */
TP_API int64_t tp_call_time_left_ms(const tp_call *call);
/** True once the attempt was cancelled or its deadline has passed: its answer will be discarded.
 *  Threads: that of the call. */
TP_API bool tp_call_cancelled(const tp_call *call);

/** Payload fields: a missing one gives false, the empty text or 0. Of a field of the kind "value", tp_call_text()
 *  returns the encoded value, which tp_value_get() reads. In a chain the fields are as replaced so far. Borrowed until
 *  the handler returns. Threads: the call's. */
TP_API bool tp_call_has(const tp_call *call, tp_field_id field);
TP_API tp_text tp_call_text(const tp_call *call, tp_field_id field);
TP_API int64_t tp_call_int(const tp_call *call, tp_field_id field);

/** Whether a field has the bytes of a NUL-terminated string somewhere: for guards that look for a word. In a field of
 *  the kind "value" the encoded bytes are searched, in which texts and keys stand unchanged. False for a missing field,
 *  and for NULL and "". Upper and lower case differ. Threads: that of the call. */
TP_API bool tp_call_contains(const tp_call *call, tp_field_id field, const char *string);

/** The whole payload as one value, for handlers that pass it on: a map from field names (tp_field_name(); "field_300"
 *  for a host's own) to their values, by rising field number. The first call makes it, for all calls
 *  of the entry that see the same payload; in a chain it is made again after each replacement.
 *  @return the value, borrowed till the handler returns; empty without memory, and where it would be above 64 MiB.
 *  Threads: that of the call.  Blocks: while another handler of the entry makes the same value. */
TP_API tp_text tp_call_payload(const tp_call *call);

/** How a direct dependency ended. */
typedef struct tp_dependency {
  size_t struct_size; /* set by the caller of tp_call_dependency() */
  const char *subscription;
  bool succeeded; /* ran and succeeded */
  bool fallback_used;
  uint8_t reserved_[2]; /* zero */
  uint32_t contribution_count;
} tp_dependency;

/** How many direct after and needs targets of this subscription are in the plan. Threads: that of the call. */
TP_API size_t tp_call_dependency_count(const tp_call *call);
/** Fills ret_dependency as far as its struct_size goes. What it points to is borrowed till the handler returns.
 *  @param index  from 0.
 *  @return false, with the struct untouched, when there is no such dependency or its struct_size is wrong.
 *  Threads: that of the call. */
TP_API bool tp_call_dependency(const tp_call *call, size_t index, tp_dependency *ret_dependency) TP_MUST_USE;
/** A sealed contribution of a direct dependency; index < its contribution_count. Borrowed until the handler returns.
 *  Threads: that of the call. */
TP_API const tp_contribution *tp_call_dependency_contribution(const tp_call *call, size_t dependency, size_t index);

/** The config of the turn's agent as agent.build left it: a value, a map with system, model, tools, skills, resources
 *  and the free keys of tp_agent_config.extra. Empty without an agent, in agent.build, and in detached runs. Borrowed
 *  till the handler returns. Threads: that of the call. */
TP_API tp_text tp_call_agent_config(const tp_call *call);
/** The policy value merged so far in this turn, or the empty text. Threads: that of the call. */
TP_API tp_text tp_call_policy(const tp_call *call, const char *domain, const char *key);
/** All policies merged so far in this turn, in merged order: domain, key, text and weight; a policy in conflict has no
 *  text. tp_call_policy_at() gives NULL when index is not below the count. Borrowed until the handler returns. Threads:
 *  that of the call. */
TP_API size_t tp_call_policy_count(const tp_call *call);
TP_API const tp_contribution *tp_call_policy_at(const tp_call *call, size_t index);
/** The prompt-context entries merged so far in this turn, in merged order. Borrowed until the handler returns.
 *  Threads: that of the call. */
TP_API size_t tp_call_context_count(const tp_call *call);
TP_API const tp_contribution *tp_call_context(const tp_call *call, size_t index);

/* ---- answering ----------------------------------------------------------------------------------------------- */

/** Each function stores the reason in the call, and returns the number that the handler's function must return. A
 *  handler that has no verdict returns TP_ANSWER_DONE.
 *  A verdict needs TP_CAPABILITY_DECIDE and a phase that takes verdicts; ask is legal in tool phases only. Otherwise
 *  the attempt fails (malformed or capability). reason is copied; NULL allowed. Threads: that of the call. */
TP_API tp_answer tp_call_allow(tp_call *call);
TP_API tp_answer tp_call_deny(tp_call *call, const char *reason);
TP_API tp_answer tp_call_ask(tp_call *call, const char *reason);
/** The handler could not do its work. message is copied, kept in records and must be safe to show; NULL allowed.
 *  Threads: that of the call. */
TP_API tp_answer tp_call_fail(tp_call *call, uint32_t code, const char *message);
/** As tp_call_fail(), but the handler is called again if the subscription has retries left. Threads: that of the
 *  call. */
TP_API tp_answer tp_call_fail_retryable(tp_call *call, uint32_t code, const char *message);
/** The handler could not try: what it needs is busy, full, locked or out of reach (tp_status_is_transient()). In a
 *  background job the attempt does not count: the job waits, for 0.2 s at first, then for about a quarter of the time
 *  that it has waited so far, at most 60 s. Once it has been postponed for tp_runtime_options.job_postpone_ms in all,
 *  attempts count, and the last one of the subscription leaves a dead letter. Later jobs of the same order key wait
 *  meanwhile. In a phase that waits for the handler this is tp_call_fail_retryable(). In both cases the run's reason is
 *  TP_REASON_POSTPONED, which no breaker counts. Threads: that of the call. */
TP_API tp_answer tp_call_postpone(tp_call *call, uint32_t code, const char *message);

/** Adds a contribution to the answer; all of it is copied, and tools are taken (tool.h), on success only. An answer is
 *  taken whole or rejected whole: after a refused emit the attempt fails, whatever it returns. A malformed schema is no
 *  reason to refuse a bundle, since bundles carry what others wrote: the merge leaves its tool out, and the diagnostic
 *  `tool.bad_schema` says why.
 *  @return TP_OK; TP_ERR_CAPABILITY when the handler did not declare the kind or the phase does not take it;
 *          TP_ERR_MALFORMED for a contribution without its key or with bad UTF-8 or msgpack; TP_ERR_NO_MEMORY;
 *          TP_ERR_TOO_LARGE past 1 MiB per attempt; TP_ERR_USAGE after tp_call_defer(). The fault names the member, and
 *          its subject is the subscription or the tool.
 *  Threads: that of the call. */
TP_API tp_status tp_call_emit(tp_call *call, const tp_contribution *contribution, tp_fault *fault);

/** Short forms of tp_call_emit(). Strings are NUL-terminated and copied. Threads: that of the call. */
TP_API tp_status tp_call_emit_policy(tp_call *call, const char *domain, const char *key, const char *value,
                                     int32_t weight, tp_fault *fault);
TP_API tp_status tp_call_emit_prompt_context(tp_call *call, const char *id, const char *text, int32_t weight,
                                             tp_fault *fault);
TP_API tp_status tp_call_emit_prompt_section(tp_call *call, const char *id, const char *title, const char *text,
                                             int32_t weight, tp_fault *fault);
TP_API tp_status tp_call_emit_tool_bundle(tp_call *call, const char *id, const struct tp_tool *const *tools,
                                          size_t count, tp_fault *fault);
TP_API tp_status tp_call_emit_signal(tp_call *call, const char *signal_kind, const char *code, tp_severity severity,
                                     const char *text, tp_fault *fault);
TP_API tp_status tp_call_emit_reminder(tp_call *call, const char *text, tp_fault *fault);
TP_API tp_status tp_call_emit_audit(tp_call *call, const char *code, const char *text, tp_fault *fault);
TP_API tp_status tp_call_emit_diagnostic(tp_call *call, tp_severity severity, const char *code, const char *text,
                                         tp_fault *fault);
TP_API tp_status tp_call_emit_background_job(tp_call *call, const char *handler, const char *idempotency_key,
                                             tp_text payload, tp_fault *fault);

/** The verdict of a signal. Of ability_preflight the codes are AVAILABLE (allow), UNAVAILABLE (deny) and
 *  REQUIRES_HUMAN (ask), of ability_guard ALLOWED, DENIED and REQUIRES_HUMAN; ABILITY_ before a code changes nothing,
 *  and a true require_human in the payload makes the signal an ask, whatever its code. Other signals are no verdict.
 *
 *  In a phase with verdicts such a signal counts as its handler's answer when it is stricter than what the handler
 *  returned. Its reason is the payload when that is text, else the payload's field reason. It needs the capability
 *  DECIDE.
 *  @param value        the payload as a value; empty: none.
 *  @param ret_verdict  TP_VERDICT_NONE: no verdict.
 *  @return TP_OK; TP_ERR_MALFORMED: a code that the kind does not have.
 *  Threads: any. */
TP_API tp_status tp_signal_verdict(tp_text signal_kind, tp_text code, tp_text value, tp_verdict *ret_verdict);

/** Replaces payload fields in a `chain replace` phase; the new fields count when the attempt succeeds. Needs
 *  TP_CAPABILITY_REPLACE_PAYLOAD. Accepts only fields that the phase's row marks replaceable, each of its own kind and
 *  at most once in a call; of several calls the last one counts. Everything is copied. Errors as tp_call_emit(); the
 *  fault, the attempt's message in the record and the diagnostic name the field at fault. Threads: that of the call. */
TP_API tp_status tp_call_replace(tp_call *call, const tp_field *fields, size_t count, tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_call_replace_text(tp_call *call, tp_field_id field, const char *text, tp_fault *fault) TP_MUST_USE;

/** The callbacks of a deferred answer. cancel is called at most once, when the attempt is cancelled or its deadline has
 *  passed, by the thread that owns the turn: it must return within microseconds, and may complete the token. destroy is
 *  called exactly once, after the last use of ctx: when the token is completed (in time or late), or by
 *  tp_runtime_free() for a token that was never completed. Either may be NULL. */
typedef struct tp_deferral {
  size_t struct_size;
  void (*cancel)(void *ctx);
  void (*destroy)(void *ctx);
  void *ctx;
} tp_deferral;

/** Makes the attempt deferred: it is answered later, by tp_token_complete(). Sets *ret_token, and returns the number
 *  that the handler's function must return. Contributions that were emitted before belong to the answer.
 *  On failure (no slot, the cap on open tokens, called twice) ret_token->bits is 0, TP_ANSWER_FAILED is returned, and
 *  neither cancel nor destroy will be called. At the cap the reason names the subscription or tool with the most open
 *  tokens. Threads: that of the call. */
TP_API tp_answer tp_call_defer(tp_call *call, const tp_deferral *deferral, tp_token *ret_token);

/** Completes a deferred attempt. Everything in outcome is copied, and with TP_OK tools are taken (tool.h).
 *  @return TP_OK; TP_ERR_STALE when the token was completed, timed out or cancelled before, or its runtime is gone:
 *          nothing was touched; TP_ERR_USAGE for a kind that is no answer (0, DEFERRED, unknown), for a why that is
 *          not one of the listed reasons or comes with another kind than FAILED, for contributions or replacements that
 *          are NULL, for a reserved_ that is not zero, and for the token of a tool, model or history, which have
 *          functions of their own; TP_ERR_VERSION for a wrong struct_size. After these two the token is still open.
 *          A contribution or replacement that is refused fails the attempt, and TP_OK is returned.
 *  Threads: any, at any time, also after tp_runtime_free().  Blocks: no. */
TP_API tp_status tp_token_complete(tp_token token, const tp_outcome *outcome, tp_fault *fault);

/** Abandons a token that will never be completed, of a handler, a tool, a model or the append of a history. Its
 *  deferral is destroyed, and it no longer counts among the open tokens (tp_runtime_options.deferred_max). Where the
 *  turn still waits for the token, the attempt fails at once with the reason "the host abandoned its token"; the append
 *  of a history counts as not done. Completing the token afterwards gives TP_ERR_STALE. Work that was taken from an
 *  inbox must not be read after this call.
 *  @return TP_OK; TP_ERR_STALE when the token was completed or abandoned before, was freed with its turn (model.h), or
 *          its runtime is gone.
 *  Threads: any, at any time, also after tp_runtime_free().  Blocks: no.  From a handler or callback: yes. */
TP_API tp_status tp_token_abandon(tp_token token, tp_fault *fault);

/** Whether completing the token would still have an effect: false once it was completed, timed out or cancelled. For
 *  threads that want to stop early. The result may be out of date when it is read.
 *  Threads: any, at any time, also after tp_runtime_free(). */
TP_API bool tp_token_open(tp_token token);

/* ---- registering ---------------------------------------------------------------------------------------------- */

/** A queue from which a host takes the calls of its handlers itself (inbox.h). */
typedef struct tp_inbox tp_inbox;

/** Given in place of an inbox: the work goes to the inbox of the session whose turn it is (tp_session_options.inbox).
 *  So each event loop of a process handles the work of its own sessions. A hook, handler, tool, model, and a listener
 *  of a session may name it; functions of inbox.h refuse it. inbox.h describes what happens in turns without such an
 *  inbox. A binding passes the address 1. */
#define TP_INBOX_OF_SESSION ((tp_inbox *)1)

/** Where the function of a handler, tool or model is called. */
typedef enum tp_placement {
  TP_PLACEMENT_DEFAULT = 0, /* THREAD */
  TP_PLACEMENT_THREAD = 1,  /* for functions that may block: called on a handler thread */
  /* For functions that return within about 100 µs and wait for nothing. Called on the thread that owns the turn: an
   * engine worker, the caller of a synchronous run, or a handler thread that goes on with the turn after its handler
   * (not with no_engine_workers). Such a call costs some ns. A call with placement THREAD costs some µs, and the first
   * one of a turn also the wake-up of a thread. Ready inline handlers are called in plan order. */
  TP_PLACEMENT_INLINE = 2,
  /* For functions that compute, wait for nothing, and are worth another core. Called on the turn's owner or on any idle
   * engine worker, several of one phase at once. For handlers only: a tool or model with it is refused. */
  TP_PLACEMENT_PARALLEL = 3,
  TP_PLACEMENT_FORCE_32 = 0x7fffffff
} tp_placement;

/** "thread" (for DEFAULT, too), "inline", "parallel"; "" for any other number. Static text. Threads: any. */
TP_API const char *tp_placement_name(tp_placement placement);

/** What the code of a handler is: for inspection, and for hosts that decide by it; it grants nothing. */
typedef enum tp_handler_kind {
  TP_HANDLER_DEFAULT = 0, /* NATIVE */
  TP_HANDLER_NATIVE = 1,  /* compiled code in the host's process */
  TP_HANDLER_SCRIPT = 2,  /* a program that is started for each call, or code of an interpreter */
  TP_HANDLER_WORKER = 3,  /* a process that stays and answers many calls */
  TP_HANDLER_BUILTIN = 4, /* a part of the host itself; only an owner of trust builtin may register it */
  TP_HANDLER_FORCE_32 = 0x7fffffff
} tp_handler_kind;

/** A handler: code with an id. */
typedef struct tp_handler {
  size_t struct_size;
  /** 1–128 bytes, no white space or control. */
  const char *id;
  /** One line for people; may be NULL. */
  const char *summary;
  /** Exactly one of run and inbox. */
  tp_handler_fn run;
  /** Of this runtime, or TP_INBOX_OF_SESSION: its calls wait there until a thread of the host takes them. It uses no
   *  handler thread, so that max_concurrent must be 0 in its subscriptions: the inbox's capacity is the bound. Kept
   *  until the handler is destroyed. */
  tp_inbox *inbox;
  void *ctx;
  /** Called exactly once, without a lock, after the last attempt has returned; may be NULL. */
  void (*destroy)(void *ctx);
  /** The phases it supports. */
  const tp_phase_id *phases;
  size_t phase_count;
  /** TP_CAPABILITY_*; 0: all that a phase allows, in each of its phases. */
  tp_capability capabilities;
  /** Stored with jobs; 0 means 1. */
  uint32_t contract_version;
  /** Where run is called; 0: TP_PLACEMENT_THREAD. */
  tp_placement placement;
  /** Set when a run may be repeated. */
  bool idempotent;
  /** Zero. */
  uint8_t reserved_[3];
  /** Where it was declared, for people: a path, UTF-8; copied. NULL: not known. */
  const char *origin_file;
  /** Its line, from 1; 0 when it is not known, and where origin_file is NULL. */
  uint32_t origin_line;
  /** 0: TP_HANDLER_NATIVE. */
  tp_handler_kind kind;
} tp_handler;

/** Whether and how long an entry waits for a handler. */
typedef enum tp_execution {
  TP_EXECUTION_DEFAULT = 0,         /* Blocking */
  TP_EXECUTION_BLOCKING = 1,        /* the entry waits for it */
  TP_EXECUTION_DEADLINE = 2,        /* the entry waits at most limit_ms, from when the handler could begin */
  TP_EXECUTION_FIRE_AND_RECORD = 3, /* detached: started at once and never waited for; its end is recorded */
  TP_EXECUTION_BACKGROUND = 4,      /* detached: stored as a job, which survives the process */
  TP_EXECUTION_FORCE_32 = 0x7fffffff
} tp_execution;

/** What an entry does with a detached run for which there is no space: the store has as many open jobs as it takes
 *  (jobs_max), or too many calls wait for a handler thread (tp_runtime_options.handler_queue_max). */
typedef enum tp_backlog {
  TP_BACKLOG_DEFAULT = 0, /* WAIT for Background, REFUSE for FireAndRecord */
  TP_BACKLOG_WAIT = 1,   /* Background only: the entry, and so its turn, waits for space, the oldest entry first, for at
                             most tp_runtime_options.backlog_wait_ms; then as REFUSE. No thread waits meanwhile. Nested
                             turns do not wait: a tool or a job that runs one holds a thread */
  TP_BACKLOG_REFUSE = 2, /* the run has failed (TP_REASON_SHED), and its failure policy follows */
  TP_BACKLOG_SHED = 3,   /* the run is skipped (TP_REASON_BACKLOG), which fails nothing and leaves a diagnostic */
  TP_BACKLOG_FORCE_32 = 0x7fffffff
} tp_backlog;

/** What follows when a handler does not answer. */
typedef enum tp_failure {
  TP_FAILURE_DEFAULT = 0,     /* the phase's */
  TP_FAILURE_BEST_EFFORT = 1, /* the failure becomes a diagnostic; in a chain with verdicts the handler abstains */
  TP_FAILURE_FALLBACK = 2,    /* the subscription's fallback contributions or verdict are used */
  TP_FAILURE_REQUIRED = 3,    /* the entry fails; in a chain with verdicts it is denied */
  TP_FAILURE_FORCE_32 = 0x7fffffff
} tp_failure;

/** The failure policy in force for this call, never TP_FAILURE_DEFAULT: the subscription's own, else
 *  tp_runtime_options.hook_failure where it applies, else the phase's. For a handler whose answer depends on it, such
 *  as a declared hook that blocks in a phase without verdicts.
 *  Threads: as every function that takes a call. */
TP_API tp_failure tp_call_failure(const tp_call *call);

/** The pause before an attempt is repeated; see tp_subscription.backoff_ms. */
typedef enum tp_backoff {
  TP_BACKOFF_NONE = 0,        /* none */
  TP_BACKOFF_FIXED = 1,       /* the same each time */
  TP_BACKOFF_EXPONENTIAL = 2, /* twice as long each time */
  TP_BACKOFF_FORCE_32 = 0x7fffffff
} tp_backoff;

/** Which readers may see the rows and events of a subscription. A reader asks for a lowest visibility, and sees what
 *  has this one or a higher one: the larger number is for more readers. */
typedef enum tp_visibility {
  TP_VISIBILITY_INTERNAL = 0,
  TP_VISIBILITY_DEBUG = 1,
  TP_VISIBILITY_USER_AUDIT = 2,
  TP_VISIBILITY_USER_VISIBLE = 3,
  TP_VISIBILITY_FORCE_32 = 0x7fffffff
} tp_visibility;

/** Whether a subscription runs after the other sequential subscriptions that were registered before it. */
typedef enum tp_sequential {
  TP_SEQUENTIAL_DEFAULT = 0, /* on for an alias that says so; off for others */
  TP_SEQUENTIAL_ON = 1,
  TP_SEQUENTIAL_OFF = 2,
  TP_SEQUENTIAL_FORCE_32 = 0x7fffffff
} tp_sequential;

/** An edge to a subscription of the same phase. It travels by pointer, in lists of pointers. */
typedef struct tp_edge {
  size_t struct_size;
  const char *target;
  bool optional;        /* a missing or disabled target is ignored */
  uint8_t reserved_[7]; /* must be zero */
} tp_edge;

/** What a match function sees: the payload that the entry began with. */
typedef struct tp_match_view tp_match_view;
/** A field of the payload, as tp_call_text() and tp_call_int(). Threads: that of the match. */
TP_API tp_text tp_match_text(const tp_match_view *view, tp_field_id field);
TP_API int64_t tp_match_int(const tp_match_view *view, tp_field_id field);
/** One of TP_ID_*, as tp_call_id(). Threads: that of the match. */
TP_API tp_text tp_match_id(const tp_match_view *view, tp_id_kind id);
/** As tp_call_data(). Threads: that of the match. */
TP_API void *tp_match_data(const tp_match_view *view, tp_id_kind id);
/** As tp_call_environment(). Threads: that of the match. */
TP_API tp_text tp_match_environment(const tp_match_view *view);
/** As tp_call_caller(), and as tp_call_mode(). Threads: that of the match. */
TP_API tp_caller tp_match_caller(const tp_match_view *view);
TP_API tp_text tp_match_mode(const tp_match_view *view);

/** What a match function returns: one of TP_MATCH_*. It is an integer, as tp_answer is. */
typedef int32_t tp_match_answer;
enum tp_match_answers {
  TP_MATCH_NONE = 0, /* no answer: the match fails, as with any number that is not listed here. The subscription's
                        failure policy applies, as if its handler had failed (malformed) */
  TP_MATCH_YES = 1,  /* the subscription runs */
  TP_MATCH_NO = 2    /* it is skipped */
};

/** Limits of tp_match. */
enum tp_match_limits { TP_PATTERNS_MAX = 64, TP_PATTERN_BYTES_MAX = 255 };

/** Whether a pattern fits a text, as those of tp_match do. A pattern above TP_PATTERN_BYTES_MAX fits none.
 *  Threads: any. */
TP_API bool tp_pattern_fits(tp_text pattern, tp_text text) TP_MUST_USE;

/** The conditions under which a subscription runs in an entry. Every condition that is set must hold. They are
 *  evaluated once per entry, on the thread that owns the turn, from the payload that the entry began with.
 *
 *  A list of patterns holds when one of them fits: `?` is one character except `/`, `*` any number of such characters,
 *  `**` any number of any characters, and `**` with a slash after it any number of whole folders. At most
 *  TP_PATTERNS_MAX patterns of 1 to TP_PATTERN_BYTES_MAX bytes of UTF-8. A condition on a field that the phase does not
 *  carry is refused at commit (TP_ERR_MATCH_KEY). */
typedef struct tp_match {
  size_t struct_size;
  /** Patterns of the tool's name, which is in the field tool or ability_ref. */
  const char *const *tools;
  size_t tool_count;
  /** Patterns of the id of the turn's agent, which is empty without one. */
  const char *const *agents;
  size_t agent_count;
  /** Patterns of tp_turn_request.mode, which may be empty. */
  const char *const *modes;
  size_t mode_count;
  /** Patterns of paths: one of the changed_files fits one of them. */
  const char *const *changed_paths;
  size_t changed_path_count;
  /** How the field text begins, byte by byte. NULL: any. */
  const char *text_prefix;
  /** The least duration_ms. 0: any. */
  int64_t duration_ms_min;
  /** A pure function, asked when all conditions hold (TP_MATCH_*); inline. NULL: the conditions decide. */
  tp_match_answer (*matches)(void *ctx, const tp_match_view *view);
  /** Is called exactly once; may be NULL. */
  void (*destroy)(void *ctx);
  void *ctx;
  /** For people: "tool is shell_*". Required with matches. NULL: made of the conditions. */
  const char *description;
  /** The payload fields that matches reads. */
  const tp_field_id *fields;
  size_t field_count;
} tp_match;

/** Binds a handler to a phase. Zero always means default. All strings are copied. */
typedef struct tp_subscription {
  size_t struct_size;
  const char *id;
  /** A handler's id. */
  const char *handler;
  /** The phase; or 0, with phase_name. */
  tp_phase_id phase;
  /** A name or an alias; an alias has the guarantees of the system that it comes from. */
  const char *phase_name;
  bool disabled;
  /** Lower runs earlier among those that no edge orders. Among equal ones the first is, in a chain, the one that was
   *  registered first, and in any other phase the one with the smaller id, by bytes. */
  int32_t priority;
  tp_execution execution;
  /** The limit, in ms: of each attempt (Blocking), from when the handler could begin (Deadline), or of the run
   *  (detached). */
  uint32_t limit_ms;
  tp_failure failure;
  /** With FALLBACK in a chain with verdicts: ALLOW, DENY or ASK; 0 or NONE: no verdict. */
  tp_verdict fallback_verdict;
  /** With FALLBACK: fallback_count pointers. */
  const tp_contribution *const *fallback;
  size_t fallback_count;
  /** How many attempts in all; 0 means 1. */
  uint32_t attempts;
  tp_backoff backoff;
  /** The first pause between attempts, in ms; capped at 60,000. */
  uint32_t backoff_ms;
  /** Permits: how many of its runs may be open at once. Deferred runs count, but not runs that have submitted a nested
   *  turn (turn.h). For handlers of placement thread 0 means 16, but at most a quarter of the handler threads, and then
   *  deferred runs do not count. For other handlers 0 means no bound. */
  uint32_t max_concurrent;
  tp_sequential sequential;
  tp_visibility visibility;
  /** Runs after these: after_count pointers. */
  const tp_edge *const *after;
  /** Runs before these. */
  const tp_edge *const *before;
  /** Runs after these, and only if they succeeded. */
  const tp_edge *const *needs;
  size_t after_count, before_count, needs_count;
  /** NULL: always. The struct is copied, and the match taken, when the add succeeds: destroy is called also when the
   *  edit is discarded. */
  const tp_match *match;
  /** Any text of the owner, shown by inspection. */
  const char *metadata;
  /** Of a detached run: what the entry does when there is no space for the run. */
  tp_backlog backlog;
  /** Of a run that is waited for. In a phase for which the host has set no budget, an entry has at least the time of
   *  the longest path through the subscriptions that set this and the required ones, limits and attempts included. A
   *  budget of tp_edit_set_budget() counts all the same. */
  bool extends_budget;
  /** Must be zero. */
  uint8_t reserved_[3];
} tp_subscription;

/* ---- names ------------------------------------------------------------------------------------------------------ */

/** The constant's word in small letters: "fire_and_record", "best_effort". Static text; "unknown" for any other number.
 *  Threads: any. */
TP_API const char *tp_caller_name(tp_caller caller);
TP_API const char *tp_severity_name(tp_severity severity);
TP_API const char *tp_execution_name(tp_execution execution);
TP_API const char *tp_failure_name(tp_failure failure);
TP_API const char *tp_backoff_name(tp_backoff backoff);
TP_API const char *tp_backlog_name(tp_backlog backlog);
TP_API const char *tp_visibility_name(tp_visibility visibility);
/** "native" (for DEFAULT, too), "script", … Threads: any. */
TP_API const char *tp_handler_kind_name(tp_handler_kind kind);

TP_END_DECLS
#endif
