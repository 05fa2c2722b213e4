/* SPDX-License-Identifier: Apache-2.0
 *
 * print_phases.c: the table of phases, for people and for programs. */
#include <stdio.h>

#include "runtime/plan/print.h"

typedef struct phase_list {
  const tp__registry *registry;
  const tp__set *set;
  uint32_t count;
  uint32_t ids[TP_PHASE_LIMIT];
  const tp__members *const *members_of_phase; /* by phase id; NULL: nothing was ever registered in the phase */
  uint32_t subscriptions[TP_PHASE_LIMIT];     /* by phase id, disabled ones too */
  uint32_t disabled[TP_PHASE_LIMIT], killed[TP_PHASE_LIMIT];
} phase_list;

static void list_phases(tp__snapshot *snapshot, phase_list *ret_list) {
  const tp__set *set = tp__snapshot_set(snapshot);
  *ret_list = (phase_list){.registry = snapshot->registry,
                           .set = set,
                           .members_of_phase = (const tp__members *const *)set->members_of_phase};
  for (uint32_t phase = 1; phase < TP_PHASE_LIMIT; phase++) {
    if (snapshot->registry->phases[phase]) ret_list->ids[ret_list->count++] = phase;
    if (set->members_of_phase[phase]) {
      const tp__members *members = set->members_of_phase[phase];
      ret_list->subscriptions[phase] = (uint32_t)members->item_count;
      for (size_t i = 0; i < members->item_count; i++) {
        ret_list->disabled[phase] += members->items[i].disabled;
        ret_list->killed[phase] += tp__a32_load_relaxed(&members->items[i].sub->killed) != 0;
      }
    }
  }
}

static const char *field_kind_name(const tp__registry *registry, uint32_t kind) {
  return registry->ops->kind_name ? registry->ops->kind_name(kind) : "unnamed";
}

/* How many subscriptions were made through the alias, including disabled ones. */
static uint32_t count_alias(const phase_list *list, const tp__alias *alias) {
  const tp__members *members = list->members_of_phase[alias->phase];
  uint32_t count = 0;
  for (size_t i = 0; members && i < members->item_count; i++)
    count += strcmp(tp__subscription_alias(list->registry, members->items[i].sub), alias->name) == 0;
  return count;
}

/* ---- for people ---- */

enum { NAME, MODE, LIMIT, FAILURE, ACCESS, SUBSCRIPTIONS, CONTRIBUTES, ALIASES, COLUMNS };
static const char *const heads[COLUMNS] = {"phase",  "mode",          "limit",          "failure",
                                           "access", "subscriptions", "may contribute", "aliases"};

static const char *mode_text(const tp_phase *row, char *buffer, size_t size) {
  snprintf(buffer, size, "%s%s%s%s%s", tp_mode_name(row->mode), row->replace ? " replace" : "",
           row->stop ? " stop" : "", row->ask ? " ask" : "", row->reverse ? " reverse" : "");
  return buffer;
}

static const char *kinds_text(const tp__registry *registry, const tp_phase *row, char *buffer, size_t size) {
  size_t used = 0;
  snprintf(buffer, size, "-");
  for (uint32_t kind = 1; kind < TP_CONTRIBUTION_COUNT && used < size; kind++) {
    if (!(row->kinds & 1u << kind)) continue;
    used += (size_t)snprintf(buffer + used, size - used, "%s%s", used > 0 ? ", " : "", field_kind_name(registry, kind));
  }
  return buffer;
}

static const char *access_text(const tp_phase *row) {
  return row->privileged ? "privileged" : row->code_only ? "code only" : "";
}

static tp_failure failure_of(const tp_phase *row) { return row->failure ? row->failure : TP_FAILURE_BEST_EFFORT; }

static uint32_t limit_ms_of(const phase_list *list, uint32_t phase) {
  return tp__set_limit_ms(list->set, list->registry->phases[phase], phase);
}

static const char *limit_text(const phase_list *list, uint32_t phase, char *buffer, size_t size) {
  char limit[TP__DURATION_SIZE];
  snprintf(buffer, size, "%s%s", tp__duration((int64_t)limit_ms_of(list, phase) * TP__NS_PER_MS, limit),
           list->set->limits_ms[phase] ? " (set by the host)" : "");
  return buffer;
}

static const char *subscriptions_text(const phase_list *list, uint32_t phase, char *buffer, size_t size) {
  char disabled[32] = "", killed[32] = "";
  if (list->disabled[phase] > 0) snprintf(disabled, sizeof disabled, ", %u disabled", list->disabled[phase]);
  if (list->killed[phase] > 0) snprintf(killed, sizeof killed, ", %u switched off", list->killed[phase]);
  snprintf(buffer, size, "%u%s%s", list->subscriptions[phase], disabled, killed);
  return buffer;
}

static const char *cell(const void *ctx, uint32_t row_index, uint32_t column, char *buffer, size_t size) {
  const phase_list *list = ctx;
  uint32_t phase = list->ids[row_index];
  const tp_phase *row = list->registry->phases[phase];
  switch (column) {
    case NAME:
      return row->name;
    case MODE:
      return mode_text(row, buffer, size);
    case LIMIT:
      return limit_text(list, phase, buffer, size);
    case FAILURE:
      return tp_failure_name(failure_of(row));
    case ACCESS:
      return access_text(list->registry->phases[phase]);
    case SUBSCRIPTIONS:
      return subscriptions_text(list, phase, buffer, size);
    default:
      return kinds_text(list->registry, row, buffer, size);
  }
}

typedef struct alias_line {
  const phase_list *list;
  const tp__printer *printer;
  const char *before;
} alias_line;

static void print_alias(void *ctx, const tp__alias *alias) {
  alias_line *line = ctx;
  tp__print_text(line->printer, line->before);
  tp__print_text(line->printer, alias->name);
  uint32_t count = count_alias(line->list, alias);
  if (count > 0) tp__print_format(line->printer, " (%u)", count);
  line->before = ", ";
}

static void last(const void *ctx, uint32_t row_index, const char *gap, const tp__printer *printer) {
  const phase_list *list = ctx;
  alias_line line = {.list = list, .printer = printer, .before = gap};
  tp__registry_aliases(list->registry, list->ids[row_index], print_alias, &line);
}

/* ---- the payloads, in a separate table ---- */

static bool is_replaceable(const tp_phase *row, uint32_t field) {
  for (size_t i = 0; i < row->replaceable_count; i++)
    if (row->replaceable[i] == field) return true;
  return false;
}

static const char *field_kind_text(const tp__registry *registry, uint32_t field) {
  uint32_t kinds = field < TP_FIELD_HOST && registry->ops->field_kinds ? registry->ops->field_kinds[field] : 0;
  if (kinds == 1u << TP_FIELD_KIND_TEXT) return "text";
  if (kinds == 1u << TP_FIELD_KIND_INT) return "int";
  return kinds & 1u << TP_FIELD_KIND_VALUE ? "value" : "any";
}

enum { PAYLOAD_PHASE, PAYLOAD_FIELDS, PAYLOAD_COLUMNS };
static const char *const payload_heads[PAYLOAD_COLUMNS] = {"phase", "payload (* a handler may replace it)"};

static const char *payload_cell(const void *ctx, uint32_t row_index, uint32_t column, char *buffer, size_t size) {
  const phase_list *list = ctx;
  (void)column;
  (void)buffer;
  (void)size;
  return list->registry->phases[list->ids[row_index]]->name;
}

static void payload_last(const void *ctx, uint32_t row_index, const char *gap, const tp__printer *printer) {
  const phase_list *list = ctx;
  const tp_phase *row = list->registry->phases[list->ids[row_index]];
  const char *before = gap;
  for (size_t i = 0; i < row->field_count; i++) {
    tp__field_label_buffer buffer;
    tp__print_text(printer, before);
    tp__print_text(printer, tp__field_label(list->registry->ops, row->fields[i], &buffer));
    tp__print_text(printer, is_replaceable(row, row->fields[i]) ? "* (" : " (");
    tp__print_text(printer, field_kind_text(list->registry, row->fields[i]));
    tp__print_text(printer, ")");
    before = ", ";
  }
}

static void print_for_people(const phase_list *list, const tp__printer *printer) {
  tp__columns table = {
      .heads = heads, .columns = COLUMNS, .rows = list->count, .ctx = list, .cell = cell, .last = last};
  tp__columns payloads = {.heads = payload_heads,
                          .columns = PAYLOAD_COLUMNS,
                          .rows = list->count,
                          .ctx = list,
                          .cell = payload_cell,
                          .last = payload_last};
  tp__print_columns(&table, printer);
  tp__print_text(printer, "\n");
  tp__print_columns(&payloads, printer);
}

/* ---- for programs ---- */

typedef struct alias_array {
  const phase_list *list;
  tp__json_printer *json;
} alias_array;

static void json_alias(void *ctx, const tp__alias *alias) {
  const alias_array *array = ctx;
  tp__json_printer *json = array->json;
  tp__print_open(json, NULL, "{");
  tp__print_string(json, "name", alias->name);
  tp__print_bool(json, "sequential", alias->flags & TP__ALIAS_SEQUENTIAL);
  tp__print_bool(json, "drops_reminders_and_signals", alias->flags & TP__ALIAS_INFRA);
  tp__print_number(json, "subscriptions", count_alias(array->list, alias));
  tp__print_close(json, "}");
}

static void json_fields(tp__json_printer *json, const tp__registry *registry, const tp_phase *row) {
  tp__print_open(json, "fields", "[");
  for (size_t i = 0; i < row->field_count; i++) {
    tp__field_label_buffer buffer;
    tp__print_open(json, NULL, "{");
    tp__print_number(json, "id", row->fields[i]);
    tp__print_string(json, "name", tp__field_label(registry->ops, row->fields[i], &buffer));
    tp__print_string(json, "kind", field_kind_text(registry, row->fields[i]));
    tp__print_bool(json, "replaceable", is_replaceable(row, row->fields[i]));
    tp__print_close(json, "}");
  }
  tp__print_close(json, "]");
}

static void json_kinds(tp__json_printer *json, const tp__registry *registry, const tp_phase *row) {
  tp__print_open(json, "may_contribute", "[");
  for (uint32_t kind = 1; kind < TP_CONTRIBUTION_COUNT; kind++) {
    if (row->kinds & 1u << kind) tp__print_string(json, NULL, field_kind_name(registry, kind));
  }
  tp__print_close(json, "]");
}

static void json_phase(tp__json_printer *json, const phase_list *list, uint32_t phase) {
  const tp_phase *row = list->registry->phases[phase];
  tp__print_open(json, NULL, "{");
  tp__print_number(json, "id", phase);
  tp__print_string(json, "phase", row->name);
  tp__print_string(json, "mode", tp_mode_name(row->mode));
  tp__print_bool(json, "replace", row->replace);
  tp__print_bool(json, "stop", row->stop);
  tp__print_bool(json, "ask", row->ask);
  tp__print_bool(json, "reverse", row->reverse);
  tp__print_bool(json, "privileged", row->privileged);
  tp__print_bool(json, "code_only", row->code_only);
  tp__print_string(json, "fired_by", phase >= TP_PHASE_HOST ? "host" : "turns");
  tp__print_number(json, "limit_ms", limit_ms_of(list, phase));
  tp__print_bool(json, "limit_set_by_host", list->set->limits_ms[phase] > 0);
  tp__print_string(json, "failure", tp_failure_name(failure_of(row)));
  json_kinds(json, list->registry, row);
  json_fields(json, list->registry, row);
  tp__print_open(json, "aliases", "[");
  alias_array aliases = {.list = list, .json = json};
  tp__registry_aliases(list->registry, phase, json_alias, &aliases);
  tp__print_close(json, "]");
  tp__print_number(json, "subscriptions", list->subscriptions[phase]);
  tp__print_number(json, "disabled", list->disabled[phase]);
  tp__print_number(json, "switched_off", list->killed[phase]);
  tp__print_close(json, "}");
}

static void print_for_programs(const phase_list *list, const tp__printer *printer) {
  tp__json_printer json = {.printer = printer};
  tp__print_open(&json, NULL, "{");
  tp__print_open(&json, "phases", "[");
  for (uint32_t i = 0; i < list->count; i++) json_phase(&json, list, list->ids[i]);
  tp__print_close(&json, "]");
  tp__print_close(&json, "}");
  tp__print_text(printer, "\n");
}

tp_status tp__phases_print(tp__registry *registry, tp_plan_format format, tp_print_fn print, void *ctx) {
  if (!print || (format != TP_PLAN_TABLE && format != TP_PLAN_JSON)) return TP_ERR_USAGE;
  const tp__printer printer = {.print = print, .ctx = ctx};
  phase_list list;
  tp__snapshot *snapshot = tp__registry_pin(registry);
  list_phases(snapshot, &list);
  if (format == TP_PLAN_TABLE) print_for_people(&list, &printer);
  else print_for_programs(&list, &printer);
  tp__snapshot_unpin(snapshot);
  return TP_OK;
}
