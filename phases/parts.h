/* SPDX-License-Identifier: Apache-2.0
 *
 * parts: what stands in a user's message behind its text: further text and files, as a value. Owns nothing, has no
 * lock; any thread. */
#ifndef TP__PARTS_H
#define TP__PARTS_H

#include "runtime/base/base.h"
#include "turnphase/model.h"

/** @param where  of which message they are, for the fault.
 *  @return TP_OK, also for none; TP_ERR_MALFORMED, TP_ERR_USAGE. */
tp_status tp__parts_check(tp_text parts, const char *where, tp_fault *fault);
/** The files of a turn as parts, in the arena. @param files  an array of texts; empty: none.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__parts_of_files(tp__arena *arena, tp_text files, tp_text *ret_parts);
/** The parts with their texts escaped as tp__render_escaped() does; the same value when nothing is to be escaped. */
tp_status tp__parts_escaped(tp__arena *arena, tp_text parts, tp_text *ret_parts);

#endif
