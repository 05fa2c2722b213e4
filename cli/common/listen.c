/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/listen.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "runtime/base/check.h"

int cli_listen_read(const char *text, char **ret_address, uint32_t *ret_port) {
  const char *colon = strrchr(text, ':');
  char *end = NULL;
  unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
  if (!colon || !end || end == colon + 1 || *end || port > UINT16_MAX || colon == text) {
    cli_error("--http is ADDRESS:PORT, such as 127.0.0.1:8808, not '%s'", text);
    return CLI_USAGE;
  }
  size_t size = (size_t)(colon - text);
  bool is_bracketed = text[0] == '[' && text[size - 1] == ']';
  char *address = cli_alloc(size + 10);
  memcpy(address, text + is_bracketed, size - 2 * is_bracketed);
  address[size - 2 * is_bracketed] = '\0';
  if (strcmp(address, "localhost") == 0) memcpy(address, "127.0.0.1", 10);
  *ret_address = address;
  *ret_port = (uint32_t)port;
  return CLI_OK;
}

int cli_keys_read(const char *file, cli_keys *keys) {
  tp_text text = {0};
  assert(!keys->text && keys->count == 0);
  int status = cli_input_read(file, &text);
  if (status != CLI_OK) return status;
  keys->text_size = text.size + 1;
  keys->text = cli_alloc(keys->text_size);
  if (text.size > 0) {
    memcpy(keys->text, text.data, text.size);
    explicit_bzero((void *)(uintptr_t)text.data, text.size);
  }
  keys->text[text.size] = '\0';
  free((void *)(uintptr_t)text.data);
  char *rest = keys->text;
  for (char *line; (line = strsep(&rest, "\r\n"));) {
    if (!*line || *line == '#') continue;
    if (keys->count == CLI_KEYS_MAX) {
      cli_error("%s has more than %d keys", file, CLI_KEYS_MAX);
      return CLI_CONFIG;
    }
    keys->items[keys->count++] = line;
  }
  if (keys->count > 0) return CLI_OK;
  cli_error("%s has no key: openssl rand -hex 32 makes one", file);
  return CLI_CONFIG;
}

void cli_keys_free(cli_keys *keys) {
  if (keys->text) explicit_bzero(keys->text, keys->text_size);
  free(keys->text);
  *keys = (cli_keys){0};
}

int cli_signals_take(cli_signals *signals) {
  struct sigaction action;
  sigemptyset(&signals->set);
  sigaddset(&signals->set, SIGTERM);
  sigaddset(&signals->set, SIGINT);
  if (sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&signals->set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals->set, NULL);
  signals->fd = signalfd(-1, &signals->set, SFD_CLOEXEC);
  if (signals->fd >= 0) return CLI_OK;
  cli_error("there are no file descriptors left to wait with");
  return CLI_UNAVAILABLE;
}

int cli_signals_add(cli_signals *signals, int number) {
  assert(signals->fd >= 0);
  sigaddset(&signals->set, number);
  pthread_sigmask(SIG_BLOCK, &signals->set, NULL);
  if (signalfd(signals->fd, &signals->set, 0) >= 0) return CLI_OK;
  cli_error("the signal %d cannot be waited for", number);
  return CLI_UNAVAILABLE;
}

int cli_signals_next(const cli_signals *signals) {
  struct signalfd_siginfo info;
  assert(signals->fd >= 0);
  return read(signals->fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : SIGTERM;
}

void cli_signals_give_back(cli_signals *signals) {
  if (signals->fd < 0) return;
  pthread_sigmask(SIG_UNBLOCK, &signals->set, NULL);
  close(signals->fd);
  signals->fd = -1;
}
