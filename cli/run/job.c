/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/job.h"

#include <stdio.h>

#include "cli/common/data.h"
#include "cli/common/map.h"
#include "cli/common/table.h"
#include "runtime/base/check.h"

static void print_job_json(cli_output *output, const tp_job *job) {
  cli_map p = {0};
  cli_map_add_int(&p, "job", (int64_t)job->id);
  cli_map_add_string(&p, "state", tp_job_state_name((tp_job_state)job->state));
  cli_map_add_text(&p, "handler", job->handler);
  cli_map_add_text(&p, "subscription", job->subscription);
  cli_map_add_text(&p, "idempotency_key", job->idempotency_key);
  cli_map_add_text(&p, "order_key", job->order_key);
  cli_map_add_int(&p, "attempt", job->attempt);
  cli_map_add_int(&p, "attempts_max", job->attempts_max);
  cli_map_add_string(&p, "reason", tp_reason_name((tp_reason)job->reason));
  cli_map_add_int(&p, "code", job->code);
  cli_map_add_int(&p, "inserted_unix_ms", job->inserted_ms);
  cli_map_add_int(&p, "claimable_unix_ms", job->claimable_ms);
  cli_map_add_int(&p, "lease_end_unix_ms", job->lease_end_ms);
  cli_map_add_int(&p, "ended_unix_ms", job->ended_ms);
  cli_map_add_int(&p, "postponed_ms", job->postponed_ms);
  cli_map_add_text(&p, "message", job->message);
  cli_map_print(&p, output);
}

static cli_paint paint_of(uint32_t state) {
  return state == TP_JOB_DEAD ? CLI_BAD : state == TP_JOB_RUNNING ? CLI_GOOD : CLI_FAINT;
}

/* Each job is a table of its own, because a worker prints one from time to time. */
static void print_job(cli_output *output, const tp_job *job) {
  static const cli_column columns[] = {{.head = "job", .width = 6, .kind = CLI_COLUMN_RIGHT},
                                       {.head = "inserted", .width = 24, .rank = 2},
                                       {.head = "", .width = 9},
                                       {.head = "", .width = 14, .rank = 1},
                                       {.head = "", .width = 27, .least = 24},
                                       {.head = "", .kind = CLI_COLUMN_TEXT}};
  char number[24], time[40], attempt[48];
  tp__bytes more = {0};
  snprintf(number, sizeof number, "%llu", (unsigned long long)job->id);
  snprintf(attempt, sizeof attempt, "attempt %u of %u", job->attempt, job->attempts_max);
  if (job->order_key.size)
    tp__bytes_printf(&more, "in %.*s%s", (int)job->order_key.size, job->order_key.data, job->message.size ? ": " : "");
  tp__bytes_put_text(&more, job->message);
  const cli_cell cells[] = {{tp_text_of(number), CLI_NORMAL},
                            {tp_text_of(cli_data_time(job->inserted_ms, time)), CLI_NORMAL},
                            {tp_text_of(tp_job_state_name((tp_job_state)job->state)), paint_of(job->state)},
                            {tp_text_of(attempt), CLI_NORMAL},
                            {job->handler, CLI_NORMAL},
                            {tp__bytes_text(&more), CLI_NORMAL}};
  cli_table table;
  cli_table_begin(&table, output, columns, sizeof columns / sizeof *columns, 0);
  cli_table_row(&table, cells);
  cli_table_end(&table);
  tp__bytes_fini(&more);
}

void cli_job_print(cli_output *output, const tp_job *job, bool json) {
  assert(job);
  if (json) print_job_json(output, job);
  else print_job(output, job);
}
