/* SPDX-License-Identifier: Apache-2.0
 *
 * commit workload: plans that change during turns. Editors commit pairs of handlers, one half in each of two phases,
 * and remove them again. Readers run both phases on turns that begin, run and end on any thread. They must see one
 * version in each turn, neither older nor newer than the commits around its beginning. The actions are drawn while they
 * run, from the run's own stream. */
#ifndef SIM_COMMIT_WORK_H
#define SIM_COMMIT_WORK_H

#include "world.h"

enum { COMMIT_WORK_PAIRS = 6, COMMIT_WORK_TURNS = 3 }; /* pairs of each editor; turns of each reader */

typedef struct commit_work_half {
  struct commit_work_pair *pair;
  bool is_inline, taken; /* the library has the handler */
  uint32_t destroys;
} commit_work_half;

/** Moments are numbers of the world's own; 0: not so. */
typedef struct commit_work_pair {
  world *w;
  char ids[2][8];
  commit_work_half halves[2];
  uint64_t add_asked, added, remove_asked, removed;
} commit_work_pair;

typedef struct commit_work_editor {
  world *w;
  commit_work_pair pairs[COMMIT_WORK_PAIRS]; /* in the order of their addition */
} commit_work_editor;

typedef struct commit_work_reader {
  world *w;
  tp__parker parker;
  tp_turn *turn;
  uint64_t begin_asked, begun;
  bool known;    /* whether every phase of the turn could be run */
  uint32_t runs; /* how many phases of this turn have ended */
  uint64_t seen; /* which pairs the turn's first phase has run: a bit for each pair of each editor */
  bool ends_inside;
} commit_work_reader;

/** Before the run. */
void commit_work_name(commit_work_editor *editor, uint32_t index);
/** Both are hosts. arg: an editor or reader whose w is set; an editor is named, too. */
void commit_work_edit(void *arg);
void commit_work_read(void *arg);
/** Checks an editor at the end of the run. */
void commit_work_ended(const commit_work_editor *editor);

#endif
