/* SPDX-License-Identifier: Apache-2.0
 *
 * trust: what the operator of a directory of hooks trusts: code. Code is each file that declares hooks, each program
 * that is started, each script that a command or a line of a shell names, and each other file of the directory that
 * looks like code. What these read or write is data, and no part of it. trust_find.c finds what a command names,
 * trust_loads.c what its scripts load; trust.c looks at files, hashes them, and compares them before each start and
 * after it; trust_start.c starts scripts from copies. It owns the list of files, which never changes after the reading.
 * No lock. */
#ifndef TP__DECLARED_TRUST_H
#define TP__DECLARED_TRUST_H

#include <sys/stat.h>

#include "support/fault.h"
#include "turnphase/declared.h"

struct tp__hook;

enum { TP__TRUST_WHY_SIZE = 512, TP__TRUST_ARGUMENTS_MAX = 65 };

/** A file that a trust is, or could be, about. */
typedef struct tp__trust_file {
  struct tp__trust_file *next;
  const char *path;   /* where it is opened */
  const char *shown;  /* the same, from the directory or the root where it is below them */
  const char *name;   /* by which it is looked up in PATH; NULL: it is named by its path */
  const char *search; /* of that name: the value of PATH */
  const char *hook;   /* the first hook that names it; NULL: it lies in the directory */
  tp_hook_file_use use;
  bool is_code;
  bool is_unclear;  /* neither its name nor its content says what it is, and the operator has not decided */
  bool is_argument; /* of a program of which nothing is known */
  bool is_loaded;   /* by a script, and named by no command */
  bool is_there;    /* when it was hashed */
  struct stat stat;
  bool is_fresh;   /* it changed so shortly before that its times may not show another change */
  char digest[65]; /* of code that is there */
} tp__trust_file;

/** A folder of the directory, as it was when its files were listed. */
typedef struct tp__trust_folder {
  struct tp__trust_folder *next;
  const char *path;
  struct stat stat;
  bool is_fresh; /* as of a file */
} tp__trust_folder;

/** A pattern of a shell that a command names files by. */
typedef struct tp__trust_glob {
  struct tp__trust_glob *next;
  const char *pattern;
  bool is_argument; /* as of a file */
} tp__trust_glob;

/** A program that is looked up. */
typedef struct tp__trust_name {
  const char *name, *search; /* as of a file; kept */
} tp__trust_name;

/** Finds what the command of a hook names: its program, scripts, files. Its environment is complete. */
tp_status tp__trust_find(tp_hooks *hooks, struct tp__hook *hook, tp_fault *fault);

/** Adds what the scripts that the command names load from outside of the directory; after all other files of the
 *  hook. */
tp_status tp__trust_find_loads(tp_hooks *hooks, struct tp__hook *hook, tp_fault *fault);

/** How a file got its name in a command. */
typedef enum tp__trust_role {
  TP__TRUST_PROGRAM = 1,  /* started */
  TP__TRUST_SCRIPT = 2,   /* read by what is started as its code */
  TP__TRUST_ARGUMENT = 3, /* given to a program of which nothing is known: code when it looks like code */
  TP__TRUST_DATA = 4,     /* read or written */
  TP__TRUST_LOADED = 5    /* loaded by a script from elsewhere: data until the operator decides */
} tp__trust_role;

/** Adds a file that a hook names, or finds it in the list.
 *  @param path  copied.   @param name  NULL: it is named by its path.
 *  @return TP_OK, or TP_ERR_TOO_LARGE, or no memory. */
tp_status tp__trust_add(tp_hooks *hooks, struct tp__hook *hook, const char *path, const tp__trust_name *name,
                        tp__trust_role role, tp_fault *fault);
/** Adds a pattern: no file that fits it later starts with the hook. The files that fit now are added one by one.
 *  @param pattern  copied. */
tp_status tp__trust_add_glob(tp_hooks *hooks, struct tp__hook *hook, const char *pattern, tp__trust_role role,
                             tp_fault *fault);
/** The bytes of a file that declares a hook, as they were read. */
tp_status tp__trust_add_declaration(tp_hooks *hooks, const char *file, tp_text text, tp_fault *fault);

/** After all hooks were read: lists the directory, hashes all code, and fills hooks->hash. */
tp_status tp__trust_hash(tp_hooks *hooks, tp_fault *fault);

/** Whether all code that a program of the hook may run is what was hashed, and there is no other.
 *  @param ret_why  which file is not, and the remedy. */
bool tp__trust_holds(const struct tp__hook *hook, char ret_why[TP__TRUST_WHY_SIZE]);

/** What a program is started with in place of its own arguments. */
typedef struct tp__trust_start {
  int fd;        /* of the sealed copy of its script; -1: it is started by its path */
  char path[64]; /* of the copy */
  const char *arguments[TP__TRUST_ARGUMENTS_MAX];
} tp__trust_start;

/** Makes a sealed copy of the script that a hook starts, where it is one of a shell or of Python that does not look for
 *  its own place.
 *  @param ret_start  fd is the caller's to close, after the end of the program.
 *  @return 0; -1: the script is not what was hashed. */
int tp__trust_copy(const struct tp__hook *hook, tp__trust_start *ret_start);

/** Writes the first file of code that is not what it was: "guard.sh has changed"; empty when there is none. */
void tp__trust_difference(const tp_hooks *before, const tp_hooks *now, char ret_text[TP__TRUST_WHY_SIZE]);

/* ---- trust_audit.c: what was decided, as rows of the audit. No lock may be held ---- */

/** The content is trusted and registered.   @param before  what it replaces: nothing was decided when its content is
 *  the same; NULL: none. */
void tp__trust_audit_given(tp_hooks *hooks, const tp_hooks *before);
/** The content is not trusted. One that takes the place of before is reported once.
 *  @param what  the file that has changed; may be empty. */
void tp__trust_audit_refused(tp_hooks *hooks, tp_hooks *before, const char *what);
/** A program does not start, since its code is not what was hashed: the first refusal of each hook.
 *  @param why  as of tp__trust_holds(). */
void tp__trust_audit_code(const struct tp__hook *hook, const char *why);

/** Where a program without a slash is in PATH.   @param path  the value of PATH.   @return false: nowhere. */
bool tp__trust_look_up(const char *path, const char *name, char *ret_path, size_t size);

#endif
