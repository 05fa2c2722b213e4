/* SPDX-License-Identifier: Apache-2.0
 *
 * Ctrl-C in a conversation: what it ends, at each moment of a turn. */
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "cli/common/interrupt.h"
#include "tests/support/world.h"

enum { WAIT_MS = 60000 };

typedef enum moment { BEFORE, BEGINS, RUNS, REFUSED, AFTER } moment;

typedef struct world {
  WORLD;
} world;

/* A handler whose answer never comes. */
static tp_answer wait_for_ever(void *ctx, tp_call *call) {
  tp_token token;
  (void)ctx;
  return tp_call_defer(call, &(tp_deferral){.struct_size = sizeof(tp_deferral)}, &token);
}

static void press(void) { assert_int_equal(kill(getpid(), SIGINT), 0); }

/* @return whether the bell rang. */
static bool rings(const cli_interrupt *interrupt, int limit_ms) {
  struct pollfd bell = {.fd = interrupt->bell, .events = POLLIN};
  uint64_t count;
  return poll(&bell, 1, limit_ms) == 1 && read(interrupt->bell, &count, sizeof count) == sizeof count;
}

static void await_count(cli_interrupt *interrupt) {
  while (!cli_interrupted_turn(interrupt)) usleep(1000);
}

static void assert_turn_is_cancelled(cli_interrupt *interrupt, tp_session *session, moment m) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hi")};
  const tp_turn_result *result = NULL;
  tp_submission *submission = NULL;
  cli_interrupt_begin(interrupt);
  assert_false(cli_interrupted_turn(interrupt));
  if (m == BEGINS) {
    press();
    await_count(interrupt);
  }
  assert_int_equal(tp_turn_submit(session, &request, NULL, NULL, &submission, NULL), TP_OK);
  cli_interrupt_watch(interrupt, submission);
  if (m == RUNS) press();
  else assert_true(cli_interrupted_turn(interrupt));
  assert_int_equal(tp_submission_wait(submission, WAIT_MS, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_CANCELLED);
  assert_true(cli_interrupted_turn(interrupt));
  cli_interrupt_watch(interrupt, NULL);
  assert_false(cli_interrupted_turn(interrupt));
  assert_false(rings(interrupt, 0));
  tp_submission_unref(submission);
}

TEST(an_interrupt_is_of_the_turn_from_before_it_is_submitted) {
  static const moment moments[] = {BEFORE, BEGINS, RUNS, REFUSED, AFTER, BEGINS, BEFORE, RUNS};
  const hook waits = {.id = "waits", .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, .run = wait_for_ever};
  const reply never = {0};
  world w = {0};
  cli_interrupt interrupt;
  cli_interrupt_start(&interrupt);
  cli_interrupt_turns_only(&interrupt);
  world_open(
      &w.stage,
      &(world_options){.hooks = &waits, .hook_count = 1, .replies = &never, .reply_count = 1, .session = {.id = "s1"}});
  for (size_t i = 0; i < COUNT(moments); i++) {
    if (moments[i] == REFUSED) { /* a turn that was not submitted leaves nothing */
      cli_interrupt_begin(&interrupt);
      press();
      await_count(&interrupt);
      cli_interrupt_watch(&interrupt, NULL);
      assert_false(cli_interrupted_turn(&interrupt));
    } else if (moments[i] == BEFORE || moments[i] == AFTER) {
      press();
      assert_true(rings(&interrupt, WAIT_MS));
      assert_false(cli_interrupted_turn(&interrupt));
    } else {
      assert_turn_is_cancelled(&interrupt, w.session, moments[i]);
    }
  }
  assert_int_equal(cli_interrupted(&interrupt), 0);
  world_close(&w.stage);
  cli_interrupt_stop(&interrupt);
}
