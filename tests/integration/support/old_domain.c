/* SPDX-License-Identifier: Apache-2.0
 *
 * old_domain.c: a library from before tp_domain: it only exports a function, which must not be called. */
#include <stdlib.h>

#include "turnphase/turnphase.h"

TP_API tp_status tp_domain_register(tp_runtime *runtime, tp_edit *edit, tp_fault *fault);

tp_status tp_domain_register(tp_runtime *runtime, tp_edit *edit, tp_fault *fault) {
  (void)runtime;
  (void)edit;
  (void)fault;
  abort();
}
