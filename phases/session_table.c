/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/session_table.h"

#include "phases/session.h"

static uint64_t hash_of(const char *tenant, const char *id) {
  return tp__hash_text(tp_text_of(id), tp__hash_text(tp_text_of(tenant), 0));
}

static tp_session *of(tp__hash_link *link) { return TP__CONTAINER(link, tp_session, in_table); }
static bool same(const char *a, const char *b) { return tp_text_equal(tp_text_of(a), tp_text_of(b)); }

tp_session *tp__session_table_find(const tp__hash_table *table, const char *tenant, const char *id) {
  tp__hash_link *link = tp__hash_table_first(table, hash_of(tenant, id));
  while (link && !(same(of(link)->tenant, tenant) && same(of(link)->id, id))) link = tp__hash_table_next(link);
  return link ? of(link) : NULL;
}

tp_status tp__session_table_add(tp__hash_table *table, const tp_allocator *allocator, tp_session *session) {
  if (tp__session_table_find(table, session->tenant, session->id)) return TP_ERR_BUSY;
  TP__TRY(tp__hash_table_reserve(table, allocator));
  tp__hash_table_add(table, &session->in_table, hash_of(session->tenant, session->id));
  return TP_OK;
}

void tp__session_table_remove(tp__hash_table *table, tp_session *session) {
  if (tp__session_table_find(table, session->tenant, session->id) == session)
    tp__hash_table_remove(table, &session->in_table);
}
