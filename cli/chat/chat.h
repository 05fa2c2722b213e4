/* SPDX-License-Identifier: Apache-2.0
 *
 * chat: a conversation with a model: a session, the running turn, and its display. While a turn runs, the thread that
 * reads lines adds typed messages to the turn, and the thread that owns the turn prints. The first thread also shows a
 * sign of life; a lock keeps the two apart. A question about a call is asked by a separate thread (cli/run/ask.h),
 * which has the terminal meanwhile. Events of that time are shown after the answer. */
#ifndef CLI_CHAT_CHAT_H
#define CLI_CHAT_CHAT_H

#include "cli/chat/screen.h"
#include "cli/common/interrupt.h"
#include "cli/common/options.h"
#include "cli/run/ask.h"
#include "cli/run/event.h"
#include "cli/run/talk.h"
#include "support/lock.h"

typedef struct cli_line cli_line;

typedef struct cli_chat {
  const cli_arguments *arguments;
  cli_output *output;
  const char *session_id;
  cli_talk talk;
  tp_session *session;
  cli_events events; /* of the newest turn; with --json only those that are not printed yet */
  tp__lock mutex;    /* while a turn runs, it guards the display: the screen and the next two members */
  cli_screen screen;
  size_t shown;     /* how many events are shown; later ones are held back while a person is asked */
  int64_t shown_ns; /* when something was shown last */
  cli_interrupt interrupt;
  cli_ask ask; /* questions about tool calls, to the terminal */
  bool may_ask;
  cli_line *line;
  int ended;    /* a descriptor that becomes readable when the running turn has ended; -1: none */
  char **typed; /* lines typed during a turn that are for after it, the oldest first */
  size_t typed_count, typed_capacity;
  char *last; /* the user's newest message, for /retry; NULL: none */
  size_t last_size, messages;
  char *answered;        /* from the history: the newest answer; NULL: none after the user's newest message */
  tp_writer *last_files; /* what went with it: an array of texts */
  char **attached;       /* files for the next message, with their names for the model: paths below / */
  size_t attached_count, attached_capacity;
  int64_t last_id_ms; /* the time that the newest turn's id says */
  int status;         /* what the command will end with */
  bool terminal;      /* a person types and looks */
  bool playing;       /* a turn is running: its events are shown as they come */
  bool interrupted;   /* Ctrl-C was seen in this turn: the terminal has shown ^C */
  bool leaves;        /* /quit, or reading, writing or storing no longer works */
} cli_chat;

/** Plays a turn with this message and the attached files, and shows it. */
void cli_chat_submit(cli_chat *chat, tp_text text);
/** Plays a turn with the newest message again. @return false when there is none. */
bool cli_chat_submit_again(cli_chat *chat);
/** Reports an error in a line. If no person types, the command ends with CLI_USAGE. */
void cli_chat_refuse(cli_chat *chat, const char *format, ...) TP__PRINTF(2, 3);

#endif
