/* SPDX-License-Identifier: Apache-2.0
 *
 * strict_server: an endpoint (endpoint.h) of one of the three APIs that judges each request as the strictest servers do
 * (strict_api.h), and also wants its reasoning back, and no reasoning of another server. It refuses with status 400 and
 * keeps the reason. A test sets its answers before each turn: thinking, text and calls, each with a number of its own,
 * so that the server recognizes them. It never asserts. */
#ifndef TEST_STRICT_SERVER_H
#define TEST_STRICT_SERVER_H

#include <stdarg.h>

#include "tests/support/endpoint.h"
#include "runtime/base/printf.h"
#include "tests/support/strict_api.h"
#include "turnphase/openai.h"

enum { STRICT_ANSWERS_MAX = 4096, STRICT_CALLS_MAX = 4 };

/** What the next answer is. */
typedef struct strict_plan {
  bool thinks, says, malformed;
  bool stops;      /* after its text: the rest does not come */
  bool same_ids;   /* ids of calls that the server has given before, in a form that other servers refuse */
  unsigned calls;  /* in parallel */
  unsigned rounds; /* answers with calls before the one without */
} strict_plan;

typedef struct strict_server {
  endpoint *endpoint;
  tp_openai_api api;
  char letter;           /* of the marks that it gives */
  pthread_mutex_t mutex; /* of what follows */
  strict_plan plan;
  unsigned asked;                   /* in this turn */
  unsigned number;                  /* of answers */
  bool thought[STRICT_ANSWERS_MAX]; /* by number: calls were given with reasoning */
  endpoint_reply replies[STRICT_ANSWERS_MAX];
  char *bodies[STRICT_ANSWERS_MAX];
  unsigned refused;
  char why[512];
} strict_server;

/* ---- judging ---- */

static inline void strict_server_refuse(strict_server *s, const char *why, const char *body) {
  if (s->refused++ == 0) {
    snprintf(s->why, sizeof s->why, "%s", why);
    print_message("# refused by %c: %s\n%s\n", s->letter, why, body);
  }
}

/* Whether a call that the server gave with reasoning comes back without it. */
static inline bool strict_server_misses(const strict_server *s, const char *body) {
  char call[32], mark[32];
  snprintf(call, sizeof call, "\"call_%c_", s->letter);
  for (const char *at = strstr(body, call); at; at = strstr(at + 1, call)) {
    unsigned number = (unsigned)strtoul(at + strlen(call), NULL, 10);
    snprintf(mark, sizeof mark, "mark_%c_%u_", s->letter, number);
    if (number < STRICT_ANSWERS_MAX && s->thought[number] && !strstr(body, mark)) return true;
  }
  return false;
}

static inline bool strict_server_has_foreign(const strict_server *s, const char *body) {
  for (const char *at = strstr(body, "mark_"); at; at = strstr(at + 1, "mark_"))
    if (at[5] != s->letter) return true;
  return false;
}

static inline void strict_server_judge(strict_server *s, const char *body) {
  strict judge = {.why = ""};
  tp_writer *writer;
  tp_text value = {NULL, 0};
  if (tp_writer_new(NULL, &writer) != TP_OK) return;
  if (tp_json_decode(tp_text_of(body), writer, NULL) != TP_OK || tp_writer_finish(writer, &value) != TP_OK)
    strict_refuse(&judge, "the body is no JSON");
  if (s->api == TP_OPENAI_CHAT) strict_chat(&judge, value, strstr(body, "\"reasoning_content\"") != NULL);
  if (s->api == TP_OPENAI_MESSAGES) strict_messages(&judge, value);
  if (s->api == TP_OPENAI_RESPONSES) strict_responses(&judge, value);
  strict_tools(&judge, value, s->api == TP_OPENAI_CHAT ? "function" : NULL);
  tp_writer_free(writer);
  if (strict_server_misses(s, body)) strict_refuse(&judge, "calls that came with reasoning come back without it");
  if (strict_server_has_foreign(s, body)) strict_refuse(&judge, "reasoning of another server");
  if (judge.why[0]) strict_server_refuse(s, judge.why, body);
}

/* ---- answering ---- */

typedef struct strict_body {
  char *data;
  size_t size, stops_at;
} strict_body;

static inline void strict_put(strict_body *b, const char *format, ...) TP__PRINTF(2, 3);
static inline void strict_put(strict_body *b, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int size = vsnprintf(b->data + b->size, 16384 - b->size, format, args);
  va_end(args);
  if (size < 0 || b->size + (size_t)size >= 16384) abort();
  for (char *at = b->data + b->size; *at; at++)
    if (*at == '\'') *at = '"';
  b->size += (size_t)size;
}

static inline void strict_put_event(strict_body *b, const char *type, const char *rest) {
  strict_put(b, "event: %s\ndata: {'type':'%s'%s}\n\n", type, type, rest);
}

/* The id and the arguments of a call. */
static inline void strict_name_call(const strict_server *s, const strict_plan *plan, unsigned i, char id[64]) {
  if (plan->same_ids) snprintf(id, 64, "functions.note:%u#%s", i, "a-long-id-that-other-servers-do-not-take");
  else snprintf(id, 64, "call_%c_%u_%u", s->letter, s->number, i);
}

static inline void strict_write(strict_server *s, const strict_plan *plan, unsigned calls, strict_body *b) {
  char mark[40], id[64], rest[512];
  char given[64] = "{\\'n\\': oh";
  unsigned n = s->number;
  snprintf(mark, sizeof mark, "mark_%c_%u_", s->letter, n);
  if (!plan->malformed) snprintf(given, sizeof given, "{\\'n\\':%u}", n);
  switch (s->api) {
    case TP_OPENAI_CHAT:
      if (plan->thinks) strict_put(b, "data: {'choices':[{'delta':{'reasoning_content':'hm %s'}}]}\n\n", mark);
      if (plan->says) strict_put(b, "data: {'choices':[{'delta':{'content':'answer %u'}}]}\n\n", n);
      b->stops_at = b->size;
      for (unsigned i = 0; i < calls; i++) {
        strict_name_call(s, plan, i, id);
        strict_put(b,
                   "data: {'choices':[{'delta':{'tool_calls':[{'index':%u,'id':'%s','type':'function','function':"
                   "{'name':'note','arguments':'%s'}}]}}]}\n\n",
                   i, id, given);
      }
      strict_put(b, "data: {'choices':[{'delta':{},'finish_reason':'%s'}]}\n\ndata: [DONE]\n\n",
                 calls ? "tool_calls" : "stop");
      break;
    case TP_OPENAI_RESPONSES:
      if (plan->thinks) {
        snprintf(rest, sizeof rest,
                 ",'output_index':0,'item':{'type':'reasoning','id':'rs_%u','summary':[],'encrypted_content':'%s'}", n,
                 mark);
        strict_put_event(b, "response.output_item.done", rest);
      }
      if (plan->says) {
        snprintf(rest, sizeof rest, ",'output_index':1,'content_index':0,'delta':'answer %u'", n);
        strict_put_event(b, "response.output_text.delta", rest);
      }
      b->stops_at = b->size;
      for (unsigned i = 0; i < calls; i++) {
        strict_name_call(s, plan, i, id);
        snprintf(rest, sizeof rest,
                 ",'output_index':%u,'item':{'type':'function_call','call_id':'%s','name':'note','arguments':'%s'}",
                 i + 2, id, given);
        strict_put_event(b, "response.output_item.done", rest);
      }
      strict_put_event(b, "response.completed", ",'response':{'status':'completed'}");
      break;
    default:
      if (plan->thinks) {
        strict_put_event(b, "content_block_start",
                         ",'index':0,'content_block':{'type':'thinking','thinking':'','signature':''}");
        strict_put_event(b, "content_block_delta", ",'index':0,'delta':{'type':'thinking_delta','thinking':'hm'}");
        snprintf(rest, sizeof rest, ",'index':0,'delta':{'type':'signature_delta','signature':'%s'}", mark);
        strict_put_event(b, "content_block_delta", rest);
      }
      if (plan->says) {
        strict_put_event(b, "content_block_start", ",'index':1,'content_block':{'type':'text','text':''}");
        snprintf(rest, sizeof rest, ",'index':1,'delta':{'type':'text_delta','text':'answer %u'}", n);
        strict_put_event(b, "content_block_delta", rest);
      }
      b->stops_at = b->size;
      for (unsigned i = 0; i < calls; i++) {
        strict_name_call(s, plan, i, id);
        snprintf(rest, sizeof rest,
                 ",'index':%u,'content_block':{'type':'tool_use','id':'%s','name':'note','input':{}}", i + 2, id);
        strict_put_event(b, "content_block_start", rest);
        snprintf(rest, sizeof rest, ",'index':%u,'delta':{'type':'input_json_delta','partial_json':'%s'}", i + 2,
                 given);
        strict_put_event(b, "content_block_delta", rest);
      }
      snprintf(rest, sizeof rest, ",'delta':{'stop_reason':'%s'}", calls ? "tool_use" : "end_turn");
      strict_put_event(b, "message_delta", rest);
      strict_put_event(b, "message_stop", "");
  }
}

static inline const endpoint_reply *strict_server_answer(void *ctx, const char *request) {
  static const endpoint_reply refusal = {
      .status = 400, .type = "application/json", .body = "{\"error\":{\"message\":\"the server is strict\"}}"};
  strict_server *s = ctx;
  const char *head_end = strstr(request, "\r\n\r\n"), *json = head_end ? head_end + 4 : "";
  pthread_mutex_lock(&s->mutex);
  unsigned refused = s->refused;
  strict_server_judge(s, json);
  const endpoint_reply *reply = &refusal;
  if (s->refused == refused && s->number < STRICT_ANSWERS_MAX) {
    static const strict_plan summary = {.says = true}; /* of a compaction: it has no tools */
    bool is_summary = strstr(json, "\"tools\"") == NULL;
    const strict_plan *plan = is_summary ? &summary : &s->plan;
    unsigned calls = s->asked < plan->rounds ? plan->calls : 0;
    strict_body b = {.data = calloc(1, 16384)};
    if (!b.data) abort();
    s->asked += !is_summary;
    s->thought[s->number] = plan->thinks && calls > 0 && !plan->same_ids;
    strict_write(s, plan, calls, &b);
    bool stops = plan->stops && calls == plan->calls;
    s->bodies[s->number] = b.data;
    s->replies[s->number] = (endpoint_reply){.body = b.data,
                                             .size = b.size,
                                             .stops_at = stops ? b.stops_at : 0,
                                             .then = stops ? ENDPOINT_WAITS : ENDPOINT_ENDS};
    reply = &s->replies[s->number++];
  }
  pthread_mutex_unlock(&s->mutex);
  return reply;
}

static inline strict_server *strict_server_open(tp_openai_api api) {
  static const endpoint_reply none = {.status = 500};
  strict_server *s = calloc(1, sizeof *s);
  if (!s) abort();
  s->api = api;
  s->letter = "crm"[api];
  pthread_mutex_init(&s->mutex, NULL);
  s->endpoint = endpoint_open(&none, 1);
  endpoint_answer_with(s->endpoint, strict_server_answer, s);
  return s;
}

/* Says what it answers in the next turn. */
static inline void strict_server_plan(strict_server *s, const strict_plan *plan) {
  pthread_mutex_lock(&s->mutex);
  s->plan = *plan;
  s->asked = 0;
  pthread_mutex_unlock(&s->mutex);
}

static inline void strict_server_close(strict_server *s) {
  endpoint_close(s->endpoint);
  for (unsigned i = 0; i < s->number; i++) free(s->bodies[i]);
  pthread_mutex_destroy(&s->mutex);
  free(s);
}

#endif
