/* SPDX-License-Identifier: Apache-2.0
 *
 * base64: RFC 4648, read generously: either alphabet, with or without padding, in lines or in one. Written in the
 * alphabet with + and /, with padding. */
#ifndef TP__SUPPORT_BASE64_H
#define TP__SUPPORT_BASE64_H

#include "support/bytes.h"

/** At most so many bytes are decoded of encoded_size characters. */
size_t tp__base64_size_max(size_t encoded_size);
/** @param bytes  of tp__base64_size_max(text.size).
 *  @return false for a character that is none of base64, for padding that is not at the end or not what the rest needs,
 *          and when a single character is left over. */
bool tp__base64_decode(tp_text text, char *bytes, size_t *ret_size);
/** Adds what the bytes of data are in base64. */
void tp__bytes_put_base64(tp__bytes *bytes, tp_text data);

#endif
