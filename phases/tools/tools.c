/* SPDX-License-Identifier: Apache-2.0
 *
 * tools.c: a dispatch from its beginning to its end, and the public functions. */
#include "phases/tools/tools.h"

#include "phases/model/model.h"
#include "phases/tools/tool_call.h"
#include "runtime/exec/blocks.h"

enum { BLOCK_BYTES = 2048 };

static const tp_text no_text = {"", 0};

#ifdef TP_CHECKS
void tp__dispatch_check(const tp__dispatch *d) {
  uint32_t pending = 0;
  TP__OWNED(&d->turn->core.strand);
  /* The dispatch belongs to its turn, and ends with the last open call. */
  assert(d->turn->dispatch == d && d->open > 0 && d->completed <= d->count);
  const tp__tool_slot *slot = d->pending;
  for (uint32_t i = 0; i < TP__CHECK_ITEMS_MAX && slot; i++, slot = slot->next) {
    /* Each waiting call has an index of its own in the response. */
    assert(slot->dispatch == d && slot->index < d->count);
    /* A call is done when it has its result and its phases have ended. Then it waits for nothing. */
    assert(!slot->done || (slot->settled && !slot->run && !(slot->ask && slot->ask->question)));
    pending += !slot->done;
  }
  assert(pending <= d->open);
  /* The slot that is kept for the next call is not in use by another call. */
  assert(!d->free || d->free->done);
}
#endif

void tp__toolcall_unref(tp__dispatch *d) {
  TP__CHECK(tp__dispatch_check(d));
  if (--d->open > 0) return;
  tp__arena_fini(&d->scratch);
  d->pending = NULL;
  d->turn->dispatch = NULL;
  d->on_end(d);
}

/* Looks at the last tool first, because calls of one tool often follow each other. */
static tp__tool_entry *find_tool(tp__dispatch *d, tp_text name) {
  if (d->last && tp_text_equal(d->last->name, name)) return d->last;
  return d->last = tp__toolset_find(d->turn->toolset, name);
}

static tp__tool_slot *new_slot(tp__dispatch *d) {
  tp__tool_slot *slot = tp__arena_alloc(&d->scratch, sizeof *slot);
  if (!slot) return NULL;
  *slot = (tp__tool_slot){.dispatch = d};
  if (!d->has_gates) return slot;
  slot->gate = tp__arena_alloc(&d->scratch, sizeof *slot->gate);
  return slot->gate ? slot : NULL;
}

static void fill_slot(tp__tool_slot *slot, uint32_t index, tp__tool_entry *tool) {
  slot->index = index;
  slot->tool = tool;
  slot->call = slot->dispatch->calls[index];
  slot->ask = NULL;
  slot->order = NULL;
  slot->started_ns = 0;
  slot->start_id = slot->pre_entry_id = 0;
  slot->settled = slot->done = slot->is_cancelled = slot->is_partial = false;
  if (slot->gate) {
    slot->gate->phase.entry = NULL;
    slot->gate->signals = no_text;
    slot->gate->summarized = NULL;
    slot->gate->is_ready = false;
  }
  slot->dispatch->open++;
}

static void shed(tp__dispatch *d, uint32_t index, tp__tool_entry *tool) {
  tp__tool_slot none = {.dispatch = d};
  fill_slot(&none, index, tool);
  tp__toolcall_stop(&none, TP_TOOL_SHED, tp__toolcall_unanswered(TP_TOOL_SHED));
}

/* A call that ended at once leaves its slot to the next call. */
static void begin_call(tp__dispatch *d, uint32_t index) {
  TP__ASSERT(index < d->count);
  tp__tool_entry *tool = find_tool(d, d->calls[index]->name);
  d->results[index] = (tp_tool_result){.struct_size = sizeof *d->results,
                                       .call_id = tp__toolcall_id(d, index),
                                       .name = tp__toolcall_name(d, index, tool)};
  tp__tool_slot *slot = d->free ? d->free : new_slot(d);
  if (!slot) {
    shed(d, index, tool);
    return;
  }
  d->free = NULL;
  fill_slot(slot, index, tool);
  TP__CHECK(tp__dispatch_check(d));
  if (!tp__order_applies(tool) || tp__order_add(slot)) tp__toolcall_begin(slot);
  else tp__toolcall_stop(slot, TP_TOOL_SHED, tp__toolcall_unanswered(TP_TOOL_SHED));
  tp__tool_slot **list = slot->done ? &d->free : &d->pending;
  slot->next = *list;
  *list = slot;
  TP__CHECK(tp__dispatch_check(d));
}

/* ---- the dispatch ---- */

static tp_event event_of(const tp_turn *turn, tp_event_kind kind) {
  return (tp_event){.struct_size = sizeof(tp_event),
                    .kind = kind,
                    .ids = turn->core.ids,
                    .id_count = TP_ID_COUNT,
                    .turn = &turn->core,
                    .visibility = TP_VISIBILITY_USER_VISIBLE};
}

/* If the turn has kept its last dispatch, uses that one again; the data to which its results point stays in it. */
static tp__dispatch *take_dispatch(tp_turn *turn) {
  tp__link *kept = &turn->kept_dispatches;
  if (!tp__list_empty(kept)) {
    tp__dispatch *d = TP__CONTAINER(kept->next, tp__dispatch, kept);
    tp__list_remove(&d->kept);
    return d;
  }
  size_t block_size;
  tp__dispatch *d = tp__block_take(tp__runtime_blocks(turn->core.runtime), BLOCK_BYTES, &block_size);
  if (!d) return NULL;
  memset(d, 0, sizeof *d);
  d->turn = turn;
  d->block_size = block_size;
  d->run.turn = &turn->core;
  d->run.arena = &d->texts;
  d->has_listener = tp__turn_has_listener(turn);
  d->timestamps = tp__runtime_options(turn->core.runtime)->timestamps;
  d->begin = event_of(turn, TP_EVENT_TOOL_BEGIN);
  d->end = event_of(turn, TP_EVENT_TOOL_END);
  tp__arena_init(&d->texts, &tp__runtime_blocks(turn->core.runtime)->as_allocator, d + 1, block_size - sizeof *d, 0);
  return d;
}

static bool has_plan(const tp__dispatch *d, uint32_t phase) { return tp__turn_plan(&d->turn->core, phase) != NULL; }

static void prepare_dispatch(tp__dispatch *d) {
  d->open = 1; /* one for the thread that begins the calls: the end comes only after all have begun */
  d->completed = 0;
  d->last = NULL; /* the turn may have other tools by now */
  d->has_create = has_plan(d, TP_PHASE_TOOL_CREATE);
  d->has_rewrite = has_plan(d, TP_PHASE_TOOL_REWRITE);
  d->has_pre = has_plan(d, TP_PHASE_TOOL_PRE);
  d->has_ask = has_plan(d, TP_PHASE_TOOL_ASK);
  d->has_denied = has_plan(d, TP_PHASE_TOOL_DENIED);
  d->has_result = has_plan(d, TP_PHASE_TOOL_RESULT);
  d->has_post = has_plan(d, TP_PHASE_TOOL_POST);
  d->has_gates =
      d->has_create || d->has_rewrite || d->has_pre || d->has_ask || d->has_denied || d->has_result || d->has_post;
  d->has_permission = tp__people_permit(d->turn);
  d->free = NULL;
  d->resumes = false;
  tp__list_init(&d->ordered);
  tp__list_init(&d->resumable);
  tp__arena_init(&d->scratch, &tp__runtime_blocks(d->turn->core.runtime)->as_allocator, d->first, sizeof d->first, 0);
  tp__toolcall_look_at_clock(d);
}

static tp__dispatch *new_dispatch(tp_turn *turn, const tp_tool_call *const *calls, size_t count,
                                  tp_tool_result *results, void (*on_end)(tp__dispatch *dispatch), void *ctx) {
  tp__dispatch *d = take_dispatch(turn);
  if (!d) return NULL;
  d->calls = calls;
  d->count = count;
  d->results = results;
  d->shown = NULL;
  d->on_end = on_end;
  d->ctx = ctx;
  d->remind = NULL;
  d->calls_stay = true;
  return d;
}

/* Results live as long as the turn. */
static void keep_dispatch(tp__dispatch *d) { tp__list_push(&d->turn->kept_dispatches, &d->kept); }

/* The dispatch may be gone afterwards. */
static void go(tp__dispatch *d) {
  TP__OWNED(&d->turn->core.strand);
  TP__ASSERT(!d->turn->dispatch); /* one at a time */
  prepare_dispatch(d);
  d->turn->dispatch = d;
  bool *begins_more = &d->turn->core.strand.begins_more;
  for (uint32_t i = 0; i < d->count; i++) {
    *begins_more = i + 1 < d->count;
    begin_call(d, i);
  }
  tp__toolcall_unref(d);
}

/* @return false without memory. */
static bool reserve_id_space(tp__dispatch *d) {
  size_t bytes = tp__toolcall_id_bytes(d);
  d->id_space = bytes ? tp__arena_alloc(&d->texts, bytes) : NULL;
  return !bytes || d->id_space;
}

tp_status tp__dispatch_begin(tp_turn *turn, const tp_tool_call *const *calls, size_t count, tp_tool_result *results,
                             tp__remind_fn remind, void (*on_end)(tp__dispatch *dispatch), void *ctx,
                             tp__dispatch **ret_dispatch) {
  tp__dispatch *d = new_dispatch(turn, calls, count, results, on_end, ctx);
  if (!d) return TP_ERR_NO_MEMORY;
  d->remind = remind;
  *ret_dispatch = d;
  if (!reserve_id_space(d)) {
    keep_dispatch(d);
    return TP_ERR_NO_MEMORY;
  }
  go(d);
  return TP_OK;
}

void tp__dispatch_free(tp__dispatch *d) {
  if (!d) return;
  TP__ASSERT(d->turn->dispatch != d); /* it has ended */
  tp__arena_fini(&d->texts);
  tp__block_give(tp__runtime_blocks(d->turn->core.runtime), d, d->block_size);
}

void tp__turn_free_dispatches(tp_turn *turn) {
  while (!tp__list_empty(&turn->kept_dispatches)) {
    tp__dispatch *dispatch = TP__CONTAINER(turn->kept_dispatches.next, tp__dispatch, kept);
    tp__list_remove(&dispatch->kept);
    tp__dispatch_free(dispatch);
  }
}

/* ---- the public functions ---- */

static void sync_ended(tp__dispatch *d) {
  *(bool *)d->ctx = true;
  keep_dispatch(d);
}

/* Whether the dispatch can use the host's struct without a copy. */
static bool is_ours(const tp_tool_call *call) {
  return call && call->struct_size == sizeof *call && !call->reserved_ && (call->arguments.size > 0 || call->malformed);
}

static tp_status check_calls(const tp_tool_call *const *calls, size_t count, tp_fault *fault) {
  tp_tool_call call;
  if (count > 0 && !calls) return tp__fail(fault, TP_ERR_USAGE, NULL, "%zu calls, and the list is NULL", count);
  for (size_t i = 0; i < count; i++)
    if (!calls[i]) return tp__fail(fault, TP_ERR_USAGE, NULL, "call %zu of %zu is NULL", i, count);
    else if (!is_ours(calls[i])) TP__TRY(tp__tool_call_read(calls[i], &call, fault));
  return TP_OK;
}

/* Makes structs of this library's size if the host's have another one; the texts stay the host's. */
static bool own_calls(tp__dispatch *d) {
  size_t i = 0;
  while (i < d->count && is_ours(d->calls[i])) i++;
  if (i == d->count) return true;
  tp_tool_call *copies = tp__arena_alloc(&d->texts, d->count * sizeof *copies);
  const tp_tool_call **list = tp__arena_alloc(&d->texts, d->count * sizeof *list);
  bool ok = copies && list;
  for (i = 0; ok && i < d->count; i++) {
    ok = tp__tool_call_read(d->calls[i], &copies[i], NULL) == TP_OK;
    list[i] = &copies[i];
  }
  if (ok) d->calls = list;
  return ok;
}

static size_t result_bytes(const tp__dispatch *d) { return d->count * (sizeof *d->results + sizeof *d->shown); }

/* Uses memory of result_bytes(). The pointers to the results do not change. */
static char *put_results(tp__dispatch *d, void *memory) {
  d->results = memory;
  d->shown = (const tp_tool_result **)(void *)(d->results + d->count);
  for (size_t i = 0; i < d->count; i++) d->shown[i] = &d->results[i];
  return (char *)(d->shown + d->count);
}

static bool make_results(tp__dispatch *d) {
  void *memory = tp__arena_alloc(&d->texts, result_bytes(d) + 1);
  if (memory) put_results(d, memory);
  return memory != NULL;
}

/* The calls stay the host's, until the dispatch has ended. */
static bool borrow_calls(tp__dispatch *d) {
  d->calls_stay = false;
  return make_results(d) && own_calls(d) && reserve_id_space(d);
}

tp_status tp_tools_run(tp_turn *turn, const tp_tool_call *const *calls, size_t count,
                       const tp_tool_result *const **ret_results, tp_fault *fault) {
  if (!turn) return tp__fail_null(fault, "turn");
  tp__inside frame;
  TP__TRY(check_calls(calls, count, fault));
  TP__TRY(tp__become_owner(turn->core.runtime, &frame, fault, "tp_tools_run"));
  bool done = false;
  tp_status status = tp__turn_enter(turn);
  if (status == TP_OK) {
    tp__dispatch *d = new_dispatch(turn, calls, count, NULL, sync_ended, &done);
    bool ok = d && borrow_calls(d);
    if (d && !ok) keep_dispatch(d);
    const tp_tool_result *const *shown = ok ? d->shown : NULL;
    if (ok) go(d);
    if (ok) tp__strand_wait(&turn->core.strand, &done);
    if (ok && ret_results) *ret_results = shown;
    status = ok ? TP_OK : TP_ERR_NO_MEMORY;
    tp__turn_exit(turn);
  }
  tp__inside_leave(&frame);
  return status == TP_OK ? TP_OK : tp__fail(fault, status, NULL, "the calls were not run: %s", tp_status_text(status));
}

static void submitted_ended(tp__dispatch *d) {
  tp_turn *turn = d->turn;
  tp_tools_end_fn on_end = turn->operation.on_tools_end;
  void *ctx = turn->operation.ctx;
  const tp_tool_result *const *results = d->shown;
  size_t count = d->count;
  keep_dispatch(d);
  tp__a32_store_release(&turn->core.busy, 0); /* from here on another thread may submit, and use the dispatch */
  on_end(ctx, results, count);
}

static void submitted_delivered(tp__message *message) {
  tp_turn *turn = TP__CONTAINER(message, tp_turn, operation.message);
  go(take_dispatch(turn)); /* that of the submit */
}

static char *put_copy(char *space, tp_text *text) {
  if (text->size == 0) {
    *text = no_text;
    return space;
  }
  memcpy(space, text->data, text->size);
  space[text->size] = '\0';
  text->data = space;
  return space + text->size + 1;
}

/* Allocates everything or nothing, because the memory stays until the turn's end: the host's calls, space for their
 * results, the arena of the results' texts, and space for ids. */
static bool copy_calls(tp__dispatch *d, const tp_tool_call *const *calls) {
  size_t id_bytes = tp__toolcall_id_bytes(d);
  size_t bytes = id_bytes + result_bytes(d) + d->count * (sizeof **calls + sizeof *calls) + 1;
  for (size_t i = 0; i < d->count; i++) bytes += calls[i]->id.size + calls[i]->name.size + calls[i]->arguments.size + 4;
  tp_tool_call *copy = tp__arena_alloc(&d->texts, bytes);
  if (!copy) return false;
  const tp_tool_call **pointers = (const tp_tool_call **)(void *)(copy + d->count);
  char *space = put_results(d, pointers + d->count);
  for (size_t i = 0; i < d->count; i++) {
    pointers[i] = &copy[i];
    if (tp__tool_call_read(calls[i], &copy[i], NULL) != TP_OK) return false;
    space = put_copy(space, &copy[i].id);
    space = put_copy(space, &copy[i].name);
    space = put_copy(space, &copy[i].arguments);
  }
  d->calls = pointers;
  d->id_space = id_bytes ? space : NULL;
  return true;
}

static tp_status submit_dispatch(tp_turn *turn, const tp_tool_call *const *calls, size_t count, bool borrowed,
                                 tp_tools_end_fn on_end, void *ctx, tp_fault *fault) {
  TP__TRY(check_calls(calls, count, fault));
  if (!on_end)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_tools_submit needs on_end: nothing else says when the calls ended");
  if (tp__runtime_options(turn->core.runtime)->no_engine_workers)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "the runtime has no engine workers: use tp_tools_run()");
  tp_status status = tp__turn_begin_operation(&turn->core);
  if (status != TP_OK) return tp__fail(fault, status, NULL, "the operation was not begun: %s", tp_status_text(status));
  tp__dispatch *d = new_dispatch(turn, calls, count, NULL, submitted_ended, NULL);
  if (!d || !(borrowed ? borrow_calls(d) : copy_calls(d, calls))) {
    if (d) keep_dispatch(d);
    tp__a32_store_release(&turn->core.busy, 0);
    return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the calls");
  }
  keep_dispatch(d); /* no cancel may find the dispatch before it has begun */
  turn->operation.on_tools_end = on_end;
  turn->operation.ctx = ctx;
  turn->operation.message.deliver = submitted_delivered;
  tp__turn_submit(turn, &turn->operation.message);
  return TP_OK;
}

tp_status tp_tools_submit(tp_turn *turn, const tp_tool_call *const *calls, size_t count, tp_tools_end_fn on_end,
                          void *ctx, tp_fault *fault) {
  return submit_dispatch(turn, calls, count, false, on_end, ctx, fault);
}

tp_status tp_tools_submit_borrowed(tp_turn *turn, const tp_tool_call *const *calls, size_t count,
                                   tp_tools_end_fn on_end, void *ctx, tp_fault *fault) {
  return submit_dispatch(turn, calls, count, true, on_end, ctx, fault);
}
