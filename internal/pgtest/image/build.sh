#!/usr/bin/env bash
# Builds a small PostgreSQL image out of Debian's own packages and loads it into the Docker engine.
#
#   build.sh [image name]          default: almanac-test-postgres:15
#
# It is for machines that reach a Debian mirror but no container registry. The image takes the
# variables of the official one (POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB) and treats its
# arguments alike, so that the tests cannot tell them apart. It must run as root, for debootstrap.
set -euo pipefail

readonly image=${1:-almanac-test-postgres:15}
readonly suite=bookworm
readonly major=15
readonly mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
# Not below /tmp by force: debootstrap refuses a file system mounted noexec or nodev.
root=$(mktemp -d -p "${TMPDIR:-/var/tmp}" almanac-image.XXXXXX)
readonly root
chmod 755 "$root" # it becomes the container's /, which every user must be able to enter

cleanup() {
	# An interrupted debootstrap leaves /proc and /sys mounted; removing through them would be bad.
	local mounted
	awk -v root="$root/" 'index($2, root) == 1 {print $2}' /proc/mounts | sort -r | while read -r mounted; do
		umount -l "$mounted" || true
	done
	rm -rf --one-file-system -- "$root"
}
trap cleanup EXIT

# With an environment of its own: directories that are named in ours are not there.
inside() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" "$@"
}

debootstrap --variant=minbase "$suite" "$root" "$mirror"

# Manuals and translations are half of the rest, no service may start in here, and the package
# must not make a cluster of its own: the entrypoint makes one for each container.
printf 'path-exclude=/usr/share/%s/*\n' doc man locale info >"$root/etc/dpkg/dpkg.cfg.d/slim"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mkdir -p "$root/etc/postgresql-common"
printf 'create_main_cluster = false\n' >"$root/etc/postgresql-common/createcluster.conf"

inside apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "postgresql-$major" >/dev/null
inside apt-get clean
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/debconf/*-old
install -m 755 "$here/entrypoint.sh" "$root/usr/local/bin/entrypoint.sh"

tar -C "$root" --one-file-system --numeric-owner -c . | docker import \
	--change "ENV PATH=/usr/lib/postgresql/$major/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
	--change 'ENV PGDATA=/var/lib/postgresql/data' \
	--change 'ENV LC_ALL=C.UTF-8' \
	--change 'EXPOSE 5432' \
	--change 'ENTRYPOINT ["entrypoint.sh"]' \
	--change 'CMD ["postgres"]' \
	- "$image"
