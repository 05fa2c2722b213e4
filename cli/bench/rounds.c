/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds.c: each process prints the report of its bench as JSON. The median of each distribution is one sample (for
 * whole turns also p99). It is interpolated inside of its bucket, so that samples do not jump by the width of a
 * bucket. */
#include "cli/bench/rounds.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/bench/comparison.h"
#include "cli/common/exit_status.h"
#include "cli/common/input.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/quantity.h"
#include "runtime/base/check.h"
#include "support/file.h"

extern char **environ;

enum { ROUNDS = 20, ROUNDS_VERSION = 1, A = 0, B = 1, SIDES = 2, ROW_NAME_WIDTH = 34, TIME_WIDTH = 10 };

/* The most frequent rate at which any row of a comparison may show a difference although there is none. */
static const double ERROR = 0.01;

/** A row of the comparison: the figure of a distribution. */
typedef struct row {
  char *name;
  const char *figure;     /* "median" or "p99" */
  double *samples[SIDES]; /* ns */
  size_t counts[SIDES], capacities[SIDES];
  cli_comparison comparison; /* where both sides have samples */
} row;

typedef struct side {
  const char *name; /* as the user gave it; NULL: the command line itself */
  cli_words words;  /* options besides those of the command line */
  tp_writer *writer;
  tp_text first; /* the report of the first round, or the stored result; empty: not read yet */
} side;

typedef struct rounds {
  const cli_arguments *arguments;
  size_t count;
  side sides[SIDES];
  size_t side_count; /* 2 with a comparison */
  bool is_stored;    /* A is a stored result */
  row *rows;
  size_t row_count, row_capacity;
  cli_pool pool;
  bool any_failed;
} rounds;

bool cli_rounds_wanted(const cli_arguments *arguments) {
  return arguments->rounds || arguments->compare || arguments->baseline || arguments->operand_count > 0;
}

/* ---- the command line ---- */

static int refuse_bench(const char *what) {
  cli_error("bench: %s; see: turnphase bench --help", what);
  return CLI_USAGE;
}

static int check_rounds(const cli_arguments *a) {
  if (a->operand_count > 0 && !a->compare) return refuse_bench("operands are for --compare A B");
  if (a->compare && a->operand_count != SIDES)
    return refuse_bench(
        "--compare needs two benches, A and B: each a library, a directory of hooks, or a command in quotes");
  if (a->compare && a->baseline) return refuse_bench("--compare and --baseline are two comparisons: give one of them");
  if (a->hdr || a->histograms) return refuse_bench("--hdr and --histogram are of a bench without rounds");
  if (a->payload && strcmp(a->payload, "-") == 0)
    return refuse_bench("standard input can be read once, and each round is a process: --payload takes a file here");
  for (size_t i = 0; i < a->models.count; i++)
    if (a->models.items[i].script && strcmp(a->models.items[i].script, "-") == 0)
      return refuse_bench("standard input can be read once, and each round is a process: --script takes a file here");
  return CLI_OK;
}

/* Options that this process has read itself. getopt accepts the beginning of a name for the name. */
static bool is_own(const char *word) {
  static const char *const names[] = {"--compare", "--baseline", "--rounds", "--json", "--histogram", "--hdr"};
  size_t size = strcspn(word, "=");
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (size > 3 && strncmp(word, names[i], size) == 0) return true;
  return strcmp(word, "-j") == 0;
}

static void add_word(cli_words *words, const char *word) {
  words->items = cli_reserve(words->items, words->count + 1, &words->capacity, sizeof *words->items);
  words->items[words->count++] = word;
  words->items[words->count] = NULL;
}

/* Splits words at blanks; quotes protect blanks. @return whether every quote has its end. */
static bool split_words(rounds *r, cli_words *words, const char *text) {
  tp__bytes word = {.data = NULL};
  char quote = 0;
  bool inside = false;
  for (const char *at = text;; at++) {
    bool is_end = *at == '\0' || (!quote && strchr(" \t\n", *at));
    if (is_end && inside) {
      add_word(words, cli_pool_copy(&r->pool, tp__bytes_text(&word)));
      tp__bytes_clear(&word);
      inside = false;
    }
    if (*at == '\0') break;
    if (is_end) continue;
    inside = true;
    if (quote ? *at == quote : *at == '\'' || *at == '"') quote = quote ? 0 : *at;
    else cli_buffer_add(&word, at, 1);
  }
  tp__bytes_fini(&word);
  return !quote;
}

static bool is_directory(const char *path) {
  struct stat found;
  return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

/* The options in "turnphase bench OPTIONS", "bench OPTIONS" or, after --, "OPTIONS"; NULL: the text is no command. */
static const char *options_in(const char *given) {
  static const char *const words[] = {"turnphase ", "bench "};
  bool is_command = given[0] == '-';
  for (size_t i = 0; i < 2; i++) {
    size_t size = strlen(words[i]);
    if (strncmp(given, words[i], size) != 0) continue;
    given += size;
    is_command = true;
  }
  return is_command ? given : NULL;
}

static int read_side(rounds *r, side *s, const char *given) {
  size_t size = strlen(given);
  const char *options = options_in(given);
  s->name = given;
  if (!options) {
    bool is_library = size > 3 && strcmp(given + size - 3, ".so") == 0;
    if (!is_library && !is_directory(given)) {
      cli_error("--compare: %s is no library (.so), no directory of hooks, and no command such as 'bench --load A.so'",
                given);
      return CLI_USAGE;
    }
    add_word(&s->words, is_library ? "--load" : "--hooks");
    add_word(&s->words, given);
    return CLI_OK;
  }
  if (!split_words(r, &s->words, options)) {
    cli_error("--compare: a quote has no end: %s", given);
    return CLI_USAGE;
  }
  for (size_t i = 0; i < s->words.count; i++) {
    if (!is_own(s->words.items[i])) continue;
    cli_error("--compare: %s is an option of the comparison: give it outside of A and B", s->words.items[i]);
    return CLI_USAGE;
  }
  return CLI_OK;
}

/* ---- one round ---- */

/* @return its wait status, or -1 after a message why it could not be run. */
static int run_process(char *const argv[], tp__bytes *bytes) {
  int ends[2], status = 0;
  pid_t child;
  posix_spawn_file_actions_t actions;
  if (pipe2(ends, O_CLOEXEC) < 0) {
    cli_error("a bench cannot be started: %s", strerror(errno));
    return -1;
  }
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  int error = posix_spawn(&child, "/proc/self/exe", &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (!error) error = -tp__file_read_open(ends[0], CLI_INPUT_BYTES_MAX, bytes);
  close(ends[0]);
  if (error) {
    cli_error("a bench cannot be started or read: %s", strerror(error));
    return -1;
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  return status;
}

static int run_bench(rounds *r, const side *s, tp__bytes *bytes) {
  const cli_words *given = &r->arguments->given;
  size_t count = 0;
  char **argv = cli_alloc((given->count + s->words.count + 5) * sizeof *argv);
  argv[count++] = (char *)(uintptr_t) "turnphase";
  argv[count++] = (char *)(uintptr_t) "bench";
  for (size_t i = 0; i < given->count; i++)
    if (!is_own(given->items[i])) argv[count++] = (char *)(uintptr_t)given->items[i];
  for (size_t i = 0; i < s->words.count; i++) argv[count++] = (char *)(uintptr_t)s->words.items[i];
  argv[count++] = (char *)(uintptr_t) "--json";
  argv[count++] = (char *)(uintptr_t) "--histogram=phases";
  int status = run_process(argv, bytes);
  free(argv);
  if (status < 0) return CLI_IO;
  int exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  r->any_failed = r->any_failed || exit_status == CLI_NEGATIVE;
  if (exit_status == CLI_OK || exit_status == CLI_NEGATIVE) return CLI_OK;
  cli_error("the bench%s%s ended with status %d", s->name ? " " : "", s->name ? s->name : "", exit_status);
  return exit_status;
}

static row *figure_row_of(rounds *r, tp_text name, const char *figure) {
  for (size_t i = 0; i < r->row_count; i++)
    if (tp_text_is(name, r->rows[i].name) && strcmp(figure, r->rows[i].figure) == 0) return &r->rows[i];
  r->rows = cli_reserve(r->rows, r->row_count, &r->row_capacity, sizeof *r->rows);
  row *added = &r->rows[r->row_count++];
  *added = (row){.name = cli_pool_copy(&r->pool, name), .figure = figure};
  return added;
}

static void add_sample(row *to, size_t which, double sample_ns) {
  to->samples[which] = cli_reserve(to->samples[which], to->counts[which], &to->capacities[which], sizeof(double));
  to->samples[which][to->counts[which]++] = sample_ns;
}

/* @param figures  a distribution with its histogram.  @return 0 when it is empty. */
static double quantile_of(tp_text figures, double share) {
  double rank = share * (double)tp_value_int(tp_value_get(figures, "count"), 0), seen = 0;
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(figures, "histogram"), &walk);) {
    double from = (double)tp_value_int(tp_value_at(walk.value, 0), 0);
    double to = (double)tp_value_int(tp_value_at(walk.value, 1), 0);
    double count = (double)tp_value_int(tp_value_at(walk.value, 2), 0);
    if (seen + count >= rank && count > 0) return from + (to - from) * (rank - seen) / count;
    seen += count;
  }
  return 0;
}

static void add_figure(rounds *r, size_t which, tp_text name, tp_text figures, const char *figure, double share) {
  double sample_ns = quantile_of(figures, share);
  if (sample_ns > 0) add_sample(figure_row_of(r, name, figure), which, sample_ns);
}

static void add_report(rounds *r, size_t which, tp_text report) {
  static const struct {
    const char *name, *key;
  } turns[] = {{"the whole turn", "duration_ns"}, {"since scheduled", "response_ns"}};
  for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
    tp_text figures = tp_value_get(tp_value_get(report, "turn"), turns[i].key);
    add_figure(r, which, tp_text_of(turns[i].name), figures, "median", 0.5);
    add_figure(r, which, tp_text_of(turns[i].name), figures, "p99", 0.99);
  }
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(report, "phases"), &walk);)
    add_figure(r, which, tp_value_text(tp_value_get(walk.value, "phase")), tp_value_get(walk.value, "duration_ns"),
               "median", 0.5);
}

static int run_round(rounds *r, size_t which) {
  side *s = &r->sides[which];
  tp__bytes bytes = {.data = NULL};
  tp_writer *writer = NULL;
  tp_text report;
  tp_fault fault = {0};
  int status = run_bench(r, s, &bytes);
  if (status == CLI_OK) {
    cli_need(tp_writer_new(NULL, &writer));
    tp_status decoded = tp_json_decode(tp__bytes_text(&bytes), writer, &fault);
    if (decoded == TP_OK) decoded = tp_writer_finish(writer, &report);
    if (decoded != TP_OK) status = cli_fault("the report of a bench", decoded, &fault);
  }
  if (status == CLI_OK) add_report(r, which, report);
  if (status == CLI_OK && !s->first.size) {
    s->first = report;
    s->writer = writer;
    writer = NULL;
  }
  tp_writer_free(writer);
  tp__bytes_fini(&bytes);
  return status;
}

/* ---- a stored result ---- */

static int refuse_stored(const rounds *r, const char *why) {
  cli_error_at(r->arguments->baseline, 0, 0, "%s", why);
  return CLI_CONFIG;
}

static int take_rows(rounds *r, tp_text rows) {
  for (tp_value_walk walk = {0}; tp_value_next(rows, &walk);) {
    tp_text name = tp_value_text(tp_value_get(walk.value, "name"));
    tp_text figure = tp_value_text(tp_value_get(walk.value, "figure"));
    tp_text samples = tp_value_get(walk.value, "samples_ns");
    bool is_median = tp_text_is(figure, "median");
    if (!name.size || (!is_median && !tp_text_is(figure, "p99")) || tp_value_count(samples) == 0)
      return refuse_stored(r, "a row needs a name, a figure (median or p99) and samples_ns: it was changed, or cut");
    row *to = figure_row_of(r, name, is_median ? "median" : "p99");
    for (tp_value_walk each = {0}; tp_value_next(samples, &each);) {
      double sample_ns = tp_value_double(each.value, 0);
      if (!(sample_ns > 0)) return refuse_stored(r, "samples_ns has what is no time: it was changed, or cut");
      add_sample(to, A, sample_ns);
    }
  }
  return CLI_OK;
}

static int read_stored(rounds *r) {
  side *s = &r->sides[A];
  s->name = r->arguments->baseline;
  int status = cli_input_decode(r->arguments->baseline, &s->writer, &s->first);
  if (status != CLI_OK) return status;
  tp_text version = tp_value_get(s->first, "version"), rows = tp_value_get(s->first, "rows");
  char why[160];
  if (tp_value_kind_of(version) == TP_VALUE_INT && tp_value_int(version, 0) != ROUNDS_VERSION) {
    snprintf(why, sizeof why, "it is of version %lld, and this command reads %d: measure it again",
             (long long)tp_value_int(version, 0), ROUNDS_VERSION);
    return refuse_stored(r, why);
  }
  if (tp_value_kind_of(version) != TP_VALUE_INT || tp_value_kind_of(rows) != TP_VALUE_ARRAY ||
      tp_value_count(rows) == 0 || tp_value_get(s->first, "sides").size)
    return refuse_stored(r, "it is no result of turnphase bench --rounds N --json");
  return take_rows(r, rows);
}

/* Compares machine, build and settings: everything must be equal except the release, which may be the subject of the
 * comparison. */
static int compare_key(const rounds *r, const char *group, const char *key, tp_text now) {
  tp_text stored = tp_value_get(tp_value_get(r->sides[A].first, group), key);
  tp__bytes was = {.data = NULL}, is = {.data = NULL}, why = {.data = NULL};
  tp_fault fault;
  if (tp_text_equal(stored, now)) return CLI_OK;
  if (!stored.size) cli_buffer_add(&was, "not there", 9);
  else (void)cli_buffer_add_json(&was, stored, &fault);
  (void)cli_buffer_add_json(&is, now, &fault);
  tp__bytes_printf(&why, "it is of another bench: %s.%s is %s there, and %s here", group, key, tp__bytes_string(&was),
                   tp__bytes_string(&is));
  int status = refuse_stored(r, tp__bytes_string(&why));
  tp__bytes_fini(&was);
  tp__bytes_fini(&is);
  tp__bytes_fini(&why);
  return status;
}

static int check_same_bench(const rounds *r) {
  static const char *const groups[] = {"settings", "build", "machine"};
  static const char *const may_differ[] = {"turnphase", "compiler", "system"};
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
    for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(r->sides[B].first, groups[i]), &walk);) {
      char key[64];
      bool differs = false;
      snprintf(key, sizeof key, "%.*s", (int)walk.key.size, walk.key.data);
      for (size_t j = 0; j < 3; j++) differs = differs || strcmp(key, may_differ[j]) == 0;
      int status = differs ? CLI_OK : compare_key(r, groups[i], key, walk.value);
      if (status != CLI_OK) return status;
    }
  for (size_t i = 0; i < r->row_count; i++) {
    const row *w = &r->rows[i];
    if (w->counts[A] > 0 && w->counts[B] > 0) continue;
    cli_error_at(r->arguments->baseline, 0, 0, "it is of another bench: %s is only %s", w->name,
                 w->counts[A] > 0 ? "there" : "here");
    return CLI_CONFIG;
  }
  return CLI_OK;
}

/* ---- all rounds ---- */

static int run_rounds(rounds *r) {
  int status = CLI_OK;
  for (size_t i = 0; status == CLI_OK && i < r->count; i++) {
    size_t first = r->is_stored ? B : r->side_count == SIDES && i % 2 ? B : A;
    status = run_round(r, first);
    if (status == CLI_OK && r->side_count == SIDES && !r->is_stored) status = run_round(r, 1 - first);
    if (status == CLI_OK && r->is_stored && i == 0) status = check_same_bench(r);
  }
  return status;
}

static bool is_compared(const rounds *r, const row *w) {
  return r->side_count == SIDES && w->counts[A] > 0 && w->counts[B] > 0 &&
         (r->is_stored || w->counts[A] == w->counts[B]);
}

static void compare_rows(rounds *r) {
  size_t compared = 0;
  for (size_t i = 0; i < r->row_count; i++) compared += is_compared(r, &r->rows[i]);
  for (size_t i = 0; i < r->row_count; i++) {
    row *w = &r->rows[i];
    double error = ERROR / (double)compared;
    if (!is_compared(r, w)) continue;
    w->comparison = r->is_stored ? cli_compare_apart(w->samples[A], w->counts[A], w->samples[B], w->counts[B], error)
                                 : cli_compare_pairs(w->samples[A], w->samples[B], w->counts[A], error);
  }
}

/* ---- the report ---- */

static double per_cent(double ratio) { return 100 * (ratio - 1); }

static cli_quantity verdict_text(const rounds *r, const row *w) {
  const cli_comparison *c = &w->comparison;
  const char *first = r->is_stored ? "before" : "A", *second = r->is_stored ? "now" : "B";
  cli_quantity q;
  switch (c->verdict) {
    case CLI_VERDICT_A_FASTER:
      snprintf(q.text, sizeof q.text, "%s faster by %.1f..%.1f %%", first, per_cent(c->low), per_cent(c->high));
      break;
    case CLI_VERDICT_B_FASTER:
      snprintf(q.text, sizeof q.text, "%s faster by %.1f..%.1f %%", second, per_cent(1 / c->high),
               per_cent(1 / c->low));
      break;
    case CLI_VERDICT_TOO_FEW:
      snprintf(q.text, sizeof q.text, "too few rounds");
      break;
    default:
      snprintf(q.text, sizeof q.text, "no difference");
  }
  return q;
}

static double middle_of(const row *w, size_t which) {
  double *copy = cli_alloc(w->counts[which] * sizeof *copy);
  memcpy(copy, w->samples[which], w->counts[which] * sizeof *copy);
  double middle = cli_median_of(copy, w->counts[which]);
  free(copy);
  return middle;
}

static void print_rounds_text(const rounds *r, cli_output *output) {
  const cli_arguments *a = r->arguments;
  static const char *const heads[SIDES] = {"A", "B"}, *const stored_heads[SIDES] = {"before", "now"};
  if (r->is_stored) cli_printf(output, "before  %s\n", r->sides[A].name);
  for (size_t i = A; !r->is_stored && i < r->side_count && r->sides[i].name; i++)
    cli_printf(output, "%s  %s\n", heads[i], r->sides[i].name);
  cli_printf(output, "%zu rounds%s, each a process with %s turn%s after %s to warm up\n\n", r->count,
             r->side_count == SIDES && !r->is_stored ? " of each, interleaved" : "", cli_count(a->turns).text,
             a->turns == 1 ? "" : "s", cli_count(a->warm_up).text);
  cli_cell_left(output, "median of the rounds", ROW_NAME_WIDTH);
  for (size_t i = A; i < r->side_count; i++)
    cli_cell_right(output, r->side_count == 1 ? "time" : r->is_stored ? stored_heads[i] : heads[i], TIME_WIDTH);
  cli_print_string(output, "\n");
  for (size_t i = 0; i < r->row_count; i++) {
    const row *w = &r->rows[i];
    char name[96];
    snprintf(name, sizeof name, "%s%s", w->name, strcmp(w->figure, "p99") == 0 ? ", p99" : "");
    cli_cell_left(output, name, ROW_NAME_WIDTH);
    for (size_t which = A; which < r->side_count; which++)
      cli_cell_right(output, w->counts[which] ? cli_duration(middle_of(w, which)).text : "-", TIME_WIDTH);
    if (is_compared(r, w)) cli_printf(output, "  %s", verdict_text(r, w).text);
    else if (r->side_count == SIDES) cli_printf(output, "  only in %s", w->counts[A] ? "A" : "B");
    cli_print_string(output, "\n");
  }
  if (r->side_count == 1) return;
  const row *turn = &r->rows[0];
  if (is_compared(r, turn)) cli_printf(output, "\nThe whole turn: %s.\n", verdict_text(r, turn).text);
  cli_printf(
      output, "By ranks (%s); of 100 comparisons without a difference at most one shows one in any row.\n%s",
      r->is_stored ? "Mann and Whitney" : "Wilcoxon, pairs of rounds",
      r->is_stored ? "The two were not measured at the same time: what else the machine did counts, too.\n" : "");
}

static void add_side(cli_map *p, const side *s) {
  static const char *const groups[] = {"machine", "build", "settings"};
  if (s->name) cli_map_add_string(p, "name", s->name);
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
    cli_map_add_value(p, groups[i], tp_value_get(s->first, groups[i]));
}

static void add_samples(cli_map *p, const char *key, const row *w, size_t which) {
  cli_map_open_list(p, key);
  for (size_t i = 0; i < w->counts[which]; i++) cli_map_add_double(p, NULL, w->samples[which][i]);
  cli_map_close(p);
}

static void add_row(cli_map *p, const rounds *r, const row *w) {
  static const char *const verdicts[] = {"no difference", "a is faster", "b is faster", "too few rounds"};
  cli_map_open(p, NULL);
  cli_map_add_string(p, "name", w->name);
  cli_map_add_string(p, "figure", w->figure);
  if (r->side_count == 1) add_samples(p, "samples_ns", w, A);
  else {
    add_samples(p, "a_ns", w, A);
    add_samples(p, "b_ns", w, B);
  }
  if (is_compared(r, w)) {
    cli_map_add_double(p, "ratio", w->comparison.ratio);
    cli_map_add_double(p, "low", w->comparison.low);
    cli_map_add_double(p, "high", w->comparison.high);
    cli_map_add_string(p, "verdict", verdicts[w->comparison.verdict]);
  }
  cli_map_close(p);
}

static int print_rounds_json(const rounds *r, cli_output *output) {
  cli_map p = {0};
  cli_map_add_int(&p, "version", ROUNDS_VERSION);
  cli_map_add_int(&p, "rounds", (int64_t)r->count);
  if (r->side_count == 1) add_side(&p, &r->sides[A]);
  else {
    cli_map_open_list(&p, "sides");
    for (size_t i = A; i < SIDES; i++) {
      cli_map_open(&p, NULL);
      add_side(&p, &r->sides[i]);
      cli_map_close(&p);
    }
    cli_map_close(&p);
  }
  cli_map_open_list(&p, "rows");
  for (size_t i = 0; i < r->row_count; i++) add_row(&p, r, &r->rows[i]);
  cli_map_close(&p);
  return cli_map_print(&p, output);
}

static void free_rounds(rounds *r) {
  for (size_t i = A; i < SIDES; i++) {
    free(r->sides[i].words.items);
    tp_writer_free(r->sides[i].writer);
  }
  for (size_t i = 0; i < r->row_count; i++) {
    free(r->rows[i].samples[A]);
    free(r->rows[i].samples[B]);
  }
  free(r->rows);
  cli_pool_free(&r->pool);
}

int cli_rounds(const cli_arguments *arguments, cli_output *output) {
  rounds r = {.arguments = arguments, .count = arguments->rounds ? arguments->rounds : ROUNDS, .side_count = 1};
  int status = check_rounds(arguments);
  if (arguments->compare || arguments->baseline) r.side_count = SIDES;
  r.is_stored = arguments->baseline;
  for (size_t i = A; status == CLI_OK && arguments->compare && i < SIDES; i++)
    status = read_side(&r, &r.sides[i], arguments->operands[i]);
  if (status == CLI_OK && r.is_stored) status = read_stored(&r);
  if (status == CLI_OK) status = run_rounds(&r);
  if (status == CLI_OK) {
    compare_rows(&r);
    if (arguments->json) status = print_rounds_json(&r, output);
    else print_rounds_text(&r, output);
    bool is_slower = r.is_stored && r.row_count > 0 && r.rows[0].comparison.verdict == CLI_VERDICT_A_FASTER;
    if (status == CLI_OK && (r.any_failed || is_slower)) status = CLI_NEGATIVE;
  }
  free_rounds(&r);
  return status;
}
