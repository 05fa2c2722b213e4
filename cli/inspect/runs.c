/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands runs and show: lists runs from the store of a data directory. A run is one subscription in one entry
 * (one run of one phase). show takes the entry's name, PROCESS-NUMBER. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/data.h"
#include "cli/common/date.h"
#include "cli/common/exit_status.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/quantity.h"
#include "cli/common/table.h"
#include "cli/inspect/decided.h"
#include "cli/inspect/follow.h"
#include "cli/inspect/pick.h"
#include "cli/inspect/running.h"
#include "cli/inspect/trace.h"
#include "cli/run/timeline.h"
#include "cli/run/payload.h"
#include "runtime/base/check.h"

enum { NAME_SIZE = 48, STATE_SIZE = 64, PHASE_SIZE = 32 + TP_ID_BYTES_MAX + 2, ROWS_FOR_ONE = 50 };

/* A head is printed only when the table may leave out a column. */
enum { TIME, TURN, PHASE, SUBSCRIPTION, STATE, RAN, WAITED, RUN, COLUMNS };
static const cli_column columns[COLUMNS] = {
    [TIME] = {.head = "started", .width = 24, .rank = 4, .exit = CLI_COLUMN_LEFT_OUT},
    [TURN] = {.head = "turn", .width = 18, .least = 10},
    [PHASE] = {.head = "phase", .width = 29, .rank = 2, .exit = CLI_COLUMN_LEFT_OUT},
    [SUBSCRIPTION] = {.head = "subscription", .width = 28, .least = 24},
    [STATE] = {.head = "state", .width = 21, .least = 12},
    [RAN] = {.head = "ran", .width = 8, .kind = CLI_COLUMN_RIGHT},
    [WAITED] = {.head = "waited", .width = 14, .rank = 5, .exit = CLI_COLUMN_LEFT_OUT},
    [RUN] = {.head = "run", .width = 18, .rank = 3, .exit = CLI_COLUMN_LEFT_OUT},
};
enum { SHOWN_COLUMNS = WAITED - SUBSCRIPTION + 1 }; /* of show, below its phase */

/** The query, and the number of rows shown so far. */
typedef struct listing {
  const cli_arguments *arguments;
  cli_output *output;
  const cli_data *data;
  cli_table table; /* of runs; not with --json */
  uint32_t phases[64];
  size_t phase_count;
  uint64_t state;          /* tp_state; 0: any */
  uint64_t process, entry; /* of show RUN; 0: any */
  cli_pick pick;           /* of show TURN */
  const char *turn;        /* of show TURN: its id */
  cli_decided decided;
  size_t shown;
  bool has_head;     /* of the table: it is printed */
  bool has_more;     /* the limit was reached */
  bool may_be_crash; /* for show: a turn without an end was seen, or none with an end */
} listing;

/* ---- a run ---- */

static void write_name(const tp_entry_record *entry, char name[NAME_SIZE]) {
  snprintf(name, NAME_SIZE, "%016" PRIx64 "-%" PRIu64, entry->process_run_id, entry->entry_id);
}

/* "tool.pre files_write", if the tool is known. */
static const char *phase_of(const listing *list, const tp_entry_record *entry, char words[PHASE_SIZE]) {
  char phase[32];
  const char *tool = cli_decided_tool(&list->decided, entry);
  snprintf(words, PHASE_SIZE, "%s%s%s", cli_data_phase(list->data, entry->phase, phase), tool[0] ? " " : "", tool);
  return words;
}

static void print_run_json(const listing *list, const tp_entry_record *entry, const tp_run_record *run,
                           const char *why) {
  char name[NAME_SIZE], phase[32];
  const char *tool = cli_decided_tool(&list->decided, entry);
  cli_map p = {0};
  write_name(entry, name);
  cli_map_add_string(&p, "run", name);
  cli_map_add_int(&p, "started_unix_ms", entry->started_unix_ms);
  cli_map_add_string(&p, "phase", cli_data_phase(list->data, entry->phase, phase));
  if (tool[0]) cli_map_add_string(&p, "tool", tool);
  cli_map_add_string(&p, "entry_status", tp_status_name((tp_status)entry->status));
  cli_data_add_run(&p, run, true);
  if (why[0]) cli_map_add_string(&p, "why", why);
  cli_data_add_ids(&p, entry->ids);
  cli_map_print(&p, list->output);
}

static tp_text state_of(const tp_run_record *run, char words[STATE_SIZE]) {
  if (run->reason) snprintf(words, STATE_SIZE, "%s (%s)", tp_state_name(run->state), tp_reason_name(run->reason));
  else if (run->verdict > TP_VERDICT_NONE) snprintf(words, STATE_SIZE, "%s", tp_verdict_name((tp_verdict)run->verdict));
  else snprintf(words, STATE_SIZE, "%s", tp_state_name(run->state));
  return tp_text_of(words);
}

/* How long it ran, as far as that is known. */
static tp_text ran_of(const tp_run_record *run, char words[STATE_SIZE]) {
  if (!run->started_ns || !run->ended_ns) return (tp_text){0};
  snprintf(words, STATE_SIZE, "%s", cli_duration((double)(run->ended_ns - run->started_ns)).text);
  return tp_text_of(words);
}

static tp_text waited_of(const tp_run_record *run, char words[STATE_SIZE]) {
  bool has_waited = run->started_ns && run->ended_ns && run->queued_ns && run->started_ns > run->queued_ns;
  if (!has_waited) return (tp_text){0};
  snprintf(words, STATE_SIZE, "waited %s", cli_duration((double)(run->started_ns - run->queued_ns)).text);
  return tp_text_of(words);
}

static void print_run_line(listing *list, const tp_entry_record *entry, const tp_run_record *run) {
  if (list->output->width && !list->has_head) cli_table_head(&list->table);
  list->has_head = true;
  char name[NAME_SIZE], time[40], phase[PHASE_SIZE], state[STATE_SIZE], ran[STATE_SIZE], waited[STATE_SIZE];
  write_name(entry, name);
  const cli_cell cells[COLUMNS] = {
      [TIME] = {tp_text_of(cli_data_time(entry->started_unix_ms, time)), CLI_NORMAL},
      [TURN] = {entry->ids[TP_ID_TURN], CLI_NORMAL},
      [PHASE] = {tp_text_of(phase_of(list, entry, phase)), CLI_NORMAL},
      [SUBSCRIPTION] = {tp_text_of(run->subscription), CLI_NORMAL},
      [STATE] = {state_of(run, state), cli_run_paint(run)},
      [RAN] = {ran_of(run, ran), CLI_NORMAL},
      [WAITED] = {waited_of(run, waited), CLI_NORMAL},
      [RUN] = {tp_text_of(name), CLI_NORMAL},
  };
  cli_table_row(&list->table, cells);
}

/* ---- which ---- */

static bool has_phase(const listing *list, uint32_t phase) {
  for (size_t i = 0; i < list->phase_count; i++)
    if (list->phases[i] == phase) return true;
  return list->phase_count == 0;
}

static bool is_asked_for(const listing *list, const tp_run_record *run) {
  const char *handler = list->arguments->handler;
  if (list->state && run->state != list->state) return false;
  return !handler || strcmp(run->handler, handler) == 0 || strcmp(run->subscription, handler) == 0;
}

static bool show_entry(void *ctx, const tp_entry_record *entry) {
  listing *list = ctx;
  if (list->output->error) return false;
  for (size_t i = 0; i < entry->run_count; i++) {
    tp_run_record run = {.struct_size = sizeof run};
    if (!entry->run(entry->source, i, &run)) continue;
    const char *why = cli_decided_reason(&list->decided, entry, &run);
    if (!has_phase(list, entry->phase) || !is_asked_for(list, &run)) continue;
    list->has_more = !list->arguments->follow && list->shown == cli_limit(list->arguments, CLI_LIMIT);
    if (list->has_more) return false;
    if (list->arguments->json) print_run_json(list, entry, &run, why);
    else print_run_line(list, entry, &run);
    list->shown++;
  }
  return true;
}

/* Shows a turn that has not ended: a line before those of its runs. */
static bool show_running(void *ctx, const tp_turn_record *turn) {
  listing *list = ctx;
  char time[40];
  cli_output *output = list->output;
  list->has_more = list->shown == cli_limit(list->arguments, CLI_LIMIT);
  if (list->has_more || output->error) return false;
  if (list->state && turn->state != list->state) return true;
  list->shown++;
  if (list->arguments->json) {
    cli_map p = {0};
    cli_running_add(&p, turn);
    cli_map_print(&p, output);
    return true;
  }
  cli_printf(output, "%s  ", cli_data_time(turn->started_unix_ms, time));
  cli_print_cut(output, turn->ids[TP_ID_TURN], SIZE_MAX);
  cli_print_string(output, "  the turn  ");
  cli_paint_on(output, turn->state == TP_STATE_RUNNING ? CLI_WARN : CLI_BAD);
  cli_printf(output, "%s after %s", cli_running_word(turn),
             cli_duration((double)cli_running_ns(turn, turn->started_ns)).text);
  cli_paint_off(output);
  cli_print_string(output, turn->state == TP_STATE_RUNNING ? ", in: " : ", was in: ");
  cli_running_print_steps(turn, output);
  cli_print_string(output, "\n");
  return true;
}

/* They have no phase and no handler. */
static bool lists_running(const listing *list) {
  bool may_be = !list->state || list->state == TP_STATE_RUNNING || list->state == TP_STATE_INTERRUPTED;
  return may_be && list->phase_count == 0 && !list->arguments->handler && !list->arguments->follow;
}

/* Without a bound, and at once. */
static bool show_followed(void *ctx, const tp_entry_record *entry) {
  listing *list = ctx;
  list->shown = 0;
  bool goes_on = show_entry(list, entry);
  cli_flush(list->output);
  return goes_on && !list->output->error;
}

static int read_phases(listing *list) {
  const cli_words *words = &list->arguments->phases;
  for (size_t i = 0; i < words->count; i++) {
    uint32_t phase = cli_phase_find(list->data->names, words->items[i]);
    if (!phase) return CLI_USAGE;
    if (list->phase_count == sizeof list->phases / sizeof *list->phases) {
      cli_error("--phase may be given %zu times", list->phase_count);
      return CLI_USAGE;
    }
    assert(list->phase_count < sizeof list->phases / sizeof *list->phases);
    list->phases[list->phase_count++] = phase;
  }
  return CLI_OK;
}

static int read_state(listing *list) {
  const char *word = list->arguments->state;
  if (!word) return CLI_OK;
  for (uint32_t state = TP_STATE_QUEUED; state <= TP_STATE_SKIPPED; state++) {
    if (strcmp(word, tp_state_name((tp_state)state)) != 0) continue;
    list->state = state;
    return CLI_OK;
  }
  cli_error(
      "there is no state '%s': it is queued, running, succeeded, failed, timed_out, cancelled, backgrounded, "
      "interrupted or skipped",
      word);
  return CLI_USAGE;
}

static int read_since(const cli_arguments *arguments, int64_t *ret_unix_ms) {
  if (!arguments->since || cli_date_read_since(arguments->since, ret_unix_ms)) return CLI_OK;
  cli_error("--since takes 90s, 10m, 2h, 3d, 2026-11-22 or 2026-11-22T23:50:34 (UTC), not '%s'", arguments->since);
  return CLI_USAGE;
}

static int list_runs(listing *list) {
  tp_text ids[TP_ID_COUNT] = {
      [TP_ID_SESSION] = tp_text_of(list->arguments->session), [TP_ID_TURN] = tp_text_of(list->arguments->turn)};
  tp_record_query query = {.struct_size = sizeof query, .ids = ids, .id_count = TP_ID_COUNT};
  tp_fault fault = {0};
  int status = read_phases(list);
  if (status == CLI_OK) status = read_state(list);
  if (status == CLI_OK) status = read_since(list->arguments, &query.from_unix_ms);
  if (status != CLI_OK) return status;
  if (list->phase_count == 1) query.phase = list->phases[0];
  if (list->arguments->follow)
    return cli_follow(list->data, list->arguments->operand, &query, cli_limit(list->arguments, CLI_FOLLOW_LIMIT),
                      show_followed, list);
  const tp_store *store = list->data->store;
  tp_turn_query turns = {
      .struct_size = sizeof turns, .ids = ids, .id_count = TP_ID_COUNT, .from_unix_ms = query.from_unix_ms};
  size_t limit = cli_limit(list->arguments, CLI_LIMIT);
  size_t rows_max = limit < SIZE_MAX / ROWS_FOR_ONE ? limit * ROWS_FOR_ONE : 0;
  tp_status read = cli_decided_read(list->data, ids, query.from_unix_ms, rows_max, &list->decided, &fault);
  if (read == TP_OK && lists_running(list)) read = store->turns_running(store->ctx, &turns, show_running, list, &fault);
  if (read == TP_OK && !list->has_more) read = store->records(store->ctx, &query, show_entry, list, &fault);
  if (read != TP_OK) return cli_fault(list->data->path, read, &fault);
  if (list->shown == 0 && !list->arguments->json) cli_error("no run in %s fits", list->data->path);
  if (list->has_more) cli_error("there are more; --limit 0 shows all");
  return CLI_OK;
}

int cli_runs(const cli_arguments *arguments, cli_output *output) {
  cli_data data = {0};
  int status = cli_data_open(arguments->operand, &data);
  if (status != CLI_OK) return status;
  listing list = {.arguments = arguments, .output = output, .data = &data};
  cli_table_begin(&list.table, output, columns, COLUMNS, 0);
  list.table.keeps_columns = true;
  status = list_runs(&list);
  cli_table_end(&list.table);
  cli_decided_free(&list.decided);
  cli_data_close(&data);
  return status;
}

/* ---- show ---- */

static void print_turn_json(const listing *list, const tp_turn_record *turn) {
  char phase[32];
  cli_map p = {0};
  cli_map_add_string(&p, "turn_outcome", tp_turn_outcome_name((tp_turn_outcome)turn->outcome));
  cli_map_add_string(&p, "code", tp_status_name((tp_status)turn->code));
  cli_map_add_int(&p, "started_unix_ms", turn->started_unix_ms);
  cli_map_add_int(&p, "ended_unix_ms", turn->ended_unix_ms);
  cli_map_add_int(&p, "duration_ns", turn->started_ns ? turn->ended_ns - turn->started_ns : 0);
  cli_map_add_int(&p, "load_ns", turn->load_ns);
  cli_map_add_int(&p, "model_ns", turn->model_ns);
  cli_map_add_int(&p, "tools_ns", turn->tools_ns);
  cli_map_add_int(&p, "append_ns", turn->append_ns);
  cli_map_add_int(&p, "iterations", turn->iterations);
  cli_map_add_int(&p, "tool_calls", turn->tool_calls);
  cli_map_add_int(&p, "input_tokens", turn->input_tokens);
  cli_map_add_int(&p, "output_tokens", turn->output_tokens);
  cli_map_add_int(&p, "cost_micros", turn->cost_micros);
  cli_map_add_string(&p, "ending", tp_turn_ending_name((tp_turn_outcome)turn->outcome, (tp_status)turn->code));
  if (turn->phase) cli_map_add_string(&p, "phase", cli_data_phase(list->data, turn->phase, phase));
  if (turn->subscription.size) cli_map_add_text(&p, "subscription", turn->subscription);
  if (turn->reason.size) cli_map_add_text(&p, "reason", turn->reason);
  if (turn->parent_turn.size) cli_map_add_text(&p, "parent_turn", turn->parent_turn);
  if (turn->finish) cli_map_add_string(&p, "finish", tp_finish_name((tp_finish)turn->finish));
  if (turn->finish_word.size) cli_map_add_text(&p, "finish_word", turn->finish_word);
  cli_data_add_ids(&p, turn->ids);
  cli_map_print(&p, list->output);
}

static void print_run_text(cli_output *output, const char *name, tp_text text) {
  if (!text.size) return;
  cli_printf(output, "  %-13s ", name);
  cli_print_cut(output, text, SIZE_MAX);
  cli_print_string(output, "\n");
}

static void print_turn(const listing *list, const tp_turn_record *turn) {
  cli_output *output = list->output;
  char time[40], phase[32];
  int64_t duration_ns = turn->started_ns ? turn->ended_ns - turn->started_ns : 0;
  int64_t rest_ns = duration_ns - turn->load_ns - turn->model_ns - turn->tools_ns - turn->append_ns;
  const char *ending = tp_turn_ending_name((tp_turn_outcome)turn->outcome, (tp_status)turn->code);
  cli_printf(output, "turn %s at %s\n", tp_turn_outcome_name((tp_turn_outcome)turn->outcome),
             cli_data_time(turn->ended_unix_ms, time));
  print_run_text(output, "turn", turn->ids[TP_ID_TURN]);
  print_run_text(output, "run for", turn->parent_turn);
  print_run_text(output, "session", turn->ids[TP_ID_SESSION]);
  print_run_text(output, "tenant", turn->ids[TP_ID_TENANT]);
  if (turn->outcome != TP_TURN_COMPLETED) print_run_text(output, "ending", tp_text_of(ending));
  print_run_text(output, "reason", turn->reason);
  print_run_text(output, "ended by", turn->subscription);
  if (turn->finish) print_run_text(output, "finish", tp_text_of(tp_finish_name((tp_finish)turn->finish)));
  print_run_text(output, "by its word", turn->finish_word);
  if (turn->phase) print_run_text(output, "in phase", tp_text_of(cli_data_phase(list->data, turn->phase, phase)));
  cli_printf(output, "  duration      %s: history %s, model %s, tools %s, phases and the rest %s\n",
             cli_duration((double)duration_ns).text, cli_duration((double)(turn->load_ns + turn->append_ns)).text,
             cli_duration((double)turn->model_ns).text, cli_duration((double)turn->tools_ns).text,
             cli_duration((double)(rest_ns > 0 ? rest_ns : 0)).text);
  cli_printf(output, "  requests      %u, tool calls %u, tokens %lld in, %lld out\n", turn->iterations,
             turn->tool_calls, (long long)turn->input_tokens, (long long)turn->output_tokens);
}

static bool show_turn(void *ctx, const tp_turn_record *turn) {
  listing *list = ctx;
  if (list->pick.is_chosen && !cli_pick_is(&list->pick, turn, false)) return true;
  list->shown++;
  if (list->arguments->json) print_turn_json(list, turn);
  else print_turn(list, turn);
  return !list->output->error;
}

/* ---- one that has not ended ---- */

static void print_running(const listing *list, const tp_turn_record *turn) {
  cli_output *output = list->output;
  char time[40];
  cli_printf(output, "turn %s since %s", cli_running_word(turn), cli_data_time(turn->started_unix_ms, time));
  cli_printf(output, ", as of %s\n", cli_data_time(turn->ended_unix_ms, time));
  print_run_text(output, "turn", turn->ids[TP_ID_TURN]);
  print_run_text(output, "run for", turn->parent_turn);
  print_run_text(output, "session", turn->ids[TP_ID_SESSION]);
  print_run_text(output, "tenant", turn->ids[TP_ID_TENANT]);
  cli_printf(output, "  %-13s ", turn->state == TP_STATE_RUNNING ? "in" : "was in");
  cli_running_print_steps(turn, output);
  cli_printf(output, "\n  duration      %s\n", cli_duration((double)cli_running_ns(turn, turn->started_ns)).text);
  cli_printf(output, "  requests      %u, tool calls %u, tokens %lld in, %lld out\n", turn->iterations,
             turn->tool_calls, (long long)turn->input_tokens, (long long)turn->output_tokens);
}

static bool show_unended(void *ctx, const tp_turn_record *turn) {
  listing *list = ctx;
  if (list->pick.is_chosen && !cli_pick_is(&list->pick, turn, true)) return true;
  list->shown++;
  list->may_be_crash = true;
  if (list->arguments->json) {
    cli_map p = {0};
    cli_running_add(&p, turn);
    cli_map_print(&p, list->output);
  } else {
    print_running(list, turn);
  }
  return !list->output->error;
}

/* Shows the running functions of a turn, and those that ran when its process died, from the audit. */
static bool show_suspect(void *ctx, const tp_audit *row) {
  listing *list = ctx;
  if (strcmp(row->action, "crash_suspect") != 0 || strcmp(row->turn, list->turn) != 0) return true;
  if (list->arguments->session && (!row->session || strcmp(row->session, list->arguments->session) != 0)) return true;
  if (list->arguments->json) {
    cli_map p = {0};
    cli_map_add_string(&p, "crash_suspect", row->detail);
    cli_map_add_int(&p, "unix_ms", row->unix_ms);
    cli_map_print(&p, list->output);
    return true;
  }
  cli_print_string(list->output, "  crash_suspect ");
  cli_print_cut(list->output, tp_text_of(row->detail), SIZE_MAX);
  cli_print_string(list->output, "\n");
  return true;
}

static tp_status show_under_way(listing *list, tp_fault *fault) {
  cli_pool pool = {0};
  cli_called_list called = {0};
  const cli_arguments *a = list->arguments;
  const tp_store *store = list->data->store;
  tp_status status = cli_called_read(list->data, list->turn, a->session, &pool, &called, fault);
  if (status == TP_OK && called.count > 0 && a->json) {
    cli_map p = {0};
    cli_called_add(&p, &called);
    cli_map_print(&p, list->output);
  } else if (status == TP_OK) {
    cli_called_print(&called, list->output);
  }
  list->shown += called.count;
  free(called.items);
  cli_pool_free(&pool);
  tp_audit_query audits = {.struct_size = sizeof audits};
  return status == TP_OK && list->may_be_crash ? store->audits(store->ctx, &audits, show_suspect, list, fault) : status;
}

/* Skips an entry, but takes the reasons of its denials, because cli_decided_reason() gives each reason to one run
 * only. */
static bool pass_over(listing *list, const tp_entry_record *entry) {
  for (size_t i = 0; i < entry->run_count; i++) {
    tp_run_record run = {.struct_size = sizeof run};
    if (entry->run(entry->source, i, &run)) (void)cli_decided_reason(&list->decided, entry, &run);
  }
  return true;
}

/* One entry with every subscription of its phase. */
static bool show_whole(void *ctx, const tp_entry_record *entry) {
  listing *list = ctx;
  char name[NAME_SIZE], time[40], phase[PHASE_SIZE];
  if (list->process && (entry->process_run_id != list->process || entry->entry_id != list->entry))
    return pass_over(list, entry);
  if (list->pick.is_chosen && !cli_pick_has(&list->pick, entry)) return pass_over(list, entry);
  write_name(entry, name);
  list->shown++;
  if (!list->arguments->json)
    cli_printf(list->output, "%s  %s  %s  %s\n", cli_data_time(entry->started_unix_ms, time), name,
               phase_of(list, entry, phase),
               !entry->ended_ns         ? entry->status ? "interrupted" : "running"
               : entry->status == TP_OK ? "ok"
                                        : tp_status_text((tp_status)entry->status));
  cli_table table;
  cli_table_begin(&table, list->output, columns + SUBSCRIPTION, SHOWN_COLUMNS, 2);
  table.keeps_columns = true;
  for (size_t i = 0; i < entry->run_count; i++) {
    tp_run_record run = {.struct_size = sizeof run};
    if (!entry->run(entry->source, i, &run)) continue;
    const char *why = cli_decided_reason(&list->decided, entry, &run);
    if (list->arguments->json) {
      print_run_json(list, entry, &run, why);
      continue;
    }
    char state[STATE_SIZE], ran[STATE_SIZE], waited[STATE_SIZE];
    const cli_cell cells[SHOWN_COLUMNS] = {{tp_text_of(run.subscription), CLI_NORMAL},
                                           {state_of(&run, state), cli_run_paint(&run)},
                                           {ran_of(&run, ran), CLI_NORMAL},
                                           {waited_of(&run, waited), CLI_NORMAL}};
    cli_table_row(&table, cells);
    print_run_text(list->output, "  why", tp_text_of(why));
  }
  cli_table_end(&table);
  return !list->process && !list->output->error;
}

/* 16 hexadecimal digits, "-", a number: the name of an entry. Any other word means a turn. */
static bool read_name(const char *word, listing *list) {
  char *end;
  if (strspn(word, "0123456789abcdef") != 16 || word[16] != '-' || !word[17]) return false;
  if (strspn(word + 17, "0123456789") != strlen(word + 17) || strlen(word + 17) > 19) return false;
  list->process = strtoull(word, &end, 16);
  list->entry = strtoull(word + 17, NULL, 10);
  return list->process && list->entry;
}

static int show_runs(listing *list, const char *word) {
  const tp_store *store = list->data->store;
  tp_fault fault = {0};
  tp_text ids[TP_ID_COUNT] = {{0}};
  bool is_run = read_name(word, list);
  tp_status status = is_run ? TP_OK : cli_pick_read(list->data, word, list->arguments->session, &list->pick, &fault);
  if (status != TP_OK) return cli_fault(list->data->path, status, &fault);
  if (list->pick.is_chosen && list->pick.count > 0) word = list->pick.id;
  list->turn = word;
  if (!is_run) ids[TP_ID_TURN] = tp_text_of(word);
  if (!is_run) ids[TP_ID_SESSION] = tp_text_of(list->arguments->session);
  tp_record_query entries = {.struct_size = sizeof entries, .ids = ids, .id_count = TP_ID_COUNT};
  tp_turn_query turns = {.struct_size = sizeof turns, .ids = ids, .id_count = TP_ID_COUNT};
  if (!is_run) status = store->turns_running(store->ctx, &turns, show_unended, list, &fault);
  size_t unended = list->shown;
  if (status == TP_OK && !is_run) status = store->turns(store->ctx, &turns, show_turn, list, &fault);
  if (list->shown == unended) list->may_be_crash = true;
  if (status == TP_OK && !is_run) status = show_under_way(list, &fault);
  if (status == TP_OK) status = cli_decided_read(list->data, ids, 0, 0, &list->decided, &fault);
  if (status == TP_OK) status = store->records(store->ctx, &entries, show_whole, list, &fault);
  if (status != TP_OK) return cli_fault(list->data->path, status, &fault);
  if (list->pick.count > 1 && !list->pick.is_chosen)
    cli_error("there are %zu turns '%s': %s#1 is the oldest, %s#%zu the newest", list->pick.count, word, word, word,
              list->pick.count);
  if (list->shown > 0) return CLI_OK;
  if (list->pick.number > list->pick.count && list->pick.count > 0) {
    cli_error("there are %zu turns '%s', and no %s#%zu", list->pick.count, word, word, list->pick.number);
    return CLI_NEGATIVE;
  }
  cli_error("there is no %s '%s'; see: turnphase runs %s", is_run ? "run" : "turn", word, list->arguments->operand);
  return CLI_NEGATIVE;
}

int cli_show(const cli_arguments *arguments, cli_output *output) {
  cli_data data = {0};
  if (arguments->operand_count < 2 || !arguments->operands[1][0]) {
    cli_error("show needs a data directory and a turn or a run; see: turnphase show --help");
    return CLI_USAGE;
  }
  int status = cli_data_open(arguments->operand, &data);
  if (status != CLI_OK) return status;
  listing list = {.arguments = arguments, .output = output, .data = &data};
  status = show_runs(&list, arguments->operands[1]);
  cli_decided_free(&list.decided);
  cli_data_close(&data);
  return status;
}
