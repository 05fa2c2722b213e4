/* SPDX-License-Identifier: Apache-2.0
 *
 * print_dot.c: plans as a drawing for Graphviz: a cluster for each phase, a box for each subscription (bold: required,
 * dashed: detached, red: on the critical path), an arrow for each edge, drawn by what made it. */
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

static void print_box(const tp__node *node, const tp__printer *printer) {
  char limit[TP__DURATION_SIZE];
  tp__print_text(printer, "    ");
  tp__print_quoted(printer, node->sub->desc.id);
  tp__print_text(printer, " [tooltip=");
  tp__print_quoted(printer, node->handler->desc.id);
  tp__print_format(printer, ",xlabel=\"%s %s %s\"", tp_execution_name(node->execution),
                   tp__duration(node->limit_ns, limit), tp_failure_name(node->failure));
  if (!tp__node_awaited(node))
    tp__print_text(printer, ",style=dashed");
  else if (node->flags & TP__NODE_REQUIRED)
    tp__print_text(printer, ",style=bold");
  if (node->critical) tp__print_text(printer, ",color=red");
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

static void print_plan(const tp__plan *plan, const tp__printer *printer) {
  tp__print_format(printer, "  subgraph cluster_%u {\n    label=", plan->phase);
  tp__print_quoted(printer, plan->row->name);
  tp__print_text(printer, ";\n");
  for (uint32_t i = 0; i < plan->node_count; i++) print_box(&plan->nodes[i], printer);
  for (uint32_t i = 0; i < plan->node_count; i++) print_arrows(plan, i, printer);
  tp__print_text(printer, "  }\n");
}

void tp__print_dot(tp__snapshot *snapshot, uint32_t phase, const tp__printer *printer) {
  tp__print_text(printer, "digraph turnphase {\n  rankdir=LR;\n  node [shape=box];\n");
  for (uint32_t at = 1; at < TP_PHASE_LIMIT; at++) {
    if (snapshot->plans[at] && (phase == TP_PHASE_NONE || phase == at)) print_plan(snapshot->plans[at], printer);
  }
  tp__print_text(printer, "}\n");
}
