/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"

static bool is_stdin(const char *path) { return !path || strcmp(path, "-") == 0; }

const char *cli_input_name(const char *path) { return is_stdin(path) ? "standard input" : path; }

/* Reads till the end. @return 0 or errno; EFBIG past the limit. */
static int read_all(int file, char **ret_bytes, size_t *ret_size) {
  size_t capacity = 64 * 1024, size = 0;
  char *bytes = cli_alloc(capacity);
  int error = 0;
  for (;;) {
    if (size == capacity) bytes = cli_realloc(bytes, capacity *= 2);
    ssize_t got = read(file, bytes + size, capacity - size);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    else size += (size_t)got;
    if (size > CLI_INPUT_BYTES_MAX) error = EFBIG;
    if (error) break;
  }
  *ret_bytes = bytes;
  *ret_size = size;
  return error;
}

/* Says where the first byte is that is not UTF-8; columns count code points from 1. */
static int refuse_utf8(const char *name, tp_text text, size_t offset) {
  uint32_t line = 1, column = 1;
  for (size_t i = 0; i < offset; i++) {
    if (text.data[i] == '\n') line++, column = 1;
    else if (((unsigned char)text.data[i] & 0xC0) != 0x80) column++;
  }
  cli_error_at(name, line, column, "the byte 0x%02X is not UTF-8", (unsigned)(unsigned char)text.data[offset]);
  return CLI_CONFIG;
}

static int refuse_read(const char *name, int error) {
  if (error != EFBIG) {
    cli_error_at(name, 0, 0, "%s", strerror(error));
    return CLI_IO;
  }
  cli_error_at(name, 0, 0, "larger than %d MiB: split it", CLI_INPUT_BYTES_MAX >> 20);
  return CLI_CONFIG;
}

int cli_input_read(const char *path, tp_text *ret_text) {
  const char *name = cli_input_name(path);
  int file = is_stdin(path) ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return refuse_read(name, errno);
  if (is_stdin(path) && isatty(file)) cli_error("reading from the terminal; end with Ctrl-D on a line of its own");
  char *bytes;
  size_t size, offset;
  int error = read_all(file, &bytes, &size);
  if (!is_stdin(path)) close(file);
  tp_text text = {bytes, size};
  int status = error ? refuse_read(name, error) : CLI_OK;
  if (status == CLI_OK && !tp_utf8_valid(text, &offset)) status = refuse_utf8(name, text, offset);
  if (status == CLI_OK) *ret_text = text;
  else free(bytes);
  return status;
}

int cli_input_decode(const char *path, tp_writer **ret_writer, tp_text *ret_value) {
  tp_text json;
  tp_fault fault = {0};
  int status = cli_input_read(path, &json);
  *ret_writer = NULL;
  if (status != CLI_OK) return status;
  cli_need(tp_writer_new(NULL, ret_writer));
  tp_status decoded = tp_json_decode(json, *ret_writer, &fault);
  free((void *)(uintptr_t)json.data);
  if (decoded == TP_OK) decoded = tp_writer_finish(*ret_writer, ret_value);
  return decoded == TP_OK ? CLI_OK : cli_fault(cli_input_name(path), decoded, &fault);
}

/* ---- JSON Lines ---- */

bool cli_is_blank(tp_text text) {
  for (size_t i = 0; i < text.size; i++)
    if (!memchr(" \t\r\n", text.data[i], 4)) return false;
  return true;
}

static int refuse_line(const char *name, uint32_t line, tp_status status, const tp_fault *fault) {
  cli_error_at(name, line, fault->column, "%s", fault->message[0] ? fault->message : tp_status_text(status));
  return cli_exit_of(status);
}

int cli_input_lines(const char *name, tp_text text, uint32_t *line, int (*take)(void *ctx, tp_text value), void *ctx) {
  const char *at = text.data, *end = text.size ? text.data + text.size : text.data;
  tp_writer *writer;
  int status = CLI_OK;
  cli_need(tp_writer_new(NULL, &writer));
  for (*line = 1; at < end && status == CLI_OK; ++*line) {
    const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
    tp_text json = {at, (size_t)(stop - at)}, value;
    tp_fault fault = {0};
    at = newline ? newline + 1 : end;
    if (cli_is_blank(json)) continue;
    tp_writer_reset(writer);
    tp_status decoded = tp_json_decode(json, writer, &fault);
    if (decoded == TP_OK) decoded = tp_writer_finish(writer, &value);
    if (decoded == TP_OK) status = take(ctx, value);
    else status = refuse_line(name, *line, decoded, &fault);
  }
  tp_writer_free(writer);
  return status;
}
