// SPDX-License-Identifier: Apache-2.0

// Hooks, tools and models as functions of Go. Everything comes through one inbox (turnphase/inbox.h), so that C calls
// no function of Go, and no thread of the library waits for one. One goroutine sleeps in Go's own poller until there
// is something; each call has a goroutine of its own, which may wait for as long as its limit lasts.
package main

/*
#cgo pkg-config: turnphase
#include <stdlib.h>
#include <turnphase/turnphase.h>

// C keeps no pointer of Go: a key of a map instead.
static void *key_of(uintptr_t key) { return (void *)key; }
static uintptr_t number_of(void *ctx) { return (uintptr_t)ctx; }

static tp_status add_hook(tp_runtime *runtime, tp_inbox *inbox, const char *id, const char *phase, tp_failure failure,
                          uint32_t limit_ms, uintptr_t key, tp_fault *fault) {
  const tp_hook hook = {.struct_size = sizeof hook, .id = id, .phase = phase, .failure = failure,
                        .limit_ms = limit_ms, .inbox = inbox, .ctx = key_of(key)};
  return tp_hook_add(runtime, &hook, fault);
}

static tp_status add_tool(tp_runtime *runtime, tp_inbox *inbox, const char *name, const char *schema, uintptr_t key,
                          tp_fault *fault) {
  const tp_tool tool = {.struct_size = sizeof tool, .name = name, .schema_json = schema, .inbox = inbox,
                        .ctx = key_of(key)};
  return tp_tool_add(runtime, &tool, fault);
}

static tp_status open_session(tp_runtime *runtime, tp_inbox *inbox, const char *id, uintptr_t key,
                              tp_session **session, tp_fault *fault) {
  const tp_model model = {.struct_size = sizeof model, .name = "go", .inbox = inbox, .ctx = key_of(key)};
  const tp_session_options options = {.struct_size = sizeof options, .id = id, .model = &model};
  return tp_session_open(runtime, &options, session, fault);
}

static tp_status submit_turn(tp_session *session, tp_inbox *inbox, const char *text, uintptr_t key, tp_fault *fault) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  tp_end *end = NULL;
  tp_status status = tp_end_new(inbox, key_of(key), &end, fault);
  if (status == TP_OK) status = tp_turn_submit(session, &request, tp_end_of_turn, end, NULL, fault);
  if (status != TP_OK) tp_end_free(end);
  return status;
}

static tp_status complete_hook(tp_token token, int32_t answer, const char *reason, tp_fault *fault) {
  const tp_outcome outcome = {.struct_size = sizeof outcome, .kind = (tp_answer)answer, .reason = reason};
  return tp_token_complete(token, &outcome, fault);
}

// arguments: a JSON object for each call.
static tp_status complete_model(tp_token token, const char *text, const char **names, const char **arguments,
                                size_t count, tp_fault *fault) {
  tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of(text), .call_count = count};
  tp_tool_call *calls = calloc(count + 1, sizeof *calls);
  const tp_tool_call **pointers = calloc(count + 1, sizeof *pointers);
  tp_writer **writers = calloc(count + 1, sizeof *writers);
  tp_status status = calls && pointers && writers ? TP_OK : TP_ERR_NO_MEMORY;
  for (size_t i = 0; status == TP_OK && i < count; i++) {
    calls[i].struct_size = sizeof *calls;
    calls[i].name = tp_text_of(names[i]);
    pointers[i] = &calls[i];
    status = tp_writer_new(NULL, &writers[i]);
    if (status == TP_OK) status = tp_json_decode(tp_text_of(arguments[i]), writers[i], fault);
    if (status == TP_OK) status = tp_writer_finish(writers[i], &calls[i].arguments);
  }
  response.calls = pointers;
  if (status == TP_OK) status = tp_model_complete(token, &response, fault);
  for (size_t i = 0; writers && i < count; i++) tp_writer_free(writers[i]);
  free(writers);
  free(pointers);
  free(calls);
  return status;
}

// Blocks; it is called by a goroutine whose thread may wait.
static void end_runtime(tp_runtime *runtime, tp_session **sessions, size_t count) {
  for (size_t i = 0; i < count; i++) tp_session_close(sessions[i], NULL, NULL);
  (void)!tp_runtime_drain(runtime, 1000, NULL, NULL);
  tp_runtime_free(runtime);
}
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// A Verdict is what a hook answers.
type Verdict struct {
	answer C.int32_t
	reason string
}

func Allow() Verdict             { return Verdict{answer: C.TP_ANSWER_ALLOW} }
func Deny(reason string) Verdict { return Verdict{C.TP_ANSWER_DENY, reason} }

// A Call is a call of a hook. It is read until the hook returns.
type Call struct{ call *C.tp_call }

func (c Call) Tool() string { return textOf(C.tp_call_text(c.call, C.TP_FIELD_TOOL)) }
func (c Call) Text() string { return textOf(C.tp_call_text(c.call, C.TP_FIELD_TEXT)) }

// Argument gives an argument of the tool by its name; false where it is not there, or no text.
func (c Call) Argument(name string) (string, bool) {
	return argument(C.tp_call_text(c.call, C.TP_FIELD_ARGUMENTS), name)
}

// A Run is a run of a tool. It is read until the tool returns.
type Run struct{ run *C.tp_tool_run }

func (r Run) Argument(name string) (string, bool) {
	return argument(C.tp_tool_run_arguments(r.run), name)
}

// A ToolCall is what a model asks for; Arguments is a JSON object.
type ToolCall struct{ Name, Arguments string }

// A Response is what a model answers.
type Response struct {
	Text  string
	Calls []ToolCall
}

// A Message is one of a request to a model.
type Message struct {
	IsUsers, IsTools bool
	Text             string
}

// A Result is how a turn ended.
type Result struct {
	Completed, Denied     bool
	Text, Reason, Blocker string
}

type (
	hook  func(Call) Verdict
	tool  func(Run) (string, error)
	model func([]Message) (Response, error)
)

// A Runtime has the registrations, and the sessions whose turns run with them.
type Runtime struct {
	runtime  *C.tp_runtime
	inbox    *C.tp_inbox
	ready    *os.File
	stopped  chan struct{} // nothing more is taken
	lock     sync.Mutex
	kept     map[uintptr]any // hooks, tools, models; channels of turns
	last     uintptr
	sessions []*C.tp_session
}

func failed(status C.tp_status, fault *C.tp_fault) error {
	if status == C.TP_OK {
		return nil
	}
	return fmt.Errorf("%s: %s", C.GoString(C.tp_status_name(status)), C.GoString(&fault.message[0]))
}

// Open makes a runtime, and a goroutine that takes what comes into its inbox.
func Open() (*Runtime, error) {
	r := &Runtime{kept: map[uintptr]any{}, stopped: make(chan struct{})}
	var fault C.tp_fault
	if err := failed(C.tp_runtime_new(nil, &r.runtime, &fault), &fault); err != nil {
		return nil, err
	}
	if err := failed(C.tp_inbox_new(r.runtime, nil, &r.inbox, &fault), &fault); err != nil {
		C.tp_runtime_free(r.runtime)
		return nil, err
	}
	// The library closes its own descriptor, and Go's poller needs one that is its own and does not block.
	fd, err := syscall.Dup(int(C.tp_inbox_fd(r.inbox)))
	if err == nil {
		err = syscall.SetNonblock(fd, true)
	}
	if err != nil {
		C.tp_runtime_free(r.runtime)
		C.tp_inbox_free(r.inbox)
		return nil, err
	}
	r.ready = os.NewFile(uintptr(fd), "inbox")
	go r.takeAll()
	return r, nil
}

func (r *Runtime) keep(thing any) C.uintptr_t {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.last++
	r.kept[r.last] = thing
	return C.uintptr_t(r.last)
}

func (r *Runtime) of(key C.uintptr_t, isLast bool) any {
	r.lock.Lock()
	defer r.lock.Unlock()
	thing := r.kept[uintptr(key)]
	if isLast {
		delete(r.kept, uintptr(key))
	}
	return thing
}

// How many turns have not ended.
func (r *Runtime) waiting() int {
	r.lock.Lock()
	defer r.lock.Unlock()
	count := 0
	for _, thing := range r.kept {
		if _, isTurn := thing.(chan Result); isTurn {
			count++
		}
	}
	return count
}

// strings as C has them, and what frees them.
func chars(texts ...string) ([]*C.char, func()) {
	made := make([]*C.char, len(texts))
	for i, text := range texts {
		made[i] = C.CString(text)
	}
	return made, func() {
		for _, text := range made {
			C.free(unsafe.Pointer(text))
		}
	}
}

// Guard registers a hook whose failure denies: when it panics or exceeds its limit, the call is not made.
func (r *Runtime) Guard(id, phase string, limit time.Duration, run func(Call) Verdict) error {
	var fault C.tp_fault
	text, free := chars(id, phase)
	defer free()
	return failed(C.add_hook(r.runtime, r.inbox, text[0], text[1], C.TP_FAILURE_REQUIRED,
		C.uint32_t(limit.Milliseconds()), r.keep(hook(run)), &fault), &fault)
}

// Tool registers a function as a tool of every turn; schema is a JSON Schema of its arguments.
func (r *Runtime) Tool(name, schema string, run func(Run) (string, error)) error {
	var fault C.tp_fault
	text, free := chars(name, schema)
	defer free()
	return failed(C.add_tool(r.runtime, r.inbox, text[0], text[1], r.keep(tool(run)), &fault), &fault)
}

// A Session is a conversation: its turns run one after the other.
type Session struct {
	runtime *Runtime
	session *C.tp_session
}

// Session opens one. The runtime closes it.
func (r *Runtime) Session(id string, run func([]Message) (Response, error)) (*Session, error) {
	var fault C.tp_fault
	s := &Session{runtime: r}
	text, free := chars(id)
	defer free()
	err := failed(C.open_session(r.runtime, r.inbox, text[0], r.keep(model(run)), &s.session, &fault), &fault)
	if err == nil {
		r.sessions = append(r.sessions, s.session)
	}
	return s, err
}

// Turn submits a turn, whose result comes by the channel.
func (s *Session) Turn(message string) (<-chan Result, error) {
	var fault C.tp_fault
	ended := make(chan Result, 1)
	text, free := chars(message)
	defer free()
	key := s.runtime.keep(ended)
	err := failed(C.submit_turn(s.session, s.runtime.inbox, text[0], key, &fault), &fault)
	if err != nil {
		s.runtime.of(key, true)
	}
	return ended, err
}

// Close closes the sessions and the runtime. What still runs is cancelled after a second.
func (r *Runtime) Close() {
	var first **C.tp_session
	if len(r.sessions) > 0 {
		first = &r.sessions[0]
	}
	C.end_runtime(r.runtime, first, C.size_t(len(r.sessions)))
	r.ready.Close()
	<-r.stopped
	C.tp_inbox_free(r.inbox)
}

// ---- taking ----

func (r *Runtime) takeAll() {
	defer close(r.stopped)
	connection, err := r.ready.SyscallConn()
	if err != nil {
		return
	}
	connection.Read(func(uintptr) bool {
		for {
			var work *C.tp_work
			if C.tp_inbox_next(r.inbox, &work) != C.TP_OK {
				return true // the runtime is gone
			}
			if work == nil {
				return false // it sleeps until there is more
			}
			r.take(work)
		}
	})
}

func (r *Runtime) take(work *C.tp_work) {
	thing := r.of(C.number_of(work.ctx), work.kind == C.TP_WORK_END || work.kind == C.TP_WORK_DESTROY)
	switch run := thing.(type) {
	case hook:
		go answerHook(work, run)
	case tool:
		go answerTool(work, run)
	case model:
		go answerModel(work, run)
	case chan Result:
		run <- resultOf(work.end.turn)
		C.tp_work_release(work)
	default: // the cancel of a call: its function ends when it likes, and its answer is discarded
		C.tp_work_release(work)
	}
}

// A panic of a function is its error.
func caught(err *error) {
	if what := recover(); what != nil {
		*err = fmt.Errorf("panic: %v", what)
	}
}

func answerHook(work *C.tp_work, run hook) {
	var err error
	verdict := func() Verdict {
		defer caught(&err)
		return run(Call{work.call})
	}()
	if err != nil {
		verdict = Verdict{C.TP_ANSWER_FAILED, err.Error()}
	}
	text, free := chars(verdict.reason)
	defer free()
	C.complete_hook(work.token, verdict.answer, text[0], nil)
}

func answerTool(work *C.tp_work, run tool) {
	var err error
	said := func() string {
		defer caught(&err)
		said, failure := run(Run{work.run})
		err = failure
		return said
	}()
	if err != nil {
		said = err.Error()
	}
	text, free := chars(said)
	defer free()
	C.tp_tool_complete(work.token, C.bool(err != nil), C.tp_text_of(text[0]), nil)
}

func answerModel(work *C.tp_work, run model) {
	var err error
	response := func() Response {
		defer caught(&err)
		response, failure := run(messagesOf(work.request))
		err = failure
		return response
	}()
	texts := []string{response.Text}
	for _, call := range response.Calls {
		texts = append(texts, call.Name)
	}
	for _, call := range response.Calls {
		texts = append(texts, call.Arguments)
	}
	text, free := chars(append(texts, "")...)
	defer free()
	if err == nil {
		var fault C.tp_fault
		count := len(response.Calls)
		err = failed(C.complete_model(work.token, text[0], &text[1], &text[1+count], C.size_t(count), &fault), &fault)
	}
	if err != nil {
		why, freeWhy := chars(err.Error())
		defer freeWhy()
		C.tp_model_fail(work.token, C.TP_ERR_MODEL, why[0], false, nil)
	}
}

// ---- reading ----

func textOf(text C.tp_text) string { return C.GoStringN(text.data, C.int(text.size)) }

func argument(arguments C.tp_text, name string) (string, bool) {
	var found C.tp_text
	text, free := chars(name)
	defer free()
	status := C.tp_value_get_text(arguments, text[0], &found, nil)
	return textOf(found), status == C.TP_OK
}

func messagesOf(request *C.tp_model_request) []Message {
	messages := make([]Message, 0, int(request.message_count))
	for _, message := range unsafe.Slice(request.messages, int(request.message_count)) {
		messages = append(messages, Message{message.role == C.TP_ROLE_USER, message.role == C.TP_ROLE_TOOL,
			textOf(message.text)})
	}
	return messages
}

func resultOf(turn *C.tp_turn_result) Result {
	return Result{turn.outcome == C.TP_TURN_COMPLETED, turn.outcome == C.TP_TURN_DENIED, textOf(turn.text),
		textOf(turn.bare_reason), textOf(turn.subscription)}
}
