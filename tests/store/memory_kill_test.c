/* SPDX-License-Identifier: Apache-2.0
 *
 * A process is killed while it stores a turn's messages and the facts that a model makes of them, while it imports, and
 * while it forgets. Every second process has no model: its jobs hand the messages over and hold no thread. Its runtime
 * has a durable store, and a second process runs the open jobs. Then the file is intact. A turn that has returned is
 * there with its fact, forgotten memories are not there, an import is there completely or not at all, and of facts that
 * replace each other only one is valid. Killed at 50 points; with TURNPHASE_ROUNDS 100 for each round. TURNPHASE_SEED
 * replays a run. And two processes that write and recall in one file at the same time. */
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "domains/memory/recall.h"
#include "tests/support/directory.h"
#include "tests/support/host.h"
#include "tests/support/rows.h"
#include "turnphase/memory.h"
#include "turnphase/sqlite.h"

enum { POINTS = 50, STEPS_MAX = 12, BATCH = 5, WAIT_MS = 60000 };

/** What the steps do, one after the other. */
typedef enum operation {
  TURN,         /* words and a fact, which replaces the one before */
  IMPORT,       /* BATCH entries */
  FORGET_WORDS, /* forgets the words of the turn two steps before */
  FORGET_FACT,  /* forgets the fact of the turn three steps before */
  OPERATIONS
} operation;

static bool has_model; /* the life that is lived */

static const tp__memory_scope scope = {{"acme", 4}, {"workspace", 9}, {"home", 4}};

/* ---- the process that is killed ---- */

/** What the child reports before and after each step. */
typedef struct report {
  int step;
  bool done;
} report;

static void need_at(bool true_one, int line) {
  if (true_one) return;
  fprintf(stderr, "memory_kill_test.c:%d: not so in the process that is killed\n", line);
  _exit(3);
}
#define need(true_one) need_at(true_one, __LINE__)

static void say(int fd, int step, bool done) {
  report r = {step, done};
  need(write(fd, &r, sizeof r) == (ssize_t)sizeof r);
}

/* The name of a turn says to which life and step it belongs. */
static void name_turn(char into[32], int life, int step, int part) { snprintf(into, 32, "%d-%d-%d", life, step, part); }

static void answer(tp_token token, const char *text) {
  tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of(text)};
  need(tp_model_complete(token, &response, NULL) == TP_OK);
}

static void answer_yes(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx;
  (void)request;
  answer(token, "Yes.");
}

/* Answers with one fact, which quotes the words and replaces the known one. */
static void extract(void *ctx, const tp_model_request *request, tp_token token) {
  static const char known[] = "Known facts:\n", said[] = "<said>\n";
  char text[4096], words[32], json[256];
  (void)ctx;
  snprintf(text, sizeof text, "%.*s", (int)request->messages[0]->text.size, request->messages[0]->text.data);
  const char *fact = strstr(text, known), *line = strstr(text, said);
  need(line && sscanf(line + sizeof said - 1, "[%*[^]]] %31[0-9-]", words) == 1);
  snprintf(json, sizeof json,
           "{\"facts\": [{\"subject\": \"turn\", \"statement\": \"The last turn was %s.\", \"quote\": \"%s\","
           " \"replaces\": %lld}]}",
           words, words, fact ? atoll(fact + sizeof known - 1) : 0);
  answer(token, json);
}

/* Opens a runtime whose store keeps the jobs of the life before. */
static tp_runtime *open_host(void) {
  char file[128];
  snprintf(file, sizeof file, "%s/turns.db", directory);
  const tp_model model = {.struct_size = sizeof model, .start = extract, .placement = TP_PLACEMENT_INLINE};
  tp_sqlite_store_options store_options = {.struct_size = sizeof store_options, .path = file};
  tp_memory_options memory = {.struct_size = sizeof memory, .path = path, .model = has_model ? &model : NULL};
  tp_runtime_options options = {.struct_size = sizeof options, .durability = TP_DURABILITY_SYNC};
  tp_store *store = NULL;
  tp_runtime *runtime = NULL;
  tp_edit *edit = NULL;
  need(tp_sqlite_store_open(&store_options, &store, NULL) == TP_OK);
  options.store = store;
  need(tp_runtime_new(&options, &runtime, NULL) == TP_OK);
  need(tp_edit_begin(runtime, NULL, &edit, NULL) == TP_OK && tp_memory_register(edit, &memory, NULL) == TP_OK);
  need(tp_edit_commit(edit, NULL, NULL) == TP_OK && tp_runtime_start(runtime, NULL) == TP_OK);
  return runtime;
}

static tp_session *open_session(tp_runtime *runtime, int life) {
  char id[16];
  snprintf(id, sizeof id, "s%d", life);
  const tp_model model = {.struct_size = sizeof model, .start = answer_yes, .placement = TP_PLACEMENT_INLINE};
  tp_session_options options = {
      .struct_size = sizeof options, .id = id, .tenant = "acme", .workspace = "home", .model = &model};
  tp_session *session = NULL;
  need(tp_session_open(runtime, &options, &session, NULL) == TP_OK);
  return session;
}

static void run_turn(tp_session *session, int life, int step) {
  char turn[32];
  const tp_turn_result *result = NULL;
  name_turn(turn, life, step, 0);
  tp_turn_request request = {.struct_size = sizeof request,
                             .id = turn,
                             .text = tp_text_of(turn),
                             .said_unix_ms = INT64_C(1683550800000) + life * STEPS_MAX + step};
  need(tp_turn_run(session, &request, &result, NULL) == TP_OK && result->outcome == TP_TURN_COMPLETED);
  tp_turn_result_free(result);
}

static void import(tp_memory *file, int life, int step) {
  char turns[BATCH][32];
  tp_memory_entry entries[BATCH];
  const tp_memory_entry *list[BATCH];
  for (int i = 0; i < BATCH; i++) {
    name_turn(turns[i], life, step, i);
    entries[i] = (tp_memory_entry){.struct_size = sizeof(tp_memory_entry),
                                   .said_unix_ms = 1,
                                   .tenant = scope.tenant,
                                   .scope = scope.kind,
                                   .name = scope.name,
                                   .session = tp_text_of("s"),
                                   .turn = tp_text_of(turns[i]),
                                   .text = tp_text_of(turns[i])};
    list[i] = &entries[i];
  }
  need(tp_memory_import(file, list, BATCH, NULL) == TP_OK);
}

/** A memory that is looked for. */
typedef struct search {
  char turn[32];
  bool is_fact;
  int64_t id;
} search;

static bool note_id(void *ctx, const tp_memory_entry *entry) {
  search *s = ctx;
  bool same = entry->turn.size == strlen(s->turn) && memcmp(entry->turn.data, s->turn, entry->turn.size) == 0;
  if (same && (entry->subject.size > 0) == s->is_fact) s->id = entry->id;
  return s->id == 0;
}

static void forget(tp_memory *file, int life, int step, bool is_fact) {
  search s = {.is_fact = is_fact};
  name_turn(s.turn, life, step, 0);
  need(tp_memory_list(file, NULL, note_id, &s, NULL) == TP_OK && s.id > 0);
  tp_status status;
  do status = tp_memory_forget(file, s.id, NULL);
  while (status == TP_ERR_STORE_BUSY); /* deleted, but the domain's own connection was reading */
  need(status == TP_OK || status == TP_ERR_NOT_FOUND);
}

/* The turn's job may still be running while the entries are imported; forgotten memories are not stored again. */
static void live(int life, int fd) {
  tp_memory *file = NULL;
  tp_runtime *runtime = open_host();
  tp_session *session = open_session(runtime, life);
  need(tp_memory_open(path, &file, NULL) == TP_OK);
  for (int step = 0; step < STEPS_MAX; step++) {
    const operation what = step % OPERATIONS;
    if (what == FORGET_WORDS) need(tp_jobs_wait(runtime, "", WAIT_MS, NULL) == TP_OK);
    say(fd, step, false);
    if (what == TURN) run_turn(session, life, step);
    else if (what == IMPORT) import(file, life, step);
    else if (what == FORGET_WORDS || has_model) forget(file, life, step - (int)what, what == FORGET_FACT);
    say(fd, step, true);
  }
  pause(); /* until the parent kills this process */
}

/* Runs the jobs that are open. */
static void recover(void) {
  tp_drain_report drained = {.struct_size = sizeof drained};
  tp_runtime *runtime = open_host();
  need(tp_jobs_wait(runtime, "", WAIT_MS, NULL) == TP_OK);
  need(tp_runtime_drain(runtime, WAIT_MS, &drained, NULL) == TP_OK && drained.jobs_dead == 0);
  tp_runtime_free(runtime);
}

/* ---- the one that kills and looks ---- */

/** How many memories of a step must be there: one of the two numbers. */
typedef struct expectation {
  int one, other;
} expectation;

static expectation expected[STEPS_MAX];
static int there[STEPS_MAX], others, expected_others;
static int facts_that_hold;
static int64_t last_id;

static bool count_entry(void *ctx, const tp_memory_entry *entry) {
  int life, step, part;
  char turn[32];
  snprintf(turn, sizeof turn, "%.*s", (int)entry->turn.size, entry->turn.data);
  assert_int_equal(sscanf(turn, "%d-%d-%d", &life, &step, &part), 3);
  if (life == *(int *)ctx) there[step]++;
  else others++;
  facts_that_hold += entry->subject.size > 0 && entry->replaced_unix_ms == 0;
  last_id = entry->id;
  return true;
}

static void count_entries(int life) {
  tp_memory *file = NULL;
  tp_fault fault = {0};
  if (tp_memory_open(path, &file, &fault) != TP_OK) fail_msg("%s", fault.message);
  memset(there, 0, sizeof there);
  others = facts_that_hold = 0;
  last_id = 0;
  for (int64_t before = -1; last_id != before;) {
    tp_memory_query query = {.struct_size = sizeof query, .beyond = last_id, .limit = 1000, .oldest_first = true};
    before = last_id;
    assert_int_equal(tp_memory_list(file, &query, count_entry, &life, NULL), TP_OK);
  }
  tp_memory_close(file);
}

static void assert_whole(void) {
  assert_int_equal(number_in(path, "SELECT integrity_check = 'ok' FROM pragma_integrity_check(1)"), 1);
  assert_int_equal(number_in(path, "SELECT total(memories) = (SELECT count(*) FROM memory) FROM scope"), 1);
}

static bool left_a_job(void) {
  char file[128];
  snprintf(file, sizeof file, "%s/turns.db", directory);
  return access(file, F_OK) == 0 && number_in(file, "SELECT count(*) FROM sqlite_master WHERE name = 'job'") == 1 &&
         number_in(file, "SELECT count(*) FROM job WHERE state IN (1, 2)") > 0;
}

/* Sets what must be there according to a report. */
static void expect(report r) {
  const int turn_has[OPERATIONS] = {[TURN] = 1 + has_model, [FORGET_WORDS] = has_model, [FORGET_FACT] = 0};
  const int what = r.step % OPERATIONS;
  expectation *e = &expected[what == IMPORT ? r.step : r.step - what];
  e->other = what == IMPORT ? BATCH : turn_has[what];
  if (r.done) e->one = e->other;
}

/* Kills it after this many reports, or some time later. @return the step in which it was; STEPS_MAX: in none. */
static int kill_once(int life, int reports, useconds_t later_us) {
  int ends[2], step = STEPS_MAX;
  report r;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    live(life, ends[1]);
    _exit(4);
  }
  close(ends[1]);
  for (int i = 0; read(ends[0], &r, sizeof r) == (ssize_t)sizeof r; i++) {
    if (i + 1 == reports && later_us) usleep(later_us);
    if (i + 1 == reports) kill(child, SIGKILL);
    expect(r);
    step = r.done ? STEPS_MAX : r.step;
  }
  close(ends[0]);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFSIGNALED(status)) fail_msg("life %d ended with status %d behind step %d", life, status, step);
  return step;
}

static void recover_in_a_process(void) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    recover();
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void assert_as_expected(int life) {
  count_entries(life);
  assert_int_equal(others, expected_others); /* the memories of earlier lives must not change */
  for (int step = 0; step < STEPS_MAX; step++) {
    const expectation *e = &expected[step];
    if (there[step] != e->one && there[step] != e->other)
      fail_msg("life %d, step %d: %d are there, not %d or %d", life, step, there[step], e->one, e->other);
    expected_others += there[step];
  }
  assert_in_range(facts_that_hold, 0, 1);
}

static int points(void) {
  const char *rounds = getenv("TURNPHASE_ROUNDS");
  int count = rounds ? atoi(rounds) : 1;
  return count > 1 ? 2 * POINTS * count : POINTS;
}

FOR_EACH_TEST(make_directory, remove_directory);

TEST(a_killed_process_loses_nothing_and_restores_nothing) {
  const char *given = getenv("TURNPHASE_SEED");
  uint32_t seed = given ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)now_ns(), random = seed;
  int count = points(), hits[OPERATIONS] = {0}, left = 0;
  print_message("# TURNPHASE_SEED=%u, %d kill points\n", seed, count);
  expected_others = 0;
  for (int life = 0; life < count; life++) {
    random = random * 1664525u + 1013904223u;
    memset(expected, 0, sizeof expected);
    has_model = life % 2 == 0;
    int step = kill_once(life, 1 + (int)(random >> 8) % (2 * STEPS_MAX), (random >> 20) % 16 * 250);
    if (step < STEPS_MAX) hits[step % OPERATIONS]++;
    if (left_a_job()) left++;
    recover_in_a_process();
    assert_as_expected(life);
    assert_whole();
  }
  print_message("# killed in %d turns, %d imports, %d times while forgetting, %d times with an open job\n", hits[TURN],
                hits[IMPORT], hits[FORGET_WORDS] + hits[FORGET_FACT], left);
  assert_true(left > 0);
}

/* ---- two processes in one file ---- */

enum { EACH = 100 };

static void keep_own(tp__memory_store *store, int process, int number) {
  char turn[32], text[64];
  snprintf(turn, sizeof turn, "p%d-%d", process, number);
  snprintf(text, sizeof text, "The xylophone number%d of process%d.", number, process);
  tp__memory memory = {.said_ms = 1,
                       .session = tp_text_of(process ? "one" : "zero"),
                       .turn = tp_text_of(turn),
                       .text = tp_text_of(text)};
  tp_status status;
  do status = tp__memory_put(store, &scope, &memory, NULL);
  while (status == TP_ERR_STORE_BUSY);
  need(status == TP_OK);
}

/* Keeps its own, and finds each at once. */
static void work(int process) {
  tp__memory_store *store = NULL;
  need(tp__memory_store_open(path, &store, NULL) == TP_OK);
  for (int i = 0; i < EACH; i++) {
    char words[64], turn[32];
    tp__memory_list list = {0};
    keep_own(store, process, i);
    snprintf(words, sizeof words, "number%d process%d", i, process);
    snprintf(turn, sizeof turn, "p%d-%d", process, i);
    need(tp__memory_recall(store, &scope, tp_text_of(words), 10, &list) == TP_OK && list.count > 0);
    bool found = false;
    for (size_t k = 0; k < list.count; k++)
      found = found ||
              (list.items[k].turn.size == strlen(turn) && memcmp(list.items[k].turn.data, turn, strlen(turn)) == 0);
    need(found);
    tp__memory_list_fini(&list);
  }
  tp__memory_store_close(store);
}

TEST(two_processes_write_and_recall_in_one_file) {
  pid_t children[2];
  for (int process = 0; process < 2; process++) {
    children[process] = fork();
    if (children[process] == 0) {
      work(process);
      _exit(0);
    }
  }
  for (int process = 0; process < 2; process++) {
    int status = 0;
    assert_int_equal(waitpid(children[process], &status, 0), children[process]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  assert_whole();
  tp__memory_store *store = NULL;
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_store_open(path, &store, NULL), TP_OK);
  assert_int_equal(tp__memory_recall(store, &scope, tp_text_of("xylophone"), 1000, &list), TP_OK);
  assert_int_equal(list.count, 2 * EACH);
  tp__memory_list_fini(&list);
  tp__memory_store_close(store);
}
