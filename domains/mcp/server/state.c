/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domains/mcp/server/server.h"
#include "support/sha256.h"

enum { BLOCK = 64, DIGEST = 32, HEX = 2 * DIGEST, NONCE = 32 };

static void decode_hex(const char *hex, unsigned char *bytes) {
  for (size_t i = 0; i < DIGEST; i++) {
    const char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
    bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
  }
}

static void hash_keyed(const unsigned char *key, unsigned char pad, const void *bytes, size_t size, char hex[HEX + 1]) {
  unsigned char block[BLOCK];
  tp__sha256 hash;
  memset(block, pad, sizeof block);
  for (int i = 0; i < DIGEST; i++) block[i] ^= key[i];
  tp__sha256_init(&hash);
  tp__sha256_add(&hash, block, sizeof block);
  tp__sha256_add(&hash, bytes, size);
  tp__sha256_finish(&hash, hex);
}

/* HMAC by RFC 2104. */
static void hmac(const unsigned char *key, const void *bytes, size_t size, char hex[HEX + 1]) {
  unsigned char inner[DIGEST];
  hash_keyed(key, 0x36, bytes, size, hex);
  decode_hex(hex, inner);
  hash_keyed(key, 0x5c, inner, sizeof inner, hex);
}

/* Compares in a time that depends on the size only. */
static bool is_equal(const char *a, const char *b, size_t size) {
  unsigned differs = 0;
  for (size_t i = 0; i < size; i++) differs |= (unsigned)(a[i] ^ b[i]);
  return differs == 0;
}

static void sign(const unsigned char *secret, const char *head, const char *bound, char hex[HEX + 1]) {
  char text[512];
  int size = snprintf(text, sizeof text, "%s|%s", head, bound);
  assert(size > 0 && (size_t)size < sizeof text);
  hmac(secret, text, (size_t)size, hex);
}

/* Writes NONCE.EXPIRES.ABOUT.MAC. */
void tp__mcp_state_write(const unsigned char secret[32], const tp__mcp_request_state *state, const char *bound,
                         char ret_text[TP__MCP_STATE_BYTES]) {
  char hex[HEX + 1], head[120];
  assert(strlen(state->nonce) == NONCE && strlen(state->about) < sizeof state->about);
  snprintf(head, sizeof head, "%s.%lld.%s", state->nonce, (long long)state->expires_ms, state->about);
  sign(secret, head, bound, hex);
  snprintf(ret_text, TP__MCP_STATE_BYTES, "%s.%s", head, hex);
}

bool tp__mcp_state_read(const unsigned char secret[32], tp_text text, const char *bound,
                        tp__mcp_request_state *ret_state) {
  char copy[TP__MCP_STATE_BYTES], hex[HEX + 1], *end;
  if (text.size < NONCE + 3 + 1 + HEX || text.size >= sizeof copy || memchr(text.data, 0, text.size)) return false;
  memcpy(copy, text.data, text.size);
  copy[text.size] = 0;
  char *mac = copy + text.size - HEX;
  if (mac[-1] != '.' || copy[NONCE] != '.') return false;
  mac[-1] = 0;
  sign(secret, copy, bound, hex);
  if (!is_equal(mac, hex, HEX)) return false;
  memcpy(ret_state->nonce, copy, NONCE);
  ret_state->nonce[NONCE] = 0;
  ret_state->expires_ms = strtoll(copy + NONCE + 1, &end, 10);
  size_t size = *end == '.' ? strlen(end + 1) : sizeof ret_state->about;
  if (size >= sizeof ret_state->about) return false; /* a state of another version */
  memcpy(ret_state->about, end + 1, size + 1);
  return true;
}
