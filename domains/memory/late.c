/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/late.h"

#include <sqlite3.h>
#include <string.h>

#include "support/text.h"

tp__memory_late *tp__memory_late_new(void) {
  tp__memory_late *late = sqlite3_malloc64(sizeof *late);
  if (!late) return NULL;
  memset(late, 0, sizeof *late);
  tp__lock_init(&late->mutex, TP__LOCK_memory_late);
  return late;
}

void tp__memory_late_free(tp__memory_late *late) {
  if (!late) return;
  for (size_t i = 0; i < TP__MEMORY_LATE_SESSIONS_MAX; i++) sqlite3_free(late->slots[i].key);
  tp__lock_fini(&late->mutex);
  sqlite3_free(late);
}

/* Makes a key of the texts, each with its size before it, so that different texts have different keys. NULL without
 * memory. */
static char *key_of(const tp__memory_scope *scope, tp_text session, size_t *ret_size) {
  const tp_text texts[] = {scope->tenant, scope->kind, scope->name, session};
  size_t size = 0, count = sizeof texts / sizeof texts[0];
  for (size_t i = 0; i < count; i++) size += sizeof texts[i].size + texts[i].size;
  char *key = sqlite3_malloc64(size), *at = key;
  if (!key) return NULL;
  for (size_t i = 0; i < count; i++) {
    memcpy(at, &texts[i].size, sizeof texts[i].size);
    at += sizeof texts[i].size;
    if (texts[i].size) memcpy(at, texts[i].data, texts[i].size);
    at += texts[i].size;
  }
  *ret_size = size;
  return key;
}

/* @return the slot of the key; TP__MEMORY_LATE_SESSIONS_MAX: none. */
static size_t find_late_locked(const tp__memory_late *late, const char *key, size_t size) {
  TP__LOCKED(&late->mutex);
  size_t i = 0;
  for (; i < TP__MEMORY_LATE_SESSIONS_MAX; i++)
    if (late->slots[i].key && tp__same((tp_text){late->slots[i].key, late->slots[i].key_size}, (tp_text){key, size}))
      break;
  return i;
}

static size_t free_or_oldest_locked(const tp__memory_late *late) {
  TP__LOCKED(&late->mutex);
  size_t oldest = 0;
  for (size_t i = 0; i < TP__MEMORY_LATE_SESSIONS_MAX; i++) {
    if (!late->slots[i].key) return i;
    if (late->slots[i].find.asked_ms < late->slots[oldest].find.asked_ms) oldest = i;
  }
  return oldest;
}

#ifdef TP_CHECKS
static void late_check_locked(const tp__memory_late *late) {
  TP__LOCKED(&late->mutex);
  for (size_t i = 0; i < TP__MEMORY_LATE_SESSIONS_MAX; i++) {
    if (!late->slots[i].key) continue;
    /* A key begins with the size of its first text. */
    assert(late->slots[i].key_size >= sizeof(size_t));
    assert(late->slots[i].find.count <= TP__MEMORY_LATE_ENTRIES_MAX);
    assert(late->slots[i].find.question_size <= TP__MEMORY_LATE_QUESTION_MAX);
  }
}
#endif

bool tp__memory_late_put(tp__memory_late *late, const tp__memory_scope *scope, tp_text session,
                         const tp__memory_late_find *find) {
  assert(find->count <= TP__MEMORY_LATE_ENTRIES_MAX && find->question_size <= TP__MEMORY_LATE_QUESTION_MAX);
  size_t size = 0;
  char *key = key_of(scope, session, &size);
  if (!key) return false;
  tp__lock_acquire(&late->mutex);
  size_t at = find_late_locked(late, key, size);
  if (at == TP__MEMORY_LATE_SESSIONS_MAX) at = free_or_oldest_locked(late);
  char *old = late->slots[at].key;
  late->slots[at].key = key;
  late->slots[at].key_size = size;
  late->slots[at].find = *find;
  TP__CHECK(late_check_locked(late));
  tp__lock_release(&late->mutex);
  sqlite3_free(old);
  return true;
}

bool tp__memory_late_take(tp__memory_late *late, const tp__memory_scope *scope, tp_text session, int64_t now_ms,
                          tp__memory_late_find *ret_find) {
  size_t size = 0;
  char *key = key_of(scope, session, &size), *old = NULL;
  if (!key) return false;
  tp__lock_acquire(&late->mutex);
  size_t at = find_late_locked(late, key, size);
  if (at < TP__MEMORY_LATE_SESSIONS_MAX) {
    old = late->slots[at].key;
    late->slots[at].key = NULL;
    *ret_find = late->slots[at].find;
  }
  TP__CHECK(late_check_locked(late));
  tp__lock_release(&late->mutex);
  sqlite3_free(key);
  sqlite3_free(old);
  return old && now_ms - ret_find->asked_ms <= TP__MEMORY_LATE_AGE_MS_MAX;
}
