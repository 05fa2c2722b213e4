/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/setup.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/run/agent_config.h"
#include "runtime/base/check.h"
#include "support/text.h"

/* ---- what is read ---- */

/* Standard input is read once. */
static bool borrows(const char *file, const cli_setup *older) { return older && file && strcmp(file, "-") == 0; }

/* "KEY" or "KEY TENANT", a line. */
static int read_keys(const cli_arguments *a, cli_setup *s) {
  if (!a->keys || s->borrows_keys) return CLI_OK;
  int status = cli_keys_read(a->keys, &s->keys);
  for (size_t i = 0; status == CLI_OK && i < s->keys.count; i++) {
    char *tenant = (char *)(uintptr_t)s->keys.items[i], *key = strsep(&tenant, " \t");
    if (tenant) tenant += strspn(tenant, " \t");
    if (tenant && !tp__is_id(tp_text_of(tenant))) {
      cli_error("%s, key %zu: the tenant must have 1 to 128 bytes without white space", a->keys, i + 1);
      status = CLI_CONFIG;
    }
    s->key_list[i] = (tp_server_key){.struct_size = sizeof s->key_list[i], .key = key, .tenant = tenant};
    s->key_pointers[i] = &s->key_list[i];
  }
  return status;
}

static int read_admin_key(const cli_arguments *a, cli_setup *s) {
  if (!a->admin_key || s->borrows_admin_key) return CLI_OK;
  int status = cli_keys_read(a->admin_key, &s->admin_keys);
  if (status != CLI_OK || s->admin_keys.count == 1) return status;
  cli_error("%s has %zu keys: operators have one", a->admin_key, s->admin_keys.count);
  return CLI_CONFIG;
}

/* The file of agents: a conversation without sessions. */
static int read_file(const cli_arguments *a, cli_setup *s) {
  const char *file = a->operand;
  if (!file) return CLI_OK;
  int status = cli_conversation_read(file, a, &s->file);
  if (status != CLI_OK) return status;
  s->has_file = true;
  if (s->file.count == 0 && s->file.agent_count > 0) return CLI_OK;
  cli_error("%s: serve takes a file with agents, and without sessions", file);
  return CLI_CONFIG;
}

static int compare_servers(const char *file, const cli_setup *older, const cli_setup *newer) {
  if (older && !tp_text_equal(older->file.exposes, newer->file.exposes)) {
    cli_error_at(file, 0, 0, "mcp_expose has changed: what /mcp offers begins with serve; start it anew");
    return CLI_CONFIG;
  }
  for (size_t i = 0; older && i < sizeof newer->file.servers / sizeof *newer->file.servers; i++)
    if (!tp_text_equal(older->file.servers[i], newer->file.servers[i])) {
      cli_error_at(file, 0, 0, "mcp has changed: servers of MCP begin with serve; start it anew");
      return CLI_CONFIG;
    }
  return CLI_OK;
}

int cli_setup_read(const cli_arguments *arguments, const cli_setup *older, cli_setup *setup) {
  if (borrows(arguments->keys, older)) {
    setup->borrows_keys = true;
    setup->keys.count = older->keys.count;
    for (size_t i = 0; i < setup->keys.count; i++) {
      setup->key_list[i] = older->key_list[i];
      setup->key_pointers[i] = &setup->key_list[i];
    }
  }
  if (borrows(arguments->admin_key, older)) {
    setup->borrows_admin_key = true;
    setup->admin_keys.items[0] = older->admin_keys.items[0];
  }
  int status = read_file(arguments, setup);
  if (status == CLI_OK) status = compare_servers(arguments->operand, older, setup);
  if (status == CLI_OK)
    status = cli_models_check(arguments, "serve", !setup->has_file || cli_conversation_needs_model(&setup->file));
  if (status == CLI_OK) status = read_keys(arguments, setup);
  if (status == CLI_OK) status = read_admin_key(arguments, setup);
  return status;
}

static void take_keys(cli_keys *from, cli_keys *to) {
  *to = *from;
  *from = (cli_keys){.text = NULL};
}

void cli_setup_take_over(cli_setup *older, cli_setup *newer) {
  if (newer->borrows_keys) take_keys(&older->keys, &newer->keys);
  if (newer->borrows_admin_key) take_keys(&older->admin_keys, &newer->admin_keys);
}

void cli_setup_free(cli_setup *setup) {
  if (setup->has_file) cli_conversation_free(&setup->file);
  cli_keys_free(&setup->keys);
  cli_keys_free(&setup->admin_keys);
}

/* ---- agents ---- */

/** One agent that is to be there: its models are this program's until the change was made. */
typedef struct wanted {
  cli_models models;
  tp_agent_config config;
  tp_writer *extra; /* that of the config; NULL: none */
} wanted;

struct cli_agents_plan {
  wanted *wanted;
  size_t wanted_count;
  tp_agent_change *changes; /* of those that are wanted, in their order, then of those that go */
  tp_agent_change **list;
  size_t count;
  bool applied;
};

/* @param agent  NULL: that of the command line. Without models it has those of the command line, opened once more,
 *   since each agent owns its own. */
static int want(const cli_arguments *a, cli_agents_plan *plan, const cli_agent *agent) {
  wanted *w = &plan->wanted[plan->wanted_count];
  int status = cli_models_open(agent && agent->models.count > 0 ? &agent->models : &a->models, &w->models);
  if (status != CLI_OK) return status;
  plan->wanted_count++;
  assert(w->models.count > 0);
  w->config = (tp_agent_config){.struct_size = sizeof w->config,
                                .id = agent ? agent->id : CLI_OWN_AGENT,
                                .system = agent ? agent->system : a->system,
                                .model = w->models.items[0],
                                .fallbacks = (const tp_model *const *)w->models.items + 1,
                                .fallback_count = w->models.count - 1,
                                .extra = cli_agent_config_write(agent, &w->extra)};
  return CLI_OK;
}

static tp_agent_change *wanted_change(const cli_agents_plan *plan, const char *id) {
  for (size_t i = 0; i < plan->wanted_count; i++)
    if (strcmp(plan->wanted[i].config.id, id) == 0) return &plan->changes[i];
  return NULL;
}

static void pair(cli_agents_plan *plan, const cli_agents *now) {
  const tp_agent_change empty = {.struct_size = sizeof empty};
  for (; plan->count < plan->wanted_count; plan->count++) {
    plan->changes[plan->count] = empty;
    plan->changes[plan->count].config = &plan->wanted[plan->count].config;
  }
  for (size_t i = 0; i < now->count; i++) {
    tp_agent_change *change = wanted_change(plan, tp_agent_id(now->items[i]));
    if (!change) {
      change = &plan->changes[plan->count++];
      *change = empty;
    }
    change->before = now->items[i];
  }
  for (size_t i = 0; i < plan->count; i++) plan->list[i] = &plan->changes[i];
}

int cli_agents_plan_new(const cli_arguments *a, const cli_setup *setup, const cli_agents *now,
                        cli_agents_plan **ret_plan) {
  cli_agents_plan *plan = cli_alloc(sizeof *plan);
  size_t most = 1 + setup->file.agent_count;
  plan->wanted = cli_alloc(most * sizeof *plan->wanted);
  plan->changes = cli_alloc((most + now->count) * sizeof *plan->changes);
  plan->list = cli_alloc((most + now->count) * sizeof *plan->list);
  int status = CLI_OK;
  if (a->models.count > 0) status = want(a, plan, NULL);
  for (size_t i = 0; status == CLI_OK && i < setup->file.agent_count; i++)
    status = want(a, plan, &setup->file.agents[i]);
  if (status == CLI_OK) {
    pair(plan, now);
    *ret_plan = plan;
  } else {
    cli_agents_plan_free(plan, NULL);
  }
  return status;
}

const char *cli_agents_plan_default(const cli_arguments *a, const cli_agents_plan *plan) {
  if (a->only_models || plan->wanted_count == 0) return NULL;
  return a->models.count > 0 || plan->wanted_count == 1 ? plan->wanted[0].config.id : NULL;
}

tp_status cli_agents_plan_apply(cli_agents_plan *plan, tp_runtime *runtime, tp_fault *fault) {
  tp_status status = tp_agents_change(runtime, plan->list, plan->count, fault);
  plan->applied = status == TP_OK;
  return status;
}

void cli_agents_plan_free(cli_agents_plan *plan, cli_agents *now) {
  if (!plan) return;
  if (plan->applied) {
    now->items = cli_realloc(now->items, plan->wanted_count * sizeof *now->items);
    now->count = plan->wanted_count;
    for (size_t i = 0; i < now->count; i++) now->items[i] = plan->changes[i].agent;
  }
  for (size_t i = 0; !plan->applied && i < plan->wanted_count; i++) cli_models_free(&plan->wanted[i].models);
  for (size_t i = 0; i < plan->wanted_count; i++) tp_writer_free(plan->wanted[i].extra);
  free(plan->wanted);
  free(plan->changes);
  free(plan->list);
  free(plan);
}

void cli_agents_remove(cli_agents *agents) {
  for (size_t i = agents->count; i > 0; i--) tp_agent_remove(agents->items[i - 1]);
  free(agents->items);
  *agents = (cli_agents){.items = NULL};
}
