/* SPDX-License-Identifier: Apache-2.0
 *
 * The example of docs/guides/domain.md: a domain with two handlers, one of which runs in the background, as a job. */
#include <pthread.h>
#include <stdio.h>

#include <turnphase/turnphase.h>

/* ---- what the domain keeps ---- */

enum { LINES_MAX = 10, LINE_SIZE = 200 };

typedef struct diary {
  pthread_mutex_t mtx;
  char lines[LINES_MAX][LINE_SIZE];
  int count;
} diary;

static diary the_diary = {.mtx = PTHREAD_MUTEX_INITIALIZER};

/* ---- the handlers ---- */

/* As a job, after a turn: keeps what the user said. */
static tp_answer write_down(void *ctx, tp_call *call) {
  diary *d = ctx;
  tp_text text = tp_call_text(call, TP_FIELD_USER_PREVIEW);
  pthread_mutex_lock(&d->mtx);
  int full = d->count == LINES_MAX;
  if (!full) snprintf(d->lines[d->count++], LINE_SIZE, "%.*s", (int)text.size, text.data);
  pthread_mutex_unlock(&d->mtx);
  if (full) return tp_call_postpone(call, 1, "the diary is full");
  printf("job %llu: wrote down: %.*s\n", (unsigned long long)tp_call_job_id(call), (int)text.size, text.data);
  return TP_ANSWER_DONE;
}

/* Before each request: adds the newest line to the prompt. */
static tp_answer read_out(void *ctx, tp_call *call) {
  diary *d = ctx;
  char line[LINE_SIZE] = "";
  pthread_mutex_lock(&d->mtx);
  if (d->count > 0) snprintf(line, sizeof line, "%s", d->lines[d->count - 1]);
  pthread_mutex_unlock(&d->mtx);
  if (line[0] == 0) return TP_ANSWER_DONE;
  printf("the prompt gets: %s\n", line);
  tp_status status = tp_call_emit_prompt_context(call, "diary", line, 0, NULL);
  return status == TP_OK ? TP_ANSWER_DONE : tp_call_fail(call, (uint32_t)status, "the line was not taken");
}

/* ---- the domain ---- */

static const tp_phase_id after_turn = TP_PHASE_TURN_POST_TURN, before_request = TP_PHASE_TURN_PRE_PROMPT_CONTEXT;

static const tp_handler handlers[] = {{.struct_size = sizeof(tp_handler),
                                       .id = "diary.write_down",
                                       .summary = "keeps what the user said",
                                       .run = write_down,
                                       .ctx = &the_diary,
                                       .phases = &after_turn,
                                       .phase_count = 1,
                                       .idempotent = true},
                                      {.struct_size = sizeof(tp_handler),
                                       .id = "diary.read_out",
                                       .summary = "adds the newest line to the prompt",
                                       .run = read_out,
                                       .ctx = &the_diary,
                                       .phases = &before_request,
                                       .phase_count = 1,
                                       .capabilities = TP_CAPABILITY_CONTRIBUTE_PROMPT_CONTEXT}};

static const tp_subscription subscriptions[] = {{.struct_size = sizeof(tp_subscription),
                                                 .id = "diary.write_down",
                                                 .handler = "diary.write_down",
                                                 .phase = TP_PHASE_TURN_POST_TURN,
                                                 .execution = TP_EXECUTION_BACKGROUND,
                                                 .limit_ms = 10000,
                                                 .attempts = 5,
                                                 .backoff = TP_BACKOFF_EXPONENTIAL,
                                                 .backoff_ms = 1000},
                                                {.struct_size = sizeof(tp_subscription),
                                                 .id = "diary.read_out",
                                                 .handler = "diary.read_out",
                                                 .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT,
                                                 .execution = TP_EXECUTION_DEADLINE,
                                                 .limit_ms = 50}};

static tp_status register_diary(const tp_domain_context *with, tp_fault *fault) {
  tp_status status = TP_OK;
  for (size_t i = 0; i < 2 && status == TP_OK; i++) status = tp_edit_add_handler(with->edit, &handlers[i], fault);
  for (size_t i = 0; i < 2 && status == TP_OK; i++)
    status = tp_edit_add_subscription(with->edit, &subscriptions[i], fault);
  return status;
}

TP_API const tp_domain tp_domain_export = {.struct_size = sizeof(tp_domain),
                                           .header_version = TP_VERSION_NUMBER,
                                           .name = "diary",
                                           .version = "1.0",
                                           .register_with = register_diary};

/* ---- a host ---- */

static tp_status add_domain(tp_runtime *runtime, tp_fault *fault) {
  tp_edit *edit = NULL;
  tp_status status = tp_edit_begin(runtime, NULL, &edit, fault);
  if (status == TP_OK) status = tp_domain_add(runtime, edit, &tp_domain_export, fault);
  if (status == TP_OK) return tp_edit_commit(edit, NULL, fault);
  tp_edit_discard(edit);
  return status;
}

int main(void) {
  static const char script[] = "{\"responses\": [{\"text\": \"Noted.\"}], \"repeat\": true}";
  static const char *const messages[] = {"I moved to Lyon.", "Where do I live?"};
  char answer[100];
  tp_runtime *runtime = NULL;
  tp_fault fault;
  int failed = tp_runtime_new(NULL, &runtime, &fault) || add_domain(runtime, &fault);
  for (int i = 0; i < 2 && !failed; i++)
    failed = tp_script_play(runtime, script, messages[i], answer, sizeof answer, &fault) ||
             tp_jobs_wait(runtime, "", 10000, &fault);
  if (failed) printf("%s\n", fault.message);
  tp_runtime_free(runtime);
  return failed;
}
