/* SPDX-License-Identifier: Apache-2.0 */
#include "task_work.h"

#include <stdio.h>
#include <stdlib.h>

#include "turnphase/task.h"

enum { HOSTS_TASKS_MAX = 6, NOTES_MAX = 3 * HOSTS_TASKS_MAX };

typedef enum task_policy { POLICY_ALLOWS, POLICY_ASKS, POLICY_DENIES, POLICIES } task_policy;
typedef enum task_person { ANSWER_ALLOWS, ANSWER_DENIES, ANSWER_TWICE, ANSWER_ABANDONS, ANSWER_NEVER, PERSONS } person;

/* What is noted of one submitted task. */
typedef struct task_note {
  struct task_work *t;
  uint32_t index;
  tp_task_operation operation;
  task_policy policy;
  person person;
  int64_t person_ns, cancel_ns; /* 0: at once; cancel_ns 0: it is not cancelled */
  tp_submission *submission;
  uint32_t ends, asks, runs, answers;
  bool taken;     /* the submit was accepted */
  bool cancelled; /* a cancel was asked for */
  bool allowed;   /* the answer that was accepted allows it */
  bool is_second; /* it is the second of two runs of one task */
  char key[64];   /* the key of its task; empty: it has none */
  tp_token token;
  char hash[64];
  tp_status status;
  tp_tool_result_kind kind;
  bool started;
} task_note;

struct task_work {
  world *w;
  tp__parker parker;
  uint32_t count, open; /* count: notes; open: accepted tasks that have not ended, and fibers that look at them */
  task_note notes[NOTES_MAX];
};

#define FAIL(note, property, format, ...) \
  world_fail((note)->t->w, (property), "task %u (operation %d): " format, (note)->index, (note)->operation, __VA_ARGS__)

static void close_one(struct task_work *t) {
  t->open--;
  tp__parker_unpark(&t->parker);
}

/* The task to which the turn belongs. NULL: it belongs to no task. */
static task_note *note_of(struct task_work *t, tp_text turn) {
  if (!t || turn.size < 2 || turn.data[0] != 'K') return NULL;
  uint32_t index = (uint32_t)(turn.data[1] - 'a');
  return index < t->count ? &t->notes[index] : NULL;
}

/* ---- people ---- */

static void answer(task_note *note, tp_verdict verdict) {
  const tp_decision decision = {
      .struct_size = sizeof decision, .verdict = verdict, .arguments_hash = tp_text_of(note->hash)};
  if (verdict == TP_VERDICT_ALLOW) note->allowed = true; /* the task may end before the answer returns */
  tp_status status = tp_question_answer(note->token, &decision, NULL);
  if (status == TP_ERR_STALE) {
    if (verdict == TP_VERDICT_ALLOW) note->allowed = false;
    return;
  }
  if (status != TP_OK) FAIL(note, "an answer is taken or stale", "it gave %s", tp_status_name(status));
  if (++note->answers > 1) FAIL(note, "a question is answered once", "%u answers were taken", note->answers);
}

static void answer_first(task_note *note) {
  if (note->person == ANSWER_ABANDONS) (void)!tp_token_abandon(note->token, NULL);
  else answer(note, note->person == ANSWER_DENIES ? TP_VERDICT_DENY : TP_VERDICT_ALLOW);
}

static void answer_later(void *arg) {
  task_note *note = arg;
  tp__sim_sleep_ns(note->person_ns);
  answer_first(note);
  if (note->person == ANSWER_TWICE) answer(note, TP_VERDICT_DENY);
  close_one(note->t);
}

static void on_asked(void *ctx, const tp_task_result *result) {
  task_note *note = ctx;
  if (++note->asks > 1) FAIL(note, "a task is asked about once", "%u times", note->asks);
  if (note->ends) FAIL(note, "no question after the end", "%u", note->ends);
  if (!result->asked || !result->question || result->kind != TP_TOOL_NONE)
    FAIL(note, "a question says that it is one", "kind %d", result->kind);
  note->token = result->question->token;
  snprintf(note->hash, sizeof note->hash, "%.*s", (int)result->question->arguments_hash.size,
           result->question->arguments_hash.data);
  if (note->person == ANSWER_NEVER) return;
  note->t->open++;
  if (note->person_ns > 0 && world_start("person", answer_later, note)) return;
  note->t->open--;
  answer_first(note);
}

/* ---- ends ---- */

static void submit(struct task_work *t, tp_task_operation operation, const char *key, bool is_second);

static bool is_inline(const task_note *note) { return note->index % 2 == 1; }

/* What may end so, and does not say that a tool ran that no person allowed. */
static void check_end(const task_note *note, const tp_task_result *result) {
  const world *w = note->t->w;
  bool asked = note->policy == POLICY_ASKS;
  if (result->asked || result->question) FAIL(note, "an end is no question", "kind %d", result->kind);
  bool on_its_way = result->started && !is_inline(note); /* a thread, into the function */
  if (result->started != (note->runs > 0) && !on_its_way)
    FAIL(note, "a result says whether the tool was called", "%u runs, started %d", note->runs, result->started);
  if (result->status != TP_OK) {
    if (world_is_fault_free(w) && !note->is_second)
      FAIL(note, "a task without trouble is asked", "%s", tp_status_name(result->status));
    return;
  }
  if (note->runs && asked && !note->allowed) FAIL(note, "an asked call runs when a person allows it", "%u", note->asks);
  if (note->runs && note->policy == POLICY_DENIES) FAIL(note, "what is denied never runs", "%u", note->runs);
  if (result->kind == TP_TOOL_CANCELLED && !note->cancelled && !w->s->drain_ns && !w->draining)
    FAIL(note, "no cancel that was not asked for", "answers %u", note->answers);
  if (!world_is_fault_free(w) || note->cancelled) return;
  bool denied = note->policy == POLICY_DENIES || (asked && !note->allowed);
  if ((result->kind == TP_TOOL_OK) == denied)
    FAIL(note, "a task comes to what its policy and its person say", "%s, denied %d", tp_tool_result_name(result->kind),
         denied);
}

static void on_end(void *ctx, const tp_task_result *result) {
  task_note *note = ctx;
  struct task_work *t = note->t;
  if (++note->ends > 1) FAIL(note, "a task ends once", "%u times", note->ends);
  if (t->w->freed) FAIL(note, "no end after the runtime", "%u", note->ends);
  note->status = result->status;
  note->kind = result->kind;
  note->started = result->started;
  check_end(note, result);
  if (note->operation == TP_TASK_CREATE && result->status == TP_OK && result->kind == TP_TOOL_OK) {
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)result->key.size, result->key.data);
    submit(t, TP_TASK_RUN, key, false);
    if (world_one_in(3)) submit(t, TP_TASK_RUN, key, true);
  }
  close_one(t);
}

/* ---- the host ---- */

static void cancel_later(void *arg) {
  task_note *note = arg;
  tp__sim_sleep_ns(note->cancel_ns);
  note->cancelled = true;
  tp_submission_cancel(note->submission);
  close_one(note->t);
}

/* A task that is cancelled in a gate leaves the gate's function running, with its permit. If that permit is the only
 * one, calls of other turns are denied for no_permit. So no task is cancelled there in a world without trouble. */
static void draw(task_note *note) {
  bool calm = world_is_fault_free(note->t->w);
  note->policy = world_one_in(2) ? POLICY_ASKS : (task_policy)tp__sim_random(POLICIES);
  note->person = (person)tp__sim_random(calm ? ANSWER_NEVER : PERSONS);
  note->person_ns = world_one_in(4) ? 0 : 1 + (int64_t)tp__sim_random(3 * TP__NS_PER_MS);
  note->cancel_ns = !calm && world_one_in(3) ? 1 + (int64_t)tp__sim_random(4 * TP__NS_PER_MS) : 0;
}

/* A second run finds the task in use, finished, or, if the first run was denied, still there. */
static void check_submit(const task_note *note, tp_status status) {
  bool gone = status == TP_ERR_BUSY || status == TP_ERR_NOT_FOUND;
  if (note->operation == TP_TASK_RUN && note->is_second && gone) return;
  world_check_status(note->t->w, "a task", status);
}

static void submit(struct task_work *t, tp_task_operation operation, const char *key, bool is_second) {
  if (t->count >= NOTES_MAX) return;
  task_note *note = &t->notes[t->count];
  char id[] = {'K', (char)('a' + t->count), '\0'};
  *note = (task_note){.t = t, .index = t->count++, .operation = operation, .is_second = is_second};
  draw(note);
  if (key) snprintf(note->key, sizeof note->key, "%s", key);
  tp_turn_request request = {.struct_size = sizeof request, .id = id};
  tp_task_spec spec = {.struct_size = sizeof spec,
                       .tool = operation == TP_TASK_RUN ? NULL : "tasked",
                       .key = key,
                       .request = &request,
                       .on_asked = on_asked,
                       .on_asked_ctx = note};
  note->taken = true; /* the end of the task may be reported before the submit returns */
  t->open++;
  tp_status status = tp_task_submit(t->w->runtime, operation, &spec, on_end, note, &note->submission, NULL);
  check_submit(note, status);
  if (status != TP_OK) {
    note->taken = false;
    t->open--;
    return;
  }
  t->open++;
  if (!note->cancel_ns || !world_start("canceller", cancel_later, note)) t->open--;
}

void task_work_run(void *arg) {
  struct task_work *t = ((world *)arg)->tasks;
  if (!t || tp__parker_init(&t->parker) != TP_OK) return;
  uint32_t count = 1 + (uint32_t)tp__sim_random(HOSTS_TASKS_MAX);
  for (uint32_t i = 0; i < count; i++) {
    submit(t, world_one_in(2) ? TP_TASK_CALL : TP_TASK_CREATE, NULL, false);
    if (world_one_in(2)) tp__sim_sleep_ns((int64_t)tp__sim_random(TP__NS_PER_MS));
  }
  while (t->open > 0) tp__parker_park_until(&t->parker, TP__NEVER);
  for (uint32_t i = 0; i < t->count; i++) tp_submission_unref(t->notes[i].submission);
}

/* ---- the tool and its policy ---- */

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  struct task_work *t = ctx;
  task_note *note = note_of(t, tp_tool_run_id(run, TP_ID_TURN));
  if (!note) {
    world_fail(t->w, "a tool sees its own call", "%s", "a task of none");
    return tp_tool_error(run, tp_text_of("of no task"));
  }
  if (++note->runs > 1) FAIL(note, "a tool is called once a call", "%u times", note->runs);
  for (uint32_t i = 0; note->key[0] && i < t->count; i++)
    if (&t->notes[i] != note && t->notes[i].runs && strcmp(t->notes[i].key, note->key) == 0)
      FAIL(note, "a task is run once", "task %u ran it, too", i);
  return tp_tool_ok(run, tp_text_of("ran"));
}

static tp_answer contribute(void *ctx, tp_call *call) {
  struct task_work *t = ((world *)ctx)->tasks;
  const task_note *note = note_of(t, tp_call_id(call, TP_ID_TURN));
  if (!note) return TP_ANSWER_DONE;
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = "tasked",
                        .run = run_tool,
                        .ctx = t,
                        .placement = is_inline(note) ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD};
  const tp_tool *list[] = {&tool};
  static const char *const words[POLICIES] = {"allow", "ask", "deny"};
  if (tp_call_phase(call) == TP_PHASE_TURN_PRE_POLICY)
    return tp_call_emit_policy(call, "tool", "tasked", words[note->policy], 0, NULL) == TP_OK
               ? TP_ANSWER_DONE
               : tp_call_fail(call, 1, "no policy");
  return tp_call_emit_tool_bundle(call, "tasked", list, 1, NULL) == TP_OK ? TP_ANSWER_DONE
                                                                          : tp_call_fail(call, 1, "no tools");
}

tp_status task_work_register(world *w, tp_edit *edit) {
  static const world_hook policy = {.id = "z.tasks.policy",
                                    .phase = TP_PHASE_TURN_PRE_POLICY,
                                    .run = contribute,
                                    .capabilities = TP_CAPABILITY_CONTRIBUTE_POLICY,
                                    .is_inline = true};
  static const world_hook tools = {.id = "z.tasks",
                                   .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION,
                                   .run = contribute,
                                   .capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE,
                                   .is_inline = true};
  w->tasks = calloc(1, sizeof *w->tasks);
  if (!w->tasks) abort();
  w->tasks->w = w;
  TP__TRY(world_subscribe(w, edit, &policy));
  return world_subscribe(w, edit, &tools);
}

void task_work_ended(world *w) {
  struct task_work *t = w->tasks;
  for (uint32_t i = 0; t && i < t->count; i++) {
    const task_note *note = &t->notes[i];
    if (note->ends != note->taken) FAIL(note, "a task ends once", "%u times, taken %d", note->ends, note->taken);
  }
}
