/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/inspect/decided.h"
#include "runtime/base/check.h"
#include "support/text.h"

typedef struct reading {
  cli_decided *decided;
  size_t rows_max, entries, turns, audits;
} reading;

static bool is_enough(const reading *r, size_t *count) { return r->rows_max && (*count)++ == r->rows_max; }

static const char *copy(cli_decided *d, tp_text text) { return cli_pool_copy(&d->pool, text); }

/* ---- calls and gates ---- */

bool cli_gate_is(tp_phase_id phase) { return phase == TP_PHASE_TOOL_PRE; }

/* Finds the gates of each call, by the number of its newest gate. */
static void name_newest(cli_gate *gates, size_t gate_count, const tp_turn_step *steps, size_t step_count) {
  for (size_t i = 0; i < step_count; i++)
    for (size_t j = 0; steps[i].entry_id && j < gate_count; j++)
      if (gates[j].entry_id == steps[i].entry_id) gates[j].call = &steps[i];
}

/* The only tool call of a response; NULL: the response has none or several. */
static const tp_turn_step *only_call(const tp_turn_step *steps, size_t step_count, uint32_t round) {
  const tp_turn_step *only = NULL;
  for (size_t i = 0; i < step_count; i++) {
    if (steps[i].kind != TP_STEP_TOOL || steps[i].round != round) continue;
    if (only) return NULL;
    only = &steps[i];
  }
  return only;
}

static int64_t begin_of_request(const tp_turn_step *steps, size_t step_count, uint32_t round) {
  int64_t begin_ns = INT64_MAX;
  for (size_t i = 0; i < step_count; i++)
    if (steps[i].kind == TP_STEP_MODEL && steps[i].round == round && steps[i].started_ns < begin_ns)
      begin_ns = steps[i].started_ns;
  return begin_ns;
}

void cli_gates_name(cli_gate *gates, size_t gate_count, const tp_turn_step *steps, size_t step_count, bool is_whole) {
  uint32_t last = 0;
  name_newest(gates, gate_count, steps, step_count);
  for (size_t i = 0; is_whole && i < step_count; i++)
    if (steps[i].kind == TP_STEP_TOOL && steps[i].round > last) last = steps[i].round;
  size_t at = 0;
  for (uint32_t round = 1; round <= last; round++) {
    const tp_turn_step *only = only_call(steps, step_count, round);
    int64_t until_ns = begin_of_request(steps, step_count, round + 1);
    for (; at < gate_count && gates[at].started_ns < until_ns; at++)
      if (!gates[at].call) gates[at].call = only;
  }
}

static bool take_entry(void *ctx, const tp_entry_record *entry) {
  reading *r = ctx;
  cli_decided *d = r->decided;
  if (is_enough(r, &r->entries)) return false;
  if (!cli_gate_is(entry->phase)) return true;
  d->gates = cli_reserve(d->gates, d->gate_count, &d->gate_capacity, sizeof *d->gates);
  d->gates[d->gate_count++] = (cli_gate){.process_run_id = entry->process_run_id,
                                         .entry_id = entry->entry_id,
                                         .started_ns = entry->started_ns,
                                         .turn = copy(d, entry->ids[TP_ID_TURN])};
  return true;
}

/* Entries of a turn that began in the same tick are sorted by their numbers. */
static int by_begin(const void *a, const void *b) {
  const cli_gate *x = a, *y = b;
  if (x->process_run_id != y->process_run_id) return x->process_run_id < y->process_run_id ? -1 : 1;
  if (x->started_ns != y->started_ns) return x->started_ns < y->started_ns ? -1 : 1;
  return (x->entry_id > y->entry_id) - (x->entry_id < y->entry_id);
}

/* The first gate of a process from a certain time on. */
static size_t find_gate(const cli_decided *d, uint64_t process_run_id, int64_t from_ns) {
  const cli_gate key = {.process_run_id = process_run_id, .started_ns = from_ns};
  size_t low = 0, high = d->gate_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (by_begin(&d->gates[middle], &key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Copies the gates of the turn, names them, and copies the names back. */
static void name_turn(cli_decided *d, const tp_turn_record *turn) {
  size_t first = find_gate(d, turn->process_run_id, turn->started_ns), end = first, count = 0;
  while (end < d->gate_count && d->gates[end].process_run_id == turn->process_run_id &&
         d->gates[end].started_ns <= turn->ended_ns)
    end++;
  cli_gate *gates = cli_alloc((end - first + 1) * sizeof *gates);
  tp_turn_step *steps = cli_alloc((turn->step_count + 1) * sizeof *steps);
  size_t *places = cli_alloc((end - first + 1) * sizeof *places), step_count = 0;
  for (size_t i = first; i < end; i++) {
    if (!tp_text_is(turn->ids[TP_ID_TURN], d->gates[i].turn)) continue;
    places[count] = i;
    gates[count++] = d->gates[i];
  }
  for (size_t i = 0; count > 0 && i < turn->step_count; i++) {
    steps[step_count] = (tp_turn_step){.struct_size = sizeof *steps};
    step_count += turn->step(turn->step_source, i, &steps[step_count]);
  }
  cli_gates_name(gates, count, steps, step_count, turn->steps_dropped == 0);
  for (size_t i = 0; i < count; i++)
    if (gates[i].call) d->gates[places[i]].tool = copy(d, gates[i].call->name);
  free(gates);
  free(steps);
  free(places);
}

static bool take_turn(void *ctx, const tp_turn_record *turn) {
  reading *r = ctx;
  if (is_enough(r, &r->turns)) return false;
  if (turn->started_ns && turn->step_count > 0) name_turn(r->decided, turn);
  return true;
}

const char *cli_decided_tool(const cli_decided *decided, const tp_entry_record *entry) {
  const cli_gate key = {
      .process_run_id = entry->process_run_id, .started_ns = entry->started_ns, .entry_id = entry->entry_id};
  const cli_gate *gate =
      decided->gate_count ? bsearch(&key, decided->gates, decided->gate_count, sizeof key, by_begin) : NULL;
  return gate && gate->tool ? gate->tool : "";
}

/* ---- denials ---- */

static bool take_audit(void *ctx, const tp_audit *row) {
  reading *r = ctx;
  cli_decided *d = r->decided;
  if (is_enough(r, &r->audits)) return false;
  if (strcmp(row->action, "denial") != 0 || !row->subscription || !row->turn) return true;
  d->denials = cli_reserve(d->denials, d->denial_count, &d->denial_capacity, sizeof *d->denials);
  d->denials[d->denial_count++] = (cli_denial){.phase = row->phase,
                                               .subscription = copy(d, tp_text_of(row->subscription)),
                                               .turn = copy(d, tp_text_of(row->turn)),
                                               .session = copy(d, tp_text_of(row->session)),
                                               .reason = copy(d, tp_text_of(row->detail))};
  return true;
}

static bool is_of(const cli_denial *denial, const tp_entry_record *entry, const tp_run_record *run) {
  return !denial->is_taken && denial->phase == entry->phase && strcmp(denial->subscription, run->subscription) == 0 &&
         tp_text_is(entry->ids[TP_ID_TURN], denial->turn) && tp_text_is(entry->ids[TP_ID_SESSION], denial->session);
}

const char *cli_decided_reason(cli_decided *decided, const tp_entry_record *entry, const tp_run_record *run) {
  if (run->verdict != TP_VERDICT_DENY) return "";
  size_t i = decided->untaken;
  while (i < decided->denial_count && !is_of(&decided->denials[i], entry, run)) i++;
  if (i == decided->denial_count) return "";
  decided->denials[i].is_taken = true;
  while (decided->untaken < decided->denial_count && decided->denials[decided->untaken].is_taken) decided->untaken++;
  return decided->denials[i].reason;
}

/* ---- both ---- */

tp_status cli_decided_read(const cli_data *data, const tp_text ids[TP_ID_COUNT], int64_t from_unix_ms, size_t rows_max,
                           cli_decided *ret_decided, tp_fault *fault) {
  const tp_store *store = data->store;
  reading r = {.decided = ret_decided, .rows_max = rows_max};
  const tp_record_query entries = {
      .struct_size = sizeof entries, .ids = ids, .id_count = TP_ID_COUNT, .from_unix_ms = from_unix_ms};
  const tp_turn_query turns = {
      .struct_size = sizeof turns, .ids = ids, .id_count = TP_ID_COUNT, .from_unix_ms = from_unix_ms};
  const tp_audit_query audits = {.struct_size = sizeof audits, .from_unix_ms = from_unix_ms};
  TP__ASSERT(!ret_decided->gates && !ret_decided->denials);
  tp_status status = store->records(store->ctx, &entries, take_entry, &r, fault);
  if (ret_decided->gate_count) qsort(ret_decided->gates, ret_decided->gate_count, sizeof *ret_decided->gates, by_begin);
  if (status == TP_OK && ret_decided->gate_count) status = store->turns(store->ctx, &turns, take_turn, &r, fault);
  return status == TP_OK && store->audits ? store->audits(store->ctx, &audits, take_audit, &r, fault) : status;
}

void cli_decided_free(cli_decided *decided) {
  free(decided->gates);
  free(decided->denials);
  cli_pool_free(&decided->pool);
  *decided = (cli_decided){0};
}
