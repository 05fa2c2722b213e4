/* SPDX-License-Identifier: Apache-2.0
 *
 * The command worker: runs background jobs of a data directory or a database, while other processes may work on it,
 * too. The main thread waits for a signal, or for the end of the last open job. The job thread of the library prints
 * the result of each job. The first SIGTERM, SIGINT or SIGHUP drains; a second one ends the process, as it does by
 * default. */
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/common/data.h"
#include "cli/common/database.h"
#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/run/job.h"
#include "cli/run/talk.h"

enum { DRAIN_LIMIT_MS = 30000 };

typedef struct worker {
  const cli_arguments *arguments;
  cli_output *output;
  cli_talk talk;
  sigset_t signals;
  int signal_fd, empty_fd; /* become readable when a signal came; when the wait for the last job has ended */
  tp_status empty_status;  /* the result of that wait; written before empty_fd becomes readable */
} worker;

static void print_job_event(void *ctx, const tp_event *event) {
  worker *w = ctx;
  cli_job_print(w->output, event->job, w->arguments->json);
  cli_flush(w->output);
}

static int listen_to_jobs(worker *w) {
  tp_listener listener = {
      .struct_size = sizeof listener, .on_event = print_job_event, .ctx = w, .kinds = UINT64_C(1) << TP_EVENT_JOB};
  tp_fault fault = {0};
  tp_status status = tp_runtime_listen(w->talk.runtime, &listener, NULL, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(NULL, status, &fault);
}

static void on_empty(void *ctx, const tp_jobs_wait_result *result) {
  worker *w = ctx;
  const uint64_t one = 1;
  w->empty_status = result->status;
  (void)!write(w->empty_fd, &one, sizeof one);
}

static int wait_for_last_job(worker *w) {
  tp_fault fault = {0};
  tp_status status = tp_jobs_wait_submit(w->talk.runtime, "", UINT32_MAX, on_empty, w, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(NULL, status, &fault);
}

/* Called before any other thread begins, because the threads of the runtime must inherit the blocked signals. */
static int take_signals(worker *w) {
  sigemptyset(&w->signals);
  sigaddset(&w->signals, SIGTERM);
  sigaddset(&w->signals, SIGINT);
  struct sigaction action;
  if (sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&w->signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &w->signals, NULL);
  w->signal_fd = signalfd(-1, &w->signals, SFD_CLOEXEC);
  w->empty_fd = eventfd(0, EFD_CLOEXEC);
  if (w->signal_fd >= 0 && w->empty_fd >= 0) return CLI_OK;
  cli_error("there are no file descriptors left to wait with");
  return CLI_UNAVAILABLE;
}

/* @return the number of the signal; 0: no job is open. */
static int wait_for_jobs(worker *w) {
  struct pollfd waits[] = {{.fd = w->signal_fd, .events = POLLIN}, {.fd = w->empty_fd, .events = POLLIN}};
  struct signalfd_siginfo info;
  while (poll(waits, 2, -1) < 0) {}
  if (!(waits[0].revents & POLLIN)) return 0;
  return read(w->signal_fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : SIGTERM;
}

static int finish(worker *w, int signal_number) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  if (signal_number)
    cli_error("stopping: jobs that run have %d s to end; once more to end at once", DRAIN_LIMIT_MS / 1000);
  pthread_sigmask(SIG_UNBLOCK, &w->signals, NULL);
  cli_talk_drain(&w->talk, DRAIN_LIMIT_MS);
  tp_runtime_stats_get(w->talk.runtime, &stats);
  cli_error("%llu attempts of jobs were run, %llu jobs failed for good", (unsigned long long)stats.jobs_run,
            (unsigned long long)stats.jobs_dead);
  if (signal_number) cli_talk_report_open(&w->talk);
  if (stats.jobs_dead > 0) return CLI_LOST;
  return signal_number ? cli_exit_of_signal(signal_number) : cli_exit_of(w->empty_status);
}

int cli_worker(const cli_arguments *theirs, cli_output *output) {
  cli_arguments arguments = *theirs;
  cli_models none = {0};
  worker w = {.arguments = &arguments, .output = output, .signal_fd = -1, .empty_fd = -1};
  tp_fault fault = {0};
  arguments.data = arguments.operand;
  if (!arguments.data) {
    cli_error("which data directory? it is the one that run --data was given");
    return CLI_USAGE;
  }
  int status = cli_database_is(arguments.data) ? CLI_OK : cli_data_check(arguments.data);
  if (status == CLI_OK) status = cli_talk_check(&arguments, "worker", false);
  if (status == CLI_OK) status = take_signals(&w);
  if (status == CLI_OK) status = cli_talk_open(&w.talk, &arguments, &none);
  if (status == CLI_OK) status = listen_to_jobs(&w);
  tp_status started = status == CLI_OK ? tp_runtime_start(w.talk.runtime, &fault) : TP_OK;
  if (started != TP_OK) status = cli_fault(arguments.data, started, &fault);
  if (status == CLI_OK && arguments.until_empty) status = wait_for_last_job(&w);
  if (status == CLI_OK) cli_error("running the jobs of %s", arguments.data);
  if (status == CLI_OK) status = finish(&w, wait_for_jobs(&w));
  else if (w.talk.runtime) cli_talk_drain(&w.talk, 0);
  cli_talk_close(&w.talk);
  if (w.signal_fd >= 0) close(w.signal_fd);
  if (w.empty_fd >= 0) close(w.empty_fd);
  return status;
}
