/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/tool_call.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "domains/mcp/asked.h"
#include "domains/mcp/changed.h"
#include "domains/mcp/result.h"
#include "domains/mcp/sample.h"
#include "domains/mcp/server/server.h"

enum {
  INPUTS_MAX = 16, /* the most inputs that a server may want in one round */
  ROUNDS_MAX = 8,  /* how often a server may want more inputs before it answers a call */
  TASK_ID_BYTES_MAX = 1024,
  POLL_MS = 1000, /* the pause between questions about a task, when the server names none */
  POLL_MS_MIN = 50,
  POLL_MS_MAX = 30000
};

/* A run of a tool without an answer. References: one of the deferral, one of the function that makes the request, and
 * one of the open request; between two requests a question to a person, or the alarm, has that one. Its holder makes
 * the next request, or completes the call. */
typedef struct call {
  tp__references refs;
  const tp__mcp_tool *tool;
  tp__mcp_tools *tools;     /* the list of the tool; holds a reference */
  tp__mcp_session *session; /* holds a reference */
  tp_token token;
  tp__bytes arguments;               /* a value: kept for the request that is sent again with the inputs */
  tp__bytes traceparent, tracestate; /* those of the gateway's client; empty: none */
  tp__mcp_origin origin;
  int rounds;
  int64_t id; /* the id of the newest request; 0: none. Written and read by the session, under its lock */
  /* between two requests, of who has the reference */
  tp__bytes wanted;     /* value: the result that wants inputs */
  tp_writer *responses; /* NULL: no inputs are wanted */
  size_t input;         /* the index of the next input */
  tp__bytes task;       /* text: the id of the task under which the server goes on; empty: the call is no task */
  tp__bytes known;      /* the inputs that the task has asked for: keys, each after its size */
  uint32_t poll_ms;
  tp__mcp_alarm alarm;
  bool asks; /* set while a person or a model is asked. The function that clears it goes on with the call. Under the
                session's lock */
  char tenant[TP_ID_BYTES_MAX + 1];
} call;

static void call_ref(void *ctx) { tp__references_ref(&((call *)ctx)->refs); }

static void call_unref(void *ctx) {
  call *c = ctx;
  if (!tp__references_unref(&c->refs)) return;
  tp__mcp_tools_unref(c->tools);
  tp__mcp_session_unref(c->session);
  tp__bytes_fini(&c->arguments);
  tp__bytes_fini(&c->traceparent);
  tp__bytes_fini(&c->tracestate);
  tp__bytes_fini(&c->wanted);
  tp__bytes_fini(&c->task);
  tp__bytes_fini(&c->known);
  tp_writer_free(c->responses);
  tp__heap_free(c, sizeof *c);
}

/* Sets `asks`. @return the value before. */
static bool set_asks(call *c, bool asks) {
  tp__lock_acquire(&c->session->lock);
  bool before = c->asks;
  c->asks = asks;
  tp__lock_release(&c->session->lock);
  return before;
}

static void ignore_answer(void *ctx, const tp__mcp_answer *answer) { (void)ctx, (void)answer; }

/* Notifies the server that the call does not wait for the task any more. */
static void cancel_task(const call *c) {
  const tp__mcp_pair pairs[] = {{"taskId", tp__bytes_text(&c->task), false}};
  const tp__mcp_asker asker = {.on_answer = ignore_answer};
  (void)!tp__mcp_session_request(c->session, "tasks/cancel", pairs, 1, &asker, NULL, NULL);
}

static void call_cancelled(void *ctx) {
  call *c = ctx;
  tp__mcp_sample_end(c->session, &c->origin);
  bool is_taken = tp__mcp_session_give_up(c->session, &c->id, "the call was cancelled or has passed its limit") ||
                  tp__mcp_session_unset_alarm(c->session, &c->alarm);
  if (is_taken && c->task.size > 0) cancel_task(c);
  if (!is_taken && !set_asks(c, false)) return;
  (void)!tp_token_abandon(c->token, NULL);
  if (is_taken) call_unref(c); /* the request's reference; a question to a person has its own way to end */
}

static bool call_progressed(void *ctx, double done, double total, tp_text message) {
  enum { MESSAGE_BYTES_MAX = 1024 };
  const call *c = ctx;
  const tp_tool_progress progress = {.struct_size = sizeof progress,
                                     .done = done,
                                     .total = total,
                                     .message = {message.data, (size_t)tp__cut(message, MESSAGE_BYTES_MAX)}};
  return tp_tool_report(c->token, &progress, NULL) != TP_ERR_USAGE; /* reports that come too fast are dropped */
}

static void call_answered(void *ctx, const tp__mcp_answer *answer);

static tp_status send_call(call *c, const tp__mcp_pair *more, size_t more_count, tp_fault *fault) {
  tp__mcp_pair pairs[4] = {{"name", tp_text_of(c->tool->name), false},
                           {"arguments", tp__bytes_text(&c->arguments), true}};
  const tp__mcp_asker asker = {.on_progress = call_progressed,
                               .on_answer = call_answered,
                               .ctx = c,
                               .origin = &c->origin,
                               .traceparent = tp__bytes_text(&c->traceparent),
                               .tracestate = tp__bytes_text(&c->tracestate)};
  assert(more_count <= 2);
  for (size_t i = 0; i < more_count; i++) pairs[2 + i] = more[i];
  return tp__mcp_session_request(c->session, "tools/call", pairs, 2 + more_count, &asker, &c->id, fault);
}

/* ---- what a server wants to know before it answers a call ---- */

static void fail_call(call *c, const char *words) {
  tp__mcp_sample_end(c->session, &c->origin);
  (void)!tp_tool_complete(c->token, true, tp_text_of(words), NULL); /* TP_ERR_STALE: the call was given up meanwhile */
  call_unref(c);
}

static void update_task(call *c);

/* Sends the request again, under a new id, with the inputs and the server's state unchanged. */
static void call_again(call *c) {
  if (c->task.size > 0) {
    update_task(c);
    return;
  }
  tp_text state = tp_value_get(tp__bytes_text(&c->wanted), "requestState"), value = {"", 0};
  tp__mcp_pair more[2];
  size_t count = 0;
  tp_fault fault = {.message = "There is no memory for the call."};
  if (c->responses) {
    if (tp_writer_finish(c->responses, &value) != TP_OK) {
      fail_call(c, fault.message);
      return;
    }
    more[count++] = (tp__mcp_pair){"inputResponses", value, true};
  }
  if (state.size > 0) more[count++] = (tp__mcp_pair){"requestState", state, true};
  if (send_call(c, more, count, &fault) != TP_OK) fail_call(c, fault.message);
}

static void collect_inputs(call *c);

/* @param words  the reason, when the result is empty. */
static void model_answered(void *ctx, tp_text result, const char *words) {
  char text[TP_FAULT_MESSAGE_SIZE + 128];
  call *c = ctx;
  if (!set_asks(c, false)) { /* the call was cancelled meanwhile */
    call_unref(c);
  } else if (result.size == 0) {
    snprintf(text, sizeof text,
             "The server %s wants an answer of a model, and got none: %s. The "
             "call was not finished.",
             c->session->settings.options.name, words);
    fail_call(c, text);
  } else {
    tp_write_value(c->responses, result);
    collect_inputs(c);
  }
}

static void input_answered(void *ctx, tp_text result) {
  call *c = ctx;
  if (!set_asks(c, false)) { /* the call was cancelled meanwhile */
    call_unref(c);
  } else if (result.size == 0) {
    fail_call(c, "There is no memory for the call.");
  } else {
    tp_write_value(c->responses, result);
    collect_inputs(c);
  }
}

/* Collects the inputs {KEY: answer}, one after the other. */
static void collect_inputs(call *c) {
  char words[TP_FAULT_MESSAGE_SIZE], shown[64];
  tp_text inputs = tp_value_get(tp__bytes_text(&c->wanted), "inputRequests");
  while (c->input < tp_value_count(inputs)) {
    tp_text key = tp_value_key_at(inputs, c->input), input = tp_value_at(inputs, c->input);
    tp_text method = tp_value_text(tp_value_get(input, "method"));
    c->input++;
    tp_write_text(c->responses, key);
    bool is_for_model = c->session->settings.has_sampling && tp__is_word(method, "sampling/createMessage");
    if (is_for_model || tp__is_word(method, "elicitation/create")) {
      tp_text params = tp_value_get(input, "params");
      (void)set_asks(c, true);
      if (!tp_token_open(c->token) && set_asks(c, false)) break; /* the call was given up before `asks` was set */
      if (is_for_model) {
        call_ref(c);
        tp__mcp_sample_begin(c->session, params, &c->origin, model_answered, c);
      } else {
        tp__mcp_asked_begin(c->session, params, &c->origin, input_answered, c);
      }
      return;
    }
    if (tp__mcp_session_write_input(c->session, method, c->responses)) continue;
    tp__show(shown, sizeof shown, method);
    snprintf(words, sizeof words,
             "The server %s wants %s, which this client does not have. The "
             "call was not finished.",
             c->session->settings.options.name, shown);
    fail_call(c, words);
    return;
  }
  if (tp_token_open(c->token)) call_again(c);
  else fail_call(c, "the call was given up");
}

/* Takes a result that wants inputs. */
static void take_wanted(call *c, tp_text result) {
  char words[256];
  tp_text inputs = tp_value_get(result, "inputRequests");
  bool has_inputs = tp_value_kind_of(inputs) == TP_VALUE_MAP;
  size_t count = has_inputs ? tp_value_count(inputs) : 0;
  bool is_form = count <= INPUTS_MAX && (has_inputs || tp_value_get(result, "requestState").size > 0);
  tp_writer_free(c->responses);
  c->responses = NULL;
  c->input = 0;
  tp__bytes_clear(&c->wanted);
  tp__bytes_put_text(&c->wanted, result);
  if (++c->rounds > ROUNDS_MAX || !is_form) {
    snprintf(words, sizeof words,
             "The server %s asks without end, or in a form that is none. The "
             "call was not finished.",
             c->session->settings.options.name);
    fail_call(c, words);
  } else if (c->wanted.failed || (has_inputs && tp_writer_new(NULL, &c->responses) != TP_OK)) {
    fail_call(c, "There is no memory for the call.");
  } else {
    if (has_inputs) tp_write_map(c->responses, count);
    collect_inputs(c);
  }
}

/* ---- its answer ---- */

/* @param result  value: the result of a call that has ended. */
static void end_call(call *c, tp_text result) {
  tp__mcp_sample_end(c->session, &c->origin);
  tp__mcp_result_complete(c->token, result);
  call_unref(c);
}

static void end_refused(call *c, tp_text words, int64_t code) {
  char text[TP_FAULT_MESSAGE_SIZE + 256], shown[TP_FAULT_MESSAGE_SIZE];
  tp__show(shown, sizeof shown, words);
  snprintf(text, sizeof text, "The server %s refused the call: %s (code %lld)", c->session->settings.options.name,
           shown, (long long)code);
  fail_call(c, text);
}

static void end_unanswered(call *c, const char *words) {
  char text[TP_FAULT_MESSAGE_SIZE + 256];
  snprintf(text, sizeof text,
           "The server %s gave no answer: %s. Whether the call had an effect "
           "is not known.",
           c->session->settings.options.name, words);
  fail_call(c, text);
}

/* @param what  "a result of the type", "a task with the status". */
static void end_unknown(call *c, const char *what, tp_text which) {
  char text[TP_FAULT_MESSAGE_SIZE + 256], shown[TP_FAULT_MESSAGE_SIZE];
  tp__show(shown, sizeof shown, which);
  snprintf(text, sizeof text,
           "The server %s answered with %s %s, which this client does not "
           "take. Whether the call had an effect is not "
           "known.",
           c->session->settings.options.name, what, shown);
  fail_call(c, text);
}

/* @return the result; empty: the answer has none, and the call has ended. */
static tp_text result_or_end(call *c, const tp__mcp_answer *answer) {
  const tp__mcp_message *m = answer->message;
  if (m && m->kind == TP__MCP_RESULT) return m->result;
  if (m) end_refused(c, m->words, m->code);
  else end_unanswered(c, answer->words);
  return (tp_text){"", 0};
}

/* ---- a call that its server answers with a task ---- */

/* Sends a request about the task. @param more  a further pair; may be NULL. */
static void ask_about_task(call *c, const char *method, const tp__mcp_pair *more, tp__mcp_answer_fn on_answer) {
  tp__mcp_pair pairs[2] = {{"taskId", tp__bytes_text(&c->task), false}};
  const tp__mcp_asker asker = {.on_answer = on_answer, .ctx = c, .origin = &c->origin};
  tp_fault fault = {0};
  if (more) pairs[1] = *more;
  if (tp__mcp_session_request(c->session, method, pairs, 1 + (more != NULL), &asker, &c->id, &fault) != TP_OK)
    fail_call(c, fault.message);
}

static void task_answered(void *ctx, const tp__mcp_answer *answer);

static void drop_task(call *c) {
  cancel_task(c);
  fail_call(c, "the call was given up");
}

static void poll_task(void *ctx, const char *words) {
  call *c = ctx;
  if (words) end_unanswered(c, words);
  else if (!tp_token_open(c->token)) drop_task(c);
  else ask_about_task(c, "tasks/get", NULL, task_answered);
}

/* Waits, and then asks for the state of the task. */
static void wait_for_task(call *c) {
  c->alarm = (tp__mcp_alarm){.on_due = poll_task, .ctx = c};
  if (!tp_token_open(c->token)) drop_task(c);
  else if (!tp__mcp_session_set_alarm(c->session, &c->alarm, c->poll_ms)) end_unanswered(c, "it has ended");
}

static void take_interval(call *c, tp_text task) {
  int64_t interval_ms = tp_value_int(tp_value_get(task, "pollIntervalMs"), POLL_MS);
  c->poll_ms = interval_ms < POLL_MS_MIN   ? POLL_MS_MIN
               : interval_ms > POLL_MS_MAX ? POLL_MS_MAX
                                           : (uint32_t)interval_ms;
}

/* Goes on with a call that the server continues as a task. */
static void begin_task(call *c, tp_text result) {
  tp_text id = tp_value_text(tp_value_get(result, "taskId"));
  if (id.size == 0 || id.size > TASK_ID_BYTES_MAX) {
    end_unknown(c, "a task without a", tp_text_of("taskId"));
    return;
  }
  tp__bytes_put_text(&c->task, id);
  take_interval(c, result);
  if (c->task.failed) fail_call(c, "There is no memory for the call.");
  else wait_for_task(c);
}

static bool is_known(const call *c, tp_text key) {
  uint32_t size;
  for (size_t at = 0; at < c->known.size; at += sizeof size + size) {
    memcpy(&size, c->known.data + at, sizeof size);
    if (tp__same(key, (tp_text){c->known.data + at + sizeof size, size})) return true;
  }
  return false;
}

/* Takes the inputs of the task that were not answered before. A key stays in the server's list until the server has
 * read its answer. */
static void take_task_inputs(call *c, tp_text inputs) {
  tp_writer *writer = NULL;
  tp_text wanted = {"", 0};
  size_t count = 0;
  bool is_map = tp_value_kind_of(inputs) == TP_VALUE_MAP;
  for (tp_value_walk walk = {0}; is_map && tp_value_next(inputs, &walk);) count += !is_known(c, walk.key);
  if (count == 0) {
    wait_for_task(c);
    return;
  }
  bool has_memory = tp_writer_new(NULL, &writer) == TP_OK;
  if (has_memory) {
    tp_write_map(writer, 1);
    tp_write_string(writer, "inputRequests");
    tp_write_map(writer, count);
  }
  for (tp_value_walk walk = {0}; has_memory && tp_value_next(inputs, &walk);) {
    uint32_t size = (uint32_t)walk.key.size;
    if (is_known(c, walk.key)) continue;
    tp_write_text(writer, walk.key);
    tp_write_value(writer, walk.value);
    tp__bytes_put(&c->known, (const char *)&size, sizeof size);
    tp__bytes_put_text(&c->known, walk.key);
  }
  has_memory = has_memory && !c->known.failed && tp_writer_finish(writer, &wanted) == TP_OK;
  if (has_memory) take_wanted(c, wanted);
  else fail_call(c, "There is no memory for the call.");
  tp_writer_free(writer);
}

static void task_answered(void *ctx, const tp__mcp_answer *answer) {
  call *c = ctx;
  tp_text task = result_or_end(c, answer);
  if (task.size == 0) return;
  tp_text status = tp_value_text(tp_value_get(task, "status")), error = tp_value_get(task, "error");
  take_interval(c, task);
  if (tp__is_word(status, "working")) wait_for_task(c);
  else if (tp__is_word(status, "input_required")) take_task_inputs(c, tp_value_get(task, "inputRequests"));
  else if (tp__is_word(status, "completed")) end_call(c, tp_value_get(task, "result"));
  else if (tp__is_word(status, "failed"))
    end_refused(c, tp_value_text(tp_value_get(error, "message")), tp_value_int(tp_value_get(error, "code"), 0));
  else if (tp__is_word(status, "cancelled")) end_unanswered(c, "it has cancelled the task");
  else end_unknown(c, "a task of the status", status);
}

static void task_updated(void *ctx, const tp__mcp_answer *answer) {
  call *c = ctx;
  if (result_or_end(c, answer).size > 0) wait_for_task(c);
}

/* Sends the answers to the task's inputs. */
static void update_task(call *c) {
  tp__mcp_pair responses = {"inputResponses", {"", 0}, true};
  if (tp_writer_finish(c->responses, &responses.content) != TP_OK) fail_call(c, "There is no memory for the call.");
  else ask_about_task(c, "tasks/update", &responses, task_updated);
}

/* ---- the answer to the request ---- */

static void call_answered(void *ctx, const tp__mcp_answer *answer) {
  call *c = ctx;
  tp_text result = result_or_end(c, answer);
  if (result.size == 0) return;
  tp_text type = tp_value_get(result, "resultType");
  bool has_types = tp__mcp_session_has(c->session, TP__MCP_HAS_RESULT_TYPE);
  if (tp__is_word(tp_value_text(type), "input_required")) take_wanted(c, result);
  else if (has_types && tp__is_word(tp_value_text(type), "task")) begin_task(c, result);
  else if (has_types && type.size > 0 && !tp__is_word(tp_value_text(type), "complete"))
    end_unknown(c, "a result of the type", tp_value_text(type)); /* a type that this client does not know */
  else end_call(c, result);
}

/* Copies the trace context of the gateway's client, which is passed to the server unchanged. */
static void take_trace(call *c) {
  tp_mcp_call *of = tp__mcp_changed_find(c->session->runtime, c->origin.data);
  if (!of) return;
  tp__mcp_call_trace(of, &c->traceparent, &c->tracestate);
  tp__mcp_call_unref(of);
}

tp_answer tp__mcp_tool_run(void *ctx, tp_tool_run *run) {
  const tp__mcp_tool *tool = ctx;
  tp__mcp_session *session = tool->list->session;
  tp_fault fault = {0};
  call *c = tp__heap_alloc(sizeof *c);
  if (!c) return tp_tool_error(run, tp_text_of("There is no memory for the call."));
  tp__references_init(&c->refs);
  tp__mcp_session_ref(session);
  c->session = session;
  tp__mcp_tools_ref(tool->list);
  c->tools = tool->list;
  c->tool = tool;
  tp__bytes_put_text(&c->arguments, tp_tool_run_arguments(run));
  if (c->arguments.failed) {
    call_unref(c);
    return tp_tool_error(run, tp_text_of("There is no memory for the call."));
  }
  const tp_deferral deferral = {
      .struct_size = sizeof deferral, .cancel = call_cancelled, .destroy = call_unref, .ctx = c};
  (void)tp__copy_cut(c->tenant, sizeof c->tenant, tp_tool_run_id(run, TP_ID_TENANT));
  c->origin = (tp__mcp_origin){.tool = tool->full_name,
                               .data = tp_tool_run_data(run, TP_ID_TURN),
                               .tenant = c->tenant,
                               .owner = c,
                               .ref = call_ref,
                               .unref = call_unref};
  if (c->origin.data) take_trace(c);
  tp__references_ref(&c->refs); /* a reference for the deferral */
  tp_answer answer = tp_tool_defer(run, &deferral, &c->token);
  c->origin.token = c->token;
  if (c->token.bits == 0) {
    call_unref(c);
  } else {
    tp__references_ref(&c->refs); /* a reference for the request */
    if (send_call(c, NULL, 0, &fault) != TP_OK) {
      (void)!tp_tool_complete(c->token, true, tp_text_of(fault.message), NULL);
      call_unref(c);
    }
  }
  call_unref(c);
  return answer;
}
