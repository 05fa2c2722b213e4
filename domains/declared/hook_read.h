/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_read: one hook from its YAML file. */
#ifndef TP__DECLARED_HOOK_READ_H
#define TP__DECLARED_HOOK_READ_H

#include "domains/declared/hook.h"

/** Reads one hook from the text of its file.
 *  @param file  its path; kept. @param ret_hook  NULL: the file has patterns of secrets and no hook. */
tp_status tp__hook_read(tp_hooks *hooks, const char *file, tp_text text, tp__hook **ret_hook, tp_fault *fault);

#endif
