/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of tools that are not idempotent. A row is made before the function runs. After that it has the result of the
 * call, until the record of its turn comes. run_process and run_turn name the run of the turn that has taken the row
 * last. A turn that is submitted again takes each row of the earlier run at most once, for a call of the same tool with
 * the same arguments. */
#include "stores/sqlite/claims.h"
#include "stores/sqlite/schema.h"

/* ---- rows ---- */

/** The start of a call. */
typedef struct stored_start {
  size_t struct_size;
  uint64_t run_process, run_turn;
  uint32_t call_index, kind;
  int64_t started_unix_ms;
  tp_text tenant, session, turn, tool, call_id;
  tp_text hash; /* keyed, of the arguments */
} stored_start;

#define START(member, column, type) TP__ITEM_##type(stored_start, member),
static const tp__column start_columns[] = {TP__TOOL_START_LIST(START, START)};
static const tp__columns starts = TP__COLUMNS(stored_start, start_columns);

/* By what a call of an earlier run of the turn is found. */
#define SAME(member) TP__COLUMN(stored_start, member)
static const tp__column same_columns[] = {SAME(run_process),
                                          SAME(run_turn),
                                          SAME(tenant),
                                          SAME(session),
                                          SAME(turn),
                                          SAME(tool),
                                          TP__BLOB_COLUMN(stored_start, hash)};
static const tp__columns same_call = TP__COLUMNS(stored_start, same_columns);

#define END(member, column, type) TP__ITEM_##type(tp_tool_end_record, member),
static const tp__column end_columns[] = {TP__COLUMN(tp_tool_end_record, start_id), TP__COLUMN(tp_tool_end_record, kind),
                                         TP__TOOL_END_LIST(END, END)};
static const tp__columns ends = TP__COLUMNS(tp_tool_end_record, end_columns);

static tp_text start_id_of(const tp_tool_start_record *start, tp_id_kind id) {
  return id < start->id_count ? start->ids[id] : (tp_text){NULL, 0};
}

/* ---- a start ---- */

/* A copy, so that its receiver is called without the lock. @param ret_end  NULL: there is no earlier result. */
static int take_earlier_locked(tp__sqlite_store *s, const stored_start *start, tp_tool_end_record **ret_end) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *take = s->statements[TP__TAKE_TOOL_START];
  int rc = tp__sqlite_bind_struct(take, 1, &same_call, start);
  if (rc == SQLITE_OK) rc = sqlite3_step(take);
  if (rc == SQLITE_ROW) {
    bool is_kept = sqlite3_column_type(take, 2) != SQLITE_NULL;
    *ret_end = tp__sqlite_copy_struct(take, 0, &ends);
    if (*ret_end && !is_kept) (*ret_end)->kind = TP_TOOL_INTERRUPTED;
    rc = *ret_end ? sqlite3_step(take) : SQLITE_NOMEM;
  }
  tp__sqlite_release(take);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int insert_locked(tp__sqlite_store *s, const stored_start *start, int64_t *ret_row) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *insert = s->statements[TP__INSERT_TOOL_START], *trim = s->statements[TP__TRIM_TOOL_STARTS];
  int rc = tp__sqlite_run(insert, tp__sqlite_bind_struct(insert, 1, &starts, start));
  *ret_row = sqlite3_last_insert_rowid(s->db);
  int64_t last = *ret_row - (int64_t)s->options.records_max;
  return rc == SQLITE_OK && last > 0 ? tp__sqlite_run(trim, tp__sqlite_bind_ints(trim, &last, 1)) : rc;
}

typedef struct starting {
  tp__sqlite_store *s;
  tp_tool_start_record start;
  tp_status hashed; /* TP_OK, or why nothing was written: there was no hash, or the turn is fenced */
  tp_fault fault;
  tp_tool_end_record *end; /* of an earlier run; NULL: none */
  int64_t row;
} starting;

int tp__sqlite_look_for_fence_locked(tp__sqlite_store *s, const tp_text session[2], uint64_t fence, uint64_t origin,
                                     bool *ret_is_fenced) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *find = s->statements[TP__FIND_FENCE];
  *ret_is_fenced = false;
  if (!fence) return SQLITE_OK;
  int rc = tp__sqlite_bind_texts(find, 1, session, 2);
  if (rc == SQLITE_OK) rc = sqlite3_step(find);
  if (rc == SQLITE_ROW) {
    int64_t epoch = sqlite3_column_int64(find, 0), id = sqlite3_column_int64(find, 1);
    bool has_looked = (fence & TP__FENCE_OF_LOOK) != 0;
    *ret_is_fenced = has_looked ? !tp__claims_look_holds(fence, id, epoch) : fence != (uint64_t)epoch;
  } else if (rc == SQLITE_DONE) {
    *ret_is_fenced = origin != 0 && origin == s->origin; /* its session was deleted */
  }
  tp__sqlite_release(find);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

tp_status tp__sqlite_refuse_fenced(const tp__sqlite_store *s, tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_FENCED, s->path,
                    "%s: the session was taken over by another process while its turn ran", s->path);
}

static int write_start(void *ctx) {
  starting *w = ctx;
  unsigned char hash[TP__HASH_BYTES];
  bool is_fenced = false;
  sqlite3_free(w->end);
  w->end = NULL;
  const stored_start start = {.run_process = w->start.process_run_id,
                              .run_turn = w->start.turn_number,
                              .call_index = w->start.call_index,
                              .started_unix_ms = w->start.started_unix_ms,
                              .tenant = start_id_of(&w->start, TP_ID_TENANT),
                              .session = start_id_of(&w->start, TP_ID_SESSION),
                              .turn = start_id_of(&w->start, TP_ID_TURN),
                              .tool = w->start.tool,
                              .call_id = w->start.call_id,
                              .hash = {(const char *)hash, sizeof hash}};
  const tp_text session[] = {start.tenant, start.session};
  int looked = tp__sqlite_look_for_fence_locked(w->s, session, w->start.fence, w->start.origin, &is_fenced);
  if (looked != SQLITE_OK) return looked;
  if (is_fenced) {
    w->hashed = tp__sqlite_refuse_fenced(w->s, &w->fault);
    return SQLITE_OK;
  }
  w->hashed = tp__sqlite_hash_locked(w->s, w->start.arguments, hash, &w->fault);
  if (w->hashed != TP_OK) return SQLITE_OK;
  int rc = take_earlier_locked(w->s, &start, &w->end);
  return rc == SQLITE_OK && !w->end ? insert_locked(w->s, &start, &w->row) : rc;
}

tp_status tp__sqlite_tool_start(void *ctx, const tp_tool_start_record *theirs, uint64_t *ret_start_id,
                                tp_tool_end_fn earlier, void *earlier_ctx, tp_fault *fault) {
  starting w = {.s = ctx};
  tp_status status = tp__struct_read(&w.start, sizeof w.start, theirs, "tp_tool_start_record", fault);
  if (status == TP_OK) status = tp__store_write(w.s, write_start, &w, "keep that a tool call begins", fault);
  if (status == TP_OK && w.hashed != TP_OK) {
    status = w.hashed;
    if (fault) *fault = w.fault;
  } else if (status == TP_OK && w.end) {
    earlier(earlier_ctx, w.end);
  } else if (status == TP_OK) {
    *ret_start_id = (uint64_t)w.row;
  }
  sqlite3_free(w.end);
  return status;
}

/* ---- its end ---- */

typedef struct ending {
  tp__sqlite_store *s;
  tp_tool_end_record end;
} ending;

static int write_end(void *ctx) {
  const ending *w = ctx;
  sqlite3_stmt *statement = w->s->statements[TP__END_TOOL_START];
  return tp__sqlite_run(statement, tp__sqlite_bind_struct(statement, 1, &ends, &w->end));
}

tp_status tp__sqlite_tool_end(void *ctx, const tp_tool_end_record *theirs, tp_fault *fault) {
  ending w = {.s = ctx};
  tp_status status = tp__struct_read(&w.end, sizeof w.end, theirs, "tp_tool_end_record", fault);
  return status == TP_OK ? tp__store_write(w.s, write_end, &w, "keep the result of a tool call", fault) : status;
}

int tp__sqlite_clear_results_locked(tp__sqlite_store *s, const tp_text *ids) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *clear = s->statements[TP__CLEAR_TOOL_RESULTS];
  const tp_text texts[] = {ids[TP_ID_TENANT], ids[TP_ID_SESSION], ids[TP_ID_TURN]};
  return tp__sqlite_run(clear, tp__sqlite_bind_texts(clear, 1, texts, 3));
}
