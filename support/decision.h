/* SPDX-License-Identifier: Apache-2.0
 *
 * decision: the check of a person's decision, for channels of questions. It owns nothing. Threads: any. */
#ifndef TP__SUPPORT_DECISION_H
#define TP__SUPPORT_DECISION_H

#include "turnphase/people.h"

/** Reads and checks a decision.
 *  @param theirs  may be NULL. @param ret_decision its texts are borrowed from theirs.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION, TP_ERR_TOO_LARGE, TP_ERR_UTF8, TP_ERR_MALFORMED and the errors of
 *          tp_value_check(), as in tp_question_answer(). */
tp_status tp__decision_read(const tp_decision *theirs, tp_decision *ret_decision, tp_fault *fault);

#endif
