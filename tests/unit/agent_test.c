/* SPDX-License-Identifier: Apache-2.0
 *
 * Agents: built, registered or refused, used by sessions, removed. */
#include <sys/utsname.h>

#include "tests/support/test.h"
#include "tests/support/model.h"

static tp_agent_config config_of(const char *id) {
  return (tp_agent_config){
      .struct_size = sizeof(tp_agent_config), .id = id, .system = "You are kind.", .model_name = "m1"};
}

static tp_session *open_with(tp_runtime *runtime, tp_agent *agent) {
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options, .id = "s", .agent = agent};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  return session;
}

static void say(tp_session *session, const char *text) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  const tp_turn_result *result = NULL;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
}

static const reply hello[] = {{.text = "hello"}};

static tp_answer note_agent(void *ctx, tp_call *call) {
  tp_text id = tp_call_id(call, TP_ID_AGENT);
  snprintf(ctx, 32, "%.*s", (int)id.size, id.data);
  return TP_ANSWER_DONE;
}

TEST(agent_gives_its_sessions_system_text_and_model) {
  tp_runtime *runtime = open_runtime(NULL);
  recorder *model = recorder_new(hello, 1);
  static const tp_contribution section = {.struct_size = sizeof(tp_contribution),
                                          .kind = TP_CONTRIBUTION_PROMPT_SECTION,
                                          .key = TEXT("s"),
                                          .text = TEXT("Be brief.")};
  act build = {.emits = &section, .emit_count = 1};
  char seen[32] = "";
  hook hooks[] = {{.id = "build", .phase = TP_PHASE_AGENT_BUILD, .ctx = &build},
                  {.id = "intake", .phase = TP_PHASE_TURN_INTAKE, .run = note_agent, .ctx = seen}};
  add_hooks(runtime, hooks, 2);
  tp_agent_config config = config_of("a1");
  config.model = recorder_model(model, true);
  tp_agent *agent;
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
  assert_int_equal(build.calls, 1);
  tp_session *session = open_with(runtime, agent);
  say(session, "hi");
  assert_string_equal(seen, "a1");
  const char *standing = strstr(model->requests[0], "You are kind.");
  assert_non_null(standing);
  assert_non_null(strstr(standing, "Be brief.")); /* it is appended, in each request of the agent */
  assert_int_equal(build.calls, 1);
  tp_agent_remove(agent); /* the session keeps it till it closes */
  say(session, "still there?");
  assert_int_equal(model->destroys, 0);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  assert_int_equal(model->destroys, 1);
  recorder_free(model);
}

TEST(agent_that_is_refused_leaves_its_model_with_the_host) {
  static const struct {
    act act;
    uint32_t phase;
    tp_failure failure;
    tp_status status;
  } cases[] = {
      {{.kind = TP_ANSWER_DENY, .reason = "not this one"}, TP_PHASE_AGENT_REGISTER, TP_FAILURE_DEFAULT, TP_ERR_DENIED},
      {{.kind = TP_ANSWER_FAILED, .reason = "ill"},
       TP_PHASE_AGENT_REGISTER,
       TP_FAILURE_DEFAULT,
       TP_ERR_DENIED}, /* a stop chain denies */
      {{.kind = TP_ANSWER_FAILED, .reason = "ill"}, TP_PHASE_AGENT_BUILD, TP_FAILURE_REQUIRED, TP_ERR_HOOK},
      {{.kind = TP_ANSWER_FAILED, .reason = "ill"}, TP_PHASE_AGENT_BUILD, TP_FAILURE_BEST_EFFORT, TP_OK},
      {{.kind = TP_ANSWER_ALLOW}, TP_PHASE_AGENT_REGISTER, TP_FAILURE_DEFAULT, TP_OK},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_runtime *runtime = open_runtime(NULL);
    recorder *model = recorder_new(hello, 1);
    act a;
    memcpy(&a, &cases[i].act, sizeof a);
    hook h = {.id = "judge", .phase = cases[i].phase, .ctx = &a, .sub = {.failure = cases[i].failure}};
    add_hooks(runtime, &h, 1);
    tp_agent_config config = config_of("a1");
    config.model = recorder_model(model, true);
    tp_agent *agent = NULL;
    tp_fault fault = {0};
    assert_int_equal(tp_agent_add(runtime, &config, &agent, &fault), cases[i].status);
    if (cases[i].status != TP_OK) {
      assert_null(agent);
      assert_non_null(strstr(fault.message, "judge"));
      assert_int_equal(fault.code, cases[i].status);
    }
    close_runtime(runtime);
    assert_int_equal(model->destroys, cases[i].status == TP_OK ? 1 : 0);
    recorder_free(model);
  }
}

TEST(ids_of_agents_are_checked) {
  tp_runtime *runtime = open_runtime(NULL);
  act unregister = {0};
  add_hooks(runtime, &(hook){.id = "u", .phase = TP_PHASE_AGENT_UNREGISTER, .ctx = &unregister}, 1);
  tp_agent_config config = config_of("a 1");
  tp_agent *agent = NULL, *second = NULL;
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_ERR_BAD_ID);
  assert_int_equal(tp_agent_add(runtime, NULL, &agent, NULL), TP_ERR_BAD_ID);
  config = config_of("a1");
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
  assert_int_equal(tp_agent_add(runtime, &config, &second, NULL), TP_ERR_DUPLICATE_ID);
  assert_null(second);
  assert_int_equal(unregister.calls, 0); /* the second was refused before it could disturb the first */
  tp_agent_remove(agent);
  assert_int_equal(unregister.calls, 1);
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
  tp_agent_remove(agent);
  tp_agent_remove(NULL);
  close_runtime(runtime);
}

TEST(agents_that_are_left_end_with_the_runtime) {
  tp_runtime *runtime = open_runtime(NULL);
  recorder *model = recorder_new(hello, 1);
  tp_agent_config config = config_of("a1");
  config.model = recorder_model(model, false);
  tp_agent *agent;
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
  tp_session *session = open_with(runtime, agent);
  say(session, "hi");
  close_runtime(runtime); /* with the session open */
  assert_int_equal(model->destroys, 1);
  recorder_free(model);
}

/* ---- the config ---- */

typedef struct note {
  char text[1024];
} note;

static void append(note *n, const char *label, tp_text text) {
  size_t used = strlen(n->text);
  snprintf(n->text + used, sizeof n->text - used, "%s%.*s ", label, (int)text.size, text.size ? text.data : "");
}

static tp_text of_config(tp_text config, const char *key) { return tp_value_text(tp_value_get(config, key)); }

/* {"system": "built", "model": "m2", "tools": ["shell"]} */
static const tp_text built_config = TEXT(
    "\x83\xa6system\xa5"
    "built\xa5model\xa2m2\xa5tools\x91\xa5shell");

static tp_answer replace_config_with_a_number(void *ctx, tp_call *call) {
  (void)ctx;
  tp_field field = {.id = TP_FIELD_AGENT_CONFIG, .kind = TP_FIELD_KIND_VALUE, .text = TEXT("\x07")};
  (void)!tp_call_replace(call, &field, 1, NULL);
  return TP_ANSWER_DONE;
}

static tp_answer replace_config(void *ctx, tp_call *call) {
  append(ctx, "build:", of_config(tp_call_text(call, TP_FIELD_AGENT_CONFIG), "color"));
  tp_field field = {.id = TP_FIELD_AGENT_CONFIG, .kind = TP_FIELD_KIND_VALUE, .text = built_config};
  (void)!tp_call_replace(call, &field, 1, NULL);
  return TP_ANSWER_DONE;
}

static tp_answer read_config(void *ctx, tp_call *call) {
  append(ctx, "register:", of_config(tp_call_text(call, TP_FIELD_AGENT_CONFIG), "system"));
  return TP_ANSWER_DONE;
}

static tp_answer read_config_of_turn(void *ctx, tp_call *call) {
  tp_text tools = tp_value_get(tp_call_agent_config(call), "tools");
  append(ctx, "turn:", tp_value_text(tp_value_at(tools, 0)));
  return TP_ANSWER_DONE;
}

TEST(registration_and_turns_see_the_config_that_build_left) {
  for (int slow = 0; slow < 2; slow++) {
    note n = {.text = ""};
    hook hooks[] = {{.id = "build", .phase = TP_PHASE_AGENT_BUILD, .run = replace_config, .ctx = &n},
                    {.id = "register", .phase = TP_PHASE_AGENT_REGISTER, .run = read_config, .ctx = &n},
                    {.id = "turn", .phase = TP_PHASE_TURN_INTAKE, .run = read_config_of_turn, .ctx = &n, .slow = slow}};
    tp_runtime *runtime = open_runtime(NULL);
    recorder *model = recorder_new(hello, 1);
    add_hooks(runtime, hooks, 3);
    tp_agent_config config = config_of("a1");
    config.model = recorder_model(model, true);
    config.extra = (tp_text)TEXT(
        "\x81\xa5"
        "color\xa4"
        "blue");
    tp_agent *agent;
    assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
    assert_string_equal(tp_agent_id(agent), "a1");
    assert_int_equal(tp_agent_config_get(agent).size, built_config.size);
    assert_memory_equal(tp_agent_config_get(agent).data, built_config.data, built_config.size);
    tp_session *session = open_with(runtime, agent);
    say(session, "hi");
    assert_string_equal(n.text, "build:blue register:built turn:shell ");
    assert_string_equal(model->requests[0], "S<built\n\n<scope>\ntools: [\"shell\"]\n</scope>>U<hi>");
    tp_session_close(session, NULL, NULL);
    tp_agent_remove(agent);
    close_runtime(runtime);
    recorder_free(model);
  }
}

/* {"resources": {"mcp_servers": ["git", "</resources>"], "skills": ["review"]}, "skills": ["review"]} */
static const tp_text with_hints = TEXT(
    "\x82\xa9resources\x82\xabmcp_servers\x92\xa3git\xac</resources>"
    "\xa6skills\x91\xa6review\xa6skills\x91\xa6review");

static const tp_contribution fragment = {.struct_size = sizeof fragment,
                                         .kind = TP_CONTRIBUTION_PROMPT_SECTION,
                                         .key = TEXT("m"),
                                         .title = TEXT("Memory"),
                                         .text = TEXT("Ask it.")};

TEST(system_text_has_environment_fragments_hints_and_scope_in_this_order) {
  setenv("SHELL", "/bin/a shell", 1);
  note n = {.text = ""};
  act emits = {.emits = &fragment, .emit_count = 1};
  hook hooks[] = {{.id = "fragment", .phase = TP_PHASE_AGENT_BUILD, .ctx = &emits}};
  tp_runtime *runtime = open_runtime(NULL);
  recorder *model = recorder_new(hello, 1);
  add_hooks(runtime, hooks, COUNT(hooks));
  tp_agent_config config = config_of("a1");
  config.model = recorder_model(model, true);
  config.environment = true;
  config.extra = with_hints;
  tp_agent *agent;
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
  tp_session *session = open_with(runtime, agent);
  say(session, "hi");
  struct utsname system;
  assert_int_equal(uname(&system), 0);
  snprintf(n.text, sizeof n.text,
           "S<You are kind.\n\n<environment>\nos: \"%s\"\nshell: \"/bin/a shell\"\nplatform: \"%s\"\n</environment>"
           "\n\n## Memory\n\nAsk it.\n\n<resources>\nmcp_servers: [\"git\",\"\\u003c/resources\\u003e\"]\n"
           "skills: [\"review\"]\n</resources>\n\n<scope>\nskills: [\"review\"]\n</scope>>U<hi>",
           system.sysname, system.machine);
  assert_string_equal(model->requests[0], n.text);
  tp_session_close(session, NULL, NULL);
  tp_agent_remove(agent);
  close_runtime(runtime);
  recorder_free(model);
}

static tp_status add_with(tp_runtime *runtime, const tp_agent_config *config, tp_fault *fault) {
  tp_agent *agent = NULL;
  tp_status status = tp_agent_add(runtime, config, &agent, fault);
  if (status == TP_OK) tp_agent_remove(agent);
  return status;
}

TEST(environment_is_the_process_or_the_hosts_own_and_without_a_shell_has_none) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_agent_config config = config_of("a1");
  tp_fault fault = {0};
  config.environment = true;
  config.extra = (tp_text)TEXT(
      "\x81\xab"
      "environment\x81\xa2os\xa1x");
  assert_int_equal(add_with(runtime, &config, &fault), TP_ERR_MALFORMED);
  assert_non_null(strstr(fault.message, "environment"));
  config.environment = false;
  config.reserved_[6] = 1;
  assert_int_equal(add_with(runtime, &config, &fault), TP_ERR_USAGE);
  config = config_of("a1");
  config.environment = true;
  static const char *const shells[] = {NULL, "", "\xff"};
  for (size_t i = 0; i < COUNT(shells); i++) {
    tp_agent *agent;
    if (shells[i]) setenv("SHELL", shells[i], 1);
    else unsetenv("SHELL");
    assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
    tp_text environment = tp_value_get(tp_agent_config_get(agent), "environment");
    assert_int_equal(tp_value_count(environment), 2);
    assert_int_equal(tp_value_get(environment, "shell").size, 0);
    tp_agent_remove(agent);
  }
  close_runtime(runtime);
}

TEST(bad_configs_are_refused) {
  static const struct {
    tp_text extra;
    tp_status status;
  } cases[] = {{TEXT("\x91\x01"), TP_ERR_MALFORMED},
               {TEXT("\xc1"), TP_ERR_MALFORMED},
               {TEXT("\x81\xa6system\xa1x"), TP_ERR_MALFORMED},
               {TEXT("\x81\xa5model\xa1x"), TP_ERR_MALFORMED},
               {TEXT("\x81\xa5tools\xa1x"), TP_ERR_MALFORMED},
               {TEXT("\x81\xa6skills\x91\x01"), TP_ERR_MALFORMED},
               {TEXT("\x81\xa9resources\xa1x"), TP_ERR_MALFORMED},
               {TEXT("\x81\xa9resources\x81\xa3mcp\xa1x"), TP_ERR_MALFORMED},
               {TEXT("\x81\xa9resources\x81\xa3m>p\x91\xa1x"), TP_ERR_MALFORMED},
               {TEXT("\x81\xa9resources\x81\xa0\x91\xa1x"), TP_ERR_MALFORMED},
               {TEXT("\x81\xab"
                     "environment\x91\xa1x"),
                TP_ERR_MALFORMED},
               {TEXT("\x81\xab"
                     "environment\x81\xa2os\x01"),
                TP_ERR_MALFORMED},
               {TEXT("\x81\xab"
                     "environment\x81\xa2os\xa1x"),
                TP_OK},
               {TEXT("\x81\xa5other\x01"), TP_OK}};
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_agent_config config = config_of("a1");
    config.extra = cases[i].extra;
    tp_agent *agent = NULL;
    assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), cases[i].status);
    tp_agent_remove(agent);
  }
  add_hooks(runtime, &(hook){.id = "build", .phase = TP_PHASE_AGENT_BUILD, .run = replace_config_with_a_number}, 1);
  tp_agent_config config = config_of("a1");
  tp_agent *agent = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp_agent_add(runtime, &config, &agent, &fault), TP_ERR_MALFORMED);
  assert_non_null(strstr(fault.message, "no map"));
  assert_int_equal(tp_runtime_agents(runtime, NULL, NULL), 0);
  close_runtime(runtime);
}

/* ---- finding ---- */

static bool note_agent_id(void *ctx, tp_agent *agent) {
  append(ctx, "", tp_text_of(tp_agent_id(agent)));
  return strcmp(tp_agent_id(agent), "a2") != 0;
}

TEST(agents_are_found_by_id_and_listed_in_order) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_agent *agents[3];
  static const char *const ids[] = {"a1", "a2", "a3"};
  for (int i = 0; i < 3; i++) {
    tp_agent_config config = config_of(ids[i]);
    assert_int_equal(tp_agent_add(runtime, &config, &agents[i], NULL), TP_OK);
  }
  note n = {.text = ""};
  assert_int_equal(tp_runtime_agents(runtime, note_agent_id, &n), 2);
  assert_string_equal(n.text, "a1 a2 ");
  assert_int_equal(tp_runtime_agents(runtime, NULL, NULL), 3);
  assert_null(tp_agent_find(runtime, "a4"));
  assert_null(tp_agent_find(runtime, NULL));
  tp_agent *found = tp_agent_find(runtime, "a2");
  assert_ptr_equal(found, agents[1]);
  tp_agent_remove(agents[1]);
  assert_null(tp_agent_find(runtime, "a2"));
  assert_string_equal(tp_agent_id(found), "a2"); /* what was found stays till it is unreferenced */
  tp_agent_unref(found);
  tp_agent_unref(NULL);
  assert_int_equal(tp_runtime_agents(runtime, NULL, NULL), 2);
  tp_agent_remove(agents[0]);
  tp_agent_remove(agents[2]);
  close_runtime(runtime);
}

static bool note_and_remove(void *ctx, tp_agent *agent) {
  append(ctx, "", tp_text_of(tp_agent_id(agent)));
  tp_agent_remove(agent);
  return true;
}

TEST(walk_over_agents_goes_on_where_one_is_removed) {
  tp_runtime *runtime = open_runtime(NULL);
  static const char *const ids[] = {"a1", "a2", "a3"};
  for (int i = 0; i < 3; i++) {
    tp_agent_config config = config_of(ids[i]);
    tp_agent *agent;
    assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
  }
  note n = {.text = ""};
  assert_int_equal(tp_runtime_agents(runtime, note_and_remove, &n), 3);
  assert_string_equal(n.text, "a1 a2 a3 ");
  assert_int_equal(tp_runtime_agents(runtime, NULL, NULL), 0);
  close_runtime(runtime);
}

typedef struct look {
  tp_runtime *runtime;
  int looks, finds;
} look;

static tp_answer look_for_agents(void *ctx, tp_call *call) {
  look *l = ctx;
  (void)call;
  tp_agent *found = tp_agent_find(l->runtime, "a1");
  tp_agent_unref(found);
  l->looks++;
  l->finds += found || tp_runtime_agents(l->runtime, NULL, NULL) > 0;
  return TP_ANSWER_DONE;
}

TEST(agent_is_found_neither_before_it_is_registered_nor_after_its_removal) {
  look l = {.runtime = open_runtime(NULL)};
  const hook hooks[] = {{.id = "b", .phase = TP_PHASE_AGENT_BUILD, .run = look_for_agents, .ctx = &l},
                        {.id = "r", .phase = TP_PHASE_AGENT_REGISTER, .run = look_for_agents, .ctx = &l},
                        {.id = "u", .phase = TP_PHASE_AGENT_UNREGISTER, .run = look_for_agents, .ctx = &l}};
  add_hooks(l.runtime, hooks, COUNT(hooks));
  tp_agent_config config = config_of("a1");
  tp_agent *agent;
  assert_int_equal(tp_agent_add(l.runtime, &config, &agent, NULL), TP_OK);
  assert_int_equal(tp_runtime_agents(l.runtime, NULL, NULL), 1);
  tp_agent_remove(agent);
  assert_int_equal(l.looks, 3);
  assert_int_equal(l.finds, 0);
  close_runtime(l.runtime);
}

/* ---- unregistering ---- */

typedef struct named {
  note *note;
  const char *name;
  bool denies;
} named;

static tp_answer register_named(void *ctx, tp_call *call) {
  named *n = ctx;
  bool unregisters = tp_call_phase(call) == TP_PHASE_AGENT_UNREGISTER;
  append(n->note, unregisters ? "-" : "+", tp_text_of(n->name));
  return n->denies && !unregisters ? tp_call_deny(call, "not this one") : TP_ANSWER_DONE;
}

static void add_named(tp_runtime *runtime, named *n) {
  static const uint32_t phases[] = {TP_PHASE_AGENT_REGISTER, TP_PHASE_AGENT_UNREGISTER};
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = n->name,
                        .run = register_named,
                        .ctx = n,
                        .phases = phases,
                        .phase_count = 2,
                        .capabilities = TP_CAPABILITY_DECIDE,
                        .placement = TP_PLACEMENT_INLINE};
  tp_edit *edit;
  tp_fault fault = {0};
  assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL), TP_OK);
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  for (int i = 0; i < 2; i++) {
    char id[16];
    snprintf(id, sizeof id, "%s.%d", n->name, i);
    tp_subscription sub = {.struct_size = sizeof sub, .id = id, .handler = n->name, .phase = phases[i]};
    assert_int_equal(tp_edit_add_subscription(edit, &sub, NULL), TP_OK);
  }
  assert_int_equal(tp_edit_commit(edit, NULL, &fault), TP_OK);
}

TEST(refused_registration_unregisters_those_that_had_registered_in_reverse) {
  note n = {.text = ""};
  named all[] = {{&n, "one", false}, {&n, "two", false}, {&n, "three", true}, {&n, "four", false}};
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(all); i++) add_named(runtime, &all[i]);
  tp_agent_config config = config_of("a1");
  tp_agent *agent = NULL;
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_ERR_DENIED);
  assert_string_equal(n.text, "+one +two +three -two -one ");
  n.text[0] = '\0';
  all[2].denies = false;
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK); /* the id is free again */
  tp_agent_remove(agent);
  assert_string_equal(n.text, "+one +two +three +four -four -three -two -one ");
  close_runtime(runtime);
}

static tp_answer note_unregistered(void *ctx, tp_call *call) {
  append(ctx, "-", tp_call_text(call, TP_FIELD_AGENT_ID));
  return TP_ANSWER_DONE;
}

TEST(agents_that_are_left_are_unregistered_once_the_newest_first) {
  for (int removed = 0; removed < 2; removed++) {
    note n = {.text = ""};
    tp_runtime *runtime = open_runtime(NULL);
    add_hooks(runtime, &(hook){.id = "u", .phase = TP_PHASE_AGENT_UNREGISTER, .run = note_unregistered, .ctx = &n}, 1);
    tp_agent *agents[2];
    for (int i = 0; i < 2; i++) {
      tp_agent_config config = config_of(i ? "a2" : "a1");
      assert_int_equal(tp_agent_add(runtime, &config, &agents[i], NULL), TP_OK);
    }
    if (removed) {
      assert_int_equal(tp_runtime_drain(runtime, 10000, NULL, NULL), TP_OK);
      for (int i = 0; i < 2; i++) tp_agent_remove(agents[i]);
    }
    close_runtime(runtime);
    assert_string_equal(n.text, "-a2 -a1 ");
  }
}

/* ---- without waiting ---- */

typedef struct taken {
  tp_agent *agent;
  tp_status status;
  latch ended;
} taken;

static void take_result(void *ctx, const tp_agent_result *result) {
  taken *t = ctx;
  t->agent = result->agent;
  t->status = result->status;
  if ((result->status == TP_OK) != !result->fault || result->struct_size != sizeof *result) t->status = TP_ERR_STALE;
  latch_hit(&t->ended);
}

TEST(submitted_agents_come_and_go_without_waiting) {
  taken t = {.ended = LATCH};
  note n = {.text = ""};
  named fine = {&n, "one", false}, judge = {&n, "two", false};
  tp_runtime *runtime = open_runtime(NULL);
  add_named(runtime, &fine);
  add_named(runtime, &judge);
  tp_agent_config config = config_of("a1");
  assert_int_equal(tp_agent_add_submit(runtime, &config, NULL, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_agent_add_submit(runtime, &config, take_result, &t, NULL), TP_OK);
  latch_wait(&t.ended, 1);
  assert_int_equal(t.status, TP_OK);
  assert_string_equal(tp_agent_id(t.agent), "a1");
  tp_agent *first = t.agent;
  assert_int_equal(tp_agent_add_submit(runtime, &config, take_result, &t, NULL), TP_ERR_DUPLICATE_ID);
  judge.denies = true;
  config.id = "a2";
  assert_int_equal(tp_agent_add_submit(runtime, &config, take_result, &t, NULL), TP_OK);
  latch_wait(&t.ended, 2);
  assert_int_equal(t.status, TP_ERR_DENIED);
  assert_null(t.agent);
  assert_int_equal(tp_agent_remove_submit(first, take_result, &t, NULL), TP_OK);
  latch_wait(&t.ended, 3);
  assert_int_equal(t.status, TP_OK);
  assert_string_equal(n.text, "+one +two +one +two -one -two -one ");
  assert_int_equal(tp_runtime_agents(runtime, NULL, NULL), 0);
  close_runtime(runtime);
  tp_runtime_options options = {.struct_size = sizeof options, .no_engine_workers = true};
  runtime = open_runtime(&options);
  assert_int_equal(tp_agent_add_submit(runtime, &config, take_result, &t, NULL), TP_ERR_USAGE);
  close_runtime(runtime);
}

/* ---- several at once ---- */

static bool list_agent(void *ctx, tp_agent *agent) {
  append(ctx, "", tp_text_of(tp_agent_id(agent)));
  return true;
}

static void assert_agents(tp_runtime *runtime, const char *expected) {
  note n = {.text = ""};
  (void)tp_runtime_agents(runtime, list_agent, &n);
  assert_string_equal(n.text, expected);
}

static tp_agent *add_one(tp_runtime *runtime, const char *id) {
  tp_agent_config config = config_of(id);
  tp_agent *agent;
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
  return agent;
}

static tp_agent_change change_of(tp_agent *before, const tp_agent_config *config) {
  return (tp_agent_change){.struct_size = sizeof(tp_agent_change), .before = before, .config = config};
}

TEST(agents_change_together_and_keep_their_places) {
  tp_runtime *runtime = open_runtime(NULL);
  note n = {.text = ""};
  named hears = {&n, "h", false};
  tp_agent *one = add_one(runtime, "one"), *two = add_one(runtime, "two");
  (void)add_one(runtime, "three");
  add_named(runtime, &hears);
  tp_agent_config again = config_of("one"), fresh = config_of("four");
  again.system = "You are brief.";
  tp_agent_change changes[] = {change_of(one, &again), change_of(two, NULL), change_of(NULL, &fresh)};
  tp_agent_change *list[] = {&changes[0], &changes[1], &changes[2]};
  assert_int_equal(tp_agents_change(runtime, list, 3, NULL), TP_OK);
  assert_string_equal(n.text, "-h +h +h -h "); /* of one: the old, the new; four; two */
  assert_agents(runtime, "one three four ");
  tp_agent *found = tp_agent_find(runtime, "one");
  assert_ptr_equal(found, changes[0].agent);
  assert_true(tp_text_is(tp_value_text(tp_value_get(tp_agent_config_get(found), "system")), "You are brief."));
  tp_agent_unref(found);
  assert_null(changes[1].agent);
  assert_string_equal(tp_agent_id(changes[2].agent), "four");
  close_runtime(runtime);
}

static tp_answer refuse_two_once(void *ctx, tp_call *call) {
  bool *refuses = ctx;
  bool denies = *refuses && tp_text_is(tp_call_id(call, TP_ID_AGENT), "two");
  if (denies) *refuses = false;
  return denies ? tp_call_fail(call, 1, "not this one") : TP_ANSWER_DONE;
}

/* The second of two new agents is refused. */
TEST(change_of_agents_that_is_refused_changes_nothing) {
  static const char *const expected[] = {"+h +h ", "+h +h -h +h -h +h -h +h -h +h "};
  for (int refused_at = 0; refused_at < 2; refused_at++) { /* by agent.build, by agent.register */
    tp_runtime *runtime = open_runtime(NULL);
    recorder *model = recorder_new(hello, 1);
    note n = {.text = ""};
    named hears = {&n, "h", false};
    add_named(runtime, &hears);
    tp_agent *one = add_one(runtime, "one"), *two = add_one(runtime, "two");
    bool refuses = true;
    uint32_t phase = refused_at ? TP_PHASE_AGENT_REGISTER : TP_PHASE_AGENT_BUILD;
    add_hooks(runtime,
              &(hook){.id = "judge",
                      .phase = phase,
                      .run = refuse_two_once,
                      .ctx = &refuses,
                      .sub = {.failure = refused_at ? TP_FAILURE_DEFAULT : TP_FAILURE_REQUIRED}},
              1);
    tp_agent_config first = config_of("one"), second = config_of("two"), third = config_of("three");
    first.model = recorder_model(model, true);
    tp_agent_change changes[] = {change_of(one, &first), change_of(two, &second), change_of(NULL, &third)};
    tp_agent_change *list[] = {&changes[0], &changes[1], &changes[2]};
    tp_fault fault = {0};
    assert_int_equal(tp_agents_change(runtime, list, 3, &fault), refused_at ? TP_ERR_DENIED : TP_ERR_HOOK);
    assert_string_equal(fault.subject, "two");
    assert_string_equal(n.text, expected[refused_at]);
    assert_agents(runtime, "one two ");
    assert_null(changes[0].agent);
    assert_int_equal(model->destroys, 0);
    tp_agent *again = add_one(runtime, "three"); /* its id is free */
    tp_agent_remove(again);
    close_runtime(runtime);
    assert_int_equal(model->destroys, 0); /* it is the host's */
    recorder_free(model);
  }
}

static void hit_at_end(void *ctx, const tp_turn_result *result) {
  (void)result;
  latch_hit(ctx);
}

TEST(sessions_use_the_agent_that_replaced_theirs_and_running_turns_their_own) {
  static const reply never[] = {{.never = true}};
  tp_runtime *runtime = open_runtime(NULL);
  recorder *models[] = {recorder_new(never, 1), recorder_new(hello, 1), recorder_new(hello, 1)};
  tp_agent_config config = config_of("one");
  config.model = recorder_model(models[0], true);
  tp_agent *agent;
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
  tp_session *session = open_with(runtime, agent);
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hi")};
  tp_submission *submission;
  latch ended = LATCH;
  assert_int_equal(tp_turn_submit(session, &request, hit_at_end, &ended, &submission, NULL), TP_OK);
  latch_wait(&models[0]->started, 1);
  for (int i = 1; i < 3; i++) {
    config.model = recorder_model(models[i], true);
    config.system = i == 1 ? "First." : "Second.";
    config.model_name = "m2";
    tp_agent_change change = change_of(agent, &config);
    assert_int_equal(tp_agents_change(runtime, (tp_agent_change *[]){&change}, 1, NULL), TP_OK);
    agent = change.agent;
    if (i == 1) { /* the turn that runs has its model, which lives as long */
      assert_int_equal(models[0]->destroys, 0);
      const tp_model_response response = {.struct_size = sizeof response, .text = TEXT("late")};
      assert_int_equal(tp_model_complete(models[0]->token, &response, NULL), TP_OK);
      latch_wait(&ended, 1);
      tp_submission_unref(submission);
    }
    say(session, "and now?");
    assert_int_equal(models[i]->asked, 1);
    assert_non_null(strstr(models[i]->requests[0], config.system));
    assert_string_equal(models[i]->model_names[0], "m2");
    assert_ptr_equal(tp_session_agent(session), agent);
    while (models[i - 1]->destroys == 0) sleep_ms(1); /* when its last turn is freed: nobody has it any more */
  }
  tp_agent_remove(agent); /* one that is only removed stays that of its sessions */
  say(session, "and now?");
  assert_int_equal(models[2]->asked, 2);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  for (int i = 0; i < 3; i++) recorder_free(models[i]);
}

TEST(wrong_changes_of_agents_are_refused) {
  tp_runtime *runtime = open_runtime(NULL), *other = open_runtime(NULL);
  tp_agent *one = add_one(runtime, "one"), *theirs = add_one(other, "one");
  tp_agent_config same = config_of("one"), second = config_of("two"), bad = config_of("a b");
  const struct {
    tp_agent_change first, second;
    size_t count;
    tp_status status;
  } cases[] = {
      {change_of(NULL, NULL), {0}, 1, TP_ERR_USAGE},
      {change_of(NULL, &bad), {0}, 1, TP_ERR_BAD_ID},
      {change_of(NULL, &same), {0}, 1, TP_ERR_DUPLICATE_ID},
      {change_of(one, &second), {0}, 1, TP_ERR_USAGE},
      {change_of(theirs, &same), {0}, 1, TP_ERR_USAGE},
      {change_of(one, &same), change_of(one, NULL), 2, TP_ERR_USAGE},
      {change_of(NULL, &second), change_of(NULL, &second), 2, TP_ERR_USAGE},
      {change_of(one, &same), {0}, 0, TP_ERR_USAGE},
      {{.before = one}, {0}, 1, TP_ERR_VERSION},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_agent_change first = cases[i].first, next = cases[i].second;
    tp_status status = tp_agents_change(runtime, (tp_agent_change *[]){&first, &next}, cases[i].count, NULL);
    assert_int_equal(status, cases[i].status);
    assert_agents(runtime, "one ");
  }
  assert_int_equal(tp_agents_change(runtime, (tp_agent_change *[]){NULL}, 1, NULL), TP_ERR_USAGE);
  tp_agent_change gone = change_of(one, NULL);
  assert_int_equal(tp_agents_change(runtime, (tp_agent_change *[]){&gone}, 1, NULL), TP_OK);
  assert_agents(runtime, "");
  close_runtime(other);
  close_runtime(runtime);
}
