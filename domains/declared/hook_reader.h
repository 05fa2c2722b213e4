/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_reader: shared by the sources that read a hook's file: the state of reading, and the keys of its maps
 * (hook_keys.def). Each key is read once, with its place for errors; an unknown key is refused. */
#ifndef TP__DECLARED_HOOK_READER_H
#define TP__DECLARED_HOOK_READER_H

#include "domains/declared/hook.h"
#include "domains/declared/yaml.h"

typedef struct tp__hook_reader {
  tp_hooks *hooks;
  tp__yaml yaml;
  const char *file;
  tp_fault *fault;
} tp__hook_reader;

/** Refuses the content of an item of the file. */
#define REFUSE(reader, code, index, ...) \
  tp__refuse_at((reader)->fault, (code), (reader)->file, (reader)->yaml.items[index].place, __VA_ARGS__)
tp_status tp__reader_no_memory(tp__hook_reader *reader);

/* ---- keys ---- */

/** The maps that have keys. */
typedef enum tp__hook_map {
  TP__MAP_HOOK,
  TP__MAP_TOOL,
  TP__MAP_MATCH,
  TP__MAP_HANDLER,
  TP__MAP_PERMISSIONS,
  TP__MAP_CONDITION,
  TP__MAP_SANDBOX,
  TP__MAP_TOOL_NAME /* how a tool is called by another host */
} tp__hook_map;

/** What has the members that keys fill. */
typedef enum tp__hook_owner {
  TP__OWNER_tp__hook,
  TP__OWNER_tp_tool,
  TP__OWNER_tp__permissions,
  TP__OWNER_tp__condition,
  TP__OWNER_tp__sandbox,
  TP__OWNER_tp__tool_name
} tp__hook_owner;

/** Iterates over the names of the keys of a map, in the order of hook_keys.def. @param at  0 at first.
 *  @return NULL after the last. */
const char *tp__hook_key_next(tp__hook_map map, size_t *at);
/** Checks that an item is a map, and has no unknown keys. @param what  the name of the thing, such as "a hook". */
tp_status tp__reader_expect_map(tp__hook_reader *reader, uint32_t index, const char *what, tp__hook_map map);
/** Reads into a struct each key of the map that fills a member of it, except keys of the kind OWN. A missing key leaves
 *  its member unchanged. */
tp_status tp__reader_get_keys(tp__hook_reader *reader, uint32_t index, tp__hook_map map, tp__hook_owner owner,
                              void *members);

/* ---- items: an index in the file ---- */

/** @param what  the end of the message "KEY must be …", such as "true or false". */
tp_status tp__reader_expect(tp__hook_reader *reader, uint32_t index, const char *key, tp_value_kind kind,
                            const char *what);
/** Reads a text without a NUL. @param ret_text  belongs to the hooks. */
tp_status tp__reader_take_text(tp__hook_reader *reader, uint32_t index, const char *key, const char **ret_text);

/* ---- members of a map. If the key is missing: TP_OK, and nothing is set ---- */

tp_status tp__reader_get_text(tp__hook_reader *reader, uint32_t map, const char *key, const char **ret_text);
tp_status tp__reader_get_bool(tp__hook_reader *reader, uint32_t map, const char *key, bool *ret_bool);
tp_status tp__reader_get_number(tp__hook_reader *reader, uint32_t map, const char *key, int64_t least, int64_t most,
                                int64_t *ret_number);
/** Reads a text, or a list of texts. @param ret_index  the item; 0 without the key. */
tp_status tp__reader_get_texts(tp__hook_reader *reader, uint32_t map, const char *key, const char **items, size_t max,
                               size_t *ret_count, uint32_t *ret_index);

/* ---- parts of a file, each in a source of its own ---- */

/** hook_read_match.c: `match`, and the conditions of the event itself. Called after the event was read. */
tp_status tp__hook_read_match(tp__hook_reader *reader, tp__hook *hook);
/** Stores a match as text. @param keys  the keys to include, with blanks between them; NULL: all. */
tp_status tp__hook_describe_match(tp__hook_reader *reader, tp__hook *hook, uint32_t map, const char *keys);

/** hook_read_handler.c: the first reads `handler`; the second reads the program of a tool. */
tp_status tp__hook_read_handler(tp__hook_reader *reader, tp__hook *hook);
/** `env` and `pass_env`. Before what is run. */
tp_status tp__hook_read_variables(tp__hook_reader *reader, tp__hook *hook);
tp_status tp__hook_read_command(tp__hook_reader *reader, tp__hook *hook, uint32_t map);
tp_status tp__hook_read_sandbox(tp__hook_reader *reader, tp__hook *hook, uint32_t map);

#endif
