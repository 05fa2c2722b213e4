/* SPDX-License-Identifier: Apache-2.0
 *
 * listen: shared by the commands that serve clients over HTTP: their address, the keys of their clients, and the
 * signals that end them. */
#ifndef CLI_LISTEN_H
#define CLI_LISTEN_H

#include <signal.h>
#include <stdint.h>

enum { CLI_KEYS_MAX = 1024 };

/** Reads "127.0.0.1:8808", "[::1]:0" or "localhost:8080".
 *  @param ret_address  numeric, freed by the caller.
 *  @return CLI_OK, or CLI_USAGE after a message. */
int cli_listen_read(const char *text, char **ret_address, uint32_t *ret_port);

/** The lines of a file of keys. Empty lines and lines that begin with # are skipped. Zero-filled: none. */
typedef struct cli_keys {
  char *text; /* wiped when it is freed */
  const char *items[CLI_KEYS_MAX + 1];
  size_t count, text_size;
} cli_keys;

/** @param file  "-": standard input. @return CLI_OK, or an exit status after a message; a file without a key is an
 *    error, too. */
int cli_keys_read(const char *file, cli_keys *keys);
void cli_keys_free(cli_keys *keys);

/** SIGTERM, SIGINT and, unless it is ignored, SIGHUP are no longer delivered, but read from a descriptor. Set up before
 *  any other thread begins, because the threads of the runtime must inherit the blocked signals. */
typedef struct cli_signals {
  sigset_t set;
  int fd; /* -1: none */
} cli_signals;

/** @return CLI_OK, or CLI_UNAVAILABLE, said. */
int cli_signals_take(cli_signals *signals);
/** Adds a signal, before any other thread begins. @return as cli_signals_take(). */
int cli_signals_add(cli_signals *signals, int number);
/** The one that waits. */
int cli_signals_next(const cli_signals *signals);
/** From here on a signal ends the process, as it does by default. */
void cli_signals_give_back(cli_signals *signals);

#endif
