/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect/running.h"

#include <string.h>

#include "cli/common/quantity.h"
#include "cli/inspect/trace.h"
#include "cli/run/timeline.h"
#include "runtime/base/check.h"
#include "support/clock.h"
#include "turnphase/sqlite.h"

/* ---- functions ---- */

/** What is asked for, and what came. */
typedef struct reading {
  const cli_data *data;
  const char *turn, *session;
  cli_pool *pool;
  cli_called_list *list;
} reading;

static bool is_wanted_name(const char *wanted, const char *found) { return !wanted || strcmp(wanted, found) == 0; }

static bool take_called(void *ctx, const tp_sqlite_called *from) {
  reading *r = ctx;
  char phase[32];
  const tp_breadcrumb *b = from->breadcrumb;
  assert(b && r->list);
  if (!is_wanted_name(r->turn, b->turn) || !is_wanted_name(r->session, b->session)) return true;
  r->list->items = cli_reserve(r->list->items, r->list->count, &r->list->capacity, sizeof *r->list->items);
  r->list->items[r->list->count++] = (cli_called){
      .name = cli_pool_copy(r->pool, tp_text_of(b->subscription)),
      .handler = cli_pool_copy(r->pool, tp_text_of(b->handler)),
      .phase = b->phase ? cli_pool_copy(r->pool, tp_text_of(cli_data_phase(r->data, b->phase, phase))) : "",
      .turn = cli_pool_copy(r->pool, tp_text_of(b->turn)),
      .session = cli_pool_copy(r->pool, tp_text_of(b->session)),
      .process_id = from->process_id,
      .started_unix_ms = from->started_unix_ms,
      .is_alive = from->is_alive};
  return true;
}

tp_status cli_called_read(const cli_data *data, const char *turn, const char *session, cli_pool *pool,
                          cli_called_list *ret_list, tp_fault *fault) {
  if (data->is_database) return TP_OK; /* the breadcrumbs of a database are in the memory of the process */
  reading r = {.data = data, .turn = turn, .session = session, .pool = pool, .list = ret_list};
  return tp_sqlite_store_called(data->store, take_called, &r, fault);
}

static int64_t called_ms(const cli_called *c) {
  int64_t ms = tp__wall_ms() - c->started_unix_ms;
  return ms > 0 ? ms : 0;
}

void cli_called_print(const cli_called_list *list, cli_output *output) {
  for (size_t i = 0; i < list->count; i++) {
    const cli_called *c = &list->items[i];
    cli_printf(output, "  %s", c->is_alive ? "called now    " : "crash_suspect ");
    cli_print_string(output, c->phase[0] ? "" : "tool ");
    cli_print_cut(output, tp_text_of(c->name), SIZE_MAX);
    if (c->phase[0]) cli_printf(output, " in %s", c->phase);
    if (c->is_alive) cli_printf(output, " for %s", cli_duration((double)called_ms(c) * 1e6).text);
    else cli_print_string(output, " was called when its process died");
    cli_printf(output, ", process %lld\n", (long long)c->process_id);
  }
}

void cli_called_add(cli_map *p, const cli_called_list *list) {
  cli_map_open_list(p, "called");
  for (size_t i = 0; i < list->count; i++) {
    const cli_called *c = &list->items[i];
    cli_map_open(p, NULL);
    cli_map_add_string(p, c->phase[0] ? "subscription" : "tool", c->name);
    if (c->phase[0]) cli_map_add_string(p, "handler", c->handler);
    if (c->phase[0]) cli_map_add_string(p, "phase", c->phase);
    cli_map_add_int(p, "started_unix_ms", c->started_unix_ms);
    cli_map_add_int(p, "process_id", c->process_id);
    cli_map_add_bool(p, "crash_suspect", !c->is_alive);
    cli_map_close(p);
  }
  cli_map_close(p);
}

/* ---- records of turns that run ---- */

const char *cli_running_word(const tp_turn_record *turn) { return tp_state_name((tp_state)turn->state); }

int64_t cli_running_ns(const tp_turn_record *turn, int64_t started_ns) {
  int64_t since_ms = turn->state == TP_STATE_RUNNING ? tp__wall_ms() - turn->ended_unix_ms : 0;
  assert(turn->state);
  return turn->ended_ns - started_ns + (since_ms > 0 ? since_ms * 1000000 : 0);
}

static bool read_open(const tp_turn_record *turn, size_t index, tp_turn_step *step) {
  *step = (tp_turn_step){.struct_size = sizeof *step};
  return turn->step(turn->step_source, index, step) && step->ended_ns == 0;
}

void cli_running_print_steps(const tp_turn_record *turn, cli_output *output) {
  char words[CLI_STEP_NAME_SIZE];
  bool is_first = true;
  for (size_t i = turn->step_count; i-- > 0;) {
    tp_turn_step step;
    if (!read_open(turn, i, &step)) continue;
    cli_print_string(output, is_first ? "" : "; ");
    is_first = false;
    if (step.kind == TP_STEP_TOOL) cli_print_string(output, "tool ");
    cli_print_cut(output, tp_text_of(cli_step_name(&step, words, sizeof words)), SIZE_MAX);
    cli_printf(output, ", %s", cli_duration((double)cli_running_ns(turn, step.started_ns)).text);
  }
  if (is_first) cli_print_string(output, "a phase, or between two steps");
}

static void add_step(cli_map *p, const tp_turn_record *turn, const tp_turn_step *step) {
  cli_map_open(p, NULL);
  cli_map_add_string(p, "kind", tp_step_kind_name((tp_step_kind)step->kind));
  if (step->name.size) cli_map_add_text(p, step->kind == TP_STEP_MODEL ? "model" : "tool", step->name);
  cli_map_add_int(p, "round", step->round);
  cli_map_add_int(p, "place", step->place);
  cli_map_add_int(p, "open_ns", cli_running_ns(turn, step->started_ns));
  cli_map_close(p);
}

void cli_running_add(cli_map *p, const tp_turn_record *turn) {
  cli_map_add_string(p, "turn_state", cli_running_word(turn));
  cli_map_add_int(p, "started_unix_ms", turn->started_unix_ms);
  cli_map_add_int(p, "noted_unix_ms", turn->ended_unix_ms);
  cli_map_add_int(p, "duration_ns", cli_running_ns(turn, turn->started_ns));
  cli_map_add_int(p, "iterations", turn->iterations);
  cli_map_add_int(p, "tool_calls", turn->tool_calls);
  cli_map_add_int(p, "input_tokens", turn->input_tokens);
  cli_map_add_int(p, "output_tokens", turn->output_tokens);
  cli_map_open_list(p, "open");
  for (size_t i = 0; i < turn->step_count; i++) {
    tp_turn_step step;
    if (read_open(turn, i, &step)) add_step(p, turn, &step);
  }
  cli_map_close(p);
  if (turn->parent_turn.size) cli_map_add_text(p, "parent_turn", turn->parent_turn);
  cli_data_add_ids(p, turn->ids);
}
