/* SPDX-License-Identifier: Apache-2.0
 *
 * mount: what another library answers at a path of a server (tp_server_options.mount), behind its keys and on its
 * connections. Two libraries share this header and server/http.h, and each has a copy of the code of http.c: a mount of
 * another version, or of another build, is refused when the server starts.
 *
 * The server decides who may call, finds the tenant, and writes the access log and the metrics; the mount answers. A
 * client is one key of one tenant. Each client has a session of its own for what the mount runs for it: so this has the
 * tenant and the environment of the server.
 *
 * Ownership: the mount belongs to the library that answers, and outlives the server. A server has at most one mount,
 * and a mount at most one server at a time.
 * Threads: all functions of a mount but `stop` are called on the front's thread; `stop` on that of tp_server_free().
 * session_take is called from `request` only, session_release on any thread. No lock is held. */
#ifndef TP__SERVER_MOUNT_H
#define TP__SERVER_MOUNT_H

#include "server/http.h"
#include "turnphase/turn.h"

/** What a mount may call: a server's. */
typedef struct tp__mount_server {
  void *ctx;
  /** The session of a client, kept open until it is released.
   *  @param client  as `request` got it.   @param ret_hold  for session_release. */
  tp_status (*session_take)(void *ctx, const char *client, tp_session **ret_session, void **ret_hold, tp_fault *fault);
  void (*session_release)(void *hold);
} tp__mount_server;

struct tp_mount {
  /** tp_version() and tp__http_request_bytes() of the library that answers. */
  const char *version;
  size_t request_bytes;
  /** A server begins to pass requests, and outlives them; NULL: it passes none any more.
   *  @return false: the mount has a server. */
  bool (*enter)(void *ctx, const tp__mount_server *server);
  /** A request of a client that may call. The mount hands it over to its own handlers (tp__http_hand_over()), and ends
   *  it.
   *  @param client  names the key and the tenant without showing the key, 1 to 79 bytes; borrowed.
   *  @param drains  the server ends: nothing new begins, and what clients say about calls that run is taken. */
  void (*request)(void *ctx, tp__http_request *request, const char *client, bool drains);
  /** Begins nothing new, lets what runs end until then, and cancels the rest. When it returns nothing runs. */
  void (*stop)(void *ctx, int64_t until_ms);
  void *ctx;
};

#endif
