/* SPDX-License-Identifier: Apache-2.0 */
#include "server/live.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/server.h"
#include "support/clock.h"
#include "support/text.h"

enum { TURNS_MAX = 4096, QUESTIONS_MAX = 1024, DENIALS = 64, WATCHERS_MAX = 32, BUCKETS = 1024, WORD_MAX = 128 };
enum { ARGUMENTS_MAX = 256 << 10 };

typedef struct ids {
  char tenant[TP_ID_BYTES_MAX + 1], session[TP_ID_BYTES_MAX + 1], turn[TP_ID_BYTES_MAX + 1];
} ids;

typedef struct live_turn {
  struct live_turn *previous, *next, *bucket_next;
  ids ids;
  char agent[TP_ID_BYTES_MAX + 1], parent[TP_ID_BYTES_MAX + 1];
  char model[WORD_MAX + 1], what[WORD_MAX + 1]; /* the newest model; the name of what the turn does */
  const char *doing;                            /* "phase", "model", "tool", "question", "turn" */
  int64_t began_ms, since_ms;                   /* since_ms: when it began to do that; both by the wall clock */
  uint32_t tools_open, tools, requests;
  int64_t input_tokens, output_tokens;
} live_turn;

typedef struct live_question {
  struct live_question *next;
  ids ids;
  tp_token token;
  tp__bytes key, call_id, hash, json; /* json: the members that are shown */
} live_question;

typedef struct denial {
  ids ids;
  char what[2 * WORD_MAX + 2]; /* the phase or the tool, and the hook that denied */
  char hook[TP_ID_BYTES_MAX + 1];
  int64_t unix_ms;
} denial;

struct tp__watcher {
  tp__client client; /* first, since it is the data of a request */
  /* never change */
  tp__live *live;
  tp__http_request *request;
  tp__watch_filter filter;
  /* under the lock of tp__live */
  struct tp__watcher *next;
  uint64_t dropped;
};

struct tp__live {
  tp_runtime *runtime;
  tp__lock lock;
  /* under lock */
  live_turn *turns, *buckets[BUCKETS];
  size_t turn_count, question_count, watcher_count;
  uint64_t turns_unlisted, questions_unlisted;
  live_question *questions;
  denial denials[DENIALS];
  size_t denial_count; /* since the start */
  tp__watcher *watchers;
};

/* ---- names ---- */

static const tp_event_kind watched[] = {TP_EVENT_TURN_BEGIN, TP_EVENT_PHASE_BEGIN, TP_EVENT_RUN,
                                        TP_EVENT_PHASE_END,  TP_EVENT_MODEL_BEGIN, TP_EVENT_MODEL_END,
                                        TP_EVENT_TOOL_BEGIN, TP_EVENT_TOOL_END,    TP_EVENT_QUESTION,
                                        TP_EVENT_TURN_END,   TP_EVENT_JOB};

uint64_t tp__live_kinds(void) {
  uint64_t kinds = 0;
  for (size_t i = 0; i < sizeof watched / sizeof *watched; i++) kinds |= UINT64_C(1) << watched[i];
  return kinds;
}

uint64_t tp__live_kinds_of(tp_text names) {
  uint64_t kinds = 0;
  for (size_t from = 0, at = 0; at <= names.size; at++) {
    if (at < names.size && names.data[at] != ',') continue;
    uint64_t kind = 0;
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
      if (tp__is_word((tp_text){names.data + from, at - from}, tp_event_name(watched[i])))
        kind = UINT64_C(1) << watched[i];
    if (kind == 0) return 0;
    kinds |= kind;
    from = at + 1;
  }
  return kinds;
}

static tp_text id_of(const tp_event *event, tp_id_kind kind) {
  return (uint32_t)kind < event->id_count ? event->ids[kind] : (tp_text){0};
}

static bool same_ids(const ids *a, const ids *b) {
  return strcmp(a->turn, b->turn) == 0 && strcmp(a->session, b->session) == 0 && strcmp(a->tenant, b->tenant) == 0;
}

static const char *phase_name(const tp__live *live, tp_phase_id id) {
  const tp_phase *phase = tp_phase_get(live->runtime, id);
  return phase ? phase->name : "";
}

/* ---- JSON ---- */

/* @param key  with its quotation marks and the text before it. */
static void put_member_text(tp__bytes *out, const char *key, tp_text text) {
  tp__bytes_put_string(out, key);
  tp__bytes_put(out, ":", 1);
  tp__put_json(out, text);
}

static void put_word(tp__bytes *out, const char *key, tp_text text) {
  if (text.size > 0) put_member_text(out, key, (tp_text){text.data, (size_t)tp__cut(text, WORD_MAX)});
}

static void put_seconds(tp__bytes *out, const char *key, int64_t ns) {
  if (ns < 0) ns = 0;
  tp__bytes_printf(out, "%s:%" PRId64 ".%06" PRId64, key, ns / (1000 * TP__NS_IN_MS), ns / 1000 % 1000000);
}

static void put_ids(tp__bytes *out, const ids *of) {
  put_member_text(out, "\"tenant\"", tp_text_of(of->tenant));
  put_member_text(out, ",\"session\"", tp_text_of(of->session));
  put_member_text(out, ",\"turn\"", tp_text_of(of->turn));
}

/* ---- turns ---- */

static live_turn **bucket_of(tp__live *live, const ids *of) {
  uint64_t hash = UINT64_C(14695981039346656037);
  const char *texts[] = {of->turn, of->session, of->tenant};
  for (size_t i = 0; i < 3; i++)
    for (const char *at = texts[i]; *at; at++) hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
  return &live->buckets[(hash ^ hash >> 32) & (BUCKETS - 1)];
}

static live_turn *find_turn_locked(tp__live *live, const ids *of) {
  TP__LOCKED(&live->lock);
  live_turn *turn = *bucket_of(live, of);
  while (turn && !same_ids(&turn->ids, of)) turn = turn->bucket_next;
  return turn;
}

static void add_turn_locked(tp__live *live, const ids *of, const tp_event *event) {
  TP__LOCKED(&live->lock);
  live_turn *turn = live->turn_count < TURNS_MAX ? tp__heap_alloc(sizeof *turn) : NULL;
  if (!turn) {
    live->turns_unlisted++;
    return;
  }
  live_turn **bucket = bucket_of(live, of);
  turn->ids = *of;
  (void)tp__copy_cut(turn->agent, sizeof turn->agent, id_of(event, TP_ID_AGENT));
  (void)tp__copy_cut(turn->parent, sizeof turn->parent, event->parent_turn);
  turn->doing = "turn";
  turn->began_ms = turn->since_ms = event->unix_ms;
  turn->bucket_next = *bucket;
  *bucket = turn;
  turn->next = live->turns;
  if (turn->next) turn->next->previous = turn;
  live->turns = turn;
  live->turn_count++;
}

static void remove_turn_locked(tp__live *live, live_turn *turn) {
  TP__LOCKED(&live->lock);
  live_turn **at = bucket_of(live, &turn->ids);
  while (*at != turn) at = &(*at)->bucket_next;
  *at = turn->bucket_next;
  *(turn->previous ? &turn->previous->next : &live->turns) = turn->next;
  if (turn->next) turn->next->previous = turn->previous;
  live->turn_count--;
  tp__heap_free(turn, sizeof *turn);
}

static void set_doing(live_turn *turn, const tp_event *event, const char *doing, tp_text what) {
  turn->doing = doing;
  turn->since_ms = event->unix_ms;
  (void)tp__copy_cut(turn->what, sizeof turn->what, what);
}

static void update_turn(const tp__live *live, live_turn *turn, const tp_event *event) {
  switch (event->kind) {
    case TP_EVENT_PHASE_BEGIN:
      set_doing(turn, event, "phase", tp_text_of(phase_name(live, event->phase)));
      break;
    case TP_EVENT_MODEL_BEGIN:
      turn->requests++;
      set_doing(turn, event, "model", event->model);
      (void)tp__copy_cut(turn->model, sizeof turn->model, event->model);
      break;
    case TP_EVENT_MODEL_END:
      turn->input_tokens += event->input_tokens;
      turn->output_tokens += event->output_tokens;
      set_doing(turn, event, "turn", (tp_text){0});
      break;
    case TP_EVENT_TOOL_BEGIN:
      turn->tools++;
      turn->tools_open++;
      set_doing(turn, event, "tool", event->tool_call->name);
      break;
    case TP_EVENT_TOOL_END:
      if (turn->tools_open > 0) turn->tools_open--;
      if (turn->tools_open == 0) set_doing(turn, event, "turn", (tp_text){0});
      break;
    case TP_EVENT_QUESTION:
      set_doing(turn, event, "question", event->question->call->name);
      break;
    default:
      break;
  }
}

void tp__live_put_turns(tp__live *live, tp__bytes *out) {
  bool is_first = true;
  tp__bytes_put(out, "[", 1);
  tp__lock_acquire(&live->lock);
  for (const live_turn *t = live->turns; t; t = t->next) {
    tp__bytes_put_string(out, is_first ? "{" : ",{");
    is_first = false;
    put_ids(out, &t->ids);
    put_member_text(out, ",\"agent\"", tp_text_of(t->agent));
    put_word(out, ",\"parent\"", tp_text_of(t->parent));
    put_word(out, ",\"model\"", tp_text_of(t->model));
    tp__bytes_printf(out, ",\"doing\":\"%s\"", t->doing);
    put_member_text(out, ",\"what\"", tp_text_of(t->what));
    tp__bytes_printf(out,
                     ",\"began_ms\":%" PRId64 ",\"since_ms\":%" PRId64 ",\"requests\":%" PRIu32 ",\"tools\":%" PRIu32
                     ",\"input_tokens\":%" PRId64 ",\"output_tokens\":%" PRId64 "}",
                     t->began_ms, t->since_ms, t->requests, t->tools, t->input_tokens, t->output_tokens);
  }
  tp__lock_release(&live->lock);
  tp__bytes_put(out, "]", 1);
}

/* ---- questions ---- */

static void question_free(live_question *q) {
  tp__bytes_fini(&q->key);
  tp__bytes_fini(&q->call_id);
  tp__bytes_fini(&q->hash);
  tp__bytes_fini(&q->json);
  tp__heap_free(q, sizeof *q);
}

/* Adds the arguments. If they are too large, they are not shown; then the question has no hash, and cannot be allowed
 * here. */
static void put_arguments(live_question *q, const tp_question *question) {
  tp_writer *writer = NULL;
  tp_text json = {0}, arguments = question->call->arguments;
  bool fits = arguments.size <= ARGUMENTS_MAX && tp_writer_new(NULL, &writer) == TP_OK;
  if (fits && question->call->malformed) {
    put_member_text(&q->json, ",\"arguments\"", arguments);
  } else if (fits && arguments.size == 0) {
    tp__bytes_put_string(&q->json, ",\"arguments\":{}");
  } else if (fits && tp_json_encode(arguments, writer, &json, NULL) == TP_OK) {
    tp__bytes_put_string(&q->json, ",\"arguments\":");
    tp__bytes_put_text(&q->json, json);
  } else {
    fits = false;
  }
  if (fits) {
    tp__bytes_put_text(&q->hash, question->arguments_hash);
    put_member_text(&q->json, ",\"arguments_hash\"", question->arguments_hash);
  } else {
    tp__bytes_put_string(&q->json, ",\"too_large\":true");
  }
  tp_writer_free(writer);
}

static live_question *question_new(const tp__live *live, const ids *of, const tp_event *event) {
  const tp_question *question = event->question;
  live_question *q = tp__heap_alloc(sizeof *q);
  if (!q) return NULL;
  q->ids = *of;
  q->token = question->token;
  tp__bytes_put_text(&q->key, question->key);
  tp__bytes_put_text(&q->call_id, question->call->id);
  put_member_text(&q->json, "\"key\"", question->key);
  tp__bytes_put(&q->json, ",", 1);
  put_ids(&q->json, of);
  put_member_text(&q->json, ",\"tool\"", question->call->name);
  put_member_text(&q->json, ",\"reason\"", question->reason);
  put_member_text(&q->json, ",\"subscription\"", question->subscription);
  put_word(&q->json, ",\"phase\"", tp_text_of(phase_name(live, question->phase)));
  tp__bytes_printf(&q->json, ",\"asked_ms\":%" PRId64 ",\"expires_ms\":%" PRId64, event->unix_ms,
                   question->expires_unix_ms);
  put_arguments(q, question);
  if (!q->key.failed && !q->call_id.failed && !q->hash.failed && !q->json.failed) return q;
  question_free(q);
  return NULL;
}

static void add_question_locked(tp__live *live, live_question *q) {
  TP__LOCKED(&live->lock);
  live_question **at = &live->questions;
  while (*at) at = &(*at)->next;
  *at = q;
  live->question_count++;
}

/* Ends the questions of a turn, or of one call of it.   @param call_id  NULL: any. */
static void end_questions_locked(tp__live *live, const ids *of, const tp_text *call_id) {
  TP__LOCKED(&live->lock);
  for (live_question *q, **at = &live->questions; (q = *at);) {
    if (!same_ids(&q->ids, of) || (call_id && !tp__same(tp__bytes_text(&q->call_id), *call_id))) {
      at = &q->next;
      continue;
    }
    *at = q->next;
    live->question_count--;
    question_free(q);
  }
}

void tp__live_put_questions(tp__live *live, tp__bytes *out) {
  tp__bytes_put(out, "[", 1);
  tp__lock_acquire(&live->lock);
  for (live_question *q = live->questions; q; q = q->next) {
    tp__bytes_put_string(out, q == live->questions ? "{" : ",{");
    tp__bytes_put_text(out, tp__bytes_text(&q->json));
    tp__bytes_put(out, "}", 1);
  }
  tp__lock_release(&live->lock);
  tp__bytes_put(out, "]", 1);
}

bool tp__live_question_find(tp__live *live, tp_text key, tp_token *ret_token) {
  tp__lock_acquire(&live->lock);
  live_question *q = live->questions;
  while (q && !tp__same(tp__bytes_text(&q->key), key)) q = q->next;
  if (q) *ret_token = q->token;
  tp__lock_release(&live->lock);
  return q != NULL;
}

void tp__live_question_end(tp__live *live, tp_text key) {
  tp__lock_acquire(&live->lock);
  for (live_question *q, **at = &live->questions; (q = *at); at = &q->next) {
    if (!tp__same(tp__bytes_text(&q->key), key)) continue;
    *at = q->next;
    live->question_count--;
    question_free(q);
    break;
  }
  tp__lock_release(&live->lock);
}

/* ---- denials ---- */

static void add_denial_locked(tp__live *live, const ids *of, const tp_event *event) {
  TP__LOCKED(&live->lock);
  denial *d = &live->denials[live->denial_count++ % DENIALS];
  *d = (denial){.ids = *of, .unix_ms = event->unix_ms};
  if (event->kind == TP_EVENT_TOOL_END)
    snprintf(d->what, sizeof d->what, "%.*s", tp__cut(event->tool_result->name, WORD_MAX),
             event->tool_result->name.size ? event->tool_result->name.data : "");
  else snprintf(d->what, sizeof d->what, "%s", phase_name(live, event->phase));
  if (event->subscription) snprintf(d->hook, sizeof d->hook, "%s", event->subscription);
}

void tp__live_put_denials(tp__live *live, tp__bytes *out) {
  tp__bytes_put(out, "[", 1);
  tp__lock_acquire(&live->lock);
  size_t count = live->denial_count < DENIALS ? live->denial_count : DENIALS;
  for (size_t i = 0; i < count; i++) { /* the newest first */
    const denial *d = &live->denials[(live->denial_count - 1 - i) % DENIALS];
    tp__bytes_put_string(out, i == 0 ? "{" : ",{");
    put_ids(out, &d->ids);
    put_member_text(out, ",\"what\"", tp_text_of(d->what));
    put_word(out, ",\"hook\"", tp_text_of(d->hook));
    tp__bytes_printf(out, ",\"time_ms\":%" PRId64 "}", d->unix_ms);
  }
  tp__lock_release(&live->lock);
  tp__bytes_put(out, "]", 1);
}

uint64_t tp__live_unlisted(tp__live *live) {
  tp__lock_acquire(&live->lock);
  uint64_t count = live->turns_unlisted + live->questions_unlisted;
  tp__lock_release(&live->lock);
  return count;
}

/* ---- streams ---- */

static void put_event(const tp__live *live, tp__bytes *out, const ids *of, const tp_event *event) {
  const char *name = tp_event_name(event->kind);
  tp__bytes_printf(out, "event: %s\ndata: {\"kind\":\"%s\",\"time_ms\":%" PRId64 ",", name, name, event->unix_ms);
  put_ids(out, of);
  put_word(out, ",\"agent\"", id_of(event, TP_ID_AGENT));
  put_word(out, ",\"parent\"", event->parent_turn);
  if (event->phase) put_word(out, ",\"phase\"", tp_text_of(phase_name(live, event->phase)));
  put_word(out, ",\"model\"", event->model);
  if (event->subscription) put_word(out, ",\"subscription\"", tp_text_of(event->subscription));
  if (event->kind == TP_EVENT_RUN) {
    put_word(out, ",\"subscription\"", tp_text_of(event->run->subscription));
    put_word(out, ",\"state\"", tp_text_of(tp_state_name((tp_state)event->run->state)));
    put_seconds(out, ",\"duration_s\"", event->run->ended_ns - event->run->started_ns);
  }
  if (event->ended_ns > 0) {
    put_seconds(out, ",\"duration_s\"", event->ended_ns - event->started_ns);
    put_word(out, ",\"status\"", tp_text_of(tp__server_status_word(event->status)));
  }
  if (event->kind == TP_EVENT_MODEL_END)
    tp__bytes_printf(out, ",\"input_tokens\":%" PRId64 ",\"output_tokens\":%" PRId64, event->input_tokens,
                     event->output_tokens);
  if (event->tool_call) put_word(out, ",\"tool\"", event->tool_call->name);
  else if (event->tool_result) put_word(out, ",\"tool\"", event->tool_result->name);
  if (event->tool_result) put_word(out, ",\"result\"", tp_text_of(tp_tool_result_name(event->tool_result->kind)));
  if (event->question) put_member_text(out, ",\"key\"", event->question->key);
  if (event->job) {
    tp__bytes_printf(out, ",\"job\":%" PRIu64, event->job->id);
    put_word(out, ",\"handler\"", event->job->handler);
    put_word(out, ",\"state\"", tp_text_of(tp_job_state_name((tp_job_state)event->job->state)));
  }
  tp__bytes_put_string(out, "}\n\n");
}

static bool fits(const tp__watch_filter *filter, const ids *of, tp_event_kind kind) {
  return (filter->kinds >> kind & 1) && (!filter->tenant[0] || strcmp(filter->tenant, of->tenant) == 0) &&
         (!filter->session[0] || strcmp(filter->session, of->session) == 0) &&
         (!filter->turn[0] || strcmp(filter->turn, of->turn) == 0);
}

/* Writes the number of dropped events before further events. @return false: the stream has no space now. */
static bool put_dropped_locked(tp__watcher *watcher) {
  TP__LOCKED(&watcher->live->lock);
  char text[80];
  if (watcher->dropped == 0) return true;
  int size = snprintf(text, sizeof text, "event: dropped\ndata: {\"kind\":\"dropped\",\"count\":%" PRIu64 "}\n\n",
                      watcher->dropped);
  if (tp__http_stream_put(watcher->request, (tp_text){text, (size_t)size}) != TP_OK) return false;
  watcher->dropped = 0;
  return true;
}

static void send_locked(tp__live *live, const ids *of, const tp_event *event) {
  TP__LOCKED(&live->lock);
  tp__bytes text = {0};
  for (tp__watcher *w = live->watchers; w; w = w->next) {
    if (!fits(&w->filter, of, event->kind)) continue;
    if (text.size == 0) put_event(live, &text, of, event);
    bool sent =
        !text.failed && put_dropped_locked(w) && tp__http_stream_put(w->request, tp__bytes_text(&text)) == TP_OK;
    if (!sent) w->dropped++;
  }
  tp__bytes_fini(&text);
}

tp__watcher *tp__live_watch(tp__live *live, tp__http_request *request, const tp__watch_filter *filter) {
  static const tp__http_field fields[] = {{"Content-Type", "text/event-stream; charset=utf-8"},
                                          {"Cache-Control", "no-cache"},
                                          {"X-Accel-Buffering", "no"},
                                          {NULL, NULL}};
  tp__watcher *watcher = tp__heap_alloc(sizeof *watcher);
  tp__lock_acquire(&live->lock);
  bool opens = watcher && live->watcher_count < WATCHERS_MAX;
  if (opens) {
    *watcher = (tp__watcher){.client.watches = true, .live = live, .request = request, .filter = *filter};
    tp__http_set_data(request, watcher);
    tp__http_stream_begin(request, 200, fields);
    (void)!tp__http_stream_put(request, tp_text_of("event: begin\ndata: {\"kind\":\"begin\"}\n\n"));
    watcher->next = live->watchers;
    live->watchers = watcher;
    live->watcher_count++;
  }
  tp__lock_release(&live->lock);
  if (opens) return watcher;
  tp__heap_free(watcher, sizeof *watcher);
  tp__refusal refusal;
  (void)tp__refusal_fill(&refusal, 503, "overloaded", NULL, "%d streams of events are open: that is the most",
                         WATCHERS_MAX);
  tp__refusal_answer(&refusal, request);
  return NULL;
}

void tp__live_watcher_gone(tp__watcher *watcher) {
  tp__live *live = watcher->live;
  tp__lock_acquire(&live->lock);
  tp__watcher **at = &live->watchers;
  while (*at && *at != watcher) at = &(*at)->next;
  if (*at) {
    *at = watcher->next;
    live->watcher_count--;
    tp__http_stream_end(watcher->request);
  }
  tp__lock_release(&live->lock);
}

void tp__live_watcher_drained(tp__watcher *watcher) {
  tp__lock_acquire(&watcher->live->lock);
  (void)put_dropped_locked(watcher);
  tp__lock_release(&watcher->live->lock);
}

void tp__live_watcher_free(tp__watcher *watcher) { tp__heap_free(watcher, sizeof *watcher); }

/* ---- events ---- */

void tp__live_event(tp__live *live, const tp_event *event) {
  ids of;
  (void)tp__copy_cut(of.tenant, sizeof of.tenant, id_of(event, TP_ID_TENANT));
  (void)tp__copy_cut(of.session, sizeof of.session, id_of(event, TP_ID_SESSION));
  (void)tp__copy_cut(of.turn, sizeof of.turn, id_of(event, TP_ID_TURN));
  live_question *asked = event->kind == TP_EVENT_QUESTION ? question_new(live, &of, event) : NULL;
  bool is_denial = (event->kind == TP_EVENT_PHASE_END && event->status == TP_ERR_DENIED) ||
                   (event->kind == TP_EVENT_TOOL_END && event->tool_result->kind == TP_TOOL_DENIED);
  tp__lock_acquire(&live->lock);
  live_turn *turn = find_turn_locked(live, &of);
  if (event->kind == TP_EVENT_TURN_BEGIN && !turn) add_turn_locked(live, &of, event);
  if (turn) update_turn(live, turn, event);
  if (asked && live->question_count < QUESTIONS_MAX) {
    add_question_locked(live, asked);
    asked = NULL;
  } else if (event->kind == TP_EVENT_QUESTION) {
    live->questions_unlisted++;
  }
  if (event->kind == TP_EVENT_TOOL_END) end_questions_locked(live, &of, &event->tool_result->call_id);
  if (is_denial) add_denial_locked(live, &of, event);
  if (event->kind == TP_EVENT_TURN_END) {
    end_questions_locked(live, &of, NULL);
    if (turn) remove_turn_locked(live, turn);
    else if (event->started_ns > 0 && live->turns_unlisted > 0) live->turns_unlisted--;
  }
  if (live->watchers) send_locked(live, &of, event);
  tp__lock_release(&live->lock);
  if (asked) question_free(asked);
}

tp__live *tp__live_new(tp_runtime *runtime) {
  tp__live *live = tp__heap_alloc(sizeof *live);
  if (!live) return NULL;
  live->runtime = runtime;
  tp__lock_init(&live->lock, TP__LOCK_live);
  return live;
}

void tp__live_free(tp__live *live) {
  if (!live) return;
  assert(!live->watchers);
  while (live->turns) {
    live_turn *turn = live->turns;
    live->turns = turn->next;
    tp__heap_free(turn, sizeof *turn);
  }
  while (live->questions) {
    live_question *q = live->questions;
    live->questions = q->next;
    question_free(q);
  }
  tp__lock_fini(&live->lock);
  tp__heap_free(live, sizeof *live);
}
