/* SPDX-License-Identifier: Apache-2.0
 *
 * find: which tools fit the words of a search, the best first. Words are compared with those of names, of descriptions,
 * and of the parameters in schemas and their descriptions. ASCII letters of either case are equal, and `createIssue` is
 * two words. A word that few tools have counts more. A whole name, with or without mcp__SERVER__, finds its tool before
 * any other. A search belongs to one thread; no lock. */
#ifndef TP__MCP_FIND_H
#define TP__MCP_FIND_H

#include "support/bytes.h"
#include "turnphase/tool.h"

#define TP__MCP_PREFIX "mcp__"

enum { TP__MCP_FIND_WORDS_MAX = 16 };

/** How well a tool fits. */
typedef struct tp__mcp_fit {
  const tp_tool *tool;                    /* borrowed from the run that searches */
  uint8_t levels[TP__MCP_FIND_WORDS_MAX]; /* for each word of the query how well it fits; 0: the tool does not have
                                             it */
  bool is_named;                          /* the query contains the tool's whole name */
  uint32_t score;
  size_t index;
} tp__mcp_fit;

typedef struct tp__mcp_find {
  size_t limit; /* set by the caller: the most tools that are found; >= 1 */
  tp_text query;
  tp_text words[TP__MCP_FIND_WORDS_MAX];
  size_t word_count;
  bool begins[256];    /* indexed by the first byte of a word, in small letters: set when a word of the query begins
                          with it */
  bool words_left_out; /* the query has more words than are kept */
  tp__mcp_fit *fits;
  size_t count, capacity;
  bool failed; /* an allocation failed */
} tp__mcp_find;

/** Reads the query, which is borrowed until tp__mcp_find_fini(). */
void tp__mcp_find_begin(tp__mcp_find *find, tp_text query);
/** Compares a tool with the query, and keeps it if it fits. */
void tp__mcp_find_take(tp__mcp_find *find, const tp_tool *tool);
/** Writes {"tools": [NAME, …]} as a value, and adds the text that a model reads. @return false without memory. */
bool tp__mcp_find_end(tp__mcp_find *find, tp_writer *writer, tp__bytes *text);
void tp__mcp_find_fini(tp__mcp_find *find);

#endif
