/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/traces.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#ifdef CLI_WITH_TRACES
#include "turnphase/traces.h"

#define HEADERS "OTEL_EXPORTER_OTLP_HEADERS"
enum { HEADERS_MAX = 32 };

static void log_traces_line(void *ctx, const char *line) {
  (void)ctx;
  cli_error("%s", line);
}

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* In place. @return false: a % without two digits, or a character that no header has. */
static bool decode(char *text) {
  char *to = text;
  for (const char *at = text; *at; at++) {
    if (*at != '%') {
      *to++ = *at;
      continue;
    }
    int high = digit_of(at[1]), low = high < 0 ? -1 : digit_of(at[2]);
    if (low < 0 || high * 16 + low < ' ') return false;
    *to++ = (char)(high * 16 + low);
    at += 2;
  }
  *to = '\0';
  return true;
}

static char *trim(char *text) {
  text += strspn(text, " \t");
  for (size_t size = strlen(text); size > 0 && strchr(" \t", text[size - 1]); size--) text[size - 1] = '\0';
  return text;
}

/* "name=value,…" as "name: value" each; the value's own `=` stay. Nothing of it is shown: it may have a key.
 * @return false: it is none. */
static bool read_headers(char *list, char *headers[HEADERS_MAX + 1]) {
  size_t count = 0;
  for (char *item; (item = strsep(&list, ","));) {
    item = trim(item);
    if (!*item) continue;
    char *name = trim(strsep(&item, "="));
    if (!item || !*name || count == HEADERS_MAX || !decode(item)) return false;
    item = trim(item);
    size_t size = strlen(name) + strlen(item) + 3;
    headers[count] = cli_alloc(size);
    snprintf(headers[count++], size, "%s: %s", name, item);
  }
  return true;
}

static int open_with(tp_runtime *runtime, const cli_arguments *a, char *const *headers, tp_traces **ret_traces) {
  tp_fault fault = {0};
  const tp_traces_options options = {.struct_size = sizeof options,
                                     .url = a->traces,
                                     .headers = (const char *const *)headers,
                                     .service = getenv("OTEL_SERVICE_NAME"),
                                     .sampled_of_1000 = (int32_t)a->traces_sample,
                                     .slow_ms = a->traces_all ? -1 : 0,
                                     .log = log_traces_line};
  tp_status status = tp_traces_open(runtime, &options, ret_traces, &fault);
  return status == TP_OK ? CLI_OK : cli_fault("--traces", status, &fault);
}

int cli_traces_open(tp_runtime *runtime, const cli_arguments *a, tp_traces **ret_traces) {
  char *headers[HEADERS_MAX + 1] = {NULL};
  const char *list = getenv(HEADERS);
  *ret_traces = NULL;
  if (!a->traces) return CLI_OK;
  size_t size = list ? strlen(list) + 1 : 1;
  char *copy = cli_alloc(size);
  if (list) memcpy(copy, list, size);
  int status = read_headers(copy, headers) ? CLI_OK : CLI_CONFIG;
  if (status != CLI_OK) cli_error(HEADERS " is name=value, with commas between and at most %d of them", HEADERS_MAX);
  else status = open_with(runtime, a, headers, ret_traces);
  for (size_t i = 0; headers[i]; i++) {
    explicit_bzero(headers[i], strlen(headers[i]));
    free(headers[i]);
  }
  explicit_bzero(copy, size);
  free(copy);
  return status;
}

void cli_traces_begin(void *ctx, const tp_server_begin *begin) {
  tp_traces_begin(ctx, begin->ids, begin->id_count, begin->traceparent);
}

bool cli_traces_parent(void *ctx, const tp_text *ids, uint32_t id_count, char ret_text[56]) {
  return tp_traces_parent(ctx, ids, id_count, ret_text);
}

void cli_traces_close(tp_traces *traces, uint32_t limit_ms) {
  tp_traces_stats stats = {.struct_size = sizeof stats};
  tp_traces_close(traces, limit_ms, &stats);
  if (stats.dropped > 0) cli_error("traces: %" PRIu64 " spans were dropped", stats.dropped);
}

#else

int cli_traces_open(tp_runtime *runtime, const cli_arguments *a, tp_traces **ret_traces) {
  (void)runtime;
  *ret_traces = NULL;
  if (!a->traces) return CLI_OK;
  cli_error("--traces: this turnphase was built without turnphase-traces (libcurl)");
  return CLI_CONFIG;
}

void cli_traces_begin(void *ctx, const tp_server_begin *begin) { (void)ctx, (void)begin; }
bool cli_traces_parent(void *ctx, const tp_text *ids, uint32_t id_count, char ret_text[56]) {
  (void)ctx, (void)ids, (void)id_count;
  ret_text[0] = '\0';
  return false;
}

void cli_traces_close(tp_traces *traces, uint32_t limit_ms) { (void)traces, (void)limit_ms; }

#endif
