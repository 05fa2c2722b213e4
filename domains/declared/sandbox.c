/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/declared/sandbox.h"

#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/check.h"

const char *tp__sandbox_lacks(const char *helper) {
  assert(helper);
  uint32_t action = SECCOMP_RET_ERRNO;
  if (access(helper, X_OK) != 0) return "its helper turnphase-sandbox is not there";
  if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1)
    return "this kernel has no Landlock (Linux 5.13, and landlock in its list of security modules)";
  if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0) return "this kernel has no seccomp filters";
  return NULL;
}

typedef struct list {
  const char **items;
  size_t count;
} list;

static void add_sandbox_argument(list *l, const char *item) {
  if (l->count < TP__SANDBOX_ARGUMENTS_MAX) l->items[l->count] = item;
  l->count++;
}

static void add_pair(list *l, const char *option, const char *value) {
  add_sandbox_argument(l, option);
  add_sandbox_argument(l, value);
}

/* What every program reads. */
static void add_system(list *l) {
  static const char *const folders[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc"};
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
    if (access(folders[i], F_OK) == 0) add_pair(l, "-r", folders[i]);
}

bool tp__sandbox_arguments(const tp__sandbox *sandbox, const char *helper, const char *const *programs,
                           size_t program_count, const char *const *arguments,
                           const char *ret_arguments[TP__SANDBOX_ARGUMENTS_MAX]) {
  assert(sandbox->is_on && helper && arguments[0]);
  static const char *const options[TP__SANDBOX_NUMBERS] = {"-m", "-c", "-p", "-f"};
  list l = {.items = ret_arguments};
  add_sandbox_argument(&l, helper);
  if (sandbox->read_count > 0) add_system(&l);
  for (size_t i = 0; sandbox->read_count > 0 && i < program_count; i++)
    if (programs[i] && access(programs[i], F_OK) == 0) add_pair(&l, "-r", programs[i]);
  for (size_t i = 0; i < sandbox->read_count; i++) add_pair(&l, "-r", sandbox->reads[i]);
  for (size_t i = 0; i < sandbox->write_count; i++) add_pair(&l, "-w", sandbox->writes[i]);
  if (!sandbox->network) add_sandbox_argument(&l, "-n");
  for (size_t i = 0; i < TP__SANDBOX_NUMBERS; i++)
    if (sandbox->numbers[i]) add_pair(&l, options[i], sandbox->numbers[i]);
  add_sandbox_argument(&l, "--");
  while (*arguments) add_sandbox_argument(&l, *arguments++);
  add_sandbox_argument(&l, NULL);
  return l.count <= TP__SANDBOX_ARGUMENTS_MAX;
}
