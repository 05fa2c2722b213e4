/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.h: the library turnphase-memory: long-term memory for agents as six subscribed handlers over a SQLite file
 * with full-text search. It uses public headers only and knows no other way into turnphase than yours.
 * Threads: the one that uses the edit. */
#ifndef TURNPHASE_MEMORY_H
#define TURNPHASE_MEMORY_H

#include "turnphase/runtime.h"

TP_BEGIN_DECLS

/** Zero means default. Strings are copied. */
typedef struct tp_memory_options {
  size_t struct_size;
  const char *path;              /* the SQLite file; NULL: in memory, gone with the runtime */
  uint32_t recall_max;           /* entries that a turn recalls at most, within 12,000 bytes; 0: 64; up to 64 */
  uint32_t active_recall_ms;     /* deadline of active_recall; 0: 200 */
  const char *scope;             /* user, workspace, thread, agent or task: turns with the same id of that kind share
                                    their memories, with "user" those of the same tenant; NULL: workspace */
  bool keep_assistant;           /* keep what the assistant said, too, as its own memory beside the user's; false: only
                                    what the user said */
  uint8_t reserved_[7];          /* must be zero */
} tp_memory_options;

/** Opens the file and adds to the edit:
 *    memory.policy_classifier      turn.pre_policy
 *    memory.deterministic_recall   turn.pre_prompt_context, Blocking
 *    memory.active_recall          turn.pre_prompt_context, Deadline, after deterministic_recall
 *    memory.tool_bundle            turn.pre_tool_materialization: memory_search, _get, _list, _remember, _forget
 *    memory.prompt_contract        turn.pre_prompt_compile
 *    memory.post_turn_extractor    turn.post_turn, Background
 *  The file is closed when the last handler is destroyed. On failure the edit may hold some of them: discard it.
 *  @param options  NULL: all defaults.
 *  @return TP_OK; what tp_edit_add_…() returns; TP_ERR_STORE…, TP_ERR_IO with the path in the fault; TP_ERR_USAGE,
 *          TP_ERR_VERSION for wrong options; TP_ERR_NO_MEMORY. */
TP_API tp_status tp_memory_register(tp_edit *edit, const tp_memory_options *options, tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
