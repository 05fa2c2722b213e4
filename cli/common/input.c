/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "runtime/base/check.h"
#include "support/file.h"

static bool is_stdin(const char *path) { return !path || strcmp(path, "-") == 0; }

/* Whether the value of an option for JSON is the object itself instead of a path. */
static bool is_object(const char *path) { return path && path[0] == '{'; }

const char *cli_input_name(const char *path) {
  return is_stdin(path) ? "standard input" : is_object(path) ? "the object of the command line" : path;
}

/* Reports the place of the first byte that is not UTF-8; columns count code points from 1. */
static int refuse_utf8(const char *name, tp_text text, size_t offset) {
  assert(offset < text.size);
  tp__place place = tp__place_of(text, offset);
  cli_error_at(name, place.line, place.column, "the byte 0x%02X is not UTF-8",
               (unsigned)(unsigned char)text.data[offset]);
  return CLI_CONFIG;
}

static int refuse_read(const char *name, int error) {
  assert(error < 0);
  if (error == -ENOMEM) cli_need(TP_ERR_NO_MEMORY);
  if (error != -EFBIG) {
    cli_error_at(name, 0, 0, "%s", strerror(-error));
    return CLI_IO;
  }
  cli_error_at(name, 0, 0, "larger than %d MiB: split it", CLI_INPUT_BYTES_MAX >> 20);
  return CLI_CONFIG;
}

int cli_input_read(const char *path, tp_text *ret_text) {
  const char *name = cli_input_name(path);
  int file = is_stdin(path) ? STDIN_FILENO : tp__file_open_stream(path);
  if (file < 0) return refuse_read(name, file);
  if (is_stdin(path) && isatty(file)) cli_error("reading from the terminal; end with Ctrl-D on a line of its own");
  tp__bytes bytes = {0};
  size_t offset;
  int error = tp__file_read_open(file, CLI_INPUT_BYTES_MAX, &bytes);
  if (!is_stdin(path)) close(file);
  tp_text text = tp__bytes_text(&bytes);
  int status = error ? refuse_read(name, error) : CLI_OK;
  if (status == CLI_OK && !tp_utf8_valid(text, &offset)) status = refuse_utf8(name, text, offset);
  if (status == CLI_OK) *ret_text = text;
  else tp__bytes_fini(&bytes);
  return status;
}

int cli_input_decode(const char *path, tp_writer **ret_writer, tp_text *ret_value) {
  tp_text json = {0};
  tp_fault fault = {0};
  *ret_writer = NULL;
  if (is_object(path)) json = tp_text_of(path);
  else {
    int status = cli_input_read(path, &json);
    if (status != CLI_OK) return status;
  }
  cli_need(tp_writer_new(NULL, ret_writer));
  tp_status decoded = tp_json_decode(json, *ret_writer, &fault);
  if (!is_object(path)) free((void *)(uintptr_t)json.data);
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
