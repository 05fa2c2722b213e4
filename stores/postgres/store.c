/* SPDX-License-Identifier: Apache-2.0
 *
 * The store of a database: its life, its lease, and what it hashes. */
#include "stores/postgres/store.h"

#include <assert.h>
#include <string.h>
#include <sys/random.h>

#include "stores/postgres/records.h"
#include "support/fault.h"
#include "support/sha256.h"

enum { JOBS_MAX = 65536, JOBS_ENDED_MAX = 10000, COUNT_MAX = INT32_MAX, BLOCK_BYTES = 64 };

/* ---- hashes ---- */

static void finish_hash(tp__sha256 *hash, unsigned char ret_hash[TP__PG_HASH_BYTES]) {
  char text[65];
  tp__sha256_finish(hash, text);
  for (int i = 0; i < TP__PG_HASH_BYTES; i++) {
    int high = text[2 * i], low = text[2 * i + 1];
    high = high <= '9' ? high - '0' : high - 'a' + 10;
    low = low <= '9' ? low - '0' : low - 'a' + 10;
    ret_hash[i] = (unsigned char)(high << 4 | low);
  }
}

void tp__pg_store_hash(const tp__pg_store *s, tp_text content, unsigned char ret_hash[TP__PG_HASH_BYTES]) {
  unsigned char inner[BLOCK_BYTES], outer[BLOCK_BYTES];
  tp__sha256 hash;
  for (int i = 0; i < BLOCK_BYTES; i++) {
    unsigned char key = i < TP__PG_HASH_BYTES ? s->key[i] : 0;
    inner[i] = key ^ 0x36;
    outer[i] = key ^ 0x5c;
  }
  tp__sha256_init(&hash);
  tp__sha256_add(&hash, inner, sizeof inner);
  if (content.size) tp__sha256_add(&hash, content.data, content.size);
  finish_hash(&hash, ret_hash);
  tp__sha256_init(&hash);
  tp__sha256_add(&hash, outer, sizeof outer);
  tp__sha256_add(&hash, ret_hash, TP__PG_HASH_BYTES);
  finish_hash(&hash, ret_hash);
}

void tp__pg_long_hash(tp_text text, unsigned char ret_hash[TP__PG_HASH_BYTES]) {
  tp__sha256 hash;
  tp__sha256_init(&hash);
  if (text.size) tp__sha256_add(&hash, text.data, text.size);
  finish_hash(&hash, ret_hash);
}

void tp__pg_texts_hash(const tp_text *texts, size_t count, unsigned char ret_hash[TP__PG_HASH_BYTES]) {
  tp__sha256 hash;
  tp__sha256_init(&hash);
  for (size_t i = 0; i < count; i++) {
    unsigned char size[8]; /* the same order of bytes on every machine */
    for (int b = 0; b < 8; b++) size[b] = (unsigned char)((uint64_t)texts[i].size >> (8 * b));
    tp__sha256_add(&hash, size, sizeof size);
    if (texts[i].size) tp__sha256_add(&hash, texts[i].data, texts[i].size);
  }
  finish_hash(&hash, ret_hash);
}

int64_t tp__pg_short_hash(const tp_text *texts, size_t count) {
  unsigned char bytes[TP__PG_HASH_BYTES];
  uint64_t number = 0;
  tp__pg_texts_hash(texts, count, bytes);
  for (int i = 0; i < 8; i++) number = number << 8 | bytes[i];
  return (int64_t)number;
}

int64_t tp__pg_store_now(const tp__pg_store *s, int64_t now_ms) {
  return s->options.callers_clock ? now_ms > 0 ? now_ms : 0 : -1;
}

/* ---- the lease ---- */

static tp_status change_hold(tp__pg_store *s, tp__pg_kind kind, const char *doing, tp_fault *fault) {
  tp__pg_operation o = {.work = {.class = &tp__pg_history_class, .lane = TP__PG_WRITES, .doing = doing},
                        .postgres = s->postgres,
                        .kind = kind,
                        .process = s->process};
  if (kind == TP__PG_OF_HOLD) o.work.process = s->process;
  return tp__pg_run(s->postgres->pool, &o.work, fault);
}

static tp_status store_open(void *ctx, const tp_store_owner *theirs, tp_fault *fault) {
  tp__pg_store *s = ctx;
  tp_store_owner owner;
  tp_status status = tp__struct_read(&owner, sizeof owner, theirs, "tp_store_owner", fault);
  if (status != TP_OK) return status;
  if (!owner.process_run_id)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_store_owner.process_run_id is 0: it must be random");
  s->process = (int64_t)owner.process_run_id;
  tp__pg_records_own(s, &owner);
  tp__pg_watch(s->postgres, &s->watcher);
  return change_hold(s, TP__PG_OF_HOLD, "begin the lease of this process", fault);
}

static tp_status store_breadcrumbs(void *ctx, size_t count, tp_breadcrumb **ret_breadcrumbs, tp_fault *fault) {
  tp__pg_store *s = ctx;
  assert(!s->breadcrumbs && count > 0);
  s->breadcrumbs = count < SIZE_MAX / sizeof *s->breadcrumbs ? tp__heap_alloc(count * sizeof *s->breadcrumbs) : NULL;
  if (!s->breadcrumbs) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for %zu breadcrumbs", count);
  s->breadcrumb_count = count;
  *ret_breadcrumbs = s->breadcrumbs;
  return TP_OK;
}

static void store_job_watch(void *ctx, void (*news)(void *), void *news_ctx) {
  tp__pg_store *s = ctx;
  tp__pg_watch_call(s->postgres, &s->watcher, news, news_ctx);
}

/* Other processes can claim its running jobs at once. */
static void store_destroy(void *ctx) {
  tp__pg_store *s = ctx;
  tp_postgres *pg = s->postgres;
  tp__pg_unwatch(pg, &s->watcher);
  tp__pg_records_free(s);
  if (s->process) (void)!change_hold(s, TP__PG_OF_UNHOLD, "end the lease of this process", NULL);
  tp__heap_free(s->breadcrumbs, s->breadcrumb_count * sizeof *s->breadcrumbs);
  tp__pg_job_classes_fini(s);
  tp__lock_fini(&s->lock);
  tp__heap_free(s, sizeof *s);
  tp__pg_unref(pg);
}

/* ---- making ---- */

/* Reads the key. The first process that needs it makes it. With the key a reader can test which content has a hash. */
static tp_status read_key(tp__pg_store *s, tp_fault *fault) {
  static const char insert[] = "INSERT INTO @.secret (id, key) VALUES (1, $1::bytea) ON CONFLICT (id) DO NOTHING";
  static const char select[] = "SELECT key FROM @.secret WHERE id = 1";
  tp__pg_request r;
  char made[TP__PG_HASH_BYTES];
  if (getrandom(made, sizeof made, 0) != (ssize_t)sizeof made)
    return tp__refuse(fault, TP_ERR_SYSTEM, NULL, "the system has no random numbers");
  tp__pg_request_init(&r, s->postgres, TP__PG_WRITES, "read the key of hashes");
  tp__pg_parameter_text(tp__pg_request_add(&r, insert), (tp_text){made, sizeof made});
  (void)tp__pg_request_add(&r, select);
  tp_status status = tp__pg_request_run(&r, fault);
  const PGresult *rows = status == TP_OK ? tp__pg_request_rows(&r, 1) : NULL;
  tp_text key = PQntuples(rows) == 1 ? tp__pg_text(rows, 0, 0) : (tp_text){NULL, 0};
  if (status == TP_OK && key.size != sizeof s->key)
    status =
        tp__refuse(fault, TP_ERR_STORE_CORRUPT, s->postgres->target.name,
                   "%s: the key of hashes (table secret) is not of %zu bytes", s->postgres->target.name, sizeof s->key);
  if (status == TP_OK) memcpy(s->key, key.data, sizeof s->key);
  tp__pg_request_fini(&r);
  return status;
}

const tp_store tp__pg_store_face = {.struct_size = sizeof(tp_store),
                                    .name = "postgres",
                                    .durable = 1,
                                    .open = store_open,
                                    .recover = tp__pg_store_recover,
                                    .commit = tp__pg_records_commit,
                                    .breadcrumbs = store_breadcrumbs,
                                    .destroy = store_destroy,
                                    .record = tp__pg_record,
                                    .record_batch = tp__pg_record_batch,
                                    .record_late = tp__pg_record_late,
                                    .records = tp__pg_record_list,
                                    .attempt = tp__pg_attempt,
                                    .attempts = tp__pg_attempt_list,
                                    .turn_record = tp__pg_turn_record,
                                    .turns = tp__pg_turn_list,
                                    .turn_running = tp__pg_turn_running,
                                    .turns_running = tp__pg_turn_running_list,
                                    .turn_is_cut = tp__pg_turn_is_cut,
                                    .audit = tp__pg_audit,
                                    .audits = tp__pg_audit_list,
                                    .content = tp__pg_content,
                                    .contents = tp__pg_content_list,
                                    .job_insert = tp__pg_job_insert,
                                    .job_claim = tp__pg_job_claim,
                                    .job_renew = tp__pg_job_renew,
                                    .job_finish = tp__pg_job_finish,
                                    .job_open = tp__pg_job_open,
                                    .jobs = tp__pg_jobs,
                                    .job_redrive = tp__pg_job_redrive,
                                    .job_discard = tp__pg_job_discard,
                                    .tool_start = tp__pg_tool_start,
                                    .tool_end = tp__pg_tool_end,
                                    .task_put = tp__pg_task_put,
                                    .task_take = tp__pg_task_take,
                                    .task_settle = tp__pg_task_settle,
                                    .job_finish_all = tp__pg_job_finish_all,
                                    .job_insert_all = tp__pg_job_insert_all,
                                    .job_watch = store_job_watch};

static tp_status read_options(const tp_postgres_store_options *theirs, tp_postgres_store_options *options,
                              tp_fault *fault) {
  static const tp_postgres_store_options defaults = {.struct_size = sizeof defaults};
  tp_status status =
      tp__struct_read(options, sizeof *options, theirs ? theirs : &defaults, "tp_postgres_store_options", fault);
  if (status != TP_OK) return status;
  if (options->reserved_)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_postgres_store_options.reserved_ must be zero");
  if (!options->jobs_max) options->jobs_max = JOBS_MAX;
  if (!options->jobs_ended_max) options->jobs_ended_max = JOBS_ENDED_MAX;
  if (options->jobs_max > COUNT_MAX) options->jobs_max = COUNT_MAX;
  if (options->jobs_ended_max > COUNT_MAX) options->jobs_ended_max = COUNT_MAX;
  return TP_OK;
}

tp_status tp_postgres_store(tp_postgres *postgres, const tp_postgres_store_options *theirs, tp_store **ret_store,
                            tp_fault *fault) {
  tp_postgres_store_options options;
  if (!postgres || !ret_store)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_postgres_store: postgres and ret_store are needed");
  tp_status status = read_options(theirs, &options, fault);
  if (status != TP_OK) return status;
  tp__pg_store *s = tp__heap_alloc(sizeof *s);
  if (!s) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a store");
  s->face = tp__pg_store_face;
  s->face.ctx = s;
  s->postgres = postgres;
  s->options = options;
  if (!options.content_hashes) s->face.content = NULL;
  s->counted = UINT64_MAX; /* not counted yet */
  tp__lock_init(&s->lock, TP__LOCK_postgres_store);
  tp__references_ref(&postgres->references);
  status = tp__pg_records_new(s, fault);
  if (status == TP_OK) status = read_key(s, fault);
  if (status == TP_OK) *ret_store = &s->face;
  else store_destroy(s);
  return status;
}
