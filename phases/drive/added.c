/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/drive/added.h"

#include "phases/model/parts.h"
#include "phases/merge/render.h"
#include "phases/session/session.h"
#include "phases/drive/steps.h"
#include "runtime/base/bug.h"

enum { WAITING_MAX = 64, BYTES_MAX = 16 << 20 };

/* ---- on any thread ---- */

static tp_status check_added(const tp_added_message *theirs, tp_added_message *ours, tp_fault *fault) {
  *ours = (tp_added_message){.struct_size = sizeof *ours};
  TP__TRY(tp__options_read(ours, sizeof *ours, theirs, "tp_added_message", fault));
  if (ours->text.size == 0 && ours->files.size == 0)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_added_message has neither text nor files");
  if (ours->text.size > BYTES_MAX || ours->files.size > BYTES_MAX - ours->text.size)
    return tp__fail(fault, TP_ERR_TOO_LARGE, NULL, "tp_added_message has more than %d bytes of text and files",
                    BYTES_MAX);
  return tp__input_check(NULL, ours->text, ours->files, fault);
}

/* @return NULL without memory. */
static tp__added *make(const tp_allocator *allocator, const tp_added_message *message) {
  size_t size = sizeof(tp__added) + message->text.size + message->files.size;
  tp__added *added = tp__alloc(allocator, size);
  if (!added) return NULL;
  char *text = (char *)(added + 1), *files = text + message->text.size;
  if (message->text.size > 0) memcpy(text, message->text.data, message->text.size);
  if (message->files.size > 0) memcpy(files, message->files.data, message->files.size);
  *added = (tp__added){.size = size,
                       .added_ns = tp__now_ns(),
                       .text = {text, message->text.size},
                       .files = {files, message->files.size}};
  return added;
}

static void drop(const tp_allocator *allocator, tp__added *added) { tp__release(allocator, added, added->size); }

/* @param d  NULL: there is no such turn. */
static tp_status push_locked(tp__drive *d, tp__added *added, tp_fault *fault) {
  if (!d || d->closing || d->added.closed)
    return tp__fail(fault, TP_ERR_STALE, NULL,
                    "no such turn of the session takes a message: it has ended, or is about to; submit a turn");
  TP__LOCKED(&d->session->mutex);
  tp__added_list *list = &d->added;
  uint32_t count = tp__a32_load_relaxed(&list->count);
  TP__ASSERT((count == 0) == (list->first == NULL));
  if (count == WAITING_MAX)
    return tp__fail(fault, TP_ERR_FULL, NULL, "%d messages wait for the turn's next request: at most that many may",
                    WAITING_MAX);
  if (list->last) list->last->next = added;
  else list->first = added;
  list->last = added;
  tp__a32_store_release(&list->count, count + 1); /* pairs with the load in tp__added_waits() */
  return TP_OK;
}

/* The turn of this id that runs or waits. */
static tp__drive *find_turn_locked(tp_session *session, const char *turn_id) {
  TP__LOCKED(&session->mutex);
  tp__drive *running = session->ending ? NULL : session->running;
  if (!turn_id || (running && tp_text_is(running->turn->core.ids[TP_ID_TURN], turn_id))) return running;
  for (tp__link *link = session->queue.next; link != &session->queue; link = link->next) {
    tp__drive *queued = TP__CONTAINER(link, tp__drive, link);
    if (tp_text_is(queued->turn->core.ids[TP_ID_TURN], turn_id)) return queued;
  }
  return NULL;
}

/* @param d  NULL: the turn of this id. */
static tp_status put_added(tp_session *session, tp__drive *d, const char *turn_id, const tp_added_message *theirs,
                           tp_fault *fault) {
  const tp_allocator *allocator = tp__runtime_allocator(session->runtime);
  tp_added_message message;
  TP__TRY(check_added(theirs, &message, fault));
  tp__added *added = make(allocator, &message);
  if (!added) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a message");
  tp__mutex_lock(&session->mutex);
  tp_status status = push_locked(d ? d : find_turn_locked(session, turn_id), added, fault);
  tp__mutex_unlock(&session->mutex);
  if (status != TP_OK) drop(allocator, added);
  return status;
}

tp_status tp_turn_add_message(tp_session *session, const char *turn_id, const tp_added_message *message,
                              tp_fault *fault) {
  if (!session) return tp__fail_null(fault, "session");
  if (!message) return tp__fail_null(fault, "message");
  if (tp__runtime_is_of_parent(session->runtime)) return tp__fail_forked(fault);
  return put_added(session, NULL, turn_id, message, fault);
}

tp_status tp_submission_add_message(tp_submission *submission, const tp_added_message *message, tp_fault *fault) {
  if (!submission) return tp__fail_null(fault, "submission");
  if (!message) return tp__fail_null(fault, "message");
  if (submission->process_generation != tp__process_generation()) return tp__fail_forked(fault);
  if (!submission->has_result)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "the submission is of a task, whose turn asks no model");
  tp__turn *core = tp__submission_turn(submission);
  if (!core) return tp__fail(fault, TP_ERR_STALE, NULL, "the turn has ended: submit another one");
  tp__drive *d = tp__turn_of(core)->drive; /* as long as the turn is referenced */
  tp_status status = put_added(d->session, d, NULL, message, fault);
  tp__turn_unref(core);
  return status;
}

/* ---- on the owner ---- */

bool tp__added_waits(const tp__drive *d) {
  TP__OWNED(&d->turn->core.strand);
  return tp__a32_load_acquire(&d->added.count) > 0; /* pairs with the store in push_locked() */
}

bool tp__added_close_if_none(tp__drive *d) {
  tp_session *session = d->session;
  TP__OWNED(&d->turn->core.strand);
  tp__mutex_lock(&session->mutex);
  TP__ASSERT(!d->added.closed);
  bool none = !d->added.first;
  if (none || TP__BUG(TP__BUG_MESSAGE_LEFT)) d->added.closed = true;
  none = d->added.closed;
  tp__mutex_unlock(&session->mutex);
  return none;
}

void tp__added_close(tp__drive *d) {
  TP__OWNED(&d->turn->core.strand);
  tp__mutex_lock(&d->session->mutex);
  d->added.closed = true;
  tp__mutex_unlock(&d->session->mutex);
}

static tp__added *take_waiting(tp__drive *d) {
  tp__added_list *list = &d->added;
  if (!tp__added_waits(d)) return NULL;
  tp__mutex_lock(&d->session->mutex);
  tp__added *added = list->first;
  list->first = added->next;
  if (!list->first) list->last = NULL;
  tp__a32_store_relaxed(&list->count, tp__a32_load_relaxed(&list->count) - 1);
  tp__mutex_unlock(&d->session->mutex);
  added->next = NULL;
  return added;
}

static void drop_current(tp__drive *d) {
  TP__ASSERT(d->added.current);
  drop(tp__runtime_allocator(d->session->runtime), d->added.current);
  d->added.current = NULL;
}

void tp__added_fini(tp__drive *d) {
  tp__added_list *list = &d->added;
  if (list->current) drop_current(d);
  for (tp__added *next; list->first; list->first = next) {
    next = list->first->next;
    drop(tp__runtime_allocator(d->session->runtime), list->first);
  }
}

/* ---- it enters the turn ---- */

void tp__step_added(tp__drive *d) {
  TP__ASSERT(!d->added.current);
  d->added.current = take_waiting(d);
  tp__drive_go(d, d->added.current ? TP__STEP_ADDED_INTAKE : TP__STEP_MODEL_PRE);
}

bool tp__fill_added(tp__drive *d) {
  const tp__added *added = d->added.current;
  tp__drive_text(d, TP_FIELD_TEXT, added->text);
  if (added->files.size > 0) tp__drive_value(d, TP_FIELD_FILES, added->files);
  return true;
}

/* Each accepted message is reported once. */
static void report_added(tp__drive *d, const tp__added *added, tp_text text, tp_status status,
                         const char *subscription) {
  int64_t now_ns = tp__now_ns();
  tp__drive_note_step(d, TP_STEP_MESSAGE, now_ns, now_ns, status);
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_MESSAGE,
                                 .phase = subscription ? TP_PHASE_TURN_INTAKE : 0,
                                 .visibility = TP_VISIBILITY_USER_VISIBLE,
                                 .status = status,
                                 .subscription = subscription,
                                 .text = text,
                                 .started_ns = added->added_ns,
                                 .ended_ns = now_ns});
}

/* Neither the turn nor the history gets the message: a model never sees a message that a guard has denied. */
tp__step tp__denial_of_added(tp__drive *d) {
  const tp_phase_result *result = &d->phase.result;
  const char *subscription = result->subscription ? result->subscription : "";
  tp__drive_note(
      d, TP_PHASE_TURN_INTAKE, TP_SEVERITY_WARNING, "message.denied", subscription,
      tp__arena_printf(&d->arena, "hook %s did not let in a message that was added to the turn: %.*s", subscription,
                       (int)result->reason.size, result->reason.data ? result->reason.data : ""));
  report_added(d, d->added.current, d->added.current->text, TP_ERR_DENIED, subscription);
  drop_current(d);
  return TP__STEP_ADDED;
}

/* A block for each message that has some. */
static bool take_signals(tp__drive *d, const tp_merged *merged) {
  tp_text block, before = d->added.signals;
  if (!merged || merged->lists[TP_CONTRIBUTION_SIGNAL].count == 0) return true;
  if (tp__render_signals(&d->arena, "turn.intake", &merged->lists[TP_CONTRIBUTION_SIGNAL], &block) != TP_OK)
    return false;
  d->added.signals = before.size == 0 ? block
                                      : tp__arena_printf(&d->arena, "%.*s\n%.*s", (int)before.size, before.data,
                                                         (int)block.size, block.data);
  return d->added.signals.data != NULL;
}

static bool enter_message(tp__drive *d) {
  const tp_merged *merged = d->phase.result.merged;
  tp_text text = d->added.current->text, files = d->added.current->files;
  if (tp_merged_replaced(merged, TP_FIELD_TEXT)) text = tp_merged_text(merged, TP_FIELD_TEXT);
  if (tp_merged_replaced(merged, TP_FIELD_FILES)) files = tp_merged_text(merged, TP_FIELD_FILES);
  tp_message message = {.role = TP_ROLE_USER, .turn_id = d->turn->core.ids[TP_ID_TURN], .text = text};
  if (tp__parts_of_files(&d->arena, files, &message.parts) != TP_OK || !take_signals(d, merged) ||
      tp__messages_add(&d->messages, &message) != TP_OK)
    return tp__drive_no_memory(d); /* the commit keeps it unanswered */
  report_added(d, d->added.current, text, TP_OK, NULL);
  drop_current(d);
  return true;
}

bool tp__keep_added(tp__drive *d) {
  TP__ASSERT(d->added.current && d->phase.phase == TP_PHASE_TURN_INTAKE);
  return d->phase.status != TP_OK || d->phase.result.outcome != TP_OK || enter_message(d);
}

/* ---- the turn ends before it ---- */

static tp_status keep_one(const tp__drive *d, tp__messages *batch, const tp__added *added) {
  tp_text turn_id = d->turn->core.ids[TP_ID_TURN];
  TP__TRY(tp__messages_add(batch, &(tp_message){.role = TP_ROLE_USER, .turn_id = turn_id, .text = added->text}));
  if (!tp__turn_plan(&d->turn->core, TP_PHASE_TURN_INTAKE)) return TP_OK;
  return tp__messages_add(batch,
                          &(tp_message){.role = TP_ROLE_END,
                                        .turn_id = turn_id,
                                        .text = tp_text_of("the turn ended before turn.intake had seen the message"),
                                        .name = tp_text_of(tp_turn_outcome_name(TP_TURN_DENIED))});
}

tp_status tp__added_keep_unanswered(tp__drive *d, tp__messages *batch) {
  const tp__added *current = d->added.current;
  TP__ASSERT(d->added.closed);
  if (current) TP__TRY(keep_one(d, batch, current));
  for (const tp__added *each = d->added.first; each; each = each->next) TP__TRY(keep_one(d, batch, each));
  if (current) report_added(d, current, current->text, TP_ERR_STALE, NULL);
  for (const tp__added *each = d->added.first; each; each = each->next)
    report_added(d, each, each->text, TP_ERR_STALE, NULL);
  tp__added_fini(d);
  return TP_OK;
}
