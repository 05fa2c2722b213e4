/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.c: gets the events of a turn as they come, and prints at once. Two kinds of events wait, because each is
 * shown as one block: the events of a phase, until it has ended, and the calls of a response, until the last has
 * ended. */
#include "cli/run/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/field.h"
#include "cli/common/pool.h"
#include "cli/common/quantity.h"
#include "cli/common/table.h"
#include "cli/common/visible.h"
#include "support/text.h"

enum { SHOWN_NS = 5000 }; /* "0.01 ms" from here on */
enum { WIDTH = 112, TEXT_COLUMN = 20, CUT_WIDTH = 150, BAR_WIDTH = 24 };

/* A bar is only printed if there is space, because the durations say the same. */
enum { AT, KEY, NAME, STATE, DURATION, NOTE, COLUMNS, BAR_LEAST = 104 };
#define COLUMNS_WITH(note)                                                                            \
  {                                                                                                   \
    [AT] = {.head = "", .width = 9, .kind = CLI_COLUMN_RIGHT}, [KEY] = {.head = "", .width = 7},      \
    [NAME] = {.head = "", .width = 42, .least = 16}, [STATE] = {.head = "", .width = 20, .least = 9}, \
    [DURATION] = {.head = "", .width = 12, .least = 9, .kind = CLI_COLUMN_RIGHT}, [NOTE] = note       \
  }
#define NOTE_OF_RUN \
  { .head = "", .least = 1, .kind = CLI_COLUMN_TEXT }
#define NOTE_OF_CALL \
  { .head = "", .width = BAR_WIDTH + 2 }
static const cli_column columns[COLUMNS] = COLUMNS_WITH(NOTE_OF_RUN);
static const cli_column columns_with_bar[COLUMNS] = COLUMNS_WITH(NOTE_OF_CALL);

typedef cli_timeline timeline;

static double ms(int64_t ns) { return (double)ns / 1e6; }

/* ---- printing text ---- */

/* How many bytes of text fit into width columns. */
static size_t size_of(tp_text text, size_t width) {
  size_t at = 0;
  for (size_t used = 0, size; at < text.size; at += size) {
    cli_visibility visibility;
    size = cli_visible_step((tp_text){text.data + at, text.size - at}, NULL, &visibility);
    used += cli_columns((tp_text){text.data + at, size});
    if (used > width) break;
  }
  return at;
}

/* Prints without characters that a terminal would obey or hide. */
static void print_visible(cli_output *output, tp_text text) {
  tp__bytes line = {0};
  cli_visible_line(text, false, &line);
  cli_print(output, tp__bytes_string(&line), line.size);
  tp__bytes_fini(&line);
}

/* The bytes of the code point at text. */
static size_t step(tp_text text) {
  cli_visibility visibility;
  return cli_visible_step(text, NULL, &visibility);
}

void cli_print_cut(cli_output *output, tp_text text, size_t width) {
  size_t size = width == SIZE_MAX ? text.size : size_of(text, width);
  print_visible(output, (tp_text){text.data, size});
  if (size < text.size) cli_print_string(output, "…");
}

/* How much of text goes on a line: up to its end, a line end, or the last blank that fits. */
static size_t line_of(tp_text text, size_t width) {
  size_t at = 0, blank = 0;
  for (size_t used = 0; at < text.size;) {
    if (text.data[at] == '\n') return at;
    if (text.data[at] == ' ') blank = at;
    size_t size = step((tp_text){text.data + at, text.size - at});
    used += cli_columns((tp_text){text.data + at, size});
    if (used > width) return blank ? blank : at ? at : size;
    at += size;
  }
  return at;
}

/* Of the text that begins at TEXT_COLUMN. */
static size_t text_width(const cli_output *output) {
  size_t width = output->width && output->width < WIDTH ? output->width : WIDTH;
  return (width < 2 * TEXT_COLUMN ? 2 * TEXT_COLUMN : width) - TEXT_COLUMN;
}

static void print_wrapped(cli_output *output, tp_text text) {
  for (bool first = true; first || text.size > 0; first = false) {
    size_t size = line_of(text, text_width(output));
    if (!first) cli_printf(output, "%*s", TEXT_COLUMN, "");
    print_visible(output, (tp_text){text.data, size});
    cli_print(output, "\n", 1);
    if (size < text.size && (text.data[size] == ' ' || text.data[size] == '\n')) size++;
    text.data += size;
    text.size -= size;
  }
}

/* " 12.3 phase ": the left part of a line that begins something. */
static void print_key(timeline *t, int64_t at_ns, const char *key) {
  if (at_ns < t->shown_ns) at_ns = t->shown_ns;
  t->shown_ns = at_ns;
  cli_paint_on(t->output, CLI_FAINT);
  cli_printf(t->output, "%9.2f", ms(at_ns - t->began_ns));
  cli_paint_off(t->output);
  cli_printf(t->output, "  %-9s", key);
}

static tp_text duration_of(int64_t duration_ns, char words[32]) {
  snprintf(words, 32, "%.2f ms", ms(duration_ns));
  return tp_text_of(words);
}

/* Each row is a table of its own, because no row is known before it comes. */
static void print_row(timeline *t, const cli_column *of, const cli_cell *cells) {
  cli_table table;
  cli_table_begin(&table, t->output, of, COLUMNS, 0);
  table.below_indent = TEXT_COLUMN + 4;
  cli_table_row(&table, cells);
  cli_table_end(&table);
}

/* For a step with a duration: the line shows its beginning; if later lines were printed already, it shows its end.
 * @return whether the beginning must be named in the line. */
static bool print_span_key(timeline *t, int64_t started_ns, int64_t ended_ns, const char *key) {
  bool is_late = started_ns < t->shown_ns;
  print_key(t, is_late ? ended_ns : started_ns, key);
  return is_late;
}

static void print_since(timeline *t, bool is_late, int64_t started_ns) {
  if (is_late) cli_printf(t->output, " since %.2f", ms(started_ns - t->began_ns));
}

/* ---- phases ---- */

static cli_paint paint_of(tp_text state, tp_text verdict) {
  if (cli_text_is(verdict, "deny") || cli_text_is(state, "failed") || cli_text_is(state, "interrupted")) return CLI_BAD;
  if (cli_text_is(verdict, "ask") || cli_text_is(state, "timed_out") || cli_text_is(state, "cancelled"))
    return CLI_WARN;
  return cli_text_is(state, "skipped") ? CLI_FAINT : CLI_GOOD;
}

/* A verdict says more than that its handler succeeded. A reason that only repeats the state is left out. */
static void write_state(tp_text run, char *ret_words, size_t size) {
  tp_text state = cli_event_text(run, "state"), reason = cli_event_text(run, "reason"),
          verdict = cli_event_text(run, "verdict");
  tp_text word = cli_text_is(state, "succeeded") && !cli_text_is(verdict, "none") ? verdict : state;
  bool has_reason =
      !cli_text_is(reason, "none") && !cli_text_is(reason, "timeout") && !cli_text_is(reason, "cancelled");
  snprintf(ret_words, size, "%.*s%s%.*s%s", (int)word.size, word.data, has_reason ? " (" : "",
           has_reason ? (int)reason.size : 0, reason.data, has_reason ? ")" : "");
}

static void write_note(tp_text event, tp_text run, tp__bytes *note) {
  tp_text message = cli_event_text(event, "text");
  if (cli_text_is(cli_event_text(run, "state"), "timed_out")) tp__bytes_put_string(note, "missed its deadline");
  else if (cli_text_is(cli_event_text(run, "execution"), "fire_and_record"))
    tp__bytes_put_string(note, "not waited for");
  if (note->size && message.size) tp__bytes_put_string(note, "  ");
  size_t size = size_of(message, CUT_WIDTH);
  cli_visible_line((tp_text){message.data, size}, false, note);
  if (message.size > size) tp__bytes_put_string(note, "…");
}

static void print_run(timeline *t, tp_text event) {
  tp_text run = tp_value_get(event, "run"), subscription = cli_event_text(run, "subscription");
  int64_t started = cli_event_int(run, "started_ns"), ended = cli_event_int(run, "ended_ns");
  char words[96], duration[32], name[TP_ID_BYTES_MAX + 3];
  tp__bytes note = {0};
  write_state(run, words, sizeof words);
  write_note(event, run, &note);
  snprintf(name, sizeof name, "  %.*s", (int)subscription.size, subscription.data);
  cli_paint paint = paint_of(cli_event_text(run, "state"), cli_event_text(run, "verdict"));
  const cli_cell cells[COLUMNS] = {
      [NAME] = {tp_text_of(name), CLI_NORMAL},
      [STATE] = {tp_text_of(words), paint},
      [DURATION] = {started ? duration_of(ended - started, duration) : (tp_text){0}, CLI_NORMAL},
      [NOTE] = {tp__bytes_text(&note), CLI_NORMAL},
  };
  print_row(t, columns, cells);
  tp__bytes_fini(&note);
}

/* When several entries of a phase run at once (gates of tool calls), each has one run of every subscription. The first
 * remaining run of each subscription is assigned to the entry that ended. */
static bool seen_in(const timeline *t, const size_t *taken, size_t count, tp_text subscription) {
  for (size_t i = 0; i < count; i++) {
    tp_text other = cli_event_text(tp_value_get(cli_events_get(t->events, taken[i]), "run"), "subscription");
    if (tp__same(other, subscription)) return true;
  }
  return false;
}

static bool same_phase(tp_text a, tp_text b) {
  return tp__same(cli_event_text(a, "phase"), cli_event_text(b, "phase"));
}

static size_t take_runs(timeline *t, tp_text phase_end, size_t *ret_taken) {
  size_t taken = 0, left = 0;
  for (size_t i = 0; i < t->runs.count; i++) {
    tp_text event = cli_events_get(t->events, t->runs.items[i]);
    tp_text subscription = cli_event_text(tp_value_get(event, "run"), "subscription");
    if (same_phase(event, phase_end) && !seen_in(t, ret_taken, taken, subscription))
      ret_taken[taken++] = t->runs.items[i];
    else t->runs.items[left++] = t->runs.items[i];
  }
  t->runs.count = left;
  return taken;
}

/* ---- what handlers contributed ---- */

/* Ids help the reader to find the source: "p2", or "p2, p4". */
static void print_sources(cli_output *output, tp_text sources) {
  const char *between = "";
  for (tp_value_walk walk = {0}; tp_value_next(sources, &walk); between = ", ") {
    cli_print_string(output, between);
    cli_print_cut(output, tp_value_text(walk.value), CUT_WIDTH);
  }
}

static void print_context(timeline *t, tp_text event) {
  tp_text contribution = tp_value_get(event, "contribution"), sources = tp_value_get(contribution, "sources");
  bool recalled = tp_value_count(sources) > 0;
  print_key(t, cli_event_int(event, "time_ns"), recalled ? "recalled" : "context");
  cli_paint_on(t->output, CLI_NOTE);
  if (recalled) print_sources(t->output, sources);
  else cli_print_cut(t->output, cli_event_text(event, "subscription"), CUT_WIDTH);
  cli_paint_off(t->output);
  cli_print_string(t->output, "  ");
  cli_print_cut(t->output, cli_event_text(contribution, "text"), CUT_WIDTH);
  cli_print(t->output, "\n", 1);
}

static void print_words_of(timeline *t, tp_text event, const char *key) {
  print_key(t, cli_event_int(event, "time_ns"), key);
  cli_print_cut(t->output, cli_event_text(event, "subscription"), CUT_WIDTH);
  cli_print_string(t->output, ": ");
  cli_print_cut(t->output, cli_event_text(tp_value_get(event, "contribution"), "text"), CUT_WIDTH);
  cli_print(t->output, "\n", 1);
}

/* Whether the event is about a run of this subscription, in this phase, that did not succeed. */
static bool is_trouble_of(tp_text event, tp_text other, tp_text subscription) {
  tp_text run = tp_value_get(event, "run"), id = cli_event_text(run, "subscription");
  if (!cli_text_is(cli_event_text(event, "event"), "run") || !same_phase(event, other)) return false;
  if (cli_text_is(cli_event_text(run, "state"), "succeeded")) return false;
  return tp__same(id, subscription);
}

/* A handler's failure has its own line; the library's diagnostic about it adds nothing. */
static bool repeats_a_run(const timeline *t, tp_text event) {
  for (size_t i = 0; i < t->events->count; i++)
    if (is_trouble_of(cli_events_get(t->events, i), event, cli_event_text(event, "subscription"))) return true;
  return false;
}

/* A warning of the turn itself: there is no end of a phase before which it could be printed. */
static bool is_warning_of_turn(tp_text event) {
  tp_text severity = cli_event_text(tp_value_get(event, "contribution"), "severity");
  return cli_text_is(cli_event_text(event, "event"), "diagnostic") && cli_event_text(event, "phase").size == 0 &&
         cli_text_is(severity, "warning");
}

static void print_warning(timeline *t, tp_text event) {
  print_key(t, cli_event_int(event, "time_ns"), "note");
  cli_print_cut(t->output, cli_event_text(event, "text"), 2 * CUT_WIDTH);
  cli_print(t->output, "\n", 1);
}

/* The contributions of an entry are printed directly before its end. */
static void print_contributed(timeline *t, tp_text phase_end) {
  size_t left = 0;
  for (size_t i = 0; i < t->contributed.count; i++) {
    tp_text event = cli_events_get(t->events, t->contributed.items[i]), kind = cli_event_text(event, "event");
    if (!same_phase(event, phase_end)) t->contributed.items[left++] = t->contributed.items[i];
    else if (cli_text_is(kind, "context")) print_context(t, event);
    else if (cli_text_is(kind, "reminder")) print_words_of(t, event, "reminder");
    else if (!repeats_a_run(t, event)) print_words_of(t, event, "note");
  }
  t->contributed.count = left;
}

/* ---- a phase as a whole ---- */

/* Whether the run has nothing to show except that it ran. */
static bool is_uneventful(tp_text event) {
  tp_text run = tp_value_get(event, "run"), state = cli_event_text(run, "state");
  if (!cli_text_is(state, "succeeded") && !cli_text_is(cli_event_text(run, "reason"), "match")) return false;
  return cli_text_is(cli_event_text(run, "verdict"), "none") && cli_event_text(event, "text").size == 0;
}

/* A phase that took almost no time and had no event is shown only when all are wanted. */
static bool is_worth_a_line(const timeline *t, tp_text phase_end, const size_t *runs, size_t run_count) {
  if (t->verbose || !cli_text_is(cli_event_text(phase_end, "outcome"), "TP_OK")) return true;
  if (cli_event_int(phase_end, "ended_ns") - cli_event_int(phase_end, "started_ns") >= SHOWN_NS) return true;
  for (size_t i = 0; i < run_count; i++)
    if (!is_uneventful(cli_events_get(t->events, runs[i]))) return true;
  for (size_t i = 0; i < t->contributed.count; i++)
    if (same_phase(cli_events_get(t->events, t->contributed.items[i]), phase_end)) return true;
  return false;
}

static void print_phase(timeline *t, tp_text event) {
  tp_text outcome = cli_event_text(event, "outcome");
  size_t *taken = cli_alloc(t->runs.count * sizeof *taken);
  size_t count = take_runs(t, event, taken);
  if (!is_worth_a_line(t, event, taken, count)) {
    free(taken);
    return;
  }
  char at[32], duration[32], since[48] = "";
  int64_t started_ns = cli_event_int(event, "started_ns"), ended_ns = cli_event_int(event, "ended_ns");
  bool is_late = started_ns < t->shown_ns;
  if (!is_late || ended_ns > t->shown_ns) t->shown_ns = is_late ? ended_ns : started_ns;
  if (is_late) snprintf(since, sizeof since, "since %.2f", ms(started_ns - t->began_ns));
  snprintf(at, sizeof at, "%.2f", ms(t->shown_ns - t->began_ns));
  bool denied = cli_text_is(outcome, "TP_ERR_DENIED"), good = cli_text_is(outcome, "TP_OK");
  const cli_cell cells[COLUMNS] = {
      [AT] = {tp_text_of(at), CLI_FAINT},
      [KEY] = {tp_text_of("phase"), CLI_NORMAL},
      [NAME] = {cli_event_text(event, "phase"), CLI_BOLD},
      [STATE] = {tp_text_of(good     ? ""
                            : denied ? "denied"
                                     : "failed"),
                 CLI_BAD},
      [DURATION] = {duration_of(ended_ns - started_ns, duration), CLI_NORMAL},
      [NOTE] = {tp_text_of(since), CLI_NORMAL},
  };
  print_row(t, columns, cells);
  for (size_t i = 0; i < count; i++) print_run(t, cli_events_get(t->events, taken[i]));
  free(taken);
  print_contributed(t, event);
}

/* ---- tools ---- */

/* A call that never began has no time of its own; it is placed where it ended. */
static int64_t begin_of(tp_text call) {
  int64_t started = cli_event_int(call, "started_ns");
  return started ? started : cli_event_int(call, "time_ns");
}

static int64_t end_of(tp_text call) {
  int64_t ended = cli_event_int(call, "ended_ns");
  return ended ? ended : cli_event_int(call, "time_ns");
}

static void write_bar(tp_text call, int64_t first_ns, int64_t last_ns, char bar[BAR_WIDTH + 3]) {
  int64_t span = last_ns > first_ns ? last_ns - first_ns : 1;
  size_t from = (size_t)((begin_of(call) - first_ns) * BAR_WIDTH / span);
  size_t to = (size_t)((end_of(call) - first_ns) * BAR_WIDTH / span);
  memset(bar, ' ', BAR_WIDTH + 1);
  bar[0] = bar[BAR_WIDTH + 1] = '|';
  bar[BAR_WIDTH + 2] = '\0';
  if (from >= BAR_WIDTH) from = BAR_WIDTH - 1;
  memset(bar + 1 + from, '=', to > from ? to - from : 1);
}

static const char *ordinal(size_t number) {
  static const char *const words[] = {"1st", "2nd", "3rd"};
  return number < 3 ? words[number] : "then";
}

static void print_call(timeline *t, size_t place, tp_text event, int64_t first_ns, int64_t last_ns) {
  tp_text result = tp_value_get(event, "tool_result"), kind = cli_event_text(result, "kind");
  bool started = tp_value_bool(tp_value_get(result, "started"), false), ok = cli_text_is(kind, "ok");
  bool has_bar = t->calls.count > 1 && (!t->output->width || t->output->width >= BAR_LEAST);
  char words[TP_ID_BYTES_MAX + 64], duration[32], bar[BAR_WIDTH + 3] = "";
  tp_text name = cli_event_text(result, "name");
  snprintf(words, sizeof words, "  %s to end: call %lld, %.*s", ordinal(place),
           (long long)cli_event_int(event, "call_index") + 1,
           (int)(name.size < TP_ID_BYTES_MAX ? name.size : TP_ID_BYTES_MAX), name.data);
  if (has_bar) write_bar(event, first_ns, last_ns, bar);
  const cli_cell cells[COLUMNS] = {
      [NAME] = {tp_text_of(words), CLI_NORMAL},
      [STATE] = {kind, ok ? CLI_GOOD : CLI_BAD},
      [DURATION] = {started ? duration_of(cli_event_int(result, "duration_ns"), duration) : (tp_text){0}, CLI_NORMAL},
      [NOTE] = {tp_text_of(bar), CLI_NORMAL},
  };
  print_row(t, has_bar ? columns_with_bar : columns, cells);
  cli_printf(t->output, "%*s", TEXT_COLUMN + 4, "");
  cli_print_cut(t->output, cli_event_text(result, "text"), t->output->width ? text_width(t->output) - 4 : SIZE_MAX);
  cli_print(t->output, "\n", 1);
}

/* A step that may take long is printed when it begins. */
static void print_call_begin(timeline *t, tp_text event) {
  print_key(t, cli_event_int(event, "time_ns"), "tool");
  cli_printf(t->output, "call %lld, ", (long long)cli_event_int(event, "call_index") + 1);
  cli_print_cut(t->output, cli_event_text(tp_value_get(event, "tool_call"), "name"), CUT_WIDTH);
  cli_print_string(t->output, ", begins\n");
}

static void print_call_progress(timeline *t, tp_text event) {
  char words[96];
  print_key(t, cli_event_int(event, "time_ns"), "tool");
  cli_printf(t->output, "call %lld, ", (long long)cli_event_int(event, "call_index") + 1);
  cli_print_cut(t->output, cli_event_text(tp_value_get(event, "tool_call"), "name"), CUT_WIDTH);
  cli_event_progress(event, words, sizeof words);
  cli_printf(t->output, ", at%s", words);
  cli_print_cut(t->output, cli_event_text(event, "text"), CUT_WIDTH);
  cli_print_string(t->output, "\n");
}

static void print_calls(timeline *t) {
  if (t->calls.count == 0) return;
  int64_t first_ns = INT64_MAX, last_ns = 0;
  for (size_t i = 0; i < t->calls.count; i++) {
    tp_text event = cli_events_get(t->events, t->calls.items[i]);
    if (begin_of(event) < first_ns) first_ns = begin_of(event);
    if (end_of(event) > last_ns) last_ns = end_of(event);
  }
  bool is_late = print_span_key(t, first_ns, last_ns, "tools");
  cli_printf(t->output, "%zu call%s", t->calls.count, t->calls.count > 1 ? "s at once" : "");
  print_since(t, is_late, first_ns);
  cli_print_string(t->output, "\n");
  for (size_t i = 0; i < t->calls.count; i++)
    print_call(t, i, cli_events_get(t->events, t->calls.items[i]), first_ns, last_ns);
  for (size_t i = 0; i < t->after_calls.count; i++) print_phase(t, cli_events_get(t->events, t->after_calls.items[i]));
  t->after_calls.count = 0;
}

/* ---- the model ---- */

/* The call of the last response with this id. */
static tp_text call_of(const timeline *t, tp_text id) {
  for (size_t i = 0; i < t->calls.count; i++) {
    tp_text event = cli_events_get(t->events, t->calls.items[i]);
    if (tp__same(cli_event_text(tp_value_get(event, "tool_call"), "id"), id)) return event;
  }
  return (tp_text){0};
}

/* Prints which results the model read, in the order of its request. */
static void print_results_read(timeline *t, tp_text results) {
  int64_t before = -1;
  bool in_call_order = true;
  cli_print_string(t->output, ", read the results of ");
  for (tp_value_walk walk = {0}; tp_value_next(results, &walk);) {
    tp_text call = call_of(t, tp_value_text(walk.value));
    int64_t place = cli_event_int(call, "call_index");
    if (before >= 0) cli_print_string(t->output, ", ");
    cli_print_cut(t->output, cli_event_text(tp_value_get(call, "tool_call"), "name"), CUT_WIDTH);
    in_call_order = in_call_order && place > before;
    before = place;
  }
  if (in_call_order && tp_value_count(results) > 1) cli_print_string(t->output, " (in call order)");
}

/* A response that is coming is printed word by word, because only a complete word knows its line. */

static void begin_stream_line(timeline *t) {
  cli_printf(t->output, "\n%*s", TEXT_COLUMN, "");
  t->column = 0;
}

static void end_word(timeline *t) {
  size_t width = cli_columns((tp_text){t->word, t->word_size});
  if (t->column > 0 && t->column + width > text_width(t->output)) begin_stream_line(t);
  print_visible(t->output, (tp_text){t->word, t->word_size});
  t->column += width;
  t->word_size = 0;
}

static void print_blank(timeline *t) {
  if (t->column >= text_width(t->output)) {
    begin_stream_line(t);
    return;
  }
  cli_print(t->output, " ", 1);
  t->column++;
}

/* An answer is printed below the beginning of its request. */
static void print_request_begin(timeline *t) {
  if (!t->asked_ns) return;
  print_key(t, t->asked_ns, "model");
  cli_paint_on(t->output, CLI_FAINT);
  cli_print_string(t->output, "begins\n");
  cli_paint_off(t->output);
  t->asked_ns = 0;
}

static void print_delta(timeline *t, tp_text event) {
  tp_text text = cli_event_text(event, "text");
  if (!t->streams) {
    print_request_begin(t);
    print_key(t, cli_event_int(event, "time_ns"), "answer");
    cli_output_stream(t->output, true);
    t->streams = t->streamed = true;
    t->column = 0;
  }
  for (size_t at = 0, size; at < text.size; at += size) {
    size = step((tp_text){text.data + at, text.size - at});
    bool blank = text.data[at] == ' ' || text.data[at] == '\n';
    if (blank || t->word_size + size > sizeof t->word) end_word(t);
    if (text.data[at] == '\n') {
      begin_stream_line(t);
    } else if (blank) {
      print_blank(t);
    } else {
      memcpy(t->word + t->word_size, text.data + at, size);
      t->word_size += size;
    }
  }
}

static void end_stream(timeline *t) {
  if (!t->streams) return;
  end_word(t);
  cli_print(t->output, "\n", 1);
  cli_output_stream(t->output, false);
  t->streams = false;
}

static void print_model(timeline *t, tp_text event) {
  tp_text request = tp_value_get(event, "request"), results = tp_value_get(request, "tool_results");
  tp_text text = cli_event_text(event, "text");
  bool is_late = print_span_key(t, cli_event_int(event, "started_ns"), cli_event_int(event, "ended_ns"), "model");
  bool failed = !cli_text_is(cli_event_text(event, "outcome"), "TP_OK");
  t->asked_ns = 0;
  cli_paint_on(t->output, CLI_FAINT);
  cli_printf(t->output, "shown %lld message%s", (long long)cli_event_int(request, "message_count"),
             cli_event_int(request, "message_count") == 1 ? "" : "s");
  if (tp_value_count(results) > 0) print_results_read(t, results);
  if (t->retries > 0) cli_printf(t->output, ", retry %u with its pause", t->retries);
  if (failed) cli_print_string(t->output, ", did not answer");
  t->retries = failed ? t->retries + 1 : 0;
  cli_printf(t->output, ", %.2f ms", ms(cli_event_int(event, "ended_ns") - cli_event_int(event, "started_ns")));
  print_since(t, is_late, cli_event_int(event, "started_ns"));
  cli_paint_off(t->output);
  cli_print(t->output, "\n", 1);
  bool printed = t->streamed;
  t->streamed = false;
  if (text.size == 0 || printed) return;
  cli_printf(t->output, "%*s", TEXT_COLUMN, "");
  print_wrapped(t->output, text);
}

/* ---- a turn ---- */

static void print_begin(timeline *t, tp_text event) {
  t->began_ns = cli_event_int(event, "time_ns");
  t->shown_ns = t->asked_ns = 0;
  t->retries = 0;
  cli_print_string(t->output, "\n  turn ");
  cli_paint_on(t->output, CLI_BOLD);
  cli_print_cut(t->output, cli_event_text(tp_value_get(event, "ids"), "turn"), CUT_WIDTH);
  cli_paint_off(t->output);
  cli_print(t->output, "\n", 1);
  print_key(t, t->began_ns, "user");
  cli_paint_on(t->output, CLI_BOLD);
  print_wrapped(t->output, cli_event_text(event, "text"));
  cli_paint_off(t->output);
}

/* For a turn that the history has: no event came with the answer. */
static void print_stored(timeline *t, tp_text result) {
  print_key(t, t->began_ns, "model");
  cli_print_string(t->output, "not asked: the history has this turn\n");
  if (cli_event_text(result, "text").size == 0) return;
  cli_printf(t->output, "%*s", TEXT_COLUMN, "");
  print_wrapped(t->output, cli_event_text(result, "text"));
}

static void print_end(timeline *t, tp_text result) {
  if (tp_value_bool(tp_value_get(result, "stored"), false)) print_stored(t, result);
  tp_text outcome = cli_event_text(result, "outcome"), reason = cli_event_text(result, "reason");
  print_key(t, cli_event_int(result, "ended_ns"), "end");
  bool denied = cli_text_is(outcome, "denied");
  cli_paint_on(t->output, cli_text_is(outcome, "completed") ? CLI_GOOD : denied ? CLI_WARN : CLI_BAD);
  cli_print(t->output, outcome.data, outcome.size);
  cli_paint_off(t->output);
  tp_text ending = cli_event_text(result, "ending");
  bool names_more = !tp__same(ending, outcome) && !cli_text_is(ending, "error");
  if (names_more) cli_printf(t->output, " (%.*s)", (int)ending.size, ending.data);
  if (reason.size) {
    tp__bytes words = {0};
    cli_field_words(reason, true, &words);
    cli_print_string(t->output, ": ");
    cli_print_cut(t->output, tp__bytes_text(&words), 2 * CUT_WIDTH);
    tp__bytes_fini(&words);
  }
  tp_text note = cli_event_text(result, "note");
  if (note.size) {
    cli_print_string(t->output, ": ");
    cli_paint_on(t->output, CLI_WARN);
    cli_print(t->output, note.data, note.size);
    cli_paint_off(t->output);
  }
  cli_print(t->output, "\n", 1);
}

static void append_index(cli_numbers *list, size_t index) {
  list->items = cli_reserve(list->items, list->count, &list->capacity, sizeof *list->items);
  list->items[list->count++] = index;
}

/* The phases after a call are printed after the block of the calls. */
static void print_or_defer(timeline *t, size_t index) {
  tp_text event = cli_events_get(t->events, index), phase = cli_event_text(event, "phase");
  if (t->calls.count > 0 && (cli_text_is(phase, "tool.result") || cli_text_is(phase, "tool.post")))
    append_index(&t->after_calls, index);
  else print_phase(t, event);
}

/* The calls are needed until the model has read their results. */
static void print_event(timeline *t, size_t index) {
  tp_text event = cli_events_get(t->events, index), kind = cli_event_text(event, "event");
  if (cli_text_is(kind, "model_delta")) {
    print_delta(t, event);
    return;
  }
  end_stream(t);
  if (cli_text_is(kind, "turn_begin")) print_begin(t, event);
  else if (cli_text_is(kind, "run")) append_index(&t->runs, index);
  else if (cli_text_is(kind, "phase_end")) print_or_defer(t, index);
  else if (cli_text_is(kind, "tool_begin")) print_call_begin(t, event);
  else if (cli_text_is(kind, "tool_progress")) print_call_progress(t, event);
  else if (cli_text_is(kind, "tool_end")) append_index(&t->calls, index);
  else if (cli_text_is(kind, "model_begin") || cli_text_is(kind, "turn_end")) {
    print_calls(t);
    t->asked_ns = cli_text_is(kind, "model_begin") ? cli_event_int(event, "time_ns") : 0;
  } else if (cli_text_is(kind, "model_end")) {
    print_model(t, event);
    t->calls.count = 0;
  } else if (is_warning_of_turn(event)) print_warning(t, event);
  else if (cli_text_is(kind, "context") || cli_text_is(kind, "reminder") || cli_text_is(kind, "diagnostic"))
    append_index(&t->contributed, index);
  else if (cli_text_is(kind, "result")) print_end(t, event);
}

void cli_timeline_session(cli_output *output, const char *session, const char *tenant, const char *workspace) {
  cli_print_string(output, "\nsession ");
  cli_paint_on(output, CLI_BOLD);
  cli_print_cut(output, tp_text_of(session), CUT_WIDTH);
  cli_paint_off(output);
  cli_paint_on(output, CLI_FAINT);
  if (tenant) cli_printf(output, "   tenant %s", tenant);
  if (workspace) cli_printf(output, "   workspace %s", workspace);
  cli_paint_off(output);
  cli_print(output, "\n", 1);
}

void cli_timeline_show(cli_timeline *t, size_t index) { print_event(t, index); }

void cli_timeline_clear(cli_timeline *t) {
  end_stream(t);
  t->streamed = false;
  t->runs.count = t->calls.count = t->contributed.count = t->after_calls.count = 0;
}

void cli_timeline_free(cli_timeline *t) {
  free(t->runs.items);
  free(t->calls.items);
  free(t->contributed.items);
  free(t->after_calls.items);
}

void cli_timeline_session_end(cli_timeline *t, bool any_background, int64_t waited_ns) {
  if (t->events->count > 0) {
    t->began_ns = cli_event_int(cli_events_get(t->events, 0), "time_ns");
    t->shown_ns = t->asked_ns = 0;
    cli_print_string(t->output, "\n  end of the session\n");
    for (size_t i = 0; i < t->events->count; i++) print_event(t, i);
  }
  if (!any_background) return;
  cli_paint_on(t->output, CLI_FAINT);
  cli_printf(t->output, "\n  background work of the session is done; it lasted %.1f ms more\n", ms(waited_ns));
  cli_paint_off(t->output);
}
