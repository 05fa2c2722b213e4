/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/declared/shell_line.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "support/text.h"

enum { WORDS_MAX = 64, LINES_MAX = 4, SUBSTITUTIONS_MAX = 32, STACK_BYTES = 1024 };

/* One command at a time: its words follow one another in `bytes`, each with a space after it. */
struct scan {
  tp_text line;
  size_t at;
  char *bytes; /* as many as the line has, and one for each word */
  size_t size, word_count;
  size_t begins[WORDS_MAX + 1]; /* of the words */
  uint64_t braces;              /* a bit for each word with a { that is not quoted */
  bool in_word, skips_word;     /* the next word is the target of a redirection */
  bool is_quoted;               /* inside of double quotes */
  bool outer[SUBSTITUTIONS_MAX];
  size_t depth;              /* of substitutions: is_quoted around each of them is in `outer` */
  tp__command_fn matches;    /* NULL: each is called instead */
  tp__shell_command_fn each; /* its words have the targets of redirections */
  uint64_t inputs, outputs;
  void *ctx;
  unsigned lines_left; /* how deep `sh -c` may still go */
  bool found;
};

static bool scan_line(tp_text line, tp__command_fn matches, void *ctx, unsigned lines_left);

/* ---- what a command is ---- */

static tp_text word_at(const struct scan *s, size_t index) {
  size_t begin = s->begins[index], end = index + 1 < s->word_count ? s->begins[index + 1] : s->size;
  return (tp_text){s->bytes + begin, end - begin - 1};
}

static tp_text without_folders(tp_text word) {
  const char *slash = memrchr(word.data, '/', word.size);
  return slash ? (tp_text){slash + 1, word.size - (size_t)(slash + 1 - word.data)} : word;
}

static bool is_name_byte(char byte, bool is_first) {
  char lower = (char)(byte | 32);
  return byte == '_' || (lower >= 'a' && lower <= 'z') || (!is_first && byte >= '0' && byte <= '9');
}

static bool is_assignment(tp_text word) {
  size_t i = 0;
  while (i < word.size && is_name_byte(word.data[i], i == 0)) i++;
  return i > 0 && i < word.size && (word.data[i] == '=' || (word.data[i] == '+' && i + 1 < word.size));
}

/* A word of the grammar in front of a command. */
static bool is_reserved(tp_text word) {
  return tp__is_one_of(word, "! { } if then elif else do while until time coproc function");
}

/* Programs that run what their arguments name, after options of their own. */
static bool is_wrapper(tp_text program) {
  return tp__is_one_of(program,
                       "sudo doas env nice ionice nohup setsid stdbuf xargs timeout exec command builtin "
                       "chroot time busybox find parallel");
}

static bool is_shell(tp_text program) { return tp__is_one_of(program, "sh bash dash zsh ksh ash"); }

static bool asks(const struct scan *s, size_t first) {
  size_t begin = s->begins[first];
  tp_text words = {s->bytes + begin, s->size - begin - 1}, program = word_at(s, first);
  if (s->matches(s->ctx, words)) return true;
  size_t folders = (size_t)(without_folders(program).data - program.data);
  return folders > 0 && s->matches(s->ctx, (tp_text){words.data + folders, words.size - folders});
}

/* -c, or letters with a c among them: the next word is a line. */
static bool runs_line(const struct scan *s, size_t first) {
  for (size_t i = first + 1; i + 1 < s->word_count; i++) {
    tp_text word = word_at(s, i);
    if (word.size < 2 || word.data[0] != '-') return false;
    if (word.data[1] != '-' && memchr(word.data, 'c', word.size))
      return scan_line(word_at(s, i + 1), s->matches, s->ctx, s->lines_left - 1);
  }
  return false;
}

/* The words after the last one that is counted, or a word of which the shell makes others: {git,push}. */
static bool is_unclear(const struct scan *s, size_t index) {
  tp_text word = word_at(s, index);
  return index == WORDS_MAX - 1 || ((s->braces >> index & 1) && memchr(word.data, ',', word.size));
}

static bool command_matches(const struct scan *s, size_t first) {
  if (first >= s->word_count) return false;
  if (is_unclear(s, first) || asks(s, first)) return true;
  tp_text program = without_folders(word_at(s, first));
  if (s->lines_left > 0 && is_shell(program) && runs_line(s, first)) return true;
  if (s->lines_left > 0 && tp__is_word(program, "eval") && first + 1 < s->word_count) {
    size_t begin = s->begins[first + 1];
    return scan_line((tp_text){s->bytes + begin, s->size - begin - 1}, s->matches, s->ctx, s->lines_left - 1);
  }
  if (!is_wrapper(program)) return false;
  for (size_t i = first + 1; i < s->word_count; i++) /* its own options are not known: each word may be the program */
    if (command_matches(s, i)) return true;
  return false;
}

static void end_word(struct scan *s) {
  if (!s->in_word) return;
  s->in_word = false;
  if (s->skips_word) {
    s->size = s->begins[s->word_count];
    s->skips_word = false;
  } else {
    s->bytes[s->size++] = ' ';
    s->word_count++;
  }
}

static void report(struct scan *s) {
  tp_text words[WORDS_MAX];
  tp__shell_command command = {.words = words, .count = s->word_count, .inputs = s->inputs, .outputs = s->outputs};
  for (size_t i = 0; i < s->word_count; i++) words[i] = word_at(s, i);
  if (s->word_count > 0) s->each(s->ctx, &command);
  s->size = s->word_count = 0;
  s->inputs = s->outputs = s->braces = 0;
  s->skips_word = false;
}

static void end_command(struct scan *s) {
  size_t first = 0;
  end_word(s);
  if (s->each) {
    report(s);
    return;
  }
  while (first < s->word_count && first < WORDS_MAX - 1 &&
         (is_reserved(word_at(s, first)) || is_assignment(word_at(s, first))))
    first++;
  s->found = s->found || command_matches(s, first);
  s->size = s->word_count = 0;
  s->braces = 0;
  s->skips_word = false;
}

/* ---- bytes ---- */

/* Words after the last one that is counted are one. */
static void begin_word(struct scan *s) {
  if (s->in_word) return;
  s->in_word = true;
  if (s->word_count == WORDS_MAX) s->word_count--;
  else s->begins[s->word_count] = s->size;
}

static void add(struct scan *s, char byte) {
  begin_word(s);
  s->bytes[s->size++] = byte;
}

static char peek(const struct scan *s, size_t ahead) {
  return s->at + ahead < s->line.size ? s->line.data[s->at + ahead] : '\0';
}

static void take_single_quotes(struct scan *s) {
  begin_word(s);
  for (s->at++; s->at < s->line.size && s->line.data[s->at] != '\''; s->at++) add(s, s->line.data[s->at]);
}

static unsigned digit_of(char c) {
  if (c >= '0' && c <= '9') return (unsigned)(c - '0');
  c |= 32;
  return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : UINT_MAX;
}

/* An escape of $'…': a letter, or a number in base 8 or 16. It ends at its last byte. */
static char take_escape(struct scan *s) {
  static const char letters[] = "a\ab\be\033E\033f\fn\nr\rt\tv\v";
  char c = peek(s, 1);
  bool is_hex = c == 'x' || c == 'u' || c == 'U';
  unsigned base = is_hex ? 16 : 8, number = 0, count = 0, count_max = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 3;
  s->at++;
  for (unsigned digit; count < count_max && (digit = digit_of(peek(s, is_hex + count))) < base; count++)
    number = number * base + digit;
  if (count > 0) {
    s->at += is_hex + count - 1;
    return (char)number;
  }
  for (size_t i = 0; letters[i]; i += 2)
    if (letters[i] == c) return letters[i + 1];
  return c;
}

static void take_escaped_quotes(struct scan *s) {
  begin_word(s);
  for (s->at += 2; s->at < s->line.size && s->line.data[s->at] != '\''; s->at++) {
    char c = s->line.data[s->at];
    add(s, c == '\\' ? take_escape(s) : c);
  }
}

/* What is around a substitution is given up: the rest of its command is looked at as one of its own. */
static void enter(struct scan *s) {
  end_command(s);
  if (s->depth < SUBSTITUTIONS_MAX) s->outer[s->depth] = s->is_quoted;
  s->depth++;
  s->is_quoted = false;
}

static void leave(struct scan *s) {
  end_command(s);
  if (s->depth == 0) return;
  s->depth--;
  s->is_quoted = s->depth < SUBSTITUTIONS_MAX && s->outer[s->depth];
}

/* Where the targets are wanted: the next word is one. */
static void mark_target(struct scan *s, char c) {
  uint64_t bit = s->word_count < WORDS_MAX ? (uint64_t)1 << s->word_count : 0;
  bool is_text = c == '<' && peek(s, 1) != '\0' && strchr("<&", peek(s, 1));
  if (c == '<' && peek(s, 1) != '>') s->inputs |= is_text ? 0 : bit;
  else s->outputs |= bit;
  s->skips_word = is_text;
}

/* 2>, >>, <, >|, &>: the digits in front are no word, and the next word is no argument. */
static void take_redirection(struct scan *s, char c) {
  bool digits = s->in_word;
  for (size_t i = s->begins[s->word_count]; digits && i < s->size; i++)
    digits = s->bytes[i] >= '0' && s->bytes[i] <= '9';
  if (digits) {
    s->size = s->begins[s->word_count];
    s->in_word = false;
  }
  end_word(s);
  s->skips_word = true;
  if (s->each) mark_target(s, c);
  while (peek(s, 1) && strchr("<>&|", peek(s, 1))) s->at++;
}

static void take_plain(struct scan *s, char c) {
  if (c == '\'') take_single_quotes(s);
  else if (strchr(";|\n()&", c) && c != '\0') {
    if (c == '&' && peek(s, 1) == '>') return;
    if (c == ')') leave(s);
    else if (c == '(') enter(s);
    else end_command(s);
  } else if (c == ' ' || c == '\t' || c == '\r') end_word(s);
  else if (c == '<' || c == '>') take_redirection(s, c);
  else if (c == '#' && !s->in_word)
    while (s->at + 1 < s->line.size && s->line.data[s->at + 1] != '\n') s->at++;
  else {
    add(s, c);
    if (c == '{') s->braces |= (uint64_t)1 << s->word_count;
  }
}

static void take(struct scan *s) {
  char c = s->line.data[s->at];
  if (c == '\\') {
    s->at++;
    if (peek(s, 0) != '\n' && s->at < s->line.size) add(s, peek(s, 0));
  } else if (c == '"') {
    s->is_quoted = !s->is_quoted;
    begin_word(s);
  } else if (c == '`') {
    end_command(s);
  } else if (c == '$' && peek(s, 1) == '(') {
    s->at++;
    enter(s);
  } else if (s->is_quoted) {
    add(s, c);
  } else if (c == '$' && peek(s, 1) == '\'') {
    take_escaped_quotes(s);
  } else if (c != '$' || peek(s, 1) != '"') {
    take_plain(s, c);
  }
}

static bool scan(struct scan *s) {
  char stack[STACK_BYTES];
  size_t needed = 2 * s->line.size + 2; /* a word of one byte has a space after it */
  s->bytes = needed <= sizeof stack ? stack : malloc(needed);
  if (!s->bytes) return true;
  for (; s->at < s->line.size && !s->found; s->at++) take(s);
  if (!s->found) end_command(s);
  if (s->bytes != stack) free(s->bytes);
  return s->found;
}

static bool scan_line(tp_text line, tp__command_fn matches, void *ctx, unsigned lines_left) {
  struct scan s = {.line = line, .matches = matches, .ctx = ctx, .lines_left = lines_left};
  return scan(&s);
}

bool tp__shell_line_any(tp_text line, tp__command_fn matches, void *ctx) {
  return scan_line(line, matches, ctx, LINES_MAX);
}

bool tp__shell_line_each(tp_text line, tp__shell_command_fn each, void *ctx) {
  struct scan s = {.line = line, .each = each, .ctx = ctx};
  return !scan(&s);
}
