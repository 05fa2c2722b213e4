/* SPDX-License-Identifier: Apache-2.0
 *
 * render: merged contributions as the text that a model reads: the system text, the block of prompt context, the block
 * of signals, reminders in their frames, and the messages that these join. Results are in the given arena or borrowed
 * from the arguments. Owns nothing, has no lock; any thread.
 *
 * What a handler or a tool says is content, never structure. Content keeps its bytes but for the `<` of whatever could
 * be read as one of our tags (escape.c), which becomes `&lt;`; so a rendered message holds exactly one frame for each
 * reminder and one block for each set, whatever is in them. What adds nothing leaves a text as it was, to the byte. */
#ifndef TP__RENDER_H
#define TP__RENDER_H

#include "phases/merge/merge.h"

/** The agent's standing text, then the sections in merged order, each under its title, with blank lines between.
 *  @param standing  the host's own: it is not escaped. Without sections it is the result, as it is. */
tp_status tp__render_system(tp__arena *arena, tp_text standing, const tp__merged_list *sections, tp_text *ret_text);

/** A text and after it a block of this tag with one line for each pair of a map, its value as JSON, which nothing in
 *  it can end; its keys are names (tp__agent_config_check()). An empty map, or none: the text is the result. */
tp_status tp__render_map(tp__arena *arena, tp_text text, const char *tag, tp_text map, tp_text *ret_text);

/** A text and after it a scope block with the lists of tools and skills as JSON, which no name can end. An empty text
 *  in place of a list: it has no line; without both the text is the result, as it is. */
tp_status tp__render_scope(tp__arena *arena, tp_text text, tp_text tools, tp_text skills, tp_text *ret_text);

/** The block of prompt context, from one list after the other (the turn's, this request's); empty when all are:
 *    <prompt-context>
 *    <context-entry id="D1:3" domain="memory">
 *    …
 *    </context-entry>
 *    </prompt-context> */
tp_status tp__render_context(tp__arena *arena, const tp__merged_list *lists, size_t list_count, tp_text *ret_text);

/** The signals as one line of JSON in a block, escaped; empty when there are none:
 *    <hook-signals>
 *    [{"source_event":"PromptSubmit","hook_id":…,"kind":…,"code":…,"severity":…,"payload":…}]
 *    </hook-signals>
 *  @param phase  its name: the source of signals whose subscription has no other name for it. */
tp_status tp__render_signals(tp__arena *arena, const char *phase, const tp__merged_list *signals, tp_text *ret_text);

/** Each reminder in a frame of its own; empty when there are none:
 *    <system-reminder>
 *    …
 *    </system-reminder> */
tp_status tp__render_reminders(tp__arena *arena, const tp__merged_list *reminders, tp_text *ret_text);

/** What a reminder and a denied call's result say: "hook X blocked the action: reason". Content like any other: it is
 *  escaped where it is rendered. @param reason  may be empty. */
tp_status tp__render_blocked(tp__arena *arena, const char *subscription, tp_text reason, tp_text *ret_text);

/** A message with what joins it. */
typedef struct tp__render_parts {
  tp_text context;   /* the block of tp__render_context(): stands first */
  tp_text signals;   /* the block of tp__render_signals(): before a user's message, after a call's result */
  bool is_result;    /* text is the result of a call */
  tp_text text;      /* the message itself; escaped when a block joins it, else the result as it is */
  tp_text reminders; /* the frames of tp__render_reminders(): stand last */
} tp__render_parts;
tp_status tp__render_message(tp__arena *arena, const tp__render_parts *parts, tp_text *ret_text);

/** Content made safe to stand beside our tags; the text itself when nothing in it needs it. */
tp_status tp__render_escaped(tp__arena *arena, tp_text text, tp_text *ret_text);

#endif
