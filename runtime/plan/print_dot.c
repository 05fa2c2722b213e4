/* SPDX-License-Identifier: Apache-2.0
 *
 * print_dot.c: prints plans as a drawing for Graphviz. Each phase is a cluster, each subscription a box (bold:
 * required; dashed: detached; red: on the critical path; gray: switched off; gray with dots: disabled), each edge an
 * arrow whose style shows what made it. */
#include "runtime/plan/print.h"

static const char *arrow_of(const char *kind) {
  static const struct {
    const char *kind, *attributes;
  } arrows[] = {{"needs", "style=bold"},
                {"after", "style=solid"},
                {"before", "style=solid,arrowhead=empty"},
                {"sequential", "style=dashed"},
                {"chain", "style=dotted"}};
  for (size_t i = 0; i < sizeof arrows / sizeof *arrows; i++) {
    if (strcmp(arrows[i].kind, kind) == 0) return arrows[i].attributes;
  }
  return "style=solid";
}

static const char *style_of(const tp__node *node) {
  if (!tp__node_awaited(node)) return ",style=dashed";
  return node->flags & TP__NODE_REQUIRED ? ",style=bold" : "";
}

/* Aliases are names of the library's own table, so nothing in them needs quoting. */
static void print_box(const tp__phase_view *view, uint32_t row, const tp__node *node, const tp__printer *printer) {
  char limit[TP__DURATION_SIZE];
  const char *alias = tp__subscription_alias(view->snapshot->registry, node->sub);
  const char *state = tp__node_state(view, row, node);
  tp__print_text(printer, "    ");
  tp__print_quoted(printer, node->sub->desc.id);
  tp__print_text(printer, " [tooltip=");
  tp__print_quoted(printer, node->handler->desc.id);
  tp__print_format(printer, ",xlabel=\"%s %s %s%s%s%s%s\"", tp_execution_name(node->execution),
                   tp__duration(node->timeout_ns, limit), tp_failure_name(node->failure), *alias ? " as " : "", alias,
                   *state ? " " : "", state);
  tp__print_text(printer, row < view->enabled ? style_of(node) : ",style=dotted");
  if (*state) tp__print_text(printer, ",color=gray,fontcolor=gray");
  else if (node->critical) tp__print_text(printer, ",color=red");
  tp__print_text(printer, "];\n");
}

static void print_arrows(const tp__plan *plan, uint32_t from, const tp__printer *printer) {
  const tp__node *node = &plan->nodes[from];
  for (uint32_t edge = node->first_edge; edge < node->first_edge + node->edge_count; edge++) {
    tp__print_text(printer, "    ");
    tp__print_quoted(printer, node->sub->desc.id);
    tp__print_text(printer, " -> ");
    tp__print_quoted(printer, plan->nodes[plan->edges[edge] >> 1].sub->desc.id);
    tp__print_format(printer, " [%s];\n", arrow_of(tp__edge_kind(plan, from, edge)));
  }
}

static void print_phase_cluster(const tp__phase_view *view, const tp__printer *printer) {
  tp__row_cursor cursor = {.row = 0};
  tp__print_format(printer, "  subgraph cluster_%u {\n    label=", view->phase);
  tp__print_quoted(printer, view->row->name);
  tp__print_text(printer, ";\n");
  for (uint32_t row = 0; row < view->enabled + view->disabled; row++)
    print_box(view, row, tp__view_node(view, row, &cursor), printer);
  for (uint32_t i = 0; i < view->enabled; i++) print_arrows(view->plan, i, printer);
  tp__print_text(printer, "  }\n");
}

void tp__print_dot(tp__snapshot *snapshot, uint32_t phase, const tp__printer *printer) {
  tp__print_text(printer, "digraph turnphase {\n  rankdir=LR;\n  node [shape=box];\n");
  for (uint32_t at = 1; at < TP_PHASE_LIMIT; at++) {
    tp__phase_view view;
    if ((phase == TP_PHASE_NONE || phase == at) && tp__phase_view_of(snapshot, at, &view))
      print_phase_cluster(&view, printer);
  }
  tp__print_text(printer, "}\n");
}
