/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/sqlite/group.h"

#include "stores/sqlite/statement.h"

/* ---- transactions ---- */

static void end_all(tp__group_work *first, const tp__group_work *behind, tp_status status, const tp_fault *fault) {
  for (tp__group_work *work = first; work != behind; work = work->next) {
    work->status = status;
    if (status != TP_OK) work->fault = *fault;
  }
}

/* Writes the works from `first` up to, not including, `behind` in one transaction: all of them or none. @return whether
 * the transaction could begin. */
static bool transact_locked(tp__group *g, tp__group_work *first, const tp__group_work *behind) {
  TP__LOCKED(g->connection);
  assert(first && first != behind);
  const char *doing = first->doing;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  int rc = tp__sqlite_begin(g->db);
  bool has_begun = rc == SQLITE_OK;
  for (tp__group_work *work = first; rc == SQLITE_OK && work != behind; work = work->next) {
    doing = work->doing;
    rc = work->write(work->ctx);
  }
  if (rc != SQLITE_OK) status = tp__sqlite_fail(g->db, g->path, doing, rc, &fault);
  int end = tp__sqlite_end(g->db, rc);
  if (rc == SQLITE_OK && end != SQLITE_OK) status = tp__sqlite_fail(g->db, g->path, doing, end, &fault);
  end_all(first, behind, status, &fault);
  return has_begun;
}

/* A work that cannot be written fails alone. If no transaction can begin, the other works would wait for the lock of
 * the file one after the other and fail as well, so all fail at once. */
static void write_locked(tp__group *g, tp__group_work *list) {
  TP__LOCKED(g->connection);
  if (!list || !transact_locked(g, list, NULL) || list->status == TP_OK || !list->next) return;
  for (tp__group_work *work = list; work; work = work->next) {
    if (transact_locked(g, work, work->next)) continue;
    end_all(work->next, NULL, work->status, &work->fault);
    return;
  }
}

/* ---- leading ---- */

#ifdef TP_CHECKS
static void group_check_locked(const tp__group *g) {
  TP__LOCKED(&g->mutex);
  /* The end of an empty queue is its beginning. A waiting work has not ended, and waits for a leader. */
  assert(g->first ? g->last != (tp__group_work **)(uintptr_t)&g->first : g->last == &g->first);
  assert(!*g->last && (!g->first || (!g->first->has_ended && (g->is_led || g->has_thread))));
}
#endif

static void add_locked(tp__group *g, tp__group_work *work) {
  TP__LOCKED(&g->mutex);
  assert(work->write && work->doing && !work->has_ended);
  work->next = NULL;
  *g->last = work;
  g->last = &work->next;
  g->open++;
}

/* @param own  takes works only up to the first one for which no thread waits. */
static tp__group_work *take_locked(tp__group *g, bool own) {
  TP__LOCKED(&g->mutex);
  tp__group_work *list = g->first, **end = &list->next;
  assert(list && !(own && list->end));
  while (*end && !(own && (*end)->end)) end = &(*end)->next;
  g->first = *end;
  *end = NULL;
  if (!g->first) g->last = &g->first;
  return list;
}

/* Works are taken when the connection is free, because more may come until then. `end` is called on the group's thread,
 * so any other leader takes no work that has an `end`. */
static tp__group_work *write_what_waits(tp__group *g) {
  tp__lock_acquire(g->connection);
  tp__lock_acquire(&g->mutex);
  tp__group_work *list = take_locked(g, g->first->leads);
  tp__lock_release(&g->mutex);
  write_locked(g, list);
  tp__lock_release(g->connection);
  return list;
}

/* Wakes the threads that wait for works of the list. @return the works for which no thread waits. */
static tp__group_work *end_list_locked(tp__group *g, tp__group_work *list) {
  TP__LOCKED(&g->mutex);
  tp__group_work *submitted = NULL, **last = &submitted;
  while (list) {
    tp__group_work *work = list;
    list = list->next; /* the work is gone once its thread goes on */
    work->has_ended = true;
    assert(g->open > 0);
    g->open--;
    if (work->end) {
      *last = work;
      last = &work->next;
    } else {
      tp__lock_condition_signal(&work->changed);
    }
  }
  *last = NULL;
  TP__CHECK(group_check_locked(g));
  return submitted;
}

static void lead_locked(tp__group *g) {
  TP__LOCKED(&g->mutex);
  tp__lock_release(&g->mutex);
  tp__group_work *list = write_what_waits(g);
  tp__lock_acquire(&g->mutex);
  tp__group_work *submitted = end_list_locked(g, list);
  if (!submitted) return;
  tp__lock_release(&g->mutex);
  while (submitted) {
    tp__group_work *work = submitted;
    submitted = work->next;
    work->end(work);
  }
  tp__lock_acquire(&g->mutex);
}

/* The first work that came meanwhile leads the next transaction; or the group's thread does. */
static void pass_on_locked(tp__group *g) {
  TP__LOCKED(&g->mutex);
  g->is_led = g->first != NULL && !g->has_thread;
  if (g->has_thread && (g->first || g->ending)) tp__lock_condition_signal(&g->wanted);
  if (!g->is_led) return;
  g->first->leads = true;
  tp__lock_condition_signal(&g->first->changed);
}

tp_status tp__group_run(tp__group *g, tp__group_work *work, tp_fault *fault) {
  assert(!work->end);
  work->has_ended = work->leads = false;
  tp__lock_condition_init(&work->changed);
  tp__lock_acquire(&g->mutex);
  if (!g->is_led && !g->first) g->is_led = work->leads = true;
  add_locked(g, work);
  while (!work->has_ended && !work->leads) tp__lock_condition_wait(&work->changed, &g->mutex);
  if (work->leads) {
    lead_locked(g);
    pass_on_locked(g);
  }
  assert(work->has_ended);
  tp__lock_release(&g->mutex);
  tp__lock_condition_fini(&work->changed);
  if (fault && work->status != TP_OK) *fault = work->fault;
  return work->status;
}

void tp__group_submit(tp__group *g, tp__group_work *work) {
  assert(g->has_thread && work->end);
  work->has_ended = work->leads = false;
  tp__lock_acquire(&g->mutex);
  add_locked(g, work);
  if (!g->is_led) tp__lock_condition_signal(&g->wanted);
  tp__lock_release(&g->mutex);
}

static int write_nothing(void *ctx) {
  (void)ctx;
  return SQLITE_OK;
}

tp_status tp__group_settle(tp__group *g, tp_fault *fault) {
  tp__group_work last = {.write = write_nothing, .doing = "wait for what is written"};
  tp__lock_acquire(&g->mutex);
  bool is_idle = g->open == 0;
  tp__lock_release(&g->mutex);
  return is_idle ? TP_OK : tp__group_run(g, &last, fault);
}

/* ---- life ---- */

static void *lead_all(void *ctx) {
  tp__group *g = ctx;
  tp__lock_acquire(&g->mutex);
  for (;;) {
    while (g->is_led || (!g->first && !g->ending)) tp__lock_condition_wait(&g->wanted, &g->mutex);
    if (!g->first) break;
    g->is_led = true;
    lead_locked(g);
    g->is_led = false;
  }
  void (*then)(void *) = g->then;
  tp__lock_release(&g->mutex);
  if (!then) return NULL;
  pthread_detach(pthread_self());
  g->has_thread = false;
  then(g->then_ctx);
  return NULL;
}

bool tp__group_end_later(tp__group *g, void (*then)(void *ctx), void *ctx) {
  if (!g->connection || !g->has_thread || !pthread_equal(pthread_self(), g->thread)) return false;
  tp__lock_acquire(&g->mutex);
  assert(then && !g->ending);
  g->ending = true;
  g->then = then;
  g->then_ctx = ctx;
  tp__lock_release(&g->mutex);
  return true;
}

tp_status tp__group_init(tp__group *g, tp__lock *connection, sqlite3 *db, const char *path, bool with_thread,
                         tp_fault *fault) {
  assert(connection && db);
  *g = (tp__group){.connection = connection, .db = db, .path = path, .has_thread = with_thread};
  g->last = &g->first;
  tp__lock_init(&g->mutex, TP__LOCK_group);
  tp__lock_condition_init(&g->wanted);
  if (!with_thread || tp__thread_spawn(&g->thread, lead_all, g) == 0) return TP_OK;
  g->has_thread = false;
  tp__group_fini(g);
  return tp__refuse(fault, TP_ERR_NO_THREAD, path, "%s: no thread to commit what is written", path ? path : "memory");
}

void tp__group_fini(tp__group *g) {
  if (!g->connection) return;
  if (g->has_thread) {
    tp__lock_acquire(&g->mutex);
    g->ending = true;
    tp__lock_condition_signal(&g->wanted);
    tp__lock_release(&g->mutex);
    pthread_join(g->thread, NULL);
  }
  assert(!g->first);
  tp__lock_condition_fini(&g->wanted);
  tp__lock_fini(&g->mutex);
  *g = (tp__group){.connection = NULL};
}
