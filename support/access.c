/* SPDX-License-Identifier: Apache-2.0 */
#include "support/access.h"

#include <string.h>
#include <strings.h>

#include "support/sha256.h"

enum { HEX = 64 };

static void hash_hex(const void *bytes, size_t size, char hex[HEX + 1]) {
  tp__sha256 hash;
  tp__sha256_init(&hash);
  tp__sha256_add(&hash, bytes, size);
  tp__sha256_finish(&hash, hex);
}

/* Compares hashes: how far two hashes agree says nothing about the keys. */
int tp__key_find(char *const *keys, tp_text text) {
  char given[HEX + 1], known[HEX + 1];
  int found = -1;
  hash_hex(text.size > 0 ? text.data : "", text.size, given);
  for (int i = 0; keys && keys[i]; i++) {
    unsigned differs = 0;
    hash_hex(keys[i], strlen(keys[i]), known);
    for (size_t at = 0; at < HEX; at++) differs |= (unsigned)(given[at] ^ known[at]);
    if (!differs) found = i;
  }
  return found;
}

bool tp__is_this_machine(const char *address) {
  return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

bool tp__is_local_host(tp_text host) {
  static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t size = strlen(names[i]);
    if (host.size >= size && strncasecmp(host.data, names[i], size) == 0 &&
        (host.size == size || host.data[size] == ':'))
      return true;
  }
  return false;
}
