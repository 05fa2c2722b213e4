/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/changed.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/common/message.h"
#include "support/bytes.h"

enum { CODE_BYTES = 3, PATHS_MAX = 10000 };

/* A record consists of two letters, a blank, and a path that ends with a NUL. */
static size_t write_paths(const tp__bytes *listed, tp_writer *writer) {
  const char *at = listed->data, *end = listed->data + listed->size;
  size_t count = 0;
  while (at < end && count < PATHS_MAX) {
    const char *nul = memchr(at, '\0', (size_t)(end - at));
    if (!nul) break;
    tp_text path = {at + CODE_BYTES, (size_t)(nul - at) > CODE_BYTES ? (size_t)(nul - at) - CODE_BYTES : 0};
    at = nul + 1;
    if (path.size == 0 || !tp_utf8_valid(path, NULL)) continue;
    if (writer) tp_write_text(writer, path);
    count++;
  }
  return count;
}

static bool read_all(FILE *from, tp__bytes *into) {
  char buffer[4096];
  size_t size;
  while ((size = fread(buffer, 1, sizeof buffer, from)) > 0) tp__bytes_put(into, buffer, size);
  return !into->failed && !ferror(from);
}

bool cli_changed_by_git(tp_writer *writer, tp_text *ret_value) {
  static const char command[] = "git status --porcelain=v1 -z --untracked-files=all --no-renames";
  tp__bytes listed = {0};
  FILE *from = popen(command, "re");
  bool is_read = from && read_all(from, &listed);
  int status = from ? pclose(from) : -1;
  is_read = is_read && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (is_read) {
    tp_write_array(writer, write_paths(&listed, NULL));
    write_paths(&listed, writer);
    is_read = tp_writer_finish(writer, ret_value) == TP_OK;
  }
  tp__bytes_fini(&listed);
  if (!is_read)
    cli_error("warning: --changed-from git: `%s` failed here: changed_files is what the tools have named", command);
  return is_read;
}
