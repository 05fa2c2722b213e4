/* SPDX-License-Identifier: Apache-2.0
 *
 * key_file: a random key in a file, which processes share. The first process that needs the key makes the file,
 * completely or not at all; it never changes. No state. */
#ifndef TP__SUPPORT_KEY_FILE_H
#define TP__SUPPORT_KEY_FILE_H

#include "support/fault.h"

enum { TP__KEY_FILE_BYTES = 32 };

/** Reads the key; if there is no file, makes it first.
 *  @return 0; EPERM: other users than its owner may use it; EINVAL: it is no file of 32 bytes; or another errno. */
int tp__key_file_load(const char *path, unsigned char ret_key[TP__KEY_FILE_BYTES]);
/** Fills fault (may be NULL) with an error of tp__key_file_load(), and the remedy.
 *  @param subject  of the fault.   @param what  "the key of its hashes".
 *  @return TP_ERR_STORE_FULL for ENOSPC, else TP_ERR_IO. */
tp_status tp__key_file_refuse(tp_fault *fault, const char *subject, const char *path, const char *what, int error);

#endif
