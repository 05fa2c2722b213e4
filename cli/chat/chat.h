/* SPDX-License-Identifier: Apache-2.0
 *
 * chat: a conversation with a model: a session, the turn under way, and what is shown of it. While a turn runs, the
 * thread that reads the lines adds what a person types to the turn, and the one that owns the turn prints. A sign of
 * life is shown by the first: a lock keeps them apart. A question about a call is put by a thread of its own
 * (cli/run/ask.h), which has the terminal meanwhile: what happens then is shown after the answer. */
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
  cli_events events; /* of the newest turn; with --json those that are not printed yet */
  tp__lock mutex;    /* while a turn runs, of what is shown: the screen and the next two */
  cli_screen screen;
  size_t shown;     /* of the events: what follows is held back while a person is asked */
  int64_t shown_ns; /* when something was shown last */
  cli_interrupt interrupt;
  cli_ask ask; /* questions about tool calls, to the terminal */
  bool may_ask;
  cli_line *line;
  int ended;    /* a descriptor that is readable when the turn under way has ended; -1: none */
  char **typed; /* lines that were typed during a turn and are for after it, the oldest first */
  size_t typed_count, typed_capacity;
  char *last; /* the user's newest message, for /retry; NULL: none */
  size_t last_size, messages;
  char *answered;        /* of the history: the newest answer; NULL: none after the user's newest message */
  tp_writer *last_files; /* what went with it: an array of texts */
  char **attached;       /* what goes with the next one, as the model reads it: paths beneath / */
  size_t attached_count, attached_capacity;
  int64_t last_id_ms; /* the time that the newest turn's id says */
  int status;         /* what the command will end with */
  bool terminal;      /* a person types and looks */
  bool playing;       /* a turn is under way: its events are shown as they come */
  bool interrupted;   /* Ctrl-C was seen in this turn: the terminal has shown ^C */
  bool leaves;        /* /quit, or nothing can be read, written or kept any more */
} cli_chat;

/** Plays a turn with this message, and what is attached, and shows it. */
void cli_chat_submit(cli_chat *chat, tp_text text);
/** Plays a turn with the newest message again. @return false when there is none. */
bool cli_chat_submit_again(cli_chat *chat);
/** Says what is wrong with a line. Where no person types, the command ends with CLI_USAGE. */
void cli_chat_refuse(cli_chat *chat, const char *format, ...) TP__PRINTF(2, 3);

#endif
