/* SPDX-License-Identifier: Apache-2.0
 *
 * said.c: texts about a turn that several commands share. */
#include <stdio.h>
#include <string.h>

#include "cli/common/quantity.h"
#include "cli/inspect/trace.h"
#include "cli/run/timeline.h"
#include "runtime/base/check.h"
#include "support/text.h"

/* ---- a run ---- */

bool cli_run_was_called(const tp_run_record *run) { return run->started_ns > 0 && run->attempts > 0; }

int64_t cli_run_queued_ns(const tp_run_record *run) {
  return cli_run_was_called(run) && run->queued_ns && run->started_ns > run->queued_ns
             ? run->started_ns - run->queued_ns
             : 0;
}

int64_t cli_run_duration_ns(const tp_run_record *run) {
  return cli_run_was_called(run) && run->ended_ns > run->started_ns ? run->ended_ns - run->started_ns : 0;
}

int64_t cli_run_deadline_ns(const tp_run_record *run) {
  int64_t from_ns = run->execution == TP_EXECUTION_DEADLINE ? run->queued_ns : run->started_ns;
  return run->limit_ms && from_ns ? from_ns + (int64_t)run->limit_ms * 1000000 : 0;
}

const char *cli_run_outcome(const tp_run_record *run) {
  if (run->state == TP_STATE_SUCCEEDED && run->verdict > TP_VERDICT_NONE)
    return tp_verdict_name((tp_verdict)run->verdict);
  return tp_state_name((tp_state)run->state);
}

cli_paint cli_run_paint(const tp_run_record *run) {
  if (run->verdict == TP_VERDICT_DENY) return CLI_BAD;
  switch (run->state) {
    case TP_STATE_SUCCEEDED:
    case TP_STATE_BACKGROUNDED:
      return CLI_GOOD;
    case TP_STATE_FAILED:
    case TP_STATE_TIMED_OUT:
    case TP_STATE_INTERRUPTED:
      return CLI_BAD;
    case TP_STATE_CANCELLED:
      return CLI_WARN;
    default:
      return CLI_FAINT;
  }
}

static const char *why_skipped(const tp_run_record *run) {
  static const struct {
    tp_reason reason;
    const char *words;
  } rows[] = {{TP_REASON_MATCH, "its match does not fit what the phase carried"},
              {TP_REASON_DEPENDENCY, "a subscription that it requires did not succeed"},
              {TP_REASON_PHASE_FAILED, "the phase was decided before its place"},
              {TP_REASON_NO_SLACK, "no time was left for it"},
              {TP_REASON_KILL_SWITCH, "the operator switched it off"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].reason == run->reason) return rows[i].words;
  return tp_reason_name((tp_reason)run->reason);
}

static void add_words(char *buffer, size_t size, const char *words) {
  size_t used = strlen(buffer);
  snprintf(buffer + used, size - used, "%s%s", used ? "; " : "", words);
}

static void add_deadline(const tp_run_record *run, char *buffer, size_t size) {
  char words[160];
  int64_t deadline_ns = cli_run_deadline_ns(run);
  if (!deadline_ns) {
    add_words(buffer, size, "missed its deadline");
    return;
  }
  snprintf(words, sizeof words, "missed its deadline of %s by %s", cli_duration(run->limit_ms * 1e6).text,
           cli_duration((double)(run->ended_ns > deadline_ns ? run->ended_ns - deadline_ns : 0)).text);
  add_words(buffer, size, words);
}

const char *cli_run_why(const cli_trace_run *from, char *buffer, size_t size) {
  assert(size > 0);
  const tp_run_record *run = &from->row;
  char words[96];
  buffer[0] = '\0';
  if (run->state == TP_STATE_SKIPPED) add_words(buffer, size, why_skipped(run));
  else if (run->state == TP_STATE_TIMED_OUT) add_deadline(run, buffer, size);
  else if (run->state == TP_STATE_BACKGROUNDED && run->execution == TP_EXECUTION_BACKGROUND)
    add_words(buffer, size, "its job was committed; the turn did not wait for it");
  else if (run->state == TP_STATE_BACKGROUNDED) add_words(buffer, size, "started; the turn did not wait for it");
  else if (run->state == TP_STATE_INTERRUPTED) add_words(buffer, size, "its process ended while it ran");
  else if (run->state == TP_STATE_RUNNING) add_words(buffer, size, "it runs, or its process ended first");
  else if (run->reason && run->state != TP_STATE_SUCCEEDED)
    add_words(buffer, size, tp_reason_name((tp_reason)run->reason));
  if (from->detail[0]) add_words(buffer, size, from->detail);
  if (run->fallback_used) add_words(buffer, size, "its fallback was used");
  if (run->attempts > 1) {
    snprintf(words, sizeof words, "%u attempts", run->attempts);
    add_words(buffer, size, words);
  }
  if (run->late_ns > run->ended_ns) {
    snprintf(words, sizeof words, "its answer came %s later and was discarded",
             cli_duration((double)(run->late_ns - run->ended_ns)).text);
    add_words(buffer, size, words);
  }
  return buffer;
}

/* ---- a step ---- */

/* The time of a retry includes the pause before it, because the model's code waits before it asks again. */
static void write_request(const tp_turn_step *step, tp_text model, char *buffer, size_t size) {
  char retry[48] = "";
  if (step->place) snprintf(retry, sizeof retry, ", retry %u with its pause", step->place);
  snprintf(buffer, size, "model request %u%s%s%.*s", step->round, retry, model.size > 0 ? ", " : "", (int)model.size,
           model.data);
}

/* A name of a step has no NUL at its end. */
const char *cli_step_name(const tp_turn_step *step, char *buffer, size_t size) {
  assert(size > 0);
  const char *name = step->name.size > 0 ? step->name.data : "";
  int all = (int)step->name.size, bytes = tp__cut_word(step->name, 96);
  if (step->kind == TP_STEP_TOOL) snprintf(buffer, size, "%.*s", all, name);
  else if (step->kind == TP_STEP_MODEL)
    write_request(step, (tp_text){name, (size_t)(bytes < 64 ? bytes : 64)}, buffer, size);
  else if (step->kind == TP_STEP_MESSAGE) snprintf(buffer, size, "message added to the turn");
  else if (step->kind == TP_STEP_QUESTION && bytes > 0) snprintf(buffer, size, "question about %.*s", bytes, name);
  else if (step->kind == TP_STEP_QUESTION) snprintf(buffer, size, "question about a call");
  else snprintf(buffer, size, "history %s", tp_step_kind_name((tp_step_kind)step->kind));
  return buffer;
}

bool cli_step_failed(const tp_turn_step *step) {
  if (!step->ended_ns) return false;
  return step->outcome != (step->kind == TP_STEP_TOOL ? (int32_t)TP_TOOL_OK : (int32_t)TP_OK);
}

const char *cli_step_outcome(const tp_turn_step *step) {
  if (!step->ended_ns) return "open";
  if (step->kind == TP_STEP_TOOL) return tp_tool_result_name((tp_tool_result_kind)step->outcome);
  return step->outcome == TP_OK ? "ok" : tp_status_text((tp_status)step->outcome);
}

/* ---- the turn ---- */

const char *cli_trace_outcome(const cli_trace *t) {
  if (t->state) return tp_state_name(t->state);
  return t->has_record ? tp_turn_outcome_name(t->outcome) : "not ended: it runs, or its process ended first";
}

static void print_said_text(cli_output *output, const char *before, const char *text) {
  if (!text[0]) return;
  cli_print_string(output, before);
  cli_print_cut(output, tp_text_of(text), SIZE_MAX);
}

void cli_trace_print_head(const cli_trace *t, cli_output *output) {
  char time[40];
  bool is_good = t->has_record && t->outcome == TP_TURN_COMPLETED;
  cli_print_string(output, "turn ");
  cli_paint_on(output, CLI_BOLD);
  cli_print_cut(output, tp_text_of(t->turn_id), SIZE_MAX);
  cli_paint_off(output);
  cli_print_string(output, "  ");
  cli_paint_on(output, is_good ? CLI_GOOD : CLI_BAD);
  cli_print_string(output, cli_trace_outcome(t));
  cli_paint_off(output);
  cli_printf(output, "  %s%s  at %s", t->state ? "after " : "", cli_duration((double)(t->ended_ns - t->began_ns)).text,
             cli_data_time(t->started_unix_ms, time));
  print_said_text(output, "  session ", t->session);
  print_said_text(output, "  tenant ", t->tenant);
  print_said_text(output, "\n  why: ", t->reason);
  if (t->steps_dropped)
    cli_printf(output, "\n  %llu more steps were not recorded", (unsigned long long)t->steps_dropped);
  cli_print_string(output, "\n");
}

void cli_trace_add_head(const cli_trace *t, cli_map *p) {
  cli_map_add_string(p, "turn", t->turn_id);
  cli_map_add_string(p, "session", t->session);
  if (t->tenant[0]) cli_map_add_string(p, "tenant", t->tenant);
  cli_map_add_string(p, "outcome", t->has_record ? tp_turn_outcome_name(t->outcome) : "not_ended");
  if (t->state) cli_map_add_string(p, "turn_state", tp_state_name(t->state));
  if (t->reason[0]) cli_map_add_string(p, "reason", t->reason);
  if (t->subscription[0]) cli_map_add_string(p, "ended_by", t->subscription);
  cli_map_add_int(p, "started_unix_ms", t->started_unix_ms);
  cli_map_add_int(p, "duration_ns", t->ended_ns - t->began_ns);
}

/* ---- cells ---- */

tp_text cli_trace_duration(int64_t ns, bool is_known, char ret_words[CLI_QUANTITY_SIZE + 2]) {
  if (is_known)
    snprintf(ret_words, CLI_QUANTITY_SIZE + 2, "%s%s", ns < 0 ? "-" : "",
             cli_duration((double)(ns < 0 ? -ns : ns)).text);
  return tp_text_of(is_known ? ret_words : "-");
}
