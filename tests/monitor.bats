#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rad monitor on simulated devices and the fake driver, without a radd: what it writes, whom it watches, how it ends.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	export RAD_DEVICES=sim:2xa100-40g
}

teardown_file()
{
	cd /
	rm -rf "$WORLD"
}

teardown()
{
	[ ! -e "$WORLD/left" ] || { xargs -r kill <"$WORLD/left" 2>/dev/null || :; rm -f "$WORLD/left"; }
	stop_radd	# of a test that failed before it did so
}

# rows FILE: its lines without the header, as a JSON list of objects.
rows()
{
	python3 -c 'import csv, json, sys; print(json.dumps(list(csv.DictReader(open(sys.argv[1])))))' "$1"
}

# lines FILE N: whether it has so many.
lines_in() { [ "$(wc -l <"$1" 2>/dev/null || echo 0)" -ge "$2" ]; }

@test "simulated GPUs that are named are the ones that are read, or it is refused" {
	run -0 rad monitor -n 1 --devices sim:2xa100-40g
	run -125 rad monitor -n 1 --devices sim:1xh200-141g
	[[ "$output" == "rad: --devices (without it, what is there is watched): $RAD_STATE/sim-devices: 2 simulated devices are there, the first of"*"A100"*", and not 1xh200-141g" ]]
	# What the environment says is for a radd to come: what is there is read.
	RAD_DEVICES=sim:1xh200-141g run -0 --separate-stderr rad monitor -n 1
	[ "${#lines[@]}" -eq 3 ]
	RAD_STATE=$WORLD/other run -0 --separate-stderr rad monitor -n 1 --devices sim:1xh200-141g
	[ "${#lines[@]}" -eq 2 ]
}

@test "a pipe gets CSV with the columns of the manual, and what is not known is empty" {
	run --separate-stderr rad monitor -n 2 -i 0.1
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[[ "${lines[0]}" == time,gpu,gract,smact,smocc,tensor,dram,fp16,fp32,fp64,pcie_rx_mib_s,pcie_tx_mib_s,power_w,energy_j,mem_used_mib,* ]]
	[ "${#lines[@]}" -eq 5 ]
	rad monitor -n 2 -i 0.1 -o two.csv 2>/dev/null
	rows two.csv | jq -e 'length == 4 and ([.[].gpu] == ["0", "1", "0", "1"])
		and all(.[]; .gract == "0" and .tensor == "" and .pid == "" and (.time | test("^20..-.*Z$"))
			and (.mem_used_mib | tonumber) > 0 and .mem_total_mib == "40960" and (.power_w | tonumber) > 0)'
	manual=$(cat "$RAD_SOURCE_ROOT/man/rad-monitor.1.scd")
	for column in $(head -n 1 two.csv | tr , ' '); do
		[[ "$manual" == *"_${column}_"* ]] || { echo "the manual lacks $column" >&2; return 1; }
	done
}

@test "a command: its code, its lines, means at its end; what it prints is its own" {
	export RAD_SIM_DEVICES=$RAD_STATE/sim-devices CUDA_VISIBLE_DEVICES=0
	run --separate-stderr rad monitor -i 0.1 -o c.csv -- sh -c 'rad simtask --mem 5G --seconds 3 --ramp 0.1 --gract .9 --smact .5 >/dev/null; echo mine; exit 7'
	[ "$status" -eq 7 ]
	[ "$output" = mine ]
	[[ "$stderr" == *"samples in c.csv"* && "$stderr" == *"GPU  GRACT  SMACT"* && "$stderr" == *"exit code 7"* ]]
	# The shell's line counts for the program that it runs.
	rows c.csv | jq -e '[.[] | select(.pid != "")] | length > 3 and ([.[].pid] | unique | length) == 1
		and ([.[].mem_used_mib | select(. != "") | tonumber] | max) >= 5000
		and any(.[]; .gpu == "0") and all(.[]; .program == "sh -c") and any(.[]; .rss_mib != "" and .cpu_cores != "")'
	rows c.csv | jq -e '([.[] | select(.pid == "" and .gpu == "0") | .smact | tonumber] | max) == 0.5'
}

@test "on simulated GPUs a command is told where they are, and one sample is one" {
	cd "$BATS_TEST_TMPDIR"
	rad monitor -n 1 -o one.csv -- rad simtask --mem 2G --seconds 0.5 --ramp 0.1 >out 2>err
	grep -q "^done: " out
	grep -q "1 sample in one.csv" err
}

@test "only the GPUs that were asked for, and a word that is none is said" {
	rad monitor --gpus 1 -n 2 -i 0.1 -o one.csv 2>/dev/null
	rows one.csv | jq -e 'length == 2 and all(.[]; .gpu == "1")'
	run rad monitor --gpus 0,4
	[ "$status" -eq 125 ]
	one_line_error "--gpus: there is no GPU 4: this machine shows 2 GPUs"
	run rad monitor -i 0.05
	one_line_error "--interval"
	run rad monitor --pid 1 -- true
	one_line_error "one is watched"
}

@test "no driver, no such program, no such process, no such task: one line each, and nothing begins" {
	run rad monitor --devices nvml -- touch began
	[ "$status" -eq 125 ]
	one_line_error "NVIDIA driver"
	[ ! -e began ]
	run -127 rad monitor -- "$WORLD/nothing-here"
	one_line_error "nothing-here: No such file"
	run -126 rad monitor -- "$WORLD"
	run rad monitor --pid 4194304
	[ "$status" -eq 125 ]
	one_line_error "no process 4194304"
	run rad monitor --task 77
	one_line_error "no process of task 77"
	run rad monitor -o /nonexistent/x.csv -n 1
	one_line_error "/nonexistent/x.csv"
}

@test "SIGTERM ends it at once with what it has; under a command it is the command's" {
	rad monitor -i 0.1 -o t.csv 2>err 3>&- &
	pid=$!
	wait_for 15 lines_in t.csv 5
	kill "$pid"
	wait "$pid"
	[ "$(grep -c 'samples in t.csv' err)" -eq 1 ]
	[ "$(tail -c 1 t.csv | od -An -c | tr -d ' ')" = '\n' ]

	rad monitor -i 0.1 -o u.csv -- sh -c 'trap "echo got it; exit 9" TERM; echo up; while :; do sleep 0.05; done' >out 2>err 3>&- &
	pid=$!
	wait_for 15 grep -q up out
	kill "$pid"
	code=0
	wait "$pid" || code=$?
	[ "$code" -eq 9 ]
	grep -q "got it" out
}

@test "Ctrl-C on a terminal ends the command and the watching, and leaves the table's last lines" {
	cat >terminal.py <<-'PY'
		import os, pty, select, sys, time
		def run(words, until, keys):
		    pid, fd = pty.fork()
		    if not pid:
		        os.environ["TERM"] = "xterm"
		        os.execvp(words[0], words)
		    seen, end = b"", time.monotonic() + 60
		    while True:
		        assert time.monotonic() < end, seen
		        if select.select([fd], [], [], 0.2)[0]:
		            try:
		                data = os.read(fd, 65536)
		            except OSError:
		                data = b""
		            if not data:
		                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen
		            seen += data
		            if keys and seen.count(until) >= 3:
		                os.write(fd, keys)
		                keys = b""
		code, seen = run(["rad", "monitor", "-i", "0.1"], b"SMACT", b"\003")
		assert code == 0 and b"\033[" in seen and b"WATTS" in seen, (code, seen)
		code, seen = run(["rad", "monitor", "-i", "0.1", "-o", "p.csv", "--", "sh", "-c", "while :; do echo here; sleep 0.05; done"], b"here", b"\003")
		assert code == 130 and b"samples in p.csv" in seen, (code, seen)
	PY
	python3 terminal.py
}

@test "a disk that is full is told once, whole lines stay, and the command goes on" {
	run --separate-stderr rad monitor -i 0.1 -o /dev/full -n 3
	[ "$status" -eq 125 ]
	[[ "$stderr" == *"/dev/full: No space left on device"* ]]
	[ "${#stderr_lines[@]}" -eq 1 ]
	run --separate-stderr rad monitor -i 0.1 -o /dev/full -- sh -c 'sleep 2; exit 4'
	[ "$status" -eq 4 ]
	[ "$(grep -c "No space left" <<<"$stderr")" -eq 1 ]
}

@test "a process, and what descends from it; the watching ends with it" {
	sh -c 'python3 -c "
import os, time
x = bytearray(64 << 20)
open(\"ready\", \"w\").close()
while not os.path.exists(\"stop\"): pass
"; :' 3>&- &
	pid=$!
	echo "$pid" >"$WORLD/left"
	wait_for 15 test -e ready
	rad monitor --pid "$pid" -i 0.2 -o d.csv 2>err 3>&- &
	watcher=$!
	wait_for 20 lines_in d.csv 13
	touch stop
	wait "$watcher"
	rows d.csv | jq -e --arg pid "$pid" '[.[] | select(.pid != "")] | length >= 3 and all(.[]; .pid == $pid and .gpu == "")
		and ([.[].rss_mib | select(. != "") | tonumber] | max) >= 64
		and ([.[].cpu_cores | select(. != "") | tonumber] | max) > 0.05'
}

@test "a task of radd's, by its number; all processes on GPUs have lines; a report draws both" {
	export RAD_STATE=$WORLD/state DEVICES=$RAD_DEVICES
	start_radd
	id=$(submit --gpu-mem 4G --name watched -- rad simtask --mem 3G --seconds 600 --ramp 0.1)
	wait_state "$id" RUNNING
	wait_for 15 sh -c "rad gpus --json | jq -e '[.gpus[].processes[]] | length > 0'"
	rad monitor --task "$id" -n 3 -i 0.2 -o task.csv 2>/dev/null
	rows task.csv | jq -e --arg id "$id" '[.[] | select(.pid != "")] | length == 3
		and all(.[]; .task == $id and .gpu != "" and (.mem_used_mib | tonumber) > 500)'
	rad monitor -n 2 -i 0.2 -o all.csv 2>/dev/null
	rows all.csv | jq -e --arg id "$id" '[.[] | select(.pid != "")] | length == 2 and all(.[]; .task == $id and .program == "rad")'
	rad cancel "$id"
	stop_radd

	rad report --monitor task.csv --monitor all.csv -o both.html
	grep -Eq "<td>task</td><td class=n data-v=[0-9]+>[0-9]+</td><td class=n>–</td>" both.html	# whether they completed nobody was told
	grep -q 'FP32 pipes' both.html
	rad report --monitor task.csv --json | jq -e --arg id "$id" '.runs[0] | .name == "task" and .tasks[0].id == $id
		and .tasks[0].attempts[0].peak_mib > 500 and .totals.energy_j > 0 and .totals.trace_total_s > 0.3
		and (.processes | length) == 1 and ([.series[] | select(.process == 0) | .rss_mib[] | numbers] | max) > 0
		and ([.series[] | select(.gpu != null)] | length) == 2 and (.series[0].smact | map(numbers) | length) > 0'
	# The driver is loaded anew: its counter starts over, and what was used before stays.
	{
		echo time,gpu,pid,task,program,cpu_cores,rss_mib,read_mib_s,write_mib_s,mem_used_mib,energy_j
		i=0
		for joules in 1000 1500 20 120; do echo "2026-11-20T10:00:0$((i++)).000Z,0,,,,,,,,0,$joules"; done
	} >anew.csv
	rad report --monitor anew.csv --json | jq -e '.runs[0].totals.energy_j == 600'
	# Two runs that were written into one file, each with its header.
	{ head -n 3 anew.csv; head -n 1 anew.csv; tail -n 2 anew.csv; } >twice.csv
	rad report --monitor twice.csv --json | jq -e '.runs[0].totals.energy_j == 600'
	# The clock was set back by an hour: time goes on from where it was, and names in another encoding are names.
	{
		echo time,gpu,pid,task,program,cpu_cores,rss_mib,read_mib_s,write_mib_s,mem_used_mib,energy_j,power_w
		for second in 10:00:00 10:00:01 10:00:02 09:00:01 09:00:02 09:00:03; do
			printf '2026-11-20T%s.000Z,0,,,,,,,,0,,50\n2026-11-20T%s.000Z,0,7,,caf\351,1,,,,,,\n' $second $second
		done
	} >back.csv
	rad report --monitor back.csv --json | jq -e '.runs[0] | .totals.trace_total_s == 4 and ([.series[0].power_w[] | numbers] | length) == 4
		and (.tasks | map([.name, .attempts[0].end_s])) == [["caf?", 4]]'
	printf 'time,gpu\nx,0\n' >bad.csv
	run rad report --monitor bad.csv -o bad.html
	one_line_error "bad.csv: has no column 'pid'"
	sed 's/^20[^,]*/yesterday/' task.csv >when.csv
	run rad report --monitor when.csv -o bad.html
	one_line_error "when.csv:2: 'yesterday' is no time"
	sed 's/,0,7,/,0,-7,/' back.csv >minus.csv
	run rad report --monitor minus.csv -o bad.html
	one_line_error "minus.csv:3: pid: '-7' is not a whole number"
}

# stands FILE: whether nothing was added to it in the time of twenty readings.
stands()
{
	local size
	size=$(stat -c %s "$1")
	read -r -t 2 <> <(:) || :
	[ "$(stat -c %s "$1")" = "$size" ]
}
gone_now() { [ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"; }

# fake_driver FIELDS...: a driver whose one GPU tells everything, and more of the file.
fake_driver()
{
	export RAD_NVML_LIBRARY=$RAD_BUILD_ROOT/tests/fake-nvml/libnvidia-ml.so.1 RAD_FAKE_NVML=$PWD/gpus.json RAD_DEVICES=nvml
	cat >gpus.json.new <<-EOF
		{"devices": [{"uuid": "GPU-1", "name": "NVIDIA H200", "pci": [0, 26, 0], "cc": [9, 0], "cores": 16896, "total_mib": 143771,
		"reserved_mib": 600, "used_mib": 1000, "processes": [], "mps": [], "power_mw": 75000, "energy_mj": 123456, "util": 12, "celsius": 61,
		"clocks": [1980, 3201], "throttle": 68, "gpm": {"1": 97.5, "2": 75, "3": 30, "5": 20, "10": 10, "11": 1, "12": 2, "13": 3,
		"20": 1.5, "21": 2.5, "60": 7, "61": 8}, "mig": null}]$*}
	EOF
	mv gpus.json.new gpus.json
}

@test "a process on two MIG instances is told with the whole names of both" {
	local one=MIG-11111111-2222-3333-4444-555555555551 other=MIG-11111111-2222-3333-4444-555555555552
	fake_driver
	jq --arg one $one --arg other $other --argjson pid $$ '.devices[0].mig = [{uuid: $one, gi: 1}, {uuid: $other, gi: 2}
		| . + {name: "NVIDIA H200 MIG 1g.18gb", sms: 16, total_mib: 16384, reserved_mib: 0, used_mib: 600, processes: [[$pid, 500]],
		mps: []}]' gpus.json >mig.json
	RAD_FAKE_NVML=$PWD/mig.json rad monitor --pid $$ -n 1 -o mig.csv 2>/dev/null
	rows mig.csv | jq -e --arg both "$one $other" '[.[] | select(.pid != "") | .gpu] == [$both]'
	rad report --monitor mig.csv --json | jq -e '.runs[0] | (.gpus | length) == 2 and .tasks[0].attempts[0].gpus == [0, 1]'
}

@test "a driver with all metrics, one without permission for GPM, and one that answers no more" {
	fake_driver
	rad monitor -n 2 -i 0.1 -o h.csv 2>/dev/null
	rows h.csv | jq -e 'length == 2 and .[0].gract == "" and .[0].gpu_util == "0.12" and (.[1]
		| .gract == "0.975" and .smact == "0.75" and .smocc == "0.3" and .tensor == "0.2" and .dram == "0.1" and .fp16 == "0.03"
		and .fp32 == "0.02" and .fp64 == "0.01" and .pcie_rx_mib_s == "2.5" and .pcie_tx_mib_s == "1.5" and .nvlink_rx_mib_s == "7"
		and .nvlink_tx_mib_s == "8" and .sm_mhz == "1980" and .mem_mhz == "3201" and .temperature_c == "61"
		and .throttle == "power+hardware-heat" and .power_w == "75")'
	rad report --monitor h.csv --json | jq -e '.runs[0].series[0] | (.tensor | map(numbers) | max) == 0.2 and (.sm_mhz | max) == 1980'

	fake_driver ', "fail": {"nvmlGpmSampleGet": 4}'
	rad monitor -n 2 -i 0.1 -o p.csv 2>/dev/null
	rows p.csv | jq -e 'length == 2 and all(.[]; .smact == "" and .gpu_util == "0.12" and .mem_used_mib == "1600")'

	# A limit on the size of files stands for a disk that fills up in the midst of a line.
	run --separate-stderr bash -c 'ulimit -f 1; trap "" XFSZ; exec rad monitor -i 0.1 -n 30 -o small.csv'
	[ "$status" -eq 125 ]
	[[ "$stderr" == *"small.csv: "*"nothing more is written"* ]]
	rows small.csv | jq -e 'length >= 2 and all(.[]; .program == "" and .throttle == "power+hardware-heat")'
	echo theirs >behind.csv
	run --separate-stderr bash -c 'ulimit -f 1; trap "" XFSZ; exec rad monitor -i 0.1 -n 30 >>behind.csv'
	[ "$status" -eq 125 ]
	[ "$(head -n 1 behind.csv)" = theirs ]
	[ "$(tail -c 1 behind.csv)" = "" ]

	rad monitor -i 0.1 -o gone.csv -- sh -c 'until [ -e stop-driver ]; do sleep 0.05; done; exit 5' 2>err 3>&- &
	pid=$!
	wait_for 15 lines_in gone.csv 4
	fake_driver ', "fail": {"nvmlDeviceGetCount_v2": 999}'
	wait_for 15 grep -q "nothing more is read" err
	touch stop-driver
	code=0
	wait "$pid" || code=$?
	[ "$code" -eq 5 ]
	[ "$(grep -c "nothing more is read" err)" -eq 1 ]
}

@test "a driver that hangs: a command's end is told all the same, and a second signal ends a watching without one" {
	fake_driver
	rad monitor -i 0.1 -o hang.csv -- sh -c 'until [ -e over ]; do sleep 0.05; done; exit 6' 2>err 3>&- &
	pid=$!
	wait_for 15 lines_in hang.csv 3
	fake_driver ', "hang": ["nvmlDeviceGetPowerUsage"]'
	wait_for 15 stands hang.csv
	touch over
	code=0
	wait "$pid" || code=$?
	[ "$code" -eq 6 ]
	grep -q "the driver does not answer" err

	fake_driver
	rad monitor -i 0.1 -o idle.csv 3>&- &
	pid=$!
	wait_for 15 lines_in idle.csv 3
	fake_driver ', "hang": ["nvmlDeviceGetPowerUsage"]'
	wait_for 15 stands idle.csv
	kill "$pid"
	kill -0 "$pid"
	wait_for 15 eval 'kill "$pid"; gone_now "$pid"'
	lines_in idle.csv 3
}

@test "radd keeps SMOCC, memory bandwidth and PCIe of GPUs and of tasks" {
	fake_driver
	export DEVICES=nvml
	start_radd --state "$WORLD/other"
	id=$(submit --gpu-mem 1G -- sh -c "$(until_file measured)")
	wait_state "$id" RUNNING
	wait_for 15 sh -c "rad show --json $id | jq -e '.tasks[0].attempts[0].mean_pcie_rx_mib_s == 2.5'"
	touch measured
	rad wait "$id"
	rad acct --json | jq -e '.tasks[0].attempts[0] | .mean_smact == 0.75 and .mean_smocc == 0.3 and .mean_dram == 0.1
		and .mean_pcie_rx_mib_s == 2.5 and .mean_pcie_tx_mib_s == 1.5'
	rad show "$id" | grep -q "mean SMOCC 30%, memory bandwidth 10%, PCIe 2 MiB/s in, 2 out"
	rad report --json | jq -e '.runs[0].series[0] | ([.smocc[] | numbers] | max) == 0.3 and ([.dram[] | numbers] | max) == 0.1
		and ([.pcie_rx_mib_s[] | numbers] | max) == 2.5 and .tensor == null'
	stop_radd
}
