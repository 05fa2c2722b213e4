/* SPDX-License-Identifier: Apache-2.0
 *
 * parts: everything in a user's message or a tool's result except its text, as a value (turnphase/part.h). Owns
 * nothing, has no lock; any thread. */
#ifndef TP__PARTS_H
#define TP__PARTS_H

#include "runtime/base/base.h"
#include "turnphase/model.h"

/** @param where  the member that has the parts, for the fault: "tp_message.parts".
 *  @return TP_OK, also when there are none; TP_ERR_MALFORMED, TP_ERR_USAGE. */
tp_status tp__parts_check(tp_text parts, const char *where, tp_fault *fault);
/** As tp__parts_check() without a fault, for a well-formed value. */
bool tp__parts_valid(tp_text parts);
/** The files of a turn as parts, in the arena. @param files  an array of texts; empty: none.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__parts_of_files(tp__arena *arena, tp_text files, tp_text *ret_parts);
/** Escapes all texts in the parts as tp__render_escaped() does, except data: URLs. The result is the same value when
 *  nothing needs escaping. */
tp_status tp__parts_escaped(tp__arena *arena, tp_text parts, tp_text *ret_parts);
/** The parts of an answer as a value, in the arena. A part that does not fit into bytes_max is replaced by a text that
 *  names it.
 *  @param parts  accepted by tp__parts_list_check() before.
 *  @param ret_left_out  set to true when one did not fit; else untouched.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__parts_of_list(tp__arena *arena, const tp_part *const *parts, size_t count, size_t bytes_max,
                            tp_text *ret_parts, bool *ret_left_out);
/** @return TP_OK; TP_ERR_USAGE, TP_ERR_UTF8, TP_ERR_VERSION; the fault names index and member. */
tp_status tp__parts_list_check(const tp_part *const *parts, size_t count, tp_fault *fault);
/** A copy of valid parts, in the arena, cut like those of tp__parts_of_list(). */
tp_status tp__parts_fit(tp__arena *arena, tp_text parts, size_t bytes_max, tp_text *ret_parts, bool *ret_left_out);
/** Writes the parts without their content: an array of the values of tp_part_write_summary(). */
void tp__parts_write_summaries(tp_writer *writer, tp_text parts);
/** One line for each part that is no text, in the form of tp_part_describe(), in brackets: for previews and
 *  transcripts. Empty when there is no such part, or no memory. */
tp_text tp__parts_described(tp__arena *arena, tp_text parts);

#endif
