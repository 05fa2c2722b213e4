/* SPDX-License-Identifier: Apache-2.0
 *
 * The example of docs/guides/handler.md: three handlers, one of which exceeds its limit. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <turnphase/turnphase.h>

/* ---- the handlers ---- */

static tp_answer guard(void *ctx, tp_call *call) {
  const char *word = ctx;
  tp_text text = tp_call_text(call, TP_FIELD_TEXT);
  for (size_t i = 0; i + strlen(word) <= text.size; i++)
    if (memcmp(text.data + i, word, strlen(word)) == 0) return tp_call_deny(call, "secrets are not talked about");
  return tp_call_allow(call);
}

static tp_answer calendar(void *ctx, tp_call *call) {
  (void)ctx;
  tp_status status = tp_call_emit_prompt_context(call, "calendar", "Today is a holiday.", 10, NULL);
  if (status != TP_OK) return tp_call_fail(call, (uint32_t)status, "the calendar was not taken");
  return TP_ANSWER_DONE;
}

static tp_answer search(void *ctx, tp_call *call) {
  const struct timespec pause = {.tv_nsec = 1000000};
  (void)ctx;
  while (!tp_call_cancelled(call)) nanosleep(&pause, NULL); /* a server that does not answer */
  return TP_ANSWER_DONE;
}

/* ---- the subscriptions ---- */

static tp_status subscribe(tp_runtime *runtime, tp_fault *fault) {
  const tp_hook hooks[] = {{.struct_size = sizeof(tp_hook),
                            .id = "guard",
                            .phase = "turn.intake",
                            .run = guard,
                            .ctx = (void *)"secret",
                            .failure = TP_FAILURE_REQUIRED,
                            .placement = TP_PLACEMENT_INLINE},
                           {.struct_size = sizeof(tp_hook),
                            .id = "calendar",
                            .phase = "turn.pre_prompt_context",
                            .run = calendar,
                            .placement = TP_PLACEMENT_INLINE},
                           {.struct_size = sizeof(tp_hook),
                            .id = "search",
                            .phase = "turn.pre_prompt_context",
                            .run = search,
                            .limit_ms = 50}};
  tp_status status = TP_OK;
  for (int i = 0; i < 3 && status == TP_OK; i++) status = tp_hook_add(runtime, &hooks[i], fault);
  return status;
}

/* ---- what goes wrong ---- */

static tp_answer misplaced(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_deny(call, "the turn has ended already");
}

static void make_mistakes(tp_runtime *runtime) {
  const tp_hook hooks[] = {
      {.struct_size = sizeof(tp_hook), .id = "guard", .phase = "turn.intake", .run = guard},
      {.struct_size = sizeof(tp_hook), .id = "second", .phase = "turn.begin", .run = guard},
      {.struct_size = sizeof(tp_hook), .id = "third", .phase = "turn.intake"},
      {.id = "fourth", .phase = "turn.intake", .run = guard},
      {.struct_size = sizeof(tp_hook), .id = "misplaced", .phase = "turn.post_turn", .run = misplaced}};
  tp_fault fault;
  for (int i = 0; i < 5; i++)
    if (tp_hook_add(runtime, &hooks[i], &fault) != TP_OK) printf("%s: %s\n", tp_status_name(fault.code), fault.message);
}

/* ---- the host ---- */

static void show(void *ctx, const tp_event *event) {
  (void)ctx;
  if (event->kind == TP_EVENT_RUN)
    printf("  %s: %s, %s, %s\n", event->run->subscription, tp_state_name((tp_state)event->run->state),
           tp_reason_name((tp_reason)event->run->reason), tp_verdict_name((tp_verdict)event->run->verdict));
  if (event->kind == TP_EVENT_CONTEXT)
    printf("  the model reads of %s: %.*s\n", event->subscription, (int)event->contribution->text.size,
           event->contribution->text.data);
  if (event->kind == TP_EVENT_DIAGNOSTIC)
    printf("  diagnostic: %.*s\n", (int)event->contribution->text.size, event->contribution->text.data);
}

static bool run_turn(tp_session *session, const char *text, tp_fault *fault) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  const tp_turn_result *result;
  printf("%s\n", text);
  if (tp_turn_run(session, &request, &result, fault) != TP_OK) return false;
  tp_text end = result->outcome == TP_TURN_COMPLETED ? result->text : result->reason;
  printf("  %s: %.*s\n", tp_turn_outcome_name(result->outcome), (int)end.size, end.data);
  tp_turn_result_free(result);
  return true;
}

int main(void) {
  const tp_model_response answer = {.struct_size = sizeof answer, .text = tp_text_of("Hello!")};
  const tp_model_response *answers[] = {&answer};
  tp_session_options options = {.struct_size = sizeof options, .id = "first", .on_event = show};
  tp_model *model = NULL;
  tp_runtime *runtime = NULL;
  tp_session *session = NULL;
  tp_fault fault;
  bool ok = tp_script_model_new(answers, 1, true, &model, &fault) == TP_OK &&
            tp_runtime_new(NULL, &runtime, &fault) == TP_OK && subscribe(runtime, &fault) == TP_OK;
  if (ok) make_mistakes(runtime);
  options.model = model;
  bool opened = ok && tp_session_open(runtime, &options, &session, &fault) == TP_OK;
  if (!opened) tp_model_free(model); /* no session has taken it */
  ok = opened && run_turn(session, "Good morning!", &fault) && run_turn(session, "Tell me a secret.", &fault);
  if (!ok) fprintf(stderr, "%s\n", fault.message);
  tp_session_close(session, NULL, NULL);
  tp_runtime_free(runtime);
  return ok ? 0 : 1;
}
