/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of a turn, identified by their hashes: each message of a long conversation is hashed once, and the
 * result is the same as if all were hashed. */
#include "tests/support/test.h"
#include "tests/support/model.h"

#include "domains/memory/said.h"

enum { TURNS = 60, LONG_ENOUGH = TP__MEMORY_SAID_MIN / 2 }; /* each turn leaves two messages */

typedef struct look {
  tp__memory_said *said;
  tp__memory_said_view held; /* a view that an earlier call did not give back */
  bool holds, failed;
  uint64_t hashed; /* by the last call */
  size_t settled, count;
  uint64_t number;
} look;

static bool has(const tp__memory_said_hashes *set, uint64_t hash) {
  for (; set; set = set->more)
    for (size_t i = 0; set->slots && i <= set->mask; i++)
      if (set->slots[i] == hash) return true;
  return false;
}

static bool is_there(void *ctx, const tp_message *message) {
  const tp__memory_said_view *view = ctx;
  if (message->text.size == 0 || has(&view->settled, tp__memory_hash(message->text))) return true;
  fprintf(stderr, "missing: %.*s\n", (int)message->text.size, message->text.data);
  return false;
}

static bool count_one(void *ctx, const tp_message *message) {
  (void)message;
  ++*(size_t *)ctx;
  return true;
}

/* Counts the hashes of the view, each text of the tests being another one. */
static size_t count_of(const tp__memory_said_view *view) {
  size_t count = 0;
  for (const tp__memory_said_hashes *set = &view->settled; set; set = set->more)
    for (size_t i = 0; set->slots && i <= set->mask; i++) count += set->slots[i] != 0;
  return count;
}

typedef struct walked {
  const tp__memory_said_view *view;
  size_t seen;
} walked;

static bool walk_one(void *ctx, const tp_message *message) {
  walked *w = ctx;
  w->seen += is_there((void *)(uintptr_t)w->view, message);
  return true;
}

static tp_answer look_now(void *ctx, tp_call *call) {
  look *l = ctx;
  tp__memory_said_view view;
  const uint64_t before = tp__memory_said_counted(l->said).hashed;
  size_t shown = 0;
  l->failed = l->failed || tp__memory_said_take(l->said, call, &view) != TP_OK;
  l->hashed = tp__memory_said_counted(l->said).hashed - before;
  l->number = tp_call_messages_list(call, &l->settled);
  walked w = {.view = &view};
  l->count = tp_call_messages(call, walk_one, &w);
  l->failed = l->failed || w.seen != l->count || count_of(&view) > l->count;
  l->failed = l->failed || tp_call_messages_from(call, l->settled, count_one, &shown) != l->count ||
              shown != l->count - l->settled;
  l->failed = l->failed || tp_call_messages_from(call, l->count, count_one, &shown) != l->count ||
              shown != l->count - l->settled;
  if (l->holds) {
    l->held = view;
    l->holds = false;
  } else {
    tp__memory_said_give(l->said, &view);
  }
  return TP_ANSWER_DONE;
}

typedef struct world {
  tp_runtime *runtime;
  recorder *model;
  tp_session *sessions[3];
  look look;
  int said;
} world;

static const reply ok[] = {{.text = "ok"}};

static void open_world(world *w, size_t bytes_max, int64_t tokens_max) {
  *w = (world){.runtime = open_runtime(NULL), .model = recorder_new(ok, 1)};
  w->look.said = tp__memory_said_new(bytes_max);
  assert_non_null(w->look.said);
  add_hooks(w->runtime, &(hook){.id = "look", .phase = TP_PHASE_MODEL_PRE, .run = look_now, .ctx = &w->look}, 1);
  for (int i = 0; i < 3; i++) {
    const char *ids[] = {"a", "b", "c"};
    tp_session_options options = {.struct_size = sizeof options,
                                  .id = ids[i],
                                  .model = recorder_model(w->model, true),
                                  .history_tokens_max = tokens_max,
                                  .compaction = tokens_max > 0 ? TP_COMPACTION_DROP_OLDEST : TP_COMPACTION_NONE};
    assert_int_equal(tp_session_open(w->runtime, &options, &w->sessions[i], NULL), TP_OK);
  }
}

static void close_world(world *w) {
  for (int i = 0; i < 3; i++) tp_session_close(w->sessions[i], NULL, NULL);
  close_runtime(w->runtime);
  recorder_free(w->model);
  tp__memory_said_free(w->look.said);
}

static void say(world *w, int session) {
  char text[64];
  snprintf(text, sizeof text, "This is what was said as number %d.", w->said++);
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(w->sessions[session], &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
  assert_false(w->look.failed);
}

TEST(each_message_of_a_long_conversation_is_hashed_once) {
  world w;
  open_world(&w, TP__MEMORY_SAID_BYTES_MAX, 0);
  for (int i = 0; i < TURNS; i++) {
    say(&w, 0);
    assert_int_equal(w.look.settled, 2 * i);
    assert_int_equal(w.look.count, 2 * i + 1);
    /* the first turn that stores the list hashes all of it; each later turn only hashes the messages that the turn
     * before left, and its own */
    assert_int_equal(w.look.hashed, i <= LONG_ENOUGH ? 2 * i + 1 : 3);
    assert_int_equal(tp__memory_said_counted(w.look.said).lists, i >= LONG_ENOUGH);
  }
  close_world(&w);
}

TEST(a_history_that_became_shorter_is_another_list) {
  world w;
  bool became_shorter = false;
  open_world(&w, TP__MEMORY_SAID_BYTES_MAX, 2000);
  uint64_t number = 0;
  size_t settled = 0;
  for (int i = 0; i < 3 * TURNS; i++) {
    say(&w, 0);
    if (w.look.settled < settled) {
      became_shorter = true;
      assert_int_not_equal(w.look.number, number);
      assert_int_equal(w.look.hashed, w.look.count); /* all of it is new */
    } else if (number) {
      assert_int_equal(w.look.number, number);
    }
    number = w.look.number;
    settled = w.look.settled;
    assert_true(number > 0);
  }
  assert_true(became_shorter);
  close_world(&w);
}

TEST(conversations_have_lists_of_their_own) {
  world w;
  uint64_t numbers[3];
  open_world(&w, TP__MEMORY_SAID_BYTES_MAX, 0);
  for (int i = 0; i < TURNS; i++)
    for (int s = 0; s < 3; s++) {
      say(&w, s);
      if (i == 0) numbers[s] = w.look.number;
      assert_int_equal(w.look.number, numbers[s]);
      if (i > LONG_ENOUGH) assert_int_equal(w.look.hashed, 3);
    }
  assert_int_equal(tp__memory_said_counted(w.look.said).lists, 3);
  assert_true(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
  close_world(&w);
}

/* Space for two lists of 128 slots, and not for three. */
TEST(the_list_that_was_not_used_for_longest_goes_first) {
  enum { BYTES = 2 * (1024 + 128) + 200 };
  world w;
  open_world(&w, BYTES, 0);
  for (int i = 0; i <= LONG_ENOUGH + 1; i++)
    for (int s = 0; s < 2; s++) say(&w, s);
  assert_int_equal(w.look.hashed, 3);
  assert_int_equal(tp__memory_said_counted(w.look.said).lists, 2);
  for (int i = 0; i <= LONG_ENOUGH; i++) say(&w, 2);
  assert_int_equal(tp__memory_said_counted(w.look.said).lists, 2);
  assert_true(tp__memory_said_counted(w.look.said).bytes <= BYTES);
  say(&w, 1); /* "a" went, which was used before "b" */
  assert_int_equal(w.look.hashed, 3);
  say(&w, 0);
  assert_int_equal(w.look.hashed, w.look.count);
  assert_true(tp__memory_said_counted(w.look.said).bytes <= BYTES);
  close_world(&w);
}

TEST(a_list_that_is_larger_than_all_may_be_is_not_kept) {
  world w;
  open_world(&w, 1024, 0);
  for (int i = 0; i < TURNS; i++) {
    say(&w, 0);
    assert_int_equal(w.look.hashed, w.look.count);
  }
  assert_int_equal(tp__memory_said_counted(w.look.said).lists, 0);
  assert_int_equal(tp__memory_said_counted(w.look.said).bytes, 0);
  close_world(&w);
}

/* Two calls of one conversation at once: each has the whole list, and the longer of the two lists is stored. */
TEST(a_list_that_is_in_use_is_made_anew_and_the_longer_one_is_kept) {
  world w;
  open_world(&w, TP__MEMORY_SAID_BYTES_MAX, 0);
  for (int i = 0; i <= LONG_ENOUGH; i++) say(&w, 0);
  w.look.holds = true;
  say(&w, 0);
  assert_int_equal(tp__memory_said_counted(w.look.said).lists, 0);
  say(&w, 0);
  assert_int_equal(w.look.hashed, w.look.count);
  tp__memory_said_give(w.look.said, &w.look.held);
  assert_int_equal(tp__memory_said_counted(w.look.said).lists, 1);
  say(&w, 0);
  assert_int_equal(w.look.hashed, 3);
  close_world(&w);
}
