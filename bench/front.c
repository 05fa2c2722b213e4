/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of turns in a server: turnphase-server, compared with a bare server of libmicrohttpd, which calls the same
 * model without turns and parses nothing. Both are processes of this program and answer the same requests, alternately.
 * README.md says how to read it.
 *
 *     front [ROUNDS [REQUESTS [STREAMS]]]      # 9, 3,000 and 320; requests and streams of each round
 *
 * It prints the medians of the rounds: with an instant model the requests a second and the processor time of the server
 * for each; with 64 streams at once, whose pieces come 5 ms apart, the processor time and how long the first piece
 * takes. Exit: 1 when a request fails; whether an aim is reached is printed only. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "turnphase/server.h"
#include "turnphase/turnphase.h"

enum {
  CLIENTS = 64,
  PACING_MAX = 4 * CLIENTS,
  PIECES = 20,
  PACE_US = 5000,
  ROUNDS_MAX = 101,
  BYTES_MAX = 16 << 10,
  BODY_BYTES_MAX = 1024,
  ONE_AT_A_TIME = 5
};
#define PIECE "word "
#define MEANT "{\"model\":\"%s\",\"stream\":%s,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"

static void fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("front: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(1);
}

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* ---- the model: its first piece comes at once, the others from one thread of the process ---- */

typedef struct paced {
  void (*put)(struct paced *paced, int piece); /* piece PIECES is the end, after which `paced` is freed */
  double due_us;
  int piece;
} paced;

static pthread_mutex_t pace_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pace_changed = PTHREAD_COND_INITIALIZER;
static paced *pacing[PACING_MAX]; /* under pace_mutex */
static size_t pacing_count;

static void begin_pace(paced *p) {
  p->piece = 1;
  p->due_us = now_us() + PACE_US;
  p->put(p, 0);
  pthread_mutex_lock(&pace_mutex);
  if (pacing_count == PACING_MAX) fail("more streams than clients");
  pacing[pacing_count++] = p;
  pthread_cond_signal(&pace_changed);
  pthread_mutex_unlock(&pace_mutex);
}

/* Takes the answers from the list that end with their next piece. @return how many have a piece now. */
static size_t take_due(paced **ret_due) {
  size_t count = 0;
  pthread_mutex_lock(&pace_mutex);
  while (pacing_count == 0) pthread_cond_wait(&pace_changed, &pace_mutex);
  for (size_t i = pacing_count; i > 0; i--) {
    paced *p = pacing[i - 1];
    if (p->due_us > now_us()) continue;
    p->due_us += PACE_US;
    if (p->piece == PIECES) pacing[i - 1] = pacing[--pacing_count];
    ret_due[count++] = p;
  }
  pthread_mutex_unlock(&pace_mutex);
  return count;
}

static void *run_pace(void *arg) {
  paced *due[PACING_MAX];
  (void)arg;
  for (;;) {
    size_t count = take_due(due);
    for (size_t i = 0; i < count; i++) {
      int piece = due[i]->piece++;
      due[i]->put(due[i], piece);
    }
    usleep(500);
  }
  return NULL;
}

static void start_pace(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_pace, NULL) != 0) fail("no thread");
}

/* ---- the bare server ---- */

typedef struct stream {
  paced pace;
  pthread_mutex_t mutex;
  struct MHD_Connection *connection;
  char out[BYTES_MAX]; /* under mutex, as the following members */
  size_t size, at;
  bool suspended, ended;
  int users; /* users: the response, and the model */
} stream;

typedef struct incoming {
  char body[BODY_BYTES_MAX];
  size_t size;
} incoming;

static const char whole_answer[] =
    "{\"id\":\"chatcmpl-0123456789abcdef01234567\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":"
    "\"instant\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"word "
    "\"},\"finish_reason\":"
    "\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"total_tokens\":2}}";
static const char event[] =
    "data: {\"id\":\"chatcmpl-0123456789abcdef01234567\",\"object\":\"chat.completion.chunk\","
    "\"created\":1700000000,\"model\":\"paced\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
    "\"" PIECE "\"},\"finish_reason\":null}]}\n\n";

static void leave_stream(stream *s) {
  pthread_mutex_lock(&s->mutex);
  bool is_last = --s->users == 0;
  pthread_mutex_unlock(&s->mutex);
  if (is_last) free(s);
}

static void put_bare(paced *p, int piece) {
  stream *s = (stream *)p;
  const char *text = piece == PIECES ? "data: [DONE]\n\n" : event;
  size_t size = strlen(text);
  pthread_mutex_lock(&s->mutex);
  if (s->size + size > sizeof s->out) fail("a stream is too long");
  memcpy(s->out + s->size, text, size);
  s->size += size;
  s->ended = piece == PIECES;
  if (s->suspended) MHD_resume_connection(s->connection);
  s->suspended = false;
  pthread_mutex_unlock(&s->mutex);
  if (piece == PIECES) leave_stream(s);
}

static ssize_t read_bare(void *ctx, uint64_t position, char *buffer, size_t max) {
  stream *s = ctx;
  (void)position;
  pthread_mutex_lock(&s->mutex);
  size_t size = s->size - s->at < max ? s->size - s->at : max;
  memcpy(buffer, s->out + s->at, size);
  s->at += size;
  bool ends = size == 0 && s->ended;
  s->suspended = size == 0 && !ends;
  if (s->suspended) MHD_suspend_connection(s->connection);
  pthread_mutex_unlock(&s->mutex);
  return ends ? MHD_CONTENT_READER_END_OF_STREAM : (ssize_t)size;
}

static void end_bare(void *ctx) { leave_stream(ctx); }

static enum MHD_Result answer_bare(struct MHD_Connection *connection, bool is_paced) {
  struct MHD_Response *response;
  if (is_paced) {
    stream *s = calloc(1, sizeof *s);
    if (!s) return MHD_NO;
    s->pace.put = put_bare;
    s->connection = connection;
    s->users = 2;
    pthread_mutex_init(&s->mutex, NULL);
    begin_pace(&s->pace);
    response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 512, read_bare, s, end_bare);
    MHD_add_response_header(response, "Content-Type", "text/event-stream");
  } else {
    response = MHD_create_response_from_buffer(sizeof whole_answer - 1, (void *)(uintptr_t)whole_answer,
                                               MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, "Content-Type", "application/json");
  }
  enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result on_bare(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
                               const char *version, const char *data, size_t *size, void **request) {
  (void)ctx, (void)url, (void)method, (void)version;
  incoming *in = *request;
  if (!in) return (*request = calloc(1, sizeof *in)) ? MHD_YES : MHD_NO;
  if (*size == 0) return answer_bare(connection, strstr(in->body, "\"paced\"") != NULL);
  if (in->size + *size >= sizeof in->body) return MHD_NO;
  memcpy(in->body + in->size, data, *size);
  in->size += *size;
  *size = 0;
  return MHD_YES;
}

static void completed_bare(void *ctx, struct MHD_Connection *connection, void **request,
                           enum MHD_RequestTerminationCode how) {
  (void)ctx, (void)connection, (void)how;
  free(*request);
  *request = NULL;
}

static uint16_t serve_bare(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct MHD_Daemon *daemon = MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL, on_bare, NULL,
      MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&at, MHD_OPTION_NOTIFY_COMPLETED, completed_bare, NULL, MHD_OPTION_END);
  const union MHD_DaemonInfo *info = daemon ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
  if (!info) fail("libmicrohttpd did not start");
  return info->port;
}

/* ---- the server with turns ---- */

typedef struct turn_stream {
  paced pace;
  tp_token token;
} turn_stream;

static tp_model_response response_of(const char *text) {
  return (tp_model_response){.struct_size = sizeof(tp_model_response),
                             .text = tp_text_of(text),
                             .stop_reason = tp_text_of("stop"),
                             .input_tokens = 1,
                             .output_tokens = 1};
}

static void put_turn(paced *p, int piece) {
  turn_stream *s = (turn_stream *)p;
  if (piece < PIECES) {
    (void)!tp_model_delta(s->token, tp_text_of(PIECE), NULL);
    return;
  }
  char text[PIECES * (sizeof PIECE - 1) + 1] = "";
  for (int i = 0; i < PIECES; i++) memcpy(text + (size_t)i * (sizeof PIECE - 1), PIECE, sizeof PIECE);
  const tp_model_response response = response_of(text);
  (void)!tp_model_complete(s->token, &response, NULL);
  free(s);
}

static void start_paced(void *ctx, const tp_model_request *request, tp_token token) {
  turn_stream *s = calloc(1, sizeof *s);
  (void)ctx, (void)request;
  if (!s) fail("no memory");
  s->pace.put = put_turn;
  s->token = token;
  begin_pace(&s->pace);
}

static void start_instant(void *ctx, const tp_model_request *request, tp_token token) {
  const tp_model_response response = response_of(PIECE);
  (void)ctx, (void)request;
  (void)!tp_model_complete(token, &response, NULL);
}

static uint16_t serve_turns(void) {
  static const tp_model models[] = {
      {.struct_size = sizeof(tp_model), .name = "instant", .start = start_instant},
      {.struct_size = sizeof(tp_model), .name = "paced", .start = start_paced, .delivers = true}};
  tp_runtime *runtime = NULL;
  tp_server *server = NULL;
  tp_agent *agent = NULL;
  tp_fault fault = {0};
  tp_status status = tp_runtime_new(NULL, &runtime, &fault);
  for (size_t i = 0; status == TP_OK && i < 2; i++) {
    const tp_agent_config config = {.struct_size = sizeof config, .id = models[i].name, .model = &models[i]};
    status = tp_agent_add(runtime, &config, &agent, &fault);
  }
  const tp_server_options options = {.struct_size = sizeof options, .address = "127.0.0.1"};
  if (status == TP_OK) status = tp_server_start(runtime, &options, &server, &fault);
  if (status != TP_OK) fail("%s", fault.message);
  return (uint16_t)tp_server_port(server);
}

/* Serves until the parent closes standard input. */
static int serve(const char *which) {
  char byte;
  start_pace();
  printf("%u\n", strcmp(which, "--bare") == 0 ? serve_bare() : serve_turns());
  fflush(stdout);
  while (read(0, &byte, 1) > 0) {}
  _exit(0);
}

/* ---- the clients ---- */

typedef struct client {
  int fd;
  double said_us;
  bool has_first;
  char bytes[BYTES_MAX];
  size_t size;
} client;

typedef struct peer {
  const char *label, *mode;
  pid_t pid;
  int input;
  uint16_t port;
  client clients[CLIENTS];
  double per_second[ROUNDS_MAX], request_us[ROUNDS_MAX], stream_us[ROUNDS_MAX], first_us[ROUNDS_MAX],
      one_us[ROUNDS_MAX];
} peer;

static peer peers[] = {{.label = "libmicrohttpd, the model directly", .mode = "--bare"},
                       {.label = "turnphase-server", .mode = "--turns"}};
static double firsts[1 << 16];
static size_t first_count;

static void start(peer *p, const char *program) {
  int in[2], out[2];
  char line[16] = "";
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) fail("no pipe: %s", strerror(errno));
  p->pid = fork();
  if (p->pid == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    execl(program, program, p->mode, (char *)NULL);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  p->input = in[1];
  if (read(out[0], line, sizeof line - 1) <= 0) fail("%s did not start", p->label);
  close(out[0]);
  p->port = (uint16_t)strtol(line, NULL, 10);
}

static void dial(peer *p, client *c) {
  struct sockaddr_in at = {
      .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(p->port)};
  int yes = 1;
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&at, sizeof at) != 0) fail("%s: %s", p->label, strerror(errno));
  (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static void say(client *c, bool streams) {
  char body[256], request[512];
  int size = snprintf(body, sizeof body, MEANT, streams ? "paced" : "instant", streams ? "true" : "false");
  size = snprintf(request, sizeof request,
                  "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  "Content-Length: %d\r\n\r\n%s",
                  size, body);
  c->size = 0;
  c->has_first = false;
  c->said_us = now_us();
  if (write(c->fd, request, (size_t)size) != size) fail("a request was not taken");
}

/* Reads once. @return whether the answer is complete. */
static bool hear(client *c, bool streams) {
  ssize_t size = read(c->fd, c->bytes + c->size, sizeof c->bytes - c->size - 1);
  if (size <= 0) fail("a server has ended a connection");
  c->size += (size_t)size;
  c->bytes[c->size] = '\0';
  const char *body = strstr(c->bytes, "\r\n\r\n");
  if (!body) return false;
  body += 4;
  if (strncmp(c->bytes, "HTTP/1.1 200", 12) != 0) fail("%.300s", c->bytes);
  if (!streams) {
    const char *length = strcasestr(c->bytes, "content-length:");
    if (!length) fail("an answer without a length");
    return strtoul(length + 15, NULL, 10) <= (size_t)(c->bytes + c->size - body);
  }
  if (!c->has_first && strstr(body, PIECE)) {
    c->has_first = true;
    if (first_count < sizeof firsts / sizeof *firsts) firsts[first_count++] = now_us() - c->said_us;
  }
  return c->size > 7 && memcmp(c->bytes + c->size - 7, "\r\n0\r\n\r\n", 7) == 0;
}

/* Makes `count` requests with the first clients. @return their duration. */
static double ask(peer *p, int count, bool streams, int clients) {
  struct pollfd fds[CLIENTS];
  int said = 0, heard = 0;
  double began_us = now_us();
  for (int i = 0; i < clients; i++) {
    fds[i] = (struct pollfd){.fd = p->clients[i].fd, .events = POLLIN};
    if (said++ < count) say(&p->clients[i], streams);
  }
  while (heard < count) {
    if (poll(fds, (nfds_t)clients, 60000) <= 0) fail("%s has said nothing for a minute", p->label);
    for (int i = 0; i < clients; i++)
      if (fds[i].revents && hear(&p->clients[i], streams)) {
        heard++;
        if (said++ < count) say(&p->clients[i], streams);
      }
  }
  return now_us() - began_us;
}

static double cpu_us(const peer *p) {
  clockid_t clock;
  struct timespec now;
  if (clock_getcpuclockid(p->pid, &clock) != 0 || clock_gettime(clock, &now) != 0) fail("no clock of a process");
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static double median(double *numbers, size_t count) {
  qsort(numbers, count, sizeof *numbers, compare);
  return count ? numbers[count / 2] : 0;
}

static void play(peer *p, int round, int requests, int streams) {
  double cpu = cpu_us(p), duration_us = ask(p, requests, false, CLIENTS);
  p->per_second[round] = requests / (duration_us / 1e6);
  p->request_us[round] = (cpu_us(p) - cpu) / requests;
  first_count = 0;
  cpu = cpu_us(p);
  (void)ask(p, streams, true, CLIENTS);
  p->stream_us[round] = (cpu_us(p) - cpu) / streams;
  p->first_us[round] = median(firsts, first_count);
  first_count = 0;
  (void)ask(p, ONE_AT_A_TIME, true, 1);
  p->one_us[round] = median(firsts, first_count);
}

static void print_aim(const char *what, double value, const char *unit, double aim, bool at_least) {
  bool reached = at_least ? value >= aim : value <= aim;
  printf("%-52s %8.2f%s  aim %s %.2f  %s\n", what, value, unit, at_least ? ">=" : "<=", aim, reached ? "ok" : "MISSED");
}

static int number_of(int argc, char **argv, int at, int otherwise) {
  return argc > at ? (int)strtol(argv[at], NULL, 10) : otherwise;
}

int main(int argc, char **argv) {
  if (argc == 2 && strncmp(argv[1], "--", 2) == 0) return serve(argv[1]);
  int rounds = number_of(argc, argv, 1, 9), requests = number_of(argc, argv, 2, 3000);
  int streams = number_of(argc, argv, 3, 5 * CLIENTS);
  if (rounds < 1 || rounds > ROUNDS_MAX || requests < CLIENTS || streams < CLIENTS)
    fail("usage: front [ROUNDS [REQUESTS [STREAMS]]], at least %d requests and streams", CLIENTS);
  for (int i = 0; i < 2; i++) {
    start(&peers[i], "/proc/self/exe");
    for (int at = 0; at < CLIENTS; at++) dial(&peers[i], &peers[i].clients[at]);
    play(&peers[i], 0, requests, streams); /* to warm up */
  }
  for (int round = 0; round < rounds; round++)
    for (int i = 0; i < 2; i++) play(&peers[(i + round) % 2], round, requests, streams);
  double m[2][5];
  for (int i = 0; i < 2; i++) {
    peer *p = &peers[i];
    size_t n = (size_t)rounds;
    double figures[] = {median(p->per_second, n), median(p->request_us, n), median(p->stream_us, n),
                        median(p->first_us, n), median(p->one_us, n)};
    memcpy(m[i], figures, sizeof figures);
    printf(
        "%-34s %9.0f requests/s, %6.1f us CPU each; a stream of %d: %7.1f us CPU, first piece after %7.1f us (%.1f us "
        "with one stream)\n",
        p->label, m[i][0], m[i][1], PIECES, m[i][2], m[i][3], m[i][4]);
    close(p->input);
    waitpid(p->pid, NULL, 0);
  }
  print_aim("requests a second, instant model: ratio", m[1][0] / m[0][0], "", 0.8, true);
  print_aim("CPU of a turn, 64 paced streams: ratio", m[1][2] / m[0][2], "", 1.3, false);
  print_aim("first piece later by, 64 at once", (m[1][3] - m[0][3]) / 1e3, " ms", 0.3, false);
  print_aim("first piece later by, one stream", (m[1][4] - m[0][4]) / 1e3, " ms", 0.3, false);
  return 0;
}
