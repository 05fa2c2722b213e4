/* SPDX-License-Identifier: Apache-2.0
 *
 * slash: the slash commands of a conversation, such as /help. */
#ifndef CLI_CHAT_SLASH_H
#define CLI_CHAT_SLASH_H

#include "cli/chat/chat.h"

/** Whether the line's first word is a command. */
bool cli_slash_is_command(tp_text line);
/** The names of all, which end with NULL. */
const char *const *cli_slash_names(void);
/** Runs the command that a line with a leading slash names; reports an unknown command. */
void cli_slash_run(cli_chat *chat, tp_text line);

#endif
