#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# soak.sh PROGRAM SECONDS: runs it in a new directory, which is removed. TURNPHASE_SOAK_SECONDS counts in place of
# SECONDS.
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
"$1" "${TURNPHASE_SOAK_SECONDS:-$2}" "$directory/data"
