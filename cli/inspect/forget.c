/* SPDX-License-Identifier: Apache-2.0
 *
 * The command forget. First it counts everything. Then it writes a file in the directory with the request. Then it
 * deletes the store's rows, then the memories, and then the file. If it is interrupted, the next start finishes the
 * request in the file. A database has no such file: what was erased stays erased, and the command is called again. */
#include "cli/inspect/forget.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/data.h"
#include "cli/common/database.h"
#include "cli/common/erasure.h"
#include "cli/common/exit_status.h"
#include "cli/common/kept_sessions.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/inspect/chosen.h"
#include "cli/inspect/progress.h"
#include "cli/run/event.h"
#include "support/file.h"
#include "turnphase/memory.h"
#include "turnphase/sqlite.h"

/** What is worked on, and what was found. */
typedef struct forgetting {
  const char *directory;
  cli_erasure request;
  cli_data data;     /* of a database, which has no memories; else empty */
  tp_store *store;   /* NULL: the directory has none */
  tp_memory *memory; /* the same */
  char *store_path, *memory_path;
  tp_kept_erased erased;
  uint64_t memories;
  bool is_begun;        /* rows may be gone */
  uint64_t places_left; /* places in the files that still contain the text that was to be erased */
} forgetting;

/* ---- the files ---- */

static int open_files(forgetting *f) {
  tp_fault fault = {0};
  if (cli_database_is(f->directory)) return cli_data_open(f->directory, &f->data);
  f->store_path = cli_data_path(f->directory, "turnphase.db");
  f->memory_path = cli_data_path(f->directory, "memory.db");
  f->erased = (tp_kept_erased){.struct_size = sizeof f->erased, .is_complete = 1};
  const bool has_memory = access(f->memory_path, F_OK) == 0;
  int status = cli_data_check(f->directory);
  if (status != CLI_OK) return status;
  if (!has_memory || access(f->store_path, F_OK) == 0) {
    char *path = NULL;
    status = cli_data_find(f->directory, "turnphase.db", &path);
    free(path);
    if (status != CLI_OK) return status;
    const tp_sqlite_store_options options = {.struct_size = sizeof options, .path = f->store_path, .existing_only = 1};
    tp_status opened = tp_sqlite_store_open(&options, &f->store, &fault);
    if (opened != TP_OK) return cli_fault(f->store_path, opened, &fault);
  }
  tp_status opened = has_memory ? tp_memory_open(f->memory_path, &f->memory, &fault) : TP_OK;
  return opened == TP_OK ? CLI_OK : cli_fault(f->memory_path, opened, &fault);
}

static void close_files(forgetting *f) {
  cli_data_close(&f->data);
  tp_memory_close(f->memory);
  tp_store_free(f->store);
  free(f->memory_path);
  free(f->store_path);
  f->memory = NULL;
  f->store = NULL;
  f->memory_path = f->store_path = NULL;
}

/* ---- the store ---- */

static int erase_rows(forgetting *f, bool only_counts) {
  tp_fault fault = {0};
  cli_progress progress;
  tp_kept_choice request = cli_chosen_rows(&f->request);
  request.only_counts = only_counts;
  if (!f->store && !f->data.is_database) return CLI_OK;
  f->erased = (tp_kept_erased){.struct_size = sizeof f->erased};
  cli_progress_start(&progress, only_counts ? "counting" : "erasing");
  tp_status status = f->data.is_database ? cli_sessions_erase(&f->data, &request, &f->erased, &fault)
                                         : tp_sqlite_sessions_erase(f->store, &request, &f->erased, &fault);
  cli_progress_stop(&progress);
  if (status == TP_OK) return CLI_OK;
  int exit_status = cli_fault(f->data.is_database ? f->data.path : f->store_path, status, &fault);
  return status == TP_ERR_BUSY ? CLI_RETRY : exit_status;
}

/* ---- the memories ---- */

static int erase_memories(forgetting *f, bool only_counts) {
  tp_fault fault = {0};
  int64_t *ids;
  size_t count;
  if (!f->memory) return CLI_OK;
  tp_status status = cli_chosen_memories(f->memory, &f->request, &ids, &count, &fault);
  f->memories = count;
  if (status == TP_OK && !only_counts) status = tp_memory_forget_all(f->memory, ids, count, NULL, &fault);
  free(ids);
  return status == TP_OK ? CLI_OK : cli_fault(f->memory_path, status, &fault);
}

/* ---- what is left ---- */

static uint64_t count_in(int directory, const char *name, const char *text) {
  struct stat found;
  uint64_t count = 0;
  int fd = tp__file_open(directory, name, &found);
  if (fd < 0) return 0;
  size_t size = (size_t)found.st_size, step = strlen(text);
  char *bytes = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  if (bytes != MAP_FAILED) {
    for (char *at = bytes; (at = memmem(at, size - (size_t)(at - bytes), text, step)); at += step) count++;
    munmap(bytes, size);
  }
  close(fd);
  return count;
}

/* Searches every file of the directory, byte by byte, except the file with the request. */
static void search_bytes(forgetting *f, const char *text) {
  DIR *files = opendir(f->directory);
  for (struct dirent *file; files && (file = readdir(files));) {
    uint64_t count = strcmp(file->d_name, "forget.pending") == 0 ? 0 : count_in(dirfd(files), file->d_name, text);
    f->places_left += count;
    if (count)
      cli_error(
          "%s/%s still has the text in %llu places: of other tenants, in names of handlers or columns, or in "
          "what --user, --before and --session leave",
          f->directory, file->d_name, (unsigned long long)count);
  }
  if (files) closedir(files);
}

/* ---- the whole of it ---- */

/* The store comes first, because it refuses when a process works on the directory. */
static int carry_out(forgetting *f) {
  int status = erase_rows(f, false);
  f->is_begun = status == CLI_OK || f->erased.rows > 0;
  if (status == CLI_OK) status = erase_memories(f, false);
  if (status == CLI_OK && f->request.matching && !f->data.is_database) search_bytes(f, f->request.matching);
  return status;
}

static int finish(const char *directory, cli_erasure_file *file) {
  forgetting f = {.directory = directory, .request = file->left};
  if (!file->left.tenant && !file->left.every_tenant) return cli_erasure_end(file);
  if (file->left.every_tenant)
    cli_error("an erasure of all tenants in %s was interrupted, and is finished now", directory);
  else
    cli_error("an erasure of the tenant '%s' in %s was interrupted, and is finished now", file->left.tenant, directory);
  int status = open_files(&f);
  if (status == CLI_OK) status = carry_out(&f);
  close_files(&f);
  if (status == CLI_OK) status = cli_erasure_end(file);
  if (status != CLI_OK)
    cli_error("the erasure is not over: `turnphase forget %s` goes on with it when nothing else uses it", directory);
  return status;
}

int cli_forget_finish(const char *directory) {
  cli_erasure_file file;
  int status = cli_erasure_open(directory, false, &file);
  if (status != CLI_OK || !file.fd) {
    cli_erasure_close(&file);
    return status;
  }
  status = finish(directory, &file);
  cli_erasure_close(&file);
  return status;
}

int cli_forget_confirm(const cli_arguments *arguments) {
  char line[16];
  if (arguments->yes) return CLI_OK;
  if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
    cli_error("nothing is erased without --yes");
    return CLI_USAGE;
  }
  fprintf(stderr, "erase them? [y/N] ");
  if (fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y')) return CLI_OK;
  cli_error("nothing was erased");
  return CLI_NEGATIVE;
}

static bool is_by_turn(const cli_erasure *r) { return r->person || r->matching || r->turns_before_ms; }

static void say_forgotten(const forgetting *f, const char *what) {
  const tp_kept_erased *e = &f->erased;
  if (is_by_turn(&f->request))
    cli_error("%llu turns of %llu sessions (%llu rows) and %llu memories %s", (unsigned long long)e->turns,
              (unsigned long long)e->sessions, (unsigned long long)e->rows, (unsigned long long)f->memories, what);
  else
    cli_error("%llu sessions (%llu rows) and %llu memories %s", (unsigned long long)e->sessions,
              (unsigned long long)e->rows, (unsigned long long)f->memories, what);
  if (e->turns_unknown)
    cli_error(
        "%llu turns and tasks of sessions that others share stay: no record says whose they are; --matching or "
        "--session reaches them",
        (unsigned long long)e->turns_unknown);
}

static int print_erased(const forgetting *f, const cli_arguments *arguments, cli_output *output) {
  cli_map p = {0};
  if (!arguments->json) {
    say_forgotten(f, "were erased");
    if (f->data.is_database) cli_error("the server has copies until it vacuums, and in its log and backups");
    return CLI_OK;
  }
  cli_map_add_int(&p, "sessions", (int64_t)f->erased.sessions);
  if (is_by_turn(&f->request)) cli_map_add_int(&p, "turns", (int64_t)f->erased.turns);
  cli_map_add_int(&p, "rows", (int64_t)f->erased.rows);
  cli_map_add_int(&p, "memories", (int64_t)f->memories);
  if (f->request.person) cli_map_add_int(&p, "unknown", (int64_t)f->erased.turns_unknown);
  if (f->request.matching && !f->data.is_database) cli_map_add_int(&p, "places_left", (int64_t)f->places_left);
  cli_map_add_bool(&p, "complete", f->erased.is_complete);
  return cli_map_print(&p, output);
}

static int erase(forgetting *f, const cli_arguments *arguments) {
  cli_erasure_file file;
  int status = erase_rows(f, true);
  if (status == CLI_OK) status = erase_memories(f, true);
  if (status != CLI_OK) return status;
  say_forgotten(f, "are erased for good");
  status = cli_forget_confirm(arguments);
  if (status == CLI_OK && f->data.is_database) return carry_out(f); /* the server has no file for a request */
  if (status == CLI_OK) status = cli_erasure_open(f->directory, true, &file);
  if (status != CLI_OK) return status;
  status = cli_erasure_begin(&file, &f->request);
  if (status == CLI_OK) status = carry_out(f);
  if (status == CLI_OK || !f->is_begun) {
    int end = cli_erasure_end(&file);
    if (status == CLI_OK) status = end;
  }
  cli_erasure_close(&file);
  return status;
}

int cli_forget(const cli_arguments *arguments, cli_output *output) {
  forgetting f = {.directory = arguments->operand};
  int status = cli_chosen_read(arguments, &f.request);
  if (status != CLI_OK) return status;
  const bool is_database = cli_database_is(f.directory);
  const bool is_left =
      f.directory && !is_database && cli_data_check(f.directory) == CLI_OK && cli_erasure_is_left(f.directory);
  if (is_left) status = cli_forget_finish(f.directory);
  const bool is_asked = f.request.tenant || f.request.every_tenant;
  if (status != CLI_OK || (is_left && !is_asked)) return status;
  if (!f.directory || !is_asked) {
    cli_error(
        "forget takes a data directory or a database and --tenant ID, or --before or --age for every tenant: whom?");
    return CLI_USAGE;
  }
  status = open_files(&f);
  if (status == CLI_OK) status = erase(&f, arguments);
  if (status == CLI_OK) status = print_erased(&f, arguments, output);
  close_files(&f);
  return status;
}
