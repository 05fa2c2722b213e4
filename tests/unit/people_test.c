/* SPDX-License-Identifier: Apache-2.0
 *
 * People who may be asked are a place: what would need one is refused, and says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/host.h"

static void ask_nobody(void *ctx, const tp_question *question) { (void)ctx, (void)question; }

static int32_t permit_nothing(void *ctx, const tp_permission_request *request) {
  return (void)ctx, (void)request, TP_PERMISSION_NONE;
}

static void channel_and_permission_of_a_runtime_are_refused(void **state) {
  (void)state;
  static const char *const names[] = {"ask", "ask_ctx", "permission", "permission_ctx"};
  for (size_t i = 0; i < COUNT(names); i++) {
    tp_runtime_options options = {.struct_size = sizeof options};
    if (i == 0) options.ask = ask_nobody;
    if (i == 1) options.ask_ctx = &options;
    if (i == 2) options.permission = permit_nothing;
    if (i == 3) options.permission_ctx = &options;
    tp_runtime *runtime = NULL;
    tp_fault fault = {0};
    assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_USAGE);
    assert_null(runtime);
    assert_non_null(strstr(fault.message, names[i]));
    assert_non_null(strstr(fault.message, "not yet used"));
  }
}

static void channel_and_permission_of_a_session_are_refused(void **state) {
  (void)state;
  tp_runtime *runtime = open_runtime(NULL);
  for (int i = 0; i < 4; i++) {
    tp_session_options options = {.struct_size = sizeof options, .id = "s"};
    if (i == 0) options.ask = ask_nobody;
    if (i == 1) options.ask_ctx = &options;
    if (i == 2) options.permission = permit_nothing;
    if (i == 3) options.permission_ctx = &options;
    tp_session *session = NULL;
    tp_fault fault = {0};
    assert_int_equal(tp_session_open(runtime, &options, &session, &fault), TP_ERR_USAGE);
    assert_null(session);
    assert_non_null(strstr(fault.message, "not yet used"));
  }
  close_runtime(runtime);
}

static void answer_is_read_strictly_and_finds_no_question(void **state) {
  (void)state;
  tp_fault fault = {0};
  tp_token token = {7};
  tp_decision decision = {.struct_size = sizeof decision, .verdict = TP_VERDICT_DENY, .reason = TEXT("no")};
  assert_int_equal(tp_question_answer(token, &decision, &fault), TP_ERR_STALE);
  assert_non_null(strstr(fault.message, "no question"));
  decision.verdict = TP_VERDICT_ALLOW;
  assert_int_equal(tp_question_answer((tp_token){0}, &decision, NULL), TP_ERR_STALE);
  static const tp_verdict wrong[] = {(tp_verdict)0, TP_VERDICT_NONE, TP_VERDICT_ASK, (tp_verdict)99};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    decision.verdict = wrong[i];
    assert_int_equal(tp_question_answer(token, &decision, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, "verdict"));
  }
  decision.verdict = TP_VERDICT_ALLOW;
  decision.reserved_ = 1;
  assert_int_equal(tp_question_answer(token, &decision, &fault), TP_ERR_USAGE);
  decision.struct_size = 1;
  assert_int_equal(tp_question_answer(token, &decision, &fault), TP_ERR_VERSION);
  assert_int_equal(tp_question_answer(token, NULL, &fault), TP_ERR_USAGE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(channel_and_permission_of_a_runtime_are_refused),
      cmocka_unit_test(channel_and_permission_of_a_session_are_refused),
      cmocka_unit_test(answer_is_read_strictly_and_finds_no_question),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
