/* SPDX-License-Identifier: Apache-2.0
 *
 * record_values: a record encoded as one value: its members, and those of its runs or steps. Each struct is encoded as
 * its number of members and then the members, in the order of stores/columns.h, so that a value of an older library
 * with fewer members can be read. Numbers are LEB128 in zigzag; a text is its size and its bytes; a string includes its
 * NUL, so that it can be read without a copy. NULL is written as an empty string. No lock. */
#ifndef TP__POSTGRES_RECORD_VALUES_H
#define TP__POSTGRES_RECORD_VALUES_H

#include "stores/columns.h"
#include "support/bytes.h"

/** Puts the members of a struct. */
void tp__pg_value_put(tp__bytes *value, const tp__columns *columns, const void *of);
/** Puts a number. */
void tp__pg_value_put_int(tp__bytes *value, int64_t number);

/** A value that is being read; it is borrowed. */
typedef struct tp__pg_value {
  const char *at, *end;
  bool failed; /* set when the bytes are no value: everything read afterwards is zero */
} tp__pg_value;
/** Fills a struct, with struct_size; members that the value lacks are zero. Texts and strings point into the value. */
void tp__pg_value_get(tp__pg_value *value, const tp__columns *columns, void *ret_struct);
int64_t tp__pg_value_get_int(tp__pg_value *value);

/** Put an entry with its runs, and a turn with its steps. @return false: the record lacks a run or step that it
 *  counts. */
bool tp__pg_value_put_entry(tp__bytes *value, const tp_entry_record *record);
bool tp__pg_value_put_turn(tp__bytes *value, const tp_turn_record *record);

/** The runs or steps of a value, which are read into an array. Zero-filled at first. */
typedef struct tp__pg_parts {
  const tp__columns *columns;
  void *items; /* on the heap */
  size_t count, capacity;
} tp__pg_parts;
/** Reads the next parts, in place of those that were read before. @return false: there is no memory, or no valid
 *  value. */
bool tp__pg_parts_get(tp__pg_parts *parts, const tp__columns *columns, tp__pg_value *value);
void *tp__pg_part(const tp__pg_parts *parts, size_t index);
/** Fills a struct of the caller's as far as its struct_size reaches. @return false: there is no such part. */
bool tp__pg_part_show(const tp__pg_parts *parts, size_t index, void *theirs);
void tp__pg_parts_fini(tp__pg_parts *parts);

#endif
