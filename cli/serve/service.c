/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"

enum { FIRST_SOCKET = 3 };

static long number_of(const char *name) {
  const char *text = getenv(name);
  char *end = NULL;
  long number = text ? strtol(text, &end, 10) : 0;
  return text && end != text && !*end ? number : 0;
}

int cli_service_read(cli_service *service) {
  const char *notify = getenv("NOTIFY_SOCKET");
  long count = number_of("LISTEN_PID") == (long)getpid() ? number_of("LISTEN_FDS") : 0;
  if (notify && (notify[0] == '/' || notify[0] == '@')) {
    size_t size = strlen(notify) + 1;
    service->notify = cli_alloc(size);
    memcpy(service->notify, notify, size);
  }
  unsetenv("NOTIFY_SOCKET");
  unsetenv("LISTEN_PID");
  unsetenv("LISTEN_FDS");
  unsetenv("LISTEN_FDNAMES");
  if (count > 1) {
    cli_error("%ld sockets were passed (LISTEN_FDS): serve listens on one", count);
    return CLI_USAGE;
  }
  if (count == 1) service->socket = FIRST_SOCKET;
  if (service->socket) (void)fcntl(service->socket, F_SETFD, FD_CLOEXEC);
  return CLI_OK;
}

void cli_service_notify(const cli_service *service, const char *lines) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  if (!service->notify) return;
  size_t size = strlen(service->notify);
  int fd = size < sizeof at.sun_path ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
  memcpy(at.sun_path, service->notify, size < sizeof at.sun_path ? size : 0);
  if (at.sun_path[0] == '@') at.sun_path[0] = '\0'; /* of no file */
  socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
  if (fd < 0 || sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (struct sockaddr *)&at, length) < 0)
    cli_error("NOTIFY_SOCKET %s: %s", service->notify, fd < 0 ? "no socket" : strerror(errno));
  if (fd >= 0) close(fd);
}

void cli_service_close_socket(cli_service *service) {
  if (service->socket) close(service->socket);
  service->socket = 0;
}

void cli_service_free(cli_service *service) {
  cli_service_close_socket(service);
  free(service->notify);
  *service = (cli_service){0};
}
