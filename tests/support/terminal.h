/* SPDX-License-Identifier: Apache-2.0
 *
 * terminal: a program on a pseudo-terminal, and the screen that a person would see: its output is applied to a grid of
 * characters as on an xterm (the few sequences that line editors use). Tests wait for text on the screen, never for
 * fixed times. Include after cmocka.h. */
#ifndef TEST_TERMINAL_H
#define TEST_TERMINAL_H

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TERMINAL_ROWS = 120, TERMINAL_COLUMNS_MAX = 160, TERMINAL_LIMIT_S = 60 };

typedef struct terminal {
  pid_t child;
  int master;
  int columns, row, column;
  char cells[TERMINAL_ROWS][TERMINAL_COLUMNS_MAX][5]; /* one code point each; "": a blank */
  char sequence[64];                                  /* an escape sequence or a code point that is not whole */
  size_t sequence_size;
  bool painted;    /* a colour was asked for */
  bool overflowed; /* more than TERMINAL_ROWS, or a sequence that is not known */
  bool ended;      /* the program has closed the terminal */
  char *raw;       /* every byte that came */
  size_t raw_size, raw_capacity;
  char text[TERMINAL_ROWS * (TERMINAL_COLUMNS_MAX * 4 + 1) + 1];
} terminal;

/* ---- the grid ---- */

static inline void terminal_line_feed(terminal *t) {
  if (t->row + 1 < TERMINAL_ROWS) t->row++;
  else t->overflowed = true;
}

static inline void terminal_put(terminal *t, const char *piece, size_t size) {
  if (t->column == t->columns) { /* the wrap waits for the next character */
    t->column = 0;
    terminal_line_feed(t);
  }
  memcpy(t->cells[t->row][t->column], piece, size);
  t->cells[t->row][t->column++][size] = '\0';
}

static inline void terminal_blank(terminal *t, int from, int to) {
  for (int i = from; i < to; i++) t->cells[t->row][i][0] = '\0';
}

/* ESC [ … final. */
static inline void terminal_obey(terminal *t, char final, const char *numbers) {
  int n = atoi(numbers), count = n > 0 ? n : 1;
  int at = t->column < t->columns ? t->column : t->columns - 1;
  switch (final) {
    case 'm':
      t->painted = true;
      break;
    case 'A':
      t->row = t->row > count ? t->row - count : 0;
      break;
    case 'C':
      t->column = at + count < t->columns ? at + count : t->columns - 1;
      break;
    case 'D':
      t->column = at > count ? at - count : 0;
      break;
    case 'G':
      t->column = count - 1;
      break;
    case 'K':
      if (n == 0) terminal_blank(t, t->column, t->columns);
      else t->overflowed = true;
      break;
    case 'J':
      terminal_blank(t, t->column, t->columns);
      for (int row = t->row + 1; row < TERMINAL_ROWS; row++)
        for (int i = 0; i < t->columns; i++) t->cells[row][i][0] = '\0';
      break;
    case 'P':
      memmove(t->cells[t->row][at], t->cells[t->row][at + count], (size_t)(t->columns - at - count) * 5);
      terminal_blank(t, t->columns - count, t->columns);
      break;
    case '@':
      memmove(t->cells[t->row][at + count], t->cells[t->row][at], (size_t)(t->columns - at - count) * 5);
      terminal_blank(t, at, at + count);
      break;
    case 'h':
    case 'l':
      break; /* modes */
    default:
      t->overflowed = true;
  }
}

static inline size_t terminal_code_point(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

static inline void terminal_take(terminal *t, char byte) {
  t->sequence[t->sequence_size++] = byte;
  t->sequence[t->sequence_size] = '\0';
  unsigned char first = (unsigned char)t->sequence[0];
  if (first == 0x1b) {
    bool whole = t->sequence_size > 2 && byte >= '@' && byte <= '~';
    if (t->sequence_size == 2 && byte != '[') {
      t->sequence_size = 0; /* ESC = and others of two bytes */
    } else if (whole) {
      terminal_obey(t, byte, t->sequence + 2);
      t->sequence_size = 0;
    } else if (t->sequence_size + 2 > sizeof t->sequence) {
      t->overflowed = true;
      t->sequence_size = 0;
    }
    return;
  }
  if (first >= 0x20 && first != 0x7f && t->sequence_size < terminal_code_point(first)) return;
  if (first == '\n') terminal_line_feed(t);
  else if (first == '\r') t->column = 0;
  else if (first == '\b') t->column -= t->column > 0;
  else if (first >= 0x20 && first != 0x7f) terminal_put(t, t->sequence, t->sequence_size);
  else if (first != 7) t->overflowed = true;
  t->sequence_size = 0;
}

/* The text up to the cursor, including the part of its line before it; blanks at the ends of earlier lines are left
 * out. */
static inline const char *terminal_text(terminal *t) {
  size_t size = 0;
  for (int row = 0; row <= t->row; row++) {
    int end = row == t->row ? t->column : t->columns;
    while (row < t->row && end > 0 && (!t->cells[row][end - 1][0] || strcmp(t->cells[row][end - 1], " ") == 0)) end--;
    for (int i = 0; i < end; i++) {
      const char *cell = t->cells[row][i][0] ? t->cells[row][i] : " ";
      memcpy(t->text + size, cell, strlen(cell));
      size += strlen(cell);
    }
    if (row < t->row) t->text[size++] = '\n';
  }
  t->text[size] = '\0';
  return t->text;
}

/* ---- the program ---- */

/* @param arguments  the first is the program; ended by NULL. */
static inline terminal *terminal_open(const char *const *arguments, int columns) {
  terminal *t = calloc(1, sizeof *t);
  struct winsize size = {.ws_row = TERMINAL_ROWS, .ws_col = (unsigned short)columns};
  assert_non_null(t);
  t->columns = columns;
  t->child = forkpty(&t->master, NULL, NULL, &size);
  if (t->child == 0) {
    signal(SIGPIPE, SIG_DFL);
    execv(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(127);
  }
  assert_true(t->child > 0);
  return t;
}

static inline long terminal_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long)now.tv_sec;
}

/* Takes output that has come, or waits for some. @return false when no more comes, or none for too long. */
static inline bool terminal_pump(terminal *t) {
  char piece[4096];
  struct pollfd polled = {.fd = t->master, .events = POLLIN};
  if (t->ended || poll(&polled, 1, TERMINAL_LIMIT_S * 1000) <= 0) return false;
  ssize_t got = read(t->master, piece, sizeof piece);
  if (got <= 0) {
    t->ended = true; /* EIO: the other side is closed */
    return false;
  }
  if (t->raw_size + (size_t)got + 1 > t->raw_capacity) {
    t->raw_capacity = 2 * (t->raw_size + (size_t)got + 1);
    t->raw = realloc(t->raw, t->raw_capacity);
    assert_non_null(t->raw);
  }
  memcpy(t->raw + t->raw_size, piece, (size_t)got);
  t->raw_size += (size_t)got;
  t->raw[t->raw_size] = '\0';
  for (ssize_t i = 0; i < got; i++) terminal_take(t, piece[i]);
  return true;
}

static inline bool terminal_ends_with(terminal *t, const char *end) {
  const char *text = terminal_text(t);
  size_t size = strlen(text), end_size = strlen(end);
  return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

/* Waits until what stands before the cursor ends like this. */
static inline void terminal_await(terminal *t, const char *end) {
  long begin_s = terminal_seconds();
  while (!terminal_ends_with(t, end)) {
    if (terminal_seconds() < begin_s + TERMINAL_LIMIT_S && terminal_pump(t)) continue; /* a sign may come for ever */
    print_message("# \"%s\" never came; the screen:\n%s\n", end, terminal_text(t));
    fail();
  }
}

static inline void terminal_type(terminal *t, const char *keys) {
  size_t size = strlen(keys);
  assert_int_equal(write(t->master, keys, size), size);
}

/* Types a line, sees it, and sends it. */
static inline void terminal_say(terminal *t, const char *line) {
  terminal_type(t, line);
  terminal_await(t, line);
  terminal_type(t, "\r");
}

/* Waits for the end of the program. @return its exit status; -1 when it was killed. */
static inline int terminal_wait(terminal *t) {
  int status;
  while (terminal_pump(t)) continue;
  if (!t->ended) kill(t->child, SIGKILL);
  assert_int_equal(waitpid(t->child, &status, 0), t->child);
  assert_true(t->ended);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline void terminal_close(terminal *t) {
  assert_false(t->overflowed);
  close(t->master);
  free(t->raw);
  free(t);
}

/* Compares a text of the screen with the expected one, in which every time in milliseconds or seconds is "# ms". */
static inline void assert_masked(const char *text, const char *wanted) {
  char *masked = malloc(4 * strlen(text) + 1);
  size_t size = 0;
  assert_non_null(masked);
  while (*text) {
    size_t digits = strspn(text, "0123456789."), same = digits > 0 ? digits : 1;
    size_t unit = digits == 0                             ? 0
                  : strncmp(text + digits, " ms", 3) == 0 ? 3
                  : strncmp(text + digits, " s", 2) == 0  ? 2
                                                          : 0;
    memcpy(masked + size, unit ? "# ms" : text, unit ? 4 : same);
    size += unit ? 4 : same;
    text += same + unit;
  }
  masked[size] = '\0';
  if (strcmp(masked, wanted) != 0) print_message("# the screen:\n%s\n# wanted:\n%s\n", masked, wanted);
  assert_string_equal(masked, wanted);
  free(masked);
}

#endif
