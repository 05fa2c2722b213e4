/* SPDX-License-Identifier: Apache-2.0
 *
 * People who may be asked about tool calls: which person is asked and when, the effect of the answers, and how a
 * question ends. */
#include "tests/support/test.h"
#include "tests/support/world.h"

/* ---- a host with one tool, one hook in each gate, and a person ---- */

typedef struct person {
  tp_verdict answers;                 /* at once; NONE: not now */
  bool other_hash, abandons, changes; /* changes: the arguments, after the library */
  tp_text edits;                      /* what it makes of the arguments; empty: nothing */
  const char *reason, *name;
  _Atomic int asked;
  latch put;
  tp_token token;
  char words[512], arguments[64], hash[64];
  int64_t expires_unix_ms;
} person;

static tp_status answer(person *p, tp_verdict verdict, tp_fault *fault) {
  tp_decision decision = {.struct_size = sizeof decision,
                          .verdict = verdict,
                          .arguments_hash = p->other_hash ? (tp_text)TEXT("00") : tp_text_of(p->hash),
                          .reason = tp_text_of(p->reason),
                          .person = tp_text_of(p->name),
                          .arguments = p->edits};
  return tp_question_answer(p->token, &decision, fault);
}

static void ask(void *ctx, const tp_question *q) {
  person *p = ctx;
  p->token = q->token;
  p->expires_unix_ms = q->expires_unix_ms;
  snprintf(p->words, sizeof p->words, "%.*s|%.*s|%.*s|%.*s|%u", (int)q->subscription.size, q->subscription.data,
           (int)q->reason.size, q->reason.data, (int)q->call->name.size, q->call->name.data, (int)q->call->id.size,
           q->call->id.data, q->phase);
  memcpy(p->arguments, q->call->arguments.data, q->call->arguments.size);
  snprintf(p->hash, sizeof p->hash, "%.*s", (int)q->arguments_hash.size, q->arguments_hash.data);
  p->asked++;
  if (p->changes) ((char *)(uintptr_t)q->call->arguments.data)[3]++;
  if (p->abandons) (void)!tp_token_abandon(q->token, NULL);
  else if (p->answers != TP_VERDICT_NONE) (void)!answer(p, p->answers, NULL);
  latch_hit(&p->put);
}

static int32_t permit(void *ctx, const tp_permission_request *request) {
  const int32_t *says = ctx;
  return request->tool && request->call && request->id_count == TP_ID_COUNT ? *says : TP_PERMISSION_AUTO;
}

typedef struct world {
  WORLD;
  person person;
  int32_t permission;
  act create, rewrite, pre;
  tp_handler_fn create_run, pre_run; /* NULL: as the act says */
  tp_contribution policy;
  const char *schema; /* JSON text of the tool's; NULL: none */
  _Atomic int runs;
  int64_t left_ms;
  char ran_with[16];
  char filtered[256];
} world;

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  tp_text arguments = tp_tool_run_arguments(run);
  w->runs++;
  w->left_ms = tp_tool_run_time_left_ms(run);
  snprintf(w->ran_with, sizeof w->ran_with, "%d", (int)tp_value_int(tp_value_get(arguments, "n"), -1));
  return tp_tool_ok(run, (tp_text)TEXT("ran"));
}

static tp_answer rewrite(void *ctx, tp_call *call) {
  act *a = ctx;
  const tp_field field = {.id = a->replaces,
                          .kind = a->replaces == TP_FIELD_RESULT ? TP_FIELD_KIND_TEXT : TP_FIELD_KIND_VALUE,
                          .text = tp_text_of(a->text)};
  a->calls++;
  if (a->replaces && tp_call_replace(call, &field, 1, NULL) != TP_OK) return TP_ANSWER_FAILED;
  return answer_of(a, call);
}

static tp_answer filter(void *ctx, tp_call *call) {
  world *w = ctx;
  tp_text id = tp_call_text(call, TP_FIELD_CALL_ID), result = tp_call_text(call, TP_FIELD_RESULT);
  tp_text arguments = tp_call_text(call, TP_FIELD_ARGUMENTS);
  snprintf(w->filtered, sizeof w->filtered, "%.*s %.*s n=%d is_error=%d", (int)id.size, id.data, (int)result.size,
           result.data, (int)tp_value_int(tp_value_get(arguments, "n"), -1), (int)tp_call_int(call, TP_FIELD_IS_ERROR));
  return TP_ANSWER_DONE;
}

static void open_world(world *w, tp_runtime_options options, bool channel, bool permission) {
  if (channel) {
    options.ask = ask;
    options.ask_ctx = &w->person;
  }
  if (permission) {
    options.permission = permit;
    options.permission_ctx = &w->permission;
  }
  w->person.put = (latch)LATCH;
  if (!w->person.answers) w->person.answers = TP_VERDICT_NONE;
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = "t",
                        .schema_json = w->schema,
                        .run = run_tool,
                        .ctx = w,
                        .placement = TP_PLACEMENT_INLINE};
  const hook hooks[] = {{.id = "creates", .phase = TP_PHASE_TOOL_CREATE, .run = w->create_run, .ctx = &w->create},
                        {.id = "rewrites", .phase = TP_PHASE_TOOL_REWRITE, .run = rewrite, .ctx = &w->rewrite},
                        {.id = "guards", .phase = TP_PHASE_TOOL_PRE, .run = w->pre_run, .ctx = &w->pre},
                        {.id = "filters", .phase = TP_PHASE_TOOL_RESULT, .run = filter, .ctx = w}};
  world_open(&w->stage, &(world_options){.runtime = options,
                                         .hooks = hooks,
                                         .hook_count = COUNT(hooks),
                                         .tools = (const tp_tool *const[]){&tool},
                                         .tool_count = 1});
  world_begin_bare(&w->stage);
}

static tp_tool_result call_n(world *w, int n) {
  char bytes[4];
  tp_tool_call call = {.id = TEXT("c1"), .name = TEXT("t"), .arguments = argument_n(bytes, n)};
  tp_tool_result result;
  assert_int_equal(tools_run(w->turn, &call, 1, &result, NULL), TP_OK);
  return result;
}

#define assert_kind(result, want) assert_string_equal(tp_tool_result_name((result).kind), tp_tool_result_name(want))
#define assert_says(result, words)                                                            \
  do {                                                                                        \
    if (!memmem((result).text.data, (result).text.size, (words), strlen(words)))              \
      fail_msg("`%s` is not in: %.*s", (words), (int)(result).text.size, (result).text.data); \
  } while (0)

typedef struct rows {
  char text[2048];
} rows;

static bool note_row(void *ctx, const tp_audit *row) {
  rows *r = ctx;
  size_t used = strlen(r->text);
  snprintf(r->text + used, sizeof r->text - used, "%s %s: %s\n", row->action, row->subscription, row->detail);
  return true;
}

/* ---- the event ---- */

typedef struct watch {
  _Atomic int events;
  int asked_before;
  const person *person;
  char words[256];
  tp_token token;
} watch;

static void note_question(void *ctx, const tp_event *event) {
  watch *v = ctx;
  const tp_question *q = event->question;
  v->asked_before = v->person->asked;
  if (!q || event->kind != TP_EVENT_QUESTION) return;
  v->token = q->token;
  snprintf(v->words, sizeof v->words, "%u %s %.*s|%.*s %.*s %s", event->phase, event->subscription,
           (int)event->text.size, event->text.data, (int)q->call->name.size, q->call->name.data,
           (int)q->arguments_hash.size, q->arguments_hash.data,
           event->tool_call == q->call && event->ids[TP_ID_TURN].size == q->ids[TP_ID_TURN].size ? "same" : "other");
  v->events++;
}

TEST(question_is_an_event_before_the_channel_has_it) {
  world w = {.pre = {.kind = TP_ANSWER_ASK, .reason = "it looks odd"}, .person = {.answers = TP_VERDICT_ALLOW}};
  watch seen = {.person = &w.person};
  open_world(&w, (tp_runtime_options){0}, true, false);
  tp_turn_end(w.turn);
  const tp_inbox_options inbox_options = {.struct_size = sizeof inbox_options};
  tp_inbox *inbox;
  assert_int_equal(tp_inbox_new(w.runtime, &inbox_options, &inbox, NULL), TP_OK);
  tp_listener listener = {.struct_size = sizeof listener,
                          .on_event = note_question,
                          .ctx = &seen,
                          .kinds = UINT64_C(1) << TP_EVENT_QUESTION};
  assert_int_equal(tp_runtime_listen(w.runtime, &listener, NULL, NULL), TP_OK);
  listener.on_event = NULL;
  listener.inbox = inbox;
  assert_int_equal(tp_runtime_listen(w.runtime, &listener, NULL, NULL), TP_OK);
  w.turn = begin_bare(w.runtime, 60000);
  assert_int_equal(run_phase(w.turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL).outcome, TP_OK);
  assert_kind(call_n(&w, 7), TP_TOOL_OK);
  char want[256];
  snprintf(want, sizeof want, "%u guards it looks odd|t %s same", TP_PHASE_TOOL_PRE, w.person.hash);
  assert_int_equal(seen.events, 1);
  assert_int_equal(seen.asked_before, 0);
  assert_string_equal(seen.words, want);
  assert_true(seen.token.bits == w.person.token.bits);
  const tp_work *work = NULL;
  assert_int_equal(tp_inbox_next(inbox, &work), TP_OK);
  assert_non_null(work);
  watch copied = {.person = &w.person};
  note_question(&copied, work->event); /* after the end of the call: it is a copy */
  assert_string_equal(copied.words, want);
  assert_int_equal(tp_work_release(work), TP_OK);
  tp_inbox_free(inbox);
  world_close(&w.stage);
}

/* ---- the options ---- */

TEST(ctx_without_its_function_is_refused) {
  static const char *const names[] = {"ask_ctx", "permission_ctx"};
  for (size_t i = 0; i < COUNT(names); i++) {
    tp_runtime_options options = {.struct_size = sizeof options};
    if (i == 0) options.ask_ctx = &options;
    if (i == 1) options.permission_ctx = &options;
    tp_runtime *runtime = NULL;
    tp_fault fault = {0};
    assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_USAGE);
    assert_null(runtime);
    assert_non_null(strstr(fault.message, names[i]));
  }
  tp_runtime *runtime = open_runtime(NULL);
  for (int i = 0; i < 2; i++) {
    tp_session_options options = {.struct_size = sizeof options, .id = "s"};
    if (i == 0) options.ask_ctx = &options;
    if (i == 1) options.permission_ctx = &options;
    tp_session *session = NULL;
    tp_fault fault = {0};
    assert_int_equal(tp_session_open(runtime, &options, &session, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, names[i]));
  }
  close_runtime(runtime);
}

/* ---- who is asked, and what comes of it ---- */

TEST(asked_call_runs_when_a_person_allows_it) {
  world w = {.pre = {.kind = TP_ANSWER_ASK, .reason = "it looks odd"}, .person = {.answers = TP_VERDICT_ALLOW}};
  open_world(&w, (tp_runtime_options){0}, true, false);
  tp_tool_result result = call_n(&w, 7);
  assert_kind(result, TP_TOOL_OK);
  assert_int_equal(w.runs, 1);
  assert_string_equal(w.ran_with, "7");
  assert_int_equal(w.person.asked, 1);
  char words[64];
  snprintf(words, sizeof words, "guards|it looks odd|t|c1|%d", TP_PHASE_TOOL_PRE);
  assert_string_equal(w.person.words, words);
  assert_memory_equal(w.person.arguments, "\x81\xa1n\x07", 4);
  assert_int_equal(strlen(w.person.hash), 32);
  assert_in_range(w.left_ms, 1, 60000); /* of the turn: what the question added is taken back */
  world_close(&w.stage);
}

TEST(question_that_a_person_denies_denies_the_call_and_says_who_and_why) {
  world w = {.pre = {.kind = TP_ANSWER_ASK, .reason = "it looks odd"},
             .person = {.answers = TP_VERDICT_DENY, .reason = "not today", .name = "ada"}};
  open_world(&w, (tp_runtime_options){0}, true, false);
  tp_tool_result result = call_n(&w, 7);
  assert_kind(result, TP_TOOL_DENIED);
  assert_says(result, "hook guards blocked the action: a person denied it by ada: not today");
  assert_int_equal(w.runs, 0);
  rows r = {""};
  tp_runtime_audit(w.runtime, TP_VISIBILITY_USER_VISIBLE, note_row, &r);
  assert_non_null(strstr(r.text, "ask guards: t: it looks odd"));
  assert_non_null(strstr(r.text, "answer guards: t: a person denied it by ada: not today; arguments "));
  world_close(&w.stage);
}

TEST(answer_to_other_arguments_or_a_failed_channel_denies) {
  static const char *const words[] = {"the answer was given to other arguments",
                                      "the channel for questions gave no answer",
                                      "the arguments have changed since they were shown"};
  for (int i = 0; i < 3; i++) {
    world w = {.pre = {.kind = TP_ANSWER_ASK}, .person = {.answers = TP_VERDICT_ALLOW}};
    w.person.other_hash = i == 0;
    w.person.abandons = i == 1;
    w.person.changes = i == 2;
    open_world(&w, (tp_runtime_options){0}, true, false);
    tp_tool_result result = call_n(&w, 7);
    assert_kind(result, TP_TOOL_DENIED);
    assert_says(result, words[i]);
    assert_int_equal(w.runs, 0);
    world_close(&w.stage);
  }
}

/* ---- signals that are verdicts ---- */

static tp_contribution signal_of(const char *kind, const char *code, const char *reason) {
  return (tp_contribution){.struct_size = sizeof(tp_contribution),
                           .kind = TP_CONTRIBUTION_SIGNAL,
                           .domain = tp_text_of(kind),
                           .key = tp_text_of(code),
                           .text = tp_text_of(reason)};
}

static tp_tool_result call_with_signal(world *w, bool preflight, tp_contribution *signal, tp_answer answer) {
  act *gate = preflight ? &w->create : &w->pre;
  *gate = (act){.emits = signal, .emit_count = 1, .kind = answer};
  w->person.answers = TP_VERDICT_ALLOW;
  open_world(w, (tp_runtime_options){0}, true, false);
  return call_n(w, 7);
}

TEST(signal_of_a_native_guard_denies_asks_or_allows) {
  static const struct {
    bool preflight;
    const char *code;
    tp_tool_result_kind result;
    int asked;
  } cases[] = {{false, "DENIED", TP_TOOL_DENIED, 0},     {false, "ABILITY_DENIED", TP_TOOL_DENIED, 0},
               {false, "REQUIRES_HUMAN", TP_TOOL_OK, 1}, {false, "ALLOWED", TP_TOOL_OK, 0},
               {true, "UNAVAILABLE", TP_TOOL_DENIED, 0}, {true, "ABILITY_UNAVAILABLE", TP_TOOL_DENIED, 0},
               {true, "REQUIRES_HUMAN", TP_TOOL_OK, 1},  {true, "ABILITY_AVAILABLE", TP_TOOL_OK, 0}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    world w = {.runs = 0};
    tp_contribution signal =
        signal_of(cases[i].preflight ? "ability_preflight" : "ability_guard", cases[i].code, "not in prod");
    tp_tool_result result = call_with_signal(&w, cases[i].preflight, &signal, TP_ANSWER_DONE);
    assert_kind(result, cases[i].result);
    assert_int_equal(w.person.asked, cases[i].asked);
    assert_int_equal(w.runs, cases[i].result == TP_TOOL_OK);
    if (cases[i].result == TP_TOOL_DENIED) assert_says(result, "blocked the action: not in prod");
    if (cases[i].asked) assert_non_null(strstr(w.person.words, "not in prod"));
    world_close(&w.stage);
  }
}

TEST(strictest_of_answer_and_signal_wins) {
  world denied = {.runs = 0}, allowed = {.runs = 0};
  tp_contribution deny = signal_of("ability_guard", "DENIED", "no"),
                  allow = signal_of("ability_guard", "ALLOWED", "yes");
  assert_kind(call_with_signal(&denied, false, &deny, TP_ANSWER_ALLOW), TP_TOOL_DENIED);
  world_close(&denied.stage); /* before the next one: the blocks of memory are counted for all */
  assert_kind(call_with_signal(&allowed, false, &allow, TP_ANSWER_DENY), TP_TOOL_DENIED);
  world_close(&allowed.stage);
}

TEST(reason_and_require_human_are_read_from_a_payload_that_is_a_value) {
  /* {"require_human": true, "reason": "prod"} */
  static const char payload[] = "\x82\xadrequire_human\xc3\xa6reason\xa4prod";
  world w = {.runs = 0};
  tp_contribution signal = signal_of("ability_guard", "ALLOWED", NULL);
  signal.value = (tp_text){payload, sizeof payload - 1};
  assert_kind(call_with_signal(&w, false, &signal, TP_ANSWER_DONE), TP_TOOL_OK);
  assert_int_equal(w.person.asked, 1);
  assert_non_null(strstr(w.person.words, "guards|prod|"));
  world_close(&w.stage);
}

/* A guard that cannot be understood is one that failed: required, it denies. */
TEST(signal_with_an_unknown_code_fails_its_guard) {
  world w = {.runs = 0};
  tp_contribution signal = signal_of("ability_guard", "MAYBE", "who knows");
  assert_kind(call_with_signal(&w, false, &signal, TP_ANSWER_ALLOW), TP_TOOL_DENIED);
  assert_int_equal(w.runs, 0);
  world_close(&w.stage);
}

TEST(verdict_of_a_signal_is_read_by_kind_and_code) {
  tp_verdict verdict;
  tp_text none = {0};
  assert_int_equal(tp_signal_verdict((tp_text)TEXT("routing_hint"), (tp_text)TEXT("DENIED"), none, &verdict), TP_OK);
  assert_int_equal(verdict, TP_VERDICT_NONE);
  assert_int_equal(tp_signal_verdict((tp_text)TEXT("ability_guard"), (tp_text)TEXT("AVAILABLE"), none, &verdict),
                   TP_ERR_MALFORMED);
  assert_int_equal(tp_signal_verdict((tp_text)TEXT("ability_preflight"), (tp_text)TEXT("ABILITY_"), none, &verdict),
                   TP_ERR_MALFORMED);
}

TEST(ask_without_a_channel_denies_with_its_own_reason) {
  world w = {.pre = {.kind = TP_ANSWER_ASK, .reason = "it looks odd"}};
  open_world(&w, (tp_runtime_options){0}, false, false);
  tp_tool_result result = call_n(&w, 7);
  assert_kind(result, TP_TOOL_DENIED);
  assert_says(result, "hook guards blocked the action: it asks a person, and there is no channel to ask: it looks odd");
  world_close(&w.stage);
}

TEST(first_gate_that_asks_is_shown_and_a_later_deny_asks_no_person) {
  for (int denies = 0; denies < 2; denies++) {
    world w = {.create = {.kind = TP_ANSWER_ASK, .reason = "new"},
               .rewrite = {.kind = TP_ANSWER_ASK, .reason = "rewritten"},
               .pre = {.kind = denies ? TP_ANSWER_DENY : TP_ANSWER_ASK, .reason = "pre"},
               .person = {.answers = TP_VERDICT_ALLOW}};
    open_world(&w, (tp_runtime_options){0}, true, false);
    tp_tool_result result = call_n(&w, 7);
    assert_kind(result, denies ? TP_TOOL_DENIED : TP_TOOL_OK);
    assert_int_equal(w.person.asked, denies ? 0 : 1);
    if (!denies) assert_non_null(strstr(w.person.words, "creates|new|"));
    world_close(&w.stage);
  }
}

static tp_answer deny_one(void *ctx, tp_call *call) {
  (void)ctx;
  bool one = tp_value_int(tp_value_get(tp_call_text(call, TP_FIELD_ARGUMENTS), "n"), 0) == 1;
  return one ? tp_call_deny(call, "no one") : tp_call_allow(call);
}

static tp_answer ask_first(void *ctx, tp_call *call) {
  return ++((act *)ctx)->calls == 1 ? tp_call_ask(call, "first") : tp_call_allow(call);
}

TEST(question_of_one_call_is_not_that_of_the_next) {
  world w = {.create_run = ask_first, .pre_run = deny_one, .person = {.answers = TP_VERDICT_ALLOW}};
  open_world(&w, (tp_runtime_options){0}, true, false);
  const tp_tool_call calls[] = {{.name = TEXT("t"), .arguments = TEXT("\x81\xa1n\x01")},
                                {.name = TEXT("t"), .arguments = TEXT("\x81\xa1n\x02")}};
  tp_tool_result results[2];
  assert_int_equal(tools_run(w.turn, calls, 2, results, NULL), TP_OK);
  assert_kind(results[0], TP_TOOL_DENIED);
  assert_kind(results[1], TP_TOOL_OK);
  assert_int_equal(w.person.asked, 0);
  world_close(&w.stage);
}

TEST(permission_is_a_floor_that_no_gate_lifts) {
  static const struct {
    int32_t permission;
    tp_answer gate;
    tp_tool_result_kind want;
    int asked;
  } cases[] = {{TP_PERMISSION_AUTO, TP_ANSWER_ALLOW, TP_TOOL_OK, 0},
               {TP_PERMISSION_ASK, TP_ANSWER_ALLOW, TP_TOOL_OK, 1},
               {TP_PERMISSION_NEVER, TP_ANSWER_ALLOW, TP_TOOL_DENIED, 0},
               {TP_PERMISSION_AUTO, TP_ANSWER_ASK, TP_TOOL_OK, 1},
               {TP_PERMISSION_ASK, TP_ANSWER_ASK, TP_TOOL_OK, 1},
               {TP_PERMISSION_NEVER, TP_ANSWER_ASK, TP_TOOL_DENIED, 0},
               {TP_PERMISSION_AUTO, TP_ANSWER_DENY, TP_TOOL_DENIED, 0},
               {TP_PERMISSION_NONE, TP_ANSWER_ALLOW, TP_TOOL_DENIED, 0},
               {99, TP_ANSWER_ALLOW, TP_TOOL_DENIED, 0}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    world w = {
        .pre = {.kind = cases[i].gate}, .permission = cases[i].permission, .person = {.answers = TP_VERDICT_ALLOW}};
    open_world(&w, (tp_runtime_options){0}, true, true);
    tp_tool_result result = call_n(&w, 7);
    assert_kind(result, cases[i].want);
    assert_int_equal(w.person.asked, cases[i].asked);
    assert_int_equal(w.runs, cases[i].want == TP_TOOL_OK);
    world_close(&w.stage);
  }
}

TEST(session_has_a_channel_and_a_permission_of_its_own) {
  world w = {.permission = TP_PERMISSION_NEVER};
  open_world(&w, (tp_runtime_options){0}, true, true);
  person own = {.answers = TP_VERDICT_ALLOW, .put = LATCH};
  int32_t own_permission = TP_PERMISSION_ASK;
  tp_session_options options = {.struct_size = sizeof options,
                                .id = "s",
                                .ask = ask,
                                .ask_ctx = &own,
                                .permission = permit,
                                .permission_ctx = &own_permission};
  tp_session *session;
  assert_int_equal(tp_session_open(w.runtime, &options, &session, NULL), TP_OK);
  tp_turn *outer = w.turn;
  assert_int_equal(tp_turn_begin(session, NULL, &w.turn, NULL), TP_OK);
  assert_int_equal(run_phase(w.turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL).outcome, TP_OK);
  tp_tool_result result = call_n(&w, 1);
  assert_kind(result, TP_TOOL_OK);
  assert_int_equal(own.asked, 1);
  assert_int_equal(w.person.asked, 0);
  tp_turn_end(w.turn);
  w.turn = outer;
  tp_session_close(session, NULL, NULL);
  result = call_n(&w, 1);
  assert_kind(result, TP_TOOL_DENIED);
  tp_turn *turns[16]; /* one of them in memory that the turn of the session had */
  for (size_t i = 0; i < COUNT(turns); i++) turns[i] = begin_bare(w.runtime, 0);
  for (size_t i = 0; i < COUNT(turns); i++) {
    w.turn = turns[i];
    assert_int_equal(run_phase(w.turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL).outcome, TP_OK);
    result = call_n(&w, 1);
    assert_kind(result, TP_TOOL_DENIED);
    tp_turn_end(w.turn);
  }
  w.turn = outer;
  assert_int_equal(own.asked, 1);
  world_close(&w.stage);
}

/* ---- later answers ---- */

typedef struct asker {
  world *w;
  tp_tool_result result;
} asker;

static void *call_there(void *arg) {
  asker *a = arg;
  char bytes[4];
  tp_tool_call call = {.id = TEXT("c1"), .name = TEXT("t"), .arguments = argument_n(bytes, 7)};
  if (tools_run(a->w->turn, &call, 1, &a->result, NULL) != TP_OK) a->result.kind = TP_TOOL_NONE;
  return NULL;
}

TEST(question_is_answered_once_from_another_thread) {
  world w = {.pre = {.kind = TP_ANSWER_ASK}};
  open_world(&w, (tp_runtime_options){0}, true, false);
  asker a = {.w = &w};
  pthread_t thread;
  tp_fault fault = {0};
  pthread_create(&thread, NULL, call_there, &a);
  latch_wait(&w.person.put, 1);
  assert_int_equal(tp_tool_complete(w.person.token, false, (tp_text)TEXT("no"), NULL), TP_ERR_USAGE);
  assert_int_equal(answer(&w.person, TP_VERDICT_ALLOW, &fault), TP_OK);
  assert_int_equal(answer(&w.person, TP_VERDICT_DENY, &fault), TP_ERR_STALE);
  assert_non_null(strstr(fault.message, "was answered"));
  pthread_join(thread, NULL);
  assert_kind(a.result, TP_TOOL_OK);
  assert_int_equal(w.runs, 1);
  world_close(&w.stage);
}

TEST(question_without_an_answer_expires_and_denies) {
  world w = {.pre = {.kind = TP_ANSWER_ASK}};
  open_world(&w, (tp_runtime_options){.ask_limit_ms = 5}, true, false);
  tp_tool_result result = call_n(&w, 7);
  assert_kind(result, TP_TOOL_DENIED);
  assert_says(result, "the question expired without an answer");
  assert_int_equal(answer(&w.person, TP_VERDICT_ALLOW, NULL), TP_ERR_STALE);
  world_close(&w.stage);
}

TEST(expired_question_frees_its_token) {
  world w = {.pre = {.kind = TP_ANSWER_ASK}};
  open_world(&w, (tp_runtime_options){.ask_limit_ms = 5, .deferred_max = 1}, true, false);
  for (int i = 0; i < 3; i++) {
    tp_tool_result result = call_n(&w, 7);
    assert_says(result, "the question expired without an answer");
  }
  assert_int_equal(w.person.asked, 3);
  world_close(&w.stage);
}

TEST(question_without_a_free_token_denies) {
  world w = {.pre = {.kind = TP_ANSWER_ASK}};
  open_world(&w, (tp_runtime_options){.ask_limit_ms = 5, .deferred_max = 1}, true, false);
  const tp_tool_call calls[] = {{.name = TEXT("t"), .arguments = TEXT("\x80")},
                                {.name = TEXT("t"), .arguments = TEXT("\x80")}};
  tp_tool_result results[2];
  assert_int_equal(tools_run(w.turn, calls, 2, results, NULL), TP_OK);
  assert_says(results[0], "expired");
  assert_says(results[1], "the question could not be put");
  world_close(&w.stage);
}

TEST(cancel_ends_an_open_question) {
  world w = {.pre = {.kind = TP_ANSWER_ASK}};
  open_world(&w, (tp_runtime_options){0}, true, false);
  asker a = {.w = &w};
  pthread_t thread;
  pthread_create(&thread, NULL, call_there, &a);
  latch_wait(&w.person.put, 1);
  tp_turn_cancel(w.turn);
  pthread_join(thread, NULL);
  assert_kind(a.result, TP_TOOL_CANCELLED);
  assert_int_equal(answer(&w.person, TP_VERDICT_ALLOW, NULL), TP_ERR_STALE);
  assert_int_equal(w.runs, 0);
  world_close(&w.stage);
}

TEST(time_that_a_turn_waits_for_people_is_not_its_own) {
  world w = {.pre = {.kind = TP_ANSWER_ASK}};
  open_world(&w, (tp_runtime_options){0}, true, false);
  tp_turn_end(w.turn);
  enum { LIMIT_MS = 200 };
  w.turn = begin_bare(w.runtime, LIMIT_MS);
  int64_t end_ns = now_ns() + LIMIT_MS * INT64_C(1000000);
  assert_int_equal(run_phase(w.turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL).outcome, TP_OK);
  asker a = {.w = &w};
  pthread_t thread;
  pthread_create(&thread, NULL, call_there, &a);
  latch_wait(&w.person.put, 1);
  while (now_ns() < end_ns + 1000000) sleep_ms(1); /* the turn's limit has passed, and the question's has not */
  assert_int_equal(answer(&w.person, TP_VERDICT_ALLOW, NULL), TP_OK);
  pthread_join(thread, NULL);
  assert_kind(a.result, TP_TOOL_OK);
  world_close(&w.stage);
}

/* ---- tool.create, tool.rewrite, tool.result ---- */

TEST(create_that_denies_stops_the_call_before_it_is_rewritten) {
  world w = {.create = {.kind = TP_ANSWER_DENY, .reason = "not in prod"}};
  open_world(&w, (tp_runtime_options){0}, false, false);
  tp_tool_result result = call_n(&w, 7);
  assert_kind(result, TP_TOOL_DENIED);
  assert_says(result, "hook creates blocked the action: not in prod");
  assert_int_equal(w.rewrite.calls, 0);
  assert_int_equal(w.pre.calls, 0);
  world_close(&w.stage);
}

TEST(rewritten_arguments_are_what_is_asked_about_and_run) {
  world w = {.rewrite = {.replaces = TP_FIELD_ARGUMENTS, .text = "\x81\xa1n\x09"},
             .pre = {.kind = TP_ANSWER_ASK},
             .person = {.answers = TP_VERDICT_ALLOW}};
  open_world(&w, (tp_runtime_options){0}, true, false);
  tp_tool_result result = call_n(&w, 7);
  assert_kind(result, TP_TOOL_OK);
  assert_string_equal(w.ran_with, "9");
  assert_memory_equal(w.person.arguments, "\x81\xa1n\x09", 4);
  assert_string_equal(w.filtered, "c1 ran n=9 is_error=0");
  world_close(&w.stage);
}

TEST(rewritten_arguments_are_checked_by_the_schema) {
  world w = {.rewrite = {.replaces = TP_FIELD_ARGUMENTS, .text = "\x91\x09"}};
  open_world(&w, (tp_runtime_options){0}, true, false);
  tp_tool_result result = call_n(&w, 7);
  assert_kind(result, TP_TOOL_INVALID_ARGUMENTS);
  assert_int_equal(w.pre.calls, 0);
  world_close(&w.stage);
}

TEST(arguments_that_were_no_json_can_be_rewritten) {
  world w = {.rewrite = {.replaces = TP_FIELD_ARGUMENTS, .text = "\x81\xa1n\x09"}};
  open_world(&w, (tp_runtime_options){0}, true, false);
  tp_tool_call call = {.id = TEXT("c1"), .name = TEXT("t"), .arguments = TEXT("{\"n\": "), .malformed = true};
  tp_tool_result result;
  assert_int_equal(tools_run(w.turn, &call, 1, &result, NULL), TP_OK);
  assert_kind(result, TP_TOOL_OK);
  assert_string_equal(w.ran_with, "9");
  world_close(&w.stage);
}

TEST(ready_result_stands_for_the_run_once_the_gates_allow_it) {
  for (int denies = 0; denies < 2; denies++) {
    world w = {.rewrite = {.replaces = TP_FIELD_RESULT, .text = "from the cache"},
               .pre = {.kind = denies ? TP_ANSWER_DENY : TP_ANSWER_ALLOW}};
    open_world(&w, (tp_runtime_options){0}, true, false);
    tp_tool_result result = call_n(&w, 7);
    assert_kind(result, denies ? TP_TOOL_DENIED : TP_TOOL_OK);
    assert_int_equal(w.runs, 0);
    assert_false(result.started);
    if (!denies) assert_text(result.text, "from the cache");
    assert_string_equal(w.filtered, denies ? "" : "c1 from the cache n=7 is_error=0");
    world_close(&w.stage);
  }
}

TEST(rewriter_needs_the_grant) {
  static const struct {
    tp_trust trust;
    tp_grant grants;
    tp_status want;
  } cases[] = {{TP_TRUST_HOST, 0, TP_ERR_PRIVILEGED},
               {TP_TRUST_HOST, TP_GRANT_PRIVILEGED_HOOKS, TP_ERR_PRIVILEGED},
               {TP_TRUST_HOST, TP_GRANT_REWRITE, TP_OK},
               {TP_TRUST_DECLARED, 0, TP_ERR_CODE_ONLY},
               {TP_TRUST_DECLARED, TP_GRANT_PRIVILEGED_HOOKS, TP_ERR_CODE_ONLY},
               {TP_TRUST_DECLARED, TP_GRANT_REWRITE, TP_OK},
               {TP_TRUST_BUILTIN, 0, TP_OK}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_runtime *runtime = open_runtime(NULL);
    tp_owner owner = {.struct_size = sizeof owner, .name = "o", .trust = cases[i].trust, .grants = cases[i].grants};
    act a = {0};
    tp_edit *edit;
    tp_fault fault = {0};
    assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
    assert_int_equal(hook_add(edit, &(hook){.id = "r", .phase = TP_PHASE_TOOL_REWRITE, .ctx = &a}), TP_OK);
    assert_int_equal(tp_edit_commit(edit, NULL, &fault), cases[i].want);
    if (cases[i].want == TP_ERR_PRIVILEGED) assert_non_null(strstr(fault.message, "nor granted rewrite"));
    if (cases[i].want != TP_OK) tp_edit_discard(edit);
    close_runtime(runtime);
  }
}

/* The grant is only about tools: a phase of the host for code only still refuses the hook. */
TEST(grant_opens_no_phase_of_the_host) {
  static const uint32_t fields[] = {TP_FIELD_TEXT};
  static const tp_phase row = {.struct_size = sizeof row,
                               .name = "host.code",
                               .mode = TP_MODE_CHAIN,
                               .code_only = true,
                               .limit_ms = 1000,
                               .fields = fields,
                               .field_count = 1};
  tp_runtime_options options = {
      .struct_size = sizeof options, .phases = (const tp_phase *const[]){&row}, .phase_count = 1};
  tp_runtime *runtime = open_runtime(&options);
  tp_owner owner = {.struct_size = sizeof owner, .name = "o", .trust = TP_TRUST_DECLARED, .grants = TP_GRANT_REWRITE};
  act a = {0};
  tp_edit *edit;
  assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
  assert_int_equal(hook_add(edit, &(hook){.id = "r", .phase = TP_PHASE_HOST, .ctx = &a}), TP_OK);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_ERR_CODE_ONLY);
  tp_edit_discard(edit);
  close_runtime(runtime);
}

TEST(answer_is_read_strictly_and_finds_no_question) {
  tp_fault fault = {0};
  tp_token token = {7};
  tp_decision decision = {.struct_size = sizeof decision, .verdict = TP_VERDICT_DENY, .reason = TEXT("no")};
  assert_int_equal(tp_question_answer(token, &decision, &fault), TP_ERR_STALE);
  assert_non_null(strstr(fault.message, "no question"));
  decision.verdict = TP_VERDICT_ALLOW;
  assert_int_equal(tp_question_answer((tp_token){0}, &decision, NULL), TP_ERR_STALE);
  static const tp_verdict wrong[] = {(tp_verdict)0, TP_VERDICT_NONE, TP_VERDICT_ASK, (tp_verdict)99};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    decision.verdict = wrong[i];
    assert_int_equal(tp_question_answer(token, &decision, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, "verdict"));
  }
  decision.verdict = TP_VERDICT_ALLOW;
  char long_name[130];
  memset(long_name, 'a', sizeof long_name);
  decision.person = (tp_text){long_name, 129};
  assert_int_equal(tp_question_answer(token, &decision, &fault), TP_ERR_TOO_LARGE);
  decision.person = (tp_text)TEXT("\xff");
  assert_int_equal(tp_question_answer(token, &decision, &fault), TP_ERR_UTF8);
  decision.person = (tp_text){NULL, 0};
  decision.reserved_ = 1;
  assert_int_equal(tp_question_answer(token, &decision, &fault), TP_ERR_USAGE);
  decision.struct_size = 1;
  assert_int_equal(tp_question_answer(token, &decision, &fault), TP_ERR_VERSION);
  assert_int_equal(tp_question_answer(token, NULL, &fault), TP_ERR_USAGE);
}

/* ---- tool.ask answers instead of a person, and tool.denied sees denied calls ---- */

static tp_answer note_denied(void *ctx, tp_call *call) {
  world *w = ctx;
  tp_text tool = tp_call_text(call, TP_FIELD_TOOL), id = tp_call_text(call, TP_FIELD_CALL_ID);
  tp_text reason = tp_call_text(call, TP_FIELD_REASON);
  snprintf(w->filtered, sizeof w->filtered, "denied %.*s %.*s n=%d %.*s", (int)tool.size, tool.data, (int)id.size,
           id.data, (int)tp_value_int(tp_value_get(tp_call_text(call, TP_FIELD_ARGUMENTS), "n"), -1), (int)reason.size,
           reason.data);
  return TP_ANSWER_DONE;
}

/* As rewrite(), in tool.ask; it notes what it was asked about. */
static tp_answer answer_ask(void *ctx, tp_call *call) {
  tp_text reason = tp_call_text(call, TP_FIELD_REASON);
  if (reason.size != 3 || memcmp(reason.data, "odd", 3) != 0) return TP_ANSWER_NONE;
  return rewrite(ctx, call);
}

typedef struct asked_row {
  act ask, pre;
  tp_handler_fn pre_run; /* NULL: as pre says */
  tp_verdict person;
  bool channel, permission;
  tp_tool_result_kind kind;
  int asked, ran_with;
  const char *denied; /* what tool.denied sees; NULL: nothing */
} asked_row;

static void check_asked(const asked_row *row, size_t index) {
  world w = {.pre = row->pre, .pre_run = row->pre_run, .person = {.answers = row->person, .reason = "no"}};
  w.permission = row->permission ? TP_PERMISSION_ASK : TP_PERMISSION_AUTO;
  act asks = row->ask;
  open_world(&w, (tp_runtime_options){0}, row->channel, row->permission);
  const hook hooks[] = {{.id = "answers", .phase = TP_PHASE_TOOL_ASK, .run = answer_ask, .ctx = &asks},
                        {.id = "sees", .phase = TP_PHASE_TOOL_DENIED, .run = note_denied, .ctx = &w}};
  add_hooks(w.runtime, hooks, COUNT(hooks));
  tp_turn_end(w.turn);
  world_begin_bare(&w.stage);
  tp_tool_result result = call_n(&w, 7);
  if (result.kind != row->kind) fail_msg("row %zu: %s", index, tp_tool_result_name(result.kind));
  if (w.person.asked != row->asked) fail_msg("row %zu: asked %d times", index, w.person.asked);
  if (row->kind == TP_TOOL_OK && atoi(w.ran_with) != row->ran_with) fail_msg("row %zu: n=%s", index, w.ran_with);
  bool was_seen = strncmp(w.filtered, "denied ", 7) == 0;
  if (was_seen != (row->denied != NULL) || (was_seen && !strstr(w.filtered, row->denied)))
    fail_msg("row %zu: %s", index, w.filtered);
  world_close(&w.stage);
}

#define ODD \
  { .kind = TP_ANSWER_ASK, .reason = "odd" }
#define NINE .replaces = TP_FIELD_ARGUMENTS, .text = "\x81\xa1n\x09"
#define ONE .replaces = TP_FIELD_ARGUMENTS, .text = "\x81\xa1n\x01"

static tp_answer ask_but_deny_one(void *ctx, tp_call *call) {
  (void)ctx;
  bool is_one = tp_value_int(tp_value_get(tp_call_text(call, TP_FIELD_ARGUMENTS), "n"), 0) == 1;
  return is_one ? tp_call_deny(call, "no one") : tp_call_ask(call, "odd");
}

TEST(handler_of_tool_ask_answers_in_place_of_a_person) {
  static const asked_row cases[] = {
      {.ask = {.kind = TP_ANSWER_ALLOW},
       .pre = ODD,
       .person = TP_VERDICT_DENY,
       .channel = true,
       .kind = TP_TOOL_OK,
       .ran_with = 7},
      {.ask = {.kind = TP_ANSWER_ALLOW}, .pre = ODD, .kind = TP_TOOL_OK, .ran_with = 7}, /* no channel is needed */
      {.ask = {.kind = TP_ANSWER_DENY, .reason = "never"},
       .pre = ODD,
       .person = TP_VERDICT_ALLOW,
       .channel = true,
       .kind = TP_TOOL_DENIED,
       .denied = "t c1 n=7 never"},
      {.pre = ODD, .person = TP_VERDICT_ALLOW, .channel = true, .asked = 1, .kind = TP_TOOL_OK, .ran_with = 7},
      {.pre = ODD,
       .person = TP_VERDICT_DENY,
       .channel = true,
       .kind = TP_TOOL_DENIED,
       .asked = 1,
       .denied = "a person denied it: no"},
      {.pre = ODD, .kind = TP_TOOL_DENIED, .denied = "there is no channel to ask"},
      {.ask = {.kind = TP_ANSWER_FAILED, .reason = "broken"},
       .pre = ODD,
       .person = TP_VERDICT_ALLOW,
       .channel = true,
       .asked = 1,
       .kind = TP_TOOL_OK,
       .ran_with = 7}, /* best effort: the person is asked */
      {.ask = {.kind = TP_ANSWER_ALLOW, NINE}, .pre = ODD, .kind = TP_TOOL_OK, .ran_with = 9},
      {.ask = {NINE},
       .pre = ODD,
       .person = TP_VERDICT_ALLOW,
       .channel = true,
       .asked = 1,
       .kind = TP_TOOL_OK,
       .ran_with = 9},
      {.ask = {.kind = TP_ANSWER_ALLOW, ONE},
       .pre_run = ask_but_deny_one,
       .kind = TP_TOOL_DENIED,
       .denied = "t c1 n=1 no one"}, /* guards look at it again */
      {.ask = {.kind = TP_ANSWER_ALLOW, .replaces = TP_FIELD_ARGUMENTS, .text = "\x91\x09"},
       .pre = ODD,
       .kind = TP_TOOL_INVALID_ARGUMENTS}, /* and so does the schema */
      {.ask = {.kind = TP_ANSWER_DENY, .reason = "never"},
       .channel = true,
       .kind = TP_TOOL_OK,
       .ran_with = 7}, /* nothing asks */
      {.pre = {.kind = TP_ANSWER_DENY, .reason = "not here"}, .kind = TP_TOOL_DENIED, .denied = "t c1 n=7 not here"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) check_asked(&cases[i], i);
}

/* ---- a person edits the arguments ---- */

typedef struct edit_row {
  const char *name;
  tp_text edits;
  act pre;
  tp_handler_fn pre_run; /* NULL: as pre says */
  act ask;               /* of a handler of tool.ask */
  int32_t permission;    /* 0: no callback */
  bool other_hash;
  tp_tool_result_kind kind;
  int asked, ran_with;
  const char *says; /* in the result */
} edit_row;

#define MAP_N(byte) \
  { "\x81\xa1n" byte, 4 }

static const edit_row edits[] = {
    {.name = "other number", .edits = MAP_N("\x09"), .pre = ODD, .kind = TP_TOOL_OK, .asked = 1, .ran_with = 9},
    {.name = "as before", .pre = ODD, .kind = TP_TOOL_OK, .asked = 1, .ran_with = 7},
    {.name = "same bytes", .edits = MAP_N("\x07"), .pre = ODD, .kind = TP_TOOL_OK, .asked = 1, .ran_with = 7},
    {.name = "a gate denies what was edited",
     .edits = MAP_N("\x01"),
     .pre_run = ask_but_deny_one,
     .kind = TP_TOOL_DENIED,
     .asked = 1,
     .says = "no one"},
    {.name = "a gate asks about what was edited",
     .edits = MAP_N("\x02"),
     .pre_run = ask_but_deny_one,
     .kind = TP_TOOL_OK,
     .asked = 1,
     .ran_with = 2},
    {.name = "the schema refuses what was edited",
     .edits = {"\x81\xa1n\xa1x", 5},
     .pre = ODD,
     .kind = TP_TOOL_INVALID_ARGUMENTS,
     .asked = 1,
     .says = "n"},
    {.name = "the schema misses a member",
     .edits = {"\x80", 1},
     .pre = ODD,
     .kind = TP_TOOL_INVALID_ARGUMENTS,
     .asked = 1},
    {.name = "another member",
     .edits = {"\x82\xa1n\x03\xa1m\x04", 7},
     .pre = ODD,
     .kind = TP_TOOL_OK,
     .asked = 1,
     .ran_with = 3},
    {.name = "the host asks for each call",
     .edits = MAP_N("\x09"),
     .permission = TP_PERMISSION_ASK,
     .kind = TP_TOOL_OK,
     .asked = 1,
     .ran_with = 9},
    {.name = "an answer to other arguments edits nothing",
     .edits = MAP_N("\x09"),
     .pre = ODD,
     .other_hash = true,
     .kind = TP_TOOL_DENIED,
     .asked = 1,
     .says = "other arguments"},
    {.name = "a handler edits, then a person",
     .edits = MAP_N("\x05"),
     .pre = ODD,
     .ask = {NINE},
     .kind = TP_TOOL_OK,
     .asked = 1,
     .ran_with = 5},
    {.name = "a handler allows: no person is asked",
     .edits = MAP_N("\x05"),
     .pre = ODD,
     .ask = {.kind = TP_ANSWER_ALLOW},
     .kind = TP_TOOL_OK,
     .ran_with = 7},
};

static void check_edit(const edit_row *row) {
  static const char schema[] =
      "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}}, \"required\": [\"n\"]}";
  world w = {
      .pre = row->pre,
      .pre_run = row->pre_run,
      .schema = schema,
      .permission = row->permission,
      .person = {.answers = TP_VERDICT_ALLOW, .name = "ada", .edits = row->edits, .other_hash = row->other_hash}};
  act asks = row->ask;
  open_world(&w, (tp_runtime_options){0}, true, row->permission != 0);
  const hook answers = {.id = "answers", .phase = TP_PHASE_TOOL_ASK, .run = answer_ask, .ctx = &asks};
  if (row->ask.kind || row->ask.replaces) {
    add_hooks(w.runtime, &answers, 1);
    tp_turn_end(w.turn);
    world_begin_bare(&w.stage);
  }
  tp_tool_result result = call_n(&w, 7);
  if (result.kind != row->kind)
    fail_msg("%s: %s: %.*s", row->name, tp_tool_result_name(result.kind), (int)result.text.size, result.text.data);
  if (w.person.asked != row->asked) fail_msg("%s: asked %d times", row->name, w.person.asked);
  if (row->kind == TP_TOOL_OK && atoi(w.ran_with) != row->ran_with) fail_msg("%s: n=%s", row->name, w.ran_with);
  assert_int_equal(w.runs, row->kind == TP_TOOL_OK);
  if (row->says) assert_says(result, row->says);
  rows r = {""};
  tp_runtime_audit(w.runtime, TP_VISIBILITY_USER_VISIBLE, note_row, &r);
  bool edited = row->edits.size > 0 && !row->other_hash && row->asked;
  if (edited != (strstr(r.text, ": t: after: {") != NULL) || edited != (strstr(r.text, ", edited to ") != NULL))
    fail_msg("%s: %s", row->name, r.text);
  if (edited) assert_non_null(strstr(r.text, ": t: before: {\"n\":"));
  world_close(&w.stage);
}

TEST(arguments_that_a_person_edits_pass_the_schema_and_the_gates_again) {
  for (size_t i = 0; i < COUNT(edits); i++) check_edit(&edits[i]);
}

TEST(edit_that_is_malformed_is_refused_and_the_question_stays) {
  char *large = malloc((1 << 20) + 1);
  memset(large, 0xc0, (1 << 20) + 1);
  const struct {
    tp_verdict verdict;
    tp_text edits;
    tp_status status;
    const char *says;
  } wrong[] = {{TP_VERDICT_DENY, MAP_N("\x01"), TP_ERR_USAGE, "allow"},
               {TP_VERDICT_ALLOW, {"\x91\x01", 2}, TP_ERR_MALFORMED, "map"},
               {TP_VERDICT_ALLOW, {"\xa1x", 2}, TP_ERR_MALFORMED, "map"},
               {TP_VERDICT_ALLOW, {"\xc0", 1}, TP_ERR_MALFORMED, "map"},
               {TP_VERDICT_ALLOW, {"\x81\xa1n", 3}, TP_ERR_MALFORMED, ""},
               {TP_VERDICT_ALLOW, {"\x80\x80", 2}, TP_ERR_MALFORMED, ""},
               {TP_VERDICT_ALLOW, {"\x81\xa1\xff\x01", 4}, TP_ERR_UTF8, ""},
               {TP_VERDICT_ALLOW, {large, (1 << 20) + 1}, TP_ERR_TOO_LARGE, "1048576"}};
  world w = {.pre = {.kind = TP_ANSWER_ASK}};
  open_world(&w, (tp_runtime_options){0}, true, false);
  asker later = {.w = &w};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, call_there, &later), 0);
  latch_wait(&w.person.put, 1);
  for (size_t i = 0; i < COUNT(wrong); i++) {
    tp_fault fault = {0};
    w.person.edits = wrong[i].edits;
    tp_status status = answer(&w.person, wrong[i].verdict, &fault);
    if (status != wrong[i].status || !strstr(fault.message, wrong[i].says)) fail_msg("%zu: %s", i, fault.message);
  }
  w.person.edits = (tp_text)MAP_N("\x04");
  assert_int_equal(answer(&w.person, TP_VERDICT_ALLOW, NULL), TP_OK);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_kind(later.result, TP_TOOL_OK);
  assert_string_equal(w.ran_with, "4");
  world_close(&w.stage);
  free(large);
}

TEST(model_reads_that_a_person_changed_the_arguments) {
  static const reply replies[] = {{.text = "",
                                   .calls = {{.id = TEXT("c1"), .name = TEXT("t"), .arguments = {"\x81\xa1n\x07", 4}}},
                                   .call_count = 1},
                                  {.text = "done"}};
  world w = {.pre = {.kind = TP_ANSWER_ASK},
             .person = {.answers = TP_VERDICT_ALLOW, .name = "ada", .edits = MAP_N("\x09")}};
  open_world(&w, (tp_runtime_options){0}, true, false);
  recorder *model = recorder_new(replies, COUNT(replies));
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = recorder_model(model, true)};
  tp_session *session;
  assert_int_equal(tp_session_open(w.runtime, &options, &session, NULL), TP_OK);
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go")};
  assert_int_equal(tp_turn_run(session, &request, NULL, NULL), TP_OK);
  if (!strstr(model->requests[1],
              "The person ada changed the arguments of the call c1 of t before it ran. They are now: "
              "{\"n\":9}"))
    fail_msg("%s", model->requests[1]);
  assert_string_equal(w.ran_with, "9");
  tp_session_close(session, NULL, NULL);
  world_close(&w.stage);
  recorder_free(model);
}
