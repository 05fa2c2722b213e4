/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/settings.h"

#include <assert.h>
#include <string.h>

enum {
  NAME_BYTES_MAX = 32,
  START_LIMIT_MS = 60000, /* npx and uvx download a server at its first start */
  START_LIMIT_MS_MAX = 300000,
  CALL_LIMIT_MS = 120000,
  RESULT_BYTES_MAX = 100000,
  CONCURRENT = 16,
  MESSAGE_BYTES = 16 << 20,
  MESSAGE_BYTES_MAX = 64 << 20,
  ANSWER_TOKENS = 4096,
  SAMPLES = 8,
  SAMPLE_TOKENS = 100000
};

/* ---- copies ---- */

static bool copy_string(const char **at) {
  if (!*at) return true;
  *at = tp__heap_copy(tp_text_of(*at));
  return *at != NULL;
}

static bool copy_list(const char *const **at, size_t count) {
  if (!*at) return true;
  *at = (const char *const *)tp__heap_copy_strings(*at, count);
  return *at != NULL;
}

static void free_list(const char *const *list) { tp__heap_strings_free((char **)(uintptr_t)list); }

/* ---- what is refused ---- */

static bool is_name(const char *name) {
  size_t size = strlen(name);
  if (size == 0 || size > NAME_BYTES_MAX || strstr(name, "__")) return false;
  return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == size;
}

/* Whether the text is a header of HTTP: a name, a colon, a value without control characters. */
static bool is_header(const char *header) {
  const char *colon = strchr(header, ':');
  if (!colon || colon == header) return false;
  for (const char *c = header; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7F || (c < colon && *c == ' ')) return false;
  return true;
}

static tp_status check_settings(const tp_mcp_options *o, tp_fault *fault) {
  if (!o->name || !is_name(o->name))
    return tp__refuse(fault, TP_ERR_BAD_ID, o->name,
                      "the name of an MCP server is 1 to 32 letters, digits, - and _, without two _ in a row");
  if (!o->arguments == !o->url || (o->arguments && !o->arguments[0]))
    return tp__refuse(fault, TP_ERR_USAGE, o->name, "an MCP server has a program (arguments) or a url: exactly one");
  if (o->arguments && o->arguments[0][0] == '\0')
    return tp__refuse(fault, TP_ERR_USAGE, o->name, "the program of the MCP server has an empty name");
  if (o->url && strncmp(o->url, "http://", 7) != 0 && strncmp(o->url, "https://", 8) != 0)
    return tp__refuse(fault, TP_ERR_USAGE, o->name, "the url of an MCP server begins with http:// or https://");
  if (o->url && (o->environment || o->directory))
    return tp__refuse(fault, TP_ERR_USAGE, o->name, "environment and directory are of programs: a url has headers");
  if (!o->url && o->headers)
    return tp__refuse(fault, TP_ERR_USAGE, o->name, "headers are of a url: a program has environment");
  for (size_t i = 0; o->environment && o->environment[i]; i++)
    if (!strchr(o->environment[i], '=') || o->environment[i][0] == '=')
      return tp__refuse(fault, TP_ERR_USAGE, o->name, "environment is NAME=value, not \"%s\"", o->environment[i]);
  for (size_t i = 0; o->headers && o->headers[i]; i++)
    if (!is_header(o->headers[i]))
      return tp__refuse(fault, TP_ERR_USAGE, o->name, "header %zu of the MCP server is not \"Name: value\"", i + 1);
  if (o->start_limit_ms > START_LIMIT_MS_MAX)
    return tp__refuse(fault, TP_ERR_USAGE, o->name, "start_limit_ms is at most %d", START_LIMIT_MS_MAX);
  if (o->message_bytes_max > MESSAGE_BYTES_MAX)
    return tp__refuse(fault, TP_ERR_USAGE, o->name, "message_bytes_max is at most %d", MESSAGE_BYTES_MAX);
  if ((o->allow_count > 0 && !o->allow) || (o->deny_count > 0 && !o->deny))
    return tp__refuse(fault, TP_ERR_USAGE, o->name, "allow and deny are lists of as many patterns as they say");
  if (o->workspace && o->workspace[0] != '/')
    return tp__refuse(fault, TP_ERR_USAGE, o->name, "workspace is an absolute path, not \"%s\"", o->workspace);
  if ((unsigned)o->changed > TP_MCP_CHANGED_DENY)
    return tp__refuse(fault, TP_ERR_USAGE, o->name, "tp_mcp_options.changed is ask or deny (0 or 1), not %u",
                      (unsigned)o->changed);
  return TP_OK;
}

static tp_status read_sampling(tp__mcp_settings *settings, tp_fault *fault) {
  tp_mcp_sampling *sampling = &settings->sampling;
  tp_mcp_options *o = &settings->options;
  settings->has_sampling = o->sampling != NULL;
  if (!o->sampling) return TP_OK;
  tp_status status = tp__struct_read(sampling, sizeof *sampling, o->sampling, "tp_mcp_sampling", fault);
  settings->has_model = status == TP_OK && sampling->model;
  if (settings->has_model)
    status = tp__struct_read(&settings->model, sizeof settings->model, sampling->model, "tp_model", fault);
  if (status != TP_OK) return status;
  if (sampling->tokens_max < 0)
    return tp__refuse(fault, TP_ERR_USAGE, o->name, "tp_mcp_sampling.tokens_max is not negative");
  o->sampling = NULL;
  sampling->model = NULL;
  settings->model.destroy = NULL;
  if (sampling->answer_tokens_max == 0) sampling->answer_tokens_max = ANSWER_TOKENS;
  if (sampling->count_max == 0) sampling->count_max = SAMPLES;
  if (sampling->tokens_max == 0) sampling->tokens_max = SAMPLE_TOKENS;
  return TP_OK;
}

static void set_default(uint32_t *at, uint32_t value) {
  if (*at == 0) *at = value;
}

tp_status tp__mcp_settings_init(tp__mcp_settings *settings, const tp_mcp_options *options, tp_fault *fault) {
  tp_mcp_options *o = &settings->options;
  if (!options) return tp__refuse(fault, TP_ERR_USAGE, NULL, "options is NULL: an MCP server has a name");
  tp_status status = tp__struct_read(o, sizeof *o, options, "tp_mcp_options", fault);
  if (status == TP_OK) status = check_settings(o, fault);
  if (status == TP_OK) status = read_sampling(settings, fault);
  if (status != TP_OK) return status;
  set_default(&o->start_limit_ms, START_LIMIT_MS);
  set_default(&o->call_limit_ms, CALL_LIMIT_MS);
  set_default(&o->result_bytes_max, RESULT_BYTES_MAX);
  set_default(&o->max_concurrent, CONCURRENT);
  set_default(&o->message_bytes_max, MESSAGE_BYTES);
  const char **strings[] = {&o->name, &o->directory, &o->url, &o->workspace, &o->pins};
  bool is_whole = true;
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) is_whole = copy_string(strings[i]) && is_whole;
  is_whole = copy_list(&o->arguments, tp__string_count(o->arguments)) && is_whole;
  is_whole = copy_list(&o->environment, tp__string_count(o->environment)) && is_whole;
  is_whole = copy_list(&o->headers, tp__string_count(o->headers)) && is_whole;
  is_whole = copy_list(&o->allow, o->allow_count) && is_whole;
  is_whole = copy_list(&o->deny, o->deny_count) && is_whole;
  if (is_whole) return TP_OK;
  tp__mcp_settings_fini(settings);
  return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the options of an MCP server");
}

void tp__mcp_settings_fini(tp__mcp_settings *settings) {
  tp_mcp_options *o = &settings->options;
  const char *strings[] = {o->name, o->directory, o->url, o->workspace, o->pins};
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) tp__heap_string_free((char *)(uintptr_t)strings[i]);
  free_list(o->arguments);
  free_list(o->environment);
  free_list(o->headers);
  free_list(o->allow);
  free_list(o->deny);
  *settings = (tp__mcp_settings){0};
}
