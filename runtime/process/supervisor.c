/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/process/supervisor.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/process/pidfd.h"
#include "runtime/process/process.h"

/* Uses only builtins of the shell. A group is in the list, between two blanks, until it is removed. */
static const char script[] =
    "groups=' '\n"
    "while read -r what group; do\n"
    "  if [ \"$what\" = + ]; then groups=\"$groups$group \"\n"
    "  else case \"$groups\" in *\" $group \"*) groups=\"${groups%%\" $group \"*} ${groups#*\" $group \"}\";; esac\n"
    "  fi\n"
    "done\n"
    "for group in $groups; do kill -s KILL -- \"-$group\"; done 2>/dev/null\n";

/* Because this callback is set, descriptor 0 is a socket (spawn.c). So a send() to a shell that has ended raises no
 * SIGPIPE. */
static void no_output(void *ctx, tp_text piece) {
  (void)ctx;
  (void)piece;
}

bool tp__supervisor_start(tp__supervisor *s) {
  static const char *const arguments[] = {"/bin/sh", "-c", script, "turnphase-supervisor", NULL};
  const tp_process_options options = {
      .struct_size = sizeof options, .arguments = arguments, .directory = "/", .on_output = no_output};
  tp__spawned spawned;
  if (s->runs || s->is_lacking) return false;
  s->is_lacking = tp__spawn(&options, &spawned, NULL) != TP_OK;
  if (s->is_lacking) return false;
  close(spawned.output);
  close(spawned.errors);
  s->fd = spawned.input;
  s->pidfd = spawned.pidfd;
  s->runs = true;
  return true;
}

void tp__supervisor_end(tp__supervisor *s) {
  siginfo_t info;
  if (!s->runs) return;
  /* before the socket is closed: at that the shell would kill the groups that it knows */
  (void)!tp__pidfd_send_signal(s->pidfd, SIGKILL);
  (void)!waitid(P_PIDFD, (id_t)s->pidfd, &info, WEXITED);
  close(s->fd);
  close(s->pidfd);
  s->runs = false;
}

/* A partly written list is worse than none: a group whose removal was lost would be killed although its number now
 * belongs to another group. */
static void send_line(tp__supervisor *s, char what, pid_t group) {
  assert(group > 1);
  char line[32];
  int size = snprintf(line, sizeof line, "%c %ld\n", what, (long)group);
  if (s->runs && send(s->fd, line, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT) != size) tp__supervisor_end(s);
}

void tp__supervisor_add(tp__supervisor *s, pid_t group) { send_line(s, '+', group); }
void tp__supervisor_remove(tp__supervisor *s, pid_t group) { send_line(s, '-', group); }
