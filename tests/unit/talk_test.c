/* SPDX-License-Identifier: Apache-2.0
 *
 * Which messages of the conversation a handler can read, phase by phase, also when the history was shortened, and when
 * no turn waits for the handler any more. */
#include "tests/support/test.h"
#include "tests/support/model.h"

typedef struct notes {
  char text[4096];
  latch entered, may_read, has_read;
} notes;

static bool note_message(void *ctx, const tp_message *message) {
  char *to = ctx;
  size_t used = strlen(to);
  snprintf(to + used, 4096 - used, "%c<%.*s>", "?UATES"[message->role], (int)message -> text.size,
           message->text.size ? message->text.data : "");
  return true;
}

static bool stop_at_once(void *ctx, const tp_message *message) {
  (void)message;
  ++*(int *)ctx;
  return false;
}

static void note_all(notes *n, tp_call *call) {
  size_t used = strlen(n->text);
  snprintf(n->text + used, sizeof n->text - used, "%u:", tp_call_phase(call));
  size_t count = tp_call_messages(call, note_message, n->text);
  used = strlen(n->text);
  snprintf(n->text + used, sizeof n->text - used, "%zu ", count);
}

static tp_answer read_now(void *ctx, tp_call *call) {
  int calls = 0;
  note_all(ctx, call);
  if (tp_call_messages(call, NULL, NULL) != tp_call_messages(call, stop_at_once, &calls)) return TP_ANSWER_NONE;
  if (calls > 1) return TP_ANSWER_NONE;
  return TP_ANSWER_DONE;
}

/* Those of two turns may read at once. */
static tp_answer read_later(void *ctx, tp_call *call) {
  static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
  notes *n = ctx;
  latch_hit(&n->entered);
  latch_wait(&n->may_read, 1);
  pthread_mutex_lock(&one_at_a_time);
  note_all(n, call);
  pthread_mutex_unlock(&one_at_a_time);
  latch_hit(&n->has_read);
  return TP_ANSWER_DONE;
}

typedef struct world {
  tp_runtime *runtime;
  recorder *model;
  tp_session *session;
  notes notes;
} world;

static void open_world(world *w, const reply *replies, size_t count, const hook *hooks, size_t hook_count,
                       int64_t tokens_max) {
  *w = (world){.runtime = open_runtime(NULL), .model = recorder_new(replies, count)};
  w->notes.entered = w->notes.may_read = w->notes.has_read = (latch)LATCH;
  for (size_t i = 0; i < hook_count; i++) {
    hook one = hooks[i];
    one.ctx = &w->notes;
    add_hooks(w->runtime, &one, 1);
  }
  tp_session_options options = {.struct_size = sizeof options,
                                .id = "s",
                                .model = recorder_model(w->model, true),
                                .history_tokens_max = tokens_max,
                                .compaction = tokens_max > 0 ? TP_COMPACTION_DROP_OLDEST : TP_COMPACTION_NONE};
  assert_int_equal(tp_session_open(w->runtime, &options, &w->session, NULL), TP_OK);
}

static void say(const world *w, const char *text) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
}

static void close_world(world *w) {
  if (w->session) tp_session_close(w->session, NULL, NULL);
  close_runtime(w->runtime);
  recorder_free(w->model);
}

static const reply ok[] = {{.text = "ok"}, {.text = "fine"}};

TEST(each_phase_sees_what_was_said_before_it) {
  static const hook hooks[] = {{.id = "start", .phase = TP_PHASE_SESSION_START, .run = read_now},
                               {.id = "intake", .phase = TP_PHASE_TURN_INTAKE, .run = read_now},
                               {.id = "pre", .phase = TP_PHASE_MODEL_PRE, .run = read_now},
                               {.id = "stop", .phase = TP_PHASE_TURN_STOP, .run = read_now},
                               {.id = "post", .phase = TP_PHASE_TURN_POST_TURN, .run = read_now},
                               {.id = "end", .phase = TP_PHASE_SESSION_END, .run = read_now}};
  world w;
  open_world(&w, ok, 2, hooks, COUNT(hooks), 0);
  say(&w, "a");
  assert_string_equal(w.notes.text, "4:0 5:0 11:U<a>1 24:U<a>A<ok>2 21:U<a>A<ok>2 ");
  w.notes.text[0] = '\0';
  say(&w, "b");
  assert_string_equal(w.notes.text,
                      "5:U<a>A<ok>2 11:U<a>A<ok>U<b>3 24:U<a>A<ok>U<b>A<fine>4 21:U<a>A<ok>U<b>A<fine>4 ");
  w.notes.text[0] = '\0';
  tp_session_close(w.session, NULL, NULL);
  w.session = NULL;
  assert_int_equal(tp_runtime_drain(w.runtime, 10000, NULL, NULL), TP_OK);
  assert_string_equal(w.notes.text, "22:U<a>A<ok>U<b>A<fine>4 ");
  close_world(&w);
}

/* What nothing waits for reads what there was, or more: never what is gone. */
TEST(a_handler_that_is_late_reads_a_whole_conversation) {
  static const hook late[] = {{.id = "late",
                               .phase = TP_PHASE_MODEL_PRE,
                               .run = read_later,
                               .slow = true,
                               .sub = {.execution = TP_EXECUTION_FIRE_AND_RECORD}}};
  world w;
  open_world(&w, ok, 2, late, 1, 0);
  say(&w, "a");
  latch_wait(&w.notes.entered, 1);
  say(&w, "b");
  latch_hit(&w.notes.may_read);
  latch_wait(&w.notes.has_read, 2);
  if (strncmp(w.notes.text, "11:U<a>", 7) != 0) fail_msg("%s", w.notes.text);
  close_world(&w);
}

#define LONG "123456789012345678901234567890123456"

TEST(a_history_that_became_shorter_is_seen_so) {
  static const hook hooks[] = {{.id = "c", .phase = TP_PHASE_TURN_PRE_COMPACTION, .run = read_now},
                               {.id = "pre", .phase = TP_PHASE_MODEL_PRE, .run = read_now}};
  world w;
  open_world(&w, ok, 1, hooks, COUNT(hooks), 40);
  for (int i = 0; i < 3; i++) say(&w, LONG);
  w.notes.text[0] = '\0';
  say(&w, "d");
  assert_string_equal(w.notes.text,
                      "20:U<" LONG ">A<ok>U<" LONG ">A<ok>U<" LONG ">A<ok>U<d>7 11:U<" LONG ">A<ok>U<d>3 ");
  close_world(&w);
}

TEST(a_turn_that_its_host_drives_has_none) {
  tp_runtime *runtime = open_runtime(NULL);
  notes n = {.text = ""};
  add_hooks(runtime, &(hook){.id = "a", .phase = TP_PHASE_MODEL_PRE, .run = read_now, .ctx = &n}, 1);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_MODEL_PRE, NULL, &result, NULL), TP_OK);
  assert_string_equal(n.text, "11:0 ");
  assert_int_equal(tp_call_messages(NULL, note_message, n.text), 0);
  tp_turn_end(turn);
  close_runtime(runtime);
}
