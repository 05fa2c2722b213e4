/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/merge/phases.h"

enum { REPLACE = 1, STOP = 2, ASK = 4, REVERSE = 8, PRIVILEGED = 16, CODE_ONLY = 32, GRANTED = 64, NO_SESSION = 128 };

#define KIND(name) (1u << TP_CONTRIBUTION_##name)
/* Expands to a pointer and a count: the initializers of two neighbouring members of tp_phase. */
#define FIELDS(...) (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)
#define NO_FIELDS NULL, 0

#define PHASE(id, number, phase_name, phase_mode, traits, may_contribute, limit, policy, carried, changeable) \
  [id] = {                                                                                                    \
      .struct_size = sizeof(tp_phase),                                                                        \
      .name = phase_name,                                                                                     \
      .mode = phase_mode,                                                                                     \
      .replace = ((traits)&REPLACE) != 0,                                                                     \
      .stop = ((traits)&STOP) != 0,                                                                           \
      .ask = ((traits)&ASK) != 0,                                                                             \
      .reverse = ((traits)&REVERSE) != 0,                                                                     \
      .privileged = ((traits)&PRIVILEGED) != 0,                                                               \
      .code_only = ((traits)&CODE_ONLY) != 0,                                                                 \
      .rewrite_granted = ((traits)&GRANTED) != 0,                                                             \
      .no_session = ((traits)&NO_SESSION) != 0,                                                               \
      .kinds = may_contribute,                                                                                \
      .limit_ms = limit,                                                                                      \
      .failure = policy,                                                                                      \
      .fields = carried,                                                                                      \
      .replaceable = changeable,                                                                              \
  },
const tp_phase tp__phase_rows[TP__PHASE_LAST + 1] = {
#include "phases/merge/phases.def"
};

#define ALIAS(name, id, flags) {name, id, flags},
const tp__alias tp__phase_aliases[TP__PHASE_ALIAS_COUNT] = {
#include "phases/merge/phases.def"
};

/* Stores contain these numbers, so a row whose id has moved must not compile. */
#define PHASE(id, number, ...) _Static_assert((id) == (number), "the number of " #id " has changed");
#include "phases/merge/phases.def"

/* Every id has a row, and every alias has a place. */
#define PHASE(...) +1
_Static_assert(0
#include "phases/merge/phases.def"
                   == TP__PHASE_LAST,
               "a phase has no row in phases.def");
#define ALIAS(...) +1
_Static_assert(0
#include "phases/merge/phases.def"
                   == TP__PHASE_ALIAS_COUNT,
               "TP__PHASE_ALIAS_COUNT is not the number of aliases in phases.def");

bool tp__phase_takes_signal(uint32_t phase, tp_text kind) {
  static const struct {
    const char *kind;
    uint32_t phase;
  } places[] = {
      {"routing_hint", TP_PHASE_TURN_INTAKE},
      {"normalized_intent", TP_PHASE_TURN_INTAKE},
      {"ability_preflight", TP_PHASE_TOOL_CREATE},
      {"ability_guard", TP_PHASE_TOOL_PRE},
  };
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (tp_text_is(kind, places[i].kind)) return phase == places[i].phase || phase >= TP_PHASE_HOST;
  }
  return false;
}
