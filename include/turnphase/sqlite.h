/* SPDX-License-Identifier: Apache-2.0
 *
 * sqlite.h: the library turnphase-sqlite: a history of sessions in a SQLite file. Threads: any. */
#ifndef TURNPHASE_SQLITE_H
#define TURNPHASE_SQLITE_H

#include "turnphase/store.h"

TP_BEGIN_DECLS

/** Opens (creates) the file, mode 0600, WAL, one writer; a batch is one transaction, durable when append returns.
 *  Not in the child of a fork while the parent has the same file open: SQLite's locks do not cross a fork.
 *  Give it to tp_history_share() or tp_session_options.history, which take it, or free it with tp_history_free(). What
 *  is deleted leaves the tables, not at once the bytes of the file; its number in a list may be given again.
 *  @return TP_OK; TP_ERR_STORE_SCHEMA (newer or foreign schema), TP_ERR_STORE_CORRUPT, TP_ERR_STORE_BUSY,
 *          TP_ERR_STORE_READONLY, TP_ERR_STORE_FULL, TP_ERR_IO, TP_ERR_NO_MEMORY, with the path in the fault. */
TP_API tp_status tp_sqlite_history_open(const char *path, tp_history **ret_history,
    tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
