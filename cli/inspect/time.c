/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands time and blame: how the time of a turn was spent, by phase; and by handler, tool and request, the
 * slowest first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/quantity.h"
#include "cli/common/table.h"
#include "cli/inspect/trace.h"
#include "cli/run/timeline.h"

/* ---- time ---- */

/** All runs of one phase in the turn. */
typedef struct phase_sum {
  const char *name;
  size_t count;
  int64_t duration_ns, queued_ns;
  bool is_of_calls; /* its time is in that of the tools */
} phase_sum;

/** The duration of the turn, in parts that do not overlap. */
typedef struct turn_sum {
  phase_sum *phases; /* in the order of their first runs */
  size_t phase_count;
  int64_t phases_ns, history_ns, rest_ns;
} turn_sum;

/* The gates of a call run while the turn waits for its tools. */
static bool is_of_calls(tp_phase_id phase) {
  return phase == TP_PHASE_TOOL_PRE || phase == TP_PHASE_TOOL_RESULT || phase == TP_PHASE_TOOL_POST;
}

static phase_sum *sum_of(turn_sum *sum, const cli_trace_entry *e) {
  for (size_t i = 0; i < sum->phase_count; i++)
    if (strcmp(sum->phases[i].name, e->phase) == 0) return &sum->phases[i];
  phase_sum *added = &sum->phases[sum->phase_count++];
  *added = (phase_sum){.name = e->phase, .is_of_calls = is_of_calls(e->phase_id)};
  return added;
}

static void add_entry_time(turn_sum *sum, const cli_trace_entry *e) {
  if (e->is_detached) return;
  phase_sum *phase = sum_of(sum, e);
  int64_t duration_ns = e->ended_ns ? e->ended_ns - e->started_ns : 0;
  phase->count++;
  phase->duration_ns += duration_ns;
  for (size_t i = 0; i < e->run_count; i++) phase->queued_ns += cli_run_queued_ns(&e->runs[i].row);
  if (!phase->is_of_calls) sum->phases_ns += duration_ns;
}

static turn_sum sum_turn(const cli_trace *t) {
  turn_sum sum = {.phases = cli_alloc((t->entry_count + 1) * sizeof *sum.phases)};
  for (size_t i = 0; i < t->entry_count; i++) add_entry_time(&sum, &t->entries[i]);
  sum.history_ns = t->load_ns + t->append_ns;
  sum.rest_ns = t->ended_ns - t->began_ns - sum.phases_ns - sum.history_ns - t->model_ns - t->tools_ns;
  if (sum.rest_ns < 0) sum.rest_ns = 0;
  return sum;
}

/* The bar gets the part of the terminal's width that a row leaves free. */
static void print_part(cli_table *table, const char *name, int64_t ns, int64_t whole_ns, const char *note) {
  enum { BAR = 30, OTHERS = 12 + 8 + 28 + 3 * 2 };
  static const char mark[] = "\xE2\x96\x88"; /* a full block */
  char duration[CLI_QUANTITY_SIZE + 2], share[16], bar[BAR * sizeof mark + 64];
  size_t width = table->output->width, used = OTHERS + strlen(note) + 2;
  int64_t most = !width || width >= used + BAR ? BAR : width > used ? (int64_t)(width - used) : 0;
  int64_t marks = whole_ns > 0 ? (ns * most + whole_ns / 2) / whole_ns : 0;
  size_t size = 0;
  for (int64_t i = 0; i < marks && i < most; i++) size += (size_t)snprintf(bar + size, sizeof bar - size, "%s", mark);
  snprintf(bar + size, sizeof bar - size, "%s%s", note[0] && marks ? " " : "", note);
  snprintf(share, sizeof share, "%.1f %%", whole_ns > 0 ? 100.0 * (double)ns / (double)whole_ns : 0.0);
  const cli_cell cells[] = {{cli_trace_duration(ns, true, duration), CLI_NORMAL},
                            {tp_text_of(share), CLI_NORMAL},
                            {tp_text_of(name), CLI_NORMAL},
                            {tp_text_of(bar), CLI_NORMAL}};
  cli_table_row(table, cells);
}

/* Counts failed requests, too, because each took time. A record names at most the first 1,024 steps. */
static uint32_t requests_of(const cli_trace *t) {
  uint32_t count = 0;
  for (size_t i = 0; i < t->step_count; i++) count += t->steps[i].kind == TP_STEP_MODEL;
  return count > t->iterations ? count : t->iterations;
}

static void print_parts(const cli_trace *t, const turn_sum *sum, cli_output *output) {
  char model[64], tools[64];
  int64_t whole_ns = t->ended_ns - t->began_ns;
  uint32_t requests = requests_of(t);
  snprintf(model, sizeof model, "%u request%s%s", requests, requests == 1 ? "" : "s",
           requests > t->iterations ? ", with retries" : "");
  snprintf(tools, sizeof tools, "%u call%s, with their gates", t->tool_calls, t->tool_calls == 1 ? "" : "s");
  static const cli_column columns[] = {{.head = "", .width = 12, .least = 9, .kind = CLI_COLUMN_RIGHT},
                                       {.head = "", .width = 8, .kind = CLI_COLUMN_RIGHT},
                                       {.head = "", .width = 28},
                                       {.head = "", .rank = 1, .kind = CLI_COLUMN_TEXT}};
  cli_table table;
  cli_table_begin(&table, output, columns, 4, 0);
  print_part(&table, "phases", sum->phases_ns, whole_ns, "");
  print_part(&table, "model", t->model_ns, whole_ns, model);
  print_part(&table, "tools", t->tools_ns, whole_ns, tools);
  print_part(&table, "history", sum->history_ns, whole_ns, "");
  print_part(&table, "the rest: the runtime itself", sum->rest_ns, whole_ns, "");
  cli_table_end(&table);
}

/* Detached runs, for which the turn did not wait: their time is in no part above. */
static void print_detached(const cli_trace *t, cli_output *output) {
  static const cli_column columns[] = {{.head = "duration", .width = 12, .least = 9, .kind = CLI_COLUMN_RIGHT},
                                       {.head = "queued", .width = 10, .least = 9, .kind = CLI_COLUMN_RIGHT},
                                       {.head = "after the turn"},
                                       {.head = "", .least = 26, .kind = CLI_COLUMN_TEXT}};
  cli_table table;
  size_t count = 0;
  cli_table_begin(&table, output, columns, 4, 0);
  for (size_t i = 0; i < t->entry_count; i++) {
    const cli_trace_entry *e = &t->entries[i];
    if (!e->is_detached) continue;
    const tp_run_record *run = &e->runs[0].row;
    char times[2][CLI_QUANTITY_SIZE + 2], what[160];
    int64_t queued_ns = cli_run_queued_ns(run);
    snprintf(what, sizeof what, "of %s%s%s", e->phase, run->state == TP_STATE_SUCCEEDED ? "" : ": ",
             run->state == TP_STATE_SUCCEEDED ? "" : cli_run_outcome(run));
    const cli_cell cells[] = {{cli_trace_duration(cli_run_duration_ns(run), e->ended_ns != 0, times[0]), CLI_NORMAL},
                              {cli_trace_duration(queued_ns, queued_ns > 0, times[1]), CLI_NORMAL},
                              {tp_text_of(run->subscription), CLI_NORMAL},
                              {tp_text_of(what), CLI_NORMAL}};
    if (count == 0) cli_print_string(output, "\n");
    if (count++ == 0) cli_table_head(&table);
    cli_table_row(&table, cells);
  }
  cli_table_end(&table);
}

static void print_time(const cli_trace *t, cli_output *output) {
  turn_sum sum = sum_turn(t);
  cli_trace_print_head(t, output);
  print_parts(t, &sum, output);
  static const cli_column columns[] = {{.head = "duration", .width = 12, .least = 9, .kind = CLI_COLUMN_RIGHT},
                                       {.head = "queued", .width = 10, .least = 9, .kind = CLI_COLUMN_RIGHT},
                                       {.head = "runs", .width = 4, .kind = CLI_COLUMN_RIGHT},
                                       {.head = "phase"},
                                       {.head = "", .least = 26, .kind = CLI_COLUMN_TEXT}};
  cli_table table;
  cli_table_begin(&table, output, columns, 5, 0);
  if (sum.phase_count) cli_print_string(output, "\n");
  if (sum.phase_count) cli_table_head(&table);
  for (size_t i = 0; i < sum.phase_count; i++) {
    const phase_sum *phase = &sum.phases[i];
    char times[2][CLI_QUANTITY_SIZE + 2], runs[24];
    snprintf(runs, sizeof runs, "%zu", phase->count);
    const cli_cell cells[] = {
        {cli_trace_duration(phase->duration_ns, true, times[0]), CLI_NORMAL},
        {cli_trace_duration(phase->queued_ns, phase->queued_ns > 0, times[1]), CLI_NORMAL},
        {tp_text_of(runs), CLI_NORMAL},
        {tp_text_of(phase->name), CLI_NORMAL},
        {tp_text_of(phase->is_of_calls ? "(in the time of the tools)" : ""), CLI_NORMAL},
    };
    cli_table_row(&table, cells);
  }
  cli_table_end(&table);
  print_detached(t, output);
  free(sum.phases);
}

static void add_phase_time(cli_map *p, const phase_sum *phase) {
  cli_map_open(p, NULL);
  cli_map_add_string(p, "phase", phase->name);
  cli_map_add_int(p, "runs", (int64_t)phase->count);
  cli_map_add_int(p, "duration_ns", phase->duration_ns);
  cli_map_add_int(p, "queued_ns", phase->queued_ns);
  cli_map_add_bool(p, "in_tools", phase->is_of_calls);
  cli_map_close(p);
}

static void add_detached(cli_map *p, const cli_trace_entry *e) {
  const tp_run_record *run = &e->runs[0].row;
  cli_map_open(p, NULL);
  cli_map_add_string(p, "subscription", run->subscription);
  cli_map_add_string(p, "phase", e->phase);
  cli_map_add_string(p, "outcome", cli_run_outcome(run));
  cli_map_add_int(p, "duration_ns", cli_run_duration_ns(run));
  cli_map_add_int(p, "queued_ns", cli_run_queued_ns(run));
  cli_map_close(p);
}

static void print_time_json(const cli_trace *t, cli_output *output) {
  turn_sum sum = sum_turn(t);
  cli_map p = {0};
  cli_trace_add_head(t, &p);
  cli_map_add_int(&p, "phases_ns", sum.phases_ns);
  cli_map_add_int(&p, "model_ns", t->model_ns);
  cli_map_add_int(&p, "tools_ns", t->tools_ns);
  cli_map_add_int(&p, "history_ns", sum.history_ns);
  cli_map_add_int(&p, "rest_ns", sum.rest_ns);
  cli_map_open_list(&p, "phases");
  for (size_t i = 0; i < sum.phase_count; i++) add_phase_time(&p, &sum.phases[i]);
  cli_map_close(&p);
  cli_map_open_list(&p, "detached");
  for (size_t i = 0; i < t->entry_count; i++)
    if (t->entries[i].is_detached) add_detached(&p, &t->entries[i]);
  cli_map_close(&p);
  cli_map_print(&p, output);
  free(sum.phases);
}

int cli_time(const cli_arguments *arguments, cli_output *output) {
  return cli_trace_run_command(&(cli_trace_command){"time", print_time, print_time_json}, arguments, output);
}

/* ---- blame ---- */

/** A handler, a tool call or a request; a phase without its handlers; the time that no record names. */
typedef struct blamed {
  const cli_trace_entry *entry; /* of a handler or a phase; else NULL */
  const cli_trace_run *run;
  const tp_turn_step *step;
  const char *rest; /* NULL: it is one of those above */
  int64_t duration_ns, queued_ns;
} blamed;

typedef struct blame_list {
  blamed *items;
  size_t count;
} blame_list;

static int slowest_first(const void *a, const void *b) {
  const blamed *x = a, *y = b;
  int64_t left = x->duration_ns + x->queued_ns, right = y->duration_ns + y->queued_ns;
  return (left < right) - (left > right);
}

static void blame_phase(blame_list *list, const cli_trace_entry *e) {
  int64_t own_ns = e->is_detached ? 0 : cli_trace_own_ns(e);
  if (own_ns > 0) list->items[list->count++] = (blamed){.entry = e, .duration_ns = own_ns};
}

/* The time that `time` counts but no line names: the dispatch of calls, apart from their functions and gates, and the
 * runtime. */
static void blame_rest(blame_list *list, const cli_trace *t) {
  turn_sum sum = sum_turn(t);
  int64_t tools_ns = t->tools_ns - cli_trace_tools_ns(t);
  free(sum.phases);
  if (tools_ns > 0) list->items[list->count++] = (blamed){.rest = "dispatch of tool calls", .duration_ns = tools_ns};
  if (sum.rest_ns > 0) list->items[list->count++] = (blamed){.rest = "the runtime itself", .duration_ns = sum.rest_ns};
}

static blame_list blame_all(const cli_trace *t) {
  size_t count = t->step_count + t->entry_count + 2;
  for (size_t i = 0; i < t->entry_count; i++) count += t->entries[i].run_count;
  blame_list list = {.items = cli_alloc((count + 1) * sizeof *list.items)};
  for (size_t i = 0; i < t->entry_count; i++)
    for (size_t j = 0; j < t->entries[i].run_count; j++) {
      const cli_trace_run *run = &t->entries[i].runs[j];
      if (!cli_run_was_called(&run->row) || run->row.state == TP_STATE_BACKGROUNDED) continue;
      list.items[list.count++] = (blamed){.entry = &t->entries[i],
                                          .run = run,
                                          .duration_ns = cli_run_duration_ns(&run->row),
                                          .queued_ns = cli_run_queued_ns(&run->row)};
    }
  for (size_t i = 0; i < t->step_count; i++)
    if (t->steps[i].kind != TP_STEP_MESSAGE) /* a moment */
      list.items[list.count++] =
          (blamed){.step = &t->steps[i],
                   .duration_ns = (t->steps[i].ended_ns ? t->steps[i].ended_ns : t->ended_ns) - t->steps[i].started_ns};
  for (size_t i = 0; i < t->entry_count; i++) blame_phase(&list, &t->entries[i]);
  if (t->has_record) blame_rest(&list, t);
  if (list.count) qsort(list.items, list.count, sizeof *list.items, slowest_first);
  return list;
}

static const char *sort_of(const blamed *b) {
  if (b->run) return b->entry->is_detached ? "detached" : "handler";
  if (b->entry) return "phase";
  if (b->rest) return "rest";
  return b->step->kind == TP_STEP_TOOL ? "tool" : b->step->kind == TP_STEP_MODEL ? "model" : "history";
}

static const char *name_of_blamed(const blamed *b, char *buffer, size_t size) {
  if (b->run) return b->run->row.subscription;
  if (b->entry) return b->entry->phase;
  return b->rest ? b->rest : cli_step_name(b->step, buffer, size);
}

static const char *outcome_of_blamed(const blamed *b) {
  if (b->run) return cli_run_outcome(&b->run->row);
  if (b->step) return cli_step_outcome(b->step);
  return !b->entry || b->entry->status == TP_OK ? "ok" : tp_status_text(b->entry->status);
}

static cli_paint paint_of_blamed(const blamed *b) {
  if (b->run) return cli_run_paint(&b->run->row);
  bool failed = b->step ? cli_step_failed(b->step) : b->entry && b->entry->status != TP_OK;
  return failed ? CLI_BAD : CLI_GOOD;
}

enum { DURATION, QUEUED, WHAT, NAME, OUTCOME, WHERE, COLUMNS };

static void print_blamed(const blamed *b, cli_table *table) {
  char name[256], times[2][CLI_QUANTITY_SIZE + 2], where[512] = "", why[256];
  if (b->run) {
    bool has_why = cli_run_why(b->run, why, sizeof why)[0] != '\0';
    snprintf(where, sizeof where, "in %s%s%s", b->entry->phase, has_why ? ": " : "", has_why ? why : "");
  } else if (b->entry) {
    snprintf(where, sizeof where, "%s", cli_trace_own_what(b->entry));
  }
  const cli_cell cells[COLUMNS] = {
      [DURATION] = {cli_trace_duration(b->duration_ns, b->duration_ns > 0 || b->run, times[0]), CLI_NORMAL},
      [QUEUED] = {cli_trace_duration(b->queued_ns, b->queued_ns > 0, times[1]), CLI_NORMAL},
      [WHAT] = {tp_text_of(sort_of(b)), CLI_NORMAL},
      [NAME] = {tp_text_of(name_of_blamed(b, name, sizeof name)), CLI_NORMAL},
      [OUTCOME] = {tp_text_of(outcome_of_blamed(b)), paint_of_blamed(b)},
      [WHERE] = {tp_text_of(where), CLI_NORMAL},
  };
  cli_table_row(table, cells);
}

static void print_blame(const cli_trace *t, cli_output *output) {
  static const cli_column columns[COLUMNS] = {
      [DURATION] = {.head = "duration", .width = 12, .least = 8, .kind = CLI_COLUMN_RIGHT},
      [QUEUED] = {.head = "queued", .width = 10, .least = 8, .rank = 2, .kind = CLI_COLUMN_RIGHT},
      [WHAT] = {.head = "what", .width = 8, .least = 7},
      [NAME] = {.head = "name", .width = 32, .least = 16},
      [OUTCOME] = {.head = "outcome", .width = 12, .least = 9},
      [WHERE] = {.head = "", .least = 40, .rank = 1, .kind = CLI_COLUMN_TEXT},
  };
  blame_list list = blame_all(t);
  cli_trace_print_head(t, output);
  cli_table table;
  cli_table_begin(&table, output, columns, COLUMNS, 0);
  cli_table_head(&table);
  for (size_t i = 0; i < list.count; i++) print_blamed(&list.items[i], &table);
  cli_table_end(&table);
  free(list.items);
}

static void add_blamed(cli_map *p, const blamed *b) {
  char words[256];
  cli_map_open(p, NULL);
  cli_map_add_string(p, "what", sort_of(b));
  if (b->run) {
    cli_map_add_string(p, "name", b->run->row.subscription);
    cli_map_add_string(p, "handler", b->run->row.handler);
    cli_map_add_string(p, "phase", b->entry->phase);
    cli_map_add_string(p, "outcome", cli_run_outcome(&b->run->row));
    cli_map_add_string(p, "why", cli_run_why(b->run, words, sizeof words));
  } else {
    cli_map_add_string(p, "name", name_of_blamed(b, words, sizeof words));
    if (b->entry) cli_map_add_string(p, "phase", b->entry->phase);
    if (b->entry) cli_map_add_string(p, "why", cli_trace_own_what(b->entry));
    cli_map_add_string(p, "outcome", outcome_of_blamed(b));
  }
  if (b->step) {
    bool is_request = b->step->kind == TP_STEP_MODEL;
    cli_map_add_int(p, "round", b->step->round);
    cli_map_add_int(p, "place", is_request ? 0 : b->step->place);
    if (is_request) cli_map_add_int(p, "retry", b->step->place);
  }
  cli_map_add_int(p, "duration_ns", b->duration_ns);
  cli_map_add_int(p, "queued_ns", b->queued_ns);
  cli_map_close(p);
}

static void print_blame_json(const cli_trace *t, cli_output *output) {
  blame_list list = blame_all(t);
  cli_map p = {0};
  cli_trace_add_head(t, &p);
  cli_map_open_list(&p, "blame");
  for (size_t i = 0; i < list.count; i++) add_blamed(&p, &list.items[i]);
  cli_map_close(&p);
  cli_map_print(&p, output);
  free(list.items);
}

int cli_blame(const cli_arguments *arguments, cli_output *output) {
  return cli_trace_run_command(&(cli_trace_command){"blame", print_blame, print_blame_json}, arguments, output);
}
