/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded domains: a domain that does not fit is refused before any function of it is called, and its own refusal is
 * reported separately from the library's. */
#include "tests/support/test.h"
#include "tests/support/model.h"

static int called;

static tp_answer stay_silent(void *ctx, tp_call *call) {
  (void)ctx;
  (void)call;
  return TP_ANSWER_DONE;
}

static tp_status add_one(const tp_domain_context *context, tp_fault *fault) {
  called++;
  if (context->struct_size != sizeof *context || !context->runtime) return TP_ERR_VERSION;
  uint32_t phase = TP_PHASE_TURN_INTAKE;
  tp_handler handler = {
      .struct_size = sizeof handler, .id = "d.h", .run = stay_silent, .phases = &phase, .phase_count = 1};
  return tp_edit_add_handler(context->edit, &handler, fault);
}

static tp_status refuse_with_words(const tp_domain_context *context, tp_fault *fault) {
  (void)context;
  called++;
  *fault = (tp_fault){.code = TP_ERR_USAGE, .message = "its licence has run out"};
  return TP_ERR_USAGE;
}

static tp_status refuse_silently(const tp_domain_context *context, tp_fault *fault) {
  (void)context;
  (void)fault;
  called++;
  return TP_ERR_IO;
}

static tp_status add_domain(const tp_domain *domain, tp_fault *fault) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_edit *edit;
  called = 0;
  memset(fault, 0, sizeof *fault);
  assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL), TP_OK);
  tp_status status = tp_domain_add(runtime, edit, domain, fault);
  if (status == TP_OK) assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
  else tp_edit_discard(edit);
  close_runtime(runtime);
  return status;
}

static const tp_domain good = {.struct_size = sizeof(tp_domain),
                               .header_version = TP_VERSION_NUMBER,
                               .name = "d",
                               .version = "2.5",
                               .register_with = add_one};

TEST(a_domain_of_these_headers_registers) {
  tp_fault fault;
  tp_domain domain = good;
  assert_int_equal(add_domain(&domain, &fault), TP_OK);
  domain.header_version = TP_VERSION_NUMBER | 0xff; /* another patch */
  domain.version = NULL;
  assert_int_equal(add_domain(&domain, &fault), TP_OK);
  assert_int_equal(called, 1);
}

TEST(a_domain_that_does_not_fit_is_refused_uncalled) {
  const struct {
    uint32_t version;
    size_t size;
    const char *name;
    tp_status want;
    const char *words;
  } cases[] = {
      {TP_VERSION_NUMBER + (1 << 16), sizeof(tp_domain), "d", TP_ERR_VERSION, "build it again"},
      {TP_VERSION_NUMBER + (1 << 8), sizeof(tp_domain), "d", TP_ERR_VERSION, "build it again"},
      {0, sizeof(tp_domain), "d", TP_ERR_VERSION, "0.0.0"},
      {TP_VERSION_NUMBER, 0, "d", TP_ERR_VERSION, "struct_size"},
      {TP_VERSION_NUMBER, sizeof(tp_domain), "a b", TP_ERR_BAD_ID, "tp_domain.name"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_fault fault;
    tp_domain domain = good;
    domain.struct_size = cases[i].size;
    domain.header_version = cases[i].version;
    domain.name = cases[i].name;
    assert_int_equal(add_domain(&domain, &fault), cases[i].want);
    assert_int_equal(called, 0);
    if (!strstr(fault.message, cases[i].words)) fail_msg("`%s` is not in: %s", cases[i].words, fault.message);
  }
  tp_fault fault;
  tp_domain domain = good;
  domain.register_with = NULL;
  assert_int_equal(add_domain(&domain, &fault), TP_ERR_USAGE);
  assert_int_equal(add_domain(NULL, &fault), TP_ERR_USAGE);
}

TEST(a_refusal_of_its_own_says_so) {
  tp_fault fault;
  tp_domain domain = good;
  domain.register_with = refuse_with_words;
  assert_int_equal(add_domain(&domain, &fault), TP_ERR_USAGE);
  assert_string_equal(fault.message, "domain `d` 2.5 refused to register: its licence has run out");
  assert_string_equal(fault.subject, "d");
  domain.register_with = refuse_silently;
  assert_int_equal(add_domain(&domain, &fault), TP_ERR_IO);
  assert_int_equal(fault.code, TP_ERR_IO);
  assert_non_null(strstr(fault.message, "domain `d` 2.5 refused to register: a file"));
}

/* ---- one that gets every event, and acts in a phase ---- */

static struct {
  _Atomic int events, calls, destroys;
  _Atomic uint64_t kinds;
} heard;

static void note_event(void *ctx, const tp_event *event) {
  (void)ctx;
  heard.events++;
  heard.kinds |= UINT64_C(1) << event->kind;
}

static tp_answer act_in_intake(void *ctx, tp_call *call) {
  (void)ctx;
  (void)call;
  heard.calls++;
  return TP_ANSWER_DONE;
}

static void count_destroy(void *ctx) {
  (void)ctx;
  heard.destroys++;
}

static tp_status listen_and_act(const tp_domain_context *context, tp_fault *fault) {
  const tp_listener listener = {.struct_size = sizeof listener, .on_event = note_event, .destroy = count_destroy};
  const tp_phase_id phase = TP_PHASE_TURN_INTAKE;
  const tp_handler handler = {.struct_size = sizeof handler,
                              .id = "d.h",
                              .run = act_in_intake,
                              .phases = &phase,
                              .phase_count = 1,
                              .placement = TP_PLACEMENT_INLINE};
  const tp_subscription sub = {.struct_size = sizeof sub, .id = "d.s", .handler = "d.h", .phase = phase};
  tp_status status = tp_edit_add_handler(context->edit, &handler, fault);
  if (status == TP_OK) status = tp_edit_add_subscription(context->edit, &sub, fault);
  return status == TP_OK ? tp_runtime_listen(context->runtime, &listener, NULL, fault) : status;
}

TEST(a_domain_hears_every_event_and_acts_in_its_phases) {
  static const reply replies[] = {{.text = "hello", .delta = "hel"}};
  tp_runtime *runtime = open_runtime(NULL);
  recorder *model = recorder_new(replies, 1);
  tp_domain domain = good;
  domain.register_with = listen_and_act;
  tp_edit *edit;
  assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL), TP_OK);
  assert_int_equal(tp_domain_add(runtime, edit, &domain, NULL), TP_OK);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = recorder_model(model, true)};
  tp_session *session;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hi")};
  assert_int_equal(tp_turn_run(session, &request, NULL, NULL), TP_OK);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(model);
  static const int wanted[] = {TP_EVENT_TURN_BEGIN, TP_EVENT_PHASE_BEGIN, TP_EVENT_RUN,
                               TP_EVENT_PHASE_END,  TP_EVENT_MODEL_DELTA, TP_EVENT_TURN_END};
  for (size_t i = 0; i < COUNT(wanted); i++) assert_true(heard.kinds >> wanted[i] & 1);
  assert_int_equal(heard.calls, 1);
  assert_int_equal(heard.destroys, 1);
}
