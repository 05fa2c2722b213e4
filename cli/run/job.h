/* SPDX-License-Identifier: Apache-2.0
 *
 * job: prints a background job as a line of text or JSON. */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "cli/common/output.h"
#include "turnphase/turnphase.h"

/** Prints one line. The payload is content, and is not shown. */
void cli_job_print(cli_output *output, const tp_job *job, bool json);

#endif
