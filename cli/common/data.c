/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/database.h"
#include "cli/common/date.h"
#include "cli/common/erasure.h"
#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "runtime/base/check.h"
#include "turnphase/sqlite.h"

static const char file_name[] = "turnphase.db";

char *cli_data_path(const char *directory, const char *file) {
  assert(directory && *directory && file && !strchr(file, '/'));
  size_t size = strlen(directory) + strlen(file) + 2;
  char *path = cli_alloc(size);
  snprintf(path, size, "%s/%s", directory, file);
  return path;
}

static int refuse_directory(const char *directory, int error) {
  cli_error_at(directory, 0, 0, "%s", strerror(error));
  return CLI_IO;
}

int cli_data_make(const char *directory) {
  struct stat found;
  if (mkdir(directory, 0700) != 0 && errno != EEXIST) return refuse_directory(directory, errno);
  if (stat(directory, &found) != 0) return refuse_directory(directory, errno);
  if (!S_ISDIR(found.st_mode)) return refuse_directory(directory, ENOTDIR);
  return access(directory, W_OK | X_OK) == 0 ? CLI_OK : refuse_directory(directory, errno);
}

int cli_data_check(const char *directory) {
  struct stat found;
  errno = 0;
  if (stat(directory, &found) == 0 && S_ISDIR(found.st_mode)) return CLI_OK;
  cli_error_at(directory, 0, 0, "%s; give the directory that run --data was given", strerror(errno ? errno : ENOTDIR));
  return CLI_IO;
}

int cli_data_check_hooks(const char *directory) {
  struct stat found;
  if (stat(directory, &found) != 0) {
    if (errno != ENOENT) return refuse_directory(directory, errno);
    cli_error_at(directory, 0, 0, "there is no such directory of hooks; make one: turnphase hooks new guard NAME %s",
                 directory);
    return CLI_IO;
  }
  if (S_ISDIR(found.st_mode)) return CLI_OK;
  cli_error_at(directory, 0, 0, "is no directory: hooks are files of a directory, which is named");
  return CLI_IO;
}

int cli_data_check_option(const char *option, const char *directory) {
  struct stat found;
  errno = 0;
  if (stat(directory, &found) == 0 && S_ISDIR(found.st_mode)) return CLI_OK;
  cli_error("%s %s: %s; name a directory that is there", option, directory, strerror(errno ? errno : ENOTDIR));
  return CLI_IO;
}

int cli_data_find(const char *directory, const char *file, char **ret_path) {
  struct stat found;
  int status = cli_data_check(directory);
  if (status != CLI_OK) return status;
  char *path = cli_data_path(directory, file);
  if (stat(path, &found) == 0) {
    *ret_path = path;
    return CLI_OK;
  }
  if (errno == ENOENT)
    cli_error_at(directory, 0, 0, "nothing was kept here: there is no %s; give the directory that run --data was given",
                 file);
  else cli_error_at(path, 0, 0, "%s", strerror(errno));
  free(path);
  return CLI_IO;
}

static tp_status open_data_database(cli_data *data, tp_fault *fault) {
  tp_status status = cli_database_open(data->path, true, NULL, NULL, &data->database, fault);
  return status == TP_OK ? cli_database_store(data->database, &data->store, fault) : status;
}

static tp_status open_file(cli_data *data, const char *directory, tp_fault *fault) {
  cli_erasure_warn(directory);
  data->read_only = access(directory, W_OK) != 0 || access(data->path, W_OK) != 0;
  const tp_sqlite_store_options options = {
      .struct_size = sizeof options, .path = data->path, .existing_only = 1, .read_only = data->read_only};
  return tp_sqlite_store_open(&options, &data->store, fault);
}

int cli_data_open(const char *directory, cli_data *data) {
  tp_fault fault = {0};
  if (!directory) {
    cli_error("which data directory? it is the one that run --data was given");
    return CLI_USAGE;
  }
  data->is_database = cli_database_is(directory);
  if (data->is_database) {
    data->path = cli_alloc(strlen(directory) + 1);
    memcpy(data->path, directory, strlen(directory) + 1);
  }
  int checked = data->is_database ? CLI_OK : cli_data_find(directory, file_name, &data->path);
  if (checked != CLI_OK) return checked;
  tp_status status = data->is_database ? open_data_database(data, &fault) : open_file(data, directory, &fault);
  if (status == TP_OK) status = tp_runtime_new(NULL, &data->names, &fault);
  if (status == TP_OK) return CLI_OK;
  int exit_status = cli_fault(data->path, status, &fault);
  cli_data_close(data);
  data->status = status;
  return status == TP_ERR_NOT_FOUND ? CLI_IO : exit_status;
}

void cli_data_close(cli_data *data) {
  tp_runtime_free(data->names);
  tp_store_free(data->store);
  cli_database_close(data->database);
  free(data->path);
  *data = (cli_data){0};
}

const char *cli_data_phase(const cli_data *data, uint32_t phase, char buffer[32]) {
  const tp_phase *row = tp_phase_get(data->names, phase);
  if (row) return row->name;
  snprintf(buffer, 32, "phase %u", phase);
  return buffer;
}

const char *cli_data_time(int64_t unix_ms, char buffer[40]) {
  char text[CLI_DATE_SIZE];
  cli_date_write(unix_ms, text);
  snprintf(buffer, 40, "%.19s.%03dZ", text, (int)(unix_ms % 1000));
  return buffer;
}

void cli_data_add_run(cli_map *map, const tp_run_record *run, bool with_limit) {
  cli_map_add_string(map, "subscription", run->subscription);
  cli_map_add_string(map, "handler", run->handler);
  cli_map_add_string(map, "owner", run->owner);
  cli_map_add_string(map, "state", tp_state_name((tp_state)run->state));
  cli_map_add_string(map, "reason", tp_reason_name((tp_reason)run->reason));
  cli_map_add_string(map, "verdict", tp_verdict_name((tp_verdict)run->verdict));
  cli_map_add_string(map, "execution", tp_execution_name((tp_execution)run->execution));
  cli_map_add_string(map, "failure", tp_failure_name((tp_failure)run->failure));
  cli_map_add_int(map, "attempts", run->attempts);
  cli_map_add_int(map, "code", run->code);
  cli_map_add_int(map, "contribution_count", run->contribution_count);
  cli_map_add_bool(map, "fallback_used", run->fallback_used);
  if (with_limit) cli_map_add_int(map, "limit_ms", run->limit_ms);
  cli_map_add_int(map, "queued_ns", run->queued_ns);
  cli_map_add_int(map, "started_ns", run->started_ns);
  cli_map_add_int(map, "ended_ns", run->ended_ns);
  cli_map_add_int(map, "late_ns", run->late_ns);
  cli_map_add_int(map, "thread", run->thread);
}

void cli_data_add_ids(cli_map *map, const tp_text ids[TP_ID_COUNT]) {
  static const char *const names[TP_ID_COUNT] = {
      [TP_ID_TENANT] = "tenant", [TP_ID_AGENT] = "agent", [TP_ID_WORKSPACE] = "workspace", [TP_ID_SESSION] = "session",
      [TP_ID_THREAD] = "thread", [TP_ID_TURN] = "turn",   [TP_ID_TASK] = "task",           [TP_ID_RUN] = "run"};
  cli_map_open(map, "ids");
  for (size_t i = 0; i < TP_ID_COUNT; i++)
    if (ids[i].size) cli_map_add_text(map, names[i], ids[i]);
  cli_map_close(map);
}

/* ---- answers of tools ---- */

static bool read_part(tp_text value, tp_part *ret_part) {
  *ret_part = (tp_part){.struct_size = sizeof *ret_part};
  return tp_part_read(value, ret_part, NULL) == TP_OK;
}

void cli_data_add_answer(cli_map *map, tp_text value, tp_text parts) {
  if (value.size > 0) cli_map_add_value(map, "value", value);
  if (parts.size == 0) return;
  tp_writer *writer;
  tp_part part;
  tp_text summary;
  cli_need(tp_writer_new(NULL, &writer));
  cli_map_open_list(map, "parts");
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk);) {
    if (!read_part(walk.value, &part)) continue;
    tp_writer_reset(writer);
    cli_need(tp_part_write_summary(&part, writer, NULL));
    cli_need(tp_writer_finish(writer, &summary));
    cli_map_add_value(map, NULL, summary);
  }
  cli_map_close(map);
  tp_writer_free(writer);
}

void cli_data_print_parts(cli_output *output, tp_text parts) {
  char line[3072];
  tp_part part;
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk);) {
    if (!read_part(walk.value, &part)) continue;
    tp_part_describe(&part, line, sizeof line);
    if (part.kind == TP_PART_TEXT) cli_print(output, part.text.data, part.text.size);
    else cli_printf(output, "[%s]", line);
    cli_print(output, "\n", 1);
  }
}
