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

static cli_paint paint_of(uint8_t state, uint8_t verdict) {
  if (verdict == TP_VERDICT_DENY || state == TP_STATE_FAILED || state == TP_STATE_INTERRUPTED) return CLI_BAD;
  if (verdict == TP_VERDICT_ASK || state == TP_STATE_TIMED_OUT || state == TP_STATE_CANCELLED) return CLI_WARN;
  return state == TP_STATE_SKIPPED ? CLI_FAINT : CLI_GOOD;
}

/* A verdict says more than that its handler succeeded. A reason that only repeats the state is left out. */
static void write_state(const tp_run_record *run, char *ret_words, size_t size) {
  bool has_verdict = run->state == TP_STATE_SUCCEEDED && run->verdict != TP_VERDICT_NONE;
  const char *word = has_verdict ? tp_verdict_name((tp_verdict)run->verdict) : tp_state_name((tp_state)run->state);
  bool has_reason =
      run->reason != TP_REASON_NONE && run->reason != TP_REASON_TIMEOUT && run->reason != TP_REASON_CANCELLED;
  snprintf(ret_words, size, "%s%s%s%s", word, has_reason ? " (" : "",
           has_reason ? tp_reason_name((tp_reason)run->reason) : "", has_reason ? ")" : "");
}

static void write_note(const cli_event *e, tp__bytes *note) {
  tp_text message = e->event.text;
  if (e->run.state == TP_STATE_TIMED_OUT) tp__bytes_put_string(note, "missed its deadline");
  else if (e->run.execution == TP_EXECUTION_FIRE_AND_RECORD) tp__bytes_put_string(note, "not waited for");
  if (note->size && message.size) tp__bytes_put_string(note, "  ");
  size_t size = size_of(message, CUT_WIDTH);
  cli_visible_line((tp_text){message.data, size}, false, note);
  if (message.size > size) tp__bytes_put_string(note, "…");
}

static void print_run(timeline *t, const cli_event *e) {
  const tp_run_record *run = &e->run;
  char words[96], duration[32], name[TP_ID_BYTES_MAX + 3];
  tp__bytes note = {0};
  write_state(run, words, sizeof words);
  write_note(e, &note);
  snprintf(name, sizeof name, "  %s", run->subscription);
  const cli_cell cells[COLUMNS] = {
      [NAME] = {tp_text_of(name), CLI_NORMAL},
      [STATE] = {tp_text_of(words), paint_of(run->state, run->verdict)},
      [DURATION] = {run->started_ns ? duration_of(run->ended_ns - run->started_ns, duration) : (tp_text){0},
                    CLI_NORMAL},
      [NOTE] = {tp__bytes_text(&note), CLI_NORMAL},
  };
  print_row(t, columns, cells);
  tp__bytes_fini(&note);
}

/* When several entries of a phase run at once (gates of tool calls), each has one run of every subscription. The first
 * remaining run of each subscription is assigned to the entry that ended. */
static bool seen_in(const timeline *t, const size_t *taken, size_t count, const char *subscription) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(cli_events_get(t->events, taken[i])->run.subscription, subscription) == 0) return true;
  return false;
}

static bool same_phase(const cli_event *a, const cli_event *b) { return a->event.phase == b->event.phase; }

static size_t take_runs(timeline *t, const cli_event *phase_end, size_t *ret_taken) {
  size_t taken = 0, left = 0;
  for (size_t i = 0; i < t->runs.count; i++) {
    const cli_event *e = cli_events_get(t->events, t->runs.items[i]);
    if (same_phase(e, phase_end) && !seen_in(t, ret_taken, taken, e->run.subscription))
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

static void print_context(timeline *t, const cli_event *e) {
  bool recalled = tp_value_count(e->contribution.sources) > 0;
  print_key(t, e->event.time_ns, recalled ? "recalled" : "context");
  cli_paint_on(t->output, CLI_NOTE);
  if (recalled) print_sources(t->output, e->contribution.sources);
  else cli_print_cut(t->output, tp_text_of(e->event.subscription), CUT_WIDTH);
  cli_paint_off(t->output);
  cli_print_string(t->output, "  ");
  cli_print_cut(t->output, e->contribution.text, CUT_WIDTH);
  cli_print(t->output, "\n", 1);
}

static void print_words_of(timeline *t, const cli_event *e, const char *key) {
  print_key(t, e->event.time_ns, key);
  cli_print_cut(t->output, tp_text_of(e->event.subscription), CUT_WIDTH);
  cli_print_string(t->output, ": ");
  cli_print_cut(t->output, e->contribution.text, CUT_WIDTH);
  cli_print(t->output, "\n", 1);
}

/* Whether the event is about a run of this subscription, in this phase, that did not succeed. */
static bool is_trouble_of(const cli_event *e, const cli_event *other) {
  if (e->event.kind != TP_EVENT_RUN || !same_phase(e, other) || e->run.state == TP_STATE_SUCCEEDED) return false;
  return other->event.subscription && strcmp(e->run.subscription, other->event.subscription) == 0;
}

/* A handler's failure has its own line; the library's diagnostic about it adds nothing. */
static bool repeats_a_run(const timeline *t, const cli_event *e) {
  for (size_t i = 0; i < t->events->count; i++)
    if (is_trouble_of(cli_events_get(t->events, i), e)) return true;
  return false;
}

/* A warning that belongs to no phase. It is printed at once, because it waits for no end of a phase. */
static bool is_warning_of_turn(const cli_event *e) {
  return e->event.kind == TP_EVENT_DIAGNOSTIC && !e->event.phase && e->contribution.severity == TP_SEVERITY_WARNING;
}

static void print_warning(timeline *t, const cli_event *e) {
  print_key(t, e->event.time_ns, "note");
  cli_print_cut(t->output, e->event.text, 2 * CUT_WIDTH);
  cli_print(t->output, "\n", 1);
}

/* The contributions of an entry are printed directly before its end. */
static void print_contributed(timeline *t, const cli_event *phase_end) {
  size_t left = 0;
  for (size_t i = 0; i < t->contributed.count; i++) {
    const cli_event *e = cli_events_get(t->events, t->contributed.items[i]);
    if (!same_phase(e, phase_end)) t->contributed.items[left++] = t->contributed.items[i];
    else if (e->event.kind == TP_EVENT_CONTEXT) print_context(t, e);
    else if (e->event.kind == TP_EVENT_REMINDER) print_words_of(t, e, "reminder");
    else if (!repeats_a_run(t, e)) print_words_of(t, e, "note");
  }
  t->contributed.count = left;
}

/* ---- a phase as a whole ---- */

/* Whether the run has nothing to show except that it ran. */
static bool is_uneventful(const cli_event *e) {
  if (e->run.state != TP_STATE_SUCCEEDED && e->run.reason != TP_REASON_MATCH) return false;
  return e->run.verdict == TP_VERDICT_NONE && e->event.text.size == 0;
}

/* A phase that took almost no time and had no event is shown only when all are wanted. */
static bool is_worth_a_line(const timeline *t, const cli_event *phase_end, const size_t *runs, size_t run_count) {
  if (t->verbose || phase_end->event.status != TP_OK) return true;
  if (phase_end->event.ended_ns - phase_end->event.started_ns >= SHOWN_NS) return true;
  for (size_t i = 0; i < run_count; i++)
    if (!is_uneventful(cli_events_get(t->events, runs[i]))) return true;
  for (size_t i = 0; i < t->contributed.count; i++)
    if (same_phase(cli_events_get(t->events, t->contributed.items[i]), phase_end)) return true;
  return false;
}

static void print_phase(timeline *t, const cli_event *e) {
  size_t *taken = cli_alloc(t->runs.count * sizeof *taken);
  size_t count = take_runs(t, e, taken);
  if (!is_worth_a_line(t, e, taken, count)) {
    free(taken);
    return;
  }
  char at[32], duration[32], since[48] = "";
  int64_t started_ns = e->event.started_ns, ended_ns = e->event.ended_ns;
  bool is_late = started_ns < t->shown_ns;
  if (!is_late || ended_ns > t->shown_ns) t->shown_ns = is_late ? ended_ns : started_ns;
  if (is_late) snprintf(since, sizeof since, "since %.2f", ms(started_ns - t->began_ns));
  snprintf(at, sizeof at, "%.2f", ms(t->shown_ns - t->began_ns));
  bool denied = e->event.status == TP_ERR_DENIED, good = e->event.status == TP_OK;
  const cli_cell cells[COLUMNS] = {
      [AT] = {tp_text_of(at), CLI_FAINT},
      [KEY] = {tp_text_of("phase"), CLI_NORMAL},
      [NAME] = {tp_text_of(e->phase), CLI_BOLD},
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
  print_contributed(t, e);
}

/* ---- tools ---- */

/* A call that never began has no time of its own; it is placed where it ended. */
static int64_t begin_of(const cli_event *call) {
  bool has_times = call->event.ended_ns && call->event.started_ns;
  return has_times ? call->event.started_ns : call->event.time_ns;
}

static int64_t end_of(const cli_event *call) {
  return call->event.ended_ns ? call->event.ended_ns : call->event.time_ns;
}

static void write_bar(const cli_event *call, int64_t first_ns, int64_t last_ns, char bar[BAR_WIDTH + 3]) {
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

static void print_call(timeline *t, size_t place, const cli_event *e, int64_t first_ns, int64_t last_ns) {
  const tp_tool_result *result = &e->tool_result;
  bool has_bar = t->calls.count > 1 && (!t->output->width || t->output->width >= BAR_LEAST);
  char words[TP_ID_BYTES_MAX + 64], duration[32], bar[BAR_WIDTH + 3] = "";
  tp_text name = result->name;
  snprintf(words, sizeof words, "  %s to end: call %lld, %.*s", ordinal(place), (long long)e->event.call_index + 1,
           (int)(name.size < TP_ID_BYTES_MAX ? name.size : TP_ID_BYTES_MAX), name.data);
  if (has_bar) write_bar(e, first_ns, last_ns, bar);
  const cli_cell cells[COLUMNS] = {
      [NAME] = {tp_text_of(words), CLI_NORMAL},
      [STATE] = {tp_text_of(tp_tool_result_name(result->kind)), result->kind == TP_TOOL_OK ? CLI_GOOD : CLI_BAD},
      [DURATION] = {result->started ? duration_of(result->duration_ns, duration) : (tp_text){0}, CLI_NORMAL},
      [NOTE] = {tp_text_of(bar), CLI_NORMAL},
  };
  print_row(t, has_bar ? columns_with_bar : columns, cells);
  cli_printf(t->output, "%*s", TEXT_COLUMN + 4, "");
  cli_print_cut(t->output, result->text, t->output->width ? text_width(t->output) - 4 : SIZE_MAX);
  cli_print(t->output, "\n", 1);
}

/* A step that may take long is printed when it begins. */
static void print_call_step(timeline *t, const cli_event *e) {
  char words[96];
  print_key(t, e->event.time_ns, "tool");
  cli_printf(t->output, "call %lld, ", (long long)e->event.call_index + 1);
  cli_print_cut(t->output, e->tool_call.name, CUT_WIDTH);
  if (e->event.kind == TP_EVENT_TOOL_BEGIN) {
    cli_print_string(t->output, ", begins\n");
    return;
  }
  cli_event_progress(e, words, sizeof words);
  cli_printf(t->output, ", at%s", words);
  cli_print_cut(t->output, e->event.text, CUT_WIDTH);
  cli_print_string(t->output, "\n");
}

static void print_calls(timeline *t) {
  if (t->calls.count == 0) return;
  int64_t first_ns = INT64_MAX, last_ns = 0;
  for (size_t i = 0; i < t->calls.count; i++) {
    const cli_event *e = cli_events_get(t->events, t->calls.items[i]);
    if (begin_of(e) < first_ns) first_ns = begin_of(e);
    if (end_of(e) > last_ns) last_ns = end_of(e);
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

/* The call of the last response with this id; NULL: none. */
static const cli_event *call_of(const timeline *t, const char *id) {
  for (size_t i = 0; i < t->calls.count; i++) {
    const cli_event *e = cli_events_get(t->events, t->calls.items[i]);
    if (cli_text_is(e->tool_call.id, id)) return e;
  }
  return NULL;
}

/* Prints which results the model read, in the order of its request. */
static void print_results_read(timeline *t, const cli_request *request) {
  int64_t before = -1;
  bool in_call_order = true;
  cli_print_string(t->output, ", read the results of ");
  for (size_t i = 0; i < request->tool_result_count; i++) {
    const cli_event *call = call_of(t, request->tool_results[i]);
    int64_t place = call ? call->event.call_index : 0;
    if (before >= 0) cli_print_string(t->output, ", ");
    if (call) cli_print_cut(t->output, call->tool_call.name, CUT_WIDTH);
    in_call_order = in_call_order && place > before;
    before = place;
  }
  if (in_call_order && request->tool_result_count > 1) cli_print_string(t->output, " (in call order)");
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

static void print_delta(timeline *t, const cli_event *e) {
  tp_text text = e->event.text;
  if (!t->streams) {
    print_request_begin(t);
    print_key(t, e->event.time_ns, "answer");
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

static void print_model(timeline *t, const cli_event *e) {
  int64_t started_ns = e->event.started_ns, ended_ns = e->event.ended_ns;
  size_t messages = e->request.message_count;
  bool is_late = print_span_key(t, started_ns, ended_ns, "model");
  bool failed = e->event.status != TP_OK;
  t->asked_ns = 0;
  cli_paint_on(t->output, CLI_FAINT);
  cli_printf(t->output, "shown %zu message%s", messages, messages == 1 ? "" : "s");
  if (e->request.tool_result_count > 0) print_results_read(t, &e->request);
  if (t->retries > 0) cli_printf(t->output, ", retry %u with its pause", t->retries);
  if (failed) cli_print_string(t->output, ", did not answer");
  t->retries = failed ? t->retries + 1 : 0;
  cli_printf(t->output, ", %.2f ms", ms(ended_ns - started_ns));
  print_since(t, is_late, started_ns);
  cli_paint_off(t->output);
  cli_print(t->output, "\n", 1);
  bool printed = t->streamed;
  t->streamed = false;
  if (e->event.text.size == 0 || printed) return;
  cli_printf(t->output, "%*s", TEXT_COLUMN, "");
  print_wrapped(t->output, e->event.text);
}

/* ---- a turn ---- */

static void print_begin(timeline *t, const cli_event *e) {
  t->began_ns = e->event.time_ns;
  t->shown_ns = t->asked_ns = 0;
  t->retries = 0;
  cli_print_string(t->output, "\n  turn ");
  cli_paint_on(t->output, CLI_BOLD);
  cli_print_cut(t->output, e->ids[TP_ID_TURN], CUT_WIDTH);
  cli_paint_off(t->output);
  cli_print(t->output, "\n", 1);
  print_key(t, t->began_ns, "user");
  cli_paint_on(t->output, CLI_BOLD);
  print_wrapped(t->output, e->event.text);
  cli_paint_off(t->output);
}

/* For a turn that the history has: no event came with the answer. */
static void print_stored(timeline *t, const tp_turn_result *result) {
  print_key(t, t->began_ns, "model");
  cli_print_string(t->output, "not asked: the history has this turn\n");
  if (result->text.size == 0) return;
  cli_printf(t->output, "%*s", TEXT_COLUMN, "");
  print_wrapped(t->output, result->text);
}

static void print_end(timeline *t, const tp_turn_result *result) {
  if (result->is_stored) print_stored(t, result);
  const char *outcome = tp_turn_outcome_name(result->outcome), *note = cli_finish_note(result);
  const char *ending = tp_turn_ending_name(result->outcome, result->code);
  print_key(t, result->ended_ns, "end");
  bool denied = result->outcome == TP_TURN_DENIED;
  cli_paint_on(t->output, result->outcome == TP_TURN_COMPLETED ? CLI_GOOD : denied ? CLI_WARN : CLI_BAD);
  cli_print_string(t->output, outcome);
  cli_paint_off(t->output);
  bool names_more = strcmp(ending, outcome) != 0 && strcmp(ending, "error") != 0;
  if (names_more) cli_printf(t->output, " (%s)", ending);
  if (result->reason.size) {
    tp__bytes words = {0};
    cli_field_words(result->reason, true, &words);
    cli_print_string(t->output, ": ");
    cli_print_cut(t->output, tp__bytes_text(&words), 2 * CUT_WIDTH);
    tp__bytes_fini(&words);
  }
  if (note) {
    cli_print_string(t->output, ": ");
    cli_paint_on(t->output, CLI_WARN);
    cli_print_string(t->output, note);
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
  const cli_event *e = cli_events_get(t->events, index);
  bool is_after_call = e->phase && (strcmp(e->phase, "tool.result") == 0 || strcmp(e->phase, "tool.post") == 0);
  if (t->calls.count > 0 && is_after_call) append_index(&t->after_calls, index);
  else print_phase(t, e);
}

/* The calls are needed until the model has read their results. */
static void print_event(timeline *t, size_t index) {
  const cli_event *e = cli_events_get(t->events, index);
  if (e->event.kind == TP_EVENT_MODEL_DELTA) {
    print_delta(t, e);
    return;
  }
  end_stream(t);
  if (is_warning_of_turn(e)) {
    print_warning(t, e);
    return;
  }
  switch (e->event.kind) {
    case TP_EVENT_TURN_BEGIN:
      print_begin(t, e);
      break;
    case TP_EVENT_RUN:
      append_index(&t->runs, index);
      break;
    case TP_EVENT_PHASE_END:
      print_or_defer(t, index);
      break;
    case TP_EVENT_TOOL_BEGIN:
    case TP_EVENT_TOOL_PROGRESS:
      print_call_step(t, e);
      break;
    case TP_EVENT_TOOL_END:
      append_index(&t->calls, index);
      break;
    case TP_EVENT_MODEL_BEGIN:
    case TP_EVENT_TURN_END:
      print_calls(t);
      t->asked_ns = e->event.kind == TP_EVENT_MODEL_BEGIN ? e->event.time_ns : 0;
      break;
    case TP_EVENT_MODEL_END:
      print_model(t, e);
      t->calls.count = 0;
      break;
    case TP_EVENT_CONTEXT:
    case TP_EVENT_REMINDER:
    case TP_EVENT_DIAGNOSTIC:
      append_index(&t->contributed, index);
      break;
    default:
      if (e->has_result) print_end(t, &e->result);
  }
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
    t->began_ns = cli_events_get(t->events, 0)->event.time_ns;
    t->shown_ns = t->asked_ns = 0;
    cli_print_string(t->output, "\n  end of the session\n");
    for (size_t i = 0; i < t->events->count; i++) print_event(t, i);
  }
  if (!any_background) return;
  cli_paint_on(t->output, CLI_FAINT);
  cli_printf(t->output, "\n  background work of the session is done; it lasted %.1f ms more\n", ms(waited_ns));
  cli_paint_off(t->output);
}
