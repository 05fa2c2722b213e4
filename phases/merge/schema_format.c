/* SPDX-License-Identifier: Apache-2.0
 *
 * schema_format.c: the formats of JSON Schema that are checked (validation 2020-12, section 7.3). */
#include <arpa/inet.h>

#include "phases/merge/schema_fit.h"

static const struct {
  const char *name, *words;
} formats[] = {
    [TP__FORMAT_DATE] = {"date", "a date as in RFC 3339: 2026-02-28"},
    [TP__FORMAT_TIME] = {"time", "a time as in RFC 3339: 13:05:00Z"},
    [TP__FORMAT_DATE_TIME] = {"date-time", "a date-time as in RFC 3339: 2026-02-28T13:05:00Z"},
    [TP__FORMAT_IPV4] = {"ipv4", "an address of IPv4"},
    [TP__FORMAT_IPV6] = {"ipv6", "an address of IPv6"},
    [TP__FORMAT_UUID] = {"uuid", "a UUID as in RFC 4122"},
};
enum { FORMAT_COUNT = sizeof formats / sizeof *formats };

tp__schema_format tp__schema_format_of(tp_text name) {
  for (size_t i = 1; i < FORMAT_COUNT; i++)
    if (tp_text_is(name, formats[i].name)) return (tp__schema_format)i;
  return TP__FORMAT_NONE;
}

const char *tp__schema_format_words(tp__schema_format format) {
  TP__ASSERT(format > TP__FORMAT_NONE && (size_t)format < FORMAT_COUNT);
  return formats[format].words;
}

/* Reads exactly `count` digits. @return -1 when there are fewer. */
static int take_digits(tp_text *text, size_t count) {
  int number = 0;
  TP__ASSERT(count > 0 && count < 10);
  if (text->size < count) return -1;
  for (size_t i = 0; i < count; i++) {
    if (text->data[i] < '0' || text->data[i] > '9') return -1;
    number = 10 * number + (text->data[i] - '0');
  }
  *text = (tp_text){text->data + count, text->size - count};
  return number;
}

static bool take_char(tp_text *text, const char *any_of) {
  if (text->size == 0 || text->data[0] == '\0' || !strchr(any_of, text->data[0])) return false;
  *text = (tp_text){text->data + 1, text->size - 1};
  return true;
}

static bool take_date(tp_text *text) {
  static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int year = take_digits(text, 4);
  if (year < 0 || !take_char(text, "-")) return false;
  int month = take_digits(text, 2);
  if (month < 1 || month > 12 || !take_char(text, "-")) return false;
  bool is_leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  int day = take_digits(text, 2);
  return day >= 1 && day <= days[month - 1] + is_leap;
}

/* @param ret_minutes  east of Greenwich. */
static bool take_offset(tp_text *text, int *ret_minutes) {
  *ret_minutes = 0;
  if (take_char(text, "Zz")) return true;
  bool is_west = text->size > 0 && text->data[0] == '-';
  if (!take_char(text, "+-")) return false;
  int hour = take_digits(text, 2);
  if (hour < 0 || hour > 23 || !take_char(text, ":")) return false;
  int minute = take_digits(text, 2);
  *ret_minutes = (is_west ? -1 : 1) * (60 * hour + minute);
  return minute >= 0 && minute <= 59;
}

/* A leap second is the last second of a day in UTC. */
static bool take_time(tp_text *text) {
  int hour = take_digits(text, 2);
  if (hour < 0 || hour > 23 || !take_char(text, ":")) return false;
  int minute = take_digits(text, 2);
  if (minute < 0 || minute > 59 || !take_char(text, ":")) return false;
  int second = take_digits(text, 2), east;
  if (second < 0 || second > 60) return false;
  if (take_char(text, ".")) {
    if (take_digits(text, 1) < 0) return false;
    while (take_digits(text, 1) >= 0) {}
  }
  if (!take_offset(text, &east)) return false;
  return second < 60 || ((60 * hour + minute - east) % 1440 + 1440) % 1440 == 1439;
}

static bool is_address(int family, tp_text text) {
  char address[INET6_ADDRSTRLEN];
  unsigned char ignored[16];
  if (text.size >= sizeof address || memchr(text.data, 0, text.size)) return false;
  memcpy(address, text.data, text.size);
  address[text.size] = '\0';
  return inet_pton(family, address, ignored) == 1;
}

static bool is_uuid(tp_text text) {
  if (text.size != 36) return false;
  for (size_t i = 0; i < 36; i++) {
    bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    char c = text.data[i];
    bool is_hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (is_dash ? c != '-' : !is_hex) return false;
  }
  return true;
}

bool tp__schema_format_fits(tp__schema_format format, tp_text text) {
  switch (format) {
    case TP__FORMAT_DATE:
      return take_date(&text) && text.size == 0;
    case TP__FORMAT_TIME:
      return take_time(&text) && text.size == 0;
    case TP__FORMAT_DATE_TIME:
      return take_date(&text) && take_char(&text, "Tt") && take_time(&text) && text.size == 0;
    case TP__FORMAT_IPV4:
      return is_address(AF_INET, text);
    case TP__FORMAT_IPV6:
      return is_address(AF_INET6, text);
    case TP__FORMAT_UUID:
      return is_uuid(text);
    default:
      return true;
  }
}
