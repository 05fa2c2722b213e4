/* SPDX-License-Identifier: Apache-2.0
 *
 * plot_svg.c: draws the picture. Each bar carries its times, from which the page can draw it again at another zoom. The
 * printed picture shows the whole turn at one width, by the same rules. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/quantity.h"
#include "cli/common/visible.h"
#include "cli/inspect/plot.h"

enum {
  WIDTH = 1200,
  LEFT = 132, /* of the names of the lanes */
  RIGHT = 16,
  TOP = 34, /* of the axis */
  LANE = 30,
  BAR_TOP = 4,
  BAR = 22,
  BOTTOM = 10,
  LETTER = 7 /* a rough width */
};

void cli_plot_escape(cli_output *output, const char *text) {
  tp_text left = tp_text_of(text);
  while (left.size > 0) {
    uint32_t code;
    cli_visibility visibility;
    size_t size = cli_visible_step(left, &code, &visibility);
    if (visibility == CLI_CONTROL) cli_print_string(output, " ");
    else if (visibility == CLI_HIDDEN) cli_printf(output, "&lt;U+%04X&gt;", code);
    else if (code == '<') cli_print_string(output, "&lt;");
    else if (code == '>') cli_print_string(output, "&gt;");
    else if (code == '&') cli_print_string(output, "&amp;");
    else if (code == '"') cli_print_string(output, "&quot;");
    else if (code == '\'') cli_print_string(output, "&#39;");
    else cli_print(output, left.data, size);
    left.data += size;
    left.size -= size;
  }
}

static double x_of(const cli_plot *plot, int64_t at_ns) {
  double x = (double)at_ns / (double)plot->view_ns * (WIDTH - LEFT - RIGHT);
  return LEFT + (x < 0 ? 0 : x > WIDTH - LEFT - RIGHT ? WIDTH - LEFT - RIGHT : x);
}

static double y_of(size_t lane) { return TOP + (double)lane * LANE; }

static double height_of(const cli_plot *plot) { return y_of(plot->lane_count) + BOTTOM; }

/* ---- the axis ---- */

/* 1, 2 or 5 followed by zeros, so that there are about eight ticks. */
static int64_t tick_step(int64_t range_ns) {
  int64_t part = range_ns / 8 + 1, step = 1;
  while (step * 10 <= part) step *= 10;
  return step * (part > 5 * step ? 10 : part > 2 * step ? 5 : part > step ? 2 : 1);
}

static void print_axis(const cli_plot *plot, cli_output *output) {
  int64_t step = tick_step(plot->view_ns);
  cli_print_string(output, "<g class=\"axis\">\n");
  for (int64_t at = 0; at <= plot->view_ns; at += step) {
    double x = x_of(plot, at);
    cli_printf(output, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%.1f\"/><text x=\"%.1f\" y=\"%d\">%s</text>\n", x,
               x, TOP - 6, height_of(plot) - BOTTOM, x, TOP - 12, at == 0 ? "0" : cli_duration((double)at).text);
  }
  cli_print_string(output, "</g>\n");
}

static void print_lanes(const cli_plot *plot, cli_output *output) {
  char words[48];
  for (size_t i = 0; i < plot->lane_count; i++) {
    bool begins = i == 0 || plot->lanes[i].group != plot->lanes[i - 1].group;
    cli_printf(output,
               "<g class=\"lane%s\"><rect class=\"row\" x=\"0\" y=\"%.1f\" width=\"%d\" height=\"%d\"/>"
               "<text x=\"10\" y=\"%.1f\">%s</text></g>\n",
               begins ? " first" : "", y_of(i), WIDTH, LANE, y_of(i) + 19,
               cli_plot_lane_name(&plot->lanes[i], words, sizeof words));
  }
}

/* ---- bars ---- */

/* The text that appears when the mouse is over a bar: a line for each fact. */
static void print_title(const cli_plot_bar *bar, cli_output *output) {
  char words[512];
  cli_printf(output, "<title>%s ", cli_plot_bar_kind(bar));
  cli_plot_escape(output, bar->label);
  cli_printf(output, "\n%s", cli_plot_bar_outcome(bar));
  if (bar->run) cli_printf(output, " in %s", bar->entry->phase);
  if (bar->step && bar->step->kind == TP_STEP_TOOL)
    cli_printf(output, ", call %u of response %u", bar->step->place + 1, bar->step->round);
  cli_printf(output, "\nat %s, lasted %s", cli_duration((double)bar->started_ns).text,
             cli_duration((double)(bar->ended_ns - bar->started_ns)).text);
  if (bar->started_ns > bar->ready_ns)
    cli_printf(output, ", queued %s", cli_duration((double)(bar->started_ns - bar->ready_ns)).text);
  if (bar->deadline_ns >= 0)
    cli_printf(output, "\ndeadline at %s, slack %s%s", cli_duration((double)bar->deadline_ns).text,
               bar->deadline_ns < bar->ended_ns ? "-" : "",
               cli_duration((double)llabs(bar->deadline_ns - bar->ended_ns)).text);
  if (cli_plot_bar_why(bar, words, sizeof words)[0]) {
    cli_print_string(output, "\n");
    cli_plot_escape(output, words);
  }
  cli_print_string(output, "</title>");
}

static void print_rect(const char *class, double x1, double x2, double y, cli_output *output) {
  cli_printf(output, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" rx=\"3\"/>", class, x1, y,
             x2 - x1 > 1.5 ? x2 - x1 : 1.5, BAR);
}

static double end_of(const cli_plot *plot, const cli_plot_bar *bar) {
  return x_of(plot, bar->late_ns > bar->ended_ns ? bar->late_ns : bar->ended_ns);
}

/* The bar after or before this one in its lane; NULL: there is none. */
static const cli_plot_bar *neighbour(const cli_plot *plot, size_t index, int which) {
  size_t other = index + (size_t)which;
  return other < plot->bar_count && plot->bars[other].lane == plot->bars[index].lane ? &plot->bars[other] : NULL;
}

/* Inside of the bar if the label fits, else after or before it, if that place is free. A bad bar always gets a label.
 * *spilt is where the label before this one ends. */
static void print_label(const cli_plot *plot, size_t index, double *spilt, cli_output *output) {
  const cli_plot_bar *bar = &plot->bars[index], *next = neighbour(plot, index, 1), *before = neighbour(plot, index, -1);
  double x1 = x_of(plot, bar->started_ns), x2 = end_of(plot, bar);
  double width = (double)cli_columns(tp_text_of(bar->label)) * LETTER + 10;
  double free_from = before ? (*spilt > end_of(plot, before) ? *spilt : end_of(plot, before)) : LEFT;
  double free_to = next ? x_of(plot, next->wait_ns) : WIDTH - RIGHT;
  bool fits = x_of(plot, bar->ended_ns) - x1 >= width, fits_behind = x2 + width <= free_to;
  bool is_before = !fits && !fits_behind, fits_before = x1 - width >= free_from;
  double x = fits ? x1 + 6 : fits_behind ? x2 + 5 : x1 - 5;
  *spilt = fits || is_before ? 0 : x2 + width;
  cli_printf(output, "<text class=\"%s\" x=\"%.2f\" y=\"%.1f\"%s%s>", fits ? "in" : "out", x, y_of(bar->lane) + 19,
             is_before ? " text-anchor=\"end\"" : "",
             is_before && !fits_before && !bar->is_bad ? " display=\"none\"" : "");
  cli_plot_escape(output, bar->label);
  cli_print_string(output, "</text>");
}

static void print_bar(const cli_plot *plot, size_t index, double *spilt, cli_output *output) {
  const cli_plot_bar *bar = &plot->bars[index];
  double y = y_of(bar->lane) + BAR_TOP, x1 = x_of(plot, bar->started_ns), x2 = x_of(plot, bar->ended_ns);
  cli_printf(output,
             "<g class=\"bar %s%s%s\" data-lane=\"%zu\" data-q=\"%lld\" data-s=\"%lld\" data-e=\"%lld\" data-d=\"%lld\""
             " data-l=\"%lld\">",
             cli_plot_bar_kind(bar), bar->group == CLI_PLOT_DETACHED ? " detached" : "", bar->is_bad ? " bad" : "",
             bar->lane, (long long)bar->wait_ns, (long long)bar->started_ns, (long long)bar->ended_ns,
             (long long)bar->deadline_ns, (long long)bar->late_ns);
  print_title(bar, output);
  if (bar->started_ns > bar->wait_ns) print_rect("queued", x_of(plot, bar->wait_ns), x1, y, output);
  if (bar->late_ns > bar->ended_ns) print_rect("late", x2, x_of(plot, bar->late_ns), y, output);
  print_rect("body", x1, x2, y, output);
  if (bar->deadline_ns >= 0 && bar->deadline_ns <= plot->all_ns) {
    double x = x_of(plot, bar->deadline_ns);
    cli_printf(output, "<line class=\"deadline\" x1=\"%.2f\" x2=\"%.2f\" y1=\"%.1f\" y2=\"%.1f\"/>", x, x, y - 3,
               y + BAR + 3);
  }
  print_label(plot, index, spilt, output);
  cli_print_string(output, "</g>\n");
}

static void print_end(const cli_plot *plot, cli_output *output) {
  double x = x_of(plot, plot->turn_ns);
  cli_printf(output, "<line class=\"end\" data-at=\"%lld\" x1=\"%.2f\" x2=\"%.2f\" y1=\"%d\" y2=\"%.1f\"/>\n",
             (long long)plot->turn_ns, x, x, TOP - 6, height_of(plot) - BOTTOM);
}

void cli_plot_print_svg(const cli_plot *plot, bool is_page, cli_output *output) {
  cli_printf(
      output,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"plot\" class=\"plot\" width=\"%d\" height=\"%.0f\""
      " viewBox=\"0 0 %d %.0f\" role=\"img\" data-turn=\"%lld\" data-all=\"%lld\" data-view=\"%lld\">\n<title>turn ",
      WIDTH, height_of(plot), WIDTH, height_of(plot), (long long)plot->turn_ns, (long long)plot->all_ns,
      (long long)plot->view_ns);
  cli_plot_escape(output, plot->trace->turn_id);
  cli_printf(output, ": %s</title>\n", cli_trace_outcome(plot->trace));
  if (!is_page) {
    /* A picture of its own says what it shows. */
    cli_print_string(output, "<style>\n");
    for (size_t i = 0; cli_plot_style[i]; i++) cli_print_string(output, cli_plot_style[i]);
    cli_print_string(output, "svg{background:var(--paper)}\n</style>\n");
  }
  print_lanes(plot, output);
  print_axis(plot, output);
  print_end(plot, output);
  double spilt = 0;
  for (size_t i = 0; i < plot->bar_count; i++) print_bar(plot, i, &spilt, output);
  cli_print_string(output, "</svg>\n");
}
