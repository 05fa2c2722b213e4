/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime_options: the options of a runtime, checked, and with defaults filled in. It owns nothing and has no lock. */
#ifndef TP__RUNTIME_OPTIONS_H
#define TP__RUNTIME_OPTIONS_H

#include "turnphase/runtime.h"
#include "turnphase/store.h"

/** @param theirs  NULL: every default.
 *  @param ret_store  the host's, up to its struct_size; zero-filled when the host gives none.
 *  @return the result of tp_runtime_new() when it refuses the options or the store; the fault names the member. */
tp_status tp__runtime_options_resolve(const tp_runtime_options *theirs, tp_runtime_options *ret_options,
                                      tp_store *ret_store, tp_fault *fault);

#endif
