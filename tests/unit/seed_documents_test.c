/* SPDX-License-Identifier: Apache-2.0
 *
 * The code examples of the seed documents as hosts in C: tests/seeds/s0/hook.rs, s1/wiring.ts, s3/types.ts,
 * s3/manager.ts and s3/loop.ts. The required names, texts and orders are read from the examples, so that each case
 * follows them. */
#include "tests/support/test.h"
#include "tests/support/model.h"
#include "tests/support/json_value.h"

enum { NAMES_MAX = 16, NAME_BYTES = 128 };

/* ---- an example as text ---- */

typedef struct names {
  char items[NAMES_MAX][NAME_BYTES];
  size_t count;
} names;

static char *read_seed(const char *name) {
  char path[512];
  const char *source = getenv("TURNPHASE_SOURCE");
  assert_non_null(source);
  snprintf(path, sizeof path, "%s/tests/seeds/%s", source, name);
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s", path);
  char *text = calloc(1, 16384);
  assert_true(fread(text, 1, 16383, file) > 0);
  fclose(file);
  return text;
}

/* All texts between `before` and `after`, up to `until` (NULL: the end), in order. */
static names find_names(const char *text, const char *before, const char *behind, const char *until) {
  names n = {.count = 0};
  const char *end = until ? strstr(text, until) : text + strlen(text);
  assert_non_null(end);
  for (const char *at = text; (at = strstr(at, before)) != NULL && at < end;) {
    at += strlen(before);
    size_t size = strcspn(at, behind);
    assert_true(n.count < NAMES_MAX && size < NAME_BYTES);
    memcpy(n.items[n.count++], at, size);
    at += size + 1;
  }
  return n;
}

static bool has_name(const names *n, const char *name) {
  for (size_t i = 0; i < n->count; i++)
    if (strcmp(n->items[i], name) == 0) return true;
  return false;
}

/* ---- what a host notes ---- */

static pthread_mutex_t noted_mutex = PTHREAD_MUTEX_INITIALIZER;
static names noted; /* each name once, in the order of the first time */

static void note(const char *name) {
  pthread_mutex_lock(&noted_mutex);
  if (!has_name(&noted, name) && noted.count < NAMES_MAX) snprintf(noted.items[noted.count++], NAME_BYTES, "%s", name);
  pthread_mutex_unlock(&noted_mutex);
}

static void assert_noted(const names *wanted) {
  for (size_t i = 0; i < wanted->count; i++)
    if (!has_name(&noted, wanted->items[i])) fail_msg("%s never came", wanted->items[i]);
}

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  tp_text text = tp_tool_run_arguments(run);
  note("dispatch");
  (void)ctx;
  return text.size > 1 ? tp_tool_ok(run, (tp_text)TEXT("it is done"))
                       : tp_tool_error(run, (tp_text)TEXT("it could not be done"));
}

static tp_answer emit_tool(void *ctx, tp_call *call) {
  const tp_tool tool = {
      .struct_size = sizeof tool, .name = "t", .run = run_tool, .ctx = ctx, .placement = TP_PLACEMENT_INLINE};
  const tp_tool *list[] = {&tool};
  note("schema");
  return tp_call_emit_tool_bundle(call, "tools", list, 1, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

static void add_hook(tp_runtime *runtime, const char *id, const char *phase, tp_handler_fn run, void *ctx) {
  const tp_hook added = {.struct_size = sizeof added,
                         .id = id,
                         .phase = phase,
                         .run = run,
                         .ctx = ctx,
                         .placement = TP_PLACEMENT_INLINE,
                         .grants = TP_GRANT_PRIVILEGED_HOOKS};
  tp_fault fault = {0};
  if (tp_hook_add(runtime, &added, &fault) != TP_OK) fail_msg("%s: %s", phase, fault.message);
}

static void turn(tp_session *session, const char *text) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
}

/* ---- seed 000: the trait ---- */

static tp_answer give_fragment(void *ctx, tp_call *call) {
  (void)ctx;
  note("system_prompt");
  const tp_contribution section = {.struct_size = sizeof section,
                                   .kind = TP_CONTRIBUTION_PROMPT_SECTION,
                                   .key = TEXT("f"),
                                   .text = TEXT("Ask first.")};
  return tp_call_emit(call, &section, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

static tp_answer build_agent(void *ctx, tp_call *call) {
  tp_writer *writer;
  (void)ctx;
  note("on_build_agent");
  if (tp_writer_new(NULL, &writer) != TP_OK) return TP_ANSWER_FAILED;
  const tp_field field = {.id = TP_FIELD_AGENT_CONFIG,
                          .kind = TP_FIELD_KIND_VALUE,
                          .text = json_value(writer, "{'system': 'Be brief.', 'tools': ['t']}")};
  tp_status status = tp_call_replace(call, &field, 1, NULL);
  tp_writer_free(writer);
  return status == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

static tp_answer register_agent(void *ctx, tp_call *call) {
  bool is_built = tp_value_get(tp_call_text(call, TP_FIELD_AGENT_CONFIG), "tools").size > 0;
  if (tp_text_equal(tp_call_text(call, TP_FIELD_AGENT_ID), tp_text_of("a")) && (ctx || is_built))
    note(ctx ? ctx : "on_register_agent");
  return TP_ANSWER_DONE;
}

static tp_answer preprocess(void *ctx, tp_call *call) {
  (void)ctx;
  note("preprocess");
  return tp_call_replace_text(call, TP_FIELD_TEXT, "modified", NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

static void on_event(void *ctx, const tp_event *event) {
  (void)ctx;
  bool is_ours = tp_text_equal(event->ids[TP_ID_AGENT], tp_text_of("a")) &&
                 tp_text_equal(event->ids[TP_ID_SESSION], tp_text_of("conversation-7"));
  if (is_ours && event->kind == TP_EVENT_TOOL_END) note("on_event");
}

TEST(every_method_of_the_trait_is_one_of_a_host) {
  static const reply replies[] = {{.text = "",
                                   .calls = {{.id = TEXT("1"), .name = TEXT("t"), .arguments = TEXT("\x81\xa1n\x01")},
                                             {.id = TEXT("2"), .name = TEXT("t"), .arguments = TEXT("\x80")},
                                             {.id = TEXT("3"), .name = TEXT("other"), .arguments = TEXT("\x80")}},
                                   .call_count = 3},
                                  {.text = "done"}};
  char *trait = read_seed("s0/hook.rs");
  names methods = find_names(strstr(trait, "pub trait"), "\nfn ", "(<", NULL);
  assert_int_equal(methods.count, 9);
  tp_runtime *runtime = open_runtime(NULL);
  recorder *model = recorder_new(replies, COUNT(replies));
  const tp_listener listener = {.struct_size = sizeof listener, .on_event = on_event};
  static char gone[] = "on_unregister_agent";
  tp_agent *agent;
  tp_session *session;
  noted.count = 0;
  add_hook(runtime, NULL, "turn.pre_tool_materialization", emit_tool, NULL);
  add_hook(runtime, NULL, "on_build_agent", build_agent, NULL);
  add_hook(runtime, NULL, "system_prompt", give_fragment, NULL);
  add_hook(runtime, NULL, "on_register_agent", register_agent, NULL);
  add_hook(runtime, NULL, "on_unregister_agent", register_agent, gone);
  add_hook(runtime, NULL, "preprocess", preprocess, NULL);
  assert_int_equal(tp_runtime_listen(runtime, &listener, NULL, NULL), TP_OK);
  const tp_agent_config config = {.struct_size = sizeof config, .id = "a", .model = recorder_model(model, true)};
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
  const tp_session_options options = {.struct_size = sizeof options, .id = "conversation-7", .agent = agent};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  turn(session, "said");
  if (strstr(model->requests[0], "Be brief.") && strstr(model->requests[0], "<scope>")) note("scoped_tools");
  assert_non_null(strstr(model->requests[0], "Ask first."));
  assert_non_null(strstr(model->requests[0], "U<modified>"));
  assert_non_null(strstr(model->requests[1], "T<it is done>=<1>T!<it could not be done>=<2>T!<"));
  tp_session_close(session, NULL, NULL);
  tp_agent_remove(agent);
  assert_noted(&methods);
  close_runtime(runtime);
  recorder_free(model);
  free(trait);
}

TEST(empty_hook_of_the_trait_is_a_runtime_without_handlers) {
  static const reply replies[] = {{.text = "done"}};
  recorder *model = recorder_new(replies, 1);
  tp_runtime *runtime = open_runtime(NULL);
  tp_session *session;
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = recorder_model(model, true)};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  turn(session, "said");
  assert_string_equal(model->requests[0], "S<>U<said>");
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(model);
}

/* ---- seed 001: wiring one up ---- */

typedef struct wiring {
  char prefix[NAME_BYTES], reason[NAME_BYTES];
  char archived[NAME_BYTES]; /* session and reason */
  _Atomic int archives;
} wiring;

static tp_answer no_prod(void *ctx, tp_call *call) {
  const wiring *w = ctx;
  tp_text target = tp_value_text(tp_value_get(tp_call_text(call, TP_FIELD_ARGUMENTS), "file_path"));
  bool is_prod = target.size >= strlen(w->prefix) && memcmp(target.data, w->prefix, strlen(w->prefix)) == 0;
  return is_prod ? tp_call_deny(call, w->reason) : tp_call_allow(call);
}

static tp_answer archive(void *ctx, tp_call *call) {
  wiring *w = ctx;
  tp_text session = tp_call_id(call, TP_ID_SESSION), reason = tp_call_text(call, TP_FIELD_REASON);
  snprintf(w->archived, sizeof w->archived, "%.*s %.*s", (int)session.size, session.data, (int)reason.size,
           reason.data);
  w->archives++;
  return TP_ANSWER_DONE;
}

TEST(wiring_of_the_document_blocks_prod_and_archives_the_run) {
  static const char prod[] =
      "\x81\xa9"
      "file_path\xab/srv/prod/x",
                    dev[] =
                        "\x81\xa9"
                        "file_path\xaa/srv/dev/x";
  static const reply replies[] = {{.text = "",
                                   .calls = {{.id = TEXT("1"), .name = TEXT("t"), .arguments = TEXT(prod)},
                                             {.id = TEXT("2"), .name = TEXT("t"), .arguments = TEXT(dev)}},
                                   .call_count = 2},
                                  {.text = "done"}};
  char *code = read_seed("s1/wiring.ts"), expected[512];
  names ids = find_names(code, "name: '", "'", NULL), events = find_names(code, "register('", "'", NULL);
  assert_int_equal(ids.count, 2);
  assert_string_equal(events.items[0], "tool.pre");
  assert_string_equal(events.items[1], "session.end");
  wiring w = {.archives = 0};
  snprintf(w.prefix, sizeof w.prefix, "%s", find_names(code, "startsWith('", "'", NULL).items[0]);
  snprintf(w.reason, sizeof w.reason, "%s", find_names(code, "reason: '", "'", NULL).items[0]);
  recorder *model = recorder_new(replies, COUNT(replies));
  tp_runtime *runtime = open_runtime(NULL);
  tp_session *session;
  add_hook(runtime, NULL, "turn.pre_tool_materialization", emit_tool, NULL);
  add_hook(runtime, ids.items[0], events.items[0], no_prod, &w);
  add_hook(runtime, ids.items[1], events.items[1], archive, &w);
  const tp_session_options options = {
      .struct_size = sizeof options, .id = "run-1", .model = recorder_model(model, true)};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  turn(session, "said");
  snprintf(expected, sizeof expected, "T!<hook %s blocked the action: %s", ids.items[0], w.reason);
  if (!strstr(model->requests[1], expected)) fail_msg("%s", model->requests[1]);
  assert_non_null(strstr(model->requests[1], "<system-reminder>"));
  if (!strstr(model->requests[1], ">=<1>T<it is done")) fail_msg("%s", model->requests[1]);
  assert_int_equal(w.archives, 0);
  tp_session_close(session, NULL, NULL);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(runtime, 60000, &report, NULL), TP_OK);
  assert_int_equal(w.archives, 1);
  assert_string_equal(w.archived, "run-1 closed");
  tp_runtime_free(runtime);
  recorder_free(model);
  free(code);
}

/* "session.end on every loop exit — normal end, abort, max-turns, budget, error — with the terminal reason": the
 * document's archive hook gets the reason as ctx.reason. A normal end is the close itself. */
TEST(archive_of_the_document_gets_the_terminal_reason_of_every_loop_exit) {
  static const struct {
    reply reply;
    tp_turn_request limits;
    bool aborts;
    const char *archived;
  } exits[] = {
      {{.text = "done"}, {0}, false, "run-1 closed"},
      {{.never = true}, {0}, true, "run-1 cancelled"},
      {{.text = "", .calls = {{.name = TEXT("t"), .arguments = TEXT("\x80")}}, .call_count = 1},
       {.iterations_max = 2},
       false,
       "run-1 max_requests"},
      {{.text = "", .calls = {{.name = TEXT("t"), .arguments = TEXT("\x80")}}, .call_count = 1, .cost_micros = 900},
       {.cost_micros_max = 1000},
       false,
       "run-1 max_cost"},
      {{.text = "", .calls = {{.name = TEXT("t"), .arguments = TEXT("\x80")}}, .call_count = 1, .input_tokens = 900},
       {.tokens_max = 1000},
       false,
       "run-1 max_tokens"},
      {{.never = true}, {.limit_ms = 20}, false, "run-1 max_time"},
      {{.fails = TP_ERR_MODEL}, {0}, false, "run-1 error"}};
  for (size_t i = 0; i < COUNT(exits); i++) {
    wiring w = {.archives = 0};
    recorder *model = recorder_new(&exits[i].reply, 1);
    tp_runtime *runtime = open_runtime(NULL);
    tp_session *session;
    add_hook(runtime, NULL, "turn.pre_tool_materialization", emit_tool, NULL);
    add_hook(runtime, "archive", "session.end", archive, &w);
    const tp_session_options options = {
        .struct_size = sizeof options, .id = "run-1", .model = recorder_model(model, true)};
    assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
    tp_turn_request request = exits[i].limits;
    request.struct_size = sizeof request;
    request.text = tp_text_of("go");
    tp_submission *submission;
    assert_int_equal(tp_turn_submit(session, &request, NULL, NULL, &submission, NULL), TP_OK);
    latch_wait(&model->started, 1);
    if (exits[i].aborts) tp_submission_cancel(submission);
    assert_int_equal(tp_submission_wait(submission, 60000, NULL, NULL), TP_OK);
    tp_submission_unref(submission);
    tp_session_close(session, NULL, NULL);
    assert_int_equal(tp_runtime_drain(runtime, 60000, NULL, NULL), TP_OK);
    assert_int_equal(w.archives, 1);
    assert_string_equal(w.archived, exits[i].archived);
    tp_runtime_free(runtime);
    recorder_free(model);
  }
}

/* ---- seed 003: the loop and its hooks ---- */

static tp_status register_hook(tp_runtime *runtime, const char *plugin, tp_trust trust, tp_grant grants,
                               const char *hook_name, tp_handler_fn run, void *ctx, tp_fault *fault) {
  const tp_owner owner = {.struct_size = sizeof owner, .name = plugin, .trust = trust, .grants = grants};
  const tp_phase_id phase = tp_phase_find(runtime, hook_name);
  char id[NAME_BYTES];
  tp_edit *edit;
  snprintf(id, sizeof id, "%s.%s", plugin, hook_name);
  const tp_handler handler = {.struct_size = sizeof handler,
                              .id = id,
                              .run = run,
                              .ctx = ctx,
                              .phases = &phase,
                              .phase_count = 1,
                              .placement = TP_PLACEMENT_INLINE};
  const tp_subscription subscription = {
      .struct_size = sizeof subscription, .id = id, .handler = id, .phase_name = hook_name};
  assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
  tp_status status = tp_edit_add_handler(edit, &handler, fault);
  if (status == TP_OK) status = tp_edit_add_subscription(edit, &subscription, fault);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

static tp_answer note_point(void *ctx, tp_call *call) {
  (void)call;
  note(ctx);
  return TP_ANSWER_DONE;
}

TEST(trust_tiers_are_those_of_the_types) {
  char *code = read_seed("s3/types.ts");
  names points = find_names(code, "  '", "'", "]);");
  names privileged = find_names(strstr(code, "PRIVILEGED_HOOKS"), "'", "'", ";");
  static const struct {
    tp_trust trust;
    tp_grant grants;
    bool is_trusted;
  } plugins[] = {
      {TP_TRUST_BUILTIN, 0, true}, {TP_TRUST_HOST, TP_GRANT_PRIVILEGED_HOOKS, true}, {TP_TRUST_HOST, 0, false}};
  assert_int_equal(points.count, 5);
  assert_int_equal(privileged.count, 2);
  for (size_t p = 0; p < COUNT(plugins); p++) {
    tp_runtime *runtime = open_runtime(NULL);
    for (size_t i = 0; i < points.count; i++) {
      tp_fault fault = {0};
      bool is_allowed = plugins[p].is_trusted || !has_name(&privileged, points.items[i]);
      tp_status status = register_hook(runtime, "plugin-x", plugins[p].trust, plugins[p].grants, points.items[i],
                                       note_point, points.items[i], &fault);
      if ((status == TP_OK) != is_allowed) fail_msg("%s: %s", points.items[i], fault.message);
      if (is_allowed) continue;
      assert_int_equal(status, TP_ERR_PRIVILEGED);
      assert_non_null(strstr(fault.message, "plugin-x")); /* as the manager's error says it */
    }
    assert_int_equal(tp_phase_find(runtime, "onSomethingElse"), 0);
    close_runtime(runtime);
  }
  free(code);
}

TEST(points_of_the_loop_come_in_its_order) {
  static const reply replies[] = {{.text = "",
                                   .calls = {{.id = TEXT("1"), .name = TEXT("t"), .arguments = TEXT("\x81\xa1n\x01")}},
                                   .call_count = 1},
                                  {.text = "done"}};
  char *code = read_seed("s3/loop.ts");
  names points = find_names(code, "execute('", "'", NULL);
  assert_int_equal(points.count, 5);
  recorder *model = recorder_new(replies, COUNT(replies));
  tp_runtime *runtime = open_runtime(NULL);
  tp_session *session;
  for (size_t i = 0; i < points.count; i++)
    assert_int_equal(register_hook(runtime, "builtin", TP_TRUST_BUILTIN, 0, points.items[points.count - 1 - i],
                                   note_point, points.items[points.count - 1 - i], NULL),
                     TP_OK); /* in any order */
  add_hook(runtime, NULL, "turn.pre_tool_materialization", emit_tool, NULL);
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = recorder_model(model, true)};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  noted.count = 0;
  turn(session, "said");
  size_t at = 0;
  for (size_t i = 0; i < noted.count; i++) {
    if (!has_name(&points, noted.items[i])) continue;
    assert_string_equal(noted.items[i], points.items[at++]);
  }
  assert_int_equal(at, points.count);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(model);
  free(code);
}

/* assembledContext = await hookManager.execute('onContextAssembled', ctx, assembledContext): removes the texts of tools
 * from the context of the next request. */
static tp_answer cut_results(void *ctx, tp_call *call) {
  (void)ctx;
  tp_text messages = tp_call_text(call, TP_FIELD_MESSAGES);
  tp_field field = {.id = TP_FIELD_MESSAGES, .kind = TP_FIELD_KIND_VALUE};
  tp_writer *writer;
  if (tp_writer_new(NULL, &writer) != TP_OK) return TP_ANSWER_FAILED;
  tp_write_array(writer, tp_value_count(messages));
  for (tp_value_walk walk = {0}; tp_value_next(messages, &walk);) {
    bool is_result = tp_text_is(tp_value_text(tp_value_get(walk.value, "role")), "tool");
    tp_write_map(writer, tp_value_count(walk.value));
    for (tp_value_walk pair = {0}; tp_value_next(walk.value, &pair);) {
      tp_write_text(writer, pair.key);
      if (is_result && tp_text_is(pair.key, "text")) tp_write_string(writer, "[cut]");
      else tp_write_value(writer, pair.value);
    }
  }
  tp_status status = tp_writer_finish(writer, &field.text);
  if (status == TP_OK) status = tp_call_replace(call, &field, 1, NULL);
  tp_writer_free(writer);
  return status == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

/* modelResponse = await hookManager.execute('onModelResponse', ctx, modelResponse) */
static tp_answer filter_response(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_replace_text(call, TP_FIELD_RESPONSE_TEXT, "[filtered]", NULL) == TP_OK ? TP_ANSWER_DONE
                                                                                         : TP_ANSWER_FAILED;
}

static void note_text(void *ctx, const tp_event *event) {
  char *texts = ctx;
  size_t used = strlen(texts);
  if (event->kind == TP_EVENT_MODEL_DELTA || event->kind == TP_EVENT_MODEL_END)
    snprintf(texts + used, 512 - used, "%.*s|", (int)event->text.size, event->text.size ? event->text.data : "");
}

TEST(assembled_context_and_response_of_the_loop_are_what_their_hooks_return) {
  static const reply replies[] = {{.text = "my card is 4111-1111",
                                   .calls = {{.id = TEXT("1"), .name = TEXT("t"), .arguments = TEXT("\x81\xa1n\x01")}},
                                   .call_count = 1,
                                   .delta = "my card is "},
                                  {.text = "4111-1111", .delta = "4111"}};
  char *code = read_seed("s3/loop.ts"), texts[512] = "";
  names points = find_names(code, "execute('", "'", NULL);
  assert_string_equal(points.items[1], "onContextAssembled");
  assert_string_equal(points.items[2], "onModelResponse");
  recorder *model = recorder_new(replies, COUNT(replies));
  tp_runtime *runtime = open_runtime(NULL);
  tp_session *session;
  assert_int_equal(register_hook(runtime, "builtin", TP_TRUST_BUILTIN, 0, points.items[1], cut_results, NULL, NULL),
                   TP_OK);
  assert_int_equal(register_hook(runtime, "builtin", TP_TRUST_BUILTIN, 0, points.items[2], filter_response, NULL, NULL),
                   TP_OK);
  add_hook(runtime, NULL, "turn.pre_tool_materialization", emit_tool, NULL);
  const tp_session_options options = {.struct_size = sizeof options,
                                      .id = "s",
                                      .model = recorder_model(model, true),
                                      .on_event = note_text,
                                      .event_ctx = texts};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  turn(session, "said");
  assert_string_equal(model->requests[1], "S<>U<said>A<[filtered]>C<t>T<[cut]>=<1>");
  assert_string_equal(texts, "[filtered]|[filtered]|[filtered]|[filtered]|");
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(model);
  free(code);
}

static tp_answer append(void *ctx, tp_call *call) {
  char text[256];
  tp_text old = tp_call_text(call, TP_FIELD_TEXT);
  snprintf(text, sizeof text, "%.*s%s", (int)old.size, old.data, (const char *)ctx);
  return tp_call_replace_text(call, TP_FIELD_TEXT, text, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

static tp_answer throws(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_fail(call, 7, "it threw");
}

static tp_answer hangs(void *ctx, tp_call *call) {
  latch_hit(((latch *)ctx) + 1);
  latch_wait(ctx, 1);
  (void)call;
  return TP_ANSWER_DONE;
}

static bool count_failures(void *ctx, const tp_audit *audit) {
  bool is_ours =
      audit->subscription && (strcmp(audit->subscription, "throws") == 0 || strcmp(audit->subscription, "hangs") == 0);
  if (is_ours && strcmp(audit->action, "failure") == 0) ++*(int *)ctx;
  return true;
}

TEST(data_flows_through_the_handlers_of_the_manager_past_one_that_fails) {
  static char a[] = "a", b[] = "b", c[] = "c";
  latch latches[2] = {LATCH, LATCH};
  static const reply replies[] = {{.text = "done"}};
  char *code = read_seed("s3/manager.ts");
  assert_non_null(strstr(code, "withTimeout(handler(context, result)"));
  recorder *model = recorder_new(replies, 1);
  tp_runtime *runtime = open_runtime(NULL);
  tp_session *session;
  int failures = 0;
  add_hook(runtime, "first", "onIntake", append, a);
  add_hook(runtime, "throws", "onIntake", throws, NULL);
  add_hook(runtime, "second", "onIntake", append, b);
  const tp_hook late = {
      .struct_size = sizeof late, .id = "hangs", .phase = "onIntake", .run = hangs, .ctx = latches, .limit_ms = 20};
  assert_int_equal(tp_hook_add(runtime, &late, NULL), TP_OK);
  add_hook(runtime, "third", "onIntake", append, c);
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = recorder_model(model, true)};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  turn(session, "said ");
  assert_string_equal(model->requests[0], "S<>U<said abc>");
  latch_hit(&latches[0]);
  tp_runtime_audit(runtime, TP_VISIBILITY_INTERNAL, count_failures, &failures);
  assert_int_equal(failures, 2);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(model);
  free(code);
}
