/* SPDX-License-Identifier: Apache-2.0
 *
 * abilities.c: the answer of abilities_list. */
#include "domains/tasks/task_tools.h"
#include "support/text.h"
#include "turnphase/turn.h"

/** The tools of the turn that are listed. */
typedef struct listing {
  tp_text one; /* the name of the only tool to list; empty: all */
  tp_writer *writer;
  size_t count; /* first counts the tools that fit, then those that are written */
  bool writes;
} listing;

static void write_ability(tp_writer *writer, const tp_tool *tool, bool with_schema) {
  bool has_schema = with_schema && tool->schema.size > 0;
  tp_write_map(writer, has_schema ? 4 : 3);
  tp_write_string(writer, "ability_id");
  tp_write_string(writer, tool->name);
  tp_write_string(writer, "kind");
  tp_write_string(writer, tool->is_operation ? "operation_key" : "ability_id");
  tp_write_string(writer, "description");
  tp_write_string(writer, tool->description ? tool->description : "");
  if (!has_schema) return;
  tp_write_string(writer, "arguments");
  tp_write_value(writer, tool->schema);
}

static bool list_tool(void *ctx, const tp_tool_listing *shown) {
  listing *l = ctx;
  const tp_tool *tool = shown->tool;
  if (tp__tasks_is_own(tool->name) || (l->one.size > 0 && !tp__is_word(l->one, tool->name))) return true;
  if (l->writes) write_ability(l->writer, tool, l->one.size > 0);
  l->count++;
  return true;
}

static tp_status list_abilities(tp_tool_run *run, listing *l, tp_text *ret_json) {
  tp_text value;
  tp_status status = tp_tool_run_tools(run, list_tool, l, NULL, NULL);
  if (status != TP_OK) return status;
  tp_write_array(l->writer, l->count);
  l->writes = true;
  status = tp_tool_run_tools(run, list_tool, l, NULL, NULL);
  if (status == TP_OK) status = tp_writer_finish(l->writer, &value);
  return status == TP_OK ? tp_json_encode(value, l->writer, ret_json, NULL) : status;
}

tp_answer tp__abilities_list(void *ctx, tp_tool_run *run) {
  (void)ctx;
  listing l = {.one = tp_value_text(tp_value_get(tp_tool_run_arguments(run), "ability_id"))};
  tp_text json;
  tp_status status = tp_writer_new(NULL, &l.writer);
  if (status == TP_OK) status = list_abilities(run, &l, &json);
  tp_answer answer = status != TP_OK ? tp_tool_error(run, tp_text_of(tp_status_text(status))) : tp_tool_ok(run, json);
  tp_writer_free(l.writer);
  return answer;
}
