/* SPDX-License-Identifier: Apache-2.0
 *
 * facts: what a model makes of a turn: sentences that can be understood alone, about whom, and which older ones they
 * replace. A fact is a memory: its text is the sentence, its session, turn and time are those of the words that it was
 * made of. Each must quote the user's own words; one that does not is dropped. A replaced one stays in the file and is
 * no longer recalled. */
#ifndef TP__MEMORY_FACTS_H
#define TP__MEMORY_FACTS_H

#include "domains/memory/store.h"

enum {
  TP__MEMORY_FACTS_TEXT_MAX = 16 * 1024, /* bytes of a message that facts are extracted from */
  TP__MEMORY_FACTS_MAX = 16,             /* of one turn */
  TP__MEMORY_FACTS_KNOWN_MAX = 40,       /* that a model is shown */
  TP__MEMORY_SUBJECT_MAX = 128,          /* bytes */
  TP__MEMORY_STATEMENT_MAX = 1000
};

/** What a model proposes. Texts are borrowed. */
typedef struct tp__memory_fact {
  tp_text subject, statement;
  int64_t replaces; /* the id of a known fact; 0: none */
} tp__memory_fact;

/** Facts, with the memory of their texts. Zero-filled is empty. */
typedef struct tp__memory_facts {
  tp__memory_fact items[TP__MEMORY_FACTS_MAX];
  size_t count;
  size_t refused; /* not in the user's words, too long, or more than the bound */
  char *texts;
} tp__memory_facts;

void tp__memory_facts_fini(tp__memory_facts *facts);

/** Reads a model's answer: the last JSON in it that has the list "facts" or is that list, wherever it stands; commas
 *  that nothing follows do not count. "{}", "[]" and "no facts" in words are none. What replaces something that is not
 *  known replaces nothing.
 *  @param said   the user's words; a quote is looked for in them without regard to case, white space, the marks around
 *                it and the forms of ' and ".
 *  @param known  what the model was shown.
 *  @return TP_ERR_MALFORMED for what is not the JSON that was asked for. */
tp_status tp__memory_facts_read(tp__memory_store *store, tp_text answer, tp_text said, const tp__memory_list *known,
                                tp__memory_facts *ret_facts);

/** What a model is to know before it adds to it: facts that share words with the text, then the newest. Appends. */
tp_status tp__memory_facts_known(tp__memory_store *store, const tp__memory_scope *scope, tp_text text,
                                 tp__memory_list *list);
/** Keeps them, all or none, durable on return. Of a fact and the one that it replaces the one said later holds. A
 *  sentence that another turn's fact says already is left out.
 *  @param said  session, turn and time of the words. @param ret_kept  how many. */
tp_status tp__memory_facts_put(tp__memory_store *store, const tp__memory_scope *scope, const tp__memory *said,
                               const tp__memory_facts *facts, size_t *ret_kept);
/** What a fact replaced and what replaced it, newest first, at most 50. Appends; nothing for what is no fact. */
tp_status tp__memory_facts_history(tp__memory_store *store, const tp__memory_scope *scope, int64_t id,
                                   tp__memory_list *list);

#endif
