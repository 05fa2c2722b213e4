/* SPDX-License-Identifier: Apache-2.0
 *
 * merge: the contributions of one entry, made into one result. It is a pure function of what tp__merge names:
 * the inputs stand in plan order, whenever they came, and every order below is total, so equal inputs give equal bytes.
 * Whatever does not come through whole leaves a diagnostic; those of the merge stand after those of the handlers.
 * Memory is the given arena's; nothing is locked and nothing outside the arena is written; any thread.
 *
 * What is kept till the result is no longer used: the strings of the inputs, their items and all that these point to.
 * Items must have passed tp__contribution_copy(). docs/contributions.md has the rules of each kind. */
#ifndef TP__MERGE_H
#define TP__MERGE_H

#include "runtime/base/base.h"
#include "turnphase/turn.h"

enum {
  TP__CONTEXT_COUNT_MAX = 64,
  TP__CONTEXT_BYTES_MAX = 12000,
  TP__SECTION_COUNT_MAX = 16,
  TP__SECTION_BYTES_MAX = 8000,   /* of one */
  TP__SECTIONS_BYTES_MAX = 16000, /* of all */
  TP__SIGNAL_COUNT_MAX = 32,
  TP__SIGNAL_BYTES_MAX = 16 * 1024,
  TP__REMINDER_COUNT_MAX = 16,
  TP__REMINDER_BYTES_MAX = 8000,
};

enum {
  TP__MERGE_INFRA = 1,  /* subscribed through an alias whose system shows nothing to the model (TP__ALIAS_INFRA) */
  TP__MERGE_BLOCK = 2,  /* its reminders say why an action was blocked: no budget cuts them */
  TP__MERGE_FAILED = 4, /* the last item is the engine's own diagnostic of a run that failed, which is reported */
};

/** The contributions of one subscription. */
typedef struct tp__merge_input {
  const char *subscription;
  const char *owner;
  const char *handler; /* its id; NULL: the subscription stands for it */
  const char *event;   /* the name that it subscribed with; NULL: the phase's */
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
  uint32_t order; /* its place in plan order among its kind */
  tp_visibility visibility;
  struct tp__merged_item *joined; /* sections of one id, while the merge runs */
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

/** What a turn has merged so far. A set has one budget for the whole turn, so each merge is given what is there and
 *  gives the whole set anew. Zero-filled: nothing yet. */
typedef struct tp__turn_sets {
  tp__merged_list policies; /* by domain, key */
  tp__merged_list contexts; /* by falling weight, domain, id */
} tp__turn_sets;

/** Everything that a merge depends on. */
typedef struct tp__merge {
  uint32_t phase;
  bool failed; /* the entry failed closed: audit and diagnostics alone come through */
  const tp__merge_input *inputs;
  size_t input_count;
  const tp__turn_sets *sets; /* NULL: empty ones. For model.pre: the turn's policies with a context set of its own */
  const tp__merged_field *fields; /* kept; only their replaced ones are written by tp_merged_write() */
  size_t field_count;
} tp__merge;

/** Merges. A list of policies or prompt contexts to which an entry contributed nothing is empty; else it is the turn's
 *  whole set as it is from now on.
 *  @return TP_OK; TP_ERR_TOOL_CONFLICT with both owners in the fault; TP_ERR_NO_MEMORY. */
tp_status tp__merge_run(const tp__merge *merge, tp__arena *arena, tp_merged **ret_merged, tp_fault *fault);

/** Takes over the sets of a merged entry, where it has some: what is new in them is copied into the arena, which has to
 *  live as long as the sets.
 *  @return TP_OK; TP_ERR_NO_MEMORY with the sets as they were. */
tp_status tp__turn_sets_take(tp__turn_sets *sets, tp__arena *arena, const tp_merged *merged);

/** The value of a policy, or the empty text. */
tp_text tp__turn_sets_policy(const tp__turn_sets *sets, tp_text domain, tp_text key);

#endif
