/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/ask.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/common/visible.h"

enum { LOOK_MS = 100 };

/* A question. Its text is made when the question is put, because the call belongs to the library. */
struct cli_question {
  cli_question *next;
  void (*put)(cli_ask *ask, void *ctx); /* NULL: the question is about a call, and has the members after `ctx` */
  void (*dropped)(void *ctx);
  void *ctx;
  tp_token token;
  char *shown, *tool, *hash;
  size_t shown_size;
};

static void free_question(cli_question *q) {
  free(q->shown);
  free(q->tool);
  free(q->hash);
  free(q);
}

/* ---- the text ---- */

/* Characters that a terminal would obey or hide are written as their numbers. */
static void put_visible(FILE *out, tp_text text) {
  while (text.size > 0) {
    uint32_t code;
    cli_visibility visibility;
    char number[CLI_ESCAPE_SIZE];
    size_t step = cli_visible_step(text, &code, &visibility);
    if (visibility == CLI_VISIBLE) fwrite(text.data, 1, step, out);
    else fwrite(number, 1, cli_visible_escape(code, number), out);
    text.data += step;
    text.size -= step;
  }
}

static void put_arguments(FILE *out, const tp_tool_call *call) {
  tp__bytes json = {0};
  bool encoded =
      !call->malformed && call->arguments.size > 0 && cli_buffer_add_json(&json, call->arguments, NULL) == TP_OK;
  if (encoded) put_visible(out, (tp_text){json.data, json.size});
  else if (call->malformed) put_visible(out, call->arguments);
  tp__bytes_fini(&json);
}

static char *shown_text(const tp_question *question, size_t *ret_size) {
  char *text = NULL;
  FILE *out = open_memstream(&text, ret_size);
  if (!out) return NULL;
  fputs("turnphase: hook ", out);
  put_visible(out, question->subscription);
  fputs(" asks: may this call run?\n  tool: ", out);
  put_visible(out, question->call->name);
  fputs("\n  arguments: ", out);
  put_arguments(out, question->call);
  fputs("\n  reason: ", out);
  put_visible(out, question->reason);
  fputs("\nRun it? y (once), n, e (edit the arguments),\nor always (this tool, until the run ends): ",
        out); /* fits 60 columns */
  if (fclose(out) == 0) return text;
  free(text);
  return NULL;
}

/* ---- the queue ---- */

static cli_question *new_question(const tp_question *question) {
  cli_question *q = calloc(1, sizeof *q);
  if (!q) return NULL;
  q->token = question->token;
  q->shown = shown_text(question, &q->shown_size);
  q->tool = strndup(question->call->name.data, question->call->name.size);
  q->hash = strndup(question->arguments_hash.data, question->arguments_hash.size);
  if (q->shown && q->tool && q->hash) return q;
  free_question(q);
  return NULL;
}

/* @return false: it has stopped. */
static bool add_question(cli_ask *ask, cli_question *q) {
  tp__lock_acquire(&ask->mutex);
  bool is_open = !ask->stops;
  cli_question **last = &ask->first;
  while (*last) last = &(*last)->next;
  if (is_open) *last = q;
  tp__lock_condition_signal(&ask->changed);
  tp__lock_release(&ask->mutex);
  return is_open;
}

void cli_ask_put(void *ctx, const tp_question *question) {
  cli_ask *ask = ctx;
  cli_question *q = new_question(question);
  if (!q) {
    cli_error("no memory for a question: the call is denied");
    (void)!tp_token_abandon(question->token, NULL);
    return;
  }
  (void)add_question(ask, q); /* while the turn runs it has not stopped */
}

bool cli_ask_run(cli_ask *ask, void (*put)(cli_ask *ask, void *ctx), void (*dropped)(void *ctx), void *ctx) {
  cli_question *q = calloc(1, sizeof *q);
  if (!q) return false;
  q->put = put;
  q->dropped = dropped;
  q->ctx = ctx;
  if (add_question(ask, q)) return true;
  free(q);
  return false;
}

static bool stops(cli_ask *ask) {
  tp__lock_acquire(&ask->mutex);
  bool stopping = ask->stops;
  tp__lock_release(&ask->mutex);
  return stopping;
}

/* @return NULL: it stops. */
static cli_question *next_question(cli_ask *ask) {
  tp__lock_acquire(&ask->mutex);
  ask->asks = false;
  while (!ask->first && !ask->stops) tp__lock_condition_wait(&ask->changed, &ask->mutex);
  cli_question *q = ask->stops ? NULL : ask->first;
  if (q) ask->first = q->next;
  ask->asks = q != NULL;
  tp__lock_release(&ask->mutex);
  return q;
}

bool cli_ask_is_open(cli_ask *ask) {
  tp__lock_acquire(&ask->mutex);
  bool is_open = ask->asks || ask->first;
  tp__lock_release(&ask->mutex);
  return is_open;
}

/* ---- answers ---- */

static bool is_always(const cli_ask *ask, const char *tool) {
  for (size_t i = 0; i < ask->always_count; i++)
    if (strcmp(ask->always[i], tool) == 0) return true;
  return false;
}

static void add_always(cli_ask *ask, const char *tool) {
  char **list = realloc(ask->always, (ask->always_count + 1) * sizeof *list);
  if (list) ask->always = list;
  char *name = list ? strdup(tool) : NULL;
  if (name) ask->always[ask->always_count++] = name;
}

/* Reads a line. Checks from time to time whether the question, if there is one, is still open.
 * @return false: the question has ended, or the terminal is gone. */
static bool read_line(cli_ask *ask, const cli_question *q, char *line) {
  struct pollfd terminal = {.fd = ask->terminal, .events = POLLIN};
  while (!stops(ask) && (!q || tp_token_open(q->token))) {
    if (poll(&terminal, 1, LOOK_MS) <= 0) continue;
    ssize_t size = read(ask->terminal, line, CLI_ASK_LINE_BYTES - 1);
    if (size <= 0) return false;
    line[size] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    return true;
  }
  return false;
}

bool cli_ask_line(cli_ask *ask, char line[CLI_ASK_LINE_BYTES]) { return read_line(ask, NULL, line); }
void cli_ask_show(tp_text text) { put_visible(stderr, text); }

/* @param edited  a map that replaces the shown arguments; empty: the shown ones stay. */
static void answer_question(const cli_question *q, tp_verdict verdict, tp_text edited) {
  tp_decision decision = {.struct_size = sizeof decision,
                          .verdict = verdict,
                          .arguments_hash = tp_text_of(q->hash),
                          .person = tp_text_of("terminal"),
                          .arguments = edited};
  tp_fault fault = {0};
  tp_status status = tp_question_answer(q->token, &decision, &fault);
  if (status != TP_OK) cli_error("the answer comes too late: %s", fault.message);
}

/* Asks for a JSON object on one line. @return whether the question has its answer; if not, it is asked again. */
static bool edit(cli_ask *ask, const cli_question *q, char *line) {
  tp_writer *writer = NULL;
  tp_text edited;
  tp_fault fault = {0};
  fputs("The arguments, one JSON object in one line; an empty line goes back: ", stderr);
  fflush(stderr);
  if (!read_line(ask, q, line) || !line[0]) return false;
  tp_status status = tp_writer_new(NULL, &writer);
  if (status == TP_OK) status = tp_json_decode(tp_text_of(line), writer, &fault);
  if (status == TP_OK) status = tp_writer_finish(writer, &edited);
  bool is_map = status == TP_OK && tp_value_kind_of(edited) == TP_VALUE_MAP;
  if (is_map) answer_question(q, TP_VERDICT_ALLOW, edited);
  else cli_error("that is no JSON object%s%s", fault.message[0] ? ": " : "", fault.message);
  tp_writer_free(writer);
  return is_map;
}

/* Text that was typed before the question is no answer to it. Asks again until the answer is one of these. */
static void put_to_person(cli_ask *ask, const cli_question *q) {
  char line[CLI_ASK_LINE_BYTES];
  const tp_text none = {NULL, 0};
  (void)tcflush(ask->terminal, TCIFLUSH);
  fwrite(q->shown, 1, q->shown_size, stderr);
  fflush(stderr);
  while (read_line(ask, q, line)) {
    bool always = strcmp(line, "always") == 0;
    if (always) add_always(ask, q->tool);
    if (always || strcmp(line, "y") == 0 || strcmp(line, "yes") == 0) {
      answer_question(q, TP_VERDICT_ALLOW, none);
      return;
    }
    if (strcmp(line, "n") == 0 || strcmp(line, "no") == 0) {
      answer_question(q, TP_VERDICT_DENY, none);
      return;
    }
    if ((strcmp(line, "e") == 0 || strcmp(line, "edit") == 0) && edit(ask, q, line)) return;
    fputs("Answer y, n, e or always: ", stderr);
    fflush(stderr);
  }
  fputc('\n', stderr);
  (void)!tp_token_abandon(q->token, NULL); /* refused where it is over */
}

static void *serve(void *arg) {
  cli_ask *ask = arg;
  for (cli_question *q; (q = next_question(ask));) {
    if (q->put) {
      (void)tcflush(ask->terminal, TCIFLUSH);
      q->put(ask, q->ctx);
    } else if (is_always(ask, q->tool)) answer_question(q, TP_VERDICT_ALLOW, (tp_text){NULL, 0});
    else if (tp_token_open(q->token)) put_to_person(ask, q);
    free_question(q);
  }
  return NULL;
}

/* ---- life ---- */

bool cli_ask_start(cli_ask *ask) {
  *ask =
      (cli_ask){.mutex = TP__LOCK_INITIALIZER(TP__LOCK_ask), .changed = TP__LOCK_CONDITION_INITIALIZER, .terminal = -1};
  if (!isatty(STDERR_FILENO)) return false;
  ask->terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (ask->terminal < 0) return false;
  ask->runs = tp__thread_spawn(&ask->thread, serve, ask) == 0;
  if (!ask->runs) cli_error("warning: no thread for questions: calls that ask are denied");
  return ask->runs;
}

void cli_ask_stop(cli_ask *ask) {
  tp__lock_acquire(&ask->mutex);
  ask->stops = true;
  tp__lock_condition_signal(&ask->changed);
  tp__lock_release(&ask->mutex);
  if (ask->runs) pthread_join(ask->thread, NULL);
  for (cli_question *q; (q = ask->first);) {
    ask->first = q->next;
    if (q->dropped) q->dropped(q->ctx);
    free_question(q);
  }
  for (size_t i = 0; i < ask->always_count; i++) free(ask->always[i]);
  free(ask->always);
  if (ask->terminal >= 0) close(ask->terminal);
}
