/* SPDX-License-Identifier: Apache-2.0
 *
 * The five tools. They work in the scope of the turn that calls them, and answer with lines a model can read.
 * handlers.c decides whether a turn gets them, when it contributes them. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "domains/memory/memory.h"
#include "domains/memory/facts.h"
#include "domains/memory/line.h"
#include "domains/memory/recall.h"
#include "domains/memory/secrets.h"
#include "domains/memory/terms.h"

enum { LIMIT_DEFAULT = 10, LIMIT_MAX = 50 };

/* ---- what every tool does ---- */

static tp__memory_scope scope_of(const tp__memory_domain *domain, const tp_tool_run *run) {
  tp_text name = domain->kind->id < TP_ID_COUNT ? tp_tool_run_id(run, domain->kind->id) : (tp_text){0};
  return (tp__memory_scope){tp_tool_run_id(run, TP_ID_TENANT), tp_text_of(domain->kind->name), name};
}

static tp_answer refuse_memory_tool(tp_tool_run *run, const char *words) {
  return tp_tool_error(run, tp_text_of(words));
}

static tp_answer refuse_store_status(tp_tool_run *run, tp_status status) {
  if (status == TP_ERR_NOT_FOUND) return refuse_memory_tool(run, "There is no memory of that id.");
  if (status == TP_ERR_STORE_BUSY)
    return refuse_memory_tool(run, "The memory is in use by another process; try again.");
  return refuse_memory_tool(run, tp_status_text(status));
}

/* Answers with the text, and frees it. */
static tp_answer answer_with_listing(tp_tool_run *run, sqlite3_str *text) {
  size_t size = (size_t)sqlite3_str_length(text);
  bool whole = sqlite3_str_errcode(text) == SQLITE_OK;
  char *words = sqlite3_str_finish(text);
  tp_answer outcome = whole ? tp_tool_ok(run, (tp_text){words, size}) : refuse_store_status(run, TP_ERR_NO_MEMORY);
  sqlite3_free(words);
  return outcome;
}

/* Answers with one line for each memory, of at most text_max bytes of its text; or with the words for an empty list.
 * Frees the list. */
static tp_answer answer_list(tp_tool_run *run, tp_status status, tp__memory_list *list, size_t text_max,
                             const char *none) {
  if (status != TP_OK || list->count == 0) {
    tp__memory_list_fini(list);
    return status != TP_OK ? refuse_store_status(run, status) : tp_tool_ok(run, tp_text_of(none));
  }
  sqlite3_str *text = sqlite3_str_new(NULL);
  for (size_t i = 0; i < list->count; i++) {
    char id[TP__MEMORY_ID_SIZE];
    tp__memory_id_write(list->items[i].id, id);
    sqlite3_str_appendf(text, "%s%s ", i ? "\n" : "", id);
    tp__memory_line_write(text, &list->items[i], text_max);
  }
  tp__memory_list_fini(list);
  return answer_with_listing(run, text);
}

static size_t asked_limit(tp_text arguments) {
  int64_t limit = tp_value_int(tp_value_get(arguments, "limit"), LIMIT_DEFAULT);
  return limit < 1 ? 1 : limit > LIMIT_MAX ? LIMIT_MAX : (size_t)limit;
}

/* ---- the tools ---- */

static tp_answer memory_search(void *ctx, tp_tool_run *run) {
  tp__memory_domain *domain = ctx;
  tp_text arguments = tp_tool_run_arguments(run), query = tp_value_text(tp_value_get(arguments, "query"));
  tp__memory_scope scope = scope_of(domain, run);
  tp__memory_list list = {0};
  const tp__memory_question asked = {query, tp__wall_ms(), domain->recall_floor, NULL};
  tp_status status = tp__memory_recall_explained(domain->store, &scope, &asked, asked_limit(arguments), &list, NULL);
  return answer_list(run, status, &list, SIZE_MAX, "No memory matches.");
}

static tp_answer memory_get(void *ctx, tp_tool_run *run) {
  tp__memory_domain *domain = ctx;
  tp__memory_scope scope = scope_of(domain, run);
  tp__memory_list list = {0};
  int64_t id = tp__memory_id_read(tp_value_text(tp_value_get(tp_tool_run_arguments(run), "id")));
  tp_status status = tp__memory_get(domain->store, &scope, id, &list);
  if (status == TP_OK) status = tp__memory_facts_history(domain->store, &scope, id, &list);
  return answer_list(run, status, &list, SIZE_MAX, "");
}

static tp_answer memory_list(void *ctx, tp_tool_run *run) {
  tp__memory_domain *domain = ctx;
  tp_text arguments = tp_tool_run_arguments(run), before = tp_value_text(tp_value_get(arguments, "before"));
  tp__memory_scope scope = scope_of(domain, run);
  tp__memory_list list = {0};
  int64_t id = tp__memory_id_read(before);
  if (before.size && id == 0) return refuse_store_status(run, TP_ERR_NOT_FOUND);
  tp_status status = tp__memory_newest(domain->store, &scope, id, asked_limit(arguments), &list);
  return answer_list(run, status, &list, TP__MEMORY_NOTE_BYTES_MAX,
                     before.size ? "There are no older memories." : "Nothing is remembered yet.");
}

/* @param secrets  how many secrets were removed from the text. */
static tp_answer remember(tp__memory_domain *domain, tp_tool_run *run, tp_text text, size_t secrets) {
  char buffer[TP__MEMORY_REDACT_SIZE];
  text = tp_tool_run_redact(run, TP_REDACT_MEMORY, text, buffer, sizeof buffer);
  text.size = (size_t)tp__cut(text, TP__MEMORY_NOTE_BYTES_MAX);
  if (tp__memory_is_blank(text)) return refuse_memory_tool(run, "Nothing is left of the text without its secrets.");
  tp__memory_scope scope = scope_of(domain, run);
  char part[TP__MEMORY_PART_SIZE];
  tp__memory_part_write("note-", text, part);
  tp__memory memory = {.said_ms = tp__wall_ms(),
                       .session = tp_tool_run_id(run, TP_ID_SESSION),
                       .turn = tp_tool_run_id(run, TP_ID_TURN),
                       .part = tp_text_of(part),
                       .text = text};
  int64_t id = 0;
  tp_status status = tp__memory_put(domain->store, &scope, &memory, &id);
  if (status != TP_OK) return refuse_store_status(run, status);
  char name[TP__MEMORY_ID_SIZE];
  tp__memory_id_write(id, name);
  sqlite3_str *words = sqlite3_str_new(NULL);
  sqlite3_str_appendf(words, "Remembered as %s%s.", name, secrets ? ", without its secrets" : "");
  return answer_with_listing(run, words);
}

static tp_answer memory_remember(void *ctx, tp_tool_run *run) {
  tp__memory_domain *domain = ctx;
  tp_text text = tp_value_text(tp_value_get(tp_tool_run_arguments(run), "text"));
  char *block = NULL;
  size_t secrets = 0;
  if (tp__memory_is_blank(text)) return refuse_memory_tool(run, "There is nothing to remember in an empty text.");
  if (text.size > TP__MEMORY_NOTE_BYTES_MAX)
    return refuse_memory_tool(run, "A memory has at most 4096 bytes; shorten it.");
  if (!domain->keep_secrets && tp__memory_redact_secrets(text, &text, &block, &secrets) != TP_OK)
    return refuse_store_status(run, TP_ERR_NO_MEMORY);
  tp_answer outcome = remember(domain, run, text, secrets);
  sqlite3_free(block);
  return outcome;
}

static tp_answer memory_forget(void *ctx, tp_tool_run *run) {
  tp__memory_domain *domain = ctx;
  tp__memory_scope scope = scope_of(domain, run);
  int64_t id = tp__memory_id_read(tp_value_text(tp_value_get(tp_tool_run_arguments(run), "id")));
  tp_status status = tp__memory_forget(domain->store, &scope, id);
  return status == TP_OK ? tp_tool_ok(run, tp_text_of("Forgotten.")) : refuse_store_status(run, status);
}

/* ---- their descriptions ---- */

static const tp__tool_row tool_rows[TP__MEMORY_TOOL_COUNT] = {
    {"memory_search",
     "Search what was said in earlier conversations. Give the words that the answer would hold.",
     memory_search,
     false,
     {{"query", "the words to look for", 0, true}, {"limit", "how many memories at most (10)", LIMIT_MAX, false}}},
    {"memory_get",
     "Read one memory whole; behind a fact, what it replaced or what replaced it.",
     memory_get,
     false,
     {{"id", "its id, such as memory:12", 0, true}}},
    {"memory_list",
     "List memories, the newest first.",
     memory_list,
     false,
     {{"limit", "how many at most (10)", LIMIT_MAX, false}, {"before", "only those older than this id", 0, false}}},
    {"memory_remember",
     "Remember a fact for later conversations. Use it for what is worth more than the user's own words, which are "
     "remembered anyway.",
     memory_remember,
     false,
     {{"text", "one fact in one or two sentences that can be understood alone", 0, true}}},
    {"memory_forget",
     "Forget one memory for good. Use it when the user asks for it.",
     memory_forget,
     true,
     {{"id", "its id, such as memory:12", 0, true}}}};

tp_status tp__memory_tools_init(tp__memory_domain *domain) {
  tp_status status = TP_OK;
  for (size_t i = 0; status == TP_OK && i < TP__MEMORY_TOOL_COUNT; i++) {
    domain->tool_list[i] = &domain->tools[i];
    status = tp_writer_new(&tp__memory_allocator, &domain->schema_writers[i]);
    if (status == TP_OK)
      status = tp__tool_row_make(&tool_rows[i], domain, domain->schema_writers[i], &domain->tools[i]);
  }
  return status;
}

void tp__memory_tools_fini(tp__memory_domain *domain) {
  for (size_t i = 0; i < TP__MEMORY_TOOL_COUNT; i++) tp_writer_free(domain->schema_writers[i]);
}

/* ---- what SQLite and the clock give ---- */

static void *sqlite_alloc(void *ctx, size_t size) {
  (void)ctx;
  return sqlite3_malloc64(size);
}

static void sqlite_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  sqlite3_free(memory);
}

const tp_allocator tp__memory_allocator = {.alloc = sqlite_alloc, .release = sqlite_release};
