/* SPDX-License-Identifier: Apache-2.0
 *
 * drive: a turn driven through every phase (steps.h): its queueing, its limits and its life. Its memory is freed with
 * the last reference of its turn, because calls that were given up may still read the request. */
#ifndef TP__DRIVE_H
#define TP__DRIVE_H

#include "phases/session/host_call.h"
#include "phases/drive/model_call.h"
#include "phases/merge/schema.h"
#include "phases/turn/submission.h"
#include "phases/tools/toolset.h"

typedef enum tp__step {
  TP__STEP_NONE = 0,
#define STEP(id, ...) TP__STEP_##id,
#include "phases/drive/steps.def"
#undef STEP
  TP__STEPS
} tp__step;

enum { TP__DRIVE_FIELDS_MAX = 12 };

typedef struct tp__repeat tp__repeat;

/** added.h: a waiting message of the user. Its texts follow it, in its memory. */
typedef struct tp__added {
  struct tp__added *next;
  size_t size;
  int64_t added_ns;
  tp_text text, files;
} tp__added;

/** added.h. Zero-filled: none waits, and the turn accepts messages. */
typedef struct tp__added_list {
  /* atomic: how many wait; changes under the session's lock */
  tp__a32 count;
  /* under the session's lock */
  tp__added *first, *last;
  bool closed;
  /* owner only */
  tp__added *current; /* that turn.intake sees; NULL: none */
  tp_text signals;    /* rendered signals of turn.intake, for the next request; in the turn's arena */
} tp__added_list;

/** structured.h. Zero-filled: the turn has no answer schema. */
typedef struct tp__structured {
  const tp__schema *schema; /* NULL: none */
  tp_text source;           /* the value of the schema, for the model's request */
  tp_text source_json;
  /* the system text without and with the schema; the second is made once for each first */
  tp_text plain_system, system;
  tp_text json, value; /* of the last answer that fitted */
  uint32_t misses;     /* answers in a row that did not */
} tp__structured;

struct tp__drive {
  tp_turn *turn;
  tp_session *session; /* referenced */
  tp__link link;       /* under the session's lock: in its queue */
  bool waits;          /* under the session's lock: the turn is in the queue */
  tp__message start_message;
  tp__admission_place admission; /* its place in the admission, when the session would begin it */
  tp__message queued_message;    /* delivered while the turn waits in the queue, where its limit counts, too */
  tp__timer_entry limit_timer;   /* of a turn that waits */
  const tp__attempt *call;       /* for a nested turn: the call, when its thread waits for the turn; else NULL */
  tp__timer_entry call_timer;    /* when to look whether that was cancelled */
  tp__timer_entry busy_timer;    /* when to ask again for a session that is busy */
  int64_t busy_until_ns;         /* until when it asks; 0: it has not waited for the session */
  uint64_t retry_ms;             /* the rest of the lease of the process that has the session; 0: none has */
  int64_t left_until_ns;         /* the same for a call to the history that no turn waits for any more */
  int64_t busy_pause_ns;         /* between two looks */
  bool has_appended;             /* or tried to */
  bool begun;
  bool shows_running;                 /* running.h: the store is told of the turn before it has ended */
  bool was_running;                   /* and was given a record of it */
  int64_t shows_again_ns;             /* not before */
  tp__timer_entry running_timer;      /* listed when something has changed since */
  bool has_own_id;                    /* the host gave the id, so the history may already have the turn */
  bool is_known;                      /* the history has the turn: it ends at once, and leaves no record */
  bool is_answered;                   /* and its result is the stored one */
  bool is_owed;                       /* and its turn.post_turn did not run, because its process died: it runs now */
  uint64_t owed_process, owed_number; /* of the run that the history has */
  int64_t request_hash;               /* known_turn.c: the hash of the request; for a turn with an id from the host */
  tp_turn_request request;      /* limits; the ids are in the turn's identity, model and parameters in the arena */
  tp__past *own_past;           /* referenced: the messages of its request, used instead of the session's; or NULL */
  bool closing;                 /* runs session.end alone */
  bool closes_session;          /* and the session is over then */
  tp_session_end end;           /* the report of session.end; in the arena; its reason is user_text, or NULL */
  void (*on_closed)(void *ctx); /* of a submitted end of a logical phase; may be NULL */
  /* how the end is reported */
  tp_turn_end_fn on_end; /* submitted; may be NULL */
  void *ctx;
  tp_submission *submission; /* submitted; may be NULL */
  bool *done;                /* synchronous: set at the end, on the caller's own thread */
  tp__result *result;        /* synchronous: the caller's; NULL: the caller wants none */
  /* the machine */
  tp__step step, next;
  bool stepping;
  size_t block_size;
  tp__arena arena; /* begins after the drive, in its block */
  tp__phase_run phase;
  uint32_t field_count;       /* of fields */
  const tp__models *models;   /* the session's own, or those of the turn's agent; never change */
  tp__host_call *host_call;   /* under way */
  tp__model_call *model_call; /* under way */
  /* the turn so far */
  tp_turn_outcome outcome;
  tp_status code;
  tp_text reason;
  uint32_t refusing_phase; /* the phase with the subscription that ended the turn (denied, or failed closed); 0: none */
  tp_state refusing_state;
  tp_reason refusing_why;
  tp_text refusing_subscription, bare_reason; /* in the arena */
  int64_t started_ns;
  int64_t waits_since_ns;                         /* for the history or tools */
  int64_t load_ns, model_ns, tools_ns, append_ns; /* how long it has waited for each */
  tp_turn_step *steps;                            /* step_times.c; in the arena */
  uint32_t step_count, step_capacity;
  uint64_t steps_dropped;
  tp_text user_text;
  tp_text system;
  tp_text signals;                 /* rendered signals of turn.intake, for the first request */
  tp_phase_result request_context; /* kept: prompt context of model.pre, only for this request */
  struct tp__made_request *made;   /* the next request, as model.request leaves it; NULL: no handler changed it */
  tp_text asked_name;              /* the name of the model, set by model.request; for this request */
  struct tp__held *held; /* the held answer, until model.response has ended; in the arena; NULL: none is held */
  tp__messages messages; /* of this turn: user, assistant, tool … */
  tp__added_list added;  /* that wait to be among them */
  tp__aptr talk;         /* atomic: the newest tp__talk; NULL: none so far */
  tp__a32 model_index;   /* atomic: index into models of the one that is asked; never goes back */
  tp_text response_text; /* the text of the last response, in the arena */
  tp_text stop_reason, provider_data; /* likewise */
  tp_text finish_word;                /* likewise */
  tp_finish finish;                   /* how the last request finished */
  const tp_tool_call *const *calls;   /* the calls of the last response, in the arena */
  size_t call_count;
  tp_tool_result *results;
  uint32_t iterations, tool_calls, model_attempt;
  int64_t input_tokens, output_tokens, cost_micros;
  int64_t last_input_tokens, last_output_tokens, last_cost_micros;
  bool too_long;             /* the provider called a request of this turn too long */
  bool compacted;            /* compaction was tried for this request */
  size_t kept_from;          /* index of the first of the session's messages that a summary does not replace */
  int64_t tokens_before;     /* of the history that the last compaction replaced */
  tp_text summary;           /* the model's summary of it, in the arena; empty: none */
  bool requested;            /* a request was made, with the signals in it */
  uint32_t tool_event_count; /* results among messages */
  uint32_t stop_denials;     /* of turn.stop, that were followed */
  uint32_t pauses;           /* how often the provider paused and was asked to go on */
  uint32_t repeat_count, repeat_capacity;
  bool cost_unknown; /* that a response had no cost was said */
  tp__structured structured;
  tp__repeat *repeats; /* limits.c: the calls of the turn, each once; in the arena */
  /* not zero at the begin of a turn */
  tp_field fields[TP__DRIVE_FIELDS_MAX]; /* of the next phase; field_count of them are set */
};

/** Makes the drive of a turn of the session.
 *  @param owned  whether the caller remains the turn's owner.
 *  @param nesting  NULL: not a nested turn.
 *  @return TP_ERR_NO_MEMORY and the errors of tp__turn_new(). */
tp_status tp__drive_new(tp_session *session, const tp_turn_request *request, bool owned, tp__turn_kind kind,
                        const tp__nesting *nesting, tp__drive **ret_drive, tp_fault *fault);
/** Owner of a nested turn whose call waits for it: checks from time to time whether the call was cancelled. */
void tp__drive_watch_call(tp__drive *drive);
/** Frees a drive that was never started. Its turn is the caller's (drive->done), or was never begun. */
void tp__drive_abort(tp__drive *drive);
/** Drives the turn on the calling thread, which owns the turn from the beginning. The start comes as a message, at once
 *  or after earlier turns. Returns when the turn has ended, or was not accepted. */
tp_status tp__drive_here(tp__drive *drive, bool last, tp_fault *fault);
/** turn_end.c: reports the end of a turn that never began. */
void tp__drive_end_unbegun(tp__drive *drive);
/** As tp__drive_end_unbegun(), for a drive that waited for its quota while its session would have begun it. The next
 *  turn of the session follows. */
void tp__drive_end_unadmitted(tp__drive *drive);

/* ---- session_queue.c: a turn that waits for earlier turns of its session ---- */

void tp__drive_init_queued(tp__drive *drive);
/** Queues the drive in its session; it starts when no other turn runs. In the queue, its limit or a cancel ends it at
 *  once. If the session refuses the drive, it is aborted.
 *  @param last  the session accepts no further drive.
 *  @return TP_OK; TP_ERR_FULL; TP_ERR_SHUTDOWN when the session closes. */
tp_status tp__drive_enqueue_or_abort(tp__drive *drive, bool last, tp_fault *fault);
/** Owner: ends a turn that has not begun as cancelled. @return false when it has begun. */
bool tp__drive_cancel_queued(tp__drive *drive);
/** The turn has ended: the turn that was admitted in its place begins. */
void tp__drive_release_quota(tp__drive *drive);

/* ---- step_work.c: a turn that waits because another process uses its session, or because a call to its history still
 * runs that no turn waits for ---- */

void tp__drive_init_busy(tp__drive *drive);
/** Owner: a turn that was cancelled stops waiting. */
void tp__drive_cancel_busy(tp__drive *drive);

/* ---- when the turn waited for its history, its model and its tools (step_times.c) ---- */

void tp__drive_note_step(tp__drive *drive, tp_step_kind kind, int64_t started_ns, int64_t ended_ns, tp_status outcome);
/** Notes a request to a model. @param model its name; may be empty. */
void tp__drive_note_request(tp__drive *drive, tp_text model, int64_t started_ns, int64_t ended_ns, tp_status outcome);
/** For a call that has its result. */
void tp__drive_note_call(tp__drive *drive, const tp_tool_result *result, uint32_t place, int64_t started_ns,
                         int64_t settled_ns, uint64_t entry_id);
/** tp_turn_record.step; source is the drive. */
bool tp__drive_show_step(const void *source, size_t index, tp_turn_step *step);

/** response_calls.c: replaces the calls of the response by those of a value that a handler of model.response gave. Each
 *  must be one of the response's calls, in their order. Each call that was dropped or changed leaves an audit row.
 *  @param ret_why  the error, when the value breaks these rules: then nothing was changed.
 *  @return false without memory. */
bool tp__response_take_calls(tp__drive *drive, tp_text value, tp_text *ret_why);

/** The messages before this turn: those of its request, else the session's history. */
static inline tp__past *tp__drive_past(const tp__drive *drive) {
  return drive->own_past ? drive->own_past : drive->session->past;
}

/** The drive of the turn to which a handler's call belongs, or which began its detached run. @return NULL: the turn is
 *  not driven. Any thread that has the call. */
const tp__drive *tp__drive_of_call(const tp_call *call);
/** The model that is asked now. Any thread that has a call of the turn. */
static inline const tp_model *tp__drive_model(const tp__drive *drive) {
  return tp__models_at(drive->models, tp__a32_load_relaxed(&drive->model_index)); /* models never change */
}

/* fallback.c: the choice of a model from the session's list. */
/** Called before a request: goes to the first model whose provider's breaker admits a request, or else to the last
 *  model. */
void tp__drive_choose_model(tp__drive *drive);
/** A request has ended: counts it for the breaker of its provider. */
void tp__drive_note_answer(tp__drive *drive, const tp__model_call *call, tp_status status);
/** Called after a request that failed: whether to ask a model again, the same one or the next.
 *  @param attempts_max  of one model. */
bool tp__drive_ask_again(tp__drive *drive, const tp__model_call *call, tp_status status, uint32_t attempts_max);
/** compaction_step.c: whether the step COMPACT could make this request shorter. */
bool tp__compaction_may(const tp__drive *drive);

/* request.c: the request to the model, from the history, the turn's messages, contexts, signals and reminders. */
/** @param ret_view the messages of the past that the request reads; freed with the call. */
tp_status tp__request_make(tp__drive *drive, tp_model_request *ret_request, tp__past_view *ret_view);

#endif
