/* SPDX-License-Identifier: Apache-2.0
 *
 * plot: a picture of a turn: bars in lanes, one lane for each handler thread that ran handlers of the turn. Tool calls,
 * and handlers whose records do not name the thread, are in other lanes; when they overlap, there are as many lanes as
 * there were bars at once. The same picture is drawn as SVG, for a page around it, and as a trace for Perfetto. */
#ifndef CLI_INSPECT_PLOT_H
#define CLI_INSPECT_PLOT_H

#include "cli/inspect/trace.h"

/** The kinds of lanes, in the order of the picture. */
typedef enum cli_plot_group {
  CLI_PLOT_PHASES,
  CLI_PLOT_TURN,     /* handlers on the turn's own thread */
  CLI_PLOT_HANDLERS, /* handlers on threads */
  CLI_PLOT_MODEL,
  CLI_PLOT_TOOLS,
  CLI_PLOT_HISTORY,
  CLI_PLOT_DETACHED, /* what the turn did not wait for */
  CLI_PLOT_GROUPS
} cli_plot_group;

/** Times are nanoseconds from the turn's beginning; -1: there is none. */
typedef struct cli_plot_bar {
  cli_plot_group group;
  size_t lane;
  int64_t ready_ns, started_ns, ended_ns, deadline_ns, late_ns;
  int64_t wait_ns; /* where the drawing of its wait begins: when it was ready, or when its thread became free */
  const char *label;
  bool is_bad;
  const cli_trace_entry *entry; /* a phase; with run a handler of it */
  const cli_trace_run *run;
  const tp_turn_step *step;
} cli_plot_bar;

typedef struct cli_plot_lane {
  cli_plot_group group;
  size_t number; /* in its group, from 1; 0: it is the only one. For a thread: its number in the runtime */
  bool is_thread;
  int64_t busy_until_ns;
} cli_plot_lane;

typedef struct cli_plot {
  const cli_trace *trace;
  cli_pool pool;
  cli_plot_bar *bars; /* by lane, then by begin */
  size_t bar_count;
  cli_plot_lane *lanes;
  size_t lane_count;
  int64_t turn_ns; /* the duration of the turn */
  int64_t all_ns;  /* when the last bar ends */
  int64_t view_ns; /* the time shown at first: at most the turn and about a fifth more; later bars are cut off */
} cli_plot;

/** "handlers 2", "thread 2". */
const char *cli_plot_lane_name(const cli_plot_lane *lane, char *buffer, size_t size);
/** "phase", "handler", "model", "tool", "history". */
const char *cli_plot_bar_kind(const cli_plot_bar *bar);
/** "succeeded", "deny", "ok". */
const char *cli_plot_bar_outcome(const cli_plot_bar *bar);
/** Why, as a sentence; "". */
const char *cli_plot_bar_why(const cli_plot_bar *bar, char *buffer, size_t size);

/** Prints a text of the record for HTML, SVG and their attributes, escaped so that none of it is markup. */
void cli_plot_escape(cli_output *output, const char *text);
/** Prints the picture. @param is_page  it is inside of a page, which has the style. */
void cli_plot_print_svg(const cli_plot *plot, bool is_page, cli_output *output);
void cli_plot_print_page(const cli_plot *plot, cli_output *output);
void cli_plot_print_trace(const cli_plot *plot, cli_output *output);
/** What the picture and the page look like. */
extern const char *const cli_plot_style[]; /* until NULL */

#endif
