/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/chat/prose.h"

#include <string.h>

#include "cli/common/visible.h"
#include "runtime/base/check.h"

typedef cli_prose prose;

/* ---- words ---- */

static void put_blanks(prose *p, size_t count) {
  p->column += count;
  while (count-- > 0) cli_print(p->output, " ", 1);
}

static void break_line(prose *p) {
  cli_print(p->output, "\n", 1);
  p->column = p->blanks = 0;
  put_blanks(p, p->indent);
}

/* The last column stays free, because a character there would leave the cursor between two lines. */
static bool column_fits(const prose *p, size_t columns) {
  return !p->width || p->block || p->column + columns < p->width;
}

static void end_word(prose *p) { p->word_size = p->word_columns = 0; }

/* A word is shown as it comes. */
static void add_bytes(prose *p, const char *bytes, size_t size, size_t columns) {
  if (p->word_size + size > sizeof p->word) end_word(p);
  if (columns > 0 && p->blanks > 0 && !column_fits(p, p->blanks + columns)) break_line(p);
  else if (columns > 0) put_blanks(p, p->blanks);
  if (columns > 0) p->blanks = 0;
  if (columns > 0 && !column_fits(p, columns)) {
    /* The word at the end of the line moves to the next line; a word that fills the whole line is continued there. */
    if (p->column - p->word_columns > p->indent && p->word_size > 0) {
      if (p->word_columns > 0) cli_printf(p->output, "\033[%zuD\033[K", p->word_columns);
      break_line(p);
      cli_print(p->output, p->word, p->word_size);
      p->column += p->word_columns;
    } else {
      break_line(p);
      end_word(p);
    }
  }
  cli_print(p->output, bytes, size);
  memcpy(p->word + p->word_size, bytes, size);
  p->word_size += size;
  p->word_columns += columns;
  p->column += columns;
}

/* ---- paints: they belong to the word, and take no column ---- */

static void add_paint(prose *p, const char *code) {
  if (!p->output->colour) return;
  if (p->word_size == 0 && column_fits(p, p->blanks)) { /* the blanks before it are not painted */
    put_blanks(p, p->blanks);
    p->blanks = 0;
  }
  add_bytes(p, code, strlen(code), 0);
}

/* All that holds now. */
static void paint(prose *p) {
  add_paint(p, "\033[0m");
  if (p->bold || p->heading) add_paint(p, "\033[1m");
  if (p->code || p->block) add_paint(p, "\033[36m");
}

/* ---- marks ---- */

/* Marks that came, as they stand. */
static void give_marks(prose *p) {
  for (; p->mark_count > 0; p->mark_count--) add_bytes(p, &p->mark, 1, 1);
  p->mark = '\0';
}

/* @param next  the character after them; 0: the end of the line. */
static void end_marks(prose *p, uint32_t next) {
  bool stands_apart = next == 0 || next == ' ';
  if (p->mark_count == 0) return;
  if (p->mark == '`' && p->mark_count >= 3 && !p->has_begun) {
    p->block = !p->block;
    p->is_fence = true;
    p->mark_count = 0;
    paint(p);
  } else if (p->block) {
    give_marks(p);
  } else if (p->mark == '`' && p->mark_count == 1) {
    p->code = !p->code;
    p->mark_count = 0;
    paint(p);
  } else if (p->mark == '*' && p->mark_count == 2 && !p->code && (p->bold || !stands_apart)) {
    p->bold = !p->bold;
    p->mark_count = 0;
    paint(p);
  } else if (p->mark == '*' && p->mark_count == 1 && !p->has_begun && next == ' ') {
    add_bytes(p, "\xE2\x80\xA2", 3, 1); /* a bullet */
    p->indent = p->blanks + 2;
    p->mark_count = 0;
  } else if (p->mark == '-' && p->mark_count == 1 && next == ' ') {
    add_bytes(p, "\xE2\x80\xA2", 3, 1);
    p->indent = p->blanks + 2;
    p->mark_count = 0;
  } else if (p->mark == '#' && p->mark_count <= 6 && next == ' ') {
    p->heading = true;
    p->mark_count = 0;
    paint(p);
    return; /* the blank after it is dropped; the heading begins there */
  }
  give_marks(p);
  p->mark = '\0';
  p->has_begun = true;
}

/* '#' and '-' only count at the beginning of a line. */
static bool is_mark(const prose *p, uint32_t code) {
  if (!p->marks || p->is_fence) return false;
  if (p->block) return code == '`' && !p->has_begun;
  return code == '*' || code == '`' || ((code == '#' || code == '-') && !p->has_begun);
}

/* ---- lines ---- */

static void end_line(prose *p) {
  end_marks(p, 0);
  if (p->heading) {
    p->heading = false;
    paint(p);
  }
  if (!p->block && (p->bold || p->code)) {
    p->bold = p->code = false; /* a mark that is not closed applies only to its line */
    paint(p);
  }
  p->indent = 0;
  end_word(p);
  if (!p->is_fence) cli_print(p->output, "\n", 1);
  p->column = p->blanks = 0;
  p->has_begun = p->is_fence = false;
}

static void put_code_point(prose *p, uint32_t code, const char *bytes, size_t size) {
  if (code == '\n') {
    end_line(p);
    return;
  }
  if (is_mark(p, code) && (p->mark_count == 0 || p->mark == (char)code)) {
    p->mark = (char)code;
    p->mark_count++;
    return;
  }
  bool was_heading = p->heading;
  end_marks(p, code);
  if (p->is_fence) return; /* the name of the language */
  if (code == ' ') {
    if (p->heading && !was_heading) return;
    end_word(p);
    p->blanks++;
    return;
  }
  p->has_begun = true;
  add_bytes(p, bytes, size, cli_visible_columns(code));
  bool is_wide = code >= 0x1100 && cli_visible_columns(code) == 2; /* a line may break after it */
  if (is_wide) end_word(p);
}

void cli_prose_put(prose *p, tp_text text) {
  for (size_t at = 0, size; at < text.size; at += size) {
    uint32_t code;
    cli_visibility visibility;
    size = cli_visible_step((tp_text){text.data + at, text.size - at}, &code, &visibility);
    put_code_point(p, code, text.data + at, size);
  }
}

bool cli_prose_end(prose *p) {
  end_marks(p, 0);
  bool is_painted = p->bold || p->code || p->heading || p->block;
  p->bold = p->code = p->heading = p->block = false;
  if (is_painted) paint(p);
  bool is_open = p->column > 0;
  *p = (prose){.output = p->output, .width = p->width, .marks = p->marks};
  return is_open;
}
