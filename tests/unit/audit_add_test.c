/* SPDX-License-Identifier: Apache-2.0
 *
 * Audit rows that a host adds: which are accepted, how their text is shortened, and that a store gets them, whether
 * they were added before the start of the runtime, after it, or to a runtime that never starts. Also the rows about
 * decisions on the trust of declared hooks. */
#include "tests/support/test.h"
#include "tests/support/hook_files.h"
#include "turnphase/sqlite.h"

FOR_EACH_TEST(make_directory, remove_directory);

/* ---- rows as text ---- */

typedef struct rows {
  char text[16384];
  size_t count;
  const char *action; /* NULL: all */
} rows;

static bool keep_row(void *ctx, const tp_audit *row) {
  rows *r = ctx;
  size_t used = strlen(r->text);
  if (r->action && strcmp(row->action, r->action) != 0) return true;
  r->count++;
  snprintf(r->text + used, sizeof r->text - used, "%s %s %s: %s\n", row->action, row->owner,
           tp_status_name(row->status), row->detail);
  return true;
}

static rows rows_of(tp_runtime *runtime, const char *action) {
  rows r = {.action = action};
  (void)tp_runtime_audit(runtime, TP_VISIBILITY_INTERNAL, keep_row, &r);
  return r;
}

static void assert_in(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("`%s` is not in:\n%s", part, text);
}

static tp_status add(tp_runtime *runtime, const char *owner, const char *action, const char *detail) {
  return tp_runtime_audit_add(runtime, owner, action, tp_text_of(detail), TP_OK, NULL);
}

TEST(row_of_a_wrong_form_is_refused_and_leaves_nothing) {
  static const struct {
    const char *owner, *action;
    tp_text detail;
    int decision;
    tp_status status;
  } cases[] = {
      {NULL, "trust", TEXT("a"), TP_OK, TP_ERR_BAD_ID},
      {"", "trust", TEXT("a"), TP_OK, TP_ERR_BAD_ID},
      {"two words", "trust", TEXT("a"), TP_OK, TP_ERR_BAD_ID},
      {"line\n", "trust", TEXT("a"), TP_OK, TP_ERR_BAD_ID},
      {"alice", NULL, TEXT("a"), TP_OK, TP_ERR_USAGE},
      {"alice", "", TEXT("a"), TP_OK, TP_ERR_USAGE},
      {"alice", "Trust", TEXT("a"), TP_OK, TP_ERR_USAGE},
      {"alice", "two words", TEXT("a"), TP_OK, TP_ERR_USAGE},
      {"alice", "a123456789b123456789c123456789d1", TEXT("a"), TP_OK, TP_ERR_USAGE}, /* 32 */
      {"alice", "trust", TEXT("a\xff"), TP_OK, TP_ERR_UTF8},
      {"alice", "trust", TEXT("a"), -1, TP_ERR_USAGE},
      {"alice", "trust", TEXT("a"), 99999, TP_ERR_USAGE},
  };
  tp_runtime *runtime = open_runtime(NULL);
  size_t before = rows_of(runtime, NULL).count;
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_fault fault = {0};
    tp_status status = tp_runtime_audit_add(runtime, cases[i].owner, cases[i].action, cases[i].detail,
                                            (tp_status)cases[i].decision, &fault);
    if (status != cases[i].status) fail_msg("%zu: %s", i, tp_status_name(status));
    assert_int_equal(fault.code, status);
    assert_true(fault.message[0] != '\0');
  }
  assert_int_equal(tp_runtime_audit_add(NULL, "alice", "trust", tp_text_of("a"), TP_OK, NULL), TP_ERR_USAGE);
  assert_int_equal(rows_of(runtime, NULL).count, before);
  assert_int_equal(add(runtime, "alice", "a123456789b123456789c123456789d", ""), TP_OK); /* 31 */
  assert_int_equal(tp_runtime_audit_add(runtime, "bob", "key_1.lent", tp_text_of("to carol"), TP_ERR_DENIED, NULL),
                   TP_OK);
  rows all = rows_of(runtime, NULL);
  assert_int_equal(all.count, before + 2);
  assert_in(all.text, "a123456789b123456789c123456789d alice TP_OK: \n");
  assert_in(all.text, "key_1.lent bob TP_ERR_DENIED: to carol\n");
  close_runtime(runtime);
}

/* ---- redaction and bounds ---- */

static bool take_secret(void *ctx, tp_redaction *redaction) {
  (void)ctx;
  char *at = redaction->place == TP_REDACT_AUDIT ? memmem(redaction->text, redaction->size, "hunter2", 7) : NULL;
  if (!at) return true;
  redaction->size -= 7;
  memmove(at, at + 7, (size_t)(redaction->text + redaction->size - at));
  return true;
}

TEST(detail_is_redacted_before_it_is_cut) {
  tp_runtime_options options = {.struct_size = sizeof options, .redact = take_secret};
  tp_runtime *runtime = open_runtime(&options);
  for (size_t head = 240; head < 262; head++) {
    char detail[512];
    snprintf(detail, sizeof detail, "%0*d hunter2 %0100d", (int)head, 0, 1);
    assert_int_equal(add(runtime, "alice", "lent", detail), TP_OK);
  }
  rows all = rows_of(runtime, "lent");
  assert_int_equal(all.count, 22);
  assert_null(strstr(all.text, "hunt"));
  for (const char *line = all.text; *line; line = strchr(line, '\n') + 1)
    assert_int_equal(strcspn(line, "\n"), strlen("lent alice TP_OK: ") + 255);
  close_runtime(runtime);
}

/* ---- stores ---- */

/* What the store of a test was given; the rest goes to one in memory. */
typedef struct kept {
  rows rows;
  int opens, recovers;
  tp_status refuses;
} kept;
static kept k;

static tp_status open_kept(void *ctx, const tp_store_owner *owner, tp_fault *fault) {
  (void)ctx;
  (void)owner;
  (void)fault;
  k.opens++;
  return k.refuses;
}

static tp_status recover_kept(void *ctx, tp_store_recovery *found, tp_fault *fault) {
  (void)ctx;
  (void)found;
  (void)fault;
  k.recovers++;
  return TP_OK;
}

static tp_status keep_audit(void *ctx, const tp_audit *row) {
  (void)ctx;
  if (k.opens > 0) (void)keep_row(&k.rows, row); /* a row before the store is open is lost */
  return TP_OK;
}

static tp_runtime *open_stored(const kept *begins) {
  static tp_store store;
  tp_store *memory;
  k = *begins;
  assert_int_equal(tp_store_memory_new(NULL, NULL, &memory, NULL), TP_OK);
  store = *memory;
  store.open = open_kept;
  store.recover = recover_kept;
  store.audit = keep_audit;
  tp_runtime_options options = {.struct_size = sizeof options, .store = &store};
  return open_runtime(&options);
}

TEST(store_has_rows_from_before_and_after_the_start_once_each) {
  tp_runtime *runtime = open_stored(&(kept){.rows = {.action = "lent"}});
  assert_int_equal(add(runtime, "alice", "lent", "first"), TP_OK);
  assert_int_equal(k.rows.count, 0);
  assert_int_equal(tp_runtime_start(runtime, NULL), TP_OK);
  assert_string_equal(k.rows.text, "lent alice TP_OK: first\n");
  assert_int_equal(add(runtime, "bob", "lent", "second"), TP_OK);
  close_runtime(runtime);
  assert_string_equal(k.rows.text, "lent alice TP_OK: first\nlent bob TP_OK: second\n");
  assert_int_equal(k.opens, 1);
  assert_int_equal(k.recovers, 1);
}

TEST(store_of_a_runtime_that_never_started_has_what_the_host_added) {
  static const struct {
    bool adds, drains;
    tp_status refuses;
    int opens;
    const char *text;
  } cases[] = {{true, false, TP_OK, 1, "lent alice TP_OK: first\n"},
               {true, true, TP_OK, 1, "lent alice TP_OK: first\n"},
               {false, false, TP_OK, 0, ""}, /* nothing that anybody has to know */
               {true, false, TP_ERR_STORE, 1, ""}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_runtime *runtime = open_stored(&(kept){.rows = {.action = "lent"}, .refuses = cases[i].refuses});
    if (cases[i].adds) assert_int_equal(add(runtime, "alice", "lent", "first"), TP_OK);
    if (cases[i].drains) assert_int_equal(tp_runtime_drain(runtime, 0, NULL, NULL), TP_OK);
    close_runtime(runtime);
    assert_int_equal(k.opens, cases[i].opens);
    assert_int_equal(k.recovers, 0);
    if (cases[i].refuses == TP_OK) assert_string_equal(k.rows.text, cases[i].text);
  }
}

TEST(sqlite_has_the_rows_of_a_runtime_that_never_started) {
  char file[128];
  rows r = {.action = "lent"};
  tp_store *store;
  snprintf(file, sizeof file, "%s/a.db", directory);
  tp_sqlite_store_options stored = {.struct_size = sizeof stored, .path = file};
  for (int start = 0; start < 2; start++) {
    assert_int_equal(tp_sqlite_store_open(&stored, &store, NULL), TP_OK);
    tp_runtime_options options = {.struct_size = sizeof options, .store = store};
    tp_runtime *runtime = open_runtime(&options);
    assert_int_equal(add(runtime, "alice", "lent", start ? "second" : "first"), TP_OK);
    if (start) assert_int_equal(tp_runtime_start(runtime, NULL), TP_OK);
    close_runtime(runtime);
  }
  assert_int_equal(tp_sqlite_store_open(&stored, &store, NULL), TP_OK);
  assert_int_equal(store->audits(store->ctx, NULL, keep_row, &r, NULL), TP_OK);
  tp_store_free(store);
  assert_string_equal(r.text, "lent alice TP_OK: second\nlent alice TP_OK: first\n");
}

static tp_answer adds_row(void *ctx, tp_call *call) {
  (void)call;
  return add(*(tp_runtime **)ctx, "guard", "noted", "from inside") == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_NONE;
}

TEST(handler_adds_a_row_from_inside) {
  tp_runtime *runtime = open_stored(&(kept){.rows = {.action = "noted"}});
  tp_hook guard = {
      .struct_size = sizeof guard, .id = "guard", .phase = "turn.intake", .run = adds_row, .ctx = &runtime};
  assert_int_equal(tp_hook_add(runtime, &guard, NULL), TP_OK);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = run_phase(turn, TP_PHASE_TURN_INTAKE, NULL);
  tp_phase_result_release(turn, &result);
  tp_turn_end(turn);
  close_runtime(runtime);
  assert_string_equal(k.rows.text, "noted guard TP_OK: from inside\n");
}

/* ---- trust ---- */

static void write_guard(const char *script) {
  write_named("guard.yaml", "id: guard\nevent: tool.pre\nhandler: {command: [sh, guard.sh], timeout_ms: 20000}\n");
  write_program("guard.sh", script);
}

static tp_hooks *read_here(tp_runtime *runtime, const char *trusted_by) {
  tp_hooks_options options = hooks_options();
  tp_hooks *hooks;
  tp_fault fault = {0};
  options.trusted_by = trusted_by;
  if (read_hooks(runtime, &options, &hooks, &fault) != TP_OK) fail_msg("%s", fault.message);
  return hooks;
}

TEST(trust_is_a_row_when_it_is_given_refused_and_lost) {
  tp_runtime *runtime = open_runtime(NULL);
  char line[256];
  write_guard("exit 0\n");
  tp_hooks *hooks = read_here(runtime, NULL), *later;
  assert_int_equal(tp_hooks_commit(hooks, "team", NULL, NULL, NULL), TP_ERR_USAGE);
  snprintf(line, sizeof line, "trust team TP_ERR_USAGE: refused: content %.12s is not trusted, %s\n",
           tp_hooks_hash(hooks), directory);
  assert_string_equal(rows_of(runtime, "trust").text, line);
  assert_int_equal(tp_hooks_commit(hooks, "team", tp_hooks_hash(hooks), NULL, NULL), TP_OK);
  snprintf(line, sizeof line, "trust team TP_OK: given: content %.12s, ", tp_hooks_hash(hooks));
  assert_in(rows_of(runtime, "trust").text, line);
  assert_in(rows_of(runtime, "trust").text, " files of code, ");
  write_guard("exit 1\n");
  later = read_here(runtime, "alice");
  for (int i = 0; i < 3; i++) /* however often it is asked for: it is one decision */
    assert_int_equal(tp_hooks_replace(later, hooks, "team", NULL, NULL, NULL), TP_ERR_USAGE);
  snprintf(line, sizeof line, "trust alice TP_ERR_USAGE: lost: guard.sh has changed; content %.12s is not trusted, ",
           tp_hooks_hash(later));
  assert_in(rows_of(runtime, "trust").text, line);
  assert_int_equal(rows_of(runtime, "trust").count, 3);
  assert_int_equal(tp_hooks_replace(later, hooks, "team", tp_hooks_hash(later), NULL, NULL), TP_OK);
  snprintf(line, sizeof line, "trust alice TP_OK: given: content %.12s, ", tp_hooks_hash(later));
  assert_in(rows_of(runtime, "trust").text, line);
  tp_hooks *same = read_here(runtime, "alice"); /* nothing is decided about what was decided */
  assert_int_equal(tp_hooks_replace(same, later, "team", tp_hooks_hash(same), NULL, NULL), TP_OK);
  assert_int_equal(rows_of(runtime, "trust").count, 4);
  tp_hooks_free(same);
  tp_hooks_free(later);
  tp_hooks_free(hooks);
  close_runtime(runtime);
}

TEST(code_that_is_refused_at_a_start_is_a_row_for_each_hook) {
  static const char *const yamls[] = {
      "id: guard\nevent: tool.pre\nhandler: {command: [sh, guard.sh], timeout_ms: 20000}\n",
      "id: guard\nevent: tool.pre\nhandler: {kind: worker, command: [sh, guard.sh], timeout_ms: 20000}\n"};
  for (size_t i = 0; i < COUNT(yamls); i++) {
    write_guard("exit 0\n");
    write_named("guard.yaml", yamls[i]);
    tp_runtime *runtime = open_with_hooks(NULL);
    write_program("guard.sh", "exit 0 # another one\n");
    tp_turn *turn = begin_bare(runtime, 60000);
    for (int times = 0; times < 3; times++) {
      tp_phase_result result = run_phase(turn, TP_PHASE_TOOL_PRE, NULL);
      tp_phase_result_release(turn, &result);
    }
    tp_turn_end(turn);
    rows trust = rows_of(runtime, "trust");
    assert_int_equal(trust.count, 2);
    assert_in(trust.text, "trust declared TP_ERR_USAGE: refused code: guard does not start: guard.sh has changed: ");
    close_runtime(runtime);
  }
}

TEST(name_of_who_trusts_is_an_id) {
  static const char *const names[] = {"", "two words", "line\n", "\xff", "\t"};
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks_options options = hooks_options();
  for (size_t i = 0; i < COUNT(names); i++) {
    tp_hooks *hooks = NULL;
    options.trusted_by = names[i];
    assert_int_equal(tp_hooks_read(runtime, &options, &hooks, NULL), TP_ERR_BAD_ID);
    assert_null(hooks);
  }
  close_runtime(runtime);
}
