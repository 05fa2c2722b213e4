/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c: the loop. Its thread waits in epoll for descriptors and for the earliest deadline. After each wait it goes
 * through all children: it reports those that have ended, and ends those that are late. The thread owns each child from
 * the moment at which it takes the child out of `incoming`. */
#include "runtime/process/process.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/os/os.h"
#include "runtime/process/supervisor.h"

enum {
  PROCESSES_MAX = 1024,
  PROCESSES_LIMIT = 65536,
  LIMIT_MS = 30000,
  GRACE_MS = 20,
  GRACE_MS_MAX = 10000,
  OUTPUT_MAX = 1 << 20,
  OUTPUT_LIMIT = 1 << 30,
  UNKILLABLE_MS = 20, /* a child that still exists this long after SIGKILL is reported */
  HOLDERS_MS = 10,    /* how long the rest of a dead group may keep the pipes open before it is searched for */
  HOLDERS_ROUNDS = 3,
  ABANDON_MS = 2000, /* how long a loop that is being freed waits for a child that does not die */
  POLL_MS = 5,
  READ_SIZE = 64 << 10,
  BUFFER_FIRST = 1024,
  EVENTS = 64
};

typedef enum source_kind { SOURCE_WAKE, SOURCE_PIDFD, SOURCE_INPUT, SOURCE_OUTPUT, SOURCE_ERRORS } source_kind;

/* A descriptor that epoll watches. */
struct source {
  source_kind kind;
  int fd; /* -1: closed */
  struct child *child;
};

struct buffer {
  char *bytes;
  size_t size, capacity, max;
  bool is_over; /* there was more than max */
};

struct child {
  tp__link link;      /* under mutex */
  bool is_cancelled;  /* under mutex */
  bool is_supervised; /* under mutex */
  /* under mutex; of a resident child, whose input_fd.fd is under mutex, too */
  struct buffer queue; /* waits to be written */
  bool closes_input;   /* after the queue */
  /* never changes after the start */
  uint64_t id;
  tp_process_end_fn on_end;
  tp_process_output_fn on_output; /* NULL: it is not resident */
  void *ctx;
  pid_t pid;
  int64_t started_ns, deadline_ns;
  uint32_t grace_ms;
  size_t input_size;
  /* the loop's thread only */
  struct source pidfd, input_fd, output_fd, errors_fd;
  char *input;
  size_t input_written;
  struct buffer output, errors;
  tp_process_end end; /* 0: undecided */
  int32_t exit_code, signal;
  int64_t ended_ns;   /* when the end was decided */
  int64_t kill_ns;    /* when SIGKILL is sent; TP__NEVER: it was sent, or no end was decided */
  int64_t report_ns;  /* when the child is reported even if it has not died; TP__NEVER: no SIGKILL was sent */
  int64_t holders_ns; /* when processes that hold the pipes are searched for */
  uint32_t holders_rounds, escaped;
  bool has_exited;          /* by the pidfd */
  bool is_registered;       /* with epoll */
  bool is_input_registered; /* for a resident child: set while something waits to be written */
  bool is_polled;           /* epoll could not */
  bool is_reaped, is_reported;
};

struct tp_process_loop {
  /* never changes after new */
  tp_allocator allocator;
  uint32_t processes_max;
  uint32_t process_generation;
  int epoll;
  tp__pollable wake; /* set under mutex */
  tp__mutex mutex;
  /* under mutex */
  tp__link incoming, children;
  size_t count; /* children that are started or being started, and not reported */
  uint64_t last_id;
  tp__supervisor supervisor;
  tp__thread *thread; /* NULL: no child yet */
  bool is_stopping;
  bool frees_itself; /* the thread does */
  /* under mutex; written by the thread before its first callback */
  uint32_t thread_number;
  /* the thread only */
  bool was_woken; /* epoll says that `wake` is set */
  char scratch[READ_SIZE];
};

/* ---- buffers ---- */

static bool buffer_reserve(const tp_allocator *allocator, struct buffer *buffer, size_t size) {
  void *bytes = buffer->bytes;
  size_t capacity = buffer->capacity;
  if (capacity == 0 && size < BUFFER_FIRST) size = BUFFER_FIRST;
  if (tp__array_grow(allocator, &bytes, &capacity, size, 1) != TP_OK) return false;
  buffer->bytes = bytes;
  buffer->capacity = capacity;
  return true;
}

/* Without memory, the rest of the output counts as over the limit, because half of an output must not be used. */
static void buffer_add(const tp_allocator *allocator, struct buffer *buffer, const char *bytes, size_t size) {
  size_t left = buffer->max - buffer->size;
  if (size > left) {
    buffer->is_over = true;
    size = left;
  }
  if (size == 0) return;
  if (!buffer_reserve(allocator, buffer, buffer->size + size)) {
    buffer->is_over = true;
    return;
  }
  memcpy(buffer->bytes + buffer->size, bytes, size);
  buffer->size += size;
}

/* ---- descriptors ---- */

/* The descriptor is removed from epoll explicitly. While another thread starts a program, that program has a copy of
 * the descriptor; after close() without this it would stay in epoll, and events of a freed child would come. */
static void source_close(const tp_process_loop *loop, struct source *source) {
  if (source->fd < 0) return;
  epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
  close(source->fd);
  source->fd = -1;
}

static bool source_watch(tp_process_loop *loop, struct source *source, uint32_t events) {
  if (source->fd < 0) return true;
  struct epoll_event event = {.events = events, .data.ptr = source};
  return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) == 0;
}

/* ---- the input of a resident child ---- */

/* A socket, so that no thread of the host gets SIGPIPE. */
static void send_input_locked(const tp_process_loop *loop, struct child *child, const char *bytes, size_t size,
                              size_t *ret_sent) {
  *ret_sent = 0;
  while (child->input_fd.fd >= 0 && *ret_sent < size) {
    ssize_t sent = send(child->input_fd.fd, bytes + *ret_sent, size - *ret_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) *ret_sent += (size_t)sent;
    else if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    else if (errno != EINTR) source_close(loop, &child->input_fd); /* it closed its input */
  }
}

static void queue_send_locked(const tp_process_loop *loop, struct child *child) {
  TP__LOCKED(&loop->mutex);
  size_t sent;
  send_input_locked(loop, child, child->queue.bytes, child->queue.size, &sent);
  if (sent > 0) memmove(child->queue.bytes, child->queue.bytes + sent, child->queue.size - sent);
  child->queue.size -= sent;
  if (child->closes_input && child->queue.size == 0) source_close(loop, &child->input_fd);
}

/* epoll watches the descriptor only while something waits to be written, because it is writable nearly all the time. */
static void flush_queue(tp_process_loop *loop, struct child *child) {
  tp__mutex_lock(&loop->mutex);
  if (child->input_fd.fd >= 0) queue_send_locked(loop, child);
  bool waits = child->input_fd.fd >= 0 && child->queue.size > 0;
  if (waits && !child->is_input_registered) waits = source_watch(loop, &child->input_fd, EPOLLOUT);
  else if (!waits && child->is_input_registered && child->input_fd.fd >= 0)
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, child->input_fd.fd, NULL);
  child->is_input_registered = waits;
  tp__mutex_unlock(&loop->mutex);
}

static void input_close(tp_process_loop *loop, struct child *child) {
  if (child->on_output) tp__mutex_lock(&loop->mutex);
  source_close(loop, &child->input_fd);
  if (child->on_output) tp__mutex_unlock(&loop->mutex);
}

/* ---- reading and writing ---- */

/* The thread blocks SIGPIPE, so a child that closed its input causes EPIPE. */
static void write_input(tp_process_loop *loop, struct child *child) {
  if (child->on_output) {
    flush_queue(loop, child);
    return;
  }
  while (child->input_fd.fd >= 0) {
    if (child->input_written == child->input_size) break;
    ssize_t size =
        write(child->input_fd.fd, child->input + child->input_written, child->input_size - child->input_written);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size < 0) break;
    child->input_written += (size_t)size;
  }
  source_close(loop, &child->input_fd);
  tp__release(&loop->allocator, child->input, child->input_size);
  child->input = NULL;
}

/* Reads at most once: epoll reports again when there is more. Output that comes after the decision about the child's
 * end is discarded.
 * @return whether there may be more at once. */
static bool read_output(tp_process_loop *loop, struct child *child, struct source *source, struct buffer *buffer) {
  if (source->fd < 0) return false;
  ssize_t size = read(source->fd, loop->scratch, sizeof loop->scratch);
  if (size < 0) return errno == EINTR;
  if (size == 0) {
    source_close(loop, source);
    return false;
  }
  if (child->end == 0 && child->on_output && buffer == &child->output) {
    child->on_output(child->ctx, (tp_text){loop->scratch, (size_t)size});
    return true;
  }
  if (child->end == 0) buffer_add(&loop->allocator, buffer, loop->scratch, (size_t)size);
  if (child->on_output) buffer->is_over = false;
  return !buffer->is_over;
}

/* ---- deciding the end ---- */

static void decide(struct child *child, tp_process_end end, int64_t now_ns) {
  if (child->end != 0) return;
  child->end = end;
  child->ended_ns = now_ns;
}

/* A group without its leader must not be signalled by number, because the number may belong to another group. */
static void signal_group(const struct child *child, int number) {
  if (!child->is_reaped) kill(-child->pid, number);
}

static void kill_group(struct child *child, int64_t now_ns) {
  signal_group(child, SIGKILL);
  child->kill_ns = TP__NEVER;
  child->report_ns = tp__deadline_after_ms(now_ns, UNKILLABLE_MS);
}

static void stop_child(tp_process_loop *loop, struct child *child, tp_process_end end, uint32_t grace_ms,
                       int64_t now_ns) {
  if (child->end != 0) return;
  decide(child, end, now_ns);
  input_close(loop, child);
  if (grace_ms == 0) {
    kill_group(child, now_ns);
    return;
  }
  signal_group(child, SIGTERM);
  signal_group(child, SIGCONT);
  child->kill_ns = tp__deadline_after_ms(now_ns, grace_ms);
}

/* Reads how the child ended, and leaves it waitable, so that the kernel does not use the number of its group again. */
static bool ask_end(struct child *child) {
  siginfo_t info = {.si_pid = 0};
  if (waitid(P_PIDFD, (id_t)child->pidfd.fd, &info, WEXITED | WNOWAIT | WNOHANG) != 0) return false;
  child->exit_code = info.si_code == CLD_EXITED ? info.si_status : 0;
  child->signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
  return true;
}

/* The child has exited, so all that it wrote itself is in the pipes. */
static void child_exited(tp_process_loop *loop, struct child *child, int64_t now_ns) {
  bool is_known = ask_end(child);
  while (child->end == 0 && read_output(loop, child, &child->output_fd, &child->output)) {}
  while (child->end == 0 && read_output(loop, child, &child->errors_fd, &child->errors)) {}
  if (child->output.is_over || child->errors.is_over) decide(child, TP_PROCESS_OUTPUT_LIMIT, now_ns);
  tp_process_end end = child->signal != 0 ? TP_PROCESS_KILLED : TP_PROCESS_EXITED;
  decide(child, is_known ? end : TP_PROCESS_LOST, now_ns);
  if (is_known) signal_group(child, SIGKILL);
  /* Before its number may be used again. */
  tp__mutex_lock(&loop->mutex);
  if (child->is_supervised) tp__supervisor_remove(&loop->supervisor, child->pid);
  child->is_supervised = false;
  tp__mutex_unlock(&loop->mutex);
  if (is_known) {
    siginfo_t info;
    (void)waitid(P_PIDFD, (id_t)child->pidfd.fd, &info, WEXITED | WNOHANG);
  }
  child->is_reaped = true;
  child->kill_ns = child->report_ns = TP__NEVER;
  child->holders_ns = tp__deadline_after_ms(now_ns, HOLDERS_MS);
  source_close(loop, &child->pidfd);
  input_close(loop, child);
}

/* @return true when no process holds the pipes, or the holders have been dealt with. */
static bool holders_are_gone(struct child *child, int64_t now_ns) {
  if (child->output_fd.fd < 0 && child->errors_fd.fd < 0) return true;
  if (now_ns < child->holders_ns) return false;
  if (child->holders_rounds++ == HOLDERS_ROUNDS) return true;
  child->escaped += tp__kill_escaped(child->output_fd.fd, child->errors_fd.fd);
  child->holders_ns = tp__deadline_after_ms(now_ns, HOLDERS_MS);
  return false;
}

/* ---- reporting and freeing ---- */

static void child_report(struct child *child) {
  if (child->is_reported) return;
  child->is_reported = true;
  tp_process_result result = {
      .struct_size = sizeof result,
      .end = child->end,
      .exit_code = child->end == TP_PROCESS_EXITED ? child->exit_code : 0,
      .signal = child->end == TP_PROCESS_KILLED ? child->signal : 0,
      .escaped = child->escaped,
      .duration_ms = (child->ended_ns - child->started_ns) / TP__NS_PER_MS,
      .output = {child->output.bytes, child->output.size},
      .errors = {child->errors.bytes, child->errors.size},
  };
  child->on_end(child->ctx, &result);
}

/* The count falls before the callback, so that the callback may start the next child in the place of this one. */
static void child_ended(tp_process_loop *loop, struct child *child, bool is_last) {
  if (!child->is_reported) {
    tp__mutex_lock(&loop->mutex);
    loop->count--;
    tp__mutex_unlock(&loop->mutex);
  }
  if (is_last) {
    tp__mutex_lock(&loop->mutex);
    tp__list_remove(&child->link);
    tp__mutex_unlock(&loop->mutex);
    source_close(loop, &child->output_fd);
    source_close(loop, &child->errors_fd);
  }
  child_report(child);
  if (is_last) {
    const tp_allocator *allocator = &loop->allocator;
    source_close(loop, &child->pidfd);
    input_close(loop, child);
    source_close(loop, &child->output_fd);
    source_close(loop, &child->errors_fd);
    tp__release(allocator, child->input, child->input_size);
    tp__release(allocator, child->queue.bytes, child->queue.capacity);
    tp__release(allocator, child->output.bytes, child->output.capacity);
    tp__release(allocator, child->errors.bytes, child->errors.capacity);
    tp__release(allocator, child, sizeof *child);
  }
}

/* ---- the thread ---- */

static bool take_incoming(tp_process_loop *loop) {
  tp__mutex_lock(&loop->mutex);
  if (loop->was_woken) (void)tp__pollable_clear(&loop->wake); /* else it costs a system call for nothing */
  loop->was_woken = false;
  while (!tp__list_empty(&loop->incoming)) {
    tp__link *link = loop->incoming.next;
    tp__list_remove(link);
    tp__list_push(&loop->children, link);
  }
  bool is_stopping = loop->is_stopping;
  tp__mutex_unlock(&loop->mutex);
  return is_stopping;
}

/* If the kernel has no memory to watch the child, the child is killed and polled for its end. */
static void watch_child(tp_process_loop *loop, struct child *child) {
  child->is_registered = true;
  bool is_complete = (child->on_output || source_watch(loop, &child->input_fd, EPOLLOUT)) &&
                     source_watch(loop, &child->output_fd, EPOLLIN) && source_watch(loop, &child->errors_fd, EPOLLIN) &&
                     source_watch(loop, &child->pidfd, EPOLLIN);
  if (is_complete) {
    write_input(loop, child);
    return;
  }
  child->is_polled = true;
  stop_child(loop, child, TP_PROCESS_LOST, 0, tp__now_ns());
}

static void earlier(int64_t *at_ns, int64_t other_ns) {
  if (other_ns < *at_ns) *at_ns = other_ns;
}

/* One child: takes its next step if the time for it has come. @return false: the child is gone. Lowers *wake_ns to the
 * time of the next step. */
static bool child_step(tp_process_loop *loop, struct child *child, bool is_cancelled, int64_t *wake_ns) {
  int64_t now_ns = tp__now_ns();
  if (!child->is_registered) watch_child(loop, child);
  if (child->is_polled && !child->has_exited) {
    siginfo_t info = {.si_pid = 0};
    int error = waitid(P_PIDFD, (id_t)child->pidfd.fd, &info, WEXITED | WNOWAIT | WNOHANG);
    child->has_exited = error != 0 || info.si_pid != 0;
    earlier(wake_ns, tp__deadline_after_ms(now_ns, POLL_MS));
  }
  if (child->has_exited && !child->is_reaped) child_exited(loop, child, now_ns);
  if (child->is_reaped) {
    if (!child->is_reported && !holders_are_gone(child, now_ns)) {
      earlier(wake_ns, child->holders_ns);
      return true;
    }
    child_ended(loop, child, true);
    return false;
  }
  if (child->on_output) flush_queue(loop, child);
  if (is_cancelled) stop_child(loop, child, TP_PROCESS_CANCELLED, child->grace_ms, now_ns);
  if (child->output.is_over || child->errors.is_over)
    stop_child(loop, child, TP_PROCESS_OUTPUT_LIMIT, child->grace_ms, now_ns);
  if (now_ns >= child->deadline_ns) stop_child(loop, child, TP_PROCESS_TIMED_OUT, child->grace_ms, now_ns);
  if (now_ns >= child->kill_ns) kill_group(child, now_ns);
  if (!child->is_reported && now_ns >= child->report_ns) child_ended(loop, child, false);
  if (child->end == 0) earlier(wake_ns, child->deadline_ns);
  earlier(wake_ns, child->kill_ns);
  if (!child->is_reported) earlier(wake_ns, child->report_ns);
  return true;
}

/* While the loop is being freed, no child gets a grace period, and a child that the kernel does not let die stays. */
static void stop_now(tp_process_loop *loop, struct child *child, int64_t *wake_ns) {
  int64_t now_ns = tp__now_ns();
  stop_child(loop, child, TP_PROCESS_CANCELLED, 0, now_ns);
  if (child->kill_ns != TP__NEVER) kill_group(child, now_ns);
  int64_t abandon_ns = tp__deadline_after_ms(child->ended_ns, ABANDON_MS);
  earlier(wake_ns, abandon_ns);
  if (child->is_reported && now_ns >= abandon_ns) child_ended(loop, child, true);
}

/* Only this thread changes the list of children, so it may walk the list without the lock. It reads cancels under the
 * lock. */
static int64_t step_all(tp_process_loop *loop, bool is_stopping) {
  int64_t wake_ns = TP__NEVER;
  for (tp__link *link = loop->children.next, *next; link != &loop->children; link = next) {
    next = link->next;
    struct child *child = TP__CONTAINER(link, struct child, link);
    tp__mutex_lock(&loop->mutex);
    bool is_cancelled = child->is_cancelled;
    tp__mutex_unlock(&loop->mutex);
    if (is_stopping && !child->has_exited && !child->is_reaped) {
      stop_child(loop, child, TP_PROCESS_CANCELLED, 0, tp__now_ns());
    }
    if (child_step(loop, child, is_cancelled, &wake_ns) && is_stopping && !child->is_reaped) {
      stop_now(loop, child, &wake_ns);
    }
  }
  return wake_ns;
}

static void handle_event(tp_process_loop *loop, const struct epoll_event *event) {
  struct source *source = event->data.ptr;
  if (!source) { /* the wake-up: take_incoming() */
    loop->was_woken = true;
    return;
  }
  struct child *child = source->child;
  switch (source->kind) {
    case SOURCE_PIDFD:
      child->has_exited = true;
      break;
    case SOURCE_INPUT:
      write_input(loop, child);
      break;
    case SOURCE_OUTPUT:
      (void)read_output(loop, child, source, &child->output);
      break;
    case SOURCE_ERRORS:
      (void)read_output(loop, child, source, &child->errors);
      break;
    case SOURCE_WAKE:
      break;
  }
}

static int wait_ms(int64_t wake_ns) {
  if (wake_ns == TP__NEVER) return -1;
  int64_t left_ns = wake_ns - tp__now_ns();
  if (left_ns <= 0) return 0;
  int64_t left_ms = (left_ns + TP__NS_PER_MS - 1) / TP__NS_PER_MS;
  return left_ms > LIMIT_MS ? LIMIT_MS : (int)left_ms;
}

static void loop_fini(tp_process_loop *loop) {
  tp__supervisor_end(&loop->supervisor);
  close(loop->epoll);
  tp__pollable_fini(&loop->wake);
  tp__mutex_fini(&loop->mutex);
  tp_allocator allocator = loop->allocator;
  tp__release(&allocator, loop, sizeof *loop);
}

/* A child that another thread is starting is in no list yet. The loop waits for it, and then ends it. */
static bool is_done(tp_process_loop *loop) {
  tp__mutex_lock(&loop->mutex);
  bool has_children = !tp__list_empty(&loop->incoming) || !tp__list_empty(&loop->children);
  bool done = loop->is_stopping && !has_children && loop->count == 0;
  tp__mutex_unlock(&loop->mutex);
  return done;
}

static void loop_run(void *arg) {
  tp_process_loop *loop = arg;
  struct epoll_event events[EVENTS];
  tp__mutex_lock(&loop->mutex);
  loop->thread_number = tp__thread_number();
  tp__mutex_unlock(&loop->mutex);
  while (!is_done(loop)) {
    bool is_stopping = take_incoming(loop);
    int64_t wake_ns = step_all(loop, is_stopping);
    if (is_done(loop)) break;
    int count = epoll_wait(loop->epoll, events, EVENTS, wait_ms(wake_ns));
    for (int i = 0; i < count; i++) handle_event(loop, &events[i]);
  }
  tp__mutex_lock(&loop->mutex);
  bool frees_itself = loop->frees_itself;
  tp__mutex_unlock(&loop->mutex);
  if (frees_itself) loop_fini(loop);
}

/* ---- the API ---- */

static tp_status no_descriptor(tp_fault *fault) {
  int system_error = errno;
  (void)!tp__fail(fault, TP_ERR_SYSTEM, NULL, "no descriptor for the process loop: raise the limit of open files");
  if (fault) fault->system_error = system_error;
  return TP_ERR_SYSTEM;
}

static tp_status loop_open(tp_process_loop *loop, tp_fault *fault) {
  loop->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (loop->epoll < 0) return no_descriptor(fault);
  if (tp__pollable_init(&loop->wake) != TP_OK) {
    tp_status status = no_descriptor(fault);
    close(loop->epoll);
    return status;
  }
  struct epoll_event event = {.events = EPOLLIN};
  tp_status status = TP_OK;
  if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, tp__pollable_fd(&loop->wake), &event) != 0) status = no_descriptor(fault);
  if (status == TP_OK) {
    status = tp__mutex_init(&loop->mutex, TP__RANK_process_loop);
    if (status != TP_OK) (void)!tp__fail(fault, status, NULL, "no lock for the process loop");
  }
  if (status == TP_OK) return TP_OK;
  tp__pollable_fini(&loop->wake);
  close(loop->epoll);
  return status;
}

tp_status tp_process_loop_new(const tp_process_loop_options *theirs, tp_process_loop **ret_loop, tp_fault *fault) {
  tp_process_loop_options options = {0};
  if (theirs) TP__TRY(tp__options_read(&options, sizeof options, theirs, "tp_process_loop_options", fault));
  if (options.reserved_ != 0)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_process_loop_options.reserved_ must be zero");
  if (options.processes_max > PROCESSES_LIMIT)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_process_loop_options.processes_max is %u: at most %d",
                    options.processes_max, PROCESSES_LIMIT);
  tp_allocator allocator = tp__allocator_of(&options.allocator);
  tp_process_loop *loop = tp__alloc_zero(&allocator, sizeof *loop);
  if (!loop) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the process loop");
  loop->allocator = allocator;
  loop->processes_max = options.processes_max > 0 ? options.processes_max : PROCESSES_MAX;
  loop->process_generation = tp__process_generation();
  tp__list_init(&loop->incoming);
  tp__list_init(&loop->children);
  tp_status status = loop_open(loop, fault);
  if (status != TP_OK) {
    tp__release(&allocator, loop, sizeof *loop);
    return status;
  }
  *ret_loop = loop;
  return TP_OK;
}

/* @return whether the caller is the loop's own thread: then the children are killed, but have not ended yet. */
static bool end_all(tp_process_loop *loop) {
  tp__mutex_lock(&loop->mutex);
  tp__thread *thread = loop->thread;
  bool is_inside = thread && loop->thread_number == tp__thread_number();
  if (!is_inside) {
    loop->is_stopping = true;
    loop->thread = NULL;
    tp__pollable_set(&loop->wake);
  }
  tp__mutex_unlock(&loop->mutex);
  if (is_inside) {
    /* On the loop's thread: the thread walks its children later. */
    for (tp__link *link = loop->children.next; link != &loop->children; link = link->next) {
      struct child *child = TP__CONTAINER(link, struct child, link);
      if (!child->has_exited) signal_group(child, SIGKILL);
    }
  } else if (thread) tp__thread_join(thread);
  return is_inside;
}

void tp_process_loop_end(tp_process_loop *loop) {
  if (!loop || loop->process_generation != tp__process_generation() || end_all(loop)) return;
  tp__mutex_lock(&loop->mutex);
  loop->is_stopping = false;
  tp__mutex_unlock(&loop->mutex);
}

void tp_process_loop_free(tp_process_loop *loop) {
  if (!loop || loop->process_generation != tp__process_generation()) return;
  if (!end_all(loop)) {
    loop_fini(loop);
    return;
  }
  tp__mutex_lock(&loop->mutex);
  loop->is_stopping = loop->frees_itself = true;
  tp__thread *thread = loop->thread;
  tp__mutex_unlock(&loop->mutex);
  tp__thread_detach(thread);
}

size_t tp_process_loop_count(tp_process_loop *loop) {
  if (!loop || loop->process_generation != tp__process_generation()) return 0;
  tp__mutex_lock(&loop->mutex);
  size_t count = loop->count;
  tp__mutex_unlock(&loop->mutex);
  return count;
}

const char *tp_process_end_name(tp_process_end end) {
  static const char *const names[] = {[TP_PROCESS_EXITED] = "exited",       [TP_PROCESS_KILLED] = "killed",
                                      [TP_PROCESS_TIMED_OUT] = "timed_out", [TP_PROCESS_OUTPUT_LIMIT] = "output_limit",
                                      [TP_PROCESS_CANCELLED] = "cancelled", [TP_PROCESS_LOST] = "lost"};
  return TP__NAME_AT(names, end, "unknown");
}

static tp_status above(const char *field, uint32_t number, uint32_t most, tp_fault *fault) {
  return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_process_options.%s is %u: at most %u", field, number, most);
}

static tp_status options_read(tp_process_options *options, const tp_process_options *theirs, tp_fault *fault) {
  *options = (tp_process_options){0};
  if (!theirs) return tp__fail(fault, TP_ERR_USAGE, NULL, "a process needs its options");
  TP__TRY(tp__options_read(options, sizeof *options, theirs, "tp_process_options", fault));
  if (!options->arguments || !options->arguments[0] || !options->arguments[0][0])
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "tp_process_options.arguments is empty: its first is the program's path");
  if (options->grace_ms > GRACE_MS_MAX) return above("grace_ms", options->grace_ms, GRACE_MS_MAX, fault);
  if (options->output_max > OUTPUT_LIMIT) return above("output_max", options->output_max, OUTPUT_LIMIT, fault);
  if (options->errors_max > OUTPUT_LIMIT) return above("errors_max", options->errors_max, OUTPUT_LIMIT, fault);
  if (options->on_output && (options->output_max > 0 || options->input.size > 0))
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "tp_process_options.output_max and input are not for a resident child (on_output)");
  if (options->limit_ms == 0 && !options->on_output) options->limit_ms = LIMIT_MS;
  if (options->grace_ms == 0) options->grace_ms = GRACE_MS;
  if (options->output_max == 0) options->output_max = OUTPUT_MAX;
  if (options->errors_max == 0) options->errors_max = OUTPUT_MAX;
  return TP_OK;
}

/* A new supervisor, also one that replaces an ended one, is told all running groups. */
static void supervise_locked(tp_process_loop *loop) {
  TP__LOCKED(&loop->mutex);
  tp__link *const lists[] = {&loop->children, &loop->incoming};
  if (!tp__supervisor_start(&loop->supervisor)) return;
  for (int i = 0; i < 2; i++)
    for (tp__link *link = lists[i]->next; link != lists[i]; link = link->next) {
      struct child *child = TP__CONTAINER(link, struct child, link);
      if (child->is_supervised) tp__supervisor_add(&loop->supervisor, child->pid);
    }
}

/* Reserves a place among the children, and starts the thread with the first child. */
static tp_status place_take(tp_process_loop *loop, uint64_t *ret_id, tp_fault *fault) {
  tp__mutex_lock(&loop->mutex);
  tp_status status = TP_OK;
  if (loop->is_stopping) {
    status = TP_ERR_SHUTDOWN;
  } else if (loop->count == loop->processes_max) {
    status = TP_ERR_FULL;
  } else if (!loop->thread) {
    loop->thread_number = UINT32_MAX; /* the thread sets its own number before its first callback */
    status = tp__thread_start(&loop->allocator, "tp-process", loop_run, loop, &loop->thread);
  }
  if (status == TP_OK) {
    supervise_locked(loop);
    loop->count++;
    *ret_id = ++loop->last_id;
  }
  tp__mutex_unlock(&loop->mutex);
  if (status == TP_OK) return TP_OK;
  if (status == TP_ERR_FULL)
    return tp__fail(fault, status, NULL, "%u children run: tp_process_loop_options.processes_max", loop->processes_max);
  return tp__fail(fault, status, NULL, "no child can be started: %s", tp_status_text(status));
}

static tp_status child_new(tp_process_loop *loop, const tp_process_options *options, struct child **ret_child,
                           tp_fault *fault) {
  struct child *child = tp__alloc_zero(&loop->allocator, sizeof *child);
  if (child && options->input.size > 0) {
    child->input_size = options->input.size;
    child->input = tp__alloc(&loop->allocator, child->input_size);
    if (!child->input) {
      tp__release(&loop->allocator, child, sizeof *child);
      child = NULL;
    }
  }
  if (!child) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a child process");
  if (child->input) memcpy(child->input, options->input.data, child->input_size);
  child->on_output = options->on_output;
  child->queue.max = TP_PROCESS_QUEUE_MAX;
  child->output.max = options->output_max;
  child->errors.max = options->errors_max;
  child->grace_ms = options->grace_ms;
  child->kill_ns = child->report_ns = TP__NEVER;
  *ret_child = child;
  return TP_OK;
}

static void child_publish(tp_process_loop *loop, struct child *child, const tp__spawned *spawned) {
  child->pid = spawned->pid;
  child->pidfd = (struct source){SOURCE_PIDFD, spawned->pidfd, child};
  child->input_fd = (struct source){SOURCE_INPUT, spawned->input, child};
  child->output_fd = (struct source){SOURCE_OUTPUT, spawned->output, child};
  child->errors_fd = (struct source){SOURCE_ERRORS, spawned->errors, child};
  tp__mutex_lock(&loop->mutex);
  tp__supervisor_add(&loop->supervisor, child->pid);
  child->is_supervised = true;
  tp__list_push(&loop->incoming, &child->link);
  tp__pollable_set(&loop->wake);
  tp__mutex_unlock(&loop->mutex);
}

tp_status tp_process_start(tp_process_loop *loop, const tp_process_options *theirs, tp_process_end_fn on_end, void *ctx,
                           uint64_t *ret_id, tp_fault *fault) {
  tp_process_options options;
  if (!loop || !on_end) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_process_start() needs a loop and an on_end");
  if (loop->process_generation != tp__process_generation())
    return tp__fail(fault, TP_ERR_FORKED, NULL, "the process loop belongs to the parent of this process");
  TP__TRY(options_read(&options, theirs, fault));
  struct child *child = NULL;
  uint64_t id = 0;
  int64_t started_ns = tp__now_ns();
  TP__TRY(child_new(loop, &options, &child, fault));
  tp_status status = place_take(loop, &id, fault);
  tp__spawned spawned;
  if (status == TP_OK) {
    status = tp__spawn(&options, &spawned, fault);
    if (status != TP_OK) {
      tp__mutex_lock(&loop->mutex);
      loop->count--;
      tp__pollable_set(&loop->wake); /* its thread may wait for this start */
      tp__mutex_unlock(&loop->mutex);
    }
  }
  if (status != TP_OK) {
    tp__release(&loop->allocator, child->input, child->input_size);
    tp__release(&loop->allocator, child, sizeof *child);
    return status;
  }
  child->id = id;
  child->on_end = on_end;
  child->ctx = ctx;
  child->started_ns = started_ns;
  child->deadline_ns = options.limit_ms > 0 ? tp__deadline_after_ms(started_ns, options.limit_ms) : TP__NEVER;
  if (ret_id) *ret_id = id;
  child_publish(loop, child, &spawned);
  return TP_OK;
}

static struct child *find_in(tp__link *list, uint64_t id) {
  for (tp__link *link = list->next; link != list; link = link->next) {
    struct child *child = TP__CONTAINER(link, struct child, link);
    if (child->id == id) return child;
  }
  return NULL;
}

static struct child *find_child_locked(tp_process_loop *loop, uint64_t id) {
  TP__LOCKED(&loop->mutex);
  struct child *child = find_in(&loop->children, id);
  return child ? child : find_in(&loop->incoming, id);
}

void tp_process_cancel(tp_process_loop *loop, uint64_t id) {
  if (!loop || loop->process_generation != tp__process_generation()) return;
  tp__mutex_lock(&loop->mutex);
  struct child *child = find_child_locked(loop, id);
  if (child) {
    child->is_cancelled = true;
    tp__pollable_set(&loop->wake);
  }
  tp__mutex_unlock(&loop->mutex);
}

/* The caller sends as much as it can at once; the thread of the loop sends only the rest. */
static tp_status write_locked(tp_process_loop *loop, struct child *child, tp_text bytes) {
  TP__LOCKED(&loop->mutex);
  size_t sent = 0;
  if (bytes.size > child->queue.max - child->queue.size) return TP_ERR_FULL;
  if (!buffer_reserve(&loop->allocator, &child->queue, child->queue.size + bytes.size)) return TP_ERR_NO_MEMORY;
  if (child->queue.size == 0) send_input_locked(loop, child, bytes.data, bytes.size, &sent);
  if (child->input_fd.fd < 0) return TP_ERR_STALE;
  if (sent == bytes.size) return TP_OK;
  buffer_add(&loop->allocator, &child->queue, bytes.data + sent, bytes.size - sent);
  tp__pollable_set(&loop->wake);
  return TP_OK;
}

tp_status tp_process_write(tp_process_loop *loop, uint64_t id, tp_text bytes) {
  if (!loop || (bytes.size > 0 && !bytes.data)) return TP_ERR_USAGE;
  if (loop->process_generation != tp__process_generation()) return TP_ERR_FORKED;
  tp__mutex_lock(&loop->mutex);
  struct child *child = find_child_locked(loop, id);
  bool is_open = child && child->on_output && child->input_fd.fd >= 0 && !child->closes_input;
  tp_status status = is_open ? write_locked(loop, child, bytes) : TP_ERR_STALE;
  tp__mutex_unlock(&loop->mutex);
  return status;
}

void tp_process_close_input(tp_process_loop *loop, uint64_t id) {
  if (!loop || loop->process_generation != tp__process_generation()) return;
  tp__mutex_lock(&loop->mutex);
  struct child *child = find_child_locked(loop, id);
  if (child && child->on_output) {
    child->closes_input = true;
    if (child->input_fd.fd >= 0) queue_send_locked(loop, child);
  }
  tp__mutex_unlock(&loop->mutex);
}
