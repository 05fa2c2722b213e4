/* SPDX-License-Identifier: Apache-2.0
 *
 * steps: the machine that drives a turn, and its table (steps.def). A row is a phase (with the functions that fill its
 * payload and take its result) or a function that begins something else. Only transitions of the table can be made. It
 * has no data except the drive, has no lock, and is called only by the turn's owner. */
#ifndef TP__STEPS_H
#define TP__STEPS_H

#include "phases/drive/drive.h"

/** The members are in the order of their use. All except next may be left out, and one of run and phase. */
typedef struct tp__step_row {
  void (*run)(tp__drive *drive); /* begins something that calls tp__drive_go() or tp__drive_stop() at its end */
  uint32_t phase;
  /* Runs before the phase, even when the phase has no subscription. @return false when it has stopped the turn. */
  bool (*before)(tp__drive *drive);
  /* Sets the fields of the payload, if the phase has subscriptions. @return false when it has stopped the turn. */
  bool (*fill)(tp__drive *drive);
  /* Takes the needed parts of the result, whatever its outcome. @return false when it has stopped the turn. */
  bool (*keep)(tp__drive *drive);
  bool always; /* runs whatever happened to the turn: a cancel is ignored, and so is a failure of the phase */
  /* Called after a denial. @return the step that follows; NONE when the function has gone to a step, or stopped the
   * turn, itself. When this is NULL, a denial ends the turn as denied. */
  tp__step (*on_denial)(tp__drive *drive);
  /* Called after a phase that does not stop the turn. @return the step that follows, or NONE, as in on_denial. When
   * this is NULL: `next` follows. */
  tp__step (*then)(tp__drive *drive);
  tp__step next;
  uint32_t others; /* further steps that may follow, as bits; COMMIT may always follow */
} tp__step_row;

extern const tp__step_row tp__step_rows[TP__STEPS];

/** Whether a turn may go from one step to the other; `from` is NONE for the first step. */
bool tp__step_may_follow(tp__step from, tp__step to);

/** Owner: asserts the invariants between two steps (steps.c). */
void tp__drive_check(const tp__drive *drive);
/** Goes to a step, at once or when the running step has returned. */
void tp__drive_go(tp__drive *drive, tp__step step);
/** Notes how the turn ended, unless that was noted already, and goes to the step COMMIT. */
void tp__drive_stop(tp__drive *drive, tp_turn_outcome outcome, tp_status code, tp_text reason);
/** Stops the turn as failed because of missing memory. @return false. */
bool tp__drive_no_memory(tp__drive *drive);
/** True when the turn was cancelled or is out of time: then it has been stopped. */
bool tp__drive_out_of_time(tp__drive *drive);
/** Adds a reminder for the next request. If it displaces another one, that leaves a diagnostic. */
void tp__drive_remind(tp__drive *drive, const char *subscription, tp_text text, bool block);
/** Sets a field of the payload in a fill function. text and value are borrowed until the phase has ended. */
void tp__drive_text(tp__drive *drive, uint32_t field, tp_text text);
void tp__drive_int(tp__drive *drive, uint32_t field, int64_t number);
void tp__drive_value(tp__drive *drive, uint32_t field, tp_text value);
/** request.c: the name of the model in the request; may be empty. A fallback has its own name. */
tp_text tp__drive_model_name(const tp__drive *drive);
/** The name of the model that is asked, for handlers, events and records; may be empty. */
tp_text tp__drive_shown_model(const tp__drive *drive);
/** Sends a diagnostic of the library itself to listeners. @param subscription NULL: none. */
void tp__drive_diagnose(tp__drive *drive, uint32_t phase, tp_severity severity, tp_text key, const char *subscription,
                        tp_text text);
/** Reports something that happened to a turn and that neither its model nor its hooks report: a diagnostic event, and a
 *  line of the log. @param text empty: there was no memory for it, and the key must suffice. */
void tp__drive_note(tp__drive *drive, uint32_t phase, tp_severity severity, const char *key, const char *subscription,
                    tp_text text);
/** Adds the tokens and the cost of a response. */
void tp__drive_count(tp__drive *drive, const tp_model_response *response);
/** Makes the user's message the first message of the turn. @return false without memory. */
bool tp__drive_add_user_message(tp__drive *drive);

/** step_work.c: loads the session's history anew, or claims the session and loads its new messages. on_end must call
 *  tp__drive_loaded() first, and after a failure tp__drive_load_failed(), which stops the turn. */
void tp__drive_load(tp__drive *drive, bool claims, void (*on_end)(tp__host_call *call, tp_status status));
void tp__drive_loaded(tp__drive *drive, tp_status status);
void tp__drive_load_failed(tp__drive *drive, const tp__host_call *call, tp_status status);
/** step_work.c: ends the claim of a turn that has tried no append, so that other processes can claim the session before
 *  the end of the turn is reported. @return whether on_end will be called; if not, the turn has no such claim. */
bool tp__drive_end_claim(tp__drive *drive, void (*on_end)(tp__host_call *call, tp_status status));

/* step_fill.c, step_result.c, step_work.c, added.c, compaction_step.c, turn_end.c, session_end.c: the functions of the
 * table. */
void tp__step_load(tp__drive *drive);
void tp__step_compact(tp__drive *drive);
void tp__step_shorten(tp__drive *drive);
void tp__step_added(tp__drive *drive);
void tp__step_model(tp__drive *drive);
void tp__step_tools(tp__drive *drive);
void tp__step_commit(tp__drive *drive);
void tp__step_end(tp__drive *drive);
void tp__step_closed(tp__drive *drive);

bool tp__fill_session_start(tp__drive *drive);
bool tp__fill_input(tp__drive *drive);
bool tp__fill_input_and_model(tp__drive *drive);
bool tp__fill_context(tp__drive *drive);
bool tp__fill_tools(tp__drive *drive);
bool tp__fill_tool_names(tp__drive *drive);
bool tp__fill_compiled(tp__drive *drive);
bool tp__fill_compaction(tp__drive *drive);
bool tp__fill_compacted(tp__drive *drive);
bool tp__before_model(tp__drive *drive);
bool tp__fill_added(tp__drive *drive);
bool tp__fill_model_pre(tp__drive *drive);
bool tp__fill_model_request(tp__drive *drive);
bool tp__fill_response(tp__drive *drive);
bool tp__fill_model_post(tp__drive *drive);
bool tp__fill_calls(tp__drive *drive);
bool tp__fill_turn_stop(tp__drive *drive);
bool tp__fill_error(tp__drive *drive);
bool tp__fill_post_turn(tp__drive *drive);
bool tp__fill_session_end(tp__drive *drive);

bool tp__keep_session_started(tp__drive *drive);
bool tp__keep_input(tp__drive *drive);
bool tp__keep_added(tp__drive *drive);
bool tp__keep_response(tp__drive *drive);
bool tp__keep_jobs(tp__drive *drive);

tp__step tp__denial_of_compaction(tp__drive *drive);
tp__step tp__denial_of_added(tp__drive *drive);
tp__step tp__denial_of_tool_batch(tp__drive *drive);
tp__step tp__denial_of_turn_stop(tp__drive *drive);

tp__step tp__then_compile(tp__drive *drive);
tp__step tp__then_take_system(tp__drive *drive);
tp__step tp__then_take_context(tp__drive *drive);
tp__step tp__then_take_request(tp__drive *drive);
tp__step tp__then_take_response(tp__drive *drive);
tp__step tp__then_tools_or_stop(tp__drive *drive);
tp__step tp__then_end(tp__drive *drive);
/** structured.c: checks an answer without calls, if the turn has a schema. */
tp__step tp__then_check_answer(tp__drive *drive);

#endif
