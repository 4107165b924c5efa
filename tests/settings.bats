#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Settings: what radd says it would run with, what changes under a running one, and that a simulation takes the same words.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file() { new_world; }
teardown_file() { end_world; }

setup()
{
	cd "$WORLD/work"
	printf 'workload,gpus,solo_s,mem_mib,gract,smact\nbig,1,8,20000,.6,.5\nsmall,1,11,8000,.3,.2\n' >W.csv
	printf 'submit_s,workload\n0,big\n1,small\n2,small\n3,big\n4,small\n5,big\n' >T.csv
}

simulate() { rad simulate --workloads W.csv --trace T.csv --devices 2xa100-40g "$@"; }
value() { jq -r --arg name "$1" '.settings[] | select(.name == $name) | "\(.value) \(.default) \(.source)"'; }

@test "check-config: every setting with its value, default and source" {
	printf '# ours\nmax_smact: 0.5\n\nslack: 512M\nwindow: 2m\nfence: no\n' >mine.conf
	radd --check-config --config mine.conf --devices sim:1xa100-40g --json >all.json
	jq -e '.schema == 1 and .file == "mine.conf" and (.settings | length > 20) and
		all(.settings[]; (keys == ["default", "name", "source", "value"]))' all.json
	[ "$(value max_smact <all.json)" = "0.5 0.8 mine.conf:2" ]
	[ "$(value slack <all.json)" = "512M 2 mine.conf:4" ]
	[ "$(value window <all.json)" = "120 90 mine.conf:5" ]
	[ "$(value fence <all.json)" = "off on mine.conf:6" ]
	[ "$(value devices <all.json)" = "sim:1xa100-40g nvml command line" ]
	[ "$(value order <all.json)" = "plan plan default" ]
	[ "$(RAD_DEVICES=sim:2xa100-40g radd --check-config --config mine.conf --json | value devices)" = "sim:2xa100-40g nvml environment" ]
	radd --check-config --config mine.conf >table
	[ "$(wc -l <table)" -eq $(($(jq '.settings | length' all.json) + 1)) ]
	grep -q '^slack  *512M  *2  *mine.conf:4$' table
}

@test "check-config: a file and a value that are not UTF-8 are shown all the same" {
	local name=caf$'\xe9'
	printf 'slack: 7\n' >"$name.conf"
	printf 'devices:\n  - model: a100-40g\n' >"$name.yaml"
	radd --check-config --config "$name.conf" --devices "sim:$name.yaml" --json >all.json
	jq -e '.file == "caf?.conf"' all.json
	[ "$(value slack <all.json)" = "7 2 caf?.conf:1" ]
	[ "$(value devices <all.json)" = "sim:caf?.yaml nvml command line" ]
}

@test "check-config reads the file that radd would read" {
	printf 'slack: 7\n' >other.conf
	[ "$(RAD_CONFIG=$PWD/other.conf radd --check-config --json | value slack)" = "7 2 $PWD/other.conf:1" ]
	[ "$(RAD_CONFIG=$PWD/other.conf radd --check-config --config /dev/null --json | value slack)" = "2 2 default" ]
	if [ "$(id -u)" -ne 0 ]; then
		mkdir -p home/rad && printf 'slack: 9\n' >home/rad/rad.conf
		[ "$(env -u RAD_CONFIG XDG_CONFIG_HOME=$PWD/home radd --check-config --json | value slack)" = "9 2 $PWD/home/rad/rad.conf:1" ]
		[ "$(env -u RAD_CONFIG XDG_CONFIG_HOME=$PWD radd --check-config --json | jq .file)" = null ]
	fi
	run radd --check-config --config none.conf
	[ "$status" -eq 1 ]
	[[ "$output" == "radd: none.conf: No such file"* ]]
}

# The one that people copy from: what it says of defaults is so, and each line can be taken over.
@test "the example of settings holds what is in force, each below a line of what it does" {
	local example=$RAD_SOURCE_ROOT/examples/rad.conf key
	sed -n 's/^#\([a-z_]*\): \(.*\)/\1 \2/p' "$example" | sort >said
	[ "$(wc -l <said)" -ge 20 ]
	radd --check-config --config /dev/null --json | jq -r '.settings[] | "\(.name) \(.default)"' | sort >defaults
	[ -z "$(comm -23 said defaults)" ] || { comm -23 said defaults; return 1; }
	sed 's/^#\([a-z]\)/\1/' "$example" >all.conf
	radd --check-config --config all.conf >/dev/null
	[ -z "$(awk '/^#[a-z_]*: / && before !~ /^# [A-Za-z]/ { print } { before = $0 }' "$example")" ]
	# Those that the administrator's page tells of are all there.
	for key in $(sed -n '/^| setting | when |/,/^$/s/^| \(.*\) | .*/\1/p' "$RAD_SOURCE_ROOT/doc/administering.md" | grep -o '`[a-z_]*: ' | tr -d '`: '); do
		grep -q "^#$key: " "$example" || { echo "$key is not there" >&2; return 1; }
	done
}

@test "check-config refuses devices that radd would refuse" {
	for devices in 0,2 sim:4xb300 sim:; do
		printf 'devices: "%s"\n' "$devices" >devices.conf
		run --separate-stderr radd --check-config --config devices.conf
		[ "$status" -eq 1 ]
		[[ "$stderr" == "radd: "* ]]
	done
}

# What is wrong elsewhere in the file says nothing of the devices, which are those that doctor looks at.
@test "doctor without a radd looks at the devices of the file, whatever else is wrong there" {
	printf 'devices: sim:2xa100-40g\nmax_gpu: 2\n' >one.conf
	RAD_SOCKET=$WORLD/nobody.sock RAD_CONFIG=$PWD/one.conf RAD_NVML_LIBRARY=$WORLD/none.so run rad doctor
	[ "$status" -eq 1 ]
	[[ "$output" == *"fail  settings   $PWD/one.conf:2: unknown key 'max_gpu': did you mean 'max_gpus'?"* ]]
	[[ "$output" == *"ok    driver     none is needed"* ]]
	echo 'devices: sim:4xb300' >one.conf
	RAD_SOCKET=$WORLD/nobody.sock RAD_CONFIG=$PWD/one.conf run rad doctor
	[ "$status" -eq 1 ]
	[[ "$output" == *"fail  settings "*"no simulated device is called 'b300'"* ]]
}

@test "check-config names all mistakes, and radd does not start with one" {
	printf 'slack: lots\norder: plan\nmax_smcat: 0.5\nwarm: 2h\n' >bad.conf
	run --separate-stderr radd --check-config --config bad.conf --json
	[ "$status" -eq 1 ]
	[ -z "$output" ]
	[ "${#stderr_lines[@]}" -eq 3 ]
	[[ "${stderr_lines[0]}" == "radd: bad.conf:1: slack: 'lots' is not a size"* ]]
	[[ "${stderr_lines[1]}" == "radd: bad.conf:3: unknown key 'max_smcat': did you mean 'max_smact'?"* ]]
	[[ "${stderr_lines[2]}" == "radd: bad.conf:4: warm: '2h' is not a time from 0 to 3600 seconds" ]]
	run radd --config bad.conf --state "$WORLD/bad" --socket "$WORLD/bad.sock"
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 1 ]
	[[ "$output" == "radd: bad.conf:1: slack: "*"(and 2 more: radd --check-config shows them)" ]]
	run radd --json
	[ "$status" -eq 2 ]
	run radd --chek-config
	[ "$status" -eq 2 ]
	[[ "$output" == "radd: unknown option '--chek-config': did you mean '--check-config'?; see radd --help" ]]
}

# What each way in answers: 0 taken, 1 refused.
by_file() { printf '%s: "%s"\n' "$1" "$2" >one.conf; ! radd --check-config --config one.conf >/dev/null 2>&1; echo $((1 - $?)); }
by_simulated_file() { ! simulate --config one.conf >/dev/null 2>&1; echo $((1 - $?)); }
by_set() { ! simulate --set "$1=$2" >/dev/null 2>&1; echo $((1 - $?)); }
by_option() { ! simulate "--${1//_/-}=$2" >/dev/null 2>&1; echo $((1 - $?)); }

@test "all ways in take and refuse the same words" {
	local expected key value answer
	while IFS=' ' read -r expected key value; do
		answer="$(by_file "$key" "$value")$(by_simulated_file)$(by_set "$key" "$value")$(by_option "$key" "$value")"
		case $expected$answer in
		taken0000 | refused1111) ;;
		*) echo "$key: '$value' should be $expected: $answer" >&2; return 1 ;;
		esac
	done <<-'END'
		taken max_smact 0.005
		taken max_smact no
		refused max_smact 80
		taken max_smact 0
		refused max_gract 1.01
		taken slack off
		taken slack 0.3333
		refused slack 5000
		taken slack 1g
		refused min_free lots
		taken min_free 512M
		taken pass_max 0.5
		taken pass_max 1-0
		refused pass_max 9999999
		refused max_slowdown 0.9
		taken max_slowdown FALSE
		refused min_gain off
		taken ledger Yes
		refused ledger 1
		taken order PLAN
		refused order lifo
		taken share auto
		refused recovery none
		refused placement
	END
}

@test "simulate takes every setting, from a file and one by one" {
	local name value
	radd --check-config --config /dev/null --json | jq -r '.settings[] | "\(.name) \(.default)"' >defaults
	simulate --json >standard.json
	while read -r name value; do
		if simulate --set "$name=$value" --json >by-set.json 2>notes; then
			cmp standard.json by-set.json || { echo "$name=$value is not the default" >&2; return 1; }
			continue
		fi
		grep -q "^rad: simulate: --set: $name: plays no part in a simulation, only in radd; leave it out" notes
		echo "$name" >>refused
	done <defaults
	# Those that the manual says are not simulated, no more and no less.
	sed -n 's/^\*\([a-z_]*\)\*.*not simulated.*/\1/p' "$RAD_SOURCE_ROOT/man/rad-conf.5.scd" | sort | diff - <(sort refused)
	run rad simulate --workloads W.csv --trace T.csv --devices 2xa100-40g --set "$(head -n 1 refused)=x"
	[ "$status" -eq 2 ]
	sed 's/ /: /' defaults >defaults.conf
	simulate --config defaults.conf --json 2>notes | cmp - standard.json
	[ ! -s notes ]
	run rad simulate --workloads W.csv --trace T.csv --devices 2xa100-40g --set max_smcat=1
	[ "$status" -eq 2 ]
	one_line_error "--set: unknown key 'max_smcat': did you mean 'max_smact'?"
	run rad simulate --workloads W.csv --trace T.csv --devices 2xa100-40g --set max_smact
	[ "$status" -eq 2 ]
	one_line_error "--set: 'max_smact': expected KEY=VALUE"
	run rad simulate --workloads W.csv --trace T.csv --devices 2xa100-40g --config none.conf
	[ "$status" -eq 1 ]
	one_line_error "none.conf: No such file"
	printf 'slack: lots\nwarm: 2h\n' >bad.conf
	run rad simulate --workloads W.csv --trace T.csv --devices 2xa100-40g --config bad.conf
	[ "$status" -eq 2 ]
	one_line_error "bad.conf:1: slack: 'lots' is not a size"
}

@test "simulate: a file, then options in their order; what is set has its effect" {
	printf 'placement: exclusive\ndevices: sim:1xa100-40g\ninterval: 0.2\n' >alone.conf
	simulate --placement exclusive --json >alone.json
	simulate --config alone.conf --json | cmp - alone.json
	simulate --placement magm --json >shared.json
	run ! cmp -s alone.json shared.json
	simulate --config alone.conf --set placement=magm --json | cmp - shared.json
	simulate --placement magm --set placement=exclusive --json | cmp - alone.json
	simulate --set placement=exclusive --placement magm --json | cmp - shared.json
	# Devices of the file, where none are named.
	rad simulate --workloads W.csv --trace T.csv --config alone.conf --json >one.json
	rad simulate --workloads W.csv --trace T.csv --devices 1xa100-40g --placement exclusive --json | cmp - one.json
	simulate --set mps=off --json | jq -e 'any(.tasks[].attempts[]; .mode == "streams") and all(.tasks[].attempts[]; .mode != "mps")'
	# What could not be simulated before: a task without an estimate is believed sooner.
	printf 'workload,gpus,solo_s,mem_mib,gract,smact\nlong,1,200,9000,.4,.3\n' >W.csv
	printf 'submit_s,workload\n0,long\n1,long\n2,long\n' >T.csv
	total() { simulate --devices 1xa100-40g --estimator none --set window=1 "$@" --json | jq .trace_total_s; }
	awk -v quick="$(total --set warm=0)" -v slow="$(total --set warm=150)" 'BEGIN { exit !(quick < slow) }'
}

# Waits until radd's log, from the line after $seen on, has that text.
logged()
{
	wait_for 10 eval "tail -n +$((seen + 1)) '$WORLD/radd.log' | grep -q -- \"$1\""
}

hangup()
{
	seen=$(wc -l <"$WORLD/radd.log")
	kill -HUP "$(cat "$WORLD/pid")"
}

@test "SIGHUP: what may change is in force, what may not is named, a bad file changes nothing" {
	local first second third
	cp "$RAD_CONFIG" before.conf
	printf 'placement: magm\nmax_smact: 0.1\nkill_wait: 600\n' >>"$RAD_CONFIG"
	DEVICES=sim:1xa100-40g start_radd
	first=$(submit --gpu-mem 4G -- rad simtask --mem 4G --seconds 600 --smact .6 --gract .6)
	wait_state "$first" RUNNING
	second=$(submit --gpu-mem 4G -- rad simtask --mem 4G --seconds 600 --smact .2 --gract .2)
	limit() { rad why --json "$second" | jq -r '.gpus[0] | "\(.reason) \(.want)"'; }
	wait_for 10 eval '[ "$(limit)" = "Load 0.1" ]'

	sed -i 's/placement: magm/placement: ff/; s/max_smact: 0.1/max_smact: 0.2/' "$RAD_CONFIG"
	echo 'order: backfill' >>"$RAD_CONFIG"
	hangup
	logged 'SIGHUP: placement: magm -> ff'
	logged 'SIGHUP: max_smact: 0.1 -> 0.2'
	logged 'SIGHUP: order: plan -> backfill'
	wait_for 10 eval '[ "$(limit)" = "Load 0.2" ]'

	# A file with a mistake: nothing of it counts.
	sed -i 's/max_smact: 0.2/max_smact: off/' "$RAD_CONFIG"
	echo 'slack: lots' >>"$RAD_CONFIG"
	hangup
	logged "SIGHUP: $RAD_CONFIG:10: slack: 'lots' is not a size"
	logged 'SIGHUP: settings stay as they were'
	run ! eval "tail -n +$((seen + 1)) '$WORLD/radd.log' | grep -- '->'"
	[ "$(state "$second")" = PENDING ]

	# Whoever looks is told of it before a restart fails.
	if [ "$(id -u)" = 0 ]; then
		run rad doctor
		[[ "$output" == *"warn  settings   $WORLD/rad.conf:10: slack: 'lots' is not a size"*"radd would not start with it"* ]]
		sed -i '/slack: lots/d' "$RAD_CONFIG"
		run rad doctor
		[[ "$output" != *"warn  settings"*"lots"* ]]
		echo 'slack: lots' >>"$RAD_CONFIG"
	fi

	# Neither does what is no file: it would read as an empty one, which is all defaults.
	mv "$RAD_CONFIG" kept.conf
	mkfifo "$RAD_CONFIG"
	hangup
	logged "SIGHUP: $RAD_CONFIG: is a pipe, not a file"
	rm "$RAD_CONFIG"
	mkdir "$RAD_CONFIG"
	hangup
	logged "SIGHUP: $RAD_CONFIG: is a folder, not a file"
	rmdir "$RAD_CONFIG"
	ln -s /dev/zero "$RAD_CONFIG"
	hangup
	logged "SIGHUP: $RAD_CONFIG: is a device, not a file"
	logged 'SIGHUP: settings stay as they were'
	run ! eval "tail -n +$((seen + 1)) '$WORLD/radd.log' | grep -- '->'"
	mv -f kept.conf "$RAD_CONFIG"

	# And now it goes; with what needs a restart.
	sed -i '$d' "$RAD_CONFIG"
	sed -i 's/kill_wait: 600/kill_wait: 0.2/' "$RAD_CONFIG"
	echo 'window: 5' >>"$RAD_CONFIG"
	hangup
	logged 'SIGHUP: max_smact: 0.2 -> off'
	logged 'SIGHUP: kill_wait: 600 -> 0.2'
	logged 'SIGHUP: window: 2 -> 5 needs a restart of radd'
	wait_state "$second" RUNNING
	third=$(submit -- sh -c 'trap "" TERM; echo deaf; while :; do sleep 0.1; done')
	wait_for 10 eval 'rad logs "'$third'" | grep deaf'
	rad cancel "$third"
	wait_state "$third" CANCELLED
	hangup
	logged 'SIGHUP: window: 2 -> 5 needs a restart of radd'
	run ! eval "tail -n +$((seen + 1)) '$WORLD/radd.log' | grep -- 'max_smact'"
	rad cancel "$first" "$second"
	stop_radd
	cp before.conf "$RAD_CONFIG"
}

@test "a limit of somebody whom there is not is told, with its line, by the log and by rad doctor" {
	cp "$RAD_CONFIG" before.conf
	local line
	line=$(($(wc -l <"$RAD_CONFIG") + 2))
	printf 'user:root: max_gpus=4\nuser:rooot: max_gpus=4\n' >>"$RAD_CONFIG"
	DEVICES=sim:1xa100-40g start_radd
	logged "user:rooot in $RAD_CONFIG:$line: the user database has no such user"
	rad doctor --json | jq -e --arg at "user:rooot in $RAD_CONFIG:$line: " '[.checks[] | select(.check == "settings")] |
		length == 1 and .[0].grade == "warn" and (.[0].text | startswith($at))'
	printf 'group:nosuch: max_gpus=4\n' >>"$RAD_CONFIG"
	hangup
	logged "group:nosuch in $RAD_CONFIG:$((line + 1)): the user database has no such group"
	[ "$(grep -c 'user:rooot in' "$WORLD/radd.log")" = 1 ]	# nothing new
	sed -i '/rooot/d; $d' "$RAD_CONFIG"
	hangup
	wait_for 10 eval "! rad doctor --json | jq -e 'any(.checks[]; .check == \"settings\")'"
	stop_radd
	cp before.conf "$RAD_CONFIG"
}

@test "SIGHUP: other devices are told to need a restart" {
	cp "$RAD_CONFIG" before.conf
	rm -rf "$WORLD/state"
	printf 'devices: sim:1xa100-40g\n' >>"$RAD_CONFIG"
	mkfifo "$WORLD/ready"
	radd --state "$WORLD/state" --ready-fd 7 7>"$WORLD/ready" 3>&- 4>&- >>"$WORLD/radd.log" 2>&1 </dev/null &
	echo $! >"$WORLD/pid"
	IFS= read -r -t 80 line <"$WORLD/ready"
	rm -f "$WORLD/ready"
	[ "$line" = ok ]
	sed -i 's/sim:1x/sim:2x/' "$RAD_CONFIG"
	hangup
	logged 'SIGHUP: devices: sim:1xa100-40g -> sim:2xa100-40g needs a restart of radd'
	[ "$(rad gpus --json | jq '.gpus | length')" -eq 1 ]
	hangup
	sed -i 's/sim:2x/sim:1x/' "$RAD_CONFIG"
	hangup
	logged "SIGHUP: settings read again from $RAD_CONFIG: nothing changed"
	cp before.conf "$RAD_CONFIG"
}
