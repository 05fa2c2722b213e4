/* SPDX-License-Identifier: Apache-2.0
 *
 * turnphase.h: everything of the core library. */
#ifndef TURNPHASE_TURNPHASE_H
#define TURNPHASE_TURNPHASE_H

#include "turnphase/base.h"
#include "turnphase/handler.h"
#include "turnphase/inbox.h"
#include "turnphase/inspect.h"
#include "turnphase/model.h"
#include "turnphase/part.h"
#include "turnphase/people.h"
#include "turnphase/process.h"
#include "turnphase/runtime.h"
#include "turnphase/store.h"
#include "turnphase/task.h"
#include "turnphase/tool.h"
#include "turnphase/turn.h"
#include "turnphase/value.h"

#endif
