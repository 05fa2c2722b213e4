/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect/follow.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "runtime/base/check.h"

/** A copy of an entry that was read; copies are shown in the order in which they were written. */
typedef struct entry_copy {
  tp_entry_record record;
  tp_text ids[TP_ID_COUNT];
  tp_run_record *runs;
} entry_copy;

/** Which entry. */
typedef struct name {
  uint64_t process, id;
  int64_t started_unix_ms;
} name;

typedef struct follower {
  const cli_data *data;
  tp_record_query query;
  size_t most; /* so many are taken in this round */
  name last;   /* the newest that was shown; id 0: none was */
  name *open;  /* shown, and had not ended */
  size_t open_count, open_capacity;
  cli_pool pool;
  entry_copy *items; /* of this round, newest first */
  size_t count, capacity;
} follower;

static bool is_named(const tp_entry_record *entry, const name *n) {
  return entry->process_run_id == n->process && entry->entry_id == n->id;
}

static bool get_copied_run(const void *source, size_t index, tp_run_record *record) {
  const entry_copy *copy = source;
  size_t size = record->struct_size;
  if (index >= copy->record.run_count || size < sizeof size) return false;
  memset(record, 0, size);
  memcpy(record, &copy->runs[index], size < sizeof copy->runs[0] ? size : sizeof copy->runs[0]);
  record->struct_size = size;
  return true;
}

static void copy_entry(follower *f, const tp_entry_record *entry) {
  f->items = cli_reserve(f->items, f->count, &f->capacity, sizeof *f->items);
  entry_copy *copy = &f->items[f->count++];
  *copy = (entry_copy){.record = *entry, .runs = cli_alloc((entry->run_count + 1) * sizeof *copy->runs)};
  for (size_t i = 0; i < TP_ID_COUNT && i < entry->id_count; i++)
    copy->ids[i] = (tp_text){cli_pool_copy(&f->pool, entry->ids[i]), entry->ids[i].size};
  for (size_t i = 0; i < entry->run_count; i++) {
    tp_run_record *run = &copy->runs[i];
    *run = (tp_run_record){.struct_size = sizeof *run};
    if (!entry->run(entry->source, i, run)) continue;
    run->subscription = cli_pool_copy(&f->pool, tp_text_of(run->subscription));
    run->handler = cli_pool_copy(&f->pool, tp_text_of(run->handler));
    run->owner = cli_pool_copy(&f->pool, tp_text_of(run->owner));
  }
}

static bool take_new(void *ctx, const tp_entry_record *entry) {
  follower *f = ctx;
  if (f->last.id && is_named(entry, &f->last)) return false;
  if (f->count == f->most) return false;
  copy_entry(f, entry);
  return true;
}

/* An entry that was shown while it ran, and has ended since. */
static bool take_ended(void *ctx, const tp_entry_record *entry) {
  follower *f = ctx;
  for (size_t i = 0; i < f->open_count && entry->ended_ns; i++) {
    if (!is_named(entry, &f->open[i])) continue;
    copy_entry(f, entry);
    f->open[i] = f->open[--f->open_count];
    break;
  }
  return f->open_count > 0;
}

static void note_followed(follower *f, const tp_entry_record *entry, bool is_new) {
  name n = {entry->process_run_id, entry->entry_id, entry->started_unix_ms};
  if (is_new) f->last = n;
  if (!is_new || entry->ended_ns || entry->status) return;
  f->open = cli_reserve(f->open, f->open_count, &f->open_capacity, sizeof *f->open);
  f->open[f->open_count++] = n;
}

/* Oldest first. */
static bool show_all(follower *f, bool is_new, cli_follow_fn each, void *ctx) {
  bool goes_on = true;
  for (size_t i = f->count; i-- > 0;) {
    entry_copy *copy = &f->items[i];
    copy->record.ids = copy->ids;
    copy->record.id_count = TP_ID_COUNT;
    copy->record.run = get_copied_run;
    copy->record.source = copy;
    note_followed(f, &copy->record, is_new);
    goes_on = goes_on && each(ctx, &copy->record);
  }
  for (size_t i = 0; i < f->count; i++) free(f->items[i].runs);
  cli_pool_free(&f->pool);
  f->pool = (cli_pool){0};
  f->count = 0;
  return goes_on;
}

static int64_t oldest_open_ms(const follower *f) {
  int64_t oldest = f->open[0].started_unix_ms;
  for (size_t i = 1; i < f->open_count; i++)
    if (f->open[i].started_unix_ms < oldest) oldest = f->open[i].started_unix_ms;
  return oldest;
}

static tp_status read_round(follower *f, size_t most, cli_follow_fn each, void *ctx, bool *ret_goes_on,
                            tp_fault *fault) {
  const tp_store *store = f->data->store;
  tp_status status = TP_OK;
  *ret_goes_on = true;
  if (f->open_count > 0) {
    tp_record_query query = f->query;
    query.from_unix_ms = oldest_open_ms(f);
    status = store->records(store->ctx, &query, take_ended, f, fault);
    if (status == TP_OK) *ret_goes_on = show_all(f, false, each, ctx);
  }
  f->most = most;
  if (status == TP_OK && *ret_goes_on) status = store->records(store->ctx, &f->query, take_new, f, fault);
  if (status == TP_OK && *ret_goes_on) *ret_goes_on = show_all(f, true, each, ctx);
  return status;
}

/* ---- waiting ---- */

static bool concerns_store(const struct inotify_event *event) {
  return event->len > 0 && (strcmp(event->name, "turnphase.db") == 0 || strcmp(event->name, "turnphase.db-wal") == 0);
}

/* Takes every event that is there. */
static bool read_events(int watch) {
  char buffer[16 * (sizeof(struct inotify_event) + NAME_MAX + 1)] __attribute__((aligned(8)));
  bool is_changed = false;
  for (ssize_t got; (got = read(watch, buffer, sizeof buffer)) > 0;)
    for (ssize_t at = 0; at < got;) {
      const struct inotify_event *event = (const void *)(buffer + at);
      is_changed = is_changed || concerns_store(event) || (event->mask & IN_Q_OVERFLOW);
      at += (ssize_t)(sizeof *event + event->len);
    }
  return is_changed;
}

/* Waits until the file has changed, or until it is time to look again. The watch notices that bytes were written, but a
 * commit can be read only a moment later, after they were synced. The pauses grow while nothing changes.
 * @return false when the reader of the output went away. */
static bool wait_for_change(int watch, int *pause_ms) {
  enum { FIRST_MS = 10, MOST_MS = 5000 };
  struct pollfd polls[2] = {{.fd = watch, .events = POLLIN}, {.fd = STDOUT_FILENO, .events = 0}};
  for (;;) {
    int ready = poll(polls, 2, *pause_ms);
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0 && polls[1].revents & (POLLERR | POLLHUP)) return false;
    bool is_changed = ready > 0 && read_events(watch);
    if (!is_changed && ready != 0) continue;
    *pause_ms = is_changed ? FIRST_MS : *pause_ms < MOST_MS / 2 ? 2 * *pause_ms : MOST_MS;
    return true;
  }
}

int cli_follow(const cli_data *data, const char *directory, const tp_record_query *query, size_t first,
               cli_follow_fn each, void *ctx) {
  assert(query && each);
  tp_fault fault = {0};
  bool goes_on = true;
  int pause_ms = 10;
  follower f = {.data = data, .query = *query};
  int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (watch < 0 || inotify_add_watch(watch, directory, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0) {
    cli_error_at(directory, 0, 0, "changes of it cannot be waited for: %s", strerror(errno));
    if (watch >= 0) close(watch);
    return CLI_UNAVAILABLE;
  }
  tp_status status = read_round(&f, first, each, ctx, &goes_on, &fault);
  while (status == TP_OK && goes_on && wait_for_change(watch, &pause_ms))
    status = read_round(&f, SIZE_MAX, each, ctx, &goes_on, &fault);
  close(watch);
  free(f.items);
  free(f.open);
  return status == TP_OK ? CLI_OK : cli_fault(data->path, status, &fault);
}
