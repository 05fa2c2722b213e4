/* SPDX-License-Identifier: Apache-2.0
 *
 * memory: what the six handlers and the five tools share: the open store, the options, the tools. Made by
 * tp_memory_register(); each registered handler holds a reference, and the last one to go closes the store. All but
 * their count never changes. */
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
  TP__MEMORY_RECALL_MAX = 64,          /* entries of prompt context that a turn takes in all */
  TP__MEMORY_RECALL_BYTES_MAX = 12000, /* bytes of their lines that it takes in all */
  TP__MEMORY_TOOL_COUNT = 5,
  TP__MEMORY_NOTE_BYTES_MAX = 4096, /* longest text that memory_remember takes; of a list, what is shown of each */
  TP__MEMORY_REDACT_SIZE = 8192     /* for a text that a host's redact makes longer */
};

/** A kind of scope and the id of a turn that names it. */
typedef struct tp__memory_scope_kind {
  const char *name;
  uint32_t id; /* TP_ID_*; TP_ID_COUNT: none, the tenant says it all */
} tp__memory_scope_kind;

typedef struct tp__memory_domain {
  tp__memory_store *store;
  const tp__memory_scope_kind *kind;
  uint32_t recall_max;
  int32_t recall_floor;
  bool keep_assistant;
  bool keep_secrets;
  tp_memory_embedder embedder; /* name NULL: none */
  tp_model model;              /* extracts facts */
  bool has_model;
  tp_end *keeps_inbox;                              /* of the model, never submitted; NULL: it has none */
  tp__memory_late *late;                            /* NULL without an embedder */
  tp__memory_said *said;                            /* the messages of conversations, by their hashes */
  tp_writer *schema_writers[TP__MEMORY_TOOL_COUNT]; /* own the schemas */
  tp_tool tools[TP__MEMORY_TOOL_COUNT];             /* those that look first, then those that change */
  const tp_tool *tool_list[TP__MEMORY_TOOL_COUNT];  /* their addresses */
  tp__references refs;
} tp__memory_domain;

/** The number of tools that only look: they stand first. */
enum { TP__MEMORY_LOOKING_TOOLS = 3 };

/** Fills tools and schemas. @return TP_OK; TP_ERR_NO_MEMORY: tp__memory_tools_fini() still cleans up. */
tp_status tp__memory_tools_init(tp__memory_domain *domain);
void tp__memory_tools_fini(tp__memory_domain *domain);

/** Whether there is a scope of that kind. */
bool tp__memory_is_scope_kind(tp_text name);

/** The memory of SQLite as an allocator of turnphase. */
extern const tp_allocator tp__memory_allocator;

#endif
