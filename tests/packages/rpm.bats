#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The .rpm on a bare machine: installed, upgraded over a daemon with tasks, removed. Its scripts really run. The machine has no packages
# of rpm's but this one, so what it asks for is looked at, and not resolved.

load ../helpers.bash
load machine.bash

setup_file()
{
	need_machine rpmbuild
	make_machine
	make_packages rpm
	files >"$WORLD/before"
}

setup() { at_machine; }

teardown() { [ -z "${BATS_ERROR_STATUS:-}" ] || tail -n 40 "$ROOT"/run/systemctl/*log 2>/dev/null; }

teardown_file() { end_machine; }

package() { in_space rpm --root="$ROOT" --dbpath=/var/lib/rpm --nodeps --nosignature "$@" 2> >(grep -v "^rpm: .*\(Alien\|what you are doing\)" >&2); }

install_old() { package -i "$PACKAGES"/*.rpm; }

install_new() { package -U --replacepkgs "$NEWER"/*.rpm; }

@test "made twice, it is the same, byte by byte" {
	cmp "$PACKAGES"/*.rpm "$AGAIN"/*.rpm
}

@test "it asks for the C library and a shell only, and gives nobody its libraries" {
	rpm -qp --requires --nosignature "$PACKAGES"/*.rpm | grep -vE '^(libc|libm|ld-linux[a-z0-9_-]*)\.so|^rpmlib\(|^rtld\(|^/bin/sh$|^config\(' >"$WORLD/more" || :
	[ ! -s "$WORLD/more" ] || { cat "$WORLD/more"; return 1; }
	[ "$(rpm -qp --provides --nosignature "$PACKAGES"/*.rpm | grep -vc '^\(config(\)\?rad-rm')" = 0 ]
}

@test "into an image that is being made: nothing is started; removed, it leaves what was there before" {
	install_old
	on rad --help >/dev/null
	[ -s "$ROOT/usr/share/zsh/site-functions/_rad" ]
	[ -s "$ROOT/usr/share/licenses/rad-rm/LICENSE" ]
	package -e rad-rm
	rm -rf "$ROOT/run/systemctl"
	files >"$WORLD/after"
	diff "$WORLD/before" "$WORLD/after"
}

@test "on a machine that runs: nothing is started before an administrator says so" {
	boot
	install_old
	[ ! -e "$ROOT/run/systemctl/radd.service" ]
	on systemctl enable --now radd.service
	wait_for 10 on rad gpus
}

@test "upgraded over running tasks: they go on, radd is the new one, settings are kept" {
	upgrade_over_running_tasks
}

@test "upgraded with a mistake in the settings: told, and the running daemon goes on" {
	upgrade_with_bad_settings
}

@test "removed under a running task: that goes on to its end, queue and history stay, nothing else does" {
	local id
	id=$(start_task)
	wait_for 10 [ -s "$ROOT/tmp/began-$id" ]
	run package -e rad-rm
	[ "$status" -eq 0 ]
	[[ "$output" == *"running tasks go on to their end (1)"* ]]
	[[ "$output" == *"queue and history stay in /var/lib/rad"* ]]
	alive "$(cat "$ROOT/tmp/began-$id")"
	[ ! -e "$ROOT/run/systemctl/radd.service" ]
	touch "$ROOT/tmp/end"
	wait_for 10 no_shim
	# By hand, as it is told: and what an administrator had changed is kept aside, as rpm does.
	rm -r "$ROOT/var/lib/rad" "$ROOT/run/rad" "$ROOT/etc/rad/rad.conf.rpmsave" "$ROOT"/tmp/* "$ROOT/run/systemctl" "$ROOT"/run/systemd "$ROOT/etc/gpus"
	rmdir "$ROOT/etc/rad"
	files >"$WORLD/after"
	diff "$WORLD/before" "$WORLD/after"
}

no_shim() { [ "$(on sh -c 'grep -l "^rad" /proc/[0-9]*/comm' | wc -l)" = 0 ]; }
