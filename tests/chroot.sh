#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# chroot.sh FOLDER [packages | documents]: on a fresh Debian 12, which has only what debootstrap's minbase has, the
# README's commands work: ./dev demo, ./dev install under /usr/local and under a prefix of one's own, chats with a
# script and with a model behind a base URL (examples/server), and hosts by pkg-config and CMake.
# With `packages` after FOLDER instead: ./dev package makes packages there without a warning of lintian, and in another
# fresh system, without compiler and sources, they are installed, `turnphase chat` runs, and autopkgtest passes.
# With `documents` after FOLDER: each command line of README.md and of the documents runs there, in the order in which
# it stands, with the command that ./dev install has installed and, where npm can be had, with the MCP server that the
# lines name.
# The fresh system is kept in FOLDER/base for the next time and copied for each run. Needs root, debootstrap, a mirror.
# Ends with the counts that ./dev test reads.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1" && folder=$(cd "$1" && pwd) || exit 1
root=$folder/root
mirror=${TURNPHASE_MIRROR:-http://deb.debian.org/debian}
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$here/meson.build" | head -n 1)
ok=0 bad=0

skip() {
  echo 'test: a fresh Debian 12'
  echo "skipped: $1"
  printf '\nOk: 0\nFail: 0\nSkipped: 1\n'
  exit 0
}

[ "$(id -u)" -eq 0 ] || skip 'a chroot needs root'
command -v debootstrap >/dev/null || skip 'debootstrap is not installed'
unshare --mount true 2>/dev/null || skip 'no mount namespace of our own is permitted here'
if [ ! -f "$folder/base/.complete" ]; then
  rm -rf "$folder/base"
  if ! debootstrap --variant=minbase bookworm "$folder/base" "$mirror"; then
    skip "debootstrap failed: is $mirror reachable?"
  fi
  touch "$folder/base/.complete"
fi
# A fresh system with the sources in /src.
fresh() {
  rm -rf "$root"
  cp -a "$folder/base" "$root" || exit 1
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  # A certificate that only this machine trusts, such as that of a proxy, for npm.
  [ ! -f "${NODE_EXTRA_CA_CERTS:-}" ] || cp "$NODE_EXTRA_CA_CERTS" "$root/opt/ca.crt" || exit 1
  mkdir -p "$root/src"
  (cd "$here" && git ls-files -z --cached --others --exclude-standard |
    tar --null -T - --ignore-failed-read -cf -) | tar -C "$root/src" -xf - || exit 1
}

# The mounts live in a namespace that ends with the command, whatever becomes of it.
inside() {
  unshare --mount --fork sh -c '
    mount -t proc proc "$0/proc" && cd / &&
      exec chroot "$0" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        TERM=dumb ${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
        NODE_EXTRA_CA_CERTS=/opt/ca.crt DEBIAN_FRONTEND=noninteractive /bin/sh -c "cd /src && $1"' "$root" "$1"
}

check() {
  echo "\$ $1"
  if inside "$1" </dev/null; then
    echo "ok: $1"
    ok=$((ok + 1))
  else
    echo "ERROR: $1"
    bad=$((bad + 1))
  fi
}

on_a_fresh_system() {
  fresh
  check 'apt-get update && ! command -v dpkg-architecture && ! command -v gcc'
  check './dev demo'
  check './dev install'
  check 'cd / && turnphase --version && turnphase phases && pkg-config --cflags --libs turnphase'
  check 'echo Hello | turnphase chat --script examples/chat/model.yaml --json | grep -q "I am a script"'
  check 'cc examples/server/server.c -o /tmp/server $(pkg-config --cflags --libs turnphase turnphase-declared) &&
    { /tmp/server 8099 examples/chat/model.yaml >/tmp/server.out & } && server=$! &&
    { until grep -q listening /tmp/server.out; do sleep 0.1; done; } &&
    echo Hello | OPENAI_API_KEY=k turnphase chat --model openai:m --base-url http://127.0.0.1:8099/v1 --json \
      >/tmp/chat &&
    kill $server && grep -q "I am a script" /tmp/chat'
  check 'apt-get install -y --no-install-recommends cmake make'
  check "tests/installed.sh turnphase $version examples/embed.c cc"
  check './dev install --prefix /opt/tp'
  check 'rm -rf /usr/local/lib/*/libturnphase* /usr/local/bin/turnphase && ldconfig'
  check "PKG_CONFIG_PATH=/opt/tp/lib/pkgconfig CMAKE_PREFIX_PATH=/opt/tp \
    tests/installed.sh /opt/tp/bin/turnphase $version examples/embed.c cc"
}

# The RUN lines of packaging/Containerfile, one a line.
runs() {
  sed -e ':a' -e '/\\$/{N;s/\\\n *//;ba' -e '}' "$here/packaging/Containerfile" | sed -n 's/^RUN //p'
}

packages() {
  fresh
  check 'apt-get update'
  check "$(runs | sed -n 1p)"
  mkdir -p "$folder/packages"
  rm -f "$folder"/packages/*
  cp "$root"/src/build/package/*.deb "$folder/packages/" || return
  tar -C "$root/src/build/package/turnphase-$version" --exclude='./obj-*' -cf "$folder/source.tar" .
  fresh
  mkdir "$root/packages" "$root/built"
  cp "$folder"/packages/* "$root/packages/"
  cp -a "$root/packages" "$root/debs"
  tar -C "$root/built" -xf "$folder/source.tar"
  check "rm -rf /src/* && $(runs | sed -n 2p)"
  check 'cd / && turnphase --version && apt-get update && apt-get install -y --no-install-recommends /debs/*.deb'
  check 'echo Hello | turnphase chat --script /usr/share/doc/turnphase/examples/chat/model.yaml --json |
    grep -q "I am a script"'
  check 'apt-get install -y --no-install-recommends autopkgtest &&
    autopkgtest --no-built-binaries /debs/*.deb /built/ -- null'
  check 'apt-get purge -y turnphase libturnphase-dev turnphase-doc libturnphase0.1 libturnphase-addons0.1 &&
    ! find /usr -name "*turnphase*" | grep .'
}

# README.md first, then each document with a block of the kind `sh` (documents_test.py), quick start first.
documents() {
  fresh
  check 'apt-get update && ./dev demo && ./dev install'
  server='' # that of npx
  check 'apt-get install -y --no-install-recommends nodejs npm ca-certificates curl &&
    npm config set prefer-offline true --location=global' # npx asks no registry for what it has fetched
  # A server of MCP does not get NODE_EXTRA_CA_CERTS: its environment is its own.
  [ ! -f "$root/opt/ca.crt" ] || cat "$root/opt/ca.crt" >>"$root/etc/ssl/certs/ca-certificates.crt" || exit 1
  inside 'npx -y @modelcontextprotocol/server-filesystem /' </dev/null || {
    echo 'npx cannot fetch the MCP server: the one of the tests takes its place'
    check 'cc -D_GNU_SOURCE -I. tests/support/mcp_server.c -o /tmp/mcp_server'
    server=/tmp/mcp_server
  }
  check "python3 tests/integration/readme_test.py /usr/local/bin/turnphase README.md '$server' docs/guides/hello.md"
  check "python3 tests/integration/documents_test.py --fresh /usr/local/bin/turnphase '$server' '' docs/quick-start.md \
    $(cd "$here" && grep -lrx --include='*.md' '```sh' docs | grep -v quick-start | sort | tr '\n' ' ')"
}

case ${2-} in
  '') on_a_fresh_system ;;
  documents) documents ;;
  packages) packages ;;
  *) echo "chroot.sh: there is no part '$2'" >&2; exit 2 ;;
esac
rm -rf "$root"
printf '\nOk: %d\nFail: %d\nSkipped: 0\n' $ok $bad
[ $bad -eq 0 ]
