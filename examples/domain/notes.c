/* SPDX-License-Identifier: Apache-2.0
 *
 * notes.c: the smallest domain that is one: a library with three handlers, which a host loads by the one thing that it
 * exports, a tp_domain. Built as notes.so; see it with `turnphase plan --load`, measure it with `turnphase bench
 * --load`.
 *
 *   notes.guard    turn.intake              denies a turn that speaks of a secret; inline
 *   notes.look_up  turn.pre_prompt_context  asks a slow server, for which it waits 2 ms, and contributes its answer
 *   notes.count    turn.pre_prompt_context  after notes.look_up: says how much that contributed; inline */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "turnphase/turnphase.h"

enum { SERVER_NEEDS_NS = 2000000 };

static tp_answer guard(void *ctx, tp_call *call) {
  (void)ctx;
  tp_text text = tp_call_text(call, TP_FIELD_TEXT);
  if (text.size > 0 && memmem(text.data, text.size, "secret", 6)) return tp_call_deny(call, "secrets are not noted");
  return tp_call_allow(call);
}

static tp_answer look_up(void *ctx, tp_call *call) {
  (void)ctx;
  struct timespec left = {.tv_nsec = SERVER_NEEDS_NS};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
  if (tp_call_emit_prompt_context(call, "notes.server", "The cat is called Muri.", 10, NULL) != TP_OK)
    return tp_call_fail(call, 1, "what the server said was refused");
  return TP_ANSWER_DONE;
}

static tp_answer count(void *ctx, tp_call *call) {
  (void)ctx;
  char words[64];
  tp_dependency looked_up = {.struct_size = sizeof looked_up};
  if (!tp_call_dependency(call, 0, &looked_up)) return tp_call_fail(call, 2, "nothing was looked up");
  snprintf(words, sizeof words, "%u notes were found.", looked_up.contribution_count);
  if (tp_call_emit_prompt_context(call, "notes.count", words, 0, NULL) != TP_OK)
    return tp_call_fail(call, 1, "the count was refused");
  return TP_ANSWER_DONE;
}

static const uint32_t intake = TP_PHASE_TURN_INTAKE, context = TP_PHASE_TURN_PRE_PROMPT_CONTEXT;

static const tp_handler handlers[] = {
    {.struct_size = sizeof(tp_handler),
     .id = "notes.guard",
     .summary = "denies a turn that speaks of a secret",
     .run = guard,
     .phases = &intake,
     .phase_count = 1,
     .capabilities = TP_CAPABILITY_DECIDE,
     .placement = TP_PLACEMENT_INLINE},
    {.struct_size = sizeof(tp_handler),
     .id = "notes.look_up",
     .summary = "asks the server for what it knows",
     .run = look_up,
     .phases = &context,
     .phase_count = 1,
     .capabilities = TP_CAPABILITY_CONTRIBUTE_PROMPT_CONTEXT},
    {.struct_size = sizeof(tp_handler),
     .id = "notes.count",
     .summary = "says how much was found",
     .run = count,
     .phases = &context,
     .phase_count = 1,
     .capabilities = TP_CAPABILITY_CONTRIBUTE_PROMPT_CONTEXT,
     .placement = TP_PLACEMENT_INLINE},
};

static const tp_edge to_look_up = {.struct_size = sizeof to_look_up, .target = "notes.look_up"};
static const tp_edge *const after_look_up[] = {&to_look_up};

static const tp_subscription subscriptions[] = {
    {.struct_size = sizeof(tp_subscription),
     .id = "notes.guard",
     .handler = "notes.guard",
     .phase = TP_PHASE_TURN_INTAKE,
     .failure = TP_FAILURE_REQUIRED},
    {.struct_size = sizeof(tp_subscription),
     .id = "notes.look_up",
     .handler = "notes.look_up",
     .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT},
    {.struct_size = sizeof(tp_subscription),
     .id = "notes.count",
     .handler = "notes.count",
     .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT,
     .after = after_look_up,
     .after_count = 1},
};

static tp_status register_notes(const tp_domain_context *with, tp_fault *fault) {
  tp_status status = TP_OK;
  for (size_t i = 0; status == TP_OK && i < 3; i++) status = tp_edit_add_handler(with->edit, &handlers[i], fault);
  for (size_t i = 0; status == TP_OK && i < 3; i++)
    status = tp_edit_add_subscription(with->edit, &subscriptions[i], fault);
  return status;
}

TP_API const tp_domain tp_domain_export = {.struct_size = sizeof(tp_domain),
                                           .header_version = TP_VERSION_NUMBER,
                                           .name = "notes",
                                           .version = "1.0",
                                           .register_with = register_notes};
