/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c: times can only be compared within one process. So a trace has the entries of the process that ended the
 * turn, or, without a record of the turn, of the process that ran last. */
#include "cli/inspect/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/inspect/pick.h"
#include "runtime/base/check.h"

/** What is gathered while the store is read. */
typedef struct reading {
  cli_trace *trace;
  const cli_data *data;
  size_t entry_capacity;
  cli_trace_entry *entry; /* whose content is being read */
  size_t content_capacity;
  bool has_turn;
  cli_pick pick;
} reading;

static const char *copy_trace_text(reading *r, tp_text text) {
  return cli_pool_copy(&r->trace->pool, text.size ? text : tp_text_of(""));
}

/* ---- the turn ---- */

static int by_step_begin(const void *a, const void *b) {
  const tp_turn_step *x = a, *y = b;
  if (x->started_ns != y->started_ns) return x->started_ns < y->started_ns ? -1 : 1;
  return (x->place > y->place) - (x->place < y->place);
}

/* A failed request that is followed by a request of the same round to the same model was retried. */
static void number_retries(cli_trace *t) {
  const tp_turn_step *last = NULL;
  for (size_t i = 0; i < t->step_count; i++) {
    tp_turn_step *step = &t->steps[i];
    if (step->kind != TP_STEP_MODEL) continue;
    bool is_retry =
        last && last->round == step->round && last->outcome != TP_OK && tp_text_equal(last->name, step->name);
    step->place = is_retry ? last->place + 1 : 0;
    last = step;
  }
}

static void take_steps(reading *r, const tp_turn_record *turn) {
  cli_trace *t = r->trace;
  t->steps = cli_alloc((turn->step_count + 1) * sizeof *t->steps);
  for (size_t i = 0; i < turn->step_count; i++) {
    tp_turn_step step = {.struct_size = sizeof step};
    if (!turn->step(turn->step_source, i, &step)) continue;
    step.name = tp_text_of(copy_trace_text(r, step.name));
    t->steps[t->step_count++] = step;
  }
  t->steps_dropped = turn->steps_dropped;
  if (t->step_count > 0) qsort(t->steps, t->step_count, sizeof *t->steps, by_step_begin);
  number_retries(t);
}

static void take_ids(reading *r, const tp_text *ids) {
  r->trace->session = copy_trace_text(r, ids[TP_ID_SESSION]);
  r->trace->tenant = copy_trace_text(r, ids[TP_ID_TENANT]);
}

static void take_record(reading *r, const tp_turn_record *turn) {
  cli_trace *t = r->trace;
  t->process_run_id = turn->process_run_id;
  t->outcome = (tp_turn_outcome)turn->outcome;
  t->reason = copy_trace_text(r, turn->reason);
  t->subscription = copy_trace_text(r, turn->subscription);
  t->began_ns = turn->started_ns;
  t->ended_ns = turn->ended_ns;
  t->started_unix_ms = turn->started_unix_ms ? turn->started_unix_ms : turn->ended_unix_ms;
  t->load_ns = turn->load_ns;
  t->model_ns = turn->model_ns;
  t->tools_ns = turn->tools_ns;
  t->append_ns = turn->append_ns;
  t->iterations = turn->iterations;
  t->tool_calls = turn->tool_calls;
  take_ids(r, turn->ids);
  take_steps(r, turn);
}

static bool take_turn(void *ctx, const tp_turn_record *turn) {
  reading *r = ctx;
  if (!cli_pick_is(&r->pick, turn, false)) return true;
  r->has_turn = r->trace->has_record = true;
  take_record(r, turn);
  return false;
}

static bool take_running(void *ctx, const tp_turn_record *turn) {
  reading *r = ctx;
  cli_trace *t = r->trace;
  if (!cli_pick_is(&r->pick, turn, true)) return true;
  r->has_turn = true;
  t->state = (tp_state)turn->state;
  take_record(r, turn);
  t->ended_ns = t->began_ns + cli_running_ns(turn, t->began_ns);
  return false;
}

/* ---- entries ---- */

/* The run that ended last before this one was ready: probably the run that it waited for, as far as times can tell. A
 * run that was ready at the entry's beginning waited for none. */
static size_t find_after(const cli_trace_entry *e, size_t index) {
  const tp_run_record *run = &e->runs[index].row;
  size_t last = CLI_NO_RUN;
  if (!run->queued_ns || run->queued_ns <= e->started_ns) return last;
  for (size_t i = 0; i < e->run_count; i++) {
    const tp_run_record *other = &e->runs[i].row;
    if (i == index || !other->ended_ns || other->ended_ns > run->queued_ns || !cli_run_was_called(other)) continue;
    if (last == CLI_NO_RUN || other->ended_ns >= e->runs[last].row.ended_ns) last = i;
  }
  return last;
}

static bool is_detached_run(const tp_run_record *run) {
  return (run->execution == TP_EXECUTION_FIRE_AND_RECORD || run->execution == TP_EXECUTION_BACKGROUND) &&
         run->state != TP_STATE_BACKGROUNDED && run->state != TP_STATE_SKIPPED;
}

static bool take_entry(void *ctx, const tp_entry_record *from) {
  reading *r = ctx;
  cli_trace *t = r->trace;
  char phase[32];
  if (!t->process_run_id) { /* without a record of the turn, its newest entry tells the process */
    t->process_run_id = from->process_run_id;
    t->started_unix_ms = from->started_unix_ms;
    take_ids(r, from->ids);
  }
  if (from->process_run_id != t->process_run_id || !cli_pick_has(&r->pick, from)) return true;
  tp_text session = from->ids[TP_ID_SESSION];
  if (session.size != strlen(t->session) || memcmp(session.data, t->session, session.size) != 0) return true;
  t->entries = cli_reserve(t->entries, t->entry_count, &r->entry_capacity, sizeof *t->entries);
  cli_trace_entry *e = &t->entries[t->entry_count++];
  *e = (cli_trace_entry){.id = from->entry_id,
                         .started_ns = from->started_ns,
                         .ended_ns = from->ended_ns,
                         .phase = copy_trace_text(r, tp_text_of(cli_data_phase(r->data, from->phase, phase))),
                         .phase_id = from->phase,
                         .status = (tp_status)from->status};
  if (!r->has_turn && from->started_unix_ms < t->started_unix_ms) t->started_unix_ms = from->started_unix_ms;
  e->runs = cli_alloc((from->run_count + 1) * sizeof *e->runs);
  for (size_t i = 0; i < from->run_count; i++) {
    tp_run_record row = {.struct_size = sizeof row};
    if (!from->run(from->source, i, &row)) continue;
    row.subscription = copy_trace_text(r, tp_text_of(row.subscription));
    row.handler = copy_trace_text(r, tp_text_of(row.handler));
    row.owner = copy_trace_text(r, tp_text_of(row.owner));
    e->runs[e->run_count++] = (cli_trace_run){.row = row, .after = CLI_NO_RUN, .detail = ""};
  }
  for (size_t i = 0; i < e->run_count; i++) e->runs[i].after = find_after(e, i);
  e->is_detached = e->run_count == 1 && is_detached_run(&e->runs[0].row);
  return true;
}

static int by_begin(const void *a, const void *b) {
  const cli_trace_entry *x = a, *y = b;
  if (x->started_ns != y->started_ns) return x->started_ns < y->started_ns ? -1 : 1;
  return (x->id > y->id) - (x->id < y->id);
}

/* The known duration of a turn without a record is from its first entry to the last time in one of its entries. */
static void bound_by_entries(cli_trace *t) {
  t->began_ns = t->entries[0].started_ns;
  for (size_t i = 0; i < t->entry_count; i++) {
    const cli_trace_entry *e = &t->entries[i];
    if (e->started_ns > t->ended_ns) t->ended_ns = e->started_ns;
    if (e->ended_ns > t->ended_ns) t->ended_ns = e->ended_ns;
  }
}

/* ---- content ---- */

static bool take_content(void *ctx, const tp_content_record *from) {
  reading *r = ctx;
  cli_trace_entry *e = r->entry;
  char hash[2 * 32 + 1] = "";
  for (size_t i = 0; i < from->hash.size && i < 32; i++)
    snprintf(hash + 2 * i, 3, "%02x", (unsigned char)from->hash.data[i]);
  e->contents = cli_reserve(e->contents, e->content_count, &r->content_capacity, sizeof *e->contents);
  e->contents[e->content_count++] =
      (cli_trace_content){.field = from->field ? tp_field_name(from->field) : NULL,
                          .run = from->field || from->run_index >= e->run_count ? CLI_NO_RUN : from->run_index,
                          .bytes = from->bytes,
                          .hash = copy_trace_text(r, tp_text_of(hash))};
  if (!from->field && from->run_index < e->run_count) e->runs[from->run_index].bytes += from->bytes;
  return true;
}

static tp_status read_contents(reading *r, tp_fault *fault) {
  const tp_store *store = r->data->store;
  tp_status status = TP_OK;
  for (size_t i = 0; store->contents && i < r->trace->entry_count && status == TP_OK; i++) {
    r->entry = &r->trace->entries[i];
    r->content_capacity = 0;
    tp_content_query query = {
        .struct_size = sizeof query, .process_run_id = r->trace->process_run_id, .entry_id = r->entry->id};
    status = store->contents(store->ctx, &query, take_content, r, fault);
  }
  return status;
}

/* ---- the audit ---- */

static bool is_about(const tp_audit *row, const cli_trace_entry *e, const cli_trace_run *run) {
  if (row->phase != e->phase_id || run->detail[0] || strcmp(row->subscription, run->row.subscription) != 0)
    return false;
  if (strcmp(row->action, "denial") == 0) return run->row.verdict == TP_VERDICT_DENY;
  return strcmp(row->action, "failure") == 0 && row->state == run->row.state && row->reason == run->row.reason;
}

static void add_suspect(reading *r, const tp_audit *row) {
  cli_trace *t = r->trace;
  t->suspects = cli_reserve(t->suspects, t->suspect_count, &t->suspect_capacity, sizeof *t->suspects);
  t->suspects[t->suspect_count++] = copy_trace_text(r, tp_text_of(row->detail));
}

static bool is_asked(const char *action) {
  return strcmp(action, "ask") == 0 || strcmp(action, "answer") == 0 || strcmp(action, "edit") == 0;
}

static void add_asked(reading *r, const tp_audit *row) {
  cli_trace *t = r->trace;
  t->asked = cli_reserve(t->asked, t->asked_count, &t->asked_capacity, sizeof *t->asked);
  t->asked[t->asked_count++] = (cli_trace_asked){.action = copy_trace_text(r, tp_text_of(row->action)),
                                                 .subscription = copy_trace_text(r, tp_text_of(row->subscription)),
                                                 .detail = copy_trace_text(r, tp_text_of(row->detail)),
                                                 .unix_ms = row->unix_ms};
}

/* Rows come newest first, and so do the entries among which they are searched. */
static bool take_audit(void *ctx, const tp_audit *row) {
  reading *r = ctx;
  cli_trace *t = r->trace;
  if (!row->subscription || !row->turn || strcmp(row->turn, t->turn_id) != 0) return true;
  if (strcmp(row->action, "crash_suspect") == 0) add_suspect(r, row);
  if (is_asked(row->action)) {
    add_asked(r, row);
    return true;
  }
  for (size_t i = t->entry_count; i-- > 0;)
    for (size_t j = 0; j < t->entries[i].run_count; j++) {
      cli_trace_run *run = &t->entries[i].runs[j];
      if (!is_about(row, &t->entries[i], run)) continue;
      run->detail = copy_trace_text(r, tp_text_of(row->detail));
      return true;
    }
  return true;
}

static tp_status read_audit(reading *r, tp_fault *fault) {
  enum { CLOCK_STEP_MS = 60000 }; /* The wall clock may have been set by this much meanwhile. */
  const tp_store *store = r->data->store;
  const cli_trace *t = r->trace;
  if (!store->audits) return TP_OK;
  bool may_be_later = t->state == TP_STATE_INTERRUPTED || !r->has_turn; /* a recovery writes rows when it comes */
  int64_t from_ms = t->started_unix_ms - CLOCK_STEP_MS, duration_ms = (t->ended_ns - t->began_ns) / 1000000;
  tp_audit_query query = {.struct_size = sizeof query,
                          .from_unix_ms = from_ms > 0 ? from_ms : 0,
                          .to_unix_ms = may_be_later ? 0 : t->started_unix_ms + duration_ms + CLOCK_STEP_MS};
  return store->audits(store->ctx, &query, take_audit, r, fault);
}

/* ---- all of it ---- */

static tp_status read_all(reading *r, const tp_text ids[TP_ID_COUNT], tp_fault *fault) {
  const tp_store *store = r->data->store;
  tp_turn_query turns = {.struct_size = sizeof turns, .ids = ids, .id_count = TP_ID_COUNT};
  tp_record_query entries = {.struct_size = sizeof entries, .ids = ids, .id_count = TP_ID_COUNT};
  tp_status status = store->turns(store->ctx, &turns, take_turn, r, fault);
  if (status == TP_OK) status = store->turns_running(store->ctx, &turns, take_running, r, fault);
  if (status == TP_OK) status = store->records(store->ctx, &entries, take_entry, r, fault);
  if (status != TP_OK || (r->trace->entry_count == 0 && !r->has_turn)) return status;
  if (r->trace->entry_count > 0) qsort(r->trace->entries, r->trace->entry_count, sizeof *r->trace->entries, by_begin);
  if (!r->has_turn) bound_by_entries(r->trace);
  if (!r->trace->began_ns) r->trace->began_ns = r->trace->ended_ns; /* it ended in its session's queue */
  status = read_contents(r, fault);
  if (status == TP_OK && !r->trace->has_record)
    status = cli_called_read(r->data, r->trace->turn_id, r->trace->session, &r->trace->pool, &r->trace->called, fault);
  return status == TP_OK ? read_audit(r, fault) : status;
}

static int refuse_number(const cli_pick *pick) {
  cli_error("there %s %zu turn%s '%s', and no %s#%zu", pick->count == 1 ? "is" : "are", pick->count,
            pick->count == 1 ? "" : "s", pick->id, pick->id, pick->number);
  return CLI_NEGATIVE;
}

static int read_turn(const cli_data *data, const cli_arguments *arguments, cli_trace *t) {
  const char *session = arguments->session;
  reading r = {.trace = t, .data = data};
  tp_fault fault = {0};
  tp_status status = cli_pick_read(data, arguments->operands[1], session, &r.pick, &fault);
  if (status != TP_OK) return cli_fault(data->path, status, &fault);
  const cli_pick *pick = &r.pick;
  if (pick->is_chosen && pick->count > 0 && pick->number > pick->count) return refuse_number(pick);
  t->turn_id = cli_pool_copy(&t->pool, tp_text_of(pick->is_chosen && !pick->count ? arguments->operands[1] : pick->id));
  tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = tp_text_of(t->turn_id), [TP_ID_SESSION] = tp_text_of(session)};
  status = read_all(&r, ids, &fault);
  if (status != TP_OK) return cli_fault(data->path, status, &fault);
  if (!r.has_turn && t->entry_count == 0) {
    cli_error("there is no turn '%s'%s%s; see: turnphase runs %s", t->turn_id, session ? " in session " : "",
              session ? session : "", arguments->operand);
    return CLI_NEGATIVE;
  }
  if (pick->count > 1 && !pick->is_chosen)
    cli_error("there are several turns '%s': this is the newest, %s#%zu; %s#1 is the oldest%s", pick->id, pick->id,
              pick->count, pick->id, session ? "" : ", and --session says which session");
  return CLI_OK;
}

void cli_trace_free(cli_trace *trace) {
  for (size_t i = 0; i < trace->entry_count; i++) {
    free(trace->entries[i].runs);
    free(trace->entries[i].contents);
  }
  free(trace->entries);
  free(trace->steps);
  free(trace->asked);
  free(trace->suspects);
  free(trace->called.items);
  cli_pool_free(&trace->pool);
}

int cli_trace_read(const char *command, const cli_arguments *arguments, cli_trace *ret_trace) {
  cli_data data = {0};
  const char *turn = arguments->operand_count < 2 ? "" : arguments->operands[1];
  *ret_trace = (cli_trace){.turn_id = turn, .reason = "", .subscription = "", .session = "", .tenant = ""};
  if (!turn[0]) {
    cli_error("%s needs a data directory and a turn; see: turnphase %s --help", command, command);
    return CLI_USAGE;
  }
  int status = cli_data_open(arguments->operand, &data);
  if (status != CLI_OK) return status;
  status = read_turn(&data, arguments, ret_trace);
  cli_data_close(&data);
  return status;
}

int cli_trace_run_command(const cli_trace_command *command, const cli_arguments *arguments, cli_output *output) {
  assert(command->print && command->print_json);
  cli_trace trace;
  int status = cli_trace_read(command->name, arguments, &trace);
  if (status == CLI_OK && arguments->json) command->print_json(&trace, output);
  else if (status == CLI_OK) command->print(&trace, output);
  cli_trace_free(&trace);
  return status;
}

/* ---- what is left of a span ---- */

typedef struct span {
  int64_t from_ns, to_ns;
} span;

static int by_from(const void *a, const void *b) {
  const span *x = a, *y = b;
  return (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns);
}

/* How long at least one of the spans was active between two times. Frees the spans. */
static int64_t covered_ns(span *spans, size_t count, int64_t from_ns, int64_t to_ns) {
  int64_t sum_ns = 0, at_ns = from_ns;
  if (count > 0) qsort(spans, count, sizeof *spans, by_from);
  for (size_t i = 0; i < count; i++) {
    int64_t begin_ns = spans[i].from_ns > at_ns ? spans[i].from_ns : at_ns;
    int64_t end_ns = spans[i].to_ns < to_ns ? spans[i].to_ns : to_ns;
    if (end_ns <= begin_ns) continue;
    sum_ns += end_ns - begin_ns;
    at_ns = end_ns;
  }
  free(spans);
  return sum_ns;
}

/* A handler whose job was stored was not called yet, so it has no span. */
static bool has_span(const cli_trace_run *run) {
  return cli_run_was_called(&run->row) && run->row.state != TP_STATE_BACKGROUNDED && run->row.started_ns;
}

int64_t cli_trace_own_ns(const cli_trace_entry *e) {
  span *spans = cli_alloc((e->run_count + 1) * sizeof *spans);
  size_t count = 0;
  for (size_t i = 0; i < e->run_count; i++)
    if (has_span(&e->runs[i])) spans[count++] = (span){e->runs[i].row.started_ns, e->runs[i].row.ended_ns};
  int64_t duration_ns = e->ended_ns ? e->ended_ns - e->started_ns : 0;
  return duration_ns - covered_ns(spans, count, e->started_ns, e->started_ns + duration_ns);
}

int64_t cli_trace_own_from_ns(const cli_trace_entry *e) {
  int64_t from_ns = e->started_ns;
  for (size_t i = 0; i < e->run_count; i++) {
    const tp_run_record *row = &e->runs[i].row;
    if (has_span(&e->runs[i]) && row->ended_ns > from_ns && row->ended_ns <= e->ended_ns) from_ns = row->ended_ns;
  }
  return from_ns;
}

bool cli_trace_has_jobs(const cli_trace_entry *e) {
  for (size_t i = 0; i < e->run_count; i++)
    if (e->runs[i].row.state == TP_STATE_BACKGROUNDED && e->runs[i].row.execution == TP_EXECUTION_BACKGROUND)
      return true;
  return false;
}

const char *cli_trace_own_what(const cli_trace_entry *e) {
  return cli_trace_has_jobs(e) ? "outside of its handlers: commit of its jobs" : "outside of its handlers";
}

int64_t cli_trace_tools_ns(const cli_trace *t) {
  span *spans = cli_alloc((t->step_count + t->entry_count + 1) * sizeof *spans);
  size_t count = 0;
  for (size_t i = 0; i < t->step_count; i++)
    if (t->steps[i].kind == TP_STEP_TOOL) spans[count++] = (span){t->steps[i].started_ns, t->steps[i].ended_ns};
  for (size_t i = 0; i < t->entry_count; i++) {
    const cli_trace_entry *e = &t->entries[i];
    bool is_gate =
        e->phase_id == TP_PHASE_TOOL_PRE || e->phase_id == TP_PHASE_TOOL_RESULT || e->phase_id == TP_PHASE_TOOL_POST;
    if (is_gate && !e->is_detached) spans[count++] = (span){e->started_ns, e->ended_ns};
  }
  return covered_ns(spans, count, t->began_ns, t->ended_ns);
}
