/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "runtime/base/check.h"
#include "support/file.h"

enum {
  CONNECT_MS = 10000,
  FIRST_BYTE_MS = 120000,
  IDLE_MS = 60000,
  TOTAL_MS = 600000,
  RETRY_WAIT_MS = 500,
  RETRY_AFTER_MS_MAX = 60000,
  RESPONSE_BYTES_MAX = 16 << 20,
  RESPONSE_BYTES_LIMIT = 64 << 20,
  KEY_BYTES_MAX = 8192,
  RECEIVE_BYTES = 2 << 10, /* that a transfer uses while it is open; a piece of an answer has about 300 */
  PRICES_MAX = 10000
};

static tp_status refuse_config_memory(tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a model");
}

static tp_status usage(tp_fault *fault, const char *option, const char *what) {
  return tp__refuse(fault, TP_ERR_USAGE, option, "tp_openai_options.%s: %s", option, what);
}

/* ---- the struct ---- */

/* @param what  cannot be done with it. */
static tp_status read_struct(void *ours, size_t our_size, const void *theirs, const char *name, tp_fault *fault) {
  if (!theirs) return tp__refuse(fault, TP_ERR_USAGE, NULL, "a pointer to %s is NULL", name);
  return tp__struct_read(ours, our_size, theirs, name, fault);
}

static tp_status refuse_io(tp_fault *fault, const char *option, const char *path, int error, const char *what) {
  return tp__refuse_errno(fault, TP_ERR_IO, path, error, "tp_openai_options.%s: %s%s", option, path, what);
}

static bool copy_string(char **to, const char *string) {
  if (string) *to = tp__heap_copy(tp_text_of(string));
  return !string || *to;
}

/* ---- the key ---- */

/* What may stand in a header. */
static bool is_key(const char *key) {
  size_t size = strlen(key);
  for (size_t i = 0; i < size; i++)
    if ((unsigned char)key[i] <= 0x20 || (unsigned char)key[i] >= 0x7f) return false;
  return size > 0;
}

static tp_status take_checked_key(tp__openai_config *config, const char *option, const char *from, const char *key,
                                  tp_fault *fault) {
  if (!is_key(key))
    return tp__refuse(fault, TP_ERR_USAGE, from,
                      "tp_openai_options.%s: the key in %s is empty, or has white space "
                      "or characters that are not ASCII in it",
                      option, from);
  return copy_string(&config->key, key) ? TP_OK : refuse_config_memory(fault);
}

static tp_status read_key_env(tp__openai_config *config, const char *name, tp_fault *fault) {
  const char *key = getenv(name);
  if (!key)
    return tp__refuse(fault, TP_ERR_NOT_FOUND, name,
                      "tp_openai_options.key_env: %s is not set in the environment: export it with the key", name);
  return take_checked_key(config, "key_env", name, key, fault);
}

static tp_status check_key_file(const struct stat *found, const char *path, tp_fault *fault) {
  if (found->st_mode & 077)
    return tp__refuse(fault, TP_ERR_USAGE, path,
                      "tp_openai_options.key_file: %s has mode %04o, so others than its owner may use the key: "
                      "chmod 600 it",
                      path, (unsigned)found->st_mode & 07777);
  if (found->st_uid != geteuid() && found->st_uid != 0)
    return tp__refuse(fault, TP_ERR_USAGE, path, "tp_openai_options.key_file: %s belongs to another user (%u)", path,
                      (unsigned)found->st_uid);
  return TP_OK;
}

static tp_status open_key_file(const char *path, int *ret_fd, tp_fault *fault) {
  struct stat found;
  int fd = tp__file_open(AT_FDCWD, path, &found);
  if (fd == -EISDIR || fd == -ENOTSUP)
    return tp__refuse(fault, TP_ERR_USAGE, path, "tp_openai_options.key_file: %s is not a regular file", path);
  if (fd < 0) return refuse_io(fault, "key_file", path, -fd, " cannot be opened");
  tp_status status = check_key_file(&found, path, fault);
  if (status == TP_OK) *ret_fd = fd;
  else close(fd);
  return status;
}

/* Reads into a buffer that is overwritten afterwards; a growing buffer would leave copies of the key. */
static tp_status read_key_file(tp__openai_config *config, const char *path, tp_fault *fault) {
  char key[KEY_BYTES_MAX + 2];
  size_t size = 0;
  int fd = -1;
  tp_status status = open_key_file(path, &fd, fault);
  if (status != TP_OK) return status;
  for (ssize_t got = 1; status == TP_OK && got != 0 && size < sizeof key - 1;) {
    got = read(fd, key + size, sizeof key - 1 - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = refuse_io(fault, "key_file", path, errno, " cannot be read");
    else size += (size_t)got;
    if (got < 0) break;
  }
  close(fd);
  if (status == TP_OK && size > KEY_BYTES_MAX)
    status = tp__refuse(fault, TP_ERR_TOO_LARGE, path, "tp_openai_options.key_file: %s has more than %d bytes", path,
                        KEY_BYTES_MAX);
  while (size > 0 && strchr(" \t\r\n", key[size - 1]) && key[size - 1]) size--;
  key[size] = '\0';
  if (status == TP_OK && strlen(key) != size) key[0] = '\0'; /* a NUL in it: no key */
  if (status == TP_OK) status = take_checked_key(config, "key_file", path, key, fault);
  explicit_bzero(key, sizeof key);
  return status;
}

static tp_status read_key_option(tp__openai_config *config, const tp_openai_options *options, tp_fault *fault) {
  if (options->key_env && options->key_file)
    return usage(fault, "key_file", "it is set beside key_env: set one of them");
  if (options->key_file) return read_key_file(config, options->key_file, fault);
  if (options->key_env) return read_key_env(config, options->key_env, fault);
  return options->base_url ? TP_OK : read_key_env(config, config->form->key_env, fault);
}

/* ---- the URL ---- */

static bool has_any(const char *text, const char *characters) {
  for (; *text; text++)
    if ((unsigned char)*text <= 0x20 || *text == 0x7f || strchr(characters, *text)) return true;
  return false;
}

/* NULL without a scheme that is ours. */
static const char *behind_scheme(const char *url) {
  if (strncasecmp(url, "https://", 8) == 0) return url + 8;
  return strncasecmp(url, "http://", 7) == 0 ? url + 7 : NULL;
}

static tp_status make_url(tp__openai_config *config, const char *given, tp_fault *fault) {
  const char *base = given ? given : config->form->base_url;
  const char *host = behind_scheme(base);
  if (!host) return usage(fault, "base_url", "it must begin with https:// or http://");
  size_t host_size = strcspn(host, "/?"), size = strcspn(base, "?"), least = (size_t)(host - base) + host_size;
  const char *query = base + size; /* stays at the end: ?api-version=… */
  if (host_size == 0) return usage(fault, "base_url", "it names no host");
  if (has_any(base, "#\\")) return usage(fault, "base_url", "it must have no white space, # or \\ in it");
  if (memchr(host, '@', host_size))
    return usage(fault, "base_url", "it must have no user or password in it: use key_env");
  while (size > least && base[size - 1] == '/') size--;
  size_t url_size = size + strlen(config->form->path) + strlen(query) + 1;
  config->url = tp__heap_alloc(url_size);
  if (!config->url) return refuse_config_memory(fault);
  snprintf(config->url, url_size, "%.*s%s%s", (int)size, base, config->form->path, query);
  config->place = tp__heap_copy((tp_text){host, host_size});
  return config->place ? TP_OK : refuse_config_memory(fault);
}

tp_status tp__openai_embeddings_url(tp__openai_config *config, tp_fault *fault) {
  assert(config->url);
  static const char path[] = "/embeddings";
  const char *query = config->url + strcspn(config->url, "?");
  size_t base = (size_t)(query - config->url) - strlen(config->form->path), size = base + strlen(query) + sizeof path;
  char *url = tp__heap_alloc(size);
  if (!url) return refuse_config_memory(fault);
  snprintf(url, size, "%.*s%s%s", (int)base, config->url, path, query);
  tp__heap_string_free(config->url);
  config->url = url;
  return TP_OK;
}

/* ---- headers ---- */

static bool is_token(tp_text name) {
  for (size_t i = 0; i < name.size; i++) {
    char c = name.data[i];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c))) return false;
  }
  return name.size > 0;
}

/* No control characters, because a line end would begin another header. */
static bool is_header_value(tp_text value) {
  for (size_t i = 0; i < value.size; i++)
    if (((unsigned char)value.data[i] < 0x20 && value.data[i] != '\t') || value.data[i] == 0x7f) return false;
  return true;
}

static bool same_name(tp_text name, const char *other) {
  return name.size == strlen(other) && strncasecmp(name.data, other, name.size) == 0;
}

/* Whether the request itself sets this header: its form, and its key. */
static bool is_ours(const tp__openai_config *config, tp_text name, const char *key_header) {
  static const char *const ours[] = {"host",   "content-length", "transfer-encoding", "content-type", "connection",
                                     "expect", "accept",         "accept-encoding"};
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
    if (same_name(name, ours[i])) return true;
  return config->key && same_name(name, key_header);
}

static tp_status add_header(tp__openai_config *config, const char *name, size_t name_size, const char *prefix,
                            tp_text value, tp_fault *fault) {
  tp__bytes line = {0};
  tp__bytes_put(&line, name, name_size);
  tp__bytes_put_string(&line, value.size > 0 || *prefix ? ": " : ";"); /* libcurl's way to send an empty one */
  tp__bytes_put_string(&line, prefix);
  tp__bytes_put_text(&line, value);
  const char *text = tp__bytes_string(&line);
  struct curl_slist *grown = line.failed ? NULL : curl_slist_append(config->headers, text);
  if (grown) config->headers = grown;
  if (line.data) explicit_bzero(line.data, line.size);
  tp__bytes_fini(&line);
  return grown ? TP_OK : refuse_config_memory(fault);
}

static tp_status add_header_line(tp__openai_config *config, const char *line, tp_fault *fault) {
  struct curl_slist *grown = curl_slist_append(config->headers, line);
  if (!grown) return refuse_config_memory(fault);
  config->headers = grown;
  return TP_OK;
}

static tp_status check_map(tp_text value, const char *option, tp_fault *fault) {
  tp_fault why = {.code = TP_OK};
  if (value.size == 0) return TP_OK;
  tp_status status = tp_value_check(value, &why);
  if (status != TP_OK) return tp__refuse(fault, status, option, "tp_openai_options.%s: %s", option, why.message);
  return tp_value_kind_of(value) == TP_VALUE_MAP ? TP_OK : usage(fault, option, "it must be a map");
}

static tp_status take_headers(tp__openai_config *config, const tp_openai_options *options, tp_fault *fault) {
  const char *key_header = options->key_header ? options->key_header : config->form->key_header;
  const char *key_prefix = options->key_header ? "" : config->form->key_prefix;
  tp_status status = check_map(options->headers, "headers", fault);
  if (status == TP_OK && !is_token(tp_text_of(key_header)))
    return usage(fault, "key_header", "it is no name of a header");
  if (status == TP_OK) status = add_header_line(config, "Content-Type: application/json", fault);
  if (status == TP_OK) status = add_header_line(config, "Expect:", fault); /* large requests do not wait for a 100 */
  if (status == TP_OK)
    status = add_header_line(
        config, options->no_stream ? "Accept: application/json" : "Accept: text/event-stream, application/json", fault);
  if (status == TP_OK && config->form->header) status = add_header_line(config, config->form->header, fault);
  if (status == TP_OK && config->key)
    status = add_header(config, key_header, strlen(key_header), key_prefix, tp_text_of(config->key), fault);
  for (tp_value_walk walk = {0}; status == TP_OK && tp_value_next(options->headers, &walk);) {
    tp_text value = tp_value_text(walk.value);
    if (!is_token(walk.key)) return usage(fault, "headers", "a key of the map is no name of a header");
    if (tp_value_kind_of(walk.value) != TP_VALUE_TEXT || !is_header_value(value))
      return usage(fault, "headers", "each value must be text without control characters");
    if (is_ours(config, walk.key, key_header))
      return usage(fault, "headers",
                   "Host, Content-Type, Accept, the key's header and their like are set by the library");
    status = add_header(config, walk.key.data, walk.key.size, "", value, fault);
    tp__secrets_add_header(&config->secrets, walk.key, value);
  }
  return status;
}

/* ---- body, prices, limits ---- */

bool tp__openai_is_fixed(tp_text field) {
  static const char *const fixed[] = {"model", "messages", "input", "instructions", "system", "tools", "stream"};
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
    if (tp__is_word(field, fixed[i])) return true;
  return false;
}

static tp_status take_body(tp__openai_config *config, tp_text body, tp_fault *fault) {
  tp_status status = check_map(body, "body", fault);
  if (status != TP_OK || body.size == 0) return status;
  for (tp_value_walk walk = {0}; tp_value_next(body, &walk);)
    if (tp__openai_is_fixed(walk.key))
      return usage(fault, "body", "model, messages, input, instructions, system, tools and stream are the request's");
  config->body = tp__heap_copy(body);
  config->body_size = body.size;
  return config->body ? TP_OK : refuse_config_memory(fault);
}

static tp_status take_prices(tp__openai_config *config, const tp_openai_options *options, tp_fault *fault) {
  if (options->price_count == 0) return TP_OK;
  if (!options->prices) return usage(fault, "prices", "it is NULL, but price_count is not 0");
  if (options->price_count > PRICES_MAX) return usage(fault, "prices", "there may be 10,000");
  config->prices = tp__heap_alloc(options->price_count * sizeof *config->prices);
  if (!config->prices) return refuse_config_memory(fault);
  config->price_count = options->price_count;
  for (size_t i = 0; i < options->price_count; i++) {
    tp_openai_price price;
    tp__openai_price_row *row = &config->prices[i];
    tp_status status = read_struct(&price, sizeof price, options->prices[i], "tp_openai_price", fault);
    if (status != TP_OK) return status;
    if (price.input_micros < 0 || price.output_micros < 0 || price.cache_read_micros < 0 ||
        price.cache_write_micros < 0)
      return usage(fault, "prices", "a price must not be negative");
    *row =
        (tp__openai_price_row){.input = price.input_micros,
                               .output = price.output_micros,
                               .cache_read = price.cache_read_micros ? price.cache_read_micros : price.input_micros,
                               .cache_write = price.cache_write_micros ? price.cache_write_micros : price.input_micros};
    if (!copy_string(&row->model, price.model)) return refuse_config_memory(fault);
  }
  return TP_OK;
}

static uint32_t or_default(uint32_t number, uint32_t otherwise) { return number ? number : otherwise; }

static tp_status take_inputs(tp__openai_config *config, uint32_t inputs, tp_fault *fault) {
  const uint32_t known = TP_OPENAI_INPUT_TEXT | TP_OPENAI_INPUT_IMAGES | TP_OPENAI_INPUT_AUDIO | TP_OPENAI_INPUT_FILES;
  if (inputs & ~known) return usage(fault, "inputs", "it has a bit that is no TP_OPENAI_INPUT_*");
  if (inputs == 0) inputs = TP_OPENAI_INPUT_IMAGES | TP_OPENAI_INPUT_FILES;
  config->kinds = (inputs & TP_OPENAI_INPUT_IMAGES ? 1u << TP_PART_IMAGE : 0) |
                  (inputs & TP_OPENAI_INPUT_AUDIO ? 1u << TP_PART_AUDIO : 0) |
                  (inputs & TP_OPENAI_INPUT_FILES ? 1u << TP_PART_FILE : 0);
  return TP_OK;
}

static tp_status take_quirks(tp__openai_config *config, uint64_t quirks, tp_fault *fault) {
  const uint64_t known = TP_OPENAI_QUIRK_THINK_TAGS | TP_OPENAI_QUIRK_THINK_FIRST | TP_OPENAI_QUIRK_CUMULATIVE;
  if (quirks & ~known) return usage(fault, "quirks", "it has a bit that is no TP_OPENAI_QUIRK_*");
  config->quirks = quirks;
  return TP_OK;
}

static tp_status take_limits(tp__openai_config *config, const tp_openai_options *options, tp_fault *fault) {
  config->connect_ms = or_default(options->connect_ms, CONNECT_MS);
  config->first_byte_ms = or_default(options->first_byte_ms, FIRST_BYTE_MS);
  config->idle_ms = or_default(options->idle_ms, IDLE_MS);
  config->total_ms = or_default(options->total_ms, TOTAL_MS);
  config->retry_wait_ms = or_default(options->retry_wait_ms, RETRY_WAIT_MS);
  config->retry_after_ms_max = or_default(options->retry_after_ms_max, RETRY_AFTER_MS_MAX);
  config->response_bytes_max = or_default(options->response_bytes_max, RESPONSE_BYTES_MAX);
  config->requests_per_minute = options->requests_per_minute;
  config->tokens_per_minute = options->tokens_per_minute;
  config->no_stream = options->no_stream;
  config->http1 = options->http1;
  config->no_tools = options->no_tools;
  if (config->connect_ms > INT32_MAX) return usage(fault, "connect_ms", "it must be at most 2,147,483,647");
  if (config->response_bytes_max <= RESPONSE_BYTES_LIMIT) return TP_OK;
  return usage(fault, "response_bytes_max", "it must be at most 67,108,864 (64 MiB)");
}

static tp_status open_directory(tp__openai_config *config, const char *path, tp_fault *fault) {
  if (!path) return TP_OK;
  config->files_directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (config->files_directory >= 0) return TP_OK;
  return refuse_io(fault, "files_directory", path, errno, "");
}

static tp_status check_ca_file(const char *path, tp_fault *fault) {
  if (!path || access(path, R_OK) == 0) return TP_OK;
  return refuse_io(fault, "ca_file", path, errno, "");
}

static bool is_zero(const uint8_t *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (bytes[i]) return false;
  return true;
}

/* Last: the list does not change any more. */
static tp_status note_secrets(tp__openai_config *config, const tp_openai_options *options, tp_fault *fault) {
  assert(config->url && config->secrets.count <= config->secrets.capacity);
  if (config->key) tp__secrets_add(&config->secrets, tp_text_of(config->key));
  if (options->base_url) tp__secrets_add_url(&config->secrets, tp_text_of(options->base_url));
  if (options->proxy) tp__secrets_add_url(&config->secrets, tp_text_of(options->proxy));
  else {
    /* libcurl reads these when options.proxy is NULL, and quotes a value that it cannot use. */
    static const char *const names[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
      const char *proxy = getenv(names[i]);
      if (proxy) tp__secrets_add_url(&config->secrets, tp_text_of(proxy));
    }
  }
  return config->secrets.failed ? refuse_config_memory(fault) : TP_OK;
}

tp_status tp__openai_config_init(tp__openai_config *config, const tp_openai_options *given, tp_fault *fault) {
  assert(!config->form && !config->url); /* zero-filled */
  tp_openai_options options;
  config->files_directory = -1;
  tp_status status = read_struct(&options, sizeof options, given, "tp_openai_options", fault);
  if (status != TP_OK) return status;
  config->form = tp__openai_form_of(options.api);
  if (!config->form) return usage(fault, "api", "it is none of TP_OPENAI_CHAT, _RESPONSES and _MESSAGES");
  if (!is_zero(options.reserved_, sizeof options.reserved_)) return usage(fault, "reserved_", "it must be zero");
  if (options.model && (!*options.model || !tp_utf8_valid(tp_text_of(options.model), NULL)))
    return usage(fault, "model", "it must be UTF-8 and not empty");
  status = make_url(config, options.base_url, fault);
  if (status == TP_OK) status = take_limits(config, &options, fault);
  if (status == TP_OK) status = read_key_option(config, &options, fault);
  if (status == TP_OK) status = take_headers(config, &options, fault);
  if (status == TP_OK) status = take_body(config, options.body, fault);
  if (status == TP_OK) status = take_prices(config, &options, fault);
  if (status == TP_OK) status = check_ca_file(options.ca_file, fault);
  if (status == TP_OK) status = take_inputs(config, options.inputs, fault);
  if (status == TP_OK) status = take_quirks(config, options.quirks, fault);
  if (status == TP_OK && options.traceparent_ctx && !options.traceparent)
    status = usage(fault, "traceparent_ctx", "it is set, and traceparent is NULL");
  config->traceparent = options.traceparent;
  config->traceparent_ctx = options.traceparent_ctx;
  if (status == TP_OK) status = open_directory(config, options.files_directory, fault);
  if (status == TP_OK && !(copy_string(&config->model, options.model) && copy_string(&config->proxy, options.proxy) &&
                           copy_string(&config->ca_file, options.ca_file)))
    status = refuse_config_memory(fault);
  return status == TP_OK ? note_secrets(config, &options, fault) : status;
}

void tp__openai_set_request(const tp__openai_config *config, CURL *easy, const tp__bytes *body) {
  assert(config->url && config->headers);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)RECEIVE_BYTES);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_URL, config->url);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, config->headers);
  curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
  if (config->http1) curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->size);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body->data);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)config->connect_ms);
  if (config->proxy) curl_easy_setopt(easy, CURLOPT_PROXY, config->proxy);
  if (config->ca_file) curl_easy_setopt(easy, CURLOPT_CAINFO, config->ca_file);
}

static void wipe(char *secret) {
  if (secret) explicit_bzero(secret, strlen(secret));
}

static void free_wiped(char *secret) {
  size_t size = secret ? strlen(secret) + 1 : 0;
  wipe(secret);
  tp__heap_free(secret, size);
}

void tp__openai_config_fini(tp__openai_config *config) {
  for (struct curl_slist *header = config->headers; header; header = header->next) wipe(header->data);
  curl_slist_free_all(config->headers);
  tp__secrets_fini(&config->secrets);
  free_wiped(config->key);
  free_wiped(config->url); /* its query */
  free_wiped(config->proxy);
  for (size_t i = 0; i < config->price_count; i++) tp__heap_string_free(config->prices[i].model);
  tp__heap_free(config->prices, config->price_count * sizeof *config->prices);
  tp__heap_string_free(config->model);
  tp__heap_string_free(config->place);
  tp__heap_string_free(config->ca_file);
  if (config->body) tp__heap_free(config->body, config->body_size + 1);
  if (config->files_directory >= 0) close(config->files_directory);
  *config = (tp__openai_config){.files_directory = -1};
}

/* ---- cost ---- */

static bool model_fits_pattern(const char *pattern, tp_text model) {
  if (!pattern) return true;
  size_t size = strlen(pattern);
  if (size == 0 || pattern[size - 1] != '*') return tp__is_word(model, pattern);
  return model.size >= size - 1 && memcmp(model.data, pattern, size - 1) == 0;
}

static double of(int64_t count, int64_t price) { return count > 0 ? (double)count * (double)price : 0; }

int64_t tp__openai_cost(const tp__openai_config *config, tp_text model, const tp__openai_usage *usage) {
  for (size_t i = 0; i < config->price_count; i++) {
    const tp__openai_price_row *row = &config->prices[i];
    if (!model_fits_pattern(row->model, model)) continue;
    int64_t read = usage->cache_read > 0 ? usage->cache_read : 0,
            written = usage->cache_write > 0 ? usage->cache_write : 0;
    int64_t fresh = usage->input - (read < INT32_MAX ? read : INT32_MAX) - (written < INT32_MAX ? written : INT32_MAX);
    double micros = (of(fresh, row->input) + of(read, row->cache_read) + of(written, row->cache_write) +
                     of(usage->output, row->output)) /
                    1e6;
    if (!(micros < 9e18)) return INT64_MAX;
    int64_t whole = (int64_t)micros;
    return whole + ((double)whole < micros);
  }
  return 0;
}
