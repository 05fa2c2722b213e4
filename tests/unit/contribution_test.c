/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/test.h"
#include "phases/merge/contribution.h"
#include "tests/support/counting.h"

static tp__arena arena;

static int setup(void **state) {
  (void)state;
  refuse_at = -1;
  tp__arena_init(&arena, &counting, NULL, 0, 0);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  tp__arena_fini(&arena);
  return blocks_open == 0 ? 0 : -1;
}

FOR_EACH_TEST(setup, teardown);

/* ---- short words ---- */

#define T(string) ((tp_text){(string), sizeof(string) - 1})
#define STRINGS \
  "\x92\xa2"    \
  "D1"          \
  "\xa2"        \
  "D2" /* ["D1","D2"] */

static tp_answer tool_run(void *ctx, tp_tool_run *run) {
  (void)ctx;
  (void)run;
  return TP_ANSWER_DONE;
}

static const tp_tool good_tool = {
    .struct_size = sizeof(tp_tool), .name = "weather", .description = "Shows the weather", .run = tool_run};
static const tp_tool *const good_tools[] = {&good_tool};

/* One good contribution of each kind. */
static tp_contribution good(uint32_t kind) {
  switch (kind) {
    case TP_CONTRIBUTION_POLICY:
      return (tp_contribution){.struct_size = sizeof(tp_contribution),
                               .kind = kind,
                               .domain = T("memory"),
                               .key = T("read"),
                               .text = T("allow")};
    case TP_CONTRIBUTION_PROMPT_CONTEXT:
      return (tp_contribution){.struct_size = sizeof(tp_contribution),
                               .kind = kind,
                               .key = T("D1"),
                               .domain = T("memory"),
                               .text = T("likes tea"),
                               .short_text = T("tea"),
                               .sources = T(STRINGS),
                               .weight = 4};
    case TP_CONTRIBUTION_PROMPT_SECTION:
      return (tp_contribution){.struct_size = sizeof(tp_contribution),
                               .kind = kind,
                               .key = T("rules"),
                               .title = T("Rules"),
                               .text = T("Be brief.")};
    case TP_CONTRIBUTION_TOOL_BUNDLE:
      return (tp_contribution){
          .struct_size = sizeof(tp_contribution), .kind = kind, .key = T("all"), .tools = good_tools, .tool_count = 1};
    case TP_CONTRIBUTION_SIGNAL:
      return (tp_contribution){.struct_size = sizeof(tp_contribution),
                               .kind = kind,
                               .key = T("ROUTE"),
                               .domain = T("routing_hint"),
                               .value = T("\x80")};
    case TP_CONTRIBUTION_REMINDER:
      return (tp_contribution){.struct_size = sizeof(tp_contribution), .kind = kind, .text = T("look up")};
    case TP_CONTRIBUTION_BACKGROUND_JOB:
      return (tp_contribution){.struct_size = sizeof(tp_contribution),
                               .kind = kind,
                               .key = T("turn-1"),
                               .domain = T("extract"),
                               .value = T("\xc3"),
                               .text = T("s1")};
    default:
      return (tp_contribution){.struct_size = sizeof(tp_contribution),
                               .kind = kind,
                               .key = T("code"),
                               .text = T("text"),
                               .severity = TP_SEVERITY_ERROR};
  }
}

static tp_status take(const tp_contribution *in) {
  tp_contribution out;
  return tp__contribution_copy(&arena, in, &out);
}

TEST(a_struct_of_another_size_is_read_as_far_as_both_know_it) {
  struct {
    tp_contribution known;
    uint64_t newer;
  } longer = {.known = good(TP_CONTRIBUTION_REMINDER)};
  tp_contribution out, shorter = good(TP_CONTRIBUTION_POLICY);
  tp_fault fault = {0};
  longer.known.struct_size = sizeof longer;
  assert_int_equal(tp__contribution_copy(&arena, &longer.known, &out), TP_OK);
  assert_int_equal(out.struct_size, sizeof out);
  longer.newer = 1;
  assert_int_equal(tp__contribution_copy(&arena, &longer.known, &out), TP_ERR_VERSION);
  assert_int_equal(tp__contribution_check(NULL, TP_PHASE_NONE, &longer.known, &fault), TP_ERR_VERSION);
  assert_non_null(strstr(fault.message, "tp_contribution: byte"));
  shorter.struct_size = offsetof(tp_contribution, text); /* the policy's text is not read, and missing */
  assert_int_equal(tp__contribution_copy(&arena, &shorter, &out), TP_ERR_MALFORMED);
  shorter.struct_size = 0;
  assert_int_equal(tp__contribution_copy(&arena, &shorter, &out), TP_ERR_VERSION);
}

static void refused(tp_contribution contribution, const char *message) {
  tp_fault fault = {0};
  assert_int_equal(tp__contribution_check(NULL, TP_PHASE_NONE, &contribution, &fault), TP_ERR_MALFORMED);
  assert_string_equal(fault.message, message);
  assert_int_equal(take(&contribution), TP_ERR_MALFORMED);
}

/* ---- the tests ---- */

TEST(a_good_contribution_of_every_kind_is_taken) {
  for (uint32_t kind = 1; kind < TP_CONTRIBUTION_COUNT; kind++) {
    tp_contribution in = good(kind), out = {0};
    assert_int_equal(tp__contribution_copy(&arena, &in, &out), TP_OK);
    assert_int_equal(out.kind, kind);
    assert_true(tp_text_equal(in.key, out.key) && tp_text_equal(in.text, out.text) &&
                tp_text_equal(in.domain, out.domain));
    assert_true(tp_text_equal(in.value, out.value) && tp_text_equal(in.sources, out.sources));
    assert_int_equal(out.weight, in.weight);
    assert_int_equal(out.severity, in.severity);
    assert_string_not_equal(tp__kind_name(kind), "unknown");
  }
}

TEST(the_copy_does_not_point_into_the_original) {
  char text[] = "likes tea", name[] = "weather", description[] = "sunny", schema[] = "\x80";
  tp_tool tool = good_tool;
  tool.name = name;
  tool.description = description;
  tool.schema = (tp_text){schema, 1};
  tp_contribution context = good(TP_CONTRIBUTION_PROMPT_CONTEXT), bundle = good(TP_CONTRIBUTION_TOOL_BUNDLE), copy,
                  bundle_copy;
  context.text = tp_text_of(text);
  const tp_tool *list[] = {&tool};
  bundle.tools = list;
  assert_int_equal(tp__contribution_copy(&arena, &context, &copy), TP_OK);
  assert_int_equal(tp__contribution_copy(&arena, &bundle, &bundle_copy), TP_OK);
  memset(text, 'x', sizeof text);
  memset(name, 'x', sizeof name);
  memset(description, 'x', sizeof description);
  schema[0] = '\xc1';
  memset(&tool, 0xff, sizeof tool);
  assert_true(tp_text_is(copy.text, "likes tea"));
  assert_string_equal(bundle_copy.tools[0]->name, "weather");
  assert_string_equal(bundle_copy.tools[0]->description, "sunny");
  assert_true(tp_text_is(bundle_copy.tools[0]->schema, "\x80"));
  assert_ptr_equal(bundle_copy.tools[0]->run, tool_run);
}

TEST(fields_that_a_kind_does_not_use_are_left_behind) {
  tp_contribution in = good(TP_CONTRIBUTION_REMINDER), out;
  in.weight = 9;
  in.severity = TP_SEVERITY_ERROR;
  in.key = T("key");
  in.value = T("\xc1"); /* no value at all, and it is not read */
  in.tools = good_tools;
  in.tool_count = 77;
  assert_int_equal(tp__contribution_copy(&arena, &in, &out), TP_OK);
  assert_int_equal(out.weight, 0);
  assert_int_equal(out.severity, TP_SEVERITY_INFO);
  assert_int_equal(out.key.size + out.value.size, 0);
  assert_null(out.tools);
  assert_int_equal(out.tool_count, 0);
}

TEST(each_kind_names_the_field_that_is_missing) {
  static const struct {
    uint32_t kind;
    size_t field;
    const char *message;
  } missing[] = {
#define ROW(kind, member, text) {kind, offsetof(tp_contribution, member), text}
      ROW(TP_CONTRIBUTION_POLICY, domain, "policy: domain is missing"),
      ROW(TP_CONTRIBUTION_POLICY, key, "policy: key is missing"),
      ROW(TP_CONTRIBUTION_POLICY, text, "policy: text is missing"),
      ROW(TP_CONTRIBUTION_PROMPT_CONTEXT, key, "prompt_context: key is missing"),
      ROW(TP_CONTRIBUTION_PROMPT_CONTEXT, text, "prompt_context: text is missing"),
      ROW(TP_CONTRIBUTION_PROMPT_SECTION, key, "prompt_section: key is missing"),
      ROW(TP_CONTRIBUTION_PROMPT_SECTION, text, "prompt_section: text is missing"),
      ROW(TP_CONTRIBUTION_TOOL_BUNDLE, key, "tool_bundle: key is missing"),
      ROW(TP_CONTRIBUTION_SIGNAL, key, "signal: key is missing"),
      ROW(TP_CONTRIBUTION_SIGNAL, domain, "signal: domain is missing"),
      ROW(TP_CONTRIBUTION_REMINDER, text, "reminder: text is missing"),
      ROW(TP_CONTRIBUTION_AUDIT, key, "audit: key is missing"),
      ROW(TP_CONTRIBUTION_MANIFEST_DIAGNOSTIC, key, "manifest_diagnostic: key is missing"),
      ROW(TP_CONTRIBUTION_DIAGNOSTIC, key, "diagnostic: key is missing"),
      ROW(TP_CONTRIBUTION_BACKGROUND_JOB, key, "background_job: key is missing"),
      ROW(TP_CONTRIBUTION_BACKGROUND_JOB, domain, "background_job: domain is missing"),
#undef ROW
  };
  for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
    tp_contribution in = good(missing[i].kind);
    memset((char *)&in + missing[i].field, 0, sizeof(tp_text));
    refused(in, missing[i].message);
  }
}

TEST(optional_fields_may_be_empty) {
  tp_contribution context = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_PROMPT_CONTEXT, .key = T("D1"), .text = T("x")};
  tp_contribution section = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_PROMPT_SECTION, .key = T("s"), .text = T("x")};
  tp_contribution bundle = {.struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_TOOL_BUNDLE, .key = T("b")};
  tp_contribution signal = {.struct_size = sizeof(tp_contribution),
                            .kind = TP_CONTRIBUTION_SIGNAL,
                            .key = T("ABILITY_AVAILABLE"),
                            .domain = T("ability_preflight")};
  tp_contribution audit = {.struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_AUDIT, .key = T("seen")};
  tp_contribution job = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_BACKGROUND_JOB, .key = T("k"), .domain = T("h")};
  const tp_contribution *all[] = {&context, &section, &bundle, &signal, &audit, &job};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) assert_int_equal(take(all[i]), TP_OK);
}

TEST(a_number_that_is_no_kind_is_refused) {
  refused((tp_contribution){.struct_size = sizeof(tp_contribution), .kind = 0}, "0 is no kind of contribution");
  refused((tp_contribution){.struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_COUNT},
          "11 is no kind of contribution");
  refused((tp_contribution){.struct_size = sizeof(tp_contribution), .kind = UINT32_MAX},
          "4294967295 is no kind of contribution");
  assert_string_equal(tp__kind_name(0), "unknown");
  assert_string_equal(tp__kind_name(UINT32_MAX), "unknown");
}

TEST(text_that_is_not_utf8_is_refused_wherever_it_stands) {
  tp_contribution in = good(TP_CONTRIBUTION_PROMPT_CONTEXT);
  in.text = T("caf\xe9");
  refused(in, "prompt_context: text is not UTF-8 at byte 3");
  in = good(TP_CONTRIBUTION_PROMPT_CONTEXT);
  in.key = T("\xed\xa0\x80"); /* a surrogate */
  refused(in, "prompt_context: key is not UTF-8 at byte 0");
  in = good(TP_CONTRIBUTION_PROMPT_CONTEXT);
  in.short_text = T("\xc0\xaf"); /* overlong */
  refused(in, "prompt_context: short_text is not UTF-8 at byte 0");
}

TEST(a_size_without_bytes_is_refused) {
  tp_contribution in = good(TP_CONTRIBUTION_REMINDER);
  in.text = (tp_text){NULL, 5};
  refused(in, "reminder: text has a size but no bytes");
}

TEST(names_are_short_and_of_one_line) {
  static char longest[TP__JOB_KEY_BYTES_MAX + 1];
  memset(longest, 'k', sizeof longest);
  tp_contribution in = good(TP_CONTRIBUTION_PROMPT_SECTION);
  in.key = (tp_text){longest, TP__NAME_BYTES_MAX};
  assert_int_equal(take(&in), TP_OK);
  in.key.size++;
  refused(in, "prompt_section: key has 129 bytes, and may have 128");
  in = good(TP_CONTRIBUTION_PROMPT_SECTION);
  in.title = T("a\nb");
  refused(in, "prompt_section: title holds control bytes or line breaks");
  in = good(TP_CONTRIBUTION_BACKGROUND_JOB);
  in.key = (tp_text){longest, TP__JOB_KEY_BYTES_MAX};
  assert_int_equal(take(&in), TP_OK);
  in.key.size++;
  refused(in, "background_job: key has 513 bytes, and may have 512");
}

TEST(values_must_be_one_well_formed_msgpack_value) {
  tp_contribution in = good(TP_CONTRIBUTION_SIGNAL);
  in.value = T("\xdd\x7f\xff\xff\xff"); /* five bytes that ask for two thousand million elements */
  refused(in,
          "signal: value is not one well-formed msgpack value: not a valid msgpack value: more is declared than there "
          "are bytes at byte 0 of 5");
  in.value = T("\x01\x02");
  refused(in,
          "signal: value is not one well-formed msgpack value: not a valid msgpack value: the value ends, but bytes "
          "follow at byte 1 of 2");
  in = good(TP_CONTRIBUTION_BACKGROUND_JOB);
  in.value = T("\xc1");
  refused(in,
          "background_job: value is not one well-formed msgpack value: not a valid msgpack value: the byte 0xc1 begins "
          "no value: it stands at byte 0 of 1");
}

TEST(sources_must_be_an_array_of_texts) {
  tp_contribution in = good(TP_CONTRIBUTION_PROMPT_CONTEXT);
  in.sources = T("\x91\x01");
  refused(in, "prompt_context: sources must be an array of texts");
  in.sources = T("\xa1x");
  refused(in, "prompt_context: sources must be an array of texts");
  in.sources = T("\x90");
  assert_int_equal(take(&in), TP_OK);
}

TEST(a_severity_out_of_range_is_refused) {
  tp_contribution in = good(TP_CONTRIBUTION_DIAGNOSTIC);
  in.severity = (tp_severity)3;
  refused(in, "diagnostic: severity is none of ours");
}

TEST(a_misspelt_policy_of_the_domain_tool_is_refused) {
  static const char *const words[] = {"deny", "ask", "allow"};
  tp_contribution in = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_POLICY, .domain = T("tool"), .key = T("shell")};
  for (size_t i = 0; i < 3; i++) {
    in.text = tp_text_of(words[i]);
    assert_int_equal(take(&in), TP_OK);
  }
  in.text = T("Deny");
  refused(in, "policy: text must be deny, ask or allow in the domain tool");
}

TEST(a_signal_has_one_payload_and_a_kind_of_its_phase) {
  tp_contribution in = good(TP_CONTRIBUTION_SIGNAL);
  tp_fault fault = {0};
  assert_int_equal(tp__contribution_check(NULL, TP_PHASE_TURN_INTAKE, &in, &fault), TP_OK);
  assert_int_equal(tp__contribution_check(NULL, TP_PHASE_HOST, &in, &fault), TP_OK);
  assert_int_equal(tp__contribution_check(NULL, TP_PHASE_TOOL_PRE, &in, &fault), TP_ERR_MALFORMED);
  assert_string_equal(fault.message, "signal: domain is no kind of signal of this phase");
  in.text = T("and a text");
  refused(in, "signal: payload is given twice, as text and as value");
  in = good(TP_CONTRIBUTION_SIGNAL);
  in.domain = T("hint");
  refused(in, "signal: domain is no kind of signal");
}

TEST(tools_are_refused_with_their_name) {
  tp_tool tool = good_tool;
  tp_contribution in = good(TP_CONTRIBUTION_TOOL_BUNDLE);
  const tp_tool *list[] = {&tool};
  in.tools = list;
  tool.run = NULL;
  refused(in, "tool weather has no function: set tp_tool.run, or inbox");
  tool = good_tool;
  tool.description = "\xff";
  refused(in, "the description of tool weather is not UTF-8");
  tool = good_tool;
  static const char *const bad_names[] = {NULL, "", "two words", "line\nbreak", "\xff"};
  for (size_t i = 0; i < sizeof bad_names / sizeof *bad_names; i++) {
    tool.name = bad_names[i];
    refused(in, "tool_bundle: a tool's name must be 1 to 128 bytes of UTF-8 without white space and control bytes");
  }
  in.tools = NULL;
  refused(in, "tool_bundle: tools are missing");
  in.tool_count = UINT32_MAX;
  refused(in, "tool_bundle: tools are more than 1024");
}

TEST(a_tool_name_twice_in_one_bundle_is_refused) {
  tp_tool tools[3] = {good_tool, good_tool, good_tool};
  tp_contribution in = good(TP_CONTRIBUTION_TOOL_BUNDLE);
  tools[1].name = "forecast";
  const tp_tool *list[] = {&tools[0], &tools[1], &tools[2]};
  in.tools = list;
  in.tool_count = 3;
  refused(in, "tool weather comes twice in one bundle");
  in.tool_count = 2;
  assert_int_equal(take(&in), TP_OK);
}

TEST(a_tool_with_a_malformed_schema_is_refused_where_it_is_registered_and_flawed_where_it_comes_later) {
  tp_tool tool = good_tool, whole = good_tool;
  tp_contribution in = good(TP_CONTRIBUTION_TOOL_BUNDLE), out;
  tp_fault fault = {0};
  const tp_tool *list[] = {&tool, &whole};
  tp__arena copies;
  tp_allocator libc = tp__allocator_of(NULL);
  in.tools = list;
  in.tool_count = 2;
  whole.name = "forecast";
  tool.schema =
      T("\x81\xa9"
        "minLength"
        "\xa1"
        "x");
  assert_int_equal(tp__contribution_check(NULL, TP_PHASE_NONE, &in, &fault), TP_ERR_BAD_SCHEMA);
  assert_string_equal(fault.subject, "weather");
  assert_string_equal(fault.message, "tool weather: schema.minLength: must be an integer of at least 0");
  tp__arena_init(&copies, &libc, NULL, 0, 0);
  assert_int_equal(tp__contribution_copy(&copies, &in, &out), TP_OK);
  assert_int_equal(out.tool_count, 2);
  assert_string_equal(tp__tool_flaw(out.tools[0]), fault.message);
  assert_int_equal(out.tools[0]->schema.size, 0);
  assert_null(tp__tool_flaw(out.tools[1]));
  tool.schema = (tp_text){NULL, 0};
  tool.schema_json = "{\"type\": ";
  assert_int_equal(tp__contribution_copy(&copies, &in, &out), TP_OK);
  assert_non_null(strstr(tp__tool_flaw(out.tools[0]), "tool weather: schema_json: "));
  assert_null(out.tools[0]->schema_json);
  tp__arena_fini(&copies);
}

TEST(tools_of_another_struct_size_are_read_by_their_own) {
  struct newer {
    tp_tool tool;
    uint64_t more;
  } newer = {good_tool, 0};
  tp_contribution in = good(TP_CONTRIBUTION_TOOL_BUNDLE), out;
  const tp_tool *list[] = {&good_tool, &newer.tool};
  newer.tool.struct_size = sizeof newer;
  newer.tool.name = "forecast";
  newer.tool.limit_ms = 7;
  in.tools = list;
  in.tool_count = 2;
  assert_int_equal(tp__contribution_copy(&arena, &in, &out), TP_OK);
  assert_string_equal(out.tools[1]->name, "forecast");
  assert_int_equal(out.tools[1]->limit_ms, 7);
  assert_int_equal(out.tools[1]->struct_size, sizeof(tp_tool));
  newer.more = 1; /* asks for what this library does not know */
  tp_fault fault = {0};
  assert_int_equal(tp__contribution_check(NULL, TP_PHASE_NONE, &in, &fault), TP_ERR_MALFORMED);
  assert_non_null(strstr(fault.message, "tp_tool: byte"));
  newer.tool.struct_size = 0;
  refused(in, "tool_bundle: tp_tool: struct_size is 0; set it to sizeof(tp_tool)");
  list[1] = NULL;
  refused(in, "tool_bundle: tools[1] is NULL");
}

TEST(out_is_untouched_when_the_copy_is_refused) {
  tp_contribution in = {.struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER}, out = {.kind = 77};
  assert_int_equal(tp__contribution_copy(&arena, &in, &out), TP_ERR_MALFORMED);
  assert_int_equal(out.kind, 77);
}

/* A map with more keys than the checker keeps without memory. */
static tp_text big_map(char *bytes) {
  size_t at = 3;
  memcpy(bytes, "\xde\x01\x00", 3); /* 256 pairs */
  for (int i = 0; i < 256; i++) {
    bytes[at++] = '\xa2';
    bytes[at++] = (char)('a' + i / 16);
    bytes[at++] = (char)('a' + i % 16);
    bytes[at++] = '\x01';
  }
  return (tp_text){bytes, at};
}

TEST(every_refused_allocation_is_a_clean_error) {
  char bytes[2048];
  tp_tool tool = good_tool;
  tool.schema = T("\x80");
  for (uint32_t kind = 1; kind < TP_CONTRIBUTION_COUNT; kind++) {
    tp_contribution in = good(kind), out;
    const tp_tool *list[] = {&tool};
    if (in.tools) in.tools = list;
    if (kind == TP_CONTRIBUTION_SIGNAL) in.value = big_map(bytes);
    tp_status status = TP_ERR_NO_MEMORY;
    for (long n = 0; status != TP_OK; n++) {
      assert_true(n < 20);
      refuse_at = n;
      out.kind = 77;
      status = tp__contribution_copy(&arena, &in, &out);
      refuse_at = -1;
      tp__arena_fini(&arena);
      assert_int_equal(blocks_open, 0);
      if (status == TP_OK) break;
      assert_int_equal(status, TP_ERR_NO_MEMORY);
      assert_int_equal(out.kind, 77);
    }
  }
}

TEST(the_ops_take_in_a_phase_and_name_kinds) {
  assert_ptr_equal(tp__contribution_ops_phases.copy, tp__contribution_take);
  assert_ptr_equal(tp__contribution_ops_phases.kind_name, tp__kind_name);
}
