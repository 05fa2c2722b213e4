/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <stdio.h>
#include <xxhash.h>

#include "phases/turn/people.h"

#include "phases/merge/out.h"
#include "runtime/exec/blocks.h"
#include "runtime/exec/exec.h"
#include "runtime/sched/attempt.h"

enum { LIMIT_MS = 30 * 60 * 1000, REASON_BYTES_MAX = 4096, BLOCK_BYTES = 1024, HASH_BYTES = 32 };
enum { ARGUMENTS_BYTES_MAX = 1 << 20, SUMMARY_TEXT_BYTES = 64, SUMMARY_BYTES = 200 };

struct tp__question {
  tp__attempt base;
  tp_turn *turn; /* referenced */
  size_t block_size;
  tp__question_settled_fn settled;
  void *ctx;
  tp__question_spec spec;
  int64_t until_ns;
  char hash[HASH_BYTES + 1]; /* of the arguments as they were shown */
  /* Written by the winner of the slot, read by the owner */
  bool abandoned, allowed, of_others; /* of_others: the answer was given for other arguments */
  bool edit_lost;                     /* there was no memory for it */
  tp_text reason, person, edited;
  tp__arena arena;
};

static tp__question *question_of(tp__attempt *attempt) { return TP__CONTAINER(attempt, tp__question, base); }

/* ---- the channel ---- */

tp_status tp__people_check(const char *options, tp_question_fn ask, const void *ask_ctx, tp_permission_fn permission,
                           const void *permission_ctx, tp_fault *fault) {
  const char *field = !ask && ask_ctx ? "ask" : !permission && permission_ctx ? "permission" : NULL;
  if (!field) return TP_OK;
  return tp__fail(fault, TP_ERR_USAGE, NULL, "%s: %s_ctx is set, but %s is NULL: set both, or leave both NULL", options,
                  field, field);
}

static tp__people people_of(const tp_turn *turn) {
  const tp_runtime_options *host = tp__runtime_options(turn->core.runtime);
  tp__people people = turn->people;
  if (!people.ask) {
    people.ask = host->ask;
    people.ask_ctx = host->ask_ctx;
  }
  if (!people.permission) {
    people.permission = host->permission;
    people.permission_ctx = host->permission_ctx;
  }
  return people;
}

bool tp__people_may_be_asked(const tp_turn *turn) { return people_of(turn).ask != NULL; }
bool tp__people_permit(const tp_turn *turn) { return people_of(turn).permission != NULL; }

tp_permission tp__people_permission(const tp_turn *turn, const tp_tool_call *call, const tp_tool *tool) {
  tp__people people = people_of(turn);
  tp_permission_request request = {
      .struct_size = sizeof request, .ids = turn->core.ids, .id_count = TP_ID_COUNT, .call = call, .tool = tool};
  int32_t says = people.permission(people.permission_ctx, &request);
  return says >= TP_PERMISSION_AUTO && says <= TP_PERMISSION_NEVER ? (tp_permission)says : TP_PERMISSION_NONE;
}

/* ---- the turn's deadline ---- */

/* A cancel may have made the deadline earlier. */
static void end_waiting(tp_turn *turn) {
  if (--turn->questions_open > 0) return;
  int64_t deadline_ns = turn->asked_deadline_ns + (tp__now_ns() - turn->asked_since_ns);
  if (deadline_ns < turn->core.deadline_ns) turn->core.deadline_ns = deadline_ns;
}

/* ---- the question ---- */

static void put_hash(XXH128_hash_t hash, char *ret_hex) {
  snprintf(ret_hex, HASH_BYTES + 1, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

static void hash_of_arguments(tp_text arguments, char *ret_hex) {
  put_hash(XXH3_128bits(arguments.data, arguments.size), ret_hex);
}

/* Each text is preceded by its size, so that two different questions never give the same bytes. */
static void key_of(const tp__question *q, char *ret_hex) {
  const tp_text *ids = q->turn->core.ids;
  const tp_text texts[] = {ids[TP_ID_TENANT], ids[TP_ID_SESSION], ids[TP_ID_TURN],
                           q->spec.call->id,  q->spec.call->name, {q->hash, HASH_BYTES}};
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    uint64_t size = texts[i].size;
    XXH3_128bits_update(&state, &size, sizeof size);
    if (size > 0) XXH3_128bits_update(&state, texts[i].data, texts[i].size);
  }
  put_hash(XXH3_128bits_digest(&state), ret_hex);
}

static void accept_decision(tp__attempt *base, const tp__answer *answer, const void *extra) {
  tp__question *q = question_of(base);
  const tp_decision *decision = extra;
  (void)answer;
  q->allowed = decision->verdict == TP_VERDICT_ALLOW;
  q->of_others = !tp_text_is(decision->arguments_hash, q->hash);
  if (!tp__arena_text(&q->arena, decision->reason, &q->reason)) q->reason = (tp_text){NULL, 0};
  if (!tp__arena_text(&q->arena, decision->person, &q->person)) q->person = (tp_text){NULL, 0};
  q->edit_lost = !tp__arena_text(&q->arena, decision->arguments, &q->edited);
}

static void note_question_abandoned(tp__attempt *base) { question_of(base)->abandoned = true; }

/* @return NULL: the call may run. */
static const char *why_not(const tp__question *q, tp__attempt_end end) {
  char now[HASH_BYTES + 1];
  hash_of_arguments(q->spec.call->arguments, now);
  if (end == TP__EXPIRED) return "the question expired without an answer";
  if (end != TP__ANSWERED || q->abandoned) return "the channel for questions gave no answer";
  if (q->of_others) return "the answer was given to other arguments";
  if (!q->allowed) return "a person denied it";
  if (q->edit_lost) return "there was no memory for the arguments as they were edited";
  return strcmp(now, q->hash) == 0 ? NULL : "the arguments have changed since they were shown";
}

/* Reports the end of a question, but not as a denial: when the call is denied, that has an audit row of its own. @param
 * level 0: no line in the log. */
static void report_at(const tp__question *q, tp_log_level level, const char *action, tp_text detail) {
  tp__report_add(&q->turn->core, level,
                 &(tp__report){.action = action,
                               .phase = q->spec.phase,
                               .subscription = q->spec.subscription,
                               .owner = "",
                               .subject = q->spec.call->name,
                               .detail = detail,
                               .state = TP_STATE_SUCCEEDED,
                               .visibility = TP_VISIBILITY_USER_VISIBLE});
}

static void report_question(const tp__question *q, const char *action, tp_text detail) {
  report_at(q, TP_LOG_INFO, action, detail);
}

static void write_summary(tp__out *out, const void *arguments) {
  tp__out_json_summary(out, *(const tp_text *)arguments, SUMMARY_TEXT_BYTES);
}

/* Puts the old or new arguments of the call only into the audit, because a log has no content of turns. */
static void report_arguments(tp__question *q, const char *which, tp_text arguments, bool is_text) {
  tp_text json = arguments;
  if (!is_text && tp__out_twice(&q->arena, write_summary, &arguments, &json) != TP_OK) return;
  report_at(q, (tp_log_level)0, "edit",
            tp__arena_printf(&q->arena, "%s %.*s", which, (int)tp__utf8_cut(json, SUMMARY_BYTES), json.data));
}

static void report_end(tp__question *q, const tp__question_end *end) {
  char edited[HASH_BYTES + 1] = "";
  if (end->edited.size > 0) hash_of_arguments(end->edited, edited);
  tp_text detail =
      tp__arena_printf(&q->arena, "%s%s%.*s%s%.*s%s%s%s%s", end->allowed ? "allowed" : end->why.data,
                       end->person.size ? " by " : "", (int)end->person.size, end->person.size ? end->person.data : "",
                       end->reason.size ? ": " : "", (int)end->reason.size, end->reason.size ? end->reason.data : "",
                       "; arguments ", q->hash, edited[0] ? ", edited to " : "", edited);
  report_question(q, "answer", detail);
  if (!edited[0]) return;
  report_arguments(q, "before:", q->spec.call->arguments, q->spec.call->malformed);
  report_arguments(q, "after:", end->edited, false);
}

static void settle_question(tp__attempt *base, tp__attempt_end how) {
  tp__question *q = question_of(base);
  const char *why = why_not(q, how);
  tp__question_end end = {.allowed = !why,
                          .cancelled = how == TP__CANCELLED,
                          .why = tp_text_of(why),
                          .reason = how == TP__ANSWERED ? q->reason : (tp_text){NULL, 0},
                          .person = how == TP__ANSWERED ? q->person : (tp_text){NULL, 0},
                          .edited = why ? (tp_text){NULL, 0} : q->edited};
  end_waiting(q->turn);
  if (!end.cancelled) report_end(q, &end);
  q->settled(q->ctx, &end);
  tp__attempt_unref(base);
}

static void free_question(tp__attempt *base) {
  tp__question *q = question_of(base);
  tp_turn *turn = q->turn;
  tp__arena_fini(&q->arena);
  tp__block_give(tp__runtime_blocks(turn->core.runtime), q, q->block_size);
  tp__turn_unref(&turn->core);
}

static const tp__attempt_class class = {.what = "question",
                                        .complete_with = "tp_question_answer()",
                                        .accept = accept_decision,
                                        .settled = settle_question,
                                        .abandoned = note_question_abandoned,
                                        .release = free_question};

static tp_status new_question(tp_turn *turn, const tp__question_spec *spec, tp__question **ret_question) {
  tp_runtime *runtime = turn->core.runtime;
  size_t block_size;
  tp__question *q = tp__block_take(tp__runtime_blocks(runtime), BLOCK_BYTES, &block_size);
  if (!q) return TP_ERR_NO_MEMORY;
  *q = (tp__question){.turn = turn, .block_size = block_size, .spec = *spec};
  tp_status status = tp__attempt_init(&q->base, &class, &turn->core.strand);
  if (status != TP_OK) {
    tp__block_give(tp__runtime_blocks(runtime), q, block_size);
    return status;
  }
  q->base.ends_with_turn = true; /* the person who was asked need not answer a question that has ended */
  q->base.pool_item.name = spec->subscription;
  tp__arena_init(&q->arena, &tp__runtime_blocks(runtime)->as_allocator, q + 1, block_size - sizeof *q, 0);
  tp__turn_hold(&turn->core);
  *ret_question = q;
  return TP_OK;
}

/* The channel is called on the owner. Its answer comes as a message, even when it answers before it returns. */
static void ask_channel(tp__question *q, tp_token token, uint32_t limit_ms) {
  tp__people people = people_of(q->turn);
  char key[HASH_BYTES + 1];
  key_of(q, key);
  tp_question question = {.struct_size = sizeof question,
                          .token = token,
                          .ids = q->turn->core.ids,
                          .id_count = TP_ID_COUNT,
                          .phase = q->spec.phase,
                          .subscription = tp_text_of(q->spec.subscription),
                          .reason = q->spec.reason,
                          .call = q->spec.call,
                          .arguments_hash = {q->hash, HASH_BYTES},
                          .expires_unix_ms = tp__unix_ms() + limit_ms,
                          .key = {key, HASH_BYTES}};
  tp__event(q->turn, &(tp_event){.kind = TP_EVENT_QUESTION,
                                 .phase = question.phase,
                                 .visibility = TP_VISIBILITY_USER_VISIBLE,
                                 .subscription = q->spec.subscription,
                                 .text = question.reason,
                                 .tool_call = question.call,
                                 .question = &question});
  people.ask(people.ask_ctx, &question);
}

tp_status tp__question_put(tp_turn *turn, const tp__question_spec *spec, tp__question_settled_fn settled_fn, void *ctx,
                           tp__question **ret_question) {
  uint32_t limit_ms = tp__runtime_options(turn->core.runtime)->ask_limit_ms;
  tp__question *q;
  tp_token token;
  TP__TRY(new_question(turn, spec, &q));
  tp_status status = tp__attempt_defer(&q->base, NULL, &token);
  if (status != TP_OK) {
    tp__attempt_fini(&q->base);
    tp__attempt_unref(&q->base);
    return status;
  }
  if (limit_ms == 0) limit_ms = LIMIT_MS;
  q->settled = settled_fn;
  q->ctx = ctx;
  hash_of_arguments(spec->call->arguments, q->hash);
  int64_t now_ns = tp__now_ns(), until_ns = tp__deadline_after_ms(now_ns, limit_ms);
  /* The time from the first open question to the end of the last one is added to the deadline. Meanwhile the deadline
   * is later than every question's limit, so that the other calls go on as well. */
  if (turn->questions_open++ == 0) {
    turn->asked_since_ns = now_ns;
    turn->asked_deadline_ns = turn->core.deadline_ns;
  }
  int64_t deadline_ns = turn->asked_deadline_ns + (until_ns - turn->asked_since_ns);
  if (turn->core.deadline_ns < deadline_ns) turn->core.deadline_ns = deadline_ns;
  tp__a64_store_relaxed(&q->base.started_ns, (uint64_t)now_ns); /* no other thread knows it yet */
  report_question(q, "ask", spec->reason);
  *ret_question = q;
  /* before any thread has the token; the attempt has no function of the library that could run */
  tp__attempt_returned(&q->base);
  tp__attempt_await(&q->base, until_ns);
  ask_channel(q, token, limit_ms);
  return TP_OK;
}

void tp__question_cancel(tp__question *q) { tp__attempt_expire(&q->base, TP__CANCELLED); }

/* ---- the answer ---- */

static tp_status check_decision_text(tp_text text, size_t bytes_max, const char *field, tp_fault *fault) {
  size_t at;
  if (text.size > bytes_max)
    return tp__fail(fault, TP_ERR_TOO_LARGE, NULL, "tp_decision.%s has %zu bytes, more than %zu", field, text.size,
                    bytes_max);
  if (!tp_utf8_valid(text, &at))
    return tp__fail(fault, TP_ERR_UTF8, NULL, "tp_decision.%s is not UTF-8 at byte %zu", field, at);
  return TP_OK;
}

static tp_status check_arguments(const tp_decision *decision, tp_fault *fault) {
  tp_text arguments = decision->arguments;
  if (arguments.size == 0) return TP_OK;
  if (decision->verdict != TP_VERDICT_ALLOW)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_decision.arguments go with the verdict allow");
  if (arguments.size > ARGUMENTS_BYTES_MAX)
    return tp__fail(fault, TP_ERR_TOO_LARGE, NULL, "tp_decision.arguments has %zu bytes, more than %d", arguments.size,
                    ARGUMENTS_BYTES_MAX);
  TP__TRY(tp_value_check(arguments, fault));
  if (tp_value_kind_of(arguments) == TP_VALUE_MAP) return TP_OK;
  return tp__fail(fault, TP_ERR_MALFORMED, NULL, "tp_decision.arguments must be a map");
}

static tp_status check_decision(const tp_decision *decision, tp_fault *fault) {
  if (decision->verdict != TP_VERDICT_ALLOW && decision->verdict != TP_VERDICT_DENY)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_decision.verdict is %d: it must be allow or deny",
                    (int)decision->verdict);
  if (decision->reserved_) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_decision.reserved_ must be zero");
  TP__TRY(check_arguments(decision, fault));
  TP__TRY(check_decision_text(decision->reason, REASON_BYTES_MAX, "reason", fault));
  return check_decision_text(decision->person, TP_ID_BYTES_MAX, "person", fault);
}

tp_status tp_question_answer(tp_token token, const tp_decision *theirs, tp_fault *fault) {
  tp_decision decision;
  if (!theirs) return tp__fail(fault, TP_ERR_USAGE, NULL, "an answer needs a tp_decision");
  TP__TRY(tp__options_read(&decision, sizeof decision, theirs, "tp_decision", fault));
  TP__TRY(check_decision(&decision, fault));
  tp_status status = tp__token_answer(token, &class, &(tp__answer){.kind = TP_ANSWER_DONE}, &decision, NULL);
  if (status == TP_OK) return TP_OK;
  if (status == TP_ERR_USAGE)
    return tp__fail(fault, status, NULL, "token %llx is open, but is none of a question",
                    (unsigned long long)token.bits);
  return tp__fail(fault, status, NULL, "no question is open under token %llx: it was answered, or is over",
                  (unsigned long long)token.bits);
}
