/* SPDX-License-Identifier: Apache-2.0
 *
 * domain.c: a library that the command loads in tests. The environment variable TURNPHASE_TEST_DOMAIN says which of its
 * domains it registers, so that each kind of refusal and each way of ending needs no library of its own:
 *
 *   endings    one handler for each way of ending
 *   payload handlers that deny unless they get the payload of the test
 *   hangs      a handler that never answers, with a limit of a minute
 *   required   a required handler that fails, so that its phase fails
 *   flaky      denies every third time
 *   spins runs for as many nanoseconds as the text of the turn says
 *   stalls     takes 100 ms each 500th time
 *   together waits until it was called four times at once
 *   refuses    says why it does not register anything;  refuses_silently  does not say why
 *   ledger     a background job, which writes a line to the file TURNPHASE_LEDGER and takes TURNPHASE_LEDGER_MS, and
 *              the tool `book`, which is not idempotent and writes its argument to the file TURNPHASE_BOOK
 *   ledger_fails  the same, and it fails for good
 *   tools      the tools shell, deploy, Bash and Write; the last writes a file
 *   cycle      subscriptions after each other;  missing  one of a handler that is not there */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "turnphase/turnphase.h"

static tp_answer done(void *ctx, tp_call *call) {
  (void)call;
  (void)ctx;
  return TP_ANSWER_DONE;
}

static tp_answer fails(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_fail(call, 7, "it always does");
}

static tp_answer fails_once(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_attempt(call) == 1 ? tp_call_fail_retryable(call, 1, "at first") : TP_ANSWER_DONE;
}

/* The token is lost: its limit ends it. */
static tp_answer never_answers(void *ctx, tp_call *call) {
  (void)ctx;
  tp_token token;
  return tp_call_defer(call, NULL, &token);
}

static tp_answer wants_call(void *ctx, tp_call *call) {
  (void)ctx;
  tp_text arguments = tp_call_text(call, TP_FIELD_ARGUMENTS);
  bool given = tp_text_is(tp_call_text(call, TP_FIELD_TOOL), "hammer") && !tp_call_has(call, TP_FIELD_TASK_KEY) &&
               tp_value_int(tp_value_get(arguments, "blows"), 0) == 3;
  return given ? tp_call_allow(call) : tp_call_deny(call, "no hammer");
}

static tp_answer wants_number(void *ctx, tp_call *call) {
  (void)ctx;
  if (tp_call_int(call, TP_FIELD_CLOSED) == 1 && !tp_call_has(call, TP_FIELD_TOOL)) return TP_ANSWER_DONE;
  return tp_call_fail(call, 1, "not closed");
}

/* One thread calls the inline handlers of the only turn that runs, so no lock is needed. */
static tp_answer denies_every_third(void *ctx, tp_call *call) {
  static unsigned calls;
  (void)ctx;
  return ++calls % 3 == 0 ? tp_call_deny(call, "every third") : TP_ANSWER_DONE;
}

/* Computes for as many nanoseconds as the text says. */
static tp_answer spins(void *ctx, tp_call *call) {
  (void)ctx;
  tp_text text = tp_call_text(call, TP_FIELD_TEXT);
  char digits[16] = "";
  struct timespec began, now;
  memcpy(digits, text.data, text.size < 15 ? text.size : 15);
  long long left_ns = atoll(digits);
  clock_gettime(CLOCK_MONOTONIC, &began);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - began.tv_sec) * 1000000000LL + now.tv_nsec - began.tv_nsec < left_ns);
  return TP_ANSWER_DONE;
}

enum { STALL_EACH = 500, STALL_MS = 100 };

/* Each 500th call lasts 100 ms. */
static tp_answer stalls(void *ctx, tp_call *call) {
  static atomic_uint calls;
  const struct timespec stall = {.tv_nsec = STALL_MS * 1000000L};
  (void)call;
  (void)ctx;
  if (++calls % STALL_EACH == 0) nanosleep(&stall, NULL);
  return TP_ANSWER_DONE;
}

enum { TOGETHER = 4, TOGETHER_LIMIT_MS = 60000 };
static pthread_barrier_t together; /* made before the handler is registered */

static tp_answer waits_for_others(void *ctx, tp_call *call) {
  (void)call;
  (void)ctx;
  pthread_barrier_wait(&together);
  return TP_ANSWER_DONE;
}

static tp_answer writes_ledger(void *ctx, tp_call *call) {
  const char *path = getenv("TURNPHASE_LEDGER"), *ms = getenv("TURNPHASE_LEDGER_MS");
  long time = ms ? atol(ms) : 0;
  struct timespec work = {time / 1000, time % 1000 * 1000000};
  FILE *file = fopen(path ? path : "/dev/null", "a");
  (void)ctx;
  if (!file) return tp_call_fail(call, 1, "the ledger cannot be written");
  fprintf(file, "%llu %u\n", (unsigned long long)tp_call_job_id(call), tp_call_attempt(call));
  fclose(file);
  nanosleep(&work, NULL);
  return TP_ANSWER_DONE;
}

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("it ran"));
}

/* {"file_path": …, "content": …} */
static tp_answer write_file(void *ctx, tp_tool_run *run) {
  (void)ctx;
  tp_text arguments = tp_tool_run_arguments(run);
  tp_text path = tp_value_text(tp_value_get(arguments, "file_path"));
  tp_text content = tp_value_text(tp_value_get(arguments, "content"));
  char name[512];
  snprintf(name, sizeof name, "%.*s", (int)path.size, path.size ? path.data : "");
  FILE *file = fopen(name, "w");
  if (!file) return tp_tool_error(run, tp_text_of("the file cannot be written"));
  fwrite(content.data, 1, content.size, file);
  fclose(file);
  return tp_tool_ok(run, tp_text_of("written"));
}

/* {"line": …}, in one piece. */
static tp_answer write_book(void *ctx, tp_tool_run *run) {
  char line[256];
  const char *path = getenv("TURNPHASE_BOOK");
  tp_text text = tp_value_text(tp_value_get(tp_tool_run_arguments(run), "line"));
  FILE *file = fopen(path ? path : "/dev/null", "a");
  (void)ctx;
  if (!file) return tp_tool_error(run, tp_text_of("the book cannot be written"));
  snprintf(line, sizeof line, "%.*s\n", (int)text.size, text.size ? text.data : "");
  fputs(line, file);
  fclose(file);
  return tp_tool_ok(run, tp_text_of("booked"));
}

static const tp_tool book = {
    .struct_size = sizeof(tp_tool), .name = "book", .description = "writes a line", .run = write_book};

static tp_answer contributes_book(void *ctx, tp_call *call) {
  const tp_tool *list[] = {&book};
  (void)ctx;
  return tp_call_emit_tool_bundle(call, "book", list, 1, NULL) == TP_OK ? TP_ANSWER_DONE
                                                                        : tp_call_fail(call, 1, "no tools");
}

static const tp_tool tools[] = {
    {.struct_size = sizeof(tp_tool), .name = "shell", .description = "runs nothing", .run = run_tool},
    {.struct_size = sizeof(tp_tool), .name = "deploy", .description = "deploys nothing", .run = run_tool},
    {.struct_size = sizeof(tp_tool), .name = "Bash", .description = "runs nothing", .run = run_tool},
    {.struct_size = sizeof(tp_tool), .name = "Write", .description = "writes a file", .run = write_file},
};

static tp_answer contributes_tools(void *ctx, tp_call *call) {
  const tp_tool *list[] = {&tools[0], &tools[1], &tools[2], &tools[3]};
  (void)ctx;
  return tp_call_emit_tool_bundle(call, "test", list, 4, NULL) == TP_OK ? TP_ANSWER_DONE
                                                                        : tp_call_fail(call, 1, "no tools");
}

static int32_t matches_nothing(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_NO;
}

/* ---- registering ---- */

/** A handler and its subscription: the members in which the domains differ. */
typedef struct row {
  const char *domain, *id;
  tp_handler_fn run;
  uint32_t phase;
  tp_execution execution;
  tp_failure failure;
  uint32_t limit_ms, attempts;
  const char *after;
  bool matched;
} row;

static const tp_contribution instead = {.struct_size = sizeof(tp_contribution),
                                        .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                        .key = {"instead", 7},
                                        .text = {"nothing", 7},
                                        .weight = 1};

static const row rows[] = {
    {.domain = "endings", .id = "t.done", .run = done, .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT},
    {.domain = "endings", .id = "t.fails", .run = fails, .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT},
    {.domain = "endings",
     .id = "t.instead",
     .run = fails,
     .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT,
     .failure = TP_FAILURE_FALLBACK},
    {.domain = "endings", .id = "t.again", .run = fails_once, .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, .attempts = 2},
    {.domain = "hangs",
     .id = "t.hangs",
     .run = never_answers,
     .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT,
     .limit_ms = 60000},
    {.domain = "endings",
     .id = "t.never",
     .run = never_answers,
     .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT,
     .execution = TP_EXECUTION_DEADLINE,
     .limit_ms = 1},
    {.domain = "endings", .id = "t.skipped", .run = done, .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, .matched = true},
    {.domain = "endings",
     .id = "t.behind",
     .run = done,
     .phase = TP_PHASE_TURN_POST_TURN,
     .execution = TP_EXECUTION_FIRE_AND_RECORD},
    {.domain = "payload", .id = "t.call", .run = wants_call, .phase = TP_PHASE_TOOL_PRE},
    {.domain = "payload", .id = "t.closed", .run = wants_number, .phase = TP_PHASE_SESSION_END},
    {.domain = "required", .id = "t.must", .run = fails, .phase = TP_PHASE_TURN_PRE_POLICY},
    {.domain = "flaky", .id = "t.third", .run = denies_every_third, .phase = TP_PHASE_TURN_INTAKE},
    {.domain = "spins", .id = "t.spins", .run = spins, .phase = TP_PHASE_TURN_INTAKE},
    {.domain = "stalls", .id = "t.stalls", .run = stalls, .phase = TP_PHASE_TURN_INTAKE},
    {.domain = "together",
     .id = "t.together",
     .run = waits_for_others,
     .phase = TP_PHASE_MODEL_PRE,
     .limit_ms = TOGETHER_LIMIT_MS},
    {.domain = "ledger",
     .id = "t.ledger",
     .run = writes_ledger,
     .phase = TP_PHASE_TURN_POST_TURN,
     .execution = TP_EXECUTION_BACKGROUND,
     .attempts = 1000},
    {.domain = "ledger", .id = "t.book", .run = contributes_book, .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION},
    {.domain = "ledger_fails",
     .id = "t.ledger",
     .run = fails,
     .phase = TP_PHASE_TURN_POST_TURN,
     .execution = TP_EXECUTION_BACKGROUND,
     .attempts = 2},
    {.domain = "tools", .id = "t.tools", .run = contributes_tools, .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION},
    {.domain = "cycle", .id = "t.a", .run = done, .phase = TP_PHASE_MODEL_PRE, .after = "t.b"},
    {.domain = "cycle", .id = "t.b", .run = done, .phase = TP_PHASE_MODEL_PRE, .after = "t.a"},
    {.domain = "missing", .id = "t.nothing", .phase = TP_PHASE_MODEL_PRE},
};

static tp_status add_handler(tp_edit *edit, const row *r, tp_fault *fault) {
  tp_handler handler = {
      .struct_size = sizeof handler,
      .id = r->id,
      .run = r->run,
      .phases = &r->phase,
      .phase_count = 1,
      .idempotent = true,
      .placement = r->run == waits_for_others || r->run == writes_ledger ? TP_PLACEMENT_THREAD : TP_PLACEMENT_INLINE};
  if (r->run == wants_call || r->run == denies_every_third) handler.capabilities = TP_CAPABILITY_DECIDE;
  if (r->run == contributes_tools || r->run == contributes_book)
    handler.capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE;
  if (r->failure == TP_FAILURE_FALLBACK) handler.capabilities = TP_CAPABILITY_CONTRIBUTE_PROMPT_CONTEXT;
  return tp_edit_add_handler(edit, &handler, fault);
}

static tp_status add_subscription(tp_edit *edit, const row *r, tp_fault *fault) {
  const tp_edge edge = {.struct_size = sizeof edge, .target = r->after};
  const tp_edge *const after[] = {&edge};
  const tp_contribution *const fallback[] = {&instead};
  const tp_match never = {.struct_size = sizeof never, .matches = matches_nothing, .description = "nothing"};
  tp_subscription subscription = {.struct_size = sizeof subscription,
                                  .id = r->id,
                                  .handler = r->id,
                                  .phase = r->phase,
                                  .execution = r->execution,
                                  .failure = r->failure,
                                  .limit_ms = r->limit_ms,
                                  .attempts = r->attempts,
                                  .after = after,
                                  .after_count = r->after ? 1 : 0};
  if (r->failure == TP_FAILURE_FALLBACK) {
    subscription.fallback = fallback;
    subscription.fallback_count = 1;
  }
  if (r->matched) subscription.match = &never;
  return tp_edit_add_subscription(edit, &subscription, fault);
}

static tp_status add_domain(tp_edit *edit, const char *domain, tp_fault *fault) {
  tp_status status = TP_OK;
  for (size_t i = 0; status == TP_OK && i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(rows[i].domain, domain) != 0) continue;
    if (rows[i].run) status = add_handler(edit, &rows[i], fault);
    if (status == TP_OK) status = add_subscription(edit, &rows[i], fault);
  }
  return status;
}

static tp_status register_test(const tp_domain_context *context, tp_fault *fault) {
  const char *domain = getenv("TURNPHASE_TEST_DOMAIN");
  if (!domain) return TP_ERR_USAGE;
  if (strcmp(domain, "refuses_silently") == 0) return TP_ERR_USAGE;
  if (strcmp(domain, "refuses") == 0) {
    *fault = (tp_fault){.code = TP_ERR_USAGE};
    snprintf(fault->message, sizeof fault->message, "its licence has run out");
    return TP_ERR_USAGE;
  }
  if (strcmp(domain, "together") == 0) pthread_barrier_init(&together, NULL, TOGETHER);
  return add_domain(context->edit, domain, fault);
}

TP_API const tp_domain tp_domain_export = {.struct_size = sizeof(tp_domain),
                                           .header_version = TP_VERSION_NUMBER,
                                           .name = "test",
                                           .version = "1.0",
                                           .register_with = register_test};
