#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Work outside the queue: processes that hold GPU memory and become tasks (rad adopt), and places for processes that run already
# (rad lease, radrm.lease).

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	printf 'user_tasks: 1200\nlease_idle: 2\n' >>"$RAD_CONFIG"
	export PYTHONPATH=$BATS_TEST_DIRNAME/../python PYTHONDONTWRITEBYTECODE=1
	make_users
	start_radd
	# What a process has that finds its GPU by itself.
	wait_for 10 sh -c "rad gpus --json | jq -e '.gpus | length == 4'"
	UUID=$(rad gpus --json | jq -r '.gpus[2].uuid')
	export UUID
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work" && rm -f ./*; OUTSIDE=; }

teardown()
{
	[ -z "$OUTSIDE" ] || kill -9 $OUTSIDE 2>/dev/null || :
	rad cancel --all >/dev/null 2>&1 || :
	[ "$(id -u)" != 0 ] || { as "$ALICE" rad cancel --all; as "$BOB" rad cancel --all; } >/dev/null 2>&1 || :
	timeout 100 rad wait $(rad queue --json | jq -r '.tasks[].id') >/dev/null 2>&1 || :
}


# A process that takes memory on GPU 2 without asking anybody; its pid is in FOREIGN. foreign SIZE [as USER]
foreign()
{
	local size=$1
	shift
	wait_for 15 sh -c "rad gpus --json | jq -e '.gpus[2].processes == []'"	# those of the test before
	"$@" env RAD_SIM_DEVICES="$WORLD/state/sim-devices" CUDA_VISIBLE_DEVICES="$UUID" RAD_GPU_UUIDS="$UUID" \
		rad simtask --mem "$size" --seconds 300 --ramp 0.1 >/dev/null 2>&1 3>&- 4>&- &
	wait_for 15 sh -c "rad gpus --json | jq -e 'any(.gpus[2].processes[]; .task == null and .mem_mib >= ${size%G} * 1024)'"
	FOREIGN=$(rad gpus --json | jq -r '[.gpus[2].processes[] | select(.task == null)][0].pid')
	OUTSIDE="$OUTSIDE $FOREIGN"
}

# A process that does nothing; its pid is in the file pid.
sleeper()
{
	rm -f pid
	sh -c 'echo $$ >pid; exec sleep 300' >/dev/null 2>&1 3>&- 4>&- &
	OUTSIDE="$OUTSIDE $!"
	wait_for 10 test -s pid
}

@test "adopt: a process becomes a task where it is, with what it holds; its end is seen" {
	local id
	foreign 3G
	id=$(rad adopt --parsable --name mine "$FOREIGN")
	rad show --json "$id" | jq -e --argjson pid "$FOREIGN" '.tasks[0] | .state == "RUNNING" and .process == $pid and (.lease | not)
		and .name == "mine" and .attempts[0].claim_mib >= 3072 and (.command | contains("simtask"))'
	[ "$(field "$id" '.attempts[0].gpus[0]')" = "$UUID" ]
	wait_for 10 sh -c "rad gpus --json | jq -e '.gpus[2] | .tasks == [\"$id\"] and .mem_held_mib >= 3072
		and all(.processes[]; .task == \"$id\")'"
	run rad queue
	[[ "$output" == *mine* ]]
	kill -9 "$FOREIGN"
	wait_state "$id" COMPLETED
	rad show --json "$id" | jq -e '.tasks[0] | .exit_code == null and .signal == null and .attempts[0].peak_mib >= 3000
		and (.attempts[0].evidence | contains("how is not known"))'
	wait_for 10 sh -c "rad gpus --json | jq -e '.gpus[2].mem_held_mib == 0'"
	run rad requeue "$id"
	one_line_error "a process that rad did not begin"
	run rad logs "$id"
	one_line_error "a process that rad did not begin"
}

@test "adopt: who has more by it than he may have is told; his next task waits" {
	local id next
	rad limit max_gpus=1
	next=$(rad submit --parsable --gpu-mem 1G sleep 300)
	wait_for 10 state_is "$next" RUNNING
	foreign 3G
	run --separate-stderr rad adopt --parsable "$FOREIGN"
	id=$output
	[[ "$stderr" == *"more now than max_gpus allows"* ]]
	rad cancel "$next"
	wait_for 15 state_is "$next" CANCELLED
	next=$(rad submit --parsable --gpu-mem 1G true)
	rad why --json "$next" | jq -e '.reason == "UserLimit"'
	rad adopt --give-back "$id"
	wait_for 15 state_is "$next" COMPLETED
	rad limit max_gpus=default
}

@test "adopt: cancel ends it and what descends from it, given back it goes on" {
	local id
	foreign 2G bash -c '"$@" & wait' -
	id=$(rad adopt --parsable "$FOREIGN")
	wait_for 10 sh -c "rad gpus --json | jq -e '.gpus[2].tasks == [\"$id\"] and all(.gpus[2].processes[]; .task == \"$id\")'"
	rad adopt --give-back "$id"
	wait_state "$id" COMPLETED
	kill -0 "$FOREIGN"
	wait_for 10 sh -c "rad gpus --json | jq -e '.gpus[2].mem_held_mib == 0 and all(.gpus[2].processes[]; .task == null)'"
	id=$(rad adopt --parsable "$FOREIGN")
	run rad adopt "$FOREIGN"
	one_line_error "belongs to task $id"
	rad cancel "$id"
	wait_state "$id" CANCELLED
	gone "$FOREIGN"
}

@test "adopt: of several processes --json is one document, and so it is of tasks that are given back" {
	foreign 1G
	local first=$FOREIGN second ids
	RAD_SIM_DEVICES="$WORLD/state/sim-devices" CUDA_VISIBLE_DEVICES="$UUID" RAD_GPU_UUIDS="$UUID" \
		rad simtask --mem 1G --seconds 300 --ramp 0.1 >/dev/null 2>&1 3>&- 4>&- &
	second=$!
	OUTSIDE="$OUTSIDE $second"
	wait_for 15 sh -c "rad gpus --json | jq -e '.gpus[2].processes | length == 2'"
	rad adopt --json "$first" "$second" >adopted.json
	jq -se --argjson a "$first" --argjson b "$second" 'length == 1 and (.[0] | .schema == 1 and [.adopted[].pid] == [$a, $b])' adopted.json
	ids=$(jq -r '.adopted[].id' adopted.json)
	rad adopt --give-back --json $ids | jq -se 'length == 1 and .[0] == {"schema": 1, "changed": 2}'
	rad adopt --json "$first" | jq -se --argjson a "$first" 'length == 1 and .[0].pid == $a and (.[0].id | type) == "string"'
	run -1 rad adopt --json "$first" "$second"	# the first one is a task already
	[[ "$output" == *"adopted"* ]]
}

@test "adopt: radd that dies finds it again, and one that ended meanwhile" {
	local id
	foreign 2G
	id=$(rad adopt --parsable "$FOREIGN")
	wait_state "$id" RUNNING
	kill_radd
	start_radd
	[ "$(state "$id")" = RUNNING ]
	wait_for 10 sh -c "rad gpus --json | jq -e '.gpus[2].tasks == [\"$id\"]'"
	kill_radd
	kill -9 "$FOREIGN"
	gone "$FOREIGN"
	start_radd
	wait_state "$id" COMPLETED
}

@test "adopt: what is not a process of the caller's on a GPU is refused in one line" {
	local pid
	for pid in 0 1 -5 x 99999999 2147483647 4294967297 ""; do
		run rad adopt -- "$pid"
		[ "$status" -ne 0 ]
		[ "${#lines[@]}" -eq 1 ]
	done
	run rad adopt $$
	one_line_error "on no GPU"
	run rad adopt "$(cat "$WORLD/pid")"
	[ "$status" -ne 0 ]
	[ "$(rad queue --json | jq '.tasks | length')" -eq 0 ]
}

@test "adopt: what a process calls itself reaches no terminal as it is" {
	local id
	foreign 2G bash -c 'exec -a "$(printf "\033[31mred\342\200\256\377")" "$@"' - bash -c '"$@" & wait' -
	# The parent of what holds the memory.
	id=$(rad adopt --parsable "$(ps -o ppid= -p "$FOREIGN" | tr -d ' ')")
	[[ "$(field "$id" .name)" == *31mred* ]]
	for said in "queue" "show $id" "gpus -v"; do
		run rad $said
		[ "$status" -eq 0 ]
		! grep -q $'\033' <<<"$output" || false
	done
	rad adopt --give-back "$id"
}

@test "adopt: nobody adopts, gives back or ends another's process" {
	need_root
	local id
	foreign 2G as "$ALICE"
	run as "$BOB" rad adopt "$FOREIGN"
	one_line_error "is not yours"
	run rad adopt "$FOREIGN"
	one_line_error "is not yours"
	run as "$ALICE" rad adopt 1
	[ "$status" -ne 0 ]
	run as "$ALICE" rad adopt "$(cat "$WORLD/pid")"
	one_line_error "is not yours"
	run as "$BOB" rad lease --pid "$FOREIGN"
	one_line_error "is not yours"
	id=$(as "$ALICE" rad adopt --parsable "$FOREIGN")
	run as "$BOB" rad adopt --give-back "$id"
	one_line_error "belongs to $ALICE"
	[ "$(state "$id")" = RUNNING ]
	as "$ALICE" rad cancel "$id"
	wait_state "$id" CANCELLED
	gone "$FOREIGN"
}

@test "adopt: a set-uid program that its user calls is not signalled by root's radd" {
	need_root
	local id root_pid
	# Alice's process with a child that is root's, as sudo leaves one.
	cat >"$WORLD/tree.py" <<-'PY'
		import os, signal, sys, time
		if os.fork() == 0:
		    os.setsid()
		    open(sys.argv[1], "w").write(str(os.getpid()))
		    while True: time.sleep(60)
		os.setresgid(int(sys.argv[3]), int(sys.argv[3]), int(sys.argv[3]))
		os.setresuid(int(sys.argv[2]), int(sys.argv[2]), int(sys.argv[2]))
		os.execvp(sys.argv[4], sys.argv[4:])
	PY
	foreign 2G python3 "$WORLD/tree.py" "$WORLD/work/root.pid" "$(id -u "$ALICE")" "$(id -g "$ALICE")"
	root_pid=$(cat root.pid)
	id=$(as "$ALICE" rad adopt --parsable "$FOREIGN")
	as "$ALICE" rad cancel "$id"
	wait_state "$id" CANCELLED
	gone "$FOREIGN"
	kill -0 "$root_pid"
	kill -9 "$root_pid"
}

@test "lease: a shell waits its turn, is told its GPU, and holds it until it ends" {
	local id pid
	cat >leaseholder <<-'SH'
		eval "$(rad lease --pid $$ --gpu-mem 5G --for 1h --name held)" || exit 1
		echo "$RAD_TASK_ID $CUDA_VISIBLE_DEVICES $RAD_GPU_MEM_MIB" >told.new
		mv told.new told
		rad simtask --mem 4G --seconds 300 --ramp 0.1
	SH
	bash leaseholder 3>&- 4>&- &
	pid=$!
	OUTSIDE=$pid
	wait_for 15 test -s told
	read -r id gpu mem <told
	[ "$mem" = 5120 ]
	rad show --json "$id" | jq -e --argjson pid "$pid" '.tasks[0] | .state == "RUNNING" and .lease and .process == $pid
		and .name == "held" and .time_limit_s == 3600'
	wait_for 15 sh -c "rad show --json $id | jq -e '.tasks[0].attempts[0].peak_mib >= 4000'"
	kill_radd
	start_radd
	[ "$(state "$id")" = RUNNING ]
	rad cancel "$id"
	wait_state "$id" CANCELLED
	gone "$pid"
}

@test "lease: who has its variables shown on a terminal is told how the shell gets them" {
	# A shell that goes on, as one at a terminal does.
	python3 - >shown <<-'PY'
		import pty
		pty.spawn(["sh", "-c", "rad lease --gpu-mem 5G; rad lease --give-back $(rad queue --me -h -o %i); :"])
	PY
	grep -q 'CUDA_VISIBLE_DEVICES' shown
	grep -q 'your shell has not read these: eval' shown
}

@test "lease: why it waits stands whole in a narrow window, though standard output is a pipe, and is taken away line by line" {
	for i in 0 1 2 3; do rad drain $i; done
	PYTHONPATH=$RAD_SOURCE_ROOT/tests python3 - <<-'PY'
		from terminal import *
		import json, subprocess
		def says(rows, whole):
		    t = Terminal("sh", "-c", "rad lease --gpu-mem 1G | cat", columns=40, rows=rows)
		    while True:        # until it says what radd says: the reason may be another a moment later
		        said = t.expect(r"(rad: lease (\d+) waits [^\x1b]*?)((?:\r\x1b\[K\x1b\[A)*)\r\x1b\[K(?=[^\x1b])")
		        task = json.loads(subprocess.check_output(["rad", "show", "--json", said[2].decode()]))["tasks"][0]
		        lines = said[1].decode().replace("\r\n", "\n").replace("\r", "").split("\n")
		        assert max(map(len, lines)) <= 39 and said[3].count(b"\x1b[A") == len(lines) - 1, said[0]
		        if whole(lines, task["reason_text"]):
		            break
		    t.type("\003")
		    t.end()
		says(30, lambda lines, why: len(lines) > 1 and " ".join(lines).endswith(": " + why))
		says(2, lambda lines, why: len(lines) == 1 and len(lines[0]) == 39)
	PY
	for i in 0 1 2 3; do rad undrain $i; done
}

@test "lease: given back, the process goes on; a wait that is interrupted leaves nothing" {
	local id
	for i in 0 1 2 3; do rad drain $i; done
	rad lease --pid $$ --gpu-mem 1G 2>said 3>&- 4>&- &
	local waits=$!
	wait_for 10 sh -c "rad queue --json | jq -e '.tasks[0].lease and .tasks[0].state == \"PENDING\"'"
	wait_for 10 grep -q waits said
	kill -TERM "$waits"
	wait "$waits" || :
	wait_for 10 sh -c "rad queue --json | jq -e '.tasks == []'"
	sleeper
	rad lease --pid "$(cat pid)" --gpu-mem 1G >/dev/null 2>said 3>&- 4>&- &
	waits=$!
	wait_for 10 sh -c "rad queue --json | jq -e '.tasks[0].lease'"
	kill -9 "$(cat pid)"
	wait "$waits" || :
	grep -q "has ended" said
	wait_for 10 sh -c "rad queue --json | jq -e '.tasks == []'"
	sleeper
	rm said
	rad lease --pid "$(cat pid)" --gpu-mem 1G >/dev/null 2>said 3>&- 4>&- &
	waits=$!
	wait_for 10 grep -q waits said
	id=$(rad queue --json | jq -r '.tasks[0].id')
	rad cancel "$id"
	wait "$waits" || :
	[ "$(tail -n 1 said)" = "rad: lease $id: CANCELLED" ]
	! grep -q 'waits: $' said || false
	kill "$(cat pid)"
	for i in 0 1 2 3; do rad undrain $i; done
	sleeper
	eval "$(rad lease --pid "$(cat pid)" --gpu-mem 1G)"
	id=$RAD_TASK_ID
	[ "$(state "$id")" = RUNNING ]
	rad lease --give-back
	kill -0 "$(cat pid)"
	wait_state "$id" COMPLETED
	[ "$(field "$id" '.attempts[0].evidence')" = "given back" ]
}

@test "who interrupts a wait gets away from a radd that hangs: run, told of it, lease and bench solo" {
	local i runs leases solos code=0 left=yes
	for i in 0 1 2 3; do rad drain $i; done
	rad lease --pid $$ --gpu-mem 1G >/dev/null 2>lease.said 3>&- 4>&- &
	leases=$!
	rad run --gpu-mem 1G -- true >/dev/null 2>run.said 3>&- 4>&- &
	runs=$!
	rad bench solo --gpu-mem 1G -- true >/dev/null 2>solo.said 3>&- 4>&- &
	solos=$!
	wait_for 10 grep -q waits lease.said
	wait_for 10 grep -qi 'SigCgt.*[4-7c-f]...$' /proc/$solos/status
	wait_for 10 grep -qi 'SigCgt.*[4-7c-f]...$' /proc/$runs/status	# SIGTERM is caught: it is submitted
	kill -STOP "$(cat "$WORLD/pid")"
	kill -TERM $leases $runs $solos
	wait_for 15 grep -q 'has not answered for 5 s; Ctrl-C again leaves' run.said || left=no
	kill -TERM $runs $solos
	gone $runs && gone $leases && gone $solos || left=no
	kill -CONT "$(cat "$WORLD/pid")"
	[ $left = yes ]
	wait $runs || code=$?
	[ $code -eq 130 ]
	wait $leases || code=$?
	[ $code -eq 130 ]
	wait $solos || code=$?
	[ $code -eq 130 ]
	grep -q 'was not given back: radd is there, but has not answered' lease.said
	wait_for 10 sh -c "rad queue --json | jq -e '.tasks == []'"
	for i in 0 1 2 3; do rad undrain $i; done
}

@test "lease of one whose rad and process were both killed in the queue: it never gets a place" {
	local id waits
	for i in 0 1 2 3; do rad drain $i; done
	sleeper
	rad lease --pid "$(cat pid)" --gpu-mem 1G >/dev/null 2>&1 3>&- 4>&- &
	waits=$!
	wait_for 10 sh -c "rad queue --json | jq -e '.tasks[0].lease'"
	id=$(rad queue --json | jq -r '.tasks[0].id')
	kill -9 "$waits" "$(cat pid)"
	gone "$(cat pid)"
	for i in 0 1 2 3; do rad undrain $i; done
	wait_for 15 sh -c "rad queue --json | jq -e '.tasks == []'"
	[ "$(field "$id" '.attempts[0].gpus // [] | length')" -le 1 ]
}

@test "radrm.lease: variables are set, with gives back, the end of the process too" {
	python3 - <<-'PY'
		import json, os, subprocess, sys
		import radrm
		def task(id): return json.loads(subprocess.check_output(["rad", "show", "--json", id]))["tasks"][0]
		with radrm.lease("2G", hours=0.5) as held:
		    id = held.id
		    t = task(id)
		    assert t["state"] == "RUNNING" and t["process"] == os.getpid() and t["time_limit_s"] == 1800, t
		    assert os.environ["RAD_TASK_ID"] == id and os.environ["CUDA_VISIBLE_DEVICES"] and "PYTHONUNBUFFERED" not in held.environ
		    again = radrm.lease("1G")		# it has its place
		    assert again.id is None and repr(again) == repr(held).replace("Lease ", "Lease of task "), again
		    if os.fork() == 0:
		        held.release()			# a child's does nothing
		        os._exit(0)
		    os.wait()
		    assert task(id)["state"] == "RUNNING"
		assert "RAD_TASK_ID" not in os.environ and "given back" in repr(held)
		subprocess.check_call(["rad", "wait", id])
		class cuda:
		    is_initialized = staticmethod(lambda: True)
		sys.modules["torch"] = type(sys)("torch")
		sys.modules["torch"].cuda = cuda
		try: radrm.lease("1G")
		except radrm.LeaseError as e: assert "initialised" in str(e)
		else: raise SystemExit("no error")
		del sys.modules["torch"]
		try: radrm.lease("900G")
		except radrm.LeaseError as e: assert "\n" not in str(e) and not str(e).startswith("rad:"), e
		else: raise SystemExit("no error")
		open("id", "w").write(radrm.lease(gpus=2, name="two").id)
		assert len(os.environ["RAD_GPU_UUIDS"].split(",")) == 2
	PY
	wait_state "$(cat id)" COMPLETED
}

@test "a place that is held and not used is told, and not ended; one that computes is not told" {
	local id busy
	sleeper
	id=$(rad lease --pid "$(cat pid)" --gpu-mem 1G --name sleepy --json | jq -r .id)
	foreign 2G
	busy=$(rad adopt --parsable "$FOREIGN")
	wait_for 15 sh -c "rad show --json $id | jq -e '.tasks[0].reason == \"Idle\"'"
	field "$id" .reason_text | grep -q "rad lease --give-back $id"
	rad queue | grep sleepy | grep -q Idle
	rad show "$id" | grep -q "nothing was computed"
	wait_for 10 grep -q "task $id of .* (sleepy): computed nothing" "$WORLD/radd.log"
	[ "$(state "$id")" = RUNNING ]
	[ "$(field "$busy" .reason)" = null ]
	[ "$(grep -c "task $id of .*: computed nothing" "$WORLD/radd.log")" -eq 1 ]
	rad lease --give-back "$id"
}

@test "a thousand leases: bounded as tasks are, placed, and gone with their processes" {
	local pids
	cat >many.py <<-'PY'
		import json, os, socket, struct, subprocess, sys, time
		kids = [subprocess.Popen(["sleep", "900"]) for _ in range(1000)]
		s = socket.socket(socket.AF_UNIX)
		s.connect(os.environ["RAD_SOCKET"])
		def ask(**request):
		    body = json.dumps(dict(request, v=1)).encode()
		    s.sendall(struct.pack(">I", len(body)) + body)
		    data = b""
		    while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
		        data += s.recv(65536)
		    return json.loads(data[4:])
		began = time.monotonic()
		for k in kids:
		    ticks = int(open(f"/proc/{k.pid}/stat").read().rsplit(")", 1)[1].split()[19])
		    said = ask(op="submit", environ=[], spec={"argv": ["x"], "name": "x", "cwd": "/", "output": "/dev/null", "lease": True,
		               "process_pid": k.pid, "process_ticks": ticks, "gpu_mem_mib": 100})
		    assert "error" not in said, said
		print("%.1f s" % (time.monotonic() - began))
		assert len(json.loads(subprocess.check_output(["rad", "queue", "--json"]))["tasks"]) == 1000
		for k in kids: k.kill()
		for k in kids: k.wait()
		while json.loads(subprocess.check_output(["rad", "queue", "--json"]))["tasks"]:
		    assert time.monotonic() - began < 300
	PY
	run timeout 400 python3 many.py
	echo "$output"
	[ "$status" -eq 0 ]
}
