/* SPDX-License-Identifier: Apache-2.0
 *
 * turnphase-webhook HOST: posts standard input to a URL as JSON, and prints the answer if its status is 2xx. It follows
 * no redirect, uses no proxy, and connects to no other host than the allowed one. The URL and headers are in its
 * environment (webhook.h). */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "domains/declared/webhook.h"
#include "support/secrets.h"

static int refuse_webhook(int status, const char *what, const char *why) {
  fprintf(stderr, "%s%s%s\n", what, why ? ": " : "", why ? why : "");
  return status;
}

static bool read_input(tp__bytes *b) {
  char piece[65536];
  for (size_t size; (size = fread(piece, 1, sizeof piece, stdin)) > 0;) tp__bytes_put(b, piece, size);
  return !b->failed && !ferror(stdin);
}

/* Anything but the size ends the transfer. */
static size_t collect_body(char *data, size_t one, size_t size, void *ctx) {
  tp__bytes *b = ctx;
  (void)one;
  if (b->size + size <= TP__WEBHOOK_ANSWER_MAX) tp__bytes_put(b, data, size);
  else b->failed = true;
  return b->failed ? 0 : size;
}

/* The allowed host is the one that turnphase read from the URL; libcurl must read the same host. */
static bool is_host(CURLU *url, const char *host) {
  char *found = NULL;
  bool is_same = curl_url_get(url, CURLUPART_HOST, &found, 0) == CURLUE_OK && strcasecmp(found, host) == 0;
  curl_free(found);
  return is_same;
}

static struct curl_slist *read_header_lines(void) {
  struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
  headers = curl_slist_append(headers, "Expect:");
  for (int i = 0; i < TP__WEBHOOK_HEADERS_MAX; i++) {
    char name[64];
    snprintf(name, sizeof name, TP__WEBHOOK_HEADER "%d", i);
    const char *line = getenv(name);
    if (!line) break;
    headers = curl_slist_append(headers, line);
  }
  return headers;
}

static void set_options(CURL *easy, CURLU *url, struct curl_slist *headers, const tp__bytes *input, tp__bytes *answer) {
  curl_easy_setopt(easy, CURLOPT_CURLU, url);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "turnphase");
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, input->data ? input->data : "");
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)input->size);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, collect_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
}

/* Of a redirect, only host and path are shown, because the rest may contain anything. */
static int refuse_http_status(CURL *easy, long status) {
  char what[64];
  char *to = NULL;
  tp__bytes shown = {0};
  curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &to);
  tp_text place = {to, to ? strlen(to) : 0};
  place.size = tp__url_place_size(place);
  tp__put_without(&shown, place, NULL);
  snprintf(what, sizeof what, to ? "HTTP status %ld, to" : "HTTP status %ld", status);
  int exit_status = refuse_webhook(TP__WEBHOOK_UNANSWERED, what, to ? tp__bytes_string(&shown) : NULL);
  tp__bytes_fini(&shown);
  return exit_status;
}

static int judge_transfer(CURL *easy, CURLcode code, const tp__bytes *answer) {
  long status = 0;
  curl_off_t connected_us = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
  if (code == CURLE_WRITE_ERROR) return refuse_webhook(TP__WEBHOOK_UNANSWERED, "the answer is longer than 1 MiB", NULL);
  if (code != CURLE_OK && connected_us == 0)
    return refuse_webhook(TP__WEBHOOK_UNREACHABLE, "no connection", curl_easy_strerror(code));
  if (code != CURLE_OK) return refuse_webhook(TP__WEBHOOK_UNANSWERED, "no whole answer", curl_easy_strerror(code));
  if (status < 200 || status > 299) return refuse_http_status(easy, status);
  if (fwrite(answer->data, 1, answer->size, stdout) != answer->size || fflush(stdout) != 0)
    return refuse_webhook(TP__WEBHOOK_UNANSWERED, "the answer could not be written", NULL);
  return 0;
}

static int post(const char *host, const char *text) {
  tp__bytes input = {0}, answer = {0};
  CURL *easy = curl_easy_init();
  CURLU *url = curl_url();
  struct curl_slist *headers = read_header_lines();
  int status;
  if (!easy || !url || !headers || !read_input(&input)) {
    status = refuse_webhook(TP__WEBHOOK_UNANSWERED, "no memory for the request", NULL);
  } else if (curl_url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK || !is_host(url, host)) {
    status = refuse_webhook(TP__WEBHOOK_UNREACHABLE, "the URL is not of the host that was allowed", host);
  } else {
    set_options(easy, url, headers, &input, &answer);
    status = judge_transfer(easy, curl_easy_perform(easy), &answer);
  }
  curl_slist_free_all(headers);
  curl_easy_cleanup(easy);
  curl_url_cleanup(url);
  tp__bytes_fini(&input);
  tp__bytes_fini(&answer);
  return status;
}

int main(int argc, char **argv) {
  const char *url = getenv(TP__WEBHOOK_URL);
  if (argc != 2 || !url) return refuse_webhook(2, "usage: " TP__WEBHOOK_URL "=URL turnphase-webhook HOST", NULL);
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return refuse_webhook(TP__WEBHOOK_UNREACHABLE, "libcurl cannot be used", NULL);
  int status = post(argv[1], url);
  curl_global_cleanup();
  return status;
}
