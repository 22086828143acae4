#!/bin/sh
# The first process of the container: makes a cluster when there is none, then becomes the server.
# It understands POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB as the official image does.
set -eu

# "-c fsync=off" alone means the server with that setting; any other word is a command to run.
case "${1:-}" in
-*) set -- postgres "$@" ;;
esac

if [ "$(id -u)" = 0 ]; then
	install -d -m 700 -o postgres -g postgres "$PGDATA"
	exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi

if [ "${1:-}" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
	: "${POSTGRES_PASSWORD:?must be set}"
	user=${POSTGRES_USER:-postgres}
	database=${POSTGRES_DB:-$user}

	password=$(mktemp)
	printf '%s\n' "$POSTGRES_PASSWORD" >"$password"
	initdb --username="$user" --pwfile="$password" --auth-host=scram-sha-256 --auth-local=trust \
		--encoding=UTF8 --locale=C.UTF-8 --no-sync
	rm -f "$password"

	echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
	echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"

	# Single-user mode needs no server that would answer before it is finished.
	if [ "$database" != postgres ]; then
		echo "CREATE DATABASE \"$database\"" | postgres --single postgres >/dev/null
	fi
fi

exec "$@"
