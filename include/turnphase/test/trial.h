/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.h: a kit for tests of handlers (docs/guides/trial.md). A trial is a runtime in which one phase runs with the
 * handlers that the test registers: no agent, model or session, and a payload that is JSON. The outcome of a run is a
 * report of lines, which are equal for equal plans, payloads and answers. The whole kit is in this header, over the
 * public functions: a test links turnphase and nothing else. C11 and C++.
 * Threads: one for each trial. */
#ifndef TURNPHASE_TEST_TRIAL_H
#define TURNPHASE_TEST_TRIAL_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "turnphase/turnphase.h"

enum { TP_TRIAL_REPORT_SIZE = 32768, TP_TRIAL_FIELDS_MAX = 64 };

/** A runtime, the request of its turns, and what the last run left. */
typedef struct tp_trial {
  /** Register in it the handlers that are tried: tp_hook_add(), tp_domain_add(), edits. */
  tp_runtime *runtime;
  /** The request of the turn that each run begins: set mode, caller, environment, task. limit_ms is 0: the default. */
  tp_turn_request request;
  /** The outcome and verdict of the last run. outcome is TP_OK, TP_ERR_DENIED, TP_ERR_HOOK (a required handler failed),
   *  TP_ERR_CANCELLED. */
  tp_status outcome;
  tp_verdict verdict;
  /** Why the last run did not begin; empty when it did. */
  tp_fault fault;
  /** Lines, each with its end:
   *    outcome: TP_ERR_DENIED, deny of guard: not there
   *    run: guard succeeded, deny                      each subscription, in the order of the plan
   *    run: slow timed_out, timeout, 2 attempts
   *    reminder of guard: look twice                   each contribution as it was merged, kind after kind
   *    policy of rules: domain/key = text, weight 5, value {"a":1}
   *    diagnostic of slow: timeout = timed_out: timeout
   *    field text: hello                               each field that was replaced, as the chain left it
   *  A report that does not fit ends with the line "...". */
  char report[TP_TRIAL_REPORT_SIZE];
} tp_trial;

/* ---- the report ---- */

/* Adds a line. A line that does not fit is left out whole, and so are all lines after it. */
static inline void tp_trial_add(tp_trial *trial, const char *format, ...) {
  static const char end[] = "...\n";
  size_t used = strlen(trial->report), left = sizeof trial->report - sizeof end - used;
  va_list arguments;
  if (used >= 4 && strcmp(trial->report + used - 4, end) == 0) return;
  va_start(arguments, format);
  int size = vsnprintf(trial->report + used, left, format, arguments);
  va_end(arguments);
  if (size >= 0 && (size_t)size < left) return;
  while (used > 0 && trial->report[used - 1] != '\n') used--;
  memcpy(trial->report + used, end, sizeof end);
}

/* Adds a text, on one line. */
static inline void tp_trial_add_text(tp_trial *trial, tp_text text) {
  for (size_t at = 0; at < text.size;) {
    size_t size = 0;
    while (at + size < text.size && text.data[at + size] != '\n') size++;
    tp_trial_add(trial, "%.*s%s", (int)size, text.data + at, at + size < text.size ? "\\n" : "");
    at += size + 1;
  }
}

static inline void tp_trial_add_value(tp_trial *trial, tp_text value) {
  tp_writer *writer = NULL;
  tp_text json;
  if (value.size == 0 || tp_writer_new(NULL, &writer) != TP_OK) return;
  if (tp_json_encode(value, writer, &json, NULL) == TP_OK) tp_trial_add_text(trial, json);
  else tp_trial_add_text(trial, value); /* arguments that are text */
  tp_writer_free(writer);
}

static inline void tp_trial_add_contribution(tp_trial *trial, const tp_merged_entry *entry) {
  static const char *const kinds[] = {
      "",         "policy", "prompt_context",      "prompt_section", "tool_bundle",   "signal",
      "reminder", "audit",  "manifest_diagnostic", "diagnostic",     "background_job"};
  const tp_contribution *c = entry->contribution;
  size_t count = sizeof kinds / sizeof kinds[0];
  tp_trial_add(trial, "%s of %s:", c->kind < count ? kinds[c->kind] : "?", entry->subscription);
  if (c->domain.size > 0) tp_trial_add(trial, " %.*s%s", (int)c->domain.size, c->domain.data, c->key.size ? "/" : "");
  if (c->key.size > 0) tp_trial_add(trial, "%s%.*s", c->domain.size ? "" : " ", (int)c->key.size, c->key.data);
  if (c->text.size > 0) tp_trial_add(trial, "%s", c->domain.size + c->key.size > 0 ? " = " : " ");
  tp_trial_add_text(trial, c->text);
  if (c->weight != 0) tp_trial_add(trial, ", weight %d", (int)c->weight);
  for (uint32_t i = 0; i < c->tool_count; i++) tp_trial_add(trial, "%s %s", i ? "," : "", c->tools[i]->name);
  if (c->value.size > 0) tp_trial_add(trial, ", value ");
  tp_trial_add_value(trial, c->value);
  tp_trial_add(trial, "\n");
}

static inline void tp_trial_add_run(tp_trial *trial, const tp_run_record *run) {
  tp_trial_add(trial, "run: %s %s", run->subscription, tp_state_name((tp_state)run->state));
  if (run->reason) tp_trial_add(trial, ", %s", tp_reason_name((tp_reason)run->reason));
  if (run->verdict > TP_VERDICT_NONE) tp_trial_add(trial, ", %s", tp_verdict_name((tp_verdict)run->verdict));
  if (run->attempts > 1) tp_trial_add(trial, ", %u attempts", (unsigned)run->attempts);
  tp_trial_add(trial, "\n");
}

static inline void tp_trial_add_fields(tp_trial *trial, const tp_phase *phase, const tp_phase_result *result) {
  for (size_t i = 0; result->merged && i < phase->field_count; i++) {
    tp_field_id field = phase->fields[i];
    const char *name = tp_field_name(field);
    if (!tp_merged_replaced(result->merged, field)) continue;
    if (name) tp_trial_add(trial, "field %s: ", name);
    else tp_trial_add(trial, "field field_%u: ", (unsigned)field);
    if (tp_field_kind(field) == TP_FIELD_KIND_VALUE) tp_trial_add_value(trial, tp_merged_text(result->merged, field));
    else tp_trial_add_text(trial, tp_merged_text(result->merged, field));
    tp_trial_add(trial, "\n");
  }
}

static inline void tp_trial_read(tp_trial *trial, const tp_phase *phase, const tp_phase_result *result) {
  trial->outcome = result->outcome;
  trial->verdict = result->verdict;
  tp_trial_add(trial, "outcome: %s", tp_status_name(result->outcome));
  if (result->verdict > TP_VERDICT_NONE) tp_trial_add(trial, ", %s", tp_verdict_name(result->verdict));
  if (result->subscription) tp_trial_add(trial, " of %s", result->subscription);
  if (result->reason.size > 0) tp_trial_add(trial, ": ");
  tp_trial_add_text(trial, result->reason);
  tp_trial_add(trial, "\n");
  for (uint32_t i = 0; i < result->run_count; i++) {
    const tp_run_record *run = tp_phase_result_run(result, i);
    if (run) tp_trial_add_run(trial, run);
  }
  size_t count = result->merged ? tp_merged_count(result->merged, (tp_contribution_kind)0) : 0;
  for (size_t i = 0; i < count; i++)
    tp_trial_add_contribution(trial, tp_merged_get(result->merged, (tp_contribution_kind)0, i));
  tp_trial_add_fields(trial, phase, result);
}

/* ---- the payload ---- */

static inline tp_status tp_trial_refuse(tp_trial *trial, tp_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  trial->fault.code = status;
  vsnprintf(trial->fault.message, sizeof trial->fault.message, format, arguments);
  va_end(arguments);
  return status;
}

static inline tp_status tp_trial_read_field(tp_trial *trial, const tp_value_walk *walk, tp_field *ret_field) {
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)(walk->key.size < 63 ? walk->key.size : 63), walk->key.data);
  tp_value_kind kind = tp_value_kind_of(walk->value);
  memset(ret_field, 0, sizeof *ret_field);
  ret_field->id = tp_field_find(name);
  ret_field->kind = (uint32_t)tp_field_kind(ret_field->id);
  if (ret_field->id == 0) return tp_trial_refuse(trial, TP_ERR_USAGE, "payload: there is no field `%s`", name);
  if (ret_field->kind == TP_FIELD_KIND_INT) {
    ret_field->number = tp_value_int(walk->value, 0);
    return kind == TP_VALUE_INT ? TP_OK : tp_trial_refuse(trial, TP_ERR_USAGE, "payload: `%s` is an integer", name);
  }
  ret_field->text = ret_field->kind == TP_FIELD_KIND_TEXT ? tp_value_text(walk->value) : walk->value;
  if (ret_field->kind != TP_FIELD_KIND_TEXT || kind == TP_VALUE_TEXT) return TP_OK;
  return tp_trial_refuse(trial, TP_ERR_USAGE, "payload: `%s` is a text", name);
}

/* ---- what a test calls ---- */

/** Opens a trial.
 *  @param options  NULL: those of tp_runtime_new() without any.
 *  @return as tp_runtime_new(), with trial->fault. */
static inline tp_status tp_trial_open(tp_trial *trial, const tp_runtime_options *options) {
  memset(trial, 0, sizeof *trial);
  trial->request.struct_size = sizeof trial->request;
  return tp_runtime_new(options, &trial->runtime, &trial->fault);
}

/** Runs a phase with fields as tp_phase_run() takes them, for phases of a host.
 *  @return TP_OK: the phase ran, and outcome, verdict and report are set; else it did not run, and fault says why. */
static inline tp_status tp_trial_run_fields(tp_trial *trial, const char *phase, const tp_field *fields, size_t count) {
  tp_turn *turn = NULL;
  tp_phase_input input;
  tp_phase_result result;
  memset(&input, 0, sizeof input);
  memset(&result, 0, sizeof result);
  memset(&trial->fault, 0, sizeof trial->fault);
  trial->report[0] = '\0';
  trial->outcome = TP_OK;
  trial->verdict = TP_VERDICT_NONE;
  input.struct_size = sizeof input;
  input.fields = fields;
  input.field_count = count;
  result.struct_size = sizeof result;
  tp_phase_id id = tp_phase_find(trial->runtime, phase);
  if (id == 0) return tp_trial_refuse(trial, TP_ERR_UNKNOWN_PHASE, "there is no phase `%s`", phase ? phase : "");
  tp_status status = tp_turn_begin_bare(trial->runtime, &trial->request, &turn, &trial->fault);
  if (status != TP_OK) return status;
  status = tp_phase_run(turn, id, &input, &result, &trial->fault);
  if (status == TP_OK) tp_trial_read(trial, tp_phase_get(trial->runtime, id), &result);
  tp_turn_end(turn);
  return status;
}

/** Runs a phase.
 *  @param phase    its name, or an alias.
 *  @param payload  a JSON object of fields by name (docs/phases.md); NULL: none.
 *  @return as tp_trial_run_fields(); TP_ERR_USAGE for a payload that is no object, has an unknown field, or a field of
 *          another kind; what tp_json_decode() returns. */
static inline tp_status tp_trial_run(tp_trial *trial, const char *phase, const char *payload) {
  tp_field fields[TP_TRIAL_FIELDS_MAX];
  tp_value_walk walk;
  size_t count = 0;
  tp_writer *writer = NULL;
  tp_text value;
  memset(&walk, 0, sizeof walk);
  if (!payload) return tp_trial_run_fields(trial, phase, NULL, 0);
  memset(&trial->fault, 0, sizeof trial->fault);
  trial->report[0] = '\0';
  tp_status status = tp_writer_new(NULL, &writer);
  if (status == TP_OK) status = tp_json_decode(tp_text_of(payload), writer, &trial->fault);
  if (status == TP_OK) status = tp_writer_finish(writer, &value);
  if (status == TP_OK && tp_value_kind_of(value) != TP_VALUE_MAP)
    status = tp_trial_refuse(trial, TP_ERR_USAGE, "payload: it is no JSON object");
  if (status == TP_OK && tp_value_count(value) > TP_TRIAL_FIELDS_MAX)
    status = tp_trial_refuse(trial, TP_ERR_USAGE, "payload: it has more than %d fields", (int)TP_TRIAL_FIELDS_MAX);
  while (status == TP_OK && tp_value_next(value, &walk)) status = tp_trial_read_field(trial, &walk, &fields[count++]);
  if (status == TP_OK) status = tp_trial_run_fields(trial, phase, fields, count);
  tp_writer_free(writer);
  return status;
}

/** Whether the report has this line, as a whole and without its end. */
static inline bool tp_trial_has(const tp_trial *trial, const char *line) {
  size_t size = strlen(line);
  for (const char *at = trial->report; *at; at = strchr(at, '\n') + 1) {
    if (strncmp(at, line, size) == 0 && at[size] == '\n') return true;
    if (!strchr(at, '\n')) return false;
  }
  return false;
}

static inline void tp_trial_take(void *ctx, const char *text, size_t size) {
  tp_trial_add((tp_trial *)ctx, "%.*s", (int)size, text);
}

/** Replaces the report by the plan of a phase, one subscription a line: its order, policies, limits, match and edges,
 *  as `turnphase plan` prints it, without hashes. The plan is equal for equal registrations, so a test can keep it and
 *  compare it, to notice that a descriptor has changed.
 *  @return as tp_plan_print(); TP_ERR_UNKNOWN_PHASE. */
static inline tp_status tp_trial_plan(tp_trial *trial, const char *phase) {
  trial->report[0] = '\0';
  tp_phase_id id = tp_phase_find(trial->runtime, phase);
  memset(&trial->fault, 0, sizeof trial->fault);
  if (id == 0) return tp_trial_refuse(trial, TP_ERR_UNKNOWN_PHASE, "there is no phase `%s`", phase ? phase : "");
  tp_status status = tp_plan_print(trial->runtime, id, TP_PLAN_TABLE, tp_trial_take, trial);
  char *hash = strstr(trial->report, ", hash ");
  if (hash) memcpy(hash, "\n", 2);
  return status;
}

/** Ends the runtime. Zero-filled and closed trials are accepted. */
static inline void tp_trial_close(tp_trial *trial) {
  tp_runtime_free(trial->runtime);
  trial->runtime = NULL;
}

#endif
