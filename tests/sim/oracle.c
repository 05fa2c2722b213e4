/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle.c: the properties that must hold. It judges by the script, by the notes of handlers and hosts, and by the
 * results of the public API. Of the engine it only reads the plan's order and the deadline of the entry. */
#include <inttypes.h>
#include <stdio.h>

#include "runtime/exec/entry.h"
#include "runtime/sched/slot.h"
#include "tool_work.h"
#include "world.h"

/* Without jumps, virtual time passes only when every thread waits, and by at most 8 ns for each clock reading. Time
 * that is not slept on purpose is bookkeeping: 3,000,000 steps of it take less than 24 ms, and a play makes some
 * 10,000. */
#define ALLOWANCE_NS TP__NS_PER_MS

/* ---- one operation under the eyes ---- */

typedef struct case_ {
  world *w;
  uint32_t op;
  int phase;
  const tp_phase_result *result;
  const tp__entry *entry;
  op_note *note;
  uint32_t count;                       /* subscriptions in the plan */
  int order[SCRIPT_NODES_MAX];          /* node of each row */
  int row[SCRIPT_NODES_MAX];            /* row of each node; -1: not in the plan */
  tp_run_record runs[SCRIPT_NODES_MAX]; /* by row */
  call_note *last[SCRIPT_NODES_MAX];    /* by node: the call of its last attempt; NULL: none began */
} case_;

#define FAIL(c, property, ...) world_fail((c)->w, (property), __VA_ARGS__)

static const script_node *node_of(const case_ *c, int node) { return &c->w->s->nodes[node]; }
static const tp_run_record *run_of(const case_ *c, int node) {
  return c->row[node] < 0 ? NULL : &c->runs[c->row[node]];
}
static const char *outcome_name(const tp_run_record *run) { return tp_state_name(run->state); }

static int find_node(const world *w, const char *id) {
  for (uint32_t i = 0; i < w->s->node_count; i++)
    if (strcmp(w->s->nodes[i].id, id) == 0) return (int)i;
  return -1;
}

/* Where memory is refused, from the entry itself. */
static tp_run_record row_of(const tp_phase_result *result, uint32_t index) {
  const tp_run_record *row = tp_phase_result_run(result, index);
  return row ? *row : tp__entry_run(result->entry, index);
}

static void read_rows(case_ *c) {
  for (uint32_t i = 0; i < c->w->s->node_count; i++) {
    c->row[i] = -1;
    c->last[i] = NULL;
  }
  for (uint32_t i = 0; i < c->result->run_count && i < SCRIPT_NODES_MAX; i++) {
    c->runs[i] = row_of(c->result, i);
    int node = c->runs[i].subscription ? find_node(c->w, c->runs[i].subscription) : -1;
    c->order[i] = node;
    if (node < 0 || c->row[node] >= 0)
      FAIL(c, "every subscription accounted for", "row %u is of no subscription, or of one that had a row", i);
    else c->row[node] = (int)i;
  }
  for (call_note *call = c->w->calls; call; call = call->next) {
    if (call->op != c->op) continue;
    int row = c->row[call->node];
    if (row >= 0 && call->attempt == c->runs[row].attempts) c->last[call->node] = call;
  }
}

static void check_accounting(case_ *c) {
  uint32_t enabled = 0;
  for (uint32_t i = 0; i < c->w->s->node_count; i++) {
    const script_node *node = node_of(c, (int)i);
    bool wanted = node->phase == c->phase && !node->disabled;
    enabled += wanted;
    if (wanted != (c->row[i] >= 0))
      FAIL(c, "every subscription accounted for", "node %u %s", i, wanted ? "has no row" : "has a row");
  }
  if (c->result->run_count != enabled)
    FAIL(c, "every subscription accounted for", "%u rows for %u subscriptions", c->result->run_count, enabled);
  const turn_actor *turn = &c->w->turns[c->op / SCRIPT_OPS_MAX];
  if (turn->session && turn->run_events != enabled)
    FAIL(c, "every run settles once", "%u events for %u subscriptions", turn->run_events, enabled);
}

/* ---- a run by itself ---- */

static bool is_failure(tp_reason reason) { return reason != TP_REASON_NONE && reason < TP_REASON_MATCH; }

/* Whether the node may wait for space in the store; an entry that fails meanwhile takes it out of the line. */
static bool may_wait_in_line(const case_ *c, const script_node *node) {
  return c->w->s->jobs_max > 0 && node->execution == TP_EXECUTION_BACKGROUND;
}

static void check_run(case_ *c, uint32_t row) {
  const tp_run_record *run = &c->runs[row];
  const script_node *node = node_of(c, c->order[row]);
  bool fits = false;
  switch (run->state) {
    case TP_STATE_SUCCEEDED:
      fits = run->reason == TP_REASON_NONE && !node->detached && run->attempts > 0;
      break;
    case TP_STATE_BACKGROUNDED:
      fits = run->reason == TP_REASON_NONE && node->detached;
      break;
    case TP_STATE_FAILED:
      fits = is_failure(run->reason) && run->reason != TP_REASON_TIMEOUT && run->reason != TP_REASON_CANCELLED;
      break;
    case TP_STATE_TIMED_OUT:
      fits = run->reason == TP_REASON_TIMEOUT && !node->detached;
      break;
    case TP_STATE_CANCELLED:
      fits = run->reason == TP_REASON_CANCELLED && (!node->detached || (may_wait_in_line(c, node) && !run->attempts));
      break;
    case TP_STATE_SKIPPED:
      fits = run->reason >= TP_REASON_MATCH && run->attempts == 0;
      break;
    default:
      break;
  }
  if (!fits)
    FAIL(c, "state and reason go together", "node %d is %s (%s) after %u attempts", c->order[row], outcome_name(run),
         tp_reason_name(run->reason), run->attempts);
  bool falls_back =
      node->failure == TP_FAILURE_FALLBACK && is_failure(run->reason) && run->reason != TP_REASON_CANCELLED;
  if (run->fallback_used != falls_back)
    FAIL(c, "a fallback stands for a failure", "node %d: %s, fallback %sused", c->order[row], outcome_name(run),
         run->fallback_used ? "" : "not ");
  uint32_t attempts_max = node->attempts ? node->attempts : 1;
  if (run->attempts > attempts_max)
    FAIL(c, "retry", "node %d was tried %u times of %u", c->order[row], run->attempts, attempts_max);
}

/* What a call that was answered too late says is nowhere. */
static void check_late(case_ *c, uint32_t row) {
  const tp_run_record *run = &c->runs[row];
  const call_note *call = c->last[c->order[row]];
  if (run->state != TP_STATE_SUCCEEDED) return;
  if (!call) {
    FAIL(c, "one outcome per attempt", "node %d succeeded without having been called", c->order[row]);
    return;
  }
  if (!call->answered_ns)
    FAIL(c, "one outcome per attempt", "node %d succeeded without having answered", c->order[row]);
  bool stamped = c->w->s->options.timestamps == TP_TIMESTAMPS_FULL || !node_of(c, c->order[row])->is_inline;
  if (stamped && call->answered_ns > call->deadline_max_ns)
    FAIL(c, "nothing late is taken", "node %d answered %" PRId64 " us behind its deadline and succeeded", c->order[row],
         (call->answered_ns - call->deadline_max_ns) / TP__NS_PER_US);
}

/* Without jumps, a handler that answered well in time is not timed out; in a fault-free world, no handler is. */
static void check_liveness(case_ *c, uint32_t row) {
  const tp_run_record *run = &c->runs[row];
  const call_note *call = c->last[c->order[row]];
  script_fault_level fault_level = c->w->s->fault_level;
  bool missed = run->state == TP_STATE_TIMED_OUT || run->reason == TP_REASON_NO_SLACK;
  bool stopped =
      run->state == TP_STATE_CANCELLED && c->entry->state != TP__ENTRY_FAILED; /* which ends the pause of a retry */
  if (fault_level == FAULTS_NONE && (missed || stopped))
    FAIL(c, "liveness", "node %d is %s (%s) though all finish in time", c->order[row], outcome_name(run),
         tp_reason_name(run->reason));
  if (fault_level > FAULTS_HANGS || run->state != TP_STATE_TIMED_OUT || !call || !call->answered_ns) return;
  if (call->move->answer == ANSWER_FAIL_RETRYABLE) return; /* the time ran out before it was tried again */
  if (call->answered_ns + ALLOWANCE_NS < call->deadline_ns)
    FAIL(c, "liveness", "node %d answered %" PRId64 " us before its deadline and is timed out", c->order[row],
         (call->deadline_ns - call->answered_ns) / TP__NS_PER_US);
}

/* ---- order ---- */

typedef struct preds {
  uint64_t all, required;
} preds;

static uint64_t bit(int node) { return UINT64_C(1) << node; }

/* By the script: its edges and the line of the sequential ones. */
static preds preds_of(const case_ *c, int index) {
  const script_node *node = node_of(c, index);
  preds p = {0, 0};
  for (uint32_t i = 0; i < node->edge_count; i++) {
    int target = node->edges[i].target;
    if (target < 0 || c->row[target] < 0) continue;
    p.all |= bit(target);
    if (node->edges[i].requires_success) p.required |= bit(target);
  }
  return p;
}

static int line_before(const case_ *c, int index) {
  if (node_of(c, index)->sequential != TP_SEQUENTIAL_ON) return -1;
  for (int i = index; i-- > 0;) {
    const script_node *node = node_of(c, i);
    if (c->row[i] >= 0 && node->sequential == TP_SEQUENTIAL_ON && !node->detached) return i;
  }
  return -1;
}

static bool was_abandoned(const tp_run_record *run) {
  return run->state == TP_STATE_TIMED_OUT || run->state == TP_STATE_CANCELLED;
}

static void check_order(case_ *c, uint32_t row) {
  int index = c->order[row];
  uint64_t before = preds_of(c, index).all;
  if (line_before(c, index) >= 0) before |= bit(line_before(c, index));
  for (uint32_t i = 0; i < row && script_phase_is_chain(c->phase); i++)
    if (!node_of(c, c->order[i])->detached) before |= bit(c->order[i]);
  for (uint32_t i = 0; i < c->w->s->node_count; i++) {
    if (!(before & bit((int)i))) continue;
    const tp_run_record *pred = run_of(c, (int)i), *run = &c->runs[row];
    if (c->row[i] > (int)row) FAIL(c, "plan order", "node %d stands before node %u, which it waits for", index, i);
    if (c->w->s->options.timestamps == TP_TIMESTAMPS_FULL && run->started_ns && pred->ended_ns > run->started_ns)
      FAIL(c, "order respected", "node %d starts %" PRId64 " ns before node %u has ended", index,
           pred->ended_ns - run->started_ns, i);
  }
  for (const call_note *call = c->w->calls; call; call = call->next) {
    if (call->op != c->op || call->node != index) continue;
    uint64_t ran = call->running_before & before;
    for (uint32_t i = 0; ran && i < c->w->s->node_count; i++)
      if ((ran & bit((int)i)) && !was_abandoned(run_of(c, (int)i)))
        FAIL(c, "order respected", "node %d was called while node %u ran, which is %s", index, i,
             outcome_name(run_of(c, (int)i)));
  }
}

/* ---- what dependents do ---- */

static bool passes(const tp_run_record *run) {
  return run->reason == TP_REASON_NONE || run->fallback_used || run->reason == TP_REASON_KILL_SWITCH;
}

static void check_dependent(case_ *c, uint32_t row) {
  const tp_run_record *run = &c->runs[row];
  int index = c->order[row];
  uint64_t required = preds_of(c, index).required;
  int blocker = -1;
  for (uint32_t i = 0; i < c->w->s->node_count; i++)
    if ((required & bit((int)i)) && !passes(run_of(c, (int)i))) blocker = (int)i;
  bool blocked = run->reason == TP_REASON_DEPENDENCY;
  bool other =
      run->reason == TP_REASON_KILL_SWITCH || run->reason == TP_REASON_PHASE_FAILED || run->reason == TP_REASON_MATCH;
  if (blocker >= 0 && !blocked && !other)
    FAIL(c, "what a dependent does", "node %d is %s (%s), but requires node %d, which is %s (%s)", index,
         outcome_name(run), tp_reason_name(run->reason), blocker, outcome_name(run_of(c, blocker)),
         tp_reason_name(run_of(c, blocker)->reason));
  if (blocker < 0 && blocked)
    FAIL(c, "what a dependent does", "node %d is skipped for a dependency that it does not have", index);
  bool unmatched = node_of(c, index)->match == 2;
  if (run->reason == TP_REASON_MATCH && !unmatched) FAIL(c, "match", "node %d is skipped, but it matches", index);
  if (unmatched && run->state != TP_STATE_SKIPPED)
    FAIL(c, "match", "node %d does not match and is %s", index, outcome_name(run));
  bool killed = node_of(c, index)->killed;
  bool killed_later = c->w->s->kill_ns && c->w->s->kill_node == index;
  if ((killed && run->reason != TP_REASON_KILL_SWITCH) ||
      (run->reason == TP_REASON_KILL_SWITCH && !killed && !killed_later))
    FAIL(c, "kill switch", "node %d is %s (%s)", index, outcome_name(run), tp_reason_name(run->reason));
}

/* A breaker opens after twenty calls, ten of which failed. */
static void check_breaker(case_ *c, uint32_t row) {
  int index = c->order[row];
  uint32_t calls = 0;
  if (c->runs[row].reason != TP_REASON_BREAKER_OPEN) return;
  for (const call_note *note = c->w->calls; note; note = note->next) calls += note->node == index;
  if (c->w->s->options.no_breakers || calls < 20)
    FAIL(c, "a breaker opens when half of the calls fail", "node %d was called %u times", index, calls);
}

/* Required work is never shed, nor is what a fallback stands for. */
static void check_shed(case_ *c, uint32_t row) {
  const tp_run_record *run = &c->runs[row];
  if (run->reason == TP_REASON_SHED && run->failure != TP_FAILURE_BEST_EFFORT && !node_of(c, c->order[row])->detached)
    FAIL(c, "required work is not shed", "node %d is", c->order[row]);
}

/* A call sees its direct dependencies as they settled. */
static void check_view(case_ *c, uint32_t row) {
  int index = c->order[row];
  if (node_of(c, index)->detached) return; /* a detached run is alone */
  uint64_t all = preds_of(c, index).all;
  for (const call_note *call = c->w->calls; call; call = call->next) {
    if (call->op != c->op || call->node != index) continue;
    if (call->deps_seen != all)
      FAIL(c, "a handler sees its dependencies", "node %d sees %" PRIx64 " of %" PRIx64, index, call->deps_seen, all);
    for (uint32_t i = 0; i < c->w->s->node_count; i++) {
      if (!(call->deps_seen & bit((int)i)) || c->row[i] < 0) continue;
      const tp_run_record *dep = run_of(c, (int)i);
      bool good = call->deps_good & bit((int)i), fell_back = call->deps_fallback & bit((int)i);
      if (good != (dep->state == TP_STATE_SUCCEEDED) || fell_back != dep->fallback_used)
        FAIL(c, "a handler sees its dependencies", "node %d saw node %u otherwise than it settled (%s)", index, i,
             outcome_name(dep));
    }
  }
}

/* ---- the entry ---- */

/* The resolved failure policy. */
static bool is_required(const case_ *c, int index) {
  tp_failure failure = node_of(c, index)->failure;
  if (failure == TP_FAILURE_DEFAULT) failure = c->w->rows[c->phase].failure;
  return failure == TP_FAILURE_REQUIRED;
}

static bool fails_entry(const case_ *c, uint32_t row) {
  tp_reason reason = c->runs[row].reason;
  if (!is_required(c, c->order[row])) return false;
  return is_failure(reason) || reason == TP_REASON_DEPENDENCY || reason == TP_REASON_NO_SLACK;
}

static int strictness(tp_verdict verdict) {
  return verdict == TP_VERDICT_DENY ? 3 : verdict == TP_VERDICT_ASK ? 2 : verdict == TP_VERDICT_ALLOW ? 1 : 0;
}

static bool may_be_cancelled(const case_ *c) {
  const turn_actor *turn = &c->w->turns[c->op / SCRIPT_OPS_MAX];
  return turn->cancelled_ns != 0 || c->w->draining;
}

static void check_outcome(case_ *c) {
  int first = -1, denier = -1, strictest = 0;
  bool skipped = false;
  for (uint32_t i = 0; i < c->count; i++) {
    if (first < 0 && fails_entry(c, i)) first = (int)i;
    if (denier < 0 && c->runs[i].verdict == TP_VERDICT_DENY) denier = (int)i;
    if (strictness(c->runs[i].verdict) > strictest) strictest = strictness(c->runs[i].verdict);
    skipped |= c->runs[i].reason == TP_REASON_PHASE_FAILED;
  }
  bool stops = script_phase_stops(c->phase);
  tp_status outcome = c->result->outcome;
  bool known = outcome == TP_OK || outcome == TP_ERR_CANCELLED || (outcome == TP_ERR_HOOK && !stops) ||
               (outcome == TP_ERR_DENIED && stops);
  if (outcome == TP_ERR_NO_MEMORY && c->w->s->fault_level == FAULTS_REFUSALS) return; /* to merge it there was none */
  if (!known) FAIL(c, "the outcome is one of few", "%s", tp_status_name(outcome));
  if (outcome == TP_OK && (first >= 0 || denier >= 0 || skipped))
    FAIL(c, "failing closed", "the entry is fine, but node %d %s",
         c->order[first >= 0    ? first
                  : denier >= 0 ? denier
                                : 0],
         first >= 0    ? "was required and failed"
         : denier >= 0 ? "denied"
                       : "or another was skipped");
  if ((outcome == TP_ERR_HOOK && first < 0) || (outcome == TP_ERR_DENIED && first < 0 && denier < 0))
    FAIL(c, "failing closed", "%s, but no required handler failed, and none denied", tp_status_name(outcome));
  if (outcome == TP_ERR_CANCELLED && !may_be_cancelled(c)) FAIL(c, "cancel", "cancelled, but not requested");
  if (outcome == TP_ERR_HOOK &&
      strcmp(c->result->subscription ? c->result->subscription : "", c->runs[first].subscription) != 0)
    FAIL(c, "the first failure is reported", "%s and not %s", c->result->subscription, c->runs[first].subscription);
  if (outcome == TP_OK && strictness(c->result->verdict) != strictest)
    FAIL(c, "deny > ask > allow", "the verdict is %d of %d", strictness(c->result->verdict), strictest);
  if (outcome == TP_ERR_DENIED && c->result->verdict != TP_VERDICT_DENY)
    FAIL(c, "deny > ask > allow", "denied without a deny");
}

/* In a chain no handler is called after one that denied. */
static void check_chain(case_ *c) {
  bool decided = false;
  int text_of = -1;
  for (uint32_t i = 0; i < c->count; i++) {
    const tp_run_record *run = &c->runs[i];
    const call_note *call = c->last[c->order[i]];
    if (decided && run->state != TP_STATE_SKIPPED)
      FAIL(c, "a deny ends the chain", "node %d came after it and is %s", c->order[i], outcome_name(run));
    decided |= run->verdict == TP_VERDICT_DENY || fails_entry(c, i);
    if (call && !node_of(c, c->order[i])->detached && script_phase_replaces(c->phase) && call->text_of != text_of)
      FAIL(c, "silence never erases", "node %d found the text of node %d instead of node %d", c->order[i],
           call->text_of, text_of);
    if (run->state == TP_STATE_SUCCEEDED && call && call->move->answer == ANSWER_REPLACE) text_of = c->order[i];
  }
  const tp_merged *merged = c->result->merged;
  if (text_of < 0 || !script_phase_replaces(c->phase) || c->result->outcome == TP_ERR_NO_MEMORY) return;
  char text[40] = "";
  tp_text got = tp_merged_text(merged, SCRIPT_FIELD_TEXT);
  if (got.size < sizeof text && got.size > 0) memcpy(text, got.data, got.size);
  unsigned op = UINT32_MAX, attempt;
  int node = -1;
  if (sscanf(text, "o%u n%d a%u", &op, &node, &attempt) != 3 || op != c->op || node != text_of)
    FAIL(c, "the last rewriter stands", "the text is '%s', the last to replace it was node %d", text, text_of);
}

/* ---- what was merged ---- */

static void check_entry(case_ *c, uint32_t kind, const tp_merged_entry *entry) {
  int node = find_node(c->w, entry->subscription ? entry->subscription : "");
  char text[64] = "";
  if (entry->contribution->text.size < sizeof text && entry->contribution->text.size > 0)
    memcpy(text, entry->contribution->text.data, entry->contribution->text.size);
  unsigned op = UINT32_MAX, attempt = 0;
  int from = -1;
  bool failed =
      c->result->outcome == TP_ERR_HOOK || (c->result->outcome == TP_ERR_DENIED && c->entry->state == TP__ENTRY_FAILED);
  if (failed && kind != TP_CONTRIBUTION_AUDIT) {
    FAIL(c, "a failed entry keeps audit and diagnostics alone", "'%s' of node %d came through", text, node);
  } else if (sscanf(text, "fallback n%d", &from) == 1) {
    if (from != node || !run_of(c, node)->fallback_used)
      FAIL(c, "only what was answered in time is merged", "a fallback of node %d", from);
  } else if (sscanf(text, "o%u n%d a%u", &op, &from, &attempt) != 3 || from != node ||
             op / SCRIPT_OPS_MAX != c->op / SCRIPT_OPS_MAX) {
    FAIL(c, "each merged entry knows where it came from", "'%s' is said to be node %d's", text, node);
  } else if (op == c->op) {
    const tp_run_record *run = run_of(c, node);
    if (run->state != TP_STATE_SUCCEEDED || run->attempts != attempt || entry->attempt != attempt)
      FAIL(c, "only what was answered in time is merged", "'%s' was, but node %d is %s after %u attempts", text, node,
           outcome_name(run), run->attempts);
  } else if (kind != TP_CONTRIBUTION_POLICY &&
             kind != TP_CONTRIBUTION_PROMPT_CONTEXT) { /* these are kept for the turn */
    FAIL(c, "only what was answered in time is merged", "'%s' is of another operation", text);
  }
}

static uint32_t audits_of(const case_ *c, uint32_t row) {
  const tp_run_record *run = &c->runs[row];
  const script_node *node = node_of(c, c->order[row]);
  if (run->fallback_used) return node->fallback_count;
  return run->state == TP_STATE_SUCCEEDED ? node->emits : 0;
}

static void check_merged(case_ *c) {
  static const uint32_t kinds[] = {TP_CONTRIBUTION_AUDIT, TP_CONTRIBUTION_REMINDER, TP_CONTRIBUTION_PROMPT_CONTEXT,
                                   TP_CONTRIBUTION_POLICY, TP_CONTRIBUTION_TOOL_BUNDLE};
  const tp_merged *merged = c->result->merged;
  if (c->result->outcome == TP_ERR_NO_MEMORY) return;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    for (size_t i = 0; i < tp_merged_count(merged, kinds[k]); i++) {
      const tp_merged_entry *entry = tp_merged_get(merged, kinds[k], i);
      check_entry(c, kinds[k], entry);
    }
  }
  size_t audits = 0;
  for (uint32_t i = 0; i < c->count; i++) audits += audits_of(c, i);
  if (tp_merged_count(merged, TP_CONTRIBUTION_AUDIT) != audits)
    FAIL(c, "an answer is taken whole", "%zu audits were merged, %zu were answered",
         tp_merged_count(merged, TP_CONTRIBUTION_AUDIT), audits);
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
  const unsigned char *next = bytes;
  for (size_t i = 0; i < size; i++) hash = (hash ^ next[i]) * UINT64_C(0x100000001B3);
  return hash;
}

static uint64_t hash_merged(const tp_merged *merged) {
  tp_writer *writer;
  tp_text bytes = {NULL, 0};
  if (tp_writer_new(NULL, &writer) != TP_OK) return 0;
  uint64_t hash = 1;
  if (tp_merged_write(merged, writer) == TP_OK && tp_writer_finish(writer, &bytes) == TP_OK)
    hash = hash_bytes(UINT64_C(0xCBF29CE484222325), bytes.data, bytes.size);
  tp_writer_free(writer);
  return hash;
}

/* ---- time ---- */

int64_t oracle_inline_between(const world *w, int64_t from_ns, int64_t to_ns) {
  int64_t all_ns = 0;
  for (const call_note *call = w->calls; call; call = call->next) {
    const script_node *node = &w->s->nodes[call->node];
    if (!node->is_inline || node->detached) continue;
    int64_t begin = call->started_ns > from_ns ? call->started_ns : from_ns;
    int64_t end = call->finished_ns && call->finished_ns < to_ns ? call->finished_ns : to_ns;
    if (end > begin) all_ns += end - begin;
  }
  for (uint32_t i = 0; i < w->s->tool_work_count; i++)
    all_ns += tool_work_inline_between(&w->tool_works[i], from_ns, to_ns);
  return all_ns;
}

static void check_deadline(case_ *c) {
  const turn_actor *turn = &c->w->turns[c->op / SCRIPT_OPS_MAX];
  uint32_t budget_ms = world_op(c->w, c->op)->budget_ms;
  int64_t end_ns = c->entry->begin_ns + c->entry->plan->budget_ns;
  if (budget_ms) end_ns = c->entry->begin_ns + budget_ms * (int64_t)TP__NS_PER_MS;
  if (turn->limit_end_ns && turn->limit_end_ns < end_ns) end_ns = turn->limit_end_ns;
  if (turn->cancelled_ns && turn->cancelled_ns < end_ns) end_ns = turn->cancelled_ns;
  if (end_ns < c->entry->begin_ns) end_ns = c->entry->begin_ns;
  int64_t late_ns = c->note->ended_ns - end_ns;
  if (c->w->s->options.pump) return; /* a function holds up the pump, and what waits in it */
  if (c->w->s->fault_level > FAULTS_HANGS || late_ns <= ALLOWANCE_NS) return;
  if (late_ns > oracle_inline_between(c->w, end_ns, c->note->ended_ns) + ALLOWANCE_NS)
    FAIL(c, "deadlines hold", "the entry ended %" PRId64 " us behind its deadline, inline handlers ran %" PRId64,
         late_ns / TP__NS_PER_US, oracle_inline_between(c->w, end_ns, c->note->ended_ns) / TP__NS_PER_US);
}

/* ---- a fault-free world is known beforehand ---- */

typedef struct expected {
  tp_state state;
  tp_reason reason;
  uint32_t attempts;
  tp_verdict verdict;
} expected;

static expected expected_of_answer(const case_ *c, const script_node *node, const script_move *move) {
  static const tp_verdict verdicts[SCRIPT_ANSWERS] = {
      [ANSWER_ALLOW] = TP_VERDICT_ALLOW, [ANSWER_DENY] = TP_VERDICT_DENY, [ANSWER_ASK] = TP_VERDICT_ASK};
  const tp_phase *row = &c->w->rows[node->phase];
  script_answer answer = move->answer;
  expected f = {.state = TP_STATE_FAILED, .verdict = TP_VERDICT_NONE};
  if (answer == ANSWER_BAD_EMIT || (answer == ANSWER_REPLACE && !row->replace)) f.reason = TP_REASON_CAPABILITY;
  else if (move->way == WAY_DEFER_AND_RETURN || answer == ANSWER_NONE) f.reason = TP_REASON_MALFORMED;
  else if (answer == ANSWER_FAIL || answer == ANSWER_FAIL_RETRYABLE) f.reason = TP_REASON_ERROR;
  else if (verdicts[answer] && (!row->stop || (answer == ANSWER_ASK && !row->ask))) f.reason = TP_REASON_MALFORMED;
  else f = (expected){.state = TP_STATE_SUCCEEDED, .verdict = verdicts[answer] ? verdicts[answer] : TP_VERDICT_NONE};
  return f;
}

static expected expected_of(const case_ *c, uint32_t row, bool decided) {
  const script_node *node = node_of(c, c->order[row]);
  uint64_t required = preds_of(c, c->order[row]).required;
  expected f = {.state = TP_STATE_SKIPPED, .verdict = TP_VERDICT_NONE};
  if (node->killed) f.reason = TP_REASON_KILL_SWITCH;
  else if (decided) f.reason = TP_REASON_PHASE_FAILED;
  else if (node->match == 2) f.reason = TP_REASON_MATCH;
  for (uint32_t i = 0; i < c->w->s->node_count && !f.reason; i++)
    if ((required & bit((int)i)) && !passes(run_of(c, (int)i))) f.reason = TP_REASON_DEPENDENCY;
  if (f.reason) return f;
  if (node->match == 3)
    return (expected){.state = TP_STATE_FAILED,
                      .reason = TP_REASON_MALFORMED,
                      .verdict = node->failure == TP_FAILURE_FALLBACK ? node->fallback_verdict : TP_VERDICT_NONE};
  if (node->detached) return (expected){.state = TP_STATE_BACKGROUNDED, .attempts = 1, .verdict = TP_VERDICT_NONE};
  uint32_t attempts_max = node->attempts ? node->attempts : 1;
  for (uint32_t attempt = 1;; attempt++) {
    const script_move *move = script_move_of(node, attempt);
    f = expected_of_answer(c, node, move);
    f.attempts = attempt;
    if (f.reason != TP_REASON_ERROR || move->answer != ANSWER_FAIL_RETRYABLE || attempt == attempts_max) break;
  }
  if (f.state == TP_STATE_FAILED && node->failure == TP_FAILURE_FALLBACK) f.verdict = node->fallback_verdict;
  return f;
}

/* In a graph that fails closed it depends on time who still began. */
static void check_expected(case_ *c) {
  bool decided = false;
  bool open = !script_phase_is_chain(c->phase) && c->result->outcome == TP_ERR_HOOK;
  for (uint32_t i = 0; i < c->count; i++) {
    const tp_run_record *run = &c->runs[i];
    expected f = expected_of(c, i, decided);
    bool fits =
        run->state == f.state && run->reason == f.reason && run->attempts == f.attempts && run->verdict == f.verdict;
    bool excused = open && (run->reason == TP_REASON_PHASE_FAILED || run->reason == TP_REASON_CANCELLED ||
                            run->attempts < f.attempts);
    if (!fits && !excused)
      FAIL(c, "outcomes follow from the script", "node %d is %s (%s) after %u attempts, not %s (%s) after %u",
           c->order[i], outcome_name(run), tp_reason_name(run->reason), run->attempts, tp_state_name(f.state),
           tp_reason_name(f.reason), f.attempts);
    if (script_phase_is_chain(c->phase)) decided |= fails_entry(c, i) || run->verdict == TP_VERDICT_DENY;
  }
}

/* ---- the public API ---- */

static void write_down(case_ *c) {
  op_note *note = c->note;
  note->outcome = c->result->outcome;
  note->run_count = c->result->run_count;
  note->runs_hash = UINT64_C(0xCBF29CE484222325);
  for (uint32_t i = 0; i < c->count; i++) {
    const tp_run_record *run = &c->runs[i];
    int node = c->order[i];
    note->state[node] = (uint8_t)run->state;
    note->reason[node] = (uint8_t)run->reason;
    note->attempts[node] = (uint16_t)run->attempts;
    uint32_t row[6] = {(uint32_t)node, (uint32_t)run->state,   (uint32_t)run->reason,
                       run->attempts,  (uint32_t)run->verdict, run->fallback_used};
    note->runs_hash = hash_bytes(note->runs_hash, row, sizeof row);
  }
  note->bytes_hash = hash_merged(c->result->merged);
}

void oracle_op_ended(world *w, uint32_t op, const tp_phase_result *result) {
  op_note *note = &w->ops[op];
  note->ends++;
  note->ended_ns = result->entry ? ((const tp__entry *)result->entry)->ended_ns : tp__now_ns();
  note->outcome = result->outcome;
  if (note->ends > 1) world_fail(w, "an entry ends once", "operation %u has ended %u times", op, note->ends);
  note->empty = !result->entry;
  if (!result->entry) {
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < w->s->node_count; i++)
      wanted += w->s->nodes[i].phase == world_op(w, op)->phase && !w->s->nodes[i].disabled;
    if (wanted > 0 && result->outcome != TP_ERR_NO_MEMORY)
      world_fail(w, "every subscription accounted for", "operation %u has no entry", op);
    if (result->outcome == TP_ERR_NO_MEMORY && w->s->fault_level != FAULTS_REFUSALS)
      world_fail(w, "no refusal without a reason", "no memory");
    return;
  }
  case_ c = {.w = w, .op = op, .phase = world_op(w, op)->phase, .result = result, .entry = result->entry, .note = note};
  c.count = result->run_count < SCRIPT_NODES_MAX ? result->run_count : SCRIPT_NODES_MAX;
  read_rows(&c);
  check_accounting(&c);
  if (world_failed(w)) return; /* a row belongs to no node or to two, and the checks below need that it has one */
  note->entry_id = c.entry->id;
  write_down(&c);
  for (uint32_t i = 0; i < c.count; i++) {
    check_run(&c, i);
    check_late(&c, i);
    check_liveness(&c, i);
    check_order(&c, i);
    check_dependent(&c, i);
    check_view(&c, i);
    check_breaker(&c, i);
    check_shed(&c, i);
  }
  check_outcome(&c);
  if (script_phase_is_chain(c.phase)) check_chain(&c);
  check_merged(&c);
  check_deadline(&c);
  if (w->s->fault_level == FAULTS_NONE) check_expected(&c);
}

void oracle_op_again(world *w, uint32_t op, const tp_phase_result *result) {
  op_note *note = &w->ops[op];
  if (world_failed(w)) return;
  if (hash_merged(result->merged) != note->bytes_hash)
    world_fail(w, "nothing late is ever merged", "the result of operation %u has changed since it ended", op);
  for (uint32_t i = 0; i < result->run_count; i++) {
    tp_run_record run = row_of(result, i);
    int node = find_node(w, run.subscription);
    if (note->state[node] != run.state || note->attempts[node] != run.attempts)
      world_fail(w, "nothing late is ever merged", "node %d of operation %u has another state than at the end", node,
                 op);
  }
}

/* ---- the end ---- */

static void check_call(world *w, const call_note *call) {
  const op_note *op = &w->ops[call->op];
  bool detached = w->s->nodes[call->node].detached;
  if (!call->finished_ns) world_fail(w, "every call returns", "node %d", call->node);
  if (call->destroys != (call->deferred ? 1 : 0))
    world_fail(w, "destroy exactly once", "node %d (way %d): %u times", call->node, call->move->way, call->destroys);
  bool by_token = call->deferred || call->in_inbox;
  if (detached || !by_token || call->attempt != op->attempts[call->node] || !op->begun) return;
  bool succeeded = op->state[call->node] == TP_STATE_SUCCEEDED;
  if (succeeded && call->accepted != 1)
    world_fail(w, "one outcome per attempt", "node %d succeeded, but %u completions were taken", call->node,
               call->accepted);
}

/* Whether a run's handler answers that it failed and may be tried again. */
static bool asks_for_another_try(const script_node *node, uint32_t attempt) {
  const script_move *move = script_move_of(node, attempt);
  return move->answer == ANSWER_FAIL_RETRYABLE && move->way != WAY_DEFER_AND_RETURN;
}

/* A job is tried again as its subscription says; a fired run is not. */
static uint32_t detached_calls_wanted(const script_node *node) {
  uint32_t calls = 1;
  while (node->execution == TP_EXECUTION_BACKGROUND && calls < node->attempts && asks_for_another_try(node, calls))
    calls++;
  return calls;
}

/* In a fault-free world, every started or committed run has run before the drain is done. */
static void check_detached(world *w, uint32_t op, uint32_t index) {
  const script_node *node = &w->s->nodes[index];
  uint32_t calls = 0;
  for (const call_note *call = w->calls; call; call = call->next) calls += call->op == op && call->node == (int)index;
  bool backgrounded = w->ops[op].state[index] == TP_STATE_BACKGROUNDED;
  uint32_t wanted = backgrounded ? detached_calls_wanted(node) : 0;
  if (calls != wanted)
    world_fail(w, "what is detached is run", "node %u of operation %u was called %u times, not %u", index, op, calls,
               wanted);
}

static void check_destroys(world *w) {
  for (uint32_t i = 0; i < w->s->node_count; i++) {
    const node_actor *actor = &w->nodes[i];
    if (actor->destroys != actor->taken)
      world_fail(w, "a handler is destroyed exactly once", "node %u: %u times", i, actor->destroys);
    if (actor->match_destroys != actor->match_taken)
      world_fail(w, "a match is destroyed exactly once", "node %u: %u times", i, actor->match_destroys);
  }
  for (uint32_t i = 0; i < w->listener_count; i++)
    if (w->listeners[i].destroys != 1)
      world_fail(w, "a listener is destroyed exactly once", "number %u: %u times", i, w->listeners[i].destroys);
  if (w->store_destroys != w->store_taken)
    world_fail(w, "the store is destroyed exactly once", "%u times", w->store_destroys);
}

void oracle_world_ended(world *w) {
  for (uint32_t op = 0; op < WORLD_OPS; op++) {
    const op_note *note = &w->ops[op];
    if (note->begun && note->ends != 1)
      world_fail(w, "an entry ends once", "operation %u has ended %u times", op, note->ends);
    if (note->entry_id && w->s->fault_level < FAULTS_REFUSALS && !world_recorded(w, note->entry_id))
      world_fail(w, "one record per entry", "operation %u has none", op);
  }
  for (const call_note *call = w->calls; call; call = call->next) check_call(w, call);
  check_destroys(w);
  for (uint32_t op = 0; op < WORLD_OPS; op++)
    for (uint32_t i = 0; i < w->s->node_count && w->s->fault_level == FAULTS_NONE; i++)
      if (w->s->nodes[i].detached) check_detached(w, op, i);
  if (tp__slots_in_use() > 0) world_fail(w, "no slot is left", "%u are not free", tp__slots_in_use());
  if (w->bytes_open > 0) world_fail(w, "no memory is left", "%zu bytes", w->bytes_open);
}

void oracle_same(world *a, const world *b, uint32_t workers_a, uint32_t workers_b) {
  for (uint32_t op = 0; op < WORLD_OPS; op++) {
    const op_note *x = &a->ops[op], *y = &b->ops[op];
    if (!x->begun || x->empty) continue;
    bool same_runs = x->runs_hash == y->runs_hash;
    if (!same_runs && x->outcome != TP_ERR_HOOK)
      world_fail(a, "outcomes do not depend on workers", "operation %u came out differently with %u and %u", op,
                 workers_a, workers_b);
    if (same_runs && x->bytes_hash != y->bytes_hash)
      world_fail(a, "merged bytes do not depend on workers", "operation %u has others with %u and %u", op, workers_a,
                 workers_b);
  }
  for (uint32_t i = 0; i < a->s->tool_work_count; i++)
    tool_work_same(&a->tool_works[i], &b->tool_works[i], workers_a, workers_b);
}
