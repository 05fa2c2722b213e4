/* SPDX-License-Identifier: Apache-2.0
 *
 * The command forget. First everything is counted, then a file of the directory says what is erased, then the store's
 * rows go, then the memories, and then the file: whoever starts next finishes what it still says. */
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
#include "cli/common/date.h"
#include "cli/common/erasure.h"
#include "cli/common/exit_status.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/inspect/progress.h"
#include "cli/run/event.h"
#include "support/file.h"
#include "turnphase/memory.h"
#include "turnphase/sqlite.h"

/** What is worked on, and what was found. */
typedef struct forgetting {
  const char *directory;
  cli_erasure request;
  tp_store *store;   /* NULL: the directory has none */
  tp_memory *memory; /* the same */
  char *store_path, *memory_path;
  tp_sqlite_erased erased;
  uint64_t memories;
  bool is_begun;        /* rows may be gone */
  uint64_t places_left; /* where the files still have the text that was to be erased */
} forgetting;

/* ---- the files ---- */

static int open_files(forgetting *f) {
  tp_fault fault = {0};
  f->store_path = cli_data_path(f->directory, "turnphase.db");
  f->memory_path = cli_data_path(f->directory, "memory.db");
  f->erased = (tp_sqlite_erased){.struct_size = sizeof f->erased, .is_complete = 1};
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
  const tp_sqlite_erase request = {.struct_size = sizeof request,
                                   .tenant = f->request.tenant,
                                   .session = f->request.session,
                                   .before_unix_ms = f->request.sessions_before_ms,
                                   .only_counts = only_counts,
                                   .matching = f->request.matching,
                                   .person = f->request.person,
                                   .turns_before_unix_ms = f->request.turns_before_ms};
  if (!f->store) return CLI_OK;
  f->erased = (tp_sqlite_erased){.struct_size = sizeof f->erased};
  cli_progress_start(&progress, only_counts ? "counting" : "erasing");
  tp_status status = tp_sqlite_sessions_erase(f->store, &request, &f->erased, &fault);
  cli_progress_stop(&progress);
  if (status == TP_OK) return CLI_OK;
  int exit_status = cli_fault(f->store_path, status, &fault);
  return status == TP_ERR_BUSY ? CLI_RETRY : exit_status;
}

/* ---- the memories ---- */

/** A memory of the tenant, and the turn that it is of. */
typedef struct seen {
  int64_t id;
  uint64_t turn; /* a hash of its session and turn; 0: it has none */
  bool is_chosen;
} seen;

typedef struct memories {
  const cli_erasure *request;
  seen *items;
  size_t count, capacity;
} memories;

static uint64_t hash_of(uint64_t hash, tp_text text) {
  for (size_t i = 0; i < text.size; i++) hash = (hash ^ (unsigned char)text.data[i]) * 1099511628211u;
  return (hash ^ 0xff) * 1099511628211u;
}

static bool has(tp_text text, const char *wanted) {
  return memmem(text.data, text.size, wanted, strlen(wanted)) != NULL;
}

static bool begins_with_name(tp_text text, const char *name) {
  size_t size = strlen(name);
  return text.size > size && strncmp(text.data, name, size) == 0 && text.data[size] == ':';
}

/* As in the store: the text, or an id; a person is the one who spoke, or the scope of that id. */
static bool is_meant(const cli_erasure *r, const tp_memory_entry *e) {
  const bool is_persons = !r->person || cli_text_is(e->speaker, r->person) || cli_text_is(e->name, r->person) ||
                          (!e->part.size && begins_with_name(e->text, r->person));
  const bool matches = !r->matching || has(e->text, r->matching) || has(e->subject, r->matching) ||
                       has(e->session, r->matching) || has(e->turn, r->matching) || has(e->name, r->matching);
  return is_persons && matches;
}

static bool is_old_enough(const cli_erasure *r, const tp_memory_entry *e) {
  return (!r->sessions_before_ms || e->said_unix_ms < r->sessions_before_ms) &&
         (!r->turns_before_ms || e->said_unix_ms < r->turns_before_ms);
}

static bool see_memory(void *ctx, const tp_memory_entry *entry) {
  memories *m = ctx;
  if (m->request->session && !cli_text_is(entry->session, m->request->session)) return true;
  if (!is_old_enough(m->request, entry)) return true;
  m->items = cli_reserve(m->items, m->count, &m->capacity, sizeof *m->items);
  m->items[m->count++] =
      (seen){.id = entry->id,
             .turn = entry->turn.size ? hash_of(hash_of(14695981039346656037u, entry->session), entry->turn) : 0,
             .is_chosen = is_meant(m->request, entry)};
  return true;
}

static int by_turn(const void *a, const void *b) {
  const seen *x = a, *y = b;
  if (x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
  return y->is_chosen - x->is_chosen;
}

/* What was said in one turn goes together, and so do facts that a model made of it. */
static size_t choose_turns(memories *m, int64_t *ids) {
  size_t count = 0;
  if (m->count > 0) qsort(m->items, m->count, sizeof *m->items, by_turn);
  for (size_t i = 0; i < m->count; i++) {
    seen *s = &m->items[i];
    if (i > 0 && s->turn && s[-1].turn == s->turn && s[-1].is_chosen) s->is_chosen = true;
    if (s->is_chosen) ids[count++] = s->id;
  }
  return count;
}

static int erase_memories(forgetting *f, bool only_counts) {
  tp_fault fault = {0};
  memories m = {.request = &f->request};
  const tp_memory_query query = {
      .struct_size = sizeof query, .tenant = f->request.tenant, .limit = UINT32_MAX, .oldest_first = true};
  if (!f->memory) return CLI_OK;
  tp_status status = tp_memory_list(f->memory, &query, see_memory, &m, &fault);
  int64_t *ids = cli_alloc((m.count + 1) * sizeof *ids);
  size_t count = status == TP_OK ? choose_turns(&m, ids) : 0;
  f->memories = count;
  if (status == TP_OK && !only_counts) status = tp_memory_forget_all(f->memory, ids, count, NULL, &fault);
  free(ids);
  free(m.items);
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

/* Every file of the directory, byte by byte, but the one that says what is erased. */
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

/* The store first: it refuses where a process works on the directory. */
static int carry_out(forgetting *f) {
  int status = erase_rows(f, false);
  f->is_begun = status == CLI_OK || f->erased.rows > 0;
  if (status == CLI_OK) status = erase_memories(f, false);
  if (status == CLI_OK && f->request.matching) search_bytes(f, f->request.matching);
  return status;
}

static int finish(const char *directory, cli_erasure_file *file) {
  forgetting f = {.directory = directory, .request = file->left};
  if (!file->left.tenant) return cli_erasure_end(file);
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
  const tp_sqlite_erased *e = &f->erased;
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
    return CLI_OK;
  }
  cli_map_add_int(&p, "sessions", (int64_t)f->erased.sessions);
  if (is_by_turn(&f->request)) cli_map_add_int(&p, "turns", (int64_t)f->erased.turns);
  cli_map_add_int(&p, "rows", (int64_t)f->erased.rows);
  cli_map_add_int(&p, "memories", (int64_t)f->memories);
  if (f->request.person) cli_map_add_int(&p, "unknown", (int64_t)f->erased.turns_unknown);
  if (f->request.matching) cli_map_add_int(&p, "places_left", (int64_t)f->places_left);
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

static int read_request(const cli_arguments *a, cli_erasure *request) {
  *request = (cli_erasure){.tenant = a->tenant, .session = a->session, .person = a->user, .matching = a->matching};
  if (a->age && !cli_date_read_since(a->age, &request->sessions_before_ms)) {
    cli_error("--age takes 12h, 30d or 2026-11-22, not '%s'", a->age);
    return CLI_USAGE;
  }
  if (a->before && !cli_date_read_since(a->before, &request->turns_before_ms)) {
    cli_error("--before takes 2026-11-22, 12h or 30d, not '%s'", a->before);
    return CLI_USAGE;
  }
  if (a->matching && strlen(a->matching) < TP_SQLITE_MATCHING_BYTES_MIN) {
    cli_error("--matching takes a text of %d bytes or more", TP_SQLITE_MATCHING_BYTES_MIN);
    return CLI_USAGE;
  }
  return CLI_OK;
}

int cli_forget(const cli_arguments *arguments, cli_output *output) {
  forgetting f = {.directory = arguments->operand};
  int status = read_request(arguments, &f.request);
  if (status != CLI_OK) return status;
  const bool is_left = f.directory && cli_data_check(f.directory) == CLI_OK && cli_erasure_is_left(f.directory);
  if (is_left) status = cli_forget_finish(f.directory);
  if (status != CLI_OK || (is_left && !arguments->tenant)) return status;
  if (!f.directory || !arguments->tenant) {
    cli_error("forget takes a data directory and --tenant ID: whom?");
    return CLI_USAGE;
  }
  status = open_files(&f);
  if (status == CLI_OK) status = erase(&f, arguments);
  if (status == CLI_OK) status = print_erased(&f, arguments, output);
  close_files(&f);
  return status;
}
