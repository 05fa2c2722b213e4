/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/turn/result.h"

enum { TEXT_BYTES = 512 }; /* The space for short texts after a result. */

void tp__result_init(tp__result *result, const tp_allocator *allocator) {
  *result = (tp__result){.shown = {.struct_size = sizeof result->shown}, .allocator = *allocator};
  tp__arena_init(&result->arena, &result->allocator, NULL, 0, 0);
}

void tp__result_fini(tp__result *result) { tp__arena_fini(&result->arena); }

tp__result *tp__result_new(const tp_allocator *allocator) {
  tp__result *result = tp__alloc(allocator, sizeof *result + TEXT_BYTES);
  if (!result) return NULL;
  tp__result_init(result, allocator);
  tp__arena_init(&result->arena, &result->allocator, result + 1, TEXT_BYTES, 0);
  return result;
}

void tp__result_fill(tp__result *result, const tp_turn_result *ended) {
  tp_turn_result *shown = &result->shown;
  tp__arena *arena = &result->arena;
  *shown = *ended;
  if (tp__arena_text(arena, ended->text, &shown->text) && tp__arena_text(arena, ended->reason, &shown->reason) &&
      tp__arena_text(arena, ended->turn_id, &shown->turn_id) &&
      tp__arena_text(arena, ended->subscription, &shown->subscription) &&
      tp__arena_text(arena, ended->bare_reason, &shown->bare_reason) &&
      tp__arena_text(arena, ended->finish_word, &shown->finish_word) &&
      tp__arena_text(arena, ended->value, &shown->value))
    return;
  shown->value = shown->text = shown->reason = shown->turn_id = shown->subscription = shown->bare_reason =
      shown->finish_word = (tp_text){NULL, 0};
}

void tp_turn_result_free(const tp_turn_result *shown) {
  if (!shown) return;
  tp__result *result = TP__CONTAINER((tp_turn_result *)(uintptr_t)shown, tp__result, shown);
  tp_allocator allocator = result->allocator;
  tp__result_fini(result);
  tp__release(&allocator, result, sizeof *result + TEXT_BYTES);
}
