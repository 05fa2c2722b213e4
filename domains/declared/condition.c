/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/declared/condition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/declared/shell_line.h"
#include "support/text.h"

enum { NUMBER_SIZE = 40, STACK_BYTES = 512 };

const char *tp__condition_set_path(tp__condition *condition, const char *path) {
  condition->part_count = 0;
  for (const char *part = path;; part++) {
    size_t size = strcspn(part, ".");
    if (size == 0) return "a part of the path of an argument is empty";
    if (condition->part_count == TP__CONDITION_PARTS_MAX) return "the path of an argument has more than 16 parts";
    condition->parts[condition->part_count++] = (tp_text){part, size};
    part += size;
    if (!*part) return NULL;
  }
}

/* ---- texts ---- */

/* The path without . and .. and double slashes, as far as the text shows them; written to `bytes`, which has space for
 * text.size bytes.
 * @return an empty text when it leads above its beginning. */
static tp_text resolved(tp_text text, char *bytes) {
  size_t size = 0;
  bool is_absolute = text.size > 0 && text.data[0] == '/';
  for (size_t at = 0; at < text.size;) {
    size_t end = at;
    while (end < text.size && text.data[end] != '/') end++;
    size_t part = end - at;
    bool is_dot = part == 1 && text.data[at] == '.', is_up = part == 2 && memcmp(text.data + at, "..", 2) == 0;
    if (is_up) {
      if (size == 0 && !is_absolute) return (tp_text){NULL, 0};
      while (size > 0 && bytes[size - 1] != '/') size--;
      if (size > 0) size--;
    } else if (part > 0 && !is_dot) {
      if (size > 0 || is_absolute) bytes[size++] = '/';
      memcpy(bytes + size, text.data + at, part);
      size += part;
    }
    at = end + 1;
  }
  return (tp_text){bytes, size};
}

static bool is_plain(tp_text text) {
  for (size_t i = 0; i < text.size; i++)
    if (text.data[i] == '/' && (i + 1 == text.size || text.data[i + 1] == '/' || text.data[i + 1] == '.')) return false;
  return text.size == 0 || (text.data[0] != '/' && text.data[0] != '.');
}

static bool any_glob(const tp__condition_patterns *patterns, tp_text text) {
  for (size_t i = 0; i < patterns->count; i++)
    if (tp_pattern_fits(tp_text_of(patterns->items[i]), text)) return true;
  return false;
}

/* The same file can have many names. A pattern that selects calls fits if it fits one of the names. A pattern that
 * exempts calls must fit the last of them. */
static bool text_fits_as(const tp__condition *c, tp_text written, tp_text clean, tp_text below) {
  bool wanted = c->globs.count == 0 || any_glob(&c->globs, written) || any_glob(&c->globs, clean) ||
                (below.data && any_glob(&c->globs, below));
  return wanted && !any_glob(&c->nots, clean) && !(below.data && any_glob(&c->nots, below));
}

static bool text_fits(const tp__condition *c, const char *root, tp_text text) {
  static const tp_text none = {NULL, 0};
  char stack[STACK_BYTES];
  if (is_plain(text)) return text_fits_as(c, text, text, none);
  char *bytes = text.size <= sizeof stack ? stack : malloc(text.size);
  if (!bytes) return true; /* a path that cannot be checked is not let through */
  tp_text clean = resolved(text, bytes), below = none;
  size_t root_size = root ? strlen(root) : 0;
  if (root_size > 0 && clean.size > root_size && memcmp(clean.data, root, root_size) == 0 &&
      clean.data[root_size] == '/')
    below = (tp_text){clean.data + root_size + 1, clean.size - root_size - 1};
  bool fits = text_fits_as(c, text, clean, below);
  if (bytes != stack) free(bytes);
  return fits;
}

/* Each star matches any number of bytes of any kind, and "?" any single byte. When the text after the last star does
 * not fit, that star takes one more byte. */
static bool words_fit_one(tp_text pattern, tp_text words) {
  size_t p = 0, w = 0, star = SIZE_MAX, taken = 0;
  while (w < words.size) {
    if (p < pattern.size && pattern.data[p] == '*') {
      star = p++;
      taken = w;
    } else if (p < pattern.size && (pattern.data[p] == words.data[w] || pattern.data[p] == '?')) {
      p++;
      w++;
    } else if (star != SIZE_MAX) {
      p = star + 1;
      w = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size && pattern.data[p] == '*') p++;
  return p == pattern.size;
}

/* The words of a command. A pattern that ends in a blank and a star also fits the command without arguments. */
static bool words_fit(void *ctx, tp_text words) {
  const tp__condition_patterns *patterns = ctx;
  for (size_t i = 0; i < patterns->count; i++) {
    tp_text pattern = tp_text_of(patterns->items[i]);
    if (words_fit_one(pattern, words)) return true;
    bool may_end = pattern.size > 2 && memcmp(pattern.data + pattern.size - 2, " *", 2) == 0;
    if (may_end && words_fit_one((tp_text){pattern.data, pattern.size - 2}, words)) return true;
  }
  return false;
}

/* ---- values ---- */

static bool number_fits(const tp__condition *c, double number) {
  return (!c->has_min || number >= c->min) && (!c->has_max || number <= c->max);
}

static bool scalar_fits(const tp__condition *c, const char *root, tp_text value) {
  char text[NUMBER_SIZE] = "null";
  bool is_number = true;
  switch (tp_value_kind_of(value)) {
    case TP_VALUE_TEXT:
      if (c->has_min || c->has_max) return false;
      if (c->runs.count > 0 && !tp__shell_line_any(tp_value_text(value), words_fit, (void *)(uintptr_t)&c->runs))
        return false;
      return text_fits(c, root, tp_value_text(value));
    case TP_VALUE_INT:
      snprintf(text, sizeof text, "%lld", (long long)tp_value_int(value, 0));
      break;
    case TP_VALUE_DOUBLE:
      snprintf(text, sizeof text, "%.15g", tp_value_double(value, 0));
      break;
    case TP_VALUE_BOOL:
      snprintf(text, sizeof text, "%s", tp_value_bool(value, false) ? "true" : "false");
      is_number = false;
      break;
    case TP_VALUE_NULL:
      is_number = false;
      break;
    default: /* a container, or bytes: it is there */
      return c->globs.count == 0 && c->runs.count == 0 && !c->has_min && !c->has_max;
  }
  if (c->runs.count > 0 || (!is_number && (c->has_min || c->has_max))) return false;
  if (is_number && !number_fits(c, tp_value_double(value, (double)tp_value_int(value, 0)))) return false;
  return text_fits_as(c, tp_text_of(text), tp_text_of(text), (tp_text){NULL, 0});
}

typedef struct reach {
  const tp__condition *condition;
  const char *root;
  tp__argument_name_fn name;
  void *ctx;
} reach;

/* @return whether a value to which the rest of the path leads fits. */
static bool leads(const reach *r, size_t index, tp_text value) {
  if (index == r->condition->part_count) {
    /* If the path ends at a list, each item of the list is compared. */
    if (tp_value_kind_of(value) != TP_VALUE_ARRAY) return scalar_fits(r->condition, r->root, value);
    bool any = false;
    for (tp_value_walk walk = {0}; tp_value_next(value, &walk);) {
      any = true;
      if (scalar_fits(r->condition, r->root, walk.value)) return true;
    }
    return !any && scalar_fits(r->condition, r->root, value);
  }
  tp_text part = r->condition->parts[index];
  bool is_any = part.size == 1 && part.data[0] == '*', is_list = tp_value_kind_of(value) == TP_VALUE_ARRAY;
  size_t number = 0;
  if (!is_list && tp_value_kind_of(value) != TP_VALUE_MAP) return false;
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk); number++) {
    char text[24];
    if (is_list) snprintf(text, sizeof text, "%zu", number);
    tp_text key = is_list ? tp_text_of(text) : index == 0 && r->name ? r->name(r->ctx, walk.key) : walk.key;
    if ((is_any || tp__same(part, key)) && leads(r, index + 1, walk.value)) return true;
  }
  return false;
}

bool tp__conditions_hold(const tp__conditions *conditions, tp_text arguments, tp__argument_name_fn name, void *ctx) {
  for (size_t i = 0; i < conditions->count; i++) {
    const tp__condition *condition = &conditions->items[i];
    reach r = {.condition = condition, .root = conditions->root, .name = name, .ctx = ctx};
    if (leads(&r, 0, arguments) == condition->is_absent) return false;
  }
  return true;
}
