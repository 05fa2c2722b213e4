/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory with an embedder: recall by meaning; an embedder that is late, fails or changes; and the vectors of
 * forgotten memories. The embedder of the test knows two meanings. */
#include <math.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "domains/memory/late.h"
#include "tests/support/host.h"
#include "tests/support/rows.h"
#include "turnphase/memory.h"

/* ---- an embedder ---- */

enum { DIMENSIONS = 3, LATE_MS = 20 };

typedef struct testing_embedder {
  atomic_int kept_texts, query_texts, destroyed, largest_batch;
  _Atomic tp_status status; /* of its answers */
  atomic_bool gives_nan;
  atomic_bool overtaken;     /* another process has vectors up to memory 5 meanwhile */
  atomic_bool holds_queries; /* a query waits until release is hit */
  latch begun, release;
  atomic_bool stayed_wanted; /* of the last query that waited */
} testing_embedder;

static testing_embedder *machine;
static char directory[64], path[96];

static void overtake(void) {
  sqlite3 *db = NULL;
  if (sqlite3_open(path, &db) != SQLITE_OK) abort();
  if (sqlite3_exec(db, "INSERT INTO embedded VALUES (1, 'one', 5)", NULL, NULL, NULL) != SQLITE_OK) abort();
  sqlite3_close(db);
}

static bool has_one_of(tp_text text, const char *const *words) {
  for (; *words; words++)
    if (memmem(text.data, text.size, *words, strlen(*words))) return true;
  return false;
}

static tp_status embed(void *ctx, const tp_memory_embed_request *request, float *ret_vectors) {
  static const char *const dogs[] = {"hound", "puppy", "terrier", NULL}, *const cars[] = {"sedan", "automobile", NULL};
  testing_embedder *m = ctx;
  atomic_fetch_add(request->is_query ? &m->query_texts : &m->kept_texts, (int)request->text_count);
  if ((int)request->text_count > m->largest_batch) m->largest_batch = (int)request->text_count;
  if (request->is_query && m->holds_queries) {
    latch_hit(&m->begun);
    latch_wait(&m->release, latch_count(&m->begun));
    m->stayed_wanted = !request->cancelled(request->ctx);
  }
  if (m->overtaken) overtake();
  for (size_t i = 0; i < request->text_count; i++) {
    float *vector = ret_vectors + i * request->dimensions;
    vector[0] = has_one_of(request->texts[i], dogs) ? 5 : 0;
    vector[1] = has_one_of(request->texts[i], cars) ? 5 : 0;
    vector[2] = m->gives_nan ? NAN : 0;
  }
  return m->status;
}

static void note_destroyed(void *ctx) { atomic_fetch_add(&((testing_embedder *)ctx)->destroyed, 1); }

static tp_memory_embedder embedder_of(const char *name) {
  return (tp_memory_embedder){.struct_size = sizeof(tp_memory_embedder),
                              .name = name,
                              .ctx = machine,
                              .embed = embed,
                              .destroy = note_destroyed,
                              .dimensions = DIMENSIONS};
}

/* ---- a runtime with a memory ---- */

static tp_runtime *runtime;
static tp_session *session;
static tp_turn *turn;

static tp_status register_with(const tp_memory_embedder *embedder, uint32_t active_recall_ms, tp_fault *fault) {
  tp_memory_options options = {.struct_size = sizeof options,
                               .path = path,
                               .active_recall_ms = active_recall_ms,
                               .recall_max = 12,
                               .embedder = embedder};
  tp_edit *edit = NULL;
  assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL), TP_OK);
  tp_status status = tp_memory_register(edit, &options, fault);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  else tp_edit_discard(edit);
  return status;
}

static void note_closed(void *ctx) { latch_hit(ctx); }

static void stop(void) {
  latch closed = LATCH;
  if (turn) tp_turn_end(turn);
  turn = NULL;
  if (session) {
    tp_session_close(session, note_closed, &closed);
    latch_wait(&closed, 1);
  }
  session = NULL;
  tp_runtime_free(runtime);
  runtime = NULL;
}

static void answer_yes(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx, (void)request;
  tp_model_response yes = {.struct_size = sizeof yes, .text = TEXT("Yes.")};
  if (tp_model_complete(token, &yes, NULL) != TP_OK) abort();
}

static void start(const char *name, uint32_t active_recall_ms) {
  const tp_memory_embedder embedder = embedder_of(name);
  const tp_model model = {.struct_size = sizeof model, .start = answer_yes, .placement = TP_PLACEMENT_INLINE};
  tp_session_options options = {
      .struct_size = sizeof options, .id = "held", .tenant = "acme", .workspace = "home", .model = &model};
  tp_fault fault = {0};
  assert_int_equal(tp_runtime_new(NULL, &runtime, NULL), TP_OK);
  if (register_with(&embedder, active_recall_ms, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
}

static int set_up(void **state) {
  (void)state;
  machine = calloc(1, sizeof *machine);
  machine->begun = machine->release = (latch)LATCH;
  strcpy(directory, "/tmp/memory_embed_XXXXXX");
  if (!mkdtemp(directory)) return -1;
  snprintf(path, sizeof path, "%s/memory.db", directory);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  char command[128];
  stop();
  free(machine);
  snprintf(command, sizeof command, "rm -rf '%s'", directory);
  return system(command);
}

FOR_EACH_TEST(set_up, tear_down);

static tp_phase_result run_in_turn(uint32_t phase, const tp_field *fields, size_t count) {
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = count};
  tp_phase_result result = {.struct_size = sizeof result};
  tp_fault fault = {0};
  if (tp_phase_run(turn, phase, &input, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
  return result;
}

static void begin_turn(const char *id, const char *text) {
  tp_turn_request request = {.struct_size = sizeof request, .id = id, .text = tp_text_of(text)};
  if (turn) tp_turn_end(turn);
  assert_int_equal(tp_turn_begin(session, &request, &turn, NULL), TP_OK);
  tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(text)};
  run_in_turn(TP_PHASE_TURN_PRE_POLICY, &field, 1);
}

static void keep(const char *id, const char *text) {
  begin_turn(id, text);
  tp_field fields[] = {{.id = TP_FIELD_OUTCOME, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("completed")},
                       {.id = TP_FIELD_USER_PREVIEW, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(text)}};
  run_in_turn(TP_PHASE_TURN_POST_TURN, fields, 2);
  assert_int_equal(tp_jobs_wait(runtime, "", 20000, NULL), TP_OK);
}

static int32_t first_weight; /* of what was recalled last */

/* What a turn with this text recalls: "memory:1 text|", audits as "#code|". */
static const char *recall(const char *id, const char *text) {
  static char found[8192];
  size_t used = 0;
  begin_turn(id, text);
  tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(text)};
  tp_phase_result result = run_in_turn(TP_PHASE_TURN_PRE_PROMPT_CONTEXT, &field, 1);
  found[0] = '\0';
  for (size_t i = 0; result.merged && i < tp_merged_count(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT); i++) {
    const tp_contribution *c = tp_merged_get(result.merged, TP_CONTRIBUTION_PROMPT_CONTEXT, i)->contribution;
    if (i == 0) first_weight = c->weight;
    used += (size_t)snprintf(found + used, sizeof found - used, "%.*s %.*s|", (int)c->key.size, c->key.data,
                             (int)c->text.size, c->text.data);
  }
  for (size_t i = 0; result.merged && i < tp_merged_count(result.merged, TP_CONTRIBUTION_AUDIT); i++) {
    const tp_contribution *c = tp_merged_get(result.merged, TP_CONTRIBUTION_AUDIT, i)->contribution;
    used += (size_t)snprintf(found + used, sizeof found - used, "#%.*s|", (int)c->key.size, c->key.data);
  }
  return found;
}

/* When the sanitizers have changed the code, gcc believes that a static array might be NULL. */
static const char *shown(const char *text) { return text ? text : ""; }

static void assert_holds(const char *text, const char *words) {
  if (!strstr(text, words)) fail_msg("'%s' is not in: %s", shown(words), shown(text));
}

static void assert_lacks(const char *text, const char *words) {
  if (strstr(text, words)) fail_msg("'%s' is in: %s", shown(words), shown(text));
}

static int64_t number_of(const char *sql) { return number_in(path, sql); }

/* The late query ended: its handler has returned. */
static void release_query(void) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  latch_hit(&machine->release);
  do {
    usleep(200);
    tp_runtime_stats_get(runtime, &stats);
  } while (stats.attempts_abandoned > 0);
}

/* ---- by meaning ---- */

TEST(what_shares_no_word_is_recalled_by_its_meaning) {
  start("one", 20000);
  keep("t1", "My hound is ill.");
  keep("t2", "The sedan is blue.");
  const char *found = recall("t3", "Tell me of the puppy!");
  assert_holds(found, "memory:1 [");
  assert_holds(found, "My hound is ill.|");
  assert_lacks(found, "memory:2 [");
  assert_lacks(found, "#memory.active_recall.skipped");
  assert_int_equal(machine->kept_texts, 2);
  assert_int_equal(machine->query_texts, 1);
}

/* memory:2 is alike by its word, and memory:1 by its word and its meaning. */
TEST(meaning_is_one_more_term_of_the_sum) {
  start("one", 20000);
  keep("t1", "Walking in woods.");
  keep("t2", "Walking the hound.");
  const char *found = recall("t3", "walking");
  const char *one = strstr(found, "memory:1 ["), *two = strstr(found, "memory:2 [");
  assert_true(one && two && one < two);
  found = recall("t4", "walking terrier");
  one = strstr(found, "memory:1 [");
  two = strstr(found, "memory:2 [");
  assert_true(one && two && two < one);
  assert_null(strstr(two + 1, "memory:2 [")); /* once, though both handlers contributed it */
}

TEST(what_a_meaning_is_worth_does_not_depend_on_the_length_of_vectors) {
  start("one", 20000);
  keep("t1", "My hound is ill.");
  recall("t2", "puppy");
  assert_in_range(first_weight, 995, 1005);
}

/* More memories are near than are looked at. */
TEST(the_nearest_of_many_is_recalled_first) {
  char id[16];
  start("one", 20000);
  for (int i = 0; i < 66; i++) {
    snprintf(id, sizeof id, "t%d", i);
    keep(id, "A terrier sat beside an automobile.");
  }
  keep("last", "My hound is ill.");
  assert_int_equal(strncmp(recall("ask", "puppy"), "memory:67 [", 11), 0);
}

/* Vectors are read 2,048 at a time. */
TEST(the_nearest_of_more_than_are_read_at_once_is_recalled) {
  static const char others[] =
      "UPDATE sqlite_sequence SET seq = 2999 WHERE name = 'memory';"
      "WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 2200)"
      " INSERT INTO vector SELECT i, scope, 0, bytes FROM n, vector WHERE memory = 1;";
  sqlite3 *db = NULL;
  start("one", 20000);
  keep("t1", "The sedan is blue.");
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, others, NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_close(db), SQLITE_OK);
  keep("t2", "My hound is ill.");
  assert_holds(recall("t3", "puppy"), "memory:3000 [");
}

TEST(a_batch_that_another_process_overtook_is_not_kept) {
  start("one", 20000);
  machine->overtaken = true;
  keep("t1", "My hound is ill.");
  assert_int_equal(number_of("SELECT upto FROM embedded"), 5);
  assert_int_equal(number_of("SELECT count(*) FROM vector"), 0);
}

/* ---- failing ---- */

TEST(with_an_embedder_that_fails_words_recall_alone) {
  start("one", 20000);
  machine->status = TP_ERR_MODEL;
  keep("t1", "My hound is ill.");
  const char *found = recall("t2", "Is the hound well?");
  assert_holds(found, "memory:1 [");
  assert_holds(found, "#memory.embedder.failed|");
  machine->status = TP_OK;
  keep("t3", "The sedan is blue.");
  assert_int_equal(number_of("SELECT count(*) FROM vector"), 2); /* that of t1 was made after all */
  assert_holds(recall("t4", "puppy"), "memory:1 [");
}

TEST(numbers_that_are_not_finite_are_a_failure) {
  start("one", 20000);
  machine->gives_nan = true;
  keep("t1", "My hound is ill.");
  assert_int_equal(number_of("SELECT count(*) FROM vector"), 0);
  assert_holds(recall("t2", "hound"), "#memory.embedder.failed|");
}

/* ---- late ---- */

/* The query waits, so the turn's deadline passes first. A loaded machine may not even call the handler before that. */
static void recall_late(const char *id, const char *text) {
  machine->holds_queries = true;
  while (latch_count(&machine->begun) == 0) assert_lacks(recall(id, text), "memory:1 [");
  release_query();
  machine->holds_queries = false;
  assert_true(machine->stayed_wanted);
}

TEST(what_was_found_late_comes_with_the_next_turn_once_and_with_its_age) {
  start("one", LATE_MS);
  keep("t1", "My hound is ill.");
  recall_late("t2", "Tell me of the puppy!");
  const char *found = recall("t3", "And the puppies?");
  assert_holds(found, "memory:1 [");
  assert_holds(found, "My hound is ill. (recalled late: for an earlier message, 0 s ago)|");
  assert_holds(found, "#memory.late_recall|");
  assert_lacks(recall("t4", "And the zebra?"), "recalled late");
}

TEST(what_was_found_late_is_dropped_when_the_next_turn_is_about_something_else) {
  start("one", LATE_MS);
  keep("t1", "My hound is ill.");
  recall_late("t2", "Tell me of the puppy!");
  const char *found = recall("t3", "Who built bridges?");
  assert_lacks(found, "recalled late");
  assert_holds(found, "#memory.late_recall.dropped|");
  assert_lacks(recall("t4", "puppy"), "recalled late");
}

TEST(what_was_found_late_is_no_news_when_the_words_recall_it) {
  start("one", LATE_MS);
  keep("t1", "My hound is ill.");
  recall_late("t2", "Tell me of the puppy!");
  const char *found = recall("t3", "Is the puppies' hound ill?");
  assert_holds(found, "memory:1 [");
  assert_lacks(found, "late");
}

TEST(a_next_turn_without_words_is_about_the_same) {
  start("one", LATE_MS);
  keep("t1", "My hound is ill.");
  recall_late("t2", "Tell me of the puppy!");
  assert_holds(recall("t3", "And then?"), "recalled late");
}

TEST(what_was_forgotten_meanwhile_does_not_come_late) {
  tp_memory *memory = NULL;
  start("one", LATE_MS);
  keep("t1", "My hound is ill.");
  recall_late("t2", "Tell me of the puppy!");
  assert_int_equal(tp_memory_open(path, &memory, NULL), TP_OK);
  tp_status status = tp_memory_forget(memory, 1, NULL);
  tp_memory_close(memory);
  assert_true(status == TP_OK || status == TP_ERR_STORE_BUSY);
  assert_lacks(recall("t3", "And the puppies?"), "memory:1 [");
}

static tp__memory_scope scope_of(const char *tenant) {
  return (tp__memory_scope){tp_text_of(tenant), tp_text_of("workspace"), tp_text_of("home")};
}

TEST(late_finds_are_of_one_session_and_bounded_in_number_and_age) {
  tp__memory_late *late = tp__memory_late_new();
  tp__memory_late_find find = {.count = 1}, found;
  const tp__memory_scope acme = scope_of("acme"), other = scope_of("other");
  char name[16];
  for (int i = 0; i <= TP__MEMORY_LATE_SESSIONS_MAX; i++) {
    snprintf(name, sizeof name, "s%d", i);
    find.asked_ms = 1000 + i;
    find.ids[0] = i;
    assert_true(tp__memory_late_put(late, &acme, tp_text_of(name), &find));
  }
  assert_false(tp__memory_late_take(late, &acme, tp_text_of("s0"), 2000, &found)); /* the oldest has gone */
  assert_false(tp__memory_late_take(late, &other, tp_text_of("s1"), 2000, &found));
  assert_true(tp__memory_late_take(late, &acme, tp_text_of("s1"), 2000, &found));
  assert_int_equal(found.ids[0], 1);
  assert_false(tp__memory_late_take(late, &acme, tp_text_of("s1"), 2000, &found));
  find.ids[0] = 99;
  assert_true(tp__memory_late_put(late, &acme, tp_text_of("s2"), &find));
  assert_true(tp__memory_late_take(late, &acme, tp_text_of("s2"), 2000, &found));
  assert_int_equal(found.ids[0], 99); /* the newer one of the two */
  assert_false(tp__memory_late_take(late, &acme, tp_text_of("s2"), 2000, &found));
  assert_true(tp__memory_late_take(late, &acme, tp_text_of("s3"), 1003 + TP__MEMORY_LATE_AGE_MS_MAX, &found));
  assert_false(tp__memory_late_take(late, &acme, tp_text_of("s4"), 1005 + TP__MEMORY_LATE_AGE_MS_MAX, &found));
  tp__memory_late_free(late);
}

/* ---- the file ---- */

TEST(vectors_are_made_anew_for_another_embedder) {
  start("one", 20000);
  keep("t1", "My hound is ill.");
  keep("t2", "The sedan is blue.");
  stop();
  start("two", 20000);
  assert_lacks(recall("t3", "puppy"), "memory:1 ["); /* no vector of another embedder is compared */
  keep("t4", "The automobile is green.");
  assert_int_equal(machine->kept_texts, 2 + 3);
  assert_int_equal(machine->largest_batch, 3);
  assert_holds(recall("t5", "puppy"), "memory:1 [");
  assert_int_equal(number_of("SELECT count(*) FROM vector"), 3);
  stop();
  start("two", 20000);
  keep("t6", "Good night.");
  assert_int_equal(machine->kept_texts, 2 + 3 + 1);
}

TEST(a_text_that_changed_gets_another_vector) {
  start("one", 20000);
  keep("t1", "My hound is ill.");
  keep("t1", "My sedan is blue.");
  assert_int_equal(number_of("SELECT count(*) FROM vector"), 1);
  assert_holds(recall("t2", "automobile"), "memory:1 [");
  assert_lacks(recall("t3", "puppy"), "memory:1 [");
}

TEST(forgetting_deletes_the_vector) {
  tp_memory *memory = NULL;
  start("one", 20000);
  keep("t1", "My hound is ill.");
  keep("t2", "The sedan is blue.");
  stop();
  assert_int_equal(tp_memory_open(path, &memory, NULL), TP_OK);
  assert_int_equal(tp_memory_forget(memory, 1, NULL), TP_OK);
  tp_memory_close(memory);
  assert_int_equal(number_of("SELECT count(*) FROM vector"), 1);
  assert_int_equal(number_of("SELECT count(*) FROM vector WHERE memory = 1"), 0);
}

TEST(no_vector_crosses_to_another_scope) {
  start("one", 20000);
  keep("t1", "My hound is ill.");
  latch closed = LATCH;
  const tp_model model = {.struct_size = sizeof model, .start = answer_yes, .placement = TP_PLACEMENT_INLINE};
  tp_session_options options = {
      .struct_size = sizeof options, .id = "away", .tenant = "other", .workspace = "home", .model = &model};
  tp_turn_end(turn);
  turn = NULL;
  tp_session_close(session, note_closed, &closed);
  latch_wait(&closed, 1);
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  keep("t2", "The sedan is blue.");
  assert_lacks(recall("t3", "puppy"), "hound");
}

/* ---- registration ---- */

static void assert_refused(tp_memory_embedder embedder, tp_status expected, const char *words) {
  tp_fault fault = {0};
  assert_int_equal(register_with(&embedder, 0, &fault), expected);
  assert_holds(fault.message, words);
  assert_int_equal(machine->destroyed, 0); /* it was not taken */
}

TEST(a_wrong_embedder_is_refused_with_what_is_right) {
  char name[160];
  memset(name, 'x', sizeof name);
  name[129] = '\0';
  assert_int_equal(tp_runtime_new(NULL, &runtime, NULL), TP_OK);
  tp_memory_embedder embedder = embedder_of("one");
  embedder.struct_size = 8;
  assert_refused(embedder, TP_ERR_VERSION, "struct_size is 8");
  assert_refused(embedder_of(NULL), TP_ERR_USAGE, "1 to 128 bytes");
  assert_refused(embedder_of(""), TP_ERR_USAGE, "1 to 128 bytes");
  assert_refused(embedder_of(name), TP_ERR_USAGE, "1 to 128 bytes");
  embedder = embedder_of("one");
  embedder.embed = NULL;
  assert_refused(embedder, TP_ERR_USAGE, "no function embed");
  embedder = embedder_of("one");
  embedder.dimensions = 0;
  assert_refused(embedder, TP_ERR_USAGE, "1 to 4096");
  embedder.dimensions = 4097;
  assert_refused(embedder, TP_ERR_USAGE, "1 to 4096");
  embedder = embedder_of("one");
  embedder.batch_max = 257;
  assert_refused(embedder, TP_ERR_USAGE, "at most 256");
}

TEST(an_embedder_is_destroyed_once) {
  start("one", 20000);
  keep("t1", "My hound is ill.");
  assert_int_equal(machine->destroyed, 0);
  stop();
  assert_int_equal(machine->destroyed, 1);
}
