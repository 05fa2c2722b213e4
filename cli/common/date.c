/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/date.h"
#include "runtime/base/check.h"
#include "support/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/** The rest of the text; ok is false after the first error. */
typedef struct cursor {
  const char *at, *end;
  bool ok;
} cursor;

/* Exactly that many digits. */
static int digits(cursor *c, int count) {
  int number = 0;
  for (int i = 0; i < count; i++, c->at++) {
    c->ok = c->ok && c->at < c->end && *c->at >= '0' && *c->at <= '9';
    if (!c->ok) return 0;
    number = 10 * number + (*c->at - '0');
  }
  return number;
}

static bool skips(cursor *c, char sign) {
  if (c->at == c->end || *c->at != sign) return false;
  c->at++;
  return true;
}

static void need(cursor *c, char sign) { c->ok = c->ok && skips(c, sign); }

static int64_t read_day(cursor *c) {
  int year = digits(c, 4), month, day;
  need(c, '-');
  month = digits(c, 2);
  need(c, '-');
  day = digits(c, 2);
  struct tm tm = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
  int64_t unix_ms = (int64_t)timegm(&tm) * 1000;
  c->ok = c->ok && tm.tm_mon == month - 1 && tm.tm_mday == day; /* else it was another day by another name */
  return unix_ms;
}

/* A second of 60 is a leap second: the first of the next minute. */
static int64_t read_time(cursor *c) {
  int hour = digits(c, 2), minute, second = 0, ms = 0, scale = 100;
  need(c, ':');
  minute = digits(c, 2);
  if (skips(c, ':')) {
    second = digits(c, 2);
    if (skips(c, '.')) {
      ms = scale * digits(c, 1);
      for (; c->ok && c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) ms += (scale /= 10) * (*c->at - '0');
    }
  }
  c->ok = c->ok && hour < 24 && minute < 60 && second <= 60;
  return (INT64_C(60) * (60 * hour + minute) + second) * 1000 + ms;
}

/* How far local time is ahead of UTC. */
static int64_t read_zone(cursor *c) {
  if (skips(c, 'Z') || c->at == c->end) return 0;
  int sign = skips(c, '-') ? -1 : 1;
  if (sign > 0) need(c, '+');
  int hour = digits(c, 2);
  (void)skips(c, ':');
  int minute = digits(c, 2);
  c->ok = c->ok && hour < 24 && minute < 60;
  return INT64_C(60000) * sign * (60 * hour + minute);
}

bool cli_date_read(tp_text text, int64_t *ret_unix_ms) {
  assert(ret_unix_ms);
  cursor c = {text.data, text.size ? text.data + text.size : text.data, text.size > 0};
  int64_t unix_ms = read_day(&c);
  if (c.ok && c.at < c.end) {
    if (!skips(&c, ' ')) need(&c, 'T');
    unix_ms += read_time(&c);
    unix_ms -= read_zone(&c);
  }
  if (!c.ok || c.at < c.end) return false;
  *ret_unix_ms = unix_ms;
  return true;
}

static bool read_age(const char *text, int64_t *ret_ms) {
  static const struct {
    char name;
    int64_t ms;
  } units[] = {{'s', 1000}, {'m', 60000}, {'h', 3600000}, {'d', 86400000}};
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 9 || !text[digits] || text[digits + 1]) return false;
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (units[i].name != text[digits]) continue;
    *ret_ms = strtoll(text, NULL, 10) * units[i].ms;
    return true;
  }
  return false;
}

bool cli_date_read_since(const char *text, int64_t *ret_unix_ms) {
  int64_t age_ms, now_ms = tp__wall_ms();
  if (!read_age(text, &age_ms)) return cli_date_read(tp_text_of(text), ret_unix_ms) && *ret_unix_ms >= 0;
  *ret_unix_ms = now_ms > age_ms ? now_ms - age_ms : 0;
  return true;
}

void cli_date_write(int64_t unix_ms, char into[CLI_DATE_SIZE]) {
  time_t seconds = (time_t)(unix_ms / 1000 - (unix_ms % 1000 < 0)); /* rounded down */
  struct tm tm;
  into[0] = '\0';
  if (!gmtime_r(&seconds, &tm) || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900) return;
  snprintf(into, CLI_DATE_SIZE, "%04d-%02d-%02dT%02d:%02d:%02dZ", (tm.tm_year + 1900) % 10000, tm.tm_mon + 1,
           tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
}
