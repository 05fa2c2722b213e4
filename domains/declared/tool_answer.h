/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_answer: makes the answer of a tool from the output of its program. A program answers with parts if it prints one
 * JSON object with the members of a tool's result in the Model Context Protocol:
 *
 *   {"content": [{"type": "text", "text": "Two peaks."},
 *                {"type": "image", "data": "iVBORw0KGgo…", "mimeType": "image/png"}],
 *    "structuredContent": {"peaks": 2}, "isError": false}
 *
 * The object has `content`, an array of maps that each have a `type`, and no members but these and `_meta`. Any other
 * output is text. An answer belongs to one thread; there is no lock. */
#ifndef TP__DECLARED_TOOL_ANSWER_H
#define TP__DECLARED_TOOL_ANSWER_H

#include "support/text.h"
#include "turnphase/tool.h"

typedef struct tp__tool_answer {
  /** Points into the other members. Its text consists of the texts before the first part of another kind, each on lines
   *  of its own. */
  tp_tool_answer answer;
  tp__bytes text;
  tp__bytes decoded; /* decoded base64; never grows after the first part */
  tp_writer *writer;
  tp_part *parts;
  const tp_part **list;
  size_t count, capacity;
  bool failed; /* there was no memory: the answer only has a text that says so */
} tp__tool_answer;

/** Reads an answer with parts. If an item cannot be a part, the answer is an error: its text begins with the place of
 *  the item and the expected form. All other items are still in the answer.
 *  @param failure  how the program failed, in UTF-8; the text of the error begins with it. Empty: it did not fail.
 *  @return false when the output is text: then nothing was allocated. Otherwise tp__tool_answer_fini() frees the
 *    answer. */
bool tp__tool_answer_read(tp__tool_answer *ret_answer, tp_text output, tp_text failure);
void tp__tool_answer_fini(tp__tool_answer *answer);

#endif
