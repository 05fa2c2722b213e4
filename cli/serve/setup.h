/* SPDX-License-Identifier: Apache-2.0
 *
 * setup: what serve reads from files at its start and once more at SIGHUP: the agents, the keys of clients and that of
 * operators. Reading opens nothing; the agents become those of the runtime as one change. The main thread's, but for
 * cli_agents_apply(). */
#ifndef CLI_SETUP_H
#define CLI_SETUP_H

#include "cli/common/listen.h"
#include "cli/run/conversation.h"
#include "cli/run/model.h"
#include "turnphase/server.h"

/** Zero-filled before cli_setup_read(). */
typedef struct cli_setup {
  cli_conversation file; /* its agents; has_file */
  bool has_file;
  cli_keys keys, admin_keys;
  tp_server_key key_list[CLI_KEYS_MAX];
  const tp_server_key *key_pointers[CLI_KEYS_MAX];
  bool borrows_keys, borrows_admin_key; /* of an older one */
} cli_setup;

/** Reads the file of agents, and the files of --keys and --admin-key.
 *  @param arguments  agents_only is set.
 *  @param older      NULL at the start; else what is to be replaced: keys from standard input are its own, until
 *                    cli_setup_take_over().
 *  @return CLI_OK, or an exit status after saying what is wrong, or what needs another start; cli_setup_free() in
 *          either case. */
int cli_setup_read(const cli_arguments *arguments, const cli_setup *older, cli_setup *setup);
/** The newer one takes the place of the older one, which is freed next. */
void cli_setup_take_over(cli_setup *older, cli_setup *newer);
void cli_setup_free(cli_setup *setup);

/** Agents of the runtime, in the order of the setup. */
typedef struct cli_agents {
  tp_agent **items;
  size_t count;
} cli_agents;

/** What the agents are to become. */
typedef struct cli_agents_plan cli_agents_plan;
/** Opens the models of the setup's agents.
 *  @param now  those that there are; kept.  @param ret_plan  ended by cli_agents_plan_free().
 *  @return CLI_OK, or an exit status after saying what is wrong. */
int cli_agents_plan_new(const cli_arguments *arguments, const cli_setup *setup, const cli_agents *now,
                        cli_agents_plan **ret_plan);
/** The agent of requests that name none: that of the command line, else the only one; NULL: none. Lives as long as the
 *  setup. */
const char *cli_agents_plan_default(const cli_arguments *arguments, const cli_agents_plan *plan);
/** tp_agents_change(). Any thread. */
tp_status cli_agents_plan_apply(cli_agents_plan *plan, tp_runtime *runtime, tp_fault *fault);
/** Frees the plan, and what of it was not applied. @param now  becomes what was applied, if it was. */
void cli_agents_plan_free(cli_agents_plan *plan, cli_agents *now);
/** Removes them, the newest first. */
void cli_agents_remove(cli_agents *agents);

#endif
