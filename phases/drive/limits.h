/* SPDX-License-Identifier: Apache-2.0
 *
 * limits: how much a driven turn may use: requests, calls, tokens, cost, and how often it may make the same call.
 * Limits are checked before each request and before the calls of each response. So a turn exceeds its limits of tokens
 * and cost by at most the use of one request. A turn that a limit ends keeps its messages and results. The module owns
 * no data except in the drive, has no lock, and is called by the turn's owner. */
#ifndef TP__LIMITS_H
#define TP__LIMITS_H

#include "phases/drive/drive.h"

/** A call of the turn, for the limit of repeated calls. */
struct tp__repeat {
  uint64_t hash; /* of the name and the arguments; the order of keys does not matter */
  uint32_t count;
};

/** Called before each request to the model, also before repeats. @return false: a limit was reached and has stopped the
 *  turn. */
bool tp__limits_request(tp__drive *drive);
/** Called before the calls of a response. @return false: a limit has stopped the turn, and none of the calls runs. */
bool tp__limits_tools(tp__drive *drive);

/** A response of the turn was counted: adds it to the budgets of its session and of the day. */
void tp__limits_count(tp__drive *drive);

#endif
