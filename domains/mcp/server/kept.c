/* SPDX-License-Identifier: Apache-2.0
 *
 * kept: the files of protected states that outlive the process, in a directory of the host: the key, and a file for
 * each state that was used, which only one process can create. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "domains/mcp/server/server.h"
#include "support/clock.h"
#include "support/key_file.h"

enum {
  NONCE = 32,
  KEPT_MS = 3600000
}; /* how long after the end of a state its file stays, since the clock may be set
                                           back */

static bool is_expired(const char *name, int64_t now_ms) {
  char *end;
  if (strspn(name, "0123456789abcdef") != NONCE || name[NONCE] != '.') return false;
  int64_t expires_ms = strtoll(name + NONCE + 1, &end, 10);
  return end != name + NONCE + 1 && !*end && expires_ms < now_ms - KEPT_MS;
}

/* Removes expired files of states; other files stay. */
static void sweep(int directory) {
  int own = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = own < 0 ? NULL : fdopendir(own);
  int64_t now_ms = tp__wall_ms();
  if (!list && own >= 0) close(own);
  for (struct dirent *entry; list && (entry = readdir(list));)
    if (is_expired(entry->d_name, now_ms)) (void)!unlinkat(directory, entry->d_name, 0);
  if (list) closedir(list);
}

/* @return a descriptor, or a negative errno. */
static int open_used(const char *path) {
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return -errno;
  int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return directory < 0 ? -errno : directory;
}

static int make_used(int directory, const tp__mcp_request_state *state) {
  char name[NONCE + 24];
  snprintf(name, sizeof name, "%s.%lld", state->nonce, (long long)state->expires_ms);
  int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return errno;
  close(fd);
  return fsync(directory) == 0 ? 0 : errno; /* the file's name must be on the disk before the call runs */
}

tp_status tp__mcp_kept_use(tp_mcp_server *server, const tp__mcp_request_state *state, tp_fault *fault) {
  if (!server->states) return TP_OK;
  int directory = open_used(server->states);
  int error = directory < 0 ? -directory : make_used(directory, state);
  if (directory >= 0) {
    sweep(directory);
    close(directory);
  }
  if (error == EEXIST) return tp__refuse(fault, TP_ERR_STALE, NULL, "this requestState was used");
  if (error)
    return tp__refuse_errno(fault, TP_ERR_IO, server->states, error,
                            "nothing has run: that this requestState is used cannot be kept in %s", server->states);
  return TP_OK;
}

tp_status tp__mcp_kept_open(tp_mcp_server *server, const char *directory, tp_fault *fault) {
  tp__bytes path = {0}, states = {0};
  if (!directory) {
    if (getrandom(server->secret, sizeof server->secret, 0) == (ssize_t)sizeof server->secret) return TP_OK;
    return tp__refuse(fault, TP_ERR_SYSTEM, NULL, "there is no randomness");
  }
  tp__bytes_printf(&path, "%s/mcp-state.key", directory);
  tp__bytes_printf(&states, "%s/mcp-state", directory);
  tp_status status = TP_OK;
  if (!path.failed && !states.failed) server->states = tp__heap_copy(tp__bytes_text(&states));
  if (!server->states) status = tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the server");
  int error = server->states ? tp__key_file_load(tp__bytes_string(&path), server->secret) : 0;
  if (error) status = tp__key_file_refuse(fault, directory, tp__bytes_string(&path), "the key of requestState", error);
  int used = status == TP_OK ? open_used(server->states) : -1;
  if (status == TP_OK && used < 0)
    status = tp__refuse_errno(fault, TP_ERR_IO, server->states, -used, "%s, the used states, cannot be opened",
                              server->states);
  if (used >= 0) {
    sweep(used);
    close(used);
  }
  tp__bytes_fini(&path);
  tp__bytes_fini(&states);
  return status;
}
