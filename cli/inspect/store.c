/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands jobs and store: which jobs wait in a data directory, which failed for good, and whether its file is
 * intact. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/data.h"
#include "cli/common/date.h"
#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/common/quantity.h"
#include "cli/inspect/progress.h"
#include "cli/run/job.h"
#include "cli/run/timeline.h"
#include "support/clock.h"
#include "turnphase/sqlite.h"

/** What a command works on. */
typedef struct work {
  const cli_arguments *arguments;
  cli_output *output;
  cli_data data;
  size_t shown;
  bool has_more;
} work;

/** A word after the command's name, and its function. */
typedef struct action {
  const char *name;
  enum { NOTHING_ELSE, NEEDS_JOB, NEEDS_FILE, MAY_HAVE_JOB } operand; /* after the directory */
  int (*run)(work *w, uint64_t id);
} action;

/* ---- jobs ---- */

static bool show_job(void *ctx, const tp_job *job) {
  work *w = ctx;
  w->has_more = w->shown == cli_limit(w->arguments, CLI_LIMIT);
  if (w->has_more) return false;
  w->shown++;
  cli_job_print(w->output, job, w->arguments->json);
  return !w->output->error;
}

/* @param ret_states  the bits of a query. */
static int read_states(const char *word, uint32_t *ret_states) {
  if (!word) return CLI_OK;
  if (strcmp(word, "all") == 0) {
    *ret_states = ~0u;
    return CLI_OK;
  }
  for (uint32_t state = TP_JOB_QUEUED; state <= TP_JOB_DISCARDED; state++) {
    if (strcmp(word, tp_job_state_name((tp_job_state)state)) != 0) continue;
    *ret_states = 1u << state;
    return CLI_OK;
  }
  cli_error("there is no state '%s' of jobs: it is queued, running, succeeded, dead, discarded or all", word);
  return CLI_USAGE;
}

static int query_jobs(work *w, const tp_job_query *query) {
  tp_fault fault = {0};
  const tp_store *store = w->data.store;
  tp_status status = store->jobs(store->ctx, query, show_job, w, &fault);
  if (status != TP_OK) return cli_fault(w->data.path, status, &fault);
  if (w->has_more) cli_error("there are more; --limit 0 shows all");
  return CLI_OK;
}

static bool chooses_jobs(const cli_arguments *a) { return a->all || a->handler || a->session; }

static int jobs_list(work *w, uint64_t id) {
  (void)id;
  tp_job_query query = {.struct_size = sizeof query,
                        .handler = tp_text_of(w->arguments->handler),
                        .order_key = tp_text_of(w->arguments->session)};
  int status = read_states(w->arguments->state, &query.states);
  if (status == CLI_OK) status = query_jobs(w, &query);
  if (status == CLI_OK && w->shown == 0 && !w->arguments->json)
    cli_error(
        chooses_jobs(w->arguments) || w->arguments->state ? "no job in %s fits" : "no job in %s waits, runs or is dead",
        w->data.path);
  return status;
}

static int jobs_show(work *w, uint64_t id) {
  int status = query_jobs(w, &(tp_job_query){.struct_size = sizeof(tp_job_query), .id = id, .states = ~0u});
  if (status != CLI_OK || w->shown > 0) return status;
  const char *data = w->arguments->operands[1];
  cli_error("there is no job %llu in %s; see: turnphase jobs list %s", (unsigned long long)id, data, data);
  return CLI_NEGATIVE;
}

static int change_job(work *w, uint64_t id, const char *done,
                      tp_status (*change)(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault)) {
  tp_fault fault = {0};
  if (!change) {
    cli_error_at(w->data.path, 0, 0, "it cannot be written, so the job stays as it is");
    return cli_exit_of(TP_ERR_STORE_READONLY);
  }
  tp_status status = change(w->data.store->ctx, id, tp__wall_ms(), &fault);
  if (status == TP_OK) {
    cli_error("job %llu was %s", (unsigned long long)id, done);
    return w->arguments->json ? jobs_show(w, id) : CLI_OK;
  }
  int exit_status = cli_fault(w->data.path, status, &fault);
  return status == TP_ERR_NOT_FOUND || status == TP_ERR_BUSY ? CLI_NEGATIVE : exit_status;
}

/** The dead letters that a filter has selected, the oldest first. */
typedef struct letters {
  uint64_t *ids;
  size_t count, capacity, most;
} letters;

static bool take_letter(void *ctx, const tp_job *job) {
  letters *l = ctx;
  assert(job->state == TP_JOB_DEAD);
  l->ids = cli_reserve(l->ids, l->count, &l->capacity, sizeof *l->ids);
  l->ids[l->count++] = job->id;
  return l->count < l->most;
}

/* A dead letter that another process has taken meanwhile is no failure. */
static int redrive_letters(work *w, const letters *l) {
  const tp_store *store = w->data.store;
  tp_fault fault = {0};
  size_t redriven = 0;
  int exit_status = CLI_OK;
  for (size_t i = 0; i < l->count && exit_status == CLI_OK; i++) {
    tp_status status = store->job_redrive(store->ctx, l->ids[i], tp__wall_ms(), &fault);
    redriven += status == TP_OK;
    if (status != TP_OK && status != TP_ERR_NOT_FOUND) exit_status = cli_fault(w->data.path, status, &fault);
    w->shown = 0;
    if (status == TP_OK && w->arguments->json) exit_status = jobs_show(w, l->ids[i]);
  }
  cli_error("%zu of %zu dead job%s redriven", redriven, l->count, l->count == 1 ? " was" : "s were");
  return exit_status;
}

static int redrive_by_filter(work *w) {
  const cli_arguments *a = w->arguments;
  const tp_store *store = w->data.store;
  tp_fault fault = {0};
  letters l = {.most = cli_limit(a, UINT32_MAX)};
  tp_job_query query = {.struct_size = sizeof query,
                        .handler = tp_text_of(a->handler),
                        .order_key = tp_text_of(a->session),
                        .states = 1u << TP_JOB_DEAD};
  if (!store->job_redrive) {
    cli_error_at(w->data.path, 0, 0, "it cannot be written, so the jobs stay as they are");
    return cli_exit_of(TP_ERR_STORE_READONLY);
  }
  tp_status status = store->jobs(store->ctx, &query, take_letter, &l, &fault);
  int exit_status = status == TP_OK ? CLI_OK : cli_fault(w->data.path, status, &fault);
  if (exit_status == CLI_OK && l.count == 0) {
    cli_error("no job in %s that fits is dead; see: turnphase jobs list %s", w->data.path, w->arguments->operands[1]);
    exit_status = CLI_NEGATIVE;
  } else if (exit_status == CLI_OK) {
    exit_status = redrive_letters(w, &l);
  }
  free(l.ids);
  return exit_status;
}

static int jobs_redrive(work *w, uint64_t id) {
  if (id == 0) return redrive_by_filter(w);
  return change_job(w, id, "redriven", w->data.store->job_redrive);
}
static int jobs_discard(work *w, uint64_t id) { return change_job(w, id, "discarded", w->data.store->job_discard); }

/* ---- the file ---- */

static void show_problem(void *ctx, tp_text problem) {
  work *w = ctx;
  w->shown++;
  if (w->arguments->json) {
    cli_map p = {0};
    cli_map_add_text(&p, "problem", problem);
    cli_map_print(&p, w->output);
    return;
  }
  cli_print_cut(w->output, problem, SIZE_MAX);
  cli_print_string(w->output, "\n");
}

static int store_verify(work *w, uint64_t id) {
  (void)id;
  tp_fault fault = {0};
  cli_progress progress;
  cli_progress_start(&progress, "verifying");
  tp_status status = tp_sqlite_store_verify(w->data.store, show_problem, w, &fault);
  cli_progress_stop(&progress);
  if (status == TP_OK) cli_error("%s is whole", w->data.path);
  else cli_fault(w->data.path, status, &fault);
  return status == TP_OK ? CLI_OK : status == TP_ERR_STORE_CORRUPT ? CLI_NEGATIVE : cli_exit_of(status);
}

static void print_stats_json(cli_output *output, const tp_sqlite_store_stats *s) {
  const struct {
    const char *name;
    uint64_t number;
  } rows[] = {{"schema_version", s->schema_version},
              {"file_bytes", s->file_bytes},
              {"free_bytes", s->free_bytes},
              {"entries", s->entries},
              {"runs", s->runs},
              {"turns", s->turns},
              {"audits", s->audits},
              {"jobs_queued", s->jobs_queued},
              {"jobs_running", s->jobs_running},
              {"jobs_succeeded", s->jobs_succeeded},
              {"jobs_dead", s->jobs_dead},
              {"jobs_discarded", s->jobs_discarded},
              {"sessions", s->sessions},
              {"messages", s->messages},
              {"processes", s->processes},
              {"oldest_unix_ms", (uint64_t)s->oldest_unix_ms},
              {"newest_unix_ms", (uint64_t)s->newest_unix_ms}};
  cli_map p = {0};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) cli_map_add_int(&p, rows[i].name, (int64_t)rows[i].number);
  cli_map_print(&p, output);
}

static void print_stats(work *w, const tp_sqlite_store_stats *s) {
  cli_output *output = w->output;
  char oldest[40], newest[40];
  cli_printf(output, "file       %s, schema version %u\n", w->data.path, s->schema_version);
  cli_printf(output, "bytes      %s, of these %s not used\n", cli_count(s->file_bytes).text,
             cli_count(s->free_bytes).text);
  cli_printf(output, "records    %s entries, %s runs, %s turns, %s audit rows\n", cli_count(s->entries).text,
             cli_count(s->runs).text, cli_count(s->turns).text, cli_count(s->audits).text);
  if (s->entries > 0)
    cli_printf(output, "           from %s to %s\n", cli_data_time(s->oldest_unix_ms, oldest),
               cli_data_time(s->newest_unix_ms, newest));
  cli_printf(output, "jobs       %s queued, %s running, %s dead, %s succeeded, %s discarded\n",
             cli_count(s->jobs_queued).text, cli_count(s->jobs_running).text, cli_count(s->jobs_dead).text,
             cli_count(s->jobs_succeeded).text, cli_count(s->jobs_discarded).text);
  cli_printf(output, "history    %s messages of %s sessions\n", cli_count(s->messages).text,
             cli_count(s->sessions).text);
  cli_printf(output, "processes  %s\n", cli_count(s->processes).text);
}

static int store_stats(work *w, uint64_t id) {
  (void)id;
  tp_fault fault = {0};
  tp_sqlite_store_stats stats = {.struct_size = sizeof stats};
  tp_status status = tp_sqlite_store_stats_get(w->data.store, &stats, &fault);
  if (status != TP_OK) return cli_fault(w->data.path, status, &fault);
  if (w->arguments->json) print_stats_json(w->output, &stats);
  else print_stats(w, &stats);
  return CLI_OK;
}

static void note_progress(void *ctx, uint64_t rows) { cli_progress_note(ctx, rows); }

/* "500K", "64M", "2G": units of 1,024. */
static int read_size(const char *text, uint64_t *ret_bytes) {
  static const char units[] = "KMG";
  if (!text) return CLI_OK;
  size_t digits = strspn(text, "0123456789");
  const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
  bool is_size = digits > 0 && digits < 10 && (unit ? !text[digits + 1] : !text[digits]);
  *ret_bytes = is_size ? strtoull(text, NULL, 10) << (unit ? 10 * (unit - units + 1) : 0) : 0;
  if (*ret_bytes) return CLI_OK;
  cli_error("--size takes 500K, 64M, 2G or bytes, not '%s'", text);
  return CLI_USAGE;
}

static int read_age(const char *option, const char *text, int64_t *ret_unix_ms) {
  if (!text || cli_date_read_since(text, ret_unix_ms)) return CLI_OK;
  cli_error("%s takes 12h, 30d or 2026-11-22, not '%s'", option, text);
  return CLI_USAGE;
}

static int store_prune(work *w, uint64_t id) {
  (void)id;
  cli_progress progress;
  tp_sqlite_prune request = {.struct_size = sizeof request, .progress = note_progress, .ctx = &progress};
  uint64_t rows = 0;
  tp_fault fault = {0};
  int status = read_age("--age", w->arguments->age, &request.before_unix_ms);
  if (status == CLI_OK) status = read_age("--history-age", w->arguments->history_age, &request.history_before_unix_ms);
  if (status == CLI_OK) status = read_size(w->arguments->size, &request.bytes_max);
  if (status != CLI_OK) return status;
  if (!w->arguments->age && !w->arguments->size && !w->arguments->history_age) {
    cli_error("store prune needs --age, --size or --history-age: what is to be deleted?");
    return CLI_USAGE;
  }
  cli_progress_start(&progress, "pruning");
  tp_status pruned = tp_sqlite_store_prune(w->data.store, &request, &rows, &fault);
  cli_progress_stop(&progress);
  if (pruned != TP_OK) return cli_fault(w->data.path, pruned, &fault);
  cli_error("%s rows were deleted from %s", cli_count(rows).text, w->data.path);
  return w->arguments->json ? store_stats(w, 0) : CLI_OK;
}

static int store_hash(work *w, uint64_t id) {
  (void)id;
  tp_text text;
  unsigned char hash[32];
  tp_fault fault = {0};
  int status = cli_input_read(w->arguments->operands[2], &text);
  if (status != CLI_OK) return status;
  tp_status hashed = tp_sqlite_store_hash(w->data.store, text, hash, &fault);
  free((char *)(uintptr_t)text.data);
  if (hashed != TP_OK) return cli_fault(w->data.path, hashed, &fault);
  for (size_t i = 0; i < sizeof hash; i++) cli_printf(w->output, "%02x", hash[i]);
  cli_print_string(w->output, "\n");
  return CLI_OK;
}

/* ---- which ---- */

static const action *find_action(const action *actions, size_t count, const char *name) {
  for (size_t i = 0; name && i < count; i++)
    if (strcmp(actions[i].name, name) == 0) return &actions[i];
  return NULL;
}

static bool read_id(const char *word, uint64_t *ret_id) {
  size_t digits = word ? strspn(word, "0123456789") : 0;
  if (digits == 0 || digits > 18 || word[digits]) return false;
  *ret_id = strtoull(word, NULL, 10);
  return *ret_id > 0;
}

/* What would have no effect is refused. */
static int check_filter(const action *found, const cli_arguments *a) {
  bool lists = found->run == jobs_list, redrives = found->run == jobs_redrive, names_job = a->operand_count == 3;
  const char *stray = NULL;
  if (a->all && (!redrives || names_job)) stray = "--all is for jobs redrive without the number of a job";
  else if (a->all && (a->handler || a->session))
    stray = "--all chooses every dead job: leave out --handler and --session";
  else if (names_job && chooses_jobs(a)) stray = "--handler and --session choose jobs: leave out the number of the job";
  else if (!lists && a->state) stray = "--state is for jobs list";
  if (stray) cli_error("%s", stray);
  return stray ? CLI_USAGE : CLI_OK;
}

static int run_action(const char *command, const action *actions, size_t count, const cli_arguments *arguments,
                      cli_output *output) {
  const action *found = find_action(actions, count, arguments->operand);
  work w = {.arguments = arguments, .output = output};
  uint64_t id = 0;
  if (!found) return CLI_USAGE; /* never reached: the command table has the same actions */
  bool has_all = arguments->operand_count == (found->operand == NOTHING_ELSE ? 2 : 3);
  bool names_job = found->operand == NEEDS_JOB || (found->operand == MAY_HAVE_JOB && arguments->operand_count == 3);
  if (found->operand == MAY_HAVE_JOB && arguments->operand_count == 2) has_all = chooses_jobs(arguments);
  if (!has_all || (names_job && !read_id(arguments->operands[2], &id))) {
    static const char *const more[] = {"", " and the number of a job", " and a file",
                                       " and the number of a job, or --all, --handler ID or --session ID"};
    cli_error("%s %s takes a data directory%s; see: turnphase %s --help", command, found->name, more[found->operand],
              command);
    return CLI_USAGE;
  }
  int status = check_filter(found, arguments);
  if (status == CLI_OK) status = cli_data_open(arguments->operands[1], &w.data);
  bool is_damaged = found->run == store_verify && w.data.status == TP_ERR_STORE_CORRUPT;
  if (status != CLI_OK) return is_damaged ? CLI_NEGATIVE : status;
  status = found->run(&w, id);
  cli_data_close(&w.data);
  return status;
}

int cli_jobs(const cli_arguments *arguments, cli_output *output) {
  static const action actions[] = {{"list", NOTHING_ELSE, jobs_list},
                                   {"show", NEEDS_JOB, jobs_show},
                                   {"redrive", MAY_HAVE_JOB, jobs_redrive},
                                   {"discard", NEEDS_JOB, jobs_discard}};
  return run_action("jobs", actions, sizeof actions / sizeof actions[0], arguments, output);
}

int cli_store(const cli_arguments *arguments, cli_output *output) {
  static const action actions[] = {{"verify", NOTHING_ELSE, store_verify},
                                   {"stats", NOTHING_ELSE, store_stats},
                                   {"hash", NEEDS_FILE, store_hash},
                                   {"prune", NOTHING_ELSE, store_prune}};
  return run_action("store", actions, sizeof actions / sizeof actions[0], arguments, output);
}
