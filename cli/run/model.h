/* SPDX-License-Identifier: Apache-2.0
 *
 * model: the models that the command line and the agents of a conversation name: script:FILE, openai:NAME,
 * openai-responses:NAME, anthropic:NAME. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "cli/common/options.h"
#include "turnphase/memory.h"

enum { CLI_MODELS_MAX = 17 }; /* the first and its fallbacks */

/** Models that were opened, in the order in which they are asked. */
typedef struct cli_models {
  tp_model *items[CLI_MODELS_MAX];
  size_t count;
} cli_models;

/** What is wrong with the name of a model; then nothing is said. @return NULL when it can be opened. */
const char *cli_model_name_check(const cli_model_name *name);
/** Writes the header traceparent of a request to a model, as tp_openai_options.traceparent. */
typedef bool cli_traceparent_fn(void *ctx, const tp_text *ids, uint32_t id_count, char ret_text[56]);
/** Of all models that are opened from now on; the main thread's. NULL: none. */
void cli_model_traceparent(cli_traceparent_fn *give, void *ctx);
/** Models that are opened from here on speak HTTP/1.1, so that an answer which a slow client holds back waits where it
 *  comes from (tp_openai_options.http1). */
void cli_model_http1(void);

/** Whether the models of the command line are ones that cli_models_open() understands, and go together.
 *  @param command  that of the user, for messages.
 *  @param required  at least one must be named.
 *  @return CLI_OK or CLI_USAGE, said. */
int cli_models_check(const cli_arguments *arguments, const char *command, bool required);
/** Opens what was checked.
 *  @param models  cli_models_free() when they were not taken.
 *  @return CLI_OK, or an exit status after saying what is wrong: then none is open. */
int cli_models_open(const cli_model_names *names, cli_models *models);
void cli_models_free(cli_models *models);
/** Opens the embedder of the command line, which was checked with its models.
 *  @param embedder  name NULL: none was given; else destroyed by the caller when it was not taken. */
int cli_embedder_open(const cli_arguments *arguments, tp_memory_embedder *embedder);

/** Opens the model of --hook-model, if there is one and it is not open yet.
 *  @return CLI_OK, or an exit status after saying what is wrong. Main thread. */
int cli_hook_model_open(const cli_arguments *arguments);
/** NULL: none is open. */
const tp_model *cli_hook_model(void);
/** The same for the model of --mcp-sampling, which may also be the word client: that is no model. */
int cli_sampling_model_open(const cli_arguments *arguments);
const tp_model *cli_sampling_model(void);
bool cli_sampling_is_client(const cli_arguments *arguments);
/** Both, after the last runtime has ended. */
void cli_only_models_free(void);

#endif
