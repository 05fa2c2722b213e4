/* SPDX-License-Identifier: Apache-2.0
 *
 * find: which tools fit the words of a search, the best first. Words are compared in names, in descriptions and in the
 * schemas' parameters with theirs; letters of ASCII of either case are alike, and `createIssue` is two words. A word
 * that few tools have counts more. A whole name, with or without mcp__SERVER__, finds its tool before any other. A
 * search belongs to one thread; no lock. */
#ifndef TP__MCP_FIND_H
#define TP__MCP_FIND_H

#include "support/bytes.h"
#include "turnphase/tool.h"

#define TP__MCP_PREFIX "mcp__"

enum { TP__MCP_FIND_WORDS_MAX = 16 };

/** How well a tool fits. */
typedef struct tp__mcp_fit {
  const tp_tool *tool;                    /* borrowed: of the run that searches */
  uint8_t levels[TP__MCP_FIND_WORDS_MAX]; /* of each word: 0: the tool does not have it */
  bool is_named;                          /* the query has its whole name */
  uint32_t score;
  size_t index;
} tp__mcp_fit;

typedef struct tp__mcp_find {
  size_t limit; /* set by the caller: tools that are found at most; >= 1 */
  tp_text query;
  tp_text words[TP__MCP_FIND_WORDS_MAX];
  size_t word_count;
  bool begins[256];    /* by the first byte of a word, in small letters */
  bool words_left_out; /* the query has more */
  tp__mcp_fit *fits;
  size_t count, capacity;
  bool failed; /* there was no memory */
} tp__mcp_find;

/** Reads the query, which stays borrowed until tp__mcp_find_fini(). */
void tp__mcp_find_begin(tp__mcp_find *find, tp_text query);
/** Looks at a tool. */
void tp__mcp_find_take(tp__mcp_find *find, const tp_tool *tool);
/** Writes {"tools": [NAME, …]} and adds the words for a model. @return false without memory. */
bool tp__mcp_find_end(tp__mcp_find *find, tp_writer *writer, tp__bytes *text);
void tp__mcp_find_fini(tp__mcp_find *find);

#endif
