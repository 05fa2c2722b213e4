/* SPDX-License-Identifier: Apache-2.0
 *
 * The keyed hash of content that a record must not hold: HMAC-SHA-256. The key is in a file next to the database; the
 * first process that needs it makes it at random. So an attacker who has only the database cannot test guesses against
 * its hashes. */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>

#include "stores/sqlite/sqlite.h"

tp_status tp__sqlite_hash_locked(tp__sqlite_store *s, tp_text content, unsigned char ret_hash[TP__HASH_BYTES],
                                 tp_fault *fault) {
  TP__LOCKED(&s->mutex);
  char path[4160];
  if (!s->has_key) {
    int size = snprintf(path, sizeof path, "%s-key", s->path);
    int error = (size_t)size < sizeof path ? tp__key_file_load(path, s->key) : ENAMETOOLONG;
    if (error) return tp__key_file_refuse(fault, s->path, path, "the key of its hashes", error);
    s->has_key = true;
  }
  static const unsigned char none[1];
  const unsigned char *bytes = content.size ? (const unsigned char *)content.data : none;
  if (HMAC(EVP_sha256(), s->key, TP__KEY_BYTES, bytes, content.size, ret_hash, NULL)) return TP_OK;
  return tp__refuse(fault, TP_ERR_NO_MEMORY, s->path, "%s: no memory for a hash", s->path);
}
