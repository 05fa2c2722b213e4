/* SPDX-License-Identifier: Apache-2.0
 *
 * merge: makes one result of the contributions of one entry. It is a pure function of the fields of tp__merge: the
 * inputs are in plan order, whenever they came, and every order below is total, so equal inputs give equal bytes. A
 * contribution that is dropped or cut leaves a diagnostic; the diagnostics of the merge come after those of the
 * handlers. Memory is the given arena's; nothing is locked and nothing outside the arena is written; any thread.
 *
 * The strings of the inputs, their items and everything to which these point are kept until the result is no longer
 * used. Items must have passed tp__contribution_copy(). docs/contributions.md has the rules of each kind. */
#ifndef TP__MERGE_H
#define TP__MERGE_H

#include "runtime/base/base.h"
#include "turnphase/turn.h"

enum {
  TP__CONTEXT_COUNT_MAX = 64,
  TP__CONTEXT_BYTES_MAX = 12000,
  TP__SECTION_COUNT_MAX = 16,
  TP__SECTION_BYTES_MAX = 8000,   /* most bytes of one section */
  TP__SECTIONS_BYTES_MAX = 16000, /* most bytes of all sections */
  TP__SIGNAL_COUNT_MAX = 32,
  TP__SIGNAL_BYTES_MAX = 16 * 1024,
  TP__REMINDER_COUNT_MAX = 16,
  TP__REMINDER_BYTES_MAX = 8000,
};

enum {
  /* subscribed through an alias whose hooks must not show anything to the model (TP__ALIAS_INFRA) */
  TP__MERGE_INFRA = 1,
  TP__MERGE_BLOCK = 2,  /* its reminders say why an action was blocked, so no budget cuts them */
  TP__MERGE_FAILED = 4, /* the last item is the engine's own diagnostic about a failed run, which is reported */
};

/** The contributions of one subscription. */
typedef struct tp__merge_input {
  const char *subscription;
  const char *owner;
  const char *handler; /* its id; NULL: the id of the subscription is used instead */
  const char *event;   /* the alias with which it was subscribed; NULL: the phase's name */
  uint32_t attempt;
  uint32_t flags; /* TP__MERGE_* */
  const tp_contribution *items;
  size_t count;
  tp_visibility visibility; /* the subscription's */
} tp__merge_input;

/** An entry of the result. The public part is first. */
typedef struct tp__merged_item {
  tp_merged_entry entry;
  const char *handler, *event;
  uint32_t flags; /* TP__MERGE_*, and the merge's own */
  uint32_t order; /* the place in plan order among the items of its kind */
  tp_visibility visibility;
  struct tp__merged_item *joined; /* during the merge: the next section with the same id */
} tp__merged_item;

typedef struct tp__merged_list {
  const tp__merged_item *items;
  size_t count;
} tp__merged_list;

/** A payload field as a chain left it. */
typedef struct tp__merged_field {
  tp_field field;
  bool replaced;
} tp__merged_field;

struct tp_merged {
  uint32_t phase;
  tp__merged_list lists[TP_CONTRIBUTION_COUNT];
  const tp__merged_field *fields;
  size_t field_count;
};

/** The sets that a turn has merged so far. A set has one budget for the whole turn. So each merge gets the existing
 *  sets and returns complete new ones. Zero-filled: nothing was merged yet. */
typedef struct tp__turn_sets {
  tp__merged_list policies; /* sorted by domain, key */
  tp__merged_list contexts; /* sorted by falling weight, domain, id */
} tp__turn_sets;

/** Everything that a merge depends on. */
typedef struct tp__merge {
  uint32_t phase;
  bool failed; /* the entry failed closed: only audit items and diagnostics are in the result */
  const tp__merge_input *inputs;
  size_t input_count;
  const tp__turn_sets *sets; /* NULL: empty sets. For model.pre: the turn's policies and a separate set of contexts */
  const tp__merged_field *fields; /* kept; tp_merged_write() writes only the replaced ones */
  size_t field_count;
} tp__merge;

/** Merges. If an entry contributed no policies (or prompt contexts), that list of the result is empty; else it is the
 *  turn's whole new set.
 *  @return TP_OK; TP_ERR_TOOL_CONFLICT with both owners in the fault; TP_ERR_NO_MEMORY. */
tp_status tp__merge_run(const tp__merge *merge, tp__arena *arena, tp_merged **ret_merged, tp_fault *fault);

/** Takes over the sets of a merged entry, if it has any. New items are copied into the arena, which must live as long
 *  as the sets.
 *  @return TP_OK; TP_ERR_NO_MEMORY with the sets as they were. */
tp_status tp__turn_sets_take(tp__turn_sets *sets, tp__arena *arena, const tp_merged *merged);

/** The value of a policy, or the empty text. */
tp_text tp__turn_sets_policy(const tp__turn_sets *sets, tp_text domain, tp_text key);

#endif
