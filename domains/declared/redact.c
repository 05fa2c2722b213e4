/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/declared/redact.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/declared/hook_protocol.h"
#include "runtime/base/check.h"
#include "support/file.h"
#include "support/text.h"

enum { TEXT_SIZE = 16384, FILES_MAX = 256 };

typedef struct pattern {
  regex_t regex;
  char replacement[TP__REDACT_REPLACEMENT_MAX + 1];
} pattern;

struct tp_redactor {
  pattern patterns[TP__REDACT_PATTERNS_MAX];
  size_t count;
  uint64_t files[FILES_MAX]; /* hashes of the texts that were read */
  size_t file_count;
};

tp_status tp_redactor_new(tp_redactor **ret_redactor, tp_fault *fault) {
  if (!ret_redactor) return tp__refuse(fault, TP_ERR_USAGE, NULL, "ret_redactor is NULL: the redactor has no place");
  tp_redactor *redactor = calloc(1, sizeof *redactor);
  if (!redactor) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the patterns");
  *ret_redactor = redactor;
  return TP_OK;
}

void tp_redactor_free(tp_redactor *redactor) {
  if (!redactor) return;
  for (size_t i = 0; i < redactor->count; i++) regfree(&redactor->patterns[i].regex);
  free(redactor);
}

size_t tp_redactor_count(const tp_redactor *redactor) { return redactor ? redactor->count : 0; }

/* ---- reading ---- */

typedef struct reader {
  const tp__yaml *yaml;
  const char *file;
  tp_fault *fault;
} reader;

#define REFUSE(r, index, ...) \
  tp__refuse_at((r)->fault, TP_ERR_MALFORMED, (r)->file, (r)->yaml->items[index].place, __VA_ARGS__)

/* FNV-1a: the hash only distinguishes files; it does not protect anything. */
static uint64_t hash_of_file(tp_text text) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < text.size; i++) hash = (hash ^ (unsigned char)text.data[i]) * UINT64_C(1099511628211);
  return hash;
}

bool tp__redact_has(const tp_redactor *redactor, tp_text text) {
  uint64_t hash = hash_of_file(text);
  assert(redactor && redactor->file_count <= FILES_MAX);
  for (size_t i = 0; i < redactor->file_count; i++)
    if (redactor->files[i] == hash) return true;
  return false;
}

bool tp__redact_is(const tp__yaml *yaml) {
  if (yaml->count == 0 || yaml->items[0].kind != TP_VALUE_MAP) return false;
  uint32_t kind = tp__yaml_get(yaml, 0, "kind");
  return kind && yaml->items[kind].kind == TP_VALUE_TEXT && tp__is_word(tp__yaml_text(yaml, kind), "redact");
}

static tp_status read_rule_text(const reader *r, uint32_t map, const char *key, tp_text *ret_text) {
  uint32_t index = tp__yaml_get(r->yaml, map, key);
  *ret_text = (tp_text){NULL, 0};
  if (index == 0) return TP_OK;
  if (r->yaml->items[index].kind != TP_VALUE_TEXT) return REFUSE(r, index, "%s is text: put it in quotes", key);
  *ret_text = tp__yaml_text(r->yaml, index);
  return TP_OK;
}

static bool is_rule_name(tp_text name) {
  for (size_t i = 0; i < name.size; i++)
    if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", name.data[i]) || !name.data[i])
      return false;
  return name.size <= TP__REDACT_NAME_MAX;
}

/* A match of an empty text would put its replacement everywhere. */
static bool fits_nothing(const regex_t *regex) {
  static const char *const probes[] = {"", "a", "a b", "-", " ", "0"};
  for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++) {
    regmatch_t match;
    if (regexec(regex, probes[i], 1, &match, 0) == 0 && match.rm_so == match.rm_eo) return true;
  }
  return false;
}

static tp_status compile(const reader *r, uint32_t index, tp_text text, bool ignores_case, regex_t *ret_regex) {
  char posix[TP__POSIX_SIZE], expression[TP__REGEX_BYTES_MAX + 1];
  const char *why = NULL;
  if (text.size == 0) return REFUSE(r, index, "a pattern is empty: it would fit every text");
  if (text.size > TP__REGEX_BYTES_MAX)
    return REFUSE(r, index, "a pattern has at most %d bytes: make two of it", TP__REGEX_BYTES_MAX);
  tp__copy_cut(expression, sizeof expression, text);
  why = tp__regex_rewrite(expression, posix);
  if (why) return REFUSE(r, index, "the pattern \"%s\" cannot be used: %s", expression, why);
  if (regcomp(ret_regex, posix, REG_EXTENDED | (ignores_case ? REG_ICASE : 0)) != 0)
    return REFUSE(r, index, "the pattern \"%s\" is not well formed", expression);
  if (!fits_nothing(ret_regex)) return TP_OK;
  regfree(ret_regex);
  return REFUSE(r, index, "the pattern \"%s\" fits the empty text, so it would fit everywhere: let it need a character",
                expression);
}

static tp_status read_replacement(const reader *r, uint32_t map, char ret_text[TP__REDACT_REPLACEMENT_MAX + 1]) {
  tp_text name, text;
  TP__TRY(read_rule_text(r, map, "name", &name));
  TP__TRY(read_rule_text(r, map, "replacement", &text));
  uint32_t index = tp__yaml_get(r->yaml, map, "name");
  if (!is_rule_name(name))
    return REFUSE(r, index, "name has 1 to %d letters, digits and any of . - _", TP__REDACT_NAME_MAX);
  if (text.size > TP__REDACT_REPLACEMENT_MAX)
    return REFUSE(r, tp__yaml_get(r->yaml, map, "replacement"), "replacement has at most %d bytes",
                  TP__REDACT_REPLACEMENT_MAX);
  if (tp__yaml_get(r->yaml, map, "replacement")) tp__copy_cut(ret_text, TP__REDACT_REPLACEMENT_MAX + 1, text);
  else if (name.size > 0) snprintf(ret_text, TP__REDACT_REPLACEMENT_MAX, "[redacted:%.*s]", (int)name.size, name.data);
  else snprintf(ret_text, TP__REDACT_REPLACEMENT_MAX, "[redacted]");
  return TP_OK;
}

static tp_status add_pattern(const reader *r, tp_redactor *redactor, uint32_t index) {
  bool ignores_case = false;
  tp_text text;
  uint32_t at = index;
  if (redactor->count == TP__REDACT_PATTERNS_MAX)
    return REFUSE(r, index, "there are more than %d patterns: join some with |", TP__REDACT_PATTERNS_MAX);
  pattern *made = &redactor->patterns[redactor->count];
  snprintf(made->replacement, sizeof made->replacement, "[redacted]");
  if (r->yaml->items[index].kind == TP_VALUE_TEXT) text = tp__yaml_text(r->yaml, index);
  else if (r->yaml->items[index].kind != TP_VALUE_MAP)
    return REFUSE(r, index, "a pattern is text, or a map with pattern; put a number in quotes");
  else {
    TP__TRY(
        tp__yaml_check_map(r->yaml, index, "a pattern", "pattern, name, replacement, ignore_case", r->file, r->fault));
    TP__TRY(read_rule_text(r, index, "pattern", &text));
    TP__TRY(read_replacement(r, index, made->replacement));
    uint32_t flag = tp__yaml_get(r->yaml, index, "ignore_case");
    if (flag && r->yaml->items[flag].kind != TP_VALUE_BOOL) return REFUSE(r, flag, "ignore_case is true or false");
    if (flag) ignores_case = r->yaml->items[flag].as.boolean;
    if (tp__yaml_get(r->yaml, index, "pattern")) at = tp__yaml_get(r->yaml, index, "pattern");
    else return REFUSE(r, index, "pattern is missing: the regular expression of the secret");
  }
  TP__TRY(compile(r, at, text, ignores_case, &made->regex));
  redactor->count++;
  return TP_OK;
}

tp_status tp__redact_add(tp_redactor *redactor, const tp__yaml *yaml, const char *file, tp_text text, tp_fault *fault) {
  const reader r = {yaml, file, fault};
  assert(tp__redact_is(yaml));
  TP__TRY(tp__yaml_check_map(yaml, 0, "a file of patterns", "kind, id, summary, redact", file, fault));
  uint32_t list = tp__yaml_get(yaml, 0, "redact");
  if (list == 0 || yaml->items[list].kind != TP_VALUE_ARRAY || yaml->items[list].count == 0)
    return REFUSE(&r, list, "redact is a list of patterns, with one at least");
  if (redactor->file_count == FILES_MAX) return REFUSE(&r, 0, "there are more than %d files of patterns", FILES_MAX);
  for (uint32_t at = list + 1; at < yaml->items[list].end; at = yaml->items[at].end)
    TP__TRY(add_pattern(&r, redactor, at));
  redactor->files[redactor->file_count++] = hash_of_file(text);
  return TP_OK;
}

static int is_yaml(const struct dirent *entry) {
  const char *dot = strrchr(entry->d_name, '.');
  return entry->d_name[0] != '.' && dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

static tp_status read_rule_file(tp_redactor *redactor, const char *path, tp_fault *fault) {
  tp__bytes text = {0};
  tp__yaml yaml;
  int error = tp__file_read(AT_FDCWD, path, TP__YAML_BYTES_MAX, &text);
  tp_status status = TP_OK;
  if (error) status = tp__file_refuse(fault, path, error, TP__YAML_BYTES_MAX, "cannot be read");
  else if (tp__yaml_read(tp__bytes_text(&text), path, &tp__malloc_allocator, &yaml, NULL) == TP_OK) {
    /* A file that is no YAML is refused by tp_hooks_read(), with the place of the error. */
    if (tp__redact_is(&yaml)) status = tp__redact_add(redactor, &yaml, path, tp__bytes_text(&text), fault);
    tp__yaml_fini(&yaml);
  }
  tp__bytes_fini(&text);
  return status;
}

tp_status tp_redactor_read(tp_redactor *redactor, const char *directory, tp_fault *fault) {
  struct dirent **names;
  tp_status status = TP_OK;
  if (!redactor || !directory)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "%s is NULL", redactor ? "directory" : "redactor");
  int count = scandir(directory, &names, is_yaml, alphasort);
  if (count < 0) return tp__refuse_errno(fault, TP_ERR_IO, directory, errno, "cannot be read");
  for (int i = 0; i < count; i++) {
    char path[4096];
    int size = snprintf(path, sizeof path, "%s/%s", directory, names[i]->d_name);
    if (status == TP_OK && (size_t)size >= sizeof path)
      status = tp__refuse(fault, TP_ERR_TOO_LARGE, directory, "the path of a file in it is too long");
    if (status == TP_OK) status = read_rule_file(redactor, path, fault);
    free(names[i]);
  }
  free(names);
  return status;
}

/* ---- redacting ---- */

static bool continues(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; }

/* Appends the text between two matches, and a replacement. @return false when it does not fit. */
static bool put_redacted(char *to, size_t *used, const char *from, size_t size) {
  assert(*used <= TEXT_SIZE);
  if (*used + size > TEXT_SIZE) return false;
  memcpy(to + *used, from, size);
  *used += size;
  return true;
}

/* @param text  in and out, of *size bytes. @return false when it became too long. */
static bool apply(const pattern *p, char text[TEXT_SIZE], size_t *size) {
  char made[TEXT_SIZE];
  size_t used = 0, from = 0;
  for (size_t at = 0; at < *size;) {
    regmatch_t match = {.rm_so = (regoff_t)at, .rm_eo = (regoff_t)*size};
    if (regexec(&p->regex, text, 1, &match, REG_STARTEND | (at > 0 ? REG_NOTBOL : 0)) != 0) break;
    size_t begin = (size_t)match.rm_so, end = (size_t)match.rm_eo;
    assert(at <= begin && begin <= end && end <= *size);
    if (begin == end) {
      at = end + 1;
      continue;
    }
    while (begin > from && continues(text[begin])) begin--;
    while (end < *size && continues(text[end])) end++;
    if (!put_redacted(made, &used, text + from, begin - from) ||
        !put_redacted(made, &used, p->replacement, strlen(p->replacement)))
      return false;
    from = at = end;
  }
  if (from == 0) return true;
  if (!put_redacted(made, &used, text + from, *size - from)) return false;
  memcpy(text, made, used);
  *size = used;
  return true;
}

bool tp_redactor_redact(void *ctx, tp_redaction *redaction) {
  const tp_redactor *redactor = ctx;
  char text[TEXT_SIZE];
  if (!redactor || !redaction || redaction->size > sizeof text) return false;
  size_t size = redaction->size;
  memcpy(text, redaction->text, size);
  for (size_t i = 0; i < redactor->count; i++)
    if (!apply(&redactor->patterns[i], text, &size)) return false;
  if (size > redaction->capacity) return false;
  memcpy(redaction->text, text, size);
  redaction->size = size;
  return true;
}
