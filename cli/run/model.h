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

/** The error in the name of a model; prints nothing. @return NULL when the model can be opened. */
const char *cli_model_name_check(const cli_model_name *name);
/** Writes the header traceparent of a request to a model, as tp_openai_options.traceparent. */
typedef bool cli_traceparent_fn(void *ctx, const tp_text *ids, uint32_t id_count, char ret_text[56]);
/** Sets the function for all models that are opened later. Main thread only. NULL: none. */
void cli_model_traceparent(cli_traceparent_fn *give, void *ctx);
/** Models that are opened after this use HTTP/1.1. So an answer that a slow client holds back waits at its source
 *  (tp_openai_options.http1). */
void cli_model_http1(void);

/** Checks that cli_models_open() can open the models of the command line, and that they can be combined.
 *  @param command  the user's command, for messages.
 *  @param required  at least one must be named.
 *  @return CLI_OK, or CLI_USAGE after a message. */
int cli_models_check(const cli_arguments *arguments, const char *command, bool required);
/** Opens the checked models.
 *  @param models  to be freed by cli_models_free() if they are not taken.
 *  @return CLI_OK, or an exit status after a message: then none is open. */
int cli_models_open(const cli_model_names *names, cli_models *models);
void cli_models_free(cli_models *models);
/** Opens the embedder of the command line; it was checked together with the models.
 *  @param embedder  name NULL: none was given; else the caller destroys it if it is not taken. */
int cli_embedder_open(const cli_arguments *arguments, tp_memory_embedder *embedder);

/** Opens the model of --hook-model, if there is one and it is not open yet.
 *  @return CLI_OK, or an exit status after a message. Main thread. */
int cli_hook_model_open(const cli_arguments *arguments);
/** NULL: none is open. */
const tp_model *cli_hook_model(void);
/** The same for the model of --mcp-sampling. Its value may also be the word client, which names no model. */
int cli_sampling_model_open(const cli_arguments *arguments);
const tp_model *cli_sampling_model(void);
bool cli_sampling_is_client(const cli_arguments *arguments);
/** Both, after the last runtime has ended. */
void cli_only_models_free(void);

#endif
