/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks_import: converts the hooks of another host's settings, entry by entry, and reports the result for each.
 * hooks_settings.c reads settings; hooks_import.c writes YAML, has the library check it, and reports. */
#ifndef CLI_HOOKS_IMPORT_H
#define CLI_HOOKS_IMPORT_H

#include "cli/common/options.h"
#include "cli/common/pool.h"

enum {
  CLI_NOTES_MAX = 12,
  CLI_HEADERS_MAX = 16,
  CLI_VARIABLES_MAX = 60,
  CLI_FILE_NOTES_MAX = 80,
  CLI_STATES_MAX = 256
};

/** Variables that a file sets for its programs: name, value. Texts are in the pool. */
typedef struct cli_variables {
  const char *items[CLI_VARIABLES_MAX][2];
  size_t count;
} cli_variables;

/** One hook of a settings file. Texts are in the pool. */
typedef struct cli_entry {
  const char *event;    /* as the file names it */
  const char *matcher;  /* NULL: none */
  const char *rule;     /* `if`: such as Bash(git push*); NULL: none */
  const char *command;  /* for people */
  const char *left_out; /* why it has no place; NULL: it has one */
  const char *name;     /* the name with which its host can switch it off; NULL: its command */
  const char *same_as; /* the file or the entry with the same content, because of which it is not written; NULL: none */
  const char *notes[CLI_NOTES_MAX];
  size_t note_count;
  const char *const *arguments; /* what is run */
  size_t argument_count;
  const char *url;            /* the endpoint that is asked instead of a program; NULL: none */
  const char *prompt, *model; /* the question to a model that is asked instead, and the model's name; NULL: none */
  bool is_agent;              /* which has tools there */
  const char *endpoint;       /* of the url, as --webhook names it */
  const char *headers[CLI_HEADERS_MAX][2]; /* of the request: name, value */
  size_t header_count;
  cli_variables variables; /* of its own */
  int64_t timeout_ms;      /* 0: the host's */
  bool is_async, fails_closed;
  bool is_sequential;  /* it runs after the entries before it, even when others run at once */
  bool rewakes;        /* in that host it runs in the background, and wakes the model */
  bool is_off;         /* from 0: its group among those of its event, and its index in the group */
  bool is_cut;         /* its phase ends before its limit */
  bool is_guard;       /* its answer can stop something */
  size_t group, index; /* from 0: its group among those of its event, and its place in the group */
  const char *phase;   /* NULL until it was found */
  const char *id, *yaml;
} cli_entry;

typedef struct cli_settings {
  cli_pool pool;
  const char *path;
  const char *protocol;
  const char *plugin_root; /* NULL: none */
  bool disabled;
  cli_variables variables;               /* of every program of the file */
  const char *notes[CLI_FILE_NOTES_MAX]; /* settings of the file outside of its entries that have no counterpart here */
  size_t note_count;
  const char *states[CLI_STATES_MAX]; /* "FILE:pre_tool_use:0:0": a hook of this or another file that is switched off */
  size_t state_count;
  cli_entry *entries;
  size_t count, capacity;
} cli_settings;

/** hooks_settings_text.c: the text of a settings file as a value. @return as cli_input_decode(). */
int cli_settings_decode(const char *path, tp_writer **ret_writer, tp_text *ret_value);
/** Reads a settings or plugin file. One malformed entry costs only that entry.
 *  @return CLI_OK, or an exit status after a message about the error in the file. */
int cli_settings_read(const char *path, cli_settings *settings);
/** Switches off the hooks that hooks.state of one of the files has switched off, in all files. An unknown hook there
 *  becomes a note. */
void cli_settings_apply_states(cli_settings *files, size_t count);
void cli_settings_free(cli_settings *settings);

#endif
