/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_job.c: starts and cancels programs, and counts the references of their users. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "domains/declared/hook_job.h"
#include "domains/declared/trust.h"

enum { ERRORS_MAX = 64 << 10, OUTPUT_MAX = 1 << 20, BEHIND_DEADLINE_MS = 200, DEFAULT_LIMIT_MS = 30000 };

/* ---- its life ---- */

static tp_text put_behind(char **at, tp_text text) {
  tp_text copy = {*at, text.size};
  if (text.size > 0) memcpy(*at, text.data, text.size);
  *at += text.size;
  return copy;
}

tp__job *tp__job_new(const tp__job_kind *kind, const tp__hook *hook, const tp__asked *asked) {
  assert(kind && kind->ended && kind->unstarted && hook);
  size_t behind_size = 0;
  tp__asked copied = asked ? *asked : (tp__asked){0};
  tp_text *const texts[] = {&copied.tool,  &copied.arguments,  &copied.model, &copied.messages,
                            &copied.tools, &copied.parameters, &copied.text};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) behind_size += texts[i]->size;
  tp__job *job = calloc(1, sizeof *job + behind_size);
  if (!job) return NULL;
  tp__lock_init(&job->mutex, TP__LOCK_job);
  char *behind = (char *)(job + 1);
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) *texts[i] = put_behind(&behind, *texts[i]);
  job->asked = copied;
  job->kind = kind;
  job->hook = hook;
  job->references = 2;
  job->copy = -1;
  tp__hooks_ref(hook->hooks);
  return job;
}

#ifdef TP_CHECKS
static void job_check_locked(const tp__job *job) {
  TP__LOCKED(&job->mutex);
  /* The starter, the deferral and the running program each have one reference. */
  assert(job->references > 0 && job->references <= 3);
  /* Its texts follow the job. */
  assert(job->asked.tool.size == 0 || job->asked.tool.data >= (const char *)(job + 1));
  assert(job->kind && job->hook);
}
#endif

static void job_unref(tp__job *job) {
  tp__lock_acquire(&job->mutex);
  TP__CHECK(job_check_locked(job));
  int left = --job->references;
  tp__lock_release(&job->mutex);
  if (left > 0) return;
  tp_hooks *hooks = job->hook->hooks;
  tp__lock_fini(&job->mutex);
  tp__bytes_fini(&job->input);
  if (job->copy >= 0) close(job->copy);
  free(job);
  tp__hooks_unref(hooks);
}

static void job_destroy(void *ctx) { job_unref(ctx); }

static void job_cancel(void *ctx) {
  tp__job *job = ctx;
  tp__lock_acquire(&job->mutex);
  job->is_cancelled = true;
  TP__CHECK(job_check_locked(job));
  uint64_t process = job->process;
  tp__lock_release(&job->mutex);
  if (process != 0) tp_process_cancel(job->hook->hooks->loop, process);
}

tp_deferral tp__job_deferral(tp__job *job) {
  assert(job->token.bits == 0); /* the deferral gives it */
  return (tp_deferral){.struct_size = sizeof(tp_deferral), .cancel = job_cancel, .destroy = job_destroy, .ctx = job};
}

/* ---- its program ---- */

void tp__job_notify(const tp__job *job, const tp_process_result *result, const tp_outcome *outcome) {
  tp_hook_program program = {.struct_size = sizeof program,
                             .hook = job->hook->id,
                             .arguments = job->hook->arguments,
                             .input = {job->input.data, job->input.size},
                             .output = result->output,
                             .errors = result->errors,
                             .outcome = outcome,
                             .end = result->end,
                             .exit_code = result->exit_code,
                             .signal = result->signal,
                             .duration_ms = result->duration_ms};
  tp__hooks_notify(job->hook->hooks, &program);
}

static void program_ended(void *ctx, const tp_process_result *result) {
  tp__job *job = ctx;
  tp__hooks_note_loop(job->hook->hooks);
  char why[TP__TRUST_WHY_SIZE];
  /* If the code of a program changed while it ran, its answer is not the answer of trusted code. */
  if (tp__trust_holds(job->hook, why)) job->kind->ended(job, result);
  else job->kind->unstarted(job, why, 0);
  job_unref(job);
}

bool tp__hook_same_file(const struct stat *one, const struct stat *other) {
  return one->st_ino == other->st_ino && one->st_dev == other->st_dev && one->st_size == other->st_size &&
         one->st_mtim.tv_sec == other->st_mtim.tv_sec && one->st_mtim.tv_nsec == other->st_mtim.tv_nsec &&
         one->st_ctim.tv_sec == other->st_ctim.tv_sec && one->st_ctim.tv_nsec == other->st_ctim.tv_nsec;
}

/* The engine handles the attempt's own deadline, and cancels. The deadline of the process is later, for the case that
 * the runtime is gone. */
static uint32_t process_limit_ms(int64_t left_ms) {
  if (left_ms > TP__HOOK_LIMIT_MS_MAX) left_ms = DEFAULT_LIMIT_MS;
  return (uint32_t)left_ms + BEHIND_DEADLINE_MS;
}

static void start_program(tp__job *job, const tp__bytes *line, int64_t left_ms) {
  assert(job->token.bits != 0 && job->hook->started);
  const tp__hook *hook = job->hook;
  char why[TP__TRUST_WHY_SIZE];
  tp__trust_start start;
  bool holds = tp__trust_holds(hook, why);
  if (holds && tp__trust_copy(hook, &start) != 0) {
    snprintf(why, sizeof why, "the script has changed since it was hashed: look at it, and trust the hooks again");
    holds = false;
  }
  if (!holds) {
    tp__trust_audit_code(hook, why);
    job->kind->unstarted(job, why, 0);
    return;
  }
  job->copy = start.fd;
  tp_process_options options = {.struct_size = sizeof options,
                                .arguments = start.fd >= 0 ? start.arguments : hook->started,
                                .environment = hook->environment,
                                .directory = hook->hooks->root,
                                .input = {line->data, line->size},
                                .limit_ms = process_limit_ms(left_ms),
                                .output_max = job->kind->output_max ? job->kind->output_max : OUTPUT_MAX,
                                .errors_max = ERRORS_MAX};
  uint64_t process = 0;
  tp_fault fault = {0};
  tp__lock_acquire(&job->mutex);
  job->references++;
  TP__CHECK(job_check_locked(job));
  tp__lock_release(&job->mutex);
  tp_status status = tp_process_start(hook->hooks->loop, &options, program_ended, job, &process, &fault);
  if (status != TP_OK) {
    job->kind->unstarted(job, fault.message, fault.system_error);
    job_unref(job);
    return;
  }
  tp__lock_acquire(&job->mutex);
  job->process = process;
  TP__CHECK(job_check_locked(job));
  bool is_cancelled = job->is_cancelled;
  tp__lock_release(&job->mutex);
  if (is_cancelled) tp_process_cancel(hook->hooks->loop, process);
}

void tp__job_start(tp__job *job, tp__bytes line, int64_t left_ms) {
  bool kept = tp__hooks_have_listener(job->hook->hooks);
  if (kept) job->input = line;
  if (job->token.bits != 0) start_program(job, &line, left_ms);
  else job_unref(job);
  job_unref(job);
  if (!kept) tp__bytes_fini(&line);
}
