/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/turn/end.h"

#include "phases/turn/result.h"
#include "runtime/base/bug.h"
#include "runtime/exec/runtime.h"
#include "runtime/inbox/inbox.h"
#include "turnphase/task.h"

struct tp_end {
  /* never changes after new */
  tp_allocator allocator;
  tp_inbox *inbox; /* referenced */
  /* Used by the thread that reports the end, then by the inbox */
  tp__inbox_note note;
  tp_end *next_held;
  tp_work_end shown;
  union {
    tp__result turn;
    tp_phase_result phase;
    struct {
      tp_agent_result result;
      tp_fault fault;
    } agent;
    tp_drain_report drain;
    tp_jobs_wait_result jobs;
    struct {
      tp_task_result result;
      tp_fault fault;
      tp__arena arena; /* of the texts */
      tp_question question;
      tp_tool_call call;
      tp_text ids[TP_ID_COUNT];
    } task;
  };
};

static tp_end *end_of_note(tp__inbox_note *note) { return TP__CONTAINER(note, tp_end, note); }

static void free_end(tp_end *end) {
  tp_allocator allocator = end->allocator;
  if (end->shown.kind == TP_END_TURN) tp__result_fini(&end->turn);
  if (end->shown.kind == TP_END_TASK) tp__arena_fini(&end->task.arena);
  tp__inbox_unref(end->inbox);
  tp__release(&allocator, end, sizeof *end);
}

static bool taken(tp__inbox_note *note) {
  TP__ASSERT(end_of_note(note)->shown.kind);
  return true;
}

static void released(tp__inbox_note *note) {
  tp__inbox_unref(note->item.inbox); /* the put acquired it */
  free_end(end_of_note(note));
}

tp_status tp_end_new(tp_inbox *inbox, void *ctx, tp_end **ret_end, tp_fault *fault) {
  if (!inbox || !ret_end) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_end_new needs an inbox and ret_end");
  if (tp__inbox_is_of_session(inbox))
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_end_new: TP_INBOX_OF_SESSION is no inbox: an end is of no session");
  if (tp__inbox_is_forked(inbox)) return tp__fail_forked(fault);
  const tp_allocator *allocator = tp__inbox_allocator(inbox);
  tp_end *end = tp__alloc_zero(allocator, sizeof *end);
  if (!end) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for an end");
  end->allocator = *allocator;
  end->inbox = inbox;
  tp__inbox_ref(inbox);
  end->shown.struct_size = sizeof end->shown;
  end->note = (tp__inbox_note){.take = taken, .end = released};
  end->note.item.work = (tp_work){.struct_size = sizeof(tp_work), .kind = TP_WORK_END, .ctx = ctx, .end = &end->shown};
  *ret_end = end;
  return TP_OK;
}

void tp_end_free(tp_end *end) {
  if (!end) return;
  TP__ASSERT(!end->shown.kind); /* its work neither waits nor was taken */
  free_end(end);
}

/* ---- putting ---- */

static void put_end_note(tp_end *end) {
  if (!tp__inbox_put_note(end->inbox, &end->note)) free_end(end); /* the inbox was freed */
}

void tp__ends_hold(tp__ends *ends) {
  tp__here *here = tp__here_get();
  *ends = (tp__ends){.outer = here->held};
  here->held = ends;
}

void tp__ends_put(tp__ends *ends) {
  TP__ASSERT(tp__here_get()->held == ends);
  tp__here_get()->held = ends->outer;
  for (tp_end *end = ends->first, *next; end; end = next) {
    next = end->next_held;
    put_end_note(end);
  }
}

static void put_or_hold(tp_end *end, tp_end_kind kind) {
  TP__ASSERT(!end->shown.kind); /* an end is used once */
  end->shown.kind = kind;
  tp__ends *held = tp__here_get()->held;
  if (!held || TP__BUG(TP__BUG_EARLY_END)) {
    put_end_note(end);
    return;
  }
  if (held->last) held->last->next_held = end;
  else held->first = end;
  held->last = end;
}

/* ---- the functions for on_end ---- */

void tp_end_of_turn(void *ctx, const tp_turn_result *result) {
  tp_end *end = ctx;
  if (!end || !result) return;
  tp__result_init(&end->turn, &end->allocator);
  tp__result_fill(&end->turn, result);
  end->shown.turn = &end->turn.shown;
  put_or_hold(end, TP_END_TURN);
}

void tp_end_of_session(void *end) {
  if (end) put_or_hold(end, TP_END_SESSION);
}

void tp_end_of_phase(void *ctx, const tp_phase_result *result) {
  tp_end *end = ctx;
  if (!end || !result) return;
  end->phase = *result;
  end->shown.phase = &end->phase;
  put_or_hold(end, TP_END_PHASE);
}

void tp_end_of_tools(void *ctx, const tp_tool_result *const *results, size_t count) {
  tp_end *end = ctx;
  if (!end) return;
  end->shown.results = results;
  end->shown.result_count = count;
  put_or_hold(end, TP_END_TOOLS);
}

void tp_end_of_agent(void *ctx, const tp_agent_result *result) {
  tp_end *end = ctx;
  if (!end || !result) return;
  end->agent.result = *result;
  if (result->fault) {
    end->agent.fault = *result->fault;
    end->agent.result.fault = &end->agent.fault;
  }
  end->shown.agent = &end->agent.result;
  put_or_hold(end, TP_END_AGENT);
}

void tp_end_of_drain(void *ctx, const tp_drain_report *report) {
  tp_end *end = ctx;
  if (!end || !report) return;
  end->drain = *report;
  end->shown.drain = &end->drain;
  put_or_hold(end, TP_END_DRAIN);
}

void tp_end_of_jobs(void *ctx, const tp_jobs_wait_result *result) {
  tp_end *end = ctx;
  if (!end || !result) return;
  end->jobs = *result;
  end->shown.jobs = &end->jobs;
  put_or_hold(end, TP_END_JOBS);
}

/* Empty where memory is short. */
static void copy_end_text(tp_end *end, tp_text *text) {
  if (!tp__arena_text(&end->task.arena, *text, text)) *text = (tp_text){"", 0};
}

static void copy_question(tp_end *end, const tp_question *question) {
  tp_question *q = &end->task.question;
  *q = *question;
  end->task.call = *question->call;
  for (size_t i = 0; i < TP_ID_COUNT; i++) {
    end->task.ids[i] = question->ids[i];
    copy_end_text(end, &end->task.ids[i]);
  }
  q->ids = end->task.ids;
  q->call = &end->task.call;
  tp_text *texts[] = {&q->subscription,   &q->reason,           &q->arguments_hash,       &q->key,
                      &end->task.call.id, &end->task.call.name, &end->task.call.arguments};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) copy_end_text(end, texts[i]);
  end->task.result.question = q;
}

void tp_end_of_task(void *ctx, const tp_task_result *result) {
  tp_end *end = ctx;
  if (!end || !result) return;
  tp__arena_init(&end->task.arena, &end->allocator, NULL, 0, 0);
  end->task.result = *result;
  copy_end_text(end, &end->task.result.key);
  copy_end_text(end, &end->task.result.text);
  copy_end_text(end, &end->task.result.value);
  copy_end_text(end, &end->task.result.parts);
  if (result->fault) {
    end->task.fault = *result->fault;
    end->task.result.fault = &end->task.fault;
  }
  if (result->question) copy_question(end, result->question);
  end->shown.task = &end->task.result;
  put_or_hold(end, TP_END_TASK);
}
