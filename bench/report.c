/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench/peer.h"

enum { REPETITIONS = 1000, REPETITIONS_QUICK = 5, SECONDS_MAX = 150, WARM_UP_MS = 50, WARM_UP_MS_QUICK = 1 };

/* ---- options ---- */

static void help(const char *name, const char *summary, const char *rows) {
  printf(
      "Usage: %s [OPTION…] [ROW…]\n\n%s\nRows: %s(none named: all)\n\n"
      "  --json            one JSON object a line instead of tables\n"
      "  --check           exit with 1 when a figure is above its bound\n"
      "  --repetitions N   how often each contestant is measured (%d)\n"
      "  --quick           just to see that it runs: %d repetitions, small sizes\n"
      "  --list            the rows, and nothing else\n",
      name, summary, rows, REPETITIONS, REPETITIONS_QUICK);
}

static void usage_error(const char *name, const char *word) {
  fprintf(stderr, "%s: what is '%s'? (see --help)\n", name, word);
  exit(2);
}

static bool is_row(const char *rows, const char *word) {
  char padded[32];
  snprintf(padded, sizeof padded, " %s ", word);
  return strncmp(rows, padded + 1, strlen(padded + 1)) == 0 || strstr(rows, padded);
}

static uint32_t number_after(const char *name, int argc, char **argv, int i) {
  char *end = NULL;
  long number = i + 1 < argc ? strtol(argv[i + 1], &end, 10) : 0;
  if (!end || *end || number < 1 || number > 1000000) usage_error(name, argv[i]);
  return (uint32_t)number;
}

static void read_options(bench_program *program, const char *summary, const char *rows, int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--json") == 0) program->json = true;
    else if (strcmp(argv[i], "--check") == 0) program->check = true;
    else if (strcmp(argv[i], "--quick") == 0) program->quick = true;
    else if (strcmp(argv[i], "--repetitions") == 0) program->repetitions = number_after(program->name, argc, argv, i++);
    else if (strcmp(argv[i], "--help") == 0) help(program->name, summary, rows), exit(0);
    else if (strcmp(argv[i], "--list") == 0) puts(rows), exit(0);
    else if (is_row(rows, argv[i])) program->wanted[program->wanted_count++] = argv[i];
    else usage_error(program->name, argv[i]);
  }
  if (program->repetitions == 0) program->repetitions = program->quick ? REPETITIONS_QUICK : REPETITIONS;
}

bool bench_wanted(const bench_program *program, const char *row) {
  for (int i = 0; i < program->wanted_count; i++)
    if (strcmp(program->wanted[i], row) == 0) return true;
  return program->wanted_count == 0;
}

bench_settings bench_settings_of(const bench_program *program) {
  return (bench_settings){.repetitions = program->repetitions,
                          .warm_up_ms = program->quick ? WARM_UP_MS_QUICK : WARM_UP_MS,
                          .seconds_max = SECONDS_MAX};
}

/* ---- JSON ---- */

static void json_text(const char *key, const char *text) {
  printf("\"%s\":\"", key);
  for (const char *c = text; *c; c++)
    if ((unsigned char)*c >= ' ') printf(*c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
  printf("\"");
}

static void json_number(const char *key, double number) { printf(",\"%s\":%.10g", key, number); }

/* ---- the machine ---- */

static void read_processor(char *name, size_t size) {
  char line[256];
  FILE *file = fopen("/proc/cpuinfo", "re");
  snprintf(name, size, "unknown");
  while (file && fgets(line, sizeof line, file)) {
    char *value = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !value) continue;
    value[strcspn(value, "\n")] = '\0';
    snprintf(name, size, "%.100s", value + 2);
    break;
  }
  if (file) fclose(file);
}

static const char *compiler(void) {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

static void list_peers(char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < bench_peer_count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s %s", i ? ", " : "", bench_peers[i]->name,
                             bench_peers[i]->version());
}

static void print_machine(const bench_program *program) {
  char processor[128], peers[256], date[32];
  struct utsname machine;
  time_t now = time(NULL);
  struct tm utc;
  if (uname(&machine) != 0) exit(70);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  read_processor(processor, sizeof processor);
  list_peers(peers, sizeof peers);
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  const char *stamps = bench_counter_steady() ? "time-stamp counter" : "clock_gettime";
  double trip = bench_round_trip_ns();
  if (program->json) {
    printf("{\"machine\":{");
    const char *const texts[][2] = {{"bench", program->name},          {"date", date},
                                    {"system", machine.sysname},       {"release", machine.release},
                                    {"architecture", machine.machine}, {"processor", processor},
                                    {"compiler", compiler()},          {"build_type", BENCH_BUILD_TYPE},
                                    {"turnphase", tp_version()},       {"peers", peers},
                                    {"floor_stamps", stamps}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
      if (i) printf(",");
      json_text(texts[i][0], texts[i][1]);
    }
    json_number("processors", (double)processors);
    json_number("round_trip_ns", trip);
    printf("}}\n");
    return;
  }
  printf("%s: %s\n", program->name, date);
  printf("machine    %s %s %s; %s, %ld processors, cache line there and back %.0f ns (%s)\n", machine.sysname,
         machine.release, machine.machine, processor, processors, trip, bench_distance_name(bench_distance_of(trip)));
  printf("build      turnphase %s, %s, %s; peers: %s\n", tp_version(), compiler(), BENCH_BUILD_TYPE,
         *peers ? peers : "none");
  printf("times      nanoseconds of %u repetitions in turns; the floor stamps with the %s\n", program->repetitions,
         stamps);
}

void bench_open(bench_program *program, const char *name, const char *summary, const char *rows, int argc,
                char **argv) {
  *program = (bench_program){.name = name, .wanted = bench_alloc((size_t)argc, sizeof(char *))};
  read_options(program, summary, rows, argc, argv);
  setvbuf(stdout, NULL, _IOLBF, 0);
  print_machine(program);
}

int bench_close(const bench_program *program) {
  if (program->check && program->broken)
    fprintf(stderr, "%s: %u figures are above their bounds\n", program->name, program->broken);
  free(program->wanted);
  return program->check && program->broken;
}

/* ---- rows ---- */

size_t bench_row_add(bench_row *row, bench_contestant contestant, bench_bound bound) {
  if (row->count == BENCH_CONTESTANTS_MAX) exit(70);
  row->contestants[row->count] = contestant;
  row->bounds[row->count] = bound;
  return row->count++;
}

static double ratio_of(const bench_row *row, size_t i) {
  const bench_result *result = &row->results[i], *against = &row->results[row->bounds[i].against];
  return against->all.median > 0 ? result->all.median / against->all.median : 0;
}

static bool is_broken(const bench_row *row, size_t i) {
  const bench_bound *bound = &row->bounds[i];
  if (bound->ratio > 0 && ratio_of(row, i) > bound->ratio) return true;
  return bound->ns > 0 && row->results[i].all.median > bound->ns;
}

static void print_bound(const bench_row *row, size_t i) {
  const bench_bound *bound = &row->bounds[i];
  const char *glue = "  must be ≤ ";
  if (bound->ratio > 0) printf("%s%.2f", glue, bound->ratio), glue = ", ";
  if (bound->ns > 0) printf("%s%.0f ns", glue, bound->ns), glue = ", ";
  if (glue[0] == ',') printf(is_broken(row, i) ? "  ABOVE" : "  ok");
}

static void print_contestant(const bench_row *row, size_t i) {
  const bench_result *r = &row->results[i];
  char label[96];
  double per = row->per > 0 ? row->per : 1;
  snprintf(label, sizeof label, "%s%s%s", row->contestants[i].name, row->contestants[i].form ? ": " : "",
           row->contestants[i].form ? row->contestants[i].form : "");
  printf("  %-64.64s %11.1f %11.1f %11.1f %11.1f %11.1f %9.1f", label, r->all.median, r->all.least, r->all.p25,
         r->all.p75, r->all.p99, r->cpu_ns / per);
  if (i != row->bounds[i].against) printf("  %6.2f", ratio_of(row, i));
  else printf("  %6s", "");
  print_bound(row, i);
  printf("\n");
  if (r->distance == BENCH_MIXED && row->contestants[i].threads && r->near.count && r->far.count)
    printf("  %-64s %11.1f near (%u), %.1f far (%u)\n", "", r->near.median, r->near.count, r->far.median, r->far.count);
}

static void print_row(const bench_row *row) {
  const bench_result *first = &row->results[0];
  uint32_t restless = 0;
  for (size_t i = 0; i < row->count; i++) restless += row->results[i].restless;
  printf("\n%s  %s  [%u repetitions; %.0f → %.0f ns: %s; others used %.2f processors]\n", row->name, row->what,
         first->all.count, first->probe_first, first->probe_last, bench_distance_name(first->distance), first->others);
  if (restless > 0) printf("  before %u batches another contestant's threads did not come to rest\n", restless);
  printf("  %-64s %11s %11s %11s %11s %11s %9s  %6s\n", "", "median", "least", "p25", "p75", "p99", "CPU", "ratio");
  for (size_t i = 0; i < row->count; i++) print_contestant(row, i);
}

static void json_spread(const char *key, const bench_spread *s) {
  printf(",\"%s\":{\"count\":%u,\"least\":%.10g,\"p25\":%.10g,\"median\":%.10g,\"p75\":%.10g,\"p99\":%.10g}", key,
         s->count, s->least, s->p25, s->median, s->p75, s->p99);
}

static void json_row(const bench_program *program, const bench_row *row, size_t i) {
  const bench_result *r = &row->results[i];
  const bench_contestant *contestant = &row->contestants[i];
  const bench_bound *bound = &row->bounds[i];
  printf("{");
  json_text("bench", program->name), printf(","), json_text("row", row->name), printf(",");
  json_text("what", row->what), printf(","), json_text("contestant", contestant->name), printf(",");
  json_text("form", contestant->form ? contestant->form : ""), printf(",");
  json_text("distance", bench_distance_name(r->distance)), printf(","), json_text("cpu_unit", row->unit);
  json_spread("ns", &r->all), json_spread("near_ns", &r->near), json_spread("far_ns", &r->far);
  json_number("runs_in_batch", r->times);
  json_number("cpu_ns", r->cpu_ns / (row->per > 0 ? row->per : 1));
  json_number("probe_first_ns", r->probe_first), json_number("probe_last_ns", r->probe_last);
  json_number("others", r->others), json_number("restless", r->restless);
  if (i != bound->against) {
    printf(","), json_text("against", row->contestants[bound->against].name);
    json_number("ratio", ratio_of(row, i));
  }
  if (bound->ratio > 0) json_number("ratio_max", bound->ratio);
  if (bound->ns > 0) json_number("ns_max", bound->ns);
  printf(",\"kept\":%s}\n", is_broken(row, i) ? "false" : "true");
}

void bench_row_run(bench_program *program, bench_row *row, const bench_settings *settings) {
  bench_settings own = bench_settings_of(program);
  if (!row->unit) row->unit = "a run";
  bench_measure(settings ? settings : &own, row->contestants, row->count, row->results);
  for (size_t i = 0; i < row->count; i++) {
    program->broken += is_broken(row, i);
    if (program->json) json_row(program, row, i);
  }
  if (!program->json) print_row(row);
  program->figures = 0;
  for (size_t i = 0; i < row->count; i++)
    if (row->contestants[i].close) row->contestants[i].close(row->contestants[i].ctx);
}

void bench_figure(bench_program *program, const char *row, const char *what, double value, const char *unit,
                  double limit) {
  bool broken = limit > 0 && value > limit;
  program->broken += broken;
  if (program->json) {
    printf("{");
    json_text("bench", program->name), printf(","), json_text("row", row), printf(",");
    json_text("what", what), printf(","), json_text("unit", unit);
    json_number("value", value);
    if (limit > 0) json_number("max", limit);
    printf(",\"kept\":%s}\n", broken ? "false" : "true");
    return;
  }
  printf("%s%s  %s: %.4g %s", program->figures++ ? "" : "\n", row, what, value, unit);
  if (limit > 0) printf("  must be ≤ %.4g  %s", limit, broken ? "ABOVE" : "ok");
  printf("\n");
}

void bench_figure_best(bench_program *program, const bench_row *row, size_t ours, size_t first, size_t count,
                       const char *what, double limit) {
  char label[128];
  if (count == 0) return;
  bench_spread best = row->results[first].all;
  for (size_t i = first + 1; i < first + count; i++) {
    const bench_spread *other = &row->results[i].all;
    if (other->median < best.median) best.median = other->median;
    if (other->p25 < best.p25) best.p25 = other->p25;
  }
  snprintf(label, sizeof label, "%s, median", what);
  bench_figure(program, row->name, label, row->results[ours].all.median / best.median, "times", limit);
  snprintf(label, sizeof label, "%s, p25", what);
  bench_figure(program, row->name, label, row->results[ours].all.p25 / best.p25, "times", limit);
}
