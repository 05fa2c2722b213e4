/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of programs as handlers: starting one, compared with only posix_spawn and waitpid, with little and with much
 * memory in the host; a request to a resident worker, compared with the same program on bare pipes; and the number of
 * threads while 200 hooks run. README.md says how to read it. */
#include <dirent.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/latch.h"
#include "bench/report.h"
#include "turnphase/declared.h"

#define ROWS "spawn spawn512 worker threads "

enum { MEMORY = 512 << 20, HOOKS = 200, HOOKS_QUICK = 10, LINE_SIZE = 65536 };

static char self[4096], folder[64];
static char *const no_environment[] = {NULL};

/* ---- the started program: answers each line with the number in it ---- */

static int answer_lines(void) {
  static char line[LINE_SIZE];
  while (fgets(line, sizeof line, stdin)) {
    printf("{\"id\":%ld}\n", strtol(line + strlen("{\"id\":"), NULL, 10));
    fflush(stdout);
  }
  return 0;
}

/* ---- starting a program ---- */

static int64_t run_bare(void *ctx, uint32_t times) {
  (void)ctx;
  static char *const arguments[] = {(char *)(uintptr_t) "/bin/true", NULL};
  int64_t begun_ns = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    pid_t pid;
    if (posix_spawn(&pid, arguments[0], NULL, NULL, arguments, no_environment) != 0) exit(70);
    waitpid(pid, NULL, 0);
  }
  return bench_now_ns() - begun_ns;
}

typedef struct starter {
  tp_process_loop *loop;
  bench_latch latch;
} starter;

static void child_ended(void *ctx, const tp_process_result *result) {
  if (result->end != TP_PROCESS_EXITED) exit(70);
  bench_latch_hit(&((starter *)ctx)->latch, 1);
}

static int64_t run_loop(void *ctx, uint32_t times) {
  static const char *const arguments[] = {"/bin/true", NULL};
  starter *s = ctx;
  tp_process_options options = {.struct_size = sizeof options, .arguments = arguments};
  int64_t begun_ns = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    tp_fault fault;
    bench_latch_set(&s->latch, 1);
    bench_must(tp_process_start(s->loop, &options, child_ended, s, NULL, &fault), &fault);
    bench_latch_wait(&s->latch);
  }
  return bench_now_ns() - begun_ns;
}

static double spawn_row(bench_program *program, const char *name, const char *what) {
  starter s = {.loop = NULL};
  tp_fault fault;
  bench_must(tp_process_loop_new(NULL, &s.loop, &fault), &fault);
  bench_row row = {.name = name, .what = what, .unit = "a program"};
  size_t bare = bench_row_add(&row, (bench_contestant){.name = "posix_spawn", .run = run_bare}, (bench_bound){0});
  size_t ours =
      bench_row_add(&row, (bench_contestant){.name = "turnphase", .run = run_loop, .ctx = &s, .threads = true},
                    (bench_bound){.ratio = 1.3, .against = bare});
  bench_row_run(program, &row, NULL);
  tp_process_loop_free(s.loop);
  return row.results[ours].all.median;
}

static void spawn_rows(bench_program *program) {
  double little = 0;
  if (bench_wanted(program, "spawn")) little = spawn_row(program, "spawn", "an empty program is started and ends");
  if (!bench_wanted(program, "spawn512")) return;
  char *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) exit(70);
  memset(memory, 1, MEMORY);
  double much = spawn_row(program, "spawn512", "the same with 512 MiB in the host");
  munmap(memory, MEMORY);
  if (little > 0) bench_figure(program, "spawn512", "512 MiB beside none", much / little, "times", 1.1);
}

/* ---- a request to a worker ---- */

typedef struct pipes {
  FILE *to, *from;
  pid_t pid;
  long last_id;
} pipes;

static void open_pipes(pipes *p) {
  int to[2], from[2];
  char *const arguments[] = {self, (char *)(uintptr_t) "--answer", NULL};
  posix_spawn_file_actions_t actions;
  if (pipe(to) != 0 || pipe(from) != 0) exit(70);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], 0);
  posix_spawn_file_actions_adddup2(&actions, from[1], 1);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  if (posix_spawn(&p->pid, self, &actions, NULL, arguments, no_environment) != 0) exit(70);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  p->to = fdopen(to[1], "w");
  p->from = fdopen(from[0], "r");
}

static void close_pipes(void *ctx) {
  pipes *p = ctx;
  fclose(p->to);
  waitpid(p->pid, NULL, 0);
  fclose(p->from);
}

static int64_t run_pipes(void *ctx, uint32_t times) {
  pipes *p = ctx;
  char line[256];
  int64_t begun_ns = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    fprintf(p->to, "{\"id\":%ld,\"context\":{\"event_type\":\"tool.pre\",\"hook_id\":\"w\",\"phase\":\"tool.pre\"}}\n",
            ++p->last_id);
    fflush(p->to);
    if (!fgets(line, sizeof line, p->from)) exit(70);
  }
  return bench_now_ns() - begun_ns;
}

typedef struct host {
  tp_runtime *runtime;
  tp_session *session;
  tp_turn *turn;
} host;

static void write_hook(int number, const char *text) {
  char file[128];
  snprintf(file, sizeof file, "%s/%d.yaml", folder, number);
  FILE *stream = fopen(file, "we");
  if (!stream || fputs(text, stream) < 0 || fclose(stream) != 0) exit(70);
}

static void remove_hooks(int count) {
  for (int i = 0; i < count; i++) {
    char file[128];
    snprintf(file, sizeof file, "%s/%d.yaml", folder, i);
    unlink(file);
  }
}

static void open_host(host *h) {
  tp_fault fault;
  tp_hooks *hooks;
  const tp_hooks_options options = {.struct_size = sizeof options, .directory = folder, .root = folder};
  const tp_session_options session = {.struct_size = sizeof session, .id = "s"};
  bench_must(tp_runtime_new(NULL, &h->runtime, &fault), &fault);
  bench_must(tp_hooks_read(h->runtime, &options, &hooks, &fault), &fault);
  bench_must(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault), &fault);
  tp_hooks_free(hooks);
  bench_must(tp_session_open(h->runtime, &session, &h->session, &fault), &fault);
  bench_must(tp_turn_begin(h->session, NULL, &h->turn, &fault), &fault);
}

static void close_host(void *ctx) {
  host *h = ctx;
  tp_turn_end(h->turn);
  tp_session_close(h->session, NULL, NULL);
  tp_runtime_free(h->runtime);
}

static void run_phase(host *h, tp_phase_id phase) {
  tp_fault fault;
  tp_phase_result result = {.struct_size = sizeof result};
  bench_must(tp_phase_run(h->turn, phase, NULL, &result, &fault), &fault);
  bench_must(result.outcome, NULL);
  tp_phase_result_release(h->turn, &result);
}

static int64_t run_worker(void *ctx, uint32_t times) {
  int64_t begun_ns = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) run_phase(ctx, TP_PHASE_TOOL_PRE);
  return bench_now_ns() - begun_ns;
}

static void worker_row(bench_program *program) {
  host h;
  pipes p = {.last_id = 0};
  char text[4400];
  snprintf(text, sizeof text, "id: w\nevent: tool.pre\nhandler: {kind: worker, command: [%s, --answer]}\n", self);
  write_hook(0, text);
  open_host(&h);
  open_pipes(&p);
  bench_row row = {.name = "worker", .what = "a request to a resident program", .unit = "a request"};
  size_t bare = bench_row_add(
      &row, (bench_contestant){.name = "pipes", .run = run_pipes, .close = close_pipes, .ctx = &p}, (bench_bound){0});
  bench_row_add(
      &row, (bench_contestant){.name = "turnphase", .run = run_worker, .close = close_host, .ctx = &h, .threads = true},
      (bench_bound){.against = bare}); /* the aim is 2: README.md */
  bench_row_run(program, &row, NULL);
  remove_hooks(1);
}

/* ---- many at once ---- */

static int count_entries(const char *path) {
  int count = 0;
  DIR *stream = opendir(path);
  while (stream && readdir(stream)) count++;
  if (stream) closedir(stream);
  return count - 2;
}

/* No turn waits for them, so all of them run at once. */
static void threads_row(bench_program *program) {
  int hooks = program->quick ? HOOKS_QUICK : HOOKS, most = 0;
  host h;
  for (int i = 0; i < hooks; i++) {
    char text[256];
    snprintf(text, sizeof text,
             "id: h%d\nevent: tool.post\nblocking: false\n"
             "handler: {command: [sh, -c, 'echo > ran%d; exec sleep 1'], timeout_ms: 60000}\n",
             i, i);
    write_hook(i, text);
  }
  open_host(&h);
  int before = count_entries("/proc/self/task");
  run_phase(&h, TP_PHASE_TOOL_POST);
  while (count_entries(folder) < 2 * hooks) { /* until the last one has begun */
    int now = count_entries("/proc/self/task");
    if (now > most) most = now;
    bench_sleep_us(1000);
  }
  bench_figure(program, "threads", "hooks at once", hooks, "hooks", 0);
  bench_figure(program, "threads", "threads meanwhile", most, "threads", 0);
  bench_figure(program, "threads", "threads before", before, "threads", 0);
  close_host(&h);
  for (int i = 0; i < hooks; i++) {
    char file[128];
    snprintf(file, sizeof file, "%s/ran%d", folder, i);
    unlink(file);
  }
  remove_hooks(hooks);
}

int main(int argc, char **argv) {
  bench_program program;
  if (argc == 2 && strcmp(argv[1], "--answer") == 0) return answer_lines();
  ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
  snprintf(folder, sizeof folder, "/tmp/bench_programs.XXXXXX");
  if (size <= 0) return 70;
  self[size] = '\0';
  bench_open(&program, "programs", "what programs as handlers cost", ROWS, argc, argv);
  if (!mkdtemp(folder)) return 70;
  spawn_rows(&program);
  if (bench_wanted(&program, "worker")) worker_row(&program);
  if (bench_wanted(&program, "threads")) threads_row(&program);
  rmdir(folder);
  return bench_close(&program);
}
