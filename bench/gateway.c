/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost that a gateway adds to the calls of a server of the Model Context Protocol. Two programs that speak this
 * protocol on their standard input and output answer the same calls, alternately, with IN_FLIGHT at once. One is a
 * server, the other is the gateway in front of another copy of this server. README.md says how to read it.
 *
 *     gateway CALLS IN_FLIGHT ROUNDS ARGUMENTS DIRECT_TOOL DIRECT_COMMAND… -- TOOL COMMAND…
 *
 * CALLS a round; ARGUMENTS is JSON. It prints the medians of the rounds: the time of a call, and the processor time of
 * each of the two started processes, without that of its children. Exit: 1 when a call fails. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BYTES_MAX = 1 << 20, ROUNDS_MAX = 1000 };

/** A program that answers. */
typedef struct peer {
  const char *label, *tool;
  char **command;
  pid_t pid;
  int input, output;
  char bytes[BYTES_MAX]; /* bytes that were read and are no whole line yet */
  size_t size;
  char out[BYTES_MAX]; /* bytes that are not written yet */
  size_t out_size;
  long next_id, failed;
  double call_us[ROUNDS_MAX], cpu_us[ROUNDS_MAX];
} peer;

static peer peers[2];

static void fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("gateway: ", stderr);
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

/* The processor time of all threads of a process, also of those that have ended. */
static double cpu_us(pid_t pid) {
  char path[320];
  double sum = 0;
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *tasks = opendir(path);
  if (!tasks) fail("there is no %s", path);
  for (const struct dirent *entry; (entry = readdir(tasks));) {
    double ns = 0;
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", (int)pid, entry->d_name);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%lf", &ns) == 1) sum += ns / 1e3;
    if (file) fclose(file);
  }
  closedir(tasks);
  return sum;
}

static void start(peer *p) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) fail("no pipe: %s", strerror(errno));
  p->pid = fork();
  if (p->pid == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    execvp(p->command[0], p->command);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  p->input = in[1];
  p->output = out[0];
  fcntl(p->input, F_SETFL, O_NONBLOCK);
}

static void stop(peer *p) {
  close(p->input);
  close(p->output);
  waitpid(p->pid, NULL, 0);
}

static void say(peer *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int size = vsnprintf(p->out + p->out_size, sizeof p->out - p->out_size, format, args);
  va_end(args);
  if (size < 0 || (size_t)size >= sizeof p->out - p->out_size) fail("too much waits to be written");
  p->out_size += (size_t)size;
}

static void call(peer *p, const char *arguments) {
  say(p, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",\"arguments\":%s}}\n",
      ++p->next_id, p->tool, arguments);
}

/* @return 1: an answer; 0: another message. */
static int take(peer *p, const char *line) {
  bool is_answer = strstr(line, "\"result\"") || strstr(line, "\"error\"");
  if (!is_answer) return 0;
  if (p->next_id > 1 && (!strstr(line, "\"content\"") || strstr(line, "\"isError\":true"))) {
    if (p->failed++ == 0) fprintf(stderr, "gateway: %s: %s\n", p->label, line);
  }
  return 1;
}

/* Writes and reads once. @return how many answers came. */
static int step(peer *p) {
  struct pollfd fds[] = {{.fd = p->output, .events = POLLIN}, {.fd = p->out_size ? p->input : -1, .events = POLLOUT}};
  int answers = 0;
  if (poll(fds, 2, 60000) == 0) fail("%s has said nothing for a minute", p->label);
  if (fds[1].revents) {
    ssize_t size = write(p->input, p->out, p->out_size);
    if (size < 0 && errno != EAGAIN) fail("%s: %s", p->label, strerror(errno));
    if (size > 0) memmove(p->out, p->out + size, p->out_size -= (size_t)size);
  }
  if (!fds[0].revents) return 0;
  ssize_t size = read(p->output, p->bytes + p->size, sizeof p->bytes - p->size - 1);
  if (size <= 0) fail("%s has ended", p->label);
  p->size += (size_t)size;
  p->bytes[p->size] = 0;
  char *at = p->bytes;
  for (char *end; (end = memchr(at, '\n', (size_t)(p->bytes + p->size - at))); at = end + 1) {
    *end = 0;
    answers += take(p, at);
  }
  p->size = (size_t)(p->bytes + p->size - at);
  memmove(p->bytes, at, p->size);
  return answers;
}

static void shake_hands(peer *p) {
  say(p,
      "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","
      "\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n",
      ++p->next_id);
  while (step(p) == 0) {}
  say(p, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
}

/* @return the time of one call. */
static double play(peer *p, long calls, long in_flight, const char *arguments) {
  double began = now_us();
  long begun = 0, ended = 0;
  while (ended < calls) {
    while (begun < calls && begun - ended < in_flight) begun++, call(p, arguments);
    ended += step(p);
  }
  return (now_us() - began) / (double)calls;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(const double *items, long count) {
  double sorted[ROUNDS_MAX];
  memcpy(sorted, items, (size_t)count * sizeof *sorted);
  qsort(sorted, (size_t)count, sizeof *sorted, compare);
  return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

int main(int argc, char **argv) {
  int split = 6;
  while (split < argc && strcmp(argv[split], "--") != 0) split++;
  if (argc < 10 || split > argc - 3) fail("see the head of bench/gateway.c for its arguments");
  long calls = strtol(argv[1], NULL, 10), in_flight = strtol(argv[2], NULL, 10);
  long rounds = strtol(argv[3], NULL, 10), failed = 0;
  if (calls < 1 || in_flight < 1 || rounds < 1 || rounds > ROUNDS_MAX) fail("bad numbers");
  argv[split] = NULL;
  peers[0].label = "direct", peers[0].tool = argv[5], peers[0].command = argv + 6;
  peers[1].label = "gateway", peers[1].tool = argv[split + 1], peers[1].command = argv + split + 2;
  signal(SIGPIPE, SIG_IGN);
  for (int i = 0; i < 2; i++) {
    start(&peers[i]);
    shake_hands(&peers[i]);
    (void)play(&peers[i], calls, in_flight, argv[4]); /* this round is not counted */
  }
  double added[ROUNDS_MAX];
  for (long round = 0; round < rounds; round++) {
    for (int i = 0; i < 2; i++) {
      double before = cpu_us(peers[i].pid);
      peers[i].call_us[round] = play(&peers[i], calls, in_flight, argv[4]);
      peers[i].cpu_us[round] = (cpu_us(peers[i].pid) - before) / (double)calls;
    }
    added[round] = 100 * (peers[1].call_us[round] / peers[0].call_us[round] - 1);
  }
  for (int i = 0; i < 2; i++) {
    printf("%-8s %8.1f us a call, %7.1f us of CPU of its own\n", peers[i].label, median(peers[i].call_us, rounds),
           median(peers[i].cpu_us, rounds));
    failed += peers[i].failed;
    stop(&peers[i]);
  }
  double least[2] = {median(peers[0].call_us, rounds), median(peers[1].call_us, rounds)};
  printf("added    %8.1f us a call, %.1f %% of medians; of pairs %.1f %% (median)\n", least[1] - least[0],
         100 * (least[1] / least[0] - 1), median(added, rounds));
  if (failed > 0) fail("%ld calls failed", failed);
  return 0;
}
