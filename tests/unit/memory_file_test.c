/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of memories for an operator: what is stored, found, forgotten with all its traces, and refused. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "turnphase/memory.h"

enum { SAID = 1 };

static char directory[64], path[96];
static tp_memory *memory;
static char seen[65536]; /* "id:text|" of each entry */

static int open_memory(void **state) {
  (void)state;
  strcpy(directory, "/tmp/memory_file_XXXXXX");
  if (!mkdtemp(directory)) return -1;
  snprintf(path, sizeof path, "%s/memory.db", directory);
  return tp_memory_open(path, &memory, NULL) == TP_OK ? 0 : -1;
}

static int close_memory(void **state) {
  (void)state;
  tp_memory_close(memory);
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", directory);
  return system(command);
}

FOR_EACH_TEST(open_memory, close_memory);

static bool note(void *ctx, const tp_memory_entry *entry) {
  (void)ctx;
  size_t used = strlen(seen);
  snprintf(seen + used, sizeof seen - used, "%lld:%.*s|", (long long)entry->id, (int)entry->text.size,
           entry->text.data);
  return true;
}

static tp_memory_entry entry_of(const char *name, const char *turn, const char *text) {
  return (tp_memory_entry){.struct_size = sizeof(tp_memory_entry),
                           .said_unix_ms = SAID,
                           .tenant = tp_text_of("acme"),
                           .scope = tp_text_of("workspace"),
                           .name = tp_text_of(name),
                           .session = tp_text_of("s"),
                           .turn = tp_text_of(turn),
                           .text = tp_text_of(text)};
}

static void keep(const char *name, const char *turn, const char *text) {
  tp_memory_entry entry = entry_of(name, turn, text);
  const tp_memory_entry *const list[] = {&entry};
  assert_int_equal(tp_memory_import(memory, list, 1, NULL), TP_OK);
}

static const char *list_all(const tp_memory_query *query) {
  tp_fault fault = {0};
  seen[0] = '\0';
  if (tp_memory_list(memory, query, note, NULL, &fault) != TP_OK) fail_msg("%s", fault.message);
  return seen;
}

/* ---- looking ---- */

TEST(memories_are_listed_in_pages_from_either_end) {
  keep("home", "t1", "one");
  keep("away", "t1", "two");
  keep("home", "t2", "three");
  assert_string_equal(list_all(NULL), "3:three|2:two|1:one|");
  assert_string_equal(list_all(&(tp_memory_query){.struct_size = sizeof(tp_memory_query), .limit = 2}),
                      "3:three|2:two|");
  assert_string_equal(list_all(&(tp_memory_query){.struct_size = sizeof(tp_memory_query), .beyond = 2}), "1:one|");
  tp_memory_query oldest = {.struct_size = sizeof oldest, .beyond = 1, .oldest_first = true};
  assert_string_equal(list_all(&oldest), "2:two|3:three|");
  assert_string_equal(list_all(&(tp_memory_query){.struct_size = sizeof(tp_memory_query), .name = "home"}),
                      "3:three|1:one|");
  assert_string_equal(list_all(&(tp_memory_query){.struct_size = sizeof(tp_memory_query), .tenant = "other"}), "");
}

static bool add_up(void *ctx, const tp_memory_entry *entry) {
  double sum = 0;
  for (size_t i = 0; i < entry->part_count; i++) sum += entry->parts[i];
  assert_true(entry->part_count > 0 && tp_memory_part_name(entry->part_count - 1));
  assert_null(tp_memory_part_name(entry->part_count));
  assert_true(sum == entry->score && sum > 0);
  *(size_t *)ctx += 1;
  return true;
}

TEST(a_search_explains_each_score_and_is_in_one_scope) {
  size_t count = 0;
  tp_fault fault = {0};
  keep("home", "t1", "A xylophone.");
  assert_int_equal(tp_memory_search(memory, NULL, tp_text_of("xylophone"), add_up, &count, &fault), TP_OK);
  assert_int_equal(count, 1);
  keep("away", "t1", "Another xylophone.");
  assert_int_equal(tp_memory_search(memory, NULL, tp_text_of("xylophone"), add_up, &count, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "2 scopes fit"));
  assert_non_null(strstr(fault.message, "workspace \"away\""));
  tp_memory_query query = {.struct_size = sizeof query, .name = "away"};
  assert_int_equal(tp_memory_search(memory, &query, tp_text_of("xylophone"), add_up, &count, &fault), TP_OK);
  assert_int_equal(count, 2);
  query.name = "none";
  assert_int_equal(tp_memory_search(memory, &query, tp_text_of("x"), add_up, &count, &fault), TP_ERR_NOT_FOUND);
}

/* ---- keeping ---- */

TEST(a_list_with_one_wrong_entry_is_refused_whole) {
  static char big[128 * 1024 + 1];
  memset(big, 'x', sizeof big);
  tp_memory_entry good = entry_of("home", "t1", "one"), wrong[6];
  for (size_t i = 0; i < 6; i++) wrong[i] = entry_of("home", "t2", "two");
  wrong[0].text = tp_text_of(" ");
  wrong[1].said_unix_ms = 0;
  wrong[2].scope = tp_text_of("galaxy");
  wrong[3].text = (tp_text){big, sizeof big};
  wrong[4].session = (tp_text){"\xff", 1};
  wrong[5].struct_size = 3;
  static const tp_status expected[] = {TP_ERR_USAGE,     TP_ERR_USAGE, TP_ERR_USAGE,
                                       TP_ERR_TOO_LARGE, TP_ERR_UTF8,  TP_ERR_VERSION};
  for (size_t i = 0; i < 6; i++) {
    tp_fault fault = {0};
    const tp_memory_entry *const list[] = {&good, &wrong[i]};
    assert_int_equal(tp_memory_import(memory, list, 2, &fault), expected[i]);
    if (i < 5) assert_non_null(strstr(fault.message, "entries[1]"));
  }
  assert_int_equal(tp_memory_import(memory, NULL, 1, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_memory_import(memory, NULL, 0, NULL), TP_OK);
  assert_string_equal(list_all(NULL), "");
}

TEST(the_same_key_is_kept_once) {
  keep("home", "t1", "one");
  keep("home", "t1", "two");
  assert_string_equal(list_all(NULL), "1:two|");
}

/* ---- forgetting ---- */

static bool file_holds(const char *ending, const char *words) {
  char name[128];
  snprintf(name, sizeof name, "%s%s", path, ending);
  FILE *file = fopen(name, "rb");
  if (!file) return false;
  static char bytes[1 << 22];
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  assert_true(size < sizeof bytes);
  return memmem(bytes, size, words, strlen(words)) != NULL;
}

static bool any_file_holds(const char *words) {
  return file_holds("", words) || file_holds("-wal", words) || file_holds("-journal", words);
}

/* The word is in the text, in the full-text index and in the write-ahead log. */
TEST(what_is_forgotten_stands_in_no_byte_of_the_files) {
  for (int i = 0; i < 200; i++) {
    char turn[16];
    snprintf(turn, sizeof turn, "t%d", i);
    keep("home", turn, i == 100 ? "The quagga lives in Uppsala." : "Something else altogether.");
  }
  assert_true(any_file_holds("quagga"));
  assert_int_equal(tp_memory_forget(memory, 101, NULL), TP_OK);
  assert_false(any_file_holds("quagga"));
  assert_false(any_file_holds("uppsala"));
  assert_false(any_file_holds("Uppsala"));
  tp_fault fault = {0};
  assert_int_equal(tp_memory_forget(memory, 101, &fault), TP_ERR_NOT_FOUND);
  assert_non_null(strstr(fault.message, "id 101"));
  assert_int_equal(tp_memory_get(memory, 101, note, NULL, &fault), TP_ERR_NOT_FOUND);
  size_t count = 0;
  assert_int_equal(tp_memory_search(memory, NULL, tp_text_of("quagga"), add_up, &count, NULL), TP_OK);
  assert_int_equal(count, 0);
}

static void execute(sqlite3 *db, const char *sql) {
  assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* A reader keeps the log as it was when it began to read. */
TEST(a_reader_that_keeps_the_log_is_said_and_forgetting_again_ends_it) {
  sqlite3 *reader = NULL;
  tp_fault fault = {0};
  keep("home", "t1", "The quagga lives in Uppsala.");
  assert_int_equal(sqlite3_open(path, &reader), SQLITE_OK);
  execute(reader, "BEGIN; SELECT count(*) FROM memory");
  assert_int_equal(tp_memory_forget(memory, 1, &fault), TP_ERR_STORE_BUSY);
  assert_string_equal(list_all(NULL), ""); /* it is deleted all the same */
  execute(reader, "COMMIT");
  sqlite3_close(reader);
  assert_int_equal(tp_memory_forget(memory, 1, &fault), TP_ERR_NOT_FOUND);
  assert_false(any_file_holds("quagga"));
}

/* ---- what is refused ---- */

TEST(wrong_queries_and_paths_are_refused) {
  tp_fault fault = {0};
  tp_memory *other = NULL;
  assert_int_equal(tp_memory_open(NULL, &other, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_memory_open("", &other, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_memory_open("/none/there/memory.db", &other, &fault), TP_ERR_IO);
  tp_memory_query query = {.struct_size = 7};
  assert_int_equal(tp_memory_list(memory, &query, note, NULL, &fault), TP_ERR_VERSION);
  query = (tp_memory_query){.struct_size = sizeof query, .reserved_ = {0, 0, 1}};
  assert_int_equal(tp_memory_list(memory, &query, note, NULL, &fault), TP_ERR_USAGE);
  query = (tp_memory_query){.struct_size = sizeof query, .beyond = -1};
  assert_int_equal(tp_memory_list(memory, &query, note, NULL, &fault), TP_ERR_USAGE);
  query = (tp_memory_query){.struct_size = sizeof query, .oldest_first = true};
  assert_int_equal(tp_memory_search(memory, &query, tp_text_of("x"), note, NULL, &fault), TP_ERR_USAGE);
  query = (tp_memory_query){.struct_size = sizeof query, .limit = 1001};
  assert_int_equal(tp_memory_search(memory, &query, tp_text_of("x"), note, NULL, &fault), TP_ERR_USAGE);
  tp_memory_close(NULL);
}

static bool take_texts(void *ctx, const tp_memory_entry *entry) {
  char *all = ctx;
  snprintf(all + strlen(all), 400 - strlen(all), "%.*s(%.*s)|", (int)entry->text.size, entry->text.data,
           (int)entry->subject.size, entry->subject.data);
  return true;
}

/* As post_turn_extractor does; what an export of before had stays as it is. */
TEST(import_keeps_no_secrets_but_where_it_is_told_to) {
  static const char *const texts[] = {"My password is Tr0ub4dor&3.", "card 4111 1111 1111 1111 ok",
                                      "key [redacted:key] of before", "Order 4111111111111112"};
  enum { COUNT = sizeof texts / sizeof *texts };
  static const char replaced[] =
      "My password is [redacted:password].(pwd: [redacted:password])|card [redacted:card] ok()|"
      "key [redacted:key] of before()|Order 4111111111111112()|";
  static const char kept[] =
      "My password is Tr0ub4dor&3.(pwd: hunter22)|card 4111 1111 1111 1111 ok()|"
      "key [redacted:key] of before()|Order 4111111111111112()|";
  for (int keeps = 0; keeps < 2; keeps++) {
    tp_memory_entry entries[COUNT];
    const tp_memory_entry *list[COUNT];
    char turns[COUNT][8], all[400] = "";
    for (int i = 0; i < COUNT; i++) {
      snprintf(turns[i], sizeof turns[i], "t%d", i);
      entries[i] = (tp_memory_entry){.struct_size = sizeof entries[i],
                                     .said_unix_ms = 1,
                                     .tenant = tp_text_of(keeps ? "keeps" : "replaces"),
                                     .scope = tp_text_of("user"),
                                     .turn = tp_text_of(turns[i]),
                                     .subject = tp_text_of(i ? "" : "pwd: hunter22"),
                                     .text = tp_text_of(texts[i])};
      list[i] = &entries[i];
    }
    const tp_memory_import_options options = {.struct_size = sizeof options, .keep_secrets = keeps};
    const tp_memory_query query = {
        .struct_size = sizeof query, .tenant = keeps ? "keeps" : "replaces", .oldest_first = true};
    size_t secrets = 77;
    assert_int_equal(tp_memory_import_with(memory, &options, list, COUNT, &secrets, NULL), TP_OK);
    assert_int_equal(secrets, keeps ? 0 : 3);
    assert_int_equal(tp_memory_list(memory, &query, take_texts, all, NULL), TP_OK);
    assert_string_equal(all, keeps ? kept : replaced);
    if (keeps) continue;
    all[0] = '\0';
    assert_int_equal(tp_memory_import(memory, list, COUNT, NULL), TP_OK);
    assert_int_equal(tp_memory_list(memory, &query, take_texts, all, NULL), TP_OK);
    assert_string_equal(all, replaced);
  }
  const tp_memory_import_options wrong = {.struct_size = 3};
  assert_int_equal(tp_memory_import_with(memory, &wrong, NULL, 0, NULL, NULL), TP_ERR_VERSION);
  assert_int_equal(tp_memory_import_with(memory, NULL, NULL, 1, NULL, NULL), TP_ERR_USAGE);
  const tp_memory_import_options reserved = {.struct_size = sizeof reserved, .reserved_ = {[6] = 1}};
  assert_int_equal(tp_memory_import_with(memory, &reserved, NULL, 0, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_memory_import_with(NULL, NULL, NULL, 0, NULL, NULL), TP_ERR_USAGE);
}

/* A copy that another user made, say: all but what would change it is there. */
TEST(file_that_cannot_be_written_is_read) {
  char line[256];
  bool is_root = geteuid() == 0;
  tp_memory_entry entry = entry_of("home", "t2", "Bo");
  const tp_memory_entry *const list[] = {&entry};
  const tp_memory_query query = {.struct_size = sizeof query};
  tp_fault fault = {0};
  keep("home", "t1", "Ann");
  tp_memory_close(memory);
  memory = NULL;
  snprintf(line, sizeof line, "chmod 444 '%s' && chmod 555 '%s'", path, directory);
  assert_int_equal(system(line), 0);
  if (is_root) assert_int_equal(seteuid(65534), 0); /* to whom the modes count */
  tp_status opened = tp_memory_open(path, &memory, NULL);
  seen[0] = '\0';
  tp_status listed = opened == TP_OK ? tp_memory_list(memory, &query, note, NULL, NULL) : opened;
  tp_status found = opened == TP_OK ? tp_memory_search(memory, &query, tp_text_of("Ann"), note, NULL, NULL) : opened;
  tp_status kept = opened == TP_OK ? tp_memory_import(memory, list, 1, &fault) : opened;
  tp_status forgotten = opened == TP_OK ? tp_memory_forget(memory, 1, NULL) : opened;
  if (is_root) assert_int_equal(seteuid(0), 0);
  assert_int_equal(chmod(directory, 0755), 0);
  assert_int_equal(opened, TP_OK);
  assert_int_equal(listed, TP_OK);
  assert_int_equal(found, TP_OK);
  assert_string_equal(seen, "1:Ann|1:Ann|");
  assert_int_equal(kept, TP_ERR_STORE_READONLY);
  assert_int_equal(forgotten, TP_ERR_STORE_READONLY);
  assert_string_equal(fault.subject, path);
}
