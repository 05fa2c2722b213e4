/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/pins.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/file.h"

enum { PINS_BYTES_MAX = 4 << 20 };

static void put_path(const tp__mcp_session *s, const char *end, tp__bytes *path) {
  tp__bytes_printf(path, "%s/mcp-%s.json%s", s->settings.options.pins, s->settings.options.name, end);
}

/* Writes {"tools": {NAME: HASH}}. */
static tp_status write_pins(const tp__mcp_tools *tools, tp__bytes *ret_json) {
  tp_writer *writer;
  tp_text value, json;
  tp_status status = tp_writer_new(NULL, &writer);
  if (status != TP_OK) return status;
  tp_write_map(writer, 1);
  tp_write_string(writer, "tools");
  tp_write_map(writer, tools->count);
  for (size_t i = 0; i < tools->count; i++) {
    tp_write_string(writer, tools->items[i].name);
    tp_write_string(writer, tools->items[i].hash);
  }
  status = tp_writer_finish(writer, &value);
  if (status == TP_OK) status = tp_json_encode(value, writer, &json, NULL);
  if (status == TP_OK) tp__bytes_put_text(ret_json, json);
  tp_writer_free(writer);
  return status == TP_OK && ret_json->failed ? TP_ERR_NO_MEMORY : status;
}

/* Writes the whole file under a temporary name, and renames it when it is on the disk. @return 0 or an errno. */
static int replace_file(const char *path, const char *temporary, tp_text text) {
  int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600), error = 0;
  if (fd < 0) return errno;
  for (size_t at = 0; error == 0 && at < text.size;) {
    ssize_t written = write(fd, text.data + at, text.size - at);
    if (written < 0 && errno != EINTR) error = errno;
    else if (written > 0) at += (size_t)written;
  }
  if (error == 0 && fsync(fd) != 0) error = errno;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary, path) != 0) error = errno;
  if (error != 0) unlink(temporary);
  return error;
}

static void pin_locked(tp__mcp_session *s, const tp__mcp_tools *tools, const char *path) {
  TP__LOCKED(&s->lock);
  tp__bytes json = {0}, temporary = {0};
  put_path(s, ".new", &temporary);
  int error = write_pins(tools, &json) != TP_OK || temporary.failed
                  ? ENOMEM
                  : replace_file(path, tp__bytes_string(&temporary), tp__bytes_text(&json));
  if (error != 0)
    tp__mcp_session_note_locked(s, "the tools of the server %s cannot be pinned in %s: %s", s->settings.options.name,
                                path, strerror(error));
  tp__bytes_fini(&json);
  tp__bytes_fini(&temporary);
}

static void mark_locked(tp__mcp_session *s, tp__mcp_tools *tools, tp_text pinned) {
  TP__LOCKED(&s->lock);
  for (size_t i = 0; i < tools->count; i++) {
    tp__mcp_tool *tool = &tools->items[i];
    tp_text hash = tp_value_text(tp_value_get(pinned, tool->name));
    tool->is_changed = !tp__is_word(hash, tool->hash);
    if (tool->is_changed)
      tp__mcp_session_note_locked(
          s, "the tool %s of the server %s %s: it is %s", tool->name, s->settings.options.name,
          hash.size ? "is not the one that was pinned" : "was not there when its tools were pinned",
          s->settings.options.changed == TP_MCP_CHANGED_DENY ? "denied" : "asked about");
  }
}

void tp__mcp_pins_apply_locked(tp__mcp_session *s, tp__mcp_tools *tools) {
  TP__LOCKED(&s->lock);
  tp__bytes path = {0}, bytes = {0};
  tp_writer *writer = NULL;
  tp_text value = {"", 0};
  if (!s->settings.options.pins) return;
  put_path(s, "", &path);
  int error = path.failed ? -ENOMEM : tp__file_read(AT_FDCWD, tp__bytes_string(&path), PINS_BYTES_MAX, &bytes);
  if (error == -ENOENT) {
    pin_locked(s, tools, tp__bytes_string(&path));
  } else {
    bool is_read = error == 0 && tp_writer_new(NULL, &writer) == TP_OK &&
                   tp_json_decode(tp__bytes_text(&bytes), writer, NULL) == TP_OK &&
                   tp_writer_finish(writer, &value) == TP_OK;
    if (!is_read || tp_value_kind_of(tp_value_get(value, "tools")) != TP_VALUE_MAP)
      tp__mcp_session_note_locked(s,
                                  "the pins of the server %s in %s cannot be read: each of its tools counts as changed",
                                  s->settings.options.name, tp__bytes_string(&path));
    mark_locked(s, tools, tp_value_get(value, "tools"));
  }
  tp_writer_free(writer);
  tp__bytes_fini(&bytes);
  tp__bytes_fini(&path);
}
