/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_matcher.c: matchers of other hosts: exact names, alternatives, or a JavaScript regular expression that is not
 * anchored. The latter are rewritten as POSIX extended ones; what these cannot do is refused, never guessed. */
#include <stdio.h>
#include <string.h>

#include "domains/declared/hook_protocol.h"

enum { REGEX_BYTES_MAX = 255, POSIX_SIZE = 16 * REGEX_BYTES_MAX, NAME_SIZE = 512 };

typedef struct rewriter {
  const char *at;
  char posix[POSIX_SIZE];
  size_t used;
  unsigned depth; /* groups that are open */
  bool repeats;   /* what was written last can be repeated */
  const char *why;
} rewriter;

static void put(rewriter *r, const char *text, size_t size) {
  memcpy(r->posix + r->used, text, size); /* an item of the expression becomes 15 bytes at most */
  r->used += size;
}

static void put_string(rewriter *r, const char *text) { put(r, text, strlen(text)); }

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void refuse(rewriter *r, const char *why) { r->why = why; }

/* Behind a backslash. */
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
  if (c == '\0') refuse(r, "it ends with a backslash");
  else if (is_word(c) && r->repeats)
    refuse(r, "of escapes with a letter or digit only \\b \\B \\d \\D \\s \\S \\w \\W are known");
  else if (strchr("/-,:;=!<>@#%&~'\"` ", c)) put(r, &c, 1); /* stands for itself, also without the backslash */
  else put(r, (char[]){'\\', c}, 2);
}

/* A backslash in brackets stands for itself in POSIX. */
static void rewrite_class_escape(rewriter *r) {
  char c = *r->at++;
  if (c == 'd') put_string(r, "0-9");
  else if (c == 'w') put_string(r, "A-Za-z0-9_");
  else if (c == 's') put_string(r, "[:space:]");
  else if (c == '\0' || is_word(c) || strchr("\\]^-[", c))
    refuse(r,
           "of escapes in brackets only \\d \\s \\w and those "
           "of punctuation are known");
  else put(r, &c, 1);
}

/* Behind an opening bracket. */
static void rewrite_class(rewriter *r) {
  put(r, "[", 1);
  if (*r->at == '^') put(r, r->at++, 1);
  if (*r->at == ']') refuse(r, "brackets are empty");
  while (!r->why && *r->at != ']') {
    char c = *r->at++;
    if (c == '\0') {
      refuse(r, "a bracket is not closed");
      return;
    }
    if (c == '\\') rewrite_class_escape(r);
    else if (c == '[' && strchr(".:=", *r->at)) refuse(r, "[. [: and [= in brackets are not known");
    else put(r, &c, 1);
  }
  if (r->why) return;
  put(r, r->at++, 1);
  r->repeats = true;
}

static void rewrite_group(rewriter *r) {
  r->depth++;
  put(r, "(", 1);
  r->repeats = false;
  if (*r->at != '?') return;
  if (r->at[1] == ':') r->at += 2;
  else refuse(r, "of groups with (? only (?: is known");
}

static void rewrite_repeat(rewriter *r, char c) {
  if (!r->repeats) {
    refuse(r, "there is nothing to repeat: for any name leave the matcher out, for a glob write .* for *");
    return;
  }
  put(r, &c, 1);
  if (*r->at == '?') r->at++; /* lazy: whether it fits is the same */
  r->repeats = false;
}

static void rewrite_one(rewriter *r) {
  char c = *r->at++;
  if (c == '\\') rewrite_escape(r);
  else if (c == '[') rewrite_class(r);
  else if (c == '(') rewrite_group(r);
  else if (c == '*' || c == '+' || c == '?') rewrite_repeat(r, c);
  else if (c == ')' && r->depth-- == 0) refuse(r, "a group is closed that was not opened");
  else if (c == '{' || c == '}') refuse(r, "counted repetition is not known: write it out");
  else {
    put(r, &c, 1);
    r->repeats = c != '|' && c != '^' && c != '$';
  }
}

static bool is_exact(const char *text) {
  for (; *text; text++)
    if (!is_word(*text) && !strchr("- ,|", *text)) return false;
  return true;
}

bool tp__matcher_init(tp__matcher *matcher, const char *text, const char **ret_why) {
  *matcher = (tp__matcher){0};
  if (text[0] == '\0' || strcmp(text, "*") == 0) return true;
  matcher->text = text;
  if (is_exact(text)) return true;
  rewriter r = {.at = text};
  if (strlen(text) > REGEX_BYTES_MAX) r.why = "it is longer than 255 bytes";
  while (!r.why && *r.at) rewrite_one(&r);
  r.posix[r.used] = '\0';
  if (!r.why && regcomp(&matcher->regex, r.posix, REG_EXTENDED | REG_NOSUB) != 0) r.why = "it is not well formed";
  if (r.why) *ret_why = r.why;
  else matcher->is_regex = true;
  return !r.why;
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

/* Names between "|" and ",", without the blanks around them. */
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

static bool fits(const tp__matcher *matcher, tp_text name) {
  if (name.size == 0) return false;
  return matcher->is_regex ? regex_fits(matcher, name) : list_fits(matcher->text, name);
}

/* The tool that starts a subagent has had two names, and matchers in use have either. */
bool tp__matcher_fits(const tp__matcher *matcher, tp_text name) {
  if (!matcher->text || fits(matcher, name)) return true;
  if (tp__is_word(name, "Agent")) return fits(matcher, tp_text_of("Task"));
  return tp__is_word(name, "Task") && fits(matcher, tp_text_of("Agent"));
}
