/* SPDX-License-Identifier: Apache-2.0
 *
 * A history in memory that outlives its sessions: the reference of the interface. Lock: `memory_history`. */
#include "phases/messages.h"
#include "runtime/os/os.h"
#include "turnphase/store.h"

typedef struct conversation {
  struct conversation *next;
  tp_text tenant, session; /* behind the struct */
  size_t size;
  tp__messages messages;
} conversation;

typedef struct memory_history {
  tp_history face; /* what its maker gave out; a taker has a copy */
  tp_allocator allocator;
  tp__mutex mutex;
  conversation *first; /* under mutex, and what hangs on it */
} memory_history;

static conversation *find_locked(memory_history *h, tp_text tenant, tp_text session) {
  conversation *c = h->first;
  while (c && !(tp__text_equal(c->tenant, tenant) && tp__text_equal(c->session, session))) c = c->next;
  return c;
}

static conversation *add_locked(memory_history *h, tp_text tenant, tp_text session) {
  size_t size = sizeof(conversation) + tenant.size + session.size;
  conversation *c = tp__alloc_zero(&h->allocator, size);
  if (!c) return NULL;
  char *texts = (char *)(c + 1);
  if (tenant.size > 0) memcpy(texts, tenant.data, tenant.size);
  if (session.size > 0) memcpy(texts + tenant.size, session.data, session.size);
  c->tenant = (tp_text){texts, tenant.size};
  c->session = (tp_text){texts + tenant.size, session.size};
  c->size = size;
  tp__messages_init(&c->messages, &h->allocator);
  c->next = h->first;
  h->first = c;
  return c;
}

/* One session's calls come one at a time, so its messages do not move while they are given. */
static tp_status load(void *self, const tp_history_load *request, tp_fault *fault) {
  memory_history *h = self;
  (void)fault;
  tp__mutex_lock(&h->mutex);
  conversation *c = find_locked(h, request->tenant, request->session);
  tp__mutex_unlock(&h->mutex);
  for (size_t i = 0; c && i < c->messages.count; i++) TP__TRY(request->each(request->ctx, &c->messages.items[i]));
  return TP_OK;
}

static tp_status append(void *self, const tp_history_append *request, tp_fault *fault) {
  memory_history *h = self;
  tp__mutex_lock(&h->mutex);
  conversation *c = find_locked(h, request->tenant, request->session);
  if (!c) c = add_locked(h, request->tenant, request->session);
  tp__mutex_unlock(&h->mutex);
  if (!c) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a conversation");
  size_t before = c->messages.count;
  for (size_t i = 0; i < request->message_count; i++) {
    if (tp__messages_add(&c->messages, request->messages[i]) == TP_OK) continue;
    c->messages.count = before; /* all of it or nothing */
    return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for %zu messages", request->message_count);
  }
  return TP_OK;
}

static void destroy(void *self) {
  memory_history *h = self;
  while (h->first) {
    conversation *c = h->first;
    h->first = c->next;
    tp__messages_fini(&c->messages);
    tp__release(&h->allocator, c, c->size);
  }
  tp_allocator allocator = h->allocator;
  tp__mutex_fini(&h->mutex);
  tp__release(&allocator, h, sizeof *h);
}

void tp_history_free(tp_history *history) {
  if (history && history->destroy) history->destroy(history->self);
}

tp_status tp_history_memory_new(const tp_allocator *theirs, tp_history **ret_history, tp_fault *fault) {
  tp_allocator allocator = tp__allocator_of(theirs);
  memory_history *h = tp__alloc_zero(&allocator, sizeof *h);
  tp_status status = h ? tp__mutex_init(&h->mutex) : TP_ERR_NO_MEMORY;
  if (status != TP_OK) {
    tp__release(&allocator, h, sizeof *h);
    return tp__fail(fault, status, NULL, "no memory for a history");
  }
  h->allocator = allocator;
  h->face = (tp_history){
      .struct_size = sizeof h->face, .self = h, .load = load, .append = append, .destroy = destroy};
  *ret_history = &h->face;
  return TP_OK;
}
