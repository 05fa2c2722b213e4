/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>

#include "phases/turn/agent.h"
#include "phases/model/parts.h"
#include "phases/tools/tool_run.h"
#include "phases/tools/toolset.h"
#include "runtime/exec/blocks.h"
#include "runtime/exec/exec.h"
#include "runtime/value/value.h"

enum { BLOCK_BYTES = 1024 };
#define MALFORMED_WORDS "the tool deferred and answered at once"
#define NO_ANSWER_WORDS "the tool gave no answer"
#define NO_ARGUMENT_WORDS "no memory for an argument"
#define NO_MEMORY_WORDS "no memory for the tool's answer"

/* Data that a function on another thread needs is copied, because the toolset and the dispatch may be freed before it
 * returns. */
struct tp__tool_attempt {
  tp__attempt base;
  tp__turn *turn; /* referenced */
  size_t block_size;
  int64_t deadline_ns;         /* of the call; never changes */
  const tp__tool_waits *waits; /* the owner's; NULL: it has settled, or the owner does not wait yet */
  void *waits_ctx;
  tp__a32 reports;      /* how many are on their way to the owner */
  tp__closure *closure; /* referenced: the tool's; NULL: the tool holds no objects of the host */
  size_t bytes_max, parts_bytes_max;
  /* of a function on another thread */
  /* valid while the snapshot is pinned; NULL: the function was called on the owner, and deferred */
  tp_tool_fn function;
  void *ctx;
  tp_text call_id, arguments;
  tp_tool_run run;
  tp__arena arena;
  /* Written by the winner of the slot, read by the owner */
  bool replied_by_token;
  tp__tool_reply reply;
  tp__arena answer_arena;
};

static tp__tool_attempt *tool_attempt_of(tp__attempt *attempt) {
  return TP__CONTAINER(attempt, tp__tool_attempt, base);
}

/* ---- what the tool sees ---- */

tp_text tp_tool_run_arguments(const tp_tool_run *run) {
  if (!run) return (tp_text){0};
  return *run->arguments;
}

tp_status tp_tool_run_argument_text(const tp_tool_run *run, const char *name, tp_text *ret_text, tp_fault *fault) {
  if (!run) return tp__fail_null(fault, "run");
  return tp_value_get_text(*run->arguments, name, ret_text, fault);
}

tp_status tp_tool_run_argument_int(const tp_tool_run *run, const char *name, int64_t *ret_int, tp_fault *fault) {
  if (!run) return tp__fail_null(fault, "run");
  return tp_value_get_int(*run->arguments, name, ret_int, fault);
}

tp_status tp_tool_run_argument_double(const tp_tool_run *run, const char *name, double *ret_double, tp_fault *fault) {
  if (!run) return tp__fail_null(fault, "run");
  return tp_value_get_double(*run->arguments, name, ret_double, fault);
}

tp_status tp_tool_run_argument_bool(const tp_tool_run *run, const char *name, bool *ret_bool, tp_fault *fault) {
  if (!run) return tp__fail_null(fault, "run");
  return tp_value_get_bool(*run->arguments, name, ret_bool, fault);
}

const char *tp_tool_run_string(tp_tool_run *run, const char *name) {
  if (!run) return "";
  TP__ASSERT(run->arena);
  tp_text value = tp_value_get(*run->arguments, name), copy;
  if (tp_value_kind_of(value) != TP_VALUE_TEXT) return "";
  tp_text text = tp_value_text(value);
  if (text.size == 0 || memchr(text.data, '\0', text.size)) return "";
  if (tp__arena_text(run->arena, text, &copy)) return copy.data;
  run->lost_argument = true;
  return "";
}

tp_text tp_tool_run_id(const tp_tool_run *run, uint32_t id) {
  if (!run) return (tp_text){0};
  return id < TP_ID_COUNT ? run->turn->ids[id] : (tp_text){NULL, 0};
}
tp_text tp_tool_run_redact(const tp_tool_run *run, tp_redact_place place, tp_text text, char *buffer, size_t size) {
  if (!run || (!buffer && size > 0)) return (tp_text){0};
  return tp__redact(tp__runtime_redactor(run->turn->runtime), place, text, buffer, size);
}
tp_text tp_tool_run_name(const tp_tool_run *run) { return run ? tp_text_of(run->name) : (tp_text){0}; }
tp_text tp_tool_run_mode(const tp_tool_run *run) { return run ? run->turn->mode : (tp_text){0}; }
tp_caller tp_tool_run_caller(const tp_tool_run *run) { return run ? (tp_caller)run->turn->caller : (tp_caller)0; }
tp_text tp_tool_run_agent_config(const tp_tool_run *run) {
  const tp_agent *agent = run ? tp__turn_of(run->turn)->agent : NULL;
  return agent ? agent->config : (tp_text){0};
}
tp_text tp_tool_run_call_id(const tp_tool_run *run) {
  if (!run) return (tp_text){0};
  return *run->call_id;
}

int64_t tp_tool_run_time_left_ms(const tp_tool_run *run) {
  if (!run) return 0;
  int64_t left_ns = run->deadline_ns - tp__now_ns();
  return left_ns > 0 ? left_ns / TP__NS_PER_MS : 0;
}

bool tp_tool_run_cancelled(const tp_tool_run *run) {
  if (!run) return true;
  if (run->attempt && tp__attempt_is_cancelled(&run->attempt->base)) return true;
  return tp__now_ns() >= run->deadline_ns;
}

/* The head and tail of an answer that is too long, with a note between them that says what is missing. Empty without
 * memory for it. */
static tp_text cut_middle(tp__arena *arena, tp_text text, size_t bytes_max) {
  size_t head = tp__utf8_cut(text, bytes_max / 2), tail = text.size - bytes_max / 2;
  while (tail < text.size && ((unsigned char)text.data[tail] & 0xC0) == 0x80) tail++;
  return tp__arena_printf(arena, "%.*s\n[… %zu bytes left out …]\n%.*s", (int)head, text.data, tail - head,
                          (int)(text.size - tail), text.data + tail);
}

bool tp__tool_text(tp__arena *arena, tp_text text, size_t bytes_max, tp_text *ret_copy) {
  if (text.size <= bytes_max) return tp__arena_text(arena, text, ret_copy);
  *ret_copy = cut_middle(arena, text, bytes_max);
  return ret_copy->data != NULL;
}

/* The answer of a tool may come from a program and contain any bytes. Bytes that are not UTF-8 are replaced.
 * @return false without memory. */
static bool replace_bytes(tp__arena *arena, tp_text *text, size_t *ret_replaced) {
  *ret_replaced = 0;
  if (tp_utf8_valid(*text, NULL)) return true;
  size_t size = tp_utf8_replace(*text, NULL, 0);
  char *copy = tp__arena_alloc(arena, size);
  if (!copy) return false;
  *ret_replaced = (size - text->size) / 2;
  tp_utf8_replace(*text, copy, size);
  *text = (tp_text){copy, size};
  return true;
}

/* The answer that is used when there was no memory for the tool's answer. */
static void set_lost(tp__tool_reply *reply) {
  reply->flaws |= TP__REPLY_NO_MEMORY;
  reply->said = (tp__tool_content){.text = {NO_MEMORY_WORDS, sizeof NO_MEMORY_WORDS - 1}};
}

static void set_reply(tp__tool_reply *reply, tp__arena *arena, size_t bytes_max, bool is_error, tp_text text) {
  bool has_memory = replace_bytes(arena, &text, &reply->replaced);
  reply->flaws = (is_error ? TP__REPLY_ERROR : 0) | (text.size > bytes_max ? TP__REPLY_CUT : 0);
  reply->said.value = reply->said.parts = (tp_text){NULL, 0};
  if (!has_memory || !tp__tool_text(arena, text, bytes_max, &reply->said.text)) set_lost(reply);
}

/* What programs read, for a model. */
static bool text_of_value(tp__arena *arena, tp_text value, size_t bytes_max, tp_text *ret_text, uint32_t *ret_flaws) {
  tp_writer writer;
  tp_text json;
  tp__value_writer_init(&writer, arena->allocator);
  bool ok = tp_json_encode(value, &writer, &json, NULL) == TP_OK && tp__tool_text(arena, json, bytes_max, ret_text);
  if (ok && json.size > bytes_max) *ret_flaws |= TP__REPLY_CUT;
  tp__value_writer_fini(&writer);
  return ok;
}

/* Copies the text, and the value if it fits. @return false without memory. */
static bool copy_said(tp__arena *arena, tp_text text, tp_text value, size_t bytes_max, size_t parts_bytes_max,
                      tp__tool_content *ret_copy, uint32_t *ret_flaws) {
  *ret_copy = (tp__tool_content){.text = {"", 0}};
  if (text.size > bytes_max) *ret_flaws |= TP__REPLY_CUT;
  bool ok = text.size > 0 || value.size == 0 ? tp__tool_text(arena, text, bytes_max, &ret_copy->text)
                                             : text_of_value(arena, value, bytes_max, &ret_copy->text, ret_flaws);
  if (value.size > parts_bytes_max) *ret_flaws |= TP__REPLY_LEFT_OUT;
  else if (ok && value.size > 0) ok = tp__arena_text(arena, value, &ret_copy->value);
  return ok;
}

bool tp__tool_content_copy(tp__arena *arena, const tp__tool_content *said, size_t bytes_max, size_t parts_bytes_max,
                           tp__tool_content *ret_copy, uint32_t *ret_flaws) {
  bool left_out = false;
  bool ok =
      copy_said(arena, said->text, said->value, bytes_max, parts_bytes_max, ret_copy, ret_flaws) &&
      tp__parts_fit(arena, said->parts, parts_bytes_max - ret_copy->value.size, &ret_copy->parts, &left_out) == TP_OK;
  if (left_out) *ret_flaws |= TP__REPLY_LEFT_OUT;
  return ok;
}

/* An answer that was checked. */
static void set_whole_reply(tp__tool_reply *reply, tp__arena *arena, size_t bytes_max, size_t parts_bytes_max,
                            const tp_tool_answer *answer) {
  TP__ASSERT(answer->struct_size == sizeof *answer); /* read_tool_answer() has copied it into a struct of this size */
  bool left_out = false;
  reply->flaws = answer->is_error ? TP__REPLY_ERROR : 0;
  reply->replaced = 0;
  bool ok = copy_said(arena, answer->text, answer->value, bytes_max, parts_bytes_max, &reply->said, &reply->flaws) &&
            tp__parts_of_list(arena, answer->parts, answer->part_count, parts_bytes_max - reply->said.value.size,
                              &reply->said.parts, &left_out) == TP_OK;
  if (left_out) reply->flaws |= TP__REPLY_LEFT_OUT;
  if (!ok) set_lost(reply);
}

static tp_status read_tool_answer(const tp_tool_answer *theirs, tp_tool_answer *ret_answer, tp_fault *fault) {
  tp_tool_answer answer;
  if (!theirs) return tp__fail_null(fault, "answer");
  TP__TRY(tp__options_read(&answer, sizeof answer, theirs, "tp_tool_answer", fault));
  for (size_t i = 0; i < sizeof answer.reserved_; i++)
    if (answer.reserved_[i]) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_tool_answer.reserved_ must be zero");
  if (!tp_utf8_valid(answer.text, NULL)) return tp__fail(fault, TP_ERR_UTF8, NULL, "tp_tool_answer.text is not UTF-8");
  if (answer.value.size > 0 && tp_value_check(answer.value, NULL) != TP_OK)
    return tp__fail(fault, TP_ERR_MALFORMED, NULL, "tp_tool_answer.value is no well-formed value");
  TP__TRY(tp__parts_list_check(answer.parts, answer.part_count, fault));
  *ret_answer = answer;
  return TP_OK;
}

static const tp__tool_reply no_argument = {.flaws = TP__REPLY_ERROR,
                                           .said = {.text = {NO_ARGUMENT_WORDS, sizeof NO_ARGUMENT_WORDS - 1}}};

static tp_answer answer_kind(tp_tool_run *run) {
  if (run->lost_argument) run->reply = no_argument;
  return run->reply.flaws & TP__REPLY_ERROR ? TP_ANSWER_FAILED : TP_ANSWER_DONE;
}

static tp_answer set_tool_reply(tp_tool_run *run, bool is_error, tp_text text) {
  set_reply(&run->reply, run->arena, run->bytes_max, is_error, text);
  return answer_kind(run);
}

tp_answer tp_tool_ok(tp_tool_run *run, tp_text text) {
  if (!run) return TP_ANSWER_FAILED;
  return set_tool_reply(run, false, text);
}
tp_answer tp_tool_error(tp_tool_run *run, tp_text text) {
  if (!run) return TP_ANSWER_FAILED;
  return set_tool_reply(run, true, text);
}

tp_answer tp_tool_printf(tp_tool_run *run, const char *format, ...) {
  if (!run || !format) return TP_ANSWER_FAILED;
  va_list arguments;
  va_start(arguments, format);
  tp_text text = tp__arena_vprintf(run->arena, format, arguments);
  va_end(arguments);
  if (!text.data) return tp_tool_error(run, tp_text_of("no memory for the tool's answer, or a wrong format"));
  return tp_tool_ok(run, text);
}

tp_answer tp_tool_answer_with(tp_tool_run *run, const tp_tool_answer *theirs, tp_fault *fault) {
  tp_tool_answer whole = {0};
  tp_fault why;
  if (!run) {
    (void)tp__fail_null(fault, "run");
    return TP_ANSWER_FAILED;
  }
  if (read_tool_answer(theirs, &whole, &why) != TP_OK) {
    if (fault) *fault = why;
    return set_tool_reply(run, true, tp_text_of(why.message));
  }
  set_whole_reply(&run->reply, run->arena, run->bytes_max, run->parts_bytes_max, &whole);
  return answer_kind(run);
}

/* Whether a tool's function may return this kind; only handlers return verdicts. */
static bool is_answer(tp_answer kind) {
  return kind == TP_ANSWER_DONE || kind == TP_ANSWER_FAILED || kind == TP_ANSWER_DEFERRED;
}
static const tp__tool_reply no_answer = {.flaws = TP__REPLY_ERROR,
                                         .said = {.text = {NO_ANSWER_WORDS, sizeof NO_ANSWER_WORDS - 1}}};

/* ---- the attempt ---- */

static tp__answer call_tool(tp__attempt *attempt) {
  TP__ASSERT(tool_attempt_of(attempt)->function);
  tp__tool_attempt *a = tool_attempt_of(attempt);
  tp_breadcrumb *breadcrumb = tp__breadcrumb_of_function(a->run.turn, a->run.name, a->run.started_ns);
  tp_answer kind = a->function(a->ctx, &a->run);
  tp__breadcrumb_leave(breadcrumb);
  if (!is_answer(kind)) a->run.reply = no_answer;
  return (tp__answer){.kind = kind};
}

static void reply_by_token(tp__tool_attempt *attempt, const tp_tool_answer *answer) {
  TP__ASSERT(!attempt->replied_by_token);
  attempt->replied_by_token = true;
  if (answer->value.size > 0 || answer->part_count > 0)
    set_whole_reply(&attempt->reply, &attempt->answer_arena, attempt->bytes_max, attempt->parts_bytes_max, answer);
  else set_reply(&attempt->reply, &attempt->answer_arena, attempt->bytes_max, answer->is_error, answer->text);
}

/* extra: the answer as tp_tool_complete_with() has read it. */
static void accept_tool_reply(tp__attempt *base, const tp__answer *answer, const void *extra) {
  reply_by_token(tool_attempt_of(base), extra);
  base->answer = (tp__answer){.kind = answer->kind};
}

/* A function that deferred must answer only through its token. */
static const tp__tool_reply malformed = {.flaws = TP__REPLY_ERROR,
                                         .said = {.text = {MALFORMED_WORDS, sizeof MALFORMED_WORDS - 1}}};

static void note_tool_abandoned(tp__attempt *base) {
  reply_by_token(tool_attempt_of(base), &(tp_tool_answer){.is_error = true, .text = tp_text_of(TP__ABANDONED_REASON)});
  base->answer = (tp__answer){.kind = TP_ANSWER_FAILED};
}

/* When a function on another thread deferred and also returned an answer, the engine reports DEFERRED. The function may
 * still be running then, so its answer is not read. */
static const tp__tool_reply *reply_of(const tp__tool_attempt *attempt) {
  if (attempt->replied_by_token) return &attempt->reply;
  return attempt->base.answer.kind == TP_ANSWER_DEFERRED ? &malformed : &attempt->run.reply;
}

/* If the attempt was not answered, its function may still be running and writing, so its answer is not read. */
static void settle_tool_attempt(tp__attempt *base, tp__attempt_end end) {
  TP__OWNED(&tool_attempt_of(base)->turn->strand);
  TP__ASSERT(tool_attempt_of(base)->waits);
  tp__tool_attempt *attempt = tool_attempt_of(base);
  const tp__tool_waits *waits = attempt->waits;
  attempt->waits = NULL; /* reports that are on their way are too late */
  tp__tool_end ended = {.end = end,
                        .refusal = base->refusal,
                        .started_ns = tp__attempt_called_ns(base),
                        .ended_ns = end == TP__ANSWERED ? base->ended_ns : tp__now_ns()};
  if (end == TP__ANSWERED) {
    const tp__tool_reply *reply = reply_of(attempt);
    ended.flaws = reply->flaws | (base->answer.kind != TP_ANSWER_DONE ? TP__REPLY_ERROR : 0);
    ended.said = reply->said;
    ended.replaced = reply->replaced;
  }
  /* An answer that tp_tool_complete() has accepted counts. For a run from an inbox it counts only within the limit. */
  bool may_be_late = base->pool_item.inbox || !attempt->replied_by_token;
  ended.is_late = end == TP__ANSWERED && may_be_late && tp__attempt_is_late(base);
  waits->settled(attempt->waits_ctx, &ended);
  tp__attempt_unref(base);
}

static void free_tool_attempt(tp__attempt *base) {
  tp__tool_attempt *attempt = tool_attempt_of(base);
  tp__turn *turn = attempt->turn;
  tp__arena_fini(&attempt->answer_arena);
  tp__arena_fini(&attempt->arena);
  if (attempt->closure) tp__closure_unref(attempt->closure);
  tp__block_give(tp__runtime_blocks(turn->runtime), attempt, attempt->block_size);
  tp__turn_unref(turn);
}

static int64_t deadline_of(const tp__attempt *base, int64_t offered_ns) {
  int64_t end_ns = offered_ns + base->timeout_ns;
  return end_ns < base->deadline_ns ? end_ns : base->deadline_ns;
}

/* The call may have waited for a permit, so its limit counts from here. */
static void offered(tp__attempt *base, int64_t now_ns) {
  tool_attempt_of(base)->run.deadline_ns = deadline_of(base, now_ns);
}

static const tp__attempt_class class = {.what = "tool",
                                        .complete_with = "tp_tool_complete()",
                                        .offered = offered,
                                        .abandoned = note_tool_abandoned,
                                        .call = call_tool,
                                        .accept = accept_tool_reply,
                                        .settled = settle_tool_attempt,
                                        .release = free_tool_attempt};

static tp_status complete_tool(tp_token token, const tp_tool_answer *answer, tp_fault *fault) {
  tp__answer kind = {.kind = answer->is_error ? TP_ANSWER_FAILED : TP_ANSWER_DONE};
  return tp__token_answer(token, &class, &kind, answer, fault);
}

tp_status tp_tool_complete(tp_token token, bool is_error, tp_text text, tp_fault *fault) {
  return complete_tool(token, &(tp_tool_answer){.is_error = is_error, .text = text}, fault);
}

tp_status tp_tool_complete_with(tp_token token, const tp_tool_answer *theirs, tp_fault *fault) {
  tp_tool_answer answer;
  TP__TRY(read_tool_answer(theirs, &answer, fault));
  return complete_tool(token, &answer, fault);
}

static tp__tool_attempt *new_attempt(const tp_tool_run *run) {
  TP__OWNED(&run->turn->strand);
  tp_runtime *runtime = run->turn->runtime;
  size_t block_size;
  tp__tool_attempt *a = tp__block_take(tp__runtime_blocks(runtime), BLOCK_BYTES, &block_size);
  if (!a) return NULL;
  *a = (tp__tool_attempt){.turn = run->turn,
                          .block_size = block_size,
                          .deadline_ns = run->deadline_ns,
                          .bytes_max = run->bytes_max,
                          .parts_bytes_max = run->parts_bytes_max};
  if (tp__attempt_init(&a->base, &class, &run->turn->strand) != TP_OK) {
    tp__block_give(tp__runtime_blocks(runtime), a, block_size);
    return NULL;
  }
  a->closure = tp__closure_ref(run->closure);
  a->base.pool_item.name = run->name;
  a->arena.allocator = a->answer_arena.allocator = &tp__runtime_blocks(runtime)->as_allocator;
  tp__turn_hold(run->turn);
  return a;
}

/* The rest of its block becomes the first memory of one of its arenas. */
static void give_rest(tp__tool_attempt *attempt, tp__arena *arena) {
  tp__arena_init(arena, arena->allocator, attempt + 1, attempt->block_size - sizeof *attempt, 0);
}

static void free_unused(tp__tool_attempt *attempt) {
  TP__ASSERT(tp__attempt_is_alone(&attempt->base));
  tp__attempt_fini(&attempt->base);
  tp__attempt_unref(&attempt->base);
}

/* ---- how far a run is ---- */

enum { REPORTS_MAX = 64, REPORT_BYTES_MAX = 1024 };

/* A progress report on its way to the owner. The bytes of its message follow it. */
typedef struct report {
  tp__message message;
  tp__tool_attempt *attempt; /* referenced */
  size_t block_size;
  tp_tool_progress progress;
} report;

/* It was taken off the way. */
static void report_free(report *r) {
  tp__tool_attempt *attempt = r->attempt;
  tp__block_give(tp__runtime_blocks(attempt->turn->runtime), r, r->block_size);
  tp__a32_sub_acq_rel(&attempt->reports, 1);
  tp__attempt_unref(&attempt->base);
}

static void report_delivered(tp__message *message) {
  report *r = TP__CONTAINER(message, report, message);
  const tp__tool_attempt *attempt = r->attempt;
  TP__OWNED(&attempt->turn->strand);
  if (attempt->waits) attempt->waits->progressed(attempt->waits_ctx, &r->progress);
  report_free(r);
}

static tp_status read_progress(const tp_tool_progress *theirs, tp_tool_progress *ret_progress, tp_fault *fault) {
  tp_tool_progress progress;
  if (!theirs) return tp__fail_null(fault, "progress");
  TP__TRY(tp__options_read(&progress, sizeof progress, theirs, "tp_tool_progress", fault));
  if (!(progress.done >= 0 && progress.done <= DBL_MAX && progress.total >= 0 && progress.total <= DBL_MAX))
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_tool_progress.done and total are finite and not negative");
  if (progress.message.size > REPORT_BYTES_MAX)
    return tp__fail(fault, TP_ERR_TOO_LARGE, NULL, "tp_tool_progress.message has %zu bytes: at most %d",
                    progress.message.size, REPORT_BYTES_MAX);
  if (!tp_utf8_valid(progress.message, NULL))
    return tp__fail(fault, TP_ERR_UTF8, NULL, "tp_tool_progress.message is not UTF-8");
  *ret_progress = progress;
  return TP_OK;
}

/* The caller holds a reference to the attempt. */
static tp_status send_report(tp__tool_attempt *attempt, const tp_tool_progress *progress, tp_fault *fault) {
  TP__ASSERT(progress->message.size <= REPORT_BYTES_MAX);
  tp__blocks *blocks = tp__runtime_blocks(attempt->turn->runtime);
  size_t size = progress->message.size, block_size;
  if (tp__a32_load_relaxed(&attempt->reports) >= REPORTS_MAX)
    return tp__fail(fault, TP_ERR_FULL, NULL, "%d reports of this call wait for the turn's owner; report again later",
                    REPORTS_MAX);
  report *r = tp__block_take(blocks, sizeof *r + size, &block_size);
  if (!r) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the progress of a call");
  *r = (report){
      .message.deliver = report_delivered, .attempt = attempt, .block_size = block_size, .progress = *progress};
  if (size > 0) r->progress.message.data = memcpy(r + 1, progress->message.data, size);
  tp__a32_add_relaxed(&attempt->reports, 1);
  tp__a32_add_relaxed(&attempt->base.refs, 1);
  if (tp__strand_push(attempt->base.strand, &r->message)) return TP_OK;
  report_free(r);
  return tp__fail(fault, TP_ERR_STALE, NULL, "the turn of this call has ended");
}

tp_status tp_tool_report(tp_token token, const tp_tool_progress *theirs, tp_fault *fault) {
  tp_tool_progress progress;
  TP__TRY(read_progress(theirs, &progress, fault));
  tp__attempt *base = tp__token_hold(token, &class);
  if (!base) return tp__token_refuse(token, &class, fault);
  tp_status status = send_report(tool_attempt_of(base), &progress, fault);
  tp__token_release(base);
  return status;
}

tp_status tp__tool_run_hold(tp_token token, tp__attempt **ret_attempt, tp__nesting *ret_nesting, tp_fault *fault) {
  tp__attempt *base = tp__token_hold(token, &class);
  if (!base) return tp__token_refuse(token, &class, fault);
  *ret_nesting = (tp__nesting){.parent = tool_attempt_of(base)->turn, .until_ns = tool_attempt_of(base)->deadline_ns};
  *ret_attempt = base;
  return TP_OK;
}

tp_status tp_tool_run_progress(const tp_tool_run *run, const tp_tool_progress *theirs, tp_fault *fault) {
  tp_tool_progress progress;
  if (!run) return tp__fail_null(fault, "run");
  TP__TRY(read_progress(theirs, &progress, fault));
  if (!run->attempt)
    return tp__fail(fault, TP_ERR_USAGE, run->name, "an inline tool reports its progress after it has deferred");
  return send_report(run->attempt, &progress, fault);
}

/* ---- an inline tool, on the owner ---- */

/* The tool must wait after all: makes the attempt to which the token leads. */
static tp_status defer_here(tp_tool_run *run, const tp_deferral *deferral, tp_token *ret_token) {
  tp__tool_attempt *attempt = new_attempt(run);
  if (!attempt) return TP_ERR_NO_MEMORY;
  give_rest(attempt, &attempt->answer_arena);
  tp__a64_store_relaxed(&attempt->base.started_ns, (uint64_t)run->started_ns); /* no other thread knows it yet */
  tp_status status = tp__attempt_defer(&attempt->base, deferral, ret_token);
  if (status == TP_OK) run->attempt = attempt;
  else free_unused(attempt);
  return status;
}

tp_answer tp_tool_defer(tp_tool_run *run, const tp_deferral *theirs, tp_token *ret_token) {
  if (!run) return TP_ANSWER_FAILED;
  ret_token->bits = 0;
  tp_deferral deferral;
  tp_fault fault = {.message = "too many calls are waiting"}, full;
  if (run->attempt && run->attempt->base.pool_item.inbox) return TP_ANSWER_FAILED; /* deferred from the start */
  tp_status status = tp__options_read(&deferral, sizeof deferral, theirs, "tp_deferral", &fault);
  if (status == TP_OK)
    status = run->attempt ? tp__attempt_defer(&run->attempt->base, &deferral, ret_token)
                          : defer_here(run, &deferral, ret_token);
  /* the model reads the answer; the log of the host gets the name of the holder of the tokens */
  if (status == TP_ERR_FULL) {
    (void)!tp__tokens_full(tp__runtime_sched(run->turn->runtime), &full);
    tp__log(run->turn->runtime, TP_LOG_WARNING, &(tp__log_subject){.status = status}, "tool `%s` got no token: %s",
            run->name, full.message);
  }
  if (status == TP_OK) return TP_ANSWER_DEFERRED;
  return tp_tool_error(run, tp_text_of(fault.message));
}

tp__tool_attempt *tp__tool_run_exceptional(tp_tool_run *run, tp_answer kind) {
  tp__tool_attempt *attempt = run->attempt;
  if (attempt && (kind == TP_ANSWER_DEFERRED || !tp__attempt_revoke(&attempt->base))) return attempt;
  if (attempt) tp__attempt_unref(&attempt->base);
  run->attempt = NULL;
  run->reply.flaws |= TP__REPLY_ERROR;
  if (!is_answer(kind)) run->reply = no_answer;
  if (attempt || kind == TP_ANSWER_DEFERRED) run->reply = malformed;
  return NULL;
}

void tp__tool_run_await(tp__tool_attempt *attempt, int64_t deadline_ns, const tp__tool_waits *waits, void *ctx) {
  TP__ASSERT(waits && !attempt->waits);
  attempt->waits = waits;
  attempt->waits_ctx = ctx;
  tp__attempt_await(&attempt->base, deadline_ns);
}

tp__attempt *tp__tool_run_attempt(const tp_tool_run *run) { return run->attempt ? &run->attempt->base : NULL; }

/* ---- all other tools, on a handler thread or through an inbox ---- */

static bool copy_run(tp__tool_attempt *a, const tp_tool_run *run) {
  give_rest(a, &a->arena);
  if (!tp__arena_text(&a->arena, *run->call_id, &a->call_id)) return false;
  if (!tp__arena_text(&a->arena, *run->arguments, &a->arguments)) return false;
  a->run = *run;
  a->run.call_id = &a->call_id;
  a->run.arguments = &a->arguments;
  a->run.arena = &a->arena;
  a->run.attempt = a;
  return true;
}

tp_reason tp__tool_run_start(const tp_tool_run *run, const tp__tool_entry *tool, const tp__tool_waits *waits, void *ctx,
                             tp__tool_attempt **ret_attempt) {
  if (!tool->run && !tool->inbox) return TP_REASON_NO_INBOX;
  tp__tool_attempt *a = new_attempt(run);
  if (!a) return TP_REASON_NO_MEMORY;
  if (!copy_run(a, run)) {
    free_unused(a);
    return TP_REASON_NO_MEMORY;
  }
  a->function = tool->run;
  a->ctx = tool->ctx;
  a->waits = waits;
  a->waits_ctx = ctx;
  tp__attempt *base = &a->base;
  base->pool_item.lane = TP__LANE_LAYER;
  base->pool_item.permits = tool->permits;
  base->pool_item.permits_max = tool->concurrent_max;
  base->pool_item.keeps_permit = tool->tool->max_concurrent > 0;
  base->pool_item.phase = TP_PHASE_TOOL_PRE;
  base->pool_item.inbox = tool->inbox;
  base->inbox_item.work =
      (tp_work){.struct_size = sizeof(tp_work), .kind = TP_WORK_TOOL, .ctx = tool->ctx, .run = &a->run};
  tp_reason refused = tool->inbox ? tp__attempt_offer_permitted(base, run->turn->deadline_ns, tool->timeout_ns)
                                  : tp__attempt_start(base, run->turn->deadline_ns, tool->timeout_ns);
  if (refused) tp__attempt_unref(base);
  else *ret_attempt = a;
  return refused;
}

void tp__tool_run_cancel(tp__tool_attempt *attempt) { tp__attempt_expire(&attempt->base, TP__CANCELLED); }
