/* SPDX-License-Identifier: Apache-2.0
 *
 * contribution: the outputs of a handler, checked when they are emitted. One table says for each kind which fields it
 * uses and which it requires. A contribution that passed these checks is well-formed for the merge and for all later
 * code. Owns nothing, has no lock; any thread. It does not check capabilities, or what a phase's row allows: the caller
 * (the sink of tp_call_emit()) does that first. */
#ifndef TP__CONTRIBUTION_H
#define TP__CONTRIBUTION_H

#include "runtime/plan/plan.h"
#include "turnphase/tool.h"

enum {
  TP__NAME_BYTES_MAX = TP_ID_BYTES_MAX, /* domain, key, title */
  TP__JOB_KEY_BYTES_MAX = 512,          /* an idempotency key often consists of several ids */
  TP__BUNDLE_TOOLS_MAX = 1024
};

/** "policy", "prompt_context", …; "unknown" for a number that is no kind. Static text. */
const char *tp__kind_name(uint32_t kind);

/** Checks one contribution without taking it: the required fields of its kind, sizes, UTF-8, msgpack, and for a
 *  tool_bundle every tool with its schema.
 *  @param allocator  for the check of large maps; NULL: that of the C library.
 *  @param phase      the phase in which it is made, for signals: each kind of signal is allowed in certain phases.
 *                    TP_PHASE_NONE: not known yet.
 *  @param fault      may be NULL; of the content it holds only names.
 *  @return TP_OK; TP_ERR_MALFORMED; TP_ERR_BAD_SCHEMA; TP_ERR_NO_MEMORY. */
tp_status tp__contribution_check(const tp_allocator *allocator, uint32_t phase, const tp_contribution *in,
                                 tp_fault *fault);

/** Checks as tp__contribution_check() does, without a phase, and copies deeply: all texts, and the descriptors of
 *  tools. Functions and ctx pointers are the handler's and stay as they are. A tool with a malformed schema is no error
 *  here, but has a flaw (tp__tool_flaw()), and the merge leaves it out. The fields that the kind does not use are zero
 *  in the copy.
 *  @param out  untouched on failure; lives as long as the arena. Its tools are structs of this library's size. */
tp_status tp__contribution_copy(tp__arena *arena, const tp_contribution *in, tp_contribution *out);

/** As tp__contribution_copy(), for a contribution that is made in this phase.
 *  @param home  on success it holds the host's objects of the tools; NULL: they hold none. */
tp_status tp__contribution_take(tp__arena *arena, uint32_t phase, const tp__closure_home *home,
                                const tp_contribution *in, tp_contribution *out, tp_fault *fault);

/** A tool in a copy that these functions made. A host's tool is only its first member. */
typedef struct tp__tool_copy {
  tp_tool tool;
  tp__closure *closure; /* the home's; NULL: it holds nothing */
  const char *flaw;     /* the error in its schema, which is then empty: "tool t: schema.type: …"; NULL: none */
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
/** Copies the texts of a tool of a copy once more. The caller must handle the closure.
 *  @return TP_OK, TP_ERR_NO_MEMORY. */
tp_status tp__tool_copy_texts(tp__arena *arena, tp_tool *tool);

/** As runtime/plan wants it. */
extern const tp__contribution_ops tp__contribution_ops_phases;

#endif
