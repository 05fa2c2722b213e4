/* SPDX-License-Identifier: Apache-2.0
 *
 * sha256: FIPS 180-4. */
#ifndef TP__SUPPORT_SHA256_H
#define TP__SUPPORT_SHA256_H

#include "turnphase/base.h"

typedef struct tp__sha256 {
  uint32_t state[8];
  uint64_t size;
  unsigned char block[64];
  int is_fast; /* whether the processor has instructions for SHA-256; 0: not asked yet, -1: no */
} tp__sha256;

void tp__sha256_init(tp__sha256 *hash);
void tp__sha256_add(tp__sha256 *hash, const void *bytes, size_t size);
/** 64 hexadecimal digits and a NUL. The hash must not be used afterwards. */
void tp__sha256_finish(tp__sha256 *hash, char ret_text[65]);

#endif
