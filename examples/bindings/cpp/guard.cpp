/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.cpp: a guard, a match and a tool in C++, each of which also throws: denied, denied, handler_error. Another tool
 * answers with an image. */
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "examples/bindings/cpp/turnphase.hpp"

using namespace turnphase;

static void check(const char *what, bool holds) {
  std::printf("%s: %s\n", holds ? "ok" : "WRONG", what);
  if (!holds) std::exit(1);
}

static bool denied_by(const tp_turn_result &ended, std::string_view subscription) {
  return ended.outcome == TP_TURN_DENIED && view(ended.subscription) == subscription;
}

/* Required, and without an answer: a server says 503 in place of 403. */
static bool failed(const tp_turn_result &ended) {
  return ended.state == TP_STATE_FAILED && ended.why == TP_REASON_MALFORMED;
}

static tp_model *script_model() {
  tp_tool_call broken{}, chart{};
  broken.struct_size = chart.struct_size = sizeof broken;
  broken.name = text("broken");
  chart.name = text("chart");
  const tp_tool_call *calls[] = {&broken, &chart};
  tp_model_response asks{}, says{};
  asks.struct_size = says.struct_size = sizeof asks;
  asks.calls = calls;
  asks.call_count = 2;
  says.text = text("It is done.");
  const tp_model_response *responses[] = {&asks, &says};
  tp_model *model = nullptr;
  call(tp_script_model_new, static_cast<const tp_model_response *const *>(responses), size_t{2}, true, &model);
  return model;
}

static tp_answer chart(tp_tool_run *run) {
  tp_part image{};
  image.struct_size = sizeof image;
  image.kind = TP_PART_IMAGE;
  image.bytes = text("\x89PNG\r\n\x1a\n");
  image.media_type = text("image/png");
  const tp_part *parts[] = {&image};
  tp_tool_answer answer{};
  answer.struct_size = sizeof answer;
  answer.text = text("Two peaks.");
  answer.parts = parts;
  answer.part_count = 1;
  return tp_tool_answer_with(run, &answer, nullptr);
}

/* The media type of a result's only part. */
static std::string media_type(const tp_tool_result &result) {
  tp_part part{};
  part.struct_size = sizeof part;
  if (tp_value_count(result.parts) != 1) return "";
  return tp_part_read(tp_value_at(result.parts, 0), &part, nullptr) == TP_OK ? std::string(view(part.media_type)) : "";
}

static void play() {
  std::map<std::string, tp_tool_result_kind> kinds;
  std::string image;
  runtime host;
  host.add("guard", "turn.intake", TP_FAILURE_REQUIRED, [](tp_call *call) {
    std::string_view words = view(tp_call_text(call, TP_FIELD_TEXT));
    if (words == "throw") throw std::runtime_error("a guard that throws");
    return words == "deny" ? tp_call_deny(call, "not today") : tp_call_allow(call);
  });
  host.add_tool("broken", [](tp_tool_run *) -> tp_answer { throw std::runtime_error("a tool that throws"); });
  host.add_tool("chart", chart);
  session talk(host, "first", script_model(), [&](const tp_event *event) {
    if (event->kind != TP_EVENT_TOOL_END) return;
    kinds[std::string(view(event->tool_result->name))] = event->tool_result->kind;
    image += media_type(*event->tool_result);
  });

  auto done = talk.run("hello");
  check("a turn completes", done->outcome == TP_TURN_COMPLETED && view(done->text) == "It is done.");
  check("a tool that throws is a handler_error", kinds["broken"] == TP_TOOL_HANDLER_ERROR);
  check("a tool answers with an image", kinds["chart"] == TP_TOOL_OK && image == "image/png");
  auto denied = talk.run("deny");
  check("a guard denies", denied_by(*denied, "guard") && view(denied->bare_reason) == "not today" &&
                              denied->state == TP_STATE_SUCCEEDED && denied->why == TP_REASON_NONE);
  auto thrown = talk.run("throw");
  check("a guard that throws denies", denied_by(*thrown, "guard") && failed(*thrown));
  host.add(
      "strict", "turn.intake", TP_FAILURE_REQUIRED, [](tp_call *call) { return tp_call_deny(call, "never"); },
      [](const tp_match_view *) -> bool { throw std::runtime_error("a match that throws"); });
  auto unmatched = talk.run("hello");
  check("a match that throws denies", denied_by(*unmatched, "strict") && failed(*unmatched));
  bool refused = false;
  try {
    host.add("nowhere", "no.such.phase", TP_FAILURE_DEFAULT, [](tp_call *) { return TP_ANSWER_DONE; });
  } catch (const error &what) {
    refused = what.status == TP_ERR_UNKNOWN_PHASE;
  }
  check("a refusal is an exception with the words of the fault", refused);
}

int main() {
  try {
    play();
  } catch (const std::exception &what) {
    std::fprintf(stderr, "%s\n", what.what());
    return 1;
  }
}
