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
static const struct kind *kind_of(const cli_arguments *arguments, const char **ret_rest) {
  const char *colon = arguments->model ? strchr(arguments->model, ':') : NULL;
  if (!arguments->model) {
    *ret_rest = arguments->script;
    return &kinds[0];
  }
  for (size_t i = 0; colon && colon[1] && i < sizeof kinds / sizeof *kinds; i++) {
    size_t size = strlen(kinds[i].name);
    if ((size_t)(colon - arguments->model) != size || memcmp(arguments->model, kinds[i].name, size) != 0) continue;
    *ret_rest = colon + 1;
    return &kinds[i];
  }
  return NULL;
}

int cli_model_check(const cli_arguments *arguments, const char *command) {
  const char *rest;
  const struct kind *kind = kind_of(arguments, &rest);
  if (!arguments->script && !arguments->model) {
    cli_error("%s needs a model: --model " KINDS "; see: turnphase %s --help", command, command);
    return CLI_USAGE;
  }
  if (arguments->script && arguments->model) {
    cli_error("--script and --model name a model each: give one of them");
    return CLI_USAGE;
  }
  if (!kind) {
    cli_error("--model is " KINDS ", not '%s'", arguments->model);
    return CLI_USAGE;
  }
  if (!kind->remote && (arguments->base_url || arguments->key_env)) {
    cli_error("%s belongs to models behind an endpoint; a script has none",
              arguments->base_url ? "--base-url" : "--key-env");
    return CLI_USAGE;
  }
  return CLI_OK;
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
static int open_remote(const cli_arguments *arguments, const char *name, tp_openai_api api, tp_model **ret_model) {
  tp_openai_options options = {.struct_size = sizeof options,
                               .model = name,
                               .base_url = arguments->base_url,
                               .key_env = arguments->key_env,
                               .api = api};
  tp_fault fault = {0};
  tp_status status = tp_openai_model_new(&options, ret_model, &fault);
  return status == TP_OK ? CLI_OK : cli_fault("--model", status, &fault);
}
#else
static int open_remote(const cli_arguments *arguments, const char *name, tp_openai_api api, tp_model **ret_model) {
  (void)name;
  (void)api;
  (void)ret_model;
  cli_error("--model %s: this turnphase was built without turnphase-openai (libcurl)", arguments->model);
  return CLI_UNAVAILABLE;
}
#endif

int cli_model_open(const cli_arguments *arguments, tp_model **ret_model) {
  const char *rest;
  const struct kind *kind = kind_of(arguments, &rest);
  return kind->remote ? open_remote(arguments, rest, kind->api, ret_model) : load_script(rest, ret_model);
}
