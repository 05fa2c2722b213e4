/* SPDX-License-Identifier: Apache-2.0
 *
 * files_test.c: the files of a turn request, on their way from the request through turn.intake to the phases that carry
 * them, to readers of the request, and to the provider. */
#include "tests/support/test.h"
#include "tests/support/host.h"
#include "tests/support/model.h"

static const tp_text given = TEXT("\x92\xa1x\xa1y"), replaced = TEXT("\x91\xa1z"); /* ["x", "y"], ["z"] */
static const tp_text none = {NULL, 0};

static bool same(tp_text a, tp_text b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

typedef struct reader {
  tp_text want;
  const tp_text *replace; /* in turn.intake */
  tp_status replacing;
  int calls, bad;
} reader;

static tp_answer read_files(void *ctx, tp_call *call) {
  reader *r = ctx;
  tp_text files = tp_call_text(call, TP_FIELD_FILES);
  if (tp_call_phase(call) == TP_PHASE_TURN_POST_PROMPT_COMPILE)
    files = tp_value_get(tp_call_text(call, TP_FIELD_REQUEST), "files");
  r->calls++;
  r->bad += !same(files, r->want);
  if (!r->replace) return TP_ANSWER_DONE;
  const tp_field field = {.id = TP_FIELD_FILES, .kind = TP_FIELD_KIND_VALUE, .text = *r->replace};
  r->replacing = tp_call_replace(call, &field, 1, NULL);
  return TP_ANSWER_DONE;
}

typedef struct provider {
  tp_model face;
  tp_text want;
  int calls, bad;
} provider;

static void start(void *ctx, const tp_model_request *request, tp_token token) {
  provider *p = ctx;
  p->calls++;
  p->bad += !same(request->files, p->want);
  const tp_model_response response = {.struct_size = sizeof response, .text = TEXT("done")};
  (void)!tp_model_complete(token, &response, NULL);
}

/* A turn whose intake gets `files` and replaces them by `replace`; the other phases then read `left`. */
static tp_turn_outcome run_turn(tp_text files, const tp_text *replace, tp_failure failure, tp_text left,
                                reader *intake) {
  static const uint32_t phases[] = {TP_PHASE_TURN_PRE_POLICY, TP_PHASE_TURN_PRE_PROMPT_CONTEXT,
                                    TP_PHASE_TURN_POST_PROMPT_COMPILE};
  static const char *const ids[] = {"policy", "context", "compile"};
  provider model = {.want = left};
  model.face = (tp_model){.struct_size = sizeof model.face, .ctx = &model, .start = start};
  tp_runtime *runtime = open_runtime(NULL);
  reader readers[COUNT(phases)] = {{.want = left}, {.want = left}, {.want = left}};
  *intake = (reader){.want = files, .replace = replace};
  hook hooks[1 + COUNT(phases)] = {{.id = "intake",
                                    .phase = TP_PHASE_TURN_INTAKE,
                                    .run = read_files,
                                    .ctx = intake,
                                    .capabilities = TP_CAPABILITY_REPLACE_PAYLOAD,
                                    .sub.failure = failure}};
  for (size_t i = 0; i < COUNT(phases); i++)
    hooks[1 + i] = (hook){.id = ids[i], .phase = phases[i], .run = read_files, .ctx = &readers[i]};
  add_hooks(runtime, hooks, COUNT(hooks));
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = &model.face};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  const tp_turn_result *result;
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("look"), .files = files};
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  tp_turn_outcome outcome = result->outcome;
  tp_turn_result_free(result);
  assert_int_equal(intake->calls, 1);
  assert_int_equal(intake->bad, 0);
  for (size_t i = 0; i < COUNT(readers); i++) {
    assert_int_equal(readers[i].calls, outcome == TP_TURN_COMPLETED);
    assert_int_equal(readers[i].bad, 0);
  }
  assert_int_equal(model.calls, outcome == TP_TURN_COMPLETED);
  assert_int_equal(model.bad, 0);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  return outcome;
}

TEST(files_reach_the_phases_the_request_and_the_provider) {
  reader intake;
  assert_int_equal(run_turn(given, NULL, TP_FAILURE_REQUIRED, given, &intake), TP_TURN_COMPLETED);
  assert_int_equal(run_turn(none, NULL, TP_FAILURE_REQUIRED, none, &intake), TP_TURN_COMPLETED);
}

TEST(files_that_intake_replaced_are_what_comes_later) {
  reader intake;
  assert_int_equal(run_turn(given, &replaced, TP_FAILURE_REQUIRED, replaced, &intake), TP_TURN_COMPLETED);
  assert_int_equal(intake.replacing, TP_OK);
  assert_int_equal(run_turn(none, &replaced, TP_FAILURE_REQUIRED, replaced, &intake), TP_TURN_COMPLETED);
}

TEST(files_that_are_no_list_of_texts_are_refused_where_they_are_given) {
  static const tp_text number = TEXT("\x05"), numbers = TEXT("\x91\x05");
  reader intake;
  assert_int_equal(run_turn(given, &number, TP_FAILURE_BEST_EFFORT, given, &intake), TP_TURN_COMPLETED);
  assert_int_equal(intake.replacing, TP_ERR_MALFORMED);
  assert_int_equal(run_turn(given, &numbers, TP_FAILURE_REQUIRED, given, &intake), TP_TURN_DENIED);
  assert_int_equal(intake.replacing, TP_ERR_MALFORMED);
}
