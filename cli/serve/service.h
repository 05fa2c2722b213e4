/* SPDX-License-Identifier: Apache-2.0
 *
 * service: what a manager of services such as systemd passes to a process in its environment: a socket that listens,
 * and where the process notifies that it is ready, reloads and ends. No state but the environment. */
#ifndef CLI_SERVICE_H
#define CLI_SERVICE_H

/** Zero-filled: no manager. */
typedef struct cli_service {
  char *notify; /* NULL: nowhere */
  int socket;   /* 0: none was passed */
} cli_service;

/** Reads the variables LISTEN_PID, LISTEN_FDS and NOTIFY_SOCKET, and removes them, so that no child of this process
 *  takes them for its own. Before any other thread is begun.
 *  @return CLI_OK; CLI_USAGE, said, when more than one socket was passed. */
int cli_service_read(cli_service *service);
/** Sends lines such as "READY=1". A failure is said. */
void cli_service_notify(const cli_service *service, const char *lines);
/** Closes this process's own descriptor of the socket. */
void cli_service_close_socket(cli_service *service);
void cli_service_free(cli_service *service);

#endif
