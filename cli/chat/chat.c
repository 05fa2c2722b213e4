/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/chat/chat.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/chat/line.h"
#include "cli/chat/slash.h"
#include "cli/common/data.h"
#include "cli/common/exit_status.h"
#include "cli/common/limits.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/run/timeline.h"
#include "support/clock.h"

/* Leaving waits for memories that are being written, but not for long; a later process does the rest. */
enum { JOBS_LIMIT_MS = 10000, JOBS_LOOK_MS = 100, JOBS_SILENT_MS = 1000, DRAIN_LIMIT_MS = 5000, WAIT_MS = 60000 };
enum { INTERRUPTED_LIMIT_MS = 1000, ASKED_LOOK_MS = 100, SIGN_LOOK_MS = 1000 };

/* ---- what it comes to ---- */

/* As in run: the first error counts, and a negative answer counts less than any other error. */
static void note_chat_status(cli_chat *chat, int status) {
  if (chat->status == CLI_OK || (chat->status == CLI_NEGATIVE && status != CLI_OK)) chat->status = status;
}

void cli_chat_refuse(cli_chat *chat, const char *format, ...) {
  char words[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  cli_flush(chat->output);
  cli_error("%s", words);
  if (!chat->terminal) note_chat_status(chat, CLI_USAGE);
}

/* ---- a turn ---- */

/* The terminal itself has written ^C on the line. */
static void see_interrupt(cli_chat *chat) {
  if (!chat->terminal || chat->interrupted || !cli_interrupted_turn(&chat->interrupt)) return;
  chat->interrupted = true;
  if (chat->screen.has_sign) { /* both go, and this one comes again */
    cli_screen_sign(&chat->screen, 0);
    cli_print_string(chat->output, "^C");
  }
  chat->screen.open = chat->screen.caret = true;
}

/* Shows new events, unless a person is being asked, because no line may be printed into the question. Lock held. */
static void show_new(cli_chat *chat) {
  if (chat->playing && chat->may_ask && cli_ask_is_open(&chat->ask)) return;
  if (chat->shown < chat->events.count) chat->shown_ns = tp__monotonic_ns();
  while (chat->shown < chat->events.count) cli_screen_show(&chat->screen, cli_events_get(&chat->events, chat->shown++));
  cli_flush(chat->output);
}

/* A question begins on a line of its own. A tp_question_fn. */
static void ask_person(void *ctx, const tp_question *question) {
  cli_chat *chat = ctx;
  tp__lock_acquire(&chat->mutex);
  show_new(chat);
  cli_screen_line_end(&chat->screen);
  cli_flush(chat->output);
  cli_ask_put(&chat->ask, question);
  tp__lock_release(&chat->mutex);
}

/* The newest event. Lock held. */
static void show_event(cli_chat *chat) {
  see_interrupt(chat);
  if (chat->arguments->json) {
    cli_events_print(&chat->events, chat->output);
    cli_events_clear(&chat->events);
  } else {
    show_new(chat);
  }
  cli_flush(chat->output);
}

static void show_chat_event(void *ctx, const tp_event *event) {
  cli_chat *chat = ctx;
  bool answered = event->kind == TP_EVENT_MODEL_END;
  tp__lock_acquire(&chat->mutex);
  cli_events_add(&chat->events, chat->talk.runtime, event, answered ? &chat->talk.watch.request : NULL);
  if (chat->playing) show_event(chat);
  tp__lock_release(&chat->mutex);
}

/* A time that a person can read, and that no other turn of the session has, including turns of earlier processes. */
static void make_turn_id(cli_chat *chat, char ret_id[40]) {
  int64_t ms = tp__wall_ms();
  chat->last_id_ms = ms > chat->last_id_ms ? ms : chat->last_id_ms + 1;
  cli_data_time(chat->last_id_ms, ret_id);
}

static void remember(cli_chat *chat, tp_text text) {
  free(chat->last);
  chat->last = cli_alloc(text.size + 1);
  memcpy(chat->last, text.data, text.size);
  chat->last_size = text.size;
}

static tp_writer *begin_files(cli_chat *chat) {
  if (!chat->last_files) cli_need(tp_writer_new(NULL, &chat->last_files));
  tp_writer_reset(chat->last_files);
  return chat->last_files;
}

/* The files of a message of the history. */
static void remember_files(cli_chat *chat, tp_text parts) {
  size_t count = 0;
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk);) count += tp_value_get(walk.value, "file").size > 0;
  tp_writer *writer = begin_files(chat);
  tp_write_array(writer, count);
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk);)
    if (tp_value_get(walk.value, "file").size > 0) tp_write_value(writer, tp_value_get(walk.value, "file"));
}

/* If the file cannot store one turn, it will not store later ones. */
static void check_stored(cli_chat *chat, const tp_turn_result *result) {
  bool of_store = result->code >= TP_ERR_STORE && result->code < TP_ERR_SYSTEM;
  if (result->outcome != TP_TURN_FAILED || !(of_store || result->code == TP_ERR_IO)) return;
  cli_error("error: %.*s; the conversation ends", (int)result->reason.size, result->reason.data);
  note_chat_status(chat, cli_exit_of(result->code));
  chat->leaves = true;
}

static void end_turn(cli_chat *chat, const tp_turn_result *result) {
  tp__lock_acquire(&chat->mutex);
  cli_events_add_result(&chat->events, chat->session_id, result);
  if (chat->arguments->json) {
    show_event(chat);
  } else {
    see_interrupt(chat);
    show_new(chat); /* the turn is over: also what was held back */
    cli_screen_end(&chat->screen, result);
    cli_flush(chat->output);
  }
  tp__lock_release(&chat->mutex);
  /* A person has seen how a turn ended; a script gets the exit status. */
  int ended = cli_turn_exit(result);
  check_stored(chat, result);
  int interrupted = cli_interrupted(&chat->interrupt);
  if (ended != CLI_OK && !chat->terminal) note_chat_status(chat, interrupted ? interrupted : ended);
}

/* ---- what is typed while a turn runs ---- */

static bool is_blank(tp_text text) {
  for (size_t i = 0; i < text.size; i++)
    if (text.data[i] != ' ' && text.data[i] != '\t') return false;
  return true;
}

/* A command runs after the turn. A message that the turn no longer accepts becomes the next message.
 * @return false: no more lines come. */
static bool take_typed(cli_chat *chat, tp_submission *submission) {
  tp_text text;
  cli_line_kind kind = cli_line_typed(chat->line, &text);
  if (kind == CLI_LINE_END || kind == CLI_LINE_FAILED) chat->leaves = true;
  if (kind != CLI_LINE_TEXT || is_blank(text)) return !chat->leaves;
  bool slash = text.data[0] == '/', twice = slash && text.size > 1 && text.data[1] == '/';
  tp_added_message message = {.struct_size = sizeof message,
                              .text = twice ? (tp_text){text.data + 1, text.size - 1} : text};
  bool is_taken = (!slash || twice) && tp_submission_add_message(submission, &message, NULL) == TP_OK;
  if (!is_taken) {
    assert(text.data);
    chat->typed = cli_reserve(chat->typed, chat->typed_count, &chat->typed_capacity, sizeof *chat->typed);
    char *copy = cli_alloc(text.size + 1);
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    chat->typed[chat->typed_count++] = copy;
  }
  return true;
}

/* On the thread that owns the turn. */
static void note_end(void *ctx, const tp_turn_result *result) {
  const cli_chat *chat = ctx;
  const uint64_t one = 1;
  (void)result;
  if (chat->ended >= 0) (void)!write(chat->ended, &one, sizeof one);
}

/* While a question is open, lines of the terminal are for the question. */
static void read_until_end(cli_chat *chat, tp_submission *submission) {
  struct pollfd polls[] = {{.fd = chat->ended, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
  uint64_t ends;
  for (bool reads = true; !(polls[0].revents & POLLIN);) {
    bool asks = chat->may_ask && cli_ask_is_open(&chat->ask);
    if (!asks) {
      /* Shows events that were held back, and after a second without output a sign of life. */
      tp__lock_acquire(&chat->mutex);
      show_new(chat);
      int64_t silent_s = (tp__monotonic_ns() - chat->shown_ns) / 1000000000;
      bool is_asked = chat->may_ask && cli_ask_is_open(&chat->ask);
      if (chat->screen.lays_out && !is_asked && silent_s > 0) cli_screen_sign(&chat->screen, (unsigned)silent_s);
      cli_flush(chat->output);
      tp__lock_release(&chat->mutex);
    }
    if (poll(polls, reads && !asks ? 2 : 1, asks ? ASKED_LOOK_MS : SIGN_LOOK_MS) <= 0) continue;
    asks = chat->may_ask && cli_ask_is_open(&chat->ask);
    if (reads && !asks && polls[1].revents) reads = take_typed(chat, submission);
    polls[1].revents = 0;
  }
  (void)!read(chat->ended, &ends, sizeof ends);
}

static tp_status play(cli_chat *chat, const tp_turn_request *request, tp_fault *fault) {
  const tp_turn_result *result = NULL;
  tp_submission *submission;
  cli_follower_retry(chat->talk.follower);
  cli_interrupt_begin(&chat->interrupt);
  tp_status status = tp_turn_submit(chat->session, request, note_end, chat, &submission, fault);
  cli_interrupt_watch(&chat->interrupt, status == TP_OK ? submission : NULL);
  if (status != TP_OK) return status;
  if (chat->ended >= 0) read_until_end(chat, submission);
  do status = tp_submission_wait(submission, WAIT_MS, &result, fault);
  while (status == TP_ERR_TIMEOUT);
  chat->playing = false;
  if (status == TP_OK) end_turn(chat, result);
  cli_interrupt_watch(&chat->interrupt, NULL);
  tp_submission_unref(submission);
  return status;
}

static void submit_last(cli_chat *chat) {
  char id[40];
  tp_text files;
  make_turn_id(chat, id);
  cli_need(tp_writer_finish(chat->last_files, &files));
  tp_turn_request request = {.struct_size = sizeof request,
                             .id = id,
                             .text = {chat->last, chat->last_size},
                             .files = tp_value_count(files) > 0 ? files : (tp_text){NULL, 0}};
  tp_fault fault = {0};
  cli_limits_fill(&chat->arguments->limits, NULL, &request);
  cli_events_clear(&chat->events);
  chat->shown = 0;
  chat->shown_ns = tp__monotonic_ns();
  chat->playing = true;
  chat->interrupted = false;
  tp_status status = play(chat, &request, &fault);
  chat->playing = false;
  if (status == TP_OK) return;
  cli_flush(chat->output);
  int exit_status = cli_fault(NULL, status, &fault);
  if (!chat->terminal) note_chat_status(chat, exit_status);
}

void cli_chat_submit(cli_chat *chat, tp_text text) {
  remember(chat, text);
  /* What is attached goes with this message. */
  tp_writer *writer = begin_files(chat);
  tp_write_array(writer, chat->attached_count);
  for (size_t i = 0; i < chat->attached_count; i++) {
    tp_write_string(writer, chat->attached[i]);
    free(chat->attached[i]);
  }
  chat->attached_count = 0;
  submit_last(chat);
}

bool cli_chat_submit_again(cli_chat *chat) {
  if (chat->last) submit_last(chat);
  return chat->last != NULL;
}

/* ---- the conversation ---- */

/* A message that begins with a slash is written with two slashes. A line that begins with a skill's name after one
 * slash is a message if there are skills and no command has this name. A text of several lines is always a message. For
 * a program, each line is a message. */
static void take_chat_text(cli_chat *chat, tp_text text) {
  bool slash = !chat->arguments->json && text.size > 0 && text.data[0] == '/';
  bool twice = slash && text.size > 1 && text.data[1] == '/',
       has_lines = text.size > 0 && memchr(text.data, '\n', text.size);
  bool is_command = slash && !twice && (cli_slash_is_command(text) || !(chat->arguments->skills || has_lines));
  if (is_blank(text)) return;
  if (is_command && has_lines) cli_chat_refuse(chat, "a command is one line; a message that begins so has two slashes");
  else if (is_command) cli_slash_run(chat, text);
  else if (twice) cli_chat_submit(chat, (tp_text){text.data + 1, text.size - 1});
  else cli_chat_submit(chat, text);
}

/* The width of the terminal may change between two turns. */
static void look_at_width(cli_chat *chat) {
  cli_output_fold(chat->output);
  chat->screen.width = chat->output->width;
  chat->output->width = 0; /* the answer is wrapped by the terminal */
}

static void take_line(cli_chat *chat, cli_line_kind kind, tp_text text, bool left_before) {
  switch (kind) {
    case CLI_LINE_TEXT:
      take_chat_text(chat, text);
      break;
    case CLI_LINE_TOO_LONG:
      cli_chat_refuse(chat, "a message has at most %d bytes", CLI_LINE_BYTES_MAX);
      break;
    case CLI_LINE_INTERRUPT:
    case CLI_LINE_NONE:
      break;
    case CLI_LINE_LEAVE:
      if (left_before) chat->leaves = true;
      else if (chat->terminal) cli_print_string(chat->output, "Ctrl-C once more leaves, as Ctrl-D and /quit do.\n");
      break;
    case CLI_LINE_FAILED:
      cli_error("standard input: %s", strerror(errno));
      note_chat_status(chat, CLI_IO);
      chat->leaves = true;
      break;
    case CLI_LINE_END:
      chat->leaves = true;
      break;
  }
}

/* A line that a person typed during the last turn is read as if it were typed now. */
static void take_kept(cli_chat *chat) {
  char *kept = chat->typed[0];
  memmove(chat->typed, chat->typed + 1, --chat->typed_count * sizeof *chat->typed);
  cli_print_string(chat->output, "> ");
  cli_screen_text(&chat->screen, tp_text_of(kept));
  cli_screen_line_end(&chat->screen);
  take_chat_text(chat, tp_text_of(kept));
  free(kept);
}

static void converse(cli_chat *chat) {
  chat->line = cli_line_open(chat->terminal, chat->interrupt.bell);
  cli_line_complete(chat->line, cli_slash_names());
  if (chat->terminal) chat->ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  for (bool left = false; !chat->leaves && !chat->output->error && !cli_interrupted(&chat->interrupt);) {
    tp_text text;
    cli_flush(chat->output);
    if (chat->typed_count > 0) {
      take_kept(chat);
      continue;
    }
    cli_line_kind kind = cli_line_read(chat->line, chat->terminal ? "> " : NULL, &text);
    look_at_width(chat);
    take_line(chat, kind, text, left);
    left = kind == CLI_LINE_LEAVE;
  }
  for (size_t i = 0; i < chat->typed_count; i++) cli_error("not said: %s", chat->typed[i]);
  if (chat->ended >= 0) close(chat->ended);
  cli_line_close(chat->line);
}

/* ---- begin and end ---- */

static void remember_answer(cli_chat *chat, tp_text text) {
  free(chat->answered);
  chat->answered = text.size ? cli_alloc(text.size + 1) : NULL;
  if (!chat->answered) return;
  memcpy(chat->answered, text.data, text.size);
  chat->answered[text.size] = '\0';
}

static tp_status see_message(void *ctx, const tp_message *message) {
  cli_chat *chat = ctx;
  chat->messages++;
  if (message->role == TP_ROLE_ASSISTANT && message->text.size > 0) remember_answer(chat, message->text);
  if (message->role != TP_ROLE_USER) return TP_OK;
  remember_answer(chat, (tp_text){0});
  remember(chat, message->text);
  remember_files(chat, message->parts);
  return TP_OK;
}

static int open_chat_session(cli_chat *chat) {
  tp_fault fault = {0};
  tp_budget budget;
  tp_session_options options = {.struct_size = sizeof options,
                                .id = chat->session_id,
                                .budget = cli_budget_fill(&chat->arguments->budgets.session, &budget),
                                .tenant = chat->arguments->tenant,
                                .workspace = chat->arguments->workspace,
                                .environment = cli_environment(chat->arguments),
                                .agent = cli_talk_find_agent(&chat->talk, NULL),
                                .shared_history = chat->talk.history,
                                .busy = (uint32_t)chat->arguments->busy,
                                .busy_wait_ms = chat->arguments->busy_wait_ms,
                                .ask = chat->may_ask ? ask_person : NULL,
                                .ask_ctx = chat->may_ask ? chat : NULL};
  cli_talk_compact(chat->arguments, &options);
  tp_status status = cli_talk_load(&chat->talk, chat->session_id, see_message, chat, &fault);
  if (status == TP_OK)
    status = cli_talk_open_session(&chat->talk, &options, show_chat_event, chat, &chat->session, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(chat->session_id, status, &fault);
}

static int open_chat(cli_chat *chat) {
  cli_models models;
  int status = cli_talk_check(chat->arguments, "chat", true);
  if (status == CLI_OK) status = cli_models_open(&chat->arguments->models, &models);
  if (status == CLI_OK) status = cli_talk_open(&chat->talk, chat->arguments, &models);
  return status == CLI_OK ? open_chat_session(chat) : status;
}

/* Prints a line, cut at the width, that shows where the conversation goes on. */
static void show_said(cli_chat *chat, const char *before, tp_text text) {
  if (text.size == 0) return;
  cli_print_string(chat->output, before);
  cli_print_cut(chat->output, text, chat->screen.width ? chat->screen.width - 2 : 78);
  cli_print_string(chat->output, "\n");
}

static void greet(cli_chat *chat) {
  const cli_arguments *a = chat->arguments;
  cli_paint_on(chat->output, CLI_FAINT);
  cli_printf(chat->output, "turnphase %s, ", tp_version());
  for (size_t i = 0; i < a->models.count; i++) {
    const cli_model_name *name = &a->models.items[i];
    cli_printf(chat->output, "%s%s%s", i > 0 ? ", else " : "",
               name->model ? name->model : "script:", name->model ? "" : name->script);
  }
  if (a->data) cli_printf(chat->output, ", session %s in %s", chat->session_id, a->data);
  if (chat->messages) cli_printf(chat->output, ", %zu messages so far", chat->messages);
  cli_print_string(chat->output, "\n");
  show_said(chat, "> ", chat->last ? (tp_text){chat->last, chat->last_size} : (tp_text){0});
  show_said(chat, "  ", tp_text_of(chat->answered));
  cli_print_string(chat->output, "/help lists the commands. Ctrl-C cancels a turn, Ctrl-D leaves.\n\n");
  cli_paint_off(chat->output);
}

static void report_lost(cli_chat *chat, uint64_t lost) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(chat->talk.runtime, &stats);
  if (stats.jobs_dead == 0 && lost == 0) return;
  cli_error("error: background work failed for good (%llu) or was not done (%llu): what would have been kept is lost",
            (unsigned long long)stats.jobs_dead, (unsigned long long)lost);
  note_chat_status(chat, CLI_LOST);
}

static uint32_t drain_limit_ms(cli_chat *chat) {
  return cli_interrupted(&chat->interrupt) ? INTERRUPTED_LIMIT_MS : DRAIN_LIMIT_MS;
}

static void leave_chat(cli_chat *chat) {
  cli_events_clear(&chat->events);
  cli_talk_close_session(&chat->talk, chat->session);
  if (chat->arguments->json) cli_events_print(&chat->events, chat->output);
  /* Ctrl-C ends the wait. */
  int64_t began_ns = tp__monotonic_ns(), waited_ms = 0;
  bool reported = false;
  tp_status status;
  do {
    status = tp_jobs_wait(chat->talk.runtime, chat->session_id, JOBS_LOOK_MS, NULL);
    waited_ms = (tp__monotonic_ns() - began_ns) / 1000000;
    if (status != TP_ERR_TIMEOUT || reported || waited_ms < JOBS_SILENT_MS) continue;
    cli_error("waiting for the background work of session %s", chat->session_id);
    reported = true;
  } while (status == TP_ERR_TIMEOUT && waited_ms < JOBS_LIMIT_MS && !cli_interrupted(&chat->interrupt));
  report_lost(chat, cli_talk_drain(&chat->talk, drain_limit_ms(chat)));
  cli_talk_report_open(&chat->talk);
  int interrupted = cli_interrupted(&chat->interrupt);
  if (interrupted) chat->status = interrupted;
}

static void close_chat(cli_chat *chat) {
  cli_talk_drain(&chat->talk, drain_limit_ms(chat));
  cli_talk_close(&chat->talk);
  cli_events_free(&chat->events);
  free(chat->last);
  free(chat->answered);
  tp_writer_free(chat->last_files);
  for (size_t i = 0; i < chat->attached_count; i++) free(chat->attached[i]);
  free(chat->attached);
  for (size_t i = 0; i < chat->typed_count; i++) free(chat->typed[i]);
  free(chat->typed);
}

int cli_chat_command(const cli_arguments *arguments, cli_output *output) {
  cli_chat chat = {.arguments = arguments,
                   .output = output,
                   .session_id = arguments->session ? arguments->session : "chat",
                   .ended = -1,
                   .mutex = TP__LOCK_INITIALIZER(TP__LOCK_chat),
                   .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !arguments->json};
  chat.screen = (cli_screen){.output = output, .verbose = arguments->verbose, .terminal = chat.terminal};
  const char *term = getenv("TERM");
  chat.screen.lays_out = chat.terminal && term && strcmp(term, "dumb") != 0;
  chat.screen.prose.marks = output->colour && !arguments->raw;
  cli_interrupt_start(&chat.interrupt);
  if (chat.terminal) cli_interrupt_turns_only(&chat.interrupt);
  look_at_width(&chat);
  chat.may_ask = chat.terminal && cli_ask_start(&chat.ask);
  chat.talk.person = chat.may_ask ? &chat.ask : NULL;
  int status = open_chat(&chat);
  if (status == CLI_OK) {
    if (chat.terminal) greet(&chat);
    converse(&chat);
    leave_chat(&chat);
    status = chat.status;
  }
  close_chat(&chat);
  if (chat.terminal) cli_ask_stop(&chat.ask);
  cli_interrupt_stop(&chat.interrupt);
  return status;
}
