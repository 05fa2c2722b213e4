/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks of Gemini CLI before a request to a model, before its tools are shown, and after its answer: the input of their
 * programs, and the effect of their changes. */
#include "tests/support/test.h"
#include "tests/support/hook_files.h"
#include "tests/support/json_value.h"
#include "tests/support/world.h"

enum { GRANTED = TP_GRANT_REWRITE | TP_GRANT_PRIVILEGED_HOOKS, KEPT_SIZE = 16384 };

/* ---- a model that keeps the last request, and a turn with a call ---- */

/* "model|{parameters}|tool,tool,|" and what write_request() has. */
typedef struct kept {
  char text[KEPT_SIZE];
  uint32_t requests;
} kept;

static void add_parameters(char *text, tp_text parameters) {
  tp_writer *writer;
  tp_text json = {NULL, 0};
  if (tp_writer_new(NULL, &writer) != TP_OK) abort();
  if (parameters.size > 0 && tp_json_encode(parameters, writer, &json, NULL) != TP_OK) abort();
  snprintf(text + strlen(text), 1024, "|%.*s|", (int)json.size, json.size ? json.data : "");
  tp_writer_free(writer);
}

static void answer(void *ctx, const tp_model_request *request, tp_token token) {
  kept *k = ctx;
  const tp_message *last = request->messages[request->message_count - 1];
  bool calls = request->tool_count > 0 && last->role == TP_ROLE_USER && tp_text_is(last->text, "second");
  const tp_tool_call call = {
      .struct_size = sizeof call, .id = TEXT("c1"), .name = TEXT("look"), .arguments = no_arguments};
  tp_model_response response = {.struct_size = sizeof response,
                                .text = tp_text_of(calls ? "I look" : "the key is k-123"),
                                .calls = (const tp_tool_call *const[]){&call},
                                .call_count = calls,
                                .stop_reason = tp_text_of(calls ? "tool_use" : "max_tokens"),
                                .input_tokens = 7,
                                .output_tokens = 5};
  k->requests++;
  snprintf(k->text, 64, "%.*s", (int)request->model.size, request->model.size ? request->model.data : "");
  add_parameters(k->text, request->parameters);
  for (size_t i = 0; i < request->tool_count; i++)
    snprintf(k->text + strlen(k->text), 64, "%s,", request->tools[i]->name);
  snprintf(k->text + strlen(k->text), 2, "|");
  write_request(k->text + strlen(k->text), request);
  (void)!tp_model_complete(token, &response, NULL);
}

static tp_answer look(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("seen"));
}

typedef struct world {
  WORLD;
  kept kept;
  char events[KEPT_SIZE]; /* texts of deltas and ends, and codes and texts of diagnostics */
  tp_writer *writer;
} world;

static void keep_event(void *ctx, const tp_event *event) {
  world *w = ctx;
  size_t used = strlen(w->events);
  if (event->kind == TP_EVENT_DIAGNOSTIC && event->contribution)
    snprintf(w->events + used, sizeof w->events - used, "%.*s: %.*s\n", (int)event->contribution->key.size,
             event->contribution->key.data, (int)event->text.size, event->text.size ? event->text.data : "");
  else if (event->kind == TP_EVENT_MODEL_DELTA || event->kind == TP_EVENT_MODEL_END)
    snprintf(w->events + used, sizeof w->events - used, "<%.*s>\n", (int)event->text.size,
             event->text.size ? event->text.data : "");
}

static const tp_turn_result *say(world *w, const char *text) {
  const tp_turn_result *result = NULL;
  const tp_turn_request request = {
      .struct_size = sizeof request,
      .text = tp_text_of(text),
      .model_name = "first-model",
      .system = TEXT("be brief"),
      .parameters = json_value(w->writer, "{'temperature': 1, 'max_completion_tokens': 900, 'user': 'u7'}")};
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  return result;
}

static void open_world(world *w) {
  static const char *const names[] = {"look", "write_it", "deploy"};
  tp_tool tools[COUNT(names)];
  const tp_tool *list[COUNT(names)];
  const tp_model model = {.struct_size = sizeof model, .name = "m", .ctx = &w->kept, .start = answer};
  for (size_t i = 0; i < COUNT(names); i++) {
    tools[i] = (tp_tool){.struct_size = sizeof *tools, .name = names[i], .run = look, .placement = TP_PLACEMENT_INLINE};
    list[i] = &tools[i];
  }
  memset(&w->kept, 0, sizeof w->kept);
  w->events[0] = '\0';
  assert_int_equal(tp_writer_new(NULL, &w->writer), TP_OK);
  world_open(&w->stage, &(world_options){.tools = list,
                                         .tool_count = COUNT(names),
                                         .session = {.model = &model, .on_event = keep_event, .event_ctx = w}});
  tp_turn_result_free(say(w, "first"));
}

static void close_world(world *w) {
  tp_writer_free(w->writer);
  world_close(&w->stage);
}

static void write_hook(const char *name, const char *event, const char *script, const char *more) {
  char text[8192], file[64];
  snprintf(file, sizeof file, "%s.sh", name);
  snprintf(text, sizeof text, "cat > %s.in\n%s\n", name, script);
  write_named(file, text);
  snprintf(text, sizeof text,
           "id: %s\nprotocol: gemini\nevent: %s\n%s\ntools: {look: read_file}\nhandler: {command: [sh, %s.sh]}\n", name,
           event, more, name);
  snprintf(file, sizeof file, "%s.yaml", name);
  write_named(file, text);
}

static void commit_granted(tp_runtime *runtime) {
  tp_hooks_options options = hooks_options();
  options.grants = GRANTED;
  commit_hooks(runtime, &options);
}

FOR_EACH_TEST(make_directory, remove_directory);

/* ---- what a program puts in the place of a request or an answer ---- */

#define SAYS(fields) "echo '{\"hookSpecificOutput\": {" fields "}}'"
/* The request that the program got, through sed. */
#define EDITS(edits)                                \
  "R=$(sed 's/.*\"llm_request\"://; s/}$//; " edits \
  "' guard.in); echo \"{\\\"hookSpecificOutput\\\": {\\\"llm_request\\\": $R}}\""
#define MOCK(parts, more) \
  SAYS("\"llm_response\": {\"candidates\": [{\"content\": {\"role\": \"model\", \"parts\": [" parts "]}, " more "}]}")

#define SENT "U<first>A<the key is k-123>U<second>A<I look>C<look>T<seen>=<c1>"
#define DONE "the key is k-123"

typedef struct row {
  const char *event, *script;
  const char *text; /* of the result; NULL: it was denied */
  const char *sent; /* what the last request has; NULL: any */
  const char *told; /* what listeners or the reason of the turn have; NULL: any */
  bool no_rewrite;
} row;

static const row rows[] = {
    /* nothing is changed */
    {"BeforeModel", "true", DONE, "first-model|", NULL, false},
    {"BeforeModel", "echo '{}'", DONE, SENT, NULL, false},
    {"BeforeModel", "echo logged", DONE, SENT, "output: logged", false},
    {"BeforeModel", EDITS(""), DONE, "900,\"user\":\"u7\"}|deploy,look,write_it,|S<be brief>" SENT, NULL, false},
    {"BeforeModel", EDITS(""), DONE, SENT, NULL, true},
    {"BeforeModel", "echo '{\"decision\": \"allow\"}'", DONE, SENT, NULL, true},
    /* model, config */
    {"BeforeModel", SAYS("\"llm_request\": {\"model\": \"small\"}"), DONE, "small|{\"temperature\":1,", NULL, false},
    {"BeforeModel", SAYS("\"hookEventName\": \"BeforeModel\", \"llm_request\": {\"config\": {\"temperature\": 0.5}}"),
     DONE, "first-model|{\"temperature\":0.5,\"max_completion_tokens\":900,\"user\":\"u7\"}|", NULL, false},
    {"BeforeModel", SAYS("\"llm_request\": {\"config\": {\"maxOutputTokens\": 64, \"topP\": 0.25}}"), DONE,
     "{\"temperature\":1,\"max_completion_tokens\":64,\"user\":\"u7\",\"top_p\":0.25}|", NULL, false},
    {"BeforeModel", SAYS("\"llm_request\": {\"config\": {\"temperature\": null, \"stopSequences\": [\"END\"]}}"), DONE,
     "{\"max_completion_tokens\":900,\"user\":\"u7\",\"stop\":[\"END\"]}|", NULL, false},
    {"BeforeModel", SAYS("\"llm_request\": {\"config\": {\"safety\": 1}}"), DONE, "{\"temperature\":1,",
     "field_dropped: config.safety", false},
    {"BeforeModel", SAYS("\"llm_request\": {\"tools\": []}"), DONE, SENT, "field_dropped: llm_request.tools", false},
    /* messages: what is not shown stays with the message before it */
    {"BeforeModel", EDITS("s/\\\"first\\\"/\\\"hello\\\"/; s/k-123/[key]/"), DONE,
     "U<hello>A<the key is [key]>U<second>A<I look>C<look>T<seen>=<c1>", NULL, false},
    {"BeforeModel", EDITS("s/\\\"messages\\\":\\[/&{\\\"role\\\":\\\"system\\\",\\\"content\\\":\\\"be kind\\\"},/"),
     DONE, "|S<be brief>?<be kind>" SENT, NULL, false},
    {"BeforeModel", EDITS("s/I look\\\"}/&,{\\\"role\\\":\\\"user\\\",\\\"content\\\":\\\"and be quick\\\"}/"), DONE,
     SENT "U<and be quick>", NULL, false},
    {"BeforeModel", EDITS("s/k-123/key/; s/I look\\\"}/&,{\\\"role\\\":\\\"user\\\",\\\"content\\\":\\\"quick\\\"}/"),
     DONE, "U<first>A<the key is key>U<second>A<I look>C<look>T<seen>=<c1>U<quick>", NULL, false},
    {"BeforeModel", EDITS("s/{\\\"role\\\":\\\"user\\\",\\\"content\\\":\\\"first\\\"},[^}]*},//"), DONE,
     "|S<be brief>U<second>A<I look>C<look>T<seen>=<c1>", NULL, false},
    {"BeforeModel",
     SAYS("\"llm_request\": {\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
          "\"text\": \"a\"}, \"b\"]}]}"),
     DONE, "|S<be brief>U<ab>", NULL, false},
    {"BeforeModel", EDITS("s/{\\\"role\\\":\\\"user\\\",\\\"content\\\":\\\"first\\\"},//; s/I look/I looked/"), DONE,
     "|S<be brief>A<the key is k-123>U<second>A<I looked>C<look>T<seen>=<c1>", NULL, false},
    /* an answer in the model's place */
    {"BeforeModel", MOCK("\"from \", \"the hook\"", "\"finishReason\": \"STOP\""), "from the hook", NULL,
     "<from the hook>", false},
    {"BeforeModel", MOCK("{\"text\": \"as parts\"}", "\"index\": 0"), "as parts", NULL, NULL, false},
    {"BeforeModel", SAYS("\"llm_response\": {\"text\": \"short\", \"candidates\": []}"), "short", NULL, NULL, false},
    {"BeforeModel", MOCK("\"x\"", "\"index\": 0") "; echo no >&2; exit 2", NULL, NULL, "hook guard: no", false},
    /* denials */
    {"BeforeModel", "echo no request >&2; exit 2", NULL, NULL, "hook guard: no request", true},
    {"BeforeModel", "echo '{\"decision\": \"deny\", \"reason\": \"over budget\"}'", NULL, NULL, "over budget", true},
    {"BeforeModel", "echo '{\"decision\": \"block\", \"reason\": \"over budget\"}'", NULL, NULL, "over budget", false},
    {"BeforeModel", "echo '{\"continue\": false, \"stopReason\": \"enough\"}'", NULL, NULL, "enough", false},
    {"BeforeModel", SAYS("\"llm_request\": {\"model\": \"small\"}"), NULL, NULL, "changes the request", true},
    {"BeforeModel", MOCK("\"x\"", "\"index\": 0"), NULL, NULL, "needs rewrite: true", true},
    /* no answer: it fails open */
    {"BeforeModel", "exit 1", DONE, SENT, NULL, false},
    {"BeforeModel", MOCK("", "\"index\": 0"), DONE, SENT, NULL, false},
    {"BeforeModel", SAYS("\"llm_request\": 7"), DONE, SENT, NULL, false},
    {"BeforeModel", SAYS("\"llm_request\": {\"messages\": []}"), DONE, SENT, NULL, false},
    {"BeforeModel", SAYS("\"llm_request\": {\"messages\": [{\"role\": \"tool\", \"content\": \"x\"}]}"), DONE, SENT,
     NULL, false},
    {"BeforeModel", SAYS("\"llm_request\": {\"messages\": [{\"role\": \"user\", \"content\": 7}]}"), DONE, SENT, NULL,
     false},
    {"BeforeModel", SAYS("\"llm_request\": {\"config\": [1]}"), DONE, SENT, NULL, false},
    {"BeforeModel", SAYS("\"llm_response\": []"), DONE, SENT, NULL, false},
    {"BeforeModel", "echo '{\"llm_response\": {\"text\": \"top\"}}'", DONE, SENT, NULL, false},
    {"BeforeModel", "echo '{\"decision\": \"ask\"}'", DONE, SENT, NULL, false},
    {"BeforeModel", SAYS("\"hookEventName\": \"AfterModel\", \"llm_response\": {\"text\": \"x\"}"), DONE, SENT, NULL,
     false},
    /* which tools are shown */
    {"BeforeToolSelection", "echo '{}'", DONE, "|deploy,look,write_it,|", NULL, false},
    {"BeforeToolSelection",
     SAYS("\"toolConfig\": {\"mode\": \"AUTO\", \"allowedFunctionNames\": [\"read_file\", \"x\"]}"), DONE,
     "\"u7\"}|look,|", NULL, false},
    {"BeforeToolSelection",
     SAYS("\"hookEventName\": \"BeforeToolSelection\", \"toolConfig\": {\"functionCallingConfig\": {\"mode\": \"ANY\", "
          "\"allowedFunctionNames\": [\"read_file\", \"deploy\"]}}"),
     DONE, "\"u7\",\"tool_choice\":\"required\"}|deploy,look,|", NULL, false},
    {"BeforeToolSelection", SAYS("\"toolConfig\": {\"mode\": \"NONE\"}"), DONE, "\"u7\"}||S<be brief>U<first>", NULL,
     false},
    {"BeforeToolSelection", SAYS("\"toolConfig\": {\"mode\": \"AUTO\", \"allowedFunctionNames\": []}"), DONE,
     "|deploy,look,write_it,|", NULL, false},
    {"BeforeToolSelection", SAYS("\"toolConfig\": {\"mode\": \"ANY\", \"allowedFunctionNames\": [\"none\"]}"), DONE,
     "\"u7\"}||S<be brief>U<first>", NULL, false},
    {"BeforeToolSelection", SAYS("\"toolConfig\": {\"mode\": \"SOME\"}"), DONE, "|deploy,look,write_it,|", NULL, false},
    {"BeforeToolSelection", SAYS("\"toolConfig\": {\"allowedFunctionNames\": \"look\"}"), DONE,
     "|deploy,look,write_it,|", NULL, false},
    {"BeforeToolSelection", "echo no >&2; exit 2", DONE, "|deploy,look,write_it,|", "block_dropped: ", false},
    {"BeforeToolSelection", "echo '{\"continue\": false}'", DONE, "|deploy,look,write_it,|", "continue_false: ", false},
    {"BeforeModel", SAYS("\"llm_request\": {\"toolConfig\": {\"allowedFunctionNames\": [\"deploy\"]}}"), DONE,
     "\"u7\"}|deploy,|", NULL, false},
    /* the answer */
    {"AfterModel", "echo '{}'", DONE, SENT, "<" DONE ">", true},
    {"AfterModel", MOCK("\"the key is [key]\"", "\"finishReason\": \"STOP\""), "the key is [key]", NULL,
     "<the key is [key]>", false},
    {"AfterModel", SAYS("\"hookEventName\": \"AfterModel\", \"llm_response\": {\"text\": \"short\"}"), "short", NULL,
     NULL, false},
    {"AfterModel",
     SAYS("\"llm_response\": {\"text\": \"filtered\", \"candidates\": [{\"content\": {\"parts\": [\"the key is "
          "k-123\"]}}]}"),
     NULL, NULL, NULL, true}, /* the first answer is another one */
    {"AfterModel",
     "R=$(sed 's/.*\"llm_response\"://; s/}$//; s/\"text\":\"[^\"]*\"/\"text\":\"short\"/' guard.in); echo "
     "\"{\\\"hookSpecificOutput\\\": {\\\"llm_response\\\": $R}}\"",
     "short", NULL, "<short>", false}, /* where the parts are as they were, the text counts */
    {"AfterModel", SAYS("\"llm_response\": {\"candidates\": [{\"content\": {\"parts\": []}}]}"), DONE, SENT, NULL,
     false},
    {"AfterModel", MOCK("\"\"", "\"index\": 0"), "", NULL, NULL, false},
    {"AfterModel", MOCK("\"x\"", "\"index\": 0"), NULL, NULL, "changes the answer of the model", true},
    {"AfterModel", "echo not that >&2; exit 2", NULL, NULL, "not that", true},
    {"AfterModel", "echo '{\"decision\": \"deny\", \"reason\": \"secret\"}'", NULL, NULL, "secret", false},
    {"AfterModel", "echo '{\"continue\": false, \"stopReason\": \"stop here\"}'", NULL, NULL, "stop here", true},
    {"AfterModel", "exit 3", DONE, SENT, NULL, false},
    {"AfterModel", SAYS("\"llm_response\": {\"candidates\": 7}"), DONE, SENT, NULL, false},
    {"AfterModel", SAYS("\"llm_response\": {\"candidates\": [{\"content\": {\"parts\": [7]}}]}"), DONE, SENT, NULL,
     false},
    {"AfterModel", SAYS("\"llm_request\": {\"model\": \"x\"}"), DONE, SENT, "field_dropped: llm_request", false},
};

static void check_row(const row *r) {
  world w;
  open_world(&w);
  write_hook("guard", r->event, r->script, r->no_rewrite ? "" : "rewrite: true");
  commit_granted(w.runtime);
  w.kept.text[0] = w.events[0] = '\0';
  const tp_turn_result *result = say(&w, "second");
  char text[512], reason[512];
  snprintf(text, sizeof text, "%.*s", (int)result->text.size, result->text.size ? result->text.data : "");
  snprintf(reason, sizeof reason, "%.*s", (int)result->reason.size, result->reason.size ? result->reason.data : "");
  tp_turn_outcome wanted = r->text ? TP_TURN_COMPLETED : TP_TURN_DENIED;
  if (result->outcome != wanted || strcmp(text, r->text ? r->text : "") != 0)
    fail_msg("%s %s: %s `%s` (%s)\n%s", r->event, r->script, tp_turn_outcome_name(result->outcome), text, reason,
             w.events);
  if (r->sent && !strstr(w.kept.text, r->sent))
    fail_msg("%s %s: sent %s, not %s", r->event, r->script, w.kept.text, r->sent);
  if (r->told && !strstr(w.events, r->told) && !strstr(reason, r->told))
    fail_msg("%s %s: told %s, %s, not %s", r->event, r->script, w.events, reason, r->told);
  if (!r->text && strcmp(r->event, "AfterModel") == 0 && strstr(w.events, "I look"))
    fail_msg("%s %s: a denied answer was delivered: %s", r->event, r->script, w.events);
  tp_turn_result_free(result);
  close_world(&w);
}

TEST(a_program_changes_a_request_and_an_answer_as_there) {
  for (size_t i = 0; i < COUNT(rows); i++) check_row(&rows[i]);
}
