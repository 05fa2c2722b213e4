/* SPDX-License-Identifier: Apache-2.0
 *
 * A host with one thread, as a game loop or a state of LuaJIT has it: a runtime that starts no threads, and a poll loop
 * that pumps it. The guard of its turns is a function, the tool defers and is answered by the loop's own timer, a third
 * turn is cancelled, and the drain ends the program. Nothing is called on another thread, since there is none. */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "turnphase/turnphase.h"

typedef struct host {
  tp_runtime *runtime;
  tp_session *session;
  int timer;
  tp_token roll; /* of the tool's call, while the timer runs */
  bool is_drained;
} host;

static int thread_count(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  for (const struct dirent *entry; tasks && (entry = readdir(tasks));) count += entry->d_name[0] != '.';
  if (tasks) closedir(tasks);
  return count;
}

/* ---- what the runtime calls: all of it inside of tp_runtime_pump() ---- */

static tp_answer guard(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_contains(call, TP_FIELD_TEXT, "cheat") ? tp_call_deny(call, "no cheating") : tp_call_allow(call);
}

/* A tool that slept here would hold up the loop: it defers, and the timer answers. */
static tp_answer roll_dice(void *ctx, tp_tool_run *run) {
  host *h = ctx;
  const struct itimerspec in_20_ms = {.it_value = {.tv_nsec = 20000000}};
  tp_answer answer = tp_tool_defer(run, NULL, &h->roll);
  timerfd_settime(h->timer, 0, &in_20_ms, NULL);
  printf("the dice roll\n");
  return answer;
}

static void dice_lie(host *h) {
  uint64_t count;
  if (read(h->timer, &count, sizeof count) != sizeof count) return;
  (void)tp_tool_complete(h->roll, false, tp_text_of("a six"), NULL);
}

static void turn_ended(void *ctx, const tp_turn_result *result) {
  tp_text said = result->outcome == TP_TURN_COMPLETED ? result->text : result->reason;
  printf("%s: %s: %.*s\n", (const char *)ctx, tp_turn_outcome_name(result->outcome), (int)said.size, said.data);
}

static void drained(void *ctx, const tp_drain_report *report) {
  ((host *)ctx)->is_drained = true;
  printf("drained: %s, %d thread\n", report->complete ? "nothing is left running" : "something is left",
         thread_count());
}

/* ---- the loop ---- */

static tp_status submit(const host *h, const char *text, tp_submission **ret_submission, tp_fault *fault) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  return tp_turn_submit(h->session, &request, turn_ended, (void *)(uintptr_t)text, ret_submission, fault);
}

/* Renders at most every 16 ms in a game; here it only waits for what comes first. */
static tp_status run_loop(host *h, tp_fault *fault) {
  struct pollfd waits[] = {{.fd = tp_runtime_fd(h->runtime), .events = POLLIN}, {.fd = h->timer, .events = POLLIN}};
  tp_status status;
  int wait_ms;
  while ((status = tp_runtime_pump(h->runtime, 0, &wait_ms, fault)) == TP_OK && !h->is_drained) {
    if (poll(waits, 2, wait_ms) < 0) return TP_ERR_SYSTEM;
    if (waits[1].revents) dice_lie(h);
  }
  return status;
}

static tp_status open_all(host *h, tp_model *model, tp_fault *fault) {
  const tp_tool dice = {
      .struct_size = sizeof dice, .name = "dice", .description = "rolls a die", .run = roll_dice, .ctx = h};
  const tp_session_options options = {.struct_size = sizeof options, .id = "player", .model = model};
  tp_status status = tp_guard_add(h->runtime, "rules", "turn.intake", guard, h, fault);
  if (status == TP_OK) status = tp_tool_add(h->runtime, &dice, fault);
  if (status == TP_OK) status = tp_session_open(h->runtime, &options, &h->session, fault);
  return status;
}

int main(void) {
  static const char script[] =
      "{\"responses\": [{\"tool_calls\": [{\"name\": \"dice\", \"arguments\": {}}]}, {\"text\": \"You win.\"}]}";
  const tp_runtime_options options = {.struct_size = sizeof options, .pump = true};
  host h = {.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  tp_model *model = NULL;
  tp_submission *last = NULL;
  tp_fault fault = {.code = TP_OK};
  tp_status status = tp_script_model_decode(script, &model, &fault);
  if (status == TP_OK) status = tp_runtime_new(&options, &h.runtime, &fault);
  if (status == TP_OK) status = open_all(&h, model, &fault);
  if (status != TP_OK) tp_model_free(model); /* no session has taken it */
  if (status == TP_OK) status = submit(&h, "roll", NULL, &fault);
  if (status == TP_OK) status = submit(&h, "cheat", NULL, &fault);
  if (status == TP_OK) status = submit(&h, "roll again", &last, &fault);
  if (status == TP_OK) {
    tp_submission_cancel(last);
    status = tp_runtime_drain_submit(h.runtime, 5000, drained, &h, &fault);
  }
  if (status == TP_OK) status = run_loop(&h, &fault);
  if (status != TP_OK) fprintf(stderr, "%s: %s\n", tp_status_name(status), fault.message);
  tp_submission_unref(last);
  tp_session_close(h.session, NULL, NULL);
  tp_runtime_free(h.runtime);
  close(h.timer);
  return status != TP_OK;
}
