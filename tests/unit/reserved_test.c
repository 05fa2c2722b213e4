/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserved parts of a struct that a host fills must be zero in every byte: a newer host may give them a meaning, and
 * the library must not accept and ignore a value. */
#include "tests/support/test.h"
#include "tests/support/model.h"
#include "turnphase/process.h"

/* What the structs are offered to. */
typedef struct fixture {
  tp_runtime *runtime;
  tp_edit *edit;
  tp_turn *turn;
  tp_store *store;
  tp_token token; /* of a handler that has deferred */
} fixture;

/* Each gives one struct to who reads it, and takes back what comes of it. */
typedef tp_status (*offer_fn)(fixture *h, const void *given, tp_fault *fault);

static tp_status offer_handler(fixture *h, const void *given, tp_fault *fault) {
  tp_status status = tp_edit_add_handler(h->edit, given, fault);
  return status == TP_OK ? tp_edit_remove_handler(h->edit, "offered", NULL) : status;
}

static tp_status offer_edge(fixture *h, const void *given, tp_fault *fault) {
  const tp_edge *edges[] = {given};
  tp_subscription sub = {.struct_size = sizeof sub, .id = "s", .handler = "h", .phase = TP_PHASE_TURN_INTAKE};
  sub.after = edges;
  sub.after_count = 1;
  tp_status status = tp_edit_add_subscription(h->edit, &sub, fault);
  return status == TP_OK ? tp_edit_remove_subscription(h->edit, "s", NULL) : status;
}

static tp_status offer_answer(fixture *h, const void *given, tp_fault *fault) {
  (void)h;
  return tp_tool_complete_with((tp_token){7}, given, fault);
}

static tp_status offer_part(fixture *h, const void *given, tp_fault *fault) {
  tp_writer *writer;
  (void)h;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_status status = tp_part_write(given, writer, fault);
  tp_writer_free(writer);
  return status;
}

static tp_status register_nothing(const tp_domain_context *context, tp_fault *fault) {
  return (void)context, (void)fault, TP_OK;
}
static tp_status offer_domain(fixture *h, const void *given, tp_fault *fault) {
  return tp_domain_add(h->runtime, h->edit, given, fault);
}

static tp_status offer_call(fixture *h, const void *given, tp_fault *fault) {
  const tp_tool_call *calls[] = {given};
  const tp_tool_result *const *results;
  return tp_tools_run(h->turn, calls, 1, &results, fault);
}

static tp_status offer_hook(fixture *h, const void *given, tp_fault *fault) {
  return tp_hook_add(h->runtime, given, fault);
}

static tp_status offer_subscription(fixture *h, const void *given, tp_fault *fault) {
  tp_status status = tp_edit_add_subscription(h->edit, given, fault);
  return status == TP_OK ? tp_edit_remove_subscription(h->edit, "s", NULL) : status;
}

static tp_status offer_session(fixture *h, const void *given, tp_fault *fault) {
  tp_session *session;
  tp_status status = tp_session_open(h->runtime, given, &session, fault);
  if (status == TP_OK) tp_session_close(session, NULL, NULL);
  return status;
}

static void start_nothing(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx, (void)request, (void)token;
}
static tp_status offer_model(fixture *h, const void *given, tp_fault *fault) {
  return offer_session(h, &(tp_session_options){.struct_size = sizeof(tp_session_options), .id = "m", .model = given},
                       fault);
}

static void ignore_event(void *ctx, const tp_event *event) { (void)ctx, (void)event; }
static tp_status offer_listener(fixture *h, const void *given, tp_fault *fault) {
  uint64_t id;
  tp_status status = tp_runtime_listen(h->runtime, given, &id, fault);
  return status == TP_OK ? tp_runtime_unlisten(h->runtime, id, NULL) : status;
}

static tp_status offer_request(fixture *h, const void *given, tp_fault *fault) {
  tp_turn *turn;
  tp_status status = tp_turn_begin_bare(h->runtime, given, &turn, fault);
  if (status == TP_OK) tp_turn_end(turn);
  return status;
}

static tp_status offer_input(fixture *h, const void *given, tp_fault *fault) {
  tp_phase_result result = {.struct_size = sizeof result};
  return tp_phase_run(h->turn, TP_PHASE_TURN_INTAKE, given, &result, fault);
}

static tp_status offer_loop(fixture *h, const void *given, tp_fault *fault) {
  (void)h;
  tp_process_loop *loop;
  tp_status status = tp_process_loop_new(given, &loop, fault);
  if (status == TP_OK) tp_process_loop_free(loop);
  return status;
}

static tp_status offer_decision(fixture *h, const void *given, tp_fault *fault) {
  (void)h;
  return tp_question_answer((tp_token){7}, given, fault);
}

static tp_status offer_outcome(fixture *h, const void *given, tp_fault *fault) {
  (void)fault;
  return tp_token_complete(h->token, given, NULL);
}

static bool stop_entries(void *ctx, const tp_entry_record *record) { return (void)ctx, (void)record, false; }
static tp_status offer_records(fixture *h, const void *given, tp_fault *fault) {
  return tp_runtime_records(h->runtime, given, stop_entries, NULL, fault);
}
static tp_status offer_store_records(fixture *h, const void *given, tp_fault *fault) {
  return h->store->records(h->store->ctx, given, stop_entries, NULL, fault);
}

static bool stop_turns(void *ctx, const tp_turn_record *record) { return (void)ctx, (void)record, false; }
static tp_status offer_turns(fixture *h, const void *given, tp_fault *fault) {
  return tp_runtime_turns(h->runtime, given, stop_turns, NULL, fault);
}
static tp_status offer_store_turns(fixture *h, const void *given, tp_fault *fault) {
  return h->store->turns(h->store->ctx, given, stop_turns, NULL, fault);
}

static bool stop_subscriptions(void *ctx, const tp_subscription_info *info) { return (void)ctx, (void)info, false; }
static tp_status offer_subscriptions(fixture *h, const void *given, tp_fault *fault) {
  return tp_runtime_subscriptions(h->runtime, given, stop_subscriptions, NULL, fault);
}

static tp_status offer_response(fixture *h, const void *given, tp_fault *fault) {
  (void)h;
  const tp_model_response *const list[] = {given};
  tp_model *model = NULL;
  tp_status status = tp_script_model_new(list, 1, false, &model, fault);
  tp_model_free(model);
  return status;
}

static tp_status offer_late(fixture *h, const void *given, tp_fault *fault) {
  (void)fault;
  return h->store->record_late(h->store->ctx, given);
}

static tp_status offer_finish(fixture *h, const void *given, tp_fault *fault) {
  uint32_t state;
  return h->store->job_finish(h->store->ctx, given, &state, fault);
}

/* ---- the table ---- */

static const tp_phase_id tool_phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION;
static const tp_handler a_handler = {
    .struct_size = sizeof a_handler, .id = "offered", .run = play, .phases = &tool_phase, .phase_count = 1};
static const tp_hook a_hook = {.struct_size = sizeof a_hook, .phase = "turn.intake", .run = play};
static const tp_subscription a_subscription = {
    .struct_size = sizeof a_subscription, .id = "s", .handler = "h", .phase = TP_PHASE_TURN_INTAKE};
static const tp_edge an_edge = {.struct_size = sizeof an_edge, .target = "t", .optional = true};
static const tp_domain a_domain = {.struct_size = sizeof a_domain,
                                   .header_version = TP_VERSION_NUMBER,
                                   .name = "d",
                                   .register_with = register_nothing};
static const tp_tool_answer an_answer = {.struct_size = sizeof an_answer};
static const tp_part a_part = {.struct_size = sizeof a_part, .kind = TP_PART_TEXT};
static const tp_tool_call a_call = {.struct_size = sizeof a_call, .name = TEXT("nobody")};
static const tp_model a_model = {.struct_size = sizeof a_model, .start = start_nothing};
static const tp_listener a_listener = {.struct_size = sizeof a_listener, .on_event = ignore_event};
static const tp_turn_request a_request = {.struct_size = sizeof a_request};
static const tp_phase_input an_input = {.struct_size = sizeof an_input};
static const tp_process_loop_options a_loop = {.struct_size = sizeof a_loop};
static const tp_decision a_decision = {.struct_size = sizeof a_decision, .verdict = TP_VERDICT_DENY};
static const tp_outcome an_outcome = {.struct_size = sizeof an_outcome, .kind = TP_ANSWER_DONE};
static const tp_record_query a_record_query = {.struct_size = sizeof a_record_query};
static const tp_turn_query a_turn_query = {.struct_size = sizeof a_turn_query};
static const tp_subscription_query a_subscription_query = {.struct_size = sizeof a_subscription_query};
static const tp_model_response a_response = {.struct_size = sizeof a_response};
static const tp_late_record a_late_record = {.struct_size = sizeof a_late_record};
static const tp_job_finish a_finish = {.struct_size = sizeof a_finish, .end = TP_JOB_END_SUCCEEDED, .id = 7};

#define CASE(type, given, offer, refused, accepted, says)                                                             \
  {                                                                                                                   \
#type " to " #offer, &(given), sizeof(given), offsetof(type, reserved_), sizeof(given).reserved_, offer, refused, \
        accepted, says                                                                                                \
  }
static const struct reserved_case {
  const char *name;
  const void *given;
  size_t size, at, bytes; /* of the struct; of what is reserved in it */
  offer_fn offer;
  tp_status refused, accepted;
  bool says; /* there is a fault, and it names reserved_ */
} cases[] = {
    CASE(tp_handler, a_handler, offer_handler, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_hook, a_hook, offer_hook, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_subscription, a_subscription, offer_subscription, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_edge, an_edge, offer_edge, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_tool_answer, an_answer, offer_answer, TP_ERR_USAGE, TP_ERR_STALE, true),
    CASE(tp_part, a_part, offer_part, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_domain, a_domain, offer_domain, TP_ERR_VERSION, TP_OK, true),
    CASE(tp_tool_call, a_call, offer_call, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_model, a_model, offer_model, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_listener, a_listener, offer_listener, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_turn_request, a_request, offer_request, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_phase_input, an_input, offer_input, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_process_loop_options, a_loop, offer_loop, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_decision, a_decision, offer_decision, TP_ERR_USAGE, TP_ERR_STALE, true),
    CASE(tp_record_query, a_record_query, offer_records, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_record_query, a_record_query, offer_store_records, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_turn_query, a_turn_query, offer_turns, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_turn_query, a_turn_query, offer_store_turns, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_subscription_query, a_subscription_query, offer_subscriptions, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_model_response, a_response, offer_response, TP_ERR_USAGE, TP_OK, true),
    CASE(tp_late_record, a_late_record, offer_late, TP_ERR_USAGE, TP_OK, false),
    CASE(tp_job_finish, a_finish, offer_finish, TP_ERR_USAGE, TP_ERR_NOT_FOUND, true),
    /* last: the token is open until this one is accepted */
    CASE(tp_outcome, an_outcome, offer_outcome, TP_ERR_USAGE, TP_OK, false),
};

static void check_case(fixture *h, const struct reserved_case *c) {
  _Alignas(16) unsigned char copy[1024];
  tp_fault fault;
  assert_true(c->size <= sizeof copy);
  for (size_t i = 0; i < c->bytes; i++) {
    memcpy(copy, c->given, c->size);
    copy[c->at + i] = 1;
    fault.message[0] = '\0';
    tp_status status = c->offer(h, copy, &fault);
    if (status != c->refused) fail_msg("%s, byte %zu: %s", c->name, i, tp_status_name(status));
    if (c->says && !strstr(fault.message, "reserved_")) fail_msg("%s, byte %zu: %s", c->name, i, fault.message);
  }
  tp_status status = c->offer(h, c->given, &fault);
  if (status != c->accepted) fail_msg("%s as it should be: %s %s", c->name, tp_status_name(status), fault.message);
}

static void ended(void *ctx, const tp_phase_result *result) { (void)result, latch_hit(ctx); }

TEST(reserved_bytes_must_be_zero_in_every_struct_that_a_host_fills) {
  fixture h = {.runtime = open_runtime(NULL)};
  latch deferred = LATCH, end = LATCH;
  act later = {.defers = true, .deferred = &deferred};
  add_hooks(
      h.runtime,
      &(hook){.id = "later", .phase = TP_PHASE_SESSION_START, .ctx = &later, .slow = true, .sub = {.limit_ms = 600000}},
      1);
  tp_turn *waiting;
  assert_int_equal(tp_turn_begin_bare(h.runtime, NULL, &waiting, NULL), TP_OK);
  assert_int_equal(tp_phase_submit(waiting, TP_PHASE_SESSION_START, NULL, ended, &end, NULL), TP_OK);
  latch_wait(&deferred, 1);
  h.token = later.token;
  assert_int_equal(tp_edit_begin(h.runtime, NULL, &h.edit, NULL), TP_OK);
  assert_int_equal(tp_turn_begin_bare(h.runtime, NULL, &h.turn, NULL), TP_OK);
  assert_int_equal(tp_store_memory_new(NULL, NULL, &h.store, NULL), TP_OK);
  for (size_t i = 0; i < COUNT(cases); i++) check_case(&h, &cases[i]);
  latch_wait(&end, 1);
  tp_turn_end(h.turn);
  tp_turn_end(waiting);
  tp_edit_discard(h.edit);
  close_runtime(h.runtime);
  tp_store_free(h.store);
}
