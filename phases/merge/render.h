/* SPDX-License-Identifier: Apache-2.0
 *
 * render: writes merged contributions as the text that a model reads: the system text, the block of prompt context, the
 * block of signals, reminders in their frames, and the messages to which these are added. Results are in the given
 * arena or borrowed from the arguments. Owns nothing, has no lock; any thread.
 *
 * Text of a handler or a tool is content, never structure. Content is copied byte for byte, with one exception: the `<`
 * of everything that could be read as one of the library's tags (escape.c) becomes `&lt;`. So a rendered message holds
 * exactly one frame for each reminder and one block for each set, whatever is in them. When nothing is added to a text,
 * it stays byte for byte as it was. */
#ifndef TP__RENDER_H
#define TP__RENDER_H

#include "phases/merge/merge.h"

/** The agent's standing text, followed by the sections in merged order. Each section has its title above it, and blank
 *  lines separate them.
 *  @param standing  the host's own text, which is not escaped. Without sections it is the result, unchanged. */
tp_status tp__render_system(tp__arena *arena, tp_text standing, const tp__merged_list *sections, tp_text *ret_text);

/** A text, followed by a block with this tag that has one line for each pair of a map. The value of a pair is written
 *  as JSON, so nothing in it can end the block; the keys are names (tp__agent_config_check()). Without a map, or with
 *  an empty one, the text is the result. */
tp_status tp__render_map(tp__arena *arena, tp_text text, const char *tag, tp_text map, tp_text *ret_text);

/** A text, followed by a scope block with the lists of tools and skills as JSON, so that no name can end the block. A
 *  list that is an empty text gets no line. Without both lists the text is the result, unchanged. */
tp_status tp__render_scope(tp__arena *arena, tp_text text, tp_text tools, tp_text skills, tp_text *ret_text);

/** The block of prompt context, from several lists, one after the other (the turn's, this request's); empty when all
 *    lists are: <prompt-context> <context-entry id="D1:3" domain="memory"> … </context-entry> </prompt-context> */
tp_status tp__render_context(tp__arena *arena, const tp__merged_list *lists, size_t list_count, tp_text *ret_text);

/** The signals as one line of JSON in a block, escaped; empty when there are none:
 *    <hook-signals>
 *    [{"source_event":"PromptSubmit","hook_id":…,"kind":…,"code":…,"severity":…,"payload":…}]
 *    </hook-signals>
 *  @param phase  the name of the phase, which is the source of a signal when the subscription did not use an alias. */
tp_status tp__render_signals(tp__arena *arena, const char *phase, const tp__merged_list *signals, tp_text *ret_text);

/** Each reminder in a frame of its own; empty when there are none:
 *    <system-reminder>
 *    …
 *    </system-reminder> */
tp_status tp__render_reminders(tp__arena *arena, const tp__merged_list *reminders, tp_text *ret_text);

/** The text in a reminder and in the result of a denied call: "hook X blocked the action: reason". It is content, so it
 *  is escaped when it is rendered. @param reason may be empty. */
tp_status tp__render_blocked(tp__arena *arena, const char *subscription, tp_text reason, tp_text *ret_text);

/** A message with what joins it. */
typedef struct tp__render_parts {
  tp_text context;   /* the block of tp__render_context(), at the start */
  tp_text signals;   /* the block of tp__render_signals(): before a user's message, after the result of a call */
  bool is_result;    /* text is the result of a call */
  tp_text text;      /* the message itself; escaped when a block is added to it, else unchanged in the result */
  tp_text reminders; /* the frames of tp__render_reminders(), at the end */
} tp__render_parts;
tp_status tp__render_message(tp__arena *arena, const tp__render_parts *parts, tp_text *ret_text);

/** Escapes content so that it may stand next to the library's tags. The result is the text itself when nothing needs
 *  escaping. */
tp_status tp__render_escaped(tp__arena *arena, tp_text text, tp_text *ret_text);

#endif
