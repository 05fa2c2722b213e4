/* SPDX-License-Identifier: Apache-2.0
 *
 * A host with one thread: an epoll loop in which everything of its agent runs. The guard of tool calls, the tools, the
 * model and the events of a submitted turn all come through one descriptor, that of an inbox; no function of this
 * program is called by a thread of the library's, as it must be for code of Node, Lua or Python.
 *
 * The model here is a timer: a loop waits for a provider's answer as it waits for anything else, and takes other work
 * meanwhile. */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "turnphase/turnphase.h"

typedef struct host {
  tp_inbox *inbox;
  int answer_timer; /* "the provider has answered" */
  tp_token asked;   /* the request that it answers */
  uint32_t requests;
  bool ended;
} host;

/* ---- what the agent is made of: each part names the inbox in place of a function ---- */

static tp_status subscribe(tp_runtime *runtime, const host *h, tp_fault *fault) {
  const tp_hook guards = {.struct_size = sizeof guards, .id = "guard", .phase = "tool.pre", .inbox = h->inbox};
  const tp_tool reads = {.struct_size = sizeof reads, .name = "read_file", .inbox = h->inbox};
  const tp_tool deletes = {.struct_size = sizeof deletes, .name = "delete_file", .inbox = h->inbox};
  tp_status status = tp_hook_add(runtime, &guards, fault);
  if (status == TP_OK) status = tp_tool_add(runtime, &reads, fault);
  return status == TP_OK ? tp_tool_add(runtime, &deletes, fault) : status;
}

static tp_status open_session(tp_runtime *runtime, host *h, tp_session **ret_session, tp_fault *fault) {
  const tp_model model = {.struct_size = sizeof model, .name = "timer", .ctx = h, .inbox = h->inbox};
  const tp_listener listener = {.struct_size = sizeof listener,
                                .inbox = h->inbox,
                                .kinds = UINT64_C(1) << TP_EVENT_MODEL_DELTA | UINT64_C(1) << TP_EVENT_TOOL_END |
                                         UINT64_C(1) << TP_EVENT_TURN_END};
  tp_session_options options = {.struct_size = sizeof options, .id = "first", .model = &model};
  tp_status status = tp_session_open(runtime, &options, ret_session, fault);
  return status == TP_OK ? tp_session_listen(*ret_session, &listener, NULL, fault) : status;
}

/* ---- what comes through the inbox ---- */

static void guard(const tp_work *work) {
  tp_text tool = tp_call_text(work->call, TP_FIELD_TOOL);
  bool denied = tp_text_is(tool, "delete_file");
  tp_outcome outcome = {.struct_size = sizeof outcome,
                        .kind = denied ? TP_ANSWER_DENY : TP_ANSWER_ALLOW,
                        .reason = denied ? "files are not deleted here" : NULL};
  printf("guard: %.*s is %s\n", (int)tool.size, tool.data, denied ? "denied" : "allowed");
  (void)tp_token_complete(work->token, &outcome, NULL);
}

static void run_tool(const tp_work *work) {
  printf("tool: reads the file\n");
  (void)tp_tool_complete(work->token, false, tp_text_of("the file's text"), NULL);
}

/* The provider is asked, and the loop goes on. The token is all that is kept of the work. */
static void ask_model(host *h, const tp_work *work) {
  const struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
  printf("model: is asked with %zu messages\n", work->request->message_count);
  h->asked = work->token;
  timerfd_settime(h->answer_timer, 0, &soon, NULL);
}

static void show_event(host *h, const tp_event *event) {
  if (event->kind == TP_EVENT_MODEL_DELTA)
    printf("event: the model says: %.*s\n", (int)event->text.size, event->text.data);
  if (event->kind == TP_EVENT_TOOL_END)
    printf("event: %.*s has ended: %s\n", (int)event->tool_result->name.size, event->tool_result->name.data,
           tp_tool_result_name(event->tool_result->kind));
  if (event->kind == TP_EVENT_LOST) printf("event: %llu were lost\n", (unsigned long long)event->lost);
  if (event->kind != TP_EVENT_TURN_END) return;
  printf("event: the turn has ended: %s\n", tp_status_name(event->status));
  h->ended = true;
}

static void take(host *h, const tp_work *work) {
  switch (work->kind) {
    case TP_WORK_HANDLER:
      guard(work);
      break;
    case TP_WORK_TOOL:
      run_tool(work);
      break;
    case TP_WORK_MODEL:
      ask_model(h, work);
      break;
    case TP_WORK_EVENT:
      show_event(h, work->event);
      (void)tp_work_release(work);
      break;
    default: /* a cancel, an end or a destroy; or of a newer library */
      if (tp_work_release(work) != TP_OK) (void)tp_token_abandon(work->token, NULL);
  }
}

/* ---- what comes from elsewhere ---- */

static void model_answered(host *h) {
  const tp_tool_call reads = {.struct_size = sizeof reads, .name = tp_text_of("read_file")};
  const tp_tool_call deletes = {.struct_size = sizeof deletes, .name = tp_text_of("delete_file")};
  const tp_tool_call *const calls[] = {&reads, &deletes};
  tp_model_response response = {.struct_size = sizeof response};
  uint64_t times;
  (void)!read(h->answer_timer, &times, sizeof times);
  if (h->requests++ == 0) {
    response.calls = calls;
    response.call_count = 2;
  } else {
    response.text = tp_text_of("I have read it, and it is still there.");
    (void)tp_model_delta(h->asked, response.text, NULL);
  }
  (void)tp_model_complete(h->asked, &response, NULL);
}

static void loop(host *h) {
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event work_waits = {.events = EPOLLIN, .data.fd = tp_inbox_fd(h->inbox)};
  struct epoll_event answered = {.events = EPOLLIN, .data.fd = h->answer_timer}, event;
  epoll_ctl(epoll, EPOLL_CTL_ADD, work_waits.data.fd, &work_waits);
  epoll_ctl(epoll, EPOLL_CTL_ADD, answered.data.fd, &answered);
  while (!h->ended && epoll_wait(epoll, &event, 1, -1) == 1) {
    const tp_work *work;
    if (event.data.fd == h->answer_timer) model_answered(h);
    else
      while (tp_inbox_next(h->inbox, &work) == TP_OK && work) take(h, work);
  }
  close(epoll);
}

int main(void) {
  host h = {.answer_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("Read the file, then delete it.")};
  tp_runtime *runtime = NULL;
  tp_session *session = NULL;
  tp_fault fault = {0};
  bool submitted = tp_runtime_new(NULL, &runtime, &fault) == TP_OK &&
                   tp_inbox_new(runtime, NULL, &h.inbox, &fault) == TP_OK && subscribe(runtime, &h, &fault) == TP_OK &&
                   open_session(runtime, &h, &session, &fault) == TP_OK &&
                   tp_turn_submit(session, &request, NULL, NULL, NULL, &fault) == TP_OK;
  if (submitted) loop(&h);
  else fprintf(stderr, "%s\n", fault.message);
  tp_session_close(session, NULL, NULL);
  tp_inbox_free(h.inbox); /* nothing waits for this thread any more */
  tp_runtime_free(runtime);
  close(h.answer_timer);
  return submitted ? 0 : 1;
}
