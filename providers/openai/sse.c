/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/sse.h"

#include <string.h>

#include "runtime/base/check.h"

bool tp__openai_sse_no_memory(const tp__openai_sse *sse) {
  return sse->line.failed || sse->data.failed || sse->name.failed || sse->stray.failed;
}

void tp__openai_sse_stray(tp__openai_sse *sse, tp_text text) {
  assert(sse->stray.size <= TP__OPENAI_STRAY_MAX);
  size_t left = TP__OPENAI_STRAY_MAX - sse->stray.size;
  if (text.size == 0 || left < 2) return;
  if (sse->stray.size > 0) tp__bytes_put(&sse->stray, "\n", 1);
  tp__bytes_put(&sse->stray, text.data, text.size < left - 1 ? text.size : left - 1);
}

/* ---- one event ---- */

static void clear_event(tp__openai_sse *sse) {
  tp__bytes_clear(&sse->data);
  sse->scan = (tp__openai_scan){0};
  sse->scanned = 0;
  sse->has_data = sse->is_bare = false;
}

static tp_text data_of(const tp__openai_sse *sse) {
  tp_text data = tp__bytes_text(&sse->data);
  if (data.size > 0) data.size--; /* the LF after the last line */
  return data;
}

/* Whether the event is complete: its data is a whole JSON text, or is no JSON. */
static bool is_complete(tp__openai_sse *sse) {
  assert(sse->scanned <= sse->data.size);
  tp_text data = tp__bytes_text(&sse->data);
  tp__openai_scan_text(&sse->scan, (tp_text){data.data + sse->scanned, data.size - sse->scanned});
  sse->scanned = data.size;
  const tp__openai_scan *scan = &sse->scan;
  return scan->beyond || scan->depth == 0;
}

static bool event_ended(tp__openai_sse *sse) {
  assert(sse->has_data || sse->data.size == 0);
  if (!sse->has_data) return true;
  bool goes_on = sse->on_event(sse->ctx, tp__bytes_text(&sse->name), data_of(sse));
  clear_event(sse);
  return goes_on;
}

static bool add_data_line(tp__openai_sse *sse, tp_text line) {
  sse->has_data = true;
  tp__bytes_put_text(&sse->data, line);
  tp__bytes_put(&sse->data, "\n", 1);
  sse->too_large = sse->data.size > sse->event_bytes_max;
  return !sse->data.failed && !sse->too_large;
}

/* ---- lines ---- */

static bool take_data(tp__openai_sse *sse, tp_text value) {
  if (sse->is_bare) { /* an object that never ended */
    tp__openai_sse_stray(sse, data_of(sse));
    clear_event(sse);
  }
  if (sse->has_data && is_complete(sse) && !event_ended(sse)) return false;
  return add_data_line(sse, value);
}

static bool take_name(tp__openai_sse *sse, tp_text value) {
  if (sse->has_data && !sse->is_bare && is_complete(sse) && !event_ended(sse)) return false;
  tp__bytes_clear(&sse->name);
  tp__bytes_put_text(&sse->name, value);
  return !sse->name.failed;
}

/* Handles a line that is no field: JSON, a continuation of JSON, or anything else. */
static bool take_other(tp__openai_sse *sse, tp_text line) {
  tp_text text = tp__openai_trim(line);
  bool begins = tp__begins(text, "{") || tp__begins(text, "[");
  bool goes_on = sse->has_data && !is_complete(sse) &&
                 (sse->is_bare || sse->scan.in_string || (text.size > 0 && strchr("{[}]\"", text.data[0])));
  if (!begins && !goes_on) {
    tp__openai_sse_stray(sse, text);
    return !sse->stray.failed;
  }
  if (!goes_on) {
    if (!event_ended(sse)) return false;
    sse->is_bare = true;
  }
  if (!add_data_line(sse, line)) return false;
  return !sse->is_bare || !is_complete(sse) || event_ended(sse);
}

static bool line_ended(tp__openai_sse *sse, tp_text line) {
  if (!sse->past_first_line && tp__begins(line, "\xEF\xBB\xBF")) line = (tp_text){line.data + 3, line.size - 3};
  sse->past_first_line = true;
  if (sse->is_bare && !tp__begins(line, "data:") && !tp__begins(line, "event:")) return take_other(sse, line);
  if (line.size == 0) {
    bool goes_on = event_ended(sse);
    tp__bytes_clear(&sse->name);
    return goes_on;
  }
  if (line.data[0] == ':') return true; /* a comment */
  const char *colon = memchr(line.data, ':', line.size);
  tp_text name = {line.data, colon ? (size_t)(colon - line.data) : line.size}, value = {line.data, 0};
  if (colon) value = (tp_text){colon + 1, line.size - name.size - 1};
  if (value.size > 0 && value.data[0] == ' ') value = (tp_text){value.data + 1, value.size - 1};
  name = tp__openai_trim(name);
  if (tp__is_word(name, "data")) return take_data(sse, value);
  if (tp__is_word(name, "event")) return take_name(sse, value);
  if (tp__is_word(name, "error") && colon) return take_name(sse, name) && take_data(sse, value);
  if (tp__is_word(name, "id") || tp__is_word(name, "retry")) return true;
  return take_other(sse, line);
}

/* If the whole line is in the bytes that just came, it is read from there without a copy. */
static bool take_sse_line(tp__openai_sse *sse, tp_text part) {
  if (sse->line.size == 0) return line_ended(sse, part);
  tp__bytes_put_text(&sse->line, part);
  if (sse->line.failed) return false;
  bool goes_on = line_ended(sse, tp__bytes_text(&sse->line));
  tp__bytes_clear(&sse->line);
  return goes_on;
}

static size_t line_size(const char *bytes, size_t size) {
  size_t at = 0;
  while (at < size && bytes[at] != '\n' && bytes[at] != '\r') at++;
  return at;
}

bool tp__openai_sse_feed(tp__openai_sse *sse, const char *bytes, size_t size) {
  assert(sse->on_event && sse->event_bytes_max > 0);
  for (size_t at = 0; at < size;) {
    if (sse->after_cr && bytes[at] == '\n') at++;
    sse->after_cr = false;
    size_t part = line_size(bytes + at, size - at);
    if (at + part == size) {
      tp__bytes_put(&sse->line, bytes + at, part);
      sse->too_large = sse->line.size > sse->event_bytes_max;
      return !sse->line.failed && !sse->too_large;
    }
    sse->after_cr = bytes[at + part] == '\r';
    if (!take_sse_line(sse, (tp_text){bytes + at, part})) return false;
    at += part + 1;
  }
  return true;
}

/* Whether a line that ends here may be the beginning of a field. */
static bool is_part_of_field(tp_text line) {
  static const char *const fields[] = {"data:", "event:", "id:", "retry:", ":"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (tp__begins(line, fields[i]) || (line.size < strlen(fields[i]) && memcmp(fields[i], line.data, line.size) == 0))
      return true;
  return false;
}

bool tp__openai_sse_end(tp__openai_sse *sse) {
  sse->is_cut = sse->line.size > 0 && is_part_of_field(tp__bytes_text(&sse->line));
  if (sse->line.size > 0 && !take_sse_line(sse, (tp_text){"", 0})) return false;
  if (!sse->has_data) return true;
  if (is_complete(sse)) return event_ended(sse);
  sse->is_cut = true;
  tp__openai_sse_stray(sse, data_of(sse));
  clear_event(sse);
  return !tp__openai_sse_no_memory(sse);
}

void tp__openai_sse_fini(tp__openai_sse *sse) {
  tp__bytes_fini(&sse->line);
  tp__bytes_fini(&sse->data);
  tp__bytes_fini(&sse->name);
  tp__bytes_fini(&sse->stray);
}
