/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/tools.h"
#include "runtime/exec/slot.h"

enum { BLOCK_BYTES = 1024, ANSWER_BYTES = 48 };
#define MALFORMED_WORDS "the tool deferred and answered at once"
#define NO_ANSWER_WORDS "the tool gave no answer"

/* Of a function that is called on the owner, and so has only its answer here; of any other it is the first part of
 * `handed`. */
struct tp__tool_attempt {
  tp__attempt base;
  tp__tool_lot *lot;           /* whose cell it is; NULL: in a `handed` */
  tp__tool_attempts *attempts; /* of the dispatch: until it is settled */
  tp__tool_settled_fn settled;
  void *ctx;
  tp__closure *closure; /* referenced: the tool's; NULL: it holds nothing of the host's */
  size_t bytes_max;
  /* written by the winner of the slot, read by the owner */
  bool said_by_token;
  bool has_arena;
  tp__tool_said said;
  tp__arena answer_arena; /* of an answer that is too long for what follows */
  char answer[ANSWER_BYTES];
};

/* What a function on another thread needs: the toolset and the dispatch may be gone before it returns. */
typedef struct handed {
  tp__tool_attempt attempt;
  tp_text call_id, arguments;
  tp_tool_run run;     /* its turn is referenced */
  tp_tool_fn function; /* valid while the snapshot is pinned */
  void *self;
  size_t block_size;
  tp_allocator blocks;
  tp__arena arena; /* of the function's thread */
} handed;

enum { CELL_BYTES = (sizeof(tp__tool_attempt) + 15) / 16 * 16 };

static tp__tool_attempt *of(tp__attempt *attempt) { return TP__CONTAINER(attempt, tp__tool_attempt, base); }
static handed *handed_of(tp__tool_attempt *attempt) { return TP__CONTAINER(attempt, handed, attempt); }

/* ---- what the tool sees ---- */

tp_text tp_tool_run_arguments(const tp_tool_run *run) { return *run->arguments; }
tp_text tp_tool_run_id(const tp_tool_run *run, uint32_t id) {
  return id < TP_ID_COUNT ? run->turn->ids[id] : (tp_text){NULL, 0};
}
tp_text tp_tool_run_call_id(const tp_tool_run *run) { return *run->call_id; }

int64_t tp_tool_run_time_left_ms(const tp_tool_run *run) {
  int64_t left_ns = run->deadline_ns - tp__now_ns();
  return left_ns > 0 ? left_ns / TP__NS_PER_MS : 0;
}

bool tp_tool_run_cancelled(const tp_tool_run *run) {
  if (run->attempt && tp__attempt_is_cancelled(&run->attempt->base)) return true;
  return tp__now_ns() >= run->deadline_ns;
}

/* Head and tail of an answer that is too long, with a note between them of what is gone. Where there is no memory for
 * it, no text. */
static tp_text cut(tp__arena *arena, tp_text text, size_t bytes_max) {
  size_t head = tp__utf8_cut(text, bytes_max / 2), tail = text.size - bytes_max / 2;
  while (tail < text.size && ((unsigned char)text.data[tail] & 0xC0) == 0x80) tail++;
  return tp__arena_printf(arena, "%.*s\n[… %zu bytes left out …]\n%.*s", (int)head, text.data, tail - head,
                          (int)(text.size - tail), text.data + tail);
}

bool tp__tool_text(tp__arena *arena, tp_text text, size_t bytes_max, tp_text *ret_copy) {
  if (text.size <= bytes_max) return tp__arena_text(arena, text, ret_copy);
  *ret_copy = cut(arena, text, bytes_max);
  return ret_copy->data != NULL;
}

static void say(tp__tool_said *said, tp__arena *arena, size_t bytes_max, bool is_error, tp_text text) {
  bool valid = tp_utf8_valid(text, NULL);
  if (!valid) text = tp_text_of("the tool's answer was not UTF-8");
  said->flaws = is_error || !valid ? TP__SAID_ERROR : 0;
  if (!tp__tool_text(arena, text, bytes_max, &said->text)) said->flaws |= TP__SAID_NO_MEMORY;
}

tp_text tp__tool_said_text(const tp__tool_said *said) {
  return said->flaws & TP__SAID_NO_MEMORY ? tp_text_of("no memory for the tool's answer") : said->text;
}

static tp_answer answer(tp_tool_run *run, bool is_error, tp_text text) {
  say(&run->said, run->arena, run->bytes_max, is_error, text);
  return run->said.flaws & TP__SAID_ERROR ? TP_ANSWER_FAILED : TP_ANSWER_DONE;
}

tp_answer tp_tool_ok(tp_tool_run *run, tp_text text) { return answer(run, false, text); }
tp_answer tp_tool_error(tp_tool_run *run, tp_text text) { return answer(run, true, text); }

/* What a tool's function may return; verdicts are a handler's. */
static bool is_answer(tp_answer kind) {
  return kind == TP_ANSWER_DONE || kind == TP_ANSWER_FAILED || kind == TP_ANSWER_DEFERRED;
}
static const tp__tool_said no_answer = {.flaws = TP__SAID_ERROR, .text = {NO_ANSWER_WORDS, sizeof NO_ANSWER_WORDS - 1}};

/* ---- the attempt ---- */

static tp__answer call(tp__attempt *attempt) {
  handed *h = handed_of(of(attempt));
  tp_answer kind = h->function(h->self, &h->run);
  if (!is_answer(kind)) h->run.said = no_answer;
  return (tp__answer){.kind = kind};
}

/* A short answer needs no memory of its own. */
static void say_by_token(tp__tool_attempt *attempt, bool is_error, tp_text text) {
  tp__arena *arena = &attempt->answer_arena;
  attempt->said_by_token = true;
  attempt->said = (tp__tool_said){.flaws = is_error ? TP__SAID_ERROR : 0, .text = {"", 0}};
  if (text.size == 0) return;
  attempt->has_arena = true;
  tp__arena_init(arena, attempt->lot ? tp__tool_lot_blocks(attempt->lot) : &handed_of(attempt)->blocks, attempt->answer,
                 sizeof attempt->answer, 0);
  say(&attempt->said, arena, attempt->bytes_max, is_error, text);
}

/* extra: the text of tp_tool_complete(). */
static void accept(tp__attempt *base, const tp__answer *answer, const void *extra) {
  tp__tool_attempt *attempt = of(base);
  say_by_token(attempt, answer->kind == TP_ANSWER_FAILED, *(const tp_text *)extra);
  base->answer = (tp__answer){.kind = answer->kind};
}

/* A function that deferred answers through its token alone. */
static const tp__tool_said malformed = {.flaws = TP__SAID_ERROR, .text = {MALFORMED_WORDS, sizeof MALFORMED_WORDS - 1}};

static void abandoned(tp__attempt *base) {
  say_by_token(of(base), true, tp_text_of(TP__ABANDONED_WORDS));
  base->answer = (tp__answer){.kind = TP_ANSWER_FAILED};
}

/* One that waits in a lot is answered by its token alone. Of a function on another thread the engine does not tell that
 * from an answer beside the token; it may still be running then, so that what it said is not looked at. */
static const tp__tool_said *said_of(tp__tool_attempt *attempt) {
  if (attempt->lot || attempt->said_by_token) return &attempt->said;
  return attempt->base.answer.kind == TP_ANSWER_DEFERRED ? &malformed : &handed_of(attempt)->run.said;
}

/* ---- the ends of many, at once ---- */

/* Till its slot is closed an attempt stays: somebody may be looking at it through its token (tp__slot_hold). */
static void let_go(tp__tool_attempts *attempts) {
  tp_token tokens[TP__ENDED_MAX];
  tp__tool_lot *lot = NULL;
  uint32_t cells = 0;
  for (uint32_t i = 0; i < attempts->ended_count; i++) tokens[i] = attempts->ended[i]->base.token;
  tp__slots_close(tokens, attempts->ended_count);
  for (uint32_t i = 0; i < attempts->ended_count; i++) {
    tp__tool_attempt *attempt = attempts->ended[i];
    if (!tp__attempt_is_last(&attempt->base)) {
      tp__attempt_unref(&attempt->base);
      continue;
    }
    if (cells > 0 && attempt->lot != lot) {
      tp__tool_lot_give(lot, cells);
      cells = 0;
    }
    lot = attempt->lot;
    cells++;
    if (attempt->has_arena) tp__arena_fini(&attempt->answer_arena);
    if (attempt->closure) tp__closure_unref(attempt->closure);
  }
  if (cells > 0) tp__tool_lot_give(lot, cells);
  attempts->ended_count = 0;
}

static void note_ended(tp__tool_attempt *attempt) {
  tp__tool_attempts *attempts = attempt->attempts;
  if (attempts->ended_count == TP__ENDED_MAX) let_go(attempts);
  attempts->ended[attempts->ended_count++] = attempt;
}

void tp__tool_attempts_end(tp__tool_attempts *attempts) {
  if (attempts->ended_count > 0) let_go(attempts);
  tp__tool_lots_end(&attempts->lots);
}

/* Where it was not answered its function may still be running and writing: its answer is not looked at. */
static void settled(tp__attempt *base, tp__attempt_end end) {
  tp__tool_attempt *attempt = of(base);
  tp__tool_answer answer = {.end = end,
                            .refusal = base->refusal,
                            .started_ns = (int64_t)tp__a64_load_acquire(&base->started_ns),
                            .ended_ns = end == TP__ANSWERED ? base->ended_ns : tp__now_ns()};
  if (end == TP__ANSWERED) {
    const tp__tool_said *said = said_of(attempt);
    answer.is_error = said->flaws || base->answer.kind != TP_ANSWER_DONE;
    answer.text = tp__tool_said_text(said);
  }
  if (end == TP__ANSWERED && base->pool_item.inbox && base->ended_ns > handed_of(attempt)->run.deadline_ns)
    answer.end = TP__EXPIRED; /* the answer came before its owner had looked at the clock */
  bool by_message = end == TP__ANSWERED || end == TP__REFUSED;
  if (attempt->lot && by_message) {
    note_ended(attempt);
    attempt->settled(attempt->ctx, &answer); /* the dispatch may end in there, and let go of it */
    return;
  }
  if (by_message) tp__slot_close(base->token);
  attempt->settled(attempt->ctx, &answer);
  tp__attempt_unref(base);
}

static void release(tp__attempt *base) {
  tp__tool_attempt *attempt = of(base);
  if (attempt->has_arena) tp__arena_fini(&attempt->answer_arena);
  if (attempt->closure) tp__closure_unref(attempt->closure);
  if (attempt->lot) {
    tp__tool_lot_give(attempt->lot, 1);
    return;
  }
  handed *h = handed_of(attempt);
  tp__turn *turn = h->run.turn;
  tp__arena_fini(&h->arena);
  tp__block_give(&turn->runtime->blocks, h, h->block_size);
  tp__turn_unref(turn);
}

static int64_t deadline_of(const tp__attempt *base, int64_t offered_ns) {
  int64_t end_ns = offered_ns + base->limit_ns;
  return end_ns < base->hard_ns ? end_ns : base->hard_ns;
}

/* The call may have waited for a permit: its limit counts from here. */
static void offered(tp__attempt *base, int64_t now_ns) {
  handed_of(of(base))->run.deadline_ns = deadline_of(base, now_ns);
}

static const tp__attempt_class class = {
    .what = "tool",
    .offered = offered,
    .abandoned = abandoned,
    .call = call,
    .accept = accept,
    .settled = settled,
    .release = release,
    .closes = true};

tp_status tp_tool_complete(tp_token token, bool is_error, tp_text text) {
  tp__answer answer = {.kind = is_error ? TP_ANSWER_FAILED : TP_ANSWER_DONE};
  return tp__token_answer(token, &class, &answer, &text);
}

/* ---- an inline tool, on the owner ---- */

/* It waits for something after all: here is the attempt that the token leads to. */
static tp_status defer_here(tp_tool_run *run, const tp_deferral *deferral, tp_token *ret_token) {
  tp__tool_lots *lots = &run->attempts->lots;
  tp__tool_lot *lot;
  tp_token token;
  tp__tool_attempt *attempt = tp__tool_lots_take(lots, run->turn, CELL_BYTES, &lot, &token);
  if (!attempt) return TP_ERR_NO_MEMORY;
  attempt->lot = lot;
  attempt->attempts = run->attempts;
  attempt->bytes_max = run->bytes_max;
  attempt->said_by_token = attempt->has_arena = false;
  attempt->said = (tp__tool_said){.text = {"", 0}};
  tp_status status =
      tp__attempt_init_deferred(&attempt->base, &class, &run->turn->strand, token, deferral, run->started_ns,
                                run->name);
  if (status != TP_OK) {
    tp__tool_lots_untake(lots, CELL_BYTES);
    return status;
  }
  attempt->closure = tp__closure_ref(run->closure);
  run->attempt = attempt;
  *ret_token = token;
  return TP_OK;
}

tp_answer tp_tool_defer(tp_tool_run *run, const tp_deferral *theirs, tp_token *ret_token) {
  ret_token->bits = 0;
  tp_deferral deferral;
  tp_fault fault = {.message = "too many calls are waiting"}, full;
  if (run->attempt && run->attempt->base.pool_item.inbox) return TP_ANSWER_FAILED; /* deferred from the start */
  tp_status status = tp__options_read(&deferral, sizeof deferral, theirs, "tp_deferral", &fault);
  if (status == TP_OK)
    status = run->attempt ? tp__attempt_defer(&run->attempt->base, &deferral, ret_token)
                          : defer_here(run, &deferral, ret_token);
  if (status == TP_ERR_FULL) { /* the model reads the answer: who has the tokens is for the host's log */
    (void)!tp__tokens_full(run->turn->runtime, &full);
    tp__log(run->turn->runtime, TP_LOG_WARNING, &(tp__log_subject){.status = status}, "tool `%s` got no token: %s",
            run->name, full.message);
  }
  if (status == TP_OK) return TP_ANSWER_DEFERRED;
  return tp_tool_error(run, tp_text_of(fault.message));
}

tp__tool_attempt *tp__tool_run_odd(tp_tool_run *run, tp_answer kind) {
  tp__tool_attempt *attempt = run->attempt;
  if (attempt && (kind == TP_ANSWER_DEFERRED || !tp__attempt_revoke(&attempt->base))) return attempt;
  if (attempt) tp__attempt_unref(&attempt->base);
  run->attempt = NULL;
  run->said.flaws |= TP__SAID_ERROR;
  if (!is_answer(kind)) run->said = no_answer;
  if (attempt || kind == TP_ANSWER_DEFERRED) run->said = malformed;
  return NULL;
}

void tp__tool_run_await(tp__tool_attempt *attempt, int64_t deadline_ns, tp__tool_settled_fn settled_fn, void *ctx) {
  attempt->settled = settled_fn;
  attempt->ctx = ctx;
  tp__attempt_await(&attempt->base, deadline_ns);
}

/* ---- any other tool, on a handler thread or through its inbox ---- */

static handed *new_handed(const tp_tool_run *run) {
  tp_runtime *runtime = run->turn->runtime;
  size_t block_size;
  handed *h = tp__block_take(&runtime->blocks, BLOCK_BYTES, &block_size);
  if (!h) return NULL;
  *h = (handed){.run = *run, .block_size = block_size, .attempt = {.bytes_max = run->bytes_max}};
  h->blocks = tp__tool_blocks(runtime);
  tp__arena_init(&h->arena, &h->blocks, h + 1, block_size - sizeof *h, 0);
  if (!tp__arena_text(&h->arena, *run->call_id, &h->call_id) ||
      !tp__arena_text(&h->arena, *run->arguments, &h->arguments) ||
      tp__attempt_init(&h->attempt.base, &class, &run->turn->strand) != TP_OK) {
    tp__arena_fini(&h->arena);
    tp__block_give(&runtime->blocks, h, block_size);
    return NULL;
  }
  h->run.call_id = &h->call_id;
  h->run.arguments = &h->arguments;
  h->run.arena = &h->arena;
  h->run.attempt = &h->attempt;
  tp__turn_hold(run->turn);
  return h;
}

tp_reason tp__tool_run_start(const tp_tool_run *run, const tp__tool_entry *tool, tp__tool_settled_fn settled_fn,
                             void *ctx, tp__tool_attempt **ret_attempt) {
  handed *h = new_handed(run);
  if (!h) return TP_REASON_NO_MEMORY;
  h->function = tool->run;
  h->self = tool->self;
  h->attempt.settled = settled_fn;
  h->attempt.ctx = ctx;
  h->attempt.closure = tp__closure_ref(tool->closure);
  tp__attempt *base = &h->attempt.base;
  base->pool_item.lane = TP__LANE_UPPER;
  base->pool_item.permits = tool->permits;
  base->pool_item.permits_max = tool->concurrent_max;
  base->pool_item.name = tool->name.data;
  base->pool_item.phase = TP_PHASE_TOOL_PRE;
  base->pool_item.inbox = tool->inbox;
  base->inbox_item.work = (tp_work){
      .struct_size = sizeof(tp_work), .kind = TP_WORK_TOOL, .self = tool->self, .run = &h->run};
  tp_reason refused = tool->inbox ? tp__attempt_offer_permitted(base, run->turn->deadline_ns, tool->limit_ns)
                                  : tp__attempt_start(base, run->turn->deadline_ns, tool->limit_ns);
  if (refused) tp__attempt_unref(base);
  else *ret_attempt = &h->attempt;
  return refused;
}

void tp__tool_run_cancel(tp__tool_attempt *attempt) { tp__attempt_expire(&attempt->base, TP__CANCELLED); }
