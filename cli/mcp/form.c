/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp/form.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "runtime/base/check.h"
#include "support/text.h"

/* The library's data is only valid until the callback returns, so this is a copy. */
typedef struct form {
  tp_mcp_asked *asked;
  char *server, *tool, *message, *url;
  tp__bytes schema; /* value */
} form;

static void free_form(form *f) {
  tp__heap_string_free(f->server);
  tp__heap_string_free(f->tool);
  tp__heap_string_free(f->message);
  tp__heap_string_free(f->url);
  tp__bytes_fini(&f->schema);
  free(f);
}

static void answer(form *f, tp_mcp_action action, tp_text content) {
  tp_fault fault = {0};
  tp_status status = tp_mcp_answer(f->asked, action, content, &fault);
  if (status != TP_OK) cli_error("the answer cannot be given: %s", fault.message);
  if (status != TP_OK) (void)!tp_mcp_answer(f->asked, TP_MCP_CANCEL, (tp_text){NULL, 0}, NULL);
}

/* ---- one member ---- */

static bool is_required(tp_text schema, tp_text key) {
  tp_text required = tp_value_get(schema, "required");
  for (tp_value_walk walk = {0}; tp_value_kind_of(required) == TP_VALUE_ARRAY && tp_value_next(required, &walk);)
    if (tp__same(tp_value_text(walk.value), key)) return true;
  return false;
}

/* The choices of a text member; empty: any text. */
static tp_text choices_of(tp_text member) { return tp_value_get(member, "enum"); }

static void show_member(tp_text key, tp_text member, bool required) {
  tp_text description = tp_value_text(tp_value_get(member, "description"));
  tp_text title = tp_value_text(tp_value_get(member, "title"));
  tp_text choices = choices_of(member), type = tp_value_text(tp_value_get(member, "type"));
  if (description.size == 0) description = title;
  if (description.size > 0) {
    fputs("  ", stderr);
    cli_ask_show(description);
    fputc('\n', stderr);
  }
  fputs("  ", stderr);
  cli_ask_show(key);
  fputs(" (", stderr);
  if (tp_value_kind_of(choices) == TP_VALUE_ARRAY) {
    for (size_t i = 0; i < tp_value_count(choices); i++) {
      if (i > 0) fputs(" | ", stderr);
      cli_ask_show(tp_value_text(tp_value_at(choices, i)));
    }
  } else if (tp__is_word(type, "boolean")) {
    fputs("y or n", stderr);
  } else {
    cli_ask_show(type.size > 0 ? type : tp_text_of("text"));
  }
  fputs(required ? "): " : ", may be empty): ", stderr);
  fflush(stderr);
}

/* @return NULL, or the expected form of the line. */
static const char *add_number(cli_map *content, const char *key, const char *line, bool is_whole) {
  char *end = NULL;
  double number = strtod(line, &end);
  bool is_number = end != line && !*end && isfinite(number);
  if (is_whole && (!is_number || !(number > -9e15 && number < 9e15) || (double)(int64_t)number != number))
    return "a whole number";
  if (!is_number) return "a number";
  if (is_whole) cli_map_add_int(content, key, (int64_t)number);
  else cli_map_add_double(content, key, number);
  return NULL;
}

static bool is_choice(tp_text choices, const char *line) {
  bool is_one = tp_value_kind_of(choices) != TP_VALUE_ARRAY; /* any text */
  for (size_t i = 0; !is_one && i < tp_value_count(choices); i++)
    is_one = tp__is_word(tp_value_text(tp_value_at(choices, i)), line);
  return is_one;
}

/* @param key  lives as long as the content. @return as add_number(). */
static const char *add_member(cli_map *content, const char *key, tp_text member, const char *line) {
  tp_text type = tp_value_text(tp_value_get(member, "type"));
  bool yes = strcmp(line, "y") == 0 || strcmp(line, "yes") == 0, no = strcmp(line, "n") == 0 || strcmp(line, "no") == 0;
  if (!tp_utf8_valid(tp_text_of(line), NULL)) return "UTF-8";
  if (!is_choice(choices_of(member), line)) return "one of the choices";
  if (tp__is_word(type, "number") || tp__is_word(type, "integer"))
    return add_number(content, key, line, tp__is_word(type, "integer"));
  if (!tp__is_word(type, "boolean")) cli_map_add_string(content, key, line);
  else if (yes || no) cli_map_add_bool(content, key, yes);
  else return "y or n";
  return NULL;
}

/* ---- the whole ---- */

/* @return false: the terminal is gone, or the command ends. */
static bool ask_member(cli_ask *ask, cli_map *content, tp_text schema, tp_text key, tp_text member) {
  char line[CLI_ASK_LINE_BYTES];
  bool required = is_required(schema, key);
  const char *wanted;
  do {
    show_member(key, member, required);
    if (!cli_ask_line(ask, line)) return false;
    if (!line[0] && !required) return true;
    wanted = line[0] ? add_member(content, cli_pool_copy(&content->pool, key), member, line) : "an answer";
    if (wanted) cli_error("that must be %s", wanted);
  } while (wanted);
  return true;
}

static void fill_in(cli_ask *ask, form *f) {
  tp_text schema = tp__bytes_text(&f->schema), members = tp_value_get(schema, "properties"), value = {NULL, 0};
  cli_map content = {0};
  tp_writer *writer = NULL;
  bool is_whole = true;
  bool has_members = tp_value_kind_of(members) == TP_VALUE_MAP;
  for (tp_value_walk walk = {0}; is_whole && has_members && tp_value_next(members, &walk);)
    is_whole = ask_member(ask, &content, schema, walk.key, walk.value);
  cli_need(tp_writer_new(NULL, &writer));
  cli_map_write(&content, writer);
  cli_need(tp_writer_finish(writer, &value));
  if (is_whole) answer(f, TP_MCP_ACCEPT, value);
  else answer(f, TP_MCP_CANCEL, (tp_text){NULL, 0});
  tp_writer_free(writer);
}

static void show_form(const form *f) {
  fputs("turnphase: the MCP server ", stderr);
  cli_ask_show(tp_text_of(f->server));
  if (f->tool[0]) {
    fputs(" asks, in the call of ", stderr);
    cli_ask_show(tp_text_of(f->tool));
  } else {
    fputs(" asks", stderr);
  }
  fputs(":\n  ", stderr);
  cli_ask_show(tp_text_of(f->message));
  if (f->url[0]) {
    fputs("\n  page: ", stderr);
    cli_ask_show(tp_text_of(f->url));
  }
  fputs(f->url[0] ? "\nHave you been there? y, or n (declines): " : "\nAnswer it? y, or n (declines): ", stderr);
  fflush(stderr);
}

/* Asks again until the answer is one of the allowed ones. */
static void put_form(cli_ask *ask, void *ctx) {
  form *f = ctx;
  char line[CLI_ASK_LINE_BYTES];
  bool yes = false, no = false;
  show_form(f);
  while (!yes && !no && cli_ask_line(ask, line)) {
    yes = strcmp(line, "y") == 0 || strcmp(line, "yes") == 0;
    no = strcmp(line, "n") == 0 || strcmp(line, "no") == 0;
    if (!yes && !no) fputs("Answer y or n: ", stderr), fflush(stderr);
  }
  if (no) answer(f, TP_MCP_DECLINE, (tp_text){NULL, 0});
  else if (!yes) answer(f, TP_MCP_CANCEL, (tp_text){NULL, 0});
  else if (f->url[0]) answer(f, TP_MCP_ACCEPT, (tp_text){NULL, 0});
  else fill_in(ask, f);
  free_form(f);
}

/* It is not put any more: the command ends. */
static void drop_form(void *ctx) {
  form *f = ctx;
  answer(f, TP_MCP_CANCEL, (tp_text){NULL, 0});
  free_form(f);
}

void cli_form_put(void *ctx, const tp_mcp_question *question) {
  form *f = calloc(1, sizeof *f);
  if (f) {
    *f = (form){.asked = question->asked,
                .server = tp__heap_copy(tp_text_of(question->server)),
                .tool = tp__heap_copy(question->tool),
                .message = tp__heap_copy(question->message),
                .url = tp__heap_copy(question->url)};
    tp__bytes_put_text(&f->schema, question->schema);
  }
  bool has_memory = f && f->server && f->tool && f->message && f->url && !f->schema.failed;
  if (has_memory && cli_ask_run(ctx, put_form, drop_form, f)) return;
  if (!has_memory) cli_error("no memory for a question of an MCP server: it is cancelled");
  (void)!tp_mcp_answer(question->asked, TP_MCP_CANCEL, (tp_text){NULL, 0}, NULL);
  if (f) free_form(f);
}
