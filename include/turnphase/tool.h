/* SPDX-License-Identifier: Apache-2.0
 *
 * tool.h: for authors of tools: what a tool is, how it reads its arguments and answers.
 * Threads: functions that take a tp_tool_run are called by the thread that runs the tool, while it runs (for a run from
 * an inbox by one thread at a time, until its token is completed); all other functions by any thread. A tool's function
 * is called on any thread of the runtime, or on that of the caller of a synchronous function. */
#ifndef TURNPHASE_TOOL_H
#define TURNPHASE_TOOL_H

#include "turnphase/handler.h"
#include "turnphase/part.h"
#include "turnphase/value.h"

TP_BEGIN_DECLS

/** One run of a tool, valid until its function returns, or, taken from an inbox, until its token is completed. */
typedef struct tp_tool_run tp_tool_run;

/** A tool's function: returns what tp_tool_ok(), tp_tool_error(), tp_tool_answer_with() or tp_tool_defer() returned.
 *  Any other number, 0 and the verdicts among them, is a handler_error.
 *  Threads: any of the runtime, or that of a caller of a synchronous function; several at once. */
typedef tp_answer (*tp_tool_fn)(void *ctx, tp_tool_run *run);

/** How a call accesses the resource that a key names. */
typedef enum tp_tool_access {
  TP_TOOL_READ = 1,  /* shared with other readers */
  TP_TOOL_WRITE = 2, /* exclusive */
  TP_TOOL_ACCESS_FORCE_32 = 0x7fffffff
} tp_tool_access;

/** The keys of one call, which a tool's keys function adds; valid until that returns. */
typedef struct tp_tool_keys tp_tool_keys;

/** Computes the keys of one call from its arguments as they will be run: a map that the schema accepted. Called at most
 *  once for a call, when no gate has denied it, on the thread that owns the turn: it must return within microseconds
 *  and must not block. It may be called for several calls of different turns at once.
 *  @return TP_OK; anything else ends the call as handler_error, and its function is not called.
 *  Threads: the one that owns the turn. */
typedef tp_status (*tp_tool_keys_fn)(void *ctx, tp_text arguments, tp_tool_keys *keys);

/** Adds a key, which is copied. A key is a path of names that `/` separates: 1 to 1,024 bytes of UTF-8, with or without
 *  a `/` in front, without empty names, `.` and `..`, and not ending with `/`; the key `/` is an ancestor of all keys
 *  that begin with `/`. Two keys conflict when they are equal, or one is an ancestor of the other (`a/b` of `a/b/c`,
 *  not of `a/bc`), and one of the two calls writes.
 *  @return TP_OK; TP_ERR_USAGE for another access or another form; TP_ERR_FULL above 64 keys of a call;
 *          TP_ERR_NO_MEMORY. After such an error the call ends as handler_error, whatever the keys function returns;
 *          after TP_ERR_NO_MEMORY it is shed.
 *  Threads: the one that runs the keys function, while it runs. */
TP_API tp_status tp_tool_keys_add(tp_tool_keys *keys, tp_tool_access access, tp_text key, tp_fault *fault);

/** A tool. It is passed by pointer: the function that takes it copies the struct, its strings and its schema. What run
 *  and ctx point to must stay valid until destroy is called or, where destroy is NULL, while the handler that
 *  contributed the tool is registered.
 *
 *  A tool is taken together with its tool bundle, on success only: by tp_call_emit() and its short form, and by
 *  tp_edit_add_subscription() (a bundle among the fallbacks), when they return TP_OK; and by tp_token_complete() when
 *  it returns TP_OK, also when the answer is refused later (except a tool whose struct cannot be read). destroy is
 *  called once each time that the tool was taken, after its last use: by the result of the phase, the tools of the
 *  turn, the requests to a model that have the tool, and every run of it, abandoned runs and open tokens of deferred
 *  runs included. destroy is also called for a tool that a merge leaves out, that the next materialization replaces, or
 *  whose attempt failed after the emit. A struct that the library passes out (in a request or a merged bundle) is a
 *  copy whose destroy is NULL: do not emit it. */
typedef struct tp_tool {
  size_t struct_size;
  /** 1–128 bytes, no white space or control. */
  const char *name;
  const char *description;
  /** value: a JSON schema whose root is of type object; empty: any map. The model reads it as it is; calls are checked
   *  by the keywords that docs/contributions.md lists, and the log names the others once (level info). */
  tp_text schema;
  /** Exactly one of run and inbox. */
  tp_tool_fn run;
  void *ctx;
  /** As tp_handler.placement; parallel is refused, and with an inbox inline, too. */
  tp_placement placement;
  /** Set when the function may run twice for one call, because a turn is submitted again after its process died. When
   *  false, and durability is SYNC, the start and the result of a call are committed: a turn that is submitted again
   *  gets the stored result, or TP_TOOL_INTERRUPTED, and the function is not called. */
  bool idempotent;
  /** Set when the name is the key of a low-level operation, such as db.write.user_row, and not that of an ability.
   *  tool.create reads it as TP_FIELD_ABILITY_KIND. */
  bool is_operation;
  /** How many of its runs may be open at once. Deferred runs count, but not runs that have submitted a nested turn
   *  (turn.h). 0 means 16, and then deferred runs do not count; with an inbox 0 means no limit. */
  uint32_t max_concurrent;
  /** The limit of one call, from when it got a thread or came into the inbox; 0 means 120,000. */
  uint32_t limit_ms;
  /** The most bytes of a result; 0 means 100,000: longer results keep head and tail. */
  uint32_t result_bytes_max;
  /** The most bytes of the value and the parts of an answer together; 0 means 4,194,304. What does not fit is left out:
   *  a text in place of a part names the part, a diagnostic and a line of the log name the tool, and tool.post gets the
   *  status partial. At most 256 parts: one text stands for all further ones. */
  uint32_t parts_bytes_max;
  /** An inbox of this runtime (inbox.h): the tool's calls wait there until a thread of the host takes them, at most
   *  max_concurrent at once, taken ones included; further calls wait until these have ended. When the inbox was freed,
   *  a call is shed at once. Kept as long as the tool. */
  tp_inbox *inbox;
  /** Called exactly once each time the tool is taken; without any lock, from any thread; must not block. May be
   *  NULL. */
  void (*destroy)(void *ctx);
  /** Fixed keys of every call, of the form of tp_tool_keys_add(); NULL: none. Calls of one response whose keys conflict
   *  run in call order, the later one when tool.post of the earlier one has ended; all other calls run at once. A call
   *  waits only for calls with lower indexes. When the earlier one was abandoned (timed_out, cancelled) and its
   *  function may still run, the later one is shed. */
  const char *read_key, *write_key;
  /** Computes further keys, in addition to the fixed ones; NULL: none. Called with ctx. A later call that has keys
   *  waits until those of an earlier one are known. */
  tp_tool_keys_fn keys;
  /** The schema as JSON text, in place of schema: "{\"type\": \"object\", …}"; NULL: schema has it. A struct that the
   *  library passes out has it in schema. */
  const char *schema_json;
} tp_tool;

/** The arguments: a value, a map that the schema accepted. Borrowed as long as the run is valid.
 *  Threads: that of the run. */
TP_API tp_text tp_tool_run_arguments(const tp_tool_run *run);
/** An argument by its name, of one kind; as tp_value_get_text() and its like, whose fault a tool can answer with:
 *  tp_tool_error(run, tp_text_of(fault.message)). An argument that the schema requires is there, and of its type; for
 *  an argument with a default: tp_value_int(tp_value_get(tp_tool_run_arguments(run), name), fallback). Threads: that of
 *  the run. */
TP_API tp_status tp_tool_run_argument_text(const tp_tool_run *run, const char *name, tp_text *ret_text,
                                           tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_tool_run_argument_int(const tp_tool_run *run, const char *name, int64_t *ret_int,
                                          tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_tool_run_argument_double(const tp_tool_run *run, const char *name, double *ret_double,
                                             tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_tool_run_argument_bool(const tp_tool_run *run, const char *name, bool *ret_bool,
                                           tp_fault *fault) TP_MUST_USE;
/** A text argument as a NUL-terminated copy, for functions of C: "" where it is missing, of another kind, or has a NUL
 *  inside, which would hide what follows it. Without memory it is "", too, and an answer of tp_tool_ok() or
 *  tp_tool_printf() becomes a handler_error; a run that answers through its token must use tp_tool_run_argument_text()
 *  instead. Borrowed as long as the run is valid. Threads: that of the run. */
TP_API const char *tp_tool_run_string(tp_tool_run *run, const char *name);
/** The name of the tool that is run, so that one function can serve several. Borrowed as long as the run is valid.
 *  Threads: that of the run. */
TP_API tp_text tp_tool_run_name(const tp_tool_run *run);
/** As tp_call_mode(), tp_call_caller(), and tp_call_agent_config(). Borrowed as long as the run is valid.
 *  Threads: that of the run. */
TP_API tp_text tp_tool_run_mode(const tp_tool_run *run);
TP_API tp_caller tp_tool_run_caller(const tp_tool_run *run);
TP_API tp_text tp_tool_run_agent_config(const tp_tool_run *run);
/** As tp_call_redact(). Threads: that of the run. */
TP_API tp_text tp_tool_run_redact(const tp_tool_run *run, tp_redact_place place, tp_text text, char *buffer,
                                  size_t size);
/** The id of a kind (TP_ID_*). Borrowed as long as the run is valid. Threads: that of the run. */
TP_API tp_text tp_tool_run_id(const tp_tool_run *run, tp_id_kind id);
/** The host's own pointer, as tp_call_data(). Threads: that of the run. */
TP_API void *tp_tool_run_data(const tp_tool_run *run, tp_id_kind id);
/** The model's id of this call. Threads: that of the run. */
TP_API tp_text tp_tool_run_call_id(const tp_tool_run *run);
/** As tp_call_time_left_ms(), and as tp_call_cancelled(). Threads: that of the run. */
TP_API int64_t tp_tool_run_time_left_ms(const tp_tool_run *run);
TP_API bool tp_tool_run_cancelled(const tp_tool_run *run);

/** Answers; text is copied, with U+FFFD in place of each byte that is not UTF-8 (tp_utf8_replace()), and then the
 *  diagnostic `tool.not_utf8` reports their number. error means that the tool could not do what was asked: result kind
 *  handler_error.
 *  Threads: that of the run. */
TP_API tp_answer tp_tool_ok(tp_tool_run *run, tp_text text);
TP_API tp_answer tp_tool_error(tp_tool_run *run, tp_text text);
/** tp_tool_ok() with a text that printf() would print: tp_tool_printf(run, "%s: %d mm", city, rain).
 *  Threads: that of the run. */
TP_API tp_answer tp_tool_printf(tp_tool_run *run, const char *format, ...) TP_PRINTF(2, 3);
/** A complete answer of a tool. */
typedef struct tp_tool_answer {
  size_t struct_size;
  /** The tool could not do what was asked: result kind handler_error. */
  bool is_error;
  /** Must be zero. */
  uint8_t reserved_[7];
  /** What the model reads. Empty beside a value: the value as JSON. */
  tp_text text;
  /** Value: the structured result, for hooks, listeners, the host and the history; or empty. Models do not read it. */
  tp_text value;
  /** Images, audio, files, links and further texts (part.h): part_count pointers, in order. The model gets them after
   *  the text, as far as its provider can carry them; in place of other parts it reads a text that names them. */
  const tp_part *const *parts;
  size_t part_count;
} tp_tool_answer;

/** Answers with text, value and parts; everything is copied.
 *  @param answer  an answer that cannot be used counts as the answer of a tool that failed, with the fault's message as
 *                 its text: a value that is not well-formed, a part that tp_part_write() refuses, a text that is not
 *                 UTF-8.
 *  @param fault   what is wrong with it, by the member; may be NULL.
 *  Threads: that of the run. */
TP_API tp_answer tp_tool_answer_with(tp_tool_run *run, const tp_tool_answer *answer, tp_fault *fault);
/** Answers later; as tp_call_defer(). A run that was taken from an inbox is deferred already: then ret_token->bits is 0
 *  and TP_ANSWER_FAILED is returned, and the run is unchanged; tp_tool_ok(), tp_tool_error() and tp_tool_answer_with()
 *  have no effect there. Threads: that of the run. */
TP_API tp_answer tp_tool_defer(tp_tool_run *run, const tp_deferral *deferral, tp_token *ret_token);
/** Completes a deferred run, or one that was taken from an inbox; text is copied as by tp_tool_ok(). Returns as
 *  tp_token_complete().
 *  Threads: any, at any time. */
TP_API tp_status tp_tool_complete(tp_token token, bool is_error, tp_text text, tp_fault *fault);
/** As tp_tool_complete(), with text, value and parts; everything is copied.
 *  @return as tp_token_complete(); TP_ERR_USAGE, TP_ERR_MALFORMED, TP_ERR_UTF8 and TP_ERR_VERSION for an answer that
 *          cannot be used, with the member in the fault: then nothing is completed.
 *  Threads: any, at any time. */
TP_API tp_status tp_tool_complete_with(tp_token token, const tp_tool_answer *answer, tp_fault *fault);

/** The progress of a run. */
typedef struct tp_tool_progress {
  size_t struct_size;
  /** As the tool counts: finite, not negative; total is 0 where it is not known. */
  double done, total;
  /** What it does now, for people: at most 1,024 bytes of UTF-8; may be empty. */
  tp_text message;
} tp_tool_progress;

/** Reports how far a run is, as an event TP_EVENT_TOOL_PROGRESS; everything is copied. It changes no limit.
 *  @return TP_OK, also without a listener; TP_ERR_USAGE for an inline tool that has not deferred, and for wrong
 *          numbers; TP_ERR_TOO_LARGE, TP_ERR_UTF8, TP_ERR_VERSION; TP_ERR_FULL: 64 reports of this call wait for the
 *          turn's owner; TP_ERR_STALE: its turn has ended; TP_ERR_NO_MEMORY. A report that comes after the call was
 *          given up has no event.
 *  Threads: that of the run.  Blocks: no. */
TP_API tp_status tp_tool_run_progress(const tp_tool_run *run, const tp_tool_progress *progress, tp_fault *fault);
/** As tp_tool_run_progress(), for a run that has deferred, or that was taken from an inbox.
 *  @return also TP_ERR_STALE when the token was completed, and TP_ERR_USAGE for a token of something else.
 *  Threads: any, at any time.  Blocks: no. */
TP_API tp_status tp_tool_report(tp_token token, const tp_tool_progress *progress, tp_fault *fault);

/** A tool call of a model's response. It is passed by pointer, in lists of pointers. */
typedef struct tp_tool_call {
  size_t struct_size;
  tp_text id; /* the provider's id; empty: numbered by index */
  tp_text name;
  tp_text arguments;  /* a value; or raw text when malformed; empty: none, the same as an empty map */
  bool malformed;     /* the provider could not decode the arguments: they are raw text */
  uint32_t reserved_; /* must be zero */
} tp_tool_call;

/** How a call ended. Values above the known ones may come from a newer library. */
typedef enum tp_tool_result_kind {
  TP_TOOL_NONE = 0, /* no result: the call was not run */
  TP_TOOL_OK = 1,
  TP_TOOL_HANDLER_ERROR = 2,
  TP_TOOL_INVALID_ARGUMENTS = 3,
  TP_TOOL_UNKNOWN_TOOL = 4,
  TP_TOOL_OUT_OF_SCOPE = 5, /* out_of_scope: the agent may not use the tool (tp_agent_config.extra) */
  TP_TOOL_DENIED = 6,
  TP_TOOL_TIMED_OUT = 7,
  TP_TOOL_CANCELLED = 8,
  TP_TOOL_CRASHED = 9,
  TP_TOOL_SHED = 10,
  TP_TOOL_INTERRUPTED = 11,
  TP_TOOL_FORCE_32 = 0x7fffffff
} tp_tool_result_kind;

/** "ok", "handler_error", … Threads: any. */
TP_API const char *tp_tool_result_name(tp_tool_result_kind kind);

/** The result of a call. struct_size is set by the code that makes the struct; the library does for the structs that it
 *  passes out. */
typedef struct tp_tool_result {
  size_t struct_size;
  tp_tool_result_kind kind;
  /** Set when the tool's function was called. */
  bool started;
  /** Its rank, from 0, among the calls of its response by the time of their ends. */
  uint32_t completion_order;
  /** Zero. */
  uint32_t reserved_;
  tp_text call_id;
  tp_text name;
  /** What the model reads. */
  tp_text text;
  /** How long the run lasted; 0 when it did not start. */
  int64_t duration_ns;
  /** How long it waited for calls of lower index with conflicting keys. */
  int64_t waited_ns;
  /** The key of the call that it waited for longest; empty: it did not wait, or the keys of that call were not
   *  known yet. */
  tp_text waited_key;
  /** The structured result; or empty. Value. */
  tp_text value;
  /** Images, audio, files, links and further texts, in order; or empty. Value: an array of parts, each for
   *  tp_part_read() (part.h). */
  tp_text parts;
} tp_tool_result;

TP_END_DECLS
#endif
