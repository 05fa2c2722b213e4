/* SPDX-License-Identifier: Apache-2.0
 *
 * The action stats of the command hooks: the statistics of each subscription from the records of a data directory. So
 * subscriptions that deny all the time, fail, are slow, or are never called stand out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/data.h"
#include "cli/common/date.h"
#include "cli/common/exit_status.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/common/table.h"
#include "cli/common/quantity.h"
#include "cli/hooks/hooks.h"
#include "cli/inspect/trace.h"
#include "cli/run/host.h"

enum { HOOK, PHASE, CALLS, DENIALS, FAILS, P50, P99, LAST, COLUMNS };
static const cli_column columns[COLUMNS] = {
    [HOOK] = {.head = "hook", .width = 27, .least = 24},
    [PHASE] = {.head = "phase", .width = 17, .rank = 4},
    [CALLS] = {.head = "calls", .width = 7, .least = 5, .kind = CLI_COLUMN_RIGHT},
    [DENIALS] = {.head = "denials", .width = 7, .kind = CLI_COLUMN_RIGHT},
    [FAILS] = {.head = "fails", .width = 7, .least = 5, .kind = CLI_COLUMN_RIGHT},
    [P50] = {.head = "p50", .width = 9, .least = 8, .rank = 3, .kind = CLI_COLUMN_RIGHT, .exit = CLI_COLUMN_LEFT_OUT},
    [P99] = {.head = "p99", .width = 9, .least = 8, .rank = 2, .kind = CLI_COLUMN_RIGHT, .exit = CLI_COLUMN_LEFT_OUT},
    [LAST] = {.head = "last fired", .width = 24, .rank = 5},
};

/** One subscription in one phase. */
typedef struct hook {
  char *name, *owner;
  uint32_t phase;
  uint64_t calls, skips, denials, asks, failures;
  int64_t last_unix_ms; /* of its last call */
  int64_t *durations_ns;
  size_t duration_count, duration_capacity;
  bool is_recorded, is_declared; /* a record has it; a directory of --hooks has it */
  bool is_enabled;               /* of one that is declared */
} hook;

typedef struct stats {
  cli_output *output;
  const cli_data *data;
  hook *hooks;
  size_t count, capacity;
} stats;

static char *copy(const char *text) {
  size_t size = strlen(text) + 1;
  return memcpy(cli_alloc(size), text, size);
}

static hook *find_hook_stats(stats *s, const char *name, const char *owner, uint32_t phase) {
  for (size_t i = 0; i < s->count; i++)
    if (s->hooks[i].phase == phase && strcmp(s->hooks[i].name, name) == 0) return &s->hooks[i];
  s->hooks = cli_reserve(s->hooks, s->count, &s->capacity, sizeof *s->hooks);
  hook *h = &s->hooks[s->count++];
  *h = (hook){.name = copy(name), .owner = copy(owner), .phase = phase};
  return h;
}

static bool has_failed(const tp_run_record *run) {
  return run->state == TP_STATE_FAILED || run->state == TP_STATE_TIMED_OUT || run->state == TP_STATE_INTERRUPTED;
}

static bool count_entry(void *ctx, const tp_entry_record *entry) {
  stats *s = ctx;
  for (size_t i = 0; i < entry->run_count; i++) {
    tp_run_record run = {.struct_size = sizeof run};
    if (!entry->run(entry->source, i, &run)) continue;
    hook *h = find_hook_stats(s, run.subscription, run.owner, entry->phase);
    h->is_recorded = true;
    if (run.attempts == 0) {
      h->skips++;
      continue;
    }
    h->calls++;
    h->denials += run.verdict == TP_VERDICT_DENY;
    h->asks += run.verdict == TP_VERDICT_ASK;
    h->failures += has_failed(&run);
    if (entry->started_unix_ms > h->last_unix_ms) h->last_unix_ms = entry->started_unix_ms;
    if (run.started_ns && run.ended_ns) {
      int64_t duration_ns = run.ended_ns - run.started_ns;
      h->durations_ns = cli_reserve(h->durations_ns, h->duration_count, &h->duration_capacity, sizeof *h->durations_ns);
      h->durations_ns[h->duration_count++] = duration_ns;
    }
  }
  return true;
}

/* ---- the directories of --hooks ---- */

static bool add_declared(void *ctx, const tp_hook_info *info) {
  if (strcmp(info->kind, "tool") == 0) return true; /* its calls are no runs of it */
  hook *h = find_hook_stats(ctx, info->id, "declared", info->phase);
  h->is_declared = true;
  h->is_enabled = info->enabled;
  return true;
}

/* The directories are only read, so hooks count whether their directory is trusted or not. */
static int add_directories(stats *s, const cli_arguments *arguments) {
  cli_arguments alone = *arguments;
  alone.hooks.count = 0;
  alone.no_memory = true;
  tp_runtime *runtime = NULL;
  if (arguments->hooks.count == 0) return CLI_OK;
  int status = cli_host_open(&alone, NULL, NULL, &runtime);
  for (size_t i = 0; i < arguments->hooks.count && status == CLI_OK; i++) {
    char prefix[CLI_HOOKS_PREFIX_SIZE];
    tp_hooks_options options = cli_hooks_options_at(runtime, arguments, i, prefix);
    tp_hooks *hooks = NULL;
    status = cli_hooks_read(runtime, &options, &hooks);
    if (status == CLI_OK) tp_hooks_each(hooks, add_declared, s);
    tp_hooks_free(hooks);
  }
  tp_runtime_free(runtime);
  return status;
}

/* ---- printing ---- */

static int by_number(const void *a, const void *b) {
  const int64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Those that were never called stand last. */
static int by_calls(const void *a, const void *b) {
  const hook *x = a, *y = b;
  if (x->calls != y->calls) return x->calls < y->calls ? 1 : -1;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->phase > y->phase) - (x->phase < y->phase);
}

/* The least duration that at least this share of the calls did not exceed; the durations are sorted. */
static int64_t percentile(const hook *h, size_t percent) {
  if (h->duration_count == 0) return 0;
  size_t rank = (h->duration_count * percent + 99) / 100;
  return h->durations_ns[rank > 0 ? rank - 1 : 0];
}

static void print_hook_json(const stats *s, const hook *h) {
  char phase[32];
  cli_map p = {0};
  cli_map_add_string(&p, "hook", h->name);
  cli_map_add_string(&p, "phase", cli_data_phase(s->data, h->phase, phase));
  cli_map_add_string(&p, "owner", h->owner);
  cli_map_add_int(&p, "calls", (int64_t)h->calls);
  cli_map_add_int(&p, "skips", (int64_t)h->skips);
  cli_map_add_int(&p, "denials", (int64_t)h->denials);
  cli_map_add_int(&p, "asks", (int64_t)h->asks);
  cli_map_add_int(&p, "failures", (int64_t)h->failures);
  cli_map_add_int(&p, "p50_ns", percentile(h, 50));
  cli_map_add_int(&p, "p99_ns", percentile(h, 99));
  cli_map_add_bool(&p, "never_fired", h->calls == 0);
  cli_map_add_bool(&p, "recorded", h->is_recorded);
  if (h->is_declared) cli_map_add_bool(&p, "enabled", h->is_enabled);
  if (h->calls) cli_map_add_int(&p, "last_unix_ms", h->last_unix_ms);
  cli_map_print(&p, s->output);
}

static const char *last_of(const hook *h, char *words, size_t size) {
  char time[40];
  if (h->calls) snprintf(words, size, "%s", cli_data_time(h->last_unix_ms, time));
  else if (h->is_declared && !h->is_enabled) snprintf(words, size, "never fired (disabled)");
  else if (!h->is_recorded) snprintf(words, size, "never fired (no record has it)");
  else snprintf(words, size, "never fired (skipped %llu times)", (unsigned long long)h->skips);
  return words;
}

static void print_hook_line(const stats *s, const hook *h, cli_table *table) {
  char phase[32], counts[3][24], times[2][CLI_QUANTITY_SIZE + 2], last[64];
  snprintf(counts[0], sizeof counts[0], "%llu", (unsigned long long)h->calls);
  snprintf(counts[1], sizeof counts[1], "%llu", (unsigned long long)h->denials);
  snprintf(counts[2], sizeof counts[2], "%llu", (unsigned long long)h->failures);
  const cli_cell cells[COLUMNS] = {
      [HOOK] = {tp_text_of(h->name), CLI_NORMAL},
      [PHASE] = {tp_text_of(cli_data_phase(s->data, h->phase, phase)), CLI_NORMAL},
      [CALLS] = {tp_text_of(counts[0]), CLI_NORMAL},
      [DENIALS] = {tp_text_of(counts[1]), CLI_NORMAL},
      [FAILS] = {tp_text_of(counts[2]), CLI_NORMAL},
      [P50] = {cli_trace_duration(h->calls ? percentile(h, 50) : 0, h->calls > 0, times[0]), CLI_NORMAL},
      [P99] = {cli_trace_duration(h->calls ? percentile(h, 99) : 0, h->calls > 0, times[1]), CLI_NORMAL},
      [LAST] = {tp_text_of(last_of(h, last, sizeof last)), CLI_NORMAL},
  };
  cli_table_row(table, cells);
}

static void print_all(stats *s, bool json) {
  for (size_t i = 0; i < s->count; i++) {
    hook *h = &s->hooks[i];
    if (h->duration_count) qsort(h->durations_ns, h->duration_count, sizeof *h->durations_ns, by_number);
  }
  if (s->count) qsort(s->hooks, s->count, sizeof *s->hooks, by_calls);
  cli_table table;
  cli_table_begin(&table, s->output, columns, COLUMNS, 0);
  if (!json && s->count > 0) cli_table_head(&table);
  for (size_t i = 0; i < s->count && !s->output->error; i++) {
    if (json) print_hook_json(s, &s->hooks[i]);
    else print_hook_line(s, &s->hooks[i], &table);
  }
  cli_table_end(&table);
}

static void free_stats(stats *s) {
  for (size_t i = 0; i < s->count; i++) {
    free(s->hooks[i].name);
    free(s->hooks[i].owner);
    free(s->hooks[i].durations_ns);
  }
  free(s->hooks);
}

int cli_hooks_stats(const cli_arguments *arguments, cli_output *output) {
  cli_data data = {0};
  tp_record_query query = {.struct_size = sizeof query};
  if (arguments->since && !cli_date_read_since(arguments->since, &query.from_unix_ms)) {
    cli_error("--since takes 90s, 10m, 2h, 3d, 2026-11-22 or 2026-11-22T23:50:34 (UTC), not '%s'", arguments->since);
    return CLI_USAGE;
  }
  int status = cli_data_open(arguments->operands[1], &data);
  if (status != CLI_OK) return status;
  stats s = {.output = output, .data = &data};
  tp_fault fault = {0};
  tp_status read = data.store->records(data.store->ctx, &query, count_entry, &s, &fault);
  if (read != TP_OK) status = cli_fault(data.path, read, &fault);
  else status = add_directories(&s, arguments);
  if (status == CLI_OK) print_all(&s, arguments->json);
  if (status == CLI_OK && s.count == 0 && !arguments->json)
    cli_error("no hook ran in %s%s", data.path, arguments->since ? " in that time" : "");
  free_stats(&s);
  cli_data_close(&data);
  return status;
}
