/* SPDX-License-Identifier: Apache-2.0
 *
 * limits: what a driven turn may use: requests, calls, tokens, cost, and how often it may make the same call. A limit
 * is looked at before each request and before the calls of each response, so a turn exceeds its tokens and its cost by
 * at most what one request uses. What a limit ends keeps its messages and results. It owns nothing beside the drive,
 * has no lock, and is called by the turn's owner. */
#ifndef TP__LIMITS_H
#define TP__LIMITS_H

#include "phases/drive/drive.h"

/** A call of the turn, as the limit of repeated calls knows it. */
struct tp__repeat {
  uint64_t hash; /* of the name and the arguments; the order of keys does not count */
  uint32_t count;
};

/** Before a request to the model, repeated ones too. @return false: a limit was reached and has stopped the turn. */
bool tp__limits_request(tp__drive *drive);
/** Before the calls of a response. @return false: as above; none of them is run. */
bool tp__limits_tools(tp__drive *drive);

/** A response of the turn was counted: counts it in the budgets of its session and of the day. */
void tp__limits_count(tp__drive *drive);

#endif
