/* SPDX-License-Identifier: Apache-2.0
 *
 * host: a host of the library for tests: a runtime, handlers with configurable behaviour, and latches to wait for
 * events. A handler never asserts: it takes notes, and the test's own thread judges. */
#ifndef TEST_HOST_H
#define TEST_HOST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/edges.h"
#include "tests/support/test.h"
#include "turnphase/turnphase.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define TEXT(string) \
  { (string), sizeof(string) - 1 }

/* ---- latch: a number that goes up, and threads that wait until it has ---- */

typedef struct latch {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int count;
} latch;

#define LATCH \
  { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 }

static inline void latch_hit(latch *l) {
  pthread_mutex_lock(&l->mutex);
  l->count++;
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->mutex);
}

static inline void latch_wait(latch *l, int count) {
  pthread_mutex_lock(&l->mutex);
  while (l->count < count) pthread_cond_wait(&l->changed, &l->mutex);
  pthread_mutex_unlock(&l->mutex);
}

static inline int latch_count(latch *l) {
  pthread_mutex_lock(&l->mutex);
  int count = l->count;
  pthread_mutex_unlock(&l->mutex);
  return count;
}

static inline int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void sleep_ms(int64_t ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&t, &t) != 0) {}
}

/* ---- a handler that does what is set ---- */

enum { NO_ANSWER = -1 }; /* of act.kind: returns 0, as a callback that raised does */

typedef struct act {
  tp_answer kind; /* 0: DONE */
  const char *reason;
  uint32_t code;
  bool retryable;
  uint32_t succeeds_at; /* the attempt from which it is done instead; 0: never */
  const tp_contribution *emits;
  size_t emit_count;
  uint32_t replaces; /* field, with text */
  const char *text;
  const char *appends; /* to the field `replaces`, instead of text */
  uint32_t sleeps_ms;
  latch *entered;   /* hit when it begins */
  latch *waits_for; /* and waits for its first hit */
  bool defers;
  tp_token token; /* of the deferral, for a thread that waited for `entered` */
  tp_deferral deferral;
  latch *deferred; /* hit when token is there */
  _Atomic uint32_t calls;
  _Atomic uint32_t order; /* the rank of its last call, from 1, among the calls of all handlers that share `clock` */
  _Atomic uint32_t *clock;
} act;

static inline tp_answer answer_of(act *a, tp_call *call) {
  if (a->succeeds_at && tp_call_attempt(call) >= a->succeeds_at) return TP_ANSWER_DONE;
  switch (a->kind) {
    case 0:
    case TP_ANSWER_DONE:
      return TP_ANSWER_DONE;
    case TP_ANSWER_ALLOW:
      return tp_call_allow(call);
    case TP_ANSWER_DENY:
      return tp_call_deny(call, a->reason);
    case TP_ANSWER_ASK:
      return tp_call_ask(call, a->reason);
    case TP_ANSWER_FAILED:
      return a->retryable ? tp_call_fail_retryable(call, a->code, a->reason) : tp_call_fail(call, a->code, a->reason);
  }
  return a->kind == NO_ANSWER ? TP_ANSWER_NONE : a->kind;
}

static inline void replace_as_set(const act *a, tp_call *call) {
  char text[4096];
  if (!a->replaces) return;
  if (a->appends) {
    tp_text old = tp_call_text(call, a->replaces);
    snprintf(text, sizeof text, "%.*s%s", (int)old.size, old.size ? old.data : "", a->appends);
  }
  (void)!tp_call_replace_text(call, a->replaces, a->appends ? text : a->text, NULL);
}

static inline tp_answer play(void *ctx, tp_call *call) {
  act *a = ctx;
  a->calls++;
  if (a->clock) a->order = ++*a->clock;
  if (a->entered) latch_hit(a->entered);
  if (a->waits_for) latch_wait(a->waits_for, 1);
  if (a->sleeps_ms) sleep_ms(a->sleeps_ms);
  for (size_t i = 0; i < a->emit_count; i++) (void)!tp_call_emit(call, &a->emits[i], NULL);
  replace_as_set(a, call);
  if (!a->defers) return answer_of(a, call);
  tp_deferral deferral = a->deferral;
  deferral.struct_size = sizeof deferral;
  tp_answer outcome = tp_call_defer(call, &deferral, &a->token);
  if (a->deferred) latch_hit(a->deferred);
  return outcome;
}

/* ---- tools: with calls and results side by side ---- */

static inline const tp_tool_call **pointers_to(const tp_tool_call *calls, size_t count) {
  const tp_tool_call **pointers = malloc((count + 1) * (sizeof *pointers + sizeof *calls));
  if (!pointers) abort();
  tp_tool_call *copies = (tp_tool_call *)(void *)(pointers + count + 1);
  for (size_t i = 0; i < count; i++) {
    copies[i] = calls[i];
    copies[i].struct_size = sizeof *copies;
    pointers[i] = &copies[i];
  }
  return pointers;
}

static inline tp_status tools_run(tp_turn *turn, const tp_tool_call *calls, size_t count, tp_tool_result *results,
                                  tp_fault *fault) {
  const tp_tool_call **pointers = pointers_to(calls, count);
  const tp_tool_result *const *shown = NULL;
  if (count > 0) memset(results, 0, count * sizeof *results);
  tp_status status = tp_tools_run(turn, pointers, count, &shown, fault);
  free(pointers);
  for (size_t i = 0; status == TP_OK && i < count; i++) results[i] = *shown[i];
  return status;
}

static inline tp_status tools_submit(tp_turn *turn, const tp_tool_call *calls, size_t count, tp_tools_end_fn on_end,
                                     void *ctx, tp_fault *fault) {
  const tp_tool_call **pointers = pointers_to(calls, count);
  tp_status status = tp_tools_submit(turn, pointers, count, on_end, ctx, fault);
  free(pointers);
  return status;
}

/* The row of a subscription in a record. */
static inline tp_run_record record_row(const tp_entry_record *record, size_t index) {
  tp_run_record row = {.struct_size = sizeof row};
  return record->run(record->source, index, &row) ? row : (tp_run_record){0};
}

static inline tp_status read_records(tp_runtime *runtime, size_t limit, tp_record_fn each, void *ctx) {
  tp_record_query query = {.struct_size = sizeof query, .limit = limit};
  return tp_runtime_records(runtime, &query, each, ctx, NULL);
}

/** The end of a session as an argument. */
#define END(reason_) (&(tp_session_end){.struct_size = sizeof(tp_session_end), .reason = (reason_)})

/* ---- registering ---- */

/** A hook as an argument. */
#define HOOK(phase_, run_, self_) \
  (&(tp_hook){.struct_size = sizeof(tp_hook), .phase = (phase_), .run = (run_), .ctx = (self_)})

typedef struct hook {
  const char *id; /* of the subscription, and of its handler */
  uint32_t phase;
  tp_handler_fn run; /* NULL: play */
  void *ctx;
  bool slow; /* placement thread */
  bool parallel;
  bool idempotent;
  bool no_capability;         /* but to emit audits */
  tp_capability capabilities; /* 0: all that the phase allows */
  void (*destroy)(void *ctx);
  const char *after, *needs, *optional_after, *optional_requires;
  tp_subscription sub; /* everything else; id, handler and phase are filled in */
} hook;

static inline tp_placement placement_of(const hook *h) {
  return h->slow ? TP_PLACEMENT_THREAD : h->parallel ? TP_PLACEMENT_PARALLEL : TP_PLACEMENT_INLINE;
}

static inline tp_status hook_add(tp_edit *edit, const hook *h) {
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = h->id,
                        .run = h->run ? h->run : play,
                        .ctx = h->ctx,
                        .destroy = h->destroy,
                        .phases = &h->phase,
                        .phase_count = 1,
                        .placement = placement_of(h),
                        .idempotent = h->idempotent,
                        .capabilities = h->no_capability ? TP_CAPABILITY_EMIT_AUDIT : h->capabilities};
  tp_status status = tp_edit_add_handler(edit, &handler, NULL);
  if (status != TP_OK) return status;
  const tp_edge *after[2], *needs[2];
  const tp_edge edges[] = {EDGE_TO(h->after, false), EDGE_TO(h->optional_after, true), EDGE_TO(h->needs, false),
                           EDGE_TO(h->optional_requires, true)};
  tp_subscription sub = h->sub;
  sub.struct_size = sizeof sub;
  sub.id = sub.handler = h->id;
  sub.phase = h->phase;
  if (h->after) after[sub.after_count++] = &edges[0];
  if (h->optional_after) after[sub.after_count++] = &edges[1];
  if (h->needs) needs[sub.needs_count++] = &edges[2];
  if (h->optional_requires) needs[sub.needs_count++] = &edges[3];
  sub.after = after;
  sub.needs = needs;
  return tp_edit_add_subscription(edit, &sub, NULL);
}

static inline tp_status hooks_add(tp_runtime *runtime, const hook *hooks, size_t count, tp_fault *fault) {
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "test", .trust = TP_TRUST_BUILTIN};
  tp_edit *edit;
  tp_status status = tp_edit_begin(runtime, &owner, &edit, fault);
  if (status != TP_OK) return status;
  for (size_t i = 0; i < count && status == TP_OK; i++) status = hook_add(edit, &hooks[i]);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

/* Waits until no abandoned handler is inside its function any more, because its data may be on the test's stack. */
static inline void await_abandoned(tp_runtime *runtime) {
  while (tp_runtime_leaks(runtime, NULL, NULL) > 0) sleep_ms(1);
}

static inline void close_runtime(tp_runtime *runtime) {
  await_abandoned(runtime);
  tp_runtime_free(runtime);
}

#ifdef CMOCKA_H_
static inline void add_hooks(tp_runtime *runtime, const hook *hooks, size_t count) {
  tp_fault fault = {0};
  tp_status status = hooks_add(runtime, hooks, count, &fault);
  if (status != TP_OK) fail_msg("hooks refused: %s: %s", tp_status_name(status), fault.message);
}

static inline tp_runtime *open_runtime(const tp_runtime_options *options) {
  tp_runtime *runtime;
  assert_int_equal(tp_runtime_new(options, &runtime, NULL), TP_OK);
  return runtime;
}

static inline tp_turn *begin_bare(tp_runtime *runtime, uint32_t limit_ms) {
  tp_turn *turn;
  tp_turn_request request = {.struct_size = sizeof request, .limit_ms = limit_ms};
  assert_int_equal(tp_turn_begin_bare(runtime, &request, &turn, NULL), TP_OK);
  return turn;
}

/* Runs a phase with a TEXT field, or none. The budget is so large that only a handler's limit, which counts from its
 * call, can end it, however long the machine takes to call it. */
static inline tp_phase_result run_phase(tp_turn *turn, uint32_t phase, const char *text) {
  tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(text)};
  tp_phase_input input = {
      .struct_size = sizeof input, .fields = &field, .field_count = text ? 1 : 0, .budget_ms = 60000};
  tp_phase_result result = {.struct_size = sizeof result};
  tp_fault fault = {0};
  tp_status status = tp_phase_run(turn, phase, &input, &result, &fault);
  if (status != TP_OK) fail_msg("not run: %s: %s", tp_status_name(status), fault.message);
  return result;
}

/* The row of a subscription. */
static inline tp_run_record run_of(const tp_phase_result *result, const char *id) {
  for (uint32_t i = 0; i < result->run_count; i++) {
    tp_run_record run = *tp_phase_result_run(result, i);
    if (strcmp(run.subscription, id) == 0) return run;
  }
  fail_msg("no row of `%s`", id);
  return (tp_run_record){0};
}

#define assert_run(result, id, want_state, want_reason)                                   \
  do {                                                                                    \
    tp_run_record assert_run_ = run_of((result), (id));                                   \
    assert_string_equal(tp_state_name(assert_run_.state), tp_state_name(want_state));     \
    assert_string_equal(tp_reason_name(assert_run_.reason), tp_reason_name(want_reason)); \
  } while (0)

#define assert_text(text, want)                                                               \
  do {                                                                                        \
    tp_text assert_text_ = (text);                                                            \
    assert_int_equal(assert_text_.size, strlen(want));                                        \
    if (assert_text_.size) assert_memory_equal(assert_text_.data, (want), assert_text_.size); \
  } while (0)
#endif

#endif
