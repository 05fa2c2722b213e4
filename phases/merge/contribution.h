/* SPDX-License-Identifier: Apache-2.0
 *
 * contribution: the outputs of a handler, checked when they are emitted. One table says of each kind which fields it
 * uses and which it cannot do without; whatever passed here is well-formed for the merge and for all code after it.
 * Owns nothing, has no lock; any thread. Never: looks at capabilities, or at what a phase's row allows (that is the
 * sink's, before it comes here). */
#ifndef TP__CONTRIBUTION_H
#define TP__CONTRIBUTION_H

#include "runtime/plan/plan.h"
#include "turnphase/tool.h"

enum {
  TP__NAME_BYTES_MAX = TP_ID_BYTES_MAX, /* domain, key, title */
  TP__JOB_KEY_BYTES_MAX = 512,          /* an idempotency key is often made of several ids */
  TP__BUNDLE_TOOLS_MAX = 1024
};

/** "policy", "prompt_context", …; "unknown" for a number that is no kind. Static text. */
const char *tp__kind_name(uint32_t kind);

/** Checks one contribution without taking it: its kind's required fields, sizes, UTF-8, msgpack, and for a tool_bundle
 *  every tool with its schema.
 *  @param allocator  for the check of large maps; NULL: that of the C library.
 *  @param phase      where it is made, for signals: each kind of signal has its place. TP_PHASE_NONE: not known yet.
 *  @param fault      may be NULL; holds no content but names.
 *  @return TP_OK; TP_ERR_MALFORMED; TP_ERR_BAD_SCHEMA; TP_ERR_NO_MEMORY. */
tp_status tp__contribution_check(const tp_allocator *allocator, uint32_t phase, const tp_contribution *in,
                                 tp_fault *fault);

/** Checks as above, without a phase, and copies deeply; a tool with a malformed schema is no error here, but has a flaw
 *  (tp__tool_flaw()), and the merge leaves it out: all texts, and the descriptors of tools (functions and ctx
 *  pointers are the handler's and stay as they are). The fields that the kind does not use are zero in the copy.
 *  @param out  untouched on failure; lives as long as the arena. Its tools are structs of this library's size. */
tp_status tp__contribution_copy(tp__arena *arena, const tp_contribution *in, tp_contribution *out);

/** The same for a contribution that is made in this phase.
 *  @param home  on success it has what the tools hold of the host's; NULL: they hold nothing. */
tp_status tp__contribution_take(tp__arena *arena, uint32_t phase, const tp__closure_home *home,
                                const tp_contribution *in, tp_contribution *out, tp_fault *fault);

/** A tool as every copy above has it, and no tool of a host's. */
typedef struct tp__tool_copy {
  tp_tool tool;
  tp__closure *closure; /* the home's; NULL: it holds nothing */
  const char *flaw;     /* of its schema, which is then empty: "tool t: schema.type: …"; NULL: none */
} tp__tool_copy;
/** @param tool  of a contribution that was copied; not the host's. */
static inline tp__closure *tp__tool_closure(const tp_tool *tool) {
  return ((const tp__tool_copy *)(const void *)tool)->closure;
}
/** @param tool  as above. */
static inline const char *tp__tool_flaw(const tp_tool *tool) {
  return ((const tp__tool_copy *)(const void *)tool)->flaw;
}
/** tool_conflicts.c: whether a conflict key has the form of tp_tool_keys_add(). */
bool tp__tool_key_valid(tp_text key);
/** Copies a tool of a copy once more: its texts; the closure is the caller's matter.
 *  @return TP_OK, TP_ERR_NO_MEMORY. */
tp_status tp__tool_copy_texts(tp__arena *arena, tp_tool *tool);

/** As runtime/plan wants it. */
extern const tp__contribution_ops tp__contribution_ops_phases;

#endif
