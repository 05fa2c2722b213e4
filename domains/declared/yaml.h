/* SPDX-License-Identifier: Apache-2.0
 *
 * yaml: one YAML document as a flat list of items, each with its place, so that a reader of files of a known form can
 * refuse unknown items with line and column. Items are in the order of the text: a container, then everything in it. */
#ifndef TP__DECLARED_YAML_H
#define TP__DECLARED_YAML_H

#include "support/bytes.h"
#include "support/fault.h"
#include "turnphase/declared.h"

enum { TP__YAML_BYTES_MAX = 16 << 20, TP__YAML_ITEMS_MAX = 1 << 20, TP__YAML_DEPTH_MAX = 32 };

/** A scalar, or the head of a container. In a map each value follows its key, which is text. */
typedef struct tp__yaml_item {
  tp_value_kind kind;
  tp__place place;
  uint32_t count; /* elements of an array, pairs of a map */
  uint32_t end;   /* the index after this item and everything in it */
  union {
    bool boolean;
    int64_t integer;
    double real;
    struct {
      uint32_t offset, size;
    } text;
  } as;
} tp__yaml_item;

typedef struct tp__yaml {
  const tp_allocator *allocator;
  tp__yaml_item *items; /* the root is at 0 */
  size_t count, items_capacity;
  char *text; /* of all text items */
  size_t text_size, text_capacity;
} tp__yaml;

/** Reads and checks the whole document. @param allocator  kept until tp__yaml_fini().
 *  @return as tp_yaml_decode(); on failure there is nothing to free. */
tp_status tp__yaml_read(tp_text yaml, const char *name, const tp_allocator *allocator, tp__yaml *ret_yaml,
                        tp_fault *fault);
void tp__yaml_fini(tp__yaml *yaml);

/** The text of a text item; borrowed until tp__yaml_fini(). */
tp_text tp__yaml_text(const tp__yaml *yaml, uint32_t index);
/** The index of the value under a key of a map; 0 when there is none (the root is never the value of a key). */
uint32_t tp__yaml_get(const tp__yaml *yaml, uint32_t map, const char *key);
/** Refuses a map that has a key which is not among the known ones.
 *  @param known  their names, separated by ", ". @param name  the fault's subject. */
tp_status tp__yaml_check_map(const tp__yaml *yaml, uint32_t map, const char *what, const char *known, const char *name,
                             tp_fault *fault);
/** Writes the item with all that is in it. */
void tp__yaml_write(const tp__yaml *yaml, uint32_t index, tp_writer *writer);

/** Fills `kind` and `as` with the meaning of a plain scalar in YAML's core schema; for text only `kind`.
 *  @param text  followed by a NUL.
 *  @return TP_OK; TP_ERR_MALFORMED for a number out of range; TP_ERR_NO_MEMORY. */
tp_status tp__yaml_resolve(const char *text, size_t size, tp__yaml_item *item);

/** tp_script_model_load(); temporary memory comes from allocator. */
tp_status tp__script_model_load(tp_text yaml, const char *name, const tp_allocator *allocator, tp_model **ret_model,
                                tp_fault *fault);

#endif
