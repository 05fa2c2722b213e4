/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "support/clock.h"
#include "support/lock.h"
#include "support/text.h"

enum { NAME_BYTES_MAX = 128 };
#define NS_IN_SECOND 1e9

struct cli_access_log {
  /* never change */
  const char *file; /* the caller's */
  pthread_t thread;
  /* the thread that calls put() */
  tp_writer *writer;
  /* the thread of the log */
  int fd;
  bool has_failed; /* that a write failed was told */
  tp__lock lock;
  tp__lock_condition changed;
  /* under lock */
  tp__bytes lines;          /* that wait */
  uint64_t dropped, untold; /* lines: of all time, and since the last line about it */
  bool reopens, ends;
};

/* ---- a line ---- */

static void format_time(char text[40], int64_t unix_ms) {
  time_t seconds = (time_t)(unix_ms / 1000);
  struct tm utc;
  size_t size = gmtime_r(&seconds, &utc) ? strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &utc) : 0;
  snprintf(text + size, 40 - size, ".%03dZ", (int)(unix_ms % 1000));
}

static void add_name(cli_map *map, const char *key, tp_text name) {
  name.size = (size_t)tp__cut(name, NAME_BYTES_MAX);
  if (name.size > 0) cli_map_add_text(map, key, name);
}

static void fill_line(cli_map *map, const tp_server_request *r) {
  char time[40];
  format_time(time, r->unix_ms);
  cli_map_add_string(map, "time", time);
  if (r->id.size > 0) cli_map_add_text(map, "id", r->id);
  if (r->tenant[0]) cli_map_add_string(map, "tenant", r->tenant);
  if (r->route[0]) cli_map_add_string(map, "route", r->route);
  else cli_map_add_value(map, "route", (tp_text){0});
  cli_map_add_int(map, "status", r->status);
  if (r->left) cli_map_add_bool(map, "left", true);
  cli_map_add_int(map, "bytes_in", (int64_t)r->bytes_in);
  cli_map_add_int(map, "bytes_out", (int64_t)r->bytes_out);
  if (r->answered_ns >= 0) cli_map_add_double(map, "answered_s", (double)r->answered_ns / NS_IN_SECOND);
  cli_map_add_double(map, "duration_s", (double)r->duration_ns / NS_IN_SECOND);
  if (r->turn_id.size == 0) return;
  cli_map_add_bool(map, "stream", r->streams);
  cli_map_add_text(map, "turn", r->turn_id);
  add_name(map, "session", r->session);
  add_name(map, "agent", r->agent);
  add_name(map, "model", r->model);
  cli_map_add_int(map, "input_tokens", r->input_tokens);
  cli_map_add_int(map, "output_tokens", r->output_tokens);
}

/* @return false: it cannot be written as JSON. */
static bool add_json(tp_writer *writer, cli_map *map, tp__bytes *line) {
  tp_text value;
  tp_fault fault;
  tp_writer_reset(writer);
  cli_map_write(map, writer);
  cli_need(tp_writer_finish(writer, &value));
  bool fits = cli_buffer_add_json(line, value, &fault) == TP_OK;
  tp__bytes_put(line, "\n", 1);
  return fits && !line->failed;
}

void cli_access_log_put(void *ctx, const tp_server_request *request) {
  cli_access_log *log = ctx;
  cli_map map = {.count = 0};
  tp__bytes line = {0};
  fill_line(&map, request);
  bool fits = add_json(log->writer, &map, &line);
  tp__lock_acquire(&log->lock);
  bool was_empty = log->lines.size == 0;
  if (fits && log->lines.size + line.size <= ACCESS_LOG_BYTES_MAX && tp__bytes_reserve(&log->lines, line.size)) {
    tp__bytes_put_text(&log->lines, tp__bytes_text(&line));
  } else {
    log->lines.failed = false;
    log->dropped++;
    log->untold++;
  }
  if (was_empty) tp__lock_condition_signal(&log->changed);
  tp__lock_release(&log->lock);
  tp__bytes_fini(&line);
}

/* ---- the thread ---- */

static int open_file(const char *file) {
  if (strcmp(file, "-") == 0) return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  return open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
}

static void reopen(cli_access_log *log) {
  int fd = open_file(log->file);
  if (fd < 0) {
    cli_error("--access-log %s: %s; the file that was open goes on", log->file, strerror(errno));
    return;
  }
  close(log->fd);
  log->fd = fd;
}

/* @return how many lines were not written whole. */
static uint64_t write_lines(cli_access_log *log, tp_text lines) {
  size_t at = 0;
  uint64_t lost = 0;
  while (at < lines.size) {
    ssize_t written = write(log->fd, lines.data + at, lines.size - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    at += (size_t)written;
  }
  bool failed = at < lines.size;
  if (failed && !log->has_failed) cli_error("--access-log %s: %s: lines are dropped", log->file, strerror(errno));
  log->has_failed = failed;
  for (; at < lines.size; at++) lost += lines.data[at] == '\n';
  return lost;
}

static void *run_access_log(void *ctx) {
  cli_access_log *log = ctx;
  tp__bytes taken = {0};
  tp__lock_acquire(&log->lock);
  while (!log->ends || log->lines.size > 0) {
    if (log->lines.size == 0 && !log->reopens) {
      tp__lock_condition_wait(&log->changed, &log->lock);
      continue;
    }
    tp__bytes lines = log->lines;
    uint64_t untold = log->untold;
    bool reopens = log->reopens;
    log->lines = taken;
    log->untold = 0;
    log->reopens = false;
    tp__lock_release(&log->lock);
    if (reopens) reopen(log);
    uint64_t lost = write_lines(log, tp__bytes_text(&lines));
    if (untold > 0 && lost == 0) {
      char time[40], line[128];
      format_time(time, tp__wall_ms());
      int size = snprintf(line, sizeof line, "{\"time\":\"%s\",\"dropped\":%" PRIu64 "}\n", time, untold);
      (void)write_lines(log, (tp_text){line, (size_t)size});
    }
    tp__bytes_clear(&lines);
    taken = lines;
    tp__lock_acquire(&log->lock);
    log->dropped += lost;
    log->untold += lost > 0 ? lost + untold : 0;
  }
  tp__lock_release(&log->lock);
  tp__bytes_fini(&taken);
  return NULL;
}

/* ---- begin and end ---- */

static void log_free(cli_access_log *log) {
  if (log->fd >= 0) close(log->fd);
  tp_writer_free(log->writer);
  tp__bytes_fini(&log->lines);
  tp__lock_condition_fini(&log->changed);
  tp__lock_fini(&log->lock);
  free(log);
}

int cli_access_log_open(const char *file, cli_access_log **ret_log) {
  cli_access_log *log = cli_alloc(sizeof *log);
  log->file = file;
  log->fd = open_file(file);
  tp__lock_init(&log->lock, TP__LOCK_access_log);
  tp__lock_condition_init(&log->changed);
  cli_need(tp_writer_new(NULL, &log->writer));
  int status = CLI_OK;
  if (log->fd < 0) {
    cli_error("--access-log %s: %s", file, strerror(errno));
    status = CLI_CONFIG;
  } else if (tp__thread_spawn(&log->thread, run_access_log, log) != 0) {
    cli_error("--access-log %s: there is no thread for it", file);
    status = CLI_UNAVAILABLE;
  }
  if (status == CLI_OK) *ret_log = log;
  else log_free(log);
  return status;
}

void cli_access_log_reopen(cli_access_log *log) {
  if (!log) return;
  tp__lock_acquire(&log->lock);
  log->reopens = true;
  tp__lock_condition_signal(&log->changed);
  tp__lock_release(&log->lock);
}

void cli_access_log_close(cli_access_log *log) {
  if (!log) return;
  tp__lock_acquire(&log->lock);
  log->ends = true;
  tp__lock_condition_signal(&log->changed);
  tp__lock_release(&log->lock);
  pthread_join(log->thread, NULL);
  if (log->dropped > 0) cli_error("--access-log %s: %" PRIu64 " lines were dropped", log->file, log->dropped);
  log_free(log);
}
