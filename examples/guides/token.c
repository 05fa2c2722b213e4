/* SPDX-License-Identifier: Apache-2.0
 *
 * The example of docs/guides/token.md: a handler and a tool that defer, and a thread of the host that answers them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <turnphase/turnphase.h>

/* ---- the requests that the host's thread answers ---- */

typedef enum request_kind { REVIEW, FETCH, FETCH_TOO_LATE } request_kind;

typedef struct request {
  struct request *next; /* under mutex */
  bool is_cancelled;    /* under mutex */
  request_kind kind;
  tp_token token;
} request;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static request *first; /* under mutex: of those that wait; here one at a time */
static bool ends;      /* under mutex */

static request *request_new(request_kind kind) {
  request *r = calloc(1, sizeof *r);
  if (r) r->kind = kind;
  return r;
}

static void post(request *r) {
  pthread_mutex_lock(&mutex);
  r->next = first;
  first = r;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
}

static request *take(void) {
  pthread_mutex_lock(&mutex);
  while (!first && !ends) pthread_cond_wait(&changed, &mutex);
  request *r = first;
  if (r) first = r->next;
  pthread_mutex_unlock(&mutex);
  return r;
}

/* ---- the handler and the tools ---- */

static void cancel(void *ctx) {
  request *r = ctx;
  pthread_mutex_lock(&mutex);
  r->is_cancelled = true;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
}

static tp_answer review(void *ctx, tp_call *call) {
  (void)ctx;
  request *r = request_new(REVIEW);
  if (!r) return tp_call_fail(call, 0, "no memory for the request");
  const tp_deferral deferral = {.struct_size = sizeof deferral, .cancel = cancel, .destroy = free, .ctx = r};
  tp_token token;
  tp_answer answer = tp_call_defer(call, &deferral, &token);
  r->token = token;
  if (token.bits != 0) post(r);
  else free(r);
  return answer;
}

static tp_answer fetch(void *ctx, tp_tool_run *run) {
  request *r = request_new(ctx ? FETCH_TOO_LATE : FETCH);
  if (!r) return tp_tool_error(run, tp_text_of("no memory for the request"));
  const tp_deferral deferral = {.struct_size = sizeof deferral, .cancel = cancel, .destroy = free, .ctx = r};
  tp_token token;
  tp_answer answer = tp_tool_defer(run, &deferral, &token);
  r->token = token;
  if (token.bits != 0) post(r);
  else free(r);
  return answer;
}

static tp_status add_tools(tp_runtime *runtime, tp_fault *fault) {
  const tp_tool in_time = {
      .struct_size = sizeof in_time, .name = "fetch", .run = fetch, .placement = TP_PLACEMENT_INLINE};
  const tp_tool too_late = {.struct_size = sizeof too_late,
                            .name = "fetch_too_late",
                            .run = fetch,
                            .ctx = (void *)"too late",
                            .placement = TP_PLACEMENT_INLINE,
                            .limit_ms = 50};
  tp_status status = tp_tool_add(runtime, &in_time, fault);
  return status == TP_OK ? tp_tool_add(runtime, &too_late, fault) : status;
}

/* ---- the thread that answers ---- */

static void wait_for_cancel(const request *r) {
  pthread_mutex_lock(&mutex);
  while (!r->is_cancelled) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

static void *answer_requests(void *ctx) {
  tp_status *twice = ctx, *wrong = twice + 1, *late = twice + 2;
  const tp_outcome allow = {.struct_size = sizeof allow, .kind = TP_ANSWER_ALLOW};
  for (request *r = take(); r; r = take()) {
    tp_token token = r->token; /* r is freed when the token is completed */
    switch (r->kind) {
      case REVIEW:
        (void)tp_token_complete(token, &allow, NULL);
        *twice = tp_token_complete(token, &allow, NULL);
        break;
      case FETCH:
        *wrong = tp_token_complete(token, &allow, NULL); /* of a handler */
        (void)tp_tool_complete(token, false, tp_text_of("the page"), NULL);
        break;
      case FETCH_TOO_LATE:
        wait_for_cancel(r);
        *late = tp_tool_complete(token, false, tp_text_of("the page"), NULL);
        break;
    }
  }
  return NULL;
}

/* ---- the host ---- */

static void show(void *ctx, const tp_event *event) {
  (void)ctx;
  if (event->kind == TP_EVENT_RUN && event->phase == TP_PHASE_TURN_INTAKE)
    printf("%s: %s, %s\n", event->run->subscription, tp_state_name((tp_state)event->run->state),
           tp_verdict_name((tp_verdict)event->run->verdict));
  if (event->kind == TP_EVENT_TOOL_END)
    printf("%.*s: %s: %.*s\n", (int)event->tool_result->name.size, event->tool_result->name.data,
           tp_tool_result_name(event->tool_result->kind), (int)event->tool_result->text.size,
           event->tool_result->text.data);
}

static tp_status make_model(tp_model **ret_model, tp_fault *fault) {
  const tp_tool_call in_time = {.struct_size = sizeof in_time, .name = tp_text_of("fetch")};
  const tp_tool_call too_late = {.struct_size = sizeof too_late, .name = tp_text_of("fetch_too_late")};
  const tp_tool_call *calls[] = {&in_time, &too_late};
  const tp_model_response responses[] = {
      {.struct_size = sizeof(tp_model_response), .calls = &calls[0], .call_count = 1},
      {.struct_size = sizeof(tp_model_response), .calls = &calls[1], .call_count = 1},
      {.struct_size = sizeof(tp_model_response), .text = tp_text_of("One page was there.")}};
  const tp_model_response *script[] = {&responses[0], &responses[1], &responses[2]};
  return tp_script_model_new(script, 3, false, ret_model, fault);
}

static bool run_turn(tp_session *session, tp_fault *fault) {
  const tp_turn_request turn = {.struct_size = sizeof turn, .text = tp_text_of("Fetch two pages.")};
  const tp_turn_result *result;
  if (tp_turn_run(session, &turn, &result, fault) != TP_OK) return false;
  tp_text end = result->outcome == TP_TURN_COMPLETED ? result->text : result->reason;
  printf("turn %s: %.*s\n", tp_turn_outcome_name(result->outcome), (int)end.size, end.data);
  tp_turn_result_free(result);
  return true;
}

int main(void) {
  const tp_hook guard = {.struct_size = sizeof guard,
                         .id = "review",
                         .phase = "turn.intake",
                         .run = review,
                         .failure = TP_FAILURE_REQUIRED,
                         .limit_ms = 30000,
                         .placement = TP_PLACEMENT_INLINE};
  tp_session_options options = {.struct_size = sizeof options, .id = "first", .on_event = show};
  tp_status statuses[3] = {TP_OK, TP_OK, TP_OK}; /* twice, wrong, late */
  tp_model *model = NULL;
  tp_runtime *runtime = NULL;
  tp_session *session = NULL;
  tp_fault fault;
  pthread_t thread;
  if (pthread_create(&thread, NULL, answer_requests, statuses) != 0) return 1;
  bool ok = make_model(&model, &fault) == TP_OK && tp_runtime_new(NULL, &runtime, &fault) == TP_OK &&
            tp_hook_add(runtime, &guard, &fault) == TP_OK && add_tools(runtime, &fault) == TP_OK;
  options.model = model;
  bool opened = ok && tp_session_open(runtime, &options, &session, &fault) == TP_OK;
  if (!opened) tp_model_free(model); /* no session has taken it */
  ok = opened && run_turn(session, &fault);
  if (!ok) fprintf(stderr, "%s\n", fault.message);
  pthread_mutex_lock(&mutex);
  ends = true;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, NULL);
  static const char *const names[] = {"completed twice", "completed as another kind", "completed too late"};
  for (int i = 0; ok && i < 3; i++)
    printf("%s: %s: %s\n", names[i], tp_status_name(statuses[i]), tp_status_text(statuses[i]));
  tp_session_close(session, NULL, NULL);
  tp_runtime_free(runtime);
  return ok ? 0 : 1;
}
