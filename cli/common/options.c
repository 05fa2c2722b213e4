/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/options.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/database.h"
#include "cli/common/exit_status.h"
#include "cli/common/limits.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/nearest.h"
#include "cli/common/pool.h"
#include "runtime/base/check.h"

enum { WORDS_MAX = 4 };

struct row;
typedef bool (*take_fn)(cli_arguments *arguments, const struct row *row, const char *value);

/** The target of an option's value, and the values that it may have. */
struct target {
  take_fn take;
  size_t at;                    /* where the member is */
  uint32_t least, greatest;     /* the range of a number */
  const char *words[WORDS_MAX]; /* the allowed words; the value is the index of the word; NULL: not a word */
};

struct row {
  char letter;
  const char *name, *argument;
  struct target target;
  const char *help;
};

/* Bounds of numbers, and the values that they have without the option. */
enum {
  TURNS_MAX = 10000000,
  RATE_MAX = 10000000,
  ROUNDS_MIN = 8,
  ROUNDS_MAX = 200,
  CONCURRENCY_MAX = 65536,
  WORKERS_MAX = 1024,
  JOBS_MAX = 1024
};
enum { TURNS = 1000, WARM_UP = 100 };

/* ---- what takes a value ---- */

static void *member_of(void *whole, const struct row *row) { return (char *)whole + row->target.at; }

static bool take_flag(cli_arguments *arguments, const struct row *row, const char *value) {
  (void)value;
  *(bool *)member_of(arguments, row) = true;
  return true;
}

static bool take_option_text(cli_arguments *arguments, const struct row *row, const char *value) {
  *(const char **)member_of(arguments, row) = value;
  return true;
}

static bool take_words(cli_arguments *arguments, const struct row *row, const char *value) {
  cli_words *words = member_of(arguments, row);
  words->items = cli_reserve(words->items, words->count + 1, &words->capacity, sizeof *words->items);
  words->items[words->count++] = value;
  words->items[words->count] = NULL;
  return true;
}

/* Only digits, because strtoul() would accept a sign and white space. */
static bool read_number(const struct row *row, const char *given, uint32_t *ret_number) {
  const struct target *t = &row->target;
  size_t digits = strspn(given, "0123456789");
  unsigned long long number = digits > 0 && digits < 12 ? strtoull(given, NULL, 10) : UINT64_MAX;
  if (digits > 0 && !given[digits] && number >= t->least && number <= t->greatest) {
    *ret_number = (uint32_t)number;
    return true;
  }
  cli_error("--%s takes a whole number from %u to %u, not '%s'", row->name, t->least, t->greatest, given);
  return false;
}

static bool take_number(cli_arguments *arguments, const struct row *row, const char *value) {
  return read_number(row, value, member_of(arguments, row));
}

/* @return the index of the word, or -1 after a message that lists the words. */
static int find_word(const struct row *row, const char *given) {
  char list[64] = "";
  int last = 0;
  for (int i = 0; i < WORDS_MAX; i++) {
    if (!row->target.words[i]) continue;
    if (strcmp(given, row->target.words[i]) == 0) return i;
    last = i;
  }
  for (int i = 0; i <= last; i++) {
    const char *word = row->target.words[i], *before = !list[0] ? "" : i == last ? " or " : ", ";
    size_t size = strlen(list);
    if (word) snprintf(list + size, sizeof list - size, "%s%s", before, word);
  }
  cli_error("--%s is %s, not '%s'", row->name, list, given);
  return -1;
}

/* The members are enumerations with the size of an int; their values are the indexes of the words. */
static bool take_one_of(cli_arguments *arguments, const struct row *row, const char *value) {
  int which = find_word(row, value);
  if (which >= 0) memcpy(member_of(arguments, row), &which, sizeof which);
  return which >= 0;
}

static bool take_busy(cli_arguments *arguments, const struct row *row, const char *value) {
  static const char wait_for[] = "wait:";
  const struct row bound = {.name = row->name, .target = {.least = 1, .greatest = INT32_MAX}};
  bool has_bound = strncmp(value, wait_for, sizeof wait_for - 1) == 0;
  bool ok = has_bound || strcmp(value, "refuse") == 0 || strcmp(value, "wait") == 0;
  arguments->busy = value[0] == 'w' ? TP_BUSY_WAIT : TP_BUSY_REFUSE;
  arguments->busy_wait_ms = 0;
  if (!ok) cli_error("--%s is refuse, wait or wait:MS, not '%s'", row->name, value);
  return ok && (!has_bound || read_number(&bound, value + sizeof wait_for - 1, &arguments->busy_wait_ms));
}

static bool take_money(cli_arguments *arguments, const struct row *row, const char *value) {
  int64_t micros = 0;
  bool ok = cli_money_read(tp_text_of(value), &micros) && micros > 0;
  if (!ok) cli_error("--%s takes an amount above 0, such as 0.5, not '%s'", row->name, value);
  else memcpy(member_of(arguments, row), &micros, sizeof micros);
  return ok;
}

static bool take_budget(cli_arguments *arguments, const struct row *row, const char *value) {
  const char *wrong = cli_budget_read(value, &arguments->budgets);
  if (wrong) cli_error("--%s '%s' %s", row->name, value, wrong);
  return !wrong;
}

static bool take_writes(cli_arguments *arguments, const struct row *row, const char *value) {
  arguments->files_writes_given = true;
  return take_one_of(arguments, row, value);
}

static bool take_ask(cli_arguments *arguments, const struct row *row, const char *value) {
  int which = find_word(row, value);
  arguments->keeps_questions = which == 1;
  arguments->asks_terminal = which == 0;
  arguments->asks_operators = which == 2;
  arguments->asks_clients = which == 3;
  return which >= 0;
}

static bool take_caller(cli_arguments *arguments, const struct row *row, const char *value) {
  static const tp_caller callers[] = {TP_CALLER_MANUAL_CLI, TP_CALLER_CI_PIPELINE, TP_CALLER_BACKGROUND_JOB};
  int which = find_word(row, value);
  if (which >= 0) arguments->caller = callers[which];
  return which >= 0;
}

/* ---- models ---- */

cli_model_name *cli_model_names_add(cli_model_names *models) {
  models->items = cli_reserve(models->items, models->count, &models->capacity, sizeof *models->items);
  models->items[models->count] = (cli_model_name){.model = NULL};
  return &models->items[models->count++];
}

/* The model that was named last; before the first name, the first one. */
static cli_model_name *this_model(cli_model_names *models) {
  return models->count > 0 ? &models->items[models->count - 1] : cli_model_names_add(models);
}

static cli_model_name *new_model(cli_model_names *models) {
  cli_model_name *last = this_model(models);
  return last->model || last->script ? cli_model_names_add(models) : last;
}

static bool take_model(cli_arguments *arguments, const struct row *row, const char *value) {
  (void)row;
  new_model(&arguments->models)->model = value;
  arguments->last_models = NULL;
  return true;
}

static bool take_script(cli_arguments *arguments, const struct row *row, const char *value) {
  (void)row;
  new_model(&arguments->models)->script = value;
  return true;
}

static bool take_only_model(cli_arguments *arguments, const struct row *row, const char *value) {
  cli_model_names *names = member_of(arguments, row);
  if (names->count) cli_error("--%s is given twice: it names one model", row->name);
  bool first = !names->count;
  if (first) new_model(names)->model = value;
  arguments->last_models = names;
  return first;
}

/* Whose --base-url and the like it is. */
static cli_model_name *last_model(cli_arguments *arguments) {
  return this_model(arguments->last_models ? arguments->last_models : &arguments->models);
}

static bool take_model_text(cli_arguments *arguments, const struct row *row, const char *value) {
  const char **to = member_of(last_model(arguments), row);
  if (*to) cli_error("--%s is given twice for one model: it belongs to the --model before it", row->name);
  bool first = !*to;
  *to = value;
  return first;
}

static bool take_model_flag(cli_arguments *arguments, const struct row *row, const char *value) {
  (void)value;
  *(bool *)member_of(last_model(arguments), row) = true;
  return true;
}

static bool take_model_setting(cli_arguments *arguments, const struct row *row, const char *value) {
  const char **list = member_of(last_model(arguments), row);
  size_t count = 0;
  while (list[count]) count++;
  assert(count < CLI_SETTINGS_MAX);
  if (count + 1 == CLI_SETTINGS_MAX) cli_error("--%s may be given %zu times for one model", row->name, count);
  else list[count] = value;
  return count + 1 < CLI_SETTINGS_MAX;
}

static bool take_model_number(cli_arguments *arguments, const struct row *row, const char *value) {
  return read_number(row, value, member_of(last_model(arguments), row));
}

/* ---- the table ---- */

#define MEMBER(member) .at = offsetof(cli_arguments, member)
#define FLAG(member) \
  { take_flag, MEMBER(member) }
#define TEXT(member) \
  { take_option_text, MEMBER(member) }
#define WORDS(member) \
  { take_words, MEMBER(member) }
#define NUMBER(member, from, to) \
  { take_number, MEMBER(member), .least = (from), .greatest = (to) }
#define ONE_OF(member, ...)                               \
  {                                                       \
    take_one_of, MEMBER(member), .words = { __VA_ARGS__ } \
  }
#define BY(function, member, ...)                      \
  {                                                    \
    function, MEMBER(member), .words = { __VA_ARGS__ } \
  }
#define PARSED(function, member) \
  { function, MEMBER(member) }
#define MODEL(function) \
  { .take = (function) }
#define ONLY_MODEL(member) \
  { take_only_model, MEMBER(member) }
#define MODEL_TEXT(member) \
  { take_model_text, .at = offsetof(cli_model_name, member) }
#define MODEL_FLAG(member) \
  { take_model_flag, .at = offsetof(cli_model_name, member) }
#define MODEL_SETTINGS(member) \
  { take_model_setting, .at = offsetof(cli_model_name, member) }
#define MODEL_NUMBER(member) \
  { take_model_number, .at = offsetof(cli_model_name, member), .least = 1, .greatest = INT32_MAX }

static const struct row rows[] = {
#define OPTION(letter, name, argument, take, help) {letter, name, argument, take, help},
#include "cli/common/options.def"
#undef OPTION
};
enum { OPTION_COUNT = sizeof rows / sizeof rows[0], NAMES_MAX = 128 };

/* The value that getopt_long() returns for an option without a letter. */
enum { WITHOUT_LETTER = 256 };

static int option_value_of(size_t row) { return rows[row].letter ? rows[row].letter : WITHOUT_LETTER + (int)row; }

/* NULL: there is none. */
static const struct row *option_row_of(int value) {
  for (size_t i = 0; i < OPTION_COUNT; i++)
    if (option_value_of(i) == value) return &rows[i];
  return NULL;
}

/* The next of words with one blank between them. */
static tp_text split_word(const char **at) {
  tp_text word = {*at, strcspn(*at, " ")};
  *at += word.size + ((*at)[word.size] == ' ');
  return word;
}

static bool has_option(const cli_command *command, const struct row *row) {
  for (const char *at = command->options; at && *at;)
    if (tp_text_is(split_word(&at), row->name)) return true;
  return strcmp(row->name, "help") == 0;
}

static void make_table(const cli_command *command, struct option table[OPTION_COUNT + 1],
                       char letters[2 * OPTION_COUNT + 2]) {
  *letters++ = ':'; /* getopt distinguishes a missing argument from an unknown option */
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    if (!has_option(command, &rows[i])) continue;
    int takes = rows[i].argument ? required_argument : no_argument;
    *table++ = (struct option){.name = rows[i].name, .has_arg = takes, .val = option_value_of(i)};
    if (!rows[i].letter) continue;
    *letters++ = rows[i].letter;
    if (rows[i].argument) *letters++ = ':';
  }
  *table = (struct option){0};
  *letters = '\0';
}

uint32_t cli_limit(const cli_arguments *arguments, uint32_t usual) {
  if (arguments->limit == CLI_LIMIT_NOT_GIVEN) return usual;
  return arguments->limit ? arguments->limit : UINT32_MAX;
}

const char *cli_environment(const cli_arguments *arguments) {
  const char *name = arguments->environment ? arguments->environment : getenv("TURNPHASE_ENVIRONMENT");
  return name && name[0] ? name : NULL;
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
  const char *hint = argv[optind][0] == '{' ? ": an object is given with --arguments or --payload" : "";
  cli_error("%s does not take '%s'%s", command->name, argv[optind], hint);
  return bad_usage(command);
}

/* "list, show or redrive". */
static void print_actions(const char *actions, char *buffer, size_t size) {
  size_t used = 0;
  for (const char *at = actions; *at && used < size; at++) {
    const char *between = *at != ' ' ? NULL : strchr(at + 1, ' ') ? ", " : " or ";
    used += (size_t)snprintf(buffer + used, size - used, between ? "%s" : "%.1s", between ? between : at);
  }
}

static bool has_action(const char *actions, const char *word, cli_nearest *nearest, char names[NAMES_MAX]) {
  snprintf(names, NAMES_MAX, "%s", actions);
  char *rest = NULL;
  for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
    if (strcmp(name, word) == 0) return true;
    cli_nearest_try(nearest, name);
  }
  return false;
}

static int check_action(const cli_command *command, const cli_arguments *arguments) {
  char names[NAMES_MAX], listed[2 * NAMES_MAX], hint[CLI_HINT_SIZE];
  const char *word = arguments->operand ? arguments->operand : "";
  cli_nearest nearest = cli_nearest_to(word);
  if (!command->actions || arguments->help || has_action(command->actions, word, &nearest, names)) return CLI_OK;
  print_actions(command->actions, listed, sizeof listed);
  if (!arguments->operand) cli_error("%s needs an action: %s", command->name, listed);
  else
    cli_error("%s has no action '%s'%s The actions are: %s", command->name, word,
              nearest.name ? cli_nearest_hint(&nearest, "", hint) : ".", listed);
  return bad_usage(command);
}

/* Reports an option that the command does not take: by its name, without "=value", with the nearest option that the
 * command has. */
static int refuse_option(const cli_command *command, const char *word) {
  char hint[CLI_HINT_SIZE], name[64];
  size_t length = strcspn(word, "=");
  snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), word);
  cli_nearest nearest = cli_nearest_to(name[0] == '-' && name[1] == '-' ? name + 2 : "");
  for (size_t i = 0; i < OPTION_COUNT; i++)
    if (has_option(command, &rows[i])) cli_nearest_try(&nearest, rows[i].name);
  cli_error("%s does not take '%s'%s", command->name, word, cli_nearest_hint(&nearest, "--", hint));
  return bad_usage(command);
}

/* A separate word that is used as the argument of an option, but is an option itself. */
static bool is_option(const char *word, const char *argument) {
  return argument == word && argument[0] == '-' && argument[1] == '-' && argument[2] != '\0';
}

/* A file, an address or a model must have a name. A text may be empty, and so may the id of a tenant. */
static bool needs_word(const struct row *row) {
  return strcmp(row->argument, "TEXT") != 0 && strcmp(row->argument, "ID") != 0 && strcmp(row->argument, "NAME") != 0;
}

/* If an option had two values, one would have no effect, so the second is refused. A flag may be repeated. */
static bool is_first(const struct row *row, bool given[OPTION_COUNT]) {
  const take_fn many[] = {take_flag,       take_words,        take_model,         take_script, take_only_model,
                          take_model_text, take_model_number, take_model_setting, take_budget};
  size_t index = (size_t)(row - rows);
  bool was_given = given[index];
  given[index] = true;
  for (size_t i = 0; i < sizeof many / sizeof many[0]; i++)
    if (row->target.take == many[i]) return true;
  if (was_given) cli_error("--%s is given twice, and takes one %s", row->name, row->argument);
  return !was_given;
}

/* Stores the options; only bench passes them on, to processes. */
static void keep_given(cli_arguments *arguments, const struct row *row, const char *value) {
  if (arguments->command != CLI_BENCH) return;
  size_t size = strlen(row->name) + (value ? strlen(value) : 0) + sizeof "--=";
  char *word = cli_alloc(size);
  snprintf(word, size, "--%s%s%s", row->name, value ? "=" : "", value ? value : "");
  take_words(arguments, &(struct row){.target = WORDS(given)}, word);
}

int cli_arguments_read(const cli_command *command, int argc, char **argv, cli_arguments *arguments) {
  assert(argc >= 0 && argv && arguments);
  struct option table[OPTION_COUNT + 1];
  char letters[2 * OPTION_COUNT + 2];
  *arguments = (cli_arguments){.command = command->id,
                               .turns = TURNS,
                               .warm_up = WARM_UP,
                               .concurrency = 1,
                               .limit = CLI_LIMIT_NOT_GIVEN,
                               .caller = TP_CALLER_MANUAL_CLI};
  bool given[OPTION_COUNT] = {false};
  make_table(command, table, letters);
  opterr = 0;
  optind = 1;
  for (int value; (value = getopt_long(argc, argv, letters, table, NULL)) != -1;) {
    if (value == ':' || value == '?') {
      if (value == ':') cli_error("'%s' needs an argument", argv[optind - 1]);
      else if (optopt && optopt < WITHOUT_LETTER && !option_row_of(optopt))
        cli_error("%s has no option '-%c'", command->name, optopt);
      else return refuse_option(command, argv[optind - 1]);
      return bad_usage(command);
    }
    if (is_option(argv[optind - 1], optarg)) {
      cli_error("'%s' needs an argument, and has the option %s; --OPTION=%s if that is meant", argv[optind - 2], optarg,
                optarg);
      return bad_usage(command);
    }
    const struct row *row = option_row_of(value);
    if (optarg && !optarg[0] && needs_word(row)) {
      cli_error("--%s needs its %s, and got an empty text", row->name, row->argument);
      return bad_usage(command);
    }
    if (!is_first(row, given)) return bad_usage(command);
    if (!row->target.take(arguments, row, optarg)) return bad_usage(command);
    keep_given(arguments, row, row->argument ? optarg : NULL);
  }
  bool has_hooks = arguments->hooks.count > 0 || command->id == CLI_HOOKS;
  if (!has_hooks && (arguments->sandbox || arguments->webhooks.count > 0 || arguments->hook_models.count > 0)) {
    cli_error("--%s is for the hooks of --hooks DIR", arguments->sandbox              ? "sandbox"
                                                      : arguments->webhooks.count > 0 ? "webhook"
                                                                                      : "hook-model");
    return bad_usage(command);
  }
  int status = take_operands(command, argc, argv, arguments);
  if (status == CLI_OK) status = check_action(command, arguments);
  return status == CLI_OK ? cli_database_check(command, arguments) : status;
}

void cli_arguments_free(cli_arguments *arguments) {
  assert(arguments->operand_count <= sizeof arguments->operands / sizeof *arguments->operands);
  for (size_t i = 0; i < OPTION_COUNT; i++)
    if (rows[i].target.take == take_words) free(((cli_words *)member_of(arguments, &rows[i]))->items);
  for (size_t i = 0; i < arguments->given.count; i++) free((char *)(uintptr_t)arguments->given.items[i]);
  free(arguments->given.items);
  free(arguments->models.items);
  free(arguments->facts.items);
  free(arguments->embedders.items);
  free(arguments->hook_models.items);
  free(arguments->sampling_models.items);
}

static const char *help_of(const struct row *row, const cli_command *command) {
  for (size_t i = 0; i < CLI_MEANINGS_MAX && command->meanings[i].option; i++)
    if (strcmp(command->meanings[i].option, row->name) == 0) return command->meanings[i].help;
  return row->help;
}

static void print_option(const struct row *row, const cli_command *command, cli_output *output) {
  char words[64], letter[8] = "    ";
  if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
  snprintf(words, sizeof words, "%s--%s%s%s", letter, row->name, row->argument ? " " : "",
           row->argument ? row->argument : "");
  cli_printf(output, "  %-26s %s\n", words, help_of(row, command));
}

void cli_help(const cli_command *command, cli_output *output) {
  cli_printf(output, "Examples:\n%s\nUsage: turnphase %s%s%s%s\n\n%s\n\nOptions:\n", command->examples, command->name,
             command->operand ? " [OPTION…] [" : "", command->operand ? command->operand : "",
             command->operand                 ? "]"
             : command->id == CLI_EXIT_STATUS ? ""
                                              : " [OPTION…]",
             command->description);
  for (size_t i = 0; i < OPTION_COUNT; i++)
    if (has_option(command, &rows[i])) print_option(&rows[i], command, output);
}

/* ---- the same for programs ---- */

static void add_option(cli_map *map, const struct row *row, const cli_command *command) {
  cli_map_open(map, NULL);
  cli_map_add_string(map, "name", row->name);
  if (row->letter) cli_map_add_text(map, "letter", (tp_text){&row->letter, 1});
  if (row->argument) cli_map_add_string(map, "argument", row->argument);
  cli_map_open_list(map, "values");
  for (size_t i = 0; i < WORDS_MAX; i++)
    if (row->target.words[i]) cli_map_add_string(map, NULL, row->target.words[i]);
  cli_map_close(map);
  cli_map_add_string(map, "help", help_of(row, command));
  cli_map_close(map);
}

int cli_help_json(const cli_command *command, cli_output *output) {
  assert(command && output);
  cli_map map = {0};
  cli_map_add_string(&map, "command", command->name);
  cli_map_add_string(&map, "operand", command->operand ? command->operand : "");
  cli_map_open_list(&map, "actions");
  for (const char *at = command->actions; at && *at;) cli_map_add_text(&map, NULL, split_word(&at));
  cli_map_close(&map);
  cli_map_add_string(&map, "summary", command->summary);
  cli_map_add_string(&map, "description", command->description);
  cli_map_add_string(&map, "examples", command->examples);
  cli_map_open_list(&map, "options");
  for (size_t i = 0; i < OPTION_COUNT; i++)
    if (has_option(command, &rows[i])) add_option(&map, &rows[i], command);
  cli_map_close(&map);
  return cli_map_print(&map, output);
}
