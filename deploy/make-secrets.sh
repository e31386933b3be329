#!/bin/sh
# Makes the secrets of docker-compose.yml in deploy/secrets (or the folder named); never overwrites one.
# Compose mounts the files as they are, and the container's user must read them: so the files are readable,
# and the folder is closed to everybody else on this machine.
set -eu
folder=${1:-$(dirname "$0")/secrets}
umask 077
mkdir -p "$folder"
for name in noise.key pseudonym.key snapshot.key grafana-password; do
    [ -e "$folder/$name" ] && continue
    openssl rand -hex 32 >"$folder/$name.new"
    chmod 444 "$folder/$name.new"
    mv "$folder/$name.new" "$folder/$name"
    echo "$folder/$name"
done
