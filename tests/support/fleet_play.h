/* SPDX-License-Identifier: Apache-2.0
 *
 * fleet_play: what the processes of a fleet do in the fault tests: hosts whose turns claim sessions, begin tool calls,
 * insert jobs and append; workers that claim jobs and end them, and recover what others left. Each records its actions
 * in one file, before and after each action, by a single write(), which a kill cannot split; fleet_check.h judges the
 * file. A process works until the board tells it to end. */
#ifndef TEST_FLEET_PLAY_H
#define TEST_FLEET_PLAY_H

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fleet_check.h"
#include "tests/support/host.h"

enum {
  FLEET_SESSIONS = 4 /* of a generation */,
  FLEET_GENERATIONS = 256,
  FLEET_THREADS = 2,
  FLEET_SHORT = FLEET_SESSIONS * FLEET_GENERATIONS, /* the one that is deleted and begun anew: no list is kept of it */
};

/** A page that all processes of a fleet share. */
typedef struct fleet_board {
  _Atomic uint64_t turns, acknowledged, busy, fenced, failed, calls, inserted, finished, stale, deleted;
  _Atomic uint32_t generation; /* whose sessions are used: so that no list grows without end */
  _Atomic bool ends, workers_end;
} fleet_board;

static struct {
  fleet_board *board;
  int events; /* the file */
  uint32_t lease_ms;
} fleet;

static inline void fleet_open(const char *in) {
  char name[256];
  snprintf(name, sizeof name, "%s/board", in);
  int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(fleet_board)) != 0) abort();
  fleet.board = (fleet_board *)mmap(NULL, sizeof(fleet_board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fleet.board == MAP_FAILED) abort();
  close(fd);
  snprintf(name, sizeof name, "%s/events", in);
  fleet.events = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fleet.events < 0) abort();
}

static inline void fleet_close(void) {
  munmap(fleet.board, sizeof(fleet_board));
  close(fleet.events);
}

static inline void fleet_note(const fleet_event *event) {
  if (write(fleet.events, event, sizeof *event) != (ssize_t)sizeof *event) abort();
}

static inline void fleet_begin(fleet_event *event) {
  event->fate = FLEET_BEGUN;
  event->began_ns = now_ns();
  event->ended_ns = 0;
  if (event->id) fleet_note(event);
}

/* A failure that is neither leaves it in doubt. */
static inline void fleet_end(fleet_event *event, tp_status status) {
  event->ended_ns = now_ns();
  if (status == TP_ERR_FENCED) fleet.board->fenced++;
  else if (status != TP_OK) fleet.board->failed++;
  if (status != TP_OK && status != TP_ERR_FENCED) return;
  event->fate = status == TP_OK ? FLEET_DONE : FLEET_REFUSED;
  fleet_note(event);
}

/* ---- a host ---- */

/** What a player has of a session. */
typedef struct fleet_known {
  uint64_t number, count, hash;
} fleet_known;

typedef struct fleet_player {
  tp_history *history;
  const tp_store *store; /* NULL: no calls and no jobs */
  tp_store_owner owner;
  unsigned seed;
  uint64_t last_id; /* of this player's: no other one has those after it */
  fleet_known known[FLEET_SHORT + 1];
} fleet_player;

static inline unsigned fleet_dice(fleet_player *p, unsigned sides) { return (unsigned)rand_r(&p->seed) % sides; }

static inline const char *fleet_session_name(char name[16], uint32_t session) {
  snprintf(name, 16, "s%u", session);
  return name;
}

static inline tp_status fleet_take_id(void *ctx, const tp_message *message) {
  char text[24];
  snprintf(text, sizeof text, "%.*s", (int)message->text.size, message->text.data);
  fleet_add((fleet_list *)ctx, strtoull(text, NULL, 10));
  return TP_OK;
}

static inline bool fleet_claim(fleet_player *p, fleet_event *turn, tp_history_claim *claim) {
  char name[16];
  fleet_known *known = &p->known[turn->session];
  fleet_list fresh = {.ids = NULL};
  *claim = (tp_history_claim){.struct_size = sizeof *claim};
  const tp_history_load load = {.struct_size = sizeof load,
                                .session = tp_text_of(fleet_session_name(name, turn->session)),
                                .each = fleet_take_id,
                                .ctx = &fresh,
                                .owner = &p->owner,
                                .number = known->number,
                                .after = known->count,
                                .claim = claim};
  turn->kind = FLEET_CLAIM;
  fleet_begin(turn);
  tp_status status = p->history->load(p->history->ctx, &load, NULL);
  if (status == TP_OK) {
    if (claim->first == 0 || known->number != claim->number) *known = (fleet_known){.hash = FLEET_HASH};
    known->number = turn->number = claim->number;
    for (size_t i = 0; i < fresh.count; i++) known->hash = fleet_hash(known->hash, fresh.ids[i]);
    known->count += fresh.count;
    turn->fence = claim->fence;
    turn->origin = claim->origin;
    turn->position = claim->position;
    turn->count = known->count;
    turn->hash = known->hash;
    fleet_end(turn, TP_OK);
  } else if (status == TP_ERR_BUSY) {
    fleet.board->busy++;
  } else {
    fleet.board->failed++;
  }
  free(fresh.ids);
  turn->count = turn->hash = 0;
  return status == TP_OK;
}

static inline void fleet_no_end(void *ctx, const tp_tool_end_record *earlier) { (void)ctx, (void)earlier; }

static inline void fleet_call_tool(fleet_player *p, fleet_event turn) {
  char name[16], id[24];
  turn.kind = FLEET_TOOL;
  turn.id = ++p->last_id;
  snprintf(id, sizeof id, "%llu", (unsigned long long)turn.id);
  const tp_text ids[TP_ID_COUNT] = {
      [TP_ID_SESSION] = tp_text_of(fleet_session_name(name, turn.session)), [TP_ID_TURN] = tp_text_of(id)};
  const tp_tool_start_record start = {.struct_size = sizeof start,
                                      .process_run_id = p->owner.process_run_id,
                                      .turn_number = turn.id,
                                      .ids = ids,
                                      .id_count = TP_ID_COUNT,
                                      .call_id = tp_text_of(id),
                                      .tool = TEXT("charge"),
                                      .arguments = {"\x80", 1},
                                      .fence = turn.fence,
                                      .origin = turn.origin};
  uint64_t start_id = 0;
  fleet_begin(&turn);
  tp_status status = p->store->tool_start(p->store->ctx, &start, &start_id, fleet_no_end, NULL, NULL);
  fleet_end(&turn, status);
  if (status != TP_OK) return;
  fleet.board->calls++;
  const tp_tool_end_record end = {
      .struct_size = sizeof end, .start_id = start_id, .kind = TP_TOOL_OK, .text = TEXT("done")};
  (void)!p->store->tool_end(p->store->ctx, &end, NULL);
}

static inline void fleet_insert_job(fleet_player *p, fleet_event turn) {
  char name[16], id[24];
  uint64_t job_id = 0;
  bool existed = false;
  tp_writer *writer = NULL;
  turn.kind = FLEET_JOB;
  turn.id = ++p->last_id;
  snprintf(id, sizeof id, "%llu", (unsigned long long)turn.id);
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = 1000000, /* no attempt is its last */
                .limit_ms = 1000,
                .handler = TEXT("work"),
                .idempotency_key = tp_text_of(id),
                .order_key = tp_text_of(fleet_session_name(name, turn.session)),
                .inserted_ms = (int64_t)time(NULL) * 1000,
                .fence = turn.fence,
                .origin = turn.origin};
  if (tp_writer_new(NULL, &writer) != TP_OK) abort();
  tp_write_map(writer, 1);
  tp_write_string(writer, "ids");
  tp_write_array(writer, TP_ID_COUNT);
  for (int i = 0; i < TP_ID_COUNT; i++) tp_write_string(writer, i == TP_ID_SESSION ? name : "");
  if (tp_writer_finish(writer, &job.payload) != TP_OK) abort();
  fleet_begin(&turn);
  tp_status status = p->store->job_insert(p->store->ctx, &job, &job_id, &existed, NULL);
  fleet_end(&turn, status);
  if (status == TP_OK) fleet.board->inserted++;
  tp_writer_free(writer);
}

static inline tp_status fleet_append(fleet_player *p, fleet_event turn, const tp_history_claim *claim) {
  char name[16], text[24];
  turn.kind = FLEET_APPEND;
  turn.id = ++p->last_id;
  snprintf(text, sizeof text, "%llu", (unsigned long long)turn.id);
  const tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_USER, .text = tp_text_of(text)};
  const tp_message *const messages[] = {&message};
  const tp_history_append request = {.struct_size = sizeof request,
                                     .session = tp_text_of(fleet_session_name(name, turn.session)),
                                     .messages = messages,
                                     .message_count = 1,
                                     .claim = claim};
  fleet_known *known = &p->known[turn.session];
  if (!claim) turn.fence = turn.position = 0;
  fleet_begin(&turn);
  tp_status status = p->history->append(p->history->ctx, &request, NULL);
  fleet_end(&turn, status);
  if (status == TP_OK) fleet.board->acknowledged++;
  if (status != TP_OK || !claim) {
    *known = (fleet_known){.hash = FLEET_HASH};
  } else {
    known->count++;
    known->hash = fleet_hash(known->hash, turn.id);
  }
  return status;
}

/* Ends a turn of the session that is begun again. Its messages are in no list, so they are not recorded. */
static inline void fleet_append_and_delete(fleet_player *p, const tp_history_claim *claim) {
  char name[16];
  const tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_USER, .text = TEXT("1")};
  const tp_message *const messages[] = {&message};
  const tp_text session = tp_text_of(fleet_session_name(name, FLEET_SHORT));
  const tp_history_append request = {
      .struct_size = sizeof request, .session = session, .messages = messages, .message_count = 1, .claim = claim};
  const tp_history_delete deletion = {.struct_size = sizeof deletion, .session = session};
  const tp_history_release release = {.struct_size = sizeof release, .session = session, .claim = claim};
  if (p->history->append(p->history->ctx, &request, NULL) != TP_OK) p->history->release(p->history->ctx, &release);
  if (p->history->delete_session(p->history->ctx, &deletion, NULL) == TP_OK) fleet.board->deleted++;
}

static inline void fleet_turn(fleet_player *p) {
  char name[16];
  tp_history_claim claim;
  bool is_short = p->store && fleet_dice(p, 6) == 0;
  fleet_event turn = {.session = is_short ? (uint32_t)FLEET_SHORT
                                          : fleet.board->generation * FLEET_SESSIONS + fleet_dice(p, FLEET_SESSIONS)};
  if (!is_short && fleet_dice(p, 16) == 0) { /* of a caller that is no turn */
    (void)fleet_append(p, turn, NULL);
    return;
  }
  if (!fleet_claim(p, &turn, &claim)) {
    usleep(200);
    return;
  }
  fleet.board->turns++;
  if (fleet_dice(p, 4) == 0) usleep(fleet_dice(p, 1000));
  if (p->store && fleet_dice(p, 3) == 0) fleet_call_tool(p, turn);
  if (p->store && fleet_dice(p, 3) == 0) fleet_insert_job(p, turn);
  if (is_short) {
    fleet_append_and_delete(p, &claim);
    return;
  }
  tp_status status = fleet_dice(p, 8) == 0 ? TP_ERR_CANCELLED : fleet_append(p, turn, &claim);
  const tp_history_release release = {
      .struct_size = sizeof release, .session = tp_text_of(fleet_session_name(name, turn.session)), .claim = &claim};
  if (status != TP_OK) p->history->release(p->history->ctx, &release);
}

static inline void *fleet_host_thread(void *ctx) {
  while (!fleet.board->ends) fleet_turn((fleet_player *)ctx);
  return NULL;
}

/* ---- a worker ---- */

static inline int64_t fleet_wall_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

typedef struct fleet_taken {
  uint64_t id, claim, key;
} fleet_taken;

static inline void fleet_take_job(void *ctx, const tp_job *job) {
  char text[24];
  snprintf(text, sizeof text, "%.*s", (int)job->idempotency_key.size, job->idempotency_key.data);
  *(fleet_taken *)ctx = (fleet_taken){job->id, job->claim, strtoull(text, NULL, 10)};
}

/* @return whether there was a job. */
static inline bool fleet_work(fleet_player *p) {
  fleet_taken taken = {0};
  int64_t next_ms;
  const tp_job_claim request = {.struct_size = sizeof request,
                                .now_ms = fleet_wall_ms(),
                                .lease_ms = fleet.lease_ms,
                                .take = fleet_take_job,
                                .ctx = &taken};
  if (p->store->job_claim(p->store->ctx, &request, &next_ms, NULL) != TP_OK || !taken.id) return false;
  if (fleet_dice(p, 4) == 0) usleep(fleet_dice(p, 1000));
  if (fleet_dice(p, 8) == 0) {
    const tp_job_renew renew = {.struct_size = sizeof renew,
                                .id = taken.id,
                                .claim = taken.claim,
                                .now_ms = fleet_wall_ms(),
                                .lease_ms = fleet.lease_ms};
    (void)!p->store->job_renew(p->store->ctx, &renew, NULL);
  }
  unsigned dice = fleet_dice(p, 16);
  const tp_job_finish finish = {.struct_size = sizeof finish,
                                .id = taken.id,
                                .claim = taken.claim,
                                .now_ms = fleet_wall_ms(),
                                .retry_at_ms = dice < 2 ? fleet_wall_ms() : 0,
                                .reason = dice < 2 ? TP_REASON_ERROR : TP_REASON_NONE,
                                .end = dice == 0   ? TP_JOB_END_RETRY
                                       : dice == 1 ? TP_JOB_END_RELEASED
                                                   : TP_JOB_END_SUCCEEDED};
  uint32_t state = 0;
  fleet_event event = {.kind = FLEET_FINISH, .id = taken.key};
  fleet_begin(&event);
  tp_status status = p->store->job_finish(p->store->ctx, &finish, &state, NULL);
  if (status == TP_ERR_STALE || status == TP_ERR_NOT_FOUND) fleet.board->stale++;
  if (status != TP_OK || state != TP_JOB_SUCCEEDED) return true;
  fleet_end(&event, TP_OK);
  fleet.board->finished++;
  return true;
}

static inline uint64_t fleet_open_jobs(const tp_store *store) {
  uint64_t open = UINT64_MAX;
  return store->job_open(store->ctx, (tp_text){NULL, 0}, &open, NULL) == TP_OK ? open : UINT64_MAX;
}

static inline void fleet_worker(fleet_player *p) {
  tp_store_recovery found = {.struct_size = sizeof found};
  for (int round = 0;; round++) {
    bool any = fleet_work(p);
    if (!any && fleet.board->workers_end && fleet_open_jobs(p->store) == 0) break;
    if (!any) usleep(1000);
    if (round % 64 == 0) (void)!p->store->recover(p->store->ctx, &found, NULL);
  }
}

/* ---- the end ---- */

static inline fleet_event *fleet_read(const char *in, size_t *ret_count) {
  char name[256];
  struct stat status;
  snprintf(name, sizeof name, "%s/events", in);
  int fd = open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &status) != 0) abort();
  char *events = (char *)malloc((size_t)status.st_size + 1);
  for (off_t got = 0; got < status.st_size;) {
    ssize_t size = read(fd, events + got, (size_t)(status.st_size - got));
    if (size <= 0) abort();
    got += size;
  }
  close(fd);
  *ret_count = (size_t)status.st_size / sizeof(fleet_event);
  return (fleet_event *)(void *)events;
}

static inline bool fleet_add_ended(void *ctx, const tp_job *job) {
  char text[24];
  snprintf(text, sizeof text, "%.*s", (int)job->idempotency_key.size, job->idempotency_key.data);
  fleet_add((fleet_list *)ctx, strtoull(text, NULL, 10));
  return true;
}

/** Compares everything that was done with everything that is there now. No process of the fleet runs any more. */
static inline fleet_verdict fleet_judge(const char *in, tp_history *history, const tp_store *store) {
  size_t sessions = (fleet.board->generation + 1) * FLEET_SESSIONS;
  fleet_list *lists = (fleet_list *)calloc(sessions, sizeof *lists);
  fleet_history h = {.lists = lists, .session_count = sessions, .has_jobs = store != NULL};
  for (uint32_t s = 0; s < sessions; s++) {
    char name[16];
    const tp_history_load load = {.struct_size = sizeof load,
                                  .session = tp_text_of(fleet_session_name(name, s)),
                                  .each = fleet_take_id,
                                  .ctx = &lists[s]};
    assert_int_equal(history->load(history->ctx, &load, NULL), TP_OK);
  }
  const tp_job_query ended = {.struct_size = sizeof ended, .states = 1u << TP_JOB_SUCCEEDED};
  if (store) assert_int_equal(store->jobs(store->ctx, &ended, fleet_add_ended, &h.jobs, NULL), TP_OK);
  h.events = fleet_read(in, &h.event_count);
  fleet_verdict v = fleet_check(&h);
  for (size_t s = 0; s < sessions; s++) free(lists[s].ids);
  free(lists);
  free(h.jobs.ids);
  free((void *)(uintptr_t)h.events);
  return v;
}

static inline void fleet_report(const char *what, const fleet_verdict *v) {
  const fleet_board *b = fleet.board;
  print_message(
      "# %s: %llu turns, %llu acknowledged, %llu busy, %llu fenced, %llu failed; %llu calls, %llu jobs, "
      "%llu ended, %llu stale; %llu sessions deleted\n",
      what, (unsigned long long)b->turns, (unsigned long long)b->acknowledged, (unsigned long long)b->busy,
      (unsigned long long)b->fenced, (unsigned long long)b->failed, (unsigned long long)b->calls,
      (unsigned long long)b->inserted, (unsigned long long)b->finished, (unsigned long long)b->stale,
      (unsigned long long)b->deleted);
  for (int i = 0; i < FLEET_RULES; i++)
    if (v->broken[i]) print_message("# rule '%s' is broken %zu times; %s\n", fleet_rules[i], v->broken[i], v->first);
}

#endif
