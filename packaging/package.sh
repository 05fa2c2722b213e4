#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# package.sh FOLDER: Debian packages of the tree as it is, in FOLDER. The sources are copied to
# FOLDER/turnphase-VERSION, packaging/debian becomes its debian, and dpkg-buildpackage works without a network, where a
# namespace of its own is permitted. lintian's errors and warnings end it with 1.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$here/meson.build" | head -n 1)
rm -rf "$1"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
source=$folder/turnphase-$version
mkdir "$source"
if git -C "$here" rev-parse --git-dir >/dev/null 2>&1; then
  (cd "$here" && git ls-files -z --cached --others --exclude-standard) >"$folder/files"
else
  (cd "$here" && find . -path ./build -prune -o -path "./${1#"$here"/}" -prune -o ! -type d -print0) >"$folder/files"
fi
(cd "$here" && tar --null -T "$folder/files" --ignore-failed-read -cf -) | tar -C "$source" -xf -
rm "$folder/files"
cp -R "$here/packaging/debian" "$source/debian"
# The day is that of the newest commit, so that the same tree gives the same packages.
day=$(git -C "$here" log -1 --format=%cD 2>/dev/null || date -R)
cat >"$source/debian/changelog" <<CHANGELOG
turnphase ($version) unstable; urgency=medium

  * The tree as it is: CHANGELOG.md says what has changed.

 -- $(sed -n 's/^Maintainer: //p' "$source/debian/control")  $day
CHANGELOG

offline=''
for way in 'unshare --net' 'unshare --map-current-user --net'; do
  if $way true 2>/dev/null; then
    offline=$way
    break
  fi
done
[ -n "$offline" ] || echo 'no network namespace is permitted here: the build is not cut off from the network'
# shellcheck disable=SC2086 # the words are to be split
(cd "$source" && DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-parallel=$(nproc)}" $offline dpkg-buildpackage -us -uc -b)
lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs --allow-root "$folder"/*.changes
ls "$folder"/*.deb
