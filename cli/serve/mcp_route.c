/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/mcp_route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/database.h"
#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"

/** Which kinds of tools are offered. */
typedef struct offered {
  bool tools, memory, tasks;
} offered;

/* ---- what is to be offered ---- */

static int take_word(const cli_arguments *a, const char *where, tp_text word, offered *ret_offered) {
  if (tp_text_is(word, "tools")) ret_offered->tools = true;
  else if (tp_text_is(word, "memory")) ret_offered->memory = true;
  else if (tp_text_is(word, "tasks")) ret_offered->tasks = true;
  else {
    cli_error("%s is tools, memory or tasks, not '%.*s'", where, (int)(word.size < 64 ? word.size : 64), word.data);
    return CLI_USAGE;
  }
  if (tp_text_is(word, "memory") && a->no_memory) {
    cli_error("%s memory: --no-memory leaves the memory out", where);
    return CLI_USAGE;
  }
  if (tp_text_is(word, "tasks") && a->tasks == CLI_TASKS_NONE) {
    cli_error("%s tasks needs --tasks tools, actions or both: these are the tools of tasks", where);
    return CLI_USAGE;
  }
  return CLI_OK;
}

static int read_words(const cli_arguments *a, const cli_conversation *file, offered *ret_offered) {
  int status = CLI_OK;
  for (size_t i = 0; status == CLI_OK && i < a->exposes.count; i++)
    status = take_word(a, "--expose", tp_text_of(a->exposes.items[i]), ret_offered);
  for (tp_value_walk walk = {0}; status == CLI_OK && tp_value_next(file->exposes, &walk);) {
    tp_text word = tp_value_text(walk.value);
    status = take_word(a, "mcp_expose", word.size > 0 ? word : tp_text_of("a value that is no text"), ret_offered);
  }
  if (status != CLI_OK || ret_offered->tools || ret_offered->memory || ret_offered->tasks) return status;
  if (a->origins.count == 0 && !a->ask_wait_s && !a->asks_clients) return status;
  cli_error("%s is for clients of MCP: --expose tools offers tools to them, at /mcp", a->asks_clients ? "--ask client"
                                                                                      : a->ask_wait_s ? "--ask-wait"
                                                                                                      : "--origin");
  return CLI_USAGE;
}

#ifdef CLI_WITH_MCP
#include "turnphase/mcp_server.h"

struct cli_mcp_route {
  offered offered;
  tp_mcp_server *server;
};

/* The domains of memory and tasks are owners of this program. */
static bool offers(void *ctx, const tp_tool_listing *listing) {
  const cli_mcp_route *route = ctx;
  if (strcmp(listing->owner, "memory") == 0) return route->offered.memory;
  if (strcmp(listing->owner, "tasks") == 0) return route->offered.tasks;
  return route->offered.tools;
}

static int start(tp_runtime *runtime, const cli_arguments *a, bool has_channel, cli_mcp_route *route) {
  tp_fault fault = {0};
  bool has_directory = a->data && !cli_database_is(a->data);
  const tp_mcp_server_options options = {.struct_size = sizeof options,
                                         .mounted = true,
                                         .has_channel = has_channel,
                                         .channel_only = !a->asks_clients,
                                         .ask_wait_ms = a->ask_wait_s * 1000,
                                         .origins = a->origins.items,
                                         .state_directory = has_directory ? a->data : NULL,
                                         .offers = offers,
                                         .ctx = route};
  tp_status status = tp_mcp_server_start(runtime, &options, &route->server, &fault);
  return status == TP_OK ? CLI_OK : cli_fault("--expose", status, &fault);
}

int cli_mcp_route_open(tp_runtime *runtime, const cli_arguments *arguments, const cli_conversation *file,
                       bool has_channel, cli_mcp_route **ret_route) {
  offered which = {0};
  int status = read_words(arguments, file, &which);
  if (status != CLI_OK || (!which.tools && !which.memory && !which.tasks)) return status;
  cli_mcp_route *route = cli_alloc(sizeof *route);
  route->offered = which;
  status = start(runtime, arguments, has_channel, route);
  if (status == CLI_OK) *ret_route = route;
  else free(route);
  return status;
}

tp_mount *cli_mcp_route_mount(const cli_mcp_route *route) { return route ? tp_mcp_server_mount(route->server) : NULL; }

void cli_mcp_route_changed(const cli_mcp_route *route) {
  if (route) tp_mcp_server_tools_changed(route->server);
}

void cli_mcp_route_close(cli_mcp_route *route) {
  if (route) tp_mcp_server_free(route->server, 0);
  free(route);
}

#else

int cli_mcp_route_open(tp_runtime *runtime, const cli_arguments *arguments, const cli_conversation *file,
                       bool has_channel, cli_mcp_route **ret_route) {
  offered which = {0};
  (void)runtime, (void)has_channel, (void)ret_route;
  int status = read_words(arguments, file, &which);
  if (status != CLI_OK || (!which.tools && !which.memory && !which.tasks)) return status;
  cli_error("this turnphase was built without turnphase-mcp, which --expose needs");
  return CLI_CONFIG;
}

tp_mount *cli_mcp_route_mount(const cli_mcp_route *route) {
  (void)route;
  return NULL;
}

void cli_mcp_route_changed(const cli_mcp_route *route) { (void)route; }
void cli_mcp_route_close(cli_mcp_route *route) { (void)route; }

#endif
