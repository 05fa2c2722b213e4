/* SPDX-License-Identifier: Apache-2.0
 *
 * Listeners with an inbox: events come as copies, in order; events that found no space are counted at their place. */
#include "tests/support/test.h"
#include "tests/support/inbox.h"

enum { EVENTS_MAX = 64, JOBS = 1 << TP_EVENT_JOB };

static latch gone;
static _Atomic int destroyed;
static void destroy(void *ctx) {
  (void)ctx;
  destroyed++;
  latch_hit(&gone);
}

typedef struct host {
  tp_runtime *runtime;
  tp_inbox *inbox;
  tp_session *session;
  recorder *model;
  uint64_t listener;
  latch ended;
} host;

static void open_host(host *h, tp_inbox_options options, tp_listener listener, const reply *replies, size_t count) {
  destroyed = 0;
  gone = (latch)LATCH;
  *h = (host){.runtime = open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .data = "r"}),
              .ended = LATCH};
  options.struct_size = sizeof options;
  assert_int_equal(tp_inbox_new(h->runtime, &options, &h->inbox, NULL), TP_OK);
  listener.struct_size = sizeof listener;
  listener.inbox = h->inbox;
  listener.ctx = h;
  listener.destroy = destroy;
  assert_int_equal(tp_runtime_listen(h->runtime, &listener, &h->listener, NULL), TP_OK);
  h->model = recorder_new(replies, count);
  tp_session_options opens = {
      .struct_size = sizeof opens, .id = "s", .model = recorder_model(h->model, true), .data = "session"};
  assert_int_equal(tp_session_open(h->runtime, &opens, &h->session, NULL), TP_OK);
}

static void turn_ended(void *ctx, const tp_turn_result *result) {
  (void)result;
  latch_hit(ctx);
}

static void run_turn(host *h, const char *text, int ended) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text), .data = "turn"};
  assert_int_equal(tp_turn_submit(h->session, &request, turn_ended, &h->ended, NULL, NULL), TP_OK);
  latch_wait(&h->ended, ended);
}

static void close_session(host *h) {
  latch over = LATCH;
  tp_session_close(h->session, (void (*)(void *))latch_hit, &over);
  latch_wait(&over, 1);
}

static void close_host(host *h) {
  close_session(h);
  close_runtime(h->runtime);
  tp_inbox_free(h->inbox);
  assert_int_equal(destroyed, 1);
  recorder_free(h->model);
}

static const tp_event *take_event(tp_inbox *inbox, const tp_work **ret_work) {
  *ret_work = take_next(inbox);
  assert_int_equal((*ret_work)->kind, TP_WORK_EVENT);
  assert_int_equal((*ret_work)->token.bits, 0);
  return (*ret_work)->event;
}

/* Takes one and returns it. */
static tp_event_kind take_kind(tp_inbox *inbox, uint64_t *ret_lost) {
  const tp_work *work;
  const tp_event *event = take_event(inbox, &work);
  tp_event_kind kind = event->kind;
  if (ret_lost) *ret_lost = event->lost;
  assert_int_equal(tp_work_release(work), TP_OK);
  return kind;
}

#define assert_next(inbox, want) assert_string_equal(tp_event_name(take_kind((inbox), NULL)), tp_event_name(want))

/* ---- events as copies ---- */

TEST(events_of_a_turn_come_in_order_and_stay_readable_when_all_is_over) {
  const reply replies[] = {
      {.calls = {{.id = TEXT("c1"), .name = TEXT("nothing"), .arguments = no_arguments}}, .call_count = 1},
      {.text = "the end", .delta = "the "}};
  host h;
  open_host(&h, (tp_inbox_options){0}, (tp_listener){0}, replies, 2);
  act notes = {.emits = &(tp_contribution){.struct_size = sizeof(tp_contribution),
                                           .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                           .key = TEXT("k"),
                                           .text = TEXT("context")},
               .emit_count = 1};
  add_hooks(h.runtime, &(hook){.id = "note", .phase = GATHER, .ctx = &notes}, 1);
  run_turn(&h, "a long text of the user that lies in memory of the turn", 1);
  close_session(&h);
  close_runtime(h.runtime);
  assert_int_equal(destroyed, 0); /* events hold the listener */
  const tp_work *works[EVENTS_MAX];
  const tp_event *of[TP_EVENT_LOST + 1] = {NULL};
  size_t count = 0;
  for (; is_readable(h.inbox); count++) {
    const tp_event *event = take_event(h.inbox, &works[count]);
    assert_ptr_equal(works[count]->ctx, &h);
    assert_int_equal(event->struct_size, sizeof *event);
    of[event->kind] = event;
  }
  assert_text(of[TP_EVENT_TURN_BEGIN]->text, "a long text of the user that lies in memory of the turn");
  assert_text(of[TP_EVENT_TURN_BEGIN]->ids[TP_ID_SESSION], "s");
  assert_string_equal(tp_event_data(of[TP_EVENT_TURN_BEGIN], TP_ID_TURN), "turn");
  assert_string_equal(tp_event_data(of[TP_EVENT_TURN_BEGIN], TP_ID_SESSION), "session");
  assert_string_equal(tp_event_data(of[TP_EVENT_TURN_BEGIN], TP_ID_RUNTIME), "r");
  assert_null(tp_event_data(of[TP_EVENT_TURN_BEGIN], TP_ID_TENANT));
  assert_string_equal(of[TP_EVENT_RUN]->run->subscription, "note");
  assert_text(of[TP_EVENT_CONTEXT]->contribution->text, "context");
  assert_string_equal(of[TP_EVENT_CONTEXT]->subscription, "note");
  assert_text(of[TP_EVENT_MODEL_DELTA]->text, "the ");
  assert_text(of[TP_EVENT_TOOL_END]->tool_call->id, "c1");
  assert_string_equal(tp_tool_result_name(of[TP_EVENT_TOOL_END]->tool_result->kind), "unknown_tool");
  assert_true(of[TP_EVENT_TURN_END]->sequence > of[TP_EVENT_MODEL_END]->sequence);
  assert_text(of[TP_EVENT_MODEL_BEGIN]->model, "recorder");
  assert_text(of[TP_EVENT_MODEL_END]->model, "recorder");
  assert_ptr_not_equal(of[TP_EVENT_MODEL_BEGIN]->model.data, of[TP_EVENT_MODEL_END]->model.data); /* copies */
  tp_inbox_free(h.inbox);
  for (size_t i = 0; i < count; i++) {
    assert_int_equal(destroyed, 0);
    assert_int_equal(tp_work_release(works[i]), TP_OK);
  }
  assert_int_equal(destroyed, 1);
  recorder_free(h.model);
}

TEST(sequence_of_a_turns_events_has_no_gap) {
  const reply replies[] = {{.text = "ok"}};
  host h;
  open_host(&h, (tp_inbox_options){0}, (tp_listener){0}, replies, 1);
  run_turn(&h, "go", 1);
  bool ended = false;
  for (uint64_t sequence = 1; !ended; sequence++) {
    const tp_work *work;
    const tp_event *event = take_event(h.inbox, &work);
    assert_int_equal(event->sequence, sequence);
    ended = event->kind == TP_EVENT_TURN_END;
    assert_int_equal(tp_work_release(work), TP_OK);
  }
  close_host(&h);
}

/* ---- events without space ---- */

TEST(what_finds_no_space_is_counted_where_it_is_missing) {
  const reply replies[] = {{.text = "ok"}};
  host h;
  tp_listener listener = {.kinds = UINT64_C(1) << TP_EVENT_TURN_BEGIN | UINT64_C(1) << TP_EVENT_MODEL_BEGIN |
                                   UINT64_C(1) << TP_EVENT_MODEL_END | UINT64_C(1) << TP_EVENT_TURN_END};
  open_host(&h, (tp_inbox_options){.event_capacity = 2}, listener, replies, 1);
  run_turn(&h, "one", 1);
  run_turn(&h, "two", 2);
  uint64_t lost;
  assert_next(h.inbox, TP_EVENT_TURN_BEGIN);
  assert_next(h.inbox, TP_EVENT_MODEL_BEGIN);
  const tp_work *marker;
  const tp_event *event = take_event(h.inbox, &marker);
  assert_string_equal(tp_event_name(event->kind), "lost");
  assert_int_equal(event->lost, 1 + 3); /* the first turn's MODEL_END, and the second's three before its end */
  assert_int_equal(event->ids[TP_ID_SESSION].size, 0);
  assert_ptr_equal(marker->ctx, &h);
  assert_next(h.inbox, TP_EVENT_TURN_END); /* ends have space of their own */
  assert_next(h.inbox, TP_EVENT_TURN_END);
  assert_false(is_readable(h.inbox));
  run_turn(&h, "three", 3); /* while the host still has the marker */
  assert_next(h.inbox, TP_EVENT_TURN_BEGIN);
  assert_next(h.inbox, TP_EVENT_MODEL_BEGIN);
  assert_int_equal(take_kind(h.inbox, &lost), TP_EVENT_TURN_END);
  assert_int_equal(lost, 1); /* its MODEL_END: the marker is taken, so that the end says it */
  assert_false(is_readable(h.inbox));
  run_turn(&h, "four", 4);
  run_turn(&h, "five", 5);
  assert_next(h.inbox, TP_EVENT_TURN_BEGIN);
  assert_next(h.inbox, TP_EVENT_MODEL_BEGIN);
  assert_int_equal(take_kind(h.inbox, &lost), TP_EVENT_TURN_END);
  assert_int_equal(lost, 1);
  assert_int_equal(take_kind(h.inbox, &lost), TP_EVENT_TURN_END);
  assert_int_equal(lost, 3);
  assert_int_equal(tp_work_release(marker), TP_OK);
  run_turn(&h, "six", 6);
  assert_next(h.inbox, TP_EVENT_TURN_BEGIN);
  assert_next(h.inbox, TP_EVENT_MODEL_BEGIN);
  assert_int_equal(take_kind(h.inbox, &lost), TP_EVENT_LOST);
  assert_int_equal(lost, 1);
  assert_next(h.inbox, TP_EVENT_TURN_END);
  assert_false(is_readable(h.inbox));
  close_host(&h);
}

TEST(gap_that_comes_while_the_host_has_a_marker_is_shown_when_it_returns_it) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox;
  tp_inbox_options options = {.struct_size = sizeof options, .event_capacity = 1};
  assert_int_equal(tp_inbox_new(runtime, &options, &inbox, NULL), TP_OK);
  act nothing = {.kind = TP_ANSWER_DONE};
  add_hooks(runtime, &(hook){.id = "h", .phase = GATHER, .ctx = &nothing}, 1);
  tp_listener listener = {.struct_size = sizeof listener, .inbox = inbox};
  assert_int_equal(tp_runtime_listen(runtime, &listener, NULL, NULL), TP_OK);
  tp_turn *turn = begin_bare(runtime, 0);
  const tp_work *marker = NULL;
  for (int i = 0; i < 2; i++) { /* of its three events there is space for one */
    tp_phase_result result = run_phase(turn, GATHER, NULL);
    tp_phase_result_release(turn, &result);
    assert_next(inbox, TP_EVENT_PHASE_BEGIN);
    if (i == 0) assert_int_equal(take_event(inbox, &marker)->lost, 2);
    assert_false(is_readable(inbox));
  }
  assert_int_equal(tp_work_release(marker), TP_OK);
  uint64_t lost;
  assert_int_equal(take_kind(inbox, &lost), TP_EVENT_LOST);
  assert_int_equal(lost, 2);
  assert_false(is_readable(inbox));
  tp_turn_end(turn);
  close_runtime(runtime);
  tp_inbox_free(inbox);
}

TEST(events_leave_the_capacity_of_work_alone) {
  const reply replies[] = {{.text = "ok"}};
  host h;
  open_host(&h, (tp_inbox_options){.event_capacity = 1, .capacity = 1}, (tp_listener){0}, replies, 1);
  run_turn(&h, "one", 1); /* its events wait, and more were lost */
  add(h.runtime, "g", GATHER, h.inbox, (tp_subscription){.limit_ms = LONG_MS});
  tp_turn *turn = begin_bare(h.runtime, 0);
  ran r;
  submit(turn, GATHER, NULL, &r);
  const tp_work *work;
  while ((work = take_next(h.inbox))->kind == TP_WORK_EVENT) assert_int_equal(tp_work_release(work), TP_OK);
  assert_int_equal(work->kind, TP_WORK_HANDLER);
  assert_int_equal(tp_work_release(work), TP_ERR_USAGE);
  assert_int_equal(tp_work_release(NULL), TP_ERR_USAGE);
  assert_int_equal(answer(work, TP_ANSWER_DONE, NULL), TP_OK);
  latch_wait(&r.ended, 1);
  assert_run(&r.result, "g", TP_STATE_SUCCEEDED, TP_REASON_NONE);
  tp_turn_end(turn);
  close_host(&h);
}

/* how many allocations are granted before all are refused; negative: all are granted */
static _Atomic long grants = -1;

static void *scarce_alloc(void *ctx, size_t size) {
  (void)ctx;
  if (grants == 0) return NULL;
  if (grants > 0) grants--;
  return malloc(size);
}
static void scarce_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  free(memory);
}

static tp_answer without_memory(void *ctx, tp_call *call) {
  (void)ctx;
  (void)call;
  grants = 0;
  return TP_ANSWER_DONE;
}

TEST(what_finds_no_memory_is_counted_too) {
  tp_runtime_options options = {.struct_size = sizeof options, .allocator = {scarce_alloc, scarce_release, NULL}};
  tp_runtime *runtime = open_runtime(&options);
  tp_inbox *inbox = open_inbox(runtime, 0);
  add_hooks(runtime, &(hook){.id = "h", .phase = GATHER, .run = without_memory}, 1);
  tp_listener listener = {.struct_size = sizeof listener, .inbox = inbox};
  assert_int_equal(tp_runtime_listen(runtime, &listener, NULL, NULL), TP_OK);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, GATHER, NULL);
  grants = -1;
  tp_phase_result_release(turn, &result);
  tp_turn_end(turn);
  uint64_t lost;
  assert_next(inbox, TP_EVENT_PHASE_BEGIN);
  assert_int_equal(take_kind(inbox, &lost), TP_EVENT_LOST);
  assert_int_equal(lost, 2); /* RUN and PHASE_END */
  assert_false(is_readable(inbox));
  close_runtime(runtime);
  tp_inbox_free(inbox);
}

/* ---- the end of a listener ---- */

TEST(removed_listener_gets_no_event_any_more) {
  const reply replies[] = {{.text = "ok"}};
  host h;
  open_host(&h, (tp_inbox_options){.event_capacity = 2}, (tp_listener){0}, replies, 1);
  run_turn(&h, "one", 1);
  const tp_work *work;
  (void)take_event(h.inbox, &work);
  assert_int_equal(tp_runtime_unlisten(h.runtime, h.listener, NULL), TP_OK);
  assert_null(take(h.inbox));
  assert_false(is_readable(h.inbox));
  assert_int_equal(destroyed, 0);
  assert_int_equal(tp_work_release(work), TP_OK);
  close_host(&h);
}

TEST(freed_inbox_drops_its_events_and_later_ones) {
  const reply replies[] = {{.text = "ok"}};
  host h;
  open_host(&h, (tp_inbox_options){.event_capacity = 2}, (tp_listener){0}, replies, 1);
  run_turn(&h, "one", 1);
  tp_inbox_free(h.inbox);
  h.inbox = NULL;
  run_turn(&h, "two", 2);
  close_host(&h);
}

TEST(session_listener_may_name_an_inbox) {
  const reply replies[] = {{.text = "ok"}};
  host h;
  open_host(&h, (tp_inbox_options){0}, (tp_listener){.kinds = JOBS}, replies, 1);
  tp_listener listener = {.struct_size = sizeof listener, .inbox = h.inbox, .kinds = UINT64_C(1) << TP_EVENT_TURN_END};
  assert_int_equal(tp_session_listen(h.session, &listener, NULL, NULL), TP_OK);
  run_turn(&h, "one", 1);
  assert_next(h.inbox, TP_EVENT_TURN_END);
  assert_false(is_readable(h.inbox));
  close_host(&h);
}

/* ---- answers that are held back ---- */

typedef struct pieces {
  host host;
  tp_token token;
  uint64_t listener;
  latch begun, resumed;
} pieces;

static void start_pieces(void *ctx, const tp_model_request *request, tp_token token) {
  pieces *p = ctx;
  (void)request;
  p->token = token;
  latch_hit(&p->begun);
}

static void resume_pieces(void *ctx, tp_token token) {
  pieces *p = ctx;
  assert_true(token.bits == p->token.bits);
  latch_hit(&p->resumed);
}

/* A session whose model emits the pieces of the test, and whose listener has the inbox. */
static void open_pieces(pieces *p, size_t held_bytes) {
  *p = (pieces){.begun = LATCH, .resumed = LATCH};
  host *h = &p->host;
  *h = (host){.runtime = open_runtime(NULL), .ended = LATCH};
  h->inbox = open_inbox(h->runtime, 0);
  const tp_model model = {.struct_size = sizeof model,
                          .ctx = p,
                          .start = start_pieces,
                          .resume = resume_pieces,
                          .delivers = true,
                          .placement = TP_PLACEMENT_INLINE};
  const tp_session_options opens = {.struct_size = sizeof opens, .id = "s", .model = &model};
  assert_int_equal(tp_session_open(h->runtime, &opens, &h->session, NULL), TP_OK);
  const tp_listener listener = {.struct_size = sizeof listener,
                                .inbox = h->inbox,
                                .kinds = UINT64_C(1) << TP_EVENT_MODEL_DELTA | UINT64_C(1) << TP_EVENT_THINKING,
                                .held_bytes = held_bytes};
  assert_int_equal(tp_session_listen(h->session, &listener, &p->listener, NULL), TP_OK);
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go"), .each_delta = true};
  assert_int_equal(tp_turn_submit(h->session, &request, turn_ended, &h->ended, NULL, NULL), TP_OK);
  latch_wait(&p->begun, 1);
}

static void emit_piece(const pieces *p, const char *text, bool thinking) {
  tp_text piece = tp_text_of(text);
  tp_status status = thinking ? tp_model_thinking(p->token, piece, NULL) : tp_model_delta(p->token, piece, NULL);
  assert_int_equal(status, TP_OK);
}

static void end_pieces(pieces *p) {
  const tp_model_response response = {.struct_size = sizeof response, .text = TEXT("all")};
  assert_int_equal(tp_model_complete(p->token, &response, NULL), TP_OK);
  latch_wait(&p->host.ended, 1);
  assert_false(tp_model_held(p->token));
}

static void close_pieces(pieces *p) {
  close_session(&p->host);
  close_runtime(p->host.runtime);
  tp_inbox_free(p->host.inbox);
}

static const tp_work *take_piece(pieces *p, const char *text) {
  const tp_work *work = take_next(p->host.inbox);
  assert_text(work->event->text, text);
  assert_null(tp_event_hold(work->event)); /* a copy holds nothing */
  return work;
}

TEST(pieces_that_wait_in_an_inbox_hold_the_answer_back_above_the_limit) {
  pieces p;
  open_pieces(&p, 8);
  emit_piece(&p, "12345678", false);
  const tp_work *first = take_piece(&p, "12345678");
  assert_false(tp_model_held(p.token)); /* as many as the limit */
  emit_piece(&p, "9", true);
  const tp_work *second = take_piece(&p, "9"); /* taken, and not released */
  assert_true(tp_model_held(p.token));
  emit_piece(&p, "more", false);
  const tp_work *third = take_piece(&p, "more"); /* a model that does not ask is not stopped */
  assert_int_equal(tp_work_release(first), TP_OK);
  assert_int_equal(tp_work_release(second), TP_OK);
  assert_true(tp_model_held(p.token)); /* by the third */
  assert_int_equal(latch_count(&p.resumed), 0);
  assert_int_equal(tp_work_release(third), TP_OK);
  assert_false(tp_model_held(p.token));
  assert_int_equal(latch_count(&p.resumed), 1);
  emit_piece(&p, "again", false);
  assert_int_equal(tp_work_release(take_piece(&p, "again")), TP_OK);
  assert_int_equal(latch_count(&p.resumed), 1); /* it was not held */
  end_pieces(&p);
  close_pieces(&p);
}

TEST(listener_without_a_limit_holds_nothing) {
  pieces p;
  open_pieces(&p, 0);
  for (int i = 0; i < 100; i++) emit_piece(&p, "a piece of some length", false);
  const tp_work *work = take_piece(&p, "a piece of some length");
  assert_false(tp_model_held(p.token));
  assert_int_equal(tp_work_release(work), TP_OK);
  end_pieces(&p);
  close_pieces(&p);
}

TEST(removed_listener_holds_nothing_any_more) {
  pieces p;
  open_pieces(&p, 1);
  emit_piece(&p, "long", false);
  wait_readable(p.host.inbox);
  assert_true(tp_model_held(p.token));
  assert_int_equal(tp_session_unlisten(p.host.session, p.listener, NULL), TP_OK);
  assert_null(take(p.host.inbox)); /* it is dropped here */
  assert_false(tp_model_held(p.token));
  assert_int_equal(latch_count(&p.resumed), 1);
  end_pieces(&p);
  close_pieces(&p);
}

TEST(what_still_waits_holds_up_neither_the_end_nor_the_runtime) {
  pieces p;
  open_pieces(&p, 1);
  emit_piece(&p, "long", false);
  const tp_work *work = take_piece(&p, "long");
  emit_piece(&p, "longer", false);
  wait_readable(p.host.inbox);
  assert_true(tp_model_held(p.token));
  end_pieces(&p); /* a complete answer is held by nothing */
  close_session(&p.host);
  close_runtime(p.host.runtime);
  assert_int_equal(tp_work_release(work), TP_OK); /* later than all */
  assert_int_equal(latch_count(&p.resumed), 0);
  tp_inbox_free(p.host.inbox);
}

TEST(bad_listeners_are_refused_and_say_why) {
  tp_runtime *runtime = open_runtime(NULL), *other = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0), *strange = open_inbox(other, 0);
  const struct {
    tp_listener listener;
    const char *message;
  } bad[] = {{{.on_event = NULL}, "tp_listener: on_event is missing: a listener needs it, or an inbox"},
             {{.on_event = (tp_event_fn)(void (*)(void))destroy, .inbox = inbox},
              "tp_listener: on_event and inbox are set: set one of the two"},
             {{.on_event = (tp_event_fn)(void (*)(void))destroy, .held_bytes = 1},
              "tp_listener: held_bytes is for an inbox: with on_event the callback calls tp_event_hold()"},
             {{.inbox = strange}, "tp_listener: its inbox is of another runtime"},
             {{.inbox = inbox, .kinds = UINT64_C(1) << TP_EVENT_LOST},
              "tp_listener: kinds has a bit that is no kind of event"}};
  for (size_t i = 0; i < COUNT(bad); i++) {
    tp_listener listener = bad[i].listener;
    listener.struct_size = sizeof listener;
    tp_fault fault;
    assert_int_equal(tp_runtime_listen(runtime, &listener, NULL, &fault), TP_ERR_USAGE);
    assert_string_equal(fault.message, bad[i].message);
  }
  tp_inbox *none;
  tp_fault fault;
  tp_inbox_options huge = {.struct_size = sizeof huge, .event_capacity = UINT32_MAX};
  assert_int_equal(tp_inbox_new(runtime, &huge, &none, &fault), TP_ERR_USAGE);
  tp_inbox_free(inbox);
  tp_inbox_free(strange);
  close_runtime(runtime);
  close_runtime(other);
}
