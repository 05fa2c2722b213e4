/* SPDX-License-Identifier: Apache-2.0
 *
 * The command tool: the tools that a turn would have, and one call of them with every gate of a turn. */

#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/options.h"
#include "cli/common/pool.h"
#include "cli/common/quantity.h"
#include "cli/run/ask.h"
#include "cli/run/host.h"
#include "turnphase/declared.h"

enum { DRAIN_LIMIT_MS = 30000, NAME_WIDTH = 24, OWNER_WIDTH = 14 };

/* ---- list ---- */

typedef struct listing {
  cli_output *output;
  bool json;
} listing;

static void print_value(cli_output *output, tp_writer *writer, const char *what) {
  tp_text value;
  tp_fault fault = {0};
  cli_need(tp_writer_finish(writer, &value));
  tp_status status = tp_json_encode(value, cli_print, output, &fault);
  if (status == TP_OK) cli_print(output, "\n", 1);
  else cli_fault(what, status, &fault);
  tp_writer_free(writer);
}

static bool print_tool(void *ctx, const tp_tool_listing *shown) {
  const listing *l = ctx;
  const tp_tool *tool = shown->tool;
  if (!l->json) {
    cli_cell_left(l->output, tool->name, NAME_WIDTH);
    cli_print_string(l->output, " ");
    cli_cell_left(l->output, shown->owner, OWNER_WIDTH);
    cli_printf(l->output, " %s\n", tool->description ? tool->description : "");
    return true;
  }
  cli_map map = {0};
  cli_need(tp_writer_new(NULL, &map.writer));
  cli_map_add_string(&map, "tool", tool->name);
  cli_map_add_string(&map, "owner", shown->owner);
  cli_map_add_string(&map, "description", tool->description ? tool->description : "");
  cli_map_add_value(&map, "schema", tool->schema);
  cli_map_add_bool(&map, "idempotent", tool->idempotent);
  cli_map_write(&map);
  print_value(l->output, map.writer, "the tool");
  return true;
}

static int list(tp_runtime *runtime, const cli_arguments *arguments, cli_output *output) {
  listing l = {.output = output, .json = arguments->json};
  tp_fault fault = {0};
  tp_status status = tp_runtime_tools(runtime, print_tool, &l, NULL, &fault);
  return status == TP_OK ? CLI_OK : cli_fault("the tools", status, &fault);
}

/* ---- call ---- */

/* The arguments as a value, freed with the writer. */
static int read_arguments(const char *path, tp_writer **ret_writer, tp_text *ret_value) {
  tp_text text = {0};
  *ret_value = (tp_text){0};
  if (!path) return CLI_OK;
  int status = cli_input_read(path, &text);
  if (status != CLI_OK) return status;
  tp_fault fault = {0};
  cli_need(tp_writer_new(NULL, ret_writer));
  tp_status decoded = tp_json_decode(text, *ret_writer, &fault);
  if (decoded == TP_OK) cli_need(tp_writer_finish(*ret_writer, ret_value));
  if (decoded == TP_OK && tp_value_kind_of(*ret_value) != TP_VALUE_MAP) {
    cli_error_at(cli_input_name(path), 0, 0, "the arguments of a tool are one JSON object");
    status = CLI_CONFIG;
  } else if (decoded != TP_OK) {
    cli_error_at(cli_input_name(path), fault.line, fault.column, "%s", fault.message);
    status = CLI_CONFIG;
  }
  free((void *)(uintptr_t)text.data);
  return status;
}

/* A call that nobody denied, and that did not do what was asked, is the negative answer; what could never run is wrong
 * as it was given. */
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

static void print_result(const tp_task_result *result, const char *tool, bool json, cli_output *output) {
  if (!json) {
    if (result->kind != TP_TOOL_OK) cli_error("%s: %s", tool, tp_tool_result_name(result->kind));
    cli_print(output, result->text.data, result->text.size);
    if (result->text.size && result->text.data[result->text.size - 1] != '\n') cli_print(output, "\n", 1);
    return;
  }
  cli_map map = {0};
  cli_need(tp_writer_new(NULL, &map.writer));
  cli_map_add_string(&map, "tool", tool);
  cli_map_add_string(&map, "result", tp_tool_result_name(result->kind));
  cli_map_add_bool(&map, "started", result->started);
  cli_map_add_int(&map, "duration_ns", result->duration_ns);
  cli_map_add_text(&map, "text", result->text);
  cli_map_write(&map);
  print_value(output, map.writer, "the result");
}

static int call(tp_runtime *runtime, const cli_arguments *arguments, cli_output *output) {
  const char *tool = arguments->operands[1];
  tp_writer *writer = NULL;
  tp_text value;
  int status = read_arguments(arguments->call_arguments, &writer, &value);
  if (status == CLI_OK) {
    tp_turn_request request = {.struct_size = sizeof request, .caller = arguments->caller};
    tp_task_spec spec = {.struct_size = sizeof spec,
                         .tool = tool,
                         .arguments = value,
                         .environment = arguments->environment,
                         .request = &request};
    const tp_task_result *result = NULL;
    tp_fault fault = {0};
    tp_status called = tp_task_call(runtime, &spec, &result, &fault);
    if (called == TP_OK) {
      print_result(result, tool, arguments->json, output);
      status = exit_of(result->kind);
    } else {
      status = cli_fault(tool, called, &fault);
    }
    tp_task_result_free(result);
  }
  tp_writer_free(writer);
  return status;
}

/* ---- the command ---- */

static int check_words(const cli_arguments *arguments, bool *ret_calls) {
  const char *action = arguments->operand ? arguments->operand : "";
  *ret_calls = strcmp(action, "call") == 0;
  if (!*ret_calls && strcmp(action, "list") != 0) {
    cli_error("tool: the action is list or call, not '%s'", action);
    return CLI_USAGE;
  }
  if (arguments->operand_count == (*ret_calls ? 2 : 1)) return CLI_OK;
  cli_error(*ret_calls ? "tool call: name one tool; tool list shows them" : "tool list takes no more words");
  return CLI_USAGE;
}

/* Jobs that the call left are done before the end. @return the worse of both. */
static int drain(tp_runtime *runtime, int status) {
  tp_drain_report report = {.struct_size = sizeof report};
  tp_fault fault = {0};
  tp_status drained = tp_runtime_drain(runtime, DRAIN_LIMIT_MS, &report, &fault);
  if (drained != TP_OK) return cli_fault("the end", drained, &fault);
  if (report.complete || status != CLI_OK) return status;
  cli_error("what the call left in the background did not end within %d s", DRAIN_LIMIT_MS / 1000);
  return CLI_TIMED_OUT;
}

int cli_tool(const cli_arguments *arguments, cli_output *output) {
  bool calls;
  cli_ask ask;
  tp_runtime *runtime = NULL;
  int status = check_words(arguments, &calls);
  if (status != CLI_OK) return status;
  bool may_ask = calls && cli_ask_start(&ask);
  status = cli_host_open_asking(arguments, NULL, NULL, may_ask ? &ask : NULL, &runtime);
  if (status == CLI_OK) status = calls ? call(runtime, arguments, output) : list(runtime, arguments, output);
  if (runtime) status = drain(runtime, status);
  if (may_ask) cli_ask_stop(&ask);
  tp_runtime_free(runtime);
  return status;
}
