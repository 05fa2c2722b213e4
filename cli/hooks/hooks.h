/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks: the command hooks, and the functions for directories of hooks that run, plan and bench use. hooks.c has the
 * actions that start nothing, hooks_list.c the list, hooks_trust.c the file of trusted hashes, hooks_run.c runs a
 * single hook, hooks_new.c makes new ones, hooks_import.c converts those of other hosts. No program of an untrusted
 * directory is ever run. */
#ifndef CLI_HOOKS_H
#define CLI_HOOKS_H

#include "cli/common/options.h"
#include "turnphase/declared.h"

/** Registers the hooks of a trusted directory. @return CLI_OK, or an exit status after a message about the error. For
 *  an untrusted directory, the message gives the command that trusts it. */
int cli_hooks_load(tp_runtime *runtime, const cli_arguments *arguments);

/** A directory of hooks that is followed while turns run; its changes are reported on standard error. */
typedef struct cli_follower cli_follower;
/** Registers the hooks as cli_hooks_load(), and follows their directory. @param arguments   kept until
 *  cli_follower_free(). @param only_when_asked   changes are registered only by cli_follower_update().
 *  @param ret_follower  NULL: the command line names no hooks. */
int cli_follower_new(tp_runtime *runtime, const cli_arguments *arguments, bool only_when_asked,
                     cli_follower **ret_follower);
/** Called between two turns: checks whether a change that was refused is trusted now. Accepts NULL. */
void cli_follower_retry(cli_follower *follower);
/** For a follower that is only_when_asked: reads every directory, and registers those that have changed, all or none.
 *  Accepts NULL.
 *  @return CLI_OK, or an exit status after a message about the error: then the earlier hooks stay registered. */
int cli_follower_update(cli_follower *follower);
/** Takes the last update back. Accepts NULL. */
void cli_follower_undo(cli_follower *follower);
/** Before the runtime ends. Accepts NULL. */
void cli_follower_free(cli_follower *follower);

/** How the hooks of a directory are read. */
tp_hooks_options cli_hooks_options(const cli_arguments *arguments, const char *directory);
enum { CLI_HOOKS_PREFIX_SIZE = 128 };
/** The options for reading one of the directories of --hooks. Its ids may be equal to those of an earlier directory.
 *  @param prefix  filled when its ids need a prefix; must live as long as the options. */
tp_hooks_options cli_hooks_options_at(tp_runtime *runtime, const cli_arguments *arguments, size_t index,
                                      char prefix[CLI_HOOKS_PREFIX_SIZE]);
/** Whether hooks of this kind ask a model, so that no program is started. */
bool cli_hooks_asks_model(const char *kind);
/** Reads a directory; prints a message about an error in it. */
int cli_hooks_read(tp_runtime *runtime, const tp_hooks_options *options, tp_hooks **ret_hooks);
/** CLI_OK when the content of the hooks is trusted; else an exit status after saying so. */
int cli_hooks_need_trust(tp_runtime *runtime, const char *directory, tp_hooks *hooks);
/** Prints a text on one line. Characters that a terminal would obey or hide become visible, and line ends become
 *  blanks. */
void cli_hooks_print_text(cli_output *output, tp_text text);

enum { CLI_HASH_SIZE = 65 };

/** A directory that was read, in a runtime with everything else that the command line names. */
typedef struct cli_hooks_opened {
  tp_runtime *runtime;
  tp_hooks *hooks;
  const char *directory;
  char trusted[CLI_HASH_SIZE]; /* empty: none */
} cli_hooks_opened;
/** Opens the directory that the second operand names. @return CLI_OK, or an exit status after a message about the
 *  error. */
int cli_hooks_open(const cli_arguments *arguments, cli_hooks_opened *ret_opened);
bool cli_hooks_is_trusted(const cli_hooks_opened *opened);
void cli_hooks_close(cli_hooks_opened *opened);

/** hooks_list.c: prints the hooks of a directory, by event. */
int cli_hooks_list(const cli_arguments *arguments, cli_output *output);
int cli_hooks_import(const cli_arguments *arguments, cli_output *output);
int cli_hooks_new(const cli_arguments *arguments, cli_output *output);
/** Reports that a directory has no hooks, and suggests the directory that was probably meant. */
void cli_hooks_say_none(const char *directory);
/** Warns of programs and scripts of hooks that do not exist, and of code whose files are not known. */
void cli_hooks_warn_of_files(const tp_hooks *hooks);
/** hook_stats.c: prints the statistics of each hook from the records of a data directory. */
int cli_hooks_stats(const cli_arguments *arguments, cli_output *output);
int cli_hooks_run(const cli_arguments *arguments, cli_output *output);

/* ---- hooks_trust.c: $XDG_CONFIG_HOME/turnphase/trusted, a line "HASH PATH" for each directory ---- */

/** Whether there is a place for the list of trusted content: HOME or XDG_CONFIG_HOME is an absolute path. */
bool cli_trust_has_place(void);
/** The absolute path of a directory, without links; freed by free(). @return CLI_OK, or CLI_IO after saying why. */
int cli_trust_path(const char *directory, char **ret_path);
/** @param ret_hash  the trusted hash; empty: none. */
int cli_trust_get(const char *path, char ret_hash[CLI_HASH_SIZE]);
/** @param hash     NULL: nothing is trusted from now on.
 *  @param content  the content of the hash, a line for each file and decision.
 *  @param ret_was  whether a hash was trusted before; may be NULL. */
int cli_trust_set(const char *path, const char *hash, const char *content, bool *ret_was);
/** The content of a hash; empty when it was not stored. Freed by free(). */
int cli_trust_content(const char *hash, char **ret_content);

/* ---- hooks_content.c: the content that a trust covers ---- */

/** Sets the operator's decisions about a directory's files: those of the existing trust, then those of --data-file and
 *  --code-file. The lists stay until the command ends. Main thread only. */
void cli_content_decide(const cli_arguments *arguments, const char *directory, tp_hooks_options *options);
/** The lines that cli_trust_set() stores; freed by free(). */
char *cli_content_write(const tp_hooks *hooks, const tp_hooks_options *options);
/** Writes which files differ from the trusted content: "guard.sh has changed, helper.sh is new"; empty when that is not
 *  known. */
void cli_content_compare(const char *hash, const tp_hooks *hooks, char *ret_text, size_t size);
/** Prints the files that may be code or data, and how the operator decides that. */
void cli_content_print(const tp_hooks *hooks, bool is_verbose, cli_output *output);

#endif
