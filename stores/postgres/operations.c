/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the history that runs on the pool's thread: the statements of a transaction, the meaning of their
 * answers, and the leases of this process. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "stores/postgres/postgres.h"
#include "support/clock.h"
#include "support/fault.h"

/** The works of a flight that have one kind, by their index. */
typedef struct subset {
  size_t count;
  size_t at[TP__PG_WORKS_MAX];
} subset;

static tp__pg_operation *of(const tp__pg_flight *f, size_t index) {
  return (tp__pg_operation *)(void *)f->works[index]; /* the work is its first member */
}

static bool is_ours(const tp__pg_flight *f, size_t index) { return f->works[index]->class == &tp__pg_history_class; }

static subset all_of(const tp__pg_flight *f, bool (*is_one)(const tp__pg_operation *)) {
  subset s = {.count = 0};
  for (size_t i = 0; i < f->count; i++)
    if (is_ours(f, i) && is_one(of(f, i))) s.at[s.count++] = i;
  return s;
}

static bool is_claim(const tp__pg_operation *o) { return o->kind == TP__PG_OF_CLAIM; }
static bool is_append(const tp__pg_operation *o) { return o->kind == TP__PG_OF_APPEND; }
static bool is_in_doubt(const tp__pg_operation *o) { return is_append(o) && o->work.in_doubt; }
static bool is_delete(const tp__pg_operation *o) { return o->kind == TP__PG_OF_DELETE; }
static bool is_beat(const tp__pg_operation *o) { return o->kind == TP__PG_OF_BEAT; }
static bool is_hold(const tp__pg_operation *o) { return o->kind == TP__PG_OF_HOLD; }
static bool is_unhold(const tp__pg_operation *o) { return o->kind == TP__PG_OF_UNHOLD; }
static bool is_leave(const tp__pg_operation *o) { return o->kind == TP__PG_OF_LEAVE; }
static bool is_read(const tp__pg_operation *o) { return o->kind == TP__PG_OF_READ; }
static bool is_list(const tp__pg_operation *o) { return o->kind == TP__PG_OF_LIST; }
static bool has_session(const tp__pg_operation *o) { return is_claim(o) || is_append(o) || is_delete(o); }
static bool makes_session(const tp__pg_operation *o) { return is_claim(o) || (is_append(o) && !o->has_claim); }
static bool may_be_held(const tp__pg_operation *o) { return is_claim(o) || is_delete(o); }
static bool may_leave_empty(const tp__pg_operation *o) {
  return is_append(o) && o->has_claim && o->claim.position == 0 && o->messages.count == 0;
}

/* ---- parameters ---- */

static void put_indexes(tp__pg_flight *f, const subset *s) {
  tp__bytes *array = tp__pg_parameter_array(f->parameters, TP__PG_INT8, s->count);
  for (size_t i = 0; i < s->count; i++) tp__pg_put_int(array, (int64_t)s->at[i]);
}

static void put_texts(tp__pg_flight *f, const subset *s, size_t offset) {
  tp__bytes *array = tp__pg_parameter_array(f->parameters, TP__PG_TEXT, s->count);
  for (size_t i = 0; i < s->count; i++) {
    tp_text text;
    memcpy(&text, (const char *)of(f, s->at[i]) + offset, sizeof text);
    tp__pg_put_bytes(array, text);
  }
}

static void put_names(tp__pg_flight *f, const subset *s) {
  put_texts(f, s, offsetof(tp__pg_operation, tenant));
  put_texts(f, s, offsetof(tp__pg_operation, session));
}

/* Puts a member of 64 bits of each work. */
static void put_ints(tp__pg_flight *f, const subset *s, size_t offset) {
  tp__bytes *array = tp__pg_parameter_array(f->parameters, TP__PG_INT8, s->count);
  for (size_t i = 0; i < s->count; i++) {
    int64_t value;
    memcpy(&value, (const char *)of(f, s->at[i]) + offset, sizeof value);
    tp__pg_put_int(array, value);
  }
}

#define PUT_INTS(f, s, member) put_ints(f, s, offsetof(tp__pg_operation, member))

static bool send(tp_postgres *pg, tp__pg_lane lane, tp__pg_flight *f, tp__pg_statement statement) {
  return tp__pg_flight_send(f, pg->sql[statement], &pg->answers[lane][statement]);
}

/* ---- leases ---- */

static tp__pg_lease *find_lease(tp_postgres *pg, int64_t process) {
  for (size_t i = 0; i < pg->lease_count; i++)
    if (pg->leases[i].process == process) return &pg->leases[i];
  return NULL;
}

static bool has_claims(const tp_postgres *pg, int64_t process) {
  for (size_t i = 0; i < pg->claimed_count; i++)
    if (pg->claimed[i].process == process) return true;
  return false;
}

/* @param fence  that of the claim; 0: of any claim. */
static void drop_claim(tp_postgres *pg, uint64_t number, uint64_t fence) {
  for (size_t i = 0; i < pg->claimed_count; i++) {
    if (pg->claimed[i].number != number || (fence && pg->claimed[i].fence != fence)) continue;
    pg->claimed[i] = pg->claimed[--pg->claimed_count];
    return;
  }
}

/* Reserves space for the claims of a flight, and leases for the processes of its works. */
static bool reserve_claims(tp_postgres *pg, const tp__pg_flight *f, const subset *claims) {
  bool has_space =
      tp__grow(tp__heap, (void **)&pg->claimed, &pg->claimed_capacity, pg->claimed_count + claims->count,
               sizeof *pg->claimed) &&
      tp__grow(tp__heap, (void **)&pg->leases, &pg->lease_capacity, pg->lease_count + f->count, sizeof *pg->leases);
  for (size_t i = 0; has_space && i < f->count; i++) {
    int64_t process = f->works[i]->process;
    if (process && !find_lease(pg, process)) pg->leases[pg->lease_count++] = (tp__pg_lease){.process = process};
  }
  return has_space;
}

static bool is_needed_now(const tp__pg_flight *f, int64_t process) {
  for (size_t i = 0; i < f->count; i++)
    if (f->works[i]->process == process) return true;
  return false;
}

static bool is_held_now(const tp__pg_flight *f, int64_t process) {
  for (size_t i = 0; i < f->count; i++)
    if (is_ours(f, i) && is_hold(of(f, i)) && f->works[i]->process == process) return true;
  return false;
}

/* Chooses the leases to renew and to end. A beat renews the leases that turns and stores need, and ends the others; a
 * claim renews the lease of its process when it would end soon. */
static void choose_leases(tp_postgres *pg, const tp__pg_flight *f, bool beats, size_t *ret_renews, size_t *ret_leaves) {
  int64_t now_ns = tp__monotonic_ns(), lease_ns = pg->lease_ms * TP__NS_IN_MS;
  *ret_renews = *ret_leaves = 0;
  for (size_t i = 0; i < pg->lease_count; i++) {
    tp__pg_lease *lease = &pg->leases[i];
    bool claims_now = is_needed_now(f, lease->process);
    bool is_old = lease->end_ns - now_ns < lease_ns * 2 / 3,
         is_needed = claims_now || lease->is_held || has_claims(pg, lease->process);
    bool renews = is_needed && (beats || (claims_now && is_old) || is_held_now(f, lease->process));
    lease->renewed_ns = renews ? now_ns + lease_ns : 0;
    lease->leaves = beats && !is_needed;
    *ret_renews += renews;
    *ret_leaves += lease->leaves;
  }
}

static bool build_leases(tp_postgres *pg, tp__pg_flight *f, bool beats) {
  size_t renews, leaves;
  bool is_new = false;
  choose_leases(pg, f, beats, &renews, &leaves);
  if (renews) {
    tp__bytes *ids = tp__pg_parameter_array(f->parameters, TP__PG_INT8, renews);
    for (size_t i = 0; i < pg->lease_count; i++) {
      if (!pg->leases[i].renewed_ns) continue;
      tp__pg_put_int(ids, pg->leases[i].process);
      is_new = is_new || pg->leases[i].end_ns == 0;
    }
    tp__pg_parameter_text(f->parameters, tp_text_of(pg->address));
    tp__pg_parameter_int(f->parameters, pg->lease_ms);
    if (!send(pg, TP__PG_WRITES, f, TP__PG_BEAT)) return false;
    if (is_new && !send(pg, TP__PG_WRITES, f, TP__PG_SWEEP)) return false;
  }
  if (!leaves) return true;
  tp__bytes *ids = tp__pg_parameter_array(f->parameters, TP__PG_INT8, leaves);
  for (size_t i = 0; i < pg->lease_count; i++)
    if (pg->leases[i].leaves) tp__pg_put_int(ids, pg->leases[i].process);
  return send(pg, TP__PG_WRITES, f, TP__PG_LEAVE);
}

static void settle_leases(tp_postgres *pg) {
  for (size_t i = 0; i < pg->lease_count;) {
    tp__pg_lease *lease = &pg->leases[i];
    if (lease->renewed_ns) lease->end_ns = lease->renewed_ns;
    lease->renewed_ns = 0;
    if (lease->leaves) *lease = pg->leases[--pg->lease_count];
    else i++;
  }
  tp__lock_acquire(&pg->lock);
  pg->has_leases = pg->lease_count > 0;
  tp__lock_release(&pg->lock);
}

static void beat_ended(tp__pg_work *work) {
  tp__pg_operation *o = (tp__pg_operation *)(void *)work;
  o->postgres->beats = false;
}

static int64_t tick(void *ctx, int64_t now_ns) {
  tp_postgres *pg = ctx;
  int64_t next_ns = INT64_MAX;
  if (pg->beats) return next_ns;
  for (size_t i = 0; i < pg->lease_count; i++) {
    const tp__pg_lease *lease = &pg->leases[i];
    int64_t end_ns = lease->renewed_ns ? lease->renewed_ns : lease->end_ns;
    int64_t beat_ns = end_ns - pg->lease_ms * TP__NS_IN_MS * 2 / 3;
    if (beat_ns < next_ns) next_ns = beat_ns;
  }
  if (next_ns > now_ns) return next_ns;
  pg->beats = true;
  pg->beat = (tp__pg_operation){
      .work = {.class = &tp__pg_history_class, .lane = TP__PG_WRITES, .doing = "renew a lease", .end = beat_ended},
      .postgres = pg,
      .kind = TP__PG_OF_BEAT};
  tp__pg_submit(pg->pool, &pg->beat.work);
  return INT64_MAX;
}

/* ---- statements ---- */

/* Adds new sessions in the order of arrival, in which they are also numbered. When two hosts add the same two new
 * sessions in opposite order at the same time, PostgreSQL ends one of the transactions, which is tried again. */
static bool build_new_sessions(tp_postgres *pg, tp__pg_flight *f) {
  subset makers = all_of(f, makes_session);
  if (makers.count == 0) return true;
  put_names(f, &makers);
  return send(pg, TP__PG_WRITES, f, TP__PG_ADD_SESSIONS);
}

static bool build_locks(tp_postgres *pg, tp__pg_flight *f) {
  subset all = all_of(f, has_session);
  if (all.count == 0) return true;
  put_names(f, &all);
  return send(pg, TP__PG_WRITES, f, TP__PG_LOCK_SESSIONS);
}

static bool build_claims(tp_postgres *pg, tp__pg_flight *f, const subset *claims) {
  if (claims->count == 0) return true;
  put_indexes(f, claims);
  put_names(f, claims);
  PUT_INTS(f, claims, process);
  if (!send(pg, TP__PG_WRITES, f, TP__PG_CLAIM)) return false;
  put_indexes(f, claims);
  put_names(f, claims);
  PUT_INTS(f, claims, process);
  PUT_INTS(f, claims, number);
  PUT_INTS(f, claims, after);
  return send(pg, TP__PG_WRITES, f, TP__PG_CLAIMED_MESSAGES);
}

/* Puts the appends. The number of a batch is compared only when the batch may have been written before. */
static void put_appends(tp__pg_flight *f, const subset *appends) {
  put_indexes(f, appends);
  put_names(f, appends);
  PUT_INTS(f, appends, claim.number);
  PUT_INTS(f, appends, claim.fence);
  PUT_INTS(f, appends, claim.position);
  PUT_INTS(f, appends, messages.count);
  tp__bytes *batches = tp__pg_parameter_array(f->parameters, TP__PG_INT8, appends->count);
  for (size_t i = 0; i < appends->count; i++) {
    const tp__pg_operation *o = of(f, appends->at[i]);
    tp__pg_put_int(batches, o->work.in_doubt ? o->batch : 0);
  }
}

static void put_messages(tp__pg_flight *f, const subset *appends) {
  size_t size = 0;
  for (size_t i = 0; i < appends->count; i++) size += of(f, appends->at[i])->messages.count;
  tp__bytes *indexes = tp__pg_parameter_array(f->parameters, TP__PG_INT8, size);
  tp__bytes *places = tp__pg_parameter_array(f->parameters, TP__PG_INT8, size);
  tp__bytes *batches = tp__pg_parameter_array(f->parameters, TP__PG_INT8, size);
  for (size_t i = 0; i < appends->count; i++) {
    const tp__pg_operation *o = of(f, appends->at[i]);
    for (size_t m = 0; m < o->messages.count; m++) {
      tp__pg_put_int(indexes, (int64_t)appends->at[i]);
      tp__pg_put_int(places, (int64_t)m);
      tp__pg_put_int(batches, o->batch);
    }
  }
  for (int column = 0; column < TP__PG_MESSAGE_COLUMNS; column++) {
    tp__bytes *array = tp__pg_parameter_array(f->parameters, tp__pg_message_type(column), size);
    for (size_t i = 0; i < appends->count; i++)
      tp__bytes_put_text(array, tp__bytes_text(&of(f, appends->at[i])->messages.columns[column]));
  }
}

static bool build_appends(tp_postgres *pg, tp__pg_flight *f) {
  subset appends = all_of(f, is_append), doubted = all_of(f, is_in_doubt), empty = all_of(f, may_leave_empty);
  if (appends.count == 0) return true;
  put_appends(f, &appends);
  put_messages(f, &appends);
  if (!send(pg, TP__PG_WRITES, f, TP__PG_APPEND)) return false;
  if (doubted.count) {
    put_appends(f, &doubted);
    if (!send(pg, TP__PG_WRITES, f, TP__PG_PROVE)) return false;
  }
  if (empty.count == 0) return true;
  PUT_INTS(f, &empty, claim.number);
  return send(pg, TP__PG_WRITES, f, TP__PG_DROP_EMPTY);
}

static bool build_deletions(tp_postgres *pg, tp__pg_flight *f) {
  subset deletions = all_of(f, is_delete);
  if (deletions.count == 0) return true;
  put_indexes(f, &deletions);
  put_names(f, &deletions);
  return send(pg, TP__PG_WRITES, f, TP__PG_DELETE);
}

static bool build_holders(tp_postgres *pg, tp__pg_flight *f) {
  subset held = all_of(f, may_be_held);
  if (held.count == 0) return true;
  put_indexes(f, &held);
  put_names(f, &held);
  PUT_INTS(f, &held, process); /* 0 for a deletion, which belongs to no process */
  return send(pg, TP__PG_WRITES, f, TP__PG_HOLDERS);
}

static bool build_writes(tp_postgres *pg, tp__pg_flight *f) {
  subset claims = all_of(f, is_claim);
  bool beats = all_of(f, is_beat).count > 0;
  if (!reserve_claims(pg, f, &claims)) return false;
  if (all_of(f, is_leave).count > 0) {
    tp__bytes *ids = tp__pg_parameter_array(f->parameters, TP__PG_INT8, pg->lease_count);
    for (size_t i = 0; i < pg->lease_count; i++) {
      tp__pg_put_int(ids, pg->leases[i].process);
      pg->leases[i].leaves = true;
    }
    return send(pg, TP__PG_WRITES, f, TP__PG_LEAVE);
  } /* it is an exclusive work */
  return build_leases(pg, f, beats) && build_new_sessions(pg, f) && build_locks(pg, f) &&
         build_claims(pg, f, &claims) && build_appends(pg, f) && build_deletions(pg, f) && build_holders(pg, f);
}

static int64_t at_most(uint64_t number) { return number > INT64_MAX ? INT64_MAX : (int64_t)number; }

static bool build_reads(tp_postgres *pg, tp__pg_flight *f) {
  subset reads = all_of(f, is_read), lists = all_of(f, is_list);
  if (reads.count) {
    put_indexes(f, &reads);
    put_names(f, &reads);
    if (!send(pg, TP__PG_READS, f, TP__PG_MESSAGES)) return false;
  }
  if (lists.count == 0) return true;
  assert(f->count == 1); /* it is an exclusive work */
  const tp_history_query *query = of(f, lists.at[0])->query;
  tp__pg_parameter_int(f->parameters, at_most(query->after_number));
  tp__pg_parameter_int(f->parameters, query->limit ? at_most(query->limit) : INT64_MAX);
  tp__pg_parameter_text(f->parameters, query->tenant);
  return send(pg, TP__PG_READS, f, TP__PG_LIST);
}

static bool build_operations(void *ctx, tp__pg_lane lane, tp__pg_flight *f) {
  tp_postgres *pg = ctx;
  for (int i = 0; i < TP__PG_STATEMENTS; i++) pg->answers[lane][i] = -1;
  return lane == TP__PG_WRITES ? build_writes(pg, f) : build_reads(pg, f);
}

/* ---- answers ---- */

/* Returns the answer of a statement; NULL, which counts as no rows, when it was not sent. */
static PGresult *answer_of(const tp_postgres *pg, tp__pg_lane lane, const tp__pg_flight *f,
                           tp__pg_statement statement) {
  int index = pg->answers[lane][statement];
  return index >= 0 ? f->answers[index] : NULL;
}

/* Returns the operation of a row, whose column 0 is the index in the flight. */
static tp__pg_operation *operation_of_row(const tp__pg_flight *f, const PGresult *rows, int row) {
  int64_t index = tp__pg_int(rows, row, 0);
  assert(index >= 0 && (size_t)index < f->count);
  return of(f, (size_t)index);
}

static void settle_claims(tp_postgres *pg, const tp__pg_flight *f) {
  const PGresult *rows = answer_of(pg, TP__PG_WRITES, f, TP__PG_CLAIM);
  for (int i = 0; i < PQntuples(rows); i++) {
    tp__pg_operation *o = operation_of_row(f, rows, i);
    tp_history_claim *claim = &o->claim;
    *claim = (tp_history_claim){.struct_size = sizeof *claim,
                                .number = (uint64_t)tp__pg_int(rows, i, 1),
                                .fence = (uint64_t)tp__pg_int(rows, i, 2),
                                .position = (uint64_t)tp__pg_int(rows, i, 3)};
    claim->first = o->number == claim->number && o->after <= claim->position ? o->after : 0;
    o->found = true;
    drop_claim(pg, claim->number, 0);
    assert(pg->claimed_count < pg->claimed_capacity && find_lease(pg, o->process));
    pg->claimed[pg->claimed_count++] = (tp__pg_claimed){o->process, claim->number, claim->fence};
  }
}

/* Notes for each operation which rows of the answer are its messages. They are adjacent. */
static void settle_messages(tp_postgres *pg, tp__pg_lane lane, const tp__pg_flight *f, tp__pg_statement statement) {
  PGresult *rows = answer_of(pg, lane, f, statement);
  for (int i = 0; i < PQntuples(rows); i++) {
    tp__pg_operation *o = operation_of_row(f, rows, i);
    if (o->row_count++ == 0) o->first_row = i;
    o->rows = rows;
  }
}

/* An operation without a token gets a copy, since the thread that waits for it reads the rows after they were freed. */
static void settle_rows(const tp__pg_flight *f) {
  for (size_t i = 0; i < f->count; i++) {
    if (!is_ours(f, i)) continue;
    tp__pg_operation *o = of(f, i);
    if (!o->rows || o->has_token) continue;
    o->rows = PQcopyResult(o->rows, PG_COPYRES_ATTRS | PG_COPYRES_TUPLES);
    if (!o->rows) o->work.status = tp__refuse(&o->work.fault, TP_ERR_NO_MEMORY, NULL, "no memory for what was read");
  }
}

static void note_found(tp_postgres *pg, const tp__pg_flight *f, tp__pg_statement statement) {
  const PGresult *rows = answer_of(pg, TP__PG_WRITES, f, statement);
  for (int i = 0; i < PQntuples(rows); i++) operation_of_row(f, rows, i)->found = true;
}

static void settle_append(tp_postgres *pg, tp__pg_operation *o) {
  if (o->has_claim) drop_claim(pg, o->claim.number, o->claim.fence);
  if (o->found) return;
  if (!o->has_claim) {
    o->work.again = true; /* its session was deleted between two statements */
    return;
  }
  o->work.status =
      tp__refuse(&o->work.fault, TP_ERR_FENCED, pg->target.name,
                 "%s: session `%.*s` was taken over by another process, or deleted, while its turn ran: nothing of "
                 "the turn was appended",
                 pg->target.name, (int)o->session.size, o->session.data);
}

static void settle_holders(tp_postgres *pg, const tp__pg_flight *f) {
  const PGresult *rows = answer_of(pg, TP__PG_WRITES, f, TP__PG_HOLDERS);
  for (int i = 0; i < PQntuples(rows); i++) {
    tp__pg_operation *o = operation_of_row(f, rows, i);
    tp_text address = tp__pg_text(rows, i, 1);
    int64_t left_ms = tp__pg_int(rows, i, 2) > 0 ? tp__pg_int(rows, i, 2) : 1;
    o->claim.retry_ms = (uint64_t)left_ms;
    o->found = true;
    o->work.status =
        tp__refuse(&o->work.fault, TP_ERR_BUSY, pg->target.name,
                   "a turn of %.*s has session `%.*s`: its lease ends in %lld.%lld s, unless it is renewed",
                   (int)address.size, address.data, (int)o->session.size, o->session.data, (long long)(left_ms / 1000),
                   (long long)(left_ms % 1000 / 100));
  }
}

/* Ends deletions. A deletion in doubt that finds no session was done before. */
static void settle_deletions(tp_postgres *pg, const tp__pg_flight *f) {
  const PGresult *rows = answer_of(pg, TP__PG_WRITES, f, TP__PG_DELETE);
  for (int i = 0; i < PQntuples(rows); i++) operation_of_row(f, rows, i)->found = tp__pg_int(rows, i, 1) > 0;
  for (size_t i = 0; i < f->count; i++) {
    if (!is_ours(f, i)) continue;
    tp__pg_operation *o = of(f, i);
    if (!is_delete(o) || o->found || o->work.status != TP_OK || o->work.in_doubt) continue;
    o->work.status =
        tp__refuse(&o->work.fault, TP_ERR_NOT_FOUND, pg->target.name, "the history has no messages of such a session");
  }
}

static void settle_writes(tp_postgres *pg, const tp__pg_flight *f) {
  settle_leases(pg);
  subset holds = all_of(f, is_hold), unholds = all_of(f, is_unhold);
  for (size_t i = 0; i < holds.count + unholds.count; i++) {
    bool holds_now = i < holds.count;
    tp__pg_lease *lease = find_lease(pg, of(f, holds_now ? holds.at[i] : unholds.at[i - holds.count])->process);
    if (lease) lease->is_held = holds_now;
  }
  settle_claims(pg, f);
  settle_messages(pg, TP__PG_WRITES, f, TP__PG_CLAIMED_MESSAGES);
  settle_holders(pg, f);
  note_found(pg, f, TP__PG_APPEND);
  note_found(pg, f, TP__PG_PROVE);
  settle_deletions(pg, f);
  for (size_t i = 0; i < f->count; i++) {
    if (!is_ours(f, i)) continue;
    tp__pg_operation *o = of(f, i);
    if (is_append(o)) settle_append(pg, o);
    if (is_claim(o) && !o->found) o->work.again = true; /* its new session was deleted between two statements */
  }
}

static void settle(void *ctx, tp__pg_lane lane, tp__pg_flight *f) {
  tp_postgres *pg = ctx;
  for (size_t i = 0; i < f->count; i++) {
    if (!is_ours(f, i)) continue;
    tp__pg_operation *o = of(f, i);
    o->found = false;
    o->row_count = 0;
    o->rows = NULL;
  }
  if (lane == TP__PG_WRITES) settle_writes(pg, f);
  else settle_messages(pg, lane, f, TP__PG_MESSAGES);
  for (size_t i = 0; i < f->count; i++)
    if (is_ours(f, i) && is_list(of(f, i))) of(f, i)->rows = answer_of(pg, lane, f, TP__PG_LIST);
  settle_rows(f);
}

const tp__pg_class tp__pg_history_class = {.build = build_operations, .settle = settle, .tick = tick};
