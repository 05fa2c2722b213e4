/* SPDX-License-Identifier: Apache-2.0
 *
 * The command ask: questions about tool calls that wait in a data directory or a database, and their answers. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/data.h"
#include "cli/common/database.h"
#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/run/timeline.h"
#include "turnphase/sqlite.h"

/** Where they are. */
typedef struct place {
  char *path;
  tp_postgres *database; /* NULL: it is a file */
} place;

typedef struct listing {
  const cli_arguments *arguments;
  cli_output *output;
  size_t shown;
} listing;

static const char *state_of(const tp_kept_question *q) {
  if (q->state == TP_QUESTION_ALLOWED) return "allowed";
  if (q->state == TP_QUESTION_DENIED) return "denied";
  return q->is_waited_for ? "open" : "left"; /* by the process that asked */
}

static void print_json(cli_output *output, const tp_kept_question *q) {
  cli_map p = {0};
  cli_map_add_int(&p, "number", (int64_t)q->number);
  cli_map_add_string(&p, "state", state_of(q));
  cli_map_add_text(&p, "tool", q->tool);
  cli_map_add_value(&p, "arguments", q->arguments);
  cli_map_add_text(&p, "asked_by", q->subscription);
  cli_map_add_text(&p, "reason", q->reason);
  cli_map_add_text(&p, "tenant", q->tenant);
  cli_map_add_text(&p, "agent", q->agent);
  cli_map_add_text(&p, "session", q->session);
  cli_map_add_text(&p, "turn", q->turn);
  cli_map_add_text(&p, "call_id", q->call_id);
  cli_map_add_int(&p, "asked_unix_ms", q->asked_unix_ms);
  cli_map_add_int(&p, "expires_unix_ms", q->expires_unix_ms);
  if (q->answered_unix_ms) cli_map_add_int(&p, "answered_unix_ms", q->answered_unix_ms);
  if (q->used_unix_ms) cli_map_add_int(&p, "used_unix_ms", q->used_unix_ms);
  if (q->person.size) cli_map_add_text(&p, "person", q->person);
  if (q->answer.size) cli_map_add_text(&p, "answer", q->answer);
  if (q->edited_arguments.size) cli_map_add_value(&p, "edited_arguments", q->edited_arguments);
  cli_map_print(&p, output);
}

static void print_text(cli_output *output, const char *label, tp_text text) {
  if (!text.size) return;
  cli_print_string(output, label);
  cli_print_cut(output, text, SIZE_MAX);
}

static void print_value(cli_output *output, const char *label, tp_text value) {
  tp__bytes json = {0};
  if (value.size && cli_buffer_add_json(&json, value, NULL) == TP_OK)
    print_text(output, label, (tp_text){json.data, json.size});
  tp__bytes_fini(&json);
}

/* Characters that a terminal would obey or hide are shown as their numbers, because a person decides by this text. */
static void print_question(cli_output *output, const tp_kept_question *q) {
  char time[40];
  cli_printf(output, "%llu  %s  %-7s ", (unsigned long long)q->number, cli_data_time(q->asked_unix_ms, time),
             state_of(q));
  print_text(output, " ", q->tool);
  cli_print_string(output, " ");
  print_value(output, "", q->arguments);
  print_text(output, "  turn ", q->turn);
  print_text(output, "  session ", q->session);
  cli_print_string(output, "\n");
  print_text(output, "    asked by ", q->subscription);
  print_text(output, ": ", q->reason);
  if (q->subscription.size) cli_print_string(output, "\n");
  print_text(output, "    answered by ", q->person);
  print_text(output, q->person.size ? ": " : "    answer: ", q->answer);
  if (q->person.size || q->answer.size) cli_print_string(output, "\n");
  print_value(output, "    edited to ", q->edited_arguments);
  if (q->edited_arguments.size) cli_print_string(output, "\n");
}

static bool show(void *ctx, const tp_kept_question *question) {
  listing *l = ctx;
  l->shown++;
  if (l->arguments->json) print_json(l->output, question);
  else print_question(l->output, question);
  return !l->output->error;
}

static int list(const cli_arguments *arguments, const place *in, cli_output *output) {
  listing l = {arguments, output, 0};
  tp_fault fault = {0};
  tp_status status = in->database ? cli_database_questions_list(in->database, !arguments->all, show, &l, &fault)
                                  : tp_sqlite_questions_list(in->path, !arguments->all, show, &l, &fault);
  if (status != TP_OK) return cli_fault(in->path, status, &fault);
  if (l.shown == 0) cli_error("no question %s in %s", arguments->all ? "is kept" : "is open", in->path);
  return CLI_OK;
}

/* Reads the arguments that replace those of the question, freed with the writer. @param path  NULL: none. */
static int read_edit(const char *path, tp_writer **ret_writer, tp_text *ret_value) {
  int status = path ? cli_input_decode(path, ret_writer, ret_value) : CLI_OK;
  if (status != CLI_OK || !path || tp_value_kind_of(*ret_value) == TP_VALUE_MAP) return status;
  cli_error_at(cli_input_name(path), 0, 0, "the arguments of a tool are one JSON object");
  return CLI_CONFIG;
}

static int check_answer(const cli_arguments *arguments) {
  const char *word = arguments->operands[2], *verdict = arguments->operands[3];
  char *end = NULL;
  uint64_t number = strtoull(word, &end, 10);
  bool allows = strcmp(verdict, "allow") == 0;
  if (!number || *end || (!allows && strcmp(verdict, "deny") != 0)) {
    cli_error("ask answer takes a data directory, the number of a question, and allow or deny, not '%s'",
              number && !*end ? verdict : word);
    return CLI_USAGE;
  }
  if (!arguments->call_arguments || allows) return CLI_OK;
  cli_error("--arguments go with allow: a call that is denied does not run");
  return CLI_USAGE;
}

static int answer(const cli_arguments *arguments, const place *in) {
  uint64_t number = strtoull(arguments->operands[2], NULL, 10);
  bool allows = strcmp(arguments->operands[3], "allow") == 0;
  tp_fault fault = {0};
  tp_writer *writer = NULL;
  tp_text edited = {NULL, 0};
  int read = read_edit(arguments->call_arguments, &writer, &edited);
  const tp_decision decision = {.struct_size = sizeof decision,
                                .verdict = allows ? TP_VERDICT_ALLOW : TP_VERDICT_DENY,
                                .reason = tp_text_of(arguments->reason),
                                .person = tp_text_of(arguments->by),
                                .arguments = edited};
  tp_status status = read != CLI_OK ? TP_OK
                     : in->database ? cli_database_question_answer(in->database, number, &decision, &fault)
                                    : tp_sqlite_question_answer(in->path, number, &decision, &fault);
  tp_writer_free(writer);
  if (read != CLI_OK) return read;
  if (status == TP_OK) return CLI_OK;
  if (status == TP_ERR_NOT_FOUND) {
    cli_error("%s; see: turnphase ask list %s", fault.message, arguments->operands[1]);
    return CLI_NEGATIVE;
  }
  int exit = cli_fault(in->path, status, &fault);
  return status == TP_ERR_STALE ? CLI_NEGATIVE : exit;
}

static int open_place(const char *name, place *in) {
  tp_fault fault = {0};
  if (!cli_database_is(name)) return cli_data_find(name, "turnphase.db", &in->path);
  tp_status status = cli_database_open(name, true, NULL, NULL, &in->database, &fault);
  if (status != TP_OK) return cli_fault(NULL, status, &fault);
  in->path = cli_alloc(strlen(name) + 1);
  memcpy(in->path, name, strlen(name) + 1);
  return CLI_OK;
}

int cli_ask_command(const cli_arguments *arguments, cli_output *output) {
  bool answers = strcmp(arguments->operand, "answer") == 0;
  if (!answers && arguments->operand_count != 2) {
    cli_error("ask list takes a data directory; see: turnphase ask --help");
    return CLI_USAGE;
  }
  if (answers ? arguments->all || arguments->json : arguments->reason || arguments->by || arguments->call_arguments) {
    cli_error(answers ? "--all and --json belong to ask list" : "--reason, --by and --arguments belong to ask answer");
    return CLI_USAGE;
  }
  if (answers && arguments->operand_count != 4) {
    cli_error("ask answer takes a data directory, the number of a question, and allow or deny");
    return CLI_USAGE;
  }
  place in = {.path = NULL};
  int status = answers ? check_answer(arguments) : CLI_OK;
  if (status == CLI_OK) status = open_place(arguments->operands[1], &in);
  if (status == CLI_OK) status = answers ? answer(arguments, &in) : list(arguments, &in, output);
  cli_database_close(in.database);
  free(in.path);
  return status;
}
