/* SPDX-License-Identifier: Apache-2.0
 *
 * A host with one thread: an epoll loop that submits a turn and guards its tool calls itself, through an inbox. The
 * guard's code runs on this thread only, between two events, as the code of Node, Lua or Python would. */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "turnphase/turnphase.h"

static int turn_ended; /* an eventfd: the turn's end comes on a thread of the library's, and only rings here */

static tp_answer say_done(void *self, tp_tool_run *run) {
  (void)self;
  return tp_tool_ok(run, tp_text_of("done"));
}

/* Brings two tools to every turn. */
static tp_answer bring_tools(void *self, tp_call *call) {
  (void)self;
  const tp_tool read = {
      .struct_size = sizeof read, .name = "read_file", .run = say_done, .placement = TP_PLACEMENT_INLINE};
  const tp_tool delete = {
      .struct_size = sizeof delete, .name = "delete_file", .run = say_done, .placement = TP_PLACEMENT_INLINE};
  const tp_tool *const tools[] = {&read, &delete};
  return tp_call_emit_tool_bundle(call, "files", tools, 2) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

/* The guard: this thread reads the call and answers through its token. */
static void guard(const tp_work *work) {
  tp_text tool = tp_call_text(work->call, TP_FIELD_TOOL);
  bool denied = tool.size == 11 && memcmp(tool.data, "delete_file", 11) == 0;
  tp_outcome outcome = {.struct_size = sizeof outcome,
                        .kind = denied ? TP_ANSWER_DENY : TP_ANSWER_ALLOW,
                        .reason = denied ? "files are not deleted here" : NULL};
  printf("guard: %.*s is %s\n", (int)tool.size, tool.data, denied ? "denied" : "allowed");
  (void)tp_token_complete(work->token, &outcome);
}

static void on_end(void *ctx, const tp_turn_result *result) {
  const uint64_t one = 1;
  (void)ctx;
  printf("turn: %s, %u tool calls: %.*s\n", tp_turn_outcome_name(result->outcome), result->tool_calls,
         (int)result->text.size, result->text.data);
  (void)!write(turn_ended, &one, sizeof one);
}

static tp_status subscribe(tp_runtime *runtime, tp_inbox *inbox, tp_fault *fault) {
  const uint32_t guarded = TP_PHASE_TOOL_PRE, bundles = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION;
  const tp_handler handlers[] = {{.struct_size = sizeof(tp_handler),
                                  .id = "guard",
                                  .inbox = inbox, /* in place of run */
                                  .phases = &guarded,
                                  .phase_count = 1,
                                  .capabilities = TP_CAPABILITY_DECIDE},
                                 {.struct_size = sizeof(tp_handler),
                                  .id = "files",
                                  .run = bring_tools,
                                  .phases = &bundles,
                                  .phase_count = 1,
                                  .capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE,
                                  .placement = TP_PLACEMENT_INLINE}};
  tp_edit *edit;
  tp_status status = tp_edit_begin(runtime, NULL, &edit, fault);
  if (status != TP_OK) return status;
  for (int i = 0; i < 2 && status == TP_OK; i++) {
    tp_subscription subscription = {.struct_size = sizeof subscription,
                                    .id = handlers[i].id,
                                    .handler = handlers[i].id,
                                    .phase = handlers[i].phases[0]};
    status = tp_edit_add_handler(edit, &handlers[i], fault);
    if (status == TP_OK) status = tp_edit_add_subscription(edit, &subscription, fault);
  }
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

static void loop(tp_inbox *inbox) {
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event work_waits = {.events = EPOLLIN, .data.fd = tp_inbox_fd(inbox)};
  struct epoll_event ended = {.events = EPOLLIN, .data.fd = turn_ended}, event;
  epoll_ctl(epoll, EPOLL_CTL_ADD, work_waits.data.fd, &work_waits);
  epoll_ctl(epoll, EPOLL_CTL_ADD, ended.data.fd, &ended);
  while (epoll_wait(epoll, &event, 1, -1) == 1 && event.data.fd != turn_ended) {
    const tp_work *work;
    while (tp_inbox_next(inbox, &work) == TP_OK && work) guard(work);
  }
  close(epoll);
}

int main(void) {
  const tp_tool_call read = {.struct_size = sizeof read, .name = tp_text_of("read_file")};
  const tp_tool_call delete = {.struct_size = sizeof delete, .name = tp_text_of("delete_file")};
  const tp_tool_call *const calls[] = {&read, &delete};
  const tp_model_response asks = {.struct_size = sizeof asks, .calls = calls, .call_count = 2};
  const tp_model_response ends = {.struct_size = sizeof ends,
                                  .text = tp_text_of("I have read it, and it is still there.")};
  const tp_model_response *const responses[] = {&asks, &ends};
  tp_model *model = NULL;
  tp_session_options options = {.struct_size = sizeof options, .id = "first"};
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("Read the file, then delete it.")};
  tp_runtime *runtime = NULL;
  tp_inbox *inbox = NULL;
  tp_session *session = NULL;
  tp_fault fault = {0};
  turn_ended = eventfd(0, EFD_CLOEXEC);
  bool submitted = tp_runtime_new(NULL, &runtime, &fault) == TP_OK &&
                   tp_inbox_new(runtime, NULL, &inbox, &fault) == TP_OK &&
                   subscribe(runtime, inbox, &fault) == TP_OK &&
                   tp_script_model_new(responses, 2, false, &model, &fault) == TP_OK &&
                   (options.model = model) &&
                   tp_session_open(runtime, &options, &session, &fault) == TP_OK &&
                   tp_turn_submit(session, &request, on_end, NULL, NULL, &fault) == TP_OK;
  if (submitted) loop(inbox);
  else fprintf(stderr, "%s\n", fault.message);
  if (session) tp_session_close(session, NULL, NULL);
  else tp_model_free(model); /* no session has taken it */
  tp_runtime_free(runtime);
  tp_inbox_free(inbox);
  close(turn_ended);
  return submitted ? 0 : 1;
}
