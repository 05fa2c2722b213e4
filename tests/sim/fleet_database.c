/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fleet.h"

/** An append that was done, as the proof for a repeated request. */
typedef struct appended {
  struct appended *next;
  uint64_t operation;
} appended;

typedef struct session_row {
  uint64_t number, fence, owner;
  bool running;
  uint64_t count; /* the next position */
  fleet_message *first, **end;
  appended *appends;
} session_row;

typedef struct process_row {
  struct process_row *next;
  uint64_t id;
  int64_t lease_end_ns;
} process_row;

typedef struct call_row {
  struct call_row *next;
  uint64_t id, operation, turn;
  bool has_ended;
} call_row;

/* A fiber reads the clock before it applies a request, and switches at no point meanwhile: each request is applied as a
 * whole. */
struct fleet_database {
  fleet_bug bug;
  int64_t now_ns;
  session_row sessions[FLEET_SESSIONS_MAX];
  process_row *processes;
  call_row *calls;
  fleet_job_row *jobs, **jobs_end; /* in the order of their ids */
  uint64_t last_id;
};

static void *zeroed(size_t size) {
  void *memory = calloc(1, size);
  if (!memory) abort();
  return memory;
}

fleet_database *fleet_database_new(fleet_bug bug) {
  fleet_database *db = zeroed(sizeof *db);
  db->bug = bug;
  db->jobs_end = &db->jobs;
  for (uint32_t s = 0; s < FLEET_SESSIONS_MAX; s++) {
    db->sessions[s].number = s + 1;
    db->sessions[s].end = &db->sessions[s].first;
  }
  return db;
}

static void free_list(void *first) { /* a list of structs whose first member is the next one */
  while (first) {
    void *next = *(void **)first;
    free(first);
    first = next;
  }
}

void fleet_database_free(fleet_database *db) {
  for (uint32_t s = 0; s < FLEET_SESSIONS_MAX; s++) {
    for (fleet_message *m = db->sessions[s].first; m; m = m->next) tp__arena_fini(&m->arena);
    free_list(db->sessions[s].first);
    free_list(db->sessions[s].appends);
  }
  for (fleet_job_row *j = db->jobs; j; j = j->next) tp__arena_fini(&j->arena);
  free_list(db->jobs);
  free_list(db->processes);
  free_list(db->calls);
  free(db);
}

static process_row *process_of(const fleet_database *db, uint64_t id) {
  process_row *p = db->processes;
  while (p && p->id != id) p = p->next;
  return p;
}

static int64_t lease_left_ns(const fleet_database *db, uint64_t process) {
  const process_row *p = process_of(db, process);
  int64_t left_ns = p ? p->lease_end_ns - db->now_ns : 0;
  return left_ns > 0 ? left_ns : 0;
}

static fleet_answer beat(fleet_database *db, const fleet_request *r) {
  process_row *p = process_of(db, r->process);
  if (!p) {
    p = zeroed(sizeof *p);
    *p = (process_row){.next = db->processes, .id = r->process};
    db->processes = p;
  }
  p->lease_end_ns = db->now_ns + fleet_ns(FLEET_LEASE_MS);
  return (fleet_answer){.status = TP_OK};
}

/* ---- sessions ---- */

static bool is_held(const fleet_database *db, uint32_t session, uint64_t process) {
  const session_row *s = &db->sessions[session];
  return s->running && s->owner != process && lease_left_ns(db, s->owner) > 0;
}

bool fleet_database_is_held(fleet_database *db, uint32_t session, int64_t now_ns) {
  db->now_ns = now_ns;
  return is_held(db, session, 0);
}

static fleet_answer claim(fleet_database *db, const fleet_request *r) {
  session_row *s = &db->sessions[r->session];
  if (is_held(db, r->session, r->process) && db->bug != FLEET_BUG_CLAIM_RUNNING)
    return (fleet_answer){.status = TP_ERR_BUSY,
                          .retry_ms = (uint64_t)(lease_left_ns(db, s->owner) / TP__NS_PER_MS) + 1};
  if (db->bug != FLEET_BUG_SAME_FENCE || s->owner != r->process || s->fence == 0) s->fence++;
  s->owner = r->process;
  s->running = true;
  fleet_answer answer = {.status = TP_OK, .number = s->number, .fence = s->fence, .position = s->count};
  if (r->number == s->number && r->after <= s->count) answer.first = r->after;
  for (const fleet_message *m = s->first; m; m = m->next) answer.ordinal += m->id != 0;
  return answer;
}

static bool is_done(const session_row *s, uint64_t operation) {
  const appended *a = s->appends;
  while (a && a->operation != operation) a = a->next;
  return a != NULL;
}

static void add_messages(session_row *s, const fleet_request *r) {
  for (const fleet_message *m = r->messages; m; m = m->next) {
    fleet_message *row = zeroed(sizeof *row);
    tp__arena_init(&row->arena, &fleet_allocator, NULL, 0, 0);
    if (!tp__message_copy(&row->arena, &m->message, &row->message)) abort();
    row->id = m->id;
    *s->end = row;
    s->end = &row->next;
    s->count++;
  }
}

static fleet_answer append(fleet_database *db, const fleet_request *r) {
  session_row *s = &db->sessions[r->session];
  bool has_fence = s->running && s->number == r->number && s->fence == r->fence;
  bool fits = has_fence && s->count == r->position;
  if (is_done(s, r->operation) && db->bug != FLEET_BUG_NO_PROOF) return (fleet_answer){.status = TP_OK};
  if (db->bug == FLEET_BUG_APPEND_ANY_FENCE) fits = s->count == r->position;
  if (db->bug == FLEET_BUG_APPEND_ANY_POSITION) fits = true;
  if (!fits) return (fleet_answer){.status = TP_ERR_FENCED};
  appended *a = zeroed(sizeof *a);
  *a = (appended){s->appends, r->operation};
  s->appends = a;
  add_messages(s, r);
  s->running = false;
  return (fleet_answer){.status = TP_OK};
}

const fleet_message *fleet_database_messages(const fleet_database *db, uint32_t session, uint64_t from) {
  const fleet_message *m = db->sessions[session].first;
  while (m && from-- > 0) m = m->next;
  return m;
}

static bool is_fenced(const fleet_database *db, const fleet_request *r) {
  return r->fence != 0 && db->sessions[r->session].fence != r->fence;
}

/* ---- calls of tools ---- */

static fleet_answer begin_call(fleet_database *db, const fleet_request *r) {
  for (const call_row *c = db->calls; c; c = c->next)
    if (c->operation == r->operation) return (fleet_answer){.status = TP_OK, .id = c->id};
  if (is_fenced(db, r) && db->bug != FLEET_BUG_CALL_ANY_FENCE) return (fleet_answer){.status = TP_ERR_FENCED};
  for (call_row *c = db->calls; c; c = c->next)
    if (c->turn == r->key) return (fleet_answer){.status = TP_OK, .existed = true, .had_ended = c->has_ended};
  call_row *c = zeroed(sizeof *c);
  *c = (call_row){.next = db->calls, .id = ++db->last_id, .operation = r->operation, .turn = r->key};
  db->calls = c;
  return (fleet_answer){.status = TP_OK, .id = c->id};
}

static fleet_answer end_call(fleet_database *db, const fleet_request *r) {
  for (call_row *c = db->calls; c; c = c->next)
    if (c->id == r->key) c->has_ended = true;
  return (fleet_answer){.status = TP_OK};
}

/* ---- jobs ---- */

static bool is_open(const fleet_job_row *j) { return j->job.state == TP_JOB_QUEUED || j->job.state == TP_JOB_RUNNING; }

fleet_job_row *fleet_job_row_new(const tp_job *from) {
  fleet_job_row *j = zeroed(sizeof *j);
  tp__arena_init(&j->arena, &fleet_allocator, NULL, 0, 0);
  j->job = *from;
  if (!tp__arena_text(&j->arena, from->handler, &j->job.handler) ||
      !tp__arena_text(&j->arena, from->subscription, &j->job.subscription) ||
      !tp__arena_text(&j->arena, from->idempotency_key, &j->job.idempotency_key) ||
      !tp__arena_text(&j->arena, from->order_key, &j->job.order_key) ||
      !tp__arena_text(&j->arena, from->payload, &j->job.payload))
    abort();
  return j;
}

static fleet_answer insert_job(fleet_database *db, const fleet_request *r) {
  for (const fleet_job_row *j = db->jobs; j; j = j->next)
    if (j->key == r->key && (db->bug != FLEET_BUG_JOB_NO_KEY || j->operation != r->operation))
      return (fleet_answer){.status = TP_OK, .id = j->job.id, .existed = true};
  if (is_fenced(db, r) && db->bug != FLEET_BUG_JOB_ANY_FENCE) return (fleet_answer){.status = TP_ERR_FENCED};
  fleet_job_row *j = fleet_job_row_new(&r->row->job);
  j->job.message = (tp_text){NULL, 0};
  j->key = r->key;
  j->operation = r->operation;
  j->job.id = ++db->last_id;
  j->job.state = TP_JOB_QUEUED;
  j->job.fence = 0;
  *db->jobs_end = j;
  db->jobs_end = &j->next;
  return (fleet_answer){.status = TP_OK, .id = j->job.id};
}

/* Claims the oldest job that has no older one of the same order key. */
static fleet_answer claim_job(fleet_database *db) {
  for (fleet_job_row *j = db->jobs; j; j = j->next) {
    bool waits = j->job.state == TP_JOB_QUEUED || (j->job.state == TP_JOB_RUNNING && j->lease_end_ns <= db->now_ns);
    for (const fleet_job_row *older = db->jobs; waits && older != j; older = older->next)
      if (is_open(older) && tp_text_equal(older->job.order_key, j->job.order_key)) waits = false;
    if (!waits) continue;
    j->job.state = TP_JOB_RUNNING;
    j->job.attempt = 1; /* attempts never run out */
    j->job.claim = ++db->last_id;
    j->lease_end_ns = db->now_ns + fleet_ns(FLEET_LEASE_MS);
    return (fleet_answer){.status = TP_OK, .id = j->job.id, .fence = j->job.claim, .row = j};
  }
  return (fleet_answer){.status = TP_ERR_NOT_FOUND};
}

static fleet_answer change_job(fleet_database *db, const fleet_request *r) {
  for (fleet_job_row *j = db->jobs; j; j = j->next) {
    if (j->job.id != r->job) continue;
    bool has_claim = j->job.state == TP_JOB_RUNNING && j->job.claim == r->job_claim;
    if (!has_claim && db->bug != FLEET_BUG_JOB_ANY_CLAIM) return (fleet_answer){.status = TP_ERR_STALE};
    if (r->kind == FLEET_REQUEST_JOB_RENEW) j->lease_end_ns = db->now_ns + fleet_ns(FLEET_LEASE_MS);
    else j->job.state = r->succeeds ? TP_JOB_SUCCEEDED : TP_JOB_QUEUED;
    return (fleet_answer){.status = TP_OK, .state = j->job.state, .id = j->key};
  }
  return (fleet_answer){.status = TP_ERR_NOT_FOUND};
}

size_t fleet_database_open_jobs(const fleet_database *db) {
  size_t open = 0;
  for (const fleet_job_row *j = db->jobs; j; j = j->next) open += is_open(j);
  return open;
}

void fleet_database_succeeded(const fleet_database *db, fleet_list *list) {
  for (const fleet_job_row *j = db->jobs; j; j = j->next)
    if (j->job.state == TP_JOB_SUCCEEDED) fleet_add(list, j->key);
}

/* ---- all ---- */

fleet_answer fleet_database_apply(fleet_database *db, const fleet_request *r, int64_t now_ns) {
  db->now_ns = now_ns;
  switch (r->kind) {
    case FLEET_REQUEST_CLAIM:
      return claim(db, r);
    case FLEET_REQUEST_APPEND:
      return append(db, r);
    case FLEET_REQUEST_CALL:
      return begin_call(db, r);
    case FLEET_REQUEST_CALL_END:
      return end_call(db, r);
    case FLEET_REQUEST_JOB:
      return insert_job(db, r);
    case FLEET_REQUEST_JOB_CLAIM:
      return claim_job(db);
    case FLEET_REQUEST_JOB_RENEW:
    case FLEET_REQUEST_JOB_END:
      return change_job(db, r);
    case FLEET_REQUEST_BEAT:
      return beat(db, r);
  }
  abort();
}
