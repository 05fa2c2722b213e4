/* SPDX-License-Identifier: Apache-2.0 */
#include "support/decision.h"

#include "support/fault.h"
#include "turnphase/value.h"

enum { REASON_BYTES_MAX = 4096, ARGUMENTS_BYTES_MAX = 1 << 20 };

static tp_status check_text(tp_text text, size_t bytes_max, const char *field, tp_fault *fault) {
  if (text.size > bytes_max)
    return tp__refuse(fault, TP_ERR_TOO_LARGE, NULL, "tp_decision.%s has %zu bytes, more than %zu", field, text.size,
                      bytes_max);
  if (!tp_utf8_valid(text, NULL)) return tp__refuse(fault, TP_ERR_UTF8, NULL, "tp_decision.%s is not UTF-8", field);
  return TP_OK;
}

static tp_status check_arguments(const tp_decision *decision, tp_fault *fault) {
  tp_text arguments = decision->arguments;
  if (arguments.size == 0) return TP_OK;
  if (decision->verdict != TP_VERDICT_ALLOW)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_decision.arguments go with the verdict allow");
  if (arguments.size > ARGUMENTS_BYTES_MAX)
    return tp__refuse(fault, TP_ERR_TOO_LARGE, NULL, "tp_decision.arguments has %zu bytes, more than %d",
                      arguments.size, ARGUMENTS_BYTES_MAX);
  tp_status status = tp_value_check(arguments, fault);
  if (status != TP_OK || tp_value_kind_of(arguments) == TP_VALUE_MAP) return status;
  return tp__refuse(fault, TP_ERR_MALFORMED, NULL, "tp_decision.arguments must be a map");
}

tp_status tp__decision_read(const tp_decision *theirs, tp_decision *decision, tp_fault *fault) {
  if (!theirs) return tp__refuse(fault, TP_ERR_USAGE, NULL, "an answer needs a tp_decision");
  tp_status status = tp__struct_read(decision, sizeof *decision, theirs, "tp_decision", fault);
  if (status != TP_OK) return status;
  if ((decision->verdict != TP_VERDICT_ALLOW && decision->verdict != TP_VERDICT_DENY) || decision->reserved_)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_decision.verdict must be allow or deny, and reserved_ zero");
  status = check_arguments(decision, fault);
  if (status == TP_OK) status = check_text(decision->reason, REASON_BYTES_MAX, "reason", fault);
  return status == TP_OK ? check_text(decision->person, TP_ID_BYTES_MAX, "person", fault) : status;
}
