/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/postgres/records.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "stores/postgres/record_values.h"
#include "stores/postgres/schema.h"
#include "support/clock.h"
#include "support/fault.h"

enum {
  RECORDS_MAX = 100000,
  QUEUE_BYTES_MAX = 8 << 20,
  GROUP_ROWS_MAX = 4096,
  GROUP_BYTES_MAX = 4 << 20,
  FLIGHT_BYTES = 16 << 20, /* no other work is in its transaction */
  RETRY_MS = 200,
  TRIMMED_MAX = 10000, /* the most rows of a table that one transaction deletes */
  OF_ENTRY = 8,        /* attempts and contents of an entry, on average */
  INTS_MAX = 6
};

/** The kinds of waiting records, each with its table. The entries of a batch become KIND_ENTRY when they are read. */
typedef enum record_kind {
  KIND_ENTRY,
  KIND_LATE,
  KIND_TURN,
  KIND_RUNNING,
  KIND_AUDIT,
  KIND_ATTEMPT,
  KIND_CONTENT,
  KINDS,
  KIND_BATCH = KINDS
} record_kind;

/** The columns of a row. */
typedef struct cells {
  int64_t ints[INTS_MAX];
  tp_text ids[TP_ID_COUNT];
  tp_text value;
} cells;

/** A waiting record: one block, with its texts after it. */
typedef struct waiting {
  struct waiting *next;
  size_t bytes;
  uint64_t count; /* how many records it stands for */
  record_kind kind;
  cells row;
  int64_t running_number; /* set in records of turns */
  bool is_hashed;         /* set when a record of content holds its hash already */
  tp_content_record content;
  tp_entry_batch batch; /* set in a KIND_BATCH */
} waiting;

struct tp__pg_records {
  /* never changes after it was made */
  tp__pg_store *store;
  size_t most[KINDS]; /* how many rows are kept; 0: all */
  /* used by the pool's thread while the work is under way, else by the thread that submits it */
  tp__pg_work work;
  bool flushes;        /* set when the work writes nothing, and only waits for the disk */
  bool is_sync;        /* whether the work is synchronous */
  uint64_t since_trim; /* how many rows were written since old ones were deleted */
  int trims[KINDS];    /* for the flight: the index of each answer; -1: none */
  waiting *group;      /* the records that are being written */
  uint64_t group_count;
  tp__bytes scratch;
  tp__lock lock;
  tp__lock_condition changed; /* signalled when a work has ended */
  /* ---- under lock */
  waiting *first, **last;
  size_t bytes, bytes_max; /* the bytes of the queue and of the group */
  size_t rows_max;         /* the most rows of a group; fewer after the server refused one */
  uint64_t queued, written, synced,
      wanted;             /* counts of records: added; written; on the disk; up to which a commit waits */
  uint64_t begun, failed; /* how many works were begun; the number of the last one that failed */
  uint64_t dropped_in_row;
  bool is_under_way, is_failing, ending, syncs;
  tp_status status; /* of the last work that failed */
  tp_fault fault;
};

/* ---- SQL ---- */

#define IDS_OF(from)                                                                                          \
  from ".tenant, " from ".agent, " from ".workspace, " from ".session, " from ".thread, " from ".turn, " from \
       ".task, " from ".run"
#define TEXTS(a, b, c, d, e, f, g, h)                                                                                \
  "$" #a "::bytea[], $" #b "::bytea[], $" #c "::bytea[], $" #d "::bytea[], $" #e "::bytea[], $" #f "::bytea[], $" #g \
  "::bytea[], $" #h "::bytea[]"

static const int all_ids[] = {TP_ID_TENANT, TP_ID_AGENT, TP_ID_WORKSPACE, TP_ID_SESSION,
                              TP_ID_THREAD, TP_ID_TURN,  TP_ID_TASK,      TP_ID_RUN};
static const int audit_ids[] = {TP_ID_TENANT, TP_ID_SESSION, TP_ID_TURN};

/** A table. The parameters of its statement are arrays: k, the numbers, the ids, and the value. */
static const struct table {
  const char *insert;
  int ints, id_count;
  const int *ids;
  bool has_value;
} tables[KINDS] = {
    /* When a group has an entry twice, the last one counts, at the place of the first. */
    [KIND_ENTRY] =
        {"INSERT INTO @.entry (process, id, started_unix_ms, ended_ns, phase, status, " TP__PG_IDS
         ", value) SELECT d.process, d.id, d.started_unix_ms, d.ended_ns, d.phase, d.status, " IDS_OF(
             "d") ", d.value FROM (SELECT DISTINCT ON (c.process, c.id) c.*, min(c.k) OVER (PARTITION BY c.process, "
                  "c.id)"
                  " AS first FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
                  " $6::bigint[], $7::bigint[], " TEXTS(
                      8, 9, 10, 11, 12, 13, 14,
                      15) ", $16::bytea[])"
                          " AS c(k, process, id, started_unix_ms, ended_ns, phase, status, " TP__PG_IDS
                          ", value) ORDER BY c.process, c.id, c.k DESC) d ORDER BY d.first"
                          " ON CONFLICT (process, id) DO UPDATE SET started_unix_ms = excluded.started_unix_ms,"
                          " ended_ns = excluded.ended_ns, phase = excluded.phase, status = excluded.status,"
                          " value = excluded.value",
         6, TP_ID_COUNT, all_ids, true},
    [KIND_LATE] =
        {"INSERT INTO @.late (process, entry, position, late_ns) SELECT DISTINCT ON (c.process, c.entry, c.position)"
         " c.process, c.entry, c.position, c.late_ns FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], "
         "$4::bigint[],"
         " $5::bigint[]) AS c(k, process, entry, position, late_ns) WHERE EXISTS (SELECT 1 FROM @.entry e"
         " WHERE e.process = c.process AND e.id = c.entry) ORDER BY c.process, c.entry, c.position, c.k DESC"
         " ON CONFLICT (process, entry, position) DO UPDATE SET late_ns = excluded.late_ns",
         4, 0, NULL, false},
    [KIND_TURN] =
        {"INSERT INTO @.turn (process, number, outcome, ended_unix_ms, " TP__PG_IDS
         ", value) SELECT c.process, c.number, c.outcome, c.ended_unix_ms, " IDS_OF(
             "c") ", c.value FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
                  " " TEXTS(6, 7, 8, 9, 10, 11, 12,
                            13) ", $14::bytea[]) AS c(k, process, number, outcome, ended_unix_ms, " TP__PG_IDS
                                ", value) ORDER BY c.k ON CONFLICT (process, number) DO NOTHING",
         4, TP_ID_COUNT, all_ids, true},
    /* The rows of the same turns were deleted before, so that the turn that was written last has the last place. */
    [KIND_RUNNING] =
        {"INSERT INTO @.running (process, number, state, ended_unix_ms, " TP__PG_IDS
         ", value) SELECT d.process, d.number, d.state, d.ended_unix_ms, " IDS_OF(
             "d") ", d.value FROM (SELECT DISTINCT ON (c.process, c.number) c.* FROM unnest($1::bigint[], $2::bigint[],"
                  " $3::bigint[], $4::bigint[], $5::bigint[], " TEXTS(
                      6, 7, 8, 9, 10, 11, 12,
                      13) ", $14::bytea[]) AS c(k, process, number, state, ended_unix_ms, " TP__PG_IDS
                          ", value) ORDER BY c.process, c.number, c.k DESC) d ORDER BY d.k"
                          " ON CONFLICT (process, number) DO NOTHING",
         4, TP_ID_COUNT, all_ids, true},
    [KIND_AUDIT] =
        {"INSERT INTO @.audit (mark, unix_ms, phase, tenant, session, turn, value) SELECT c.mark, c.unix_ms, c.phase,"
         " c.tenant, c.session, c.turn, c.value FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],"
         " $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[]) AS c(k, mark, unix_ms, phase, tenant, session, turn,"
         " value) ORDER BY c.k ON CONFLICT (mark) DO NOTHING",
         3, 3, audit_ids, true},
    [KIND_ATTEMPT] =
        {"INSERT INTO @.attempt (mark, process, entry, position, number, value) SELECT c.mark, c.process, c.entry,"
         " c.position, c.number, c.value FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],"
         " $5::bigint[], $6::bigint[], $7::bytea[]) AS c(k, mark, process, entry, position, number, value)"
         " ORDER BY c.k ON CONFLICT (mark) DO NOTHING",
         5, 0, NULL, true},
    [KIND_CONTENT] = {"INSERT INTO @.content (mark, process, entry, value) SELECT c.mark, c.process, c.entry, c.value"
                      " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[])"
                      " AS c(k, mark, process, entry, value) ORDER BY c.k ON CONFLICT (mark) DO NOTHING",
                      3, 0, NULL, true}};

/* Deletes rows of running turns: of those that are written again, and of those that have ended. */
static const char delete_running[] =
    "DELETE FROM @.running r USING unnest($1::bigint[], $2::bigint[]) AS c(process, number)"
    " WHERE r.process = c.process AND r.number = c.number";
/* Clears the results of a turn's calls, which the history has from then on. */
static const char clear_results[] =
    "UPDATE @.tool_start t SET result = NULL, value = NULL, parts = NULL FROM unnest($1::bigint[], $2::bytea[],"
    " $3::bytea[], $4::bytea[]) AS c(turn_hash, tenant, session, turn) WHERE t.turn_hash = c.turn_hash"
    " AND t.tenant = c.tenant AND t.session = c.session AND t.turn = c.turn AND t.result IS NOT NULL";

/* Inserts a row, since a transaction that changes nothing does not wait for the disk. */
static const char insert_flush[] = "INSERT INTO @.flush (id) VALUES ($1::bigint) ON CONFLICT (id) DO NOTHING";
static const char delete_flush[] = "DELETE FROM @.flush WHERE id = $1::bigint";

/* The oldest rows beyond the number that is kept ($1), or older than $2 ms. Several processes may delete at once. */
#define OLD(table, time)                                               \
  "x.place IN (SELECT y.place FROM @." table                           \
  " y ORDER BY y.place LIMIT $3::bigint FOR UPDATE SKIP LOCKED) AND (" \
  "x.place < (SELECT z.place FROM @." table                            \
  " z ORDER BY z.place DESC OFFSET $1::bigint LIMIT 1)"                \
  " OR ($2::bigint > 0 AND " time " < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $2::bigint))"
#define OF_GONE(table) \
  "DELETE FROM @." table " y USING gone WHERE y.process = gone.process AND y.entry = gone.id RETURNING 1"
#define TRIM(table, time) \
  "WITH gone AS (DELETE FROM @." table " x WHERE " OLD(table, time) " RETURNING 1) SELECT count(*) FROM gone"
static const char *const trims[KINDS] = {
    [KIND_ENTRY] = "WITH gone AS (DELETE FROM @.entry x WHERE " OLD(
        "entry", "x.started_unix_ms") " RETURNING x.process, x.id), attempts AS (" OF_GONE("attempt") "), contents AS ("
                 OF_GONE("content") "), late AS (" OF_GONE("late") ") SELECT count(*) FROM gone",
    [KIND_TURN] = TRIM("turn", "x.ended_unix_ms"),
    [KIND_AUDIT] = TRIM("audit", "x.unix_ms"),
    /* rows whose entry is deleted */
    [KIND_ATTEMPT] = TRIM("attempt", "$2::bigint"),
    [KIND_CONTENT] = TRIM("content", "$2::bigint")};

/* ---- making a record ---- */

static size_t ids_bytes(const tp_text *ids, size_t id_count) {
  size_t bytes = 0;
  for (size_t i = 0; i < id_count && i < TP_ID_COUNT; i++) bytes += ids[i].size;
  return bytes;
}

static tp_text put_copied_text(char **at, tp_text text) {
  tp_text copy = {*at, text.size};
  if (text.size) memcpy(*at, text.data, text.size);
  *at += text.size;
  return copy;
}

/* @param value  copied. @return NULL without memory. */
static waiting *record_new(record_kind kind, const tp_text *ids, size_t id_count, tp_text value) {
  size_t bytes = sizeof(waiting) + ids_bytes(ids, id_count) + value.size;
  waiting *new = tp__heap_alloc(bytes);
  if (!new) return NULL;
  char *at = (char *)(new + 1);
  new->bytes = bytes;
  new->count = 1;
  new->kind = kind;
  if (kind == KIND_BATCH) /* must be first, since it is aligned */
    new->row.value = put_copied_text(&at, value);
  for (size_t i = 0; i < id_count && i < TP_ID_COUNT; i++) new->row.ids[i] = put_copied_text(&at, ids[i]);
  if (kind != KIND_BATCH) new->row.value = put_copied_text(&at, value);
  return new;
}

static void record_free(waiting *old) { tp__heap_free(old, old->bytes); }

/* ---- the queue ---- */

static tp__pg_records *records_of(void *ctx) { return ((tp__pg_store *)ctx)->records; }

static void log_records(const tp__pg_records *r, tp_log_level level, tp_status status, const char *message) {
  tp__pg_say(r->store->postgres->pool, level, status, message);
}

static void group_ended(tp__pg_work *work);

/* @param wait_ms  the pause before it is tried. */
static void submit_locked(tp__pg_records *r, int64_t wait_ms) {
  TP__LOCKED(&r->lock);
  assert(!r->is_under_way);
  r->is_under_way = true;
  r->begun++;
  r->is_sync = r->syncs || r->wanted > r->synced;
  r->flushes = !r->first && !r->group;
  r->work = (tp__pg_work){.class = &tp__pg_records_class,
                          .lane = TP__PG_RECORDS,
                          .bytes = FLIGHT_BYTES,
                          .statements = 1,
                          .doing = "write records",
                          .is_async = !r->is_sync,
                          .not_before_ns = wait_ms ? tp__monotonic_ns() + wait_ms * TP__NS_IN_MS : 0,
                          .end = group_ended};
  tp__pg_submit(r->store->postgres->pool, &r->work);
}

/* Whether a record fits. A queue that was full accepts records again only when half of it is free, so that no small
 * record is accepted between large ones that are dropped. */
static bool fits_locked(const tp__pg_records *r, size_t bytes) {
  TP__LOCKED(&r->lock);
  if (r->dropped_in_row > 0 && r->bytes > r->bytes_max / 2) return false;
  return r->bytes + bytes <= r->bytes_max;
}

/* @param new  taken. */
static tp_status add_record(tp__pg_records *r, waiting *new) {
  char message[TP_FAULT_MESSAGE_SIZE];
  const char *name = r->store->postgres->target.name;
  if (!new) return TP_ERR_NO_MEMORY;
  tp__lock_acquire(&r->lock);
  bool fits = fits_locked(r, new->bytes), first_dropped = !fits && r->dropped_in_row == 0;
  uint64_t ended = fits ? r->dropped_in_row : 0;
  size_t bytes_max = r->bytes_max;
  if (fits) {
    new->next = NULL;
    *r->last = new;
    r->last = &new->next;
    r->bytes += new->bytes;
    r->queued += new->count;
    r->dropped_in_row = 0;
    if (!r->is_under_way) submit_locked(r, 0);
  } else {
    r->dropped_in_row += new->count;
  }
  tp__lock_release(&r->lock);
  if (!fits) record_free(new);
  if (first_dropped) {
    snprintf(message, sizeof message, "%s: the queue of records is full (%zu bytes): those that come now are dropped",
             name, bytes_max);
    log_records(r, TP_LOG_ERROR, TP_ERR_FULL, message);
  } else if (ended) {
    snprintf(message, sizeof message, "%s: records are taken again; %llu were not", name, (unsigned long long)ended);
    log_records(r, TP_LOG_WARNING, TP_ERR_FULL, message);
  }
  return fits ? TP_OK : TP_ERR_FULL;
}

/* ---- the end of a work, on the pool's thread ---- */

static void free_group(tp__pg_records *r) {
  while (r->group) {
    waiting *old = r->group;
    r->group = old->next;
    record_free(old);
  }
  r->group_count = 0;
}

static size_t group_bytes(const tp__pg_records *r) {
  size_t bytes = 0;
  for (const waiting *one = r->group; one; one = one->next) bytes += one->bytes;
  return bytes;
}

/* Whether the server refuses a record because of its content: then it would refuse it for ever. */
static bool is_refused(tp_status status) {
  return status == TP_ERR_TOO_LARGE || status == TP_ERR_UTF8 || status == TP_ERR_STORE_CORRUPT;
}

/* Puts the group back into the queue, and makes the next group smaller. @return whether the group was a single record,
 * which is dropped. */
static bool split_group_locked(tp__pg_records *r) {
  TP__LOCKED(&r->lock);
  if (r->group && !r->group->next) {
    r->bytes -= r->group->bytes;
    r->written += r->group->count;
    free_group(r);
    return true;
  }
  waiting **last = &r->group;
  size_t count = 0;
  for (; *last; last = &(*last)->next) count++;
  *last = r->first;
  if (!r->first) r->last = last;
  r->first = r->group;
  r->group = NULL;
  r->rows_max = count / 2 ? count / 2 : 1;
  return false;
}

static void note_success_locked(tp__pg_records *r) {
  TP__LOCKED(&r->lock);
  r->bytes -= group_bytes(r);
  for (const waiting *one = r->group; one; one = one->next) r->written += one->count;
  if (r->is_sync) r->synced = r->written;
  r->is_failing = false;
  r->rows_max = GROUP_ROWS_MAX;
  r->status = TP_OK;
}

/* Logs the first of several failures, the end of the failures, and a dropped record. */
static void log_change(const tp__pg_records *r, bool was_failing, bool is_failing, bool drops, const tp_fault *fault) {
  char message[TP_FAULT_MESSAGE_SIZE + 64];
  if (drops) {
    snprintf(message, sizeof message, "a record is dropped: %s", fault->message);
    log_records(r, TP_LOG_ERROR, fault->code, message);
  } else if (is_failing && !was_failing) {
    log_records(r, TP_LOG_ERROR, fault->code, fault->message);
  } else if (was_failing && !is_failing) {
    snprintf(message, sizeof message, "%s: records are written again", r->store->postgres->target.name);
    log_records(r, TP_LOG_INFO, TP_OK, message);
  }
}

static void group_ended(tp__pg_work *work) {
  tp__pg_records *r = (tp__pg_records *)(void *)((char *)work - offsetof(tp__pg_records, work));
  tp_status status = work->status;
  tp_fault fault = work->fault;
  bool drops = false;
  tp__lock_acquire(&r->lock);
  bool was_failing = r->is_failing, is_failing = status != TP_OK && !is_refused(status);
  if (status == TP_OK) note_success_locked(r);
  else if (is_refused(status)) drops = split_group_locked(r);
  if (is_failing) {
    r->failed = r->begun;
    r->status = status;
    r->fault = fault;
  }
  r->is_failing = is_failing;
  tp__lock_release(&r->lock);
  if (status == TP_OK) free_group(r);
  log_change(r, was_failing, is_failing, drops, &fault);
  tp__lock_acquire(&r->lock); /* once it is released, a thread may free r, unless submit_locked() has begun a work */
  r->is_under_way = false;
  bool wants = r->first || r->group || r->wanted > r->synced;
  if (wants && !(r->ending && is_failing)) submit_locked(r, is_failing ? RETRY_MS : 0);
  tp__lock_condition_broadcast(&r->changed);
  tp__lock_release(&r->lock);
}

/* ---- waiting ---- */

static bool is_own_thread(const tp__pg_records *r) { return tp__pg_is_own_thread(r->store->postgres->pool); }

/* Waits until a count has reached a number, or until a work that began after the call has failed. */
static tp_status wait_for_locked(tp__pg_records *r, const uint64_t *count, uint64_t target, tp_fault *fault) {
  TP__LOCKED(&r->lock);
  uint64_t begun = r->begun;
  int64_t deadline_ns = tp__monotonic_ns() + r->store->postgres->timeout_ms * TP__NS_IN_MS;
  bool in_time = true;
  while (*count < target && r->failed <= begun && in_time)
    in_time = tp__lock_condition_wait_until(&r->changed, &r->lock, deadline_ns);
  if (*count >= target) return TP_OK;
  if (r->status != TP_OK && fault) *fault = r->fault;
  if (r->status != TP_OK) return r->status;
  return tp__refuse(fault, TP_ERR_STORE, r->store->postgres->target.name,
                    "%s: cannot write records: the database did not answer in time", r->store->postgres->target.name);
}

tp_status tp__pg_records_commit(void *ctx, tp_fault *fault) {
  tp__pg_records *r = records_of(ctx);
  const char *name = r->store->postgres->target.name;
  if (is_own_thread(r))
    return tp__refuse(fault, TP_ERR_USAGE, name, "%s: cannot commit records on the database's own thread", name);
  tp__lock_acquire(&r->lock);
  uint64_t target = r->queued;
  if (target > r->wanted) r->wanted = target;
  if (target > r->synced && !r->is_under_way) submit_locked(r, 0);
  tp_status status = target > r->synced ? wait_for_locked(r, &r->synced, target, fault) : TP_OK;
  tp__lock_release(&r->lock);
  return status;
}

void tp__pg_records_drain(tp__pg_store *store) {
  tp__pg_records *r = store->records;
  if (is_own_thread(r)) return;
  tp__lock_acquire(&r->lock);
  if (r->written < r->queued && !r->is_failing) (void)!wait_for_locked(r, &r->written, r->queued, NULL);
  tp__lock_release(&r->lock);
}

size_t tp__pg_records_most(const tp__pg_store *store, tp__pg_most table) {
  static const record_kind kinds[] = {KIND_ENTRY, KIND_TURN, KIND_AUDIT};
  return store->records->most[kinds[table]];
}

/* ---- on the pool's thread: the statements of a group ---- */

/* Moves waiting records into the group, unless the last group is tried again. */
static void take_group(tp__pg_records *r) {
  size_t rows = 0, bytes = 0;
  if (r->group) return;
  tp__lock_acquire(&r->lock);
  waiting **last = &r->group;
  while (r->first && (rows == 0 || (rows < r->rows_max && bytes < GROUP_BYTES_MAX))) {
    waiting *one = r->first;
    r->first = one->next;
    one->next = NULL;
    *last = one;
    last = &one->next;
    rows += one->count;
    bytes += one->bytes;
  }
  if (!r->first) r->last = &r->first;
  tp__lock_release(&r->lock);
  r->group_count = rows;
}

static void hash_content(tp__pg_records *r, waiting *one) {
  unsigned char hash[TP__PG_HASH_BYTES];
  if (one->is_hashed) return;
  tp__pg_store_hash(r->store, one->row.value, hash);
  one->content.hash = (tp_text){(const char *)hash, sizeof hash};
  tp__bytes_clear(&r->scratch);
  tp__pg_value_put(&r->scratch, &tp__content_columns, &one->content);
  tp_text value = tp__bytes_text(&r->scratch);
  char *at = (char *)(one + 1);
  size_t space = one->bytes - sizeof *one;
  assert(r->scratch.failed || value.size <= space);
  one->content.hash = (tp_text){"", 0};
  one->row.value = r->scratch.failed || value.size > space ? (tp_text){"", 0} : put_copied_text(&at, value);
  one->is_hashed = true;
}

/** Called for each row of a kind. */
typedef void (*row_fn)(void *ctx, const cells *row, const waiting *of);

static cells row_of_entry(const tp_entry_record *e) {
  cells row = {
      .ints = {(int64_t)e->process_run_id, (int64_t)e->entry_id, e->started_unix_ms, e->ended_ns, e->phase, e->status}};
  for (size_t i = 0; i < e->id_count && i < TP_ID_COUNT; i++) row.ids[i] = e->ids[i];
  return row;
}

static void each_row(tp__pg_records *r, record_kind kind, row_fn each, void *ctx) {
  for (waiting *one = r->group; one; one = one->next) {
    if (one->kind == KIND_BATCH && kind == KIND_ENTRY) {
      tp_entry_record entry = {.struct_size = sizeof entry};
      size_t offset = 0;
      while (one->batch.entry(&one->batch, &offset, &entry)) {
        cells row = row_of_entry(&entry);
        tp__bytes_clear(&r->scratch);
        bool is_whole = tp__pg_value_put_entry(&r->scratch, &entry);
        assert(is_whole);
        row.value = is_whole && !r->scratch.failed ? tp__bytes_text(&r->scratch) : (tp_text){"", 0};
        each(ctx, &row, one);
        entry = (tp_entry_record){.struct_size = sizeof entry};
      }
    }
    if (one->kind != kind) continue;
    if (kind == KIND_CONTENT) hash_content(r, one);
    each(ctx, &one->row, one);
  }
}

static size_t count_rows(tp__pg_records *r, record_kind kind) {
  size_t count = 0;
  for (const waiting *one = r->group; one; one = one->next) {
    if (one->kind == kind) count++;
    tp_entry_record entry = {.struct_size = sizeof entry};
    size_t offset = 0;
    if (one->kind == KIND_BATCH && kind == KIND_ENTRY)
      while (one->batch.entry(&one->batch, &offset, &entry)) count++;
  }
  return count;
}

/** The arrays of a statement that is being made. */
typedef struct arrays {
  const struct table *table;
  int64_t k;
  tp__bytes *numbers, *ints[INTS_MAX], *ids[TP_ID_COUNT], *value;
} arrays;

static void put_row(void *ctx, const cells *row, const waiting *of) {
  arrays *a = ctx;
  (void)of;
  tp__pg_put_int(a->numbers, a->k++);
  for (int i = 0; i < a->table->ints; i++) tp__pg_put_int(a->ints[i], row->ints[i]);
  for (int i = 0; i < a->table->id_count; i++) tp__pg_put_bytes(a->ids[i], row->ids[a->table->ids[i]]);
  if (a->table->has_value) tp__pg_put_bytes(a->value, row->value);
}

static bool send(tp__pg_records *r, tp__pg_flight *f, const char *sql, int *ret_index) {
  char *expanded = tp__pg_expand(sql, r->store->postgres->quoted);
  bool sent = expanded && tp__pg_flight_send(f, expanded, ret_index);
  tp__heap_string_free(expanded);
  return sent;
}

static bool send_rows(tp__pg_records *r, tp__pg_flight *f, record_kind kind, size_t count) {
  arrays a = {.table = &tables[kind]};
  if (count == 0) return true;
  a.numbers = tp__pg_parameter_array(f->parameters, TP__PG_INT8, count);
  for (int i = 0; i < a.table->ints; i++) a.ints[i] = tp__pg_parameter_array(f->parameters, TP__PG_INT8, count);
  for (int i = 0; i < a.table->id_count; i++) a.ids[i] = tp__pg_parameter_array(f->parameters, TP__PG_BYTEA, count);
  if (a.table->has_value) a.value = tp__pg_parameter_array(f->parameters, TP__PG_BYTEA, count);
  each_row(r, kind, put_row, &a);
  assert((size_t)a.k == count);
  return send(r, f, a.table->insert, NULL);
}

/** The numbers of turns that have ended, or whose row is written again. */
typedef struct names {
  tp__bytes *processes, *numbers;
} names;

static void put_name(void *ctx, const cells *row, const waiting *of) {
  names *n = ctx;
  tp__pg_put_int(n->processes, row->ints[0]);
  tp__pg_put_int(n->numbers, of->kind == KIND_TURN ? of->running_number : row->ints[1]);
}

static bool send_names(tp__pg_records *r, tp__pg_flight *f, record_kind kind, size_t count) {
  if (count == 0) return true;
  names n;
  n.processes = tp__pg_parameter_array(f->parameters, TP__PG_INT8, count);
  n.numbers = tp__pg_parameter_array(f->parameters, TP__PG_INT8, count);
  each_row(r, kind, put_name, &n);
  return send(r, f, delete_running, NULL);
}

/** The turns whose results of calls can be cleared. */
typedef struct turns {
  tp__bytes *hashes, *texts[3];
} turns;

static void put_turn(void *ctx, const cells *row, const waiting *of) {
  turns *t = ctx;
  const tp_text texts[] = {row->ids[TP_ID_TENANT], row->ids[TP_ID_SESSION], row->ids[TP_ID_TURN]};
  (void)of;
  tp__pg_put_int(t->hashes, tp__pg_short_hash(texts, 3));
  for (int i = 0; i < 3; i++) tp__pg_put_bytes(t->texts[i], texts[i]);
}

static bool send_turns(tp__pg_records *r, tp__pg_flight *f, size_t count) {
  turns t;
  if (count == 0) return true;
  t.hashes = tp__pg_parameter_array(f->parameters, TP__PG_INT8, count);
  for (int i = 0; i < 3; i++) t.texts[i] = tp__pg_parameter_array(f->parameters, TP__PG_BYTEA, count);
  each_row(r, KIND_TURN, put_turn, &t);
  return send(r, f, clear_results, NULL);
}

/* Whether old rows must be deleted: after a sixteenth of the kept number was written. */
static bool is_trim_due(const tp__pg_records *r) {
  size_t least = SIZE_MAX;
  for (int kind = 0; kind < KINDS; kind++)
    if (r->most[kind] && r->most[kind] < least) least = r->most[kind];
  return r->since_trim > least / 16;
}

static bool send_trims(tp__pg_records *r, tp__pg_flight *f) {
  for (int kind = 0; kind < KINDS; kind++) {
    r->trims[kind] = -1;
    if (!trims[kind] || !is_trim_due(r)) continue;
    bool is_of_entry = kind == KIND_ATTEMPT || kind == KIND_CONTENT;
    tp__pg_parameter_int(f->parameters, (int64_t)r->most[kind] - 1);
    tp__pg_parameter_int(f->parameters, is_of_entry ? 0 : (int64_t)r->store->options.age_max_s * 1000);
    tp__pg_parameter_int(f->parameters, TRIMMED_MAX);
    if (!send(r, f, trims[kind], &r->trims[kind])) return false;
  }
  return true;
}

static bool send_flush(tp__pg_records *r, tp__pg_flight *f) {
  tp__pg_parameter_int(f->parameters, r->store->postgres->batch_base);
  if (!send(r, f, insert_flush, NULL)) return false;
  tp__pg_parameter_int(f->parameters, r->store->postgres->batch_base);
  return send(r, f, delete_flush, NULL);
}

static bool send_group(tp__pg_records *r, tp__pg_flight *f) {
  take_group(r);
  if (!r->group) return r->is_sync ? send_flush(r, f) : true;
  size_t counts[KINDS];
  for (int kind = 0; kind < KINDS; kind++) counts[kind] = count_rows(r, (record_kind)kind);
  if (!send_names(r, f, KIND_RUNNING, counts[KIND_RUNNING])) return false;
  for (int kind = 0; kind < KINDS; kind++)
    if (!send_rows(r, f, (record_kind)kind, counts[kind])) return false;
  return send_names(r, f, KIND_TURN, counts[KIND_TURN]) && send_turns(r, f, counts[KIND_TURN]) && send_trims(r, f);
}

static tp__pg_records *records_at(const tp__pg_flight *f, size_t index) {
  tp__pg_work *work = f->works[index];
  if (work->class != &tp__pg_records_class) return NULL;
  return (tp__pg_records *)(void *)((char *)work - offsetof(tp__pg_records, work));
}

static bool build_records(void *ctx, tp__pg_lane lane, tp__pg_flight *f) {
  (void)ctx, (void)lane;
  for (size_t i = 0; i < f->count; i++) {
    tp__pg_records *r = records_at(f, i);
    if (r && !send_group(r, f)) return false;
  }
  return true;
}

static void settle(void *ctx, tp__pg_lane lane, tp__pg_flight *f) {
  (void)ctx, (void)lane;
  for (size_t i = 0; i < f->count; i++) {
    tp__pg_records *r = records_at(f, i);
    if (!r) continue;
    bool was_due = is_trim_due(r), has_more = false;
    for (int kind = 0; kind < KINDS; kind++) {
      const PGresult *rows = r->trims[kind] >= 0 ? f->answers[r->trims[kind]] : NULL;
      if (rows && PQntuples(rows) == 1 && tp__pg_int(rows, 0, 0) >= TRIMMED_MAX) has_more = true;
      r->trims[kind] = -1;
    }
    if (was_due && !has_more) r->since_trim = 0;
    r->since_trim += r->group_count;
  }
}

const tp__pg_class tp__pg_records_class = {.build = build_records, .settle = settle};

/* ---- tp_store: what is recorded ---- */

tp_status tp__pg_record(void *ctx, const tp_entry_record *theirs) {
  tp_entry_record entry;
  tp__bytes value = {0};
  tp_status status = tp__struct_read(&entry, sizeof entry, theirs, "tp_entry_record", NULL);
  if (status != TP_OK) return status;
  bool is_whole = tp__pg_value_put_entry(&value, &entry);
  if (!is_whole) status = TP_ERR_MALFORMED;
  else if (value.failed) status = TP_ERR_NO_MEMORY;
  waiting *new = status == TP_OK ? record_new(KIND_ENTRY, entry.ids, entry.id_count, tp__bytes_text(&value)) : NULL;
  tp__bytes_fini(&value);
  if (status != TP_OK) return status;
  if (new) memcpy(new->row.ints, row_of_entry(&entry).ints, sizeof new->row.ints);
  return add_record(records_of(ctx), new);
}

/* Copies a batch in its packed form; the pool's thread reads it. */
tp_status tp__pg_record_batch(void *ctx, const tp_entry_batch *theirs) {
  tp_entry_batch batch;
  tp_status status = tp__struct_read(&batch, sizeof batch, theirs, "tp_entry_batch", NULL);
  if (status != TP_OK) return status;
  if (!batch.entry || batch.entry_count == 0) return TP_ERR_MALFORMED;
  waiting *new = record_new(KIND_BATCH, batch.ids, batch.id_count, (tp_text){batch.packed, batch.packed_bytes});
  if (!new) return TP_ERR_NO_MEMORY;
  new->count = batch.entry_count;
  new->batch = batch;
  new->batch.ids = new->row.ids;
  new->batch.id_count = TP_ID_COUNT;
  new->batch.packed = new->row.value.data;
  return add_record(records_of(ctx), new);
}

tp_status tp__pg_record_late(void *ctx, const tp_late_record *theirs) {
  tp_late_record late;
  tp_status status = tp__struct_read(&late, sizeof late, theirs, "tp_late_record", NULL);
  if (status != TP_OK) return status;
  waiting *new = record_new(KIND_LATE, NULL, 0, (tp_text){"", 0});
  const int64_t ints[INTS_MAX] = {(int64_t)late.process_run_id, (int64_t)late.entry_id, late.run_index, late.late_ns};
  if (new) memcpy(new->row.ints, ints, sizeof ints);
  return add_record(records_of(ctx), new);
}

static tp_status add_turn(void *ctx, record_kind kind, const tp_turn_record *theirs) {
  tp_turn_record turn;
  tp__bytes value = {0};
  tp_status status = tp__struct_read(&turn, sizeof turn, theirs, "tp_turn_record", NULL);
  if (status != TP_OK) return status;
  bool is_whole = tp__pg_value_put_turn(&value, &turn);
  if (!is_whole) status = TP_ERR_MALFORMED;
  else if (value.failed) status = TP_ERR_NO_MEMORY;
  waiting *new = status == TP_OK ? record_new(kind, turn.ids, turn.id_count, tp__bytes_text(&value)) : NULL;
  tp__bytes_fini(&value);
  if (status != TP_OK) return status;
  const int64_t ints[INTS_MAX] = {(int64_t)turn.process_run_id, (int64_t)turn.number,
                                  kind == KIND_RUNNING ? turn.state : turn.outcome, turn.ended_unix_ms};
  if (new) memcpy(new->row.ints, ints, sizeof ints);
  if (new) new->running_number = (int64_t)turn.running_number;
  return add_record(records_of(ctx), new);
}

tp_status tp__pg_turn_record(void *ctx, const tp_turn_record *record) { return add_turn(ctx, KIND_TURN, record); }

tp_status tp__pg_turn_running(void *ctx, const tp_turn_record *record) { return add_turn(ctx, KIND_RUNNING, record); }

static tp_status add_value(void *ctx, record_kind kind, const tp__columns *columns, const void *of, const tp_text *ids,
                           const int64_t ints[INTS_MAX]) {
  tp__bytes value = {0};
  tp__pg_value_put(&value, columns, of);
  waiting *new = value.failed ? NULL : record_new(kind, ids, ids ? TP_ID_COUNT : 0, tp__bytes_text(&value));
  tp__bytes_fini(&value);
  if (new) memcpy(new->row.ints, ints, sizeof new->row.ints);
  return add_record(records_of(ctx), new);
}

static int64_t next_mark(void *ctx) { return tp__pg_next_batch(((tp__pg_store *)ctx)->postgres); }

tp_status tp__pg_audit(void *ctx, const tp_audit *theirs) {
  tp_audit audit;
  tp_status status = tp__struct_read(&audit, sizeof audit, theirs, "tp_audit", NULL);
  if (status != TP_OK) return status;
  const tp_text ids[TP_ID_COUNT] = {[TP_ID_TENANT] = tp_text_of(audit.tenant),
                                    [TP_ID_SESSION] = tp_text_of(audit.session),
                                    [TP_ID_TURN] = tp_text_of(audit.turn)};
  const int64_t ints[INTS_MAX] = {next_mark(ctx), audit.unix_ms, audit.phase};
  return add_value(ctx, KIND_AUDIT, &tp__audit_columns, &audit, ids, ints);
}

tp_status tp__pg_attempt(void *ctx, const tp_attempt_record *theirs) {
  tp_attempt_record a;
  tp_status status = tp__struct_read(&a, sizeof a, theirs, "tp_attempt_record", NULL);
  if (status != TP_OK) return status;
  const int64_t ints[INTS_MAX] = {next_mark(ctx), (int64_t)a.process_run_id, (int64_t)a.entry_id, a.run_index,
                                  a.attempt};
  return add_value(ctx, KIND_ATTEMPT, &tp__attempt_columns, &a, NULL, ints);
}

/* Copies the content; the pool's thread replaces it by its hash. */
tp_status tp__pg_content(void *ctx, const tp_content_record *theirs) {
  enum { KEPT_BYTES_MAX = 128 };
  static const char space[KEPT_BYTES_MAX];
  tp_content_record content;
  tp_status status = tp__struct_read(&content, sizeof content, theirs, "tp_content_record", NULL);
  if (status != TP_OK) return status;
  bool is_small = content.content.size < KEPT_BYTES_MAX;
  waiting *new = record_new(KIND_CONTENT, NULL, 0, is_small ? (tp_text){space, sizeof space} : content.content);
  if (!new) return TP_ERR_NO_MEMORY;
  if (is_small && content.content.size) memcpy((char *)(new + 1), content.content.data, content.content.size);
  new->row.value = (tp_text){(const char *)(new + 1), content.content.size};
  new->content = content;
  new->content.bytes = content.content.size;
  new->content.content = (tp_text){"", 0};
  new->row.ints[0] = next_mark(ctx);
  new->row.ints[1] = (int64_t)content.process_run_id;
  new->row.ints[2] = (int64_t)content.entry_id;
  return add_record(records_of(ctx), new);
}

/* ---- recovery ---- */

#define DOES_NOT_LIVE(process) process " <> 0 AND NOT " TP__PG_LIVES(process)

void tp__pg_records_add_reap(tp__pg_request *request) {
  static const char note_deaths[] =
      "INSERT INTO @.died (process, turn) SELECT d.id, coalesce((SELECT max(t.place) FROM @.turn t), 0) FROM @.process "
      "d"
      " WHERE d.lease_end <= clock_timestamp() ORDER BY d.id ON CONFLICT (process) DO NOTHING";
  static const char forget_deaths[] =
      "DELETE FROM @.died WHERE place < (SELECT d.place FROM @.died d ORDER BY d.place DESC OFFSET 999 LIMIT 1)";
  static const char interrupt_entries[] =
      "WITH cut AS (UPDATE @.entry e SET status = $1::bigint WHERE e.ended_ns = 0 AND e.status = 0"
      " AND " DOES_NOT_LIVE("e.process") " RETURNING 1) SELECT count(*) FROM cut";
  static const char interrupt_turns[] =
      "WITH cut AS (UPDATE @.running r SET state = $1::bigint WHERE r.state = 2"
      " AND " DOES_NOT_LIVE("r.process") " RETURNING 1) SELECT count(*) FROM cut";
  (void)tp__pg_request_add(request, note_deaths);
  (void)tp__pg_request_add(request, forget_deaths);
  tp__pg_parameter_int(tp__pg_request_add(request, interrupt_entries), TP_ERR_HOOK);
  tp__pg_parameter_int(tp__pg_request_add(request, interrupt_turns), TP_STATE_INTERRUPTED);
}

void tp__pg_records_read_reap(const tp__pg_request *request, int first, tp_store_recovery *recovery) {
  recovery->entries_interrupted += (uint64_t)tp__pg_int(tp__pg_request_rows(request, first + 2), 0, 0);
  recovery->turns_interrupted += (uint64_t)tp__pg_int(tp__pg_request_rows(request, first + 3), 0, 0);
}

/* ---- life ---- */

tp_status tp__pg_records_new(tp__pg_store *s, tp_fault *fault) {
  const tp_postgres_store_options *o = &s->options;
  tp__pg_records *r = tp__heap_alloc(sizeof *r);
  if (!r) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the records of a store");
  r->store = s;
  r->most[KIND_ENTRY] = o->records_max ? o->records_max : RECORDS_MAX;
  r->most[KIND_TURN] = o->turns_max ? o->turns_max : RECORDS_MAX;
  r->most[KIND_AUDIT] = o->audits_max ? o->audits_max : RECORDS_MAX;
  r->most[KIND_ATTEMPT] = r->most[KIND_CONTENT] = OF_ENTRY * r->most[KIND_ENTRY];
  r->bytes_max = o->queue_bytes_max ? o->queue_bytes_max : QUEUE_BYTES_MAX;
  r->rows_max = GROUP_ROWS_MAX;
  r->last = &r->first;
  for (int kind = 0; kind < KINDS; kind++) r->trims[kind] = -1;
  tp__lock_init(&r->lock, TP__LOCK_postgres_records);
  tp__lock_condition_init(&r->changed);
  s->records = r;
  return TP_OK;
}

void tp__pg_records_own(tp__pg_store *s, const tp_store_owner *owner) {
  tp__pg_records *r = s->records;
  tp__lock_acquire(&r->lock);
  r->syncs = owner->durability == TP_DURABILITY_SYNC;
  if (owner->record_queue_bytes) r->bytes_max = owner->record_queue_bytes;
  tp__lock_release(&r->lock);
}

void tp__pg_records_free(tp__pg_store *s) {
  char message[TP_FAULT_MESSAGE_SIZE];
  tp__pg_records *r = s->records;
  if (!r) return;
  tp__lock_acquire(&r->lock);
  r->ending = true;
  while (r->is_under_way) tp__lock_condition_wait(&r->changed, &r->lock);
  uint64_t lost = r->queued - r->written;
  tp_status status = r->status;
  tp__lock_release(&r->lock);
  if (lost) {
    snprintf(message, sizeof message,
             "%s: %llu records were lost: they could not be written before the store was closed",
             s->postgres->target.name, (unsigned long long)lost);
    log_records(r, TP_LOG_ERROR, status, message);
  }
  free_group(r);
  r->group = r->first;
  free_group(r);
  tp__bytes_fini(&r->scratch);
  tp__lock_condition_fini(&r->changed);
  tp__lock_fini(&r->lock);
  tp__heap_free(r, sizeof *r);
  s->records = NULL;
}
