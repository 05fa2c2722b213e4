/* SPDX-License-Identifier: Apache-2.0
 *
 * trust: the code that the operator of a directory of hooks trusts. Code is each file that declares hooks, each program
 * that is started, each script that a command or a shell line names, and each other file of the directory that looks
 * like code. Files that these read or write are data, and are not covered. trust_find.c finds the files that a command
 * names; trust_loads.c finds the files that its scripts load; trust.c checks files, hashes them, and compares them
 * before each start and after it; trust_start.c starts scripts from copies. The list of files never changes after the
 * reading. No lock. */
#ifndef TP__DECLARED_TRUST_H
#define TP__DECLARED_TRUST_H

#include <sys/stat.h>

#include "support/fault.h"
#include "turnphase/declared.h"

struct tp__hook;

enum { TP__TRUST_WHY_SIZE = 512, TP__TRUST_ARGUMENTS_MAX = 65 };

/** A file that a trust covers, or could cover. */
typedef struct tp__trust_file {
  struct tp__trust_file *next;
  const char *path;   /* where it is opened */
  const char *shown;  /* the same path, relative to the directory or the root if it is below them */
  const char *name;   /* the name that is looked up in PATH; NULL: the file is named by its path */
  const char *search; /* of that name: the value of PATH */
  const char *hook;   /* the first hook that names it; NULL: it is in the directory */
  tp_hook_file_use use;
  bool is_code;
  bool is_unclear;  /* neither its name nor its content shows what it is, and the operator has not decided */
  bool is_argument; /* of a program of which nothing is known */
  bool is_loaded;   /* by a script, and named by no command */
  bool is_there;    /* when it was hashed */
  struct stat stat;
  bool is_fresh;   /* it changed so recently that its times may not show another change */
  char digest[65]; /* of code that is there */
} tp__trust_file;

/** A folder of the directory, as it was when its files were listed. */
typedef struct tp__trust_folder {
  struct tp__trust_folder *next;
  const char *path;
  struct stat stat;
  bool is_fresh; /* as of a file */
} tp__trust_folder;

/** A shell pattern with which a command names files. */
typedef struct tp__trust_glob {
  struct tp__trust_glob *next;
  const char *pattern;
  bool is_argument; /* as of a file */
} tp__trust_glob;

/** A program that is looked up. */
typedef struct tp__trust_name {
  const char *name, *search; /* as of a file; kept */
} tp__trust_name;

/** Finds the files that the command of a hook names: its program, scripts, data. The environment of the hook must be
 *  complete. */
tp_status tp__trust_find(tp_hooks *hooks, struct tp__hook *hook, tp_fault *fault);

/** Adds the files that the command's scripts load from outside of the directory. Called after all other files of the
 *  hook were added. */
tp_status tp__trust_find_loads(tp_hooks *hooks, struct tp__hook *hook, tp_fault *fault);

/** How a file got its name in a command. */
typedef enum tp__trust_role {
  TP__TRUST_PROGRAM = 1,  /* started */
  TP__TRUST_SCRIPT = 2,   /* the started program reads it as its code */
  TP__TRUST_ARGUMENT = 3, /* an argument of an unknown program: code if it looks like code */
  TP__TRUST_DATA = 4,     /* read or written */
  TP__TRUST_LOADED = 5    /* loaded by a script from outside: data until the operator decides */
} tp__trust_role;

/** Adds a file that a hook names, unless the list has it.
 *  @param path  copied. @param name  NULL: the file is named by its path.
 *  @return TP_OK, or TP_ERR_TOO_LARGE, or no memory. */
tp_status tp__trust_add(tp_hooks *hooks, struct tp__hook *hook, const char *path, const tp__trust_name *name,
                        tp__trust_role role, tp_fault *fault);
/** Adds a pattern. A file that begins to match it later prevents the hook's start. The files that match now are added
 *  one by one.
 *  @param pattern  copied. */
tp_status tp__trust_add_glob(tp_hooks *hooks, struct tp__hook *hook, const char *pattern, tp__trust_role role,
                             tp_fault *fault);
/** The bytes of a file that declares a hook, as they were read. */
tp_status tp__trust_add_declaration(tp_hooks *hooks, const char *file, tp_text text, tp_fault *fault);

/** Called after all hooks were read: lists the directory, hashes all code, and fills hooks->hash. */
tp_status tp__trust_hash(tp_hooks *hooks, tp_fault *fault);

/** Whether all code that a program of the hook may run is unchanged since it was hashed, and no code was added.
 *  @param ret_why  the file that differs, and the remedy. */
bool tp__trust_holds(const struct tp__hook *hook, char ret_why[TP__TRUST_WHY_SIZE]);

/** The arguments with which a program is started instead of its own. */
typedef struct tp__trust_start {
  int fd;        /* the sealed copy of its script; -1: it is started by its path */
  char path[64]; /* of the copy */
  const char *arguments[TP__TRUST_ARGUMENTS_MAX];
} tp__trust_start;

/** Makes a sealed copy of the script that a hook starts, if it is a script of a shell or of Python that does not need
 *  its own path.
 *  @param ret_start  the caller closes fd after the end of the program.
 *  @return 0; -1: the script differs from the one that was hashed. */
int tp__trust_copy(const struct tp__hook *hook, tp__trust_start *ret_start);

/** Writes the first file of code that differs: "guard.sh has changed"; empty when there is none. */
void tp__trust_difference(const tp_hooks *before, const tp_hooks *now, char ret_text[TP__TRUST_WHY_SIZE]);

/* ---- trust_audit.c: decisions, as rows of the audit. No lock may be held ---- */

/** The content is trusted and registered. @param before  the hooks that it replaces; if their content is the same,
 *  nothing was decided; NULL: none. */
void tp__trust_audit_given(tp_hooks *hooks, const tp_hooks *before);
/** The content is not trusted. If it was to replace `before`, that is reported once.
 *  @param what  the file that has changed; may be empty. */
void tp__trust_audit_refused(tp_hooks *hooks, tp_hooks *before, const char *what);
/** A program does not start, because its code differs from the code that was hashed. Reports the first refusal of each
 *  hook.
 *  @param why  the text of tp__trust_holds(). */
void tp__trust_audit_code(const struct tp__hook *hook, const char *why);

/** The path of a program without a slash, found in PATH. @param path  the value of PATH. @return false: it is not
 *  there. */
bool tp__trust_look_up(const char *path, const char *name, char *ret_path, size_t size);

#endif
