/* SPDX-License-Identifier: Apache-2.0
 *
 * status.c: the names, sentences and categories of status.def, the names of log levels, and the library's version. */
#include <stdio.h>

#include "runtime/base/base.h"

typedef struct status_row {
  tp_status status;
  const char *name, *category, *text;
} status_row;

static const status_row rows[] = {
    {TP_OK, "TP_OK", "ok", "success"},
#define TP_STATUS_ROW(name, number, category, text) {name, #name, category, text},
#include "turnphase/status.def"
#undef TP_STATUS_ROW
};

static const status_row unknown = {TP_ERR_INTERNAL, "TP_ERR_UNKNOWN", "internal", "a number that is no status"};

static const status_row *find_status_row(tp_status status) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (rows[i].status == status) return &rows[i];
  }
  return &unknown;
}

bool tp__status_is_known(tp_status status) { return find_status_row(status) != &unknown; }
const char *tp_status_name(tp_status status) { return find_status_row(status)->name; }
const char *tp_status_text(tp_status status) { return find_status_row(status)->text; }
const char *tp_status_category(tp_status status) { return find_status_row(status)->category; }

bool tp_status_is_transient(tp_status status) {
  switch ((int)status) {
    case TP_ERR_BUSY:
    case TP_ERR_NO_MEMORY:
    case TP_ERR_FULL:
    case TP_ERR_TIMEOUT:
    case TP_ERR_STORE_BUSY:
    case TP_ERR_STORE_FULL:
    case TP_ERR_STORE_READONLY:
    case TP_ERR_SYSTEM:
    case TP_ERR_NO_THREAD:
    case TP_ERR_IO:
    case TP_ERR_MODEL_UNAVAILABLE:
      return true;
    default:
      return false;
  }
}

char *tp_status_name_r(tp_status status, char *buffer, size_t size) {
  const char *name = tp_status_name(status);
  if (tp__status_is_known(status)) snprintf(buffer, size, "%s", name);
  else snprintf(buffer, size, "%s_%d", name, (int)status);
  return buffer;
}

const char *tp_log_level_name(tp_log_level level) {
  static const char *const names[] = {
      [TP_LOG_ERROR] = "error", [TP_LOG_WARNING] = "warning", [TP_LOG_INFO] = "info", [TP_LOG_DEBUG] = "debug"};
  return TP__NAME_AT(names, level, "unknown");
}

#define DIGITS(number) #number
#define DOTTED(major, minor, patch) DIGITS(major) "." DIGITS(minor) "." DIGITS(patch)
const char *tp_version(void) { return DOTTED(TP_VERSION_MAJOR, TP_VERSION_MINOR, TP_VERSION_PATCH); }
uint32_t tp_version_number(void) { return TP_VERSION_NUMBER; }

bool tp_feature(const char *name) {
  static const char *const features[] = {
#ifndef NDEBUG
      "assertions",
#endif
#ifdef TP_SIM
      "simulator",
#endif
      "inbox",
      NULL,
  };
  for (const char *const *feature = features; name && *feature; feature++) {
    if (strcmp(*feature, name) == 0) return true;
  }
  return false;
}
