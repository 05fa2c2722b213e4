/* SPDX-License-Identifier: Apache-2.0
 *
 * The command bench: how long the phases of the user's own plan take, and which part of that his handlers take.
 * Everything is opened and checked first. Then come the warm-up turns, the turns that count, and the report. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/hdr.h"
#include "cli/bench/report.h"
#include "cli/bench/rounds.h"
#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/run/host.h"
#include "cli/run/payload.h"
#include "turnphase/declared.h"

enum { DRAIN_LIMIT_MS = 30000 };

/** All that a bench holds. */
typedef struct bench {
  const cli_arguments *arguments;
  tp_runtime *runtime;
  cli_payload payload;
  cli_round_phase *phases;
  size_t phase_count, phase_capacity;
  uint32_t *phase_ids; /* of phases, for the recorder */
  cli_recorder *recorder;
  tp_model **scripts; /* with --script: one for each turn that runs at once */
  cli_baseline baseline;
  cli_round round;
} bench;

/* ---- whole turns ---- */

static const char *script_of(const cli_arguments *arguments) {
  return arguments->models.count > 0 ? arguments->models.items[0].script : NULL;
}

/* Reads the script as JSON that begins again after its last response, whatever the file says. */
static int read_script(const char *file, tp__bytes *json) {
  tp_text text, value;
  tp_model *once = NULL;
  tp_writer *writer = NULL;
  tp_fault fault = {0};
  int status = cli_input_read(file, &text);
  if (status != CLI_OK) return status;
  cli_need(tp_writer_new(NULL, &writer));
  tp_status read = tp_script_model_load(text, file, &once, &fault); /* its faults have line and column */
  if (read == TP_OK) read = tp_yaml_decode(text, file, writer, &fault);
  if (read == TP_OK) read = tp_writer_finish(writer, &value);
  if (read == TP_OK && tp_value_count(tp_value_get(value, "responses")) == 0)
    read = TP_ERR_MALFORMED, snprintf(fault.message, sizeof fault.message, "responses is empty: a turn needs one");
  if (read == TP_OK) {
    tp__bytes_put_string(json, "{\"repeat\":true,\"responses\":");
    read = cli_buffer_add_json(json, tp_value_get(value, "responses"), &fault);
    tp__bytes_put_string(json, "}");
  }
  tp_model_free(once);
  tp_writer_free(writer);
  free((void *)(uintptr_t)text.data);
  return read == TP_OK ? CLI_OK : cli_fault(file, read, &fault);
}

/* Each turn that runs at once has a script of its own, so that none takes a response of another. */
static int open_scripts(bench *b) {
  const char *file = script_of(b->arguments);
  tp__bytes json = {.data = NULL};
  tp_fault fault = {0};
  if (!file) return CLI_OK;
  int status = read_script(file, &json);
  if (status == CLI_OK) b->scripts = cli_alloc(b->arguments->concurrency * sizeof(tp_model *));
  for (uint32_t i = 0; status == CLI_OK && i < b->arguments->concurrency; i++) {
    tp_status made = tp_script_model_decode(tp__bytes_string(&json), &b->scripts[i], &fault);
    if (made != TP_OK) status = cli_fault(file, made, &fault);
  }
  tp__bytes_fini(&json);
  return status;
}

/* ---- which phases ---- */

static int check_names(const bench *b) {
  const cli_words *names = &b->arguments->phases;
  for (size_t i = 0; i < names->count; i++)
    if (!cli_phase_find(b->runtime, names->items[i])) return CLI_USAGE;
  return CLI_OK;
}

static bool is_wanted(const bench *b, uint32_t phase) {
  const cli_words *names = &b->arguments->phases;
  for (size_t i = 0; i < names->count; i++)
    if (tp_phase_find(b->runtime, names->items[i]) == phase) return true;
  return names->count == 0;
}

static bool is_measured(const bench *b, uint32_t phase) {
  for (size_t i = 0; i < b->phase_count; i++)
    if (b->phases[i].phase == phase) return true;
  return false;
}

/* Subscriptions come phase by phase. */
static bool add_bench_phase(void *ctx, const tp_subscription_info *subscription) {
  bench *b = ctx;
  uint32_t id = subscription->phase;
  if (!is_wanted(b, id) || is_measured(b, id)) return true;
  size_t count;
  tp_field *fields = cli_payload_for(&b->payload, tp_phase_get(b->runtime, id), &count);
  b->phases = cli_reserve(b->phases, b->phase_count, &b->phase_capacity, sizeof *b->phases);
  b->phases[b->phase_count++] = (cli_round_phase){
      .phase = id, .input = {.struct_size = sizeof(tp_phase_input), .fields = fields, .field_count = count}};
  return true;
}

/* A phase that was requested and has nothing to measure is an error; a phase that was not requested is left out. */
static int choose_phases(bench *b) {
  const cli_words *names = &b->arguments->phases;
  tp_fault fault = {0};
  int status = check_names(b);
  if (status != CLI_OK) return status;
  tp_status walked = tp_runtime_subscriptions(b->runtime, NULL, add_bench_phase, b, &fault);
  if (walked != TP_OK) return cli_fault("the subscriptions", walked, &fault);
  for (size_t i = 0; i < names->count; i++) {
    uint32_t id = tp_phase_find(b->runtime, names->items[i]);
    if (is_measured(b, id)) continue;
    cli_error("%s has no subscriptions: --load a library that subscribes to it; see: turnphase phases",
              tp_phase_get(b->runtime, id)->name);
    return CLI_CONFIG;
  }
  if (b->phase_count > 0 || b->scripts) return CLI_OK;
  cli_error("nothing is subscribed: --load a library that exports tp_domain_export");
  return CLI_CONFIG;
}

/* A field that no phase reads is a slip. */
static int check_payload(const bench *b) {
  for (size_t i = 0; i < b->payload.count; i++) {
    bool carried = false;
    uint32_t field = b->payload.fields[i].id;
    for (size_t j = 0; j < b->phase_count; j++)
      carried = carried || cli_phase_carries(tp_phase_get(b->runtime, b->phases[j].phase), field);
    if (carried) continue;
    cli_error_at(cli_input_name(b->arguments->payload), 0, 0, "no phase that is measured carries the field \"%s\"",
                 tp_field_name(field));
    return CLI_CONFIG;
  }
  return CLI_OK;
}

/* ---- measuring ---- */

/* Without this, the first turn would start the threads. */
static int start_runtime(tp_runtime *runtime) {
  tp_fault fault = {0};
  tp_status status = tp_runtime_start(runtime, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(NULL, status, &fault);
}

static int open_runtime(bench *b) {
  tp_store *store;
  int status = cli_recorder_new(&b->recorder, &store);
  return status == CLI_OK ? cli_host_open(b->arguments, NULL, store, &b->runtime) : status;
}

static void begin_records(bench *b) {
  b->phase_ids = cli_alloc(b->phase_count * sizeof *b->phase_ids);
  for (size_t i = 0; i < b->phase_count; i++) b->phase_ids[i] = b->phases[i].phase;
  cli_recorder_begin(b->recorder, b->phase_ids, b->phase_count, b->baseline.step_ns,
                     b->arguments->timestamps != TP_TIMESTAMPS_OFF, b->scripts != NULL);
}

static int open_bench(bench *b) {
  const cli_arguments *a = b->arguments;
  const char *wrong = NULL;
  if (script_of(a) && a->payload) wrong = "--payload is for bare turns, and --script makes whole ones, with --text";
  if (!script_of(a) && a->text) wrong = "--text is for the turns of --script";
  if (a->models.count > 1) wrong = "--script may be given once";
  if (wrong) cli_error("bench: %s; see: turnphase bench --help", wrong);
  int status = wrong ? CLI_USAGE : CLI_OK;
  if (status == CLI_OK) status = open_scripts(b);
  if (status == CLI_OK) status = cli_payload_read(b->arguments->payload, &b->payload);
  if (status == CLI_OK) status = open_runtime(b);
  if (status == CLI_OK) status = choose_phases(b);
  if (status == CLI_OK) status = check_payload(b);
  if (status == CLI_OK) status = cli_baseline_read(b->arguments->timestamps, &b->baseline);
  if (status == CLI_OK) status = start_runtime(b->runtime);
  return status;
}

static int run_turns(bench *b) {
  const cli_arguments *arguments = b->arguments;
  begin_records(b);
  cli_round warm_up = {.runtime = b->runtime,
                       .recorder = b->recorder,
                       .phases = b->phases,
                       .phase_count = b->phase_count,
                       .scripts = b->scripts,
                       .text = tp_text_of(arguments->text ? arguments->text : "Hello"),
                       .turns = arguments->warm_up,
                       .concurrency = arguments->concurrency};
  int status = arguments->warm_up ? cli_round_run(&warm_up) : CLI_OK;
  if (status != CLI_OK) return status;
  b->round = warm_up;
  b->round.turns = arguments->turns;
  b->round.rate = arguments->rate;
  b->round.statistics =
      cli_statistics_new(b->phase_count, b->baseline.step_ns, arguments->timestamps != TP_TIMESTAMPS_OFF);
  return cli_round_run(&b->round);
}

static int print_report(const bench *b, cli_output *output) {
  cli_machine machine = cli_machine_read();
  cli_report report = {.arguments = b->arguments, .machine = &machine, .baseline = &b->baseline, .round = &b->round};
  if (b->arguments->json) cli_report_print_json(&report, output);
  else cli_report_print(&report, output);
  cli_flush(output);
  return b->arguments->hdr ? cli_hdr_write(b->arguments->hdr, &report) : CLI_OK;
}

static bool any_failed(const cli_statistics *statistics) {
  const uint64_t *endings = statistics->whole.endings;
  if (endings[CLI_ENDING_FAILED] || endings[CLI_ENDING_CANCELLED]) return true;
  for (size_t i = 0; i < statistics->phase_count; i++)
    if (statistics->phases[i].endings[CLI_ENDING_FAILED] || statistics->phases[i].endings[CLI_ENDING_CANCELLED])
      return true;
  return false;
}

/* Background work of the turns is done before the report, because the report includes its time. */
static void drain(bench *b) {
  tp_drain_report left = {.struct_size = sizeof left};
  if (tp_runtime_drain(b->runtime, DRAIN_LIMIT_MS, &left, NULL) == TP_OK && left.jobs_lost > 0)
    cli_error("warning: %llu background jobs were not run within %d s", (unsigned long long)left.jobs_lost,
              DRAIN_LIMIT_MS / 1000);
  cli_recorder_take(b->recorder, b->round.statistics);
  cli_statistics_join(b->round.statistics);
}

static void close_bench(bench *b) {
  tp_runtime_free(b->runtime);
  cli_recorder_free(b->recorder);
  for (uint32_t i = 0; b->scripts && i < b->arguments->concurrency; i++) tp_model_free(b->scripts[i]);
  free(b->scripts);
  free(b->phase_ids);
  cli_statistics_free(b->round.statistics);
  for (size_t i = 0; i < b->phase_count; i++) free((void *)(uintptr_t)b->phases[i].input.fields);
  free(b->phases);
  cli_payload_free(&b->payload);
}

int cli_bench(const cli_arguments *given, cli_output *output) {
  if (cli_rounds_wanted(given)) return cli_rounds(given, output);
  cli_arguments arguments = *given;
  arguments.every_call = true; /* what fails is measured like the rest */
  bench b = {.arguments = &arguments};
  int status = open_bench(&b);
  if (status == CLI_OK) status = run_turns(&b);
  if (status == CLI_OK) {
    drain(&b);
    status = print_report(&b, output);
    if (status == CLI_OK && any_failed(b.round.statistics)) status = CLI_NEGATIVE;
  }
  close_bench(&b);
  return status;
}
