/* SPDX-License-Identifier: Apache-2.0
 *
 * erasure: the request of an erasure in a data directory. It is stored in a file of the directory from before the first
 * deletion until the last copy is gone. If the process dies meanwhile, the file stays, and the next start finishes the
 * erasure. The file is locked while a process erases. It is overwritten before it is removed, because it contains text
 * that is to be erased. */
#ifndef CLI_ERASURE_H
#define CLI_ERASURE_H

#include "turnphase/turnphase.h"

/** What is erased. Texts are borrowed. */
typedef struct cli_erasure {
  const char *tenant;                          /* NULL: none is asked for, or every_tenant */
  const char *session, *person, *matching;     /* NULL: any */
  int64_t sessions_before_ms, turns_before_ms; /* 0: any */
  bool every_tenant;                           /* what is as old of each of them */
} cli_erasure;

/** The file. Starts zero-filled. */
typedef struct cli_erasure_file {
  char *path;
  int fd, directory; /* 0: not open */
  /* the request in the file; with no tenant and not every_tenant when the file holds no complete request */
  cli_erasure left;
  char *bytes; /* that left borrows from */
} cli_erasure_file;

/** Whether an erasure of the directory is running, or was interrupted. */
bool cli_erasure_is_left(const char *directory);
/** Prints a warning if there is such an erasure; for commands that only read. */
void cli_erasure_warn(const char *directory);
/** Opens and locks the file. @param makes  creates the file if there is none; otherwise fd then stays 0.
 *  @return CLI_OK; or after a message: CLI_RETRY when a process is erasing now; CLI_IO. */
int cli_erasure_open(const char *directory, bool makes, cli_erasure_file *file);
/** Writes the request; it is durable when this returns. @return CLI_OK or CLI_IO. */
int cli_erasure_begin(cli_erasure_file *file, const cli_erasure *request);
/** Overwrites and removes the file. @return CLI_OK or CLI_IO. */
int cli_erasure_end(cli_erasure_file *file);
/** Accepts one that is not open. */
void cli_erasure_close(cli_erasure_file *file);

#endif
