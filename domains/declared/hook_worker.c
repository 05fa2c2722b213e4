/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/declared/hook_worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "domains/declared/hook_answer.h"
#include "domains/declared/hook_context.h"
#include "domains/declared/hook_input.h"
#include "domains/declared/trust.h"

enum {
  FRAME_BYTES_MAX = 1 << 20, /* of a reply */
  ERRORS_MAX = 64 << 10,
  PAUSE_MS = 100, /* before a program that never answered is started again; doubled each time */
  PAUSE_MS_MAX = 30000,
  DRAIN_MS = 500 /* from end-of-file to SIGTERM, and from there to SIGKILL */
};

/* One attempt. References: one of the starter, one of the deferral, one of the list. */
struct request {
  struct request *next;
  tp__worker *worker;
  uint64_t id;
  tp_token token;
  tp__asked asked;
  tp__bytes input; /* for on_program; empty without one */
  int64_t deadline_ms;
  uint64_t replies_before;
  int references; /* under the worker's mutex */
};

struct tp__worker {
  const tp__hook *hook;
  tp__lock mutex;
  tp__lock_condition ended;
  /* under mutex */
  uint64_t process; /* 0: none runs */
  uint64_t last_id;
  struct request *open;
  uint64_t replies, replies_of_program;
  uint32_t failures; /* how many programs in a row ended without an answer */
  int64_t not_before_ms;
  bool is_stopping;
  /* the loop's thread only */
  tp__bytes frame;
  const char *broken; /* the line of the program that is no reply; the program is being ended */
};

#ifdef TP_CHECKS
static void worker_check_locked(const tp__worker *worker) {
  TP__LOCKED(&worker->mutex);
  size_t looked = 0;
  /* Without a program, no request waits for its answer. */
  assert(worker->process != 0 || !worker->open);
  /* The replies of this program are included in those of all programs. */
  assert(worker->replies_of_program <= worker->replies);
  /* A pause follows a failure. */
  assert(worker->failures > 0 || worker->not_before_ms <= tp__monotonic_ms());
  for (const struct request *each = worker->open; each && looked < TP__CHECK_ITEMS_MAX; each = each->next, looked++) {
    /* Each open request belongs to this worker, has an id that was given out, and holds the list's reference. */
    assert(each->worker == worker);
    assert(each->id > 0 && each->id <= worker->last_id);
    assert(each->references > 0);
  }
}
#endif

tp__worker *tp__worker_new(const tp__hook *hook) {
  assert(hook->kind == TP__HOOK_WORKER && hook->started);
  tp__worker *worker = calloc(1, sizeof *worker);
  if (!worker) return NULL;
  worker->hook = hook;
  tp__lock_init(&worker->mutex, TP__LOCK_worker);
  tp__lock_condition_init(&worker->ended);
  return worker;
}

void tp__worker_free(tp__worker *worker) {
  assert(!worker || (worker->process == 0 && !worker->open));
  if (!worker) return;
  tp__bytes_fini(&worker->frame);
  tp__lock_condition_fini(&worker->ended);
  tp__lock_fini(&worker->mutex);
  free(worker);
}

/* ---- requests ---- */

static void request_unref(struct request *request) {
  tp__worker *worker = request->worker;
  tp__lock_acquire(&worker->mutex);
  assert(request->references > 0);
  int left = --request->references;
  tp__lock_release(&worker->mutex);
  if (left > 0) return;
  tp_hooks *hooks = worker->hook->hooks;
  tp__bytes_fini(&request->input);
  free(request);
  tp__hooks_unref(hooks);
}

static void request_destroy(void *ctx) { request_unref(ctx); }

/* Takes a request out of the list; the caller then has the list's reference. @return NULL: it was answered, or given
 * up. */
static struct request *take_locked(tp__worker *worker, uint64_t id) {
  TP__LOCKED(&worker->mutex);
  TP__CHECK(worker_check_locked(worker));
  for (struct request **at = &worker->open; *at; at = &(*at)->next) {
    struct request *request = *at;
    if (request->id != id) continue;
    *at = request->next;
    return request;
  }
  return NULL;
}

/* If the program has answered nothing since the request was sent, and the request has used all of its time, the program
 * hangs, and is started again. Otherwise it may be busy with this request only; its answer will be discarded. */
static void request_cancel(void *ctx) {
  struct request *request = ctx;
  tp__worker *worker = request->worker;
  tp__lock_acquire(&worker->mutex);
  struct request *taken = take_locked(worker, request->id);
  bool hangs = taken && worker->replies == request->replies_before && tp__monotonic_ms() >= request->deadline_ms;
  uint64_t process = worker->process;
  tp__lock_release(&worker->mutex);
  if (hangs && process != 0) tp_process_cancel(worker->hook->hooks->loop, process);
  if (taken) request_unref(taken);
}

static void complete_request(struct request *request, const tp_outcome *outcome, tp_text reply) {
  const tp__hook *hook = request->worker->hook;
  tp_hook_program program = {.struct_size = sizeof program,
                             .hook = hook->id,
                             .arguments = hook->arguments,
                             .input = {request->input.data, request->input.size},
                             .output = reply,
                             .outcome = outcome,
                             .end = TP_PROCESS_EXITED};
  tp__hooks_notify(hook->hooks, &program);
  (void)!tp_token_complete(request->token, outcome, NULL);
  request_unref(request);
}

static void fail_request(struct request *request, tp_reason why, const char *reason) {
  tp_outcome outcome = {
      .struct_size = sizeof outcome, .kind = TP_ANSWER_FAILED, .why = (uint32_t)why, .reason = reason};
  complete_request(request, &outcome, (tp_text){NULL, 0});
}

/* ---- replies: on the thread of the loop ---- */

/* @return the error in the reply; NULL: there is none. */
static const char *take_reply(tp__worker *worker, tp_text reply, size_t replaced, tp_text frame) {
  tp_text id_value = tp_value_get(reply, "id");
  uint64_t id = tp_value_kind_of(id_value) == TP_VALUE_INT ? (uint64_t)tp_value_int(id_value, 0) : 0;
  tp__lock_acquire(&worker->mutex);
  bool is_known = id != 0 && id <= worker->last_id;
  struct request *request = is_known ? take_locked(worker, id) : NULL;
  worker->replies += is_known;
  worker->replies_of_program += is_known;
  tp__lock_release(&worker->mutex);
  if (!is_known) return "a reply without the id of a request";
  if (!request) return NULL; /* it was given up */
  tp__judged *judged = malloc(sizeof *judged);
  if (!judged) {
    fail_request(request, TP_REASON_ERROR, "no memory to judge it");
    return NULL;
  }
  tp__hook_judge_reply(worker->hook, &request->asked, reply, replaced, judged);
  complete_request(request, &judged->outcome, frame);
  tp__judged_fini(judged);
  free(judged);
  return NULL;
}

static const char *take_json(tp__worker *worker, tp_text line) {
  tp_writer *writer;
  tp_text reply;
  const char *wrong = "a line that is no JSON object";
  if (line.size == 0) return NULL;
  if (tp_writer_new(NULL, &writer) != TP_OK) return "more than there is memory for";
  tp__bytes copy = {0};
  size_t replaced = 0;
  if (!tp_utf8_valid(line, NULL)) {
    replaced = tp__bytes_put_utf8(&copy, line);
    line = tp__bytes_text(&copy);
  }
  if (copy.failed) wrong = "more than there is memory for";
  else if (tp_json_decode(line, writer, NULL) == TP_OK && tp_writer_finish(writer, &reply) == TP_OK &&
           tp_value_kind_of(reply) == TP_VALUE_MAP)
    wrong = take_reply(worker, reply, replaced, line);
  tp_writer_free(writer);
  tp__bytes_fini(&copy);
  return wrong;
}

static const char *take_msgpack(tp__worker *worker, tp_text frame) {
  if (tp_value_check(frame, NULL) != TP_OK || tp_value_kind_of(frame) != TP_VALUE_MAP)
    return "a frame that is no msgpack map";
  return take_reply(worker, frame, 0, frame);
}

/* The size of the first frame, including the bytes around it; 0: it is not complete yet. */
static size_t frame_size(const tp__worker *worker, tp_text bytes, tp_text *ret_frame) {
  if (!worker->hook->is_msgpack) {
    const char *end = bytes.size > 0 ? memchr(bytes.data, '\n', bytes.size) : NULL;
    if (!end) return 0;
    *ret_frame = (tp_text){bytes.data, (size_t)(end - bytes.data)};
    return ret_frame->size + 1;
  }
  if (bytes.size < 4) return 0;
  const unsigned char *head = (const unsigned char *)bytes.data;
  size_t size = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
  *ret_frame = (tp_text){bytes.data + 4, size};
  return size > FRAME_BYTES_MAX || bytes.size - 4 >= size ? size + 4 : 0;
}

static void take_frames(tp__worker *worker) {
  size_t used = 0, size;
  tp_text frame, rest = {worker->frame.data, worker->frame.size};
  while (!worker->broken && (size = frame_size(worker, rest, &frame)) > 0) {
    if (frame.size > FRAME_BYTES_MAX) worker->broken = "a reply above 1 MiB";
    else worker->broken = worker->hook->is_msgpack ? take_msgpack(worker, frame) : take_json(worker, frame);
    if (worker->broken) break;
    used += size;
    rest = (tp_text){rest.data + size, rest.size - size};
  }
  if (used > 0) memmove(worker->frame.data, worker->frame.data + used, worker->frame.size - used);
  worker->frame.size -= used;
}

static void program_wrote(void *ctx, tp_text piece) {
  tp__worker *worker = ctx;
  tp__hooks_note_loop(worker->hook->hooks);
  if (worker->broken) return;
  tp__bytes_put(&worker->frame, piece.data, piece.size);
  if (worker->frame.failed) worker->broken = "more than there is memory for";
  else take_frames(worker);
  if (!worker->broken && worker->frame.size > FRAME_BYTES_MAX + 4) worker->broken = "a reply above 1 MiB";
  if (!worker->broken) return;
  tp__lock_acquire(&worker->mutex);
  uint64_t process = worker->process;
  tp__lock_release(&worker->mutex);
  tp_process_cancel(worker->hook->hooks->loop, process);
}

/* ---- the program ---- */

static int64_t pause_ms(uint32_t failures) {
  assert(failures < UINT32_MAX);
  if (failures == 0) return 0;
  int64_t pause = (int64_t)PAUSE_MS << (failures < 16 ? failures - 1 : 15);
  return pause < PAUSE_MS_MAX ? pause : PAUSE_MS_MAX;
}

static void program_ended(void *ctx, const tp_process_result *result) {
  tp__worker *worker = ctx;
  tp_hooks *hooks = worker->hook->hooks;
  char reason[1024];
  tp__hooks_note_loop(hooks);
  size_t size = sizeof reason;
  char how[96];
  if (worker->broken) snprintf(how, sizeof how, "wrote %s", worker->broken);
  else if (result->end == TP_PROCESS_EXITED) snprintf(how, sizeof how, "exited with code %d", result->exit_code);
  else if (result->end == TP_PROCESS_KILLED) snprintf(how, sizeof how, "was killed by signal %d", result->signal);
  else snprintf(how, sizeof how, "was ended (%s)", tp_process_end_name(result->end));
  char errors[516] = "", shown[516];
  tp_utf8_replace(result->errors, errors, sizeof errors - 1);
  tp__hook_errors_show(worker->hook, tp_text_of(errors), shown, sizeof shown);
  snprintf(reason, size, "the worker %s before it answered%s", how, shown);
  worker->frame.size = 0;
  worker->frame.failed = false;
  worker->broken = NULL;
  tp__lock_acquire(&worker->mutex);
  struct request *open = worker->open;
  worker->open = NULL;
  worker->process = 0;
  worker->failures = worker->replies_of_program > 0 ? 0 : worker->failures + 1;
  worker->not_before_ms = tp__monotonic_ms() + pause_ms(worker->failures);
  tp__lock_condition_broadcast(&worker->ended);
  TP__CHECK(worker_check_locked(worker));
  tp__lock_release(&worker->mutex);
  while (open) {
    struct request *next = open->next;
    fail_request(open, TP_REASON_CRASH, reason);
    open = next;
  }
  tp__hooks_unref(hooks);
}

/* on_end may be called before this returns, on the loop's thread, where it waits for the lock.
 * @param ret_why  how its code differs from the trusted code; untouched when it does not. */
static tp_status start_locked(tp__worker *worker, char ret_why[TP__TRUST_WHY_SIZE], tp_fault *fault) {
  TP__LOCKED(&worker->mutex);
  TP__CHECK(worker_check_locked(worker));
  const tp__hook *hook = worker->hook;
  if (worker->process != 0) return TP_OK;
  int64_t left_ms = worker->not_before_ms - tp__monotonic_ms();
  if (worker->is_stopping) return tp__refuse(fault, TP_ERR_SHUTDOWN, NULL, "the worker is being ended");
  if (left_ms > 0)
    return tp__refuse(fault, TP_ERR_SYSTEM, NULL,
                      "the worker ended without an answer %u times in a row: it is started again in %lld ms",
                      worker->failures, (long long)left_ms);
  if (!tp__trust_holds(hook, ret_why)) return tp__refuse(fault, TP_ERR_SYSTEM, NULL, "%s", ret_why);
  tp_process_options options = {.struct_size = sizeof options,
                                .arguments = hook->started,
                                .environment = hook->environment,
                                .directory = hook->hooks->root,
                                .grace_ms = DRAIN_MS,
                                .errors_max = ERRORS_MAX,
                                .on_output = program_wrote};
  tp__hooks_ref(hook->hooks);
  tp_status status = tp_process_start(hook->hooks->loop, &options, program_ended, worker, &worker->process, fault);
  if (status == TP_OK) worker->replies_of_program = 0;
  else tp__hooks_unref(hook->hooks);
  return status;
}

/* ---- the handler ---- */

static tp_status make_frame(const tp__hook *hook, const tp_call *call, uint64_t id, tp__bytes *ret_frame) {
  tp_writer *writer;
  tp_text value;
  tp__bytes frame = {0};
  tp_status status = tp_writer_new(NULL, &writer);
  if (status != TP_OK) return status;
  tp_write_map(writer, 2);
  tp_write_string(writer, "id");
  tp_write_int(writer, (int64_t)id);
  tp_write_string(writer, "context");
  tp__hook_write_context(hook, call, writer);
  status = tp_writer_finish(writer, &value);
  if (status == TP_OK && hook->is_msgpack) {
    const unsigned char head[] = {(unsigned char)(value.size >> 24), (unsigned char)(value.size >> 16),
                                  (unsigned char)(value.size >> 8), (unsigned char)value.size};
    tp__bytes_put(&frame, (const char *)head, sizeof head);
    tp__bytes_put(&frame, value.data, value.size);
  } else if (status == TP_OK) {
    status = tp__line_add_json(&frame, value, writer);
  }
  tp_writer_free(writer);
  if (status == TP_OK && frame.failed) status = TP_ERR_NO_MEMORY;
  if (status == TP_OK) *ret_frame = frame;
  else tp__bytes_fini(&frame);
  return status;
}

static struct request *request_new(tp__worker *worker, const tp_call *call) {
  struct request *request = calloc(1, sizeof *request);
  if (!request) return NULL;
  int64_t left_ms = tp_call_time_left_ms(call);
  tp__lock_acquire(&worker->mutex);
  *request = (struct request){.worker = worker,
                              .id = ++worker->last_id,
                              .asked = {.is_required = tp_call_failure(call) == TP_FAILURE_REQUIRED},
                              .deadline_ms = left_ms < TP__HOOK_LIMIT_MS_MAX ? tp__monotonic_ms() + left_ms : INT64_MAX,
                              .references = 2};
  tp__lock_release(&worker->mutex);
  tp__hooks_ref(worker->hook->hooks);
  return request;
}

/* From here on, the reply, the end of the program and a cancel may each take the request. */
static void send_request(struct request *request, tp_text frame) {
  tp__worker *worker = request->worker;
  tp_fault fault = {0};
  char why[TP__TRUST_WHY_SIZE] = "";
  tp__lock_acquire(&worker->mutex);
  tp_status status = start_locked(worker, why, &fault);
  uint64_t process = worker->process;
  if (status == TP_OK) {
    request->replies_before = worker->replies;
    request->references++;
    request->next = worker->open;
    worker->open = request;
  }
  TP__CHECK(worker_check_locked(worker));
  tp__lock_release(&worker->mutex);
  if (why[0]) tp__trust_audit_code(worker->hook, why);
  if (status != TP_OK) {
    tp_outcome outcome = {.struct_size = sizeof outcome,
                          .kind = TP_ANSWER_FAILED,
                          .why = TP_REASON_CANNOT_START,
                          .code = (uint32_t)fault.system_error,
                          .reason = fault.message};
    (void)!tp_token_complete(request->token, &outcome, NULL);
    return;
  }
  status = tp_process_write(worker->hook->hooks->loop, process, frame);
  /* the program is ending, and its end will report how; or it hangs */
  if (status == TP_OK || status == TP_ERR_STALE) return;
  tp__lock_acquire(&worker->mutex);
  struct request *taken = take_locked(worker, request->id);
  tp__lock_release(&worker->mutex);
  if (taken) fail_request(taken, TP_REASON_CRASH, "the worker does not read: 16 MiB of requests wait for it");
}

tp_answer tp__worker_run(tp__worker *worker, tp_call *call) {
  tp__bytes frame;
  struct request *request = request_new(worker, call);
  if (!request) return tp_call_fail(call, TP_ERR_NO_MEMORY, "no memory for a request");
  tp_status status = make_frame(worker->hook, call, request->id, &frame);
  if (status != TP_OK) {
    request->references = 1;
    request_unref(request);
    return tp_call_fail(call, (uint32_t)status, "the context could not be written");
  }
  tp_deferral deferral = {
      .struct_size = sizeof deferral, .cancel = request_cancel, .destroy = request_destroy, .ctx = request};
  bool kept = tp__hooks_have_listener(worker->hook->hooks);
  if (kept) request->input = frame;
  tp_answer answer = tp_call_defer(call, &deferral, &request->token);
  if (request->token.bits != 0) send_request(request, (tp_text){frame.data, frame.size});
  else request_unref(request);
  if (!kept) tp__bytes_fini(&frame);
  request_unref(request);
  return answer;
}

/* ---- the end ---- */

static void wait_for_end_locked(tp__worker *worker, int64_t limit_ms) {
  TP__LOCKED(&worker->mutex);
  TP__CHECK(worker_check_locked(worker));
  int64_t deadline_ns = tp__monotonic_ns() + limit_ms * TP__NS_IN_MS;
  while (worker->process != 0 && tp__lock_condition_wait_until(&worker->ended, &worker->mutex, deadline_ns)) {}
}

void tp__worker_stop(tp__worker *worker) {
  tp_process_loop *loop = worker->hook->hooks->loop;
  bool is_inside = tp__hooks_in_loop(worker->hook->hooks);
  tp__lock_acquire(&worker->mutex);
  worker->is_stopping = true;
  uint64_t process = worker->process;
  if (process != 0) tp_process_close_input(loop, process);
  if (!is_inside) wait_for_end_locked(worker, DRAIN_MS);
  bool runs = worker->process != 0;
  if (runs) tp_process_cancel(loop, process);
  while (!is_inside && worker->process != 0) tp__lock_condition_wait(&worker->ended, &worker->mutex);
  tp__lock_release(&worker->mutex);
}
