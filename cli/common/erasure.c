/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/erasure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/data.h"
#include "cli/common/exit_status.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"

static const char file_name[] = "forget.pending";

bool cli_erasure_is_left(const char *directory) {
  char *path = cli_data_path(directory, file_name);
  bool is_left = access(path, F_OK) == 0;
  free(path);
  return is_left;
}

void cli_erasure_warn(const char *directory) {
  if (cli_erasure_is_left(directory))
    cli_error("warning: an erasure of %s is not over: `turnphase forget %s` finishes it", directory, directory);
}

static int refuse_erasure_file(const cli_erasure_file *file) {
  cli_error_at(file->path, 0, 0, "%s", strerror(errno));
  return CLI_IO;
}

/* ---- reading ---- */

static const char *text_of(tp_text map, const char *key, char **next) {
  tp_text text = tp_value_text(tp_value_get(map, key));
  if (!text.size) return NULL;
  char *copy = *next;
  memcpy(copy, text.data, text.size);
  copy[text.size] = '\0';
  *next += text.size + 1;
  return copy;
}

/* An incomplete file holds no request: its writer died before the first deletion, or after the last. */
static int read_left(cli_erasure_file *file) {
  struct stat found;
  if (fstat(file->fd, &found) != 0) return refuse_erasure_file(file);
  size_t size = (size_t)found.st_size;
  file->bytes = cli_alloc(2 * size + 16);
  ssize_t got = pread(file->fd, file->bytes, size, 0);
  if (got < 0) return refuse_erasure_file(file);
  const tp_text map = {file->bytes, (size_t)got};
  char *next = file->bytes + size;
  if (got == 0 || tp_value_check(map, NULL) != TP_OK || tp_value_kind_of(map) != TP_VALUE_MAP) return CLI_OK;
  file->left = (cli_erasure){.tenant = text_of(map, "tenant", &next),
                             .session = text_of(map, "session", &next),
                             .person = text_of(map, "person", &next),
                             .matching = text_of(map, "matching", &next),
                             .sessions_before_ms = tp_value_int(tp_value_get(map, "sessions_before_ms"), 0),
                             .turns_before_ms = tp_value_int(tp_value_get(map, "turns_before_ms"), 0),
                             .every_tenant = tp_value_int(tp_value_get(map, "every_tenant"), 0) == 1};
  return CLI_OK;
}

/* If another process has removed the file between the opening and the lock, it is opened again. */
static int open_and_lock(cli_erasure_file *file, bool makes) {
  for (;;) {
    struct stat found;
    int fd = open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (makes ? O_CREAT : 0), 0600);
    if (fd < 0) return errno == ENOENT && !makes ? CLI_OK : refuse_erasure_file(file);
    file->fd = fd;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return refuse_erasure_file(file);
      cli_error_at(file->path, 0, 0, "another process erases just now: try again when it has ended");
      return CLI_RETRY;
    }
    if (fstat(fd, &found) != 0) return refuse_erasure_file(file);
    if (found.st_nlink > 0) return read_left(file);
    close(fd);
    file->fd = 0;
  }
}

int cli_erasure_open(const char *directory, bool makes, cli_erasure_file *file) {
  *file = (cli_erasure_file){.path = cli_data_path(directory, file_name)};
  int status = open_and_lock(file, makes);
  if (status == CLI_OK && file->fd) {
    file->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file->directory < 0) status = refuse_erasure_file(file);
  }
  if (status != CLI_OK) cli_erasure_close(file);
  return status;
}

void cli_erasure_close(cli_erasure_file *file) {
  if (file->fd > 0) close(file->fd);
  if (file->directory > 0) close(file->directory);
  free(file->bytes);
  free(file->path);
  *file = (cli_erasure_file){0};
}

/* ---- writing ---- */

static bool write_all(int fd, tp_text bytes) {
  for (size_t at = 0; at < bytes.size;) {
    ssize_t wrote = pwrite(fd, bytes.data + at, bytes.size - at, (off_t)at);
    if (wrote <= 0) return false;
    at += (size_t)wrote;
  }
  return fsync(fd) == 0;
}

int cli_erasure_begin(cli_erasure_file *file, const cli_erasure *request) {
  const struct {
    const char *key, *text;
  } texts[] = {{"tenant", request->tenant},
               {"session", request->session},
               {"person", request->person},
               {"matching", request->matching}};
  cli_map map = {0};
  tp_writer *writer;
  tp_text value;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    if (texts[i].text) cli_map_add_string(&map, texts[i].key, texts[i].text);
  cli_map_add_int(&map, "sessions_before_ms", request->sessions_before_ms);
  cli_map_add_int(&map, "turns_before_ms", request->turns_before_ms);
  cli_map_add_int(&map, "every_tenant", request->every_tenant);
  cli_need(tp_writer_new(NULL, &writer));
  cli_map_write(&map, writer);
  cli_need(tp_writer_finish(writer, &value));
  bool is_written = ftruncate(file->fd, 0) == 0 && write_all(file->fd, value) && fsync(file->directory) == 0;
  tp_writer_free(writer);
  return is_written ? CLI_OK : refuse_erasure_file(file);
}

int cli_erasure_end(cli_erasure_file *file) {
  struct stat found;
  if (fstat(file->fd, &found) != 0) return refuse_erasure_file(file);
  size_t size = (size_t)found.st_size;
  char *zeros = cli_alloc(size + 1);
  memset(zeros, 0, size);
  bool is_gone = write_all(file->fd, (tp_text){zeros, size}) && unlink(file->path) == 0 && fsync(file->directory) == 0;
  free(zeros);
  return is_gone ? CLI_OK : refuse_erasure_file(file);
}
