/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks: the command hooks, and what run, plan and bench need of a directory of hooks. hooks.c has the actions that
 * only look, hooks_list.c the list, hooks_trust.c the file of trusted hashes, hooks_run.c a single hook, hooks_new.c
 * new ones, hooks_import.c those of other hosts. Nothing here runs a program of a directory that is not trusted. */
#ifndef CLI_HOOKS_H
#define CLI_HOOKS_H

#include "cli/common/options.h"
#include "turnphase/declared.h"

/** Registers the hooks of a directory that is trusted. @return CLI_OK, or an exit status after saying what is wrong,
 *  and for a directory that is not trusted, which command trusts it. */
int cli_hooks_load(tp_runtime *runtime, const cli_arguments *arguments);

/** A directory of hooks that is followed while turns run; changes of it are said on standard error. */
typedef struct cli_follower cli_follower;
/** Registers the hooks as cli_hooks_load(), and follows their directory. @param arguments  kept till
 *  cli_follower_free(). @param only_when_asked  a change is registered by cli_follower_update() only.
 *  @param ret_follower  NULL: no hooks are wanted. */
int cli_follower_new(tp_runtime *runtime, const cli_arguments *arguments, bool only_when_asked,
                     cli_follower **ret_follower);
/** Between two turns: looks whether a change that was refused is trusted by now. Accepts NULL. */
void cli_follower_retry(cli_follower *follower);
/** Reads every directory and registers those that have changed, all or none; of a follower that is only_when_asked.
 *  Accepts NULL.
 *  @return CLI_OK, or an exit status after saying what is wrong: then the hooks from before are registered. */
int cli_follower_update(cli_follower *follower);
/** Takes the last update back. Accepts NULL. */
void cli_follower_undo(cli_follower *follower);
/** Before the runtime ends. Accepts NULL. */
void cli_follower_free(cli_follower *follower);

/** How the hooks of a directory are read. */
tp_hooks_options cli_hooks_options(const cli_arguments *arguments, const char *directory);
enum { CLI_HOOKS_PREFIX_SIZE = 128 };
/** How one of the directories of --hooks is read, where its ids may be those of one before it.
 *  @param prefix  filled when ids need one; it lives as long as the options. */
tp_hooks_options cli_hooks_options_at(tp_runtime *runtime, const cli_arguments *arguments, size_t index,
                                      char prefix[CLI_HOOKS_PREFIX_SIZE]);
/** Of the kind of a hook: no program is started. */
bool cli_hooks_asks_model(const char *kind);
/** Reads a directory, and says what is wrong with it. */
int cli_hooks_read(tp_runtime *runtime, const tp_hooks_options *options, tp_hooks **ret_hooks);
/** CLI_OK when the content of the hooks is trusted; else an exit status after saying so. */
int cli_hooks_need_trust(tp_runtime *runtime, const char *directory, tp_hooks *hooks);
/** Prints a text with what a terminal would obey or hide made visible; line ends become blanks. */
void cli_hooks_print_text(cli_output *output, tp_text text);

enum { CLI_HASH_SIZE = 65 };

/** A directory that was read, in a runtime with all else that the command line names. */
typedef struct cli_hooks_opened {
  tp_runtime *runtime;
  tp_hooks *hooks;
  const char *directory;
  char trusted[CLI_HASH_SIZE]; /* empty: none */
} cli_hooks_opened;
/** Opens the directory that the second operand names. @return CLI_OK, or an exit status after saying what is wrong. */
int cli_hooks_open(const cli_arguments *arguments, cli_hooks_opened *ret_opened);
bool cli_hooks_is_trusted(const cli_hooks_opened *opened);
void cli_hooks_close(cli_hooks_opened *opened);

/** hooks_list.c: the hooks of a directory, event after event. */
int cli_hooks_list(const cli_arguments *arguments, cli_output *output);
int cli_hooks_import(const cli_arguments *arguments, cli_output *output);
int cli_hooks_new(const cli_arguments *arguments, cli_output *output);
/** Says that a directory has no hooks, and which directory was meant. */
void cli_hooks_say_none(const char *directory);
/** Warns of programs and scripts of hooks that are not there, and of code whose files are not known. */
void cli_hooks_warn_of_files(const tp_hooks *hooks);
/** hook_stats.c: what the records of a data directory have of each hook. */
int cli_hooks_stats(const cli_arguments *arguments, cli_output *output);
int cli_hooks_run(const cli_arguments *arguments, cli_output *output);

/* ---- hooks_trust.c: $XDG_CONFIG_HOME/turnphase/trusted, a line "HASH PATH" for each directory ---- */

/** Whether there is a place for the list of what is trusted: HOME or XDG_CONFIG_HOME is an absolute path. */
bool cli_trust_has_place(void);
/** The absolute path of a directory, without links; freed by free(). @return CLI_OK, or CLI_IO after saying why. */
int cli_trust_path(const char *directory, char **ret_path);
/** @param ret_hash  the hash that is trusted; empty: none. */
int cli_trust_get(const char *path, char ret_hash[CLI_HASH_SIZE]);
/** @param hash     NULL: none is trusted from now on.
 *  @param content  what the hash is about, a line for each file and decision.
 *  @param ret_was  whether one was trusted; may be NULL. */
int cli_trust_set(const char *path, const char *hash, const char *content, bool *ret_was);
/** What a hash is about; empty when it was not kept. Freed by free(). */
int cli_trust_content(const char *hash, char **ret_content);

/* ---- hooks_content.c: what a trust is about ---- */

/** What the operator has decided of a directory's files: those of the trust that is given, then those of --data-file
 *  and --code-file. The lists stay until the command ends. Main thread only. */
void cli_content_decide(const cli_arguments *arguments, const char *directory, tp_hooks_options *options);
/** The lines that cli_trust_set() keeps; freed by free(). */
char *cli_content_write(const tp_hooks *hooks, const tp_hooks_options *options);
/** Writes which files are not what was trusted: "guard.sh has changed, helper.sh is new"; empty when that is not
 *  known. */
void cli_content_compare(const char *hash, const tp_hooks *hooks, char *ret_text, size_t size);
/** Prints what could be code or data, and how the operator decides it. */
void cli_content_print(const tp_hooks *hooks, bool is_verbose, cli_output *output);

#endif
