/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/tasks/key.h"

#include <stdio.h>
#include <string.h>

#include "support/sha256.h"
#include "support/text.h"

enum { TENANT_DIGITS = 16, KEY_DIGITS = 16 };

static bool is_key_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         (c != '\0' && strchr("._-", c) != NULL);
}

bool tp__task_key_valid(tp_text key) {
  if (key.size == 0 || key.size > TP__TASK_KEY_MAX || tp__begins(key, "tenant-")) return false;
  if (tp__is_one_of(key, ". ..")) return false; /* tp_tool_keys_add() refuses them */
  for (size_t i = 0; i < key.size; i++)
    if (!is_key_byte(key.data[i])) return false;
  return true;
}

void tp__task_key_stored(tp_text tenant, tp_text key, char ret_stored[TP__STORED_KEY_BYTES]) {
  char digits[65];
  tp__sha256 hash;
  if (tenant.size == 0) {
    snprintf(ret_stored, TP__STORED_KEY_BYTES, "%.*s", (int)key.size, key.data);
    return;
  }
  tp__sha256_init(&hash);
  tp__sha256_add(&hash, tenant.data, tenant.size);
  tp__sha256_finish(&hash, digits);
  snprintf(ret_stored, TP__STORED_KEY_BYTES, "tenant-%.*s.%.*s", TENANT_DIGITS, digits, (int)key.size, key.data);
}

void tp__task_key_make(tp_text turn, tp_text call, uint64_t number, char ret_key[TP__TASK_KEY_MAX + 1]) {
  char digits[65];
  tp__sha256 hash;
  tp__sha256_init(&hash);
  if (turn.size > 0) tp__sha256_add(&hash, turn.data, turn.size);
  if (call.size > 0) tp__sha256_add(&hash, call.data, call.size);
  tp__sha256_add(&hash, &number, sizeof number);
  tp__sha256_finish(&hash, digits);
  snprintf(ret_key, TP__TASK_KEY_MAX + 1, "task-%.*s", KEY_DIGITS, digits);
}
