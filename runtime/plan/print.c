/* SPDX-License-Identifier: Apache-2.0
 *
 * print.c: the API of the printers, and the small functions that they share. */
#include "runtime/plan/print.h"

#include <stdio.h>

#include "runtime/value/value.h"

/* ---- pieces ---- */

void tp__print_text(const tp__printer *printer, const char *string) {
  printer->print(printer->ctx, string, strlen(string));
}

void tp__print_format(const tp__printer *printer, const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  tp__print_text(printer, text);
}

void tp__print_quoted(const tp__printer *printer, const char *string) {
  const tp__json_out out = {.put = printer->print, .ctx = printer->ctx};
  tp__json_put_string(&out, tp_text_of(string));
}

const char *tp__duration(int64_t ns, char *buffer) {
  int64_t ms = ns / TP__NS_PER_MS;
  if (ns == TP__NEVER) snprintf(buffer, TP__DURATION_SIZE, "for ever");
  else if (ms >= 1000 && ms % 1000 == 0) snprintf(buffer, TP__DURATION_SIZE, "%lld s", (long long)(ms / 1000));
  else snprintf(buffer, TP__DURATION_SIZE, "%lld ms", (long long)ms);
  return buffer;
}

/* ---- rows ---- */

bool tp__phase_view_of(tp__snapshot *snapshot, uint32_t phase, tp__phase_view *ret_view) {
  const tp__members *members = tp__snapshot_set(snapshot)->members_of_phase[phase];
  if (!members || members->item_count == 0) return false;
  const tp__plan *plan = snapshot->plans[phase];
  uint32_t enabled = plan ? plan->node_count : 0;
  *ret_view = (tp__phase_view){.snapshot = snapshot,
                               .row = snapshot->registry->phases[phase],
                               .phase = phase,
                               .plan = plan,
                               .members = members,
                               .enabled = enabled,
                               .disabled = (uint32_t)members->item_count - enabled};
  return true;
}

const tp__node *tp__view_node(const tp__phase_view *view, uint32_t row, tp__row_cursor *cursor) {
  if (row < view->enabled) return &view->plan->nodes[row];
  if (cursor->item > 0 && cursor->row == row) return &cursor->node;
  bool goes_on = cursor->item > 0 && cursor->row < row;
  uint32_t left = goes_on ? row - cursor->row - 1 : row - view->enabled;
  size_t item = goes_on ? cursor->item : 0;
  while (!view->members->items[item].disabled || left-- > 0) item++;
  *cursor = (tp__row_cursor){.row = row, .item = item + 1};
  tp__disabled_node(view->snapshot, view->members->items[item].sub, &cursor->node);
  return &cursor->node;
}

const char *tp__node_state(const tp__phase_view *view, uint32_t row, const tp__node *node) {
  bool killed = tp__a32_load_relaxed(&node->sub->killed);
  if (row >= view->enabled) return killed ? "DISABLED, SWITCHED OFF" : "DISABLED";
  return killed ? "SWITCHED OFF" : "";
}

/* ---- words ---- */

static bool depends_on(const tp__plan *plan, const tp__node *node, uint32_t target) {
  for (uint32_t i = 0; i < node->dep_count; i++) {
    if (plan->deps[node->first_dep + i] == target) return true;
  }
  return false;
}

static bool named_before(const tp__node *node, const char *target) {
  for (size_t i = 0; i < node->sub->desc.before_count; i++) {
    if (strcmp(node->sub->desc.before[i]->target, target) == 0) return true;
  }
  return false;
}

const char *tp__edge_kind(const tp__plan *plan, uint32_t from, uint32_t edge) {
  uint32_t to = plan->edges[edge] >> 1;
  if (plan->edges[edge] & 1) return "needs";
  if (depends_on(plan, &plan->nodes[to], from)) return "after";
  if (named_before(&plan->nodes[from], plan->nodes[to].sub->desc.id)) return "before";
  return plan->row->mode == TP_MODE_CHAIN && to == from + 1 ? "chain" : "sequential";
}

/* ---- tables ---- */

/* The width of the text on a screen, counting each code point as one place. */
static uint32_t width_of(const char *text) {
  uint32_t width = 0;
  for (; *text; text++) width += ((unsigned char)*text & 0xC0) != 0x80;
  return width;
}

/* The blanks between a cell and the next one. */
static void fill_gap(const char *text, uint32_t width, char *ret_gap) {
  uint32_t blanks = width - width_of(text) + 2;
  memset(ret_gap, ' ', blanks);
  ret_gap[blanks] = '\0';
}

static void measure_columns(const tp__columns *table, uint32_t *ret_widths) {
  char buffer[TP__CELL_SIZE];
  for (uint32_t column = 0; column + 1 < table->columns; column++) {
    ret_widths[column] = width_of(table->heads[column]);
    for (uint32_t row = 0; row < table->rows; row++) {
      uint32_t width = width_of(table->cell(table->ctx, row, column, buffer, sizeof buffer));
      if (width > ret_widths[column]) ret_widths[column] = width;
    }
  }
}

void tp__print_columns(const tp__columns *table, const tp__printer *printer) {
  uint32_t widths[TP__TABLE_COLUMNS_MAX], last = table->columns - 1;
  char buffer[TP__CELL_SIZE], gap[TP__CELL_SIZE + 3] = "  ";
  assert(table->columns <= TP__TABLE_COLUMNS_MAX);
  measure_columns(table, widths);
  for (uint32_t column = 0; column < last; column++) {
    tp__print_text(printer, gap);
    tp__print_text(printer, table->heads[column]);
    fill_gap(table->heads[column], widths[column], gap);
  }
  tp__print_format(printer, "%s%s\n", gap, table->heads[last]);
  for (uint32_t row = 0; row < table->rows; row++) {
    snprintf(gap, sizeof gap, "  ");
    for (uint32_t column = 0; column < last; column++) {
      const char *text = table->cell(table->ctx, row, column, buffer, sizeof buffer);
      tp__print_text(printer, gap);
      tp__print_text(printer, text);
      fill_gap(text, widths[column], gap);
    }
    table->last(table->ctx, row, gap, printer);
    tp__print_text(printer, "\n");
  }
}

/* ---- JSON ---- */

static void json_begin(tp__json_printer *json, const char *key) {
  if (json->comma) tp__print_text(json->printer, ",");
  json->comma = true;
  if (!key) return;
  tp__print_quoted(json->printer, key);
  tp__print_text(json->printer, ":");
}

void tp__print_open(tp__json_printer *json, const char *key, const char *bracket) {
  json_begin(json, key);
  tp__print_text(json->printer, bracket);
  json->comma = false;
}

void tp__print_close(tp__json_printer *json, const char *bracket) {
  tp__print_text(json->printer, bracket);
  json->comma = true;
}

void tp__print_string(tp__json_printer *json, const char *key, const char *value) {
  json_begin(json, key);
  if (value) tp__print_quoted(json->printer, value);
  else tp__print_text(json->printer, "null");
}

void tp__print_number(tp__json_printer *json, const char *key, int64_t value) {
  json_begin(json, key);
  tp__print_format(json->printer, "%lld", (long long)value);
}

void tp__print_bool(tp__json_printer *json, const char *key, bool value) {
  json_begin(json, key);
  tp__print_text(json->printer, value ? "true" : "false");
}

/* Hashes are printed as text, because some readers of JSON have no 64-bit numbers. */
void tp__print_hash(tp__json_printer *json, const char *key, uint64_t hash) {
  json_begin(json, key);
  tp__print_format(json->printer, "\"%016llx\"", (unsigned long long)hash);
}

/* ---- API ---- */

tp_status tp__plan_print(tp__registry *registry, uint32_t phase, tp_plan_format format, tp_print_fn print, void *ctx) {
  static void (*const printers[])(tp__snapshot *, uint32_t, const tp__printer *) = {
      [TP_PLAN_TABLE] = tp__print_table, [TP_PLAN_JSON] = tp__print_json, [TP_PLAN_DOT] = tp__print_dot};
  if (!print || (unsigned)format > TP_PLAN_DOT) return TP_ERR_USAGE;
  if (phase != TP_PHASE_NONE && !tp__registry_phase(registry, phase)) return TP_ERR_UNKNOWN_PHASE;
  const tp__printer printer = {.print = print, .ctx = ctx};
  tp__snapshot *snapshot = tp__registry_pin(registry);
  printers[format](snapshot, phase, &printer);
  tp__snapshot_unpin(snapshot);
  return TP_OK;
}
