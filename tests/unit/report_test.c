/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports about handlers for an operator: log lines and audit rows. */
#include "tests/support/test.h"
#include "tests/support/model.h"

/* ---- a log and an audit as text ---- */

typedef struct notes {
  pthread_mutex_t mutex;
  char log[8192];
  char audit[65536];
  char about[65536]; /* the other fields of the log records */
  int rows;
} notes;

#define NOTES \
  { .mutex = PTHREAD_MUTEX_INITIALIZER }

static void keep_log(void *ctx, const tp_log_record *record) {
  notes *n = ctx;
  pthread_mutex_lock(&n->mutex);
  size_t used = strlen(n->log);
  snprintf(n->log + used, sizeof n->log - used, "%s %s\n", tp_log_level_name(record->level), record->message);
  used = strlen(n->about);
  assert_int_equal(record->struct_size, sizeof *record);
  snprintf(n->about + used, sizeof n->about - used, "%s %u %s turn %.*s%s\n", tp_status_name(record->status),
           record->phase, record->subscription ? record->subscription : "-", (int)record->turn_id.size,
           record->turn_id.size ? record->turn_id.data : "", record->unix_ms > 0 ? "" : " without time");
  pthread_mutex_unlock(&n->mutex);
}

static bool keep_row(void *ctx, const tp_audit *row) {
  notes *n = ctx;
  size_t used = strlen(n->audit);
  n->rows++;
  assert_int_equal(row->struct_size, sizeof *row);
  if (row->subscription)
    snprintf(n->audit + used, sizeof n->audit - used, "%s %s %u %s %s %s: %s\n", row->action, row->subscription,
             row->phase, tp_state_name(row->state), tp_reason_name(row->reason), tp_status_name(row->status),
             row->detail);
  return true;
}

static void read_audit(tp_runtime *runtime, notes *n, tp_visibility visibility_min) {
  n->audit[0] = '\0';
  n->rows = 0;
  int rows = (int)tp_runtime_audit(runtime, visibility_min, keep_row, n);
  assert_int_equal(rows, n->rows);
}

static void assert_has(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("`%s` is not in:\n%s", part, text);
}

static tp_runtime *open_noted(notes *n, tp_log_level level, const hook *hooks, size_t count) {
  tp_runtime_options options = {.struct_size = sizeof options, .log = keep_log, .log_ctx = n, .log_level = level};
  tp_runtime *runtime = open_runtime(&options);
  add_hooks(runtime, hooks, count);
  return runtime;
}

static void run_bare(tp_runtime *runtime, uint32_t phase) {
  tp_turn_request request = {.struct_size = sizeof request, .id = "turn7"};
  tp_turn *turn;
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_turn_begin_bare(runtime, &request, &turn, NULL), TP_OK);
  assert_int_equal(tp_phase_run(turn, phase, NULL, &result, NULL), TP_OK);
  tp_turn_end(turn);
}

/* ---- visibility ---- */

static tp_answer answers(void *ctx, tp_call *call) {
  return ctx ? tp_call_fail(call, 7, "as it was set") : tp_call_allow(call);
}

static bool keep_runs(void *ctx, const tp_entry_record *record) {
  char *seen = ctx;
  size_t used = strlen(seen);
  for (size_t i = 0; i < record->run_count; i++) {
    tp_run_record run = record_row(record, i);
    used += (size_t)sprintf(seen + used, "%s:%s ", run.subscription, tp_visibility_name((tp_visibility)run.visibility));
  }
  tp_run_record none = {.struct_size = sizeof none};
  assert_false(record->run(record->source, record->run_count, &none));
  if (record->run_count > 1) { /* back again */
    tp_run_record first = record_row(record, 0), last = record_row(record, record->run_count - 1);
    assert_string_not_equal(first.subscription, last.subscription);
    assert_string_equal(record_row(record, 0).subscription, first.subscription);
  }
  return true;
}

static void assert_runs(tp_runtime *runtime, tp_visibility min, const char *expected) {
  char seen[256] = "";
  tp_record_query query = {.struct_size = sizeof query, .visibility_min = (uint32_t)min};
  assert_int_equal(tp_runtime_records(runtime, &query, keep_runs, seen, NULL), TP_OK);
  assert_string_equal(seen, expected);
}

/* Once with rows in the packed form of successful runs, once with a row that failed. */
TEST(rows_of_records_below_the_asked_visibility_are_left_out) {
  for (int fails = 0; fails < 2; fails++) {
    notes n = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    hook hooks[] = {
        {.id = "a", .phase = TP_PHASE_TURN_INTAKE, .run = answers},
        {.id = "b",
         .phase = TP_PHASE_TURN_INTAKE,
         .run = answers,
         .ctx = fails ? &n : NULL,
         .sub = {.visibility = TP_VISIBILITY_USER_AUDIT}},
        {.id = "c", .phase = TP_PHASE_TURN_INTAKE, .run = answers, .sub = {.visibility = TP_VISIBILITY_USER_VISIBLE}},
    };
    tp_runtime *runtime = open_noted(&n, TP_LOG_ERROR, hooks, 3);
    run_bare(runtime, TP_PHASE_TURN_INTAKE);
    assert_runs(runtime, TP_VISIBILITY_INTERNAL, "a:internal b:user_audit c:user_visible ");
    assert_runs(runtime, TP_VISIBILITY_USER_AUDIT, "b:user_audit c:user_visible ");
    assert_runs(runtime, TP_VISIBILITY_USER_VISIBLE, "c:user_visible ");
    tp_record_query unknown = {.struct_size = sizeof unknown, .visibility_min = 4};
    tp_fault fault;
    assert_int_equal(tp_runtime_records(runtime, &unknown, keep_runs, &n, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, "visibility_min 4"));
    tp_runtime_free(runtime);
  }
}

/* ---- failures and denials ---- */

TEST(failing_late_and_refused_handlers_leave_a_log_line_and_an_audit_row) {
  static const tp_contribution policy = {.struct_size = sizeof(tp_contribution),
                                         .kind = TP_CONTRIBUTION_POLICY,
                                         .domain = TEXT("d"),
                                         .key = TEXT("k"),
                                         .text = TEXT("v")};
  struct {
    act act;
    hook hook;
    const char *log, *row, *about;
  } cases[] = {
      {.act = {.kind = TP_ANSWER_FAILED, .reason = "no disk"},
       .hook = {.sub = {.failure = TP_FAILURE_BEST_EFFORT}},
       .log = "warning failure of hook h in turn.pre_policy: failed, error: no disk",
       .row = "failure h 6 failed error TP_ERR_HOOK: no disk",
       .about = "TP_ERR_HOOK 6 h turn turn7\n"},
      {.act = {.kind = TP_ANSWER_FAILED, .reason = "no disk"},
       .hook = {.sub = {.failure = TP_FAILURE_REQUIRED}},
       .log = "error failure of hook h in turn.pre_policy: failed, error: no disk",
       .row = "failure h 6 failed error TP_ERR_HOOK: no disk",
       .about = "TP_ERR_HOOK 6 h turn turn7\n"},
      {.act = {.sleeps_ms = 50},
       .hook = {.slow = true, .sub = {.limit_ms = 1, .failure = TP_FAILURE_BEST_EFFORT}},
       .log = "warning failure of hook h in turn.pre_policy: timed_out, timeout",
       .row = "failure h 6 timed_out timeout TP_ERR_TIMEOUT: ",
       .about = "TP_ERR_TIMEOUT 6 h turn turn7\n"},
      {.act = {.emits = &policy, .emit_count = 1},
       .hook = {.no_capability = true, .sub = {.failure = TP_FAILURE_BEST_EFFORT}},
       .log = "warning failure of hook h in turn.pre_policy: failed, capability",
       .row = "failure h 6 failed capability TP_ERR_CAPABILITY: ",
       .about = "TP_ERR_CAPABILITY 6 h turn turn7\n"},
      {.act = {.kind = TP_ANSWER_DENY},
       .hook = {.sub = {.failure = TP_FAILURE_BEST_EFFORT}},
       .log = "warning failure of hook h in turn.pre_policy: failed, capability",
       .row = "failure h 6 failed capability TP_ERR_CAPABILITY: ",
       .about = "TP_ERR_CAPABILITY 6 h turn turn7\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    notes n = NOTES;
    cases[i].hook.id = "h";
    cases[i].hook.phase = TP_PHASE_TURN_PRE_POLICY;
    cases[i].hook.ctx = &cases[i].act;
    tp_runtime *runtime = open_noted(&n, 0, &cases[i].hook, 1);
    run_bare(runtime, TP_PHASE_TURN_PRE_POLICY);
    assert_has(n.log, cases[i].log);
    assert_has(n.log, ", turn turn7");
    assert_has(n.about, cases[i].about);
    read_audit(runtime, &n, TP_VISIBILITY_INTERNAL);
    assert_has(n.audit, cases[i].row);
    assert_int_equal(n.rows, 2); /* and that of the commit */
    read_audit(runtime, &n, TP_VISIBILITY_USER_AUDIT);
    assert_int_equal(n.rows, 1);
    close_runtime(runtime);
  }
}

TEST(successful_skipped_and_cancelled_runs_are_not_reported) {
  notes n = NOTES;
  act fine = {0}, allows = {.kind = TP_ANSWER_ALLOW};
  hook hooks[] = {{.id = "fine", .phase = TP_PHASE_TURN_INTAKE, .ctx = &fine},
                  {.id = "allows", .phase = TP_PHASE_TURN_INTAKE, .ctx = &allows},
                  {.id = "off", .phase = TP_PHASE_TURN_INTAKE, .ctx = &fine}};
  tp_runtime *runtime = open_noted(&n, 0, hooks, 3);
  assert_int_equal(tp_subscription_kill(runtime, "off", true, NULL), TP_OK);
  run_bare(runtime, TP_PHASE_TURN_INTAKE);
  assert_string_equal(n.log, "");
  read_audit(runtime, &n, TP_VISIBILITY_INTERNAL);
  assert_string_equal(n.audit, "");
  close_runtime(runtime);
}

TEST(rows_of_runs_never_displace_those_of_registration) {
  notes n = NOTES;
  act fails = {.kind = TP_ANSWER_FAILED};
  hook h = {.id = "h", .phase = TP_PHASE_MODEL_PRE, .ctx = &fails};
  tp_runtime *runtime = open_noted(&n, TP_LOG_ERROR, &h, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  for (int i = 0; i < 1100; i++) {
    tp_phase_result result = run_phase(turn, TP_PHASE_MODEL_PRE, NULL);
    tp_phase_result_release(turn, &result);
  }
  tp_turn_end(turn);
  assert_int_equal(tp_subscription_kill(runtime, "h", true, NULL), TP_OK);
  read_audit(runtime, &n, TP_VISIBILITY_USER_VISIBLE); /* h is internal */
  assert_int_equal(n.rows, 2);
  assert_int_equal(tp_runtime_audit(runtime, TP_VISIBILITY_INTERNAL, NULL, NULL), 1024 + 2);
  assert_string_equal(n.log, ""); /* a warning is below the level */
  close_runtime(runtime);
}

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("did it"));
}

TEST(refused_contribution_says_which_field_and_why) {
  static const tp_tool without_function = {.struct_size = sizeof(tp_tool), .name = "city"};
  static const tp_tool *const tools[] = {&without_function};
  static char large[(1 << 20) + 1];
  memset(large, 'x', sizeof large);
  const struct {
    tp_contribution contribution;
    uint32_t phase;
    const char *why;
  } cases[] = {
      {{.kind = TP_CONTRIBUTION_POLICY, .domain = TEXT("tool"), .key = TEXT("shell"), .text = TEXT("denny")},
       TP_PHASE_TURN_PRE_POLICY,
       "failed, malformed: policy: text must be deny, ask or allow in the domain tool"},
      {{.kind = TP_CONTRIBUTION_TOOL_BUNDLE, .key = TEXT("b"), .tools = tools, .tool_count = 1},
       TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION,
       "failed, malformed: tool city has no function: set tp_tool.run, or inbox"},
      {{.kind = TP_CONTRIBUTION_AUDIT, .key = TEXT("a"), .text = {large, sizeof large}},
       TP_PHASE_TURN_PRE_POLICY,
       "failed, malformed: what it contributes has more than 1 MiB"},
      {{.kind = TP_CONTRIBUTION_TOOL_BUNDLE, .key = TEXT("b")},
       TP_PHASE_TURN_PRE_POLICY,
       "failed, capability: it contributes tool_bundle, which its capabilities do not allow"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    notes n = NOTES;
    tp_contribution contribution = cases[i].contribution;
    contribution.struct_size = sizeof contribution;
    act emits = {.emits = &contribution, .emit_count = 1};
    hook h = {.id = "h", .phase = cases[i].phase, .ctx = &emits};
    tp_runtime *runtime = open_noted(&n, 0, &h, 1);
    run_bare(runtime, cases[i].phase);
    assert_has(n.log, cases[i].why);
    close_runtime(runtime);
  }
}

/* ---- in a driven turn ---- */

#define CALL(call_id, tool)                                             \
  {                                                                     \
    .id = TEXT(call_id), .name = TEXT(tool), .arguments = { "\x80", 1 } \
  }

static void say(tp_runtime *runtime, const reply *replies, size_t count, const tp_listener *listener) {
  recorder *model = recorder_new(replies, count);
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = recorder_model(model, true)};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  if (listener) assert_int_equal(tp_session_listen(session, listener, NULL, NULL), TP_OK);
  tp_turn_request request = {.struct_size = sizeof request, .id = "turn7", .text = tp_text_of("hello")};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
  assert_int_equal(tp_runtime_drain(runtime, 10000, NULL, NULL), TP_OK);
  recorder_free(model);
}

static const reply calls_shell[] = {{.text = "", .calls = {CALL("a", "shell")}, .call_count = 1}, {.text = "ok"}};

TEST(denial_says_which_tool_and_why) {
  static const tp_tool shell = {.struct_size = sizeof(tp_tool), .name = "shell", .run = run_tool};
  static const tp_tool *const shells[] = {&shell};
  static const tp_contribution bundle = {.struct_size = sizeof(tp_contribution),
                                         .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                         .key = TEXT("b"),
                                         .tools = shells,
                                         .tool_count = 1};
  static const tp_contribution policy = {.struct_size = sizeof(tp_contribution),
                                         .kind = TP_CONTRIBUTION_POLICY,
                                         .domain = TEXT("tool"),
                                         .key = TEXT("shell"),
                                         .text = TEXT("deny")};
  static const struct {
    tp_answer kind;
    bool by_policy;
    const char *log, *row;
  } cases[] = {
      {.kind = TP_ANSWER_DENY,
       .log = "info denial of hook gate in tool.pre (`shell`): not today",
       .row = "denial gate 16 succeeded none TP_ERR_DENIED: shell: not today"},
      {.kind = TP_ANSWER_ASK,
       .log = "info denial of hook gate in tool.pre (`shell`): it asks a person",
       .row = "denial gate 16 none none TP_ERR_DENIED: shell: it asks a person"},
      {.kind = TP_ANSWER_FAILED,
       .log = "error failure of hook gate in tool.pre (`shell`): failed, error: not today",
       .row = "failure gate 16 failed error TP_ERR_HOOK: shell: not today"},
      {.by_policy = true,
       .log = "info denial of hook policy in tool.pre (`shell`): the turn's policy denies this tool",
       .row = "denial policy 16 none none TP_ERR_DENIED: shell: the turn's policy"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    notes n = NOTES;
    act tools = {.emits = &bundle, .emit_count = 1}, gate = {.kind = cases[i].kind, .reason = "not today"};
    act says = {.emits = &policy, .emit_count = cases[i].by_policy};
    hook hooks[] = {{.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &tools},
                    {.id = "gate", .phase = TP_PHASE_TOOL_PRE, .ctx = &gate},
                    {.id = "says", .phase = TP_PHASE_TURN_PRE_POLICY, .ctx = &says}};
    tp_runtime *runtime = open_noted(&n, 0, hooks, 3);
    say(runtime, calls_shell, 2, NULL);
    assert_has(n.log, cases[i].log);
    assert_has(n.log, ", turn turn7");
    read_audit(runtime, &n, TP_VISIBILITY_INTERNAL);
    assert_has(n.audit, cases[i].row);
    assert_int_equal(n.rows, 2); /* one, and the commit's */
    close_runtime(runtime);
  }
}

TEST(each_attempt_is_logged_at_debug_and_none_at_info) {
  static const reply hi[] = {{.text = "hi"}};
  for (int debug = 0; debug < 2; debug++) {
    notes n = NOTES;
    act inlined = {0}, retried = {.kind = TP_ANSWER_FAILED, .retryable = true, .succeeds_at = 3};
    hook hooks[] = {
        {.id = "inline", .phase = TP_PHASE_MODEL_PRE, .ctx = &inlined},
        {.id = "retried", .phase = TP_PHASE_MODEL_PRE, .ctx = &retried, .idempotent = true, .sub = {.attempts = 3}}};
    tp_runtime *runtime = open_noted(&n, debug ? TP_LOG_DEBUG : 0, hooks, 2);
    say(runtime, hi, 1, NULL);
    if (debug) {
      assert_has(n.log, "debug attempt 1 of hook inline in model.pre: succeeded");
      assert_has(n.log, "debug attempt 1 of hook retried in model.pre: ");
      assert_has(n.log, ", it is tried again, turn turn7");
      assert_has(n.log, "debug attempt 3 of hook retried in model.pre: succeeded");
    } else {
      assert_string_equal(n.log, "");
    }
    close_runtime(runtime);
  }
}

static void ignore(void *ctx, const tp_event *event) { (void)ctx, (void)event; }

TEST(audits_are_rows_and_diagnostics_without_a_listener_are_logged) {
  static const reply hi[] = {{.text = "hi"}};
  static const tp_contribution contributed[] = {{.struct_size = sizeof(tp_contribution),
                                                 .kind = TP_CONTRIBUTION_AUDIT,
                                                 .key = TEXT("opened"),
                                                 .text = TEXT("the safe")},
                                                {.struct_size = sizeof(tp_contribution),
                                                 .kind = TP_CONTRIBUTION_MANIFEST_DIAGNOSTIC,
                                                 .key = TEXT("long"),
                                                 .text = TEXT("too long"),
                                                 .severity = TP_SEVERITY_WARNING},
                                                {.struct_size = sizeof(tp_contribution),
                                                 .kind = TP_CONTRIBUTION_DIAGNOSTIC,
                                                 .key = TEXT("odd"),
                                                 .text = TEXT("hm"),
                                                 .severity = TP_SEVERITY_ERROR}};
  for (int heard = 0; heard < 2; heard++) {
    notes n = NOTES;
    act contributes = {.emits = contributed, .emit_count = 3};
    hook h = {.id = "h", .phase = TP_PHASE_TURN_PRE_PROMPT_COMPILE, .ctx = &contributes};
    tp_listener listener = {.struct_size = sizeof listener, .on_event = ignore};
    tp_runtime *runtime = open_noted(&n, 0, &h, 1);
    say(runtime, hi, 1, heard ? &listener : NULL);
    assert_string_equal(n.log, heard ? ""
                                     : "warning diagnostic of hook h in turn.pre_prompt_compile: long: too long\n"
                                       "error diagnostic of hook h in turn.pre_prompt_compile: odd: hm\n");
    read_audit(runtime, &n, TP_VISIBILITY_INTERNAL);
    assert_string_equal(n.audit, "audit h 9 succeeded none TP_OK: opened: the safe\n");
    close_runtime(runtime);
  }
}
