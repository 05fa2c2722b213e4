/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers are added and removed by several threads while others pin snapshots as turns do. Each pin sees one whole
 * version; at the end every destroy was called exactly once. */
#include <pthread.h>

#include "tests/support/test.h"
#include "tests/unit/plan_world.h"

enum { WRITERS = 3, READERS = 3, ROUNDS = 400 };

typedef struct work {
  tp__registry *registry;
  int number;
  tp__a32 *stop;
  tp__a32 *ended;  /* destroys so far */
  uint32_t added;  /* handlers that were taken */
  uint32_t broken; /* versions that were not whole */
  uint64_t seen;   /* pins */
} work;

static void count_end(void *ctx) { tp__a32_add_relaxed((tp__a32 *)ctx, 1); }

static tp_status fill(tp_edit *edit, work *w, const char *id) {
  tp_handler handler = handler_of(id);
  handler.ctx = w->ended;
  handler.destroy = count_end;
  tp_status status = tp_edit_add_handler(edit, &handler, NULL);
  if (status == TP_OK) w->added++;
  /* Each handler comes with two subscriptions, one in each of two phases. */
  for (int i = 0; i < 2 && status == TP_OK; i++) {
    char sub_id[64];
    snprintf(sub_id, sizeof sub_id, "%s.%d", id, i);
    tp_subscription sub = subscription_of(sub_id, i ? GATHER : REVERSE);
    sub.handler = id;
    status = tp_edit_add_subscription(edit, &sub, NULL);
  }
  return status;
}

static tp_status empty(tp_edit *edit, const char *id) {
  char sub_id[64];
  tp_status status = tp_edit_remove_handler(edit, id, NULL);
  for (int i = 0; i < 2 && status == TP_OK; i++) {
    snprintf(sub_id, sizeof sub_id, "%s.%d", id, i);
    status = tp_edit_remove_subscription(edit, sub_id, NULL);
  }
  return status;
}

/* Commits until no other thread came in between. */
static bool persist(work *w, const char *id, bool adding) {
  for (;;) {
    tp_edit *edit;
    if (tp__edit_new(w->registry, NULL, &edit, NULL) != TP_OK) return false;
    tp_status status = adding ? fill(edit, w, id) : empty(edit, id);
    if (status == TP_OK) status = tp_edit_commit(edit, NULL, NULL);
    if (status != TP_OK) tp_edit_discard(edit);
    if (status != TP_ERR_CONFLICT) return status == TP_OK;
  }
}

static void *write_rounds(void *arg) {
  work *w = arg;
  for (int round = 0; round < ROUNDS; round++) {
    char id[32];
    snprintf(id, sizeof id, "w%d.%d", w->number, round);
    if (!persist(w, id, true) || !persist(w, id, false)) w->broken++;
  }
  return NULL;
}

static bool whole(const tp__snapshot *snapshot) {
  const tp__plan *gather = snapshot->plans[GATHER], *reverse = snapshot->plans[REVERSE];
  if (!gather || !reverse) return !gather && !reverse;
  if (gather->node_count != reverse->node_count) return false;
  for (uint32_t i = 0; i < gather->node_count; i++) {
    if (gather->nodes[i].ctx == NULL || gather->nodes[i].handler->desc.run != no_run) return false;
  }
  return true;
}

static void *read_on(void *arg) {
  work *w = arg;
  uint64_t version = 0;
  do { /* at least once, even if the writers were done before this thread first ran */
    tp__snapshot *snapshot = tp__registry_pin(w->registry);
    if (snapshot->version < version || !whole(snapshot)) w->broken++;
    version = snapshot->version;
    w->seen++;
    tp__snapshot_unpin(snapshot);
  } while (!tp__a32_load_acquire(w->stop));
  return NULL;
}

TEST(handlers_come_and_go_while_snapshots_are_pinned) {
  tp__registry *registry;
  tp_fault fault;
  tp__a32 stop = {0}, ended = {0};
  pthread_t threads[WRITERS + READERS];
  work works[WRITERS + READERS];
  assert_int_equal(tp__registry_new(NULL, world_rows, PHASES, world_aliases, 3, NULL, 0, &world_ops, &registry, &fault),
                   TP_OK);
  for (int i = 0; i < WRITERS + READERS; i++) {
    works[i] = (work){.registry = registry, .number = i, .stop = &stop, .ended = &ended};
    assert_int_equal(pthread_create(&threads[i], NULL, i < WRITERS ? write_rounds : read_on, &works[i]), 0);
  }
  for (int i = 0; i < WRITERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  tp__a32_store_release(&stop, 1);
  for (int i = WRITERS; i < WRITERS + READERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  uint32_t added = 0, broken = 0;
  for (int i = 0; i < WRITERS + READERS; i++) {
    added += works[i].added;
    broken += works[i].broken;
    if (i >= WRITERS) assert_true(works[i].seen > 0);
  }
  assert_int_equal(broken, 0);
  assert_true(added >= WRITERS * ROUNDS);
  assert_int_equal(tp__a32_load_acquire(&ended),
                   added); /* after conflicts some were added and destroyed more than once in a round */
  tp__snapshot *last = tp__registry_pin(registry);
  assert_int_equal(last->version, 2 * WRITERS * ROUNDS);
  tp__snapshot_unpin(last);
  tp__registry_free(registry);
}
