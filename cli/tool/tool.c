/* SPDX-License-Identifier: Apache-2.0
 *
 * The command tool: lists the tools that a turn would have, and makes one call of them with every gate of a turn. It
 * also has tasks: calls in two steps, between which a data directory keeps them. */

#include <stdlib.h>
#include <string.h>

#include "cli/common/data.h"
#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/interrupt.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/options.h"
#include "cli/common/pool.h"
#include "cli/common/table.h"
#include "cli/mcp/mcp.h"
#include "cli/run/ask.h"
#include "cli/run/conversation.h"
#include "cli/run/host.h"
#include "cli/run/place.h"

enum { DRAIN_LIMIT_MS = 30000, INTERRUPTED_LIMIT_MS = 1000, WAIT_MS = 60000, NAME_WIDTH = 23, OWNER_WIDTH = 13 };

/* ---- list ---- */

typedef struct listing {
  cli_output *output;
  bool json;
  size_t count;
} listing;

static bool print_tool(void *ctx, const tp_tool_listing *shown) {
  listing *l = ctx;
  const tp_tool *tool = shown->tool;
  l->count++;
  if (!l->json) {
    static const cli_column columns[] = {{.head = "", .width = NAME_WIDTH},
                                         {.head = "", .width = OWNER_WIDTH, .least = 6, .rank = 1},
                                         {.head = "", .kind = CLI_COLUMN_TEXT}};
    const char *about = tool->description ? tool->description : ""; /* its first line */
    const cli_cell cells[] = {{tp_text_of(tool->name), CLI_NORMAL},
                              {tp_text_of(shown->owner), CLI_NORMAL},
                              {{about, strcspn(about, "\n")}, CLI_NORMAL}};
    cli_table table;
    cli_table_begin(&table, l->output, columns, 3, 0);
    cli_table_row(&table, cells);
    cli_table_end(&table);
    return true;
  }
  cli_map map = {0};
  cli_map_add_string(&map, "tool", tool->name);
  cli_map_add_string(&map, "owner", shown->owner);
  cli_map_add_string(&map, "description", tool->description ? tool->description : "");
  cli_map_add_value(&map, "schema", tool->schema);
  cli_map_add_bool(&map, "idempotent", tool->idempotent);
  cli_map_print(&map, l->output);
  return true;
}

static int list_tools(tp_runtime *runtime, const cli_arguments *arguments, cli_output *output) {
  listing l = {.output = output, .json = arguments->json};
  tp_fault fault = {0};
  tp_status status = tp_runtime_tools(runtime, print_tool, &l, NULL, &fault);
  if (status == TP_OK && l.count == 0)
    cli_error("there are no tools: --files DIR, --mcp NAME=COMMAND, --tasks tools or --load LIB.so has some");
  return status == TP_OK ? CLI_OK : cli_fault("the tools", status, &fault);
}

/* ---- call ---- */

/* The arguments as a value, freed with the writer. */
static int read_arguments(const char *path, tp_writer **ret_writer, tp_text *ret_value) {
  *ret_value = (tp_text){0};
  int status = path ? cli_input_decode(path, ret_writer, ret_value) : CLI_OK;
  if (status != CLI_OK || !path || tp_value_kind_of(*ret_value) == TP_VALUE_MAP) return status;
  cli_error_at(cli_input_name(path), 0, 0, "the arguments of a tool are one JSON object");
  return CLI_CONFIG;
}

/* A call that was not denied, but failed, is the negative answer. A call that could never run is a usage error. */
static int exit_of(tp_tool_result_kind kind) {
  switch (kind) {
    case TP_TOOL_OK:
      return CLI_OK;
    case TP_TOOL_DENIED:
    case TP_TOOL_OUT_OF_SCOPE:
      return CLI_DENIED;
    case TP_TOOL_UNKNOWN_TOOL:
    case TP_TOOL_INVALID_ARGUMENTS:
      return CLI_CONFIG;
    case TP_TOOL_TIMED_OUT:
      return CLI_TIMED_OUT;
    default:
      return CLI_NEGATIVE;
  }
}

/** What is done with a call. */
typedef enum tool_action { LIST, CALL, CREATE, RUN, ACTIONS } tool_action;

static void print_result(const tp_task_result *result, tool_action action, const char *name, bool json,
                         cli_output *output) {
  if (!json) {
    const char *more = result->kind == TP_TOOL_UNKNOWN_TOOL ? "; see: turnphase tool list, with the same options" : "";
    if (result->kind != TP_TOOL_OK) cli_error("%s: %s%s", name, tp_tool_result_name(result->kind), more);
    if (action == CREATE && result->kind == TP_TOOL_OK) {
      cli_print(output, result->key.data, result->key.size);
      cli_print(output, "\n", 1);
      return;
    }
    cli_print(output, result->text.data, result->text.size);
    if (result->text.size && result->text.data[result->text.size - 1] != '\n') cli_print(output, "\n", 1);
    cli_data_print_parts(output, result->parts);
    return;
  }
  cli_map map = {0};
  if (action != RUN) cli_map_add_string(&map, "tool", name);
  if (action != CALL) cli_map_add_text(&map, "task", action == RUN ? tp_text_of(name) : result->key);
  cli_map_add_string(&map, "result", tp_tool_result_name(result->kind));
  cli_map_add_bool(&map, "started", result->started);
  cli_map_add_int(&map, "duration_ns", result->duration_ns);
  cli_map_add_text(&map, "text", result->text);
  cli_data_add_answer(&map, result->value, result->parts);
  cli_map_print(&map, output);
}

/** A running call. The runtime's thread prints its result while the command waits. */
typedef struct under_way {
  cli_interrupt *interrupt;
  const cli_arguments *arguments;
  cli_output *output;
  tool_action action;
  int status;
} under_way;

static void on_end(void *ctx, const tp_task_result *result) {
  under_way *u = ctx;
  const char *name = u->arguments->operands[1];
  if (result->status == TP_OK) {
    print_result(result, u->action, name, u->arguments->json, u->output);
    u->status = exit_of(result->kind);
  } else {
    u->status = cli_fault(name, result->status, result->fault);
    if (result->status == TP_ERR_BUSY) u->status = CLI_RETRY;
  }
}

static int act(tp_runtime *runtime, under_way *u, tp_text value) {
  static const tp_task_operation operations[ACTIONS] = {
      [CALL] = TP_TASK_CALL, [CREATE] = TP_TASK_CREATE, [RUN] = TP_TASK_RUN};
  const cli_arguments *arguments = u->arguments;
  const char *name = arguments->operands[1];
  tp_turn_request request = {.struct_size = sizeof request,
                             .caller = arguments->caller,
                             .caller_job = arguments->job_id,
                             .triggered_by = arguments->triggered_by,
                             .environment = cli_environment(arguments)};
  tp_task_spec spec = {
      .struct_size = sizeof spec, .tool = name, .key = arguments->key, .arguments = value, .request = &request};
  if (u->action == RUN) spec = (tp_task_spec){.struct_size = sizeof spec, .key = name, .request = &request};
  tp_submission *submission;
  tp_fault fault = {0};
  tp_status status = tp_task_submit(runtime, operations[u->action], &spec, on_end, u, &submission, &fault);
  if (status != TP_OK) return cli_fault(name, status, &fault);
  cli_interrupt_watch(u->interrupt, submission);
  do status = tp_submission_wait(submission, WAIT_MS, NULL, NULL);
  while (status == TP_ERR_TIMEOUT);
  cli_interrupt_watch(u->interrupt, NULL);
  tp_submission_unref(submission);
  return u->status;
}

/* The agent for which a model in chat and run has created tasks. @param ret_agent  NULL: no task is run. */
static int add_agent(tp_runtime *runtime, tool_action action, tp_agent **ret_agent) {
  const tp_agent_config config = {.struct_size = sizeof config, .id = CLI_OWN_AGENT};
  tp_fault fault = {0};
  *ret_agent = NULL;
  tp_status status = action == RUN ? tp_agent_add(runtime, &config, ret_agent, &fault) : TP_OK;
  return status == TP_OK ? CLI_OK : cli_fault(config.id, status, &fault);
}

static int call(tp_runtime *runtime, under_way *u) {
  tp_writer *writer = NULL;
  tp_text value;
  tp_agent *agent = NULL;
  int status = read_arguments(u->arguments->call_arguments, &writer, &value);
  if (status == CLI_OK) status = add_agent(runtime, u->action, &agent);
  if (status == CLI_OK) status = act(runtime, u, value);
  if (agent) tp_agent_remove(agent);
  tp_writer_free(writer);
  return status;
}

/* ---- the command ---- */

static int refuse_tool(const char *what) {
  cli_error("%s", what);
  return CLI_USAGE;
}

static int check_words(const cli_arguments *arguments, tool_action *ret_action) {
  static const char *const names[ACTIONS] = {[LIST] = "list", [CALL] = "call", [CREATE] = "create", [RUN] = "run"};
  const char *word = arguments->operand;
  int found = LIST;
  while (found < ACTIONS && strcmp(word, names[found]) != 0) found++;
  if (found == ACTIONS) return CLI_USAGE; /* never reached: the command table has the same actions */
  *ret_action = (tool_action)found;
  if (arguments->operand_count == (found == LIST ? 1 : 2)) {
    /* Refuses options and operands that would not be used. */
    tool_action action = *ret_action;
    bool is_task = action == CREATE || action == RUN;
    if (is_task && !arguments->data)
      return refuse_tool("tool create and tool run keep the task in --data DIR: name one");
    if (arguments->key && action != CREATE) return refuse_tool("--key is for tool create");
    if (action == RUN && arguments->call_arguments)
      return refuse_tool("--arguments is for tool create, which keeps them");
    return CLI_OK;
  }
  if (found == LIST) return refuse_tool("tool list takes no more words");
  if (found == RUN) return refuse_tool("tool run: name one task, by the key that tool create printed");
  cli_error("tool %s: name one tool; tool list shows them", word);
  return CLI_USAGE;
}

/* Jobs of the call are done before the command ends. @return the worse status of both. */
static int drain(tp_runtime *runtime, int status, int interrupted) {
  tp_drain_report report = {.struct_size = sizeof report};
  tp_fault fault = {0};
  tp_status drained = tp_runtime_drain(runtime, interrupted ? INTERRUPTED_LIMIT_MS : DRAIN_LIMIT_MS, &report, &fault);
  if (drained != TP_OK) return cli_fault("the end", drained, &fault);
  if (interrupted) return interrupted;
  if (report.complete || status != CLI_OK) return status;
  cli_error("what the call left in the background did not end within %d s", DRAIN_LIMIT_MS / 1000);
  return CLI_TIMED_OUT;
}

int cli_tool(const cli_arguments *arguments, cli_output *output) {
  cli_interrupt interrupt;
  cli_ask ask;
  under_way u = {.interrupt = &interrupt, .arguments = arguments, .output = output};
  tp_runtime *runtime = NULL;
  tp_store *store = NULL;
  cli_place place = {0};
  int status = check_words(arguments, &u.action);
  if (status == CLI_OK) status = cli_place_open(arguments, &place, &store);
  if (status != CLI_OK) {
    cli_place_close(&place);
    return status;
  }
  if (place.database && !arguments->no_memory)
    cli_error("warning: a database keeps no memory: it is gone when this ends");
  cli_interrupt_start(&interrupt);
  bool may_ask = u.action != LIST && cli_ask_start(&ask);
  status = cli_host_open_asking(arguments, place.memory_path, store, may_ask ? &ask : NULL, &runtime);
  if (status == CLI_OK) cli_mcp_listen(runtime, arguments);
  if (status == CLI_OK) status = u.action == LIST ? list_tools(runtime, arguments, output) : call(runtime, &u);
  if (runtime) status = drain(runtime, status, cli_interrupted(&interrupt));
  if (may_ask) cli_ask_stop(&ask);
  cli_host_close(runtime);
  cli_interrupt_stop(&interrupt);
  cli_place_close(&place);
  return status;
}
