/* SPDX-License-Identifier: Apache-2.0
 *
 * fleet_check: whether several processes that share sessions, jobs and tool calls kept their promises. Each session is
 * an append list of unique ids. Each process records its actions (fleet_event), before and after; the checker compares
 * all of them with the lists and the jobs at the end. It knows no store: its input is a history of operations with
 * their times on one monotonic clock. */
#ifndef TEST_FLEET_CHECK_H
#define TEST_FLEET_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum fleet_kind {
  FLEET_CLAIM = 1, /* count and hash: of all that the turn has of its session now */
  FLEET_APPEND,
  FLEET_TOOL,   /* a call of a tool begins */
  FLEET_JOB,    /* a job is inserted */
  FLEET_FINISH, /* a job has ended */
} fleet_kind;

typedef enum fleet_fate {
  FLEET_BEGUN,   /* nothing else is known: it may have happened */
  FLEET_DONE,    /* acknowledged */
  FLEET_REFUSED, /* and nothing of it may be there */
} fleet_fate;

typedef struct fleet_event {
  uint32_t kind, fate, session, reserved;
  uint64_t id;                              /* of the message, the call or the job: no two are alike */
  uint64_t number, fence, position, origin; /* of the claim; fence 0: there is none */
  uint64_t count, hash;
  int64_t began_ns, ended_ns; /* ended 0: of one that is begun */
} fleet_event;

/** The ids of a session at the end, in their order. */
typedef struct fleet_list {
  uint64_t *ids;
  size_t count, capacity;
} fleet_list;

typedef struct fleet_history {
  const fleet_event *events;
  size_t event_count;
  const fleet_list *lists; /* by session */
  size_t session_count;
  fleet_list jobs; /* that have succeeded, at the end, when none is open any more */
  bool has_jobs;
} fleet_history;

typedef enum fleet_rule {
  FLEET_LOST,        /* an acknowledged message is in its list */
  FLEET_TWICE,       /* a message is in the lists at most once */
  FLEET_FORGED,      /* what was refused, or never appended, is in no list */
  FLEET_TORN,        /* what a turn loaded is a beginning of the list */
  FLEET_POSITION,    /* an acknowledged message is at the position of its claim, so no position is used twice */
  FLEET_OLD_EPOCH,   /* nothing begins under a fence after a higher one was given */
  FLEET_FENCE_TWICE, /* no two claims of a session have one fence */
  FLEET_JOB_LOST,    /* an acknowledged job has succeeded in the end */
  FLEET_JOB_TWICE,   /* a job is there once, and ends once; one that was refused is not there */
  FLEET_RULES
} fleet_rule;

static const char *const fleet_rules[FLEET_RULES] = {"lost",      "twice",       "forged",   "torn",     "position",
                                                     "old epoch", "fence twice", "job lost", "job twice"};

typedef struct fleet_verdict {
  size_t broken[FLEET_RULES], sum;
  char first[160];
} fleet_verdict;

#define FLEET_HASH 14695981039346656037u
static inline uint64_t fleet_hash(uint64_t hash, uint64_t id) { return (hash ^ id) * 1099511628211u; }

static inline void fleet_add(fleet_list *list, uint64_t id) {
  if (list->count == list->capacity) {
    list->capacity = list->capacity ? 2 * list->capacity : 256;
    list->ids = (uint64_t *)realloc(list->ids, list->capacity * sizeof *list->ids);
    if (!list->ids) abort();
  }
  list->ids[list->count++] = id;
}

static inline void fleet_break(fleet_verdict *v, fleet_rule rule, const fleet_event *e) {
  if (v->sum++ == 0)
    snprintf(v->first, sizeof v->first,
             "%s: kind %u, fate %u, session %u, id %llu, fence %llu, position %llu, count %llu", fleet_rules[rule],
             e->kind, e->fate, e->session, (unsigned long long)e->id, (unsigned long long)e->fence,
             (unsigned long long)e->position, (unsigned long long)e->count);
  v->broken[rule]++;
}

/* ---- by id ---- */

/** Where a message stands, or what became of an operation. */
typedef struct fleet_place {
  uint64_t id;
  size_t session, index;
  fleet_fate fate;
} fleet_place;

static inline int fleet_by_id(const void *a, const void *b) {
  uint64_t left = ((const fleet_place *)a)->id, right = ((const fleet_place *)b)->id;
  return left < right ? -1 : left > right;
}

static inline const fleet_place *fleet_find(const fleet_place *places, size_t count, uint64_t id) {
  const fleet_place key = {.id = id};
  return count ? (const fleet_place *)bsearch(&key, places, count, sizeof *places, fleet_by_id) : NULL;
}

/* The fate of each operation of a kind: the last one that was recorded. @return sorted, each id once. */
static inline fleet_place *fleet_fates(const fleet_history *h, fleet_kind kind, size_t *ret_count) {
  fleet_place *fates = (fleet_place *)calloc(h->event_count + 1, sizeof *fates);
  size_t count = 0, kept = 0;
  for (size_t i = 0; i < h->event_count; i++)
    if (h->events[i].kind == (uint32_t)kind)
      fates[count++] = (fleet_place){h->events[i].id, h->events[i].session, i, (fleet_fate)h->events[i].fate};
  if (count) qsort(fates, count, sizeof *fates, fleet_by_id);
  for (size_t i = 0; i < count; i++) {
    if (kept > 0 && fates[kept - 1].id == fates[i].id) {
      if (fates[i].fate != FLEET_BEGUN) fates[kept - 1] = fates[i];
    } else {
      fates[kept++] = fates[i];
    }
  }
  *ret_count = kept;
  return fates;
}

static inline fleet_place *fleet_places(const fleet_list *lists, size_t list_count, size_t *ret_count) {
  size_t count = 0;
  for (size_t s = 0; s < list_count; s++) count += lists[s].count;
  fleet_place *places = (fleet_place *)calloc(count + 1, sizeof *places);
  count = 0;
  for (size_t s = 0; s < list_count; s++)
    for (size_t i = 0; i < lists[s].count; i++)
      places[count++] = (fleet_place){.id = lists[s].ids[i], .session = s, .index = i};
  if (count) qsort(places, count, sizeof *places, fleet_by_id);
  *ret_count = count;
  return places;
}

/* ---- the rules ---- */

static inline void fleet_check_messages(const fleet_history *h, fleet_verdict *v) {
  size_t fate_count, place_count;
  fleet_place *fates = fleet_fates(h, FLEET_APPEND, &fate_count);
  fleet_place *places = fleet_places(h->lists, h->session_count, &place_count);
  for (size_t i = 0; i < place_count; i++) {
    const fleet_place *fate = fleet_find(fates, fate_count, places[i].id);
    const fleet_event here = {.session = (uint32_t)places[i].session, .id = places[i].id, .position = places[i].index};
    if (i > 0 && places[i].id == places[i - 1].id) fleet_break(v, FLEET_TWICE, &here);
    if (!fate || fate->fate == FLEET_REFUSED || fate->session != places[i].session) fleet_break(v, FLEET_FORGED, &here);
  }
  for (size_t i = 0; i < fate_count; i++) {
    const fleet_event *e = &h->events[fates[i].index];
    if (fates[i].fate != FLEET_DONE) continue;
    const fleet_place *place = fleet_find(places, place_count, fates[i].id);
    if (!place) fleet_break(v, FLEET_LOST, e);
    else if (e->fence && place->index != e->position) fleet_break(v, FLEET_POSITION, e);
  }
  free(fates);
  free(places);
}

static inline void fleet_check_loads(const fleet_history *h, fleet_verdict *v) {
  for (size_t s = 0; s < h->session_count; s++) {
    const fleet_list *list = &h->lists[s];
    uint64_t *hashes = (uint64_t *)calloc(list->count + 1, sizeof *hashes); /* of each beginning */
    hashes[0] = FLEET_HASH;
    for (size_t i = 0; i < list->count; i++) hashes[i + 1] = fleet_hash(hashes[i], list->ids[i]);
    for (size_t i = 0; i < h->event_count; i++) {
      const fleet_event *e = &h->events[i];
      if (e->kind != FLEET_CLAIM || e->session != s || e->fate != FLEET_DONE) continue;
      if (e->count > list->count || hashes[e->count] != e->hash || e->position != e->count)
        fleet_break(v, FLEET_TORN, e);
    }
    free(hashes);
  }
}

static inline int fleet_by_end(const void *a, const void *b) {
  const fleet_event *left = *(const fleet_event *const *)a, *right = *(const fleet_event *const *)b;
  if (left->session != right->session) return left->session < right->session ? -1 : 1;
  return left->ended_ns < right->ended_ns ? -1 : left->ended_ns > right->ended_ns;
}

static inline int fleet_by_fence(const void *a, const void *b) {
  const fleet_event *left = *(const fleet_event *const *)a, *right = *(const fleet_event *const *)b;
  if (left->session != right->session) return left->session < right->session ? -1 : 1;
  return left->fence < right->fence ? -1 : left->fence > right->fence;
}

/* The highest epoch of the session that was given before the time, even if the session was deleted and begun again
 * since. claims: sorted by session and end; highest: for each claim, over it and those before it in its session. */
static inline uint64_t fleet_highest(const fleet_event *const *claims, const uint64_t *highest, size_t count,
                                     uint32_t session, int64_t time_ns) {
  size_t from = 0, to = count;
  while (from < to) { /* the first that is after it */
    size_t middle = from + (to - from) / 2;
    const fleet_event *c = claims[middle];
    if (c->session < session || (c->session == session && c->ended_ns < time_ns)) from = middle + 1;
    else to = middle;
  }
  return from > 0 && claims[from - 1]->session == session ? highest[from - 1] : 0;
}

static inline void fleet_check_fences(const fleet_history *h, fleet_verdict *v) {
  const fleet_event **claims = (const fleet_event **)calloc(h->event_count + 1, sizeof *claims);
  uint64_t *highest = (uint64_t *)calloc(h->event_count + 1, sizeof *highest);
  size_t count = 0;
  for (size_t i = 0; i < h->event_count; i++)
    if (h->events[i].kind == FLEET_CLAIM && h->events[i].fate == FLEET_DONE) claims[count++] = &h->events[i];
  if (count) qsort(claims, count, sizeof *claims, fleet_by_fence);
  for (size_t i = 1; i < count; i++)
    if (fleet_by_fence(&claims[i - 1], &claims[i]) == 0) fleet_break(v, FLEET_FENCE_TWICE, claims[i]);
  if (count) qsort(claims, count, sizeof *claims, fleet_by_end);
  for (size_t i = 0; i < count; i++) {
    bool is_first = i == 0 || claims[i - 1]->session != claims[i]->session;
    highest[i] = is_first || highest[i - 1] < claims[i]->fence ? claims[i]->fence : highest[i - 1];
  }
  for (size_t i = 0; i < h->event_count; i++) {
    const fleet_event *e = &h->events[i];
    bool is_effect = e->kind == FLEET_APPEND || e->kind == FLEET_TOOL || e->kind == FLEET_JOB || e->kind == FLEET_CLAIM;
    if (!is_effect || e->fate != FLEET_DONE || !e->fence) continue;
    if (fleet_highest(claims, highest, count, e->session, e->began_ns) > e->fence) fleet_break(v, FLEET_OLD_EPOCH, e);
  }
  free(claims);
  free(highest);
}

static inline void fleet_check_jobs(const fleet_history *h, fleet_verdict *v) {
  size_t fate_count, place_count, ended = 0;
  fleet_place *fates = fleet_fates(h, FLEET_JOB, &fate_count), *ends;
  fleet_place *places = fleet_places(&h->jobs, 1, &place_count);
  for (size_t i = 0; i < place_count; i++) {
    const fleet_place *fate = fleet_find(fates, fate_count, places[i].id);
    const fleet_event here = {.kind = FLEET_JOB, .id = places[i].id};
    if ((i > 0 && places[i].id == places[i - 1].id) || !fate || fate->fate == FLEET_REFUSED)
      fleet_break(v, FLEET_JOB_TWICE, &here);
  }
  for (size_t i = 0; i < fate_count; i++)
    if (fates[i].fate == FLEET_DONE && !fleet_find(places, place_count, fates[i].id))
      fleet_break(v, FLEET_JOB_LOST, &h->events[fates[i].index]);
  ends = (fleet_place *)calloc(h->event_count + 1, sizeof *ends);
  for (size_t i = 0; i < h->event_count; i++)
    if (h->events[i].kind == FLEET_FINISH && h->events[i].fate == FLEET_DONE)
      ends[ended++] = (fleet_place){.id = h->events[i].id, .index = i};
  if (ended) qsort(ends, ended, sizeof *ends, fleet_by_id);
  for (size_t i = 1; i < ended; i++)
    if (ends[i].id == ends[i - 1].id) fleet_break(v, FLEET_JOB_TWICE, &h->events[ends[i].index]);
  free(fates);
  free(places);
  free(ends);
}

static inline fleet_verdict fleet_check(const fleet_history *h) {
  fleet_verdict v = {.sum = 0};
  fleet_check_messages(h, &v);
  fleet_check_loads(h, &v);
  fleet_check_fences(h, &v);
  if (h->has_jobs) fleet_check_jobs(h, &v);
  return v;
}

#endif
