#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rad exporter: what it says, to whom, and what it does when radd, clients or the place where it listens are not as they should be.
# A Prometheus (tools/deps --monitoring) scrapes it and is asked each query of the dashboard; without one those tests are skipped.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	chmod 755 "$WORLD"	# started as root, it asks as nobody
	printf 'dcgm_job_mapping: %s/map\n' "$WORLD" >>"$RAD_CONFIG"
	start_radd
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

teardown()
{
	stop_exporter
	[ -z "${map:-}" ] || rm -rf "$map"
	[ ! -e "$WORLD/stopped" ] || kill -CONT "$(cat "$WORLD/stopped")" 2>/dev/null || :
}

# start_exporter [options]: returns when it listens; $address is where.
start_exporter()
{
	local line
	mkfifo "$WORLD/said"
	rad exporter --listen 127.0.0.1:0 "$@" >"$WORLD/said" 2>"$WORLD/exporter.err" 3>&- 4>&- &
	exporter=$!
	IFS= read -r -t 80 line <"$WORLD/said" || line=
	rm -f "$WORLD/said"
	address=${line#rad exporter: http://}
	address=${address%/metrics}
	[ -n "$address" ] || { cat "$WORLD/exporter.err"; return 1; }
}

stop_exporter()
{
	[ -z "${exporter:-}" ] || { kill "$exporter" 2>/dev/null && gone "$exporter"; } || :
	exporter=
}

scrape() { curl -s --max-time 100 "$@" "http://$address/metrics"; }

# value SERIES: from ./metrics.
value() { awk -v s="$1" 'substr($0, 1, length(s) + 1) == s " " { print $NF }' metrics; }

# ---- what it says ----

@test "GPUs, queue and radd itself, with units, help and types that promtool takes" {
	local id
	id=$(submit --gpu-mem 4G -- sh -c "$(until_file go-one)")
	wait_state "$id" RUNNING
	submit --hold -- true
	start_exporter
	scrape >metrics
	[ "$(value rad_up)" = 1 ]
	[ "$(value 'rad_tasks{state="running"}')" = 1 ]
	[ "$(value 'rad_tasks{state="held"}')" = 1 ]
	[ "$(grep -c '^rad_gpu_memory_bytes{' metrics)" = 4 ]
	[ "$(awk '/^rad_gpu_memory_bytes{gpu="0"/ { print $NF }' metrics)" = $((40960 * 1048576)) ]
	[ "$(awk '/^rad_gpu_memory_held_bytes{/ { n += $NF } END { printf "%.0f", n }' metrics)" = $((4096 * 1048576)) ]
	[ "$(value 'rad_task_wait_seconds_bucket{le="+Inf"}')" = "$(value rad_task_wait_seconds_count)" ]
	# Of what simulated GPUs do not know there is nothing, not zero.
	run ! grep -q rad_gpu_dram_active metrics
	# Every family has its help and its type, once, and before its samples.
	[ "$(grep -c '^# HELP' metrics)" = "$(grep -c '^# TYPE' metrics)" ]
	[ -z "$(grep '^# TYPE' metrics | cut -d' ' -f3 | sort | uniq -d)" ]
	if command -v promtool >/dev/null; then
		run promtool check metrics <metrics
		[ "$status" -eq 0 ]
		[ -z "$output" ]
	fi
	touch go-one
	rad wait "$id"
	wait_for 10 eval 'scrape >metrics; [ "$(value "rad_attempts_ended_total{verdict=\"ok\"}")" = 1 ]'
	[ "$(value 'rad_tasks_ended_total{state="completed"}')" = 1 ]
}

@test "users and tasks are told where that was asked for, with names that end no line" {
	local id
	id=$(submit --gpu-mem 4G --name 'a"b\c' -- sh -c "$(until_file go-two)")
	wait_state "$id" RUNNING
	start_exporter
	scrape >metrics
	run ! grep -qE '^rad_(task_info|user_)' metrics
	stop_exporter
	start_exporter --tasks --users
	scrape >metrics
	grep -qF "rad_task_info{task=\"$id\",user=\"$(id -un)\",name=\"a\\\"b\\\\c\",estimator=\"declared\"} 1" metrics
	[ "$(value "rad_task_claim_bytes{task=\"$id\",user=\"$(id -un)\"}")" = $((4096 * 1048576)) ]
	[ "$(value "rad_user_running_tasks{user=\"$(id -un)\"}")" = 1 ]
	[ "$(value rad_exporter_tasks_left_out)" = 0 ]
	touch go-two
	rad wait "$id"
}

@test "OpenMetrics for those who ask for it" {
	start_exporter --tasks --users
	scrape -D headers -H 'Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5' >metrics
	grep -qi '^content-type: application/openmetrics-text; version=1.0.0' headers
	[ "$(tail -n 1 metrics)" = '# EOF' ]
	grep -q '^# TYPE rad_gpu_energy_joules counter' metrics
	grep -q '^rad_gpu_energy_joules_total{' metrics
}

# ---- radd ----

@test "radd away, hung and back: one figure says so, and no scrape waits long" {
	start_exporter --users
	stop_radd
	scrape >metrics
	[ "$(value rad_up)" = 0 ]
	[ "$(value 'rad_exporter_answered{question="users"}')" = 0 ]
	run ! grep -qE '^rad_(gpu|tasks)' metrics
	start_radd
	wait_for 10 eval 'scrape >metrics; [ "$(value rad_up)" = 1 ]'
	cp "$WORLD/pid" "$WORLD/stopped"
	kill -STOP "$(cat "$WORLD/stopped")"
	wait_for 10 eval 'scrape --max-time 6 >metrics; [ "$(value rad_up)" = 0 ]'
	kill -CONT "$(cat "$WORLD/stopped")"
	wait_for 10 eval 'scrape >metrics; [ "$(value rad_up)" = 1 ]'
}

# fake_radd REPLY: answers every question with that.
fake_radd()
{
	python3 - "$WORLD/fake.sock" "$1" <<-'PY' 3>&- 4>&- &
		import socket, struct, sys
		s = socket.socket(socket.AF_UNIX)
		s.bind(sys.argv[1])
		s.listen()
		while True:
		    c = s.accept()[0]
		    if not c.recv(65536):	# only looked whether anybody is here
		        continue
		    reply = sys.argv[2].encode()
		    c.sendall(struct.pack(">I", len(reply)) + reply)
	PY
	fake=$!
	wait_for 10 test -S "$WORLD/fake.sock"
	chmod 666 "$WORLD/fake.sock"
}

@test "an older radd lacks figures, one of another protocol is not up" {
	fake_radd '{"v":1,"schema":1,"version":"0.0.9","gpus":[]}'
	RAD_SOCKET=$WORLD/fake.sock start_exporter
	scrape >metrics
	kill "$fake"
	rm "$WORLD/fake.sock"
	[ "$(value rad_up)" = 1 ]
	run ! grep -qE '^rad_(tasks|troubles_|gpu_)' metrics
	stop_exporter
	fake_radd '{"v":2}'
	RAD_SOCKET=$WORLD/fake.sock start_exporter
	scrape >metrics
	kill "$fake"
	[ "$(value rad_up)" = 0 ]
}

# ---- clients ----

@test "it is looked at only, and by the names of this machine" {
	start_exporter --host gpus.example,other
	[ "$(scrape -o out -w '%{http_code}' -X POST -d a=b)" = 405 ]
	[ "$(scrape -o out -w '%{http_code}' -X DELETE)" = 405 ]
	[ "$(curl -s -o out -w '%{http_code}' "http://$address/../../etc/passwd" --path-as-is)" = 404 ]
	[ "$(scrape -o out -w '%{http_code}' -I)" = 200 ]
	for name in localhost localhost:1 127.0.0.1 '[::1]:9' "$(hostname)" GPUs.example:80; do
		[ "$(scrape -o out -w '%{http_code}' -H "Host: $name")" = 200 ]
	done
	for name in evil.example localhost.evil.example 127.0.0.1.evil.example '[::1].evil' 'gpus.example.' ''; do
		[ "$(scrape -o out -w '%{http_code}' -H "Host: $name")" -ge 400 ]
	done
}

@test "clients that say nothing keep nobody out" {
	start_exporter
	python3 - "${address#*:}" <<-'PY'
		import socket, sys, urllib.request
		port = int(sys.argv[1])
		idle = [socket.create_connection(("127.0.0.1", port)) for i in range(300)]
		for s in idle[::2]:
		    try: s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ")
		    except OSError: pass
		for i in range(3):
		    assert b"rad_up 1" in urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=8).read()
		# A line without end is refused, not kept.
		s = socket.create_connection(("127.0.0.1", port))
		try:
		    for i in range(64): s.sendall(b"A" * 4096)
		    assert s.recv(100)[9:10] in (b"4", b"")
		except OSError: pass
	PY
}

@test "clients that take no answer keep nobody out" {
	start_exporter
	python3 - "${address#*:}" "$exporter" <<-'PY'
		import http.client, socket, sys, time, urllib.request
		port, deaf, end = int(sys.argv[1]), [], time.monotonic() + 150
		def scrape(timeout): return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=timeout).read()
		def is_let_in(timeout):
		    try: return b"rad_up 1" in scrape(timeout)
		    except (OSError, http.client.HTTPException): return False
		# Each asks for more than fits between the two ends. Those that the server has not answered yet make place for later ones.
		asked = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000
		while is_let_in(1) and time.monotonic() < end:
		    for i in range(16):
		        s = socket.socket()
		        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
		        s.connect(("127.0.0.1", port))
		        s.setblocking(False)
		        try: s.send(asked)
		        except OSError: pass
		        deaf.append(s)
		assert time.monotonic() < end, "the places were never all taken"
		# As long as it has something to answer it is only slow.
		def at_work(): return [open(f"/proc/{sys.argv[2]}/stat").read().rsplit(")", 1)[1].split()[i] for i in (0, 11, 12)]
		was, since = at_work(), time.monotonic()
		while time.monotonic() < since + 1:
		    time.sleep(0.05)
		    if at_work() != was or was[0] != "S": was, since = at_work(), time.monotonic()
		    assert time.monotonic() < end, "it is busy for ever"
		assert is_let_in(20)
	PY
}

# ---- where it listens ----

@test "a Unix socket for a group: its members reach it whatever the umask, others do not" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	mkdir -p grouped
	chmod 755 "$WORLD" "$WORLD/work" grouped
	(umask 077 && exec rad exporter --listen "unix:$PWD/grouped/metrics" --group 65534) >out 2>err 3>&- 4>&- &
	group_pid=$!
	wait_for 30 grep -q 'unix:' out
	[ "$(stat -c '%a %g' grouped/metrics)" = "660 65534" ]
	setpriv --reuid=65533 --regid=65534 --clear-groups curl -s --unix-socket grouped/metrics http://x/metrics | grep -q '^rad_up '
	run setpriv --reuid=65533 --regid=65533 --clear-groups curl -s --unix-socket grouped/metrics http://x/metrics
	[ "$status" -ne 0 ]
	kill "$group_pid"
	gone "$group_pid"
	run rad exporter --listen "unix:$PWD/grouped/other" --group no-such-group
	[ "$status" -eq 2 ]
	one_line_error "no such group"
	[ ! -e grouped/other ]
	chmod 777 grouped
	run setpriv --reuid=65533 --regid=65533 --clear-groups rad exporter --listen "unix:$PWD/grouped/other" --group 65534
	[ "$status" -eq 1 ]
	one_line_error "only its members and root may give it that group"
	[ ! -e grouped/other ]
	run rad exporter --listen 127.0.0.1:0 --group 0
	[ "$status" -eq 2 ]
	one_line_error "unix:PATH"
}

@test "a port that is taken, an address that is none, one that others reach: one line each" {
	start_exporter
	run rad exporter --listen "$address"
	[ "$status" -eq 1 ]
	one_line_error "$address: another program listens there already"
	run rad exporter --listen 0.0.0.0:0
	[ "$status" -eq 1 ]
	one_line_error 'add --network'
	for wrong in 127.0.0.1:x 127.0.0.1:99999 gpu1:80 unix: ::1:80 ''; do
		run rad exporter --listen "$wrong"
		[ "$status" -ne 0 ]
		one_line_error '--listen'
	done
	run rad exporter --nonsense
	[ "$status" -eq 2 ]
}

@test "a Unix socket: for its owner and group, and one that was left is replaced" {
	mkdir -p sockets
	rm -f out	# one before wrote there
	rad exporter --listen "unix:$PWD/sockets/metrics" >out 2>err 3>&- 4>&- &
	exporter=$!
	wait_for 10 grep -q 'unix:' out
	[ "$(stat -c %a sockets/metrics)" = 660 ] || [ "$(stat -c %a sockets/metrics)" = 640 ] || [ "$(stat -c %a sockets/metrics)" = 600 ]
	curl -s --unix-socket sockets/metrics http://any.name/metrics | grep -q '^rad_up 1'
	run rad exporter --listen "unix:$PWD/sockets/metrics"
	one_line_error 'another program listens there already'
	kill -9 "$exporter"
	gone "$exporter"
	[ -S sockets/metrics ]
	rad exporter --listen "unix:$PWD/sockets/metrics" >out 2>err 3>&- 4>&- &
	exporter=$!
	wait_for 10 eval "curl -s --unix-socket sockets/metrics http://any.name/metrics | grep -q '^rad_up 1'"
	: >file
	run rad exporter --listen "unix:$PWD/file"
	one_line_error 'is no socket'
	# What another program receives datagrams on takes no connection, and is no leftover.
	python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind("datagrams"); print("there", flush=True); time.sleep(60)' >bound 3>&- 4>&- &
	other=$!
	wait_for 10 grep -q there bound
	run timeout 100 rad exporter --listen "unix:$PWD/datagrams"
	kill "$other"
	one_line_error 'another program listens there already'
	[ -S datagrams ]
}

@test "Ctrl-C ends it with one line, and the port is free" {
	start_exporter
	(exec 9<>"/dev/tcp/127.0.0.1/${address#*:}"; printf 'GET ' >&9; kill -INT "$exporter"; gone "$exporter")
	wait "$exporter"
	[ "$(wc -l <"$WORLD/exporter.err")" = 1 ]
	grep -q '^rad: exporter: Interrupt: ended$' "$WORLD/exporter.err"
	start_exporter --listen "$address"
}

@test "started as root it is nobody, for good" {
	need_root
	start_exporter
	grep -qE "^Uid:(	$(id -u nobody)){4}\$" "/proc/$exporter/status"
	grep -qE "^Gid:(	$(id -g nobody)){4}\$" "/proc/$exporter/status"
	grep -q '^NoNewPrivs:	1$' "/proc/$exporter/status"
	[ -z "$(grep -E '^Cap(Inh|Prm|Eff|Amb):' "/proc/$exporter/status" | grep -v '0000000000000000$')" ]
	run rad exporter --user root
	one_line_error 'name a user without rights'
}

# ---- dcgm-exporter ----

@test "which tasks run where, for dcgm-exporter; never in a folder that others could change" {
	need_root
	local a b
	grep -q 'dcgm_job_mapping: .*nobody else may' "$WORLD/radd.log"
	[ ! -e "$WORLD/map" ]	# below /tmp, where anybody could put a folder
	rad gpus | tr -d '\n' | grep -q 'dcgm_job_mapping: files for dcgm-exporter cannot be written'
	[[ "$(rad doctor 2>&1)" == *dcgm_job_mapping*'nobody else may'* ]]
	stop_radd
	map=/var/lib/rad-map-$$
	sed -i "s|^dcgm_job_mapping:.*|dcgm_job_mapping: $map|" "$RAD_CONFIG"
	mkdir -m 755 "$map"
	ln -s "$WORLD/victim" "$map/0"		# what is there is replaced, never followed
	start_radd
	a=$(submit --gpu-mem 4G --exclusive -- sh -c "$(until_file go-map)")
	b=$(submit --gpu-mem 4G --gpus 3 -- sh -c "$(until_file go-map)")
	wait_for 10 eval '[ "$(cat $map/[0-3] | sort | uniq -c | tr -s " \n" ,)" = ",1,'"$a"',3,'"$b"'," ]'
	[ ! -e "$WORLD/victim" ]
	[ ! -L "$map/0" ]
	[ "$(stat -c '%U %a' "$map/0")" = 'root 644' ]
	touch go-map
	rad wait "$a" "$b"
	# Not empty, and not gone: releases of dcgm-exporter differ in what they make of that.
	wait_for 10 eval '[ "$(cat "$map"/[0-3] | sort -u | wc -lc | tr -s " ")" = " 1 1" ]'
	[ "$(ls -A "$map" | tr '\n' ' ')" = '0 1 2 3 ' ]
}

# ---- Prometheus ----

start_prometheus()
{
	command -v prometheus >/dev/null || skip 'no Prometheus here (tools/deps --monitoring)'
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	sed "s/127.0.0.1:9836/$address/; s/15s/1s/" "$RAD_SOURCE_ROOT/share/prometheus/rad.yml" >prometheus.yml
	printf 'global: {evaluation_interval: 1s}\nrule_files: [%s]\n' "$RAD_SOURCE_ROOT/share/prometheus/rad-alerts.yml" >>prometheus.yml
	prometheus --config.file=prometheus.yml --storage.tsdb.path="$WORLD/tsdb" --web.listen-address="127.0.0.1:$port" \
		>"$WORLD/prometheus.log" 2>&1 3>&- 4>&- &
	prometheus=$!
	wait_for 20 curl -sf "http://127.0.0.1:$port/-/ready"
}

# ask EXPRESSION: how many series the answer has.
ask() { curl -s "http://127.0.0.1:$port/api/v1/query" --data-urlencode "query=$1" | jq '.data.result | length'; }

@test "a Prometheus scrapes it, and has an answer to every query of the dashboard" {
	local id dashboard=$RAD_SOURCE_ROOT/share/grafana/rad-rm.json query
	start_exporter --tasks --users
	start_prometheus
	id=$(submit --gpu-mem 4G -- rad simtask --mem 3G --seconds 600 --ramp 0.1)
	wait_state "$id" RUNNING
	wait_for 20 eval '[ "$(ask rad_up==1)" = 1 ]'
	wait_for 20 eval '[ "$(ask "count_over_time(rad_up[1m]) > 3")" = 1 ]'
	wait_for 20 eval '[ "$(ask "rad_task_memory_bytes > 0")" -ge 1 ]'
	jq -e '.panels | map(select(.type != "row")) | length >= 16 and all(.[]; .targets[0].expr != null and .datasource.uid == "${datasource}")' \
		"$dashboard"
	jq -r '.panels[].targets[]?.expr' "$dashboard" >queries
	[ "$(wc -l <queries)" -ge 20 ]
	while IFS= read -r query; do
		query=${query//\$instance/.*} query=${query//\$gpu/.*} query=${query//\$__rate_interval/10s}
		wait_for 20 eval '[ "$(ask "$query")" -ge 1 ]' || { echo "no answer: $query"; false; }
	done <queries
	curl -s "http://127.0.0.1:$port/api/v1/targets" | jq -e '.data.activeTargets | all(.health == "up" and .lastError == "")'
	wait_for 20 eval 'curl -s "http://127.0.0.1:$port/api/v1/rules" | jq -e "[.data.groups[].rules[].health] == [\"ok\", \"ok\", \"ok\", \"ok\"]"'
	rad cancel "$id"
	kill "$prometheus"
	gone "$prometheus"
}
