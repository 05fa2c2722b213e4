/* SPDX-License-Identifier: Apache-2.0
 *
 * Export and import: JSON Lines, one entry each, the oldest first. A file is read and checked as a whole before
 * anything is stored. Then it is stored in batches, each completely or not at all. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/data.h"
#include "cli/common/date.h"
#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/memory/memory.h"
#include "cli/run/event.h"

enum { PAGE = 1000, BATCH = 1000 };

/* ---- export ---- */

typedef struct page {
  cli_memory *m;
  int64_t last;
  size_t count;
  int status;
} page;

static bool on_exported(void *ctx, const tp_memory_entry *entry) {
  page *p = ctx;
  p->status = cli_memory_print_json(p->m, entry);
  p->last = entry->id;
  p->count++;
  return p->status == CLI_OK && p->m->output->error == 0;
}

int cli_memory_export(cli_memory *m) {
  page p = {.m = m, .count = PAGE};
  while (p.status == CLI_OK && p.count == PAGE) {
    tp_fault fault = {0};
    tp_memory_query query = cli_memory_query(m, PAGE);
    query.beyond = p.last;
    query.oldest_first = true;
    p.count = 0;
    tp_status status = tp_memory_list(m->memory, &query, on_exported, &p, &fault);
    if (status != TP_OK) return cli_fault(NULL, status, &fault);
  }
  return p.status;
}

/* ---- import ---- */

/** What was read so far. */
typedef struct incoming {
  const char *file;
  uint32_t line;
  cli_pool pool;
  tp_memory_entry *entries;
  size_t count, capacity;
} incoming;

static int refuse_line(const incoming *in, const char *key, const char *words) {
  cli_error_at(in->file, in->line, 0, "%s %s", key, words);
  return CLI_CONFIG;
}

static int take_member_text(incoming *in, const char *key, tp_text value, tp_text *ret_text) {
  enum { NAME_BYTES_MAX = 4096, TEXT_BYTES_MAX = 128 * 1024 };
  const bool is_text = strcmp(key, "text") == 0;
  tp_text text = tp_value_text(value);
  if (tp_value_kind_of(value) != TP_VALUE_TEXT) return refuse_line(in, key, "must be text");
  if (text.size > (size_t)(is_text ? TEXT_BYTES_MAX : NAME_BYTES_MAX))
    return refuse_line(in, key, is_text ? "has more than 131072 bytes" : "has more than 4096 bytes");
  *ret_text = (tp_text){cli_pool_copy(&in->pool, text), text.size};
  return CLI_OK;
}

static int take_pair(incoming *in, tp_text key, tp_text value, tp_memory_entry *entry, tp_text *ret_said) {
  const struct {
    const char *key;
    tp_text *text;
  } texts[] = {{"tenant", &entry->tenant},   {"scope", &entry->scope}, {"name", &entry->name},
               {"session", &entry->session}, {"turn", &entry->turn},   {"part", &entry->part},
               {"text", &entry->text},       {"said", ret_said},       {"subject", &entry->subject}};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    if (cli_text_is(key, texts[i].key)) return take_member_text(in, texts[i].key, value, texts[i].text);
  if (cli_text_is(key, "said_unix_ms")) {
    entry->said_unix_ms = tp_value_int(value, -1);
    return entry->said_unix_ms > 0 ? CLI_OK : refuse_line(in, "said_unix_ms", "must be a whole number above 0");
  }
  if (cli_text_is(key, "replaced_unix_ms")) {
    entry->replaced_unix_ms = tp_value_int(value, -1);
    return entry->replaced_unix_ms > 0 ? CLI_OK : refuse_line(in, "replaced_unix_ms", "must be a whole number above 0");
  }
  if (cli_text_is(key, "id") || cli_text_is(key, "speaker") || cli_text_is(key, "score") || cli_text_is(key, "parts"))
    return CLI_OK; /* derived */
  cli_error_at(in->file, in->line, 0, "a memory has no key \"%.*s\"", (int)(key.size < 64 ? key.size : 64), key.data);
  return CLI_CONFIG;
}

static bool is_scope(tp_text scope) {
  return cli_text_is(scope, "user") || cli_text_is(scope, "workspace") || cli_text_is(scope, "thread") ||
         cli_text_is(scope, "agent") || cli_text_is(scope, "task");
}

static int take_moved_entry(void *ctx, tp_text map) {
  incoming *in = ctx;
  tp_memory_entry entry = {.struct_size = sizeof entry};
  tp_text said = {0};
  int status = CLI_OK;
  if (tp_value_kind_of(map) != TP_VALUE_MAP) return refuse_line(in, "a memory", "must be a map");
  for (tp_value_walk walk = {0}; status == CLI_OK && tp_value_next(map, &walk);)
    status = take_pair(in, walk.key, walk.value, &entry, &said);
  if (status != CLI_OK) return status;
  if (!is_scope(entry.scope)) return refuse_line(in, "scope", "must be user, workspace, thread, agent or task");
  if (cli_is_blank(entry.text)) return refuse_line(in, "text", "must not be blank");
  if (!entry.said_unix_ms && (!cli_date_read(said, &entry.said_unix_ms) || entry.said_unix_ms <= 0))
    return refuse_line(in, "said", "must be a date such as 2023-05-08T13:56:00Z, unless there is said_unix_ms");
  in->entries = cli_reserve(in->entries, in->count, &in->capacity, sizeof *in->entries);
  in->entries[in->count++] = entry;
  return CLI_OK;
}

static int import_entries(cli_memory *m, const incoming *in, size_t *ret_secrets) {
  const tp_memory_import_options options = {.struct_size = sizeof options, .keep_secrets = m->arguments->keep_secrets};
  *ret_secrets = 0;
  for (size_t from = 0; from < in->count; from += BATCH) {
    const tp_memory_entry *batch[BATCH];
    size_t count = in->count - from < BATCH ? in->count - from : BATCH;
    for (size_t i = 0; i < count; i++) batch[i] = &in->entries[from + i];
    tp_fault fault = {0};
    size_t secrets = 0;
    tp_status status = tp_memory_import_with(m->memory, &options, batch, count, &secrets, &fault);
    *ret_secrets += secrets;
    if (status == TP_OK) continue;
    int exit_status = cli_fault(NULL, status, &fault);
    cli_error("%zu of %zu memories are kept; import the file again to keep the rest", from, in->count);
    return exit_status;
  }
  return CLI_OK;
}

static int print_count(cli_memory *m, size_t count, size_t secrets) {
  if (!m->arguments->json) {
    if (secrets) cli_error("%zu secrets were replaced, as in [redacted:key]; --keep-secrets keeps them", secrets);
    cli_printf(m->output, "imported: %zu %s\n", count, count == 1 ? "memory" : "memories");
    return CLI_OK;
  }
  cli_map p = {0};
  cli_map_add_int(&p, "imported", (int64_t)count);
  cli_map_add_int(&p, "secrets", (int64_t)secrets);
  return cli_map_print(&p, m->output);
}

int cli_memory_import(cli_memory *m) {
  const char *file = m->arguments->operand_count > 2 ? m->arguments->operands[2] : NULL;
  incoming in = {.file = cli_input_name(file)};
  tp_text text;
  int status = cli_input_read(file, &text);
  if (status != CLI_OK) return status;
  status = cli_input_lines(in.file, text, &in.line, take_moved_entry, &in);
  tp_fault fault = {0};
  if (status == CLI_OK && m->makes) status = cli_data_make(m->makes);
  tp_status opened = status == CLI_OK ? tp_memory_open(m->path, &m->memory, &fault) : TP_OK;
  if (opened != TP_OK) status = cli_fault(m->path, opened, &fault);
  size_t secrets = 0;
  if (status == CLI_OK) status = import_entries(m, &in, &secrets);
  if (status == CLI_OK) status = print_count(m, in.count, secrets);
  free((void *)(uintptr_t)text.data);
  free(in.entries);
  cli_pool_free(&in.pool);
  return status;
}
