/* SPDX-License-Identifier: Apache-2.0
 *
 * redact: the one exit of texts for records, audit rows, log records, safe events and memories. The host's callback
 * gets each text before the size of its place cuts it, so that no part of a secret is left at a cut. A text that must
 * be cut before is cut between words, and loses its last TP__REDACT_TAIL bytes afterwards. Owns nothing and has no
 * lock. Never called with a lock held. */
#ifndef TP__REDACT_H
#define TP__REDACT_H

#include "runtime/base/base.h"
#include "turnphase/value.h"

enum {
  TP__REDACT_BYTES = 4096, /* of a text that the callback gets; each place keeps at most 512 */
  TP__REDACT_TAIL = 1024,  /* of a text that was cut: as long as a part of a secret may be that its cut has left */
  TP__REDACT_SIZE = 8192   /* of the buffer for what the callback leaves: names of patterns make a text longer */
};

/** The callback of the host; zero: texts leave as they are. */
typedef struct tp__redactor {
  tp_redact_fn redact;
  void *ctx;
} tp__redactor;

/** @param buffer  size bytes for what the callback leaves.
 *  @return without a callback the text; else a text in buffer, or "[redacted]" where the callback failed, left no
 *          UTF-8, or got nothing of a text whose first word is longer than TP__REDACT_BYTES. */
tp_text tp__redact(const tp__redactor *by, tp_redact_place place, tp_text text, char *buffer, size_t size);

/** How much of a text is put into a message that is redacted later: with a callback more than TP__REDACT_BYTES, so that
 *  the message counts as one that was cut, else what its place keeps.   @param max  what its place keeps. */
size_t tp__redact_before(const tp__redactor *by, tp_text text, size_t max);

#endif
