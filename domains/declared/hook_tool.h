/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_tool: tools that are declared in a file: a program that runs for each call. A file of kind tool is a handler
 * that contributes one tool at each materialization. hook_read.c reads it; hook_tool.c runs it. */
#ifndef TP__DECLARED_HOOK_TOOL_H
#define TP__DECLARED_HOOK_TOOL_H

#include "domains/declared/hook.h"

enum {
  TP__TOOL_KEYS_MAX = 16, /* that read, and as many that write */
  TP__TOOL_KEY_BYTES_MAX = 1024,
  TP__TOOL_RESULT_BYTES_MAX = 1 << 20,
  TP__TOOL_LIMIT_MS = 120000,
  TP__TOOL_CONCURRENT = 16
};

/** A key of each call: a path, perhaps with an argument at its end. */
typedef struct tp__tool_key {
  tp_tool_access access;
  tp_text path;         /* without `/` at its end; may be empty when there is an argument */
  const char *argument; /* NULL: none */
} tp__tool_key;

struct tp__hook_tool {
  tp_tool tool;
  const tp_tool *list[1]; /* of it */
  tp__tool_key keys[2 * TP__TOOL_KEYS_MAX];
  size_t key_count;
};

/** Reads a key from its text. @param hooks  owns the copies.
 *  @return false when it is no path, or has an argument that is not the last name. */
bool tp__tool_key_read(tp_hooks *hooks, const char *text, tp__tool_key *ret_key);
/** Sets the functions of the tool, after everything else was read. */
void tp__hook_tool_finish(tp__hook *hook);
/** The bundle with the tool; borrows from the hook. */
tp_contribution tp__hook_tool_bundle(const tp__hook *hook);
/** Makes a handler that of a tool. */
void tp__hook_tool_handler(tp_handler *handler);

#endif
