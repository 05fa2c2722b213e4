/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/think.h"

#include <string.h>

#include "runtime/base/check.h"

typedef tp__openai_think think;

enum { TAG_SIZE_MAX = 160 };

/* ---- tags ---- */

typedef enum tag_kind { NO_TAG, OPENS, CLOSES, IS_EMPTY, MAY_BE } tag_kind;

static const struct {
  const char *text;
  tag_kind kind;
} fixed_tags[] = {
    {"<|begin_of_thought|>", OPENS},
    {"<|end_of_thought|>", CLOSES},
    {"[THINK]", OPENS},
    {"[/THINK]", CLOSES},
    {"\xe2\x97\x81think\xe2\x96\xb7", OPENS},
    {"\xe2\x97\x81/think\xe2\x96\xb7", CLOSES},
};

static bool is_think_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_prefix_sign(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-'; }

/* Whether the letters are the name of a tag, or may become one. */
static tag_kind name_kind(tp_text letters, bool is_whole) {
  static const char *const names[] = {"think", "thinking", "thought", "thoughts", "reasoning"};
  tag_kind kind = NO_TAG;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t at = 0;
    while (at < letters.size && names[i][at] && (letters.data[at] | 0x20) == names[i][at]) at++;
    if (at < letters.size) continue;
    if (names[i][at] == '\0') return OPENS;
    if (!is_whole) kind = MAY_BE;
  }
  return kind;
}

static size_t skip_think_blanks(tp_text text, size_t at) {
  while (at < text.size && is_think_blank(text.data[at])) at++;
  return at;
}

/* <NAME …> and similar tags. @param ret_size  the size of the tag. */
static tag_kind angle_tag(tp_text text, size_t *ret_size) {
  size_t at = 1, begin;
  bool closes = at < text.size && text.data[at] == '/', empties = false;
  begin = at += closes;
  while (at < text.size && is_prefix_sign(text.data[at])) at++;
  if (at == text.size) return MAY_BE; /* a prefix may be anything */
  if (text.data[at] == ':' && at > begin) {
    begin = ++at;
    while (at < text.size && is_letter(text.data[at])) at++;
  }
  tag_kind kind = name_kind((tp_text){text.data + begin, at - begin}, at < text.size);
  if (kind != OPENS || at == text.size) return at == text.size && kind != NO_TAG ? MAY_BE : NO_TAG;
  size_t rest = skip_think_blanks(text, at);
  bool has_equals = false;
  if (rest > at) /* attributes */
    for (; rest < text.size && text.data[rest] != '>' && text.data[rest] != '<' && text.data[rest] != '\n'; rest++)
      has_equals = has_equals || text.data[rest] == '=';
  else
    while (rest < text.size && text.data[rest] == '/') rest++;
  if (rest == text.size) return MAY_BE;
  if (text.data[rest] != '>') return NO_TAG;
  empties = text.data[rest - 1] == '/';
  if (!has_equals && skip_think_blanks(text, at) + empties < rest) return NO_TAG; /* "<think about it>" */
  *ret_size = rest + 1;
  return closes ? CLOSES : empties ? IS_EMPTY : OPENS;
}

/* What the text begins with. */
static tag_kind tag_of(tp_text text, size_t *ret_size) {
  tag_kind kind = NO_TAG;
  assert(text.size > 0);
  for (size_t i = 0; i < sizeof fixed_tags / sizeof *fixed_tags; i++) {
    size_t size = strlen(fixed_tags[i].text), shared = size < text.size ? size : text.size;
    if (memcmp(fixed_tags[i].text, text.data, shared) != 0) continue;
    *ret_size = size;
    if (shared == size) return fixed_tags[i].kind;
    kind = MAY_BE;
  }
  if (text.data[0] != '<' || kind == MAY_BE) return kind;
  kind = angle_tag((tp_text){text.data, text.size < TAG_SIZE_MAX ? text.size : TAG_SIZE_MAX}, ret_size);
  return kind == MAY_BE && text.size >= TAG_SIZE_MAX ? NO_TAG : kind;
}

/* ---- what was decided ---- */

static void put_decided(think *t, tp__bytes *to, tp_text text) {
  tp__bytes_put_text(to, text);
  t->failed = t->failed || to->failed;
}

static void put_said(think *t, tp_text text) {
  if (!t->has_said) {
    size_t blanks = skip_think_blanks(text, 0);
    if (!t->has_block) put_decided(t, &t->blanks, (tp_text){text.data, blanks});
    if (blanks == text.size) return;
    text = (tp_text){text.data + blanks, text.size - blanks};
    t->has_said = true;
    if (t->blanks.size > 0) t->out(t->ctx, tp__bytes_text(&t->blanks), false);
    tp__bytes_clear(&t->blanks);
  }
  t->out(t->ctx, text, false);
}

static void think_it(think *t, tp_text text) {
  if (t->is_fresh) {
    size_t blanks = skip_think_blanks(text, 0);
    text = (tp_text){text.data + blanks, text.size - blanks};
  }
  if (text.size == 0) return;
  t->is_fresh = t->is_assumed = false;
  t->out(t->ctx, text, true);
}

static void take_decided(think *t, tp_text text) {
  if (text.size == 0) return;
  if (t->depth == 0) put_said(t, text);
  else if (t->is_undecided) put_decided(t, &t->after, text);
  else think_it(t, text);
}

static void begin_block(think *t) {
  t->has_block = t->is_fresh = true;
  t->depth = 1;
  t->blocks++;
  tp__bytes_clear(&t->blanks);
}

/* Handles a tag, which may turn out to be text. */
static void take_tag(think *t, tag_kind kind, tp_text tag) {
  assert(kind == OPENS || kind == CLOSES || kind == IS_EMPTY);
  if (t->depth == 0) {
    if (kind == CLOSES) {
      put_said(t, tag);
      return;
    }
    begin_block(t);
    if (kind == IS_EMPTY) t->depth = 0;
    return;
  }
  if (kind == CLOSES) {
    t->is_undecided = false;
    if (t->after.size > 0) think_it(t, tp__bytes_text(&t->after));
    tp__bytes_clear(&t->after);
  }
  if (kind == CLOSES && t->depth == 1) {
    t->depth = 0;
    t->is_assumed = false;
    return;
  }
  if (kind == OPENS && t->is_assumed) {
    t->is_assumed = false;
    return;
  }
  take_decided(t, tag);
  if (kind == OPENS) t->depth++;
  if (kind != CLOSES) return;
  t->depth--;
  t->is_undecided = true;
}

/* ---- the text ---- */

/* Code begins with some backticks and ends with as many; code within a line also ends with the line. */
static void end_ticks(think *t) {
  if (t->ticks == 0) return;
  if (t->code == 0) t->code = t->ticks;
  else if (t->code == t->ticks || (t->code >= 3 && t->ticks > t->code)) t->code = 0;
  t->ticks = 0;
}

static void follow_code(think *t, char c) {
  if (t->depth > 0) return;
  if (c == '`') {
    t->ticks++;
    return;
  }
  end_ticks(t);
  if (c == '\n' && t->code < 3) t->code = 0;
}

static bool may_begin_tag(char c) { return c == '<' || c == '[' || c == '\xe2'; }

/* @return how many bytes were decided. */
static size_t read_thinking(think *t, tp_text text, bool is_end) {
  size_t begin = 0, at = 0;
  while (at < text.size) {
    size_t size = 0;
    tag_kind kind = NO_TAG;
    if (may_begin_tag(text.data[at])) {
      if (t->depth == 0) end_ticks(t);
      if (t->depth > 0 || t->code == 0) kind = tag_of((tp_text){text.data + at, text.size - at}, &size);
    }
    if (kind == MAY_BE && !is_end) break;
    if (kind == NO_TAG || kind == MAY_BE) {
      follow_code(t, text.data[at++]);
      continue;
    }
    take_decided(t, (tp_text){text.data + begin, at - begin});
    take_tag(t, kind, (tp_text){text.data + at, size});
    begin = at += size;
  }
  take_decided(t, (tp_text){text.data + begin, at - begin});
  return at;
}

static void begin_text(think *t) {
  if (t->begun) return;
  t->begun = true;
  if (!t->begins_inside) return;
  begin_block(t);
  t->is_assumed = true;
}

void tp__openai_think_feed(think *t, tp_text piece) {
  assert(t->out && (piece.data || piece.size == 0));
  if (piece.size == 0 || t->failed) return;
  begin_text(t);
  if (t->held.size == 0) {
    size_t read = read_thinking(t, piece, false);
    put_decided(t, &t->held, (tp_text){piece.data + read, piece.size - read});
    return;
  }
  put_decided(t, &t->held, piece);
  if (t->failed) return;
  size_t read = read_thinking(t, tp__bytes_text(&t->held), false), rest = t->held.size - read;
  memmove(t->held.data, t->held.data + read, rest);
  t->held.size = rest;
}

void tp__openai_think_end(think *t) {
  if (t->failed) return;
  begin_text(t);
  if (t->held.size > 0) (void)read_thinking(t, tp__bytes_text(&t->held), true);
  tp__bytes_clear(&t->held);
  if (t->is_undecided) {
    t->depth = 0;
    t->is_undecided = false;
    if (t->after.size > 0) put_said(t, tp__bytes_text(&t->after));
    tp__bytes_clear(&t->after);
  }
  if (t->blanks.size > 0) t->out(t->ctx, tp__bytes_text(&t->blanks), false);
  tp__bytes_clear(&t->blanks);
}

void tp__openai_think_fini(think *t) {
  tp__bytes_fini(&t->held);
  tp__bytes_fini(&t->blanks);
  tp__bytes_fini(&t->after);
}
