/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions to people, in the file of a store. A thread that puts a question copies it into a list. The thread of this
 * file writes the row, delivers answers that exist already, and looks for answers while any call waits. Lock: the
 * mutex, for the list of questions that were put and not yet written. Only the thread uses the waiting ones. */
#include <pthread.h>
#include <stdio.h>

#include "stores/sqlite/schema.h"
#include "stores/sqlite/sqlite.h"
#include "support/decision.h"

enum { POLL_MS = 200, KEPT_DAYS = 7 };

/** A question for which a call waits, followed by its texts. */
typedef struct waiting {
  struct waiting *next;
  tp_token token;
  tp_kept_question row; /* number 0: not written */
} waiting;

struct tp_sqlite_questions {
  /* never change after open */
  char *path;
  tp_log_fn log;
  void *log_ctx;
  uint32_t poll_ms;
  pthread_t thread;
  tp__lock mutex;
  tp__lock_condition changed;
  /* under mutex */
  waiting *put, **put_last; /* the oldest first */
  bool ends;
  /* the thread's */
  sqlite3 *db;
  waiting *open;
  bool is_failing;
};

/* ---- what is put ---- */

#define QUESTION(member, column, type) TP__ITEM_##type(tp_kept_question, member),
static const tp__column question_columns[] = {TP__QUESTION_LIST(QUESTION, QUESTION)};
static const tp__columns question_row = TP__COLUMNS(tp_kept_question, question_columns);

/* Which call asks. */
#define CALL(member) TP__COLUMN(tp_kept_question, member)
static const tp__column call_columns[] = {CALL(turn),   CALL(call_id), CALL(session),
                                          CALL(tenant), CALL(tool),    CALL(arguments_hash)};
static const tp__columns calls = TP__COLUMNS(tp_kept_question, call_columns);

static waiting *copy_put_question(const tp_question *q) {
  const tp_kept_question row = {.struct_size = sizeof row,
                                .is_waited_for = 1,
                                .expires_unix_ms = q->expires_unix_ms,
                                .tenant = q->ids[TP_ID_TENANT],
                                .agent = q->ids[TP_ID_AGENT],
                                .session = q->ids[TP_ID_SESSION],
                                .turn = q->ids[TP_ID_TURN],
                                .tool = q->call->name,
                                .call_id = q->call->id,
                                .arguments = q->call->arguments,
                                .arguments_hash = q->arguments_hash,
                                .subscription = q->subscription,
                                .reason = q->reason};
  waiting *w = sqlite3_malloc64(sizeof *w + tp__sqlite_texts_bytes(&question_row, &row));
  if (!w) return NULL;
  *w = (waiting){.token = q->token, .row = row};
  char *at = (char *)(w + 1);
  tp__sqlite_put_texts(&question_row, &w->row, &at);
  return w;
}

void tp_sqlite_questions_put(void *questions, const tp_question *question) {
  if (!question) return;
  tp_sqlite_questions *box = questions;
  waiting *w = copy_put_question(question);
  if (!w) {
    (void)!tp_token_abandon(question->token, NULL);
    return;
  }
  tp__lock_acquire(&box->mutex);
  *box->put_last = w;
  box->put_last = &w->next;
  tp__lock_condition_signal(&box->changed);
  tp__lock_release(&box->mutex);
}

/* ---- the rows ---- */

#define SAME_CALL " turn = ?1 AND call_id = ?2 AND session = ?3 AND tenant = ?4 AND tool = ?5 AND hash = ?6"

/* The row of the same question from an earlier process whose answer no call has got. A row that was answered in time
 * counts even after its expiry. */
static int find_row(sqlite3 *db, waiting *w) {
  sqlite3_stmt *find;
  static const char sql[] = "SELECT number FROM question WHERE" SAME_CALL
                            " AND used_ms = 0 AND (state <> 0 OR expires_ms > ?7) ORDER BY number DESC LIMIT 1";
  int rc = sqlite3_prepare_v2(db, sql, -1, &find, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_struct(find, 1, &calls, &w->row);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(find, 7, tp__wall_ms());
  if (rc == SQLITE_OK) rc = sqlite3_step(find);
  if (rc == SQLITE_ROW) w->row.number = (uint64_t)sqlite3_column_int64(find, 0);
  sqlite3_finalize(find);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int insert_row(sqlite3 *db, waiting *w) {
  sqlite3_stmt *insert;
  static const char sql[] =
      "INSERT INTO question (" TP__SQL_NAMES(TP__QUESTION_LIST) ") VALUES (" TP__SQL_PARAMETERS(TP__QUESTION_LIST) ")";
  int rc = sqlite3_prepare_v2(db, sql, -1, &insert, NULL);
  w->row.asked_unix_ms = tp__wall_ms();
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_struct(insert, 1, &question_row, &w->row);
  if (rc == SQLITE_OK) rc = sqlite3_bind_null(insert, 1); /* the next number */
  if (rc == SQLITE_OK) rc = sqlite3_step(insert);
  sqlite3_finalize(insert);
  if (rc != SQLITE_DONE) return rc;
  w->row.number = (uint64_t)sqlite3_last_insert_rowid(db);
  return SQLITE_OK;
}

static int update(sqlite3 *db, const char *sql, uint64_t number, int64_t other) {
  return tp__sqlite_once(db, sql, (const int64_t[]){(int64_t)number, other}, 2, NULL);
}

static int write_row(sqlite3 *db, waiting *w) {
  int rc = tp__sqlite_begin(db);
  if (rc == SQLITE_OK) rc = find_row(db, w);
  if (rc == SQLITE_OK && w->row.number)
    rc = update(db, "UPDATE question SET waits = 1, expires_ms = ?2 WHERE number = ?1", w->row.number,
                w->row.expires_unix_ms);
  else if (rc == SQLITE_OK) rc = insert_row(db, w);
  return tp__sqlite_end(db, rc);
}

/* ---- the thread ---- */

static void note_box_error(tp_sqlite_questions *box, const char *doing, int rc) {
  tp_fault fault = {0};
  tp_status status = tp__sqlite_fail(box->db, box->path, doing, rc, &fault);
  bool first = !box->is_failing;
  box->is_failing = true;
  if (first) tp__sqlite_log(box->log, box->log_ctx, TP_LOG_ERROR, status, fault.message);
}

/* An answer is marked as used before a call gets it, so only one call gets it. @return whether this call gets it. */
static bool use_answer(sqlite3 *db, uint64_t number, int *ret_rc) {
  *ret_rc = update(
      db,
      "UPDATE question SET used_ms = ?2, waits = 0, arguments = x'', edited = x'' WHERE number = ?1 AND used_ms = 0",
      number, tp__wall_ms());
  return *ret_rc == SQLITE_OK && sqlite3_changes(db) == 1;
}

/* Another call, of a process that runs the same turn, has got the answer. So this call waits for an answer of its
 * own. */
static bool ask_anew(tp_sqlite_questions *box, waiting *w) {
  w->row.number = 0;
  int rc = write_row(box->db, w);
  if (rc == SQLITE_OK) return true;
  note_box_error(box, "write a question", rc);
  (void)!tp_token_abandon(w->token, NULL);
  return false;
}

/* The call gets the answer in the row, if there is one. @return whether the question is done. */
static bool deliver(tp_sqlite_questions *box, waiting *w) {
  sqlite3_stmt *row;
  bool over = false, is_taken = false;
  tp_decision decision = {.struct_size = sizeof decision, .arguments_hash = w->row.arguments_hash};
  static const char sql[] = "SELECT state, person, answer, edited FROM question WHERE number = ?1 AND state <> 0";
  int rc = sqlite3_prepare_v2(box->db, sql, -1, &row, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(row, 1, (int64_t)w->row.number);
  if (rc == SQLITE_OK) rc = sqlite3_step(row);
  if (rc == SQLITE_ROW) {
    bool allowed = sqlite3_column_int(row, 0) == TP_QUESTION_ALLOWED;
    decision.verdict = allowed ? TP_VERDICT_ALLOW : TP_VERDICT_DENY;
    decision.person = tp__sqlite_column(row, 1);
    decision.reason = tp__sqlite_column(row, 2);
    decision.arguments = tp__sqlite_column(row, 3);
    over = use_answer(box->db, w->row.number, &rc);
    is_taken = rc == SQLITE_OK && !over;
    if (over) (void)!tp_question_answer(w->token, &decision, NULL); /* else the call is over */
  }
  sqlite3_finalize(row);
  if (rc != SQLITE_OK && rc != SQLITE_DONE) note_box_error(box, "read an answer", rc);
  else box->is_failing = false;
  return is_taken ? !ask_anew(box, w) : over;
}

/* The turn does not wait any more. The row stays open until it expires, for a turn that asks again. */
static void leave_question(tp_sqlite_questions *box, const waiting *w) {
  int rc = update(box->db, "UPDATE question SET waits = 0 WHERE number = ?1 AND used_ms = ?2", w->row.number, 0);
  if (rc != SQLITE_OK) note_box_error(box, "leave a question", rc);
}

/* A question that cannot be written is given up: the call is denied. */
static void take_questions(tp_sqlite_questions *box, waiting *list) {
  while (list) {
    waiting *w = list;
    list = w->next;
    int rc = write_row(box->db, w);
    if (rc == SQLITE_OK) {
      w->next = box->open;
      box->open = w;
      continue;
    }
    note_box_error(box, "write a question", rc);
    (void)!tp_token_abandon(w->token, NULL);
    sqlite3_free(w);
  }
}

static void wait_locked(tp_sqlite_questions *box) {
  TP__LOCKED(&box->mutex);
  assert(!box->put && !box->ends); /* otherwise there is work to do */
  if (!box->open) {
    tp__lock_condition_wait(&box->changed, &box->mutex);
    return;
  }
  (void)tp__lock_condition_wait_until(&box->changed, &box->mutex, tp__monotonic_ns() + box->poll_ms * TP__NS_IN_MS);
}

#ifdef TP_CHECKS
static void questions_check_locked(const tp_sqlite_questions *box) {
  TP__LOCKED(&box->mutex);
  /* The end of an empty queue is its begin. */
  assert(box->put ? box->put_last != &box->put : box->put_last == &box->put);
  assert(!*box->put_last);
  assert(box->poll_ms > 0);
}
#endif

static void *run_box(void *ctx) {
  tp_sqlite_questions *box = ctx;
  tp__lock_acquire(&box->mutex);
  for (;;) {
    TP__CHECK(questions_check_locked(box));
    waiting *list = box->put;
    box->put = NULL;
    box->put_last = &box->put;
    bool ends = box->ends;
    tp__lock_release(&box->mutex);
    take_questions(box, list);
    for (waiting **at = &box->open; *at;) {
      waiting *w = *at;
      bool is_open = tp_token_open(w->token), over = !is_open || deliver(box, w);
      if (!is_open) leave_question(box, w);
      if (over) {
        *at = w->next;
        sqlite3_free(w);
      } else {
        at = &w->next;
      }
    }
    if (ends) return NULL;
    tp__lock_acquire(&box->mutex);
    if (!box->put && !box->ends) wait_locked(box);
  }
}

/* ---- life ---- */

static void free_box(tp_sqlite_questions *box) {
  sqlite3_close(box->db);
  sqlite3_free(box->path);
  sqlite3_free(box);
}

static int delete_old(sqlite3 *db) {
  return update(db, "DELETE FROM question WHERE expires_ms < ?2 OR number = ?1", 0,
                tp__wall_ms() - (int64_t)KEPT_DAYS * 86400000);
}

static tp_status start_box(tp_sqlite_questions *box, tp_fault *fault) {
  tp_status status = tp__sqlite_open(box->path, &tp__sqlite_store_schema, &box->db, fault);
  int rc = status == TP_OK ? delete_old(box->db) : SQLITE_OK;
  if (rc != SQLITE_OK) return tp__sqlite_fail(box->db, box->path, "delete old questions", rc, fault);
  if (status != TP_OK) return status;
  tp__lock_init(&box->mutex, TP__LOCK_questions);
  tp__lock_condition_init(&box->changed);
  if (tp__thread_spawn(&box->thread, run_box, box) == 0) return TP_OK;
  tp__lock_condition_fini(&box->changed);
  tp__lock_fini(&box->mutex);
  return tp__refuse(fault, TP_ERR_NO_THREAD, box->path, "%s: no thread for questions", box->path);
}

tp_status tp_sqlite_questions_open(const tp_sqlite_questions_options *theirs, tp_sqlite_questions **ret_questions,
                                   tp_fault *fault) {
  tp_sqlite_questions_options options = {.struct_size = 0};
  if (!theirs || !ret_questions)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_questions_options and ret_questions are required");
  tp_status status = tp__struct_read(&options, sizeof options, theirs, "tp_sqlite_questions_options", fault);
  if (status != TP_OK) return status;
  if (!options.path || !*options.path)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_questions_options.path is required");
  if (options.reserved_)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_questions_options.reserved_ must be zero");
  tp_sqlite_questions *box = sqlite3_malloc64(sizeof *box);
  if (!box) return tp__refuse(fault, TP_ERR_NO_MEMORY, options.path, "no memory for questions");
  *box = (tp_sqlite_questions){.path = sqlite3_mprintf("%s", options.path),
                               .log = options.log,
                               .log_ctx = options.log_ctx,
                               .poll_ms = options.poll_ms ? options.poll_ms : POLL_MS};
  box->put_last = &box->put;
  status =
      box->path ? start_box(box, fault) : tp__refuse(fault, TP_ERR_NO_MEMORY, options.path, "no memory for questions");
  if (status == TP_OK) *ret_questions = box;
  else free_box(box);
  return status;
}

void tp_sqlite_questions_close(tp_sqlite_questions *box) {
  if (!box) return;
  tp__lock_acquire(&box->mutex);
  box->ends = true;
  tp__lock_condition_signal(&box->changed);
  tp__lock_release(&box->mutex);
  pthread_join(box->thread, NULL);
  while (box->open) {
    waiting *w = box->open;
    box->open = w->next;
    leave_question(box, w);
    (void)!tp_token_abandon(w->token, NULL);
    sqlite3_free(w);
  }
  tp__lock_condition_fini(&box->changed);
  tp__lock_fini(&box->mutex);
  free_box(box);
}

/* ---- another process ---- */

typedef struct receiver {
  tp_kept_question_fn each;
  void *ctx;
} receiver;

static bool show_question(sqlite3_stmt *row, const tp__rows *parts, void *ctx) {
  const receiver *to = ctx;
  tp_kept_question question;
  (void)parts;
  tp__sqlite_read_struct(row, 0, &question_row, &question);
  return to->each(to->ctx, &question);
}

tp_status tp_sqlite_questions_list(const char *path, bool open_only, tp_kept_question_fn each, void *ctx,
                                   tp_fault *fault) {
  sqlite3 *db = NULL;
  if (!path || !each) return tp__refuse(fault, TP_ERR_USAGE, NULL, "a path and a callback are required");
  tp_status status = tp__sqlite_open_read_only(path, &tp__sqlite_store_schema, &db, fault);
  if (status != TP_OK) return status;
  static const char sql[] = "SELECT " TP__SQL_NAMES(
      TP__QUESTION_LIST) " FROM question WHERE ?1 = 0 OR (state = 0 AND expires_ms > ?2) ORDER BY number";
  const tp__listing listing = {.sql = sql,
                               .values = (const int64_t[]){open_only, tp__wall_ms()},
                               .count = 2,
                               .show = show_question,
                               .ctx = &(receiver){each, ctx}};
  int rc = tp__sqlite_list(db, &listing);
  if (rc != SQLITE_OK) status = tp__sqlite_fail(db, path, "read questions", rc, fault);
  sqlite3_close(db);
  return status;
}

static int write_answer(sqlite3 *db, int64_t number, const tp_decision *d, int *ret_changed) {
  sqlite3_stmt *write;
  bool allowed = d->verdict == TP_VERDICT_ALLOW;
  const int64_t values[] = {number, allowed ? TP_QUESTION_ALLOWED : TP_QUESTION_DENIED, tp__wall_ms()};
  int rc = sqlite3_prepare_v2(db,
                              "UPDATE question SET state = ?2, answered_ms = ?3, person = ?4, answer = ?5, edited = ?7"
                              " WHERE number = ?1 AND state = 0 AND expires_ms > ?3 AND (?6 = '' OR hash = ?6)",
                              -1, &write, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(write, values, 3);
  const tp_text texts[] = {d->person, d->reason, d->arguments_hash};
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_texts(write, 4, texts, 3);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_blob(write, 7, d->arguments);
  if (rc == SQLITE_OK) rc = sqlite3_step(write);
  *ret_changed = rc == SQLITE_DONE ? sqlite3_changes(db) : 0;
  sqlite3_finalize(write);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static tp_status why_not(sqlite3 *db, const char *path, uint64_t number, tp_fault *fault) {
  static const char sql[] =
      "SELECT CASE WHEN state <> 0 THEN 1 WHEN expires_ms <= ?2 THEN 2 ELSE 3 END FROM question WHERE number = ?1";
  static const char *const whys[] = {"", "was answered before", "has expired: its call was denied",
                                     "was asked with other arguments"};
  int64_t why = 0;
  int rc = tp__sqlite_once(db, sql, (const int64_t[]){(int64_t)number, tp__wall_ms()}, 2, &why);
  if (rc != SQLITE_OK) return tp__sqlite_fail(db, path, "read a question", rc, fault);
  if (why == 0)
    return tp__refuse(fault, TP_ERR_NOT_FOUND, path, "there is no question %llu in %s", (unsigned long long)number,
                      path);
  return tp__refuse(fault, TP_ERR_STALE, path, "question %llu %s", (unsigned long long)number, whys[why]);
}

tp_status tp_sqlite_question_answer(const char *path, uint64_t number, const tp_decision *theirs, tp_fault *fault) {
  tp_decision decision = {.struct_size = 0};
  sqlite3 *db = NULL;
  int changed = 0;
  if (!path) return tp__refuse(fault, TP_ERR_USAGE, NULL, "a path is required");
  tp_status status = tp__decision_read(theirs, &decision, fault);
  if (status == TP_OK)
    status = tp__sqlite_open_read_only(path, &tp__sqlite_store_schema, &db, fault); /* it is a store, and there */
  sqlite3_close(db);
  if (status == TP_OK) status = tp__sqlite_open(path, &tp__sqlite_store_schema, &db, fault);
  if (status != TP_OK) return status;
  int rc = write_answer(db, (int64_t)number, &decision, &changed);
  if (rc != SQLITE_OK) status = tp__sqlite_fail(db, path, "write an answer", rc, fault);
  else if (changed == 0) status = why_not(db, path, number, fault);
  sqlite3_close(db);
  return status;
}
