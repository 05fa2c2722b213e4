/* SPDX-License-Identifier: Apache-2.0
 *
 * match.c: evaluates a match against the payload with which an entry began. */
#include "runtime/base/glob.h"
#include "runtime/exec/entry.h"
#include "turnphase/value.h"

static bool any_fits(const char *const *patterns, size_t count, tp_text text) {
  TP__ASSERT(count == 0 || patterns);
  for (size_t i = 0; i < count; i++)
    if (tp__glob_matches(tp_text_of(patterns[i]), text)) return true;
  return count == 0;
}

bool tp_pattern_fits(tp_text pattern, tp_text text) { return tp__glob_matches(pattern, text); }

static bool any_path_fits(const tp_match *match, const tp_match_view *view) {
  if (match->changed_path_count == 0) return true;
  tp_text paths = tp_match_text(view, TP_FIELD_CHANGED_FILES);
  for (tp_value_walk walk = {0}; tp_value_next(paths, &walk);)
    if (any_fits(match->changed_paths, match->changed_path_count, tp_value_text(walk.value))) return true;
  return false;
}

static tp_text matched_name(const tp_match_view *view) {
  tp_text tool = tp_match_text(view, TP_FIELD_TOOL);
  return tool.size ? tool : tp_match_text(view, TP_FIELD_ABILITY_REF);
}

static bool text_fits(const tp_match *match, const tp_match_view *view) {
  if (!match->text_prefix) return true;
  tp_text text = tp_match_text(view, TP_FIELD_TEXT), prefix = tp_text_of(match->text_prefix);
  return text.size >= prefix.size && memcmp(text.data, prefix.data, prefix.size) == 0;
}

int32_t tp__match(const tp_match *match, const tp_match_view *view) {
  TP__ASSERT(match->description && match->duration_ms_min >= 0); /* it was checked, and copied */
  bool fits =
      (match->tool_count == 0 || any_fits(match->tools, match->tool_count, matched_name(view))) &&
      (match->agent_count == 0 || any_fits(match->agents, match->agent_count, tp_match_id(view, TP_ID_AGENT))) &&
      (match->mode_count == 0 || any_fits(match->modes, match->mode_count, tp_match_mode(view))) &&
      (match->duration_ms_min == 0 || tp_match_int(view, TP_FIELD_DURATION_MS) >= match->duration_ms_min) &&
      text_fits(match, view) && any_path_fits(match, view);
  if (!fits) return TP_MATCH_NO;
  return match->matches ? match->matches(match->ctx, view) : TP_MATCH_YES;
}
