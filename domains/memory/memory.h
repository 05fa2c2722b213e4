/* SPDX-License-Identifier: Apache-2.0
 *
 * memory: the state that the six handlers and the five tools share: the open store, the options, the tools.
 * tp_memory_register() makes it. Each registered handler holds a reference, and the end of the last reference closes
 * the store. Only the number of references changes. */
#ifndef TP__MEMORY_H
#define TP__MEMORY_H

#include "domains/memory/late.h"
#include "domains/memory/said.h"
#include "domains/memory/store.h"
#include "support/clock.h"
#include "support/fault.h"
#include "support/references.h"
#include "support/tool_row.h"
#include "turnphase/inbox.h"
#include "turnphase/memory.h"

enum {
  TP__MEMORY_RECALL_MAX = 64,          /* the most entries of prompt context of a turn */
  TP__MEMORY_RECALL_BYTES_MAX = 12000, /* the most bytes of their lines */
  TP__MEMORY_TOOL_COUNT = 5,
  TP__MEMORY_NOTE_BYTES_MAX = 4096, /* the longest text that memory_remember accepts; in a list the most bytes that are
                                       shown of each text */
  TP__MEMORY_REDACT_SIZE = 8192     /* has space for a text that a host's redact makes longer */
};

/** A kind of scope, and the id of a turn that names the scope. */
typedef struct tp__memory_scope_kind {
  const char *name;
  uint32_t id; /* TP_ID_*; TP_ID_COUNT: no id, the tenant is the scope */
} tp__memory_scope_kind;

typedef struct tp__memory_domain {
  tp__memory_store *store;
  const tp__memory_scope_kind *kind;
  uint32_t recall_max;
  int32_t recall_floor;
  bool keep_assistant;
  bool keep_secrets;
  tp_memory_embedder embedder; /* name is NULL without an embedder */
  tp_model model;              /* the model that extracts facts */
  bool has_model;
  tp_end *keeps_inbox;                              /* keeps the model's inbox, and is never submitted; NULL: the model
                                                       has no inbox */
  tp__memory_late *late;                            /* NULL without an embedder */
  tp__memory_said *said;                            /* the hashes of the messages of conversations */
  tp_writer *schema_writers[TP__MEMORY_TOOL_COUNT]; /* the writers that own the schemas */
  tp_tool tools[TP__MEMORY_TOOL_COUNT];             /* first the tools that only read, then those that change */
  const tp_tool *tool_list[TP__MEMORY_TOOL_COUNT];  /* the addresses of the tools */
  tp__references refs;
} tp__memory_domain;

/** The number of tools that only read: they come first. */
enum { TP__MEMORY_LOOKING_TOOLS = 3 };

/** Fills tools and schemas. @return TP_OK; TP_ERR_NO_MEMORY: the caller must still call tp__memory_tools_fini(). */
tp_status tp__memory_tools_init(tp__memory_domain *domain);
void tp__memory_tools_fini(tp__memory_domain *domain);

/** Whether there is a scope of that kind. */
bool tp__memory_is_scope_kind(tp_text name);

/** The memory of SQLite as an allocator of turnphase. */
extern const tp_allocator tp__memory_allocator;

#endif
