/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks_run.c: runs one hook of a trusted directory in a runtime of its own, and prints its input, its output, how it
 * ended, and how that was judged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/common/exit_status.h"
#include "cli/common/machine.h"
#include "cli/common/map.h"
#include "cli/common/input.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/hooks/hooks.h"
#include "cli/run/host.h"
#include "cli/run/payload.h"
#include "support/clock.h"
#include "support/lock.h"
#include "support/text.h"

/* How long to wait for a program that was given up; and how long a detached hook may take. */
enum { GIVEN_UP_MS = 2000, DETACHED_MS = 60000 };

typedef struct trial {
  const cli_arguments *arguments;
  cli_output *output;
  tp_runtime *runtime;
  tp_hooks *hooks;
  cli_payload payload;
  const char *id;
  bool found;
  uint32_t phase;
  const char *event, *kind, *target, *protocol; /* borrowed from the hooks */
  tp_turn *turn;
  tp_phase_result result;
  bool has_record;
  tp_run_record record; /* its names are not used */
  cli_pool pool;
  tp__lock mutex;
  tp__lock_condition ended;
  /* under mutex */
  bool has_program;
  tp_hook_program program; /* its texts are in pool */
  tp_answer answer;
  const char *reason;
} trial;

/* The output of a program may be any bytes; it is shown as its hook reads it. */
static tp_text copy_text(trial *t, tp_text text) {
  tp__bytes shown = {0};
  tp__bytes_put_utf8(&shown, text);
  tp_text copy = {cli_pool_copy(&t->pool, tp__bytes_text(&shown)), shown.size};
  tp__bytes_fini(&shown);
  return copy;
}

static void on_program(void *ctx, const tp_hook_program *program) {
  trial *t = ctx;
  tp__lock_acquire(&t->mutex);
  t->program = *program;
  t->program.input = copy_text(t, program->input);
  t->program.output = copy_text(t, program->output);
  t->program.errors = copy_text(t, program->errors);
  t->answer = program->outcome->kind;
  t->reason = program->outcome->reason ? copy_text(t, tp_text_of(program->outcome->reason)).data : "";
  t->has_program = true;
  tp__lock_condition_signal(&t->ended);
  tp__lock_release(&t->mutex);
}

static bool find_hook(void *ctx, const tp_hook_info *info) {
  trial *t = ctx;
  if (strcmp(info->id, t->id) != 0) return true;
  t->found = true;
  t->phase = info->phase;
  t->event = info->event;
  t->kind = info->kind;
  t->target = info->target;
  t->protocol = info->protocol;
  return false;
}

/* ---- the run ---- */

static int open_hook(trial *t) {
  const char *directory = t->arguments->operands[1];
  tp_hooks_options options = cli_hooks_options(t->arguments, directory);
  options.only = t->id;
  options.on_program = on_program;
  options.program_ctx = t;
  int status = cli_hooks_read(t->runtime, &options, &t->hooks);
  if (status != CLI_OK) return status;
  tp_hooks_each(t->hooks, find_hook, t);
  if (!t->found) {
    cli_error_at(directory, 0, 0, "there is no hook %s; see: turnphase hooks list %s", t->id, directory);
    return CLI_USAGE;
  }
  if (strcmp(t->kind, "tool") == 0) {
    cli_error_at(directory, 0, 0, "%s is a tool: turnphase tool call %s --hooks %s", t->id, t->id, directory);
    return CLI_USAGE;
  }
  status = cli_hooks_need_trust(t->runtime, directory, t->hooks);
  if (status != CLI_OK) return status;
  const char *disabled = getenv("TURNPHASE_DISABLE_HOOKS");
  if (disabled && strcmp(disabled, "1") == 0) {
    cli_error("TURNPHASE_DISABLE_HOOKS=1: no hook runs");
    return CLI_CONFIG;
  }
  tp_fault fault = {0};
  tp_status committed = tp_hooks_commit(t->hooks, NULL, tp_hooks_hash(t->hooks), NULL, &fault);
  return committed == TP_OK ? CLI_OK : cli_fault(fault.subject[0] ? fault.subject : directory, committed, &fault);
}

static int check_fields(const trial *t) {
  const tp_phase *phase = tp_phase_get(t->runtime, t->phase);
  for (size_t i = 0; i < t->payload.count; i++) {
    if (cli_phase_carries(phase, t->payload.fields[i].id)) continue;
    cli_error_at(cli_input_name(t->arguments->payload), 0, 0, "%s carries no field \"%s\"; see: turnphase phases",
                 phase->name, tp_field_name(t->payload.fields[i].id));
    return CLI_CONFIG;
  }
  return CLI_OK;
}

static int run_phase(trial *t) {
  tp_fault fault = {0};
  tp_turn_request request = {.struct_size = sizeof request, .caller = TP_CALLER_MANUAL_CLI};
  tp_phase_input input = {.struct_size = sizeof input, .fields = t->payload.fields, .field_count = t->payload.count};
  t->result = (tp_phase_result){.struct_size = sizeof t->result};
  tp_status status = tp_turn_begin_bare(t->runtime, &request, &t->turn, &fault);
  if (status == TP_OK) status = tp_phase_run(t->turn, t->phase, &input, &t->result, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(t->id, status, &fault);
}

static const tp_run_record *record_of(const trial *t) { return t->has_record ? &t->record : NULL; }

static void wait_for_trial(trial *t) {
  const tp_run_record *record = tp_phase_result_run(&t->result, 0);
  t->has_record = record != NULL;
  if (!record) return;
  t->record = *record;
  bool given_up = record->reason == TP_REASON_TIMEOUT || record->reason == TP_REASON_CANCELLED;
  if (record->state == TP_STATE_BACKGROUNDED) {
    /* The drain ends when all detached runs have ended. The turn's result has nothing about them. */
    tp_drain_report report = {.struct_size = sizeof report};
    tp_turn_end(t->turn);
    t->turn = NULL;
    t->result = (tp_phase_result){.struct_size = sizeof t->result};
    if (tp_runtime_drain(t->runtime, DETACHED_MS, &report, NULL) != TP_OK) cli_error("the drain was refused");
  } else if (given_up && (strcmp(t->kind, "script") == 0 || cli_hooks_asks_model(t->kind))) {
    int64_t deadline_ns = tp__monotonic_ns() + GIVEN_UP_MS * TP__NS_IN_MS;
    tp__lock_acquire(&t->mutex);
    while (!t->has_program && tp__lock_condition_wait_until(&t->ended, &t->mutex, deadline_ns)) continue;
    tp__lock_release(&t->mutex);
  }
}

/* ---- what it came to ---- */

/* @return whether the hook gave an answer. A hook that its match excluded has none. */
static bool has_answered(const trial *t) {
  const tp_run_record *record = record_of(t);
  if (!record) return false;
  if (record->state == TP_STATE_BACKGROUNDED)
    return (strcmp(t->kind, "script") != 0 && !cli_hooks_asks_model(t->kind)) ||
           (t->has_program && t->answer != TP_ANSWER_FAILED);
  if (record->state == TP_STATE_SKIPPED) return record->reason == TP_REASON_MATCH;
  return record->state == TP_STATE_SUCCEEDED;
}

static const char *judged(const trial *t) {
  const tp_run_record *record = record_of(t);
  if (!has_answered(t)) return "failed";
  if (record->state == TP_STATE_SKIPPED) return "skipped";
  if (record->state == TP_STATE_BACKGROUNDED) return "not_waited_for";
  return record->verdict > TP_VERDICT_NONE ? tp_verdict_name((tp_verdict)record->verdict) : "done";
}

static const char *why(const trial *t) {
  const tp_run_record *record = record_of(t);
  return record && record->reason != TP_REASON_NONE ? tp_reason_name((tp_reason)record->reason) : "";
}

static tp_text words(const trial *t) {
  if (t->result.reason.size > 0) return t->result.reason;
  return tp_text_of(t->has_program && t->reason ? t->reason : "");
}

static const char *kind_of(uint32_t kind) {
  switch (kind) {
    case TP_CONTRIBUTION_SIGNAL:
      return "signal";
    case TP_CONTRIBUTION_REMINDER:
      return "reminder";
    case TP_CONTRIBUTION_AUDIT:
      return "audit";
    default:
      return "diagnostic";
  }
}

static const uint32_t shown_kinds[] = {TP_CONTRIBUTION_REMINDER, TP_CONTRIBUTION_SIGNAL, TP_CONTRIBUTION_AUDIT,
                                       TP_CONTRIBUTION_DIAGNOSTIC};

/* ---- as JSON ---- */

static void add_contribution(cli_map *p, uint32_t kind, const tp_contribution *contribution) {
  cli_map_open(p, NULL);
  cli_map_add_string(p, "kind", kind_of(kind));
  if (contribution->domain.size) cli_map_add_text(p, "domain", contribution->domain);
  if (contribution->key.size) cli_map_add_text(p, "key", contribution->key);
  cli_map_add_text(p, "text", contribution->text);
  if (contribution->value.size) cli_map_add_value(p, "value", contribution->value);
  cli_map_close(p);
}

static void add_contributions(cli_map *p, const tp_merged *merged) {
  cli_map_open_list(p, "contributions");
  for (size_t k = 0; merged && k < 4; k++) {
    for (size_t i = 0; i < tp_merged_count(merged, shown_kinds[k]); i++)
      add_contribution(p, shown_kinds[k], tp_merged_get(merged, shown_kinds[k], i)->contribution);
  }
  cli_map_close(p);
}

static void add_program(cli_map *p, const tp_hook_program *program) {
  cli_map_open(p, "program");
  cli_map_add_text(p, "input", program->input);
  cli_map_add_text(p, "output", program->output);
  cli_map_add_text(p, "errors", program->errors);
  cli_map_add_string(p, "end", tp_process_end_name(program->end));
  if (program->end == TP_PROCESS_EXITED) cli_map_add_int(p, "exit_code", program->exit_code);
  if (program->end == TP_PROCESS_KILLED) cli_map_add_int(p, "signal", program->signal);
  cli_map_add_int(p, "duration_ms", program->duration_ms);
  cli_map_close(p);
}

static int print_trial_json(const trial *t) {
  cli_map p = {0};
  cli_map_add_string(&p, "hook", t->id);
  cli_map_add_string(&p, "phase", tp_phase_get(t->runtime, t->phase)->name);
  cli_map_add_string(&p, "event", t->event);
  cli_map_add_string(&p, "kind", t->kind);
  cli_map_add_string(&p, "target", t->target);
  cli_map_add_string(&p, "judged", judged(t));
  cli_map_add_string(&p, "why", why(t));
  cli_map_add_text(&p, "reason", words(t));
  cli_map_add_string(&p, "phase_outcome", t->result.outcome ? tp_status_name(t->result.outcome) : "TP_OK");
  if (t->has_program) add_program(&p, &t->program);
  add_contributions(&p, t->result.merged);
  return cli_map_print(&p, t->output);
}

/* ---- for people ---- */

static void print_trial_line(const trial *t, const char *name, tp_text text) {
  while (text.size > 0 && text.data[text.size - 1] == '\n') text.size--;
  cli_printf(t->output, "%-9s ", name);
  cli_hooks_print_text(t->output, text);
  cli_print_string(t->output, "\n");
}

static void print_judged(const trial *t) {
  tp_text reason = words(t);
  cli_printf(t->output, "%-9s %s%s%s%s", "judged", judged(t), why(t)[0] ? " (" : "", why(t), why(t)[0] ? ")" : "");
  if (reason.size) cli_print_string(t->output, ": ");
  cli_hooks_print_text(t->output, reason);
  cli_print_string(t->output, "\n");
  if (!has_answered(t))
    cli_printf(t->output, "%-9s %s\n", "",
               t->result.outcome == TP_OK ? "best_effort: the phase goes on" : "required: the phase is stopped");
}

static void print_trial(const trial *t) {
  cli_printf(t->output, "%-9s %s, %s, %s ", "hook", t->id, tp_phase_get(t->runtime, t->phase)->name, t->kind);
  cli_hooks_print_text(t->output, tp_text_of(t->target));
  cli_print_string(t->output, "\n");
  if (t->has_program) {
    const tp_hook_program *program = &t->program;
    char ended[96];
    bool is_asked = cli_hooks_asks_model(t->kind);
    print_trial_line(t, is_asked ? "asked" : "got", program->input);
    if (program->output.size) print_trial_line(t, is_asked ? "answered" : "printed", program->output);
    if (program->errors.size) print_trial_line(t, is_asked ? "no answer" : "on stderr", program->errors);
    if (is_asked) snprintf(ended, sizeof ended, "the request");
    else if (program->end == TP_PROCESS_EXITED) snprintf(ended, sizeof ended, "exit code %d", program->exit_code);
    else if (program->end == TP_PROCESS_KILLED) snprintf(ended, sizeof ended, "signal %d", program->signal);
    else snprintf(ended, sizeof ended, "%s", tp_process_end_name(program->end));
    cli_printf(t->output, "%-9s %s, after %lld ms\n", "ended", ended, (long long)program->duration_ms);
  }
  print_judged(t);
  const tp_merged *merged = t->result.merged;
  for (size_t k = 0; merged && k < 4; k++) {
    for (size_t i = 0; i < tp_merged_count(merged, shown_kinds[k]); i++) {
      const tp_contribution *contribution = tp_merged_get(merged, shown_kinds[k], i)->contribution;
      print_trial_line(t, kind_of(shown_kinds[k]), contribution->text.size ? contribution->text : contribution->key);
    }
  }
}

/* ---- the action ---- */

static int try_hook(trial *t) {
  int status = open_hook(t);
  if (status == CLI_OK)
    status = t->protocol[0] ? cli_payload_read_event(t->arguments->payload, t->event,
                                                     tp_phase_get(t->runtime, t->phase), &t->payload)
                            : cli_payload_read(t->arguments->payload, &t->payload);
  if (status == CLI_OK) status = check_fields(t);
  if (status == CLI_OK) status = run_phase(t);
  if (status != CLI_OK) return status;
  wait_for_trial(t);
  if (t->arguments->json) status = print_trial_json(t);
  else print_trial(t);
  return status == CLI_OK && !has_answered(t) ? CLI_NEGATIVE : status;
}

int cli_hooks_run(const cli_arguments *arguments, cli_output *output) {
  cli_arguments alone = *arguments;
  alone.no_memory = true;
  trial t = {.arguments = arguments,
             .output = output,
             .id = arguments->operands[2],
             .mutex = TP__LOCK_INITIALIZER(TP__LOCK_hook_try)};
  tp__lock_condition_init(&t.ended);
  cli_redactor_try(arguments->operands[1]);
  int status = cli_host_open(&alone, NULL, NULL, &t.runtime);
  if (status == CLI_OK) status = try_hook(&t);
  tp_hooks_free(t.hooks);
  if (t.turn) tp_turn_end(t.turn);
  cli_host_close(t.runtime);
  cli_payload_free(&t.payload);
  cli_pool_free(&t.pool);
  tp__lock_condition_fini(&t.ended);
  tp__lock_fini(&t.mutex);
  return status;
}
