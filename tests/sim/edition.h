/* SPDX-License-Identifier: Apache-2.0
 *
 * edition: plans that change beneath running turns. Editors commit pairs of handlers, one half in each of two phases,
 * and take them out again; readers run both phases on turns that begin, run and end on whatever thread, and want to
 * see one version in each, neither older nor newer than what was committed around its begin. What they do is drawn
 * while they run, from the run's own stream. */
#ifndef SIM_EDITION_H
#define SIM_EDITION_H

#include "world.h"

enum { EDITION_PAIRS = 6, EDITION_TURNS = 3 }; /* of each editor; of each reader */

typedef struct edition_half {
  struct edition_pair *pair;
  bool quick, taken; /* the library has the handler */
  uint32_t destroys;
} edition_half;

/** Moments are numbers of the world's own; 0: not so. */
typedef struct edition_pair {
  world *w;
  char ids[2][8];
  edition_half halves[2];
  uint64_t add_asked, added, remove_asked, removed;
} edition_pair;

typedef struct edition_editor {
  world *w;
  edition_pair pairs[EDITION_PAIRS]; /* in the order in which they are added */
} edition_editor;

typedef struct edition_reader {
  world *w;
  tp__parker parker;
  tp_turn *turn;
  uint64_t begin_asked, begun;
  bool known;    /* whether every phase of the turn could be run */
  uint32_t runs; /* of phases of this turn that have ended */
  uint64_t seen; /* bit per pair of all editors: by the turn's first phase */
  bool ends_inside;
} edition_reader;

/** Before the run. */
void edition_name(edition_editor *editor, uint32_t index);
/** Both are hosts. arg: an editor or reader whose w is set; an editor is named, too. */
void edition_edit(void *arg);
void edition_read(void *arg);
/** When the run is over. */
void edition_ended(const edition_editor *editor);

#endif
