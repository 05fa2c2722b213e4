/* SPDX-License-Identifier: Apache-2.0
 *
 * The structs of models are passed by pointer and read by their struct_size: older ones, newer ones, and messages about
 * errors. */
#include "tests/support/test.h"
#include "tests/support/model.h"

static tp_runtime *runtime;
static int started, destroyed;

static int open_all(void **state) {
  (void)state;
  started = destroyed = 0;
  runtime = open_runtime(NULL);
  return 0;
}

static int close_all(void **state) {
  (void)state;
  close_runtime(runtime);
  return 0;
}

FOR_EACH_TEST(open_all, close_all);

static void start(void *ctx, const tp_model_request *request, tp_token token) {
  (void)request;
  started++;
  const tp_model_response *response = ctx;
  (void)!tp_model_complete(token, response, NULL);
}

static void destroy(void *ctx) {
  (void)ctx;
  destroyed++;
}

static tp_status open_with(const tp_model *model, tp_session **ret_session, tp_fault *fault) {
  tp_session_options options = {.struct_size = sizeof options, .id = "s1", .model = model};
  return tp_session_open(runtime, &options, ret_session, fault);
}

static void assert_says(tp_session *session, const char *text) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("hello")};
  const tp_turn_result *result = NULL;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_text(result->text, text);
  tp_turn_result_free(result);
}

static tp_model good(const tp_model_response *response) {
  return (tp_model){.struct_size = sizeof(tp_model),
                    .ctx = (void *)(uintptr_t)response,
                    .start = start,
                    .destroy = destroy,
                    .placement = TP_PLACEMENT_INLINE};
}

/* ---- tp_model ---- */

TEST(models_of_another_make_are_refused_and_not_taken) {
  struct {
    tp_model model;
    uint64_t tail;
  } newer = {good(NULL), 1};
  newer.model.struct_size = sizeof newer;
  tp_model no_size = good(NULL), no_start = good(NULL), misplaced = good(NULL), reserved = good(NULL);
  no_size.struct_size = 3;
  no_start.start = NULL;
  reserved.reserved_[1] = 1;
  misplaced.placement = TP_PLACEMENT_PARALLEL;
  const struct {
    const tp_model *model;
    tp_status want;
    const char *words;
  } cases[] = {{&newer.model, TP_ERR_VERSION, "older"},
               {&no_size, TP_ERR_VERSION, "sizeof(tp_model)"},
               {&no_start, TP_ERR_USAGE, "tp_model.start"},
               {&misplaced, TP_ERR_USAGE, "placement"},
               {&reserved, TP_ERR_USAGE, "reserved_"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_fault fault = {0};
    tp_session *session;
    assert_int_equal(open_with(cases[i].model, &session, &fault), cases[i].want);
    assert_int_equal(fault.code, cases[i].want);
    if (!strstr(fault.message, cases[i].words)) fail_msg("%s", fault.message);
    tp_agent_config config = {.struct_size = sizeof config, .id = "a", .model = cases[i].model};
    tp_agent *agent;
    assert_int_equal(tp_agent_add(runtime, &config, &agent, &fault), cases[i].want);
    assert_non_null(strstr(fault.message, cases[i].words));
  }
  assert_int_equal(destroyed, 0);
}

TEST(model_of_an_older_program_works_and_its_struct_is_copied) {
  const tp_model_response hello = {.struct_size = sizeof hello, .text = TEXT("hello")};
  tp_model model;
  const tp_model whole = good(&hello);
  memset(&model, 0xee, sizeof model); /* what is behind the older struct is not the library's to read */
  memcpy(&model, &whole, offsetof(tp_model, placement));
  model.struct_size = offsetof(tp_model, placement);
  tp_session *session;
  assert_int_equal(open_with(&model, &session, NULL), TP_OK);
  memset(&model, 0xee, sizeof model);
  assert_says(session, "hello");
  tp_session_close(session, NULL, NULL);
  assert_int_equal(tp_runtime_drain(runtime, 5000, NULL, NULL), TP_OK);
  assert_int_equal(destroyed, 1);
}

TEST(model_that_was_not_taken_is_freed_by_its_owner) {
  tp_model model = good(NULL);
  tp_model_free(NULL);
  tp_model_free(&model);
  assert_int_equal(destroyed, 1);
  const tp_model_response hello = {.struct_size = sizeof hello, .text = TEXT("hello")};
  const tp_model_response *list[] = {&hello};
  tp_model *script;
  assert_int_equal(tp_script_model_new(list, 1, false, &script, NULL), TP_OK);
  assert_int_equal(script->struct_size, sizeof *script);
  tp_model_free(script); /* the leak checker looks on */
}

/* ---- tp_model_response ---- */

TEST(script_reads_each_response_by_its_own_size) {
  struct {
    tp_model_response response;
    uint64_t tail[2];
  } newer = {.response = {.struct_size = sizeof newer, .text = TEXT("newer")}};
  enum { OLDER_BYTES = offsetof(tp_model_response, stop_reason) };
  tp_model_response older;
  const tp_model_response whole = {.struct_size = OLDER_BYTES, .text = TEXT("older")};
  memset(&older, 0xee, sizeof older);
  memcpy(&older, &whole, OLDER_BYTES);
  const tp_model_response *list[] = {&newer.response, &older};
  tp_model *script;
  assert_int_equal(tp_script_model_new(list, 2, false, &script, NULL), TP_OK);
  tp_session *session;
  assert_int_equal(open_with(script, &session, NULL), TP_OK);
  assert_says(session, "newer");
  assert_says(session, "older");
  tp_session_close(session, NULL, NULL);
}

TEST(script_refuses_responses_that_it_cannot_read) {
  struct {
    tp_model_response response;
    uint64_t tail;
  } newer = {{.struct_size = sizeof newer, .text = TEXT("newer")}, 1};
  const tp_model_response no_size = {.text = TEXT("a")}, fine = {.struct_size = sizeof fine, .text = TEXT("b")};
  const struct {
    const tp_model_response *second;
    tp_status want;
  } cases[] = {{&newer.response, TP_ERR_VERSION}, {&no_size, TP_ERR_VERSION}, {NULL, TP_ERR_USAGE}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    const tp_model_response *list[] = {&fine, cases[i].second};
    tp_model *script = NULL;
    tp_fault fault = {0};
    assert_int_equal(tp_script_model_new(list, 2, false, &script, &fault), cases[i].want);
    assert_non_null(strstr(fault.message, "tp_model_response"));
    assert_null(script);
  }
  tp_model *script = NULL;
  assert_int_equal(tp_script_model_new(NULL, 1, false, &script, NULL), TP_ERR_USAGE);
}
