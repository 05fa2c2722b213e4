/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_conflicts.c: conflict keys. Calls whose tools have keys are in a list in call order, from their beginning until
 * they are done. When the arguments of a call are final, it searches the list from the first call up to itself, for a
 * call that conflicts with it or whose keys are not known yet. It waits for the first such call, and searches again
 * when that call is done or its keys are known. A call waits only for calls of lower indexes, so some call can always
 * go on. Calls without keys are not in the list.
 *
 * Calls that may go on are resumed in one loop, not nested in each other. So a chain of inline calls does not use up
 * the stack. */
#include "phases/merge/contribution.h"
#include "phases/session/session.h"
#include "phases/tools/tool_call.h"

enum { KEYS_MAX = 64, KEY_BYTES_MAX = 1024 };

typedef struct key {
  struct key *next;
  tp_text path;
  bool writes;
} key;

struct tp_tool_keys {
  tp__arena *arena;
  key *first;
  uint32_t count;
  tp_status status; /* the first refusal */
};

struct tp__tool_order {
  tp__link link;       /* in dispatch->ordered */
  tp__tool_slot *slot; /* until it is over */
  tp_tool_keys keys;
  bool is_known; /* keys is complete */
  bool is_over;
  bool given_up; /* its function may still run, so the call stays in the list when it has ended */
  bool waits;
  tp__link waiters;   /* calls that wait for this one */
  tp__link wait_link; /* in the list of waiters of another call, or in dispatch->resumable */
  tp_text waits_key;  /* the key of the call that it waits for; empty: not known yet */
  int64_t waits_since_ns, waited_longest_ns;
};

/* ---- keys ---- */

bool tp__tool_key_valid(tp_text path) {
  if (path.size == 0 || path.size > KEY_BYTES_MAX || !tp_utf8_valid(path, NULL)) return false;
  if (memchr(path.data, '\0', path.size)) return false;
  if (path.size == 1 && path.data[0] == '/') return true;
  const char *end = path.data + path.size, *name = path.data + (path.data[0] == '/');
  for (;;) {
    const char *slash = memchr(name, '/', (size_t)(end - name));
    size_t size = (size_t)((slash ? slash : end) - name);
    bool dots = (size == 1 && name[0] == '.') || (size == 2 && name[0] == '.' && name[1] == '.');
    if (!(size > 0 && !dots)) return false;
    if (!slash) return true;
    name = slash + 1;
  }
}

static tp_status add_key(tp_tool_keys *keys, tp_tool_access access, tp_text path, tp_fault *fault) {
  if (access != TP_TOOL_READ && access != TP_TOOL_WRITE)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "the access of a key is %u: it must be TP_TOOL_READ or TP_TOOL_WRITE",
                    (unsigned)access);
  if (!tp__tool_key_valid(path))
    return tp__fail(
        fault, TP_ERR_USAGE, NULL,
        "the key, of %zu bytes, must be a path of 1 to %d bytes of UTF-8 without empty names, `.`, `..` and "
        "a `/` at its end",
        path.size, KEY_BYTES_MAX);
  if (keys->count == KEYS_MAX)
    return tp__fail(fault, TP_ERR_FULL, NULL, "the call has %d keys, which is the most: name an ancestor of several",
                    KEYS_MAX);
  key *k = tp__arena_alloc(keys->arena, sizeof *k);
  if (!k || !tp__arena_text(keys->arena, path, &k->path))
    return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a key of %zu bytes", path.size);
  k->writes = access == TP_TOOL_WRITE;
  k->next = keys->first;
  keys->first = k;
  keys->count++;
  return TP_OK;
}

tp_status tp_tool_keys_add(tp_tool_keys *keys, tp_tool_access access, tp_text path, tp_fault *fault) {
  if (!keys) return tp__fail_null(fault, "keys");
  tp_status status = add_key(keys, access, path, fault);
  if (keys->status == TP_OK) keys->status = status;
  return status;
}

static bool is_at_or_above(tp_text upper, tp_text lower) {
  if (upper.size > lower.size || memcmp(upper.data, lower.data, upper.size) != 0) return false;
  return upper.size == lower.size || lower.data[upper.size] == '/' || upper.data[upper.size - 1] == '/';
}

/* @return the key of the earlier call that conflicts with a key of the later call; NULL: none. */
static const key *conflict(const tp__tool_order *earlier, const tp__tool_order *later) {
  for (const key *a = earlier->keys.first; a; a = a->next)
    for (const key *b = later->keys.first; b; b = b->next)
      if ((a->writes || b->writes) && (is_at_or_above(a->path, b->path) || is_at_or_above(b->path, a->path))) return a;
  return NULL;
}

/* ---- the wait ---- */

static void note_wait(tp__tool_order *order) {
  TP__ASSERT(order->waits);
  tp__dispatch *d = order->slot->dispatch;
  tp_tool_result *result = tp__toolcall_result(order->slot);
  tp__toolcall_look_at_clock(d);
  int64_t waited_ns = d->now_ns - order->waits_since_ns;
  order->waits = false;
  result->waited_ns += waited_ns;
  if (waited_ns <= order->waited_longest_ns) return;
  order->waited_longest_ns = waited_ns;
  result->waited_key = (tp_text){"", 0};
  if (order->waits_key.size) (void)!tp__arena_text(&d->texts, order->waits_key, &result->waited_key);
}

static void shed(tp__tool_order *order, tp_text path) {
  TP__ASSERT(!order->waits);
  static const char words[] =
      "it was not run: an earlier call of this response with a conflicting key was given up and "
      "may still run";
  tp_text text = tp__arena_printf(&order->slot->dispatch->texts, "%s: `%.*s`", words, (int)path.size, path.data);
  tp__toolcall_stop(order->slot, TP_TOOL_SHED, text.data ? text : tp_text_of(words));
}

/* @return whether the call goes on. */
static bool look_for_conflict(tp__tool_order *order) {
  TP__ASSERT(!order->waits && order->is_known);
  for (tp__link *link = order->slot->dispatch->ordered.next; link != &order->link; link = link->next) {
    tp__tool_order *earlier = TP__CONTAINER(link, tp__tool_order, link);
    const key *why = conflict(earlier, order);
    if (!why && (earlier->is_known || earlier->is_over)) continue;
    if (earlier->is_over) shed(order, why->path);
    else {
      TP__ASSERT(!order->waits && !order->is_over && earlier != order);
      tp__dispatch *d = order->slot->dispatch;
      tp__toolcall_look_at_clock(d);
      order->waits = true;
      order->waits_since_ns = d->now_ns;
      order->waits_key = why ? why->path : (tp_text){"", 0};
      tp__list_push(&earlier->waiters, &order->wait_link);
    }
    return false;
  }
  return true;
}

static void resume_call(tp__tool_order *order) {
  note_wait(order);
  if (!tp__toolcall_stopped(order->slot) && look_for_conflict(order)) tp__toolcall_go(order->slot);
}

/* The dispatch stays alive, because the call that runs this is not done. */
static void resume_all(tp__dispatch *d) {
  TP__OWNED(&d->turn->core.strand);
  if (d->resumes) return;
  d->resumes = true;
  while (!tp__list_empty(&d->resumable)) {
    tp__tool_order *order = TP__CONTAINER(d->resumable.next, tp__tool_order, wait_link);
    tp__list_remove(&order->wait_link);
    resume_call(order);
  }
  d->resumes = false;
}

static void wake(tp__tool_order *order) {
  tp__dispatch *d = order->slot->dispatch;
  while (!tp__list_empty(&order->waiters)) {
    tp__link *waiter = order->waiters.next;
    tp__list_remove(waiter);
    tp__list_push(&d->resumable, waiter);
  }
  resume_all(d);
}

/* ---- a call's way ---- */

bool tp__order_add(tp__tool_slot *slot) {
  TP__ASSERT(!slot->order && slot->tool);
  tp__dispatch *d = slot->dispatch;
  const tp_tool *tool = slot->tool->tool;
  tp__tool_order *order = tp__arena_zero(&d->scratch, sizeof *order);
  if (!order) return false;
  order->slot = slot;
  order->keys.arena = &d->scratch;
  order->is_known = !tool->keys;
  tp__list_init(&order->waiters);
  tp__list_init(&order->wait_link);
  if (tool->read_key && add_key(&order->keys, TP_TOOL_READ, tp_text_of(tool->read_key), NULL) != TP_OK) return false;
  if (tool->write_key && add_key(&order->keys, TP_TOOL_WRITE, tp_text_of(tool->write_key), NULL) != TP_OK) return false;
  tp__list_push(&d->ordered, &order->link);
  slot->order = order;
  return true;
}

static bool compute(tp__tool_order *order) {
  tp__tool_slot *slot = order->slot;
  slot->dispatch->stale = true;
  tp_status status = slot->tool->tool->keys(slot->tool->ctx, tp__toolcall_of(slot)->arguments, &order->keys);
  if (order->keys.status != TP_OK) status = order->keys.status;
  if (status == TP_OK) return true;
  tp_text text = tp__arena_printf(&slot->dispatch->texts, "the keys of the call could not be computed: %s",
                                  tp_status_text(status));
  bool is_shed = status == TP_ERR_NO_MEMORY || !text.data;
  if (is_shed) tp__toolcall_stop(slot, TP_TOOL_SHED, tp__toolcall_unanswered(TP_TOOL_SHED));
  else tp__toolcall_stop(slot, TP_TOOL_HANDLER_ERROR, text);
  return false;
}

bool tp__order_enter(tp__tool_slot *slot) {
  tp__tool_order *order = slot->order;
  if (!order->is_known) {
    if (!compute(order)) return false;
    order->is_known = true;
    wake(order);
  }
  return look_for_conflict(order);
}

bool tp__order_cancel(tp__tool_slot *slot) {
  TP__ASSERT(slot->order);
  tp__tool_order *order = slot->order;
  if (!order->waits) return false;
  tp__list_remove(&order->wait_link);
  note_wait(order);
  tp__toolcall_stop(slot, TP_TOOL_CANCELLED, tp__toolcall_unanswered(TP_TOOL_CANCELLED));
  return true;
}

/* A write key that begins with files/ names a file that the call may have changed. */
static void note_changes(const tp__tool_slot *slot) {
  static const char below[] = "files/";
  const tp_turn *turn = slot->dispatch->turn;
  tp_session *session = turn->drive || turn->task ? turn->session : NULL;
  if (!session || !tp__toolcall_result((tp__tool_slot *)(uintptr_t)slot)->started) return;
  for (const key *k = slot->order->keys.first; k; k = k->next)
    if (k->writes && k->path.size > sizeof below - 1 && memcmp(k->path.data, below, sizeof below - 1) == 0)
      tp__session_note_file(session, (tp_text){k->path.data + sizeof below - 1, k->path.size - (sizeof below - 1)});
}

void tp__order_over(tp__tool_slot *slot) {
  TP__ASSERT(slot->order && !slot->order->is_over && !slot->order->waits);
  tp__tool_order *order = slot->order;
  order->is_over = true;
  note_changes(slot);
  if (!order->given_up) tp__list_remove(&order->link);
  wake(order);
}

void tp__order_given_up(tp__tool_slot *slot) { slot->order->given_up = true; }
