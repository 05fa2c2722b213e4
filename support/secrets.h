/* SPDX-License-Identifier: Apache-2.0
 *
 * secrets: what must not stand in a text that people or files get: keys, values of headers and of queries, passwords in
 * URLs. A list has those that are known; users and passwords of URLs are recognized by their form. No locks: a list
 * does not change once others read it. */
#ifndef TP__SUPPORT_SECRETS_H
#define TP__SUPPORT_SECRETS_H

#include "support/bytes.h"

/** Zero-filled: empty. Wiped when it is freed. */
typedef struct tp__secrets {
  char **items;
  size_t count, capacity;
  bool failed; /* no memory for one of them */
} tp__secrets;

/** Adds a text. One of fewer than 4 bytes is not kept: it would be found in ordinary words. */
void tp__secrets_add(tp__secrets *secrets, tp_text text);
/** Adds the value of a header: all of it, and what follows its scheme ("Bearer KEY"). */
void tp__secrets_add_header(tp__secrets *secrets, tp_text name, tp_text value);
/** Adds what is secret in a URL: its user and password, and the values of its query, as written and unescaped. Values
 *  of api-version are shown. */
void tp__secrets_add_url(tp__secrets *secrets, tp_text url);
void tp__secrets_fini(tp__secrets *secrets);

/** Adds a text with "[key]" in place of each secret of the list, the longest first, and of the user and password of
 *  each URL in it.   @param secrets  NULL: none. */
void tp__put_without(tp__bytes *bytes, tp_text text, const tp__secrets *secrets);
/** The size of a URL without its query, its fragment and what follows: what may be shown of where it leads. */
size_t tp__url_place_size(tp_text url);

#endif
