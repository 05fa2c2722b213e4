/* SPDX-License-Identifier: Apache-2.0
 *
 * declared.h: the library turnphase-declared: YAML to values, and what is declared in YAML files. Uses libyaml.
 * Threads: any. */
#ifndef TURNPHASE_DECLARED_H
#define TURNPHASE_DECLARED_H

#include "turnphase/inspect.h"
#include "turnphase/model.h"
#include "turnphase/process.h"

TP_BEGIN_DECLS

/** Decodes one YAML 1.2 document (core schema) into a value. Refused with line and column (in code points): syntax
 *  errors, duplicate keys, anchors and aliases, merge keys, tags, keys that are missing or not scalars, no document or
 *  more than one, a %YAML line of another version, numbers out of range, bad UTF-8, control characters and others that
 *  must be written as escapes (U+0085, U+2028, U+2029 among them), depth over 32, more than 1,048,576 keys and values;
 *  and more than 16 MiB. Plain scalars are null, bool, int or float when the core schema says so; all others are text,
 *  and so is every key.
 *  @param name    of the file, for fault->subject; may be NULL.
 *  @param writer  gets the value, keys in the order of the text; untouched when the YAML is refused. The writer stores
 *                 TP_ERR_NO_MEMORY, and the error of its own limit, as with every tp_write_… function.
 *  @return TP_OK; TP_ERR_MALFORMED, TP_ERR_UTF8, TP_ERR_TOO_DEEP, TP_ERR_TOO_LARGE, TP_ERR_NO_MEMORY.
 *  Threads: any. */
TP_API tp_status tp_yaml_decode(tp_text yaml, const char *name, tp_writer *writer, tp_fault *fault) TP_MUST_USE;
/** Finds the place of a key in a YAML document, so that a reader of its value can say where something is wrong.
 *  @param keys  count keys: the first one is a key of the root's map, the second one of the map under it, and so on;
 *               count >= 1. In a list the key is the index of an item, from "0".
 *  @param ret_line    line of the last key or item, from 1.
 *  @param ret_column  in code points, from 1; may be NULL.
 *  @return TP_OK; TP_ERR_NOT_FOUND: no map has such a key there; TP_ERR_USAGE without a key; as tp_yaml_decode().
 *  Threads: any. */
TP_API tp_status tp_yaml_place(tp_text yaml, const char *const *keys, size_t count, uint32_t *ret_line,
                               uint32_t *ret_column, tp_fault *fault) TP_MUST_USE;

/** Makes a script model from its YAML form:
 *    repeat: true                      # optional: after the last response from the start again
 *    responses:
 *      - text: Hello.
 *      - text: Let me look.            # optional beside tool_calls
 *        tool_calls:
 *          - {id: c1, name: search, arguments: {city: Oslo}}
 *        stop_reason: tool_use         # optional: that with tool_calls, else end_turn
 *        finish: tool_calls            # optional: stop, length, filter, refusal, tool_calls, error or pause
 *        usage: {input_tokens: 10, output_tokens: 5, cost_micros: 0}   # optional
 *  A call needs a name; arguments are a map, empty when left out. Unknown keys, wrong types and a response with none
 *  of text, tool_calls and finish are refused with line and column.
 *  @param ret_model  as of tp_script_model_new(): tp_model_free() when it was not taken.
 *  @return as tp_yaml_decode() and tp_script_model_new().
 *  Threads: any. */
TP_API tp_status tp_script_model_load(tp_text yaml, const char *name, tp_model **ret_model,
                                      tp_fault *fault) TP_MUST_USE;

/* ---- declared hooks (docs/hooks.md) ------------------------------------------------------------------------------ */

/** The hooks of a directory: each YAML file declares a hook, or a tool (kind: tool). */
typedef struct tp_hooks tp_hooks;

/** A hook's program that has ended, and the hook's answer. Made by the library; borrowed till the callback returns.
 *  Of a hook that asks a model: input is the question, output the answer, arguments is empty; exit_code 1: there is no
 *  answer, and errors says why. */
typedef struct tp_hook_program {
  size_t struct_size;
  const char *hook;             /* the hook's id */
  const char *const *arguments; /* what was started, ended by NULL */
  tp_text input;                /* what it could read */
  tp_text output, errors;       /* what it wrote to descriptors 1 and 2 */
  const tp_outcome *outcome;    /* the answer, in time or late */
  tp_process_end end;           /* what decided its end */
  int32_t exit_code;            /* with TP_PROCESS_EXITED */
  int32_t signal;               /* with TP_PROCESS_KILLED */
  uint32_t reserved_;           /* zero */
  int64_t duration_ms;
} tp_hook_program;
/** Called from a thread that serves every program of these hooks: it must not wait, and must not call
 *  tp_hooks_free(). Threads: one of the library, for all programs of these hooks. */
typedef void (*tp_hook_program_fn)(void *ctx, const tp_hook_program *program);

/** Where hooks are. Zero means default. All texts are copied. */
typedef struct tp_hooks_options {
  size_t struct_size;
  /** Required: its *.yaml and *.yml files, in bytewise order of their names. */
  const char *directory;
  /** Where programs run, and where relative paths of programs and files begin; NULL: the working directory at this
   *  moment. */
  const char *root;
  /** tp_hooks_commit() registers the hook with this id alone, whether it is enabled or not, and without its edges
   *  to others; NULL: all that are enabled. */
  const char *only;
  /** Called for every program that has ended, until tp_hooks_free() returns; NULL: none. */
  tp_hook_program_fn on_program;
  void *program_ctx;
  /** What the operator grants: TP_GRANT_REWRITE to the hooks whose files say rewrite: true,
   *  TP_GRANT_PRIVILEGED_HOOKS to those of model.request, model.response and turn.post_prompt_compile. Without the
   *  grant these hooks are refused. */
  tp_grant grants;
  /** Path of turnphase-sandbox; NULL: where it was installed. */
  const char *sandbox_helper;
  /** Every program runs in a sandbox, and a file that says sandbox: false is refused. */
  bool sandbox_all;
  /** Zero. */
  uint8_t reserved_[7];
  /** The endpoints that hooks of kind webhook may call: "host:port", or "host" for port 443; ended by NULL. NULL:
   *  none, and a file that names one is refused. */
  const char *const *webhook_hosts;
  /** Path of turnphase-webhook; NULL: where it was installed. */
  const char *webhook_helper;
  /** Globs of the names (tp_hook_file) of files that could be code or data, and that the operator has decided to be
   *  data; ended by NULL. Such files are no part of the trust. The hash covers the decisions. */
  const char *const *data_files;
  /** The same for files that the operator has decided to be code. */
  const char *const *code_files;
  /** A prefix of the id of each hook, and of edges to hooks of the directory: for a second directory whose ids may be
   *  taken already. Names of tools get no prefix. NULL: none. */
  const char *id_prefix;
  /** The model that hooks of kind prompt ask, as tp_call_ask_model() takes it. Kept, with all that it points to, until
   *  tp_runtime_free() has returned; its destroy is not called. NULL: each hook asks the model of its turn, and in a
   *  turn without a model it gives no answer. */
  const tp_model *model;
  /** The id of the person or program that has decided what is trusted, for the rows "trust" of the audit. NULL: the
   *  owner's name. */
  const char *trusted_by;
} tp_hooks_options;

/* ---- patterns of secrets (docs/hooks.md) ------------------------------------------------------------------------- */

/** Patterns of texts that are taken out of records, logs and memories: those of the files with `kind: redact`. */
typedef struct tp_redactor tp_redactor;

/** Makes a redactor without patterns: it changes nothing.
 *  @return TP_OK; TP_ERR_USAGE; TP_ERR_NO_MEMORY.  Threads: any. */
TP_API tp_status tp_redactor_new(tp_redactor **ret_redactor, tp_fault *fault) TP_MUST_USE;
/** Adds the patterns of a directory of hooks: its *.yaml and *.yml files with `kind: redact`. Other files are left to
 *  tp_hooks_read(). On failure the redactor may have some of them: free it.
 *  @return TP_OK, also when there is none; TP_ERR_MALFORMED with file, line and column for a pattern that is not well
 *          formed, fits the empty text or needs too much, and for more than 256; TP_ERR_IO; TP_ERR_TOO_LARGE;
 *          TP_ERR_USAGE; TP_ERR_NO_MEMORY.
 *  Threads: one, before a runtime has it.  Blocks: while files are read. */
TP_API tp_status tp_redactor_read(tp_redactor *redactor, const char *directory, tp_fault *fault) TP_MUST_USE;
/** How many patterns the redactor has; 0 for NULL.  Threads: any, after the last tp_redactor_read(). */
TP_API size_t tp_redactor_count(const tp_redactor *redactor);
/** A tp_redact_fn: set tp_runtime_options.redact to it and redact_ctx to the redactor, which must live as long as the
 *  runtime. Each pattern is applied to what the one before left, and each match becomes its replacement.
 *  Threads: any, also several at once. */
TP_API bool tp_redactor_redact(void *redactor, tp_redaction *redaction);
/** After tp_runtime_free() of the runtimes that have it. Accepts NULL.  Threads: any. */
TP_API void tp_redactor_free(tp_redactor *redactor);

/* ---- directories of hooks --------------------------------------------------------------------------------------- */

/** Reads and checks every file of the directory, and hashes the code that an operator trusts (tp_hooks_each_file()):
 *  the files that declare hooks, the programs that are started, the scripts that commands name, and all else in the
 *  directory and its folders that looks like code. What programs read or write is no part of it. Registers nothing and
 *  runs nothing.
 *  @param runtime  its table of phases is read; kept until tp_hooks_free().
 *  @return TP_OK; for the first file that is wrong TP_ERR_MALFORMED, TP_ERR_UTF8, TP_ERR_TOO_DEEP, TP_ERR_TOO_LARGE,
 *          TP_ERR_BAD_ID, TP_ERR_DUPLICATE_ID, TP_ERR_UNKNOWN_PHASE, TP_ERR_CODE_ONLY, TP_ERR_PRIVILEGED,
 *          TP_ERR_OBSERVER_REQUIRED or TP_ERR_MATCH_KEY, with the file as subject, line, column and remedy; TP_ERR_IO
 *          with errno; TP_ERR_USAGE, TP_ERR_VERSION; TP_ERR_NO_MEMORY.
 *  Threads: any.
 *  Blocks: while files are read. */
TP_API tp_status tp_hooks_read(tp_runtime *runtime, const tp_hooks_options *options, tp_hooks **ret_hooks,
                               tp_fault *fault) TP_MUST_USE;

/** The content hash: 64 hexadecimal digits (SHA-256) over every byte and every name of the hashed files.
 *  Borrowed until tp_hooks_free(). Threads: any. */
TP_API const char *tp_hooks_hash(const tp_hooks *hooks);

/** What a file is to the hooks of a directory. */
typedef enum tp_hook_file_use {
  TP_HOOK_FILE_DECLARATION = 1, /* it declares a hook or a tool */
  TP_HOOK_FILE_PROGRAM = 2,     /* a command starts it */
  TP_HOOK_FILE_SCRIPT = 3,      /* a command names it, and what is started runs it */
  TP_HOOK_FILE_HELPER = 4,      /* it lies in the directory and looks like code */
  TP_HOOK_FILE_DATA = 5,        /* it is read or written */
  TP_HOOK_FILE_USE_FORCE_32 = 0x7fffffff
} tp_hook_file_use;

/** A file that the operator's trust covers, or that was taken for data. Made by the library; borrowed till the callback
 *  returns. */
typedef struct tp_hook_file {
  size_t struct_size;
  /** Where it is. */
  const char *path;
  /** Its name from the directory, "./" and its name from the root, or its path. */
  const char *name;
  /** Of code: its SHA-256 in hexadecimal digits; empty: it is data, or not there. */
  const char *digest;
  /** The id of the hook whose command names it; empty: it lies in the directory. */
  const char *hook;
  tp_hook_file_use use;
  /** Set when the hash covers its content. */
  bool is_code;
  /** Set when the file existed when the directory was read. */
  bool is_there;
  /** Neither its name nor its content shows whether it is code: is_code holds until the operator decides
   *  (tp_hooks_options.data_files, code_files). */
  bool is_unclear;
  uint8_t reserved_;
} tp_hook_file;
/** Receives a file; false stops the walk. Threads: the calling one. */
typedef bool (*tp_hook_file_fn)(void *ctx, const tp_hook_file *file);
/** Walks the files in bytewise order of their names. A host that keeps names and digests can name what has changed when
 *  the hash is another. Of data in the directory at most 256 files are listed.
 *  @return how many it has walked.
 *  Threads: any. */
TP_API size_t tp_hooks_each_file(const tp_hooks *hooks, tp_hook_file_fn each, void *ctx);

/** A hook as its file declares it. Made by the library; borrowed till the callback returns. */
typedef struct tp_hook_info {
  size_t struct_size;
  const char *id;
  const char *file;    /* its path */
  const char *event;   /* as the file names it */
  const char *kind;    /* "script", "worker", "log", "save_json", "approve", "webhook", "prompt", "agent", "tool" */
  const char *target;  /* the program, the file that is written, the question, the prompt, or the URL up to its port */
  const char *match;   /* as text; empty: always */
  const char *summary; /* may be empty */
  tp_phase_id phase;
  uint32_t limit_ms;  /* 0: the phase's */
  tp_failure failure; /* 0: the phase's */
  bool enabled, blocking;
  bool rewrites;                /* it may replace what a tool is called with, or its result */
  uint8_t reserved_;            /* zero */
  const char *protocol;         /* "claude-code", "gemini"; empty: our own */
  const char *const *arguments; /* of a program: what is started, ended by NULL; else NULL */
  const char *match_summary;    /* the match in the words of a listing: "ability=a,b"; empty: always */
} tp_hook_info;
/** Receives a hook; false stops the walk. Threads: the calling one. */
typedef bool (*tp_hook_info_fn)(void *ctx, const tp_hook_info *info);
/** Walks the hooks in the order of their files. @return how many there are.
 *  Threads: any. */
TP_API size_t tp_hooks_each(const tp_hooks *hooks, tp_hook_info_fn each, void *ctx);

/** Something in a hook's file that cannot have an effect here. Made by the library; borrowed till the callback
 *  returns. */
typedef struct tp_hook_warning {
  size_t struct_size;
  const char *hook, *file; /* its id, the path of its file */
  uint32_t line;
  uint32_t reserved_;
  const char *code;    /* "matcher", "variable", "program", "code", "agent" */
  const char *message; /* with the remedy */
} tp_hook_warning;
/** Receives a warning; false stops the walk. Threads: the calling one. */
typedef bool (*tp_hook_warning_fn)(void *ctx, const tp_hook_warning *warning);
/** Walks the parts of the hooks' files that have no effect, and that a commit does not refuse: a matcher that fits no
 *  tool, a variable that a command or its script reads and nothing sets, a program or script that is not there, code
 *  that a command runs by names that another program prints, an agent without tools. Hooks that are disabled have no
 *  warning. Call it before a session begins, and show it to the operator: a guard that is off for such a reason looks
 *  like one that is on.
 *  @param has_all_tools  true: every tool is registered. Matchers are compared with the names of tp_runtime_tools(),
 *                        which runs a phase. false: they are compared with the names that tools have at the host of the
 *                        protocol.
 *  @return how many there are, or up to the one at which each stopped.
 *  Threads: any.
 *  Blocks: as tp_runtime_tools(). */
TP_API size_t tp_hooks_each_warning(const tp_hooks *hooks, bool has_all_tools, tp_hook_warning_fn each, void *ctx);

/** Registers all hooks that are enabled as one commit, or none. With TURNPHASE_DISABLE_HOOKS=1 in the environment
 *  nothing is registered, and TP_OK returned.
 *  @param owner    name of the owner, whose trust is declared; NULL: "declared".
 *  @param trusted  the content hash that the operator has reviewed and trusts; NULL: none. A program that has changed
 *                  since it was read is not run: the hook fails (cannot_start).
 *  @return TP_OK; TP_ERR_USAGE when trusted is not the hash of the directory, with the hash in the message; what
 *          tp_edit_add_subscription() and tp_edit_commit() return, with the file at fault where it is known;
 *          TP_ERR_NOT_FOUND when no hook has the id of tp_hooks_options.only.
 *  Threads: any.
 *  Blocks: no. */
TP_API tp_status tp_hooks_commit(tp_hooks *hooks, const char *owner, const char *trusted, tp_commit_report *ret_report,
                                 tp_fault *fault) TP_MUST_USE;

/** Frees what was read. Registered hooks stay, with the memory that they need. Accepts NULL.
 *  Threads: any.
 *  Blocks: while on_program runs; no call of it comes afterwards. */
TP_API void tp_hooks_free(tp_hooks *hooks);

/** Registers all hooks that are enabled in place of those that `before` registered, as one commit. Turns that run keep
 *  the old ones; when the commit is refused, the old ones stay registered. Without `before` it is tp_hooks_commit().
 *  @param before  NULL: none; may be freed afterwards.
 *  @return as tp_hooks_commit(); TP_ERR_CONFLICT: another commit came between, try again.
 *  Threads: any. */
TP_API tp_status tp_hooks_replace(tp_hooks *hooks, const tp_hooks *before, const char *owner, const char *trusted,
                                  tp_commit_report *ret_report, tp_fault *fault) TP_MUST_USE;

/** Watches a directory of hooks for changes. */
typedef struct tp_hooks_watch tp_hooks_watch;
/** Whether the operator trusts this content (tp_hooks_hash()). Called under a lock of the watch: it must not call
 *  functions of the watch. Threads: that of the watch, or the caller of a function of the watch. */
typedef bool (*tp_hooks_trusts_fn)(void *ctx, const char *hash);
/** Notifies that a change was registered (TP_OK), or that it was refused, with its fault, and the old hooks stay. It
 *  must not free the watch. Threads: that of the watch. */
typedef void (*tp_hooks_reload_fn)(void *ctx, tp_status status, const tp_fault *fault);

/** Options of a watch. Zero means default. All texts are copied. */
typedef struct tp_hooks_watch_options {
  size_t struct_size;
  /** Required: the directory of the watch; only must be NULL. */
  const tp_hooks_options *hooks;
  /** As of tp_hooks_commit(). */
  const char *owner;
  /** NULL: any content is trusted. */
  tp_hooks_trusts_fn trusts;
  /** NULL: none. */
  tp_hooks_reload_fn on_reload;
  /** Passed to both callbacks. */
  void *ctx;
  /** How long the directory must be unchanged before a change is registered; 0: 100; at most 60,000. Further
   *  changes delay it by at most 2 s. */
  uint32_t quiet_ms;
  /** The watch registers nothing by itself: the directory is read at the start, and when a function of the watch is
   *  called. There is no thread; quiet_ms and on_reload must be zero. For hooks that change together with other
   *  things. */
  bool only_when_asked;
  /** Zero. */
  uint8_t reserved_[3];
} tp_hooks_watch_options;

/** Reads and commits the directory, then watches it: when a file in it or its folders is changed, added or removed, the
 *  whole directory is committed again (tp_hooks_replace()). With only_when_asked that happens at a call only. The
 *  removal of the directory is a refused change; the watch goes on, and commits the directory when it is there again.
 *  @param runtime  kept till tp_hooks_watch_free().
 *  @return TP_OK; what tp_hooks_read() and tp_hooks_commit() return; TP_ERR_USAGE; TP_ERR_SYSTEM without inotify or a
 *          thread; TP_ERR_NO_MEMORY.  Blocks: while files are read.
 *  Threads: any. */
TP_API tp_status tp_hooks_watch_new(tp_runtime *runtime, const tp_hooks_watch_options *options,
                                    tp_hooks_watch **ret_watch, tp_fault *fault) TP_MUST_USE;
/** Reads and commits the directory now, whether it has changed or not, for example after the operator has trusted it.
 *  @return as tp_hooks_watch_new(); on_reload is not called.
 *  Threads: any. */
TP_API tp_status tp_hooks_watch_reload(tp_hooks_watch *watch, tp_fault *fault) TP_MUST_USE;
/** Reads the directory now, and commits it when its content differs from what was committed last. For a host that
 *  changes other things together with the hooks: when one of these changes fails, tp_hooks_watch_undo() takes the
 *  commit back.
 *  @param ret_changed  whether the directory was committed; may be NULL.
 *  @return as tp_hooks_watch_reload(); TP_ERR_USAGE for a watch without only_when_asked, which registers changes
 *          by itself.
 *  Threads: any. */
TP_API tp_status tp_hooks_watch_update(tp_hooks_watch *watch, bool *ret_changed, tp_fault *fault) TP_MUST_USE;
/** Registers again what the last tp_hooks_watch_update() replaced. It does nothing when that update changed nothing, or
 *  when the directory was committed again since. The files stay as they are; the next function that reads the directory
 *  commits them.
 *  @return as tp_hooks_replace(); TP_ERR_USAGE as tp_hooks_watch_update().
 *  Threads: any. */
TP_API tp_status tp_hooks_watch_undo(tp_hooks_watch *watch, tp_fault *fault) TP_MUST_USE;
/** tp_hooks_each_warning() of the hooks that the watch has registered. Threads: any. Blocks: as that. */
TP_API size_t tp_hooks_watch_each_warning(tp_hooks_watch *watch, bool has_all_tools, tp_hook_warning_fn each,
                                          void *ctx);
/** Ends the watch; registered hooks stay. Accepts NULL. Call it before tp_runtime_free().
 *  Threads: any.
 *  Blocks: until a reload under way has ended. */
TP_API void tp_hooks_watch_free(tp_hooks_watch *watch);

TP_END_DECLS
#endif
