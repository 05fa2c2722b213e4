/* SPDX-License-Identifier: Apache-2.0
 *
 * access_log: a line of JSON for each request of a client, written to a file by a thread of its own. What the file does
 * not take in time waits in memory up to ACCESS_LOG_BYTES_MAX. Lines above that are dropped and counted; a line
 * {"time": …, "dropped": N} in the file, and at the end one on standard error, has the count.
 *
 * Locks: one, for the lines that wait; nothing is written under it. */
#ifndef CLI_ACCESS_LOG_H
#define CLI_ACCESS_LOG_H

#include "turnphase/server.h"

enum { ACCESS_LOG_BYTES_MAX = 4 << 20 };

typedef struct cli_access_log cli_access_log;

/** Opens the file at its end, or creates it with mode 0640, and starts the thread.
 *  @param file  "-": standard output.   @param ret_log  ended by cli_access_log_close().
 *  @return CLI_OK, or an exit status, said. */
int cli_access_log_open(const char *file, cli_access_log **ret_log);
/** A tp_server_request_fn; ctx is the log. Never waits for the file. */
void cli_access_log_put(void *log, const tp_server_request *request);
/** The file is opened once more by its name before the next line is written: for logrotate. Where that fails, the old
 *  one goes on, and standard error has the reason. Accepts NULL. */
void cli_access_log_reopen(cli_access_log *log);
/** Writes what waits, and closes. Accepts NULL. */
void cli_access_log_close(cli_access_log *log);

#endif
