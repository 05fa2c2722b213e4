/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/limits.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/check.h"

enum { PLACES = 6, MICROS = 1000000 };

/* ---- numbers ---- */

static bool read_digits(const char *digits, size_t size, int64_t *ret_number) {
  int64_t number = 0;
  assert(digits || size == 0);
  for (size_t i = 0; i < size; i++) {
    if (digits[i] < '0' || digits[i] > '9' || number > (INT64_MAX - 9) / 10) return false;
    number = number * 10 + (digits[i] - '0');
  }
  *ret_number = number;
  return size > 0;
}

bool cli_money_read(tp_text text, int64_t *ret_micros) {
  const char *point = text.size > 0 ? memchr(text.data, '.', text.size) : NULL;
  size_t whole_size = point ? (size_t)(point - text.data) : text.size, places = point ? text.size - whole_size - 1 : 0;
  int64_t whole, part = 0;
  if (places > PLACES || (point && places == 0) || !read_digits(text.data, whole_size, &whole)) return false;
  if (places > 0 && !read_digits(point + 1, places, &part)) return false;
  for (size_t i = places; i < PLACES; i++) part *= 10;
  assert(whole >= 0 && part >= 0 && part < MICROS);
  if (whole > (INT64_MAX - part) / MICROS) return false;
  *ret_micros = whole * MICROS + part;
  return true;
}

/* ---- the options ---- */

const char *cli_budget_read(const char *given, cli_budgets *budgets) {
  static const char *const whose[] = {"session", "tenant", "day"};
  static const char *const what[] = {"requests", "tokens", "cost"};
  cli_budget *of[] = {&budgets->session, &budgets->tenant, &budgets->day};
  assert(given && budgets);
  const char *equals = strchr(given, '=');
  for (size_t i = 0; equals && i < 9; i++) {
    char name[32];
    cli_budget *budget = of[i / 3];
    int64_t *to[] = {&budget->requests, &budget->tokens, &budget->cost_micros};
    snprintf(name, sizeof name, "%s-%s", whose[i / 3], what[i % 3]);
    if (strlen(name) != (size_t)(equals - given) || strncmp(name, given, strlen(name)) != 0) continue;
    if (*to[i % 3] > 0) return "is given twice for this";
    tp_text amount = tp_text_of(equals + 1);
    bool ok = i % 3 == 2 ? cli_money_read(amount, to[i % 3]) : read_digits(amount.data, amount.size, to[i % 3]);
    if (ok && *to[i % 3] > 0) return NULL;
    return i % 3 == 2 ? "takes an amount above 0, such as 0.5" : "takes a whole number above 0";
  }
  return "is WHOSE-WHAT=AMOUNT: session, tenant or day, and requests, tokens or cost";
}

const char *cli_price_read(const char *given, cli_price *ret_price) {
  cli_price price = {0};
  int64_t *to[] = {&price.input_micros, &price.output_micros, &price.cached_micros};
  size_t count = 0;
  assert(given && ret_price);
  for (const char *at = given; count < 3; count++) {
    size_t size = strcspn(at, "/");
    if (!cli_money_read((tp_text){at, size}, to[count])) break;
    at += size;
    if (!*at++) {
      count++;
      *ret_price = price;
      if (count >= 2) return NULL;
      break;
    }
  }
  return "takes IN/OUT or IN/OUT/CACHED, prices of a million tokens, such as 3/15";
}

/* ---- the limits of an agent ---- */

static bool read_number(tp_text value, uint32_t *ret_number) {
  int64_t number = tp_value_int(value, 0);
  if (tp_value_kind_of(value) != TP_VALUE_INT || number < 1 || number > INT32_MAX) return false;
  *ret_number = (uint32_t)number;
  return true;
}

static bool read_cost(tp_text value, int64_t *ret_micros) {
  tp_value_kind kind = tp_value_kind_of(value);
  if (kind == TP_VALUE_TEXT) return cli_money_read(tp_value_text(value), ret_micros) && *ret_micros > 0;
  double amount = tp_value_double(value, 0);
  if ((kind != TP_VALUE_INT && kind != TP_VALUE_DOUBLE) || !(amount > 0) || !(amount < 1e12)) return false;
  *ret_micros = (int64_t)(amount * MICROS + 0.5);
  return *ret_micros > 0;
}

const char *cli_limits_read(tp_text map, cli_limits *ret_limits, tp_text *ret_key) {
  cli_limits *l = ret_limits;
  assert(l && ret_key);
  const struct {
    const char *key;
    uint32_t *to;
  } rows[] = {{"requests", &l->requests},
              {"tool_calls", &l->tool_calls},
              {"tokens", &l->tokens},
              {"time", &l->time_s},
              {"repeats", &l->repeats}};
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk);) {
    size_t i = 0;
    *ret_key = walk.key;
    if (tp_text_is(walk.key, "cost")) {
      if (!read_cost(walk.value, &l->cost_micros)) return "must be an amount above 0, such as 0.5";
      continue;
    }
    while (i < sizeof rows / sizeof *rows && !tp_text_is(walk.key, rows[i].key)) i++;
    if (i == sizeof rows / sizeof *rows)
      return "is no limit: there are requests, tool_calls, tokens, cost, time (seconds) and repeats";
    if (!read_number(walk.value, rows[i].to)) return "must be a whole number above 0";
  }
  return NULL;
}

/* ---- for the library ---- */

static uint32_t first_of(uint32_t of_agent, uint32_t of_command) { return of_agent ? of_agent : of_command; }

void cli_limits_fill(const cli_limits *of_command, const cli_limits *of_agent, tp_turn_request *request) {
  static const cli_limits none;
  const cli_limits *agent = of_agent ? of_agent : &none;
  assert(of_command && request);
  uint32_t time_s = first_of(agent->time_s, of_command->time_s);
  request->iterations_max = first_of(agent->requests, of_command->requests);
  request->tool_calls_max = first_of(agent->tool_calls, of_command->tool_calls);
  request->tokens_max = first_of(agent->tokens, of_command->tokens);
  request->cost_micros_max = agent->cost_micros ? agent->cost_micros : of_command->cost_micros;
  request->call_repeats_max = first_of(agent->repeats, of_command->repeats);
  request->limit_ms = time_s > UINT32_MAX / 1000 ? UINT32_MAX : time_s * 1000;
}

const tp_budget *cli_budget_fill(const cli_budget *given, tp_budget *budget) {
  assert(given && budget);
  *budget = (tp_budget){.struct_size = sizeof *budget,
                        .requests_max = given->requests,
                        .tokens_max = given->tokens,
                        .cost_micros_max = given->cost_micros};
  return given->requests || given->tokens || given->cost_micros ? budget : NULL;
}
