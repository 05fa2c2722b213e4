/* SPDX-License-Identifier: Apache-2.0
 *
 * A host with one thread: an epoll loop with one descriptor, that of an inbox, in which a whole agent runs. Its guard,
 * its tools, its model and its events come through the inbox, and so do the ends of what the host submits, and the
 * cancels of what it has taken. No function of this program is called by a thread of the library's, as it must be for
 * code of Node, Lua or Python.
 *
 *   the agent is added -> three turns in two sessions, one of which waits in the queue of its session, and one of which
 *   is cancelled -> a task, about which a person is asked -> the sessions are closed -> drain
 *
 * The model here answers at once, or never; one that asks a provider keeps the token of its request, and the loop goes
 * on. */
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "turnphase/turnphase.h"

typedef struct host {
  tp_runtime *runtime;
  tp_inbox *inbox;
  tp_agent *agent;
  tp_session *sessions[2];
  tp_submission *endless; /* the turn that is cancelled */
  int turns, open;        /* that have not ended, turns and sessions */
  bool drained, failed;
} host;

enum { TURNS = 3, SESSIONS = 2 };

/* ---- what is submitted: its end has the name as ctx ---- */

static void check(host *h, tp_status status, const char *what, const tp_fault *fault) {
  if (status == TP_OK) return;
  fprintf(stderr, "%s: %s\n", what, fault->message);
  h->failed = true;
}

static tp_end *new_end(host *h, const char *name) {
  tp_end *end = NULL;
  tp_fault fault = {0};
  check(h, tp_end_new(h->inbox, (void *)name, &end, &fault), name, &fault);
  return end;
}

static void submitted(host *h, tp_status status, tp_end *end, const char *name, const tp_fault *fault) {
  if (status != TP_OK) tp_end_free(end);
  check(h, status, name, fault);
}

static void add_agent(host *h) {
  const tp_model model = {.struct_size = sizeof model, .name = "rules", .inbox = h->inbox};
  const tp_agent_config config = {.struct_size = sizeof config, .id = "clerk", .model = &model};
  tp_end *end = new_end(h, "the agent");
  tp_fault fault = {0};
  submitted(h, tp_agent_add_submit(h->runtime, &config, tp_end_of_agent, end, &fault), end, "the agent", &fault);
}

static void submit_turn(host *h, tp_session *session, const char *text, const char *name, tp_submission **submission) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  tp_end *end = new_end(h, name);
  tp_fault fault = {0};
  submitted(h, tp_turn_submit(session, &request, tp_end_of_turn, end, submission, &fault), end, name, &fault);
}

/* Both sessions run their turns at once; the second turn of a session waits for the first. */
static void submit_turns(host *h) {
  static const char *const ids[SESSIONS] = {"first", "second"};
  tp_fault fault = {0};
  for (int i = 0; i < SESSIONS; i++) {
    const tp_session_options options = {.struct_size = sizeof options, .id = ids[i], .agent = h->agent};
    check(h, tp_session_open(h->runtime, &options, &h->sessions[i], &fault), ids[i], &fault);
  }
  if (h->failed) return;
  h->turns = TURNS;
  submit_turn(h, h->sessions[0], "Read the file, then delete it.", "the first turn", NULL);
  submit_turn(h, h->sessions[0], "Thank you.", "the queued turn", NULL);
  submit_turn(h, h->sessions[1], "Think for ever.", "the endless turn", &h->endless);
}

/* A task is a tool call without a conversation. It has a second end, for the question about it. */
static void submit_task(host *h) {
  tp_end *asked = new_end(h, "the task"), *end = new_end(h, "the task");
  const tp_task_spec spec = {
      .struct_size = sizeof spec, .tool = "send_mail", .on_asked = tp_end_of_task, .on_asked_ctx = asked};
  tp_fault fault = {0};
  tp_status status = tp_task_submit(h->runtime, TP_TASK_CALL, &spec, tp_end_of_task, end, NULL, &fault);
  submitted(h, status, end, "the task", &fault);
  if (status != TP_OK) tp_end_free(asked);
}

static void close_sessions(host *h) {
  h->open = SESSIONS;
  for (int i = 0; i < SESSIONS; i++) tp_session_close(h->sessions[i], tp_end_of_session, new_end(h, "a session"));
}

static void drain(host *h) {
  tp_end *end = new_end(h, "the drain");
  tp_fault fault = {0};
  submitted(h, tp_runtime_drain_submit(h->runtime, 1000, tp_end_of_drain, end, &fault), end, "the drain", &fault);
}

/* ---- what is asked: a handler, a tool or the model has the inbox in place of a function ---- */

static void guard(const tp_work *work) {
  tp_text tool = tp_call_text(work->call, TP_FIELD_TOOL);
  tp_outcome outcome = {.struct_size = sizeof outcome, .kind = TP_ANSWER_ALLOW};
  if (tp_text_is(tool, "delete_file")) {
    outcome.kind = TP_ANSWER_DENY;
    outcome.reason = "files are not deleted here";
  } else if (tp_text_is(tool, "send_mail")) {
    outcome.kind = TP_ANSWER_ASK;
    outcome.reason = "mail leaves the house";
  }
  printf("guard: %.*s\n", (int)tool.size, tool.data);
  (void)tp_token_complete(work->token, &outcome, NULL);
}

static void run_tool(const tp_work *work) {
  printf("tool: %s\n", (const char *)work->ctx);
  (void)tp_tool_complete(work->token, false, tp_text_of("done"), NULL);
}

static void ask_model(host *h, const tp_work *work) {
  const tp_tool_call reads = {.struct_size = sizeof reads, .name = tp_text_of("read_file")};
  const tp_tool_call deletes = {.struct_size = sizeof deletes, .name = tp_text_of("delete_file")};
  const tp_tool_call *const calls[] = {&reads, &deletes};
  const tp_message *last = work->request->messages[work->request->message_count - 1];
  tp_model_response response = {.struct_size = sizeof response};
  if (tp_text_is(last->text, "Think for ever.")) { /* its token is completed when the cancel comes */
    printf("model: thinks, until it is cancelled\n");
    tp_submission_cancel(h->endless);
    return;
  }
  if (tp_text_is(last->text, "Read the file, then delete it.")) {
    response.calls = calls;
    response.call_count = 2;
  } else {
    response.text = tp_text_of(last->role == TP_ROLE_TOOL ? "I have read it, and it is still there." : "Not at all.");
    (void)tp_model_delta(work->token, response.text, NULL);
  }
  (void)tp_model_complete(work->token, &response, NULL);
}

/* ---- what is said ---- */

static void show_event(const tp_event *event) {
  if (event->kind == TP_EVENT_MODEL_DELTA)
    printf("event: the model says: %.*s\n", (int)event->text.size, event->text.data);
  if (event->kind == TP_EVENT_TOOL_END)
    printf("event: %.*s has ended: %s\n", (int)event->tool_result->name.size, event->tool_result->name.data,
           tp_tool_result_name(event->tool_result->kind));
  if (event->kind == TP_EVENT_LOST) printf("event: %llu were lost\n", (unsigned long long)event->lost);
}

/* A person says yes; a real one is shown the question, and its token is kept until the answer. */
static void answer_question(host *h, const tp_question *question) {
  const tp_decision yes = {
      .struct_size = sizeof yes, .verdict = TP_VERDICT_ALLOW, .arguments_hash = question->arguments_hash};
  tp_fault fault = {0};
  printf("question: %.*s: %.*s\n", (int)question->call->name.size, question->call->name.data,
         (int)question->reason.size, question->reason.data);
  check(h, tp_question_answer(question->token, &yes, &fault), "the answer", &fault);
}

/* Each end begins what comes next. */
static void take_end(host *h, const tp_work *work) {
  const tp_work_end *end = work->end;
  const char *name = work->ctx;
  switch (end->kind) {
    case TP_END_AGENT:
      printf("end: %s: %s\n", name, tp_status_name(end->agent->status));
      check(h, end->agent->status, name, end->agent->fault);
      h->agent = end->agent->agent;
      if (!h->failed) submit_turns(h);
      break;
    case TP_END_TURN:
      printf("end: %s: %s\n", name, tp_turn_outcome_name(end->turn->outcome));
      if (--h->turns == 0) submit_task(h);
      break;
    case TP_END_TASK:
      if (end->task->asked) {
        answer_question(h, end->task->question);
        break;
      }
      printf("end: %s: %s\n", name, tp_tool_result_name(end->task->kind));
      close_sessions(h);
      break;
    case TP_END_SESSION:
      printf("end: %s\n", name);
      if (--h->open == 0) drain(h);
      break;
    case TP_END_DRAIN:
      printf("end: %s: %s\n", name, end->drain->complete ? "nothing is left running" : "something is left");
      h->drained = true;
      break;
    default:
      break;
  }
}

static void take(host *h, const tp_work *work) {
  switch (work->kind) {
    case TP_WORK_HANDLER:
      guard(work);
      return;
    case TP_WORK_TOOL:
      run_tool(work);
      return;
    case TP_WORK_MODEL:
      ask_model(h, work);
      return;
    case TP_WORK_EVENT:
      show_event(work->event);
      break;
    case TP_WORK_END:
      take_end(h, work);
      break;
    case TP_WORK_CANCEL:
      printf("cancel: the request to the model\n");
      (void)tp_token_abandon(work->token, NULL);
      break;
    default: /* a destroy; or of a newer library */
      break;
  }
  if (tp_work_release(work) != TP_OK) (void)tp_token_abandon(work->token, NULL);
}

/* ---- the loop ---- */

static void loop(host *h) {
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event waits = {.events = EPOLLIN, .data.fd = tp_inbox_fd(h->inbox)};
  epoll_ctl(epoll, EPOLL_CTL_ADD, waits.data.fd, &waits);
  while (!h->drained && !h->failed && epoll_wait(epoll, &waits, 1, -1) == 1) {
    const tp_work *work;
    while (tp_inbox_next(h->inbox, &work) == TP_OK && work) take(h, work);
  }
  close(epoll);
}

static tp_status subscribe(const host *h, tp_fault *fault) {
  static char *const tools[] = {"read_file", "delete_file", "send_mail"};
  const tp_hook guards = {.struct_size = sizeof guards, .id = "guard", .phase = "tool.pre", .inbox = h->inbox};
  const tp_listener listener = {.struct_size = sizeof listener,
                                .inbox = h->inbox,
                                .kinds = UINT64_C(1) << TP_EVENT_MODEL_DELTA | UINT64_C(1) << TP_EVENT_TOOL_END};
  tp_status status = tp_hook_add(h->runtime, &guards, fault);
  for (size_t i = 0; status == TP_OK && i < sizeof tools / sizeof *tools; i++) {
    const tp_tool tool = {.struct_size = sizeof tool, .name = tools[i], .ctx = tools[i], .inbox = h->inbox};
    status = tp_tool_add(h->runtime, &tool, fault);
  }
  return status == TP_OK ? tp_runtime_listen(h->runtime, &listener, NULL, fault) : status;
}

int main(void) {
  host h = {.runtime = NULL};
  tp_fault fault = {0};
  tp_status status = tp_runtime_new(NULL, &h.runtime, &fault);
  if (status == TP_OK) status = tp_inbox_new(h.runtime, NULL, &h.inbox, &fault);
  if (status == TP_OK) status = subscribe(&h, &fault);
  check(&h, status, "the runtime", &fault);
  if (!h.failed) add_agent(&h);
  if (!h.failed) loop(&h);
  tp_submission_unref(h.endless);
  tp_agent_remove(h.agent); /* after the drain it does not wait */
  tp_runtime_free(h.runtime);
  tp_inbox_free(h.inbox);
  return h.failed ? 1 : 0;
}
