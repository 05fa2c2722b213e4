/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_work_oracle.c: the properties of a host's own dispatches. If nothing interferes, the result of a call follows
 * from the draw; any other end needs a reason in the world. */
#include <stdio.h>
#include <stdlib.h>

#include "tool_work.h"

enum { TURN_LIMIT_MS = 600000, TOOL_LIMIT_MS = 120000, ALLOWANCE_NS = TP__NS_PER_MS };

const char tool_work_progress_words[] = "on its way";
const char tool_work_second_words[] = "as another thread says, that was faster";
const char tool_work_hasty_words[] = "at once all the same";

static const char malformed_words[] = "the tool deferred and answered at once";
static const char refused_words[] = "too many calls are waiting";

#define FAIL(call, property, format, ...)                                                                        \
  world_fail((call)->batch->e->w, (property), "call %u of batch %u of tool workload %u: " format, (call)->index, \
             (call)->batch->index, (call)->batch->e->index, __VA_ARGS__)

static const script *script_of(const tool_work_call *call) { return call->batch->e->w->s; }
static bool has_gate(const tool_work_call *call) { return script_of(call)->turn_work_count > 0; }
static bool may_want_memory(const tool_work_call *call) { return script_of(call)->fault_level == FAULTS_REFUSALS; }
static bool has_stamps(const tool_work_call *call) { return script_of(call)->options.timestamps == TP_TIMESTAMPS_FULL; }
static bool is_inline(const tool_work_call *call) { return !tool_work_is_threaded(call->tool); }
static bool is_answer(tp_tool_result_kind kind) { return kind == TP_TOOL_OK || kind == TP_TOOL_HANDLER_ERROR; }

/* ---- what a call comes to when nothing speaks against it ---- */

static bool fits(const tool_work_call *call) {
  if (call->arguments == ARGUMENTS_NUMBER || call->arguments == ARGUMENTS_LONG) return true;
  if (call->tool == TOOL_STRICT) return false;
  return call->arguments == ARGUMENTS_NONE || call->arguments == ARGUMENTS_OTHER || call->arguments == ARGUMENTS_EMPTY;
}

static bool never_answers(const tool_work_call *call) {
  return call->way == WAY_DEFER_NEVER || call->way == WAY_DEFER_ON_CANCEL || call->way == WAY_DEFER_AFTER_FREE;
}

static bool says_failure(const tool_work_call *call) { return call->fails || call->way == WAY_DEFER_AND_RETURN; }

static bool is_asked(const tool_work_call *call) {
  return call->tool == TOOL_ASKED && tool_work_has_people(call->batch->e->w);
}

static tp_tool_result_kind expected(const tool_work_call *call) {
  bool overruns = call->tool == TOOL_BRIEF && call->before_ns > TOOL_WORK_BRIEF_MS * TP__NS_PER_MS;
  if (call->tool == TOOL_UNKNOWN) return TP_TOOL_UNKNOWN_TOOL;
  if (!fits(call)) return TP_TOOL_INVALID_ARGUMENTS;
  if (call->tool == TOOL_BARRED && has_gate(call)) return TP_TOOL_DENIED;
  if (is_asked(call) && call->person != PERSON_ALLOWS && call->person != PERSON_ANSWERS_TWICE) return TP_TOOL_DENIED;
  if (overruns || never_answers(call)) return TP_TOOL_TIMED_OUT;
  return says_failure(call) ? TP_TOOL_HANDLER_ERROR : TP_TOOL_OK;
}

/* ---- time ---- */

int64_t tool_work_turn_limit_ns(const tool_work *e) {
  return (e->limit_ms ? (int64_t)e->limit_ms : TURN_LIMIT_MS) * TP__NS_PER_MS;
}

static int64_t limit_of(const tool_work_call *call) {
  bool single = call->tool == TOOL_SINGLE && script_of(call)->fault_level != FAULTS_NONE;
  int64_t limit_ms = call->tool == TOOL_BRIEF ? TOOL_WORK_BRIEF_MS : single ? TOOL_WORK_SINGLE_MS : TOOL_LIMIT_MS;
  return limit_ms * TP__NS_PER_MS;
}

static bool was_cancelled(const tool_work *e) { return e->cancelled_ns || e->w->drain_ns; }

/* One may have been on its way; a call after it finds the turn over. */
static void check_may_begin(const tool_work_call *call) {
  tool_work *e = call->batch->e;
  bool late = e->limit_end_ns && !e->has_asked && has_stamps(call) && call->called_ns > e->limit_end_ns;
  bool over = e->is_cancelled || late;
  if (over && ++e->late_calls > 1)
    FAIL(call, "nothing begins behind a cancel or the turn's deadline", "%u calls did", e->late_calls);
}

/* If the clock does not jump, the time left is the tool's own limit, or the rest of the turn's time. */
static void check_time_left(const tool_work_call *call, int64_t left_ms) {
  const tool_work *e = call->batch->e;
  int64_t own_ns = limit_of(call), left_ns = left_ms * TP__NS_PER_MS;
  int64_t turn_ns = e->limit_begin_ns + tool_work_turn_limit_ns(e) - call->called_ns;
  int64_t least_ns = (turn_ns < own_ns ? turn_ns : own_ns) - 2 * TP__NS_PER_MS;
  bool known = !was_cancelled(e) && script_of(call)->fault_level <= FAULTS_HANGS;
  if (left_ns > own_ns || (known && left_ns < least_ns))
    FAIL(call, "a tool has its own time", "%lld ms are left", (long long)left_ms);
}

void tool_work_called(const tool_work_call *call, int64_t left_ms) {
  check_may_begin(call);
  check_time_left(call, left_ms);
}

/* It ends by its deadline, or when the inline functions that hold its owner have returned. */
static void check_deadline(const tool_work_call *call) {
  const world *w = call->batch->e->w;
  if (!call->called_ns || !call->end_ns || w->s->fault_level > FAULTS_HANGS) return;
  if (w->s->options.pump) return; /* a function holds up the pump */
  int64_t end_ns = is_inline(call) ? call->deadline_max_ns : call->called_ns + limit_of(call);
  int64_t late_ns = call->end_ns - end_ns - ALLOWANCE_NS;
  if (late_ns > 0 && late_ns > oracle_inline_between(w, end_ns, call->end_ns))
    FAIL(call, "deadlines hold", "it ended %lld us behind its own", (long long)late_ns / TP__NS_PER_US);
}

/* ---- whose words a result is ---- */

/* The last byte of such a text is no UTF-8. */
static tp_text given(const tool_work_call *call, char *buffer) {
  if (!call->no_utf8) return (tp_text){call->text, call->text_size};
  memcpy(buffer, call->text, call->text_size - 1);
  memcpy(buffer + call->text_size - 1, "\xEF\xBF\xBD", 3);
  return (tp_text){buffer, call->text_size + 2};
}

static bool is_shown(const tool_work_call *call, tp_text text, tp_text result) {
  if (call->tool != TOOL_TERSE || text.size <= TOOL_WORK_TERSE_BYTES) return tp_text_equal(result, text);
  char cut[TOOL_WORK_TERSE_BYTES + 64];
  int half = TOOL_WORK_TERSE_BYTES / 2;
  size_t tail = text.size - (size_t)half;
  while ((text.data[tail] & 0xC0) == 0x80) tail++;
  snprintf(cut, sizeof cut, "%.*s\n[… %zu bytes left out …]\n%.*s", half, text.data, tail - (size_t)half,
           (int)(text.size - tail), text.data + tail);
  return tp_text_is(result, cut);
}

static bool is_first(const tool_work_call *call, const tp_tool_result *result) {
  if ((result->kind == TP_TOOL_HANDLER_ERROR) != call->fails) return false;
  char *buffer = malloc(call->text_size + 2);
  if (!buffer) abort();
  bool is_same = is_shown(call, given(call, buffer), result->text);
  free(buffer);
  return is_same;
}

static bool begins(tp_text text, const char *with) {
  return text.size >= strlen(with) && memcmp(text.data, with, strlen(with)) == 0;
}

static tool_work_words words_of(const tool_work_call *call, const tp_tool_result *result) {
  bool failed = result->kind == TP_TOOL_HANDLER_ERROR;
  if (!is_answer(result->kind)) return WORDS_NONE;
  if (is_first(call, result)) return WORDS_FIRST;
  if (!failed && tp_text_is(result->text, tool_work_second_words)) return WORDS_SECOND;
  if (failed && tp_text_is(result->text, malformed_words)) return WORDS_MALFORMED;
  if (failed && tp_text_is(result->text, refused_words)) return WORDS_REFUSED;
  if (failed && begins(result->text, "no memory for the ")) return WORDS_NO_MEMORY;
  return WORDS_STRANGE;
}

static bool may_say(const tool_work_call *call, tool_work_words words) {
  switch (words) {
    case WORDS_FIRST:
      return !never_answers(call) && (call->way != WAY_DEFER_AND_RETURN || call->polite);
    case WORDS_SECOND:
      return call->way == WAY_DEFER_TWICE;
    case WORDS_MALFORMED:
      return call->way == WAY_DEFER_AND_RETURN;
    case WORDS_REFUSED:
      return call->refused && (script_of(call)->options.deferred_max > 0 || may_want_memory(call));
    case WORDS_NO_MEMORY:
      return may_want_memory(call);
    default:
      return false;
  }
}

/* ---- reasons for any other end ---- */

/* When the call ended: its event has the time. A host without a listener only knows when all calls had ended. */
static int64_t end_of(const tool_work_call *call) { return call->end_ns ? call->end_ns : tp__now_ns(); }

static bool is_out_of_time(const tool_work_call *call, const tp_tool_result *result) {
  const tool_work *e = call->batch->e;
  int64_t now_ns = end_of(call);
  if (now_ns >= e->limit_begin_ns + tool_work_turn_limit_ns(e)) return true;
  bool was_called = result->started && call->calls > 0 && call->called_ns <= now_ns; /* else it was on its way */
  if (was_called) return now_ns >= call->deadline_ns;
  return !is_inline(call) && now_ns >= call->batch->begun_ns + limit_of(call); /* in line for a thread */
}

static bool is_said_to_be_barred(const tp_tool_result *result) {
  static const char words[] = "it is barred";
  return memmem(result->text.data, result->text.size, words, sizeof words - 1) != NULL;
}

/* Its function may still run, as far as the library knows. */
static bool is_behind_one_given_up(const tool_work_call *call) {
  for (uint32_t i = 0; i < call->index; i++) {
    const tool_work_call *earlier = &call->batch->calls[i];
    bool ended_early = earlier->kind == TP_TOOL_TIMED_OUT || earlier->kind == TP_TOOL_CANCELLED;
    if (earlier->started && ended_early && tool_work_conflict(earlier, call)) return true;
  }
  return false;
}

static bool was_cancelled_alone(const tool_work_call *call) {
  const tool_work *e = call->batch->e;
  char buffers[2][16];
  if (!e->calls_cancelled) return false;
  return !e->to_cancel || tp_text_equal(tool_work_id(e->to_cancel, buffers[0]), tool_work_id(call, buffers[1]));
}

static bool has_reason(const tool_work_call *call, const tp_tool_result *result) {
  bool fault_free = script_of(call)->fault_level == FAULTS_NONE;
  switch (result->kind) {
    case TP_TOOL_OK:
    case TP_TOOL_HANDLER_ERROR: /* its words are looked at in any case */
      return !fault_free && expected(call) != TP_TOOL_UNKNOWN_TOOL && expected(call) != TP_TOOL_INVALID_ARGUMENTS &&
             expected(call) != TP_TOOL_DENIED;
    case TP_TOOL_UNKNOWN_TOOL:
      return !call->batch->sure;
    case TP_TOOL_DENIED: /* a gate that did not answer denies, too */
      if (fault_free || !fits(call)) return false;
      return is_asked(call) || (has_gate(call) && (call->tool == TOOL_BARRED || !is_said_to_be_barred(result)));
    case TP_TOOL_TIMED_OUT:
      return is_out_of_time(call, result);
    case TP_TOOL_CANCELLED:
      return was_cancelled(call->batch->e) || was_cancelled_alone(call);
    case TP_TOOL_SHED: /* abandoned functions may hold every permit, and every thread */
      return may_want_memory(call) || call->batch->e->w->draining || (!fault_free && !is_inline(call)) ||
             is_behind_one_given_up(call);
    default:
      return false;
  }
}

/* ---- the result of a call ---- */

static void check_name(const tool_work_call *call, const tp_tool_result *result) {
  char buffer[16];
  tp_text id = tool_work_id(call, buffer);
  if (!tp_text_equal(result->call_id, id))
    FAIL(call, "a result is that of its call", "it has the id '%.*s'", (int)result->call_id.size,
         result->call_id.data ? result->call_id.data : "");
  bool lost = result->name.size == 0 && may_want_memory(call) && (call->tool == TOOL_UNKNOWN || !call->batch->sure);
  if (!lost && !tp_text_is(result->name, tool_work_tool_name(call->tool)))
    FAIL(call, "a result is that of its call", "it has the name '%.*s'", (int)result->name.size, result->name.data);
}

static void check_words(tool_work_call *call, const tp_tool_result *result) {
  call->heard = words_of(call, result);
  if (!is_answer(result->kind)) {
    if (result->text.size == 0) FAIL(call, "every result says something", "%s", tp_tool_result_name(result->kind));
    return;
  }
  if (!result->started) FAIL(call, "who answers was called", "%s", tp_tool_result_name(result->kind));
  if (!may_say(call, call->heard))
    FAIL(call, "an answer is what was said in time", "%s: '%.*s' (%d)", tp_tool_result_name(result->kind),
         result->text.size < 80 ? (int)result->text.size : 80, result->text.data, call->heard);
}

/* A limit is checked when the function returns, with the clock of that moment. On a thread it counts from the call. */
static void check_limit(const tool_work_call *call, const tp_tool_result *result) {
  int64_t end_ns = is_inline(call) ? call->deadline_max_ns : call->called_ns + limit_of(call);
  bool returned = call->way == WAY_RETURN && has_stamps(call) && call->returned_ns;
  if (is_answer(result->kind) && returned && call->returned_ns > end_ns)
    FAIL(call, "an answer is what was said in time", "it came %lld ns late", (long long)(call->returned_ns - end_ns));
}

static void check_start(const tool_work_call *call, const tp_tool_result *result) {
  bool called = call->calls > 0;
  if (is_inline(call) && result->started != called) /* a thread may be on its way into the function */
    FAIL(call, "started says whether the tool was called", "%d, %u times", result->started, call->calls);
  if (!result->started && result->duration_ns != 0)
    FAIL(call, "what did not start has no duration", "%lld ns", (long long)result->duration_ns);
  if (result->duration_ns < 0) FAIL(call, "time goes on", "%lld ns", (long long)result->duration_ns);
}

static void check_kind(const tool_work_call *call, const tp_tool_result *result) {
  if (result->kind != expected(call) && !has_reason(call, result))
    FAIL(call, "a call ends as it must", "%s, not %s (way %d)", tp_tool_result_name(result->kind),
         tp_tool_result_name(expected(call)), call->way);
  if (result->kind == TP_TOOL_TIMED_OUT && !is_out_of_time(call, result))
    FAIL(call, "no time-out before its time", "%lld us are left",
         (long long)(call->deadline_ns - end_of(call)) / TP__NS_PER_US);
}

static void check_call_events(const tool_work_call *call, const tp_tool_result *result) {
  if (!call->batch->e->in_session) return;
  if (call->event_ends != 1) FAIL(call, "one begin and one end a call", "%u ends", call->event_ends);
  if (result->started && call->event_begins != 1)
    FAIL(call, "one begin and one end a call", "%u begins", call->event_begins);
}

static void check_result(tool_work_call *call, const tp_tool_result *result) {
  call->kind = result->kind;
  call->started = result->started;
  check_name(call, result);
  check_words(call, result);
  check_limit(call, result);
  check_deadline(call);
  check_start(call, result);
  check_kind(call, result);
  check_call_events(call, result);
}

/* ---- a batch ---- */

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
  const unsigned char *next = bytes;
  for (size_t i = 0; i < size; i++) hash = (hash ^ next[i]) * UINT64_C(0x100000001B3);
  return hash;
}

static uint64_t hash_text(uint64_t hash, tp_text text) {
  return hash_bytes(hash_bytes(hash, &text.size, sizeof text.size), text.data, text.size);
}

static uint64_t hash_results(const tp_tool_result *const *results, size_t count, bool timed) {
  uint64_t hash = UINT64_C(0xCBF29CE484222325);
  for (size_t i = 0; i < count; i++) {
    const tp_tool_result *result = results[i];
    uint32_t numbers[] = {result->kind, result->started, timed ? result->completion_order : 0};
    hash = hash_bytes(hash, numbers, sizeof numbers);
    if (timed) hash = hash_bytes(hash, &result->duration_ns, sizeof result->duration_ns);
    hash = hash_text(hash_text(hash_text(hash, result->call_id), result->name), result->text);
  }
  return hash;
}

static void check_order(const tool_work_batch *batch, const tp_tool_result *const *results) {
  uint8_t *seen = calloc(batch->count + 1, 1);
  if (!seen) abort();
  for (uint32_t i = 0; i < batch->count; i++) {
    uint32_t order = results[i]->completion_order;
    if (order >= batch->count || seen[order]++)
      FAIL(&batch->calls[i], "each call has its own place in the order of completion", "%u", order);
  }
  free(seen);
}

void tool_work_batch_ended(tool_work_batch *batch, const tp_tool_result *const *results, size_t count) {
  world *w = batch->e->w;
  if (++batch->ends > 1)
    world_fail(w, "a dispatch ends once", "batch %u has ended %u times", batch->index, batch->ends);
  if (count != batch->count)
    world_fail(w, "one result a call", "batch %u: %zu, not %u", batch->index, count, batch->count);
  if (world_failed(w)) return;
  batch->results = results;
  for (uint32_t i = 0; i < batch->count; i++) check_result(&batch->calls[i], results[i]);
  check_order(batch, results);
  batch->bytes_hash = hash_results(results, count, true);
  batch->same_hash = hash_results(results, count, false);
}

void tool_work_again(tool_work *e) {
  for (uint32_t i = 0; i < e->batch_count && !world_failed(e->w); i++) {
    tool_work_batch *batch = &e->batches[i];
    if (batch->results && hash_results(batch->results, batch->count, true) != batch->bytes_hash)
      world_fail(e->w, "results stay as they are till the turn's end", "batch %u of tool workload %u", i, e->index);
    batch->results = NULL;
  }
}

/* ---- events ---- */

static void heard_begin(tool_work_call *call, const tp_event *event) {
  if (++call->event_begins > 1) FAIL(call, "one begin and one end a call", "%u begins", call->event_begins);
  if (call->event_ends) FAIL(call, "one begin and one end a call", "it begins after %s", "its end");
  if (call->calls && is_inline(call)) FAIL(call, "a call is announced before it is run", "%u", call->calls);
  if (!tool_work_arguments_are(call, event->tool_call->arguments))
    FAIL(call, "an event shows its call", "other arguments, of %zu bytes", event->tool_call->arguments.size);
}

static void heard_end(tool_work_call *call, const tp_event *event) {
  tool_work_batch *batch = call->batch;
  call->end_ns = tp__now_ns();
  if (++call->event_ends > 1) FAIL(call, "one begin and one end a call", "%u ends", call->event_ends);
  if (event->tool_result->completion_order != batch->event_ends++)
    FAIL(call, "events of ends come in the order of completion", "%u", event->tool_result->completion_order);
  if (!tp_text_equal(event->text, event->tool_result->text))
    FAIL(call, "an event shows its result", "%zu bytes", event->text.size);
  check_name(call, event->tool_result);
}

/* What give() has reported, and no other call's. */
static void heard_progress(tool_work_call *call, const tp_event *event) {
  if (!call->event_begins || call->event_ends)
    FAIL(call, "progress comes between begin and end", "%u begins, %u ends", call->event_begins, call->event_ends);
  if (++call->progress_heard > call->reported || event->done != (double)call->index ||
      !tp_text_is(event->text, tool_work_progress_words))
    FAIL(call, "an event shows its call's progress", "%u of %u reports, %g done", call->progress_heard, call->reported,
         event->done);
}

void tool_work_heard(tool_work *e, const tp_event *event) {
  if (!world_heard(e->w, &e->heard, event)) return;
  if (event->kind != TP_EVENT_TOOL_BEGIN && event->kind != TP_EVENT_TOOL_PROGRESS && event->kind != TP_EVENT_TOOL_END)
    return;
  tool_work_batch *batch = &e->batches[e->now];
  if (e->over || !batch->begun || batch->ends || event->call_index >= batch->count) {
    world_fail(e->w, "no event of a call outside of its dispatch", "call %u of batch %u of tool workload %u",
               event->call_index, e->now, e->index);
    return;
  }
  tool_work_call *call = &batch->calls[event->call_index];
  tp_text id = call->id ? tp_text_of(call->id) : (tp_text){"", 0};
  if (!tp_text_equal(event->tool_call->id, id) || !tp_text_is(event->tool_call->name, tool_work_tool_name(call->tool)))
    FAIL(call, "an event shows its call", "'%.*s'", (int)event->tool_call->name.size, event->tool_call->name.data);
  if (event->kind == TP_EVENT_TOOL_BEGIN) heard_begin(call, event);
  else if (event->kind == TP_EVENT_TOOL_PROGRESS) heard_progress(call, event);
  else heard_end(call, event);
}

/* ---- the end ---- */

static int64_t inline_between(const tool_work_call *call, int64_t from_ns, int64_t to_ns) {
  if (!is_inline(call) || !call->called_ns) return 0;
  int64_t begin_ns = call->called_ns > from_ns ? call->called_ns : from_ns;
  int64_t end_ns = call->returned_ns && call->returned_ns < to_ns ? call->returned_ns : to_ns;
  return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

int64_t tool_work_inline_between(const tool_work *e, int64_t from_ns, int64_t to_ns) {
  int64_t all_ns = 0;
  for (uint32_t i = 0; i < e->batch_count; i++)
    for (uint32_t k = 0; k < e->batches[i].count; k++)
      all_ns += inline_between(&e->batches[i].calls[k], from_ns, to_ns);
  return all_ns;
}

/* An accepted completion is the call's answer; a refused one has no visible effect. */
static void check_token(const tool_work_call *call) {
  if (call->destroys != call->deferred) FAIL(call, "destroy exactly once", "%u times", call->destroys);
  if (!call->batch->ends || !call->deferred) return;
  tool_work_words heard = call->heard == WORDS_NO_MEMORY ? call->taken : call->heard;
  bool by_token = heard == WORDS_FIRST || heard == WORDS_SECOND;
  if (call->accepted ? heard != call->taken : by_token)
    FAIL(call, "what was taken is the answer", "%u were taken (%d), the result is %s (%d)", call->accepted, call->taken,
         tp_tool_result_name(call->kind), call->heard);
}

static void check_end(const tool_work_call *call) {
  if (call->calls && !call->returned_ns) FAIL(call, "every call returns", "%u", call->calls);
  if (!call->batch->begun && call->calls) FAIL(call, "who was not dispatched is not called", "%u", call->calls);
  if (call->batch->ends && call->started && call->calls != 1)
    FAIL(call, "started says whether the tool was called", "it was called %u times", call->calls);
  check_token(call);
  tool_work_check_asked(call);
}

void tool_work_ended(tool_work *e) {
  for (uint32_t i = 0; i < e->batch_count; i++) {
    const tool_work_batch *batch = &e->batches[i];
    if (batch->ends != batch->begun)
      world_fail(e->w, "a dispatch ends once", "batch %u of tool workload %u has ended %u times", i, e->index,
                 batch->ends);
    for (uint32_t k = 0; k < batch->count; k++) check_end(&batch->calls[k]);
  }
}

void tool_work_same(tool_work *a, const tool_work *b, uint32_t workers_a, uint32_t workers_b) {
  for (uint32_t i = 0; i < a->batch_count; i++)
    if (a->batches[i].same_hash != b->batches[i].same_hash)
      world_fail(a->w, "results do not depend on workers", "batch %u of tool workload %u has others with %u and %u", i,
                 a->index, workers_a, workers_b);
}
