/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/agent_config.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common/message.h"
#include "cli/common/pool.h"

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

/** Patterns of one list, of which those that fit a tool are marked. */
typedef struct fitting {
  tp_text patterns; /* a value, an array of texts */
  bool *fits;       /* one for each of them */
} fitting;

static bool mark_fitting(void *ctx, const tp_tool_listing *listing) {
  fitting *f = ctx;
  size_t at = 0;
  for (tp_value_walk walk = {0}; tp_value_next(f->patterns, &walk); at++)
    if (tp_pattern_fits(tp_value_text(walk.value), tp_text_of(listing->tool->name))) f->fits[at] = true;
  return true;
}

static bool may_come_later(tp_text pattern) {
  static const char mcp[] = "mcp__";
  return pattern.size >= sizeof mcp - 1 && memcmp(pattern.data, mcp, sizeof mcp - 1) == 0;
}

static void warn_of(tp_runtime *runtime, const char *agent, const char *key, tp_text patterns) {
  if (patterns.size == 0) return;
  fitting f = {.patterns = patterns, .fits = cli_alloc(tp_value_count(patterns) + 1)};
  bool is_listed = tp_runtime_tools(runtime, mark_fitting, &f, NULL, NULL) == TP_OK;
  size_t at = 0;
  for (tp_value_walk walk = {0}; is_listed && tp_value_next(patterns, &walk); at++) {
    tp_text pattern = tp_value_text(walk.value);
    if (!f.fits[at] && !may_come_later(pattern))
      cli_error("warning: agent %s: %s: no tool here fits \"%.*s\"; only a client's tool may", agent, key,
                (int)pattern.size, pattern.data);
  }
  free(f.fits);
}

void cli_agents_warn(tp_runtime *runtime, const cli_agent *agents, size_t count) {
  for (size_t i = 0; i < count; i++) {
    warn_of(runtime, agents[i].id, "tools", agents[i].tools);
    warn_of(runtime, agents[i].id, "tools: deny", agents[i].tools_denied);
  }
}
