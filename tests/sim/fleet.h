/* SPDX-License-Identifier: Apache-2.0
 *
 * fleet: several hosts, each with a runtime of its own, share sessions and jobs through one simulated database. Between
 * a host and the database is a line that delays, loses and repeats what it carries, and that can be cut; hosts are
 * killed and replaced. Each seed draws the number of hosts and of sessions, the faults, and every event. Everything
 * that the hosts do is noted as events of tests/support/fleet_check.h, which judges them when the run is over.
 *
 * fleet_database.c: the rules of a shared store. fleet_line.c: the line. fleet_host.c: a host. fleet_sim.c: the
 * program. Only fibers of one run use all of this; they switch only in functions of the simulated machine. */
#ifndef SIM_FLEET_H
#define SIM_FLEET_H

#include "phases/model/messages.h"
#include "runtime/os/os.h"
#include "runtime/os/sim.h"
#include "tests/support/fleet_check.h"
#include "turnphase/turnphase.h"

enum {
  FLEET_HOSTS_MAX = 3,
  FLEET_SESSIONS_MAX = 3,
  FLEET_BATCH_MAX = 8, /* messages of one turn */
  FLEET_LEASE_MS = 15000,
  FLEET_LEFT_MAX = 64,
  FLEET_KILLS_MAX = 4,
  FLEET_TURNS_MAX = 512,
};

typedef enum fleet_trouble {
  TROUBLE_NONE,   /* answers come at once */
  TROUBLE_DELAYS, /* delays, also longer than a lease */
  TROUBLE_LOSS,   /* also lost requests and answers, and repeated requests */
  TROUBLE_CUTS,   /* also a cut of a host's line for longer than a lease */
  TROUBLE_KILLS,  /* also killed hosts */
  FLEET_TROUBLES
} fleet_trouble;

/** Bugs of the simulated database and its client, planted to see that the checker finds them. Those of the engine are
 *  tp__bug. */
typedef enum fleet_bug {
  FLEET_BUG_NONE,
  FLEET_BUG_APPEND_ANY_FENCE,    /* an append does not compare the fence */
  FLEET_BUG_APPEND_ANY_POSITION, /* an append compares neither the fence nor the position */
  FLEET_BUG_CLAIM_RUNNING,       /* a claim takes a session that a living process has */
  FLEET_BUG_SAME_FENCE,          /* a claim by the last owner gets the same fence again */
  FLEET_BUG_CALL_ANY_FENCE,      /* the start of a call does not compare the fence */
  FLEET_BUG_JOB_ANY_FENCE,       /* nor does the insert of a job */
  FLEET_BUG_NO_PROOF,            /* an append that is repeated does not find itself */
  FLEET_BUG_JOB_NO_KEY,          /* nor does the insert of a job */
  FLEET_BUG_LEFT_CLAIM,          /* a claim in doubt that is given up stays */
  FLEET_BUG_JOB_ANY_CLAIM,       /* the end of a job does not compare the claim */
  FLEET_BUGS
} fleet_bug;

/* ---- the database ---- */

typedef struct fleet_message {
  struct fleet_message *next;
  tp__arena arena;
  tp_message message;
  uint64_t id; /* its text as a number; 0: it is not one */
} fleet_message;

/** A request of a host to the database. It may be applied more than once, and long after it was sent. */
typedef struct fleet_request {
  enum {
    FLEET_REQUEST_CLAIM,
    FLEET_REQUEST_APPEND, /* with no messages: the end of a claim */
    FLEET_REQUEST_CALL,
    FLEET_REQUEST_CALL_END,
    FLEET_REQUEST_JOB,
    FLEET_REQUEST_JOB_CLAIM,
    FLEET_REQUEST_JOB_RENEW,
    FLEET_REQUEST_JOB_END,
    FLEET_REQUEST_BEAT
  } kind;
  uint32_t refs;
  uint64_t process, operation; /* operation: the same in each repetition */
  uint32_t session;
  uint64_t number, after;   /* for a claim; number also for an append */
  uint64_t fence, position; /* for an append, a call, a job */
  uint64_t key;             /* for a call: the turn; for a job: its key; for the end of a call: the call */
  uint64_t job, job_claim;
  bool succeeds;
  struct fleet_job_row *row; /* for a job: taken when it is inserted */
  fleet_message *messages;   /* for an append */
  size_t message_count;
} fleet_request;

typedef struct fleet_answer {
  tp_status status;
  uint64_t number, fence, position, first, retry_ms;
  uint64_t ordinal; /* result of a claim: how many of the messages have an id */
  uint64_t id;      /* result: the id of an inserted job or of a call; for the end of a job its key */
  bool existed, had_ended;
  uint32_t state;
  const struct fleet_job_row *row; /* result of a claim of a job; fence is its claim */
} fleet_answer;

typedef struct fleet_job_row {
  struct fleet_job_row *next;
  tp__arena arena;
  tp_job job; /* its texts are in the arena */
  uint64_t key, operation;
  int64_t lease_end_ns;
} fleet_job_row;

/** A row with a copy of the job's texts. */
fleet_job_row *fleet_job_row_new(const tp_job *job);

typedef struct fleet_database fleet_database;

fleet_database *fleet_database_new(fleet_bug bug);
void fleet_database_free(fleet_database *db);
/** Applies a request. now_ns: the database's own clock. */
fleet_answer fleet_database_apply(fleet_database *db, const fleet_request *request, int64_t now_ns);
/** The messages of a session from a position on. They stay until the database is freed. */
const fleet_message *fleet_database_messages(const fleet_database *db, uint32_t session, uint64_t from);
/** @return whether a process has the session for a turn, and its lease lasts. */
bool fleet_database_is_held(fleet_database *db, uint32_t session, int64_t now_ns);
size_t fleet_database_open_jobs(const fleet_database *db);
/** Adds the keys of the jobs that have succeeded. */
void fleet_database_succeeded(const fleet_database *db, fleet_list *list);

/* ---- the world ---- */

struct fleet_host;

/** A turn that was submitted, by its id; it may be submitted again, to another host. */
typedef struct fleet_turn {
  uint64_t id;
  uint32_t session;
  bool calls_tool;
  uint32_t tool_runs;
  bool acknowledged;
} fleet_turn;

typedef struct fleet_world {
  uint64_t seed;
  fleet_trouble trouble;
  fleet_bug bug;
  bool clock_jumps; /* the clock may also jump while fibers can run: everything with a limit may time out */
  uint32_t host_count, session_count, turns_each;
  fleet_database *db;
  struct fleet_host *hosts; /* newest first; those that were killed, too */
  uint32_t living;          /* hosts that have not ended their turns */
  uint64_t last_id;         /* the last id of a message, a turn, an operation or a process */
  fleet_event *events;
  size_t event_count, event_capacity;
  fleet_turn *turns[FLEET_TURNS_MAX];
  size_t turn_count;
  fleet_turn *left[FLEET_LEFT_MAX]; /* turns that were not acknowledged: another host may submit them again */
  size_t left_count;
  uint32_t kills;
  uint32_t acknowledged, busy, fenced, failed, calls, stored;
  bool healed; /* set when nothing is lost, cut or late any more */
  tp__sim_report report;
  char failure[400]; /* the first property that did not hold; empty: all held */
} fleet_world;

void fleet_fail(fleet_world *w, const char *format, ...) TP__PRINTF(2, 3);
/** Starts a fiber that frees itself. */
void fleet_start(const char *name, void (*run)(void *arg), void *arg);
static inline int64_t fleet_ns(uint64_t ms) { return (int64_t)ms * TP__NS_PER_MS; }
static inline int64_t fleet_random_ns(uint64_t ms_max) { return (int64_t)tp__sim_random((uint64_t)fleet_ns(ms_max)); }
static inline bool fleet_one_in(uint64_t inverse) { return tp__sim_random(inverse) == 0; }
static inline uint64_t fleet_new_id(fleet_world *w) { return ++w->last_id; }
/** @return the number of the event, for fleet_end_event(). */
size_t fleet_begin_event(fleet_world *w, fleet_event event);
void fleet_end_event(fleet_world *w, size_t number, fleet_fate fate);
extern const tp_allocator fleet_allocator;

/* ---- the line ---- */

typedef struct fleet_line {
  fleet_world *w;
  uint64_t process;
  bool is_dead;         /* its host was killed: nothing passes any more */
  int64_t cut_until_ns; /* until this time nothing passes */
  bool holds;           /* requests wait until then; else they are lost */
  uint32_t asking;
  bool is_busy[FLEET_SESSIONS_MAX];
} fleet_line;

/** Enters the line: the requests of one session are sent one at a time. Blocks the fiber while another one is sent. */
void fleet_line_enter(fleet_line *line, uint32_t session);
void fleet_line_leave(fleet_line *line, uint32_t session);

/** Sends a request until it is answered, or has_left says that nobody waits any more. Blocks the fiber.
 *  @param most_ms  gives up after that; 0: never, as long as the host lives.
 *  @return false: given up; the request may have been applied, or may be applied later. */
bool fleet_line_ask(fleet_line *line, fleet_request *request, uint32_t most_ms, const bool *has_left,
                    fleet_answer *ret_answer);
fleet_request *fleet_request_new(fleet_line *line, int kind, uint32_t session);
/** Copies messages into the request. */
void fleet_request_add(fleet_request *request, const tp_message *message);
void fleet_request_unref(fleet_request *request);
/** The number that a text is; 0: it is not a number. */
uint64_t fleet_number_of(tp_text text);

/* ---- hosts ---- */

/** Starts a host, with the fibers that submit its turns. When they have ended, world.living falls. */
void fleet_host_start(fleet_world *w);
/** Cuts the line of a host, or kills it and starts another one. */
void fleet_hosts_trouble(fleet_world *w);
/** Blocks until no host asks the database for anything. */
void fleet_hosts_settle(fleet_world *w);
/** Frees their runtimes. */
void fleet_hosts_close(fleet_world *w);
/** Frees the hosts at the end of the run. */
void fleet_hosts_fini(fleet_world *w);

#endif
