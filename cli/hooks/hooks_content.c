/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks_content.c: the content that a trust covers: for each file of code a line "DIGEST NAME", for each decision of
 * the operator a line "data PATTERN" or "code PATTERN". The file with these lines is named by the trusted hash. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/hooks/hooks.h"
#include "runtime/base/check.h"
#include "support/bytes.h"
#include "support/text.h"

enum { NAMED_MAX = 5 };

/* ---- decisions ---- */

/* For all directories of the command line. */
static struct decisions {
  const char *directory;
  cli_words data, code;
  struct decisions *next;
} * decided;
static cli_pool texts;

static void add_word(cli_words *words, tp_text text) {
  for (size_t i = 0; i < words->count; i++)
    if (tp__is_word(text, words->items[i])) return;
  words->items = cli_reserve(words->items, words->count + 1, &words->capacity, sizeof *words->items);
  words->items[words->count++] = cli_pool_copy(&texts, text);
  words->items[words->count] = NULL;
}

static const char *next_line(const char *line, tp_text *ret_word, tp_text *ret_name) {
  size_t size = strcspn(line, "\n"), word = strcspn(line, " \n");
  *ret_word = (tp_text){line, word};
  *ret_name = word < size ? (tp_text){line + word + 1, size - word - 1} : (tp_text){line, 0};
  return line + size + (line[size] == '\n');
}

/* If the trust cannot be read, other functions report that. */
static void add_trusted(struct decisions *d) {
  char hash[CLI_HASH_SIZE] = "", *path = realpath(d->directory, NULL), *content = NULL;
  bool is_known = path && cli_trust_get(path, hash) == CLI_OK && hash[0] && cli_trust_content(hash, &content) == CLI_OK;
  if (is_known) {
    const char *line = content;
    tp_text word, name;
    while (*line) {
      line = next_line(line, &word, &name);
      if (tp__is_word(word, "data")) add_word(&d->data, name);
      if (tp__is_word(word, "code")) add_word(&d->code, name);
    }
  }
  free(content);
  free(path);
}

/* New decisions replace earlier ones about the same name. */
static void add_given(cli_words *into, cli_words *from, const cli_words *given) {
  for (size_t i = 0; i < given->count; i++) {
    size_t kept = 0;
    for (size_t j = 0; j < from->count; j++)
      if (strcmp(from->items[j], given->items[i]) != 0) from->items[kept++] = from->items[j];
    from->count = kept;
    if (from->items) from->items[kept] = NULL;
    add_word(into, tp_text_of(given->items[i]));
  }
}

void cli_content_decide(const cli_arguments *arguments, const char *directory, tp_hooks_options *options) {
  struct decisions *d = decided;
  while (d && strcmp(d->directory, directory) != 0) d = d->next;
  if (!d) {
    d = cli_alloc(sizeof *d);
    *d = (struct decisions){.directory = directory, .next = decided};
    decided = d;
    if (cli_trust_has_place()) add_trusted(d);
    add_given(&d->data, &d->code, &arguments->data_files);
    add_given(&d->code, &d->data, &arguments->code_files);
  }
  options->data_files = d->data.items;
  options->code_files = d->code.items;
}

/* ---- the list ---- */

static void put_line(tp__bytes *t, const char *word, const char *name) {
  assert(word[0] && !strpbrk(word, " \n"));
  tp__bytes_printf(t, "%s ", word);
  for (; *name; name++) tp__bytes_put(t, *name == '\n' ? "?" : name, 1);
  tp__bytes_put(t, "\n", 1);
}

static bool put_file(void *ctx, const tp_hook_file *file) {
  if (file->is_code && file->digest[0]) put_line(ctx, file->digest, file->name);
  return true;
}

static void put_decisions(tp__bytes *t, const char *word, const char *const *patterns) {
  for (; patterns && *patterns; patterns++) put_line(t, word, *patterns);
}

char *cli_content_write(const tp_hooks *hooks, const tp_hooks_options *options) {
  tp__bytes t = {0};
  tp_hooks_each_file(hooks, put_file, &t);
  put_decisions(&t, "data", options->data_files);
  put_decisions(&t, "code", options->code_files);
  if (t.failed) cli_need(TP_ERR_NO_MEMORY);
  char *text = cli_alloc(t.size + 1);
  memcpy(text, tp__bytes_string(&t), t.size);
  tp__bytes_fini(&t);
  return text;
}

/* ---- what has changed ---- */

typedef struct comparison {
  char *text;
  size_t size, count;
} comparison;

static bool find_name(const char *content, tp_text name, tp_text *ret_digest) {
  tp_text word, other;
  while (*content) {
    content = next_line(content, &word, &other);
    if (word.size == CLI_HASH_SIZE - 1 && tp__same(other, name)) {
      *ret_digest = word;
      return true;
    }
  }
  return false;
}

static void say_file(comparison *c, tp_text name, const char *what) {
  size_t used = strlen(c->text);
  c->count++;
  if (c->count > NAMED_MAX + 1) return;
  if (c->count == NAMED_MAX + 1) snprintf(c->text + used, c->size - used, ", …");
  else snprintf(c->text + used, c->size - used, "%s%.*s %s", used > 0 ? ", " : "", tp__cut(name, 200), name.data, what);
}

static void compare_lines(comparison *c, const char *lines, const char *others, const char *what_if_missing) {
  tp_text digest, name, other;
  while (*lines) {
    lines = next_line(lines, &digest, &name);
    if (digest.size != CLI_HASH_SIZE - 1) continue;
    if (!find_name(others, name, &other)) say_file(c, name, what_if_missing);
    else if (!tp__same(digest, other) && strcmp(what_if_missing, "is new") == 0) say_file(c, name, "has changed");
  }
}

void cli_content_compare(const char *hash, const tp_hooks *hooks, char *ret_text, size_t size) {
  char *before = NULL;
  tp__bytes now = {0};
  ret_text[0] = '\0';
  if (!hash[0] || cli_trust_content(hash, &before) != CLI_OK) return;
  tp_hooks_each_file(hooks, put_file, &now);
  comparison c = {.text = ret_text, .size = size};
  if (before[0]) compare_lines(&c, tp__bytes_string(&now), before, "is new");
  if (before[0]) compare_lines(&c, before, tp__bytes_string(&now), "is gone");
  tp__make_printable(ret_text);
  tp__bytes_fini(&now);
  free(before);
}

/* ---- for the operator ---- */

typedef struct listing {
  cli_output *output;
  bool is_verbose, has_unclear;
} listing;

static bool print_unclear(void *ctx, const tp_hook_file *file) {
  listing *l = ctx;
  if (!file->is_unclear || !file->is_there) return true;
  if (!l->has_unclear)
    cli_print_string(l->output, "what could be code or data (decide it, once: --data-file NAME, --code-file NAME):\n");
  l->has_unclear = true;
  cli_print_string(l->output, file->is_code ? "  taken for code: " : "  taken for data: ");
  cli_hooks_print_text(l->output, tp_text_of(file->name));
  if (file->hook[0]) cli_print_string(l->output, "  (named by ");
  cli_hooks_print_text(l->output, tp_text_of(file->hook));
  cli_print_string(l->output, file->hook[0] ? ")\n" : "\n");
  return true;
}

static bool print_code(void *ctx, const tp_hook_file *file) {
  static const char *const uses[] = {"", "declares", "program", "script", "helper", "data"};
  listing *l = ctx;
  if (!file->is_code) return true;
  cli_printf(l->output, "  %-8s ", uses[file->use]);
  cli_hooks_print_text(l->output, tp_text_of(file->name));
  cli_print_string(l->output, file->is_there ? "\n" : "  (not there)\n");
  return true;
}

void cli_content_print(const tp_hooks *hooks, bool is_verbose, cli_output *output) {
  listing l = {.output = output, .is_verbose = is_verbose};
  if (is_verbose) cli_print_string(output, "its code:\n");
  if (is_verbose) tp_hooks_each_file(hooks, print_code, &l);
  tp_hooks_each_file(hooks, print_unclear, &l);
}
