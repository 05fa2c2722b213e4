/* SPDX-License-Identifier: Apache-2.0
 *
 * secrets: what is a secret by its shape: keys of known vendors, private keys, passwords after their name, numbers of
 * cards, tokens of HTTP, passwords in connection strings. Hashes, UUIDs and other numbers are none. Pure functions. */
#ifndef TP__MEMORY_SECRETS_H
#define TP__MEMORY_SECRETS_H

#include "turnphase/base.h"

/** A text without its secrets: "[redacted:key]" in place of each (key, private key, password, card, token).
 *  @param ret_text   of ret_block where there were some, else the text itself.
 *  @param ret_block  sqlite3_free() it; NULL where there were none.
 *  @param ret_count  how many.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__memory_redact_secrets(tp_text text, tp_text *ret_text, char **ret_block, size_t *ret_count);

#endif
