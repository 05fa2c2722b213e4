/* SPDX-License-Identifier: Apache-2.0
 *
 * handler.c: a registered handler: a copy of its descriptor, counted. */
#include "runtime/plan/registry.h"
#include "turnphase/value.h"

enum {
  FIRST_BYTES = 192, /* enough for the strings of most handlers, so that one allocation holds all */
  CAPABILITIES_KNOWN = ((1 << TP_KIND_COUNT) - 2) | TP_CAPABILITY_DECIDE | TP_CAPABILITY_REPLACE_PAYLOAD
};

typedef struct handler_block {
  tp__handler handler;
  _Alignas(8) char first[FIRST_BYTES];
} handler_block;

static tp_status phases_check(const tp__registry *registry, const uint32_t *phases, size_t count) {
  if (count > TP_PHASE_LIMIT || (count > 0 && !phases)) return TP_ERR_USAGE;
  for (size_t i = 0; i < count; i++) {
    if (!tp__registry_phase(registry, phases[i])) return TP_ERR_UNKNOWN_PHASE;
  }
  return TP_OK;
}

tp_status tp__handler_check(const tp__registry *registry, const tp_handler *desc) {
  if (!tp__id_valid(desc->id)) return TP_ERR_BAD_ID;
  if (!desc->run == !desc->inbox) return TP_ERR_USAGE;
  if ((unsigned)desc->placement > TP_PLACEMENT_PARALLEL) return TP_ERR_USAGE;
  if (desc->inbox && (desc->placement > TP_PLACEMENT_THREAD || !tp__inbox_is_of(desc->inbox, registry)))
    return TP_ERR_USAGE;
  if ((desc->capabilities & ~(uint32_t)CAPABILITIES_KNOWN)) return TP_ERR_USAGE;
  if (!tp_utf8_valid(tp_text_of(desc->summary), NULL)) return TP_ERR_UTF8;
  return phases_check(registry, desc->phases, desc->phase_count);
}

static bool copy_desc(tp__handler *handler, const tp_handler *from, const tp_owner *owner) {
  tp__arena *arena = &handler->arena;
  tp_handler *desc = &handler->desc;
  *desc = *from;
  if (desc->contract_version == 0) desc->contract_version = 1;
  if (desc->placement == TP_PLACEMENT_DEFAULT) desc->placement = TP_PLACEMENT_THREAD;
  uint32_t *phases = tp__arena_alloc(arena, from->phase_count * sizeof *phases);
  if (!phases) return false;
  if (from->phase_count > 0) memcpy(phases, from->phases, from->phase_count * sizeof *phases);
  desc->phases = phases;
  return tp__arena_string(arena, from->id, &desc->id) && tp__arena_string(arena, from->summary, &desc->summary) &&
         tp__arena_string(arena, owner->name, &handler->owner);
}

static void handler_free(tp__handler *handler) {
  tp__arena_fini(&handler->arena);
  tp__release(handler->allocator, TP__CONTAINER(handler, handler_block, handler), sizeof(handler_block));
}

tp_status tp__handler_new(const tp_allocator *allocator, const tp_handler *desc, const tp_owner *owner,
                          tp__handler **ret_handler) {
  handler_block *block = tp__alloc_zero(allocator, sizeof *block);
  if (!block) return TP_ERR_NO_MEMORY;
  tp__handler *handler = &block->handler;
  handler->allocator = allocator;
  handler->trust = owner->trust;
  handler->grants = owner->grants;
  tp__a32_store_relaxed(&handler->refs, 1);
  tp__arena_init(&handler->arena, allocator, block->first, sizeof block->first, 0);
  if (!copy_desc(handler, desc, owner)) {
    handler_free(handler);
    return TP_ERR_NO_MEMORY;
  }
  if (desc->inbox) tp__inbox_ref(desc->inbox);
  *ret_handler = handler;
  return TP_OK;
}

void tp__handler_ref(tp__handler *handler) { tp__a32_add_relaxed(&handler->refs, 1); }

void tp__handler_unref(tp__handler *handler) {
  if (!handler || tp__a32_sub_acq_rel(&handler->refs, 1) > 1) return;
  if (handler->desc.destroy) handler->desc.destroy(handler->desc.self);
  tp__inbox_unref(handler->desc.inbox);
  handler_free(handler);
}
