/* SPDX-License-Identifier: Apache-2.0
 *
 * The command run: opens and checks everything first; then plays the turns one after the other. Before the next session
 * begins, a session is closed and its background work awaited, so that the next session remembers what was said. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/interrupt.h"
#include "cli/common/limits.h"
#include "cli/common/message.h"
#include "cli/run/agent_config.h"
#include "cli/run/ask.h"
#include "cli/run/conversation.h"
#include "cli/run/host.h"
#include "cli/run/questions.h"
#include "cli/run/summary.h"
#include "cli/run/talk.h"
#include "cli/run/timeline.h"
#include "support/clock.h"

/* A job may run for three minutes, and a failed one is tried again. If data can no longer be stored, waiting will not
 * help: then the rest of the run waits for ABANDONED_LIMIT_MS in total. */
enum {
  JOBS_LIMIT_MS = 600000,
  JOBS_LOOK_MS = 100,
  JOBS_SILENT_MS = 2000,
  ABANDONED_LIMIT_MS = 5000,
  POSTPONED_LIMIT_MS = 3000,
  POSTPONED_AGAIN_MS = 500,
  DRAIN_LIMIT_MS = 30000,
  INTERRUPTED_LIMIT_MS = 1000,
  WAIT_MS = 60000
};

/** All that a run holds. */
typedef struct player {
  const cli_arguments *arguments;
  cli_arguments with_profile; /* the same, if the conversation names servers */
  cli_output *output;
  cli_conversation conversation;
  char *schema; /* of the answers; NULL: none */
  cli_talk talk;
  cli_events events;
  cli_timeline timeline;
  cli_summary summary;
  cli_interrupt interrupt;
  cli_ask ask; /* questions about tool calls, to the terminal */
  bool may_ask;
  cli_questions questions; /* used instead, in the place of --data; closed: questions go to the terminal */
  int status;              /* what the command will end with */
  bool playing;            /* a turn is running: its events are shown as they come */
  bool any_background;     /* in this session: some work was left to the background */
  bool store_failed;       /* a turn could not be stored, so the rest is not played */
  int64_t began_ms;        /* the wall clock at the begin of the run */
  int64_t give_up_ns;      /* when the wait for background work ends; 0: by its own limits */
  bool is_postponed;       /* the newest wait was given up because jobs were postponed */
} player;

/* ---- before the first turn ---- */

/* An agent without models of its own gets those of the command line, opened once more, because each agent owns its
 * models. */
static int add_agent(player *p, const cli_agent *agent) {
  cli_models models;
  const cli_model_names *names = agent->models.count > 0 ? &agent->models : &p->arguments->models;
  int status = cli_models_open(names, &models);
  return status == CLI_OK ? cli_talk_add_agent(&p->talk, agent, &models) : status;
}

static int add_agents(player *p) {
  int status = CLI_OK;
  for (size_t i = 0; status == CLI_OK && i < p->conversation.agent_count; i++)
    status = add_agent(p, &p->conversation.agents[i]);
  if (status == CLI_OK) cli_agents_warn(p->talk.runtime, p->conversation.agents, p->conversation.agent_count);
  return status;
}

static int check_ask(const cli_arguments *arguments) {
  if (arguments->asks_operators || arguments->asks_clients) {
    cli_error("--ask %s is for turnphase serve: here it is terminal or data",
              arguments->asks_operators ? "admin" : "client");
    return CLI_USAGE;
  }
  if (!arguments->keeps_questions || arguments->data) return CLI_OK;
  cli_error("--ask data needs --data: that is where questions wait");
  return CLI_USAGE;
}

/* Reads the schema of the answers. It must be JSON; the library checks it as a schema. */
static int take_schema(player *p) {
  const cli_arguments *a = p->arguments;
  tp_writer *writer = NULL;
  tp_text text = tp_text_of(a->schema_json);
  tp_fault fault = {0};
  assert(!p->schema);
  bool is_wanted = a->schema || a->schema_json;
  if ((a->schema && a->schema_json) || (!is_wanted && a->answer_attempts)) {
    cli_error(is_wanted ? "give --schema FILE or --schema-json JSON, not both"
                        : "--answer-attempts is for answers with --schema or --schema-json");
    return CLI_USAGE;
  }
  if (!is_wanted) return CLI_OK;
  int status = a->schema ? cli_input_read(a->schema, &text) : CLI_OK;
  if (status != CLI_OK) return status;
  p->schema = cli_alloc(text.size + 1);
  if (text.size > 0) memcpy(p->schema, text.data, text.size);
  p->schema[text.size] = 0;
  if (a->schema) free((void *)(uintptr_t)text.data);
  cli_need(tp_writer_new(NULL, &writer));
  if (tp_json_decode(tp_text_of(p->schema), writer, &fault) != TP_OK) {
    cli_error("%s: %s", a->schema ? a->schema : "--schema-json", fault.message);
    status = CLI_USAGE;
  }
  tp_writer_free(writer);
  return status;
}

/* The conversation is read first: it may be standard input, and its author should see only its errors. */
static int read_player(player *p) {
  const char *file = p->arguments->operand;
  bool may_name_models =
      file && strcmp(file, "-") != 0; /* nothing is read from standard input when the command line is wrong */
  int status = check_ask(p->arguments);
  if (status == CLI_OK) status = cli_talk_check(p->arguments, "run", !may_name_models);
  if (status == CLI_OK) status = take_schema(p);
  if (status == CLI_OK) status = cli_conversation_read(p->arguments->operand, p->arguments, &p->conversation);
  if (status == CLI_OK && p->conversation.has_servers) {
    p->with_profile = *p->arguments;
    p->with_profile.mcp_profile = file;
    p->arguments = &p->with_profile;
  }
  return status;
}

static int open_player(player *p) {
  cli_models models;
  int status = cli_models_check(p->arguments, "run", cli_conversation_needs_model(&p->conversation));
  if (status == CLI_OK) status = cli_models_open(&p->arguments->models, &models);
  if (status == CLI_OK) status = cli_talk_open(&p->talk, p->arguments, &models);
  if (status == CLI_OK) status = cli_questions_open(&p->questions, p->talk.store_path, p->talk.database, p->arguments);
  return status == CLI_OK ? add_agents(p) : status;
}

/* @return how many background jobs are lost with it. */
static uint64_t drain(player *p) {
  bool soon = cli_interrupted(&p->interrupt) || p->give_up_ns;
  return cli_talk_drain(&p->talk, soon ? INTERRUPTED_LIMIT_MS : DRAIN_LIMIT_MS);
}

static void close_player(player *p) {
  drain(p); /* when the turns were played, this is the second call, which does nothing */
  cli_talk_close(&p->talk);
  cli_questions_close(&p->questions);
  cli_timeline_free(&p->timeline);
  cli_events_free(&p->events);
  cli_conversation_free(&p->conversation);
  free(p->schema);
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

/* Prints events as they come. They come one at a time, those of a turn before its end is reported, and nothing else
 * prints meanwhile. Events of session.end wait, because they are printed below a line of their own. */
static void print_turn_event(void *ctx, const tp_event *event) {
  player *p = ctx;
  bool answered = event->kind == TP_EVENT_MODEL_END;
  cli_events_add(&p->events, p->talk.runtime, event, answered ? &p->talk.watch.request : NULL);
  if (event->run && event->run->state == TP_STATE_BACKGROUNDED) p->any_background = true;
  if (p->playing) show_event(p);
}

/* The first error counts; a negative answer counts less than any other error. */
static void note_player_status(player *p, int status) {
  if (p->status == CLI_OK || (p->status == CLI_NEGATIVE && status != CLI_OK)) p->status = status;
}

static void end_turn(player *p, const char *session, const tp_turn_result *result) {
  cli_events_add_result(&p->events, session, result);
  show_event(p);
  if (!p->arguments->json) cli_summary_add(&p->summary, &p->events, result->outcome);
  cli_events_clear(&p->events);
  cli_timeline_clear(&p->timeline);
}

/* From here on, all remaining work together has this much time. */
static void give_up_soon(player *p) {
  if (!p->give_up_ns) p->give_up_ns = tp__monotonic_ns() + ABANDONED_LIMIT_MS * INT64_C(1000000);
}

/* If the file cannot store one turn, it will not store later ones. */
static void check_stored(player *p, const tp_turn_result *result) {
  bool of_store = result->code >= TP_ERR_STORE && result->code < TP_ERR_SYSTEM;
  if (result->outcome != TP_TURN_FAILED || !(of_store || result->code == TP_ERR_IO)) return;
  cli_error("error: turn %.*s: %.*s; the rest is not played", (int)result->turn_id.size, result->turn_id.data,
            (int)result->reason.size, result->reason.data);
  note_player_status(p, cli_exit_of(result->code));
  p->store_failed = true;
  give_up_soon(p);
}

static int play_turn(player *p, tp_session *session, const cli_turn *turn) {
  tp_turn_request request = {
      .struct_size = sizeof request, .id = turn->id, .text = turn->user, .said_unix_ms = turn->said_unix_ms};
  const tp_turn_result *result = NULL;
  tp_submission *submission;
  tp_fault fault = {0};
  request.answer_schema = p->schema;
  request.answer_attempts = p->arguments->answer_attempts;
  if (turn->id) request.if_exists = (uint8_t)p->arguments->if_exists;
  cli_limits_fill(&p->arguments->limits, turn->limits, &request);
  cli_follower_retry(p->talk.follower);
  p->playing = true;
  tp_status status = tp_turn_submit(session, &request, NULL, NULL, &submission, &fault);
  if (status != TP_OK) return cli_fault(turn->session, status, &fault);
  cli_interrupt_watch(&p->interrupt, submission);
  do status = tp_submission_wait(submission, WAIT_MS, &result, &fault);
  while (status == TP_ERR_TIMEOUT);
  cli_interrupt_watch(&p->interrupt, NULL);
  p->playing = false;
  if (status == TP_OK) {
    check_stored(p, result);
    int ended = cli_turn_exit(result);
    int interrupted = cli_interrupted(&p->interrupt);
    note_player_status(p, ended != CLI_OK && interrupted ? interrupted : ended);
    end_turn(p, turn->session, result);
  }
  tp_submission_unref(submission);
  return status == TP_OK ? CLI_OK : cli_fault(turn->session, status, &fault);
}

/* ---- sessions ---- */

static int open_player_session(player *p, const cli_turn *turn, tp_session **ret_session) {
  tp_fault fault = {0};
  tp_budget budget;
  bool keeps = cli_questions_are_open(&p->questions);
  tp_session_options options = {.struct_size = sizeof options,
                                .id = turn->session,
                                .budget = cli_budget_fill(&p->arguments->budgets.session, &budget),
                                .tenant = turn->tenant,
                                .workspace = turn->workspace,
                                .environment = cli_environment(p->arguments),
                                .agent = cli_talk_find_agent(&p->talk, turn->agent),
                                .shared_history = p->talk.history,
                                .busy = (uint32_t)p->arguments->busy,
                                .busy_wait_ms = p->arguments->busy_wait_ms,
                                .ask = keeps        ? cli_questions_put
                                       : p->may_ask ? cli_ask_put
                                                    : NULL,
                                .ask_ctx = keeps        ? (void *)&p->questions
                                           : p->may_ask ? &p->ask
                                                        : NULL};
  cli_talk_compact(p->arguments, &options);
  tp_status status = cli_talk_open_session(&p->talk, &options, print_turn_event, p, ret_session, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(turn->session, status, &fault);
}

static bool is_before(int64_t began_ns, int64_t limit_ms) { return tp__monotonic_ns() - began_ns < limit_ms * 1000000; }

static tp_runtime_stats stats_of(const player *p) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(p->talk.runtime, &stats);
  return stats;
}

static void look_for_dead(player *p) {
  if (stats_of(p).jobs_dead == 0) return;
  note_player_status(p, CLI_LOST);
  give_up_soon(p);
}

/* The things that jobs wait for may become available only after hours; then the next run does the jobs. After a wait
 * that was given up, the next wait is short. */
static bool waits_for_others(player *p, int64_t began_ns, uint64_t postponed_before) {
  if (stats_of(p).jobs_postponed == postponed_before) return false;
  return !is_before(began_ns, p->is_postponed ? POSTPONED_AGAIN_MS : POSTPONED_LIMIT_MS);
}

static bool waits_on(player *p, int64_t began_ns, uint64_t postponed_before) {
  if (cli_interrupted(&p->interrupt) || !is_before(began_ns, JOBS_LIMIT_MS)) return false;
  look_for_dead(p);
  if (waits_for_others(p, began_ns, postponed_before)) {
    p->is_postponed = true;
    return false;
  }
  return !p->give_up_ns || tp__monotonic_ns() < p->give_up_ns;
}

static const char postponed_words[] =
    "what it needs is busy, full, out of reach or not given to this process: `turnphase jobs list` names it";

/* Background work that was not done in time may still be done, but the next session would not know of it. */
static int64_t wait_for_jobs(player *p, const char *session) {
  int64_t began_ns = tp__monotonic_ns();
  uint64_t postponed_before = stats_of(p).jobs_postponed;
  bool reported = false;
  tp_status status;
  do {
    status = tp_jobs_wait(p->talk.runtime, session, JOBS_LOOK_MS, NULL);
    if (status == TP_ERR_TIMEOUT && !reported && !is_before(began_ns, JOBS_SILENT_MS)) {
      cli_error("waiting for the background work of session %s; Ctrl-C ends the wait", session);
      reported = true;
    }
  } while (status == TP_ERR_TIMEOUT && waits_on(p, began_ns, postponed_before));
  look_for_dead(p);
  if (status == TP_OK) p->is_postponed = false;
  if (status != TP_OK) {
    const char *why = p->is_postponed ? postponed_words : tp_status_text(status);
    cli_error("warning: background work of session %s: %s", session, why);
    p->any_background = false; /* none that could be said to be done */
    int interrupted = cli_interrupted(&p->interrupt);
    note_player_status(p, interrupted ? interrupted : p->is_postponed ? CLI_RETRY : (int)cli_exit_of(status));
  }
  return tp__monotonic_ns() - began_ns;
}

static void end_session(player *p, const char *name, tp_session *session) {
  cli_talk_close_session(&p->talk, session);
  int64_t waited_ns = wait_for_jobs(p, name);
  if (p->arguments->json) cli_events_print(&p->events, p->output);
  else cli_timeline_session_end(&p->timeline, p->any_background, waited_ns);
  cli_events_clear(&p->events);
  cli_timeline_clear(&p->timeline);
  cli_flush(p->output);
  p->any_background = false;
}

/* The rest is not played when the output cannot be written, when the user has ended the run, or when a turn could not
 * be stored. */
static bool goes_on(player *p) { return !p->output->error && !cli_interrupted(&p->interrupt) && !p->store_failed; }

/* Plays consecutive turns of one session. @return how many there are. */
static size_t play_session(player *p, size_t first, int *ret_status) {
  const cli_turn *turns = p->conversation.turns + first;
  size_t count = 1, left = p->conversation.count - first;
  while (count < left && cli_turn_same_session(&turns[0], &turns[count])) count++;
  tp_session *session;
  *ret_status = open_player_session(p, &turns[0], &session);
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
  cli_print_string(output, "On the left: milliseconds since the turn began; on the right: the duration.\n");
  cli_paint_off(output);
}

/* ---- what is lost ---- */

/* The store of a directory also has jobs of earlier runs, which were reported then. */
static bool add_dead(void *ctx, const tp_job *job) {
  player *p = ctx;
  if (job->ended_ms < p->began_ms) return true;
  cli_events_add_dead(&p->events, job);
  cli_summary_add_dead(&p->summary, cli_events_get(&p->events, p->events.count - 1));
  return true;
}

static void report_lost(player *p, uint64_t lost) {
  tp_job_query dead = {.struct_size = sizeof dead, .states = 1u << TP_JOB_DEAD, .with_payload = 1};
  tp_fault fault = {0};
  tp_status status = tp_jobs_list(p->talk.runtime, &dead, add_dead, p, &fault);
  if (status != TP_OK) cli_error("warning: the jobs that failed cannot be listed: %s", tp_status_text(status));
  size_t count = p->summary.dead_letters.count;
  const char *data = p->arguments->data;
  p->summary.jobs_lost = (size_t)lost;
  if (count == 0 && lost == 0) return;
  note_player_status(p, CLI_LOST);
  cli_events_add_background(&p->events, count, lost);
  if (p->arguments->json) cli_events_print(&p->events, p->output);
  cli_events_clear(&p->events);
  if (count > 0)
    cli_error("error: %zu background job%s failed for good: what would have been kept is lost%s%s%s", count,
              count == 1 ? "" : "s", data ? ", unless it is run again: turnphase jobs redrive " : "", data ? data : "",
              data ? " --all" : "");
  if (lost > 0)
    cli_error("error: %llu background job%s not done when the run ended", (unsigned long long)lost,
              lost == 1 ? " was" : "s were");
}

static void play(player *p) {
  int status = CLI_OK;
  if (!p->arguments->json) explain(p->output);
  p->summary.conversation = &p->conversation;
  for (size_t i = 0; i < p->conversation.count && status == CLI_OK && goes_on(p);) i += play_session(p, i, &status);
  note_player_status(p, status);
  report_lost(p, drain(p));
  cli_talk_report_open(&p->talk);
  int interrupted = cli_interrupted(&p->interrupt);
  if (interrupted) p->status = interrupted;
  if (!p->arguments->json) cli_summary_print(&p->summary, p->output);
}

int cli_run(const cli_arguments *arguments, cli_output *output) {
  player p = {.arguments = arguments, .output = output, .began_ms = tp__wall_ms()};
  p.timeline = (cli_timeline){.output = output, .events = &p.events, .verbose = arguments->verbose};
  int status = read_player(&p); /* a signal during this ends the process by default: nothing is running yet */
  if (status != CLI_OK) {
    close_player(&p);
    return status;
  }
  cli_interrupt_start(&p.interrupt);
  p.may_ask = !arguments->keeps_questions && cli_ask_start(&p.ask);
  p.talk.person = p.may_ask ? &p.ask : NULL;
  status = open_player(&p);
  if (status == CLI_OK) {
    play(&p);
    status = p.status;
  }
  close_player(&p);
  if (!arguments->keeps_questions) cli_ask_stop(&p.ask);
  cli_interrupt_stop(&p.interrupt);
  return status;
}
