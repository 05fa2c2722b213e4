/* SPDX-License-Identifier: Apache-2.0
 *
 * merge_tools.c: keeps tool bundles in plan order. A handler's bundle id occurs once, and so does a tool's name. Two
 * owners that contribute the same name are an error, because the model could not say which function it means. A tool
 * with a malformed schema is left out. */
#include "phases/merge/contribution.h"
#include "phases/merge/merge_part.h"

/* ---- bundles ---- */

static int compare_bundle_id(const tp__merged_item *a, const tp__merged_item *b) {
  int order = strcmp(a->handler, b->handler);
  return order ? order : tp__compare_key(a, b);
}

static tp_status drop_bundle(tp__merge_state *state, const tp__merged_item *first, tp__merged_item *again) {
  (void)first;
  return tp__merge_drop(state, again, "merge.duplicate", "its handler contributed a bundle of this id before");
}

/* Makes the bundle without its dropped tools. */
static tp_status reduce(tp__merge_state *state, tp__merged_item *bundle,
                        bool (*is_dropped)(const void *ctx, uint32_t i), const void *ctx) {
  const tp_contribution *whole = bundle->entry.contribution;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < whole->tool_count; i++) kept += !is_dropped(ctx, i);
  if (kept == whole->tool_count) return TP_OK;
  tp_contribution *reduced = tp__arena_alloc(state->arena, sizeof *reduced);
  const tp_tool **left = tp__arena_alloc(state->arena, kept * sizeof *left);
  if (!reduced || !left) return TP_ERR_NO_MEMORY;
  *reduced = *whole;
  reduced->tools = left;
  reduced->tool_count = 0;
  for (uint32_t i = 0; i < whole->tool_count; i++) {
    if (!is_dropped(ctx, i)) left[reduced->tool_count++] = whole->tools[i];
  }
  bundle->entry.contribution = reduced;
  return TP_OK;
}

/* ---- tools ---- */

static bool has_flaw(const void *ctx, uint32_t index) {
  const tp_contribution *bundle = ctx;
  return tp__tool_flaw(bundle->tools[index]) != NULL;
}

/* A tool whose schema is malformed is left out; the turn keeps the other tools. */
static tp_status leave_out_flawed(tp__merge_state *state, tp__merged_item *bundle) {
  const tp_contribution *whole = bundle->entry.contribution;
  for (uint32_t i = 0; i < whole->tool_count; i++) {
    const char *flaw = tp__tool_flaw(whole->tools[i]);
    if (flaw)
      TP__TRY(tp__merge_note_add(state, bundle, TP_SEVERITY_ERROR, "tool.bad_schema", "%s: it is left out", flaw));
  }
  return reduce(state, bundle, has_flaw, whole);
}

/* Makes a bundle of one tool, whose key is the tool's name; `joined` points to the bundle that it came from. */
static tp_status split(tp__merge_state *state, tp__merge_list *bundles, tp__merge_list *ret_tools) {
  size_t count = 0;
  for (size_t i = 0; i < bundles->count; i++) count += bundles->items[i].entry.contribution->tool_count;
  tp__merged_item *items = tp__arena_alloc(state->arena, count * sizeof *items);
  tp_contribution *contributions = tp__arena_alloc(state->arena, count * sizeof *contributions);
  if (!items || !contributions) return TP_ERR_NO_MEMORY;
  *ret_tools = (tp__merge_list){items, 0};
  for (size_t i = 0; i < bundles->count; i++) {
    tp__merged_item *bundle = &bundles->items[i];
    for (uint32_t j = 0; j < bundle->entry.contribution->tool_count; j++) {
      const tp_tool *const *tool = &bundle->entry.contribution->tools[j];
      size_t index = ret_tools->count++;
      contributions[index] =
          (tp_contribution){.struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_TOOL_BUNDLE, .tools = tool};
      contributions[index].key = tp_text_of((*tool)->name);
      items[index] = *bundle;
      items[index].entry.contribution = &contributions[index];
      items[index].order = (uint32_t)index;
      items[index].joined = bundle;
    }
  }
  return TP_OK;
}

static tp_status settle_conflict(tp__merge_state *state, const tp__merged_item *first, tp__merged_item *again) {
  const char *name = again->entry.contribution->tools[0]->name;
  if (strcmp(first->entry.owner, again->entry.owner) != 0) {
    return tp__fail(
        state->fault, TP_ERR_TOOL_CONFLICT, name,
        "tool %s is contributed by owner %s (subscription %s) and by owner %s (subscription %s): rename one", name,
        first->entry.owner, first->entry.subscription, again->entry.owner, again->entry.subscription);
  }
  again->flags |= TP__MERGE_DROPPED;
  return tp__merge_note_add(state, again->joined, TP_SEVERITY_WARNING, "merge.duplicate",
                            "tool %s is left out: the owner contributed it before, through %s", name,
                            first->entry.subscription);
}

static bool was_dropped(const void *ctx, uint32_t index) {
  const tp__merged_item *tools = ctx; /* in the bundle's order */
  return tools[index].flags & TP__MERGE_DROPPED;
}

tp_status tp__merge_tools(tp__merge_state *state, tp__merge_list *list) {
  tp__merge_list tools;
  tp__merged_item **sorted;
  TP__TRY(tp__merge_equals(state, list, compare_bundle_id, drop_bundle, &sorted));
  tp__merge_squeeze(list);
  for (size_t i = 0; i < list->count; i++) TP__TRY(leave_out_flawed(state, &list->items[i]));
  TP__TRY(split(state, list, &tools));
  TP__TRY(tp__merge_equals(state, &tools, tp__compare_key, settle_conflict, &sorted));
  for (size_t i = 0, at = 0; i < list->count; i++) {
    size_t count = list->items[i].entry.contribution->tool_count;
    TP__TRY(reduce(state, &list->items[i], was_dropped, tools.items + at));
    at += count;
  }
  return TP_OK;
}
