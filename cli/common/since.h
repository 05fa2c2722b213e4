/* SPDX-License-Identifier: Apache-2.0
 *
 * since: a moment as a person writes it. */
#ifndef CLI_SINCE_H
#define CLI_SINCE_H

#include <stdbool.h>
#include <stdint.h>

/** Reads "2026-11-22", "2026-11-22T23:50", "2026-11-22T23:50:34" (UTC; a blank for the T, a Z behind it) or a time
 *  before now_ms: "90s", "10m", "2h", "3d".
 *  @return false for anything else. */
bool cli_since_read(const char *text, int64_t now_ms, int64_t *ret_unix_ms);

#endif
