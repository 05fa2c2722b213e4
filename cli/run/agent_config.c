/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/agent_config.h"

#include <stdlib.h>

#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "support/text.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void write_limits(tp_writer *writer, const cli_limits *limits) {
  const struct {
    const char *key;
    int64_t amount;
  } rows[] = {{"requests", limits->requests},       {"tool_calls", limits->tool_calls},
              {"tokens", limits->tokens},           {"time_ms", smaller((int64_t)limits->time_s * 1000, UINT32_MAX)},
              {"cost_micros", limits->cost_micros}, {"repeats", limits->repeats}};
  size_t count = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) count += rows[i].amount > 0;
  tp_write_map(writer, count);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].amount == 0) continue;
    tp_write_string(writer, rows[i].key);
    tp_write_int(writer, rows[i].amount);
  }
}

static bool has_limits(const cli_limits *l) {
  return l->requests || l->tool_calls || l->tokens || l->repeats || l->time_s || l->cost_micros;
}

static void write_pair(tp_writer *writer, const char *key, tp_text value) {
  if (value.size == 0) return;
  tp_write_string(writer, key);
  tp_write_value(writer, value);
}

tp_text cli_agent_config_write(const cli_agent *agent, tp_writer **ret_writer) {
  tp_text map = {NULL, 0};
  *ret_writer = NULL;
  if (!agent) return map;
  bool limits = has_limits(&agent->limits);
  size_t count = (size_t)limits + agent->no_memory + (agent->tools.size > 0) + (agent->tools_denied.size > 0) +
                 (agent->skills.size > 0);
  if (count == 0) return map;
  cli_need(tp_writer_new(NULL, ret_writer));
  tp_write_map(*ret_writer, count);
  write_pair(*ret_writer, "tools", agent->tools);
  write_pair(*ret_writer, "tools_denied", agent->tools_denied);
  write_pair(*ret_writer, "skills", agent->skills);
  if (agent->no_memory) {
    tp_write_string(*ret_writer, "memory");
    tp_write_bool(*ret_writer, false);
  }
  if (limits) {
    tp_write_string(*ret_writer, "limits");
    write_limits(*ret_writer, &agent->limits);
  }
  cli_need(tp_writer_finish(*ret_writer, &map));
  return map;
}

/* ---- patterns that fit no tool ---- */

/** A pattern that no tool has fitted so far. */
typedef struct unfit {
  const char *agent, *key;
  tp_text pattern;
} unfit;

typedef struct unfits {
  unfit *items;
  size_t count, capacity;
} unfits;

static bool drop_fitting(void *ctx, const tp_tool_listing *listing) {
  unfits *u = ctx;
  size_t kept = 0;
  for (size_t i = 0; i < u->count; i++)
    if (!tp_pattern_fits(u->items[i].pattern, tp_text_of(listing->tool->name))) u->items[kept++] = u->items[i];
  u->count = kept;
  return true;
}

static bool may_come_later(tp_text pattern) { return tp__begins(pattern, "mcp__"); }

static void add_patterns(unfits *u, const char *agent, const char *key, tp_text patterns) {
  for (tp_value_walk walk = {0}; patterns.size > 0 && tp_value_next(patterns, &walk);) {
    if (may_come_later(tp_value_text(walk.value))) continue;
    u->items = cli_reserve(u->items, u->count, &u->capacity, sizeof *u->items);
    u->items[u->count++] = (unfit){agent, key, tp_value_text(walk.value)};
  }
}

void cli_agents_warn(tp_runtime *runtime, const cli_agent *agents, size_t count) {
  unfits u = {.count = 0};
  tp_fault fault = {0};
  for (size_t i = 0; i < count; i++) {
    add_patterns(&u, agents[i].id, "tools", agents[i].tools);
    add_patterns(&u, agents[i].id, "tools: deny", agents[i].tools_denied);
  }
  tp_status status = u.count > 0 ? tp_runtime_tools(runtime, drop_fitting, &u, NULL, &fault) : TP_OK;
  if (status != TP_OK) cli_error("warning: the tools of agents were not looked at: %s", fault.message);
  for (size_t i = 0; status == TP_OK && i < u.count; i++)
    cli_error("warning: agent %s: %s: no tool here fits \"%.*s\"; only a client's tool may", u.items[i].agent,
              u.items[i].key, (int)u.items[i].pattern.size, u.items[i].pattern.data);
  free(u.items);
}
