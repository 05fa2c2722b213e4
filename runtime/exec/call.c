/* SPDX-License-Identifier: Apache-2.0
 *
 * call.c: what a handler reads and answers through its tp_call. This code uses the entry and the entry's input, but no
 * state of the turn that changes. */
#include "runtime/exec/call.h"

#include "runtime/exec/exec.h"
#include "runtime/exec/detached.h"
#include "runtime/exec/node_attempt.h"
#include "runtime/exec/runtime.h"

enum { OUTPUT_BYTES_MAX = 1 << 20 };

static const tp_text empty;

static const tp__node *node_of(const tp_call *call) { return &call->entry->plan->nodes[call->index]; }

/* ---- reading ---- */

tp_text tp_call_id(const tp_call *call, uint32_t id) {
  if (!call) return (tp_text){0};
  return id < TP_ID_COUNT ? call->entry->turn->ids[id] : empty;
}
tp_caller tp_call_caller(const tp_call *call) {
  if (!call) return TP_CALLER_AI_SESSION;
  return call->entry->turn->caller;
}

tp_text tp_call_caller_job(const tp_call *call) {
  if (!call) return (tp_text){0};
  return call->entry->turn->caller_job;
}

tp_text tp_call_triggered_by(const tp_call *call) {
  if (!call) return (tp_text){0};
  return call->entry->turn->triggered_by;
}
tp_text tp_call_environment(const tp_call *call) {
  if (!call) return (tp_text){0};
  return call->entry->turn->environment;
}
tp_text tp_call_mode(const tp_call *call) {
  if (!call) return (tp_text){0};
  return call->entry->turn->mode;
}
uint32_t tp_call_phase(const tp_call *call) {
  if (!call) return 0;
  return call->entry->plan->phase;
}
const char *tp_call_subscription(const tp_call *call) {
  if (!call) return NULL;
  return node_of(call)->subscription_name;
}

tp_failure tp_call_failure(const tp_call *call) {
  if (!call) return TP_FAILURE_DEFAULT;
  return node_of(call)->failure;
}

tp_text tp_call_redact(const tp_call *call, tp_redact_place place, tp_text text, char *buffer, size_t size) {
  if (!call || (!buffer && size > 0)) return (tp_text){0};
  return tp__redact(tp__runtime_redactor(call->entry->turn->runtime), place, text, buffer, size);
}

/* NULL: the call is not one of a job. */
static const tp__detached_job *job_of(const tp_call *call) {
  const tp__detached_job *job = call->entry->detached_run ? tp__detached_job_of(call->entry) : NULL;
  return job && job->id ? job : NULL;
}

uint32_t tp_call_attempt(const tp_call *call) {
  if (!call) return 0;
  const tp__detached_job *job = job_of(call);
  return job ? job->attempt : call->attempt_number;
}
uint64_t tp_call_job_id(const tp_call *call) {
  if (!call) return 0;
  const tp__detached_job *job = job_of(call);
  return job ? job->id : 0;
}
tp_text tp_call_idempotency_key(const tp_call *call) {
  if (!call) return (tp_text){0};
  const tp__detached_job *job = job_of(call);
  return job ? job->key : empty;
}
uint64_t tp_call_plan_hash(const tp_call *call) {
  if (!call) return 0;
  return call->entry->plan->hash;
}

/* The owner makes the entry's own call, and the node's run has the time at which the node became ready, if that
 * matters. Every other call has its own deadline. */
static int64_t deadline_of(const tp_call *call, int64_t *ret_limit_ns) {
  bool is_inline = call == &call->entry->call;
  *ret_limit_ns = is_inline ? tp__node_timeout(node_of(call)) : call->timeout_ns;
  if (!is_inline) return call->deadline_ns;
  const tp__run *run = tp__entry_more(call->entry, call->index);
  return tp__node_deadline(node_of(call), call->entry->end_ns, run ? run->row.queued_ns : call->started_ns);
}

int64_t tp__call_deadline(const tp_call *call) {
  int64_t timeout_ns, deadline_ns = deadline_of(call, &timeout_ns);
  if (!timeout_ns) return deadline_ns;
  int64_t limit_end_ns = call->started_ns + timeout_ns;
  return limit_end_ns < deadline_ns ? limit_end_ns : deadline_ns;
}

int64_t tp_call_time_left_ms(const tp_call *call) {
  if (!call) return 0;
  int64_t deadline_ns = tp__call_deadline(call);
  if (deadline_ns == TP__NEVER) return INT64_MAX;
  int64_t left_ns = deadline_ns - tp__now_ns();
  return left_ns > 0 ? left_ns / TP__NS_PER_MS : 0;
}

bool tp_call_cancelled(const tp_call *call) {
  if (!call) return true;
  if (call->attempt && tp__attempt_is_cancelled(call->attempt)) return true;
  if (!call->attempt && !call->entry->ignores_cancel && tp__a32_load_acquire(&call->entry->turn->cancel_asked))
    return true;
  return tp__now_ns() >= tp__call_deadline(call);
}

static const tp_field *field_of(const tp_call *call, uint32_t field) {
  return tp__fields_find(call->fields, call->field_count, field);
}

bool tp_call_has(const tp_call *call, uint32_t field) {
  if (!call) return false;
  return field_of(call, field) != NULL;
}

tp_text tp_call_text(const tp_call *call, uint32_t field) {
  if (!call) return (tp_text){0};
  const tp_field *f = field_of(call, field);
  return f ? f->text : empty;
}

bool tp_call_contains(const tp_call *call, uint32_t field, const char *string) {
  tp_text text = tp_call_text(call, field), word = tp_text_of(string);
  return word.size > 0 && text.size > 0 && memmem(text.data, text.size, word.data, word.size);
}

int64_t tp_call_int(const tp_call *call, uint32_t field) {
  if (!call) return 0;
  const tp_field *f = field_of(call, field);
  return f ? f->number : 0;
}

/* ---- dependencies: they settled before this call began, and have not changed since ---- */

static uint32_t dependency_index(const tp_call *call, size_t index) {
  return call->entry->plan->deps[node_of(call)->first_dep + index];
}

size_t tp_call_dependency_count(const tp_call *call) {
  if (!call) return 0;
  return node_of(call)->dep_count;
}

bool tp_call_dependency(const tp_call *call, size_t index, tp_dependency *ret_dependency) {
  if (!call) return false;
  if (index >= node_of(call)->dep_count) return false;
  uint32_t target = dependency_index(call, index);
  const tp__run *run = tp__entry_more(call->entry, target);
  tp_dependency dependency = {.subscription = call->entry->plan->nodes[target].subscription_name,
                              .succeeded = !run || run->row.state == TP_STATE_SUCCEEDED,
                              .fallback_used = run && run->row.fallback_used,
                              .contribution_count = run ? run->row.contribution_count : 0};
  return tp__shown_fill(ret_dependency, &dependency, sizeof dependency);
}

const tp_contribution *tp_call_dependency_contribution(const tp_call *call, size_t dependency, size_t index) {
  if (!call) return NULL;
  uint32_t target = dependency_index(call, dependency);
  const tp__run *run = tp__entry_more(call->entry, target);
  if (!run || index >= run->row.contribution_count) return NULL;
  if (run->row.fallback_used) return call->entry->plan->nodes[target].sub->desc.fallback[index];
  const tp__emitted *emitted = run->first;
  while (index-- > 0) emitted = emitted->next;
  return &emitted->contribution;
}

/* ---- answering ---- */

/* A reason for which there is no memory is dropped; the verdict still counts. */
static const char *copy_reason(tp_call *call, const char *reason) {
  const char *copy = NULL;
  if (reason && !call->sealed && !tp__arena_string(call->arena, reason, &copy)) return NULL;
  return copy;
}

/* Most calls have no output. The first emit, replacement or answer with a reason sets it up. */
static tp__output *touch(tp_call *call) {
  if (!call->touched) {
    call->output = (tp__output){0};
    call->answer = (tp__answer){0};
  }
  call->touched = true;
  return &call->output;
}

static tp_answer set_answer(tp_call *call, const tp__answer *with) {
  (void)touch(call);
  call->answer = *with;
  return with->kind;
}

tp_answer tp_call_allow(tp_call *call) {
  (void)call;
  return TP_ANSWER_ALLOW;
}
tp_answer tp_call_deny(tp_call *call, const char *reason) {
  if (!call) return TP_ANSWER_DENY;
  return set_answer(call, &(tp__answer){.kind = TP_ANSWER_DENY, .reason = copy_reason(call, reason)});
}
tp_answer tp_call_ask(tp_call *call, const char *reason) {
  if (!call) return TP_ANSWER_ASK;
  return set_answer(call, &(tp__answer){.kind = TP_ANSWER_ASK, .reason = copy_reason(call, reason)});
}
tp_answer tp_call_fail(tp_call *call, uint32_t code, const char *message) {
  if (!call) return TP_ANSWER_FAILED;
  return set_answer(call, &(tp__answer){.kind = TP_ANSWER_FAILED, .code = code, .reason = copy_reason(call, message)});
}
tp_answer tp_call_fail_retryable(tp_call *call, uint32_t code, const char *message) {
  if (!call) return TP_ANSWER_FAILED;
  return set_answer(
      call,
      &(tp__answer){.kind = TP_ANSWER_FAILED, .code = code, .retryable = true, .reason = copy_reason(call, message)});
}

tp_answer tp_call_postpone(tp_call *call, uint32_t code, const char *message) {
  if (!call) return TP_ANSWER_FAILED;
  return set_answer(call, &(tp__answer){.kind = TP_ANSWER_FAILED,
                                        .code = code,
                                        .retryable = true,
                                        .why = TP_REASON_POSTPONED,
                                        .reason = copy_reason(call, message)});
}

tp__answer tp__call_answer(const tp_call *call, tp_answer kind) {
  return call->touched && call->answer.kind == kind ? call->answer : (tp__answer){.kind = kind};
}

static tp_status refuse_contribution(tp__output *output, tp_status status) {
  if (output->refused == TP_OK) output->refused = status;
  return status;
}

/* The message of the first refusal becomes the attempt's message; without memory it has none. */
static tp_status refuse_with(tp__output *output, tp__arena *arena, const tp_fault *why) {
  bool first = output->refused == TP_OK;
  if (first && !tp__arena_string(arena, why->message, &output->refusal)) output->refusal = NULL;
  return refuse_contribution(output, why->code);
}

static tp_status refuse_sealed(const tp_call *call, tp_fault *fault) {
  return tp__fail(fault, TP_ERR_USAGE, tp_call_subscription(call),
                  "the call was deferred: what it contributes and replaces goes to tp_token_complete()");
}

static size_t contribution_bytes(const tp_contribution *c) {
  return c->domain.size + c->key.size + c->title.size + c->text.size + c->short_text.size + c->value.size +
         c->sources.size;
}

static const char *contribution_kind_name(const tp__contribution_ops *ops, const tp_contribution *contribution) {
  return ops->kind_name ? ops->kind_name(contribution->kind) : "contribution";
}

/* Checks and copies a contribution; fills *why when it refuses. */
static tp_status emit_contribution(tp__output *output, tp__arena *arena, tp__entry *entry, uint32_t index,
                                   const tp_contribution *contribution, tp_fault *why) {
  const tp__contribution_ops *ops = tp__runtime_layer_ops(entry->turn->runtime)->contributions;
  const tp__node *node = &entry->plan->nodes[index];
  if (!contribution) return tp__fail(why, TP_ERR_USAGE, NULL, "the contribution is NULL");
  if (contribution->kind >= TP_CONTRIBUTION_COUNT || !(node->kinds & 1u << contribution->kind))
    return tp__fail(why, TP_ERR_CAPABILITY, NULL, "it contributes %s, which its capabilities do not allow",
                    contribution_kind_name(ops, contribution));
  output->bytes += sizeof(tp__emitted) + contribution_bytes(contribution);
  if (output->bytes > OUTPUT_BYTES_MAX)
    return tp__fail(why, TP_ERR_TOO_LARGE, NULL,
                    "what it contributes has more than 1 MiB: with this %s %zu bytes, and %d are the most",
                    contribution_kind_name(ops, contribution), output->bytes, OUTPUT_BYTES_MAX);
  tp__emitted *emitted = tp__arena_zero(arena, sizeof *emitted);
  if (!emitted) return tp__fail(why, TP_ERR_NO_MEMORY, NULL, "no memory for a contribution");
  bool infra = node->flags & TP__NODE_INFRA; /* the merge drops such a signal, whatever its phase */
  uint32_t phase = infra ? (uint32_t)TP_PHASE_NONE : entry->plan->phase;
  tp_runtime *runtime = entry->turn->runtime;
  tp__closure_home home = {.allocator = tp__runtime_allocator(runtime),
                           .inside_of = runtime,
                           .inbox_owner = tp__runtime_registry(runtime),
                           .of_session = entry->turn->inbox,
                           .closures = &entry->closures};
  tp_status status = ops->copy(arena, phase, &home, contribution, &emitted->contribution, why);
  if (status == TP_ERR_NO_MEMORY)
    return tp__fail(why, status, NULL, "no memory for a %s", contribution_kind_name(ops, contribution));
  if (status != TP_OK) return status;
  if (output->last) output->last->next = emitted;
  else output->first = emitted;
  output->last = emitted;
  output->count++;
  return TP_OK;
}

/* Writes a refusal to the output and to the caller's fault. If the fault names no subject, it gets the subscription's
 * name. */
static tp_status refuse_output(tp__output *output, tp__arena *arena, const tp__entry *entry, uint32_t index,
                               const tp_fault *why, tp_fault *fault) {
  if (why->code == TP_ERR_NO_MEMORY)
    (void)!refuse_contribution(output, why->code); /* the arena has none for a sentence */
  else (void)!refuse_with(output, arena, why);
  const char *subject = why->subject[0] ? why->subject : entry->plan->nodes[index].subscription_name;
  (void)!tp__fail(fault, why->code, subject, "%s", why->message);
  if (fault) fault->phase = entry->plan->phase;
  return why->code;
}

tp_status tp__output_emit(tp__output *output, tp__arena *arena, tp__entry *entry, uint32_t index,
                          const tp_contribution *contribution, tp_fault *fault) {
  tp_fault why;
  if (emit_contribution(output, arena, entry, index, contribution, &why) == TP_OK) return TP_OK;
  return refuse_output(output, arena, entry, index, &why, fault);
}

tp_status tp_call_emit(tp_call *call, const tp_contribution *contribution, tp_fault *fault) {
  if (!call) return tp__fail_null(fault, "call");
  if (call->sealed) return refuse_sealed(call, fault);
  return tp__output_emit(touch(call), call->arena, call->entry, call->index, contribution, fault);
}

tp_status tp__output_join(tp__output *output, tp__arena *arena, const tp_field *fields, uint32_t count) {
  tp_field *all = tp__arena_alloc(arena, (output->replacement_count + count) * sizeof *all);
  if (!all) return refuse_contribution(output, TP_ERR_NO_MEMORY);
  if (output->replacement_count > 0) memcpy(all, output->replacement, output->replacement_count * sizeof *all);
  memcpy(all + output->replacement_count, fields, count * sizeof *all);
  output->replacement = all;
  output->replacement_count += count;
  return TP_OK;
}

static tp_status replace(tp__output *output, tp__arena *arena, const tp__entry *entry, uint32_t index,
                         const tp_field *fields, size_t count, tp_fault *why) {
  const tp_phase *row = entry->plan->row;
  if (!row->replace)
    return tp__fail(why, TP_ERR_CAPABILITY, NULL, "phase `%s` has no field that may be replaced", row->name);
  if (!(entry->plan->nodes[index].capabilities & TP_CAPABILITY_REPLACE_PAYLOAD))
    return tp__fail(why, TP_ERR_CAPABILITY, NULL, "it replaces fields, which needs TP_CAPABILITY_REPLACE_PAYLOAD");
  const tp__registry *registry = tp__runtime_registry(entry->turn->runtime);
  if (tp__fields_check(registry, entry->plan->phase, TP__FIELDS_REPLACE, fields, count, why) != TP_OK)
    return why->code = TP_ERR_MALFORMED;
  tp_field *added;
  if (tp__fields_copy(arena, fields, (uint32_t)count, &added) &&
      tp__output_join(output, arena, added, (uint32_t)count) == TP_OK)
    return TP_OK;
  return tp__fail(why, TP_ERR_NO_MEMORY, NULL, "no memory for %zu replaced fields", count);
}

tp_status tp__output_replace(tp__output *output, tp__arena *arena, const tp__entry *entry, uint32_t index,
                             const tp_field *fields, size_t count, tp_fault *fault) {
  tp_fault why;
  if (replace(output, arena, entry, index, fields, count, &why) == TP_OK) return TP_OK;
  return refuse_output(output, arena, entry, index, &why, fault);
}

tp_status tp_call_replace(tp_call *call, const tp_field *fields, size_t count, tp_fault *fault) {
  if (!call) return tp__fail_null(fault, "call");
  if (call->sealed) return refuse_sealed(call, fault);
  return tp__output_replace(touch(call), call->arena, call->entry, call->index, fields, count, fault);
}

tp_status tp_call_replace_text(tp_call *call, uint32_t field, const char *text, tp_fault *fault) {
  if (!call) return tp__fail_null(fault, "call");
  tp_field replaced = {.id = field, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(text)};
  return tp_call_replace(call, &replaced, 1, fault);
}

tp_answer tp_call_defer(tp_call *call, const tp_deferral *theirs, tp_token *ret_token) {
  if (!call) return TP_ANSWER_FAILED;
  ret_token->bits = 0;
  if (call->attempt && call->attempt->inbox_item.inbox) /* deferred from the beginning; its contributions are kept */
    return TP_ANSWER_FAILED;
  bool was_sealed = call->sealed;
  touch(call);
  /* before an answer can come: the contributions so far belong to the answer, and no longer change */
  call->sealed = true;
  tp_deferral deferral;
  tp_fault fault = {.message = "no token"};
  tp_status status =
      was_sealed ? TP_ERR_USAGE : tp__options_read(&deferral, sizeof deferral, theirs, "tp_deferral", &fault);
  if (status == TP_OK)
    status = call->attempt ? tp__attempt_defer(call->attempt, &deferral, ret_token)
                           : tp__node_defer_inline(call, &deferral, ret_token);
  if (status == TP_ERR_FULL) (void)!tp__tokens_full(tp__runtime_sched(call->entry->turn->runtime), &fault);
  if (status == TP_OK && call->entry->detached_run) tp__detached_has_deferred(call->entry);
  if (status == TP_OK) return TP_ANSWER_DEFERRED;
  call->sealed = was_sealed; /* no token of it is known outside */
  const char *reason = was_sealed ? "deferred twice" : copy_reason(call, fault.message);
  call->sealed = true;
  return set_answer(call, &(tp__answer){.kind = TP_ANSWER_FAILED, .code = (uint32_t)status, .reason = reason});
}

/* Refuses outcomes that no attempt may have; then the token stays open. */
static tp_status check_outcome(const tp_outcome *outcome, tp_fault *fault) {
  if (outcome->kind < TP_ANSWER_DONE || outcome->kind > TP_ANSWER_FAILED)
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "tp_outcome.kind is %d: it must be TP_ANSWER_DONE, ALLOW, DENY, ASK or FAILED", (int)outcome->kind);
  if (outcome->reserved_[0] | outcome->reserved_[1] | outcome->reserved_[2])
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_outcome.reserved_ must be zero: zero-fill the struct");
  if (outcome->why != 0 && outcome->kind != TP_ANSWER_FAILED)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_outcome.why is set: it goes with kind TP_ANSWER_FAILED only");
  bool is_theirs = outcome->why <= TP_REASON_MALFORMED || outcome->why == TP_REASON_POSTPONED;
  if (!is_theirs)
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "tp_outcome.why is %d, which the library finds itself: it must be one of TP_REASON_ERROR to "
                    "TP_REASON_MALFORMED, TP_REASON_POSTPONED, or 0",
                    (int)outcome->why);
  if (outcome->contribution_count > 0 && !outcome->contributions)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_outcome.contributions is NULL, and contribution_count is %zu",
                    outcome->contribution_count);
  if (outcome->replacement_count > 0 && !outcome->replacements)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_outcome.replacements is NULL, and replacement_count is %zu",
                    outcome->replacement_count);
  return TP_OK;
}

tp_status tp_token_complete(tp_token token, const tp_outcome *theirs, tp_fault *fault) {
  tp_outcome outcome;
  if (!theirs) return tp__fail(fault, TP_ERR_USAGE, NULL, "an answer needs a tp_outcome");
  TP__TRY(tp__options_read(&outcome, sizeof outcome, theirs, "tp_outcome", fault));
  TP__TRY(check_outcome(&outcome, fault));
  tp__answer answer = {.kind = outcome.kind,
                       .code = outcome.code,
                       .retryable = outcome.retryable || outcome.why == TP_REASON_POSTPONED,
                       .why = outcome.why,
                       .reason = outcome.reason,
                       .contributions = outcome.contributions,
                       .contribution_count = outcome.contribution_count,
                       .replacements = outcome.replacements,
                       .replacement_count = outcome.replacement_count};
  return tp__token_answer(token, &tp__node_attempt_class, &answer, NULL, fault);
}
