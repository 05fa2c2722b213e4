/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/declared/webhook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/check.h"

enum { HTTP_PORT = 80, HTTPS_PORT = 443, PORT_MAX = 65535 };

#define DIGITS "0123456789"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* @return the size of the host at the beginning of the text; 0: there is none. */
static size_t host_size(const char *text) {
  if (text[0] != '[') return strspn(text, LETTERS DIGITS "-.");
  size_t size = strspn(text + 1, DIGITS "ABCDEFabcdef:.");
  return size > 0 && text[size + 1] == ']' ? size + 2 : 0;
}

/* Reads ":8443", or nothing. @return its size; -1: it is no port. */
static int read_port(const char *text, unsigned *ret_port) {
  if (text[0] != ':') return 0;
  size_t digits = strspn(text + 1, DIGITS);
  unsigned long port = digits > 0 && digits < 6 ? strtoul(text + 1, NULL, 10) : 0;
  if (port == 0 || port > PORT_MAX) return -1;
  *ret_port = (unsigned)port;
  return (int)digits + 1;
}

static bool is_this_machine(const char *host) {
  return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
         (strncmp(host, "127.", 4) == 0 && strspn(host, DIGITS ".") == strlen(host));
}

const char *tp__webhook_read_url(const char *url, tp__webhook_url *ret_url) {
  assert(url && ret_url);
  bool is_https = strncasecmp(url, "https://", 8) == 0;
  if (!is_https && strncasecmp(url, "http://", 7) != 0) return "it begins with https://";
  const char *rest = url + (is_https ? 8 : 7);
  size_t size = host_size(rest);
  if (size == 0 || size >= sizeof ret_url->host) return "it has no host";
  for (size_t i = 0; i < size; i++)
    ret_url->host[i] = (char)(rest[i] >= 'A' && rest[i] <= 'Z' ? rest[i] - 'A' + 'a' : rest[i]);
  ret_url->host[size] = '\0';
  ret_url->port = is_https ? HTTPS_PORT : HTTP_PORT;
  int port = read_port(rest + size, &ret_url->port);
  if (port < 0) return "its port is a number from 1 to 65535";
  rest += size + (size_t)port;
  ret_url->shown_size = (size_t)(rest - url);
  if (rest[0] != '\0' && rest[0] != '/' && rest[0] != '?')
    return "a path or nothing comes behind its host and port: users and passwords belong into headers";
  for (; *rest; rest++)
    if (*rest <= ' ' || *rest > '~' || strchr("#\\\"<>^`{|}", *rest))
      return "its path has a character that must be escaped";
  if (!is_https && !is_this_machine(ret_url->host)) return "http is for this machine alone: use https";
  return NULL;
}

/* @return the size of the host in "host:port"; 0: the text has another form. */
static size_t read_allowed(const char *allowed, unsigned *ret_port) {
  size_t size = host_size(allowed);
  *ret_port = HTTPS_PORT;
  int port_size = size > 0 ? read_port(allowed + size, ret_port) : -1;
  return port_size >= 0 && allowed[size + (size_t)port_size] == '\0' ? size : 0;
}

const char *tp__webhook_wrong_host(const char *const *hosts) {
  unsigned port;
  while (hosts && *hosts && read_allowed(*hosts, &port) > 0) hosts++;
  return hosts ? *hosts : NULL;
}

bool tp__webhook_allows(const char *const *hosts, const tp__webhook_url *url) {
  for (; hosts && *hosts; hosts++) {
    unsigned port;
    size_t size = read_allowed(*hosts, &port);
    if (size == strlen(url->host) && strncasecmp(*hosts, url->host, size) == 0 && port == url->port) return true;
  }
  return false;
}
