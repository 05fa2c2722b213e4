/* SPDX-License-Identifier: Apache-2.0
 *
 * Forgetting many memories at once: all or none of them are gone, whichever writing system call SIGKILL interrupts. The
 * next attempt does the rest; no byte of a forgotten text is left in any file, and the others are complete. 30 points;
 * with TURNPHASE_ROUNDS 30 for each round. */
#include <dirent.h>
#include <sqlite3.h>

#include "tests/support/test.h"
#include "tests/support/child.h"
#include "tests/support/directory.h"
#include "tests/support/dying_writes.h"
#include "tests/support/rows.h"
#include "turnphase/memory.h"

enum { EACH = 40, POINTS = 30, LONG = 4000, IDS = 800 };

static tp_memory *open_file(const char *file) {
  tp_memory *memory = NULL;
  tp_fault fault = {0};
  if (tp_memory_open(file, &memory, &fault) != TP_OK) fail_msg("%s", fault.message);
  return memory;
}

/* Alternates Bob's and Ann's memories, some in pages of their own, one at a time, so that rows move between pages. */
static void plant(tp_memory *memory) {
  for (int i = 0; i < 2 * EACH; i++) {
    static char text[LONG + 64];
    char turn[16];
    size_t size = i % 9 == 0 ? LONG : (size_t)(i * 37 % 400);
    for (size_t at = 0; at < size; at++) text[at] = at % 8 ? 'x' : ' ';
    snprintf(text + size, 64, " plant-%s-%03d", i % 2 ? "bob" : "ann", i / 2);
    snprintf(turn, sizeof turn, "t%d", i);
    const tp_memory_entry entry = {.struct_size = sizeof entry,
                                   .said_unix_ms = 1 + i,
                                   .tenant = tp_text_of(i % 2 ? "bob" : "ann"),
                                   .scope = tp_text_of("workspace"),
                                   .name = tp_text_of(i % 3 ? "home" : "work"),
                                   .session = tp_text_of("s"),
                                   .turn = tp_text_of(turn),
                                   .text = tp_text_of(text)};
    const tp_memory_entry *const list[] = {&entry};
    tp_fault fault = {0};
    if (tp_memory_import(memory, list, 1, &fault) != TP_OK) fail_msg("%s", fault.message);
  }
}

typedef struct found {
  int64_t ids[IDS];
  size_t count;
} found;

static bool take_id(void *ctx, const tp_memory_entry *entry) {
  found *f = ctx;
  f->ids[f->count++] = entry->id;
  return true;
}

static found find(tp_memory *memory, const char *tenant) {
  found f = {.count = 0};
  const tp_memory_query query = {.struct_size = sizeof query, .tenant = tenant, .limit = UINT32_MAX};
  tp_status status = tp_memory_list(memory, &query, take_id, &f, NULL);
  if (status != TP_OK && status != TP_ERR_NOT_FOUND) fail_msg("%s", tp_status_name(status));
  return f;
}

/* How often bytes occur in the files of the directory, without the copies of the test. */
static int count_bytes(const char *bytes) {
  static char content[4 << 20];
  char name[400];
  int count = 0;
  DIR *files = opendir(directory);
  assert_non_null(files);
  for (struct dirent *entry; (entry = readdir(files));) {
    if (entry->d_name[0] == '.' || strstr(entry->d_name, "whole")) continue;
    snprintf(name, sizeof name, "%s/%s", directory, entry->d_name);
    FILE *file = fopen(name, "re");
    assert_non_null(file);
    size_t size = fread(content, 1, sizeof content, file), step = strlen(bytes);
    fclose(file);
    for (char *at = content; (at = memmem(at, size - (size_t)(at - content), bytes, step)); at += step) count++;
  }
  closedir(files);
  return count;
}

static void expect_only_ann(tp_memory *memory) {
  assert_int_equal(find(memory, "bob").count, 0);
  assert_int_equal(find(memory, "ann").count, EACH);
  assert_int_equal(number_in(path, "SELECT count(*) FROM memory WHERE text LIKE '%plant-ann-%'"), EACH);
  assert_int_equal(number_in(path, "SELECT sum(memories) FROM scope"), EACH);
  assert_int_equal(number_in(path, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
}

FOR_EACH_TEST(make_directory_in_memory, remove_directory);

TEST(memories_are_forgotten_all_at_once_and_no_byte_of_them_is_left) {
  tp_memory *memory = open_file(path);
  size_t count = 7;
  tp_fault fault = {0};
  plant(memory);
  found f = find(memory, "bob");
  assert_int_equal(f.count, EACH);
  assert_true(count_bytes("plant-bob-") >= EACH);
  f.ids[f.count++] = 999999; /* is not there */
  f.ids[f.count++] = f.ids[0];
  assert_int_equal(tp_memory_forget_all(memory, f.ids, f.count, &count, NULL), TP_OK);
  assert_int_equal(count, EACH);
  expect_only_ann(memory);
  assert_int_equal(count_bytes("plant-bob-"), 0);
  assert_int_equal(tp_memory_forget_all(memory, f.ids, f.count, &count, NULL), TP_OK);
  assert_int_equal(count, 0);
  assert_int_equal(tp_memory_forget_all(memory, NULL, 0, NULL, NULL), TP_OK);
  assert_int_equal(tp_memory_forget_all(memory, NULL, 1, NULL, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_memory_forget_all(NULL, f.ids, 1, NULL, &fault), TP_ERR_USAGE);
  expect_only_ann(memory);
  tp_memory_close(memory);
}

/* Growing rows move between pages, and SQLite does not overwrite the copies that they leave. */
TEST(copies_in_pages_that_were_split_are_overwritten_too) {
  enum { ROWS = 1500 };
  static char text[1200];
  tp_memory *memory = open_file(path);
  for (unsigned round = 0; round < 2; round++) {
    static tp_memory_entry entries[ROWS];
    static char turns[ROWS][16], texts[ROWS][sizeof text];
    const tp_memory_entry *list[ROWS];
    for (unsigned i = 0; i < ROWS; i++) {
      unsigned random = (i + 1 + round * ROWS) * 2654435761u, at = 0;
      snprintf(turns[i], sizeof turns[i], "%08x", (i + 1) * 2654435761u);
      at = (unsigned)snprintf(texts[i], sizeof text, "plant-%s-%04u", i % 3 ? "ann" : "bob", i);
      for (unsigned words = random >> 20 & 63; words > 0; words--, random = random * 1103515245u + 12345)
        at += (unsigned)snprintf(texts[i] + at, sizeof text - at, " w%u", random >> 16 & 511);
      entries[i] = (tp_memory_entry){.struct_size = sizeof entries[i],
                                     .said_unix_ms = 1 + i,
                                     .tenant = tp_text_of(i % 3 ? "ann" : "bob"),
                                     .scope = tp_text_of("workspace"),
                                     .session = tp_text_of(i % 3 ? "s" : "s of bob"),
                                     .turn = tp_text_of(turns[i]),
                                     .text = tp_text_of(texts[i])};
      list[i] = &entries[i];
    }
    assert_int_equal(tp_memory_import(memory, list, ROWS, NULL), TP_OK);
  }
  static found bobs;
  bobs = find(memory, "bob");
  size_t count = 0;
  assert_int_equal(tp_memory_forget_all(memory, bobs.ids, bobs.count, &count, NULL), TP_OK);
  assert_int_equal(count, ROWS / 3);
  assert_int_equal(count_bytes("plant-bob-"), 0);
  assert_int_equal(count_bytes("bob"), 0); /* the name of the tenant, too */
  assert_true(count_bytes("plant-ann-") >= ROWS * 2 / 3);
  tp_memory_close(memory);
}

static bool no_scope_of_bob(void *ctx, const tp_memory_scope *scope) {
  int *count = ctx;
  assert_true(scope->tenant.size == 3 && memcmp(scope->tenant.data, "bob", 3) != 0);
  ++*count;
  return true;
}

/* The index of a process identifies a scope by its id: a scope that begins again has another one. */
TEST(scope_whose_memories_were_forgotten_is_listed_no_more_and_may_begin_anew) {
  tp_memory *memory = open_file(path);
  int scopes = 0;
  plant(memory);
  int64_t newest = number_in(path, "SELECT max(id) FROM scope");
  found f = find(memory, "bob");
  assert_int_equal(tp_memory_forget_all(memory, f.ids, f.count, NULL, NULL), TP_OK);
  assert_int_equal(tp_memory_scopes(memory, no_scope_of_bob, &scopes, NULL), TP_OK);
  assert_int_equal(scopes, 2);
  plant(memory);
  assert_int_equal(find(memory, "bob").count, EACH);
  assert_true(number_in(path, "SELECT min(id) FROM scope WHERE tenant = 'bob'") > newest);
  tp_memory_close(memory);
}

/* ---- killed ---- */

static int child_main(const char *file, int at, int how) {
  tp_memory *memory = NULL;
  if (!install_deaths() || tp_memory_open(file, &memory, NULL) != TP_OK) return 4;
  found f = {.count = 0};
  const tp_memory_query query = {.struct_size = sizeof query, .tenant = "bob", .limit = UINT32_MAX};
  if (tp_memory_list(memory, &query, take_id, &f, NULL) != TP_OK) return 6;
  writes = 0;
  dies_at = at;
  dies_how = how;
  tp_status status = tp_memory_forget_all(memory, f.ids, f.count, NULL, NULL);
  child_say("W %d\n", writes);
  tp_memory_close(memory);
  return status == TP_OK ? 0 : 5;
}

static int writes_of_child;
static void take_line(const char *line) { writes_of_child = atoi(line + 2); }

static int run_child(int at, int how) {
  char death[16], way[16];
  snprintf(death, sizeof death, "%d", at);
  snprintf(way, sizeof way, "%d", how);
  return child_take_all(child_start((const char *const[]){path, death, way, NULL}), take_line);
}

static void copy_file(const char *to, const char *from) {
  char command[400];
  snprintf(command, sizeof command, "rm -f '%s' '%s'-* && cp '%s' '%s'", to, to, from, to);
  assert_int_equal(system(command), 0);
}

TEST(forgetting_that_is_killed_at_any_write_forgot_all_or_none_and_is_finished_by_the_next) {
  char whole[200];
  const char *rounds = getenv("TURNPHASE_ROUNDS");
  int count = rounds && atoi(rounds) > 1 ? POINTS * atoi(rounds) : POINTS, killed = 0, none = 0;
  tp_memory *memory = open_file(path);
  plant(memory);
  tp_memory_close(memory);
  snprintf(whole, sizeof whole, "%s/whole", directory);
  copy_file(whole, path);
  assert_int_equal(run_child(0, BEFORE), 0);
  assert_true(writes_of_child > 20);
  for (int i = 0; i < count; i++) {
    int at = 1 + (int)((int64_t)i * writes_of_child / count);
    copy_file(path, whole);
    int status = run_child(at, i % WAYS);
    killed += child_was_killed(status);
    assert_true(status == 0 || child_was_killed(status));
    memory = open_file(path);
    found left = find(memory, "bob");
    if (left.count != 0 && left.count != EACH) fail_msg("point %d: %d are left", at, (int)left.count);
    if (left.count == 0 && count_bytes("bob")) fail_msg("point %d: copies are left after the file was opened", at);
    none += left.count == EACH;
    assert_int_equal(tp_memory_forget_all(memory, left.ids, left.count, NULL, NULL), TP_OK);
    expect_only_ann(memory);
    int bytes = count_bytes("plant-bob-");
    if (bytes) fail_msg("point %d: %d copies are left", at, bytes);
    tp_memory_close(memory);
  }
  print_message("# %d of %d were killed, %d had forgotten nothing\n", killed, count, none);
  assert_true(killed > count * 8 / 10 && none > 0 && none < count);
}

TEST_MAIN(count, arguments) {
  const char *words[CHILD_WORDS_MAX] = {NULL};
  if (child_is(count, arguments, words)) return child_main(words[0], atoi(words[1]), atoi(words[2]));
  return test_main(count, arguments);
}
