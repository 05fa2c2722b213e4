/* SPDX-License-Identifier: Apache-2.0
 *
 * terms: the words of a text, and those of them that are worth looking for. Pure functions; no memory of their own. */
#ifndef TP__MEMORY_TERMS_H
#define TP__MEMORY_TERMS_H

#include "turnphase/base.h"

enum {
  TP__MEMORY_TERMS_MAX = 64,            /* distinct terms that are looked for; what follows is left out */
  TP__MEMORY_TERM_BYTES_MAX = 64,       /* what is longer is no word */
  TP__MEMORY_TERMS_TEXT_MAX = 16 * 1024 /* bytes of a text that are read for terms */
};

/** Walks the words of a text: runs of letters and digits of any script. Start with a zero-filled walk but for left. */
typedef struct tp__memory_words {
  tp_text left;       /* what is still to be read */
  tp_text word;       /* the current word: a slice of the text */
  bool begins_clause; /* the current word is the first of the text, or punctuation stands before it */
  bool started;       /* internal */
} tp__memory_words;

/** @return false at the end. */
bool tp__memory_words_next(tp__memory_words *words);

/** The code point at the start of a text that is not empty, and its length. A byte that is no UTF-8 is an 'x'. */
uint32_t tp__memory_point(tp_text text, size_t *ret_size);
/** True for a letter of a script that has no spaces between words, or endings on most of them: Han, Kana, Hangul, Thai,
 *  Lao, Khmer, Burmese, Tibetan. Of such text pairs of letters are compared. */
bool tp__memory_is_unspaced(uint32_t point);

/** True when two words are equal but for the case of ASCII letters. */
bool tp__memory_same_word(tp_text a, tp_text b);
/** True when the word is one of "alternatives|like|these". */
bool tp__memory_is_one_of(tp_text word, const char *alternatives, size_t size);

/** True for an English word that says nothing about what a text is about, and for what an apostrophe leaves behind. */
bool tp__memory_is_stop_word(tp_text word);

/** The stem of the base of an irregular English form: "went" has that of "go". Empty for any other word. Static. */
tp_text tp__memory_base_stem(tp_text word);

/** The distinct words of a text without stop words, in the order they come; a long run of a script without spaces comes
 *  in pieces. Slices of the text. */
typedef struct tp__memory_terms {
  tp_text items[TP__MEMORY_TERMS_MAX];
  size_t count;
} tp__memory_terms;

void tp__memory_terms_of(tp_text text, tp__memory_terms *ret_terms);

/** The name before "Name: text": at most three words with capitals, and 40 bytes. Empty when there is none. */
tp_text tp__memory_name_before(tp_text text);

/** True for a text of nothing but spaces and line ends. */
bool tp__memory_is_blank(tp_text text);

/** True for a text that does nothing but ask: it ends with a question mark, and no sentence of it ends otherwise. */
bool tp__memory_only_asks(tp_text text);

#endif
