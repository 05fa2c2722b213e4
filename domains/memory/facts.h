/* SPDX-License-Identifier: Apache-2.0
 *
 * facts: the facts that a model extracts from a turn: sentences that can be understood without context, each with its
 * subject and the older fact that it replaces. A fact is a memory: its text is the sentence, and its session, turn and
 * time are those of the words from which it was made. Each fact must quote the user's own words; a fact without such a
 * quote is dropped. A replaced fact stays in the file and is no longer recalled. */
#ifndef TP__MEMORY_FACTS_H
#define TP__MEMORY_FACTS_H

#include "domains/memory/store.h"

enum {
  TP__MEMORY_FACTS_TEXT_MAX = 16 * 1024, /* the most bytes of a message from which facts are extracted */
  TP__MEMORY_FACTS_MAX = 16,             /* the most facts of one turn */
  TP__MEMORY_FACTS_KNOWN_MAX = 40,       /* the most known facts that a model is shown */
  TP__MEMORY_SUBJECT_MAX = 128,          /* the most bytes of a subject */
  TP__MEMORY_STATEMENT_MAX = 1000
};

/** A fact that a model proposes. Texts are borrowed. */
typedef struct tp__memory_fact {
  tp_text subject, statement;
  int64_t replaces; /* the id of a known fact; 0: none */
} tp__memory_fact;

/** Facts, with the memory of their texts. Zero-filled is empty. */
typedef struct tp__memory_facts {
  tp__memory_fact items[TP__MEMORY_FACTS_MAX];
  size_t count;
  size_t refused; /* facts whose quote is not in the user's words, that are too long, or that exceed the bound */
  char *texts;
} tp__memory_facts;

void tp__memory_facts_fini(tp__memory_facts *facts);

/** Reads a model's answer: the last JSON in it that has the list "facts" or is that list, wherever it stands; commas
 *  that nothing follows do not count. "{}", "[]" and "no facts" in words mean that there are none. A fact that replaces
 *  an unknown fact replaces nothing.
 *  @param said   the user's words; a quote is looked for in them without regard to case, white space, the marks around
 *                it and the forms of ' and ".
 *  @param known  the facts that the model was shown.
 *  @return TP_ERR_MALFORMED for JSON of a wrong form. */
tp_status tp__memory_facts_read(tp__memory_store *store, tp_text answer, tp_text said, const tp__memory_list *known,
                                tp__memory_facts *ret_facts);

/** Appends the facts that a model must know before it adds to them: those that share words with the text, then the
 *  newest ones. */
tp_status tp__memory_facts_known(tp__memory_store *store, const tp__memory_scope *scope, tp_text text,
                                 tp__memory_list *list);
/** Keeps facts, all or none, durable on return. Of a fact and the one that it replaces, the one that was said later
 *  stays valid. A sentence that is already a fact of another turn is left out.
 *  @param said  session, turn and time of the words. @param ret_kept  how many were kept. */
tp_status tp__memory_facts_put(tp__memory_store *store, const tp__memory_scope *scope, const tp__memory *said,
                               const tp__memory_facts *facts, size_t *ret_kept);
/** Appends what a fact replaced and what replaced it, newest first, at most 50; nothing for a memory that is no
 *  fact. */
tp_status tp__memory_facts_history(tp__memory_store *store, const tp__memory_scope *scope, int64_t id,
                                   tp__memory_list *list);

#endif
