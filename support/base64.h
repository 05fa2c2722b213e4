/* SPDX-License-Identifier: Apache-2.0
 *
 * base64: RFC 4648. Reading accepts both alphabets, with or without padding, in one line or several. Writing uses the
 * alphabet with + and /, with padding. */
#ifndef TP__SUPPORT_BASE64_H
#define TP__SUPPORT_BASE64_H

#include "support/bytes.h"

/** The most bytes into which encoded_size characters can be decoded. */
size_t tp__base64_size_max(size_t encoded_size);
/** @param bytes  has tp__base64_size_max(text.size) bytes.
 *  @return false for a character outside of both alphabets, for padding that is not at the end or has the wrong length,
 *          and when a single character is left over. */
bool tp__base64_decode(tp_text text, char *bytes, size_t *ret_size);
/** Adds the base64 form of the bytes of data. */
void tp__bytes_put_base64(tp__bytes *bytes, tp_text data);

#endif
