/* SPDX-License-Identifier: Apache-2.0
 *
 * The access log of turnphase serve (cli/serve/access_log.h): the content of a line, a file that cannot be written, and
 * a file that is moved away. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "cli/common/exit_status.h"
#include "cli/serve/access_log.h"
#include "tests/support/directory.h"

static tp_server_request of_turn(void) {
  return (tp_server_request){.struct_size = sizeof(tp_server_request),
                             .unix_ms = 1700000000123,
                             .answered_ns = 1500000,
                             .duration_ns = 250000000,
                             .bytes_in = 65,
                             .bytes_out = 409,
                             .status = 200,
                             .streams = true,
                             .route = "/v1/responses",
                             .tenant = "acme",
                             .id = tp_text_of("resp_1"),
                             .turn_id = tp_text_of("turn-1"),
                             .session = tp_text_of("s"),
                             .agent = tp_text_of("a"),
                             .model = tp_text_of("gpt \"x\"\n"),
                             .input_tokens = 7,
                             .output_tokens = 2};
}

static char *read_all(const char *file) {
  static char text[1 << 16];
  FILE *in = fopen(file, "r");
  assert_non_null(in);
  size_t size = fread(text, 1, sizeof text - 1, in);
  fclose(in);
  text[size] = '\0';
  return text;
}

TEST(a_line_has_what_is_known_of_a_request_and_no_more) {
  cli_access_log *log;
  make_directory(NULL);
  assert_int_equal(cli_access_log_open(path, &log), CLI_OK);
  tp_server_request request = of_turn();
  cli_access_log_put(log, &request);
  request = (tp_server_request){.struct_size = sizeof request,
                                .unix_ms = 999,
                                .answered_ns = -1,
                                .duration_ns = 1000000000,
                                .left = true,
                                .route = "",
                                .tenant = ""};
  cli_access_log_put(log, &request);
  cli_access_log_close(log);
  assert_string_equal(
      read_all(path),
      "{\"time\":\"2023-11-14T22:13:20.123Z\",\"id\":\"resp_1\",\"tenant\":\"acme\",\"route\":\"/v1/responses\","
      "\"status\":200,\"bytes_in\":65,\"bytes_out\":409,\"answered_s\":0.0015,\"duration_s\":0.25,\"stream\":true,"
      "\"turn\":\"turn-1\",\"session\":\"s\",\"agent\":\"a\",\"model\":\"gpt \\\"x\\\"\\n\",\"input_tokens\":7,"
      "\"output_tokens\":2}\n"
      "{\"time\":\"1970-01-01T00:00:00.999Z\",\"route\":null,\"status\":0,\"left\":true,\"bytes_in\":0,\"bytes_out\":0,"
      "\"duration_s\":1.0}\n");
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 07, 0); /* not for all */
  remove_directory(NULL);
}

TEST(a_word_for_a_model_is_cut_between_code_points) {
  cli_access_log *log;
  char word[200];
  make_directory(NULL);
  memset(word, 'x', sizeof word);
  memcpy(word + 127, "\xc3\xa9", 2);
  assert_int_equal(cli_access_log_open(path, &log), CLI_OK);
  tp_server_request request = of_turn();
  request.model = (tp_text){word, sizeof word};
  cli_access_log_put(log, &request);
  cli_access_log_close(log);
  const char *at = strstr(read_all(path), "\"model\":\"");
  assert_non_null(at);
  assert_int_equal(strcspn(at + 9, "\""), 127);
  remove_directory(NULL);
}

typedef struct reader {
  int fd;
  uint64_t lines, dropped; /* dropped: what lines say */
  bool has_other;          /* what is no whole line */
} reader;

static void *read_to_end(void *ctx) {
  static char text[1 << 16];
  reader *r = ctx;
  size_t kept = 0;
  for (ssize_t got; (got = read(r->fd, text + kept, sizeof text - 1 - kept)) > 0;) {
    text[kept += (size_t)got] = '\0';
    char *line = text;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
      *end = '\0';
      const char *dropped = strstr(line, "\"dropped\":");
      if (dropped) r->dropped += strtoull(dropped + 10, NULL, 10);
      else r->lines++;
      r->has_other |= line[0] != '{' || end[-1] != '}';
    }
    kept = strlen(line);
    memmove(text, line, kept);
  }
  r->has_other |= kept > 0;
  return NULL;
}

TEST(lines_that_nothing_reads_are_dropped_and_told_and_never_waited_for) {
  enum { LINES = 40000 };
  cli_access_log *log;
  pthread_t thread;
  make_directory(NULL);
  assert_int_equal(mkfifo(path, 0600), 0);
  reader r = {.fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  assert_int_equal(cli_access_log_open(path, &log), CLI_OK);
  tp_server_request request = of_turn();
  for (int i = 0; i < LINES; i++) cli_access_log_put(log, &request); /* it would wait here for ever */
  assert_int_equal(fcntl(r.fd, F_SETFL, 0), 0);
  assert_int_equal(pthread_create(&thread, NULL, read_to_end, &r), 0);
  cli_access_log_close(log);
  pthread_join(thread, NULL);
  close(r.fd);
  assert_false(r.has_other);
  assert_true(r.dropped > 0);
  assert_int_equal(r.lines + r.dropped, LINES);
  remove_directory(NULL);
}

TEST(a_file_that_was_moved_is_opened_again_and_one_that_cannot_be_leaves_the_old) {
  cli_access_log *log;
  char moved[128];
  make_directory(NULL);
  snprintf(moved, sizeof moved, "%s/moved", directory);
  assert_int_equal(cli_access_log_open(path, &log), CLI_OK);
  tp_server_request request = of_turn();
  assert_int_equal(rename(path, moved), 0);
  cli_access_log_put(log, &request);
  while (strlen(read_all(moved)) == 0) {} /* it was written to what was open */
  assert_int_equal(mkdir(path, 0700), 0); /* no file */
  cli_access_log_reopen(log);
  cli_access_log_put(log, &request);
  while (!strchr(strchr(read_all(moved), '\n') + 1, '\n')) {}
  assert_int_equal(rmdir(path), 0);
  cli_access_log_reopen(log);
  cli_access_log_put(log, &request);
  cli_access_log_close(log);
  assert_non_null(strstr(read_all(path), "resp_1"));
  remove_directory(NULL);
}

TEST(a_file_that_cannot_be_opened_is_refused) {
  cli_access_log *log = NULL;
  make_directory(NULL);
  assert_int_equal(cli_access_log_open(directory, &log), CLI_CONFIG);
  assert_null(log);
  remove_directory(NULL);
}
