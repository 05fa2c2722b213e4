/* SPDX-License-Identifier: Apache-2.0
 *
 * A job of the memory that one process made and another one takes, with one file of jobs. If facts were wanted when the
 * job was made, it waits for a process with a model; otherwise it waits for nothing. */
#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/model.h"
#include "turnphase/memory.h"
#include "turnphase/sqlite.h"

/** What a process has: nothing of it is the end of a row's list of processes. */
typedef enum process {
  NO_ONE,
  PLAIN,    /* no model */
  MODEL,    /* a model that answers with one fact */
  BOTH,     /* PLAIN and MODEL at the same time */
  OTHER,    /* a model, redaction of what is kept, and the assistant's words kept, too */
  BAD_MODEL /* a model that fails for good */
} process;

/** What is special in the turn. */
typedef enum special { USUAL, BLANK, FACTS_DENIED, FACTS_UNCLEAR, WRITE_DENIED } special;

static const struct row {
  const char *name;
  process maker;
  special special;
  process takers[4];
  size_t waits; /* so many of the first takers leave the job postponed */
  int asked;    /* how often models were asked, in all */
  size_t memories;
  const char *fact; /* NULL: none */
  uint64_t dead;
} rows[] = {
    {"with, taken with", MODEL, USUAL, {MODEL}, 0, 1, 2, "The user lives in Munich.", 0},
    {"with, taken without, then with", MODEL, USUAL, {PLAIN, MODEL}, 1, 1, 2, "The user lives in Munich.", 0},
    {"with, taken without twice, then with", MODEL, USUAL, {PLAIN, PLAIN, MODEL}, 2, 1, 2, "lives in Munich.", 0},
    {"with, done once only", MODEL, USUAL, {PLAIN, MODEL, MODEL, PLAIN}, 1, 1, 2, "lives in Munich.", 0},
    {"with, nobody comes", MODEL, USUAL, {PLAIN}, 1, 0, 1, NULL, 0},
    {"with, taken by either", MODEL, USUAL, {BOTH}, 0, 1, 2, "lives in Munich.", 0},
    {"with, taken with other options", MODEL, USUAL, {PLAIN, OTHER}, 1, 1, 3, "[redacted]", 0},
    {"with, a model that fails is no reason to wait", MODEL, USUAL, {PLAIN, BAD_MODEL}, 1, 1, 1, NULL, 1},
    {"without, taken without", PLAIN, USUAL, {PLAIN}, 0, 0, 1, NULL, 0},
    {"without or older, taken with", PLAIN, USUAL, {MODEL}, 0, 1, 2, "lives in Munich.", 0},
    {"with, no words", MODEL, BLANK, {PLAIN}, 0, 0, 0, NULL, 0},
    {"with, the host denies facts", MODEL, FACTS_DENIED, {PLAIN}, 0, 0, 1, NULL, 0},
    {"with, the host denies facts, taken with", MODEL, FACTS_DENIED, {MODEL}, 0, 0, 1, NULL, 0},
    {"with, the host says no clear word", MODEL, FACTS_UNCLEAR, {MODEL}, 0, 0, 1, NULL, 0},
    {"with, the user says not to", MODEL, WRITE_DENIED, {PLAIN}, 0, 0, 0, NULL, 0}};

/* ---- processes ---- */

static const reply one_fact[] = {{.text = "{\"facts\": [{\"subject\": \"the user\", \"statement\": \"The user lives in "
                                          "Munich.\", \"quote\": \"I live in Munich\"}]}"}};
static const reply failing[] = {{.fails = TP_ERR_MODEL}};
static int asked; /* of the row */

/** A runtime with its model, as one process has it. */
typedef struct host {
  tp_runtime *runtime;
  recorder *model; /* NULL: none */
} host;

static tp_status claim_nothing(void *ctx, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault) {
  (void)ctx, (void)request, (void)fault;
  *ret_next_ms = 0;
  return TP_ERR_NOT_FOUND;
}

static bool redact_all(void *ctx, tp_redaction *redaction) {
  (void)ctx;
  return redaction->place != TP_REDACT_MEMORY;
}

static tp_answer say_of_facts(void *ctx, tp_call *call) {
  assert_int_equal(tp_call_emit_policy(call, "memory", "facts", ctx, 100, NULL), TP_OK);
  return TP_ANSWER_DONE;
}

static host open_host(process what, bool claims) {
  const tp_sqlite_store_options file = {.struct_size = sizeof file, .path = path};
  char memory_path[sizeof path + 8];
  host h = {.model = what == PLAIN ? NULL : recorder_new(what == BAD_MODEL ? failing : one_fact, 1)};
  tp_store *store;
  tp_edit *edit;
  snprintf(memory_path, sizeof memory_path, "%s-memory", path);
  assert_int_equal(tp_sqlite_store_open(&file, &store, NULL), TP_OK);
  if (!claims) store->job_claim = claim_nothing;
  const tp_runtime_options options = {
      .struct_size = sizeof options, .store = store, .redact = what == OTHER ? redact_all : NULL};
  const tp_memory_options memory = {.struct_size = sizeof memory,
                                    .path = memory_path,
                                    .keep_assistant = what == OTHER,
                                    .model = h.model ? recorder_model(h.model, false) : NULL};
  h.runtime = open_runtime(&options);
  assert_int_equal(tp_edit_begin(h.runtime, NULL, &edit, NULL), TP_OK);
  assert_int_equal(tp_memory_register(edit, &memory, NULL), TP_OK);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
  return h;
}

static void close_host(host *h) {
  close_runtime(h->runtime);
  if (!h->model) return;
  asked += (int)h->model->asked;
  recorder_free(h->model);
}

static tp_runtime_stats stats_of(tp_runtime *runtime) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  return stats;
}

static void answer_yes(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx, (void)request;
  const tp_model_response yes = {.struct_size = sizeof yes, .text = TEXT("Yes.")};
  if (tp_model_complete(token, &yes, NULL) != TP_OK) abort();
}

/* The turn ends, and its job is left in the file. */
static void make_job(const struct row *row) {
  const char *text = row->special == BLANK          ? " "
                     : row->special == WRITE_DENIED ? "Don't remember this: I live in Munich."
                                                    : "I live in Munich.";
  const tp_model model = {.struct_size = sizeof model, .start = answer_yes, .placement = TP_PLACEMENT_INLINE};
  const tp_session_options options = {
      .struct_size = sizeof options, .id = "s", .tenant = "acme", .workspace = "home", .model = &model};
  const tp_turn_request request = {.struct_size = sizeof request, .id = "t1", .text = tp_text_of(text)};
  const tp_turn_result *result;
  tp_session *session;
  host h = open_host(row->maker, false);
  const hook says = {.id = "host",
                     .phase = TP_PHASE_TURN_PRE_POLICY,
                     .run = say_of_facts,
                     .ctx = row->special == FACTS_DENIED ? "deny" : "perhaps",
                     .capabilities = TP_CAPABILITY_CONTRIBUTE_POLICY};
  if (row->special == FACTS_DENIED || row->special == FACTS_UNCLEAR) add_hooks(h.runtime, &says, 1);
  assert_int_equal(tp_session_open(h.runtime, &options, &session, NULL), TP_OK);
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
  close_host(&h);
}

static bool note_job(void *ctx, const tp_job *job) {
  char message[256];
  if (job->reason != TP_REASON_POSTPONED || job->state != TP_JOB_QUEUED) return true;
  snprintf(message, sizeof message, "%.*s", (int)job->message.size, job->message.data);
  assert_non_null(strstr(message, "`--facts MODEL`"));
  assert_non_null(strstr(message, "`turnphase jobs discard`")); /* all of it fits */
  assert_int_equal(job->attempt, 0);
  ++*(int *)ctx;
  return true;
}

/* Until every job has ended, or was postponed. */
static void take_jobs(const struct row *row, size_t index) {
  const process what = row->takers[index];
  host beside = {.runtime = NULL}, h = open_host(what == BOTH ? PLAIN : what, true);
  int waiting = 0;
  assert_int_equal(tp_runtime_start(h.runtime, NULL), TP_OK);
  while (what == BOTH && stats_of(h.runtime).jobs_postponed == 0) sleep_ms(1);
  if (what == BOTH) beside = open_host(MODEL, true);
  if (what == BOTH) assert_int_equal(tp_runtime_start(beside.runtime, NULL), TP_OK);
  if (index < row->waits) {
    while (waiting == 0) {
      assert_int_equal(tp_jobs_list(h.runtime, NULL, note_job, &waiting, NULL), TP_OK);
      if (stats_of(h.runtime).jobs_dead) fail_msg("%s: a dead letter", row->name);
      if (stats_of(h.runtime).jobs_run > 0 && stats_of(h.runtime).jobs_postponed == 0)
        fail_msg("%s: done by taker %zu", row->name, index);
    }
  } else if (tp_jobs_wait(h.runtime, "", 60000, NULL) != TP_OK) fail_msg("%s: not done by taker %zu", row->name, index);
  if (index + 1 >= COUNT(row->takers) || row->takers[index + 1] == NO_ONE)
    assert_int_equal(stats_of(h.runtime).jobs_dead, row->dead);
  if (beside.runtime) close_host(&beside);
  close_host(&h);
}

/* ---- the table ---- */

/** What the file of the memory holds. */
typedef struct kept {
  size_t count;
  char fact[128], words[128];
} kept;

static bool note(void *ctx, const tp_memory_entry *entry) {
  kept *k = ctx;
  char *to = entry->subject.size ? k->fact : k->words;
  snprintf(to, sizeof k->fact, "%.*s", (int)entry->text.size, entry->text.data);
  k->count++;
  return true;
}

static kept kept_memories(void) {
  kept k = {.count = 0};
  const tp_memory_query query = {.struct_size = sizeof query};
  char memory_path[sizeof path + 8];
  tp_memory *memory;
  snprintf(memory_path, sizeof memory_path, "%s-memory", path);
  assert_int_equal(tp_memory_open(memory_path, &memory, NULL), TP_OK);
  assert_int_equal(tp_memory_list(memory, &query, note, &k, NULL), TP_OK);
  tp_memory_close(memory);
  return k;
}

static void play_row(const struct row *row) {
  asked = 0;
  assert_int_equal(make_directory_in_memory(NULL), 0);
  make_job(row);
  for (size_t i = 0; i < COUNT(row->takers) && row->takers[i] != NO_ONE; i++) {
    take_jobs(row, i);
    if (i == 0 && row->waits > 0) assert_string_equal(kept_memories().words, "I live in Munich.");
  }
  const kept k = kept_memories();
  if (asked != row->asked || k.count != row->memories)
    fail_msg("%s: asked %d times, %zu memories", row->name, asked, k.count);
  if (row->fact ? !strstr(k.fact, row->fact) : k.fact[0]) fail_msg("%s: the fact \"%s\"", row->name, k.fact);
  assert_int_equal(remove_directory(NULL), 0);
}

TEST(facts_that_were_wanted_wait_for_a_process_with_a_model) {
  for (size_t i = 0; i < COUNT(rows); i++) play_row(&rows[i]);
}
