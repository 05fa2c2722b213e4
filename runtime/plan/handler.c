/* SPDX-License-Identifier: Apache-2.0
 *
 * handler.c: a registered handler: a counted copy of its descriptor. */
#include <stdio.h>

#include "runtime/inbox/destroy.h"
#include "runtime/plan/registry.h"
#include "turnphase/value.h"

enum { FIRST_BYTES = 192 /* Enough for the strings of most handlers, so that one allocation holds all. */ };
#define CAPABILITIES_KNOWN (((1u << TP_CONTRIBUTION_COUNT) - 2) | TP_CAPABILITY_DECIDE | TP_CAPABILITY_REPLACE_PAYLOAD)

typedef struct handler_block {
  tp__handler handler;
  _Alignas(8) char first[FIRST_BYTES];
} handler_block;

#define REFUSE(desc, code, ...) tp__refuse_desc(fault, (code), "handler", (desc)->id, __VA_ARGS__)

tp_status tp__refuse_desc(tp_fault *fault, tp_status code, const char *noun, const char *id, const char *format, ...) {
  char what[TP_FAULT_MESSAGE_SIZE];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return tp__fail(fault, code, id, "%s `%s`: %s", noun, id, what);
}

static tp_status origin_check(const tp_handler *desc, const tp_owner *owner, tp_fault *fault) {
  if ((unsigned)desc->kind > TP_HANDLER_BUILTIN)
    return REFUSE(desc, TP_ERR_USAGE, "kind is %d, which this library does not know: 0 to %d", (int)desc->kind,
                  TP_HANDLER_BUILTIN);
  if (desc->kind == TP_HANDLER_BUILTIN && owner->trust != TP_TRUST_BUILTIN)
    return REFUSE(desc, TP_ERR_USAGE, "kind is builtin, but owner `%s` has trust %s: only trust builtin may say so",
                  owner->name, tp_trust_name(owner->trust));
  if (!tp_utf8_valid(tp_text_of(desc->origin_file), NULL)) return REFUSE(desc, TP_ERR_UTF8, "origin_file is not UTF-8");
  if (desc->origin_line != 0 && !desc->origin_file)
    return REFUSE(desc, TP_ERR_USAGE, "origin_line is %u, but origin_file is NULL", desc->origin_line);
  return TP_OK;
}

tp_status tp__handler_check(const tp__registry *registry, const tp_handler *desc, const tp_owner *owner,
                            tp_fault *fault) {
  TP__TRY(tp__id_check(desc->id, "tp_handler.id", fault));
  for (size_t i = 0; i < sizeof desc->reserved_; i++)
    if (desc->reserved_[i])
      return REFUSE(desc, TP_ERR_USAGE, "tp_handler.reserved_[%zu] is %u: zero-fill the struct", i, desc->reserved_[i]);
  if (!desc->run && !desc->inbox)
    return REFUSE(desc, TP_ERR_USAGE, "run is NULL: a handler needs a function, or an inbox");
  if (desc->run && desc->inbox) return REFUSE(desc, TP_ERR_USAGE, "run and inbox are set: set one of the two");
  if ((unsigned)desc->placement > TP_PLACEMENT_PARALLEL)
    return REFUSE(desc, TP_ERR_USAGE, "placement is %d, which this library does not know: 0 to %d",
                  (int)desc->placement, TP_PLACEMENT_PARALLEL);
  if (desc->inbox && desc->placement > TP_PLACEMENT_THREAD)
    return REFUSE(desc, TP_ERR_USAGE, "placement %s and inbox are set, and a call through an inbox waits for its host",
                  tp_placement_name(desc->placement));
  if (desc->inbox && !tp__inbox_is_of(desc->inbox, registry))
    return REFUSE(desc, TP_ERR_USAGE, "its inbox is of another runtime");
  if (desc->capabilities & ~CAPABILITIES_KNOWN)
    return REFUSE(desc, TP_ERR_USAGE, "capabilities holds the bits 0x%llx, which are none of TP_CAPABILITY_*",
                  (unsigned long long)(desc->capabilities & ~CAPABILITIES_KNOWN));
  if (!tp_utf8_valid(tp_text_of(desc->summary), NULL)) return REFUSE(desc, TP_ERR_UTF8, "summary is not UTF-8");
  TP__TRY(origin_check(desc, owner, fault));
  if (desc->phase_count > TP_PHASE_LIMIT)
    return REFUSE(desc, TP_ERR_USAGE, "phase_count is %zu: at most %d", desc->phase_count, TP_PHASE_LIMIT);
  if (desc->phase_count > 0 && !desc->phases)
    return REFUSE(desc, TP_ERR_USAGE, "phase_count is %zu, but phases is NULL", desc->phase_count);
  for (size_t i = 0; i < desc->phase_count; i++) {
    if (tp__registry_phase(registry, desc->phases[i])) continue;
    return REFUSE(desc, TP_ERR_UNKNOWN_PHASE, "phases[%zu] is %u, and there is no such phase", i, desc->phases[i]);
  }
  return TP_OK;
}

static bool copy_desc(tp__handler *handler, const tp_handler *from, const tp_owner *owner) {
  tp__arena *arena = &handler->arena;
  tp_handler *desc = &handler->desc;
  *desc = *from;
  if (desc->contract_version == 0) desc->contract_version = 1;
  if (desc->placement == TP_PLACEMENT_DEFAULT) desc->placement = TP_PLACEMENT_THREAD;
  if (desc->kind == TP_HANDLER_DEFAULT) desc->kind = TP_HANDLER_NATIVE;
  uint32_t *phases = tp__arena_alloc(arena, from->phase_count * sizeof *phases);
  if (!phases) return false;
  if (from->phase_count > 0) memcpy(phases, from->phases, from->phase_count * sizeof *phases);
  desc->phases = phases;
  return tp__arena_string(arena, from->id, &desc->id) && tp__arena_string(arena, from->summary, &desc->summary) &&
         tp__arena_string(arena, from->origin_file, &desc->origin_file) &&
         tp__arena_string(arena, owner->name, &handler->owner);
}

static void handler_free(tp__handler *handler) {
  tp__arena_fini(&handler->arena);
  tp__release(handler->allocator, TP__CONTAINER(handler, handler_block, handler), sizeof(handler_block));
}

tp_status tp__handler_new(const tp_allocator *allocator, const void *inside_of, const tp_handler *desc,
                          const tp_owner *owner, tp__handler **ret_handler) {
  handler_block *block = tp__alloc_zero(allocator, sizeof *block);
  if (!block) return TP_ERR_NO_MEMORY;
  tp__handler *handler = &block->handler;
  handler->allocator = allocator;
  handler->inside_of = inside_of;
  handler->trust = owner->trust;
  handler->grants = owner->grants;
  tp__a32_store_relaxed(&handler->refs, 1);
  tp__arena_init(&handler->arena, allocator, block->first, sizeof block->first, 0);
  if (!copy_desc(handler, desc, owner)) {
    handler_free(handler);
    return TP_ERR_NO_MEMORY;
  }
  if (desc->inbox && desc->destroy && !tp__inbox_is_of_session(desc->inbox)) {
    handler->destroys = tp__destroy_new(allocator, inside_of, desc->inbox, desc->ctx, desc->destroy);
    if (!handler->destroys) {
      handler_free(handler);
      return TP_ERR_NO_MEMORY;
    }
  }
  tp__inbox_ref(desc->inbox);
  *ret_handler = handler;
  return TP_OK;
}

void tp__handler_ref(tp__handler *handler) { tp__a32_add_relaxed(&handler->refs, 1); }

void tp__handler_unref(tp__handler *handler) {
  if (!handler || tp__a32_sub_acq_rel(&handler->refs, 1) > 1) return;
  if (!handler->desc.destroy) {
    tp__destroy_cancel(handler->destroys);
  } else if (handler->destroys) {
    tp__destroy_now(handler->destroys);
  } else {
    tp__inside frame;
    tp__inside_enter(&frame, handler->inside_of, TP__INSIDE_CALLBACK);
    handler->desc.destroy(handler->desc.ctx);
    tp__inside_leave(&frame);
  }
  tp__inbox_unref(handler->desc.inbox);
  handler_free(handler);
}
