/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of tools that are not idempotent. A row is made before the function runs, and keeps the function's result until
 * the record of its turn comes. run_process and run_turn name the run of the turn that has taken the row last: a turn
 * that is submitted again takes each row of the earlier run at most once, for a call of the same tool with the same
 * arguments.
 *
 * The session is locked while the row is made, so that no other process claims it meanwhile: a turn whose session was
 * taken over begins no call. */
#include <string.h>

#include "stores/postgres/store.h"
#include "support/fault.h"

/* 1 tenant, 2 session. */
static const char lock_session[] = "SELECT epoch FROM @.session WHERE tenant = $1::text AND name = $2::text FOR SHARE";

/* What both statements begin with: 1 turn_hash, 2 tenant, 3 session, 4 turn, 5 tool, 6 hash of the arguments,
 * 7 run_process, 8 run_turn, 9 batch, 10 fence, 11 tenant and 12 session as names of a session, 13 whether its history
 * is in this database. */
#define IS_OURS                                                                                            \
  "($10::bigint = 0 OR coalesce((SELECT s.epoch = $10::bigint FROM @.session s WHERE s.tenant = $11::text" \
  " AND s.name = $12::text), $13::bigint = 0))"
#define OF_TURN "t.turn_hash = $1::bigint AND t.tenant = $2::bytea AND t.session = $3::bytea AND t.turn = $4::bytea"
/* When the request is in doubt, a row that this call made or took before has its number. */
static const char take_earlier[] =
    "UPDATE @.tool_start SET run_process = $7::bigint, run_turn = $8::bigint, taken = $9::bigint"
    " WHERE id = (SELECT t.id FROM @.tool_start t WHERE " OF_TURN
    " AND t.tool = $5::bytea AND t.arguments = $6::bytea AND (t.run_process <> $7::bigint OR t.run_turn <> $8::bigint)"
    " AND NOT EXISTS (SELECT 1 FROM @.tool_start x WHERE x.turn_hash = $1::bigint AND $9::bigint IN (x.batch, x.taken))"
    " AND " IS_OURS " ORDER BY t.id LIMIT 1 FOR UPDATE)";
/* 14 call_id, 15 call_index, 16 started. */
static const char insert_start[] =
    "INSERT INTO @.tool_start (turn_hash, tenant, session, turn, tool, arguments, call_id, call_index, started_unix_ms,"
    " run_process, run_turn, batch, taken, kind) SELECT $1::bigint, $2::bytea, $3::bytea, $4::bytea, $5::bytea,"
    " $6::bytea, $14::bytea, $15::bigint, $16::bigint, $7::bigint, $8::bigint, $9::bigint, 0, 0 WHERE " IS_OURS
    " AND NOT EXISTS (SELECT 1 FROM @.tool_start x WHERE x.turn_hash = $1::bigint AND $9::bigint IN (x.batch,"
    " x.taken))";
/* 1 turn_hash, 2 batch. */
static const char find_start[] =
    "SELECT id, batch = $2::bigint, kind, result IS NOT NULL, result, value, parts FROM @.tool_start"
    " WHERE turn_hash = $1::bigint AND $2::bigint IN (batch, taken)";

const char tp__pg_forget_results_sql[] =
    "UPDATE @.tool_start t SET result = NULL, value = NULL, parts = NULL WHERE " OF_TURN " AND t.result IS NOT NULL";

enum { LOCKED, TAKEN, INSERTED, FOUND };

static void put_call(tp__pg_parameters *p, const tp__pg_store *s, const tp_tool_start_record *start, const tp_text *ids,
                     int64_t turn_hash, const unsigned char *hash, int64_t batch) {
  tp__pg_parameter_int(p, turn_hash);
  for (int i = 0; i < 3; i++) tp__pg_parameter_text(p, ids[i]);
  tp__pg_parameter_text(p, start->tool);
  tp__pg_parameter_text(p, (tp_text){(const char *)hash, TP__PG_HASH_BYTES});
  tp__pg_parameter_int(p, (int64_t)start->process_run_id);
  tp__pg_parameter_int(p, (int64_t)start->turn_number);
  tp__pg_parameter_int(p, batch);
  tp__pg_parameter_int(p, (int64_t)start->fence);
  for (int i = 0; i < 2; i++) tp__pg_parameter_text(p, start->fence ? ids[i] : (tp_text){"", 0});
  tp__pg_parameter_int(p, tp__pg_is_own(s, start->origin));
}

static void make_request(tp__pg_store *s, const tp_tool_start_record *start, int64_t batch, tp__pg_request *r) {
  static const tp_id_kind kinds[] = {TP_ID_TENANT, TP_ID_SESSION, TP_ID_TURN};
  tp_text ids[] = {{"", 0}, {"", 0}, {"", 0}};
  unsigned char hash[TP__PG_HASH_BYTES];
  for (int i = 0; i < 3; i++)
    if (kinds[i] < start->id_count) ids[i] = start->ids[kinds[i]];
  int64_t turn_hash = tp__pg_short_hash(ids, 3);
  tp__pg_store_hash(s, start->arguments, hash);
  tp__pg_request_init(r, s->postgres, TP__PG_WRITES, "keep that a tool call begins");
  tp__pg_parameters *p = tp__pg_request_add(r, lock_session);
  for (int i = 0; i < 2; i++) tp__pg_parameter_text(p, start->fence ? ids[i] : (tp_text){"", 0});
  put_call(tp__pg_request_add(r, take_earlier), s, start, ids, turn_hash, hash, batch);
  p = tp__pg_request_add(r, insert_start);
  put_call(p, s, start, ids, turn_hash, hash, batch);
  tp__pg_parameter_text(p, start->call_id);
  tp__pg_parameter_int(p, start->call_index);
  tp__pg_parameter_int(p, start->started_unix_ms);
  p = tp__pg_request_add(r, find_start);
  tp__pg_parameter_int(p, turn_hash);
  tp__pg_parameter_int(p, batch);
}

static void show_earlier(const PGresult *rows, tp_tool_end_fn earlier, void *ctx) {
  bool is_kept = tp__pg_bool(rows, 0, 3);
  const tp_tool_end_record end = {.struct_size = sizeof end,
                                  .start_id = (uint64_t)tp__pg_int(rows, 0, 0),
                                  .kind = is_kept ? (uint32_t)tp__pg_int(rows, 0, 2) : TP_TOOL_INTERRUPTED,
                                  .text = tp__pg_text(rows, 0, 4),
                                  .value = tp__pg_text(rows, 0, 5),
                                  .parts = tp__pg_text(rows, 0, 6)};
  earlier(ctx, &end);
}

tp_status tp__pg_tool_start(void *ctx, const tp_tool_start_record *theirs, uint64_t *ret_start_id,
                            tp_tool_end_fn earlier, void *earlier_ctx, tp_fault *fault) {
  tp__pg_store *s = ctx;
  tp_tool_start_record start;
  tp__pg_request r;
  tp_status status = tp__struct_read(&start, sizeof start, theirs, "tp_tool_start_record", fault);
  if (status != TP_OK) return status;
  make_request(s, &start, tp__pg_next_batch(s->postgres), &r);
  status = tp__pg_request_run(&r, fault);
  if (status == TP_OK) {
    const PGresult *locked = tp__pg_request_rows(&r, LOCKED), *found = tp__pg_request_rows(&r, FOUND);
    bool is_fenced = start.fence && (PQntuples(locked) > 0 ? (uint64_t)tp__pg_int(locked, 0, 0) != start.fence
                                                           : tp__pg_is_own(s, start.origin));
    if (is_fenced)
      status =
          tp__refuse(fault, TP_ERR_FENCED, s->postgres->target.name,
                     "%s: the session was taken over by another process while its turn ran", s->postgres->target.name);
    else if (PQntuples(found) != 1)
      status = tp__refuse(fault, TP_ERR_STORE, s->postgres->target.name,
                          "%s: the start of a tool call was deleted at once", s->postgres->target.name);
    else if (tp__pg_bool(found, 0, 1)) *ret_start_id = (uint64_t)tp__pg_int(found, 0, 0);
    else show_earlier(found, earlier, earlier_ctx);
  }
  tp__pg_request_fini(&r);
  return status;
}

tp_status tp__pg_tool_end(void *ctx, const tp_tool_end_record *theirs, tp_fault *fault) {
  static const char update[] =
      "UPDATE @.tool_start SET kind = $2::bigint, result = $3::bytea, value = $4::bytea, parts = $5::bytea"
      " WHERE id = $1::bigint";
  tp__pg_store *s = ctx;
  tp_tool_end_record end;
  tp__pg_request r;
  tp_status status = tp__struct_read(&end, sizeof end, theirs, "tp_tool_end_record", fault);
  if (status != TP_OK) return status;
  tp__pg_request_init(&r, s->postgres, TP__PG_WRITES, "keep the result of a tool call");
  tp__pg_parameters *p = tp__pg_request_add(&r, update);
  tp__pg_parameter_int(p, (int64_t)end.start_id);
  tp__pg_parameter_int(p, end.kind);
  tp__pg_parameter_text(p, end.text);
  tp__pg_parameter_text(p, end.value);
  tp__pg_parameter_text(p, end.parts);
  status = tp__pg_request_run(&r, fault);
  tp__pg_request_fini(&r);
  return status;
}
