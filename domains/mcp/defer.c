/* SPDX-License-Identifier: Apache-2.0
 *
 * defer.c: tools of servers that requests leave out until they are found. The messages of a request (results of the
 * search, and calls) show which tools were found, so only the options are kept here. find.c decides which tools fit the
 * words of a search. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/mcp/find.h"
#include "support/fault.h"
#include "support/references.h"
#include "support/text.h"
#include "turnphase/inspect.h"
#include "turnphase/mcp.h"

enum {
  ABOVE = 40,
  FOUND_MAX = 64,
  NAMES_BYTES_MAX = 24 << 10, /* the most bytes of names in the system text */
  CHOICE_DEPTH_MAX = 8
};

#define OWNER "mcp-defer"
#define TOOL_HANDLER OWNER ".tool"
#define REQUEST_HANDLER OWNER ".request"

/* References: one of each of the two handlers, one of each searching tool that was contributed, and one of the function
 * that adds the search. */
typedef struct deferral {
  tp__references refs;
  uint32_t above, found_max;
  char tool[TP_ID_BYTES_MAX + 1];
} deferral;

static void deferral_unref(void *ctx) {
  deferral *d = ctx;
  if (tp__references_unref(&d->refs)) tp__heap_free(d, sizeof *d);
}

/* ---- the tool that searches ---- */

static const char description[] =
    "Finds tools of servers by words of their names, descriptions and parameters. Tools that it finds can be called "
    "from "
    "the next answer on. Give a few words for what is to be done, or whole names.";
static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"query\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":1000,"
    "\"description\":\"Words, or names of tools, with blanks or commas between them\"},\"limit\":{\"type\":\"integer\","
    "\"minimum\":1,\"maximum\":20,\"description\":\"How many tools at most; 5 when it is left out\"}},"
    "\"required\":[\"query\"],\"additionalProperties\":false}";

static bool take_tool(void *ctx, const tp_tool_listing *listing) {
  if (strncmp(listing->tool->name, TP__MCP_PREFIX, sizeof TP__MCP_PREFIX - 1) == 0)
    tp__mcp_find_take(ctx, listing->tool);
  return true;
}

static tp_answer search(void *ctx, tp_tool_run *run) {
  const deferral *d = ctx;
  tp_text query = {NULL, 0}, value = {NULL, 0}, arguments = tp_tool_run_arguments(run);
  tp_fault fault = {0};
  tp_writer *writer = NULL;
  tp__bytes words = {0};
  tp__mcp_find find = {.limit = (size_t)tp_value_int(tp_value_get(arguments, "limit"), 5)};
  if (tp_tool_run_argument_text(run, "query", &query, &fault) != TP_OK)
    return tp_tool_error(run, tp_text_of(fault.message));
  if (find.limit > d->found_max) find.limit = d->found_max;
  tp__mcp_find_begin(&find, query);
  if (tp_tool_run_tools(run, take_tool, &find, NULL, &fault) != TP_OK) {
    tp__mcp_find_fini(&find);
    return tp_tool_error(run, tp_text_of(fault.message));
  }
  bool is_whole = tp_writer_new(NULL, &writer) == TP_OK && tp__mcp_find_end(&find, writer, &words) && !words.failed &&
                  tp_writer_finish(writer, &value) == TP_OK;
  const tp_tool_answer said = {.struct_size = sizeof said, .text = tp__bytes_text(&words), .value = value};
  tp_answer answer = is_whole ? tp_tool_answer_with(run, &said, NULL)
                              : tp_tool_error(run, tp_text_of("There is no memory for the search."));
  tp_writer_free(writer);
  tp__bytes_fini(&words);
  tp__mcp_find_fini(&find);
  return answer;
}

static tp_answer contribute(void *ctx, tp_call *tp) {
  deferral *d = ctx;
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = d->tool,
                        .description = description,
                        .schema_json = schema,
                        .run = search,
                        .ctx = d,
                        .placement = TP_PLACEMENT_INLINE,
                        .idempotent = true,
                        .destroy = deferral_unref};
  const tp_tool *const tools[] = {&tool};
  tp__references_ref(&d->refs); /* a reference for the tool */
  if (tp_call_emit_tool_bundle(tp, OWNER, tools, 1, NULL) != TP_OK)
    deferral_unref(d); /* otherwise the attempt fails,
                                                                                          and the tool was not taken */
  return TP_ANSWER_DONE;
}

/* ---- which tools a request shows ---- */

/* A tool of a server in a request. */
typedef struct candidate {
  tp_text name;
  size_t found; /* its rank by the time when it was found first, from 1; 0: it was never found */
} candidate;

typedef struct shown {
  tp_text tools;         /* value: the tools of the request */
  candidate *candidates; /* in the order of the tools' names */
  size_t candidate_count;
  size_t other_count; /* how many tools belong to no server */
  size_t found_count;
  bool can_search;
} shown;

static int compare_name(const void *a, const void *b) {
  tp_text one = ((const candidate *)a)->name, other = ((const candidate *)b)->name;
  size_t size = one.size < other.size ? one.size : other.size;
  int order = size ? memcmp(one.data, other.data, size) : 0;
  return order ? order : (one.size > other.size) - (one.size < other.size);
}

static int compare_found(const void *a, const void *b) {
  size_t one = ((const candidate *)a)->found, other = ((const candidate *)b)->found;
  return (one > other) - (one < other);
}

static tp_text name_of(tp_text tool) { return tp_value_text(tp_value_get(tool, "name")); }

static bool is_candidate(tp_text name) { return tp__begins(name, TP__MCP_PREFIX); }

/* @return false without memory. */
static bool read_tools(const deferral *d, shown *s) {
  size_t count = tp_value_count(s->tools);
  s->candidates = tp__heap_alloc((count + 1) * sizeof *s->candidates);
  if (!s->candidates) return false;
  for (tp_value_walk walk = {0}; tp_value_next(s->tools, &walk);) {
    tp_text name = name_of(walk.value);
    if (is_candidate(name)) s->candidates[s->candidate_count++].name = name;
    else s->other_count++;
    s->can_search |= tp_text_is(name, d->tool);
  }
  assert(s->candidate_count + s->other_count == count);
  if (s->candidate_count > 1) qsort(s->candidates, s->candidate_count, sizeof *s->candidates, compare_name);
  return true;
}

static void note_found(shown *s, tp_text name) {
  const candidate key = {.name = name};
  candidate *found =
      name.size ? bsearch(&key, s->candidates, s->candidate_count, sizeof *s->candidates, compare_name) : NULL;
  if (found && found->found == 0)
    found->found = ++s->found_count; /* a name whose tool does not exist any more is
                                                                      ignored */
}

/* Counts the tool that a request must call (tool_choice) as found. */
static void read_choice(shown *s, tp_text choice, int depth) {
  if (tp_value_kind_of(choice) == TP_VALUE_TEXT) note_found(s, tp_value_text(choice));
  for (tp_value_walk walk = {0}; depth < CHOICE_DEPTH_MAX && tp_value_next(choice, &walk);)
    read_choice(s, walk.value, depth + 1);
}

/* The size of mcp__SERVER__ at the beginning of a name. */
static size_t prefix_size(tp_text name) {
  for (size_t i = sizeof TP__MCP_PREFIX - 1; i + 1 < name.size; i++)
    if (name.data[i] == '_' && name.data[i + 1] == '_') return i + 2;
  return name.size;
}

/* Adds a line for each server: "mcp__SERVER__*: 900 tools". The names are sorted, so those of a server are adjacent. */
static void put_counts(tp__bytes *text, const shown *s) {
  for (size_t i = 0, next = 0; i < s->candidate_count; i = next) {
    tp_text name = s->candidates[i].name, prefix = {name.data, prefix_size(name)};
    while (next < s->candidate_count && s->candidates[next].name.size >= prefix.size &&
           memcmp(s->candidates[next].name.data, prefix.data, prefix.size) == 0)
      next++;
    tp__bytes_printf(text, "%.*s*: %zu tools\n", (int)prefix.size, prefix.data, next - i);
  }
}

/* Writes the system text. It depends only on the tools, not on which were found. */
static void put_system(tp__bytes *text, const deferral *d, const shown *s, tp_text system) {
  size_t bytes = 0;
  tp__bytes_put_text(text, system);
  if (system.size > 0) tp__bytes_put_string(text, "\n\n");
  tp__bytes_printf(text,
                   "# Tools that %s finds\n\nThese tools exist, too. Each can be called after %s has found it, not "
                   "before.\n",
                   d->tool, d->tool);
  for (size_t i = 0; i < s->candidate_count; i++) bytes += s->candidates[i].name.size + 2;
  if (bytes > NAMES_BYTES_MAX) put_counts(text, s);
  for (size_t i = 0; bytes <= NAMES_BYTES_MAX && i < s->candidate_count; i++) {
    tp__bytes_put_string(text, i ? ", " : "");
    tp__bytes_put_text(text, s->candidates[i].name);
  }
}

/* Writes the names of the tools that the request shows; without the searching tool when it has nothing to search. */
static void write_tools(tp_writer *writer, const deferral *d, shown *s, bool is_deferred) {
  size_t from = s->found_count > d->found_max ? s->found_count - d->found_max : 0;
  size_t servers = is_deferred ? s->found_count - from : s->candidate_count;
  tp_write_array(writer, s->other_count - (is_deferred ? 0 : 1) + servers);
  for (tp_value_walk walk = {0}; tp_value_next(s->tools, &walk);) {
    tp_text name = name_of(walk.value);
    if (is_candidate(name) ? !is_deferred : is_deferred || !tp_text_is(name, d->tool)) tp_write_text(writer, name);
  }
  if (!is_deferred) return;
  if (s->candidate_count > 1) qsort(s->candidates, s->candidate_count, sizeof *s->candidates, compare_found);
  for (size_t i = s->candidate_count - s->found_count + from; i < s->candidate_count; i++)
    tp_write_text(writer, s->candidates[i].name);
}

static tp_status shape(const deferral *d, shown *s, tp_call *tp, tp_writer *writer, tp__bytes *system,
                       tp_fault *fault) {
  tp_field fields[2] = {{.id = TP_FIELD_TOOLS, .kind = TP_FIELD_KIND_VALUE}};
  size_t count = 1;
  const bool is_deferred = s->candidate_count > d->above;
  if (is_deferred) {
    /* Reads results of the search and calls of tools in the order of the messages. */
    tp_text messages = tp_call_text(tp, TP_FIELD_MESSAGES);
    for (tp_value_walk walk = {0}; tp_value_next(messages, &walk);) {
      for (tp_value_walk calls = {0}; tp_value_next(tp_value_get(walk.value, "calls"), &calls);)
        note_found(s, tp_value_text(tp_value_get(calls.value, "tool")));
      if (!tp__is_word(tp_value_text(tp_value_get(walk.value, "role")), "tool") ||
          !tp_text_is(tp_value_text(tp_value_get(walk.value, "tool")), d->tool))
        continue;
      tp_text names = tp_value_get(tp_value_get(walk.value, "value"), "tools");
      for (tp_value_walk each = {0}; tp_value_next(names, &each);) note_found(s, tp_value_text(each.value));
    }
    read_choice(s, tp_value_get(tp_call_text(tp, TP_FIELD_PARAMETERS), "tool_choice"), 0);
    put_system(system, d, s, tp_call_text(tp, TP_FIELD_SYSTEM));
    if (system->failed) return TP_ERR_NO_MEMORY;
    fields[count++] = (tp_field){.id = TP_FIELD_SYSTEM, .kind = TP_FIELD_KIND_TEXT, .text = tp__bytes_text(system)};
  }
  write_tools(writer, d, s, is_deferred);
  tp_status status = tp_writer_finish(writer, &fields[0].text);
  return status == TP_OK ? tp_call_replace(tp, fields, count, fault) : status;
}

static tp_answer shape_request(void *ctx, tp_call *tp) {
  const deferral *d = ctx;
  shown s = {.tools = tp_call_text(tp, TP_FIELD_TOOLS)};
  const size_t size = (tp_value_count(s.tools) + 1) * sizeof *s.candidates;
  tp__bytes system = {0};
  tp_writer *writer = NULL;
  tp_fault fault = {0};
  tp_status status = read_tools(d, &s) ? TP_OK : TP_ERR_NO_MEMORY;
  if (status == TP_OK && s.can_search) {
    status = tp_writer_new(NULL, &writer);
    if (status == TP_OK) status = shape(d, &s, tp, writer, &system, &fault);
  }
  tp_writer_free(writer);
  tp__bytes_fini(&system);
  tp__heap_free(s.candidates, size);
  if (status == TP_OK) return TP_ANSWER_DONE;
  return tp_call_fail(tp, status, fault.message[0] ? fault.message : "no memory to leave tools out");
}

/* ---- registration ---- */

static tp_status add_handler(tp_edit *edit, deferral *d, const tp_handler *handler, tp_fault *fault) {
  const tp_subscription subscription = {.struct_size = sizeof subscription,
                                        .id = handler->id,
                                        .handler = handler->id,
                                        .phase = handler->phases[0],
                                        .failure = TP_FAILURE_BEST_EFFORT};
  tp__references_ref(&d->refs); /* a reference for the handler */
  tp_status status = tp_edit_add_handler(edit, handler, fault);
  if (status != TP_OK) { /* the handler was not taken */
    deferral_unref(d);
    return status;
  }
  return tp_edit_add_subscription(edit, &subscription, fault);
}

static tp_status add_deferral(tp_edit *edit, deferral *d, tp_fault *fault) {
  static const uint32_t tools = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, request = TP_PHASE_MODEL_REQUEST;
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = TOOL_HANDLER,
                        .summary = "contributes the tool that finds tools of servers",
                        .run = contribute,
                        .ctx = d,
                        .destroy = deferral_unref,
                        .phases = &tools,
                        .phase_count = 1,
                        .contract_version = 1,
                        .capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE,
                        .placement = TP_PLACEMENT_INLINE,
                        .idempotent = true};
  tp_status status = add_handler(edit, d, &handler, fault);
  if (status != TP_OK) return status;
  handler.id = REQUEST_HANDLER;
  handler.summary = "shows the tools of servers that were found";
  handler.run = shape_request;
  handler.phases = &request;
  handler.capabilities = TP_CAPABILITY_REPLACE_PAYLOAD;
  return add_handler(edit, d, &handler, fault);
}

static const tp_owner owner = {
    .struct_size = sizeof owner, .name = OWNER, .trust = TP_TRUST_HOST, .grants = TP_GRANT_PRIVILEGED_HOOKS};

/* Tries to add once: another commit may come in between. */
static tp_status add_once(tp_runtime *runtime, deferral *d, tp_fault *fault) {
  tp_edit *edit = NULL;
  tp_status status = tp_edit_begin(runtime, &owner, &edit, fault);
  if (status != TP_OK) return status;
  status = add_deferral(edit, d, fault);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

static tp_status read_options(const tp_mcp_defer_options *options, deferral *d, tp_fault *fault) {
  tp_mcp_defer_options o = {.struct_size = sizeof o};
  if (options) {
    tp_status status = tp__struct_read(&o, sizeof o, options, "tp_mcp_defer_options", fault);
    if (status != TP_OK) return status;
  }
  const char *tool = o.tool ? o.tool : "mcp_search";
  size_t size = strlen(tool);
  bool is_name =
      size > 0 && size < 65 && strspn(tool, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == size;
  if (!is_name || strncmp(tool, TP__MCP_PREFIX, sizeof TP__MCP_PREFIX - 1) == 0)
    return tp__refuse(
        fault, TP_ERR_BAD_ID, tool,
        "the tool that searches has a name of 1 to 64 letters, digits, - and _, which does not begin with "
        "mcp__");
  d->above = o.above ? o.above : ABOVE;
  d->found_max = o.found_max ? o.found_max : FOUND_MAX;
  snprintf(d->tool, sizeof d->tool, "%s", tool);
  return TP_OK;
}

tp_status tp_mcp_defer_add(tp_runtime *runtime, const tp_mcp_defer_options *options, tp_fault *fault) {
  if (!runtime) return tp__refuse(fault, TP_ERR_USAGE, NULL, "runtime is NULL");
  deferral *d = tp__heap_alloc(sizeof *d);
  if (!d) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the search of tools");
  tp__references_init(&d->refs);
  tp_status status = read_options(options, d, fault);
  if (status == TP_OK) {
    do status = add_once(runtime, d, fault);
    while (status == TP_ERR_CONFLICT);
  }
  deferral_unref(d);
  return status;
}

static tp_status remove_once(tp_runtime *runtime, tp_fault *fault) {
  static const char *const ids[] = {TOOL_HANDLER, REQUEST_HANDLER};
  tp_edit *edit = NULL;
  tp_status status = tp_edit_begin(runtime, &owner, &edit, fault);
  if (status != TP_OK) return status;
  for (size_t i = 0; status == TP_OK && i < 2; i++) {
    status = tp_edit_remove_subscription(edit, ids[i], fault);
    if (status == TP_OK) status = tp_edit_remove_handler(edit, ids[i], fault);
  }
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

tp_status tp_mcp_defer_remove(tp_runtime *runtime, tp_fault *fault) {
  tp_status status;
  if (!runtime) return tp__refuse(fault, TP_ERR_USAGE, NULL, "runtime is NULL");
  do status = remove_once(runtime, fault);
  while (status == TP_ERR_CONFLICT);
  return status;
}
