/* SPDX-License-Identifier: Apache-2.0
 *
 * edges.h: edges of subscriptions for tests: sub.after = EDGES(EDGE("a", false)). They live as long as the block. */
#ifndef TURNPHASE_TESTS_EDGES_H
#define TURNPHASE_TESTS_EDGES_H

#include "turnphase/handler.h"

#define EDGE_TO(id, may_lack) \
  { .struct_size = sizeof(tp_edge), .target = (id), .optional = (may_lack) }
#define EDGE(id, may_lack) (&(const tp_edge)EDGE_TO(id, may_lack))
#define EDGES(...) ((const tp_edge *const[]){__VA_ARGS__})

#endif
