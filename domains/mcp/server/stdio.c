/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "domains/mcp/lines.h"
#include "domains/mcp/server/server.h"
#include "support/clock.h"

enum { READ_BYTES = 64 << 10, OUT_BYTES_MAX = 64 << 20, FLUSH_LIMIT_MS = 2000 };

/** The one sink of stdio. */
typedef struct pipe_sink {
  tp__mcp_sink sink;
  /* never change while the thread runs */
  tp_mcp_server *server;
  int input, output, wake_fd;
  pthread_t thread;
  bool runs;
  /* used by the thread only */
  tp__mcp_lines lines;
  tp__lock lock;
  /* under lock */
  tp__bytes out;
  size_t out_at;
  bool waits; /* set while the thread waits, or is about to; else the thread looks before it waits */
  bool closed, stops;
} pipe_sink;

static void forget_written_locked(pipe_sink *p, size_t size) {
  TP__LOCKED(&p->lock);
  p->out_at += size;
  if (p->out_at < p->out.size) return;
  tp__bytes_clear(&p->out);
  p->out_at = 0;
}

/* As write(), but for a pipe that nothing reads: the thread, which may be the host's, gets no SIGPIPE. */
static ssize_t write_quietly(int fd, const void *bytes, size_t size) {
  const struct timespec none = {0};
  sigset_t pipe_signal, before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  ssize_t written = write(fd, bytes, size);
  if (sigismember(&before, SIGPIPE)) return written;
  if (written < 0 && errno == EPIPE) (void)sigtimedwait(&pipe_signal, NULL, &none);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return written;
}

/* Writes small messages at once, so that the thread need not wake for them: a descriptor that is ready accepts PIPE_BUF
 * bytes without waiting. The thread handles bytes that are left, and errors. */
static void write_now_locked(pipe_sink *p) {
  struct pollfd ready = {.fd = p->output, .events = POLLOUT};
  TP__LOCKED(&p->lock);
  if (p->out.size > PIPE_BUF || poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT)) return;
  ssize_t written = write_quietly(p->output, p->out.data, p->out.size);
  if (written > 0) forget_written_locked(p, (size_t)written);
}

static void pipe_send(tp__mcp_sink *sink, tp_text json, bool is_last, unsigned status) {
  pipe_sink *p = (pipe_sink *)sink;
  const uint64_t one = 1;
  (void)is_last, (void)status;
  tp__lock_acquire(&p->lock);
  bool was_empty = p->out.size == p->out_at; /* else the thread waits to write, or was woken */
  bool was_closed = p->closed;
  if (!p->closed && p->out.size - p->out_at + json.size < OUT_BYTES_MAX) {
    tp__bytes_put_text(&p->out, json);
    tp__bytes_put_string(&p->out, "\n");
    p->closed = p->out.failed; /* after half a message nothing can be sent any more */
  } else {
    p->closed = true; /* the client does not read */
  }
  if (was_empty && p->waits && !p->closed) write_now_locked(p);
  bool wakes = p->waits && ((p->closed && !was_closed) || (was_empty && p->out.size > p->out_at));
  tp__lock_release(&p->lock);
  if (wakes) (void)!write(p->wake_fd, &one, sizeof one);
}

static void pipe_drop(tp__mcp_sink *sink) { (void)sink; }

static void pipe_free(tp__mcp_sink *sink) {
  pipe_sink *p = (pipe_sink *)sink;
  assert(!p->runs);
  if (p->wake_fd >= 0) close(p->wake_fd);
  tp__mcp_lines_fini(&p->lines);
  tp__bytes_fini(&p->out);
  tp__lock_fini(&p->lock);
  tp__heap_free(p, sizeof *p);
}

/* ---- lines ---- */

static tp__mcp_server_session *session_of(tp_mcp_server *server, const tp__mcp_message *message) {
  tp_text meta = tp_value_get(message->params, "_meta");
  bool is_modern = tp_value_get(meta, "io.modelcontextprotocol/protocolVersion").size > 0 ||
                   tp__is_word(message->method, "server/discover");
  return is_modern ? NULL : server->stdio_session;
}

static void refuse_lost(void *ctx, bool is_too_long) {
  pipe_sink *p = ctx;
  tp__mcp_message message = {.kind = TP__MCP_BROKEN, .code = TP__MCP_INVALID_REQUEST};
  if (!is_too_long) message.code = TP__MCP_INTERNAL_ERROR;
  tp__mcp_answer_broken(&p->sink, &message,
                        is_too_long ? "a message is longer than this server takes" : "there is no memory for a message",
                        false);
}

static void take_line(void *ctx, tp_text line) {
  pipe_sink *p = ctx;
  tp_writer *writer = NULL;
  tp__mcp_packet packet;
  tp__mcp_message message = {0};
  tp_fault fault = {0};
  bool taken = false;
  while (line.size > 0 && strchr(" \t\r", line.data[line.size - 1])) line.size--;
  if (line.size == 0) return;
  if (tp_writer_new(NULL, &writer) != TP_OK) {
    refuse_lost(p, false);
    return;
  }
  tp__lock_acquire(&p->server->lock);
  tp_mcp_version version = p->server->stdio_session->version;
  tp__lock_release(&p->server->lock);
  if (!tp__mcp_decode(line, TP__MCP_MESSAGE_BYTES_MAX, version, writer, &packet, &message, &fault))
    tp__mcp_answer_unread(&p->sink, line, &message, fault.message, false);
  else if (packet.is_batch) tp__mcp_dispatch_batch(p->server, &p->sink, p->server->stdio_session, "stdio", &packet);
  else if (tp__mcp_next(&packet, &message, &fault)) {
    if (message.kind == TP__MCP_BROKEN) tp__mcp_answer_broken(&p->sink, &message, fault.message, false);
    else taken = tp__mcp_dispatch(p->server, &p->sink, session_of(p->server, &message), "stdio", &message, writer);
  }
  if (!taken) tp_writer_free(writer);
}

/* ---- the thread ---- */

/* Writes what a descriptor takes without waiting: at most PIPE_BUF bytes of a pipe that is ready. @return false: it is
 * closed. */
static bool write_out(pipe_sink *p) {
  char piece[PIPE_BUF];
  tp__lock_acquire(&p->lock);
  size_t size = p->out.size - p->out_at;
  if (size > sizeof piece) size = sizeof piece;
  if (size > 0) memcpy(piece, p->out.data + p->out_at, size);
  tp__lock_release(&p->lock);
  ssize_t written = size > 0 ? write(p->output, piece, size) : 0;
  if (written < 0) return errno == EAGAIN || errno == EINTR;
  tp__lock_acquire(&p->lock);
  forget_written_locked(p, (size_t)written);
  tp__lock_release(&p->lock);
  return true;
}

/* Checks what to do before the thread waits. @return whether it stops. */
static bool look(pipe_sink *p, bool *ret_writes, bool *ret_closed) {
  tp__lock_acquire(&p->lock);
  p->waits = true;
  *ret_writes = p->out.size > p->out_at && !p->closed;
  *ret_closed = p->closed;
  bool stops = p->stops || p->closed;
  tp__lock_release(&p->lock);
  return stops;
}

/* @return false: the input has ended. */
static bool read_in(pipe_sink *p) {
  char bytes[READ_BYTES];
  ssize_t size = read(p->input, bytes, sizeof bytes);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  if (size > 0) tp__mcp_lines_feed(&p->lines, (tp_text){bytes, (size_t)size});
  return size > 0;
}

static void end_wait(pipe_sink *p) {
  tp__lock_acquire(&p->lock);
  p->waits = false;
  tp__lock_release(&p->lock);
}

/* Handles the end of the input: the client's last requests are still answered. */
static void end_input(pipe_sink *p) {
  if (p->server->options.on_end) p->server->options.on_end(p->server->options.ctx);
}

static void *run_pipe(void *ctx) {
  pipe_sink *p = ctx;
  bool reads = true, writes = false, stops = false, closed = false;
  int64_t stop_ms = INT64_MAX;
  for (;;) {
    bool had_stopped = stops;
    stops = look(p, &writes, &closed);
    if (stops && !had_stopped) {
      stop_ms = tp__monotonic_ms() + FLUSH_LIMIT_MS;
      if (reads && closed) end_input(p); /* the output is closed */
    }
    if ((stops && !writes) || tp__monotonic_ms() >= stop_ms) break;
    struct pollfd fds[] = {{.fd = p->wake_fd, .events = POLLIN},
                           {.fd = reads && !stops ? p->input : -1, .events = POLLIN},
                           {.fd = writes ? p->output : -1, .events = POLLOUT}};
    uint64_t count;
    if (poll(fds, 3, stops ? FLUSH_LIMIT_MS : -1) < 0 && errno != EINTR) break;
    end_wait(p);
    if (fds[0].revents) (void)!read(p->wake_fd, &count, sizeof count);
    if (fds[2].revents && !write_out(p)) {
      tp__lock_acquire(&p->lock);
      p->closed = true;
      tp__lock_release(&p->lock);
    }
    if (fds[1].revents && !read_in(p)) {
      reads = false;
      end_input(p);
    }
  }
  end_wait(p);
  return NULL;
}

tp_status tp__mcp_stdio_start(tp_mcp_server *server, tp_fault *fault) {
  pipe_sink *p = tp__heap_alloc(sizeof *p);
  tp__mcp_server_session *session = tp__heap_alloc(sizeof *session);
  if (!p || !session) {
    tp__heap_free(p, sizeof *p);
    tp__heap_free(session, sizeof *session);
    return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for stdio");
  }
  tp__references_init(&p->sink.refs);
  p->sink.send = pipe_send;
  p->sink.drop = pipe_drop;
  p->sink.free = pipe_free;
  p->sink.can_stream = true;
  p->server = server;
  p->lines =
      (tp__mcp_lines){.on_line = take_line, .on_lost = refuse_lost, .ctx = p, .bytes_max = TP__MCP_MESSAGE_BYTES_MAX};
  p->input = server->options.input;
  p->output = server->options.output;
  tp__lock_init(&p->lock, TP__LOCK_mcp_sink);
  tp__references_init(&session->refs);
  session->log_level = 1;
  session->stream = &p->sink;
  tp__mcp_sink_ref(&p->sink);
  server->stdio = &p->sink;
  server->stdio_session = session;
  p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int error = p->wake_fd < 0 ? errno : tp__thread_spawn(&p->thread, run_pipe, p);
  p->runs = error == 0;
  return error ? tp__refuse_errno(fault, TP_ERR_NO_THREAD, NULL, error, "no thread for stdio") : TP_OK;
}

void tp__mcp_stdio_stop(tp_mcp_server *server) {
  pipe_sink *p = (pipe_sink *)server->stdio;
  const uint64_t one = 1;
  tp__lock_acquire(&p->lock);
  p->stops = true;
  tp__lock_release(&p->lock);
  (void)!write(p->wake_fd, &one, sizeof one);
  if (p->runs) pthread_join(p->thread, NULL);
  p->runs = false;
}
