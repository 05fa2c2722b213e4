/* SPDX-License-Identifier: Apache-2.0
 *
 * talk: everything that run and chat need to talk with a model: a runtime with its domains, the history, and an agent
 * with the model, stored in a data directory or in memory. */
#ifndef CLI_TALK_H
#define CLI_TALK_H

#include "cli/common/database.h"
#include "cli/common/options.h"
#include "cli/hooks/hooks.h"
#include "cli/run/ask.h"
#include "cli/run/conversation.h"
#include "cli/run/model.h"
#include "cli/run/watch.h"

/** Zero-filled before cli_talk_open(). */
typedef struct cli_talk {
  const cli_arguments *arguments;
  cli_arguments without_hooks; /* of the runtime, which keeps them */
  tp_runtime *runtime;
  cli_follower *follower;     /* NULL: no hooks */
  bool hooks_when_asked;      /* set before opening: hooks change only by cli_follower_update() */
  tp_shared_history *history; /* of all sessions */
  tp_history messages;        /* the same history, as the host has it: for cli_talk_load() */
  tp_agent **agents;          /* each owns its models, which its sessions share */
  size_t agent_count, agents_capacity;
  cli_watch watch;
  tp_postgres *database;          /* of history and store; NULL: none */
  char *store_path, *memory_path; /* NULL: in memory, or in the database */
  tp_question_fn ask;             /* set before opening: the channel for turns whose session has none; or NULL */
  void *ask_ctx;
  cli_ask *person; /* set before opening; NULL: no person answers questions of MCP servers */
} cli_talk;

/** Checks the options that name models, and ids.
 *  @param command  the user's command, for messages. @param needs_model  the command line must name a model.
 *  @return CLI_OK, or CLI_USAGE after a message about the error. */
int cli_talk_check(const cli_arguments *arguments, const char *command, bool needs_model);
/** Opens everything. @param models  taken in every case; none: there is no agent of the command line.
 *  @return CLI_OK, or an exit status after a message; the caller calls cli_talk_close() in either case. */
int cli_talk_open(cli_talk *talk, const cli_arguments *arguments, cli_models *models);
/** Adds an agent, which ends with cli_talk_drain().
 *  @param agent   of a file; NULL: the agent of the command line.  @param models  at least one; taken in every case.
 *  @return CLI_OK, or an exit status after a message about the error. */
int cli_talk_add_agent(cli_talk *talk, const cli_agent *agent, cli_models *models);
/** An agent that was added. @param id  NULL: the agent of the command line. */
tp_agent *cli_talk_find_agent(const cli_talk *talk, const char *id);
/** Fills the compaction in a session's options, as set by the command line. */
void cli_talk_compact(const cli_arguments *arguments, tp_session_options *options);
/** tp_session_open() with a listener that prints. The listener may wait for a terminal, so it is never called on the
 *  thread of a model. */
tp_status cli_talk_open_session(const cli_talk *talk, const tp_session_options *options, tp_event_fn on_event,
                                void *ctx, tp_session **ret_session, tp_fault *fault);
/** Walks the messages of a session that is not in a turn, in their order. */
tp_status cli_talk_load(const cli_talk *talk, const char *session, tp_message_fn each, void *ctx,
                        tp_fault *fault) TP_MUST_USE;
/** Closes a session and waits until it has ended. */
void cli_talk_close_session(const cli_talk *talk, tp_session *session);
/** Reports how many jobs the store of a directory still has, from this process or an earlier one. */
void cli_talk_report_open(const cli_talk *talk);
/** Removes the agents and drains the runtime. A second call does nothing.
 *  @return how many background jobs are lost with it. */
uint64_t cli_talk_drain(cli_talk *talk, uint32_t limit_ms);
/** Frees all of it, after a drain. */
void cli_talk_close(cli_talk *talk);

#endif
