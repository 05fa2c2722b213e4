/* SPDX-License-Identifier: Apache-2.0
 *
 * A model with an inbox: the host takes its requests and answers them itself. */
#include "tests/support/test.h"
#include "tests/support/inbox.h"

enum { TOOLS = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION };

/* ---- a host whose model has no function ---- */

static _Atomic int destroyed;
static void destroy(void *ctx) {
  (void)ctx;
  destroyed++;
}

typedef struct host {
  tp_runtime *runtime;
  tp_inbox *inbox;
  tp_session *session;
  tp_model model;
  latch ended;
  tp_turn_outcome outcome;
  tp_status code;
  char text[256], reason[256], deltas[256];
} host;

static void on_event(void *ctx, const tp_event *event) {
  host *h = ctx;
  size_t used = strlen(h->deltas);
  if (event->kind == TP_EVENT_MODEL_DELTA)
    snprintf(h->deltas + used, sizeof h->deltas - used, "%.*s", (int)event->text.size, event->text.data);
}

static void open_host(host *h, uint32_t capacity, const tp_runtime_options *options) {
  destroyed = 0;
  *h = (host){.runtime = open_runtime(options), .ended = LATCH};
  h->inbox = open_inbox(h->runtime, capacity);
  h->model = (tp_model){.struct_size = sizeof h->model, .name = "host", .ctx = h, .inbox = h->inbox};
  h->model.destroy = destroy;
  tp_session_options opens = {
      .struct_size = sizeof opens, .id = "s", .model = &h->model, .on_event = on_event, .event_ctx = h};
  assert_int_equal(tp_session_open(h->runtime, &opens, &h->session, NULL), TP_OK);
}

static void closed(void *ctx) { latch_hit(ctx); }

static void close_session(host *h) {
  latch over = LATCH;
  tp_session_close(h->session, closed, &over);
  latch_wait(&over, 1);
}

static void close_host(host *h) {
  close_session(h);
  tp_inbox_free(h->inbox);
  expect_no_tokens(h->runtime);
  close_runtime(h->runtime);
  assert_int_equal(destroyed, 1);
}

static void turn_ended(void *ctx, const tp_turn_result *result) {
  host *h = ctx;
  h->outcome = result->outcome;
  h->code = result->code;
  snprintf(h->text, sizeof h->text, "%.*s", (int)result->text.size, result->text.size ? result->text.data : "");
  tp_text reason = result->reason;
  snprintf(h->reason, sizeof h->reason, "%.*s", (int)reason.size, reason.size ? reason.data : "");
  latch_hit(&h->ended);
}

static tp_submission *submit_turn(host *h, const char *text, uint32_t limit_ms) {
  tp_submission *submission;
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text), .limit_ms = limit_ms};
  assert_int_equal(tp_turn_submit(h->session, &request, turn_ended, h, &submission, NULL), TP_OK);
  return submission;
}

static tp_status complete(tp_token token, const char *text) {
  return tp_model_complete(
      token, &(tp_model_response){.struct_size = sizeof(tp_model_response), .text = tp_text_of(text)}, NULL);
}

/* ---- a request that a host answers itself ---- */

TEST(request_is_read_and_answered_by_the_thread_that_takes_it) {
  host h;
  open_host(&h, 0, NULL);
  tp_submission_unref(submit_turn(&h, "hello", LONG_MS));
  const tp_work *work = take_next(h.inbox);
  assert_int_equal(work->kind, TP_WORK_MODEL);
  assert_ptr_equal(work->ctx, &h);
  assert_null(work->call);
  assert_null(work->run);
  char asked[REQUEST_BYTES];
  write_request(asked, work->request);
  assert_string_equal(asked, "S<>U<hello>");
  assert_in_range(work->request->time_left_ms, 1, LONG_MS);
  assert_int_equal(work->request->attempt, 1);
  assert_int_equal(tp_model_delta(work->token, tp_text_of("he"), NULL), TP_OK);
  assert_int_equal(tp_model_delta(work->token, tp_text_of("y"), NULL), TP_OK);
  assert_int_equal(answer(work, TP_ANSWER_DONE, NULL), TP_ERR_USAGE);
  tp_token token = work->token;
  assert_int_equal(complete(token, "hey"), TP_OK);
  assert_int_equal(complete(token, "twice"), TP_ERR_STALE);
  latch_wait(&h.ended, 1);
  assert_int_equal(h.outcome, TP_TURN_COMPLETED);
  assert_string_equal(h.text, "hey");
  assert_string_equal(h.deltas, "hey");
  assert_int_equal(handler_threads(h.runtime), 0);
  close_host(&h);
}

TEST(failure_that_may_be_tried_again_comes_as_another_request) {
  host h;
  open_host(&h, 0, NULL);
  tp_submission_unref(submit_turn(&h, "hello", LONG_MS));
  assert_int_equal(tp_model_fail(take_next(h.inbox)->token, TP_ERR_MODEL, "busy", true, NULL), TP_OK);
  const tp_work *again = take_next(h.inbox);
  assert_int_equal(again->request->attempt, 2);
  assert_int_equal(tp_token_abandon(again->token, NULL), TP_OK);
  latch_wait(&h.ended, 1);
  assert_int_equal(h.outcome, TP_TURN_FAILED);
  assert_string_equal(h.reason, "the model failed: the host abandoned its token");
  close_host(&h);
}

TEST(agents_model_may_be_of_an_inbox) {
  host h;
  open_host(&h, 0, NULL);
  tp_agent *agent;
  tp_agent_config config = {.struct_size = sizeof config, .id = "a", .system = "be short", .model = &h.model};
  assert_int_equal(tp_agent_add(h.runtime, &config, &agent, NULL), TP_OK);
  close_session(&h);
  take_destroy(h.inbox, &h); /* before the session's on_end or after */
  destroyed = 0;
  tp_session_options opens = {.struct_size = sizeof opens, .id = "t", .agent = agent};
  assert_int_equal(tp_session_open(h.runtime, &opens, &h.session, NULL), TP_OK);
  tp_submission_unref(submit_turn(&h, "hello", LONG_MS));
  const tp_work *work = take_next(h.inbox);
  assert_text(work->request->system, "be short");
  assert_int_equal(complete(work->token, "yes"), TP_OK);
  latch_wait(&h.ended, 1);
  assert_string_equal(h.text, "yes");
  tp_agent_remove(agent);
  close_host(&h);
}

/* ---- pieces of an answer ---- */

typedef struct pieces {
  latch entered, go_on;
  uint32_t count;
  size_t bytes;
  char text[128];
} pieces;

/* The owner of the turn blocks at the first piece, so that later pieces wait for it. */
static void note_piece(void *ctx, const tp_event *event) {
  pieces *p = ctx;
  if (event->kind != TP_EVENT_MODEL_DELTA) return;
  p->count++;
  p->bytes += event->text.size;
  size_t used = strlen(p->text);
  if (used + event->text.size + 2 < sizeof p->text)
    snprintf(p->text + used, sizeof p->text - used, "[%.*s]", (int)event->text.size, event->text.data);
  if (p->count > 1) return;
  latch_hit(&p->entered);
  latch_wait(&p->go_on, 1);
}

static const tp_work *begin_with_pieces(host *h, pieces *p, bool each) {
  open_host(h, 0, NULL);
  *p = (pieces){.entered = LATCH, .go_on = LATCH};
  tp_listener listener = {.struct_size = sizeof listener, .on_event = note_piece, .ctx = p};
  assert_int_equal(tp_session_listen(h->session, &listener, NULL, NULL), TP_OK);
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go"), .each_delta = each};
  assert_int_equal(tp_turn_submit(h->session, &request, turn_ended, h, NULL, NULL), TP_OK);
  const tp_work *work = take_next(h->inbox);
  assert_int_equal(tp_model_delta(work->token, tp_text_of("a"), NULL), TP_OK);
  latch_wait(&p->entered, 1);
  return work;
}

static void end_with_pieces(host *h, pieces *p, const tp_work *work) {
  latch_hit(&p->go_on);
  assert_int_equal(complete(work->token, "whole"), TP_OK);
  latch_wait(&h->ended, 1);
  assert_string_equal(h->text, "whole");
}

TEST(pieces_are_joined_or_each_an_event_as_the_turn_says) {
  for (int each = 0; each < 2; each++) {
    host h;
    pieces p;
    const tp_work *work = begin_with_pieces(&h, &p, each);
    assert_int_equal(tp_model_delta(work->token, tp_text_of("bc"), NULL), TP_OK);
    assert_int_equal(tp_model_delta(work->token, tp_text_of(""), NULL), TP_OK);
    assert_int_equal(tp_model_delta(work->token, tp_text_of("d"), NULL), TP_OK);
    assert_int_equal(tp_model_delta(work->token, (tp_text)TEXT("\xff"), NULL), TP_ERR_UTF8);
    end_with_pieces(&h, &p, work);
    assert_string_equal(p.text, each ? "[a][bc][d]" : "[a][bcd]");
    close_host(&h);
  }
}

/* "{…}" for one of thinking. */
static void note_either_piece(void *ctx, const tp_event *event) {
  pieces *p = ctx;
  size_t used = strlen(p->text);
  bool is_note = event->kind == TP_EVENT_DIAGNOSTIC;
  if (event->kind != TP_EVENT_MODEL_DELTA && event->kind != TP_EVENT_THINKING && !is_note) return;
  p->count++;
  if (is_note) assert_text(event->contribution->key, "a.key");
  snprintf(p->text + used, sizeof p->text - used,
           is_note                            ? "(%.*s)"
           : event->kind == TP_EVENT_THINKING ? "{%.*s}"
                                              : "[%.*s]",
           (int)event->text.size, event->text.data);
  if (p->count > 1) return;
  latch_hit(&p->entered);
  latch_wait(&p->go_on, 1);
}

TEST(thinking_has_events_of_its_own_in_order_and_is_no_part_of_the_answer) {
  for (int each = 0; each < 2; each++) {
    host h;
    pieces p = {.entered = LATCH, .go_on = LATCH};
    open_host(&h, 0, NULL);
    tp_listener listener = {.struct_size = sizeof listener, .on_event = note_either_piece, .ctx = &p};
    assert_int_equal(tp_session_listen(h.session, &listener, NULL, NULL), TP_OK);
    tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go"), .each_delta = each};
    assert_int_equal(tp_turn_submit(h.session, &request, turn_ended, &h, NULL, NULL), TP_OK);
    const tp_work *work = take_next(h.inbox);
    assert_int_equal(tp_model_thinking(work->token, tp_text_of("a"), NULL), TP_OK);
    latch_wait(&p.entered, 1);
    assert_int_equal(tp_model_thinking(work->token, tp_text_of("b"), NULL), TP_OK);
    assert_int_equal(tp_model_thinking(work->token, tp_text_of(""), NULL), TP_OK);
    assert_int_equal(tp_model_thinking(work->token, tp_text_of("c"), NULL), TP_OK);
    assert_int_equal(tp_model_thinking(work->token, (tp_text)TEXT("\xff"), NULL), TP_ERR_UTF8);
    assert_int_equal(tp_model_delta(work->token, tp_text_of("d"), NULL), TP_OK);
    assert_int_equal(tp_model_delta(work->token, tp_text_of("e"), NULL), TP_OK);
    assert_int_equal(tp_model_note(work->token, tp_text_of("a.key"), tp_text_of("n1"), NULL), TP_OK);
    assert_int_equal(tp_model_note(work->token, tp_text_of("a.key"), tp_text_of("n2"), NULL), TP_OK);
    assert_int_equal(tp_model_note(work->token, tp_text_of(""), tp_text_of("n"), NULL), TP_ERR_USAGE);
    assert_int_equal(tp_model_note(work->token, tp_text_of("k"), tp_text_of(""), NULL), TP_ERR_USAGE);
    assert_int_equal(tp_model_note(work->token, (tp_text)TEXT("a\0b"), tp_text_of("n"), NULL), TP_ERR_USAGE);
    assert_int_equal(tp_model_note(work->token, tp_text_of("k"), (tp_text)TEXT("\xff"), NULL), TP_ERR_UTF8);
    assert_int_equal(tp_model_thinking(work->token, tp_text_of("f"), NULL), TP_OK);
    end_with_pieces(&h, &p, work);
    assert_string_equal(p.text, each ? "{a}{b}{c}[d][e](n1)(n2){f}" : "{a}{bc}[de](n1)(n2){f}");
    close_host(&h);
  }
}

TEST(pieces_that_wait_have_a_bound) {
  enum { PIECE = 1 << 20 };
  char *piece = malloc(PIECE);
  memset(piece, 'x', PIECE);
  for (int each = 0; each < 2; each++) {
    host h;
    pieces p;
    const tp_work *work = begin_with_pieces(&h, &p, each);
    for (int i = 0; i < 15; i++) assert_int_equal(tp_model_delta(work->token, (tp_text){piece, PIECE}, NULL), TP_OK);
    assert_int_equal(tp_model_delta(work->token, (tp_text){piece, PIECE}, NULL), TP_ERR_FULL);
    assert_int_equal(tp_model_delta(work->token, tp_text_of("small"), NULL), TP_OK);
    end_with_pieces(&h, &p, work);
    assert_int_equal(p.count, each ? 17 : 2);
    assert_int_equal(p.bytes, 1 + 15 * PIECE + 5);
    close_host(&h);
  }
  free(piece);
}

/* ---- pieces that the thread which emits them delivers ---- */

typedef struct deliveries {
  pthread_t emitter;
  _Atomic uint32_t here, elsewhere; /* pieces on that thread, and on others */
  char text[8192];
  uint64_t last_sequence;
  _Atomic int bad;
  tp_submission *_Atomic cancels; /* at the next piece */
  tp_session *session;            /* a turn of it cannot be waited for here; NULL: not tried */
} deliveries;

static void note_delivery(void *ctx, const tp_event *event) {
  deliveries *d = ctx;
  if (event->sequence != d->last_sequence + 1) d->bad++;
  d->last_sequence = event->sequence;
  if (event->kind != TP_EVENT_MODEL_DELTA && event->kind != TP_EVENT_THINKING) return;
  strncat(d->text, event->text.data, event->text.size);
  if (d->session &&
      tp_turn_run(d->session, &(tp_turn_request){.struct_size = sizeof(tp_turn_request)}, NULL, NULL) != TP_ERR_USAGE)
    d->bad++;
  tp_submission *cancels = atomic_exchange(&d->cancels, NULL);
  if (cancels) tp_submission_cancel(cancels);
  if (pthread_equal(pthread_self(), d->emitter)) d->here++;
  else d->elsewhere++;
}

static const tp_listener noting = {.struct_size = sizeof noting, .on_event = note_delivery};

static void open_deliveries(host *h, deliveries *d, const tp_runtime_options *options, tp_listener listener,
                            bool delivers) {
  *h = (host){.runtime = open_runtime(options), .ended = LATCH};
  *d = (deliveries){.emitter = pthread_self()};
  destroyed = 0;
  h->inbox = open_inbox(h->runtime, 0);
  h->model = (tp_model){.struct_size = sizeof h->model,
                        .name = "host",
                        .ctx = h,
                        .inbox = h->inbox,
                        .destroy = destroy,
                        .delivers = delivers};
  tp_session_options opens = {.struct_size = sizeof opens, .id = "s", .model = &h->model};
  assert_int_equal(tp_session_open(h->runtime, &opens, &h->session, NULL), TP_OK);
  listener.ctx = d;
  assert_int_equal(tp_session_listen(h->session, &listener, NULL, NULL), TP_OK);
  const tp_listener wrong = {.struct_size = sizeof wrong, .inbox = h->inbox, .on_owner = true};
  assert_int_equal(tp_session_listen(h->session, &wrong, NULL, NULL), TP_ERR_USAGE);
}

/* The owner may have the turn at one moment, and has left it at a later one. */
static uint32_t emit_until_here(const deliveries *d, tp_token token, bool thinking) {
  uint32_t count = 0;
  for (uint32_t before = d->here; d->here == before; count++) {
    tp_text piece = tp_text_of("p");
    assert_int_equal(thinking ? tp_model_thinking(token, piece, NULL) : tp_model_delta(token, piece, NULL), TP_OK);
    assert_true(count < 1000000);
    if (d->here == before) sched_yield();
  }
  return count;
}

TEST(piece_of_a_free_turn_is_delivered_by_the_thread_that_emits_it) {
  host h;
  deliveries d;
  open_deliveries(&h, &d, NULL, noting, true);
  d.session = h.session;
  tp_submission_unref(submit_turn(&h, "hello", LONG_MS));
  const tp_work *work = take_next(h.inbox);
  uint32_t count = emit_until_here(&d, work->token, false);
  assert_int_equal(d.here, 1);
  for (int i = 0; i < 20; i++) { /* nothing wakes an owner, so it stays free */
    assert_int_equal(tp_model_delta(work->token, tp_text_of("q"), NULL), TP_OK);
    assert_int_equal(d.here, 2 + 2 * i);
    assert_int_equal(tp_model_thinking(work->token, tp_text_of("t"), NULL), TP_OK);
    assert_int_equal(d.here, 3 + 2 * i);
  }
  assert_int_equal(complete(work->token, "whole"), TP_OK);
  latch_wait(&h.ended, 1);
  assert_string_equal(h.text, "whole");
  assert_int_equal(strspn(d.text, "p") > 0 && strspn(d.text, "p") <= count, 1);
  assert_string_equal(d.text + strspn(d.text, "p"), "qtqtqtqtqtqtqtqtqtqtqtqtqtqtqtqtqtqtqtqt");
  assert_int_equal(d.bad, 0);
  close_host(&h);
}

/* In each of these an owner's thread gets the pieces. */
TEST(piece_comes_on_the_owners_thread_where_the_model_or_a_listener_says_so) {
  tp_listener owners = noting, others = noting;
  owners.on_owner = true;
  others.kinds = UINT64_C(1) << TP_EVENT_TURN_END;
  others.on_owner = true;
  const struct {
    bool delivers, may_be_here;
    tp_listener listener, second; /* of the runtime; without a function: none */
  } cases[] = {{.delivers = false, .listener = noting},
               {.delivers = true, .listener = owners},
               {.delivers = true, .listener = noting, .second = owners},
               {.delivers = true, .listener = owners, .second = noting},
               {.delivers = true, .may_be_here = true, .listener = noting, .second = noting},
               {.delivers = true, .may_be_here = true, .listener = noting, .second = others}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    host h;
    deliveries d, second = {.emitter = pthread_self()};
    open_deliveries(&h, &d, NULL, cases[i].listener, cases[i].delivers);
    tp_listener also = cases[i].second;
    also.ctx = &second;
    if (also.on_event) assert_int_equal(tp_runtime_listen(h.runtime, &also, NULL, NULL), TP_OK);
    tp_submission_unref(submit_turn(&h, "hello", LONG_MS));
    const tp_work *work = take_next(h.inbox);
    if (cases[i].may_be_here) (void)emit_until_here(&d, work->token, true);
    else
      for (int k = 0; k < 50; k++) assert_int_equal(tp_model_delta(work->token, tp_text_of("p"), NULL), TP_OK);
    assert_int_equal(complete(work->token, "whole"), TP_OK);
    latch_wait(&h.ended, 1);
    if (!cases[i].may_be_here) assert_int_equal(d.here + second.here, 0);
    if (!cases[i].may_be_here) assert_int_equal(strlen(d.text), 50);
    close_host(&h);
  }
}

static void *run_and_wait(void *ctx) {
  host *h = ctx;
  const tp_turn_result *result;
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello"), .limit_ms = LONG_MS};
  assert_int_equal(tp_turn_run(h->session, &request, &result, NULL), TP_OK);
  h->outcome = result->outcome;
  tp_turn_result_free(result);
  return NULL;
}

TEST(piece_of_a_synchronous_turn_comes_on_the_thread_that_waits_for_it) {
  host h;
  deliveries d;
  pthread_t thread;
  open_deliveries(&h, &d, NULL, noting, true);
  assert_int_equal(pthread_create(&thread, NULL, run_and_wait, &h), 0);
  const tp_work *work = take_next(h.inbox);
  d.emitter = thread;
  for (int i = 0; i < 50; i++) assert_int_equal(tp_model_delta(work->token, tp_text_of("p"), NULL), TP_OK);
  assert_int_equal(complete(work->token, "whole"), TP_OK);
  pthread_join(thread, NULL);
  assert_int_equal(h.outcome, TP_TURN_COMPLETED);
  assert_int_equal(strlen(d.text), 50);
  assert_true(d.here > 0);
  assert_int_equal(d.elsewhere + (uint32_t)d.bad, 0);
  close_host(&h);
}

TEST(turn_that_is_cancelled_where_a_piece_is_delivered_ends_elsewhere) {
  host h;
  deliveries d;
  open_deliveries(&h, &d, NULL, noting, true);
  tp_submission *submission = submit_turn(&h, "hello", LONG_MS);
  const tp_work *work = take_next(h.inbox);
  tp_token token = work->token;
  (void)emit_until_here(&d, token, false);
  d.cancels = submission;
  assert_int_equal(tp_model_delta(token, tp_text_of("p"), NULL), TP_OK);
  assert_null(d.cancels); /* it was delivered */
  latch_wait(&h.ended, 1);
  assert_int_equal(h.outcome, TP_TURN_CANCELLED);
  assert_int_equal(complete(token, "late"), TP_ERR_STALE);
  tp_submission_unref(submission);
  close_host(&h);
}

/* The deadline stays armed, whoever had the turn before. */
TEST(turn_whose_pieces_are_delivered_ends_at_its_limit) {
  host h;
  deliveries d;
  open_deliveries(&h, &d, NULL, noting, true);
  tp_submission_unref(submit_turn(&h, "hello", 30));
  const tp_work *work = take_next(h.inbox);
  tp_token token = work->token;
  while (d.here < 2 && tp_model_delta(token, tp_text_of("p"), NULL) == TP_OK) sched_yield();
  latch_wait(&h.ended, 1); /* no other piece: only the timer can end it */
  assert_int_equal(h.outcome, TP_TURN_TIMED_OUT);
  assert_int_equal(complete(token, "late"), TP_ERR_STALE);
  close_host(&h);
}

typedef struct emitter {
  tp_token token;
  const char *piece;
} emitter;

static void *emit_many(void *ctx) {
  const emitter *e = ctx;
  for (int i = 0; i < 500; i++) assert_int_equal(tp_model_delta(e->token, tp_text_of(e->piece), NULL), TP_OK);
  return NULL;
}

TEST(pieces_of_two_threads_are_all_delivered_one_at_a_time) {
  host h;
  deliveries d;
  open_deliveries(&h, &d, NULL, noting, true);
  tp_submission_unref(submit_turn(&h, "hello", LONG_MS));
  const tp_work *work = take_next(h.inbox);
  emitter a = {work->token, "a"}, b = {work->token, "b"};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, emit_many, &b), 0);
  emit_many(&a);
  pthread_join(thread, NULL);
  assert_int_equal(complete(work->token, "whole"), TP_OK);
  latch_wait(&h.ended, 1);
  size_t counts[2] = {0, 0};
  for (const char *c = d.text; *c; c++) counts[*c == 'b']++;
  assert_int_equal(counts[0], 500);
  assert_int_equal(counts[1], 500);
  assert_int_equal(d.bad, 0);
  close_host(&h);
}

TEST(begun_turn_refuses_each_delta) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_turn_request request = {.struct_size = sizeof request, .each_delta = true};
  tp_turn *turn;
  tp_fault fault;
  assert_int_equal(tp_turn_begin_bare(runtime, &request, &turn, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "each_delta"));
  request = (tp_turn_request){.struct_size = sizeof request, .reserved_ = {0, 1}};
  assert_int_equal(tp_turn_begin_bare(runtime, &request, &turn, &fault), TP_ERR_USAGE);
  close_runtime(runtime);
}

/* ---- requests that are not taken ---- */

TEST(request_that_finds_the_inbox_full_waits) {
  host h;
  open_host(&h, 1, NULL);
  add(h.runtime, "g", GATHER, h.inbox, (tp_subscription){.limit_ms = LONG_MS});
  tp_submission_unref(submit_turn(&h, "hello", LONG_MS));
  const tp_work *work = take_next(h.inbox); /* the handler's, in this turn */
  tp_turn *other = begin_bare(h.runtime, LONG_MS);
  ran r;
  submit(other, GATHER, NULL, &r);
  wait_readable(h.inbox);
  assert_int_equal(answer(work, TP_ANSWER_DONE, NULL), TP_OK);
  assert_int_equal(answer(take_next(h.inbox), TP_ANSWER_DONE, NULL), TP_OK);
  latch_wait(&r.ended, 1);
  assert_int_equal(complete(take_next(h.inbox)->token, "ok"), TP_OK);
  latch_wait(&h.ended, 1);
  assert_int_equal(h.outcome, TP_TURN_COMPLETED);
  tp_turn_end(other);
  close_host(&h);
}

TEST(freed_inbox_fails_the_request_that_waits_and_those_that_come) {
  host h;
  open_host(&h, 0, NULL);
  tp_submission_unref(submit_turn(&h, "hello", LONG_MS));
  wait_readable(h.inbox);
  tp_inbox_free(h.inbox);
  h.inbox = NULL;
  latch_wait(&h.ended, 1);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(h.outcome, TP_TURN_FAILED);
    assert_int_equal(h.code, TP_ERR_MODEL);
    assert_string_equal(h.reason, "the model failed: its inbox was freed");
    if (i == 1) break;
    tp_submission_unref(submit_turn(&h, "hello", LONG_MS));
    latch_wait(&h.ended, 2);
  }
  close_host(&h);
}

/* ---- requests that are over ---- */

static _Atomic int tools_destroyed;
static void destroy_tool(void *ctx) {
  (void)ctx;
  tools_destroyed++;
}

static tp_answer contribute_tool(void *ctx, tp_call *call) {
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = "a_tool_with_a_name_that_lies_in_memory_of_its_turn",
                        .inbox = ((host *)ctx)->inbox,
                        .destroy = destroy_tool};
  return tp_call_emit_tool_bundle(call, "b", (const tp_tool *[]){&tool}, 1, NULL) == TP_OK ? TP_ANSWER_DONE
                                                                                           : TP_ANSWER_FAILED;
}

TEST(request_of_a_turn_that_is_over_can_be_read_until_it_is_completed) {
  host h;
  open_host(&h, 0, NULL);
  add_hooks(h.runtime, &(hook){.id = "tools", .phase = TOOLS, .run = contribute_tool, .ctx = &h}, 1);
  tp_submission *submission = submit_turn(&h, "hello", LONG_MS);
  const tp_work *work = take_next(h.inbox);
  assert_true(tp_token_open(work->token));
  tp_submission_cancel(submission);
  latch_wait(&h.ended, 1);
  tp_submission_unref(submission);
  assert_int_equal(h.outcome, TP_TURN_CANCELLED);
  assert_false(tp_token_open(work->token));
  tp_submission_unref(submit_turn(&h, "once more", LONG_MS)); /* in the memory that turns leave */
  const tp_work *second = take_next(h.inbox);
  char asked[REQUEST_BYTES];
  write_request(asked, work->request);
  assert_string_equal(asked, "S<>U<hello>");
  assert_int_equal(work->request->tool_count, 1);
  assert_string_equal(work->request->tools[0]->name, "a_tool_with_a_name_that_lies_in_memory_of_its_turn");
  assert_int_equal(tp_model_delta(work->token, tp_text_of("late"), NULL), TP_ERR_STALE);
  assert_int_equal(complete(second->token, "ok"), TP_OK);
  latch_wait(&h.ended, 2);
  close_session(&h);
  assert_int_equal(destroyed, 0); /* the request holds the model, and the tools that it shows */
  take_destroy(h.inbox, NULL);    /* the second turn's */
  assert_int_equal(tools_destroyed, 1);
  write_request(asked, work->request);
  assert_string_equal(asked, "S<>U<hello>");
  assert_int_equal(open_tokens(h.runtime), 1);
  assert_int_equal(complete(work->token, "late"), TP_ERR_STALE);
  assert_int_equal(open_tokens(h.runtime), 0);
  tp_inbox_free(h.inbox);
  close_runtime(h.runtime);
  assert_int_equal(destroyed, 1);
  assert_int_equal(tools_destroyed, 2);
}

TEST(request_that_was_not_taken_goes_with_its_turn) {
  host h;
  open_host(&h, 0, NULL);
  tp_submission_unref(submit_turn(&h, "hello", 20));
  latch_wait(&h.ended, 1);
  assert_int_equal(h.outcome, TP_TURN_TIMED_OUT);
  assert_null(take(h.inbox));
  close_host(&h);
}

/* ---- what is refused ---- */

static void start(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx;
  (void)request;
  (void)token;
}
static void cancel(void *ctx, tp_token token) {
  (void)ctx;
  (void)token;
}

TEST(wrong_models_are_refused_and_say_why) {
  host h;
  open_host(&h, 0, NULL);
  tp_runtime *other = open_runtime(NULL);
  tp_inbox *strange = open_inbox(other, 0);
  const struct {
    tp_model model;
    const char *message;
  } wrong[] = {
      {{.name = "m"}, "tp_model.start is NULL: a model must have it, or an inbox"},
      {{.inbox = h.inbox, .start = start}, "tp_model: start and inbox are set: set one of the two"},
      {{.inbox = h.inbox, .cancel = cancel},
       "tp_model: cancel and inbox are set, and no callback comes beside an inbox: ask tp_token_open() instead"},
      {{.inbox = h.inbox, .resume = cancel},
       "tp_model: resume and inbox are set, and no callback comes beside an inbox: ask tp_model_held() instead"},
      {{.inbox = h.inbox, .placement = TP_PLACEMENT_INLINE},
       "tp_model: placement inline and inbox are set, and a request through an inbox waits for its host"},
      {{.inbox = strange}, "tp_model: its inbox is of another runtime"}};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    tp_model model = wrong[i].model;
    model.struct_size = sizeof model;
    model.destroy = destroy;
    tp_fault fault;
    tp_session *session;
    tp_agent *agent;
    tp_session_options opens = {.struct_size = sizeof opens, .id = "wrong", .model = &model};
    assert_int_equal(tp_session_open(h.runtime, &opens, &session, &fault), TP_ERR_USAGE);
    assert_string_equal(fault.message, wrong[i].message);
    tp_agent_config config = {.struct_size = sizeof config, .id = "a", .model = &model};
    assert_int_equal(tp_agent_add(h.runtime, &config, &agent, &fault), TP_ERR_USAGE);
    assert_string_equal(fault.message, wrong[i].message);
  }
  tp_session_options twice = {.struct_size = sizeof twice, .id = "s", .model = &h.model};
  tp_session *session;
  assert_int_equal(tp_session_open(h.runtime, &twice, &session, NULL), TP_ERR_BUSY);
  assert_int_equal(destroyed, 0);
  tp_inbox_free(strange);
  close_runtime(other);
  close_host(&h);
}
