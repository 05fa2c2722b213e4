/* SPDX-License-Identifier: Apache-2.0 */
#include "script.h"

#include <stdio.h>

enum { AMPLE_MS = 100 * 1000 * 1000 }; /* leaves slack before the longest required path */

/* ---- a stream of its own (splitmix64) ---- */

static uint64_t next_of(uint64_t *state) {
  uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

typedef struct drawer {
  uint64_t state;
  script *s;
} drawer;

static uint64_t below(drawer *d, uint64_t bound) { return next_of(&d->state) % bound; }
static bool one_in(drawer *d, uint64_t inverse) { return below(d, inverse) == 0; }
static int64_t up_to_us(drawer *d, uint64_t us) { return (int64_t)below(d, us + 1) * TP__NS_PER_US; }

/* ---- phases ---- */

static const char *const names[SCRIPT_PHASES] = {"sim.gather", "sim.strict", "sim.replace",
                                                 "sim.stop",   "sim.both",   "sim.observe"};

bool script_phase_stops(int phase) { return phase == PHASE_STOP || phase == PHASE_BOTH; }
bool script_phase_replaces(int phase) { return phase == PHASE_REPLACE || phase == PHASE_BOTH; }
bool script_phase_is_chain(int phase) { return script_phase_stops(phase) || script_phase_replaces(phase); }

void script_rows(const script *s, tp_phase *rows) {
  static const uint32_t fields[] = {SCRIPT_FIELD_OP, SCRIPT_FIELD_TEXT};
  for (int i = 0; i < SCRIPT_PHASES; i++) {
    rows[i] =
        (tp_phase){.struct_size = sizeof rows[i],
                   .name = names[i],
                   .mode = i == PHASE_OBSERVE         ? TP_MODE_OBSERVE
                           : script_phase_is_chain(i) ? TP_MODE_CHAIN
                                                      : TP_MODE_GATHER,
                   .replace = script_phase_replaces(i),
                   .stop = script_phase_stops(i),
                   .ask = i == PHASE_STOP,
                   .reverse = i == PHASE_BOTH,
                   .kinds = i == PHASE_OBSERVE ? 1u << TP_CONTRIBUTION_REMINDER
                                               : 1u << TP_CONTRIBUTION_REMINDER | 1u << TP_CONTRIBUTION_PROMPT_CONTEXT |
                                                     1u << TP_CONTRIBUTION_POLICY,
                   .limit_ms = s->phase_limit_ms,
                   .failure = i == PHASE_STRICT || i == PHASE_STOP ? TP_FAILURE_REQUIRED : TP_FAILURE_BEST_EFFORT,
                   .fields = fields,
                   .field_count = 2,
                   .replaceable = &fields[1],
                   .replaceable_count = script_phase_replaces(i) ? 1 : 0};
  }
}

const char *script_fault_level_name(script_fault_level fault_level) {
  static const char *const all[] = {"no faults", "hangs", "clock jumps", "refusals"};
  return all[fault_level];
}

/* ---- the machine ---- */

static void draw_sharing(drawer *d) {
  d->s->all_parallel = one_in(d, 2);
  d->s->helpers_max = 1 + (uint32_t)below(d, 3);
  d->s->search_ns = (int64_t)below(d, 4) * 200;
}

static void draw_machine(drawer *d, int policy) {
  script *s = d->s;
  static const uint32_t workers[] = {1, 1, 2, 2, 3, 8};
  s->fault_level = (script_fault_level)below(d, 4);
  s->phase_limit_ms = s->fault_level == FAULTS_NONE ? 20000 : 20 + (uint32_t)below(d, 100);
  s->options = (tp_runtime_options){.struct_size = sizeof s->options, .engine_workers = workers[below(d, 6)]};
  if (one_in(d, 3)) s->options.handler_threads = 1 + (uint32_t)below(d, 6);
  if (s->fault_level != FAULTS_NONE && one_in(d, 8)) s->options.handler_queue_max = 1 + (uint32_t)below(d, 6);
  if (one_in(d, 3)) s->options.detached_threads = 1 + (uint32_t)below(d, 3);
  if (s->fault_level != FAULTS_NONE && one_in(d, 8)) s->options.deferred_max = 1 + (uint32_t)below(d, 4);
  s->options.no_breakers = s->fault_level == FAULTS_NONE || one_in(d, 2); /* without faults the script says it all */
  s->options.breaker_failures = 1 + (uint32_t)below(d, 3);
  s->options.breaker_open_ms = 1 + (uint32_t)below(d, 50);
  if (s->fault_level != FAULTS_NONE && one_in(d, 16)) s->options.turns_max = 1 + (uint32_t)below(d, 3);
  if (s->fault_level >= FAULTS_CLOCK && one_in(d, 8)) s->options.timestamps = (tp_timestamps)(1 + below(d, 2));
  /* A drain looks each millisecond, so a function that hangs for seconds on the pumping thread costs many steps. */
  s->sim = (tp__sim_options){.seed = s->seed, .clock_jump_inverse = UINT32_MAX, .steps_max = 12000000};
  s->sim.policy = policy >= 0 ? (tp__sim_policy)policy : (tp__sim_policy)below(d, 2);
  if (s->fault_level >= FAULTS_CLOCK) s->sim.clock_jump_inverse = one_in(d, 2) ? 20 : 200;
  if (s->fault_level != FAULTS_REFUSALS) return;
  draw_sharing(d);
  if (!one_in(d, 4)) s->sim.alloc_refuse_inverse = 8 << below(d, 6);
  if (!one_in(d, 3)) s->sim.thread_refuse_inverse = 2 << below(d, 5);
  if (one_in(d, 3)) s->store_refuse_inverse = 2 + (uint32_t)below(d, 8);
  s->refuse_setup = one_in(d, 3);
}

/* ---- nodes ---- */

static script_answer draw_answer(drawer *d, const script_node *node) {
  uint64_t dice = below(d, 100);
  if (dice < 5) return ANSWER_BAD_EMIT;
  if (dice < 13) return ANSWER_FAIL;
  if (dice < 22) return ANSWER_FAIL_RETRYABLE;
  if (dice < 25) return ANSWER_NONE;
  if (dice < 27) return (script_answer)below(d, SCRIPT_ANSWERS); /* whether it is legal here or not */
  if (script_phase_replaces(node->phase) && dice < 65) return ANSWER_REPLACE;
  if (script_phase_stops(node->phase)) {
    if (dice < 80) return ANSWER_ALLOW;
    if (dice < 85) return ANSWER_DENY;
    if (dice < 90) return ANSWER_ASK;
  }
  return ANSWER_DONE;
}

static script_way draw_way(drawer *d, script_fault_level fault_level) {
  uint64_t dice = below(d, 100);
  if (dice < 60) return WAY_RETURN;
  if (dice < 75) return WAY_DEFER;
  if (dice < 82) return WAY_DEFER_TWICE;
  if (dice < 87) return WAY_DEFER_INSIDE;
  if (dice < 89) return WAY_DEFER_AND_RETURN;
  if (fault_level == FAULTS_NONE) return WAY_DEFER;
  if (dice < 92) return WAY_DEFER_NEVER;
  if (dice < 96) return WAY_DEFER_ON_CANCEL;
  return WAY_DEFER_AFTER_FREE;
}

/* Most are short, some end about the deadline, some far after it. */
static int64_t draw_delay(drawer *d, const script_node *node) {
  uint64_t limit_us = (node->limit_ms ? node->limit_ms : d->s->phase_limit_ms) * UINT64_C(1000);
  uint64_t dice = below(d, 100);
  if (d->s->fault_level == FAULTS_NONE) return dice < 40 ? 0 : up_to_us(d, 3000);
  if (dice < 30) return 0;
  if (dice < 75) return up_to_us(d, 2000);
  if (dice < 85) return up_to_us(d, limit_us);
  if (dice < 93) return (int64_t)limit_us * TP__NS_PER_US + up_to_us(d, 2000) - TP__NS_PER_MS;
  return (int64_t)limit_us * TP__NS_PER_US * (int64_t)(2 + below(d, 30));
}

static int64_t draw_inline_delay(drawer *d) {
  if (d->s->fault_level != FAULTS_NONE && one_in(d, 40)) return up_to_us(d, 15000);
  return one_in(d, 2) ? 0 : up_to_us(d, 100);
}

static void draw_moves(drawer *d, script_node *node) {
  for (int i = 0; i < SCRIPT_MOVES; i++) {
    node->moves[i] = (script_move){.answer = draw_answer(d, node),
                                   .way = draw_way(d, d->s->fault_level),
                                   .before_ns = node->is_inline ? draw_inline_delay(d) : draw_delay(d, node),
                                   .later_ns = draw_delay(d, node),
                                   .polite = one_in(d, 3)};
    script_move *move = &node->moves[i];
    if (move->answer == ANSWER_NONE && move->way != WAY_RETURN) move->answer = ANSWER_DONE;
  }
}

static void draw_policies(drawer *d, script_node *node) {
  bool observed = node->phase == PHASE_OBSERVE;
  node->execution = (tp_execution)below(d, 3); /* default, blocking, deadline */
  if (one_in(d, 7)) node->execution = one_in(d, 2) ? TP_EXECUTION_FIRE_AND_RECORD : TP_EXECUTION_BACKGROUND;
  node->detached = node->execution > TP_EXECUTION_DEADLINE;
  node->failure = (tp_failure)below(d, 4);
  node->fallback_verdict = TP_VERDICT_NONE;
  if (node->failure == TP_FAILURE_REQUIRED && one_in(d, 2)) node->failure = TP_FAILURE_BEST_EFFORT;
  if (observed && node->failure == TP_FAILURE_REQUIRED) node->failure = TP_FAILURE_BEST_EFFORT;
  if (node->detached && node->failure == TP_FAILURE_FALLBACK) node->failure = TP_FAILURE_BEST_EFFORT;
  if (node->detached && script_phase_stops(node->phase)) node->failure = TP_FAILURE_BEST_EFFORT;
  if (d->s->fault_level != FAULTS_NONE && !one_in(d, 3)) node->limit_ms = 5 + (uint32_t)below(d, 80);
  if (node->failure == TP_FAILURE_FALLBACK) {
    node->fallback_count = (uint32_t)below(d, 3);
    if (script_phase_stops(node->phase) && one_in(d, 2))
      node->fallback_verdict = one_in(d, 3) ? TP_VERDICT_DENY : TP_VERDICT_ALLOW;
    if (node->fallback_verdict == TP_VERDICT_NONE && node->fallback_count == 0) node->fallback_count = 1;
  }
  if (one_in(d, 3)) {
    node->attempts = 2 + (uint32_t)below(d, 3);
    node->backoff = (tp_backoff)below(d, 3);
    node->backoff_ms = 1 + (uint32_t)below(d, 8);
  }
  if (one_in(d, 3)) node->max_concurrent = 1 + (uint32_t)below(d, 2);
}

static void draw_edges(drawer *d, uint32_t index, uint32_t density) {
  script *s = d->s;
  script_node *node = &s->nodes[index];
  uint32_t wanted = index == 0 ? 0 : (uint32_t)below(d, density + 1);
  for (uint32_t i = 0; i < wanted && node->edge_count < SCRIPT_EDGES_MAX; i++) {
    int target = (int)below(d, index);
    const script_node *to = &s->nodes[target];
    bool known = false;
    for (uint32_t k = 0; k < node->edge_count; k++) known |= node->edges[k].target == target;
    if (known || to->phase != node->phase || to->detached) continue;
    script_edge edge = {.target = target, .requires_success = node->phase != PHASE_OBSERVE && one_in(d, 2)};
    edge.optional = to->disabled || one_in(d, 6);
    node->edges[node->edge_count++] = edge;
  }
  if (node->edge_count < SCRIPT_EDGES_MAX && one_in(d, 12)) {
    script_edge ghost = {
        .target = -1, .requires_success = node->phase != PHASE_OBSERVE && one_in(d, 2), .optional = true};
    node->edges[node->edge_count++] = ghost;
  }
}

static void draw_node(drawer *d, uint32_t index, int phase, uint32_t density) {
  script *s = d->s;
  script_node *node = &s->nodes[index];
  memset(node, 0, sizeof *node);
  snprintf(node->id, sizeof node->id, "%c%02u", (char)('a' + below(d, 26)),
           index); /* order by id is not that by index */
  node->phase = phase;
  node->priority = (int32_t)below(d, 3) - 1;
  node->is_inline = one_in(d, 3);
  node->disabled = one_in(d, 30);
  node->killed = one_in(d, 30);
  node->match = one_in(d, 6) ? 1 + (int)below(d, 3) : 0;
  node->emits = (uint32_t)below(d, 3);
  if (phase != PHASE_BOTH && one_in(d, 12))
    node->sequential = TP_SEQUENTIAL_ON; /* a reverse row has its line backwards */
  draw_policies(d, node);
  draw_moves(d, node);
  draw_edges(d, index, density);
}

/* ---- hosts ---- */

static void draw_turn(drawer *d, script_turn *turn, const int *phases, uint32_t phase_count) {
  script *s = d->s;
  bool rough = s->fault_level != FAULTS_NONE;
  memset(turn, 0, sizeof *turn);
  turn->op_count = 1 + (uint32_t)below(d, SCRIPT_OPS_MAX);
  for (uint32_t i = 0; i < turn->op_count; i++) {
    script_op *op = &turn->ops[i];
    op->phase = phases[below(d, phase_count)];
    op->submitted = one_in(d, 2);
    op->release = one_in(d, 2);
    if (rough && one_in(d, 3)) op->budget_ms = 10 + (uint32_t)below(d, 150);
    if (!rough) op->budget_ms = AMPLE_MS;
  }
  turn->chained = one_in(d, 4);
  turn->begin_ns = one_in(d, 2) ? 0 : up_to_us(d, 5000);
  turn->in_session = one_in(d, 3);
  if (rough && one_in(d, 4)) turn->limit_ms = 5 + (uint32_t)below(d, 200);
  if (!rough) turn->limit_ms = AMPLE_MS;
  if (rough && !turn->chained && one_in(d, 4)) turn->cancel_ns = 1 + up_to_us(d, one_in(d, 2) ? 2000 : 60000);
}

static void draw_load(drawer *d) {
  script *s = d->s;
  s->options.turns_running_max = 1 + (uint32_t)below(d, 3);
  if (one_in(d, 3)) s->options.turns_waiting_max = 1 + (uint32_t)below(d, 6);
  s->load_turns = 1 + (uint32_t)below(d, SCRIPT_LOAD_TURNS_MAX);
}

static void draw_hosts(drawer *d, const int *phases, uint32_t phase_count) {
  script *s = d->s;
  s->turn_count = 1 + (uint32_t)below(d, SCRIPT_TURNS_MAX);
  if (s->node_count > 24 && s->turn_count > 2) s->turn_count = 2;
  for (uint32_t i = 0; i < s->turn_count; i++) draw_turn(d, &s->turns[i], phases, phase_count);
  s->pokes = (uint32_t)below(d, 6);
  s->wall_jumps = one_in(d, 3);
  if (!s->wall_jumps) s->options.job_lease_ms = 300 + (uint32_t)below(d, 300); /* a jump may be longer */
  s->filters = s->seed % 2 == 0;
  s->turn_work_count = one_in(d, 3) ? 1 + (uint32_t)below(d, SCRIPT_TURN_WORKS_MAX) : 0;
  if (s->fault_level == FAULTS_NONE) {
    s->drain_limit_ms = AMPLE_MS;
    return;
  }
  if (one_in(d, 3)) s->drain_ns = 1 + up_to_us(d, 40000);
  if (one_in(d, 2)) s->drain_limit_ms = (uint32_t)below(d, 200);
  if (one_in(d, 6)) s->kill_ns = 1 + up_to_us(d, 10000);
  s->kill_node = (int)below(d, s->node_count);
}

static void draw_silence(drawer *d) {
  for (uint32_t i = 0; i < d->s->node_count; i++) {
    script_node *node = &d->s->nodes[i];
    node->silent = one_in(d, 3);
    if (node->silent) node->emits = 0;
  }
}

/* Hosts whose every call is synchronous: then no engine worker has a turn. */
static void draw_synchronous(drawer *d) {
  script *s = d->s;
  s->options.no_engine_workers = one_in(d, 6);
  for (uint32_t i = 0; i < s->turn_count && s->options.no_engine_workers; i++) {
    script_turn *turn = &s->turns[i];
    turn->chained = false;
    for (uint32_t op = 0; op < turn->op_count; op++) turn->ops[op].submitted = false;
  }
}

/* Calls that hosts take and answer themselves: they use no thread of the engine, so they need no permits. */
static void draw_inbox(drawer *d) {
  script *s = d->s;
  s->taker_count = one_in(d, 2) ? 1 + (uint32_t)below(d, 2) : 0;
  s->inbox_capacity = one_in(d, 3) ? 1 + (uint32_t)below(d, 3) : 0;
  bool closes = s->taker_count == 1 && s->fault_level != FAULTS_NONE && one_in(d, 4);
  s->inbox_close_ns = closes ? 1 + up_to_us(d, 20000) : 0;
  for (uint32_t i = 0; i < s->node_count; i++) {
    script_node *node = &s->nodes[i];
    node->inbox = s->taker_count > 0 && !node->is_inline && one_in(d, 2);
    if (!node->inbox) continue;
    for (int move = 0; move < SCRIPT_MOVES; move++)
      if (node->moves[move].answer == ANSWER_NONE) node->moves[move].answer = ANSWER_DONE;
    node->max_concurrent = 0;
    for (int m = 0; m < SCRIPT_MOVES; m++)
      if (node->moves[m].way == WAY_DEFER_AND_RETURN) node->moves[m].way = WAY_RETURN;
  }
}

static void draw_loop(drawer *d) {
  script *s = d->s;
  bool rough = s->fault_level != FAULTS_NONE;
  s->loop_count = one_in(d, 3) && !s->options.no_engine_workers ? 1 + (uint32_t)below(d, SCRIPT_LOOPS_MAX) : 0;
  s->loop_capacity = one_in(d, 3) ? 1 + (uint32_t)below(d, 4) : 0;
  s->loop_event_capacity = one_in(d, 2) ? 1 + (uint32_t)below(d, 12) : 0;
  s->loop_close_ns = rough && one_in(d, 3) ? 1 + up_to_us(d, 30000) : 0;
}

/* A runtime without threads; its hosts do the same. Without faults, one of the three plays has threads. */
static void draw_pump(drawer *d) {
  script *s = d->s;
  s->options.pump = one_in(d, 4) && !s->options.no_engine_workers;
  if (s->options.pump) s->options.engine_workers = s->options.handler_threads = s->options.detached_threads = 0;
}

/* Where nothing hangs the jobs make space in time. */
static void draw_backlog(drawer *d) {
  script *s = d->s;
  if (s->fault_level != FAULTS_NONE || !one_in(d, 3)) return;
  s->jobs_max = 1 + (uint32_t)below(d, 3);
  s->backlog = (tp_backlog)below(d, TP_BACKLOG_SHED + 1);
}

void script_draw(script *s, uint64_t seed, uint32_t nodes_max, int policy) {
  drawer d = {.state = seed * UINT64_C(0xD1342543DE82EF95) + nodes_max, .s = s};
  next_of(&d.state);
  memset(s, 0, sizeof *s); /* or a seed would depend on the one drawn before it */
  s->seed = seed;
  draw_machine(&d, policy);
  int phases[2];
  uint32_t phase_count = 1 + (uint32_t)below(&d, 2);
  for (uint32_t i = 0; i < phase_count; i++) phases[i] = (int)below(&d, SCRIPT_PHASES);
  s->node_count = 1 + (uint32_t)below(&d, nodes_max);
  uint32_t density = (uint32_t)below(&d, SCRIPT_EDGES_MAX + 1);
  for (uint32_t i = 0; i < s->node_count; i++) draw_node(&d, i, phases[below(&d, phase_count)], density);
  draw_hosts(&d, phases, phase_count);
  if (s->fault_level != FAULTS_REFUSALS) draw_sharing(&d);
  s->tool_work_count = one_in(&d, 2) ? 1 + (uint32_t)below(&d, SCRIPT_TOOL_WORKS_MAX) : 0;
  s->tool_work_stream = next_of(&d.state);
  if (s->fault_level != FAULTS_NONE && one_in(&d, 4)) draw_load(&d);
  draw_silence(&d);
  s->editor_count = one_in(&d, 2) ? 1 + (uint32_t)below(&d, SCRIPT_EDITORS_MAX) : 0;
  s->reader_count = s->editor_count ? (uint32_t)below(&d, SCRIPT_READERS_MAX + 1) : 0;
  s->looks = one_in(&d, 3) ? 1 + (uint32_t)below(&d, 12) : 0;
  s->session_work = one_in(&d, 3);
  draw_synchronous(&d);
  draw_inbox(&d);
  s->history = (int)below(&d, 3);
  s->destructors_call = one_in(&d, 2);
  draw_loop(&d);
  s->idle_sessions = one_in(&d, 400) ? 500 + (uint32_t)below(&d, 1500) : one_in(&d, 8) ? (uint32_t)below(&d, 30) : 0;
  s->nested = one_in(&d, 4);
  s->compaction = one_in(&d, 4);
  s->tasks = one_in(&d, 4) && !s->options.no_engine_workers;
  draw_pump(&d);
  s->history_loads_later = one_in(&d, 2);
  draw_backlog(&d);
}
