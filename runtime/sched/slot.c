/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/slot.h"

#include "runtime/base/bug.h"
#include "runtime/sched/attempt.h"
#include "runtime/sched/sched.h"
#ifdef TP_SIM
#include "runtime/os/sim.h"
#endif

enum { STATE_BITS = 3, CHUNK_SLOTS = 1024, CHUNKS_MAX = 1024 };
enum slot_state { FREE = 0, OPEN = 1, CLAIMED = 2, ABANDONED = 3, LATE = 4 };

typedef struct slot {
  tp__a64 word;                /* generation << STATE_BITS | state; acq_rel: publishes attempt and answer */
  struct tp__attempt *attempt; /* written before OPEN is published; read by the thread that moved the word */
  const tp__sched *sched;      /* likewise */
  tp__aptr class;              /* the class of the attempt; released by its opener, acquired by tp__slot_of_another() */
  uint32_t next_free;          /* under the lock: index + 1 */
} slot;

/* The slab: chunks are added, never removed. The pointer of a chunk is published before any token of the chunk
 * exists. */
static tp__aptr chunks[CHUNKS_MAX];
static tp__mutex lock;
static tp__cond closed;
static uint32_t chunk_count;  /* under lock */
static uint32_t free_head;    /* under lock: index + 1, 0 = none */
static uint32_t late_waiters; /* under lock */

#ifdef TP_SIM
/* Each simulated run begins with an empty slab. Otherwise the result of a seed would depend on earlier runs. */
static void clear_slab(void) {
  memset(chunks, 0, sizeof chunks);
  chunk_count = free_head = late_waiters = 0;
}

uint32_t tp__slots_in_use(void) {
  uint32_t count = chunk_count * CHUNK_SLOTS;
  for (uint32_t next = free_head; next; count--) {
    slot *chunk = tp__aptr_load_relaxed(&chunks[(next - 1) / CHUNK_SLOTS]);
    next = chunk[(next - 1) % CHUNK_SLOTS].next_free;
  }
  return count;
}
#endif

/* The child gets a slab that is not in the middle of a change, and no thread of the child waits. */
static void before_fork(void) { tp__mutex_lock(&lock); }
static void in_parent(void) { tp__mutex_unlock(&lock); }
static void in_child(void) {
  tp_status status = tp__cond_init(&closed); /* threads of the parent may have waited on the old one */
  assert(status == TP_OK);
  (void)status;
  late_waiters = 0;
  tp__mutex_unlock(&lock);
}

/* The lock exists as long as the process, so it is made when the library is loaded. */
__attribute__((constructor)) static void slots_init(void) {
  tp_status status = tp__mutex_init(&lock, TP__RANK_slots);
  if (status == TP_OK) status = tp__cond_init(&closed);
  if (status == TP_OK && !tp__on_fork(before_fork, in_parent, in_child)) status = TP_ERR_NO_MEMORY;
  assert(status == TP_OK);
  (void)status;
#ifdef TP_SIM
  tp__sim_on_clear(clear_slab);
#endif
}

static uint64_t word_of(uint64_t generation, enum slot_state state) { return generation << STATE_BITS | state; }
static uint32_t slot_index(tp_token token) { return (uint32_t)token.bits; }
static uint64_t generation_of(tp_token token) { return token.bits >> 32; }
static tp_token token_of(uint32_t index, uint64_t generation) {
  return (tp_token){(generation & 0xffffffffu) << 32 | index};
}

static slot *slot_at(uint32_t index) {
  if (index / CHUNK_SLOTS >= CHUNKS_MAX) return NULL;
  slot *chunk = tp__aptr_load_acquire(&chunks[index / CHUNK_SLOTS]); /* pairs with grow_locked */
  return chunk ? &chunk[index % CHUNK_SLOTS] : NULL;
}

#ifdef TP_CHECKS
static uint32_t slot_state_of(uint64_t word) { return (uint32_t)(word & ((1 << STATE_BITS) - 1)); }

/* Checks a slot that is taken out of the free list, or was just put into it. */
static void free_slot_check_locked(const slot *s, uint64_t word) {
  TP__LOCKED(&lock);
  /* A free slot has no attempt, and a generation that a token may have. */
  assert(slot_state_of(word) == FREE && !s->attempt && !s->sched && word >> STATE_BITS != 0);
  /* The free list holds only slots of existing chunks. */
  assert(s->next_free <= chunk_count * CHUNK_SLOTS && free_head <= chunk_count * CHUNK_SLOTS);
}

/* Checks the slot of a token that is about to end. */
static void closing_slot_check_locked(const slot *s, tp_token token, uint64_t word) {
  TP__LOCKED(&lock);
  /* A token ends once: its slot still has its generation, and is not free. */
  assert(word >> STATE_BITS == generation_of(token) && slot_state_of(word) != FREE && slot_state_of(word) <= LATE);
  /* Until then the slot has an attempt and its scheduler. */
  assert(s->attempt && s->sched);
}
#endif

/* Moves the token's slot from one state to another. Only the thread that succeeds may read the slot. */
static slot *move(tp_token token, enum slot_state from, enum slot_state to) {
  slot *s = token.bits ? slot_at(slot_index(token)) : NULL;
  if (!s) return NULL;
  uint64_t expected = word_of(generation_of(token), from);
  return tp__a64_cas_acq_rel(&s->word, &expected, word_of(generation_of(token), to)) ? s : NULL;
}

static bool grow_locked(void) {
  TP__LOCKED(&lock);
  assert(free_head == 0); /* the slab grows when no slot is free */
  if (chunk_count == CHUNKS_MAX) return false;
  slot *chunk = tp__os_alloc_forever(CHUNK_SLOTS * sizeof(slot));
  if (!chunk) return false;
  for (uint32_t i = CHUNK_SLOTS; i-- > 0;) {
    memset(&chunk[i], 0, sizeof(slot));
    atomic_init(&chunk[i].word.v, word_of(1, FREE)); /* generation 0 is never used: token 0 is never valid */
    chunk[i].next_free = free_head;
    free_head = chunk_count * CHUNK_SLOTS + i + 1;
  }
  tp__aptr_store_release(&chunks[chunk_count++], chunk);
  return true;
}

tp_status tp__slot_open(struct tp__attempt *attempt, const tp__sched *sched, tp_token *ret_token) {
  tp__mutex_lock(&lock);
  bool has_free = free_head || grow_locked();
  if (has_free) {
    uint32_t index = free_head - 1;
    slot *s = slot_at(index);
    uint64_t generation = tp__a64_load_relaxed(&s->word) >> STATE_BITS; /* a free slot's word is under the lock */
    TP__CHECK(free_slot_check_locked(s, tp__a64_load_relaxed(&s->word)));
    free_head = s->next_free;
    s->sched = sched;
    s->attempt = attempt;
    *ret_token = token_of(index, generation);
    tp__aptr_store_release(&s->class, (void *)(uintptr_t)attempt->class);
    tp__a64_store_release(&s->word, word_of(generation, OPEN)); /* pairs with move() and find_slot_locked() */
  }
  tp__mutex_unlock(&lock);
  return has_free ? TP_OK : TP_ERR_NO_MEMORY;
}

struct tp__attempt *tp__slot_claim(tp_token token) {
  slot *s = move(token, OPEN, CLAIMED);
  return s ? s->attempt : NULL;
}

bool tp__slot_abandon(tp_token token) { return move(token, OPEN, ABANDONED) != NULL; }
struct tp__attempt *tp__slot_late(tp_token token) {
  tp__mutex_lock(&lock);
  slot *s = move(token, ABANDONED, LATE);
  struct tp__attempt *attempt = s ? s->attempt : NULL;
  tp__mutex_unlock(&lock);
  return attempt;
}

/* No slot is closed while the lock is held, so the attempt of an open slot stays alive. */
struct tp__attempt *tp__slot_hold(tp_token token) {
  slot *s = token.bits ? slot_at(slot_index(token)) : NULL;
  if (!s) return NULL;
  struct tp__attempt *attempt = NULL;
  tp__mutex_lock(&lock);
  if (tp__a64_load_acquire(&s->word) == word_of(generation_of(token), OPEN)) {
    attempt = s->attempt;
    tp__a32_add_relaxed(&attempt->refs, 1);
    tp__a32_add_acq_rel(&attempt->sched->completers, 1);
  }
  tp__mutex_unlock(&lock);
  return attempt;
}

bool tp__slot_is_open(tp_token token) {
  const slot *s = token.bits ? slot_at(slot_index(token)) : NULL;
  return s && tp__a64_load_acquire(&s->word) == word_of(generation_of(token), OPEN);
}

bool tp__slot_is_unanswered(tp_token token) {
  const slot *s = token.bits ? slot_at(slot_index(token)) : NULL;
  if (!s) return false;
  uint64_t word = tp__a64_load_acquire(&s->word);
  return word == word_of(generation_of(token), OPEN) || word == word_of(generation_of(token), ABANDONED);
}

/* The class belongs to the token if the slot had the token's generation both before and after the read. A class of a
 * later opening means that the token was closed before. */
const struct tp__attempt_class *tp__slot_of_another(tp_token token, const struct tp__attempt_class *class) {
  if (!tp__slot_is_open(token)) return NULL;
  const struct tp__attempt_class *found = tp__aptr_load_acquire(&slot_at(slot_index(token))->class);
  return found != class && tp__slot_is_open(token) ? found : NULL;
}

void tp__slot_close(tp_token token) {
  slot *s = slot_at(slot_index(token));
  uint64_t generation = (generation_of(token) + 1) & 0xffffffffu;
  if (generation == 0) generation = 1;
  if (TP__BUG(TP__BUG_RECYCLED_SLOT)) generation = generation_of(token);
  tp__mutex_lock(&lock);
  TP__CHECK(closing_slot_check_locked(s, token, tp__a64_load_relaxed(&s->word)));
  s->attempt = NULL;
  s->sched = NULL;
  tp__a64_store_release(&s->word, word_of(generation, FREE));
  s->next_free = free_head;
  free_head = slot_index(token) + 1;
  TP__CHECK(free_slot_check_locked(s, word_of(generation, FREE)));
  if (late_waiters) tp__cond_broadcast(&closed);
  tp__mutex_unlock(&lock);
}

/* One pass over the slab. Under the lock an ABANDONED slot stays ABANDONED, and its attempt stays alive. */
static slot *find_slot_locked(const tp__sched *sched, enum slot_state state, uint32_t *ret_index) {
  TP__LOCKED(&lock);
  for (uint32_t index = 0; index < chunk_count * CHUNK_SLOTS; index++) {
    slot *s = slot_at(index);
    if (s->sched != sched || (tp__a64_load_acquire(&s->word) & ((1 << STATE_BITS) - 1)) != state) continue;
    if (state == ABANDONED && !(tp__a32_load_acquire(&s->attempt->flags) & TP__ATTEMPT_DEFERRED)) continue;
    *ret_index = index;
    return s;
  }
  return NULL;
}

/* Under the lock the attempt of an OPEN or ABANDONED slot stays alive. */
void tp__slots_each_deferred(const tp__sched *sched, void (*each)(void *ctx, const struct tp__attempt *attempt),
                             void *ctx) {
  tp__mutex_lock(&lock);
  for (uint32_t index = 0; index < chunk_count * CHUNK_SLOTS; index++) {
    slot *s = slot_at(index);
    uint64_t state = tp__a64_load_acquire(&s->word) & ((1 << STATE_BITS) - 1); /* pairs with tp__slot_open() */
    if ((state != OPEN && state != ABANDONED) || s->sched != sched) continue;
    if (tp__a32_load_acquire(&s->attempt->flags) & TP__ATTEMPT_DEFERRED) each(ctx, s->attempt);
  }
  tp__mutex_unlock(&lock);
}

struct tp__attempt *tp__slot_late_any(const tp__sched *sched, tp_token *ret_token) {
  struct tp__attempt *attempt = NULL;
  uint32_t index = 0;
  tp__mutex_lock(&lock);
  late_waiters++;
  while (find_slot_locked(sched, LATE, &index)) tp__cond_wait(&closed, &lock);
  late_waiters--;
  slot *s = find_slot_locked(sched, ABANDONED, &index);
  if (s) {
    *ret_token = token_of(index, tp__a64_load_acquire(&s->word) >> STATE_BITS);
    attempt = s->attempt;
    s = move(*ret_token, ABANDONED, LATE);
    assert(s);
  }
  tp__mutex_unlock(&lock);
  return attempt;
}
