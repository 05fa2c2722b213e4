/* SPDX-License-Identifier: Apache-2.0
 *
 * model: the model that the command line names: script:FILE, openai:NAME, openai-responses:NAME, anthropic:NAME. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "cli/common/options.h"

/** Whether the words are ones that cli_model_open() understands, and go together.
 *  @param command  that of the user, for messages.  @return CLI_OK or CLI_USAGE, said. */
int cli_model_check(const cli_arguments *arguments, const char *command);
/** @param ret_model  tp_model_free() when it was not taken.
 *  @return CLI_OK, or an exit status after saying what is wrong. */
int cli_model_open(const cli_arguments *arguments, tp_model **ret_model);

#endif
