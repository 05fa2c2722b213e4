/* SPDX-License-Identifier: Apache-2.0
 *
 * The command mcp, and the options with which other commands name MCP servers. */
#include "cli/mcp/mcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/data.h"
#include "cli/common/database.h"
#include "cli/common/exit_status.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/table.h"
#include "cli/run/host.h"
#include "cli/run/model.h"
#ifdef CLI_WITH_MCP
#include "cli/mcp/form.h"
#include "cli/mcp/profile.h"
#endif

enum { WORDS_MAX = 64, NAME_WIDTH = 31, VERDICT_WIDTH = 5, DRAIN_LIMIT_MS = 30000 };

/* ---- the servers of the command line ---- */

static bool has_servers(const cli_arguments *arguments) {
  return arguments->mcp_servers.count + arguments->mcp_configs.count > 0 || arguments->mcp_profile;
}

#ifdef CLI_WITH_MCP

static void print_note(void *ctx, const char *note) { cli_error("%s: %s", (const char *)ctx, note); }

/* Splits words at blanks, in place. Quotes of both kinds protect blanks; a backslash protects the next character.
 * @return false: too many words, or a quote without its end. */
static bool split(char *text, const char **words, size_t most) {
  size_t count = 0;
  char *to = text, *from = text;
  while (*from) {
    while (*from == ' ' || *from == '\t') from++;
    if (!*from) break;
    if (count + 1 == most) return false;
    words[count++] = to;
    char quote = '\0';
    for (; *from && (quote || (*from != ' ' && *from != '\t')); from++) {
      if (quote && *from == quote) quote = '\0';
      else if (!quote && (*from == '"' || *from == '\'')) quote = *from;
      else if (*from == '\\' && quote != '\'' && from[1]) *to++ = *++from;
      else *to++ = *from;
    }
    if (quote) return false;
    if (*from) from++;
    *to++ = '\0';
  }
  words[count] = NULL;
  return true;
}

/* @return NULL: servers' requests to a model are refused. */
static const tp_mcp_sampling *sampling_of(const cli_arguments *arguments, tp_mcp_sampling *sampling) {
  if (arguments->sampling_models.count == 0) return NULL;
  *sampling = (tp_mcp_sampling){.struct_size = sizeof *sampling, .model = cli_sampling_model()};
  return sampling;
}

static int add_server(tp_runtime *runtime, const cli_arguments *arguments, cli_ask *person, const char *word) {
  const char *equals = strchr(word, '='), *words[WORDS_MAX + 1];
  char name[64], *rest = equals ? strdup(equals + 1) : NULL;
  tp_fault fault = {0};
  tp_mcp_sampling sampling;
  int status = CLI_USAGE;
  if (!rest) {
    cli_error("--mcp is NAME=COMMAND or NAME=URL, such as files='npx -y @modelcontextprotocol/server-filesystem .'");
    return CLI_USAGE;
  }
  snprintf(name, sizeof name, "%.*s", (int)(equals - word), word);
  tp_mcp_options options = {.struct_size = sizeof options,
                            .name = name,
                            .pins = cli_database_is(arguments->data) ? NULL : arguments->data,
                            .changed = (tp_mcp_changed)arguments->mcp_changed,
                            .ask = person ? cli_form_put : NULL,
                            .ask_ctx = person,
                            .sampling = sampling_of(arguments, &sampling)};
  bool is_url = strncmp(rest, "http://", 7) == 0 || strncmp(rest, "https://", 8) == 0;
  if (is_url) options.url = rest;
  else options.arguments = words;
  if (!is_url && !split(rest, words, WORDS_MAX)) {
    cli_error("--mcp %s: a command has at most %d words, and each quote an end", name, WORDS_MAX - 1);
  } else {
    tp_status added = tp_mcp_add(runtime, &options, &fault);
    status = added == TP_OK ? CLI_OK : cli_fault("--mcp", added, &fault);
  }
  free(rest);
  return status;
}

static int add_config(tp_runtime *runtime, const cli_arguments *arguments, cli_ask *person, const char *path,
                      uint32_t *ret_defer) {
  tp_mcp_sampling sampling;
  const tp_mcp_config config = {.struct_size = sizeof config,
                                .path = path,
                                .on_note = print_note,
                                .on_note_ctx = (void *)(uintptr_t)path,
                                .pins = cli_database_is(arguments->data) ? NULL : arguments->data,
                                .changed = (tp_mcp_changed)arguments->mcp_changed,
                                .ask = person ? cli_form_put : NULL,
                                .ask_ctx = person,
                                .sampling = sampling_of(arguments, &sampling)};
  tp_fault fault = {0};
  if (path == arguments->mcp_profile || cli_mcp_is_profile(path))
    return cli_mcp_profile_add(runtime, path, &config, ret_defer);
  tp_status status = tp_mcp_config_add(runtime, &config, NULL, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(path, status, &fault);
}

/* Tools that are found first. */
static int add_defer(tp_runtime *runtime, uint32_t above) {
  const tp_mcp_defer_options options = {.struct_size = sizeof options, .above = above};
  tp_fault fault = {0};
  tp_status status = tp_mcp_defer_add(runtime, &options, &fault);
  return status == TP_OK ? CLI_OK : cli_fault("--mcp-defer", status, &fault);
}

static int open_sampling(const cli_arguments *arguments) {
  if (arguments->sampling_models.count > 0 && !has_servers(arguments)) {
    cli_error("--mcp-sampling is for the servers of --mcp NAME=COMMAND and --mcp-config FILE");
    return CLI_USAGE;
  }
  bool is_gateway = arguments->operand && arguments->command == CLI_MCP && strcmp(arguments->operand, "serve") == 0;
  if (cli_sampling_is_client(arguments) && !is_gateway) {
    cli_error("--mcp-sampling client is for mcp serve: here there is no client that answers; name a model");
    return CLI_USAGE;
  }
  return cli_sampling_model_open(arguments);
}

/* Pins are files: nothing is pinned in a database. */
static int check_pins(const cli_arguments *arguments) {
  if (!cli_database_is(arguments->data) || !has_servers(arguments)) return CLI_OK;
  if ((tp_mcp_changed)arguments->mcp_changed != TP_MCP_CHANGED_ASK) {
    cli_error("--mcp-changed needs pins, which are files: give --data a directory, or name one in a profile (pins)");
    return CLI_USAGE;
  }
  cli_error(
      "warning: a database keeps no pins of MCP servers: nothing notices that their tools have changed; a profile may "
      "name a directory (pins)");
  return CLI_OK;
}

int cli_mcp_add(tp_runtime *runtime, const cli_arguments *arguments, cli_ask *person) {
  int status = open_sampling(arguments);
  uint32_t defer = 0;
  if (status == CLI_OK) status = check_pins(arguments);
  if (status != CLI_OK) return status;
  if (arguments->mcp_defer > 0 && !has_servers(arguments)) {
    cli_error("--mcp-defer is for the tools of --mcp NAME=COMMAND and --mcp-config FILE");
    return CLI_USAGE;
  }
  if (arguments->mcp_profile) status = add_config(runtime, arguments, person, arguments->mcp_profile, &defer);
  for (size_t i = 0; status == CLI_OK && i < arguments->mcp_configs.count; i++)
    status = add_config(runtime, arguments, person, arguments->mcp_configs.items[i], &defer);
  for (size_t i = 0; status == CLI_OK && i < arguments->mcp_servers.count; i++)
    status = add_server(runtime, arguments, person, arguments->mcp_servers.items[i]);
  bool has_requests = arguments->command == CLI_RUN || arguments->command == CLI_CHAT || arguments->command == CLI_PLAN;
  if (defer > 0 && !has_requests) {
    cli_error("mcp_defer has no effect here: it is for requests to a model (run, chat)");
    return status;
  }
  if (arguments->mcp_defer > 0) defer = arguments->mcp_defer;
  if (status == CLI_OK && defer > 0) status = add_defer(runtime, defer);
  return status;
}

#else

int cli_mcp_add(tp_runtime *runtime, const cli_arguments *arguments, cli_ask *person) {
  (void)runtime, (void)person;
  if (!has_servers(arguments) && arguments->mcp_defer == 0 && arguments->sampling_models.count == 0) return CLI_OK;
  cli_error(
      "this turnphase was built without turnphase-mcp: --mcp, --mcp-config, --mcp-defer, --mcp-sampling and `mcp` of a "
      "conversation need it");
  return CLI_CONFIG;
}

#endif

static void print_diagnostic(void *ctx, const tp_event *event) {
  (void)ctx;
  if (tp_text_is(event->contribution->key, "mcp.server") || tp_text_is(event->contribution->key, "tool.bad_schema"))
    cli_error("%.*s", (int)event->contribution->text.size, event->contribution->text.data);
}

void cli_mcp_listen(tp_runtime *runtime, const cli_arguments *arguments) {
  if (!has_servers(arguments)) return;
  const tp_listener listener = {
      .struct_size = sizeof listener, .on_event = print_diagnostic, .kinds = 1u << TP_EVENT_DIAGNOSTIC};
  (void)!tp_runtime_listen(runtime, &listener, NULL, NULL); /* without memory the lists say less */
}

/* ---- check ---- */

typedef struct check {
  tp_runtime *runtime;
  cli_output *output;
  bool json;
  const char *server; /* NULL: all */
  size_t count, denied;
  char names[4096][TP_ID_BYTES_MAX + 1];
} check;

static bool is_of(const char *owner, const char *server) {
  return strncmp(owner, "mcp.", 4) == 0 && (!server || strcmp(owner + 4, server) == 0);
}

static bool take_name(void *ctx, const tp_tool_listing *listing) {
  check *c = ctx;
  if (is_of(listing->owner, c->server) && c->count < sizeof c->names / sizeof *c->names)
    snprintf(c->names[c->count++], sizeof *c->names, "%s", listing->tool->name);
  return true;
}

static void print_verdict(check *c, const char *name, const tp_phase_result *result) {
  const char *verdict = result->outcome == TP_OK && result->verdict == TP_VERDICT_NONE ? "allow"
                        : result->outcome == TP_OK || result->outcome == TP_ERR_DENIED
                            ? tp_verdict_name(result->verdict)
                            : "deny";
  if (!c->json) {
    static const cli_column columns[] = {{.head = "", .width = VERDICT_WIDTH},
                                         {.head = "", .width = NAME_WIDTH, .least = 16},
                                         {.head = "", .kind = CLI_COLUMN_TEXT}};
    tp__bytes why = {0};
    tp__bytes_put_string(&why, result->subscription ? result->subscription : "");
    if (result->reason.size > 0) tp__bytes_put_string(&why, ": ");
    tp__bytes_put_text(&why, result->reason);
    const cli_cell cells[] = {
        {tp_text_of(verdict), CLI_NORMAL}, {tp_text_of(name), CLI_NORMAL}, {tp__bytes_text(&why), CLI_NORMAL}};
    cli_table table;
    cli_table_begin(&table, c->output, columns, 3, 0);
    cli_table_row(&table, cells);
    cli_table_end(&table);
    tp__bytes_fini(&why);
    return;
  }
  cli_map map = {0};
  cli_map_add_string(&map, "tool", name);
  cli_map_add_string(&map, "verdict", verdict);
  cli_map_add_string(&map, "subscription", result->subscription ? result->subscription : "");
  cli_map_add_text(&map, "reason", result->reason);
  cli_map_print(&map, c->output);
}

/* Prints the answer of tool.pre for a call without arguments. */
static int ask_gates(check *c, const char *name) {
  static const char empty_map[] = {(char)0x80};
  const tp_field fields[] = {
      {.id = TP_FIELD_TOOL, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(name)},
      {.id = TP_FIELD_ARGUMENTS, .kind = TP_FIELD_KIND_VALUE, .text = {empty_map, sizeof empty_map}}};
  const tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = 2};
  const tp_turn_request request = {.struct_size = sizeof request, .caller = TP_CALLER_MANUAL_CLI};
  tp_phase_result result = {.struct_size = sizeof result};
  tp_turn *turn = NULL;
  tp_fault fault = {0};
  tp_status status = tp_turn_begin_bare(c->runtime, &request, &turn, &fault);
  if (status != TP_OK) return cli_fault(name, status, &fault);
  status = tp_phase_run(turn, TP_PHASE_TOOL_PRE, &input, &result, &fault);
  if (status == TP_OK) print_verdict(c, name, &result);
  tp_turn_end(turn);
  return status == TP_OK ? CLI_OK : cli_fault(name, status, &fault);
}

static int check_servers(const cli_arguments *arguments, cli_output *output) {
  tp_fault fault = {0};
  tp_drain_report report = {.struct_size = sizeof report};
  check *c = calloc(1, sizeof *c);
  int status = c ? cli_host_open(arguments, NULL, NULL, &c->runtime) : cli_fault(NULL, TP_ERR_NO_MEMORY, NULL);
  if (status != CLI_OK) {
    free(c);
    return status;
  }
  c->output = output;
  c->json = arguments->json;
  c->server = arguments->operands[1];
  cli_mcp_listen(c->runtime, arguments);
  tp_status listed = tp_runtime_tools(c->runtime, take_name, c, NULL, &fault);
  if (listed != TP_OK) status = cli_fault("the tools", listed, &fault);
  for (size_t i = 0; status == CLI_OK && i < c->count; i++) status = ask_gates(c, c->names[i]);
  if (status == CLI_OK && c->count > 0 && !c->json)
    cli_print_string(output, "each was asked about without arguments: a guard that reads them may decide otherwise\n");
  if (status == CLI_OK && c->count == 0) {
    if (c->server) cli_error("the server %s has no tool", c->server);
    else cli_error("the servers have no tool");
    status = CLI_NEGATIVE;
  }
  (void)!tp_runtime_drain(c->runtime, DRAIN_LIMIT_MS, &report, NULL);
  cli_host_close(c->runtime);
  free(c);
  return status;
}

/* Pins the tools of a server in their present form. */
static int pin_server(const cli_arguments *arguments, cli_output *output) {
  if (!arguments->data || !arguments->operands[1]) {
    cli_error("mcp pin: name one server, and the --data DIR that has its pins");
    return CLI_USAGE;
  }
  if (cli_database_is(arguments->data)) {
    cli_error("mcp pin: pins are files: name a data directory, not a database");
    return CLI_USAGE;
  }
  char name[80];
  snprintf(name, sizeof name, "mcp-%.60s.json", arguments->operands[1]);
  if (strchr(name, '/')) {
    cli_error("mcp pin: '%s' is no name of a server", arguments->operands[1]);
    return CLI_USAGE;
  }
  int status = cli_data_make(arguments->data);
  char *path = cli_data_path(arguments->data, name);
  if (status == CLI_OK && unlink(path) != 0 && errno != ENOENT) {
    cli_error("%s: %s", path, strerror(errno));
    status = CLI_IO;
  }
  free(path);
  return status == CLI_OK ? check_servers(arguments, output) : status;
}

int cli_mcp(const cli_arguments *arguments, cli_output *output) {
  const char *word = arguments->operand;
  if (strcmp(word, "serve") == 0) return cli_mcp_serve(arguments, output);
  bool is_tool = strcmp(word, "list") == 0 || strcmp(word, "call") == 0;
  bool is_pin = strcmp(word, "pin") == 0;
  if (!has_servers(arguments)) {
    cli_error("mcp %s: name servers by --mcp NAME=COMMAND or --mcp-config FILE", word);
    return CLI_USAGE;
  }
  if (is_pin) return pin_server(arguments, output);
  return is_tool ? cli_tool(arguments, output) : check_servers(arguments, output);
}
