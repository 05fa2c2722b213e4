/* SPDX-License-Identifier: Apache-2.0
 *
 * date: dates of ISO 8601 as people write them, and back. */
#ifndef CLI_DATE_H
#define CLI_DATE_H

#include "turnphase/turnphase.h"

/** Reads "2023-05-08" (midnight), "2023-05-08T13:56", "2023-05-08 13:56:30.250", each time with "Z" or "+02:00" after
 *  it or in UTC. @return false for anything else, also for a day that its month has not. */
bool cli_date_read(tp_text text, int64_t *ret_unix_ms);

/** Reads what cli_date_read() does, from 1970 on, or a time before now: "90s", "10m", "2h", "3d". */
bool cli_date_read_since(const char *text, int64_t *ret_unix_ms);

enum { CLI_DATE_SIZE = 32 };
/** "2023-05-08T13:56:30Z", of times from year 0 to 9999; else "". */
void cli_date_write(int64_t unix_ms, char into[CLI_DATE_SIZE]);

#endif
