/* SPDX-License-Identifier: Apache-2.0
 *
 * validate.c: checks one subscription by itself: whether its handler, its phase and its policies go together. It also
 * computes the policies with every default filled in. Disabled subscriptions pass the same checks. So enabling a
 * subscription can only fail because of its edges or the budget. */
#include <stdio.h>

#include "runtime/plan/registry.h"

enum {
  KINDS_ALWAYS = 1 << TP_CONTRIBUTION_DIAGNOSTIC | 1 << TP_CONTRIBUTION_AUDIT,
  KINDS_DETACHED = KINDS_ALWAYS | 1 << TP_CONTRIBUTION_BACKGROUND_JOB,
  KINDS_INFRA = 1 << TP_CONTRIBUTION_SIGNAL | 1 << TP_CONTRIBUTION_REMINDER,
  PERMITS_DEFAULT = 16
};

tp_status tp__subscription_refuse(tp_fault *fault, const tp__registry *registry, const tp__subscription *sub,
                                  tp_status code, const char *format, ...) {
  char what[TP_FAULT_MESSAGE_SIZE];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  tp__fail(fault, code, sub->desc.id, "subscription `%s` of %s: %s", sub->desc.id,
           registry->phases[sub->desc.phase]->name, what);
  if (fault) fault->phase = sub->desc.phase;
  return code;
}

/* ---- what the defaults come to ---- */

static tp_execution execution_of(const tp_subscription *desc) {
  return desc->execution == TP_EXECUTION_DEFAULT ? TP_EXECUTION_BLOCKING : desc->execution;
}

static bool takes_hook_defaults(const tp__subscription *sub, tp_execution execution) {
  return sub->trust == TP_TRUST_DECLARED && !(tp__execution_policy(execution)->flags & TP__NODE_DETACHED);
}

static tp_failure failure_of(const tp__registry *registry, const tp__subscription *sub, const tp_phase *row,
                             tp_execution execution) {
  if (sub->desc.failure != TP_FAILURE_DEFAULT) return sub->desc.failure;
  /* The default for hooks must not make a subscription that is refused. */
  if (takes_hook_defaults(sub, execution) && registry->hook_failure && row->mode != TP_MODE_OBSERVE)
    return registry->hook_failure;
  return row->failure == TP_FAILURE_DEFAULT ? TP_FAILURE_BEST_EFFORT : row->failure;
}

static int64_t timeout_ns_of(const tp__registry *registry, const tp__set *set, const tp__subscription *sub,
                             const tp_phase *row, tp_execution execution) {
  uint32_t limit_ms = sub->desc.limit_ms;
  if (limit_ms == 0 && takes_hook_defaults(sub, execution)) limit_ms = registry->hook_limit_ms;
  if (limit_ms == 0) limit_ms = tp__execution_policy(execution)->limit_ms;
  if (limit_ms == 0) limit_ms = tp__set_limit_ms(set, row, sub->desc.phase);
  return (int64_t)limit_ms * TP__NS_PER_MS;
}

static uint32_t flags_of(const tp__subscription *sub, const tp__node *node) {
  uint32_t flags = tp__execution_policy(node->execution)->flags | tp__failure_policy(node->failure)->flags;
  if (node->handler->desc.placement != TP_PLACEMENT_THREAD) flags |= TP__NODE_INLINE;
  if (node->handler->desc.placement == TP_PLACEMENT_PARALLEL) flags |= TP__NODE_PARALLEL;
  if (sub->desc.extends_budget) flags |= TP__NODE_EXTENDS;
  if (sub->desc.match) flags |= TP__NODE_MATCH;
  if (sub->desc.attempts > 1) flags |= TP__NODE_RETRY;
  if (sub->alias_flags & TP__ALIAS_INFRA) flags |= TP__NODE_INFRA;
  return flags;
}

static tp_capability kinds_of(const tp__node *node, const tp_phase *row) {
  tp_capability allowed = row->kinds | KINDS_ALWAYS;
  if (!tp__node_awaited(node)) allowed &= KINDS_DETACHED;
  tp_capability kinds = allowed & (node->capabilities | 1 << TP_CONTRIBUTION_DIAGNOSTIC);
  /* allowed here, so that the merge can drop them with a diagnostic */
  if (node->flags & TP__NODE_INFRA) kinds |= KINDS_INFRA;
  return kinds;
}

/* Of a handler that declares none. */
static tp_capability all_capabilities(const tp_phase *row) {
  tp_capability capabilities = row->kinds | TP_CAPABILITY_EMIT_AUDIT;
  if (row->stop) capabilities |= TP_CAPABILITY_DECIDE;
  if (row->replace) capabilities |= TP_CAPABILITY_REPLACE_PAYLOAD;
  return capabilities;
}

static void resolve_node(const tp__registry *registry, const tp__set *set, tp__subscription *sub, tp__handler *handler,
                         const tp_phase *row, tp__node *ret_node) {
  const tp_subscription *desc = &sub->desc;
  tp__node node = {.run = handler->desc.run,
                   .ctx = handler->desc.ctx,
                   .capabilities = handler->desc.capabilities ? handler->desc.capabilities : all_capabilities(row),
                   .sub = sub,
                   .handler = handler};
  node.execution = execution_of(desc);
  node.failure = failure_of(registry, sub, row, node.execution);
  node.timeout_ns = timeout_ns_of(registry, set, sub, row, node.execution);
  node.flags = flags_of(sub, &node);
  node.kinds = kinds_of(&node, row);
  node.permits = desc->max_concurrent;
  if (node.permits == 0 && !(node.flags & TP__NODE_INLINE) && !handler->desc.inbox) node.permits = PERMITS_DEFAULT;
  *ret_node = node;
}

/* ---- what does not go together ---- */

typedef struct checker {
  const tp__registry *registry;
  const tp__set *set;
  const tp__subscription *sub;
  const tp__handler *handler;
  const tp__node *node;
  const tp_phase *row;
  tp_fault *fault;
} checker;

#define REFUSE(c, code, ...) tp__subscription_refuse((c)->fault, (c)->registry, (c)->sub, (code), __VA_ARGS__)

static tp_status check_phase(const checker *c) {
  const tp_handler *handler = &c->handler->desc;
  for (size_t i = 0; i < handler->phase_count; i++) {
    if (handler->phases[i] == c->sub->desc.phase) return TP_OK;
  }
  return REFUSE(c, TP_ERR_UNSUPPORTED_PHASE, "its handler `%s` does not support this phase", handler->id);
}

/* Whether this is a declared hook whose operator granted rewrite. The grant counts only in the library's own phases,
 * not in phases of the host. */
static bool may_rewrite(const checker *c) {
  return c->sub->trust == TP_TRUST_DECLARED && (c->sub->grants & TP_GRANT_REWRITE) != 0 &&
         c->sub->desc.phase < TP_PHASE_HOST;
}

/* Checks which owners the phase accepts. A handler with the trust level declared stays a declared hook, whichever owner
 * subscribes it. */
static tp_status check_trust(const checker *c) {
  const tp__subscription *sub = c->sub;
  bool privileged = sub->trust == TP_TRUST_BUILTIN || (sub->grants & TP_GRANT_PRIVILEGED_HOOKS);
  if (c->row->privileged && !privileged) {
    return REFUSE(c, TP_ERR_PRIVILEGED,
                  "the phase is privileged and owner `%s` is neither built in nor granted privileged_hooks",
                  sub->owner);
  }
  bool declared = sub->trust == TP_TRUST_DECLARED || c->handler->trust == TP_TRUST_DECLARED;
  if (c->row->code_only && declared && !may_rewrite(c)) {
    return REFUSE(c, TP_ERR_CODE_ONLY, "the phase is for code only, and this is a declared hook of owner `%s`",
                  sub->trust == TP_TRUST_DECLARED ? sub->owner : c->handler->owner);
  }
  if (c->row->rewrite_granted && sub->trust != TP_TRUST_BUILTIN && !(sub->grants & TP_GRANT_REWRITE)) {
    return REFUSE(c, TP_ERR_PRIVILEGED,
                  "the phase changes what tools are called with; owner `%s` is neither built in nor granted rewrite",
                  sub->owner);
  }
  return TP_OK;
}

static tp_status check_required(const checker *c) {
  bool required = c->node->failure == TP_FAILURE_REQUIRED;
  if (c->row->mode == TP_MODE_OBSERVE && (required || c->sub->desc.needs_count > 0)) {
    return REFUSE(c, TP_ERR_OBSERVER_REQUIRED,
                  "the phase is observed only, so nothing in it is required and nothing requires another: use "
                  "best_effort and `after`");
  }
  if (required && !tp__node_awaited(c->node) && c->row->stop) {
    return REFUSE(
        c, TP_ERR_DETACHED_REQUIRED,
        "it is required, but %s is never waited for, and the phase needs its verdict: use blocking or best_effort",
        tp_execution_name(c->node->execution));
  }
  return TP_OK;
}

static tp_status check_retry(const checker *c) {
  if (c->sub->desc.attempts <= 1 || c->handler->desc.idempotent) return TP_OK;
  return REFUSE(c, TP_ERR_USAGE, "it asks for %u attempts, but its handler `%s` does not declare itself idempotent",
                c->sub->desc.attempts, c->handler->desc.id);
}

/* Refuses TP_INBOX_OF_SESSION where there may be no session: in phases without one, and in jobs, which may run after it
 * was closed. */
static tp_status check_session(const checker *c) {
  const char *why = NULL;
  if (c->row->no_session) why = "the phase is run in turns of no session";
  else if (c->node->execution == TP_EXECUTION_BACKGROUND) why = "a background job may run after its session was closed";
  if (!why) return TP_OK;
  return REFUSE(c, TP_ERR_USAGE, "its handler `%s` names TP_INBOX_OF_SESSION, and %s: name an inbox",
                c->handler->desc.id, why);
}

static tp_status check_inbox(const checker *c) {
  if (tp__inbox_is_of_session(c->handler->desc.inbox)) TP__TRY(check_session(c));
  if (!c->handler->desc.inbox || c->sub->desc.max_concurrent == 0) return TP_OK;
  return REFUSE(c, TP_ERR_USAGE,
                "max_concurrent counts handler threads, and its handler `%s` uses none but an inbox, whose capacity is "
                "the bound: leave it 0",
                c->handler->desc.id);
}

static tp_status check_fallback_verdict(const checker *c) {
  tp_verdict verdict = c->sub->desc.fallback_verdict;
  if (verdict == TP_VERDICT_NONE) return TP_OK;
  if (verdict != TP_VERDICT_ALLOW && verdict != TP_VERDICT_DENY && verdict != TP_VERDICT_ASK) {
    return REFUSE(c, TP_ERR_BAD_FALLBACK, "the verdict of its fallback is none of allow, deny and ask");
  }
  if (!(c->node->capabilities & TP_CAPABILITY_DECIDE)) {
    return REFUSE(c, TP_ERR_CAPABILITY, "its fallback holds a verdict, but its handler `%s` did not declare `decide`",
                  c->handler->desc.id);
  }
  if (!c->row->stop) return REFUSE(c, TP_ERR_CAPABILITY, "its fallback holds a verdict, but the phase takes none");
  if (verdict == TP_VERDICT_ASK && !c->row->ask) {
    return REFUSE(c, TP_ERR_CAPABILITY, "its fallback asks, but the phase takes allow and deny only");
  }
  return TP_OK;
}

static tp_status check_fallback_kinds(const checker *c) {
  for (size_t i = 0; i < c->sub->desc.fallback_count; i++) {
    uint32_t kind = c->sub->desc.fallback[i]->kind;
    bool known = kind > 0 && kind < TP_CONTRIBUTION_COUNT;
    if (known && (c->node->kinds & 1u << kind)) continue;
    bool allowed = known && ((c->row->kinds | KINDS_ALWAYS) & 1u << kind);
    if (!allowed) {
      return REFUSE(c, TP_ERR_CAPABILITY,
                    "contribution %zu of its fallback is of kind %u, which the phase does not take", i + 1, kind);
    }
    return REFUSE(c, TP_ERR_CAPABILITY,
                  "contribution %zu of its fallback is of kind %u, which its handler `%s` did not declare", i + 1, kind,
                  c->handler->desc.id);
  }
  return TP_OK;
}

static tp_status check_fallback(const checker *c) {
  const tp_subscription *desc = &c->sub->desc;
  bool given = desc->fallback_count > 0 || desc->fallback_verdict != TP_VERDICT_NONE;
  if (c->node->failure != TP_FAILURE_FALLBACK) {
    return given ? REFUSE(c, TP_ERR_USAGE, "it has a fallback that its failure policy %s never uses",
                          tp_failure_name(c->node->failure))
                 : TP_OK;
  }
  if (!tp__node_awaited(c->node)) {
    return REFUSE(c, TP_ERR_BAD_FALLBACK,
                  "it has a fallback, but no entry waits for a %s subscription, so nothing could take its place",
                  tp_execution_name(c->node->execution));
  }
  if (!given) {
    return REFUSE(c, TP_ERR_BAD_FALLBACK, "its failure policy is fallback, but it has no contributions and no verdict");
  }
  TP__TRY(check_fallback_verdict(c));
  return check_fallback_kinds(c);
}

static tp_status check_backlog(const checker *c) {
  tp_backlog backlog = c->sub->desc.backlog;
  if (backlog == TP_BACKLOG_DEFAULT || c->node->flags & TP__NODE_BACKGROUND) return TP_OK;
  if (c->node->flags & TP__NODE_DETACHED && backlog != TP_BACKLOG_WAIT) return TP_OK;
  return REFUSE(c, TP_ERR_USAGE,
                "backlog is %s, and its execution is %s: background may wait, refuse and shed, fire_and_record refuse "
                "and shed, and others are in no backlog",
                tp_backlog_name(backlog), tp_execution_name(c->node->execution));
}

static tp_status check_extends(const checker *c) {
  if (!c->sub->desc.extends_budget || tp__node_awaited(c->node)) return TP_OK;
  return REFUSE(c, TP_ERR_USAGE, "extends_budget is set, and its execution is %s: no entry waits for it",
                tp_execution_name(c->node->execution));
}

static tp_status check_match(const checker *c) {
  const tp_match *match = &c->sub->match;
  tp_field_id field = tp__match_missing_field(c->registry, c->sub->desc.phase, match);
  if (field == TP_FIELD_NONE) return TP_OK;
  const char *name = tp_field_name(field);
  return REFUSE(c, TP_ERR_MATCH_KEY, "its match `%s` reads payload field %u%s%s, which the phase does not carry",
                match->description, field, name ? ", " : "", name ? name : "");
}

static tp_status check_budget(const checker *c) {
  uint32_t budget_ms = c->set->budgets_ms[c->sub->desc.phase];
  bool waits = c->node->failure == TP_FAILURE_REQUIRED && tp__node_awaited(c->node);
  if (budget_ms == 0 || !waits || c->node->timeout_ns <= (int64_t)budget_ms * TP__NS_PER_MS) return TP_OK;
  return REFUSE(
      c, TP_ERR_BUDGET,
      "it is required with a limit of %lld ms, above the phase's budget of %u ms: lower the limit or raise the budget",
      (long long)(c->node->timeout_ns / TP__NS_PER_MS), budget_ms);
}

tp_status tp__validate(const tp__registry *registry, const tp__set *set, tp__subscription *sub, bool disabled,
                       tp__node *ret_node, tp_fault *fault) {
  tp__handler *handler = tp__set_handler(set, sub->desc.handler);
  checker c = {.registry = registry,
               .set = set,
               .sub = sub,
               .handler = handler,
               .node = ret_node,
               .row = registry->phases[sub->desc.phase],
               .fault = fault};
  if (!handler) {
    return REFUSE(&c, TP_ERR_MISSING_HANDLER,
                  "its handler `%s` is not registered; add the handler or remove the subscription", sub->desc.handler);
  }
  resolve_node(registry, set, sub, handler, c.row, ret_node);
  TP__TRY(check_phase(&c));
  TP__TRY(check_trust(&c));
  TP__TRY(check_required(&c));
  TP__TRY(check_retry(&c));
  TP__TRY(check_inbox(&c));
  TP__TRY(check_fallback(&c));
  TP__TRY(check_backlog(&c));
  TP__TRY(check_extends(&c));
  TP__TRY(check_match(&c));
  return disabled ? TP_OK : check_budget(&c);
}

/* The subscription was found valid when it was committed with the same handler, so this cannot fail. */
void tp__disabled_node(tp__snapshot *snapshot, tp__subscription *sub, tp__node *ret_node) {
  const tp__set *set = tp__snapshot_set(snapshot);
  tp__handler *handler = tp__set_handler(set, sub->desc.handler);
  assert(handler);
  resolve_node(snapshot->registry, set, sub, handler, snapshot->registry->phases[sub->desc.phase], ret_node);
}
