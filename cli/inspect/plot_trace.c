/* SPDX-License-Identifier: Apache-2.0
 *
 * plot_trace.c: the same bars in the trace event format, as Perfetto and about:tracing read it. */
#include "cli/common/map.h"
#include "cli/inspect/plot.h"

static void open_event(cli_map *p, const char *kind, const char *name, size_t lane) {
  cli_map_open(p, NULL);
  cli_map_add_string(p, "ph", kind);
  cli_map_add_string(p, "name", name);
  cli_map_add_int(p, "pid", 1);
  cli_map_add_int(p, "tid", (int64_t)lane + 1);
}

static void add_lane(cli_map *p, const cli_plot *plot, size_t lane) {
  char words[48];
  open_event(p, "M", "thread_name", lane);
  cli_map_open(p, "args");
  cli_map_add_string(p, "name", cli_plot_lane_name(&plot->lanes[lane], words, sizeof words));
  cli_map_close(p);
  cli_map_close(p);
  open_event(p, "M", "thread_sort_index", lane);
  cli_map_open(p, "args");
  cli_map_add_int(p, "sort_index", (int64_t)lane);
  cli_map_close(p);
  cli_map_close(p);
}

static void add_bar(cli_map *p, const cli_plot *plot, const cli_plot_bar *bar) {
  open_event(p, "X", bar->label, bar->lane);
  cli_map_add_string(p, "cat", cli_plot_bar_kind(bar));
  cli_map_add_double(p, "ts", (double)bar->started_ns / 1e3);
  cli_map_add_double(p, "dur", (double)(bar->ended_ns - bar->started_ns) / 1e3);
  if (bar->is_bad) cli_map_add_string(p, "cname", "terrible");
  char words[512];
  cli_map_open(p, "args");
  cli_map_add_string(p, "outcome", cli_plot_bar_outcome(bar));
  if (bar->run) cli_map_add_string(p, "phase", bar->entry->phase);
  if (bar->run && bar->run->row.thread) cli_map_add_int(p, "thread", bar->run->row.thread);
  if (bar->started_ns > bar->ready_ns) cli_map_add_int(p, "queued_ns", bar->started_ns - bar->ready_ns);
  if (bar->deadline_ns >= 0) cli_map_add_int(p, "slack_ns", bar->deadline_ns - bar->ended_ns);
  if (cli_plot_bar_why(bar, words, sizeof words)[0]) cli_map_add_string(p, "why", words);
  cli_map_close(p);
  cli_map_close(p);
  if (bar->deadline_ns < 0 || bar->deadline_ns > plot->all_ns) return;
  open_event(p, "i", "deadline", bar->lane);
  cli_map_add_string(p, "s", "t");
  cli_map_add_double(p, "ts", (double)bar->deadline_ns / 1e3);
  cli_map_close(p);
}

void cli_plot_print_trace(const cli_plot *plot, cli_output *output) {
  cli_map p = {0};
  cli_map_add_string(&p, "displayTimeUnit", "ms");
  cli_map_open(&p, "otherData");
  cli_trace_add_head(plot->trace, &p);
  cli_map_close(&p);
  cli_map_open_list(&p, "traceEvents");
  for (size_t i = 0; i < plot->lane_count; i++) add_lane(&p, plot, i);
  for (size_t i = 0; i < plot->bar_count; i++) add_bar(&p, plot, &plot->bars[i]);
  cli_map_close(&p);
  cli_map_print(&p, output);
}
