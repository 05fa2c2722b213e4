/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/tools/toolset.h"

#include "phases/turn/agent.h"
#include "phases/merge/contribution.h"
#include "phases/tools/tool_permits.h"
#include "runtime/exec/blocks.h"

enum { RESULT_BYTES_MAX = 100000, PARTS_BYTES_MAX = 4 << 20, LIMIT_MS = 120000, CONCURRENT_MAX = 16 };

/* Used when the tool sets no number of its own. A tool with an inbox uses no thread, so it needs no bound. */
static uint32_t concurrent_max(const tp_tool *tool) {
  if (tool->max_concurrent) return tool->max_concurrent;
  return tool->inbox ? UINT32_MAX : CONCURRENT_MAX;
}

static size_t count_tools(const tp_merged *merged) {
  size_t count = 0;
  for (size_t i = 0; i < tp_merged_count(merged, TP_CONTRIBUTION_TOOL_BUNDLE); i++)
    count += tp_merged_get(merged, TP_CONTRIBUTION_TOOL_BUNDLE, i)->contribution->tool_count;
  return count;
}

/* Reads eight bytes at a time; most names are short. If names of a host collide, only its own tools become slower. */
static uint32_t hash_of_tool_name(tp_text name) {
  const uint64_t prime = UINT64_C(0x9E3779B97F4A7C15);
  uint64_t hash = name.size, eight;
  for (; name.size >= sizeof eight; name.data += sizeof eight, name.size -= sizeof eight) {
    memcpy(&eight, name.data, sizeof eight);
    hash = (hash ^ eight) * prime;
    hash ^= hash >> 32;
  }
  eight = 0;
  for (size_t i = 0; i < name.size; i++) eight = eight << 8 | (unsigned char)name.data[i];
  hash = (hash ^ eight) * prime;
  return (uint32_t)(hash >> 32);
}

/* The places are at most half full, so the search ends at a free one. */
tp__tool_entry *tp__toolset_find(const tp__toolset *set, tp_text name) {
  if (!set) return NULL;
  for (uint32_t place = hash_of_tool_name(name) & set->mask; set->places[place]; place = (place + 1) & set->mask) {
    tp__tool_entry *entry = &set->entries[set->places[place] - 1];
    if (tp_text_equal(entry->name, name)) return entry;
  }
  return NULL;
}

tp_status tp__tool_schema(tp__toolset *set, tp__tool_entry *tool, const tp__schema **ret_schema) {
  if (!tool->is_compiled) TP__TRY(tp__schema_compile(tool->tool->schema, &set->arena, &tool->schema));
  tool->is_compiled = true;
  *ret_schema = tool->schema;
  return TP_OK;
}

/* Logged once for each tool. The model reads these parts of its schema, but no call is refused because of them. */
static void log_unchecked(tp_runtime *runtime, const char *owner, const tp_tool *tool) {
  char names[256];
  tp__out list = {names, sizeof names, 0};
  tp_status status = tp__schema_check(tool->schema, tp__runtime_allocator(runtime), &list, NULL);
  if (status != TP_OK || list.size == 0) return;
  size_t size = tp__utf8_cut((tp_text){names, list.size < sizeof names ? list.size : sizeof names}, sizeof names - 4);
  tp__log(runtime, TP_LOG_INFO, &(tp__log_subject){.status = TP_OK},
          "tool %s of %s: calls are not checked by these parts of its schema: %.*s%s", tool->name, owner, (int)size,
          names, size < list.size ? "…" : "");
}

static tp_status add_tool(tp__toolset *set, tp_runtime *runtime, const char *owner, tp_inbox *inbox,
                          const tp_tool *tool, tp__closure *closure) {
  const char *name;
  bool is_new;
  tp__permits *permits = tp__tool_permits_of(tp__layer_tool_permits(runtime), owner, tool->name, &name, &is_new);
  if (!permits) return TP_ERR_NO_MEMORY;
  if (is_new) log_unchecked(runtime, owner, tool);
  set->entries[set->count] =
      (tp__tool_entry){.run = tool->run,
                       .ctx = tool->ctx,
                       .inbox = tp__inbox_meant(tool->inbox, inbox),
                       .closure = tp__closure_ref(closure),
                       .is_inline = tool->placement == TP_PLACEMENT_INLINE,
                       .tool = tool,
                       .owner = owner,
                       .name = tp_text_of(name),
                       .permits = permits,
                       .concurrent_max = concurrent_max(tool),
                       .result_bytes_max = tool->result_bytes_max ? tool->result_bytes_max : RESULT_BYTES_MAX,
                       .parts_bytes_max = tool->parts_bytes_max ? tool->parts_bytes_max : PARTS_BYTES_MAX,
                       .timeout_ns = (int64_t)(tool->limit_ms ? tool->limit_ms : LIMIT_MS) * TP__NS_PER_MS};
  if (tp__inbox_is_of_session(tool->inbox) && !inbox) set->needs_inbox = name;
  uint32_t index = (uint32_t)set->count++;
  uint32_t place = hash_of_tool_name(set->entries[index].name) & set->mask;
  while (set->places[place]) place = (place + 1) & set->mask;
  set->places[place] = index + 1;
  return TP_OK;
}

static tp_status add_bundle(tp__toolset *set, tp_runtime *runtime, tp_inbox *inbox, tp_merged_entry bundle) {
  uint32_t count = bundle.contribution->tool_count;
  tp_tool *copies = tp__arena_alloc(&set->arena, count * sizeof *copies);
  if (!copies) return TP_ERR_NO_MEMORY;
  for (uint32_t i = 0; i < count; i++) {
    const tp_tool *tool = bundle.contribution->tools[i];
    copies[i] = *tool;
    TP__TRY(tp__tool_copy_texts(&set->arena, &copies[i]));
    TP__TRY(add_tool(set, runtime, bundle.owner, inbox, &copies[i], tp__tool_closure(tool)));
  }
  return TP_OK;
}

static bool reserve_tools(tp__toolset *set, size_t count) {
  uint32_t places = 8;
  while (places < 2 * count) places *= 2;
  set->mask = places - 1;
  set->places = tp__arena_zero(&set->arena, places * sizeof *set->places);
  set->entries = tp__arena_alloc(&set->arena, count * sizeof *set->entries);
  return set->places && set->entries;
}

tp__toolset *tp__toolset_ref(tp__toolset *set) {
  if (set) tp__a32_add_relaxed(&set->refs, 1);
  return set;
}

void tp__toolset_unref(tp__toolset *set) {
  if (!set || tp__a32_sub_acq_rel(&set->refs, 1) != 1) return;
  for (size_t i = 0; i < set->count; i++) tp__closure_unref(set->entries[i].closure);
  tp__arena_fini(&set->arena);
  tp__block_give(tp__runtime_blocks(set->runtime), set, set->block_size);
}

/* @param agent  whose scope it is; NULL: all tools are allowed. @param inbox of the turn's session; NULL: none. */
static tp_status new_toolset(tp_runtime *runtime, const tp_agent *agent, tp_inbox *inbox, const tp_merged *merged,
                             tp__toolset **ret_toolset) {
  size_t block_size;
  tp__toolset *set = tp__block_take(tp__runtime_blocks(runtime), TP__BLOCK_BYTES_MIN, &block_size);
  if (!set) return TP_ERR_NO_MEMORY;
  *set = (tp__toolset){.runtime = runtime, .block_size = block_size};
  atomic_init(&set->refs.v, 1);
  tp__arena_init(&set->arena, &tp__runtime_blocks(set->runtime)->as_allocator, set + 1, block_size - sizeof *set, 0);
  tp_status status = reserve_tools(set, count_tools(merged)) ? TP_OK : TP_ERR_NO_MEMORY;
  for (size_t i = 0; status == TP_OK && i < tp_merged_count(merged, TP_CONTRIBUTION_TOOL_BUNDLE); i++)
    status = add_bundle(set, runtime, inbox, *tp_merged_get(merged, TP_CONTRIBUTION_TOOL_BUNDLE, i));
  for (size_t i = 0; agent && i < set->count; i++)
    set->entries[i].out_of_scope = !tp_agent_has_in_scope(agent, set->entries[i].name);
  if (status == TP_OK) *ret_toolset = set;
  else tp__toolset_unref(set);
  return status;
}

tp_status tp__turn_take_tools(tp_turn *turn, const tp_merged *merged, const char **ret_needs_inbox) {
  tp__toolset *toolset;
  TP__TRY(new_toolset(turn->core.runtime, turn->agent, turn->core.inbox, merged, &toolset));
  tp__toolset_unref(turn->toolset);
  turn->toolset = toolset;
  *ret_needs_inbox = toolset->needs_inbox;
  return TP_OK;
}
