/* SPDX-License-Identifier: Apache-2.0
 *
 * date: dates of ISO 8601 as people write them, and back. */
#ifndef CLI_DATE_H
#define CLI_DATE_H

#include "turnphase/turnphase.h"

/** Reads "2023-05-08" (midnight), "2023-05-08T13:56" or "2023-05-08 13:56:30.250". A time may be followed by "Z" or
 *  "+02:00"; without these it is in UTC. @return false for anything else, also for a day that the month does not
 *  have. */
bool cli_date_read(tp_text text, int64_t *ret_unix_ms);

/** Reads the forms of cli_date_read(), from 1970 on, or a time before now: "90s", "10m", "2h", "3d". */
bool cli_date_read_since(const char *text, int64_t *ret_unix_ms);

enum { CLI_DATE_SIZE = 32 };
/** Writes "2023-05-08T13:56:30Z" for times from year 0 to 9999; else "". */
void cli_date_write(int64_t unix_ms, char into[CLI_DATE_SIZE]);

#endif
