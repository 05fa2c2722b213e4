/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds: repeats a bench, each time in a process of its own. The addresses of memory and code differ between
 * processes, and this moves figures more than the turns of one process differ. Two benches alternate (A B, B A, A B,
 * …), so a machine that becomes slower affects both. A stored result can replace one of them. */
#ifndef CLI_ROUNDS_H
#define CLI_ROUNDS_H

#include "cli/common/options.h"

/** Whether the command line requests rounds: --rounds, --compare or --baseline. */
bool cli_rounds_wanted(const cli_arguments *arguments);
/** Runs the rounds, and prints the results.
 *  @return CLI_OK; CLI_NEGATIVE when a phase failed in a bench, or the whole turn is slower than in the baseline; else
 *  an exit status after saying what is wrong. */
int cli_rounds(const cli_arguments *arguments, cli_output *output);

#endif
