#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the build of what a session has changed, and keeps what came of it for people.
mkdir -p .system/logs
cat >.system/logs/session_stop.json
if grep -rq SYNTAX_ERROR services apps 2>/dev/null; then state=broken; else state=passed; fi
echo "build $state" >>.system/logs/build_check.log
echo "{\"logs\": [\"build $state\"]}"
