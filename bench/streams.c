/* SPDX-License-Identifier: Apache-2.0
 *
 * What a streamed token costs: 64 turns at once with models behind an endpoint, beside libcurl's multi interface with
 * the same requests to the same endpoint. The endpoint is a process of its own, on the loopback interface, and sends a
 * token at a time. README.md says how to read it.
 */
#include <curl/curl.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bench/latch.h"
#include "bench/report.h"
#include "tests/support/endpoint.h"
#include "tests/support/streams.h"
#include "turnphase/openai.h"

#define ROWS "streams paced "
#define TOKEN DELTA("{\"content\":\" token\"}")
#define END FINISH("stop") DONE

enum {
  STREAMS = 64,
  TOKENS = 200,
  TOKENS_QUICK = 2,
  ROUNDS = 11,
  ROUNDS_QUICK = 1,
  PAUSE_MS = 5,
  DIRECT_POLL_MS = 1000
};

static char *body;
static size_t body_size;
static char url[64];

/* ---- the endpoint ---- */

static void make_body(int tokens) {
  body = bench_alloc((size_t)tokens * (sizeof TOKEN - 1) + sizeof END, 1);
  for (int i = 0; i < tokens; i++, body_size += sizeof TOKEN - 1) memcpy(body + body_size, TOKEN, sizeof TOKEN - 1);
  memcpy(body + body_size, END, sizeof END);
  body_size += sizeof END - 1;
}

/* Before there is any thread. @return its process. */
static pid_t fork_endpoint(void) {
  int port[2];
  if (pipe(port) != 0) exit(70);
  pid_t child = fork();
  if (child < 0) exit(70);
  if (child == 0) {
    const endpoint_reply reply = {.body = body, .size = body_size, .piece = sizeof TOKEN - 1, .pause_ms = PAUSE_MS};
    endpoint *e = endpoint_open(&reply, 1);
    if (write(port[1], e->url, sizeof e->url) != sizeof e->url) _exit(70);
    for (;;) pause();
  }
  if (read(port[0], url, sizeof url) != sizeof url) exit(70);
  close(port[0]);
  close(port[1]);
  return child;
}

/* ---- turnphase ---- */

typedef struct host {
  tp_runtime *runtime;
  tp_session *sessions[STREAMS];
  bench_latch latch;
} host;

static _Atomic uint64_t text_bytes;

static void on_event(void *ctx, const tp_event *event) {
  (void)ctx;
  if (event->kind == TP_EVENT_MODEL_DELTA)
    atomic_fetch_add_explicit(&text_bytes, event->text.size, memory_order_relaxed);
}

static void open_host(host *h) {
  tp_fault fault;
  bench_must(tp_runtime_new(NULL, &h->runtime, &fault), &fault);
  for (int i = 0; i < STREAMS; i++) {
    char id[16];
    tp_model *model;
    tp_openai_options options = {.struct_size = sizeof options, .model = "m", .base_url = url, .proxy = ""};
    bench_must(tp_openai_model_new(&options, &model, &fault), &fault);
    snprintf(id, sizeof id, "s%d", i);
    const uint64_t kinds = UINT64_C(1) << TP_EVENT_MODEL_DELTA;
    tp_listener listener = {.struct_size = sizeof listener, .on_event = on_event, .kinds = kinds};
    tp_session_options session = {.struct_size = sizeof session, .id = id, .model = model};
    bench_must(tp_session_open(h->runtime, &session, &h->sessions[i], &fault), &fault);
    bench_must(tp_session_listen(h->sessions[i], &listener, NULL, &fault), &fault);
  }
}

static void turn_ended(void *ctx, const tp_turn_result *result) {
  bench_must(result->code, NULL);
  bench_latch_hit(ctx, 1);
}

/* Each session has an empty history of its own, so that requests do not grow from round to round. */
static void run_host(host *h) {
  static const tp_message hello = {.struct_size = sizeof hello, .role = TP_ROLE_USER, .text = {"Hello", 5}};
  const tp_message *const messages[] = {&hello};
  bench_latch_set(&h->latch, STREAMS);
  for (int i = 0; i < STREAMS; i++) {
    tp_fault fault;
    tp_turn_request request = {
        .struct_size = sizeof request, .text = tp_text_of("Go on"), .messages = messages, .message_count = 1};
    bench_must(tp_turn_submit(h->sessions[i], &request, turn_ended, &h->latch, NULL, &fault), &fault);
  }
  bench_latch_wait(&h->latch);
}

static int count_threads(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/task");
  while (folder && readdir(folder)) count++;
  if (folder) closedir(folder);
  return count - 2;
}

/* ---- libcurl alone ---- */

/** A stream, with the bytes that are no whole line yet. */
typedef struct direct {
  CURL *handle;
  tp_writer *writer; /* decodes each event and takes its text; NULL: the bytes are dropped */
  char line[1024];
  size_t size;
} direct;

static const char request_json[] =
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"},{\"role\":\"user\",\"content\":\"Go "
    "on\"}],"
    "\"stream\":true,\"stream_options\":{\"include_usage\":true}}";

/* Reads as turnphase does: an event is JSON, and its text is taken. */
static void take_line(direct *p) {
  static const char data[] = "data: ";
  tp_text value, line = {p->line, p->size};
  p->size = 0;
  if (line.size < sizeof data || memcmp(line.data, data, sizeof data - 1) != 0 || line.data[sizeof data - 1] != '{')
    return;
  tp_writer_reset(p->writer);
  bench_must(tp_json_decode((tp_text){line.data + sizeof data - 1, line.size - sizeof data + 1}, p->writer, NULL),
             NULL);
  bench_must(tp_writer_finish(p->writer, &value), NULL);
  tp_text delta = tp_value_get(tp_value_at(tp_value_get(value, "choices"), 0), "delta");
  atomic_fetch_add_explicit(&text_bytes, tp_value_text(tp_value_get(delta, "content")).size, memory_order_relaxed);
}

static size_t on_bytes(char *bytes, size_t one, size_t count, void *ctx) {
  direct *p = ctx;
  for (size_t i = 0; p->writer && i < one * count; i++) {
    if (bytes[i] == '\n') take_line(p);
    else if (p->size < sizeof p->line - 1) p->line[p->size++] = bytes[i];
  }
  return one * count;
}

static void add_direct(direct *p, CURLM *multi, struct curl_slist *headers, tp_writer *writer) {
  char place[128];
  snprintf(place, sizeof place, "%s/chat/completions", url);
  *p = (direct){.handle = curl_easy_init(), .writer = writer};
  if (!p->handle) exit(70);
  curl_easy_setopt(p->handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(p->handle, CURLOPT_PROXY, "");
  curl_easy_setopt(p->handle, CURLOPT_URL, place);
  curl_easy_setopt(p->handle, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(p->handle, CURLOPT_POSTFIELDS, request_json);
  curl_easy_setopt(p->handle, CURLOPT_WRITEFUNCTION, on_bytes);
  curl_easy_setopt(p->handle, CURLOPT_WRITEDATA, p);
  if (curl_multi_add_handle(multi, p->handle) != CURLM_OK) exit(70);
}

static void run_direct(CURLM *multi, struct curl_slist *headers, bool reads) {
  static direct all[STREAMS];
  tp_writer *writer = NULL;
  if (reads) bench_must(tp_writer_new(NULL, &writer), NULL);
  for (int i = 0; i < STREAMS; i++) add_direct(&all[i], multi, headers, writer);
  for (int running = 1; running > 0;) {
    curl_multi_perform(multi, &running);
    if (running > 0) curl_multi_poll(multi, NULL, 0, DIRECT_POLL_MS, NULL);
  }
  for (int i = 0; i < STREAMS; i++) {
    curl_multi_remove_handle(multi, all[i].handle);
    curl_easy_cleanup(all[i].handle);
  }
  tp_writer_free(writer);
}

/* ---- a server whose model paces itself: a thread sends tokens to a connection for each turn ---- */

enum { PACED_TOKENS = 20, PACED_ROUNDS = 11, PACE_US = 100 };

/** A turn of the server, as the pacer and the listener know it. */
typedef struct paced {
  tp_session *session;
  tp_token token;
  int fd; /* the connection of its client */
} paced;

static paced paced_all[STREAMS];
static bench_latch paced_begun; /* counts down when each turn's request has reached its model */

static const char token_event[] =
    "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},"
    "\"finish_reason\":null}]}\n\n";
static const char end_event[] = "data: [DONE]\n\n";

static void send_event(const paced *p, const char *bytes, size_t size) {
  if (send(p->fd, bytes, size, MSG_NOSIGNAL) != (ssize_t)size) exit(70);
}

static void on_paced(void *ctx, const tp_event *event) {
  if (event->kind != TP_EVENT_MODEL_DELTA) return;
  send_event(ctx, token_event, sizeof token_event - 1);
}

static void start_paced(void *ctx, const tp_model_request *request, tp_token token) {
  (void)request;
  paced *p = ctx;
  p->token = token;
  bench_latch_hit(&paced_begun, 1);
}

static void paced_ended(void *ctx, const tp_turn_result *result) {
  bench_must(result->code, NULL);
  send_event(ctx, end_event, sizeof end_event - 1);
  bench_latch_hit(&paced_begun, 1);
}

/* Starts a process that reads what the clients receive. */
static pid_t open_clients(void) {
  int fds[STREAMS][2];
  for (int i = 0; i < STREAMS; i++)
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds[i]) != 0) exit(70);
  pid_t child = fork();
  if (child < 0) exit(70);
  for (int i = 0; i < STREAMS; i++) {
    close(fds[i][child == 0 ? 0 : 1]);
    paced_all[i].fd = fds[i][0];
  }
  if (child > 0) return child;
  struct pollfd polled[STREAMS];
  char dropped[4096];
  for (int i = 0; i < STREAMS; i++) polled[i] = (struct pollfd){.fd = fds[i][1], .events = POLLIN};
  while (poll(polled, STREAMS, -1) > 0)
    for (int i = 0; i < STREAMS; i++)
      if (polled[i].revents && read(polled[i].fd, dropped, sizeof dropped) <= 0) _exit(0);
  _exit(0);
}

static void pace(void) {
  const struct timespec pause = {.tv_nsec = PACE_US * 1000};
  nanosleep(&pause, NULL);
}

static void run_paced(void) {
  static const tp_message hello = {.struct_size = sizeof hello, .role = TP_ROLE_USER, .text = {"Hello", 5}};
  static const tp_message *const messages[] = {&hello};
  static const tp_model_response response = {.struct_size = sizeof response, .text = {"done", 4}};
  tp_fault fault;
  bench_latch_set(&paced_begun, STREAMS);
  for (int i = 0; i < STREAMS; i++) {
    tp_turn_request request = {
        .struct_size = sizeof request, .text = tp_text_of("Go on"), .messages = messages, .message_count = 1};
    bench_must(tp_turn_submit(paced_all[i].session, &request, paced_ended, &paced_all[i], NULL, &fault), &fault);
  }
  bench_latch_wait(&paced_begun);
  for (int k = 0; k < PACED_TOKENS * STREAMS; k++) {
    pace();
    bench_must(tp_model_delta(paced_all[k % STREAMS].token, tp_text_of(" token"), &fault), &fault);
  }
  bench_latch_set(&paced_begun, STREAMS);
  for (int i = 0; i < STREAMS; i++) bench_must(tp_model_complete(paced_all[i].token, &response, &fault), &fault);
  bench_latch_wait(&paced_begun);
}

static void run_paced_direct(void) {
  for (int k = 0; k < PACED_TOKENS * STREAMS; k++) {
    pace();
    send_event(&paced_all[k % STREAMS], token_event, sizeof token_event - 1);
  }
  for (int i = 0; i < STREAMS; i++) send_event(&paced_all[i], end_event, sizeof end_event - 1);
}

static double count_switches(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_nvcsw + usage.ru_nivcsw);
}

static void open_paced(tp_runtime **ret_runtime) {
  tp_fault fault;
  bench_must(tp_runtime_new(NULL, ret_runtime, &fault), &fault);
  for (int i = 0; i < STREAMS; i++) {
    char id[16];
    snprintf(id, sizeof id, "p%d", i);
    tp_model model = {.struct_size = sizeof model,
                      .name = "paced",
                      .ctx = &paced_all[i],
                      .start = start_paced,
                      .placement = TP_PLACEMENT_INLINE,
                      .delivers = true};
    tp_listener listener = {.struct_size = sizeof listener,
                            .on_event = on_paced,
                            .ctx = &paced_all[i],
                            .kinds = UINT64_C(1) << TP_EVENT_MODEL_DELTA};
    tp_session_options session = {.struct_size = sizeof session, .id = id, .model = &model};
    bench_must(tp_session_open(*ret_runtime, &session, &paced_all[i].session, &fault), &fault);
    bench_must(tp_session_listen(paced_all[i].session, &listener, NULL, &fault), &fault);
  }
}

/** CPU in µs and context switches of a turn. */
typedef struct paced_cost {
  double cpu[PACED_ROUNDS], switches[PACED_ROUNDS];
} paced_cost;

static void measure_paced(paced_cost *cost, uint32_t round, void (*run)(void)) {
  (void)bench_settle();
  double switches = count_switches();
  int64_t cpu_ns = bench_cpu_ns();
  run();
  cost->cpu[round] = (double)(bench_cpu_ns() - cpu_ns) / STREAMS / 1e3;
  cost->switches[round] = (count_switches() - switches) / STREAMS;
}

static void paced_row(bench_program *program) {
  static paced_cost turns, calls;
  uint32_t rounds = program->quick ? 1 : PACED_ROUNDS;
  tp_runtime *runtime;
  pid_t clients = open_clients();
  open_paced(&runtime);
  run_paced();
  run_paced_direct();
  for (uint32_t i = 0; i < rounds; i++) {
    measure_paced(&turns, i, run_paced);
    measure_paced(&calls, i, run_paced_direct);
  }
  double cpu = bench_spread_of(turns.cpu, rounds).median, calls_cpu = bench_spread_of(calls.cpu, rounds).median;
  bench_figure(program, "paced", "turnphase: CPU of a turn of 20 tokens", cpu, "µs", 0);
  bench_figure(program, "paced", "direct calls: CPU of 20 tokens", calls_cpu, "µs", 0);
  bench_figure(program, "paced", "turnphase, to direct calls", cpu / calls_cpu, "times", 1.3);
  bench_figure(program, "paced", "turnphase: context switches of a turn",
               bench_spread_of(turns.switches, rounds).median, "", 0);
  bench_figure(program, "paced", "direct calls: context switches of 20 tokens",
               bench_spread_of(calls.switches, rounds).median, "", 0);
  for (int i = 0; i < STREAMS; i++) tp_session_close(paced_all[i].session, NULL, NULL);
  tp_runtime_free(runtime);
  for (int i = 0; i < STREAMS; i++) close(paced_all[i].fd);
  kill(clients, SIGKILL);
  waitpid(clients, NULL, 0);
}

/* ---- measuring ---- */

typedef enum who { TURNPHASE, DIRECT_READS, DIRECT_BYTES, CONTESTANTS } who;

static const char *const names[CONTESTANTS] = {"turnphase", "libcurl multi, each event decoded",
                                               "libcurl multi, bytes dropped"};

static double run(who which, host *h, CURLM *multi, struct curl_slist *headers, int tokens) {
  uint64_t before = text_bytes;
  (void)bench_settle();
  int64_t cpu_ns = bench_cpu_ns();
  if (which == TURNPHASE) run_host(h);
  else run_direct(multi, headers, which == DIRECT_READS);
  cpu_ns = bench_cpu_ns() - cpu_ns;
  if (which != DIRECT_BYTES && text_bytes - before != (uint64_t)STREAMS * (uint64_t)tokens * strlen(" token")) {
    fprintf(stderr, "streams: %s read %llu bytes of text\n", names[which], (unsigned long long)(text_bytes - before));
    exit(70);
  }
  return (double)cpu_ns / STREAMS / tokens;
}

static void report(bench_program *program, double samples[CONTESTANTS][ROUNDS], uint32_t rounds, int threads) {
  double medians[CONTESTANTS];
  char label[128];
  for (int i = 0; i < CONTESTANTS; i++) {
    bench_spread spread = bench_spread_of(samples[i], rounds);
    medians[i] = spread.median;
    snprintf(label, sizeof label, "%s: CPU of a token", names[i]);
    bench_figure(program, "streams", label, spread.median / 1e3, "µs", 0);
  }
  bench_figure(program, "streams", "turnphase, to libcurl that decodes each event",
               medians[TURNPHASE] / medians[DIRECT_READS], "times", 1.6);
  bench_figure(program, "streams", "threads of the process with 64 turns", threads, "threads", 0);
}

static void streams(bench_program *program) {
  static double samples[CONTESTANTS][ROUNDS];
  int tokens = program->quick ? TOKENS_QUICK : TOKENS, threads = 0;
  uint32_t rounds = program->quick ? ROUNDS_QUICK : ROUNDS;
  host h = {.runtime = NULL};
  make_body(tokens);
  pid_t endpoint_process = fork_endpoint();
  CURLM *multi = curl_multi_init();
  struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
  open_host(&h);
  for (int which = 0; which < CONTESTANTS; which++) (void)run((who)which, &h, multi, headers, tokens);
  threads = count_threads();
  for (uint32_t i = 0; i < rounds; i++)
    for (int which = 0; which < CONTESTANTS; which++) samples[which][i] = run((who)which, &h, multi, headers, tokens);
  report(program, samples, rounds, threads);
  for (int i = 0; i < STREAMS; i++) tp_session_close(h.sessions[i], NULL, NULL);
  tp_runtime_free(h.runtime);
  curl_slist_free_all(headers);
  curl_multi_cleanup(multi);
  kill(endpoint_process, SIGKILL);
  waitpid(endpoint_process, NULL, 0);
  free(body);
}

int main(int argc, char **argv) {
  bench_program program;
  bench_open(&program, "streams", "What a streamed token costs, beside libcurl alone.", ROWS, argc, argv);
  if (bench_wanted(&program, "paced")) paced_row(&program);
  if (bench_wanted(&program, "streams")) streams(&program);
  return bench_close(&program);
}
