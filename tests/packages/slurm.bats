#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rad-slurm, the package of Slurm's plugins: goes with the release it was built on and no other, and its files work in real Slurm.
# RAD_SLURM_BUILD names its build folder (default: build-slurm).

bats_require_minimum_version 1.5.0
load ../helpers.bash
load ../cluster.bash

setup_file()
{
	new_world
	export BUILT=$WORLD/packages ROOT=$WORLD/root CLUSTER=$WORLD/c
	[ -e /usr/include/slurm/spank.h ] || return 0
	mkdir "$BUILT" "$WORLD/again"
	make_package "$BUILT"
	make_package "$WORLD/again"
}

setup() { ls "$BUILT"/* >/dev/null 2>&1 || skip "no Slurm to build for (tools/deps --slurm)"; }
teardown_file() { [ ! -e "$CLUSTER" ] || cluster stop; cd /; rm -rf "$WORLD"; }

make_package()
{
	SOURCE_DATE_EPOCH=1700000000 "$RAD_SOURCE_ROOT/tools/slurm-package" "${RAD_SLURM_BUILD:-$RAD_SOURCE_ROOT/build-slurm}" "$1" 2>"$WORLD/log" ||
		{ cat "$WORLD/log"; return 1; }
}

need_deb() { command -v dpkg-deb >/dev/null && ls "$BUILT"/*.deb >/dev/null 2>&1 || skip "needs dpkg-deb"; }

release() { sed -n 's/.*slurm\([0-9.]*\)_.*/\1/p' <<<"$(ls "$BUILT"/*.deb)"; }

depends() { dpkg-deb -f "$BUILT"/*.deb Depends; }

# machine VERSION: a root on which all that it depends on is there, and Slurm in that version ("": not at all).
machine()
{
	local name
	rm -rf "$ROOT"
	mkdir -p "$ROOT"/var/lib/dpkg/{info,updates}
	for name in $(depends | tr ',' '\n' | awk '{ print $1 }' | sort -u); do
		local version=99
		[[ $name != *slurm* ]] || version=$1
		[ -z "$version" ] || printf '%s\n' "Package: $name" "Status: install ok installed" "Version: $version" "Maintainer: x" \
			"Architecture: $(dpkg --print-architecture)" "Description: x" ""
	done >"$ROOT/var/lib/dpkg/status"
}

install_it() { dpkg --root="$ROOT" --log=/dev/null --force-unsafe-io --force-not-root -i "$BUILT"/*.deb; }

@test "made twice, it is the same, byte by byte; it names its release, and holds the plugins, their program and their page" {
	for file in "$BUILT"/*; do
		cmp "$file" "$WORLD/again/${file##*/}"
		[[ "$file" == *+slurm[0-9][0-9].[0-9][0-9].[0-9]* ]]
	done
	need_deb
	files=$(dpkg-deb --fsys-tarfile "$BUILT"/*.deb | tar -t)
	for name in bin/rad-slurm rad-rm/slurm/rad.so rad-rm/slurm/job_submit_rad.so rad-rm/slurm/cli_filter_rad.so rad-slurm/slurm.md; do
		grep -q "/$name$" <<<"$files"
	done
	[ "$(grep -c -v -e '/$' -e share/doc <<<"$files")" = 4 ]
}

@test ".deb: without Slurm, or with another release than its own, it is refused; with its own it is installed, and removed" {
	need_deb
	local own next
	own=$(release)
	next=${own%.*}.$((${own##*.} + 1))
	for version in "" "${own%.*}.0-1" "$next-1" "$next~rc1" 99.05.1-1; do
		[ "$version" != "${own}-1" ] || continue
		machine "$version"
		run install_it
		[ "$status" -ne 0 ]
		[[ "$output" == *"dependency problems"*"rad-slurm depends on"* ]]
	done
	machine "$own-4+deb12u3"
	install_it
	run -0 "$ROOT/usr/bin/rad-slurm" --help
	[[ "$output" == *recover* ]]
	dpkg --root="$ROOT" --log=/dev/null --force-not-root -P rad-slurm
	[ ! -e "$ROOT/usr/bin/rad-slurm" ]
	[ ! -e "$ROOT/usr/share/doc/rad-slurm" ]
}

@test ".rpm: asks for its release of Slurm and no later one" {
	ls "$BUILT"/*.rpm >/dev/null 2>&1 || skip "needs rpmbuild"
	local own
	own=$(sed -n 's/.*slurm\([0-9.]*\)-1\..*/\1/p' <<<"$(ls "$BUILT"/*.rpm)")
	needs=$(rpm -qpR "$BUILT"/*.rpm)
	grep -qx "slurm >= $own" <<<"$needs"
	grep -qx "slurm < ${own%.*}.$((${own##*.} + 1))" <<<"$needs"
	grep -q '^libc.so.6' <<<"$needs"
	rpm -qpl "$BUILT"/*.rpm | grep -q '/rad-rm/slurm/job_submit_rad.so$'
}

@test "its plugins load in real Slurm, and a job goes its way" {
	need_deb
	"$RAD_SOURCE_ROOT/tests/cluster" check || skip "no Slurm to run"
	make_users
	chmod 1777 "$WORLD/work"
	dpkg-deb -x "$BUILT"/*.deb "$WORLD/x"
	plugins=$(dirname "$(find "$WORLD/x" -name rad.so)")
	echo "optional $plugins/rad.so conf=@dir@/etc/rad-slurm.conf socket=@dir@/@node@/radd.sock helper=$WORLD/x/usr/bin/rad-slurm" >"$WORLD/stack"
	printf 'gpus: 2x40G\nrad: %s\n' "$RAD_BUILD_ROOT/rad" >"$WORLD/rad-slurm.conf"
	cluster start --nodes 1 --gres shard --rad-conf "$RAD_CONFIG" --plugstack "$WORLD/stack" --etc "$WORLD/rad-slurm.conf" \
		--plugin-dir "$plugins" --set JobSubmitPlugins=rad --set CliFilterPlugins=rad
	use_cluster
	printf '#!/bin/sh\n#RAD --gpu-mem=3G\necho "task $RAD_TASK_ID"\n' >job.sh
	id=$(sbatch_as root job.sh 2>/dev/null)
	[ "$(job "$id" TresPerNode)" = gres:shard:3 ]
	wait_job "$id" COMPLETED
	[ "$(cat "job-$id.out")" = "task 1" ]
	run sbatch --gres=shard:41 job.sh
	[ "$status" -ne 0 ]
}

@test "where Slurm's headers are not: one line that says so" {
	RAD_SLURM_VERSION_H=/nonexistent.h run "$RAD_SOURCE_ROOT/tools/slurm-package" "$WORLD/none" "$WORLD/none"
	[ "$status" -eq 1 ]
	[ "$output" = "tools/slurm-package: no Slurm: slurm/slurm_version.h is not found (Debian: libslurm-dev)" ]
	[ ! -e "$WORLD/none" ]
}
