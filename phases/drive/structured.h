/* SPDX-License-Identifier: Apache-2.0
 *
 * structured: the final answer of a turn with a schema (tp_turn_request.answer_schema): the checked schema, the text
 * for the model, and the value. All its data is in the drive and its arena. It has no lock, and is called by the turn's
 * owner. */
#ifndef TP__STRUCTURED_H
#define TP__STRUCTURED_H

#include "phases/drive/drive.h"

/** Called before the turn is made: reads and checks the schema. @return TP_OK; TP_ERR_MALFORMED, TP_ERR_BAD_SCHEMA with
 *  the place of the error; TP_ERR_NO_MEMORY. */
tp_status tp__structured_take(tp__drive *drive, const char *schema_json, tp_fault *fault);
/** The system text of a request, with a description of the answer that is wanted. @return without data: no memory. */
tp_text tp__structured_system(tp__drive *drive);
/** Reads the stored answer of the turn. @return TP_OK, also when the turn has no schema; TP_ERR_BAD_ANSWER when the
 *  answer does not fit; TP_ERR_NO_MEMORY. */
tp_status tp__structured_read(tp__drive *drive);

#endif
