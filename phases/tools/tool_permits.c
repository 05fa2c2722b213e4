/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/tools/tool_permits.h"

typedef struct named_permits {
  tp__link link;
  tp__permits permits;
  size_t size;
  char name[]; /* "owner tool" */
} named_permits;

tp_status tp__tool_permits_init(tp__tool_permits *permits, const tp_allocator *allocator) {
  *permits = (tp__tool_permits){.allocator = allocator};
  tp__list_init(&permits->list);
  return tp__mutex_init(&permits->mutex, TP__RANK_tool_permits);
}

void tp__tool_permits_fini(tp__tool_permits *permits) {
  while (!tp__list_empty(&permits->list)) {
    named_permits *named = TP__CONTAINER(permits->list.next, named_permits, link);
    tp__list_remove(&named->link);
    tp__release(permits->allocator, named, named->size);
  }
  tp__mutex_fini(&permits->mutex);
}

/* Most hosts have few tools, so a list suffices. */
static named_permits *find_permits_locked(tp__tool_permits *permits, const char *owner, const char *tool) {
  TP__LOCKED(&permits->mutex);
  size_t owner_size = strlen(owner);
  for (tp__link *link = permits->list.next; link != &permits->list; link = link->next) {
    named_permits *named = TP__CONTAINER(link, named_permits, link);
    if (strncmp(named->name, owner, owner_size) == 0 && named->name[owner_size] == ' ' &&
        strcmp(named->name + owner_size + 1, tool) == 0)
      return named;
  }
  return NULL;
}

static named_permits *add_permits_locked(tp__tool_permits *permits, const char *owner, const char *tool) {
  TP__LOCKED(&permits->mutex);
  size_t size = sizeof(named_permits) + strlen(owner) + strlen(tool) + 2;
  named_permits *named = tp__alloc_zero(permits->allocator, size);
  if (!named) return NULL;
  named->size = size;
  tp__permits_init(&named->permits);
  memcpy(named->name, owner, strlen(owner));
  named->name[strlen(owner)] = ' ';
  memcpy(named->name + strlen(owner) + 1, tool, strlen(tool) + 1);
  tp__list_push(&permits->list, &named->link);
  return named;
}

tp__permits *tp__tool_permits_of(tp__tool_permits *permits, const char *owner, const char *tool, const char **ret_name,
                                 bool *ret_is_new) {
  tp__mutex_lock(&permits->mutex);
  named_permits *named = find_permits_locked(permits, owner, tool);
  *ret_is_new = !named;
  if (!named) named = add_permits_locked(permits, owner, tool);
  tp__mutex_unlock(&permits->mutex);
  if (named) *ret_name = named->name + strlen(owner) + 1;
  return named ? &named->permits : NULL;
}
