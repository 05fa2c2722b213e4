/* SPDX-License-Identifier: Apache-2.0
 *
 * redact: the one exit of texts for records, audit rows, log records, safe events and memories. The host's callback
 * gets each text before the text is cut to the size of its place, so that no part of a secret is left at a cut. A text
 * that must be cut earlier is cut between words, and loses its last TP__REDACT_TAIL bytes afterwards. The module owns
 * nothing and has no lock. It is never called with a lock held. */
#ifndef TP__REDACT_H
#define TP__REDACT_H

#include "runtime/base/base.h"
#include "turnphase/value.h"

enum {
  TP__REDACT_BYTES = 4096, /* the part of a text that the callback gets; each place keeps at most 512 */
  /* What is removed from the end of a text that was cut: at least as long as the part of a secret that the cut may have
   * left there. */
  TP__REDACT_TAIL = 1024,
  TP__REDACT_SIZE = 8192 /* size of the buffer for the callback's result: names of patterns make a text longer */
};

/** The host's callback; zero: texts are not changed. */
typedef struct tp__redactor {
  tp_redact_fn redact;
  void *ctx;
} tp__redactor;

/** @param buffer  `size` bytes for the result of the callback.
 *  @return without a callback, the text; else a text in buffer. It is "[redacted]" when the callback failed, when its
 *          result is not UTF-8, or when the first word of the text is longer than TP__REDACT_BYTES, so that the
 *          callback got nothing. */
tp_text tp__redact(const tp__redactor *by, tp_redact_place place, tp_text text, char *buffer, size_t size);

/** How many bytes of a text to put into a message that is redacted later. With a callback, this is more than
 *  TP__REDACT_BYTES, so that the message counts as cut; without a callback, it is as much as its place keeps. @param
 *  max what the place keeps. */
size_t tp__redact_before(const tp__redactor *by, tp_text text, size_t max);

#endif
