/* SPDX-License-Identifier: Apache-2.0
 *
 * One tenant sends turns as fast as it can, far more than fit, while five others send one turn after the other. Its
 * turns are refused, so few of them wait, and the others lose none. The model answers after about 1 ms, so that a known
 * number of turns fits. Latencies are only printed: a machine with other load shows other figures. */
#include "tests/support/test.h"
#include "tests/support/counting.h"
#include "tests/support/host.h"

enum { RUNNING = 4, WAITING = 8, TENANTS = 5, TURNS = 60, FLOOD_SESSIONS = 64, ANSWERS_MAX = 64 };

/* ---- a model that answers some 1 ms later ---- */

typedef struct world {
  tp_runtime *runtime;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  tp_token tokens[ANSWERS_MAX];
  int64_t answer_at_ns[ANSWERS_MAX];
  int first, count; /* of a ring */
  bool stops;
  _Atomic bool others_done;
  _Atomic long sent, refused, taken, ended, strange;
} world;

static void model_start(void *ctx, const tp_model_request *request, tp_token token) {
  world *w = ctx;
  (void)request;
  pthread_mutex_lock(&w->mutex);
  int at = (w->first + w->count++) % ANSWERS_MAX;
  w->tokens[at] = token;
  w->answer_at_ns[at] = now_ns() + 1000000;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->mutex);
}

static void *answer_all(void *arg) {
  world *w = arg;
  const tp_model_response response = {
      .struct_size = sizeof response, .text = TEXT("ok"), .stop_reason = TEXT("end_turn")};
  pthread_mutex_lock(&w->mutex);
  while (!w->stops || w->count > 0) {
    if (w->count == 0) {
      pthread_cond_wait(&w->changed, &w->mutex);
      continue;
    }
    tp_token token = w->tokens[w->first];
    int64_t left_ns = w->answer_at_ns[w->first] - now_ns();
    w->first = (w->first + 1) % ANSWERS_MAX;
    w->count--;
    pthread_mutex_unlock(&w->mutex);
    if (left_ns > 0) nanosleep(&(struct timespec){0, left_ns}, NULL);
    (void)!tp_model_complete(token, &response, NULL);
    pthread_mutex_lock(&w->mutex);
  }
  pthread_mutex_unlock(&w->mutex);
  return NULL;
}

static tp_session *open_session(world *w, const char *tenant, const char *id) {
  const tp_model model = {
      .struct_size = sizeof model, .name = "m", .ctx = w, .start = model_start, .placement = TP_PLACEMENT_INLINE};
  const tp_session_options options = {.struct_size = sizeof options, .id = id, .tenant = tenant, .model = &model};
  tp_session *session = NULL;
  return tp_session_open(w->runtime, &options, &session, NULL) == TP_OK ? session : NULL;
}

/* ---- the others: one turn after the other ---- */

typedef struct other {
  world *w;
  tp_session *session;
  int64_t duration_ns[TURNS];
  int completed;
} other;

static void *run_turns(void *arg) {
  other *o = arg;
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hi")};
  for (int i = 0; i < TURNS; i++) {
    const tp_turn_result *result = NULL;
    int64_t begun_ns = now_ns();
    if (tp_turn_run(o->session, &request, &result, NULL) != TP_OK) continue;
    o->duration_ns[i] = now_ns() - begun_ns;
    o->completed += result->outcome == TP_TURN_COMPLETED;
    tp_turn_result_free(result);
  }
  return NULL;
}

static int by_size(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* ---- the flood ---- */

static void flood_turn_ended(void *ctx, const tp_turn_result *result) {
  (void)result;
  ((world *)ctx)->ended++;
}

static void *flood(void *arg) {
  world *w = arg;
  tp_session *sessions[FLOOD_SESSIONS];
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("flood"), .limit_ms = 60000};
  for (int i = 0; i < FLOOD_SESSIONS; i++) {
    char id[8];
    snprintf(id, sizeof id, "f%d", i);
    sessions[i] = open_session(w, "flood", id);
  }
  for (int i = 0; !w->others_done; i = (i + 1) % FLOOD_SESSIONS) {
    tp_status status = tp_turn_submit(sessions[i], &request, flood_turn_ended, w, NULL, NULL);
    w->sent++;
    if (status == TP_OK) w->taken++;
    else if (status == TP_ERR_FULL) w->refused++;
    else w->strange++;
    nanosleep(&(struct timespec){0, 1000}, NULL);
  }
  for (int i = 0; i < FLOOD_SESSIONS; i++) tp_session_close(sessions[i], NULL, NULL);
  return NULL;
}

/* @return the 99th percentile of the others' turns. */
static int64_t run(bool floods) {
  world w = {.count = 0};
  pthread_mutex_init(&w.mutex, NULL);
  pthread_cond_init(&w.changed, NULL);
  const tp_runtime_options options = {
      .struct_size = sizeof options, .allocator = counting, .turns_running_max = RUNNING, .turns_waiting_max = WAITING};
  w.runtime = open_runtime(&options);
  pthread_t threads[TENANTS], flooder, answerers[RUNNING];
  other others[TENANTS];
  for (int i = 0; i < RUNNING; i++) pthread_create(&answerers[i], NULL, answer_all, &w);
  if (floods) pthread_create(&flooder, NULL, flood, &w);
  while (floods && w.refused == 0) sleep_ms(1); /* the flood is there */
  for (int i = 0; i < TENANTS; i++) {
    const char id[] = {'o', (char)('0' + i), '\0'};
    others[i] = (other){.w = &w, .session = open_session(&w, id, id)};
    pthread_create(&threads[i], NULL, run_turns, &others[i]);
  }
  uint64_t waiting_most = 0;
  for (int i = 0; floods && i < 20; i++) {
    tp_runtime_stats stats = {.struct_size = sizeof stats};
    tp_runtime_stats_get(w.runtime, &stats);
    if (stats.turns_waiting > waiting_most) waiting_most = stats.turns_waiting;
    sleep_ms(1);
  }
  int64_t all_ns[TENANTS * TURNS];
  for (int i = 0; i < TENANTS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(others[i].completed, TURNS); /* none was refused */
    memcpy(all_ns + (ptrdiff_t)i * TURNS, others[i].duration_ns, sizeof others[i].duration_ns);
    tp_session_close(others[i].session, NULL, NULL);
  }
  w.others_done = true;
  if (floods) pthread_join(flooder, NULL);
  assert_int_equal(tp_runtime_drain(w.runtime, 60000, NULL, NULL), TP_OK);
  pthread_mutex_lock(&w.mutex);
  w.stops = true;
  pthread_cond_broadcast(&w.changed);
  pthread_mutex_unlock(&w.mutex);
  for (int i = 0; i < RUNNING; i++) pthread_join(answerers[i], NULL);
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(w.runtime, &stats);
  assert_int_equal(w.strange, 0);
  assert_int_equal(w.ended, w.taken);
  assert_int_equal(stats.turns_refused, w.refused);
  assert_true(waiting_most <= WAITING + TENANTS + 1);
  close_runtime(w.runtime);
  qsort(all_ns, TENANTS * TURNS, sizeof *all_ns, by_size);
  int64_t p99_ns = all_ns[TENANTS * TURNS * 99 / 100];
  if (floods)
    printf("# the flood sent %ld turns, %ld of them were refused; at most %llu waited\n", (long)w.sent, (long)w.refused,
           (unsigned long long)waiting_most);
  return p99_ns;
}

TEST(flood_of_one_tenant_is_refused_and_the_others_lose_no_turn) {
  int64_t alone_ns = run(false);
  assert_int_equal(blocks_open, 0);
  int64_t beside_ns = run(true);
  assert_int_equal(blocks_open, 0);
  printf("# p99 of a turn of the others: %.2f ms alone, %.2f ms beside the flood\n", (double)alone_ns / 1e6,
         (double)beside_ns / 1e6);
}
