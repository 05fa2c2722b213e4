/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/drive/limits.h"

#include "phases/session/session.h"
#include "phases/drive/steps.h"
#include "runtime/base/hash_table.h"

enum { REQUESTS_MAX = 50, TOOL_CALLS_MAX = 1000, REPEATS_FIRST = 16, NAME_BYTES_MAX = 128 };

/* ---- how a turn ended ---- */

const char *tp_turn_ending_name(tp_turn_outcome outcome, tp_status code) {
  if (outcome == TP_TURN_TIMED_OUT) return "max_time";
  if (outcome != TP_TURN_FAILED) return tp_turn_outcome_name(outcome);
  switch ((int)code) {
    case TP_ERR_MAX_REQUESTS:
      return "max_requests";
    case TP_ERR_MAX_TOOL_CALLS:
      return "max_tool_calls";
    case TP_ERR_MAX_TOKENS:
      return "max_tokens";
    case TP_ERR_MAX_COST:
      return "max_cost";
    case TP_ERR_OVER_BUDGET:
      return "budget";
    case TP_ERR_REPEATED_CALL:
      return "repeated_call";
    case TP_ERR_BAD_ANSWER:
      return "bad_answer";
    default:
      return "error";
  }
}

static bool stop(tp__drive *d, tp_status code, tp_text reason) {
  tp__drive_stop(d, TP_TURN_FAILED, code, reason.data ? reason : tp_text_of(tp_status_text(code)));
  return false;
}

static void diagnose(tp__drive *d, const char *key, tp_text text) {
  tp__drive_diagnose(d, 0, TP_SEVERITY_WARNING, tp_text_of(key), "", text);
}

/* ---- tokens and cost ---- */

static bool tokens_left(tp__drive *d) {
  int64_t max = d->request.tokens_max;
  bool reached = max && (d->input_tokens >= max || d->output_tokens >= max - d->input_tokens); /* no sum runs over */
  if (!reached) return true;
  return stop(d, TP_ERR_MAX_TOKENS,
              tp__arena_printf(&d->arena, "the turn reached its limit of tokens: %lld in and %lld out, of %lld",
                               (long long)d->input_tokens, (long long)d->output_tokens, (long long)max));
}

static bool cost_left(tp__drive *d) {
  int64_t max = d->request.cost_micros_max;
  if (!max || d->cost_micros < max) return true;
  return stop(d, TP_ERR_MAX_COST,
              tp__arena_printf(&d->arena, "the turn reached its limit of cost: %.6f of %.6f",
                               (double)d->cost_micros / 1e6, (double)max / 1e6));
}

/* ---- budgets of the session and of the day ---- */

static tp_text overdraft_text(tp__drive *d, const tp__overdraft *over) {
  if (over->is_cost)
    return tp__arena_printf(&d->arena, "%s is used up: a cost of %.6f, of %.6f", over->whose, (double)over->used / 1e6,
                            (double)over->max / 1e6);
  return tp__arena_printf(&d->arena, "%s is used up: %lld %s, of %lld", over->whose, (long long)over->used, over->what,
                          (long long)over->max);
}

static bool budget_left(tp__drive *d) {
  tp_session *session = d->session;
  tp__overdraft over;
  if (!session->has_budget) return true;
  if (tp__allowance_left(&session->budget, &session->used, "the session's budget", &over) &&
      (!session->account || tp__budgets_left(session->budgets, session->account, &over)))
    return true;
  return stop(d, TP_ERR_OVER_BUDGET, overdraft_text(d, &over));
}

static bool limits_cost(const tp__drive *d) {
  const tp__budgets *budgets = d->session->budgets;
  return d->request.cost_micros_max || d->session->budget.cost_micros_max || budgets->of_tenant.cost_micros_max ||
         budgets->of_all.cost_micros_max;
}

void tp__limits_count(tp__drive *d) {
  tp_session *session = d->session;
  int64_t in = d->last_input_tokens, out = d->last_output_tokens;
  const tp__usage used = {
      .requests = 1, .tokens = in > INT64_MAX - out ? INT64_MAX : in + out, .cost_micros = d->last_cost_micros};
  if (session->has_budget) tp__usage_add(&session->used, &used);
  if (session->account) tp__budgets_add(session->budgets, session->account, &used);
  if (used.tokens == 0 || used.cost_micros > 0 || d->cost_unknown || !limits_cost(d)) return;
  d->cost_unknown = true;
  diagnose(d, "cost.unknown",
           tp_text_of("a limit of cost has no effect: the model reported tokens and no cost; give it prices"));
}

bool tp__limits_request(tp__drive *d) {
  uint32_t max = d->request.iterations_max ? d->request.iterations_max : REQUESTS_MAX;
  if (d->iterations >= max)
    return stop(d, TP_ERR_MAX_REQUESTS,
                tp__arena_printf(&d->arena, "the turn reached its limit of requests to the model: %u", max));
  return tokens_left(d) && cost_left(d) && budget_left(d);
}

/* ---- repeated calls ---- */

/* For a map, the sum over its pairs, because providers write the keys of the same arguments in any order. */
static uint64_t hash_of_value(tp_text value, uint64_t seed) {
  tp_value_kind kind = tp_value_kind_of(value);
  uint64_t hash = seed + (uint64_t)kind;
  if (kind != TP_VALUE_MAP && kind != TP_VALUE_ARRAY) return tp__hash_text(value, seed);
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);) {
    if (kind == TP_VALUE_MAP) hash += hash_of_value(walk.value, tp__hash_text(walk.key, seed));
    else hash = hash_of_value(walk.value, hash);
  }
  return hash;
}

/* @return how often the turn has made this call, including this time; 0 without memory. */
static uint32_t count_call(tp__drive *d, const tp_tool_call *call) {
  uint64_t hash = tp__hash_text(call->name, call->malformed);
  if (!call->malformed) hash = hash_of_value(call->arguments, hash);
  for (uint32_t i = 0; i < d->repeat_count; i++)
    if (d->repeats[i].hash == hash) return ++d->repeats[i].count;
  if (d->repeat_count == d->repeat_capacity) {
    uint32_t capacity = d->repeat_capacity ? d->repeat_capacity * 2 : REPEATS_FIRST;
    tp__repeat *grown = tp__arena_alloc(&d->arena, capacity * sizeof *grown);
    if (!grown) return 0;
    if (d->repeat_count > 0) memcpy(grown, d->repeats, d->repeat_count * sizeof *grown);
    d->repeats = grown;
    d->repeat_capacity = capacity;
  }
  d->repeats[d->repeat_count++] = (tp__repeat){.hash = hash, .count = 1};
  return 1;
}

/* The model reads this with the results, and people see it. */
static void name_repeated(tp__drive *d, const tp_tool_call *call, uint32_t count) {
  int size = (int)tp__utf8_cut(call->name, NAME_BYTES_MAX);
  tp_text text = tp__arena_printf(&d->arena,
                                  "The tool %.*s was called %u times in one turn with the same arguments. Use the "
                                  "results that are there, or do something else.",
                                  size, call->name.data, count);
  if (!text.data) return; /* the text is only a hint */
  tp__drive_remind(d, "", text, true);
  diagnose(d, "call.repeated", text);
}

static bool repeats_left(tp__drive *d) {
  uint32_t max = d->request.call_repeats_max, named = d->request.call_repeats_named;
  if (max && !named) named = max / 2 + max % 2;
  if (named < 2) named = 2; /* one call is no repetition */
  for (size_t i = 0; i < d->call_count; i++) {
    const tp_tool_call *call = d->calls[i];
    uint32_t count = count_call(d, call);
    if (count == 0) return tp__drive_no_memory(d);
    if (max && count > max)
      return stop(d, TP_ERR_REPEATED_CALL,
                  tp__arena_printf(&d->arena,
                                   "the model called the tool %.*s %u times with the same arguments: the limit is %u",
                                   (int)tp__utf8_cut(call->name, NAME_BYTES_MAX), call->name.data, count, max));
    if (count >= named) name_repeated(d, call, count);
  }
  return true;
}

bool tp__limits_tools(tp__drive *d) {
  uint32_t max = d->request.tool_calls_max ? d->request.tool_calls_max : TOOL_CALLS_MAX;
  if (!tokens_left(d) || !cost_left(d) || !budget_left(d)) return false;
  if (d->tool_calls + d->call_count > max)
    return stop(
        d, TP_ERR_MAX_TOOL_CALLS,
        tp__arena_printf(&d->arena,
                         "the turn reached its limit of tool calls: %u were run and the model wants %zu more, of %u",
                         d->tool_calls, d->call_count, max));
  return !(d->request.call_repeats_max | d->request.call_repeats_named) || repeats_left(d);
}
