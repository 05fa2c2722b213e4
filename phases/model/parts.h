/* SPDX-License-Identifier: Apache-2.0
 *
 * parts: what stands in a user's message or a tool's result beside its text, as a value (turnphase/part.h). Owns
 * nothing, has no lock; any thread. */
#ifndef TP__PARTS_H
#define TP__PARTS_H

#include "runtime/base/base.h"
#include "turnphase/model.h"

/** @param where  whose parts they are, for the fault: "tp_message.parts".
 *  @return TP_OK, also for none; TP_ERR_MALFORMED, TP_ERR_USAGE. */
tp_status tp__parts_check(tp_text parts, const char *where, tp_fault *fault);
/** The same without words, of a well-formed value. */
bool tp__parts_valid(tp_text parts);
/** The files of a turn as parts, in the arena. @param files  an array of texts; empty: none.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__parts_of_files(tp__arena *arena, tp_text files, tp_text *ret_parts);
/** The parts with all texts in them escaped as tp__render_escaped() does, but for data: URLs; the same value when
 *  nothing is to be escaped. */
tp_status tp__parts_escaped(tp__arena *arena, tp_text parts, tp_text *ret_parts);
/** The parts of an answer as a value, in the arena. Those that do not fit into bytes_max are texts that name them.
 *  @param parts  such as tp__parts_list_check() accepts.
 *  @param ret_left_out  set to true when one did not fit; else untouched.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__parts_of_list(tp__arena *arena, const tp_part *const *parts, size_t count, size_t bytes_max,
                            tp_text *ret_parts, bool *ret_left_out);
/** @return TP_OK; TP_ERR_USAGE, TP_ERR_UTF8, TP_ERR_VERSION by index and member. */
tp_status tp__parts_list_check(const tp_part *const *parts, size_t count, tp_fault *fault);
/** A copy of parts that are valid, in the arena, cut as by tp__parts_of_list(). */
tp_status tp__parts_fit(tp__arena *arena, tp_text parts, size_t bytes_max, tp_text *ret_parts, bool *ret_left_out);
/** The parts without their content, an array of what tp_part_write_summary() writes. */
void tp__parts_write_summaries(tp_writer *writer, tp_text parts);
/** One line for each part that is no text, as tp_part_describe() writes it, in brackets: for previews and transcripts.
 *  Empty for no such part, and without memory. */
tp_text tp__parts_described(tp__arena *arena, tp_text parts);

#endif
