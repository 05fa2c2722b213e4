/* SPDX-License-Identifier: Apache-2.0
 *
 * What every store of memories does (turnphase/memory_store.h): a SQLite file, and a PostgreSQL database. The memory
 * itself is over it, so that what is kept is also recalled. */
#include <pthread.h>

#include "tests/support/test.h"
#include "domains/memory/facts.h"
#include "domains/memory/recall.h"
#include "domains/memory/sqlite.h"
#include "domains/memory/store_internal.h"
#include "domains/memory/vectors.h"
#include "tests/support/host.h"
#ifdef TP_WITH_POSTGRES
#include "tests/support/postgres_server.h"
#include "turnphase/postgres.h"
#endif

enum { SQLITE, POSTGRES, STORES };

static tp_text text_of(const char *string) { return (tp_text){string, strlen(string)}; }
static const tp__memory_scope home = {TEXT("acme"), TEXT("workspace"), TEXT("home")};
static const tp__memory_scope away = {TEXT("acme"), TEXT("workspace"), TEXT("away")};

static bool has_postgres;
static int schema_count;
static char schema[16], path[64];

/* Both of one database: what one keeps, the other recalls. */
static tp__memory_store *store, *other;

#ifdef TP_WITH_POSTGRES
static void open_postgres(tp__memory_store **ret_store) {
  tp_memory_store rows = {.struct_size = sizeof rows};
  tp_postgres *database = NULL;
  tp_fault fault = {0};
  const tp_postgres_options options = {
      .struct_size = sizeof options, .conninfo = postgres_server.conninfo, .schema = schema};
  if (tp_postgres_open(&options, &database, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(tp_postgres_memory(database, &rows, &fault), TP_OK);
  tp_postgres_close(database);
  assert_int_equal(tp__memory_store_over(&rows, ret_store, &fault), TP_OK);
  tp__memory_store_own(*ret_store, &rows);
}
#endif

/* @return false: the machine lacks the database. */
static bool open_both(int kind) {
#ifdef TP_WITH_POSTGRES
  if (kind == POSTGRES && has_postgres) {
    snprintf(schema, sizeof schema, "s%d", schema_count++);
    open_postgres(&store);
    open_postgres(&other);
    return true;
  }
#endif
  if (kind == POSTGRES) return false;
  snprintf(path, sizeof path, "/tmp/turnphase_memory_XXXXXX");
  int fd = mkstemp(path);
  assert_true(fd >= 0 && close(fd) == 0);
  assert_int_equal(tp__memory_store_open(path, &store, NULL), TP_OK);
  assert_int_equal(tp__memory_store_open(path, &other, NULL), TP_OK);
  return true;
}

static void close_both(int kind) {
  static const char *const ends[] = {"", "-wal", "-shm"};
  tp__memory_store_close(other);
  tp__memory_store_close(store);
  store = other = NULL;
  for (size_t i = 0; kind == SQLITE && i < COUNT(ends); i++) {
    char name[80];
    snprintf(name, sizeof name, "%s%s", path, ends[i]);
    (void)remove(name);
  }
}

#define FOR_BOTH(kind) for (int kind = SQLITE; kind < STORES; kind++)

/* ---- what is in it ---- */

static tp__memory said(const char *session, const char *turn, const char *text) {
  return (tp__memory){
      .session = text_of(session), .turn = text_of(turn), .text = text_of(text), .said_ms = INT64_C(1683554160000)};
}

static int64_t put_in(tp__memory_store *in, const tp__memory_scope *scope, const char *turn, const char *text) {
  int64_t id = 0;
  const tp__memory memory = said(turn, turn, text);
  assert_int_equal(tp__memory_put(in, scope, &memory, &id), TP_OK);
  assert_true(id > 0);
  return id;
}

/* The turns of a list, each with a blank after it. */
static const char *turns_of(tp__memory_list *list) {
  static char turns[1024];
  turns[0] = '\0';
  for (size_t i = 0; i < list->count; i++) {
    size_t used = strlen(turns);
    snprintf(turns + used, sizeof turns - used, "%.*s ", (int)list->items[i].turn.size, list->items[i].turn.data);
  }
  tp__memory_list_fini(list);
  return turns;
}

static const char *recalled(tp__memory_store *in, const tp__memory_scope *scope, const char *text) {
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_recall(in, scope, text_of(text), 8, &list), TP_OK);
  return turns_of(&list);
}

static const char *turns_in(tp__memory_store *in, const tp__memory_scope *scope) {
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_newest(in, scope, 0, 100, &list), TP_OK);
  return turns_of(&list);
}

static void assert_bytes(tp_text text, tp_text expected) {
  assert_int_equal(text.size, expected.size);
  if (text.size) assert_memory_equal(text.data, expected.data, text.size);
}

TEST(what_one_keeps_the_other_recalls) {
  FOR_BOTH(kind) {
    if (!open_both(kind)) continue;
    assert_string_equal(recalled(other, &home, "violin"), "");
    put_in(store, &home, "t1", "The violin is in Oslo.");
    assert_string_equal(recalled(other, &home, "violin"), "t1 ");
    put_in(other, &home, "t2", "Another violin, too.");
    put_in(other, &away, "t3", "A violin of others.");
    assert_string_equal(turns_in(store, &home), "t2 t1 ");
    assert_int_equal(strlen(recalled(store, &home, "violin")), 6);
    assert_string_equal(recalled(store, &away, "violin"), "t3 ");
    close_both(kind);
  }
}

TEST(texts_are_bytes_and_keys_of_any_length) {
  static char long_name[5000];
  memset(long_name, 'x', sizeof long_name);
  const tp_text odd = TEXT("nul \0 and \xff"), name = {long_name, sizeof long_name};
  FOR_BOTH(kind) {
    if (!open_both(kind)) continue;
    const tp__memory_scope scope = {name, TEXT("workspace"), odd};
    tp__memory memory = {.session = name, .turn = odd, .part = name, .text = odd, .said_ms = 5};
    tp__memory_list list = {0};
    int64_t id = 0;
    assert_int_equal(tp__memory_put(store, &scope, &memory, &id), TP_OK);
    assert_int_equal(tp__memory_get(other, &scope, id, &list), TP_OK);
    assert_int_equal(list.count, 1);
    const tp__memory *got = &list.items[0];
    assert_bytes(got->session, name);
    assert_bytes(got->turn, odd);
    assert_bytes(got->part, name);
    assert_bytes(got->text, odd);
    assert_bytes(got->tenant, name);
    assert_bytes(got->name, odd);
    assert_int_equal(got->said_ms, 5);
    tp__memory_list_fini(&list);
    assert_int_equal(tp__memory_get(other, &home, id, &list), TP_ERR_NOT_FOUND);
    tp__memory_list_fini(&list);
    close_both(kind);
  }
}

TEST(a_repeated_key_replaces_the_text_under_its_id) {
  FOR_BOTH(kind) {
    if (!open_both(kind)) continue;
    int64_t first = put_in(store, &home, "t1", "The cat is grey."), second = 0;
    put_in(store, &home, "t2", "Another.");
    assert_string_equal(recalled(other, &home, "grey"), "t1 ");
    tp__memory again = said("t1", "t1", "The cat is black.");
    again.said_ms++;
    assert_int_equal(tp__memory_put(store, &home, &again, &second), TP_OK);
    assert_int_equal(second, first);
    assert_string_equal(recalled(other, &home, "grey"), "");
    assert_string_equal(recalled(other, &home, "black"), "t1 ");
    assert_string_equal(turns_in(other, &home), "t2 t1 ");
    tp__memory_list list = {0};
    assert_int_equal(tp__memory_find(other, first, &list), TP_OK);
    assert_int_equal(list.items[0].said_ms, INT64_C(1683554160000));
    tp__memory_list_fini(&list);
    close_both(kind);
  }
}

TEST(a_batch_keeps_its_order_and_of_one_key_the_last_text) {
  FOR_BOTH(kind) {
    if (!open_both(kind)) continue;
    enum { COUNT_OF = 200 };
    static tp__memory memories[COUNT_OF];
    static char turns[COUNT_OF][8];
    for (int i = 0; i < COUNT_OF; i++) {
      snprintf(turns[i], sizeof turns[i], "t%d", i % 150);
      memories[i] = said("s", turns[i], i < 150 ? "first" : "second");
      memories[i].tenant = home.tenant;
      memories[i].kind = home.kind;
      memories[i].name = i % 2 ? home.name : away.name;
    }
    assert_int_equal(tp__memory_put_all(store, memories, COUNT_OF), TP_OK);
    tp__memory_list list = {0};
    assert_int_equal(tp__memory_page(other, &(tp__memory_filter){.name = "home"}, 0, true, 100, &list), TP_OK);
    assert_int_equal(list.count, 75);
    for (size_t i = 0; i < list.count; i++) {
      assert_bytes(list.items[i].turn, text_of(turns[2 * i + 1]));
      assert_bytes(list.items[i].text, text_of(2 * i + 1 < 50 ? "second" : "first"));
    }
    tp__memory_list_fini(&list);
    close_both(kind);
  }
}

TEST(pages_follow_the_query) {
  FOR_BOTH(kind) {
    if (!open_both(kind)) continue;
    put_in(store, &home, "t1", "one");
    int64_t second = put_in(store, &away, "t2", "two");
    put_in(store, &home, "t3", "three");
    tp__memory_list list = {0};
    assert_int_equal(tp__memory_page(store, &(tp__memory_filter){0}, 0, false, 10, &list), TP_OK);
    assert_string_equal(turns_of(&list), "t3 t2 t1 ");
    assert_int_equal(tp__memory_page(store, &(tp__memory_filter){0}, 0, true, 2, &list), TP_OK);
    assert_string_equal(turns_of(&list), "t1 t2 ");
    assert_int_equal(tp__memory_page(store, &(tp__memory_filter){0}, second, true, 10, &list), TP_OK);
    assert_string_equal(turns_of(&list), "t3 ");
    assert_int_equal(tp__memory_page(store, &(tp__memory_filter){0}, second, false, 10, &list), TP_OK);
    assert_string_equal(turns_of(&list), "t1 ");
    assert_int_equal(tp__memory_page(store, &(tp__memory_filter){"acme", "workspace", "away"}, 0, false, 9, &list),
                     TP_OK);
    assert_string_equal(turns_of(&list), "t2 ");
    assert_int_equal(tp__memory_page(store, &(tp__memory_filter){.tenant = ""}, 0, false, 9, &list), TP_OK);
    assert_string_equal(turns_of(&list), "");
    assert_int_equal(tp__memory_scopes(store, &list), TP_OK);
    assert_int_equal(list.count, 2);
    assert_bytes(list.items[0].name, away.name);
    assert_int_equal(list.items[0].id, 1);
    assert_int_equal(list.items[1].id, 2);
    tp__memory_list_fini(&list);
    close_both(kind);
  }
}

/* ---- deleting ---- */

TEST(what_is_deleted_is_recalled_by_no_process) {
  FOR_BOTH(kind) {
    if (!open_both(kind)) continue;
    put_in(store, &home, "t1", "Keep the harbour.");
    int64_t id = put_in(store, &home, "t2", "Drop the harbour.");
    assert_int_equal(strlen(recalled(other, &home, "harbour")), 6);
    assert_int_equal(tp__memory_forget(store, &away, id), TP_ERR_NOT_FOUND);
    assert_int_equal(tp__memory_forget(store, &home, id), TP_OK);
    assert_int_equal(tp__memory_forget(store, &home, id), TP_ERR_NOT_FOUND);
    assert_string_equal(recalled(other, &home, "harbour"), "t1 ");
    assert_true(put_in(store, &home, "t2", "Drop the harbour.") > id);
    assert_int_equal(strlen(recalled(other, &home, "harbour")), 6);
    close_both(kind);
  }
}

TEST(a_scope_that_is_emptied_loses_its_name_and_can_be_used_again) {
  FOR_BOTH(kind) {
    if (!open_both(kind)) continue;
    int64_t ids[] = {put_in(store, &home, "t1", "A violin."), put_in(store, &home, "t2", "A violin, too."), 4711};
    put_in(store, &away, "t3", "A violin of others.");
    assert_int_equal(strlen(recalled(other, &home, "violin")), 6);
    size_t count = 0;
    tp__memory_list list = {0};
    assert_int_equal(tp__memory_forget_all(store, ids, COUNT(ids), &count), TP_OK);
    assert_int_equal(count, 2);
    assert_int_equal(tp__memory_forget_all(store, ids, COUNT(ids), &count), TP_OK);
    assert_int_equal(count, 0);
    assert_string_equal(recalled(other, &home, "violin"), "");
    assert_int_equal(tp__memory_scopes(other, &list), TP_OK);
    assert_int_equal(list.count, 1);
    assert_bytes(list.items[0].name, away.name);
    tp__memory_list_fini(&list);
    put_in(other, &home, "t4", "A new violin.");
    assert_string_equal(recalled(store, &home, "violin"), "t4 ");
    assert_string_equal(recalled(other, &home, "violin"), "t4 ");
    close_both(kind);
  }
}

/* ---- facts ---- */

static size_t put_fact(const char *turn, int64_t said_ms, const char *statement, int64_t replaces) {
  tp__memory_facts facts = {.count = 1};
  tp__memory words = said("s", turn, "");
  size_t kept = 9;
  words.said_ms = said_ms;
  facts.items[0] = (tp__memory_fact){text_of("Anna"), text_of(statement), replaces};
  assert_int_equal(tp__memory_facts_put(store, &home, &words, &facts, &kept), TP_OK);
  return kept;
}

static int64_t newest_id(void) {
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_newest(store, &home, 0, 1, &list), TP_OK);
  assert_int_equal(list.count, 1);
  int64_t id = list.items[0].id;
  tp__memory_list_fini(&list);
  return id;
}

TEST(of_two_facts_the_one_said_later_holds) {
  FOR_BOTH(kind) {
    if (!open_both(kind)) continue;
    assert_int_equal(put_fact("t1", 1000, "Anna lives in Oslo.", 0), 1);
    int64_t oslo = newest_id();
    assert_int_equal(put_fact("t1", 1000, "Anna lives in Oslo.", oslo), 1); /* the job runs again */
    assert_int_equal(put_fact("t2", 2000, "Anna lives in Oslo.", 0), 0);    /* another turn's fact says it */
    assert_string_equal(recalled(other, &home, "Oslo"), "t1 ");
    assert_int_equal(put_fact("t3", 3000, "Anna lives in Bergen.", oslo), 1);
    int64_t bergen = newest_id();
    assert_string_equal(recalled(other, &home, "Oslo"), "");
    assert_string_equal(recalled(other, &home, "Bergen"), "t3 ");
    assert_int_equal(put_fact("t0", 500, "Anna lives in Rome.", bergen), 1); /* said before: it does not hold */
    assert_string_equal(recalled(other, &home, "Rome"), "");
    tp__memory_list list = {0};
    assert_int_equal(tp__memory_facts_known(other, &home, text_of("Where does Anna live?"), &list), TP_OK);
    assert_int_equal(list.count, 1);
    assert_bytes(list.items[0].subject, text_of("Anna"));
    assert_string_equal(turns_of(&list), "t3 ");
    assert_int_equal(tp__memory_facts_history(other, &home, oslo, &list), TP_OK);
    assert_string_equal(turns_of(&list), "t3 ");
    assert_int_equal(tp__memory_find(other, oslo, &list), TP_OK);
    assert_int_equal(list.items[0].replaced_ms, 3000);
    assert_int_equal(list.items[0].replaced_by, bergen);
    tp__memory_list_fini(&list);
    close_both(kind);
  }
}

/* ---- vectors ---- */

/* The share of a, e and o in a text. */
static tp_status embed(void *ctx, const tp_memory_embed_request *request, float *vectors) {
  (void)ctx;
  for (size_t i = 0; i < request->text_count; i++) {
    float *v = vectors + 3 * i;
    v[0] = v[1] = v[2] = 0.01f;
    for (size_t k = 0; k < request->texts[i].size; k++) {
      const char c = request->texts[i].data[k];
      if (c == 'a') v[0]++;
      if (c == 'e') v[1]++;
      if (c == 'o') v[2]++;
    }
  }
  return TP_OK;
}
static const tp_memory_embedder embedder = {
    .struct_size = sizeof embedder, .name = "vowels", .embed = embed, .dimensions = 3, .batch_max = 2};
static bool goes_on(const void *ctx) {
  (void)ctx;
  return false;
}
static const tp__memory_embed_work work = {.cancelled = goes_on};

static const char *nearest(tp__memory_store *in, const char *text) {
  float vector[3];
  tp__memory_list list = {0};
  assert_int_equal(tp__memory_embed_query(&embedder, &work, text_of(text), vector), TP_OK);
  assert_int_equal(
      tp__memory_recall_fused(in, &home, &(tp__memory_question){.text = text_of("zzz")}, &embedder, vector, 1, &list),
      TP_OK);
  return turns_of(&list);
}

TEST(vectors_are_kept_and_go_with_their_texts) {
  FOR_BOTH(kind) {
    if (!open_both(kind)) continue;
    assert_string_equal(nearest(store, "aaa"), "");
    int64_t a = put_in(store, &home, "ta", "banana park");
    put_in(store, &home, "te", "green trees");
    put_in(store, &home, "to", "good food");
    assert_int_equal(tp__memory_embed_missing(store, &home, &embedder, &work), TP_OK);
    assert_string_equal(nearest(other, "aaa"), "ta ");
    assert_string_equal(nearest(other, "eee"), "te ");
    assert_string_equal(nearest(other, "ooo"), "to ");
    put_in(store, &home, "te", "moon wood"); /* has no vector now, and lacks one */
    assert_int_equal(strcmp(nearest(other, "eee"), "te ") != 0, 1);
    assert_int_equal(tp__memory_embed_missing(other, &home, &embedder, &work), TP_OK);
    put_in(store, &home, "to", "seen here");
    assert_int_equal(tp__memory_embed_missing(other, &home, &embedder, &work), TP_OK);
    assert_string_equal(nearest(store, "eee"), "to ");
    assert_string_equal(nearest(store, "ooo"), "te ");
    assert_int_equal(tp__memory_forget(store, &home, a), TP_OK);
    assert_true(strcmp(nearest(other, "aaa"), "ta ") != 0);
    close_both(kind);
  }
}

TEST(of_two_that_make_vectors_the_faster_one_counts) {
  FOR_BOTH(kind) {
    if (!open_both(kind)) continue;
    const tp_memory_scope owner = tp__memory_owner_of(&home);
    tp__memory_list list = {0};
    tp__memory_gathering g = tp__memory_gather(&list);
    tp_memory_mark mark;
    put_in(store, &home, "ta", "banana park");
    put_in(store, &home, "te", "green trees");
    const tp_memory_store *rows = &store->rows;
    assert_int_equal(rows->vectors_missing(rows->ctx, &owner, "vowels", 1, tp__memory_gather_entry, &g, &mark, NULL),
                     TP_OK);
    assert_int_equal(list.count, 1);
    assert_int_equal(tp__memory_embed_missing(other, &home, &embedder, &work), TP_OK);
    const signed char wrong[] = {0, 127, 0};
    const tp_memory_vector vector = {sizeof vector, list.items[0].id, 1.0 / 127, wrong, 3, list.items[0].text};
    const tp_memory_vector *const vectors[] = {&vector};
    assert_int_equal(rows->vectors_put(rows->ctx, &mark, "vowels", vectors, 1, vector.id, NULL), TP_OK);
    assert_string_equal(nearest(store, "aaa"), "ta ");
    assert_int_equal(rows->vectors_missing(rows->ctx, &owner, "vowels", 9, tp__memory_gather_entry, &g, &mark, NULL),
                     TP_OK);
    assert_int_equal(list.count, 1); /* none more is missing */
    assert_int_equal(rows->vectors_missing(rows->ctx, &owner, "other", 9, tp__memory_gather_entry, &g, &mark, NULL),
                     TP_OK);
    assert_int_equal(list.count, 3);
    tp__memory_list_fini(&list);
    close_both(kind);
  }
}

/* ---- many at once ---- */

enum { WRITERS = 4, EACH = 60 };

typedef struct writer {
  tp__memory_store *in;
  int number;
  bool ended;
  tp_status failed; /* TP_OK: none has */
} writer;

static void *run_writer(void *ctx) {
  writer *w = ctx;
  for (int i = 0; i < EACH; i++) {
    char turn[24], session[24];
    snprintf(turn, sizeof turn, "w%d-%d", w->number, i);
    snprintf(session, sizeof session, "s%d", w->number);
    const tp__memory memory = said(session, turn, "The lighthouse is lit.");
    tp_status status;
    do status = tp__memory_put(w->in, i % 2 ? &home : &away, &memory, NULL);
    while (status == TP_ERR_STORE_BUSY); /* of a file that another connection writes */
    if (status != TP_OK) w->failed = status;
  }
  __atomic_store_n(&w->ended, true, __ATOMIC_RELEASE);
  return NULL;
}

/* A reader that comes between the commits of several writers misses none of their rows. */
TEST(a_reader_misses_nothing_of_writers_at_the_same_time) {
  FOR_BOTH(kind) {
    if (!open_both(kind)) continue;
    pthread_t threads[WRITERS];
    writer writers[WRITERS] = {0};
    for (int i = 0; i < WRITERS; i++) {
      writers[i] = (writer){.in = i % 2 ? store : other, .number = i};
      assert_int_equal(pthread_create(&threads[i], NULL, run_writer, &writers[i]), 0);
    }
    for (bool all = false; !all;) {
      all = true;
      for (int i = 0; i < WRITERS; i++) all = all && __atomic_load_n(&writers[i].ended, __ATOMIC_ACQUIRE);
      (void)recalled(other, &home, "lighthouse");
      (void)recalled(store, &away, "lighthouse");
    }
    for (int i = 0; i < WRITERS; i++) {
      pthread_join(threads[i], NULL);
      assert_int_equal(writers[i].failed, TP_OK);
    }
    for (int i = 0; i < 2; i++) {
      tp__memory_list list = {0};
      assert_int_equal(tp__memory_recall(i ? other : store, i ? &home : &away, text_of("lighthouse"), 1000, &list),
                       TP_OK);
      assert_int_equal(list.count, WRITERS * EACH / 2);
      tp__memory_list_fini(&list);
    }
    close_both(kind);
  }
}

static tp_status handed_over;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static int ends;

static void note_end(void *ctx, tp_status status) {
  tp__memory_store **closes = ctx;
  if (closes) tp__memory_store_close(*closes);
  pthread_mutex_lock(&mutex);
  handed_over = status;
  ends++;
  pthread_cond_signal(&came);
  pthread_mutex_unlock(&mutex);
}

TEST(what_is_handed_over_ends_once_also_when_its_end_closes_the_store) {
  FOR_BOTH(kind) {
    for (int closes = 0; closes < 2; closes++) {
      if (!open_both(kind)) continue;
      const tp__memory memory = said("s", "t1", "A violin.");
      tp_memory_entry entry = tp__memory_entry_of(&memory);
      const tp_memory_entry *const entries[] = {&entry};
      entry.tenant = home.tenant;
      entry.scope = home.kind;
      entry.name = home.name;
      ends = 0;
      tp__memory_store *mine = store;
      assert_int_equal(mine->rows.put_later(mine->rows.ctx, entries, 1, note_end, closes ? &mine : NULL), TP_OK);
      pthread_mutex_lock(&mutex);
      while (!ends) pthread_cond_wait(&came, &mutex);
      pthread_mutex_unlock(&mutex);
      assert_int_equal(handed_over, TP_OK);
      if (closes) store = NULL;
      assert_string_equal(recalled(other, &home, "violin"), "t1 ");
      close_both(kind);
    }
  }
}

TEST_MAIN(count, arguments) {
#ifdef TP_WITH_POSTGRES
  const char *lack = postgres_lack();
  has_postgres = !lack;
  if (lack) printf("# only SQLite: %s\n", lack);
  else postgres_make();
  int result = test_main(count, arguments);
  if (has_postgres) postgres_remove();
  return result;
#else
  return test_main(count, arguments);
#endif
}
