/* SPDX-License-Identifier: Apache-2.0
 *
 * secrets: finds the secrets that must not be in texts for people or files: keys, values of headers and of queries,
 * passwords in URLs. A list holds the known secrets. Users and passwords of URLs are recognized by their form. No
 * locks: a list no longer changes once other threads read it. */
#ifndef TP__SUPPORT_SECRETS_H
#define TP__SUPPORT_SECRETS_H

#include "support/bytes.h"

/** Zero-filled: empty. Its memory is overwritten when it is freed. */
typedef struct tp__secrets {
  char **items;
  size_t count, capacity;
  bool failed; /* no memory for one of them */
} tp__secrets;

/** Adds a text. A text of fewer than 4 bytes is not added, because it would be found in ordinary words. */
void tp__secrets_add(tp__secrets *secrets, tp_text text);
/** Adds the value of a header: the whole value, and the part after its scheme ("Bearer KEY"). */
void tp__secrets_add_header(tp__secrets *secrets, tp_text name, tp_text value);
/** Adds the secrets of a URL: its user and password, and the values of its query, as written and unescaped. Values of
 *  api-version are no secrets. */
void tp__secrets_add_url(tp__secrets *secrets, tp_text url);
void tp__secrets_fini(tp__secrets *secrets);

/** Adds a text, in which "[key]" replaces each secret of the list (the longest first), and the user and password of
 *  each URL. @param secrets  NULL: none. */
void tp__put_without(tp__bytes *bytes, tp_text text, const tp__secrets *secrets);
/** The size of a URL without its query and fragment, and without any text that follows: the part that may be shown. */
size_t tp__url_place_size(tp_text url);

#endif
