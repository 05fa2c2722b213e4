/* SPDX-License-Identifier: Apache-2.0
 *
 * turnphase data copy: copies a data directory or a database into an empty one. It uses functions that every history
 * and every store has, so any pair of them can be copied. Data that these functions cannot show or take is counted and
 * reported. Lists come newest first. So names are read first, and then the rows page by page from the oldest on, so
 * that the copy has the order of the original. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/data.h"
#include "cli/common/database.h"
#include "cli/common/exit_status.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/output.h"
#include "cli/common/pool.h"
#include "turnphase/sqlite.h"
#include "turnphase/task.h"

enum { PAGE = 256, BATCH_MESSAGES = 64, BATCH_BYTES = 1 << 20 };

/** A directory or a database. Zero-filled: none. */
typedef struct place {
  const char *name;
  char *path; /* of the file; NULL: a database */
  tp_postgres *database;
  tp_history *history;
  tp_store *store;
} place;

typedef struct copy {
  place from, to;
  uint64_t sessions, messages, entries, attempts, turns, audits, jobs;
  uint64_t jobs_left, questions_left, tasks_left, running_left; /* that are not copied */
  bool runs;                                                    /* a job does */
  tp_status status;                                             /* the first that failed, of the target */
  tp_fault fault;
  const tp_history_session *session; /* that is copied */
} copy;

/* ---- places ---- */

static void place_close(place *p) {
  tp_store_free(p->store);
  tp_history_free(p->history);
  cli_database_close(p->database);
  free(p->path);
}

static int open_database(place *p, bool existing_only) {
  tp_fault fault = {0};
  tp_status status = cli_database_open(p->name, existing_only, NULL, NULL, &p->database, &fault);
  if (status == TP_OK) status = cli_database_history(p->database, &p->history, &fault);
  if (status == TP_OK) status = cli_database_store(p->database, &p->store, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(NULL, status, &fault);
}

/* @param existing_only  true for the source. */
static int place_open(place *p, const char *name, bool existing_only) {
  static const char file[] = "turnphase.db";
  tp_fault fault = {0};
  p->name = name;
  if (cli_database_is(name)) return open_database(p, existing_only);
  int checked = existing_only ? cli_data_find(name, file, &p->path) : cli_data_make(name);
  if (checked != CLI_OK) return checked;
  if (!p->path) p->path = cli_data_path(name, file);
  const tp_sqlite_store_options options = {
      .struct_size = sizeof options, .path = p->path, .existing_only = existing_only};
  tp_status status = tp_sqlite_store_open(&options, &p->store, &fault);
  if (status == TP_OK) status = tp_sqlite_history_open(p->path, &p->history, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(p->path, status, &fault);
}

static bool note_session(void *ctx, const tp_history_session *session) {
  (void)session;
  *(bool *)ctx = true;
  return false;
}

static bool note_entry(void *ctx, const tp_entry_record *entry) {
  (void)entry;
  *(bool *)ctx = true;
  return false;
}

static bool note_turn(void *ctx, const tp_turn_record *turn) {
  (void)turn;
  *(bool *)ctx = true;
  return false;
}

static bool note_audit(void *ctx, const tp_audit *audit) {
  (void)audit;
  *(bool *)ctx = true;
  return false;
}

static bool note_job(void *ctx, const tp_job *job) {
  (void)job;
  *(bool *)ctx = true;
  return false;
}

/** Every state of a job. */
static const uint32_t all_states =
    1u << TP_JOB_QUEUED | 1u << TP_JOB_RUNNING | 1u << TP_JOB_SUCCEEDED | 1u << TP_JOB_DEAD | 1u << TP_JOB_DISCARDED;

/* @param ret_has  whether the place contains any data. */
static tp_status look_into(const place *p, bool *ret_has, tp_fault *fault) {
  const tp_history_query sessions = {.struct_size = sizeof sessions, .limit = 1};
  const tp_record_query entries = {.struct_size = sizeof entries, .limit = 1};
  const tp_turn_query turns = {.struct_size = sizeof turns, .limit = 1};
  const tp_audit_query audits = {.struct_size = sizeof audits, .limit = 1};
  const tp_job_query jobs = {.struct_size = sizeof jobs, .limit = 1, .states = all_states};
  const tp_store *s = p->store;
  tp_status status = p->history->list_sessions(p->history->ctx, &sessions, note_session, ret_has, fault);
  if (status == TP_OK) status = s->records(s->ctx, &entries, note_entry, ret_has, fault);
  if (status == TP_OK) status = s->turns(s->ctx, &turns, note_turn, ret_has, fault);
  if (status == TP_OK) status = s->audits(s->ctx, &audits, note_audit, ret_has, fault);
  if (status == TP_OK) status = s->jobs(s->ctx, &jobs, note_job, ret_has, fault);
  return status;
}

static int check_empty(const place *p) {
  tp_fault fault = {0};
  bool has = false;
  tp_status status = look_into(p, &has, &fault);
  if (status != TP_OK) return cli_fault(p->path, status, &fault);
  if (!has) return CLI_OK;
  cli_error("data copy: %s is not empty: nothing is copied; give a new directory or a new database", p->name);
  return CLI_NEGATIVE;
}

/* ---- sessions ---- */

/** Messages that are appended together. */
typedef struct batch {
  copy *c;
  cli_pool pool;
  tp_message messages[BATCH_MESSAGES];
  size_t count, bytes;
} batch;

static tp_text keep(batch *b, tp_text text) {
  b->bytes += text.size;
  return text.size ? (tp_text){cli_pool_copy(&b->pool, text), text.size} : (tp_text){"", 0};
}

static void free_calls(tp_message *message) {
  for (size_t i = 0; i < message->call_count; i++) free((void *)(uintptr_t)message->calls[i]);
  if (message->call_count) free((void *)(uintptr_t)message->calls);
}

static tp_status append_batch(batch *b) {
  copy *c = b->c;
  const tp_message *list[BATCH_MESSAGES];
  for (size_t i = 0; i < b->count; i++) list[i] = &b->messages[i];
  const tp_history_append append = {.struct_size = sizeof append,
                                    .tenant = c->session->tenant,
                                    .session = c->session->session,
                                    .messages = list,
                                    .message_count = b->count};
  if (b->count > 0) c->status = c->to.history->append(c->to.history->ctx, &append, &c->fault);
  if (c->status == TP_OK) c->messages += b->count;
  for (size_t i = 0; i < b->count; i++) free_calls(&b->messages[i]);
  cli_pool_free(&b->pool);
  b->pool = (cli_pool){0};
  b->count = b->bytes = 0;
  return c->status;
}

static void keep_calls(batch *b, tp_message *message) {
  const tp_tool_call *const *from = message->calls;
  const tp_tool_call **calls = cli_alloc((message->call_count ? message->call_count : 1) * sizeof *calls);
  for (size_t i = 0; i < message->call_count; i++) {
    tp_tool_call *call = cli_alloc(sizeof *call);
    *call = *from[i];
    call->id = keep(b, from[i]->id);
    call->name = keep(b, from[i]->name);
    call->arguments = keep(b, from[i]->arguments);
    calls[i] = call;
  }
  message->calls = calls;
}

static tp_status take_message(void *ctx, const tp_message *from) {
  batch *b = ctx;
  if (b->count == BATCH_MESSAGES || b->bytes > BATCH_BYTES)
    if (append_batch(b) != TP_OK) return b->c->status;
  tp_message *message = &b->messages[b->count++];
  *message = *from;
  tp_text *texts[] = {&message->turn_id, &message->text,  &message->call_id,       &message->name,
                      &message->parts,   &message->value, &message->provider_data, &message->ending};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) *texts[i] = keep(b, *texts[i]);
  if (message->call_count) keep_calls(b, message);
  return TP_OK;
}

static bool copy_session(void *ctx, const tp_history_session *session) {
  copy *c = ctx;
  batch *b = cli_alloc(sizeof *b);
  const tp_history_load load = {.struct_size = sizeof load,
                                .tenant = session->tenant,
                                .session = session->session,
                                .each = take_message,
                                .ctx = b};
  const tp_history *from = c->from.history;
  b->c = c;
  c->session = session;
  tp_status loaded = from->load(from->ctx, &load, &c->fault);
  if (c->status == TP_OK) c->status = loaded;
  if (c->status == TP_OK) (void)!append_batch(b);
  b->count = 0;
  cli_pool_free(&b->pool);
  free(b);
  c->sessions++;
  return c->status == TP_OK;
}

/* ---- records ---- */

/** The names of records, the newest first. */
typedef struct names {
  struct {
    uint64_t process, number;
  } * items;
  size_t count, capacity;
} names;

static void add_name(names *n, uint64_t process, uint64_t number) {
  n->items = cli_reserve(n->items, n->count, &n->capacity, sizeof *n->items);
  n->items[n->count].process = process;
  n->items[n->count++].number = number;
}

static bool name_entry(void *ctx, const tp_entry_record *entry) {
  add_name(ctx, entry->process_run_id, entry->entry_id);
  return true;
}

static bool name_turn(void *ctx, const tp_turn_record *turn) {
  add_name(ctx, turn->process_run_id, turn->number);
  return true;
}

/* When the queue is full, it is written first. @return whether the record must be given again. */
static bool is_full(copy *c, tp_status status) {
  if (status != TP_ERR_FULL) {
    c->status = status;
    return false;
  }
  c->status = c->to.store->commit(c->to.store->ctx, &c->fault);
  return c->status == TP_OK;
}

/** A page of records, which are passed to the target from its end on. */
typedef struct page {
  copy *c;
  cli_pool pool;
  union {
    tp_entry_record entries[PAGE];
    tp_turn_record turns[PAGE];
    tp_audit *audits; /* all of them */
  };
  void *parts[PAGE]; /* runs or steps of each */
  tp_text ids[PAGE][TP_ID_COUNT];
  size_t count;
} page;

static tp_text keep_text(page *p, tp_text text) {
  return text.size ? (tp_text){cli_pool_copy(&p->pool, text), text.size} : (tp_text){"", 0};
}

static const char *keep_string(page *p, const char *string) {
  return string ? cli_pool_copy(&p->pool, tp_text_of(string)) : NULL;
}

static void keep_ids(page *p, const tp_text *ids, size_t id_count) {
  for (size_t i = 0; i < TP_ID_COUNT; i++) p->ids[p->count][i] = i < id_count ? keep_text(p, ids[i]) : (tp_text){"", 0};
}

static void page_clear(page *p) {
  for (size_t i = 0; i < p->count; i++) free(p->parts[i]);
  cli_pool_free(&p->pool);
  p->pool = (cli_pool){0};
  p->count = 0;
}

static bool show_run(const void *source, size_t index, tp_run_record *run) {
  *run = ((const tp_run_record *)source)[index];
  return true;
}

static bool keep_entry(void *ctx, const tp_entry_record *from) {
  page *p = ctx;
  tp_entry_record *entry = &p->entries[p->count];
  tp_run_record *runs = cli_alloc((from->run_count ? from->run_count : 1) * sizeof *runs);
  *entry = *from;
  for (size_t i = 0; i < from->run_count; i++) {
    runs[i].struct_size = sizeof *runs;
    if (!from->run(from->source, i, &runs[i])) continue;
    runs[i].subscription = keep_string(p, runs[i].subscription);
    runs[i].handler = keep_string(p, runs[i].handler);
    runs[i].owner = keep_string(p, runs[i].owner);
  }
  keep_ids(p, from->ids, from->id_count);
  entry->ids = p->ids[p->count];
  entry->id_count = TP_ID_COUNT;
  entry->run = show_run;
  entry->source = p->parts[p->count++] = runs;
  return true;
}

static bool put_attempt(void *ctx, const tp_attempt_record *attempt) {
  copy *c = ctx;
  const tp_store *to = c->to.store;
  while (is_full(c, to->attempt(to->ctx, attempt))) continue;
  c->attempts += c->status == TP_OK;
  return c->status == TP_OK;
}

static tp_status put_entry(copy *c, const tp_entry_record *entry) {
  const tp_store *from = c->from.store, *to = c->to.store;
  const tp_attempt_query query = {
      .struct_size = sizeof query, .process_run_id = entry->process_run_id, .entry_id = entry->entry_id};
  tp_status read = from->attempts(from->ctx, &query, put_attempt, c, &c->fault);
  if (c->status == TP_OK) c->status = read;
  while (c->status == TP_OK && is_full(c, to->record(to->ctx, entry))) continue;
  c->entries += c->status == TP_OK;
  return c->status;
}

/* Of the page that ends before a name. */
static tp_status copy_entries_page(copy *c, page *p, const names *n, size_t first) {
  const tp_store *from = c->from.store;
  const tp_record_query query = {.struct_size = sizeof query,
                                 .limit = n->count - first < PAGE ? n->count - first : PAGE,
                                 .before_process_run_id = first ? n->items[first - 1].process : 0,
                                 .before_entry_id = first ? n->items[first - 1].number : 0};
  c->status = from->records(from->ctx, &query, keep_entry, p, &c->fault);
  for (size_t i = p->count; c->status == TP_OK && i > 0; i--) (void)!put_entry(c, &p->entries[i - 1]);
  page_clear(p);
  return c->status;
}

static tp_status copy_entries(copy *c, page *p) {
  const tp_record_query all = {.struct_size = sizeof all};
  const tp_store *from = c->from.store;
  names n = {.items = NULL};
  c->status = from->records(from->ctx, &all, name_entry, &n, &c->fault);
  for (size_t pages = (n.count + PAGE - 1) / PAGE; c->status == TP_OK && pages > 0; pages--)
    (void)!copy_entries_page(c, p, &n, (pages - 1) * PAGE);
  free(n.items);
  return c->status;
}

static bool show_step(const void *source, size_t index, tp_turn_step *step) {
  *step = ((const tp_turn_step *)source)[index];
  return true;
}

static bool keep_turn(void *ctx, const tp_turn_record *from) {
  page *p = ctx;
  tp_turn_record *turn = &p->turns[p->count];
  tp_turn_step *steps = cli_alloc((from->step_count ? from->step_count : 1) * sizeof *steps);
  *turn = *from;
  for (size_t i = 0; i < from->step_count; i++) {
    steps[i].struct_size = sizeof *steps;
    if (from->step(from->step_source, i, &steps[i])) steps[i].name = keep_text(p, steps[i].name);
  }
  keep_ids(p, from->ids, from->id_count);
  turn->ids = p->ids[p->count];
  turn->id_count = TP_ID_COUNT;
  turn->step = show_step;
  turn->step_source = p->parts[p->count++] = steps;
  turn->subscription = keep_text(p, from->subscription);
  turn->reason = keep_text(p, from->reason);
  turn->parent_turn = keep_text(p, from->parent_turn);
  turn->finish_word = keep_text(p, from->finish_word);
  return true;
}

static tp_status copy_turns_page(copy *c, page *p, const names *n, size_t first) {
  const tp_store *from = c->from.store, *to = c->to.store;
  const tp_turn_query query = {.struct_size = sizeof query,
                               .limit = n->count - first < PAGE ? n->count - first : PAGE,
                               .before_process_run_id = first ? n->items[first - 1].process : 0,
                               .before_number = first ? n->items[first - 1].number : 0};
  c->status = from->turns(from->ctx, &query, keep_turn, p, &c->fault);
  for (size_t i = p->count; c->status == TP_OK && i > 0; i--) {
    while (is_full(c, to->turn_record(to->ctx, &p->turns[i - 1]))) continue;
    c->turns += c->status == TP_OK;
  }
  page_clear(p);
  return c->status;
}

static tp_status copy_turns(copy *c, page *p) {
  const tp_turn_query all = {.struct_size = sizeof all};
  const tp_store *from = c->from.store;
  names n = {.items = NULL};
  c->status = from->turns(from->ctx, &all, name_turn, &n, &c->fault);
  for (size_t pages = (n.count + PAGE - 1) / PAGE; c->status == TP_OK && pages > 0; pages--)
    (void)!copy_turns_page(c, p, &n, (pages - 1) * PAGE);
  free(n.items);
  return c->status;
}

/** Audit rows, which have no name: all rows, the newest first. */
typedef struct audit_rows {
  page *page;
  tp_audit *items;
  size_t count, capacity;
} audit_rows;

static bool keep_audit(void *ctx, const tp_audit *from) {
  audit_rows *rows = ctx;
  rows->items = cli_reserve(rows->items, rows->count, &rows->capacity, sizeof *rows->items);
  tp_audit *audit = &rows->items[rows->count++];
  *audit = *from;
  const char **strings[] = {&audit->owner, &audit->action, &audit->detail, &audit->subscription,
                            &audit->turn,  &audit->tenant, &audit->session};
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) *strings[i] = keep_string(rows->page, *strings[i]);
  return true;
}

static tp_status copy_audits(copy *c, page *p) {
  const tp_audit_query all = {.struct_size = sizeof all};
  const tp_store *from = c->from.store, *to = c->to.store;
  audit_rows rows = {.page = p};
  c->status = from->audits(from->ctx, &all, keep_audit, &rows, &c->fault);
  for (size_t i = rows.count; c->status == TP_OK && i > 0; i--) {
    while (is_full(c, to->audit(to->ctx, &rows.items[i - 1]))) continue;
    c->audits += c->status == TP_OK;
  }
  free(rows.items);
  page_clear(p);
  return c->status;
}

/* ---- jobs, and what is left ---- */

static bool count_job(void *ctx, const tp_job *job) {
  copy *c = ctx;
  if (job->state == TP_JOB_RUNNING) c->runs = true;
  else if (job->state != TP_JOB_QUEUED) c->jobs_left++;
  return true;
}

static bool put_job(void *ctx, const tp_job *job) {
  copy *c = ctx;
  const tp_store *to = c->to.store;
  uint64_t id;
  bool existed;
  c->status = to->job_insert(to->ctx, job, &id, &existed, &c->fault);
  c->jobs += c->status == TP_OK;
  return c->status == TP_OK;
}

static tp_status copy_jobs(copy *c) {
  const tp_job_query query = {.struct_size = sizeof query, .states = 1u << TP_JOB_QUEUED, .with_payload = 1};
  const tp_store *from = c->from.store;
  tp_status read = from->jobs(from->ctx, &query, put_job, c, &c->fault);
  if (c->status == TP_OK) c->status = read;
  return c->status;
}

static bool count_question(void *ctx, const tp_kept_question *question) {
  (void)question;
  ((copy *)ctx)->questions_left++;
  return true;
}

static bool count_tasks(void *ctx, const tp_kept_session *session) {
  ((copy *)ctx)->tasks_left += session->tasks;
  return true;
}

static bool count_running(void *ctx, const tp_turn_record *record) {
  (void)record;
  ((copy *)ctx)->running_left++;
  return true;
}

/* A database does not list its tasks. */
static bool has_tasks_counted(const copy *c) { return c->from.path != NULL; }

static tp_status count_left(copy *c) {
  const tp_turn_query turns = {.struct_size = sizeof turns};
  const tp_job_query all = {.struct_size = sizeof all, .states = all_states};
  const tp_store *from = c->from.store;
  tp_status status = from->jobs(from->ctx, &all, count_job, c, &c->fault);
  if (status == TP_OK && c->from.path)
    status = tp_sqlite_questions_list(c->from.path, true, count_question, c, &c->fault);
  if (status == TP_OK && c->from.path) status = tp_sqlite_sessions_list(c->from.store, NULL, count_tasks, c, &c->fault);
  if (status == TP_OK && from->turns_running)
    status = from->turns_running(from->ctx, &turns, count_running, c, &c->fault);
  return status;
}

/* ---- the command ---- */

static tp_status copy_all(copy *c) {
  const tp_history_query sessions = {.struct_size = sizeof sessions};
  const tp_history *from = c->from.history;
  page *p = cli_alloc(sizeof *p);
  p->c = c;
  tp_status listed = from->list_sessions(from->ctx, &sessions, copy_session, c, &c->fault);
  if (c->status == TP_OK) c->status = listed;
  if (c->status == TP_OK) (void)!copy_entries(c, p);
  if (c->status == TP_OK) (void)!copy_turns(c, p);
  if (c->status == TP_OK) (void)!copy_audits(c, p);
  if (c->status == TP_OK) (void)!copy_jobs(c);
  if (c->status == TP_OK) c->status = c->to.store->commit(c->to.store->ctx, &c->fault);
  free(p);
  return c->status;
}

static int print_counts(const copy *c, bool json, cli_output *output) {
  const struct {
    const char *name;
    uint64_t count;
  } counts[] = {{"sessions", c->sessions}, {"messages", c->messages}, {"entries", c->entries},
                {"attempts", c->attempts}, {"turns", c->turns},       {"audits", c->audits},
                {"jobs", c->jobs}};
  cli_map map = {0};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    if (json) cli_map_add_int(&map, counts[i].name, (int64_t)counts[i].count);
    else cli_printf(output, "%-9s %llu\n", counts[i].name, (unsigned long long)counts[i].count);
  }
  if (!json) return CLI_OK;
  cli_map_add_int(&map, "jobs_left", (int64_t)c->jobs_left);
  cli_map_add_int(&map, "running_left", (int64_t)c->running_left);
  cli_map_add_int(&map, "questions_left", (int64_t)c->questions_left);
  if (has_tasks_counted(c)) cli_map_add_int(&map, "tasks_left", (int64_t)c->tasks_left);
  return cli_map_print(&map, output);
}

static int check_places(copy *c) {
  tp_status status = count_left(c);
  if (status != TP_OK) return cli_fault(c->from.path, status, &c->fault);
  if (c->runs) {
    cli_error("data copy: a job of %s runs: end its worker first", c->from.name);
    return CLI_RETRY;
  }
  if (c->jobs_left || c->questions_left || c->tasks_left || c->running_left)
    cli_error(
        "warning: not copied: %llu jobs that have ended or are dead, %llu turns that run or whose process died, "
        "%llu open questions, %llu tasks",
        (unsigned long long)c->jobs_left, (unsigned long long)c->running_left, (unsigned long long)c->questions_left,
        (unsigned long long)c->tasks_left);
  if (!has_tasks_counted(c)) cli_error("warning: tasks of a database are not copied, and not counted");
  return check_empty(&c->to);
}

static int copy_places(copy *c, const cli_arguments *arguments, cli_output *output) {
  int status = place_open(&c->from, arguments->operands[1], true);
  if (status == CLI_OK) status = place_open(&c->to, arguments->operands[2], false);
  if (status == CLI_OK) status = check_places(c);
  if (status != CLI_OK) return status;
  if (copy_all(c) == TP_OK) return print_counts(c, arguments->json, output);
  cli_error("data copy: %s has a part of the copy: remove it before the next try", c->to.name);
  return cli_fault(NULL, c->status, &c->fault);
}

int cli_data_command(const cli_arguments *arguments, cli_output *output) {
  copy *c;
  if (arguments->operand_count != 3 || strcmp(arguments->operands[0], "copy") != 0) {
    cli_error("data copy FROM TO: each a data directory, or postgres://USER@HOST/DATABASE");
    return CLI_USAGE;
  }
  c = cli_alloc(sizeof *c);
  int status = copy_places(c, arguments, output);
  place_close(&c->from);
  place_close(&c->to);
  free(c);
  return status;
}
