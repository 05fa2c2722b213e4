/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/memory/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/common/data.h"
#include "cli/common/date.h"
#include "cli/common/erasure.h"
#include "cli/common/exit_status.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/common/quantity.h"
#include "cli/common/table.h"
#include "cli/hooks/hooks.h"
#include "cli/run/event.h"

enum { SEARCH_LIMIT = 10 };

/* ---- what several actions do ---- */

tp_memory_query cli_memory_query(const cli_memory *m, uint32_t limit) {
  const cli_arguments *a = m->arguments;
  return (tp_memory_query){.struct_size = sizeof(tp_memory_query),
                           .tenant = a->tenant,
                           .scope = a->scope,
                           .name = a->name,
                           .limit = cli_limit(a, limit)};
}

void cli_memory_add(cli_map *p, const tp_memory_entry *entry) {
  char said[CLI_DATE_SIZE];
  cli_date_write(entry->said_unix_ms, said);
  cli_map_add_int(p, "id", entry->id);
  cli_map_add_text(p, "tenant", entry->tenant);
  cli_map_add_text(p, "scope", entry->scope);
  cli_map_add_text(p, "name", entry->name);
  cli_map_add_text(p, "session", entry->session);
  cli_map_add_text(p, "turn", entry->turn);
  cli_map_add_text(p, "part", entry->part);
  cli_map_add_text(p, "speaker", entry->speaker);
  cli_map_add_string(p, "said", said);
  cli_map_add_int(p, "said_unix_ms", entry->said_unix_ms);
  cli_map_add_text(p, "text", entry->text);
  if (entry->subject.size) cli_map_add_text(p, "subject", entry->subject);
  if (entry->replaced_unix_ms) cli_map_add_int(p, "replaced_unix_ms", entry->replaced_unix_ms);
}

int cli_memory_print_json(const cli_memory *m, const tp_memory_entry *entry) {
  cli_map p = {0};
  cli_memory_add(&p, entry);
  if (entry->part_count) cli_map_add_double(&p, "score", entry->score);
  if (m->arguments->explain && entry->part_count) {
    cli_map_open(&p, "parts");
    for (size_t i = 0; i < entry->part_count; i++) cli_map_add_double(&p, tp_memory_part_name(i), entry->parts[i]);
    cli_map_close(&p);
  }
  return cli_map_print(&p, m->output);
}

static void put_scope(tp__bytes *bytes, tp_text tenant, tp_text scope, tp_text name) {
  tp__bytes_put_text(bytes, tenant);
  if (tenant.size) tp__bytes_put_string(bytes, "/");
  tp__bytes_put_text(bytes, scope);
  tp__bytes_put_string(bytes, ":");
  tp__bytes_put_text(bytes, name);
}

/* "user (fact about Ingrid, replaced 2026-11-22)". */
static void put_speaker(tp__bytes *bytes, const tp_memory_entry *entry) {
  char replaced[CLI_DATE_SIZE];
  tp__bytes_put_text(bytes, entry->speaker);
  if (!entry->subject.size) {
    bool is_noted = entry->part.size && strncmp(entry->part.data, "note-", 5) == 0;
    tp__bytes_put_string(bytes, is_noted ? " (noted)" : "");
    return;
  }
  cli_date_write(entry->replaced_unix_ms, replaced);
  tp__bytes_put_string(bytes, " (fact about ");
  tp__bytes_put_text(bytes, entry->subject);
  if (entry->replaced_unix_ms) tp__bytes_printf(bytes, ", replaced %.10s", replaced);
  tp__bytes_put_string(bytes, ")");
}

/* id, date and score, scope, session, speaker, text. Each entry is a table of its own, because no entry is known before
 * it comes. */
static void print_entry(cli_memory *m, const tp_memory_entry *entry) {
  static const cli_column columns[] = {{.head = "", .width = 8, .kind = CLI_COLUMN_RIGHT},
                                       {.head = ""},
                                       {.head = "", .rank = 2},
                                       {.head = "", .rank = 1},
                                       {.head = ""},
                                       {.head = "", .least = 44, .kind = CLI_COLUMN_TEXT}};
  enum { COLUMNS = sizeof columns / sizeof *columns };
  char id[32], said[CLI_DATE_SIZE], day[CLI_DATE_SIZE];
  tp__bytes scope = {0}, speaker = {0};
  snprintf(id, sizeof id, "%lld", (long long)entry->id);
  cli_date_write(entry->said_unix_ms, said);
  if (entry->part_count) snprintf(day, sizeof day, "%.10s  %6.3f", said, entry->score);
  else snprintf(day, sizeof day, "%.10s", said);
  put_scope(&scope, entry->tenant, entry->scope, entry->name);
  put_speaker(&speaker, entry);
  const cli_cell cells[COLUMNS] = {{tp_text_of(id), CLI_NORMAL},           {tp_text_of(day), CLI_NORMAL},
                                   {tp__bytes_text(&scope), CLI_NORMAL},   {entry->session, CLI_NORMAL},
                                   {tp__bytes_text(&speaker), CLI_NORMAL}, {entry->text, CLI_NORMAL}};
  cli_table table;
  cli_table_begin(&table, m->output, columns, COLUMNS, 0);
  cli_table_row(&table, cells);
  cli_table_end(&table);
  tp__bytes_fini(&scope);
  tp__bytes_fini(&speaker);
  for (size_t i = 0; m->arguments->explain && i < entry->part_count; i++)
    if (entry->parts[i] != 0)
      cli_printf(m->output, "          %+7.3f  %-8s  %s\n", entry->parts[i], tp_memory_part_name(i),
                 tp_memory_part_summary(i));
}

static bool on_entry(void *ctx, const tp_memory_entry *entry) {
  cli_memory *m = ctx;
  m->count++;
  if (m->arguments->json) cli_memory_print_json(m, entry);
  else print_entry(m, entry);
  return true;
}

static int exit_of(tp_status status, const tp_fault *fault) {
  if (status == TP_OK) return CLI_OK;
  if (status != TP_ERR_NOT_FOUND) return cli_fault(NULL, status, fault);
  cli_error("%s; memory list shows what there is", fault->message);
  return CLI_NEGATIVE;
}

/* ---- the actions ---- */

/* Reads "12" or "memory:12". @return 0 after a message about the error. */
static int64_t read_id(const char *word) {
  const char *digits = strncmp(word, "memory:", 7) == 0 ? word + 7 : word;
  size_t count = strspn(digits, "0123456789");
  int64_t id = count > 0 && count < 19 && !digits[count] ? strtoll(digits, NULL, 10) : 0;
  if (id <= 0) cli_error("'%s' is no id of a memory: give 12 or memory:12", word);
  return id;
}

static int list_memories(cli_memory *m) {
  tp_fault fault = {0};
  tp_memory_query query = cli_memory_query(m, CLI_LIMIT);
  if (m->arguments->before && !(query.beyond = read_id(m->arguments->before))) return CLI_USAGE;
  int status = exit_of(tp_memory_list(m->memory, &query, on_entry, m, &fault), &fault);
  if (status == CLI_OK && m->count == 0 && !m->arguments->json) cli_error("no memory fits in %s", m->path);
  return status;
}

static int search(cli_memory *m) {
  tp_fault fault = {0};
  tp_memory_query query = cli_memory_query(m, SEARCH_LIMIT);
  tp_text text = tp_text_of(m->arguments->operands[2]);
  if (!tp_utf8_valid(text, NULL)) {
    cli_error("the text is not UTF-8");
    return CLI_USAGE;
  }
  tp_status status = tp_memory_search(m->memory, &query, text, on_entry, m, &fault);
  int exit_status = exit_of(status, &fault);
  if (exit_status != CLI_OK || m->count > 0) return exit_status;
  cli_error("no memory in %s fits '%s'; see: turnphase memory list %s", m->path, m->arguments->operands[2], m->path);
  return CLI_NEGATIVE;
}

static int show_memory(cli_memory *m) {
  tp_fault fault = {0};
  int64_t id = read_id(m->arguments->operands[2]);
  if (!id) return CLI_USAGE;
  return exit_of(tp_memory_get(m->memory, id, on_entry, m, &fault), &fault);
}

static int delete_memory(cli_memory *m) {
  tp_fault fault = {0};
  int64_t id = read_id(m->arguments->operands[2]);
  if (!id) return CLI_USAGE;
  tp_status status = tp_memory_forget(m->memory, id, &fault);
  if (status != TP_OK) return exit_of(status, &fault);
  if (!m->arguments->json) {
    cli_printf(m->output, "forgotten: memory:%lld\n", (long long)id);
    return CLI_OK;
  }
  cli_map p = {0};
  cli_map_add_int(&p, "forgotten", id);
  return cli_map_print(&p, m->output);
}

/* ---- stats ---- */

/** The scopes that the options name, while they are being counted. */
typedef struct stats {
  cli_memory *m;
  cli_map *map; /* has the list of scopes; NULL: a table */
  size_t scopes;
  int64_t memories;
  bool counts_only;
} stats;

static bool name_fits(tp_text text, const char *wanted) { return !wanted || cli_text_is(text, wanted); }

static bool on_scope(void *ctx, const tp_memory_scope *scope) {
  stats *s = ctx;
  const cli_arguments *a = s->m->arguments;
  if (!name_fits(scope->tenant, a->tenant) || !name_fits(scope->scope, a->scope) || !name_fits(scope->name, a->name))
    return true;
  s->scopes += s->counts_only;
  s->memories += s->counts_only ? scope->memories : 0;
  if (s->counts_only) return true;
  if (!s->map) {
    tp__bytes name = {0};
    put_scope(&name, scope->tenant, scope->scope, scope->name);
    cli_cell_right(s->m->output, cli_count((uint64_t)scope->memories).text, 12);
    cli_print_string(s->m->output, "  ");
    cli_hooks_print_text(s->m->output, tp__bytes_text(&name));
    cli_print_string(s->m->output, "\n");
    tp__bytes_fini(&name);
    return true;
  }
  cli_map_open(s->map, NULL);
  cli_map_add_text(s->map, "tenant", scope->tenant);
  cli_map_add_text(s->map, "scope", scope->scope);
  cli_map_add_text(s->map, "name", scope->name);
  cli_map_add_int(s->map, "memories", scope->memories);
  cli_map_close(s->map);
  return true;
}

static int64_t size_of(const char *path, const char *ending) {
  struct stat found;
  char name[4096];
  snprintf(name, sizeof name, "%s%s", path, ending);
  return stat(name, &found) == 0 ? (int64_t)found.st_size : 0;
}

static const char *of_memories(int64_t count) { return count == 1 ? "memory" : "memories"; }

static int show_stats(cli_memory *m) {
  tp_fault fault = {0};
  stats s = {.m = m, .counts_only = true};
  int64_t file_bytes = size_of(m->path, ""), log_bytes = size_of(m->path, "-wal");
  tp_status status = tp_memory_scopes(m->memory, on_scope, &s, &fault);
  if (status != TP_OK) return exit_of(status, &fault);
  s.counts_only = false;
  if (!m->arguments->json) {
    cli_printf(m->output, "%s: %lld %s in %zu %s, %lld bytes", m->path, (long long)s.memories, of_memories(s.memories),
               s.scopes, s.scopes == 1 ? "scope" : "scopes", (long long)file_bytes);
    cli_printf(m->output, ", %lld in the write-ahead log\n", (long long)log_bytes);
    return exit_of(tp_memory_scopes(m->memory, on_scope, &s, &fault), &fault);
  }
  cli_map p = {0};
  s.map = &p;
  cli_map_add_string(&p, "file", m->path);
  cli_map_add_int(&p, "file_bytes", file_bytes);
  cli_map_add_int(&p, "log_bytes", log_bytes);
  cli_map_add_int(&p, "memories", s.memories);
  cli_map_open_list(&p, "scopes");
  status = tp_memory_scopes(m->memory, on_scope, &s, &fault);
  cli_map_close(&p);
  if (status == TP_OK) return cli_map_print(&p, m->output);
  cli_map_clear(&p);
  return exit_of(status, &fault);
}

/* ---- the command ---- */

enum { TAKES_LIMIT = 1, TAKES_BEFORE = 2, TAKES_EXPLAIN = 4, TAKES_SCOPE = 8, TAKES_SECRETS = 16 };

static const struct action {
  const char *name;
  size_t least, most; /* operands after the action */
  unsigned takes;
  bool opens; /* the action opens the file itself, and creates it when there is none */
  const char *usage;
  int (*run)(cli_memory *m);
} actions[] = {
    {"list", 1, 1, TAKES_LIMIT | TAKES_BEFORE | TAKES_SCOPE, false, "DATA", list_memories},
    {"search", 2, 2, TAKES_LIMIT | TAKES_EXPLAIN | TAKES_SCOPE, false, "DATA TEXT", search},
    {"show", 2, 2, 0, false, "DATA ID", show_memory},
    {"forget", 2, 2, 0, false, "DATA ID", delete_memory},
    {"export", 1, 1, TAKES_SCOPE, false, "DATA", cli_memory_export},
    {"import", 1, 2, TAKES_SECRETS, true, "DATA [FILE.jsonl]", cli_memory_import},
    {"stats", 1, 1, TAKES_SCOPE, false, "DATA", show_stats},
};

enum { ACTIONS = sizeof actions / sizeof actions[0] };

/* An option that only another action has is refused, not ignored. */
static int check_memory_options(const struct action *action, const cli_arguments *a) {
  const char *foreign = a->limit != CLI_LIMIT_NOT_GIVEN && !(action->takes & TAKES_LIMIT) ? "--limit"
                        : a->before && !(action->takes & TAKES_BEFORE)                    ? "--before"
                        : a->explain && !(action->takes & TAKES_EXPLAIN)                  ? "--explain"
                        : a->keep_secrets && !(action->takes & TAKES_SECRETS)             ? "--keep-secrets"
                        : a->tenant && !(action->takes & TAKES_SCOPE)                     ? "--tenant"
                        : a->scope && !(action->takes & TAKES_SCOPE)                      ? "--scope"
                        : a->name && !(action->takes & TAKES_SCOPE)                       ? "--name"
                                                                                          : NULL;
  if (!foreign) return CLI_OK;
  cli_error("memory %s does not take %s", action->name, foreign);
  return CLI_USAGE;
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* The file itself, or memory.db in a data directory. An action that only reads never creates a file. If a file must be
 * created, a name that ends in .db is the file's. */
static int find_file(const char *data, bool makes, bool *ret_in_directory, char **ret_path) {
  struct stat found;
  bool is_there = stat(data, &found) == 0;
  bool is_directory = is_there ? S_ISDIR(found.st_mode) : makes && !ends_with(data, ".db");
  if (is_directory) cli_erasure_warn(data);
  if (is_directory && !makes) return cli_data_find(data, "memory.db", ret_path);
  char *path = is_directory ? cli_data_path(data, "memory.db") : strdup(data);
  if (!path) cli_need(TP_ERR_NO_MEMORY);
  if (!makes && stat(path, &found) != 0) {
    cli_error_at(path, 0, 0, "%s", strerror(errno));
    free(path);
    return CLI_IO;
  }
  *ret_in_directory = is_directory;
  *ret_path = path;
  return CLI_OK;
}

static int run_action(const struct action *action, const cli_arguments *arguments, cli_output *output) {
  tp_fault fault = {0};
  char *path;
  bool in_directory = false;
  int status = find_file(arguments->operands[1], action->opens, &in_directory, &path);
  if (status != CLI_OK) return status;
  cli_memory m = {.arguments = arguments,
                  .output = output,
                  .path = path,
                  .makes = action->opens && in_directory ? arguments->operands[1] : NULL};
  tp_status opened = action->opens ? TP_OK : tp_memory_open(path, &m.memory, &fault);
  status = opened == TP_OK ? action->run(&m) : cli_fault(path, opened, &fault);
  tp_memory_close(m.memory);
  free(path);
  return status;
}

int cli_memory_command(const cli_arguments *arguments, cli_output *output) {
  for (size_t i = 0; i < ACTIONS; i++) {
    const struct action *action = &actions[i];
    if (strcmp(action->name, arguments->operand) != 0) continue;
    size_t given = arguments->operand_count - 1;
    if (given < action->least || given > action->most) {
      cli_error("usage: turnphase memory %s %s", action->name, action->usage);
      return CLI_USAGE;
    }
    int status = check_memory_options(action, arguments);
    return status == CLI_OK ? run_action(action, arguments, output) : status;
  }
  return CLI_USAGE; /* never reached: the command table has the same actions */
}
