/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_input: a map that a program gets, as JSON. No state. */
#ifndef TP__DECLARED_HOOK_INPUT_H
#define TP__DECLARED_HOOK_INPUT_H

#include "domains/declared/hook.h"

/** Adds a value as JSON, and the end of the line. @param writer  gets the text; its value is not changed. */
tp_status tp__line_add_json(tp__bytes *line, tp_text value, tp_writer *writer);

/** A map that a program gets. The number of its pairs precedes it. So each function that adds to it is called twice:
 *  first without a writer, to count, then to write. */
typedef struct tp__input {
  const tp__hook *hook;
  const tp_call *call;
  tp_writer *writer;      /* NULL: it is counted */
  const char *transcript; /* for a program of another host: its path, or empty */
  size_t count;
} tp__input;

void tp__input_write(const tp__hook *hook, const tp_call *call, tp_writer *writer, void (*add)(tp__input *in));
/** The same for an input that is set up except writer and count. */
void tp__input_put(tp__input *in, tp_writer *writer, void (*add)(tp__input *in));
/** Counts a pair, and writes its key. @return whether the caller must write the value. */
bool tp__input_begin(tp__input *in, const char *key);
void tp__input_text(tp__input *in, const char *key, tp_text text);
void tp__input_string(tp__input *in, const char *key, const char *text);
void tp__input_int(tp__input *in, const char *key, int64_t number);
void tp__input_bool(tp__input *in, const char *key, bool value);

/** Whether the arguments of a call are an object. Arguments that the provider could not decode are text. */
bool tp__input_is_object(tp_text arguments);

#endif
