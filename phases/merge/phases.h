/* SPDX-License-Identifier: Apache-2.0
 *
 * phases: the built-in phases as constant data, made from phases.def. It owns nothing, has no lock and decides nothing:
 * the registry gets these rows and treats them like those of a host. */
#ifndef TP__PHASES_H
#define TP__PHASES_H

#include "runtime/plan/plan.h"

/** Indexed by TP_PHASE_*; the row of TP_PHASE_NONE is zero. */
enum { TP__PHASE_LAST = TP_PHASE_MODEL_REQUEST };
extern const tp_phase tp__phase_rows[TP__PHASE_LAST + 1];

/** The other names of the phases, in the order of phases.def. */
enum { TP__PHASE_ALIAS_COUNT = 17 };
extern const tp__alias tp__phase_aliases[TP__PHASE_ALIAS_COUNT];

/** By field id: the kinds that the field may have, as bits 1 << TP_FIELD_KIND_*; 0: there is no such field. */
extern const uint8_t tp__field_kinds[TP_FIELD_HOST];
/** The error in the content of a well-formed field, as static text; NULL: there is none. */
const char *tp__field_flaw(const tp_field *field);
/** tp__contribution_ops.field_owner. */
tp_field_id tp__field_owner(tp_field_id field);
/** Whether a value that tp_value_check() accepts is an array of this kind (tp_value_kind). */
bool tp__is_list_of(tp_text value, uint32_t kind);

/** True when a signal of this kind ("routing_hint", …) is allowed in the phase. A host's own phases allow all kinds. */
bool tp__phase_takes_signal(uint32_t phase, tp_text kind);

#endif
