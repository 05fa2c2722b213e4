/* SPDX-License-Identifier: Apache-2.0
 *
 * turnphase.hpp: a few classes over the C headers (C++17): a runtime and a session that end themselves, faults as
 * exceptions, and callbacks that let no exception cross into C: one that throws returns 0, which is no answer, so that
 * a required guard that throws denies. What is given to the library lives until the library destroys it. */
#ifndef EXAMPLE_TURNPHASE_HPP
#define EXAMPLE_TURNPHASE_HPP

#include <turnphase/turnphase.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace turnphase {

struct error : std::runtime_error {
  explicit error(const tp_fault &fault) : std::runtime_error(fault.message), status(fault.code) {}
  tp_status status;
};

inline std::string_view view(tp_text text) { return {text.size ? text.data : "", text.size}; }
inline tp_text text(std::string_view words) { return {words.data(), words.size()}; }

/** Calls a function whose last parameter is a fault. */
template <typename Function, typename... Arguments>
void call(Function function, Arguments... arguments) {
  tp_fault fault{};
  if (function(arguments..., &fault) != TP_OK) throw error(fault);
}

using handler = std::function<tp_answer(tp_call *)>;
using tool = std::function<tp_answer(tp_tool_run *)>;
using match = std::function<bool(const tp_match_view *)>;
using listener = std::function<void(const tp_event *)>;

inline tp_answer run_handler(void *ctx, tp_call *call) noexcept {
  try {
    return (*static_cast<handler *>(ctx))(call);
  } catch (...) {
    return TP_ANSWER_NONE;
  }
}
inline tp_answer run_tool(void *ctx, tp_tool_run *run) noexcept {
  try {
    return (*static_cast<tool *>(ctx))(run);
  } catch (...) {
    return TP_ANSWER_NONE;
  }
}
inline int32_t run_match(void *ctx, const tp_match_view *seen) noexcept {
  try {
    return (*static_cast<match *>(ctx))(seen) ? TP_MATCH_YES : TP_MATCH_NO;
  } catch (...) {
    return TP_MATCH_NONE;
  }
}
inline void run_listener(void *ctx, const tp_event *event) noexcept {
  try {
    (*static_cast<listener *>(ctx))(event);
  } catch (...) {
    /* an event wants no answer */
  }
}
template <typename Kind>
void destroy(void *ctx) {
  delete static_cast<Kind *>(ctx);
}

class runtime {
 public:
  runtime() { call(tp_runtime_new, static_cast<const tp_runtime_options *>(nullptr), &handle_); }
  ~runtime() { tp_runtime_free(handle_); }
  runtime(const runtime &) = delete;
  runtime &operator=(const runtime &) = delete;
  tp_runtime *get() const { return handle_; }

  void add(const char *id, const char *phase, tp_failure failure, handler run, match matches = nullptr) {
    auto self = std::make_unique<handler>(std::move(run));
    auto ctx = std::make_unique<match>(std::move(matches));
    tp_match matching{};
    matching.struct_size = sizeof matching;
    matching.matches = run_match;
    matching.destroy = destroy<match>;
    matching.ctx = ctx.get();
    matching.description = "a closure";
    tp_hook hook{};
    hook.struct_size = sizeof hook;
    hook.id = id;
    hook.phase = phase;
    hook.run = run_handler;
    hook.ctx = self.get();
    hook.destroy = destroy<handler>;
    hook.failure = failure;
    if (*ctx) hook.match = &matching;
    call(tp_hook_add, handle_, const_cast<const tp_hook *>(&hook));
    (void)self.release(); /* taken on success only */
    if (hook.match) (void)ctx.release();
  }

  void add_tool(const char *name, tool run) {
    auto self = std::make_unique<tool>(std::move(run));
    tp_tool described{};
    described.struct_size = sizeof described;
    described.name = name;
    described.run = run_tool;
    described.ctx = self.get();
    described.destroy = destroy<tool>;
    call(tp_tool_add, handle_, const_cast<const tp_tool *>(&described));
    (void)self.release();
  }

 private:
  tp_runtime *handle_ = nullptr;
};

class session {
 public:
  session(const runtime &of, const char *id, tp_model *model, listener on_event) {
    tp_session_options options{};
    options.struct_size = sizeof options;
    options.id = id;
    options.model = model;
    try {
      call(tp_session_open, of.get(), const_cast<const tp_session_options *>(&options), &handle_);
    } catch (...) {
      tp_model_free(model);
      throw;
    }
    auto self = std::make_unique<listener>(std::move(on_event));
    tp_listener described{};
    described.struct_size = sizeof described;
    described.on_event = run_listener;
    described.ctx = self.get();
    described.destroy = destroy<listener>;
    try {
      call(tp_session_listen, handle_, const_cast<const tp_listener *>(&described), static_cast<uint64_t *>(nullptr));
    } catch (...) {
      tp_session_close(handle_, nullptr, nullptr);
      throw;
    }
    (void)self.release();
  }
  ~session() { tp_session_close(handle_, nullptr, nullptr); }
  session(const session &) = delete;
  session &operator=(const session &) = delete;

  using result = std::unique_ptr<const tp_turn_result, void (*)(const tp_turn_result *)>;
  result run(std::string_view words) {
    const tp_turn_result *ended = nullptr;
    tp_turn_request request{};
    request.struct_size = sizeof request;
    request.text = text(words);
    call(tp_turn_run, handle_, const_cast<const tp_turn_request *>(&request), &ended);
    return {ended, tp_turn_result_free};
  }

 private:
  tp_session *handle_ = nullptr;
};

} // namespace turnphase

#endif
