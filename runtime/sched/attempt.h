/* SPDX-License-Identifier: Apache-2.0
 *
 * attempt: one execution of a function that leaves its owner's thread: a handler that is not inline or that deferred,
 * or a function that the agent layer calls. The owner starts it and waits for one message. The first party that answers
 * (the function, the holder of a token, or the owner's clock) wins the slot's one compare-and-swap.
 *
 * References: the owner's (until settled), the function's (while a handler thread has it), the token's (from the
 * deferral to its completion, in time or late). The last unref calls release. An attempt that lost is abandoned: its
 * memory stays until its function has returned and its token is completed, and nothing of its answer is merged. */
#ifndef TP__ATTEMPT_H
#define TP__ATTEMPT_H

#include "runtime/inbox/inbox.h"
#include "runtime/sched/pool.h"
#include "runtime/sched/slot.h"
#include "runtime/sched/strand.h"

typedef struct tp__attempt tp__attempt;

/** How an attempt ended. */
typedef enum tp__attempt_end {
  TP__ANSWERED = 0,  /* `answer` is set */
  TP__EXPIRED = 1,   /* its deadline passed */
  TP__CANCELLED = 2, /* the same after a cancel */
  TP__REFUSED = 3    /* it never ran; `refusal` has the reason */
} tp__attempt_end;

/** The answer of an attempt, or of a handler that the owner called. */
typedef struct tp__answer {
  tp_answer kind; /* as the function returned it, valid or not; the receiver judges it */
  uint32_t code;
  bool retryable;
  uint32_t why;                                /* tp_reason of FAILED; 0: ERROR */
  const char *reason;                          /* from the holder of a token; borrowed until accept returns */
  const tp_contribution *const *contributions; /* of a token's holder; borrowed till accept returns */
  size_t contribution_count;
  const tp_field *replacements; /* likewise */
  size_t replacement_count;
} tp__answer;

typedef struct tp__attempt_class {
  const char *what; /* "handler": in messages, the word before the name */
  /* the function that completes a token of the class; NULL: a host never gets such a token */
  const char *complete_with;
  /** Runs the function on a handler thread. @return its answer; DEFERRED when tp__attempt_defer() was called. */
  tp__answer (*call)(tp__attempt *attempt);
  /** The holder of the token answered. Copies the data to which answer and extra point, and may change attempt->answer.
   *  On any thread that has won the attempt. May be NULL. */
  void (*accept)(tp__attempt *attempt, const tp__answer *answer, const void *extra);
  /** Called once, on the owner, when the attempt has ended. It must drop the owner's reference (tp__attempt_unref) at
   *  its end. */
  void (*settled)(tp__attempt *attempt, tp__attempt_end end);
  /** tp_token_abandon() won the attempt, and the answer is FAILED. Sets the fields that accept would have set. Any
   *  thread. May be NULL. */
  void (*abandoned)(tp__attempt *attempt);
  /** An answer came and was discarded. Any thread. May be NULL. */
  void (*late)(tp__attempt *attempt, int64_t now_ns);
  /** The attempt has a pool_item.inbox and is about to be put there, at this time. Any thread, under the pool's lock;
   *  no other thread looks at the attempt's work. May be NULL. */
  void (*offered)(tp__attempt *attempt, int64_t now_ns);
  /** Frees. Any thread. */
  void (*release)(tp__attempt *attempt);
  /** Set: a cancel of the entry does not end the attempt. The attempt ends by its answer, which comes soon. */
  bool outlasts_cancel;
} tp__attempt_class;

enum {
  TP__ATTEMPT_CANCELLED = 1,  /* its answer will be discarded, or is no longer wanted */
  TP__ATTEMPT_DEFERRED = 2,   /* deferral is set */
  TP__ATTEMPT_CANCELLING = 4, /* deferral.cancel is being called, or was */
  TP__ATTEMPT_NOTIFIED = 8,   /* deferral.cancel has returned */
  TP__ATTEMPT_GONE = 16,      /* the token was completed: the last thread that uses ctx destroys it */
  TP__ATTEMPT_RETURNED = 32,  /* the function deferred and has returned; only of attempts that end with their turn */
  TP__ATTEMPT_EXPIRED = 64,   /* it lost its slot: if its function was not called before, it never is */
  TP__ATTEMPT_CALLED = 128,   /* the function was called, or is about to be */
  TP__ATTEMPT_TAKEN = 256     /* the host took it out of its inbox: a cancel comes to the inbox as work */
};

/** The reason of an attempt whose token the host abandoned. */
#define TP__ABANDONED_REASON "the host abandoned its token"

struct tp__attempt {
  /* set at init */
  const tp__attempt_class *class;
  struct tp__sched *sched;
  tp__strand *strand; /* valid until settled */
  tp_token token;
  /* owner only */
  tp__timer_entry timer;
  int64_t deadline_ns; /* the deadline whatever happens */
  int64_t timeout_ns;  /* from the call of the function, or from its arrival in pool_item.inbox; 0: none */
  bool ends_with_turn; /* Set before the start. True: nothing of the host waits for the end of the token. So the token
                         need not be completed once the attempt was given up and its function has returned. */
  /* The attempt uses one of these two; it uses both when it needs a permit to get into an inbox */
  tp__pool_item pool_item;   /* the pool's */
  tp__inbox_item inbox_item; /* the inbox's, where there is one */
  /* The thread that sets the second of the flags TAKEN and CANCELLED puts this note; then it is NULL */
  struct tp__cancel_note *cancel_note;
  /* atomic */
  tp__a32 refs;       /* acq_rel */
  tp__a32 flags;      /* acq_rel: publishes deferral */
  tp__a64 started_ns; /* release by the calling thread, acquire by the owner; 0: not yet */
  /* written before DEFERRED is published */
  tp_deferral deferral;
  /* written by the winner of the slot before it pushes, read by the owner */
  tp__answer answer;
  tp_reason refusal;
  int64_t ended_ns;
  tp__message message;
};

/** Makes an attempt ready to start, with a slot and the owner's reference. @return TP_OK, TP_ERR_NO_MEMORY. */
tp_status tp__attempt_init(tp__attempt *attempt, const tp__attempt_class *class, tp__strand *strand);
/** Called by the holder of a reference: asserts the invariants (attempt.c). */
void tp__attempt_check(const tp__attempt *attempt);
/** Frees the slot of an attempt that was not started. */
void tp__attempt_fini(tp__attempt *attempt);

/** Owner: submits the function to a handler thread (pool_item is set up). Its end comes through `settled`, never before
 *  this function returns. The exception is a refusal, which is returned at once: then `settled` is never called, and
 *  the owner still holds its reference.
 *  @param deadline_ns   absolute; @param timeout_ns  from the call, 0: none. */
tp_reason tp__attempt_start(tp__attempt *attempt, int64_t deadline_ns, int64_t timeout_ns);
/** Owner: puts the work into an inbox, deferred from the start. inbox_item.work is set up, except for its token. As
 *  tp__attempt_start(), with one deadline.
 *  @return NONE; NO_WORKER when the inbox is full or closed, or too many tokens are open. */
tp_reason tp__attempt_offer(tp__attempt *attempt, tp_inbox *inbox, int64_t deadline_ns);
/** Owner: as tp__attempt_offer(), but the attempt first waits for a permit of pool_item, up to deadline_ns.
 *  pool_item.inbox is set. timeout_ns counts from the arrival in the inbox.
 *  @return as tp__pool_offer(); NO_WORKER also when too many tokens are open. */
tp_reason tp__attempt_offer_permitted(tp__attempt *attempt, int64_t deadline_ns, int64_t timeout_ns);
/** Called by the pool, under its lock. @return false: the inbox is full or closed. */
bool tp__attempt_put(tp__attempt *attempt);
/** Fails with a message that too many tokens are open, and that names the class and name with the most of them.
 *  @return TP_ERR_FULL. */
tp_status tp__tokens_full(const struct tp__sched *sched, tp_fault *fault);
/** Owner, in settled: true when the function has returned and its token is completed. Then memory that they borrowed is
 *  free. */
static inline bool tp__attempt_is_alone(const tp__attempt *attempt) {
  return tp__a32_load_acquire(&attempt->refs) == 1; /* pairs with tp__attempt_unref() */
}
/** Called by the thread that called the function, when the function has deferred and returned. */
void tp__attempt_returned(tp__attempt *attempt);
/** Owner: the function was called on this thread and deferred. Waits for the token until deadline_ns. */
void tp__attempt_await(tp__attempt *attempt, int64_t deadline_ns);
/** Owner: when the function was called, or its work was taken from an inbox. 0: neither has happened; when the attempt
 *  has settled, neither will. */
int64_t tp__attempt_called_ns(const tp__attempt *attempt);
/** Owner, for an answer that won the attempt: whether it came after the deadline, before the owner looked at the
 *  clock. */
bool tp__attempt_is_late(const tp__attempt *attempt);
/** Owner: the answer is no longer wanted. The attempt still has until its deadline to end by itself. */
void tp__attempt_cancel(tp__attempt *attempt);
/** Owner: ends the time of the attempt now, whatever its deadline was. The attempt settles before this returns, unless
 *  an answer is on its way. */
void tp__attempt_expire(tp__attempt *attempt, tp__attempt_end end);

/** Called by the thread that runs the function: from now on a token may answer.
 *  @return TP_OK and *ret_token; TP_ERR_USAGE when called twice; TP_ERR_FULL when too many tokens are open. */
tp_status tp__attempt_defer(tp__attempt *attempt, const tp_deferral *deferral, tp_token *ret_token);
/** Called by the thread that runs the function, before it waits for something of this sched.
 *  @return as tp__pool_pause(); TP_ERR_USAGE when it has deferred. */
tp_status tp__attempt_pause(tp__attempt *attempt);
void tp__attempt_resume(tp__attempt *attempt);
/** Called by the thread that runs the function, after it has submitted something of this sched for which its token will
 *  wait, if it defers. As tp__pool_yield_permit(). */
void tp__attempt_yield_permit(tp__attempt *attempt);
/** Called on the owner's thread, when a function that was called there deferred and then nevertheless answered: takes
 *  the token back. @return false when the token was completed already and its answer is on its way. */
bool tp__attempt_revoke(tp__attempt *attempt);

/** Any thread: answers as tp_token_complete() does, with more data for the class's accept. The kind of the answer is
 *  from DONE to FAILED.
 *  @param class  the class that the token must have; otherwise TP_ERR_USAGE, and the token stays open. */
tp_status tp__token_answer(tp_token token, const tp__attempt_class *class, const tp__answer *answer, const void *extra,
                           tp_fault *fault);
/** Any thread: holds the attempt of an open token of this class, and its sched, until tp__token_release(). @return
 *  NULL: the token is stale or has another class. */
tp__attempt *tp__token_hold(tp_token token, const tp__attempt_class *class);
/** Why a token is not an open token of the class: TP_ERR_USAGE when its class is another one, else TP_ERR_STALE. */
tp_status tp__token_refuse(tp_token token, const tp__attempt_class *class, tp_fault *fault);
void tp__token_release(tp__attempt *attempt);
/** Any thread, while the attempt has not settled: holds it and its sched as tp__token_hold() does, even if its token
 *  ends meanwhile. */
void tp__attempt_hold(tp__attempt *attempt);

/** Called by the pool: calls the function and delivers its answer.
 *  @return the strand when it had no owner: the calling thread owns it now, and must run it. Else NULL. */
tp__strand *tp__attempt_call(tp__attempt *attempt);
/** Called by the pool: refuses an attempt that never ran, or was never put. */
void tp__attempt_refuse(tp__attempt *attempt, tp_reason reason);
static inline tp__attempt *tp__attempt_of(tp__pool_item *item) { return TP__CONTAINER(item, tp__attempt, pool_item); }
void tp__attempt_unref(tp__attempt *attempt);
bool tp__attempt_is_cancelled(const tp__attempt *attempt);
/** Whether its function has called tp__attempt_defer(). */
static inline bool tp__attempt_deferred(const tp__attempt *attempt) {
  return (tp__a32_load_acquire(&attempt->flags) & TP__ATTEMPT_DEFERRED) != 0; /* pairs with tp__attempt_defer() */
}
/** Completes every abandoned token of a sched that is about to be freed. */
void tp__attempts_end_abandoned(const struct tp__sched *sched);

#endif
