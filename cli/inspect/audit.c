/* SPDX-License-Identifier: Apache-2.0
 *
 * The command audit: registrations, refusals, denials, replacements and failures, from the store of a data
 * directory. */
#include <stdio.h>
#include <string.h>

#include "cli/common/data.h"
#include "cli/common/date.h"
#include "cli/common/exit_status.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/table.h"
#include "cli/inspect/trace.h"
#include "cli/run/timeline.h"
#include "cli/run/payload.h"

/* Cells that do not apply to a row are empty. */
enum { TIME, ACTION, NAME, PHASE, TURN, DETAIL, COLUMNS };
static const cli_column columns[COLUMNS] = {
    [TIME] = {.head = "at", .width = 24, .rank = 3},
    [ACTION] = {.head = "action", .width = 12},
    [NAME] = {.head = "subscription or owner", .width = 26, .least = 16},
    [PHASE] = {.head = "in", .width = 16, .least = 12, .rank = 2},
    [TURN] = {.head = "turn", .width = 16, .least = 12, .rank = 1},
    [DETAIL] = {.head = "detail", .kind = CLI_COLUMN_TEXT},
};

typedef struct listing {
  const cli_arguments *arguments;
  cli_output *output;
  const cli_data *data;
  cli_table table;   /* not with --json */
  tp_phase_id phase; /* 0: any */
  bool is_cut;       /* a registration that was left out changed more than its row lists */
  size_t shown;
  bool has_more; /* the limit was reached */
} listing;

static bool is_word_of(const char *word, const char *value) { return !word || strcmp(word, value ? value : "") == 0; }

/* Searches "+guard in tool.pre" or "-guard" in the text of a registration. @param id, phase  NULL: any. */
static bool is_change_of(tp_text change, const char *id, const char *phase) {
  char name[2 * TP_ID_BYTES_MAX];
  if (change.size < 2 || !strchr("+-", change.data[0])) return false;
  snprintf(name, sizeof name, "%.*s", (int)change.size - 1, change.data + 1);
  char *in = strstr(name, " in ");
  if (in) *in = '\0';
  return is_word_of(id, name) && (!phase || (in && strcmp(in + strlen(" in "), phase) == 0));
}

/* Whether the text of a registration names such a change. @param ret_is_cut  set when its list ends with "…". */
static bool names_change(const char *detail, const char *id, const char *phase, bool *ret_is_cut) {
  const char *list = NULL;
  for (const char *at = detail; (at = strstr(at, ": ")); list = at += 2) {}
  while (list && *list) {
    size_t size = strcspn(list, ",");
    if (is_change_of((tp_text){list, size}, id, phase)) return true;
    *ret_is_cut |= strcmp(list, "…") == 0;
    list += size + strspn(list + size, ", ");
  }
  return false;
}

/* For a trust: whether the row names the hook whose program did not start: "refused code: guard does not start: …". */
static bool names_refused(const tp_audit *row, const char *name) {
  static const char begin[] = "refused code: ";
  if (!name || strcmp(row->action, "trust") != 0 || strncmp(row->detail, begin, sizeof begin - 1) != 0) return false;
  const char *hook = row->detail + sizeof begin - 1;
  return strlen(name) == strcspn(hook, " ") && strncmp(hook, name, strlen(name)) == 0;
}

/* For a registration, the filter compares the subscriptions that it changed, as it does for runs. */
static bool is_about(listing *list, const tp_audit *row) {
  const char *name = list->arguments->handler;
  bool is_owner = is_word_of(name, row->owner);
  if (row->subscription)
    return (is_owner || is_word_of(name, row->subscription)) && (!list->phase || row->phase == list->phase);
  if (!list->phase && (is_owner || names_refused(row, name))) return true;
  return names_change(row->detail, is_owner ? NULL : name, list->phase ? list->arguments->phases.items[0] : NULL,
                      &list->is_cut);
}

static bool is_asked_for(listing *list, const tp_audit *row) {
  const cli_arguments *arguments = list->arguments;
  return is_about(list, row) && is_word_of(arguments->action, row->action) && is_word_of(arguments->turn, row->turn);
}

static void print_audit_json(const listing *list, const tp_audit *row) {
  char phase[32], time[40];
  cli_map p = {0};
  cli_map_add_int(&p, "unix_ms", row->unix_ms);
  cli_map_add_string(&p, "time", cli_data_time(row->unix_ms, time));
  cli_map_add_string(&p, "action", row->action);
  cli_map_add_string(&p, "owner", row->owner);
  cli_map_add_string(&p, "status", row->status == TP_OK ? "TP_OK" : tp_status_name(row->status));
  if (row->subscription) {
    cli_map_add_string(&p, "hook", row->subscription);
    cli_map_add_string(&p, "phase", cli_data_phase(list->data, row->phase, phase));
    cli_map_add_string(&p, "turn", row->turn);
    cli_map_add_string(&p, "state", tp_state_name(row->state));
    cli_map_add_string(&p, "reason", row->reason ? tp_reason_name(row->reason) : "");
    cli_map_add_int(&p, "duration_ns", row->duration_ns);
  }
  cli_map_add_string(&p, "detail", row->detail);
  cli_map_print(&p, list->output);
}

static void print_audit_line(listing *list, const tp_audit *row) {
  char time[40], phase[32];
  bool is_error = row->status != TP_OK && row->status != TP_ERR_DENIED;
  tp__bytes detail = {0};
  if (is_error) tp__bytes_printf(&detail, "%s: ", tp_status_name(row->status));
  tp__bytes_put_string(&detail, row->detail);
  const cli_cell cells[COLUMNS] = {
      [TIME] = {tp_text_of(cli_data_time(row->unix_ms, time)), CLI_NORMAL},
      [ACTION] = {tp_text_of(row->action), CLI_NORMAL},
      [NAME] = {tp_text_of(row->subscription ? row->subscription : row->owner), CLI_NORMAL},
      [PHASE] = {tp_text_of(row->subscription ? cli_data_phase(list->data, row->phase, phase) : NULL), CLI_NORMAL},
      [TURN] = {tp_text_of(row->turn), CLI_NORMAL},
      [DETAIL] = {tp__bytes_text(&detail), CLI_NORMAL},
  };
  cli_table_row(&list->table, cells);
  tp__bytes_fini(&detail);
}

static bool show_audit_row(void *ctx, const tp_audit *row) {
  listing *list = ctx;
  if (list->output->error) return false;
  if (!is_asked_for(list, row)) return true;
  list->has_more = list->shown == cli_limit(list->arguments, CLI_LIMIT);
  if (list->has_more) return false;
  list->shown++;
  if (list->arguments->json) print_audit_json(list, row);
  else print_audit_line(list, row);
  return true;
}

static int read_query(listing *list, tp_audit_query *query) {
  const cli_arguments *arguments = list->arguments;
  if (arguments->phases.count > 1) {
    cli_error("audit takes one --phase");
    return CLI_USAGE;
  }
  if (arguments->phases.count == 1) {
    list->phase = cli_phase_find(list->data->names, arguments->phases.items[0]);
    if (!list->phase) return CLI_USAGE;
  }
  if (!arguments->since || cli_date_read_since(arguments->since, &query->from_unix_ms)) return CLI_OK;
  cli_error("--since takes 90s, 10m, 2h, 3d, 2026-11-22 or 2026-11-22T23:50:34 (UTC), not '%s'", arguments->since);
  return CLI_USAGE;
}

int cli_audit(const cli_arguments *arguments, cli_output *output) {
  cli_data data = {0};
  int status = cli_data_open(arguments->operand, &data);
  if (status != CLI_OK) return status;
  listing list = {.arguments = arguments, .output = output, .data = &data};
  cli_table_begin(&list.table, output, columns, COLUMNS, 0);
  tp_audit_query query = {.struct_size = sizeof query};
  tp_fault fault = {0};
  status = read_query(&list, &query);
  if (status == CLI_OK) {
    tp_status read = data.store->audits(data.store->ctx, &query, show_audit_row, &list, &fault);
    if (read != TP_OK) status = cli_fault(data.path, read, &fault);
    else if (list.shown == 0 && !arguments->json) cli_error("no row of the audit in %s fits", data.path);
    else if (list.has_more) cli_error("there are more; --limit 0 shows all");
    if (read == TP_OK && list.is_cut && (arguments->handler || list.phase))
      cli_error(
          "registrations that changed more than their rows name may be left out: see all of them with --action commit");
  }
  cli_table_end(&list.table);
  cli_data_close(&data);
  return status;
}
