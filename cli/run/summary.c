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

static tp_text turn_of(tp_text event) { return cli_event_text(tp_value_get(event, "ids"), "turn"); }

static void add_line(cli_summary_lines *lines, const sentence *s) {
  if (lines->count++ < CLI_SUMMARY_LINES_MAX) memcpy(lines->lines[lines->count - 1], s->text, sizeof s->text);
}

/* ---- of the events of a turn ---- */

/** Texts that were recalled in one turn from other sessions. */
typedef struct recall {
  sentence words;
  size_t count;
} recall;

static void add_sources(const cli_summary *summary, recall *r, tp_text event) {
  tp_text session = cli_event_text(tp_value_get(event, "ids"), "session");
  tp_text sources = tp_value_get(tp_value_get(event, "contribution"), "sources");
  for (tp_value_walk walk = {0}; tp_value_next(sources, &walk);) {
    const char *source_session = cli_conversation_find(summary->conversation, tp_value_text(walk.value), session);
    if (!source_session) continue;
    append(&r->words, "%s%.*s (session %s)", r->count++ ? ", " : "", TEXT(tp_value_text(walk.value)), source_session);
  }
}

static void add_run_event(cli_summary *summary, tp_text event) {
  tp_text run = tp_value_get(event, "run"), state = cli_event_text(run, "state"), text = cli_event_text(event, "text");
  bool missed = cli_text_is(state, "timed_out");
  if (!missed && !cli_text_is(state, "failed")) return;
  sentence s = {.size = 0};
  append(&s, "%.*s in turn %.*s", TEXT(cli_event_text(run, "subscription")), TEXT(turn_of(event)));
  if (missed)
    append(&s, ", given up after %.0f ms",
           (double)(cli_event_int(run, "ended_ns") - cli_event_int(run, "queued_ns")) / 1e6);
  else if (text.size) append(&s, ": %.*s", TEXT(text));
  add_line(missed ? &summary->missed : &summary->failures, &s);
}

static void add_denial(cli_summary *summary, tp_text event, tp_text what, tp_text why) {
  sentence s = {.size = 0};
  append(&s, "%.*s in turn %.*s: %.*s", TEXT(what), TEXT(turn_of(event)), TEXT(why));
  add_line(&summary->denials, &s);
}

static void add_call(cli_summary *summary, tp_text event) {
  tp_text result = tp_value_get(event, "tool_result"), kind = cli_event_text(result, "kind");
  summary->calls++;
  summary->calls_ok += cli_text_is(kind, "ok");
  if (cli_text_is(kind, "denied"))
    add_denial(summary, event, cli_event_text(result, "name"), cli_event_text(result, "text"));
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

static void batch_add(batch *b, tp_text event) {
  int64_t index = cli_event_int(event, "call_index");
  if (!tp_value_bool(tp_value_get(tp_value_get(event, "tool_result"), "started"), false)) return;
  b->turn = turn_of(event);
  b->overtaken = b->overtaken || (b->count > 0 && index < b->last_index);
  b->last_index = index;
  tp_text name = cli_event_text(tp_value_get(event, "tool_call"), "name");
  append(&b->ended, "%s%.*s", b->count++ ? ", " : "", TEXT(name));
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
    tp_text event = cli_events_get(events, i), kind = cli_event_text(event, "event");
    if (cli_text_is(kind, "turn_begin")) turn = turn_of(event);
    else if (cli_text_is(kind, "run")) add_run_event(summary, event);
    else if (cli_text_is(kind, "tool_end")) add_call(summary, event), batch_add(&b, event);
    else if (cli_text_is(kind, "model_begin") || cli_text_is(kind, "turn_end")) batch_end(summary, &b);
    else if (cli_text_is(kind, "context") &&
             tp_value_count(tp_value_get(tp_value_get(event, "contribution"), "sources")) > 0) {
      summary->recalled++;
      if (summary->recalls.count < CLI_SUMMARY_LINES_MAX) add_sources(summary, &r, event);
    } else if (cli_text_is(kind, "result") && outcome == TP_TURN_DENIED)
      add_denial(summary, event, tp_text_of("the turn itself"), cli_event_text(event, "reason"));
  }
  if (r.count == 0) return;
  sentence s = {.size = 0};
  append(&s, "in turn %.*s what was said in %s", TEXT(turn), r.words.text);
  add_line(&summary->recalls, &s);
}

void cli_summary_add_dead(cli_summary *summary, tp_text event) {
  tp_text ids = tp_value_get(event, "ids"), why = cli_event_text(event, "text");
  sentence s = {.size = 0};
  if (why.size == 0) why = cli_event_text(event, "reason");
  append(&s, "%.*s in turn %.*s (session %.*s), after %lld attempts: %.*s", TEXT(cli_event_text(event, "handler")),
         TEXT(turn_of(event)), TEXT(cli_event_text(ids, "session")), (long long)cli_event_int(event, "attempts"),
         TEXT(why));
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
