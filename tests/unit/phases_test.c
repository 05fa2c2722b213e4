/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "phases/merge/phases.h"

enum { GATHER = TP_MODE_GATHER, CHAIN = TP_MODE_CHAIN, OBSERVE = TP_MODE_OBSERVE };
enum { REPLACE = 1, STOP = 2, ASK = 4, REVERSE = 8, PRIVILEGED = 16, CODE_ONLY = 32, GRANTED = 64, NO_SESSION = 128 };
#define BIT(kind) (1u << TP_CONTRIBUTION_##kind)

/* The table of the design, written down a second time. */
static const struct {
  const char *name;
  unsigned mode, traits, kinds, limit_ms;
  bool required;
} expected[] = {
    {"agent.build", CHAIN, REPLACE | NO_SESSION, BIT(PROMPT_SECTION), 5000, false},
    {"agent.register", CHAIN, STOP | NO_SESSION, 0, 5000, true},
    {"agent.unregister", CHAIN, REVERSE | NO_SESSION, 0, 5000, false},
    {"session.start", GATHER, 0, BIT(PROMPT_CONTEXT) | BIT(REMINDER), 5000, false},
    {"turn.intake", CHAIN, REPLACE | STOP, BIT(SIGNAL) | BIT(REMINDER) | BIT(PROMPT_CONTEXT), 5000, false},
    {"turn.pre_policy", GATHER, 0, BIT(POLICY), 1000, true},
    {"turn.pre_prompt_context", GATHER, 0, BIT(PROMPT_CONTEXT), 1000, false},
    {"turn.pre_tool_materialization", GATHER, 0, BIT(TOOL_BUNDLE), 1000, true},
    {"turn.pre_prompt_compile", GATHER, 0, BIT(PROMPT_SECTION) | BIT(MANIFEST_DIAGNOSTIC), 1000, true},
    {"turn.post_prompt_compile", CHAIN, REPLACE | PRIVILEGED, 0, 5000, false},
    {"model.pre", GATHER, 0, BIT(REMINDER) | BIT(PROMPT_CONTEXT), 5000, false},
    {"model.response", CHAIN, REPLACE | STOP | PRIVILEGED, 0, 5000, false},
    {"model.post", OBSERVE, 0, BIT(REMINDER), 5000, false},
    {"tool.create", CHAIN, STOP | ASK, BIT(SIGNAL), 5000, true},
    {"tool.rewrite", CHAIN, REPLACE | STOP | ASK | CODE_ONLY | GRANTED, BIT(REMINDER), 5000, true},
    {"tool.pre", CHAIN, STOP | ASK, BIT(SIGNAL) | BIT(REMINDER), 5000, true},
    {"tool.result", CHAIN, REPLACE | CODE_ONLY, BIT(REMINDER), 5000, false},
    {"tool.post", OBSERVE, 0, BIT(REMINDER), 5000, false},
    {"tool.batch", CHAIN, STOP, BIT(REMINDER), 5000, false},
    {"turn.pre_compaction", CHAIN, STOP, 0, 5000, false},
    {"turn.post_turn", GATHER, 0, BIT(BACKGROUND_JOB), 5000, false},
    {"session.end", OBSERVE, 0, BIT(BACKGROUND_JOB), 5000, false},
    {"runtime.error", OBSERVE, 0, 0, 5000, false},
    {"turn.stop", CHAIN, STOP, BIT(REMINDER), 5000, false},
    {"tool.ask", CHAIN, REPLACE | STOP, BIT(REMINDER), 5000, false},
    {"tool.denied", OBSERVE, 0, BIT(REMINDER), 5000, false},
    {"turn.post_compaction", OBSERVE, 0, 0, 5000, false},
    {"model.request", CHAIN, REPLACE | STOP | PRIVILEGED, 0, 5000, false},
};
enum { PHASE_COUNT = sizeof expected / sizeof *expected };

static unsigned traits_of(const tp_phase *row) {
  return (row->replace ? REPLACE : 0u) | (row->stop ? STOP : 0u) | (row->ask ? ASK : 0u) |
         (row->reverse ? REVERSE : 0u) | (row->privileged ? PRIVILEGED : 0u) | (row->code_only ? CODE_ONLY : 0u) |
         (row->rewrite_granted ? GRANTED : 0u) | (row->no_session ? NO_SESSION : 0u);
}

TEST(every_row_says_what_the_design_says) {
  assert_int_equal(PHASE_COUNT, TP__PHASE_LAST);
  for (uint32_t i = 0; i < PHASE_COUNT; i++) {
    const tp_phase *row = &tp__phase_rows[i + 1];
    assert_string_equal(row->name, expected[i].name);
    assert_int_equal(row->struct_size, sizeof(tp_phase));
    assert_int_equal(row->mode, expected[i].mode);
    assert_int_equal(traits_of(row), expected[i].traits);
    assert_int_equal(row->kinds, expected[i].kinds);
    assert_int_equal(row->limit_ms, expected[i].limit_ms);
    assert_int_equal(row->failure, expected[i].required ? TP_FAILURE_REQUIRED : TP_FAILURE_BEST_EFFORT);
  }
}

TEST(the_row_of_no_phase_is_empty) {
  assert_null(tp__phase_rows[TP_PHASE_NONE].name);
  assert_int_equal(tp__phase_rows[TP_PHASE_NONE].field_count, 0);
}

static bool carries(const tp_phase *row, uint32_t field) {
  for (size_t i = 0; i < row->field_count; i++) {
    if (row->fields[i] == field) return true;
  }
  return false;
}

TEST(payload_fields_are_known_and_named_once) {
  for (uint32_t phase = 1; phase <= PHASE_COUNT; phase++) {
    const tp_phase *row = &tp__phase_rows[phase];
    assert_true(row->field_count > 0);
    for (size_t i = 0; i < row->field_count; i++) {
      assert_in_range(row->fields[i], TP_FIELD_NONE + 1, TP_FIELD_HOST - 1);
      for (size_t j = 0; j < i; j++) assert_int_not_equal(row->fields[i], row->fields[j]);
    }
  }
}

TEST(only_chains_that_replace_have_replaceable_fields_and_they_are_carried) {
  for (uint32_t phase = 1; phase <= PHASE_COUNT; phase++) {
    const tp_phase *row = &tp__phase_rows[phase];
    assert_int_equal(row->replaceable_count > 0, row->replace);
    for (size_t i = 0; i < row->replaceable_count; i++) assert_true(carries(row, row->replaceable[i]));
  }
}

TEST(only_chains_stop_replace_ask_and_reverse) {
  for (uint32_t phase = 1; phase <= PHASE_COUNT; phase++) {
    const tp_phase *row = &tp__phase_rows[phase];
    if (row->mode != TP_MODE_CHAIN) assert_int_equal(traits_of(row), 0);
    if (row->ask) assert_true(row->stop && strncmp(row->name, "tool.", 5) == 0);
    if (row->mode == TP_MODE_OBSERVE) assert_int_not_equal(row->failure, TP_FAILURE_REQUIRED);
  }
}

static const tp__alias *find_alias(const char *name) {
  for (size_t i = 0; i < TP__PHASE_ALIAS_COUNT; i++) {
    if (strcmp(tp__phase_aliases[i].name, name) == 0) return &tp__phase_aliases[i];
  }
  return NULL;
}

TEST(every_alias_of_the_design_leads_to_its_phase) {
  static const struct {
    const char *name, *phase;
    uint32_t flags;
  } aliases[] = {
      {"onIntake", "turn.intake", 0},
      {"user.prompt.submit", "turn.intake", 0},
      {"PromptSubmit", "turn.intake", 0},
      {"preprocess", "turn.intake", 0},
      {"onContextAssembled", "model.request", 0},
      {"onModelResponse", "model.response", 0},
      {"onToolResult", "tool.result", 0},
      {"onTurnComplete", "turn.post_turn", TP__ALIAS_SEQUENTIAL},
      {"PreAbilityCreate", "tool.create", 0},
      {"PreAbilityCall", "tool.pre", 0},
      {"PostAbilityCall", "tool.post", TP__ALIAS_INFRA},
      {"SessionStop", "session.end", TP__ALIAS_INFRA},
      {"error", "runtime.error", TP__ALIAS_SEQUENTIAL},
      {"on_build_agent", "agent.build", 0},
      {"system_prompt", "agent.build", 0},
      {"on_register_agent", "agent.register", 0},
      {"on_unregister_agent", "agent.unregister", 0},
  };
  assert_int_equal(sizeof aliases / sizeof *aliases, TP__PHASE_ALIAS_COUNT);
  for (size_t i = 0; i < TP__PHASE_ALIAS_COUNT; i++) {
    const tp__alias *alias = find_alias(aliases[i].name);
    assert_non_null(alias);
    assert_string_equal(tp__phase_rows[alias->phase].name, aliases[i].phase);
    assert_int_equal(alias->flags, aliases[i].flags);
  }
}

TEST(no_alias_is_a_phase_name_and_no_name_comes_twice) {
  for (size_t i = 0; i < TP__PHASE_ALIAS_COUNT; i++) {
    assert_ptr_equal(find_alias(tp__phase_aliases[i].name), &tp__phase_aliases[i]);
    for (uint32_t phase = 1; phase <= PHASE_COUNT; phase++) {
      assert_string_not_equal(tp__phase_aliases[i].name, tp__phase_rows[phase].name);
    }
  }
}

TEST(each_kind_of_signal_has_one_phase_of_ours_and_every_phase_of_a_host) {
  static const struct {
    const char *kind;
    uint32_t phase;
  } places[] = {
      {"routing_hint", TP_PHASE_TURN_INTAKE},
      {"normalized_intent", TP_PHASE_TURN_INTAKE},
      {"ability_preflight", TP_PHASE_TOOL_CREATE},
      {"ability_guard", TP_PHASE_TOOL_PRE},
  };
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    tp_text kind = tp_text_of(places[i].kind);
    for (uint32_t phase = 0; phase <= PHASE_COUNT; phase++) {
      assert_int_equal(tp__phase_takes_signal(phase, kind), phase == places[i].phase);
    }
    assert_true(tp__phase_takes_signal(TP_PHASE_HOST, kind));
    assert_true(tp__phase_takes_signal(TP_PHASE_LIMIT - 1, kind));
  }
  assert_false(tp__phase_takes_signal(TP_PHASE_TURN_INTAKE, tp_text_of("Routing_Hint")));
  assert_false(tp__phase_takes_signal(TP_PHASE_HOST, tp_text_of("")));
}

/* ---- docs/phases.md ---- */

enum { DOC_SIZE = 64 << 10 };

static void add(char *text, const char *format, ...) {
  size_t size = strlen(text);
  va_list args;
  va_start(args, format);
  vsnprintf(text + size, DOC_SIZE - size, format, args);
  va_end(args);
}

static void add_traits(char *text, const tp_phase *row) {
  static const char *const modes[] = {"", "gather", "chain", "observe"};
  add(text, "%s%s%s%s%s%s%s", modes[row->mode], row->replace ? ", replace" : "", row->stop ? ", stop" : "",
      row->ask ? ", ask" : "", row->reverse ? ", reverse" : "", row->privileged ? ", privileged" : "",
      row->code_only ? ", code only" : "");
}

static bool may_be_replaced(const tp_phase *row, uint32_t field) {
  for (size_t i = 0; i < row->replaceable_count; i++) {
    if (row->replaceable[i] == field) return true;
  }
  return false;
}

/* The table of the phases as the document has it. */
static void write_phase_table(char *text) {
  add(text, "| phase | mode | payload |\n|---|---|---|\n");
  for (uint32_t phase = 1; phase <= PHASE_COUNT; phase++) {
    const tp_phase *row = &tp__phase_rows[phase];
    add(text, "| %s | ", row->name);
    add_traits(text, row);
    for (size_t i = 0; i < row->field_count; i++)
      add(text, "%s%s%s", i ? ", " : " | ", tp_field_name(row->fields[i]),
          may_be_replaced(row, row->fields[i]) ? "\\*" : "");
    add(text, " |\n");
  }
}

static void write_field_table(char *text) {
  static const char *const kinds[] = {"", "text", "int", "value"};
  add(text, "| number | field | kind |\n|---|---|---|\n");
  for (uint32_t field = 1; tp_field_name(field); field++)
    add(text, "| %u | %s | %s |\n", field, tp_field_name(field), kinds[tp_field_kind(field)]);
}

TEST(the_document_has_every_phase_and_field) {
  static char document[DOC_SIZE], tables[2][DOC_SIZE];
  char path[4096];
  const char *source = getenv("TURNPHASE_SOURCE");
  assert_non_null(source); /* the build sets it */
  snprintf(path, sizeof path, "%s/docs/phases.md", source);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  document[fread(document, 1, sizeof document - 1, file)] = '\0';
  fclose(file);
  write_phase_table(tables[0]);
  write_field_table(tables[1]);
  for (int i = 0; i < 2; i++)
    if (!strstr(document, tables[i])) fail_msg("docs/phases.md lacks this table of ours:\n%s", tables[i]);
}
