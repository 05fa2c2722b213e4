/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c: the words for policies, in messages and in print. */
#include "runtime/plan/registry.h"

const char *tp__execution_name(tp_execution execution) {
  static const char *const names[] = {"default", "blocking", "deadline", "fire_and_record", "background"};
  return (size_t)execution < sizeof names / sizeof *names ? names[execution] : "unknown";
}

const char *tp__failure_name(tp_failure failure) {
  static const char *const names[] = {"default", "best_effort", "fallback", "required"};
  return (size_t)failure < sizeof names / sizeof *names ? names[failure] : "unknown";
}
