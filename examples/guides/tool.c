/* SPDX-License-Identifier: Apache-2.0
 *
 * The example of docs/guides/tool.md: a tool with arguments, a schema and a key. */
#include <stdio.h>
#include <string.h>

#include <turnphase/turnphase.h>

/* A tp_text of a literal. Those below that begin with an escape are values (msgpack). */
#define TEXT(literal) \
  { literal, sizeof literal - 1 }

/* ---- the tool ---- */

static tp_answer forecast(void *ctx, tp_tool_run *run) {
  (void)ctx;
  tp_text arguments = tp_tool_run_arguments(run);
  tp_text city = tp_value_text(tp_value_get(arguments, "city"));
  int64_t days = tp_value_int(tp_value_get(arguments, "days"), 1);
  char text[128];
  if (city.size == 0 || city.size > 64) return tp_tool_error(run, tp_text_of("city must have 1 to 64 bytes"));
  int size = snprintf(text, sizeof text, "%.*s: rain for %d days", (int)city.size, city.data, (int)days);
  return tp_tool_ok(run, (tp_text){text, (size_t)size});
}

/* {"type": "object", "properties": {"city": …, "days": …}, "required": ["city"]} */
static tp_status write_schema(tp_writer *writer, tp_text *ret_schema) {
  tp_write_map(writer, 3);
  tp_write_string(writer, "type"), tp_write_string(writer, "object");
  tp_write_string(writer, "properties"), tp_write_map(writer, 2);
  tp_write_string(writer, "city"), tp_write_map(writer, 1);
  tp_write_string(writer, "type"), tp_write_string(writer, "string");
  tp_write_string(writer, "days"), tp_write_map(writer, 3);
  tp_write_string(writer, "type"), tp_write_string(writer, "integer");
  tp_write_string(writer, "minimum"), tp_write_int(writer, 1);
  tp_write_string(writer, "maximum"), tp_write_int(writer, 7);
  tp_write_string(writer, "required"), tp_write_array(writer, 1), tp_write_string(writer, "city");
  return tp_writer_finish(writer, ret_schema);
}

static tp_answer contribute(void *ctx, tp_call *call) {
  const tp_tool *tools[] = {ctx};
  tp_status status = tp_call_emit_tool_bundle(call, "weather", tools, 1, NULL);
  return status == TP_OK ? TP_ANSWER_DONE : tp_call_fail(call, (uint32_t)status, tp_status_text(status));
}

/* ---- the host: its model is a script, which calls the tool once in each response ---- */

static const tp_tool_call calls[] = {
    {.struct_size = sizeof(tp_tool_call),
     .name = TEXT("forecast"),
     .arguments = TEXT("\202\244city\244Oslo\244days\002")},
    {.struct_size = sizeof(tp_tool_call), .name = TEXT("forecast"), .arguments = TEXT("\201\244days\002")},
    {.struct_size = sizeof(tp_tool_call),
     .name = TEXT("forecast"),
     .arguments = TEXT("\202\244city\244Oslo\244days\036")},
    {.struct_size = sizeof(tp_tool_call), .name = TEXT("forecast"), .arguments = TEXT("\201\244city\240")},
    {.struct_size = sizeof(tp_tool_call),
     .name = TEXT("forecast"),
     .arguments = TEXT("{\"city\": "),
     .malformed = true},
    {.struct_size = sizeof(tp_tool_call), .name = TEXT("tides")}};
enum { CALL_COUNT = sizeof calls / sizeof calls[0] };

static tp_status make_model(tp_model **ret_model, tp_fault *fault) {
  const tp_tool_call *call_of[CALL_COUNT];
  tp_model_response responses[CALL_COUNT + 1];
  const tp_model_response *script[CALL_COUNT + 1];
  for (int i = 0; i <= CALL_COUNT; i++) {
    responses[i] = (tp_model_response){.struct_size = sizeof responses[i], .text = TEXT("Take an umbrella.")};
    script[i] = &responses[i];
    if (i == CALL_COUNT) break;
    call_of[i] = &calls[i];
    responses[i].text = (tp_text){0};
    responses[i].calls = &call_of[i];
    responses[i].call_count = 1;
  }
  return tp_script_model_new(script, CALL_COUNT + 1, true, ret_model, fault);
}

static void show(void *ctx, const tp_event *event) {
  (void)ctx;
  if (event->kind != TP_EVENT_TOOL_END) return;
  const tp_tool_result *result = event->tool_result;
  printf("%s: %.*s\n", tp_tool_result_name(result->kind), (int)result->text.size, result->text.data);
}

static bool run_turn(tp_session *session, tp_fault *fault) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("Do I need an umbrella?")};
  const tp_turn_result *result;
  if (tp_turn_run(session, &request, &result, fault) != TP_OK) return false;
  tp_text end = result->outcome == TP_TURN_COMPLETED ? result->text : result->reason;
  printf("turn %s: %.*s\n", tp_turn_outcome_name(result->outcome), (int)end.size, end.data);
  tp_turn_result_free(result);
  return true;
}

int main(void) {
  tp_tool tool = {.struct_size = sizeof tool,
                  .name = "forecast",
                  .description = "The weather of the next days.",
                  .run = forecast,
                  .limit_ms = 2000,
                  .idempotent = true,
                  .read_key = "weather"};
  const tp_hook hook = {.struct_size = sizeof hook,
                        .id = "weather",
                        .phase = "turn.pre_tool_materialization",
                        .run = contribute,
                        .ctx = &tool,
                        .placement = TP_PLACEMENT_INLINE};
  const tp_tool unchecked = {
      .struct_size = sizeof unchecked, .name = "unchecked", .schema = TEXT("\201\251minLength\001"), .run = forecast};
  const tp_hook broken = {.struct_size = sizeof broken,
                          .id = "broken",
                          .phase = "turn.pre_tool_materialization",
                          .run = contribute,
                          .ctx = (void *)&unchecked};
  tp_session_options options = {.struct_size = sizeof options, .id = "first", .on_event = show};
  tp_writer *writer = NULL;
  tp_model *model = NULL;
  tp_runtime *runtime = NULL;
  tp_session *session = NULL;
  tp_fault fault = {.message = "no memory for the schema"};
  bool ok = tp_writer_new(NULL, &writer) == TP_OK && write_schema(writer, &tool.schema) == TP_OK &&
            make_model(&model, &fault) == TP_OK && tp_runtime_new(NULL, &runtime, &fault) == TP_OK &&
            tp_hook_add(runtime, &hook, &fault) == TP_OK;
  options.model = model;
  bool opened = ok && tp_session_open(runtime, &options, &session, &fault) == TP_OK;
  if (!opened) tp_model_free(model); /* no session has taken it */
  ok = opened && run_turn(session, &fault) && tp_hook_add(runtime, &broken, &fault) == TP_OK &&
       run_turn(session, &fault);
  if (!ok) fprintf(stderr, "%s\n", fault.message);
  tp_session_close(session, NULL, NULL);
  tp_runtime_free(runtime);
  tp_writer_free(writer);
  return ok ? 0 : 1;
}
