/* SPDX-License-Identifier: Apache-2.0
 *
 * webhook: hooks that ask an HTTP endpoint. A helper, turnphase-webhook (webhook_main.c, libcurl), makes the request.
 * It is a program like any other: deadline, cancel, limits of output and end are those of a script. webhook.c reads
 * URLs and knows which hosts are allowed. */
#ifndef TP__DECLARED_WEBHOOK_H
#define TP__DECLARED_WEBHOOK_H

#include <stdbool.h>
#include <stddef.h>

enum { TP__WEBHOOK_HOST_SIZE = 256, TP__WEBHOOK_HEADERS_MAX = 16, TP__WEBHOOK_ANSWER_MAX = 1 << 20 };

/** Environment variables of the helper: the URL, whose path and query may be as secret as a header, and the header
 *  lines, TP__WEBHOOK_HEADER "0", "1", … They are not passed as arguments, because every user of the machine can read
 *  those. */
#define TP__WEBHOOK_URL "TURNPHASE_WEBHOOK_URL"
#define TP__WEBHOOK_HEADER "TURNPHASE_WEBHOOK_HEADER_"

/** Exit statuses of the helper, in addition to 0 (an answer with status 2xx). */
enum {
  TP__WEBHOOK_UNREACHABLE = 3, /* no connection */
  TP__WEBHOOK_UNANSWERED = 4   /* no answer, or none of status 2xx */
};

/** A URL that was taken apart. */
typedef struct tp__webhook_url {
  char host[TP__WEBHOOK_HOST_SIZE]; /* lower case; an IPv6 address with its brackets */
  size_t shown_size;                /* of the URL up to its host and port: the part that may be shown */
  unsigned port;
} tp__webhook_url;

/** Splits a URL. Stricter than the standard: https, or http to this machine; no user, no fragment, and only ASCII, so
 *  that different readers cannot see different hosts in it.
 *  @return NULL, or the error. */
const char *tp__webhook_read_url(const char *url, tp__webhook_url *ret_url);
/** @return the first entry that is neither "host:port" nor "host"; NULL: there is none. */
const char *tp__webhook_wrong_host(const char *const *hosts);
/** @param hosts  "host:port", or "host" for port 443; ended by NULL; NULL: none. */
bool tp__webhook_allows(const char *const *hosts, const tp__webhook_url *url);

#endif
