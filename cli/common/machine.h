/* SPDX-License-Identifier: Apache-2.0
 *
 * machine: where and as what the command runs: what must be known of figures besides the figures. */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum { CLI_MACHINE_TEXT_SIZE = 128 };

typedef struct cli_machine {
  char system[CLI_MACHINE_TEXT_SIZE];       /* "Linux 6.1.0" */
  char architecture[CLI_MACHINE_TEXT_SIZE]; /* "x86_64" */
  char processor[CLI_MACHINE_TEXT_SIZE];    /* as it calls itself; empty when it does not say */
  uint32_t processors;                      /* that this process may use */
  const char *compiler, *build;             /* "gcc 12.2.0", meson's buildtype */
  bool optimized, assertions;
  const char *sanitizers; /* "address", …; empty for none */
} cli_machine;

cli_machine cli_machine_read(void);

#endif
