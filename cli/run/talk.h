/* SPDX-License-Identifier: Apache-2.0
 *
 * talk: what run and chat need to talk with a model: a runtime with its domains, the history, and an agent with the
 * model, kept in a data directory or in memory. */
#ifndef CLI_TALK_H
#define CLI_TALK_H

#include "cli/common/options.h"
#include "cli/run/watch.h"

/** Zero-filled before cli_talk_open(). */
typedef struct cli_talk {
  const cli_arguments *arguments;
  tp_runtime *runtime;
  tp_shared_history *history;     /* of all sessions */
  tp_history messages;            /* the same history, as the host has it: for cli_talk_load() */
  tp_agent *agent;                /* owns the model, which all sessions share */
  cli_watch watch;
  char *store_path, *memory_path; /* NULL: in memory */
} cli_talk;

/** Checks the options that name a model, and ids. @param command  that of the user, for messages.
 *  @return CLI_OK, or CLI_USAGE after saying what is wrong. */
int cli_talk_check(const cli_arguments *arguments, const char *command);
/** Opens all of it. @param model  taken, whatever comes of it.
 *  @return CLI_OK, or an exit status after saying what is wrong; cli_talk_close() is due in either case. */
int cli_talk_open(cli_talk *talk, const cli_arguments *arguments, tp_model *model);
/** Walks the messages of a session that is not in a turn, in their order. */
tp_status cli_talk_load(const cli_talk *talk, const char *session, tp_message_fn each, void *ctx,
                        tp_fault *fault) TP_MUST_USE;
/** Closes a session and waits until it has ended. */
void cli_talk_close_session(tp_session *session);
/** Says how many jobs the store of a directory still has, of this process or an earlier one. */
void cli_talk_report_open(const cli_talk *talk);
/** Removes the agent and drains the runtime; a second time it does nothing.
 *  @return how many background jobs are lost with it. */
uint64_t cli_talk_drain(cli_talk *talk, uint32_t limit_ms);
/** Frees all of it, after a drain. */
void cli_talk_close(cli_talk *talk);

#endif
