/* SPDX-License-Identifier: Apache-2.0
 *
 * key: what a task is kept under. A model names a task by a key of its own; the task of a tenant is kept under one that
 * no other tenant can name. No state. */
#ifndef TP__TASKS_KEY_H
#define TP__TASKS_KEY_H

#include "turnphase/base.h"

enum { TP__TASK_KEY_MAX = 64, TP__STORED_KEY_BYTES = 96 };

/** 1 to 64 letters, digits, `.`, `_` and `-`, which do not begin as the key of a tenant does. */
bool tp__task_key_valid(tp_text key);
/** The key under which a task is kept. @param tenant  empty: none. @param key  valid. */
void tp__task_key_stored(tp_text tenant, tp_text key, char ret_stored[TP__STORED_KEY_BYTES]);
/** A key that is made of what is different for each call. @param number  of the call in its domain. */
void tp__task_key_make(tp_text turn, tp_text call, uint64_t number, char ret_key[TP__TASK_KEY_MAX + 1]);

#endif
