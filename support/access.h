/* SPDX-License-Identifier: Apache-2.0
 *
 * access: who may call a server: the keys of clients, and names of this machine. No state. */
#ifndef TP__SUPPORT_ACCESS_H
#define TP__SUPPORT_ACCESS_H

#include "turnphase/base.h"

/** Finds the key that equals a text. The time does not depend on which key it is, nor on where the text differs from
 *  the keys.
 *  @param keys  ended by NULL; may be NULL.   @return the index; -1: none of them. */
int tp__key_find(char *const *keys, tp_text text);
/** Whether only this machine can reach a listener on the numeric address. */
bool tp__is_this_machine(const char *address);
/** Whether the host in a header Host or in an origin names this machine: "localhost", "127.0.0.1" or "[::1]", with a
 *  port or without. The name of another site never counts, even if it resolves to this machine. */
bool tp__is_local_host(tp_text host);

#endif
