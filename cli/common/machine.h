/* SPDX-License-Identifier: Apache-2.0
 *
 * machine: the machine and the build of the command, which must be known to interpret measured figures. */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum { CLI_MACHINE_TEXT_SIZE = 128 };

typedef struct cli_machine {
  char system[CLI_MACHINE_TEXT_SIZE];       /* "Linux 6.1.0" */
  char architecture[CLI_MACHINE_TEXT_SIZE]; /* "x86_64" */
  char processor[CLI_MACHINE_TEXT_SIZE];    /* the name that it reports; empty when it reports none */
  uint32_t processors;                      /* the processors that this process may use */
  const char *compiler, *build;             /* "gcc 12.2.0", meson's buildtype */
  bool optimized, assertions;
  const char *sanitizers; /* "address", …; empty for none */
} cli_machine;

cli_machine cli_machine_read(void);

#endif
