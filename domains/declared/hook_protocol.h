/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_protocol: hooks that were written for another host. A file that names a protocol has that host's event names,
 * matchers, standard input, exit codes and results, and its scripts run unchanged (docs/hooks.md). hook_protocol.c has
 * the events and the names of tools and arguments; hook_matcher.c has the matchers; hook_protocol_input.c writes the
 * input of a program; hook_protocol_judge.c reads its result. */
#ifndef TP__DECLARED_HOOK_PROTOCOL_H
#define TP__DECLARED_HOOK_PROTOCOL_H

#include <regex.h>

#include "domains/declared/hook.h"

typedef enum tp__protocol_event_id {
#define EVENT(id, ...) TP__EVENT_##id,
#include "domains/declared/hook_protocol.def"
#undef EVENT
} tp__protocol_event_id;

/** The turns that have an event. A nested turn is a subagent's. */
typedef enum tp__event_of { TP__EVENT_OF_ANY = 0, TP__EVENT_OF_AGENT = 1, TP__EVENT_OF_SUBAGENT = 2 } tp__event_of;

enum {
  TP__EVENT_HAS_MATCHER = 1,
  TP__EVENT_HAS_MODE = 2,        /* standard input has permission_mode */
  TP__EVENT_TEXT_IS_CONTEXT = 4, /* text that is no object goes to the model */
  TP__GEMINI_LIMIT_MS = 60000,
  TP__PROMPT_LIMIT_MS = 30000, /* of a question to a model */
  TP__AGENT_LIMIT_MS = 60000   /* of one that is asked of an agent there */
};

struct tp__protocol_event {
  tp__protocol_event_id id;
  const char *names[3]; /* by protocol; NULL: it has none */
  uint32_t phase;
  uint32_t limit_ms; /* for Claude Code, when the file sets none; for Gemini all events have the same limit */
  unsigned is;
  tp__event_of of;
  const char *subject; /* what matchers are compared with; NULL: the agent, the source, or the tool */
};

/** Whether its denial lets the model go on. */
static inline bool tp__protocol_is_stop(tp__protocol_event_id id) {
  return id == TP__EVENT_STOP || id == TP__EVENT_SUBAGENT_STOP;
}

/** @return TP__PROTOCOL_NONE for an unknown name. */
tp__protocol tp__protocol_find(const char *name);
/** "claude-code"; "" for none. */
const char *tp__protocol_name(tp__protocol protocol);
/** NULL: the protocol has no such event, or turnphase has no phase for it. */
const tp__protocol_event *tp__protocol_event_find(tp__protocol protocol, const char *name);

/* ---- matchers ---- */

/** The names that an event must have. Zero-filled: any name. */
struct tp__matcher {
  const char *text; /* NULL: any */
  bool is_regex;
  regex_t regex;
};

struct tp__hook_matcher {
  struct tp__hook_matcher *next;
  tp__matcher matcher;
};

enum { TP__REGEX_BYTES_MAX = 255, TP__POSIX_SIZE = 16 * TP__REGEX_BYTES_MAX };
/** Rewrites a JavaScript regular expression as a POSIX extended one.
 *  @return NULL; or the part that cannot be rewritten: then ret_posix must not be used. */
const char *tp__regex_rewrite(const char *text, char ret_posix[TP__POSIX_SIZE]);

/** @param text      kept; with is_regex until tp__matcher_fini().
 *  @param ret_why   when the result is false: the part that a regular expression cannot express here. */
bool tp__matcher_init(tp__matcher *matcher, const char *text, const char **ret_why);
void tp__matcher_fini(tp__matcher *matcher);
bool tp__matcher_fits(const tp__matcher *matcher, tp_text name);

/* ---- names of tools ---- */

enum { TP__TOOL_NAMES_MAX = 64, TP__ARGUMENT_NAMES_MAX = 16 };

/** The names of one of turnphase's tools, and of its arguments, here and in the host for which the hook was written. */
struct tp__tool_name {
  const char *ours, *theirs;
  const char *arguments[TP__ARGUMENT_NAMES_MAX][2]; /* ours, theirs */
  size_t argument_count;
};

/** The name of one of turnphase's tools in the hook's host. */
tp_text tp__protocol_tool(const tp__hook *hook, tp_text ours);
/** The name of an argument of the tool in that host. */
tp_text tp__protocol_argument(const tp__hook *hook, tp_text tool, tp_text ours);
/** The values with which matchers of the hook's event may be compared, separated by spaces; NULL: tools, or agents. */
const char *tp__protocol_subjects(const tp__hook *hook);
/** Whether the tool has one of these names there; for an empty list: false. */
bool tp__protocol_is_tool(const tp__hook *hook, tp_text tool, const char *names);
/** Whether the matcher fits: it is compared with the tool's name in that host, the source of a session, … */
bool tp__protocol_matches(const tp__hook *hook, const tp_match_view *view);
/** How a session began. A host that runs the phase itself may leave it out. */
tp_text tp__protocol_source(tp_text source);
/** The kind of a notification: a person is to be asked. */
const char *tp__protocol_notification(const tp__hook *hook);
/** Writes one argument, by its key in that host, where paths of files are absolute. */
void tp__protocol_write_argument(const tp__hook *hook, tp_text key, tp_text value, tp_writer *writer);
/** Writes the arguments of a call as an object, under their names in that host. */
void tp__protocol_write_input(const tp__hook *hook, tp_text tool, tp_text arguments, tp_writer *writer);
/** Writes the new arguments of the call, under turnphase's names: those in `before`, changed by the input that a
 *  program gave. */
void tp__protocol_write_arguments(const tp__hook *hook, tp_text tool, tp_text before, tp_text input, tp_writer *writer);

#endif
