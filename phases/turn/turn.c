/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/merge/phases.h"
#include "phases/turn/turn.h"

#include "phases/turn/agent.h"
#include "phases/model/conversation.h"
#include "runtime/exec/blocks.h"
#include "runtime/exec/exec.h"

enum { TURN_LIMIT_MS = 600000, PARAMETERS_BYTES_MAX = 1 << 20 };

tp_status tp__name_check(const char *name, tp_fault *fault) {
  tp_text text = tp_text_of(name);
  if (text.size <= TP_ID_BYTES_MAX && tp_utf8_valid(text, NULL)) return TP_OK;
  return tp__fail(fault, TP_ERR_BAD_ID, NULL, "an id or mode is longer than %d bytes or not UTF-8", TP_ID_BYTES_MAX);
}

static tp_status check_numbers(const tp_turn_request *request, tp_fault *fault) {
  if ((uint32_t)request->caller > TP_CALLER_MANUAL_CLI)
    return tp__fail(fault, TP_ERR_USAGE, request->id, "tp_turn_request.caller is %d: it must be a tp_caller",
                    (int)request->caller);
  if (request->tokens_max < 0)
    return tp__fail(fault, TP_ERR_USAGE, request->id, "tp_turn_request.tokens_max is negative; 0 is no limit");
  if (request->cost_micros_max < 0)
    return tp__fail(fault, TP_ERR_USAGE, request->id, "tp_turn_request.cost_micros_max is negative; 0 is no limit");
  if (request->if_exists > TP_IF_EXISTS_RUN)
    return tp__fail(fault, TP_ERR_USAGE, request->id, "tp_turn_request.if_exists is %d: it must be a tp_if_exists",
                    request->if_exists);
  if (request->if_exists != TP_IF_EXISTS_ANSWER && !request->id)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_turn_request.if_exists is for a turn with an id: set id, too");
  if (request->reserved_[0] | request->reserved_[1] | request->reserved2_)
    return tp__fail(fault, TP_ERR_USAGE, request->id, "tp_turn_request.reserved_ must be zero");
  if (request->answer_attempts && !request->answer_schema)
    return tp__fail(fault, TP_ERR_USAGE, request->id,
                    "tp_turn_request.answer_attempts is set without answer_schema: no answer is checked");
  return TP_OK;
}

/* Seconds given instead of milliseconds would be days in January 1970, so they are refused. */
static tp_status check_said(const tp_turn_request *request, tp_fault *fault) {
  const int64_t said = request->said_unix_ms, first = INT64_C(100000000000), ahead_max = INT64_C(5) * 60 * 1000;
  if (said == 0) return TP_OK;
  if (said < first)
    return tp__fail(
        fault, TP_ERR_USAGE, request->id,
        "tp_turn_request.said_unix_ms is %lld: give Unix milliseconds, at least %lld (1973-03-03), or 0 for "
        "now",
        (long long)said, (long long)first);
  if (said - ahead_max <= tp__unix_ms()) return TP_OK;
  return tp__fail(fault, TP_ERR_USAGE, request->id,
                  "tp_turn_request.said_unix_ms is %lld, more than five minutes ahead of the clock: give when the text "
                  "was said, in Unix milliseconds, or 0 for now",
                  (long long)said);
}

static tp_status check_model(const tp_turn_request *request, tp_fault *fault) {
  size_t at;
  TP__TRY(tp__name_check(request->model_name, fault));
  if (!tp_utf8_valid(request->system, &at))
    return tp__fail(fault, TP_ERR_UTF8, request->id, "tp_turn_request.system is not UTF-8 at byte %zu", at);
  if (request->parameters.size > PARAMETERS_BYTES_MAX)
    return tp__fail(fault, TP_ERR_TOO_LARGE, request->id, "tp_turn_request.parameters have %zu bytes, more than %d",
                    request->parameters.size, PARAMETERS_BYTES_MAX);
  if (request->parameters.size > 0) TP__TRY(tp_value_check(request->parameters, fault));
  if (request->parameters.size > 0 && tp_value_kind_of(request->parameters) != TP_VALUE_MAP)
    return tp__fail(fault, TP_ERR_MALFORMED, request->id, "tp_turn_request.parameters must be a map");
  return TP_OK;
}

static tp_status check_messages(const tp_turn_request *request, tp_fault *fault) {
  if (request->message_count == 0 && !request->messages) return TP_OK;
  if (request->text.size == 0)
    return tp__fail(fault, TP_ERR_USAGE, request->id,
                    "tp_turn_request.text is empty beside messages: the user's last message stands there, not in the "
                    "list");
  return tp__conversation_check(request->messages, request->message_count, fault);
}

/* They would have no reader. */
static tp_status refuse_driven_fields(const tp_turn_request *request, tp_fault *fault) {
  const char *field = NULL;
  if (request->messages || request->message_count > 0) field = "messages";
  else if (request->model_name) field = "model_name";
  else if (request->system.size > 0) field = "system";
  else if (request->parameters.size > 0) field = "parameters";
  else if (request->each_delta) field = "each_delta";
  else if (request->said_unix_ms != 0) field = "said_unix_ms";
  else if (request->answer_schema) field = "answer_schema";
  else if (request->if_exists != TP_IF_EXISTS_ANSWER) field = "if_exists";
  if (!field) return TP_OK;
  return tp__fail(
      fault, TP_ERR_USAGE, request->id,
      "tp_turn_request.%s is for turns that the library drives: a begun turn asks no model, and its host gives "
      "each phase its fields",
      field);
}

tp_status tp__input_check(const char *id, tp_text text, tp_text files, tp_fault *fault) {
  size_t at;
  if (!tp_utf8_valid(text, &at))
    return tp__fail(fault, TP_ERR_UTF8, id, "the user's text is not UTF-8 at byte %zu", at);
  if (files.size == 0) return TP_OK;
  TP__TRY(tp_value_check(files, fault));
  if (tp__is_list_of(files, TP_VALUE_TEXT)) return TP_OK;
  return tp__fail(fault, TP_ERR_MALFORMED, id, "the user's files must be an array of texts");
}

tp_status tp__request_read_held(const tp_turn_request *theirs, tp_turn_request *ours, tp_fault *fault) {
  TP__TRY(tp__request_read(theirs, ours, fault));
  return refuse_driven_fields(ours, fault);
}

tp_status tp__request_read(const tp_turn_request *theirs, tp_turn_request *ours, tp_fault *fault) {
  *ours = (tp_turn_request){.struct_size = sizeof *ours, .limit_ms = TURN_LIMIT_MS};
  if (!theirs) return TP_OK;
  TP__TRY(tp__options_read(ours, sizeof *ours, theirs, "tp_turn_request", fault));
  if (ours->id && !tp__id_valid(ours->id))
    return tp__fail(fault, TP_ERR_BAD_ID, NULL, "the turn's id is not 1 to 128 bytes without white space");
  TP__TRY(tp__input_check(ours->id, ours->text, ours->files, fault));
  const char *names[] = {ours->task, ours->run, ours->mode, ours->caller_job, ours->triggered_by, ours->environment};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) TP__TRY(tp__name_check(names[i], fault));
  TP__TRY(check_numbers(ours, fault));
  TP__TRY(check_said(ours, fault));
  TP__TRY(check_model(ours, fault));
  TP__TRY(check_messages(ours, fault));
  if (ours->limit_ms == 0) ours->limit_ms = TURN_LIMIT_MS;
  return TP_OK;
}

static void cancelled(tp__turn *core) {
  tp_turn *turn = tp__turn_of(core);
  if (turn->dispatch) (void)tp__dispatch_cancel(turn->dispatch, (tp_text){NULL, 0});
  if (turn->drive) tp__drive_cancel(turn->drive);
}

static void end_delivered(tp__message *message) { tp__turn_over(TP__CONTAINER(message, tp_turn, end_message)); }

/* The layer's part of a turn at rest. */
static void clear_turn(tp_turn *turn) {
  turn->core.cancelled = cancelled;
  turn->core.release = tp__turn_release;
  turn->operation.arena = (tp__arena){0};
  turn->session = NULL;
  turn->session_data = turn->data = NULL;
  turn->agent = NULL;
  turn->listeners[0] = turn->listeners[1] = NULL;
  turn->event_sequence = 0;
  turn->toolset = NULL;
  turn->dispatch = NULL;
  turn->questions_open = 0;
  turn->people = (tp__people){0};
  turn->task = NULL;
  turn->drive = NULL;
  tp__list_init(&turn->kept_dispatches);
  turn->end_message.deliver = end_delivered;
}

/* The same after an earlier turn. Fields that the end of a turn leaves empty need no reset; the lines of these fields
 * are written in any case. */
static void make_idle(tp_turn *turn) {
  turn->core.release = tp__turn_release;
  turn->dispatch = NULL;
  turn->drive = NULL;
  turn->session = NULL;
  turn->session_data = turn->data = NULL;
  turn->event_sequence = 0;
}

void tp__turn_release(tp__turn *core) {
  tp_turn *turn = tp__turn_of(core);
  tp_runtime *runtime = core->runtime;
  size_t block_size = core->block_size;
  bool in_table = core->in_table;
  turn->task = NULL;
  if (turn->agent) tp__agent_unref(turn->agent);
  turn->agent = NULL;
  if (turn->people.ask || turn->people.permission) turn->people = (tp__people){0};
  if (in_table) make_idle(turn);
  tp__turn_fini(core);
  if (!in_table) tp__block_give(tp__runtime_blocks(runtime), turn, block_size);
}

/* Turns that hosts begin are in the turn table. Turns that close a session or agent are rare, and get a block. */
static tp_status take_memory(tp_runtime *runtime, tp__turn_kind kind, tp_turn **ret_turn, size_t *ret_block_size) {
  tp__turn *core;
  *ret_block_size = 0;
  if (kind < TP__TURN_DETACHED) {
    TP__TRY(tp__turn_table_take(runtime, kind, &core));
    *ret_turn = tp__turn_of(core);
    return TP_OK;
  }
  tp_turn *turn = tp__block_take(tp__runtime_blocks(runtime), sizeof *turn, ret_block_size);
  if (!turn) return TP_ERR_NO_MEMORY;
  turn->core.cleared = false;
  turn->core.number = tp__turn_number(runtime);
  *ret_turn = turn;
  return TP_OK;
}

/* The turn's own environment, else the session's, else that of the turn in which it is nested. */
static tp_text environment_of(const tp__turn_ids *ids, const tp_turn_request *request) {
  if (request->environment) return tp_text_of(request->environment);
  if (ids->environment) return tp_text_of(ids->environment);
  return ids->nesting ? ids->nesting->parent->environment : tp_text_of(NULL);
}

static bool has_ids(const tp__turn_ids *ids, const tp_turn_request *request) {
  return ids->tenant || ids->agent || ids->workspace || ids->session || ids->thread || request->id || request->task ||
         request->run || request->mode || request->caller_job || request->triggered_by ||
         environment_of(ids, request).size > 0;
}

static tp_status turn_init(tp_turn *turn, tp_runtime *runtime, const tp__turn_ids *ids, const tp_turn_request *request,
                           tp__turn_spec *spec) {
  if (!has_ids(ids, request)) return tp__turn_init(&turn->core, runtime, spec);
  char generated[48];
  turn->core.runtime = runtime;
  tp_text id = request->id ? tp_text_of(request->id) : tp__turn_generated_id(&turn->core, generated);
  tp_text all[TP_ID_COUNT] = {[TP_ID_TENANT] = tp_text_of(ids->tenant),
                              [TP_ID_AGENT] = tp_text_of(ids->agent),
                              [TP_ID_WORKSPACE] = tp_text_of(ids->workspace),
                              [TP_ID_SESSION] = tp_text_of(ids->session),
                              [TP_ID_THREAD] = tp_text_of(ids->thread),
                              [TP_ID_TURN] = id,
                              [TP_ID_TASK] = tp_text_of(request->task),
                              [TP_ID_RUN] = !request->run && ids->session ? id : tp_text_of(request->run)};
  spec->ids = all;
  spec->mode = tp_text_of(request->mode);
  spec->caller_job = tp_text_of(request->caller_job);
  spec->triggered_by = tp_text_of(request->triggered_by);
  spec->environment = environment_of(ids, request);
  return tp__turn_init(&turn->core, runtime, spec);
}

tp_status tp__turn_new(tp_runtime *runtime, const tp__turn_ids *ids, const tp_turn_request *request, tp__turn_kind kind,
                       tp_turn **ret_turn, tp_fault *fault) {
  tp_turn *turn;
  size_t block_size;
  tp__listener_set *listeners[2];
  tp__turn_spec spec = {.caller = request->caller,
                        .deadline_ns = tp__deadline_after_ms(tp__now_ns(), request->limit_ms),
                        .in_table = kind < TP__TURN_DETACHED,
                        .kind = kind,
                        .inbox = ids->inbox};
  if (ids->nesting) {
    spec.parent = ids->nesting->parent;
    if (ids->nesting->until_ns < spec.deadline_ns) spec.deadline_ns = ids->nesting->until_ns;
  }
  if (kind < TP__TURN_DETACHED && !ids->nesting && tp__runtime_is_overloaded(runtime))
    return tp__runtime_refuse_turn(runtime, fault);
  tp_status status = take_memory(runtime, kind, &turn, &block_size);
  if (status == TP_OK) {
    if (!turn->core.cleared) clear_turn(turn);
    status = turn_init(turn, runtime, ids, request, &spec);
    if (status != TP_OK && block_size > 0) tp__block_give(tp__runtime_blocks(runtime), turn, block_size);
  }
  if (status != TP_OK) return tp__fail(fault, status, NULL, "the turn was not begun: %s", tp_status_text(status));
  if (ids->of) { /* these fields are in a cache line that the begin of a bare turn does not touch */
    turn->session = ids->of;
    turn->session_data = ids->session_data;
    if (ids->people) turn->people = *ids->people;
  }
  if (request->data) turn->data = request->data;
  tp__listeners_take(tp__layer_listeners(runtime), ids->listeners, listeners);
  if (ids->used_agent) {
    tp__agent_ref(ids->used_agent);
    turn->agent = ids->used_agent;
  }
  if (listeners[0]) memcpy(turn->listeners, listeners, sizeof turn->listeners);
  if (block_size > 0) turn->core.block_size = block_size;
  *ret_turn = turn;
  return TP_OK;
}

void tp__turn_over(tp_turn *turn) {
  TP__OWNED(&turn->core.strand);
  TP__ASSERT(!turn->core.strand.end && !turn->dispatch);
  tp__listener_set *listeners[2] = {turn->listeners[0], turn->listeners[1]};
  if (listeners[0]) turn->listeners[0] = turn->listeners[1] = NULL;
  tp__toolset_unref(turn->toolset);
  turn->toolset = NULL;
  if (!tp__list_empty(&turn->kept_dispatches)) tp__turn_free_dispatches(turn);
  tp__link *entries = &turn->core.entries;
  while (!tp__list_empty(entries)) tp__entry_release(TP__CONTAINER(entries->next, tp__entry, link));
  if (turn->core.cached_entry && turn->core.cached_entry->taken) tp__entry_release(turn->core.cached_entry);
  for (int i = 0; i < 2 && listeners[i]; i++) tp__listener_set_unref(listeners[i]);
  tp__turn_finish(&turn->core);
}

/* ---- the public API of a turn that its host drives ---- */

tp_status tp_turn_begin_bare(tp_runtime *runtime, const tp_turn_request *theirs, tp_turn **ret_turn, tp_fault *fault) {
  if (!runtime) return tp__fail_null(fault, "runtime");
  tp_turn_request request;
  TP__TRY(tp__request_read_held(theirs, &request, fault));
  TP__TRY(tp__runtime_ready(runtime, fault));
  return tp__turn_new_held(runtime, &(tp__turn_ids){0}, &request, TP__TURN_HELD, ret_turn, fault);
}

tp_status tp__turn_new_held(tp_runtime *runtime, const tp__turn_ids *ids, const tp_turn_request *request,
                            tp__turn_kind kind, tp_turn **ret_turn, tp_fault *fault) {
  TP__TRY(tp__turn_new(runtime, ids, request, kind, ret_turn, fault));
  (*ret_turn)->core.host_held = true;
  return TP_OK;
}

tp_status tp__turn_enter(tp_turn *turn) {
  tp__a32 *busy = &turn->core.busy;
  uint32_t idle = 0;
  if (tp__runtime_is_of_parent(turn->core.runtime)) return TP_ERR_FORKED;
  if (tp__runtime_life(turn->core.runtime) >= TP__LIFE_STOPPING) return TP_ERR_SHUTDOWN;
  if (turn->core.host_held) { /* only threads of the host can begin an operation, one after the other */
    if (tp__a32_load_acquire(busy)) return TP_ERR_BUSY;
    tp__a32_store_relaxed(busy, 1); /* read by a drain, which looks again */
  } else {
    if (!tp__a32_cas_acq_rel(busy, &idle, 1)) return TP_ERR_BUSY;
    tp__strand_acquire(&turn->core.strand); /* the worker that ran the last operation may be leaving */
    turn->core.host_held = true;
  }
  if (!turn->core.is_named) tp__turn_name(&turn->core);
  tp__strand_catch_up(&turn->core.strand); /* a cancel may have come */
  return TP_OK;
}

static void name_and_deliver(tp__message *message) {
  tp_turn *turn = TP__CONTAINER(message, tp_turn, operation.message);
  tp__turn_name(&turn->core);
  turn->operation.deliver(message);
}

void tp__turn_submit(tp_turn *turn, tp__message *message) {
  TP__ASSERT(message->deliver);
  tp__strand *strand = &turn->core.strand;
  if (!turn->core.is_named) {
    turn->operation.deliver = message->deliver;
    message->deliver = name_and_deliver;
  }
  if (turn->core.host_held) {
    turn->core.host_held = false;
    tp__strand_push_own(strand, message);
    tp__strand_submit(strand);
  } else if (tp__strand_is_here(strand)) {
    tp__strand_push_own(strand, message); /* from a callback of the turn: the operation begins on this thread */
  } else {
    tp__strand_push(strand, message);
  }
}

void tp_turn_end(tp_turn *turn) {
  if (!turn) return;
  tp__strand *strand = &turn->core.strand;
  if (!turn->core.host_held && tp__strand_is_here(strand)) { /* from a callback, which must not see its turn freed */
    tp__strand_push_own(strand, &turn->end_message);
    return;
  }
  if (!turn->core.host_held && !tp__strand_try_acquire(strand)) { /* its owner is leaving */
    tp__strand_push(strand, &turn->end_message);
    return;
  }
  assert(!tp__a32_load_acquire(&turn->core.busy));
  tp__turn_over(turn);
  tp__strand_leave(strand);
}

void tp_turn_cancel(tp_turn *turn) {
  if (turn) tp__turn_cancel(&turn->core);
}

tp_text tp_turn_id(tp_turn *turn) {
  if (!turn) return (tp_text){0};
  if (!turn->core.is_named) tp__turn_name(&turn->core);
  return turn->core.ids[TP_ID_TURN];
}
tp_session *tp_turn_session(const tp_turn *turn) {
  if (!turn) return NULL;
  return turn->session;
}
tp_runtime *tp_turn_runtime(const tp_turn *turn) {
  if (!turn) return NULL;
  return turn->core.runtime;
}
