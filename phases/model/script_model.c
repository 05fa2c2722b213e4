/* SPDX-License-Identifier: Apache-2.0
 *
 * script_model.c: a list of responses, one per request, so that demos and tests need no network. */
#include "phases/model/messages.h"
#include "phases/model/model.h"
#include "runtime/os/os.h"

typedef struct script {
  tp_model model;         /* the host's model; it is freed with the script */
  tp_allocator allocator; /* the C library's, because a script has no runtime */
  tp__arena arena;
  tp_model_response *responses; /* never change */
  size_t count;
  bool repeat;
  tp__a64 next; /* of all sessions that use it */
} script;

static void start_script(void *ctx, const tp_model_request *request, tp_token token) {
  script *s = ctx;
  (void)request;
  uint64_t n = tp__a64_add_acq_rel(&s->next, 1);
  if (s->repeat && s->count > 0) n %= s->count;
  /* If the token was abandoned meanwhile, it is stale, and this answer is no longer wanted. */
  if (n < s->count) (void)tp_model_complete(token, &s->responses[n], NULL);
  else (void)tp_model_fail(token, TP_ERR_MODEL, "the script has no more responses", false, NULL);
}

static void destroy_script(void *ctx) {
  script *s = ctx;
  tp_allocator allocator = s->allocator;
  tp__arena_fini(&s->arena);
  tp__release(&allocator, s, sizeof *s);
}

static bool copy_response(tp__arena *arena, const tp_model_response *in, tp_model_response *out) {
  *out = *in;
  if (!tp__arena_text(arena, in->text, &out->text) || !tp__calls_copy(arena, in->calls, in->call_count, &out->calls) ||
      !tp__arena_text(arena, in->stop_reason, &out->stop_reason) ||
      !tp__arena_text(arena, in->provider_data, &out->provider_data) ||
      !tp__arena_text(arena, in->finish_word, &out->finish_word))
    return false;
  bool has_finish = in->finish != TP_FINISH_UNKNOWN || in->stop_reason.size > 0;
  if (!has_finish) out->stop_reason = tp_text_of(out->call_count > 0 ? "tool_use" : "end_turn");
  return true;
}

static tp_status copy_responses(script *s, const tp_model_response *const *responses, tp_fault *fault) {
  for (size_t i = 0; i < s->count; i++) {
    tp_model_response response;
    TP__TRY(tp__response_read(responses[i], &response, fault));
    if (!copy_response(&s->arena, &response, &s->responses[i]))
      return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the script");
  }
  return TP_OK;
}

tp_status tp_script_model_new(const tp_model_response *const *responses, size_t count, bool repeat,
                              tp_model **ret_model, tp_fault *fault) {
  if (count > 0 && !responses)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "%zu responses are announced, and the list is NULL", count);
  tp_allocator allocator = tp__allocator_of(NULL);
  script *s = tp__alloc_zero(&allocator, sizeof *s);
  if (!s) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the script");
  s->allocator = allocator;
  s->count = count;
  s->repeat = repeat;
  tp__arena_init(&s->arena, &s->allocator, NULL, 0, 0);
  s->responses = tp__arena_zero(&s->arena, (count ? count : 1) * sizeof *s->responses);
  tp_status status = s->responses ? copy_responses(s, responses, fault)
                                  : tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the script");
  if (status != TP_OK) {
    destroy_script(s);
    return status;
  }
  s->model = (tp_model){.struct_size = sizeof s->model,
                        .name = "script",
                        .ctx = s,
                        .start = start_script,
                        .destroy = destroy_script,
                        .placement = TP_PLACEMENT_INLINE};
  *ret_model = &s->model;
  return TP_OK;
}
