#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# platform.sh musl|arm64 FOLDER [TEST…]: builds the tree for another C library or another processor and runs the tests
# there: with musl natively, for arm64 under qemu-user. What neither Debian's cross compilers nor musl-tools bring (the
# libraries of arm64, the source of cmocka) comes from Debian's archive, by apt-get with lists of its own: nothing is
# installed. Everything stands in FOLDER/musl or FOLDER/arm64. Ends with the counts that ./dev test reads.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
platform=$1
mkdir -p "$2/$platform" && folder=$(cd "$2/$platform" && pwd)
shift 2
mirror=${TURNPHASE_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
sysroot=$folder/sysroot apt=$folder/apt

skip() {
  echo "test: $platform"
  echo "skipped: $1"
  printf '\nOk: 0\nFail: 0\nSkipped: 1\n'
  exit 0
}

# apt-get for one architecture, with lists, cache and state of its own.
apt_get() { # ARCHITECTURE WORD…
  architecture=$1
  shift
  apt-get -q -o "APT::Architecture=$architecture" -o "APT::Architectures::=$architecture" -o "Dir::State=$apt/state" \
    -o "Dir::Cache=$apt/cache" -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::status=/dev/null -o APT::Sandbox::User=root -o Acquire::Languages=none \
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}

fetch() { # ARCHITECTURE download PACKAGE… | ARCHITECTURE source --download-only PACKAGE
  code=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
  command -v apt-get >/dev/null && [ -f $keyring ] || skip "there is no apt-get of Debian's here"
  rm -rf "$apt/files"
  mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/files"
  for kind in deb deb-src; do echo "$kind [signed-by=$keyring] $mirror $code main"; done >"$apt/sources.list"
  (cd "$apt/files" && apt_get "$1" update && apt_get "$@") || skip "apt-get cannot fetch from $mirror"
}

need() {
  for program; do
    command -v "$program" >/dev/null || skip "there is no $program here (./dev test --long installs it)"
  done
}

case $platform in
  musl)
    need musl-gcc gcc ar pkg-config
    # Kernel headers, and libraries of which headers are enough: none of glibc's. cmocka is compiled.
    if [ ! -f "$folder/complete" ]; then
      rm -rf "$sysroot"
      mkdir -p "$sysroot/include" "$sysroot/lib/pkgconfig"
      fetch "$(dpkg --print-architecture)" source --download-only cmocka
      tar -C "$apt/files" -xf "$apt"/files/cmocka_*.orig.tar.*z
      ln -s /usr/include/ck*.h /usr/include/gcc /usr/include/msgpack /usr/include/msgpack*.h /usr/include/xxhash.h \
        /usr/include/xxh3.h /usr/include/linux /usr/include/asm-generic "$sysroot/include"
      ln -s "/usr/include/$(gcc -print-multiarch)/asm" "$sysroot/include"
      cp "$apt"/files/cmocka-*/include/*.h "$sysroot/include"
      for header in stdlib.h string.h time.h setjmp.h signal.h strings.h stdint.h inttypes.h; do
        echo "#define HAVE_$(echo $header | tr a-z. A-Z_) 1"
      done >"$folder/config.h"
      echo '#define HAVE_CLOCK_REALTIME 1
#define HAVE_STRUCT_TIMESPEC 1
#define HAVE_SIGNAL_H 1
#define HAVE_STRSIGNAL 1' >>"$folder/config.h"
      musl-gcc -O1 -D_GNU_SOURCE -DHAVE_CONFIG_H -I "$folder" -I "$sysroot/include" \
        -c "$apt"/files/cmocka-*/src/cmocka.c -o "$folder/cmocka.o"
      ar rcs "$sysroot/lib/libcmocka.a" "$folder/cmocka.o"
      for package in ck msgpack-c cmocka; do
        printf 'Name: %s\nDescription: for musl\nVersion: 1.1.5\nCflags: -isystem %s\n' $package "$sysroot/include"
        [ $package != cmocka ] || echo "Libs: -L$sysroot/lib -lcmocka"
      done | awk -v folder="$sysroot/lib/pkgconfig" '/^Name: / { file = folder "/" $2 ".pc" } { print >file }'
      touch "$folder/complete"
    fi
    cat >"$folder/cross.ini" <<END
[binaries]
c = ['musl-gcc', '-isystem', '$sysroot/include']
cpp = 'there is none for musl'
ar = 'ar'
pkgconfig = 'pkg-config'
pkg-config = 'pkg-config'
[properties]
pkg_config_libdir = '$sysroot/lib/pkgconfig'
needs_exe_wrapper = false
[host_machine]
system = 'linux'
cpu_family = '$(uname -m)'
cpu = '$(uname -m)'
endian = 'little'
END
    libraries='-Ddeclared=disabled -Dsqlite=disabled -Dmemory=disabled -Dfiles=enabled -Dskills=enabled
      -Dtasks=enabled -Dopenai=disabled -Dcli=disabled -Dlibedit=disabled -Dwebhook=disabled'
    tests='--suite unit --suite fault --suite torture --suite sim --suite fuzz' ;;
  arm64)
    need aarch64-linux-gnu-gcc qemu-aarch64 dpkg-deb pkg-config
    if [ ! -f "$folder/complete" ]; then
      rm -rf "$sysroot"
      mkdir -p "$sysroot"
      fetch arm64 download libc6 libc6-dev linux-libc-dev libgcc-s1 libcrypt1 libck-dev libmsgpack-dev libmsgpackc2 \
        libxxhash-dev libcmocka0 libcmocka-dev libjansson4 libjansson-dev libyaml-0-2 libyaml-dev libsqlite3-0 \
        libsqlite3-dev libssl3 libssl-dev
      for package in "$apt"/files/*.deb; do dpkg-deb -x "$package" "$sysroot"; done
      touch "$folder/complete"
    fi
    cat >"$folder/cross.ini" <<END
[binaries]
c = ['aarch64-linux-gnu-gcc', '--sysroot=$sysroot']
cpp = 'not needed'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
pkg-config = 'pkg-config'
exe_wrapper = ['qemu-aarch64', '-L', '$sysroot']
[properties]
sys_root = '$sysroot'
pkg_config_libdir = '$sysroot/usr/lib/aarch64-linux-gnu/pkgconfig:$sysroot/usr/lib/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
    libraries='-Ddeclared=enabled -Dsqlite=enabled -Dmemory=enabled -Dfiles=enabled -Dskills=enabled -Dtasks=enabled
      -Dopenai=disabled -Dcli=enabled -Dlibedit=disabled -Dwebhook=disabled'
    tests='--suite unit --suite sim --suite fuzz'
    # What fails under the emulator: it has no openat2, says of a program that cannot be started that it was, aborts in
    # the child of a fork of many threads, and is slower than the bounds of a loop.
    cannot='files_domain declared_hooks hook_tool hook_worker process inside event_loop' ;;
  *)
    echo "platform.sh: there is no '$platform'" >&2
    exit 2 ;;
esac

if [ ! -f "$folder/build/build.ninja" ] || ! cmp -s "$folder/cross.ini" "$folder/configured"; then
  rm -rf "$folder/build"
  # gcc -O1 takes more for uninitialized than -O2 does.
  # shellcheck disable=SC2086 # the options are to be split
  meson setup "$folder/build" "$root" --cross-file "$folder/cross.ini" -Dwerror=true -Doptimization=1 -Ddebug=true \
    "-Dc_args=['-g1','-Wno-maybe-uninitialized']" -Dbench=disabled $libraries
  cp "$folder/cross.ini" "$folder/configured"
fi
if [ $# -eq 0 ]; then
  # shellcheck disable=SC2086
  meson test -C "$folder/build" --list $tests | sed -n 's/^turnphase:.* \/ //p' | sort -u >"$folder/tests"
  while IFS= read -r name; do
    case " ${cannot-} " in *" $name "*) echo "not run on $platform: $name" ;; *) set -- "$@" "$name" ;; esac
  done <"$folder/tests"
else
  tests=''
fi
# Tests of several suites have one name: the suites are named, too.
# shellcheck disable=SC2086
meson test -C "$folder/build" --print-errorlogs --timeout-multiplier 5 $tests "$@"
