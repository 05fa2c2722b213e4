/* SPDX-License-Identifier: Apache-2.0
 *
 * people: who may be asked. Only a place so far: what would need it is refused. */
#ifndef TP__PEOPLE_H
#define TP__PEOPLE_H

#include "turnphase/people.h"

/** @param options  whose fields these are. @return TP_OK when none is set, else TP_ERR_USAGE. */
tp_status tp__people_refuse(const char *options, tp_question_fn ask, const void *ask_ctx, tp_permission_fn permission,
                            const void *permission_ctx, tp_fault *fault);

#endif
