/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a driven turn. Each begins one thing; what it leads to stands right behind it. */
#include "phases/drive.h"
#include "phases/parts.h"
#include "phases/render.h"
#include "phases/tool_run.h"

enum { ITERATIONS_MAX = 50, TOOL_CALLS_MAX = 1000, MODEL_ATTEMPTS = 3, PREVIEW_BYTES = 4096, STOP_DENIALS_MAX = 8 };
enum { RESULTS_BYTES_MAX = 16 << 20 }; /* of all results of a response, where tool.batch shows them */

static uint32_t or_default(uint32_t option, uint32_t value) { return option ? option : value; }
static tp_text preview(tp_text text) { return (tp_text){text.data, tp__utf8_cut(text, PREVIEW_BYTES)}; }
/* A fallback has its own name. */
static const char *model_name(const tp__drive *d) {
  const tp_agent *agent = d->session->agent;
  if (d->model_index > 0) return tp__drive_model(d)->name;
  if (d->request.model_name) return d->request.model_name;
  return agent && agent->model_name ? agent->model_name : tp__drive_model(d)->name;
}

static void no_memory(tp__drive *d) { tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_NO_MEMORY, tp_text_of("no memory")); }

/* ---- the session's first turn ---- */

static tp_status keep_loaded(void *ctx, const tp_message *theirs) {
  tp_message message;
  TP__TRY(tp__message_read(theirs, &message, NULL));
  return tp__messages_add(ctx, &message);
}

static tp_status load_work(tp__host_call *call) {
  const tp_history *history = &call->session->history;
  tp_history_load request = {.struct_size = sizeof request,
                             .tenant = tp_text_of(call->session->tenant),
                             .session = tp_text_of(call->session->id),
                             .each = keep_loaded,
                             .ctx = &call->made->list};
  return history->load(history->self, &request, &call->fault);
}

static void load_ended(tp__host_call *call, tp_status status) {
  tp__drive *d = call->ctx;
  d->host_call = NULL;
  int64_t now_ns = tp__now_ns();
  d->load_ns = now_ns - d->waits_since_ns;
  tp__drive_note_step(d, TP_STEP_LOAD, d->waits_since_ns, now_ns, status);
  if (status == TP_OK) {
    tp__past_unref(d->session->past);
    d->session->past = call->made;
    call->made = NULL;
    tp__drive_go(d, TP__STEP_SESSION_START);
    return;
  }
  if (tp__drive_out_of_time(d)) return;
  tp_text reason = tp__arena_printf(&d->arena, "the history was not loaded: %s",
                                    call->message ? call->message : tp_status_text(status));
  tp__drive_stop(d, d->turn->core.is_cancelled ? TP_TURN_CANCELLED : TP_TURN_FAILED, status, reason);
}

void tp__step_load(tp__drive *d) {
  if (d->session->started) {
    tp__drive_go(d, TP__STEP_INTAKE);
  } else if (!d->session->history.load) {
    tp__drive_go(d, TP__STEP_SESSION_START);
  } else {
    tp__host_call *call = tp__host_call_new(d->turn, d->session, "history.load");
    if (!call || !(call->made = tp__past_new(&d->turn->core.runtime->allocator))) {
      if (call) tp__host_call_drop(call);
      no_memory(d);
      return;
    }
    call->work = load_work;
    call->on_end = load_ended;
    call->ctx = d;
    d->host_call = call;
    d->waits_since_ns = tp__now_ns();
    tp__host_call_start(call, d->turn->core.deadline_ns);
  }
}

static void after_session_start(tp__drive *d) {
  d->session->started = true;
  if (tp__drive_stopped(d, "session.start")) return;
  tp__drive_let_go(d);
  tp__drive_go(d, TP__STEP_INTAKE);
}

void tp__step_session_start(tp__drive *d) {
  tp__drive_text(d, TP_FIELD_SESSION_ID, tp_text_of(d->session->id));
  tp__drive_text(d, TP_FIELD_MODEL, tp_text_of(model_name(d)));
  tp__drive_phase(d, TP_PHASE_SESSION_START, false, after_session_start);
}

/* ---- what the user said ---- */

/* The message enters the turn as the chain left it, with its files. */
static bool take_user_message(tp__drive *d) {
  tp_message message = {.role = TP_ROLE_USER, .turn_id = d->turn->core.ids[TP_ID_TURN], .text = d->user_text};
  return tp__parts_of_files(&d->arena, d->request.files, &message.parts) == TP_OK &&
         tp__messages_add(&d->messages, &message) == TP_OK;
}

static void after_intake(tp__drive *d) {
  const tp_merged *merged = d->phase.result.merged;
  bool ok = true;
  if (d->phase.result.outcome == TP_OK && tp_merged_replaced(merged, TP_FIELD_TEXT))
    ok = tp__arena_text(&d->arena, tp_merged_text(merged, TP_FIELD_TEXT), &d->user_text);
  if (d->phase.result.outcome == TP_OK && tp_merged_replaced(merged, TP_FIELD_FILES))
    ok = ok && tp__arena_text(&d->arena, tp_merged_text(merged, TP_FIELD_FILES), &d->request.files);
  if (merged && merged->lists[TP_KIND_SIGNAL].count > 0)
    ok = ok && tp__render_signals(&d->arena, "turn.intake", &merged->lists[TP_KIND_SIGNAL], &d->signals) == TP_OK;
  if (!ok || !take_user_message(d)) {
    tp__drive_let_go(d);
    no_memory(d);
    return;
  }
  if (tp__drive_stopped(d, "turn.intake")) return;
  tp__drive_let_go(d);
  tp__drive_go(d, TP__STEP_PRE_POLICY);
}

/* As the phases before left it. */
static void put_user_input(tp__drive *d) {
  tp__drive_text(d, TP_FIELD_TEXT, d->user_text);
  if (d->request.files.size > 0) tp__drive_value(d, TP_FIELD_FILES, d->request.files);
}

void tp__step_intake(tp__drive *d) {
  put_user_input(d);
  tp__drive_phase(d, TP_PHASE_TURN_INTAKE, false, after_intake);
}

/* ---- policy, context, tools, sections ---- */

static void after_pre_policy(tp__drive *d) {
  if (tp__drive_stopped(d, "turn.pre_policy")) return;
  tp__drive_let_go(d);
  tp__drive_go(d, TP__STEP_PRE_CONTEXT);
}

void tp__step_pre_policy(tp__drive *d) {
  put_user_input(d);
  tp__drive_text(d, TP_FIELD_MODEL, tp_text_of(model_name(d)));
  tp__drive_phase(d, TP_PHASE_TURN_PRE_POLICY, false, after_pre_policy);
}

static void after_pre_context(tp__drive *d) {
  if (tp__drive_stopped(d, "turn.pre_prompt_context")) return;
  tp__drive_let_go(d);
  tp__drive_go(d, TP__STEP_PRE_TOOLS);
}

void tp__step_pre_context(tp__drive *d) {
  put_user_input(d);
  tp__drive_text(d, TP_FIELD_MODEL, tp_text_of(model_name(d)));
  tp__drive_phase(d, TP_PHASE_TURN_PRE_PROMPT_CONTEXT, false, after_pre_context);
}

/* The names of the turn's tools as an array of texts, in the drive's arena. */
static bool tool_names(tp__drive *d, tp_text *ret_value) {
  tp_writer *writer;
  if (tp_writer_new(&d->turn->core.runtime->blocks.as_allocator, &writer) != TP_OK) return false;
  const tp__toolset *tools = d->turn->toolset;
  size_t count = 0;
  for (size_t i = 0; tools && i < tools->count; i++) count += !tools->entries[i].out_of_scope;
  tp_write_array(writer, count);
  for (size_t i = 0; tools && i < tools->count; i++)
    if (!tools->entries[i].out_of_scope) tp_write_string(writer, tools->entries[i].tool->name);
  tp_text value;
  bool ok = tp_writer_finish(writer, &value) == TP_OK && tp__arena_text(&d->arena, value, ret_value);
  tp_writer_free(writer);
  return ok;
}

/* Whether a subscription of the phase could read its fields. */
static bool anybody_in(const tp__drive *d, uint32_t phase) { return tp__turn_plan(&d->turn->core, phase) != NULL; }

static bool put_tool_names(tp__drive *d, uint32_t phase) {
  tp_text names;
  if (!anybody_in(d, phase)) return true;
  if (!tool_names(d, &names)) return false;
  tp__drive_value(d, TP_FIELD_TOOL_NAMES, names);
  return true;
}

static void after_pre_tools(tp__drive *d) {
  if (tp__drive_stopped(d, "turn.pre_tool_materialization")) return;
  tp__drive_let_go(d);
  tp__drive_go(d, TP__STEP_PRE_COMPILE);
}

void tp__step_pre_tools(tp__drive *d) {
  if (!put_tool_names(d, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION)) {
    no_memory(d);
    return;
  }
  tp__drive_int(d, TP_FIELD_CAN_CALL_TOOLS, !tp__drive_model(d)->no_tools);
  tp__drive_phase(d, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, false, after_pre_tools);
}

static void after_pre_compile(tp__drive *d) {
  if (tp__drive_stopped(d, "turn.pre_prompt_compile")) return;
  d->sections = d->phase.result;
  d->phase.result = (tp_phase_result){.struct_size = sizeof(tp_phase_result)};
  tp__drive_go(d, TP__STEP_COMPILE);
}

void tp__step_pre_compile(tp__drive *d) {
  if (!put_tool_names(d, TP_PHASE_TURN_PRE_PROMPT_COMPILE)) {
    no_memory(d);
    return;
  }
  tp__drive_phase(d, TP_PHASE_TURN_PRE_PROMPT_COMPILE, false, after_pre_compile);
}

/* ---- the request's standing part ---- */

void tp__step_compile(tp__drive *d) {
  static const tp__merged_list none;
  const tp_merged *merged = d->sections.merged;
  tp_text standing = d->request.system;
  if (standing.size == 0) standing = tp_text_of(d->session->agent ? d->session->agent->system : NULL);
  bool ok = tp__render_system(&d->arena, standing, merged ? &merged->lists[TP_KIND_PROMPT_SECTION] : &none,
                              &d->system) == TP_OK &&
            tp__arena_text(&d->arena, d->system, &d->system); /* its own: sections may go */
  tp__phase_let_go(&d->sections);
  if (ok) tp__drive_go(d, TP__STEP_POST_COMPILE);
  else no_memory(d);
}

static void after_post_compile(tp__drive *d) {
  const tp_merged *merged = d->phase.result.merged;
  bool ok = true;
  if (tp_merged_replaced(merged, TP_FIELD_SYSTEM))
    ok = tp__arena_text(&d->arena, tp_merged_text(merged, TP_FIELD_SYSTEM), &d->system);
  if (tp__drive_stopped(d, "turn.post_prompt_compile")) return;
  tp__drive_let_go(d);
  if (ok) tp__drive_go(d, TP__STEP_COMPACT);
  else no_memory(d);
}

static const char *role_name(tp_role role) {
  switch (role) {
    case TP_ROLE_USER:
      return "user";
    case TP_ROLE_ASSISTANT:
      return "assistant";
    case TP_ROLE_TOOL:
      return "tool";
    case TP_ROLE_SYSTEM:
      return "system";
    case TP_ROLE_END:
    case TP_ROLE_FORCE_32:
      break;
  }
  return "end";
}

static void write_messages(const tp__messages *messages, tp_writer *writer) {
  for (size_t i = 0; i < messages->count; i++) {
    tp_write_map(writer, 2);
    tp_write_string(writer, "role");
    tp_write_string(writer, role_name(messages->items[i]->role));
    tp_write_string(writer, "text");
    tp_write_text(writer, messages->items[i]->text);
  }
}

/* What the model will be asked, for who reads it; of it the system text alone can be replaced. */
static bool write_request(tp__drive *d, tp_text *ret_value) {
  const tp__messages *past = &tp__drive_past(d)->list;
  const tp_allocator *blocks = &d->turn->core.runtime->blocks.as_allocator;
  tp_text names, value;
  tp_writer *writer;
  if (!tool_names(d, &names) || tp_writer_new(blocks, &writer) != TP_OK) return false;
  bool parameters = d->request.parameters.size > 0, files = d->request.files.size > 0;
  tp_write_map(writer, (size_t)3 + parameters + files);
  tp_write_string(writer, "messages");
  tp_write_array(writer, past->count + d->messages.count);
  write_messages(past, writer);
  write_messages(&d->messages, writer);
  tp_write_string(writer, "tools");
  tp_write_value(writer, names);
  tp_write_string(writer, "model");
  tp_write_string(writer, model_name(d) ? model_name(d) : "");
  if (parameters) {
    tp_write_string(writer, "parameters");
    tp_write_value(writer, d->request.parameters);
  }
  if (files) {
    tp_write_string(writer, "files");
    tp_write_value(writer, d->request.files);
  }
  bool ok = tp_writer_finish(writer, &value) == TP_OK && tp__arena_text(&d->arena, value, ret_value);
  tp_writer_free(writer);
  return ok;
}

void tp__step_post_compile(tp__drive *d) {
  tp_text request = {NULL, 0};
  if (anybody_in(d, TP_PHASE_TURN_POST_PROMPT_COMPILE) && !write_request(d, &request)) {
    no_memory(d);
    return;
  }
  tp__drive_text(d, TP_FIELD_SYSTEM, d->system);
  if (request.size > 0) tp__drive_value(d, TP_FIELD_REQUEST, request);
  tp__drive_phase(d, TP_PHASE_TURN_POST_PROMPT_COMPILE, false, after_post_compile);
}

/* ---- the model ---- */

static size_t message_bytes(const tp__drive *d) {
  size_t bytes = d->system.size + tp__past_bytes(tp__drive_past(d));
  for (size_t i = 0; i < d->messages.count; i++) bytes += d->messages.items[i]->text.size;
  return bytes;
}

static void after_model_pre(tp__drive *d) {
  tp__phase_let_go(&d->request_context); /* of the attempt before */
  if (tp__drive_stopped(d, "model.pre")) return;
  d->request_context = d->phase.result;
  d->phase.result = (tp_phase_result){.struct_size = sizeof(tp_phase_result)};
  tp__drive_go(d, TP__STEP_MODEL);
}

void tp__step_model_pre(tp__drive *d) {
  if (d->model_attempt == 0 && d->iterations >= or_default(d->request.iterations_max, ITERATIONS_MAX)) {
    tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_TOO_LARGE, tp_text_of("the limit of model requests was reached"));
    return;
  }
  tp__drive_choose_model(d);
  d->model_attempt++;
  tp__drive_text(d, TP_FIELD_MODEL, tp_text_of(model_name(d)));
  tp__drive_int(d, TP_FIELD_ATTEMPT, d->model_attempt);
  tp__drive_int(d, TP_FIELD_MESSAGE_COUNT, (int64_t)(tp__drive_past(d)->list.count + d->messages.count));
  tp__drive_int(d, TP_FIELD_REQUEST_BYTES, (int64_t)message_bytes(d));
  tp__drive_phase(d, TP_PHASE_MODEL_PRE, false, after_model_pre);
}

static bool keep_response(tp__drive *d, const tp_model_response *response) {
  if (!tp__arena_text(&d->arena, response->text, &d->response_text) ||
      !tp__calls_copy(&d->arena, response->calls, response->call_count, &d->calls))
    return false;
  d->call_count = response->call_count;
  for (size_t i = 0; i < d->call_count; i++) { /* results answer calls by id */
    tp_tool_call *call = (tp_tool_call *)(uintptr_t)d->calls[i]; /* the copy is ours */
    if (call->id.size == 0) call->id = tp__arena_printf(&d->arena, "call-%u-%zu", d->iterations, i);
    if (!call->id.data) return false;
  }
  return tp__arena_text(&d->arena, response->stop_reason, &d->stop_reason);
}

/* A provider's numbers come from outside: negative ones count as none, and no sum runs over. */
static int64_t at_least_none(int64_t number) { return number > 0 ? number : 0; }
static int64_t sum(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }

void tp__drive_count(tp__drive *d, const tp_model_response *response) {
  d->last_input_tokens = at_least_none(response->input_tokens);
  d->last_output_tokens = at_least_none(response->output_tokens);
  d->last_cost_micros = at_least_none(response->cost_micros);
  d->input_tokens = sum(d->input_tokens, d->last_input_tokens);
  d->output_tokens = sum(d->output_tokens, d->last_output_tokens);
  d->cost_micros = sum(d->cost_micros, d->last_cost_micros);
}

static void model_succeeded(tp__drive *d, const tp_model_response *response) {
  d->iterations++;
  d->model_attempt = 0;
  d->requested = true;
  d->compacted = false;
  tp__reminders_delivered(&d->session->reminders);
  tp__drive_count(d, response);
  if (keep_response(d, response)) tp__drive_go(d, TP__STEP_MODEL_RESPONSE);
  else no_memory(d);
}

static void model_failed(tp__drive *d, tp__model_call *call, tp_status status) {
  if (d->turn->core.is_cancelled) {
    tp__drive_stop(d, TP_TURN_CANCELLED, TP_ERR_CANCELLED, tp_text_of("the turn was cancelled"));
  } else if (status == TP_ERR_TIMEOUT) {
    tp__drive_stop(d, TP_TURN_TIMED_OUT, status, tp_text_of("the model did not answer in time"));
  } else if (status == TP_ERR_CONTEXT_LENGTH && !call->any_delta && tp__compaction_may(d)) {
    d->too_long = true;
    tp__drive_go(d, TP__STEP_COMPACT);
  } else if (tp__drive_ask_again(d, call, status, or_default(d->request.model_attempts, MODEL_ATTEMPTS))) {
    tp__drive_go(d, TP__STEP_MODEL_PRE);
  } else {
    tp_text reason = tp__arena_printf(&d->arena, "the model failed: %s",
                                      call->failure_message ? call->failure_message : tp_status_text(status));
    tp__drive_stop(d, TP_TURN_FAILED, status, reason);
  }
}

static void model_delta(tp__model_call *call, tp_text text) {
  tp__drive *d = call->ctx;
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_MODEL_DELTA, .visibility = TP_VISIBILITY_USER_VISIBLE, .text = text});
}

static void model_ended(tp__model_call *call, tp_status status) {
  tp__drive *d = call->ctx;
  d->model_call = NULL;
  call->on_delta = NULL;
  const tp_model_response *response = status == TP_OK ? &call->response : NULL;
  int64_t started_ns = (int64_t)tp__a64_load_acquire(&call->base.started_ns), ended_ns = tp__now_ns();
  if (started_ns) {
    d->model_ns += ended_ns - started_ns;
    tp__drive_note_request(d, model_name(d), started_ns, ended_ns, status);
  }
  tp__drive_note_answer(d, call, status);
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_MODEL_END,
                                 .visibility = TP_VISIBILITY_USER_VISIBLE,
                                 .status = status,
                                 .input_tokens = response ? at_least_none(response->input_tokens) : 0,
                                 .output_tokens = response ? at_least_none(response->output_tokens) : 0,
                                 .cost_micros = response ? at_least_none(response->cost_micros) : 0,
                                 .text = response ? response->text : (tp_text){NULL, 0},
                                 .model = tp_text_of(model_name(d)),
                                 .started_ns = started_ns,
                                 .ended_ns = ended_ns});
  if (status == TP_OK) model_succeeded(d, &call->response);
  else model_failed(d, call, status);
}

void tp__step_model(tp__drive *d) {
  const tp_model *model = tp__drive_model(d);
  if (!model->start && !model->inbox) {
    tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_MODEL, tp_text_of("neither the session nor its agent has a model"));
    return;
  }
  tp_model_request request;
  tp__lent lent = {NULL, NULL};
  tp__model_call *call =
      tp__request_make(d, &request, &lent) == TP_OK
          ? tp__model_call_new(&d->turn->core, d->turn->toolset, d->session, model, &request)
          : NULL;
  if (!call) {
    tp__lent_give_back(&lent);
    no_memory(d);
    return;
  }
  call->lent = lent;
  call->on_delta = model_delta;
  call->each_delta = d->request.each_delta;
  call->on_end = model_ended;
  call->ctx = d;
  d->model_call = call;
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_MODEL_BEGIN,
                                 .visibility = TP_VISIBILITY_USER_VISIBLE,
                                 .model = tp_text_of(model_name(d))});
  tp__model_call_start(call);
}

/* The calls of the response; behind their dispatch with what they came to. @param text  of the result. */
static void write_call(tp_writer *writer, const tp_tool_call *call, const tp_tool_result *result, tp_text text) {
  bool waited = result && result->waited_ns > 0;
  tp_write_map(writer, 3 + (result ? 2 : 0) + (waited ? 2 : 0));
  tp_write_string(writer, "id");
  tp_write_text(writer, call->id);
  tp_write_string(writer, "tool");
  tp_write_text(writer, call->name);
  tp_write_string(writer, call->malformed ? "malformed" : "arguments");
  if (call->malformed) tp_write_bool(writer, true);
  else tp_write_value(writer, call->arguments);
  if (!result) return;
  tp_write_string(writer, "kind");
  tp_write_string(writer, tp_tool_result_name(result->kind));
  tp_write_string(writer, "result");
  tp_write_text(writer, text);
  if (!waited) return;
  tp_write_string(writer, "waited_ms");
  tp_write_int(writer, result->waited_ns / TP__NS_PER_MS);
  tp_write_string(writer, "waited_key");
  tp_write_text(writer, result->waited_key);
}

/* Tools may have results that are longer than a value may be. */
static bool write_result(tp__drive *d, tp_writer *writer, size_t index) {
  tp_text text = d->results[index].text;
  size_t bytes_max = RESULTS_BYTES_MAX / d->call_count;
  if (text.size > bytes_max && !tp__tool_text(&d->arena, text, bytes_max, &text)) return false;
  write_call(writer, d->calls[index], &d->results[index], text);
  return true;
}

/* For a phase without subscriptions nothing is written. */
static bool write_calls(tp__drive *d, uint32_t phase, tp_text *ret_value) {
  tp_writer *writer;
  *ret_value = (tp_text){NULL, 0};
  if (!anybody_in(d, phase)) return true;
  if (tp_writer_new(&d->turn->core.runtime->blocks.as_allocator, &writer) != TP_OK) return false;
  tp_write_array(writer, d->call_count);
  bool ok = true;
  for (size_t i = 0; ok && i < d->call_count; i++) {
    if (d->results) ok = write_result(d, writer, i);
    else write_call(writer, d->calls[i], NULL, (tp_text){NULL, 0});
  }
  tp_text value;
  ok = ok && tp_writer_finish(writer, &value) == TP_OK && tp__arena_text(&d->arena, value, ret_value);
  tp_writer_free(writer);
  return ok;
}

static void after_model_response(tp__drive *d) {
  const tp_merged *merged = d->phase.result.merged;
  bool ok = true;
  if (tp_merged_replaced(merged, TP_FIELD_RESPONSE_TEXT))
    ok = tp__arena_text(&d->arena, tp_merged_text(merged, TP_FIELD_RESPONSE_TEXT), &d->response_text);
  tp_text why = {"", 0};
  if (ok && tp_merged_replaced(merged, TP_FIELD_CALLS))
    ok = tp__response_take_calls(d, tp_merged_text(merged, TP_FIELD_CALLS), &why);
  if (tp__drive_stopped(d, "model.response")) return;
  tp__drive_let_go(d);
  if (why.size > 0) {
    tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_MALFORMED, why);
    return;
  }
  tp_message message = {.role = TP_ROLE_ASSISTANT,
                        .turn_id = d->turn->core.ids[TP_ID_TURN],
                        .text = d->response_text,
                        .calls = d->calls,
                        .call_count = d->call_count};
  if (ok && tp__messages_add(&d->messages, &message) == TP_OK) tp__drive_go(d, TP__STEP_MODEL_POST);
  else no_memory(d);
}

void tp__step_model_response(tp__drive *d) {
  tp_text calls;
  d->results = NULL;
  if (!write_calls(d, TP_PHASE_MODEL_RESPONSE, &calls)) {
    no_memory(d);
    return;
  }
  tp__drive_text(d, TP_FIELD_RESPONSE_TEXT, d->response_text);
  tp__drive_text(d, TP_FIELD_STOP_REASON, d->stop_reason);
  if (calls.size > 0) tp__drive_value(d, TP_FIELD_CALLS, calls);
  tp__drive_phase(d, TP_PHASE_MODEL_RESPONSE, false, after_model_response);
}

static bool over_limits(tp__drive *d) {
  const tp_turn_request *limits = &d->request;
  const char *which = NULL;
  if (limits->tokens_max && sum(d->input_tokens, d->output_tokens) > limits->tokens_max)
    which = "the limit of tokens was passed";
  else if (limits->cost_micros_max && d->cost_micros > limits->cost_micros_max) which = "the limit of cost was passed";
  else if (d->tool_calls + d->call_count > or_default(limits->tool_calls_max, TOOL_CALLS_MAX))
    which = "the limit of tool calls was passed";
  if (which) tp__drive_stop(d, TP_TURN_FAILED, TP_ERR_TOO_LARGE, tp_text_of(which));
  return which != NULL;
}

static void after_model_post(tp__drive *d) {
  if (tp__drive_stopped(d, "model.post")) return;
  tp__drive_let_go(d);
  if (d->call_count == 0) tp__drive_go(d, TP__STEP_TURN_STOP);
  else if (!over_limits(d)) tp__drive_go(d, TP__STEP_TOOLS);
}

void tp__step_model_post(tp__drive *d) {
  tp__drive_text(d, TP_FIELD_STOP_REASON, d->stop_reason);
  tp__drive_int(d, TP_FIELD_INPUT_TOKENS, d->last_input_tokens);
  tp__drive_int(d, TP_FIELD_OUTPUT_TOKENS, d->last_output_tokens);
  tp__drive_int(d, TP_FIELD_COST_MICROS, d->last_cost_micros);
  tp__drive_int(d, TP_FIELD_CALL_COUNT, (int64_t)d->call_count);
  tp__drive_phase(d, TP_PHASE_MODEL_POST, false, after_model_post);
}

/* ---- tools ---- */

static void remind(tp_turn *turn, const char *subscription, tp_text text, bool block) {
  tp__drive_remind(turn->drive, subscription, text, block);
}

/* Results enter the turn in call order, whatever the order they came in. Their texts go with the dispatch: what
 * tool.batch shows is in the turn's own memory. */
static bool take_results(tp__drive *d) {
  for (size_t i = 0; i < d->call_count; i++) {
    tp_tool_result *result = &d->results[i];
    tp_message message = {.role = TP_ROLE_TOOL,
                          .is_error = result->kind != TP_TOOL_OK,
                          .turn_id = d->turn->core.ids[TP_ID_TURN],
                          .text = result->text,
                          .call_id = d->calls[i]->id,
                          .name = d->calls[i]->name};
    if (tp__messages_add(&d->messages, &message) != TP_OK) return false;
    result->text = d->messages.items[d->messages.count - 1]->text;
    if (!tp__arena_text(&d->arena, result->waited_key, &result->waited_key)) return false;
    d->tool_event_count++;
    if (result->started) tp__abilities_add(&d->session->abilities, d->calls[i]->name);
  }
  return true;
}

static void tools_ended(tp__dispatch *dispatch) {
  tp__drive *d = dispatch->ctx;
  d->tools_ns += tp__now_ns() - d->waits_since_ns;
  bool ok = take_results(d);
  d->tool_calls += (uint32_t)d->call_count;
  tp__dispatch_free(dispatch);
  if (ok) tp__drive_go(d, TP__STEP_TOOL_BATCH);
  else no_memory(d);
}

void tp__step_tools(tp__drive *d) {
  tp__dispatch *dispatch;
  d->waits_since_ns = tp__now_ns();
  d->results = tp__arena_zero(&d->arena, d->call_count * sizeof *d->results);
  if (!d->results || tp__dispatch_begin(d->turn, d->calls, d->call_count, d->results, remind, tools_ended, d,
                                        &dispatch) != TP_OK)
    no_memory(d);
}

/* Why the turn ends otherwise than its model and its hooks would have it; for the user and the log. */
static void note_end(tp__drive *d, uint32_t phase, const char *key, const char *subscription, tp_text text) {
  if (!text.data) text = tp_text_of("the turn ends by a hook, or in spite of one");
  tp_contribution note = {.struct_size = sizeof(tp_contribution),
                          .kind = TP_KIND_DIAGNOSTIC,
                          .severity = TP_SEVERITY_WARNING,
                          .key = tp_text_of(key),
                          .text = text};
  tp__log(d->turn->core.runtime, TP_LOG_WARNING, &(tp__log_subject){.phase = phase, .ids = d->turn->core.ids}, "%.*s",
          (int)text.size, text.data);
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_DIAGNOSTIC,
                                 .phase = phase,
                                 .visibility = TP_VISIBILITY_USER_VISIBLE,
                                 .contribution = &note,
                                 .subscription = subscription,
                                 .text = text});
}

static void note_batch_end(tp__drive *d) {
  const tp_phase_result *result = &d->phase.result;
  const char *subscription = result->subscription ? result->subscription : "";
  note_end(d, TP_PHASE_TOOL_BATCH, "tool_batch.ended", subscription,
           tp__arena_printf(&d->arena, "hook %s ended the turn behind its tools: %.*s", subscription,
                            (int)result->reason.size, result->reason.data ? result->reason.data : ""));
}

/* A denial ends the loop: what the tools did is done, and stays in the history. */
static void after_tool_batch(tp__drive *d) {
  bool denied = d->phase.status == TP_OK && d->phase.result.outcome == TP_ERR_DENIED;
  if (denied && !tp__drive_out_of_time(d)) {
    note_batch_end(d);
    tp__drive_let_go(d);
    tp__drive_go(d, TP__STEP_COMMIT);
    return;
  }
  if (denied || tp__drive_stopped(d, "tool.batch")) return;
  tp__drive_let_go(d);
  tp__drive_go(d, TP__STEP_MODEL_PRE);
}

void tp__step_tool_batch(tp__drive *d) {
  tp_text calls;
  if (!write_calls(d, TP_PHASE_TOOL_BATCH, &calls)) {
    no_memory(d);
    return;
  }
  if (calls.size > 0) tp__drive_value(d, TP_FIELD_CALLS, calls);
  tp__drive_phase(d, TP_PHASE_TOOL_BATCH, false, after_tool_batch);
}

/* ---- whether it may end ---- */

/* The model reads who objects and why as a message of the user's role: it is the last one, and providers want that. */
static bool take_objection(tp__drive *d, tp_text objection) {
  tp_message message = {.role = TP_ROLE_USER, .turn_id = d->turn->core.ids[TP_ID_TURN], .text = objection};
  return objection.data && tp__messages_add(&d->messages, &message) == TP_OK;
}

static void note_overruled(tp__drive *d, const char *subscription, tp_text objection) {
  note_end(d, TP_PHASE_TURN_STOP, "turn_stop.overruled", subscription,
           tp__arena_printf(&d->arena, "the turn ends, since it was kept from it %d times: %.*s", STOP_DENIALS_MAX,
                            (int)objection.size, objection.data));
}

static void turn_stop_denied(tp__drive *d) {
  const tp_phase_result *result = &d->phase.result;
  const char *subscription = result->subscription ? result->subscription : "";
  tp_text objection =
      tp__arena_printf(&d->arena, "hook %s does not let the turn end: %.*s", subscription, (int)result->reason.size,
                       result->reason.data ? result->reason.data : "");
  bool overruled = d->stop_denials == STOP_DENIALS_MAX;
  if (overruled) note_overruled(d, subscription, objection.data ? objection : tp_text_of("no memory"));
  tp__drive_let_go(d);
  if (overruled) {
    tp__drive_go(d, TP__STEP_COMMIT);
  } else if (!over_limits(d)) {
    d->stop_denials++;
    if (take_objection(d, objection)) tp__drive_go(d, TP__STEP_MODEL_PRE);
    else no_memory(d);
  }
}

static void after_turn_stop(tp__drive *d) {
  bool denied = d->phase.status == TP_OK && d->phase.result.outcome == TP_ERR_DENIED;
  if (denied && !tp__drive_out_of_time(d)) turn_stop_denied(d);
  if (denied || tp__drive_stopped(d, "turn.stop")) return;
  tp__drive_let_go(d);
  tp__drive_go(d, TP__STEP_COMMIT);
}

void tp__step_turn_stop(tp__drive *d) {
  tp__drive_text(d, TP_FIELD_RESPONSE_TEXT, d->response_text);
  tp__drive_text(d, TP_FIELD_STOP_REASON, d->stop_reason);
  tp__drive_int(d, TP_FIELD_STOP_DENIALS, d->stop_denials);
  tp__drive_phase(d, TP_PHASE_TURN_STOP, false, after_turn_stop);
}

/* ---- the end ---- */

/* The messages behind those that count. They stay the past's, also when it gets others in their place. @return false
 * without memory. */
static bool make_append(tp__host_call *call, tp__past *past, size_t count) {
  const tp_message **batch = tp__arena_alloc(&call->arena, count * sizeof *batch);
  if (!batch) return false;
  memcpy(batch, past->list.items + past->list.count, count * sizeof *batch);
  call->past = tp__past_ref(past);
  call->request = (tp_history_append){.struct_size = sizeof call->request,
                                      .tenant = tp_text_of(call->session->tenant),
                                      .session = tp_text_of(call->session->id),
                                      .messages = batch,
                                      .message_count = count};
  return true;
}

static tp_status append_work(tp__host_call *call) {
  const tp_history *history = &call->session->history;
  return history->append(history->self, &call->request, &call->fault);
}

/* The batch of a turn that completed is all of it; of any other its user message and a typed end mark, so that no call
 * is ever without its result. The files of such a message are left out: they may be why it failed, and would make every
 * later turn fail. */
static tp_status fill_batch(tp__drive *d, tp__messages *batch) {
  bool completed = d->outcome == TP_TURN_COMPLETED;
  size_t kept = completed ? d->messages.count : d->messages.count > 0 ? 1 : 0;
  if (kept == 0 && !take_user_message(d)) return TP_ERR_NO_MEMORY;
  if (kept == 0) kept = 1;
  if (completed) {
    for (size_t i = 0; i < kept; i++) TP__TRY(tp__messages_add(batch, d->messages.items[i]));
    return TP_OK;
  }
  tp_message said = *d->messages.items[0]; /* a request that was given up may still read it */
  said.parts = (tp_text){NULL, 0};
  TP__TRY(tp__messages_add(batch, &said));
  tp_message mark = {.role = TP_ROLE_END,
                     .turn_id = d->turn->core.ids[TP_ID_TURN],
                     .text = d->reason,
                     .name = tp_text_of(tp_turn_outcome_name(d->outcome))};
  return tp__messages_add(batch, &mark);
}

static void after_commit(tp__drive *d, tp_status status, const char *message) {
  if (status != TP_OK && (d->outcome == TP_TURN_COMPLETED || d->outcome == TP_TURN_CANCELLED)) {
    d->outcome = TP_TURN_FAILED;
    d->code = status;
    d->reason = tp__arena_printf(&d->arena, "the turn was not stored: %s",
                                 message && message[0] ? message : tp_status_text(status));
  }
  tp__drive_go(d,
               d->outcome == TP_TURN_FAILED || d->outcome == TP_TURN_TIMED_OUT ? TP__STEP_ERROR : TP__STEP_POST_TURN);
}

/* What the history has, the session has: the order is history first. The memory for it was taken before, so that
 * nothing can fail between the two. */
static void append_ended(tp__host_call *call, tp_status status) {
  tp__drive *d = call->ctx;
  d->host_call = NULL;
  int64_t now_ns = tp__now_ns();
  d->append_ns = now_ns - d->waits_since_ns;
  tp__drive_note_step(d, TP_STEP_APPEND, d->waits_since_ns, now_ns, status);
  if (status == TP_OK) d->session->past->list.count += call->request.message_count;
  after_commit(d, status, call->message);
}

void tp__step_commit(tp__drive *d) {
  tp__phase_let_go(&d->sections);
  tp__phase_let_go(&d->request_context);
  tp__past *past = d->session->past;
  size_t before = past->list.count;
  tp_status status = fill_batch(d, &past->list);
  size_t added = past->list.count - before;
  if (status != TP_OK || d->session->history.load) past->list.count = before; /* they count when the history has them */
  if (status != TP_OK || !d->session->history.load) {
    after_commit(d, status, NULL);
    return;
  }
  tp__host_call *call = tp__host_call_new(d->turn, d->session, "history.append");
  if (!call || !make_append(call, past, added)) {
    if (call) tp__host_call_drop(call);
    after_commit(d, TP_ERR_NO_MEMORY, NULL);
    return;
  }
  call->work = d->session->history.append ? append_work : NULL;
  call->on_end = append_ended;
  call->ctx = d;
  d->host_call = call;
  d->waits_since_ns = tp__now_ns();
  tp__host_call_start(call, TP__NEVER); /* whatever the turn's deadline: what was done is kept */
}

static void after_error(tp__drive *d) {
  tp__drive_let_go(d);
  tp__drive_go(d, TP__STEP_POST_TURN);
}

void tp__step_error(tp__drive *d) {
  tp__drive_int(d, TP_FIELD_CODE, d->code);
  tp__drive_text(d, TP_FIELD_MESSAGE, d->reason);
  tp__drive_phase(d, TP_PHASE_RUNTIME_ERROR, true, after_error);
}

void tp__drive_schedule_jobs(tp__drive *d) {
  const tp_merged *merged = d->phase.result.merged;
  for (size_t i = 0; i < tp_merged_count(merged, TP_KIND_BACKGROUND_JOB); i++)
    (void)!tp__jobs_add_contributed(&d->turn->core, tp_merged_get(merged, TP_KIND_BACKGROUND_JOB, i)->contribution);
}

static void after_post_turn(tp__drive *d) {
  tp__drive_schedule_jobs(d);
  tp__drive_let_go(d);
  tp__drive_go(d, TP__STEP_END);
}

/* How each call of the turn ended, in call order. */
static bool tool_events(tp__drive *d, tp_text *ret_value) {
  tp_writer *writer;
  if (tp_writer_new(&d->turn->core.runtime->blocks.as_allocator, &writer) != TP_OK) return false;
  tp_write_array(writer, d->tool_event_count);
  for (size_t i = 0; i < d->messages.count && d->tool_event_count > 0; i++) {
    const tp_message *message = d->messages.items[i];
    if (message->role != TP_ROLE_TOOL) continue;
    tp_write_map(writer, 2);
    tp_write_string(writer, "tool");
    tp_write_text(writer, message->name);
    tp_write_string(writer, "is_error");
    tp_write_bool(writer, message->is_error);
  }
  tp_text value;
  bool ok = tp_writer_finish(writer, &value) == TP_OK && tp__arena_text(&d->arena, value, ret_value);
  tp_writer_free(writer);
  return ok;
}

void tp__step_post_turn(tp__drive *d) {
  tp_text events = {NULL, 0};
  tp__drive_text(d, TP_FIELD_OUTCOME, tp_text_of(tp_turn_outcome_name(d->outcome)));
  tp__drive_text(d, TP_FIELD_USER_PREVIEW, preview(d->user_text));
  tp__drive_text(d, TP_FIELD_ASSISTANT_PREVIEW, preview(d->response_text));
  if (anybody_in(d, TP_PHASE_TURN_POST_TURN) && tool_events(d, &events))
    tp__drive_value(d, TP_FIELD_TOOL_EVENTS, events);
  tp__drive_int(d, TP_FIELD_SAID_AT, d->request.said_unix_ms);
  tp__drive_phase(d, TP_PHASE_TURN_POST_TURN, true, after_post_turn);
}
