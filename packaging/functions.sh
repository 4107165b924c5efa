# SPDX-License-Identifier: MIT
# What the scripts of both packages have in common: tools/package puts it in front of each, with the lists of what it packed.
service=@service@
units='@units@'
sysusers='@sysusers@'
tmpfiles='@tmpfiles@'

say()
{
	echo "rad-rm: $*" >&2
}

# Whether systemd runs here: not in a chroot that a machine's image is made in.
booted()
{
	[ -d /run/systemd/system ] && command -v systemctl >/dev/null
}

# Accounts and folders that units need before they start.
prepare()
{
	[ -z "$sysusers" ] || ! command -v systemd-sysusers >/dev/null || systemd-sysusers $sysusers || :
	[ -z "$tmpfiles" ] || ! command -v systemd-tmpfiles >/dev/null || systemd-tmpfiles --create $tmpfiles || :
}

# Whether radd would start with the settings there are. Where not, a daemon that runs already is better left alone: it has good ones.
settings_hold()
{
	said=$(/usr/bin/radd --check-config 2>&1 >/dev/null) && return 0
	say "$said"
	say "so $service is left as it is; correct that, then run: systemctl restart $service"
	return 1
}

# Why a unit that was started is not there: radd leaves its last words.
tell_of_failure()
{
	[ $1 != $service ] || [ ! -s /run/rad/radd.failed ] || say "$service did not start: $(cat /run/rad/radd.failed)"
	say "see: journalctl -u $1"
}

# What was installed by hand and goes before the package: the shell's and systemd's folders for that are looked at first.
tell_of_others()
{
	for other in /usr/local/bin/rad /usr/local/lib/systemd/system/$service /etc/systemd/system/$service; do
		[ ! -f $other ] || say "$other takes precedence over the package's: remove what was installed by hand (make uninstall)"
	done
}

# How many tasks of root's radd are running. Each has a process with its attempt's folder for an argument, until it ends.
tasks_running()
{
	grep -hosz '^/var/lib/rad/attempts/.*' /proc/[0-9]*/cmdline | sort -zu | tr -cd '\000' | wc -c
}

tell_of_tasks()
{
	running=$(tasks_running)
	[ "$running" != 0 ] || return 0
	say "running tasks go on to their end ($running); waiting ones stay in /var/lib/rad until radd is installed again"
	# Idle ones radd stopped as it ended; those that serve tasks are nobody's when these are over.
	for pipe in /run/rad/mps/*/pipe; do
		[ ! -d "$pipe" ] ||
			say "an MPS server stays for them; after their end, run: echo quit | CUDA_MPS_PIPE_DIRECTORY=$pipe nvidia-cuda-mps-control"
	done
}

# What capturing as root left beside the Python files.
clean_python()
{
	find /usr/share/rad -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || :
}

# Sockets and MPS folders, which the unit keeps when radd stops: for tasks that run.
clean_run()
{
	[ "$(tasks_running)" != 0 ] || rm -rf /run/rad
}

# permit_captures FILE: the profile of AppArmor, by which captures may lay files aside where the kernel denies user namespaces to others.
# Only an AppArmor that knows such profiles (4.0 and newer) gets it: an older one would report it as a mistake each time that it starts.
# One that is there is an administrator's by now; a link in /etc/apparmor.d/disable keeps it from being loaded.
permit_captures()
{
	[ -w /etc/apparmor.d ] && command -v apparmor_parser >/dev/null && apparmor_parser -QK $1 >/dev/null 2>&1 || return 0
	[ -e /etc/apparmor.d/rad ] || install -m 644 $1 /etc/apparmor.d/rad
	! aa-enabled --quiet 2>/dev/null || apparmor_parser -r -T -W /etc/apparmor.d/rad || say "its profile of AppArmor was not loaded"
}

# The kernel goes by a profile until it is removed there too. Programs that have it go on as unconfined.
deny_captures()
{
	[ -w /etc/apparmor.d ] || return 0
	[ ! -e /etc/apparmor.d/rad ] || ! aa-enabled --quiet 2>/dev/null || apparmor_parser -R /etc/apparmor.d/rad 2>/dev/null || :
	rm -f /etc/apparmor.d/rad /etc/apparmor.d/local/rad /etc/apparmor.d/disable/rad /etc/apparmor.d/force-complain/rad
}
