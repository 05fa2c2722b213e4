/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/chat/slash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/data.h"
#include "cli/common/exit_status.h"
#include "cli/common/pool.h"
#include "cli/common/table.h"
#include "cli/run/timeline.h"
#include "support/text.h"
#include "turnphase/memory.h"
#include "turnphase/sqlite.h"

enum {
  MEMORIES = 10,
  JOBS_LIMIT_MS = 2000,
  PHASES_MAX = 64,
  FILES_MAX = 64,
  FILE_BYTES_MAX = 20 << 20
}; /* turns have fewer phases */

/** A command; rest is the text after its name. */
typedef struct command {
  const char *name, *operand, *help;
  void (*run)(cli_chat *chat, const char *rest);
} command;

static void print_help(cli_chat *chat, const char *rest);

/* ---- leaving, and once more ---- */

static void quit(cli_chat *chat, const char *rest) {
  (void)rest;
  chat->leaves = true;
}

static void retry(cli_chat *chat, const char *rest) {
  (void)rest;
  if (!cli_chat_submit_again(chat)) cli_chat_refuse(chat, "there is no message yet that could be sent again");
}

/* ---- the newest turn ---- */

static bool has_turn(cli_chat *chat) {
  if (chat->events.count == 0) cli_chat_refuse(chat, "there was no turn yet");
  return chat->events.count > 0;
}

/** A phase of the turn, with all its runs together. */
typedef struct phase_row {
  const char *name;
  size_t count, handlers;
  int64_t duration_ns;
  bool failed;
} phase_row;

static phase_row *phase_row_of(phase_row *rows, size_t *count, const char *name) {
  assert(*count <= PHASES_MAX);
  for (size_t i = 0; i < *count; i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  if (*count == PHASES_MAX) return NULL;
  rows[*count] = (phase_row){.name = name};
  return &rows[(*count)++];
}

static void count_event(phase_row *row, const tp_event *event) {
  if (event->kind == TP_EVENT_RUN) row->handlers++;
  if (event->kind != TP_EVENT_PHASE_END) return;
  row->count++;
  row->duration_ns += event->ended_ns - event->started_ns;
  row->failed = row->failed || event->status != TP_OK;
}

static void print_phases(cli_chat *chat, const char *rest) {
  (void)rest;
  phase_row rows[PHASES_MAX];
  size_t count = 0;
  if (!has_turn(chat)) return;
  for (size_t i = 0; i < chat->events.count; i++) {
    const cli_event *e = cli_events_get(&chat->events, i);
    phase_row *row = e->phase ? phase_row_of(rows, &count, e->phase) : NULL;
    if (row) count_event(row, &e->event);
  }
  static const cli_column columns[] = {{.head = "", .width = 34, .least = 18},
                                       {.head = "", .width = 12, .least = 9, .kind = CLI_COLUMN_RIGHT},
                                       {.head = "", .kind = CLI_COLUMN_TEXT}};
  cli_table table;
  chat->output->width = chat->screen.width;
  cli_table_begin(&table, chat->output, columns, 3, 2);
  for (size_t i = 0; i < count; i++) {
    char duration[32], handlers[64];
    snprintf(duration, sizeof duration, "%.2f ms", (double)rows[i].duration_ns / 1e6);
    int size = snprintf(handlers, sizeof handlers, "%zu handler%s", rows[i].handlers, rows[i].handlers == 1 ? "" : "s");
    if (rows[i].count > 1)
      size += snprintf(handlers + size, sizeof handlers - (size_t)size, ", %zu times", rows[i].count);
    if (rows[i].failed) snprintf(handlers + size, sizeof handlers - (size_t)size, ", denied or failed");
    const cli_cell cells[] = {
        {tp_text_of(rows[i].name), CLI_NORMAL}, {tp_text_of(duration), CLI_NORMAL}, {tp_text_of(handlers), CLI_NORMAL}};
    cli_table_row(&table, cells);
  }
  cli_table_end(&table);
  chat->output->width = 0;
}

/* As run shows it, with all that it has. */
static void explain(cli_chat *chat, const char *rest) {
  (void)rest;
  if (!has_turn(chat)) return;
  cli_timeline timeline = {.output = chat->output, .events = &chat->events, .verbose = true};
  chat->output->width = chat->screen.width;
  for (size_t i = 0; i < chat->events.count; i++) cli_timeline_show(&timeline, i);
  chat->output->width = 0;
  cli_timeline_free(&timeline);
}

static void print_tools(cli_chat *chat, const char *rest) {
  (void)rest;
  const cli_watch *watch = &chat->talk.watch;
  if (chat->events.count == 0) cli_chat_refuse(chat, "which tools the model is shown is known after the first turn");
  else if (watch->tool_count == 0) cli_print_string(chat->output, "  the model was shown no tools\n");
  for (size_t i = 0; i < watch->tool_count; i++) {
    tp_text name = tp_text_of(watch->tools[2 * i]);
    size_t width = chat->screen.width ? chat->screen.width : 80, used = name.size > 20 ? name.size + 4 : 24;
    cli_paint_on(chat->output, CLI_NOTE);
    cli_printf(chat->output, "  %-20s", watch->tools[2 * i]);
    cli_paint_off(chat->output);
    cli_print_string(chat->output, " ");
    cli_print_cut(chat->output, tp_text_of(watch->tools[2 * i + 1]), width > used + 2 ? width - used - 2 : 1);
    cli_print_string(chat->output, "\n");
  }
}

/* ---- memory ---- */

/** What print_memory() prints to. */
typedef struct shown {
  cli_chat *chat;
  size_t count;
} shown;

static bool print_memory(void *ctx, const tp_memory_entry *entry) {
  shown *s = ctx;
  cli_chat *chat = s->chat;
  char when[40], left[96];
  snprintf(left, sizeof left, "  %lld  %.10s  ", (long long)entry->id, cli_data_time(entry->said_unix_ms, when));
  cli_print_string(chat->output, left);
  size_t width = chat->screen.width ? chat->screen.width : 80, used = strlen(left) + 2;
  cli_print_cut(chat->output, entry->text, width > used ? width - used : 1);
  cli_print_string(chat->output, "\n");
  s->count++;
  return true;
}

/* The memories of the newest turn are written in the background. */
static void look_into_memory(cli_chat *chat, const char *rest) {
  tp_memory_query query = {.struct_size = sizeof query, .tenant = chat->arguments->tenant, .limit = MEMORIES};
  tp_memory *memory;
  tp_fault fault = {0};
  if (chat->arguments->no_memory) {
    cli_chat_refuse(chat, "this chat has no memory (--no-memory)");
    return;
  }
  if (!chat->talk.memory_path) {
    cli_chat_refuse(chat, "without --data DIR the memory lives in this process and cannot be listed");
    return;
  }
  (void)!tp_jobs_wait(chat->talk.runtime, chat->session_id, JOBS_LIMIT_MS, NULL);
  tp_status status = tp_memory_open(chat->talk.memory_path, &memory, &fault);
  if (status == TP_OK) {
    shown s = {.chat = chat};
    status = rest[0] ? tp_memory_search(memory, &query, tp_text_of(rest), print_memory, &s, &fault)
                     : tp_memory_list(memory, &query, print_memory, &s, &fault);
    if (s.count == 0 && (status == TP_OK || status == TP_ERR_NOT_FOUND)) {
      cli_print_string(chat->output, rest[0] ? "  nothing that fits is remembered\n" : "  nothing is remembered yet\n");
      status = TP_OK;
    }
    tp_memory_close(memory);
  }
  if (status != TP_OK) cli_chat_refuse(chat, "/memory: %s", fault.message[0] ? fault.message : tp_status_text(status));
}

/* ---- sessions ---- */

/* "* " marks the present conversation. Rows without a session, such as the commit of hooks, are skipped. */
static bool print_session(void *ctx, const tp_kept_session *session) {
  static const cli_column columns[] = {{.head = "", .width = 1},
                                       {.head = "", .width = 24, .rank = 1},
                                       {.head = "", .width = 20, .least = 12},
                                       {.head = "", .kind = CLI_COLUMN_TEXT}};
  cli_chat *chat = ctx;
  char time[40], messages[48];
  if (session->session.size == 0) return true;
  bool is_this = cli_text_is(session->session, chat->session_id);
  snprintf(messages, sizeof messages, "%llu message%s", (unsigned long long)session->messages,
           session->messages == 1 ? "" : "s");
  const cli_cell cells[] = {
      {tp_text_of(is_this ? "*" : ""), CLI_NORMAL},
      {tp_text_of(session->last_unix_ms ? cli_data_time(session->last_unix_ms, time) : "-"), CLI_NORMAL},
      {session->session, CLI_NOTE},
      {tp_text_of(messages), CLI_NORMAL}};
  cli_table table;
  cli_table_begin(&table, chat->output, columns, sizeof columns / sizeof *columns, 2);
  cli_table_row(&table, cells);
  cli_table_end(&table);
  return true;
}

static void list_sessions(cli_chat *chat, const char *rest) {
  (void)rest;
  tp_kept_query query = {.struct_size = sizeof query, .tenant = chat->arguments->tenant};
  cli_data data = {0};
  tp_fault fault = {0};
  if (!chat->talk.store_path) {
    cli_chat_refuse(chat, "without --data DIR no session is kept, and this one is the only one");
    return;
  }
  if (cli_data_open(chat->arguments->data, &data) != CLI_OK) return;
  chat->output->width = chat->screen.width;
  tp_status status = tp_sqlite_sessions_list(data.store, &query, print_session, chat, &fault);
  chat->output->width = 0;
  if (status != TP_OK) cli_chat_refuse(chat, "/sessions: %s", fault.message);
  cli_data_close(&data);
}

/* ---- thinking ---- */

static void toggle_thinking(cli_chat *chat, const char *rest) {
  (void)rest;
  chat->screen.thinks_whole = !chat->screen.thinks_whole;
  cli_print_string(chat->output,
                   chat->screen.thinks_whole ? "  thinking is shown whole\n" : "  thinking is folded to a line\n");
}

/* ---- a file ---- */

static tp_status write_message(void *ctx, const tp_message *message) {
  FILE *file = ctx;
  static const char *const roles[] = {[TP_ROLE_USER] = "User",
                                      [TP_ROLE_ASSISTANT] = "Assistant",
                                      [TP_ROLE_TOOL] = "Tool",
                                      [TP_ROLE_END] = "Not completed"};
  bool known = message->role > 0 && message->role < sizeof roles / sizeof *roles && roles[message->role];
  fprintf(file, "\n## %s%s%.*s\n\n", known ? roles[message->role] : "Message", message->name.size ? " " : "",
          (int)message->name.size, message->name.size ? message->name.data : "");
  if (message->text.size) fwrite(message->text.data, 1, message->text.size, file);
  for (tp_value_walk walk = {0}; tp_value_next(message->parts, &walk);) {
    tp_part part = {.struct_size = sizeof part};
    char line[256];
    if (tp_part_read(walk.value, &part, NULL) != TP_OK) continue;
    tp_part_describe(&part, line, sizeof line);
    if (part.kind == TP_PART_TEXT) fprintf(file, "\n\n%.*s", (int)part.text.size, part.text.size ? part.text.data : "");
    else if (part.kind == TP_PART_FILE && part.uri.size > 0)
      fprintf(file, "\n\nWith the file `%.*s`.", (int)(part.uri.size < 200 ? part.uri.size : 200), part.uri.data);
    else fprintf(file, "\n\nWith %s.", line);
  }
  for (size_t i = 0; i < message->call_count; i++)
    fprintf(file, "%sCalls `%.*s`.", i || message->text.size ? "\n\n" : "", (int)message->calls[i]->name.size,
            message->calls[i]->name.data);
  fputs("\n", file);
  return TP_OK;
}

/* An existing file is not overwritten; a new file can only be used by its owner. */
static void save(cli_chat *chat, const char *rest) {
  tp_fault fault = {0};
  if (!rest[0]) {
    cli_chat_refuse(chat, "/save needs the name of a file");
    return;
  }
  int fd = open(rest, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (!file) {
    cli_chat_refuse(chat, "%s: %s", rest,
                    errno == EEXIST ? "there is a file of this name; choose another" : strerror(errno));
    if (fd >= 0) close(fd);
    return;
  }
  fprintf(file, "# Conversation %s\n", chat->session_id);
  tp_status status = cli_talk_load(&chat->talk, chat->session_id, write_message, file, &fault);
  bool failed = ferror(file) != 0;
  if (fclose(file) != 0 || failed) cli_chat_refuse(chat, "%s: %s", rest, strerror(errno));
  else if (status != TP_OK)
    cli_chat_refuse(chat, "/save: %s", fault.message[0] ? fault.message : tp_status_text(status));
  else cli_printf(chat->output, "  saved to %s\n", rest);
}

/* ---- what goes with a message ---- */

/* @return the reason why the file cannot be attached; NULL: it can. */
static const char *why_not(const char *path, size_t attached) {
  struct stat found;
  if (attached == FILES_MAX) return "64 files are attached already";
  if (stat(path, &found) != 0 || access(path, R_OK) != 0) return strerror(errno);
  if (!S_ISREG(found.st_mode)) return "it is not a regular file";
  if (found.st_size > FILE_BYTES_MAX) return "an image may have 20 MiB";
  return tp_utf8_valid(tp_text_of(path), NULL) ? NULL : "its name is not UTF-8";
}

/* The model's library reads the file when the message is sent, below the root directory, and again with each later
 * message. */
static void attach(cli_chat *chat, const char *rest) {
  if (!rest[0]) {
    cli_chat_refuse(chat, "/attach needs the name of a file: an image (PNG, JPEG, GIF or WebP)");
    return;
  }
  char *path = realpath(rest, NULL);
  const char *wrong = path ? why_not(path, chat->attached_count) : strerror(errno);
  if (wrong) {
    cli_chat_refuse(chat, "%s: %s", rest, wrong);
    free(path);
    return;
  }
  memmove(path, path + 1, strlen(path)); /* without the slash: beneath / */
  chat->attached = cli_reserve(chat->attached, chat->attached_count, &chat->attached_capacity, sizeof *chat->attached);
  chat->attached[chat->attached_count++] = path;
  cli_printf(chat->output, "  %s goes with the next message\n", rest);
}

/* ---- the table ---- */

static const command commands[] = {
    {"/attach", "FILE", "send an image with the next message: PNG, JPEG, GIF or WebP", attach},
    {"/explain", "", "what happened in the newest turn: phases, handlers, recalled memories, calls", explain},
    {"/help", "", "this list", print_help},
    {"/memory", "[TEXT]", "what is remembered, newest first; with TEXT what it would recall", look_into_memory},
    {"/phases", "", "which phases the newest turn had, and the duration of each", print_phases},
    {"/quit", "", "leave, as Ctrl-D does", quit},
    {"/retry", "", "send the newest message again; the answer so far stays in the history", retry},
    {"/save", "FILE", "write the conversation to a new file, as Markdown", save},
    {"/sessions", "", "which sessions --data has, those of the oldest activity first", list_sessions},
    {"/thinking", "", "show what the model thinks whole, or folded to a line again", toggle_thinking},
    {"/tools", "", "which tools the model was shown", print_tools},
};

static void print_help(cli_chat *chat, const char *rest) {
  (void)rest;
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    char left[32];
    snprintf(left, sizeof left, "%s %s", commands[i].name, commands[i].operand);
    cli_printf(chat->output, "  %-16s %s\n", left, commands[i].help);
  }
  cli_print_string(chat->output,
                   "  A message that begins with a slash is written with two. Alt-Enter begins\n"
                   "  a new line.\n");
}

const char *const *cli_slash_names(void) {
  static const char *names[sizeof commands / sizeof *commands + 1];
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) names[i] = commands[i].name;
  return names;
}

/* The name ends at the first blank. */
static const command *find_command(const char *line, size_t size) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (strlen(commands[i].name) == size && memcmp(commands[i].name, line, size) == 0) return &commands[i];
  return NULL;
}

bool cli_slash_is_command(tp_text line) {
  size_t size = 0;
  while (size < line.size && !strchr(" \t\n", line.data[size])) size++;
  return find_command(line.data, size) != NULL;
}

void cli_slash_run(cli_chat *chat, tp_text text) {
  char *line = cli_alloc(text.size + 1);
  memcpy(line, text.data, text.size);
  line[text.size] = '\0';
  size_t size = strcspn(line, " \t");
  char *rest = line + size + strspn(line + size, " \t");
  for (size_t end = strlen(rest); end > 0 && (rest[end - 1] == ' ' || rest[end - 1] == '\t'); end--)
    rest[end - 1] = '\0';
  const command *found = find_command(line, size);
  if (!found) cli_chat_refuse(chat, "there is no command %.*s; see /help", (int)(size < 60 ? size : 60), line);
  else if (rest[0] && !found->operand[0]) cli_chat_refuse(chat, "%s takes nothing, not '%.100s'", found->name, rest);
  else found->run(chat, rest);
  free(line);
  cli_flush(chat->output);
}
