/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_reader.c: see hook_reader.h. */
#include "domains/declared/hook_reader.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "domains/declared/hook_protocol.h"
#include "domains/declared/hook_tool.h"

tp_status tp__reader_no_memory(tp__hook_reader *reader) {
  return tp__refuse(reader->fault, TP_ERR_NO_MEMORY, reader->file, "no memory for a hook");
}

tp_status tp__reader_expect(tp__hook_reader *reader, uint32_t index, const char *key, tp_value_kind kind,
                            const char *what) {
  if (reader->yaml.items[index].kind == kind) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, index, "%s must be %s", key, what);
}

tp_status tp__reader_take_text(tp__hook_reader *reader, uint32_t index, const char *key, const char **ret_text) {
  TP__TRY(tp__reader_expect(reader, index, key, TP_VALUE_TEXT, "text: put it into quotes"));
  tp_text text = tp__yaml_text(&reader->yaml, index);
  if (memchr(text.data, '\0', text.size)) return REFUSE(reader, TP_ERR_MALFORMED, index, "%s has a NUL in it", key);
  *ret_text = tp__hooks_copy(reader->hooks, text);
  return *ret_text ? TP_OK : tp__reader_no_memory(reader);
}

tp_status tp__reader_get_text(tp__hook_reader *reader, uint32_t map, const char *key, const char **ret_text) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, key);
  return index == 0 ? TP_OK : tp__reader_take_text(reader, index, key, ret_text);
}

tp_status tp__reader_get_bool(tp__hook_reader *reader, uint32_t map, const char *key, bool *ret_bool) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, key);
  if (index == 0) return TP_OK;
  TP__TRY(tp__reader_expect(reader, index, key, TP_VALUE_BOOL, "true or false"));
  *ret_bool = reader->yaml.items[index].as.boolean;
  return TP_OK;
}

tp_status tp__reader_get_number(tp__hook_reader *reader, uint32_t map, const char *key, int64_t least, int64_t most,
                                int64_t *ret_number) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, key);
  if (index == 0) return TP_OK;
  TP__TRY(tp__reader_expect(reader, index, key, TP_VALUE_INT, "an integer"));
  *ret_number = reader->yaml.items[index].as.integer;
  if (*ret_number >= least && *ret_number <= most) return TP_OK;
  return REFUSE(reader, TP_ERR_MALFORMED, index, "%s must be from %lld to %lld", key, (long long)least,
                (long long)most);
}

/* A text, or a list of them. */
tp_status tp__reader_get_texts(tp__hook_reader *reader, uint32_t map, const char *key, const char **items, size_t max,
                               size_t *ret_count, uint32_t *ret_index) {
  uint32_t index = tp__yaml_get(&reader->yaml, map, key);
  *ret_index = index;
  if (index == 0) return TP_OK;
  const tp__yaml_item *item = &reader->yaml.items[index];
  if (item->kind == TP_VALUE_TEXT) {
    *ret_count = 1;
    return tp__reader_take_text(reader, index, key, &items[0]);
  }
  TP__TRY(tp__reader_expect(reader, index, key, TP_VALUE_ARRAY, "text or a list of texts"));
  if (item->count > max) return REFUSE(reader, TP_ERR_TOO_LARGE, index, "%s has more than %zu items", key, max);
  for (uint32_t at = index + 1; at < reader->yaml.items[index].end; at = reader->yaml.items[at].end) {
    TP__TRY(tp__reader_take_text(reader, at, key, &items[*ret_count]));
    (*ret_count)++;
  }
  return TP_OK;
}

static tp_status get_patterns(tp__hook_reader *reader, uint32_t map, const char *key, tp__patterns *patterns) {
  uint32_t index;
  TP__TRY(tp__reader_get_texts(reader, map, key, patterns->items, TP__HOOK_PATTERNS_MAX, &patterns->count, &index));
  for (size_t i = 0; i < patterns->count; i++) {
    if (strlen(patterns->items[i]) > TP_PATTERN_BYTES_MAX)
      return REFUSE(reader, TP_ERR_TOO_LARGE, index, "a pattern of %s is longer than %d bytes", key,
                    TP_PATTERN_BYTES_MAX);
  }
  return TP_OK;
}

static tp_status get_edges(tp__hook_reader *reader, uint32_t map, const char *key, tp__edges *edges) {
  const char *targets[TP__HOOK_EDGES_MAX];
  size_t count = 0;
  uint32_t index;
  TP__TRY(tp__reader_get_texts(reader, map, key, targets, TP__HOOK_EDGES_MAX, &count, &index));
  for (size_t i = 0; i < count; i++) {
    edges->items[i] = (tp_edge){.struct_size = sizeof edges->items[i], .target = targets[i]};
    edges->list[i] = &edges->items[i];
  }
  edges->count = count;
  return TP_OK;
}

/* ---- keys ---- */

/* The way in which a key is read. The type of the member is in parentheses. */
enum kind {
  KIND_OWN,      /* by a function of its own */
  KIND_TEXT,     /* (const char *) */
  KIND_FLAG,     /* (bool) */
  KIND_I32,      /* (int32_t) from least to most, and so on */
  KIND_U32,      /* (uint32_t) */
  KIND_I64,      /* (int64_t) */
  KIND_PATTERNS, /* (tp__patterns) a pattern, or a list of them */
  KIND_EDGES     /* (tp__edges) an id, or a list of them */
};
/* If the member has another type, this does not compile. */
#define FITS_OWN(member) true
#define FITS_TEXT(member) _Generic(member, const char * : true)
#define FITS_FLAG(member) _Generic(member, bool : true)
#define FITS_I32(member) _Generic(member, int32_t : true)
#define FITS_U32(member) _Generic(member, uint32_t : true)
#define FITS_I64(member) _Generic(member, int64_t : true)
#define FITS_PATTERNS(member) _Generic(member, tp__patterns : true)
#define FITS_EDGES(member) _Generic(member, tp__edges : true)

static const struct key {
  tp__hook_map map;
  const char *name;
  enum kind kind;
  tp__hook_owner owner;
  size_t offset; /* of the member in its owner */
  int64_t least, most;
} keys[] = {
#define KEY(map, name, kind, owner, member, least, most)            \
  {TP__MAP_##map,                                                   \
   #name,                                                           \
   KIND_##kind,                                                     \
   TP__OWNER_##owner,                                               \
   FITS_##kind(((owner *)0)->member) ? offsetof(owner, member) : 0, \
   least,                                                           \
   most},
#include "domains/declared/hook_keys.def"
#undef KEY
};
enum { KEY_COUNT = sizeof keys / sizeof keys[0] };

const char *tp__hook_key_next(tp__hook_map map, size_t *at) {
  while (*at < KEY_COUNT && keys[*at].map != map) (*at)++;
  return *at < KEY_COUNT ? keys[(*at)++].name : NULL;
}

tp_status tp__reader_expect_map(tp__hook_reader *reader, uint32_t index, const char *what, tp__hook_map map) {
  tp__bytes known = {0};
  size_t at = 0;
  TP__TRY(tp__reader_expect(reader, index, what, TP_VALUE_MAP, "a map"));
  for (const char *name; (name = tp__hook_key_next(map, &at));)
    tp__bytes_printf(&known, "%s%s", known.size > 0 ? ", " : "", name);
  tp__bytes_put(&known, "", 1);
  tp_status status = known.failed
                         ? tp__reader_no_memory(reader)
                         : tp__yaml_check_map(&reader->yaml, index, what, known.data, reader->file, reader->fault);
  tp__bytes_fini(&known);
  return status;
}

static tp_status get_number(tp__hook_reader *reader, uint32_t index, const struct key *key, void *member) {
  int64_t number;
  if (tp__yaml_get(&reader->yaml, index, key->name) == 0) return TP_OK;
  TP__TRY(tp__reader_get_number(reader, index, key->name, key->least, key->most, &number));
  if (key->kind == KIND_I64) *(int64_t *)member = number;
  else if (key->kind == KIND_I32) *(int32_t *)member = (int32_t)number;
  else *(uint32_t *)member = (uint32_t)number;
  return TP_OK;
}

static tp_status get_key(tp__hook_reader *reader, uint32_t index, const struct key *key, void *member) {
  switch (key->kind) {
    case KIND_OWN:
      return TP_OK;
    case KIND_TEXT:
      return tp__reader_get_text(reader, index, key->name, member);
    case KIND_FLAG:
      return tp__reader_get_bool(reader, index, key->name, member);
    case KIND_PATTERNS:
      return get_patterns(reader, index, key->name, member);
    case KIND_EDGES:
      return get_edges(reader, index, key->name, member);
    default:
      return get_number(reader, index, key, member);
  }
}

tp_status tp__reader_get_keys(tp__hook_reader *reader, uint32_t index, tp__hook_map map, tp__hook_owner owner,
                              void *members) {
  for (size_t i = 0; i < KEY_COUNT; i++) {
    if (keys[i].map != map || keys[i].owner != owner) continue;
    TP__TRY(get_key(reader, index, &keys[i], (char *)members + keys[i].offset));
  }
  return TP_OK;
}
