/* SPDX-License-Identifier: Apache-2.0
 *
 * Registration: the handler that contributes the tools. */
#include "turnphase/tasks.h"

#include <string.h>

#include "domains/tasks/task_tools.h"
#include "support/bytes.h"
#include "support/fault.h"

enum { TOOLS = 3, NAMES = 2, ASKED_LIMIT_MS = 3600000 };

/** One row for each tool, with its names. */
static const struct tool_row {
  const char *names[NAMES];
  const char *description, *schema;
  tp_tool_fn run;
  tp_tool_keys_fn keys;
  uint32_t limit_ms; /* 0: the default */
  bool idempotent;
} rows[TOOLS] = {
    {{"abilities_list", "LIST_ABILITIES"},
     "List the abilities that can be called now or made into a task; of one, its arguments, too.",
     "{\"type\":\"object\",\"properties\":{\"ability_id\":{\"type\":\"string\",\"description\":\"show this one "
     "with its arguments; without it all\"}},\"required\":[]}",
     tp__abilities_list,
     NULL,
     0,
     true},
    {{"task_create", "CREATE_TASK"},
     "Create a task: a call of an ability that is checked now and run later, by its task_key. It does not run the "
     "ability. The answer has the task_key, or why the ability is not available.",
     "{\"type\":\"object\",\"properties\":{\"ability_id\":{\"type\":\"string\",\"description\":\"the ability\"},"
     "\"arguments\":{\"type\":\"object\",\"description\":\"what it shall be called with\"},"
     "\"task_key\":{\"type\":\"string\",\"description\":\"a name of your own for the task, such as build-1; without "
     "it one is made\"}},\"required\":[\"ability_id\"]}",
     tp__task_create,
     tp__task_keys,
     ASKED_LIMIT_MS,
     false},
    {{"task_run", "RUN_TASK"},
     "Run a task that was created, once. The answer is that of its ability, or why it may not run now.",
     "{\"type\":\"object\",\"properties\":{\"task_key\":{\"type\":\"string\",\"description\":\"the key of the "
     "task\"}},\"required\":[\"task_key\"]}",
     tp__task_run,
     tp__task_keys,
     ASKED_LIMIT_MS,
     false}};

/* The state that the handler owns. */
typedef struct domain {
  tp__tasks_domain shared;
  tp_tool tools[TOOLS * NAMES];
  const tp_tool *list[TOOLS * NAMES]; /* the addresses of the tools */
  size_t count;
} domain;

bool tp__tasks_is_own(const char *name) {
  for (size_t i = 0; i < TOOLS; i++)
    for (size_t n = 0; n < NAMES; n++)
      if (strcmp(rows[i].names[n], name) == 0) return true;
  return false;
}

static void add_tool(domain *d, const struct tool_row *row, const char *name) {
  d->tools[d->count] = (tp_tool){.struct_size = sizeof(tp_tool),
                                 .name = name,
                                 .description = row->description,
                                 .schema_json = row->schema,
                                 .run = row->run,
                                 .ctx = &d->shared,
                                 .placement = TP_PLACEMENT_INLINE,
                                 .idempotent = row->idempotent,
                                 .limit_ms = row->limit_ms,
                                 .keys = row->keys};
  d->list[d->count] = &d->tools[d->count];
  d->count++;
}

static tp_answer emit_tools(void *ctx, tp_call *call) {
  const domain *d = ctx;
  return tp_call_emit_tool_bundle(call, "tasks", d->list, d->count, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

static void destroy_tasks(void *ctx) {
  domain *d = ctx;
  tp__lock_fini(&d->shared.lock);
  tp__heap_free(d, sizeof *d);
}

static tp_status add_tasks_handler(tp_edit *edit, domain *d, tp_fault *fault) {
  static const uint32_t phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION;
  const tp_handler handler = {.struct_size = sizeof handler,
                              .id = "tasks.tool_bundle",
                              .summary = "contributes the tools that create and run tasks, and list abilities",
                              .run = emit_tools,
                              .ctx = d,
                              .destroy = destroy_tasks,
                              .phases = &phase,
                              .phase_count = 1,
                              .contract_version = 1,
                              .capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE,
                              .placement = TP_PLACEMENT_INLINE,
                              .idempotent = true};
  const tp_subscription subscription = {
      .struct_size = sizeof subscription, .id = handler.id, .handler = handler.id, .phase = phase};
  tp_status status = tp_edit_add_handler(edit, &handler, fault);
  if (status != TP_OK) { /* the handler was not taken */
    destroy_tasks(d);
    return status;
  }
  return tp_edit_add_subscription(edit, &subscription, fault);
}

static tp_status read_tasks_options(const tp_tasks_options *theirs, tp_tasks_options *ours, tp_fault *fault) {
  tp_status status = tp__struct_read(ours, sizeof *ours, theirs, "tp_tasks_options", fault);
  if (status != TP_OK) return status;
  if (ours->reserved_ != 0) return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_tasks_options.reserved_ must be zero");
  if ((unsigned)ours->names <= TP_TASKS_NAMES_BOTH) return TP_OK;
  return tp__refuse(fault, TP_ERR_USAGE, NULL,
                    "tp_tasks_options.names is %u, and there is no such value: it is tools, actions or both (0 to 2)",
                    (unsigned)ours->names);
}

tp_status tp_tasks_register(tp_edit *edit, const tp_tasks_options *options, tp_fault *fault) {
  tp_tasks_options ours;
  if (!edit) return tp__refuse(fault, TP_ERR_USAGE, NULL, "edit is NULL");
  tp_status status = read_tasks_options(options, &ours, fault);
  if (status != TP_OK) return status;
  domain *d = tp__heap_alloc(sizeof *d);
  if (!d) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the tools of tasks");
  tp__lock_init(&d->shared.lock, TP__LOCK_task_keys);
  for (size_t i = 0; i < TOOLS; i++)
    for (size_t n = 0; n < NAMES; n++)
      if (ours.names == TP_TASKS_NAMES_BOTH || (size_t)ours.names == n) add_tool(d, &rows[i], rows[i].names[n]);
  return add_tasks_handler(edit, d, fault);
}
