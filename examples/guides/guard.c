/* SPDX-License-Identifier: Apache-2.0
 *
 * The example of docs/guides/guard.md: a guard of a tool call, which reads an argument. */
#include <stdio.h>
#include <string.h>

#include <turnphase/turnphase.h>

/* ---- the tool ---- */

static tp_answer write_file(void *ctx, tp_tool_run *run) {
  (void)ctx;
  printf("the tool writes %s\n", tp_tool_run_string(run, "path"));
  return tp_tool_printf(run, "written");
}

/* ---- the guard ---- */

static tp_answer only_drafts(void *ctx, tp_call *call) {
  const char *folder = ctx;
  tp_text path;
  tp_fault fault;
  if (tp_value_get_text(tp_call_text(call, TP_FIELD_ARGUMENTS), "path", &path, &fault) != TP_OK)
    return tp_call_deny(call, fault.message); /* what it cannot read is not allowed */
  size_t size = strlen(folder);
  bool is_below = path.size > size && memcmp(path.data, folder, size) == 0;
  for (size_t i = 0; i + 1 < path.size; i++) is_below = is_below && memcmp(path.data + i, "..", 2) != 0;
  if (!is_below) return tp_call_deny(call, "only drafts are written");
  return TP_ANSWER_ALLOW;
}

/* ---- which calls were denied ---- */

static void show(void *ctx, const tp_event *event) {
  (void)ctx;
  const tp_tool_result *result = event->tool_result;
  printf("%.*s: %s: %.*s\n", (int)result->name.size, result->name.data, tp_tool_result_name(result->kind),
         (int)result->text.size, result->text.data);
}

/* ---- the host ---- */

static const char script[] =
    "{\"responses\": ["
    "{\"tool_calls\": [{\"name\": \"write_file\", \"arguments\": {\"path\": \"drafts/plan.txt\"}}]},"
    "{\"tool_calls\": [{\"name\": \"write_file\", \"arguments\": {\"path\": \"drafts/../prod.env\"}}]},"
    "{\"tool_calls\": [{\"name\": \"write_file\", \"arguments\": {\"file\": \"prod.env\"}}]},"
    "{\"text\": \"One file is written.\"}]}";

int main(void) {
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = "write_file",
                        .description = "Writes a file.",
                        .schema_json = "{\"type\": \"object\"}",
                        .run = write_file};
  const char *const tools[] = {"write_file"};
  const tp_match match = {.struct_size = sizeof match, .tools = tools, .tool_count = 1};
  const tp_hook guard = {.struct_size = sizeof guard,
                         .id = "only_drafts",
                         .phase = "tool.pre",
                         .run = only_drafts,
                         .ctx = (void *)"drafts/",
                         .match = &match,
                         .failure = TP_FAILURE_REQUIRED};
  const tp_listener listener = {.struct_size = sizeof listener, .on_event = show, .kinds = 1u << TP_EVENT_TOOL_END};
  char answer[1000];
  tp_runtime *runtime = NULL;
  tp_fault fault;
  int failed = tp_runtime_new(NULL, &runtime, &fault) || tp_tool_add(runtime, &tool, &fault) ||
               tp_hook_add(runtime, &guard, &fault) || tp_runtime_listen(runtime, &listener, NULL, &fault) ||
               tp_script_play(runtime, script, "Write the plan.", answer, sizeof answer, &fault);
  printf("%s\n", failed ? fault.message : answer);
  tp_runtime_free(runtime);
  return failed;
}
