/* SPDX-License-Identifier: Apache-2.0
 *
 * turn.c: runs one turn and records each function call (tests/trace.py): a Deadline handler on a thread, a model that
 * answers by token from a thread of the host, two tool calls after a guard, the record. Linked with a library that was
 * built with -finstrument-functions. Prints a line for each call and return: thread, E or X, the function's address. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "turnphase/turnphase.h"

enum { NOTES_MAX = 1 << 20 };

#define NOT_NOTED __attribute__((no_instrument_function))

static struct {
  uint32_t thread;
  char what; /* 'E': entered, 'X': left */
  const void *function;
} notes[NOTES_MAX];
static atomic_uint note_count, thread_count;
static atomic_bool noting;
static _Thread_local uint32_t thread_number;

NOT_NOTED void __cyg_profile_func_enter(void *function, void *caller);
NOT_NOTED void __cyg_profile_func_exit(void *function, void *caller);

NOT_NOTED static void note(char what, const void *function) {
  if (!atomic_load(&noting)) return;
  if (thread_number == 0) thread_number = atomic_fetch_add(&thread_count, 1) + 1;
  uint32_t at = atomic_fetch_add(&note_count, 1);
  if (at >= NOTES_MAX) exit(70);
  notes[at].thread = thread_number;
  notes[at].what = what;
  notes[at].function = function;
}

void __cyg_profile_func_enter(void *function, void *caller) {
  (void)caller;
  note('E', function);
}

void __cyg_profile_func_exit(void *function, void *caller) {
  (void)caller;
  note('X', function);
}

static void must(tp_status status, const char *what) {
  if (status == TP_OK) return;
  fprintf(stderr, "%s: %s\n", what, tp_status_text(status));
  exit(1);
}

/* ---- the host ---- */

static tp_answer context(void *ctx, tp_call *call) {
  (void)ctx;
  must(tp_call_emit_prompt_context(call, "note", "the user prefers short answers", 0, NULL), "a context");
  return TP_ANSWER_DONE;
}

static tp_answer guard(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_allow(call);
}

static tp_answer read_file(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("its text"));
}

static const tp_tool tool = {.struct_size = sizeof tool, .name = "read", .run = read_file};

static tp_answer tools(void *ctx, tp_call *call) {
  (void)ctx;
  static const tp_tool *const list[] = {&tool};
  must(tp_call_emit_tool_bundle(call, "files", list, 1, NULL), "tp_call_emit_tool_bundle");
  return TP_ANSWER_DONE;
}

static tp_token asked;
static bool has_results;

static void *answer(void *unused) {
  (void)unused;
  static const tp_tool_call
      first = {.struct_size = sizeof first, .id = {"a", 1}, .name = {"read", 4}, .arguments = {"\x80", 1}},
      second = {.struct_size = sizeof second, .id = {"b", 1}, .name = {"read", 4}, .arguments = {"\x80", 1}};
  static const tp_tool_call *const calls[] = {&first, &second};
  const tp_model_response with_calls = {.struct_size = sizeof with_calls, .calls = calls, .call_count = 2},
                          last = {.struct_size = sizeof last, .text = {"both were read", 14}};
  must(tp_model_complete(asked, has_results ? &last : &with_calls, NULL), "tp_model_complete");
  return NULL;
}

static pthread_t answering;

static void start_model(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx;
  if (has_results || asked.bits) pthread_join(answering, NULL);
  has_results = request->messages[request->message_count - 1]->role == TP_ROLE_TOOL;
  asked = token;
  if (pthread_create(&answering, NULL, answer, NULL) != 0) exit(71);
}

static void add(tp_runtime *runtime, const char *id, const char *phase, tp_handler_fn run) {
  const tp_hook hook = {.struct_size = sizeof hook, .id = id, .phase = phase, .run = run};
  must(tp_hook_add(runtime, &hook, NULL), id);
}

int main(void) {
  tp_runtime *runtime;
  tp_session *session;
  const tp_turn_result *result;
  const tp_model model = {.struct_size = sizeof model, .name = "model", .start = start_model};
  const tp_session_options options = {.struct_size = sizeof options, .id = "session", .model = &model};
  const tp_turn_request request = {.struct_size = sizeof request, .text = {"read both", 9}};
  must(tp_runtime_new(NULL, &runtime, NULL), "tp_runtime_new");
  add(runtime, "context", "turn.pre_prompt_context", context);
  add(runtime, "guard", "tool.pre", guard);
  add(runtime, "tools", "turn.pre_tool_materialization", tools);
  must(tp_runtime_start(runtime, NULL), "tp_runtime_start");
  must(tp_session_open(runtime, &options, &session, NULL), "tp_session_open");
  atomic_store(&noting, true);
  tp_status status = tp_turn_run(session, &request, &result, NULL);
  atomic_store(&noting, false);
  must(status, "tp_turn_run");
  if (result->outcome != TP_TURN_COMPLETED || result->tool_calls != 2) exit(72);
  pthread_join(answering, NULL);
  for (uint32_t i = 0; i < atomic_load(&note_count); i++)
    printf("%u %c %p\n", notes[i].thread, notes[i].what, notes[i].function);
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
  tp_runtime_free(runtime);
  return 0;
}
