/* SPDX-License-Identifier: Apache-2.0
 *
 * In the place of web.c, where the library is built without libmicrohttpd. */
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

void tp__mcp_web_stop_accepting(tp_mcp_server *server) { (void)server; }
void tp__mcp_web_stop(tp_mcp_server *server) { (void)server; }
