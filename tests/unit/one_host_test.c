/* SPDX-License-Identifier: Apache-2.0
 *
 * The two modes of seed 000. The daemon: one runtime with the six named sub-hooks of its composite, each an owner of
 * its own (skill, memory, mcp, os, delegate, ask_user), agents that may use some of their tools, and listeners that
 * receive every event. Embedded: a runtime without any handler. */
#include <sys/stat.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/json_value.h"
#include "tests/support/leftovers.h"
#include "tests/support/model.h"
#include "turnphase/files.h"
#include "turnphase/mcp.h"
#include "turnphase/memory.h"
#include "turnphase/skills.h"

enum { CALLS = 5, SEEN_SIZE = 4096 };

typedef struct host {
  tp_runtime *runtime;
  tp_agent *lead, *researcher;
  recorder *of_lead, *of_researcher;
  tp_writer *writers[CALLS];
  latch asked;
  tp_token question;
  pthread_mutex_t mutex;
  char results[SEEN_SIZE]; /* under mutex: AGENT TOOL=KIND, in the order of their ends */
  _Atomic int events_of_lead, events_of_researcher, jobs;
} host;

/* ---- the two that are the host's own ---- */

/* A turn of another agent in a session of its own. */
static tp_answer delegate(void *ctx, tp_tool_run *run) {
  host *h = ctx;
  const char *name = tp_tool_run_string(run, "agent");
  tp_agent *agent = tp_agent_find(h->runtime, name);
  tp_session *session = NULL;
  tp_fault fault = {0};
  if (!agent) return tp_tool_error(run, tp_text_of("there is no such agent"));
  const tp_session_options options = {.struct_size = sizeof options, .id = "delegated", .agent = agent};
  tp_status status = tp_session_open(h->runtime, &options, &session, &fault);
  tp_agent_unref(agent);
  if (status != TP_OK) return tp_tool_error(run, tp_text_of(fault.message));
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(tp_tool_run_string(run, "task"))};
  const tp_turn_result *result = NULL;
  status = tp_tool_run_turn(run, session, &request, &result, &fault);
  tp_session_close(session, NULL, NULL);
  if (status != TP_OK) return tp_tool_error(run, tp_text_of(fault.message));
  tp_answer answer = tp_tool_ok(run, result->text);
  tp_turn_result_free(result);
  return answer;
}

/* It answers when the user does. */
static tp_answer ask_user(void *ctx, tp_tool_run *run) {
  host *h = ctx;
  const tp_deferral deferral = {.struct_size = sizeof deferral};
  tp_answer answer = tp_tool_defer(run, &deferral, &h->question);
  latch_hit(&h->asked);
  return answer;
}

static void *play_user(void *ctx) {
  host *h = ctx;
  latch_wait(&h->asked, 1);
  (void)!tp_tool_complete(h->question, false, tp_text_of("Yes, one."), NULL);
  return NULL;
}

static tp_answer give_delegate(void *ctx, tp_call *tp) {
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = "delegate",
                        .description = "Gives a task to another agent.",
                        .schema_json =
                            "{\"type\":\"object\",\"properties\":{\"agent\":{\"type\":\"string\"},"
                            "\"task\":{\"type\":\"string\"}},\"required\":[\"agent\",\"task\"]}",
                        .run = delegate,
                        .ctx = ctx};
  const tp_tool *const list[] = {&tool};
  return tp_call_emit_tool_bundle(tp, "delegate", list, 1, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

static tp_answer give_ask_user(void *ctx, tp_call *tp) {
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = "ask_user",
                        .description = "Asks the user.",
                        .run = ask_user,
                        .ctx = ctx,
                        .placement = TP_PLACEMENT_INLINE};
  const tp_tool *const list[] = {&tool};
  return tp_call_emit_tool_bundle(tp, "ask_user", list, 1, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

/* ---- registration: an owner for each ---- */

static tp_edit *begin_edit(host *h, const char *name, tp_trust trust) {
  const tp_owner owner = {.struct_size = sizeof owner, .name = name, .trust = trust};
  tp_edit *edit = NULL;
  tp_fault fault = {0};
  if (tp_edit_begin(h->runtime, &owner, &edit, &fault) != TP_OK) fail_msg("%s: %s", name, fault.message);
  return edit;
}

static void commit(tp_edit *edit, tp_status registered, const tp_fault *why) {
  tp_fault fault = {0};
  if (registered != TP_OK) fail_msg("%s", why->message);
  if (tp_edit_commit(edit, NULL, &fault) != TP_OK) fail_msg("%s", fault.message);
}

static void write_file(const char *name, const char *text) {
  char file[256];
  snprintf(file, sizeof file, "%s/%s", directory, name);
  FILE *out = fopen(file, "w");
  assert_non_null(out);
  assert_true(fputs(text, out) >= 0);
  assert_int_equal(fclose(out), 0);
}

static void register_all(host *h) {
  char skills[128];
  tp_fault fault = {0};
  snprintf(skills, sizeof skills, "%s/skills", directory);
  assert_int_equal(mkdir(skills, 0700), 0);
  write_file("skills/order.md", "---\ndescription: Orders things\n---\nAsk before you order.\n");
  write_file("trees.txt", "A walnut tree has up to 30 metres.\n");
  const tp_skills_options of_skills = {.struct_size = sizeof of_skills, .directory = skills};
  const tp_files_options of_files = {
      .struct_size = sizeof of_files, .root = directory, .writes = TP_FILES_WRITES_ALLOW};
  const char *const program[] = {getenv("TURNPHASE_MCP_SERVER"), NULL}, *const environment[] = {marker, NULL};
  const tp_mcp_options of_mcp = {
      .struct_size = sizeof of_mcp, .name = "s", .arguments = program, .environment = environment};
  const hook own[] = {
      {.id = "delegate", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .run = give_delegate, .ctx = h},
      {.id = "ask_user", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .run = give_ask_user, .ctx = h}};
  assert_non_null(program[0]);
  tp_edit *edit = begin_edit(h, "skill", TP_TRUST_HOST);
  commit(edit, tp_skills_register(edit, &of_skills, &fault), &fault);
  edit = begin_edit(h, "memory", TP_TRUST_BUILTIN);
  commit(edit, tp_memory_register(edit, NULL, &fault), &fault);
  edit = begin_edit(h, "os", TP_TRUST_HOST);
  commit(edit, tp_files_register(edit, &of_files, &fault), &fault);
  for (size_t i = 0; i < COUNT(own); i++) {
    edit = begin_edit(h, own[i].id, TP_TRUST_HOST);
    commit(edit, hook_add(edit, &own[i]), &fault);
  }
  if (tp_mcp_add(h->runtime, &of_mcp, &fault) != TP_OK) fail_msg("%s", fault.message);
}

/* ---- what happens ---- */

static void hear(void *ctx, const tp_event *event) {
  host *h = ctx;
  tp_text agent = event->ids[TP_ID_AGENT];
  if (tp_text_is(agent, "lead")) h->events_of_lead++;
  if (tp_text_is(agent, "researcher")) h->events_of_researcher++;
  if (event->kind != TP_EVENT_TOOL_END) return;
  pthread_mutex_lock(&h->mutex);
  size_t used = strlen(h->results);
  snprintf(h->results + used, sizeof h->results - used, "%.*s %.*s=%s\n", (int)agent.size, agent.data,
           (int)event->tool_result->name.size, event->tool_result->name.data,
           tp_tool_result_name(event->tool_result->kind));
  pthread_mutex_unlock(&h->mutex);
}

static tp_tool_call call_of(tp_writer *writer, const char *id, const char *tool, const char *arguments) {
  return (tp_tool_call){.id = tp_text_of(id), .name = tp_text_of(tool), .arguments = json_value(writer, arguments)};
}

static tp_agent *add_agent(host *h, const char *id, const tp_model *model, const char *extra) {
  tp_writer *writer = NULL;
  tp_agent *agent = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  const tp_agent_config config = {
      .struct_size = sizeof config, .id = id, .model = model, .extra = json_value(writer, extra)};
  if (tp_agent_add(h->runtime, &config, &agent, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_writer_free(writer);
  return agent;
}

static void say(host *h, const char *session_id, const char *text, const char *answer) {
  tp_session *session = NULL;
  const tp_session_options options = {.struct_size = sizeof options, .id = session_id, .agent = h->lead};
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  const tp_turn_result *result = NULL;
  tp_fault fault = {0};
  if (tp_session_open(h->runtime, &options, &session, &fault) != TP_OK) fail_msg("%s", fault.message);
  if (tp_turn_run(session, &request, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
  if (result->outcome != TP_TURN_COMPLETED) fail_msg("%.*s", (int)result->reason.size, result->reason.data);
  assert_true(tp_text_is(result->text, answer));
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
}

static void expect(const char *text, const char *words) {
  if (!strstr(text, words)) fail_msg("no \"%s\" in: %s", words, text);
}

static void expect_order(const char *text, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const char *found = strstr(text, words[i]);
    if (!found) fail_msg("no \"%s\", or not in its place, in: %s", words[i], text);
    else text = found + strlen(words[i]);
  }
}

TEST_WITH(one_host_has_skill_memory_mcp_os_delegate_and_ask_user, make_directory, remove_directory) {
  host h = {.asked = LATCH, .mutex = PTHREAD_MUTEX_INITIALIZER};
  pthread_t user;
  (void)state;
  snprintf(marker, sizeof marker, "MCP_MARKER=%d-%lld", (int)getpid(), (long long)now_ns());
  for (size_t i = 0; i < CALLS; i++) assert_int_equal(tp_writer_new(NULL, &h.writers[i]), TP_OK);
  const reply of_lead[] = {
      {.calls = {call_of(h.writers[0], "c1", "memory_remember", "{'text': 'Papa likes walnuts.'}"),
                 call_of(h.writers[1], "c2", "mcp__s__echo", "{'text': 'from the server'}"),
                 call_of(h.writers[2], "c3", "delegate", "{'agent': 'researcher', 'task': 'How tall are they?'}"),
                 {.id = TEXT("c4"), .name = TEXT("ask_user"), .arguments = no_arguments}},
       .call_count = 4},
      {.text = "It is ordered."},
      {.text = "He likes walnuts."}};
  const reply of_researcher[] = {{.calls = {call_of(h.writers[3], "r1", "files_read", "{'path': 'trees.txt'}"),
                                            call_of(h.writers[4], "r2", "mcp__s__echo", "{'text': 'no'}"),
                                            {.id = TEXT("r3"), .name = TEXT("ask_user"), .arguments = no_arguments}},
                                  .call_count = 3},
                                 {.text = "Up to 30 metres."}};
  h.of_lead = recorder_new(of_lead, COUNT(of_lead));
  h.of_researcher = recorder_new(of_researcher, COUNT(of_researcher));
  h.runtime = open_runtime(NULL);
  register_all(&h);
  const tp_listener listener = {.struct_size = sizeof listener, .on_event = hear, .ctx = &h};
  assert_int_equal(tp_runtime_listen(h.runtime, &listener, NULL, NULL), TP_OK);
  h.lead = add_agent(&h, "lead", recorder_model(h.of_lead, false), "{'resources': {'mcp_servers': ['s']}}");
  h.researcher =
      add_agent(&h, "researcher", recorder_model(h.of_researcher, false), "{'tools': ['files_read', 'files_list']}");
  assert_int_equal(pthread_create(&user, NULL, play_user, &h), 0);
  say(&h, "one", "/order a walnut tree", "It is ordered.");
  assert_int_equal(pthread_join(user, NULL), 0);
  /* skill: the command was replaced by its text; the lead may use all tools, and reads every result in call order */
  expect(h.of_lead->requests[0], "Ask before you order.");
  expect(h.of_lead->requests[0], "a walnut tree");
  static const char *const in_order[] = {"T<",        "=<c1>", "from the server", "=<c2>", "Up to 30 metres.", "=<c3>",
                                         "Yes, one.", "=<c4>"};
  expect_order(h.of_lead->requests[1], in_order, COUNT(in_order));
  /* the researcher has its scope: tools outside of it were not shown, and do not run */
  assert_int_equal(h.of_researcher->tool_counts[0], 2);
  expect(h.of_researcher->requests[0], "files_read");
  expect(h.of_researcher->requests[1], "A walnut tree has up to 30 metres.");
  static const char *const ended[] = {
      "researcher files_read=ok\n",
      "researcher mcp__s__echo=out_of_scope\n",
      "researcher ask_user=out_of_scope\n",
      "lead memory_remember=ok\n",
      "lead mcp__s__echo=ok\n",
      "lead delegate=ok\n",
      "lead ask_user=ok\n",
  };
  pthread_mutex_lock(&h.mutex);
  for (size_t i = 0; i < COUNT(ended); i++) expect(h.results, ended[i]);
  pthread_mutex_unlock(&h.mutex);
  assert_true(h.events_of_lead > 0 && h.events_of_researcher > 0); /* every event is broadcast */
  /* memory: another session recalls it */
  say(&h, "two", "What does Papa like, walnuts?", "He likes walnuts.");
  expect(h.of_lead->requests[2], "<prompt-context>");
  expect(h.of_lead->requests[2], "Papa likes walnuts.");
  assert_int_equal(latch_count(&h.asked), 1); /* the researcher's call of it was not run */
  tp_agent_remove(h.researcher);
  tp_agent_remove(h.lead);
  close_runtime(h.runtime);
  assert_int_equal(processes_left(), 0);
  for (size_t i = 0; i < CALLS; i++) tp_writer_free(h.writers[i]);
  recorder_free(h.of_lead);
  recorder_free(h.of_researcher);
}

TEST(embedded_use_has_no_handler) {
  static const reply says[] = {{.text = "Hello!"}};
  recorder *r = recorder_new(says, 1);
  tp_runtime *runtime = open_runtime(NULL);
  tp_session *session = NULL;
  const tp_turn_result *result = NULL;
  size_t tools = 1;
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = recorder_model(r, true)};
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("Hello?")};
  (void)state;
  assert_int_equal(tp_runtime_tools(runtime, NULL, NULL, &tools, NULL), TP_OK);
  assert_int_equal(tools, 0);
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_true(tp_text_is(result->text, "Hello!"));
  assert_string_equal(r->requests[0], "S<>U<Hello?>");
  assert_int_equal(r->tool_counts[0], 0);
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(r);
}
