/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/talk.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/data.h"
#include "cli/common/database.h"
#include "cli/common/date.h"
#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/inspect/forget.h"
#include "cli/run/agent_config.h"
#include "cli/run/changed.h"
#include "cli/run/host.h"
#include "support/clock.h"
#include "support/lock.h"
#include "support/text.h"
#include "turnphase/sqlite.h"

/* ---- opening ---- */

int cli_talk_check(const cli_arguments *arguments, const char *command, bool needs_model) {
  const struct {
    const char *option, *value;
  } ids[] = {{"tenant", arguments->tenant}, {"workspace", arguments->workspace}, {"session", arguments->session}};
  int status = cli_models_check(arguments, command, needs_model);
  for (size_t i = 0; status == CLI_OK && i < sizeof ids / sizeof *ids; i++) {
    if (!ids[i].value || tp__is_id(tp_text_of(ids[i].value))) continue;
    cli_error("--%s must have 1 to 128 bytes of UTF-8 without white space", ids[i].option);
    status = CLI_USAGE;
  }
  if (status == CLI_OK && arguments->system && arguments->models.count == 0) {
    cli_error("--system is for the models of the command line: give --model, or write system into the agents");
    status = CLI_USAGE;
  }
  if (status == CLI_OK && arguments->durability > TP_DURABILITY_MEMORY && !arguments->data) {
    cli_error("--durability %s needs --data DIR: that is where records are kept",
              arguments->durability == TP_DURABILITY_SYNC ? "sync" : "async");
    status = CLI_USAGE;
  }
  if (status == CLI_OK && arguments->busy && !arguments->data) {
    cli_error("--busy wait needs --data DIR: no other process has what is kept in memory");
    status = CLI_USAGE;
  }
  if (status == CLI_OK && arguments->history_tokens && !arguments->compact) {
    cli_error("--history-tokens needs --compact: what is to become of a history that is longer?");
    status = CLI_USAGE;
  }
  return status;
}

static int open_data(cli_talk *talk) {
  const char *directory = talk->arguments->data;
  if (!directory || cli_database_is(directory)) return CLI_OK;
  int status = cli_data_make(directory);
  if (status == CLI_OK) status = cli_forget_finish(directory);
  if (status != CLI_OK) return status;
  talk->store_path = cli_data_path(directory, "turnphase.db");
  talk->memory_path = cli_data_path(directory, "memory.db");
  return CLI_OK;
}

/* One database of both. */
static tp_status open_talk_database(cli_talk *talk, tp_history **ret_history, tp_fault *fault) {
  void *log_ctx = (void *)(uintptr_t)talk->arguments;
  tp_status status = cli_database_open(talk->arguments->data, false, cli_log, log_ctx, &talk->database, fault);
  return status == TP_OK ? cli_database_history(talk->database, ret_history, fault) : status;
}

static int open_history(cli_talk *talk) {
  tp_fault fault = {0};
  tp_history *history;
  bool in_database = cli_database_is(talk->arguments->data);
  if (in_database) cli_error("warning: a database keeps no memory: it is gone when this ends");
  tp_status status = in_database        ? open_talk_database(talk, &history, &fault)
                     : talk->store_path ? tp_sqlite_history_open(talk->store_path, &history, &fault)
                                        : tp_history_memory_new(NULL, &history, &fault);
  if (status == TP_OK) talk->messages = *history;
  if (status == TP_OK && (status = tp_history_share(NULL, history, &talk->history, &fault)) != TP_OK)
    tp_history_free(history);
  return status == TP_OK ? CLI_OK : cli_fault(in_database ? NULL : talk->store_path, status, &fault);
}

/* The limit is an age, not a date: a date would become older while the process runs. */
static int read_history_age(const cli_talk *talk, uint32_t *ret_age_s) {
  const char *age = talk->arguments->history_age;
  int64_t since_ms = 0;
  if (!age) return CLI_OK;
  if (!talk->store_path) {
    cli_error("--history-age is for the history of --data DIR");
    return CLI_USAGE;
  }
  bool is_age = age[strcspn(age, "smhd")] && cli_date_read_since(age, &since_ms);
  int64_t age_s = is_age ? (tp__wall_ms() - since_ms) / 1000 : 0;
  if (age_s > 0 && age_s <= UINT32_MAX) {
    *ret_age_s = (uint32_t)age_s;
    return CLI_OK;
  }
  cli_error("--history-age takes 12h or 365d, not '%s'", age);
  return CLI_USAGE;
}

/* @param ret_store  NULL when nothing is stored. */
static int open_store(cli_talk *talk, tp_store **ret_store) {
  tp_fault fault = {0};
  tp_sqlite_store_options options = {.struct_size = sizeof options,
                                     .path = talk->store_path,
                                     .log = cli_log,
                                     .log_ctx = (void *)(uintptr_t)talk->arguments,
                                     .content_hashes = 1};
  *ret_store = NULL;
  int exit_status = read_history_age(talk, &options.history_age_max_s);
  if (exit_status != CLI_OK || (!talk->store_path && !talk->database)) return exit_status;
  tp_status status = talk->database ? cli_database_store(talk->database, ret_store, &fault)
                                    : tp_sqlite_store_open(&options, ret_store, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(talk->store_path, status, &fault);
}

int cli_talk_add_agent(cli_talk *talk, const cli_agent *of_file, cli_models *models) {
  const char *id = of_file ? of_file->id : CLI_OWN_AGENT;
  const tp_model *fallbacks[CLI_MODELS_MAX];
  tp_fault fault = {0};
  tp_agent *agent;
  tp_writer *writer;
  for (size_t i = 0; i < models->count; i++) {
    models->items[i] = cli_watch_add(&talk->watch, models->items[i]);
    fallbacks[i] = models->items[i];
  }
  tp_agent_config config = {.struct_size = sizeof config,
                            .id = id,
                            .system = of_file ? of_file->system : talk->arguments->system,
                            .extra = cli_agent_config_write(of_file, &writer),
                            .model = fallbacks[0],
                            .fallbacks = fallbacks + 1,
                            .fallback_count = models->count - 1};
  tp_status status = tp_agent_add(talk->runtime, &config, &agent, &fault);
  tp_writer_free(writer);
  if (status != TP_OK) {
    cli_models_free(models);
    return cli_fault(id, status, &fault);
  }
  talk->agents = cli_reserve(talk->agents, talk->agent_count, &talk->agents_capacity, sizeof(tp_agent *));
  talk->agents[talk->agent_count++] = agent;
  return CLI_OK;
}

tp_agent *cli_talk_find_agent(const cli_talk *talk, const char *id) {
  for (size_t i = 0; i < talk->agent_count; i++)
    if (strcmp(tp_agent_id(talk->agents[i]), id ? id : CLI_OWN_AGENT) == 0) return talk->agents[i];
  return NULL;
}

int cli_talk_open(cli_talk *talk, const cli_arguments *arguments, cli_models *models) {
  tp_store *store = NULL;
  talk->arguments = arguments;
  int status = open_data(talk);
  if (status == CLI_OK) status = open_history(talk);
  if (status == CLI_OK) status = open_store(talk, &store);
  talk->without_hooks = *arguments;
  talk->without_hooks.hooks = (cli_words){0}; /* they are followed */
  talk->without_hooks.redacts = arguments->hooks;
  if (status == CLI_OK)
    status = cli_host_open_with(&talk->without_hooks, talk->memory_path, store, talk->ask, talk->ask_ctx, talk->person,
                                &talk->runtime);
  if (status == CLI_OK) status = cli_follower_new(talk->runtime, arguments, talk->hooks_when_asked, &talk->follower);
  if (status == CLI_OK && models->count > 0) return cli_talk_add_agent(talk, NULL, models);
  cli_models_free(models);
  return status;
}

tp_status cli_talk_open_session(const cli_talk *talk, const tp_session_options *options, tp_event_fn on_event,
                                void *ctx, tp_session **ret_session, tp_fault *fault) {
  const tp_listener listener = {.struct_size = sizeof listener, .on_event = on_event, .ctx = ctx, .on_owner = true};
  tp_session *session;
  tp_status status = tp_session_open(talk->runtime, options, &session, fault);
  if (status != TP_OK) return status;
  status = tp_session_listen(session, &listener, NULL, fault);
  if (status == TP_OK) *ret_session = session;
  else tp_session_close(session, NULL, NULL);
  return status;
}

void cli_talk_compact(const cli_arguments *arguments, tp_session_options *options) {
  if (arguments->compact == CLI_COMPACT_NONE) return;
  options->compaction = arguments->compact == CLI_COMPACT_DROP ? TP_COMPACTION_DROP_OLDEST : TP_COMPACTION_SUMMARIZE;
  options->history_tokens_max = arguments->history_tokens;
}

tp_status cli_talk_load(const cli_talk *talk, const char *session, tp_message_fn each, void *ctx, tp_fault *fault) {
  const char *tenant = talk->arguments->tenant;
  tp_history_load load = {.struct_size = sizeof load,
                          .tenant = tp_text_of(tenant ? tenant : ""),
                          .session = tp_text_of(session),
                          .each = each,
                          .ctx = ctx};
  return talk->messages.load(talk->messages.ctx, &load, fault);
}

/* ---- the end of a session ---- */

/** Waits for the end of a session, which the library reports from another thread. */
typedef struct closing {
  tp__lock mutex;
  tp__lock_condition ended;
  bool done;
} closing;

static void on_closed(void *ctx) {
  closing *c = ctx;
  tp__lock_acquire(&c->mutex);
  c->done = true;
  tp__lock_condition_signal(&c->ended);
  tp__lock_release(&c->mutex);
}

/* Data of the session's end that the library does not know. @return NULL: there is none. */
static const tp_session_end *fill_end(const cli_talk *talk, tp_writer *writer, tp_session_end *end) {
  *end = (tp_session_end){.struct_size = sizeof *end};
  bool from_git = talk->arguments->changed_from == CLI_CHANGED_FROM_GIT && writer;
  return from_git && cli_changed_by_git(writer, &end->changed_files) ? end : NULL;
}

static void begin_close(const cli_talk *talk, tp_session *session, closing *c) {
  tp_writer *writer = NULL;
  tp_session_end end;
  tp_fault fault = {0};
  (void)!tp_writer_new(NULL, &writer); /* without memory the session still ends */
  if (tp_session_close_with(session, fill_end(talk, writer, &end), on_closed, c, &fault) != TP_OK) {
    cli_error("warning: --changed-from git: %s", fault.message);
    tp_session_close(session, on_closed, c);
  }
  tp_writer_free(writer);
}

void cli_talk_close_session(const cli_talk *talk, tp_session *session) {
  closing c = {.mutex = TP__LOCK_INITIALIZER(TP__LOCK_talk), .ended = TP__LOCK_CONDITION_INITIALIZER};
  begin_close(talk, session, &c);
  tp__lock_acquire(&c.mutex);
  while (!c.done) tp__lock_condition_wait(&c.ended, &c.mutex);
  tp__lock_release(&c.mutex);
  tp__lock_condition_fini(&c.ended);
  tp__lock_fini(&c.mutex);
}

/* ---- the end ---- */

static bool count_job(void *ctx, const tp_job *job) {
  (void)job;
  ++*(size_t *)ctx;
  return true;
}

/* Reports jobs that the store of a directory has, from this run or an earlier one. */
void cli_talk_report_open(const cli_talk *talk) {
  tp_job_query open = {.struct_size = sizeof open, .states = 1u << TP_JOB_QUEUED | 1u << TP_JOB_RUNNING};
  size_t count = 0;
  if ((!talk->store_path && !talk->database) || tp_jobs_list(talk->runtime, &open, count_job, &count, NULL) != TP_OK ||
      count == 0)
    return;
  cli_error(
      "warning: %zu background job%s not done yet: the next run with this --data does %s; see: turnphase jobs "
      "list %s",
      count, count == 1 ? " is" : "s are", count == 1 ? "it" : "them", talk->arguments->data);
}

uint64_t cli_talk_drain(cli_talk *talk, uint32_t limit_ms) {
  tp_drain_report report = {.struct_size = sizeof report};
  for (size_t i = talk->agent_count; i > 0; i--) tp_agent_remove(talk->agents[i - 1]);
  talk->agent_count = 0;
  if (talk->runtime && tp_runtime_drain(talk->runtime, limit_ms, &report, NULL) != TP_OK)
    cli_error("the drain was refused");
  return report.jobs_lost;
}

/* The runtime uses the objects that are freed after it, and its sessions use all others. */
void cli_talk_close(cli_talk *talk) {
  cli_follower_free(talk->follower);
  cli_host_close(talk->runtime);
  tp_shared_history_unref(talk->history);
  cli_database_close(talk->database);
  cli_watch_fini(&talk->watch);
  free(talk->agents);
  free(talk->store_path);
  free(talk->memory_path);
}
