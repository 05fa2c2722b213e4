/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions whose turns come as fast as they end, each of which leaves a memory: after the end of the server, every
 * acknowledged turn is remembered, whatever its store is and however many jobs were waiting. bench/load has the
 * figures. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/host.h"
#include "turnphase/memory.h"
#include "turnphase/sqlite.h"

enum { SESSIONS = 64, TURNS = 6, DRAIN_MS = 60000 };

static char memory_path[sizeof path + 8];

typedef struct server {
  tp_runtime *runtime;
  tp_model *model;
  struct client {
    struct server *server;
    tp_session *session;
    char id[32];
    int left;
  } clients[SESSIONS];
  latch ended, closed;
  _Atomic int failed, acknowledged;
} server;

static void say(struct client *c);

static void turn_ended(void *ctx, const tp_turn_result *result) {
  struct client *c = ctx;
  if (result->code == TP_OK) atomic_fetch_add(&c->server->acknowledged, 1);
  else atomic_fetch_add(&c->server->failed, 1);
  if (--c->left > 0) say(c);
  else latch_hit(&c->server->ended);
}

static void say(struct client *c) {
  char words[64];
  snprintf(words, sizeof words, "My number %d is of %s.", c->left, c->id);
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(words)};
  if (tp_turn_submit(c->session, &request, turn_ended, c, NULL, NULL) == TP_OK) return;
  atomic_fetch_add(&c->server->failed, 1);
  latch_hit(&c->server->ended);
}

static void session_closed(void *ctx) { latch_hit(&((server *)ctx)->closed); }

/* @param shared  one workspace for all of them. */
static void open_server(server *s, const tp_store *store, size_t jobs_max, bool shared) {
  tp_model_response response = {.struct_size = sizeof response, .text = TEXT("Noted.")};
  const tp_model_response *responses[] = {&response};
  tp_runtime_options options = {.struct_size = sizeof options, .store = store, .jobs_max = jobs_max};
  tp_memory_options memory = {.struct_size = sizeof memory, .path = memory_path};
  tp_edit *edit;
  *s = (server){.ended = LATCH, .closed = LATCH};
  assert_int_equal(tp_runtime_new(&options, &s->runtime, NULL), TP_OK);
  assert_int_equal(tp_edit_begin(s->runtime, NULL, &edit, NULL), TP_OK);
  assert_int_equal(tp_memory_register(edit, &memory, NULL), TP_OK);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
  assert_int_equal(tp_script_model_new(responses, 1, true, &s->model, NULL), TP_OK);
  for (int i = 0; i < SESSIONS; i++) {
    struct client *c = &s->clients[i];
    tp_model borrowed = *s->model;
    borrowed.destroy = NULL; /* it stays ours */
    c->server = s;
    c->left = TURNS;
    snprintf(c->id, sizeof c->id, "client-%d", i);
    tp_session_options session = {
        .struct_size = sizeof session, .id = c->id, .workspace = shared ? "all" : c->id, .model = &borrowed};
    assert_int_equal(tp_session_open(s->runtime, &session, &c->session, NULL), TP_OK);
  }
}

static void close_server(server *s) {
  tp_drain_report report = {.struct_size = sizeof report};
  for (int i = 0; i < SESSIONS; i++) tp_session_close(s->clients[i].session, session_closed, s);
  latch_wait(&s->closed, SESSIONS);
  assert_int_equal(tp_runtime_drain(s->runtime, DRAIN_MS, &report, NULL), TP_OK);
  assert_int_equal(report.jobs_lost, 0);
  assert_int_equal(report.jobs_dead, 0);
  tp_runtime_free(s->runtime);
  tp_model_free(s->model);
}

static bool add_memories(void *ctx, const tp_memory_scope *scope) {
  *(uint64_t *)ctx += scope->memories;
  return true;
}

static uint64_t count_memories(void) {
  tp_memory *memory;
  uint64_t count = 0;
  assert_int_equal(tp_memory_open(memory_path, &memory, NULL), TP_OK);
  assert_int_equal(tp_memory_scopes(memory, add_memories, &count, NULL), TP_OK);
  tp_memory_close(memory);
  return count;
}

static int open_directory(void **state) {
  int status = make_directory_in_memory(state);
  snprintf(memory_path, sizeof memory_path, "%s-memory", path);
  return status;
}

FOR_EACH_TEST(open_directory, remove_directory);

/* When jobs are in the store's file, the next process with the file runs the rest of them. A backlog of 16 is full at
 * once, and still full at the drain. */
TEST(what_every_turn_said_is_remembered_after_a_drain) {
  static const struct {
    bool has_file, shared;
    size_t jobs_max;
  } rows[] = {{false, false, 0}, {false, true, 0}, {false, false, 16},
              {false, true, 16}, {true, false, 0}, {true, true, 0}};
  for (size_t r = 0; r < COUNT(rows); r++) {
    server s;
    tp_store *store = NULL;
    tp_sqlite_store_options options = {.struct_size = sizeof options, .path = path};
    unlink(path);
    unlink(memory_path);
    if (rows[r].has_file) assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
    open_server(&s, store, rows[r].jobs_max, rows[r].shared);
    for (int i = 0; i < SESSIONS; i++) say(&s.clients[i]);
    latch_wait(&s.ended, SESSIONS);
    int acknowledged = atomic_load(&s.acknowledged);
    assert_int_equal(atomic_load(&s.failed), 0);
    assert_int_equal(acknowledged, SESSIONS * TURNS);
    if (rows[r].has_file) assert_int_equal(tp_jobs_wait(s.runtime, "", DRAIN_MS, NULL), TP_OK);
    close_server(&s);
    assert_int_equal(count_memories(), acknowledged);
  }
}
