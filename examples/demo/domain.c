/* SPDX-License-Identifier: Apache-2.0
 *
 * domain.c: the domain of the demonstration, as a library that a host loads (turnphase run --load). It shows what a
 * domain is made of: tools, a handler that adds context, guards, an observer; all through the public headers.
 *
 *   trip.tools           contributes train_times, find_room, weather and book_room
 *   trip.events          asks a slow server what is on in town; it may take 60 ms and needs 400: it misses its deadline
 *   trip.surprise        denies a turn that would tell Papa of the journey
 *   trip.spending_limit  denies book_room above 400 euros
 *   trip.finished        observes the end of each tool call
 *   trip.diary           notes the end of each session
 *
 * The three tools that look things up end in another order than they are called, whatever the machine does: find_room
 * waits till the end of weather was observed, train_times till that of find_room was. So the demonstration shows by
 * event, not by luck, that calls overlap and that their results still reach the model in call order. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "turnphase/turnphase.h"

enum { EUROS_MAX = 400, EVENTS_NEED_MS = 400, EVENTS_LIMIT_MS = 60, WORK_MS = 25, WAIT_MAX_MS = 10000 };

enum { TRAIN_TIMES, FIND_ROOM, WEATHER, BOOK_ROOM, TOOL_COUNT };
static const char *const tool_names[TOOL_COUNT] = {"train_times", "find_room", "weather", "book_room"};

/** What the handlers and tools share; freed with the last handler. */
typedef struct trip {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  unsigned refs;                          /* under mutex: handlers, and who registers them */
  char turn[TP_ID_BYTES_MAX + 1];         /* under mutex: the newest turn with a call that ended */
  bool finished[TOOL_COUNT];              /* under mutex: in that turn */
  tp_writer *lookup_schema, *book_schema; /* never change after init */
  tp_tool tools[TOOL_COUNT];              /* never change after init */
} trip;

static bool holds(tp_text text, const char *words) {
  size_t size = strlen(words);
  return text.size >= size && memmem(text.data, text.size, words, size) != NULL;
}

/* ---- waiting ---- */

static struct timespec after_ms(int64_t ms) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  at.tv_sec += ms / 1000;
  at.tv_nsec += (long)(ms % 1000) * 1000000;
  if (at.tv_nsec >= 1000000000) at.tv_sec++, at.tv_nsec -= 1000000000;
  return at;
}

static void sleep_ms(int64_t ms) {
  struct timespec until = after_ms(ms);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
}

/* Waits till the end of a tool of the same turn was observed. It looks up now and then to see if it is still wanted. */
static void wait_for_tool(trip *t, const tp_tool_run *run, int tool) {
  struct timespec now, end = after_ms(WAIT_MAX_MS);
  pthread_mutex_lock(&t->mutex);
  while (!(tp_text_is(tp_tool_run_id(run, TP_ID_TURN), t->turn) && t->finished[tool]) && !tp_tool_run_cancelled(run)) {
    struct timespec until = after_ms(20);
    pthread_cond_timedwait(&t->changed, &t->mutex, &until);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec > end.tv_sec) break;
  }
  pthread_mutex_unlock(&t->mutex);
}

/* tool.post: the call has ended, its place among the others is fixed. */
static tp_answer finished(void *ctx, tp_call *call) {
  trip *t = ctx;
  tp_text turn = tp_call_id(call, TP_ID_TURN), tool = tp_call_text(call, TP_FIELD_TOOL);
  pthread_mutex_lock(&t->mutex);
  if (!tp_text_is(turn, t->turn) && turn.size < sizeof t->turn) {
    memcpy(t->turn, turn.data, turn.size);
    t->turn[turn.size] = '\0';
    memset(t->finished, 0, sizeof t->finished);
  }
  for (int i = 0; i < TOOL_COUNT; i++)
    if (tp_text_is(tool, tool_names[i])) t->finished[i] = true;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->mutex);
  return TP_ANSWER_DONE;
}

/* ---- tools ---- */

static tp_answer weather(void *ctx, tp_tool_run *run) {
  (void)ctx;
  sleep_ms(WORK_MS);
  return tp_tool_ok(run, tp_text_of("Ljubljana, second week of October: mild, 14 degrees, fog in the morning"));
}

static tp_answer find_room(void *ctx, tp_tool_run *run) {
  wait_for_tool(ctx, run, WEATHER);
  sleep_ms(WORK_MS);
  return tp_tool_ok(run, tp_text_of("Pension Marija: quiet room beside the lift, three nights, 285 euros. "
                                    "Grand Hotel: suite, three nights, 640 euros"));
}

static tp_answer train_times(void *ctx, tp_tool_run *run) {
  wait_for_tool(ctx, run, FIND_ROOM);
  sleep_ms(WORK_MS);
  return tp_tool_ok(run, tp_text_of("direct: leaves Munich 8:17, arrives in Ljubljana 14:26, every day"));
}

static tp_answer book_room(void *ctx, tp_tool_run *run) {
  (void)ctx;
  char words[256];
  tp_text hotel = tp_value_text(tp_value_get(tp_tool_run_arguments(run), "hotel"));
  int64_t euros = tp_value_int(tp_value_get(tp_tool_run_arguments(run), "euros"), 0);
  int size = snprintf(words, sizeof words, "booked: %.*s, %lld euros", (int)(hotel.size < 128 ? hotel.size : 128),
                      hotel.data, (long long)euros);
  return tp_tool_ok(run, (tp_text){words, (size_t)size});
}

static tp_answer emit_tools(void *ctx, tp_call *call) {
  trip *t = ctx;
  const tp_tool *tools[TOOL_COUNT];
  for (int i = 0; i < TOOL_COUNT; i++) tools[i] = &t->tools[i];
  tp_call_emit_tool_bundle(call, "trip", tools, TOOL_COUNT, NULL); /* refused, it fails the attempt by itself */
  return TP_ANSWER_DONE;
}

/* ---- context ---- */

/* What is on in town is asked only when a month was named. */
static int32_t names_a_month(void *ctx, const tp_match_view *view) {
  (void)ctx;
  return holds(tp_match_text(view, TP_FIELD_TEXT), "October") ? TP_MATCH_YES : TP_MATCH_NO;
}

static tp_answer events(void *ctx, tp_call *call) {
  (void)ctx;
  for (int waited = 0; waited < EVENTS_NEED_MS; waited += 5) {
    if (tp_call_cancelled(call)) return tp_call_fail(call, 1, "the call was cancelled while it waited for the server");
    sleep_ms(5);
  }
  tp_call_emit_prompt_context(call, "trip.events", "In town: the wine festival in the old streets.", 0, NULL);
  return TP_ANSWER_DONE;
}

/* ---- guards ---- */

static tp_answer surprise(void *ctx, tp_call *call) {
  (void)ctx;
  tp_text text = tp_call_text(call, TP_FIELD_TEXT);
  if (holds(text, "Papa") && holds(text, "e-mail"))
    return tp_call_deny(call, "the journey is a surprise: Papa gets no mail about it");
  return tp_call_allow(call);
}

static tp_answer spending_limit(void *ctx, tp_call *call) {
  (void)ctx;
  if (!tp_text_is(tp_call_text(call, TP_FIELD_TOOL), "book_room")) return TP_ANSWER_DONE; /* abstains */
  int64_t euros = tp_value_int(tp_value_get(tp_call_text(call, TP_FIELD_ARGUMENTS), "euros"), INT64_MAX);
  if (euros <= EUROS_MAX) return tp_call_allow(call);
  char reason[128];
  snprintf(reason, sizeof reason, "%lld euros are more than the %d that may be spent without asking Mara",
           (long long)euros, EUROS_MAX);
  return tp_call_deny(call, reason);
}

/* ---- the end of a day ---- */

static tp_answer diary(void *ctx, tp_call *call) {
  (void)ctx;
  tp_call_emit_audit(call, "trip.diary", "a day of planning has ended", NULL);
  return TP_ANSWER_DONE;
}

/* ---- life ---- */

static void unref(void *ctx) {
  trip *t = ctx;
  pthread_mutex_lock(&t->mutex);
  bool last = --t->refs == 0;
  pthread_mutex_unlock(&t->mutex);
  if (!last) return;
  tp_writer_free(t->lookup_schema);
  tp_writer_free(t->book_schema);
  pthread_cond_destroy(&t->changed);
  pthread_mutex_destroy(&t->mutex);
  free(t);
}

static void write_type(tp_writer *writer, const char *property, const char *type) {
  tp_write_string(writer, property);
  tp_write_map(writer, 1);
  tp_write_string(writer, "type");
  tp_write_string(writer, type);
}

/* {type: object, properties: {…}} for places, and with what is required for bookings. */
static tp_status make_lookup_schema(trip *t, tp_text *ret_schema) {
  static const char *const properties[] = {"from", "to", "place", "needs"};
  tp_status status = tp_writer_new(NULL, &t->lookup_schema);
  if (status != TP_OK) return status;
  tp_writer *w = t->lookup_schema;
  tp_write_map(w, 2);
  tp_write_string(w, "type");
  tp_write_string(w, "object");
  tp_write_string(w, "properties");
  tp_write_map(w, 4);
  for (size_t i = 0; i < 4; i++) write_type(w, properties[i], "string");
  return tp_writer_finish(w, ret_schema);
}

static tp_status make_book_schema(trip *t, tp_text *ret_schema) {
  tp_status status = tp_writer_new(NULL, &t->book_schema);
  if (status != TP_OK) return status;
  tp_writer *w = t->book_schema;
  tp_write_map(w, 3);
  tp_write_string(w, "type");
  tp_write_string(w, "object");
  tp_write_string(w, "properties");
  tp_write_map(w, 2);
  write_type(w, "hotel", "string");
  write_type(w, "euros", "integer");
  tp_write_string(w, "required");
  tp_write_array(w, 2);
  tp_write_string(w, "hotel");
  tp_write_string(w, "euros");
  return tp_writer_finish(w, ret_schema);
}

static tp_status make_tools(trip *t) {
  static const tp_tool_fn functions[TOOL_COUNT] = {train_times, find_room, weather, book_room};
  static const char *const descriptions[TOOL_COUNT] = {"trains between two towns", "rooms in a town",
                                                       "the weather of a town", "books and pays a room"};
  tp_text lookup, book;
  tp_status status = make_lookup_schema(t, &lookup);
  if (status == TP_OK) status = make_book_schema(t, &book);
  if (status != TP_OK) return status;
  for (int i = 0; i < TOOL_COUNT; i++)
    t->tools[i] = (tp_tool){.struct_size = sizeof(tp_tool),
                            .name = tool_names[i],
                            .description = descriptions[i],
                            .schema = i == BOOK_ROOM ? book : lookup,
                            .run = functions[i],
                            .ctx = t,
                            .idempotent = i != BOOK_ROOM};
  return TP_OK;
}

static trip *trip_new(void) {
  trip *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&t->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&t->mutex, NULL);
  t->refs = 1;
  if (make_tools(t) == TP_OK) return t;
  unref(t);
  return NULL;
}

/* ---- registration ---- */

static const struct row {
  const char *id, *summary;
  tp_handler_fn run;
  uint32_t phase;
  tp_capability capabilities;
  bool is_inline;
} rows[] = {
    {"trip.surprise", "denies a turn that would tell Papa", surprise, TP_PHASE_TURN_INTAKE, TP_CAPABILITY_DECIDE, true},
    {"trip.events", "asks what is on in town", events, TP_PHASE_TURN_PRE_PROMPT_CONTEXT,
     TP_CAPABILITY_CONTRIBUTE_PROMPT_CONTEXT, false},
    {"trip.tools", "contributes the tools of the journey", emit_tools, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION,
     TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE, true},
    {"trip.spending_limit", "denies bookings above 400 euros", spending_limit, TP_PHASE_TOOL_PRE, TP_CAPABILITY_DECIDE,
     true},
    {"trip.finished", "observes the end of each tool call", finished, TP_PHASE_TOOL_POST, 0, true},
    {"trip.diary", "notes the end of each session", diary, TP_PHASE_SESSION_END, TP_CAPABILITY_EMIT_AUDIT, true}};

static tp_status add_handler(tp_edit *edit, const struct row *row, trip *t, tp_fault *fault) {
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = row->id,
                        .summary = row->summary,
                        .run = row->run,
                        .ctx = t,
                        .destroy = unref,
                        .phases = &row->phase,
                        .phase_count = 1,
                        .capabilities = row->capabilities,
                        .placement = row->is_inline ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD};
  tp_status status = tp_edit_add_handler(edit, &handler, fault);
  if (status != TP_OK) return status;
  pthread_mutex_lock(&t->mutex);
  t->refs++; /* the handler's, released by its destroy */
  pthread_mutex_unlock(&t->mutex);
  return TP_OK;
}

static tp_status add_subscription(tp_edit *edit, const struct row *row, tp_fault *fault) {
  static const uint32_t text_field = TP_FIELD_TEXT;
  static const tp_match month = {.struct_size = sizeof month,
                                 .matches = names_a_month,
                                 .description = "the text names a month",
                                 .fields = &text_field,
                                 .field_count = 1};
  tp_subscription subscription = {
      .struct_size = sizeof subscription, .id = row->id, .handler = row->id, .phase = row->phase};
  if (row->phase == TP_PHASE_TURN_INTAKE) subscription.failure = TP_FAILURE_REQUIRED; /* a guard that fails, closes */
  if (row->phase == TP_PHASE_TURN_PRE_PROMPT_CONTEXT) {
    subscription.execution = TP_EXECUTION_DEADLINE;
    subscription.limit_ms = EVENTS_LIMIT_MS;
    subscription.match = &month;
  }
  return tp_edit_add_subscription(edit, &subscription, fault);
}

static tp_status register_trip(const tp_domain_context *context, tp_fault *fault) {
  trip *t = trip_new();
  tp_status status = t ? TP_OK : TP_ERR_NO_MEMORY;
  size_t i = 0;
  if (!t && fault) *fault = (tp_fault){.code = TP_ERR_NO_MEMORY, .message = "no memory for the trip"};
  for (; status == TP_OK && i < sizeof rows / sizeof rows[0]; i++) {
    status = add_handler(context->edit, &rows[i], t, fault);
    if (status == TP_OK) status = add_subscription(context->edit, &rows[i], fault);
  }
  if (t) unref(t);
  return status;
}

TP_API const tp_domain tp_domain_export = {.struct_size = sizeof(tp_domain),
                                           .header_version = TP_VERSION_NUMBER,
                                           .name = "trip",
                                           .version = "1.0",
                                           .register_with = register_trip};
