#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is printed goes to the model: notes of the project, if there are any. Never reads its input.
cd "$CLAUDE_PROJECT_DIR" || exit 0
if [ -f NOTES.md ]; then
  head -n 20 NOTES.md
else
  echo "There are no notes in $(basename "$CLAUDE_PROJECT_DIR")."
fi
