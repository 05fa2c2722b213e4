/* SPDX-License-Identifier: Apache-2.0
 *
 * domain: what domains share that stand on the public headers alone: faults, options by their size, a count of
 * references, and tools with their schemas. It is compiled into each library of a domain that needs it, and has no
 * state. */
#ifndef TP__DOMAIN_H
#define TP__DOMAIN_H

#include <pthread.h>

#include "runtime/base/printf.h"
#include "turnphase/runtime.h"

/** Fills fault (may be NULL) and returns status. subject may be NULL. */
tp_status tp__domain_fail(tp_fault *fault, tp_status status, const char *subject, const char *format, ...)
    TP__PRINTF(4, 5);

/** Copies a struct of the caller's that begins with its struct_size. @param theirs  NULL: all zero.
 *  @return TP_OK; TP_ERR_VERSION for a size or a tail that this library does not know. */
tp_status tp__domain_read(void *ours, size_t our_size, const void *theirs, const char *name, tp_fault *fault);

/** How many handlers hold a domain, with the caller that registers them. */
typedef struct tp__domain_refs {
  pthread_mutex_t mutex;
  unsigned count; /* under mutex */
} tp__domain_refs;

/** With one reference, the caller's. */
void tp__domain_refs_init(tp__domain_refs *refs);
void tp__domain_ref(tp__domain_refs *refs);
/** @return whether it was the last: then the count has ended. */
bool tp__domain_unref(tp__domain_refs *refs);

/** An argument of a tool. */
typedef struct tp__domain_parameter {
  const char *name, *description; /* name NULL: none */
  int64_t most;                   /* it is an integer from 1 to most; 0: a text */
  bool required;
} tp__domain_parameter;

enum { TP__DOMAIN_PARAMETERS_MAX = 3 };

typedef struct tp__domain_tool {
  const char *name, *description;
  tp_tool_fn run;
  bool changes; /* twice is not as good as once */
  tp__domain_parameter parameters[TP__DOMAIN_PARAMETERS_MAX];
} tp__domain_tool;

/** Makes a tool, whose schema is the writer's. @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__domain_tool_make(const tp__domain_tool *row, void *ctx, tp_writer *writer, tp_tool *ret_tool);

#endif
