/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/merge/contribution.h"

#include "phases/merge/phases.h"
#include "phases/merge/schema.h"
#include "runtime/value/value.h"

enum { DOMAIN = 1, KEY = 2, TITLE = 4, TEXT = 8, SHORT_TEXT = 16, VALUE = 32, SOURCES = 64 };
enum { TOOLS = 128, WEIGHT = 256, SEVERITY = 512 };

static const struct {
  const char *name;
  uint32_t uses, needs;
} kinds[TP_CONTRIBUTION_COUNT] = {
    [TP_CONTRIBUTION_POLICY] = {"policy", DOMAIN | KEY | TEXT | WEIGHT, DOMAIN | KEY | TEXT},
    [TP_CONTRIBUTION_PROMPT_CONTEXT] = {"prompt_context", KEY | DOMAIN | TEXT | SHORT_TEXT | WEIGHT | SOURCES,
                                        KEY | TEXT},
    [TP_CONTRIBUTION_PROMPT_SECTION] = {"prompt_section", KEY | TITLE | TEXT | SHORT_TEXT | WEIGHT, KEY | TEXT},
    [TP_CONTRIBUTION_TOOL_BUNDLE] = {"tool_bundle", KEY | TOOLS, KEY},
    [TP_CONTRIBUTION_SIGNAL] = {"signal", KEY | DOMAIN | TEXT | VALUE | SEVERITY, KEY | DOMAIN},
    [TP_CONTRIBUTION_REMINDER] = {"reminder", TEXT, TEXT},
    [TP_CONTRIBUTION_AUDIT] = {"audit", KEY | TEXT | SEVERITY, KEY},
    [TP_CONTRIBUTION_MANIFEST_DIAGNOSTIC] = {"manifest_diagnostic", KEY | TEXT | SEVERITY, KEY},
    [TP_CONTRIBUTION_DIAGNOSTIC] = {"diagnostic", KEY | TEXT | SEVERITY, KEY},
    [TP_CONTRIBUTION_BACKGROUND_JOB] = {"background_job", KEY | DOMAIN | VALUE | TEXT, KEY | DOMAIN},
};

/* The texts of a contribution. A name appears in lines and attributes that the library prints, so it is short and has
 * no control characters. */
typedef enum form { NAME, PROSE, ENCODED } form;
static const struct {
  uint32_t bit;
  size_t offset;
  const char *name;
  form form;
} texts[] = {
    {DOMAIN, offsetof(tp_contribution, domain), "domain", NAME},
    {KEY, offsetof(tp_contribution, key), "key", NAME},
    {TITLE, offsetof(tp_contribution, title), "title", NAME},
    {TEXT, offsetof(tp_contribution, text), "text", PROSE},
    {SHORT_TEXT, offsetof(tp_contribution, short_text), "short_text", PROSE},
    {VALUE, offsetof(tp_contribution, value), "value", ENCODED},
    {SOURCES, offsetof(tp_contribution, sources), "sources", ENCODED},
};
enum { TEXT_COUNT = sizeof texts / sizeof *texts };

static const tp_text *text_at(const tp_contribution *contribution, size_t index) {
  return (const tp_text *)(const void *)((const char *)contribution + texts[index].offset);
}

const char *tp__kind_name(uint32_t kind) {
  return kind < TP_CONTRIBUTION_COUNT && kinds[kind].name ? kinds[kind].name : "unknown";
}

/* ---- checking ---- */

static tp_status refuse_contribution(tp_fault *fault, const tp_contribution *in, const char *field, const char *why) {
  return tp__fail(fault, TP_ERR_MALFORMED, NULL, "%s: %s %s", tp__kind_name(in->kind), field, why);
}

static bool has_control(tp_text text) {
  for (size_t i = 0; i < text.size; i++) {
    if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7F) return true;
  }
  return false;
}

static tp_status check_name(const tp_contribution *in, size_t index, tp_fault *fault) {
  const tp_text *text = text_at(in, index);
  bool job_key = in->kind == TP_CONTRIBUTION_BACKGROUND_JOB && texts[index].bit == KEY;
  size_t bytes_max = job_key ? TP__JOB_KEY_BYTES_MAX : TP__NAME_BYTES_MAX;
  if (text->size > bytes_max)
    return tp__fail(fault, TP_ERR_MALFORMED, NULL, "%s: %s has %zu bytes, and may have %zu", tp__kind_name(in->kind),
                    texts[index].name, text->size, bytes_max);
  if (has_control(*text))
    return refuse_contribution(fault, in, texts[index].name, "holds control bytes or line breaks");
  return TP_OK;
}

static tp_status check_encoded(const tp_allocator *allocator, const tp_contribution *in, size_t index,
                               tp_fault *fault) {
  const tp_text *text = text_at(in, index);
  tp_fault why;
  tp_status status = text->size ? tp__value_check(*text, allocator, &why) : TP_OK;
  if (status == TP_OK || status == TP_ERR_NO_MEMORY) return status;
  return tp__fail(fault, TP_ERR_MALFORMED, NULL, "%s: %s is not one well-formed msgpack value: %s",
                  tp__kind_name(in->kind), texts[index].name, why.message);
}

static tp_status check_text_at(const tp_allocator *allocator, const tp_contribution *in, size_t index,
                               tp_fault *fault) {
  const tp_text *text = text_at(in, index);
  if (text->size && !text->data) return refuse_contribution(fault, in, texts[index].name, "has a size but no bytes");
  if (text->size == 0 && (kinds[in->kind].needs & texts[index].bit)) {
    return refuse_contribution(fault, in, texts[index].name, "is missing");
  }
  if (texts[index].form == ENCODED) return check_encoded(allocator, in, index, fault);
  size_t at;
  if (!tp_utf8_valid(*text, &at))
    return tp__fail(fault, TP_ERR_MALFORMED, NULL, "%s: %s is not UTF-8 at byte %zu", tp__kind_name(in->kind),
                    texts[index].name, at);
  return texts[index].form == NAME ? check_name(in, index, fault) : TP_OK;
}

/* A misspelt "deny" must not be accepted silently, so policies of the domain `tool` may only have three values. */
static tp_status check_policy(const tp_contribution *in, tp_fault *fault) {
  if (!tp_text_is(in->domain, "tool")) return TP_OK;
  if (tp_text_is(in->text, "deny") || tp_text_is(in->text, "ask") || tp_text_is(in->text, "allow")) return TP_OK;
  return refuse_contribution(fault, in, "text", "must be deny, ask or allow in the domain tool");
}

/* The codes of the seed documents begin with ABILITY_; both forms mean the same code. */
static tp_text short_code(tp_text code) {
  static const char prefix[] = "ABILITY_";
  size_t size = sizeof prefix - 1;
  if (code.size <= size || memcmp(code.data, prefix, size) != 0) return code;
  return (tp_text){code.data + size, code.size - size};
}

tp_status tp_signal_verdict(tp_text signal_kind, tp_text code, tp_text value, tp_verdict *ret_verdict) {
  static const struct {
    const char *kind, *code;
    tp_verdict verdict;
  } codes[] = {
      {"ability_preflight", "AVAILABLE", TP_VERDICT_ALLOW},
      {"ability_preflight", "UNAVAILABLE", TP_VERDICT_DENY},
      {"ability_preflight", "REQUIRES_HUMAN", TP_VERDICT_ASK},
      {"ability_guard", "ALLOWED", TP_VERDICT_ALLOW},
      {"ability_guard", "DENIED", TP_VERDICT_DENY},
      {"ability_guard", "REQUIRES_HUMAN", TP_VERDICT_ASK},
  };
  bool decides = false;
  *ret_verdict = TP_VERDICT_NONE;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    if (!tp_text_is(signal_kind, codes[i].kind)) continue;
    decides = true;
    if (tp_text_is(short_code(code), codes[i].code)) *ret_verdict = codes[i].verdict;
  }
  if (decides && tp_value_bool(tp_value_get(value, "require_human"), false)) *ret_verdict = TP_VERDICT_ASK;
  return decides && *ret_verdict == TP_VERDICT_NONE ? TP_ERR_MALFORMED : TP_OK;
}

static tp_verdict verdict(const tp_contribution *contribution, tp_text *ret_reason) {
  tp_verdict found = TP_VERDICT_NONE;
  if (contribution->kind != TP_CONTRIBUTION_SIGNAL) return found;
  (void)tp_signal_verdict(contribution->domain, contribution->key, contribution->value, &found);
  *ret_reason =
      contribution->text.size ? contribution->text : tp_value_text(tp_value_get(contribution->value, "reason"));
  return found;
}

static tp_status check_signal(uint32_t phase, const tp_contribution *in, tp_fault *fault) {
  tp_verdict ignored;
  if (in->text.size && in->value.size)
    return refuse_contribution(fault, in, "payload", "is given twice, as text and as value");
  if (tp_signal_verdict(in->domain, in->key, in->value, &ignored) != TP_OK)
    return refuse_contribution(fault, in, "key", "is no code of this kind of signal");
  /* Without a phase it suffices that the signal is allowed in some phase, as in the phases of a host. */
  if (tp__phase_takes_signal(phase == TP_PHASE_NONE ? (uint32_t)TP_PHASE_HOST : phase, in->domain)) return TP_OK;
  bool known = phase == TP_PHASE_NONE;
  return refuse_contribution(fault, in, "domain",
                             known ? "is no kind of signal" : "is no kind of signal of this phase");
}

static tp_status check_sources(const tp_contribution *in, tp_fault *fault) {
  if (in->sources.size == 0) return TP_OK;
  bool texts_only = tp_value_kind_of(in->sources) == TP_VALUE_ARRAY;
  for (tp_value_walk walk = {0}; texts_only && tp_value_next(in->sources, &walk);) {
    texts_only = tp_value_kind_of(walk.value) == TP_VALUE_TEXT;
  }
  return texts_only ? TP_OK : refuse_contribution(fault, in, "sources", "must be an array of texts");
}

/* Reads the tool at the index of a bundle. Its struct may be older or newer than the library's. */
static tp_status tool_read(const tp_contribution *in, size_t index, tp_tool *ret_tool, tp_fault *fault) {
  if (!in->tools[index]) return tp__fail(fault, TP_ERR_MALFORMED, NULL, "tool_bundle: tools[%zu] is NULL", index);
  tp_fault why;
  if (tp__options_read(ret_tool, sizeof *ret_tool, in->tools[index], "tp_tool", &why) == TP_OK) return TP_OK;
  return tp__fail(fault, TP_ERR_MALFORMED, NULL, "tool_bundle: %s", why.message);
}

/* The error in a tool, as text that follows its name; NULL: there is none. */
static const char *tool_flaw(const tp_tool *tool) {
  if (!tool->run && !tool->inbox) return " has no function: set tp_tool.run, or inbox";
  if (tool->run && tool->inbox) return ": run and inbox are set: set one of the two";
  if (tool->inbox && tool->placement > TP_PLACEMENT_THREAD)
    return ": placement inline and inbox are set, and a call through an inbox waits for its host";
  if ((unsigned)tool->placement > TP_PLACEMENT_INLINE) return ": its placement must be thread or inline";
  return NULL;
}

/* Decodes schema_json, if it is set, into a writer. @param ret_schema borrowed from the writer, or from the tool. */
static tp_status read_schema(const tp_tool *tool, tp_writer *writer, tp_text *ret_schema, tp_fault *fault) {
  *ret_schema = tool->schema;
  if (!tool->schema_json) return TP_OK;
  tp_status status = tp_json_decode(tp_text_of(tool->schema_json), writer, fault);
  return status == TP_OK ? tp_writer_finish(writer, ret_schema) : status;
}

static tp_status check_schema(const tp_allocator *allocator, const tp_tool *tool, tp_fault *fault) {
  tp_fault why = {0};
  tp_writer writer;
  tp_text schema;
  tp__value_writer_init(&writer, allocator);
  tp_status status = read_schema(tool, &writer, &schema, &why);
  bool is_read = status == TP_OK;
  if (is_read) status = tp__schema_check(schema, allocator, NULL, &why);
  tp__value_writer_fini(&writer);
  if (status == TP_OK) return TP_OK;
  if (!is_read && status != TP_ERR_NO_MEMORY) status = TP_ERR_BAD_SCHEMA;
  return tp__fail(fault, status, tool->name, "tool %s: %s%s", tool->name, is_read ? "" : "schema_json: ", why.message);
}

static tp_status check_tool(const tp_contribution *in, const tp_tool *tool, tp_fault *fault) {
  if (!tp__id_valid(tool->name)) {
    return refuse_contribution(fault, in, "a tool's name",
                               "must be 1 to 128 bytes of UTF-8 without white space and control bytes");
  }
  const char *flaw = tool_flaw(tool);
  if (flaw) return tp__fail(fault, TP_ERR_MALFORMED, tool->name, "tool %s%s", tool->name, flaw);
  const char *fixed[] = {tool->read_key, tool->write_key};
  for (size_t i = 0; i < 2; i++) {
    if (!fixed[i] || tp__tool_key_valid(tp_text_of(fixed[i]))) continue;
    return tp__fail(fault, TP_ERR_MALFORMED, tool->name,
                    "tool %s: tp_tool.%s must be a path of 1 to 1024 bytes without empty names, `.`, `..` and a `/` at "
                    "its end",
                    tool->name, i ? "write_key" : "read_key");
  }
  if (!tp_utf8_valid(tp_text_of(tool->description), NULL)) {
    return tp__fail(fault, TP_ERR_MALFORMED, tool->name, "the description of tool %s is not UTF-8", tool->name);
  }
  if (tool->schema.size && tool->schema_json)
    return tp__fail(fault, TP_ERR_MALFORMED, tool->name, "tool %s: schema and schema_json are set: set one of the two",
                    tool->name);
  return TP_OK;
}

static tp_status check_tools(const tp_contribution *in, tp_fault *fault) {
  if (in->tool_count > TP__BUNDLE_TOOLS_MAX) return refuse_contribution(fault, in, "tools", "are more than 1024");
  if (in->tool_count == 0) return TP_OK;
  if (!in->tools) return refuse_contribution(fault, in, "tools", "are missing");
  for (size_t i = 0; i < in->tool_count; i++) {
    tp_tool tool, before;
    TP__TRY(tool_read(in, i, &tool, fault));
    TP__TRY(check_tool(in, &tool, fault));
    for (size_t j = 0; j < i; j++) {
      if (tool_read(in, j, &before, NULL) == TP_OK && strcmp(before.name, tool.name) == 0) {
        return tp__fail(fault, TP_ERR_MALFORMED, tool.name, "tool %s comes twice in one bundle", tool.name);
      }
    }
  }
  return TP_OK;
}

static tp_status check_contribution(const tp_allocator *allocator, uint32_t phase, const tp_contribution *in,
                                    tp_fault *fault) {
  if (in->kind >= TP_CONTRIBUTION_COUNT || !kinds[in->kind].name) {
    return tp__fail(fault, TP_ERR_MALFORMED, NULL, "%u is no kind of contribution", (unsigned)in->kind);
  }
  uint32_t uses = kinds[in->kind].uses;
  for (size_t i = 0; i < TEXT_COUNT; i++) {
    if (uses & texts[i].bit) TP__TRY(check_text_at(allocator, in, i, fault));
  }
  bool severe = (unsigned)in->severity > TP_SEVERITY_ERROR;
  if ((uses & SEVERITY) && severe) return refuse_contribution(fault, in, "severity", "is none of ours");
  switch (in->kind) {
    case TP_CONTRIBUTION_POLICY:
      return check_policy(in, fault);
    case TP_CONTRIBUTION_PROMPT_CONTEXT:
      return check_sources(in, fault);
    case TP_CONTRIBUTION_SIGNAL:
      return check_signal(phase, in, fault);
    case TP_CONTRIBUTION_TOOL_BUNDLE:
      return check_tools(in, fault);
    default:
      return TP_OK;
  }
}

/* Copies the contribution into a struct of the library's size, to which *in points afterwards. */
static tp_status read_whole(const tp_contribution **in, tp_contribution *whole, tp_fault *fault) {
  if ((*in)->struct_size == sizeof **in) return TP_OK;
  TP__TRY(tp__options_read(whole, sizeof *whole, *in, "tp_contribution", fault));
  *in = whole;
  return TP_OK;
}

tp_status tp__contribution_check(const tp_allocator *allocator, uint32_t phase, const tp_contribution *in,
                                 tp_fault *fault) {
  tp_allocator ours = tp__allocator_of(allocator);
  tp_contribution whole;
  tp_tool tool;
  TP__TRY(read_whole(&in, &whole, fault));
  TP__TRY(check_contribution(&ours, phase, in, fault));
  for (size_t i = 0; in->kind == TP_CONTRIBUTION_TOOL_BUNDLE && i < in->tool_count; i++) {
    TP__TRY(tool_read(in, i, &tool, fault));
    TP__TRY(check_schema(&ours, &tool, fault));
  }
  return TP_OK;
}

/* ---- copying ---- */

/* Copies the schema of a checked tool. JSON becomes a value, so that no later code handles JSON. */
static tp_status copy_schema(tp__arena *arena, tp_tool *tool) {
  tp_allocator allocator = tp__allocator_of(arena->allocator);
  tp_writer writer;
  tp_text schema;
  tp__value_writer_init(&writer, &allocator);
  tp_status status = read_schema(tool, &writer, &schema, NULL);
  if (status == TP_OK && !tp__arena_text(arena, schema, &tool->schema)) status = TP_ERR_NO_MEMORY;
  tp__value_writer_fini(&writer);
  tool->schema_json = NULL;
  return status;
}

tp_status tp__tool_copy_texts(tp__arena *arena, tp_tool *tool) {
  if (!tp__arena_string(arena, tool->name, &tool->name)) return TP_ERR_NO_MEMORY;
  if (!tp__arena_string(arena, tool->description, &tool->description)) return TP_ERR_NO_MEMORY;
  if (tool->read_key && !tp__arena_string(arena, tool->read_key, &tool->read_key)) return TP_ERR_NO_MEMORY;
  if (tool->write_key && !tp__arena_string(arena, tool->write_key, &tool->write_key)) return TP_ERR_NO_MEMORY;
  return copy_schema(arena, tool);
}

/* A contribution that comes while turns run is not refused because of one schema. The merge leaves out its tool. */
static tp_status find_flaw(tp__arena *arena, tp__tool_copy *copy) {
  tp_allocator allocator = tp__allocator_of(arena->allocator);
  tp_fault why = {0};
  tp_status status = check_schema(&allocator, &copy->tool, &why);
  if (status != TP_ERR_BAD_SCHEMA) return status;
  copy->tool.schema = (tp_text){NULL, 0};
  copy->tool.schema_json = NULL;
  return tp__arena_string(arena, why.message, &copy->flaw) ? TP_OK : TP_ERR_NO_MEMORY;
}

static tp_status copy_tool(tp__arena *arena, const tp__closure_home *home, const tp_contribution *in, size_t index,
                           tp__tool_copy *copy, tp_fault *fault) {
  TP__TRY(tool_read(in, index, &copy->tool, fault));
  TP__TRY(find_flaw(arena, copy));
  TP__TRY(tp__tool_copy_texts(arena, &copy->tool));
  tp_tool *tool = &copy->tool;
  void (*destroy)(void *ctx) = tool->destroy;
  tool->destroy = NULL; /* the closure's alone */
  if (!home || (!tool->inbox && !destroy)) return TP_OK;
  if (tool->inbox && !tp__inbox_is_of(tool->inbox, home->inbox_owner))
    return tp__fail(fault, TP_ERR_MALFORMED, tool->name, "tool %s: its inbox is of another runtime", tool->name);
  /* For a tool that belongs to no turn yet, the session's inbox is not known. Its destroy is called as if it had no
   * inbox. */
  tp_inbox *inbox = tp__inbox_meant(tool->inbox, home->of_session);
  copy->closure = tp__closure_new(home, inbox, tool->ctx, destroy);
  return copy->closure ? TP_OK : TP_ERR_NO_MEMORY;
}

static tp_status copy_tools(tp__arena *arena, const tp__closure_home *home, const tp_contribution *in,
                            tp_contribution *out, tp_fault *fault) {
  tp__tool_copy *copies = tp__arena_zero(arena, in->tool_count * sizeof *copies);
  const tp_tool **list = tp__arena_alloc(arena, in->tool_count * sizeof *list);
  tp_status status = copies && list ? TP_OK : TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < in->tool_count && status == TP_OK; i++) {
    status = copy_tool(arena, home, in, i, &copies[i], fault);
    list[i] = &copies[i].tool;
  }
  for (size_t i = 0; copies && i < in->tool_count; i++) /* taken on success only */
    if (status != TP_OK) tp__closure_cancel(copies[i].closure);
    else if (copies[i].closure) tp__closure_add(home, copies[i].closure);
  if (status != TP_OK) return status;
  out->tools = list;
  out->tool_count = in->tool_count;
  return TP_OK;
}

tp_status tp__contribution_copy(tp__arena *arena, const tp_contribution *in, tp_contribution *out) {
  return tp__contribution_take(arena, TP_PHASE_NONE, NULL, in, out, NULL);
}

tp_status tp__contribution_take(tp__arena *arena, uint32_t phase, const tp__closure_home *home,
                                const tp_contribution *in, tp_contribution *out, tp_fault *fault) {
  tp_contribution whole;
  TP__TRY(read_whole(&in, &whole, fault));
  tp_allocator allocator = tp__allocator_of(arena->allocator);
  TP__TRY(check_contribution(&allocator, phase, in, fault));
  uint32_t uses = kinds[in->kind].uses;
  tp_contribution copy = {.struct_size = sizeof copy, .kind = in->kind};
  if (uses & WEIGHT) copy.weight = in->weight;
  if (uses & SEVERITY) copy.severity = in->severity;
  for (size_t i = 0; i < TEXT_COUNT; i++) {
    tp_text *target = (tp_text *)(void *)((char *)&copy + texts[i].offset);
    if ((uses & texts[i].bit) && !tp__arena_text(arena, *text_at(in, i), target)) return TP_ERR_NO_MEMORY;
  }
  if ((uses & TOOLS) && in->tool_count) TP__TRY(copy_tools(arena, home, in, &copy, fault));
  *out = copy;
  return TP_OK;
}

static void discard(const tp_contribution *in) {
  tp_contribution whole;
  tp_tool tool;
  if (!in || read_whole(&in, &whole, NULL) != TP_OK || in->kind != TP_CONTRIBUTION_TOOL_BUNDLE || !in->tools) return;
  for (size_t i = 0; i < in->tool_count; i++)
    if (tool_read(in, i, &tool, NULL) == TP_OK && tool.destroy) tool.destroy(tool.ctx);
}

const tp__contribution_ops tp__contribution_ops_phases = {
    .check = tp__contribution_check,
    .copy = tp__contribution_take,
    .verdict = verdict,
    .discard = discard,
    .kind_name = tp__kind_name,
    .field_name = tp_field_name,
    .field_kinds = tp__field_kinds,
    .field_flaw = tp__field_flaw,
    .field_owner = tp__field_owner,
};
