/* SPDX-License-Identifier: Apache-2.0
 *
 * structured: the final answer of a turn that demands a schema (tp_turn_request.answer_schema): the schema as it is
 * checked, what the model is told of it, and the value. It owns nothing beside the drive, whose arena has all of it;
 * has no lock, and is called by the turn's owner. */
#ifndef TP__STRUCTURED_H
#define TP__STRUCTURED_H

#include "phases/drive/drive.h"

/** Before the turn is made: reads and checks the schema. @return TP_OK; TP_ERR_MALFORMED, TP_ERR_BAD_SCHEMA with the
 *  place; TP_ERR_NO_MEMORY. */
tp_status tp__structured_take(tp__drive *drive, const char *schema_json, tp_fault *fault);
/** The system text of a request, with what the answer must be. @return without data: no memory. */
tp_text tp__structured_system(tp__drive *drive);
/** Reads the answer that a history has of the turn. @return TP_OK, also where the turn demands no schema;
 *  TP_ERR_BAD_ANSWER for one that does not fit; TP_ERR_NO_MEMORY. */
tp_status tp__structured_read(tp__drive *drive);

#endif
