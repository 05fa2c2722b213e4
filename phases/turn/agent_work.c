/* SPDX-License-Identifier: Apache-2.0
 *
 * agent_work.c: adds and removes an agent. The phases agent.build, agent.register and agent.unregister run one after
 * the other in a small turn. Its owner is the caller of the synchronous function, or an engine worker. */
#include "phases/turn/agent_work.h"

#include "phases/turn/agent_config.h"
#include "phases/turn/agents.h"
#include "phases/model/model.h"
#include "phases/merge/phases.h"
#include "phases/merge/render.h"
#include "phases/turn/turn.h"

typedef enum agent_task {
  AGENT_ADD,    /* build and register */
  AGENT_REMOVE, /* unregister */
  AGENT_BUILD,
  AGENT_REGISTER
} agent_task;

typedef struct agent_work {
  agent_task does;
  tp_agent *agent; /* referenced */
  tp_turn *turn;
  tp__message message; /* submitted */
  tp__phase_run phase;
  tp_field fields[2];
  tp_writer *writer;                 /* holds the config as the host gave it; NULL: there is none */
  tp_text config;                    /* the same, then as built */
  tp_phase_result built, registered; /* till the end */
  tp_status status;
  tp_fault fault;
  bool done;
  bool submitted;
  bool gives_up_handle; /* at the end: the host's reference */
  tp__models models;    /* the agent's when all went well */
  tp_agent_end_fn on_end;
  void *ctx;
} agent_work;

/* ---- the list ---- */

/* Reserves the id before any phase of the agent runs. So if two agents have one id, the second does not disturb the
 * first. */
static tp_status reserve_id(tp_agent *agent, tp_fault *fault) {
  if (tp__agents_reserve(tp__layer_agents(agent->runtime), agent)) return TP_OK;
  return tp__fail(fault, TP_ERR_DUPLICATE_ID, agent->id, "there is an agent `%s` already", agent->id);
}

static void delist(tp_agent *agent) { tp__agents_delist(tp__layer_agents(agent->runtime), agent); }

/* ---- the config ---- */

static char *copy_config_text(const tp_allocator *allocator, tp_text text) {
  char *string = tp__alloc(allocator, text.size + 1);
  if (!string) return NULL;
  if (text.size > 0) memcpy(string, text.data, text.size);
  string[text.size] = 0;
  return string;
}

static tp_status keep_config(tp_agent *agent, tp_text config) {
  char *copy = tp__alloc(tp__runtime_allocator(agent->runtime), config.size);
  if (!copy) return TP_ERR_NO_MEMORY;
  memcpy(copy, config.data, config.size);
  agent->config = (tp_text){copy, config.size};
  agent->scope = tp_value_get(agent->config, "tools");
  agent->denied = tp_value_get(agent->config, "tools_denied");
  return TP_OK;
}

/* The system text comes from the built config, with the environment block, the sections of agent.build, the resource
 * hints and the scope block. */
static tp_status take_built(tp_agent *agent, const tp_phase_result *built, tp_text config) {
  static const tp__merged_list none;
  const tp_allocator *allocator = tp__runtime_allocator(agent->runtime);
  tp_text system = tp_value_text(tp_value_get(config, "system")), model = tp_value_text(tp_value_get(config, "model"));
  tp__arena arena;
  TP__TRY(keep_config(agent, config));
  tp__arena_init(&arena, allocator, NULL, 0, 0);
  tp_status status = tp__render_map(&arena, system, "environment", tp_value_get(config, "environment"), &system);
  if (status == TP_OK)
    status = tp__render_system(&arena, system,
                               built->merged ? &built->merged->lists[TP_CONTRIBUTION_PROMPT_SECTION] : &none, &system);
  if (status == TP_OK) status = tp__render_map(&arena, system, "resources", tp_value_get(config, "resources"), &system);
  if (status == TP_OK)
    status = tp__render_scope(&arena, system, agent->scope, tp_value_get(agent->config, "skills"), &system);
  if (status == TP_OK) {
    agent->system = copy_config_text(allocator, system);
    if (model.size > 0) agent->model_name = copy_config_text(allocator, model);
    if (!agent->system || (model.size > 0 && !agent->model_name)) status = TP_ERR_NO_MEMORY;
  }
  tp__arena_fini(&arena);
  return status;
}

/* ---- the machine: the end of each phase begins the next phase ---- */

static void finish_agent_work(agent_work *w);

static void begin_phase(agent_work *w, uint32_t phase, bool (*skips)(const tp__phase_run *run, const tp__node *node),
                        void (*on_end)(tp__phase_run *run)) {
  bool takes_config = phase != TP_PHASE_AGENT_UNREGISTER;
  w->fields[0] = (tp_field){.id = TP_FIELD_AGENT_ID, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(w->agent->id)};
  w->fields[1] = (tp_field){.id = TP_FIELD_AGENT_CONFIG, .kind = TP_FIELD_KIND_VALUE, .text = w->config};
  w->phase = (tp__phase_run){.turn = w->turn,
                             .phase = phase,
                             .ignores_cancel = !takes_config,
                             .skips = skips,
                             .fields = w->fields,
                             .field_count = takes_config ? 2 : 1,
                             .on_end = on_end,
                             .ctx = w};
  tp__phase_begin(&w->phase);
}

static tp_status status_of_run(agent_work *w, const tp__phase_run *run) {
  const tp_phase_result *result = &run->result;
  if (run->status != TP_OK)
    return tp__fail(&w->fault, run->status, w->agent->id, "the phase was not run: %s", tp_status_text(run->status));
  if (result->outcome == TP_OK) return TP_OK;
  return tp__fail(&w->fault, result->outcome, w->agent->id, "hook %s refused the agent: %.*s",
                  result->subscription ? result->subscription : "?", (int)result->reason.size,
                  result->reason.data ? result->reason.data : "");
}

static void log_unregister(const tp_agent *agent, tp_status status) {
  tp__log_subject subject = {.status = status, .phase = TP_PHASE_AGENT_UNREGISTER};
  tp__log(agent->runtime, TP_LOG_ERROR, &subject, "agent.unregister of `%s`: %s", agent->id, tp_status_text(status));
}

static void unregistered(tp__phase_run *run) {
  agent_work *w = run->ctx;
  tp_status status = run->status != TP_OK ? run->status : run->result.outcome;
  if (status != TP_OK) log_unregister(w->agent, status);
  tp__phase_let_go(&run->result);
  finish_agent_work(w);
}

/* Whether the handler of the run had registered the agent. If the handler itself does not register, another handler of
 * its owner counts. */
static bool had_registered(const agent_work *w, const tp__node *unregisters) {
  const tp__entry *e = w->registered.entry;
  bool registers = false, by_owner = false;
  for (uint32_t i = 0; e && i < e->plan->node_count; i++) {
    const tp__node *node = &e->plan->nodes[i];
    bool did = tp__entry_run(e, i).state == TP_STATE_SUCCEEDED && tp__entry_run(e, i).verdict != TP_VERDICT_DENY;
    if (strcmp(node->handler_name, unregisters->handler_name) == 0) {
      if (did) return true;
      registers = true;
    } else if (did && strcmp(node->owner_name, unregisters->owner_name) == 0) {
      by_owner = true;
    }
  }
  return by_owner && !registers;
}

static bool skips(const tp__phase_run *run, const tp__node *node) { return !had_registered(run->ctx, node); }

static void registered(tp__phase_run *run) {
  agent_work *w = run->ctx;
  w->status = status_of_run(w, run);
  w->registered = run->result;
  run->result = (tp_phase_result){0};
  if (w->status == TP_OK) finish_agent_work(w);
  else /* handlers that had registered the agent are called, in reverse order */
    begin_phase(w, TP_PHASE_AGENT_UNREGISTER, skips, unregistered);
}

static tp_status check_built(agent_work *w) {
  if (tp_value_kind_of(w->config) != TP_VALUE_MAP)
    return tp__fail(&w->fault, TP_ERR_MALFORMED, w->agent->id, "agent.build left a config that is no map");
  return tp__agent_config_check(w->config, w->agent->id, "the config that agent.build left", &w->fault);
}

static void built(tp__phase_run *run) {
  agent_work *w = run->ctx;
  w->built = run->result;
  w->status = status_of_run(w, run);
  run->result = (tp_phase_result){0};
  if (w->status == TP_OK && tp_merged_replaced(w->built.merged, TP_FIELD_AGENT_CONFIG))
    w->config = tp_merged_text(w->built.merged, TP_FIELD_AGENT_CONFIG);
  if (w->status == TP_OK) w->status = check_built(w);
  if (w->status == TP_OK && (w->status = take_built(w->agent, &w->built, w->config)) != TP_OK)
    (void)!tp__fail(&w->fault, w->status, w->agent->id, "no memory for an agent");
  if (w->status == TP_OK && w->does == AGENT_ADD) begin_phase(w, TP_PHASE_AGENT_REGISTER, NULL, registered);
  else finish_agent_work(w);
}

/* ---- the end of the work ---- */

static void free_work(agent_work *w) {
  const tp_allocator *allocator = tp__runtime_allocator(w->agent->runtime);
  tp_agent *agent = w->agent;
  if (w->writer) tp_writer_free(w->writer);
  tp__models_untake(&w->models, allocator);
  tp__release(allocator, w, sizeof *w);
  tp__agent_unref(agent);
}

/* Afterwards the agent is the host's, or it is completely gone. */
static void settle_agent(agent_work *w) {
  bool makes = w->does == AGENT_ADD || w->does == AGENT_BUILD;
  if (makes && w->status == TP_OK) {
    w->agent->models = w->models;
    w->models = (tp__models){.others = NULL};
  }
  if ((w->does == AGENT_ADD || w->does == AGENT_REGISTER) && w->status == TP_OK)
    tp__a32_store_release(&w->agent->registered, 1);
  if (w->does == AGENT_ADD && w->status == TP_OK) {
    tp__agents_show(tp__layer_agents(w->agent->runtime), w->agent);
  } else if (w->does == AGENT_REMOVE) {
    if (w->gives_up_handle) tp__agent_unref(w->agent);
  } else if (makes && w->status != TP_OK) {
    delist(w->agent);
    tp__agent_unref(w->agent); /* the host's, who does not get it */
  }
}

static void finish_agent_work(agent_work *w) {
  tp__phase_let_go(&w->built);
  tp__phase_let_go(&w->registered);
  settle_agent(w);
  w->done = true;
  if (!w->submitted) return;
  tp_turn *turn = w->turn;
  tp__a32_store_release(&turn->core.busy, 0);
  tp_agent_result result = {.struct_size = sizeof result,
                            .status = w->status,
                            .agent = w->status == TP_OK && w->does == AGENT_ADD ? w->agent : NULL,
                            .fault = w->status == TP_OK ? NULL : &w->fault};
  if (w->on_end) w->on_end(w->ctx, &result);
  free_work(w);
  tp_turn_end(turn);
}

static void begin_work(agent_work *w) {
  if (w->writer) begin_phase(w, TP_PHASE_AGENT_BUILD, NULL, built);
  else if (w->does == AGENT_REGISTER) begin_phase(w, TP_PHASE_AGENT_REGISTER, NULL, registered);
  else begin_phase(w, TP_PHASE_AGENT_UNREGISTER, NULL, unregistered);
}

static void delivered(tp__message *message) { begin_work(TP__CONTAINER(message, agent_work, message)); }

/* ---- the two ways to run it ---- */

static tp_status begin_agent_turn(agent_work *w, tp_fault *fault) {
  tp_turn_request request;
  TP__TRY(tp__request_read(NULL, &request, fault));
  tp__turn_ids ids = {.agent = w->agent->id, .used_agent = w->agent};
  tp__turn_kind kind = w->does == AGENT_REMOVE ? TP__TURN_CLOSING : TP__TURN_HELD;
  return tp__turn_new_held(w->agent->runtime, &ids, &request, kind, &w->turn, fault);
}

/* Frees the work. */
static tp_status run_here(agent_work *w, const char *what, tp_fault *fault) {
  tp__inside frame;
  tp_status status = tp__become_owner(w->agent->runtime, &frame, fault, what);
  if (status == TP_OK) {
    status = tp__turn_enter(w->turn);
    if (status == TP_OK) {
      begin_work(w);
      tp__strand_wait(&w->turn->core.strand, &w->done);
      tp__turn_exit(w->turn);
    }
    tp__inside_leave(&frame);
    if (status != TP_OK)
      (void)!tp__fail(fault, status, w->agent->id, "the phases of the agent were not run: %s", tp_status_text(status));
  }
  tp_turn_end(w->turn);
  if (status == TP_OK && w->status != TP_OK) {
    status = w->status;
    if (fault) *fault = w->fault;
  }
  return status;
}

static tp_status submit_agent_work(agent_work *w, tp_fault *fault) {
  tp_status status = tp__turn_begin_operation(&w->turn->core);
  if (status != TP_OK)
    return tp__fail(fault, status, w->agent->id, "the operation was not begun: %s", tp_status_text(status));
  w->submitted = true;
  w->message.deliver = delivered;
  tp__turn_submit(w->turn, &w->message);
  return TP_OK;
}

/* ---- adding ---- */

static tp_status may_submit(const tp_runtime *runtime, const char *here, tp_fault *fault) {
  if (!tp__runtime_options(runtime)->no_engine_workers) return TP_OK;
  return tp__fail(fault, TP_ERR_USAGE, NULL, "the runtime has no engine workers: use %s()", here);
}

tp_status tp__agent_config_read(const tp_runtime *runtime, const tp_agent_config *theirs, tp_agent_config *config,
                                tp_fault *fault) {
  TP__TRY(tp__options_read(config, sizeof *config, theirs, "tp_agent_config", fault));
  if (!config->id || !tp__id_valid(config->id))
    return tp__fail(fault, TP_ERR_BAD_ID, config->id, "an agent needs an id of 1 to 128 bytes without white space");
  TP__TRY(tp__models_check("tp_agent_config", config->model, config->fallbacks, config->fallback_count,
                           tp__runtime_registry(runtime), fault));
  return tp__agent_extra_check(config, fault);
}

static tp_status new_agent(tp_runtime *runtime, const char *id, tp_agent **ret_agent) {
  tp_agent *agent = tp__alloc_zero(tp__runtime_allocator(runtime), sizeof *agent);
  if (!agent) return TP_ERR_NO_MEMORY;
  agent->runtime = runtime;
  atomic_init(&agent->refs.v, 1); /* the host's */
  tp__list_init(&agent->link);
  *ret_agent = agent;
  return tp__string_copy(tp__runtime_allocator(runtime), id, &agent->id);
}

static tp_status new_work(tp_agent *agent, agent_task does, agent_work **ret_work) {
  agent_work *w = tp__alloc_zero(tp__runtime_allocator(agent->runtime), sizeof *w);
  if (!w) return TP_ERR_NO_MEMORY;
  w->does = does;
  w->agent = agent;
  tp__agent_ref(agent);
  *ret_work = w;
  return TP_OK;
}

static tp_status prepare_add(tp_runtime *runtime, const tp_agent_config *config, agent_task does, bool reserves,
                             agent_work **ret_work, tp_fault *fault) {
  tp_agent *agent = NULL;
  agent_work *w = NULL;
  tp_status status = new_agent(runtime, config->id, &agent);
  if (status == TP_OK) status = new_work(agent, does, &w);
  if (status == TP_OK) status = tp__agent_config_write(tp__runtime_allocator(runtime), config, &w->writer, &w->config);
  if (status == TP_OK)
    status = tp__models_take(&w->models, tp__runtime_allocator(runtime), runtime, NULL, config->model,
                             config->fallbacks, config->fallback_count);
  if (status != TP_OK) (void)!tp__fail(fault, status, config->id, "no memory for an agent");
  if (status == TP_OK && reserves) status = reserve_id(agent, fault);
  if (status == TP_OK && (status = begin_agent_turn(w, fault)) != TP_OK) delist(agent);
  if (status == TP_OK) {
    agent->data = config->data;
    *ret_work = w;
    return TP_OK;
  }
  if (w) free_work(w);
  if (agent) tp__agent_unref(agent);
  return status;
}

/* The work was prepared, but none of it will run. */
static void undo_add(agent_work *w) {
  delist(w->agent);
  tp__agent_unref(w->agent);
}

tp_status tp_agent_add(tp_runtime *runtime, const tp_agent_config *theirs, tp_agent **ret_agent, tp_fault *fault) {
  tp_agent_config config;
  agent_work *w;
  TP__TRY(tp__agent_config_read(runtime, theirs, &config, fault));
  TP__TRY(tp__runtime_usable(runtime, fault));
  TP__TRY(tp__may_block(runtime, fault, "tp_agent_add"));
  TP__TRY(tp__runtime_ready(runtime, fault));
  TP__TRY(prepare_add(runtime, &config, AGENT_ADD, true, &w, fault));
  tp_status status = run_here(w, "tp_agent_add", fault);
  if (!w->done) undo_add(w);
  if (status == TP_OK) *ret_agent = w->agent;
  free_work(w);
  return status;
}

tp_status tp_agent_add_submit(tp_runtime *runtime, const tp_agent_config *theirs, tp_agent_end_fn on_end, void *ctx,
                              tp_fault *fault) {
  tp_agent_config config;
  agent_work *w;
  TP__TRY(tp__agent_config_read(runtime, theirs, &config, fault));
  if (!on_end) return tp__fail(fault, TP_ERR_USAGE, config.id, "on_end is missing: nothing else gives the agent");
  TP__TRY(may_submit(runtime, "tp_agent_add", fault));
  TP__TRY(tp__runtime_ready(runtime, fault));
  TP__TRY(prepare_add(runtime, &config, AGENT_ADD, true, &w, fault));
  w->on_end = on_end;
  w->ctx = ctx;
  tp_status status = submit_agent_work(w, fault);
  if (status == TP_OK) return TP_OK;
  undo_add(w);
  tp_turn_end(w->turn);
  free_work(w);
  return status;
}

/* ---- removing ---- */

/* Takes the duty to run agent.unregister. @return TP_OK with *ret_work NULL when it was run already. */
static tp_status prepare_remove(tp_agent *agent, agent_work **ret_work, tp_fault *fault) {
  agent_work *w = NULL;
  *ret_work = NULL;
  if (!tp__a32_exchange_acq_rel(&agent->registered, 0)) return TP_OK;
  tp_status status = new_work(agent, AGENT_REMOVE, &w);
  if (status != TP_OK) (void)!tp__fail(fault, status, agent->id, "no memory for agent.unregister");
  else if ((status = begin_agent_turn(w, fault)) != TP_OK) free_work(w);
  if (status == TP_OK) *ret_work = w;
  return status;
}

void tp__agent_unregister(tp_agent *agent) {
  agent_work *w;
  tp_status status = prepare_remove(agent, &w, NULL);
  if (w) {
    status = run_here(w, "tp_agent_remove", NULL);
    free_work(w);
  }
  if (status != TP_OK) log_unregister(agent, status);
}

void tp_agent_remove(tp_agent *agent) {
  if (!agent || tp__runtime_is_forked(agent->runtime)) return;
  delist(agent);
  tp__agent_unregister(agent);
  tp__agent_unref(agent);
}

tp_status tp_agent_remove_submit(tp_agent *agent, tp_agent_end_fn on_end, void *ctx, tp_fault *fault) {
  agent_work *w;
  if (!agent) return tp__fail(fault, TP_ERR_USAGE, NULL, "there is no agent to remove");
  if (tp__runtime_is_forked(agent->runtime)) return tp__fail_forked(fault);
  TP__TRY(may_submit(agent->runtime, "tp_agent_remove", fault));
  tp_status status = prepare_remove(agent, &w, fault);
  if (status == TP_OK) delist(agent);
  if (status == TP_OK && w) {
    w->on_end = on_end;
    w->ctx = ctx;
    w->gives_up_handle = true;
    status = submit_agent_work(w, fault);
    if (status == TP_OK) return TP_OK;
    tp__agents_show(tp__layer_agents(agent->runtime), agent);
    tp_turn_end(w->turn);
    free_work(w);
  }
  if (status != TP_OK) {
    tp__a32_store_release(&agent->registered, 1);
    return status;
  }
  tp__agent_unref(agent); /* a drain has run agent.unregister */
  if (on_end) on_end(ctx, &(tp_agent_result){.struct_size = sizeof(tp_agent_result)});
  return TP_OK;
}

/* ---- all of them ---- */

void tp__agents_unregister_all(tp_runtime *runtime) {
  tp_agent *agent;
  while ((agent = tp__agents_newest_registered(tp__layer_agents(runtime))) != NULL) {
    tp__agent_unregister(agent);
    tp__agent_unref(agent);
  }
}

/* ---- the steps of a change of several agents ---- */

tp_status tp__agent_build(tp_runtime *runtime, const tp_agent_config *config, bool reserves, tp_agent **ret_agent,
                          tp_fault *fault) {
  agent_work *w;
  TP__TRY(prepare_add(runtime, config, AGENT_BUILD, reserves, &w, fault));
  tp_status status = run_here(w, "tp_agents_change", fault);
  if (!w->done) undo_add(w);
  if (status == TP_OK) *ret_agent = w->agent;
  free_work(w);
  return status;
}

void tp__agent_unbuild(tp_agent *agent) {
  tp__models_untake(&agent->models, tp__runtime_allocator(agent->runtime));
  delist(agent);
  tp__agent_unref(agent);
}

tp_status tp__agent_register(tp_agent *agent, tp_fault *fault) {
  agent_work *w = NULL;
  tp_status status = new_work(agent, AGENT_REGISTER, &w);
  if (status != TP_OK) return tp__fail(fault, status, agent->id, "no memory for agent.register");
  w->config = agent->config;
  status = begin_agent_turn(w, fault);
  if (status == TP_OK) status = run_here(w, "tp_agents_change", fault);
  free_work(w);
  return status;
}
