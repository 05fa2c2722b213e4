/* SPDX-License-Identifier: Apache-2.0
 *
 * page: the page of operators (page.html), which the build puts into this file, line by line. It has one style and one
 * script, and loads nothing from elsewhere. The policy has their hashes, so that a browser runs no others. */
#include <string.h>

#include "server/operator.h"
#include "support/access.h"
#include "support/base64.h"
#include "support/sha256.h"

static const char *const lines[] = {
#include "server/page_lines.h"
};

/* Adds "'sha256-…'" of the text between two tags; "'none'" when the tags are missing. */
static void put_hash(tp__bytes *policy, const char *page, const char *begin, const char *end) {
  const char *from = strstr(page, begin), *to = from ? strstr(from, end) : NULL;
  tp__sha256 hash;
  char hex[65], bytes[32];
  if (!to) {
    tp__bytes_put_string(policy, "'none'");
    return;
  }
  from += strlen(begin);
  tp__sha256_init(&hash);
  tp__sha256_add(&hash, from, (size_t)(to - from));
  tp__sha256_finish(&hash, hex);
  for (size_t i = 0; i < sizeof bytes; i++) {
    int value = 0;
    for (size_t k = 0; k < 2; k++) {
      char c = hex[2 * i + k];
      value = value << 4 | (c <= '9' ? c - '0' : c - 'a' + 10);
    }
    bytes[i] = (char)value;
  }
  tp__bytes_put_string(policy, "'sha256-");
  tp__bytes_put_base64(policy, (tp_text){bytes, sizeof bytes});
  tp__bytes_put(policy, "'", 1);
}

void tp__page_make(tp__bytes *page, tp__bytes *policy) {
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) tp__bytes_put_string(page, lines[i]);
  const char *text = tp__bytes_string(page);
  tp__bytes_put_string(policy,
                       "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
                       "form-action 'none'; frame-ancestors 'none'; script-src ");
  put_hash(policy, text, "<script>", "</script>");
  tp__bytes_put_string(policy, "; style-src ");
  put_hash(policy, text, "<style>", "</style>");
  (void)tp__bytes_string(policy);
}

void tp__page_answer(tp_server *server, tp__http_request *request) {
  const tp__http_field fields[] = {{"Content-Type", "text/html; charset=utf-8"},
                                   {"Content-Security-Policy", server->page_policy.data},
                                   {"Cache-Control", "no-store"},
                                   {"Referrer-Policy", "no-referrer"},
                                   {"X-Content-Type-Options", "nosniff"},
                                   {"X-Frame-Options", "DENY"},
                                   {NULL, NULL}};
  tp__refusal refusal;
  if (server->is_local && !tp__is_local_host(tp__http_header(request, "Host"))) {
    (void)tp__refusal_fill(&refusal, 403, "wrong_host", NULL, "this server answers to localhost and 127.0.0.1 only");
    tp__refusal_answer(&refusal, request);
    return;
  }
  tp__http_answer(request, 200, fields, tp__bytes_text(&server->page));
}
