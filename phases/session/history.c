/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/session/history.h"

struct tp_shared_history {
  tp_history history; /* never changes after the struct was made, like the allocator */
  tp_allocator allocator;
  tp__a32 refs;
  tp__mutex mutex;
  tp__link users;     /* under mutex */
  tp__link deletions; /* under mutex: the running deletions, which are in the frames of their threads */
};

tp_status tp__history_read(tp_history *ret_history, const tp_history *theirs, tp_fault *fault) {
  *ret_history = (tp_history){0};
  if (!theirs) return TP_OK;
  TP__TRY(tp__options_read(ret_history, sizeof *ret_history, theirs, "tp_history", fault));
  if (!ret_history->load && !ret_history->load_start)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_history: set load, load_start or both");
  if (ret_history->load && ret_history->load_start && ret_history->load_paired != ret_history->load)
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "tp_history: turns use load_start, which does not belong to this load (load_paired): clear "
                    "load_start, or set load_paired");
  if (ret_history->shared > 1) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_history.shared is 0 or 1");
  if (!ret_history->shared != !ret_history->release)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_history: set shared and release, or neither");
  if (ret_history->load_cancel && !ret_history->load_start)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_history.load_cancel belongs to load_start, which is NULL");
  if (!ret_history->append && !ret_history->append_start)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_history: set append, append_start or both");
  if (ret_history->append && ret_history->append_start && ret_history->append_paired != ret_history->append)
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "tp_history: turns use append_start, which does not belong to this append (append_paired): clear "
                    "append_start, or set append_paired");
  if (ret_history->append_cancel && !ret_history->append_start)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_history.append_cancel belongs to append_start, which is NULL");
  return TP_OK;
}

void tp_history_free(tp_history *history) {
  if (history && history->destroy) history->destroy(history->ctx);
}

/* ---- shared ---- */

tp_status tp_history_share(const tp_allocator *theirs, const tp_history *history, tp_shared_history **ret_shared,
                           tp_fault *fault) {
  tp_history own;
  if (!history) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_history_share() needs a history");
  TP__TRY(tp__history_read(&own, history, fault));
  tp_allocator allocator = tp__allocator_of(theirs);
  tp_shared_history *shared = tp__alloc_zero(&allocator, sizeof *shared);
  tp_status status = shared ? tp__mutex_init(&shared->mutex, TP__RANK_shared_history) : TP_ERR_NO_MEMORY;
  if (status != TP_OK) {
    tp__release(&allocator, shared, sizeof *shared);
    return tp__fail(fault, status, NULL, "no memory for a shared history");
  }
  shared->history = own;
  shared->allocator = allocator;
  atomic_init(&shared->refs.v, 1);
  tp__list_init(&shared->users);
  tp__list_init(&shared->deletions);
  *ret_shared = shared;
  return TP_OK;
}

tp_shared_history *tp_shared_history_ref(tp_shared_history *shared) {
  if (shared) tp__a32_add_relaxed(&shared->refs, 1);
  return shared;
}

void tp_shared_history_unref(tp_shared_history *shared) {
  if (!shared || tp__a32_sub_acq_rel(&shared->refs, 1) != 1) return;
  assert(tp__list_empty(&shared->users) && tp__list_empty(&shared->deletions));
  tp_history_free(&shared->history);
  tp_allocator allocator = shared->allocator;
  tp__mutex_fini(&shared->mutex);
  tp__release(&allocator, shared, sizeof *shared);
}

const tp_history *tp__shared_history_get(const tp_shared_history *shared) { return &shared->history; }

/* ---- who uses it ---- */

#ifdef TP_CHECKS
static void history_check_locked(const tp_shared_history *shared) {
  TP__LOCKED(&shared->mutex);
  const tp__link *link = shared->users.next;
  for (uint32_t i = 0; i < TP__CHECK_ITEMS_MAX && link != &shared->users; i++, link = link->next) {
    const tp__history_user *user = TP__CONTAINER((tp__link *)(uintptr_t)link, tp__history_user, link);
    /* A user is a session that is open, or that has calls which have not returned. */
    assert((user->is_open || user->calls > 0) && link->next->prev == link);
  }
}
#endif

static bool has_locked(const tp_shared_history *shared, const tp__link *list, const tp__history_user *user) {
  TP__LOCKED(&shared->mutex);
  for (tp__link *link = list->next; link != list; link = link->next) {
    const tp__history_user *other = TP__CONTAINER(link, tp__history_user, link);
    if (tp_text_equal(other->session, user->session) && tp_text_equal(other->tenant, user->tenant)) return true;
  }
  return false;
}

tp_status tp__shared_history_join(tp_shared_history *shared, tp__history_user *user, const char *tenant,
                                  const char *session) {
  *user = (tp__history_user){.tenant = tp_text_of(tenant), .session = tp_text_of(session)};
  tp__mutex_lock(&shared->mutex);
  user->is_open = !has_locked(shared, &shared->deletions, user);
  if (user->is_open) tp__list_push(&shared->users, &user->link);
  TP__CHECK(history_check_locked(shared));
  tp__mutex_unlock(&shared->mutex);
  return user->is_open ? TP_OK : TP_ERR_BUSY;
}

static void remove_unused_locked(tp__history_user *user) {
  if (!user->is_open && user->calls == 0) tp__list_remove(&user->link);
}

void tp__shared_history_leave(tp_shared_history *shared, tp__history_user *user) {
  tp__mutex_lock(&shared->mutex);
  if (user->is_open) {
    user->is_open = false;
    remove_unused_locked(user);
  }
  TP__CHECK(history_check_locked(shared));
  tp__mutex_unlock(&shared->mutex);
}

void tp__shared_history_call_begins(tp_shared_history *shared, tp__history_user *user) {
  if (!shared) return;
  tp__mutex_lock(&shared->mutex);
  user->calls++;
  tp__mutex_unlock(&shared->mutex);
}

void tp__shared_history_call_ends(tp_shared_history *shared, tp__history_user *user) {
  if (!shared) return;
  tp__mutex_lock(&shared->mutex);
  TP__ASSERT(user->calls > 0);
  user->calls--;
  remove_unused_locked(user);
  TP__CHECK(history_check_locked(shared));
  tp__mutex_unlock(&shared->mutex);
}

/* ---- what hosts ask of it ---- */

static tp_status lacks(const char *function, tp_fault *fault) {
  return tp__fail(fault, TP_ERR_STORE, NULL, "the history has no function `%s`", function);
}

static bool begin_deletion(tp_shared_history *shared, tp__history_user *d) {
  tp__mutex_lock(&shared->mutex);
  bool begun = !has_locked(shared, &shared->users, d) && !has_locked(shared, &shared->deletions, d);
  if (begun) tp__list_push(&shared->deletions, &d->link);
  tp__mutex_unlock(&shared->mutex);
  return begun;
}

static void end_deletion(tp_shared_history *shared, tp__history_user *d) {
  tp__mutex_lock(&shared->mutex);
  tp__list_remove(&d->link);
  tp__mutex_unlock(&shared->mutex);
}

tp_status tp_shared_history_delete(tp_shared_history *shared, const char *tenant, const char *session,
                                   tp_fault *fault) {
  if (!shared || !session) return tp__fail(fault, TP_ERR_USAGE, NULL, "a deletion needs a history and a session");
  const tp_history *history = &shared->history;
  tp__history_user d = {.tenant = tp_text_of(tenant), .session = tp_text_of(session)};
  if (!history->delete_session) return lacks("delete_session", fault);
  if (!begin_deletion(shared, &d))
    return tp__fail(fault, TP_ERR_BUSY, session,
                    "session `%s` is open, or a call of it has not returned, or it is being deleted: wait for the "
                    "on_end of tp_session_close()",
                    session);
  tp_history_delete request = {.struct_size = sizeof request, .tenant = d.tenant, .session = d.session};
  tp_status status = history->delete_session(history->ctx, &request, fault);
  end_deletion(shared, &d);
  return status;
}

tp_status tp_shared_history_list(tp_shared_history *shared, const tp_history_query *theirs, tp_history_session_fn each,
                                 void *ctx, tp_fault *fault) {
  tp_history_query query = {.struct_size = sizeof query};
  if (!shared || !each) return tp__fail(fault, TP_ERR_USAGE, NULL, "a list needs a history and a function to call");
  if (theirs) TP__TRY(tp__options_read(&query, sizeof query, theirs, "tp_history_query", fault));
  const tp_history *history = &shared->history;
  if (!history->list_sessions) return lacks("list_sessions", fault);
  return history->list_sessions(history->ctx, &query, each, ctx, fault);
}
