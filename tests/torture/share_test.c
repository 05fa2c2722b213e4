/* SPDX-License-Identifier: Apache-2.0
 *
 * Phases of expensive inline nodes under real threads: several hosts, engine workers that help, tokens completed by
 * other threads, cancels and the kill switch at any moment. The behaviour of a node follows from its number and that of
 * the phase, so the results are known. Each node is called at most once, and none before the nodes for which it waits.
 * Every contribution is there, every entry is recorded, and no memory is left. */
#include <sched.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/share.h"
#include "tests/support/counting.h"
#include "tests/support/host.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, NODES = 28, HOSTS = 3, AMPLE_MS = 60000 };

static unsigned rounds(void) {
  const char *text = getenv("TURNPHASE_ROUNDS");
  return text && atoi(text) > 0 ? (unsigned)atoi(text) : 1;
}

static uint32_t mix(uint32_t a, uint32_t b) {
  uint64_t h = (a * UINT64_C(0x9e3779b97f4a7c15)) ^ (b + UINT64_C(0x7f4a7c15));
  h = (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
  return (uint32_t)(h >> 32);
}

/* ---- a graph, and the hosts that run it ---- */

typedef enum way { SUCCEEDS, EMITS, EMITS_MUCH, FAILS, SAYS_NO, DEFERS, DEFERS_AND_EMITS, ANSWERS_ITSELF } way;

/* One phase of one host, as it goes. */
typedef struct host {
  struct party *party;
  uint32_t number, phase; /* phase: of all that this host has run, from 1 */
  tp_turn *turn;          /* under party->mutex: a canceller must find it alive */
  latch ended;
  tp_phase_result result;
  _Atomic uint32_t clock; /* of begins and ends */
  _Atomic uint32_t calls[NODES], begun[NODES], over[NODES];
  _Atomic uint32_t tokens_out;
  uint32_t cancelled_phases, wrong; /* the host's thread only */
} host;

typedef struct party {
  tp_runtime *runtime;
  bool cancels, kills;
  uint32_t phases; /* of each host */
  uint32_t seed;
  bool after[NODES][NODES]; /* [i][j]: i waits for j */
  host hosts[HOSTS];
  pthread_mutex_t mutex;
  _Atomic bool stop;
} party;

static party p;

static way way_of(const host *h, uint32_t node) {
  uint32_t draw = mix(p.seed + h->number * 1000 + h->phase, node) % 64;
  return draw < 44   ? SUCCEEDS
         : draw < 50 ? EMITS
         : draw < 52 ? EMITS_MUCH
         : draw < 54 ? FAILS
         : draw < 55 ? SAYS_NO
         : draw < 58 ? DEFERS
         : draw < 61 ? DEFERS_AND_EMITS
                     : ANSWERS_ITSELF;
}

static uint32_t emits_of(way w) {
  switch (w) {
    case EMITS:
      return 1;
    case EMITS_MUCH:
      return 20;
    case DEFERS_AND_EMITS:
      return 2;
    case ANSWERS_ITSELF:
      return 1;
    case SUCCEEDS:
    case FAILS:
    case SAYS_NO:
    case DEFERS:
      break;
  }
  return 0;
}

/* ---- strangers ---- */

typedef struct open_token {
  tp_token token;
  host *h;
  uint32_t node;
  bool contributes;
} open_token;

enum { BOX = HOSTS * NODES };
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t work;
  open_token box[BOX];
  uint32_t count;
  bool stop;
} strangers = {.mutex = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

static void spin_us(int64_t us) {
  int64_t end_ns = now_ns() + us * 1000;
  while (now_ns() < end_ns) {}
}

static void complete(const open_token *o) {
  char text[64];
  snprintf(text, sizeof text, "h%u p%u n%u", o->h->number, o->h->phase, o->node);
  tp_contribution c = {.struct_size = sizeof(tp_contribution),
                       .kind = TP_CONTRIBUTION_AUDIT,
                       .key = TEXT("token"),
                       .text = tp_text_of(text)};
  tp_outcome done = {.struct_size = sizeof(tp_outcome),
                     .kind = TP_ANSWER_DONE,
                     .contributions = (const tp_contribution *[]){&c},
                     .contribution_count = o->contributes};
  o->h->over[o->node] = ++o->h->clock;
  (void)!tp_token_complete(o->token, &done, NULL);
  o->h->tokens_out--;
}

static void *be_strange(void *arg) {
  (void)arg;
  pthread_mutex_lock(&strangers.mutex);
  for (;;) {
    while (strangers.count == 0 && !strangers.stop) pthread_cond_wait(&strangers.work, &strangers.mutex);
    if (strangers.count == 0) break;
    open_token o = strangers.box[--strangers.count];
    pthread_mutex_unlock(&strangers.mutex);
    complete(&o);
    pthread_mutex_lock(&strangers.mutex);
  }
  pthread_mutex_unlock(&strangers.mutex);
  return NULL;
}

/* A host waits for its tokens before its next phase, so the box has space for all tokens that may be out. */
static void hand_to_strangers(const open_token *o) {
  pthread_mutex_lock(&strangers.mutex);
  strangers.box[strangers.count++] = *o;
  pthread_cond_signal(&strangers.work);
  pthread_mutex_unlock(&strangers.mutex);
}

/* ---- the handler ---- */

static void emit(const host *h, uint32_t node, tp_call *call, uint32_t count) {
  char text[64];
  snprintf(text, sizeof text, "h%u p%u n%u", h->number, h->phase, node);
  for (uint32_t i = 0; i < count; i++) (void)!tp_call_emit_audit(call, "call", text, NULL);
}

static tp_answer defer(host *h, uint32_t node, tp_call *call, way w) {
  open_token o = {.h = h, .node = node, .contributes = emits_of(w) > 0};
  h->tokens_out++;
  tp_answer outcome = tp_call_defer(call, &(tp_deferral){.struct_size = sizeof(tp_deferral)}, &o.token);
  if (!o.token.bits) h->tokens_out--;
  else if (w == ANSWERS_ITSELF) complete(&o);
  else hand_to_strangers(&o);
  return outcome;
}

static tp_answer do_it(host *h, uint32_t node, tp_call *call) {
  way w = way_of(h, node);
  switch (w) {
    case EMITS:
    case EMITS_MUCH:
      emit(h, node, call, emits_of(w));
      break;
    case FAILS:
      return tp_call_fail(call, 1 + node, "as drawn");
    case SAYS_NO:
      return tp_call_deny(call, "in a phase that takes no verdict");
    case DEFERS_AND_EMITS:
      emit(h, node, call, 1);
      return defer(h, node, call, w);
    case DEFERS:
    case ANSWERS_ITSELF:
      return defer(h, node, call, w);
    case SUCCEEDS:
      break;
  }
  return TP_ANSWER_DONE;
}

static tp_answer work(void *ctx, tp_call *call) {
  uint32_t node = (uint32_t)(uintptr_t)ctx;
  host *h = &p.hosts[tp_call_id(call, TP_ID_TASK).data[0] - '0'];
  h->calls[node]++;
  h->begun[node] = ++h->clock;
  way w = way_of(h, node);
  spin_us(3 + mix(h->phase, node) % 18);
  bool defers = w == DEFERS || w == DEFERS_AND_EMITS || w == ANSWERS_ITSELF;
  if (!defers) h->over[node] = ++h->clock;
  return do_it(h, node, call);
}

/* ---- the judge: the host's own thread, when its phase is over ---- */

static bool is_order_kept(const host *h, uint32_t node) {
  for (uint32_t before = 0; before < NODES; before++) {
    if (!p.after[node][before] || !h->calls[before] || !h->calls[node]) continue;
    tp_run_record run = *tp_phase_result_run(&h->result, before);
    bool answered = run.state == TP_STATE_SUCCEEDED || run.state == TP_STATE_FAILED;
    if (answered && h->over[before] > h->begun[node]) return false;
  }
  return true;
}

static bool is_run_right(const host *h, uint32_t node, const tp_run_record *run) {
  way w = way_of(h, node);
  bool cancelled = h->result.outcome == TP_ERR_CANCELLED;
  if (run->attempts != h->calls[node] || run->attempts > 1) return false;
  if (run->attempts == 0) return run->state == TP_STATE_SKIPPED && run->contribution_count == 0;
  if (run->queued_ns > run->started_ns || run->started_ns > run->ended_ns) return false;
  if (cancelled && (run->state == TP_STATE_CANCELLED || run->state == TP_STATE_TIMED_OUT))
    return run->contribution_count == 0;
  if (w == FAILS) return run->state == TP_STATE_FAILED && run->code == 1 + node;
  if (w == SAYS_NO) return run->state == TP_STATE_FAILED && run->reason != TP_REASON_ERROR;
  return run->state == TP_STATE_SUCCEEDED && run->contribution_count == emits_of(w);
}

/* Each says from which node it is. */
static bool are_contributions_right(const host *h, uint32_t want) {
  const tp_merged *merged = h->result.merged;
  size_t count = merged ? tp_merged_count(merged, TP_CONTRIBUTION_AUDIT) : 0;
  if (count != want) return false;
  for (size_t i = 0; i < count; i++) {
    const tp_merged_entry *entry = tp_merged_get(merged, TP_CONTRIBUTION_AUDIT, i);
    char text[64];
    snprintf(text, sizeof text, "h%u p%u n%d", h->number, h->phase, atoi(entry->subscription + 1));
    if (!entry->contribution || entry->contribution->text.size != strlen(text) ||
        memcmp(entry->contribution->text.data, text, strlen(text)) != 0)
      return false;
  }
  return true;
}

static void complain(host *h, const char *what, uint32_t node, const tp_run_record *run) {
  if (h->wrong++ > 3) return;
  print_error("seed %u, host %u, phase %u (%s), node %u: %s: way %d, %u calls, %s, %s, %u contributed\n", p.seed,
              h->number, h->phase, tp_status_name(h->result.outcome), node, what, way_of(h, node), h->calls[node],
              tp_state_name(run->state), tp_reason_name(run->reason), run->contribution_count);
}

static void judge(host *h) {
  uint32_t contributed = 0;
  tp_status outcome = h->result.outcome;
  if (outcome == TP_ERR_CANCELLED) h->cancelled_phases++;
  if (outcome != TP_OK && !(p.cancels && outcome == TP_ERR_CANCELLED)) h->wrong++;
  for (uint32_t i = 0; i < NODES; i++) {
    tp_run_record run = *tp_phase_result_run(&h->result, i);
    uint32_t node = (uint32_t)atoi(run.subscription + 1);
    contributed += run.contribution_count;
    if (!is_run_right(h, node, &run)) complain(h, "its row is wrong", node, &run);
  }
  for (uint32_t node = 0; node < NODES; node++) {
    tp_run_record run = *tp_phase_result_run(&h->result, node);
    if (!is_order_kept(h, node)) complain(h, "it was called too early", node, &run);
  }
  if (!are_contributions_right(h, contributed)) {
    tp_run_record run = {0};
    complain(h, "the phase's contributions are wrong", 0, &run);
  }
}

/* ---- hosts ---- */

static void begin_turn(host *h) {
  char task[2] = {(char)('0' + h->number), 0};
  tp_turn_request request = {.struct_size = sizeof request, .task = task, .limit_ms = 10 * AMPLE_MS};
  tp_turn *turn = NULL;
  if (tp_turn_begin_bare(p.runtime, &request, &turn, NULL) != TP_OK) abort();
  pthread_mutex_lock(&p.mutex);
  h->turn = turn;
  pthread_mutex_unlock(&p.mutex);
}

static void end_turn(host *h) {
  pthread_mutex_lock(&p.mutex);
  tp_turn *turn = h->turn;
  h->turn = NULL;
  pthread_mutex_unlock(&p.mutex);
  tp_turn_end(turn);
}

static void phase_ended(void *ctx, const tp_phase_result *result) {
  host *h = ctx;
  h->result = *result;
  latch_hit(&h->ended);
}

static void run_one(host *h, bool submitted) {
  for (uint32_t i = 0; i < NODES; i++) h->calls[i] = h->begun[i] = h->over[i] = 0;
  h->phase++;
  tp_status status;
  if (submitted) {
    int want = latch_count(&h->ended) + 1;
    status = tp_phase_submit(h->turn, GATHER, NULL, phase_ended, h, NULL);
    if (status == TP_OK) latch_wait(&h->ended, want);
  } else {
    h->result.struct_size = sizeof h->result;
    status = tp_phase_run(h->turn, GATHER, NULL, &h->result, NULL);
  }
  if (status != TP_OK) abort();
  while (h->tokens_out > 0) sched_yield(); /* of a cancelled phase they may still be on their way */
  judge(h);
}

static void *be_host(void *arg) {
  host *h = arg;
  begin_turn(h);
  for (uint32_t i = 0; i < p.phases; i++) {
    run_one(h, mix(p.seed, i) % 3 == 0);
    if (i % 3) tp_phase_result_release(h->turn, &h->result);
    if (h->result.outcome == TP_OK && i % 8 != 7) continue;
    end_turn(h);
    begin_turn(h);
  }
  end_turn(h);
  return NULL;
}

/* ---- those who disturb ---- */

static void *cancel_some(void *arg) {
  (void)arg;
  unsigned seed = p.seed;
  while (!p.stop) {
    spin_us(rand_r(&seed) % 300);
    pthread_mutex_lock(&p.mutex);
    host *h = &p.hosts[rand_r(&seed) % HOSTS];
    if (h->turn) tp_turn_cancel(h->turn);
    pthread_mutex_unlock(&p.mutex);
    sched_yield();
  }
  return NULL;
}

static void *kill_some(void *arg) {
  (void)arg;
  unsigned seed = p.seed + 1;
  while (!p.stop) {
    char id[16];
    snprintf(id, sizeof id, "n%02u", (unsigned)rand_r(&seed) % NODES);
    (void)!tp_subscription_kill(p.runtime, id, true, NULL);
    spin_us(rand_r(&seed) % 100);
    (void)!tp_subscription_kill(p.runtime, id, false, NULL);
    spin_us(rand_r(&seed) % 100);
    sched_yield();
  }
  return NULL;
}

/* ---- a party ---- */

static void add_graph(void) {
  static char ids[NODES][16];
  static hook hooks[NODES];
  memset(p.after, 0, sizeof p.after);
  for (uint32_t i = 0; i < NODES; i++) {
    snprintf(ids[i], sizeof ids[i], "n%02u", i);
    hooks[i] = (hook){.id = ids[i], .phase = GATHER, .run = work, .ctx = (void *)(uintptr_t)i};
    hooks[i].sub.limit_ms = AMPLE_MS;
    uint32_t before = i > 0 ? mix(p.seed, i) % (2 * i) : i, second = i > 0 ? mix(p.seed + 7, i) % (3 * i) : i;
    if (before < i) hooks[i].after = ids[before];
    if (second < i && second != before) hooks[i].optional_after = ids[second];
    if (before < i) p.after[i][before] = true;
    if (second < i && second != before) p.after[i][second] = true;
  }
  add_hooks(p.runtime, hooks, NODES);
}

static bool count_record(void *ctx, const tp_entry_record *record) {
  if (record->run_count == NODES) ++*(uint32_t *)ctx;
  return true;
}

/* A turn may end after tp_turn_end(), on the thread of its last late attempt. Its records come only then. */
static void assert_all_recorded(void) {
  uint32_t records = 0;
  assert_int_equal(tp_runtime_drain(p.runtime, AMPLE_MS, NULL, NULL), TP_OK);
  assert_int_equal(read_records(p.runtime, 10000, count_record, &records), TP_OK);
  assert_int_equal(records, HOSTS * p.phases);
}

static void assert_all_right(void) {
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < HOSTS; i++) wrong += p.hosts[i].wrong;
  if (wrong > 0) fail_msg("seed %u: %u things were wrong", p.seed, wrong);
}

static void run_party(uint32_t seed, uint32_t workers, bool cancels, bool kills) {
  memset(&p, 0, sizeof p);
  p = (party){.seed = seed, .cancels = cancels, .kills = kills, .phases = 60, .mutex = PTHREAD_MUTEX_INITIALIZER};
  tp_runtime_options options = {.struct_size = sizeof options, .engine_workers = workers};
  options.allocator = counting;
  p.runtime = open_runtime(&options);
  tp__runtime_helpers(p.runtime)->max = workers - 1; /* also where there are fewer processors */
  add_graph();
  strangers.stop = false;
  pthread_t stranger, canceller, killer, threads[HOSTS];
  pthread_create(&stranger, NULL, be_strange, NULL);
  for (uint32_t i = 0; i < HOSTS; i++) {
    p.hosts[i].number = i;
    p.hosts[i].ended = (latch)LATCH;
    pthread_create(&threads[i], NULL, be_host, &p.hosts[i]);
  }
  if (cancels) pthread_create(&canceller, NULL, cancel_some, NULL);
  if (kills) pthread_create(&killer, NULL, kill_some, NULL);
  for (uint32_t i = 0; i < HOSTS; i++) pthread_join(threads[i], NULL);
  p.stop = true;
  if (cancels) pthread_join(canceller, NULL);
  if (kills) pthread_join(killer, NULL);
  pthread_mutex_lock(&strangers.mutex);
  strangers.stop = true;
  pthread_cond_broadcast(&strangers.work);
  pthread_mutex_unlock(&strangers.mutex);
  pthread_join(stranger, NULL);
  assert_all_right();
  assert_all_recorded();
  close_runtime(p.runtime);
  assert_int_equal(blocks_open, 0);
}

static void run_parties(bool cancels, bool kills) {
  static uint32_t seed = 1;
  for (unsigned round = 0; round < rounds(); round++)
    for (uint32_t workers = 2; workers <= 4; workers++)
      run_party(seed++ * 97 + (uint32_t)getpid(), workers, cancels, kills);
}

TEST(shared_nodes_run_once_in_order_and_nothing_is_lost) { run_parties(false, false); }

TEST(shared_nodes_run_once_in_order_while_some_are_switched_off) { run_parties(false, true); }

TEST(shared_nodes_run_once_in_order_while_turns_are_cancelled) { run_parties(true, false); }

TEST(shared_nodes_run_once_in_order_while_turns_are_cancelled_and_nodes_switched_off) { run_parties(true, true); }
