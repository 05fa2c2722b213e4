/* SPDX-License-Identifier: Apache-2.0
 *
 * The example of docs/guides/model.md: a model provider that streams its answers from a thread of its own, fails in a
 * way that is worth repeating, and ends a stream that is cancelled. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <turnphase/turnphase.h>

/* ---- the provider ---- */

typedef struct stream {
  struct stream *next; /* under mutex */
  bool is_cancelled;   /* under mutex */
  tp_token token;
  uint32_t attempt;
  bool is_endless;
} stream;

typedef struct provider {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  stream *first;        /* under mutex: those that were started and have not ended */
  bool ends;            /* under mutex */
  tp_status late, utf8; /* what two wrong calls returned; of the thread, until it has ended */
} provider;

static bool ends_with(tp_text text, const char *end) {
  size_t size = strlen(end);
  return text.size >= size && memcmp(text.data + text.size - size, end, size) == 0;
}

static void start(void *ctx, const tp_model_request *request, tp_token token) {
  provider *p = ctx;
  tp_text said = request->messages[request->message_count - 1]->text;
  printf("attempt %u: %.*s\n", request->attempt, (int)said.size, said.data);
  stream *s = calloc(1, sizeof *s);
  if (!s) {
    (void)tp_model_fail(token, TP_ERR_MODEL, "no memory for the stream", false, NULL);
    return;
  }
  s->token = token;
  s->attempt = request->attempt;
  s->is_endless = ends_with(said, "for ever.");
  pthread_mutex_lock(&p->mutex);
  s->next = p->first;
  p->first = s;
  pthread_cond_signal(&p->changed);
  pthread_mutex_unlock(&p->mutex);
}

static void cancel(void *ctx, tp_token token) {
  provider *p = ctx;
  pthread_mutex_lock(&p->mutex);
  for (stream *s = p->first; s; s = s->next)
    if (s->token.bits == token.bits) s->is_cancelled = true;
  pthread_cond_signal(&p->changed);
  pthread_mutex_unlock(&p->mutex);
}

/* ---- its thread: here one stream at a time; its pieces come from a server in a real one ---- */

static void wait_for_cancel(provider *p, const stream *s) {
  pthread_mutex_lock(&p->mutex);
  while (!s->is_cancelled) pthread_cond_wait(&p->changed, &p->mutex);
  pthread_mutex_unlock(&p->mutex);
}

static void play(provider *p, stream *s) {
  static const char *const pieces[] = {"one", ", two", ", three."};
  tp_model_response response = {.struct_size = sizeof response,
                                .text = tp_text_of("one, two, three."),
                                .stop_reason = tp_text_of("end_turn"),
                                .input_tokens = 12,
                                .output_tokens = 6};
  if (s->is_endless) {
    (void)tp_model_delta(s->token, tp_text_of("one"), NULL);
    wait_for_cancel(p, s);
    p->late = tp_model_complete(s->token, &response, NULL);
    return;
  }
  if (s->attempt == 1) {
    (void)tp_model_fail(s->token, TP_ERR_MODEL, "the server is overloaded", true, NULL);
    return;
  }
  p->utf8 = tp_model_delta(s->token, tp_text_of("\xff"), NULL);
  for (int i = 0; i < 3; i++)
    if (tp_model_delta(s->token, tp_text_of(pieces[i]), NULL) == TP_ERR_STALE)
      return; /* cancelled: read no more of it */
  (void)tp_model_complete(s->token, &response, NULL);
}

static void end_stream(provider *p, stream *s) {
  stream **link = &p->first;
  pthread_mutex_lock(&p->mutex);
  while (*link != s) link = &(*link)->next;
  *link = s->next;
  pthread_mutex_unlock(&p->mutex);
  free(s);
}

static stream *next_stream(provider *p) {
  pthread_mutex_lock(&p->mutex);
  while (!p->first && !p->ends) pthread_cond_wait(&p->changed, &p->mutex);
  stream *s = p->first;
  pthread_mutex_unlock(&p->mutex);
  return s;
}

static void *run(void *ctx) {
  for (stream *s = next_stream(ctx); s; s = next_stream(ctx)) {
    play(ctx, s);
    end_stream(ctx, s);
  }
  return NULL;
}

static void stop(provider *p) {
  pthread_mutex_lock(&p->mutex);
  p->ends = true;
  pthread_cond_signal(&p->changed);
  pthread_mutex_unlock(&p->mutex);
  pthread_join(p->thread, NULL);
}

/* ---- the host ---- */

static sem_t delta_came;

static void show(void *ctx, const tp_event *event) {
  (void)ctx;
  if (event->kind == TP_EVENT_MODEL_DELTA) {
    printf("  delta: %.*s\n", (int)event->text.size, event->text.data);
    sem_post(&delta_came);
  }
  if (event->kind == TP_EVENT_MODEL_END)
    printf("  end: %s, %lld tokens\n", tp_status_name(event->status),
           (long long)(event->input_tokens + event->output_tokens));
}

static void show_result(const tp_turn_result *result) {
  tp_text end = result->outcome == TP_TURN_COMPLETED ? result->text : result->reason;
  printf("turn %s: %.*s\n", tp_turn_outcome_name(result->outcome), (int)end.size, end.size ? end.data : "");
}

static bool run_turns(tp_session *session, tp_fault *fault) {
  const tp_turn_request endless = {.struct_size = sizeof endless, .text = tp_text_of("Count for ever.")};
  const tp_turn_request request = {
      .struct_size = sizeof request, .text = tp_text_of("Count to three."), .each_delta = true};
  const tp_turn_result *result;
  tp_submission *submission;
  if (tp_turn_submit(session, &endless, NULL, NULL, &submission, fault) != TP_OK) return false;
  sem_wait(&delta_came);
  tp_submission_cancel(submission);
  bool ok = tp_submission_wait(submission, 60000, &result, fault) == TP_OK;
  if (ok) show_result(result);
  tp_submission_unref(submission);
  if (!ok || tp_turn_run(session, &request, &result, fault) != TP_OK) return false;
  show_result(result);
  tp_turn_result_free(result);
  return true;
}

int main(void) {
  static provider p = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  const tp_model model = {.struct_size = sizeof model,
                          .name = "counter",
                          .ctx = &p,
                          .start = start,
                          .cancel = cancel,
                          .placement = TP_PLACEMENT_INLINE,
                          .provider = "counter.example"};
  const tp_session_options options = {.struct_size = sizeof options, .id = "first", .model = &model, .on_event = show};
  tp_runtime *runtime = NULL;
  tp_session *session = NULL;
  tp_fault fault;
  if (sem_init(&delta_came, 0, 0) != 0 || pthread_create(&p.thread, NULL, run, &p) != 0) return 1;
  bool ok = tp_runtime_new(NULL, &runtime, &fault) == TP_OK &&
            tp_session_open(runtime, &options, &session, &fault) == TP_OK && run_turns(session, &fault);
  if (!ok) fprintf(stderr, "%s\n", fault.message);
  tp_session_close(session, NULL, NULL);
  tp_runtime_free(runtime); /* no start and no cancel comes any more */
  stop(&p);
  if (ok) printf("answered late: %s\nno UTF-8: %s\n", tp_status_name(p.late), tp_status_name(p.utf8));
  return ok ? 0 : 1;
}
