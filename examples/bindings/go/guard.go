// SPDX-License-Identifier: Apache-2.0

// A guard, tools and a model in Go, which wait and panic: what waits holds no thread, and what panics denies.
//
//	go build -o guard guard.go turnphase.go && ./guard
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

func check(what string, holds bool) {
	if !holds {
		fmt.Println("WRONG:", what)
		os.Exit(1)
	}
	fmt.Println("ok:", what)
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

// The calls that the message of the user names, one word for each; then what the tools have said.
func callsWhatItReads(messages []Message) (Response, error) {
	last := messages[len(messages)-1]
	if last.IsUsers {
		var calls []ToolCall
		for _, word := range strings.Fields(last.Text) {
			name, path, _ := strings.Cut(word, ":")
			calls = append(calls, ToolCall{name, fmt.Sprintf(`{"path": %q}`, path)})
		}
		return Response{Calls: calls}, nil
	}
	var said []string
	for i := len(messages) - 1; i >= 0 && messages[i].IsTools; i-- {
		said = append([]string{messages[i].Text}, said...)
	}
	return Response{Text: strings.Join(said, " | ")}, nil
}

func main() {
	runtime := must(Open())
	const schema = `{"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}`
	guard := func(call Call) Verdict {
		path, isText := call.Argument("path")
		switch {
		case path == "panic":
			panic("a guard that panics")
		case path == "hang":
			select {}
		case !isText || strings.Contains(path, "secret"):
			return Deny("no secrets")
		}
		return Allow()
	}
	must(0, runtime.Guard("guard", "tool.pre", 200*time.Millisecond, guard))
	wait := func(run Run) (string, error) {
		time.Sleep(100 * time.Millisecond)
		path, _ := run.Argument("path")
		return "read " + path, nil
	}
	must(0, runtime.Tool("read", schema, wait))
	must(0, runtime.Tool("broken", schema, func(Run) (string, error) { panic("a tool that panics") }))
	must(0, runtime.Tool("refused", schema, func(Run) (string, error) { return "", errors.New("the disk is full") }))
	session := must(runtime.Session("first", callsWhatItReads))
	turn := func(text string) Result { return <-must(session.Turn(text)) }

	result := turn("read:a read:b")
	check("a turn completes, and results keep the order of calls", result.Completed && result.Text == "read a | read b")
	result = turn("read:secret read:c")
	check("a guard denies one call", strings.Contains(result.Text, "no secrets") &&
		strings.Contains(result.Text, "| read c"))
	check("a guard that panics denies", !strings.Contains(turn("read:panic").Text, "read panic"))
	check("a guard that hangs denies", !strings.Contains(turn("read:hang").Text, "read hang"))
	result = turn("broken:x refused:x")
	check("an error of a tool is read by the model", strings.Contains(result.Text, "the disk is full") &&
		strings.Contains(result.Text, "a tool that panics"))

	began, count := time.Now(), 100
	turns := make([]<-chan Result, count)
	for i := range turns {
		other := must(runtime.Session(fmt.Sprint("other-", i), callsWhatItReads))
		turns[i] = must(other.Turn("read:a read:b"))
	}
	for _, ended := range turns {
		if result := <-ended; result.Text != "read a | read b" {
			check("each of many turns completes: "+result.Text+result.Reason, false)
		}
	}
	took := time.Since(began)
	fmt.Printf("%d turns with two tools of 100 ms each: %d ms\n", count, took.Milliseconds())
	check("what waits holds no thread", took < 5*time.Second)
	_, err := runtime.Session("first", callsWhatItReads)
	check("a refusal is an error with the words of the fault", err != nil && strings.Contains(err.Error(), "first"))
	runtime.Close()
	check("each turn had its end", runtime.waiting() == 0)
}
