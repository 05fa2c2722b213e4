/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/since.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* mktime() and its like accept the 40th of a month: what was read must be what it becomes. */
static bool is_as_read(const struct tm *read, const struct tm *made) {
  return read->tm_mday == made->tm_mday && read->tm_mon == made->tm_mon && read->tm_hour == made->tm_hour &&
         read->tm_min == made->tm_min && read->tm_sec == made->tm_sec;
}

bool cli_since_read(const char *text, int64_t now_ms, int64_t *ret_unix_ms) {
  static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M",
                                      "%Y-%m-%d"};
  int64_t age_ms = 0;
  if (read_age(text, &age_ms)) {
    *ret_unix_ms = now_ms > age_ms ? now_ms - age_ms : 0;
    return true;
  }
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    struct tm read = {0};
    const char *end = strptime(text, forms[i], &read);
    if (end && *end == 'Z' && strchr(forms[i], 'H')) end++;
    if (!end || *end) continue;
    struct tm made = read;
    time_t seconds = timegm(&made);
    if (seconds < 0 || !is_as_read(&read, &made)) return false;
    *ret_unix_ms = (int64_t)seconds * 1000;
    return true;
  }
  return false;
}
