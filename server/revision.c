/* SPDX-License-Identifier: Apache-2.0
 *
 * revision.c: the keys and the default agent of a server, at its start and when its host changes them. From the start
 * on only the front's thread uses both. The names of tenants stay until the end, each once, since open requests point
 * to them. */
#include <inttypes.h>
#include <string.h>

#include "server/server.h"
#include "support/access.h"
#include "support/clock.h"
#include "support/text.h"

enum { KEY_BYTES_MIN = 16 };

typedef struct tp__tenant_name {
  struct tp__tenant_name *next;
  char *name;
} tenant_name;

/** The values of a revision; after the change the earlier values, to be freed. */
typedef struct words {
  char **keys; /* NULL at the end */
  const char **tenants;
  size_t key_count;
  char *default_agent, *operator_key;
} words;

static tp_status no_memory(tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the server");
}

static void free_key(char *key) {
  if (key) explicit_bzero(key, strlen(key));
  tp__heap_string_free(key);
}

static void free_words(words *w) {
  for (size_t i = 0; w->keys && i < w->key_count; i++) free_key(w->keys[i]);
  tp__heap_free(w->keys, (w->key_count + 1) * sizeof *w->keys);
  tp__heap_free(w->tenants, (w->key_count + 1) * sizeof *w->tenants);
  tp__heap_string_free(w->default_agent);
  free_key(w->operator_key);
  *w = (words){.keys = NULL};
}

/* ---- what is asked for ---- */

static tp_status refuse_short(const char *which, tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_USAGE, which, "a key has at least %d characters: openssl rand -hex 32 makes one",
                    KEY_BYTES_MIN);
}

/* Runs on the front's thread, or before it starts. @return NULL: there is no memory. */
static const char *name_tenant(tp_server *server, const char *name) {
  if (!name || !name[0]) return "";
  for (const tenant_name *known = server->tenant_names; known; known = known->next)
    if (strcmp(known->name, name) == 0) return known->name;
  tenant_name *fresh = tp__heap_alloc(sizeof *fresh);
  if (!fresh) return NULL;
  *fresh = (tenant_name){.next = server->tenant_names, .name = tp__heap_copy(tp_text_of(name))};
  if (!fresh->name) {
    tp__heap_free(fresh, sizeof *fresh);
    return NULL;
  }
  server->tenant_names = fresh;
  return fresh->name;
}

static tp_status take_key(tp_server *server, words *w, size_t index, const tp_server_key *theirs, tp_fault *fault) {
  tp_server_key key;
  if (!theirs) return tp__refuse(fault, TP_ERR_USAGE, "keys", "keys[%zu] is NULL", index);
  tp_status status = tp__struct_read(&key, sizeof key, theirs, "tp_server_key", fault);
  if (status != TP_OK) return status;
  if (!key.key || strlen(key.key) < KEY_BYTES_MIN) return refuse_short("keys", fault);
  w->keys[index] = tp__heap_copy(tp_text_of(key.key));
  w->tenants[index] = name_tenant(server, key.tenant);
  return w->keys[index] && w->tenants[index] ? TP_OK : no_memory(fault);
}

/* @param w  the caller calls free_words(), also on failure. */
static tp_status take_words(tp_server *server, const tp_server_revision *r, words *w, tp_fault *fault) {
  if (r->key_count > 0 && !r->keys)
    return tp__refuse(fault, TP_ERR_USAGE, "keys", "%zu keys are announced, and the list is NULL", r->key_count);
  if (r->admin_key && strlen(r->admin_key) < KEY_BYTES_MIN) return refuse_short("admin_key", fault);
  if (!server->is_local && r->key_count == 0)
    return tp__refuse(fault, TP_ERR_USAGE, server->options.address,
                      "%s is reached from other machines: set keys, or listen on 127.0.0.1", server->options.address);
  *w = (words){.keys = tp__heap_alloc((r->key_count + 1) * sizeof *w->keys),
               .tenants = tp__heap_alloc((r->key_count + 1) * sizeof *w->tenants),
               .key_count = r->key_count};
  if (r->default_agent) w->default_agent = tp__heap_copy(tp_text_of(r->default_agent));
  if (r->admin_key) w->operator_key = tp__heap_copy(tp_text_of(r->admin_key));
  if (!w->keys || !w->tenants || !w->default_agent != !r->default_agent || !w->operator_key != !r->admin_key)
    return no_memory(fault);
  tp_status status = TP_OK;
  for (size_t i = 0; status == TP_OK && i < r->key_count; i++) status = take_key(server, w, i, r->keys[i], fault);
  return status;
}

/* Exchanges the values of the server and those of the revision. */
static void swap_words(tp_server *server, words *w) {
  const words before = {.keys = server->keys,
                        .tenants = server->tenants,
                        .key_count = server->key_count,
                        .default_agent = server->default_agent,
                        .operator_key = server->operator_keys[0]};
  server->keys = w->keys;
  server->tenants = w->tenants;
  server->key_count = w->key_count;
  server->default_agent = w->default_agent;
  server->operator_keys[0] = w->operator_key;
  *w = before;
}

tp_status tp__server_take_keys(tp_server *server, const tp_server_options *options, tp_fault *fault) {
  const tp_server_revision first = {.keys = options->keys,
                                    .key_count = options->key_count,
                                    .default_agent = options->default_agent,
                                    .admin_key = options->admin_key};
  words w = {.keys = NULL};
  tp_status status = take_words(server, &first, &w, fault);
  if (status == TP_OK) swap_words(server, &w);
  free_words(&w);
  return status;
}

void tp__server_free_keys(tp_server *server) {
  words w = {.keys = NULL};
  swap_words(server, &w);
  free_words(&w);
  for (tenant_name *next, *name = server->tenant_names; name; name = next) {
    next = name->next;
    tp__heap_string_free(name->name);
    tp__heap_free(name, sizeof *name);
  }
}

/* ---- the change ---- */

typedef struct revising {
  tp_server *server;
  tp_server_revision revision;
  tp_status status;
  tp_fault *fault;
} revising;

static void revise(void *ctx) {
  revising *r = ctx;
  words w = {.keys = NULL};
  r->status = take_words(r->server, &r->revision, &w, r->fault);
  if (r->status == TP_OK && r->revision.apply) r->status = r->revision.apply(r->revision.ctx, r->fault);
  if (r->status == TP_OK) swap_words(r->server, &w);
  free_words(&w);
}

tp_status tp_server_revise(tp_server *server, const tp_server_revision *revision, tp_fault *fault) {
  revising r = {.server = server, .fault = fault};
  if (!server || !revision) return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_server_revise() needs both");
  tp_status status = tp__struct_read(&r.revision, sizeof r.revision, revision, "tp_server_revision", fault);
  if (status != TP_OK) return status;
  if (!r.revision.admin_key != !server->live)
    return tp__refuse(fault, TP_ERR_USAGE, "admin_key", "the key of operators %s: that needs another start",
                      server->live ? "is missing" : "is new");
  tp__http_call(server->http, revise, &r);
  return r.status;
}

void tp_server_note_revision(tp_server *server, const char *refused) {
  if (!server) return;
  tp__lock_acquire(&server->lock);
  (void)tp__copy_cut(server->refused, sizeof server->refused, tp_text_of(refused ? refused : ""));
  server->revised_ms = tp__wall_ms();
  tp__lock_release(&server->lock);
}

void tp__server_put_revision(tp_server *server, tp__bytes *out) {
  tp__lock_acquire(&server->lock);
  if (server->revised_ms) tp__bytes_printf(out, ",\"revised_ms\":%" PRId64, server->revised_ms);
  if (server->refused[0]) tp__bytes_put_string(out, ",\"revision_refused\":");
  if (server->refused[0]) tp__put_json(out, tp_text_of(server->refused));
  tp__lock_release(&server->lock);
}
