/* SPDX-License-Identifier: Apache-2.0
 *
 * A TLS endpoint with a certificate that the command openssl makes: not trusted; trusted by ca_file; with another
 * name. */
#include <signal.h>
#include <sys/wait.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/provider.h"

static pid_t server;
static int port;
static char certificate[128];

static bool make_certificate(void) {
  char command[1024];
  snprintf(certificate, sizeof certificate, "%s/cert.pem", directory);
  snprintf(command, sizeof command,
           "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1 "
           "-addext subjectAltName=IP:127.0.0.1 -keyout '%s/key.pem' -out '%s' >/dev/null 2>&1",
           directory, certificate);
  return system(command) == 0;
}

/* The server prints its address: "ACCEPT 127.0.0.1:PORT". */
static bool start_server(void) {
  char key[128], line[256];
  int ends[2];
  snprintf(key, sizeof key, "%s/key.pem", directory);
  if (pipe(ends) != 0) return false;
  server = fork();
  if (server == 0) {
    dup2(ends[1], 1);
    (void)!freopen("/dev/null", "w", stderr);
    close(ends[0]);
    close(ends[1]);
    execlp("openssl", "openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", certificate, "-key", key, "-www",
           (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  FILE *said = fdopen(ends[0], "r");
  while (said && port == 0 && fgets(line, sizeof line, said))
    if (strncmp(line, "ACCEPT 127.0.0.1:", 17) == 0) port = (int)strtol(line + 17, NULL, 10);
  if (said) fclose(said);
  return port != 0;
}

/* Runs a turn with the endpoint, and reads the reason of its failure and the number of its attempts. */
static void ask(const char *host, const char *ca_file, char *reason, size_t size, int *ret_attempts) {
  static const endpoint_reply unused = {.body = ""};
  char url[64];
  tp_openai_stats stats = {.struct_size = sizeof stats};
  snprintf(url, sizeof url, "https://%s:%d/v1", host, port);
  tp_openai_options options = {.base_url = url, .ca_file = ca_file, .first_byte_ms = 100, .retry_wait_ms = 1};
  provider *p = provider_open(&unused, 1, &options, false);
  const tp_turn_result *result = provider_turn(p, NULL);
  assert_string_equal(tp_turn_outcome_name(result->outcome), "failed");
  snprintf(reason, size, "%.*s", (int)result->reason.size, result->reason.data);
  assert_int_equal(tp_openai_stats_get(&stats), TP_OK);
  *ret_attempts = (int)stats.requests_started;
  provider_close(p);
}

TEST(a_certificate_that_is_not_trusted_ends_the_request) {
  char reason[1024];
  int attempts;
  ask("127.0.0.1", NULL, reason, sizeof reason, &attempts);
  assert_non_null(strstr(reason, "its certificate is not trusted: check base_url, or set ca_file"));
  assert_int_equal(attempts, 1);
}

TEST(ca_file_makes_it_trusted) {
  char reason[1024];
  int attempts;
  ask("127.0.0.1", certificate, reason, sizeof reason, &attempts);
  assert_non_null(strstr(reason, "nothing of an answer came within")); /* openssl does not answer to a POST */
}

TEST(a_certificate_of_another_name_is_not_trusted) {
  char reason[1024];
  int attempts;
  ask("localhost", certificate, reason, sizeof reason, &attempts);
  assert_non_null(strstr(reason, "its certificate is not trusted"));
  assert_int_equal(attempts, 1);
}

static int stop_server(void **state) {
  kill(server, SIGKILL);
  waitpid(server, NULL, 0);
  return remove_directory(state);
}

FOR_ALL_TESTS(NULL, stop_server);

TEST_MAIN(count, arguments) {
  if (make_directory(NULL) != 0) return 1;
  if (!make_certificate() || !start_server()) {
    printf("1..0 # SKIP the command openssl is not installed\n");
    return remove_directory(NULL);
  }
  return test_main(count, arguments);
}
