/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.c: one number for everything that decides what a plan does, so that a record shows under which plan it was made.
 * It is equal on every machine and in every process: numbers are hashed in little-endian form, texts with their length,
 * pointers never. A match is hashed by its description, conditions and fields, a handler by its id and contract
 * version. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/plan/registry.h"

/* Most of the input comes as single numbers. They are gathered first, because XXH3 takes much longer to accept eight
 * bytes than to hash them. */
typedef struct digest {
  XXH3_state_t state;
  size_t gathered;
  unsigned char bytes[1024];
} digest;

static void digest_init(digest *d) {
  XXH3_INITSTATE(&d->state);
  XXH3_64bits_reset(&d->state);
  d->gathered = 0;
}

static void pass_on(digest *d, const void *bytes, size_t size) {
  XXH_errorcode code = XXH3_64bits_update(&d->state, bytes, size);
  assert(code == XXH_OK);
  (void)code;
}

static void pass_on_gathered(digest *d) {
  pass_on(d, d->bytes, d->gathered);
  d->gathered = 0;
}

static uint64_t digest_end(digest *d) {
  pass_on_gathered(d);
  return XXH3_64bits_digest(&d->state);
}

static void add_bytes(digest *d, const void *bytes, size_t size) {
  if (size > sizeof d->bytes - d->gathered) pass_on_gathered(d);
  if (size > sizeof d->bytes) {
    pass_on(d, bytes, size);
  } else {
    memcpy(d->bytes + d->gathered, bytes, size);
    d->gathered += size;
  }
}

static void add_number(digest *d, uint64_t number) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  number = __builtin_bswap64(number);
#endif
  if (sizeof number > sizeof d->bytes - d->gathered) pass_on_gathered(d);
  memcpy(d->bytes + d->gathered, &number, sizeof number);
  d->gathered += sizeof number;
}

static void add_text(digest *d, tp_text text) {
  add_number(d, text.size);
  if (text.size > 0) add_bytes(d, text.data, text.size);
}

static void add_string(digest *d, const char *string) { add_text(d, tp_text_of(string)); }

static void add_numbers(digest *d, const uint32_t *numbers, size_t count) {
  add_number(d, count);
  for (size_t i = 0; i < count; i++) add_number(d, numbers[i]);
}

static void add_contribution(digest *d, const tp_contribution *contribution) {
  const tp_text texts[] = {contribution->domain,     contribution->key,   contribution->title,  contribution->text,
                           contribution->short_text, contribution->value, contribution->sources};
  add_number(d, contribution->kind);
  add_number(d, (uint64_t)contribution->weight);
  add_number(d, contribution->severity);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) add_text(d, texts[i]);
  add_number(d, contribution->tool_count);
  for (uint32_t i = 0; i < contribution->tool_count; i++) {
    const tp_tool *offer = contribution->tools[i];
    add_string(d, offer->name);
    add_string(d, offer->description);
    add_text(d, offer->schema);
    add_number(d, (uint64_t)offer->placement << 2 | (uint64_t)offer->is_operation << 1 | offer->idempotent);
    add_number(d, offer->max_concurrent);
    add_number(d, offer->limit_ms);
    add_number(d, offer->result_bytes_max);
    add_number(d, offer->parts_bytes_max);
  }
}

static void add_condition(void *ctx, const char *text) { add_string(ctx, text); }

static void add_policies(digest *d, const tp__subscription *sub) {
  const tp_subscription *desc = &sub->desc;
  add_number(d, desc->attempts > 1 ? desc->attempts : 1);
  add_number(d, desc->backoff);
  add_number(d, desc->backoff_ms);
  add_number(d, desc->visibility);
  add_number(d, desc->fallback_verdict);
  add_number(d, desc->fallback_count);
  for (size_t i = 0; i < desc->fallback_count; i++) add_contribution(d, desc->fallback[i]);
  add_string(d, sub->match.description);
  tp__match_each_condition(&sub->match, add_condition, d);
  if (sub->match.duration_ms_min) add_number(d, (uint64_t)sub->match.duration_ms_min);
  add_numbers(d, sub->match.fields, sub->match.field_count);
}

static void add_node(digest *d, const tp__plan *plan, const tp__node *node) {
  const tp__handler *handler = node->handler;
  add_string(d, node->sub->desc.id);
  add_string(d, node->sub->owner);
  add_string(d, handler->desc.id);
  add_string(d, handler->owner);
  add_number(d, handler->desc.contract_version);
  add_number(d, handler->desc.idempotent);
  add_number(d, node->capabilities);
  add_number(d, node->flags);
  add_number(d, node->kinds);
  add_number(d, node->execution);
  add_number(d, node->failure);
  add_number(d, (uint64_t)node->timeout_ns);
  add_number(d, node->permits);
  add_policies(d, node->sub);
  if (node->sub->desc.backlog) add_number(d, node->sub->desc.backlog);
  add_numbers(d, plan->edges + node->first_edge, node->edge_count);
  add_numbers(d, plan->deps + node->first_dep, node->dep_count);
}

static void add_phase_row(digest *d, const tp_phase *row) {
  add_string(d, row->name);
  add_number(d, row->mode);
  add_number(d, (uint64_t)row->replace << 3 | (uint64_t)row->stop << 2 | (uint64_t)row->ask << 1 | row->reverse);
  add_numbers(d, row->fields, row->field_count);
  add_numbers(d, row->replaceable, row->replaceable_count);
}

uint64_t tp__plan_hash(const tp__plan *plan) {
  digest d;
  digest_init(&d);
  add_number(&d, plan->phase);
  add_phase_row(&d, plan->row);
  add_number(&d, (uint64_t)plan->budget_ns);
  add_number(&d, plan->node_count);
  for (uint32_t i = 0; i < plan->node_count; i++) add_node(&d, plan, &plan->nodes[i]);
  return digest_end(&d);
}

uint64_t tp__snapshot_hash(const tp__snapshot *snapshot) {
  digest d;
  digest_init(&d);
  for (uint32_t phase = 0; phase < TP_PHASE_LIMIT; phase++) {
    if (!snapshot->plans[phase]) continue;
    add_number(&d, phase);
    add_number(&d, snapshot->plans[phase]->hash);
  }
  return digest_end(&d);
}
