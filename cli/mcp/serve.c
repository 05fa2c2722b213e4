/* SPDX-License-Identifier: Apache-2.0
 *
 * mcp serve: offers the tools of a runtime to clients that use MCP. Standard output only carries the protocol. The main
 * thread waits for a signal, or for the end of standard input. SIGTERM, SIGINT and SIGHUP let open calls end; a second
 * signal ends the process, as it does by default. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/listen.h"
#include "cli/common/message.h"
#include "cli/common/quantity.h"
#include "cli/mcp/mcp.h"
#include "cli/run/host.h"
#include "cli/run/place.h"
#include "cli/run/questions.h"
#include "support/bytes.h"
#ifdef CLI_WITH_MCP
#include "turnphase/mcp_server.h"
#include "turnphase/skills.h"

enum { DRAIN_LIMIT_MS = 10000 };

typedef struct serving {
  const cli_arguments *arguments;
  tp_runtime *runtime;
  tp_mcp_server *server;
  tp_store *store;
  cli_questions questions;
  cli_place place;
  char *address;
  cli_keys keys;
  cli_signals signals;
  int end_fd;
} serving;

/* ---- skills as prompts ---- */

typedef struct prompts {
  tp_writer *writer;
  size_t count;
} prompts;

static bool count_skill(void *ctx, const tp_skill *skill) {
  (void)skill;
  ((prompts *)ctx)->count++;
  return true;
}

static void write_serve_pair(tp_writer *writer, const char *key, tp_text text) {
  tp_write_string(writer, key);
  tp_write_text(writer, text);
}

static bool write_skill(void *ctx, const tp_skill *skill) {
  tp_writer *w = ((prompts *)ctx)->writer;
  tp_write_map(w, 3);
  write_serve_pair(w, "name", skill->name);
  write_serve_pair(w, "description", skill->summary);
  tp_write_string(w, "arguments");
  tp_write_array(w, 1);
  tp_write_map(w, 3);
  write_serve_pair(w, "name", tp_text_of("text"));
  write_serve_pair(w, "description", tp_text_of("What follows the instructions"));
  tp_write_string(w, "required");
  tp_write_bool(w, false);
  return true;
}

/* @param writer  owns the value of *ret_prompts. */
static int list_skills(const char *directory, tp_writer *writer, tp_text *ret_prompts) {
  prompts p = {.writer = writer};
  tp_fault fault = {0};
  tp_status status = tp_skills_each(directory, NULL, count_skill, &p, &fault);
  tp_write_array(writer, p.count);
  if (status == TP_OK) status = tp_skills_each(directory, NULL, write_skill, &p, &fault);
  if (status == TP_OK) status = tp_writer_finish(writer, ret_prompts);
  return status == TP_OK ? CLI_OK : cli_fault(directory, status, &fault);
}

/** A prompt that a client asks for. */
typedef struct asked {
  tp_mcp_call *call;
  tp_text text; /* that follows the instructions */
} asked;

static bool answer_prompt(void *ctx, const tp_skill *skill) {
  const asked *a = ctx;
  tp_writer *writer = NULL;
  tp_text result = {0};
  tp__bytes text = {0};
  tp__bytes_put_text(&text, skill->body);
  if (a->text.size > 0) tp__bytes_put_string(&text, "\n\n");
  tp__bytes_put_text(&text, a->text);
  cli_need(tp_writer_new(NULL, &writer));
  tp_write_map(writer, 2);
  write_serve_pair(writer, "description", skill->summary);
  tp_write_string(writer, "messages");
  tp_write_array(writer, 1);
  tp_write_map(writer, 2);
  write_serve_pair(writer, "role", tp_text_of("user"));
  tp_write_string(writer, "content");
  tp_write_map(writer, 2);
  write_serve_pair(writer, "type", tp_text_of("text"));
  write_serve_pair(writer, "text", tp__bytes_text(&text));
  cli_need(tp_writer_finish(writer, &result));
  tp_mcp_call_answer(a->call, result);
  tp__bytes_fini(&text);
  tp_writer_free(writer);
  return true;
}

static void get_prompt(void *ctx, tp_mcp_call *call, tp_text name, tp_text arguments) {
  const serving *s = ctx;
  asked a = {.call = call, .text = tp_value_text(tp_value_get(arguments, "text"))};
  char *copy = cli_alloc(name.size + 1);
  tp_fault fault = {0};
  memcpy(copy, name.data, name.size);
  copy[name.size] = '\0';
  tp_status status = tp_skills_each(s->arguments->skills, copy, answer_prompt, &a, &fault);
  if (status != TP_OK) tp_mcp_call_fail(call, -32602, fault.message, (tp_text){0});
  free(copy);
}

/* ---- checks before anything starts ---- */

static int refuse(const char *what) {
  cli_error("%s", what);
  return CLI_USAGE;
}

static int check_exposed(cli_arguments *a) {
  a->no_memory = true;
  for (size_t i = 0; i < a->exposes.count; i++) {
    if (strcmp(a->exposes.items[i], "memory") == 0) {
      a->no_memory = false;
    } else if (strcmp(a->exposes.items[i], "tasks") == 0) {
      if (a->tasks == CLI_TASKS_NONE) a->tasks = CLI_TASKS_TOOLS;
    } else {
      cli_error("--expose is memory or tasks, not '%s'; files and skills are named by --files DIR and --skills DIR",
                a->exposes.items[i]);
      return CLI_USAGE;
    }
  }
  return CLI_OK;
}

static int check(cli_arguments *a) {
  if (a->operand_count > 1) return refuse("mcp serve takes no more words");
  if (a->http && a->stdio) return refuse("mcp serve: give --stdio or --http ADDRESS:PORT, not both");
  if (!a->http && (a->keys || a->origins.count > 0)) return refuse("--keys and --origin are for --http ADDRESS:PORT");
  if (a->asks_terminal) return refuse("mcp serve has no terminal to ask at: --ask data keeps questions in --data DIR");
  if (a->asks_operators) return refuse("--ask admin is for turnphase serve: --ask data keeps questions in --data DIR");
  if (a->asks_clients)
    return refuse("--ask client is for turnphase serve: here clients that show forms are always asked");
  if (a->keeps_questions && !a->data) return refuse("--ask data needs --data DIR: that is where questions wait");
  if (a->ask_wait_s && !a->keeps_questions) return refuse("--ask-wait is for --ask data");
  int status = check_exposed(a);
  if (status == CLI_OK && !a->no_memory && cli_database_is(a->data))
    return refuse("--expose memory needs a data directory: a database keeps no memory");
  return status;
}

/* ---- start ---- */

static int open_data(serving *s) {
  const cli_arguments *a = s->arguments;
  int status = cli_place_open(a, &s->place, &s->store);
  if (status != CLI_OK || !a->data) return status;
  if (s->place.database)
    cli_error("warning: a database keeps no forms: a question that a client's form asks ends with this process");
  return cli_questions_open(&s->questions, s->place.store_path, s->place.database, a);
}

static void note_end(void *ctx) {
  const serving *s = ctx;
  const uint64_t one = 1;
  (void)!write(s->end_fd, &one, sizeof one);
}

static int open_end(serving *s) {
  s->end_fd = eventfd(0, EFD_CLOEXEC);
  if (s->end_fd >= 0) return CLI_OK;
  cli_error("there are no file descriptors left to wait with");
  return CLI_UNAVAILABLE;
}

static int start_server(serving *s, uint32_t port, tp_text skills) {
  const cli_arguments *a = s->arguments;
  tp_fault fault = {0};
  const tp_mcp_server_options options = {.struct_size = sizeof options,
                                         .stdio = !s->address,
                                         .input = STDIN_FILENO,
                                         .output = STDOUT_FILENO,
                                         .http_address = s->address,
                                         .http_port = port,
                                         .keys_required = a->keys != NULL,
                                         .keys = s->keys.items,
                                         .origins = a->origins.items,
                                         .has_channel = cli_questions_are_open(&s->questions),
                                         .ask_wait_ms = a->ask_wait_s * 1000,
                                         .get_prompt = a->skills ? get_prompt : NULL,
                                         .on_end = note_end,
                                         .ctx = s,
                                         .prompts = skills,
                                         .state_directory = s->place.database ? NULL : a->data};
  tp_status status = tp_mcp_server_start(s->runtime, &options, &s->server, &fault);
  if (status != TP_OK) return cli_fault("mcp serve", status, &fault);
  bool is_v6 = s->address && strchr(s->address, ':');
  if (s->address)
    cli_error("serving http://%s%s%s:%u/mcp", is_v6 ? "[" : "", s->address, is_v6 ? "]" : "",
              tp_mcp_server_port(s->server));
  return CLI_OK;
}

static int start_gateway(serving *s, uint32_t port) {
  const char *directory = s->arguments->skills;
  tp_text skills = {0};
  tp_writer *writer = NULL;
  cli_need(tp_writer_new(NULL, &writer));
  int status = directory ? list_skills(directory, writer, &skills) : CLI_OK;
  if (status == CLI_OK) status = start_server(s, port, skills);
  tp_writer_free(writer);
  return status;
}

/* @return the number of the signal; 0: the client has closed its end. */
static int wait_for_end(const serving *s) {
  struct pollfd waits[] = {{.fd = s->signals.fd, .events = POLLIN}, {.fd = s->end_fd, .events = POLLIN}};
  while (poll(waits, 2, -1) < 0) {}
  return waits[0].revents & POLLIN ? cli_signals_next(&s->signals) : 0;
}

static void close_serving(serving *s) {
  tp_mcp_server_free(s->server, DRAIN_LIMIT_MS);
  if (s->runtime) {
    tp_drain_report report = {.struct_size = sizeof report};
    (void)!tp_runtime_drain(s->runtime, DRAIN_LIMIT_MS, &report, NULL);
    cli_host_close(s->runtime);
  }
  cli_questions_close(&s->questions);
  if (s->end_fd >= 0) close(s->end_fd);
  cli_place_close(&s->place);
  free(s->address);
  cli_keys_free(&s->keys);
}

int cli_mcp_serve(const cli_arguments *theirs, cli_output *output) {
  cli_arguments arguments = *theirs;
  serving s = {.arguments = &arguments, .signals.fd = -1, .end_fd = -1};
  uint32_t port = 0;
  (void)output;
  int status = check(&arguments);
  if (status == CLI_OK && arguments.http) status = cli_listen_read(arguments.http, &s.address, &port);
  if (status == CLI_OK && arguments.keys) status = cli_keys_read(arguments.keys, &s.keys);
  if (status == CLI_OK) status = cli_signals_take(&s.signals);
  if (status == CLI_OK) status = open_end(&s);
  if (status == CLI_OK) status = open_data(&s);
  if (status == CLI_OK) {
    bool asks = cli_questions_are_open(&s.questions);
    status = cli_host_open_with(&arguments, s.place.memory_path, s.store, asks ? cli_questions_put : NULL,
                                asks ? &s.questions : NULL, NULL, &s.runtime);
    s.store = NULL; /* taken, whatever came of it */
  }
  if (status == CLI_OK) cli_mcp_listen(s.runtime, &arguments);
  if (status == CLI_OK) status = start_gateway(&s, port);
  if (status == CLI_OK) (void)wait_for_end(&s);
  cli_signals_give_back(&s.signals);
  if (s.store) tp_store_free(s.store);
  close_serving(&s);
  return status;
}

#else

int cli_mcp_serve(const cli_arguments *arguments, cli_output *output) {
  (void)arguments, (void)output;
  cli_error("this turnphase was built without turnphase-mcp, which mcp serve needs");
  return CLI_CONFIG;
}

#endif
