/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/chat/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/field.h"
#include "cli/common/pool.h"
#include "cli/common/quantity.h"
#include "cli/common/visible.h"
#include "cli/run/timeline.h"

enum { WIDTH = 80, DURATION_SIZE = 32, NAME_MAX_SHOWN = 40 };

typedef cli_screen screen;

/* ---- text ---- */

static void put(screen *s, const char *text, size_t size) {
  if (s->in_answer) cli_prose_put(&s->prose, (tp_text){text, size});
  else cli_print(s->output, text, size);
}

/* Carriage returns are dropped: on a terminal the text after them would overwrite the line. */
void cli_screen_text(screen *s, tp_text text) {
  size_t printed = 0, at = 0; /* the text between them is visible, and not printed yet */
  if (text.size == 0) return; /* data may be NULL */
  while (at < text.size) {
    uint32_t code;
    cli_visibility visibility;
    char number[CLI_ESCAPE_SIZE];
    size_t size = cli_visible_step((tp_text){text.data + at, text.size - at}, &code, &visibility);
    if (visibility != CLI_VISIBLE && code != '\n' && code != '\t') {
      put(s, text.data + printed, at - printed);
      if (code != '\r') put(s, number, cli_visible_escape(code, number));
      printed = at + size;
    }
    at += size;
  }
  put(s, text.data + printed, at - printed);
  s->open = text.data[text.size - 1] != '\n';
}

static void begin_answer(screen *s) {
  if (s->in_answer || !s->lays_out) return;
  s->prose = (cli_prose){.output = s->output, .width = s->width ? s->width : WIDTH, .marks = s->prose.marks};
  s->in_answer = true;
}

/* The cursor stays where it is, after text that a person has typed meanwhile. */
void cli_screen_sign(screen *s, unsigned seconds) {
  if (seconds == 0) {
    if (s->has_sign) cli_print_string(s->output, "\r\033[K");
    s->has_sign = false;
    return;
  }
  if (s->open || s->in_thought) return;
  if (s->has_sign) cli_print_string(s->output, "\0337\r");
  cli_paint_on(s->output, CLI_FAINT);
  cli_printf(s->output, "  … %u s", seconds);
  cli_paint_off(s->output);
  cli_print_string(s->output, s->has_sign ? "\0338" : " ");
  s->has_sign = true;
}

void cli_screen_line_end(screen *s) {
  cli_screen_sign(s, 0);
  if (s->in_answer) s->open = cli_prose_end(&s->prose) || s->caret;
  s->in_answer = s->caret = false;
  if (s->open) cli_print(s->output, "\n", 1);
  s->open = false;
}

/* ---- what the model thinks ---- */

/* Thinking is on a line of its own, folded or not. @param size  of the code point. */
static void print_thought_step(screen *s, const char *at, size_t size, uint32_t code, cli_visibility visibility) {
  size_t last = (s->width ? s->width : WIDTH) - 2; /* as print_rest() */
  char number[CLI_ESCAPE_SIZE];
  bool is_line_end = code == '\n', is_blank = code == ' ' || code == '\t' || code == '\r' || is_line_end;
  tp_text shown = {at, size};
  if (s->thinks_whole && is_line_end && s->thought_columns > 0) {
    cli_print(s->output, "\n", 1);
    s->thought_columns = 0;
    s->open = false;
  }
  if (is_blank) {
    s->thought_blank = s->thought_columns > 4;
    return;
  }
  if (visibility != CLI_VISIBLE) shown = (tp_text){number, cli_visible_escape(code, number)};
  if (s->thought_columns == 0) {
    cli_print_string(s->output, "  · ");
    s->thought_columns = 4;
    s->open = true;
  }
  size_t columns = s->thought_blank + cli_columns(shown);
  s->thought_full = !s->thinks_whole && s->thought_columns + columns > last;
  if (s->thought_full) {
    cli_print_string(s->output, "…");
    return;
  }
  if (s->thought_blank) cli_print(s->output, " ", 1);
  s->thought_blank = false;
  cli_print(s->output, shown.data, shown.size);
  s->thought_columns += columns;
}

static void show_thinking(screen *s, tp_text piece) {
  if (!s->terminal && !s->verbose && !s->thinks_whole) return;
  if (!s->in_thought) {
    cli_screen_line_end(s);
    s->in_thought = true;
  }
  cli_paint_on(s->output, CLI_FAINT);
  for (size_t at = 0, size; at < piece.size && !s->thought_full; at += size) {
    uint32_t code;
    cli_visibility visibility;
    size = cli_visible_step((tp_text){piece.data + at, piece.size - at}, &code, &visibility);
    print_thought_step(s, piece.data + at, size, code, visibility);
  }
  cli_paint_off(s->output);
}

static void end_thought(screen *s) {
  if (!s->in_thought) return;
  cli_screen_line_end(s);
  s->in_thought = s->thought_full = s->thought_blank = false;
  s->thought_columns = 0;
}

/* ---- lines about something ---- */

/* Prints up to the end of the line; a cut is marked. @param used  columns that are already used on the line. */
static void print_rest(screen *s, tp_text text, size_t used) {
  size_t width = (s->width ? s->width : WIDTH) - 2; /* one for the mark, and the last stays free */
  cli_print_cut(s->output, text, used < width ? width - used : 0);
}

static void write_duration(int64_t ns, char ret_text[DURATION_SIZE]) {
  double ms = (double)ns / 1e6;
  if (ms < 10) snprintf(ret_text, DURATION_SIZE, "%.1f ms", ms);
  else if (ms < 1000) snprintf(ret_text, DURATION_SIZE, "%.0f ms", ms);
  else snprintf(ret_text, DURATION_SIZE, "%.1f s", ms / 1000);
}

/* Prints " MARK WORD", the left part of such a line. @return columns. */
static size_t print_left(screen *s, cli_paint paint, const char *mark, tp_text word) {
  size_t columns = cli_columns(word);
  end_thought(s);
  cli_screen_line_end(s);
  cli_print_string(s->output, "  ");
  cli_paint_on(s->output, paint);
  cli_print_string(s->output, mark);
  cli_print_string(s->output, " ");
  cli_print_cut(s->output, word, NAME_MAX_SHOWN);
  cli_paint_off(s->output);
  return 4 + (columns > NAME_MAX_SHOWN ? NAME_MAX_SHOWN + 1 : columns);
}

static void print_faint(screen *s, const char *text) {
  cli_paint_on(s->output, CLI_FAINT);
  cli_print_string(s->output, text);
  cli_paint_off(s->output);
}

/* ---- tools ---- */

/* "  ▸ NAME {arguments}". */
static void show_tool_begin(screen *s, const tp_tool_call *call) {
  size_t used = print_left(s, CLI_NOTE, "▸", call->name);
  tp__bytes json = {0};
  if (call->malformed) {
    cli_print_string(s->output, " ");
    print_rest(s, call->arguments, used + 1);
  } else if (tp_value_count(call->arguments) > 0 && cli_buffer_add_json(&json, call->arguments, NULL) == TP_OK) {
    cli_print_string(s->output, " ");
    print_rest(s, tp__bytes_text(&json), used + 1);
  }
  tp__bytes_fini(&json);
  cli_print_string(s->output, "\n");
}

/* "  ✓ weather  12 ms  3 °C", or "  ✗ shell  denied  0.2 ms  no". */
static void show_tool_end(screen *s, const tp_tool_result *result) {
  bool ok = result->kind == TP_TOOL_OK;
  size_t used = print_left(s, ok ? CLI_GOOD : CLI_BAD, ok ? "✓" : "✗", result->name);
  char duration[DURATION_SIZE], words[64 + DURATION_SIZE];
  write_duration(result->duration_ns, duration);
  snprintf(words, sizeof words, "%s%.60s%s%s", ok ? "" : "  ", ok ? "" : tp_tool_result_name(result->kind),
           result->started ? "  " : "", result->started ? duration : "");
  print_faint(s, words);
  if (result->text.size) cli_print_string(s->output, "  ");
  print_rest(s, result->text, used + strlen(words) + 2);
  cli_print_string(s->output, "\n");
}

/* ---- what handlers contributed ---- */

static void show_contributed(screen *s, const cli_event *e, const char *word) {
  tp_text sources = e->contribution.sources;
  tp_text from =
      tp_value_count(sources) > 0 ? tp_value_text(tp_value_at(sources, 0)) : tp_text_of(e->event.subscription);
  size_t used = print_left(s, CLI_FAINT, "·", tp_text_of(tp_value_count(sources) > 0 ? "recalled" : word));
  cli_print_string(s->output, " ");
  cli_paint_on(s->output, CLI_NOTE);
  cli_print_cut(s->output, from, NAME_MAX_SHOWN);
  cli_paint_off(s->output);
  cli_print_string(s->output, ": ");
  print_rest(s, e->contribution.text, used + cli_columns(from) + 3);
  cli_print_string(s->output, "\n");
}

/* ---- a turn ---- */

static void show_model_end(screen *s, tp_text text) {
  end_thought(s);
  if (!s->streamed) {
    cli_screen_line_end(s);
    begin_answer(s);
    cli_screen_text(s, text);
  }
  cli_screen_line_end(s);
  s->streamed = false;
}

/* Prints " » and the tests, too" when the model reads the typed message from now on; else why it does not. */
static void show_message(screen *s, tp_status outcome, tp_text text) {
  const char *why = outcome == TP_OK           ? ""
                    : outcome == TP_ERR_DENIED ? "not let in: "
                                               : "not read, since the turn ends: ";
  end_thought(s);
  size_t used = print_left(s, why[0] ? CLI_WARN : CLI_FAINT, "»", tp_text_of(why));
  print_rest(s, text, used);
  cli_print_string(s->output, "\n");
}

/* "  … weather 3 of 10 asking the second station". */
static void show_progress(screen *s, const cli_event *e) {
  char words[96];
  size_t used = print_left(s, CLI_FAINT, "…", e->tool_call.name);
  cli_event_progress(e, words, sizeof words);
  print_faint(s, words);
  print_rest(s, e->event.text, used + strlen(words));
  cli_print_string(s->output, "\n");
}

void cli_screen_show(screen *s, const cli_event *e) {
  tp_event_kind kind = e->event.kind;
  cli_screen_sign(s, 0);
  if (kind == TP_EVENT_THINKING) show_thinking(s, e->event.text);
  else if (kind == TP_EVENT_MODEL_DELTA) {
    end_thought(s);
    begin_answer(s);
    cli_screen_text(s, e->event.text);
    s->streamed = true;
  } else if (kind == TP_EVENT_MODEL_END) show_model_end(s, e->event.text);
  else if (kind == TP_EVENT_TOOL_BEGIN) show_tool_begin(s, &e->tool_call);
  else if (kind == TP_EVENT_TOOL_PROGRESS) show_progress(s, e);
  else if (kind == TP_EVENT_TOOL_END) show_tool_end(s, &e->tool_result);
  else if (kind == TP_EVENT_MESSAGE) show_message(s, e->event.status, e->event.text);
  else if (!s->verbose) return;
  else if (kind == TP_EVENT_CONTEXT) show_contributed(s, e, "context");
  else if (kind == TP_EVENT_REMINDER) show_contributed(s, e, "reminder");
  else if (kind == TP_EVENT_DIAGNOSTIC) show_contributed(s, e, "note");
}

/* Prints the text after "[WORD]"; it is broken between words if answers are. */
static void print_reason(screen *s, const char *word, tp_text text) {
  bool marks = s->prose.marks;
  cli_print_string(s->output, " ");
  if (s->lays_out) {
    s->prose = (cli_prose){.output = s->output, .width = s->width ? s->width : WIDTH, .has_begun = true};
    s->prose.column = strlen(word) + sizeof "[] " - 1;
    s->in_answer = true;
    cli_screen_text(s, text);
    cli_screen_line_end(s);
    s->prose.marks = marks;
  } else {
    cli_print_cut(s->output, text, SIZE_MAX);
    cli_print_string(s->output, "\n");
  }
}

static void show_outcome(screen *s, const tp_turn_result *result) {
  const char *ending = tp_turn_ending_name(result->outcome, result->code);
  const char *outcome = strcmp(ending, "error") == 0 ? tp_turn_outcome_name(result->outcome) : ending;
  cli_paint_on(s->output,
               result->outcome == TP_TURN_FAILED || result->outcome == TP_TURN_TIMED_OUT ? CLI_BAD : CLI_WARN);
  cli_printf(s->output, "[%s]", outcome);
  cli_paint_off(s->output);
  if (result->reason.size > 0 && result->outcome != TP_TURN_CANCELLED) {
    tp__bytes words = {0};
    cli_field_words(result->reason, true, &words);
    print_reason(s, outcome, tp__bytes_text(&words));
    tp__bytes_fini(&words);
  } else cli_print_string(s->output, "\n");
}

/* "1.2 s · 19 + 10 tokens · 2 requests · 1 tool call". */
static void show_figures(screen *s, const tp_turn_result *result) {
  char duration[DURATION_SIZE], tokens[64] = "", cost[64] = "", calls[64] = "", words[320];
  write_duration(result->ended_ns - result->started_ns, duration);
  if (result->input_tokens || result->output_tokens)
    snprintf(tokens, sizeof tokens, " · %lld + %lld tokens", (long long)result->input_tokens,
             (long long)result->output_tokens);
  if (result->cost_micros) snprintf(cost, sizeof cost, " · %.4f cost", (double)result->cost_micros / 1e6);
  if (result->tool_calls)
    snprintf(calls, sizeof calls, " · %u tool call%s", result->tool_calls, result->tool_calls == 1 ? "" : "s");
  snprintf(words, sizeof words, "  %s%s%s%s\n", duration, tokens, cost, calls);
  print_faint(s, words);
}

void cli_screen_end(screen *s, const tp_turn_result *result) {
  end_thought(s);
  cli_screen_line_end(s);
  if (result->outcome != TP_TURN_COMPLETED) show_outcome(s, result);
  else if (cli_finish_note(result)) {
    /* "[length] the answer is cut: …". */
    cli_paint_on(s->output, CLI_WARN);
    cli_printf(s->output, "[%s]", tp_finish_name(result->finish));
    cli_paint_off(s->output);
    print_reason(s, tp_finish_name(result->finish), tp_text_of(cli_finish_note(result)));
  }
  if (s->terminal && result->started_ns) show_figures(s, result);
  if (s->terminal) cli_print_string(s->output, "\n");
  s->streamed = false;
}
