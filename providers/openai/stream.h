/* SPDX-License-Identifier: Apache-2.0
 *
 * stream: from the bytes of an endpoint's answer, in whatever pieces, to a response. It knows no network. What the
 * bytes are, events or one JSON text, is read from them; nothing depends on a media type.
 *
 * An event is, in this order: the mark of the end ([DONE]); what is no JSON and no part of an answer, left out; JSON,
 * repaired where servers write what JSON forbids (lenient.h); an error, in any shape; an event or a whole answer of
 * the form; or none of these, left out. JSON that cannot be repaired fails the answer, since text may be lost. A whole
 * answer in JSON on its own has no deltas. An answer in which nothing was read fails with the first bytes of what
 * came. */
#ifndef TP__OPENAI_STREAM_H
#define TP__OPENAI_STREAM_H

#include "providers/openai/form.h"
#include "providers/openai/sse.h"

/** What is read and how; zero-filled but for the fields up to quirks. */
typedef struct tp__openai_stream {
  const tp__openai_form *form;
  size_t bytes_max;                                              /* of the answer, and of one event */
  tp_status (*on_text)(void *ctx, tp_text piece, bool thinking); /* NULL: none is wanted */
  void *ctx;
  const tp__secrets *secrets;
  uint64_t quirks; /* TP_OPENAI_QUIRK_* */
  tp__openai_answer answer;
  tp__openai_sse sse;
  tp__bytes repaired;
  tp_writer *writer;
  bool may_be_error; /* the event that is read has the word "error" */
  uint64_t events;   /* that have come */
  uint64_t taken;    /* those in which something of the form was read */
  uint64_t other;    /* those of kinds that the form does not have */
} tp__openai_stream;

/** @return TP_OK or TP_ERR_NO_MEMORY; fini in either case. */
tp_status tp__openai_stream_init(tp__openai_stream *stream);
void tp__openai_stream_fini(tp__openai_stream *stream);
/** @return false when the answer has failed (answer.failure) or is done: nothing more is read. */
bool tp__openai_stream_feed(tp__openai_stream *stream, const char *bytes, size_t size);
/** The endpoint has sent its last byte. @return true with answer.done, or false with answer.failure. */
bool tp__openai_stream_end(tp__openai_stream *stream);

#endif
