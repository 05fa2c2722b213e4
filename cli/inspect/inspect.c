/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands plan and phases: print the registrations in the library's format. */
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/table.h"
#include "cli/common/visible.h"
#include "cli/run/host.h"
#include "cli/run/payload.h"

static tp_plan_format format_of(const cli_arguments *arguments) {
  return arguments->dot ? TP_PLAN_DOT : arguments->json ? TP_PLAN_JSON : TP_PLAN_TABLE;
}

/* ---- a table of the library, laid out for the terminal ---- */

/** A page of the library consists of blocks: single lines, and tables whose columns begin where their heads do. */
typedef struct page {
  cli_output *output;
  const cli_column *columns;
  size_t count;
} page;

enum { NUMBER, SUBSCRIPTION, HANDLER, OWNER, LEVEL, EXECUTION, LIMIT, FAILURE, PLACEMENT, MORE, PLAN_COLUMNS };
static const cli_column plan_columns[PLAN_COLUMNS] = {
    [NUMBER] = {.head = "#", .width = 1},
    [SUBSCRIPTION] = {.head = "subscription", .least = 28},
    [HANDLER] = {.head = "handler", .least = 20, .rank = 7},
    [OWNER] = {.head = "owner", .rank = 8},
    [LEVEL] = {.head = "level", .rank = 4},
    [EXECUTION] = {.head = "execution"},
    [LIMIT] = {.head = "limit"},
    [FAILURE] = {.head = "failure", .rank = 2},
    [PLACEMENT] = {.head = "placement", .rank = 3},
    [MORE] = {.head = "more", .least = 36, .rank = 1, .kind = CLI_COLUMN_TEXT},
};

enum { PHASE, MODE, PHASE_LIMIT, PHASE_FAILURE, ACCESS, SUBSCRIPTIONS, CONTRIBUTES, ALIASES, PHASES_COLUMNS };
static const cli_column phases_columns[PHASES_COLUMNS] = {
    [PHASE] = {.head = "phase"},
    [MODE] = {.head = "mode", .rank = 1},
    [PHASE_LIMIT] = {.head = "limit", .rank = 2},
    [PHASE_FAILURE] = {.head = "failure", .rank = 4},
    [ACCESS] = {.head = "access", .rank = 6},
    [SUBSCRIPTIONS] = {.head = "subscriptions", .rank = 3},
    [CONTRIBUTES] = {.head = "may contribute", .rank = 5},
    [ALIASES] = {.head = "aliases", .rank = 7, .kind = CLI_COLUMN_TEXT},
};

/* The number of bytes in a line before a column; the library counts each code point as one column. */
static size_t bytes_before(tp_text line, size_t column) {
  size_t at = 0;
  for (; at < line.size && column > 0; column--) {
    cli_visibility visibility;
    at += cli_visible_step((tp_text){line.data + at, line.size - at}, NULL, &visibility);
  }
  return at;
}

static tp_text trimmed(tp_text text) {
  while (text.size > 0 && text.data[0] == ' ') text.data++, text.size--;
  while (text.size > 0 && text.data[text.size - 1] == ' ') text.size--;
  return text;
}

static tp_text next_line(tp_text *rest) {
  const char *end = memchr(rest->data, '\n', rest->size);
  tp_text line = {rest->data, end ? (size_t)(end - rest->data) : rest->size};
  size_t taken = line.size + (end != NULL);
  *rest = (tp_text){rest->data + taken, rest->size - taken};
  return line;
}

/* Where the columns of a table begin. @return false: the line is no head of a table. */
static bool find_starts(const page *p, tp_text heads, size_t *ret_starts) {
  size_t at = 0;
  for (size_t c = 0; c < p->count; c++) {
    const char *head = p->columns[c].head, *found;
    if (at >= heads.size || !(found = memmem(heads.data + at, heads.size - at, head, strlen(head)))) return false;
    ret_starts[c] = (size_t)(found - heads.data);
    at = ret_starts[c] + strlen(head);
  }
  return true;
}

static void cut_row(const page *p, tp_text line, const size_t *starts, cli_cell *ret_cells) {
  for (size_t c = 0; c < p->count; c++) {
    size_t from = bytes_before(line, starts[c]);
    size_t to = c + 1 < p->count ? bytes_before(line, starts[c + 1]) : line.size;
    ret_cells[c] = (cli_cell){trimmed((tp_text){line.data + from, to - from}), CLI_NORMAL};
  }
}

/* In a table, each row has a number or "-" in its first column; in the table of phases, all following lines are
 * rows. */
static bool is_row(const page *p, tp_text line) {
  tp_text text = trimmed(line);
  if (text.size == 0 || line.data[0] != ' ') return false;
  return p->count == PHASES_COLUMNS || text.data[0] == '-' || (text.data[0] >= '0' && text.data[0] <= '9');
}

/* @param starts  of its columns. @param rows  points to its first row; moved past its last one. */
static void print_table(const page *p, const size_t *starts, tp_text *rows) {
  cli_cell cells[CLI_TABLE_COLUMNS_MAX];
  cli_table table;
  size_t count = 0;
  cli_table_begin(&table, p->output, p->columns, p->count, 2);
  for (tp_text rest = *rows, line; rest.size > 0 && is_row(p, line = next_line(&rest)); count++) {
    cut_row(p, line, starts, cells);
    cli_table_measure(&table, cells);
  }
  cli_table_head(&table);
  while (count-- > 0) {
    cut_row(p, next_line(rows), starts, cells);
    cli_table_row(&table, cells);
  }
  cli_table_end(&table);
}

static void print_page(const page *p, tp_text text) {
  while (text.size > 0) {
    size_t starts[CLI_TABLE_COLUMNS_MAX];
    tp_text line = next_line(&text);
    if (find_starts(p, line, starts)) {
      print_table(p, starts, &text);
    } else {
      cli_print(p->output, line.data, line.size);
      cli_print(p->output, "\n", 1);
    }
  }
}

static bool lays_out(const cli_arguments *arguments, const cli_output *output) {
  return output->width > 0 && format_of(arguments) == TP_PLAN_TABLE;
}

static int inspect_ended(tp_runtime *runtime, tp_status status) {
  tp_runtime_free(runtime);
  return status == TP_OK ? CLI_OK : cli_fault(NULL, status, &(tp_fault){0});
}

int cli_phases(const cli_arguments *arguments, cli_output *output) {
  tp_runtime *runtime;
  int opened = cli_host_open(arguments, NULL, NULL, &runtime);
  if (opened != CLI_OK) return opened;
  if (!lays_out(arguments, output))
    return inspect_ended(runtime, tp_phases_print(runtime, format_of(arguments), cli_print, output));
  tp__bytes text = {0};
  tp_status status = tp_phases_print(runtime, TP_PLAN_TABLE, tp__bytes_print, &text);
  print_page(&(page){output, phases_columns, PHASES_COLUMNS}, tp__bytes_text(&text));
  tp__bytes_fini(&text);
  return inspect_ended(runtime, status);
}

/* An empty table is reported in words, because an empty screen would leave the reader in doubt. */
static bool has_subscriptions(const cli_arguments *arguments) {
  return !arguments->no_memory || arguments->loads.count > 0 || arguments->hooks.count > 0 || arguments->files ||
         arguments->skills || arguments->tasks != CLI_TASKS_NONE || arguments->mcp_servers.count > 0 ||
         arguments->mcp_configs.count > 0;
}

int cli_plan(const cli_arguments *arguments, cli_output *output) {
  if (arguments->json && arguments->dot) {
    cli_error("--json and --dot are two forms of the same: take one");
    return CLI_USAGE;
  }
  tp_runtime *runtime;
  int opened = cli_host_open(arguments, NULL, NULL, &runtime);
  if (opened != CLI_OK) return opened;
  uint32_t phase = arguments->operand ? cli_phase_find(runtime, arguments->operand) : TP_PHASE_NONE;
  if (arguments->operand && !phase) {
    tp_runtime_free(runtime);
    return CLI_USAGE;
  }
  if (!has_subscriptions(arguments) && format_of(arguments) == TP_PLAN_TABLE) cli_error("nothing is subscribed");
  if (!lays_out(arguments, output))
    return inspect_ended(runtime, tp_plan_print(runtime, phase, format_of(arguments), cli_print, output));
  tp__bytes text = {0};
  tp_status status = tp_plan_print(runtime, phase, TP_PLAN_TABLE, tp__bytes_print, &text);
  print_page(&(page){output, plan_columns, PLAN_COLUMNS}, tp__bytes_text(&text));
  tp__bytes_fini(&text);
  return inspect_ended(runtime, status);
}
