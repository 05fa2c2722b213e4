/* SPDX-License-Identifier: Apache-2.0
 *
 * serve: turns for clients of the OpenAI API, over HTTP. The main thread waits for signals: SIGTERM and SIGINT let
 * turns that run end, a second one ends the process as it does by itself; SIGHUP looks at the hooks again and opens the
 * access log again, SIGQUIT prints the state. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/database.h"
#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/listen.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/mcp/mcp.h"
#include "cli/run/conversation.h"
#include "cli/run/host.h"
#include "cli/run/model.h"
#include "cli/run/talk.h"
#include "runtime/base/check.h"
#ifdef CLI_WITH_HTTP
#include "cli/serve/access_log.h"
#include "cli/serve/service.h"
#include "cli/serve/traces.h"
#include "support/clock.h"
#include "turnphase/server.h"
#include "turnphase/sqlite.h"

enum { DRAIN_LIMIT_MS = 30000, TRACES_LIMIT_MS = 5000 };
#define ADDRESS "127.0.0.1:8080"

typedef struct serving {
  cli_arguments arguments; /* with what serve demands of its file of agents */
  cli_conversation file;   /* its agents; has_file */
  bool has_file;
  cli_talk talk;
  tp_sqlite_questions *questions; /* NULL: no person can be asked */
  tp_agent **agents;
  size_t agent_count, agents_capacity;
  tp_server *server;
  char *address;
  uint32_t port;
  cli_keys keys, admin_keys;
  tp_server_key key_list[CLI_KEYS_MAX];
  const tp_server_key *key_pointers[CLI_KEYS_MAX];
  cli_signals signals;
  cli_access_log *access_log; /* NULL: none */
  cli_service service;
  tp_traces *traces; /* NULL: none */
} serving;

static int check(const cli_arguments *a) {
  const cli_budget *session = &a->budgets.session;
  if (session->requests || session->tokens || session->cost_micros) {
    cli_error("--budget: a budget of sessions is for run and chat; serve has those of a tenant and of a day");
    return CLI_USAGE;
  }
  if (a->asks_terminal || (a->keeps_questions && (!a->data || cli_database_is(a->data)))) {
    cli_error("serve has no terminal to ask at: --ask data --data DIR keeps questions there, for turnphase ask");
    return CLI_USAGE;
  }
  if (a->asks_operators && !a->admin_key) {
    cli_error("--ask admin needs --admin-key FILE: with its key operators answer questions at /admin");
    return CLI_USAGE;
  }
  if (!a->traces && (a->traces_sample || a->traces_all)) {
    cli_error("--%s needs --traces URL", a->traces_all ? "traces-all" : "traces-sample");
    return CLI_USAGE;
  }
  return cli_talk_check(a, "serve", !a->operand);
}

/* "KEY" or "KEY TENANT", a line. */
static int read_keys(serving *s) {
  if (!s->arguments.keys) return CLI_OK;
  int status = cli_keys_read(s->arguments.keys, &s->keys);
  for (size_t i = 0; status == CLI_OK && i < s->keys.count; i++) {
    char *tenant = (char *)(uintptr_t)s->keys.items[i], *key = strsep(&tenant, " \t");
    if (tenant) tenant += strspn(tenant, " \t");
    if (tenant && !cli_is_id(tp_text_of(tenant))) {
      cli_error("%s, key %zu: the tenant must have 1 to 128 bytes without white space", s->arguments.keys, i + 1);
      status = CLI_CONFIG;
    }
    s->key_list[i] = (tp_server_key){.struct_size = sizeof s->key_list[i], .key = key, .tenant = tenant};
    s->key_pointers[i] = &s->key_list[i];
  }
  return status;
}

static int read_admin_key(serving *s) {
  if (!s->arguments.admin_key) return CLI_OK;
  int status = cli_keys_read(s->arguments.admin_key, &s->admin_keys);
  if (status != CLI_OK || s->admin_keys.count == 1) return status;
  cli_error("%s has %zu keys: operators have one", s->arguments.admin_key, s->admin_keys.count);
  return CLI_CONFIG;
}

static int read_address(serving *s) {
  if (!s->service.socket)
    return cli_listen_read(s->arguments.http ? s->arguments.http : ADDRESS, &s->address, &s->port);
  if (!s->arguments.http) return CLI_OK;
  cli_error("--http: a socket was passed (LISTEN_FDS), and serve listens on that one: leave --http out");
  return CLI_USAGE;
}

/* The file of agents: a conversation without sessions. */
static int read_file(serving *s) {
  const char *file = s->arguments.operand;
  if (!file) return CLI_OK;
  s->arguments.agents_only = true;
  int status = cli_conversation_read(file, &s->arguments, &s->file);
  if (status != CLI_OK) return status;
  s->has_file = true;
  if (s->file.has_servers) s->arguments.mcp_profile = file;
  const cli_limits none = {0};
  for (size_t i = 0; i < s->file.agent_count; i++)
    if (memcmp(&s->file.agents[i].limits, &none, sizeof none) != 0) {
      cli_error(
          "%s: agent %s: serve has no limits of agents: --max-time, --budget and the fields of requests limit turns",
          file, s->file.agents[i].id);
      return CLI_CONFIG;
    }
  if (s->file.count == 0 && s->file.agent_count > 0) return CLI_OK;
  cli_error("%s: serve takes a file with agents, and without sessions", file);
  return CLI_CONFIG;
}

/* @param names  NULL: the models of the command line, opened once more, since each agent owns its own. */
static int add_agent(serving *s, const char *id, const char *system, const cli_model_names *names) {
  cli_models models;
  tp_fault fault = {0};
  tp_agent *agent;
  int status = cli_models_open(names->count > 0 ? names : &s->arguments.models, &models);
  if (status != CLI_OK) return status;
  const tp_agent_config config = {.struct_size = sizeof config,
                                  .id = id,
                                  .system = system,
                                  .model = models.items[0],
                                  .fallbacks = (const tp_model *const *)models.items + 1,
                                  .fallback_count = models.count - 1};
  assert(models.count > 0);
  tp_status added = tp_agent_add(s->talk.runtime, &config, &agent, &fault);
  if (added != TP_OK) {
    cli_models_free(&models);
    return cli_fault(id, added, &fault);
  }
  s->agents = cli_reserve(s->agents, s->agent_count, &s->agents_capacity, sizeof(tp_agent *));
  s->agents[s->agent_count++] = agent;
  return CLI_OK;
}

static int add_agents(serving *s) {
  int status = CLI_OK;
  if (s->arguments.models.count > 0) status = add_agent(s, CLI_OWN_AGENT, s->arguments.system, &s->arguments.models);
  for (size_t i = 0; status == CLI_OK && i < s->file.agent_count; i++)
    status = add_agent(s, s->file.agents[i].id, s->file.agents[i].system, &s->file.agents[i].models);
  return status;
}

static void put_question(void *ctx, const tp_question *question) {
  const serving *s = ctx;
  assert(s->questions); /* no turn begins before they are open */
  tp_sqlite_questions_put(s->questions, question);
}

/* It waits where operators see it: the server lists each question that a turn puts. */
static void leave_question(void *ctx, const tp_question *question) { (void)ctx, (void)question; }

/* The questions are a part of the file that is there now. */
static int open_questions(serving *s) {
  const tp_sqlite_questions_options options = {
      .struct_size = sizeof options, .path = s->talk.store_path, .log = cli_log, .log_ctx = &s->arguments};
  tp_fault fault = {0};
  if (!s->arguments.keeps_questions) return CLI_OK;
  tp_status status = tp_sqlite_questions_open(&options, &s->questions, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(s->talk.store_path, status, &fault);
}

static int open_runtime(serving *s) {
  cli_models none = {.count = 0};
  if (s->arguments.keeps_questions) {
    s->talk.ask = put_question;
    s->talk.ask_ctx = s;
  }
  if (s->arguments.asks_operators) s->talk.ask = leave_question;
  int status = cli_talk_open(&s->talk, &s->arguments, &none);
  if (status == CLI_OK) status = open_questions(s);
  if (status == CLI_OK) status = cli_traces_open(s->talk.runtime, &s->arguments, &s->traces);
  cli_model_http1();
  if (s->traces) cli_model_traceparent(cli_traces_parent, s->traces);
  if (status == CLI_OK) cli_mcp_listen(s->talk.runtime, &s->arguments);
  return status == CLI_OK ? add_agents(s) : status;
}

/* Who answers where a request names no agent: that of the command line, else the only one. */
static const char *default_agent(const serving *s) {
  bool has_own = s->arguments.models.count > 0;
  if (s->arguments.only_models || s->agent_count == 0) return NULL;
  return has_own || s->agent_count == 1 ? tp_agent_id(s->agents[0]) : NULL;
}

static int start_server(serving *s) {
  const cli_arguments *a = &s->arguments;
  tp_fault fault = {0};
  const tp_server_options options = {.struct_size = sizeof options,
                                     .address = s->address,
                                     .port = s->port,
                                     .socket = s->service.socket,
                                     .keys_required = a->keys != NULL,
                                     .keys = s->key_pointers,
                                     .key_count = s->keys.count,
                                     .tenant = a->tenant,
                                     .environment = cli_environment(a),
                                     .default_agent = default_agent(s),
                                     .turn_limit_ms = a->limits.time_s * 1000,
                                     .goes_on = a->goes_on,
                                     .admin_key = s->admin_keys.items[0],
                                     .on_request = s->access_log ? cli_access_log_put : NULL,
                                     .on_request_ctx = s->access_log,
                                     .on_begin = s->traces ? cli_traces_begin : NULL,
                                     .on_begin_ctx = s->traces,
                                     .shared_history = s->talk.history};
  tp_status status = tp_server_start(s->talk.runtime, &options, &s->server, &fault);
  if (status != TP_OK) return cli_fault("serve", status, &fault);
  cli_service_close_socket(&s->service); /* the server has a duplicate */
  const char *at = tp_server_address(s->server);
  bool is_v6 = strchr(at, ':') != NULL;
  cli_error("serving http://%s%s%s:%u/v1", is_v6 ? "[" : "", at, is_v6 ? "]" : "", tp_server_port(s->server));
  return CLI_OK;
}

static void put_error(void *ctx, const char *text, size_t size) {
  (void)ctx;
  cli_error("state: %.*s", (int)strcspn(text, "\n") < (int)size ? (int)strcspn(text, "\n") : (int)size, text);
}

static void print_state(const serving *s) {
  if (tp_server_print(s->server, put_error, NULL) != TP_OK) cli_error("there is no memory for the state");
}

/* systemd takes the process for reloaded at the second message. */
static void reload(const serving *s) {
  char begins[64];
  snprintf(begins, sizeof begins, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, tp__monotonic_ns() / 1000);
  cli_service_notify(&s->service, begins);
  cli_access_log_reopen(s->access_log);
  cli_follower_retry(s->talk.follower);
  cli_service_notify(&s->service, "READY=1");
}

static void wait_for_end(const serving *s) {
  cli_service_notify(&s->service, "READY=1\nSTATUS=It serves.");
  for (int number; (number = cli_signals_next(&s->signals)) == SIGHUP || number == SIGQUIT;) {
    if (number == SIGQUIT) {
      print_state(s);
      continue;
    }
    reload(s);
  }
  cli_service_notify(&s->service, "STOPPING=1\nSTATUS=Turns that run may end.");
}

static void close_serving(serving *s) {
  tp_server_free(s->server, DRAIN_LIMIT_MS);
  cli_access_log_close(s->access_log);
  for (size_t i = s->agent_count; i > 0; i--) tp_agent_remove(s->agents[i - 1]);
  free(s->agents);
  cli_talk_drain(&s->talk, DRAIN_LIMIT_MS);
  cli_traces_close(s->traces, TRACES_LIMIT_MS);
  cli_talk_close(&s->talk);
  tp_sqlite_questions_close(s->questions);
  if (s->has_file) cli_conversation_free(&s->file);
  cli_keys_free(&s->keys);
  cli_keys_free(&s->admin_keys);
  cli_service_free(&s->service);
  free(s->address);
}

int cli_serve(const cli_arguments *arguments, cli_output *output) {
  serving *s = cli_alloc(sizeof *s);
  (void)output;
  *s = (serving){.arguments = *arguments, .signals.fd = -1};
  int status = check(arguments);
  if (status == CLI_OK) status = read_file(s);
  if (status == CLI_OK)
    status = cli_models_check(arguments, "serve", !s->has_file || cli_conversation_needs_model(&s->file));
  if (status == CLI_OK) status = cli_service_read(&s->service);
  if (status == CLI_OK) status = read_address(s);
  if (status == CLI_OK) status = read_keys(s);
  if (status == CLI_OK) status = read_admin_key(s);
  if (status == CLI_OK) status = cli_signals_take(&s->signals);
  if (status == CLI_OK) status = cli_signals_add(&s->signals, SIGQUIT);
  if (status == CLI_OK && arguments->access_log) status = cli_access_log_open(arguments->access_log, &s->access_log);
  if (status == CLI_OK) status = open_runtime(s);
  if (status == CLI_OK) status = start_server(s);
  if (status == CLI_OK) wait_for_end(s);
  cli_signals_give_back(&s->signals);
  close_serving(s);
  free(s);
  return status;
}

#else

int cli_serve(const cli_arguments *arguments, cli_output *output) {
  (void)arguments, (void)output;
  cli_error("this turnphase was built without turnphase-server (libmicrohttpd), which serve needs");
  return CLI_CONFIG;
}

#endif
