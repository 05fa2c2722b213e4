/* SPDX-License-Identifier: Apache-2.0
 *
 * profile.c: `mcp` is a map of servers, as in .mcp.json, with additional options; `mcp_defer` is a number. A file may
 * also be a conversation, whose other keys are read elsewhere. */
#include "cli/mcp/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "turnphase/declared.h"

enum { DEFER_MAX = 100000, KEYS = 3 };

typedef struct profile {
  const char *path;
  tp_text text;
  tp_writer *writer;
  tp_text servers;
} profile;

bool cli_mcp_is_profile(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

/* Reports an error at the last of the keys that the file has. */
static int refuse_at(const profile *p, const char *const *keys, size_t count, const char *message) {
  uint32_t line = 0, column = 0;
  while (count > 0 && tp_yaml_place(p->text, keys, count, &line, &column, NULL) != TP_OK) count--;
  cli_error_at(p->path, line, column, "%s", message);
  return CLI_CONFIG;
}

static int take_defer(const profile *p, tp_text value, uint32_t *ret_defer) {
  static const char *const keys[] = {"mcp_defer"};
  int64_t number = tp_value_int(value, 0);
  if (number < 1 || number > DEFER_MAX)
    return refuse_at(p, keys, 1, "mcp_defer is a number of tools, from 1 to 100000");
  *ret_defer = (uint32_t)number;
  return CLI_OK;
}

static int take_key(profile *p, tp_text key, tp_text value, uint32_t *ret_defer) {
  char name[64], message[160];
  if (tp_text_is(key, "mcp_defer")) return take_defer(p, value, ret_defer);
  if (tp_text_is(key, "mcp")) p->servers = value;
  if (tp_text_is(key, "mcp") || tp_text_is(key, "mcp_expose") || tp_text_is(key, "agents") ||
      tp_text_is(key, "sessions"))
    return CLI_OK;
  snprintf(name, sizeof name, "%.*s", (int)(key.size < sizeof name ? key.size : sizeof name - 1), key.data);
  snprintf(message, sizeof message,
           "a profile has no key \"%s\", only mcp and mcp_defer, and agents and sessions of a conversation", name);
  return refuse_at(p, (const char *const[]){name}, 1, message);
}

static int read_profile(profile *p, uint32_t *ret_defer) {
  static const char *const keys[] = {"mcp"};
  tp_fault fault = {0};
  tp_text value = {NULL, 0};
  cli_need(tp_writer_new(NULL, &p->writer));
  tp_status decoded = tp_yaml_decode(p->text, p->path, p->writer, &fault);
  if (decoded == TP_OK) decoded = tp_writer_finish(p->writer, &value);
  if (decoded != TP_OK) return cli_fault(p->path, decoded, &fault);
  if (tp_value_kind_of(value) != TP_VALUE_MAP) return refuse_at(p, keys, 0, "a profile is a map with the key mcp");
  int status = CLI_OK;
  for (tp_value_walk walk = {0}; status == CLI_OK && tp_value_next(value, &walk);)
    status = take_key(p, walk.key, walk.value, ret_defer);
  if (status != CLI_OK) return status;
  if (tp_value_kind_of(p->servers) != TP_VALUE_MAP || tp_value_count(p->servers) == 0)
    return refuse_at(p, keys, 1, "mcp is a map of servers: NAME: {command: …} or NAME: {url: …}");
  return CLI_OK;
}

/* The fault's subject is SERVER.MEMBER or SERVER. */
static int refuse_server(const profile *p, tp_status status, const tp_fault *fault) {
  char subject[sizeof fault->subject], member[sizeof fault->subject];
  snprintf(subject, sizeof subject, "%s", fault->subject);
  const char *keys[KEYS] = {"mcp", subject, ""};
  size_t count = 2;
  char *dot = strrchr(subject, '.');
  if (dot && tp_yaml_place(p->text, keys, count, &(uint32_t){0}, NULL, NULL) != TP_OK) {
    *dot = '\0';
    snprintf(member, sizeof member, "%s", dot + 1);
    keys[count++] = member;
  }
  (void)!refuse_at(p, keys, count, fault->message);
  return cli_exit_of(status);
}

int cli_mcp_profile_add(tp_runtime *runtime, const char *path, const tp_mcp_config *config, uint32_t *ret_defer) {
  profile p = {.path = path};
  tp_fault fault = {0};
  int status = cli_input_read(path, &p.text);
  if (status != CLI_OK) return status;
  status = read_profile(&p, ret_defer);
  if (status == CLI_OK) {
    tp_mcp_config ours = *config;
    ours.path = NULL;
    ours.servers = p.servers;
    ours.has_options = true;
    tp_status added = tp_mcp_config_add(runtime, &ours, NULL, &fault);
    if (added != TP_OK) status = refuse_server(&p, added, &fault);
  }
  tp_writer_free(p.writer);
  free((void *)(uintptr_t)p.text.data);
  return status;
}
