/* SPDX-License-Identifier: Apache-2.0
 *
 * The example of docs/guides/store.md: a store that writes a line for each run into a file, and leaves the background
 * jobs to the memory store. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <turnphase/turnphase.h>

/* ---- the store ---- */

typedef struct line_store {
  pthread_mutex_t mutex;
  FILE *file;           /* under mutex; of the host */
  const char *full_for; /* the turn for which the disk is full */
  tp_store *jobs;       /* the memory store */
} line_store;

static bool write_run(line_store *s, const tp_entry_record *entry, size_t index) {
  tp_run_record run = {.struct_size = sizeof run};
  tp_text turn = entry->ids[TP_ID_TURN];
  if (!entry->run(entry->source, index, &run)) return true;
  if (tp_text_is(turn, s->full_for)) return false;
  return fprintf(s->file, "%.*s: phase %u, %s of %s, %s\n", (int)turn.size, turn.data, entry->phase, run.subscription,
                 run.owner, tp_state_name((tp_state)run.state)) > 0;
}

static tp_status record(void *ctx, const tp_entry_record *entry) {
  line_store *s = ctx;
  bool written = true;
  pthread_mutex_lock(&s->mutex);
  for (size_t i = 0; i < entry->run_count && written; i++) written = write_run(s, entry, i);
  pthread_mutex_unlock(&s->mutex);
  return written ? TP_OK : TP_ERR_STORE_FULL;
}

/* ---- its jobs ---- */

static tp_status job_insert(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  const tp_store *jobs = ((line_store *)ctx)->jobs;
  return jobs->job_insert(jobs->ctx, job, ret_id, ret_existed, fault);
}

static tp_status job_claim(void *ctx, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault) {
  const tp_store *jobs = ((line_store *)ctx)->jobs;
  return jobs->job_claim(jobs->ctx, request, ret_next_ms, fault);
}

static tp_status job_renew(void *ctx, const tp_job_renew *request, tp_fault *fault) {
  const tp_store *jobs = ((line_store *)ctx)->jobs;
  return jobs->job_renew(jobs->ctx, request, fault);
}

static tp_status job_finish(void *ctx, const tp_job_finish *request, uint32_t *ret_state, tp_fault *fault) {
  const tp_store *jobs = ((line_store *)ctx)->jobs;
  return jobs->job_finish(jobs->ctx, request, ret_state, fault);
}

static tp_status job_open(void *ctx, tp_text order_key, uint64_t *ret_count, tp_fault *fault) {
  const tp_store *jobs = ((line_store *)ctx)->jobs;
  return jobs->job_open(jobs->ctx, order_key, ret_count, fault);
}

static void destroy(void *ctx) {
  line_store *s = ctx;
  tp_store_free(s->jobs);
  pthread_mutex_destroy(&s->mutex);
  free(s);
}

static tp_status line_store_new(FILE *file, tp_store *ret_store, tp_fault *fault) {
  line_store *s = calloc(1, sizeof *s);
  tp_status status = s ? tp_store_memory_new(NULL, NULL, &s->jobs, fault) : TP_ERR_NO_MEMORY;
  if (status != TP_OK) {
    free(s);
    return status;
  }
  pthread_mutex_init(&s->mutex, NULL);
  s->file = file;
  s->full_for = "two";
  *ret_store = (tp_store){.struct_size = sizeof *ret_store,
                          .ctx = s,
                          .name = "lines",
                          .record = record,
                          .job_insert = job_insert,
                          .job_claim = job_claim,
                          .job_renew = job_renew,
                          .job_finish = job_finish,
                          .job_open = job_open,
                          .destroy = destroy};
  return TP_OK;
}

/* ---- a handler that has something to do later: it stores a job, and runs it ---- */

static tp_answer summarize(void *ctx, tp_call *call) {
  (void)ctx;
  if (tp_call_job_id(call) != 0) return TP_ANSWER_DONE; /* the job, in the background */
  tp_status status = tp_call_emit_background_job(call, "summarize", "summary-1", (tp_text){0}, NULL);
  return status == TP_OK ? TP_ANSWER_DONE : tp_call_fail(call, (uint32_t)status, tp_status_text(status));
}

/* ---- what goes wrong ---- */

static void make_mistakes(const tp_store *store) {
  tp_store without_renew = *store;
  tp_runtime_options options[] = {
      {.struct_size = sizeof(tp_runtime_options), .store = &without_renew},
      {.struct_size = sizeof(tp_runtime_options), .store = store, .durability = TP_DURABILITY_SYNC}};
  tp_runtime *runtime;
  tp_fault fault;
  without_renew.job_renew = NULL;
  for (int i = 0; i < 2; i++)
    if (tp_runtime_new(&options[i], &runtime, &fault) != TP_OK)
      printf("%s: %s\n", tp_status_name(fault.code), fault.message);
}

/* ---- the host ---- */

static void log_line(void *ctx, const tp_log_record *record) {
  (void)ctx;
  printf("log, %s: %s\n", tp_log_level_name(record->level), record->message);
}

static bool run_turn(tp_session *session, const char *id, tp_fault *fault) {
  const tp_turn_request request = {.struct_size = sizeof request, .id = id, .text = tp_text_of("Good morning!")};
  const tp_turn_result *result;
  if (tp_turn_run(session, &request, &result, fault) != TP_OK) return false;
  printf("turn %s: %s\n", id, tp_turn_outcome_name(result->outcome));
  tp_turn_result_free(result);
  return true;
}

static bool run_turns(tp_runtime *runtime, tp_fault *fault) {
  const tp_hook hook = {.struct_size = sizeof hook, .id = "summarize", .phase = "turn.post_turn", .run = summarize};
  const tp_model_response answer = {.struct_size = sizeof answer, .text = tp_text_of("Hello!")};
  const tp_model_response *answers[] = {&answer};
  tp_session_options options = {.struct_size = sizeof options, .id = "first"};
  tp_session *session;
  tp_model *model;
  if (tp_hook_add(runtime, &hook, fault) != TP_OK || tp_script_model_new(answers, 1, true, &model, fault) != TP_OK)
    return false;
  options.model = model;
  if (tp_session_open(runtime, &options, &session, fault) != TP_OK) {
    tp_model_free(model);
    return false;
  }
  bool ok = run_turn(session, "one", fault) && tp_jobs_wait(runtime, NULL, 60000, fault) == TP_OK;
  if (ok) printf("no job is open\n");
  ok = ok && run_turn(session, "two", fault);
  tp_session_close(session, NULL, NULL);
  return ok;
}

static void show(FILE *file) {
  char line[256];
  printf("the file:\n");
  rewind(file);
  while (fgets(line, sizeof line, file)) printf("  %s", line);
  fclose(file);
}

int main(void) {
  FILE *file = tmpfile();
  tp_store store;
  tp_runtime *runtime = NULL;
  tp_fault fault = {.message = "no memory"};
  if (!file || line_store_new(file, &store, &fault) != TP_OK) return 1;
  const tp_runtime_options options = {
      .struct_size = sizeof options, .store = &store, .log = log_line, .log_level = TP_LOG_WARNING};
  make_mistakes(&store);
  if (tp_runtime_new(&options, &runtime, &fault) != TP_OK) tp_store_free(&store); /* it was not taken */
  bool ok = runtime && run_turns(runtime, &fault);
  if (!ok) fprintf(stderr, "%s\n", fault.message);
  tp_runtime_free(runtime); /* calls destroy */
  show(file);
  return ok ? 0 : 1;
}
