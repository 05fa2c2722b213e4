/* SPDX-License-Identifier: Apache-2.0
 *
 * traces: makes the spans of turns from events. A turn keeps its spans until it ends, since only then it is known
 * whether the spans of phases and handlers are wanted. The ids of spans that other services may name (of a turn, a
 * request or a call) are drawn when they begin.
 *
 * A turn is found by the id of the turn, then by tenant and session. Lock: one, for all turns; under it the queue's
 * lock is taken, and no other. */
#include "turnphase/traces.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "server/traces/otlp.h"
#include "support/bytes.h"
#include "support/clock.h"
#include "support/fault.h"
#include "support/json.h"
#include "support/lock.h"
#include "support/references.h"

enum { BUCKETS = 4096, SPANS_MAX = 1000, PARENTS_MAX = 4096, SLOW_MS = 10000, KEY_BYTES = 3 * (TP_ID_BYTES_MAX + 1) };
enum { INTERNAL = 1, CLIENT = 3, STATUS_ERROR = 2 }; /* constants of OTLP */
#define NONE SIZE_MAX

typedef enum span_kind { MODEL, TOOL, PHASE, HANDLER } span_kind;

typedef struct span {
  span_kind kind;
  bool ended;
  uint64_t id;
  size_t parent;              /* the index of the parent span; NONE: the turn */
  uint32_t key;               /* the phase, or the index of the call */
  int64_t began_ns, ended_ns; /* by the monotonic clock */
  tp__bytes json;             /* "name", "kind", "attributes" and "status" */
} span;

/** A trace context: the trace and the span from which a turn was requested. */
typedef struct context {
  uint64_t trace[2], span; /* span: 0: no parent */
  bool sampled;
} context;

typedef struct traced {
  struct traced *next; /* the next one in the bucket; the newest first */
  tp__bytes key;
  uint64_t id;
  context of;            /* its trace, and its parent span */
  int64_t unix_ahead_ns; /* the wall clock minus the monotonic one, at the begin */
  span *spans;
  size_t count, capacity;
  uint64_t lost; /* how many spans were not kept */
  int64_t input_tokens, output_tokens;
} traced;

/** The trace context of a turn that has not begun yet. */
typedef struct announced {
  char key[KEY_BYTES];
  size_t size; /* 0: the place is free */
  context of;
} announced;

struct tp_traces {
  tp__references refs; /* references: of the host, and of the listener */
  /* never change */
  tp_runtime *runtime;
  uint64_t listener;
  uint32_t sampled_of_1000;
  int64_t slow_ns; /* below 0: every turn counts as slow */
  tp__lock lock;
  /* under lock */
  tp__otlp *otlp; /* NULL: it was closed, and later events are ignored */
  uint64_t random;
  traced *buckets[BUCKETS];
  uint32_t hashes[PARENTS_MAX]; /* hashes of the keys of parents, so that a search reads only these; 0: none */
  announced parents[PARENTS_MAX];
  size_t next_parent, parent_count;
};

/* ---- ids ---- */

/* Draws a number by splitmix64: ids must differ, but need not be unpredictable. */
static uint64_t draw_locked(tp_traces *t) {
  TP__LOCKED(&t->lock);
  uint64_t x = t->random += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  x ^= x >> 31;
  return x ? x : 1;
}

static tp_text id_of(const tp_text *ids, uint32_t count, tp_id_kind kind) {
  return (uint32_t)kind < count && ids[kind].size <= TP_ID_BYTES_MAX ? ids[kind] : (tp_text){0};
}

/* Makes the key, in which the turn's id comes first. @return its size; 0: there is no turn. */
static size_t make_key(const tp_text *ids, uint32_t count, char key[KEY_BYTES]) {
  static const tp_id_kind kinds[] = {TP_ID_TURN, TP_ID_TENANT, TP_ID_SESSION};
  size_t size = 0;
  for (size_t i = 0; i < 3; i++) {
    tp_text id = id_of(ids, count, kinds[i]);
    if (i == 0 && id.size == 0) return 0;
    if (id.size > 0) memcpy(key + size, id.data, id.size);
    size += id.size;
    key[size++] = '\0';
  }
  return size;
}

static uint32_t hash_of(tp_text text) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < text.size; i++) hash = (hash ^ (unsigned char)text.data[i]) * UINT64_C(1099511628211);
  return (uint32_t)(hash ^ hash >> 32);
}

static traced **bucket_of(tp_traces *t, tp_text turn_id) { return &t->buckets[hash_of(turn_id) & (BUCKETS - 1)]; }

/* @return the link that points to the turn; NULL: it is not known. */
static traced **find_locked(tp_traces *t, const tp_text *ids, uint32_t count) {
  TP__LOCKED(&t->lock);
  char key[KEY_BYTES];
  size_t size = make_key(ids, count, key);
  if (size == 0) return NULL;
  for (traced **at = bucket_of(t, ids[TP_ID_TURN]); *at; at = &(*at)->next)
    if (tp__same(tp__bytes_text(&(*at)->key), (tp_text){key, size})) return at;
  return NULL;
}

/* Finds the newest turn of this id and tenant, in any session. */
static traced *find_parent_locked(tp_traces *t, tp_text id, tp_text tenant) {
  TP__LOCKED(&t->lock);
  for (traced *turn = *bucket_of(t, id); turn; turn = turn->next)
    if (tp__is_word(id, turn->key.data) && tp__is_word(tenant, turn->key.data + id.size + 1)) return turn;
  return NULL;
}

/* ---- W3C Trace Context ---- */

/* @return false: these are not `count` lower-case hexadecimal digits. */
static bool read_hex(const char *at, size_t count, uint64_t *ret_number) {
  *ret_number = 0;
  for (size_t i = 0; i < count; i++) {
    bool is_digit = at[i] >= '0' && at[i] <= '9', is_letter = at[i] >= 'a' && at[i] <= 'f';
    if (!is_digit && !is_letter) return false;
    *ret_number = *ret_number << 4 | (uint64_t)(at[i] - (is_digit ? '0' : 'a' - 10));
  }
  return true;
}

/* Source: W3C Trace Context, "traceparent Header Field Values". A later version may have more after the flags. */
static bool read_context(tp_text text, context *ret_context) {
  const char *at = text.data;
  uint64_t version, flags;
  if (text.size < 55 || !read_hex(at, 2, &version) || version == 0xff || (version == 0 && text.size != 55) ||
      (text.size > 55 && at[55] != '-') || at[2] != '-' || at[35] != '-' || at[52] != '-')
    return false;
  if (!read_hex(at + 3, 16, &ret_context->trace[0]) || !read_hex(at + 19, 16, &ret_context->trace[1]) ||
      !read_hex(at + 36, 16, &ret_context->span) || !read_hex(at + 53, 2, &flags))
    return false;
  ret_context->sampled = flags & 1;
  return (ret_context->trace[0] || ret_context->trace[1]) && ret_context->span;
}

void tp_traces_begin(tp_traces *t, const tp_text *ids, uint32_t id_count, tp_text traceparent) {
  context of;
  char key[KEY_BYTES];
  size_t size = t ? make_key(ids, id_count, key) : 0;
  if (size == 0 || !read_context(traceparent, &of)) return;
  tp__lock_acquire(&t->lock);
  size_t at = t->next_parent++ % PARENTS_MAX;
  announced *a = &t->parents[at];
  t->parent_count += a->size == 0;
  t->hashes[at] = hash_of((tp_text){key, size}) | 1;
  memcpy(a->key, key, size);
  a->size = size;
  a->of = of;
  tp__lock_release(&t->lock);
}

/* Takes the context that was announced for a turn. @return false: there is none. */
static bool take_announced_locked(tp_traces *t, const char *key, size_t size, context *ret_context) {
  TP__LOCKED(&t->lock);
  uint32_t hash = t->parent_count > 0 ? hash_of((tp_text){key, size}) | 1 : 0;
  for (size_t i = 0; hash && i < PARENTS_MAX; i++) { /* the newest first */
    size_t at = (t->next_parent + PARENTS_MAX - 1 - i) % PARENTS_MAX;
    announced *a = &t->parents[at];
    if (t->hashes[at] != hash || !tp__same((tp_text){a->key, a->size}, (tp_text){key, size})) continue;
    *ret_context = a->of;
    t->hashes[at] = 0;
    a->size = 0;
    t->parent_count--;
    return true;
  }
  return false;
}

/* ---- attributes ---- */

static void put_key(tp__bytes *out, const char *key, const char *type) {
  tp__bytes_printf(out, "%s{\"key\":\"%s\",\"value\":{\"%s\":", out->data[out->size - 1] == '[' ? "" : ",", key, type);
}

static void put_string_value(tp__bytes *out, const char *key, tp_text text) {
  if (out->failed || text.size == 0) return;
  put_key(out, key, "stringValue");
  tp__put_json(out, text);
  tp__bytes_put(out, "}}", 2);
}

static void put_int(tp__bytes *out, const char *key, int64_t number) {
  if (out->failed) return;
  put_key(out, key, "intValue");
  tp__bytes_printf(out, "\"%" PRId64 "\"}}", number);
}

/* Writes "name" and "kind", and the beginning of "attributes". */
static void put_name(tp__bytes *out, const char *what, tp_text name, int kind) {
  tp__bytes full = {0};
  tp__bytes_put_string(&full, what);
  if (name.size > 0) tp__bytes_put(&full, " ", 1);
  tp__bytes_put_text(&full, name);
  tp__bytes_put_string(out, "\"name\":");
  tp__put_json(out, tp__bytes_text(&full));
  tp__bytes_printf(out, ",\"kind\":%d,\"attributes\":[", kind);
  out->failed |= full.failed;
  tp__bytes_fini(&full);
}

/* Writes the end of "attributes", and "status". @param error  empty: none. */
static void put_status(tp__bytes *out, tp_text error) {
  put_string_value(out, "error.type", error);
  tp__bytes_put(out, "]", 1);
  if (error.size > 0) tp__bytes_printf(out, ",\"status\":{\"code\":%d}", STATUS_ERROR);
}

static tp_text error_of(tp_status status) {
  return status == TP_OK || status == TP_ERR_CANCELLED ? (tp_text){0} : tp_text_of(tp_status_name(status));
}

/* ---- spans of a turn ---- */

/* @return NULL: the span is lost, and counted. */
static span *span_new_locked(tp_traces *t, traced *turn, span_kind kind, uint32_t key, int64_t began_ns) {
  TP__LOCKED(&t->lock);
  bool fits = turn->of.sampled && turn->count < SPANS_MAX &&
              tp__grow(tp__heap, (void **)&turn->spans, &turn->capacity, turn->count + 1, sizeof *turn->spans);
  if (!fits) {
    turn->lost += turn->of.sampled;
    return NULL;
  }
  span *s = &turn->spans[turn->count++];
  *s = (span){.kind = kind, .id = draw_locked(t), .parent = NONE, .key = key, .began_ns = began_ns};
  return s;
}

/* Finds the newest span that has not ended. @param count  gets the number of such spans; may be NULL. */
static span *open_span(traced *turn, span_kind kind, uint32_t key, bool any_key, size_t *ret_count) {
  span *found = NULL;
  size_t count = 0;
  for (size_t i = turn->count; i-- > 0;) {
    span *s = &turn->spans[i];
    if (s->kind != kind || s->ended || (!any_key && s->key != key)) continue;
    if (!found) found = s;
    count++;
  }
  if (ret_count) *ret_count = count;
  return found;
}

/* Returns the span that the event ends: that of its begin, or a new one. */
static span *ended_span_locked(tp_traces *t, traced *turn, span_kind kind, uint32_t key, const tp_event *event) {
  TP__LOCKED(&t->lock);
  span *s = open_span(turn, kind, key, false, NULL);
  if (!s) s = span_new_locked(t, turn, kind, key, event->started_ns);
  if (!s) return NULL;
  if (event->started_ns > 0) s->began_ns = event->started_ns;
  s->ended_ns = event->ended_ns > 0 ? event->ended_ns : event->time_ns;
  s->ended = true;
  return s;
}

static void end_model_locked(tp_traces *t, traced *turn, const tp_event *event) {
  TP__LOCKED(&t->lock);
  span *s = ended_span_locked(t, turn, MODEL, 0, event);
  if (event->input_tokens > 0) turn->input_tokens += event->input_tokens;
  if (event->output_tokens > 0) turn->output_tokens += event->output_tokens;
  if (!s) return;
  put_name(&s->json, "chat", event->model, CLIENT);
  put_string_value(&s->json, "gen_ai.operation.name", tp_text_of("chat"));
  put_string_value(&s->json, "gen_ai.request.model", event->model);
  put_string_value(&s->json, "gen_ai.conversation.id", id_of(event->ids, event->id_count, TP_ID_SESSION));
  if (event->input_tokens > 0) put_int(&s->json, "gen_ai.usage.input_tokens", event->input_tokens);
  if (event->output_tokens > 0) put_int(&s->json, "gen_ai.usage.output_tokens", event->output_tokens);
  put_string_value(&s->json, "turnphase.finish", tp_text_of(tp_finish_name(event->finish)));
  put_status(&s->json, error_of(event->status));
}

static void end_tool_locked(tp_traces *t, traced *turn, const tp_event *event) {
  TP__LOCKED(&t->lock);
  const tp_tool_result *result = event->tool_result;
  span *s = ended_span_locked(t, turn, TOOL, event->call_index, event);
  if (!s) return;
  bool failed = result->kind != TP_TOOL_OK && result->kind != TP_TOOL_CANCELLED;
  tp_text kind = tp_text_of(tp_tool_result_name(result->kind));
  put_name(&s->json, "execute_tool", result->name, INTERNAL);
  put_string_value(&s->json, "gen_ai.operation.name", tp_text_of("execute_tool"));
  put_string_value(&s->json, "gen_ai.tool.name", result->name);
  put_string_value(&s->json, "gen_ai.tool.call.id", result->call_id);
  put_string_value(&s->json, "turnphase.result", kind);
  put_status(&s->json, failed ? kind : (tp_text){0});
}

static void end_phase_locked(tp_traces *t, traced *turn, const tp_event *event) {
  TP__LOCKED(&t->lock);
  span *s = ended_span_locked(t, turn, PHASE, event->phase, event);
  const tp_phase *phase = tp_phase_get(t->runtime, event->phase);
  tp_text name = tp_text_of(phase ? phase->name : "");
  if (!s) return;
  put_name(&s->json, "turnphase.phase", name, INTERNAL);
  put_string_value(&s->json, "turnphase.phase", name);
  put_string_value(&s->json, "turnphase.subscription", tp_text_of(event->subscription));
  put_status(&s->json, error_of(event->status));
}

/* Adds the span of a handler. During parallel calls several runs of a phase are open: then it is not known to which of
 * them the handler belongs. */
static void add_handler_locked(tp_traces *t, traced *turn, const tp_event *event) {
  TP__LOCKED(&t->lock);
  const tp_run_record *run = event->run;
  size_t open = 0;
  const span *phase = open_span(turn, PHASE, event->phase, false, &open);
  size_t parent = open == 1 ? (size_t)(phase - turn->spans) : NONE;
  if (run->started_ns == 0 || run->ended_ns == 0) return; /* it was not called, or no phase waits for its end */
  span *s = span_new_locked(t, turn, HANDLER, 0, run->started_ns);
  if (!s) return;
  tp_state state = (tp_state)run->state;
  bool failed = state == TP_STATE_FAILED || state == TP_STATE_TIMED_OUT;
  s->parent = parent;
  s->ended = true;
  s->ended_ns = run->ended_ns;
  put_name(&s->json, "turnphase.handler", tp_text_of(run->subscription), INTERNAL);
  put_string_value(&s->json, "turnphase.subscription", tp_text_of(run->subscription));
  put_string_value(&s->json, "turnphase.handler", tp_text_of(run->handler));
  put_string_value(&s->json, "turnphase.state", tp_text_of(tp_state_name(state)));
  put_int(&s->json, "turnphase.attempts", run->attempts);
  put_status(&s->json, failed ? tp_text_of(tp_reason_name((tp_reason)run->reason)) : (tp_text){0});
}

/* ---- turns ---- */

static void turn_free(traced *turn) {
  for (size_t i = 0; i < turn->count; i++) tp__bytes_fini(&turn->spans[i].json);
  tp__heap_free(turn->spans, turn->capacity * sizeof *turn->spans);
  tp__bytes_fini(&turn->key);
  tp__heap_free(turn, sizeof *turn);
}

/* The parent is the call that runs the nested turn, if only one call runs; else the turn. */
static void inherit(traced *parent, context *of) {
  size_t open = 0;
  const span *call = open_span(parent, TOOL, 0, true, &open);
  *of = parent->of;
  of->span = open == 1 ? call->id : parent->id;
}

static void begin_turn_locked(tp_traces *t, const tp_event *event) {
  TP__LOCKED(&t->lock);
  char key[KEY_BYTES];
  size_t size = make_key(event->ids, event->id_count, key);
  traced *begun = size ? tp__heap_alloc(sizeof *begun) : NULL;
  if (!begun) return;
  traced *parent = event->parent_turn.size == 0
                       ? NULL
                       : find_parent_locked(t, event->parent_turn, id_of(event->ids, event->id_count, TP_ID_TENANT));
  tp__bytes_put(&begun->key, key, size);
  if (begun->key.failed) {
    turn_free(begun);
    return;
  }
  begun->id = draw_locked(t);
  begun->unix_ahead_ns = event->unix_ms * TP__NS_IN_MS - event->time_ns;
  if (parent) inherit(parent, &begun->of);
  else if (!take_announced_locked(t, key, size, &begun->of))
    begun->of =
        (context){.trace = {draw_locked(t), draw_locked(t)}, .sampled = draw_locked(t) % 1000 < t->sampled_of_1000};
  traced **bucket = bucket_of(t, event->ids[TP_ID_TURN]);
  begun->next = *bucket;
  *bucket = begun;
}

static void put_span(tp__bytes *out, const traced *turn, uint64_t id, uint64_t parent, int64_t began_ns,
                     int64_t ended_ns, const tp__bytes *json) {
  tp__bytes_printf(out, "%s{\"traceId\":\"%016" PRIx64 "%016" PRIx64 "\",\"spanId\":\"%016" PRIx64 "\",",
                   out->size > 0 ? "," : "", turn->of.trace[0], turn->of.trace[1], id);
  if (parent) tp__bytes_printf(out, "\"parentSpanId\":\"%016" PRIx64 "\",", parent);
  tp__bytes_printf(out, "\"startTimeUnixNano\":\"%" PRId64 "\",\"endTimeUnixNano\":\"%" PRId64 "\",\"flags\":257,",
                   began_ns + turn->unix_ahead_ns, (ended_ns < began_ns ? began_ns : ended_ns) + turn->unix_ahead_ns);
  tp__bytes_put_text(out, tp__bytes_text(json));
  tp__bytes_put(out, "}", 1);
  out->failed |= json->failed;
}

/* Writes the span of the turn, and those of its parts. @return how many. */
static uint64_t put_turn(const tp_traces *t, const traced *turn, const tp_event *event, tp__bytes *out) {
  tp__bytes json = {0};
  tp_text agent = id_of(event->ids, event->id_count, TP_ID_AGENT), error = error_of(event->status);
  bool wants_all = error.size > 0 || event->ended_ns - event->started_ns > t->slow_ns;
  uint64_t count = 1;
  put_name(&json, "invoke_agent", agent, INTERNAL);
  put_string_value(&json, "gen_ai.operation.name", tp_text_of("invoke_agent"));
  put_string_value(&json, "gen_ai.agent.name", agent);
  put_string_value(&json, "gen_ai.conversation.id", id_of(event->ids, event->id_count, TP_ID_SESSION));
  put_string_value(&json, "turnphase.turn", event->ids[TP_ID_TURN]);
  put_string_value(&json, "turnphase.status", tp_text_of(tp_status_name(event->status)));
  if (turn->input_tokens > 0) put_int(&json, "gen_ai.usage.input_tokens", turn->input_tokens);
  if (turn->output_tokens > 0) put_int(&json, "gen_ai.usage.output_tokens", turn->output_tokens);
  if (turn->lost > 0) put_int(&json, "turnphase.spans_lost", (int64_t)turn->lost);
  put_status(&json, error);
  put_span(out, turn, turn->id, turn->of.span, event->started_ns, event->ended_ns, &json);
  tp__bytes_fini(&json);
  for (size_t i = 0; i < turn->count; i++) {
    const span *s = &turn->spans[i];
    if (!s->ended || (!wants_all && (s->kind == PHASE || s->kind == HANDLER))) continue;
    put_span(out, turn, s->id, s->parent == NONE ? turn->id : turn->spans[s->parent].id, s->began_ns, s->ended_ns,
             &s->json);
    count++;
  }
  return count;
}

/* @return the turn, which the caller owns; NULL: it never began, or is not known. */
static traced *end_turn_locked(tp_traces *t, const tp_event *event) {
  TP__LOCKED(&t->lock);
  char key[KEY_BYTES];
  context unused;
  traced **at = find_locked(t, event->ids, event->id_count);
  size_t size = make_key(event->ids, event->id_count, key);
  if (!at && size > 0) (void)take_announced_locked(t, key, size, &unused);
  if (!at) return NULL;
  traced *ended = *at;
  *at = ended->next;
  return ended;
}

static void send_locked(tp_traces *t, const traced *turn, const tp_event *event) {
  TP__LOCKED(&t->lock);
  tp__bytes out = {0};
  if (turn->of.sampled) {
    uint64_t count = put_turn(t, turn, event, &out);
    if (out.failed) tp__otlp_drop(t->otlp, count);
    else tp__otlp_put(t->otlp, tp__bytes_text(&out), count);
    if (turn->lost > 0) tp__otlp_drop(t->otlp, turn->lost);
  }
  tp__bytes_fini(&out);
}

static void take_event_locked(tp_traces *t, traced *turn, const tp_event *event) {
  TP__LOCKED(&t->lock);
  switch (event->kind) {
    case TP_EVENT_MODEL_BEGIN:
      (void)span_new_locked(t, turn, MODEL, 0, event->time_ns);
      break;
    case TP_EVENT_TOOL_BEGIN:
      (void)span_new_locked(t, turn, TOOL, event->call_index, event->time_ns);
      break;
    case TP_EVENT_PHASE_BEGIN:
      (void)span_new_locked(t, turn, PHASE, event->phase, event->time_ns);
      break;
    case TP_EVENT_MODEL_END:
      end_model_locked(t, turn, event);
      break;
    case TP_EVENT_TOOL_END:
      end_tool_locked(t, turn, event);
      break;
    case TP_EVENT_PHASE_END:
      end_phase_locked(t, turn, event);
      break;
    case TP_EVENT_RUN:
      add_handler_locked(t, turn, event);
      break;
    default:
      break;
  }
}

static void trace_event(void *ctx, const tp_event *event) {
  tp_traces *t = ctx;
  traced *ended = NULL;
  tp__lock_acquire(&t->lock);
  traced **at = t->otlp ? find_locked(t, event->ids, event->id_count) : NULL;
  if (event->kind == TP_EVENT_TURN_BEGIN && t->otlp && !at) begin_turn_locked(t, event);
  else if (event->kind == TP_EVENT_TURN_END) ended = end_turn_locked(t, event);
  else if (at && (*at)->of.sampled) take_event_locked(t, *at, event);
  if (ended && t->otlp) send_locked(t, ended, event);
  tp__lock_release(&t->lock);
  if (ended) turn_free(ended);
}

bool tp_traces_parent(tp_traces *t, const tp_text *ids, uint32_t id_count, char ret_text[56]) {
  if (ret_text) ret_text[0] = '\0';
  if (!t || !ret_text) return false;
  tp__lock_acquire(&t->lock);
  traced **at = find_locked(t, ids, id_count);
  bool has_trace = at && (*at)->of.sampled;
  if (has_trace) {
    const span *model = open_span(*at, MODEL, 0, true, NULL);
    snprintf(ret_text, 56, "00-%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "-01", (*at)->of.trace[0], (*at)->of.trace[1],
             model ? model->id : (*at)->id);
  }
  tp__lock_release(&t->lock);
  return has_trace;
}

/* ---- begin and end ---- */

/* Copies as many members as the caller's struct has. */
static void give_stats(const tp_traces_stats *stats, tp_traces_stats *ret_stats) {
  size_t size = ret_stats->struct_size, from = sizeof size;
  if (size > sizeof *stats) size = sizeof *stats;
  if (size > from) memcpy((char *)ret_stats + from, (const char *)stats + from, size - from);
}

void tp_traces_stats_get(tp_traces *t, tp_traces_stats *ret_stats) {
  tp_traces_stats stats = {0};
  if (t) tp__lock_acquire(&t->lock);
  if (t && t->otlp) tp__otlp_stats(t->otlp, &stats);
  if (t) tp__lock_release(&t->lock);
  if (ret_stats) give_stats(&stats, ret_stats);
}

static void unref(void *ctx) {
  tp_traces *t = ctx;
  if (!tp__references_unref(&t->refs)) return;
  for (size_t i = 0; i < BUCKETS; i++)
    for (traced *next, *turn = t->buckets[i]; turn; turn = next) {
      next = turn->next;
      turn_free(turn);
    }
  tp__lock_fini(&t->lock);
  tp__heap_free(t, sizeof *t);
}

#define BIT(kind) (UINT64_C(1) << TP_EVENT_##kind)

tp_status tp_traces_open(tp_runtime *runtime, const tp_traces_options *options, tp_traces **ret_traces,
                         tp_fault *fault) {
  tp_traces_options o;
  if (!runtime || !ret_traces)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_traces_open() needs a runtime and a place for the traces");
  tp_status status = tp__struct_read(&o, sizeof o, options, "tp_traces_options", fault);
  if (status != TP_OK) return status;
  tp_traces *t = tp__heap_alloc(sizeof *t);
  if (!t) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the traces");
  tp__references_init(&t->refs);
  tp__lock_init(&t->lock, TP__LOCK_traces);
  t->runtime = runtime;
  t->sampled_of_1000 = o.sampled_of_1000 == 0 ? 1000 : o.sampled_of_1000 < 0 ? 0 : (uint32_t)o.sampled_of_1000;
  t->slow_ns = o.slow_ms < 0 ? -1 : (int64_t)(o.slow_ms ? o.slow_ms : SLOW_MS) * TP__NS_IN_MS;
  if (getrandom(&t->random, sizeof t->random, 0) != sizeof t->random)
    status = tp__refuse(fault, TP_ERR_SYSTEM, NULL, "there is no randomness");
  if (status == TP_OK) status = tp__otlp_new(&o, &t->otlp, fault);
  const tp_listener listener = {.struct_size = sizeof listener,
                                .on_event = trace_event,
                                .ctx = t,
                                .destroy = unref,
                                .kinds = BIT(TURN_BEGIN) | BIT(TURN_END) | BIT(PHASE_BEGIN) | BIT(PHASE_END) |
                                         BIT(RUN) | BIT(MODEL_BEGIN) | BIT(MODEL_END) | BIT(TOOL_BEGIN) |
                                         BIT(TOOL_END)};
  if (status == TP_OK) {
    tp__references_ref(&t->refs);
    status = tp_runtime_listen(runtime, &listener, &t->listener, fault);
    if (status != TP_OK) unref(t);
  }
  if (status == TP_OK) {
    *ret_traces = t;
    return TP_OK;
  }
  tp__otlp_stop(t->otlp, 0);
  tp__otlp_free(t->otlp);
  unref(t);
  return status;
}

void tp_traces_close(tp_traces *t, uint32_t limit_ms, tp_traces_stats *ret_stats) {
  tp_traces_stats stats = {0};
  if (t) {
    (void)tp_runtime_unlisten(t->runtime, t->listener, NULL); /* a call of on_event may still run */
    tp__lock_acquire(&t->lock);
    tp__otlp *otlp = t->otlp;
    t->otlp = NULL;
    tp__lock_release(&t->lock);
    tp__otlp_stop(otlp, limit_ms);
    tp__otlp_stats(otlp, &stats);
    tp__otlp_free(otlp);
    unref(t);
  }
  if (ret_stats) give_stats(&stats, ret_stats);
}
