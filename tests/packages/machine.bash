# SPDX-License-Identifier: MIT
# A bare machine for the tests of packages: a root of its own, made from the essential packages of this one, in namespaces of its own for
# processes and mounts. Scripts of packages really run in it, and radd does. Only systemd is not there: `systemctl` of the machine is
# tests/packages/systemctl, which does what radd's unit asks for.
load packages.bash

# need_machine PROGRAM: with which the package is made.
need_machine()
{
	[ "$(id -u)" = 0 ] || skip "needs root: packages are installed"
	command -v "$1" >/dev/null && command -v dpkg-query >/dev/null || skip "needs $1, and dpkg for the machine's files"
	unshare --mount --pid --fork --propagation private sh -c 'mount -t proc proc /proc && mount -t tmpfs tmpfs /mnt && mknod /mnt/null c 1 3' \
		2>/dev/null || skip "namespaces with mounts and devices of their own cannot be made here"
}

# copy_packages NAME...: files of packages that are installed here, without what is only read by people.
copy_packages()
{
	dpkg -L "$@" | grep -vE '^/usr/share/(doc|man|locale|info|lintian)/|^/\.$|^package diverts' |
		while read -r file; do [ -d "$file" ] || echo "$file"; done | sort -u >"$WORLD/files"
	tar -C / --no-recursion -chf - -T "$WORLD/files" 2>/dev/null | tar -C "$ROOT" -xf -
}

# What the machine's programs are linked with.
copy_libraries()
{
	find "$ROOT/usr/bin" "$ROOT/usr/sbin" -type f -perm -u+x -exec ldd {} + 2>/dev/null |
		sed -n 's/.*[[:space:]]\(\/[^ ]*\) (0x.*/\1/p' | sort -u >"$WORLD/files"
	tar -C / -chf - -T "$WORLD/files" 2>/dev/null | tar -C "$ROOT" -xf -
}

# make_machine: an empty one, that "boots" (has a process 1) and has the settings' folder, users, and nothing of RAD-RM.
make_machine()
{
	WORLD=$(mktemp -d /tmp/rad-bats.XXXXXX)
	ROOT=$WORLD/root
	local folder
	mkdir -p "$ROOT"/{proc,dev,tmp,run,etc/systemd/system,var/lib/systemd,var/tmp} "$ROOT"/var/lib/dpkg/{info,updates}
	# Others have something there too, or a package manager takes the folders for the last one's.
	for folder in lib/systemd/system share/doc share/licenses share/man/man{1,5,7,8}; do
		mkdir -p "$ROOT/usr/$folder"
		touch "$ROOT/usr/$folder/of-others"
	done
	chmod 1777 "$ROOT/tmp"
	for folder in bin sbin lib lib64; do
		mkdir -p "$ROOT/usr/$folder"
		ln -s "usr/$folder" "$ROOT/$folder"
	done
	copy_packages dash coreutils findutils grep sed perl-base init-system-helpers
	copy_libraries
	ln -sf dash "$ROOT/usr/bin/sh"
	install -m 755 "$ROOT_DIR/tests/packages/systemctl" "$ROOT/usr/bin/systemctl"
	printf 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$ROOT/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\n' >"$ROOT/etc/group"
	# What dpkg must know of: the C library is there.
	dpkg-query -s libc6 | grep -vE '^(Depends|Recommends|Suggests|Conffiles| |$)' >"$ROOT/var/lib/dpkg/status"
	: >"$ROOT/var/lib/dpkg/info/libc6:$(dpkg --print-architecture).list"
	mkfifo "$WORLD/alive"
	unshare --mount --pid --fork --kill-child --propagation private bash -c 'mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev" &&
		mknod -m 666 "$0/dev/null" c 1 3 && mknod -m 666 "$0/dev/zero" c 1 5 && mknod -m 666 "$0/dev/urandom" c 1 9 && mkdir "$0/dev/shm" &&
		echo up >"$1.up" && read -r _ <"$1"' "$ROOT" "$WORLD/alive" 3>&- 4>&- </dev/null >"$WORLD/log" 2>&1 &
	echo $! >"$WORLD/pid"
	wait_for 10 [ -s "$WORLD/alive.up" ]
	echo "$WORLD" >"$BATS_FILE_TMPDIR/world"
}

# In each test: the machine of the file.
at_machine()
{
	WORLD=$(cat "$BATS_FILE_TMPDIR/world")
	ROOT=$WORLD/root
	INIT=$(ps -o pid= --ppid "$(cat "$WORLD/pid")" | tr -d ' ')
}

# in_space COMMAND...: where the machine's processes and mounts are, in the files of this one: dpkg and rpm, which enter the root themselves.
in_space() { nsenter -t "$INIT" -m -p env LC_ALL=C.UTF-8 "$@" 3>&- 4>&-; }

# on COMMAND...: on the machine.
on() { in_space chroot "$ROOT" env -i PATH=/usr/sbin:/usr/bin LC_ALL=C.UTF-8 HOME=/ RAD_NO_START=1 "$@"; }

# as_nobody COMMAND...: so, as a user without rights, in /tmp.
as_nobody()
{
	in_space chroot --userspec=65534:65534 "$ROOT" env -i -C /tmp PATH=/usr/sbin:/usr/bin LC_ALL=C.UTF-8 HOME=/tmp RAD_NO_START=1 "$@"
}

# boot: from now on systemd runs, and there are GPUs.
boot()
{
	mkdir -p "$ROOT/run/systemd/system"
	echo sim:4xa100-40g >"$ROOT/etc/gpus"
}

end_machine()
{
	[ -e "$BATS_FILE_TMPDIR/world" ] || return 0
	at_machine
	# Its process 1 ends, and all others with it.
	echo >"$WORLD/alive" &
	gone "$(cat "$WORLD/pid")"
	rm -rf "$WORLD"
}

# files: what lies on the machine, with its contents, but what package managers write for themselves.
files()
{
	(cd "$ROOT" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./var/log \) -prune -o \
		-printf '%y %m %p %l\n' -a -type f -exec md5sum {} +) | sort
}

radd_pid() { cat "$ROOT/run/systemctl/radd.service"; }

# alive PID...: of the machine's processes.
alive() { in_space kill -0 "$@"; }

state() { on rad show --json "$1" | jq -r '.tasks[0].state'; }

ended() { [ "$(state "$1")" = "$2" ]; }

# A task that notes its process when it starts, and runs until the file is there.
start_task()
{
	as_nobody rad submit --parsable --gpu-mem 1G sh -c 'echo $$ >>/tmp/began-$RAD_TASK_ID; while [ ! -e /tmp/end ]; do sleep 0.1; done'
}

# ---- what holds of both formats; install_new, of the file, puts the newer package over the older one ----

# Two tasks run and one waits while the newer package is installed; the settings were changed by an administrator before.
upgrade_over_running_tasks()
{
	local before one two waits pids
	cp "$BATS_TEST_DIRNAME/quick.conf" "$ROOT/etc/rad/rad.conf"
	on systemctl restart radd.service
	wait_for 10 on rad gpus
	one=$(start_task) two=$(start_task)
	waits=$(as_nobody rad submit --parsable "--dependency=afterok:$one:$two" true)
	wait_for 10 [ -s "$ROOT/tmp/began-$one" ]
	wait_for 10 [ -s "$ROOT/tmp/began-$two" ]
	before=$(radd_pid) pids=$(cat "$ROOT/tmp/began-$one" "$ROOT/tmp/began-$two")
	install_new
	[ "$(radd_pid)" != "$before" ]
	wait_for 10 on rad gpus
	cmp "$BATS_TEST_DIRNAME/quick.conf" "$ROOT/etc/rad/rad.conf"
	[ "$(state "$one") $(state "$two") $(state "$waits")" = "RUNNING RUNNING PENDING" ]
	alive $pids
	touch "$ROOT/tmp/end"
	wait_for 15 ended "$waits" COMPLETED
	[ "$(state "$one") $(state "$two")" = "COMPLETED COMPLETED" ]
	[ "$(cat "$ROOT/tmp/began-$one" "$ROOT/tmp/began-$two")" = "$pids" ]
	rm "$ROOT/tmp/end"
}

# An upgrade with a mistake in the settings: the daemon that runs goes on, and the mistake is told with its line.
upgrade_with_bad_settings()
{
	local before
	before=$(radd_pid)
	echo 'max_smactt: 0.5' >>"$ROOT/etc/rad/rad.conf"
	run install_new
	[ "$status" -eq 0 ]
	[[ "$output" == *"rad.conf:"*"max_smactt"* ]]
	[[ "$output" == *"systemctl restart radd.service"* ]]
	[ "$(radd_pid)" = "$before" ]
	on rad gpus >/dev/null
	[[ "$(on rad doctor)" == *"/usr/bin/radd was replaced"*"restart radd"* ]]
	cp "$BATS_TEST_DIRNAME/quick.conf" "$ROOT/etc/rad/rad.conf"
}
