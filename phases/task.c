/* SPDX-License-Identifier: Apache-2.0
 *
 * task.c: each public function begins a turn without session, gathers policies and tools in it, dispatches one call
 * whose stage the turn says, and ends it. A task is in the table while it is created and run; between these it is in
 * the store, where the store keeps tasks. */
#include "turnphase/task.h"

#include <stdio.h>

#include "phases/agent.h"
#include "runtime/base/hash_table.h"

typedef struct tp__task {
  struct tp__task *next; /* in its bucket */
  bool running;          /* one thread runs it */
  size_t size;
  tp_text arguments;
  const char *key, *tool, *agent; /* agent NULL: none */
} tp__task;

void tp__tasks_fini(tp__tasks *tasks, const tp_allocator *allocator) {
  for (size_t i = 0; i < TP__TASK_BUCKETS; i++) {
    for (tp__task *task = tasks->buckets[i], *next; task; task = next) {
      next = task->next;
      tp__release(allocator, task, task->size);
    }
  }
  tp__mutex_fini(&tasks->mutex);
}

/* ---- the table ---- */

static tp__tasks *tasks_of(tp_runtime *runtime) { return &tp__agent_layer_of(runtime)->tasks; }

/* Where the task is, or would be. */
static tp__task **place_of(tp__tasks *tasks, const char *key) {
  tp__task **place = &tasks->buckets[tp__hash_text(tp_text_of(key), 0) % TP__TASK_BUCKETS];
  while (*place && strcmp((*place)->key, key) != 0) place = &(*place)->next;
  return place;
}

static char *put(char *space, const char *string, const char **ret_copy) {
  size_t size = strlen(string) + 1;
  memcpy(space, string, size);
  *ret_copy = space;
  return space + size;
}

static tp__task *new_task(const tp_allocator *allocator, const tp_task_spec *spec, const char *key) {
  size_t agent_size = spec->agent ? strlen(spec->agent) + 1 : 0;
  size_t size = sizeof(tp__task) + strlen(key) + strlen(spec->tool) + 2 + agent_size + spec->arguments.size;
  tp__task *task = tp__alloc_zero(allocator, size);
  if (!task) return NULL;
  char *space = put(put((char *)(task + 1), key, &task->key), spec->tool, &task->tool);
  if (spec->agent) space = put(space, spec->agent, &task->agent);
  if (spec->arguments.size) memcpy(space, spec->arguments.data, spec->arguments.size);
  task->arguments = (tp_text){space, spec->arguments.size};
  task->size = size;
  return task;
}

/* The key is the task's from here on: that of the host, or the next free one. */
static tp_status add_locked(tp__tasks *tasks, tp__task *task, tp_fault *fault) {
  TP__LOCKED(&tasks->mutex);
  if (tasks->count >= TP_TASKS_MAX)
    return tp__fail(fault, TP_ERR_FULL, NULL, "there are %d tasks: run or discard some", TP_TASKS_MAX);
  tp__task **place = place_of(tasks, task->key);
  if (*place) return tp__fail(fault, TP_ERR_DUPLICATE_ID, task->key, "there is a task of this key");
  *place = task;
  tasks->count++;
  return TP_OK;
}

static tp_status find_locked(tp__tasks *tasks, const char *key, tp__task ***ret_place, tp_fault *fault) {
  TP__LOCKED(&tasks->mutex);
  *ret_place = place_of(tasks, key);
  if (!**ret_place)
    return tp__fail(fault, TP_ERR_NOT_FOUND, key, "there is no task of this key: it was run, or never created");
  if ((**ret_place)->running) return tp__fail(fault, TP_ERR_BUSY, key, "the task is being created or run");
  return TP_OK;
}

static void remove_locked(tp__tasks *tasks, const char *key, const tp_allocator *allocator) {
  TP__LOCKED(&tasks->mutex);
  tp__task **place = place_of(tasks, key), *task = *place;
  *place = task->next;
  tasks->count--;
  tp__release(allocator, task, task->size);
}

/* The thread that has the task gives it up. */
static void leave(tp_runtime *runtime, tp__task *task, bool stays) {
  tp__tasks *tasks = tasks_of(runtime);
  tp__mutex_lock(&tasks->mutex);
  if (stays) task->running = false;
  else remove_locked(tasks, task->key, tp__runtime_allocator(runtime));
  tp__mutex_unlock(&tasks->mutex);
}

/* ---- the store ---- */

static bool keeps_tasks(const tp_runtime *runtime) { return tp__runtime_store(runtime)->task_put != NULL; }

static tp_status store_task(tp_runtime *runtime, const tp__task *task, tp_fault *fault) {
  tp_task_record record = {.struct_size = sizeof record,
                           .created_unix_ms = tp__unix_ms(),
                           .key = tp_text_of(task->key),
                           .tool = tp_text_of(task->tool),
                           .arguments = task->arguments,
                           .agent = tp_text_of(task->agent)};
  const tp_store *store = tp__runtime_store(runtime);
  return store->task_put(store->ctx, &record, fault);
}

typedef struct taking {
  const tp_allocator *allocator;
  const char *key;
  tp__task *task; /* NULL: no memory */
} taking;

static void copy_taken(void *ctx, const tp_task_record *record) {
  taking *t = ctx;
  char tool[TP_ID_BYTES_MAX + 1], agent[TP_ID_BYTES_MAX + 1];
  snprintf(tool, sizeof tool, "%.*s", (int)record->tool.size, record->tool.data);
  snprintf(agent, sizeof agent, "%.*s", (int)record->agent.size, record->agent.size ? record->agent.data : "");
  tp_task_spec spec = {.struct_size = sizeof spec,
                       .tool = tool,
                       .arguments = record->arguments,
                       .agent = record->agent.size ? agent : NULL};
  t->task = new_task(t->allocator, &spec, t->key);
}

/* What became of a task that was taken. When this fails it stays begun, so that it is not run twice. */
static void settle(tp_runtime *runtime, const char *key, bool stays) {
  tp_fault fault = {0};
  const tp_store *store = tp__runtime_store(runtime);
  tp_status status = store->task_settle(store->ctx, tp_text_of(key), stays, &fault);
  if (status != TP_OK)
    tp__log(runtime, TP_LOG_ERROR, &(tp__log_subject){.status = status},
            "what became of the task `%s` was not kept, so it stays begun: %s", key, fault.message);
}

/* Begins a task that this process, or another one, put into the store. */
static tp_status take_stored(tp_runtime *runtime, const char *key, tp__task **ret_task, tp_fault *fault) {
  taking t = {.allocator = tp__runtime_allocator(runtime), .key = key};
  const tp_store *store = tp__runtime_store(runtime);
  TP__TRY(tp__may_block(runtime, fault, "a task"));
  TP__TRY(tp__runtime_ready(runtime, fault));
  TP__TRY(store->task_take(store->ctx, tp_text_of(key), copy_taken, &t, fault));
  *ret_task = t.task;
  if (t.task) return TP_OK;
  settle(runtime, key, true);
  return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the task");
}

/* ---- results ---- */

typedef struct result {
  tp_task_result shown;
  tp_allocator allocator;
  size_t size;
} result;

static tp_task_result *make_result(tp_runtime *runtime, const tp_tool_result *from, const char *key) {
  size_t key_size = key ? strlen(key) : 0, size = sizeof(result) + key_size + from->text.size + 2;
  result *r = tp__alloc_zero(tp__runtime_allocator(runtime), size);
  if (!r) return NULL;
  char *space = (char *)(r + 1);
  r->allocator = *tp__runtime_allocator(runtime);
  r->size = size;
  if (key_size) memcpy(space, key, key_size);
  if (from->text.size) memcpy(space + key_size + 1, from->text.data, from->text.size);
  r->shown = (tp_task_result){.struct_size = sizeof r->shown,
                              .kind = from->kind,
                              .started = from->started,
                              .key = {space, key_size},
                              .text = {space + key_size + 1, from->text.size},
                              .duration_ns = from->duration_ns};
  return &r->shown;
}

void tp_task_result_free(const tp_task_result *shown) {
  if (!shown) return;
  result *r = TP__CONTAINER((tp_task_result *)(uintptr_t)shown, result, shown);
  tp_allocator allocator = r->allocator;
  tp__release(&allocator, r, r->size);
}

/* ---- a turn for one call ---- */

static tp_status begin_turn(tp_runtime *runtime, const tp_turn_request *theirs, const char *agent_id,
                            tp_turn **ret_turn, tp_fault *fault) {
  tp_turn_request request;
  TP__TRY(tp__request_read_held(theirs, &request, fault));
  TP__TRY(tp__runtime_ready(runtime, fault));
  tp_agent *agent = agent_id ? tp_agent_find(runtime, agent_id) : NULL;
  if (agent_id && !agent)
    return tp__fail(fault, TP_ERR_NOT_FOUND, agent_id, "there is no agent of this id: add it with tp_agent_add()");
  tp__turn_ids ids = {.agent = agent_id, .used_agent = agent};
  tp_status status = tp__turn_new_held(runtime, &ids, &request, TP__TURN_HELD, ret_turn, fault);
  tp_agent_unref(agent);
  return status;
}

static tp_status gather(tp_turn *turn, uint32_t phase, const char *what, tp_fault *fault) {
  tp_phase_result ended = {.struct_size = sizeof ended};
  TP__TRY(tp_phase_run(turn, phase, NULL, &ended, fault));
  tp_status status = TP_OK;
  if (ended.outcome != TP_OK)
    status = tp__fail(fault, TP_ERR_HOOK, ended.subscription, "the %s of the call could not be gathered: %.*s", what,
                      (int)ended.reason.size, ended.reason.size ? ended.reason.data : "");
  tp_phase_result_release(turn, &ended);
  return status;
}

/* What one call came to; *ret_result lives as long as the turn. */
static tp_status run_call(tp_turn *turn, const tp_task_spec *spec, const tp__task_view *view,
                          const tp_tool_result **ret_result, tp_fault *fault) {
  static const char no_members = '\x80';
  tp_tool_call call = {.struct_size = sizeof call,
                       .id = view->key,
                       .name = tp_text_of(spec->tool),
                       .arguments = spec->arguments.size ? spec->arguments : (tp_text){&no_members, 1}};
  const tp_tool_call *calls[] = {&call};
  const tp_tool_result *const *results;
  TP__TRY(gather(turn, TP_PHASE_TURN_PRE_POLICY, "policies", fault));
  TP__TRY(gather(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, "tools", fault));
  turn->task = view;
  TP__TRY(tp_tools_run(turn, calls, 1, &results, fault));
  *ret_result = results[0];
  return TP_OK;
}

/* @param ret_kept  whether a task of this call may be run later: one that was created is allowed, or one whose run
 *                  did not start its tool. */
static tp_status run_in_turn(tp_runtime *runtime, const tp_task_spec *spec, const tp__task_view *view,
                             const tp_task_result **ret_result, bool *ret_kept, tp_fault *fault) {
  tp_turn *turn;
  const tp_tool_result *came;
  tp_task_result *made = NULL;
  TP__TRY(tp__may_block(runtime, fault, "a task"));
  TP__TRY(begin_turn(runtime, spec->request, spec->agent, &turn, fault));
  tp_status status = run_call(turn, spec, view, &came, fault);
  if (status == TP_OK) {
    *ret_kept = view->stage == TP__TASK_CREATE ? came->kind == TP_TOOL_OK : !came->started && came->kind != TP_TOOL_OK;
    const char *key = view->key.size && *ret_kept ? view->key.data : NULL;
    if (ret_result && !(made = make_result(runtime, came, key)))
      status = tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the result of the call");
  }
  tp_turn_end(turn);
  if (made) *ret_result = made;
  return status;
}

/* ---- the public functions ---- */

static tp_status read_spec(const tp_task_spec *theirs, tp_task_spec *spec, tp_fault *fault) {
  memset(spec, 0, sizeof *spec);
  if (!theirs) return tp__fail(fault, TP_ERR_USAGE, NULL, "a task needs a tp_task_spec");
  TP__TRY(tp__options_read(spec, sizeof *spec, theirs, "tp_task_spec", fault));
  if (!spec->tool || !tp__id_valid(spec->tool))
    return tp__fail(fault, TP_ERR_BAD_ID, spec->tool, "tp_task_spec.tool must be 1 to 128 bytes without white space");
  if (spec->key && !tp__id_valid(spec->key))
    return tp__fail(fault, TP_ERR_BAD_ID, spec->key, "tp_task_spec.key must be 1 to 128 bytes without white space");
  if (!spec->arguments.size) return TP_OK;
  tp_status status = tp_value_check(spec->arguments, NULL);
  if (status == TP_OK && tp_value_kind_of(spec->arguments) != TP_VALUE_MAP) status = TP_ERR_USAGE;
  if (status == TP_OK) return TP_OK;
  return tp__fail(fault, status == TP_ERR_NO_MEMORY ? status : TP_ERR_USAGE, spec->tool,
                  "tp_task_spec.arguments must be one value, a map");
}

static tp__task_view view_of(tp__task_stage stage, const char *key) {
  return (tp__task_view){.stage = stage, .key = tp_text_of(key)};
}

/* The key is taken before the gates are asked, so that no two creations come to one key. */
static tp_status reserve(tp_runtime *runtime, const tp_task_spec *spec, tp__task **ret_task, tp_fault *fault) {
  char generated[40];
  tp__tasks *tasks = tasks_of(runtime);
  tp__mutex_lock(&tasks->mutex);
  if (!spec->key)
    snprintf(generated, sizeof generated, "task-%016llx-%llu", (unsigned long long)tp__runtime_run_id(runtime),
             (unsigned long long)++tasks->created);
  tp__task *task = new_task(tp__runtime_allocator(runtime), spec, spec->key ? spec->key : generated);
  tp_status status = task ? add_locked(tasks, task, fault) : TP_ERR_NO_MEMORY;
  if (status == TP_OK) task->running = true;
  tp__mutex_unlock(&tasks->mutex);
  if (!task) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the task");
  if (status != TP_OK) tp__release(tp__runtime_allocator(runtime), task, task->size);
  *ret_task = task;
  return status;
}

tp_status tp_task_create(tp_runtime *runtime, const tp_task_spec *theirs, const tp_task_result **ret_result,
                         tp_fault *fault) {
  tp_task_spec spec;
  tp__task *task = NULL;
  bool kept = false;
  TP__TRY(read_spec(theirs, &spec, fault));
  TP__TRY(tp__runtime_usable(runtime, fault));
  TP__TRY(reserve(runtime, &spec, &task, fault));
  tp__task_view view = view_of(TP__TASK_CREATE, task->key);
  const tp_task_result *made = NULL;
  tp_status status = run_in_turn(runtime, &spec, &view, &made, &kept, fault);
  if (status == TP_OK && kept && keeps_tasks(runtime)) {
    status = store_task(runtime, task, fault);
    kept = false; /* here */
  }
  leave(runtime, task, status == TP_OK && kept);
  if (status == TP_OK && ret_result) *ret_result = made;
  else tp_task_result_free(made);
  return status;
}

tp_status tp_task_call(tp_runtime *runtime, const tp_task_spec *theirs, const tp_task_result **ret_result,
                       tp_fault *fault) {
  tp_task_spec spec;
  bool kept;
  TP__TRY(read_spec(theirs, &spec, fault));
  if (spec.key)
    return tp__fail(fault, TP_ERR_USAGE, spec.key, "a direct call keeps no task: leave tp_task_spec.key NULL");
  TP__TRY(tp__runtime_usable(runtime, fault));
  tp__task_view view = view_of(TP__TASK_WHOLE, NULL);
  return run_in_turn(runtime, &spec, &view, ret_result, &kept, fault);
}

/* @param ret_is_stored  it is the store's, and not in the table. */
static tp_status take(tp_runtime *runtime, const char *key, tp__task **ret_task, bool *ret_is_stored, tp_fault *fault) {
  tp__task **place;
  tp__tasks *tasks = tasks_of(runtime);
  tp__mutex_lock(&tasks->mutex);
  tp_status status = find_locked(tasks, key, &place, fault);
  if (status == TP_OK) {
    *ret_task = *place;
    (*place)->running = true;
  }
  tp__mutex_unlock(&tasks->mutex);
  *ret_is_stored = status == TP_ERR_NOT_FOUND && keeps_tasks(runtime);
  return *ret_is_stored ? take_stored(runtime, key, ret_task, fault) : status;
}

tp_status tp_task_run(tp_runtime *runtime, const char *key, const tp_turn_request *request,
                      const tp_task_result **ret_result, tp_fault *fault) {
  tp__task *task = NULL;
  bool is_stored, kept = true; /* what did not begin may be run again */
  TP__TRY(tp__runtime_usable(runtime, fault));
  if (!key) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_task_run needs a key");
  TP__TRY(take(runtime, key, &task, &is_stored, fault));
  tp_task_spec spec = {.struct_size = sizeof spec,
                       .tool = task->tool,
                       .arguments = task->arguments,
                       .agent = task->agent,
                       .request = request};
  tp__task_view view = view_of(TP__TASK_RUN, task->key);
  tp_status status = run_in_turn(runtime, &spec, &view, ret_result, &kept, fault);
  if (is_stored) {
    settle(runtime, task->key, kept);
    tp__release(tp__runtime_allocator(runtime), task, task->size);
  } else {
    leave(runtime, task, kept);
  }
  return status;
}

tp_status tp_task_discard(tp_runtime *runtime, const char *key, tp_fault *fault) {
  tp__task **place;
  TP__TRY(tp__runtime_usable(runtime, fault));
  if (!key) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_task_discard needs a key");
  tp__tasks *tasks = tasks_of(runtime);
  tp__mutex_lock(&tasks->mutex);
  tp_status status = find_locked(tasks, key, &place, fault);
  if (status == TP_OK) remove_locked(tasks, key, tp__runtime_allocator(runtime));
  tp__mutex_unlock(&tasks->mutex);
  if (status != TP_ERR_NOT_FOUND || !keeps_tasks(runtime)) return status;
  TP__TRY(tp__may_block(runtime, fault, "a task"));
  TP__TRY(tp__runtime_ready(runtime, fault));
  const tp_store *store = tp__runtime_store(runtime);
  return store->task_settle(store->ctx, tp_text_of(key), false, fault);
}
