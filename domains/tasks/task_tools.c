/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/tasks/task_tools.h"

#include <stdio.h>

#include "domains/tasks/key.h"
#include "support/bytes.h"
#include "support/references.h"
#include "support/text.h"
#include "turnphase/task.h"

/** A run of task_create or task_run whose task has not ended. References: one of the deferral, one of the task's end,
 *  and one of the function that begins both. */
typedef struct deferred {
  /* never change */
  tp__bytes answer; /* of task_create: the part of the answer that precedes the words of the gates */
  tp_token token;
  tp__references refs;
  tp__lock lock;
  /* under lock */
  bool cancelled;
  tp_submission *submission; /* NULL: not known yet */
} deferred;

static void unref_deferred(void *ctx) {
  deferred *d = ctx;
  if (!tp__references_unref(&d->refs)) return;
  tp_submission_unref(d->submission);
  tp__bytes_fini(&d->answer);
  tp__lock_fini(&d->lock);
  tp__heap_free(d, sizeof *d);
}

static void cancel_deferred(void *ctx) {
  deferred *d = ctx;
  tp__lock_acquire(&d->lock);
  d->cancelled = true;
  tp_submission *submission = d->submission;
  tp__lock_release(&d->lock);
  tp_submission_cancel(submission);
}

/* ---- the answer ---- */

static void put_created(tp__bytes *answer, const char *key, tp_text ability) {
  tp_writer *writer = NULL;
  tp_text value, json;
  answer->failed = tp_writer_new(NULL, &writer) != TP_OK;
  if (answer->failed) return;
  tp_write_map(writer, 2);
  tp_write_string(writer, "task_key");
  tp_write_string(writer, key);
  tp_write_string(writer, "ability_id");
  tp_write_text(writer, ability);
  answer->failed = tp_writer_finish(writer, &value) != TP_OK || tp_json_encode(value, writer, &json, NULL) != TP_OK;
  if (!answer->failed) tp__bytes_put_text(answer, json);
  if (!answer->failed) tp__bytes_put_string(answer, "\n");
  tp_writer_free(writer);
}

static void complete_deferred(const deferred *d, bool is_error, tp_text text) {
  (void)!tp_tool_complete(d->token, is_error, text, NULL); /* TP_ERR_STALE: the call was given up meanwhile */
}

static void task_ended(void *ctx, const tp_task_result *result) {
  deferred *d = ctx;
  bool is_created = d->answer.size > 0 && result->status == TP_OK && result->kind == TP_TOOL_OK;
  if (is_created) tp__bytes_put_text(&d->answer, result->text);
  if (d->answer.failed) complete_deferred(d, true, tp_text_of("no memory for the answer"));
  else if (is_created) complete_deferred(d, false, tp__bytes_text(&d->answer));
  else if (result->status != TP_OK) complete_deferred(d, true, tp_text_of(result->fault->message));
  else complete_deferred(d, result->kind != TP_TOOL_OK, result->text);
  unref_deferred(d);
}

/* ---- the begin ---- */

static deferred *deferred_new(void) {
  deferred *d = tp__heap_alloc(sizeof *d);
  if (!d) return NULL;
  tp__references_init(&d->refs);
  tp__lock_init(&d->lock, TP__LOCK_task);
  return d;
}

static void submit_deferred(deferred *d, tp_tool_run *run, tp_task_operation operation, const tp_task_spec *spec) {
  tp_submission *submission = NULL;
  tp_fault fault = {0};
  tp__references_ref(&d->refs); /* a reference for the task's end */
  tp_status status = tp_tool_submit_task(run, operation, spec, task_ended, d, &submission, &fault);
  if (status == TP_OK) {
    tp__lock_acquire(&d->lock);
    d->submission = submission;
    bool cancelled = d->cancelled;
    tp__lock_release(&d->lock);
    if (cancelled) tp_submission_cancel(submission);
    return;
  }
  unref_deferred(d);
  complete_deferred(d, true, tp_text_of(fault.message));
}

/* @param created  the beginning of the answer of task_create, which is taken; empty for task_run. */
static tp_answer begin(tp_tool_run *run, tp_task_operation operation, const tp_task_spec *spec, tp__bytes *created) {
  deferred *d = created->failed ? NULL : deferred_new();
  if (!d) {
    tp__bytes_fini(created);
    return tp_tool_error(run, tp_text_of("There is no memory for the task."));
  }
  d->answer = *created;
  tp_deferral deferral = {
      .struct_size = sizeof deferral, .cancel = cancel_deferred, .destroy = unref_deferred, .ctx = d};
  tp__references_ref(&d->refs); /* a reference for the deferral */
  tp_answer answer = tp_tool_defer(run, &deferral, &d->token);
  if (d->token.bits != 0) submit_deferred(d, run, operation, spec);
  else unref_deferred(d);
  unref_deferred(d);
  return answer;
}

/* ---- what a model says ---- */

static tp_answer refuse_task(tp_tool_run *run, tp_text subject, const char *why) {
  char words[512];
  int size = snprintf(words, sizeof words, "%.*s: %s", tp__cut(subject, 128), subject.size ? subject.data : "", why);
  return tp_tool_error(run, (tp_text){words, (size_t)size});
}

static tp_answer refuse_key(tp_tool_run *run, tp_text key) {
  return refuse_task(run, key,
                     "a task_key is 1 to 64 letters, digits, '.', '_' and '-', and does not begin with 'tenant-'.");
}

static tp_text argument(const tp_tool_run *run, const char *name) {
  return tp_value_get(tp_tool_run_arguments(run), name);
}

static void make_key(tp__tasks_domain *domain, const tp_tool_run *run, char ret_key[TP__TASK_KEY_MAX + 1]) {
  tp__lock_acquire(&domain->lock);
  uint64_t number = ++domain->number;
  tp__lock_release(&domain->lock);
  tp__task_key_make(tp_tool_run_id(run, TP_ID_TURN), tp_tool_run_call_id(run), number, ret_key);
}

/* Copies the name of the ability as a string. @return false when it is longer than an id (128 bytes). */
static bool take_ability(tp_text ability, char ret_name[TP_ID_BYTES_MAX + 1]) {
  if (ability.size == 0 || ability.size > TP_ID_BYTES_MAX) return false;
  tp__copy_cut(ret_name, TP_ID_BYTES_MAX + 1, ability);
  return true;
}

tp_answer tp__task_create(void *ctx, tp_tool_run *run) {
  tp_text ability = tp_value_text(argument(run, "ability_id")), arguments = argument(run, "arguments");
  tp_text key = tp_value_text(argument(run, "task_key"));
  char name[TP_ID_BYTES_MAX + 1], made[TP__TASK_KEY_MAX + 1], stored[TP__STORED_KEY_BYTES];
  if (!take_ability(ability, name)) return refuse_task(run, ability, "there is no such ability.");
  if (tp__tasks_is_own(name))
    return refuse_task(run, ability, "it is an action on tasks: a task is of another ability.");
  if (argument(run, "task_key").size == 0) {
    make_key(ctx, run, made);
    key = tp_text_of(made);
  }
  if (!tp__task_key_valid(key)) return refuse_key(run, key);
  tp__task_key_stored(tp_tool_run_id(run, TP_ID_TENANT), key, stored);
  char shown[TP__TASK_KEY_MAX + 1];
  tp__copy_cut(shown, sizeof shown, key);
  tp__bytes created = {0};
  put_created(&created, shown, ability);
  const tp_task_spec spec = {.struct_size = sizeof spec, .tool = name, .arguments = arguments, .key = stored};
  return begin(run, TP_TASK_CREATE, &spec, &created);
}

tp_answer tp__task_run(void *ctx, tp_tool_run *run) {
  (void)ctx;
  tp_text key = tp_value_text(argument(run, "task_key"));
  char stored[TP__STORED_KEY_BYTES];
  if (!tp__task_key_valid(key)) return refuse_key(run, key);
  tp__task_key_stored(tp_tool_run_id(run, TP_ID_TENANT), key, stored);
  const tp_task_spec spec = {.struct_size = sizeof spec, .key = stored};
  return begin(run, TP_TASK_RUN, &spec, &(tp__bytes){0});
}

tp_status tp__task_keys(void *ctx, tp_text arguments, tp_tool_keys *keys) {
  (void)ctx;
  tp_text key = tp_value_text(tp_value_get(arguments, "task_key"));
  char path[sizeof "tasks/" + TP__TASK_KEY_MAX];
  if (!tp__task_key_valid(key)) return TP_OK; /* without a key here: the call itself refuses this one */
  int size = snprintf(path, sizeof path, "tasks/%.*s", (int)key.size, key.data);
  return tp_tool_keys_add(keys, TP_TOOL_WRITE, (tp_text){path, (size_t)size}, NULL);
}
