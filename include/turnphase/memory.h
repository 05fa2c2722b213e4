/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.h: the library turnphase-memory: long-term memory for agents as six subscribed handlers over a SQLite file
 * that is searched by words, and that file itself. It uses public headers only, as a host does.
 * Threads: of tp_memory_register() the one that uses the edit. */
#ifndef TURNPHASE_MEMORY_H
#define TURNPHASE_MEMORY_H

#include "turnphase/model.h"
#include "turnphase/runtime.h"

TP_BEGIN_DECLS

/* ---- as a domain ------------------------------------------------------------------------------------------------ */

/** A request for the vectors of texts. Made by the library; borrowed until embed returns. */
typedef struct tp_memory_embed_request {
  size_t struct_size;
  /** text_count of them, at most batch_max; side by side. */
  const tp_text *texts;
  size_t text_count;
  /** How many numbers each vector has. */
  uint32_t dimensions;
  /** Set for the one text of a search; false: the texts are to be stored. */
  bool is_query;
  uint8_t reserved_[3];
  /** True when the vectors are not needed: the turn or the job was cancelled, or a query lasted 5 s. After the deadline
   *  of active_recall a query is still needed: its result goes to the session's next turn. Threads: the thread that
   *  runs embed. */
  bool (*cancelled)(const void *ctx);
  /** For cancelled. */
  const void *ctx;
} tp_memory_embed_request;

/** Makes vectors of texts. It is passed by pointer: tp_memory_register() copies the struct and the name, and takes it,
 *  on success only. */
typedef struct tp_memory_embedder {
  size_t struct_size;
  /** The name of the model, and of what else its vectors depend on; 1 to 128 bytes. Vectors in the file that were made
   *  under another name are made anew. */
  const char *name;
  void *ctx;
  /** Fills ret_vectors with text_count times dimensions finite numbers, in the order of the texts. It may block, and
   *  should call request->cancelled from time to time.
   *  @return TP_OK; any other status: nothing of ret_vectors is used. Threads: any, several at once. */
  tp_status (*embed)(void *ctx, const tp_memory_embed_request *request, float *ret_vectors);
  /** Called exactly once, when no handler of the memory is left; may be NULL. */
  void (*destroy)(void *ctx);
  /** 1 to 4,096. */
  uint32_t dimensions;
  /** The most texts of one call; 0: 32; at most 256. */
  uint32_t batch_max;
} tp_memory_embedder;

/** Which keeps the memories in place of a file: turnphase/memory_store.h. */
struct tp_memory_store;

/** Zero means default. Strings are copied. */
typedef struct tp_memory_options {
  size_t struct_size;
  /** The SQLite file; NULL: in memory, gone with the runtime. */
  const char *path;
  /** The most entries that a turn recalls, within 12,000 bytes; 0: 64; up to 64. */
  uint32_t recall_max;
  /** Deadline of active_recall; 0: 200. */
  uint32_t active_recall_ms;
  /** One of user, workspace, thread, agent and task: turns of one tenant with the same id of that kind share their
   *  memories; with "user" all turns of the tenant do. NULL: workspace. */
  const char *scope;
  /** Store the assistant's messages, too, as memories of their own; false: only the user's messages. */
  bool keep_assistant;
  /** Limit of a job of post_turn_extractor; 0: 60,000 with a model, else the phase's. */
  uint32_t extract_ms;
  /** With it, active_recall compares vectors, too; NULL: words only. */
  const tp_memory_embedder *embedder;
  /** The model with which post_turn_extractor also extracts facts. Taken on success. A model with an inbox has an inbox
   *  of this runtime, not TP_INBOX_OF_SESSION, and no destroy; the inbox is kept until the last handler is destroyed.
   *  NULL: messages are stored, and no facts are extracted; a job that was made while there was a model is postponed,
   *  until a process with a model takes it. */
  const tp_model *model;
  /** The most bytes of the indexes in memory, of all scopes that are recalled from: some 250 for each memory; 0:
   *  268,435,456. Above it, the index that was not used for longest is freed first; it is made again from the file when
   *  it is needed, which takes some 3 µs for each memory of its scope. The index in use stays, even one that is larger
   *  than this. */
  size_t index_bytes_max;
  /** An entry that shares neither a word nor a day with the text is recalled when the words of its neighbours are worth
   *  at least this many thousandths of a word that was never said. A larger number gives fewer such entries; 0: 300;
   *  below 0: all. */
  int32_t recall_floor;
  /** Keep keys of known vendors, private keys, passwords after their name, numbers of cards and tokens as they are
   *  said; false: "[redacted:key]" is kept in place of each, and the audit memory.secrets counts them. */
  bool keep_secrets;
  /** No write waits for the disk. A crash of the process loses nothing, since the writes are in the file; a crash of
   *  the machine loses what the operating system had not written yet, about the last half minute. A deletion waits for
   *  the disk all the same. For a host whose jobs or history do not wait either. False: each write waits, together with
   *  those of other threads. */
  bool async;
  /** Must be zero. */
  uint8_t reserved_[2];
  /** Keeps the memories; copied, and taken, on success only. path must be NULL then, and async false: TP_ERR_USAGE.
   *  NULL: a file. */
  const struct tp_memory_store *store;
} tp_memory_options;

/** Opens the file and adds to the edit:
 *    memory.policy_classifier      turn.pre_policy
 *    memory.deterministic_recall   turn.pre_prompt_context, Blocking; also the late results of active_recall
 *    memory.active_recall          turn.pre_prompt_context, Deadline, after deterministic_recall
 *    memory.tool_bundle            turn.pre_tool_materialization: memory_search, _get, _list, _remember, _forget
 *    memory.prompt_contract        turn.pre_prompt_compile
 *    memory.post_turn_extractor    turn.post_turn, Background
 *  An agent has no memory when its config (tp_agent_config.extra) has the key `memory` with any value but true: nothing
 *  is recalled in its turns or kept of them, and they have no tools of the memory, whatever the policies say.
 *  The file is closed when the last handler is destroyed. On failure the edit may hold some of them: discard it.
 *  @param options  NULL: all defaults.
 *  @return TP_OK; what tp_edit_add_…() returns; TP_ERR_STORE…, TP_ERR_IO with the path in the fault; TP_ERR_USAGE,
 *          TP_ERR_VERSION for wrong options or a wrong embedder; TP_ERR_NO_MEMORY.
 *  Threads: the one that uses the edit. */
TP_API tp_status tp_memory_register(tp_edit *edit, const tp_memory_options *options, tp_fault *fault) TP_MUST_USE;

/* ---- as a file ---------------------------------------------------------------------------------------------------
 * For operators: what `turnphase memory` does. Processes may have one file open at the same time, and a runtime of the
 * same process, too. */

/** An open file of memories. */
typedef struct tp_memory tp_memory;

/** One memory. Made by the library, and borrowed till the callback returns; for tp_memory_import() made by the host. */
typedef struct tp_memory_entry {
  size_t struct_size;
  /** Above 0, never reused; import: not read. */
  int64_t id;
  /** Above 0. */
  int64_t said_unix_ms;
  tp_text tenant;
  /** The kind of scope, and which: "workspace", "home". */
  tp_text scope, name;
  tp_text session, turn;
  /** The part of the turn: empty for what the user said, "assistant", or the name of a noted text or of a fact. */
  tp_text part;
  /** A name, "user" or "assistant"; import: not read. */
  tp_text speaker;
  /** 1 to 4,096 bytes. */
  tp_text text;
  /** In a search: the sum of the parts. */
  double score;
  /** In a search: the parts, weighed, in the order of tp_memory_part_name(). */
  const double *parts;
  /** How many parts; 0: not a search. */
  size_t part_count;
  /** Of a fact that a model extracted: its subject; empty: a message. At most 128 bytes. */
  tp_text subject;
  /** Of a fact: when another fact replaced it, and its recall ended; 0: not replaced. TP_ERR_USAGE without subject. */
  int64_t replaced_unix_ms;
  /** Of a fact: the id of the one that replaced it; 0: not replaced, or not known. Import: not read. */
  int64_t replaced_by;
} tp_memory_entry;
/** Receives an entry; false stops the walk. Threads: the calling one. */
typedef bool (*tp_memory_entry_fn)(void *ctx, const tp_memory_entry *entry);

/** Which memories. Zero-filled: all, the newest 100. */
typedef struct tp_memory_query {
  size_t struct_size;
  const char *tenant, *scope, *name; /* NULL: any */
  int64_t beyond;                    /* only ids below it, with oldest_first above it; 0: from the end */
  uint32_t limit;                    /* 0: 100; search: at most 1,000 */
  bool oldest_first;                 /* search: refused */
  uint8_t reserved_[3];              /* must be zero */
} tp_memory_query;

/** Opens a file, and makes it when there is none. A file that cannot be written, or whose directory cannot be written,
 *  is opened for reading only: functions that would change it return TP_ERR_STORE_READONLY.
 *  @return TP_OK; TP_ERR_STORE…, TP_ERR_IO with the path in the fault; TP_ERR_USAGE without a path;
 *          TP_ERR_NO_MEMORY. Threads: any. */
TP_API tp_status tp_memory_open(const char *path, tp_memory **ret_memory, tp_fault *fault) TP_MUST_USE;
/** The same over a store.
 *  @param store  copied, and taken, on success only: tp_memory_close() destroys it.
 *  @param name   names it in faults: a path, or a database.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION for a wrong store; TP_ERR_NO_MEMORY. Threads: any. */
TP_API tp_status tp_memory_open_store(const struct tp_memory_store *store, const char *name, tp_memory **ret_memory,
                                      tp_fault *fault) TP_MUST_USE;
/** Closes it. Accepts NULL. Threads: any, once no other call uses it. */
TP_API void tp_memory_close(tp_memory *memory);

/* The functions below: Threads: any; one at a time inside. Each callback runs on the calling thread, without a lock.
 * They return TP_OK; TP_ERR_STORE… and TP_ERR_IO for the file; TP_ERR_NO_MEMORY; and the further codes that are named
 * there. */

/** Walks the memories of a query in the order of their ids, newest first unless it says otherwise.
 *  @param query  NULL: all defaults. @return also TP_ERR_VERSION, TP_ERR_USAGE for a wrong query.
 *  Threads: any; one at a time inside. */
TP_API tp_status tp_memory_list(tp_memory *memory, const tp_memory_query *query, tp_memory_entry_fn each, void *ctx,
                                tp_fault *fault) TP_MUST_USE;
/** Walks the memories of one scope that match a text, best first, with the parts of each score.
 *  @param query  must fit exactly one scope that holds memories.
 *  @return also TP_ERR_NOT_FOUND when none fits; TP_ERR_USAGE, with their names in the fault, when several do.
 *  Threads: any; one at a time inside. */
TP_API tp_status tp_memory_search(tp_memory *memory, const tp_memory_query *query, tp_text text,
                                  tp_memory_entry_fn each, void *ctx, tp_fault *fault) TP_MUST_USE;
/** Passes one memory to each; after a fact also the facts that it replaced or that replaced it, newest first, at most
 *  50.
 *  @return also TP_ERR_NOT_FOUND.
 *  Threads: any; one at a time inside. */
TP_API tp_status tp_memory_get(tp_memory *memory, int64_t id, tp_memory_entry_fn each, void *ctx,
                               tp_fault *fault) TP_MUST_USE;
/** Deletes a memory for good: its text and the copy in the write-ahead log are overwritten, and
 *  the file is written anew without copies of them, which takes as long, and as much free space, as it is large. Where
 *  the process dies meanwhile, the next opening or deletion does the rest.
 *  @return also TP_ERR_NOT_FOUND; TP_ERR_STORE_BUSY when it is deleted, but the copy in the write-ahead log is not,
 *          because another process reads the file: call again until it returns TP_OK or TP_ERR_NOT_FOUND.
 *  Threads: any; one at a time inside. */
TP_API tp_status tp_memory_forget(tp_memory *memory, int64_t id, tp_fault *fault) TP_MUST_USE;
/** Deletes memories as tp_memory_forget() does, in one transaction: all of them that are there or, when it fails, none.
 *  The names of scopes that are empty then are deleted, too.
 *  @param ids        count of them; an id that is not there is skipped.
 *  @param ret_count  how many were there; may be NULL.
 *  @return TP_OK, also when none is there; TP_ERR_STORE_BUSY when they are deleted, but their copies in the write-ahead
 *          log are not: call again until it returns TP_OK.
 *  Threads: any; one at a time inside. */
TP_API tp_status tp_memory_forget_all(tp_memory *memory, const int64_t *ids, size_t count, size_t *ret_count,
                                      tp_fault *fault) TP_MUST_USE;
/** Stores entries, all or none, durable on return, without secrets, as post_turn_extractor does. An entry whose tenant,
 *  scope, name, session, turn and part are there already is replaced under its id, with the time at which it was first
 *  said.
 *  @param entries  count pointers, in the order in which they were said; copied.
 *  @return also TP_ERR_VERSION, TP_ERR_USAGE, TP_ERR_UTF8, TP_ERR_TOO_LARGE with the index of the wrong one.
 *  Threads: any; one at a time inside. */
TP_API tp_status tp_memory_import(tp_memory *memory, const tp_memory_entry *const *entries, size_t count,
                                  tp_fault *fault) TP_MUST_USE;
/** Options of an import; zero means default. */
typedef struct tp_memory_import_options {
  size_t struct_size;
  /** Keep secrets as they are given, as tp_memory_options.keep_secrets; false: "[redacted:key]" in place of each. */
  bool keep_secrets;
  /** Must be zero. */
  uint8_t reserved_[7];
} tp_memory_import_options;
/** As tp_memory_import(), with options.
 *  @param options      NULL: all defaults.
 *  @param ret_secrets  how many secrets were replaced; may be NULL.
 *  Threads: any; one at a time inside. */
TP_API tp_status tp_memory_import_with(tp_memory *memory, const tp_memory_import_options *options,
                                       const tp_memory_entry *const *entries, size_t count, size_t *ret_secrets,
                                       tp_fault *fault) TP_MUST_USE;

/** A scope that holds memories, or did until the last was deleted by tp_memory_forget(). */
typedef struct tp_memory_scope {
  size_t struct_size;
  tp_text tenant, scope, name;
  int64_t memories;
} tp_memory_scope;
/** Receives a scope; false stops. Threads: the calling one. */
typedef bool (*tp_memory_scope_fn)(void *ctx, const tp_memory_scope *scope);
/** Walks the scopes, by tenant, kind and name. Threads: any; one at a time inside. */
TP_API tp_status tp_memory_scopes(tp_memory *memory, tp_memory_scope_fn each, void *ctx, tp_fault *fault) TP_MUST_USE;

/** The names of the parts of a score, by index; NULL after the last. Threads: any. */
TP_API const char *tp_memory_part_name(size_t index);
TP_API const char *tp_memory_part_summary(size_t index);

TP_END_DECLS
#endif
