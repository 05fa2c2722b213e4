/* SPDX-License-Identifier: Apache-2.0
 *
 * SIGKILL in the middle of a workload of turns and jobs. A child of this program runs it on the SQLite store with
 * durability SYNC, and writes a line to a pipe after each promise: the insert of a job returned, a phase ended, a job
 * was finished. The parent kills it after the n-th line, opens the file, and checks that everything promised so far, by
 * this child and earlier ones, is there. Then the next child goes on with the same file.
 *
 * 50 kill points; with TURNPHASE_ROUNDS 100 for each round. TURNPHASE_SEED replays a run. */
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/host.h"
#include "turnphase/sqlite.h"

enum { POINTS = 50, LINES_MAX = 40, JOBS_MAX = 100000, TURNS_MAX = 100000, SESSIONS = 3 };

static const char *own_path;

/* ---- the child ---- */

static int promises; /* The pipe for the promises. A line is short enough that one write to a pipe cannot be split. */

static void promise(const char *format, ...) {
  char line[128];
  va_list arguments;
  va_start(arguments, format);
  int size = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (write(promises, line, (size_t)size) != size) _exit(3);
}

static tp_store real; /* the store that the functions below call */

static tp_status insert_and_promise(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed,
                                    tp_fault *fault) {
  tp_status status = real.job_insert(ctx, job, ret_id, ret_existed, fault);
  if (status == TP_OK) promise("J %llu\n", (unsigned long long)*ret_id);
  return status;
}

static tp_status finish_and_promise(void *ctx, const tp_job_finish *request, uint32_t *ret_state, tp_fault *fault) {
  tp_status status = real.job_finish(ctx, request, ret_state, fault);
  if (status == TP_OK && request->end == TP_JOB_END_SUCCEEDED) promise("E %llu\n", (unsigned long long)request->id);
  return status;
}

static tp_answer work(void *ctx, tp_call *call) {
  (void)ctx;
  promise("R %llu\n", (unsigned long long)tp_call_job_id(call));
  return TP_ANSWER_DONE;
}

static tp_answer allow(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_allow(call);
}

static tp_runtime *child_runtime(void) {
  tp_sqlite_store_options store_options = {.struct_size = sizeof store_options, .path = path};
  tp_store *store = NULL;
  tp_fault fault = {0};
  if (tp_sqlite_store_open(&store_options, &store, &fault) != TP_OK) {
    fprintf(stderr, "%s\n", fault.message);
    _exit(4);
  }
  real = *store;
  tp_store shown = *store;
  shown.job_insert = insert_and_promise;
  shown.job_finish = finish_and_promise;
  tp_runtime_options options = {.struct_size = sizeof options, .store = &shown, .durability = TP_DURABILITY_SYNC};
  tp_runtime *runtime = NULL;
  hook hooks[] = {{.id = "guard", .phase = TP_PHASE_TURN_INTAKE, .run = allow},
                  {.id = "job",
                   .phase = TP_PHASE_TURN_POST_TURN,
                   .run = work,
                   .slow = true,
                   .idempotent = true,
                   .sub = {.execution = TP_EXECUTION_BACKGROUND, .attempts = 1000}}};
  if (tp_runtime_new(&options, &runtime, &fault) != TP_OK || hooks_add(runtime, hooks, 2, &fault) != TP_OK) {
    fprintf(stderr, "%s\n", fault.message);
    _exit(5);
  }
  return runtime;
}

static void run_turn(tp_runtime *runtime, tp_session *session, const char *id) {
  static const uint32_t phases[] = {TP_PHASE_TURN_INTAKE, TP_PHASE_TURN_POST_TURN};
  tp_turn_request request = {.struct_size = sizeof request, .id = id};
  tp_turn *turn;
  (void)runtime;
  if (tp_turn_begin(session, &request, &turn, NULL) != TP_OK) _exit(6);
  for (size_t i = 0; i < COUNT(phases); i++) {
    tp_phase_result result = {.struct_size = sizeof result};
    tp_phase_input input = {.struct_size = sizeof input};
    if (tp_phase_run(turn, phases[i], &input, &result, NULL) != TP_OK || result.outcome != TP_OK) _exit(7);
    promise("T %s %u\n", id, phases[i]);
  }
  tp_turn_end(turn);
}

/* @param turns  how many; -1: until it is killed; 0: only the existing jobs. */
static int child_main(const char *file, const char *generation, int turns, int pipe_fd) {
  snprintf(path, sizeof path, "%s", file);
  promises = pipe_fd;
  tp_runtime *runtime = child_runtime();
  tp_session *sessions[SESSIONS];
  for (int i = 0; i < SESSIONS; i++) {
    char id[16];
    snprintf(id, sizeof id, "s%d", i);
    tp_session_options options = {.struct_size = sizeof options, .id = id};
    if (tp_session_open(runtime, &options, &sessions[i], NULL) != TP_OK) return 8;
  }
  for (int i = 0; i != turns; i++) {
    char id[32];
    snprintf(id, sizeof id, "%s-%d", generation, i);
    run_turn(runtime, sessions[i % SESSIONS], id);
  }
  if (tp_jobs_wait(runtime, "", 60000, NULL) != TP_OK) return 9;
  for (int i = 0; i < SESSIONS; i++) tp_session_close(sessions[i], NULL, NULL);
  tp_runtime_free(runtime);
  return 0;
}

/* ---- the parent ---- */

typedef struct ledger {
  bool inserted[JOBS_MAX];
  uint32_t runs[JOBS_MAX], ends[JOBS_MAX];
  char (*turns)[40]; /* "id phase", in the order of their promises */
  size_t turn_count, turns_checked, job_count;
} ledger;
static ledger promised;

static void take_line(const char *line) {
  unsigned long long id = strtoull(line + 2, NULL, 10);
  if (line[0] == 'T') {
    assert_true(promised.turn_count < TURNS_MAX);
    snprintf(promised.turns[promised.turn_count++], sizeof promised.turns[0], "%.39s", line + 2);
    return;
  }
  assert_true(id > 0 && id < JOBS_MAX);
  if (line[0] == 'J') {
    if (!promised.inserted[id]) promised.job_count++;
    promised.inserted[id] = true;
  } else if (line[0] == 'R') {
    promised.runs[id]++;
  } else if (line[0] == 'E') {
    promised.ends[id]++;
  }
}

typedef struct child {
  pid_t id;
  FILE *lines;
} child;

static child start_child(int generation, int turns) {
  int fds[2];
  char number[16], count[16], fd[16];
  assert_int_equal(pipe(fds), 0);
  snprintf(number, sizeof number, "%d", generation);
  snprintf(count, sizeof count, "%d", turns);
  snprintf(fd, sizeof fd, "%d", fds[1]);
  pid_t id = fork();
  if (id == 0) {
    close(fds[0]);
    execl(own_path, own_path, test_file_name(__FILE__), "--child", path, number, count, fd, (char *)NULL);
    _exit(127);
  }
  close(fds[1]);
  return (child){id, fdopen(fds[0], "r")};
}

/* Lines that were written before the kill are still in the pipe: they count as promised. @return the child's status. */
static int take_all(child c, int kill_behind) {
  char line[128];
  int count = 0, status;
  while (fgets(line, sizeof line, c.lines)) {
    line[strcspn(line, "\n")] = '\0';
    take_line(line);
    if (++count == kill_behind) kill(c.id, SIGKILL);
  }
  fclose(c.lines);
  waitpid(c.id, &status, 0);
  return status;
}

static int64_t number_of(sqlite3 *db, const char *sql, const char *text) {
  sqlite3_stmt *row = NULL;
  assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
  if (text) assert_int_equal(sqlite3_bind_text(row, 1, text, -1, SQLITE_STATIC), SQLITE_OK);
  int64_t number = sqlite3_step(row) == SQLITE_ROW ? sqlite3_column_int64(row, 0) : -1;
  sqlite3_finalize(row);
  return number;
}

static void assert_whole(sqlite3 *db) {
  sqlite3_stmt *row = NULL;
  assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &row, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(row), SQLITE_ROW);
  assert_string_equal((const char *)sqlite3_column_text(row, 0), "ok");
  sqlite3_finalize(row);
}

typedef struct job_count {
  size_t promised, unfinished, ended_and_open, bad_payload;
} job_count;

static bool look_at_job(void *ctx, const tp_job *job) {
  job_count *c = ctx;
  if (job->id < JOBS_MAX && promised.inserted[job->id]) c->promised++;
  if (job->state != TP_JOB_SUCCEEDED) c->unfinished++;
  if (job->state != TP_JOB_SUCCEEDED && job->id < JOBS_MAX && promised.ends[job->id] > 0) c->ended_and_open++;
  if ((job->payload.size == 0) != (job->state == TP_JOB_SUCCEEDED)) c->bad_payload++;
  return true;
}

/* @return how many jobs are not finished. */
static size_t assert_all_promises_kept(void) {
  sqlite3 *db = NULL;
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path, .jobs_ended_max = JOBS_MAX};
  tp_store *store = NULL;
  tp_fault fault = {0};
  if (tp_sqlite_store_open(&options, &store, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_job_query query = {.struct_size = sizeof query, .states = ~0u, .with_payload = 1};
  job_count jobs = {0};
  assert_int_equal(store->jobs(store->ctx, &query, look_at_job, &jobs, NULL), TP_OK);
  tp_store_free(store);
  assert_int_equal(jobs.promised, promised.job_count);
  assert_int_equal(jobs.ended_and_open, 0);
  assert_int_equal(jobs.bad_payload, 0);
  for (size_t i = 0; i < JOBS_MAX; i++)
    if (promised.ends[i] > 1) fail_msg("job %zu ended %u times", i, promised.ends[i]);
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_whole(db);
  for (; promised.turns_checked < promised.turn_count; promised.turns_checked++) {
    const char *turn = promised.turns[promised.turns_checked];
    static const char sql[] =
        "SELECT count(*) FROM entry JOIN run ON entry = number"
        " WHERE turn || ' ' || phase = ?1 AND (subscription = 'guard' OR state = 7)";
    if (number_of(db, sql, turn) != 1) fail_msg("the record of %s is not there", turn);
  }
  assert_int_equal(number_of(db, "SELECT count(*) FROM job WHERE state NOT IN (1, 2, 3)", NULL), 0);
  assert_int_equal(number_of(db,
                             "SELECT count(*) FROM (SELECT order_key FROM job WHERE is_first = 1"
                             " GROUP BY order_key HAVING count(*) > 1)",
                             NULL),
                   0);
  sqlite3_close(db);
  return jobs.unfinished;
}

static uint32_t next_random(uint32_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 17;
  *seed ^= *seed << 5;
  return *seed;
}

static int points(void) {
  const char *rounds = getenv("TURNPHASE_ROUNDS");
  int count = rounds ? atoi(rounds) : 0;
  return count > 1 ? 2 * POINTS * count : POINTS;
}

FOR_EACH_TEST(make_directory, remove_directory);

TEST(nothing_that_was_promised_is_lost_or_done_twice) {
  const char *given = getenv("TURNPHASE_SEED");
  uint32_t first = given ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)now_ns(), seed = first ? first : 1;
  int count = points();
  print_message("# TURNPHASE_SEED=%u, %d kill points\n", first, count);
  promised.turns = calloc(TURNS_MAX, sizeof *promised.turns);
  assert_non_null(promised.turns);
  size_t unfinished = 0, seen_unfinished = 0;
  for (int i = 0; i < count; i++) {
    int status = take_all(start_child(i, -1), 1 + (int)(next_random(&seed) % LINES_MAX));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) fail_msg("child %d ended with status %d", i, status);
    unfinished = assert_all_promises_kept();
    if (unfinished > 0) seen_unfinished++;
  }
  assert_true(seen_unfinished > 0); /* otherwise no kill left a job behind */
  assert_int_equal(take_all(start_child(count, 0), -1), 0);
  assert_int_equal(assert_all_promises_kept(), 0);
  for (size_t i = 0; i < JOBS_MAX; i++)
    if (promised.inserted[i] && promised.runs[i] == 0) fail_msg("job %zu never ran", i);
  print_message("# %zu jobs, %zu phases; %zu kills left jobs unfinished\n", promised.job_count, promised.turn_count,
                seen_unfinished);
  free(promised.turns);
}

TEST_MAIN(count, arguments) {
  static char self[4096];
  if (count == 6 && strcmp(arguments[1], "--child") == 0)
    return child_main(arguments[2], arguments[3], atoi(arguments[4]), atoi(arguments[5]));
  ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
  if (size <= 0) return 1;
  own_path = self;
  return test_main(count, arguments);
}
