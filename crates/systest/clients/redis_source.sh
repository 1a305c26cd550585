#!/bin/sh
# Brings the source of Redis, which holds its test suite, from the archive that this machine's packages
# come from, and unpacks it into a folder: redis_source.sh FOLDER. Prints where it is.
set -eu
folder=$1
version=7.0.15
sum=4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982
archive=$folder/redis_$version.orig.tar.gz
mkdir -p "$folder"
if ! echo "$sum  $archive" | sha256sum --check --status 2>/dev/null; then
    place=$(apt-get download --print-uris redis-tools | sed -n "s|^'\(.*\)/[^/]*' .*|\1|p")
    [ -n "$place" ] || { echo "apt-get knows no redis-tools: run apt-get update" >&2; exit 1; }
    curl --fail --silent --show-error --retry 3 --output "$archive" "$place/redis_$version.orig.tar.gz"
    echo "$sum  $archive" | sha256sum --check --status || { echo "$archive is another file" >&2; exit 1; }
fi
# Unpacked anew: what drives the suite changes some of its lines.
rm -rf "$folder/redis-$version"
tar -xzf "$archive" -C "$folder"
echo "$folder/redis-$version"
