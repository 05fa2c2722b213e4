/* SPDX-License-Identifier: Apache-2.0
 *
 * Breadcrumbs: each process that writes has a file next to the store, mapped into its memory. So when the process dies,
 * the kernel still has the functions that its threads were running. The blocks of the file are allocated when it is
 * made, because a write to a mapped file without blocks would end the host. A recovery writes a record and an audit row
 * for each function that was running, and removes the file. A process that ends normally removes it, too. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stores/sqlite/sqlite.h"

static int name_file(const tp__sqlite_store *s, uint64_t process_run_id, char *ret_name, size_t size) {
  int length = snprintf(ret_name, size, "%s-running-%016llx", s->path, (unsigned long long)process_run_id);
  return (size_t)length < size ? 0 : ENAMETOOLONG;
}

static int make_file(const char *name, size_t size, void **ret_memory) {
  int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  int error = posix_fallocate(fd, 0, (off_t)size);
  void *memory = error ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (!error && memory == MAP_FAILED) error = errno;
  close(fd);
  if (error) (void)!unlink(name);
  else *ret_memory = memory;
  return error;
}

tp_status tp__sqlite_breadcrumbs(void *ctx, size_t count, tp_breadcrumb **ret_breadcrumbs, tp_fault *fault) {
  tp__sqlite_store *s = ctx;
  char name[4160];
  void *memory = NULL;
  size_t size = count * sizeof(tp_breadcrumb);
  int error = name_file(s, s->process_run_id, name, sizeof name);
  if (!error) error = make_file(name, size, &memory);
  if (error)
    return tp__refuse(fault, error == ENOSPC ? TP_ERR_STORE_FULL : TP_ERR_IO, s->path,
                      "%s-running-…, which says what runs when the process dies, cannot be made: %s", s->path,
                      strerror(error));
  s->breadcrumbs = *ret_breadcrumbs = memory;
  s->breadcrumb_count = count;
  return TP_OK;
}

/* A runtime destroys its store when the last abandoned function has returned, so no thread writes any more. */
void tp__sqlite_breadcrumbs_fini(tp__sqlite_store *s) {
  char name[4160];
  if (!s->breadcrumbs) return;
  if (name_file(s, s->process_run_id, name, sizeof name) == 0) (void)!unlink(name);
  munmap(s->breadcrumbs, s->breadcrumb_count * sizeof *s->breadcrumbs);
}

/* ---- breadcrumbs of a process that is gone ---- */

/* Writes a record with this one run for a phase whose own record was not written before the process died. */
static int write_entry_locked(tp__sqlite_store *s, int64_t process, const tp_breadcrumb *b, int64_t unix_ms) {
  TP__LOCKED(&s->mutex);
  tp_run_record run = {.struct_size = sizeof run,
                       .subscription = b->subscription,
                       .handler = b->handler,
                       .owner = "",
                       .queued_ns = b->started_ns,
                       .started_ns = b->started_ns,
                       .attempts = 1,
                       .state = TP_STATE_INTERRUPTED,
                       .reason = TP_REASON_CRASH};
  tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = tp_text_of(b->turn), [TP_ID_SESSION] = tp_text_of(b->session)};
  tp__waiting node = {.kind = TP__WAITS_ENTRY,
                      .runs = &run,
                      .record = {.struct_size = sizeof node.record,
                                 .process_run_id = (uint64_t)process,
                                 .entry_id = b->entry_id,
                                 .started_ns = b->started_ns,
                                 .started_unix_ms = unix_ms,
                                 .phase = b->phase,
                                 .status = TP_ERR_HOOK,
                                 .ids = ids,
                                 .id_count = TP_ID_COUNT,
                                 .run_count = 1,
                                 .run = tp__sqlite_waiting_run,
                                 .source = &node}};
  return tp__sqlite_write_locked(s, &node);
}

int tp__sqlite_write_suspect_locked(tp__sqlite_store *s, const tp__suspect *suspect) {
  TP__LOCKED(&s->mutex);
  assert(suspect->what && suspect->did && suspect->name);
  char detail[TP_ID_BYTES_MAX + 128];
  snprintf(detail, sizeof detail, "%s `%s` %s when its process died", suspect->what, suspect->name, suspect->did);
  tp__waiting node = {.kind = TP__WAITS_AUDIT,
                      .audit = {.struct_size = sizeof node.audit,
                                .unix_ms = tp__wall_ms(),
                                .owner = "",
                                .action = "crash_suspect",
                                .detail = detail,
                                .status = TP_ERR_HOOK,
                                .phase = suspect->phase,
                                .subscription = suspect->name,
                                .turn = suspect->turn,
                                .tenant = suspect->tenant,
                                .session = suspect->session,
                                .state = TP_STATE_INTERRUPTED,
                                .reason = TP_REASON_CRASH,
                                .visibility = TP_VISIBILITY_USER_VISIBLE}};
  return tp__sqlite_write_locked(s, &node);
}

static void end_texts(tp_breadcrumb *b) {
  b->subscription[TP_ID_BYTES_MAX - 1] = b->handler[TP_ID_BYTES_MAX - 1] = '\0';
  b->turn[TP_ID_BYTES_MAX - 1] = b->session[TP_ID_BYTES_MAX - 1] = '\0';
}

static int recover_one_locked(tp__sqlite_store *s, int64_t process, const tp_breadcrumb *b) {
  TP__LOCKED(&s->mutex);
  int64_t unix_ms = tp__wall_ms() - (tp__monotonic_ms() - b->started_ns / 1000000);
  int64_t is_known = b->phase == 0;
  int rc = SQLITE_OK;
  if (!is_known)
    rc = tp__sqlite_once(s->db, "SELECT 1 FROM entry WHERE process = ?1 AND id = ?2",
                         (const int64_t[]){process, (int64_t)b->entry_id}, 2, &is_known);
  if (rc == SQLITE_OK && !is_known) rc = write_entry_locked(s, process, b, unix_ms);
  const tp__suspect suspect = {.what = b->phase ? "the function of" : "the tool",
                               .did = "was called",
                               .name = b->subscription,
                               .turn = b->turn,
                               .session = b->session,
                               .phase = b->phase};
  return rc == SQLITE_OK ? tp__sqlite_write_suspect_locked(s, &suspect) : rc;
}

int tp__sqlite_breadcrumbs_recover_locked(tp__sqlite_store *s, int64_t process, uint64_t *ret_count) {
  TP__LOCKED(&s->mutex);
  char name[4160];
  tp_breadcrumb b;
  int rc = SQLITE_OK;
  if (name_file(s, (uint64_t)process, name, sizeof name) != 0) return SQLITE_OK;
  int fd = tp__file_open(AT_FDCWD, name, NULL);
  while (fd >= 0 && rc == SQLITE_OK && read(fd, &b, sizeof b) == (ssize_t)sizeof b) {
    if (b.is_running != 1) continue;
    end_texts(&b);
    ++*ret_count;
    rc = recover_one_locked(s, process, &b);
  }
  if (fd >= 0) close(fd);
  return rc;
}

/* ---- what processes do now ---- */

/* Shows each function that a process is running, from its file. @return false when the receiver wants no more. */
static bool show_called(const tp__sqlite_store *s, tp_sqlite_called *called, tp_sqlite_called_fn each, void *ctx) {
  char name[4160];
  tp_breadcrumb b;
  bool goes_on = true;
  if (name_file(s, called->process_run_id, name, sizeof name) != 0) return true;
  int fd = tp__file_open(AT_FDCWD, name, NULL);
  while (fd >= 0 && goes_on && read(fd, &b, sizeof b) == (ssize_t)sizeof b) {
    if (b.is_running != 1) continue;
    end_texts(&b);
    called->started_unix_ms = tp__wall_ms() - (tp__monotonic_ms() - b.started_ns / 1000000);
    called->breadcrumb = &b;
    goes_on = each(ctx, called);
  }
  if (fd >= 0) close(fd);
  return goes_on;
}

tp_status tp_sqlite_store_called(const tp_store *store, tp_sqlite_called_fn each, void *ctx, tp_fault *fault) {
  tp__sqlite_store *s = tp__sqlite_store_of(store);
  sqlite3 *db = NULL;
  sqlite3_stmt *rows = NULL;
  bool goes_on = true;
  if (!s || !each)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_store_called needs a store of this library and a callback");
  tp_status status = tp__store_take_reader(s, &db, fault);
  if (status != TP_OK) return status;
  int rc = sqlite3_prepare_v2(db, "SELECT id, process_id FROM process ORDER BY id", -1, &rows, NULL);
  while (rc == SQLITE_OK && goes_on && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
    tp_sqlite_called called = {.struct_size = sizeof called,
                               .process_run_id = (uint64_t)sqlite3_column_int64(rows, 0),
                               .process_id = sqlite3_column_int64(rows, 1)};
    int64_t alive = 0;
    rc = tp__sqlite_live_process(s, db, (int64_t)called.process_run_id, &alive);
    called.is_alive = alive != 0;
    if (rc == SQLITE_OK) goes_on = show_called(s, &called, each, ctx);
  }
  sqlite3_finalize(rows);
  if (rc != SQLITE_OK && rc != SQLITE_DONE) status = tp__store_fail(s, db, "look what processes do", rc, fault);
  tp__store_return_reader(s, db);
  return status;
}

/* ---- files of processes that died ---- */

static bool has_process_locked(tp__sqlite_store *s, int64_t process) {
  TP__LOCKED(&s->mutex);
  int64_t has = 0;
  int rc = tp__sqlite_once(s->db, "SELECT 1 FROM process WHERE id = ?1", &process, 1, &has);
  return has || rc != SQLITE_OK; /* also when the file cannot be read */
}

void tp__sqlite_breadcrumbs_sweep_locked(tp__sqlite_store *s) {
  TP__LOCKED(&s->mutex);
  const char *slash = strrchr(s->path, '/');
  char prefix[4160], folder[4160];
  snprintf(prefix, sizeof prefix, "%s-running-", slash ? slash + 1 : s->path);
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - s->path + 1) : 2, slash ? s->path : "./");
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    size_t size = strlen(prefix);
    char *end = NULL;
    if (strncmp(entry->d_name, prefix, size) != 0) continue;
    int64_t process = (int64_t)strtoull(entry->d_name + size, &end, 16);
    if (*end == '\0' && !has_process_locked(s, process)) (void)!unlinkat(dirfd(dir), entry->d_name, 0);
  }
  if (dir) closedir(dir);
}
