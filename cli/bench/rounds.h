/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds: a bench that is repeated, each time in a process of its own: where memory and code lie differs between
 * processes, and moves figures by more than the turns of one process differ. Two benches take turns (A B, B A, A B, …),
 * so a machine that gets slower makes both slower. A stored result takes the place of one of them. */
#ifndef CLI_ROUNDS_H
#define CLI_ROUNDS_H

#include "cli/common/options.h"

/** Whether the command line asks for rounds: --rounds, --compare or --baseline. */
bool cli_rounds_wanted(const cli_arguments *arguments);
/** Runs them, and prints what they came to.
 *  @return CLI_OK; CLI_NEGATIVE when a phase failed in a bench, or the whole turn is slower than in the baseline; else
 *  an exit status after saying what is wrong. */
int cli_rounds(const cli_arguments *arguments, cli_output *output);

#endif
