/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks_settings_text.c: reads the text of a settings file as a value: JSON, also with comments and final commas, which
 * some hosts accept; or TOML, if the file is named *.toml. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/message.h"
#include "cli/common/toml.h"
#include "cli/hooks/hooks_import.h"

/* The offset after the end of a text in quotes, or the end of the whole text. */
static size_t skip_string(const char *json, size_t size, size_t at) {
  for (at++; at < size && json[at] != '"'; at++)
    if (json[at] == '\\') at++;
  return at < size ? at + 1 : size;
}

static bool begins(const char *json, size_t size, size_t at, const char *two) {
  return at + 1 < size && json[at] == two[0] && json[at + 1] == two[1];
}

/* The end of the comment that begins here; `at` when none does. A comment that is not closed stays, and is refused as
 * JSON. */
static size_t comment_end(const char *json, size_t size, size_t at) {
  size_t end = at;
  if (begins(json, size, at, "//")) {
    while (end < size && json[end] != '\n') end++;
  } else if (begins(json, size, at, "/*")) {
    for (end += 2; end < size && !begins(json, size, end, "*/"); end++) continue;
    end = end < size ? end + 2 : at;
  }
  return end;
}

/* Replaces comments by blanks, so that the text after them keeps its line and column. */
static void blank_comments(char *json, size_t size) {
  for (size_t at = 0; at < size;) {
    size_t end = json[at] == '"' ? skip_string(json, size, at) : comment_end(json, size, at);
    for (size_t i = at; json[at] != '"' && i < end; i++)
      if (json[i] != '\n') json[i] = ' ';
    at = end > at ? end : at + 1;
  }
}

/* Removes a comma that is after a value and before the end of its list or object. */
static void blank_last_commas(char *json, size_t size) {
  char before = '[';
  for (size_t at = 0; at < size;) {
    size_t next = json[at] == '"' ? skip_string(json, size, at) : at + 1;
    while (next < size && strchr(" \t\r\n", json[next])) next++;
    bool is_last =
        json[at] == ',' && !strchr("[{,:", before) && next < size && (json[next] == ']' || json[next] == '}');
    before = json[at];
    if (is_last) json[at] = ' ';
    at = next;
  }
}

static bool is_toml(const char *path) {
  size_t size = strlen(path);
  return size > 5 && strcmp(path + size - 5, ".toml") == 0;
}

/* Editors of other systems begin a file with a byte-order mark. */
static void blank_mark(char *bytes, size_t size) {
  if (size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) memset(bytes, ' ', 3);
}

int cli_settings_decode(const char *path, tp_writer **ret_writer, tp_text *ret_value) {
  tp_text text;
  tp_fault fault = {0};
  *ret_writer = NULL;
  int status = cli_input_read(path, &text);
  if (status != CLI_OK) return status;
  char *bytes = (char *)(uintptr_t)text.data;
  blank_mark(bytes, text.size);
  cli_need(tp_writer_new(NULL, ret_writer));
  tp_status decoded;
  if (is_toml(path)) {
    decoded = cli_toml_decode(text, *ret_writer, &fault);
  } else {
    blank_comments(bytes, text.size);
    blank_last_commas(bytes, text.size);
    decoded = tp_json_decode(text, *ret_writer, &fault);
  }
  free(bytes);
  if (decoded == TP_OK) decoded = tp_writer_finish(*ret_writer, ret_value);
  return decoded == TP_OK ? CLI_OK : cli_fault(cli_input_name(path), decoded, &fault);
}
