/* SPDX-License-Identifier: Apache-2.0
 *
 * sessions.h: types for the sessions in a file (sqlite.h) or a database (postgres.h): which sessions to list, their
 * numbers and rows, and what to erase or export of them. */
#ifndef TURNPHASE_SESSIONS_H
#define TURNPHASE_SESSIONS_H

#include "turnphase/base.h"

TP_BEGIN_DECLS

/** Which sessions. Zero-filled: all. */
typedef struct tp_kept_query {
  size_t struct_size;
  /** NULL: any. "": rows without a tenant, or without a session. */
  const char *tenant, *session;
  /** Only sessions whose newest activity is older than this; 0: any. A session whose time is not known is not among
   *  them. */
  int64_t before_unix_ms;
  /** The most sessions; 0: all. */
  size_t limit;
} tp_kept_query;

/** One session, with its numbers. Made by the library; borrowed till the callback returns. */
typedef struct tp_kept_session {
  size_t struct_size;
  uint64_t messages; /* messages in the history */
  /** Records of turns and entries; calls of tools that are not idempotent; audit rows. */
  uint64_t turns, entries, calls, audits;
  uint64_t jobs, questions, tasks;
  int64_t first_unix_ms, last_unix_ms; /* its oldest and newest activity; 0: not known */
  /** In a file: a live process that runs a turn or a job of it; 0: none is known. */
  int64_t process_id;
  tp_text tenant, session;
  /** How long that process's lease still lasts, while its turn has the session; 0: no turn has it. */
  int64_t lease_ms;
  /** In a database: the address of a process that runs a turn or a job of it, and whose lease has not ended; empty:
   *  none. */
  tp_text holder;
} tp_kept_session;
/** Receives a session; false stops the walk. Threads: the calling one. */
typedef bool (*tp_kept_session_fn)(void *ctx, const tp_kept_session *session);

/** Receives a row of a session as a value: a map of its columns, in which texts that are no UTF-8 are bytes.
 *  @param kind  "message", "tool_call", "turn", "step", "running", "running_step", "entry", "run", "attempt",
 *               "content", "audit", "call", "job", "question", "task".
 *  False stops. Threads: the calling one. */
typedef bool (*tp_kept_row_fn)(void *ctx, const char *kind, tp_text row);

/** A session that begins with what another one has. */
typedef struct tp_kept_fork {
  size_t struct_size;
  /** The tenant of both sessions; NULL: none. */
  const char *tenant;
  /** Required, both. */
  const char *session, *new_session;
  /** The last turn that the new session has; NULL: all. */
  const char *turn;
} tp_kept_fork;

/** Which sessions to erase, or to export. The first three members as in tp_kept_query. */
typedef struct tp_kept_choice {
  size_t struct_size;
  const char *tenant, *session;
  int64_t before_unix_ms;
  /** In a file, 1: also while other processes use it. Their memory and their queues may still have what is erased, and
   *  write it again. In a database 0 and 1 both mean this. */
  uint32_t with_others;
  /** 1: nothing is erased; ret_erased has what would be. */
  uint32_t only_counts;
  /* When one of the next three is given, only turns are erased: those that fit all the given conditions, in the
   * sessions that fit; these sessions may go on. A turn is erased as a whole, since an answer repeats what was said;
   * its jobs that have not ended are erased with it. A job or a task that fits by itself is erased, too. NULL and 0:
   * not given. */
  /** Turns that contain this text, of 4 bytes or more, byte for byte: in messages, arguments, results, files, reasons
   *  or ids, but not in names of handlers or of the tenant. */
  const char *matching;
  /** Turns of a person: the turn's records name a workspace or thread of that id, or a message of the user in it begins
   *  with "ID: ". */
  const char *person;
  /** Turns whose newest part is older than this. */
  int64_t turns_before_unix_ms;
} tp_kept_choice;
enum tp_kept_limits { TP_KEPT_MATCHING_BYTES_MIN = 4 /* the least bytes of tp_kept_choice.matching */ };

/** What an erasure did. The caller sets struct_size; it is filled that far, and struct_size says how far. */
typedef struct tp_kept_erased {
  size_t struct_size;
  uint64_t sessions, rows;  /* how many were erased */
  uint64_t sessions_in_use; /* sessions that stay, since a live process runs a turn or a job of them */
  int64_t process_id;       /* in a file: the id of such a process */
  /** In a file, 1: no copy of a deleted row is left in it or its log. In a database always 0: the server has copies
   *  until it vacuums. */
  uint32_t is_complete;
  uint32_t reserved_;     /* zero */
  uint64_t turns;         /* how many turns were erased, where turns were chosen */
  uint64_t turns_unknown; /* with person: turns and tasks that stay, since no record names the person they belong to */
} tp_kept_erased;

/** Receives a row of an export: kind and row as in tp_kept_row_fn, and the session of the row.
 *  False stops the export. Threads: the calling one. */
typedef bool (*tp_kept_export_fn)(void *ctx, const tp_kept_session *session, const char *kind, tp_text row);

TP_END_DECLS
#endif
