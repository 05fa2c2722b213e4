/* SPDX-License-Identifier: Apache-2.0
 *
 * hook: declared hooks. hook_read.c makes a tp__hook of a file; hook_judge.c says what the end of a program means;
 * hook_run.c is the handler, hook_prompt.c that of a hook which asks a model; hooks.c has the directory, its content
 * hash and its commit. A directory that was read is shared by what was read and by every registered handler and running
 * program, counted; one lock, of the count. It owns the process loop of its programs. */
#ifndef TP__DECLARED_HOOK_H
#define TP__DECLARED_HOOK_H

#include <sys/stat.h>

#include "domains/declared/condition.h"
#include "domains/declared/hook_protocol.h"
#include "domains/declared/sandbox.h"
#include "domains/declared/trust.h"
#include "domains/declared/webhook.h"
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
  TP__HOOK_ENVIRONMENT_MAX = 169,
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

/** A tool that is a program (hook_tool.h). */
typedef struct tp__hook_tool tp__hook_tool;

/** A program that stays (hook_worker.h). */
typedef struct tp__worker tp__worker;

typedef struct tp__edges {
  tp_edge items[TP__HOOK_EDGES_MAX];
  const tp_edge *list[TP__HOOK_EDGES_MAX];
  size_t count;
} tp__edges;

typedef struct tp__patterns {
  const char *items[TP__HOOK_PATTERNS_MAX];
  size_t count;
} tp__patterns;

/** Lists of tools, each with what becomes of a call. The strictest list that a tool is in counts. */
typedef struct tp__permissions {
  tp__patterns never, ask, automatic;
  const char *otherwise; /* of a tool in none of them: never, ask or auto */
} tp__permissions;

/** Whether it is the same file with the same content, as far as the file system says: inode, size and times. */
bool tp__hook_same_file(const struct stat *one, const struct stat *other);

/** One hook. Nothing but is_registered changes after the reading; its texts belong to `hooks`. */
typedef struct tp__hook {
  tp_hooks *hooks;
  struct tp__hook *next;
  const char *id, *file, *event, *summary, *match, *match_summary;
  const char *path;                 /* of a kind that writes a file */
  const char *question;             /* of the kinds that ask a person, deny or allow: the reason */
  tp__permissions *permissions;     /* of the file of a profile */
  const tp__conditions *conditions; /* of the arguments; NULL: none */
  const char *url;                  /* of the kind that asks an endpoint */
  const char *prompt, *model;       /* of the kind that asks a model: its name, or NULL */
  bool is_agent;                    /* another host gives that model tools */
  tp__hook_kind kind;
  const char *kind_name;
  bool is_msgpack;     /* of a worker: its frames; else JSON Lines */
  tp__worker *worker;  /* made at the commit */
  tp__hook_tool *tool; /* of a hook that declares one */
  uint32_t phase;
  const tp_phase *row; /* own_row: a program may outlive the runtime */
  tp_phase own_row;
  bool is_enabled, is_blocking, wants_json, rewrites;
  bool keeps_errors;     /* what its program writes to standard error may be kept when the program fails */
  bool is_registered;    /* of the thread that commits */
  bool is_refusal_noted; /* under the mutex of hooks: the audit has that its code was refused */
  tp_failure failure;
  uint32_t limit_ms; /* 0: the phase's */
  int32_t priority;
  uint32_t max_concurrent; /* 0: the default */
  tp_sequential sequential;
  const char *arguments[TP__HOOK_ARGUMENTS_MAX + 1];
  tp__trust_file *trusted[TP__HOOK_FILES_MAX]; /* what its command names */
  tp__trust_glob *globs;                       /* and by which patterns */
  tp__sandbox sandbox;
  const char *const *started; /* what is started: arguments, or the sandbox's helper with them */
  size_t argument_count, trusted_count;
  bool loads_more;   /* its scripts load more files from elsewhere than are listed */
  bool runs_unknown; /* its command runs files by names that another program prints, and no list of them is known */
  tp__edges after, before, needs;
  tp__patterns scopes, changed_paths, agents, modes, environments;
  const char *rule_tools;  /* of `if` of another host: its names, with blanks between them; NULL: any */
  int64_t duration_ms_min; /* 0: any */
  tp__protocol protocol;   /* NONE: our own, and what follows is zero */
  const tp__protocol_event *protocol_event;
  tp__matcher *matcher; /* NULL: any */
  tp__tool_name *tool_names;
  size_t tool_name_count;
  const char *plugin_root;
  const char *environment[TP__HOOK_ENVIRONMENT_MAX + 1]; /* that of all hooks, and its own behind it */
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
  const char *const *data_files, *const *code_files; /* globs, ended by NULL: what the operator has decided */
  const char *only;                                  /* NULL: all */
  const char *prefix;                                /* of ids; "": none */
  tp_grant grants;
  bool sandboxes_all;
  const char *helper; /* of sandboxes */
  const char *webhook_helper;
  const char *const *webhook_hosts; /* of the caller, while files are read; NULL: none */
  const tp_model *model;            /* the caller's; NULL: that of the turn is asked */
  const char *trusted_by;           /* NULL: the owner */
  tp__hook *first;
  size_t count;
  struct tp__redact_file *redacts; /* the files with patterns of secrets */
  const char *environment[16];
  struct tp__hook_matcher *matchers; /* to be ended, whether their hook was taken or not */
  char hash[65];
  struct tp__transcript *transcripts; /* under mutex, as the two below (transcript.h) */
  char transcript_folder[256];        /* empty: not made yet */
  uint64_t transcript_number;
  struct tp__block *blocks; /* memory of all that was read */
  tp_process_loop *loop;
  tp__lock mutex;
  tp__lock_condition notified;
  /* under mutex; of the loop, from its first callback on */
  pthread_t loop_thread;
  bool has_loop_thread;
  char owner[TP_ID_BYTES_MAX + 1]; /* before the commit, of the thread that commits */
  /* under mutex */
  char refused[65]; /* the hash that was to take its place, and was refused last */
  size_t references;
  size_t handlers;               /* of runtimes: with the last one what still runs is ended */
  tp_hook_program_fn on_program; /* NULL: none, or no more */
  void *program_ctx;
  size_t notifying; /* calls of on_program that have not returned */
};

/** Whether on_program is wanted at this moment. */
bool tp__hooks_have_listener(tp_hooks *hooks);
/** Calls on_program, if there is one still. */
void tp__hooks_notify(tp_hooks *hooks, const tp_hook_program *program);

/** In each callback of the loop; and whether this is its thread. */
void tp__hooks_note_loop(tp_hooks *hooks);
bool tp__hooks_in_loop(tp_hooks *hooks);

/** Adds a value as JSON, and the end of the line. @param writer  gets the text; its value stays as it is. */
tp_status tp__line_add_json(tp__bytes *line, tp_text value, tp_writer *writer);

/** A map that a program gets. Its size stands in front of it, so all that adds to it is called twice: first to count,
 *  without a writer, then to write. */
typedef struct tp__input {
  const tp__hook *hook;
  const tp_call *call;
  tp_writer *writer;      /* NULL: it is counted */
  const char *transcript; /* of a program of another host: its path, or empty */
  size_t count;
} tp__input;

void tp__input_write(const tp__hook *hook, const tp_call *call, tp_writer *writer, void (*add)(tp__input *in));
/** The same of an input that is set up but for writer and count. */
void tp__input_put(tp__input *in, tp_writer *writer, void (*add)(tp__input *in));
/** Counts a pair, and writes its key. @return whether its value is to be written. */
bool tp__input_begin(tp__input *in, const char *key);
void tp__input_text(tp__input *in, const char *key, tp_text text);
void tp__input_string(tp__input *in, const char *key, const char *text);
void tp__input_int(tp__input *in, const char *key, int64_t number);
void tp__input_bool(tp__input *in, const char *key, bool value);

/** What a program or a model reads, in the protocol of the hook.
 *  @return TP_OK and a line with its newline, to be freed. */
tp_status tp__hook_context_line(const tp__hook *hook, tp_call *call, tp__bytes *ret_line);
/** Writes what a hook of our own protocol gets. */
void tp__hook_write_context(const tp__hook *hook, const tp_call *call, tp_writer *writer);

struct tp__hook_matcher {
  struct tp__hook_matcher *next;
  tp__matcher matcher;
};

void tp__hooks_ref(tp_hooks *hooks);
void tp__hooks_unref(tp_hooks *hooks);
/** A handler of a runtime holds a reference, too. With the last one programs that were cancelled end without a grace:
 *  their host may be about to end, and would leave them behind. */
void tp__hooks_ref_handler(tp_hooks *hooks);
void tp__hooks_unref_handler(tp_hooks *hooks);
/** Zeroed memory that lives as long as the hooks; NULL when there is none. */
void *tp__hooks_alloc(tp_hooks *hooks, size_t size);
/** A copy with a NUL behind it. */
const char *tp__hooks_copy(tp_hooks *hooks, tp_text text);
/** NAME=VALUE. */
const char *tp__hooks_pair(tp_hooks *hooks, const char *name, const char *value);

/** Reads one hook from the text of its file.
 *  @param file  its path; kept.   @param ret_hook  NULL: the file has patterns of secrets. */
tp_status tp__hook_read(tp_hooks *hooks, const char *file, tp_text text, tp__hook **ret_hook, tp_fault *fault);

/** The handler's function and its destroy; ctx is a tp__hook, whose hooks hold a reference for it. */
tp_answer tp__hook_run(void *ctx, tp_call *call);
void tp__hook_destroy(void *ctx);
/** Whether it decides by what it was given, without a program and without waiting. */
static inline bool tp__hook_is_native(const tp__hook *hook) {
  return hook->kind == TP__HOOK_APPROVE || hook->kind == TP__HOOK_DENY || hook->kind == TP__HOOK_ALLOW ||
         hook->kind == TP__HOOK_PERMISSIONS;
}
/** What a match asks that tp_match has no list for: the protocol, the environment, the arguments. ctx is a tp__hook. */
bool tp__hook_has_matches(const tp__hook *hook);
int32_t tp__hook_matches(void *ctx, const tp_match_view *view);

/* ---- what the end of a program means ---- */

enum { TP__JUDGED_MAX = 64, TP__JUDGED_REASON_SIZE = 4096, TP__JUDGED_FIELDS_MAX = 5 };

/** An answer on its way. */
typedef struct tp__judged {
  tp_outcome outcome;
  char reason[TP__JUDGED_REASON_SIZE];
  tp_contribution contributions[TP__JUDGED_MAX];
  const tp_contribution *list[TP__JUDGED_MAX];
  char texts[TP__JUDGED_MAX][128]; /* of diagnostics that are made here */
  tp_writer *writer;               /* has the object that the program printed, and what replaces a result */
  tp_writer *other;                /* has what replaces arguments, a request or an answer; or NULL */
  tp__bytes output, errors;        /* what the program printed, where it is not UTF-8 */
  tp_field replacements[TP__JUDGED_FIELDS_MAX];
  size_t replacement_count;
} tp__judged;

/** What an attempt was asked, as far as its answer depends on it. */
typedef struct tp__asked {
  bool is_required;        /* the failure policy in force: a block is then a failure in a phase without verdicts */
  tp_text tool, arguments; /* of a hook that rewrites; arguments are a map, or empty */
  tp_text model, messages, tools, parameters; /* of a request to a model, for the hooks of another host */
  tp_text text;                               /* of its answer */
} tp__asked;

/** @param ret_judged  borrows from the result; tp__judged_fini(). */
void tp__hook_judge(const tp__hook *hook, const tp__asked *asked, const tp_process_result *result,
                    tp__judged *ret_judged);
/** Of a worker. @param reply     a map with `result`, or `error`.
 *  @param replaced  how many bytes of the reply were not UTF-8. */
void tp__hook_judge_reply(const tp__hook *hook, const tp__asked *asked, tp_text reply, size_t replaced,
                          tp__judged *ret_judged);
/** What became of a request to a model. */
typedef struct tp__replied {
  tp_status status;    /* as of tp_call_ask_model() */
  tp_text text;        /* with TP_OK */
  const char *message; /* else */
  bool is_retryable;
} tp__replied;

/** Of a model. */
void tp__hook_judge_prompt(const tp__hook *hook, const tp__asked *asked, const tp__replied *replied,
                           tp__judged *ret_judged);
void tp__judged_fini(tp__judged *judged);
/** What a failure says of the standard error of the program that failed, as the end of a sentence: the text, where the
 *  file of the hook has keep_stderr: true, and else where to find it. Empty without errors.
 *  @param errors  UTF-8. */
void tp__hook_errors_show(const tp__hook *hook, tp_text errors, char *ret_text, size_t size);

#endif
