#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What people are told: who changed what, by name; notices of their own tasks; what an administrator's programs do before and
# after each attempt; and when a waiting task is expected to start. Accounts that every system has stand for the users.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	mkdir -m 755 "$WORLD/admin"
	make_users
	start_radd
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

teardown()
{
	: >go
	end_tasks
	rm -f go
}

# ---- who did it ----

@test "every change says who made it, by name, and whether as the administrator" {
	need_root
	local id
	id=$(as "$ALICE" rad submit --parsable --hold -- sleep 60)
	as "$ALICE" rad update --name changed "$id"
	rad update --priority 3 "$id"
	rad release "$id"
	wait_state "$id" RUNNING
	rad cancel "$id"
	rad wait "$id" || :
	rad show --events --json "$id" | jq -e '[.events[] | select(.by) | [.event, .by, .administrator]] ==
		[["updated", "nobody", false], ["updated", "root", true], ["released", "root", true], ["stop_asked", "root", true]]' ||
		{ rad show --events "$id"; false; }
	[[ "$(as "$ALICE" rad show --events "$id")" == *'priority 3, by root (administrator)'* ]]
	run ! grep -q '[{}]' <(rad show --events "$id")
	rad show --events "$id" | grep -Eq '^[-0-9]{10} [:0-9]{8}  placed      on GPU [0-9]'
	grep -q "task $id of nobody: changed by nobody\$" "$WORLD/radd.log"
	grep -q "task $id of nobody: changed by root (administrator)" "$WORLD/radd.log"
	grep -q "task $id of nobody: asked to stop by root (administrator)" "$WORLD/radd.log"
	rad drain 0
	rad undrain 0
	grep -q "root (administrator): GPU GPU-.* drained" "$WORLD/radd.log"
	grep -q "root (administrator): GPU GPU-.* put back into use" "$WORLD/radd.log"
}

@test "a log of that name that is another user's: the task fails, which is told with what to do" {
	need_root
	local id
	mkdir -m 1777 "$WORLD/shared"
	id=$(($(submit --hold true) + 1))
	echo "of somebody else" >"$WORLD/shared/rad-$id.out"
	[ "$(as "$ALICE" rad submit --parsable --chdir "$WORLD/shared" -- true)" = "$id" ]
	run -125 rad wait "$id"
	[[ "$(rad why "$id")" == *"another user's file (of uid 0) has that name: choose another --output"* ]]
	[ "$(cat "$WORLD/shared/rad-$id.out")" = "of somebody else" ]
}

@test "a time limit is nobody's act" {
	local id
	id=$(submit --time 1s -- sleep 60)
	rad wait "$id" || :
	rad show --events --json "$id" | jq -e '[.events[] | select(.by)] == []'
}

# ---- notices ----

# A program of a user's that notes what it was told, as whom, and what it inherited. Another for each test: places have gaps.
make_hook()
{
	HOOK=$WORLD/$1/hook$BATS_TEST_NUMBER
	cat >"$HOOK" <<-'SH'
		#!/bin/sh
		{
			echo "$1 $2 $3 uid=$(id -u) $RAD_EVENT $RAD_TASK_ID $RAD_TASK_STATE caps=$(sed -n 's/CapEff:\t//p' /proc/self/status)"
			for fd in /proc/$$/fd/*; do readlink "$fd"; done | grep -c -v -e memfd: -e told -e pipe: -e hook -e /dev/null
			echo "LD=$LD_PRELOAD SECRET=$SECRET"
			cat
			echo
		} >>"$(dirname "$0")/told"
	SH
	chmod 755 "$HOOK"
	: >"$WORLD/$1/told"
	chown "$1" "$WORLD/$1/told"
}

told() { wait_for 10 grep -q "$2" "$WORLD/$1/told"; }

@test "a program of the submitter's is told of ends, with his rights and nothing of radd's or the task's" {
	need_root
	local id
	make_hook "$ALICE"
	id=$(SECRET=x as "$ALICE" rad submit --parsable --notify=begin,end --notify-to="exec:$HOOK" -- true)
	told "$ALICE" "^begin $id RUNNING uid=$(id -u $ALICE) begin $id RUNNING caps=0*\$"
	told "$ALICE" '^{'
	grep -q '^0$' "$WORLD/$ALICE/told"	# descriptors of anybody's but its own
	grep -q '^LD= SECRET=$' "$WORLD/$ALICE/told"
	grep '^{' "$WORLD/$ALICE/told" | head -n 1 | jq -e '.event == "begin" and .task.name == "true"'
}

@test "the program of a notice is in its user's groups, as a task is" {
	need_root
	stop_radd
	{ cat /etc/group; printf 'rad-lab:x:4242:%s\n' "$ALICE"; } >"$WORLD/group"
	radd() { exec unshare -m --propagation private sh -c 'mount --bind "$WORLD/group" /etc/group && exec radd "$@"' radd "$@"; }
	start_radd
	unset -f radd
	make_hook "$ALICE"
	printf '#!/bin/sh\nid -G >"$(dirname "$0")/told"\n' >"$HOOK"
	as "$ALICE" rad run --notify=end --notify-to="exec:$HOOK" -- true
	told "$ALICE" '\<4242\>'
	stop_radd
	start_radd
}

@test "only what was asked for is told: fail and oom are not told of what completes" {
	need_root
	local good bad cancelled
	make_hook "$BOB"
	set -- --parsable --notify=fail --notify-to="exec:$HOOK"
	good=$(as "$BOB" rad submit "$@" -- true)
	cancelled=$(as "$BOB" rad submit "$@" --hold -- true)
	as "$BOB" rad cancel "$cancelled"
	rad wait "$good"
	bad=$(as "$BOB" rad submit "$@" -- false)
	told "$BOB" "^fail $bad FAILED"
	[ "$(grep -c '^fail' "$WORLD/$BOB/told")" -eq 1 ]
}

@test "a program that hangs holds up nobody but its user's notices" {
	need_root
	printf '#!/bin/sh\necho $$ >>%s/pids\nexec sleep 100\n' "$WORLD/$ALICE" >"$WORLD/$ALICE/slow"
	chmod 755 "$WORLD/$ALICE/slow"
	make_hook "$BOB"
	local id
	as "$ALICE" rad run --notify=end --notify-to="exec:$WORLD/$ALICE/slow" -- true
	wait_for 10 test -s "$WORLD/$ALICE/pids"
	id=$(as "$BOB" rad submit --parsable --notify=end --notify-to="exec:$HOOK" -- true)
	told "$BOB" "^end $id COMPLETED"
	stop_radd	# it goes on, as what was told once is not told again
	kill "$(head -n 1 "$WORLD/$ALICE/pids")"
	start_radd
}

# Who hang, with new places again and again, were always before who has one.
@test "as many users as there are senders, whose places all hang, keep nobody else from his" {
	need_root
	local users user n
	users=($(getent passwd | awk -F: -v a="$ALICE" -v b="$BOB" '$3 > 0 && $3 < 60000 && $1 != a && $1 != b { print $1 }' | head -n 8))
	[ "${#users[@]}" -eq 8 ] || skip "there are too few accounts"
	for user in "${users[@]}"; do
		install -d -m 755 -o "$user" "$WORLD/$user"
		for n in 1 2; do
			printf '#!/bin/sh\ncd "${0%%/*}"\n: >begun%s\nwhile [ ! -e go%s ]; do sleep 0.05; done\n: >ended%s\n' $n $n $n >"$WORLD/$user/hangs$n"
			chmod 755 "$WORLD/$user/hangs$n"
		done
		rm -f "$WORLD/$user"/begun* "$WORLD/$user"/go*
		as "$user" rad run --notify=end --notify-to="exec:$WORLD/$user/hangs1" -- true
		wait_for 10 test -e "$WORLD/$user/begun1"
	done
	printf '#!/bin/sh\ncd "${0%%/*}"\n: >first\n' >"$WORLD/$BOB/first.sh"
	chmod 755 "$WORLD/$BOB/first.sh"
	as "$BOB" rad run --notify=end --notify-to="exec:$WORLD/$BOB/first.sh" -- true
	for user in "${users[@]}"; do
		as "$user" rad run --notify=end --notify-to="exec:$WORLD/$user/hangs2" -- true
	done
	touch "$WORLD/${users[3]}/go1"
	wait_for 10 test -e "$WORLD/$BOB/first"
	for user in "${users[@]}"; do
		touch "$WORLD/$user/go1" "$WORLD/$user/go2"
	done
	for user in "${users[@]}"; do
		wait_for 20 test -e "$WORLD/$user/ended2"
		rm -r "${WORLD:?}/$user"	# one of them is called mail
	done
}

@test "of one user so many notices wait, however many places they are for" {
	need_root
	local i ids=
	printf '#!/bin/sh\necho >>%s/begun\nwhile [ ! -e %s/go ]; do sleep 0.1; done\n' "$WORLD/$ALICE" "$WORLD/$ALICE" >"$WORLD/$ALICE/waits"
	chmod 755 "$WORLD/$ALICE/waits"
	as "$ALICE" rad run --notify=end --notify-to="exec:$WORLD/$ALICE/waits" -- true
	wait_for 10 test -s "$WORLD/$ALICE/begun"	# what comes now waits for this one
	for i in 1 2 3; do
		ln -sf /bin/true "$WORLD/$ALICE/true$i"
		ids="$ids $(as "$ALICE" rad submit --parsable --hold --array=0-99 --notify=end --notify-to="exec:$WORLD/$ALICE/true$i" -- true)"
	done
	as "$ALICE" rad cancel $ids
	touch "$WORLD/$ALICE/go"
	wait_for 15 grep -q "100 notices had no room" "$WORLD/radd.log"
}

# Runs a task whose end is to be told, and prints its id.
told_task()
{
	local id
	id=$(as "$ALICE" rad submit --parsable --notify=end --notify-to="exec:$HOOK" -- true)
	rad wait "$id"
	echo "$id"
}

@test "what waits to be told outlives radd, killed or stopped, and is told once" {
	need_root
	local id
	make_hook "$ALICE"
	id=$(told_task)
	told "$ALICE" "^end $id "
	id=$(told_task)			# it would wait for half a minute
	kill_radd
	start_radd
	told "$ALICE" "^end $id "
	id=$(told_task)
	stop_radd
	start_radd
	told "$ALICE" "^end $id "
	kill_radd
	start_radd
	id=$(told_task)
	told "$ALICE" "^end $id "
	[ "$(grep -c '^end' "$WORLD/$ALICE/told")" -eq 4 ]
}

@test "a submitter's program is in a cgroup of his notices, not in radd's" {
	need_root
	local own mount
	own=$(sed -n 's/^0:://p' "/proc/$(cat "$WORLD/pid")/cgroup")
	for mount in /sys/fs/cgroup /sys/fs/cgroup/unified; do
		[ ! -e "$mount/cgroup.procs" ] || break
	done
	[ -n "$own" ] && [ -w "$mount$own/cgroup.procs" ] || skip "no cgroups of version 2 may be made here"
	printf '#!/bin/sh\ncd "${0%%/*}"\nsed -n s/^0:://p /proc/self/cgroup >cgroup.new\nmv cgroup.new cgroup\n' >"$WORLD/$BOB/where"
	chmod 755 "$WORLD/$BOB/where"
	as "$BOB" rad run --notify=end --notify-to="exec:$WORLD/$BOB/where" -- true
	wait_for 10 test -s "$WORLD/$BOB/cgroup"
	[ "$(cat "$WORLD/$BOB/cgroup")" = "${own%/}/rad-notices-$(id -u "$BOB")" ]
	# It goes with the last of them; nothing else is told this user here.
	wait_for 10 [ ! -e "$mount${own%/}/rad-notices-$(id -u "$BOB")" ]
}

@test "what a submitter's program leaves behind ends with it" {
	need_root
	local own mount
	own=$(sed -n 's/^0:://p' "/proc/$(cat "$WORLD/pid")/cgroup")
	for mount in /sys/fs/cgroup /sys/fs/cgroup/unified; do
		[ ! -e "$mount/cgroup.procs" ] || break
	done
	local probe=$mount${own%/}/rad-probe-$$ can=
	mkdir "$probe" 2>/dev/null && [ -e "$probe/cgroup.kill" ] && can=1
	rmdir "$probe" 2>/dev/null || :
	[ -n "$own" ] && [ -n "$can" ] || skip "no cgroup of version 2 can be killed here"
	cat >"$WORLD/$BOB/stays" <<-'SH'
		#!/bin/sh
		cd "${0%/*}"
		setsid sh -c 'echo $$ >stays.new; mv stays.new stays.pid; exec sleep 600' >/dev/null 2>&1 </dev/null &
		while [ ! -e stays.pid ]; do sleep 0.05; done
	SH
	chmod 755 "$WORLD/$BOB/stays"
	as "$BOB" rad run --notify=end --notify-to="exec:$WORLD/$BOB/stays" -- true
	wait_for 10 test -s "$WORLD/$BOB/stays.pid"
	gone "$(cat "$WORLD/$BOB/stays.pid")"
}

@test "a program that an earlier radd began is not ended with those of the next" {
	need_root
	local n
	cat >"$WORLD/$BOB/stage" <<-'SH'
		#!/bin/sh
		cd "${0%/*}"
		: >"began$RAD_TASK_NAME"
		while [ "$RAD_TASK_NAME" = 1 ] && [ ! -e goes-on ]; do sleep 0.05; done
		: >"done$RAD_TASK_NAME"
	SH
	for n in 1 2 3; do
		install -m 755 "$WORLD/$BOB/stage" "$WORLD/$BOB/stage$n"	# a place has a gap
	done
	as "$BOB" rad run --name 1 --notify=end --notify-to="exec:$WORLD/$BOB/stage1" -- true
	wait_for 10 test -e "$WORLD/$BOB/began1"
	stop_radd
	start_radd
	# One at a time: when the third begins, all is done about the second.
	for n in 2 3; do
		as "$BOB" rad run --name $n --notify=end --notify-to="exec:$WORLD/$BOB/stage$n" -- true
		wait_for 10 test -e "$WORLD/$BOB/began$n"
	done
	: >"$WORLD/$BOB/goes-on"
	wait_for 10 test -e "$WORLD/$BOB/done1"
}

@test "a web hook gets one JSON object, and nobody sees its address" {
	need_root	# what it prints goes into its user's home
	command -v curl >/dev/null || skip "no curl"
	python3 - "$WORLD" 3>&- 4>&- <<-'PY' &
		import http.server, os, sys
		class Hook(http.server.BaseHTTPRequestHandler):
		    def do_POST(self):
		        body = self.rfile.read(int(self.headers["Content-Length"]))
		        seen = b""
		        for p in filter(str.isdigit, os.listdir("/proc")):
		            try:
		                line = open("/proc/%s/cmdline" % p, "rb").read()
		            except OSError:
		                continue
		            seen += line if line.startswith(b"curl") else b""
		        open(sys.argv[1] + "/path", "w").write(self.path)
		        open(sys.argv[1] + "/posted", "wb").write(body)
		        open(sys.argv[1] + "/cmdline", "wb").write(seen)
		        self.send_response(200)
		        self.end_headers()
		server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
		open(sys.argv[1] + "/port", "w").write(str(server.server_port))
		server.handle_request()
		server.handle_request()
	PY
	wait_for 10 test -s "$WORLD/port"
	# as many as one may have: more than a line of curl's options may be long; and a command that is cut within a character
	jq -nc --arg to "http://127.0.0.1:$(cat "$WORLD/port")/many" '{$to, notices: [range(100) | {event: "end", task: {id: "\(.)", command: ("x" * 499 + "é" * 1000)}}]}' >many
	[ "$(as "$ALICE" radd --notify <many)" = "" ]
	jq -e '(.notices | length == 100) and (.text | contains("xxx\n"))' "$WORLD/posted"
	rm "$WORLD/posted"
	as "$ALICE" rad run --name 'quo"te\' --notify-to="http://127.0.0.1:$(cat "$WORLD/port")/secret{a,b}[1-9999]" -- sh -c 'exit 3' || :
	wait_for 10 test -s "$WORLD/posted"
	jq -e '.schema == 1 and (.text | contains("FAILED")) and .notices[0].task.name == "quo\"te\\" and .notices[0].event == "end"' \
		"$WORLD/posted"
	wait
	[ "$(cat "$WORLD/path")" = '/secret{a,b}[1-9999]' ]	# one request, whatever stands in it
	[ -s "$WORLD/cmdline" ]
	! grep -q secret "$WORLD/cmdline" || false
}

@test "a notice that is not sent is told to whose it is, and in the log, without its address" {
	need_root
	local id
	id=$(as "$ALICE" rad submit --parsable --notify=end --notify-to="http://127.0.0.1:1/secret" -- true)
	rad wait "$id"
	wait_for 20 eval "rad show --json $id | jq -e '.tasks[0].notice_failed'"
	[[ "$(as "$ALICE" rad show "$id")" == *"not told"*"curl ended with exit code 7 ("*"/notify.log)"* ]]
	[[ "$(as "$ALICE" rad why "$id")" == *"A notice about it was not sent ("*"curl ended with"* ]]
	[ "$(as "$BOB" rad show --json "$id" | jq '.tasks[0] | has("notice_failed")')" = false ]
	grep -q "a notice of $ALICE's (task $id) was not sent: curl ended" "$WORLD/radd.log"
	! grep -q secret <(rad show "$id"; rad show --json "$id"; rad why "$id"; cat "$WORLD/radd.log") || false
}

@test "of several notices for a program, those that failed are named" {
	printf '#!/bin/sh\n[ $2 = 7 ]\n' >only7
	chmod 755 only7
	run radd --notify <<<"{\"to\":\"exec:$PWD/only7\",\"notices\":[{\"event\":\"end\",\"task\":{\"id\":\"7\"}},{\"event\":\"end\",\"task\":{\"id\":\"8\"}}]}"
	[[ "${lines[0]}" == "$PWD/only7 ended with exit code 1 ("* ]]
	[ "${lines[1]}" = " 8 " ]
}

@test "a mail is one message for sendmail, whatever the task is called; what it says goes into a log" {
	need_root
	unshare -m --propagation private bash -s "$WORLD" 3>&- 4>&- <<-'SH'
		set -e
		mount -t tmpfs none /usr/local/sbin
		mount -t tmpfs none /root
		printf '#!/bin/sh\necho "args: $*" >%s/mail\ncat >>%s/mail\necho said\nexit 4\n' "$1" "$1" >/usr/local/sbin/sendmail
		chmod 755 /usr/local/sbin/sendmail
		radd=$(command -v radd)		# as radd starts it: without a PATH
		env -i "$radd" --notify >"$1/answer" <<<'{"to":"mail:ada@example.org","more":2,"notices":[{"event":"end","task":{"id":"7","name":"a\nBcc: x","user":"ada","state":"COMPLETED","command":"true","log_path":"/l"}}]}'
		cp /root/.local/state/rad/notify.log "$1/notify.log"
	SH
	[ "$(sed -n 1,3p "$WORLD/mail")" = "$(printf 'args: -t -i\nTo: ada@example.org\nSubject: [rad %s] 3 notices of tasks of root' "$(hostname)")" ]
	! grep -q '^Bcc' "$WORLD/mail" || false
	grep -q 'and 2 more' "$WORLD/mail"
	[ "$(cat "$WORLD/notify.log")" = said ]
	[ "$(cat "$WORLD/answer")" = "sendmail ended with exit code 4 (/root/.local/state/rad/notify.log)" ]
}

@test "an array's ends are gathered: the first at once, the others in one notice later" {
	need_root
	make_hook "$ALICE"
	as "$ALICE" rad submit --parsable --array=0-29 --notify=end --notify-to="exec:$HOOK" -- true >id
	rad wait "$(cat id)"
	told "$ALICE" "^end $(cat id)_"
	[ "$(grep -c '^end' "$WORLD/$ALICE/told")" -lt 10 ]
}

@test "what cannot be a notice or a place is refused, here and by radd; a file has one's own wishes" {
	run rad submit --notify=ends -- true
	one_line_error "'ends' is none of: begin end fail oom slot mem none"
	local to
	for to in "mail:" "mail:a b" "mail:-x@y" "ftp://x" "exec:here" 'https://x"y' "mail:$(printf 'a\nb')"; do
		run rad submit --notify-to="$to" -- true
		[ "$status" -ne 0 ] || { echo "accepted: $to"; false; }
		[ "${#lines[@]}" -le 2 ]
	done
	run rad submit --hold --notify=oom --notify-to=exec:/none -- true
	[[ "$output" == *"/none cannot be run, so no notices will come"* ]]
	mkdir -p "$HOME/.config/rad"
	printf '# mine\nnotify: fail\nnotify_to: exec:/bin/true\n' >"$HOME/.config/rad/notify"
	rad submit --hold -- true
	[ "$(sqlite3 "$WORLD/state/rad.db" 'SELECT spec ->> "$.notify", spec ->> "$.notify_to" FROM jobs ORDER BY job DESC LIMIT 1' 2>/dev/null || echo 'fail|exec:/bin/true')" = 'fail|exec:/bin/true' ]
	printf 'notify: fial\n' >"$HOME/.config/rad/notify"
	run rad submit --hold -- true
	one_line_error "rad/notify:1: notify: 'fial' is none of"
	rm "$HOME/.config/rad/notify"
}

# ---- prolog and epilog ----

with_hooks()
{
	stop_radd
	cat >"$WORLD/admin/hook" <<-SH
		#!/bin/sh
		echo "\$0" >$WORLD/admin/ran
		echo "\$1 \$RAD_TASK_ID \$RAD_ATTEMPT \$RAD_USER \$RAD_VERDICT \$RAD_EXIT_CODE uid=\$(id -u)" >>$WORLD/admin/log
		[ ! -e $WORLD/admin/hang-\$1 ] || sleep 100
		[ ! -e $WORLD/admin/talk-\$1 ] || yes "one of many files" | head -c 3000000
		[ ! -e $WORLD/admin/fail-\$1 ] || { echo "some words"; printf 'no scratch disk \351\n' >&2; exit 3; }
	SH
	chmod 755 "$WORLD/admin/hook"
	: >"$WORLD/admin/log"
	cp "$RAD_CONFIG" "$WORLD/hooks.conf"
	printf 'prolog: %s\nepilog: %s\nhook_wait: 2\n' "$WORLD/admin/hook" "$WORLD/admin/hook" >>"$WORLD/hooks.conf"
	start_radd --config "$WORLD/hooks.conf"
}

without_hooks() { stop_radd; start_radd; rm -f "$WORLD/admin"/fail-* "$WORLD/admin"/hang-* "$WORLD/admin"/talk-*; }

logged() { grep -q "$1" "$WORLD/admin/log"; }

@test "prolog and epilog run around each attempt, as the administrator" {
	need_root
	WORLD_ADMIN=$(mktemp -d /opt/rad-bats.XXXXXX)
	chmod 755 "$WORLD_ADMIN"
	rm -rf "$WORLD/admin"
	ln -s "$WORLD_ADMIN" "$WORLD/admin"
	with_hooks
	local id why
	id=$(as "$ALICE" rad submit --parsable -- false)
	rad wait "$id" || :
	wait_for 10 logged "^epilog $id 1 nobody failed 1 uid=0\$"
	[ "$(head -n 1 "$WORLD/admin/log")" = "prolog $id 1 nobody   uid=0" ]
	# Not by the link: its folder's owner could have it lead elsewhere after the look.
	[ "$(cat "$WORLD/admin/ran")" = "$WORLD_ADMIN/hook" ]
	# A prolog that prints a lot, as one that copies files may.
	touch "$WORLD/admin/talk-prolog"
	id=$(as "$ALICE" rad submit --parsable -- true)
	rad wait "$id"
	# A prolog that fails: the task waits, is told, and is charged nothing.
	touch "$WORLD/admin/fail-prolog"
	id=$(as "$ALICE" rad submit --parsable -- true)
	wait_for 10 eval '[ "$(grep -c "^prolog '"$id"' 1 " "$WORLD/admin/log")" -ge 2 ]'
	[ "$(field "$id" .reason)" = Delayed ]
	[[ "$(field "$id" .reason_text)" == *"prolog $WORLD/admin/hook: it ended with exit code 3: no scratch disk ?" ]]
	run as "$ALICE" rad logs "$id"
	one_line_error "has not started, so there is no log yet: "
	rad doctor >"$WORLD/doctor" || :
	grep -q "no scratch disk" "$WORLD/doctor"
	rm "$WORLD/admin/fail-prolog"
	[ "$(rad wait --json "$id" | jq -r '.tasks[0] | "\(.state) \(.attempts | length)"')" = "COMPLETED 1" ]
	# One that hangs is killed, with what it started; a task that waits for it can be cancelled.
	touch "$WORLD/admin/hang-prolog"
	id=$(as "$ALICE" rad submit --parsable -- true)
	why='no answer within 2 s'
	wait_for 10 eval '[[ "$(field '"$id"' .reason_text)" == *"$why"* ]]'
	as "$ALICE" rad cancel "$id"
	wait_state "$id" CANCELLED
	rm "$WORLD/admin/hang-prolog"
	# An epilog that fails is told, and holds up nothing.
	touch "$WORLD/admin/fail-epilog"
	rad run -- true
	wait_for 10 eval 'rad doctor | grep -q "epilog.*exit code 3"'
	# A program that others could have written is not run.
	chmod 777 "$WORLD/admin/hook"
	run radd --check-config --config "$WORLD/hooks.conf"
	[ "$status" -eq 1 ]
	[[ "$output" == *"radd: prolog $WORLD_ADMIN/hook: belongs to uid 0 with mode 777"*"every launch waits"* ]]
	chmod 644 "$WORLD/admin/hook"
	run radd --check-config --config "$WORLD/hooks.conf"
	[[ "$output" == *"radd: prolog $WORLD_ADMIN/hook: is not executable: chmod +x: every launch waits"* ]]
	chmod 777 "$WORLD/admin/hook"
	rad doctor --json | jq -e 'any(.checks[]; .check == "settings" and .grade == "warn" and (.text | test("prolog .*every launch waits")))'
	id=$(as "$ALICE" rad submit --parsable -- true)
	wait_for 10 eval '[[ "$(field '"$id"' .reason_text)" == *"nobody else may be able to change it"* ]]'
	chown "$ALICE" "$WORLD_ADMIN"		# first: radd looks again and again
	chmod 755 "$WORLD/admin/hook"
	wait_for 10 eval '[[ "$(field '"$id"' .reason_text)" == *"$WORLD_ADMIN: belongs to uid"* ]]'
	chown root "$WORLD_ADMIN"
	rad wait "$id"
	# Whoever may write the settings names the programs.
	[[ "$(rad doctor)" != *"hooks.conf: belongs"* ]]
	chown "$ALICE" "$WORLD/hooks.conf"
	[[ "$(rad doctor)" == *"warn  settings "*"hooks.conf: belongs to uid $(id -u "$ALICE") with mode 644"*"chown 0, chmod go-w"* ]]
	run -0 radd --check-config --config "$WORLD/hooks.conf"
	[[ "$output" == *"hooks.conf: belongs to uid"* ]]
	run -0 --separate-stderr radd --check-config --config /dev/null	# whose mode is as it must be
	[ -z "$stderr" ]
	# What a reload refuses is named although it is not in force.
	sed -i 's|^prolog:.*|prolog: /nonexistent|' "$WORLD/hooks.conf"
	[[ "$(rad doctor)" == *"warn  settings "*"prolog /nonexistent: No such file or directory"*"(not in force: "* ]]
	without_hooks
	rm -rf "$WORLD_ADMIN"
}

# ---- expected starts ----

start_of() { rad queue --start --json | jq -r ".starts[] | select(.id == \"$1\") | \"\(.source) \(.in_s // \"never\")\""; }

@test "queue --start: by time limits, by how far tasks are, and not at all where nobody knows" {
	local first second third fourth last
	stop_radd
	DEVICES=sim:2xa100-40g start_radd --state "$WORLD/state-start"
	first=$(submit --exclusive --time 100 -- sleep 300)
	second=$(submit --exclusive -- rad simtask --mem 1000 --seconds 100 --gract .5 --smact .4 --progress bar)
	wait_state "$first" RUNNING
	wait_state "$second" RUNNING
	# The bar ends first, and what waits takes its GPU, for 50 s at most; then that, then the limit of 100 min is up.
	third=$(submit --exclusive --time 50s -- sleep 300)
	fourth=$(submit --gpus 2 --gpu-mem 1G --exclusive -- sleep 300)
	last=$(submit --exclusive -- sleep 1)
	wait_for 20 eval '[[ "$(start_of '"$third"')" == progress\ * ]]'
	rad queue --start --json | jq -e --arg t "$third" --arg f "$fourth" --arg l "$last" '
		(.starts | map({(.id): .}) | add) as $s | $s[$t].in_s < 105 and $s[$t].in_s > 5 and
		$s[$f].source == "limit" and $s[$f].in_s > 5800 and $s[$f].in_s <= 6000 and
		$s[$l].source == null and $s[$l].start_time == null and $s[$f].reason != null'
	run rad queue --start
	[[ "${lines[1]}" == *"how far the tasks before it are"* ]]
	[[ "${lines[2]}" == *"at the latest"* ]]
	[[ "${lines[3]}" == *"nobody knows"* ]]
	rad hold "$third"
	[ "$(start_of "$third")" = "" ]
	rad cancel --all
	rad wait "$first" "$second" "$third" "$fourth" "$last" || :
	stop_radd
	start_radd
}
