/* SPDX-License-Identifier: Apache-2.0 */
#include "server/mount.h"

#include <stdio.h>
#include <string.h>

#include "server/server.h"
#include "support/sha256.h"

enum { NAME_BYTES = 40 };

/** A key of a tenant that has been used. Used by the front's thread only. */
typedef struct tp__mount_client {
  struct tp__mount_client *next;
  const char *tenant; /* as of tp_server.tenants */
  char name[NAME_BYTES];
} mount_client;

/* ---- clients ---- */

/* Makes the name of a client, which is the same after a change of the keys and after a restart. */
static void name_client(const char *key, const char *tenant, char ret_name[NAME_BYTES]) {
  char hex[65];
  tp__sha256 hash;
  tp__sha256_init(&hash);
  tp__sha256_add(&hash, tenant, strlen(tenant) + 1);
  tp__sha256_add(&hash, key, strlen(key));
  tp__sha256_finish(&hash, hex);
  snprintf(ret_name, NAME_BYTES, "client-%.24s", hex);
}

static mount_client *find_client(const tp_server *server, const char *name) {
  mount_client *client = server->mount_clients;
  while (client && strcmp(client->name, name) != 0) client = client->next;
  return client;
}

/* @return NULL: there is no memory. */
static const mount_client *take_client(tp_server *server, int key, const char *tenant) {
  char name[NAME_BYTES] = "client";
  if (key >= 0) name_client(server->keys[key], tenant, name);
  mount_client *client = find_client(server, name);
  if (client) return client;
  client = tp__heap_alloc(sizeof *client);
  if (!client) return NULL;
  *client = (mount_client){.next = server->mount_clients, .tenant = tenant};
  memcpy(client->name, name, sizeof client->name);
  server->mount_clients = client;
  return client;
}

static tp_status take_session(void *ctx, const char *name, tp_session **ret_session, void **ret_hold, tp_fault *fault) {
  tp_server *server = ctx;
  const mount_client *client = find_client(server, name);
  tp__server_session *session = NULL;
  assert(client);
  tp_status status = tp__server_session_take(server, client->tenant, tp_text_of(client->name), NULL, &session, fault);
  if (status != TP_OK) return status;
  *ret_session = session->session;
  *ret_hold = session;
  return TP_OK;
}

static void release_session(void *hold) { tp__server_session_release(hold); }

/* ---- the mount ---- */

tp_status tp__mount_start(tp_server *server, tp_fault *fault) {
  const tp_mount *mount = server->options.mount;
  const tp__mount_server ours = {.ctx = server, .session_take = take_session, .session_release = release_session};
  if (!mount) return TP_OK;
  if (strcmp(mount->version, tp_version()) != 0 || mount->request_bytes != tp__http_request_bytes()) {
    const char *theirs = mount->version;
    server->options.mount = NULL;
    return tp__refuse(fault, TP_ERR_VERSION, "mount",
                      "the mount is of turnphase %s and the server of %s: both must be of one build", theirs,
                      tp_version());
  }
  if (mount->enter(mount->ctx, &ours)) return TP_OK;
  server->options.mount = NULL;
  return tp__refuse(fault, TP_ERR_USAGE, "mount", "the mount has a server already");
}

void tp__mount_answer(tp_server *server, tp__http_request *request, int key, const char *tenant, bool drains) {
  const tp_mount *mount = server->options.mount;
  const mount_client *client = take_client(server, key, tenant);
  tp__refusal refusal;
  if (client) {
    mount->request(mount->ctx, request, client->name, drains);
    return;
  }
  (void)tp__refusal_fill(&refusal, 503, "overloaded", NULL, "there is no memory for the request");
  tp__refusal_answer(&refusal, request);
}

void tp__mount_stop(tp_server *server, int64_t until_ms) {
  const tp_mount *mount = server->options.mount;
  if (mount) mount->stop(mount->ctx, until_ms);
}

void tp__mount_end(tp_server *server) {
  const tp_mount *mount = server->options.mount;
  if (mount) (void)mount->enter(mount->ctx, NULL);
  for (mount_client *next, *client = server->mount_clients; client; client = next) {
    next = client->next;
    tp__heap_free(client, sizeof *client);
  }
  server->mount_clients = NULL;
}
