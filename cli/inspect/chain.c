/* SPDX-License-Identifier: Apache-2.0
 *
 * The command critical-chain, named after that of systemd-analyze: what determined the duration of a turn. The chain is
 * found from the end. At each time, the step that ended last before it is taken; the search continues from that step's
 * beginning. Inside of a phase, its handlers are searched in the same way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/quantity.h"
#include "cli/inspect/trace.h"
#include "cli/run/timeline.h"

/** Something for which the turn, or a phase, waited. */
typedef struct chain_link {
  const cli_trace_entry *entry; /* a phase; with run a handler of it */
  const cli_trace_run *run;
  const tp_turn_step *step;
  int64_t ready_ns; /* of a handler that waits for a thread: steps that end after this time do not delay it */
  int64_t started_ns, ended_ns;
} chain_link;

typedef struct chain {
  chain_link *items; /* the last one first */
  size_t count;
} chain;

/* Of two steps that ended together, the one that began later comes first: it is the inner one, and the other is found
 * after it. */
static bool is_later(const chain_link *a, const chain_link *b) {
  if (a->ended_ns != b->ended_ns) return a->ended_ns > b->ended_ns;
  return a->started_ns > b->started_ns;
}

/* Takes from candidates the chain that ends at end_ns. */
static size_t follow_back(chain_link *candidates, size_t count, int64_t end_ns, chain_link *ret_chain) {
  size_t length = 0;
  for (;;) {
    chain_link *last = NULL;
    for (size_t i = 0; i < count; i++)
      if (candidates[i].ended_ns && candidates[i].ended_ns <= end_ns && (!last || is_later(&candidates[i], last)))
        last = &candidates[i];
    if (!last) return length;
    ret_chain[length++] = *last;
    end_ns = last->ready_ns;
    last->ended_ns = 0; /* taken */
  }
}

static chain chain_of_turn(const cli_trace *t) {
  size_t count = 0, most = t->entry_count + t->step_count + 1;
  chain_link *candidates = cli_alloc(most * sizeof *candidates);
  chain c = {.items = cli_alloc(most * sizeof *c.items)};
  for (size_t i = 0; i < t->entry_count; i++) {
    const cli_trace_entry *e = &t->entries[i];
    if (e->is_detached) continue;
    candidates[count++] =
        (chain_link){.entry = e, .ready_ns = e->started_ns, .started_ns = e->started_ns, .ended_ns = e->ended_ns};
  }
  for (size_t i = 0; i < t->step_count; i++)
    if (t->steps[i].kind != TP_STEP_MESSAGE) /* a moment, for which nothing waited */
      candidates[count++] = (chain_link){.step = &t->steps[i],
                                         .ready_ns = t->steps[i].started_ns,
                                         .started_ns = t->steps[i].started_ns,
                                         .ended_ns = t->steps[i].ended_ns};
  c.count = follow_back(candidates, count, t->ended_ns, c.items);
  free(candidates);
  return c;
}

static chain chain_of_entry(const cli_trace_entry *e) {
  size_t count = 0;
  chain_link *candidates = cli_alloc((e->run_count + 1) * sizeof *candidates);
  chain c = {.items = cli_alloc((e->run_count + 1) * sizeof *c.items)};
  for (size_t i = 0; i < e->run_count; i++) {
    const tp_run_record *row = &e->runs[i].row;
    if (!cli_run_was_called(row) || row->state == TP_STATE_BACKGROUNDED) continue;
    candidates[count++] = (chain_link){.entry = e,
                                       .run = &e->runs[i],
                                       .ready_ns = row->queued_ns ? row->queued_ns : row->started_ns,
                                       .started_ns = row->started_ns,
                                       .ended_ns = row->ended_ns};
  }
  c.count = follow_back(candidates, count, e->ended_ns, c.items);
  free(candidates);
  return c;
}

/* ---- for people ---- */

static void print_times(const cli_trace *t, const chain_link *l, cli_output *output) {
  int64_t at_ns = l->started_ns > t->began_ns ? l->started_ns - t->began_ns : 0,
          duration_ns = l->ended_ns - l->started_ns;
  cli_printf(output, " @%s ", cli_duration((double)at_ns).text);
  bool is_long = duration_ns * 5 >= t->ended_ns - t->began_ns; /* a fifth of the turn */
  cli_paint_on(output, is_long ? CLI_BAD : CLI_NORMAL);
  cli_printf(output, "+%s", cli_duration((double)duration_ns).text);
  cli_paint_off(output);
}

static void print_handler(const cli_trace *t, const chain_link *l, bool is_last, cli_output *output) {
  char words[512];
  cli_printf(output, "│   %s", is_last ? "└─" : "├─");
  cli_print_cut(output, tp_text_of(l->run->row.subscription), SIZE_MAX);
  print_times(t, l, output);
  if (cli_run_queued_ns(&l->run->row))
    cli_printf(output, "  queued %s", cli_duration((double)cli_run_queued_ns(&l->run->row)).text);
  if (cli_run_why(l->run, words, sizeof words)[0]) {
    cli_print_string(output, "  ");
    cli_print_cut(output, tp_text_of(words), SIZE_MAX);
  }
  cli_print_string(output, "\n");
}

static void print_link(const cli_trace *t, const chain_link *l, bool is_last, cli_output *output) {
  char words[CLI_STEP_NAME_SIZE];
  cli_print_string(output, is_last ? "└─" : "├─");
  cli_paint_on(output, CLI_BOLD);
  if (l->entry) cli_print_string(output, l->entry->phase);
  else cli_print_cut(output, tp_text_of(cli_step_name(l->step, words, sizeof words)), SIZE_MAX);
  cli_paint_off(output);
  print_times(t, l, output);
  if (l->step && cli_step_failed(l->step)) cli_printf(output, "  %s", cli_step_outcome(l->step));
  cli_print_string(output, "\n");
  if (!l->entry) return;
  chain handlers = chain_of_entry(l->entry);
  for (size_t i = 0; i < handlers.count; i++) print_handler(t, &handlers.items[i], i + 1 == handlers.count, output);
  free(handlers.items);
}

static void print_chain(const cli_trace *t, cli_output *output) {
  chain c = chain_of_turn(t);
  cli_trace_print_head(t, output);
  cli_print_string(output, "Each line waited for the one below. Behind @ when it began, behind + its duration.\n\n");
  for (size_t i = 0; i < c.count; i++) print_link(t, &c.items[i], i + 1 == c.count, output);
  free(c.items);
}

/* ---- for programs ---- */

/* @param c  freed. */
static void add_chain(cli_map *p, const cli_trace *t, chain c) {
  char words[512];
  cli_map_open_list(p, "chain");
  for (size_t i = 0; i < c.count; i++) {
    const chain_link *l = &c.items[i];
    cli_map_open(p, NULL);
    if (l->run) cli_map_add_string(p, "subscription", l->run->row.subscription);
    else if (l->entry) cli_map_add_string(p, "phase", l->entry->phase);
    else cli_map_add_string(p, "step", cli_step_name(l->step, words, sizeof words));
    cli_map_add_int(p, "at_ns", l->started_ns - t->began_ns);
    cli_map_add_int(p, "duration_ns", l->ended_ns - l->started_ns);
    if (l->run) cli_map_add_int(p, "queued_ns", cli_run_queued_ns(&l->run->row));
    if (l->run) cli_map_add_string(p, "outcome", cli_run_outcome(&l->run->row));
    if (l->step) cli_map_add_string(p, "outcome", cli_step_outcome(l->step));
    if (l->entry && !l->run) add_chain(p, t, chain_of_entry(l->entry));
    cli_map_close(p);
  }
  cli_map_close(p);
  free(c.items);
}

static void print_chain_json(const cli_trace *t, cli_output *output) {
  cli_map p = {0};
  cli_trace_add_head(t, &p);
  add_chain(&p, t, chain_of_turn(t));
  cli_map_print(&p, output);
}

int cli_critical_chain(const cli_arguments *arguments, cli_output *output) {
  static const cli_trace_command command = {"critical-chain", print_chain, print_chain_json};
  return cli_trace_run_command(&command, arguments, output);
}
