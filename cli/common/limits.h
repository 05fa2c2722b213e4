/* SPDX-License-Identifier: Apache-2.0
 *
 * limits: how much the turns of run and chat may use: the limits of a turn, budgets, and the prices of models. Amounts
 * of money are decimal numbers in the user's currency, with at most six places, and are stored in millionths. Owns
 * nothing. */
#ifndef CLI_LIMITS_H
#define CLI_LIMITS_H

#include "cli/common/options.h"
#include "turnphase/turn.h"

/** Reads "0.25" or "3". @return false: it is no such amount, or it is too large. */
bool cli_money_read(tp_text text, int64_t *ret_micros);
/** Reads --budget WHICH=AMOUNT. @return NULL, or the error. */
const char *cli_budget_read(const char *given, cli_budgets *budgets);
/** Reads --price IN/OUT, or IN/OUT/CACHED: prices of a million tokens. @return NULL, or the error. */
const char *cli_price_read(const char *given, cli_price *ret_price);
/** Reads the map `limits` of an agent in YAML. @param ret_key  set when a key has an error.
 *  @return NULL, or the error. */
const char *cli_limits_read(tp_text map, cli_limits *ret_limits, tp_text *ret_key);

/** Fills the limits of a request. @param of_agent  these come first; NULL: the agent has none. */
void cli_limits_fill(const cli_limits *of_command, const cli_limits *of_agent, tp_turn_request *request);
/** A budget for the library. @return NULL: there is none. */
const tp_budget *cli_budget_fill(const cli_budget *given, tp_budget *budget);

#endif
