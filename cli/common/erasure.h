/* SPDX-License-Identifier: Apache-2.0
 *
 * erasure: what forget was asked to erase of a data directory, in a file of the directory from before the first
 * deletion until the last copy is gone: a process that dies meanwhile leaves it, and the next start finishes what
 * it says. The file is locked while a process erases, and overwritten before it is removed, since it has what is
 * erased. */
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
  cli_erasure left;  /* what it says; with no tenant and not every_tenant where it says nothing whole */
  char *bytes;       /* that left borrows from */
} cli_erasure_file;

/** Whether an erasure of the directory is under way or was interrupted. */
bool cli_erasure_is_left(const char *directory);
/** Says so, where one is: for what only looks. */
void cli_erasure_warn(const char *directory);
/** Opens and locks the file. @param makes  it, where there is none; else fd stays 0 then.
 *  @return CLI_OK; CLI_RETRY: a process erases just now; CLI_IO; each after saying so. */
int cli_erasure_open(const char *directory, bool makes, cli_erasure_file *file);
/** Writes what is erased, durable on return. @return CLI_OK or CLI_IO. */
int cli_erasure_begin(cli_erasure_file *file, const cli_erasure *request);
/** Overwrites and removes the file. @return CLI_OK or CLI_IO. */
int cli_erasure_end(cli_erasure_file *file);
/** Accepts one that is not open. */
void cli_erasure_close(cli_erasure_file *file);

#endif
