/* SPDX-License-Identifier: Apache-2.0
 *
 * fault: refusals in one line, and reading callers' structs by their size. No state. */
#ifndef TP__SUPPORT_FAULT_H
#define TP__SUPPORT_FAULT_H

#include "runtime/base/printf.h"
#include "support/text.h"

/* Each function fills fault (may be NULL) and returns code, so that a refusal is one line: return tp__refuse(fault,
 * ...). subject may be NULL. Subject and message are cut between code points, and unprintable characters become '?'. */
tp_status tp__refuse(tp_fault *fault, tp_status code, const char *subject, const char *format, ...) TP__PRINTF(4, 5);
/** As tp__refuse(), with the place in a text. */
tp_status tp__refuse_at(tp_fault *fault, tp_status code, const char *subject, tp__place place, const char *format, ...)
    TP__PRINTF(5, 6);
/** As tp__refuse(), with an errno, whose text follows the message after ": ". */
tp_status tp__refuse_errno(tp_fault *fault, tp_status code, const char *subject, int error, const char *format, ...)
    TP__PRINTF(5, 6);

/** Copies a caller's struct, which begins with its struct_size. Zeroes the members that it lacks, and sets struct_size
 *  to the library's size. @param theirs NULL: all zero. @param name of the struct, for the message.
 *  @return TP_OK; TP_ERR_VERSION for an impossible size, or for a field that this library does not know. */
tp_status tp__struct_read(void *ours, size_t our_size, const void *theirs, const char *name, tp_fault *fault);

#endif
