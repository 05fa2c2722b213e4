/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/model.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/message.h"
#include "turnphase/declared.h"
#include "turnphase/openai.h"

#define KINDS "openai:NAME, openai-responses:NAME, anthropic:NAME or script:MODEL.yaml"

/* What stands before the colon, and where it leads. */
static const struct kind {
  const char *name;
  bool remote;
  tp_openai_api api; /* of a remote one */
} kinds[] = {{"script", false, TP_OPENAI_CHAT},
             {"openai", true, TP_OPENAI_CHAT},
             {"openai-responses", true, TP_OPENAI_RESPONSES},
             {"anthropic", true, TP_OPENAI_MESSAGES}};

/* --script FILE is --model script:FILE. NULL: none of the kinds. @param ret_rest  what stands behind the colon. */
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

const char *cli_model_name_check(const cli_model_name *name) {
  const char *rest;
  const struct kind *kind = kind_of(name, &rest);
  if (!kind) return "is " KINDS ", not";
  if (kind->remote) return NULL;
  if (name->base_url || name->key_env) return "belongs to models behind an endpoint; a script has none";
  bool limited = name->requests_per_minute || name->tokens_per_minute;
  return limited ? "a script has no limits per minute" : NULL;
}

static int refuse_name(const char *option, const cli_model_name *name, const char *why) {
  const char *rest;
  if (!kind_of(name, &rest)) cli_error("%s %s '%s'", option, why, name->model);
  else if (name->base_url || name->key_env) cli_error("%s %s", name->base_url ? "--base-url" : "--key-env", why);
  else cli_error("%s", why);
  return CLI_USAGE;
}

static bool is_named(const cli_model_name *name) { return name->model || name->script; }

static int check_facts(const cli_arguments *arguments) {
  const cli_model_name *facts = arguments->facts.items;
  if (!arguments->facts.count) return CLI_OK;
  const char *wrong = cli_model_name_check(facts);
  if (wrong) return refuse_name("--facts", facts, wrong);
  if (!arguments->no_memory) return CLI_OK;
  cli_error("--facts is for the memory, and --no-memory does without it");
  return CLI_USAGE;
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
  return check_facts(arguments);
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

#ifdef CLI_OPENAI
static int open_remote(const cli_model_name *named, const char *name, tp_openai_api api, tp_model **ret_model) {
  tp_openai_options options = {.struct_size = sizeof options,
                               .model = name,
                               .base_url = named->base_url,
                               .key_env = named->key_env,
                               .requests_per_minute = named->requests_per_minute,
                               .tokens_per_minute = named->tokens_per_minute,
                               .files_directory = "/", /* for /attach: a person names them */
                               .api = api};
  tp_fault fault = {0};
  tp_status status = tp_openai_model_new(&options, ret_model, &fault);
  return status == TP_OK ? CLI_OK : cli_fault("--model", status, &fault);
}
#else
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
