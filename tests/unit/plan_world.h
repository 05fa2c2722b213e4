/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_world: shared by the tests of plans: a small table of phases, a registry over it, an allocator that counts and
 * can refuse, and short forms for "this subscription after that one". Include after cmocka.h. */
#ifndef TP_TESTS_PLAN_WORLD_H
#define TP_TESTS_PLAN_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/plan.h"

enum {
  GATHER = 1,
  GATHER_REQUIRED = 2,
  STOP = 3,      /* chain with verdicts, ask too; required by default */
  CODE_ONLY = 4, /* chain that replaces */
  OBSERVE = 5,
  REVERSE = 6, /* chain, backwards */
  PRIVILEGED = 7,
  STOP_NO_ASK = 8,
  PHASES = 9
};

static const uint32_t world_fields[] = {TP_FIELD_TEXT, TP_FIELD_TOOL};
#define WORLD_FIELDS .fields = world_fields, .field_count = 2
static const tp_phase world_rows[PHASES] = {
    [GATHER] = {.struct_size = sizeof(tp_phase),
                .name = "test.gather",
                .mode = TP_MODE_GATHER,
                .limit_ms = 5000,
                .kinds = 1 << TP_CONTRIBUTION_PROMPT_CONTEXT | 1 << TP_CONTRIBUTION_BACKGROUND_JOB,
                WORLD_FIELDS},
    [GATHER_REQUIRED] = {.struct_size = sizeof(tp_phase),
                         .name = "test.gather_required",
                         .mode = TP_MODE_GATHER,
                         .limit_ms = 1000,
                         .failure = TP_FAILURE_REQUIRED,
                         .kinds = 1 << TP_CONTRIBUTION_POLICY,
                         WORLD_FIELDS},
    [STOP] = {.struct_size = sizeof(tp_phase),
              .name = "test.stop",
              .mode = TP_MODE_CHAIN,
              .stop = true,
              .ask = true,
              .limit_ms = 5000,
              .failure = TP_FAILURE_REQUIRED,
              .kinds = 1 << TP_CONTRIBUTION_SIGNAL | 1 << TP_CONTRIBUTION_REMINDER,
              WORLD_FIELDS},
    [CODE_ONLY] = {.struct_size = sizeof(tp_phase),
                   .name = "test.code_only",
                   .mode = TP_MODE_CHAIN,
                   .replace = true,
                   .code_only = true,
                   WORLD_FIELDS},
    [OBSERVE] = {.struct_size = sizeof(tp_phase),
                 .name = "test.observe",
                 .mode = TP_MODE_OBSERVE,
                 .limit_ms = 5000,
                 .kinds = 1 << TP_CONTRIBUTION_REMINDER,
                 WORLD_FIELDS},
    [REVERSE] =
        {.struct_size = sizeof(tp_phase), .name = "test.reverse", .mode = TP_MODE_CHAIN, .reverse = true, WORLD_FIELDS},
    [PRIVILEGED] = {.struct_size = sizeof(tp_phase),
                    .name = "test.privileged",
                    .mode = TP_MODE_CHAIN,
                    .replace = true,
                    .privileged = true,
                    WORLD_FIELDS},
    [STOP_NO_ASK] = {.struct_size = sizeof(tp_phase),
                     .name = "test.stop_no_ask",
                     .mode = TP_MODE_CHAIN,
                     .stop = true,
                     WORLD_FIELDS}};
static const tp__alias world_aliases[] = {
    {"plainAlias", GATHER, 0}, {"inOrder", GATHER, TP__ALIAS_SEQUENTIAL}, {"infra", OBSERVE, TP__ALIAS_INFRA}};

/* ---- memory that is counted and can be refused ---- */

typedef struct counter {
  size_t blocks, bytes; /* held now */
  size_t asked;         /* ever */
  size_t refuse_at;     /* this one is refused; 0: none */
  bool refuse_rest;     /* and all after it */
  uint32_t fill;        /* new memory is full of this word; 0: of 0xA5 */
} counter;

static inline void *counted_alloc(void *ctx, size_t size) {
  counter *count = (counter *)ctx;
  count->asked++;
  bool refused = count->refuse_at > 0 &&
                 (count->asked == count->refuse_at || (count->refuse_rest && count->asked > count->refuse_at));
  void *memory = refused ? NULL : malloc(size);
  if (memory) {
    memset(memory, 0xA5, size);
    for (size_t i = 0; count->fill && i + sizeof count->fill <= size; i += sizeof count->fill)
      memcpy((char *)memory + i, &count->fill, sizeof count->fill);
    count->blocks++;
    count->bytes += size;
  }
  return memory;
}

static inline void counted_release(void *ctx, void *memory, size_t size) {
  counter *count = (counter *)ctx;
  count->blocks--;
  count->bytes -= size; /* a wrong size shows as bytes that never come back to 0 */
  free(memory);
}

/* ---- a registry ---- */

/** A hook as an argument. */
#define HOOK(phase_, run_, self_) \
  (&(tp_hook){.struct_size = sizeof(tp_hook), .phase = (phase_), .run = (run_), .ctx = (self_)})

static inline tp_status world_copy(tp__arena *arena, uint32_t phase, const tp__closure_home *home,
                                   const tp_contribution *in, tp_contribution *out, tp_fault *fault) {
  (void)phase;
  (void)home;
  *out = *in;
  if (in->kind == TP_CONTRIBUTION_PROMPT_CONTEXT && in->key.size == 0)
    return tp__fail(fault, TP_ERR_MALFORMED, NULL, "prompt_context: key is missing");
  return tp__arena_text(arena, in->key, &out->key) && tp__arena_text(arena, in->text, &out->text) ? TP_OK
                                                                                                  : TP_ERR_NO_MEMORY;
}
static inline const char *world_kind_name(uint32_t kind) {
  static const char *const names[TP_CONTRIBUTION_COUNT] = {
      "",         "policy", "prompt_context",      "prompt_section", "tool_bundle",   "signal",
      "reminder", "audit",  "manifest_diagnostic", "diagnostic",     "background_job"};
  return names[kind];
}
static const tp__contribution_ops world_ops = {.copy = world_copy, .kind_name = world_kind_name};

static inline tp_status world_new(counter *count, tp__registry **ret_registry, tp_fault *fault) {
  const tp_allocator allocator = {.alloc = counted_alloc, .release = counted_release, .ctx = count};
  return tp__registry_new(&allocator, world_rows, PHASES, world_aliases, 3, NULL, 0, &world_ops, ret_registry, fault);
}

typedef struct world {
  counter count;
  tp__registry *registry;
  tp_fault fault;
} world;

static inline world *world_open(void) {
  world *w = (world *)calloc(1, sizeof *w);
  assert_non_null(w);
  assert_int_equal(world_new(&w->count, &w->registry, &w->fault), TP_OK);
  return w;
}

/* Also proves that nothing was left behind. */
static inline void world_close(world *w) {
  tp__registry_free(w->registry);
  assert_int_equal(w->count.blocks, 0);
  assert_int_equal(w->count.bytes, 0);
  free(w);
}

/* ---- handlers and subscriptions ---- */

#define ALL_CAPABILITIES                                                                                   \
  (TP_CAPABILITY_CONTRIBUTE_POLICY | TP_CAPABILITY_CONTRIBUTE_PROMPT_CONTEXT | TP_CAPABILITY_EMIT_SIGNAL | \
   TP_CAPABILITY_EMIT_REMINDER | TP_CAPABILITY_EMIT_AUDIT | TP_CAPABILITY_SCHEDULE_BACKGROUND_JOB |        \
   TP_CAPABILITY_DECIDE | TP_CAPABILITY_REPLACE_PAYLOAD)
static const uint32_t all_phases[] = {GATHER,  GATHER_REQUIRED, STOP,       CODE_ONLY,
                                      OBSERVE, REVERSE,         PRIVILEGED, STOP_NO_ASK};

static inline tp_answer no_run(void *ctx, tp_call *call) {
  (void)ctx;
  (void)call;
  return TP_ANSWER_DONE;
}

static inline tp_handler handler_of(const char *id) {
  return (tp_handler){.struct_size = sizeof(tp_handler),
                      .id = id,
                      .run = no_run,
                      .phases = all_phases,
                      .phase_count = sizeof all_phases / sizeof *all_phases,
                      .capabilities = ALL_CAPABILITIES};
}

static inline tp_subscription subscription_of(const char *id, uint32_t phase) {
  return (tp_subscription){.struct_size = sizeof(tp_subscription), .id = id, .handler = "h", .phase = phase};
}

static inline tp_edit *edit_of(world *w) {
  tp_edit *edit;
  assert_int_equal(tp__edit_new(w->registry, NULL, &edit, NULL), TP_OK);
  return edit;
}

static inline tp_edit *edit_by(world *w, const char *name, tp_trust trust, tp_grant grants) {
  tp_owner owner = {.struct_size = sizeof owner, .name = name, .trust = trust, .grants = grants};
  tp_edit *edit;
  assert_int_equal(tp__edit_new(w->registry, &owner, &edit, NULL), TP_OK);
  return edit;
}

static inline void add_handler(tp_edit *edit, const char *id) {
  tp_handler handler = handler_of(id);
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
}

static inline void add(tp_edit *edit, tp_subscription subscription) {
  assert_int_equal(tp_edit_add_subscription(edit, &subscription, NULL), TP_OK);
}

static inline void commit(world *w, tp_edit *edit) {
  tp_status status = tp_edit_commit(edit, NULL, &w->fault);
  if (status != TP_OK) fail_msg("refused: %s: %s", tp_status_name(status), w->fault.message);
}

/* An edit in which the handler "h" is already. */
static inline tp_edit *edit_with_handler(world *w) {
  tp_edit *edit = edit_of(w);
  add_handler(edit, "h");
  return edit;
}

/* The plan of the newest snapshot, which the caller unpins. */
static inline const tp__plan *pin_plan(world *w, uint32_t phase, tp__snapshot **ret_snapshot) {
  *ret_snapshot = tp__registry_pin(w->registry);
  const tp__plan *plan = (*ret_snapshot)->plans[phase];
  assert_non_null(plan);
  return plan;
}

/* Ids in plan order, joined by a blank. */
static inline const char *order_of(const tp__plan *plan, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t i = 0; i < plan->node_count && used < size; i++) {
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", plan->nodes[i].sub->desc.id);
  }
  return text;
}

static inline void assert_order(world *w, uint32_t phase, const char *expected) {
  char text[512];
  tp__snapshot *snapshot;
  assert_string_equal(order_of(pin_plan(w, phase, &snapshot), text, sizeof text), expected);
  tp__snapshot_unpin(snapshot);
}

static inline const tp__node *node_of(const tp__plan *plan, const char *id) {
  for (uint32_t i = 0; i < plan->node_count; i++) {
    if (strcmp(plan->nodes[i].sub->desc.id, id) == 0) return &plan->nodes[i];
  }
  fail_msg("`%s` is not in the plan", id);
  return NULL;
}

#endif
