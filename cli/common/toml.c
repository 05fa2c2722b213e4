/* SPDX-License-Identifier: Apache-2.0
 *
 * toml.c: reads TOML 1.0 into a value. It first builds a tree of nodes, because several places of the text may add to a
 * table. Then it writes the tree, because the writer needs counts first. */
#include "cli/common/toml.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/pool.h"
#include "runtime/base/check.h"
#include "support/fault.h"
#include "support/text.h"

enum { DEPTH_MAX = 32, NUMBER_SIZE = 128 };

typedef enum node_kind { MAP, ARRAY, TEXT, INT, DOUBLE, BOOL } node_kind;

typedef struct node {
  struct node *next, *all; /* in what it belongs to; of the reader */
  struct node *first, *last;
  size_t count;
  tp_text key, text;
  node_kind kind;
  bool is_header;   /* a table with a header of its own */
  bool is_dotted;   /* the table was made by dotted keys, so no header may add to it */
  bool is_closed;   /* written as one value: nothing adds to it */
  bool is_of_items; /* an array of tables */
  int64_t number;   /* of BOOL, too */
  double real;
} node;

typedef struct reader {
  tp_text text;
  const char *at, *end;
  node *all;
  cli_pool pool;
  tp_fault *fault;
  unsigned depth;
} reader;

/* ---- what is wrong ---- */

static tp_status refuse_here(reader *r, const char *at, const char *why) {
  tp__place place = tp__place_of(r->text, (size_t)(at - r->text.data));
  return tp__refuse_at(r->fault, TP_ERR_MALFORMED, NULL, place, "%s", why);
}

static node *new_node(reader *r, node_kind kind) {
  node *made = cli_alloc(sizeof *made);
  made->kind = kind;
  made->all = r->all;
  r->all = made;
  return made;
}

static void add_node(node *parent, node *child) {
  if (parent->last) parent->last->next = child;
  else parent->first = child;
  parent->last = child;
  parent->count++;
}

static node *find_node(const node *map, tp_text key) {
  node *each = map->first;
  while (each && !tp_text_equal(each->key, key)) each = each->next;
  return each;
}

static node *add_keyed(reader *r, node *map, tp_text key, node_kind kind) {
  node *made = new_node(r, kind);
  made->key = key;
  add_node(map, made);
  return made;
}

/* ---- characters ---- */

static bool is_at(const reader *r, const char *word) {
  size_t size = strlen(word);
  return (size_t)(r->end - r->at) >= size && memcmp(r->at, word, size) == 0;
}

static bool take(reader *r, const char *word) {
  if (!is_at(r, word)) return false;
  r->at += strlen(word);
  return true;
}

static void skip_blanks(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t')) r->at++;
}

static bool take_newline(reader *r) { return take(r, "\n") || take(r, "\r\n"); }

static bool is_control(char c) { return ((unsigned char)c < ' ' && c != '\t') || c == 0x7f; }

static tp_status skip_comment(reader *r) {
  if (!take(r, "#")) return TP_OK;
  for (; r->at < r->end && *r->at != '\n' && !is_at(r, "\r\n"); r->at++)
    if (is_control(*r->at)) return refuse_here(r, r->at, "a comment has a control character in it");
  return TP_OK;
}

static tp_status end_line(reader *r) {
  skip_blanks(r);
  tp_status status = skip_comment(r);
  if (status != TP_OK || r->at == r->end || take_newline(r)) return status;
  return refuse_here(r, r->at, "the line goes on behind its value: one key and value a line");
}

/* Skips blanks, line ends and comments in an array. */
static tp_status skip_space(reader *r) {
  for (const char *before = NULL; before != r->at;) {
    before = r->at;
    skip_blanks(r);
    tp_status status = skip_comment(r);
    if (status != TP_OK) return status;
    take_newline(r);
  }
  return TP_OK;
}

/* ---- texts ---- */

static void put_code_point(tp__bytes *bytes, uint32_t c) {
  char text[4];
  size_t size = 0;
  if (c < 0x80) {
    text[size++] = (char)c;
  } else if (c < 0x800) {
    text[size++] = (char)(0xc0 | c >> 6);
  } else if (c < 0x10000) {
    text[size++] = (char)(0xe0 | c >> 12);
    text[size++] = (char)(0x80 | (c >> 6 & 0x3f));
  } else {
    text[size++] = (char)(0xf0 | c >> 18);
    text[size++] = (char)(0x80 | (c >> 12 & 0x3f));
    text[size++] = (char)(0x80 | (c >> 6 & 0x3f));
  }
  if (c >= 0x80) text[size++] = (char)(0x80 | (c & 0x3f));
  cli_buffer_add(bytes, text, size);
}

static tp_status take_code_point(reader *r, int digits, tp__bytes *bytes) {
  const char *start = r->at;
  uint32_t c = 0;
  for (int i = 0; i < digits; i++, r->at++) {
    const char *hex = "0123456789abcdef", *digit = r->at < r->end ? strchr(hex, *r->at | 0x20) : NULL;
    if (!digit || !*digit) return refuse_here(r, start, "an escape of a code point lacks hexadecimal digits");
    c = c << 4 | (uint32_t)(digit - hex);
  }
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return refuse_here(r, start, "there is no such code point");
  put_code_point(bytes, c);
  return TP_OK;
}

/* A backslash at the end of a line removes all white space up to the next text. @return whether there was one. */
static bool take_line_end(reader *r) {
  const char *at = r->at;
  while (at < r->end && (*at == ' ' || *at == '\t')) at++;
  if (at == r->end || (*at != '\n' && *at != '\r')) return false;
  while (at < r->end && *at && strchr(" \t\r\n", *at)) at++;
  r->at = at;
  return true;
}

/* After the backslash. */
static tp_status take_escape(reader *r, bool is_long, tp__bytes *bytes) {
  static const char letters[] = "btnfr\"\\", meant[] = "\b\t\n\f\r\"\\";
  const char *start = r->at - 1, *letter = r->at < r->end && *r->at ? strchr(letters, *r->at) : NULL;
  if (is_long && take_line_end(r)) return TP_OK;
  if (letter) {
    cli_buffer_add(bytes, &meant[letter - letters], 1);
    r->at++;
    return TP_OK;
  }
  if (take(r, "u")) return take_code_point(r, 4, bytes);
  if (take(r, "U")) return take_code_point(r, 8, bytes);
  return refuse_here(r, start, "of escapes \\b \\t \\n \\f \\r \\\" \\\\ \\uXXXX \\UXXXXXXXX are known: '…' has none");
}

/* @param quote  the closing quotes: one or three. */
static tp_status take_quoted(reader *r, const char *quote, tp_text *ret_text) {
  bool is_long = strlen(quote) == 3, is_basic = quote[0] == '"';
  const char *start = r->at - strlen(quote);
  tp__bytes bytes = {0};
  tp_status status = TP_OK;
  if (is_long) take_newline(r);
  while (status == TP_OK && !is_at(r, quote)) {
    if (r->at == r->end || (!is_long && (*r->at == '\n' || *r->at == '\r')))
      status = refuse_here(r, start, "a text is not closed");
    else if (is_control(*r->at) && !(is_long && (*r->at == '\n' || is_at(r, "\r\n"))))
      status = refuse_here(r, r->at, "a text has a control character in it");
    else if (is_basic && take(r, "\\")) status = take_escape(r, is_long, &bytes);
    else cli_buffer_add(&bytes, r->at++, 1);
  }
  if (status == TP_OK) {
    r->at += strlen(quote);
    for (int i = 0; is_long && i < 2 && r->at < r->end && *r->at == quote[0]; i++) cli_buffer_add(&bytes, r->at++, 1);
    *ret_text = (tp_text){cli_pool_copy(&r->pool, tp__bytes_text(&bytes)), bytes.size};
  }
  tp__bytes_fini(&bytes);
  return status;
}

/* ---- keys ---- */

static bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static tp_status take_key(reader *r, tp_text *ret_key) {
  const char *start = r->at;
  if (is_at(r, "\"\"\"") || is_at(r, "'''")) return refuse_here(r, start, "a key has one line");
  if (take(r, "\"")) return take_quoted(r, "\"", ret_key);
  if (take(r, "'")) return take_quoted(r, "'", ret_key);
  while (r->at < r->end && is_bare(*r->at)) r->at++;
  if (r->at == start) return refuse_here(r, start, "a key is missing: letters, digits, _ and -, or a text in quotes");
  *ret_key = (tp_text){start, (size_t)(r->at - start)};
  return TP_OK;
}

/* Enters a table below another one, for a name before a dot. */
static tp_status enter(reader *r, node **map, tp_text key, const char *at, bool by_header) {
  node *found = find_node(*map, key);
  if (!found) {
    found = add_keyed(r, *map, key, MAP);
    found->is_dotted = !by_header;
  } else if (found->kind == ARRAY && found->is_of_items && by_header) {
    found = found->last;
  } else if (found->kind != MAP || found->is_closed || (!by_header && found->is_header)) {
    return refuse_here(r, at, "a key is in the way: it has a value already");
  }
  *map = found;
  return TP_OK;
}

/* a.b.c: enters a and b. */
static tp_status take_path(reader *r, node **map, bool by_header, tp_text *ret_last) {
  for (unsigned depth = 0;; depth++) {
    skip_blanks(r);
    const char *at = r->at;
    tp_status status = depth < DEPTH_MAX ? take_key(r, ret_last) : refuse_here(r, at, "more than 32 names in a key");
    skip_blanks(r);
    if (status != TP_OK || !take(r, ".")) return status;
    status = enter(r, map, *ret_last, at, by_header);
    if (status != TP_OK) return status;
  }
}

/* ---- values ---- */

static tp_status take_value(reader *r, node *value);

static tp_status take_pair(reader *r, node *map) {
  const char *at = r->at;
  tp_text key;
  tp_status status = take_path(r, &map, false, &key);
  if (status != TP_OK) return status;
  if (find_node(map, key)) return refuse_here(r, at, "a key is there twice");
  if (!take(r, "=")) return refuse_here(r, r->at, "behind a key comes =");
  skip_blanks(r);
  return take_value(r, add_keyed(r, map, key, MAP));
}

static tp_status take_array(reader *r, node *value) {
  value->kind = ARRAY;
  for (;;) {
    tp_status status = skip_space(r);
    if (status != TP_OK || take(r, "]")) return status;
    node *item = new_node(r, MAP);
    add_node(value, item);
    status = take_value(r, item);
    if (status == TP_OK) status = skip_space(r);
    if (status != TP_OK || take(r, "]")) return status;
    if (!take(r, ",")) return refuse_here(r, r->at, "in an array comes , or ]");
  }
}

static void close_all(node *map) {
  map->is_closed = true;
  for (node *each = map->first; each; each = each->next) close_all(each);
}

static tp_status take_inline(reader *r, node *value) {
  skip_blanks(r);
  for (bool is_first = true; !take(r, "}"); is_first = false) {
    if (!is_first && !take(r, ",")) return refuse_here(r, r->at, "in a table of one line comes , or }");
    tp_status status = take_pair(r, value);
    if (status != TP_OK) return status;
    skip_blanks(r);
  }
  close_all(value);
  return TP_OK;
}

/* Underscores may only be between digits. @return false for a text that is no number. */
static bool copy_digits(tp_text word, char ret_digits[NUMBER_SIZE]) {
  size_t used = 0;
  if (word.size == 0 || word.size >= NUMBER_SIZE) return false;
  for (size_t i = 0; i < word.size; i++) {
    bool is_between = i > 0 && i + 1 < word.size && strchr("0123456789abcdefABCDEF", word.data[i - 1]) &&
                      strchr("0123456789abcdefABCDEF", word.data[i + 1]);
    if (word.data[i] == '_' && !is_between) return false;
    if (word.data[i] != '_') ret_digits[used++] = word.data[i];
  }
  ret_digits[used] = '\0';
  return used > 0;
}

static bool read_int(const char *digits, int64_t *ret_number) {
  static const struct {
    const char *head;
    int base;
  } bases[] = {{"0x", 16}, {"0o", 8}, {"0b", 2}};
  char *end;
  int base = 10;
  bool is_signed = digits[0] == '+' || digits[0] == '-';
  const char *first = digits + is_signed;
  for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++)
    if (strncmp(digits, bases[i].head, 2) == 0) base = bases[i].base;
  if (base != 10) digits = first = digits + 2;
  if (!*first || strspn(first, "0123456789abcdefABCDEF") != strlen(first)) return false;
  if (base == 10 && first[0] == '0' && first[1]) return false;
  errno = 0;
  *ret_number = strtoll(digits, &end, base);
  return *end == '\0' && errno == 0;
}

static bool read_double(const char *digits, double *ret_number) {
  char *end;
  const char *first = digits + (digits[0] == '+' || digits[0] == '-');
  bool is_named = strcmp(first, "inf") == 0 || strcmp(first, "nan") == 0;
  const char *dot = strchr(first, '.');
  bool is_shaped = strspn(first, "0123456789.eE+-") == strlen(first) && strpbrk(first, ".eE") && first[0] >= '0' &&
                   first[0] <= '9' && !(first[0] == '0' && first[1] >= '0' && first[1] <= '9') &&
                   (!dot || (dot[1] >= '0' && dot[1] <= '9'));
  if (!is_named && !is_shaped) return false;
  *ret_number = strtod(digits, &end);
  return *end == '\0' && (is_named || isfinite(*ret_number));
}

/* Recognizes 2026-11-26, 07:32:00, 2026-11-26T07:32:00.5+01:00; the parts are not checked. */
static bool is_time(tp_text word) {
  size_t digits = 0;
  bool separates = word.size > 4 && (word.data[4] == '-' || word.data[2] == ':');
  for (size_t i = 0; i < word.size; i++) {
    if (!strchr("0123456789-:.TtZz+ ", word.data[i])) return false;
    digits += word.data[i] >= '0' && word.data[i] <= '9';
  }
  return separates && digits >= 4 && word.data[0] >= '0' && word.data[0] <= '9';
}

static tp_text take_word(reader *r) {
  const char *start = r->at;
  while (r->at < r->end && !strchr(" \t\r\n,]}#=", *r->at)) r->at++;
  tp_text word = {start, (size_t)(r->at - start)};
  bool has_time = word.size == 10 && word.data[4] == '-' && r->end - r->at > 2 && *r->at == ' ' && r->at[1] >= '0' &&
                  r->at[1] <= '9';
  if (!has_time) return word;
  r->at++;
  while (r->at < r->end && !strchr(" \t\r\n,]}#=", *r->at)) r->at++;
  return (tp_text){start, (size_t)(r->at - start)};
}

static tp_status take_scalar(reader *r, node *value) {
  const char *start = r->at;
  char digits[NUMBER_SIZE];
  tp_text word = take_word(r);
  value->text = word;
  value->kind = BOOL;
  value->number = tp_text_is(word, "true");
  if (value->number || tp_text_is(word, "false")) return TP_OK;
  value->kind = TEXT;
  if (is_time(word)) return TP_OK;
  bool is_number = copy_digits(word, digits);
  value->kind = INT;
  if (is_number && read_int(digits, &value->number)) return TP_OK;
  value->kind = DOUBLE;
  if (is_number && read_double(digits, &value->real)) return TP_OK;
  r->at = start;
  return refuse_here(r, start, "no value: a text is in quotes, true and false in small letters");
}

static tp_status take_nested(reader *r, node *value) {
  if (r->depth == DEPTH_MAX) return refuse_here(r, r->at, "more than 32 levels");
  r->depth++;
  tp_status status = take(r, "[") ? take_array(r, value) : (r->at++, take_inline(r, value));
  r->depth--;
  value->is_closed = true;
  return status;
}

static tp_status take_value(reader *r, node *value) {
  static const char *const quotes[] = {"\"\"\"", "'''", "\"", "'"};
  if (is_at(r, "[") || is_at(r, "{")) return take_nested(r, value);
  for (size_t i = 0; i < sizeof quotes / sizeof quotes[0]; i++) {
    if (!take(r, quotes[i])) continue;
    value->kind = TEXT;
    return take_quoted(r, quotes[i], &value->text);
  }
  return take_scalar(r, value);
}

/* ---- tables ---- */

static tp_status open_item(reader *r, node *map, tp_text key, const char *at, node **ret_table) {
  node *list = find_node(map, key);
  if (!list) list = add_keyed(r, map, key, ARRAY);
  if (list->kind != ARRAY || list->is_closed || (list->count > 0 && !list->is_of_items))
    return refuse_here(r, at, "an array of tables is something else before");
  list->is_of_items = true;
  *ret_table = new_node(r, MAP);
  add_node(list, *ret_table);
  return TP_OK;
}

static tp_status open_table(reader *r, node *map, tp_text key, const char *at, node **ret_table) {
  node *found = find_node(map, key);
  if (!found) found = add_keyed(r, map, key, MAP);
  else if (found->kind != MAP || found->is_closed || found->is_header || found->is_dotted)
    return refuse_here(r, at, "a table is there twice, or is something else before");
  found->is_header = true;
  *ret_table = found;
  return TP_OK;
}

/* [a.b] and [[a.b]]. */
static tp_status take_header(reader *r, node *root, node **ret_table) {
  const char *at = r->at;
  bool is_item = take(r, "[["), is_table = !is_item && take(r, "[");
  tp_text key;
  assert(is_item || is_table);
  tp_status status = take_path(r, &root, true, &key);
  if (status != TP_OK) return status;
  if (!take(r, is_item ? "]]" : "]")) return refuse_here(r, r->at, is_item ? "here comes ]]" : "here comes ]");
  status = is_item ? open_item(r, root, key, at, ret_table) : open_table(r, root, key, at, ret_table);
  return status == TP_OK ? end_line(r) : status;
}

static tp_status take_all(reader *r, node *root) {
  node *table = root;
  tp_status status = TP_OK;
  take(r, "\xef\xbb\xbf");
  while (status == TP_OK) {
    status = skip_space(r);
    if (status != TP_OK || r->at == r->end) return status;
    if (is_at(r, "[")) {
      status = take_header(r, root, &table);
      continue;
    }
    status = take_pair(r, table);
    if (status == TP_OK) status = end_line(r);
  }
  return status;
}

static void write_node(const node *value, tp_writer *writer) {
  switch (value->kind) {
    case MAP:
      tp_write_map(writer, value->count);
      break;
    case ARRAY:
      tp_write_array(writer, value->count);
      break;
    case TEXT:
      tp_write_text(writer, value->text);
      break;
    case INT:
      tp_write_int(writer, value->number);
      break;
    case DOUBLE:
      tp_write_double(writer, value->real);
      break;
    case BOOL:
      tp_write_bool(writer, value->number != 0);
      break;
  }
  for (const node *each = value->first; each; each = each->next) {
    if (value->kind == MAP) tp_write_text(writer, each->key);
    write_node(each, writer);
  }
}

tp_status cli_toml_decode(tp_text toml, tp_writer *writer, tp_fault *fault) {
  reader r = {.text = toml, .at = toml.data, .end = toml.size > 0 ? toml.data + toml.size : toml.data, .fault = fault};
  node *root = new_node(&r, MAP);
  tp_status status = take_all(&r, root);
  if (status == TP_OK) write_node(root, writer);
  while (r.all) {
    node *each = r.all;
    r.all = each->all;
    free(each);
  }
  cli_pool_free(&r.pool);
  return status;
}
