/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_work_draw.c: draws the actions of a tool workload, and the content of its calls. */
#include <stdio.h>
#include <stdlib.h>

#include "tool_work.h"

enum { AMPLE_MS = 100 * 1000 * 1000, NUMBER_STEP = 1000, PAD_BYTES = 90, ID_BYTES = 160 };

/* ---- the stream (splitmix64) ---- */

static uint64_t below(tool_work *e, uint64_t bound) {
  uint64_t z = (e->stream += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return (z ^ z >> 31) % bound;
}
static bool one_in(tool_work *e, uint64_t inverse) { return below(e, inverse) == 0; }
static int64_t up_to_us(tool_work *e, uint64_t us) { return (int64_t)below(e, us + 1) * TP__NS_PER_US; }
static bool is_fault_free(const tool_work *e) { return e->w->s->fault_level == FAULTS_NONE; }

/* ---- a call ---- */

/* Sizes that are treated differently: empty, short, too long for an attempt, for a block, for the tool. */
static size_t draw_size(tool_work *e) {
  static const uint64_t bounds[] = {4, 18, 18, 70, 70, 400, 4000};
  return (size_t)below(e, bounds[below(e, 7)]);
}

static void draw_text(tool_work *e, tool_work_call *call) {
  call->text_size = draw_size(e);
  call->text = malloc(call->text_size + 64);
  if (!call->text) abort();
  int size = snprintf(call->text, 64, "%u.%u.%u ", e->index, call->batch->index, call->index);
  for (size_t i = (size_t)size; i < call->text_size; i++) call->text[i] = (char)('a' + i % 26);
  call->text[call->text_size] = '\0';
  call->silent = call->text_size == 0 && one_in(e, 2);
  if (call->text_size < 2) return;
  call->no_utf8 = one_in(e, 25);
  if (call->no_utf8) call->text[call->text_size - 1] = '\xFF';
  else if (one_in(e, 6)) memcpy(call->text + call->text_size - 2, "\xC3\xA9", 2);
}

static void draw_id(tool_work *e, tool_work_call *call, bool needed) {
  if (!needed && !one_in(e, 3)) return;
  call->id = malloc(ID_BYTES);
  if (!call->id) abort();
  int size = snprintf(call->id, ID_BYTES, "own-%u-%u.", call->batch->index, call->index);
  uint64_t more = one_in(e, 4) ? below(e, 100) : 0;
  memset(call->id + size, 'y', more);
  call->id[(uint64_t)size + more] = '\0';
}

static tool_work_arguments draw_arguments(tool_work *e, const tool_work_call *call) {
  if (one_in(e, 25)) return (tool_work_arguments)below(e, TOOL_WORK_ARGUMENTS);
  if (call->tool == TOOL_STRICT) return one_in(e, 4) ? ARGUMENTS_LONG : ARGUMENTS_NUMBER;
  if (one_in(e, 8)) return one_in(e, 2) ? ARGUMENTS_LONG : ARGUMENTS_NUMBER;
  return ARGUMENTS_NONE;
}

static script_way draw_way(tool_work *e, tool_work_tool tool) {
  uint64_t dice = below(e, 100);
  if (dice < 45) return WAY_RETURN;
  if (dice < 65) return WAY_DEFER;
  if (dice < 75) return WAY_DEFER_TWICE;
  if (dice < 82) return WAY_DEFER_INSIDE;
  if (dice < 86) return WAY_DEFER_AND_RETURN;
  if (is_fault_free(e) && tool != TOOL_BRIEF) return WAY_DEFER;
  if (dice < 91) return WAY_DEFER_NEVER;
  if (dice < 96) return WAY_DEFER_ON_CANCEL;
  return WAY_DEFER_AFTER_FREE;
}

static int64_t draw_before(tool_work *e, tool_work_tool tool) {
  int64_t over_ns = TOOL_WORK_BRIEF_MS * TP__NS_PER_MS + up_to_us(e, 3000) + TP__NS_PER_US;
  if (tool_work_is_threaded(tool)) {
    uint64_t dice = is_fault_free(e) ? 0 : below(e, 100);
    if (dice < 80) return one_in(e, 2) ? 0 : up_to_us(e, 3000);
    if (dice < 90) return up_to_us(e, 60000);
    return (int64_t)below(e, 20) * 60 * TP__NS_PER_MS;
  }
  if (tool == TOOL_BRIEF) return one_in(e, 12) ? over_ns : 0;
  if (!is_fault_free(e) && one_in(e, 40)) return up_to_us(e, 15000);
  return one_in(e, 4) ? up_to_us(e, 100) : 0;
}

static int64_t draw_later(tool_work *e) {
  uint64_t dice = is_fault_free(e) ? below(e, 60) : below(e, 100);
  if (dice < 25) return 0;
  if (dice < 70) return up_to_us(e, 3000);
  if (dice < 85) return TOOL_WORK_BRIEF_MS * TP__NS_PER_MS + up_to_us(e, 200) - 100 * TP__NS_PER_US;
  return up_to_us(e, dice < 95 ? 60000 : 300000);
}

/* Without faults, a limit of some milliseconds is either clearly kept or clearly exceeded. */
static void settle_brief(tool_work_call *call) {
  bool waits = call->way == WAY_DEFER || call->way == WAY_DEFER_TWICE;
  if (call->tool != TOOL_BRIEF) return;
  if (waits) call->way = WAY_DEFER_NEVER;
  if (call->before_ns) call->way = WAY_RETURN;
}

/* Without faults, its only permit comes back; otherwise the order of calls would decide which of them are refused. */
static void settle_single(tool_work_call *call) {
  bool keeps = call->way == WAY_DEFER_NEVER || call->way == WAY_DEFER_AFTER_FREE;
  if (call->tool == TOOL_SINGLE && keeps) call->way = WAY_DEFER_ON_CANCEL;
}

static void draw_call(tool_work *e, tool_work_call *call, tool_work_tool favourite, script_way habit) {
  call->tool = one_in(e, 3) ? (tool_work_tool)below(e, TOOL_WORK_TOOLS + 1) : favourite;
  call->way = one_in(e, 2) ? draw_way(e, call->tool) : habit;
  call->hand = one_in(e, 8) ? HAND_TOKEN : one_in(e, 40) ? HAND_MODEL : HAND_TOOL;
  call->arguments = draw_arguments(e, call);
  call->fails = one_in(e, 6);
  call->again = one_in(e, 12);
  call->polite = one_in(e, 3);
  call->before_ns = draw_before(e, call->tool);
  call->later_ns = draw_later(e);
  call->person = one_in(e, 2) ? PERSON_ALLOWS : (tool_work_person)below(e, TOOL_WORK_PERSONS);
  call->person_ns = one_in(e, 2) ? 0 : up_to_us(e, is_fault_free(e) ? 3000 : TOOL_WORK_ASK_MS * 1500);
  bool found = call->arguments == ARGUMENTS_NUMBER || call->arguments == ARGUMENTS_LONG;
  draw_id(e, call, (tool_work_is_threaded(call->tool) || call->tool == TOOL_ASKED) && !found);
  draw_text(e, call);
  if (is_fault_free(e)) settle_brief(call);
  if (is_fault_free(e)) settle_single(call);
}

/* ---- a tool workload ---- */

static uint32_t draw_count(tool_work *e) {
  uint64_t dice = below(e, 100);
  if (dice < 2) return 0;
  if (dice < 60) return 1 + (uint32_t)below(e, 5);
  if (dice < 85) return 4 + (uint32_t)below(e, 12);
  if (dice < 98) return 10 + (uint32_t)below(e, 31);
  return 98 + (uint32_t)below(e, 40); /* more than have ready-made ids */
}

static bool may_submit(const tool_work *e) { return !e->w->s->options.no_engine_workers; }

static void draw_batch(tool_work *e, uint32_t index) {
  tool_work_batch *batch = &e->batches[index];
  *batch = (tool_work_batch){
      .e = e, .index = index, .count = draw_count(e), .submitted = may_submit(e) && (e->chained || one_in(e, 2))};
  batch->materialize = index == 0 ? !one_in(e, 30) : !e->chained && one_in(e, 4);
  batch->calls = calloc(batch->count + 1, sizeof *batch->calls);
  if (!batch->calls) abort();
  tool_work_tool favourite = one_in(e, 2) ? TOOL_INLINE : (tool_work_tool)below(e, TOOL_WORK_TOOLS);
  script_way habit = draw_way(e, favourite);
  for (uint32_t i = 0; i < batch->count; i++) {
    batch->calls[i] = (tool_work_call){.batch = batch, .index = i};
    draw_call(e, &batch->calls[i], favourite, habit);
  }
}

static void draw_calls_cancel(tool_work *e) {
  tool_work_batch *batch = &e->batches[below(e, e->batch_count)];
  e->calls_cancel_ns = 1 + up_to_us(e, one_in(e, 2) ? 2000 : 60000);
  if (batch->count > 0 && one_in(e, 2)) e->to_cancel = &batch->calls[below(e, batch->count)];
}

void tool_work_draw(tool_work *e) {
  bool rough = !is_fault_free(e);
  e->stream = e->w->s->tool_work_stream + e->index;
  e->in_session = one_in(e, 2);
  e->chained = one_in(e, 4) && may_submit(e);
  e->begin_ns = one_in(e, 2) ? 0 : up_to_us(e, 5000);
  e->limit_ms = !rough ? AMPLE_MS : one_in(e, 4) ? 5 + (uint32_t)below(e, 200) : 0;
  if (rough && one_in(e, 4)) e->cancel_ns = 1 + up_to_us(e, one_in(e, 2) ? 2000 : 60000);
  e->ends_inside = e->chained && !e->cancel_ns && one_in(e, 2);
  e->batch_count = 1 + (uint32_t)below(e, TOOL_WORK_BATCHES_MAX);
  for (uint32_t i = 0; i < e->batch_count; i++) draw_batch(e, i);
  if (rough && !e->cancel_ns && !e->ends_inside && one_in(e, 3)) draw_calls_cancel(e);
}

void tool_work_undraw(tool_work *e) {
  for (uint32_t i = 0; i < e->batch_count; i++) {
    tool_work_batch *batch = &e->batches[i];
    for (uint32_t k = 0; k < batch->count; k++) {
      free(batch->calls[k].id);
      free(batch->calls[k].text);
    }
    free(batch->calls);
  }
  e->batch_count = 0;
}

/* ---- what a call sends ---- */

static const char unknown_tool[] = "a name that no tool has, and that is longer than those which one of them has";

const char *tool_work_tool_name(tool_work_tool tool) {
  static const char *const names[TOOL_WORK_TOOLS + 1] = {"e-inline", "e-brief",    "e-terse",   "e-strict",
                                                         "e-barred", "e-threaded", "e-single",  "e-reader",
                                                         "e-writer", "e-asked",    unknown_tool};
  return names[tool];
}

static uint32_t number_of(const tool_work_call *call) { return call->batch->index * NUMBER_STEP + call->index; }

/* {"n": number}, and perhaps {"pad": "…"}. */
static size_t put_map(const tool_work_call *call, char *buffer) {
  bool is_long = call->arguments == ARGUMENTS_LONG;
  uint32_t number = number_of(call);
  const char head[] = {is_long ? '\x82' : '\x81', '\xA1', 'n', '\xCD', (char)(number >> 8), (char)number};
  memcpy(buffer, head, sizeof head);
  if (!is_long) return sizeof head;
  const char pad[] = {'\xA3', 'p', 'a', 'd', '\xD9', PAD_BYTES};
  memcpy(buffer + sizeof head, pad, sizeof pad);
  memset(buffer + sizeof head + sizeof pad, 'p', PAD_BYTES);
  return sizeof head + sizeof pad + PAD_BYTES;
}

static size_t put_arguments(const tool_work_call *call, char *buffer) {
  static const tp_text others[TOOL_WORK_ARGUMENTS] = {[ARGUMENTS_NONE] = {"\x80", 1},
                                                      [ARGUMENTS_OTHER] = {"\x81\xA1n\xA1x", 5},
                                                      [ARGUMENTS_NO_MAP] = {"\x90", 1},
                                                      [ARGUMENTS_NO_VALUE] = {"\xC1", 1},
                                                      [ARGUMENTS_EMPTY] = {"", 0},
                                                      [ARGUMENTS_DOUBTFUL] = {"\x80", 1},
                                                      [ARGUMENTS_MALFORMED] = {"{\"n\": ", 6}};
  if (call->arguments == ARGUMENTS_NUMBER || call->arguments == ARGUMENTS_LONG) return put_map(call, buffer);
  tp_text other = others[call->arguments];
  memcpy(buffer, other.data, other.size);
  return other.size;
}

bool tool_work_arguments_are(const tool_work_call *call, tp_text arguments) {
  char buffer[PAD_BYTES + 32];
  if (call->arguments == ARGUMENTS_EMPTY) return tp_text_is(arguments, "\x80"); /* none: an empty map */
  return tp_text_equal(arguments, (tp_text){buffer, put_arguments(call, buffer)});
}

tp_tool_call *tool_work_letter(const tool_work_batch *batch) {
  enum { CALL_BYTES = ID_BYTES + PAD_BYTES + 32 + sizeof unknown_tool };
  tp_tool_call *calls = malloc((batch->count + 1) * (sizeof *calls + CALL_BYTES));
  if (!calls) abort();
  char *buffer = (char *)(calls + batch->count);
  for (uint32_t i = 0; i < batch->count; i++, buffer += CALL_BYTES) {
    const tool_work_call *call = &batch->calls[i];
    const char *name = tool_work_tool_name(call->tool);
    char *id = buffer, *arguments = id + ID_BYTES, *own_name = arguments + PAD_BYTES + 32;
    memcpy(own_name, name, strlen(name));
    calls[i] = (tp_tool_call){.struct_size = sizeof calls[i],
                              .name = {own_name, strlen(name)},
                              .malformed = call->arguments >= ARGUMENTS_MALFORMED};
    calls[i].arguments = (tp_text){arguments, put_arguments(call, arguments)};
    if (!call->id) continue;
    memcpy(id, call->id, strlen(call->id));
    calls[i].id = (tp_text){id, strlen(call->id)};
  }
  return calls;
}

tp_text tool_work_id(const tool_work_call *call, char *buffer) {
  if (call->id) return tp_text_of(call->id);
  return (tp_text){buffer, (size_t)snprintf(buffer, 16, "call-%u", call->index)};
}

const char *tool_work_key(tp_text arguments) {
  static const char *const keys[] = {"k/0", "k/1", "k"};
  int64_t number = tp_value_int(tp_value_get(arguments, "n"), -1);
  return keys[number < 0 ? 2 : number % 5 == 4 ? 2 : number % 2];
}

bool tool_work_conflict(const tool_work_call *a, const tool_work_call *b) {
  char buffer[2][PAD_BYTES + 32];
  if (!tool_work_has_key(a->tool) || !tool_work_has_key(b->tool)) return false;
  if (a->tool == TOOL_READER && b->tool == TOOL_READER) return false;
  const char *of_a = tool_work_key((tp_text){buffer[0], put_arguments(a, buffer[0])});
  const char *of_b = tool_work_key((tp_text){buffer[1], put_arguments(b, buffer[1])});
  return strncmp(of_a, of_b, strlen(of_a) < strlen(of_b) ? strlen(of_a) : strlen(of_b)) == 0;
}

/* ---- whose run it is ---- */

static tool_work_call *call_at(tool_work *e, uint64_t batch, uint64_t index) {
  if (batch >= e->batch_count || index >= e->batches[batch].count) return NULL;
  return &e->batches[batch].calls[index];
}

/* Finds a call by its own id, or by its arguments; a call with neither belongs to an inline tool of the running
 * batch. */
static tool_work_call *find(tool_work *e, tp_text id, tp_text arguments) {
  char copy[ID_BYTES] = "";
  unsigned batch, index;
  if (id.size > 0 && id.size < sizeof copy) memcpy(copy, id.data, id.size);
  if (sscanf(copy, "own-%u-%u.", &batch, &index) == 2) return call_at(e, batch, index);
  int64_t number = tp_value_int(tp_value_get(arguments, "n"), -1);
  if (number >= 0) return call_at(e, (uint64_t)number / NUMBER_STEP, (uint64_t)number % NUMBER_STEP);
  return sscanf(copy, "call-%u", &index) == 1 ? call_at(e, e->now, index) : NULL;
}

tool_work_call *tool_work_find(tool_work *e, const tp_tool_run *run) {
  return find(e, tp_tool_run_call_id(run), tp_tool_run_arguments(run));
}

tool_work_call *tool_work_find_asked(world *w, const tp_question *question) {
  tp_text turn = question->ids[TP_ID_TURN];
  uint32_t index = turn.size == 2 && turn.data[0] == 'e' ? (uint32_t)(turn.data[1] - '0') : UINT32_MAX;
  if (index >= w->s->tool_work_count) return NULL;
  return find(&w->tool_works[index], question->call->id, question->call->arguments);
}
