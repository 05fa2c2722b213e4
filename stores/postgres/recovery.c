/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles what a process leaves that has ended, or was stopped until its lease ended: its running jobs are queued
 * again, or become dead letters after their last attempt. Every process looks for such jobs at its start, and
 * repeatedly after that; when there are none, nothing is written. A stopped process that goes on finds its claims
 * stale, and gets a new lease. */
#include <stdio.h>
#include <string.h>

#include "stores/postgres/job_rows.h"
#include "stores/postgres/records.h"
#include "support/fault.h"

#define LEFT "state = 2 AND process <> 0 AND NOT " TP__PG_LIVES("j.process")
#define WHY "convert_to('its process ended while it ran', 'UTF8')"
/* TP_REASON_CRASH is 3. */
static const char bury_left[] =
    "WITH gone AS (DELETE FROM @.job WHERE id IN (SELECT j.id FROM @.job j WHERE " LEFT
    " AND j.attempt >= j.attempts_max ORDER BY j.id FOR UPDATE SKIP LOCKED) RETURNING *),"
    " ended AS (INSERT INTO @.job_ended (id, " TP__PG_JOB_COLUMNS
    ") SELECT id, 4, claim, attempt, attempts_max, backoff, backoff_ms, limit_ms, phase, contract_version, 3, 0,"
    " inserted_ms, 0, 0, " TP__PG_NOW(
        "-1") ", postponed_ms, handler, subscription, idempotency_key, order_key, " WHY
              ", payload, key_hash, order_hash, 0, 0, mark, tenant, session FROM gone RETURNING 1)"
              " SELECT count(*) FROM ended";
static const char requeue_left[] =
    "WITH back AS (UPDATE @.job SET state = 1, reason = 3, code = 0, claimable_ms = 0, lease_end_ms = 0, process = 0,"
    " message = " WHY " WHERE id IN (SELECT j.id FROM @.job j WHERE " LEFT
    " AND j.attempt < j.attempts_max ORDER BY j.id FOR UPDATE SKIP LOCKED) RETURNING 1) SELECT count(*) FROM back";
static const char delete_left[] =
    "WITH gone AS (DELETE FROM @.process WHERE id IN (SELECT id FROM @.process WHERE lease_end < clock_timestamp()"
    " ORDER BY id FOR UPDATE SKIP LOCKED) RETURNING 1) SELECT count(*) FROM gone";

/* Whether a dead process may have left something. Usually its row exists, or one of its jobs runs. A process that ended
 * its own lease may leave records without either; every 16th look finds these. */
static bool may_have_left(tp__pg_store *s) {
  enum { EVERY = 16 };
  static const char look[] =
      "SELECT EXISTS (SELECT 1 FROM @.process WHERE lease_end < clock_timestamp()) OR EXISTS (SELECT 1 FROM @.job j"
      " WHERE " LEFT ")";
  tp__pg_request r;
  tp__lock_acquire(&s->lock);
  bool looks = s->recoveries++ % EVERY != 0;
  tp__lock_release(&s->lock);
  if (!looks) return true;
  tp__pg_request_init(&r, s->postgres, TP__PG_READS, "look for what processes left");
  (void)tp__pg_request_add(&r, look);
  bool may = tp__pg_request_run(&r, NULL) != TP_OK || tp__pg_bool(tp__pg_request_rows(&r, 0), 0, 0);
  tp__pg_request_fini(&r);
  return may;
}

static tp_status give_found(const tp_store_recovery *found, tp_store_recovery *ret_recovery) {
  if (!ret_recovery) return TP_OK;
  tp_store_recovery given = *found;
  if (ret_recovery->struct_size < given.struct_size) given.struct_size = ret_recovery->struct_size;
  memcpy(ret_recovery, &given, given.struct_size);
  return TP_OK;
}

tp_status tp__pg_store_recover(void *ctx, tp_store_recovery *ret_recovery, tp_fault *fault) {
  tp__pg_store *s = ctx;
  tp_store_recovery found = {.struct_size = sizeof found};
  tp__pg_request r;
  if (ret_recovery && (ret_recovery->struct_size < sizeof(size_t) || ret_recovery->struct_size > 4096))
    return tp__refuse(fault, TP_ERR_VERSION, NULL, "tp_store_recovery has a wrong struct_size");
  if (!may_have_left(s)) return give_found(&found, ret_recovery);
  tp__pg_request_init(&r, s->postgres, TP__PG_WRITES, "recover what processes left that are gone");
  r.work.process = s->process;
  (void)tp__pg_request_add(&r, bury_left);
  (void)tp__pg_request_add(&r, requeue_left);
  tp__pg_records_add_reap(&r);
  (void)tp__pg_request_add(&r, delete_left);
  tp_status status = tp__pg_request_run(&r, fault);
  if (status == TP_OK) {
    found.jobs_dead = (uint64_t)tp__pg_int(tp__pg_request_rows(&r, 0), 0, 0);
    found.jobs_requeued = (uint64_t)tp__pg_int(tp__pg_request_rows(&r, 1), 0, 0);
    found.owners = (uint64_t)tp__pg_int(tp__pg_request_rows(&r, 6), 0, 0);
    tp__pg_records_read_reap(&r, 2, &found);
  }
  tp__pg_request_fini(&r);
  return status == TP_OK ? give_found(&found, ret_recovery) : status;
}
