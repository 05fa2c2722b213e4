/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/said.h"

#include <sqlite3.h>
#include <string.h>

#include "runtime/base/check.h"
#include "support/lock.h"

enum { BUCKETS = 1024, SLOTS_MIN = 16 };

typedef struct tp__memory_said_list {
  struct tp__memory_said_list *in_bucket; /* the next list in the bucket */
  struct tp__memory_said_list *older, *newer;
  uint64_t number;
  size_t seen; /* how many of its messages were hashed, from the first on */
  size_t count;
  tp__memory_said_hashes hashes;
} said_list;

struct tp__memory_said {
  size_t bytes_max; /* never changes */
  tp__lock mutex;
  /* ---- under mutex */
  said_list *buckets[BUCKETS];
  said_list *newest, *oldest;
  size_t lists, bytes;
  uint64_t hashed;
};

/* ---- a set of hashes ---- */

static void set_add(tp__memory_said_hashes *set, uint64_t hash, size_t *count) {
  size_t at = (size_t)hash & set->mask;
  while (set->slots[at] && set->slots[at] != hash) at = (at + 1) & set->mask;
  *count += set->slots[at] == 0;
  set->slots[at] = hash;
}

/* Makes space for more hashes, so that the set is at most half full. @return false without memory: the set is
 * unchanged. */
static bool set_reserve(tp__memory_said_hashes *set, size_t count, size_t more) {
  size_t slots = set->slots ? set->mask + 1 : SLOTS_MIN, added = 0;
  if (set->slots && 2 * (count + more) <= slots) return true;
  while (slots < 2 * (count + more)) slots *= 2;
  tp__memory_said_hashes bigger = {.slots = sqlite3_malloc64(slots * sizeof *set->slots), .mask = slots - 1};
  if (!bigger.slots) return false;
  memset(bigger.slots, 0, slots * sizeof *bigger.slots);
  for (size_t i = 0; set->slots && i <= set->mask; i++)
    if (set->slots[i]) set_add(&bigger, set->slots[i], &added);
  assert(added == count);
  sqlite3_free(set->slots);
  *set = bigger;
  return true;
}

typedef struct adding {
  tp__memory_said_hashes *set;
  size_t count, left; /* left: how many messages are still to be added */
} adding;

static bool add_message(void *ctx, const tp_message *message) {
  adding *a = ctx;
  const uint64_t hash = tp__memory_hash(message->text);
  if (hash) set_add(a->set, hash, &a->count); /* 0 is the hash of an empty text, which no memory has */
  return --a->left > 0;
}

/* Adds the messages from first up to the one before end. */
static bool add_messages(tp_call *call, size_t first, size_t end, tp__memory_said_hashes *set, size_t *count) {
  assert(first <= end);
  adding a = {set, *count, end - first};
  if (first == end) return true;
  if (!set_reserve(set, *count, end - first)) return false;
  (void)tp_call_messages_from(call, first, add_message, &a);
  *count = a.count;
  return true;
}

/* ---- the lists that are kept ---- */

static size_t bytes_of(const said_list *list) {
  return sizeof *list + (list->hashes.slots ? (list->hashes.mask + 1) * sizeof *list->hashes.slots : 0);
}

static void list_free(said_list *list) {
  if (!list) return;
  sqlite3_free(list->hashes.slots);
  sqlite3_free(list);
}

static said_list **place_of_locked(tp__memory_said *said, uint64_t number) {
  TP__LOCKED(&said->mutex);
  said_list **at = &said->buckets[number % BUCKETS];
  while (*at && (*at)->number != number) at = &(*at)->in_bucket;
  return at;
}

static said_list *take_out_locked(tp__memory_said *said, uint64_t number) {
  TP__LOCKED(&said->mutex);
  said_list **at = place_of_locked(said, number), *list = *at;
  if (!list) return NULL;
  *at = list->in_bucket;
  *(list->newer ? &list->newer->older : &said->newest) = list->older;
  *(list->older ? &list->older->newer : &said->oldest) = list->newer;
  list->in_bucket = list->older = list->newer = NULL;
  said->lists--;
  said->bytes -= bytes_of(list);
  return list;
}

/* Puts a list in. @return the lists that are no longer kept, linked by older. */
static said_list *put_in_locked(tp__memory_said *said, said_list *list) {
  TP__LOCKED(&said->mutex);
  said_list *gone = take_out_locked(said, list->number); /* the list that another call of the conversation has
                                                            returned */
  if (gone && gone->seen > list->seen) {                 /* that list has more messages */
    said_list *better = gone;
    gone = list;
    list = better;
  }
  said_list **bucket = &said->buckets[list->number % BUCKETS];
  list->in_bucket = *bucket;
  *bucket = list;
  list->older = said->newest;
  *(said->newest ? &said->newest->newer : &said->oldest) = list;
  said->newest = list;
  said->lists++;
  said->bytes += bytes_of(list);
  while (said->bytes > said->bytes_max) {
    said_list *oldest = take_out_locked(said, said->oldest->number);
    oldest->older = gone;
    gone = oldest;
  }
  return gone;
}

#ifdef TP_CHECKS
static void said_check_locked(const tp__memory_said *said) {
  TP__LOCKED(&said->mutex);
  assert(said->bytes <= said->bytes_max && !said->newest == !said->oldest && !said->newest == !said->lists);
  size_t seen = 0;
  for (const said_list *list = said->newest; list && seen < TP__CHECK_ITEMS_MAX; list = list->older, seen++) {
    assert(list->older ? list->older->newer == list : said->oldest == list);
    assert(list->number > 0 && list->seen >= TP__MEMORY_SAID_MIN && 2 * list->count <= list->hashes.mask + 1);
  }
}
#endif

tp__memory_said *tp__memory_said_new(size_t bytes_max) {
  tp__memory_said *said = sqlite3_malloc64(sizeof *said);
  if (!said) return NULL;
  memset(said, 0, sizeof *said);
  said->bytes_max = bytes_max;
  tp__lock_init(&said->mutex, TP__LOCK_memory_said);
  return said;
}

void tp__memory_said_free(tp__memory_said *said) {
  if (!said) return;
  while (said->newest) {
    said_list *list = said->newest;
    said->newest = list->older;
    list_free(list);
  }
  tp__lock_fini(&said->mutex);
  sqlite3_free(said);
}

/* Finds the list of the call's conversation, with no message that the call does not have; NULL when none is kept. */
static said_list *find_list(tp__memory_said *said, uint64_t number, size_t settled) {
  tp__lock_acquire(&said->mutex);
  said_list *list = *place_of_locked(said, number);
  if (list) list = list->seen <= settled ? take_out_locked(said, number) : NULL;
  tp__lock_release(&said->mutex);
  if (list || settled < TP__MEMORY_SAID_MIN) return list;
  list = sqlite3_malloc64(sizeof *list);
  if (list) *list = (said_list){.number = number};
  return list; /* without memory the list is not kept */
}

tp_status tp__memory_said_take(tp__memory_said *said, tp_call *call, tp__memory_said_view *ret_view) {
  size_t settled = 0, count = tp_call_messages(call, NULL, NULL), seen = 0, settled_count = 0, own_count = 0;
  const uint64_t number = tp_call_messages_list(call, &settled);
  *ret_view = (tp__memory_said_view){.list = number ? find_list(said, number, settled) : NULL};
  said_list *list = ret_view->list;
  if (list) {
    ret_view->settled = list->hashes;
    list->hashes = (tp__memory_said_hashes){.slots = NULL};
    seen = list->seen;
    settled_count = list->count;
  }
  bool has_memory = add_messages(call, seen, settled, &ret_view->settled, &settled_count);
  if (list) {
    list->hashes = ret_view->settled;
    list->count = settled_count;
    if (has_memory) list->seen = settled;
  }
  has_memory = has_memory && add_messages(call, settled, count, &ret_view->own, &own_count);
  ret_view->settled.more = &ret_view->own;
  tp__lock_acquire(&said->mutex);
  if (has_memory) said->hashed += count - seen;
  tp__lock_release(&said->mutex);
  return has_memory ? TP_OK : TP_ERR_NO_MEMORY;
}

void tp__memory_said_give(tp__memory_said *said, tp__memory_said_view *view) {
  said_list *gone = NULL;
  sqlite3_free(view->own.slots);
  if (!view->list) {
    sqlite3_free(view->settled.slots);
  } else if (view->list->seen < TP__MEMORY_SAID_MIN) { /* there was no memory for the hashes of its messages */
    list_free(view->list);
  } else {
    tp__lock_acquire(&said->mutex);
    gone = put_in_locked(said, view->list);
    TP__CHECK(said_check_locked(said));
    tp__lock_release(&said->mutex);
  }
  while (gone) {
    said_list *list = gone;
    gone = list->older;
    list_free(list);
  }
  *view = (tp__memory_said_view){.list = NULL};
}

tp__memory_said_counts tp__memory_said_counted(tp__memory_said *said) {
  tp__lock_acquire(&said->mutex);
  const tp__memory_said_counts counts = {said->lists, said->bytes, said->hashed};
  tp__lock_release(&said->mutex);
  return counts;
}
