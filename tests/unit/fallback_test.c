/* SPDX-License-Identifier: Apache-2.0
 *
 * Models with fallbacks: which one is asked, what the host sees of it, and the breaker of a provider. */
#include "tests/support/test.h"
#include "phases/drive/breaker.h"
#include "phases/session/session.h"
#include "tests/support/model.h"
#include "turnphase/inspect.h"

enum { MODELS = 3 };

/* ---- a session with recording models, named a, b and c ---- */

typedef struct notes {
  char begins[256], ends[256]; /* names of models, each with a blank */
  char fallbacks[1024];
} notes;

typedef struct world {
  tp_runtime *runtime;
  tp_session *session;
  recorder *models[MODELS];
  size_t count;
  notes *notes;
} world;

static void add_text(char *to, size_t size, tp_text text) {
  size_t used = strlen(to);
  snprintf(to + used, size - used, "%.*s ", (int)text.size, text.size ? text.data : "");
}

static void note_event(void *ctx, const tp_event *event) {
  notes *n = ctx;
  if (event->kind == TP_EVENT_MODEL_BEGIN) add_text(n->begins, sizeof n->begins, event->model);
  if (event->kind == TP_EVENT_MODEL_END) add_text(n->ends, sizeof n->ends, event->model);
  if (event->kind == TP_EVENT_DIAGNOSTIC && tp_text_is(event->contribution->key, "model.fallback"))
    add_text(n->fallbacks, sizeof n->fallbacks, event->contribution->text);
}

static const tp_model *model_of(recorder *r, size_t index) {
  static const char *const names[MODELS] = {"a", "b", "c"};
  (void)recorder_model(r, true);
  r->model.name = names[index];
  return &r->model;
}

/* @param replies  of each model: one, repeated. */
static world open_world(const reply *replies, size_t count, const tp_runtime_options *options) {
  world w = {.runtime = open_runtime(options), .count = count, .notes = calloc(1, sizeof(notes))};
  const tp_model *others[MODELS];
  for (size_t i = 0; i < count; i++) w.models[i] = recorder_new(&replies[i], 1);
  for (size_t i = 1; i < count; i++) others[i - 1] = model_of(w.models[i], i);
  tp_session_options session = {.struct_size = sizeof session,
                                .id = "s",
                                .model = model_of(w.models[0], 0),
                                .fallbacks = count > 1 ? others : NULL,
                                .fallback_count = count - 1,
                                .on_event = note_event,
                                .event_ctx = w.notes};
  assert_int_equal(tp_session_open(w.runtime, &session, &w.session, NULL), TP_OK);
  return w;
}

static void close_world(world *w) {
  tp_session_close(w->session, NULL, NULL);
  close_runtime(w->runtime);
  for (size_t i = 0; i < w->count; i++) {
    assert_int_equal(w->models[i]->destroys, 1);
    recorder_free(w->models[i]);
  }
  free(w->notes);
}

static const tp_turn_result *say_with(world *w, const tp_turn_request *more) {
  tp_turn_request request = more ? *more : (tp_turn_request){0};
  const tp_turn_result *result = NULL;
  request.struct_size = sizeof request;
  request.text = (tp_text)TEXT("Hi");
  *w->notes = (notes){.begins = ""};
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  return result;
}

static void assert_says(world *w, const char *text) {
  const tp_turn_result *result = say_with(w, NULL);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_text(result->text, text);
  tp_turn_result_free(result);
}

static void assert_fails(world *w, tp_status code) {
  const tp_turn_result *result = say_with(w, NULL);
  assert_int_equal(result->outcome, TP_TURN_FAILED);
  assert_int_equal(result->code, code);
  tp_turn_result_free(result);
}

#define DOWN \
  { .fails = TP_ERR_MODEL, .retryable = true }

/* ---- which one is asked ---- */

TEST(the_next_is_asked_when_the_attempts_of_one_are_used_up) {
  const reply replies[] = {DOWN, DOWN, {.text = "I am c"}};
  const tp_runtime_options options = {.struct_size = sizeof options, .breaker_failures = 100};
  world w = open_world(replies, 3, &options);
  assert_says(&w, "I am c");
  assert_int_equal(w.models[0]->asked, 3);
  assert_int_equal(w.models[1]->asked, 3);
  assert_int_equal(w.models[2]->asked, 1);
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(w.models[1]->attempts[i], i + 1); /* anew: the pause is the provider's */
  assert_string_equal(w.notes->begins, "a a a b b b c ");
  assert_string_equal(w.notes->ends, "a a a b b b c ");
  assert_string_equal(w.notes->fallbacks,
                      "model b is asked in place of a: as set model c is asked in place of b: as set ");
  assert_says(&w, "I am c"); /* the next turn begins with the first again */
  assert_int_equal(w.models[0]->asked, 6);
  close_world(&w);
}

TEST(when_the_last_one_fails_the_turn_does) {
  const reply replies[] = {DOWN, DOWN};
  world w = open_world(replies, 2, NULL);
  assert_fails(&w, TP_ERR_MODEL);
  assert_int_equal(w.models[1]->asked, 3);
  close_world(&w);
}

TEST(what_asking_again_would_not_help_ends_the_turn) {
  static const tp_status codes[] = {TP_ERR_MODEL, TP_ERR_CONTEXT_LENGTH};
  for (size_t i = 0; i < COUNT(codes); i++) {
    const reply replies[] = {{.fails = codes[i]}, {.text = "I am b"}};
    world w = open_world(replies, 2, NULL);
    assert_fails(&w, codes[i]);
    assert_int_equal(w.models[0]->asked, 1);
    assert_int_equal(w.models[1]->asked, 0);
    close_world(&w);
  }
}

TEST(one_that_is_unavailable_is_asked_once) {
  const reply replies[] = {{.fails = TP_ERR_MODEL_UNAVAILABLE}, {.text = "I am b"}};
  world w = open_world(replies, 2, NULL);
  assert_says(&w, "I am b");
  assert_int_equal(w.models[0]->asked, 1);
  close_world(&w);
  world alone = open_world(replies, 1, NULL);
  assert_fails(&alone, TP_ERR_MODEL_UNAVAILABLE);
  close_world(&alone);
}

TEST(behind_a_delta_no_other_is_asked) {
  const reply replies[] = {{.fails = TP_ERR_MODEL, .retryable = true, .delta = "I "}, {.text = "I am b"}};
  world w = open_world(replies, 2, NULL);
  assert_fails(&w, TP_ERR_MODEL);
  assert_int_equal(w.models[0]->asked, 1);
  assert_int_equal(w.models[1]->asked, 0);
  close_world(&w);
}

TEST(a_turn_stays_with_the_one_that_it_came_to) {
  const reply down = DOWN;
  const reply calls[] = {
      {.calls = {{.id = TEXT("1"), .name = TEXT("none"), .arguments = TEXT("\x80")}}, .call_count = 1},
      {.text = "done"}};
  recorder *first = recorder_new(&down, 1), *second = recorder_new(calls, 2);
  tp_runtime *runtime = open_runtime(NULL);
  const tp_model *others[] = {model_of(second, 1)};
  tp_session *session;
  tp_session_options options = {
      .struct_size = sizeof options, .id = "s", .model = model_of(first, 0), .fallbacks = others, .fallback_count = 1};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("Hi"), .model_attempts = 1};
  const tp_turn_result *result = NULL;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_text(result->text, "done");
  tp_turn_result_free(result);
  assert_int_equal(first->asked, 1);
  assert_int_equal(second->asked, 2);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(first);
  recorder_free(second);
}

/* ---- what a fallback is shown ---- */

typedef struct named {
  char model[64], field[64];
} named;

static void keep_name(void *ctx, const tp_model_request *request, tp_token token) {
  named *n = ctx;
  snprintf(n->model, sizeof n->model, "<%.*s>", (int)request->model.size,
           request->model.size ? request->model.data : "");
  (void)!tp_model_fail(token, TP_ERR_MODEL, "as set", true, NULL);
}

static tp_answer keep_field(void *ctx, tp_call *call) {
  tp_text model = tp_call_text(call, TP_FIELD_MODEL);
  named *n = ctx;
  snprintf(n->field, sizeof n->field, "%.*s", (int)model.size, model.size ? model.data : "");
  return TP_ANSWER_DONE;
}

TEST(the_turns_model_name_is_the_first_ones_alone) {
  named first = {.model = ""}, second = {.model = ""}, seen = {.field = ""};
  const tp_model a = {.struct_size = sizeof a, .name = "a", .ctx = &first, .start = keep_name},
                 b = {.struct_size = sizeof b, .name = "b", .ctx = &second, .start = keep_name};
  const tp_model *others[] = {&b};
  const hook hooks[] = {{.id = "see", .phase = TP_PHASE_MODEL_PRE, .run = keep_field, .ctx = &seen}};
  tp_runtime *runtime = open_runtime(NULL);
  add_hooks(runtime, hooks, 1);
  tp_agent *agent; /* an agent has a list, too */
  tp_agent_config config = {.struct_size = sizeof config,
                            .id = "agent",
                            .model_name = "agents",
                            .model = &a,
                            .fallbacks = others,
                            .fallback_count = 1};
  assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
  tp_session *session;
  tp_session_options options = {.struct_size = sizeof options, .id = "s", .agent = agent};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("Hi"), .model_attempts = 1};
  const tp_turn_result *result = NULL;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_FAILED);
  tp_turn_result_free(result);
  assert_string_equal(first.model, "<agents>");
  assert_string_equal(second.model, "<>");
  assert_string_equal(seen.field, "b");
  tp_session_close(session, NULL, NULL);
  tp_agent_remove(agent);
  close_runtime(runtime);
}

/* ---- the breaker ---- */

typedef struct rows {
  char text[2048];
} rows;

static bool keep_row(void *ctx, const tp_audit *row) {
  rows *r = ctx;
  size_t used = strlen(r->text);
  if (strncmp(row->action, "breaker", 7) == 0)
    snprintf(r->text + used, sizeof r->text - used, "%s %s: %s;", row->action, row->owner, row->detail);
  return true;
}

TEST(a_provider_that_is_down_is_skipped_until_it_answers_again) {
  reply replies[] = {DOWN, {.text = "I am b"}};
  const tp_runtime_options options = {.struct_size = sizeof options, .breaker_failures = 4, .breaker_open_ms = 3600000};
  world w = open_world(replies, 2, &options);
  tp__breakers *breakers = tp__layer_breakers(w.runtime);
  assert_says(&w, "I am b"); /* three failures */
  assert_says(&w, "I am b"); /* the fourth opens it, and the attempts that are left are not made */
  assert_int_equal(w.models[0]->asked, 4);
  assert_string_equal(w.notes->fallbacks,
                      "model b is asked in place of a: its provider has failed several times in a row ");
  assert_says(&w, "I am b");
  assert_int_equal(w.models[0]->asked, 4);
  assert_string_equal(w.notes->begins, "b ");
  rows found = {.text = ""};
  tp_runtime_audit(w.runtime, TP_VISIBILITY_INTERNAL, keep_row, &found);
  assert_string_equal(found.text, "breaker opened a: 4 requests in a row failed: it is asked again in 3600000 ms;");
  breakers->rows[0].open_until_ns = 1; /* an hour later */
  assert_says(&w, "I am b");
  assert_int_equal(w.models[0]->asked, 5); /* the model was asked once more, and its breaker is open again */
  breakers->rows[0].open_until_ns = 1;
  replies[0] = (reply){.text = "I am a"};
  assert_says(&w, "I am a");
  assert_int_equal(breakers->count, 0);
  found = (rows){.text = ""};
  tp_runtime_audit(w.runtime, TP_VISIBILITY_INTERNAL, keep_row, &found);
  assert_non_null(strstr(found.text, "breaker closed a: it answers again;"));
  close_world(&w);
}

TEST(the_last_one_is_asked_whatever_its_breaker_says) {
  const reply replies[] = {DOWN, DOWN};
  const tp_runtime_options options = {.struct_size = sizeof options, .breaker_failures = 1};
  world w = open_world(replies, 2, &options);
  for (int i = 0; i < 2; i++) assert_fails(&w, TP_ERR_MODEL);
  assert_int_equal(w.models[0]->asked, 1);
  assert_int_equal(w.models[1]->asked, 6);
  close_world(&w);
}

TEST(a_session_without_fallbacks_touches_no_breaker) {
  const reply replies[] = {DOWN};
  const tp_runtime_options options = {.struct_size = sizeof options, .breaker_failures = 1};
  world w = open_world(replies, 1, &options);
  assert_fails(&w, TP_ERR_MODEL);
  assert_int_equal(w.models[0]->asked, 3);
  assert_int_equal(tp__layer_breakers(w.runtime)->count, 0);
  close_world(&w);
}

TEST(an_answer_that_refuses_the_request_is_an_answer) {
  reply replies[] = {DOWN, {.text = "I am b"}};
  world w = open_world(replies, 2, NULL);
  assert_says(&w, "I am b");
  assert_int_equal(tp__layer_breakers(w.runtime)->count, 1);
  replies[0] = (reply){.fails = TP_ERR_CONTEXT_LENGTH};
  assert_fails(&w, TP_ERR_CONTEXT_LENGTH);
  assert_int_equal(tp__layer_breakers(w.runtime)->count, 0);
  close_world(&w);
}

/* Times are made up. */
TEST(a_breaker_counts_failures_in_a_row_and_tries_once_per_interval) {
  const tp_allocator allocator = tp__allocator_of(NULL);
  tp__breakers breakers;
  assert_int_equal(tp__breakers_init(&breakers, &allocator, 2, 10), TP_OK);
  const int64_t ms = TP__NS_PER_MS;
  assert_int_equal(tp__breaker_failed(&breakers, "p", 1 * ms), 0);
  assert_false(tp__breaker_answered(&breakers, "p")); /* the breaker was not open */
  assert_int_equal(tp__breaker_failed(&breakers, "p", 2 * ms), 0);
  assert_true(tp__breaker_admits(&breakers, "p", 2 * ms));
  assert_int_equal(tp__breaker_failed(&breakers, "p", 3 * ms), 2);
  assert_int_equal(tp__breaker_failed(&breakers, "p", 3 * ms), 0); /* the breaker is open already */
  assert_false(tp__breaker_admits(&breakers, "p", 13 * ms - 1));
  assert_true(tp__breaker_admits(&breakers, "q", 13 * ms - 1));
  assert_true(tp__breaker_admits(&breakers, NULL, 13 * ms - 1));
  assert_true(tp__breaker_admits(&breakers, "p", 13 * ms));
  assert_false(tp__breaker_admits(&breakers, "p", 13 * ms)); /* only one probe is admitted */
  assert_true(tp__breaker_admits(&breakers, "p", 23 * ms));  /* the probe never ended */
  assert_true(tp__breaker_answered(&breakers, "p"));
  assert_true(tp__breaker_admits(&breakers, "p", 23 * ms));
  tp__breakers_fini(&breakers);
}

TEST(the_provider_that_failed_longest_ago_is_replaced_by_a_new_one) {
  const tp_allocator allocator = tp__allocator_of(NULL);
  tp__breakers breakers;
  assert_int_equal(tp__breakers_init(&breakers, &allocator, 1, 0), TP_OK);
  char name[16];
  for (int i = 0; i <= TP__BREAKERS_MAX; i++) {
    snprintf(name, sizeof name, "p%d", i);
    assert_int_equal(tp__breaker_failed(&breakers, name, 1000 + (i == 0 ? 5000 : i)), 1);
  }
  assert_int_equal(breakers.count, TP__BREAKERS_MAX);
  assert_true(tp__breaker_admits(&breakers, "p1", 2000));
  assert_false(tp__breaker_admits(&breakers, "p0", 2000));
  assert_false(tp__breaker_admits(&breakers, name, 2000));
  tp__breakers_fini(&breakers);
}

/* Two models of one provider. */
TEST(models_of_one_provider_share_a_breaker) {
  const reply replies[] = {DOWN, {.text = "never"}, {.text = "I am c"}};
  const tp_runtime_options options = {.struct_size = sizeof options, .breaker_failures = 1};
  tp_runtime *runtime = open_runtime(&options);
  recorder *models[3];
  const tp_model *list[3];
  for (size_t i = 0; i < 3; i++) {
    models[i] = recorder_new(&replies[i], 1);
    list[i] = model_of(models[i], i);
    models[i]->model.provider = i < 2 ? "one" : NULL;
  }
  tp_session *session;
  tp_session_options open = {
      .struct_size = sizeof open, .id = "s", .model = list[0], .fallbacks = list + 1, .fallback_count = 2};
  assert_int_equal(tp_session_open(runtime, &open, &session, NULL), TP_OK);
  world w = {.runtime = runtime, .session = session, .notes = calloc(1, sizeof(notes))};
  assert_says(&w, "I am c");
  assert_int_equal(models[1]->asked, 0);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  for (size_t i = 0; i < 3; i++) recorder_free(models[i]);
  free(w.notes);
}

/* ---- what is refused ---- */

TEST(a_list_that_is_none_is_refused_and_nothing_is_taken) {
  const reply replies[] = {{.text = "x"}};
  recorder *r = recorder_new(replies, 1), *other = recorder_new(replies, 1);
  const tp_model *good = model_of(r, 0), *b = model_of(other, 1);
  tp_model bad = *b;
  bad.start = NULL;
  tp_model unnamed = *b;
  unnamed.provider = "";
  const tp_model *twice[] = {good}, *again[] = {b, b}, *none[] = {NULL}, *broken[] = {&bad}, *nameless[] = {&unnamed};
  const struct {
    const tp_model *model, *const *fallbacks;
    size_t count;
    const char *says;
  } cases[] = {
      {good, twice, 1, "fallbacks[0] is in the list already"},
      {good, again, 2, "fallbacks[1] is in the list already"},
      {good, none, 1, "a pointer to tp_model is NULL"},
      {good, broken, 1, "tp_model.start is NULL"},
      {good, nameless, 1, "tp_model.provider must have 1 to 128 bytes"},
      {good, NULL, 1, "the list is NULL"},
      {good, again, 17, "17 fallbacks are more than 16"},
      {NULL, again, 1, "stand in for model, which is NULL"},
  };
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_fault fault = {0};
    tp_session *session;
    tp_agent *agent;
    tp_session_options options = {.struct_size = sizeof options,
                                  .id = "s",
                                  .model = cases[i].model,
                                  .fallbacks = cases[i].fallbacks,
                                  .fallback_count = cases[i].count};
    assert_int_equal(tp_session_open(runtime, &options, &session, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, cases[i].says));
    tp_agent_config config = {.struct_size = sizeof config,
                              .id = "a",
                              .model = cases[i].model,
                              .fallbacks = cases[i].fallbacks,
                              .fallback_count = cases[i].count};
    assert_int_equal(tp_agent_add(runtime, &config, &agent, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, cases[i].says));
  }
  close_runtime(runtime);
  assert_int_equal(r->destroys + other->destroys, 0);
  recorder_free(r);
  recorder_free(other);
}
