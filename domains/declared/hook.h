/* SPDX-License-Identifier: Apache-2.0
 *
 * hook: declared hooks as data, for all files of this module. hook_read.h makes a tp__hook from a file; hook_run.h is
 * its handler; hook_context.h writes the input of its program; hook_answer.h reads the answer; hooks.c has the
 * directory, its content hash and its commit. The hooks of a directory are counted: references are held by the caller
 * that read them, by every registered handler, and by every running program. One lock guards the count. The hooks own
 * the process loop of their programs. */
#ifndef TP__DECLARED_HOOK_H
#define TP__DECLARED_HOOK_H

#include <sys/stat.h>

#include "domains/declared/condition.h"
#include "domains/declared/sandbox.h"
#include "runtime/base/check.h"
#include "support/bytes.h"
#include "support/clock.h"
#include "support/fault.h"
#include "support/file.h"
#include "support/lock.h"
#include "turnphase/declared.h"
#include "turnphase/process.h"

enum {
  TP__HOOK_ARGUMENTS_MAX = 64,
  TP__HOOK_EDGES_MAX = 64,
  TP__HOOK_PATTERNS_MAX = 64,
  TP__HOOK_FILES_MAX = 128,
  TP__HOOK_ENVIRONMENT_MAX = 170,
  TP__HOOK_VARIABLES_MAX = 128, /* of these, by env and pass_env */
  TP__HOOK_LIMIT_MS_MAX = 86400000
};

typedef enum tp__hook_kind {
  TP__HOOK_SCRIPT = 1,
  TP__HOOK_LOG = 2,
  TP__HOOK_SAVE_JSON = 3,
  TP__HOOK_WORKER = 4,
  TP__HOOK_APPROVE = 5,
  TP__HOOK_WEBHOOK = 6,
  TP__HOOK_TOOL = 7,
  TP__HOOK_DENY = 8,
  TP__HOOK_ALLOW = 9,
  TP__HOOK_PERMISSIONS = 10,
  TP__HOOK_PROMPT = 11
} tp__hook_kind;

/** Whose hook a file has (hook_protocol.h). */
typedef enum tp__protocol {
  TP__PROTOCOL_NONE = 0, /* our own */
  TP__PROTOCOL_CLAUDE_CODE = 1,
  TP__PROTOCOL_GEMINI = 2
} tp__protocol;

/* Parts of a hook that other headers of this module define. */
typedef struct tp__hook_tool tp__hook_tool;           /* hook_tool.h: a tool that is a program */
typedef struct tp__worker tp__worker;                 /* hook_worker.h: a program that stays */
typedef struct tp__protocol_event tp__protocol_event; /* hook_protocol.h */
typedef struct tp__matcher tp__matcher;
typedef struct tp__tool_name tp__tool_name;
typedef struct tp__trust_file tp__trust_file; /* trust.h */
typedef struct tp__trust_glob tp__trust_glob;
typedef struct tp__trust_folder tp__trust_folder;

typedef struct tp__edges {
  tp_edge items[TP__HOOK_EDGES_MAX];
  const tp_edge *list[TP__HOOK_EDGES_MAX];
  size_t count;
} tp__edges;

typedef struct tp__patterns {
  const char *items[TP__HOOK_PATTERNS_MAX];
  size_t count;
} tp__patterns;

/** Lists of tools, each with the decision about their calls. If a tool is in several lists, the strictest counts. */
typedef struct tp__permissions {
  tp__patterns never, ask, automatic;
  const char *otherwise; /* for a tool that is in none of them: never, ask or auto */
} tp__permissions;

/** Whether both are the same file with the same content, judged by inode, size and times. */
bool tp__hook_same_file(const struct stat *one, const struct stat *other);

/** One hook. After it was read, only is_registered changes. Its texts belong to `hooks`. */
typedef struct tp__hook {
  tp_hooks *hooks;
  struct tp__hook *next;
  const char *id, *file, *event, *summary, *match, *match_summary;
  const char *path;                 /* of a kind that writes a file */
  const char *question;             /* for the kinds that ask a person, deny or allow: the reason */
  tp__permissions *permissions;     /* of the file of a profile */
  const tp__conditions *conditions; /* of the arguments; NULL: none */
  const char *url, *shown_url;      /* for the kind that asks an endpoint; shown: without parts that may be secret */
  const char *prompt, *model;       /* for the kind that asks a model: its name, or NULL */
  bool is_agent;                    /* another host gives that model tools */
  tp__hook_kind kind;
  const char *kind_name;
  bool is_msgpack;     /* of a worker: its frames; else JSON Lines */
  tp__worker *worker;  /* made at the commit */
  tp__hook_tool *tool; /* of a hook that declares one */
  uint32_t phase;
  const tp_phase *row; /* own_row, because a program may outlive the runtime */
  tp_phase own_row;
  bool is_enabled, is_blocking, wants_json, rewrites;
  bool keeps_errors;     /* when its program fails, its standard error may be stored */
  bool is_registered;    /* of the thread that commits */
  bool is_refusal_noted; /* under the mutex of hooks: the audit already has the refusal of its code */
  tp_failure failure;
  uint32_t limit_ms; /* 0: the phase's */
  int32_t priority;
  uint32_t max_concurrent; /* 0: the default */
  tp_sequential sequential;
  const char *arguments[TP__HOOK_ARGUMENTS_MAX + 1];
  tp__trust_file *trusted[TP__HOOK_FILES_MAX]; /* what its command names */
  tp__trust_glob *globs;                       /* and by which patterns */
  tp__sandbox sandbox;
  /* the command line that is started: arguments, or the sandbox's helper followed by them */
  const char *const *started;
  size_t argument_count, trusted_count;
  bool loads_more; /* its scripts load more files from outside than are listed */
  /* its command runs files by names that another program prints, and no list of these names is known */
  bool runs_unknown;
  tp__edges after, before, needs;
  tp__patterns scopes, changed_paths, agents, modes, environments;
  const char *rule_tools;  /* from `if` of another host: the tool names, separated by blanks; NULL: any */
  int64_t duration_ms_min; /* 0: any */
  tp__protocol protocol;   /* NONE: our own, and what follows is zero */
  const tp__protocol_event *protocol_event;
  tp__matcher *matcher; /* NULL: any */
  tp__tool_name *tool_names;
  size_t tool_name_count;
  const char *plugin_root;
  const char *environment[TP__HOOK_ENVIRONMENT_MAX + 1]; /* that of all hooks, and its own after it */
  tp__place place;
} tp__hook;

struct tp_hooks {
  /* never changes after the reading */
  tp_runtime *runtime;
  const char *directory, *root;
  const char *folder;    /* the directory, absolute and without links */
  tp__trust_file *files; /* in the order of their names */
  tp__trust_folder *folders;
  size_t data_count;
  const char *const *data_files, *const *code_files; /* globs, ended by NULL: the decisions of the operator */
  const char *only;                                  /* NULL: all */
  const char *prefix;                                /* of ids; "": none */
  tp_grant grants;
  bool sandboxes_all;
  const char *helper; /* of sandboxes */
  const char *webhook_helper;
  const char *const *webhook_hosts; /* of the caller, while files are read; NULL: none */
  const tp_model *model;            /* the caller's; NULL: the model of the turn is asked */
  const char *trusted_by;           /* NULL: the owner */
  tp__hook *first;
  size_t count;
  struct tp__redact_file *redacts; /* the files with patterns of secrets */
  const char *environment[16];
  struct tp__hook_matcher *matchers; /* to be freed, whether their hook was taken or not */
  char hash[65];
  struct tp__transcript *transcripts; /* under mutex, as the next two (transcript.h) */
  char transcript_folder[256];        /* empty: not made yet */
  uint64_t transcript_number;
  struct tp__block *blocks; /* memory of all that was read */
  tp_process_loop *loop;
  tp__lock mutex;
  tp__lock_condition notified;
  /* Under mutex; set by the loop in its first callback */
  pthread_t loop_thread;
  bool has_loop_thread;
  char owner[TP_ID_BYTES_MAX + 1]; /* written by the committing thread before the commit */
  /* under mutex */
  char refused[65]; /* the hash that was to replace it, and was refused last */
  size_t references;
  size_t handlers;               /* of runtimes; when the last one goes, programs that still run are ended */
  tp_hook_program_fn on_program; /* NULL: none, or no more */
  void *program_ctx;
  size_t notifying; /* calls of on_program that have not returned */
};

/** Whether on_program is set at this moment. */
bool tp__hooks_have_listener(tp_hooks *hooks);
/** Calls on_program, if there is one still. */
void tp__hooks_notify(tp_hooks *hooks, const tp_hook_program *program);

/** The first is called in each callback of the loop; the second tells whether this is the loop's thread. */
void tp__hooks_note_loop(tp_hooks *hooks);
bool tp__hooks_in_loop(tp_hooks *hooks);

void tp__hooks_ref(tp_hooks *hooks);
void tp__hooks_unref(tp_hooks *hooks);
/** A handler of a runtime also holds a reference. After the last one is dropped, programs that were cancelled end
 *  without a grace period, because their host may be about to end and they would stay. */
void tp__hooks_ref_handler(tp_hooks *hooks);
void tp__hooks_unref_handler(tp_hooks *hooks);
/** Zeroed memory that stays as long as the hooks; NULL without memory. */
void *tp__hooks_alloc(tp_hooks *hooks, size_t size);
/** A copy with a NUL after it. */
const char *tp__hooks_copy(tp_hooks *hooks, tp_text text);
/** NAME=VALUE. */
const char *tp__hooks_pair(tp_hooks *hooks, const char *name, const char *value);

/** Whether the hook decides from its input only, without a program and without waiting. */
static inline bool tp__hook_is_native(const tp__hook *hook) {
  return hook->kind == TP__HOOK_APPROVE || hook->kind == TP__HOOK_DENY || hook->kind == TP__HOOK_ALLOW ||
         hook->kind == TP__HOOK_PERMISSIONS;
}
#endif
