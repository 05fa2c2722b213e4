/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/declared/shell_line.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "support/text.h"

enum { WORDS_MAX = 64, LINES_MAX = 8, DOCUMENTS_MAX = 4, STACK_BYTES = 1024 };

/* The state of a scan, which handles one command at a time: its words are in `bytes`, one after the other, each
 * followed by a space. A substitution, a document and a line within a word each have a scan of their own. */
struct scan {
  tp_text line;
  size_t at;
  char *bytes; /* size: the bytes of the line, and one more for each word */
  size_t size, word_count;
  size_t begins[WORDS_MAX + 1]; /* of the words */
  uint64_t braces;              /* a bit for each word with an unquoted { */
  bool in_word, skips_word;     /* the next word is the target of a redirection */
  bool is_line;                 /* the next word is one: <<< */
  bool is_quoted;               /* inside of double quotes */
  bool is_text;                 /* the lines are those of a document, in which quotes have no meaning */
  bool is_inside, is_at_end;    /* for a substitution, which ends at its parenthesis */
  size_t parens, cases;         /* how many are open: a pattern of `case` ends at a parenthesis, too */
  size_t mark_at;               /* where the mark of a document begins, after its <<; 0: there is none */
  tp_text marks[DOCUMENTS_MAX]; /* of documents that begin with the next line, as they are written */
  size_t mark_count;
  tp__command_fn matches;    /* NULL: each is called instead */
  tp__shell_command_fn each; /* its words include the targets of redirections */
  uint64_t inputs, outputs;
  void *ctx;
  unsigned lines_left; /* how many more levels of nested lines are allowed */
  bool found;          /* also set when it cannot be decided: nested too deep, or no memory */
};

static bool scan(struct scan *s);

/* A line in this one. */
static struct scan begin_inner(const struct scan *s, tp_text line) {
  return (struct scan){
      .line = line, .matches = s->matches, .each = s->each, .ctx = s->ctx, .lines_left = s->lines_left - 1};
}

static bool scan_inner(const struct scan *s, tp_text line) {
  struct scan inner = begin_inner(s, line);
  return s->lines_left == 0 || scan(&inner);
}

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

/* A word of the shell's grammar before a command. */
static bool is_reserved(tp_text word) { return tp__is_one_of(word, "! { } if then elif else do while until"); }

bool tp__shell_is_shell(tp_text program) { return tp__is_one_of(program, "sh bash dash zsh ksh ash fish"); }

bool tp__shell_is_wrapper(tp_text program) {
  static const char wrappers[] =
      "sudo doas env nice ionice nohup setsid stdbuf xargs timeout exec command builtin chroot time busybox find "
      "parallel flock watch su script unshare systemd-run strace ltrace valgrind uv uvx npx pnpm yarn bunx npm poetry "
      "pipx pdm rye hatch pipenv direnv dotenv op doppler nix-shell mise asdf corepack run dlx";
  return tp__is_one_of(program, wrappers);
}

bool tp__shell_option_has_value(tp_text option) {
  return tp__is_one_of(option, "-o +o -O +O --rcfile --init-file -eo -euo");
}

static bool asks(const struct scan *s, size_t first) {
  size_t begin = s->begins[first];
  tp_text words = {s->bytes + begin, s->size - begin - 1}, program = word_at(s, first);
  if (s->matches(s->ctx, words)) return true;
  size_t folders = (size_t)(without_folders(program).data - program.data);
  return folders > 0 && s->matches(s->ctx, (tp_text){words.data + folders, words.size - folders});
}

/* An option -c, or letters with a c among them: the first word that is no option is a line. */
static bool runs_line(const struct scan *s, size_t first) {
  bool is_line = false;
  for (size_t i = first + 1; i < s->word_count; i++) {
    tp_text word = word_at(s, i);
    bool is_option = word.size > 1 && (word.data[0] == '-' || word.data[0] == '+');
    if (!is_option) return is_line && scan_inner(s, word);
    is_line = is_line || (word.data[0] == '-' && word.data[1] != '-' && memchr(word.data, 'c', word.size));
    i += tp__shell_option_has_value(word);
  }
  return false;
}

/* The word stands for all words beyond the counted ones, or the shell makes several words of it: {git,push}. */
static bool is_unclear(const struct scan *s, size_t index) {
  tp_text word = word_at(s, index);
  return index == WORDS_MAX - 1 || ((s->braces >> index & 1) && memchr(word.data, ',', word.size));
}

/* The wrapper's options are not known. So each word after it may be the program, and a word with blanks may be a
 * line. */
static bool has_program(const struct scan *s, size_t first, bool has_lines);

static bool command_matches(const struct scan *s, size_t first) {
  if (first >= s->word_count) return false;
  if (is_unclear(s, first) || asks(s, first)) return true;
  tp_text program = without_folders(word_at(s, first));
  if (tp__shell_is_shell(program)) return runs_line(s, first);
  if (tp__is_word(program, "trap")) return first + 1 < s->word_count && scan_inner(s, word_at(s, first + 1));
  if (tp__is_word(program, "eval") && first + 1 < s->word_count) {
    size_t begin = s->begins[first + 1];
    return scan_inner(s, (tp_text){s->bytes + begin, s->size - begin - 1});
  }
  if (!tp__shell_is_wrapper(program) && !tp__is_one_of(program, "coproc function")) return false;
  return has_program(s, first + 1, tp__is_one_of(program, "env flock nix-shell npx parallel script su watch"));
}

static bool has_program(const struct scan *s, size_t first, bool has_lines) {
  for (size_t i = first; i < s->word_count; i++) {
    tp_text word = word_at(s, i);
    if (command_matches(s, i)) return true;
    if (has_lines && memchr(word.data, ' ', word.size) && scan_inner(s, word)) return true;
  }
  return false;
}

/* ---- words ---- */

static void end_word(struct scan *s) {
  if (!s->in_word) return;
  s->in_word = false;
  if (s->mark_at > 0) {
    /* The mark of a document: from its << to the end of the word. */
    assert(s->mark_at <= s->line.size);
    size_t end = s->at < s->line.size ? s->at : s->line.size; /* it may end with a quote that is open */
    tp_text mark = {s->line.data + s->mark_at, end > s->mark_at ? end - s->mark_at : 0};
    s->mark_at = 0;
    s->skips_word = true;
    if (s->mark_count < DOCUMENTS_MAX) s->marks[s->mark_count++] = mark;
    else s->found = true;
  }
  if (s->is_line) {
    /* The document is read by a shell, if a shell is among the words before it. */
    size_t begin = s->begins[s->word_count];
    bool has_shell = s->word_count == 0;
    s->is_line = false;
    for (size_t i = 0; i < s->word_count; i++) {
      tp_text word = {s->bytes + s->begins[i], s->begins[i + 1] - s->begins[i] - 1};
      has_shell = has_shell || tp__shell_is_shell(without_folders(word));
    }
    if (has_shell) s->found = s->found || scan_inner(s, (tp_text){s->bytes + begin, s->size - begin});
  }
  if (s->skips_word) {
    s->size = s->begins[s->word_count];
    s->skips_word = false;
  } else {
    s->bytes[s->size++] = ' ';
    s->word_count++;
  }
}

static void end_command(struct scan *s) {
  size_t first = 0;
  end_word(s);
  while (first < s->word_count && first < WORDS_MAX - 1 &&
         (is_reserved(word_at(s, first)) || is_assignment(word_at(s, first))))
    first++;
  if (first < s->word_count) {
    s->cases += tp__is_word(word_at(s, first), "case");
    s->cases -= s->cases > 0 && tp__is_word(word_at(s, first), "esac");
  }
  if (s->each) {
    tp_text words[WORDS_MAX];
    tp__shell_command command = {.words = words, .count = s->word_count, .inputs = s->inputs, .outputs = s->outputs};
    for (size_t i = 0; i < s->word_count; i++) words[i] = word_at(s, i);
    if (s->word_count > 0) s->each(s->ctx, &command);
  } else s->found = s->found || command_matches(s, first);
  s->size = s->word_count = 0;
  s->inputs = s->outputs = s->braces = 0;
  s->skips_word = s->is_line = false;
  s->mark_at = 0;
}

/* All words beyond the counted ones are one word. */
static void begin_word(struct scan *s) {
  if (s->in_word) return;
  s->in_word = true;
  if (s->word_count == WORDS_MAX) s->word_count--;
  else s->begins[s->word_count] = s->size;
}

static void add_word_byte(struct scan *s, char byte) {
  begin_word(s);
  s->bytes[s->size++] = byte;
}

static char peek(const struct scan *s, size_t ahead) {
  return s->at + ahead < s->line.size ? s->line.data[s->at + ahead] : '\0';
}

/* ---- quotes ---- */

static unsigned digit_of(char c) {
  if (c >= '0' && c <= '9') return (unsigned)(c - '0');
  c |= 32;
  return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : UINT_MAX;
}

/* An escape in $'…': a letter, or a number in base 8 or 16. Ends at its last byte. */
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
    add_word_byte(s, c == '\\' ? take_escape(s) : c);
  }
}

/* ---- lines in the line ---- */

/* What a substitution becomes is not known. */
static void add_unknown(struct scan *s) {
  for (const char *c = TP__SHELL_UNKNOWN; *c; c++) add_word_byte(s, *c);
}

/* From its parenthesis to the other one. */
static void take_substitution(struct scan *s) {
  assert(s->line.data[s->at] == '(');
  struct scan inner = begin_inner(s, s->line);
  inner.at = s->at + 1;
  inner.is_inside = true;
  add_unknown(s);
  s->found = s->found || s->lines_left == 0 || scan(&inner);
  s->at = inner.at;
}

/* Whether a line of a document is its mark; quotes of the mark do not count. */
static bool is_mark(tp_text line, tp_text mark) {
  bool strips_tabs = mark.size > 0 && mark.data[0] == '-';
  size_t at = 0, end = line.size;
  while (strips_tabs && at < end && line.data[at] == '\t') at++;
  end -= end > at && line.data[end - 1] == '\r';
  for (size_t i = strips_tabs; i < mark.size; i++) {
    if (strchr("\"'\\ \t", mark.data[i])) continue;
    if (at == end || line.data[at++] != mark.data[i]) return false;
  }
  return at == end;
}

/* Takes a document up to its mark. A shell may read the document. If the mark is not quoted, substitutions in it are
 * executed. */
static void take_document(struct scan *s, tp_text mark) {
  size_t begin = s->at + 1, end = begin, next = begin;
  bool is_end = begin >= s->line.size, is_literal = false;
  for (size_t i = 0; i < mark.size; i++) is_literal = is_literal || strchr("\"'\\", mark.data[i]);
  while (!is_end) {
    const char *newline = memchr(s->line.data + next, '\n', s->line.size - next);
    end = next;
    next = newline ? (size_t)(newline - s->line.data) : s->line.size;
    is_end = is_mark((tp_text){s->line.data + end, next - end}, mark);
    if (!is_end && !newline) end = next;
    is_end = is_end || !newline;
    if (!is_end) next++;
  }
  tp_text text = {s->line.data + begin, end > begin ? end - begin : 0};
  struct scan inner = begin_inner(s, text);
  inner.is_text = inner.is_quoted = true;
  s->found = s->found || scan_inner(s, text) || (!is_literal && scan(&inner));
  s->at = next; /* the newline after the mark */
}

/* ---- bytes ---- */

/* For 2> and {name}>: the text before the > is no word. */
static void drop_descriptor(struct scan *s) {
  size_t begin = s->begins[s->word_count], at = begin;
  bool is_name = s->size > begin + 2 && s->bytes[begin] == '{' && s->bytes[s->size - 1] == '}';
  while (at < s->size && s->bytes[at] >= '0' && s->bytes[at] <= '9') at++;
  if (!s->in_word || (at < s->size && !is_name)) return;
  s->size = begin;
  s->in_word = false;
  s->braces &= ~((uint64_t)is_name << s->word_count);
}

/* For 2>, >>, <, >|, &>: the next word is no argument. <( and >( are substitutions, << begins a document. */
static void take_redirection(struct scan *s, char c) {
  if (peek(s, 1) == '(') {
    s->at++;
    take_substitution(s);
    return;
  }
  bool is_double = c == '<' && peek(s, 1) == '<', is_here_string = is_double && peek(s, 2) == '<';
  if (s->word_count < WORDS_MAX) drop_descriptor(s);
  end_word(s);
  s->skips_word = true;
  if (s->each) {
    /* If the caller wants the targets, the next word is one. */
    uint64_t bit = s->word_count < WORDS_MAX ? (uint64_t)1 << s->word_count : 0;
    bool is_text = c == '<' && peek(s, 1) != '\0' && strchr("<&", peek(s, 1));
    if (c == '<' && peek(s, 1) != '>') s->inputs |= is_text ? 0 : bit;
    else s->outputs |= bit;
    s->skips_word = is_text;
  }
  while (peek(s, 1) && strchr("<>&|", peek(s, 1))) s->at++;
  s->is_line = is_here_string;
  if (is_double && !is_here_string) s->mark_at = s->at + 1;
}

static void take_plain(struct scan *s, char c) {
  if (c == '\'') {
    begin_word(s);
    for (s->at++; s->at < s->line.size && s->line.data[s->at] != '\''; s->at++) add_word_byte(s, s->line.data[s->at]);
  } else if (c == '\n') {
    end_command(s);
    for (size_t i = 0; i < s->mark_count; i++) take_document(s, s->marks[i]);
    s->mark_count = 0;
  } else if (c == '(' || c == ')') {
    end_command(s);
    if (c == '(') s->parens++;
    else if (s->parens > 0) s->parens--;
    else s->is_at_end = s->is_inside && s->cases == 0;
  } else if (c == ';' || c == '|' || (c == '&' && peek(s, 1) != '>')) end_command(s);
  else if (c == ' ' || c == '\t' || c == '\r') end_word(s);
  else if (c == '<' || c == '>') take_redirection(s, c);
  else if (c == '#' && !s->in_word)
    while (s->at + 1 < s->line.size && s->line.data[s->at + 1] != '\n') s->at++;
  else if (c != '&') {
    add_word_byte(s, c);
    if (c == '{') s->braces |= (uint64_t)1 << s->word_count;
  }
}

static void take_shell_byte(struct scan *s) {
  char c = s->line.data[s->at];
  if (c == '\\') {
    s->at++;
    if (peek(s, 0) != '\n' && s->at < s->line.size) add_word_byte(s, peek(s, 0));
  } else if (c == '"' && !s->is_text) {
    s->is_quoted = !s->is_quoted;
    begin_word(s);
  } else if (c == '`') {
    /* An escape within backquotes belongs to the line in them. */
    size_t size = 0;
    char *line = malloc(s->line.size + 1);
    add_unknown(s);
    for (s->at++; line && s->at < s->line.size && s->line.data[s->at] != '`'; s->at++) {
      if (s->line.data[s->at] == '\\' && peek(s, 1) && strchr(s->is_quoted ? "$`\\\"" : "$`\\", peek(s, 1))) s->at++;
      line[size++] = s->line.data[s->at];
    }
    s->found = s->found || !line || scan_inner(s, (tp_text){line, size});
    free(line);
  } else if (c == '$' && peek(s, 1) == '(') {
    s->at++;
    take_substitution(s);
  } else if (s->is_quoted) {
    add_word_byte(s, c);
  } else if (c == '$' && peek(s, 1) == '\'') {
    take_escaped_quotes(s);
  } else if (c != '$' || peek(s, 1) != '"') {
    take_plain(s, c);
  }
}

static bool scan(struct scan *s) {
  char stack[STACK_BYTES];
  size_t needed = 2 * (s->line.size - s->at) + 4; /* a word of one byte has a space after it */
  s->bytes = needed <= sizeof stack ? stack : malloc(needed);
  if (!s->bytes) return true;
  for (; s->at < s->line.size && !s->found; s->at++) {
    take_shell_byte(s);
    if (s->is_at_end) break;
  }
  if (!s->found && !s->is_text) end_command(s);
  if (s->bytes != stack) free(s->bytes);
  return s->found;
}

bool tp__shell_line_any(tp_text line, tp__command_fn matches, void *ctx) {
  struct scan s = {.line = line, .matches = matches, .ctx = ctx, .lines_left = LINES_MAX};
  return scan(&s);
}

bool tp__shell_line_each(tp_text line, tp__shell_command_fn each, void *ctx) {
  struct scan s = {.line = line, .each = each, .ctx = ctx, .lines_left = LINES_MAX};
  return !scan(&s);
}
