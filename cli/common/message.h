/* SPDX-License-Identifier: Apache-2.0
 *
 * message: what the command has to say to the person who called it, on standard error. Threads: any. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include "runtime/base/printf.h"
#include "turnphase/turnphase.h"

/** Prints "turnphase: " and a line. */
void cli_error(const char *format, ...) TP__PRINTF(1, 2);
/** The same for what is wrong in a file: FILE:LINE:COLUMN: message. A line or column of 0 is left out. */
void cli_error_at(const char *file, uint32_t line, uint32_t column, const char *format, ...) TP__PRINTF(4, 5);
/** Prints a fault of the library. @param what  what could not be done, or the file; may be NULL.
 *  @return its exit status. */
int cli_fault(const char *what, tp_status status, const tp_fault *fault);

/** What this thread says from here on is also kept: the first line of it, cut to the size. NULL: nothing is, any more.
 */
void cli_message_keep(char *buffer, size_t size);

#endif
