/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/session/sessions.h"

#include <stdio.h>

#include "phases/session/session.h"

static tp_session *session_of(tp__link *link) { return TP__CONTAINER(link, tp_session, link); }

tp_status tp__sessions_init(tp__sessions *sessions, const tp_allocator *allocator) {
  *sessions = (tp__sessions){.allocator = allocator};
  tp__list_init(&sessions->list);
  tp__list_init(&sessions->ending);
  return tp__mutex_init(&sessions->mutex, TP__RANK_sessions);
}

void tp__sessions_fini(tp__sessions *sessions) {
  TP__ASSERT(tp__list_empty(&sessions->list) && tp__list_empty(&sessions->ending));
  tp__hash_table_fini(&sessions->table, sessions->allocator);
  tp__mutex_fini(&sessions->mutex);
}

/* ---- the table ---- */

static tp_session *in_table(tp__hash_link *link) { return TP__CONTAINER(link, tp_session, in_table); }
static bool same(const char *a, const char *b) { return tp_text_equal(tp_text_of(a), tp_text_of(b)); }

static uint64_t hash_of_session(const char *tenant, const char *id) {
  return tp__hash_text(tp_text_of(id), tp__hash_text(tp_text_of(tenant), 0));
}

static tp_session *find_session_locked(const tp__sessions *sessions, const char *tenant, const char *id) {
  TP__LOCKED(&sessions->mutex);
  tp__hash_link *link = tp__hash_table_first(&sessions->table, hash_of_session(tenant, id));
  while (link && !(same(in_table(link)->tenant, tenant) && same(in_table(link)->id, id)))
    link = tp__hash_table_next(link);
  return link ? in_table(link) : NULL;
}

static void unfind_locked(tp__sessions *sessions, tp_session *session) {
  TP__LOCKED(&sessions->mutex);
  if (find_session_locked(sessions, session->tenant, session->id) == session)
    tp__hash_table_remove(&sessions->table, &session->in_table);
}

/* ---- coming and going ---- */

static tp_status join_history(tp_session *session) {
  if (!session->shared) return TP_OK;
  return tp__shared_history_join(session->shared, &session->history_user, session->tenant, session->id);
}

static tp_status add_session_locked(tp__sessions *sessions, tp_session *session) {
  TP__LOCKED(&sessions->mutex);
  if (tp__runtime_life(session->runtime) != TP__LIFE_STARTED) return TP_ERR_SHUTDOWN;
  if (find_session_locked(sessions, session->tenant, session->id)) return TP_ERR_BUSY;
  TP__TRY(tp__hash_table_reserve(&sessions->table, sessions->allocator));
  TP__TRY(join_history(session));
  tp__hash_table_add(&sessions->table, &session->in_table, hash_of_session(session->tenant, session->id));
  session->number = ++sessions->opened;
  tp__list_push(&sessions->list, &session->link);
  return TP_OK;
}

tp_status tp__sessions_add(tp__sessions *sessions, tp_session *session) {
  tp__mutex_lock(&sessions->mutex);
  tp_status status = add_session_locked(sessions, session);
  tp__mutex_unlock(&sessions->mutex);
  return status;
}

void tp__sessions_remove(tp__sessions *sessions, tp_session *session) {
  tp__mutex_lock(&sessions->mutex);
  tp__list_remove(&session->link);
  unfind_locked(sessions, session);
  tp__mutex_unlock(&sessions->mutex);
  if (session->shared) tp__shared_history_leave(session->shared, &session->history_user);
}

/* ---- finding and walking ---- */

tp_session *tp_session_find(tp_runtime *runtime, const char *tenant, const char *id) {
  if (!id || tp__runtime_usable(runtime, NULL) != TP_OK) return NULL;
  tp__sessions *sessions = tp__layer_sessions(runtime);
  tp__mutex_lock(&sessions->mutex);
  tp_session *session = find_session_locked(sessions, tenant, id);
  if (session && tp__a32_load_acquire(&session->close_asked)) session = NULL;
  if (session) tp__session_hold(session);
  tp__mutex_unlock(&sessions->mutex);
  return session;
}

tp_session *tp__sessions_hold_of(tp__sessions *sessions, tp_text tenant, tp_text id) {
  char tenant_copy[TP_ID_BYTES_MAX + 1], id_copy[TP_ID_BYTES_MAX + 1];
  if (id.size == 0 || id.size > TP_ID_BYTES_MAX || tenant.size > TP_ID_BYTES_MAX) return NULL;
  snprintf(tenant_copy, sizeof tenant_copy, "%.*s", (int)tenant.size, tenant.size ? tenant.data : "");
  snprintf(id_copy, sizeof id_copy, "%.*s", (int)id.size, id.data);
  tp__mutex_lock(&sessions->mutex);
  tp_session *session = find_session_locked(sessions, tenant_copy, id_copy);
  if (session) tp__session_hold(session);
  tp__mutex_unlock(&sessions->mutex);
  return session;
}

/* The session at a link. The end of `ending` continues with the first of `list`; at the end of `list` the result is
 * NULL. */
static tp_session *from_locked(tp__sessions *sessions, tp__link *link) {
  TP__LOCKED(&sessions->mutex);
  if (link == &sessions->ending) link = sessions->list.next;
  return link == &sessions->list ? NULL : session_of(link);
}

/* The session after `after`, held. If `after` has left the lists meanwhile, its place is found by its number. */
static tp_session *next_of(tp__sessions *sessions, tp_session *after) {
  tp__mutex_lock(&sessions->mutex);
  bool left = after && after->link.next == &after->link;
  tp_session *next = from_locked(sessions, after && !left ? after->link.next : sessions->ending.next);
  while (left && next && next->number < after->number) next = from_locked(sessions, next->link.next);
  if (next) tp__session_hold(next);
  tp__mutex_unlock(&sessions->mutex);
  return next;
}

size_t tp_runtime_sessions(tp_runtime *runtime, tp_session_fn each, void *ctx) {
  if (!runtime) return 0;
  if (tp__runtime_usable(runtime, NULL) != TP_OK) return 0;
  tp__sessions *sessions = tp__layer_sessions(runtime);
  size_t count = 0;
  bool more = true;
  tp_session *session = next_of(sessions, NULL);
  while (session) {
    count++;
    if (each) more = each(ctx, session);
    tp_session *next = more ? next_of(sessions, session) : NULL;
    tp__session_unref(session);
    session = next;
  }
  return count;
}

size_t tp__sessions_count(tp__sessions *sessions) {
  tp__mutex_lock(&sessions->mutex);
  size_t count = sessions->table.count;
  tp__mutex_unlock(&sessions->mutex);
  return count;
}

#ifdef TP_SIM
tp_inbox *tp__sessions_inbox_of_another(tp__sessions *sessions) {
  tp_inbox *other = NULL;
  tp__mutex_lock(&sessions->mutex);
  for (tp__link *link = sessions->list.next; link != &sessions->list && !other; link = link->next)
    other = session_of(link)->inbox;
  tp__inbox_ref(other);
  tp__mutex_unlock(&sessions->mutex);
  return other;
}
#endif

/* ---- the end of them all ---- */

tp_session *tp__sessions_take_open(tp__sessions *sessions) {
  tp_session *open = NULL;
  tp__mutex_lock(&sessions->mutex);
  while (!open && !tp__list_empty(&sessions->list)) {
    tp_session *session = session_of(sessions->list.next);
    tp__list_remove(&session->link);
    tp__list_push(&sessions->ending, &session->link);
    if (!tp__a32_exchange_acq_rel(&session->end_asked, 1)) open = session;
  }
  if (open) tp__session_hold(open); /* its host may close it at any moment */
  tp__mutex_unlock(&sessions->mutex);
  return open;
}

bool tp__sessions_any_half_closed(tp__sessions *sessions) {
  bool any = false;
  tp__mutex_lock(&sessions->mutex);
  for (tp__link *link = sessions->ending.next; link != &sessions->ending && !any; link = link->next) {
    tp_session *session = session_of(link);
    tp__mutex_lock(&session->mutex);
    any = !session->closing;
    tp__mutex_unlock(&session->mutex);
  }
  tp__mutex_unlock(&sessions->mutex);
  return any;
}

static void free_sessions(tp__sessions *sessions, tp__link *list) {
  while (!tp__list_empty(list)) {
    tp_session *session = session_of(list->next);
    tp__sessions_remove(sessions, session);
    tp__session_unref(session);
  }
}

void tp__sessions_free_all(tp__sessions *sessions) {
  free_sessions(sessions, &sessions->list);
  free_sessions(sessions, &sessions->ending);
}
