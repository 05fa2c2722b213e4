/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.c: the payload fields of each phase, and the check of fields that a caller gives. */
#include <stdio.h>

#include "runtime/plan/registry.h"

enum {
  TEXT = TP_FIELD_KIND_TEXT,
  INT = TP_FIELD_KIND_INT,
  VALUE = TP_FIELD_KIND_VALUE,
  ANY_KIND = 1 << TEXT | 1 << INT | 1 << VALUE
};

/* A host's own fields are of any kind. */
static inline uint32_t kinds_of(const tp__contribution_ops *ops, uint32_t field) {
  return field < TP_FIELD_HOST && ops->field_kinds ? ops->field_kinds[field] : ANY_KIND;
}

bool tp__field_known(const tp__contribution_ops *ops, uint32_t field) {
  return field != TP_FIELD_NONE && field < TP_FIELD_LIMIT && kinds_of(ops, field) != 0;
}

static void set_fill(tp__field_set *set, const uint32_t *fields, size_t count) {
  for (size_t i = 0; i < count; i++) set->words[fields[i] / 64] |= UINT64_C(1) << fields[i] % 64;
}

void tp__phase_fields_fill(tp__phase_fields *fields, const tp_phase *row) {
  set_fill(&fields->carried, row->fields, row->field_count);
  set_fill(&fields->replaceable, row->replaceable, row->replaceable_count);
}

static inline bool set_has(const tp__field_set *set, uint32_t field) {
  return field < TP_FIELD_LIMIT && set->words[field / 64] & UINT64_C(1) << field % 64;
}

bool tp__phase_carries(const tp__registry *registry, uint32_t phase, uint32_t field) {
  return set_has(&registry->phase_fields[phase].carried, field);
}

const char *tp__field_label(const tp__contribution_ops *ops, uint32_t field, tp__field_label_buffer *buffer) {
  const char *name = ops->field_name ? ops->field_name(field) : NULL;
  if (name) return name;
  snprintf(buffer->text, sizeof buffer->text, "field_%u", field);
  return buffer->text;
}

/* ---- a field ---- */

static inline bool kind_fits(const tp__contribution_ops *ops, const tp_field *field) {
  return field->kind <= VALUE && kinds_of(ops, field->id) & 1u << field->kind;
}

/* The member that the kind does not name. */
static inline bool has_other_member(const tp_field *field) {
  return field->kind == INT ? field->text.size != 0 : field->number != 0;
}

/* ---- refusals ---- */

static const char *const kind_names[] = {[TEXT] = "TEXT", [INT] = "INT", [VALUE] = "VALUE"};

static const char *kinds_text(uint32_t kinds) {
  switch (kinds) {
    case 1 << TEXT:
      return "TP_FIELD_KIND_TEXT";
    case 1 << INT:
      return "TP_FIELD_KIND_INT";
    case 1 << VALUE:
      return "TP_FIELD_KIND_VALUE";
    case 1 << VALUE | 1 << TEXT:
      return "TP_FIELD_KIND_VALUE (or TP_FIELD_KIND_TEXT for what could not be decoded)";
    default:
      return "TP_FIELD_KIND_TEXT, TP_FIELD_KIND_INT or TP_FIELD_KIND_VALUE";
  }
}

typedef struct check {
  const tp__registry *registry;
  uint32_t phase;
  bool replacing;
  tp_fault *fault;
} check;

static tp_status in_phase(const check *c, tp_status status) {
  if (c->fault) c->fault->phase = c->phase;
  return status;
}

/* Finds the rule that a field breaks; a cold function, apart from the path of correct fields. */
static __attribute__((cold, noinline)) tp_status refuse(const check *c, const tp_field *field) {
  const tp__contribution_ops *ops = c->registry->ops;
  const tp__phase_fields *phase_fields = &c->registry->phase_fields[c->phase];
  const char *phase = c->registry->phases[c->phase]->name;
  uint32_t kinds = kinds_of(ops, field->id);
  tp__field_label_buffer buffer;
  if (!tp__field_known(ops, field->id)) {
    return in_phase(
        c, tp__fail(c->fault, TP_ERR_USAGE, phase,
                    "payload field %u for phase `%s` is unknown: take one of TP_FIELD_*, or one of the phase's "
                    "own from TP_FIELD_HOST on",
                    field->id, phase));
  }
  const char *label = tp__field_label(ops, field->id, &buffer);
  if (!set_has(&phase_fields->carried, field->id)) {
    return in_phase(
        c, tp__fail(c->fault, TP_ERR_USAGE, phase,
                    "payload field `%s` (%u) is not carried by phase `%s`: leave it out, or see tp_phase.fields", label,
                    field->id, phase));
  }
  if (c->replacing && !set_has(&phase_fields->replaceable, field->id)) {
    return in_phase(c, tp__fail(c->fault, TP_ERR_USAGE, phase,
                                "payload field `%s` (%u) of phase `%s` may not be replaced: see tp_phase.replaceable",
                                label, field->id, phase));
  }
  if (!kind_fits(ops, field)) {
    const char *given = field->kind > 0 && field->kind <= VALUE ? kind_names[field->kind] : "none of the known kinds";
    return in_phase(c, tp__fail(c->fault, TP_ERR_USAGE, phase,
                                "payload field `%s` (%u) of phase `%s` is given as %s (%u): set its kind to %s", label,
                                field->id, phase, given, field->kind, kinds_text(kinds)));
  }
  if (has_other_member(field)) {
    return in_phase(
        c, tp__fail(c->fault, TP_ERR_USAGE, phase,
                    "payload field `%s` (%u) of phase `%s` is of kind %s and has a %s, too: leave that zero", label,
                    field->id, phase, kind_names[field->kind], field->kind == INT ? "text" : "number"));
  }
  return in_phase(c, tp__fail(c->fault, TP_ERR_USAGE, phase, "payload field `%s` (%u) of phase `%s` is given twice",
                              label, field->id, phase));
}

static __attribute__((cold, noinline)) tp_status refuse_content(const check *c, const tp_field *field) {
  const char *phase = c->registry->phases[c->phase]->name;
  tp__field_label_buffer buffer;
  const char *label = tp__field_label(c->registry->ops, field->id, &buffer);
  size_t at = 0;
  if (field->kind == VALUE) {
    tp_fault inner = {0};
    tp_status status = tp_value_check(field->text, &inner);
    if (status == TP_OK)
      return in_phase(c, tp__fail(c->fault, TP_ERR_MALFORMED, phase, "payload field `%s` (%u) of phase `%s` must be %s",
                                  label, field->id, phase, c->registry->ops->field_flaw(field)));
    return in_phase(c, tp__fail(c->fault, status, phase, "payload field `%s` (%u) of phase `%s`: %s", label, field->id,
                                phase, inner.message));
  }
  (void)tp_utf8_valid(field->text, &at);
  return in_phase(
      c, tp__fail(c->fault, TP_ERR_UTF8, phase, "payload field `%s` (%u) of phase `%s` is not UTF-8 at byte %zu", label,
                  field->id, phase, at));
}

static bool content_valid(const tp__contribution_ops *ops, const tp_field *field) {
  if (field->kind == INT) return true;
  if (field->kind == TEXT) return tp_utf8_valid(field->text, NULL);
  return tp_value_check(field->text, NULL) == TP_OK && !(ops->field_flaw && ops->field_flaw(field));
}

/* ---- the check ---- */

tp_status tp__fields_check(const tp__registry *registry, uint32_t phase, tp__fields_use use, const tp_field *fields,
                           size_t count, tp_fault *fault) {
  const tp__phase_fields *phase_fields = &registry->phase_fields[phase];
  const check c = {registry, phase, use == TP__FIELDS_REPLACE, fault};
  if (count > 0 && !fields)
    return in_phase(&c, tp__fail(fault, TP_ERR_USAGE, registry->phases[phase]->name,
                                 "the payload of phase `%s` is counted but not given", registry->phases[phase]->name));
  tp__field_set left = c.replacing ? phase_fields->replaceable : phase_fields->carried; /* those not given yet */
  for (size_t i = 0; i < count; i++) {
    const tp_field *field = &fields[i];
    if (!set_has(&left, field->id) || !kind_fits(registry->ops, field) || has_other_member(field))
      return refuse(&c, field);
    left.words[field->id / 64] &= ~(UINT64_C(1) << field->id % 64);
    if (use != TP__FIELDS_SHAPE && !content_valid(registry->ops, field)) return refuse_content(&c, field);
  }
  return TP_OK;
}
