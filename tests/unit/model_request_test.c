/* SPDX-License-Identifier: Apache-2.0
 *
 * model.request: what its handlers see of a request, what is sent after their changes, that calls and results stay
 * pairs, answers instead of the model's, and that the history never changes by it. */
#include "tests/support/test.h"
#include "phases/merge/phases.h"
#include "tests/support/world.h"

enum { SEEN = 16, SEEN_BYTES = 8192, FIELDS = 7 };

/* ---- a model that answers from a list, and keeps what it was asked ---- */

typedef struct answer {
  const char *text;
  const char *calls[4]; /* ids, of the tool `look` */
  bool malformed;       /* their arguments are */
  const char *thinks;   /* provider_data with this reasoning */
  const char *delta, *thinking;
  tp_status fails;
  tp_finish finish;
} answer;

typedef struct asked {
  /* write_request(), then D<bytes of provider_data> for each message that has provider_data */
  char request[SEEN_BYTES];
  char tools[512];      /* name:description, */
  char parameters[256]; /* as JSON */
  char files[128];      /* likewise */
  char model[64];
} asked;

typedef struct probe {
  tp_model model;
  const answer *answers;
  size_t count; /* the last one is repeated */
  uint32_t requests;
  asked seen[SEEN];
} probe;

static void add_json(char *to, size_t size, tp_text value) {
  tp_writer *writer;
  tp_text json;
  if (value.size == 0) return;
  if (tp_writer_new(NULL, &writer) != TP_OK) abort();
  if (tp_json_encode(value, writer, &json, NULL) == TP_OK) snprintf(to, size, "%s", json.data);
  tp_writer_free(writer);
}

static void keep_request(asked *a, const tp_model_request *request) {
  write_request(a->request, request);
  for (size_t i = 0; i < request->message_count; i++)
    if (request->messages[i]->provider_data.size > 0)
      put_text(a->request, "D", tp_value_text(tp_value_get(request->messages[i]->provider_data, "thinking")));
  for (size_t i = 0; i < request->tool_count; i++)
    snprintf(a->tools + strlen(a->tools), sizeof a->tools - strlen(a->tools), "%s:%s,", request->tools[i]->name,
             request->tools[i]->description ? request->tools[i]->description : "");
  add_json(a->parameters, sizeof a->parameters, request->parameters);
  add_json(a->files, sizeof a->files, request->files);
  snprintf(a->model, sizeof a->model, "%.*s", (int)request->model.size, request->model.size ? request->model.data : "");
}

static tp_text thinking_of(const char *words, char *buffer) {
  size_t size = strlen(words);
  memcpy(buffer, "\x81\xa8thinking", 10);
  buffer[10] = (char)(0xA0 | size); /* below 32 bytes */
  memcpy(buffer + 11, words, size);
  return (tp_text){buffer, 11 + size};
}

static void probe_start(void *ctx, const tp_model_request *request, tp_token token) {
  probe *p = ctx;
  uint32_t n = p->requests++;
  char data[64];
  if (n < SEEN) keep_request(&p->seen[n], request);
  const answer *a = &p->answers[n < p->count ? n : p->count - 1];
  if (a->thinking) (void)!tp_model_thinking(token, tp_text_of(a->thinking), NULL);
  if (a->delta) (void)!tp_model_delta(token, tp_text_of(a->delta), NULL);
  if (a->fails) {
    (void)!tp_model_fail(token, a->fails, "as set", true, NULL);
    return;
  }
  tp_tool_call calls[4];
  const tp_tool_call *list[4];
  size_t count = 0;
  for (; count < 4 && a->calls[count]; count++) {
    calls[count] = (tp_tool_call){.struct_size = sizeof *calls,
                                  .id = tp_text_of(a->calls[count]),
                                  .name = TEXT("look"),
                                  .arguments = a->malformed ? tp_text_of("{\"at") : no_arguments,
                                  .malformed = a->malformed};
    list[count] = &calls[count];
  }
  tp_model_response response = {.struct_size = sizeof response,
                                .text = tp_text_of(a->text),
                                .calls = list,
                                .call_count = count,
                                .stop_reason = tp_text_of("end_turn"),
                                .provider_data = a->thinks ? thinking_of(a->thinks, data) : (tp_text){NULL, 0},
                                .input_tokens = 3,
                                .output_tokens = 4,
                                .finish = a->finish};
  (void)!tp_model_complete(token, &response, NULL);
}

/* ---- a handler that replaces fields by what stands in JSON ---- */

typedef struct rewriter {
  struct {
    uint32_t field;
    const char *json; /* a value; of TEXT fields the text itself */
  } fields[FIELDS];
  bool off;
  tp_answer answer;    /* 0: DONE */
  bool takes_messages; /* keeps the payload's messages as JSON */
  char messages[SEEN_BYTES], tools[1024], system[128], model[64];
  int64_t attempt;
  bool has_response;
  uint32_t calls;
  tp_status refused; /* of a replacement */
  char why[sizeof((tp_fault *)0)->message];
} rewriter;

static void note_payload(rewriter *r, tp_call *call) {
  r->messages[0] = r->tools[0] = 0;
  add_json(r->messages, sizeof r->messages, tp_call_text(call, TP_FIELD_MESSAGES));
  add_json(r->tools, sizeof r->tools, tp_call_text(call, TP_FIELD_TOOLS));
  tp_text system = tp_call_text(call, TP_FIELD_SYSTEM), model = tp_call_text(call, TP_FIELD_MODEL);
  snprintf(r->system, sizeof r->system, "%.*s", (int)system.size, system.size ? system.data : "");
  snprintf(r->model, sizeof r->model, "%.*s", (int)model.size, model.size ? model.data : "");
  r->attempt = tp_call_int(call, TP_FIELD_ATTEMPT);
  r->has_response = tp_call_has(call, TP_FIELD_RESPONSE);
}

static bool replace_one(rewriter *r, tp_call *call, uint32_t field, const char *json) {
  tp_fault fault = {0};
  tp_writer *writer;
  tp_field value = {.id = field, .kind = tp_field_kind(field), .text = tp_text_of(json)};
  if (tp_writer_new(NULL, &writer) != TP_OK) abort();
  tp_status status = TP_OK;
  if (value.kind == TP_FIELD_KIND_VALUE) {
    status = tp_json_decode(tp_text_of(json), writer, &fault);
    if (status == TP_OK) status = tp_writer_finish(writer, &value.text);
  }
  if (status == TP_OK) status = tp_call_replace(call, &value, 1, &fault);
  if (status != TP_OK) {
    r->refused = status;
    snprintf(r->why, sizeof r->why, "%s", fault.message);
  }
  tp_writer_free(writer);
  return status == TP_OK;
}

static tp_answer rewrite(void *ctx, tp_call *call) {
  rewriter *r = ctx;
  r->calls++;
  note_payload(r, call);
  if (r->off) return TP_ANSWER_DONE;
  if (r->answer == TP_ANSWER_DENY) return tp_call_deny(call, "not now");
  if (r->answer == TP_ANSWER_FAILED) return tp_call_fail(call, 7, "broken");
  for (size_t i = 0; i < FIELDS && r->fields[i].field; i++)
    (void)replace_one(r, call, r->fields[i].field, r->fields[i].json);
  return TP_ANSWER_DONE;
}

/* ---- what listeners are told ---- */

typedef struct told {
  char events[8192]; /* one line for each model_begin, model_delta, thinking, model_end and diagnostic */
  char models[256];  /* of model_begin and model_end */
} told;

static void tell(void *ctx, const tp_event *event) {
  told *t = ctx;
  size_t used = strlen(t->events);
  const char *kind = tp_event_name(event->kind);
  size_t named = strlen(t->models);
  if (event->kind == TP_EVENT_MODEL_BEGIN || event->kind == TP_EVENT_MODEL_END)
    snprintf(t->models + named, sizeof t->models - named, "%.*s ", (int)event->model.size, event->model.data);
  if (event->kind == TP_EVENT_DIAGNOSTIC)
    snprintf(t->events + used, sizeof t->events - used, "%s %.*s\n", kind, (int)event->contribution->key.size,
             event->contribution->key.data);
  else if (event->kind == TP_EVENT_MODEL_BEGIN || event->kind == TP_EVENT_MODEL_DELTA ||
           event->kind == TP_EVENT_THINKING || event->kind == TP_EVENT_MODEL_END)
    snprintf(t->events + used, sizeof t->events - used, "%s%s%.*s\n", kind, event->text.size ? " " : "",
             (int)event->text.size, event->text.size ? event->text.data : "");
}

/* ---- a session whose model is the probe ---- */

typedef struct world {
  WORLD;
  probe *probe;
  told told;
} world;

static tp_answer look(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("seen"));
}
static const tp_tool look_tool = {.struct_size = sizeof look_tool,
                                  .name = "look",
                                  .description = "looks",
                                  .run = look,
                                  .placement = TP_PLACEMENT_INLINE};
static const tp_tool other_tool = {.struct_size = sizeof other_tool,
                                   .name = "other",
                                   .description = "another",
                                   .run = look,
                                   .placement = TP_PLACEMENT_INLINE};
static const tp_tool *const tools[] = {&look_tool, &other_tool};

static void open_probe(world *w, const answer *answers, size_t count, const hook *hooks, size_t hook_count) {
  *w = (world){.probe = calloc(1, sizeof(probe))};
  w->probe->answers = answers;
  w->probe->count = count;
  w->probe->model = (tp_model){.struct_size = sizeof(tp_model),
                               .name = "probe",
                               .ctx = w->probe,
                               .start = probe_start,
                               .placement = TP_PLACEMENT_INLINE};
  world_open(&w->stage,
             &(world_options){.hooks = hooks,
                              .hook_count = hook_count,
                              .tools = tools,
                              .tool_count = COUNT(tools),
                              .session = {.model = &w->probe->model, .on_event = tell, .event_ctx = &w->told}});
}

static void close_probe(world *w) {
  world_close(&w->stage);
  free(w->probe);
}

static void run_turn(world *w, const tp_turn_request *more, tp_turn_outcome outcome, char *ret_text, size_t size) {
  const tp_turn_result *result = NULL;
  tp_turn_request request = *more;
  request.struct_size = sizeof request;
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  if (result->outcome != outcome)
    fail_msg("the turn was %s: %.*s", tp_turn_outcome_name(result->outcome), (int)result->reason.size,
             result->reason.size ? result->reason.data : "");
  tp_text text = outcome == TP_TURN_COMPLETED ? result->text : result->reason;
  if (ret_text) snprintf(ret_text, size, "%.*s", (int)text.size, text.size ? text.data : "");
  tp_turn_result_free(result);
}

static void say(world *w, const char *text) {
  run_turn(w, &(tp_turn_request){.text = tp_text_of(text)}, TP_TURN_COMPLETED, NULL, 0);
}

/* Two calls in the first turn; the second one is rewritten. */
static const answer two_calls[] = {{.text = "I look.", .calls = {"c1", "c2"}, .thinks = "hm"}, {.text = "There."}};

#define BEFORE "U<one>A<I look.>C<look>C<look>T<seen>=<c1>T<seen>=<c2>A<There.>U<two>"
#define FIRST "{\"id\": 0, \"role\": \"user\", \"text\": \"one\"}"
#define CALLS                                                                                                     \
  "{\"id\": 1, \"role\": \"assistant\", \"text\": \"I look.\", \"calls\": [{\"id\": \"c1\", \"tool\": \"look\", " \
  "\"arguments\": {}}, {\"id\": \"c2\", \"tool\": \"look\", \"arguments\": {}}]}"
#define RESULT(id, call)                                                          \
  "{\"id\": " id ", \"role\": \"tool\", \"text\": \"seen\", \"call_id\": \"" call \
  "\", \"tool\": \"look\", "                                                      \
  "\"is_error\": false}"
#define DONE "{\"id\": 4, \"role\": \"assistant\", \"text\": \"There.\"}"
#define LAST "{\"id\": 5, \"role\": \"user\", \"text\": \"two\"}"

/* ---- what handlers see ---- */

TEST(handlers_see_the_request_that_is_made) {
  rewriter r = {.fields = {{0, NULL}}};
  hook hooks[] = {{.id = "see", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r}};
  world w;
  open_probe(&w, two_calls, COUNT(two_calls), hooks, 1);
  say(&w, "one");
  assert_int_equal(r.calls, 2); /* also after the results */
  say(&w, "two");
  assert_string_equal(
      r.messages,
      "[{\"id\":0,\"role\":\"user\",\"text\":\"one\"},{\"id\":1,\"role\":\"assistant\",\"text\":\"I "
      "look.\",\"calls\":[{\"id\":\"c1\",\"tool\":\"look\",\"arguments\":{}},{\"id\":\"c2\",\"tool\":"
      "\"look\",\"arguments\":{}}]},{\"id\":2,\"role\":\"tool\",\"text\":\"seen\",\"call_id\":\"c1\","
      "\"tool\":\"look\",\"is_error\":false},{\"id\":3,\"role\":\"tool\",\"text\":\"seen\",\"call_id\":"
      "\"c2\",\"tool\":\"look\",\"is_error\":false},{\"id\":4,\"role\":\"assistant\",\"text\":\"There.\"}"
      ",{\"id\":5,\"role\":\"user\",\"text\":\"two\"}]");
  assert_string_equal(r.tools,
                      "[{\"name\":\"look\",\"description\":\"looks\"},{\"name\":\"other\",\"description\":"
                      "\"another\"}]");
  assert_string_equal(r.model, "probe");
  assert_int_equal(r.attempt, 1);
  assert_false(r.has_response);
  assert_string_equal(w.probe->seen[2].request, "S<>" BEFORE "D<hm>");
  close_probe(&w);
}

TEST(handlers_see_that_a_call_is_malformed) {
  static const answer cut[] = {{.text = "", .calls = {"c1"}, .malformed = true}, {.text = "There."}};
  rewriter r = {.fields = {{0, NULL}}};
  hook hooks[] = {{.id = "see", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r}};
  world w;
  open_probe(&w, cut, COUNT(cut), hooks, 1);
  say(&w, "one");
  assert_int_equal(r.calls, 2);
  assert_non_null(
      strstr(r.messages, "\"calls\":[{\"id\":\"c1\",\"tool\":\"look\",\"malformed\":true,\"arguments\":\"{\\\"at\"}]"));
  close_probe(&w);
}

/* ---- messages, and pairs of calls and results ---- */

TEST(calls_and_results_stay_pairs_whatever_a_handler_leaves) {
  static const struct {
    const char *name, *messages, *sent;
    bool pairs_noted;
  } rows[] = {
      {"as it is", "[" FIRST "," CALLS "," RESULT("2", "c1") "," RESULT("3", "c2") "," DONE "," LAST "]",
       BEFORE "D<hm>", false},
      {"only the last", "[" LAST "]", "U<two>", false},
      {"without the message of the calls", "[" FIRST "," RESULT("2", "c1") "," RESULT("3", "c2") "," DONE "," LAST "]",
       "U<one>A<There.>U<two>", true},
      {"without a result", "[" FIRST "," CALLS "," RESULT("3", "c2") "," DONE "," LAST "]",
       "U<one>A<I look.>C<look>T<seen>=<c2>A<There.>U<two>", true},
      {"without any result", "[" FIRST "," CALLS "," DONE "," LAST "]", "U<one>A<I look.>A<There.>U<two>", true},
      {"without result and text",
       "[" FIRST ",{\"role\": \"assistant\", \"text\": \"\", \"calls\": [{\"id\": \"c1\", \"tool\": \"look\"}]}," LAST
       "]",
       "U<one>U<two>", true},
      {"a result at the end", "[" FIRST "," CALLS "," RESULT("2", "c1") "," DONE "," LAST "," RESULT("3", "c2") "]",
       BEFORE "D<hm>", false},
      {"something between call and result",
       "[" FIRST "," CALLS ",{\"role\": \"user\", \"text\": \"wait\"}," RESULT("2", "c1") "," RESULT("3", "c2") "," LAST
                                                                                                                "]",
       "U<one>A<I look.>C<look>C<look>T<seen>=<c1>T<seen>=<c2>U<wait>U<two>D<hm>", false},
      {"results in another order",
       "[" FIRST "," CALLS "," RESULT("3", "c2") "," RESULT("2", "c1") "," DONE "," LAST "]", BEFORE "D<hm>", false},
      {"a call is dropped",
       "[" FIRST ",{\"id\": 1, \"role\": \"assistant\", \"text\": \"I look.\", \"calls\": [{\"id\": \"c2\", \"tool\": "
       "\"look\"}]}," RESULT("2", "c1") "," RESULT("3", "c2") "," LAST "]",
       "U<one>A<I look.>C<look>T<seen>=<c2>U<two>", true},
      {"a result of no call", "[" FIRST ",{\"role\": \"tool\", \"text\": \"?\", \"call_id\": \"zz\"}," LAST "]",
       "U<one>U<two>", true},
      {"a result twice", "[" CALLS "," RESULT("2", "c1") "," RESULT("2", "c1") "," RESULT("3", "c2") "," LAST "]",
       "A<I look.>C<look>C<look>T<seen>=<c1>T<seen>=<c2>U<two>D<hm>", true},
      {"results before their calls", "[" FIRST "," RESULT("2", "c1") "," CALLS "," RESULT("3", "c2") "," LAST "]",
       "U<one>A<I look.>C<look>T<seen>=<c2>U<two>", true},
      {"an id that comes again",
       "[" CALLS "," RESULT("2", "c1") "," RESULT(
           "3", "c2") ",{\"role\": \"assistant\", \"text\": \"\", \"calls\": [{\"id\": \"c1\", \"tool\": \"other\"}]},"
                      "{\"role\": \"tool\", \"text\": \"again\", \"call_id\": \"c1\", \"tool\": \"other\"}," LAST "]",
       "A<I look.>C<look>C<look>T<seen>=<c1>T<seen>=<c2>A<>C<other>T<again>=<c1>U<two>D<hm>", false},
      {"another text of the calls",
       "[{\"id\": 1, \"role\": \"assistant\", \"text\": \"I see.\", \"calls\": [{\"id\": \"c1\", \"tool\": \"look\"}, "
       "{\"id\": \"c2\", \"tool\": \"look\"}]}," RESULT("2", "c1") "," RESULT("3", "c2") "," LAST "]",
       "A<I see.>C<look>C<look>T<seen>=<c1>T<seen>=<c2>U<two>", false},
      {"other arguments",
       "[{\"id\": 1, \"role\": \"assistant\", \"text\": \"I look.\", \"calls\": [{\"id\": \"c1\", \"tool\": \"look\", "
       "\"arguments\": {\"a\": 1}}]}," RESULT("2", "c1") "," LAST "]",
       "A<I look.>C<look>T<seen>=<c1>U<two>", false},
      {"another text of a result",
       "[" CALLS ",{\"id\": 2, \"role\": \"tool\", \"text\": \"cut\", \"call_id\": \"c1\", \"tool\": \"look\", "
       "\"is_error\": true}," RESULT("3", "c2") "," LAST "]",
       "A<I look.>C<look>C<look>T!<cut>=<c1>T<seen>=<c2>U<two>D<hm>", false},
      {"a message of the system", "[{\"role\": \"system\", \"text\": \"be brief\"}," LAST "]", "?<be brief>U<two>",
       false},
      {"a call that is malformed",
       "[{\"role\": \"assistant\", \"text\": \"\", \"calls\": [{\"id\": \"m\", \"tool\": \"look\", \"malformed\": "
       "true, "
       "\"arguments\": \"{\"}]},{\"role\": \"tool\", \"text\": \"bad\", \"call_id\": \"m\"}," LAST "]",
       "A<>C<look>T<bad>=<m>U<two>", false},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    rewriter r = {.fields = {{TP_FIELD_MESSAGES, rows[i].messages}}, .off = true};
    hook hooks[] = {{.id = "rewrite", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r}};
    world w;
    char want[1024];
    open_probe(&w, two_calls, COUNT(two_calls), hooks, 1);
    say(&w, "one");
    r.off = false;
    say(&w, "two");
    if (r.refused) fail_msg("%s: %s", rows[i].name, r.why);
    snprintf(want, sizeof want, "S<>%s", rows[i].sent);
    if (strcmp(w.probe->seen[2].request, want) != 0)
      fail_msg("%s: sent %s, and not %s", rows[i].name, w.probe->seen[2].request, want);
    if ((strstr(w.told.events, "model_request.pairs") != NULL) != rows[i].pairs_noted)
      fail_msg("%s: events: %s", rows[i].name, w.told.events);
    r.off = true;
    say(&w, "three"); /* the history is as if nothing had been replaced */
    assert_string_equal(w.probe->seen[3].request, "S<>" BEFORE "A<There.>U<three>D<hm>");
    close_probe(&w);
  }
}

TEST(request_of_which_nothing_is_left_fails_the_turn) {
  rewriter r = {.fields = {{TP_FIELD_MESSAGES, "[{\"role\": \"tool\", \"text\": \"?\", \"call_id\": \"zz\"}]"}}};
  hook hooks[] = {{.id = "rewrite", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r}};
  world w;
  char reason[128];
  open_probe(&w, two_calls, COUNT(two_calls), hooks, 1);
  run_turn(&w, &(tp_turn_request){.text = TEXT("one")}, TP_TURN_FAILED, reason, sizeof reason);
  assert_string_equal(reason, "model.request: messages: none is left");
  assert_int_equal(w.probe->requests, 0);
  close_probe(&w);
}

TEST(messages_of_a_wrong_shape_fail_the_handler_and_the_request_stays) {
  static const struct {
    uint32_t field;
    const char *json, *why;
  } rows[] = {
      {TP_FIELD_MESSAGES, "{}", "an array of maps"},
      {TP_FIELD_MESSAGES, "[]", "at least one message"},
      {TP_FIELD_MESSAGES, "[1]", "an array of maps"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"user\"}]", "have a text"},
      {TP_FIELD_MESSAGES, "[{\"text\": \"x\"}]", "whose role is"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"end\", \"text\": \"x\"}]", "whose role is"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"user\", \"text\": 1}]", "have a text"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"user\", \"text\": \"x\", \"id\": -1}]", "whose id is"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"user\", \"text\": \"x\", \"id\": \"1\"}]", "whose id is"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"user\", \"text\": \"x\", \"calls\": []}]", "of a user of id"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"user\", \"text\": \"x\", \"content\": []}]", "of a user of id"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"user\", \"text\": \"x\", \"parts\": [{}]}]", "array of parts"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"system\", \"text\": \"x\", \"calls\": []}]", "of the system"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"assistant\", \"text\": \"x\", \"call_id\": \"c\"}]", "of the assistant"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"assistant\", \"text\": \"x\", \"calls\": {}}]", "calls that are an array"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"assistant\", \"text\": \"x\", \"calls\": [{\"tool\": \"look\"}]}]", "an id"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"assistant\", \"text\": \"x\", \"calls\": [{\"id\": \"a\"}]}]", "whose tool"},
      {TP_FIELD_MESSAGES,
       "[{\"role\": \"assistant\", \"text\": \"x\", \"calls\": [{\"id\": \"a\", \"tool\": \"t\", \"arguments\": []}]}]",
       "whose arguments"},
      {TP_FIELD_MESSAGES,
       "[{\"role\": \"assistant\", \"text\": \"x\", \"calls\": [{\"id\": \"a\", \"tool\": \"t\", \"args\": {}}]}]",
       "maps of id"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"tool\", \"text\": \"x\"}]", "have a call_id"},
      {TP_FIELD_MESSAGES, "[{\"role\": \"tool\", \"text\": \"x\", \"call_id\": \"c\", \"is_error\": 1}]", "a bool"},
      {TP_FIELD_TOOLS, "{}", "an array of tools"},
      {TP_FIELD_TOOLS, "[1]", "an array of tools"},
      {TP_FIELD_TOOLS, "[{\"description\": \"x\"}]", "have a name"},
      {TP_FIELD_TOOLS, "[{\"name\": \"look\", \"schema\": []}]", "schema is a map"},
      {TP_FIELD_TOOLS, "[{\"name\": \"look\", \"description\": 1}]", "description is a text"},
      {TP_FIELD_TOOLS, "[{\"name\": \"look\", \"parameters\": {}}]", "name, description, schema"},
      {TP_FIELD_PARAMETERS, "[]", "a map"},
      {TP_FIELD_PARAMETERS, "null", "a map"},
      {TP_FIELD_RESPONSE, "\"hello\"", "null, or a map"},
      {TP_FIELD_RESPONSE, "{}", "a text or calls"},
      {TP_FIELD_RESPONSE, "{\"calls\": []}", "a text or calls"},
      {TP_FIELD_RESPONSE, "{\"text\": 1}", "are texts"},
      {TP_FIELD_RESPONSE, "{\"text\": \"x\", \"finish\": \"done\"}", "whose finish"},
      {TP_FIELD_RESPONSE, "{\"text\": \"x\", \"finish\": \"error\"}", "whose finish"},
      {TP_FIELD_RESPONSE, "{\"text\": \"x\", \"input_tokens\": \"1\"}", "integers"},
      {TP_FIELD_RESPONSE, "{\"text\": \"x\", \"tool_calls\": []}", "null, or a map"},
      {TP_FIELD_RESPONSE, "{\"calls\": [{\"tool\": \"\"}]}", "whose tool"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    rewriter r = {.fields = {{rows[i].field, rows[i].json}}};
    hook hooks[] = {{.id = "rewrite", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r}};
    world w;
    open_probe(&w, two_calls, COUNT(two_calls), hooks, 1);
    say(&w, "one");
    if (r.refused != TP_ERR_MALFORMED || !strstr(r.why, rows[i].why))
      fail_msg("%s: %d %s, and not %s", rows[i].json, (int)r.refused, r.why, rows[i].why);
    assert_string_equal(w.probe->seen[0].request, "S<>U<one>");
    assert_int_equal(w.probe->requests, 2);
    close_probe(&w);
  }
}

/* ---- everything else of a request ---- */

TEST(model_tools_parameters_and_system_are_replaced_for_one_request) {
  static const char other_look[] =
      "[{\"name\": \"look\", \"description\": \"sees\", \"schema\": {\"type\": "
      "\"object\"}}]";
  static const struct {
    uint32_t field;
    const char *json, *request, *tools, *parameters, *model;
  } rows[] = {
      {TP_FIELD_TOOLS, "[\"other\"]", "S<>U<one>", "other:another,", "{\"n\":1}", ""},
      {TP_FIELD_TOOLS, "[]", "S<>U<one>", "", "{\"n\":1}", ""},
      {TP_FIELD_TOOLS, "[\"other\", \"look\"]", "S<>U<one>", "other:another,look:looks,", "{\"n\":1}", ""},
      {TP_FIELD_TOOLS, other_look, "S<>U<one>", "look:sees,", "{\"n\":1}", ""},
      {TP_FIELD_TOOLS, "[{\"name\": \"look\"}]", "S<>U<one>", "look:,", "{\"n\":1}", ""},
      {TP_FIELD_TOOLS, "[\"look\", \"nothing\", \"look\"]", "S<>U<one>", "look:looks,", "{\"n\":1}", ""},
      {TP_FIELD_PARAMETERS, "{\"temperature\": 0.5}", "S<>U<one>", "look:looks,other:another,", "{\"temperature\":0.5}",
       ""},
      {TP_FIELD_PARAMETERS, "{}", "S<>U<one>", "look:looks,other:another,", "{}", ""},
      {TP_FIELD_MODEL, "large", "S<>U<one>", "look:looks,other:another,", "{\"n\":1}", "large"},
      {TP_FIELD_SYSTEM, "Be brief.", "S<Be brief.>U<one>", "look:looks,other:another,", "{\"n\":1}", ""},
  };
  static const answer plain[] = {{.text = "Yes."}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    rewriter r = {.fields = {{rows[i].field, rows[i].json}}};
    hook hooks[] = {{.id = "rewrite", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r}};
    world w;
    open_probe(&w, plain, 1, hooks, 1);
    tp_turn_request request = {.text = TEXT("one"), .parameters = {"\x81\xa1n\x01", 4}};
    run_turn(&w, &request, TP_TURN_COMPLETED, NULL, 0);
    assert_int_equal(r.refused, TP_OK);
    assert_string_equal(w.probe->seen[0].request, rows[i].request);
    assert_string_equal(w.probe->seen[0].tools, rows[i].tools);
    assert_string_equal(w.probe->seen[0].parameters, rows[i].parameters);
    assert_string_equal(w.probe->seen[0].model, rows[i].model);
    assert_true((strstr(w.told.events, "model_request.unknown") != NULL) == (strstr(rows[i].json, "nothing") != NULL));
    r.off = true;
    run_turn(&w, &request, TP_TURN_COMPLETED, NULL, 0);
    assert_string_equal(w.probe->seen[1].tools, "look:looks,other:another,");
    assert_string_equal(w.probe->seen[1].parameters, "{\"n\":1}");
    assert_string_equal(w.probe->seen[1].model, "");
    close_probe(&w);
  }
}

TEST(files_and_parts_are_replaced_and_stay_in_the_history) {
  rewriter r = {.fields = {{TP_FIELD_FILES, "[\"b.txt\"]"},
                           {TP_FIELD_MESSAGES, "[{\"id\": 0, \"role\": \"user\", \"text\": \"one\"}]"}}};
  hook hooks[] = {{.id = "rewrite", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r}};
  static const answer plain[] = {{.text = "Yes."}};
  world w;
  open_probe(&w, plain, 1, hooks, 1);
  run_turn(&w,
           &(tp_turn_request){.text = TEXT("one"),
                              .files = TEXT("\x91\xa5"
                                            "a.txt")},
           TP_TURN_COMPLETED, NULL, 0);
  assert_int_equal(r.refused, TP_OK);
  assert_non_null(strstr(r.messages, "\"parts\":[{")); /* the file */
  assert_string_equal(w.probe->seen[0].files, "[\"b.txt\"]");
  r.off = true;
  say(&w, "two");
  assert_non_null(strstr(r.messages, "a.txt"));
  close_probe(&w);
}

TEST(events_of_a_request_name_the_model_that_it_was_given) {
  static const char *const names[][2] = {{"", "large large probe probe "}, {"filtered", "large large probe probe "}};
  for (size_t i = 0; i < COUNT(names); i++) {
    rewriter r = {.fields = {{TP_FIELD_MODEL, "large"}}};
    act filter = {.replaces = TP_FIELD_RESPONSE_TEXT, .text = "filtered"};
    hook hooks[] = {{.id = "rewrite", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r},
                    {.id = "filter", .phase = TP_PHASE_MODEL_RESPONSE, .ctx = &filter}};
    static const answer plain[] = {{.text = "Yes."}};
    world w;
    open_probe(&w, plain, 1, hooks, names[i][0][0] ? 2 : 1);
    say(&w, "one");
    r.off = true;
    say(&w, "two");
    assert_string_equal(w.told.models, names[i][1]);
    assert_string_equal(r.model, "probe"); /* what the next request would be given */
    close_probe(&w);
  }
}

TEST(name_of_a_model_that_is_too_long_fails_the_turn) {
  static char name[TP_ID_BYTES_MAX + 2];
  memset(name, 'm', sizeof name - 1);
  rewriter r = {.fields = {{TP_FIELD_MODEL, name}}};
  hook hooks[] = {{.id = "rewrite", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r}};
  world w;
  char reason[128];
  open_probe(&w, two_calls, COUNT(two_calls), hooks, 1);
  run_turn(&w, &(tp_turn_request){.text = TEXT("one")}, TP_TURN_FAILED, reason, sizeof reason);
  assert_string_equal(reason, "model.request: model: a name has at most 128 bytes");
  close_probe(&w);
}

TEST(call_of_a_tool_that_was_left_out_is_not_run) {
  rewriter r = {.fields = {{TP_FIELD_TOOLS, "[\"other\"]"}}};
  hook hooks[] = {{.id = "rewrite", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r}};
  world w;
  open_probe(&w, two_calls, COUNT(two_calls), hooks, 1);
  say(&w, "one");
  assert_non_null(strstr(w.probe->seen[1].request,
                         "T!<this tool was not offered: it is not among the tools of the "
                         "request>=<c1>"));
  r.off = true;
  w.probe->requests = 0; /* the model calls it once more, and it is offered again */
  say(&w, "two");
  assert_non_null(strstr(w.probe->seen[1].request, "U<two>A<I look.>C<look>C<look>T<seen>=<c1>"));
  close_probe(&w);
}

TEST(later_handler_sees_what_the_earlier_one_left) {
  rewriter first = {.fields = {{TP_FIELD_MESSAGES, "[{\"role\": \"user\", \"text\": \"first\"}]"},
                               {TP_FIELD_TOOLS, "[\"other\"]"},
                               {TP_FIELD_RESPONSE, "{\"text\": \"cached\"}"}}},
           second = {.fields = {{TP_FIELD_RESPONSE, "null"}}};
  hook hooks[] = {{.id = "a", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &first},
                  {.id = "b", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &second}};
  static const answer plain[] = {{.text = "Yes."}};
  world w;
  open_probe(&w, plain, 1, hooks, 2);
  say(&w, "one");
  assert_string_equal(second.messages, "[{\"role\":\"user\",\"text\":\"first\"}]");
  assert_string_equal(second.tools, "[\"other\"]");
  assert_true(second.has_response);
  assert_string_equal(w.probe->seen[0].request, "S<>U<first>"); /* a null takes the answer back */
  close_probe(&w);
}

/* ---- an answer in the model's place ---- */

TEST(handler_that_answers_has_the_turn_go_on_without_a_request) {
  static const struct {
    const char *response, *text, *events;
    uint32_t requests;
  } rows[] = {
      {"{\"text\": \"From the cache.\"}", "From the cache.",
       "model_begin\ndiagnostic model_request.answered\nmodel_delta From the cache.\nmodel_end From the cache.\n", 0},
      {"{\"text\": \"\"}", "", "model_begin\ndiagnostic model_request.answered\nmodel_end\n", 0},
      {"{\"text\": \"No.\", \"finish\": \"refusal\"}", "No.",
       "model_begin\ndiagnostic model_request.answered\nmodel_delta No.\nmodel_end No.\n", 0},
      {"{\"text\": \"x\", \"stop_reason\": \"max_tokens\", \"input_tokens\": 9, \"output_tokens\": -1}", "x",
       "model_begin\ndiagnostic model_request.answered\nmodel_delta x\nmodel_end x\n", 0},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    rewriter r = {.fields = {{TP_FIELD_RESPONSE, rows[i].response}}};
    hook hooks[] = {{.id = "cache", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r}};
    world w;
    char text[64];
    open_probe(&w, two_calls, COUNT(two_calls), hooks, 1);
    run_turn(&w, &(tp_turn_request){.text = TEXT("one")}, TP_TURN_COMPLETED, text, sizeof text);
    assert_int_equal(r.refused, TP_OK);
    assert_int_equal(w.probe->requests, rows[i].requests);
    assert_string_equal(text, rows[i].text);
    assert_string_equal(w.told.events, rows[i].events);
    r.off = true;
    say(&w, "two"); /* it is in the history */
    char want[128];
    snprintf(want, sizeof want, "S<>U<one>A<%s>U<two>", rows[i].text);
    assert_string_equal(w.probe->seen[0].request, want);
    close_probe(&w);
  }
}

TEST(calls_of_an_answer_in_the_models_place_are_run) {
  rewriter r = {.fields = {{TP_FIELD_RESPONSE,
                            "{\"calls\": [{\"tool\": \"look\"}, {\"tool\": \"look\", \"id\": \"x\", "
                            "\"arguments\": {\"a\": 1}}]}"}}};
  rewriter once = {.fields = {{TP_FIELD_RESPONSE, "null"}}, .off = true};
  hook hooks[] = {{.id = "cache", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r},
                  {.id = "once", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &once}};
  static const answer plain[] = {{.text = "Yes."}};
  world w;
  char text[64];
  open_probe(&w, plain, 1, hooks, 2);
  /* The handler answers each request with calls, and the limit of requests ends the turn: such answers count. */
  run_turn(&w, &(tp_turn_request){.text = TEXT("one"), .iterations_max = 3}, TP_TURN_FAILED, text, sizeof text);
  assert_int_equal(w.probe->requests, 0);
  assert_int_equal(r.calls, 3);
  assert_non_null(strstr(r.messages, "\"role\":\"tool\",\"text\":\"seen\",\"call_id\":\"x\""));
  close_probe(&w);
}

/* ---- denials, failures, repeats ---- */

TEST(denial_ends_the_turn_before_the_request) {
  rewriter r = {.answer = TP_ANSWER_DENY};
  hook hooks[] = {{.id = "budget", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r}};
  world w;
  char reason[128];
  open_probe(&w, two_calls, COUNT(two_calls), hooks, 1);
  run_turn(&w, &(tp_turn_request){.text = TEXT("one")}, TP_TURN_DENIED, reason, sizeof reason);
  assert_string_equal(reason, "model.request: hook budget: not now");
  assert_int_equal(w.probe->requests, 0);
  close_probe(&w);
}

TEST(failed_handler_leaves_the_request_unless_it_is_required) {
  for (int required = 0; required < 2; required++) {
    rewriter r = {.answer = TP_ANSWER_FAILED};
    hook hooks[] = {{.id = "filter",
                     .phase = TP_PHASE_MODEL_REQUEST,
                     .run = rewrite,
                     .ctx = &r,
                     .sub = {.failure = required ? TP_FAILURE_REQUIRED : TP_FAILURE_DEFAULT}}};
    static const answer plain[] = {{.text = "Yes."}};
    world w;
    open_probe(&w, plain, 1, hooks, 1);
    run_turn(&w, &(tp_turn_request){.text = TEXT("one")}, required ? TP_TURN_DENIED : TP_TURN_COMPLETED, NULL, 0);
    assert_int_equal(w.probe->requests, !required);
    close_probe(&w);
  }
}

TEST(repeated_request_comes_to_its_handlers_again) {
  rewriter r = {.fields = {{TP_FIELD_MESSAGES, "[{\"role\": \"user\", \"text\": \"short\"}]"}}};
  hook hooks[] = {{.id = "rewrite", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r}};
  static const answer fails[] = {{.fails = TP_ERR_MODEL}, {.fails = TP_ERR_MODEL}, {.text = "Yes."}};
  world w;
  open_probe(&w, fails, COUNT(fails), hooks, 1);
  say(&w, "one");
  assert_int_equal(r.calls, 3);
  assert_int_equal(r.attempt, 3);
  for (int i = 0; i < 3; i++) assert_string_equal(w.probe->seen[i].request, "S<>U<short>");
  close_probe(&w);
}

TEST(subscription_needs_trust_or_its_grant) {
  tp_runtime *runtime = open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options)});
  static const tp_trust trusts[] = {TP_TRUST_HOST, TP_TRUST_DECLARED};
  rewriter r = {.off = true};
  for (size_t i = 0; i < COUNT(trusts); i++)
    for (int granted = 0; granted < 2; granted++) {
      tp_owner owner = {.struct_size = sizeof owner,
                        .name = "plugin",
                        .trust = trusts[i],
                        .grants = granted ? TP_GRANT_PRIVILEGED_HOOKS : 0};
      tp_edit *edit;
      hook h = {.id = "x", .phase = TP_PHASE_MODEL_REQUEST, .run = rewrite, .ctx = &r};
      assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
      assert_int_equal(hook_add(edit, &h), TP_OK);
      assert_int_equal(tp_edit_commit(edit, NULL, NULL), granted ? TP_OK : TP_ERR_PRIVILEGED);
      if (!granted) {
        tp_edit_discard(edit);
        continue;
      }
      assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
      assert_int_equal(tp_edit_remove_subscription(edit, "x", NULL), TP_OK);
      assert_int_equal(tp_edit_remove_handler(edit, "x", NULL), TP_OK);
      assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
    }
  close_runtime(runtime);
}
