/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/calls.h"

#include <string.h>

#include "runtime/base/check.h"
#include "turnphase/value.h"

typedef tp__openai_draft draft;
typedef tp__openai_fragment fragment;

static tp_text id_of(const draft *d) { return tp__bytes_text(&d->id); }
static tp_text draft_name(const draft *d) { return tp__bytes_text(&d->name); }
static tp_text arguments_of(const draft *d) { return tp__bytes_text(&d->arguments); }

static bool is_empty(const draft *d) { return tp__openai_trim(arguments_of(d)).size == 0; }
static bool is_whole_draft(const draft *d) { return tp__openai_scan_is_whole(&d->scan); }

/* ---- which call: the candidate ---- */

draft *tp__openai_calls_find(tp__openai_calls *calls, int64_t index, tp_text item) {
  for (size_t i = calls->count; item.size > 0 && i > 0; i--)
    if (tp__same(tp__bytes_text(&calls->drafts[i - 1].item), item)) return &calls->drafts[i - 1];
  for (size_t i = calls->count; index != TP__OPENAI_NO_INDEX && i > 0; i--)
    if (calls->drafts[i - 1].index == index) return &calls->drafts[i - 1];
  return NULL;
}

static draft *find_id(tp__openai_calls *calls, tp_text id, bool any_index, int64_t index) {
  for (size_t i = calls->count; id.size > 0 && i > 0; i--) {
    draft *d = &calls->drafts[i - 1];
    if (tp__same(id_of(d), id) && (any_index || d->index == index)) return d;
  }
  return NULL;
}

static bool begins_object(tp_text arguments) { return tp__begins(tp__openai_trim(arguments), "{"); }

static draft *find_candidate(tp__openai_calls *calls, const fragment *f) {
  bool has_index = f->index != TP__OPENAI_NO_INDEX;
  draft *newest = calls->count > 0 ? &calls->drafts[calls->count - 1] : NULL;
  draft *found = tp__openai_calls_find(calls, TP__OPENAI_NO_INDEX, f->item);
  if (!found && f->is_whole) found = find_id(calls, f->id, true, 0);
  if (!found && has_index) found = find_id(calls, f->id, false, f->index);
  if (!found) found = tp__openai_calls_find(calls, f->index, (tp_text){NULL, 0});
  if (found || !newest) return found;
  if (f->place > 0) return f->place <= calls->count ? &calls->drafts[f->place - 1] : NULL;
  found = find_id(calls, f->id, true, 0);
  if (found) return has_index && found->index != TP__OPENAI_NO_INDEX && f->name.size > 0 ? NULL : found;
  if (!has_index || newest->index == TP__OPENAI_NO_INDEX) return newest;
  bool only_goes_on = f->id.size == 0 && f->name.size == 0 && !is_whole_draft(newest) && !begins_object(f->arguments);
  return only_goes_on && f->item.size == 0 ? newest : NULL;
}

/* ---- begins or continues ---- */

static bool same_arguments(const draft *d, tp_text arguments) {
  return tp__openai_same_json(tp__openai_trim(arguments_of(d)), tp__openai_trim(arguments));
}

/* The table of the header, row by row. */
static bool begins_call(const tp__openai_calls *calls, const draft *d, const fragment *f) {
  assert(d >= calls->drafts && d < calls->drafts + calls->count);
  bool has_arguments = tp__openai_trim(f->arguments).size > 0;
  bool same_id = f->id.size > 0 && tp__same(id_of(d), f->id);
  bool other_id = f->id.size > 0 && d->id.size > 0 && !same_id;
  bool same_name = tp__same(draft_name(d), f->name);
  if (f->name.size == 0)
    return other_id && is_whole_draft(d) && f->index == TP__OPENAI_NO_INDEX &&
           (!has_arguments || begins_object(f->arguments));
  if (d->name.size == 0) return false;
  if (f->starts || d->chunk == calls->chunk) {
    if (!same_id) return true;
    if (f->starts) return false;
  }
  if (is_whole_draft(d))
    return !same_name || other_id || (has_arguments && !same_arguments(d, f->arguments) && !f->is_whole);
  if (!is_empty(d)) return !same_name || (other_id && begins_object(f->arguments));
  if (same_name) return other_id && !has_arguments;
  if (other_id) return true;
  if (tp__openai_is_beginning(draft_name(d), f->name)) return false;
  return !(same_id || (f->index != TP__OPENAI_NO_INDEX && f->index == d->index));
}

/* ---- taking it ---- */

static tp_status put_fragment(tp__bytes *to, tp_text text, size_t *bytes_left) {
  if (text.size > *bytes_left) return TP_ERR_TOO_LARGE;
  *bytes_left -= text.size;
  tp__bytes_put_text(to, text);
  return to->failed ? TP_ERR_NO_MEMORY : TP_OK;
}

static void clear_arguments(draft *d, size_t *bytes_left) {
  assert(d->arguments.size > 0 || !d->is_given);
  *bytes_left += d->arguments.size;
  tp__bytes_clear(&d->arguments);
  d->tail = (tp__openai_tail){.size = 0};
  d->scan = (tp__openai_scan){0};
}

static tp_status append_arguments(draft *d, tp_text text, bool has_marks, size_t *bytes_left) {
  size_t before = d->arguments.size;
  if (text.size > *bytes_left) return TP_ERR_TOO_LARGE;
  tp__openai_join(&d->arguments, &d->tail, text, has_marks);
  if (d->arguments.failed) return TP_ERR_NO_MEMORY;
  size_t grown = d->arguments.size - before;
  *bytes_left -= grown < *bytes_left ? grown : *bytes_left;
  if (grown > 0) tp__openai_scan_text(&d->scan, (tp_text){d->arguments.data + before, grown});
  return TP_OK;
}

static tp_status take_arguments(draft *d, const fragment *f, size_t *bytes_left) {
  tp_text arguments = f->arguments, own = arguments_of(d);
  if (arguments.size == 0) return TP_OK;
  bool all = tp__openai_is_whole(arguments);
  if (f->is_whole && !is_empty(d)) {
    bool worse = tp__openai_trim(arguments).size == 0 || (is_whole_draft(d) && !all);
    if (worse || same_arguments(d, arguments)) return TP_OK;
    clear_arguments(d, bytes_left);
  } else if (d->is_given && !f->starts) {
    clear_arguments(d, bytes_left);
  } else if (is_whole_draft(d)) {
    if (all && same_arguments(d, arguments)) return TP_OK;
    if (begins_object(arguments) && tp__openai_same_json(own, tp_text_of("{}"))) clear_arguments(d, bytes_left);
  } else if (f->name.size > 0 && all && own.size > 0 && tp__openai_is_beginning(own, arguments)) {
    clear_arguments(d, bytes_left);
  }
  d->is_given = false;
  return append_arguments(d, arguments, f->has_marks, bytes_left);
}

static tp_status take_name(draft *d, tp_text name, size_t *bytes_left) {
  assert(name.size > 0);
  if (tp__same(draft_name(d), name)) return TP_OK;
  if (d->name.size > 0 && tp__openai_is_beginning(draft_name(d), name)) {
    *bytes_left += d->name.size;
    tp__bytes_clear(&d->name);
  }
  /* When arguments have begun, the name is complete. */
  return d->name.size > 0 && !is_empty(d) ? TP_OK : put_fragment(&d->name, name, bytes_left);
}

static tp_status begin_call(tp__openai_calls *calls, int64_t index, draft **ret_draft) {
  void *grown = calls->drafts;
  if (calls->count == TP__OPENAI_CALLS_MAX) return TP_ERR_FULL;
  if (!tp__grow(tp__heap, &grown, &calls->capacity, calls->count + 1, sizeof *calls->drafts)) return TP_ERR_NO_MEMORY;
  calls->drafts = grown;
  *ret_draft = &calls->drafts[calls->count++];
  **ret_draft = (draft){.index = index};
  return TP_OK;
}

static tp_status take_fragment(tp__openai_calls *calls, const fragment *f, size_t *bytes_left) {
  draft *d = find_candidate(calls, f);
  if (!d || begins_call(calls, d, f)) TP__TRY(begin_call(calls, f->index, &d));
  if (d->index == TP__OPENAI_NO_INDEX) d->index = f->index;
  d->chunk = calls->chunk;
  if (d->item.size == 0) TP__TRY(put_fragment(&d->item, f->item, bytes_left));
  if (d->id.size == 0) TP__TRY(put_fragment(&d->id, f->id, bytes_left));
  if (f->name.size > 0) TP__TRY(take_name(d, f->name, bytes_left));
  TP__TRY(take_arguments(d, f, bytes_left));
  if (f->starts && f->arguments.size > 0) d->is_given = true;
  return TP_OK;
}

tp_status tp__openai_calls_take(tp__openai_calls *calls, const fragment *f, size_t *bytes_left) {
  assert(calls->count <= calls->capacity && f->index >= TP__OPENAI_LEGACY_INDEX);
  if (tp_value_kind_of(f->value) != TP_VALUE_MAP) return take_fragment(calls, f, bytes_left);
  tp_writer *writer = NULL;
  fragment as_text = *f;
  tp_status status = tp_writer_new(tp__heap, &writer);
  if (status == TP_OK) status = tp_json_encode(f->value, writer, &as_text.arguments, NULL);
  if (status == TP_OK) status = take_fragment(calls, &as_text, bytes_left);
  tp_writer_free(writer);
  return status;
}

/* ---- the end ---- */

static bool is_taken(const tp__openai_calls *calls, size_t at, tp_text id) {
  for (size_t i = 0; i < calls->count; i++)
    if (i != at && tp__same(id_of(&calls->drafts[i]), id)) return true;
  return false;
}

bool tp__openai_calls_end(tp__openai_calls *calls) {
  assert(calls->count <= TP__OPENAI_CALLS_MAX);
  for (size_t i = 0; i < calls->count; i++) {
    draft *d = &calls->drafts[i];
    tp__openai_join_end(&d->arguments, &d->tail);
    if (d->arguments.failed) return false;
    bool repeated = false;
    for (size_t j = 0; d->id.size > 0 && j < i; j++)
      repeated = repeated || tp__same(id_of(&calls->drafts[j]), id_of(d));
    if (d->id.size == 0) continue; /* the core names it */
    size_t size = d->id.size;
    for (size_t number = 2; repeated && is_taken(calls, i, id_of(d)); number++) {
      d->id.size = size;
      tp__bytes_printf(&d->id, "_%zu", number);
      if (d->id.failed) return false;
    }
  }
  return true;
}

void tp__openai_calls_fini(tp__openai_calls *calls) {
  for (size_t i = 0; i < calls->count; i++) {
    tp__bytes_fini(&calls->drafts[i].item);
    tp__bytes_fini(&calls->drafts[i].id);
    tp__bytes_fini(&calls->drafts[i].name);
    tp__bytes_fini(&calls->drafts[i].arguments);
  }
  tp__heap_free(calls->drafts, calls->capacity * sizeof *calls->drafts);
  *calls = (tp__openai_calls){.count = 0};
}
