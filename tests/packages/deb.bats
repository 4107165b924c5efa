#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The .deb on a bare machine: installed, upgraded over a daemon with tasks, removed, purged. Its scripts really run.

load ../helpers.bash
load machine.bash

setup_file()
{
	need_machine dpkg-deb
	make_machine
	make_packages deb
	files >"$WORLD/before"
}

setup() { at_machine; }

teardown() { [ -z "${BATS_ERROR_STATUS:-}" ] || tail -n 40 "$ROOT"/run/systemctl/*log 2>/dev/null; }

teardown_file() { end_machine; }

package() { in_space dpkg --root="$ROOT" --log=/dev/null --force-unsafe-io "$@"; }

install_old() { package -i "$PACKAGES"/*.deb; }

install_new() { package -i "$NEWER"/*.deb; }

@test "made twice, it is the same, byte by byte" {
	cmp "$PACKAGES"/*.deb "$AGAIN"/*.deb
}

@test "into an image that is being made: nothing is started, radd is enabled for the first boot" {
	install_old
	[ ! -e "$ROOT/run/systemctl/radd.service" ]
	[ -L "$ROOT/etc/systemd/system/multi-user.target.wants/radd.service" ]
	on rad --help >/dev/null
	on radd --check-config >/dev/null
	grep -qx 'ExecStart=/usr/bin/radd --foreground' "$ROOT/usr/lib/systemd/system/radd.service"
	! grep "[^r]/bin/rad" "$ROOT"/usr/lib/systemd/system/rad*.service || false	# nor in other lines, or what is there to be copied
	[ -s "$ROOT/usr/share/man/man1/rad-submit.1.gz" ]
	[ -s "$ROOT/usr/share/bash-completion/completions/rad" ]
	[ -s "$ROOT/usr/share/zsh/vendor-completions/_rad" ]
	[ -s "$ROOT/usr/share/doc/rad-rm/copyright" ]
	# Settings are there to be edited, and are not dpkg's, which would ask about them in an upgrade.
	cmp "$ROOT_DIR/packaging/rad.conf" "$ROOT/etc/rad/rad.conf"
	[ "$(stat -c %a "$ROOT/etc/rad/rad.conf" "$ROOT/etc/rad" | tr '\n' ' ')" = "644 755 " ]
	[ -z "$(dpkg-query --admindir="$ROOT/var/lib/dpkg" -W -f='${Conffiles}' rad-rm)" ]
}

@test "purged, it leaves what was there before, byte by byte" {
	package -P rad-rm
	rm -rf "$ROOT/run/systemctl"
	files >"$WORLD/after"
	diff "$WORLD/before" "$WORLD/after"
}

# aa VERSION: AppArmor's programs on the machine, which write down what they are asked to load; those of 3 know no profile of ours.
aa()
{
	mkdir -p "$ROOT/etc/apparmor.d"
	printf '#!/bin/sh\ncase "%s $*" in "3 -QK "*) exit 1 ;; *-QK*) exit 0 ;; esac\necho "$@" >>/etc/loaded\n' "$1" >"$ROOT/usr/sbin/apparmor_parser"
	printf '#!/bin/sh\n[ ! -e /etc/off ]\n' >"$ROOT/usr/bin/aa-enabled"
	chmod +x "$ROOT/usr/sbin/apparmor_parser" "$ROOT/usr/bin/aa-enabled"
	rm -f "$ROOT/etc/loaded"
}

@test "an AppArmor that knows profiles of user namespaces gets one for rad, until it is purged" {
	aa 4
	install_old
	cmp "$ROOT/usr/share/rad/apparmor/rad" "$ROOT/etc/apparmor.d/rad"
	[ "$(cat "$ROOT/etc/loaded")" = "-r -T -W /etc/apparmor.d/rad" ]
	echo "# an administrator's" >>"$ROOT/etc/apparmor.d/rad"
	install_new
	grep -q "an administrator's" "$ROOT/etc/apparmor.d/rad"
	package -r rad-rm
	[ -e "$ROOT/etc/apparmor.d/rad" ]
	package -P rad-rm
	[ "$(tail -n 1 "$ROOT/etc/loaded")" = "-R /etc/apparmor.d/rad" ]
	[ -z "$(find "$ROOT/etc/apparmor.d" -type f)" ]
}

@test "an image that is being made gets it too, and loads nothing; an older AppArmor does not, until it is upgraded" {
	aa 4
	touch "$ROOT/etc/off"
	install_old
	[ -e "$ROOT/etc/apparmor.d/rad" ]
	[ ! -e "$ROOT/etc/loaded" ]
	package -P rad-rm
	rm "$ROOT/etc/off"
	aa 3
	install_old
	[ ! -e "$ROOT/etc/apparmor.d/rad" ]
	aa 4
	mkdir -p "$WORLD/apparmor/DEBIAN" "$WORLD/apparmor/etc/apparmor.d/abi"
	touch "$WORLD/apparmor/etc/apparmor.d/abi/4.0"
	printf '%s\n' "Package: apparmor" "Version: 4" "Architecture: all" "Maintainer: x <x@x>" "Description: x" >"$WORLD/apparmor/DEBIAN/control"
	dpkg-deb --root-owner-group --build "$WORLD/apparmor" "$WORLD/apparmor.deb"
	package -i "$WORLD/apparmor.deb"
	[ "$(cat "$ROOT/etc/loaded")" = "-r -T -W /etc/apparmor.d/rad" ]
	package -P apparmor rad-rm
	rm -r "$ROOT/etc/apparmor.d" "$ROOT/usr/sbin/apparmor_parser" "$ROOT/usr/bin/aa-enabled" "$ROOT/etc/loaded"
}

@test "where policy-rc.d forbids it, nothing is started" {
	boot
	printf '#!/bin/sh\nexit 101\n' >"$ROOT/usr/sbin/policy-rc.d"
	chmod +x "$ROOT/usr/sbin/policy-rc.d"
	install_old
	[ ! -e "$ROOT/run/systemctl/radd.service" ]
	rm "$ROOT/usr/sbin/policy-rc.d"
	package -P rad-rm
}

@test "on a machine that runs: started, and everybody may submit" {
	local id
	boot
	files >"$WORLD/before"
	install_old
	wait_for 10 on rad gpus
	id=$(as_nobody rad submit --parsable --gpu-mem 1G rad simtask --mem 1G --seconds 0.5)
	wait_for 15 ended "$id" COMPLETED
}

@test "the example of settings is one that radd reads, line by line" {
	sed 's/^#\([a-z]\)/\1/' "$ROOT/usr/share/doc/rad-rm/rad.conf.example" >"$ROOT/tmp/all.conf"
	[ "$(grep -c '^[a-z_]*: ' "$ROOT/tmp/all.conf")" -ge 40 ]
	on radd --check-config --config /tmp/all.conf
	rm "$ROOT/tmp/all.conf"
	# And each stands below what it means.
	[ -z "$(awk '/^#[a-z_]*: / && before !~ /^# [A-Z]?/ { print } { before = $0 }' "$ROOT/usr/share/doc/rad-rm/rad.conf.example")" ]
}

@test "upgraded over running tasks: they go on, radd is the new one, settings are kept" {
	upgrade_over_running_tasks
}

@test "upgraded with a mistake in the settings: told, and the running daemon goes on" {
	upgrade_with_bad_settings
}

@test "what was installed by hand and goes before it is told" {
	mkdir -p "$ROOT/usr/local/bin"
	touch "$ROOT/usr/local/bin/rad"
	run install_new
	rm -r "$ROOT/usr/local"
	[[ "$output" == *"/usr/local/bin/rad takes precedence"* ]]
}

@test "removed under a running task: that goes on, and is found again; purged with one running, its folder stays" {
	local id pid
	wait_for 10 on rad gpus
	id=$(start_task)
	wait_for 10 [ -s "$ROOT/tmp/began-$id" ]
	pid=$(cat "$ROOT/tmp/began-$id")
	run package -r rad-rm
	[ "$status" -eq 0 ]
	[[ "$output" == *"running tasks go on to their end (1)"* ]]
	[ ! -e "$ROOT/usr/bin/rad" ]
	[ -e "$ROOT/etc/rad/rad.conf" ]
	alive "$pid"
	run package -P rad-rm
	[[ "$output" == *"tasks are running, so /var/lib/rad stays"* ]]
	alive "$pid"
	install_new
	wait_for 10 on rad gpus
	[ "$(state "$id")" = RUNNING ]
	touch "$ROOT/tmp/end"
	wait_for 15 ended "$id" COMPLETED
	[ "$(cat "$ROOT/tmp/began-$id")" = "$pid" ]
}

@test "purged, it leaves what was there before: queue, sockets and settings go too" {
	package -P rad-rm
	rm -rf "$ROOT"/tmp/* "$ROOT/run/systemctl"
	files >"$WORLD/after"
	diff <(grep -v ' ./run/systemctl' "$WORLD/before") "$WORLD/after"
	[ "$(on sh -c 'grep -l rad /proc/[0-9]*/comm' | wc -l)" = 0 ]
}
