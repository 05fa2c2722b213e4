/* SPDX-License-Identifier: Apache-2.0
 *
 * key: the keys under which tasks are kept. A model chooses a key for a task; a task of a tenant is kept under a longer
 * key, which no other tenant can name. No state. */
#ifndef TP__TASKS_KEY_H
#define TP__TASKS_KEY_H

#include "turnphase/base.h"

enum { TP__TASK_KEY_MAX = 64, TP__STORED_KEY_BYTES = 96 };

/** Whether a model may use the key: 1 to 64 letters, digits, `.`, `_` and `-`, without the prefix of a tenant's
 *  keys. */
bool tp__task_key_valid(tp_text key);
/** The key under which a task is kept. @param tenant  empty: none. @param key  valid. */
void tp__task_key_stored(tp_text tenant, tp_text key, char ret_stored[TP__STORED_KEY_BYTES]);
/** Makes a key from the turn, the call and the number, so that each call gets another key. @param number  the number of
 *  the call in its domain. */
void tp__task_key_make(tp_text turn, tp_text call, uint64_t number, char ret_key[TP__TASK_KEY_MAX + 1]);

#endif
