/* SPDX-License-Identifier: Apache-2.0
 *
 * Agents: built, registered or refused, used by sessions, taken away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

static tp_answer note_agent(void *self, tp_call *call) {
  tp_text id = tp_call_id(call, TP_ID_AGENT);
  snprintf(self, 32, "%.*s", (int)id.size, id.data);
  return TP_ANSWER_DONE;
}

static void agent_gives_its_sessions_system_text_and_model(void **state) {
  (void)state;
  tp_runtime *runtime = open_runtime(NULL);
  recorder *model = recorder_new(hello, 1);
  static const tp_contribution section = {.kind = TP_KIND_PROMPT_SECTION, .key = TEXT("s"), .text = TEXT("Be brief.")};
  act build = {.emits = &section, .emit_count = 1};
  char seen[32] = "";
  hook hooks[] = {{.id = "build", .phase = TP_PHASE_AGENT_BUILD, .self = &build},
                  {.id = "intake", .phase = TP_PHASE_TURN_INTAKE, .run = note_agent, .self = seen}};
  add_hooks(runtime, hooks, 2);
  tp_agent_config config = config_of("a1");
  config.model = recorder_model(model, true);
  tp_agent *agent;
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
  assert_int_equal(build.calls, 1);
  tp_session *session = open_with(runtime, agent);
  say(session, "hi");
  assert_string_equal(seen, "a1");
  assert_non_null(strstr(model->requests[0], "You are kind."));
  assert_non_null(strstr(model->requests[0], "Be brief."));
  tp_agent_remove(agent); /* the session keeps it till it closes */
  say(session, "still there?");
  assert_int_equal(model->destroys, 0);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  assert_int_equal(model->destroys, 1);
  recorder_free(model);
}

static void agent_that_is_refused_leaves_its_model_with_the_host(void **state) {
  (void)state;
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
    hook h = {.id = "judge", .phase = cases[i].phase, .self = &a, .sub = {.failure = cases[i].failure}};
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

static void ids_of_agents_are_checked(void **state) {
  (void)state;
  tp_runtime *runtime = open_runtime(NULL);
  act unregister = {0};
  add_hooks(runtime, &(hook){.id = "u", .phase = TP_PHASE_AGENT_UNREGISTER, .self = &unregister}, 1);
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

static void agents_that_are_left_end_with_the_runtime(void **state) {
  (void)state;
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(agent_gives_its_sessions_system_text_and_model),
      cmocka_unit_test(agent_that_is_refused_leaves_its_model_with_the_host),
      cmocka_unit_test(ids_of_agents_are_checked),
      cmocka_unit_test(agents_that_are_left_end_with_the_runtime),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
