/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks_list.c: the action list. The hooks are in the order of their phases, those of one event together, each with its
 * whole match. -v adds the policies of each hook and what it runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/common/quantity.h"
#include "cli/common/table.h"
#include "cli/hooks/hooks.h"
#include "cli/run/payload.h"
#include "runtime/base/check.h"

/* When lines are folded, the columns before the match take no more than this; a longer cell moves only its own row. */
enum { COLUMNS = 5, MATCH = COLUMNS - 1, COLUMNS_OF_ALL = 10, INDENT = 4 };
enum { ID_WIDTH_MAX = 24, EVENT_WIDTH_MAX = 16, MATCH_WIDTH = 16 };

typedef struct row {
  uint32_t phase;
  size_t index; /* of its file */
  const char *event;
  const char *cells[COLUMNS_OF_ALL];
} row;

typedef struct listing {
  const cli_hooks_opened *opened;
  cli_output *output;
  cli_pool pool;
  row *rows;
  size_t count, capacity;
  cli_map *map; /* with --json */
} listing;

static const tp_phase *phase_of(const listing *l, const tp_hook_info *info) {
  return tp_phase_get(l->opened->runtime, info->phase);
}

/* The policy in force: the hook's own, else the phase's. */
static const char *policy_of(const listing *l, const tp_hook_info *info) {
  tp_failure failure = info->failure ? info->failure : phase_of(l, info)->failure;
  return tp_failure_name(failure ? failure : TP_FAILURE_BEST_EFFORT);
}

static uint32_t limit_of(const listing *l, const tp_hook_info *info) {
  uint32_t of_phase = phase_of(l, info)->limit_ms;
  return info->limit_ms ? info->limit_ms : of_phase && info->blocking ? of_phase : info->blocking ? 5000 : 30000;
}

/* The hook's own limit, or its phase's. A hook that fails open does not raise the phase's limit
 * (docs/decisions/import_limits.md). */
static const char *limit_words(listing *l, const tp_hook_info *info) {
  enum { PHASE_MS = 30000 };
  char words[48];
  uint32_t own_ms = limit_of(l, info);
  bool is_cut = info->blocking && own_ms > PHASE_MS && strcmp(policy_of(l, info), "required") != 0;
  if (is_cut) snprintf(words, sizeof words, "%d ms (of %u)", PHASE_MS, own_ms);
  else snprintf(words, sizeof words, "%u ms", own_ms);
  return cli_pool_copy(&l->pool, tp_text_of(words));
}

static const char *runs(listing *l, const tp_hook_info *info) {
  tp__bytes text = {0};
  assert(info->kind && info->target);
  tp__bytes_printf(&text, "%s %s", info->kind, info->target);
  for (size_t i = 1; info->arguments && info->arguments[0] && info->arguments[i]; i++)
    tp__bytes_printf(&text, " %s", info->arguments[i]);
  const char *copy = cli_pool_copy(&l->pool, tp__bytes_text(&text));
  tp__bytes_fini(&text);
  return copy;
}

static row *add_row(listing *l, const tp_hook_info *info) {
  l->rows = cli_reserve(l->rows, l->count, &l->capacity, sizeof *l->rows);
  row *r = &l->rows[l->count];
  *r = (row){.phase = info->phase, .index = l->count++, .event = info->event};
  return r;
}

/* A tool is of no event. */
static const char *summary_of(const listing *l, const tp_hook_info *info) {
  if (strcmp(info->kind, "tool") == 0) return "all sessions";
  if (info->match_summary[0]) return info->match_summary;
  bool has_calls = cli_phase_carries(phase_of(l, info), TP_FIELD_TOOL);
  has_calls = has_calls || cli_phase_carries(phase_of(l, info), TP_FIELD_ABILITY_REF);
  return has_calls ? "all calls" : "all sessions";
}

static bool add_short(void *ctx, const tp_hook_info *info) {
  listing *l = ctx;
  assert(info->match_summary);
  row *r = add_row(l, info);
  r->cells[0] = info->id;
  r->cells[1] = strcmp(info->kind, "tool") == 0 ? "tool" : info->event;
  r->cells[2] = info->enabled ? "true" : "false";
  r->cells[3] = info->blocking ? "true" : "false";
  r->cells[MATCH] = summary_of(l, info);
  return true;
}

static bool add_long(void *ctx, const tp_hook_info *info) {
  listing *l = ctx;
  row *r = add_row(l, info);
  r->cells[0] = info->id;
  r->cells[1] = info->event;
  r->cells[2] = phase_of(l, info)->name;
  r->cells[3] = info->enabled ? "yes" : "no";
  r->cells[4] = info->blocking ? "yes" : "no";
  r->cells[5] = info->match[0] ? info->match : "always";
  r->cells[6] = policy_of(l, info);
  r->cells[7] = limit_words(l, info);
  r->cells[8] = cli_hooks_is_trusted(l->opened) ? "trusted" : "no";
  r->cells[9] = runs(l, info);
  return true;
}

/* Hooks of one event are together, in the order of their files. */
static int by_event(const void *a, const void *b) {
  const row *x = a, *y = b;
  assert(x->event && y->event);
  if (x->phase != y->phase) return x->phase < y->phase ? -1 : 1;
  int order = strcmp(x->event, y->event);
  if (order != 0) return order;
  return x->index < y->index ? -1 : 1;
}

static size_t columns_of(const char *text) { return cli_columns(tp_text_of(text)); }

static void put_blanks(cli_output *output, size_t count) {
  while (count-- > 0) cli_print(output, " ", 1);
}

/* The next piece of a match: up to a comma or a semicolon, including it, without the blank after it. */
static size_t piece_of(const char *match) {
  assert(*match);
  size_t size = strcspn(match, ",;");
  return size + (match[size] != '\0');
}

static size_t widest_piece(const char *match) {
  size_t widest = 0;
  for (size_t size; *match; match += size) {
    size = piece_of(match);
    size_t width = cli_columns((tp_text){match, size});
    if (width > widest) widest = width;
  }
  return widest;
}

/* A match is broken only between its pieces, never within a pattern. If its column is narrow, it gets lines of its own.
 * @param at  the column where the line ends so far. @param column  the column where the match begins. */
static void print_match(cli_output *output, const char *match, size_t at, size_t column) {
  assert(at <= column);
  size_t width = output->width;
  if (width > 0 && (column + MATCH_WIDTH > width || column + widest_piece(match) > width)) {
    cli_print(output, "\n", 1);
    at = 0;
    column = INDENT;
  }
  put_blanks(output, column - at);
  at = column;
  for (size_t size; *match; match += size) {
    size = piece_of(match);
    size_t columns = cli_columns((tp_text){match, size});
    if (width > 0 && at > column && at + columns > width) {
      cli_print(output, "\n", 1);
      put_blanks(output, at = column);
      columns -= *match == ' ';
      match += *match == ' ';
      size = piece_of(match);
    }
    cli_hooks_print_text(output, (tp_text){match, size});
    at += columns;
  }
  cli_print(output, "\n", 1);
}

/* A cell that is wider than its column moves the following cells if their space is not sufficient. */
static void print_hook_row(cli_output *output, const char *const *cells, const size_t *widths) {
  size_t at = 0, next = 0, stop = 0;
  for (size_t c = 0; c < MATCH; c++) {
    put_blanks(output, next - at);
    cli_hooks_print_text(output, tp_text_of(cells[c]));
    at = next + columns_of(cells[c]);
    stop += widths[c] + 1;
    next = at < stop ? stop : at + 1;
  }
  print_match(output, cells[MATCH], at, next);
}

static void print_short(const listing *l) {
  static const char *const heads[COLUMNS] = {"id", "event_type", "enabled", "blocking", "match_summary"};
  static const char line[] = "----------------------------------------------------------------";
  size_t widths[COLUMNS], size = sizeof line - 1;
  const char *lines[COLUMNS];
  for (size_t c = 0; c < COLUMNS; c++) {
    widths[c] = strlen(heads[c]);
    for (size_t i = 0; i < l->count; i++) {
      size_t width = columns_of(l->rows[i].cells[c]);
      if (width > widths[c]) widths[c] = width;
    }
  }
  if (l->output->width > 0 && widths[0] > ID_WIDTH_MAX) widths[0] = ID_WIDTH_MAX;
  if (l->output->width > 0 && widths[1] > EVENT_WIDTH_MAX) widths[1] = EVENT_WIDTH_MAX;
  if (l->output->width > 0) widths[MATCH] = strlen(heads[MATCH]);
  for (size_t c = 0; c < COLUMNS; c++) lines[c] = line + (widths[c] < size ? size - widths[c] : 0);
  cli_output_stream(l->output, true);
  print_hook_row(l->output, heads, widths);
  print_hook_row(l->output, lines, widths);
  for (size_t i = 0; i < l->count; i++) print_hook_row(l->output, l->rows[i].cells, widths);
  cli_output_stream(l->output, false);
}

static void print_long(const listing *l) {
  static const cli_column columns[COLUMNS_OF_ALL] = {
      {.head = "id", .least = 16},     {.head = "event", .rank = 2},
      {.head = "phase", .rank = 1},    {.head = "enabled", .rank = 7},
      {.head = "blocking", .rank = 6}, {.head = "match", .rank = 9},
      {.head = "policy", .rank = 5},   {.head = "limit", .rank = 3},
      {.head = "trust", .rank = 4},    {.head = "runs", .rank = 8, .kind = CLI_COLUMN_TEXT}};
  cli_cell cells[COLUMNS_OF_ALL] = {{.paint = CLI_NORMAL}};
  cli_table table;
  cli_table_begin(&table, l->output, columns, COLUMNS_OF_ALL, 0);
  for (int prints = 0; prints < 2; prints++) {
    if (prints) cli_table_head(&table);
    for (size_t i = 0; i < l->count; i++) {
      for (size_t c = 0; c < COLUMNS_OF_ALL; c++) cells[c].text = tp_text_of(l->rows[i].cells[c]);
      if (prints) cli_table_row(&table, cells);
      else cli_table_measure(&table, cells);
    }
  }
  cli_table_end(&table);
}

static bool write_row(void *ctx, const tp_hook_info *info) {
  listing *l = ctx;
  size_t count = 0;
  while (info->arguments && info->arguments[count]) count++;
  cli_map *p = l->map;
  cli_map_open(p, NULL);
  cli_map_add_string(p, "id", info->id);
  cli_map_add_string(p, "event", info->event);
  cli_map_add_string(p, "phase", phase_of(l, info)->name);
  cli_map_add_bool(p, "enabled", info->enabled);
  cli_map_add_bool(p, "blocking", info->blocking);
  cli_map_add_string(p, "match", info->match);
  cli_map_add_string(p, "policy", policy_of(l, info));
  cli_map_add_int(p, "limit_ms", limit_of(l, info));
  cli_map_add_string(p, "kind", info->kind);
  cli_map_add_string(p, "target", info->target);
  cli_map_add_list(p, "command", info->arguments, count);
  cli_map_add_string(p, "protocol", info->protocol);
  cli_map_add_string(p, "file", info->file);
  cli_map_add_string(p, "summary", info->summary);
  cli_map_add_string(p, "match_summary", summary_of(l, info));
  cli_map_close(p);
  return true;
}

static int print_listing_json(listing *l) {
  cli_map p = {0};
  l->map = &p;
  cli_map_add_string(&p, "directory", l->opened->directory);
  cli_map_add_string(&p, "hash", tp_hooks_hash(l->opened->hooks));
  cli_map_add_bool(&p, "trusted", cli_hooks_is_trusted(l->opened));
  cli_map_open_list(&p, "hooks");
  tp_hooks_each(l->opened->hooks, write_row, l);
  cli_map_close(&p);
  return cli_map_print(&p, l->output);
}

static void print_listing_text(listing *l, bool is_verbose) {
  const char *directory = l->opened->directory;
  if (tp_hooks_each(l->opened->hooks, is_verbose ? add_long : add_short, l) == 0) {
    cli_hooks_say_none(directory);
    return;
  }
  if (l->count > 1) qsort(l->rows, l->count, sizeof *l->rows, by_event);
  if (is_verbose) print_long(l);
  else print_short(l);
  if (!cli_hooks_is_trusted(l->opened))
    cli_error_at(directory, 0, 0,
                 "is not trusted as it is now: nothing of it runs; look at it, then: turnphase hooks "
                 "trust %s",
                 directory);
}

int cli_hooks_list(const cli_arguments *arguments, cli_output *output) {
  cli_hooks_opened opened;
  int status = cli_hooks_open(arguments, &opened);
  if (status != CLI_OK) return status;
  listing l = {.opened = &opened, .output = output};
  if (arguments->json) status = print_listing_json(&l);
  else print_listing_text(&l, arguments->verbose);
  if (!arguments->json) cli_hooks_warn_of_files(opened.hooks);
  free(l.rows);
  cli_pool_free(&l.pool);
  cli_hooks_close(&opened);
  return status;
}
