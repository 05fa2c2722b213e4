/* SPDX-License-Identifier: Apache-2.0
 *
 * Many servers of MCP at once, started and stopped repeatedly: each gives its tools, and none leaves a process, a
 * descriptor or memory. 50 servers twice; with TURNPHASE_ROUNDS=20 (./dev test --long) 1,000 servers ten times. */
#include <sys/resource.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "tests/support/test.h"
#include "tests/support/host.h"
#include "tests/support/inbox.h"
#include "tests/support/leftovers.h"
#include "turnphase/mcp.h"

enum { SERVERS = 50, DESCRIPTORS = 8 }; /* of a server, at most */
enum { KEPT_BYTES = 64 << 10 };         /* that caches of threads may hold more at one time than at another */

/* What is allocated. 0: the allocator does not say. */
static size_t bytes_in_use(void) {
#ifdef __GLIBC__
  return mallinfo2().uordblks + mallinfo2().hblkhd;
#else
  return 0;
#endif
}

static bool count_echo(void *ctx, const tp_tool_listing *listing) {
  *(size_t *)ctx += strstr(listing->tool->name, "__echo") != NULL;
  return true;
}

static void start_and_stop(size_t servers, size_t descriptors) {
  const char *const program[] = {getenv("TURNPHASE_MCP_SERVER"), NULL}, *const environment[] = {marker, NULL};
  const char *const allow[] = {"echo"};
  tp_runtime *runtime = open_runtime(NULL);
  tp_fault fault = {0};
  char name[32];
  size_t echoes = 0, tools = 0;
  for (size_t i = 0; i < servers; i++) {
    snprintf(name, sizeof name, "s%zu", i);
    const tp_mcp_options options = {.struct_size = sizeof options,
                                    .name = name,
                                    .arguments = program,
                                    .environment = environment,
                                    .allow = allow,
                                    .allow_count = 1,
                                    .start_limit_ms = 300000};
    if (tp_mcp_add(runtime, &options, &fault) != TP_OK) fail_msg("%s: %s", name, fault.message);
  }
  if (tp_runtime_tools(runtime, count_echo, &echoes, &tools, &fault) != TP_OK) fail_msg("%s", fault.message);
  assert_int_equal(echoes, servers);
  assert_int_equal(tools, servers);
  assert_int_equal(marked_processes(), servers);
  for (size_t i = 0; i < servers / 2; i++) { /* the others end with the runtime */
    snprintf(name, sizeof name, "s%zu", i);
    assert_int_equal(tp_mcp_remove(runtime, name, NULL), TP_OK);
  }
  expect_no_tokens(runtime);
  tp_runtime_free(runtime);
  assert_int_equal(processes_left(), 0);
  await_descriptors(descriptors);
}

TEST(many_servers_leave_nothing) {
  const char *rounds = getenv("TURNPHASE_ROUNDS");
  size_t servers = rounds ? SERVERS * strtoul(rounds, NULL, 10) : (size_t)test_rounds(SERVERS), times = rounds ? 10 : 2;
  struct rlimit limit;
  (void)state;
  if (!getenv("TURNPHASE_MCP_SERVER")) fail_msg("TURNPHASE_MCP_SERVER is not set");
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < servers * DESCRIPTORS) servers = limit.rlim_cur / DESCRIPTORS;
  snprintf(marker, sizeof marker, "MCP_MARKER=%d-%lld", (int)getpid(), (long long)now_ns());
  size_t descriptors = open_descriptors();
  start_and_stop(servers, descriptors); /* what is allocated once, such as by libcurl, is there then */
  size_t bytes = bytes_in_use();
  for (size_t i = 1; i < times; i++) start_and_stop(servers, descriptors);
  size_t left = bytes_in_use() > bytes ? bytes_in_use() - bytes : 0;
  print_message("# %zu servers, %zu times: %zu bytes more in use than after the first time\n", servers, times, left);
  assert_true(left < KEPT_BYTES);
}
