/* SPDX-License-Identifier: Apache-2.0
 *
 * soak SECONDS DIRECTORY [SEED]: a server that runs for a long time, while everything around it fails now and then.
 *
 * 64 connections run turns of short sessions, with history, records, jobs and memories in SQLite, guards of a directory
 * that is committed again and again, programs as hooks, for each call and resident, tools, questions that another
 * thread answers, and cancels. The wall clock jumps, and the disk is full for half a second now and then. At the end:
 *   a turn that was acknowledged is in its session's history once, and one that was not at most once;
 *   a job that was acknowledged ran, or waits in the store for the next process;
 *   the memory of an acknowledged turn is there, or its job waits or is dead;
 *   the file of the store is whole; no descriptor and no program is left;
 *   no turn lost its session to another one;
 *   memory, descriptors and children did not grow from the second quarter of the time to the last, where that is at
 *   least 12 seconds.
 * Prints a line every ten seconds. Exit: 0 all of these hold, 1 not all, 2 usage. */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/support/endpoint.h"
#include "tests/support/full_disk.h"
#include "turnphase/declared.h"
#include "turnphase/memory.h"
#include "turnphase/sqlite.h"
#include "turnphase/turnphase.h"

enum { CONNECTIONS = 64, SESSION_TURNS_MAX = 20, TURNS_MAX = 4000000, SAMPLES_MAX = 4000 };

/* The progress of a turn. A turn is identified by its number: its message is `word NUMBER`. */
enum { BEGUN = 1, ACKNOWLEDGED = 2, JOB_TAKEN = 4, JOB_RAN = 8, MEMORY_TAKEN = 16, REMEMBERED = 32 };

typedef struct soak {
  const char *directory;
  char database[512], memory[512], hooks[512];
  tp_runtime *runtime;
  tp_shared_history *history;
  _Atomic bool ends;
  _Atomic uint32_t turn_count, acknowledged, cancelled, refused, questions, reloads, jobs_again;
  _Atomic uint8_t *turns; /* TURNS_MAX */
} soak;

static soak s;

/* ---- a wall clock that jumps ---- */

static _Atomic int64_t clock_ahead_s;

/* Replaces the C library's function, for this program and the libraries that it loads. */
int clock_gettime(clockid_t clock, struct timespec *ret_time) {
  int failed = (int)syscall(SYS_clock_gettime, clock, ret_time);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) ret_time->tv_sec += clock_ahead_s;
  return failed;
}

/* ---- small things ---- */

static void give_up(const char *what, const char *why) {
  fprintf(stderr, "soak: %s: %s\n", what, why);
  exit(1);
}

static void must(tp_status status, const char *what, const tp_fault *fault) {
  if (status != TP_OK) give_up(what, fault->message);
}

static uint32_t drawn(uint64_t *state, uint32_t below) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % below;
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void pause_ms(uint32_t ms) {
  struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
  nanosleep(&pause, NULL);
}

static size_t resident_kib(void) {
  size_t total = 0, pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%zu %zu", &total, &pages) != 2) give_up("/proc/self/statm", "cannot be read");
  fclose(file);
  return pages * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

static size_t open_descriptors(void) {
  size_t count = 0;
  DIR *directory = opendir("/proc/self/fd");
  if (!directory) give_up("/proc/self/fd", "cannot be read");
  while (readdir(directory)) count++;
  closedir(directory);
  return count;
}

static size_t children(void) {
  char name[64], text[16384] = "";
  size_t count = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks) give_up("/proc/self/task", "cannot be read");
  for (struct dirent *entry; (entry = readdir(tasks));) {
    snprintf(name, sizeof name, "/proc/self/task/%.16s/children", entry->d_name);
    FILE *file = fopen(name, "r");
    size_t size = file ? fread(text, 1, sizeof text, file) : 0;
    for (size_t i = 0; i < size; i++) count += text[i] == ' ';
    if (file) fclose(file);
  }
  closedir(tasks);
  return count;
}

/* ---- the model ---- */

static uint32_t number_in(tp_text text) {
  static const char word[] = "word ";
  const char *at = memmem(text.data, text.size, word, sizeof word - 1);
  return at ? (uint32_t)strtoul(at + sizeof word - 1, NULL, 10) : 0;
}

/* The first answer of a turn calls a tool or none, by the turn's number; the answer after the result is text. The map
 * {"what": "x"} stands for any arguments. */
static void answer(void *ctx, const tp_model_request *request, tp_token token) {
  static const char *const tools[] = {"note", "note", "ask_first", "forbidden", "watched", "resident", "hooked"};
  const tp_message *last = request->messages[request->message_count - 1];
  uint32_t number = last->role == TP_ROLE_USER ? number_in(last->text) : 0;
  tp_tool_call call = {
      .struct_size = sizeof call, .id = tp_text_of("c1"), .arguments = {.data = "\x81\xa4what\xa1x", .size = 8}};
  const tp_tool_call *calls[] = {&call};
  tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of("So it is.")};
  (void)ctx;
  if (number % 4 == 1) {
    call.name = tp_text_of(tools[number / 4 % (sizeof tools / sizeof *tools)]);
    response.calls = calls;
    response.call_count = 1;
  }
  (void)tp_model_delta(token, tp_text_of("So "), NULL);
  (void)tp_model_complete(token, &response, NULL);
}

/* ---- tools, guards, jobs ---- */

static tp_answer take_note(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("noted"));
}

static int32_t permit(void *ctx, const tp_permission_request *request) {
  (void)ctx;
  return tp_text_is(request->call->name, "ask_first") ? TP_PERMISSION_ASK : TP_PERMISSION_AUTO;
}

static tp_answer count_job(void *ctx, tp_call *call) {
  (void)ctx;
  uint32_t number = (uint32_t)strtoul(tp_call_id(call, TP_ID_TURN).data + 1, NULL, 10);
  if (number && number < TURNS_MAX && atomic_fetch_or(&s.turns[number], JOB_RAN) & JOB_RAN) s.jobs_again++;
  return tp_call_allow(call);
}

static void hear(void *ctx, const tp_event *event) {
  (void)ctx;
  if (event->kind != TP_EVENT_RUN || event->run->state != TP_STATE_BACKGROUNDED) return;
  bool of_memory = strcmp(event->run->subscription, "memory.post_turn_extractor") == 0;
  if (!of_memory && strcmp(event->run->subscription, "count_job") != 0) return;
  uint32_t number = (uint32_t)strtoul(event->ids[TP_ID_TURN].data + 1, NULL, 10);
  if (number < TURNS_MAX) atomic_fetch_or(&s.turns[number], of_memory ? MEMORY_TAKEN : JOB_TAKEN);
}

static void write_file(const char *name, const char *text) {
  char path[1024], made[1056];
  snprintf(path, sizeof path, "%s/%s", s.hooks, name);
  snprintf(made, sizeof made, "%s.new", path);
  FILE *file = fopen(made, "w");
  if (!file || fputs(text, file) < 0 || fclose(file) != 0 || rename(made, path) != 0) give_up(path, strerror(errno));
}

static void write_hooks(uint32_t version) {
  char text[1024];
  snprintf(text, sizeof text,
           "id: no_forbidden_%u\nevent: tool.pre\nmatch: {ability_scope: forbidden}\n"
           "handler: {kind: deny, reason: it is forbidden}\n",
           version % 2);
  write_file("deny.yaml", text);
}

/* ---- an endpoint that decides about calls: it allows, denies, fails, and hangs up ---- */

static endpoint *webhook; /* NULL: none */

static const endpoint_reply webhook_replies[] = {
    {.type = "application/json", .body = "{\"continue\": true}"},
    {.type = "application/json", .body = "{\"continue\": false, \"reason\": \"not now\"}"},
    {.status = 500, .type = "text/plain", .body = "out of order"},
    {.type = "application/json", .body = "{\"continue\": true}", .stops_at = 4, .then = ENDPOINT_CLOSES},
    {.type = "text/html", .body = "<html>Please log in.</html>"}};

static const endpoint_reply *answer_webhook(void *ctx, const char *request) {
  static uint32_t number; /* on the server's thread */
  (void)ctx;
  (void)request;
  return &webhook_replies[number++ % (sizeof webhook_replies / sizeof *webhook_replies)];
}

static void write_webhook(const char *helper) {
  char text[512];
  if (!helper) return;
  webhook = endpoint_open(webhook_replies, 1);
  endpoint_answer_with(webhook, answer_webhook, NULL);
  snprintf(text, sizeof text,
           "id: hooked\nevent: tool.pre\nmatch: {ability_scope: hooked}\n"
           "handler: {kind: webhook, url: 'http://127.0.0.1:%d/guard', timeout_ms: 5000}\n",
           webhook->port);
  write_file("webhook.yaml", text);
}

/* ---- why turns are refused ---- */

enum { REASONS_MAX = 24, REASON_SIZE = 160 };

static struct {
  pthread_mutex_t mutex;
  char texts[REASONS_MAX][REASON_SIZE];
  uint32_t counts[REASONS_MAX], count;
} reasons = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Digits are left out, so that reasons with numbers are one. */
static void count_reason(tp_text reason) {
  char text[REASON_SIZE];
  size_t size = 0;
  uint32_t i = 0;
  for (size_t at = 0; at < reason.size && size < sizeof text - 1; at++)
    if (reason.data[at] < '0' || reason.data[at] > '9') text[size++] = reason.data[at];
  text[size] = '\0';
  pthread_mutex_lock(&reasons.mutex);
  while (i < reasons.count && strcmp(reasons.texts[i], text) != 0) i++;
  if (i < REASONS_MAX) {
    if (i == reasons.count) memcpy(reasons.texts[reasons.count++], text, size + 1);
    reasons.counts[i]++;
  }
  pthread_mutex_unlock(&reasons.mutex);
}

/* ---- connections ---- */

typedef struct connection {
  pthread_t thread;
  uint64_t random;
  uint32_t index;
} connection;

static void run_turn(connection *c, tp_session *session) {
  char id[32], text[160];
  const tp_turn_result *result = NULL;
  tp_submission *submission = NULL;
  tp_fault fault;
  uint32_t number = ++s.turn_count;
  if (number >= TURNS_MAX) return;
  atomic_fetch_or(&s.turns[number], BEGUN);
  snprintf(id, sizeof id, "t%u", number);
  snprintf(text, sizeof text, "word %u of connection %u: my %u. cat is called Tom.", number, c->index,
           drawn(&c->random, 900));
  tp_turn_request request = {.struct_size = sizeof request, .id = id, .text = tp_text_of(text), .limit_ms = 20000};
  if (tp_turn_submit(session, &request, NULL, NULL, &submission, &fault) != TP_OK) {
    s.refused++;
    count_reason(tp_text_of(fault.message));
    return;
  }
  if (drawn(&c->random, 16) == 0) {
    pause_ms(drawn(&c->random, 3));
    tp_submission_cancel(submission);
  }
  if (tp_submission_wait(submission, 60000, &result, &fault) != TP_OK) give_up(id, "did not end within a minute");
  if (result->outcome == TP_TURN_COMPLETED) {
    atomic_fetch_or(&s.turns[number], ACKNOWLEDGED);
    s.acknowledged++;
  } else if (result->outcome == TP_TURN_CANCELLED) {
    s.cancelled++;
  } else {
    s.refused++;
    count_reason(result->reason);
  }
  tp_submission_unref(submission);
}

static void *connect_and_talk(void *ctx) {
  connection *c = ctx;
  static const tp_model model = {.struct_size = sizeof model, .name = "soak", .start = answer};
  for (uint32_t round = 0; !s.ends; round++) {
    char name[48];
    tp_fault fault;
    tp_session *session = NULL;
    snprintf(name, sizeof name, "s%u-%u", c->index, round);
    tp_session_options options = {
        .struct_size = sizeof options, .id = name, .workspace = name, .model = &model, .on_event = hear};
    if (tp_session_open(s.runtime, &options, &session, &fault) != TP_OK) {
      s.refused++;
      count_reason(tp_text_of(fault.message));
      pause_ms(20);
      continue;
    }
    uint32_t turns = 1 + drawn(&c->random, SESSION_TURNS_MAX);
    for (uint32_t i = 0; i < turns && !s.ends; i++) {
      run_turn(c, session);
      pause_ms(drawn(&c->random, 400));
    }
    tp_session_close(session, NULL, NULL);
  }
  return NULL;
}

/* ---- people ---- */

typedef struct open_questions {
  uint64_t numbers[64];
  size_t count;
} open_questions;

static bool note_question(void *ctx, const tp_kept_question *question) {
  open_questions *open = ctx;
  open->numbers[open->count++] = question->number;
  return open->count < 64;
}

static void *answer_questions(void *ctx) {
  (void)ctx;
  while (!s.ends) {
    open_questions open = {.count = 0};
    if (tp_sqlite_questions_list(s.database, true, note_question, &open, NULL) == TP_OK)
      for (size_t i = 0; i < open.count; i++) {
        tp_decision decision = {.struct_size = sizeof decision,
                                .verdict = open.numbers[i] % 3 ? TP_VERDICT_ALLOW : TP_VERDICT_DENY};
        if (tp_sqlite_question_answer(s.database, open.numbers[i], &decision, NULL) == TP_OK) s.questions++;
      }
    pause_ms(50);
  }
  return NULL;
}

/* ---- what goes wrong ---- */

static void reloaded(void *ctx, tp_status status, const tp_fault *fault) {
  (void)ctx;
  if (status != TP_OK) give_up("a change of the hooks was refused", fault->message);
  s.reloads++;
}

static void *trouble(void *ctx) {
  static const int64_t jumps_s[] = {0, 86400, 3, -86400, 0, -3};
  uint64_t random = (uint64_t)(uintptr_t)ctx;
  for (uint32_t round = 1; !s.ends; round++) {
    pause_ms(500);
    if (round % 3 == 0) write_hooks(round);
    if (round % 7 == 0) clock_ahead_s = jumps_s[drawn(&random, sizeof jumps_s / sizeof *jumps_s)];
    disk_full = round % 20 == 10;
  }
  disk_full = false;
  return NULL;
}

/* ---- what must hold ---- */

static uint32_t broken;

static void expect(bool holds, const char *what, uint64_t number) {
  if (holds) return;
  fprintf(stderr, "soak: %s (%llu)\n", what, (unsigned long long)number);
  broken++;
}

static void report_problem(void *ctx, tp_text problem) {
  (void)ctx;
  fprintf(stderr, "soak: the file is damaged: %.*s\n", (int)problem.size, problem.data);
  broken++;
}

static uint32_t count_of(sqlite3 *db, const char *sql) {
  sqlite3_stmt *row = NULL;
  if (sqlite3_prepare_v2(db, sql, -1, &row, NULL) != SQLITE_OK || sqlite3_step(row) != SQLITE_ROW)
    give_up(sql, sqlite3_errmsg(db));
  uint32_t count = (uint32_t)sqlite3_column_int(row, 0);
  sqlite3_finalize(row);
  return count;
}

/* Each part of a turn must be in the memory once, according to the memory's table. */
static void mark_remembered(void) {
  sqlite3 *db = NULL;
  sqlite3_stmt *rows = NULL;
  if (sqlite3_open_v2(s.memory, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
      sqlite3_prepare_v2(db, "SELECT turn FROM memory", -1, &rows, NULL) != SQLITE_OK)
    give_up(s.memory, "cannot be read");
  while (sqlite3_step(rows) == SQLITE_ROW) {
    uint32_t number = (uint32_t)strtoul((const char *)sqlite3_column_text(rows, 0) + 1, NULL, 10);
    expect(number > 0 && number < TURNS_MAX && s.turns[number] & BEGUN, "a memory of no turn", number);
    if (number < TURNS_MAX) atomic_fetch_or(&s.turns[number], REMEMBERED);
  }
  sqlite3_finalize(rows);
  sqlite3_close(db);
}

static void check_history(void) {
  sqlite3 *db = NULL;
  sqlite3_stmt *rows = NULL;
  uint8_t *seen = calloc(TURNS_MAX, 1);
  uint32_t taken = 0, open = 0, not_run = 0, kept = 0, left = 0, not_kept = 0;
  if (!seen || sqlite3_open_v2(s.database, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
      sqlite3_prepare_v2(db, "SELECT text FROM message WHERE role = ?", -1, &rows, NULL) != SQLITE_OK)
    give_up(s.database, "cannot be read");
  sqlite3_bind_int(rows, 1, TP_ROLE_USER);
  while (sqlite3_step(rows) == SQLITE_ROW) {
    tp_text text = {.data = (const char *)sqlite3_column_text(rows, 0), .size = (size_t)sqlite3_column_bytes(rows, 0)};
    uint32_t number = number_in(text);
    expect(number > 0 && number < TURNS_MAX, "a message that nobody said", number);
    if (number < TURNS_MAX && seen[number] < 255) seen[number]++;
  }
  sqlite3_finalize(rows);
  open = count_of(db, "SELECT count(*) FROM job WHERE handler = 'count_job' AND state IN (1, 2)");
  left = count_of(db, "SELECT count(*) FROM job WHERE handler = 'memory.post_turn_extractor' AND state <> 3");
  sqlite3_close(db);
  mark_remembered();
  for (uint32_t n = 1; n <= s.turn_count && n < TURNS_MAX; n++) {
    if (s.turns[n] & ACKNOWLEDGED) expect(seen[n] == 1, "an acknowledged turn is not in the history once", n);
    expect(seen[n] <= 1, "a turn is in the history twice", n);
    taken += (s.turns[n] & JOB_TAKEN) != 0;
    not_run += (s.turns[n] & (JOB_TAKEN | JOB_RAN)) == JOB_TAKEN;
    kept += (s.turns[n] & MEMORY_TAKEN) != 0;
    not_kept += (s.turns[n] & (ACKNOWLEDGED | MEMORY_TAKEN | REMEMBERED)) == (ACKNOWLEDGED | MEMORY_TAKEN);
  }
  free(seen);
  expect(taken > 0 && s.acknowledged > 0 && s.reloads > 0, "nothing was put to the test: jobs taken", taken);
  expect(not_run <= open, "jobs that were taken neither ran nor wait", not_run);
  expect(kept > 0 && not_kept <= left, "memories that were taken are neither there nor jobs", not_kept);
  printf("%u jobs were taken, %u of them wait; %u turns were to be remembered, %u jobs of the memory are left\n", taken,
         open, kept, left);
}

typedef struct sample {
  size_t kib, descriptors, children;
} sample;

/* The mean of the last quarter may exceed that of the second by a tenth and 4 MiB. Descriptors and children are few and
 * come and go, so they may exceed it by a fifth and some more. */
static void check_memory(const sample *samples, size_t count) {
  size_t quarter = count / 4;
  double before = 0, after = 0, fds[2] = {0}, programs[2] = {0};
  if (quarter < 3) return;
  for (size_t i = 0; i < quarter; i++) {
    const sample *early = &samples[quarter + i], *late = &samples[count - quarter + i];
    before += (double)early->kib / (double)quarter;
    after += (double)late->kib / (double)quarter;
    fds[0] += (double)early->descriptors / (double)quarter;
    fds[1] += (double)late->descriptors / (double)quarter;
    programs[0] += (double)early->children / (double)quarter;
    programs[1] += (double)late->children / (double)quarter;
  }
  printf("resident: %.0f KiB in the second quarter, %.0f in the last; descriptors: %.1f, %.1f; children: %.1f, %.1f\n",
         before, after, fds[0], fds[1], programs[0], programs[1]);
  expect(after <= before * 1.1 + 4096, "memory grows", (uint64_t)after);
  expect(fds[1] <= fds[0] * 1.2 + 16, "descriptors grow", (uint64_t)fds[1]);
  expect(programs[1] <= programs[0] * 1.2 + 8, "children grow", (uint64_t)programs[1]);
}

static void prepare(const char *directory) {
  char text[1024];
  tp_history *history = NULL;
  tp_fault fault;
  s.directory = directory;
  s.turns = calloc(TURNS_MAX, 1);
  snprintf(s.database, sizeof s.database, "%s/turnphase.db", directory);
  snprintf(s.memory, sizeof s.memory, "%s/memory.db", directory);
  snprintf(s.hooks, sizeof s.hooks, "%s/hooks", directory);
  if (!s.turns || !install_full_disk()) give_up("soak", "cannot begin");
  if (mkdir(directory, 0700) != 0 || mkdir(s.hooks, 0700) != 0) give_up(directory, strerror(errno));
  write_hooks(0);
  write_file("watch.yaml",
             "id: watched\nevent: tool.pre\nmatch: {ability_scope: watched}\n"
             "handler: {command: [sh, -c, \"cat >/dev/null; echo '{}'\"]}\n");
  write_file(
      "resident.sh",
      "while read -r line; do id=${line#*\"id\":}; echo \"{\\\"id\\\":${id%%[,\\}]*},\\\"result\\\":{}}\"; done\n");
  snprintf(text, sizeof text,
           "id: resident\nevent: tool.pre\nmatch: {ability_scope: resident}\n"
           "handler: {kind: worker, command: [sh, %s/resident.sh]}\n",
           s.hooks);
  write_file("resident.yaml", text);
  write_webhook(getenv("TURNPHASE_WEBHOOK"));
  must(tp_sqlite_history_open(s.database, &history, &fault), "history", &fault);
  must(tp_history_share(NULL, history, &s.history, &fault), "history", &fault);
}

int main(int argc, char **argv) {
  static connection connections[CONNECTIONS];
  static sample samples[SAMPLES_MAX];
  static const char *const names[] = {"note", "ask_first", "forbidden", "watched", "resident", "hooked"};
  size_t sample_count = 0;
  tp_store *store = NULL;
  tp_sqlite_questions *questions = NULL;
  tp_hooks_watch *watch = NULL;
  tp_edit *edit = NULL;
  tp_fault fault;
  pthread_t people, troubles;
  if (argc < 3) {
    fprintf(stderr, "Usage: soak SECONDS DIRECTORY [SEED]\n");
    return 2;
  }
  double seconds = strtod(argv[1], NULL);
  uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
  size_t descriptors = open_descriptors();
  prepare(argv[2]);
  tp_sqlite_store_options store_options = {.struct_size = sizeof store_options,
                                           .path = s.database,
                                           .records_max = 5000,
                                           .turns_max = 5000,
                                           .audits_max = 5000};
  must(tp_sqlite_store_open(&store_options, &store, &fault), "store", &fault);
  tp_sqlite_questions_options ask = {.struct_size = sizeof ask, .path = s.database};
  must(tp_sqlite_questions_open(&ask, &questions, &fault), "questions", &fault);
  tp_runtime_options options = {.struct_size = sizeof options,
                                .store = store,
                                .shared_history = s.history,
                                .durability = TP_DURABILITY_ASYNC,
                                .ask = tp_sqlite_questions_put,
                                .ask_ctx = questions,
                                .permission = permit,
                                .ask_limit_ms = 5000};
  must(tp_runtime_new(&options, &s.runtime, &fault), "runtime", &fault);
  tp_memory_options memory = {.struct_size = sizeof memory, .path = s.memory, .index_bytes_max = 4 << 20};
  must(tp_edit_begin(s.runtime, NULL, &edit, &fault), "edit", &fault);
  must(tp_memory_register(edit, &memory, &fault), "memory", &fault);
  must(tp_edit_commit(edit, NULL, &fault), "memory", &fault);
  tp_hook job = {.struct_size = sizeof job,
                 .id = "count_job",
                 .phase = "turn.post_turn",
                 .run = count_job,
                 .execution = TP_EXECUTION_BACKGROUND,
                 .attempts = 5};
  must(tp_hook_add(s.runtime, &job, &fault), "job", &fault);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    tp_tool tool = {.struct_size = sizeof tool, .name = names[i], .description = "notes", .run = take_note};
    must(tp_tool_add(s.runtime, &tool, &fault), names[i], &fault);
  }
  char host[32] = "";
  const char *const hosts[] = {host, NULL};
  tp_hooks_options hooks = {.struct_size = sizeof hooks,
                            .directory = s.hooks,
                            .webhook_hosts = webhook ? hosts : NULL,
                            .webhook_helper = getenv("TURNPHASE_WEBHOOK")};
  if (webhook) snprintf(host, sizeof host, "127.0.0.1:%d", webhook->port);
  tp_hooks_watch_options watched = {
      .struct_size = sizeof watched, .hooks = &hooks, .owner = "hooks", .on_reload = reloaded};
  must(tp_hooks_watch_new(s.runtime, &watched, &watch, &fault), "hooks", &fault);
  for (uint32_t i = 0; i < CONNECTIONS; i++) {
    connections[i].index = i;
    connections[i].random = seed * 1000 + i;
    if (pthread_create(&connections[i].thread, NULL, connect_and_talk, &connections[i]) != 0)
      give_up("soak", "no thread");
  }
  if (pthread_create(&people, NULL, answer_questions, NULL) != 0 ||
      pthread_create(&troubles, NULL, trouble, (void *)(uintptr_t)seed) != 0)
    give_up("soak", "no thread");
  for (double began = now_s(), said = began; now_s() - began < seconds;) {
    pause_ms(1000);
    if (sample_count < SAMPLES_MAX) samples[sample_count++] = (sample){resident_kib(), open_descriptors(), children()};
    if (now_s() - said < 10) continue;
    said = now_s();
    printf(
        "%5.0f s: %u turns, %u acknowledged, %u cancelled, %u refused, %u questions, %u reloads, %zu KiB, %zu "
        "descriptors, %zu children\n",
        said - began, s.turn_count, s.acknowledged, s.cancelled, s.refused, s.questions, s.reloads,
        samples[sample_count - 1].kib, samples[sample_count - 1].descriptors, samples[sample_count - 1].children);
    fflush(stdout);
  }
  s.ends = true;
  pthread_join(troubles, NULL);
  for (uint32_t i = 0; i < CONNECTIONS; i++) pthread_join(connections[i].thread, NULL);
  pthread_join(people, NULL);
  tp_hooks_watch_free(watch);
  tp_drain_report drain = {.struct_size = sizeof drain};
  must(tp_runtime_drain(s.runtime, 60000, &drain, &fault), "drain", &fault);
  tp_runtime_free(s.runtime);
  tp_shared_history_unref(s.history);
  tp_sqlite_questions_close(questions);
  must(tp_sqlite_store_open(
           &(tp_sqlite_store_options){.struct_size = sizeof store_options, .path = s.database, .read_only = 1}, &store,
           &fault),
       "store", &fault);
  must(tp_sqlite_store_verify(store, report_problem, NULL, &fault), "verify", &fault);
  tp_store_free(store);
  check_history();
  check_memory(samples, sample_count);
  if (webhook) {
    expect(webhook->request_count > 0 || s.turn_count < 100, "the webhook was never asked", s.turn_count);
    printf("%d requests to the webhook\n", webhook->request_count);
    endpoint_close(webhook);
  }
  for (uint32_t i = 0; i < reasons.count; i++)
    if (strstr(reasons.texts[i], "taken over") || strstr(reasons.texts[i], "taken the session over"))
      expect(false, "a session was taken over, and there is one process", reasons.counts[i]);
  expect(open_descriptors() == descriptors, "a descriptor is left", open_descriptors());
  expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "a program is left", 0);
  printf(
      "%u turns, %u acknowledged, %u cancelled, %u refused; %u questions answered, %u reloads, %u jobs ran again: %s\n",
      s.turn_count, s.acknowledged, s.cancelled, s.refused, s.questions, s.reloads, s.jobs_again,
      broken ? "BROKEN" : "holds");
  for (uint32_t i = 0; i < reasons.count; i++) printf("%8u times: %s\n", reasons.counts[i], reasons.texts[i]);
  free(s.turns);
  return broken ? 1 : 0;
}
