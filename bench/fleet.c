/* SPDX-License-Identifier: Apache-2.0
 *
 * The performance of several hosts with one PostgreSQL database; each figure has an aim. The bench starts a server of
 * its own, with synced commits, in /var/tmp. Figures that are compared with pgbench alternate with it. README.md says
 * how to read them.
 *
 *     fleet [--quick] [FIGURE…]      # appends jobs trips takeover begin idle hosts reconnects; --quick: a moment each
 *
 * Exit: 1 when something fails; whether an aim is reached is printed only. */
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/support/host.h"
#include "tests/support/postgres_server.h"
#include "turnphase/postgres.h"

enum { WAITING = 32, HOSTS_MAX = 4, ROUNDS = 5, LEASE_MS = 2000, JOBS_AT_ONCE = 32, TAKERS = 2 };
static bool quick;
static char self[4096];

static void stop(const char *what, const tp_fault *fault) {
  fprintf(stderr, "fleet: %s%s%s\n", what, fault ? ": " : "", fault ? fault->message : "");
  postgres_remove();
  exit(1);
}

/* ---- what is printed ---- */

typedef enum aim_kind { AT_LEAST, AT_MOST, NO_AIM } aim_kind;

static void print_figure(const char *what, double figure, const char *unit, aim_kind kind, double aim) {
  printf("%-58s %10.2f %-12s", what, figure, unit);
  if (kind == NO_AIM) puts("");
  else
    printf("%s %g: %s\n", kind == AT_LEAST ? "at least" : "at most", aim,
           (kind == AT_LEAST ? figure >= aim : figure <= aim) ? "held" : "missed");
  fflush(stdout);
}

static int by_size(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static double median(double *list, size_t count) {
  qsort(list, count, sizeof *list, by_size);
  return list[count / 2];
}

/* ---- the database ---- */

static tp_postgres *open_with_lease(const char *conninfo, uint32_t lease_ms) {
  tp_postgres *database = NULL;
  tp_fault fault = {0};
  const tp_postgres_options options = {.struct_size = sizeof options, .conninfo = conninfo, .lease_ms = lease_ms};
  if (tp_postgres_open(&options, &database, &fault) != TP_OK) stop("no database", &fault);
  return database;
}

static tp_postgres *open_database(const char *conninfo) { return open_with_lease(conninfo, LEASE_MS); }

static tp_history *history_of(tp_postgres *database) {
  tp_history *history = NULL;
  tp_fault fault = {0};
  if (tp_postgres_history(database, &history, &fault) != TP_OK) stop("no history", &fault);
  return history;
}

static tp_store *store_of(tp_postgres *database) {
  tp_store *store = NULL;
  tp_fault fault = {0};
  const tp_postgres_store_options options = {
      .struct_size = sizeof options, .jobs_max = 1000000, .jobs_ended_max = 10000000};
  if (tp_postgres_store(database, &options, &store, &fault) != TP_OK) stop("no store", &fault);
  return store;
}

static tp_postgres_report counts_of(tp_postgres *database) {
  tp_postgres_report report = {.struct_size = sizeof report};
  if (tp_postgres_counts(database, &report) != TP_OK) stop("no counts", NULL);
  return report;
}

/* @return the first value, or 0. */
static long long run_sql(const char *sql) {
  PGconn *connection = PQconnectdb(postgres_server.conninfo);
  PGresult *rows = PQexec(connection, sql);
  ExecStatusType status = PQresultStatus(rows);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) stop(PQerrorMessage(connection), NULL);
  long long value = status == PGRES_TUPLES_OK && PQntuples(rows) > 0 ? strtoll(PQgetvalue(rows, 0, 0), NULL, 10) : 0;
  PQclear(rows);
  PQfinish(connection);
  return value;
}

/* ---- pgbench ---- */

static char pgbench[160];

static bool find_pgbench(void) {
  snprintf(pgbench, sizeof pgbench, "%.*s/pgbench",
           (int)(strrchr(postgres_server.initdb, '/') - postgres_server.initdb), postgres_server.initdb);
  return access(pgbench, X_OK) == 0;
}

/* @param how  its options.   @return scripts a second. */
static double run_pgbench(const char *script, const char *how) {
  char file[96], command[1024], line[512];
  double rate = 0;
  snprintf(file, sizeof file, "%s/script", postgres_server.directory);
  FILE *f = fopen(file, "w");
  if (!f || fputs(script, f) < 0 || fclose(f) != 0) stop("cannot write the script of pgbench", NULL);
  snprintf(command, sizeof command, "%s -n -M prepared -j 2 %s -f %s -h %s -U postgres postgres 2>&1", pgbench, how,
           file, postgres_server.directory);
  FILE *output = popen(command, "r");
  if (!output) stop("pgbench does not start", NULL);
  while (fgets(line, sizeof line, output)) {
    if (strncmp(line, "tps = ", 6) == 0) rate = strtod(line + 6, NULL);
    if (strstr(line, "aborted") || strstr(line, "ERROR")) fputs(line, stderr);
  }
  if (pclose(output) != 0 || rate == 0) stop("pgbench failed", NULL);
  return rate;
}

/* ---- appends and turns, many of which wait at the same time ---- */

typedef struct writer {
  pthread_t thread;
  tp_history *history;
  const tp_store_owner *owner;
  bool claims;
  char session[24];
  int64_t until_ns;
  uint64_t done;
} writer;

static tp_status pass_message(void *ctx, const tp_message *message) {
  (void)ctx, (void)message;
  return TP_OK;
}

static char message_text[201];

static void *write_turns(void *ctx) {
  writer *w = ctx;
  const tp_message message = {
      .struct_size = sizeof message, .role = TP_ROLE_USER, .text = {message_text, sizeof message_text - 1}};
  const tp_message *const messages[] = {&message, &message, &message};
  tp_history_claim claim = {.struct_size = sizeof claim};
  tp_fault fault = {0};
  while (now_ns() < w->until_ns) {
    tp_history_load load = {.struct_size = sizeof load,
                            .session = tp_text_of(w->session),
                            .each = pass_message,
                            .owner = w->owner,
                            .number = claim.number,
                            .after = claim.number ? claim.position + 3 : 0,
                            .claim = &claim};
    if (w->claims && w->history->load(w->history->ctx, &load, &fault) != TP_OK) stop("no claim", &fault);
    const tp_history_append append = {.struct_size = sizeof append,
                                      .session = tp_text_of(w->session),
                                      .messages = messages,
                                      .message_count = 3,
                                      .claim = w->claims ? &claim : NULL};
    if (w->history->append(w->history->ctx, &append, &fault) != TP_OK) stop("no append", &fault);
    w->done++;
  }
  return NULL;
}

/* @return turns a second. */
static double play_turns(tp_history *history, bool claims, uint64_t host, int64_t ns) {
  static writer writers[WAITING];
  const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 1000 + host, .process_id = getpid()};
  int64_t begin_ns = now_ns();
  uint64_t done = 0;
  for (int i = 0; i < WAITING; i++) {
    writers[i] = (writer){.history = history, .owner = &owner, .claims = claims, .until_ns = begin_ns + ns};
    snprintf(writers[i].session, sizeof writers[i].session, "%s %llu %d", claims ? "turn" : "append",
             (unsigned long long)host, i);
    if (pthread_create(&writers[i].thread, NULL, write_turns, &writers[i]) != 0) stop("no thread", NULL);
  }
  for (int i = 0; i < WAITING; i++) {
    pthread_join(writers[i].thread, NULL);
    done += writers[i].done;
  }
  return (double)done * 1e9 / (double)(now_ns() - begin_ns);
}

#define ROW(i)                                                             \
  "SELECT ok.id, ok.next + " i                                             \
  ", 1, clock_timestamp(), 1::smallint, false, '1'::bytea, :text::bytea, " \
  "''::bytea, ''::bytea, ''::bytea, ''::bytea, ''::bytea, ''::bytea, ''::bytea FROM ok"
#define PGBENCH_APPEND(condition)                                                                                 \
  "WITH ok AS (UPDATE turnphase.session SET next = next + 3, running = false WHERE tenant = '' AND name = "       \
  "'bench' || :client_id AND " condition                                                                          \
  " RETURNING id, next - 3 AS next) INSERT INTO turnphase.message (session, position, batch, appended, role, "    \
  "is_error, turn, text, call_id, name, parts, value, provider_data, ending, calls) " ROW("0") " UNION ALL " ROW( \
      "1") " UNION ALL " ROW("2") ";\n"
/* Does one by one what the library's statements do for all waiting appends together. */
static const char pgbench_append[] = PGBENCH_APPEND("owner = 0");
static const char pgbench_turn[] =
    "UPDATE turnphase.session s SET owner = 1, epoch = epoch + 1, running = true WHERE tenant = '' AND name = 'bench' "
    "|| :client_id AND (NOT running OR owner = 1 OR NOT EXISTS (SELECT 1 FROM turnphase.process p WHERE p.id = s.owner "
    "AND p.lease_end > clock_timestamp())) RETURNING epoch, next AS position \\gset\n" PGBENCH_APPEND(
        "epoch = :epoch AND next = :position AND running");

static void measure_appends(void) {
  char how[320];
  double ratios[2][ROUNDS], rates[2][ROUNDS], theirs[2][ROUNDS];
  tp_postgres *database = open_database(postgres_server.conninfo);
  tp_history *history = history_of(database);
  int rounds = quick ? 1 : ROUNDS;
  int64_t ns = quick ? 300000000 : 3000000000;
  run_sql(
      "INSERT INTO turnphase.session (tenant, name, next, owner, epoch, running)"
      " SELECT '', 'bench' || i, 0, 0, 0, false FROM generate_series(0, 31) i");
  snprintf(how, sizeof how, "-c %d -T %d -D text=%s", WAITING, quick ? 1 : 3, message_text);
  for (int i = 0; i < rounds; i++) {
    for (int claims = 0; claims < 2; claims++) {
      run_sql("UPDATE turnphase.session SET owner = 0 WHERE name LIKE 'bench%'");
      rates[claims][i] = play_turns(history, claims, (uint64_t)i, ns); /* new sessions: no claim loads an old past */
      theirs[claims][i] = run_pgbench(claims ? pgbench_turn : pgbench_append, how);
      ratios[claims][i] = rates[claims][i] / theirs[claims][i];
    }
  }
  print_figure("appends a second, 32 waiting", median(rates[0], (size_t)rounds), "", NO_AIM, 0);
  print_figure("  pgbench, 32 clients, the same SQL", median(theirs[0], (size_t)rounds), "", NO_AIM, 0);
  print_figure("  ratio (median of the rounds)", median(ratios[0], (size_t)rounds), "times", AT_LEAST, 2);
  print_figure("turns a second (claim and append), 32 waiting", median(rates[1], (size_t)rounds), "", NO_AIM, 0);
  print_figure("  pgbench, 32 clients, the same SQL", median(theirs[1], (size_t)rounds), "", NO_AIM, 0);
  print_figure("  ratio (median of the rounds)", median(ratios[1], (size_t)rounds), "times", AT_LEAST, 2);
  tp_history_free(history);
  tp_postgres_close(database);
}

/* ---- jobs ---- */

static void insert_jobs(const tp_store *store, int count) {
  enum { AT_ONCE = 250 };
  static uint64_t last;
  tp_job jobs[AT_ONCE];
  const tp_job *list[AT_ONCE];
  char keys[AT_ONCE][24];
  uint64_t ids[AT_ONCE];
  bool existed[AT_ONCE];
  tp_status statuses[AT_ONCE];
  tp_fault fault = {0};
  for (int done = 0; done < count; done += AT_ONCE) {
    for (int i = 0; i < AT_ONCE; i++) {
      snprintf(keys[i], sizeof keys[i], "%llu", (unsigned long long)++last);
      jobs[i] = (tp_job){.struct_size = sizeof *jobs,
                         .attempts_max = 3,
                         .limit_ms = 1000,
                         .handler = TEXT("work"),
                         .idempotency_key = tp_text_of(keys[i]),
                         .order_key = tp_text_of(keys[i]),
                         .payload = {"\x80", 1}};
      list[i] = &jobs[i];
    }
    if (store->job_insert_all(store->ctx, list, AT_ONCE, ids, existed, statuses, &fault) != TP_OK)
      stop("no jobs", &fault);
  }
  run_sql("VACUUM ANALYZE turnphase.job");
}

typedef struct taker {
  pthread_t thread;
  const tp_store *store;
  uint64_t ids[JOBS_AT_ONCE], claims[JOBS_AT_ONCE], done;
  size_t count;
} taker;

static void take_job(void *ctx, const tp_job *job) {
  taker *t = ctx;
  t->ids[t->count] = job->id;
  t->claims[t->count++] = job->claim;
}

static int64_t wall_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool take_jobs(taker *t) {
  tp_job_finish ends[JOBS_AT_ONCE];
  const tp_job_finish *list[JOBS_AT_ONCE];
  uint32_t states[JOBS_AT_ONCE];
  tp_status statuses[JOBS_AT_ONCE];
  tp_fault fault = {0};
  int64_t next_ms;
  const tp_job_claim claim = {.struct_size = sizeof claim,
                              .now_ms = wall_ms(),
                              .lease_ms = 60000,
                              .take = take_job,
                              .ctx = t,
                              .count_max = JOBS_AT_ONCE};
  t->count = 0;
  tp_status status = t->store->job_claim(t->store->ctx, &claim, &next_ms, &fault);
  if (status != TP_OK && status != TP_ERR_NOT_FOUND) stop("no claim of jobs", &fault);
  if (t->count == 0) return false;
  for (size_t i = 0; i < t->count; i++) {
    ends[i] = (tp_job_finish){.struct_size = sizeof *ends,
                              .id = t->ids[i],
                              .claim = t->claims[i],
                              .now_ms = wall_ms(),
                              .end = TP_JOB_END_SUCCEEDED};
    list[i] = &ends[i];
  }
  if (t->store->job_finish_all(t->store->ctx, list, t->count, states, statuses, &fault) != TP_OK)
    stop("no end of jobs", &fault);
  for (size_t i = 0; i < t->count; i++)
    if (statuses[i] != TP_OK) stop("a job was not ended", NULL);
  t->done += t->count;
  return true;
}

static void *take_all_jobs(void *ctx) {
  while (take_jobs(ctx)) {}
  return NULL;
}

/* @return jobs a second, with two threads that claim 32 jobs at a time. */
static double play_jobs(const tp_store *store, int count) {
  static taker takers[TAKERS];
  uint64_t done = 0;
  int64_t begin_ns = now_ns();
  for (int i = 0; i < TAKERS; i++) {
    takers[i] = (taker){.store = store};
    if (pthread_create(&takers[i].thread, NULL, take_all_jobs, &takers[i]) != 0) stop("no thread", NULL);
  }
  for (int i = 0; i < TAKERS; i++) {
    pthread_join(takers[i].thread, NULL);
    done += takers[i].done;
  }
  double seconds = (double)(now_ns() - begin_ns) / 1e9;
  if (done != (uint64_t)count) stop("jobs are missing", NULL);
  return (double)done / seconds;
}

#define OTHERS \
  "handler, subscription, idempotency_key, order_key, message, payload, key_hash, order_hash, process, mark"
/* Claims and ends jobs one by one, with the library's tables. */
static const char pgbench_job[] =
    "UPDATE turnphase.job SET state = 2, claim = claim + 1, attempt = attempt + 1, process = 1, batch = 1, "
    "lease_end_ms "
    "= (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 60000 WHERE id = (SELECT j.id FROM turnphase.job j "
    "WHERE "
    "j.state = 1 AND j.handler = 'work'::bytea AND j.contract_version = 0 AND NOT EXISTS (SELECT 1 FROM turnphase.job "
    "o "
    "WHERE o.order_hash = j.order_hash AND (o.place, o.id) < (j.place, j.id)) ORDER BY j.id LIMIT 1 FOR UPDATE SKIP "
    "LOCKED) RETURNING id, claim \\gset\n"
    "WITH gone AS (DELETE FROM turnphase.job WHERE id = :id AND claim = :claim AND state = 2 RETURNING *) INSERT INTO "
    "turnphase.job_ended (id, state, claim, attempt, attempts_max, backoff, backoff_ms, limit_ms, phase, "
    "contract_version, reason, code, inserted_ms, claimable_ms, lease_end_ms, ended_ms, postponed_ms, batch, " OTHERS
    ") SELECT id, 3, claim, attempt, attempts_max, backoff, backoff_ms, limit_ms, phase, contract_version, 0, 0, "
    "inserted_ms, 0, 0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, postponed_ms, 1, " OTHERS
    " FROM gone;\n";

static void measure_jobs(void) {
  double rates[ROUNDS], theirs[ROUNDS], ratios[ROUNDS];
  tp_postgres *database = open_database(postgres_server.conninfo);
  tp_store *store = store_of(database);
  tp_fault fault = {0};
  const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 77, .process_id = getpid()};
  int rounds = quick ? 1 : ROUNDS, count = quick ? 1000 : 20000, their_count = quick ? 1000 : 4000;
  char how[64];
  if (store->open(store->ctx, &owner, &fault) != TP_OK) stop("no store", &fault);
  snprintf(how, sizeof how, "-c 8 -t %d", their_count / 8);
  for (int i = 0; i < rounds; i++) {
    insert_jobs(store, count);
    rates[i] = play_jobs(store, count);
    insert_jobs(store, their_count);
    theirs[i] = run_pgbench(pgbench_job, how);
    ratios[i] = rates[i] / theirs[i];
    if (run_sql("SELECT count(*) FROM turnphase.job") != 0) stop("pgbench has left jobs", NULL);
  }
  print_figure("jobs claimed and finished a second, 32 at a time", median(rates, (size_t)rounds), "", NO_AIM, 0);
  print_figure("  pgbench, 8 clients, one by one", median(theirs, (size_t)rounds), "", NO_AIM, 0);
  print_figure("  ratio (median of the rounds)", median(ratios, (size_t)rounds), "times", AT_LEAST, 8);
  tp_store_free(store);
  tp_postgres_close(database);
}

/* ---- other processes ---- */

typedef struct process {
  pid_t id;
  FILE *lines; /* what the process prints */
} process;

static process start_process(const char *what, const char *number, const char *conninfo) {
  int fds[2];
  if (pipe(fds) != 0) stop("no pipe", NULL);
  pid_t id = fork();
  if (id == 0) {
    dup2(fds[1], 1);
    close(fds[0]);
    close(fds[1]);
    execl(self, self, "--process", what, number, conninfo, (char *)NULL);
    _exit(127);
  }
  close(fds[1]);
  return (process){id, fdopen(fds[0], "r")};
}

static void read_line(process p, char *ret_line, int size) {
  if (!fgets(ret_line, size, p.lines)) stop("a process has said nothing", NULL);
}

static void end_process(process p) {
  kill(p.id, SIGKILL);
  waitpid(p.id, NULL, 0);
  fclose(p.lines);
}

static void say(const char *format, long long number) {
  printf(format, number);
  fflush(stdout);
}

/* ---- turns of a session: round trips, and the turn after its owner has died ---- */

static void answer(void *ctx, const tp_model_request *request, tp_token token) {
  static const tp_model_response yes = {.struct_size = sizeof yes, .text = TEXT("yes")};
  (void)ctx, (void)request;
  (void)!tp_model_complete(token, &yes, NULL);
}

static const tp_model model = {.struct_size = sizeof model, .name = "instant", .start = answer};

static tp_runtime *open_runtime_with(const tp_store *store) {
  tp_runtime *runtime = NULL;
  tp_fault fault = {0};
  const tp_runtime_options options = {.struct_size = sizeof options, .store = store};
  if (tp_runtime_new(&options, &runtime, &fault) != TP_OK) stop("no runtime", &fault);
  return runtime;
}

static tp_session *open_session(tp_runtime *runtime, const char *id, tp_history *history) {
  tp_session *session = NULL;
  tp_fault fault = {0};
  const tp_session_options options = {.struct_size = sizeof options,
                                      .id = id,
                                      .model = &model,
                                      .history = history,
                                      .busy = TP_BUSY_WAIT,
                                      .busy_wait_ms = 60000};
  if (tp_session_open(runtime, &options, &session, &fault) != TP_OK) stop("no session", &fault);
  return session;
}

static void run_turn(tp_session *session) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
  const tp_turn_result *result = NULL;
  tp_fault fault = {0};
  if (tp_turn_run(session, &request, &result, &fault) != TP_OK || result->outcome != TP_TURN_COMPLETED)
    stop("a turn failed", &fault);
  tp_turn_result_free(result);
}

static void measure_trips(void) {
  enum { TURNS = 20 };
  tp_postgres *database = open_database(postgres_server.conninfo);
  tp_runtime *runtime = open_runtime_with(NULL);
  tp_session *session = open_session(runtime, "trips", history_of(database));
  run_turn(session);
  uint64_t before = counts_of(database).transactions;
  for (int i = 0; i < TURNS; i++) run_turn(session);
  print_figure("round trips of a warm turn", (double)(counts_of(database).transactions - before) / TURNS, "", AT_MOST,
               2);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  tp_postgres_close(database);
}

static int be_owner(const char *session, const char *conninfo) {
  tp_history *history = history_of(open_database(conninfo));
  const tp_store_owner owner = {
      .struct_size = sizeof owner, .process_run_id = (uint64_t)getpid(), .process_id = getpid()};
  tp_history_claim claim = {.struct_size = sizeof claim};
  const tp_history_load load = {.struct_size = sizeof load,
                                .session = tp_text_of(session),
                                .each = pass_message,
                                .owner = &owner,
                                .claim = &claim};
  tp_fault fault = {0};
  if (history->load(history->ctx, &load, &fault) != TP_OK) stop("no claim", &fault);
  say("%lld\n", (long long)claim.fence);
  for (;;) (void)pause();
  return 0;
}

static void measure_takeover(void) {
  double longest = 0;
  char line[64], name[16];
  tp_postgres *database = open_database(postgres_server.conninfo);
  tp_runtime *runtime = open_runtime_with(NULL);
  for (int i = 0; i < (quick ? 1 : 10); i++) {
    snprintf(name, sizeof name, "taken%d", i);
    process p = start_process("owner", name, postgres_server.conninfo);
    tp_session *session = open_session(runtime, name, history_of(database));
    read_line(p, line, sizeof line);
    usleep((useconds_t)(i * 97000)); /* at some moment between two renewals */
    int64_t begin_ns = now_ns();
    end_process(p);
    run_turn(session);
    double spent = (double)(now_ns() - begin_ns) / 1e9;
    if (spent > longest) longest = spent;
    tp_session_close(session, NULL, NULL);
  }
  print_figure("takeover from a dead host, lease of 2 s (the longest)", longest, "s", AT_MOST, LEASE_MS / 1000 + 1);
  close_runtime(runtime);
  tp_postgres_close(database);
}

/* ---- a job in another process ---- */

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT };

static tp_answer note_job(void *ctx, tp_call *call) {
  (void)ctx, (void)call;
  say("%lld\n", (long long)now_ns());
  return TP_ANSWER_DONE;
}

static void add_job_hook(tp_runtime *runtime) {
  tp_fault fault = {0};
  const hook job = {
      .id = "job", .phase = GATHER, .run = note_job, .slow = true, .sub = {.execution = TP_EXECUTION_BACKGROUND}};
  if (hooks_add(runtime, &job, 1, &fault) != TP_OK) stop("no hook", &fault);
}

static int be_worker(const char *conninfo) {
  tp_runtime *runtime = open_runtime_with(store_of(open_with_lease(conninfo, 0)));
  tp_fault fault = {0};
  add_job_hook(runtime);
  if (tp_runtime_start(runtime, &fault) != TP_OK) stop("no start", &fault);
  say("%lld\n", 0);
  for (;;) (void)pause();
  return 0;
}

static tp_status claim_nothing(void *ctx, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault) {
  (void)ctx, (void)request, (void)fault;
  *ret_next_ms = 0;
  return TP_ERR_NOT_FOUND;
}

static void run_phase_with_job(tp_runtime *runtime) {
  tp_turn *turn;
  const tp_turn_request request = {.struct_size = sizeof request};
  const tp_phase_input input = {.struct_size = sizeof input, .budget_ms = 60000};
  tp_phase_result result = {.struct_size = sizeof result};
  tp_fault fault = {0};
  if (tp_turn_begin_bare(runtime, &request, &turn, &fault) != TP_OK ||
      tp_phase_run(turn, GATHER, &input, &result, &fault) != TP_OK)
    stop("no turn with a job", &fault);
  tp_turn_end(turn);
}

static void measure_begin(void) {
  enum { JOBS = 40 };
  double spent[JOBS];
  char line[64];
  int count = quick ? 3 : JOBS;
  tp_postgres *database = open_database(postgres_server.conninfo);
  tp_store store = *store_of(database);
  store.job_claim = claim_nothing; /* this process runs no job */
  tp_runtime *runtime = open_runtime_with(&store);
  add_job_hook(runtime);
  process p = start_process("worker", "0", postgres_server.conninfo);
  read_line(p, line, sizeof line);
  sleep(quick ? 0 : 4); /* until it listens, and has tested that news come */
  for (int i = 0; i < count; i++) {
    usleep((useconds_t)(i * 7919 % 400) * 1000);
    int64_t begin_ns = now_ns();
    run_phase_with_job(runtime);
    read_line(p, line, sizeof line);
    spent[i] = (double)(strtoll(line, NULL, 10) - begin_ns) / 1e6;
  }
  double middle = median(spent, (size_t)count);
  print_figure("a job begins in another process after (median)", middle, "ms", AT_MOST, 20);
  print_figure("  9 of 10", spent[count * 9 / 10], "ms", NO_AIM, 0);
  end_process(p);
  close_runtime(runtime);
  tp_postgres_close(database);
}

/* ---- a process without work ---- */

/* Counts the statements in the server's log, from an offset on. */
static int count_statements(long *offset) {
  char name[96], line[4096];
  int count = 0;
  snprintf(name, sizeof name, "%s/output", postgres_server.directory);
  FILE *f = fopen(name, "r");
  if (!f || fseek(f, *offset, SEEK_SET) != 0) stop("no log of the server", NULL);
  while (fgets(line, sizeof line, f))
    if (strstr(line, "LOG:  statement: ") || strstr(line, "LOG:  execute ")) count++;
  *offset = ftell(f);
  fclose(f);
  return count;
}

static void measure_idle(void) {
  char conninfo[256], line[64];
  long offset = 0;
  unsigned seconds = quick ? 1 : 40;
  snprintf(conninfo, sizeof conninfo, "%s options='-c log_statement=all'", postgres_server.conninfo);
  process p = start_process("worker", "0", conninfo);
  read_line(p, line, sizeof line);
  sleep(quick ? 0 : 5);
  if (count_statements(&offset) == 0 && !quick) stop("the server logs no statement", NULL);
  sleep(seconds);
  print_figure("statements a second of a process without work", (double)count_statements(&offset) / seconds, "",
               AT_MOST, 2);
  end_process(p);
}

/* ---- several hosts ---- */

static int be_host(const char *number, const char *conninfo) {
  tp_history *history = history_of(open_database(conninfo));
  double rate =
      play_turns(history, true, strtoull(number, NULL, 10), strtol(strchr(number, ' '), NULL, 10) * 1000000LL);
  say("%lld\n", (long long)rate);
  return 0;
}

static void measure_hosts(void) {
  double one = 0;
  char line[64], what[80], number[16];
  for (int hosts = 1; hosts <= HOSTS_MAX; hosts *= 2) {
    process list[HOSTS_MAX];
    double sum = 0;
    for (int i = 0; i < hosts; i++) {
      snprintf(number, sizeof number, "%d %d", i + 1, quick ? 300 : 4000);
      list[i] = start_process("host", number, postgres_server.conninfo);
    }
    for (int i = 0; i < hosts; i++) {
      read_line(list[i], line, sizeof line);
      sum += strtod(line, NULL);
    }
    for (int i = 0; i < hosts; i++) end_process(list[i]);
    if (hosts == 1) one = sum;
    snprintf(what, sizeof what, "turns a second, %d host%s with 32 waiting each", hosts, hosts > 1 ? "s" : "");
    print_figure(what, sum, "", NO_AIM, 0);
    if (hosts > 1) print_figure("  times those of one host", sum / one, "times", NO_AIM, 0);
  }
}

/* ---- reconnects ---- */

static int count_descriptors(void) {
  int count = 0;
  DIR *list = opendir("/proc/self/fd");
  while (list && readdir(list)) count++;
  if (list) closedir(list);
  return count;
}

static long resident_kib(void) {
  long pages = 0, resident = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%ld %ld", &pages, &resident) != 2) stop("no /proc", NULL);
  fclose(f);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

#define OURS "FROM pg_stat_activity WHERE application_name = 'turnphase'"

/* All its connections are ended; then the history reads, claims and appends. */
static void reconnect(tp_history *history, const tp_store_owner *owner) {
  const tp_text session = TEXT("reconnects");
  const tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_USER, .text = TEXT("hello")};
  const tp_message *const messages[] = {&message};
  tp_history_claim claim = {.struct_size = sizeof claim};
  tp_fault fault = {0};
  const tp_history_load read = {.struct_size = sizeof read, .session = TEXT("no session"), .each = pass_message};
  const tp_history_load load = {.struct_size = sizeof load,
                                .session = session,
                                .each = pass_message,
                                .owner = owner,
                                .number = 1,
                                .after = UINT64_MAX,
                                .claim = &claim};
  const tp_history_append append = {
      .struct_size = sizeof append, .session = session, .messages = messages, .message_count = 1, .claim = &claim};
  const tp_history_delete deletion = {.struct_size = sizeof deletion, .session = session};
  if (history->load(history->ctx, &read, &fault) != TP_OK || history->load(history->ctx, &load, &fault) != TP_OK ||
      history->append(history->ctx, &append, &fault) != TP_OK ||
      history->delete_session(history->ctx, &deletion, &fault) != TP_OK)
    stop("a reconnect failed", &fault);
}

static void measure_reconnects(void) {
  uint64_t most = quick ? 20 : 10000, warm = quick ? 4 : 300;
  int descriptors = 0;
  long resident = 0;
  tp_postgres *database = open_database(postgres_server.conninfo);
  tp_history *history = history_of(database);
  tp_store *store = store_of(database);
  const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 99, .process_id = getpid()};
  if (store->open(store->ctx, &owner, NULL) != TP_OK) stop("no store", NULL);
  PGconn *connection = PQconnectdb(postgres_server.conninfo);
  int64_t begin_ns = now_ns();
  for (uint64_t made = 0; made < most + warm; made = counts_of(database).connections) {
    if (!descriptors && made >= warm) {
      descriptors = count_descriptors();
      resident = resident_kib();
    }
    PQclear(PQexec(connection, "SELECT pg_terminate_backend(pid) " OURS));
    reconnect(history, &owner);
  }
  double seconds = (double)(now_ns() - begin_ns) / 1e9;
  sleep(2); /* by then the last connections are made, and the server has closed the earlier ones */
  print_figure("reconnects", (double)(counts_of(database).connections - warm), "", NO_AIM, 0);
  print_figure("  seconds", seconds, "s", NO_AIM, 0);
  print_figure("  descriptors more than before", count_descriptors() - descriptors, "", AT_MOST, 0);
  print_figure("  resident memory more than before", (double)(resident_kib() - resident), "KiB", AT_MOST, 1024);
  print_figure("  connections at the server", (double)run_sql("SELECT count(*) " OURS), "", AT_MOST, 4);
  PQfinish(connection);
  tp_store_free(store);
  tp_history_free(history);
  tp_postgres_close(database);
  print_figure("  and after the close", (double)run_sql("SELECT count(*) " OURS), "", AT_MOST, 0);
}

/* ---- */

static const struct {
  const char *name;
  void (*measure)(void);
  bool needs_pgbench;
} figures[] = {{"appends", measure_appends, true}, {"jobs", measure_jobs, true},
               {"trips", measure_trips, false},    {"takeover", measure_takeover, false},
               {"begin", measure_begin, false},    {"idle", measure_idle, false},
               {"hosts", measure_hosts, false},    {"reconnects", measure_reconnects, false}};

static void make_server(void) {
  static const char *const settings[] = {
      "fsync=on",        "full_page_writes=on", "autovacuum=on", "shared_buffers=128MB", "autovacuum_naptime=10s",
      "max_wal_size=4GB"};
  for (size_t i = 0; i < COUNT(settings); i++) postgres_server.settings[i] = settings[i];
  postgres_make();
  tp_postgres_close(open_database(postgres_server.conninfo)); /* makes the schema */
}

static bool is_wanted(const char *name, char **names) {
  bool is_any = !names[0];
  for (; *names; names++) is_any = is_any || strcmp(*names, name) == 0;
  return is_any;
}

static int play_process(char **words) {
  memset(message_text, 'a', sizeof message_text - 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (strcmp(words[0], "owner") == 0) return be_owner(words[1], words[2]);
  if (strcmp(words[0], "worker") == 0) return be_worker(words[2]);
  return be_host(words[1], words[2]);
}

int main(int count, char **arguments) {
  const char *lack = postgres_lack();
  ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
  if (size < 0) stop("no /proc", NULL);
  if (count == 5 && strcmp(arguments[1], "--process") == 0) return play_process(arguments + 2);
  memset(message_text, 'a', sizeof message_text - 1);
  quick = count > 1 && strcmp(arguments[1], "--quick") == 0;
  if (lack) {
    printf("not measured: %s\n", lack);
    return 77; /* the exit code of a skipped test */
  }
  make_server();
  for (size_t i = 0; i < COUNT(figures); i++) {
    if (!is_wanted(figures[i].name, arguments + 1 + quick)) continue;
    if (figures[i].needs_pgbench && !find_pgbench()) printf("%s: not measured, there is no pgbench\n", figures[i].name);
    else figures[i].measure();
  }
  postgres_remove();
  return 0;
}
