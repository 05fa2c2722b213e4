/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions to people in a database. The thread that puts a question copies it into a list. The channel's own thread
 * writes the row, answers a question that was answered before, and looks for answers while any call waits. The server's
 * clock says when a question was asked and expires: a host gives only how long it may be answered.
 *
 * batch is the number of the call that asked last and waits for the row; taken is first the number of the answer, then
 * that of the call that has the answer. By these numbers a change is recognized whose commit was not acknowledged. The
 * row of the session is locked while a row of a question is searched or made, so that two hosts that run the same turn
 * ask only once.
 * Lock: the mutex, for questions that are not yet written; only the thread uses the waiting ones. */
#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "stores/postgres/job_rows.h"
#include "support/clock.h"
#include "support/decision.h"
#include "support/fault.h"

enum { POLL_MS = 1000, KEPT_DAYS = 7, DAY_MS = 86400000 };

enum {
  TENANT,
  SESSION,
  TURN,
  TOOL,
  CALL_ID,
  HASH,
  CALL_TEXTS,
  AGENT = CALL_TEXTS,
  ARGUMENTS,
  SUBSCRIPTION,
  REASON,
  TEXTS
};

/** A question that a call waits for, with its texts after it. */
typedef struct waiting {
  struct waiting *next;
  size_t size;
  tp_token token;
  int64_t number; /* the number of its row; 0: not written */
  int64_t batch;
  int64_t call_hash;
  int64_t expires_ms;   /* on this machine's clock */
  tp_text texts[TEXTS]; /* the first CALL_TEXTS of them identify the call */
} waiting;

struct tp_postgres_questions {
  /* never change after open */
  tp_postgres *postgres; /* holds a reference */
  tp_log_fn log;
  void *log_ctx;
  uint32_t poll_ms;
  pthread_t thread;
  tp__lock mutex;
  tp__lock_condition changed;
  /* under mutex */
  waiting *put, **put_last; /* the oldest one first */
  bool ends;
  /* used by the thread only */
  waiting *open;
  size_t open_count;
  bool is_failing;
};

/* ---- what is put ---- */

static waiting *copy_question(const tp_question *q) {
  const tp_text texts[TEXTS] = {[TENANT] = q->ids[TP_ID_TENANT],  [SESSION] = q->ids[TP_ID_SESSION],
                                [TURN] = q->ids[TP_ID_TURN],      [TOOL] = q->call->name,
                                [CALL_ID] = q->call->id,          [HASH] = q->arguments_hash,
                                [AGENT] = q->ids[TP_ID_AGENT],    [ARGUMENTS] = q->call->arguments,
                                [SUBSCRIPTION] = q->subscription, [REASON] = q->reason};
  size_t size = sizeof(waiting);
  for (int i = 0; i < TEXTS; i++) size += texts[i].size;
  waiting *w = tp__heap_alloc(size);
  if (!w) return NULL;
  w->size = size;
  w->token = q->token;
  w->expires_ms = q->expires_unix_ms;
  char *at = (char *)(w + 1);
  for (int i = 0; i < TEXTS; i++) {
    w->texts[i] = (tp_text){at, texts[i].size};
    if (texts[i].size) memcpy(at, texts[i].data, texts[i].size);
    at += texts[i].size;
  }
  w->call_hash = tp__pg_short_hash(w->texts, CALL_TEXTS);
  return w;
}

static void waiting_free(waiting *w) { tp__heap_free(w, w->size); }

void tp_postgres_questions_put(void *questions, const tp_question *question) {
  if (!question) return;
  tp_postgres_questions *box = questions;
  waiting *w = copy_question(question);
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

#define NOW TP__PG_NOW("-1")
static const char lock_session[] =
    "SELECT s.id FROM @.session s WHERE s.tenant = $1::text AND s.name = $2::text FOR UPDATE";
/* 1 call_hash, 2 tenant, 3 session, 4 turn, 5 tool, 6 call_id, 7 hash, 8 batch, 9 for how many ms it may be answered,
 * 10 agent, 11 arguments, 12 subscription, 13 reason. */
#define SAME_CALL                                                                                          \
  "call_hash = $1::bigint AND tenant = $2::bytea AND session = $3::bytea AND turn = $4::bytea AND tool = " \
  "$5::bytea AND call_id = $6::bytea AND hash = $7::bytea"
/* Takes over the row of the same question that an earlier process asked, and whose answer no call has. An answer that
 * was given in time counts also after the question would have expired. */
static const char ask_again[] =
    "UPDATE @.question SET waits = true, batch = $8::bigint, expires_ms = " NOW
    " + $9::bigint WHERE number = (SELECT number FROM @.question WHERE " SAME_CALL
    " AND used_ms = 0 AND (state <> 0 OR expires_ms > " NOW ") ORDER BY number DESC LIMIT 1 FOR UPDATE)";
static const char ask[] =
    "INSERT INTO @.question (call_hash, tenant, session, turn, tool, call_id, hash, batch, expires_ms, agent,"
    " arguments, subscription, reason, asked_ms, state, waits, answered_ms, used_ms, taken, person, answer, edited)"
    " SELECT $1::bigint, $2::bytea, $3::bytea, $4::bytea, $5::bytea, $6::bytea, $7::bytea, $8::bigint, " NOW
    " + $9::bigint, $10::bytea, $11::bytea, $12::bytea, $13::bytea, " NOW
    ", 0, true, 0, 0, 0, '', '', '' WHERE NOT EXISTS"
    " (SELECT 1 FROM @.question x WHERE x.call_hash = $1::bigint AND x.batch = $8::bigint)";
static const char find_asked[] =
    "SELECT number FROM @.question WHERE call_hash = $1::bigint AND batch = $2::bigint ORDER BY number DESC LIMIT 1";

/* Whether the names of a session can be in the table of sessions. */
static bool is_name(tp_text text) { return tp_utf8_valid(text, NULL) && !memchr(text.data, 0, text.size); }

static void put_call(tp__pg_parameters *p, const waiting *w) {
  int64_t rest_ms = w->expires_ms - tp__wall_ms();
  tp__pg_parameter_int(p, w->call_hash);
  for (int i = 0; i < CALL_TEXTS; i++) tp__pg_parameter_text(p, w->texts[i]);
  tp__pg_parameter_int(p, w->batch);
  tp__pg_parameter_int(p, rest_ms > 0 ? rest_ms : 0);
}

static tp_status write_row(tp_postgres_questions *box, waiting *w, tp_fault *fault) {
  tp__pg_request r;
  bool has_names = is_name(w->texts[TENANT]) && is_name(w->texts[SESSION]);
  w->batch = tp__pg_next_batch(box->postgres);
  w->number = 0;
  tp__pg_request_init(&r, box->postgres, TP__PG_WRITES, "keep a question");
  tp__pg_parameters *p = tp__pg_request_add(&r, lock_session);
  for (int i = TENANT; i <= SESSION; i++) tp__pg_parameter_text(p, has_names ? w->texts[i] : (tp_text){"", 0});
  put_call(tp__pg_request_add(&r, ask_again), w);
  p = tp__pg_request_add(&r, ask);
  put_call(p, w);
  for (int i = AGENT; i < TEXTS; i++) tp__pg_parameter_text(p, w->texts[i]);
  p = tp__pg_request_add(&r, find_asked);
  tp__pg_parameter_int(p, w->call_hash);
  tp__pg_parameter_int(p, w->batch);
  tp_status status = tp__pg_request_run(&r, fault);
  const PGresult *found = status == TP_OK ? tp__pg_request_rows(&r, 3) : NULL;
  if (status == TP_OK && PQntuples(found) == 1) w->number = tp__pg_int(found, 0, 0);
  else if (status == TP_OK)
    status = tp__refuse(fault, TP_ERR_STORE, box->postgres->target.name, "%s: a question was deleted at once",
                        box->postgres->target.name);
  tp__pg_request_fini(&r);
  return status;
}

/* ---- the thread ---- */

static void note(tp_postgres_questions *box, tp_status status, const tp_fault *fault) {
  bool is_first = !box->is_failing;
  box->is_failing = true;
  if (!is_first || !box->log) return;
  const tp_log_record record = {
      .struct_size = sizeof record, .level = TP_LOG_ERROR, .status = status, .message = fault->message};
  box->log(box->log_ctx, &record);
}

static void deny(waiting *w) {
  (void)!tp_token_abandon(w->token, NULL);
  waiting_free(w);
}

/* Writes the questions. A question that cannot be written is given up: the call is denied. */
static void take(tp_postgres_questions *box, waiting *list) {
  while (list) {
    waiting *w = list;
    tp_fault fault = {0};
    list = w->next;
    tp_status status = write_row(box, w, &fault);
    if (status == TP_OK) {
      w->next = box->open;
      box->open = w;
      box->open_count++;
    } else {
      note(box, status, &fault);
      deny(w);
    }
  }
}

static void put_marks(tp__pg_parameters *p, const waiting *list, size_t count) {
  tp__bytes *numbers = tp__pg_parameter_array(p, TP__PG_INT8, count);
  for (const waiting *w = list; w; w = w->next) tp__pg_put_int(numbers, w->number);
  tp__bytes *marks = tp__pg_parameter_array(p, TP__PG_INT8, count);
  for (const waiting *w = list; w; w = w->next) tp__pg_put_int(marks, w->batch);
}

#define MARKS "unnest($1::bigint[], $2::bigint[]) AS c(number, mark)"

/* Marks questions whose turns do not wait any more. The rows stay open for turns that ask again, until they expire. */
static void leave(tp_postgres_questions *box, const waiting *list, size_t count) {
  tp_fault fault = {0};
  tp__pg_request r;
  if (!list) return;
  tp__pg_request_init(&r, box->postgres, TP__PG_WRITES, "leave questions");
  put_marks(tp__pg_request_add(&r, "UPDATE @.question q SET waits = false FROM " MARKS
                                   " WHERE q.number = c.number AND q.batch = c.mark AND q.used_ms = 0"),
            list, count);
  tp_status status = tp__pg_request_run(&r, &fault);
  if (status != TP_OK) note(box, status, &fault);
  tp__pg_request_fini(&r);
}

/* Removes the questions that do not wait any more from the list. */
static void leave_ended(tp_postgres_questions *box) {
  waiting *ended = NULL;
  size_t count = 0;
  for (waiting **at = &box->open; *at;) {
    waiting *w = *at;
    if (tp_token_open(w->token)) {
      at = &w->next;
      continue;
    }
    *at = w->next;
    w->next = ended;
    ended = w;
    count++;
  }
  box->open_count -= count;
  leave(box, ended, count);
  while (ended) {
    waiting *w = ended;
    ended = w->next;
    waiting_free(w);
  }
}

static waiting **find_open(tp_postgres_questions *box, int64_t batch) {
  waiting **at = &box->open;
  while (*at && (*at)->batch != batch) at = &(*at)->next;
  return at;
}

/* Marks an answer as used before a call gets it, for one call only. */
static const char use_answers[] = "UPDATE @.question q SET used_ms = " NOW ", waits = false, taken = c.mark FROM " MARKS
                                  " WHERE q.number = c.number AND q.state <> 0 AND q.used_ms = 0";
static const char find_answers[] = "SELECT c.mark, q.state, q.taken = c.mark, q.person, q.answer, q.edited FROM " MARKS
                                   " JOIN @.question q ON q.number = c.number WHERE q.used_ms <> 0";

/* Passes an answer to its call. Another call, of a process that runs the same turn, may have got it: then this call
 * waits for an answer of its own. */
static void deliver(tp_postgres_questions *box, const PGresult *rows, int row) {
  waiting **at = find_open(box, tp__pg_int(rows, row, 0)), *w = *at;
  tp_fault fault = {0};
  if (!w) return;
  if (!tp__pg_bool(rows, row, 2)) {
    tp_status status = write_row(box, w, &fault);
    if (status == TP_OK) return;
    note(box, status, &fault);
    *at = w->next;
    box->open_count--;
    deny(w);
    return;
  }
  bool allowed = tp__pg_int(rows, row, 1) == TP_QUESTION_ALLOWED;
  const tp_decision decision = {.struct_size = sizeof decision,
                                .verdict = allowed ? TP_VERDICT_ALLOW : TP_VERDICT_DENY,
                                .arguments_hash = w->texts[HASH],
                                .person = tp__pg_text(rows, row, 3),
                                .reason = tp__pg_text(rows, row, 4),
                                .arguments = tp__pg_text(rows, row, 5)};
  (void)!tp_question_answer(w->token, &decision, NULL); /* otherwise the call is over */
  *at = w->next;
  box->open_count--;
  waiting_free(w);
}

/* Deletes the texts of answers that calls have got. */
static void clear_used(tp_postgres_questions *box, const PGresult *rows) {
  tp_fault fault = {0};
  tp__pg_request r;
  int count = 0;
  for (int i = 0; i < PQntuples(rows); i++) count += tp__pg_bool(rows, i, 2);
  if (!count) return;
  tp__pg_request_init(&r, box->postgres, TP__PG_WRITES, "clear what was asked");
  tp__pg_parameters *p = tp__pg_request_add(
      &r, "UPDATE @.question SET arguments = '', edited = '' WHERE taken = ANY ($1::bigint[]) AND used_ms <> 0");
  tp__bytes *marks = tp__pg_parameter_array(p, TP__PG_INT8, (size_t)count);
  for (int i = 0; i < PQntuples(rows); i++)
    if (tp__pg_bool(rows, i, 2)) tp__pg_put_int(marks, tp__pg_int(rows, i, 0));
  tp_status status = tp__pg_request_run(&r, &fault);
  if (status != TP_OK) note(box, status, &fault);
  tp__pg_request_fini(&r);
}

static bool is_any_answered(tp_postgres_questions *box) {
  tp_fault fault = {0};
  tp__pg_request r;
  tp__pg_request_init(&r, box->postgres, TP__PG_READS, "look for answers");
  put_marks(tp__pg_request_add(
                &r, "SELECT count(*) FROM " MARKS " JOIN @.question q ON q.number = c.number WHERE q.state <> 0"),
            box->open, box->open_count);
  tp_status status = tp__pg_request_run(&r, &fault);
  bool is_any = status == TP_OK && tp__pg_int(tp__pg_request_rows(&r, 0), 0, 0) > 0;
  if (status != TP_OK) note(box, status, &fault);
  else box->is_failing = false;
  tp__pg_request_fini(&r);
  return is_any;
}

static void look(tp_postgres_questions *box) {
  tp_fault fault = {0};
  tp__pg_request r;
  leave_ended(box);
  if (!box->open || !is_any_answered(box)) return;
  tp__pg_request_init(&r, box->postgres, TP__PG_WRITES, "take answers");
  put_marks(tp__pg_request_add(&r, use_answers), box->open, box->open_count);
  put_marks(tp__pg_request_add(&r, find_answers), box->open, box->open_count);
  tp_status status = tp__pg_request_run(&r, &fault);
  if (status == TP_OK) {
    const PGresult *rows = tp__pg_request_rows(&r, 1);
    for (int i = 0; i < PQntuples(rows); i++) deliver(box, rows, i);
    clear_used(box, rows);
  } else {
    note(box, status, &fault);
  }
  tp__pg_request_fini(&r);
}

static void *run(void *ctx) {
  tp_postgres_questions *box = ctx;
  int64_t look_ns = 0;
  tp__lock_acquire(&box->mutex);
  for (;;) {
    if (!box->put && !box->ends && !box->open) {
      tp__lock_condition_wait(&box->changed, &box->mutex);
      continue;
    }
    if (!box->put && !box->ends && tp__monotonic_ns() < look_ns) {
      (void)tp__lock_condition_wait_until(&box->changed, &box->mutex, look_ns);
      continue;
    }
    waiting *list = box->put;
    box->put = NULL;
    box->put_last = &box->put;
    bool ends = box->ends;
    tp__lock_release(&box->mutex);
    take(box, list);
    look(box);
    look_ns = tp__monotonic_ns() + box->poll_ms * TP__NS_IN_MS;
    if (ends) return NULL;
    tp__lock_acquire(&box->mutex);
  }
}

/* ---- life ---- */

static tp_status delete_old(tp_postgres_questions *box, tp_fault *fault) {
  tp__pg_request r;
  tp__pg_request_init(&r, box->postgres, TP__PG_WRITES, "delete old questions");
  tp__pg_parameters *p = tp__pg_request_add(&r, "DELETE FROM @.question WHERE expires_ms < " NOW " - $1::bigint");
  tp__pg_parameter_int(p, (int64_t)KEPT_DAYS * DAY_MS);
  tp_status status = tp__pg_request_run(&r, fault);
  tp__pg_request_fini(&r);
  return status;
}

static tp_status start(tp_postgres_questions *box, tp_fault *fault) {
  tp_status status = delete_old(box, fault);
  if (status != TP_OK) return status;
  tp__lock_init(&box->mutex, TP__LOCK_postgres_questions);
  tp__lock_condition_init(&box->changed);
  if (tp__thread_spawn(&box->thread, run, box) == 0) return TP_OK;
  tp__lock_condition_fini(&box->changed);
  tp__lock_fini(&box->mutex);
  return tp__refuse(fault, TP_ERR_NO_THREAD, box->postgres->target.name, "%s: no thread for questions",
                    box->postgres->target.name);
}

tp_status tp_postgres_questions_open(tp_postgres *postgres, const tp_postgres_questions_options *theirs,
                                     tp_postgres_questions **ret_questions, tp_fault *fault) {
  tp_postgres_questions_options options = {.struct_size = 0};
  if (!postgres || !ret_questions)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_postgres_questions_open: postgres and ret_questions are needed");
  tp_status status =
      theirs ? tp__struct_read(&options, sizeof options, theirs, "tp_postgres_questions_options", fault) : TP_OK;
  if (status != TP_OK) return status;
  if (options.reserved_)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_postgres_questions_options.reserved_ must be zero");
  tp_postgres_questions *box = tp__heap_alloc(sizeof *box);
  if (!box) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for questions");
  *box = (tp_postgres_questions){.postgres = postgres,
                                 .log = options.log,
                                 .log_ctx = options.log_ctx,
                                 .poll_ms = options.poll_ms ? options.poll_ms : POLL_MS};
  box->put_last = &box->put;
  tp__references_ref(&postgres->references);
  status = start(box, fault);
  if (status == TP_OK) {
    *ret_questions = box;
    return TP_OK;
  }
  tp__pg_unref(postgres);
  tp__heap_free(box, sizeof *box);
  return status;
}

void tp_postgres_questions_close(tp_postgres_questions *box) {
  if (!box) return;
  tp__lock_acquire(&box->mutex);
  box->ends = true;
  tp__lock_condition_signal(&box->changed);
  tp__lock_release(&box->mutex);
  pthread_join(box->thread, NULL);
  leave(box, box->open, box->open_count);
  while (box->open) {
    waiting *w = box->open;
    box->open = w->next;
    deny(w);
  }
  tp__lock_condition_fini(&box->changed);
  tp__lock_fini(&box->mutex);
  tp__pg_unref(box->postgres);
  tp__heap_free(box, sizeof *box);
}

/* ---- another process ---- */

static void read_question(const PGresult *rows, int row, tp_kept_question *q) {
  *q = (tp_kept_question){.struct_size = sizeof *q,
                          .number = (uint64_t)tp__pg_int(rows, row, 0),
                          .state = (tp_question_state)tp__pg_int(rows, row, 1),
                          .is_waited_for = tp__pg_bool(rows, row, 2),
                          .asked_unix_ms = tp__pg_int(rows, row, 3),
                          .expires_unix_ms = tp__pg_int(rows, row, 4),
                          .answered_unix_ms = tp__pg_int(rows, row, 5),
                          .used_unix_ms = tp__pg_int(rows, row, 6)};
  tp_text *const texts[] = {&q->tenant,  &q->agent,          &q->session,         &q->turn,   &q->tool,
                            &q->call_id, &q->arguments_hash, &q->subscription,    &q->reason, &q->person,
                            &q->answer,  &q->arguments,      &q->edited_arguments};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) *texts[i] = tp__pg_text(rows, row, 7 + (int)i);
}

tp_status tp_postgres_questions_list(tp_postgres *postgres, bool open_only, tp_kept_question_fn each, void *ctx,
                                     tp_fault *fault) {
  static const char list[] =
      "SELECT number, state, waits, asked_ms, expires_ms, answered_ms, used_ms, tenant, agent, session, turn, tool,"
      " call_id, hash, subscription, reason, person, answer, CASE WHEN used_ms = 0 THEN arguments ELSE '' END,"
      " CASE WHEN used_ms = 0 THEN edited ELSE '' END FROM @.question"
      " WHERE $1::bigint = 0 OR (state = 0 AND expires_ms > " NOW ") ORDER BY number";
  tp__pg_request r;
  bool goes_on = true;
  if (!postgres || !each) return tp__refuse(fault, TP_ERR_USAGE, NULL, "a database and a callback are needed");
  tp__pg_request_init(&r, postgres, TP__PG_READS, "list questions");
  tp__pg_parameter_int(tp__pg_request_add(&r, list), open_only);
  tp_status status = tp__pg_request_run(&r, fault);
  const PGresult *rows = status == TP_OK ? tp__pg_request_rows(&r, 0) : NULL;
  for (int i = 0; rows && goes_on && i < PQntuples(rows); i++) {
    tp_kept_question question;
    read_question(rows, i, &question);
    goes_on = each(ctx, &question);
  }
  tp__pg_request_fini(&r);
  return status;
}

static tp_status refuse_answer(const tp_postgres *postgres, uint64_t number, const PGresult *rows, tp_fault *fault) {
  const char *name = postgres->target.name;
  unsigned long long shown = number;
  if (PQntuples(rows) == 0)
    return tp__refuse(fault, TP_ERR_NOT_FOUND, name, "there is no question %llu in %s", shown, name);
  const char *why = tp__pg_bool(rows, 0, 1)   ? "was answered before"
                    : tp__pg_bool(rows, 0, 2) ? "has expired: its call was denied"
                                              : "was asked with other arguments";
  return tp__refuse(fault, TP_ERR_STALE, name, "question %llu %s", shown, why);
}

tp_status tp_postgres_question_answer(tp_postgres *postgres, uint64_t number, const tp_decision *theirs,
                                      tp_fault *fault) {
  /* 1 number, 2 state, 3 mark, 4 hash, 5 person, 6 answer, 7 edited. */
  static const char write_answer[] =
      "UPDATE @.question SET state = $2::bigint, taken = $3::bigint, answered_ms = " NOW
      ", person = $5::bytea, answer = $6::bytea, edited = $7::bytea WHERE number = $1::bigint AND state = 0"
      " AND expires_ms > " NOW " AND ($4::bytea = '' OR hash = $4::bytea)";
  /* 1 number, 2 state, 3 mark, 4 whether it is in doubt, 5 person, 6 answer. A call may have got the answer
   * meanwhile. */
  static const char find_answer[] =
      "SELECT taken = $3::bigint OR ($4::bigint = 1 AND state = $2::bigint AND person = $5::bytea AND answer ="
      " $6::bytea), state <> 0, expires_ms <= " NOW " FROM @.question WHERE number = $1::bigint";
  tp_decision decision = {.struct_size = 0};
  tp__pg_request r;
  if (!postgres) return tp__refuse(fault, TP_ERR_USAGE, NULL, "a database is needed");
  tp_status status = tp__decision_read(theirs, &decision, fault);
  if (status != TP_OK) return status;
  int64_t state = decision.verdict == TP_VERDICT_ALLOW ? TP_QUESTION_ALLOWED : TP_QUESTION_DENIED;
  int64_t mark = tp__pg_next_batch(postgres);
  tp__pg_request_init(&r, postgres, TP__PG_WRITES, "answer a question");
  for (int i = 0; i < 2; i++) {
    tp__pg_parameters *p = tp__pg_request_add(&r, i == 0 ? write_answer : find_answer);
    tp__pg_parameter_int(p, (int64_t)number);
    tp__pg_parameter_int(p, state);
    tp__pg_parameter_int(p, mark);
    if (i == 0) tp__pg_parameter_text(p, decision.arguments_hash);
    else tp__pg_request_put_doubt(&r);
    tp__pg_parameter_text(p, decision.person);
    tp__pg_parameter_text(p, decision.reason);
    if (i == 0) tp__pg_parameter_text(p, decision.arguments);
  }
  status = tp__pg_request_run(&r, fault);
  if (status == TP_OK) {
    const PGresult *rows = tp__pg_request_rows(&r, 1);
    if (PQntuples(rows) == 0 || !tp__pg_bool(rows, 0, 0)) status = refuse_answer(postgres, number, rows, fault);
  }
  tp__pg_request_fini(&r);
  return status;
}
