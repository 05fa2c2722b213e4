/* SPDX-License-Identifier: Apache-2.0
 *
 * slots.c: the slots of calls that were taken and not answered, with their ids in JavaScript. */
#include <stdlib.h>
#include <string.h>

#include "bindings/node/src/core.h"

enum {
  INDEX_BITS = 20, /* bits of an id for the index; the rest is the generation */
  SLOTS_FIRST = 64
};

static uint32_t hash_of(const tpn_runtime *runtime, tp_token token) {
  return (uint32_t)((token.bits * 0x9e3779b97f4a7c15ULL) >> 40) & (runtime->slot_count - 1);
}

static void link_slot(tpn_runtime *runtime, uint32_t at) {
  uint32_t *first = &runtime->hashes[hash_of(runtime, runtime->slots[at].token)];
  runtime->slots[at].next = *first;
  *first = at + 1;
}

/* Doubles the number of slots, and rebuilds the hash table of their tokens. */
static bool grow_slots(tpn_runtime *runtime) {
  const uint32_t count = runtime->slot_count ? 2 * runtime->slot_count : SLOTS_FIRST;
  if (count > 1U << INDEX_BITS) return false;
  tpn_slot *slots = realloc(runtime->slots, count * sizeof *slots);
  if (slots) runtime->slots = slots;
  uint32_t *hashes = realloc(runtime->hashes, count * sizeof *hashes);
  if (hashes) runtime->hashes = hashes;
  if (!slots || !hashes) return false;
  memset(slots + runtime->slot_count, 0, (count - runtime->slot_count) * sizeof *slots);
  memset(hashes, 0, count * sizeof *hashes);
  for (uint32_t i = runtime->slot_count; i < count; i++) slots[i].next = i + 1 < count ? i + 2 : 0;
  runtime->slot_free = runtime->slot_count + 1; /* there was no free slot */
  const uint32_t open = runtime->slot_count;
  runtime->slot_count = count;
  for (uint32_t i = 0; i < open; i++) link_slot(runtime, i);
  return true;
}

static double id_of(const tpn_runtime *runtime, uint32_t at) {
  return (double)((uint64_t)runtime->slots[at].generation << INDEX_BITS | at);
}

double tpn_slot_new(tpn_runtime *runtime, const tp_work *work) {
  if (!runtime->slot_free && !grow_slots(runtime)) return -1;
  const uint32_t at = runtime->slot_free - 1;
  tpn_slot *slot = &runtime->slots[at];
  runtime->slot_free = slot->next;
  slot->work = work;
  slot->token = work->token;
  slot->generation++;
  link_slot(runtime, at);
  return id_of(runtime, at);
}

double tpn_slot_find(const tpn_runtime *runtime, tp_token token) {
  if (!runtime->slot_count) return -1;
  for (uint32_t at = runtime->hashes[hash_of(runtime, token)]; at; at = runtime->slots[at - 1].next)
    if (runtime->slots[at - 1].token.bits == token.bits) return id_of(runtime, at - 1);
  return -1;
}

tpn_slot *tpn_slot_get(tpn_runtime *runtime, napi_env env, napi_value id) {
  double number = -1;
  (void)napi_get_value_double(env, id, &number);
  if (!(number >= 0)) return NULL;
  const uint64_t bits = (uint64_t)number;
  const uint64_t at = bits & ((1U << INDEX_BITS) - 1);
  if (at >= runtime->slot_count) return NULL;
  tpn_slot *slot = &runtime->slots[at];
  return slot->work && slot->generation == bits >> INDEX_BITS ? slot : NULL;
}

void tpn_slot_end(tpn_runtime *runtime, tpn_slot *slot) {
  const uint32_t at = (uint32_t)(slot - runtime->slots);
  uint32_t *link = &runtime->hashes[hash_of(runtime, slot->token)];
  while (*link != at + 1) link = &runtime->slots[*link - 1].next;
  *link = slot->next;
  slot->work = NULL;
  slot->next = runtime->slot_free;
  runtime->slot_free = at + 1;
}

void tpn_slots_abandon(tpn_runtime *runtime) {
  for (uint32_t i = 0; i < runtime->slot_count; i++) {
    if (!runtime->slots[i].work) continue;
    (void)tp_token_abandon(runtime->slots[i].token, NULL);
    tpn_slot_end(runtime, &runtime->slots[i]);
  }
}
