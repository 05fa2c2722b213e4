/* SPDX-License-Identifier: Apache-2.0
 *
 * stream: makes a response of the bytes of an endpoint's answer, which come in pieces of any size. It knows no network.
 * Whether the bytes are events or one JSON text is found from the bytes; the media type is not used.
 *
 * Each event is one of these, checked in this order: the mark of the end ([DONE]); a text that is no JSON and no part
 * of an answer, which is skipped; JSON, repaired if it violates the rules of JSON (lenient.h). Such JSON is an error in
 * any shape, an event of the form, a whole answer of the form, or none of these and skipped. JSON that cannot be
 * repaired fails the answer, because text may be lost. A whole answer in JSON by itself has no deltas. A stream without
 * any part of an answer fails, and the message quotes its first bytes. */
#ifndef TP__OPENAI_STREAM_H
#define TP__OPENAI_STREAM_H

#include "providers/openai/form.h"
#include "providers/openai/sse.h"

/** The state of reading. Zero-filled except the fields up to quirks. */
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
  bool may_be_error; /* the event that is being read contains the word "error" */
  uint64_t events;   /* events that have come */
  uint64_t taken;    /* events in which something of the form was read */
  uint64_t other;    /* events of kinds that the form does not have */
} tp__openai_stream;

/** @return TP_OK or TP_ERR_NO_MEMORY; call fini in either case. */
tp_status tp__openai_stream_init(tp__openai_stream *stream);
void tp__openai_stream_fini(tp__openai_stream *stream);
/** @return false when the answer has failed (answer.failure) or is complete: no more bytes are read. */
bool tp__openai_stream_feed(tp__openai_stream *stream, const char *bytes, size_t size);
/** The endpoint has sent its last byte. @return true with answer.done, or false with answer.failure. */
bool tp__openai_stream_end(tp__openai_stream *stream);

#endif
