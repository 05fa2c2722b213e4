/* SPDX-License-Identifier: Apache-2.0
 *
 * print_table.c: prints plans for people: a block for each phase, with a line for each subscription in the order in
 * which they run, then the disabled ones, then the worst-case time of the phase. */
#include <stdio.h>

#include "runtime/plan/print.h"

enum { ORDER, SUBSCRIPTION, HANDLER, OWNER, LEVEL, EXECUTION, LIMIT, FAILURE, PLACEMENT, MORE, COLUMNS };
static const char *const heads[COLUMNS] = {"#",         "subscription", "handler", "owner",     "level",
                                           "execution", "limit",        "failure", "placement", "more"};

typedef struct page {
  const tp__phase_view *view;
  tp__row_cursor *cursor;
} page;

/* Place and level of a disabled subscription are unknown. */
static const char *number(bool known, uint32_t value, char *buffer, size_t size) {
  if (!known) return "-";
  snprintf(buffer, size, "%u", value);
  return buffer;
}

static const char *cell(const void *ctx, uint32_t row, uint32_t column, char *buffer, size_t size) {
  const page *p = ctx;
  const tp__node *node = tp__view_node(p->view, row, p->cursor);
  bool enabled = row < p->view->enabled;
  switch (column) {
    case ORDER:
      return number(enabled, row + 1, buffer, size);
    case SUBSCRIPTION:
      return node->sub->desc.id;
    case HANDLER:
      return node->handler->desc.id;
    case OWNER:
      return node->sub->owner;
    case LEVEL:
      return number(enabled, node->level, buffer, size);
    case EXECUTION:
      return tp_execution_name(node->execution);
    case LIMIT:
      return tp__duration(node->timeout_ns, buffer);
    case FAILURE:
      return tp_failure_name(node->failure);
    default:
      return tp_placement_name(node->handler->desc.placement);
  }
}

/* ---- the last column: all other settings of the subscription ---- */

typedef struct remarks {
  const tp__printer *printer;
  const char *before; /* the next remark */
} remarks;

static void begin_remark(remarks *r, const char *word) {
  tp__print_text(r->printer, r->before);
  tp__print_text(r->printer, word);
  r->before = "; ";
}

static void remark_edges(remarks *r, const char *word, const tp_edge *const *edges, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (i == 0) begin_remark(r, word);
    tp__print_text(r->printer, i == 0 ? " " : ", ");
    tp__print_text(r->printer, edges[i]->target);
    if (edges[i]->optional) tp__print_text(r->printer, "?");
  }
}

static void remark_policies(remarks *r, const tp_subscription *desc) {
  static const char *const pauses[] = {"", " fixed", " exponential"};
  if (desc->attempts > 1) {
    begin_remark(r, "");
    tp__print_format(r->printer, "%u attempts%s", desc->attempts, pauses[desc->backoff]);
  }
  if (desc->fallback_verdict != TP_VERDICT_NONE) {
    begin_remark(r, "fallback ");
    tp__print_text(r->printer, tp_verdict_name(desc->fallback_verdict));
  }
  if (desc->extends_budget) begin_remark(r, "extends the budget");
  if (desc->match) {
    begin_remark(r, "when ");
    tp__print_text(r->printer, desc->match->description);
  }
}

static void remark_origin(remarks *r, const tp_handler *handler) {
  if (handler->kind == TP_HANDLER_NATIVE && !handler->origin_file) return;
  begin_remark(r, tp_handler_kind_name(handler->kind));
  if (!handler->origin_file) return;
  tp__print_text(r->printer, " from ");
  tp__print_text(r->printer, handler->origin_file);
  if (handler->origin_line) tp__print_format(r->printer, ":%u", handler->origin_line);
}

static void last(const void *ctx, uint32_t row, const char *gap, const tp__printer *printer) {
  const page *p = ctx;
  const tp__node *node = tp__view_node(p->view, row, p->cursor);
  const tp__subscription *sub = node->sub;
  const char *state = tp__node_state(p->view, row, node);
  const char *alias = tp__subscription_alias(p->view->snapshot->registry, sub);
  remarks r = {.printer = printer, .before = gap};
  if (*state) begin_remark(&r, state);
  if (*alias) {
    begin_remark(&r, "as ");
    tp__print_text(printer, alias);
  }
  remark_edges(&r, "after", sub->desc.after, sub->desc.after_count);
  remark_edges(&r, "needs", sub->desc.needs, sub->desc.needs_count);
  remark_edges(&r, "before", sub->desc.before, sub->desc.before_count);
  if (tp__subscription_sequential(sub)) begin_remark(&r, "sequential");
  if (tp__inbox_is_of_session(node->handler->desc.inbox)) begin_remark(&r, "through the session's inbox");
  else if (node->handler->desc.inbox) begin_remark(&r, "through an inbox");
  remark_policies(&r, &sub->desc);
  remark_origin(&r, &node->handler->desc);
}

/* ---- a phase ---- */

static void print_critical(const tp__plan *plan, const tp__printer *printer) {
  const char *before = "  critical path: ";
  for (uint32_t i = 0; i < plan->node_count; i++) {
    if (!plan->nodes[i].critical) continue;
    tp__print_text(printer, before);
    tp__print_text(printer, plan->nodes[i].sub->desc.id);
    before = " -> ";
  }
  if (plan->worst_ns > 0) tp__print_text(printer, "\n");
}

static void print_times(const tp__plan *plan, const tp__printer *printer) {
  char worst[TP__DURATION_SIZE], required[TP__DURATION_SIZE], budget[TP__DURATION_SIZE];
  char limit[TP__DURATION_SIZE];
  tp__print_format(printer, "  worst case %s, required %s, budget %s%s", tp__duration(plan->worst_ns, worst),
                   tp__duration(plan->required_ns, required), tp__duration(plan->budget_ns, budget),
                   plan->host_budget_ns > 0 ? " (set by the host)" : "");
  if (plan->limit_set)
    tp__print_format(printer, ", default limit %s (set by the host)", tp__duration(plan->default_limit_ns, limit));
  tp__print_format(printer, ", hash %016llx\n", (unsigned long long)plan->hash);
  if (plan->worst_ns > plan->budget_ns) tp__print_text(printer, "  warning: the worst case is above the budget\n");
}

static void print_head(const tp__phase_view *view, const tp__printer *printer) {
  uint32_t levels = view->plan ? view->plan->levels : 0;
  tp__print_text(printer, view->row->name);
  tp__print_format(printer, "  %s%s, %u subscription%s, %u level%s", tp_mode_name(view->row->mode),
                   view->row->reverse ? " in reverse" : "", view->enabled, view->enabled == 1 ? "" : "s", levels,
                   levels == 1 ? "" : "s");
  if (view->disabled > 0) tp__print_format(printer, ", %u disabled", view->disabled);
  tp__print_text(printer, "\n");
}

static void print_phase_table(const tp__phase_view *view, const tp__printer *printer) {
  tp__row_cursor cursor = {.row = 0};
  const page p = {.view = view, .cursor = &cursor};
  tp__columns table = {.heads = heads,
                       .columns = COLUMNS,
                       .rows = view->enabled + view->disabled,
                       .ctx = &p,
                       .cell = cell,
                       .last = last};
  print_head(view, printer);
  tp__print_columns(&table, printer);
  if (!view->plan) return;
  print_critical(view->plan, printer);
  print_times(view->plan, printer);
}

void tp__print_table(tp__snapshot *snapshot, uint32_t phase, const tp__printer *printer) {
  bool some = false;
  for (uint32_t at = 1; at < TP_PHASE_LIMIT; at++) {
    tp__phase_view view;
    if ((phase != TP_PHASE_NONE && phase != at) || !tp__phase_view_of(snapshot, at, &view)) continue;
    print_phase_table(&view, printer);
    tp__print_text(printer, "\n");
    some = true;
  }
  if (!some && phase != TP_PHASE_NONE) {
    tp__print_text(printer, tp__registry_phase(snapshot->registry, phase)->name);
    tp__print_text(printer, "  ");
  }
  if (!some) tp__print_text(printer, "no subscriptions\n");
  else
    tp__print_format(printer, "snapshot %llu, hash %016llx\n", (unsigned long long)snapshot->version,
                     (unsigned long long)snapshot->hash);
}
