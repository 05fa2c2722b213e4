/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#ifdef __clang__
#define TEXT_OF(word) #word
#define DOTTED(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)
#define COMPILER "clang " DOTTED(__clang_major__, __clang_minor__, __clang_patchlevel__)
#else
#define COMPILER "gcc " __VERSION__
#endif

/* clang shows the sanitizer by a macro call, gcc by a constant. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SANITIZERS "address"
#elif defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define SANITIZERS "thread"
#else
#define SANITIZERS ""
#endif

/* Reads "model name: Intel(R) …" from /proc/cpuinfo, if it is there. */
static void read_processor(char ret_name[CLI_MACHINE_TEXT_SIZE]) {
  char line[256];
  ret_name[0] = '\0';
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (!file) return;
  while (!ret_name[0] && fgets(line, sizeof line, file)) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    colon += 1 + strspn(colon + 1, " ");
    snprintf(ret_name, CLI_MACHINE_TEXT_SIZE, "%.*s", (int)strcspn(colon, "\n"), colon);
  }
  fclose(file);
}

static uint32_t count_processors(void) {
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof mine, &mine) == 0) return (uint32_t)CPU_COUNT(&mine);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (uint32_t)online : 1;
}

cli_machine cli_machine_read(void) {
  cli_machine machine = {
      .processors = count_processors(), .compiler = COMPILER, .build = CLI_BUILD, .sanitizers = SANITIZERS};
  struct utsname names;
  if (uname(&names) == 0) {
    snprintf(machine.system, sizeof machine.system, "%.40s %.80s", names.sysname, names.release);
    snprintf(machine.architecture, sizeof machine.architecture, "%.100s", names.machine);
  }
  read_processor(machine.processor);
#ifdef __OPTIMIZE__
  machine.optimized = true;
#endif
#ifndef NDEBUG
  machine.assertions = true;
#endif
  return machine;
}
