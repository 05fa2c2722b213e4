/* SPDX-License-Identifier: Apache-2.0
 *
 * The command run: everything that it was given is opened and checked first; then the turns are played one after the
 * other. A session is closed, and its background work awaited, before the next one begins, so that what was told in one
 * is remembered in the next. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/conversation.h"
#include "cli/data.h"
#include "cli/exit_status.h"
#include "cli/host.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/machine.h"
#include "cli/message.h"
#include "cli/model.h"
#include "cli/summary.h"
#include "cli/timeline.h"
#include "cli/watch.h"
#include "turnphase/sqlite.h"

/* A job of ours may run for three minutes, and one that failed is tried again. Where something cannot be kept, waiting
 * will not help: the rest of the run waits for ABANDONED_LIMIT_MS altogether. */
enum {
  JOBS_LIMIT_MS = 600000,
  JOBS_LOOK_MS = 100,
  JOBS_SILENT_MS = 2000,
  ABANDONED_LIMIT_MS = 5000,
  DRAIN_LIMIT_MS = 30000,
  INTERRUPTED_LIMIT_MS = 1000,
  WAIT_MS = 60000
};

/** All that a run holds. */
typedef struct player {
  const cli_arguments *arguments;
  cli_output *output;
  cli_conversation conversation;
  tp_runtime *runtime;
  tp_shared_history *history;   /* of all sessions */
  tp_agent *agent;              /* owns the model, which all sessions share */
  cli_watch watch;
  cli_events events;
  cli_timeline timeline;
  cli_summary summary;
  cli_interrupt interrupt;
  char *store_path, *memory_path;
  int status;                   /* what the command will end with */
  bool playing;                 /* a turn is under way: its events are shown as they come */
  bool any_background;          /* in this session: something was left to background work */
  bool cannot_keep;             /* a turn could not be stored: the rest is not played */
  int64_t began_ms;             /* the wall clock at the begin of the run */
  int64_t give_up_ns;           /* when background work is no longer waited for; 0: by its own limits */
} player;

/* ---- before the first turn ---- */

static int refuse_data(const char *directory, const char *why) {
  cli_error_at(directory, 0, 0, "%s", why);
  return CLI_IO;
}

/* What is kept there is private, so the directory is made for its owner alone. */
static int open_data(player *p) {
  const char *directory = p->arguments->data;
  struct stat found;
  if (!directory) return CLI_OK;
  if (mkdir(directory, 0700) != 0 && errno != EEXIST) return refuse_data(directory, strerror(errno));
  if (stat(directory, &found) != 0) return refuse_data(directory, strerror(errno));
  if (!S_ISDIR(found.st_mode)) return refuse_data(directory, strerror(ENOTDIR));
  if (access(directory, W_OK | X_OK) != 0) return refuse_data(directory, strerror(errno));
  p->store_path = cli_data_path(directory, "turnphase.db");
  p->memory_path = cli_data_path(directory, "memory.db");
  return cli_data_adopt(directory);
}

static int open_history(player *p) {
  tp_fault fault = {0};
  tp_history *history;
  tp_status status = p->store_path ? tp_sqlite_history_open(p->store_path, &history, &fault)
                                   : tp_history_memory_new(NULL, &history, &fault);
  if (status == TP_OK && (status = tp_history_share(NULL, history, &p->history, &fault)) != TP_OK)
    tp_history_free(history);
  return status == TP_OK ? CLI_OK : cli_fault(p->store_path, status, &fault);
}

/* @param ret_store  NULL where nothing is kept. */
static int open_store(player *p, tp_store **ret_store) {
  tp_fault fault = {0};
  tp_sqlite_store_options options = {.struct_size = sizeof options,
                                     .path = p->store_path,
                                     .log = cli_log,
                                     .log_ctx = (void *)(uintptr_t)p->arguments};
  *ret_store = NULL;
  if (!p->store_path) return CLI_OK;
  tp_status status = tp_sqlite_store_open(&options, ret_store, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(p->store_path, status, &fault);
}

/* @param model  taken, whatever comes of it. */
static int add_agent(player *p, tp_model *model) {
  tp_fault fault = {0};
  tp_agent_config config = {.struct_size = sizeof config, .id = "turnphase", .model = cli_watch_init(&p->watch, model)};
  tp_status status = tp_agent_add(p->runtime, &config, &p->agent, &fault);
  if (status == TP_OK) return CLI_OK;
  tp_model_free(&p->watch.watching);
  return cli_fault("the agent", status, &fault);
}

static int check_ids(const cli_arguments *arguments) {
  const char *const given[] = {arguments->tenant, arguments->workspace};
  for (size_t i = 0; i < 2; i++) {
    if (!given[i] || cli_is_id(tp_text_of(given[i]))) continue;
    cli_error("%s must have 1 to 128 bytes of UTF-8 without white space", i ? "--workspace" : "--tenant");
    return CLI_USAGE;
  }
  return CLI_OK;
}

static int check_usage(const cli_arguments *arguments) {
  int status = cli_model_check(arguments);
  return status == CLI_OK ? check_ids(arguments) : status;
}

/* The conversation comes first: it may be standard input, and whoever writes it should hear of its faults alone. */
static int open_player(player *p) {
  tp_model *model = NULL;
  tp_store *store = NULL;
  int status = check_usage(p->arguments);
  if (status == CLI_OK) status = cli_conversation_read(p->arguments->operand, p->arguments, &p->conversation);
  if (status == CLI_OK) status = cli_model_open(p->arguments, &model);
  if (status == CLI_OK) status = open_data(p);
  if (status == CLI_OK) status = open_history(p);
  if (status == CLI_OK) status = open_store(p, &store);
  if (status == CLI_OK) status = cli_host_open(p->arguments, p->memory_path, store, &p->runtime);
  if (status == CLI_OK) return add_agent(p, model);
  tp_model_free(model);
  return status;
}

/* @return how many background jobs are lost with it. */
static uint64_t drain(player *p) {
  tp_drain_report report = {.struct_size = sizeof report};
  bool soon = cli_interrupted(&p->interrupt) || p->give_up_ns;
  if (p->agent) tp_agent_remove(p->agent);
  p->agent = NULL;
  if (p->runtime && tp_runtime_drain(p->runtime, soon ? INTERRUPTED_LIMIT_MS : DRAIN_LIMIT_MS, &report, NULL) != TP_OK)
    cli_error("the drain was refused");
  return report.jobs_lost;
}

/* The runtime first: its sessions use all the rest. */
static void close_player(player *p) {
  drain(p); /* a second time when the turns were played, and then it does nothing */
  tp_runtime_free(p->runtime);
  tp_shared_history_unref(p->history);
  cli_watch_fini(&p->watch);
  cli_timeline_free(&p->timeline);
  cli_events_free(&p->events);
  cli_conversation_free(&p->conversation);
  free(p->store_path);
  free(p->memory_path);
}

/* ---- turns ---- */

/* The newest event. */
static void show_event(player *p) {
  if (p->arguments->json) {
    cli_events_print(&p->events, p->output);
    cli_events_clear(&p->events);
  } else {
    cli_timeline_show(&p->timeline, p->events.count - 1);
  }
  cli_flush(p->output);
}

/* Prints as it happens. Events come one at a time, those of a turn before its end is told, and nothing else prints
 * meanwhile. Those of session.end wait: they stand under a line of their own. */
static void on_event(void *ctx, const tp_event *event) {
  player *p = ctx;
  bool answered = event->kind == TP_EVENT_MODEL_END;
  cli_events_add(&p->events, p->runtime, event, answered ? &p->watch.request : NULL);
  if (event->run && event->run->state == TP_STATE_BACKGROUNDED) p->any_background = true;
  if (p->playing) show_event(p);
}

/* The first that went wrong counts, and a negative answer less than anything else. */
static void note(player *p, int status) {
  if (p->status == CLI_OK || (p->status == CLI_NEGATIVE && status != CLI_OK)) p->status = status;
}

static void end_turn(player *p, const char *session, const tp_turn_result *result) {
  cli_events_add_result(&p->events, session, result);
  show_event(p);
  if (!p->arguments->json) cli_summary_add(&p->summary, &p->events, result->outcome);
  cli_events_clear(&p->events);
  cli_timeline_clear(&p->timeline);
}

static bool went_wrong(tp_turn_outcome outcome) {
  return outcome == TP_TURN_FAILED || outcome == TP_TURN_TIMED_OUT || outcome == TP_TURN_CANCELLED;
}

/* From here on, whatever is left has so long together. */
static void give_up_soon(player *p) {
  if (!p->give_up_ns) p->give_up_ns = cli_now_ns() + ABANDONED_LIMIT_MS * INT64_C(1000000);
}

/* A file that takes one turn no more takes none behind it. */
static void check_kept(player *p, const tp_turn_result *result) {
  bool of_store = result->code >= TP_ERR_STORE && result->code < TP_ERR_SYSTEM;
  if (result->outcome != TP_TURN_FAILED || !(of_store || result->code == TP_ERR_IO)) return;
  cli_error("error: turn %.*s: %.*s; the rest is not played", (int)result->turn_id.size, result->turn_id.data,
            (int)result->reason.size, result->reason.data);
  note(p, cli_exit_of(result->code));
  p->cannot_keep = true;
  give_up_soon(p);
}

static int play_turn(player *p, tp_session *session, const cli_turn *turn) {
  tp_turn_request request = {
      .struct_size = sizeof request, .id = turn->id, .caller = TP_CALLER_MANUAL_CLI,
                             .text = turn->user, .said_unix_ms = turn->said_unix_ms};
  const tp_turn_result *result = NULL;
  tp_submission *submission;
  tp_fault fault = {0};
  p->playing = true;
  tp_status status = tp_turn_submit(session, &request, NULL, NULL, &submission, &fault);
  if (status != TP_OK) return cli_fault(turn->session, status, &fault);
  cli_interrupt_watch(&p->interrupt, submission);
  do status = tp_submission_wait(submission, WAIT_MS, &result, &fault);
  while (status == TP_ERR_TIMEOUT);
  cli_interrupt_watch(&p->interrupt, NULL);
  p->playing = false;
  if (status == TP_OK) {
    check_kept(p, result);
    if (went_wrong(result->outcome)) note(p, cli_interrupted(&p->interrupt) ? CLI_INTERRUPTED : CLI_NEGATIVE);
    end_turn(p, turn->session, result);
  }
  tp_submission_unref(submission);
  return status == TP_OK ? CLI_OK : cli_fault(turn->session, status, &fault);
}

/* ---- sessions ---- */

static int open_session(player *p, const cli_turn *turn, tp_session **ret_session) {
  tp_fault fault = {0};
  tp_session_options options = {.struct_size = sizeof options,
                                .id = turn->session,
                                .tenant = turn->tenant,
                                .workspace = turn->workspace,
                                .agent = p->agent,
                                .shared_history = p->history,
                                .on_event = on_event,
                                .event_ctx = p};
  tp_status status = tp_session_open(p->runtime, &options, ret_session, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(turn->session, status, &fault);
}

/** Waits for the end of a session, which the library tells from a thread of its own. */
typedef struct closing {
  pthread_mutex_t mutex;
  pthread_cond_t ended;
  bool done;
} closing;

static void on_closed(void *ctx) {
  closing *c = ctx;
  pthread_mutex_lock(&c->mutex);
  c->done = true;
  pthread_cond_signal(&c->ended);
  pthread_mutex_unlock(&c->mutex);
}

static void close_session(tp_session *session) {
  closing c = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
  tp_session_close(session, on_closed, &c);
  pthread_mutex_lock(&c.mutex);
  while (!c.done) pthread_cond_wait(&c.ended, &c.mutex);
  pthread_mutex_unlock(&c.mutex);
  pthread_cond_destroy(&c.ended);
  pthread_mutex_destroy(&c.mutex);
}

static bool is_before(int64_t began_ns, int64_t limit_ms) { return cli_now_ns() - began_ns < limit_ms * 1000000; }

static void look_for_dead(player *p) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(p->runtime, &stats);
  if (stats.jobs_dead == 0) return;
  note(p, CLI_LOST);
  give_up_soon(p);
}

static bool waits_on(player *p, int64_t began_ns) {
  if (cli_interrupted(&p->interrupt) || !is_before(began_ns, JOBS_LIMIT_MS)) return false;
  look_for_dead(p);
  return !p->give_up_ns || cli_now_ns() < p->give_up_ns;
}

/* What the background did not do in time may still be done, but the next session would not know of it. */
static int64_t wait_for_jobs(player *p, const char *session) {
  int64_t began_ns = cli_now_ns();
  bool said = false;
  tp_status status;
  do {
    status = tp_jobs_wait(p->runtime, session, JOBS_LOOK_MS, NULL);
    if (status == TP_ERR_TIMEOUT && !said && !is_before(began_ns, JOBS_SILENT_MS)) {
      cli_error("waiting for the background work of session %s; Ctrl-C ends the wait", session);
      said = true;
    }
  } while (status == TP_ERR_TIMEOUT && waits_on(p, began_ns));
  look_for_dead(p);
  if (status != TP_OK) {
    cli_error("warning: background work of session %s: %s", session, tp_status_text(status));
    p->any_background = false; /* none that could be said to be done */
    note(p, cli_interrupted(&p->interrupt) ? CLI_INTERRUPTED : cli_exit_of(status));
  }
  return cli_now_ns() - began_ns;
}

static void end_session(player *p, const char *name, tp_session *session) {
  close_session(session);
  int64_t waited_ns = wait_for_jobs(p, name);
  if (p->arguments->json) cli_events_print(&p->events, p->output);
  else cli_timeline_session_end(&p->timeline, p->any_background, waited_ns);
  cli_events_clear(&p->events);
  cli_timeline_clear(&p->timeline);
  cli_flush(p->output);
  p->any_background = false;
}

/* The rest is not played when the output cannot be written, the user ended the run, or a turn could not be kept. */
static bool goes_on(player *p) {
  return !p->output->error && !cli_interrupted(&p->interrupt) && !p->cannot_keep;
}

/* Plays the turns of one session that stand together. @return how many there are. */
static size_t play_session(player *p, size_t first, int *ret_status) {
  const cli_turn *turns = p->conversation.turns + first;
  size_t count = 1, left = p->conversation.count - first;
  while (count < left && cli_turn_same_session(&turns[0], &turns[count])) count++;
  tp_session *session;
  *ret_status = open_session(p, &turns[0], &session);
  if (*ret_status != CLI_OK) return count;
  p->summary.sessions++;
  if (!p->arguments->json) cli_timeline_session(p->output, turns[0].session, turns[0].tenant, turns[0].workspace);
  for (size_t i = 0; i < count && *ret_status == CLI_OK && goes_on(p); i++)
    *ret_status = play_turn(p, session, &turns[i]);
  end_session(p, turns[0].session, session);
  return count;
}

static void explain(cli_output *output) {
  cli_paint_on(output, CLI_FAINT);
  cli_print_string(output, "On the left: milliseconds since the turn began; on the right: how long it took.\n");
  cli_paint_off(output);
}

/* ---- what is lost ---- */

/* The store of a directory has those of earlier runs, too: they were reported then. */
static bool add_dead(void *ctx, const tp_job *job) {
  player *p = ctx;
  if (job->ended_ms < p->began_ms) return true;
  cli_events_add_dead(&p->events, job);
  cli_summary_add_dead(&p->summary, cli_events_get(&p->events, p->events.count - 1));
  return true;
}

static bool count_job(void *ctx, const tp_job *job) {
  (void)job;
  ++*(size_t *)ctx;
  return true;
}

/* Jobs that the store of a directory has, of this run or an earlier one. */
static void report_open(player *p) {
  tp_job_query open = {.struct_size = sizeof open, .states = 1u << TP_JOB_QUEUED | 1u << TP_JOB_RUNNING};
  size_t count = 0;
  if (!p->store_path || tp_jobs_list(p->runtime, &open, count_job, &count, NULL) != TP_OK || count == 0) return;
  cli_error("warning: %zu background job%s not done yet: the next run with this --data does them; see: turnphase jobs "
            "list %s",
            count, count == 1 ? " is" : "s are", p->arguments->data);
}

static void report_lost(player *p, uint64_t lost) {
  tp_job_query dead = {.struct_size = sizeof dead, .states = 1u << TP_JOB_DEAD, .with_payload = 1};
  tp_fault fault = {0};
  tp_status status = tp_jobs_list(p->runtime, &dead, add_dead, p, &fault);
  if (status != TP_OK) cli_error("warning: the jobs that failed cannot be listed: %s", tp_status_text(status));
  size_t count = p->summary.dead_letters.count;
  p->summary.jobs_lost = (size_t)lost;
  if (count == 0 && lost == 0) return;
  note(p, CLI_LOST);
  cli_events_add_background(&p->events, count, lost);
  if (p->arguments->json) cli_events_print(&p->events, p->output);
  cli_events_clear(&p->events);
  if (count > 0)
    cli_error("error: %zu background job%s failed for good: what would have been kept is lost", count,
              count == 1 ? "" : "s");
  if (lost > 0)
    cli_error("error: %llu background job%s not done when the run ended", (unsigned long long)lost,
              lost == 1 ? " was" : "s were");
}

static void play(player *p) {
  int status = CLI_OK;
  if (!p->arguments->json) explain(p->output);
  p->summary.conversation = &p->conversation;
  for (size_t i = 0; i < p->conversation.count && status == CLI_OK && goes_on(p);)
    i += play_session(p, i, &status);
  note(p, status);
  report_lost(p, drain(p));
  report_open(p);
  if (cli_interrupted(&p->interrupt)) p->status = CLI_INTERRUPTED;
  if (!p->arguments->json) cli_summary_print(&p->summary, p->output);
}

int cli_run(const cli_arguments *arguments, cli_output *output) {
  player p = {.arguments = arguments, .output = output};
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  p.began_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
  cli_interrupt_start(&p.interrupt);
  p.timeline = (cli_timeline){.output = output, .events = &p.events, .verbose = arguments->verbose};
  int status = open_player(&p);
  if (status == CLI_OK) {
    play(&p);
    status = p.status;
  }
  close_player(&p);
  cli_interrupt_stop(&p.interrupt);
  return status;
}
