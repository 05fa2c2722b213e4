/* SPDX-License-Identifier: Apache-2.0
 *
 * conversation.c: both forms become values first. One set of rules says which maps they may contain, so a file and a
 * stream are refused for the same reasons. Messages name lines of JSON by number, and parts of a YAML file by their
 * ids. */
#include "cli/run/conversation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/common/date.h"
#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/limits.h"
#include "cli/common/message.h"
#include "cli/run/event.h"
#include "cli/run/model.h"
#include "runtime/base/check.h"
#include "runtime/base/printf.h"
#include "support/text.h"
#include "turnphase/declared.h"

/** A conversation on its way. */
typedef struct reader {
  cli_conversation *into;
  const cli_arguments *arguments;
  uint32_t line;   /* of JSON Lines; 0 in YAML */
  tp_text yaml;    /* the file; empty: JSON Lines */
  char index[24];  /* of the agent that is read, in its list; empty: none */
  bool is_file;    /* not standard input */
  tp_text servers; /* the map of MCP servers of the file; empty: none */
  char where[320]; /* "session spring, turn 3: " in YAML; empty in JSON Lines */
} reader;

static int refuse_conversation(const reader *r, const char *format, ...) TP__PRINTF(2, 3);
static int refuse_conversation(const reader *r, const char *format, ...) {
  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  uint32_t line = r->line, column = 0;
  if (r->index[0]) (void)!tp_yaml_place(r->yaml, (const char *const[]){"agents", r->index}, 2, &line, &column, NULL);
  cli_error_at(r->into->name, line, column, "%s%s", r->where, message);
  return CLI_CONFIG;
}

/* ---- maps ---- */

/** A key that a map may have. */
typedef struct field {
  const char *key;
  tp_value_kind kind;
  bool required;
  tp_text *ret_value; /* for text its content, else the value; untouched when it is missing */
} field;

/* For a field: DOUBLE means any number, INT a number or a text, NULL a list or a map. */
static const char *kind_name(tp_value_kind kind) {
  switch (kind) {
    case TP_VALUE_TEXT:
      return "text";
    case TP_VALUE_ARRAY:
      return "a list";
    case TP_VALUE_BOOL:
      return "true or false";
    case TP_VALUE_DOUBLE:
      return "a number";
    case TP_VALUE_INT:
      return "a text or a number";
    case TP_VALUE_NULL:
      return "a list, or a map of lists";
    default:
      return "a map";
  }
}

static bool is_of_kind(tp_value_kind kind, tp_value_kind wanted) {
  bool is_number = kind == TP_VALUE_INT || kind == TP_VALUE_DOUBLE;
  if (wanted == TP_VALUE_DOUBLE) return is_number;
  if (wanted == TP_VALUE_NULL) return kind == TP_VALUE_ARRAY || kind == TP_VALUE_MAP;
  return kind == wanted || (wanted == TP_VALUE_INT && kind == TP_VALUE_TEXT);
}

static int take_value(const reader *r, const field *f, tp_text value) {
  tp_value_kind kind = tp_value_kind_of(value);
  bool scalar = kind != TP_VALUE_ARRAY && kind != TP_VALUE_MAP && kind != TP_VALUE_NULL;
  if (!is_of_kind(kind, f->kind))
    return refuse_conversation(r, "%s must be %s%s", f->key, kind_name(f->kind),
                               f->kind == TP_VALUE_TEXT && scalar ? ": put it into quotes" : "");
  *f->ret_value = f->kind == TP_VALUE_TEXT ? tp_value_text(value) : value;
  return CLI_OK;
}

static int refuse_key(const reader *r, const char *what, tp_text key, const field *fields, size_t count) {
  if (r->index[0] && cli_text_is(key, "hooks"))
    return refuse_conversation(r,
                               "hooks are of the whole command: write \"match: {agent: ID}\" into the hooks of "
                               "--hooks DIR that only this agent is to have");
  char known[512] = "";
  for (size_t i = 0, at = 0; i < count; i++)
    at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", fields[i].key);
  if (cli_text_is(key, "responses") || cli_text_is(key, "repeat"))
    return refuse_conversation(r, "%s has no key \"%.*s\": a script of a model has it, and is named by --script FILE",
                               what, (int)key.size, key.data);
  return refuse_conversation(r, "%s has no key \"%.*s\", only %s", what, (int)(key.size < 64 ? key.size : 64), key.data,
                             known);
}

static int read_map(const reader *r, const char *what, tp_text map, const field *fields, size_t count) {
  if (tp_value_kind_of(map) != TP_VALUE_MAP) return refuse_conversation(r, "%s must be a map", what);
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);) {
    size_t i = 0;
    while (i < count && !cli_text_is(walk.key, fields[i].key)) i++;
    int status = i < count ? take_value(r, &fields[i], walk.value) : refuse_key(r, what, walk.key, fields, count);
    if (status != CLI_OK) return status;
  }
  for (size_t i = 0; i < count; i++)
    if (fields[i].required && !fields[i].ret_value->data)
      return refuse_conversation(r, "%s needs the key %s", what, fields[i].key);
  return CLI_OK;
}

/* ---- turns ---- */

static int take_id(const reader *r, const char *key, tp_text text, const char *otherwise, const char **ret_id) {
  *ret_id = otherwise;
  if (!text.data) return CLI_OK;
  if (!tp__is_id(text))
    return refuse_conversation(r, "%s must have 1 to 128 bytes without white space and control characters", key);
  *ret_id = cli_pool_copy(&r->into->pool, text);
  return CLI_OK;
}

/* Values that the library would refuse are refused here, before the first turn. */
static int take_said(const reader *r, tp_text text, int64_t *ret_unix_ms) {
  enum { AHEAD_SECONDS_MAX = 5 * 60 };
  const int64_t first = INT64_C(100000000000);
  int64_t said = 0;
  if (!text.data) return CLI_OK;
  int shown = (int)(text.size < 64 ? text.size : 64);
  if (!cli_date_read(text, &said))
    return refuse_conversation(r, "said must be a date such as 2023-05-08 or 2023-05-08T13:56:00Z, not \"%.*s\"", shown,
                               text.data);
  if (said < first) return refuse_conversation(r, "said must be after 1973-03-03, not \"%.*s\"", shown, text.data);
  if (said > ((int64_t)time(NULL) + AHEAD_SECONDS_MAX) * 1000)
    return refuse_conversation(r, "said is in the future: \"%.*s\"", shown, text.data);
  *ret_unix_ms = said;
  return CLI_OK;
}

/** The texts of a turn, as in the file. */
typedef struct words {
  tp_text tenant, workspace, session, agent, id, user, said;
} words;

static const cli_agent *find_agent(const cli_conversation *c, tp_text id) {
  for (size_t i = 0; i < c->agent_count; i++)
    if (cli_text_is(id, c->agents[i].id)) return &c->agents[i];
  return NULL;
}

static int take_agent(const reader *r, tp_text id, const char **ret_id, const cli_limits **ret_limits) {
  const cli_agent *agent = id.data ? find_agent(r->into, id) : NULL;
  if (id.data && !agent)
    return refuse_conversation(r, "there is no agent \"%.*s\" under agents", (int)(id.size < 64 ? id.size : 64),
                               id.data);
  *ret_id = agent ? agent->id : NULL;
  *ret_limits = agent ? &agent->limits : NULL; /* agents come before sessions, so no more will be added */
  return CLI_OK;
}

static int add_turn(const reader *r, const words *w) {
  cli_conversation *c = r->into;
  cli_turn turn = {.line = r->line};
  int status = take_id(r, "tenant", w->tenant, r->arguments->tenant, &turn.tenant);
  if (status == CLI_OK) status = take_id(r, "workspace", w->workspace, r->arguments->workspace, &turn.workspace);
  if (status == CLI_OK) status = take_id(r, "the session's id", w->session, NULL, &turn.session);
  if (status == CLI_OK) status = take_agent(r, w->agent, &turn.agent, &turn.limits);
  if (status == CLI_OK) status = take_id(r, "the turn's id", w->id, NULL, &turn.id);
  if (status == CLI_OK) status = take_said(r, w->said, &turn.said_unix_ms);
  if (status != CLI_OK) return status;
  turn.user = (tp_text){cli_pool_copy(&c->pool, w->user), w->user.size};
  c->turns = cli_reserve(c->turns, c->count, &c->capacity, sizeof *c->turns);
  c->turns[c->count++] = turn;
  return CLI_OK;
}

/* ---- JSON Lines ---- */

static int read_json_turn(void *ctx, tp_text map) {
  const reader *r = ctx;
  words w = {0};
  const field fields[] = {
      {"session", TP_VALUE_TEXT, true, &w.session}, {"turn", TP_VALUE_TEXT, false, &w.id},
      {"user", TP_VALUE_TEXT, true, &w.user},       {"said", TP_VALUE_TEXT, false, &w.said},
      {"tenant", TP_VALUE_TEXT, false, &w.tenant},  {"workspace", TP_VALUE_TEXT, false, &w.workspace}};
  int status = read_map(r, "a turn", map, fields, sizeof fields / sizeof fields[0]);
  return status == CLI_OK ? add_turn(r, &w) : status;
}

/* ---- YAML ---- */

static int read_yaml_turn(const reader *r, const words *w, tp_text map) {
  words turn = *w; /* of its session, until it says otherwise */
  const field fields[] = {{"id", TP_VALUE_TEXT, false, &turn.id},
                          {"user", TP_VALUE_TEXT, true, &turn.user},
                          {"said", TP_VALUE_TEXT, false, &turn.said}};
  int status = read_map(r, "a turn", map, fields, sizeof fields / sizeof fields[0]);
  return status == CLI_OK ? add_turn(r, &turn) : status;
}

static int read_yaml_session(reader *r, size_t number, tp_text map) {
  words w = {0};
  tp_text turns = {0};
  const field fields[] = {
      {"id", TP_VALUE_TEXT, true, &w.session},     {"turns", TP_VALUE_ARRAY, true, &turns},
      {"said", TP_VALUE_TEXT, false, &w.said},     {"agent", TP_VALUE_TEXT, false, &w.agent},
      {"tenant", TP_VALUE_TEXT, false, &w.tenant}, {"workspace", TP_VALUE_TEXT, false, &w.workspace}};
  snprintf(r->where, sizeof r->where, "session %zu: ", number);
  int status = read_map(r, "a session", map, fields, sizeof fields / sizeof fields[0]);
  size_t turn = 0;
  for (tp_value_walk walk = {0}; status == CLI_OK && tp_value_next(turns, &walk);) {
    int shown = (int)(w.session.size < TP_ID_BYTES_MAX ? w.session.size : TP_ID_BYTES_MAX);
    snprintf(r->where, sizeof r->where, "session %.*s, turn %zu: ", shown, w.session.data, ++turn);
    status = read_yaml_turn(r, &w, walk.value);
  }
  return status;
}

/* NULL stays NULL. */
static const char *copy_text(const reader *r, tp_text text) {
  return text.data ? cli_pool_copy(&r->into->pool, text) : NULL;
}

/** What a model has besides its name. */
typedef struct model_fields {
  tp_text model, base_url, key_env, price, body, headers;
  tp_text temperature, max_tokens, reasoning, think_tags, think_first, cumulative_deltas; /* values */
} model_fields;

#define FIELDS_OF_MODEL(given)                                                                                \
  {"base_url", TP_VALUE_TEXT, false, &(given).base_url}, {"key_env", TP_VALUE_TEXT, false, &(given).key_env}, \
      {"price", TP_VALUE_TEXT, false, &(given).price}, {"body", TP_VALUE_MAP, false, &(given).body},          \
      {"headers", TP_VALUE_MAP, false, &(given).headers},                                                     \
      {"temperature", TP_VALUE_DOUBLE, false, &(given).temperature},                                          \
      {"max_tokens", TP_VALUE_DOUBLE, false, &(given).max_tokens},                                            \
      {"reasoning", TP_VALUE_INT, false, &(given).reasoning},                                                 \
      {"think_tags", TP_VALUE_BOOL, false, &(given).think_tags},                                              \
      {"think_first", TP_VALUE_BOOL, false, &(given).think_first}, {                                          \
    "cumulative_deltas", TP_VALUE_BOOL, false, &(given).cumulative_deltas                                     \
  }

static tp_text copy_value(const reader *r, tp_text value) {
  return value.data ? (tp_text){cli_pool_copy(&r->into->pool, value), value.size} : (tp_text){NULL, 0};
}

/* A text or a number, in the form of the command line. NULL stays NULL. */
static const char *copy_scalar(const reader *r, tp_text value) {
  tp__bytes json = {0};
  if (!value.data || tp_value_kind_of(value) == TP_VALUE_TEXT) return copy_text(r, tp_value_text(value));
  cli_need(cli_buffer_add_json(&json, value, NULL));
  const char *copy = cli_pool_copy(&r->into->pool, tp__bytes_text(&json));
  tp__bytes_fini(&json);
  return copy;
}

/* Whether a map has more than the name of a model. */
static bool shapes(const model_fields *given) {
  return given->base_url.data || given->key_env.data || given->price.data || given->body.data || given->headers.data ||
         given->temperature.data || given->max_tokens.data || given->reasoning.data || given->think_tags.data ||
         given->think_first.data || given->cumulative_deltas.data;
}

static int take_model(const reader *r, cli_model_names *models, const model_fields *given) {
  tp_text model = given->model;
  if (!model.data && shapes(given))
    return refuse_conversation(r, "base_url, key_env, body, headers and their like belong to a model");
  if (!model.data) return CLI_OK;
  if (models->count == CLI_MODELS_MAX) return refuse_conversation(r, "an agent has at most %d models", CLI_MODELS_MAX);
  cli_model_name *name = cli_model_names_add(models);
  *name = (cli_model_name){.model = copy_text(r, model),
                           .base_url = copy_text(r, given->base_url),
                           .key_env = copy_text(r, given->key_env),
                           .price = copy_text(r, given->price),
                           .body = copy_value(r, given->body),
                           .header_map = copy_value(r, given->headers),
                           .temperature = copy_scalar(r, given->temperature),
                           .max_tokens = copy_scalar(r, given->max_tokens),
                           .reasoning = copy_scalar(r, given->reasoning),
                           .think_tags = tp_value_bool(given->think_tags, false),
                           .think_first = tp_value_bool(given->think_first, false),
                           .cumulative_deltas = tp_value_bool(given->cumulative_deltas, false)};
  cli_price price;
  const char *wrong = name->price ? cli_price_read(name->price, &price) : NULL;
  if (wrong) return refuse_conversation(r, "price %s", wrong);
  wrong = cli_model_name_check(name);
  return wrong ? refuse_conversation(r, "model \"%.64s\" %s this", name->model, wrong) : CLI_OK;
}

static int read_fallback(const reader *r, cli_model_names *models, tp_text map) {
  model_fields given = {.model = {NULL, 0}};
  const field fields[] = {{"model", TP_VALUE_TEXT, true, &given.model}, FIELDS_OF_MODEL(given)};
  int status = read_map(r, "a fallback", map, fields, sizeof fields / sizeof fields[0]);
  return status == CLI_OK ? take_model(r, models, &given) : status;
}

static int take_limits(const reader *r, tp_text map, cli_limits *ret_limits) {
  tp_text key = {0};
  const char *wrong = map.data ? cli_limits_read(map, ret_limits, &key) : NULL;
  return wrong ? refuse_conversation(r, "limits: %.*s %s", (int)(key.size < 64 ? key.size : 64), key.data, wrong)
               : CLI_OK;
}

/* ---- what an agent has of what there is ---- */

/* A list of names or patterns. @param ret_list  a copy; untouched where the list is not there. */
static int take_names(const reader *r, const char *key, tp_text list, tp_text *ret_list) {
  if (list.data && tp_value_kind_of(list) != TP_VALUE_ARRAY)
    return refuse_conversation(r, "%s must be a list of names", key);
  for (tp_value_walk walk = {0}; list.data && tp_value_next(list, &walk);) {
    tp_text name = tp_value_text(walk.value);
    if (name.size == 0 || name.size > TP_PATTERN_BYTES_MAX)
      return refuse_conversation(r, "%s: each must be a text of 1 to %d bytes", key, TP_PATTERN_BYTES_MAX);
  }
  if (list.data) *ret_list = copy_value(r, list);
  return CLI_OK;
}

/* A list of those that it may use, or a map of allow and deny. */
static int take_tools(const reader *r, tp_text tools, cli_agent *agent) {
  tp_text allow = {0}, deny = {0};
  const field fields[] = {{"allow", TP_VALUE_ARRAY, false, &allow}, {"deny", TP_VALUE_ARRAY, false, &deny}};
  if (!tools.data) return CLI_OK;
  if (tp_value_kind_of(tools) == TP_VALUE_ARRAY) return take_names(r, "tools", tools, &agent->tools);
  int status = read_map(r, "tools", tools, fields, sizeof fields / sizeof fields[0]);
  if (status == CLI_OK && !allow.data && !deny.data)
    return refuse_conversation(r, "tools is a list of names, or a map of allow and deny");
  if (status == CLI_OK) status = take_names(r, "tools: allow", allow, &agent->tools);
  return status == CLI_OK ? take_names(r, "tools: deny", deny, &agent->tools_denied) : status;
}

static bool is_among(tp_text list, tp_text name) {
  for (tp_value_walk walk = {0}; list.data && tp_value_next(list, &walk);)
    if (tp_text_equal(tp_value_text(walk.value), name)) return true;
  return false;
}

/* A word of --mcp NAME=…. */
static tp_text server_of(const char *word) { return (tp_text){word, strcspn(word, "=")}; }

static bool is_server(const reader *r, tp_text name) {
  const cli_words *given = &r->arguments->mcp_servers;
  for (size_t i = 0; i < given->count; i++)
    if (tp_text_equal(server_of(given->items[i]), name)) return true;
  for (tp_value_walk walk = {0}; r->servers.data && tp_value_next(r->servers, &walk);)
    if (tp_text_equal(walk.key, name)) return true;
  return false;
}

static void deny_server(tp_writer *writer, tp_text name) {
  char pattern[TP_PATTERN_BYTES_MAX + 1];
  snprintf(pattern, sizeof pattern, "mcp__%.*s__*", (int)(name.size < 200 ? name.size : 200), name.data);
  tp_write_string(writer, pattern);
}

/* The tools of all other servers are denied: those that an agent may use are the same with and without tools. */
static int take_servers(const reader *r, tp_text servers, cli_agent *agent) {
  const cli_words *given = &r->arguments->mcp_servers;
  tp_text names = {0}, denied = {0};
  tp_writer *writer;
  size_t count = tp_value_count(agent->tools_denied);
  int status = take_names(r, "mcp", servers, &names);
  if (!servers.data || status != CLI_OK) return status;
  if (r->arguments->mcp_configs.count > 0)
    return refuse_conversation(r,
                               "mcp: the servers of --mcp-config are not known by their names here: write them into "
                               "mcp of this file, or write tools: {deny: [mcp__SERVER__*]}");
  for (tp_value_walk walk = {0}; tp_value_next(names, &walk);) {
    tp_text name = tp_value_text(walk.value);
    if (!is_server(r, name))
      return refuse_conversation(r, "mcp: there is no server \"%.*s\" under mcp of this file, and none of --mcp",
                                 (int)(name.size < 64 ? name.size : 64), name.data);
  }
  for (size_t i = 0; i < given->count; i++) count += !is_among(names, server_of(given->items[i]));
  for (tp_value_walk walk = {0}; r->servers.data && tp_value_next(r->servers, &walk);)
    count += !is_among(names, walk.key);
  cli_need(tp_writer_new(NULL, &writer));
  tp_write_array(writer, count);
  for (tp_value_walk walk = {0}; agent->tools_denied.data && tp_value_next(agent->tools_denied, &walk);)
    tp_write_value(writer, walk.value);
  for (size_t i = 0; i < given->count; i++)
    if (!is_among(names, server_of(given->items[i]))) deny_server(writer, server_of(given->items[i]));
  for (tp_value_walk walk = {0}; r->servers.data && tp_value_next(r->servers, &walk);)
    if (!is_among(names, walk.key)) deny_server(writer, walk.key);
  cli_need(tp_writer_finish(writer, &denied));
  agent->tools_denied = copy_value(r, denied);
  tp_writer_free(writer);
  return CLI_OK;
}

/** What an agent has of what the command has, as it stands in the file. */
typedef struct agent_parts {
  tp_text tools, servers, skills, memory;
} agent_parts;

static int take_parts(const reader *r, const agent_parts *given, cli_agent *agent) {
  int status = take_tools(r, given->tools, agent);
  if (status == CLI_OK) status = take_servers(r, given->servers, agent);
  if (status == CLI_OK) status = take_names(r, "skills", given->skills, &agent->skills);
  if (status != CLI_OK) return status;
  if (agent->skills.data && !r->arguments->skills)
    return refuse_conversation(r, "skills: there are none without --skills DIR");
  agent->no_memory = given->memory.data && !tp_value_bool(given->memory, true);
  if (given->memory.data && !agent->no_memory && r->arguments->no_memory)
    return refuse_conversation(r, "memory is true, and --no-memory leaves none to have: leave one of them out");
  return CLI_OK;
}

static int read_agent(reader *r, size_t number, tp_text map) {
  cli_conversation *c = r->into;
  tp_text id = {0}, system = {0}, fallbacks = {0}, limits = {0};
  model_fields given = {.model = {NULL, 0}};
  agent_parts parts = {.tools = {NULL, 0}};
  const field fields[] = {{"id", TP_VALUE_TEXT, true, &id},
                          {"tools", TP_VALUE_NULL, false, &parts.tools},
                          {"mcp", TP_VALUE_ARRAY, false, &parts.servers},
                          {"skills", TP_VALUE_ARRAY, false, &parts.skills},
                          {"memory", TP_VALUE_BOOL, false, &parts.memory},
                          {"system", TP_VALUE_TEXT, false, &system},
                          {"model", TP_VALUE_TEXT, false, &given.model},
                          FIELDS_OF_MODEL(given),
                          {"limits", TP_VALUE_MAP, false, &limits},
                          {"fallbacks", TP_VALUE_ARRAY, false, &fallbacks}};
  snprintf(r->where, sizeof r->where, "agent %zu: ", number);
  snprintf(r->index, sizeof r->index, "%zu", number - 1);
  int status = read_map(r, "an agent", map, fields, sizeof fields / sizeof fields[0]);
  if (status == CLI_OK && find_agent(c, id)) status = refuse_conversation(r, "there is an agent of this id already");
  if (status == CLI_OK && cli_text_is(id, CLI_OWN_AGENT))
    status = refuse_conversation(r, "the id " CLI_OWN_AGENT " is the command's own agent's");
  if (status != CLI_OK) return status;
  c->agents = cli_reserve(c->agents, c->agent_count, &c->agents_capacity, sizeof *c->agents);
  cli_agent *agent = &c->agents[c->agent_count++];
  *agent = (cli_agent){.system = copy_text(r, system)};
  status = take_id(r, "the agent's id", id, NULL, &agent->id);
  if (status == CLI_OK) status = take_limits(r, limits, &agent->limits);
  if (status == CLI_OK) status = take_parts(r, &parts, agent);
  if (status == CLI_OK) status = take_model(r, &agent->models, &given);
  if (status == CLI_OK && fallbacks.data && !given.model.data)
    status = refuse_conversation(r, "fallbacks stand in for a model");
  for (tp_value_walk walk = {0}; status == CLI_OK && tp_value_next(fallbacks, &walk);)
    status = read_fallback(r, &agent->models, walk.value);
  return status;
}

static int read_agents(reader *r, tp_text agents) {
  int status = CLI_OK;
  size_t number = 0;
  for (tp_value_walk walk = {0}; status == CLI_OK && tp_value_next(agents, &walk);)
    status = read_agent(r, ++number, walk.value);
  r->where[0] = r->index[0] = '\0';
  return status;
}

static int read_yaml(reader *r, tp_text text, tp_writer *writer) {
  tp_fault fault = {0};
  tp_text value, sessions = {0}, agents = {0}, servers = {0}, defer = {0}, exposes = {0};
  tp_status decoded = tp_yaml_decode(text, r->into->name, writer, &fault);
  if (decoded == TP_OK) decoded = tp_writer_finish(writer, &value);
  if (decoded != TP_OK) return cli_fault(r->into->name, decoded, &fault);
  const field fields[] = {{"sessions", TP_VALUE_ARRAY, !r->arguments->agents_only, &sessions},
                          {"agents", TP_VALUE_ARRAY, false, &agents},
                          {"mcp", TP_VALUE_MAP, false, &servers},
                          {"mcp_defer", TP_VALUE_DOUBLE, false, &defer},
                          {"mcp_expose", TP_VALUE_ARRAY, false, &exposes}};
  int status = read_map(r, "a conversation", value, fields, sizeof fields / sizeof fields[0]);
  r->into->has_servers = servers.data || defer.data;
  r->into->servers[0] = (tp_text){cli_pool_copy(&r->into->pool, servers), servers.size};
  r->into->servers[1] = (tp_text){cli_pool_copy(&r->into->pool, defer), defer.size};
  if (status == CLI_OK && r->into->has_servers && !r->is_file)
    status = refuse_conversation(r, "mcp is read from a file: name it, or put mcp into a file for --mcp-config");
  r->into->exposes = (tp_text){cli_pool_copy(&r->into->pool, exposes), exposes.size};
  if (status == CLI_OK && exposes.data && !r->arguments->agents_only)
    status = refuse_conversation(r, "mcp_expose is for turnphase serve, which answers clients of MCP");
  r->servers = servers;
  r->yaml = text;
  if (status == CLI_OK) status = read_agents(r, agents);
  r->servers = (tp_text){0}; /* it is the writer's */
  size_t number = 0;
  for (tp_value_walk walk = {0}; status == CLI_OK && tp_value_next(sessions, &walk);)
    status = read_yaml_session(r, ++number, walk.value);
  return status;
}

static bool ends_with(const char *name, const char *end) {
  size_t size = strlen(name), tail = strlen(end);
  return size >= tail && strcmp(name + size - tail, end) == 0;
}

/* Decided by the end of the file's name, else by the first byte: a line of JSON begins with a brace, a YAML
 * conversation does not. */
static bool is_yaml(const char *name, tp_text text) {
  if (ends_with(name, ".yaml") || ends_with(name, ".yml")) return true;
  if (ends_with(name, ".jsonl") || ends_with(name, ".ndjson") || ends_with(name, ".json")) return false;
  size_t at = 0;
  while (at < text.size && strchr(" \t\r\n", text.data[at])) at++;
  return at < text.size && text.data[at] != '{';
}

/* ---- the whole of it ---- */

static int compare(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : ""); }

bool cli_turn_same_session(const cli_turn *a, const cli_turn *b) {
  assert(a->session && b->session);
  return compare(a->tenant, b->tenant) == 0 && strcmp(a->session, b->session) == 0;
}

static int compare_turns(const void *left, const void *right) {
  const cli_turn *a = *(const cli_turn *const *)left, *b = *(const cli_turn *const *)right;
  int order = compare(a->tenant, b->tenant);
  if (order == 0) order = strcmp(a->session, b->session);
  if (order == 0) order = compare(a->id, b->id);
  return order != 0 ? order : a < b ? -1 : a > b;
}

static int check_pair(reader *r, const cli_turn *before, const cli_turn *turn) {
  if (!cli_turn_same_session(before, turn)) return CLI_OK;
  const cli_turn *later = before < turn ? turn : before;
  r->line = later->line;
  r->where[0] = '\0';
  if (compare(before->workspace, turn->workspace) != 0)
    return refuse_conversation(r, "session %s is in two workspaces: %s and %s", turn->session,
                               before->workspace ? before->workspace : "none",
                               turn->workspace ? turn->workspace : "none");
  if (compare(before->agent, turn->agent) != 0)
    return refuse_conversation(r, "session %s has two agents: %s and %s", turn->session,
                               before->agent ? before->agent : "none", turn->agent ? turn->agent : "none");
  if (!turn->id || compare(before->id, turn->id) != 0) return CLI_OK;
  if (before->line)
    return refuse_conversation(r, "session %s has a turn %s already, in line %u", turn->session, turn->id,
                               before->line);
  return refuse_conversation(r, "session %s has two turns %s", turn->session, turn->id);
}

/* Checks that need all turns: repeated ids, a session in two workspaces. */
static int check_all(reader *r) {
  cli_conversation *c = r->into;
  r->where[0] = '\0';
  r->line = 0;
  if (c->count == 0 && r->arguments->agents_only) return CLI_OK;
  if (c->count == 0) return refuse_conversation(r, "there is no turn in it");
  const cli_turn **sorted = cli_alloc(c->count * sizeof *sorted);
  for (size_t i = 0; i < c->count; i++) sorted[i] = &c->turns[i];
  if (c->count > 1) qsort(sorted, c->count, sizeof *sorted, compare_turns);
  int status = CLI_OK;
  for (size_t i = 1; i < c->count && status == CLI_OK; i++) status = check_pair(r, sorted[i - 1], sorted[i]);
  free(sorted);
  return status;
}

int cli_conversation_read(const char *path, const cli_arguments *arguments, cli_conversation *conversation) {
  tp_text text;
  int status = cli_input_read(path, &text);
  if (status != CLI_OK) return status;
  *conversation = (cli_conversation){.name = cli_input_name(path)};
  reader r = {.into = conversation, .arguments = arguments, .is_file = path && strcmp(path, "-") != 0};
  tp_writer *writer;
  cli_need(tp_writer_new(NULL, &writer));
  status = is_yaml(conversation->name, text) ? read_yaml(&r, text, writer)
                                             : cli_input_lines(conversation->name, text, &r.line, read_json_turn, &r);
  tp_writer_free(writer);
  free((void *)(uintptr_t)text.data);
  if (status == CLI_OK) status = check_all(&r);
  if (status != CLI_OK) cli_conversation_free(conversation);
  return status;
}

void cli_conversation_free(cli_conversation *conversation) {
  for (size_t i = 0; i < conversation->agent_count; i++) free(conversation->agents[i].models.items);
  free(conversation->agents);
  free(conversation->turns);
  cli_pool_free(&conversation->pool);
  *conversation = (cli_conversation){0};
}

bool cli_conversation_needs_model(const cli_conversation *conversation) {
  for (size_t i = 0; i < conversation->agent_count; i++)
    if (conversation->agents[i].models.count == 0) return true;
  for (size_t i = 0; i < conversation->count; i++)
    if (!conversation->turns[i].agent) return true;
  return false;
}

const char *cli_conversation_find(const cli_conversation *conversation, tp_text turn_id, tp_text session) {
  const char *found = NULL;
  for (size_t i = 0; i < conversation->count; i++) {
    const cli_turn *turn = &conversation->turns[i];
    if (!cli_text_is(turn_id, turn->id)) continue;
    if (cli_text_is(session, turn->session)) return NULL;
    found = turn->session;
  }
  return found;
}
