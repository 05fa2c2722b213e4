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
/** One line for each part that is no text, as tp_part_describe() writes it, in brackets: for previews and transcripts.
 *  Empty for no such part, and without memory. */
tp_text tp__parts_described(tp__arena *arena, tp_text parts);

#endif
