/* SPDX-License-Identifier: Apache-2.0
 *
 * events: the JSON Lines of turnphase run as values, and functions that search them. Include after command.h. */
#ifndef TEST_EVENTS_H
#define TEST_EVENTS_H

#include "turnphase/value.h"

typedef struct events {
  tp_writer **lines;
  size_t count;
} events;

/* Every line must be one JSON object. */
static inline events events_read(const bytes *out) {
  events e = {0};
  size_t capacity = 0;
  const char *at = out->data, *end = out->data + out->size;
  while (at < end) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    assert_non_null(newline);
    if (e.count == capacity) {
      capacity = capacity ? 2 * capacity : 256;
      e.lines = realloc(e.lines, capacity * sizeof *e.lines);
      assert_non_null(e.lines);
    }
    tp_fault fault;
    assert_int_equal(tp_writer_new(NULL, &e.lines[e.count]), TP_OK);
    assert_int_equal(tp_json_decode((tp_text){at, (size_t)(newline - at)}, e.lines[e.count++], &fault), TP_OK);
    at = newline + 1;
  }
  return e;
}

static inline void events_free(events *e) {
  for (size_t i = 0; i < e->count; i++) tp_writer_free(e->lines[i]);
  free(e->lines);
}

static inline tp_text event_at(const events *e, size_t index) {
  tp_text value = {0};
  assert_int_equal(tp_writer_finish(e->lines[index], &value), TP_OK);
  return value;
}

/* The text at a path: event_text(event, "ids.turn"). */
static inline tp_text event_value(tp_text event, const char *path) {
  char key[64];
  for (size_t size; *path; path += size + (path[size] == '.')) {
    size = strcspn(path, ".");
    snprintf(key, sizeof key, "%.*s", (int)size, path);
    event = tp_value_get(event, key);
  }
  return event;
}

static inline bool event_is(tp_text event, const char *path, const char *word) {
  return tp_text_is(tp_value_text(event_value(event, path)), word);
}

static inline int64_t event_int(tp_text event, const char *path) {
  return tp_value_int(event_value(event, path), INT64_MIN);
}

/* A list of texts has the word. */
static inline bool list_has(tp_text list, const char *word) {
  for (tp_value_walk walk = {0}; tp_value_next(list, &walk);)
    if (tp_text_is(tp_value_text(walk.value), word)) return true;
  return false;
}

/* Counts the events of this kind in a turn (NULL: in all turns). */
static inline size_t events_count(const events *e, const char *kind, const char *turn) {
  size_t count = 0;
  for (size_t i = 0; i < e->count; i++) {
    tp_text event = event_at(e, i);
    count += event_is(event, "event", kind) && (!turn || event_is(event, "ids.turn", turn));
  }
  return count;
}

/* Finds the first event of a kind in a turn whose text at path is word; empty when there is none. */
static inline tp_text events_find(const events *e, const char *kind, const char *turn, const char *path,
                                  const char *word) {
  for (size_t i = 0; i < e->count; i++) {
    tp_text event = event_at(e, i);
    if (event_is(event, "event", kind) && event_is(event, "ids.turn", turn) && (!path || event_is(event, path, word)))
      return event;
  }
  return (tp_text){0};
}

/* Whether a message of the turn source was shown to the model in turn. */
static inline bool events_recalled(const events *e, const char *turn, const char *source) {
  for (size_t i = 0; i < e->count; i++) {
    tp_text event = event_at(e, i);
    if (event_is(event, "event", "context") && event_is(event, "ids.turn", turn) &&
        list_has(event_value(event, "contribution.sources"), source))
      return true;
  }
  return false;
}

#endif
