/* SPDX-License-Identifier: Apache-2.0
 *
 * print_json.c: prints plans for programs: one JSON object on one line. Times are milliseconds, hashes are text, edges
 * are ids. Disabled subscriptions are in a list of their own. */
#include "runtime/plan/print.h"

static int64_t ms(int64_t ns) { return ns / TP__NS_PER_MS; }

static void print_edges(tp__json_printer *json, const char *key, const tp_edge *const *edges, size_t count) {
  tp__print_open(json, key, "[");
  for (size_t i = 0; i < count; i++) {
    tp__print_open(json, NULL, "{");
    tp__print_string(json, "target", edges[i]->target);
    tp__print_bool(json, "optional", edges[i]->optional);
    tp__print_close(json, "}");
  }
  tp__print_close(json, "]");
}

static void print_graph(tp__json_printer *json, const tp__plan *plan, uint32_t index) {
  const tp__node *node = &plan->nodes[index];
  tp__print_open(json, "sees", "[");
  for (uint32_t i = 0; i < node->dep_count; i++) {
    tp__print_string(json, NULL, plan->nodes[plan->deps[node->first_dep + i]].sub->desc.id);
  }
  tp__print_close(json, "]");
  tp__print_open(json, "next", "[");
  for (uint32_t edge = node->first_edge; edge < node->first_edge + node->edge_count; edge++) {
    tp__print_open(json, NULL, "{");
    tp__print_string(json, "subscription", plan->nodes[plan->edges[edge] >> 1].sub->desc.id);
    tp__print_string(json, "kind", tp__edge_kind(plan, index, edge));
    tp__print_close(json, "}");
  }
  tp__print_close(json, "]");
}

static void print_policies(tp__json_printer *json, const tp__node *node) {
  const tp_subscription *desc = &node->sub->desc;
  tp__print_string(json, "trust", tp_trust_name(node->sub->trust));
  tp__print_string(json, "execution", tp_execution_name(node->execution));
  tp__print_number(json, "limit_ms", ms(node->timeout_ns));
  tp__print_string(json, "failure", tp_failure_name(node->failure));
  tp__print_string(json, "placement", tp_placement_name(node->handler->desc.placement));
  if (node->handler->desc.inbox) tp__print_bool(json, "inbox", true);
  tp__print_number(json, "priority", desc->priority);
  tp__print_number(json, "attempts", desc->attempts > 1 ? desc->attempts : 1);
  tp__print_string(json, "backoff", tp_backoff_name(desc->backoff));
  tp__print_number(json, "backoff_ms", desc->backoff_ms);
  tp__print_number(json, "max_concurrent", node->permits);
  tp__print_string(json, "fallback_verdict", tp_verdict_name(desc->fallback_verdict));
  if (desc->extends_budget) tp__print_bool(json, "extends_budget", true);
  tp__print_number(json, "fallback_contributions", (int64_t)desc->fallback_count);
  tp__print_string(json, "match", desc->match ? desc->match->description : NULL);
  tp__print_bool(json, "sequential", tp__subscription_sequential(node->sub));
  tp__print_string(json, "visibility", tp_visibility_name(desc->visibility));
  tp__print_string(json, "metadata", desc->metadata);
  tp__print_bool(json, "switched_off", tp__a32_load_relaxed(&node->sub->killed));
}

static void print_node(tp__json_printer *json, const tp__phase_view *view, uint32_t row, const tp__node *node) {
  const tp_subscription *desc = &node->sub->desc;
  const char *alias = tp__subscription_alias(view->snapshot->registry, node->sub);
  bool enabled = row < view->enabled;
  tp__print_open(json, NULL, "{");
  tp__print_number(json, "order", enabled ? row + 1 : 0);
  tp__print_string(json, "subscription", desc->id);
  tp__print_string(json, "alias", *alias ? alias : NULL);
  tp__print_bool(json, "disabled", !enabled);
  tp__print_string(json, "handler", node->handler->desc.id);
  tp__print_string(json, "summary", node->handler->desc.summary);
  tp__print_string(json, "kind", tp_handler_kind_name(node->handler->desc.kind));
  tp__print_string(json, "origin_file", node->handler->desc.origin_file);
  tp__print_number(json, "origin_line", node->handler->desc.origin_line);
  tp__print_string(json, "owner", node->sub->owner);
  tp__print_number(json, "level", enabled ? (int64_t)node->level : -1);
  tp__print_bool(json, "critical", node->critical);
  tp__print_number(json, "tail_ms", ms(node->required_tail_ns));
  print_policies(json, node);
  print_edges(json, "after", desc->after, desc->after_count);
  print_edges(json, "needs", desc->needs, desc->needs_count);
  print_edges(json, "before", desc->before, desc->before_count);
  if (enabled) print_graph(json, view->plan, row);
  tp__print_close(json, "}");
}

static void print_nodes(tp__json_printer *json, const char *key, const tp__phase_view *view, uint32_t from,
                        uint32_t to) {
  tp__row_cursor cursor = {.row = 0};
  tp__print_open(json, key, "[");
  for (uint32_t row = from; row < to; row++) print_node(json, view, row, tp__view_node(view, row, &cursor));
  tp__print_close(json, "]");
}

static void print_plan(tp__json_printer *json, const tp__plan *plan) {
  tp__print_number(json, "levels", plan->levels);
  tp__print_number(json, "worst_ms", ms(plan->worst_ns));
  tp__print_number(json, "required_ms", ms(plan->required_ns));
  tp__print_number(json, "budget_ms", ms(plan->budget_ns));
  tp__print_bool(json, "budget_set_by_host", plan->host_budget_ns > 0);
  tp__print_number(json, "default_limit_ms", ms(plan->default_limit_ns));
  tp__print_bool(json, "default_limit_set_by_host", plan->limit_set);
  tp__print_bool(json, "all_inline", plan->all_inline);
  tp__print_hash(json, "hash", plan->hash);
}

/* A phase with only disabled subscriptions has no plan: the numbers of a plan are missing, not 0. */
static void print_phase_object(tp__json_printer *json, const tp__phase_view *view) {
  tp__print_open(json, NULL, "{");
  tp__print_string(json, "phase", view->row->name);
  tp__print_string(json, "mode", tp_mode_name(view->row->mode));
  tp__print_bool(json, "reverse", view->row->reverse);
  if (view->plan) print_plan(json, view->plan);
  print_nodes(json, "subscriptions", view, 0, view->enabled);
  print_nodes(json, "disabled", view, view->enabled, view->enabled + view->disabled);
  tp__print_close(json, "}");
}

void tp__print_json(tp__snapshot *snapshot, uint32_t phase, const tp__printer *printer) {
  tp__json_printer json = {.printer = printer};
  tp__print_open(&json, NULL, "{");
  tp__print_number(&json, "version", (int64_t)snapshot->version);
  tp__print_hash(&json, "hash", snapshot->hash);
  tp__print_open(&json, "phases", "[");
  for (uint32_t at = 1; at < TP_PHASE_LIMIT; at++) {
    tp__phase_view view;
    if ((phase == TP_PHASE_NONE || phase == at) && tp__phase_view_of(snapshot, at, &view))
      print_phase_object(&json, &view);
  }
  tp__print_close(&json, "]");
  tp__print_close(&json, "}");
  tp__print_text(printer, "\n");
}
