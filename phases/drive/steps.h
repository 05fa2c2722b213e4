/* SPDX-License-Identifier: Apache-2.0
 *
 * steps: the machine that drives a turn, and its table (steps.def). A row is a phase (what fills its payload, what
 * keeps its result) or a function that begins something else; an order that the table does not have cannot be run. It
 * owns nothing beside the drive that it is given, has no lock, and is called by the turn's owner alone. */
#ifndef TP__STEPS_H
#define TP__STEPS_H

#include "phases/drive/drive.h"

/** In the order in which they are used. All but next, and of run and phase one, may be left out. */
typedef struct tp__step_row {
  void (*run)(tp__drive *drive); /* begins something that calls tp__drive_go() or tp__drive_stop() when it has ended */
  uint32_t phase;
  /* What comes before the phase, also where it has no subscription. False when it has stopped the turn. */
  bool (*before)(tp__drive *drive);
  /* Puts the fields of the payload, where a subscription could read them. False when it has stopped the turn. */
  bool (*fill)(tp__drive *drive);
  /* Takes what is needed of the result, however it came out. False when it has stopped the turn. */
  bool (*keep)(tp__drive *drive);
  bool always; /* whatever became of the turn, and of this phase: a cancel is ignored */
  /* After a denial: the step that follows; NONE when it has gone there, or stopped the turn, itself. Without it the
   * turn ends as denied. */
  tp__step (*on_denial)(tp__drive *drive);
  /* After a phase that does not stop the turn: the step that follows, or NONE, as above. Without it: next. */
  tp__step (*then)(tp__drive *drive);
  tp__step next;
  uint32_t others; /* further steps that may follow, as bits; COMMIT always may */
} tp__step_row;

extern const tp__step_row tp__step_rows[TP__STEPS];

/** Whether a turn may go from the one step to the other; from NONE to the first. */
bool tp__step_may_follow(tp__step from, tp__step to);

/** Owner: asserts what always holds between two steps (steps.c). */
void tp__drive_check(const tp__drive *drive);
/** Goes to a step: now, or when the step that runs has returned. */
void tp__drive_go(tp__drive *drive, tp__step step);
/** Notes how the turn ended, unless that is settled already, and goes to the commit. */
void tp__drive_stop(tp__drive *drive, tp_turn_outcome outcome, tp_status code, tp_text reason);
/** Stops the turn as failed for want of memory. @return false. */
bool tp__drive_no_memory(tp__drive *drive);
/** True when the turn was cancelled or is out of time; then it has been stopped. */
bool tp__drive_out_of_time(tp__drive *drive);
/** A reminder for the next request; what it displaces leaves a diagnostic. */
void tp__drive_remind(tp__drive *drive, const char *subscription, tp_text text, bool block);
/** A field of the payload of the phase that a fill is for; text and value are borrowed until the phase has ended. */
void tp__drive_text(tp__drive *drive, uint32_t field, tp_text text);
void tp__drive_int(tp__drive *drive, uint32_t field, int64_t number);
void tp__drive_value(tp__drive *drive, uint32_t field, tp_text value);
/** request.c: the name that the request gives its model; may be empty, as for a fallback, which has its own. */
tp_text tp__drive_model_name(const tp__drive *drive);
/** The name of the model that is asked, for handlers, events and records; may be empty. */
tp_text tp__drive_shown_model(const tp__drive *drive);
/** Tells listeners of a diagnostic of the library's own. @param subscription  NULL: of none. */
void tp__drive_diagnose(tp__drive *drive, uint32_t phase, tp_severity severity, tp_text key, const char *subscription,
                        tp_text text);
/** Says what happened to a turn that neither its model nor its hooks have said: a diagnostic event, and a line of the
 *  log. @param text  empty: without memory for the words, the key says it. */
void tp__drive_note(tp__drive *drive, uint32_t phase, tp_severity severity, const char *key, const char *subscription,
                    tp_text text);
/** Adds the tokens and the cost of a response. */
void tp__drive_count(tp__drive *drive, const tp_model_response *response);
/** Makes the user's message the first of the turn's. @return false without memory. */
bool tp__drive_add_user_message(tp__drive *drive);

/** step_work.c: loads the session's history anew, or claims the session and loads what is new of it. on_end calls
 *  tp__drive_loaded() first, and of a failure then tp__drive_load_failed(), which stops the turn. */
void tp__drive_load(tp__drive *drive, bool claims, void (*on_end)(tp__host_call *call, tp_status status));
void tp__drive_loaded(tp__drive *drive, tp_status status);
void tp__drive_load_failed(tp__drive *drive, const tp__host_call *call, tp_status status);
/** step_work.c: ends the claim of a turn that has tried no append, so that other processes can claim the session before
 *  the end of the turn is reported.   @return whether on_end follows; else the turn has no such claim. */
bool tp__drive_end_claim(tp__drive *drive, void (*on_end)(tp__host_call *call, tp_status status));

/* step_fill.c, step_result.c, step_work.c, added.c, compaction_step.c, turn_end.c, session_end.c: what the rows
 * name. */
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
/** structured.c: an answer without calls, of a turn that may demand a schema. */
tp__step tp__then_check_answer(tp__drive *drive);

#endif
