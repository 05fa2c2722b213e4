/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime_options: what a runtime is made with, checked, and with its defaults filled in. It owns nothing and has no
 * lock. */
#ifndef TP__RUNTIME_OPTIONS_H
#define TP__RUNTIME_OPTIONS_H

#include "turnphase/runtime.h"
#include "turnphase/store.h"

/** @param theirs  NULL: every default.
 *  @param ret_store  the host's, as far as its struct_size reaches; zero-filled where the host gives none.
 *  @return what tp_runtime_new() returns for options or a store that it refuses; the fault names the member. */
tp_status tp__runtime_options_resolve(const tp_runtime_options *theirs, tp_runtime_options *ret_options,
                                      tp_store *ret_store, tp_fault *fault);

#endif
