/* SPDX-License-Identifier: Apache-2.0
 *
 * A process forks while its threads open, complete and close tokens. The child makes a runtime of its own, and no lock
 * or state that another thread of the parent held at that moment disturbs it. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/host.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, FORKS = 400, CHILD_SECONDS = 60 };

static unsigned rounds(void) {
  const char *text = getenv("TURNPHASE_ROUNDS");
  return text && atoi(text) > 0 ? (unsigned)atoi(text) : 1;
}

static tp_answer complete_at_once(void *ctx, tp_call *call) {
  static const tp_outcome done = {.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE};
  (void)ctx;
  tp_token token;
  tp_answer outcome = tp_call_defer(call, &(tp_deferral){.struct_size = sizeof(tp_deferral)}, &token);
  (void)!tp_token_complete(token, &done, NULL);
  return outcome;
}

/* @return whether one phase with a token ran. */
static bool use(tp_runtime *runtime) {
  tp_turn *turn;
  tp_phase_result result = {.struct_size = sizeof result};
  if (tp_turn_begin_bare(runtime, NULL, &turn, NULL) != TP_OK) return false;
  bool ran = tp_phase_run(turn, GATHER, NULL, &result, NULL) == TP_OK && result.outcome == TP_OK &&
             tp_phase_result_run(&result, 0)->state == TP_STATE_SUCCEEDED;
  tp_turn_end(turn);
  return ran;
}

static tp_runtime *make(void) {
  tp_runtime *runtime;
  hook defers = {.id = "defers", .phase = GATHER, .run = complete_at_once, .slow = true};
  defers.sub.limit_ms = CHILD_SECONDS * 1000; /* a machine that is busy elsewhere is no failure */
  if (tp_runtime_new(NULL, &runtime, NULL) != TP_OK) return NULL;
  if (hooks_add(runtime, &defers, 1, NULL) == TP_OK) return runtime;
  tp_runtime_free(runtime);
  return NULL;
}

typedef struct user {
  tp_runtime *runtime;
  _Atomic bool stop;
  _Atomic uint32_t failed;
} user;

static void *use_again_and_again(void *arg) {
  user *u = arg;
  while (!u->stop)
    if (!use(u->runtime)) u->failed++;
  return NULL;
}

static void be_child(void) {
  alarm(CHILD_SECONDS); /* which ends it when it hangs */
  tp_runtime *runtime = make();
  bool ran = runtime && use(runtime);
  tp_runtime_free(runtime);
  _exit(ran ? 0 : 1);
}

TEST(child_makes_a_runtime_of_its_own_whatever_the_parent_was_doing) {
  user u = {.runtime = make()};
  assert_non_null(u.runtime);
  pthread_t threads[3];
  for (size_t i = 0; i < COUNT(threads); i++) pthread_create(&threads[i], NULL, use_again_and_again, &u);
  int failed = 0;
  for (unsigned i = 0; i < FORKS * rounds() && !failed; i++) {
    pid_t child = fork();
    if (child == 0) be_child();
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  u.stop = true;
  for (size_t i = 0; i < COUNT(threads); i++) pthread_join(threads[i], NULL);
  close_runtime(u.runtime);
  assert_int_equal(failed, 0);
  assert_int_equal(u.failed, 0);
}

TEST_MAIN(count, arguments) {
  if (HAS_THREAD_SANITIZER) {
    puts("1..0 # SKIP ThreadSanitizer starts no threads in the child of a process that had some");
    return 0;
  }
  return test_main(count, arguments);
}
