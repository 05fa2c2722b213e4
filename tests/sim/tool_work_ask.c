/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_work_ask.c: people who are asked about calls of one tool, by the host's permission callback: they allow, deny,
 * answer for other arguments, answer twice, do not answer, or their channel fails. Their behaviour is drawn with the
 * call. */
#include "tool_work.h"

#include <stdio.h>

#define FAIL(call, property, format, ...)                                                                        \
  world_fail((call)->batch->e->w, (property), "call %u of batch %u of tool workload %u: " format, (call)->index, \
             (call)->batch->index, (call)->batch->e->index, __VA_ARGS__)

static void give(tool_work_call *call, tp_verdict verdict) {
  bool others = call->person == PERSON_ANSWERS_OTHERS;
  const tp_decision decision = {.struct_size = sizeof decision,
                                .verdict = verdict,
                                .arguments_hash = others ? tp_text_of("of others") : tp_text_of(call->shown_hash),
                                .person = tp_text_of("p")};
  tp_status status = tp_question_answer(call->question, &decision, NULL);
  if (status == TP_ERR_STALE) return;
  if (status != TP_OK) FAIL(call, "an answer is taken or stale", "it gave %s", tp_status_name(status));
  if (++call->answers > 1) FAIL(call, "a question is answered once", "%u answers were taken", call->answers);
  if (call->batch->e->w->freed) FAIL(call, "a stale token is harmless", "answered %s", "after tp_runtime_free()");
  call->allowed = verdict == TP_VERDICT_ALLOW && !others;
}

static void give_first(void *arg) {
  tool_work_call *call = arg;
  tp__sim_sleep_ns(call->person_ns);
  if (call->person == PERSON_ABANDONS) (void)!tp_token_abandon(call->question, NULL);
  else give(call, call->person == PERSON_DENIES ? TP_VERDICT_DENY : TP_VERDICT_ALLOW);
}

/* Where outcomes are to be known, the second one comes second. */
static void give_second(void *arg) {
  tool_work_call *call = arg;
  bool fault_free = world_is_fault_free(call->batch->e->w);
  tp__sim_sleep_ns(call->person_ns + (fault_free ? TP__NS_PER_MS : 0));
  give(call, TP_VERDICT_DENY);
}

static void ask(void *ctx, const tp_question *question) {
  world *w = ctx;
  if (tp_text_is(question->call->name, "tasked")) return; /* its host answers (task_work.c) */
  tool_work_call *call = tool_work_find_asked(w, question);
  if (!call || call->tool != TOOL_ASKED) {
    world_fail(w, "a person is asked about a call as it is", "a question of no call, of `%.*s`",
               (int)question->call->name.size, question->call->name.data);
    return;
  }
  if (++call->asked > 1) FAIL(call, "a call is asked about once", "%u times", call->asked);
  if (!tool_work_arguments_are(call, question->call->arguments))
    FAIL(call, "a person is asked about a call as it is", "other arguments, of %zu bytes",
         question->call->arguments.size);
  call->batch->e->has_asked = true;
  call->question = question->token;
  snprintf(call->shown_hash, sizeof call->shown_hash, "%.*s", (int)question->arguments_hash.size,
           question->arguments_hash.data);
  if (call->person == PERSON_SILENT) return;
  if (call->person_ns == 0 || !world_start("person", give_first, call)) give_first(call);
  if (call->person == PERSON_ANSWERS_TWICE && !world_start("person", give_second, call)) give_second(call);
}

static int32_t permit(void *ctx, const tp_permission_request *request) {
  (void)ctx;
  bool asked = tp_text_is(request->call->name, tool_work_tool_name(TOOL_ASKED));
  return asked ? TP_PERMISSION_ASK : TP_PERMISSION_AUTO;
}

void tool_work_set_people(world *w, tp_runtime_options *options) {
  if (!tool_work_has_people(w)) return;
  options->ask = ask;
  options->ask_ctx = w;
  options->permission = permit;
  options->permission_ctx = w;
  options->ask_limit_ms = TOOL_WORK_ASK_MS;
}

/* What a person said, and nothing else, lets the call run. */
void tool_work_check_asked(const tool_work_call *call) {
  if (call->tool != TOOL_ASKED || !tool_work_has_people(call->batch->e->w) || !call->batch->ends) return;
  if ((call->started || call->calls > 0) && !call->allowed)
    FAIL(call, "an asked call runs when a person allows it", "asked %u times, answers %u", call->asked, call->answers);
  if (call->kind == TP_TOOL_DENIED && call->allowed)
    FAIL(call, "an answer that was taken holds", "denied, though %u allowed it", call->answers);
}
