/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/job.h"

#include "cli/common/data.h"
#include "cli/common/map.h"
#include "cli/common/quantity.h"
#include "cli/run/timeline.h"
#include "runtime/base/check.h"

static void print_json(cli_output *output, const tp_job *job) {
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

static void print_job(cli_output *output, const tp_job *job) {
  char time[40];
  cli_printf(output, "%6llu  %s  ", (unsigned long long)job->id, cli_data_time(job->inserted_ms, time));
  cli_paint_on(output, paint_of(job->state));
  cli_cell_left(output, tp_job_state_name((tp_job_state)job->state), 11);
  cli_paint_off(output);
  cli_printf(output, "attempt %u of %u  ", job->attempt, job->attempts_max);
  cli_print_cut(output, job->handler, 40);
  if (job->order_key.size) {
    cli_print_string(output, "  in ");
    cli_print_cut(output, job->order_key, 40);
  }
  if (job->message.size) {
    cli_print_string(output, ": ");
    cli_print_cut(output, job->message, 120);
  }
  cli_print_string(output, "\n");
}

void cli_job_print(cli_output *output, const tp_job *job, bool json) {
  assert(job);
  if (json) print_json(output, job);
  else print_job(output, job);
}
