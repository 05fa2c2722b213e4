/* SPDX-License-Identifier: Apache-2.0
 *
 * task: tool calls that were allowed and may be run later. A task is in the table of its runtime from its creation
 * until its tool has been started or it is discarded; one thread at a time runs it. Lock: `tasks`. */
#ifndef TP__TASK_H
#define TP__TASK_H

#include "runtime/os/os.h"

/** Which part of a call's way a dispatch goes. */
typedef enum tp__task_stage {
  TP__TASK_WHOLE = 0,  /* all of it */
  TP__TASK_CREATE = 1, /* scope, policy, tool.create and its question: an allowed call ends there */
  TP__TASK_RUN = 2     /* all but tool.create */
} tp__task_stage;

/** What the gates of a turn's calls see of its task. Lives as long as the turn. */
typedef struct tp__task_view {
  tp__task_stage stage;
  tp_text key; /* empty: none */
} tp__task_view;

enum { TP__TASK_BUCKETS = 256 };

typedef struct tp__tasks {
  tp__mutex mutex;
  /* under mutex */
  struct tp__task *buckets[TP__TASK_BUCKETS];
  uint32_t count;
  uint64_t created; /* of generated keys */
} tp__tasks;

/** Zero-filled, its mutex is made by the layer; frees both. */
void tp__tasks_fini(tp__tasks *tasks, const tp_allocator *allocator);

#endif
