/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_answer: what a tool's program printed, as the answer of the tool. A program that prints one JSON object with the
 * members of a tool's result of the Model Context Protocol answers with parts:
 *
 *   {"content": [{"type": "text", "text": "Two peaks."},
 *                {"type": "image", "data": "iVBORw0KGgo…", "mimeType": "image/png"}],
 *    "structuredContent": {"peaks": 2}, "isError": false}
 *
 * The object has `content`, an array of maps that each have a `type`, and no members but these and `_meta`. Everything
 * else is text. An answer belongs to one thread; there is no lock. */
#ifndef TP__DECLARED_TOOL_ANSWER_H
#define TP__DECLARED_TOOL_ANSWER_H

#include "support/text.h"
#include "turnphase/tool.h"

typedef struct tp__tool_answer {
  /** Points into the rest. The texts before the first other part are its text, each on lines of its own. */
  tp_tool_answer answer;
  tp__bytes text;
  tp__bytes decoded; /* of base64; never grows after the first part */
  tp_writer *writer;
  tp_part *parts;
  const tp_part **list;
  size_t count, capacity;
  bool failed; /* no memory: answer has only a text that says so */
} tp__tool_answer;

/** Reads an answer with parts. An item that cannot be a part is named in the text, with its place and what it has to
 *  be, before everything else; then the answer is an error, and all other items are in it.
 *  @param failure  how the program failed, UTF-8: it begins the text of an error. Empty: it did not fail.
 *  @return false when the output is text: then nothing was made. Else tp__tool_answer_fini() frees what was. */
bool tp__tool_answer_read(tp__tool_answer *ret_answer, tp_text output, tp_text failure);
void tp__tool_answer_fini(tp__tool_answer *answer);

#endif
