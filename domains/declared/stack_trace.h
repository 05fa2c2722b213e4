/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_trace: recognizes the text that Python and Node.js print on standard error when a program ends by an unhandled
 * error. It owns nothing and has no lock. */
#ifndef TP__DECLARED_STACK_TRACE_H
#define TP__DECLARED_STACK_TRACE_H

#include "turnphase/base.h"

/** The line that names the error, such as "KeyError: 'arguments'"; empty where the text is no stack trace.
 *  @param errors  standard error; the result is a part of it. */
tp_text tp__stack_trace_error(tp_text errors);

#endif
