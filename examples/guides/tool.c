/* SPDX-License-Identifier: Apache-2.0
 *
 * The example of docs/guides/tool.md: a tool with arguments, a schema and a key. */
#include <stdio.h>

#include <turnphase/turnphase.h>

/* ---- the tool ---- */

static tp_answer forecast(void *ctx, tp_tool_run *run) {
  (void)ctx;
  tp_fault fault;
  tp_text city;
  int64_t days = 1;
  if (tp_tool_run_argument_text(run, "city", &city, &fault) != TP_OK)
    return tp_tool_error(run, tp_text_of(fault.message));
  if (tp_tool_run_argument_int(run, "days", &days, &fault) == TP_ERR_MALFORMED)
    return tp_tool_error(run, tp_text_of(fault.message));
  if (city.size == 0 || city.size > 64) return tp_tool_error(run, tp_text_of("city must have 1 to 64 bytes"));
  char text[128];
  int size = snprintf(text, sizeof text, "%.*s: rain for %d days", (int)city.size, city.data, (int)days);
  return tp_tool_ok(run, (tp_text){text, (size_t)size});
}

static tp_answer draw_map(void *ctx, tp_tool_run *run) {
  (void)ctx;
  const tp_part map = {.struct_size = sizeof map,
                       .kind = TP_PART_IMAGE,
                       .bytes = {"GIF87a\1\0\1\0\0\0\0", 13},
                       .media_type = tp_text_of("image/gif"),
                       .name = tp_text_of("rain.gif")};
  const tp_part *const parts[] = {&map};
  const tp_tool_answer answer = {.struct_size = sizeof answer,
                                 .text = tp_text_of("rain in the north"),
                                 .value = {"\x81\xa5north\xa4rain", 12}, /* {"north": "rain"} */
                                 .parts = parts,
                                 .part_count = 1};
  return tp_tool_answer_with(run, &answer, NULL);
}

static const char schema[] =
    "{\"type\": \"object\", \"required\": [\"city\"], \"properties\": {"
    "\"city\": {\"type\": \"string\"}, \"days\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 7}}}";

/* ---- the host: its model is a script, which calls the tool once in each response ---- */

enum { CALL_COUNT = 7 };
static const char arguments[] =
    "[{\"city\": \"Oslo\", \"days\": 2}, {\"days\": 2}, {\"city\": \"Oslo\", \"days\": 30}, {\"city\": \"\"}, {}, {}, "
    "{}]";

/* @param values  of the calls, in one list. */
static tp_status make_model(tp_text values, tp_model **ret_model, tp_fault *fault) {
  tp_tool_call calls[CALL_COUNT];
  const tp_tool_call *call_of[CALL_COUNT];
  tp_model_response responses[CALL_COUNT + 1];
  const tp_model_response *script[CALL_COUNT + 1];
  for (size_t i = 0; i < CALL_COUNT; i++) {
    calls[i] = (tp_tool_call){.struct_size = sizeof calls[i],
                              .name = tp_text_of(i < 5   ? "forecast"
                                                 : i < 6 ? "tides"
                                                         : "map"),
                              .arguments = tp_value_at(values, i)};
    call_of[i] = &calls[i];
    responses[i] = (tp_model_response){.struct_size = sizeof responses[i], .calls = &call_of[i], .call_count = 1};
    script[i] = &responses[i];
  }
  calls[4].malformed = true; /* what no provider could decode stays text */
  calls[4].arguments = tp_text_of("{\"city\": ");
  responses[CALL_COUNT] =
      (tp_model_response){.struct_size = sizeof *responses, .text = tp_text_of("Take an umbrella.")};
  script[CALL_COUNT] = &responses[CALL_COUNT];
  return tp_script_model_new(script, CALL_COUNT + 1, true, ret_model, fault);
}

/* A value of a JSON text; borrowed from the writer, which is to be freed. */
static bool value_of(const char *json, tp_writer **ret_writer, tp_text *ret_value, tp_fault *fault) {
  return tp_writer_new(NULL, ret_writer) == TP_OK && tp_json_decode(tp_text_of(json), *ret_writer, fault) == TP_OK &&
         tp_writer_finish(*ret_writer, ret_value) == TP_OK;
}

static void show(void *ctx, const tp_event *event) {
  (void)ctx;
  if (event->kind != TP_EVENT_TOOL_END) return;
  const tp_tool_result *result = event->tool_result;
  printf("%s: %.*s\n", tp_tool_result_name(result->kind), (int)result->text.size, result->text.data);
  for (tp_value_walk walk = {0}; tp_value_next(result->parts, &walk);) {
    tp_part part = {.struct_size = sizeof part};
    char line[128];
    if (tp_part_read(walk.value, &part, NULL) != TP_OK) continue;
    tp_part_describe(&part, line, sizeof line);
    printf("  with %s\n", line);
  }
}

static bool run_turn(tp_session *session, tp_fault *fault) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("Do I need an umbrella?")};
  const tp_turn_result *result;
  if (tp_turn_run(session, &request, &result, fault) != TP_OK) return false;
  tp_text end = result->outcome == TP_TURN_COMPLETED ? result->text : result->reason;
  printf("turn %s: %.*s\n", tp_turn_outcome_name(result->outcome), (int)end.size, end.data);
  tp_turn_result_free(result);
  return true;
}

/* A tool whose schema is malformed is refused. */
static void add_broken(tp_runtime *runtime) {
  const tp_tool misspelt = {
      .struct_size = sizeof misspelt, .name = "misspelt", .schema_json = "{\"required\": \"city\"}", .run = forecast};
  tp_fault fault = {0};
  tp_status status = tp_tool_add(runtime, &misspelt, &fault);
  printf("%s: %s\n", tp_status_name(status), fault.message);
}

int main(void) {
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = "forecast",
                        .description = "The weather of the next days.",
                        .schema_json = schema,
                        .run = forecast,
                        .limit_ms = 2000,
                        .idempotent = true,
                        .read_key = "weather"};
  const tp_tool map = {.struct_size = sizeof map, .name = "map", .run = draw_map};
  tp_session_options options = {.struct_size = sizeof options, .id = "first", .on_event = show};
  tp_writer *writer = NULL;
  tp_text calls;
  tp_model *model = NULL;
  tp_runtime *runtime = NULL;
  tp_session *session = NULL;
  tp_fault fault = {.message = "no memory for a value"};
  bool ok = value_of(arguments, &writer, &calls, &fault) && make_model(calls, &model, &fault) == TP_OK &&
            tp_runtime_new(NULL, &runtime, &fault) == TP_OK && tp_tool_add(runtime, &tool, &fault) == TP_OK &&
            tp_tool_add(runtime, &map, &fault) == TP_OK;
  options.model = model;
  bool opened = ok && tp_session_open(runtime, &options, &session, &fault) == TP_OK;
  if (!opened) tp_model_free(model); /* no session has taken it */
  ok = opened && run_turn(session, &fault);
  if (ok) add_broken(runtime);
  else fprintf(stderr, "%s\n", fault.message);
  tp_session_close(session, NULL, NULL);
  tp_runtime_free(runtime);
  tp_writer_free(writer);
  return ok ? 0 : 1;
}
