/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.c: the phases: their names and aliases, and the check of a host's rows. */
#include "runtime/plan/registry.h"

enum { HOST_ROWS_MAX = TP_PHASE_LIMIT - TP_PHASE_HOST, KINDS_KNOWN = (1 << TP_CONTRIBUTION_COUNT) - 2 };

uint32_t tp__rows_find(const tp__registry *registry, const char *name, uint32_t *ret_flags) {
  if (ret_flags) *ret_flags = 0;
  for (uint32_t phase = 1; phase < TP_PHASE_LIMIT; phase++) {
    if (registry->phases[phase] && strcmp(registry->phases[phase]->name, name) == 0) return phase;
  }
  for (size_t i = 0; i < registry->alias_count; i++) {
    const tp__alias *alias = &registry->aliases[i];
    if (strcmp(alias->name, name) != 0) continue;
    if (ret_flags) *ret_flags = alias->flags;
    return alias->phase;
  }
  return TP_PHASE_NONE;
}

uint32_t tp__registry_phase_find(const tp__registry *registry, const char *name) {
  return name ? tp__rows_find(registry, name, NULL) : TP_PHASE_NONE;
}

const tp_phase *tp__registry_phase(const tp__registry *registry, uint32_t phase) {
  return phase < TP_PHASE_LIMIT ? registry->phases[phase] : NULL;
}

void tp__registry_aliases(const tp__registry *registry, uint32_t phase, void (*each)(void *ctx, const tp__alias *alias),
                          void *ctx) {
  for (size_t i = 0; i < registry->alias_count; i++) {
    if (registry->aliases[i].phase == phase) each(ctx, &registry->aliases[i]);
  }
}

/* ---- rows of the host ---- */

static bool fields_known(const tp__contribution_ops *ops, const uint32_t *fields, size_t count) {
  if (count >= TP_FIELD_LIMIT || (count > 0 && !fields)) return false;
  for (size_t i = 0; i < count; i++) {
    if (!tp__field_known(ops, fields[i])) return false;
  }
  return true;
}

static bool carries(const tp_phase *row, uint32_t field) {
  for (size_t i = 0; i < row->field_count; i++) {
    if (row->fields[i] == field) return true;
  }
  return false;
}

static bool replaceable_carried(const tp_phase *row) {
  for (size_t i = 0; i < row->replaceable_count; i++) {
    if (!carries(row, row->replaceable[i])) return false;
  }
  return true;
}

/* What is wrong with a row, or NULL. */
static const char *row_flaw(const tp__contribution_ops *ops, const tp_phase *row) {
  bool chain = row->mode == TP_MODE_CHAIN;
  if (row->mode < TP_MODE_GATHER || row->mode > TP_MODE_OBSERVE) return "has no mode: gather, chain or observe";
  if (!chain && (row->replace || row->stop || row->reverse))
    return "is no chain, and only a chain has replace, stop or reverse";
  if (row->ask && !row->stop) return "takes ask but no verdicts: set stop";
  if ((unsigned)row->failure > TP_FAILURE_REQUIRED) return "has an unknown failure policy";
  if (row->rewrite_granted) return "says rewrite_granted, which is of tool.rewrite alone: leave it false";
  if (row->mode == TP_MODE_OBSERVE && row->failure == TP_FAILURE_REQUIRED)
    return "observes, and an observer is never required";
  if (row->kinds & ~(tp_capability)KINDS_KNOWN) return "allows an unknown kind of contribution";
  if (!fields_known(ops, row->fields, row->field_count)) return "carries an unknown payload field";
  if (!fields_known(ops, row->replaceable, row->replaceable_count)) return "replaces an unknown payload field";
  if (row->replaceable_count > 0 && !row->replace) return "lists replaceable fields but not replace";
  if (!replaceable_carried(row)) return "replaces a payload field that it does not carry";
  return NULL;
}

static bool copy_numbers(tp__arena *arena, const uint32_t *from, size_t count, const uint32_t **ret_copy) {
  uint32_t *copy = tp__arena_alloc(arena, count * sizeof *copy);
  if (!copy) return false;
  if (count > 0) memcpy(copy, from, count * sizeof *copy);
  *ret_copy = copy;
  return true;
}

static tp_status row_copy(tp__arena *arena, const tp_phase *from, tp_phase **ret_row) {
  tp_phase *row = tp__arena_alloc(arena, sizeof *row);
  if (!row) return TP_ERR_NO_MEMORY;
  *row = *from;
  if (row->limit_ms == 0) row->limit_ms = TP__LIMIT_DEFAULT_MS;
  if (row->failure == TP_FAILURE_DEFAULT) row->failure = TP_FAILURE_BEST_EFFORT;
  bool copied = tp__arena_string(arena, from->name, &row->name) &&
                copy_numbers(arena, from->fields, from->field_count, &row->fields) &&
                copy_numbers(arena, from->replaceable, from->replaceable_count, &row->replaceable);
  if (!copied) return TP_ERR_NO_MEMORY;
  *ret_row = row;
  return TP_OK;
}

static tp_status row_add(tp__registry *registry, uint32_t phase, const tp_phase *theirs, tp_fault *fault) {
  tp_phase row, *copy;
  TP__TRY(tp__options_read(&row, sizeof row, theirs, "tp_phase", fault));
  if (!tp__id_valid(row.name)) {
    return tp__fail(
        fault, TP_ERR_BAD_ID, NULL,
        "phase %u of the host: its name is empty, longer than 128 bytes, or holds white space or control bytes",
        phase - TP_PHASE_HOST);
  }
  if (tp__rows_find(registry, row.name, NULL) != TP_PHASE_NONE) {
    return tp__fail(fault, TP_ERR_DUPLICATE_ID, row.name,
                    "phase `%s` of the host: the name is taken by another phase or an alias", row.name);
  }
  const char *flaw = row_flaw(registry->ops, &row);
  if (flaw) return tp__fail(fault, TP_ERR_USAGE, row.name, "phase `%s` of the host %s", row.name, flaw);
  if (row_copy(&registry->arena, &row, &copy) != TP_OK) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory");
  registry->phases[phase] = copy;
  tp__phase_fields_fill(&registry->phase_fields[phase], copy);
  return TP_OK;
}

tp_status tp__rows_add_host(tp__registry *registry, const tp_phase *const *rows, size_t row_count, tp_fault *fault) {
  if (row_count > HOST_ROWS_MAX) {
    return tp__fail(fault, TP_ERR_TOO_LARGE, NULL, "%zu phases of the host: at most %d", row_count, HOST_ROWS_MAX);
  }
  if (row_count > 0 && !rows)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "phases of the host are counted but not given");
  for (size_t i = 0; i < row_count; i++) {
    if (!rows[i]) return tp__fail(fault, TP_ERR_USAGE, NULL, "phase %zu of the host is NULL", i);
    TP__TRY(row_add(registry, TP_PHASE_HOST + (uint32_t)i, rows[i], fault));
  }
  return TP_OK;
}
