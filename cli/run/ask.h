/* SPDX-License-Identifier: Apache-2.0
 *
 * ask: puts questions about tool calls to the person at the terminal: the question on standard error, the answer (y, n
 * or always) from /dev/tty, one question after the other. If standard error is no terminal, there is no channel, and
 * the library denies calls about which it would ask. Lock: one mutex for the queue; a separate thread waits for
 * answers. */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include "support/lock.h"
#include "turnphase/turnphase.h"

enum { CLI_ASK_LINE_BYTES = 8192 }; /* a terminal gives at most 4,096 of a line */

typedef struct cli_question cli_question;

typedef struct cli_ask {
  pthread_t thread; /* never changes while it runs, like the next two */
  bool runs;
  int terminal;
  tp__lock mutex;
  tp__lock_condition changed;
  cli_question *first; /* under mutex: the oldest */
  bool stops;          /* under mutex */
  bool asks;           /* under mutex: the thread has an unanswered question */
  char **always;       /* used only by the thread: names of tools that need no answer any more */
  size_t always_count;
} cli_ask;

/** @return whether there is a terminal: then cli_ask_put() may be called until the stop. */
bool cli_ask_start(cli_ask *ask);
/** tp_question_fn; ctx is the cli_ask. */
void cli_ask_put(void *ctx, const tp_question *question);
/** Runs `put` on the thread that has the terminal, when its turn has come; or calls `dropped` instead, when the asking
 *  stops. One of the two is called once, unless this fails. @return false: it has stopped, or there is no memory.
 *  Threads: any. */
bool cli_ask_run(cli_ask *ask, void (*put)(cli_ask *ask, void *ctx), void (*dropped)(void *ctx), void *ctx);
/** Called by put: the next line that the person types, without its end.
 *  @return false: the terminal is gone, or the command ends. */
bool cli_ask_line(cli_ask *ask, char line[CLI_ASK_LINE_BYTES]);
/** Called by put: prints a text of others on standard error. Characters that a terminal would obey or hide are written
 *  as their numbers. */
void cli_ask_show(tp_text text);
/** Whether a question waits for a line from the terminal; then no other thread may read there. Threads: any. */
bool cli_ask_is_open(cli_ask *ask);
/** Gives up what is still open. */
void cli_ask_stop(cli_ask *ask);

#endif
