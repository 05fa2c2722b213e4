/* SPDX-License-Identifier: Apache-2.0
 *
 * toolset: the tools of a turn, as its newest turn.pre_tool_materialization has left them: copies of the contributed
 * tools, found by name. References: the turn's, and one of each request that shows the tools. No lock: the turn's owner
 * makes it, and afterwards only the marked fields change. */
#ifndef TP__TOOLSET_H
#define TP__TOOLSET_H

#include "phases/merge/schema.h"
#include "phases/turn/turn.h"

typedef struct tp__tool_entry tp__tool_entry;

/** What the turn's policies say of a tool. */
typedef enum tp__tool_policy { TP__TOOL_FREE = 0, TP__TOOL_DENY = 1, TP__TOOL_ASK = 2 } tp__tool_policy;

/** A tool of the turn. */
struct tp__tool_entry {
  tp_tool_fn run; /* NULL: inbox */
  void *ctx;
  /* the closure or the turn has a reference; NULL when there is no run: the turn's session has no inbox */
  tp_inbox *inbox;
  tp__closure *closure; /* referenced; NULL: the tool holds no objects of the host */
  bool is_inline;
  bool out_of_scope; /* the turn's agent may not use it */
  bool left_out;     /* model.request has left the tool out of the last request */
  tp__tool_policy policy;
  const void *sets; /* the version of the turn's sets for which `policy` was looked up */
  bool is_compiled; /* schema is set, by the first call */
  const tp__schema *schema;
  int64_t timeout_ns;
  size_t result_bytes_max, parts_bytes_max;
  uint32_t concurrent_max;
  const tp_tool *tool;
  const char *owner;
  tp_text name; /* followed by a NUL; lives as long as the runtime */
  tp__permits *permits;
};

struct tp__toolset {
  tp_runtime *runtime;
  tp__a32 refs;    /* acq_rel: the turn's, and one of each request that shows the tools */
  tp__arena arena; /* the descriptors */
  tp__tool_entry *entries;
  size_t count;
  const char *needs_inbox; /* a tool that needs the session's inbox, when there is none; NULL: no such tool */
  uint32_t *places;        /* places by the hash of a name: index + 1; 0 is free */
  uint32_t mask;
  size_t block_size;
};

/** Accepts NULL, as tp__toolset_unref() (turn.h). */
tp__toolset *tp__toolset_ref(tp__toolset *toolset);
/** @return NULL: there is no such tool. toolset may be NULL. */
tp__tool_entry *tp__toolset_find(const tp__toolset *toolset, tp_text name);

/** The tool's schema, compiled at the first call. @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__tool_schema(tp__toolset *toolset, tp__tool_entry *tool, const tp__schema **ret_schema);

#endif
