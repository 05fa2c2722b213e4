/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/drive/model_call.h"

#include "phases/model/made_request.h"
#include "phases/tools/toolset.h"
#include "runtime/exec/blocks.h"

enum { ANSWER_BYTES = 448 }; /* Space in the block, after the call, for a short answer. */

static tp__model_call *model_call_of(tp__attempt *attempt) { return TP__CONTAINER(attempt, tp__model_call, base); }

/* ---- pieces of text ---- */

enum { PIECES_BYTES_MAX = 16 << 20 };

/* Flags in the size of a piece: the piece is thinking, or it is a note. */
#define THINKING (UINT64_C(1) << 63)
#define NOTE (UINT64_C(1) << 62)

/* @return where the next piece begins. */
static size_t read_piece(const char *pieces, size_t at, tp_text *ret_piece, uint64_t *ret_kind) {
  uint64_t head;
  memcpy(&head, pieces + at, sizeof head);
  *ret_kind = head & (THINKING | NOTE);
  *ret_piece = (tp_text){pieces + at + sizeof head, (size_t)(head & ~(THINKING | NOTE))};
  return at + sizeof head + ret_piece->size;
}

/* A note is its key, a NUL and its text. */
static void emit_piece(tp__model_call *c, tp_text text, uint64_t kind) {
  if (text.size == 0) return;
  if (kind == 0) c->any_delta = true;
  if (kind == NOTE) {
    tp_text key = {text.data, strlen(text.data)}; /* the NUL is there */
    if (c->on_note) c->on_note(c, key, (tp_text){text.data + key.size + 1, text.size - key.size - 1});
  } else if (c->on_delta) {
    c->on_delta(c, text, kind == THINKING);
  }
}

/* Uses the pieces' own memory: a piece moves to the front, over the pieces that were before it. Consecutive pieces of
 * one kind become one piece; each note stays separate. */
static void emit_joined(tp__model_call *c, char *pieces, size_t size) {
  tp_text piece;
  size_t joined = 0;
  uint64_t kind, last_kind = 0;
  for (size_t at = 0; at < size; joined += piece.size) {
    at = read_piece(pieces, at, &piece, &kind);
    if (kind != last_kind || kind == NOTE) {
      emit_piece(c, (tp_text){pieces, joined}, last_kind);
      joined = 0;
      last_kind = kind;
    }
    memmove(pieces + joined, piece.data, piece.size);
  }
  emit_piece(c, (tp_text){pieces, joined}, last_kind);
}

static void delta_delivered(tp__message *message) {
  tp__model_call *c = TP__CONTAINER(message, tp__model_call, delta_message);
  tp__mutex_lock(&c->mutex);
  char *pieces = c->pieces;
  size_t size = c->pieces_size, capacity = c->pieces_capacity;
  c->pieces = NULL;
  c->pieces_size = c->pieces_capacity = 0;
  c->delta_pending = false;
  tp__mutex_unlock(&c->mutex);
  if (c->each_delta) {
    tp_text piece;
    uint64_t kind;
    for (size_t at = 0; at < size;) {
      at = read_piece(pieces, at, &piece, &kind);
      emit_piece(c, piece, kind);
    }
  } else emit_joined(c, pieces, size);
  tp__release(tp__runtime_allocator(tp__attempt_runtime(&c->base)), pieces, capacity);
  tp__attempt_unref(&c->base); /* the message's */
}

static tp_status add_piece_locked(tp__model_call *c, tp_text piece, uint64_t kind, tp_fault *fault) {
  TP__LOCKED(&c->mutex);
  void *pieces = c->pieces;
  uint64_t size = piece.size | kind;
  if (piece.size > PIECES_BYTES_MAX || c->pieces_size + sizeof size + piece.size > PIECES_BYTES_MAX)
    return tp__fail(fault, TP_ERR_FULL, NULL,
                    "%zu bytes of pieces wait for the turn's owner and this piece has %zu more: at most %d may wait; "
                    "emit it again later",
                    c->pieces_size, piece.size, PIECES_BYTES_MAX);
  TP__TRY(tp__array_grow(tp__runtime_allocator(tp__attempt_runtime(&c->base)), &pieces, &c->pieces_capacity,
                         c->pieces_size + sizeof size + piece.size, 1));
  c->pieces = pieces;
  memcpy(c->pieces + c->pieces_size, &size, sizeof size);
  memcpy(c->pieces + c->pieces_size + sizeof size, piece.data, piece.size);
  c->pieces_size += sizeof size + piece.size;
  return TP_OK;
}

/* ---- holding an answer back ---- */

/* It outlives its call, so that a listener may release it late, even after the runtime was freed. */
struct tp_hold {
  tp_allocator allocator;
  /* atomic */
  tp__a32 refs;  /* one of the call, and one of each hold that was not released */
  tp__a32 count; /* of those holds */
  tp__mutex mutex;
  tp__model_call *call; /* under mutex; NULL: it has settled */
};

static tp_hold *hold_of(tp__model_call *c) { return tp__aptr_load_acquire(&c->hold); }

static void hold_unref(tp_hold *hold) {
  if (tp__a32_sub_acq_rel(&hold->refs, 1) != 1) return;
  tp_allocator allocator = hold->allocator;
  TP__ASSERT(!hold->call);
  tp__mutex_fini(&hold->mutex);
  tp__release(&allocator, hold, sizeof *hold);
}

static tp_hold *hold_new(tp__model_call *c) {
  const tp_allocator *allocator = tp__runtime_allocator(tp__attempt_runtime(&c->base));
  tp_hold *hold = tp__alloc_zero(allocator, sizeof *hold);
  if (!hold) return NULL;
  if (tp__mutex_init(&hold->mutex, TP__RANK_model_hold) != TP_OK) {
    tp__release(allocator, hold, sizeof *hold);
    return NULL;
  }
  hold->allocator = *allocator;
  hold->call = c;
  atomic_init(&hold->refs.v, 1);
  tp__aptr_store_release(&c->hold, hold); /* pairs with hold_of() */
  return hold;
}

tp_hold *tp__model_call_hold(tp__model_call *c) {
  TP__OWNED(&c->turn->strand);
  tp_hold *hold = hold_of(c);
  if (!hold) hold = hold_new(c);
  if (!hold) return NULL;
  tp__a32_add_relaxed(&hold->refs, 1);
  tp__a32_add_acq_rel(&hold->count, 1);
  return hold;
}

/* The answer is complete, or no longer wanted, so nothing can be resumed. */
static void hold_settled(tp__model_call *c) {
  tp_hold *hold = hold_of(c);
  if (!hold) return;
  tp__mutex_lock(&hold->mutex);
  hold->call = NULL;
  tp__mutex_unlock(&hold->mutex);
}

void tp_hold_release(tp_hold *hold) {
  if (!hold) return;
  tp__mutex_lock(&hold->mutex);
  uint32_t before = tp__a32_sub_acq_rel(&hold->count, 1); /* pairs with the load in tp_model_held() */
  tp__model_call *c = before == 1 ? hold->call : NULL;
  if (c) tp__attempt_hold(&c->base);
  tp__mutex_unlock(&hold->mutex);
  TP__ASSERT(before > 0);
  hold_unref(hold);
  if (!c) return;
  tp__inside frame;
  tp__inside_enter(&frame, tp__attempt_runtime(&c->base), TP__INSIDE_CALLBACK);
  if (c->model.resume) c->model.resume(c->model.ctx, c->base.token);
  tp__inside_leave(&frame);
  tp__token_release(&c->base);
}

/* ---- the attempt ---- */

static void cancel_model(void *ctx) {
  tp__model_call *c = ctx;
  if (c->model.cancel) c->model.cancel(c->model.ctx, c->base.token);
}

static int64_t time_left_ms(const tp__model_call *c) {
  if (c->deadline_ns == TP__NEVER) return INT64_MAX;
  int64_t left_ns = c->deadline_ns - tp__now_ns();
  return left_ns > 0 ? left_ns / TP__NS_PER_MS : 0;
}

static tp__answer start_model(tp__attempt *attempt) {
  tp__model_call *c = model_call_of(attempt);
  tp_token token;
  if (tp__attempt_defer(attempt, &(tp_deferral){.struct_size = sizeof(tp_deferral), .cancel = cancel_model, .ctx = c},
                        &token) != TP_OK) {
    tp_fault fault = {.code = TP_OK};
    const char *reason = NULL;
    tp_status status = tp__tokens_full(attempt->sched, &fault);
    if (!tp__arena_string(&c->answer_arena, fault.message, &reason)) reason = NULL;
    return (tp__answer){.kind = TP_ANSWER_FAILED, .code = (uint32_t)status, .reason = reason};
  }
  c->request.time_left_ms = time_left_ms(c);
  c->model.start(c->model.ctx, &c->request, token);
  return (tp__answer){.kind = TP_ANSWER_DEFERRED};
}

/* Why the response was refused. Without memory for the text, there is only the status. */
static void refuse_response(tp__model_call *c, const char *what, const char *why) {
  c->failure_message =
      tp__arena_printf(&c->answer_arena, "the model's response: %s%s%s", what, *what ? " " : "", why).data;
}

static bool is_sound_call(tp__model_call *c, const tp_tool_call *call) {
  bool sound = false;
  if (!tp_utf8_valid(call->id, NULL)) refuse_response(c, "the id of a tool call", "is not UTF-8");
  else if (!tp_utf8_valid(call->name, NULL)) refuse_response(c, "the name of a tool call", "is not UTF-8");
  else if (!call->malformed && tp_value_check(call->arguments, NULL) != TP_OK)
    refuse_response(c, "the arguments of a tool call", "are no well-formed value, and malformed is not set");
  else sound = true;
  return sound;
}

static bool is_sound(tp__model_call *c, const tp_model_response *response) {
  bool sound = false;
  if (!tp_utf8_valid(response->text, NULL)) refuse_response(c, "its text", "is not UTF-8");
  else if (!tp_utf8_valid(response->stop_reason, NULL)) refuse_response(c, "its stop_reason", "is not UTF-8");
  else if (!tp_utf8_valid(response->finish_word, NULL)) refuse_response(c, "its finish_word", "is not UTF-8");
  else sound = true;
  for (size_t i = 0; sound && i < response->call_count; i++) {
    tp_tool_call call;
    sound = tp__tool_call_read(response->calls[i], &call, NULL) == TP_OK && is_sound_call(c, &call);
  }
  return sound;
}

/* The provider reports that its answer failed, so the request may be repeated. */
static void fail_as_it_ended(tp__model_call *c) {
  TP__ASSERT(c->failure == TP_OK && c->response.finish == TP_FINISH_ERROR);
  tp_text word = c->response.finish_word;
  c->failure = TP_ERR_MODEL;
  c->retryable = true;
  c->failure_message =
      tp__arena_printf(&c->answer_arena, "the answer ended with an error%s%.*s%s; try again", word.size ? " (" : "",
                       (int)(word.size < 80 ? word.size : 80), word.size ? word.data : "", word.size ? ")" : "")
          .data;
}

static void accept_response(tp__model_call *c, const tp_model_response *theirs) {
  tp_model_response in;
  tp_fault fault;
  c->failure = TP_ERR_MODEL;
  if (tp__response_read(theirs, &in, &fault) != TP_OK) {
    refuse_response(c, "", fault.message);
    return;
  }
  if (!is_sound(c, &in)) return;
  tp__response_finish(&in);
  c->response = in;
  c->failure = TP_ERR_NO_MEMORY;
  if (tp__arena_text(&c->answer_arena, in.text, &c->response.text) &&
      tp__arena_text(&c->answer_arena, in.stop_reason, &c->response.stop_reason) &&
      tp__arena_text(&c->answer_arena, in.provider_data, &c->response.provider_data) &&
      tp__arena_text(&c->answer_arena, in.finish_word, &c->response.finish_word) &&
      tp__calls_copy(&c->answer_arena, in.calls, in.call_count, &c->response.calls))
    c->failure = TP_OK;
  if (c->failure == TP_OK && in.finish == TP_FINISH_ERROR) fail_as_it_ended(c);
}

/* extra: the response; NULL: the model failed. */
static void accept_model_answer(tp__attempt *attempt, const tp__answer *answer, const void *extra) {
  tp__model_call *c = model_call_of(attempt);
  if (extra) {
    accept_response(c, extra);
  } else {
    c->failure = answer->code ? (tp_status)answer->code : TP_ERR_MODEL;
    c->retryable = answer->retryable;
    bool valid = tp_utf8_valid(tp_text_of(answer->reason), NULL);
    if (!valid || !tp__arena_string(&c->answer_arena, answer->reason, &c->failure_message)) c->failure_message = NULL;
  }
  attempt->answer = (tp__answer){.kind = answer->kind};
}

static void note_model_abandoned(tp__attempt *attempt) {
  model_call_of(attempt)->failure_message = TP__ABANDONED_REASON;
}

/* It never ran. */
static tp_status refused_status(tp__model_call *c, tp_reason reason) {
  if (reason == TP_REASON_SHUTDOWN) return TP_ERR_SHUTDOWN;
  if (!c->model.inbox) return TP_ERR_NO_THREAD;
  bool closed = tp__inbox_is_closed(c->model.inbox);
  c->failure_message = closed ? "its inbox was freed" : "too many tokens are open";
  return closed ? TP_ERR_MODEL : TP_ERR_FULL;
}

static void settle_model_call(tp__attempt *attempt, tp__attempt_end end) {
  TP__OWNED(&model_call_of(attempt)->turn->strand);
  TP__ASSERT(model_call_of(attempt)->on_end);
  tp__model_call *c = model_call_of(attempt);
  tp_status status = TP_OK;
  hold_settled(c);
  if (tp__attempt_is_alone(attempt)) { /* the next request then need not copy the list */
    tp__past_view_fini(&c->view);
    tp__made_request_free(c->made);
    c->made = NULL;
  }
  switch (end) {
    case TP__ANSWERED:
      if (attempt->answer.code) { /* the function's own: there was no token */
        c->failure = (tp_status)attempt->answer.code;
        c->failure_message = attempt->answer.reason;
      }
      status = c->failure;
      break;
    case TP__EXPIRED:
      status = TP_ERR_TIMEOUT;
      break;
    case TP__CANCELLED:
      status = TP_ERR_CANCELLED;
      break;
    case TP__REFUSED:
      status = refused_status(c, attempt->refusal);
      break;
  }
  c->on_end(c, status);
  tp__attempt_unref(attempt);
}

static void free_model_call(tp__attempt *attempt) {
  tp__model_call *c = model_call_of(attempt);
  tp_runtime *runtime = tp__attempt_runtime(attempt);
  tp__turn *turn = c->turn;
  tp_session *session = c->session;
  if (hold_of(c)) hold_unref(hold_of(c));
  tp__past_view_fini(&c->view);
  tp__made_request_free(c->made);
  if (c->tools) tp__toolset_unref(c->tools);
  tp__release(tp__runtime_allocator(runtime), c->pieces, c->pieces_capacity);
  tp__arena_fini(&c->answer_arena);
  tp__mutex_fini(&c->mutex);
  tp__block_give(tp__runtime_blocks(runtime), c, c->block_size);
  if (session) tp__session_unref(session);
  tp__turn_unref(turn);
}

static const tp__attempt_class class = {.what = "model",
                                        .complete_with = "tp_model_complete() or tp_model_fail()",
                                        .call = start_model,
                                        .accept = accept_model_answer,
                                        .abandoned = note_model_abandoned,
                                        .settled = settle_model_call,
                                        .release = free_model_call};

tp__model_call *tp__model_call_new(tp__turn *turn, tp__toolset *tools, tp_session *session, const tp_model *model,
                                   const tp_model_request *request) {
  TP__OWNED(&turn->strand);
  tp_runtime *runtime = turn->runtime;
  size_t block_size;
  tp__model_call *c = tp__block_take(tp__runtime_blocks(runtime), sizeof *c + ANSWER_BYTES, &block_size);
  if (!c) return NULL;
  memset(c, 0, sizeof *c);
  tp_status status = tp__mutex_init(&c->mutex, TP__RANK_model_call);
  if (status == TP_OK && (status = tp__attempt_init(&c->base, &class, &turn->strand)) != TP_OK)
    tp__mutex_fini(&c->mutex);
  if (status != TP_OK) {
    tp__block_give(tp__runtime_blocks(runtime), c, block_size);
    return NULL;
  }
  c->block_size = block_size;
  c->base.pool_item.lane = TP__LANE_AWAITED;
  c->base.pool_item.name = model->name ? model->name : "model";
  c->base.ends_with_turn = model->destroy == NULL; /* once its function has returned; never for a model with an inbox */
  c->base.pool_item.phase = TP_PHASE_MODEL_PRE;
  c->turn = turn;
  c->session = session;
  c->model = *model;
  c->model.inbox = tp__inbox_meant(model->inbox, turn->inbox);
  c->request = *request;
  c->tools = tools ? tp__toolset_ref(tools) : NULL;
  c->deadline_ns = turn->deadline_ns;
  c->failure = TP_ERR_MODEL; /* until a response was taken */
  c->delta_message.deliver = delta_delivered;
  tp__turn_hold(c->turn);
  if (session) tp__session_hold(session);
  tp__arena_init(&c->answer_arena, &tp__runtime_blocks(runtime)->as_allocator, c + 1, block_size - sizeof *c, 0);
  return c;
}

/* The start function of an inline model is called here; its answer still comes as a message. */
static void start_here(tp__model_call *c) {
  tp__attempt *attempt = &c->base;
  tp__a64_store_relaxed(&attempt->started_ns, (uint64_t)tp__now_ns()); /* no other thread knows it yet */
  tp__answer answer = start_model(attempt); /* once it has deferred, attempt->answer belongs to the token */
  if (answer.kind == TP_ANSWER_DEFERRED) {
    tp__attempt_returned(attempt);
    tp__attempt_await(attempt, c->deadline_ns);
    return;
  }
  attempt->answer = answer;
  tp__attempt_fini(attempt);
  settle_model_call(attempt, TP__ANSWERED);
}

static tp_reason offer(tp__model_call *c) {
  TP__ASSERT(c->model.inbox);
  c->request.time_left_ms = time_left_ms(c);
  c->base.inbox_item.work =
      (tp_work){.struct_size = sizeof(tp_work), .kind = TP_WORK_MODEL, .ctx = c->model.ctx, .request = &c->request};
  return tp__attempt_offer(&c->base, c->model.inbox, c->deadline_ns);
}

void tp__model_call_start(tp__model_call *c) {
  TP__ASSERT(c->on_end);
  if (c->model.placement == TP_PLACEMENT_INLINE) {
    start_here(c);
    return;
  }
  tp_reason refused = c->model.inbox ? offer(c) : tp__attempt_start(&c->base, c->deadline_ns, 0);
  if (!refused) return;
  c->on_end(c, refused_status(c, refused));
  tp__attempt_unref(&c->base);
}

void tp__model_call_cancel(tp__model_call *c) { tp__attempt_expire(&c->base, TP__CANCELLED); }

/* ---- the API of providers ---- */

tp_status tp_model_complete(tp_token token, const tp_model_response *response, tp_fault *fault) {
  return tp__token_answer(token, &class, &(tp__answer){.kind = TP_ANSWER_DONE}, response, fault);
}

tp_status tp_model_fail(tp_token token, tp_status code, const char *message, bool retryable, tp_fault *fault) {
  tp__answer answer = {.kind = TP_ANSWER_FAILED, .code = (uint32_t)code, .reason = message, .retryable = retryable};
  return tp__token_answer(token, &class, &answer, NULL, fault);
}

static tp_status add_piece(tp_token token, tp_text piece, uint64_t kind, tp_fault *fault) {
  size_t at;
  if (!tp_utf8_valid(piece, &at))
    return tp__fail(fault, TP_ERR_UTF8, NULL,
                    "the piece is not UTF-8 at byte %zu of %zu: keep the bytes of a character together", at,
                    piece.size);
  if (piece.size == 0) return TP_OK;
  tp__attempt *attempt = tp__token_hold(token, &class);
  if (!attempt) return tp__token_refuse(token, &class, fault);
  tp__model_call *c = model_call_of(attempt);
  tp__mutex_lock(&c->mutex);
  tp_status status = add_piece_locked(c, piece, kind, fault);
  bool push = status == TP_OK && !c->delta_pending;
  if (push) c->delta_pending = true;
  tp__mutex_unlock(&c->mutex);
  if (push) {
    tp__a32_add_relaxed(&attempt->refs, 1); /* the message's */
    bool here = c->delivers && kind != NOTE;
    bool taken = here ? tp__strand_deliver_here(attempt->strand, &c->delta_message)
                      : tp__strand_push(attempt->strand, &c->delta_message);
    if (!taken) tp__attempt_unref(attempt);
  }
  tp__token_release(attempt);
  return status;
}

tp_status tp_model_delta(tp_token token, tp_text piece, tp_fault *fault) { return add_piece(token, piece, 0, fault); }

tp_status tp_model_thinking(tp_token token, tp_text piece, tp_fault *fault) {
  return add_piece(token, piece, THINKING, fault);
}

bool tp_model_held(tp_token token) {
  tp__attempt *attempt = tp__token_hold(token, &class);
  if (!attempt) return false;
  tp_hold *hold = hold_of(model_call_of(attempt));
  bool held = hold && tp__a32_load_acquire(&hold->count) > 0;
  tp__token_release(attempt);
  return held;
}

tp_status tp_model_note(tp_token token, tp_text key, tp_text text, tp_fault *fault) {
  enum { KEY_BYTES_MAX = 64, TEXT_BYTES_MAX = 512 };
  char note[KEY_BYTES_MAX + 1 + TEXT_BYTES_MAX];
  if (key.size == 0 || key.size > KEY_BYTES_MAX || text.size == 0 || memchr(key.data, 0, key.size))
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_model_note() needs a key of at most %d bytes, and a text",
                    KEY_BYTES_MAX);
  if (!tp_utf8_valid(text, NULL)) return tp__fail(fault, TP_ERR_UTF8, NULL, "the text of the note is not UTF-8");
  size_t size = tp__utf8_cut(text, TEXT_BYTES_MAX);
  memcpy(note, key.data, key.size);
  note[key.size] = 0;
  memcpy(note + key.size + 1, text.data, size);
  return add_piece(token, (tp_text){note, key.size + 1 + size}, NOTE, fault);
}
