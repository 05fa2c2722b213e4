/* SPDX-License-Identifier: Apache-2.0
 *
 * world: the set-up of most tests of turns: a runtime with hooks and tools, an agent, and a session whose model is a
 * recorder, or a bare turn with its tools. A file whose cases need more state declares it next to it:
 *
 *     typedef struct world {
 *       WORLD;
 *       observed seen;
 *     } world;
 *
 *     world w;
 *     world_open(&w.stage, &(world_options){.replies = replies, .reply_count = 2, .session.on_event = note});
 *     …
 *     world_close(&w.stage); */
#ifndef TEST_WORLD_H
#define TEST_WORLD_H

#include "tests/support/counting.h"
#include "tests/support/model.h"

#define WORLD_MEMBERS                                             \
  tp_runtime *runtime;                                            \
  tp_agent *agent;     /* NULL: none */                           \
  tp_session *session; /* NULL: none */                           \
  tp_turn *turn;       /* bare; NULL: none */                     \
  recorder *model;     /* NULL: none, or a model of the file's */ \
  bool is_outlived     /* by what the test holds of the runtime */

typedef struct world_stage {
  WORLD_MEMBERS;
} world_stage;

/* The members, also as one. */
#define WORLD          \
  union {              \
    world_stage stage; \
    struct {           \
      WORLD_MEMBERS;   \
    };                 \
  }

typedef struct world_options {
  tp_runtime_options runtime;
  void (*prepare)(tp_runtime *runtime); /* before hooks, tools and agent; NULL: none */
  const hook *hooks;
  size_t hook_count;
  const tp_tool *const *tools; /* each added by tp_tool_add() */
  size_t tool_count;
  const reply *replies; /* of the recorder */
  size_t reply_count;
  tp_agent_config agent;      /* added where it has an id */
  tp_session_options session; /* opened where there are replies or a model; its id is "s" where it has none */
} world_options;

static long blocks_before; /* of counting.h: files may keep some for longer than a runtime */

/* The agent may be refused: then there is no session. @return the status of tp_agent_add(), or TP_OK. */
static inline tp_status world_try_open(world_stage *w, const world_options *options, tp_fault *fault) {
  tp_runtime_options runtime = options->runtime;
  runtime.struct_size = sizeof runtime;
  if (!runtime.allocator.alloc) runtime.allocator = counting;
  blocks_before = blocks_open;
  *w = (world_stage){.runtime = open_runtime(&runtime)};
  if (options->prepare) options->prepare(w->runtime);
  if (options->hook_count) add_hooks(w->runtime, options->hooks, options->hook_count);
  for (size_t i = 0; i < options->tool_count; i++)
    if (tp_tool_add(w->runtime, options->tools[i], fault) != TP_OK) fail_msg("%s", fault->message);
  if (options->reply_count) w->model = recorder_new(options->replies, options->reply_count);
  if (options->agent.id) {
    tp_agent_config agent = options->agent;
    agent.struct_size = sizeof agent;
    tp_status status = tp_agent_add(w->runtime, &agent, &w->agent, fault);
    if (status != TP_OK) return status;
  }
  tp_session_options session = options->session;
  session.struct_size = sizeof session;
  session.agent = w->agent;
  if (!session.id) session.id = "s";
  if (w->model && !session.model) session.model = recorder_model(w->model, true);
  if ((session.model || options->agent.model) && tp_session_open(w->runtime, &session, &w->session, fault) != TP_OK)
    fail_msg("%s", fault->message);
  return TP_OK;
}

static inline void world_open(world_stage *w, const world_options *options) {
  tp_fault fault = {0};
  if (world_try_open(w, options, &fault) != TP_OK) fail_msg("%s", fault.message);
}

/* Begins the bare turn, and materializes its tools. */
static inline void world_begin_bare(world_stage *w) {
  w->turn = begin_bare(w->runtime, 60000);
  assert_int_equal(run_phase(w->turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL).outcome, TP_OK);
}

/* Checks that the recorder was destroyed once, if a session had taken it, and that the runtime left no memory. */
static inline void world_close(world_stage *w) {
  bool had_session = w->session != NULL;
  if (w->turn) tp_turn_end(w->turn);
  tp_session_close(w->session, NULL, NULL);
  if (w->agent) tp_agent_remove(w->agent);
  close_runtime(w->runtime);
  if (!w->is_outlived && blocks_open > blocks_before)
    fail_msg("the runtime left %ld blocks of memory", blocks_open - blocks_before);
  if (w->model && had_session) assert_int_equal(w->model->destroys, 1);
  if (w->model) recorder_free(w->model);
}

#endif
