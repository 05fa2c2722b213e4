/* SPDX-License-Identifier: Apache-2.0
 *
 * message: messages of the command for the person who called it, on standard error. Threads: any. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include "runtime/base/printf.h"
#include "turnphase/turnphase.h"

/** Prints "turnphase: " and a line. */
void cli_error(const char *format, ...) TP__PRINTF(1, 2);
/** As cli_error(), for an error in a file: FILE:LINE:COLUMN: message. A line or column of 0 is left out. */
void cli_error_at(const char *file, uint32_t line, uint32_t column, const char *format, ...) TP__PRINTF(4, 5);
/** Prints a fault of the library. @param what  the action that failed, or the file; NULL: the fault's subject.
 *  @return its exit status. */
int cli_fault(const char *what, tp_status status, const tp_fault *fault);

/** Stores the first line of this thread's later messages, cut to the size. NULL: stores no more. */
void cli_message_keep(char *buffer, size_t size);

#endif
