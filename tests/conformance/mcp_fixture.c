/* SPDX-License-Identifier: Apache-2.0
 *
 * A server of the Model Context Protocol with the tools, prompts and resources that the public conformance kit calls:
 *
 *     mcp_fixture http PORT     listens on 127.0.0.1, prints its URL, and ends with its standard input
 *     mcp_fixture mounted 0     likewise in a server of turnphase-server
 *     mcp_fixture stdio
 *
 * It uses only public headers. */
#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "turnphase/mcp_server.h"
#ifdef TP_WITH_SERVER
#include "turnphase/server.h"
#endif
#include "turnphase/turnphase.h"

#define PNG "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\b\6\0\0\0\x1f\x15\xc4\x89"
#define WAV "RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0"

static tp_mcp_server *server;
#ifdef TP_WITH_SERVER
static tp_server *place; /* the server in which it is mounted */
#endif

/* ---- values ---- */

/* Lives as long as the process. */
static tp_text json(const char *text) {
  tp_writer *writer;
  tp_text value;
  tp_fault fault = {0};
  if (tp_writer_new(NULL, &writer) != TP_OK || tp_json_decode(tp_text_of(text), writer, &fault) != TP_OK ||
      tp_writer_finish(writer, &value) != TP_OK) {
    fprintf(stderr, "%s: %s\n", text, fault.message);
    exit(1);
  }
  return value;
}

static void put_json(char *buffer, size_t size, tp_text value) {
  tp_writer *writer;
  tp_text text = {0};
  if (tp_writer_new(NULL, &writer) != TP_OK) return;
  if (tp_json_encode(value, writer, &text, NULL) == TP_OK)
    snprintf(buffer, size, "%.*s", (int)text.size, text.size ? text.data : "");
  tp_writer_free(writer);
}

/* ---- tools that answer at once ---- */

static tp_answer say(tp_tool_run *run, const tp_part *const *parts, size_t count, const char *text) {
  tp_tool_answer answer = {.struct_size = sizeof answer, .text = tp_text_of(text), .parts = parts, .part_count = count};
  return tp_tool_answer_with(run, &answer, NULL);
}

static const tp_part image = {
    .struct_size = sizeof image, .kind = TP_PART_IMAGE, .bytes = {PNG, sizeof PNG - 1}, .media_type = {"image/png", 9}};
static const tp_part audio = {
    .struct_size = sizeof audio, .kind = TP_PART_AUDIO, .bytes = {WAV, sizeof WAV - 1}, .media_type = {"audio/wav", 9}};
#define EMBEDDED "This is an embedded resource content."
static const tp_part embedded = {.struct_size = sizeof embedded,
                                 .kind = TP_PART_FILE,
                                 .bytes = {EMBEDDED, sizeof EMBEDDED - 1},
                                 .uri = {"test://embedded-resource", 24},
                                 .media_type = {"text/plain", 10}};

static tp_answer run_simple(void *ctx, tp_tool_run *run) {
  const char *name = ctx;
  const tp_part *one[] = {NULL}, *two[] = {&image, &embedded};
  if (strcmp(name, "test_error_handling") == 0)
    return tp_tool_error(run, tp_text_of("This tool intentionally returns an error for testing"));
  one[0] = strcmp(name, "test_image_content") == 0       ? &image
           : strcmp(name, "test_audio_content") == 0     ? &audio
           : strcmp(name, "test_embedded_resource") == 0 ? &embedded
                                                         : NULL;
  if (one[0]) return say(run, one, 1, "");
  if (strcmp(name, "test_multiple_content_types") == 0) return say(run, two, 2, "Multiple content types test:");
  return tp_tool_ok(run, tp_text_of("This is a simple text response for testing."));
}

static tp_answer run_slow(void *ctx, tp_tool_run *run) {
  static const char *const lines[] = {"Tool execution started", "Tool processing data", "Tool execution completed"};
  const char *name = ctx;
  tp_mcp_call *call = tp_mcp_call_of(run);
  for (int i = 0; i < 3; i++) {
    char line[64];
    snprintf(line, sizeof line, "\"%s\"", lines[i]);
    if (strstr(name, "logging")) tp_mcp_call_log(call, "info", "fixture", json(line));
    else tp_mcp_call_progress(call, 50 * i, 100, lines[i]);
    if (i < 2) poll(NULL, 0, 20);
  }
  return tp_tool_ok(run, tp_text_of("done"));
}

/* ---- tools that change lists ---- */

static const char prompts[] =
    "[{\"name\":\"test_simple_prompt\",\"description\":\"A simple prompt\"},"
    "{\"name\":\"test_prompt_with_arguments\",\"description\":\"With arguments\",\"arguments\":["
    "{\"name\":\"arg1\",\"description\":\"First\",\"required\":true},"
    "{\"name\":\"arg2\",\"description\":\"Second\",\"required\":true}]},"
    "{\"name\":\"test_prompt_with_embedded_resource\",\"description\":\"With a resource\",\"arguments\":["
    "{\"name\":\"resourceUri\",\"required\":true}]},"
    "{\"name\":\"test_input_required_result_prompt\",\"description\":\"Asks first\"},"
    "{\"name\":\"test_prompt_with_image\",\"description\":\"With an image\"}]";

static tp_answer run_trigger(void *ctx, tp_tool_run *run);

/* ---- tools that are tasks, if the client supports tasks: they take longer than TASK_AFTER_MS ---- */

enum { TASK_AFTER_MS = 400, JOB_MS = 1000, STEP_MS = 20 };

static bool needs_tasks(tp_mcp_call *call) {
  if (tp_mcp_call_can(call, "tasks")) return false;
  tp_mcp_call_fail(call, -32021, "the client lacks the extension for tasks",
                   json("{\"requiredCapabilities\":{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}}"));
  return true;
}

static void sleep_ms(const tp_tool_run *run, int64_t ms) {
  for (; ms > 0 && !tp_tool_run_cancelled(run); ms -= STEP_MS) poll(NULL, 0, STEP_MS);
}

static tp_answer run_job(void *ctx, tp_tool_run *run) {
  const char *name = ctx;
  tp_mcp_call *call = tp_mcp_call_of(run);
  tp_text arguments = tp_tool_run_arguments(run), who = tp_value_text(tp_value_get(arguments, "name"));
  if (strcmp(name, "greet") == 0) return tp_tool_printf(run, "Hello, %.*s!", (int)who.size, who.size ? who.data : "");
  if (strcmp(name, "failing_job") == 0 && needs_tasks(call)) return tp_tool_error(run, tp_text_of("no tasks"));
  bool is_computed = strcmp(name, "slow_compute") == 0;
  sleep_ms(run, is_computed ? tp_value_int(tp_value_get(arguments, "seconds"), 0) * 1000 : JOB_MS);
  if (is_computed) return tp_tool_ok(run, tp_text_of("42"));
  if (strcmp(name, "protocol_error_job") == 0) tp_mcp_call_fail(call, -32603, "the job broke", (tp_text){0});
  return tp_tool_error(run, tp_text_of("the job failed"));
}

/* ---- tools that ask the client ---- */

/** The inputs that a tool wants, round after round: arrays of {key, method, params}. */
typedef struct asker {
  const char *name, *schema;
  const char *rounds[3];
  const char *text; /* the text before the answers that came */
} asker;

#define ELICIT(key, message, properties, required)                                            \
  "{\"key\":\"" key "\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"" message \
  "\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required "]}}}"
#define TEXT(name) "\"" name "\":{\"type\":\"string\"}"
#define NAME ELICIT("user_name", "What is your name?", TEXT("name"), "\"name\"")
#define OK_BOX ELICIT("confirm", "Please confirm", "\"ok\":{\"type\":\"boolean\"}", "\"ok\"")
#define CONFIRM(key) ELICIT(key, "Sure?", "\"confirm\":{\"type\":\"boolean\"}", "\"confirm\"")
#define SAMPLE(key, question, tokens)                                                      \
  "{\"key\":\"" key                                                                        \
  "\",\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[{\"role\":\"user\"," \
  "\"content\":{\"type\":\"text\",\"text\":\"" question "\"}}],\"maxTokens\":" tokens "}}"
#define ROOTS "{\"key\":\"client_roots\",\"method\":\"roots/list\",\"params\":{}}"
#define OPTIONS "[\"option1\",\"option2\",\"option3\"]"
#define TITLED                                                                               \
  "[{\"const\":\"value1\",\"title\":\"First\"},{\"const\":\"value2\",\"title\":\"Second\"}," \
  "{\"const\":\"value3\",\"title\":\"Third\"}]"

static const asker askers[] = {
    {"test_sampling",
     "{\"type\":\"object\",\"properties\":{\"prompt\":{\"type\":\"string\"}},\"required\":[\"prompt\"]}",
     {"[" SAMPLE("sample", "Test prompt", "100") "]"},
     "LLM response: "},
    {"test_elicitation",
     "{\"type\":\"object\",\"properties\":{\"message\":{\"type\":\"string\"}},\"required\":[\"message\"]}",
     {"[" ELICIT("user", "Please provide your information", TEXT("username") "," TEXT("email"),
                 "\"username\",\"email\"") "]"},
     "User response: "},
    {"test_elicitation_sep1034_defaults",
     NULL,
     {"[" ELICIT(
         "user", "Please review",
         "\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},\"age\":{\"type\":\"integer\",\"default\":30},"
         "\"score\":{\"type\":\"number\",\"default\":95.5},\"status\":{\"type\":\"string\",\"enum\":"
         "[\"active\",\"inactive\",\"pending\"],\"default\":\"active\"},"
         "\"verified\":{\"type\":\"boolean\",\"default\":true}",
         "") "]"},
     "Elicitation completed: "},
    {"test_elicitation_sep1330_enums",
     NULL,
     {"[" ELICIT("user", "Please choose",
                 "\"untitledSingle\":{\"type\":\"string\",\"enum\":" OPTIONS "},"
                 "\"titledSingle\":{\"type\":\"string\",\"oneOf\":" TITLED "},"
                 "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],"
                 "\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},"
                 "\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":" OPTIONS "}},"
                 "\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":" TITLED "}}",
                 "") "]"},
     "Elicitation completed: "},
    {"test_input_required_result_elicitation", NULL, {"[" NAME "]"}, "Hello, "},
    {"test_streaming_elicitation", NULL, {"[" NAME "]"}, "Hello, "},
    {"test_input_required_result_sampling",
     NULL,
     {"[" SAMPLE("capital_question", "What is the capital of France?", "100") "]"},
     ""},
    {"test_input_required_result_list_roots", NULL, {"[" ROOTS "]"}, ""},
    {"test_input_required_result_request_state", NULL, {"[" OK_BOX "]"}, "state-ok "},
    {"test_input_required_result_tampered_state", NULL, {"[" OK_BOX "]"}, "state-ok "},
    {"test_input_required_result_multiple_inputs",
     NULL,
     {"[" NAME "," SAMPLE("greeting", "Generate a greeting", "50") "," ROOTS "]"},
     ""},
    {"test_input_required_result_multi_round",
     NULL,
     {"[" ELICIT("step1", "Step 1: What is your name?", TEXT("name"), "\"name\"") "]",
      "[" ELICIT("step2", "Step 2: What is your favorite color?", TEXT("color"), "\"color\"") "]"},
     ""},
    {"test_input_required_result_capabilities", NULL, {"[" NAME "," SAMPLE("greeting", "Hello?", "50") "]"}, ""},
    {"test_missing_capability", NULL, {"[" SAMPLE("greeting", "Hello?", "50") "]"}, ""},
    {"confirm_delete", NULL, {"[" CONFIRM("confirm") "]"}, ""},
    {"multi_input", NULL, {"[" CONFIRM("first") "," CONFIRM("second") "]"}, ""},
    {"test_tool_with_task", NULL, {"[" NAME "]"}, "Hello, "},
};

/** One call of an asker. */
typedef struct asked {
  const asker *of;
  tp_mcp_call *call;
  tp_token token; /* bits 0: of a prompt */
  int round;
} asked;

static void ask_round(asked *a);

/** The end of a call that is a task by then. */
typedef struct late_end {
  tp_token token;
  char text[4096];
} late_end;

static void *end_late(void *ctx) {
  late_end *late = ctx;
  poll(NULL, 0, JOB_MS);
  (void)!tp_tool_complete(late->token, false, tp_text_of(late->text), NULL);
  free(late);
  return NULL;
}

static void begin_late_end(const asked *a, const char *text) {
  pthread_t thread;
  late_end *late = calloc(1, sizeof *late);
  late->token = a->token;
  snprintf(late->text, sizeof late->text, "%s", text);
  if (pthread_create(&thread, NULL, end_late, late) == 0) pthread_detach(thread);
}

static void end_asked(asked *a, bool is_error, const char *text) {
  if (strcmp(a->of->name, "test_tool_with_task") == 0 && !is_error) {
    begin_late_end(a, text);
    free(a);
    return;
  }
  (void)!tp_tool_complete(a->token, is_error, tp_text_of(text), NULL);
  free(a);
}

static void take_answers(void *ctx, tp_text answers) {
  asked *a = ctx;
  char text[4096] = "", all[4096];
  if (answers.size == 0) {
    end_asked(a, true, "the client did not answer");
    return;
  }
  a->round++;
  if (a->of->rounds[a->round]) {
    ask_round(a);
    return;
  }
  put_json(text, sizeof text, answers);
  snprintf(all, sizeof all, "%s%.4000s", a->of->text, text);
  end_asked(a, false, all);
}

/* Asks for everything that the client supports; if it supports nothing, that is the protocol's error. */
static void ask_round(asked *a) {
  tp_text round = json(a->of->rounds[a->round]);
  tp_mcp_input inputs[4];
  const tp_mcp_input *pointers[4] = {&inputs[0], &inputs[1], &inputs[2], &inputs[3]};
  tp_value_walk walk = {0};
  size_t count = 0;
  const char *missing = NULL;
  while (tp_value_next(round, &walk)) {
    const char *method = strndup(tp_value_text(tp_value_get(walk.value, "method")).data,
                                 tp_value_text(tp_value_get(walk.value, "method")).size);
    tp_text key = tp_value_text(tp_value_get(walk.value, "key"));
    const char *capability = method[0] == 'e' ? "elicitation" : method[0] == 's' ? "sampling" : "roots";
    if (!tp_mcp_call_can(a->call, capability)) {
      missing = capability;
      continue;
    }
    inputs[count++] = (tp_mcp_input){.struct_size = sizeof *inputs,
                                     .key = strndup(key.data, key.size),
                                     .method = method,
                                     .params = tp_value_get(walk.value, "params")};
  }
  tp_fault fault = {0};
  if (count > 0 && tp_mcp_call_ask(a->call, pointers, count, take_answers, a, &fault) == TP_OK) return;
  if (count == 0) {
    char data[80];
    snprintf(data, sizeof data, "{\"requiredCapabilities\":{\"%s\":{}}}", missing);
    tp_mcp_call_fail(a->call, -32021, "the client lacks a capability", json(data));
  }
  end_asked(a, true, fault.message[0] ? fault.message : "the client cannot be asked");
}

static tp_answer run_asker(void *ctx, tp_tool_run *run) {
  asked *a = calloc(1, sizeof *a);
  a->of = ctx;
  a->call = tp_mcp_call_of(run);
  if (strcmp(a->of->name, "confirm_delete") == 0 || strcmp(a->of->name, "multi_input") == 0) sleep_ms(run, JOB_MS);
  const tp_deferral deferral = {.struct_size = sizeof deferral};
  tp_answer answer = tp_tool_defer(run, &deferral, &a->token);
  if (a->token.bits != 0) ask_round(a);
  return answer;
}

/* ---- all tools ---- */

static const struct {
  const char *name;
  tp_tool_fn run;
} simple[] = {
    {"test_simple_text", run_simple},
    {"test_image_content", run_simple},
    {"test_audio_content", run_simple},
    {"test_embedded_resource", run_simple},
    {"test_multiple_content_types", run_simple},
    {"test_error_handling", run_simple},
    {"test_tool_with_logging", run_slow},
    {"test_logging_tool", run_slow},
    {"test_tool_with_progress", run_slow},
    {"test_trigger_tool_change", run_trigger},
    {"test_trigger_prompt_change", run_trigger},
    {"greet", run_job},
    {"slow_compute", run_job},
    {"failing_job", run_job},
    {"protocol_error_job", run_job},
};
enum { SIMPLE = sizeof simple / sizeof *simple, ASKERS = sizeof askers / sizeof *askers };

static const char header_schema[] =
    "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"},"
    "\"text\":{\"type\":\"string\"}},\"required\":[\"region\"]}";
static const char draft_schema[] =
    "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\",\"$defs\":{\"address\":{"
    "\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},\"city\":{"
    "\"type\":"
    "\"string\"}}}},\"properties\":{\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"},"
    "\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},\"phone\":{\"type\":\"string\"},"
    "\"email\":{\"type\":\"string\"}},\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],"
    "\"if\":{\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},\"required\":[\"contactMethod\"]},"
    "\"then\":{\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]},\"additionalProperties\":false}";

static tp_tool tools[SIMPLE + ASKERS + 3];
static size_t tool_count;

static void add_tool(const char *name, tp_tool_fn run, const void *ctx, const char *schema) {
  tools[tool_count++] = (tp_tool){.struct_size = sizeof *tools,
                                  .name = name,
                                  .description = "A tool of the conformance kit",
                                  .run = run,
                                  .ctx = (void *)(uintptr_t)ctx,
                                  .placement = TP_PLACEMENT_THREAD,
                                  .schema_json = schema};
}

static int tool_round; /* a tool more with every other change */

static tp_answer run_trigger(void *ctx, tp_tool_run *run) {
  const char *name = ctx;
  if (strstr(name, "prompt")) {
    (void)!tp_mcp_server_set_list(server, TP_MCP_LIST_PROMPTS, json(prompts), NULL);
  } else {
    __atomic_add_fetch(&tool_round, 1, __ATOMIC_SEQ_CST);
    tp_mcp_server_tools_changed(server);
  }
  return tp_tool_ok(run, tp_text_of("changed"));
}

static tp_answer bundle_tools(void *self, tp_call *call) {
  const tp_tool *pointers[SIMPLE + ASKERS + 3];
  size_t count = tool_count - (__atomic_load_n(&tool_round, __ATOMIC_SEQ_CST) % 2 == 0);
  (void)self;
  for (size_t i = 0; i < count; i++) pointers[i] = &tools[i];
  (void)!tp_call_emit_tool_bundle(call, "fixture", pointers, count, NULL);
  return TP_ANSWER_DONE;
}

/* ---- prompts, resources, completions ---- */

static void prompt_asked(void *ctx, tp_text answers) {
  char text[1024] = "", result[2048];
  put_json(text, sizeof text, answers);
  for (char *c = text; *c; c++)
    if (*c == '"' || *c == '\\') *c = '\'';
  snprintf(result, sizeof result,
           "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"With %s\"}}]}", text);
  tp_mcp_call_answer(ctx, json(result));
}

static void get_prompt(void *ctx, tp_mcp_call *call, tp_text name, tp_text arguments) {
  char text[2048], words[64];
  tp_text first = tp_value_text(tp_value_get(arguments, "arg1")),
          second = tp_value_text(tp_value_get(arguments, "arg2"));
  tp_text uri = tp_value_text(tp_value_get(arguments, "resourceUri"));
  (void)ctx;
  snprintf(words, sizeof words, "%.*s", (int)name.size, name.data);
  if (strcmp(words, "test_input_required_result_prompt") == 0) {
    tp_mcp_input input = {
        .struct_size = sizeof input,
        .key = "user_context",
        .method = "elicitation/create",
        .params = json("{\"message\":\"What context?\",\"requestedSchema\":{\"type\":\"object\","
                       "\"properties\":{\"context\":{\"type\":\"string\"}},\"required\":[\"context\"]}}")};
    const tp_mcp_input *pointers[] = {&input};
    if (tp_mcp_call_ask(call, pointers, 1, prompt_asked, call, NULL) != TP_OK)
      tp_mcp_call_fail(call, -32021, "needs elicitation", json("{\"requiredCapabilities\":{\"elicitation\":{}}}"));
    return;
  }
  if (strcmp(words, "test_simple_prompt") == 0)
    snprintf(text, sizeof text, "{\"type\":\"text\",\"text\":\"This is a simple prompt for testing.\"}");
  else if (strcmp(words, "test_prompt_with_arguments") == 0)
    snprintf(text, sizeof text, "{\"type\":\"text\",\"text\":\"Prompt with arguments: arg1='%.*s', arg2='%.*s'\"}",
             (int)first.size, first.data, (int)second.size, second.data);
  else if (strcmp(words, "test_prompt_with_embedded_resource") == 0)
    snprintf(
        text, sizeof text,
        "{\"type\":\"resource\",\"resource\":{\"uri\":\"%.*s\",\"mimeType\":\"text/plain\",\"text\":\"Embedded.\"}}",
        (int)uri.size, uri.data);
  else if (strcmp(words, "test_prompt_with_image") == 0)
    snprintf(text, sizeof text, "{\"type\":\"image\",\"data\":\"iVBORw0KGgo=\",\"mimeType\":\"image/png\"}");
  else {
    tp_mcp_call_fail(call, -32602, "there is no such prompt", (tp_text){0});
    return;
  }
  char result[4096];
  snprintf(result, sizeof result, "{\"messages\":[{\"role\":\"user\",\"content\":%s}]}", text);
  tp_mcp_call_answer(call, json(result));
}

static void read_resource(void *ctx, tp_mcp_call *call, tp_text uri) {
  char name[256], result[1024];
  (void)ctx;
  snprintf(name, sizeof name, "%.*s", (int)uri.size, uri.data);
  const char *id = name + strlen("test://template/");
  if (strcmp(name, "test://static-text") == 0 || strcmp(name, "test://watched-resource") == 0)
    snprintf(result, sizeof result, "{\"uri\":\"%s\",\"mimeType\":\"text/plain\",\"text\":\"The content.\"}", name);
  else if (strcmp(name, "test://static-binary") == 0)
    snprintf(result, sizeof result, "{\"uri\":\"%s\",\"mimeType\":\"image/png\",\"blob\":\"iVBORw0KGgo=\"}", name);
  else if (strncmp(name, "test://template/", 16) == 0 && strstr(id, "/data"))
    snprintf(result, sizeof result,
             "{\"uri\":\"%s\",\"mimeType\":\"application/json\",\"text\":\"{\\\"id\\\":\\\"%.*s\\\"}\"}", name,
             (int)(strstr(id, "/data") - id), id);
  else {
    snprintf(result, sizeof result, "{\"uri\":\"%s\"}", name);
    tp_mcp_call_fail(call, -32602, "Resource not found", json(result));
    return;
  }
  char all[2048];
  snprintf(all, sizeof all, "{\"contents\":[%s]}", result);
  tp_mcp_call_answer(call, json(all));
}

static void complete(void *ctx, tp_mcp_call *call, tp_text params) {
  (void)ctx, (void)params;
  tp_mcp_call_answer(
      call, json("{\"completion\":{\"values\":[\"paris\",\"park\",\"party\"],\"total\":3,\"hasMore\":false}}"));
}

/* ---- the server ---- */

static void end_process(void *ctx) {
  int *pipes = ctx;
  (void)!write(pipes[1], "x", 1);
}

/* Mounts it in another server, as /mcp of turnphase serve. @return its port; 0: it did not start. */
static uint32_t mount(tp_runtime *runtime) {
#ifdef TP_WITH_SERVER
  const tp_server_options options = {.struct_size = sizeof options, .mount = tp_mcp_server_mount(server)};
  return tp_server_start(runtime, &options, &place, NULL) == TP_OK ? tp_server_port(place) : 0;
#else
  (void)runtime;
  return 0;
#endif
}

static void unmount(void) {
#ifdef TP_WITH_SERVER
  tp_server_free(place, 1000);
#endif
}

static int start(tp_runtime *runtime, int argc, char **argv, int *pipes) {
  bool is_http = argc > 2 && strcmp(argv[1], "http") == 0, is_mounted = argc > 2 && strcmp(argv[1], "mounted") == 0;
  const char *resources =
      "[{\"uri\":\"test://static-text\",\"name\":\"Static text\",\"mimeType\":\"text/plain\"},"
      "{\"uri\":\"test://static-binary\",\"name\":\"Static binary\",\"mimeType\":\"image/png\"},"
      "{\"uri\":\"test://watched-resource\",\"name\":\"Watched\",\"mimeType\":\"text/plain\"}]";
  const char *templates = "[{\"uriTemplate\":\"test://template/{id}/data\",\"name\":\"Template\"}]";
  tp_mcp_server_options options = {.struct_size = sizeof options,
                                   .name = "fixture",
                                   .stdio = !is_http && !is_mounted,
                                   .mounted = is_mounted,
                                   .input = 0,
                                   .output = 1,
                                   .http_address = is_http ? "127.0.0.1" : NULL,
                                   .http_port = is_http ? (uint32_t)strtoul(argv[2], NULL, 10) : 0,
                                   .get_prompt = get_prompt,
                                   .read_resource = read_resource,
                                   .complete = complete,
                                   .on_end = end_process,
                                   .ctx = pipes,
                                   .prompts = json(prompts),
                                   .resources = json(resources),
                                   .templates = json(templates),
                                   .task_after_ms = TASK_AFTER_MS};
  tp_fault fault = {0};
  if (tp_mcp_server_start(runtime, &options, &server, &fault) != TP_OK) {
    fprintf(stderr, "mcp_fixture: %s: %s\n", fault.subject, fault.message);
    return 1;
  }
  uint32_t port = is_mounted ? mount(runtime) : tp_mcp_server_port(server);
  if (is_http || is_mounted) printf("http://127.0.0.1:%u/mcp\n", port);
  fflush(stdout);
  return is_mounted && port == 0;
}

int main(int argc, char **argv) {
  int pipes[2];
  char byte;
  bool is_http = argc > 2 && (strcmp(argv[1], "http") == 0 || strcmp(argv[1], "mounted") == 0);
  tp_runtime *runtime;
  tp_runtime_options options = {.struct_size = sizeof options};
  for (size_t i = 0; i < SIMPLE; i++) add_tool(simple[i].name, simple[i].run, simple[i].name, NULL);
  for (size_t i = 0; i < ASKERS; i++) add_tool(askers[i].name, run_asker, &askers[i], askers[i].schema);
  add_tool("json_schema_2020_12_tool", run_simple, "json_schema_2020_12_tool", draft_schema);
  add_tool("test_header_region", run_simple, "test_header_region", header_schema);
  add_tool("test_dynamic", run_simple, "test_dynamic", NULL);
  if (pipe(pipes) != 0 || tp_runtime_new(&options, &runtime, NULL) != TP_OK) return 1;
  const tp_hook hook = {.struct_size = sizeof hook, .phase = "turn.pre_tool_materialization", .run = bundle_tools};
  if (tp_hook_add(runtime, &hook, NULL) != TP_OK) return 1;
  if (start(runtime, argc, argv, pipes) != 0) return 1;
  (void)!read(is_http ? 0 : pipes[0], &byte, 1);
  unmount();
  tp_mcp_server_free(server, 1000);
  tp_runtime_free(runtime);
  return 0;
}
