/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/tools.h"

#include "phases/contribution.h"

typedef struct named_permits {
  tp__link link;
  tp__permits permits;
  size_t size;
  char name[]; /* "owner tool" */
} named_permits;

/* A handful of tools in most hosts: a list will do. */
static named_permits *find_locked(tp__upper *upper, const char *owner, const char *tool) {
  size_t owner_size = strlen(owner);
  for (tp__link *link = upper->tool_permits.next; link != &upper->tool_permits; link = link->next) {
    named_permits *named = TP__CONTAINER(link, named_permits, link);
    if (strncmp(named->name, owner, owner_size) == 0 && named->name[owner_size] == ' ' &&
        strcmp(named->name + owner_size + 1, tool) == 0)
      return named;
  }
  return NULL;
}

static named_permits *add_locked(tp__upper *upper, const char *owner, const char *tool) {
  size_t size = sizeof(named_permits) + strlen(owner) + strlen(tool) + 2;
  named_permits *named = tp__alloc_zero(&upper->runtime->allocator, size);
  if (!named) return NULL;
  named->size = size;
  tp__permits_init(&named->permits);
  memcpy(named->name, owner, strlen(owner));
  named->name[strlen(owner)] = ' ';
  memcpy(named->name + strlen(owner) + 1, tool, strlen(tool) + 1);
  tp__list_push(&upper->tool_permits, &named->link);
  return named;
}

tp__permits *tp__tool_permits(tp__upper *upper, const char *owner, const char *tool, const char **ret_name) {
  tp__mutex_lock(&upper->sessions_mutex);
  named_permits *named = find_locked(upper, owner, tool);
  if (!named) named = add_locked(upper, owner, tool);
  tp__mutex_unlock(&upper->sessions_mutex);
  if (named) *ret_name = named->name + strlen(owner) + 1;
  return named ? &named->permits : NULL;
}

void tp__tool_permits_free(tp__upper *upper) {
  while (!tp__list_empty(&upper->tool_permits)) {
    named_permits *named = TP__CONTAINER(upper->tool_permits.next, named_permits, link);
    tp__list_remove(&named->link);
    tp__release(&upper->runtime->allocator, named, named->size);
  }
}

/* ---- the tools of a turn ---- */

static size_t count_tools(const tp_merged *merged) {
  size_t count = 0;
  for (size_t i = 0; i < tp_merged_count(merged, TP_KIND_TOOL_BUNDLE); i++)
    count += tp_merged_get(merged, TP_KIND_TOOL_BUNDLE, i).contribution->tool_count;
  return count;
}

static tp_status add_bundle(tp__toolset *set, tp__upper *upper, tp_merged_entry bundle) {
  tp_contribution copy;
  TP__TRY(tp__contribution_copy(&set->arena, bundle.contribution, &copy));
  for (uint32_t i = 0; i < copy.tool_count; i++) {
    const char *name;
    tp__permits *permits = tp__tool_permits(upper, bundle.owner, copy.tools[i].name, &name);
    if (!permits) return TP_ERR_NO_MEMORY;
    set->entries[set->count++] = (tp__tool_entry){&copy.tools[i], bundle.owner, name, permits};
  }
  return TP_OK;
}

tp_status tp__toolset_new(tp__upper *upper, const tp_merged *merged, tp__toolset **ret_toolset) {
  const tp_allocator *allocator = &upper->runtime->allocator;
  tp__toolset *set = tp__alloc_zero(allocator, sizeof *set);
  if (!set) return TP_ERR_NO_MEMORY;
  set->runtime = upper->runtime;
  tp__arena_init(&set->arena, allocator, NULL, 0, 0);
  set->entries = tp__arena_zero(&set->arena, (count_tools(merged) + 1) * sizeof *set->entries);
  tp_status status = set->entries ? TP_OK : TP_ERR_NO_MEMORY;
  for (size_t i = 0; status == TP_OK && i < tp_merged_count(merged, TP_KIND_TOOL_BUNDLE); i++)
    status = add_bundle(set, upper, tp_merged_get(merged, TP_KIND_TOOL_BUNDLE, i));
  if (status == TP_OK) *ret_toolset = set;
  else tp__toolset_free(set);
  return status;
}

void tp__toolset_free(tp__toolset *set) {
  if (!set) return;
  tp__arena_fini(&set->arena);
  tp__release(&set->runtime->allocator, set, sizeof *set);
}

const tp__tool_entry *tp__toolset_find(const tp__toolset *set, tp_text name) {
  for (size_t i = 0; set && i < set->count; i++)
    if (tp__text_is(name, set->entries[i].tool->name)) return &set->entries[i];
  return NULL;
}
