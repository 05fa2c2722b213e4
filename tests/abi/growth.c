/* SPDX-License-Identifier: Apache-2.0
 *
 * growth.c: uses each struct that may grow. It is built twice: with the public headers, and with headers in which each
 * such struct has one more field (GROWN). Each build runs with a library of both kinds, and gets right results or a
 * clear refusal, never a crash. Every struct is made as careless programs make it, with 0xee in all bytes that are no
 * field (fill_tp_x(), written by tests/abi.py).
 *
 *   growth FOLDER old|new      the library that must have been loaded: where it is, and which kind it is */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include FILL

#ifdef GROWN
enum { PROGRAM_IS_NEW = 1 };
#else
enum { PROGRAM_IS_NEW = 0 };
#endif
enum { FIELD_SIZE = 8, GUARD_SIZE = 64, GUARD = 0xee };

static bool library_is_new;
static int failures, checks;

static void check(bool truth, const char *what, int line) {
  checks++;
  if (truth) return;
  failures++;
  printf("growth.c:%d: not so: %s\n", line, what);
}
#define CHECK(condition) check(condition, #condition, __LINE__)

static tp_fault fault;
static void check_ok(tp_status status, const char *what, int line) {
  check(status == TP_OK, what, line);
  if (status != TP_OK) printf("  %s: %s\n", tp_status_name(status), fault.message);
}
#define OK(call) check_ok(call, #call, __LINE__)

/* A struct of the program's, all of it as it should be. */
#define MAKE(type, name) \
  type name;             \
  fill_##type(&name)

/* A struct that the library fills, and what must stay as it was after it. */
#define MAKE_GUARDED(type, name)         \
  struct {                               \
    type it;                             \
    unsigned char guard[GUARD_SIZE];     \
  } name;                                \
  memset(name.guard, GUARD, GUARD_SIZE); \
  fill_##type(&name.it)

static bool guard_is_whole(const unsigned char *guard) {
  for (int i = 0; i < GUARD_SIZE; i++) {
    if (guard[i] != GUARD) return false;
  }
  return true;
}

/* A struct that the library made has the library's size. */
#define SHOWN(type, pointer) \
  CHECK((pointer)->struct_size == sizeof(type) + GROWS_##type * FIELD_SIZE * ((size_t)library_is_new - PROGRAM_IS_NEW))

/* The new field is used: an older library must refuse it with a reason; a newer one accepts it. */
#define REFUSED_WHEN_USED(type, pointer, call)                                        \
  do {                                                                                \
    if (!GROWS_##type || !PROGRAM_IS_NEW || library_is_new) break;                    \
    set_grown_##type(pointer, 1);                                                     \
    memset(&fault, GUARD, sizeof fault);                                              \
    CHECK((call) == TP_ERR_VERSION);                                                  \
    CHECK(memchr(fault.message, '\0', sizeof fault.message));                         \
    CHECK(strstr(fault.message, #type) && strstr(fault.message, "library is older")); \
    set_grown_##type(pointer, 0);                                                     \
  } while (0)

static tp_text text_of(const char *words) { return (tp_text){words, strlen(words)}; }
static bool text_is(tp_text text, const char *words) {
  return text.size == strlen(words) && memcmp(text.data, words, text.size) == 0;
}

/* ---- what the host is called with ---- */

static const tp_text empty_map = {"\x80", 1};
static int destroyed, events, turn_ends;

static void count_destroy(void *ctx) {
  (void)ctx;
  destroyed++;
}

static tp_answer guard(void *ctx, tp_call *call) {
  (void)ctx;
  return text_is(tp_call_text(call, TP_FIELD_TEXT), "secret") ? tp_call_deny(call, "no secrets") : tp_call_allow(call);
}

static int32_t match_always(void *ctx, const tp_match_view *view) {
  (void)ctx;
  CHECK(tp_match_text(view, TP_FIELD_TEXT).size > 0);
  return TP_MATCH_YES;
}

static tp_answer give_context(void *ctx, tp_call *call) {
  (void)ctx;
  MAKE(tp_contribution, c);
  c.kind = TP_CONTRIBUTION_PROMPT_CONTEXT;
  c.key = text_of("weather");
  c.text = text_of("It rains.");
  OK(tp_call_emit(call, &c, NULL));
  return TP_ANSWER_DONE;
}

static tp_answer see_dependency(void *ctx, tp_call *call) {
  (void)ctx;
  CHECK(tp_call_dependency_count(call) == 1);
  MAKE_GUARDED(tp_dependency, dependency);
  CHECK(tp_call_dependency(call, 0, &dependency.it) && dependency.it.succeeded);
  CHECK(dependency.it.contribution_count == 1 && guard_is_whole(dependency.guard));
  const tp_contribution *seen = tp_call_dependency_contribution(call, 0, 0);
  SHOWN(tp_contribution, seen);
  CHECK(text_is(seen->text, "It rains."));
  return TP_ANSWER_DONE;
}

static tp_answer see_nothing(void *ctx, tp_call *call) {
  (void)ctx;
  CHECK(text_is(tp_call_text(call, TP_FIELD_TEXT), "hello"));
  return TP_ANSWER_DONE;
}

static tp_answer tool_runs(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, text_of("sunny"));
}

static tp_answer give_tools(void *ctx, tp_call *call) {
  (void)ctx;
  MAKE(tp_tool, first);
  MAKE(tp_tool, second);
  first.name = "weather";
  second.name = "clock";
  first.run = second.run = tool_runs;
  const tp_tool *const tools[] = {&first, &second};
  OK(tp_call_emit_tool_bundle(call, "b", tools, 2, NULL));
  return TP_ANSWER_DONE;
}

static void on_event(void *ctx, const tp_event *event) {
  (void)ctx;
  events++;
  SHOWN(tp_event, event);
  CHECK(event->sequence > 0);
}

/* ---- registration ---- */

static tp_runtime *open_runtime(void) {
  static const uint32_t fields[] = {TP_FIELD_TEXT};
  MAKE(tp_phase, row);
  row.name = "test.phase";
  row.mode = TP_MODE_GATHER;
  row.fields = fields;
  row.field_count = 1;
  MAKE(tp_runtime_options, options);
  tp_runtime *runtime = NULL;
  options.engine_workers = 1;
  const tp_phase *const rows[] = {&row};
  options.phases = rows;
  options.phase_count = 1;
  REFUSED_WHEN_USED(tp_runtime_options, &options, tp_runtime_new(&options, &runtime, &fault));
  OK(tp_runtime_new(&options, &runtime, &fault));
  return runtime;
}

static void add_handler(tp_edit *edit, const char *id, tp_handler_fn run, uint32_t phase) {
  MAKE(tp_handler, handler);
  handler.id = id;
  handler.run = run;
  handler.phases = &phase;
  handler.phase_count = 1;
  handler.destroy = count_destroy;
  handler.placement = TP_PLACEMENT_INLINE;
  handler.capabilities = TP_CAPABILITY_CONTRIBUTE_PROMPT_CONTEXT | TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE;
  if (run == guard) handler.capabilities = TP_CAPABILITY_DECIDE;
  REFUSED_WHEN_USED(tp_handler, &handler, tp_edit_add_handler(edit, &handler, &fault));
  OK(tp_edit_add_handler(edit, &handler, &fault));
}

static void subscribe(tp_edit *edit, const char *id, uint32_t phase, const char *after, bool with_match) {
  static const uint32_t fields[] = {TP_FIELD_TEXT};
  MAKE(tp_subscription, subscription);
  subscription.id = id;
  subscription.handler = id;
  subscription.phase = phase;
  MAKE(tp_edge, edge);
  MAKE(tp_match, match);
  const tp_edge *const edges[] = {&edge};
  edge.target = after;
  if (after) subscription.after = edges;
  subscription.after_count = after != NULL;
  if (with_match) {
    match.matches = match_always;
    match.description = "always";
    match.fields = fields;
    match.field_count = 1;
    subscription.match = &match;
  }
  REFUSED_WHEN_USED(tp_subscription, &subscription, tp_edit_add_subscription(edit, &subscription, &fault));
  OK(tp_edit_add_subscription(edit, &subscription, &fault));
}

static void register_all(tp_runtime *runtime) {
  MAKE(tp_owner, owner);
  tp_edit *edit = NULL;
  owner.name = "house";
  owner.trust = TP_TRUST_BUILTIN;
  REFUSED_WHEN_USED(tp_owner, &owner, tp_edit_begin(runtime, &owner, &edit, &fault));
  OK(tp_edit_begin(runtime, &owner, &edit, &fault));
  add_handler(edit, "context", give_context, TP_PHASE_TURN_PRE_PROMPT_CONTEXT);
  add_handler(edit, "looks", see_dependency, TP_PHASE_TURN_PRE_PROMPT_CONTEXT);
  add_handler(edit, "tools", give_tools, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION);
  add_handler(edit, "guard", guard, TP_PHASE_TURN_INTAKE);
  subscribe(edit, "context", TP_PHASE_TURN_PRE_PROMPT_CONTEXT, NULL, true);
  subscribe(edit, "looks", TP_PHASE_TURN_PRE_PROMPT_CONTEXT, "context", false);
  subscribe(edit, "tools", TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL, false);
  subscribe(edit, "guard", TP_PHASE_TURN_INTAKE, NULL, false);
  MAKE_GUARDED(tp_commit_report, report);
  OK(tp_edit_commit(edit, &report.it, &fault));
  CHECK(report.it.handlers == 4 && report.it.subscriptions == 4);
  CHECK(guard_is_whole(report.guard));
  MAKE(tp_hook, hook);
  hook.phase = "test.phase";
  hook.run = see_nothing;
  REFUSED_WHEN_USED(tp_hook, &hook, tp_hook_add(runtime, &hook, &fault));
  OK(tp_hook_add(runtime, &hook, &fault));
}

/* ---- a phase of the host's, driven by the host ---- */

static void check_run(const tp_phase_result *result, uint32_t index, tp_state state) {
  const tp_run_record *run = tp_phase_result_run(result, index);
  CHECK(run && run->state == state);
}

static void run_tools(tp_turn *turn) {
  MAKE(tp_tool_call, first);
  MAKE(tp_tool_call, second);
  MAKE(tp_tool_call, third);
  const tp_tool_call *const calls[] = {&first, &second, &third};
  const tp_tool_result *const *results = NULL;
  first.name = text_of("weather");
  second.name = text_of("nothing");
  third.name = text_of("clock");
  third.id = text_of("3");
  first.arguments = second.arguments = third.arguments = empty_map;
  OK(tp_tools_run(turn, calls, 3, &results, &fault));
  CHECK(results[0]->kind == TP_TOOL_OK && text_is(results[0]->text, "sunny"));
  CHECK(results[1]->kind == TP_TOOL_UNKNOWN_TOOL);
  CHECK(results[2]->kind == TP_TOOL_OK && text_is(results[2]->call_id, "3"));
}

static void run_phase(tp_runtime *runtime) {
  tp_turn *turn = NULL;
  MAKE(tp_turn_request, request);
  request.text = text_of("hello");
  REFUSED_WHEN_USED(tp_turn_request, &request, tp_turn_begin_bare(runtime, &request, &turn, &fault));
  OK(tp_turn_begin_bare(runtime, &request, &turn, &fault));
  tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = text_of("hello")};
  MAKE(tp_phase_input, input);
  input.fields = &field;
  input.field_count = 1;
  MAKE_GUARDED(tp_phase_result, result);
  REFUSED_WHEN_USED(tp_phase_input, &input, tp_phase_run(turn, TP_PHASE_HOST, &input, &result.it, &fault));
  OK(tp_phase_run(turn, TP_PHASE_HOST, &input, &result.it, &fault));
  CHECK(result.it.run_count == 1);
  CHECK(guard_is_whole(result.guard));
  check_run(&result.it, 0, TP_STATE_SUCCEEDED);
  OK(tp_phase_run(turn, TP_PHASE_TURN_PRE_PROMPT_CONTEXT, &input, &result.it, &fault));
  CHECK(result.it.run_count == 2);
  CHECK(tp_merged_count(result.it.merged, TP_CONTRIBUTION_PROMPT_CONTEXT) == 1);
  CHECK(guard_is_whole(result.guard));
  OK(tp_phase_run(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL, &result.it, &fault));
  run_tools(turn);
  tp_turn_end(turn);
}

/* ---- sessions and turns ---- */

static void give_model_and_history(tp_session_options *options) {
  MAKE(tp_tool_call, first);
  MAKE(tp_tool_call, second);
  const tp_tool_call *const calls[] = {&first, &second};
  first.id = text_of("1");
  first.name = text_of("weather");
  second.id = text_of("2");
  second.name = text_of("clock");
  first.arguments = second.arguments = empty_map;
  MAKE(tp_model_response, asks);
  MAKE(tp_model_response, says);
  asks.calls = calls;
  asks.call_count = 2;
  says.text = text_of("It is sunny.");
  const tp_model_response *const responses[] = {&asks, &says};
  tp_model *model;
  OK(tp_script_model_new(responses, 2, true, &model, &fault));
  options->model = model;
  tp_history *history;
  OK(tp_history_memory_new(NULL, &history, &fault));
  options->history = history;
}

static void on_turn_end(void *ctx, const tp_turn_result *result) {
  (void)ctx;
  turn_ends++;
  SHOWN(tp_turn_result, result);
  CHECK(result->outcome == TP_TURN_DENIED);
}

static void run_session(tp_runtime *runtime) {
  MAKE(tp_session_options, options);
  options.id = "s";
  options.on_event = on_event;
  give_model_and_history(&options);
  tp_session *session = NULL;
  REFUSED_WHEN_USED(tp_session_options, &options, tp_session_open(runtime, &options, &session, &fault));
  OK(tp_session_open(runtime, &options, &session, &fault));
  const tp_turn_result *result = NULL;
  MAKE(tp_turn_request, request);
  request.text = text_of("hello");
  REFUSED_WHEN_USED(tp_turn_request, &request, tp_turn_run(session, &request, &result, &fault));
  OK(tp_turn_run(session, &request, &result, &fault));
  SHOWN(tp_turn_result, result);
  CHECK(result->outcome == TP_TURN_COMPLETED);
  CHECK(text_is(result->text, "It is sunny."));
  CHECK(result->tool_calls == 2 && result->iterations == 2);
  tp_turn_result_free(result);
  request.text = text_of("secret");
  tp_submission *submission = NULL;
  OK(tp_turn_submit(session, &request, on_turn_end, NULL, &submission, &fault));
  OK(tp_submission_wait(submission, 60000, &result, &fault));
  SHOWN(tp_turn_result, result);
  CHECK(result->outcome == TP_TURN_DENIED);
  CHECK(memmem(result->reason.data, result->reason.size, "no secrets", 10));
  tp_submission_unref(submission);
  CHECK(turn_ends == 1);
  CHECK(events > 10);
  tp_session_close(session, NULL, NULL);
}

/* ---- what is shown afterwards ---- */

static int records;

static bool see_record(void *ctx, const tp_entry_record *record) {
  (void)ctx;
  records++;
  for (size_t i = 0; i < record->run_count; i++) {
    MAKE_GUARDED(tp_run_record, row);
    CHECK(record->run(record->source, i, &row.it) && row.it.state != TP_STATE_NONE);
    CHECK(guard_is_whole(row.guard));
  }
  return true;
}

static bool look_at_subscription(void *ctx, const tp_subscription_info *info) {
  ++*(int *)ctx;
  SHOWN(tp_subscription_info, info);
  CHECK(info->id && info->limit_ms > 0 && info->order > 0 && info->kind == TP_HANDLER_NATIVE);
  return true;
}

static void look_back(tp_runtime *runtime) {
  OK(tp_runtime_records(runtime, NULL, see_record, NULL, &fault));
  CHECK(records > 5);
  MAKE_GUARDED(tp_runtime_stats, stats);
  tp_runtime_stats_get(runtime, &stats.it);
  CHECK(stats.it.tokens_open == 0);
  CHECK(guard_is_whole(stats.guard));
  CHECK(tp_runtime_leaks(runtime, NULL, NULL) == 0);
  CHECK(tp_runtime_audit(runtime, TP_VISIBILITY_INTERNAL, NULL, NULL) > 0);
  MAKE(tp_subscription_query, subscriptions);
  int seen = 0;
  REFUSED_WHEN_USED(tp_subscription_query, &subscriptions,
                    tp_runtime_subscriptions(runtime, &subscriptions, look_at_subscription, &seen, &fault));
  OK(tp_runtime_subscriptions(runtime, &subscriptions, look_at_subscription, &seen, &fault));
  CHECK(seen > 0);
}

static void close_runtime(tp_runtime *runtime) {
  MAKE_GUARDED(tp_drain_report, report);
  OK(tp_runtime_drain(runtime, 60000, &report.it, NULL));
  CHECK(report.it.complete);
  CHECK(guard_is_whole(report.guard));
  tp_runtime_free(runtime);
  CHECK(destroyed == 4);
}

/* ---- the program ---- */

static void check_library(const char *folder) {
  Dl_info info;
  char loaded[PATH_MAX], wanted[PATH_MAX];
  CHECK(dladdr((void *)(uintptr_t)tp_version, &info) && realpath(info.dli_fname, loaded) && realpath(folder, wanted));
  char *file = strrchr(loaded, '/');
  if (file) *file = '\0';
  CHECK(strcmp(loaded, wanted) == 0);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  library_is_new = strcmp(argv[2], "new") == 0;
  check_library(argv[1]);
  tp_runtime *runtime = open_runtime();
  if (!runtime) return 1;
  register_all(runtime);
  run_phase(runtime);
  run_session(runtime);
  look_back(runtime);
  close_runtime(runtime);
  printf("%d checks, %d failed\n", checks, failures);
  return failures > 0;
}
