/* SPDX-License-Identifier: Apache-2.0
 *
 * print: what the printers of this module share. Text goes piece by piece to the caller's function. Nothing is
 * allocated and nothing is cut. */
#ifndef TP__PRINT_H
#define TP__PRINT_H

#include "runtime/plan/registry.h"

typedef struct tp__printer {
  tp_print_fn print;
  void *ctx;
} tp__printer;

void tp__print_text(const tp__printer *printer, const char *string);
/** For short texts: at most 255 bytes are printed. */
void tp__print_format(const tp__printer *printer, const char *format, ...) TP__PRINTF(2, 3);
/** Prints a JSON string, which is also a valid string of DOT. */
void tp__print_quoted(const tp__printer *printer, const char *string);

/** "5 s", "250 ms". */
enum { TP__DURATION_SIZE = 32 };
const char *tp__duration(int64_t ns, char *buffer);

/** Columns for people. Each column but the last is as wide as its widest cell, up to TP__CELL_SIZE. */
typedef struct tp__columns {
  const char *const *heads;
  uint32_t columns; /* the last one included */
  uint32_t rows;
  const void *ctx;
  /** @return the text of a cell, static or in buffer. */
  const char *(*cell)(const void *ctx, uint32_t row, uint32_t column, char *buffer, size_t size);
  /** Prints the last cell of a row and the gap before it, or nothing. */
  void (*last)(const void *ctx, uint32_t row, const char *gap, const tp__printer *printer);
} tp__columns;
enum { TP__TABLE_COLUMNS_MAX = 12, TP__CELL_SIZE = 160 };
void tp__print_columns(const tp__columns *table, const tp__printer *printer);

/** The content of one phase: its plan, followed by its disabled subscriptions. Rows are numbered over both. */
typedef struct tp__phase_view {
  tp__snapshot *snapshot;
  const tp_phase *row;
  uint32_t phase;
  const tp__plan *plan; /* NULL: nothing is enabled */
  const tp__members *members;
  uint32_t enabled, disabled; /* how many */
} tp__phase_view;
/** @return false when nothing is registered in the phase. */
bool tp__phase_view_of(tp__snapshot *snapshot, uint32_t phase, tp__phase_view *ret_view);
/** The position of a printer among the disabled subscriptions. Begins zero-filled. Rows in rising order are found at
 *  once. */
typedef struct tp__row_cursor {
  uint32_t row;
  size_t item; /* the one after the row's in the members; 0: no position yet */
  tp__node node;
} tp__row_cursor;
/** The node of a row. For a disabled subscription, it is the node that it would have; it lies in the cursor. */
const tp__node *tp__view_node(const tp__phase_view *view, uint32_t row, tp__row_cursor *cursor);
/** "DISABLED", "SWITCHED OFF", "DISABLED, SWITCHED OFF" or empty. */
const char *tp__node_state(const tp__phase_view *view, uint32_t row, const tp__node *node);

/** What made an edge: "requires", "after", "before", "sequential", "chain". edge indexes plan->edges. */
const char *tp__edge_kind(const tp__plan *plan, uint32_t from, uint32_t edge);

/** Writes compact JSON. Only keeps track of commas. */
typedef struct tp__json_printer {
  const tp__printer *printer;
  bool comma;
} tp__json_printer;
/** key NULL: an element of an array. */
void tp__print_open(tp__json_printer *json, const char *key, const char *bracket);
void tp__print_close(tp__json_printer *json, const char *bracket);
void tp__print_string(tp__json_printer *json, const char *key, const char *value); /* NULL gives null */
void tp__print_number(tp__json_printer *json, const char *key, int64_t value);
void tp__print_bool(tp__json_printer *json, const char *key, bool value);
void tp__print_hash(tp__json_printer *json, const char *key, uint64_t hash);

/** Each function prints the plans of the snapshot: of one phase, or of all phases (0). */
void tp__print_table(tp__snapshot *snapshot, uint32_t phase, const tp__printer *printer);
void tp__print_json(tp__snapshot *snapshot, uint32_t phase, const tp__printer *printer);
void tp__print_dot(tp__snapshot *snapshot, uint32_t phase, const tp__printer *printer);

#endif
