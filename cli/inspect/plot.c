/* SPDX-License-Identifier: Apache-2.0
 *
 * The command plot: computes the place of each bar. */
#include "cli/inspect/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "runtime/base/check.h"

/* ---- bars ---- */

static int64_t since(const cli_trace *t, int64_t at_ns) { return at_ns ? at_ns - t->began_ns : -1; }

static int64_t at_least(int64_t value, int64_t least) { return value > least ? value : least; }

/* A step that has not ended is drawn up to the last known time. */
static int64_t end_of(const cli_trace *t, int64_t started_ns, int64_t ended_ns) {
  return at_least(since(t, ended_ns ? ended_ns : t->ended_ns), since(t, started_ns));
}

static void add_plot_phase(cli_plot *plot, const cli_trace_entry *e) {
  if (e->is_detached) return;
  int64_t at_ns = since(plot->trace, e->started_ns);
  plot->bars[plot->bar_count++] = (cli_plot_bar){.group = CLI_PLOT_PHASES,
                                                 .ready_ns = at_ns,
                                                 .started_ns = at_ns,
                                                 .ended_ns = end_of(plot->trace, e->started_ns, e->ended_ns),
                                                 .deadline_ns = -1,
                                                 .late_ns = -1,
                                                 .label = e->phase,
                                                 .is_bad = e->status != TP_OK,
                                                 .entry = e};
}

/* An inline handler is called at the moment at which it is ready. */
static cli_plot_group group_of(const cli_trace_entry *e, const tp_run_record *row) {
  if (e->is_detached) return CLI_PLOT_DETACHED;
  return row->thread == 0 && row->queued_ns == row->started_ns ? CLI_PLOT_TURN : CLI_PLOT_HANDLERS;
}

static bool is_bad_run(const tp_run_record *row) {
  cli_paint paint = cli_run_paint(row);
  return paint == CLI_BAD || paint == CLI_WARN;
}

static void add_plot_run(cli_plot *plot, const cli_trace_entry *e, const cli_trace_run *run) {
  const cli_trace *t = plot->trace;
  const tp_run_record *row = &run->row;
  bool runs_yet = row->state == TP_STATE_RUNNING || row->state == TP_STATE_INTERRUPTED;
  int64_t started_ns = row->started_ns ? row->started_ns : runs_yet ? row->queued_ns : 0;
  if (!started_ns || row->state == TP_STATE_BACKGROUNDED) return;
  plot->bars[plot->bar_count++] = (cli_plot_bar){.group = group_of(e, row),
                                                 .ready_ns = since(t, row->queued_ns ? row->queued_ns : started_ns),
                                                 .started_ns = since(t, started_ns),
                                                 .ended_ns = end_of(t, started_ns, row->ended_ns),
                                                 .deadline_ns = since(t, cli_run_deadline_ns(row)),
                                                 .late_ns = row->late_ns > row->ended_ns ? since(t, row->late_ns) : -1,
                                                 .label = row->subscription,
                                                 .is_bad = is_bad_run(row),
                                                 .entry = e,
                                                 .run = run};
}

/* The turn stores the jobs of a phase after the phase's handlers. */
static void add_commit(cli_plot *plot, const cli_trace_entry *e) {
  if (e->is_detached || !e->ended_ns || !cli_trace_has_jobs(e)) return;
  int64_t from_ns = since(plot->trace, cli_trace_own_from_ns(e));
  plot->bars[plot->bar_count++] = (cli_plot_bar){.group = CLI_PLOT_TURN,
                                                 .ready_ns = from_ns,
                                                 .started_ns = from_ns,
                                                 .ended_ns = since(plot->trace, e->ended_ns),
                                                 .deadline_ns = -1,
                                                 .late_ns = -1,
                                                 .label = "commit of jobs",
                                                 .entry = e};
}

static void add_step(cli_plot *plot, const tp_turn_step *step) {
  char words[CLI_STEP_NAME_SIZE];
  const char *name = cli_step_name(step, words, sizeof words);
  plot->bars[plot->bar_count++] =
      (cli_plot_bar){.group = step->kind == TP_STEP_TOOL || step->kind == TP_STEP_QUESTION ? CLI_PLOT_TOOLS
                              : step->kind == TP_STEP_MODEL                                ? CLI_PLOT_MODEL
                                                                                           : CLI_PLOT_HISTORY,
                     .ready_ns = since(plot->trace, step->started_ns),
                     .started_ns = since(plot->trace, step->started_ns),
                     .ended_ns = end_of(plot->trace, step->started_ns, step->ended_ns),
                     .deadline_ns = -1,
                     .late_ns = -1,
                     .label = cli_pool_copy(&plot->pool, tp_text_of(name)),
                     .is_bad = cli_step_failed(step),
                     .step = step};
}

/* ---- lanes ---- */

static int by_group_and_begin(const void *a, const void *b) {
  const cli_plot_bar *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  if (x->ready_ns != y->ready_ns) return x->ready_ns < y->ready_ns ? -1 : 1;
  return (x->ended_ns < y->ended_ns) - (x->ended_ns > y->ended_ns);
}

static int by_lane(const void *a, const void *b) {
  const cli_plot_bar *x = a, *y = b;
  if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
  return (x->ready_ns > y->ready_ns) - (x->ready_ns < y->ready_ns);
}

/* A run of a handler thread is in the lane of that thread. Its wait for the thread is drawn only as far as the lane is
 * free, because before that the thread ran something else. */
static void place_on_thread(cli_plot *plot, cli_plot_bar *bar) {
  size_t lane = 0, number = bar->run->row.thread;
  while (lane < plot->lane_count && (!plot->lanes[lane].is_thread || plot->lanes[lane].number != number)) lane++;
  if (lane == plot->lane_count)
    plot->lanes[plot->lane_count++] = (cli_plot_lane){.group = bar->group, .number = number, .is_thread = true};
  cli_plot_lane *found = &plot->lanes[lane];
  int64_t free_ns = found->busy_until_ns < bar->started_ns ? found->busy_until_ns : bar->started_ns;
  bar->wait_ns = at_least(bar->ready_ns, free_ns);
  found->busy_until_ns = at_least(found->busy_until_ns, at_least(bar->ended_ns, bar->late_ns));
  bar->lane = lane;
}

static bool is_on_thread(const cli_plot_bar *bar) {
  return bar->group == CLI_PLOT_HANDLERS && bar->run->row.thread > 0;
}

static void place(cli_plot *plot, cli_plot_bar *bar) {
  size_t lane = 0, of_group = 0;
  int64_t until_ns = at_least(bar->ended_ns, bar->late_ns);
  bar->wait_ns = bar->ready_ns;
  if (is_on_thread(bar)) {
    place_on_thread(plot, bar);
    return;
  }
  for (; lane < plot->lane_count; lane++) {
    bool is_ours = plot->lanes[lane].group == bar->group && !plot->lanes[lane].is_thread;
    of_group += is_ours;
    if (is_ours && plot->lanes[lane].busy_until_ns <= bar->ready_ns) break;
  }
  if (lane == plot->lane_count)
    plot->lanes[plot->lane_count++] = (cli_plot_lane){.group = bar->group, .number = of_group + 1};
  plot->lanes[lane].busy_until_ns = until_ns;
  bar->lane = lane;
}

static void number_lanes(cli_plot *plot) {
  for (size_t i = 0; i < plot->lane_count; i++) {
    bool is_alone = (i == 0 || plot->lanes[i - 1].group != plot->lanes[i].group) &&
                    (i + 1 == plot->lane_count || plot->lanes[i + 1].group != plot->lanes[i].group);
    if (is_alone && !plot->lanes[i].is_thread) plot->lanes[i].number = 0;
  }
}

static void measure(cli_plot *plot) {
  enum { REST_PARTS = 5 }; /* The part of the turn's duration for which the time after its end is shown. */
  plot->turn_ns = plot->all_ns = at_least(plot->trace->ended_ns - plot->trace->began_ns, 1);
  for (size_t i = 0; i < plot->bar_count; i++)
    plot->all_ns = at_least(plot->all_ns, at_least(plot->bars[i].ended_ns, plot->bars[i].late_ns));
  int64_t most_ns = plot->turn_ns + plot->turn_ns / REST_PARTS;
  plot->view_ns = plot->all_ns < most_ns ? plot->all_ns : most_ns;
  plot->view_ns += plot->view_ns / 40; /* the last bars do not stand at the edge */
}

static cli_plot make_plot(const cli_trace *t) {
  size_t most = t->step_count + 2 * t->entry_count + 1;
  for (size_t i = 0; i < t->entry_count; i++) most += t->entries[i].run_count;
  cli_plot plot = {
      .trace = t, .bars = cli_alloc(most * sizeof *plot.bars), .lanes = cli_alloc(most * sizeof *plot.lanes)};
  for (size_t i = 0; i < t->entry_count; i++) {
    add_plot_phase(&plot, &t->entries[i]);
    for (size_t j = 0; j < t->entries[i].run_count; j++) add_plot_run(&plot, &t->entries[i], &t->entries[i].runs[j]);
    add_commit(&plot, &t->entries[i]);
  }
  for (size_t i = 0; i < t->step_count; i++) add_step(&plot, &t->steps[i]);
  if (plot.bar_count > 1) qsort(plot.bars, plot.bar_count, sizeof *plot.bars, by_group_and_begin);
  for (size_t i = 0; i < plot.bar_count; i++) place(&plot, &plot.bars[i]);
  if (plot.bar_count > 1) qsort(plot.bars, plot.bar_count, sizeof *plot.bars, by_lane);
  number_lanes(&plot);
  measure(&plot);
  return plot;
}

static void free_plot(cli_plot *plot) {
  free(plot->bars);
  free(plot->lanes);
  cli_pool_free(&plot->pool);
}

/* ---- words ---- */

const char *cli_plot_lane_name(const cli_plot_lane *lane, char *buffer, size_t size) {
  assert(lane->group < CLI_PLOT_GROUPS && size > 0);
  static const char *const names[CLI_PLOT_GROUPS] = {"phases", "turn thread", "handlers",      "model",
                                                     "tools",  "history",     "after the turn"};
  if (!lane->number) return names[lane->group];
  snprintf(buffer, size, "%s %zu", lane->is_thread ? "thread" : names[lane->group], lane->number);
  return buffer;
}

const char *cli_plot_bar_kind(const cli_plot_bar *bar) {
  assert(bar->entry || bar->step);
  if (bar->run) return "handler";
  if (bar->entry) return "phase";
  if (bar->step->kind == TP_STEP_MESSAGE) return "message";
  if (bar->step->kind == TP_STEP_QUESTION) return "question";
  return bar->step->kind == TP_STEP_TOOL ? "tool" : bar->step->kind == TP_STEP_MODEL ? "model" : "history";
}

const char *cli_plot_bar_outcome(const cli_plot_bar *bar) {
  assert(bar->entry || bar->step);
  if (bar->run) return cli_run_outcome(&bar->run->row);
  if (bar->step) return cli_step_outcome(bar->step);
  if (!bar->entry->ended_ns) return bar->entry->status ? "interrupted" : "running";
  return bar->entry->status == TP_OK ? "ok" : tp_status_text(bar->entry->status);
}

const char *cli_plot_bar_why(const cli_plot_bar *bar, char *buffer, size_t size) {
  buffer[0] = '\0';
  return bar->run ? cli_run_why(bar->run, buffer, size) : buffer;
}

/* ---- the command ---- */

typedef void (*print_fn)(const cli_plot *plot, cli_output *output);

static void print_picture(const cli_plot *plot, cli_output *output) { cli_plot_print_svg(plot, false, output); }

static print_fn find_format(const char *name) {
  static const struct {
    const char *name;
    print_fn print;
  } formats[] = {{"html", cli_plot_print_page}, {"svg", print_picture}, {"chrome-trace", cli_plot_print_trace}};
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
    if (!name || strcmp(name, formats[i].name) == 0) return formats[i].print;
  return NULL;
}

/* Makes standard output the file; if the file cannot be opened, standard output stays. */
static int redirect_to(const char *file) {
  int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool is_open = fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0;
  if (!is_open) cli_error_at(file, 0, 0, "%s", strerror(errno));
  if (fd >= 0) close(fd);
  return is_open ? CLI_OK : CLI_IO;
}

static int print_to(const cli_arguments *arguments, const cli_trace *trace, print_fn print, cli_output *output) {
  int status = arguments->output ? redirect_to(arguments->output) : CLI_OK;
  if (status != CLI_OK) return status;
  cli_plot plot = make_plot(trace);
  print(&plot, output);
  free_plot(&plot);
  cli_flush(output);
  if (arguments->output && !output->error) cli_error("the turn is drawn in %s", arguments->output);
  return CLI_OK;
}

int cli_plot_command(const cli_arguments *arguments, cli_output *output) {
  cli_trace trace;
  print_fn print = find_format(arguments->format);
  if (!print) {
    cli_error("--format is html, svg or chrome-trace, not '%s'", arguments->format);
    return CLI_USAGE;
  }
  int status = cli_trace_read("plot", arguments, &trace);
  if (status == CLI_OK) status = print_to(arguments, &trace, print, output);
  cli_trace_free(&trace);
  return status;
}
