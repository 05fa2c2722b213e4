/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/turn/agent_config.h"

#include <stdlib.h>
#include <sys/utsname.h>

#include "phases/merge/phases.h"
#include "phases/turn/turn.h"

static bool is_texts(tp_text value) { return tp__is_list_of(value, TP_VALUE_TEXT); }
static bool is_text_value(tp_text value) { return tp_value_kind_of(value) == TP_VALUE_TEXT; }

/* A key is rendered without escaping, so it must not be able to end its line or its block. */
static bool is_config_key(tp_text key) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  for (size_t i = 0; i < key.size; i++)
    if (!memchr(letters, key.data[i], sizeof letters - 1)) return false;
  return key.size > 0;
}

static bool is_map_of(tp_text value, bool (*is_right)(tp_text value)) {
  if (tp_value_kind_of(value) != TP_VALUE_MAP) return false;
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);)
    if (!is_config_key(walk.key) || !is_right(walk.value)) return false;
  return true;
}

static bool is_map_of_text(tp_text value) { return is_map_of(value, is_text_value); }
static bool is_map_of_texts(tp_text value) { return is_map_of(value, is_texts); }

/* A list of the wrong kind would be read as no list, and so as no restriction; a hint of the wrong kind would be
 * lost. */
tp_status tp__agent_config_check(tp_text map, const char *agent, const char *what, tp_fault *fault) {
  static const struct {
    const char *key, *shape;
    bool (*is_right)(tp_text value);
  } keys[] = {{"tools", "an array of texts", is_texts},
              {"tools_denied", "an array of texts", is_texts},
              {"skills", "an array of texts", is_texts},
              {"environment", "a map of texts, its keys of letters, digits, _, - and .", is_map_of_text},
              {"resources", "a map of arrays of texts, its keys of letters, digits, _, - and .", is_map_of_texts}};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    tp_text value = tp_value_get(map, keys[i].key);
    if (value.size > 0 && !keys[i].is_right(value))
      return tp__fail(fault, TP_ERR_MALFORMED, agent, "%s: %s must be %s", what, keys[i].key, keys[i].shape);
  }
  return TP_OK;
}

tp_status tp__agent_extra_check(const tp_agent_config *config, tp_fault *fault) {
  for (size_t i = 0; i < sizeof config->reserved_; i++)
    if (config->reserved_[i] != 0)
      return tp__fail(fault, TP_ERR_USAGE, config->id, "tp_agent_config.reserved_ must be zero");
  if (config->extra.size == 0) return TP_OK;
  TP__TRY(tp_value_check(config->extra, fault));
  if (tp_value_kind_of(config->extra) != TP_VALUE_MAP)
    return tp__fail(fault, TP_ERR_MALFORMED, config->id, "tp_agent_config: extra must be a map");
  for (tp_value_walk walk = {0}; tp_value_next(config->extra, &walk);) {
    if (tp_text_is(walk.key, "system") || tp_text_is(walk.key, "model") ||
        (config->environment && tp_text_is(walk.key, "environment")))
      return tp__fail(fault, TP_ERR_MALFORMED, config->id,
                      "tp_agent_config: extra has the key %.*s, which has a field of its own", (int)walk.key.size,
                      walk.key.data);
  }
  return tp__agent_config_check(config->extra, config->id, "tp_agent_config.extra", fault);
}

/* ---- writing ---- */

static void write_string_pair(tp_writer *writer, const char *key, const char *value) {
  tp_write_string(writer, key);
  tp_write_string(writer, value);
}

tp_status tp__agent_config_write(const tp_allocator *allocator, const tp_agent_config *config, tp_writer **ret_writer,
                                 tp_text *ret_value) {
  tp_writer *writer;
  TP__TRY(tp_writer_new(allocator, &writer));
  tp_write_map(writer, (size_t)2 + config->environment + tp_value_count(config->extra));
  write_string_pair(writer, "system", config->system ? config->system : "");
  write_string_pair(writer, "model", config->model_name ? config->model_name : "");
  if (config->environment) {
    /* A value that the system does not give, or not in UTF-8, gets no key. */
    struct utsname system = {.sysname = ""};
    const char *shell = getenv("SHELL");
    bool has_shell = shell && shell[0] && tp_utf8_valid(tp_text_of(shell), NULL);
    bool has_system = uname(&system) == 0;
    tp_write_string(writer, "environment");
    tp_write_map(writer, (has_system ? 2 : 0) + (size_t)has_shell);
    if (has_system) write_string_pair(writer, "os", system.sysname);
    if (has_shell) write_string_pair(writer, "shell", shell);
    if (has_system) write_string_pair(writer, "platform", system.machine);
  }
  for (tp_value_walk walk = {0}; config->extra.size > 0 && tp_value_next(config->extra, &walk);) {
    tp_write_text(writer, walk.key);
    tp_write_value(writer, walk.value);
  }
  tp_status status = tp_writer_finish(writer, ret_value);
  if (status == TP_OK) *ret_writer = writer;
  else tp_writer_free(writer);
  return status;
}

/* ---- for handlers ---- */

tp_text tp_call_agent_config(const tp_call *call) {
  if (!call) return (tp_text){0};
  const tp__turn *core = call->entry->turn;
  if (core->kind == TP__TURN_DETACHED) return (tp_text){NULL, 0}; /* its turn is the engine's alone */
  const tp_agent *agent = tp__turn_of((tp__turn *)(uintptr_t)core)->agent;
  return agent ? agent->config : (tp_text){NULL, 0};
}
