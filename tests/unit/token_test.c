/* SPDX-License-Identifier: Apache-2.0
 *
 * Deferral: a handler answers later, through a token, from any thread, or never. */
#include "tests/support/test.h"
#include "tests/support/host.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, TOOL_PRE = TP_PHASE_TOOL_PRE };

static const tp_contribution before = {
    .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_AUDIT, .key = TEXT("1"), .text = TEXT("before")};
static const tp_contribution after_audit = {
    .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_AUDIT, .key = TEXT("2"), .text = TEXT("after")};
static const tp_contribution after_context = {.struct_size = sizeof(tp_contribution),
                                              .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                              .key = TEXT("c"),
                                              .text = TEXT("context")};
static const tp_contribution *const after[] = {&after_audit, &after_context};
static const tp_outcome done = {.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE};

typedef struct counted {
  _Atomic int cancels, destroys;
  act handler;
} counted;

static void count_cancel(void *ctx) { ((counted *)ctx)->cancels++; }
static void count_destroy(void *ctx) { ((counted *)ctx)->destroys++; }

static void defer_with(counted *d, latch *deferred) {
  d->handler.defers = true;
  d->handler.deferred = deferred;
  d->handler.deferral =
      (tp_deferral){.struct_size = sizeof(tp_deferral), .cancel = count_cancel, .destroy = count_destroy, .ctx = d};
}

static uint64_t open_tokens(tp_runtime *runtime) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  return stats.tokens_open;
}

typedef struct completer {
  latch *when;
  tp_token *token;
  tp_outcome outcome;
  tp_status first, second;
} completer;

static void *complete(void *arg) {
  completer *c = arg;
  latch_wait(c->when, 1);
  c->first = tp_token_complete(*c->token, &c->outcome, NULL);
  c->second = tp_token_complete(*c->token, &c->outcome, NULL);
  return NULL;
}

static pthread_t start_completer(completer *c) {
  pthread_t thread;
  pthread_create(&thread, NULL, complete, c);
  return thread;
}

/* ---- answering through a token ---- */

TEST(deferred_answer_joins_what_was_emitted_before) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    latch deferred = LATCH;
    counted d = {.handler = {.emits = &before, .emit_count = 1}};
    defer_with(&d, &deferred);
    add_hooks(runtime, &(hook){.id = "d", .phase = GATHER, .ctx = &d.handler, .slow = slow}, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    completer c = {.when = &deferred,
                   .token = &d.handler.token,
                   .outcome = {.struct_size = sizeof(tp_outcome),
                               .kind = TP_ANSWER_DONE,
                               .contributions = after,
                               .contribution_count = 2}};
    pthread_t thread = start_completer(&c);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(c.first, TP_OK);
    assert_int_equal(c.second, TP_ERR_STALE);
    assert_run(&result, "d", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    assert_int_equal(run_of(&result, "d").contribution_count, 3);
    assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_AUDIT), 2);
    assert_text(tp_merged_get(result.merged, TP_CONTRIBUTION_AUDIT, 0)->contribution->text, "before");
    assert_text(tp_merged_get(result.merged, TP_CONTRIBUTION_AUDIT, 1)->contribution->text, "after");
    assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT), 1);
    assert_int_equal(d.cancels, 0);
    assert_int_equal(d.destroys, 1);
    assert_int_equal(open_tokens(runtime), 0);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* In a chain that replaces: the replacement before the deferral comes first, that of the token's answer last. */
static tp_answer replace_and_defer(void *ctx, tp_call *call) {
  if (tp_call_replace_text(call, TP_FIELD_TEXT, "at first", NULL) != TP_OK) return TP_ANSWER_FAILED;
  return play(ctx, call);
}

TEST(deferred_answer_replaces_fields_as_the_handler_could) {
  const struct {
    tp_field field;
    tp_reason why;
    const char *text;
  } cases[] = {{{.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("at last")}, TP_REASON_NONE, "at last"},
               {{.id = TP_FIELD_MODEL, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("m")}, TP_REASON_MALFORMED, "hello"},
               {{.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_INT, .number = 1}, TP_REASON_MALFORMED, "hello"},
               {{0}, TP_REASON_NONE, "at first"}};
  for (size_t i = 0; i < 2 * COUNT(cases); i++) {
    size_t at = i / 2;
    tp_runtime *runtime = open_runtime(NULL);
    latch deferred = LATCH;
    counted d = {.handler = {0}};
    defer_with(&d, &deferred);
    add_hooks(
        runtime,
        &(hook){
            .id = "d", .phase = TP_PHASE_TURN_INTAKE, .run = replace_and_defer, .ctx = &d.handler, .slow = i % 2 == 1},
        1);
    tp_turn *turn = begin_bare(runtime, 0);
    completer c = {.when = &deferred,
                   .token = &d.handler.token,
                   .outcome = {.struct_size = sizeof(tp_outcome),
                               .kind = TP_ANSWER_DONE,
                               .replacements = cases[at].field.id ? &cases[at].field : NULL,
                               .replacement_count = cases[at].field.id ? 1 : 0}};
    pthread_t thread = start_completer(&c);
    tp_phase_result result = run_phase(turn, TP_PHASE_TURN_INTAKE, "hello");
    pthread_join(thread, NULL);
    assert_int_equal(c.first, TP_OK);
    assert_run(&result, "d", cases[at].why ? TP_STATE_FAILED : TP_STATE_SUCCEEDED, cases[at].why);
    tp_text text = tp_merged_text(result.merged, TP_FIELD_TEXT);
    assert_text(text, cases[at].text);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
  tp_outcome none = {.struct_size = sizeof none, .kind = TP_ANSWER_DONE, .replacement_count = 1};
  assert_int_equal(tp_token_complete((tp_token){0}, &none, NULL), TP_ERR_USAGE);
}

typedef struct hasty {
  tp_status status;
  latch completed;
} hasty;

static tp_answer defer_and_complete_at_once(void *ctx, tp_call *call) {
  hasty *h = ctx;
  tp_token token;
  tp_answer outcome = tp_call_defer(call, NULL, &token);
  h->status = tp_token_complete(
      token, &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DENY, .reason = "at once"}, NULL);
  latch_hit(&h->completed);
  return outcome;
}

TEST(token_may_be_completed_before_the_handler_returns) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    hasty h = {.status = TP_ERR_INTERNAL, .completed = LATCH};
    add_hooks(runtime,
              &(hook){.id = "d", .phase = TOOL_PRE, .run = defer_and_complete_at_once, .ctx = &h, .slow = slow}, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, TOOL_PRE, NULL);
    latch_wait(&h.completed, 1); /* the phase may end before the handler returns */
    assert_int_equal(h.status, TP_OK);
    assert_int_equal(result.outcome, TP_ERR_DENIED);
    assert_text(result.reason, "at once");
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(answer_through_a_token_is_judged_like_any_other) {
  static const tp_contribution foreign_one = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = TEXT("not here")};
  static const tp_contribution broken_one = {.struct_size = sizeof(tp_contribution),
                                             .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                             .key = TEXT("k"),
                                             .text = TEXT("\xc3")};
  static const tp_contribution *const foreign[] = {&foreign_one}, *const broken[] = {&broken_one};
  static const struct {
    tp_outcome outcome;
    tp_state state;
    tp_reason reason;
  } cases[] = {
      {{.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE}, TP_STATE_SUCCEEDED, TP_REASON_NONE},
      {{.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_FAILED, .code = 9, .reason = "no"},
       TP_STATE_FAILED,
       TP_REASON_ERROR},
      {{.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DENY}, TP_STATE_FAILED, TP_REASON_CAPABILITY},
      {{.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE, .contributions = foreign, .contribution_count = 1},
       TP_STATE_FAILED,
       TP_REASON_CAPABILITY},
      {{.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE, .contributions = broken, .contribution_count = 1},
       TP_STATE_FAILED,
       TP_REASON_MALFORMED},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    for (int slow = 0; slow < 2; slow++) {
      tp_runtime *runtime = open_runtime(NULL);
      latch deferred = LATCH;
      counted d = {.handler = {0}};
      defer_with(&d, &deferred);
      add_hooks(runtime, &(hook){.id = "d", .phase = GATHER, .ctx = &d.handler, .slow = slow}, 1);
      tp_turn *turn = begin_bare(runtime, 0);
      completer c = {.when = &deferred, .token = &d.handler.token, .outcome = cases[i].outcome};
      pthread_t thread = start_completer(&c);
      tp_phase_result result = run_phase(turn, GATHER, NULL);
      pthread_join(thread, NULL);
      assert_int_equal(c.first, TP_OK);
      assert_run(&result, "d", cases[i].state, cases[i].reason);
      assert_int_equal(run_of(&result, "d").code, cases[i].outcome.code);
      assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT), 0);
      assert_int_equal(d.destroys, 1);
      tp_turn_end(turn);
      close_runtime(runtime);
    }
  }
}

TEST(token_that_never_was_is_stale) {
  assert_int_equal(tp_token_complete((tp_token){0}, &done, NULL), TP_ERR_STALE);
  assert_int_equal(tp_token_complete((tp_token){UINT64_MAX}, &done, NULL), TP_ERR_STALE);
  assert_int_equal(tp_token_complete((tp_token){0x12345678}, &done, NULL), TP_ERR_STALE);
}

TEST(an_answer_says_how_it_failed_only_when_it_did) {
  static const struct {
    tp_answer kind;
    uint32_t why;
    tp_status status;
  } rows[] = {
      {TP_ANSWER_FAILED, TP_REASON_KILLED, TP_ERR_STALE},     {TP_ANSWER_FAILED, TP_REASON_MALFORMED, TP_ERR_STALE},
      {TP_ANSWER_FAILED, TP_REASON_CAPABILITY, TP_ERR_USAGE}, {TP_ANSWER_FAILED, TP_REASON_MATCH, TP_ERR_USAGE},
      {TP_ANSWER_DENY, TP_REASON_KILLED, TP_ERR_USAGE},       {TP_ANSWER_DENY, 0, TP_ERR_STALE},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tp_outcome outcome = {.struct_size = sizeof outcome, .kind = rows[i].kind, .why = rows[i].why};
    assert_int_equal(tp_token_complete((tp_token){0}, &outcome, NULL), rows[i].status);
  }
}

typedef struct twice {
  tp_token first, second;
  tp_answer second_kind;
  tp_status emit;
  latch *deferred;
} twice;

static tp_answer defer_twice(void *ctx, tp_call *call) {
  twice *t = ctx;
  tp_answer outcome = tp_call_defer(call, NULL, &t->first);
  t->second_kind = tp_call_defer(call, NULL, &t->second);
  t->emit = tp_call_emit(call, &before, NULL);
  latch_hit(t->deferred);
  return outcome;
}

TEST(second_deferral_of_a_call_gives_no_token) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    latch deferred = LATCH;
    twice t = {.deferred = &deferred, .second = {7}};
    add_hooks(runtime, &(hook){.id = "d", .phase = GATHER, .run = defer_twice, .ctx = &t, .slow = slow}, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    completer wrong = {.when = &deferred,
                       .token = &t.first,
                       .outcome = {.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DEFERRED}};
    pthread_t one = start_completer(&wrong);
    completer right = {.when = &deferred, .token = &t.first, .outcome = done};
    pthread_t two = start_completer(&right);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    assert_int_equal(wrong.first, TP_ERR_USAGE); /* "deferred" is no answer: the token stayed open */
    assert_int_equal(right.first, TP_OK);
    assert_run(&result, "d", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    assert_int_equal(t.second.bits, 0);
    assert_int_equal(t.second_kind, TP_ANSWER_FAILED);
    assert_int_equal(t.emit, TP_ERR_USAGE); /* sealed: what comes later comes with the completion */
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

typedef struct both {
  counted d;
  tp_token token;
} both;

static tp_answer defer_and_answer(void *ctx, tp_call *call) {
  both *b = ctx;
  tp_deferral deferral = {
      .struct_size = sizeof deferral, .cancel = count_cancel, .destroy = count_destroy, .ctx = &b->d};
  tp_call_defer(call, &deferral, &b->token);
  return TP_ANSWER_DONE;
}

TEST(deferring_and_answering_all_the_same_is_malformed) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    both b = {0};
    add_hooks(runtime, &(hook){.id = "d", .phase = GATHER, .run = defer_and_answer, .ctx = &b, .slow = slow}, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    assert_int_equal(run_of(&result, "d").state, TP_STATE_FAILED);
    assert_int_equal(tp_token_complete(b.token, &done, NULL), TP_ERR_STALE);
    tp_turn_end(turn);
    close_runtime(runtime);
    assert_int_equal(b.d.cancels, 0);
    assert_int_equal(b.d.destroys, 1);
  }
}

/* ---- not answering in time ---- */

TEST(token_that_times_out_is_cancelled_once_and_destroyed_when_it_comes_late) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    counted d = {.handler = {0}};
    defer_with(&d, NULL);
    add_hooks(runtime, &(hook){.id = "d", .phase = GATHER, .ctx = &d.handler, .slow = slow, .sub = {.limit_ms = 10}},
              1);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    assert_run(&result, "d", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
    assert_int_equal(d.cancels, 1);
    assert_int_equal(d.destroys, 0); /* a thread may still hold the token */
    tp_outcome late = {
        .struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_DONE, .contributions = after, .contribution_count = 2};
    assert_int_equal(tp_token_complete(d.handler.token, &late, NULL), TP_ERR_STALE);
    assert_int_equal(d.destroys, 1);
    assert_int_equal(tp_token_complete(d.handler.token, &late, NULL), TP_ERR_STALE);
    assert_int_equal(d.cancels, 1);
    assert_int_equal(d.destroys, 1);
    assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT), 0);
    assert_int_equal(open_tokens(runtime), 0);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

typedef struct self_completer {
  tp_token token;
  tp_status status;
  _Atomic int cancels, destroys;
} self_completer;

static void complete_in_cancel(void *ctx) {
  self_completer *s = ctx;
  s->cancels++;
  s->status = tp_token_complete(s->token, &done, NULL);
}
static void count_end(void *ctx) { ((self_completer *)ctx)->destroys++; }

static tp_answer defer_to_itself(void *ctx, tp_call *call) {
  self_completer *s = ctx;
  return tp_call_defer(
      call,
      &(tp_deferral){.struct_size = sizeof(tp_deferral), .cancel = complete_in_cancel, .destroy = count_end, .ctx = s},
      &s->token);
}

TEST(cancel_may_complete_its_own_token) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    self_completer s = {.status = TP_OK};
    add_hooks(
        runtime,
        &(hook){.id = "d", .phase = GATHER, .run = defer_to_itself, .ctx = &s, .slow = slow, .sub = {.limit_ms = 10}},
        1);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    assert_run(&result, "d", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
    assert_int_equal(s.status, TP_ERR_STALE);
    assert_int_equal(s.cancels, 1);
    assert_int_equal(s.destroys, 1);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(failing_closed_cancels_deferred_ones_and_takes_their_answer) {
  tp_runtime *runtime = open_runtime(NULL);
  self_completer s = {.status = TP_ERR_INTERNAL};
  act bad = {.kind = TP_ANSWER_FAILED};
  hook hooks[] = {{.id = "d", .phase = GATHER, .run = defer_to_itself, .ctx = &s},
                  {.id = "bad", .phase = GATHER, .ctx = &bad, .slow = true, .sub = {.failure = TP_FAILURE_REQUIRED}}};
  add_hooks(runtime, hooks, 2);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_int_equal(result.outcome, TP_ERR_HOOK);
  if (run_of(&result, "d").state == TP_STATE_SUCCEEDED) { /* else the failure came before its turn */
    assert_int_equal(s.status, TP_OK);
    assert_int_equal(s.cancels, 1);
    assert_int_equal(s.destroys, 1);
  }
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- limits ---- */

TEST(tokens_above_the_cap_are_refused) {
  tp_runtime *runtime =
      open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .deferred_max = 3});
  counted d[5];
  hook hooks[5];
  static const char *const ids[] = {"a", "b", "c", "d", "e"};
  memset(d, 0, sizeof d);
  for (int i = 0; i < 5; i++) {
    defer_with(&d[i], NULL);
    hooks[i] = (hook){.id = ids[i], .phase = GATHER, .ctx = &d[i].handler, .sub = {.limit_ms = 20}};
  }
  add_hooks(runtime, hooks, 5);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  int timed_out = 0, refused = 0;
  for (int i = 0; i < 5; i++) {
    tp_run_record run = run_of(&result, ids[i]);
    timed_out += run.state == TP_STATE_TIMED_OUT;
    if (run.state != TP_STATE_FAILED) continue;
    refused++;
    assert_int_equal(run.reason, TP_REASON_ERROR);
    assert_int_equal(d[i].handler.token.bits, 0);
    assert_int_equal(d[i].cancels + d[i].destroys, 0); /* neither will be called */
  }
  assert_int_equal(timed_out, 3);
  assert_int_equal(refused, 2);
  assert_int_equal(open_tokens(runtime), 3);
  for (int i = 0; i < 5; i++) assert_int_equal(tp_token_complete(d[i].handler.token, &done, NULL), TP_ERR_STALE);
  assert_int_equal(open_tokens(runtime), 0);
  tp_turn_end(turn);
  close_runtime(runtime);
}

enum { MANY = 500 };

typedef struct completers {
  act acts[MANY];
  latch deferred;
  int bad;
} completers;

static void *complete_all(void *arg) {
  completers *c = arg;
  latch_wait(&c->deferred, MANY);
  for (int i = MANY; i-- > 0;)
    if (tp_token_complete(c->acts[i].token, &done, NULL) != TP_OK) c->bad++;
  return NULL;
}

TEST(a_refused_token_names_who_holds_the_others) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime =
        open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .deferred_max = 2});
    counted holder, other;
    memset(&holder, 0, sizeof holder);
    memset(&other, 0, sizeof other);
    defer_with(&holder, NULL);
    defer_with(&other, NULL);
    hook hooks[] = {{.id = "holder", .phase = GATHER, .ctx = &holder.handler, .slow = slow, .sub = {.limit_ms = 20}},
                    {.id = "other", .phase = TOOL_PRE, .ctx = &other.handler, .slow = slow}};
    add_hooks(runtime, hooks, 2);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_token first;
    (void)run_phase(turn, GATHER, NULL);
    first = holder.handler.token;
    (void)run_phase(turn, GATHER, NULL);
    assert_int_equal(open_tokens(runtime), 2);
    tp_phase_result result = run_phase(turn, TOOL_PRE, NULL);
    assert_run(&result, "other", TP_STATE_FAILED, TP_REASON_ERROR);
    assert_text(result.reason,
                "2 tokens are open, as tp_runtime_options.deferred_max says, most of them, 2, of "
                "handler `holder`: complete them or call tp_token_abandon()");
    assert_int_equal(tp_token_abandon(first, NULL), TP_OK);
    assert_int_equal(tp_token_abandon(holder.handler.token, NULL), TP_OK);
    tp_turn_end(turn);
    close_runtime(runtime);
    assert_int_equal(holder.destroys, 2);
  }
}

TEST(an_abandoned_token_frees_its_place_and_is_stale) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime =
        open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .deferred_max = 1});
    counted d;
    memset(&d, 0, sizeof d);
    defer_with(&d, NULL);
    add_hooks(runtime, &(hook){.id = "d", .phase = GATHER, .ctx = &d.handler, .slow = slow, .sub = {.limit_ms = 20}},
              1);
    tp_turn *turn = begin_bare(runtime, 0);
    for (int i = 1; i <= 3; i++) {
      tp_phase_result result = run_phase(turn, GATHER, NULL);
      assert_run(&result, "d", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
      assert_int_equal(open_tokens(runtime), 1);
      assert_int_equal(d.destroys, i - 1);
      tp_fault fault = {0};
      assert_int_equal(tp_token_abandon(d.handler.token, &fault), TP_OK);
      assert_int_equal(open_tokens(runtime), 0);
      assert_int_equal(d.destroys, i);
      assert_int_equal(tp_token_complete(d.handler.token, &done, NULL), TP_ERR_STALE);
      assert_int_equal(tp_token_abandon(d.handler.token, &fault), TP_ERR_STALE);
      assert_non_null(strstr(fault.message, "abandoned"));
    }
    tp_turn_end(turn);
    close_runtime(runtime);
    assert_int_equal(d.destroys, 3);
    assert_int_equal(tp_token_abandon(d.handler.token, NULL), TP_ERR_STALE);
  }
}

typedef struct abandoner {
  latch *when;
  tp_token *token;
  tp_status status;
} abandoner;

static void *abandon(void *arg) {
  abandoner *a = arg;
  latch_wait(a->when, 1);
  a->status = tp_token_abandon(*a->token, NULL);
  return NULL;
}

TEST(abandoning_a_token_that_is_waited_for_fails_its_attempt_at_once) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    latch deferred = LATCH;
    counted d = {.handler = {.emits = &before, .emit_count = 1}};
    defer_with(&d, &deferred);
    hook h = {.id = "d", .phase = TOOL_PRE, .ctx = &d.handler, .slow = slow};
    add_hooks(runtime, &h, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    abandoner a = {.when = &deferred, .token = &d.handler.token};
    pthread_t thread;
    pthread_create(&thread, NULL, abandon, &a);
    tp_phase_result result = run_phase(turn, TOOL_PRE, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(a.status, TP_OK);
    assert_run(&result, "d", TP_STATE_FAILED, TP_REASON_ERROR);
    assert_text(result.reason, "the host abandoned its token");
    assert_int_equal(result.outcome, TP_ERR_DENIED); /* a guard fails closed */
    assert_int_equal(result.state, TP_STATE_FAILED);
    assert_int_equal(d.cancels, 0);
    assert_int_equal(d.destroys, 1);
    assert_int_equal(open_tokens(runtime), 0);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(waiting_attempts_need_no_thread) {
  tp_runtime_options options = {.struct_size = sizeof options, .engine_workers = 1, .handler_threads = 2};
  tp_runtime *runtime = open_runtime(&options);
  static completers c = {.deferred = LATCH};
  static hook hooks[MANY];
  static char ids[MANY][8];
  for (int i = 0; i < MANY; i++) {
    snprintf(ids[i], sizeof ids[i], "h%d", i);
    c.acts[i] = (act){.defers = true, .deferred = &c.deferred};
    hooks[i] = (hook){.id = ids[i], .phase = GATHER, .ctx = &c.acts[i], .slow = i % 2, .sub = {.limit_ms = 60000}};
  }
  add_hooks(runtime, hooks, MANY);
  tp_turn *turn = begin_bare(runtime, 0);
  pthread_t thread;
  pthread_create(&thread, NULL, complete_all, &c);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  pthread_join(thread, NULL);
  assert_int_equal(c.bad, 0);
  for (uint32_t i = 0; i < MANY; i++) assert_int_equal(tp_phase_result_run(&result, i)->state, TP_STATE_SUCCEEDED);
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  assert_in_range(stats.handler_threads, 0, 2);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- after everything ---- */

TEST(token_is_harmless_after_the_turn_and_the_runtime_are_gone) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    counted d[4];
    hook hooks[4];
    static const char *const ids[] = {"a", "b", "c", "d"};
    memset(d, 0, sizeof d);
    for (int i = 0; i < 4; i++) {
      defer_with(&d[i], NULL);
      hooks[i] = (hook){.id = ids[i], .phase = GATHER, .ctx = &d[i].handler, .slow = slow, .sub = {.limit_ms = 10}};
    }
    add_hooks(runtime, hooks, 4);
    tp_turn *turn = begin_bare(runtime, 0);
    run_phase(turn, GATHER, NULL);
    assert_int_equal(tp_token_complete(d[0].handler.token, &done, NULL), TP_ERR_STALE);
    tp_turn_end(turn);
    assert_int_equal(tp_token_complete(d[1].handler.token, &done, NULL), TP_ERR_STALE);
    tp_drain_report report = {.struct_size = sizeof report};
    assert_int_equal(tp_runtime_drain(runtime, 100, &report, NULL), TP_OK);
    assert_int_equal(report.leaks, 0); /* no function is running: tokens are no leaks */
    assert_int_equal(tp_token_complete(d[2].handler.token, &done, NULL), TP_ERR_STALE);
    close_runtime(runtime);
    for (int i = 0; i < 4; i++) {
      assert_int_equal(tp_token_complete(d[i].handler.token, &done, NULL), TP_ERR_STALE);
      assert_int_equal(d[i].cancels, 1);
      assert_int_equal(d[i].destroys, 1); /* the last one's by the end of the runtime */
    }
  }
}

TEST(token_of_a_cancelled_turn_is_stale) {
  tp_runtime *runtime = open_runtime(NULL);
  latch deferred = LATCH;
  counted d = {.handler = {0}};
  defer_with(&d, &deferred);
  add_hooks(runtime, &(hook){.id = "d", .phase = GATHER, .ctx = &d.handler, .slow = true, .sub = {.limit_ms = 60000}},
            1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_turn_cancel(turn);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  assert_int_equal(d.handler.calls, 0); /* its deadline is now */
  assert_int_equal(run_of(&result, "d").state, TP_STATE_SKIPPED);
  tp_turn_end(turn);
  close_runtime(runtime);
  assert_int_equal(d.cancels + d.destroys, 0);
}

typedef struct retrier {
  act handler;
  latch deferred;
  tp_status first, again, second;
} retrier;

static void *fail_then_complete(void *arg) {
  retrier *r = arg;
  latch_wait(&r->deferred, 1);
  tp_token first = r->handler.token;
  r->first = tp_token_complete(
      first, &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = TP_ANSWER_FAILED, .retryable = 1}, NULL);
  latch_wait(&r->deferred, 2);
  r->again = tp_token_complete(first, &done, NULL);
  r->second = tp_token_complete(r->handler.token, &done, NULL);
  return NULL;
}

TEST(deferred_retry_gets_a_new_token) {
  for (int slow = 0; slow < 2; slow++) {
    tp_runtime *runtime = open_runtime(NULL);
    retrier r = {.deferred = LATCH};
    r.handler = (act){.defers = true, .deferred = &r.deferred};
    hook h = {.id = "d", .phase = GATHER, .ctx = &r.handler, .slow = slow, .idempotent = true, .sub = {.attempts = 2}};
    add_hooks(runtime, &h, 1);
    tp_turn *turn = begin_bare(runtime, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, fail_then_complete, &r);
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(r.first, TP_OK);
    assert_int_equal(r.again, TP_ERR_STALE);
    assert_int_equal(r.second, TP_OK);
    assert_run(&result, "d", TP_STATE_SUCCEEDED, TP_REASON_NONE);
    assert_int_equal(run_of(&result, "d").attempts, 2);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}
