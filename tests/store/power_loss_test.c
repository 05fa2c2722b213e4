/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine goes down. A VFS below SQLite records every write, truncation and sync of the store's files, while a
 * workload inserts, claims and ends jobs, stores records and begins tool calls. The promises are recorded, too. Then
 * possible states of a disk are built: synced data is there; of each write since the sync there is nothing, everything,
 * or some of its sectors, in any order of the writes. Each state is opened: it is intact, and has everything that was
 * promised before that moment.
 *
 * 100 states; with TURNPHASE_ROUNDS 100 for each round. TURNPHASE_SEED replays a run. */
#include <sqlite3.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/host.h"
#include "tests/support/rows.h"
#include "turnphase/sqlite.h"

enum { STATES = 100, SECTOR = 512, EVENTS_MAX = 100000, FILES = 2, JOBS = 300, PAYLOAD = 8000, FILE_BYTES = 16 << 20 };

/* ---- what happened, in order ---- */

typedef enum event_kind { WRITE, TRUNCATE, SYNC, INSERTED, ENDED, RECORDED, BEGUN } event_kind;
typedef struct event {
  event_kind kind;
  int file;   /* of a WRITE, TRUNCATE, SYNC: 0 the database, 1 its log */
  int64_t at; /* offset, or new size; of a promise (INSERTED to BEGUN) the number of what was promised */
  int size;
  char *bytes;
} event;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static event events[EVENTS_MAX];
static int event_count;
static bool notes; /* false: files are only opened */

static void note(event e) {
  pthread_mutex_lock(&mutex);
  if (notes) {
    if (event_count == EVENTS_MAX) abort();
    if (e.kind == WRITE) e.bytes = memcpy(malloc((size_t)e.size), e.bytes, (size_t)e.size);
    events[event_count++] = e;
  }
  pthread_mutex_unlock(&mutex);
}

static void promise(event_kind kind, int64_t number) { note((event){.kind = kind, .at = number}); }

/* ---- the VFS: all of the default one, noted ---- */

typedef struct noted_file {
  sqlite3_file base;
  int file; /* -1: none of ours */
  sqlite3_file *real;
} noted_file;

static sqlite3_vfs *real_vfs;
#define REAL(handle) (((noted_file *)(handle))->real)

static int noted_close(sqlite3_file *f) { return REAL(f)->pMethods->xClose(REAL(f)); }
static int noted_read(sqlite3_file *f, void *to, int size, sqlite3_int64 at) {
  return REAL(f)->pMethods->xRead(REAL(f), to, size, at);
}
static int noted_write(sqlite3_file *f, const void *from, int size, sqlite3_int64 at) {
  int rc = REAL(f)->pMethods->xWrite(REAL(f), from, size, at), file = ((noted_file *)f)->file;
  if (rc == SQLITE_OK && file >= 0)
    note((event){.kind = WRITE, .file = file, .at = at, .size = size, .bytes = (char *)(uintptr_t)from});
  return rc;
}
static int noted_truncate(sqlite3_file *f, sqlite3_int64 size) {
  int rc = REAL(f)->pMethods->xTruncate(REAL(f), size), file = ((noted_file *)f)->file;
  if (rc == SQLITE_OK && file >= 0) note((event){.kind = TRUNCATE, .file = file, .at = size});
  return rc;
}
static int noted_sync(sqlite3_file *f, int flags) {
  int rc = REAL(f)->pMethods->xSync(REAL(f), flags), file = ((noted_file *)f)->file;
  if (rc == SQLITE_OK && file >= 0) note((event){.kind = SYNC, .file = file});
  return rc;
}
static int noted_size(sqlite3_file *f, sqlite3_int64 *size) { return REAL(f)->pMethods->xFileSize(REAL(f), size); }
static int noted_lock(sqlite3_file *f, int lock) { return REAL(f)->pMethods->xLock(REAL(f), lock); }
static int noted_unlock(sqlite3_file *f, int lock) { return REAL(f)->pMethods->xUnlock(REAL(f), lock); }
static int noted_reserved(sqlite3_file *f, int *is) { return REAL(f)->pMethods->xCheckReservedLock(REAL(f), is); }
static int noted_control(sqlite3_file *f, int op, void *arg) {
  return REAL(f)->pMethods->xFileControl(REAL(f), op, arg);
}
static int noted_sector(sqlite3_file *f) {
  (void)f;
  return SECTOR;
}
/* No promise of ours about torn writes. */
static int noted_traits(sqlite3_file *f) {
  (void)f;
  return 0;
}
static int noted_map(sqlite3_file *f, int page, int size, int extend, void volatile **to) {
  return REAL(f)->pMethods->xShmMap(REAL(f), page, size, extend, to);
}
static int noted_shm_lock(sqlite3_file *f, int at, int n, int flags) {
  return REAL(f)->pMethods->xShmLock(REAL(f), at, n, flags);
}
static void noted_barrier(sqlite3_file *f) { REAL(f)->pMethods->xShmBarrier(REAL(f)); }
static int noted_unmap(sqlite3_file *f, int deletes) { return REAL(f)->pMethods->xShmUnmap(REAL(f), deletes); }

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = noted_close,
    .xRead = noted_read,
    .xWrite = noted_write,
    .xTruncate = noted_truncate,
    .xSync = noted_sync,
    .xFileSize = noted_size,
    .xLock = noted_lock,
    .xUnlock = noted_unlock,
    .xCheckReservedLock = noted_reserved,
    .xFileControl = noted_control,
    .xSectorSize = noted_sector,
    .xDeviceCharacteristics = noted_traits,
    .xShmMap = noted_map,
    .xShmLock = noted_shm_lock,
    .xShmBarrier = noted_barrier,
    .xShmUnmap = noted_unmap,
};

static int noted_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags) {
  noted_file *file = (noted_file *)f;
  (void)vfs;
  *file = (noted_file){.file = flags & SQLITE_OPEN_MAIN_DB ? 0
                               : flags & SQLITE_OPEN_WAL   ? 1
                                                           : -1,
                       .real = (sqlite3_file *)(file + 1)};
  int rc = real_vfs->xOpen(real_vfs, name, file->real, flags, ret_flags);
  if (file->real->pMethods) file->base.pMethods = &methods;
  return rc;
}

static bool install_vfs(void) {
  static sqlite3_vfs vfs;
  if (sqlite3_initialize() != SQLITE_OK) return false;
  real_vfs = sqlite3_vfs_find(NULL);
  vfs = *real_vfs;
  vfs.zName = "noted";
  vfs.szOsFile = (int)sizeof(noted_file) + real_vfs->szOsFile;
  vfs.pNext = NULL;
  vfs.xOpen = noted_open;
  return sqlite3_vfs_register(&vfs, 1) == SQLITE_OK;
}

/* ---- the workload ---- */

static tp_store *open_store(void) {
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  tp_store *store = NULL;
  tp_fault fault = {0};
  if (tp_sqlite_store_open(&options, &store, &fault) != TP_OK) fail_msg("%s", fault.message);
  return store;
}

static void insert_job(tp_store *store, int n) {
  static char payload[PAYLOAD];
  char key[16];
  uint64_t id;
  bool existed;
  snprintf(key, sizeof key, "k%d", n);
  memset(payload, 'a' + n % 26, sizeof payload);
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = 3,
                .limit_ms = 1,
                .handler = TEXT("h"),
                .idempotency_key = tp_text_of(key),
                .order_key = tp_text_of(key),
                .payload = {payload, sizeof payload}};
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_OK);
  promise(INSERTED, (int64_t)id);
}

static uint64_t claimed_id, claim_token;
static void take_claim(void *ctx, const tp_job *job) {
  (void)ctx;
  claimed_id = job->id;
  claim_token = job->claim;
}

static void end_job(tp_store *store) {
  int64_t next;
  uint32_t state;
  tp_job_claim claim = {.struct_size = sizeof claim, .now_ms = 1, .lease_ms = 1000000, .take = take_claim};
  assert_int_equal(store->job_claim(store->ctx, &claim, &next, NULL), TP_OK);
  tp_job_finish finish = {
      .struct_size = sizeof finish, .id = claimed_id, .claim = claim_token, .now_ms = 2, .end = TP_JOB_END_SUCCEEDED};
  assert_int_equal(store->job_finish(store->ctx, &finish, &state, NULL), TP_OK);
  promise(ENDED, (int64_t)claimed_id);
}

static bool no_run(const void *source, size_t index, tp_run_record *record) {
  (void)source, (void)index, (void)record;
  return false;
}

static void keep_record(tp_store *store, int n) {
  const tp_text ids[TP_ID_COUNT] = {{NULL, 0}};
  tp_entry_record record = {.struct_size = sizeof record,
                            .process_run_id = 1,
                            .entry_id = (uint64_t)n + 1,
                            .phase = 21,
                            .started_ns = 1,
                            .ended_ns = 2,
                            .ids = ids,
                            .id_count = TP_ID_COUNT,
                            .run = no_run};
  assert_int_equal(store->record(store->ctx, &record), TP_OK);
  if (n % 4 != 3) return;
  assert_int_equal(store->commit(store->ctx, NULL), TP_OK);
  promise(RECORDED, n + 1);
}

static void no_earlier(void *ctx, const tp_tool_end_record *earlier) { (void)ctx, (void)earlier; }

static void begin_tool(tp_store *store, int n) {
  const tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = TEXT("t")};
  uint64_t id = 0;
  char arguments[16];
  snprintf(arguments, sizeof arguments, "%d", n);
  tp_tool_start_record start = {.struct_size = sizeof start,
                                .process_run_id = 1,
                                .turn_number = 1,
                                .ids = ids,
                                .id_count = TP_ID_COUNT,
                                .call_id = TEXT("c"),
                                .tool = TEXT("pay"),
                                .arguments = tp_text_of(arguments)};
  assert_int_equal(store->tool_start(store->ctx, &start, &id, no_earlier, NULL, NULL), TP_OK);
  promise(BEGUN, (int64_t)id);
}

static void work(void) {
  tp_store *store = open_store();
  tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 1, .process_id = getpid()};
  assert_int_equal(store->open(store->ctx, &owner, NULL), TP_OK);
  for (int n = 0; n < JOBS; n++) {
    insert_job(store, n);
    keep_record(store, n);
    if (n % 3 == 0) begin_tool(store, n / 3);
    if (n % 2) end_job(store);
  }
  tp_store_free(store);
}

/* ---- a state of the disk ---- */

static uint32_t seed;
static uint32_t dice(uint32_t bound) {
  seed ^= seed << 13;
  seed ^= seed >> 17;
  seed ^= seed << 5;
  return seed % bound;
}

typedef struct disk {
  char *bytes[FILES];
  int64_t sizes[FILES];
} disk;

static void put(disk *d, const event *e, int64_t from, int64_t size) {
  assert_true(e->at + from + size <= FILE_BYTES);
  memcpy(d->bytes[e->file] + e->at + from, e->bytes + from, (size_t)size);
  if (e->at + from + size > d->sizes[e->file]) d->sizes[e->file] = e->at + from + size;
}

static void apply(disk *d, const event *e) {
  if (e->kind == WRITE) put(d, e, 0, e->size);
  if (e->kind != TRUNCATE) return;
  if (e->at < d->sizes[e->file]) memset(d->bytes[e->file] + e->at, 0, (size_t)(d->sizes[e->file] - e->at));
  d->sizes[e->file] = e->at;
}

/* Of a write that was not synced: nothing, all, or some of its sectors. */
static void apply_perhaps(disk *d, const event *e) {
  uint32_t how = dice(4);
  if (how == 0) return;
  if (how < 3 || e->kind == TRUNCATE) {
    apply(d, e);
    return;
  }
  for (int64_t from = 0; from < e->size;) {
    int64_t size = SECTOR - (e->at + from) % SECTOR;
    if (size > e->size - from) size = e->size - from;
    if (dice(2)) put(d, e, from, size);
    from += size;
  }
}

static int last_sync(int file, int moment) {
  int last = 0;
  for (int i = 0; i < moment; i++)
    if (events[i].kind == SYNC && events[i].file == file) last = i;
  return last;
}

/* @param moment  how many events came before the power went. */
static void build(disk *d, int moment) {
  int synced[FILES] = {last_sync(0, moment), last_sync(1, moment)};
  for (int file = 0; file < FILES; file++) {
    memset(d->bytes[file], 0, FILE_BYTES);
    d->sizes[file] = 0;
  }
  for (int i = 0; i < moment; i++) {
    const event *e = &events[i];
    if (e->kind > TRUNCATE) continue;
    if (i < synced[e->file]) apply(d, e);
    else apply_perhaps(d, e);
  }
}

static void write_disk(const disk *d) {
  for (int file = 0; file < FILES; file++) {
    char name[sizeof path + 8];
    snprintf(name, sizeof name, "%s%s", path, file ? "-wal" : "");
    FILE *stream = fopen(name, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(d->bytes[file], 1, (size_t)d->sizes[file], stream), d->sizes[file]);
    fclose(stream);
  }
}

/* ---- what must be there ---- */

typedef struct kept {
  bool inserted[JOBS + 1], ended[JOBS + 1];
} kept;

static bool note_job(void *ctx, const tp_job *job) {
  kept *k = ctx;
  assert_true(job->id <= JOBS);
  k->inserted[job->id] = true;
  k->ended[job->id] = job->state == TP_JOB_SUCCEEDED;
  assert_true(job->state == TP_JOB_SUCCEEDED ? job->payload.size == 0 : job->payload.size == PAYLOAD);
  for (size_t i = 1; i < job->payload.size; i++) assert_int_equal(job->payload.data[i], job->payload.data[0]);
  return true;
}

static void assert_promises_are_kept(int moment) {
  static kept k;
  int64_t records = 0, tools = 0;
  k = (kept){.inserted = {false}};
  tp_store *store = open_store();
  tp_job_query query = {.struct_size = sizeof query, .states = ~0u, .with_payload = 1};
  assert_int_equal(store->jobs(store->ctx, &query, note_job, &k, NULL), TP_OK);
  assert_int_equal(tp_sqlite_store_verify(store, NULL, NULL, NULL), TP_OK);
  tp_store_free(store);
  for (int i = 0; i < moment; i++) {
    const event *e = &events[i];
    if (e->kind == INSERTED && !k.inserted[e->at]) fail_msg("job %d is lost", (int)e->at);
    if (e->kind == ENDED && !k.ended[e->at]) fail_msg("the end of job %d is lost", (int)e->at);
    if (e->kind == RECORDED) records = e->at;
    if (e->kind == BEGUN) tools++;
  }
  assert_true(number_in(path, "SELECT count(*) FROM entry") >= records);
  assert_true(number_in(path, "SELECT count(*) FROM tool_start") >= tools);
}

static int states(void) {
  const char *rounds = getenv("TURNPHASE_ROUNDS");
  int count = rounds ? atoi(rounds) : 0;
  return count > 1 ? STATES * count : STATES;
}

static void clear_events(void) {
  for (int i = 0; i < event_count; i++) free(events[i].bytes);
  event_count = 0;
}

/* Before its schema is there a file belongs to no program. */
static int first_moment(void) {
  int first = 0;
  while (events[first].kind < INSERTED) first++;
  return first;
}

TEST(nothing_that_was_promised_is_lost_with_the_power) {
  const char *given = getenv("TURNPHASE_SEED");
  uint32_t first_seed = given ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)now_ns();
  disk d;
  seed = first_seed ? first_seed : 1;
  assert_int_equal(make_directory_in_memory(state), 0);
  notes = true;
  work();
  notes = false;
  remove_directory(state);
  int first = first_moment(), checkpoints = 0;
  for (int i = 0; i < event_count; i++) checkpoints += events[i].kind == SYNC && events[i].file == 0;
  print_message("# TURNPHASE_SEED=%u: %d events, %d syncs of the database, %d states\n", first_seed, event_count,
                checkpoints, states());
  assert_true(checkpoints > 3);
  for (int file = 0; file < FILES; file++) assert_non_null(d.bytes[file] = malloc(FILE_BYTES));
  for (int i = 0; i < states(); i++) {
    int moment = first + (int)dice((uint32_t)(event_count - first + 1));
    build(&d, moment);
    assert_int_equal(make_directory_in_memory(state), 0);
    write_disk(&d);
    assert_promises_are_kept(moment);
    remove_directory(state);
  }
  for (int file = 0; file < FILES; file++) free(d.bytes[file]);
  clear_events();
}

TEST_MAIN(count, arguments) {
  if (!install_vfs()) return 1;
  return test_main(count, arguments);
}
