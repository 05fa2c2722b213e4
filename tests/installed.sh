#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# installed.sh COMMAND VERSION SOURCE COMPILER…: what is installed is enough. COMMAND is the installed turnphase; the
# host in SOURCE is built outside of the tree with what pkg-config says and, where cmake is installed, as a consumer of
# find_package(turnphase), with each library, and run; the programs in guides/ beside it are built. The environment says
# where pkg-config, cmake and the loader look; nothing else is set. Ends with the counts that ./dev test reads.
set -u
command=$1 version=$2 source=$3
shift 3
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
# The names that the table of docs/install.md has, as far as this build has them.
libraries='' parts='' absent=''
while read -r name target; do
  if ! pkg-config --exists "$name"; then
    absent="$absent $name"
    continue
  fi
  libraries="$libraries $name"
  [ "$target" = turnphase ] || parts="$parts $target"
done <<TABLE
$(sed -n 's/^| `libturnphase[a-z-]*` | `\([a-z-]*\)` | `turnphase::\([a-z]*\)` .*/\1 \2/p' "$here/../docs/install.md")
TABLE
ok=0 bad=0 skip=0

# check NAME COMMAND…: what the command printed is shown when it fails.
check() {
  check_name=$1
  shift
  (set -e; "$@") >"$place/log" 2>&1
  check_status=$? # not in the if itself, where set -e would do nothing
  if [ $check_status -eq 0 ]; then
    echo "ok: $check_name"
    ok=$((ok + 1))
  else
    echo "ERROR: $check_name"
    sed 's/^/  /' "$place/log"
    bad=$((bad + 1))
  fi
}

command_runs() {
  said=$("$command" --version)
  echo "$said"
  case $said in *"$version"*) ;; *) return 1 ;; esac
  "$command" phases | grep -q 'turn\.intake'
}

# The same prefix has the man pages, and what shells complete words with.
pages_are_there() {
  share=$(dirname "$(dirname "$(command -v "$command")")")/share
  # Debian's packages have compressed pages, and another folder for zsh.
  for name in man/man1/turnphase.1 man/man1/turnphase-run.1 man/man3/turnphase.3 man/man3/tp_turn_run.3 \
    bash-completion/completions/turnphase zsh/*/_turnphase fish/vendor_completions.d/turnphase.fish; do
    for found in "$share"/$name "$share/$name.gz"; do
      [ ! -s "$found" ] || continue 2
    done
    echo "there is no $share/$name"
    return 1
  done
}

# Each library has a row in the table of docs/install.md, and each row that pkg-config does not know has no library.
names_are_documented() {
  echo "named: $libraries; not installed: $absent"
  for library in "$(pkg-config --variable=libdir turnphase)"/libturnphase*.so; do
    [ -e "$library" ] || library=${PKG_CONFIG_SYSROOT_DIR-}$library
    found=$(basename "$library" .so)
    case " $libraries " in *" ${found#lib} "*) ;; *) echo "$found has no row, or no .pc"; return 1 ;; esac
  done
}

documents_are_whole() {
  python3 "$here/links.py" "$(dirname "$(dirname "$(command -v "$command")")")/share/doc/turnphase"
}

# Under DESTDIR the path begins with the sysroot, or pkg-config puts it there.
description_is_there() {
  named=$(pkg-config --variable=abi turnphase)
  [ -f "$named" ] || named=${PKG_CONFIG_SYSROOT_DIR-}$named
  grep -q "^\"version\": \"$version\",$" "$named" && grep -q '^"tp_turn_run": ' "$named"
}

# The guard of the example denies its second turn, and nothing else fails.
host_runs() {
  (cd "$place" && "$1") >"$place/said"
  cat "$place/said"
  grep -q 'completed' "$place/said" && grep -q 'denied' "$place/said"
}

# A host is given neither definitions that it did not ask for nor the libraries that only the core's build needs.
pkg_config_host() {
  library=$1
  shift
  test "$(pkg-config --modversion "$library")" = "$version"
  flags=$(pkg-config --cflags --libs "$library")
  echo "$flags"
  case $flags in *-D* | *msgpack* | *-lck*) return 1 ;; esac
  # shellcheck disable=SC2086 # the flags are to be split
  (cd "$place" && "$@" -std=c11 -Wall -Wextra -Werror "$place/embed.c" -o "$place/host" -Wl,--no-as-needed $flags)
  host_runs "$place/host"
}

# The programs of the guides: their outputs are compared in the build tree.
guides_compile() {
  # shellcheck disable=SC2046 # the flags are to be split
  for guide in "$guides"/*.c; do
    "$@" -std=gnu11 -Wall -Wextra -Werror "$guide" -o "$place/guide" -pthread $(pkg-config --cflags --libs turnphase)
    echo "$guide"
  done
}

write_consumer() {
  mkdir "$place/consumer"
  cat >"$place/consumer/CMakeLists.txt" <<CONSUMER
cmake_minimum_required(VERSION 3.16)
project(consumer C)
find_package(turnphase 0.1 REQUIRED COMPONENTS $parts)
foreach(part turnphase $parts)
  add_executable(with-\${part} ../embed.c)
  target_link_libraries(with-\${part} PRIVATE "-Wl,--no-as-needed" turnphase::\${part})
endforeach()
find_package(turnphase 99 QUIET)
if(turnphase_FOUND)
  message(FATAL_ERROR "version 99 was found")
endif()
CONSUMER
}

cmake_consumer() {
  write_consumer
  CC=$* cmake -S "$place/consumer" -B "$place/consumer/build"
  cmake --build "$place/consumer/build"
  for part in turnphase $parts; do host_runs "$place/consumer/build/with-$part"; done
}

cp "$source" "$place/embed.c" || exit 1
guides=$(dirname "$source")/guides
check 'turnphase --version, phases' command_runs
check 'the description of the API by pkg-config' description_is_there
check 'the names of the libraries in docs/install.md' names_are_documented
check 'the links of the documents' documents_are_whole
check 'man pages and completions' pages_are_there
for library in $libraries; do check "a host by pkg-config with $library" pkg_config_host "$library" "$@"; done
check 'the programs of the guides by pkg-config' guides_compile "$@"
if command -v cmake >/dev/null; then
  check 'a host by find_package(turnphase) of CMake' cmake_consumer "$@"
else
  echo 'test: a host by find_package(turnphase) of CMake'
  echo 'skipped: cmake is not installed'
  skip=1
fi
printf '\nOk: %d\nFail: %d\nSkipped: %d\n' $ok $bad $skip
[ $bad -eq 0 ]
