/* SPDX-License-Identifier: Apache-2.0 */
#include "support/sha256.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

/* Asking the processor for these instructions takes some microseconds in a virtual machine. */
enum { ASK_BYTES = 4096 };

static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

static void expand(const unsigned char block[64], uint32_t words[64]) {
  for (int i = 0; i < 16; i++) {
    const unsigned char *at = block + 4 * i;
    words[i] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
  }
  for (int i = 16; i < 64; i++) {
    uint32_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + words[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
  }
}

static void compress(uint32_t state[8], const unsigned char block[64]) {
  uint32_t words[64], s[8];
  expand(block, words);
  memcpy(s, state, sizeof s);
  for (int i = 0; i < 64; i++) {
    uint32_t one = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) +
                   constants[i] + words[i];
    uint32_t two =
        (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof s[0]);
    s[4] += one;
    s[0] = one + two;
  }
  for (int i = 0; i < 8; i++) state[i] += s[i];
}

void tp__sha256_init(tp__sha256 *hash) {
  *hash = (tp__sha256){0};
  memcpy(hash->state, first, sizeof first);
}

static void compress_all(uint32_t state[8], const unsigned char *blocks, size_t count) {
  for (; count > 0; count--, blocks += 64) compress(state, blocks);
}

/* Uses the processor's instructions for SHA-256. An interpreter of 99 MB that runs a hook is hashed in 60 ms instead of
 * 500. */
#if defined(__x86_64__)
__attribute__((target("sha,sse4.1"))) static void compress_fast(uint32_t state[8], const unsigned char *blocks,
                                                                size_t count) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
  __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
  __m128i one = _mm_alignr_epi8(low, high, 8), other = _mm_blend_epi16(high, low, 0xf0);
  for (; count > 0; count--, blocks += 64) {
    __m128i words[4], one_before = one, other_before = other;
    for (int i = 0; i < 4; i++) words[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(blocks + 16 * i)), swap);
    for (int i = 0; i < 16; i++) {
      __m128i *w = &words[i % 4], next = words[(i + 1) % 4], third = words[(i + 2) % 4], last = words[(i + 3) % 4];
      __m128i sum = _mm_add_epi32(*w, _mm_loadu_si128((const __m128i *)(constants + 4 * i)));
      other = _mm_sha256rnds2_epu32(other, one, sum);
      one = _mm_sha256rnds2_epu32(one, other, _mm_shuffle_epi32(sum, 0x0e));
      *w = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(*w, next), _mm_alignr_epi8(last, third, 4)), last);
    }
    one = _mm_add_epi32(one, one_before);
    other = _mm_add_epi32(other, other_before);
  }
  low = _mm_shuffle_epi32(one, 0x1b);
  high = _mm_shuffle_epi32(other, 0xb1);
  _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(low, high, 0xf0));
  _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(high, low, 8));
}

static bool has_instructions(void) {
  unsigned a, b = 0, c = 0, d, e;
  bool has_sse = __get_cpuid(1, &a, &e, &c, &d) && (c & bit_SSE4_1);
  return has_sse && __get_cpuid_count(7, 0, &a, &b, &e, &d) && (b & bit_SHA);
}
#else
#define compress_fast compress_all
#define has_instructions() false
#endif

void tp__sha256_add(tp__sha256 *hash, const void *bytes, size_t size) {
  const unsigned char *at = bytes;
  while (size > 0) {
    size_t used = hash->size % 64, piece = size < 64 - used ? size : 64 - used;
    if (used == 0 && size >= 64) {
      piece = size - size % 64;
      if (piece >= ASK_BYTES && hash->is_fast == 0) hash->is_fast = has_instructions() ? 1 : -1;
      if (hash->is_fast > 0) compress_fast(hash->state, at, piece / 64);
      else compress_all(hash->state, at, piece / 64);
    } else {
      memcpy(hash->block + used, at, piece);
      if (used + piece == 64) compress(hash->state, hash->block);
    }
    hash->size += piece;
    at += piece;
    size -= piece;
  }
}

void tp__sha256_finish(tp__sha256 *hash, char ret_text[65]) {
  static const char digits[] = "0123456789abcdef";
  static const unsigned char padding[64] = {0x80};
  uint64_t bits = hash->size * 8;
  tp__sha256_add(hash, padding, 1 + (119 - hash->size % 64) % 64); /* up to 56 of a block */
  unsigned char size[8];
  for (int i = 0; i < 8; i++) size[i] = (unsigned char)(bits >> (56 - 8 * i));
  tp__sha256_add(hash, size, sizeof size);
  for (int i = 0; i < 64; i++) ret_text[i] = digits[hash->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
  ret_text[64] = '\0';
}
