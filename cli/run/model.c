/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/limits.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "runtime/base/check.h"
#include "support/bytes.h"
#include "turnphase/declared.h"
#include "turnphase/openai.h"

#define KINDS "openai:NAME, openai-responses:NAME, anthropic:NAME or script:MODEL.yaml"

/* The word before the colon, and the provider that it means. */
static const struct kind {
  const char *name;
  bool remote;
  tp_openai_api api; /* of a remote one */
} kinds[] = {{"script", false, TP_OPENAI_CHAT},
             {"openai", true, TP_OPENAI_CHAT},
             {"openai-responses", true, TP_OPENAI_RESPONSES},
             {"anthropic", true, TP_OPENAI_MESSAGES}};

/* --script FILE means --model script:FILE. NULL: none of the kinds. @param ret_rest  the text after the colon. */
static const struct kind *kind_of(const cli_model_name *name, const char **ret_rest) {
  const char *colon = name->model ? strchr(name->model, ':') : NULL;
  if (!name->model) {
    *ret_rest = name->script;
    return &kinds[0];
  }
  for (size_t i = 0; colon && colon[1] && i < sizeof kinds / sizeof *kinds; i++) {
    size_t size = strlen(kinds[i].name);
    if ((size_t)(colon - name->model) != size || memcmp(name->model, kinds[i].name, size) != 0) continue;
    *ret_rest = colon + 1;
    return &kinds[i];
  }
  return NULL;
}

static bool has_quirk(const cli_model_name *name) {
  return name->think_tags || name->think_first || name->cumulative_deltas;
}

static bool is_shaped(const cli_model_name *name) {
  return name->temperature || name->max_tokens || name->reasoning || name->settings[0] || name->headers[0] ||
         name->price || name->body.size > 0 || name->header_map.size > 0 || has_quirk(name);
}

static const char *shaping_option(const cli_model_name *name) {
  if (name->base_url || name->key_env) return name->base_url ? "--base-url" : "--key-env";
  if (name->temperature) return "--temperature";
  if (name->max_tokens) return "--max-tokens";
  if (name->reasoning) return "--reasoning";
  if (name->price) return "--price";
  if (has_quirk(name))
    return name->think_tags ? "--think-tags" : name->think_first ? "--think-first" : "--cumulative-deltas";
  return name->settings[0] ? "--set" : name->headers[0] ? "--header" : NULL;
}

const char *cli_model_name_check(const cli_model_name *name) {
  const char *rest;
  const struct kind *kind = kind_of(name, &rest);
  if (!kind) return "is " KINDS ", not";
  cli_price price;
  if (kind->remote) return name->price ? cli_price_read(name->price, &price) : NULL;
  if (name->base_url || name->key_env || is_shaped(name))
    return "belongs to models behind an endpoint; a script has none";
  bool limited = name->requests_per_minute || name->tokens_per_minute;
  return limited ? "a script has no limits per minute" : NULL;
}

static int refuse_name(const char *option, const cli_model_name *name, const char *why) {
  const char *rest;
  cli_price price;
  bool of_price = name->price && cli_price_read(name->price, &price) != NULL;
  if (!kind_of(name, &rest)) cli_error("%s %s '%s'", option, why, name->model);
  else if (of_price) cli_error("--price %s", why);
  else if (shaping_option(name)) cli_error("%s %s", shaping_option(name), why);
  else cli_error("%s", why);
  return CLI_USAGE;
}

static bool is_named(const cli_model_name *name) { return name->model || name->script; }

static int refuse_for_memory(const char *option, const char *why) {
  cli_error("%s %s", option, why);
  return CLI_USAGE;
}

static int check_embedder(const cli_arguments *arguments) {
  const cli_model_name *name = arguments->embedders.items;
  const char *rest;
  if (!arguments->embedders.count)
    return arguments->dimensions ? refuse_for_memory("--dimensions", "is for --embedder") : CLI_OK;
  const struct kind *kind = kind_of(name, &rest);
  if (!kind || !kind->remote || kind->api != TP_OPENAI_CHAT) {
    cli_error("--embedder is openai:NAME, not '%s'", name->model);
    return CLI_USAGE;
  }
  if (!arguments->dimensions)
    return refuse_for_memory("--embedder", "needs --dimensions N: how many numbers its vectors have");
  bool limited = name->requests_per_minute || name->tokens_per_minute;
  if (limited) return refuse_for_memory("--embedder", "has no limits per minute");
  return has_quirk(name) ? refuse_for_memory(shaping_option(name), "is for models that answer") : CLI_OK;
}

/* The models that the memory has. */
static int check_memory(const cli_arguments *arguments) {
  const char *wrong = arguments->facts.count ? cli_model_name_check(arguments->facts.items) : NULL;
  int status = wrong ? refuse_name("--facts", arguments->facts.items, wrong) : CLI_OK;
  if (status == CLI_OK) status = check_embedder(arguments);
  if (status != CLI_OK || !arguments->no_memory || !(arguments->facts.count || arguments->embedders.count))
    return status;
  return refuse_for_memory(arguments->facts.count ? "--facts" : "--embedder",
                           "is for the memory, and --no-memory does without it");
}

int cli_models_check(const cli_arguments *arguments, const char *command, bool required) {
  const cli_model_names *names = &arguments->models;
  bool none = names->count == 0 || !is_named(&names->items[0]);
  if (none && (required || names->count > 0)) {
    cli_error("%s needs a model: --model " KINDS "; see: turnphase %s --help", command, command);
    return CLI_USAGE;
  }
  if (names->count > CLI_MODELS_MAX) {
    cli_error("--model may be given %d times, not %zu", CLI_MODELS_MAX, names->count);
    return CLI_USAGE;
  }
  for (size_t i = 0; i < names->count; i++) {
    const char *wrong = cli_model_name_check(&names->items[i]);
    if (names->items[i].script && names->count > 1) {
      cli_error("--script and --model name a model each: give one of them, or --model script:FILE with others");
      return CLI_USAGE;
    }
    if (wrong) return refuse_name("--model", &names->items[i], wrong);
  }
  return check_memory(arguments);
}

static int load_script(const char *file, tp_model **ret_model) {
  tp_fault fault = {0};
  tp_text text;
  int read = cli_input_read(file, &text);
  if (read != CLI_OK) return read;
  tp_status status = tp_script_model_load(text, file, ret_model, &fault);
  free((void *)(uintptr_t)text.data);
  return status == TP_OK ? CLI_OK : cli_fault(file, status, &fault);
}

static cli_traceparent_fn *traceparent;
static void *traceparent_ctx;

void cli_model_traceparent(cli_traceparent_fn *give, void *ctx) {
  traceparent = give;
  traceparent_ctx = ctx;
}

static bool http1;

void cli_model_http1(void) { http1 = true; }

#ifdef CLI_OPENAI
static tp_openai_options options_of(const cli_model_name *named, const char *name, tp_openai_api api) {
  return (tp_openai_options){.struct_size = sizeof(tp_openai_options),
                             .model = name,
                             .base_url = named->base_url,
                             .key_env = named->key_env,
                             .requests_per_minute = named->requests_per_minute,
                             .tokens_per_minute = named->tokens_per_minute,
                             .quirks = (named->think_tags ? TP_OPENAI_QUIRK_THINK_TAGS : 0u) |
                                       (named->think_first ? TP_OPENAI_QUIRK_THINK_FIRST : 0u) |
                                       (named->cumulative_deltas ? TP_OPENAI_QUIRK_CUMULATIVE : 0u),
                             .api = api,
                             .http1 = http1,
                             .traceparent = traceparent,
                             .traceparent_ctx = traceparent ? traceparent_ctx : NULL};
}

/* ---- further fields of a request, as the person wrote them ---- */

/* Writes JSON if it is JSON, else a text. The value of a number option must be a number. */
static void write_setting(tp_writer *writer, const char *value) {
  if (tp_json_decode(tp_text_of(value), writer, NULL) != TP_OK) tp_write_string(writer, value);
}

static void write_word(tp_writer *writer, const char *key, const char *value) {
  tp_write_map(writer, 1);
  tp_write_string(writer, key);
  tp_write_string(writer, value);
}

/* How much the model thinks, in the words of the API: an effort, or a budget of tokens. */
static void write_reasoning(tp_writer *writer, tp_openai_api api, const char *effort) {
  assert(effort && api <= TP_OPENAI_MESSAGES);
  static const struct {
    const char *effort, *tokens;
  } budgets[] = {{"low", "1024"}, {"medium", "2048"}, {"high", "3072"}};
  tp_write_string(writer, api == TP_OPENAI_CHAT        ? "reasoning_effort"
                          : api == TP_OPENAI_RESPONSES ? "reasoning"
                                                       : "thinking");
  if (api == TP_OPENAI_CHAT) {
    tp_write_string(writer, effort);
    return;
  }
  if (api == TP_OPENAI_RESPONSES) {
    write_word(writer, "effort", effort);
    return;
  }
  for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++)
    if (strcmp(effort, budgets[i].effort) == 0) effort = budgets[i].tokens;
  tp_write_map(writer, 2);
  tp_write_string(writer, "type");
  tp_write_string(writer, "enabled");
  tp_write_string(writer, "budget_tokens");
  write_setting(writer, effort);
}

/* Reads KEY=VALUE or NAME: VALUE. @return the beginning of the value; NULL, after a message: there is none. */
static const char *value_of(const char *option, const char *pair, char sign, size_t *ret_key_size) {
  assert(sign == '=' || sign == ':');
  const char *at = strchr(pair, sign);
  if (!at || at == pair) {
    if (sign == '=') cli_error("%s takes KEY=VALUE, not '%s'", option, pair);
    else cli_error("%s takes NAME:VALUE", option); /* it may be a key */
    return NULL;
  }
  *ret_key_size = (size_t)(at - pair);
  return at + 1 + (sign == ':' ? strspn(at + 1, " ") : 0);
}

/* ${NAME} is a variable of the environment, as in the headers of webhooks. A secret must not be in arguments, which
 * every user of the machine can read, nor in the file of a conversation. */
static int write_header_value(tp_writer *writer, tp_text value) {
  tp__bytes text = {0};
  int status = CLI_OK;
  for (size_t at = 0; at < value.size && status == CLI_OK;) {
    const char *rest = value.data + at, *end = NULL;
    size_t left = value.size - at;
    if (left > 2 && memcmp(rest, "${", 2) == 0) end = memchr(rest, '}', left);
    if (!end) {
      tp__bytes_put(&text, rest, 1);
      at++;
      continue;
    }
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)(end - rest) - 2, rest + 2);
    const char *variable = getenv(name);
    if (variable) tp__bytes_put_string(&text, variable);
    else cli_error("a header needs the environment variable %s, which is not set", name);
    if (!variable) status = CLI_USAGE;
    at += (size_t)(end - rest) + 1;
  }
  if (text.failed) status = CLI_UNAVAILABLE;
  if (status == CLI_OK) tp_write_text(writer, tp__bytes_text(&text));
  if (text.data) explicit_bzero(text.data, text.size);
  tp__bytes_fini(&text);
  return status;
}

static int write_pairs(tp_writer *writer, const char *option, const char *const *pairs, char sign) {
  for (; *pairs; pairs++) {
    size_t size;
    const char *value = value_of(option, *pairs, sign, &size);
    if (!value) return CLI_USAGE;
    tp_write_text(writer, (tp_text){*pairs, size});
    int status = CLI_OK;
    if (sign == '=') write_setting(writer, value);
    else status = write_header_value(writer, tp_text_of(value));
    if (status != CLI_OK) return status;
  }
  return CLI_OK;
}

static void write_map_of(tp_writer *writer, tp_text map) {
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);) {
    tp_write_text(writer, walk.key);
    tp_write_value(writer, walk.value);
  }
}

static size_t count_of(const char *const *pairs) {
  size_t count = 0;
  while (pairs[count]) count++;
  return count;
}

static int write_body(tp_writer *writer, const cli_model_name *named, tp_openai_api api) {
  tp_write_map(writer, !!named->temperature + !!named->max_tokens + !!named->reasoning + count_of(named->settings) +
                           tp_value_count(named->body));
  if (named->temperature) {
    tp_write_string(writer, "temperature");
    write_setting(writer, named->temperature);
  }
  if (named->max_tokens) {
    tp_write_string(writer, api == TP_OPENAI_RESPONSES ? "max_output_tokens" : "max_tokens");
    write_setting(writer, named->max_tokens);
  }
  if (named->reasoning) write_reasoning(writer, api, named->reasoning);
  write_map_of(writer, named->body);
  return write_pairs(writer, "--set", named->settings, '=');
}

static int write_headers(tp_writer *writer, const cli_model_name *named) {
  tp_write_map(writer, count_of(named->headers) + tp_value_count(named->header_map));
  for (tp_value_walk walk = {0}; tp_value_next(named->header_map, &walk);) {
    tp_write_text(writer, walk.key);
    bool is_text = tp_value_kind_of(walk.value) == TP_VALUE_TEXT;
    int status = is_text ? write_header_value(writer, tp_value_text(walk.value)) : CLI_OK;
    if (status != CLI_OK) return status;
    if (!is_text) tp_write_value(writer, walk.value); /* the library refuses it */
  }
  return write_pairs(writer, "--header", named->headers, ':');
}

/* Sets the options with body and headers, which are borrowed from two writers. */
static int shape(const cli_model_name *named, tp_writer *body, tp_writer *headers, tp_openai_options *options) {
  assert(body != headers && !options->body.data);
  if (!is_shaped(named)) return CLI_OK;
  int status = write_body(body, named, options->api);
  if (status == CLI_OK) status = write_headers(headers, named);
  if (status != CLI_OK) return status;
  cli_need(tp_writer_finish(body, &options->body));
  cli_need(tp_writer_finish(headers, &options->headers));
  return CLI_OK;
}

static int open_embedder(const cli_model_name *named, const char *name, uint32_t dimensions,
                         tp_memory_embedder *ret_embedder) {
  tp_openai_options options = options_of(named, name, TP_OPENAI_CHAT);
  options.traceparent = NULL; /* it is no request of a turn's model */
  options.traceparent_ctx = NULL;
  tp_writer *body, *headers;
  tp_fault fault = {0};
  cli_need(tp_writer_new(NULL, &body));
  cli_need(tp_writer_new(NULL, &headers));
  int shaped = shape(named, body, headers, &options);
  tp_status status = shaped == CLI_OK ? tp_openai_embedder_new(&options, dimensions, ret_embedder, &fault) : TP_OK;
  tp_writer_free(body);
  tp_writer_free(headers);
  return status == TP_OK ? shaped : cli_fault("--embedder", status, &fault);
}

/* @return false: it has none. */
static bool take_price(const cli_model_name *named, tp_openai_price *ret_price) {
  cli_price price;
  if (!named->price || cli_price_read(named->price, &price) != NULL) return false; /* that was checked */
  *ret_price = (tp_openai_price){.struct_size = sizeof *ret_price,
                                 .input_micros = price.input_micros,
                                 .output_micros = price.output_micros,
                                 .cache_read_micros = price.cached_micros};
  return true;
}

static int open_remote(const cli_model_name *named, const char *name, tp_openai_api api, tp_model **ret_model) {
  tp_openai_options options = options_of(named, name, api);
  options.files_directory = "/"; /* for /attach: a person names them */
  tp_openai_price price;
  const tp_openai_price *const prices[] = {&price};
  if (take_price(named, &price)) {
    options.prices = prices;
    options.price_count = 1;
  }
  tp_writer *body, *headers;
  tp_fault fault = {0};
  cli_need(tp_writer_new(NULL, &body));
  cli_need(tp_writer_new(NULL, &headers));
  int shaped = shape(named, body, headers, &options);
  tp_status status = shaped == CLI_OK ? tp_openai_model_new(&options, ret_model, &fault) : TP_OK;
  tp_writer_free(body);
  tp_writer_free(headers);
  return status == TP_OK ? shaped : cli_fault("--model", status, &fault);
}
#else
static int open_embedder(const cli_model_name *named, const char *name, uint32_t dimensions,
                         tp_memory_embedder *ret_embedder) {
  (void)name;
  (void)dimensions;
  (void)ret_embedder;
  cli_error("--embedder %s: this turnphase was built without turnphase-openai (libcurl)", named->model);
  return CLI_UNAVAILABLE;
}

static int open_remote(const cli_model_name *named, const char *name, tp_openai_api api, tp_model **ret_model) {
  (void)name;
  (void)api;
  (void)ret_model;
  cli_error("--model %s: this turnphase was built without turnphase-openai (libcurl)", named->model);
  return CLI_UNAVAILABLE;
}
#endif

static int open_model(const cli_model_name *name, tp_model **ret_model) {
  const char *rest;
  const struct kind *kind = kind_of(name, &rest);
  return kind->remote ? open_remote(name, rest, kind->api, ret_model) : load_script(rest, ret_model);
}

int cli_models_open(const cli_model_names *names, cli_models *models) {
  *models = (cli_models){.count = 0};
  for (size_t i = 0; i < names->count; i++) {
    int status = open_model(&names->items[i], &models->items[models->count]);
    if (status == CLI_OK) models->count++;
    else cli_models_free(models);
    if (status != CLI_OK) return status;
  }
  return CLI_OK;
}

void cli_models_free(cli_models *models) {
  for (size_t i = 0; i < models->count; i++) tp_model_free(models->items[i]);
  models->count = 0;
}

int cli_embedder_open(const cli_arguments *arguments, tp_memory_embedder *embedder) {
  const char *rest;
  *embedder = (tp_memory_embedder){.name = NULL};
  if (!arguments->embedders.count) return CLI_OK;
  (void)kind_of(arguments->embedders.items, &rest);
  return open_embedder(arguments->embedders.items, rest, arguments->dimensions, embedder);
}

/* ---- models of the hooks, and of MCP servers ---- */

/* They belong to the process, because runtimes use them until they end. */
static cli_models hook_model, sampling_model;

static int open_only(const cli_arguments *arguments, const char *option, const cli_model_names *names,
                     cli_models *model) {
  if (arguments->models.count > 0 && !is_named(&arguments->models.items[0])) {
    cli_error("--base-url, --key-env and the limits per minute belong to the model before them: name one");
    return CLI_USAGE;
  }
  if (names->count == 0 || model->count > 0) return CLI_OK;
  const char *wrong = cli_model_name_check(names->items);
  return wrong ? refuse_name(option, names->items, wrong) : cli_models_open(names, model);
}

int cli_hook_model_open(const cli_arguments *arguments) {
  return open_only(arguments, "--hook-model", &arguments->hook_models, &hook_model);
}

const tp_model *cli_hook_model(void) { return hook_model.count > 0 ? hook_model.items[0] : NULL; }

int cli_sampling_model_open(const cli_arguments *arguments) {
  if (cli_sampling_is_client(arguments)) return CLI_OK;
  return open_only(arguments, "--mcp-sampling", &arguments->sampling_models, &sampling_model);
}

bool cli_sampling_is_client(const cli_arguments *arguments) {
  const cli_model_names *names = &arguments->sampling_models;
  return names->count > 0 && names->items[0].model && strcmp(names->items[0].model, "client") == 0;
}

const tp_model *cli_sampling_model(void) { return sampling_model.count > 0 ? sampling_model.items[0] : NULL; }

void cli_only_models_free(void) {
  cli_models_free(&hook_model);
  cli_models_free(&sampling_model);
}
