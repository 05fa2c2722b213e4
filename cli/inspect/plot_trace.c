/* SPDX-License-Identifier: Apache-2.0
 *
 * plot_trace.c: the same bars in the trace event format, as Perfetto and about:tracing read it. */
#include "cli/common/map.h"
#include "cli/inspect/plot.h"

/** One event with the plot it is of. */
typedef struct event {
  const cli_plot *plot;
  const cli_plot_bar *bar;
  size_t lane;
} event;

static void write_name(tp_writer *writer, const void *source) {
  const event *e = source;
  char words[48];
  cli_map p = {.writer = writer};
  cli_map_add_string(&p, "name", cli_plot_lane_name(&e->plot->lanes[e->lane], words, sizeof words));
  cli_map_write(&p);
}

static void write_sort_index(tp_writer *writer, const void *source) {
  cli_map p = {.writer = writer};
  cli_map_add_int(&p, "sort_index", (int64_t)((const event *)source)->lane);
  cli_map_write(&p);
}

static void write_lane(tp_writer *writer, const event *e, const char *what,
                       void (*part)(tp_writer *writer, const void *source)) {
  cli_map p = {.writer = writer};
  cli_map_add_string(&p, "ph", "M");
  cli_map_add_string(&p, "name", what);
  cli_map_add_int(&p, "pid", 1);
  cli_map_add_int(&p, "tid", (int64_t)e->lane + 1);
  cli_map_add_part(&p, "args", part, e);
  cli_map_write(&p);
}

static void write_arguments(tp_writer *writer, const void *source) {
  const cli_plot_bar *bar = ((const event *)source)->bar;
  char words[512];
  cli_map p = {.writer = writer};
  cli_map_add_string(&p, "outcome", cli_plot_bar_outcome(bar));
  if (bar->run) cli_map_add_string(&p, "phase", bar->entry->phase);
  if (bar->run && bar->run->row.thread) cli_map_add_int(&p, "thread", bar->run->row.thread);
  if (bar->started_ns > bar->ready_ns) cli_map_add_int(&p, "queued_ns", bar->started_ns - bar->ready_ns);
  if (bar->deadline_ns >= 0) cli_map_add_int(&p, "slack_ns", bar->deadline_ns - bar->ended_ns);
  if (cli_plot_bar_why(bar, words, sizeof words)[0]) cli_map_add_string(&p, "why", words);
  cli_map_write(&p);
}

static void write_bar(tp_writer *writer, const event *e) {
  cli_map p = {.writer = writer};
  cli_map_add_string(&p, "ph", "X");
  cli_map_add_string(&p, "name", e->bar->label);
  cli_map_add_string(&p, "cat", cli_plot_bar_kind(e->bar));
  cli_map_add_int(&p, "pid", 1);
  cli_map_add_int(&p, "tid", (int64_t)e->bar->lane + 1);
  cli_map_add_double(&p, "ts", (double)e->bar->started_ns / 1e3);
  cli_map_add_double(&p, "dur", (double)(e->bar->ended_ns - e->bar->started_ns) / 1e3);
  if (e->bar->is_bad) cli_map_add_string(&p, "cname", "terrible");
  cli_map_add_part(&p, "args", write_arguments, e);
  cli_map_write(&p);
}

static void write_deadline(tp_writer *writer, const event *e) {
  cli_map p = {.writer = writer};
  cli_map_add_string(&p, "ph", "i");
  cli_map_add_string(&p, "name", "deadline");
  cli_map_add_string(&p, "s", "t");
  cli_map_add_int(&p, "pid", 1);
  cli_map_add_int(&p, "tid", (int64_t)e->bar->lane + 1);
  cli_map_add_double(&p, "ts", (double)e->bar->deadline_ns / 1e3);
  cli_map_write(&p);
}

static bool shows_deadline(const cli_plot *plot, const cli_plot_bar *bar) {
  return bar->deadline_ns >= 0 && bar->deadline_ns <= plot->all_ns;
}

static void write_events(tp_writer *writer, const void *source) {
  const cli_plot *plot = source;
  size_t count = 2 * plot->lane_count + plot->bar_count;
  for (size_t i = 0; i < plot->bar_count; i++) count += shows_deadline(plot, &plot->bars[i]);
  tp_write_array(writer, count);
  for (size_t i = 0; i < plot->lane_count; i++) {
    write_lane(writer, &(event){.plot = plot, .lane = i}, "thread_name", write_name);
    write_lane(writer, &(event){.plot = plot, .lane = i}, "thread_sort_index", write_sort_index);
  }
  for (size_t i = 0; i < plot->bar_count; i++) {
    event e = {.plot = plot, .bar = &plot->bars[i]};
    write_bar(writer, &e);
    if (shows_deadline(plot, e.bar)) write_deadline(writer, &e);
  }
}

static void write_head(tp_writer *writer, const void *source) {
  cli_map p = {.writer = writer};
  cli_trace_add_head(source, &p);
  cli_map_write(&p);
}

void cli_plot_print_trace(const cli_plot *plot, cli_output *output) {
  cli_map p = {0};
  cli_map_add_string(&p, "displayTimeUnit", "ms");
  cli_map_add_part(&p, "otherData", write_head, plot->trace);
  cli_map_add_part(&p, "traceEvents", write_events, plot);
  cli_map_print(&p, output);
}
