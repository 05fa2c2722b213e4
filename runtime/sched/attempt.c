/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/attempt.h"

#include <stdio.h>

#include "runtime/base/bug.h"
#include "runtime/sched/sched.h"

#ifdef TP_CHECKS
void tp__attempt_check(const tp__attempt *attempt) {
  uint32_t flags = tp__a32_load_acquire(&attempt->flags);
  /* The caller has a reference. */
  assert(tp__a32_load_relaxed(&attempt->refs) > 0);
  /* The class has the functions that run, settle and free the attempt. The strand belongs to the attempt's
   * scheduler. */
  assert(attempt->class && attempt->class->settled && attempt->class->release && attempt->sched);
  /* The holder of a token is notified of a cancel at most once, and only when there is a token and a cancel. */
  assert(!(flags & TP__ATTEMPT_CANCELLING) ||
         (flags & (TP__ATTEMPT_CANCELLED | TP__ATTEMPT_DEFERRED)) == (TP__ATTEMPT_CANCELLED | TP__ATTEMPT_DEFERRED));
  assert(!(flags & TP__ATTEMPT_NOTIFIED) || (flags & TP__ATTEMPT_CANCELLING));
  /* A token ends that there was. */
  assert(!(flags & TP__ATTEMPT_GONE) || (flags & TP__ATTEMPT_DEFERRED));
  /* The flag RETURNED is set only for attempts that end with their turn. */
  assert(!(flags & TP__ATTEMPT_RETURNED) || attempt->ends_with_turn);
}
#endif

/* ---- references ---- */

static void hold(tp__attempt *attempt) {
  uint32_t before = tp__a32_add_relaxed(&attempt->refs, 1);
  TP__ASSERT(before > 0); /* the caller has one */
  (void)before;
}

/* ---- the cancel of work that the host has taken from an inbox: it is work itself, with memory of its own ---- */

typedef struct tp__cancel_note {
  tp_allocator allocator;
  tp__inbox_note in_inbox;
} cancel_note;

static void free_cancel_note(cancel_note *note) {
  if (!note) return;
  tp_allocator allocator = note->allocator;
  tp__release(&allocator, note, sizeof *note);
}

/* A host that has answered is not told. */
static bool cancel_taken(tp__inbox_note *note) {
  if (tp__slot_is_unanswered(note->item.work.token)) return true;
  note->end(note);
  return false;
}

static void cancel_released(tp__inbox_note *note) {
  tp_inbox *inbox = note->item.inbox; /* the put acquired a reference */
  free_cancel_note(TP__CONTAINER(note, cancel_note, in_inbox));
  tp__inbox_unref(inbox);
}

/* Makes the note before the host can take the work, so that a cancel needs no memory. @return false without memory. */
static bool make_cancel_note(tp__attempt *attempt) {
  const tp_allocator *allocator = attempt->sched->options.allocator;
  cancel_note *note = tp__alloc(allocator, sizeof *note);
  if (!note) return false;
  *note = (cancel_note){.allocator = *allocator, .in_inbox = {.take = cancel_taken, .end = cancel_released}};
  note->in_inbox.item.work = (tp_work){.struct_size = sizeof(tp_work),
                                       .kind = TP_WORK_CANCEL,
                                       .token = attempt->token,
                                       .ctx = attempt->inbox_item.work.ctx};
  attempt->cancel_note = note;
  return true;
}

/* The caller has set the second of the flags TAKEN and CANCELLED. */
static void put_cancel_note(tp__attempt *attempt) {
  cancel_note *note = attempt->cancel_note;
  TP__ASSERT(note);
  attempt->cancel_note = NULL;
  if (TP__BUG(TP__BUG_LOST_CANCEL) || !tp__inbox_put_note(attempt->inbox_item.inbox, &note->in_inbox))
    free_cancel_note(note); /* the inbox was freed */
}

void tp__attempt_unref(tp__attempt *attempt) {
  TP__CHECK(tp__attempt_check(attempt));
  if (tp__a32_sub_acq_rel(&attempt->refs, 1) != 1) return;
  tp_inbox *inbox = attempt->inbox_item.inbox;
  free_cancel_note(attempt->cancel_note);
  attempt->class->release(attempt);
  tp__inbox_unref(inbox);
}

/* ---- cancel and destroy of a deferral: cancel at most once, destroy exactly once and never while cancel runs ---- */

static void destroy_ctx(tp__attempt *attempt) {
  if (attempt->deferral.destroy) attempt->deferral.destroy(attempt->deferral.ctx);
}

/* The deferral is published, and its answer is not wanted. */
static void notify_cancel(tp__attempt *attempt) {
  TP__CHECK(tp__attempt_check(attempt));
  uint32_t old = tp__a32_or_acq_rel(&attempt->flags, TP__ATTEMPT_CANCELLING);
  if (old & (TP__ATTEMPT_CANCELLING | TP__ATTEMPT_GONE)) return;
  if (attempt->deferral.cancel) attempt->deferral.cancel(attempt->deferral.ctx);
  old = tp__a32_or_acq_rel(&attempt->flags, TP__ATTEMPT_NOTIFIED);
  if (old & TP__ATTEMPT_GONE) destroy_ctx(attempt);
}

static void uncount_token(tp__sched *sched) {
  uint32_t before = tp__a32_sub_acq_rel(&sched->tokens_open, 1);
  TP__ASSERT(before > 0); /* it was counted */
  (void)before;
}

/* Called at the token's end, after which no answer comes through it. Drops the token's reference. A deferral without
 * callbacks needs no ordering of them. */
static void token_gone(tp__attempt *attempt) {
  TP__ASSERT(tp__a32_load_acquire(&attempt->flags) & TP__ATTEMPT_DEFERRED);
  if (attempt->deferral.cancel || attempt->deferral.destroy) {
    uint32_t old = tp__a32_or_acq_rel(&attempt->flags, TP__ATTEMPT_GONE);
    bool in_cancel = (old & TP__ATTEMPT_CANCELLING) && !(old & TP__ATTEMPT_NOTIFIED);
    if (!in_cancel) destroy_ctx(attempt);
  }
  if (attempt->pool_item.inbox || attempt->pool_item.keeps_permit)
    tp__pool_token_ended(&attempt->sched->pool, &attempt->pool_item);
  uncount_token(attempt->sched);
  tp__attempt_unref(attempt);
}

/* ---- the owner's side ---- */

static void settle_delivered(tp__message *message) {
  tp__attempt *attempt = TP__CONTAINER(message, tp__attempt, message);
  TP__OWNED(attempt->strand);
  TP__CHECK(tp__attempt_check(attempt));
  tp__strand_timer_remove(&attempt->timer);
  tp__slot_close(attempt->token);
  attempt->class->settled(attempt, attempt->refusal ? TP__REFUSED : TP__ANSWERED);
}

/* When the timer entry of the attempt expires next. When the limit counts from the call and the call has not begun, the
 * limit counts from now. So the entry may expire too early, never too late, and no message is needed when the call
 * begins. */
static int64_t expiry_ns(const tp__attempt *attempt, int64_t now_ns) {
  TP__ASSERT(attempt->timeout_ns >= 0 && attempt->deadline_ns > 0);
  if (!attempt->timeout_ns) return attempt->deadline_ns;
  const tp__a64 *counted = attempt->pool_item.inbox ? &attempt->pool_item.offered_ns : &attempt->started_ns;
  int64_t started_ns = (int64_t)tp__a64_load_acquire(counted);
  int64_t limit_end_ns = (started_ns ? started_ns : now_ns) + attempt->timeout_ns;
  return limit_end_ns < attempt->deadline_ns ? limit_end_ns : attempt->deadline_ns;
}

static void fire(tp__timer_entry *timer, int64_t now_ns) {
  tp__attempt *attempt = TP__CONTAINER(timer, tp__attempt, timer);
  int64_t at_ns = expiry_ns(attempt, now_ns);
  if (at_ns > now_ns) tp__strand_timer_add(attempt->strand, timer, at_ns);
  else tp__attempt_expire(attempt, TP__EXPIRED);
}

tp_status tp__attempt_init(tp__attempt *attempt, const tp__attempt_class *class, tp__strand *strand) {
  memset(attempt, 0, sizeof *attempt);
  TP__ASSERT(class->settled && class->release);
  attempt->class = class;
  attempt->sched = strand->sched;
  attempt->strand = strand;
  attempt->message.deliver = settle_delivered;
  attempt->timer.fire = fire;
  tp__list_init(&attempt->timer.link);
  atomic_init(&attempt->refs.v, 1);
  return tp__slot_open(attempt, attempt->sched, &attempt->token);
}

static bool count_token(tp__sched *sched) {
  if (tp__a32_add_acq_rel(&sched->tokens_open, 1) < sched->options.tokens_max) return true;
  uncount_token(sched);
  return false;
}

void tp__attempt_fini(tp__attempt *attempt) { tp__slot_close(attempt->token); }

tp_reason tp__attempt_start(tp__attempt *attempt, int64_t deadline_ns, int64_t timeout_ns) {
  attempt->deadline_ns = deadline_ns;
  attempt->timeout_ns = timeout_ns;
  tp__strand_timer_add(attempt->strand, &attempt->timer, expiry_ns(attempt, tp__now_ns()));
  hold(attempt); /* the function's */
  tp__strand *strand = attempt->strand;
  TP__OWNED(strand);
  TP__CHECK(tp__attempt_check(attempt));
  bool waits = !strand->begins_more;
  tp_reason refused = tp__pool_submit(&attempt->sched->pool, &attempt->pool_item,
                                      waits ? tp__strand_thread(strand) : NULL, waits ? &strand->to_wake : NULL);
  if (refused) {
    tp__strand_timer_remove(&attempt->timer);
    tp__slot_close(attempt->token);
    tp__attempt_unref(attempt);
  }
  return refused;
}

/* Until the attempt is in the inbox, only tp__slots_each_deferred() knows it. The lock of the inbox publishes all its
 * fields. */
tp_reason tp__attempt_offer(tp__attempt *attempt, tp_inbox *inbox, int64_t deadline_ns) {
  bool counted = make_cancel_note(attempt) && count_token(attempt->sched);
  if (counted) {
    hold(attempt);                                                /* the token's */
    tp__a32_store_release(&attempt->flags, TP__ATTEMPT_DEFERRED); /* pairs with tp__slots_each_deferred() */
    attempt->inbox_item.work.token = attempt->token;
    tp__attempt_await(attempt, deadline_ns);
    if (tp__inbox_put(inbox, &attempt->inbox_item)) return TP_REASON_NONE;
    tp__strand_timer_remove(&attempt->timer);
    tp__a32_sub_acq_rel(&attempt->sched->tokens_open, 1);
  }
  tp__slot_close(attempt->token);
  if (counted) tp__attempt_unref(attempt);
  return TP_REASON_NO_WORKER;
}

bool tp__attempt_put(tp__attempt *attempt) {
  int64_t now_ns = tp__now_ns();
  tp__a64_store_release(&attempt->pool_item.offered_ns, (uint64_t)now_ns);
  if (attempt->class->offered) attempt->class->offered(attempt, now_ns);
  return tp__inbox_put(attempt->pool_item.inbox, &attempt->inbox_item);
}

/* As tp__attempt_offer(); here the lock of the pool publishes the fields. */
tp_reason tp__attempt_offer_permitted(tp__attempt *attempt, int64_t deadline_ns, int64_t timeout_ns) {
  tp_reason refused = TP_REASON_NO_WORKER;
  bool counted = make_cancel_note(attempt) && count_token(attempt->sched);
  if (counted) {
    hold(attempt);                                                /* the token's */
    tp__a32_store_release(&attempt->flags, TP__ATTEMPT_DEFERRED); /* pairs with tp__slots_each_deferred() */
    attempt->inbox_item.work.token = attempt->token;
    attempt->deadline_ns = deadline_ns;
    attempt->timeout_ns = timeout_ns;
    tp__strand_timer_add(attempt->strand, &attempt->timer, expiry_ns(attempt, tp__now_ns()));
    refused = tp__pool_offer(&attempt->sched->pool, &attempt->pool_item);
    if (!refused) return refused;
    tp__strand_timer_remove(&attempt->timer);
    tp__a32_sub_acq_rel(&attempt->sched->tokens_open, 1);
  }
  tp__slot_close(attempt->token);
  if (counted) tp__attempt_unref(attempt);
  return refused;
}

void tp__attempt_await(tp__attempt *attempt, int64_t deadline_ns) {
  attempt->deadline_ns = deadline_ns;
  attempt->timeout_ns = 0;
  TP__ASSERT(tp__a32_load_acquire(&attempt->flags) & TP__ATTEMPT_DEFERRED);
  tp__strand_timer_add(attempt->strand, &attempt->timer, deadline_ns);
}

void tp__attempt_cancel(tp__attempt *attempt) {
  uint32_t old = tp__a32_or_acq_rel(&attempt->flags, TP__ATTEMPT_CANCELLED);
  if ((old & TP__ATTEMPT_TAKEN) && !(old & TP__ATTEMPT_CANCELLED)) put_cancel_note(attempt);
  if (old & TP__ATTEMPT_DEFERRED) notify_cancel(attempt);
}

/* The slot is abandoned. The caller has a reference of its own; or it has only the token's reference, and touches
 * nothing afterwards. */
static bool end_token(tp__attempt *attempt) {
  tp_token token = attempt->token;
  if (!tp__slot_late(token)) return false;
  token_gone(attempt);
  tp__slot_close(token);
  return true;
}

/* The host has not taken the attempt out of the inbox, so it does not know the token. */
static void end_untaken(tp__attempt *attempt) { (void)end_token(attempt); }

/* This call and the owner's expiry may run at once. The later of the two sees the other's flag, and frees the rest. */
void tp__attempt_returned(tp__attempt *attempt) {
  if (!attempt->ends_with_turn) return;
  uint32_t old = tp__a32_or_acq_rel(&attempt->flags, TP__ATTEMPT_RETURNED);
  if (old & TP__ATTEMPT_CANCELLED) (void)end_token(attempt);
}

void tp__attempt_expire(tp__attempt *attempt, tp__attempt_end end) {
  TP__OWNED(attempt->strand);
  TP__ASSERT(end == TP__EXPIRED || end == TP__CANCELLED);
  TP__CHECK(tp__attempt_check(attempt));
  tp__strand_timer_remove(&attempt->timer);
  if (!tp__slot_abandon(attempt->token)) return; /* another thread claimed it, and its message is on the way */
  hold(attempt);                                 /* for the rest of this function */
  tp__a32_or_acq_rel(&attempt->flags, TP__ATTEMPT_EXPIRED);
  tp__attempt_cancel(attempt);
  if (tp__a32_load_acquire(&attempt->flags) & TP__ATTEMPT_RETURNED) (void)end_token(attempt);
  if (attempt->pool_item.inbox) {
    if (tp__pool_abandon(&attempt->sched->pool, &attempt->pool_item)) end_untaken(attempt);
    else tp__a32_or_acq_rel(&attempt->flags, TP__ATTEMPT_CALLED); /* it was taken a moment ago */
  } else if (attempt->inbox_item.inbox) {
    if (tp__inbox_withdraw(&attempt->inbox_item)) end_untaken(attempt);
    else tp__a32_or_acq_rel(&attempt->flags, TP__ATTEMPT_CALLED);
  } else if (tp__pool_abandon(&attempt->sched->pool, &attempt->pool_item)) { /* never ran: no token, no function */
    tp__slot_late(attempt->token);
    tp__slot_close(attempt->token);
    tp__attempt_unref(attempt);
  }
  attempt->class->settled(attempt, end);
  tp__attempt_unref(attempt);
}

/* ---- the answering side ---- */

static void set_answer(tp__attempt *attempt, const tp__answer *answer) {
  attempt->answer = *answer;
  attempt->ended_ns = tp__now_ns();
}

static void push_answer(tp__attempt *attempt, const tp__answer *answer) {
  set_answer(attempt, answer);
  bool taken = tp__strand_push(attempt->strand, &attempt->message);
  assert(taken); /* a strand does not end before its attempts are settled */
  (void)taken;
}

static void note_late(tp__attempt *attempt) {
  if (attempt->class->late) attempt->class->late(attempt, tp__now_ns());
}

/* For an attempt in an inbox that the host has not taken and never will. As in tp__token_answer(), the owner of the
 * sched stays while a completer is counted. */
static void refuse_untaken(tp__attempt *attempt, tp_reason reason) {
  TP__ASSERT(reason != TP_REASON_NONE);
  if (!tp__slot_claim(attempt->token)) {
    end_untaken(attempt);
    return;
  }
  tp__sched *sched = attempt->sched;
  tp__inside frame;
  tp__a32_add_acq_rel(&sched->completers, 1);
  tp__inside_enter(&frame, sched->options.owner, TP__INSIDE_CALLBACK);
  attempt->refusal = reason;
  push_answer(attempt, &(tp__answer){.kind = TP_ANSWER_FAILED});
  token_gone(attempt);
  tp__inside_leave(&frame);
  tp__a32_sub_acq_rel(&sched->completers, 1);
}

/* DEFERRED is not an answer: code that receives it as one treats it as malformed. */
static const tp__answer malformed = {.kind = TP_ANSWER_DEFERRED, .reason = "deferred and answered at once"};

/* The thread that ran the function becomes the owner of the strand if there is none, so the answer needs no other
 * thread. This is not done for a host without engine workers, which wants its callbacks on its own threads. */
static tp__strand *answer_and_own(tp__attempt *attempt, const tp__answer *answer) {
  tp__strand *strand = attempt->strand;
  if (attempt->sched->options.answers_to_workers) {
    push_answer(attempt, answer);
    return NULL;
  }
  set_answer(attempt, answer);
  return tp__strand_push_own_if_free(strand, &attempt->message) ? strand : NULL;
}

bool tp__attempt_is_late(const tp__attempt *attempt) {
  /* Without a deadline, the answer came before the owner began to wait, so it is not late. */
  return attempt->deadline_ns && attempt->ended_ns > expiry_ns(attempt, attempt->ended_ns);
}

int64_t tp__attempt_called_ns(const tp__attempt *attempt) {
  int64_t started_ns = (int64_t)tp__a64_load_acquire(&attempt->started_ns);
  if (started_ns || !(tp__a32_load_acquire(&attempt->flags) & TP__ATTEMPT_CALLED)) return started_ns;
  return tp__now_ns(); /* at this moment */
}

/* This call and the owner's expiry may run at once; one of them is first. When the owner has settled the attempt as
 * never called, it must not be called afterwards. */
static bool may_call(tp__attempt *attempt) {
  uint32_t flags = tp__a32_load_acquire(&attempt->flags);
  do {
    if (flags & TP__ATTEMPT_EXPIRED) return false;
  } while (!tp__a32_cas_acq_rel(&attempt->flags, &flags, flags | TP__ATTEMPT_CALLED));
  return true;
}

tp__strand *tp__attempt_call(tp__attempt *attempt) {
  tp__strand *owned = NULL;
  if (!may_call(attempt)) {
    tp_token token = attempt->token;
    if (tp__slot_late(token)) tp__slot_close(token);
    return NULL;
  }
  TP__CHECK(tp__attempt_check(attempt));
  tp__a64_store_release(&attempt->started_ns, (uint64_t)tp__now_ns());
  tp__answer answer = attempt->class->call(attempt);
  bool deferred = tp__a32_load_acquire(&attempt->flags) & TP__ATTEMPT_DEFERRED;
  if (deferred && answer.kind == TP_ANSWER_DEFERRED) {
    tp__attempt_returned(attempt);
    return NULL;
  }
  if (tp__slot_claim(attempt->token)) {
    owned = answer_and_own(attempt, deferred || answer.kind == TP_ANSWER_DEFERRED ? &malformed : &answer);
    if (deferred) token_gone(attempt);
  } else if (!deferred && tp__slot_late(attempt->token)) {
    note_late(attempt);
    tp__slot_close(attempt->token);
  }
  return owned;
}

void tp__attempt_refuse(tp__attempt *attempt, tp_reason reason) {
  TP__ASSERT(reason != TP_REASON_NONE);
  TP__CHECK(tp__attempt_check(attempt));
  if (attempt->pool_item.inbox) {
    refuse_untaken(attempt, reason);
    return;
  }
  if (tp__slot_claim(attempt->token)) {
    attempt->refusal = reason;
    push_answer(attempt, &(tp__answer){.kind = TP_ANSWER_FAILED});
  } else if (tp__slot_late(attempt->token)) {
    tp__slot_close(attempt->token);
  }
  tp__attempt_unref(attempt);
}

bool tp__attempt_is_cancelled(const tp__attempt *attempt) {
  return tp__a32_load_acquire(&attempt->flags) & TP__ATTEMPT_CANCELLED;
}

/* ---- tokens ---- */

tp_status tp__attempt_defer(tp__attempt *attempt, const tp_deferral *deferral, tp_token *ret_token) {
  tp__sched *sched = attempt->sched;
  if (tp__a32_load_acquire(&attempt->flags) & TP__ATTEMPT_DEFERRED) return TP_ERR_USAGE;
  if (!count_token(sched)) return TP_ERR_FULL;
  if (deferral) attempt->deferral = *deferral;
  hold(attempt); /* the token's */
  *ret_token = attempt->token;
  /* This change and the owner's cancel may run at once. The later of the two sees the other's flag, and notifies the
   * holder. */
  uint32_t old = tp__a32_or_acq_rel(&attempt->flags, TP__ATTEMPT_DEFERRED);
  if (old & TP__ATTEMPT_CANCELLED) notify_cancel(attempt);
  return TP_OK;
}

tp_status tp__attempt_pause(tp__attempt *attempt) {
  if (tp__a32_load_acquire(&attempt->flags) & TP__ATTEMPT_DEFERRED) return TP_ERR_USAGE;
  return tp__pool_pause(&attempt->sched->pool, &attempt->pool_item);
}

void tp__attempt_resume(tp__attempt *attempt) { tp__pool_resume(&attempt->sched->pool, &attempt->pool_item); }

void tp__attempt_yield_permit(tp__attempt *attempt) {
  if (attempt->pool_item.keeps_permit) tp__pool_yield_permit(&attempt->sched->pool, &attempt->pool_item);
}

bool tp__attempt_revoke(tp__attempt *attempt) {
  if (!tp__slot_claim(attempt->token)) return false;
  tp__slot_close(attempt->token);
  token_gone(attempt);
  return true;
}

/* The caller has claimed the token. Its sched is not freed while a completer is counted. */
static void begin_answer(tp__attempt *attempt, tp__inside *frame, const tp__answer *answer) {
  tp__a32_add_acq_rel(&attempt->sched->completers, 1);
  tp__inside_enter(frame, attempt->sched->options.owner, TP__INSIDE_CALLBACK);
  attempt->answer = *answer;
}

/* The count of completers is the last field of the sched that this thread touches. */
static void end_answer(tp__attempt *attempt, tp__inside *frame) {
  tp__sched *sched = attempt->sched;
  tp__answer answer = attempt->answer;
  /* the caller is counted; the scheduler stays until the count is lowered */
  TP__ASSERT(tp__a32_load_acquire(&sched->completers) > 0);
  push_answer(attempt, &answer);
  token_gone(attempt);
  tp__inside_leave(frame);
  tp__a32_sub_acq_rel(&sched->completers, 1);
}

/* Ends the token of an abandoned attempt, whose slot is LATE. The frees of this may call destructors of the host, and
 * these may call the sched's owner. So a completer is counted meanwhile, and no turn that the destructors use ends. */
static void end_late(tp__attempt *attempt, bool notes) {
  tp__sched *sched = attempt->sched;
  tp_token token = attempt->token;
  tp__inside frame;
  tp__a32_add_acq_rel(&sched->completers, 1);
  tp__inside_enter(&frame, sched->options.owner, TP__INSIDE_CALLBACK);
  if (notes) note_late(attempt);
  token_gone(attempt);
  tp__inside_leave(&frame);
  tp__a32_sub_acq_rel(&sched->completers, 1);
  tp__slot_close(token); /* last: until then tp__attempts_end_abandoned() waits */
}

tp_status tp__token_refuse(tp_token token, const tp__attempt_class *class, tp_fault *fault) {
  const tp__attempt_class *other = tp__slot_of_another(token, class);
  if (other && other->complete_with)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "token %llx is of a %s: complete it with %s",
                    (unsigned long long)token.bits, other->what, other->complete_with);
  if (other) return tp__fail(fault, TP_ERR_USAGE, NULL, "the token is one of the library's own");
  if (token.bits == 0) return tp__fail(fault, TP_ERR_STALE, NULL, "the token is 0: no call has it");
  return tp__fail(fault, TP_ERR_STALE, NULL,
                  "token %llx is not open: it was completed, timed out, cancelled or abandoned before; the answer is "
                  "dropped",
                  (unsigned long long)token.bits);
}

tp_status tp__token_answer(tp_token token, const tp__attempt_class *class, const tp__answer *theirs, const void *extra,
                           tp_fault *fault) {
  tp__inside frame; /* the end of a token drops references, which may call destructors of the host */
  if (tp__slot_of_another(token, class)) return tp__token_refuse(token, class, fault);
  tp__attempt *attempt = tp__slot_claim(token);
  if (!attempt) {
    attempt = tp__slot_late(token);
    if (attempt) end_late(attempt, true);
    return tp__token_refuse(token, class, fault);
  }
  assert(attempt->class == class); /* a slot's class does not change while its token is open */
  begin_answer(attempt, &frame, theirs);
  if (class->accept) class->accept(attempt, theirs, extra);
  end_answer(attempt, &frame);
  return TP_OK;
}

/* The host gives up a token. An attempt that is waited for fails at once; an attempt that is no longer waited for is
 * freed. */
tp_status tp_token_abandon(tp_token token, tp_fault *fault) {
  tp__inside frame;
  tp__attempt *attempt = tp__slot_claim(token);
  if (attempt) {
    begin_answer(attempt, &frame, &(tp__answer){.kind = TP_ANSWER_FAILED, .reason = TP__ABANDONED_REASON});
    if (attempt->class->abandoned) attempt->class->abandoned(attempt);
    end_answer(attempt, &frame);
    return TP_OK;
  }
  attempt = tp__slot_late(token);
  if (!attempt)
    return tp__fail(fault, TP_ERR_STALE, NULL, "the token is not open: it was completed or abandoned before");
  end_late(attempt, false);
  return TP_OK;
}

/* ---- the holders of tokens ---- */

enum { HOLDERS_MAX = 64, NAME_BYTES = 129 };

typedef struct holders {
  uint32_t count;
  struct holder {
    const char *what;
    uint32_t tokens;
    char name[NAME_BYTES]; /* the attempt's own goes away with it */
  } items[HOLDERS_MAX];
} holders;

/* Counts the tokens of each holder. Holders beyond HOLDERS_MAX are not counted: with so many holders, none of them has
 * most of the tokens. */
static void count_holder(void *ctx, const tp__attempt *attempt) {
  holders *all = ctx;
  const char *name = attempt->pool_item.name ? attempt->pool_item.name : "";
  uint32_t i = 0;
  while (i < all->count &&
         (all->items[i].what != attempt->class->what || strncmp(all->items[i].name, name, NAME_BYTES - 1) != 0))
    i++;
  if (i == HOLDERS_MAX) return;
  if (i == all->count) {
    all->count++;
    all->items[i].what = attempt->class->what;
    all->items[i].tokens = 0;
    snprintf(all->items[i].name, NAME_BYTES, "%s", name);
  }
  all->items[i].tokens++;
}

tp_status tp__tokens_full(const tp__sched *sched, tp_fault *fault) {
  holders all = {.count = 0};
  tp__slots_each_deferred(sched, count_holder, &all);
  const struct holder *most = &all.items[0];
  for (uint32_t i = 1; i < all.count; i++)
    if (all.items[i].tokens > most->tokens) most = &all.items[i];
  unsigned max = sched->options.tokens_max;
  if (all.count == 0) /* completed meanwhile */
    return tp__fail(fault, TP_ERR_FULL, NULL, "%u tokens were open, as tp_runtime_options.deferred_max says", max);
  return tp__fail(fault, TP_ERR_FULL, NULL,
                  "%u tokens are open, as tp_runtime_options.deferred_max says, most of them, %u, of %s `%s`: complete "
                  "them or call tp_token_abandon()",
                  max, most->tokens, most->what, most->name);
}

tp__attempt *tp__token_hold(tp_token token, const tp__attempt_class *class) {
  tp__attempt *attempt = tp__slot_hold(token);
  if (!attempt || attempt->class == class) return attempt;
  tp__token_release(attempt);
  return NULL;
}

void tp__attempt_hold(tp__attempt *attempt) {
  hold(attempt);
  tp__a32_add_acq_rel(&attempt->sched->completers, 1);
}

void tp__token_release(tp__attempt *attempt) {
  tp__sched *sched = attempt->sched;
  tp__inside frame;
  tp__inside_enter(&frame, sched->options.owner, TP__INSIDE_CALLBACK);
  tp__attempt_unref(attempt);
  tp__inside_leave(&frame);
  tp__a32_sub_acq_rel(&sched->completers, 1);
}

void tp__attempts_end_abandoned(const tp__sched *sched) {
  tp_token token;
  tp__attempt *attempt;
  while ((attempt = tp__slot_late_any(sched, &token))) {
    token_gone(attempt);
    tp__slot_close(token);
  }
}

bool tp_token_open(tp_token token) { return tp__slot_is_open(token); }

/* ---- what waits in an inbox ---- */

static tp__attempt *of_item(tp__inbox_item *item) { return TP__CONTAINER(item, tp__attempt, inbox_item); }

/* @return false: the attempt has ended, and the host does not get it. */
static bool is_handed_out(tp__inbox_item *item) {
  tp__inbox_note *note = tp__inbox_note_of(item);
  if (note) return note->take(note);
  tp__attempt *attempt = of_item(item);
  if (!tp__slot_is_open(attempt->token)) {
    end_untaken(attempt); /* the owner gave it up a moment ago, and no longer found it in the inbox */
    return false;
  }
  tp__a64_store_release(&attempt->started_ns, (uint64_t)tp__now_ns());
  uint32_t old = tp__a32_or_acq_rel(&attempt->flags, TP__ATTEMPT_TAKEN);
  if (old & TP__ATTEMPT_CANCELLED) put_cancel_note(attempt); /* it may still answer within its limit */
  return true;
}

tp_status tp_inbox_next(tp_inbox *inbox, const tp_work **ret_work) {
  if (!inbox || tp__inbox_is_of_session(inbox)) return TP_ERR_USAGE;
  if (tp__inbox_is_forked(inbox)) return TP_ERR_FORKED;
  tp__inbox_item *item;
  do item = tp__inbox_take(inbox);
  while (item && !is_handed_out(item));
  *ret_work = item ? &item->work : NULL;
  return TP_OK;
}

tp_status tp_inbox_take(tp_inbox *inbox, const tp_work **works, size_t max, size_t *ret_count) {
  size_t count = 0;
  if (!inbox || tp__inbox_is_of_session(inbox) || !ret_count || (max > 0 && !works)) return TP_ERR_USAGE;
  if (tp__inbox_is_forked(inbox)) return TP_ERR_FORKED;
  while (count < max) {
    tp__inbox_item *item = tp__inbox_take(inbox);
    if (!item) break;
    if (is_handed_out(item)) works[count++] = &item->work;
  }
  *ret_count = count;
  return TP_OK;
}

tp_status tp_work_release(const tp_work *work) {
  if (!work) return TP_ERR_USAGE;
  tp__inbox_note *note = tp__inbox_note_of(TP__CONTAINER((tp_work *)(uintptr_t)work, tp__inbox_item, work));
  if (!note) return TP_ERR_USAGE;
  if (TP__BUG(TP__BUG_LOST_DESTROY) && work->kind == TP_WORK_DESTROY) return TP_OK;
  note->end(note);
  return TP_OK;
}

void tp_inbox_free(tp_inbox *inbox) {
  if (!inbox || tp__inbox_is_of_session(inbox) || tp__inbox_is_forked(inbox)) return;
  tp__inbox_close(inbox);
  for (tp__inbox_item *item; (item = tp__inbox_take(inbox));) {
    tp__inbox_note *note = tp__inbox_note_of(item);
    if (note) note->end(note);
    else refuse_untaken(of_item(item), TP_REASON_NO_WORKER);
  }
  tp__inbox_unref(inbox);
}
