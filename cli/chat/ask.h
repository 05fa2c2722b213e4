/* SPDX-License-Identifier: Apache-2.0
 *
 * ask: a hook's question to the person at the terminal. Not connected: the library puts no questions yet and refuses
 * tp_session_options.ask. The callback that will be set there comes on the thread that owns the turn and must not wait:
 * it leaves the question to the thread that reads lines (chat.c: play()), which calls cli_ask() and then
 * tp_question_answer(). */
#ifndef CLI_CHAT_ASK_H
#define CLI_CHAT_ASK_H

#include "cli/chat/line.h"
#include "cli/chat/screen.h"
#include "turnphase/people.h"

/** Shows a question and reads the answer. Everything but "y" and "yes" denies: also no line, and Ctrl-C.
 *  @param ret_decision  its texts are the question's.
 *  Threads: the one that reads lines, while the owner of the turn prints nothing. */
void cli_ask(cli_screen *screen, cli_line *line, const tp_question *question, tp_decision *ret_decision);

#endif
