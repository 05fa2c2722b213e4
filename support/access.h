/* SPDX-License-Identifier: Apache-2.0
 *
 * access: who may call a server: the keys of clients, and names of this machine. No state. */
#ifndef TP__SUPPORT_ACCESS_H
#define TP__SUPPORT_ACCESS_H

#include "turnphase/base.h"

/** Which of the keys a text is, in a time that does not depend on which, nor on where it differs.
 *  @param keys  ended by NULL; may be NULL.   @return the index; -1: none of them. */
int tp__key_find(char *const *keys, tp_text text);
/** Whether only this machine reaches what listens on the numeric address. */
bool tp__is_this_machine(const char *address);
/** Whether a header Host, or the host of an origin, names this machine: "localhost", "127.0.0.1" or "[::1]", with a
 *  port or without. A page of another site that has its name led here is none. */
bool tp__is_local_host(tp_text host);

#endif
