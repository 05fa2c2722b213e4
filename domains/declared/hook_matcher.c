/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_matcher.c: matchers of other hosts: exact names, alternatives, or a JavaScript regular expression that is not
 * anchored. Regular expressions are rewritten as POSIX extended ones. If that is not possible, the matcher is refused,
 * never approximated. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "domains/declared/hook_protocol.h"

enum { NAME_SIZE = 512, COUNT_MAX = 255, COUNTS_MAX = 1024 };

typedef struct rewriter {
  const char *at;
  char *posix;
  size_t used;
  unsigned depth;                        /* how many groups are open */
  bool repeats;                          /* the last written item can be repeated */
  bool is_counted;                       /* that item has a counted repetition in it */
  bool counted[TP__REGEX_BYTES_MAX + 1]; /* by depth: whether the open group contains a counted repetition */
  unsigned counts; /* the sum of all repetition counts, with which the compiled expression grows */
  const char *why;
} rewriter;

static void put_posix(rewriter *r, const char *text, size_t size) {
  memcpy(r->posix + r->used, text, size); /* an item of the expression becomes at most 15 bytes */
  r->used += size;
}

static void put_string(rewriter *r, const char *text) { put_posix(r, text, strlen(text)); }

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void refuse_pattern(rewriter *r, const char *why) { r->why = why; }

/* After a backslash. */
static void rewrite_escape(rewriter *r) {
  static const struct {
    char letter;
    const char *posix;
  } classes[] = {{'d', "[0-9]"},         {'D', "[^0-9]"},      {'w', "[A-Za-z0-9_]"},
                 {'W', "[^A-Za-z0-9_]"}, {'s', "[[:space:]]"}, {'S', "[^[:space:]]"}};
  char c = *r->at++;
  r->repeats = c != 'b' && c != 'B';
  for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
    if (classes[i].letter != c) continue;
    put_string(r, classes[i].posix);
    return;
  }
  if (c == '\0') refuse_pattern(r, "it ends with a backslash");
  else if (is_word(c) && r->repeats)
    refuse_pattern(r, "of escapes with a letter or digit only \\b \\B \\d \\D \\s \\S \\w \\W are known");
  /* the character itself, with or without the backslash */
  else if (strchr("/-,:;=!<>@#%&~'\"` ", c)) put_posix(r, &c, 1);
  else put_posix(r, (char[]){'\\', c}, 2);
}

/* In POSIX a backslash in brackets is an ordinary character. */
static void rewrite_class_escape(rewriter *r) {
  char c = *r->at++;
  if (c == 'd') put_string(r, "0-9");
  else if (c == 'w') put_string(r, "A-Za-z0-9_");
  else if (c == 's') put_string(r, "[:space:]");
  else if (c == '\0' || is_word(c) || strchr("\\]^-[", c))
    refuse_pattern(r,
                   "of escapes in brackets only \\d \\s \\w and those "
                   "of punctuation are known");
  else put_posix(r, &c, 1);
}

/* After an opening bracket. */
static void rewrite_class(rewriter *r) {
  put_posix(r, "[", 1);
  if (*r->at == '^') put_posix(r, r->at++, 1);
  if (*r->at == ']') refuse_pattern(r, "brackets are empty");
  while (!r->why && *r->at != ']') {
    char c = *r->at++;
    if (c == '\0') {
      refuse_pattern(r, "a bracket is not closed");
      return;
    }
    if (c == '\\') rewrite_class_escape(r);
    else if (c == '[' && strchr(".:=", *r->at)) refuse_pattern(r, "[. [: and [= in brackets are not known");
    else put_posix(r, &c, 1);
  }
  if (r->why) return;
  put_posix(r, r->at++, 1);
  r->repeats = true;
}

static void rewrite_group(rewriter *r) {
  r->counted[++r->depth] = false;
  put_posix(r, "(", 1);
  r->repeats = false;
  if (*r->at != '?') return;
  if (r->at[1] == ':') r->at += 2;
  else refuse_pattern(r, "of groups with (? only (?: is known");
}

static void rewrite_repeat(rewriter *r, char c) {
  if (!r->repeats) {
    refuse_pattern(r, "there is nothing to repeat: for any name leave the matcher out, for a glob write .* for *");
    return;
  }
  put_posix(r, &c, 1);
  if (*r->at == '?') r->at++; /* a lazy repetition matches the same names */
  r->repeats = false;
}

/* Reads a number. @return above COUNT_MAX: there is none, or it is too large. */
static unsigned read_count(rewriter *r) {
  unsigned number = 0, digits = 0;
  for (; *r->at >= '0' && *r->at <= '9'; r->at++, digits++)
    if (number <= COUNT_MAX) number = 10 * number + (unsigned)(*r->at - '0');
  return digits > 0 ? number : COUNT_MAX + 1;
}

/* After an opening brace: {2}, {2,} or {2,5}. */
static void rewrite_count(rewriter *r) {
  char count[16];
  unsigned least = read_count(r), most = least;
  bool is_open = false;
  if (*r->at == ',') {
    r->at++;
    is_open = *r->at == '}';
    most = is_open ? least : read_count(r);
  }
  if (least > COUNT_MAX || most > COUNT_MAX || most < least || most == 0 || *r->at != '}') {
    refuse_pattern(
        r,
        "a counted repetition is {2}, {2,} or {2,5}, with numbers up to 255; before a brace itself write a backslash");
    return;
  }
  if (!r->repeats) refuse_pattern(r, "there is nothing to repeat");
  else if (r->is_counted) refuse_pattern(r, "a counted repetition is in another one: write one of them out");
  else if ((r->counts += most) > COUNTS_MAX) refuse_pattern(r, "its counted repetitions add up to more than 1,024");
  if (r->why) return;
  r->at++;
  if (*r->at == '?') r->at++;
  if (is_open) snprintf(count, sizeof count, "{%u,}", least);
  else snprintf(count, sizeof count, "{%u,%u}", least, most);
  put_string(r, count);
  r->repeats = false;
  r->counted[r->depth] = true;
}

static void close_group(rewriter *r) {
  if (r->depth == 0) {
    refuse_pattern(r, "a group is closed that was not opened");
    return;
  }
  assert(r->depth <= TP__REGEX_BYTES_MAX);
  bool is_counted = r->counted[r->depth--];
  r->counted[r->depth] |= is_counted;
  put_posix(r, ")", 1);
  r->repeats = true;
  r->is_counted = is_counted;
}

static void rewrite_one(rewriter *r) {
  char c = *r->at++;
  bool is_group = c == ')', is_count = c == '{';
  if (!is_group && !is_count) r->is_counted = false;
  if (c == '\\') rewrite_escape(r);
  else if (c == '[') rewrite_class(r);
  else if (c == '(') rewrite_group(r);
  else if (c == '*' || c == '+' || c == '?') rewrite_repeat(r, c);
  else if (is_group) close_group(r);
  else if (is_count) rewrite_count(r);
  else if (c == '}')
    refuse_pattern(r, "a brace is closed that was not opened: before a brace itself write a backslash");
  else {
    put_posix(r, &c, 1);
    r->repeats = c != '|' && c != '^' && c != '$';
  }
}

static bool is_exact(const char *text) {
  for (; *text; text++)
    if (!is_word(*text) && !strchr("- ,|", *text)) return false;
  return true;
}

const char *tp__regex_rewrite(const char *text, char ret_posix[TP__POSIX_SIZE]) {
  rewriter r = {.at = text, .posix = ret_posix};
  if (strlen(text) > TP__REGEX_BYTES_MAX) r.why = "it is longer than 255 bytes";
  while (!r.why && *r.at) rewrite_one(&r);
  r.posix[r.used] = '\0';
  return r.why;
}

bool tp__matcher_init(tp__matcher *matcher, const char *text, const char **ret_why) {
  *matcher = (tp__matcher){0};
  if (text[0] == '\0' || strcmp(text, "*") == 0) return true;
  matcher->text = text;
  if (is_exact(text)) return true;
  char posix[TP__POSIX_SIZE];
  const char *why = tp__regex_rewrite(text, posix);
  if (!why && regcomp(&matcher->regex, posix, REG_EXTENDED | REG_NOSUB) != 0) why = "it is not well formed";
  if (why) *ret_why = why;
  else matcher->is_regex = true;
  return !why;
}

void tp__matcher_fini(tp__matcher *matcher) {
  if (matcher->is_regex) regfree(&matcher->regex);
}

static bool regex_fits(const tp__matcher *matcher, tp_text name) {
  char text[NAME_SIZE];
  if (name.size >= sizeof text || memchr(name.data, '\0', name.size)) return false;
  memcpy(text, name.data, name.size);
  text[name.size] = '\0';
  return regexec(&matcher->regex, text, 0, NULL, 0) == 0;
}

/* Names separated by "|" or ",", without the blanks around them. */
static bool list_fits(const char *list, tp_text name) {
  while (*list) {
    size_t size = strcspn(list, "|,"), first = strspn(list, " ");
    size_t last = size;
    if (first > size) first = size;
    while (last > first && list[last - 1] == ' ') last--;
    if (last - first == name.size && memcmp(list + first, name.data, name.size) == 0) return true;
    list += size + (list[size] != '\0');
  }
  return false;
}

static bool matcher_fits(const tp__matcher *matcher, tp_text name) {
  if (name.size == 0) return false;
  return matcher->is_regex ? regex_fits(matcher, name) : list_fits(matcher->text, name);
}

/* The tool that starts a subagent has had two names, and existing matchers use either. */
bool tp__matcher_fits(const tp__matcher *matcher, tp_text name) {
  if (!matcher->text || matcher_fits(matcher, name)) return true;
  if (tp__is_word(name, "Agent")) return matcher_fits(matcher, tp_text_of("Task"));
  return tp__is_word(name, "Task") && matcher_fits(matcher, tp_text_of("Agent"));
}
