/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/watch.h"

#include <stdlib.h>

/* The model has not read the results after its last message. */
static size_t first_unread(const tp_model_request *request) {
  size_t first = request->message_count;
  while (first > 0 && request->messages[first - 1]->role != TP_ROLE_ASSISTANT) first--;
  return first;
}

static void remember(cli_watch *watch, const tp_model_request *request) {
  size_t count = 0;
  cli_pool_free(&watch->pool);
  watch->tool_count = 0;
  for (size_t i = 0; i < request->tool_count; i++, watch->tool_count++) {
    const tp_tool *tool = request->tools[i];
    watch->tools = cli_reserve(watch->tools, 2 * i + 1, &watch->tools_capacity, sizeof *watch->tools);
    watch->tools[2 * i] = cli_pool_copy(&watch->pool, tp_text_of(tool->name));
    watch->tools[2 * i + 1] = cli_pool_copy(&watch->pool, tp_text_of(tool->description ? tool->description : ""));
  }
  for (size_t i = first_unread(request); i < request->message_count; i++) {
    const tp_message *message = request->messages[i];
    if (message->role != TP_ROLE_TOOL) continue;
    watch->results = cli_reserve(watch->results, count, &watch->results_capacity, sizeof *watch->results);
    watch->results[count++] = cli_pool_copy(&watch->pool, message->call_id);
  }
  watch->request = (cli_request){
      .message_count = request->message_count, .tool_results = watch->results, .tool_result_count = count};
}

/** A model that watches another one. */
typedef struct watching {
  tp_model face;   /* this one */
  tp_model *model; /* the one that answers */
  cli_watch *watch;
} watching;

/* The library starts one request of a turn at a time and reports its end afterwards, so no other thread reads
 * meanwhile. */
static void start_watched(void *ctx, const tp_model_request *request, tp_token token) {
  watching *w = ctx;
  remember(w->watch, request);
  w->model->start(w->model->ctx, request, token);
}

static void cancel(void *ctx, tp_token token) {
  watching *w = ctx;
  if (w->model->cancel) w->model->cancel(w->model->ctx, token);
}

static void destroy(void *ctx) {
  watching *w = ctx;
  tp_model_free(w->model);
  free(w);
}

tp_model *cli_watch_add(cli_watch *watch, tp_model *model) {
  watching *w = cli_alloc(sizeof *w);
  *w = (watching){.face = *model, .model = model, .watch = watch};
  w->face.ctx = w;
  w->face.start = start_watched;
  w->face.cancel = cancel;
  w->face.destroy = destroy;
  return &w->face;
}

void cli_watch_fini(cli_watch *watch) {
  free(watch->results);
  free(watch->tools);
  cli_pool_free(&watch->pool);
}
