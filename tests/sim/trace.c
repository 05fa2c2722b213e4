/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c: prints a play, to find out why it failed. */
#include <stdio.h>

#include "commit_work.h"
#include "session_work.h"
#include "tool_work.h"

static const char *const ways[SCRIPT_WAYS] = {"returns",
                                              "defers",
                                              "defers, completed twice",
                                              "defers, completed inside",
                                              "defers and returns",
                                              "defers for ever",
                                              "defers, completed by cancel",
                                              "defers, completed after the end"};
static const char *const answers[SCRIPT_ANSWERS] = {"done", "replace", "allow",          "deny",
                                                    "ask",  "fail",    "fail retryable", "bad emit"};
static const char *const executions[] = {"blocking", "blocking", "deadline", "fire_and_record", "background"};
static const char *const failures[] = {"default", "best_effort", "fallback", "required"};

static long long us(int64_t ns) { return (long long)(ns / TP__NS_PER_US); }

static void print_node(const script_node *node, uint32_t index) {
  printf("    node %u (%s, phase %d): %s, %s", index, node->id, node->phase, executions[node->execution],
         failures[node->failure]);
  if (node->is_inline) printf(", inline");
  if (node->inbox) printf(", in the inbox");
  if (node->disabled) printf(", disabled");
  if (node->killed) printf(", killed");
  if (node->match) printf(", match %s", node->match == 1 ? "yes" : node->match == 2 ? "no" : "fails");
  if (node->limit_ms) printf(", limit %u ms", node->limit_ms);
  if (node->attempts) printf(", %u attempts", node->attempts);
  if (node->max_concurrent) printf(", %u permits", node->max_concurrent);
  for (uint32_t i = 0; i < node->edge_count; i++)
    printf(", %s %d", node->edges[i].requires_success ? "requires" : "after", node->edges[i].target);
  printf("\n");
}

static void print_call(const call_note *call) {
  printf("    op %u node %d attempt %u at %lld us (until %lld): %s, %s", call->op, call->node, call->attempt,
         us(call->started_ns), call->deadline_ns == INT64_MAX ? -1 : us(call->deadline_ns), ways[call->move->way],
         answers[call->move->answer]);
  if (call->answered_ns) printf(", answered at %lld", us(call->answered_ns));
  if (call->finished_ns) printf(", returned at %lld", us(call->finished_ns));
  if (call->accepted) printf(", taken");
  if (call->cancels) printf(", cancelled");
  printf("\n");
}

static void print_op(const world *w, uint32_t op) {
  const op_note *note = &w->ops[op];
  const script_op *plan = world_op(w, op);
  printf("    op %u: phase %d, %s, budget %u ms, begun at %lld us, ended %u times, at %lld: %s\n", op, plan->phase,
         plan->submitted ? "submitted" : "synchronous", plan->budget_ms, us(note->begun_ns), note->ends,
         us(note->ended_ns), tp_status_name(note->outcome));
  for (uint32_t i = 0; i < w->s->node_count; i++) {
    if (!note->state[i]) continue;
    printf("      node %u: %s (%s) after %u attempts\n", i, tp_state_name((tp_state)note->state[i]),
           tp_reason_name((tp_reason)note->reason[i]), note->attempts[i]);
  }
}

static void print_tool_work_call(const tool_work_call *call) {
  printf("      call %u: %s, arguments %d, %s, %zu bytes", call->index, tool_work_tool_name(call->tool),
         call->arguments, ways[call->way], call->text_size);
  if (call->way != WAY_RETURN && call->hand != HAND_TOOL) printf(", by hand %d", call->hand);
  if (call->fails) printf(", fails");
  if (call->called_ns) printf(", called at %lld us (until %lld)", us(call->called_ns), us(call->deadline_ns));
  if (call->returned_ns) printf(", returned at %lld", us(call->returned_ns));
  if (call->refused) printf(", deferral refused");
  if (call->accepted) printf(", taken");
  if (call->cancels) printf(", cancelled");
  if (call->end_ns) printf(", ended at %lld", us(call->end_ns));
  printf(": %s\n", tp_tool_result_name(call->kind));
}

static void print_tool_work(const tool_work *e) {
  printf("    tool workload %u: %s%s, limit %u ms, cancelled at %lld us\n", e->index,
         e->in_session ? "in a session" : "bare", e->chained ? ", chained" : "", e->limit_ms, us(e->cancelled_ns));
  for (uint32_t i = 0; i < e->batch_count; i++) {
    const tool_work_batch *batch = &e->batches[i];
    if (!batch->begun) continue;
    printf("    batch %u: %s, %s, begun at %lld us, ended %u times\n", i,
           batch->submitted ? "submitted" : "synchronous", batch->sure ? "with tools" : "perhaps without tools",
           us(batch->begun_ns), batch->ends);
    for (uint32_t k = 0; k < batch->count; k++) print_tool_work_call(&batch->calls[k]);
  }
}

static void print_host(const session_work_host *host) {
  for (uint32_t i = 0; i < host->turn_count; i++) {
    const session_work_turn *turn = &host->turns[i];
    printf("      %s: %s, %s%s, post_turn %u times", turn->id, turn->waited_for ? "waited for" : "submitted",
           turn->taken ? "taken" : "refused", turn->begun ? ", begun" : "", turn->posts);
    if (turn->ends) printf(", the %uth to end", turn->end_place);
    printf("\n");
  }
}

static void print_session_work(const session_work *c) {
  printf("    session workload: %u hosts, %u turns may wait, session.end %u times of %u, %s\n", c->host_count,
         c->queued_max, c->session_ends, c->session_ends_wanted, c->closed ? "closed" : "not closed");
  for (uint32_t i = 0; i < c->host_count; i++) print_host(&c->hosts[i]);
}

static void print_editor(const commit_work_editor *editor) {
  for (int i = 0; i < COMMIT_WORK_PAIRS; i++) {
    const commit_work_pair *pair = &editor->pairs[i];
    if (pair->add_asked)
      printf("    %s, %s: added at moment %llu, %llu; removed at %llu, %llu\n", pair->ids[0], pair->ids[1],
             (unsigned long long)pair->add_asked, (unsigned long long)pair->added,
             (unsigned long long)pair->remove_asked, (unsigned long long)pair->removed);
  }
}

void trace_print(const world *w) {
  const script *s = w->s;
  printf("  trace: row limit %u ms, %u handler threads, %u tokens, drain at %lld us\n", s->phase_limit_ms,
         s->options.handler_threads, s->options.deferred_max, us(s->drain_ns));
  for (uint32_t i = 0; i < s->node_count; i++) print_node(&s->nodes[i], i);
  for (uint32_t op = 0; op < WORLD_OPS; op++)
    if (w->ops[op].begun_ns) print_op(w, op);
  for (uint32_t i = 0; i < s->tool_work_count; i++) print_tool_work(&w->tool_works[i]);
  for (uint32_t i = 0; i < s->editor_count; i++) print_editor(&w->editors[i]);
  if (w->session_work) print_session_work(w->session_work);
  const call_note *newest_last[64];
  uint32_t count = 0;
  for (const call_note *call = w->calls; call && count < 64; call = call->next) newest_last[count++] = call;
  while (count > 0) print_call(newest_last[--count]);
}
