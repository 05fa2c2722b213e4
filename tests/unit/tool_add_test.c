/* SPDX-License-Identifier: Apache-2.0
 *
 * tp_tool_add(): one call registers a tool, which every later turn has until it is removed. The tool is taken once, on
 * success only. */
#include "tests/support/test.h"

#include "tests/support/host.h"
#include "turnphase/inbox.h"
#include "turnphase/task.h"
#include "turnphase/value.h"

typedef struct thing {
  _Atomic int runs, destroys;
  latch entered, go;
  bool waits;
} thing;

static tp_answer run_thing(void *ctx, tp_tool_run *run) {
  thing *t = ctx;
  t->runs++;
  latch_hit(&t->entered);
  if (t->waits) latch_wait(&t->go, 1);
  return tp_tool_ok(run, tp_text_of("ran"));
}

static void destroy_thing(void *ctx) { ((thing *)ctx)->destroys++; }

static thing new_thing(void) { return (thing){.entered = LATCH, .go = LATCH}; }

static tp_tool tool_of(const char *name, thing *t) {
  return (tp_tool){.struct_size = sizeof(tp_tool),
                   .name = name,
                   .description = "does it",
                   .run = run_thing,
                   .ctx = t,
                   .destroy = destroy_thing};
}

static tp_tool_result_kind call(tp_runtime *runtime, const char *name) {
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = name};
  const tp_task_result *result = NULL;
  tp_fault fault = {0};
  if (tp_task_call(runtime, &spec, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_tool_result_kind kind = result->kind;
  tp_task_result_free(result);
  return kind;
}

#define assert_calls(runtime, name, want) \
  assert_string_equal(tp_tool_result_name(call(runtime, name)), tp_tool_result_name(want))

TEST(tool_is_there_from_its_add_until_its_remove) {
  tp_runtime *runtime = open_runtime(NULL);
  thing t = new_thing();
  tp_tool tool = tool_of("deploy", &t);
  assert_calls(runtime, "deploy", TP_TOOL_UNKNOWN_TOOL);
  assert_int_equal(tp_tool_add(runtime, &tool, NULL), TP_OK);
  for (int i = 0; i < 3; i++) assert_calls(runtime, "deploy", TP_TOOL_OK);
  assert_int_equal(t.runs, 3);
  assert_int_equal(t.destroys, 0);
  assert_int_equal(tp_tool_remove(runtime, "deploy", NULL), TP_OK);
  assert_calls(runtime, "deploy", TP_TOOL_UNKNOWN_TOOL);
  assert_int_equal(t.destroys, 1);
  assert_int_equal(tp_tool_remove(runtime, "deploy", NULL), TP_ERR_NOT_FOUND);
  assert_int_equal(tp_tool_add(runtime, &tool, NULL), TP_OK); /* its name is free again */
  close_runtime(runtime);
  assert_int_equal(t.destroys, 2);
}

TEST(many_tools_stand_beside_each_other_and_beside_bundles) {
  enum { TOOLS = 40 };
  static thing things[TOOLS];
  tp_runtime *runtime = open_runtime(NULL);
  char names[TOOLS][16];
  for (int i = 0; i < TOOLS; i++) {
    things[i] = new_thing();
    snprintf(names[i], sizeof names[i], "t%d", i);
    tp_tool tool = tool_of(names[i], &things[i]);
    tool.placement = i % 2 ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD;
    assert_int_equal(tp_tool_add(runtime, &tool, NULL), TP_OK);
  }
  for (int i = 0; i < TOOLS; i++) assert_calls(runtime, names[i], TP_TOOL_OK);
  for (int i = 0; i < TOOLS; i += 2) assert_int_equal(tp_tool_remove(runtime, names[i], NULL), TP_OK);
  for (int i = 0; i < TOOLS; i++) assert_calls(runtime, names[i], i % 2 ? TP_TOOL_OK : TP_TOOL_UNKNOWN_TOOL);
  close_runtime(runtime);
  for (int i = 0; i < TOOLS; i++) assert_int_equal(things[i].destroys, 1);
}

/* What a submitted task comes to. */
typedef struct end {
  latch ended;
  tp_tool_result_kind kind;
} end;

static void on_end(void *ctx, const tp_task_result *result) {
  end *e = ctx;
  e->kind = result->kind;
  latch_hit(&e->ended);
}

TEST(turn_that_runs_keeps_a_tool_that_is_removed) {
  tp_runtime *runtime = open_runtime(NULL);
  thing t = new_thing();
  end e = {.ended = LATCH};
  t.waits = true;
  tp_tool tool = tool_of("slow", &t);
  assert_int_equal(tp_tool_add(runtime, &tool, NULL), TP_OK);
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "slow"};
  assert_int_equal(tp_task_submit(runtime, TP_TASK_CALL, &spec, on_end, &e, NULL, NULL), TP_OK);
  latch_wait(&t.entered, 1);
  assert_int_equal(tp_tool_remove(runtime, "slow", NULL), TP_OK);
  assert_int_equal(t.destroys, 0);
  latch_hit(&t.go);
  latch_wait(&e.ended, 1);
  assert_int_equal(e.kind, TP_TOOL_OK);
  close_runtime(runtime);
  assert_int_equal(t.destroys, 1);
}

/* The function is given up, and goes on after the turn and the tool. */
TEST(abandoned_run_keeps_its_tool) {
  tp_runtime *runtime = open_runtime(NULL);
  thing t = new_thing();
  t.waits = true;
  tp_tool tool = tool_of("stuck", &t);
  tool.limit_ms = 20;
  assert_int_equal(tp_tool_add(runtime, &tool, NULL), TP_OK);
  assert_calls(runtime, "stuck", TP_TOOL_TIMED_OUT);
  assert_int_equal(tp_tool_remove(runtime, "stuck", NULL), TP_OK);
  assert_int_equal(t.destroys, 0);
  latch_hit(&t.go);
  close_runtime(runtime);
  assert_int_equal(t.destroys, 1);
}

TEST(tool_with_an_inbox_waits_there) {
  tp_runtime *runtime = open_runtime(NULL);
  thing t = new_thing();
  end e = {.ended = LATCH};
  tp_inbox *inbox;
  const tp_work *work = NULL;
  assert_int_equal(tp_inbox_new(runtime, NULL, &inbox, NULL), TP_OK);
  tp_tool tool = tool_of("mail", &t);
  tool.run = NULL;
  tool.inbox = inbox;
  assert_int_equal(tp_tool_add(runtime, &tool, NULL), TP_OK);
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "mail"};
  assert_int_equal(tp_task_submit(runtime, TP_TASK_CALL, &spec, on_end, &e, NULL, NULL), TP_OK);
  while (!work) assert_int_equal(tp_inbox_next(inbox, &work), TP_OK);
  assert_int_equal(work->kind, TP_WORK_TOOL);
  assert_ptr_equal(work->ctx, &t);
  assert_int_equal(tp_tool_complete(work->token, false, tp_text_of("by mail"), NULL), TP_OK);
  latch_wait(&e.ended, 1);
  assert_int_equal(e.kind, TP_TOOL_OK);
  tp_inbox_free(inbox); /* the tool goes on, and is shed */
  assert_calls(runtime, "mail", TP_TOOL_SHED);
  close_runtime(runtime);
  assert_int_equal(t.destroys, 1);
}

TEST(wrong_tools_are_refused_and_not_taken) {
  tp_runtime *runtime = open_runtime(NULL), *other = open_runtime(NULL);
  thing t = new_thing();
  tp_inbox *inbox, *foreign;
  char long_name[TP_ID_BYTES_MAX + 1];
  memset(long_name, 'n', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  assert_int_equal(tp_inbox_new(runtime, NULL, &inbox, NULL), TP_OK);
  assert_int_equal(tp_inbox_new(other, NULL, &foreign, NULL), TP_OK);
  tp_tool tools[12];
  for (size_t i = 0; i < COUNT(tools); i++) tools[i] = tool_of("t", &t);
  tools[0].name = NULL;
  tools[1].name = "a b";
  tools[2].name = long_name;
  tools[3].run = NULL;
  tools[4].inbox = inbox;
  tools[5].placement = TP_PLACEMENT_PARALLEL;
  tools[6].schema = (tp_text)TEXT("\x91\x01");
  tools[7].read_key = "a//b";
  tools[8].description = "\xc0\x80";
  tools[9].struct_size = 3;
  tools[10].name = "there";
  tools[11].run = NULL;
  tools[11].inbox = foreign;
  const struct {
    tp_status want;
    const char *words;
  } wants[COUNT(tools)] = {
      {TP_ERR_BAD_ID, "name"},           {TP_ERR_BAD_ID, "name"},        {TP_ERR_BAD_ID, "123"},
      {TP_ERR_MALFORMED, "no function"}, {TP_ERR_MALFORMED, "one of"},   {TP_ERR_MALFORMED, "placement"},
      {TP_ERR_BAD_SCHEMA, "t"},          {TP_ERR_MALFORMED, "read_key"}, {TP_ERR_MALFORMED, "UTF-8"},
      {TP_ERR_VERSION, "tp_tool"},       {TP_ERR_DUPLICATE_ID, "there"}, {TP_ERR_MALFORMED, "another runtime"}};
  tp_tool there = tool_of("there", NULL);
  there.destroy = NULL;
  assert_int_equal(tp_tool_add(runtime, &there, NULL), TP_OK);
  for (size_t i = 0; i < COUNT(tools); i++) {
    tp_fault fault = {0};
    tp_status status = tp_tool_add(runtime, &tools[i], &fault);
    if (status != wants[i].want || !strstr(fault.message, wants[i].words))
      fail_msg("%zu: %s: %s", i, tp_status_name(status), fault.message);
  }
  assert_int_equal(tp_tool_add(runtime, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_tool_remove(runtime, "a b", NULL), TP_ERR_BAD_ID);
  assert_int_equal(tp_tool_remove(runtime, NULL, NULL), TP_ERR_BAD_ID);
  close_runtime(runtime);
  close_runtime(other);
  tp_inbox_free(inbox);
  tp_inbox_free(foreign);
  assert_int_equal(t.destroys, 0);
}

static void *add_and_remove(void *ctx) {
  tp_runtime *runtime = ctx;
  static _Atomic int number;
  for (int i = 0; i < 50; i++) {
    char name[16];
    snprintf(name, sizeof name, "x%d", ++number);
    tp_tool tool = tool_of(name, NULL);
    tool.destroy = NULL;
    if (tp_tool_add(runtime, &tool, NULL) != TP_OK || tp_tool_remove(runtime, name, NULL) != TP_OK) abort();
  }
  return NULL;
}

TEST(threads_that_add_and_remove_at_once_all_succeed) {
  tp_runtime *runtime = open_runtime(NULL);
  pthread_t threads[4];
  for (size_t i = 0; i < COUNT(threads); i++)
    assert_int_equal(pthread_create(&threads[i], NULL, add_and_remove, runtime), 0);
  for (size_t i = 0; i < COUNT(threads); i++) pthread_join(threads[i], NULL);
  close_runtime(runtime);
}

static tp_tool_result_kind call_with(tp_runtime *runtime, const char *name, const char *json) {
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = name};
  const tp_task_result *result = NULL;
  tp_writer *writer;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  assert_int_equal(tp_json_decode(tp_text_of(json), writer, NULL), TP_OK);
  assert_int_equal(tp_writer_finish(writer, &spec.arguments), TP_OK);
  assert_int_equal(tp_task_call(runtime, &spec, &result, NULL), TP_OK);
  tp_tool_result_kind kind = result->kind;
  tp_task_result_free(result);
  tp_writer_free(writer);
  return kind;
}

TEST(schema_in_json_checks_arguments) {
  tp_runtime *runtime = open_runtime(NULL);
  thing t = new_thing();
  tp_tool tool = tool_of("forecast", &t);
  char json[] =
      "{\"type\": \"object\", \"required\": [\"city\"], \"properties\": {\"city\": {\"type\": \"string\"},"
      " \"days\": {\"type\": \"integer\", \"minimum\": 1}}}";
  tool.schema_json = json;
  assert_int_equal(tp_tool_add(runtime, &tool, NULL), TP_OK);
  memset(json, 'x', sizeof json - 1); /* it was copied */
  assert_int_equal(call_with(runtime, "forecast", "{\"city\": \"Oslo\", \"days\": 2}"), TP_TOOL_OK);
  assert_int_equal(call_with(runtime, "forecast", "{\"city\": 7}"), TP_TOOL_INVALID_ARGUMENTS);
  assert_int_equal(call_with(runtime, "forecast", "{\"city\": \"Oslo\", \"days\": 0}"), TP_TOOL_INVALID_ARGUMENTS);
  assert_int_equal(call_with(runtime, "forecast", "{}"), TP_TOOL_INVALID_ARGUMENTS);
  assert_int_equal(t.runs, 1);
  close_runtime(runtime);
}

TEST(schema_in_json_that_is_wrong_is_refused) {
  static const struct {
    const char *json, *words;
  } rows[] = {{"", "a value must stand here"},
              {"{\"type\": \"object\"", "',' or '}' must stand here"},
              {"{\n\"type\": 'object'}", "double quotes"},
              {"{\"type\": \"object\", \"type\": \"object\"}", "in this object already"},
              {"{} {}", "only blanks"},
              {"[]", "schema"},
              {"\"object\"", "schema"},
              {"{\"type\": \"thing\"}", "schema"},
              {"{\"minLength\": \"1\"}", "schema.minLength"},
              {"{\"required\": [1]}", "schema"}};
  tp_runtime *runtime = open_runtime(NULL);
  thing t = new_thing();
  tp_tool tool = tool_of("forecast", &t);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tp_fault fault = {0};
    tool.schema_json = rows[i].json;
    tp_status status = tp_tool_add(runtime, &tool, &fault);
    bool is_refused = status == TP_ERR_BAD_SCHEMA && strstr(fault.message, rows[i].words) != NULL;
    if (!is_refused) fail_msg("%s: %s: %s", rows[i].json, tp_status_name(status), fault.message);
  }
  tool.schema_json = "{}";
  tool.schema = (tp_text){"\x80", 1};
  tp_fault fault = {0};
  assert_int_equal(tp_tool_add(runtime, &tool, &fault), TP_ERR_MALFORMED);
  assert_non_null(strstr(fault.message, "set one of the two"));
  assert_int_equal(t.destroys, 0);
  close_runtime(runtime);
}

/* ---- what a run reads of its turn ---- */

typedef struct seen {
  char name[32], mode[32], agent[64];
  tp_caller caller;
  _Atomic int runs;
} seen;

static void copy(char *to, size_t size, tp_text text) {
  snprintf(to, size, "%.*s", (int)text.size, text.size ? text.data : "");
}

static tp_answer look(void *ctx, tp_tool_run *run) {
  seen *s = ctx;
  copy(s->name, sizeof s->name, tp_tool_run_name(run));
  copy(s->mode, sizeof s->mode, tp_tool_run_mode(run));
  copy(s->agent, sizeof s->agent, tp_value_text(tp_value_get(tp_tool_run_agent_config(run), "system")));
  s->caller = tp_tool_run_caller(run);
  s->runs++;
  return tp_tool_ok(run, tp_text_of("seen"));
}

TEST(one_function_serves_several_tools_and_reads_its_turn) {
  tp_runtime *runtime = open_runtime(NULL);
  seen s = {.runs = 0};
  const char *const names[] = {"first", "second", "third"};
  tp_agent_config config = {.struct_size = sizeof config, .id = "ops", .system = "be brief"};
  tp_agent *agent;
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
  for (size_t i = 0; i < COUNT(names); i++) {
    tp_tool tool = {.struct_size = sizeof tool,
                    .name = names[i],
                    .run = look,
                    .ctx = &s,
                    .placement = i % 2 ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD};
    assert_int_equal(tp_tool_add(runtime, &tool, NULL), TP_OK);
  }
  for (size_t i = 0; i < 2 * COUNT(names); i++) {
    bool has_more = i >= COUNT(names);
    tp_turn_request request = {.struct_size = sizeof request,
                               .mode = has_more ? "plan" : NULL,
                               .caller = has_more ? TP_CALLER_CI_PIPELINE : TP_CALLER_AI_SESSION};
    tp_task_spec spec = {.struct_size = sizeof spec,
                         .tool = names[i % COUNT(names)],
                         .agent = has_more ? "ops" : NULL,
                         .request = &request};
    assert_int_equal(tp_task_call(runtime, &spec, NULL, NULL), TP_OK);
    assert_int_equal(s.runs, i + 1);
    assert_string_equal(s.name, names[i % COUNT(names)]);
    assert_string_equal(s.mode, has_more ? "plan" : "");
    assert_string_equal(s.agent, has_more ? "be brief" : "");
    assert_int_equal(s.caller, request.caller);
  }
  close_runtime(runtime);
}

/* ---- schemas of others ---- */

typedef struct said {
  _Atomic int unchecked;
  char words[256];
} said;

static void hear(void *ctx, const tp_log_record *record) {
  said *s = ctx;
  if (!strstr(record->message, "not checked")) return;
  s->unchecked++;
  snprintf(s->words, sizeof s->words, "%s", record->message);
}

static tp_answer emit_two(void *ctx, tp_call *call) {
  thing *things = ctx;
  tp_tool whole = tool_of("whole", &things[0]), flawed = tool_of("flawed", &things[1]);
  whole.schema_json = "{\"type\": \"object\", \"properties\": {\"at\": {\"format\": \"uri\"}}}";
  flawed.schema_json = "{\"type\": \"object\", \"required\": \"at\"}";
  const tp_tool *tools[] = {&flawed, &whole};
  return tp_call_emit_tool_bundle(call, "b", tools, 2, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

TEST(malformed_schema_in_a_bundle_costs_its_tool_only) {
  said s = {0};
  tp_runtime *runtime = open_runtime(&(tp_runtime_options){
      .struct_size = sizeof(tp_runtime_options), .log = hear, .log_ctx = &s, .log_level = TP_LOG_INFO});
  thing things[] = {new_thing(), new_thing()};
  tp_hook bringer = {.struct_size = sizeof bringer,
                     .id = "bringer",
                     .phase = "turn.pre_tool_materialization",
                     .run = emit_two,
                     .ctx = things,
                     .capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE};
  assert_int_equal(tp_hook_add(runtime, &bringer, NULL), TP_OK);
  for (int i = 1; i <= 3; i++) {
    assert_calls(runtime, "flawed", TP_TOOL_UNKNOWN_TOOL);
    assert_calls(runtime, "whole", TP_TOOL_OK);
    assert_int_equal(things[0].runs, i);
  }
  assert_int_equal(things[1].runs, 0);
  assert_int_equal(s.unchecked, 1); /* once, however often it is called */
  assert_string_equal(s.words, "tool whole of host: calls are not checked by these parts of its schema: format uri");
  assert_int_equal(things[0].destroys, 6); /* of each of the six turns */
  assert_int_equal(things[1].destroys, 6);
  close_runtime(runtime);
}
