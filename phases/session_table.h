/* SPDX-License-Identifier: Apache-2.0
 *
 * session_table: the sessions of a runtime by tenant and id, each pair once. Lock: `sessions`, which the caller
 * holds. */
#ifndef TP__SESSION_TABLE_H
#define TP__SESSION_TABLE_H

#include "runtime/base/hash_table.h"
#include "turnphase/turn.h"

/** @return TP_OK; TP_ERR_BUSY when the pair is there; TP_ERR_NO_MEMORY. */
tp_status tp__session_table_add(tp__hash_table *table, const tp_allocator *allocator, tp_session *session);
/** @return NULL when the pair is not there. */
tp_session *tp__session_table_find(const tp__hash_table *table, const char *tenant, const char *id);
/** Harmless for a session that is not there. */
void tp__session_table_remove(tp__hash_table *table, tp_session *session);

#endif
