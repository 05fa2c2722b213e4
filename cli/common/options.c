/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"

enum option_id {
#define OPTION(id, letter, name, argument, commands, help) OPTION_##id,
#include "cli/common/options.def"
#undef OPTION
  OPTION_COUNT
};

static const struct row {
  char letter;
  const char *name, *argument;
  unsigned commands;
  const char *help;
} rows[OPTION_COUNT] = {
#define OPTION(id, letter, name, argument, commands, help) [OPTION_##id] = {letter, name, argument, commands, help},
#include "cli/common/options.def"
#undef OPTION
};

/* What getopt_long() gives for an option without a letter. */
enum { WITHOUT_LETTER = 256 };

/* What numbers may be; what they are without the option. */
enum { TURNS_MAX = 10000000, CONCURRENCY_MAX = 65536, WORKERS_MAX = 1024, JOBS_MAX = 1024 };
enum { TURNS = 1000, WARM_UP = 100 };

static int value_of(size_t row) { return rows[row].letter ? rows[row].letter : WITHOUT_LETTER + (int)row; }

static enum option_id id_of(int value) {
  size_t row = 0;
  while (row < OPTION_COUNT && value_of(row) != value) row++;
  return (enum option_id)row;
}

static void make_table(unsigned command, struct option table[OPTION_COUNT + 1], char letters[2 * OPTION_COUNT + 2]) {
  *letters++ = ':'; /* a missing argument is told apart from an unknown option */
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    if (!(rows[i].commands & command)) continue;
    int takes = rows[i].argument ? required_argument : no_argument;
    *table++ = (struct option){.name = rows[i].name, .has_arg = takes, .val = value_of(i)};
    if (!rows[i].letter) continue;
    *letters++ = rows[i].letter;
    if (rows[i].argument) *letters++ = ':';
  }
  *table = (struct option){0};
  *letters = '\0';
}

/* @param words  up to three; a missing first one cannot be given.
 *  @return which of the words it is, or -1 after saying which there are. */
static int take_one_of(const char *option, const char *const words[3], const char *given) {
  for (int i = 0; i < 3; i++)
    if (words[i] && strcmp(given, words[i]) == 0) return i;
  cli_error("--%s is %s%s%s or %s, not '%s'", option, words[0] ? words[0] : "", words[0] ? ", " : "", words[1],
            words[2], given);
  return -1;
}

static bool take_colour(cli_arguments *arguments, const char *when) {
  static const char *const words[] = {"auto", "always", "never"};
  int which = take_one_of("color", words, when);
  if (which >= 0) arguments->colour = (cli_colour)which;
  return which >= 0;
}

static bool take_timestamps(cli_arguments *arguments, const char *given) {
  static const char *const words[] = {
      [TP_TIMESTAMPS_FULL] = "full", [TP_TIMESTAMPS_COARSE] = "coarse", [TP_TIMESTAMPS_OFF] = "off"};
  int which = take_one_of("timestamps", words, given);
  if (which >= 0) arguments->timestamps = (tp_timestamps)which;
  return which >= 0;
}

static bool take_histograms(cli_arguments *arguments, const char *given) {
  static const char *const words[] = {[CLI_HISTOGRAMS_PHASES] = "phases", [CLI_HISTOGRAMS_ALL] = "all"};
  int which = take_one_of("histogram", words, given);
  if (which >= 0) arguments->histograms = (cli_histograms)which;
  return which >= 0;
}

static bool take_language(cli_arguments *arguments, const char *given) {
  static const char *const words[] = {"sh", "python", "js"};
  int which = take_one_of("language", words, given);
  if (which >= 0) arguments->language = (cli_language)(which + CLI_LANGUAGE_SH);
  return which >= 0;
}

static bool take_compact(cli_arguments *arguments, const char *given) {
  static const char *const words[] = {NULL, [CLI_COMPACT_SUMMARIZE] = "summarize", [CLI_COMPACT_DROP] = "drop"};
  int which = take_one_of("compact", words, given);
  if (which >= 0) arguments->compact = (cli_compact)which;
  return which >= 0;
}

static bool take_ask(cli_arguments *arguments, const char *given) {
  static const char *const words[] = {NULL, "terminal", "data"};
  int which = take_one_of("ask", words, given);
  arguments->keeps_questions = which == 2;
  return which >= 0;
}

static bool take_writes(cli_arguments *arguments, const char *given) {
  static const char *const words[] = {
      [TP_FILES_WRITES_ASK] = "ask", [TP_FILES_WRITES_ALLOW] = "allow", [TP_FILES_WRITES_NEVER] = "never"};
  int which = take_one_of("files-writes", words, given);
  if (which >= 0) arguments->files_writes = (tp_files_writes)which;
  arguments->files_writes_given = true;
  return which >= 0;
}

static bool take_caller(cli_arguments *arguments, const char *given) {
  static const char *const words[] = {"cli", "ci", "job"};
  static const tp_caller callers[] = {TP_CALLER_MANUAL_CLI, TP_CALLER_CI_PIPELINE, TP_CALLER_BACKGROUND_JOB};
  int which = take_one_of("caller", words, given);
  if (which >= 0) arguments->caller = callers[which];
  return which >= 0;
}

/* Digits alone: strtoul() would take a sign and white space. */
static bool take_number(const char *option, uint32_t least, uint32_t greatest, const char *given,
                        uint32_t *ret_number) {
  size_t digits = strspn(given, "0123456789");
  unsigned long long number = digits > 0 && digits < 12 ? strtoull(given, NULL, 10) : UINT64_MAX;
  if (digits > 0 && !given[digits] && number >= least && number <= greatest) {
    *ret_number = (uint32_t)number;
    return true;
  }
  cli_error("--%s takes a whole number from %u to %u, not '%s'", option, least, greatest, given);
  return false;
}

uint32_t cli_limit(const cli_arguments *arguments, uint32_t usual) {
  if (arguments->limit == CLI_LIMIT_NOT_GIVEN) return usual;
  return arguments->limit ? arguments->limit : UINT32_MAX;
}

static void take_word(cli_words *words, const char *word) {
  words->items = cli_room(words->items, words->count, &words->capacity, sizeof *words->items);
  words->items[words->count++] = word;
}

cli_model_name *cli_model_names_add(cli_model_names *models) {
  models->items = cli_room(models->items, models->count, &models->capacity, sizeof *models->items);
  models->items[models->count] = (cli_model_name){.model = NULL};
  return &models->items[models->count++];
}

/* The one that was named last; before the first name the first. */
static cli_model_name *this_model(cli_model_names *models) {
  return models->count > 0 ? &models->items[models->count - 1] : cli_model_names_add(models);
}

static cli_model_name *new_model(cli_model_names *models) {
  cli_model_name *last = this_model(models);
  return last->model || last->script ? cli_model_names_add(models) : last;
}

/* Whose --base-url and the like it is. */
static cli_model_names *last_names(cli_arguments *arguments) {
  return arguments->last_models ? arguments->last_models : &arguments->models;
}

static bool take_only_model(cli_arguments *arguments, cli_model_names *names, const char *option, const char *value) {
  if (names->count) cli_error("--%s is given twice: it names one model", option);
  bool first = !names->count;
  if (first) new_model(names)->model = value;
  arguments->last_models = names;
  return first;
}

static bool take_of_model(const char *option, const char **to, const char *value) {
  if (*to) cli_error("--%s is given twice for one model: it belongs to the --model before it", option);
  bool first = !*to;
  *to = value;
  return first;
}

static bool take(cli_arguments *arguments, enum option_id id, const char *value) {
  switch (id) {
  case OPTION_LOAD: take_word(&arguments->loads, value); break;
  case OPTION_NO_MEMORY: arguments->no_memory = true; break;
  case OPTION_HOOKS: arguments->hooks = value; break;
  case OPTION_WEBHOOK:
    take_word(&arguments->webhooks, value);
    take_word(&arguments->webhooks, NULL);
    arguments->webhooks.count--;
    break;
  case OPTION_SANDBOX: arguments->sandbox = true; break;
  case OPTION_WRITE: arguments->write = value; break;
  case OPTION_FAIL_CLOSED: arguments->fail_closed = true; break;
  case OPTION_REWRITE: arguments->rewrite = true; break;
  case OPTION_TOOL: take_word(&arguments->tools, value); break;
  case OPTION_LANGUAGE: return take_language(arguments, value);
  case OPTION_FILES: arguments->files = value; break;
  case OPTION_SKILLS: arguments->skills = value; break;
  case OPTION_ARGUMENTS:
    arguments->call_arguments = value;
    break;
  case OPTION_CALLER:
    return take_caller(arguments, value);
  case OPTION_ENVIRONMENT:
    arguments->environment = value;
    break;
  case OPTION_KEY: arguments->key = value; break;
  case OPTION_FILES_WRITES: return take_writes(arguments, value);
  case OPTION_MODEL:
    new_model(&arguments->models)->model = value;
    arguments->last_models = NULL;
    break;
  case OPTION_FACTS: return take_only_model(arguments, &arguments->facts, "facts", value);
  case OPTION_EMBEDDER: return take_only_model(arguments, &arguments->embedders, "embedder", value);
  case OPTION_DIMENSIONS: return take_number("dimensions", 1, 4096, value, &arguments->dimensions);
  case OPTION_BASE_URL:
    return take_of_model("base-url", &this_model(last_names(arguments))->base_url, value);
  case OPTION_KEY_ENV:
    return take_of_model("key-env", &this_model(last_names(arguments))->key_env, value);
  case OPTION_REQUESTS_PER_MINUTE:
    return take_number("requests-per-minute", 1, INT32_MAX, value,
                       &this_model(last_names(arguments))->requests_per_minute);
  case OPTION_TOKENS_PER_MINUTE:
    return take_number("tokens-per-minute", 1, INT32_MAX, value, &this_model(last_names(arguments))->tokens_per_minute);
  case OPTION_SCRIPT:
    new_model(&arguments->models)->script = value;
    break;
  case OPTION_DATA: arguments->data = value; break;
  case OPTION_SESSION: arguments->session = value; break;
  case OPTION_TURN: arguments->turn = value; break;
  case OPTION_HANDLER: arguments->handler = value; break;
  case OPTION_STATE: arguments->state = value; break;
  case OPTION_SINCE: arguments->since = value; break;
  case OPTION_LIMIT: return take_number("limit", 0, CLI_LIMIT_NOT_GIVEN - 1, value, &arguments->limit);
  case OPTION_TENANT: arguments->tenant = value; break;
  case OPTION_WORKSPACE: arguments->workspace = value; break;
  case OPTION_SCOPE: arguments->scope = value; break;
  case OPTION_FOLLOW: arguments->follow = true; break;
  case OPTION_AGE: arguments->age = value; break;
  case OPTION_SIZE: arguments->size = value; break;
  case OPTION_FORMAT: arguments->format = value; break;
  case OPTION_OUTPUT: arguments->output = value; break;
  case OPTION_NAME: arguments->name = value; break;
  case OPTION_BEFORE: return take_number("before", 1, UINT32_MAX, value, &arguments->before);
  case OPTION_EXPLAIN: arguments->explain = true; break;
  case OPTION_PHASE: take_word(&arguments->phases, value); break;
  case OPTION_TURNS: return take_number("turns", 1, TURNS_MAX, value, &arguments->turns);
  case OPTION_WARM_UP: return take_number("warm-up", 0, TURNS_MAX, value, &arguments->warm_up);
  case OPTION_CONCURRENCY: return take_number("concurrency", 1, CONCURRENCY_MAX, value, &arguments->concurrency);
  case OPTION_JOBS: return take_number("jobs", 1, JOBS_MAX, value, &arguments->jobs);
  case OPTION_LEASE: return take_number("lease", 1, 86400, value, &arguments->lease_s);
  case OPTION_ALL: arguments->all = true; break;
  case OPTION_REASON: arguments->reason = value; break;
  case OPTION_BY: arguments->by = value; break;
  case OPTION_COMPACT: return take_compact(arguments, value);
  case OPTION_HISTORY_TOKENS: return take_number("history-tokens", 1, INT32_MAX, value, &arguments->history_tokens);
  case OPTION_ASK: return take_ask(arguments, value);
  case OPTION_UNTIL_EMPTY: arguments->until_empty = true; break;
  case OPTION_WORKERS: return take_number("workers", 1, WORKERS_MAX, value, &arguments->workers);
  case OPTION_TIMESTAMPS: return take_timestamps(arguments, value);
  case OPTION_PAYLOAD: arguments->payload = value; break;
  case OPTION_HISTOGRAM: return take_histograms(arguments, value);
  case OPTION_JSON: arguments->json = true; break;
  case OPTION_DOT: arguments->dot = true; break;
  case OPTION_COLOR: return take_colour(arguments, value);
  case OPTION_VERBOSE: arguments->verbose = true; break;
  case OPTION_HELP: arguments->help = true; break;
  case OPTION_COUNT: return false;
  }
  return true;
}

static int bad_usage(const cli_command *command) {
  cli_error("see: turnphase %s --help", command->name);
  return CLI_USAGE;
}

static int take_operands(const cli_command *command, int argc, char **argv, cli_arguments *arguments) {
  size_t max = command->operands_max ? command->operands_max : command->operand ? 1 : 0;
  while (optind < argc && arguments->operand_count < max)
    arguments->operands[arguments->operand_count++] = argv[optind++];
  arguments->operand = arguments->operands[0];
  if (optind >= argc) return CLI_OK;
  cli_error("%s does not take '%s'", command->name, argv[optind]);
  return bad_usage(command);
}

/* A word of its own that stands where the argument of an option should be, and is an option itself. */
static bool is_option(const char *word, const char *argument) {
  return argument == word && argument[0] == '-' && argument[1] == '-' && argument[2] != '\0';
}

int cli_arguments_read(const cli_command *command, int argc, char **argv, cli_arguments *arguments) {
  struct option table[OPTION_COUNT + 1];
  char letters[2 * OPTION_COUNT + 2];
  *arguments = (cli_arguments){.turns = TURNS,
                               .warm_up = WARM_UP,
                               .concurrency = 1,
                               .limit = CLI_LIMIT_NOT_GIVEN,
                               .caller = TP_CALLER_MANUAL_CLI};
  make_table(command->bit, table, letters);
  opterr = 0;
  optind = 1;
  for (int value; (value = getopt_long(argc, argv, letters, table, NULL)) != -1;) {
    if (value == ':' || value == '?') {
      if (value == ':') cli_error("'%s' needs an argument", argv[optind - 1]);
      else if (optopt && optopt < WITHOUT_LETTER && id_of(optopt) == OPTION_COUNT)
        cli_error("%s has no option '-%c'", command->name, optopt);
      else cli_error("%s does not take '%s'", command->name, argv[optind - 1]);
      return bad_usage(command);
    }
    if (is_option(argv[optind - 1], optarg)) {
      cli_error("'%s' needs an argument, and has the option %s; --OPTION=%s if that is meant", argv[optind - 2], optarg,
                optarg);
      return bad_usage(command);
    }
    if (!take(arguments, id_of(value), optarg)) return bad_usage(command);
  }
  bool has_hooks = arguments->hooks || command->bit == CLI_HOOKS;
  if (!has_hooks && (arguments->sandbox || arguments->webhooks.count > 0)) {
    cli_error("--%s is for the hooks of --hooks DIR", arguments->sandbox ? "sandbox" : "webhook");
    return bad_usage(command);
  }
  return take_operands(command, argc, argv, arguments);
}

void cli_arguments_free(cli_arguments *arguments) {
  free(arguments->loads.items);
  free(arguments->phases.items);
  free(arguments->tools.items);
  free(arguments->webhooks.items);
  free(arguments->models.items);
  free(arguments->facts.items);
  free(arguments->embedders.items);
}

static void print_option(const struct row *row, cli_output *output) {
  char words[64], letter[8] = "    ";
  if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
  snprintf(words, sizeof words, "%s--%s%s%s", letter, row->name, row->argument ? " " : "",
           row->argument ? row->argument : "");
  cli_printf(output, "  %-26s %s\n", words, row->help);
}

void cli_help(const cli_command *command, cli_output *output) {
  cli_printf(output, "Examples:\n%s\nUsage: turnphase %s%s%s%s\n\n%s\n\nOptions:\n", command->examples, command->name,
             command->operand ? " [OPTION…] [" : "", command->operand ? command->operand : "",
             command->operand ? "]" : command->bit == CLI_EXIT_STATUS ? "" : " [OPTION…]", command->description);
  for (size_t i = 0; i < OPTION_COUNT; i++)
    if (rows[i].commands & command->bit) print_option(&rows[i], output);
}
