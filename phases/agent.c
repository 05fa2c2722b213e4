/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/render.h"
#include "phases/session.h"

static void free_agent(tp_agent *agent) {
  const tp_allocator *allocator = &agent->upper->runtime->allocator;
  if (agent->model.destroy) agent->model.destroy(agent->model.self);
  tp__string_free(allocator, agent->id);
  tp__string_free(allocator, agent->system);
  tp__string_free(allocator, agent->model_name);
  tp__release(allocator, agent, sizeof *agent);
}

void tp__agent_unref(tp_agent *agent) {
  if (tp__a32_sub_acq_rel(&agent->refs, 1) == 1) free_agent(agent);
}

/* ---- the phases of an agent run in a small turn of their own ---- */

static tp_status begin(tp_runtime *runtime, const char *agent_id, tp__turn_kind kind, tp_turn **ret_turn,
                       tp_fault *fault) {
  tp_turn_request request;
  TP__TRY(tp__request_read(NULL, &request, fault));
  tp__turn_ids ids = {.agent = agent_id};
  return tp__turn_new_held(runtime, &ids, &request, kind, ret_turn, fault);
}

static tp_status write_config(tp_runtime *runtime, const tp_agent_config *config, tp_writer **ret_writer,
                              tp_text *ret_value) {
  tp_writer *writer;
  TP__TRY(tp_writer_new(&runtime->allocator, &writer));
  tp_write_map(writer, 2);
  tp_write_string(writer, "system");
  tp_write_string(writer, config->system ? config->system : "");
  tp_write_string(writer, "model");
  tp_write_string(writer, config->model_name ? config->model_name : "");
  tp_status status = tp_writer_finish(writer, ret_value);
  if (status == TP_OK) *ret_writer = writer;
  else tp_writer_free(writer);
  return status;
}

static tp_status run_phase(tp_turn *turn, uint32_t phase, const char *agent_id, tp_text config, tp_phase_result *result,
                           tp_fault *fault) {
  tp_field fields[2] = {{.id = TP_FIELD_AGENT_ID, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(agent_id)},
                        {.id = TP_FIELD_AGENT_CONFIG, .kind = TP_FIELD_KIND_VALUE, .text = config}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = config.size ? 2 : 1};
  TP__TRY(tp_phase_run(turn, phase, &input, result, fault));
  if (result->outcome == TP_OK) return TP_OK;
  return tp__fail(fault, result->outcome, agent_id, "hook %s refused the agent: %.*s",
                  result->subscription ? result->subscription : "?", (int)result->reason.size,
                  result->reason.data ? result->reason.data : "");
}

static char *copy_text(const tp_allocator *allocator, tp_text text) {
  char *string = tp__alloc(allocator, text.size + 1);
  if (!string) return NULL;
  if (text.size > 0) memcpy(string, text.data, text.size);
  string[text.size] = 0;
  return string;
}

/* The system text is the built config's, with the sections that agent.build brought. */
static tp_status take_built(tp_agent *agent, const tp_phase_result *built, tp_text config) {
  static const tp__merged_list none;
  const tp_allocator *allocator = &agent->upper->runtime->allocator;
  if (tp_merged_replaced(built->merged, TP_FIELD_AGENT_CONFIG))
    config = tp_merged_text(built->merged, TP_FIELD_AGENT_CONFIG);
  tp_text system = tp_value_text(tp_value_get(config, "system")), model = tp_value_text(tp_value_get(config, "model"));
  tp__arena arena;
  tp__arena_init(&arena, allocator, NULL, 0, 0);
  tp_status status =
      tp__render_system(&arena, system, built->merged ? &built->merged->lists[TP_KIND_PROMPT_SECTION] : &none, &system);
  if (status == TP_OK) {
    agent->system = copy_text(allocator, system);
    if (model.size > 0) agent->model_name = copy_text(allocator, model);
    if (!agent->system || (model.size > 0 && !agent->model_name)) status = TP_ERR_NO_MEMORY;
  }
  tp__arena_fini(&arena);
  return status;
}

static tp_status build(tp_agent *agent, tp_turn *turn, const tp_agent_config *config, tp_fault *fault) {
  tp_runtime *runtime = agent->upper->runtime;
  tp_writer *writer;
  tp_text value;
  tp_status status = write_config(runtime, config, &writer, &value);
  if (status != TP_OK) return tp__fail(fault, status, config->id, "no memory for an agent");
  tp_phase_result built = {.struct_size = sizeof built}, registered = {.struct_size = sizeof registered};
  status = run_phase(turn, TP_PHASE_AGENT_BUILD, config->id, value, &built, fault);
  if (status == TP_OK && (status = take_built(agent, &built, value)) != TP_OK)
    (void)!tp__fail(fault, status, config->id, "no memory for an agent");
  if (status == TP_OK) status = run_phase(turn, TP_PHASE_AGENT_REGISTER, config->id, value, &registered, fault);
  tp_writer_free(writer);
  return status;
}

/* ---- the list ---- */

static bool is_listed_locked(const tp__upper *upper, const char *id) {
  for (const tp__link *link = upper->agents.next; link != &upper->agents; link = link->next)
    if (strcmp(TP__CONTAINER((tp__link *)(uintptr_t)link, tp_agent, link)->id, id) == 0) return true;
  return false;
}

/* Before anything of the agent runs, so that of two with one id the second does not disturb the first. */
static tp_status reserve_id(tp_agent *agent, tp_fault *fault) {
  tp__upper *upper = agent->upper;
  tp__mutex_lock(&upper->agents_mutex);
  bool listed = is_listed_locked(upper, agent->id);
  if (!listed) tp__list_push(&upper->agents, &agent->link);
  tp__mutex_unlock(&upper->agents_mutex);
  return listed ? tp__fail(fault, TP_ERR_DUPLICATE_ID, agent->id, "there is an agent `%s` already", agent->id) : TP_OK;
}

static void delist(tp_agent *agent) {
  tp__mutex_lock(&agent->upper->agents_mutex);
  tp__list_remove(&agent->link);
  tp__mutex_unlock(&agent->upper->agents_mutex);
}

static void unregister(tp_agent *agent) {
  tp_turn *turn;
  tp_phase_result result = {.struct_size = sizeof result};
  tp_runtime *runtime = agent->upper->runtime;
  tp_status status = begin(runtime, agent->id, TP__TURN_CLOSING, &turn, NULL);
  if (status == TP_OK) {
    status = run_phase(turn, TP_PHASE_AGENT_UNREGISTER, agent->id, (tp_text){NULL, 0}, &result, NULL);
    tp_turn_end(turn);
  }
  if (status != TP_OK)
    tp__log(runtime, TP_LOG_ERROR, "agent.unregister of `%s`: %s", agent->id, tp_status_text(status));
}

tp_status tp_agent_add(tp_runtime *runtime, const tp_agent_config *theirs, tp_agent **ret_agent, tp_fault *fault) {
  tp_agent_config config;
  TP__TRY(tp__options_read(&config, sizeof config, theirs, "tp_agent_config", fault));
  if (!config.id || !tp__id_valid(config.id))
    return tp__fail(fault, TP_ERR_BAD_ID, config.id, "an agent needs an id of 1 to 128 bytes without white space");
  TP__TRY(tp__runtime_usable(runtime, fault));
  TP__TRY(tp__may_block(runtime, fault, "tp_agent_add"));
  TP__TRY(tp__runtime_ready(runtime, fault));
  tp_agent *agent = tp__alloc_zero(&runtime->allocator, sizeof *agent);
  if (!agent) return tp__fail(fault, TP_ERR_NO_MEMORY, config.id, "no memory for an agent");
  agent->upper = tp__upper_of(runtime);
  atomic_init(&agent->refs.v, 1);
  tp_turn *turn = NULL;
  tp_status status = tp__string_copy(&runtime->allocator, config.id, &agent->id);
  tp__list_init(&agent->link);
  if (status != TP_OK) (void)!tp__fail(fault, status, config.id, "no memory for an agent");
  else status = reserve_id(agent, fault);
  if (status == TP_OK) status = begin(runtime, config.id, TP__TURN_HELD, &turn, fault);
  if (status == TP_OK) status = build(agent, turn, &config, fault);
  if (turn) tp_turn_end(turn);
  if (status != TP_OK) {
    delist(agent);
    free_agent(agent);
    return status;
  }
  agent->model = config.model;
  *ret_agent = agent;
  return TP_OK;
}

void tp_agent_remove(tp_agent *agent) {
  if (!agent || tp__runtime_is_forked(agent->upper->runtime)) return;
  delist(agent);
  unregister(agent);
  tp__agent_unref(agent);
}

void tp__agents_free_all(tp_runtime *runtime) {
  tp__upper *upper = tp__upper_of(runtime);
  while (!tp__list_empty(&upper->agents)) {
    tp_agent *agent = TP__CONTAINER(upper->agents.next, tp_agent, link);
    tp__list_remove(&agent->link);
    tp__agent_unref(agent);
  }
}
