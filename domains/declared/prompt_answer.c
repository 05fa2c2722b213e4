/* SPDX-License-Identifier: Apache-2.0
 *
 * prompt_answer.c: see prompt_answer.h. */
#include "domains/declared/prompt_answer.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

/* @return the size of the object at the beginning of the text; 0: it has no end. */
static size_t object_size(tp_text text) {
  size_t depth = 0;
  bool is_quoted = false;
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    if (is_quoted && c == '\\') i++;
    else if (c == '"') is_quoted = !is_quoted;
    else if (!is_quoted && c == '{') depth++;
    else if (!is_quoted && c == '}' && --depth == 0) return i + 1;
  }
  return 0;
}

/* Whether the text has the member ok, in quotes of any kind or none: "ok": … */
static bool names_ok(tp_text text) {
  for (size_t i = 1; i + 2 < text.size; i++) {
    if (memcmp(text.data + i, "ok", 2) != 0 || isalnum((unsigned char)text.data[i - 1])) continue;
    size_t after = i + 2;
    while (after < text.size && text.data[after] && strchr("\\\"' \t\r\n", text.data[after])) after++;
    if (after < text.size && text.data[after] == ':') return true;
  }
  return false;
}

static const char *read_prompt_answer(tp_text object, tp__prompt_answer *ret_answer) {
  tp_text ok = tp_value_get(object, "ok"), reason = tp_value_get(object, "reason");
  bool has_reason = reason.size > 0 && tp_value_kind_of(reason) != TP_VALUE_NULL;
  if (tp_value_kind_of(ok) != TP_VALUE_BOOL) return "ok of the model's answer is not true or false";
  if (has_reason && tp_value_kind_of(reason) != TP_VALUE_TEXT) return "reason of the model's answer is not a text";
  *ret_answer = (tp__prompt_answer){.object = object, .ok = tp_value_bool(ok, false)};
  if (has_reason) ret_answer->reason = tp_value_text(reason);
  return NULL;
}

const char *tp__prompt_find(tp_text text, tp_writer **ret_writer, tp__prompt_answer *ret_answer) {
  tp_text answer = {NULL, 0};
  size_t size;
  assert(!*ret_writer);
  for (const char *at; text.size > 0 && (at = memchr(text.data, '{', text.size));
       text.data += size, text.size -= size) {
    text.size -= (size_t)(at - text.data);
    text.data = at;
    size = object_size(text);
    bool has_end = size > 0;
    if (!has_end) size = text.size;
    tp_writer *writer;
    tp_text piece = {at, size}, object = {NULL, 0};
    if (tp_writer_new(NULL, &writer) != TP_OK) return "no memory for the model's answer";
    bool is_object =
        has_end && tp_json_decode(piece, writer, NULL) == TP_OK && tp_writer_finish(writer, &object) == TP_OK;
    bool answers = is_object && tp_value_get(object, "ok").size > 0, is_first = answers && !*ret_writer;
    if (is_first) {
      *ret_writer = writer;
      answer = object;
    } else {
      tp_writer_free(writer);
    }
    if (answers && !is_first) return "the model's answer has two objects with ok";
    if (!is_object && names_ok(piece)) return "the model's answer has an object that is not JSON";
  }
  return *ret_writer ? read_prompt_answer(answer, ret_answer) : "the model's answer has no object with ok";
}
