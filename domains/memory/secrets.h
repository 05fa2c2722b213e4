/* SPDX-License-Identifier: Apache-2.0
 *
 * secrets: finds secrets by their shape: keys of known vendors, private keys, passwords after their name, numbers of
 * cards, tokens of HTTP, passwords in connection strings. Hashes, UUIDs and other numbers are no secrets. Pure
 * functions. */
#ifndef TP__MEMORY_SECRETS_H
#define TP__MEMORY_SECRETS_H

#include "turnphase/base.h"

/** Removes the secrets of a text: "[redacted:key]" takes the place of each (key, private key, password, card, token).
 *  @param ret_text   a part of ret_block if there were secrets, else the text itself.
 *  @param ret_block  freed with sqlite3_free(); NULL if there were none.
 *  @param ret_count  how many there were.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__memory_redact_secrets(tp_text text, tp_text *ret_text, char **ret_block, size_t *ret_count);

#endif
