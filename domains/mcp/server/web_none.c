/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces web.c where the library is built without libmicrohttpd. */
#include "domains/mcp/server/server.h"

tp_status tp__mcp_web_start(tp_mcp_server *server, tp_fault *fault) {
  assert(!server->web);
  return tp__refuse(fault, TP_ERR_NOT_FOUND, server->options.http_address,
                    "this turnphase was built without HTTP for servers (libmicrohttpd, -Dhttp=enabled): use stdio");
}

uint32_t tp__mcp_web_port(const tp_mcp_server *server) {
  (void)server;
  return 0;
}

tp_mount *tp__mcp_web_mount(tp_mcp_server *server) {
  (void)server;
  return NULL;
}

tp_status tp__mcp_web_session(tp_mcp_server *server, const char *principal, tp_session **ret_session, void **ret_hold,
                              tp_fault *fault) {
  (void)server, (void)ret_session, (void)ret_hold;
  return tp__refuse(fault, TP_ERR_NOT_FOUND, principal, "no server is mounted");
}

void tp__mcp_web_release(tp_mcp_server *server, void *hold) { (void)server, (void)hold; }
void tp__mcp_web_stop_accepting(tp_mcp_server *server) { (void)server; }
void tp__mcp_web_stop(tp_mcp_server *server) { (void)server; }
