/* SPDX-License-Identifier: Apache-2.0
 *
 * drive: a turn driven through every phase (steps.h): its queueing, its limits and its life. Its memory ends with the
 * last reference of its turn, since calls that were given up may still read the request. */
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

/** added.h: a message of the user that waits. Its texts stand after it, in its memory. */
typedef struct tp__added {
  struct tp__added *next;
  size_t size;
  int64_t added_ns;
  tp_text text, files;
} tp__added;

/** added.h. Zero-filled: none waits, and it takes some. */
typedef struct tp__added_list {
  /* atomic: how many wait; changes under the session's lock */
  tp__a32 count;
  /* under the session's lock */
  tp__added *first, *last;
  bool closed;
  /* owner only */
  tp__added *current; /* that turn.intake sees; NULL: none */
  tp_text signals;    /* rendered, of turn.intake; for the next request; in the turn's arena */
} tp__added_list;

/** structured.h. Zero-filled: the turn demands none. */
typedef struct tp__structured {
  const tp__schema *schema; /* NULL: none */
  tp_text source;           /* the schema's value, for the model's request */
  tp_text source_json;
  tp_text plain_system, system; /* the system text without and with the demand; made once for each */
  tp_text json, value;          /* of the last answer that fitted */
  uint32_t misses;              /* answers in a row that did not */
} tp__structured;

struct tp__drive {
  tp_turn *turn;
  tp_session *session; /* referenced */
  tp__link link;       /* under the session's lock: in its queue */
  bool waits;          /* under the session's lock: it is in the queue */
  tp__message start_message;
  tp__admission_place admission; /* where it waits when its session would begin it */
  tp__message queued_message;    /* it waits in the queue: its limit counts there, too */
  tp__timer_entry limit_timer;   /* of a turn that waits */
  const tp__attempt *call;       /* of a nested turn, when the call's thread waits for it; else NULL */
  tp__timer_entry call_timer;    /* when to look whether that was cancelled */
  tp__timer_entry busy_timer;    /* when to ask again for a session that is busy */
  int64_t busy_until_ns;         /* then it asks no more; 0: it has not waited for the session */
  uint64_t retry_ms;             /* the rest of the lease of the process that has the session; 0: none has */
  int64_t left_until_ns;         /* the same for a call to the history that a turn has left */
  int64_t busy_pause_ns;         /* between two looks */
  bool has_appended;             /* or tried to */
  bool begun;
  bool shows_running;                 /* running.h: its store keeps what it does before it has ended */
  bool was_running;                   /* and was given a record of it */
  int64_t shows_again_ns;             /* not before */
  tp__timer_entry running_timer;      /* listed when something has changed since */
  bool has_own_id;                    /* the host gave it, so the history may have the turn */
  bool is_known;                      /* the history has the turn: it ends at once, and leaves no record */
  bool is_answered;                   /* and its result is the stored one */
  bool is_owed;                       /* and its turn.post_turn has not come, since its process died: it comes now */
  uint64_t owed_process, owed_number; /* of the run that the history has */
  int64_t request_hash;               /* known_turn.c: of what was asked; of a turn with an id of the host's */
  tp_turn_request request;      /* limits; its ids are in the turn's identity, model and parameters in the arena */
  tp__past *own_past;           /* referenced: the messages of its request, instead of its session's; or NULL */
  bool closing;                 /* runs session.end alone */
  bool closes_session;          /* and the session is over then */
  tp_session_end end;           /* what session.end reports; in the arena; its reason is user_text, or NULL */
  void (*on_closed)(void *ctx); /* of the end of a logical phase that was submitted; may be NULL */
  /* how the end is reported */
  tp_turn_end_fn on_end; /* submitted; may be NULL */
  void *ctx;
  tp_submission *submission; /* submitted; may be NULL */
  bool *done;                /* synchronous: set at the end, on the caller's own thread */
  tp__result *result;        /* synchronous: the caller's; NULL: the caller does not want it */
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
  uint32_t refusing_phase; /* whose subscription ended the turn: denied, or failed closed; 0: none */
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
  tp_text signals;                 /* rendered, of turn.intake; for the first request */
  tp_phase_result request_context; /* kept: model.pre's own prompt context, for this request */
  struct tp__made_request *made;   /* the next request, as model.request leaves it; NULL: no handler saw it */
  tp_text asked_name;              /* of the model, by model.request; for this request */
  struct tp__held *held;           /* of the answer, until model.response has ended; in the arena; NULL: nothing is */
  tp__messages messages;           /* of this turn: user, assistant, tool … */
  tp__added_list added;            /* that wait to be among them */
  tp__aptr talk;                   /* atomic: the newest tp__talk; NULL: none was shown */
  tp__a32 model_index;             /* atomic: of models: which one is asked; it never goes back */
  tp_text response_text;           /* of the last response, in the arena */
  tp_text stop_reason, provider_data; /* likewise */
  tp_text finish_word;                /* likewise */
  tp_finish finish;                   /* of the last request */
  const tp_tool_call *const *calls;   /* of the last response, in the arena */
  size_t call_count;
  tp_tool_result *results;
  uint32_t iterations, tool_calls, model_attempt;
  int64_t input_tokens, output_tokens, cost_micros;
  int64_t last_input_tokens, last_output_tokens, last_cost_micros;
  bool too_long;             /* the provider said so of a request of this turn */
  bool compacted;            /* compaction was tried for this request */
  size_t kept_from;          /* of the session's messages: what a summary does not replace */
  int64_t tokens_before;     /* of the history that the last compaction replaced */
  tp_text summary;           /* that the model made of it, in the arena; empty: none */
  bool requested;            /* a request was made: signals went with it */
  uint32_t tool_event_count; /* results among messages */
  uint32_t stop_denials;     /* of turn.stop, that were followed */
  uint32_t pauses;           /* of the provider, after which it was asked to go on */
  uint32_t repeat_count, repeat_capacity;
  bool cost_unknown; /* that a response had no cost was said */
  tp__structured structured;
  tp__repeat *repeats; /* limits.c: the calls of the turn, each once; in the arena */
  /* not zero at the begin of a turn */
  tp_field fields[TP__DRIVE_FIELDS_MAX]; /* of the next phase: field_count of them are set */
};

/** Makes the drive of a turn of the session.
 *  @param owned  whether the caller stays the turn's owner.
 *  @param nesting  NULL: not a nested turn.
 *  @return TP_ERR_NO_MEMORY and what tp__turn_new() says. */
tp_status tp__drive_new(tp_session *session, const tp_turn_request *request, bool owned, tp__turn_kind kind,
                        const tp__nesting *nesting, tp__drive **ret_drive, tp_fault *fault);
/** Owner of a nested turn whose call waits for it: looks now and then whether that was cancelled. */
void tp__drive_watch_call(tp__drive *drive);
/** Frees a drive that was never started. Its turn is the caller's (drive->done), or was never begun. */
void tp__drive_abort(tp__drive *drive);
/** Drives the turn on the calling thread, which owns it from its birth; its start comes as a message, now or after the
 *  turns before it. Returns when it has ended, or was not taken. */
tp_status tp__drive_here(tp__drive *drive, bool last, tp_fault *fault);
/** turn_end.c: reports the end of a turn that never began. */
void tp__drive_end_unbegun(tp__drive *drive);
/** The same for a drive that waited for its quota, and that its session would have begun. The next one follows. */
void tp__drive_end_unadmitted(tp__drive *drive);

/* ---- session_queue.c: a turn that waits for the turns of its session before it ---- */

void tp__drive_init_queued(tp__drive *drive);
/** Queues the drive in its session, where its limit and a cancel end it at once; it is started when none runs. Takes
 *  back a drive that the session does not take.
 *  @param last  the session takes none after it.
 *  @return TP_OK; TP_ERR_FULL; TP_ERR_SHUTDOWN when the session closes. */
tp_status tp__drive_enqueue_or_abort(tp__drive *drive, bool last, tp_fault *fault);
/** Its owner: ends a turn that has not begun as cancelled. @return false when it has. */
bool tp__drive_cancel_queued(tp__drive *drive);
/** The turn has ended: another one begins where it was admitted. */
void tp__drive_release_quota(tp__drive *drive);

/* ---- step_work.c: a turn that waits for a session that a turn of another process has, or for a call to its history
 * that a turn has left ---- */

void tp__drive_init_busy(tp__drive *drive);
/** Its owner: a turn that was cancelled waits no more. */
void tp__drive_cancel_busy(tp__drive *drive);

/* ---- when it waited, for its record (step_times.c) ---- */

void tp__drive_note_step(tp__drive *drive, tp_step_kind kind, int64_t started_ns, int64_t ended_ns, tp_status outcome);
/** For a request to a model. @param model  its name; may be empty. */
void tp__drive_note_request(tp__drive *drive, tp_text model, int64_t started_ns, int64_t ended_ns, tp_status outcome);
/** For a call that has its result. */
void tp__drive_note_call(tp__drive *drive, const tp_tool_result *result, uint32_t place, int64_t started_ns,
                         int64_t settled_ns, uint64_t entry_id);
/** tp_turn_record.step; source is the drive. */
bool tp__drive_show_step(const void *source, size_t index, tp_turn_step *step);

/** response_calls.c: the calls of the response become those of a value that a handler of model.response gave: each one
 *  of the response's, in their order. Each call that was dropped or changed leaves an audit row.
 *  @param ret_why  set where the value is none such: then nothing was changed.
 *  @return false without memory. */
bool tp__response_take_calls(tp__drive *drive, tp_text value, tp_text *ret_why);

/** What came before this turn: the messages of its request, else the session's history. */
static inline tp__past *tp__drive_past(const tp__drive *drive) {
  return drive->own_past ? drive->own_past : drive->session->past;
}

/** The drive of the turn that a handler's call is of, or that began its detached run. @return NULL: none drives it. Any
 *  thread that has the call. */
const tp__drive *tp__drive_of_call(const tp_call *call);
/** The model that is asked now. Any thread that has a call of the turn. */
static inline const tp_model *tp__drive_model(const tp__drive *drive) {
  return tp__models_at(drive->models, tp__a32_load_relaxed(&drive->model_index)); /* models never change */
}

/* fallback.c: which model of the session's list is asked. */
/** Before a request: goes on to the first model whose provider's breaker lets one through, or to the last. */
void tp__drive_choose_model(tp__drive *drive);
/** A request has ended: counts it for the breaker of its provider. */
void tp__drive_note_answer(tp__drive *drive, const tp__model_call *call, tp_status status);
/** After a request that failed: whether a model is to be asked again, the same one or the next.
 *  @param attempts_max  of one model. */
bool tp__drive_ask_again(tp__drive *drive, const tp__model_call *call, tp_status status, uint32_t attempts_max);
/** compaction_step.c: whether the step COMPACT could make this request shorter. */
bool tp__compaction_may(const tp__drive *drive);

/* request.c: the request to the model, from the history, the turn's messages, contexts, signals and reminders. */
/** @param ret_view  what the request reads of the past; ended with the call. */
tp_status tp__request_make(tp__drive *drive, tp_model_request *ret_request, tp__past_view *ret_view);

#endif
