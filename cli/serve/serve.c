/* SPDX-License-Identifier: Apache-2.0
 *
 * serve: turns for clients of the OpenAI API, over HTTP. The main thread waits for signals: SIGTERM and SIGINT let
 * turns that run end, a second one ends the process as it does by itself; SIGHUP reads hooks, agents and keys again as
 * one change, and opens the access log again; SIGQUIT prints the state. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/listen.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/mcp/mcp.h"
#include "cli/run/agent_config.h"
#include "cli/run/conversation.h"
#include "cli/run/host.h"
#include "cli/run/model.h"
#include "cli/run/questions.h"
#include "cli/run/talk.h"
#include "runtime/base/check.h"
#ifdef CLI_WITH_HTTP
#include "cli/serve/access_log.h"
#include "cli/serve/mcp_route.h"
#include "cli/serve/service.h"
#include "cli/serve/setup.h"
#include "cli/serve/traces.h"
#include "support/clock.h"
#include "turnphase/server.h"

enum { DRAIN_LIMIT_MS = 30000, TRACES_LIMIT_MS = 5000 };
#define ADDRESS "127.0.0.1:8080"

typedef struct serving {
  cli_arguments arguments; /* with what serve demands of its file of agents */
  cli_setup *setup;
  cli_talk talk;
  cli_questions questions; /* closed: no person can be asked */
  cli_agents agents;
  tp_server *server;
  cli_mcp_route *mcp; /* NULL: /mcp is not there */
  char *address;
  uint32_t port;
  cli_signals signals;
  cli_access_log *access_log; /* NULL: none */
  cli_service service;
  tp_traces *traces; /* NULL: none */
} serving;

static int check_serve(const cli_arguments *a) {
  const cli_budget *session = &a->budgets.session;
  if (session->requests || session->tokens || session->cost_micros) {
    cli_error("--budget: a budget of sessions is for run and chat; serve has those of a tenant and of a day");
    return CLI_USAGE;
  }
  if (a->asks_terminal || (a->keeps_questions && !a->data)) {
    cli_error("serve has no terminal to ask at: --ask data --data DIR keeps questions there, for turnphase ask");
    return CLI_USAGE;
  }
  if (a->asks_operators && !a->admin_key) {
    cli_error("--ask admin needs --admin-key FILE: with its key operators answer questions at /admin");
    return CLI_USAGE;
  }
  if (a->ask_wait_s && !a->keeps_questions && !a->asks_operators) {
    cli_error("--ask-wait needs --ask data or --ask admin: it is how long a call at /mcp waits for that person");
    return CLI_USAGE;
  }
  if (!a->traces && (a->traces_sample || a->traces_all)) {
    cli_error("--%s needs --traces URL", a->traces_all ? "traces-all" : "traces-sample");
    return CLI_USAGE;
  }
  return cli_talk_check(a, "serve", !a->operand);
}

static int read_address(serving *s) {
  if (!s->service.socket)
    return cli_listen_read(s->arguments.http ? s->arguments.http : ADDRESS, &s->address, &s->port);
  if (!s->arguments.http) return CLI_OK;
  cli_error("--http: a socket was passed (LISTEN_FDS), and serve listens on that one: leave --http out");
  return CLI_USAGE;
}

static int read_setup(serving *s) {
  s->arguments.agents_only = true;
  s->setup = cli_alloc(sizeof *s->setup);
  int status = cli_setup_read(&s->arguments, NULL, s->setup);
  if (status == CLI_OK && s->setup->file.has_servers) s->arguments.mcp_profile = s->arguments.operand;
  return status;
}

static void free_setup(cli_setup *setup) {
  if (setup) cli_setup_free(setup);
  free(setup);
}

/* It waits where operators see it: the server lists each question that a turn puts. */
static void leave_question(void *ctx, const tp_question *question) { (void)ctx, (void)question; }

static int open_runtime(serving *s) {
  cli_models none = {.count = 0};
  if (s->arguments.keeps_questions) {
    s->talk.ask = cli_questions_put;
    s->talk.ask_ctx = &s->questions;
  }
  if (s->arguments.asks_operators) s->talk.ask = leave_question;
  s->talk.hooks_when_asked = true; /* as one change with agents and keys */
  int status = cli_talk_open(&s->talk, &s->arguments, &none);
  if (status == CLI_OK) status = cli_questions_open(&s->questions, s->talk.store_path, s->talk.database, &s->arguments);
  if (status == CLI_OK) status = cli_traces_open(s->talk.runtime, &s->arguments, &s->traces);
  cli_model_http1();
  if (s->traces) cli_model_traceparent(cli_traces_parent, s->traces);
  if (status == CLI_OK) cli_mcp_listen(s->talk.runtime, &s->arguments);
  return status;
}

static int start_server(serving *s, const char *default_agent) {
  const cli_arguments *a = &s->arguments;
  tp_fault fault = {0};
  const tp_server_options options = {.struct_size = sizeof options,
                                     .address = s->address,
                                     .port = s->port,
                                     .socket = s->service.socket,
                                     .keys_required = a->keys != NULL,
                                     .keys = s->setup->key_pointers,
                                     .key_count = s->setup->keys.count,
                                     .tenant = a->tenant,
                                     .environment = cli_environment(a),
                                     .default_agent = default_agent,
                                     .turn_limit_ms = a->limits.time_s * 1000,
                                     .sessions_max = a->sessions_max,
                                     .goes_on = a->goes_on,
                                     .busy = (uint32_t)a->busy,
                                     .busy_wait_ms = a->busy_wait_ms,
                                     .admin_key = s->setup->admin_keys.items[0],
                                     .on_request = s->access_log ? cli_access_log_put : NULL,
                                     .on_request_ctx = s->access_log,
                                     .on_begin = s->traces ? cli_traces_begin : NULL,
                                     .on_begin_ctx = s->traces,
                                     .shared_history = s->talk.history,
                                     .mount = cli_mcp_route_mount(s->mcp)};
  tp_status status = tp_server_start(s->talk.runtime, &options, &s->server, &fault);
  if (status != TP_OK) return cli_fault("serve", status, &fault);
  cli_service_close_socket(&s->service); /* the server has a duplicate */
  const char *at = tp_server_address(s->server);
  bool is_v6 = strchr(at, ':') != NULL;
  static const char *const paths[] = {"v1", "mcp"};
  for (size_t i = 0; i < (s->mcp ? 2U : 1U); i++)
    cli_error("serving http://%s%s%s:%u/%s", is_v6 ? "[" : "", at, is_v6 ? "]" : "", tp_server_port(s->server),
              paths[i]);
  return CLI_OK;
}

static int open_mcp(serving *s) {
  return cli_mcp_route_open(s->talk.runtime, &s->arguments, &s->setup->file, s->talk.ask != NULL, &s->mcp);
}

/* The agents are there before the first request comes. */
static int start_serving(serving *s) {
  cli_agents_plan *plan = NULL;
  tp_fault fault = {0};
  int status = cli_agents_plan_new(&s->arguments, s->setup, &s->agents, &plan);
  if (status != CLI_OK) return status;
  const char *default_agent = cli_agents_plan_default(&s->arguments, plan);
  tp_status added = cli_agents_plan_apply(plan, s->talk.runtime, &fault);
  cli_agents_plan_free(plan, &s->agents);
  if (added != TP_OK) return cli_fault(fault.subject[0] ? fault.subject : "serve", added, &fault);
  cli_agents_warn(s->talk.runtime, s->setup->file.agents, s->setup->file.agent_count);
  status = open_mcp(s);
  return status == CLI_OK ? start_server(s, default_agent) : status;
}

static void put_error(void *ctx, const char *text, size_t size) {
  (void)ctx;
  cli_error("state: %.*s", (int)strcspn(text, "\n") < (int)size ? (int)strcspn(text, "\n") : (int)size, text);
}

static void print_state(const serving *s) {
  if (tp_server_print(s->server, put_error, NULL) != TP_OK) cli_error("there is no memory for the state");
}

/* ---- SIGHUP ---- */

/** What becomes of the hooks and the agents, on the thread of the connections. */
typedef struct reloading {
  const serving *s;
  cli_agents_plan *plan;
  char said[1024]; /* what was said first of what is wrong */
} reloading;

/* The new agents are built by the new hooks, which go back where the agents are refused. */
static tp_status apply(void *ctx, tp_fault *fault) {
  reloading *r = ctx;
  cli_message_keep(r->said, sizeof r->said);
  tp_status status = TP_OK;
  if (cli_follower_update(r->s->talk.follower) != CLI_OK) {
    status = TP_ERR_STALE; /* said already */
  } else {
    r->said[0] = '\0'; /* which hooks are new */
    status = cli_agents_plan_apply(r->plan, r->s->talk.runtime, fault);
    if (status != TP_OK) (void)cli_fault(fault->subject[0] ? fault->subject : "agents", status, fault);
    if (status != TP_OK) cli_follower_undo(r->s->talk.follower);
  }
  cli_message_keep(NULL, 0);
  return status;
}

/* @return CLI_OK: the new setup was taken. */
static int revise(serving *s, const cli_setup *setup, reloading *r) {
  tp_fault fault = {0};
  const tp_server_revision revision = {.struct_size = sizeof revision,
                                       .keys = setup->key_pointers,
                                       .key_count = setup->keys.count,
                                       .default_agent = cli_agents_plan_default(&s->arguments, r->plan),
                                       .admin_key = setup->admin_keys.items[0],
                                       .apply = apply,
                                       .ctx = r};
  tp_status status = tp_server_revise(s->server, &revision, &fault);
  if (status != TP_OK && !r->said[0]) {
    cli_message_keep(r->said, sizeof r->said);
    (void)cli_fault("SIGHUP", status, &fault);
  }
  return status == TP_OK ? CLI_OK : cli_exit_of(status);
}

/* Everything is read and opened before anything is changed. */
static void reload_setup(serving *s) {
  reloading r = {.s = s};
  cli_setup *setup = cli_alloc(sizeof *setup);
  cli_message_keep(r.said, sizeof r.said);
  int status = cli_setup_read(&s->arguments, s->setup, setup);
  if (status == CLI_OK) status = cli_agents_plan_new(&s->arguments, setup, &s->agents, &r.plan);
  cli_message_keep(NULL, 0);
  if (status == CLI_OK) status = revise(s, setup, &r);
  cli_agents_plan_free(r.plan, &s->agents);
  tp_server_note_revision(s->server, status == CLI_OK ? NULL : r.said);
  if (status == CLI_OK) cli_agents_warn(s->talk.runtime, setup->file.agents, setup->file.agent_count);
  if (status == CLI_OK) cli_mcp_route_changed(s->mcp);
  if (status == CLI_OK) cli_error("hooks, agents and keys are read: turns from now on have them");
  else cli_error("the change is refused: hooks, agents and keys stay as they were");
  cli_setup *gone = status == CLI_OK ? s->setup : setup;
  if (status == CLI_OK) cli_setup_take_over(s->setup, setup);
  if (status == CLI_OK) s->setup = setup;
  free_setup(gone);
}

/* systemd takes the process for reloaded at the second message. */
static void reload(serving *s) {
  char begins[64];
  snprintf(begins, sizeof begins, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, tp__monotonic_ns() / 1000);
  cli_service_notify(&s->service, begins);
  cli_access_log_reopen(s->access_log);
  reload_setup(s);
  cli_service_notify(&s->service, "READY=1");
}

static void wait_for_signal(serving *s) {
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
  cli_mcp_route_close(s->mcp);
  cli_access_log_close(s->access_log);
  cli_agents_remove(&s->agents);
  cli_talk_drain(&s->talk, DRAIN_LIMIT_MS);
  cli_traces_close(s->traces, TRACES_LIMIT_MS);
  cli_talk_close(&s->talk);
  cli_questions_close(&s->questions);
  free_setup(s->setup);
  cli_service_free(&s->service);
  free(s->address);
}

int cli_serve(const cli_arguments *arguments, cli_output *output) {
  serving *s = cli_alloc(sizeof *s);
  (void)output;
  *s = (serving){.arguments = *arguments, .signals.fd = -1};
  int status = check_serve(arguments);
  if (status == CLI_OK) status = cli_service_read(&s->service);
  if (status == CLI_OK) status = read_setup(s);
  if (status == CLI_OK) status = read_address(s);
  if (status == CLI_OK) status = cli_signals_take(&s->signals);
  if (status == CLI_OK) status = cli_signals_add(&s->signals, SIGQUIT);
  if (status == CLI_OK && arguments->access_log) status = cli_access_log_open(arguments->access_log, &s->access_log);
  if (status == CLI_OK) status = open_runtime(s);
  if (status == CLI_OK) status = start_serving(s);
  if (status == CLI_OK) wait_for_signal(s);
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
