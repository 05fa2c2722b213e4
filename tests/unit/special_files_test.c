/* SPDX-License-Identifier: Apache-2.0
 *
 * Wherever the library opens a file that another program or person made, there may be something else in its place. Each
 * such function refuses it, names it, and never waits for it or reads it without an end. */
#include "tests/support/test.h"

#include "domains/skills/skill.h"
#include "tests/support/hook_files.h"
#include "tests/support/special_files.h"
#include "turnphase/memory.h"
#include "turnphase/openai.h"
#include "turnphase/sqlite.h"

FOR_EACH_TEST(make_directory, remove_directory);

static tp_runtime *runtime;

/* ---- the places: each opens what stands at a path ---- */

static tp_status read_hook_files(const char *at, tp_fault *fault) {
  (void)at;
  tp_hooks *hooks = NULL;
  tp_hooks_options options = {.struct_size = sizeof options, .directory = directory};
  tp_status status = tp_hooks_read(runtime, &options, &hooks, fault);
  tp_hooks_free(hooks);
  return status;
}

static tp_status open_store_with(const char *at, bool read_only, tp_fault *fault) {
  tp_store *store = NULL;
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = at, .read_only = read_only};
  tp_status status = tp_sqlite_store_open(&options, &store, fault);
  if (status == TP_OK) tp_store_free(store);
  return status;
}

static tp_status open_store(const char *at, tp_fault *fault) { return open_store_with(at, false, fault); }
static tp_status read_store(const char *at, tp_fault *fault) { return open_store_with(at, true, fault); }

static tp_status open_history(const char *at, tp_fault *fault) {
  tp_history *history = NULL;
  tp_status status = tp_sqlite_history_open(at, &history, fault);
  if (status == TP_OK) tp_history_free(history);
  return status;
}

static bool skip_question(void *ctx, const tp_kept_question *question) {
  (void)ctx;
  (void)question;
  return true;
}

static tp_status list_questions(const char *at, tp_fault *fault) {
  return tp_sqlite_questions_list(at, true, skip_question, NULL, fault);
}

static tp_status open_memory(const char *at, tp_fault *fault) {
  tp_memory *memory = NULL;
  tp_status status = tp_memory_open(at, &memory, fault);
  if (status == TP_OK) tp_memory_close(memory);
  return status;
}

static tp_status read_key_file(const char *at, tp_fault *fault) {
  tp_model *model = NULL;
  tp_openai_options options = {.struct_size = sizeof options,
                               .api = TP_OPENAI_CHAT,
                               .base_url = "http://127.0.0.1:1/v1",
                               .model = "m",
                               .key_file = at};
  tp_status status = tp_openai_model_new(&options, &model, fault);
  if (status == TP_OK) tp_model_free(model);
  return status;
}

static tp_status read_skill(const char *at, tp_fault *fault) {
  (void)at;
  tp__skill skill;
  int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  tp_status status = tp__skill_read(fd, "special", &skill, fault);
  close(fd);
  if (status == TP_OK) tp__skill_fini(&skill);
  return status;
}

/* The key of a store's hashes, beside its file. */
static tp_status hash_with_key(const char *at, tp_fault *fault) {
  (void)at;
  tp_store *store = NULL;
  unsigned char hash[32];
  tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
  assert_int_equal(tp_sqlite_store_open(&options, &store, fault), TP_OK);
  tp_status status = tp_sqlite_store_hash(store, tp_text_of("content"), hash, fault);
  tp_store_free(store);
  return status;
}

typedef struct place {
  const char *name, *file;
  tp_status (*open)(const char *at, tp_fault *fault);
  tp_status expected[SPECIAL_COUNT];
} place;

#define IO TP_ERR_IO
#define LARGE TP_ERR_TOO_LARGE
#define DAMAGED TP_ERR_STORE_CORRUPT
#define USAGE TP_ERR_USAGE
#define MALFORMED TP_ERR_MALFORMED
#define MISSING TP_ERR_NOT_FOUND
#define SCHEMA TP_ERR_STORE_SCHEMA

/* fifo, link to fifo, socket, device, terminal, directory, loop, dangling link, sparse, empty, unreadable */
static const place places[] = {
    {"a hook", "special.yaml", read_hook_files, {IO, IO, IO, IO, IO, IO, IO, IO, LARGE, MALFORMED, IO}},
    {"beside hooks", "special.txt", read_hook_files, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"a store", "special.db", open_store, {IO, IO, IO, IO, IO, IO, IO, IO, DAMAGED, 0, IO}},
    {"a store to read", "special.db", read_store, {IO, IO, IO, IO, IO, IO, MISSING, MISSING, DAMAGED, DAMAGED, IO}},
    {"a history", "special.db", open_history, {IO, IO, IO, IO, IO, IO, IO, IO, DAMAGED, 0, IO}},
    {"questions", "special.db", list_questions, {IO, IO, IO, IO, IO, IO, IO, IO, DAMAGED, SCHEMA, IO}},
    {"a memory", "special.db", open_memory, {IO, IO, IO, IO, IO, IO, IO, IO, DAMAGED, 0, IO}},
    {"a key file", "special.key", read_key_file, {USAGE, USAGE, USAGE, USAGE, USAGE, USAGE, IO, IO, LARGE, USAGE, IO}},
    {"a skill", "special.md", read_skill, {IO, IO, IO, IO, IO, IO, IO, MISSING, LARGE, MALFORMED, IO}},
    {"a key of hashes", "file.db-key", hash_with_key, {IO, IO, IO, IO, IO, IO, IO, IO, IO, IO, IO}},
};

TEST(each_place_refuses_what_is_no_file) {
  int wrong = 0;
  runtime = open_runtime(NULL);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    for (int kind = 0; kind < SPECIAL_COUNT; kind++) {
      char at[160];
      tp_fault fault = {0};
      snprintf(at, sizeof at, "%s/%s", directory, places[i].file);
      bool is_special = make_special((special_file)kind, at);
      tp_status status = is_special ? places[i].open(at, &fault) : places[i].expected[kind];
      if (status != places[i].expected[kind])
        print_error("%s: %s: %s: %s\n", places[i].name, special_names[kind], tp_status_name(status), fault.message);
      wrong += status != places[i].expected[kind];
      if (is_special && status != TP_OK) assert_true(fault.message[0] != '\0');
      unlink(at);
      rmdir(at);
      char target[200];
      snprintf(target, sizeof target, "%s.target", at);
      unlink(target);
    }
  }
  close_runtime(runtime);
  assert_int_equal(wrong, 0);
}
