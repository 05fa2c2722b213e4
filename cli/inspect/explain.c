/* SPDX-License-Identifier: Apache-2.0
 *
 * The command explain: prints a line for every subscription of each phase of a turn: whether it ran, and why; what it
 * waited for; how much time it had left; its result. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/quantity.h"
#include "cli/common/table.h"
#include "cli/inspect/decided.h"
#include "cli/inspect/trace.h"
#include "cli/run/timeline.h"

enum { NAME_WIDTH = 30 };

enum { SUBSCRIPTION, OUTCOME, QUEUED, RAN, LIMIT, SLACK, AFTER, MERGED, COLUMNS };
static const cli_column columns[COLUMNS] = {
    [SUBSCRIPTION] = {.head = "subscription", .width = NAME_WIDTH, .least = 22},
    [OUTCOME] = {.head = "outcome", .width = 12, .least = 9},
    [QUEUED] = {.head = "queued", .width = 8, .rank = 3, .kind = CLI_COLUMN_RIGHT},
    [RAN] = {.head = "ran", .width = 8, .kind = CLI_COLUMN_RIGHT},
    [LIMIT] = {.head = "limit", .width = 8, .rank = 4, .kind = CLI_COLUMN_RIGHT},
    [SLACK] = {.head = "slack", .width = 8, .rank = 2, .kind = CLI_COLUMN_RIGHT},
    [AFTER] = {.head = "ran after", .width = NAME_WIDTH, .least = 16, .rank = 6},
    [MERGED] = {.head = "merged", .width = 24, .least = 14, .rank = 5, .kind = CLI_COLUMN_TEXT},
};

static const char *after_of(const cli_trace_entry *e, const cli_trace_run *run) {
  return run->after == CLI_NO_RUN ? "-" : e->runs[run->after].row.subscription;
}

/* What was merged of its contributions, as far as its record shows it. */
static const char *merged_of(const cli_trace_run *run, const cli_trace_entry *e, char *buffer, size_t size) {
  uint32_t count = run->row.contribution_count;
  if (count == 0) return "-";
  char bytes[48] = "";
  if (run->bytes) snprintf(bytes, sizeof bytes, ", %s bytes", cli_count(run->bytes).text);
  snprintf(buffer, size, "%u %s%s%s", count, run->row.fallback_used ? "of its fallback" : "contributed", bytes,
           e->status == TP_OK ? "" : ", discarded");
  return buffer;
}

static void print_run(const cli_trace_entry *e, const cli_trace_run *run, cli_table *table) {
  char words[512], times[4][CLI_QUANTITY_SIZE + 2];
  const tp_run_record *row = &run->row;
  bool was_called = cli_run_was_called(row);
  int64_t deadline_ns = cli_run_deadline_ns(row);
  const cli_cell cells[COLUMNS] = {
      [SUBSCRIPTION] = {tp_text_of(row->subscription), CLI_NORMAL},
      [OUTCOME] = {tp_text_of(cli_run_outcome(row)), cli_run_paint(row)},
      [QUEUED] = {cli_trace_duration(cli_run_queued_ns(row), cli_run_queued_ns(row) > 0, times[0]), CLI_NORMAL},
      [RAN] = {cli_trace_duration(cli_run_duration_ns(row), was_called, times[1]), CLI_NORMAL},
      [LIMIT] = {cli_trace_duration((int64_t)row->limit_ms * 1000000, row->limit_ms > 0, times[2]), CLI_NORMAL},
      [SLACK] = {cli_trace_duration(deadline_ns - row->ended_ns, deadline_ns && row->ended_ns, times[3]), CLI_NORMAL},
      [AFTER] = {tp_text_of(after_of(e, run)), CLI_NORMAL},
      [MERGED] = {tp_text_of(merged_of(run, e, words, sizeof words)), CLI_NORMAL},
  };
  cli_table_row(table, cells);
  if (!cli_run_why(run, words, sizeof words)[0]) return;
  cli_print_string(table->output, "      why: ");
  cli_print_cut(table->output, tp_text_of(words), SIZE_MAX);
  cli_print_string(table->output, "\n");
}

static const char *status_of(const cli_trace_entry *e) {
  if (!e->ended_ns) return e->status ? "interrupted" : "running";
  return e->status == TP_OK ? "" : e->status == TP_ERR_DENIED ? "denied" : tp_status_text(e->status);
}

static void print_at(const cli_trace *t, cli_output *output, int64_t started_ns, int64_t ended_ns) {
  cli_printf(output, "  @%s", cli_duration((double)(started_ns > t->began_ns ? started_ns - t->began_ns : 0)).text);
  if (ended_ns) cli_printf(output, " +%s", cli_duration((double)(ended_ns - started_ns)).text);
}

/* The call that a tool.pre was about; NULL: not known. */
static const tp_turn_step *call_of(const cli_trace *t, const cli_trace_entry *e) {
  size_t count = 0;
  const tp_turn_step *call = NULL;
  if (!cli_gate_is(e->phase_id)) return NULL;
  cli_gate *gates = cli_alloc((t->entry_count + 1) * sizeof *gates);
  for (size_t i = 0; i < t->entry_count; i++)
    if (cli_gate_is(t->entries[i].phase_id))
      gates[count++] = (cli_gate){.entry_id = t->entries[i].id, .started_ns = t->entries[i].started_ns};
  cli_gates_name(gates, count, t->steps, t->step_count, t->has_record && !t->steps_dropped);
  for (size_t i = 0; i < count; i++)
    if (gates[i].entry_id == e->id) call = gates[i].call;
  free(gates);
  return call;
}

static void print_place(const tp_turn_step *call, cli_output *output) {
  cli_printf(output, ", call %u of response %u", call->place + 1, call->round);
}

static void print_entry(const cli_trace *t, const cli_trace_entry *e, cli_table *table) {
  cli_output *output = table->output;
  const tp_turn_step *call = call_of(t, e);
  cli_print_string(output, "\n");
  cli_paint_on(output, CLI_BOLD);
  cli_print_string(output, e->phase);
  cli_paint_off(output);
  if (call) cli_print_string(output, " of ");
  if (call) cli_print_cut(output, call->name, SIZE_MAX);
  if (call) print_place(call, output);
  print_at(t, output, e->started_ns, e->ended_ns);
  cli_print_string(output, e->is_detached ? "  after the turn" : "");
  cli_paint_on(output, CLI_BAD);
  cli_printf(output, "%s%s", status_of(e)[0] ? "  " : "", status_of(e));
  cli_paint_off(output);
  cli_print_string(output, "\n");
  for (size_t i = 0; i < e->run_count; i++) print_run(e, &e->runs[i], table);
}

static void print_step(const cli_trace *t, const tp_turn_step *step, cli_output *output) {
  char words[CLI_STEP_NAME_SIZE];
  bool was_called = step->kind != TP_STEP_TOOL || step->ended_ns > step->started_ns || !cli_step_failed(step);
  cli_printf(output, "\n%s", step->kind == TP_STEP_TOOL ? "tool " : "");
  cli_paint_on(output, CLI_BOLD);
  cli_print_cut(output, tp_text_of(cli_step_name(step, words, sizeof words)), SIZE_MAX);
  cli_paint_off(output);
  if (step->kind == TP_STEP_TOOL) print_place(step, output);
  print_at(t, output, step->started_ns, was_called ? step->ended_ns : 0);
  cli_paint_on(output, cli_step_failed(step) ? CLI_BAD : CLI_GOOD);
  cli_printf(output, "  %s\n", cli_step_outcome(step));
  cli_paint_off(output);
}

static void print_asked(const cli_trace *t, cli_output *output) {
  if (t->asked_count == 0) return;
  cli_print_string(output, "\n");
  cli_paint_on(output, CLI_BOLD);
  cli_print_string(output, "people");
  cli_paint_off(output);
  cli_print_string(output, "\n");
  static const cli_column of_people[] = {{.head = "", .width = 6},
                                         {.head = "", .width = NAME_WIDTH, .least = 12},
                                         {.head = "", .width = 20, .kind = CLI_COLUMN_TEXT}};
  cli_table table;
  cli_table_begin(&table, output, of_people, 3, 2);
  for (size_t i = t->asked_count; i-- > 0;) {
    const cli_trace_asked *asked = &t->asked[i];
    const cli_cell cells[] = {{tp_text_of(asked->action), CLI_NORMAL},
                              {tp_text_of(asked->subscription), CLI_NORMAL},
                              {tp_text_of(asked->detail), CLI_NORMAL}};
    cli_table_row(&table, cells);
  }
  cli_table_end(&table);
}

/* What is running, or was running when the process died: the open steps above. */
static void print_under_way(const cli_trace *t, cli_output *output) {
  if (t->called.count + t->suspect_count == 0) return;
  cli_print_string(output, "\n");
  cli_paint_on(output, CLI_BOLD);
  cli_print_string(output, t->suspect_count ? "when its process died" : "under way");
  cli_paint_off(output);
  cli_print_string(output, "\n");
  cli_called_print(&t->called, output);
  for (size_t i = t->suspect_count; i-- > 0;) {
    cli_print_string(output, "  crash_suspect ");
    cli_print_cut(output, tp_text_of(t->suspects[i]), SIZE_MAX);
    cli_print_string(output, "\n");
  }
}

static void print_explain(const cli_trace *t, cli_output *output) {
  cli_trace_print_head(t, output);
  cli_print_string(output, "\n");
  cli_table table;
  cli_table_begin(&table, output, columns, COLUMNS, 2);
  cli_table_head(&table);
  size_t step = 0;
  for (size_t i = 0; i <= t->entry_count; i++) {
    while (step < t->step_count && (i == t->entry_count || t->steps[step].started_ns <= t->entries[i].started_ns))
      print_step(t, &t->steps[step++], output);
    if (i < t->entry_count) print_entry(t, &t->entries[i], &table);
  }
  cli_table_end(&table);
  print_asked(t, output);
  print_under_way(t, output);
}

/* ---- for programs ---- */

/* @param run  CLI_NO_RUN: the payload */
static void add_contents(cli_map *p, const char *key, const cli_trace_entry *e, size_t run) {
  cli_map_open_list(p, key);
  for (size_t i = 0; i < e->content_count; i++) {
    const cli_trace_content *c = &e->contents[i];
    if (c->run != run) continue;
    cli_map_open(p, NULL);
    if (c->field) cli_map_add_string(p, "field", c->field);
    cli_map_add_int(p, "bytes", (int64_t)c->bytes);
    if (c->hash[0]) cli_map_add_string(p, "hash", c->hash);
    cli_map_close(p);
  }
  cli_map_close(p);
}

static void add_run(cli_map *p, const cli_trace_entry *e, const cli_trace_run *run) {
  char words[512];
  const tp_run_record *row = &run->row;
  int64_t deadline_ns = cli_run_deadline_ns(row);
  cli_map_open(p, NULL);
  cli_map_add_string(p, "subscription", row->subscription);
  cli_map_add_string(p, "handler", row->handler);
  cli_map_add_string(p, "state", tp_state_name((tp_state)row->state));
  cli_map_add_string(p, "reason", tp_reason_name((tp_reason)row->reason));
  cli_map_add_string(p, "verdict", tp_verdict_name((tp_verdict)row->verdict));
  cli_map_add_string(p, "why", cli_run_why(run, words, sizeof words));
  if (run->after != CLI_NO_RUN) cli_map_add_string(p, "ran_behind", after_of(e, run));
  cli_map_add_int(p, "queued_ns", cli_run_queued_ns(row));
  cli_map_add_int(p, "ran_ns", cli_run_duration_ns(row));
  if (row->limit_ms) cli_map_add_int(p, "limit_ms", row->limit_ms);
  if (row->thread) cli_map_add_int(p, "thread", row->thread);
  if (deadline_ns && row->ended_ns) cli_map_add_int(p, "slack_ns", deadline_ns - row->ended_ns);
  cli_map_add_int(p, "attempts", row->attempts);
  cli_map_add_int(p, "contribution_count", row->contribution_count);
  add_contents(p, "contributed", e, (size_t)(run - e->runs));
  cli_map_add_bool(p, "fallback_used", row->fallback_used);
  cli_map_add_bool(p, "discarded", e->status != TP_OK);
  cli_map_close(p);
}

static void add_entry(cli_map *p, const cli_trace *t, const cli_trace_entry *e) {
  const tp_turn_step *call = call_of(t, e);
  cli_map_open(p, NULL);
  cli_map_add_string(p, "phase", e->phase);
  if (call) cli_map_add_text(p, "tool", call->name);
  if (call) cli_map_add_int(p, "round", call->round);
  if (call) cli_map_add_int(p, "place", call->place);
  cli_map_add_int(p, "at_ns", e->started_ns - t->began_ns);
  if (e->ended_ns) cli_map_add_int(p, "duration_ns", e->ended_ns - e->started_ns);
  cli_map_add_string(p, "status", e->ended_ns ? tp_status_name(e->status) : status_of(e));
  cli_map_add_bool(p, "detached", e->is_detached);
  add_contents(p, "payload", e, CLI_NO_RUN);
  cli_map_open_list(p, "subscriptions");
  for (size_t i = 0; i < e->run_count; i++) add_run(p, e, &e->runs[i]);
  cli_map_close(p);
  cli_map_close(p);
}

static void add_step(cli_map *p, const cli_trace *t, const tp_turn_step *step) {
  cli_map_open(p, NULL);
  cli_map_add_string(p, "kind", tp_step_kind_name((tp_step_kind)step->kind));
  if (step->kind == TP_STEP_TOOL || step->kind == TP_STEP_QUESTION) cli_map_add_text(p, "tool", step->name);
  if (step->kind == TP_STEP_MODEL) cli_map_add_text(p, "model", step->name);
  cli_map_add_int(p, "round", step->round);
  cli_map_add_int(p, "place", step->place);
  cli_map_add_string(p, "outcome", cli_step_outcome(step));
  cli_map_add_int(p, "at_ns", step->started_ns - t->began_ns);
  if (step->ended_ns) cli_map_add_int(p, "duration_ns", step->ended_ns - step->started_ns);
  cli_map_close(p);
}

static void add_asked(cli_map *p, const cli_trace_asked *asked) {
  cli_map_open(p, NULL);
  cli_map_add_string(p, "action", asked->action);
  cli_map_add_string(p, "subscription", asked->subscription);
  cli_map_add_string(p, "detail", asked->detail);
  cli_map_add_int(p, "unix_ms", asked->unix_ms);
  cli_map_close(p);
}

static void print_explain_json(const cli_trace *t, cli_output *output) {
  cli_map p = {0};
  cli_trace_add_head(t, &p);
  cli_map_open_list(&p, "phases");
  for (size_t i = 0; i < t->entry_count; i++) add_entry(&p, t, &t->entries[i]);
  cli_map_close(&p);
  cli_map_open_list(&p, "steps");
  for (size_t i = 0; i < t->step_count; i++) add_step(&p, t, &t->steps[i]);
  cli_map_close(&p);
  cli_map_add_int(&p, "steps_dropped", (int64_t)t->steps_dropped);
  cli_map_open_list(&p, "people");
  for (size_t i = t->asked_count; i-- > 0;) add_asked(&p, &t->asked[i]);
  cli_map_close(&p);
  if (!t->has_record) cli_called_add(&p, &t->called);
  if (t->suspect_count) cli_map_open_list(&p, "crash_suspects");
  for (size_t i = t->suspect_count; i-- > 0;) cli_map_add_string(&p, NULL, t->suspects[i]);
  if (t->suspect_count) cli_map_close(&p);
  cli_map_print(&p, output);
}

int cli_explain(const cli_arguments *arguments, cli_output *output) {
  return cli_trace_run_command(&(cli_trace_command){"explain", print_explain, print_explain_json}, arguments, output);
}
