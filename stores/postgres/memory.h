/* SPDX-License-Identifier: Apache-2.0
 *
 * memory: the store of memories in a database: its class of works, which the pool calls. */
#ifndef TP__POSTGRES_MEMORY_H
#define TP__POSTGRES_MEMORY_H

#include "stores/postgres/request.h"

/** Works that keep memories: their scopes are locked in one order before any of them takes an id. */
extern const tp__pg_class tp__pg_memory_class;

#endif
