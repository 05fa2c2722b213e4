/* SPDX-License-Identifier: Apache-2.0
 *
 * The example of docs/guides/event_loop.md: one thread that waits in poll() alone. It submits a phase, tool calls and a
 * turn, takes the calls of its handler and its tools from an inbox, and learns of the ends by a pipe. */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include <turnphase/turnphase.h>

typedef enum end_kind { PHASE_END, TOOLS_END, TURN_END } end_kind;

/* What a completion writes into the pipe: at most PIPE_BUF bytes, so that it is written in one piece. */
typedef struct end {
  end_kind kind;
  tp_status status;
  const tp_tool_result *const *results;
  size_t count;
  char text[128];
} end;

typedef struct host {
  tp_runtime *runtime;
  tp_inbox *inbox;
  int ends[2]; /* a pipe: completions write, the loop reads */
  tp_session *session;
  tp_turn *turn;
  bool is_done;
} host;

/* ---- completions: on a thread of the library ---- */

static void post(const host *h, const end *e) {
  if (write(h->ends[1], e, sizeof *e) != sizeof *e) fprintf(stderr, "the pipe is full\n");
}

static void phase_ended(void *ctx, const tp_phase_result *result) {
  const end e = {.kind = PHASE_END, .status = result->outcome};
  post(ctx, &e);
}

static void tools_ended(void *ctx, const tp_tool_result *const *results, size_t count) {
  const end e = {.kind = TOOLS_END, .results = results, .count = count};
  post(ctx, &e);
}

static void turn_ended(void *ctx, const tp_turn_result *result) {
  end e = {.kind = TURN_END, .status = result->code};
  snprintf(e.text, sizeof e.text, "%.*s", (int)result->text.size, result->text.size ? result->text.data : "");
  post(ctx, &e);
}

/* ---- the loop submits ---- */

static tp_status submit_phase(host *h, tp_fault *fault) {
  const tp_turn_request request = {.struct_size = sizeof request, .id = "of-the-host"};
  tp_status status = tp_turn_begin_bare(h->runtime, &request, &h->turn, fault);
  if (status != TP_OK) return status;
  return tp_phase_submit(h->turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL, phase_ended, h, fault);
}

static tp_status submit_tools(host *h, tp_fault *fault) {
  const tp_tool_call first = {.struct_size = sizeof first, .name = tp_text_of("clock")};
  const tp_tool_call second = {.struct_size = sizeof second, .name = tp_text_of("thermometer")};
  const tp_tool_call *calls[] = {&first, &second};
  return tp_tools_submit(h->turn, calls, 2, tools_ended, h, fault);
}

static tp_status submit_turn(host *h, tp_fault *fault) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("Good morning!")};
  return tp_turn_submit(h->session, &request, turn_ended, h, NULL, fault);
}

/* ---- what the loop reads ---- */

static void take_end(host *h) {
  end e;
  tp_fault fault;
  tp_status status = TP_OK;
  if (read(h->ends[0], &e, sizeof e) != sizeof e) return;
  switch (e.kind) {
    case PHASE_END:
      printf("the phase has ended: %s\n", tp_status_name(e.status));
      status = submit_tools(h, &fault);
      break;
    case TOOLS_END:
      for (size_t i = 0; i < e.count; i++)
        printf("%.*s: %s: %.*s\n", (int)e.results[i]->name.size, e.results[i]->name.data,
               tp_tool_result_name(e.results[i]->kind), (int)e.results[i]->text.size, e.results[i]->text.data);
      tp_turn_end(h->turn); /* and with it the results */
      h->turn = NULL;
      status = submit_turn(h, &fault);
      break;
    case TURN_END:
      printf("the turn has ended: %s: %s\n", tp_status_name(e.status), e.text);
      h->is_done = true;
      break;
  }
  if (status == TP_OK) return;
  fprintf(stderr, "%s\n", fault.message);
  h->is_done = true;
}

static void contribute_tools(const host *h, const tp_work *work) {
  const tp_tool clock = {.struct_size = sizeof clock, .name = "clock", .inbox = h->inbox};
  const tp_tool thermometer = {.struct_size = sizeof thermometer, .name = "thermometer", .inbox = h->inbox};
  const tp_tool *tools[] = {&clock, &thermometer};
  tp_status status = tp_call_emit_tool_bundle(work->call, "senses", tools, 2, NULL);
  const tp_outcome outcome = {.struct_size = sizeof outcome,
                              .kind = status == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED};
  (void)tp_token_complete(work->token, &outcome, NULL);
}

static void answer(const host *h, const tp_work *work) {
  switch (work->kind) {
    case TP_WORK_HANDLER:
      contribute_tools(h, work);
      break;
    case TP_WORK_TOOL:
      (void)tp_tool_complete(work->token, false, tp_text_of("it is 12"), NULL);
      break;
    default: /* a cancel, an end or a destroy; or of a newer library */
      if (tp_work_release(work) != TP_OK) (void)tp_token_abandon(work->token, NULL);
  }
}

static void take_work(const host *h) {
  const tp_work *work;
  while (tp_inbox_next(h->inbox, &work) == TP_OK && work) answer(h, work);
}

static void run_loop(host *h) {
  struct pollfd waits[] = {{.fd = tp_inbox_fd(h->inbox), .events = POLLIN}, {.fd = h->ends[0], .events = POLLIN}};
  while (!h->is_done && poll(waits, 2, -1) > 0) {
    if (waits[0].revents) take_work(h);
    if (waits[1].revents) take_end(h);
  }
}

/* ---- what goes wrong: the phase is under way, since the loop has not taken the call of its handler ---- */

static void make_mistakes(host *h) {
  tp_fault fault;
  if (tp_phase_submit(h->turn, TP_PHASE_TURN_INTAKE, NULL, NULL, h, &fault) != TP_OK)
    printf("%s: %s\n", tp_status_name(fault.code), fault.message);
  if (submit_tools(h, &fault) != TP_OK) printf("%s: %s\n", tp_status_name(fault.code), fault.message);
}

/* ---- the start and the end ---- */

static bool start(host *h, tp_fault *fault) {
  const tp_model_response answer = {.struct_size = sizeof answer, .text = tp_text_of("Hello!")};
  const tp_model_response *answers[] = {&answer};
  tp_model *model;
  if (tp_script_model_new(answers, 1, true, &model, fault) != TP_OK) return false;
  const tp_session_options options = {.struct_size = sizeof options, .id = "first", .model = model};
  if (tp_runtime_new(NULL, &h->runtime, fault) == TP_OK &&
      tp_session_open(h->runtime, &options, &h->session, fault) == TP_OK)
    return true;
  tp_model_free(model); /* no session has taken it */
  return false;
}

static bool subscribe(host *h, tp_fault *fault) {
  if (tp_inbox_new(h->runtime, NULL, &h->inbox, fault) != TP_OK) return false;
  const tp_hook hook = {
      .struct_size = sizeof hook, .id = "senses", .phase = "turn.pre_tool_materialization", .inbox = h->inbox};
  return tp_hook_add(h->runtime, &hook, fault) == TP_OK;
}

int main(void) {
  host h = {0};
  tp_fault fault;
  if (pipe(h.ends) != 0) return 1;
  bool ok = start(&h, &fault) && subscribe(&h, &fault) && submit_phase(&h, &fault) == TP_OK;
  if (ok) {
    make_mistakes(&h);
    run_loop(&h);
  } else {
    fprintf(stderr, "%s\n", fault.message);
  }
  tp_turn_end(h.turn);
  tp_session_close(h.session, NULL, NULL);
  tp_inbox_free(h.inbox);
  tp_runtime_free(h.runtime); /* no completion comes any more */
  close(h.ends[0]);
  close(h.ends[1]);
  return ok ? 0 : 1;
}
