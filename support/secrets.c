/* SPDX-License-Identifier: Apache-2.0 */
#include "support/secrets.h"

#include <string.h>
#include <strings.h>

#include "runtime/base/check.h"

enum { SECRET_SIZE_MIN = 4 };

static const char hidden[] = "[key]";

/* ---- the list ---- */

void tp__secrets_add(tp__secrets *secrets, tp_text text) {
  assert(secrets && secrets->count <= secrets->capacity);
  if (text.size < SECRET_SIZE_MIN || memchr(text.data, '\0', text.size)) return;
  char *copy = tp__grow(tp__heap, (void **)&secrets->items, &secrets->capacity, secrets->count + 1, sizeof copy)
                   ? tp__heap_copy(text)
                   : NULL;
  if (!copy) secrets->failed = true;
  else secrets->items[secrets->count++] = copy;
}

void tp__secrets_fini(tp__secrets *secrets) {
  assert(secrets && secrets->count <= secrets->capacity);
  for (size_t i = 0; i < secrets->count; i++) {
    size_t size = strlen(secrets->items[i]) + 1;
    explicit_bzero(secrets->items[i], size);
    tp__heap_free(secrets->items[i], size);
  }
  tp__heap_free(secrets->items, secrets->capacity * sizeof *secrets->items);
  *secrets = (tp__secrets){0};
}

static bool is_one_of_names(tp_text name, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (name.size == strlen(names[i]) && strncasecmp(name.data, names[i], name.size) == 0) return true;
  return false;
}

void tp__secrets_add_header(tp__secrets *secrets, tp_text name, tp_text value) {
  /* Errors of endpoints quote the values of these headers, and hiding them would protect nothing. */
  static const char *const plain[] = {"anthropic-version", "anthropic-beta", "openai-beta", "accept-language",
                                      "user-agent",        "http-referer",   "x-title"};
  if (is_one_of_names(name, plain, sizeof plain / sizeof *plain)) return;
  tp__secrets_add(secrets, value);
  const char *blank = value.size > 0 ? memchr(value.data, ' ', value.size) : NULL;
  if (blank) tp__secrets_add(secrets, (tp_text){blank + 1, value.size - (size_t)(blank + 1 - value.data)});
}

/* ---- URLs ---- */

static int hex_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = (char)(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Adds a part as it is written, and as an endpoint decodes it. */
static void add_part(tp__secrets *secrets, tp_text part) {
  tp__bytes plain = {0};
  tp__secrets_add(secrets, part);
  if (part.size == 0 || !memchr(part.data, '%', part.size)) return;
  for (size_t i = 0; i < part.size; i++) {
    int high = i + 2 < part.size && part.data[i] == '%' ? hex_of(part.data[i + 1]) : -1;
    int low = high >= 0 ? hex_of(part.data[i + 2]) : -1;
    char c = low >= 0 ? (char)(high << 4 | low) : part.data[i];
    tp__bytes_put(&plain, &c, 1);
    if (low >= 0) i += 2;
  }
  if (plain.failed) secrets->failed = true;
  else tp__secrets_add(secrets, tp__bytes_text(&plain));
  if (plain.data) explicit_bzero(plain.data, plain.size);
  tp__bytes_fini(&plain);
}

static void add_pair(tp__secrets *secrets, tp_text pair) {
  static const char *const plain[] = {"api-version"};
  const char *sign = pair.size > 0 ? memchr(pair.data, '=', pair.size) : NULL;
  tp_text name = {pair.data, sign ? (size_t)(sign - pair.data) : 0};
  if (sign && is_one_of_names(name, plain, sizeof plain / sizeof *plain)) return;
  add_part(secrets, sign ? (tp_text){sign + 1, pair.size - name.size - 1} : pair);
}

/* Whether a byte ends a URL in a text. */
static bool ends_url(char c) { return (unsigned char)c <= ' ' || c == 0x7f || strchr("\"'`<>", c); }

/* A user and password before the host of a URL; the text begins after "://". A password with / ? or # in it is
 * malformed, but people write such passwords. So the credentials end at the last @ of the URL's first part that has an
 * @.
 * @return its size without the @; 0: there is none. */
static size_t credentials_size(tp_text rest) {
  size_t size = 0, end = 0;
  while (end < rest.size && !ends_url(rest.data[end])) end++;
  size_t host_end = 0;
  while (host_end < end && !strchr("/?#", rest.data[host_end])) host_end++;
  for (size_t i = 0; i < host_end; i++)
    if (rest.data[i] == '@') size = i;
  if (size > 0) return size;
  /* "user:pa/ss@host": the text after the colon is no port. */
  const char *colon = host_end > 0 ? memchr(rest.data, ':', host_end) : NULL;
  bool is_port = true;
  for (const char *at = colon ? colon + 1 : NULL; at && at < rest.data + host_end; at++)
    is_port = is_port && *at >= '0' && *at <= '9';
  for (size_t i = host_end; !is_port && rest.data[0] != '[' && i < end; i++)
    if (rest.data[i] == '@') size = i;
  return size;
}

size_t tp__url_place_size(tp_text url) {
  size_t size = 0;
  while (size < url.size && !strchr("?#", url.data[size]) && !ends_url(url.data[size])) size++;
  return size;
}

/* @return the beginning of the text after the next "://"; NULL: there is none. */
static const char *after_scheme(tp_text text) {
  const char *at = text.size > 0 ? memmem(text.data, text.size, "://", 3) : NULL;
  return at ? at + 3 : NULL;
}

void tp__secrets_add_url(tp__secrets *secrets, tp_text url) {
  if (url.size == 0) return;
  const char *rest = after_scheme(url);
  if (!rest) rest = url.data;
  size_t size = credentials_size((tp_text){rest, url.size - (size_t)(rest - url.data)});
  const char *colon = size > 0 ? memchr(rest, ':', size) : NULL;
  if (colon) add_part(secrets, (tp_text){colon + 1, size - (size_t)(colon + 1 - rest)});
  else if (size > 0) add_part(secrets, (tp_text){rest, size});
  const char *query = memchr(url.data, '?', url.size), *end = url.data + url.size;
  while (query && query < end) {
    const char *next = memchr(query + 1, '&', (size_t)(end - query - 1));
    if (!next) next = end;
    add_pair(secrets, (tp_text){query + 1, (size_t)(next - query - 1)});
    query = next;
  }
}

/* ---- texts ---- */

/* @return the size of the longest secret with which the text begins; 0: none. */
static size_t secret_size(tp_text text, const tp__secrets *secrets) {
  size_t longest = 0;
  for (size_t i = 0; secrets && i < secrets->count; i++) {
    const char *secret = secrets->items[i];
    if (text.data[0] != secret[0]) continue;
    size_t size = strlen(secret);
    if (size > longest && size <= text.size && memcmp(text.data, secret, size) == 0) longest = size;
  }
  return longest;
}

void tp__put_without(tp__bytes *bytes, tp_text text, const tp__secrets *secrets) {
  assert(bytes && (text.data || text.size == 0));
  if (text.size == 0) return;
  const char *end = text.data + text.size, *url = after_scheme(text);
  size_t from = 0;
  for (size_t at = 0; at < text.size;) {
    tp_text rest = {text.data + at, text.size - at};
    size_t size = secret_size(rest, secrets);
    if (url == rest.data) {
      size_t own = credentials_size(rest);
      if (own > size) size = own;
    }
    if (size == 0) {
      at++;
    } else {
      tp__bytes_put(bytes, text.data + from, at - from);
      tp__bytes_put_string(bytes, hidden);
      from = at += size;
    }
    if (url && url < text.data + at) url = after_scheme((tp_text){text.data + at, (size_t)(end - text.data) - at});
  }
  if (from < text.size) tp__bytes_put(bytes, text.data + from, text.size - from);
}
