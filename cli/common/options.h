/* SPDX-License-Identifier: Apache-2.0
 *
 * options: the command table, the command line, and the help that is made from both. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli/common/output.h"
#include "turnphase/files.h"

/** The commands. */
typedef enum cli_verb {
#define VERB(verb, function, ...) CLI_##verb,
#include "cli/common/verbs.def"
#undef VERB
} cli_verb;

enum { CLI_OPERANDS_MAX = 9, CLI_MEANINGS_MAX = 6 };
#define CLI_LIMIT_NOT_GIVEN UINT32_MAX
enum {
  CLI_LIMIT = 100,
  CLI_FOLLOW_LIMIT = 10
}; /* default numbers without --limit: rows of a list, and phases that are shown before following begins */

/** Words of an option that may be given several times, with NULL at the end; freed by cli_arguments_free(). */
typedef struct cli_words {
  const char **items;
  size_t count, capacity;
} cli_words;

/** What a turn may use; 0: not given. */
typedef struct cli_limits {
  uint32_t requests, tool_calls, tokens, repeats, time_s;
  int64_t cost_micros;
} cli_limits;

/** Budgets; 0: not given. */
typedef struct cli_budget {
  int64_t requests, tokens, cost_micros;
} cli_budget;
typedef struct cli_budgets {
  cli_budget session, tenant, day;
} cli_budgets;

/** The price of a million tokens of a model, in millionths. */
typedef struct cli_price {
  int64_t input_micros, output_micros, cached_micros;
} cli_price;

enum { CLI_SETTINGS_MAX = 33 }; /* with the NULL at the end */

/** A model as the command line or an agent of a conversation names it. The owner of the list owns the texts. */
typedef struct cli_model_name {
  const char *model;                                /* openai:NAME, script:FILE and similar names; NULL: script */
  const char *script;                               /* a file; NULL: model */
  const char *base_url, *key_env;                   /* NULL: not given */
  uint32_t requests_per_minute, tokens_per_minute;  /* 0: not given */
  const char *temperature, *max_tokens, *reasoning; /* NULL: not given */
  const char *price;                                /* IN/OUT or IN/OUT/CACHED; NULL: not given */
  const char *settings[CLI_SETTINGS_MAX];           /* KEY=VALUE of the body, with NULL at the end */
  const char *headers[CLI_SETTINGS_MAX];            /* "NAME: VALUE", the same */
  tp_text body, header_map;                         /* for an agent of a conversation: maps, or empty */
  bool think_tags, think_first, cumulative_deltas;
} cli_model_name;

/** Models in the order in which they are asked. --base-url and similar options belong to the model before them, or to
 *  the first. */
typedef struct cli_model_names {
  cli_model_name *items;
  size_t count, capacity;
} cli_model_names;

/** Which histograms are shown. */
typedef enum cli_histograms {
  CLI_HISTOGRAMS_NONE = 0,
  CLI_HISTOGRAMS_PHASES = 1,
  CLI_HISTOGRAMS_ALL = 2 /* of each subscription, too */
} cli_histograms;

/** The language of a script. */
typedef enum cli_language {
  /* 0: not said */
  CLI_LANGUAGE_SH = 1,
  CLI_LANGUAGE_PYTHON = 2,
  CLI_LANGUAGE_JS = 3
} cli_language;

/** Where the end of a session takes the changed files from; TOOLS: from the names in the calls. */
typedef enum cli_changed_from { CLI_CHANGED_FROM_TOOLS = 0, CLI_CHANGED_FROM_GIT = 1 } cli_changed_from;

/** The names of the tools of tasks; NONE: there are none. Each other value is a tp_tasks_names plus one. */
typedef enum cli_tasks { CLI_TASKS_NONE = 0, CLI_TASKS_TOOLS = 1, CLI_TASKS_ACTIONS = 2, CLI_TASKS_BOTH = 3 } cli_tasks;

/** How a history that is too long is shortened. */
typedef enum cli_compact { CLI_COMPACT_NONE = 0, CLI_COMPACT_SUMMARIZE = 1, CLI_COMPACT_DROP = 2 } cli_compact;

/** What happens to calls of tools that differ from their pinned form: as tp_mcp_changed. */
typedef enum cli_mcp_changed { CLI_MCP_CHANGED_ASK = 0, CLI_MCP_CHANGED_DENY = 1 } cli_mcp_changed;

/** The values of the command line. Texts are borrowed from the command line. */
typedef struct cli_arguments {
  cli_verb command;
  cli_words loads, phases, tools, webhooks, hooks, redacts, data_files, code_files, pass_env, mcp_servers, mcp_configs,
      origins, exposes;
  cli_model_names models;
  cli_model_names facts, embedders, hook_models, sampling_models; /* at most one each */
  cli_model_names *last_models; /* the list to which the last option belongs; NULL: models */
  const char *data, *tenant, *workspace, *payload, *write, *files, *skills;
  const char *session, *turn, *handler, *state, *since, *scope, *name;
  const char *before, *user, *matching; /* memory: an id; forget: a date, a person and a text */
  const char *format, *output, *age, *history_age, *size, *reason, *by, *action;
  const char *operand;                    /* the first word that is no option; NULL: there is none */
  const char *operands[CLI_OPERANDS_MAX]; /* all of them */
  size_t operand_count;
  cli_language language;
  tp_files_writes files_writes;
  tp_caller caller;           /* MANUAL_CLI without --caller */
  const char *call_arguments; /* a file; NULL: not given */
  const char *environment, *key, *job_id, *triggered_by, *system;
  const char *http, *keys;          /* of serve and mcp serve; NULL: not given */
  const char *access_log;           /* serve: "-": standard output; NULL: none */
  const char *admin_key;            /* of serve: a file; NULL: none */
  const char *traces;               /* of serve: a URL; NULL: none */
  uint32_t traces_sample;           /* 0: not given */
  uint32_t ask_wait_s;              /* 0: not given */
  uint32_t mcp_defer;               /* 0: not given */
  const char *mcp_profile;          /* a conversation file that names servers; NULL: none */
  const char *schema, *schema_json; /* of the answers; NULL: none */
  uint32_t answer_attempts;         /* 0: as the library has it */
  cli_colour colour;
  uint32_t turns, warm_up, concurrency;
  cli_words given;         /* bench: every option as --NAME or --NAME=VALUE; freed with its texts */
  bool compare;            /* the two operands */
  const char *baseline;    /* of bench: a file; NULL: not given */
  uint32_t rounds;         /* of bench; 0: not given */
  uint32_t rate;           /* of bench, turns in a second; 0: not given */
  const char *hdr;         /* of bench: a file; NULL: not given */
  const char *text;        /* bench: the user's message; NULL: not given */
  uint32_t jobs, lease_s;  /* 0: not given */
  uint32_t dimensions;     /* 0: not given */
  uint32_t history_tokens; /* 0: not given */
  cli_limits limits;
  cli_budgets budgets;
  cli_compact compact;
  cli_tasks tasks;
  cli_mcp_changed mcp_changed;
  tp_if_exists if_exists;
  tp_busy busy;
  uint32_t busy_wait_ms;    /* of --busy wait:MS; 0: not given */
  tp_durability durability; /* DEFAULT without --durability */
  cli_changed_from changed_from;
  uint32_t limit;        /* 0: all; CLI_LIMIT_NOT_GIVEN */
  uint32_t workers;      /* 0: as many as cores */
  uint32_t sessions_max; /* 0: not given */
  tp_timestamps timestamps;
  cli_histograms histograms;
  bool json, raw, dot, no_memory, verbose, help, fail_closed, rewrite, sandbox, files_writes_given, explain, follow,
      every_call; /* without breakers */
  bool until_empty, all, keeps_questions, yes, stdio, only_models, goes_on, traces_all, keep_secrets;
  bool asks_terminal;  /* said, and not only the default */
  bool asks_operators; /* of serve: at /admin */
  bool asks_clients;   /* of serve: by forms of the clients of /mcp */
  bool agents_only;    /* the conversation has no sessions; this is no option */
} cli_arguments;

/** A row of verbs.def. */
typedef struct cli_command {
  cli_verb id;
  const char *name, *operand, *summary;
  const char *actions; /* the allowed first operands, separated by one blank; NULL: the first operand is free */
  size_t operands_max; /* 0: one, where operand names it */
  const char *examples, *description;
  const char *options; /* the names of what it takes besides help, separated by one blank; NULL: only help */
  struct {
    const char *option, *help;
  } meanings[CLI_MEANINGS_MAX]; /* the help of options that mean something else in this command; option NULL: the end */
  bool takes_database;          /* where a directory is named, postgres://… may be */
  int (*run)(const cli_arguments *arguments, cli_output *output);
} cli_command;

/** Reads the words after the command's name; argv[0] is that name. The first operand of a command with actions must be
 *  one of the actions, unless help is requested.
 *  @return 0, or CLI_USAGE after a message about the error. */
int cli_arguments_read(const cli_command *command, int argc, char **argv, cli_arguments *arguments);
void cli_arguments_free(cli_arguments *arguments);
/** A new one, zero-filled, at the end. */
cli_model_name *cli_model_names_add(cli_model_names *models);
/** The most rows to show: the value of --limit (UINT32_MAX for 0), or `usual` without it. */
uint32_t cli_limit(const cli_arguments *arguments, uint32_t usual);
/** --environment, else TURNPHASE_ENVIRONMENT; NULL: neither is set. */
const char *cli_environment(const cli_arguments *arguments);
/** Prints a command's help: examples, usage, options. */
void cli_help(const cli_command *command, cli_output *output);
/** Prints the same as one line of JSON, from which man pages and completions are made. @return as cli_map_print(). */
int cli_help_json(const cli_command *command, cli_output *output);

#define VERB(verb, function, ...) int function(const cli_arguments *arguments, cli_output *output);
#include "cli/common/verbs.def"
#undef VERB

#endif
