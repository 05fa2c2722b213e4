/* SPDX-License-Identifier: Apache-2.0
 *
 * Many requests: 64 streams at once on one I/O thread; and 1,000 requests leave nothing behind. */
#include <dirent.h>
#include <sys/wait.h>

#include "tests/support/test.h"
#include "support/bytes.h"
#include "tests/support/counting.h"
#include "tests/support/provider.h"

enum { STREAMS = 64, REQUESTS = 1000 };

static int count_entries(const char *path) {
  int count = 0;
  DIR *folder = opendir(path);
  if (!folder) return -1;
  while (readdir(folder)) count++;
  closedir(folder);
  return count - 2;
}

/* Counts the threads of the process with this name. */
static int count_threads(const char *name) {
  int count = 0;
  DIR *folder = opendir("/proc/self/task");
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    char path[300], line[64] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    if (fgets(line, sizeof line, file)) line[strcspn(line, "\n")] = '\0';
    fclose(file);
    if (strcmp(line, name) == 0) count++;
  }
  if (folder) closedir(folder);
  return count;
}

TEST(sixty_four_streams_share_one_thread) {
  const endpoint_reply reply = {.body = CHAT_HELLO, .stops_at = 300, .then = ENDPOINT_WAITS};
  provider *p = provider_open(&reply, 1, NULL, false);
  tp_session *sessions[STREAMS];
  tp_submission *turns[STREAMS];
  tp_model *model;
  tp_openai_options options = {.struct_size = sizeof options, .model = "m", .base_url = p->endpoint->url, .proxy = ""};
  tp_openai_stats stats = {.struct_size = sizeof stats};
  for (int i = 0; i < STREAMS; i++) { /* models of their own, too */
    char id[16];
    snprintf(id, sizeof id, "s%d", i);
    assert_int_equal(tp_openai_model_new(&options, &model, NULL), TP_OK);
    tp_session_options session = {.struct_size = sizeof session, .id = id, .model = model};
    assert_int_equal(tp_session_open(p->runtime, &session, &sessions[i], NULL), TP_OK);
    tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("Hi")};
    assert_int_equal(tp_turn_submit(sessions[i], &request, NULL, NULL, &turns[i], NULL), TP_OK);
  }
  endpoint_await(p->endpoint, &p->endpoint->parts, STREAMS); /* all of them are in the middle */
  assert_int_equal(tp_openai_stats_get(&stats), TP_OK);
  int io_threads = count_threads("tp-openai"), threads = count_entries("/proc/self/task");
  print_message(
      "# %d streams at once, %llu connections: %d I/O thread, %d threads in all (test and endpoint included)\n",
      STREAMS, (unsigned long long)stats.connections_opened, io_threads, threads);
  assert_int_equal(io_threads, 1);
  assert_int_equal(stats.threads, 1);
  assert_int_equal(stats.requests_started - stats.requests_ended, STREAMS);
  assert_int_equal(stats.connections_opened, STREAMS);
  endpoint_go(p->endpoint);
  for (int i = 0; i < STREAMS; i++) {
    const tp_turn_result *result = NULL;
    assert_int_equal(tp_submission_wait(turns[i], 60000, &result, NULL), TP_OK);
    assert_completed(result, "Hello, w\xc3\xb6rld");
    tp_submission_unref(turns[i]);
    tp_session_close(sessions[i], NULL, NULL);
  }
  provider_close(p);
}

/* Memory comes from an allocator that counts; the leak sanitizer counts libcurl's memory. */
TEST(a_thousand_requests_leave_nothing_behind) {
  static const endpoint_reply replies[] = {
      {.body = CHAT_HELLO},
      {.body = CHAT_CALLS},
      {.status = 500, .body = "{}"},
      {.body = CHAT_HELLO, .stops_at = 400, .then = ENDPOINT_CLOSES},
      {.body = CHAT_HELLO, .gzip = true},
  };
  static endpoint_reply many[REQUESTS];
  for (int i = 0; i < REQUESTS; i++) many[i] = replies[i % COUNT(replies)];
  const tp_allocator *before = tp__heap;
  int descriptors = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
  tp__heap = &counting;
  provider *p = provider_open(many, REQUESTS, NULL, true);
  tp_turn_request request = {.model_attempts = 1};
  int turns = 0;
  while (endpoint_count(p->endpoint, &p->endpoint->request_count) < REQUESTS) {
    provider_turn(p, &request);
    turns++;
  }
  long taken = takes;
  tp_openai_stats stats = {.struct_size = sizeof stats};
  assert_int_equal(tp_openai_stats_get(&stats), TP_OK);
  assert_true(stats.requests_started >= REQUESTS);
  provider_close(p);
  print_message(
      "# %d requests in %d turns over %llu connections: %ld allocations, %ld left; %d descriptors, %d before\n",
      REQUESTS, turns, (unsigned long long)stats.connections_opened, taken, blocks_open, count_entries("/proc/self/fd"),
      descriptors);
  assert_int_equal(blocks_open, 0);
  assert_int_equal(count_entries("/proc/self/fd"), descriptors);
  while (count_threads("tp-openai") > 0) sleep_ms(1);
  assert_true(count_entries("/proc/self/task") <= threads);
  tp__heap = before;
}

/* The child begins anew: it has no I/O thread until it asks for something. */
TEST(the_child_of_a_fork_has_an_io_thread_of_its_own) {
  const endpoint_reply replies[] = {{.body = CHAT_HELLO, .stops_at = 300, .then = ENDPOINT_WAITS}};
  const endpoint_reply good = {.body = CHAT_HELLO};
  if (HAS_THREAD_SANITIZER) {
    print_message("# left out: ThreadSanitizer starts no threads in the child of a process that has some\n");
    return;
  }
  endpoint *other = endpoint_open(&good, 1);
  provider *p = provider_open(replies, 1, NULL, false);
  provider_submit(p, NULL);
  endpoint_await(p->endpoint, &p->endpoint->parts, 1);
  pid_t child = fork();
  if (child == 0) {
    tp_runtime *runtime = NULL;
    tp_session *session;
    tp_model *model = NULL;
    const tp_turn_result *result = NULL;
    tp_openai_options options = {.struct_size = sizeof options, .model = "m", .base_url = other->url, .proxy = ""};
    tp_openai_stats stats = {.struct_size = sizeof stats};
    bool good_so_far = tp_openai_stats_get(&stats) == TP_OK && stats.threads == 0 &&
                       tp_runtime_new(NULL, &runtime, NULL) == TP_OK &&
                       tp_openai_model_new(&options, &model, NULL) == TP_OK;
    tp_session_options session_options = {.struct_size = sizeof session_options, .id = "c", .model = model};
    tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("Hi")};
    good_so_far = good_so_far && tp_session_open(runtime, &session_options, &session, NULL) == TP_OK &&
                  tp_turn_run(session, &request, &result, NULL) == TP_OK && result->outcome == TP_TURN_COMPLETED;
    _exit(good_so_far ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  endpoint_go(p->endpoint);
  assert_completed(provider_wait(p), "Hello, w\xc3\xb6rld");
  provider_close(p);
  endpoint_close(other);
}
