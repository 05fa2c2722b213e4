/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/summary.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/run/timeline.h"
#include "runtime/base/check.h"
#include "runtime/base/printf.h"

/* ---- sentences ---- */

/** A sentence that is being written; the part that does not fit is cut. */
typedef struct sentence {
  char text[CLI_SUMMARY_LINE_SIZE];
  size_t size;
} sentence;

/* What "%.*s" takes. */
#define TEXT(text) (int)(text).size, (text).data

/* The part that does not fit is cut before a code point. */
static void append(sentence *s, const char *format, ...) TP__PRINTF(2, 3);
static void append(sentence *s, const char *format, ...) {
  size_t left = sizeof s->text - s->size, bad;
  va_list args;
  va_start(args, format);
  int size = vsnprintf(s->text + s->size, left, format, args);
  va_end(args);
  if (size >= (int)left && !tp_utf8_valid(tp_text_of(s->text), &bad)) s->text[bad] = '\0';
  s->size += strlen(s->text + s->size);
}

static void add_line(cli_summary_lines *lines, const sentence *s) {
  if (lines->count++ < CLI_SUMMARY_LINES_MAX) memcpy(lines->lines[lines->count - 1], s->text, sizeof s->text);
}

/* ---- of the events of a turn ---- */

/** Texts that were recalled in one turn from other sessions. */
typedef struct recall {
  sentence words;
  size_t count;
} recall;

static void add_sources(const cli_summary *summary, recall *r, const cli_event *e) {
  for (tp_value_walk walk = {0}; tp_value_next(e->contribution.sources, &walk);) {
    const char *source_session =
        cli_conversation_find(summary->conversation, tp_value_text(walk.value), e->ids[TP_ID_SESSION]);
    if (!source_session) continue;
    append(&r->words, "%s%.*s (session %s)", r->count++ ? ", " : "", TEXT(tp_value_text(walk.value)), source_session);
  }
}

static void add_run_event(cli_summary *summary, const cli_event *e) {
  bool missed = e->run.state == TP_STATE_TIMED_OUT;
  if (!missed && e->run.state != TP_STATE_FAILED) return;
  sentence s = {.size = 0};
  append(&s, "%s in turn %.*s", e->run.subscription, TEXT(e->ids[TP_ID_TURN]));
  if (missed) append(&s, ", given up after %.0f ms", (double)(e->run.ended_ns - e->run.queued_ns) / 1e6);
  else if (e->event.text.size) append(&s, ": %.*s", TEXT(e->event.text));
  add_line(missed ? &summary->missed : &summary->failures, &s);
}

static void add_denial(cli_summary *summary, const cli_event *e, tp_text what, tp_text why) {
  sentence s = {.size = 0};
  append(&s, "%.*s in turn %.*s: %.*s", TEXT(what), TEXT(e->ids[TP_ID_TURN]), TEXT(why));
  add_line(&summary->denials, &s);
}

static void add_call(cli_summary *summary, const cli_event *e) {
  summary->calls++;
  summary->calls_ok += e->tool_result.kind == TP_TOOL_OK;
  if (e->tool_result.kind == TP_TOOL_DENIED) add_denial(summary, e, e->tool_result.name, e->tool_result.text);
}

/* ---- calls that overtook each other ---- */

/** The calls of one response as they ended. */
typedef struct batch {
  sentence ended;
  size_t count;
  int64_t last_index;
  bool overtaken;
  tp_text turn;
} batch;

static void batch_add(batch *b, const cli_event *e) {
  int64_t index = e->event.call_index;
  if (!e->tool_result.started) return;
  b->turn = e->ids[TP_ID_TURN];
  b->overtaken = b->overtaken || (b->count > 0 && index < b->last_index);
  b->last_index = index;
  append(&b->ended, "%s%.*s", b->count++ ? ", " : "", TEXT(e->tool_call.name));
}

static void batch_end(cli_summary *summary, batch *b) {
  if (b->overtaken) {
    sentence s = {.size = 0};
    append(&s, "in turn %.*s %zu ran at once and ended in another order than they were called: %s", TEXT(b->turn),
           b->count, b->ended.text);
    add_line(&summary->overtakings, &s);
  }
  *b = (batch){.count = 0};
}

void cli_summary_add(cli_summary *summary, const cli_events *events, tp_turn_outcome outcome) {
  assert(outcome >= 0 && (size_t)outcome < sizeof summary->outcomes / sizeof *summary->outcomes);
  recall r = {.count = 0};
  batch b = {.count = 0};
  tp_text turn = {0};
  summary->turns++;
  summary->outcomes[outcome]++;
  for (size_t i = 0; i < events->count; i++) {
    const cli_event *e = cli_events_get(events, i);
    tp_event_kind kind = e->event.kind;
    if (kind == TP_EVENT_TURN_BEGIN) turn = e->ids[TP_ID_TURN];
    else if (kind == TP_EVENT_RUN) add_run_event(summary, e);
    else if (kind == TP_EVENT_TOOL_END) add_call(summary, e), batch_add(&b, e);
    else if (kind == TP_EVENT_MODEL_BEGIN || kind == TP_EVENT_TURN_END) batch_end(summary, &b);
    else if (kind == TP_EVENT_CONTEXT && tp_value_count(e->contribution.sources) > 0) {
      summary->recalled++;
      if (summary->recalls.count < CLI_SUMMARY_LINES_MAX) add_sources(summary, &r, e);
    } else if (e->has_result && outcome == TP_TURN_DENIED)
      add_denial(summary, e, tp_text_of("the turn itself"), e->result.reason);
  }
  if (r.count == 0) return;
  sentence s = {.size = 0};
  append(&s, "in turn %.*s what was said in %s", TEXT(turn), r.words.text);
  add_line(&summary->recalls, &s);
}

void cli_summary_add_dead(cli_summary *summary, const cli_event *e) {
  sentence s = {.size = 0};
  tp_text why = e->job.message.size ? e->job.message : tp_text_of(tp_reason_name((tp_reason)e->job.reason));
  append(&s, "%.*s in turn %.*s (session %.*s), after %u attempts: %.*s", TEXT(e->job.handler),
         TEXT(e->ids[TP_ID_TURN]), TEXT(e->ids[TP_ID_SESSION]), e->job.attempt, TEXT(why));
  add_line(&summary->dead_letters, &s);
}

/* ---- printing ---- */

static void print_lines(cli_output *output, const cli_summary_lines *lines) {
  size_t shown = lines->count < CLI_SUMMARY_LINES_MAX ? lines->count : CLI_SUMMARY_LINES_MAX;
  for (size_t i = 0; i < shown; i++) {
    cli_print_string(output, "    - ");
    cli_print_cut(output, tp_text_of(lines->lines[i]), CLI_SUMMARY_LINE_SIZE);
    cli_print(output, "\n", 1);
  }
  if (shown < lines->count) cli_printf(output, "    - and %zu more\n", lines->count - shown);
}

static const char *plural(size_t count) { return count == 1 ? "" : "s"; }

static void print_turns(const cli_summary *summary, cli_output *output) {
  const char *before = ":";
  cli_printf(output, "  %zu session%s, %zu turn%s", summary->sessions, plural(summary->sessions), summary->turns,
             plural(summary->turns));
  for (int i = 0; i <= TP_TURN_TIMED_OUT; i++) {
    if (summary->outcomes[i] == 0) continue;
    cli_printf(output, "%s %zu %s", before, summary->outcomes[i], tp_turn_outcome_name((tp_turn_outcome)i));
    before = ",";
  }
  cli_print(output, "\n", 1);
}

void cli_summary_print(const cli_summary *summary, cli_output *output) {
  cli_print_string(output, "\n");
  cli_paint_on(output, CLI_BOLD);
  cli_print_string(output, "In short\n");
  cli_paint_off(output);
  print_turns(summary, output);
  if (summary->recalled > 0)
    cli_printf(output, "  memory: %zu time%s something said before was put in front of the model%s\n",
               summary->recalled, plural(summary->recalled), summary->recalls.count ? "; from other sessions:" : "");
  print_lines(output, &summary->recalls);
  if (summary->calls > 0)
    cli_printf(output, "  tools: %zu call%s, %zu ok\n", summary->calls, plural(summary->calls), summary->calls_ok);
  print_lines(output, &summary->overtakings);
  if (summary->missed.count > 0)
    cli_printf(output, "  deadlines: %zu missed; the turn%s did not wait longer\n", summary->missed.count,
               plural(summary->missed.count));
  print_lines(output, &summary->missed);
  if (summary->denials.count > 0) cli_printf(output, "  guards: %zu denied\n", summary->denials.count);
  print_lines(output, &summary->denials);
  if (summary->failures.count > 0) cli_printf(output, "  handlers: %zu failed\n", summary->failures.count);
  print_lines(output, &summary->failures);
  if (summary->dead_letters.count > 0)
    cli_printf(output, "  background: %zu job%s failed for good; what would have been kept is lost\n",
               summary->dead_letters.count, plural(summary->dead_letters.count));
  print_lines(output, &summary->dead_letters);
  if (summary->jobs_lost > 0)
    cli_printf(output, "  background: %zu job%s not done when the run ended\n", summary->jobs_lost,
               plural(summary->jobs_lost));
}
