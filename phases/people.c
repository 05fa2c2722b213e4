/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/people.h"

#include "runtime/base/base.h"

tp_status tp__people_refuse(const char *options, tp_question_fn ask, const void *ask_ctx, tp_permission_fn permission,
                            const void *permission_ctx, tp_fault *fault) {
  if (!ask && !ask_ctx && !permission && !permission_ctx) return TP_OK;
  return tp__fail(fault, TP_ERR_USAGE, NULL,
                  "%s: %s is not yet used: nothing asks a person, and a handler that asks is denied; leave it NULL",
                  options, ask ? "ask" : ask_ctx ? "ask_ctx" : permission ? "permission" : "permission_ctx");
}

tp_status tp_question_answer(tp_token token, const tp_decision *theirs, tp_fault *fault) {
  tp_decision decision;
  if (!theirs) return tp__fail(fault, TP_ERR_USAGE, NULL, "an answer needs a tp_decision");
  TP__TRY(tp__options_read(&decision, sizeof decision, theirs, "tp_decision", fault));
  if (decision.verdict != TP_VERDICT_ALLOW && decision.verdict != TP_VERDICT_DENY)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_decision.verdict is %d: it must be allow or deny",
                    (int)decision.verdict);
  if (decision.reserved_) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_decision.reserved_ must be zero");
  return tp__fail(fault, TP_ERR_STALE, NULL, "no question is open under token %llx", (unsigned long long)token.bits);
}
