/* SPDX-License-Identifier: Apache-2.0
 *
 * line.c: while libedit edits, the terminal sends Ctrl-C and Ctrl-Z as characters, which are bound to functions here.
 * So no signal comes in the middle of a line. */
#include "cli/chat/line.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/common/pool.h"
#include "runtime/base/check.h"

#ifdef CLI_LIBEDIT
#include <histedit.h>
#include <signal.h>
#endif

struct cli_line {
  const char *prompt;
  int bell;
  char *bytes; /* bytes that were read; the first `used` of them were given out */
  size_t size, capacity, used;
  bool ended;
#ifdef CLI_LIBEDIT
  EditLine *edit; /* NULL: read() alone */
  History *history;
  bool interrupted, was_empty, too_long;
  const char *const *words; /* completions for the first word of a line; NULL: none */
#endif
};

/* ---- with read() alone ---- */

/* @return false when SIGINT came first. */
static bool wait_for_input(const cli_line *line) {
  struct pollfd polls[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = line->bell, .events = POLLIN}};
  while (poll(polls, 2, -1) < 0 && errno == EINTR) continue;
  uint64_t rung;
  if (!(polls[1].revents & POLLIN)) return true;
  (void)!read(line->bell, &rung, sizeof rung);
  return false;
}

/* @return how many bytes came; 0 at the end; -1 with errno. */
static ssize_t read_more(cli_line *line) {
  while (line->capacity - line->size < 4096) line->bytes = cli_reserve(line->bytes, line->capacity, &line->capacity, 1);
  ssize_t got;
  do got = read(STDIN_FILENO, line->bytes + line->size, line->capacity - line->size);
  while (got < 0 && errno == EINTR);
  if (got > 0) line->size += (size_t)got;
  line->ended = got == 0;
  return got;
}

static cli_line_kind give(cli_line *line, size_t end, bool too_long, tp_text *ret_text) {
  assert(end <= line->size);
  size_t size = end;
  line->used = end < line->size ? end + 1 : end;
  if (too_long || size > CLI_LINE_BYTES_MAX) return CLI_LINE_TOO_LONG;
  if (size > 0 && line->bytes[size - 1] == '\r') size--;
  *ret_text = (tp_text){line->bytes, size};
  return CLI_LINE_TEXT;
}

static cli_line_kind read_unedited(cli_line *line, tp_text *ret_text) {
  bool too_long = false;
  size_t looked = 0;
  line->size -= line->used;
  if (line->size > 0) memmove(line->bytes, line->bytes + line->used, line->size);
  for (line->used = 0;;) {
    const char *end = looked < line->size ? memchr(line->bytes + looked, '\n', line->size - looked) : NULL;
    if (end) return give(line, (size_t)(end - line->bytes), too_long, ret_text);
    if (line->ended) return line->size > 0 || too_long ? give(line, line->size, too_long, ret_text) : CLI_LINE_END;
    too_long = too_long || line->size > CLI_LINE_BYTES_MAX;
    if (too_long) line->size = 0; /* what is dropped is not kept either */
    looked = line->size;
    if (!wait_for_input(line)) return CLI_LINE_LEAVE;
    if (read_more(line) < 0) return CLI_LINE_FAILED;
  }
}

/* ---- libedit ---- */

#ifdef CLI_LIBEDIT
static cli_line *line_of(EditLine *edit) {
  void *line = NULL;
  el_get(edit, EL_CLIENTDATA, &line);
  return line;
}

static char *prompt_of(EditLine *edit) { return (char *)(uintptr_t)line_of(edit)->prompt; }

static unsigned char interrupt(EditLine *edit, int key) {
  (void)key;
  cli_line *line = line_of(edit);
  const LineInfo *info = el_line(edit);
  line->interrupted = true;
  line->was_empty = info->lastchar == info->buffer;
  return CC_EOF;
}

/* A pasted text is one text, even when it has several lines. The terminal puts it between these two sequences
 * (bracketed paste, of xterm's control sequences), and sends a line end as a carriage return. */
#define PASTE_BEGIN "\x1b[200~"
static const wchar_t paste_end[] = L"\x1b[201~";
enum { PASTE_END_LENGTH = 6 };

static void set_paste(bool on) {
  fputs(on ? "\x1b[?2004h" : "\x1b[?2004l", stdout);
  fflush(stdout);
}

static unsigned char paste(EditLine *edit, int key) {
  wchar_t *text = NULL;
  size_t length = 0, capacity = 0, ended = 0;
  (void)key;
  for (wchar_t each; ended < PASTE_END_LENGTH && el_wgetc(edit, &each) == 1;) {
    if (length + 2 > capacity) text = cli_reserve(text, capacity, &capacity, sizeof *text);
    text[length++] = each == '\r' ? '\n' : each;
    ended = each == paste_end[ended] ? ended + 1 : each == paste_end[0];
  }
  if (ended == PASTE_END_LENGTH) length -= PASTE_END_LENGTH;
  while (length > 0 && text[length - 1] == '\n') length--; /* else it would look as if it were sent */
  if (length > 0) text[length] = 0;
  cli_line *line = line_of(edit);
  line->too_long = length > 0 && (length > CLI_LINE_BYTES_MAX || el_winsertstr(edit, text) != 0);
  free(text);
  return line->too_long ? CC_NEWLINE : CC_REFRESH; /* what is dropped is said at once */
}

static unsigned char begin_line(EditLine *edit, int key) {
  (void)key;
  return el_insertstr(edit, "\n") == 0 ? CC_REFRESH : CC_ERROR;
}

/* ---- completion ---- */

enum { MATCHES_SHOWN = 40 };

/** The words that begin as what is typed. */
typedef struct matches {
  const char *typed; /* the end of the word that is completed */
  size_t size;       /* of it */
  char common[256];  /* what all of them begin with */
  size_t count;
  bool shows; /* they are listed, below the line */
} matches;

static void add_match(matches *m, const char *name, const char *end) {
  char whole[sizeof m->common];
  if (strncmp(name, m->typed, m->size) != 0) return;
  if (snprintf(whole, sizeof whole, "%s%s", name, end) >= (int)sizeof whole) return;
  if (m->shows && m->count < MATCHES_SHOWN) fprintf(stdout, "%s%s", m->count ? "  " : "\n", whole);
  if (m->count++ == 0) {
    memcpy(m->common, whole, sizeof whole);
    return;
  }
  size_t same = 0;
  while (whole[same] && whole[same] == m->common[same]) same++;
  m->common[same] = '\0';
}

static void match_words(matches *m, const char *const *words) {
  for (size_t i = 0; words && words[i]; i++) add_match(m, words[i], " ");
}

/* Names with characters that a terminal would obey, and hidden files, are not offered. */
static void match_files(matches *m, const char *directory) {
  DIR *open = opendir(directory[0] ? directory : ".");
  for (struct dirent *entry; open && (entry = readdir(open));) {
    char path[4096];
    struct stat found;
    bool is_hidden = entry->d_name[0] == '.' && m->typed[0] != '.';
    for (const char *at = entry->d_name; *at; at++) is_hidden |= (unsigned char)*at < 0x20 || *at == 0x7F;
    if (is_hidden || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    snprintf(path, sizeof path, "%s%s", directory, entry->d_name);
    add_match(m, entry->d_name, stat(path, &found) == 0 && S_ISDIR(found.st_mode) ? "/" : " ");
  }
  if (open) closedir(open);
}

/* @param word  up to the cursor. */
static void match(matches *m, const cli_line *line, char *word, bool is_first) {
  char *slash = strrchr(word, '/');
  m->count = 0;
  if (is_first && word[0] == '/') {
    m->typed = word;
    m->size = strlen(word);
    match_words(m, line->words);
    return;
  }
  char directory[2048] = "";
  m->typed = slash ? slash + 1 : word;
  m->size = strlen(m->typed);
  snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash + 1 - word) : 0, word);
  match_files(m, directory);
}

static unsigned char complete(EditLine *edit, int key) {
  (void)key;
  const cli_line *line = line_of(edit);
  const LineInfo *info = el_line(edit);
  const char *begin = info->cursor;
  char word[2048];
  while (begin > info->buffer && begin[-1] != ' ' && begin[-1] != '\n') begin--;
  if (info->cursor - begin >= (ptrdiff_t)sizeof word) return CC_ERROR;
  snprintf(word, sizeof word, "%.*s", (int)(info->cursor - begin), begin);
  bool is_first = begin == info->buffer;
  matches m = {.count = 0};
  if (word[0] == '\0') return CC_ERROR;
  match(&m, line, word, is_first);
  if (m.count == 0) return CC_ERROR;
  if (strlen(m.common) > m.size) return el_insertstr(edit, m.common + m.size) == 0 ? CC_REFRESH : CC_ERROR;
  m.shows = true;
  match(&m, line, word, is_first);
  fprintf(stdout, "%s\n", m.count > MATCHES_SHOWN ? "  …" : "");
  return CC_REDISPLAY;
}

/* Does what the terminal would do: the program stops, with the terminal in its original state. */
static unsigned char suspend(EditLine *edit, int key) {
  (void)key;
  el_set(edit, EL_PREP_TERM, 0);
  set_paste(false);
  kill(0, SIGTSTP);
  el_set(edit, EL_PREP_TERM, 1);
  set_paste(true);
  return CC_REDISPLAY;
}

static void open_edit(cli_line *line) {
  HistEvent event;
  line->edit = el_init("turnphase", stdin, stdout, stderr);
  if (!line->edit) return;
  line->history = history_init();
  if (line->history) {
    history(line->history, &event, H_SETSIZE, 1000);
    history(line->history, &event, H_SETUNIQUE, 1);
    el_set(line->edit, EL_HIST, history, line->history);
  }
  el_set(line->edit, EL_CLIENTDATA, line);
  el_set(line->edit, EL_PROMPT, prompt_of);
  el_set(line->edit, EL_EDITOR, "emacs");
  el_set(line->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
  el_source(line->edit, NULL); /* the user's own ~/.editrc; the settings below win */
  /* el_wset() keeps these texts; el_set() copies them and never frees the copies. */
  el_wset(line->edit, EL_ADDFN, L"chat-interrupt", L"drop the line", interrupt);
  el_wset(line->edit, EL_ADDFN, L"chat-suspend", L"stop the program", suspend);
  el_wset(line->edit, EL_ADDFN, L"chat-paste", L"insert what is pasted", paste);
  el_wset(line->edit, EL_ADDFN, L"chat-line", L"begin a new line of the message", begin_line);
  el_wset(line->edit, EL_ADDFN, L"chat-complete", L"complete a command or a file", complete);
  el_set(line->edit, EL_BIND, "^I", "chat-complete", NULL);
  el_set(line->edit, EL_BIND, PASTE_BEGIN, "chat-paste", NULL);
  el_set(line->edit, EL_BIND, "\x1b\r", "chat-line", NULL); /* Alt-Enter */
  el_set(line->edit, EL_BIND, "\x1b\n", "chat-line", NULL);
  el_set(line->edit, EL_BIND, "^C", "chat-interrupt", NULL);
  el_set(line->edit, EL_BIND, "^Z", "chat-suspend", NULL);
  el_set(line->edit, EL_SETTY, "-d", "-isig", NULL);
}

/* A line that was read stays readable until the next call, because libedit's own line does. */
static cli_line_kind read_edited(cli_line *line, tp_text *ret_text) {
  int count = 0;
  line->interrupted = line->too_long = false;
  el_resize(line->edit);
  el_set(line->edit, EL_PREP_TERM, 1); /* before the prompt, so that text typed from now on is shown once */
  set_paste(true);
  const char *text = el_gets(line->edit, &count);
  set_paste(false);
  if (line->interrupted || !text || count <= 0) fputc('\n', stdout);
  if (line->interrupted) return line->was_empty ? CLI_LINE_LEAVE : CLI_LINE_INTERRUPT;
  if (!text || count < 0) return count < 0 ? CLI_LINE_FAILED : CLI_LINE_END;
  if (line->too_long) return CLI_LINE_TOO_LONG;
  size_t size = (size_t)count;
  bool has_end = size > 0 && text[size - 1] == '\n';
  HistEvent event;
  if (line->history && size > has_end) history(line->history, &event, H_ENTER, text);
  *ret_text = (tp_text){text, size - has_end};
  return ret_text->size > CLI_LINE_BYTES_MAX ? CLI_LINE_TOO_LONG : CLI_LINE_TEXT;
}
#endif

/* ---- both ---- */

cli_line *cli_line_open(bool edits, int bell) {
  cli_line *line = cli_alloc(sizeof *line);
  *line = (cli_line){.bell = bell};
#ifdef CLI_LIBEDIT
  if (edits) open_edit(line);
#else
  (void)edits;
#endif
  return line;
}

cli_line_kind cli_line_read(cli_line *line, const char *prompt, tp_text *ret_text) {
  assert(ret_text);
  *ret_text = (tp_text){0};
  line->prompt = prompt ? prompt : "";
#ifdef CLI_LIBEDIT
  if (line->edit) return read_edited(line, ret_text);
#endif
  fputs(line->prompt, stdout);
  fflush(stdout);
  cli_line_kind kind = read_unedited(line, ret_text);
  if (line->prompt[0] && kind != CLI_LINE_TEXT && kind != CLI_LINE_TOO_LONG) fputc('\n', stdout);
  return kind;
}

cli_line_kind cli_line_typed(cli_line *line, tp_text *ret_text) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  assert(ret_text);
  *ret_text = (tp_text){0};
  if (poll(&input, 1, 0) != 1) return CLI_LINE_NONE;
  line->size = line->used = 0; /* at a terminal nothing beyond the line was read */
  ssize_t got = read_more(line);
  if (got <= 0) return got < 0 ? CLI_LINE_FAILED : CLI_LINE_END;
  const char *end = memchr(line->bytes, '\n', line->size);
  return give(line, end ? (size_t)(end - line->bytes) : line->size, false, ret_text);
}

void cli_line_complete(cli_line *line, const char *const *words) {
#ifdef CLI_LIBEDIT
  line->words = words;
#else
  (void)line;
  (void)words;
#endif
}

void cli_line_close(cli_line *line) {
  if (!line) return;
#ifdef CLI_LIBEDIT
  if (line->edit) el_end(line->edit);
  if (line->history) history_end(line->history);
#endif
  free(line->bytes);
  free(line);
}
