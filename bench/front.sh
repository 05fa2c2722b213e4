#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The figures of turnphase serve, each with its aim: front.sh BUILD, a build with bench/front, bench/load and
# cli/turnphase. Some 20 minutes, on a machine that does nothing else. Exit: 1 when something fails; an aim that is
# missed is printed only.
set -eu
build=$(cd "${1:?usage: bench/front.sh BUILD}" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)

echo "== turns beside a bare server of libmicrohttpd (at least 0.8 of its requests, 1.3 times its CPU, 0.3 ms)"
"$build/bench/front"
echo "== turns with a history in SQLite (asynchronous: at least 20,000 a second)"
"$build/bench/load" sessions
echo "== 200,000 turns with memory (the last not slower than the first)"
"$build/bench/load" steady
echo "== readers of 10 KB/s (at most 256 KiB each)"
python3 "$root/tests/integration/serve_slow_test.py" "$build/cli/turnphase" --long
echo "== 100,000 clients leave (nothing open), 10,000 streams (at most 40,000 bytes each), an end with 40,000 sessions"
python3 "$root/tests/integration/serve_load_test.py" "$build/cli/turnphase" --long
