/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/drive/structured.h"
#include "phases/drive/added.h"
#include "phases/drive/known_turn.h"

#include "phases/drive/steps.h"
#include "phases/turn/store_call.h"
#include "runtime/base/hash_table.h"
#include "runtime/value/value.h"

/* ---- how a turn ended, as a value ---- */

/* The items of an array in the store. New items are added at the end, and no item changes its meaning. */
enum {
  ENDING_OUTCOME,
  ENDING_CODE,
  ENDING_FINISH,
  ENDING_ITERATIONS,
  ENDING_TOOL_CALLS,
  ENDING_INPUT_TOKENS,
  ENDING_OUTPUT_TOKENS,
  ENDING_COST_MICROS,
  ENDING_PHASE,
  ENDING_STATE,
  ENDING_WHY,
  ENDING_REQUEST_HASH,
  ENDING_INTS,
  ENDING_FINISH_WORD = ENDING_INTS,
  ENDING_SUBSCRIPTION,
  ENDING_BARE_REASON,
  ENDING_TEXTS_END,
  ENDING_PROCESS = ENDING_TEXTS_END, /* of the run that ended, followed by the turn's number there; 0 in older stores */
  ENDING_NUMBER,
  ENDING_ITEMS
};

/* The hash of the request as the caller made it, before any handler changed it. */
static int64_t request_hash(const tp__drive *d) {
  return (int64_t)tp__hash_text(d->request.files, tp__hash_text(d->user_text, 0));
}

bool tp__known_turn_ending(tp__drive *d, tp_text *ret_ending) {
  *ret_ending = (tp_text){NULL, 0};
  if (!d->has_own_id) return true;
  const int64_t ints[ENDING_INTS] = {[ENDING_OUTCOME] = d->outcome,
                                     [ENDING_CODE] = d->code,
                                     [ENDING_FINISH] = d->finish,
                                     [ENDING_ITERATIONS] = d->iterations,
                                     [ENDING_TOOL_CALLS] = d->tool_calls,
                                     [ENDING_INPUT_TOKENS] = d->input_tokens,
                                     [ENDING_OUTPUT_TOKENS] = d->output_tokens,
                                     [ENDING_COST_MICROS] = d->cost_micros,
                                     [ENDING_PHASE] = d->refusing_phase,
                                     [ENDING_STATE] = d->refusing_state,
                                     [ENDING_WHY] = d->refusing_why,
                                     [ENDING_REQUEST_HASH] = d->request_hash};
  tp_writer writer;
  tp_text value;
  tp__value_writer_init(&writer, d->arena.allocator);
  tp_write_array(&writer, ENDING_ITEMS);
  for (int i = 0; i < ENDING_INTS; i++) tp_write_int(&writer, ints[i]);
  tp_write_text(&writer, d->finish_word);
  tp_write_text(&writer, d->refusing_subscription);
  tp_write_text(&writer, d->bare_reason);
  tp_write_int(&writer, (int64_t)tp__runtime_run_id(d->session->runtime));
  tp_write_int(&writer, (int64_t)d->turn->core.number);
  bool ok = tp_writer_finish(&writer, &value) == TP_OK && tp__arena_text(&d->arena, value, ret_ending);
  tp__value_writer_fini(&writer);
  return ok;
}

/** A turn of the past. */
typedef struct known {
  size_t first, last; /* of the messages */
  int64_t ints[ENDING_INTS];
  bool has_ending;
  uint64_t process, number; /* of the run that ended; 0: not known */
} known;

static bool is_ending(const known *k) {
  int64_t outcome = k->ints[ENDING_OUTCOME], code = k->ints[ENDING_CODE];
  if (outcome < TP_TURN_COMPLETED || outcome > TP_TURN_TIMED_OUT) return false;
  if (code < 0 || code > INT32_MAX || !tp__status_is_known((tp_status)code)) return false;
  return (outcome == TP_TURN_COMPLETED) == (code == TP_OK);
}

static tp_turn_outcome outcome_named(tp_text name) {
  for (tp_turn_outcome i = TP_TURN_FAILED; i <= TP_TURN_TIMED_OUT; i++)
    if (tp_text_is(name, tp_turn_outcome_name(i))) return i;
  return TP_TURN_FAILED;
}

/* Reads the result from the messages of a history without endings. If the error code is not stored, it follows from the
 * outcome. */
static void read_messages(const tp__messages *list, known *k) {
  static const tp_status codes[] = {[TP_TURN_FAILED] = TP_ERR_STORE,
                                    [TP_TURN_DENIED] = TP_ERR_DENIED,
                                    [TP_TURN_CANCELLED] = TP_ERR_CANCELLED,
                                    [TP_TURN_TIMED_OUT] = TP_ERR_TIMEOUT};
  const tp_message *last = list->items[k->last];
  memset(k->ints, 0, sizeof k->ints);
  k->ints[ENDING_OUTCOME] = last->role == TP_ROLE_END ? outcome_named(last->name) : TP_TURN_COMPLETED;
  if (last->role == TP_ROLE_END) k->ints[ENDING_CODE] = codes[k->ints[ENDING_OUTCOME]];
  for (size_t i = k->first; i <= k->last; i++) {
    k->ints[ENDING_ITERATIONS] += list->items[i]->role == TP_ROLE_ASSISTANT;
    k->ints[ENDING_TOOL_CALLS] += list->items[i]->role == TP_ROLE_TOOL;
  }
}

static void read_ending(const tp__messages *list, known *k) {
  tp_text ending = list->items[k->last]->ending;
  k->has_ending = tp_value_kind_of(ending) == TP_VALUE_ARRAY && tp_value_count(ending) >= ENDING_TEXTS_END;
  for (size_t i = 0; k->has_ending && i < ENDING_INTS; i++) k->ints[i] = tp_value_int(tp_value_at(ending, i), 0);
  if (k->has_ending) k->has_ending = is_ending(k);
  if (!k->has_ending) read_messages(list, k);
  if (!k->has_ending || tp_value_count(ending) < ENDING_ITEMS) return;
  k->process = (uint64_t)tp_value_int(tp_value_at(ending, ENDING_PROCESS), 0);
  k->number = (uint64_t)tp_value_int(tp_value_at(ending, ENDING_NUMBER), 0);
}

/* Whether a message ends its turn. If a turn ran twice, each run has such a message. */
static bool ends_turn(const tp_message *message) { return message->role == TP_ROLE_END || message->ending.size > 0; }

/* The newest run of the turn. */
static bool find_known(const tp__messages *list, tp_text id, known *ret_known) {
  size_t end = list->count;
  while (end > 0 && !tp_text_equal(list->items[end - 1]->turn_id, id)) end--;
  if (end == 0) return false;
  size_t first = end - 1;
  while (first > 0 && tp_text_equal(list->items[first - 1]->turn_id, id) && !ends_turn(list->items[first - 1])) first--;
  *ret_known = (known){.first = first, .last = end - 1};
  read_ending(list, ret_known);
  return true;
}

/* ---- the answer ---- */

/* Messages that were added while the turn waited in its session's queue are told that it is over. */
static void know_end(tp__drive *d, tp_turn_outcome outcome, tp_status code, tp_text reason) {
  TP__ASSERT((outcome == TP_TURN_COMPLETED) == (code == TP_OK));
  d->outcome = outcome;
  d->code = code;
  d->reason = reason.data || code == TP_OK ? reason : tp_text_of(tp_status_text(code));
  d->is_known = true;
  tp__added_close(d);
  (void)!tp__added_keep_unanswered(d, &d->messages); /* each is reported; no batch has them */
}

static void end_with(tp__drive *d, tp_turn_outcome outcome, tp_status code, tp_text reason) {
  know_end(d, outcome, code, reason);
  tp__drive_go(d, TP__STEP_END);
}

static void refuse_known(tp__drive *d, const char *why) {
  const tp_text *ids = d->turn->core.ids;
  end_with(d, TP_TURN_FAILED, TP_ERR_EXISTS,
           tp__arena_printf(&d->arena, "turn `%.*s` of session `%.*s` %s", (int)ids[TP_ID_TURN].size,
                            ids[TP_ID_TURN].data, (int)ids[TP_ID_SESSION].size, ids[TP_ID_SESSION].data, why));
}

static bool take_result(tp__drive *d, const tp__messages *list, const known *k) {
  const tp_message *last = list->items[k->last];
  tp_text text = {NULL, 0}, reason = last->role == TP_ROLE_END ? last->text : text;
  for (size_t i = k->last + 1; i > k->first && !text.data; i--)
    if (list->items[i - 1]->role == TP_ROLE_ASSISTANT) text = list->items[i - 1]->text;
  d->finish = (tp_finish)k->ints[ENDING_FINISH];
  d->iterations = (uint32_t)k->ints[ENDING_ITERATIONS];
  d->tool_calls = (uint32_t)k->ints[ENDING_TOOL_CALLS];
  d->input_tokens = k->ints[ENDING_INPUT_TOKENS];
  d->output_tokens = k->ints[ENDING_OUTPUT_TOKENS];
  d->cost_micros = k->ints[ENDING_COST_MICROS];
  d->refusing_phase = (uint32_t)k->ints[ENDING_PHASE];
  d->refusing_state = (tp_state)k->ints[ENDING_STATE];
  d->refusing_why = (tp_reason)k->ints[ENDING_WHY];
  if (k->has_ending &&
      (!tp__arena_text(&d->arena, tp_value_text(tp_value_at(last->ending, ENDING_FINISH_WORD)), &d->finish_word) ||
       !tp__arena_text(&d->arena, tp_value_text(tp_value_at(last->ending, ENDING_SUBSCRIPTION)),
                       &d->refusing_subscription) ||
       !tp__arena_text(&d->arena, tp_value_text(tp_value_at(last->ending, ENDING_BARE_REASON)), &d->bare_reason)))
    return false;
  return tp__arena_text(&d->arena, text, &d->response_text) && tp__arena_text(&d->arena, reason, &d->reason);
}

/* ---- steps that a run did not reach because its process died at its end ---- */

/** Whether the stored run reached its turn.post_turn; the store is asked. */
typedef struct cut_look {
  tp__store_call call;
  tp__drive *drive; /* does not end before this does */
  uint64_t process;
  bool is_cut; /* the work's, until it is answered */
} cut_look;

static tp_status look_work(tp__store_call *call, void *store, tp_fault *fault) {
  cut_look *look = TP__CONTAINER(call, cut_look, call);
  const tp_store *functions = tp__runtime_store(call->turn->runtime);
  return functions->turn_is_cut(store, look->process, call->turn->ids, TP_ID_COUNT, &look->is_cut, fault);
}

/* The jobs get the same keys as in the first run, so jobs that were stored before are not stored twice. */
static void look_ended(tp__store_call *call, tp_status status) {
  cut_look *look = TP__CONTAINER(call, cut_look, call);
  tp__drive *d = look->drive;
  if (status != TP_OK)
    tp__log(call->turn->runtime, TP_LOG_WARNING, &(tp__log_subject){.status = status, .ids = call->turn->ids},
            "whether turn.post_turn of a stored turn is owed was not found out: %s", tp_status_text(status));
  d->is_owed = status == TP_OK && look->is_cut;
  if (d->is_owed)
    tp__drive_note(d, TP_PHASE_TURN_POST_TURN, TP_SEVERITY_INFO, "turn.owed", NULL,
                   tp_text_of("the process of this turn died at its end: its turn.post_turn comes now"));
  tp__drive_go(d, d->is_owed ? TP__STEP_POST_TURN : TP__STEP_END);
}

/* The results of the turn's calls, for turn.post_turn. */
static bool take_calls(tp__drive *d, const tp__messages *list, const known *k) {
  for (size_t i = k->first; i <= k->last; i++) {
    if (list->items[i]->role != TP_ROLE_TOOL) continue;
    if (tp__messages_add(&d->messages, list->items[i]) != TP_OK) return false;
    d->tool_event_count++;
  }
  return true;
}

/* @return whether the store is asked; then the turn goes on when it has answered. */
static bool look_for_cut(tp__drive *d, const tp__messages *list, const known *k) {
  enum { LOOK_LIMIT_MS = 30000 };
  bool is_own = k->process == tp__runtime_run_id(d->session->runtime);
  bool has_readers = tp__turn_plan(&d->turn->core, TP_PHASE_TURN_POST_TURN) != NULL;
  if (!k->process || is_own || !has_readers || !tp__runtime_store(d->session->runtime)->turn_is_cut) return false;
  tp__store_call *call = take_calls(d, list, k) ? tp__store_call_new(d->turn, sizeof(cut_look), "records") : NULL;
  if (!call) return false;
  cut_look *look = TP__CONTAINER(call, cut_look, call);
  look->drive = d;
  look->process = d->owed_process = k->process;
  d->owed_number = k->number;
  call->work = look_work;
  call->on_end = look_ended;
  tp__store_call_start(call, tp__deadline_after_ms(tp__now_ns(), LOOK_LIMIT_MS));
  return true;
}

/* A turn that was stopped from outside did not end by itself, so it runs again. */
static bool ended_by_itself(const known *k) {
  return k->ints[ENDING_OUTCOME] != TP_TURN_CANCELLED && k->ints[ENDING_OUTCOME] != TP_TURN_TIMED_OUT;
}

static bool answer_from(tp__drive *d, const tp__messages *list, const known *k) {
  if (!ended_by_itself(k)) return false;
  bool is_complete = k->ints[ENDING_OUTCOME] == TP_TURN_COMPLETED;
  tp_status read = TP_OK; /* for the answer, when the turn has a schema */
  if (k->has_ending && k->ints[ENDING_REQUEST_HASH] != d->request_hash) {
    refuse_known(d, "is in the history with another text: give this request an id of its own");
  } else if (d->request.if_exists == TP_IF_EXISTS_REFUSE) {
    refuse_known(d, "is in the history: leave tp_turn_request.if_exists 0 to get its result");
  } else if (!take_result(d, list, k) || (is_complete && (read = tp__structured_read(d)) == TP_ERR_NO_MEMORY)) {
    end_with(d, TP_TURN_FAILED, TP_ERR_NO_MEMORY, tp_text_of("no memory"));
  } else if (read != TP_OK) {
    refuse_known(d,
                 "is in the history with an answer that does not fit the schema: give this request an id of its own");
  } else {
    tp__drive_note(d, 0, TP_SEVERITY_INFO, "turn.known", NULL,
                   tp_text_of("the history has this turn: its result is the stored one, and nothing was run"));
    d->is_answered = true;
    know_end(d, (tp_turn_outcome)k->ints[ENDING_OUTCOME], (tp_status)k->ints[ENDING_CODE], d->reason);
    if (!look_for_cut(d, list, k)) tp__drive_go(d, TP__STEP_END);
  }
  return true;
}

/* ---- a past that was compacted: the history is loaded again ---- */

static void loaded(tp__host_call *call, tp_status status) {
  tp__drive *d = call->ctx;
  known k;
  tp__drive_loaded(d, status);
  if (status != TP_OK) {
    tp__drive_load_failed(d, call, status);
  } else if (!find_known(&call->made->list, d->turn->core.ids[TP_ID_TURN], &k) ||
             !answer_from(d, &call->made->list, &k)) {
    tp__drive_go(d, d->session->started ? TP__STEP_INTAKE : TP__STEP_SESSION_START);
  }
}

bool tp__known_turn_answer(tp__drive *d) {
  tp__past *past = d->session->past;
  tp_text id = d->turn->core.ids[TP_ID_TURN];
  bool has = false;
  known k;
  if (!d->has_own_id) return false;
  d->request_hash = request_hash(d);
  if (d->request.if_exists == TP_IF_EXISTS_RUN) return false;
  if (tp__past_has_turn(past, id, &has) != TP_OK) {
    (void)tp__drive_no_memory(d);
    return true;
  }
  if (!has) return false;
  if (find_known(&past->list, id, &k)) return answer_from(d, &past->list, &k);
  if (tp__session_has_history(d->session)) tp__drive_load(d, false, loaded);
  else refuse_known(d, "has run, and its messages were compacted: give a new turn an id of its own");
  return true;
}
