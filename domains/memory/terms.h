/* SPDX-License-Identifier: Apache-2.0
 *
 * terms: the words of a text, and those of them that are worth searching for. Pure functions, which allocate
 * nothing. */
#ifndef TP__MEMORY_TERMS_H
#define TP__MEMORY_TERMS_H

#include "turnphase/base.h"

enum {
  TP__MEMORY_TERMS_MAX = 64,            /* the most distinct terms that are searched for; later ones are left out */
  TP__MEMORY_TERM_BYTES_MAX = 64,       /* a longer run of letters is no word */
  TP__MEMORY_TERMS_TEXT_MAX = 16 * 1024 /* the most bytes of a text that are read for terms */
};

/** Walks the words of a text: runs of letters and digits of any script. Start with a walk that is zero-filled except
 *  left. */
typedef struct tp__memory_words {
  tp_text left;       /* the rest of the text */
  tp_text word;       /* the current word: a slice of the text */
  bool begins_clause; /* the current word is the first one of the text, or follows punctuation */
  bool started;       /* internal */
} tp__memory_words;

/** @return false at the end. */
bool tp__memory_words_next(tp__memory_words *words);

/** The code point at the start of a non-empty text, and its length. A byte that is not UTF-8 counts as an 'x'. */
uint32_t tp__memory_point(tp_text text, size_t *ret_size);
/** True for a letter of a script that has no spaces between words, or endings on most of them: Han, Kana, Hangul, Thai,
 *  Lao, Khmer, Burmese, Tibetan. For such text, pairs of letters are compared. */
bool tp__memory_is_unspaced(uint32_t point);

/** True when two words are equal, where ASCII letters of either case are equal. */
bool tp__memory_same_word(tp_text a, tp_text b);
/** True when the word is one of "alternatives|like|these". */
bool tp__memory_is_one_of(tp_text word, const char *alternatives, size_t size);

/** True for an English word that says nothing about the subject of a text, and for the parts of words with an
 *  apostrophe. */
bool tp__memory_is_stop_word(tp_text word);

/** The stem of the base of an irregular English form: for "went" that of "go". Empty for any other word. Static
 *  text. */
tp_text tp__memory_base_stem(tp_text word);

/** The distinct words of a text without stop words, in the order of the text; a long run of a script without spaces is
 *  split into pieces. They are slices of the text. */
typedef struct tp__memory_terms {
  tp_text items[TP__MEMORY_TERMS_MAX];
  size_t count;
} tp__memory_terms;

void tp__memory_terms_of(tp_text text, tp__memory_terms *ret_terms);

/** The name before "Name: text": at most three words with capitals, and 40 bytes. Empty when there is none. */
tp_text tp__memory_name_before(tp_text text);

/** True for a text of nothing but spaces and line ends. */
bool tp__memory_is_blank(tp_text text);

/** True for a text that only asks: it ends with a question mark, and no sentence of it ends otherwise. */
bool tp__memory_only_asks(tp_text text);

#endif
