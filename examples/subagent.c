/* SPDX-License-Identifier: Apache-2.0
 *
 * A host with two agents: `lead` has a tool that gives a task to another agent, in a session of its own (a nested
 * turn), and one that asks the user. Its models are scripts; the user's answers come from standard input. */
#include <stdio.h>
#include <string.h>

#include "turnphase/turnphase.h"

typedef struct host {
  tp_runtime *runtime;
  tp_agent *lead, *researcher;
  tp_tool tools[2];
} host;

/* ---- the tools ---- */

static tp_answer refuse_call(tp_tool_run *run, const char *why) { return tp_tool_error(run, tp_text_of(why)); }

/* The subagent's session lives as long as its task. While it works this call occupies no handler thread. */
static tp_answer delegate(void *ctx, tp_tool_run *run) {
  host *h = ctx;
  tp_text name = tp_value_text(tp_value_get(tp_tool_run_arguments(run), "agent"));
  tp_text task = tp_value_text(tp_value_get(tp_tool_run_arguments(run), "task"));
  char agent_id[64], session_id[128];
  tp_fault fault;
  snprintf(agent_id, sizeof agent_id, "%.*s", (int)name.size, name.size ? name.data : "");
  snprintf(session_id, sizeof session_id, "%.*s-%s", (int)tp_tool_run_call_id(run).size, tp_tool_run_call_id(run).data,
           agent_id);
  tp_agent *agent = tp_agent_find(h->runtime, agent_id);
  if (!agent) return refuse_call(run, "there is no such agent");
  const tp_session_options options = {.struct_size = sizeof options, .id = session_id, .agent = agent};
  tp_session *session;
  tp_status status = tp_session_open(h->runtime, &options, &session, &fault);
  tp_agent_unref(agent);
  if (status != TP_OK) return refuse_call(run, fault.message);
  const tp_turn_request request = {.struct_size = sizeof request, .text = task};
  const tp_turn_result *result;
  status = tp_tool_run_turn(run, session, &request, &result, &fault);
  tp_session_close(session, NULL, NULL);
  if (status != TP_OK) return refuse_call(run, fault.message);
  bool completed = result->outcome == TP_TURN_COMPLETED;
  tp_answer answer = completed ? tp_tool_ok(run, result->text) : tp_tool_error(run, result->reason);
  tp_turn_result_free(result);
  return answer;
}

/* It may wait: it runs on a handler thread. A host with many users defers, and completes the token when one answers. */
static tp_answer ask_user(void *ctx, tp_tool_run *run) {
  (void)ctx;
  tp_text question = tp_value_text(tp_value_get(tp_tool_run_arguments(run), "question"));
  char line[256];
  printf("  ? %.*s ", (int)question.size, question.data);
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin)) return refuse_call(run, "the user is gone");
  line[strcspn(line, "\n")] = '\0';
  printf("%s\n", line);
  return tp_tool_ok(run, tp_text_of(line));
}

static tp_answer emit_tools(void *ctx, tp_call *call) {
  host *h = ctx;
  const tp_tool *tools[] = {&h->tools[0], &h->tools[1]};
  tp_status status = tp_call_emit_tool_bundle(call, "team", tools, 2, NULL);
  return status == TP_OK ? TP_ANSWER_DONE : tp_call_fail(call, (uint32_t)status, "no tools");
}

/* ---- what happens, turn by turn ---- */

static void show(void *ctx, const tp_event *event) {
  (void)ctx;
  tp_text agent = event->ids[TP_ID_AGENT], turn = event->parent_turn;
  switch (event->kind) {
    case TP_EVENT_TURN_BEGIN:
      printf("%.*s begins%s: %.*s\n", (int)agent.size, agent.data, turn.size ? ", for another turn" : "",
             (int)event->text.size, event->text.data);
      break;
    case TP_EVENT_TOOL_END:
      printf("  %.*s: %.*s\n", (int)event->tool_result->name.size, event->tool_result->name.data,
             (int)event->tool_result->text.size, event->tool_result->text.data);
      break;
    default:
      break;
  }
}

/* ---- the host ---- */

static int refuse(const tp_fault *fault) {
  fprintf(stderr, "%s\n", fault->message);
  return 1;
}

static tp_text arguments(tp_writer *writer, const char *const *pairs, size_t count) {
  tp_text value = {NULL, 0};
  tp_write_map(writer, count);
  for (size_t i = 0; i < 2 * count; i++) tp_write_string(writer, pairs[i]);
  if (tp_writer_finish(writer, &value) != TP_OK) fprintf(stderr, "no memory\n");
  return value;
}

static tp_status add_agent(host *h, const char *id, const tp_model *model, tp_agent **ret_agent, tp_fault *fault) {
  const tp_agent_config config = {.struct_size = sizeof config, .id = id, .model = model};
  return tp_agent_add(h->runtime, &config, ret_agent, fault);
}

static int play(host *h, tp_fault *fault) {
  static const char *const task[] = {"agent", "researcher", "task", "How tall is a walnut tree?"};
  static const char *const question[] = {"question", "Shall I order one?"};
  tp_writer *writers[2];
  tp_model *lead = NULL, *researcher = NULL;
  if (tp_writer_new(NULL, &writers[0]) != TP_OK || tp_writer_new(NULL, &writers[1]) != TP_OK) return 1;
  const tp_tool_call calls[] = {{.struct_size = sizeof(tp_tool_call),
                                 .id = tp_text_of("c1"),
                                 .name = tp_text_of("delegate"),
                                 .arguments = arguments(writers[0], task, 2)},
                                {.struct_size = sizeof(tp_tool_call),
                                 .id = tp_text_of("c2"),
                                 .name = tp_text_of("ask_user"),
                                 .arguments = arguments(writers[1], question, 1)}};
  const tp_tool_call *first[] = {&calls[0]}, *second[] = {&calls[1]};
  const tp_model_response says[] = {{.struct_size = sizeof(tp_model_response), .calls = first, .call_count = 1},
                                    {.struct_size = sizeof(tp_model_response), .calls = second, .call_count = 1},
                                    {.struct_size = sizeof(tp_model_response), .text = tp_text_of("It is ordered.")},
                                    {.struct_size = sizeof(tp_model_response), .text = tp_text_of("Up to 30 metres.")}};
  const tp_model_response *of_lead[] = {&says[0], &says[1], &says[2]}, *of_researcher[] = {&says[3]};
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("I want a walnut tree.")};
  const tp_turn_result *result = NULL;
  tp_session *session;
  tp_status status = tp_script_model_new(of_lead, 3, false, &lead, fault);
  if (status == TP_OK) status = tp_script_model_new(of_researcher, 1, false, &researcher, fault);
  if (status == TP_OK) status = add_agent(h, "researcher", researcher, &h->researcher, fault);
  if (status == TP_OK) status = add_agent(h, "lead", lead, &h->lead, fault);
  const tp_session_options options = {.struct_size = sizeof options, .id = "main", .agent = h->lead};
  if (status == TP_OK) status = tp_session_open(h->runtime, &options, &session, fault);
  if (status == TP_OK) {
    status = tp_turn_run(session, &request, &result, fault);
    tp_session_close(session, NULL, NULL);
  }
  if (!h->researcher) tp_model_free(researcher); /* no agent has taken it */
  if (!h->lead) tp_model_free(lead);
  if (status == TP_OK) printf("%.*s\n", (int)result->text.size, result->text.data);
  tp_turn_result_free(result);
  tp_writer_free(writers[0]);
  tp_writer_free(writers[1]);
  return status == TP_OK ? 0 : refuse(fault);
}

int main(void) {
  host h = {.runtime = NULL};
  tp_fault fault;
  h.tools[0] = (tp_tool){.struct_size = sizeof(tp_tool),
                         .name = "delegate",
                         .description = "gives a task to another agent and waits for what it says",
                         .run = delegate,
                         .ctx = &h};
  h.tools[1] = (tp_tool){.struct_size = sizeof(tp_tool),
                         .name = "ask_user",
                         .description = "asks the user a question",
                         .run = ask_user,
                         .ctx = &h};
  /* The researcher could give tasks on, four deep, if it had the tool. */
  const char *const agents[] = {"lead"};
  const tp_match only_lead = {.struct_size = sizeof only_lead, .agents = agents, .agent_count = 1};
  const tp_hook team = {.struct_size = sizeof team,
                        .phase = "turn.pre_tool_materialization",
                        .run = emit_tools,
                        .ctx = &h,
                        .placement = TP_PLACEMENT_INLINE,
                        .match = &only_lead};
  const tp_listener listener = {.struct_size = sizeof listener,
                                .on_event = show,
                                .kinds = UINT64_C(1) << TP_EVENT_TURN_BEGIN | UINT64_C(1) << TP_EVENT_TOOL_END};
  if (tp_runtime_new(NULL, &h.runtime, &fault) != TP_OK) return refuse(&fault);
  int failed = 1;
  if (tp_hook_add(h.runtime, &team, &fault) != TP_OK || tp_runtime_listen(h.runtime, &listener, NULL, &fault) != TP_OK)
    (void)refuse(&fault);
  else failed = play(&h, &fault);
  tp_agent_remove(h.lead);
  tp_agent_remove(h.researcher);
  tp_runtime_free(h.runtime);
  return failed;
}
