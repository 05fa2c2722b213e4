/* SPDX-License-Identifier: Apache-2.0
 *
 * ready.c: whether a load balancer should send new requests here, and the word for the reason if not. */
#include <string.h>

#include "server/server.h"
#include "support/clock.h"

/* For this long after the newest failure of the store the server is not ready. Then it is ready again, so that requests
 * show whether the store works. */
enum { STORE_MS = 10000 };

void tp__server_note_end(tp_server *server, tp_status status, bool kept) {
  tp__lock_acquire(&server->lock);
  bool of_store = status != TP_OK && strcmp(tp_status_category(status), "store") == 0;
  if (of_store) server->store_failed_ms = tp__monotonic_ms();
  else if (status == TP_OK && kept) server->store_failed_ms = 0; /* its messages were appended to the history */
  tp__lock_release(&server->lock);
}

static bool look_for_reachable(void *ctx, tp_agent *agent) {
  bool *reachable = ctx;
  *reachable = tp_agent_is_reachable(agent);
  return !*reachable;
}

const char *tp__server_unready(tp_server *server) {
  tp__lock_acquire(&server->lock);
  bool drains = server->drains;
  int64_t failed_ms = server->store_failed_ms;
  tp__lock_release(&server->lock);
  if (drains) return "draining";
  if (failed_ms && tp__monotonic_ms() - failed_ms < STORE_MS) return "store_failing";
  bool reachable = true; /* also without agents, since the host may add some later */
  (void)tp_runtime_agents(server->runtime, look_for_reachable, &reachable);
  return reachable ? NULL : "no_model";
}
