#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Keeps files with secrets as they are, and secrets out of all others.
let text = "";
process.stdin.on("data", (piece) => (text += piece));
process.stdin.on("end", () => {
  const call = JSON.parse(text);
  const input = call.tool_input ?? {};
  const name = (input.file_path ?? "").split("/").pop();
  const content = input.content ?? input.new_string ?? "";
  const deny = (reason) =>
    console.log(JSON.stringify({
      hookSpecificOutput: {
        hookEventName: "PreToolUse", permissionDecision: "deny", permissionDecisionReason: reason
      },
      suppressOutput: true
    }));
  if (/^\.env(\..*)?$|\.pem$|^id_rsa/.test(name)) deny(`${name} holds secrets`);
  else if (/AKIA[0-9A-Z]{16}|-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(content)) deny("the text holds a key");
});
