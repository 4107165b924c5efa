#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The command: what it prints, its JSON, its exit codes, and what bad input gets.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	start_radd
	rad submit -- true
	rad wait 1
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

# ---- general ----

@test "without a command: the list of commands, exit 2" {
	run rad
	[ "$status" -eq 2 ]
	[[ "$output" == *submit* && "$output" == *doctor* ]]
}

@test "unknown command: the nearest one, exit 2" {
	run rad submti
	[ "$status" -eq 2 ]
	one_line_error "did you mean 'rad submit'?"
	run rad frobnicate
	[ "$status" -eq 2 ]
	one_line_error "see rad help"
	# A program where the command was left out.
	run rad python3 train.py
	[ "$status" -eq 2 ]
	one_line_error "a program is run by 'rad submit python3 ...', or here by 'rad run python3 ...'"
	touch train.py
	run rad train.py
	one_line_error "a program is run by 'rad submit train.py ...'"
	# Words of other tools, in the place of what is only spelt alike (limit, stop).
	run rad ls
	[ "$status" -eq 2 ]
	one_line_error "here it is rad queue"
	run rad kill 3
	one_line_error "here it is rad cancel"
	run -2 rad watch
	one_line_error "here it is rad top, or rad queue --watch 5"
	run -2 rad resubmit 5
	one_line_error "here it is rad requeue"
	run rad unreserve
	one_line_error "here it is rad reserve --delete"
	for word in "stash|hold, or rad submit --hold" "reset|cancel --all" "job|submit, queue, show" "stats|queue, or rad gpus"; do
		run -2 rad "${word%|*}" 1
		one_line_error "here it is rad ${word#*|}"
	done
	run -2 rad absent.py
	one_line_error "a program is run by 'rad submit absent.py ...'"
	run -125 rad wait all
	one_line_error 'all of yours are $(rad queue --me -h -o %i)'
	run -2 rad logs last
	one_line_error '$(rad queue --me -t all -h -o %i | tail -n 1)'
	run -2 rad stop 12
	one_line_error "'rad cancel 12' ends a task"
	run -2 rad estimate python3 train.py
	one_line_error "rad capture -o FILE -- python3 ..."
	run -2 rad requeue --failed
	one_line_error "here it is --state=F,OOM,TO"
	run -2 rad update 1 python3 train.py
	one_line_error "'python3': cannot be changed of a task that is there: cancel it and submit it anew"
	run -2 rad lease --gpu-mem 2G python train.py
	one_line_error "a lease is for the shell or program that calls it: 'rad run python' runs a command"
}

@test "a GPU that the shell chose is not what the task gets: said on a terminal" {
	local chosen='CUDA_VISIBLE_DEVICES=1 of your shell does not count: the task is given its GPU'
	on_terminal() { python3 -c 'import pty, sys; pty.spawn(["rad", "submit", "--dry-run", *sys.argv[1:]])' "$@" </dev/null; }
	CUDA_VISIBLE_DEVICES=1 on_terminal true >said
	grep -qF "$chosen" said
	CUDA_VISIBLE_DEVICES=1 on_terminal --gpus 0 true >said
	CUDA_VISIBLE_DEVICES=-1 on_terminal true >>said
	RAD_TASK_ID=1 CUDA_VISIBLE_DEVICES=1 on_terminal true >>said
	CUDA_VISIBLE_DEVICES=1 rad submit --dry-run true >>said 2>&1
	run ! grep -F "does not count" said
}

@test "why of a task that ran out of memory, of which nothing was known: what it wants, by nobody's word" {
	local beside id
	beside=$(submit --array=0-3 --gpu-mem 1G -- sleep 300)
	wait_for 15 eval "rad gpus --json | jq -e '[.gpus[].tasks[]] | length == 4'"
	id=$(submit -- sh -c 'echo "torch.OutOfMemoryError: CUDA out of memory" >&2; exit 1')
	wait_for 15 eval 'rad why "$id" | grep -q "starts alone"'
	rad why "$id" | grep -qE '^It wants 1 GPU with [0-9.]+G on each$'
	rad cancel "$id" "$beside"
}

@test "show: what runs beside a task stands in one line" {
	local first second third
	first=$(submit --gpus 4 --gpu-mem 1G -- sleep 300)
	second=$(submit --gpus 4 --gpu-mem 1G -- sleep 300)
	third=$(submit --gpus 4 --gpu-mem 1G -- sleep 300)
	wait_state "$third" RUNNING
	rad show "$third" | grep -Eqx " +beside  tasks ($first, $second|$second, $first)"
	rad cancel "$first" "$second" "$third"
}

@test "submit of an array: one log stands for all" {
	run rad submit --array=0-1 -- true
	[[ "${lines[-1]}" == "Logs: $PWD/rad-"*"_0.out, and so on" ]]
	run rad submit -- true
	[[ "${lines[-1]}" == "Log: $PWD/rad-"*".out" ]]
}

@test "why of a task that failed: what to do next" {
	local id
	id=$(rad submit --parsable -- sh -c 'exit 3')
	run rad wait "$id"
	[ "$status" -eq 3 ]
	run rad why "$id"
	[ "${lines[-1]}" = "Once more: rad requeue $id" ]	# it printed nothing
	[[ "$output" != *"output ends"* ]]
	id=$(rad submit --parsable -- sh -c 'printf "first\nstep 1\rstep 2\n\n  no \33[31mdata in \342\202\254 \n\n"; exit 1')
	run rad wait "$id"
	run rad why "$id"
	[ "${lines[-5]}" = "Its output ends:" ]
	[ "${lines[-4]}" = "  step 1" ]
	[ "${lines[-3]}" = "  step 2" ]
	[ "${lines[-2]}" = "    no data in € " ]
	[ "${lines[-1]}" = "Its output: rad logs $id. Once more: rad requeue $id" ]
	id=$(rad submit --parsable -- sh -c 'echo "RuntimeError: $(printf "far too long %.0s" 1 2 3 4 5 6 7)"; exit 1')
	run rad wait "$id"
	[[ "$(rad why "$id")" != *"output ends"* ]]	# the error is quoted
	[ "$(COLUMNS=80 rad why "$id" | awk '{ if (length > n) n = length } END { print (n <= 80 && n > 70) }')" = 1 ]
	id=$(rad submit --parsable -- sh -c 'printf "%05000d" 7; exit 1')	# a line without an end
	run rad wait "$id"
	run rad why "$id"
	[ "${#lines[-2]}" -le 250 ]
	[[ "${lines[-2]}" == "  0000"*"…"*"00007" ]]
	id=$(rad submit --parsable -- sh -c 'echo 1; exit 1')
	run rad wait "$id"
	[[ "$(rad why "$id")" == *"output ends"* ]]	# a line of which "exit 1" is no quote
	id=$(rad submit --parsable -- true)
	rad wait "$id"
	run rad why "$id"
	[[ "$output" != *"rad logs"* ]]
}

@test "--help fits the window" {
	local longest
	longest=$(COLUMNS=80 rad submit --help | tail -n +4 | awk '{ if (length > n) n = length } END { print n }')
	[ "$longest" -le 80 ]
	[ "$longest" -gt 70 ]
	# What it says is the same.
	[ "$(COLUMNS=80 rad submit --help | tr -s ' \n' ' ')" = "$(rad submit --help | tr -s ' \n' ' ')" ]
}

@test "the manual of rad names every verb, once" {
	local verb
	for verb in $(rad help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'); do
		[ "$(grep -c "^[[|].*\*$verb\*" "$BATS_TEST_DIRNAME/../man/rad.1.scd")" -eq 1 ] || { echo "$verb"; return 1; }
	done
}

@test "unknown option: the nearest one, exit 2" {
	run rad queue --jsno
	[ "$status" -eq 2 ]
	one_line_error "did you mean '--json'?"
	run rad submit --gpu-men 2G -- true
	[ "$status" -eq 2 ]
	one_line_error "did you mean '--gpu-mem'?"
	run rad submit --partition=gpu true
	[ "$status" -eq 2 ]
	one_line_error "--partition is sbatch's, and means nothing here"
	run rad submit -J x -t 1:00 -p gpu true
	one_line_error "--partition is sbatch's, and means nothing here"
	run rad submit -Z 4 true
	[ "$output" = "rad: submit: unknown option '-Z' (see rad submit --help)" ]
	run rad submit -Z 4 -- true -p
	[ "$output" = "rad: submit: unknown option '-Z' (see rad submit --help)" ]
	run -2 rad capture -o x.radcap python3 train.py --lr 1
	one_line_error "unknown option '--lr': a command with options of its own stands behind --"
	run -2 rad capture --iteration 2 --lr 1 -- python3 train.py
	[[ $output != *"behind --"* ]]
}

@test "a word too many is refused where none is taken" {
	for verb in gpus doctor version; do
		run rad $verb 1
		[ "$status" -eq 2 ] || { echo "$verb: $status"; false; }
		one_line_error "did not expect '1'"
	done
}

@test "a command that wants a task says where their numbers are" {
	for verb in why logs show cancel; do
		run rad $verb
		[ "$status" -eq 2 ]
		one_line_error "'rad queue -t all --me' lists those of your tasks"
	done
}

@test "every command has help, exit 0" {
	for verb in $(rad help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'); do
		run rad "$verb" --help
		[ "$status" -eq 0 ] || { echo "$verb: $output"; false; }
		[[ "$output" == *"sage: rad $verb"* ]] || { echo "$verb: $output"; false; }
	done
	[ "$(rad help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' | wc -l)" -ge 20 ]
}

@test "no daemon: exit 3, for run and wait 125, and what to do" {
	RAD_SOCKET=$WORLD/nobody.sock run rad queue
	[ "$status" -eq 3 ]
	one_line_error "no radd listens on $WORLD/nobody.sock"
	RAD_SOCKET=$WORLD/nobody.sock run rad wait 1
	[ "$status" -eq 125 ]
	RAD_SOCKET=$WORLD/nobody.sock run rad run -- true
	[ "$status" -eq 125 ]
	RAD_SOCKET=$WORLD/nobody.sock run rad submit -- true
	[ "$status" -eq 3 ]
	one_line_error "start one (radd)"
	RAD_SOCKET=$WORLD/nobody.sock RAD_NO_START=0 run rad queue
	[ "$status" -eq 3 ]
	one_line_error "'rad submit' starts one"
}

@test "every --json is one line, an object with schema 1 and nothing of the protocol" {
	local command
	for command in queue "queue -t all" "show 1" "show --events 1" "why 1" gpus acct version doctor "wait 1"; do
		run --separate-stderr rad $command --json
		[ "${#lines[@]}" -eq 1 ] || { echo "$command: $output"; false; }
		jq -e '.schema == 1 and (has("v") | not) and (has("error") | not)' <<<"$output" || { echo "$command: $output"; false; }
	done
}

@test "task object: exactly the members of the contract" {
	local want='["array_limit","attempts","begin_time","capture_notes","command","constraint","cpus","cwd","dependency","end_time","estimate","exit_code","feed","gpu_model","gpus_requested","held_s","host_mem_mib","id",
"jct_s","lease","log_path","lost_s","name","priority","process","progress","reason","reason_text","retries","retries_used","run_s","share","shared_with","signal",
"slot_lost_s","slot_s","slots","slowdown","slowdown_source","start_time","state","submit_time","suspended_s","terminal","time_limit_s","user","wait_s"]'
	[ "$(rad show --json 1 | jq -c '.tasks[0] | keys')" = "$(jq -c sort <<<"$want")" ]
	[ "$(rad queue -t all --json | jq -c '.tasks[0] | keys')" = "$(jq -c sort <<<"$want")" ]
	rad show --json 1 | jq -e '.tasks[0] | .id == "1" and .state == "COMPLETED" and .exit_code == 0 and .signal == null and
		(.attempts | length) == 1 and .attempts[0].verdict == "ok" and (.submit_time | test("^20.*Z$"))'
}

@test "the manual of rad show and rad acct has every member" {
	local page member missing=
	for page in show acct; do
		sed 's/\\//g' "$RAD_SOURCE_ROOT/man/rad-$page.1.scd" >"$page.page"
	done
	for member in $(rad show --json 1 | jq -r '.tasks[0] | keys[], (.attempts[0] | keys[])'); do
		grep -qw "_*${member}_*" show.page || missing+=" show:$member"
	done
	for member in $(rad acct --json | jq -r '.totals | keys[]'); do
		grep -qw "_*${member}_*" acct.page || missing+=" acct:$member"
	done
	[ -z "$missing" ] || { echo "missing:$missing"; return 1; }
}

@test "gpus object: exactly the members of the contract, and users of processes" {
	local id
	id=$(submit --gpu-mem 2G -- rad simtask --mem 1G --seconds 600)
	wait_for 15 sh -c 'rad gpus --json | jq -e "any(.gpus[].processes[]; .task == \"'"$id"'\")"'
	rad gpus --json | jq -e '[.gpus[0] | keys[]] == ["claims","drain","drained","dram","energy_j","gpu_util","gract","index","mem_available_mib",
		"mem_foreign_mib","mem_held_mib","mem_total_mib","mem_used_mib","mig","mps_users","name","number","parent_uuid","pcie_rx_mib_s",
		"pcie_tx_mib_s","power_w","processes","reservations","share","smact","smact_now","smact_source","smocc","stale","tasks",
		"temperature_c","uuid"]'
	rad gpus --json | jq -e --arg u "$(id -un)" '[.gpus[].processes[]] | length == 1 and .[0].user == $u and .[0].mem_mib > 0'
	run rad gpus -v
	[[ "$output" == *"$(id -un)"*"$id"* ]]
	rad cancel "$id"
	run rad wait "$id"
	[ "$status" -eq 143 ]
}

@test "tables stay within 80 columns, whatever the names" {
	local id
	id=$(submit --hold --name "$(printf 'a very long name %.0s' 1 2 3 4 5)" -- true)
	run env COLUMNS=80 rad queue
	[ "$(printf '%s\n' "$output" | wc -L)" -le 80 ]
	[[ "$output" == *…* ]]
	local verb
	for verb in gpus acct; do
		run env COLUMNS=80 rad $verb
		[ "$(printf '%s\n' "$output" | wc -L)" -le 80 ] || { echo "$output"; false; }
	done
	rad cancel "$id"
}

@test "until when a GPU is drained, and why, is told whole in a narrow window" {
	rad drain 0 --reason "the fan is loud, and the machine room's people come when they have found the ladder" --until now+2h
	rad gpus --json | jq -e '.gpus[0].drain.until_time'
	for width in 80 60; do
		COLUMNS=$width run rad gpus
		[ "$(wc -L <<<"$output")" -le "$width" ]
		tr -s ' \n' ' ' <<<"$output" | grep -q 'GPU 0: drained by .* until 20.*: the fan is loud, .* found the ladder'
	done
	rad undrain 0
}

@test "a terminal of 60 columns: what is said stands in it, names and qualifiers last longest" {
	local id runs
	runs=$(submit --gpu-mem 4G --name "$(printf 'first-%.0s' 1 2 3 4 5)" -- rad simtask --mem 3G --seconds 600 --ramp 0.1)
	wait_state "$runs" RUNNING
	id=$(submit --hold --array=3-6 --name "$(printf 'sweep-of-rates-%.0s' 1 2 3)" -- true)
	later=$(submit --begin now+1hour --name tonight -- true)
	for words in queue gpus help "show $runs" "show $later" "queue --start"; do
		COLUMNS=60 run rad $words
		[ "$(grep -v '  folder  \|  log  ' <<<"$output" | wc -L)" -le 60 ] || { echo "$words"; echo "$output"; false; }
	done
	[[ "$output" == *"no sooner"* ]]
	COLUMNS=60 run rad queue
	[[ "$output" == *" sweep-"*"-rates- "* && "$output" == *USER* ]] || { echo "$output"; false; }
	COLUMNS=60 run rad gpus
	[[ "$output" == *HELD*SHARE*TASKS* ]]
	for words in queue limit "why ${id}_4" "why $runs" "limit --help" "queue --help"; do
		COLUMNS=40 run rad $words
		[ "$(grep -v '^Usage: \|^       rad ' <<<"$output" | wc -L)" -le 40 ] || { echo "$words"; echo "$output"; false; }
	done
	[[ "$output" == *$'\n'"  -l, --long"$'\n        squeue\'s long form\n'* ]]	# below the option
	run ! grep -q nan <(rad show "$runs")
	rad cancel "$runs" "$id" "$later"
}

@test "no width cuts a reason, a month or how a start is known" {
	local runs id width
	runs=$(submit --gpu-mem 4G --name "$(printf 'first-%.0s' 1 2 3 4 5)" -- rad simtask --mem 3G --seconds 600 --ramp 0.1 --progress bar)
	wait_state "$runs" RUNNING
	id=$(submit --dependency "afterok:$runs" --name "$(printf 'second-%.0s' 1 2 3 4 5)" -- true)
	wait_for 15 sh -c "rad queue | grep -q DONE"
	for width in {44..80}; do
		COLUMNS=$width rad queue >narrow
		grep -q '(Dependency)' narrow || { cat narrow; false; }
		[ "$(wc -L <narrow)" -le "$width" ]
	done
	rad cancel "$(submit --hold --name "$(printf 'third-%.0s' 1 2 3 4 5)end" true)"
	COLUMNS=90 rad acct --since 1d >narrow
	grep -Eq ' th[^ ]*end ' narrow
	run ! grep -q third-third-third-third-third narrow
	reserved=$(rad reserve --gpus 0,1,2,3 --begin now+20h --for 1h --reason "visitors who want to see all of it at once" --json | jq -r .id)
	for width in 60 70 80; do
		COLUMNS=$width rad queue --start | grep -Eq "(nobody knows \(Dependency\)|how far the tasks before it are)\$"
		COLUMNS=$width rad acct --since 1d --by user,month | grep -q " $(date +%Y-%m) "
		COLUMNS=$width rad submit --dry-run --gpu-mem 30G -- true >narrow
		[ "$(wc -L <narrow)" -le "$width" ]
		COLUMNS=$width rad limit >narrow
		[ "$(wc -L <narrow)" -le "$width" ]
		COLUMNS=$width rad reserve >narrow
		[ "$(wc -L <narrow)" -le "$width" ]
		grep -q ' 0-3 *20' narrow
		RAD_DEVICES=sim:4xa100-40g RAD_STATE=$WORLD/state RAD_SIM_DEVICES=$WORLD/state/sim-devices COLUMNS=$width \
			python3 -c 'import pty; pty.spawn(["rad", "monitor", "-n", "1"])' </dev/null | sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g' >narrow
		grep -q PROGRAM narrow
		[ "$(wc -L <narrow)" -le "$width" ]
	done
	rad reserve --delete "$reserved"
	rad cancel "$runs" "$id"
}

@test "what is wrong is told with what to do: folders, options before the command, a closed input, pids, when a drain ends" {
	mkdir -p model
	run -1 rad submit model
	one_line_error "model: is a folder: name a program or a task file in it"
	run -2 rad --json queue
	one_line_error "'--json': options stand behind the command: rad queue --json"
	run -2 bash -c 'rad submit - <&-'
	one_line_error "standard input is closed"
	run -2 rad adopt $$ gpu0
	one_line_error "'gpu0': expected the number of a process"
	run -2 rad lease --pid gpu0
	one_line_error "'gpu0': expected the number of a process"
	for verb in queue cancel acct report\ --json top; do	# one word for it, whoever looks for the user
		run -2 script -qec "rad $verb --user nobody-here" /dev/null
		[[ "$output" == *"there is no user 'nobody-here' here"* ]]
	done
	# two documents on one output are none
	run -2 rad report -o - --json
	one_line_error "standard output takes one of them"
	run -2 rad report --csv - --series-csv -
	run -2 rad acct --csv --json
	one_line_error "--csv or --json"
	run -2 script -qec 'rad queue --watch 1 --json' /dev/null
	[[ "$output" == *"--json is printed once"* ]]
	run -2 rad queue --start --watch 1
	run -2 rad trace mkae
	one_line_error "'mkae': expected make, import or run"
	[[ "$(rad drain 3 --until now+2h)" =~ ^Drained\ GPU\ 3\ until\ 20[0-9-]{8}\ [0-9:]{8}$ ]]
	[ "$(rad drain 3)" = "Drained GPU 3" ]
	[ "$(rad undrain 3)" = "Undrained GPU 3" ]
}

@test "a full bar of load and its number stand apart" {
	local id
	id=$(submit --gpu-mem 2G -- rad simtask --mem 1G --smact 1 --gract 1 --seconds 600 --ramp 0.1)
	wait_for 15 sh -c 'rad gpus | grep -q " 100%"'
	TERM=xterm python3 -c 'import pty; pty.spawn(["rad", "gpus"])' </dev/null >bars
	grep -q '100%' bars
	run ! grep -E '[^ ]100%' bars
	rad cancel "$id"
}

@test "queue --start: elements of which nobody knows when are one line, with the reason" {
	local id
	id=$(submit --gpus 4 --exclusive --array=0-5%1 --name each -- rad simtask --mem 1G --seconds 600 --ramp 0.1)
	wait_state "${id}_0" RUNNING
	run rad queue --start
	echo "$output"
	grep -Eq "${id}_\[1-5\] +each .* nobody knows \(ArrayLimit\)" <<<"$output"
	rad cancel "$id"
}

@test "long sentences are broken between words" {
	COLUMNS=60 run rad doctor
	echo "$output"
	[ "$(wc -L <<<"$output")" -le 60 ] || [ "$(grep -cE '^.{61,}$' <<<"$output")" -le 1 ]	# a path has no blank to break at
	[ "$(grep -c '^                 [^ ]' <<<"$output")" -ge 1 ]
	run rad doctor
	[ "$(grep -c '^                 [^ ]' <<<"$output")" -eq 0 ]
}

@test "no blanks at the ends of lines" {
	rad cancel "$(rad submit --parsable --hold -- true)"	# a line that ends with an empty cell
	{ rad gpus && rad queue -t all; } >tables
	run -1 grep ' $' tables
}

@test "no escape sequences in a pipe; control characters of names and commands are shown as '?'" {
	local id
	id=$(submit --hold -- printf '\033[31mred\a')
	rad queue >queue; rad show "$id" >show; rad gpus >gpus
	! grep -q "$(printf '\033')" queue show gpus || false
	! grep -q "$(printf '\a')" show || false
	grep -q 'command.*?\[31mred' show || grep -q 'command.*\\' show
	rad cancel "$id"
}

@test "queue: filters by user, state and id; unknown states and users are refused" {
	local id verb
	id=$(submit --hold -- true)
	[ "$(rad queue --json -t H | jq -r '.tasks[].id')" = "$id" ]
	[ "$(rad queue --json --me | jq '.tasks | length')" -ge 1 ]
	[ "$(rad queue --json -u nobody | jq '.tasks | length')" -eq 0 ]
	[ "$(rad queue --json -t CD | jq -r '[.tasks[].state] | unique[]')" = COMPLETED ]
	[ "$(rad queue --json -t all 1 | jq -r '.tasks[].id')" = 1 ]
	run rad queue -t XX
	[ "$status" -eq 2 ]
	one_line_error "'XX'"
	for verb in queue acct cancel; do
		run rad "$verb" --me --user "$(id -un)"
		[ "$status" -eq 2 ]
		one_line_error "--me and --user both say whose: give one of them"
	done
	run rad queue -u no-such-user-here
	[ "$status" -eq 2 ]
	one_line_error "no-such-user-here"
	run rad queue --watch 1
	[ "$status" -eq 2 ]
	one_line_error "needs a terminal"
	rad cancel "$id"
}

@test "queue and gpus again and again, on a terminal, until Ctrl-C" {
	run rad gpus --watch 1
	[ "$status" -eq 2 ]
	one_line_error "needs a terminal"
	PYTHONPATH=$BATS_TEST_DIRNAME PYTHONDONTWRITEBYTECODE=1 python3 -c 'from terminal import *
for verb, title in (("gpus", "TASKS"), ("queue", "REASON")):
    t = Terminal("rad", verb, "-i", "0.2")
    for _ in range(3):
        t.expect("\\033\\[H\\033\\[J(.|\\n)*?" + title)
    t.type("\x03")
    assert t.end() == -2, verb'
}

@test "Ctrl-C while a submission is waited for: it goes on, and that is said" {
	PYTHONPATH=$BATS_TEST_DIRNAME PYTHONDONTWRITEBYTECODE=1 python3 -c 'from terminal import *
t = Terminal("rad", "submit", "--wait", "--hold", "--name", "goes-on", "true")
t.expect("Log: ")
while not int(re.search(r"SigCgt:\s*(\w+)", open(f"/proc/{t.pid}/status").read()).group(1), 16) & 2:
    time.sleep(0.01)
t.type("\x03")
t.expect("rad: left; what is waited for goes on")
assert t.end() == -2'
	rad cancel --name goes-on
}

@test "submit from a folder that is gone: where to go" {
	mkdir gone-folder
	run -1 bash -c 'cd gone-folder && rmdir ../gone-folder && rad submit true'
	one_line_error "the current folder was removed, or cannot be entered any more: go to another (cd)"
}

@test "queue again and again: what comes first is shown where not all fits, and a radd that went away is waited for" {
	local i ids=()
	for i in 1 2 3 4 5 6; do ids+=("$(submit --hold --name "held-$i" -- true)"); done
	ln -sf "$RAD_SOCKET" way
	PYTHONPATH=$BATS_TEST_DIRNAME PYTHONDONTWRITEBYTECODE=1 python3 -c 'from terminal import *
t = Terminal("rad", "queue", "-w", "0.2", rows=6, env={"RAD_SOCKET": "way"})
for _ in range(2):
    frame = t.expect("\033\\[H\033\\[J(.*?)and [0-9]+ lines more: rad top").group(1)
    assert b"REASON" in frame and b"held-1" in frame and frame.count(b"\n") == 4, frame
os.rename("way", "gone")
t.expect("trying again.*?REASON")
os.rename("gone", "way")
t.expect("lines more")
t.expect("\033\\[H\033\\[J[^\n]*held")
t.type("\x03")
assert t.end() == -2'
	rad cancel "${ids[@]}"
}

@test "ids: not one, unknown ones, and several of which one is wrong" {
	run rad show abc
	[ "$status" -eq 2 ]
	one_line_error "abc"
	run rad show 9999
	[ "$status" -eq 1 ]
	one_line_error "9999"
	run rad logs 9999
	[ "$status" -eq 1 ]
	run rad cancel 9998 9999
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 2 ]
	run rad wait 9999
	[ "$status" -eq 125 ]
	run rad cancel 1
	[ "$status" -eq 1 ]
	one_line_error "COMPLETED"
	run rad show
	[ "$status" -eq 2 ]
}

@test "logs: a reader that has enough is no error, a full disk is one" {
	local id
	id=$(rad submit --parsable --output "$WORLD/long.log" -- seq 200000)
	rad wait "$id"
	rad logs "$id" 2>"$WORLD/said" | head -1 >"$WORLD/first" || true
	[ "$(cat "$WORLD/first")" = 1 ]
	[ ! -s "$WORLD/said" ]
	rad run --gpu-mem 1G -- sh -c 'echo one; until [ -e more ]; do sleep 0.05; done; seq 9; echo end' 2>"$WORLD/said" |
		{ head -n 1; : >more; } >"$WORLD/first" || true
	[ "$(cat "$WORLD/first") $(cat "$WORLD/said")" = "one " ]
	# a task that prints nothing more tells nobody that the reader has gone
	id=$(rad submit --parsable -- sh -c 'echo one; until [ -e silent ]; do sleep 0.05; done')
	timeout 100 bash -c "rad logs -f $id 2>'$WORLD/said' | head -n 1 >'$WORLD/first'"
	[ "$(cat "$WORLD/first") $(cat "$WORLD/said")" = "one " ]
	: >silent
	rad wait "$id"
	rad report --since 1h -o - 2>"$WORLD/said" >/dev/full && return 1
	[ "$(cat "$WORLD/said")" = "rad: output: No space left on device" ]
	rad logs "$id" 2>"$WORLD/said" >/dev/full && return 1
	[ "$(cat "$WORLD/said")" = "rad: output: No space left on device" ]
	# run and wait: 125 is rad's own, and who has read enough does not change the task's
	run -125 bash -c "rad wait --json $id >/dev/full"
	one_line_error "output: No space left on device"
	rm -f gone
	run bash -c "rad run --gpu-mem 1G -- sh -c 'until [ -e gone ]; do sleep 0.05; done; seq 9' | : >gone; echo \${PIPESTATUS[0]}"
	[ "$output" = 0 ]
}

@test "a closed output is no place of the next file that is opened: nothing is printed into it" {
	local id pid
	run -125 bash -c "rad monitor --devices sim:1xa100-40g -n 1 >&-"
	[[ "$output" == *"stdout: Bad file descriptor"* ]]
	rad monitor --devices sim:1xa100-40g -n 1 -o after.csv 2>said
	[ "$(wc -l <after.csv)" -eq 2 ]
	run -1 bash -c "rad gpus >&-"
	[[ "$output" == *"output: Bad file descriptor"* ]]
	radd --foreground --devices sim:1xa100-40g --state "$WORLD/closed" --socket "$WORLD/closed.sock" <&- >&- 2>&- 3>&- &
	pid=$!
	wait_for 20 env RAD_SOCKET="$WORLD/closed.sock" rad gpus
	[ "$(readlink /proc/$pid/fd/{0,1,2} | sort -u)" = /dev/null ]
	kill $pid
	gone $pid
}

@test "acct lists GPUs by their numbers, as gpus does" {
	local pid
	export RAD_SOCKET=$WORLD/twelve.sock
	radd --foreground --devices sim:12xa100-40g --state "$WORLD/twelve" >twelve.log 2>&1 3>&- &
	pid=$!
	wait_for 20 rad gpus
	rad run --gpus 12 -- true
	[ "$(rad acct | awk '$1 == "GPU" { on = 1; next } !NF { on = 0 } on { printf "%s ", $1 }')" = "0 1 2 3 4 5 6 7 8 9 10 11 " ]
	kill $pid
	gone $pid
}

@test "who waits for a radd that hangs up on everybody is told so, and does not try for ever" {
	python3 -c 'import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(64)
while True:
    s.accept()[0].close()' "$WORLD/closing.sock" 3>&- &
	local server=$!
	wait_for 10 test -S "$WORLD/closing.sock"
	RAD_SOCKET=$WORLD/closing.sock run -125 timeout 200 rad wait 1
	kill $server
	one_line_error "radd closed 40 connections in a row without an answer"
}

@test "acct: spans, CSV by RFC 4180, totals, users and GPUs" {
	local id
	id=$(submit --name 'comma, "quote"' -- true)
	rad wait "$id"
	run rad acct --csv
	[ "$status" -eq 0 ]
	[[ "$output" == *$'"comma, ""quote"""'* ]]
	rad run --name '=1+1' -- true
	[[ "$(rad acct --csv)" == *$',"\'=1+1",'* ]]	# no formula of another user's in a spreadsheet
	[ "$(rad acct --csv | head -n 1 | tail -c 2 | od -An -c | tr -d ' ')" = '\r\n' ]
	rad acct >acct.txt	# every task, then the sums, which stay in sight
	[[ "$(tail -n 6 acct.txt | head -n 1)" == *"tasks in "*"attempts, "*"out of memory" ]]
	grep -Eq '^USER +TASKS +OOM +GPU HOURS +SHARES +PEAK +ENERGY (J|Wh)$' acct.txt
	[[ "$(head -n 1 acct.txt)" =~ ^\ *ID\ +NAME\ +USER\ +ST\ +WAIT\ +RUN\ +TRY\ +GPU\ HOURS\ +SHARES\ +PEAK\ +CLAIM\ +SMACT\ +ENERGY\ (J|Wh)\ +END$ ]]
	[[ "$(sed -n 2p acct.txt)" =~ [\ T][0-9]{2}:[0-9]{2}:[0-9]{2}$ ]]
	rad acct --json | jq -e '.tasks[0].attempts[0] | has("evidence") and has("gpu_s")'	# of all members, though tables ask for a few
	[ "$(rad acct --csv | tr -d -c '\r' | wc -c)" -eq "$(rad acct --csv | wc -l)" ]
	rad acct --since 1h --json | jq -e '.totals.tasks >= 2 and (.users | length) == 1 and (.gpus | length) >= 1'
	rad cancel "$(submit --hold true)"	# it never began
	[[ "$(rad acct)" =~ mean\ wait\ [0-9:]+,\ mean\ run\ [0-9:]+\ \(of\ the\ [0-9]+\ that\ began\) ]]
	rad acct --json | jq -e '.totals | .began < .tasks'
	[ "$(rad acct --since 2090-01-01)" = "No task ended in that time, which lies ahead" ]
	[ "$(rad acct --since tomorrow --by user)" = "$(rad acct --month=2090-01)" ]
	[ "$(rad acct --since 2020-01-01 --until 2020-01-02)" = "No task ended in that time" ]
	[[ "$(rad acct --until 2020-01-02)" == "No task ended in that time, which ends before it begins: "* ]]
	rad acct --since 2090-01-01 --json | jq -e '.tasks | length == 0'
	rad acct --until 2020-01-01T00:00:00Z --json | jq -e '.tasks | length == 0'
	[ "$(rad acct --since yesterday --json | jq .totals.tasks)" -ge 2 ]
	[ "$(rad acct --since 2090-01)" = "No task ended in that time, which lies ahead" ]
	[ "$(rad acct "--month=$(date +%Y-%m)" -u all --json | jq .totals.tasks)" -ge 2 ]
	[ "$(rad acct --month=2020-02)" = "No task ended in that time" ]
	[ "$(rad acct --month=1960-02)" = "No task ended in that time" ]
	run rad acct --month=2020-13
	[ "$status" -eq 2 ]
	one_line_error "expected a month"
	run rad acct --month 2020-02
	[ "$status" -eq 2 ]
	one_line_error "--month=2020-02"
	run rad acct --since yesterweek
	[ "$status" -eq 2 ]
	one_line_error "yesterweek"
}

@test "acct: nothing since midnight, and tasks of which none began: no heading without rows" {
	RAD_SOCKET=$WORLD/new.sock
	mkdir new-state
	radd --devices sim:1xa100-40g --state "$PWD/new-state" 2>/dev/null 3>&- 4>&- &
	local pid=$!
	wait_for 10 rad gpus
	[ "$(rad acct)" = "No task ended since midnight: --since 7d looks further back" ]
	[ "$(rad acct --by user)" = "$(rad acct)" ]
	[ "$(rad acct --since 2h)" = "No task ended in that time" ]
	rad cancel "$(submit --hold true)"
	rad acct >acct.txt
	grep -q '^USER ' acct.txt
	run ! grep '^GPU ' acct.txt
	kill "$pid"
	gone "$pid"
}

@test "acct: what was held at its submission is in sums by user as in others" {
	local held begun gone
	held=$(rad submit --parsable --hold --gpu-mem 1G -- true)
	gone=$(rad submit --parsable --hold --gpu-mem 1G -- true)
	begun=$(rad submit --parsable --begin now+1 --gpu-mem 1G -- true)
	rad wait "$begun"
	rad release "$held"
	rad wait "$held"
	rad cancel "$gone"
	rad acct --since 1d --json | jq -c '.totals | [.tasks, .began, .held_s, .avg_wait_s, .gpu_hours, .gpu_share_hours]' >listed
	rad acct --since 1d --by user --json | jq -c '.totals | [.tasks, .began, .held_s, .avg_wait_s, .gpu_hours, .gpu_share_hours]' >summed
	diff listed summed
	run -2 rad acct --by $'us\xe9r'
	[[ "$output" == *"'us?r'"* ]]
	jq -e '.[1] >= 2 and .[2] > 0' summed
}

@test "acct: GPU time as shares adds up to the time in which GPUs were in use" {
	local first second part
	first=$(submit --gpus 4 --gpu-mem 2G --share streams -- sh -c "$(until_file shared)")
	wait_state "$first" RUNNING
	second=$(submit --gpu-mem 2G --share streams --name beside -- sh -c "$(until_file later)")
	wait_state "$second" RUNNING
	: >shared
	rad wait "$first"
	part=$(rad acct --since 1h --json | jq --arg id "$first" '.tasks[] | select(.id == $id) | .gpu_share_s')
	: >later
	rad wait "$second"
	rad acct --since 1h --json >shared.json
	# What the first gave away is what the second had less; that was so while the second ran yet, and counted in no sum.
	jq -e --arg a "$first" --arg b "$second" --argjson part "$part" '(.tasks | INDEX(.id)) as $t | $t[$a] as $a | $t[$b] as $b
		| $a.gpu_share_s == $part and $a.gpu_share_s < $a.gpu_s and $b.gpu_share_s < $b.gpu_s
		and ($a.attempts[0].gpu_share_s | length == 4)
		and ($a.gpu_s - $a.gpu_share_s - ($b.gpu_s - $b.gpu_share_s) | fabs) < 0.005' shared.json
	# All that is told apart adds up to the same.
	jq -e '.totals as $t | def near($x): . - $x * 3600 | fabs < 4;
		([.tasks[].gpu_s] | add | near($t.gpu_hours)) and ([.users[].gpu_s] | add | near($t.gpu_hours))
		and ([.gpus[].gpu_s] | add | near($t.gpu_hours)) and ([.tasks[].gpu_share_s] | add | near($t.gpu_share_hours))
		and ([.gpus[].gpu_share_s] | add | near($t.gpu_share_hours))' shared.json
	[ "$(rad acct --since 1h --csv | head -n 1 | tr -d '\r' | tr , '\n' | tail -n 1)" = gpu_share_s ]
}

@test "every command and program has its manual page, by its name and as man rad VERB" {
	local verb pages=$WORLD/man/man1
	command -v man >/dev/null && [ -d "$RAD_BUILD_ROOT/man" ] || skip "no man, or no pages were made"
	mkdir -p "$pages"
	cp "$RAD_BUILD_ROOT"/man/*.1 "$pages"
	for verb in $(rad help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'); do
		[ -s "$pages/rad-$verb.1" ] || { echo "rad-$verb(1) is not there"; return 1; }
		MANPAGER=cat man -M "$WORLD/man" rad "$verb" 2>/dev/null | grep -q . || { echo "man rad $verb shows nothing"; return 1; }
	done
	[ -s "$RAD_BUILD_ROOT/man/radd.8" ]
	[ -s "$RAD_BUILD_ROOT/man/rad-shim.8" ]
	[ -s "$RAD_BUILD_ROOT/man/rad.conf.5" ]
}

@test "the manual's examples stand in 80 columns, and scdoc takes no backslash out of them" {
	awk 'FNR == 1 { example = 0 } /^```/ { example = !example; next }
		example { gsub(/\\\\/, "/"); if (length > 69 || /\\/) { print FILENAME ": " $0; bad = 1 } } END { exit bad }' \
		"$BATS_TEST_DIRNAME"/../man/*.scd
}

@test "the manual of rad why has every reason" {
	local word words page=$BATS_TEST_DIRNAME/../man/rad-why.1.scd
	words=$( { sed -n 's/^\tX(MAP_[A-Z_]*, \("[A-Za-z]*"\),.*/\1/p' "$RAD_SOURCE_ROOT/src/map/map.h"
		grep 'word = ' "$RAD_SOURCE_ROOT/src/core/view.c"; } | grep -o '"[A-Z][A-Za-z]*"' | tr -d '"' | sort -u)
	[ "$(wc -w <<<"$words")" -gt 35 ]
	for word in $words; do
		grep -q "[*_]$word[*_]" "$page" || { echo "$word"; return 1; }
	done
}

@test "completion: ids of tasks that wait or run, in three shells; nothing is started for it" {
	local first second
	first=$(submit --hold --name completed-by-key --array=0-1 -- true)
	second=$(submit --hold --name other -- true)
	rad completion bash >completion
	run bash -c '. ./completion; COMP_WORDS=(rad why "'"$first"'") COMP_CWORD=2; _rad; echo "${COMPREPLY[@]}"'
	[ "$output" = "${first}_0 ${first}_1" ]
	run bash -c '. ./completion; COMP_WORDS=(rad submit --dependency = afterok : 1 : "'"$second"'") COMP_CWORD=8; _rad; echo "${COMPREPLY[@]}"'
	[ "$output" = "$second" ]
	run bash -c '. ./completion; COMP_WORDS=(rad submit -d afterany :) COMP_CWORD=4; _rad; echo "${COMPREPLY[@]}"'
	[ "$output" = "${first}_0 ${first}_1 $second" ]
	run bash -c '. ./completion; COMP_WORDS=(rad update pri) COMP_CWORD=2; _rad; echo "${COMPREPLY[@]}"'
	[ "$output" = "priority=" ]
	run env RAD_SOCKET="$WORLD/none.sock" RAD_NO_START=0 bash -c '. ./completion; COMP_WORDS=(rad why "") COMP_CWORD=2; _rad; echo "${COMPREPLY[@]}"'
	[ "$output" = "" ]
	[ ! -e "$WORLD/none.sock" ]
	if command -v fish >/dev/null; then
		rad completion fish >rad.fish
		run fish -c "source ./rad.fish; complete -C 'rad cancel $second'"
		[ "$output" = "$second"$'\tother (H)' ]
	fi
	if command -v zsh >/dev/null; then
		rad completion zsh >_rad
		# Typed into a zsh on a terminal: the ids are listed, their names beside them.
		PYTHONPATH=$RAD_SOURCE_ROOT/tests run timeout 200 python3 - "$second" <<-'PY'
			import sys
			from terminal import Terminal
			t = Terminal("zsh", "-f", "-i", env={"TERM": "xterm", "PS1": "ready> "})
			t.expect("ready> ")
			t.type("fpath=($PWD $fpath); autoload -U compinit; compinit -u -D; echo load''ed\n")
			t.expect("loaded")
			t.type("rad show \t\t")
			t.expect("completed-by-key")
			t.type("\x15exit\n")
			t.end()
		PY
		[ "$status" -eq 0 ] || { echo "$output"; false; }
	fi
	rad cancel "$first" "$second"
}

@test "a locale that is asked for and not installed here says which characters there are all the same" {
	local id
	id=$(submit --hold --name näme -- true)
	LC_ALL='' LANG=xx_YY.UTF-8 rad queue -h | grep -q ' näme '
	LC_ALL='' LC_CTYPE=xx_YY.utf8 LANG=C rad queue -h | grep -q ' näme '
	LC_ALL=C LANG=xx_YY.UTF-8 rad queue -h | grep -q ' n??me '
	rad cancel "$id"
}

@test "a locale says which characters the terminal has, and no more: a Turkish I is an i, and Latin 1 shows no halves of UTF-8" {
	local id
	mkdir locales
	localedef -i tr_TR -f UTF-8 locales/tr_TR.UTF-8 && localedef -i de_DE -f ISO-8859-1 locales/de_DE.ISO-8859-1 ||
		skip "localedef has no such locales here"
	id=$(LOCPATH=$PWD/locales LC_ALL=tr_TR.UTF-8 rad submit --parsable --hold --name näme --time UNLIMITED --begin MIDNIGHT -- true)
	[ "$(LOCPATH=$PWD/locales LC_ALL=tr_TR.UTF-8 rad queue -h -t pending,held --format JOBID:8,TIME,name)" = \
		"$(rad queue -h -t pending,held --format JOBID:8,TIME,name)" ]
	LOCPATH=$PWD/locales LC_ALL=de_DE.ISO-8859-1 rad queue -h | grep -q ' n??me '
	rad cancel "$id"
}

@test "completion: GPUs, in three shells" {
	local given want
	rad completion bash >completion
	while IFS='|' read -r given want; do
		run bash -c '. ./completion; read -ra COMP_WORDS <<<"$1"; [ "${1% }" = "$1" ] || COMP_WORDS+=("")
			COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _rad; echo "${COMPREPLY[*]}"' - "$given"
		[ "$output" = "$want" ] || { echo "'$given' gives '$output', not '$want'"; return 1; }
	done <<-END
		rad drain |0 1 2 3 all
		rad undrain 0,2|0,2
		rad drain 0,|0,0 0,1 0,2 0,3 0,all
		rad reserve --gpus |0 1 2 3
		rad reserve |
	END
	if command -v fish >/dev/null; then
		rad completion fish >rad.fish
		[ "$(fish -c "source ./rad.fish; complete -C 'rad drain '" | cut -f1 | sort | tr '\n' ' ')" = "0 1 2 3 all " ]
		[ "$(fish -c "source ./rad.fish; complete -C 'rad reserve --gpus '" | cut -f1 | sort | tr '\n' ' ')" = "0 1 2 3 " ]
	fi
	if command -v zsh >/dev/null; then
		mkdir -p comp
		rad completion zsh >comp/_rad
		timeout 120 python3 "$BATS_TEST_DIRNAME/complete_zsh.py" comp 'rad undrain al' 'rad undrain all '
		timeout 120 python3 "$BATS_TEST_DIRNAME/complete_zsh.py" comp 'rad reserve --gpus=2,3' 'rad reserve --gpus=2,3 '
	fi
}

@test "completion: bash can read it and it knows the commands" {
	rad completion bash >completion
	bash -n completion
	grep -q undrain completion
	mkdir -p named && : >'named/my task.rad' && : >'named/my other.rad'
	run bash -c '. ./completion; COMP_WORDS=(rad submit named/my) COMP_CWORD=2; _rad; printf "%s\n" "${COMPREPLY[@]}"'
	[ "$(sort <<<"$output")" = 'named/my other.rad
named/my task.rad' ]
	local try given want
	while IFS='|' read -r given want; do
		run bash -c '. ./completion; read -ra COMP_WORDS <<<"$1"; [ "${1% }" = "$1" ] || COMP_WORDS+=("")
			COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _rad; echo "${COMPREPLY[*]}"' - "$given"
		[ "$output" = "$want" ] || { echo "'$given' gives '$output', not '$want'"; return 1; }
	done <<-END
		rad help capt|capture
		rad completion |bash zsh fish
		rad trace im|import
		rad update 12 pri|priority=
		rad queue --states P|PD
		rad cancel --state O|OOM
		rad submit --optimizer adam|adam adamw
		rad submit --precision b|bf16
		rad show --s|--script
		rad submit --dependency after|afterok: afterany: afternotok: after: aftercorr:
	END
	rad completion zsh | grep -q '#compdef rad'
	rad completion fish | grep -q 'complete -c rad'
	run rad completion tcsh
	[ "$status" -eq 2 ]
	one_line_error "bash, zsh and fish"
}

@test "version: both releases; without a daemon its own" {
	rad version --json | jq -e '.rad == .radd and .protocol == .radd_protocol'
	RAD_SOCKET=$WORLD/nobody.sock run rad version
	[ "$status" -eq 0 ]
	[[ "$output" == rad* ]]
}

@test "doctor: a line each, and 1 where nothing can run" {
	run rad doctor
	[[ "$output" == *daemon* && "$output" == *state* ]]
	rad doctor --json | jq -e '[.checks[] | select(.check == "gpus")][0].grade == "ok"'
	rad doctor --json | jq -e '[.checks[] | select(.check == "driver" or .check == "mps").grade] == ["ok", "ok"]'	# simulated
	RAD_SOCKET=$WORLD/nobody.sock RAD_NVML_LIBRARY=$WORLD/none.so run rad doctor
	[ "$status" -eq 1 ]
	[[ "$output" == *"fail  driver"*"sim:4xa100-40g"* ]]
}

@test "doctor: a radd whose program was upgraded under it, which goes on with the one that it was started from" {
	export RAD_SOCKET=$WORLD/upgraded.sock
	local pid
	mkdir "$WORLD/bin"
	cp "$RAD_BUILD_ROOT/radd" "$RAD_BUILD_ROOT/rad-shim" "$WORLD/bin/"
	"$WORLD/bin/radd" --devices sim:1xa100-40g --state "$WORLD/upgraded" 2>/dev/null 3>&- 4>&- &
	pid=$!
	wait_for 10 rad gpus
	run ! eval 'rad doctor | grep "was replaced"'
	cp "$RAD_BUILD_ROOT/radd" "$WORLD/bin/newer"
	mv "$WORLD/bin/newer" "$WORLD/bin/radd"
	rad doctor --json | jq -e --arg radd "$WORLD/bin/radd" 'any(.checks[]; .grade == "warn" and (.text | startswith($radd + " was replaced")))'
	printf 'no program' >"$WORLD/bin/newer"
	chmod 644 "$WORLD/bin/newer"
	mv "$WORLD/bin/newer" "$WORLD/bin/radd"
	local id
	id=$(rad submit --parsable --gpu-mem 1G -- true)
	rad wait "$id"
	rad acct --json | jq -e --arg id "$id" '[.tasks[].id] == [$id]'
	rad show --events "$id" | grep -q ' ended '
	rad report -o upgraded.html
	kill "$pid"
	gone "$pid"
}

# plays_radd VERSION [UID]: answers everything as a radd of that release would its status, one question a connection.
plays_radd()
{
	python3 - "$WORLD/other.sock" "$1" "${2:-$(id -u)}" <<'PYTHON' 3>&- &
import json, socket, struct, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
listener.settimeout(200)
said = json.dumps({"v": 1, "schema": 1, "version": sys.argv[2], "uid": int(sys.argv[3]), "protocol": 1, "pid": 1, "devices": "sim:1xa100-40g", "state_dir": "/",
                   "gpus": [], "troubles": []}).encode()
while True:
    one, _ = listener.accept()
    while one.recv(65536):
        one.sendall(struct.pack(">I", len(said)) + said)
PYTHON
	PLAYED=$!
	wait_for 10 test -S "$WORLD/other.sock"
}

@test "doctor: of rad and radd the older one is to be replaced" {
	plays_radd 99.0.0
	RAD_SOCKET=$WORLD/other.sock run rad doctor
	kill "$PLAYED"
	[[ "$output" == *"warn  daemon     radd is 99.0.0, and this rad ($(readlink -f "$(command -v rad)")) is the older "*"type -a rad"* ]]
	rm "$WORLD/other.sock"
	plays_radd 0.0.1
	RAD_SOCKET=$WORLD/other.sock run rad doctor
	kill "$PLAYED"
	[[ "$output" == *"warn  daemon     radd is 0.0.1, rad is "*": restart radd (rad stop: "* ]]
	rm "$WORLD/other.sock"
	# RAD_SOCKET may name one that is not the caller's to stop.
	plays_radd 0.0.1 4242
	COLUMNS=300 RAD_SOCKET=$WORLD/other.sock run rad doctor
	kill "$PLAYED"
	[[ "$output" == *": restart radd (it is another user's, whose 'rad stop' and next 'rad submit' do it; tasks go on)"* ]]
	rm "$WORLD/other.sock"
	# Of two builds of one release the later one's is the greater version.
	plays_radd 0.1.0+20000101000000.01234567
	RAD_SOCKET=$WORLD/other.sock run rad doctor
	RAD_SOCKET=$WORLD/other.sock rad version >said 2>why
	kill "$PLAYED"
	[ "$(jq -nr --arg r "$(rad --version | awk 'NR == 1 { print $2 }')" '$r | startswith("0.1.0+")')" = false ] ||
		[[ "$output" == *"radd is 0.1.0+20000101000000.01234567, rad is 0.1.0+"*": restart radd ("*"tasks go on)"* ]]
	[ ! -s why ] || grep -q '^rad: radd is 0.1.0+2000' why
	grep -q '^radd 0.1.0+20000101000000.01234567 ' said
}

@test "version: a build is its release, and between releases the date and name of its commit" {
	local tree=$WORLD/tree date commit
	mkdir -p "$tree/tools" "$WORLD/exported"
	cp "$RAD_SOURCE_ROOT/tools/version" "$tree/tools/"
	[ "$(rad --version | awk 'NR == 1 { print $2 }')" = "$(radd --version | awk '{ print $2 }')" ]
	git() { command git -C "$tree" -c user.name=x -c user.email=x@example.org -c commit.gpgsign=false "$@"; }
	# Without git, and within the tree of another project.
	GIT_CEILING_DIRECTORIES=$WORLD run "$tree/tools/version" 0.1.0
	[ "$output" = 0.1.0 ]
	mkdir "$tree/part"
	cp -R "$tree/tools" "$tree/part/"
	git init -q
	echo 'tools/version export-subst' >"$tree/.gitattributes"
	git add .
	GIT_COMMITTER_DATE='2026-03-04 05:06:07 +0100' git commit -qm first
	[ "$("$tree/part/tools/version" 0.1.0)" = 0.1.0 ]
	commit=$(git rev-parse --short=8 HEAD)
	[ "$("$tree/tools/version" 0.1.0)" = "0.1.0+20260304040607.$commit" ]
	git archive HEAD tools | tar -x -C "$WORLD/exported"
	[[ "$("$WORLD/exported/tools/version" 0.1.0)" == "0.1.0+20260304040607.${commit:0:7}"* ]]
	echo >>"$tree/tools/version"
	[ "$("$tree/tools/version" 0.1.0)" = "0.1.0+20260304040607.$commit.dirty" ]
	git checkout -q tools/version
	git tag -am release v0.1.0
	[ "$("$tree/tools/version" 0.1.0)" = 0.1.0 ]
	git archive HEAD tools | tar -x -C "$WORLD/exported"
	[ "$("$WORLD/exported/tools/version" 0.1.0)" = 0.1.0 ]
}

@test "a radd that hangs: version and doctor say so and end, others wait for it" {
	kill -STOP "$(cat "$WORLD/pid")"
	run timeout 100 rad version
	local said=$output code=$status
	run timeout 100 rad doctor
	rad queue >"$WORLD/listed" 2>&1 &
	kill -CONT "$(cat "$WORLD/pid")"
	[ "$code" = 0 ]
	[[ "$said" == *"radd: radd is there, but has not answered for 5 s" ]]
	[ "$status" = 1 ]
	[[ "$output" == *"fail  daemon     radd is there, but has not answered for 5 s"* ]]
	wait $!
	grep -q '^ID ' "$WORLD/listed"
	wait_for 15 gpus_read
}
gpus_read() { rad gpus --json | jq -e 'any(.gpus[]; .stale) | not' >/dev/null; }

# ---- submitting ----

@test "submit: bare id, estimate, dry run queues nothing" {
	run rad submit --gpu-mem 12G --hold -- true
	[[ "${lines[0]}" =~ ^Submitted\ task\ [0-9]+$ ]]
	[[ "${lines[1]}" == "Needs 12.0G on each GPU (declared)" ]]
	rad cancel "${lines[0]##* }"
	# What a capture comes to is found by a worker: it is told all the same.
	run -0 rad submit --capture "$RAD_SOURCE_ROOT/tests/fuzz/corpus-capture/max-split" --hold -- true
	[[ "${lines[1]}" =~ ^Needs\ [0-9.]+[MG]\ on\ each\ GPU\ \(replay\)$ ]]
	[[ "${lines[2]}" == "Log: "* ]]
	rad cancel "${lines[0]##* }"
	local before
	before=$(rad queue -t all --json | jq '.tasks | length')
	run rad submit --dry-run --gpu-mem 12G -- true
	[ "$status" -eq 0 ]
	[[ "$output" == *"would be accepted"*"GPU 0: fits"* ]]
	rad submit --dry-run --json --gpu-mem 12G -- true | jq -e '.fits_now and .estimate.claim_mib == 12288 and (.gpus | length) == 4'
	[ "$(rad queue -t all --json | jq '.tasks | length')" -eq "$before" ]
	run rad submit --dry-run --gpu-mem 41G -- true
	[ "$status" -eq 2 ]
}

@test "submit: the name in Slurm's spelling" {
	local id
	id=$(rad submit --parsable --hold --job-name=slurmish -- true)
	rad show --json "$id" | jq -e '.tasks[0].name == "slurmish"'
	rad cancel "$id"
}

@test "submit --wait: the task's code" {
	run rad submit --wait -- sh -c 'exit 4'
	[ "$status" -eq 4 ]
}

@test "task file: settings, script, folder" {
	mkdir -p files
	printf 'name: from-file\ngpu_mem: 3G\noutput: out-%%j.txt\necho in $(basename "$PWD"); exit 5\n' >files/a.rad
	run rad submit --parsable --wait files/a.rad
	[ "$status" -eq 5 ]
	cat files/out-"$output".txt
	[ "$(cat files/out-"$output".txt)" = "in files" ]
	[ "$(field "$output" .name)" = from-file ]
	[ "$(field "$output" .estimate.claim_mib)" = 3072 ]
}

@test "notes of a task file go to stderr" {
	printf '# a task\nenv\necho hello\nnone\nnone\n32\nexclusive\n1\n4000\n' >old.rad
	run --separate-stderr rad submit --parsable --hold old.rad
	if [ "$status" -eq 0 ]; then
		[[ "$stderr" == *policy* ]]
		[[ "$output" =~ ^[0-9]+$ ]]
		rad cancel "$output"
	else
		[[ "$stderr" == rad:* ]]
	fi
}

# ---- what bad input gets: one line, the thing named, nothing queued ----

refused()	# TEXT COMMAND...
{
	local text=$1 before
	shift
	before=$(rad queue -t all --json | jq '.tasks | length')
	run "$@"
	[ "$status" -ne 0 ] || { echo "accepted: $*"; return 1; }
	one_line_error "$text"
	[ "$(rad queue -t all --json | jq '.tasks | length')" -eq "$before" ]
}

@test "bad: another program's option is not ours cut short" {
	refused "--input is sbatch's, and not done here" rad submit --input=x -- true
	refused "--input is sbatch's, and not done here" rad submit --input x -- true
	refused "--batch is sbatch's, and means nothing here" rad submit --batch=8 -- true
	refused "unknown option '--seq=8': did you mean '--seq-len'?" rad submit --seq=8 -- true
	refused "--input-size: 'x': expected channels" rad submit --input-s=x -- true
}

@test "bad: options of Slurm's that nobody reads are not passed over in silence" {
	printf '#!/bin/sh\n#SBATCH --gres=gpu:2\ntrue\n' >slurm.sh
	chmod +x slurm.sh
	run --separate-stderr rad submit --parsable ./slurm.sh
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "$(field "$output" .gpus_requested)" = 2 ]
	run --separate-stderr rad submit bash slurm.sh
	[ "$stderr" = "rad: slurm.sh: its #RAD and #SBATCH lines are not read here: they are by 'rad submit slurm.sh'" ]
	run --separate-stderr rad submit -- ./slurm.sh
	[[ "$stderr" == "rad: ./slurm.sh: its #RAD and #SBATCH lines are not read here"* ]]
	printf '#!/bin/sh\n#RAD --gpus=1\n#SBATCH --gres=gpu:2\ntrue\n' >both.sh
	run --separate-stderr rad submit --parsable both.sh
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "$(field "$output" .gpus_requested)" = 1 ]
}

@test "bad: no such program" {
	refused nosuchprogram rad submit -- nosuchprogram
	refused "leave out the quotes" rad submit "python3 train.py --lr 1"
	refused "write" rad submit -- helpers.bash || refused "no program 'helpers.bash'" rad submit -- helpers.bash
}

@test "bad: a program whose first line nothing can run" {
	printf '#!/usr/bin/env python3\r\nprint(1)\r\n' >windows.py
	printf '#!/moved/venv/bin/python3\nprint(1)\n' >moved
	printf '#! /bin/sh -e\n:\n' >good
	printf ':\n' >plain
	chmod +x windows.py moved good plain
	refused "./windows.py: its first line ends as Windows has it, so nothing can run it: sed -i 's/\\r\$//' '$PWD/./windows.py'" rad submit ./windows.py
	refused "./moved: its first line has it run by /moved/venv/bin/python3, which is not there" rad submit ./moved
	PATH=$PWD:$PATH refused "moved: its first line" rad submit moved --lr 1
	rad submit --dry-run ./good
	rad submit --dry-run ./plain
	rad submit --dry-run "$(command -v rad)"
}

@test "a --time that is rather one of hours is told to be minutes" {
	local time
	for time in 2 12 24 48; do
		rad submit --dry-run --time $time true >/dev/null 2>noted
		[ "$(cat noted)" = "rad: --time: a number alone is minutes, as in Slurm, and the task is ended after them: for hours write ${time}h" ]
	done
	for time in 0 5 30 60 120 1440 2h 2:00 90s unlimited; do
		rad submit --dry-run --time $time true >/dev/null 2>noted
		[ ! -s noted ] || { cat noted; return 1; }
	done
}

@test "memory of a task that waits is to be held, and is not held yet" {
	id=$(submit --hold --gpu-mem 2G -- sleep 300)
	rad show "$id" | grep -q 'memory  2.0G to be held on each GPU (declared: '
	rad release "$id"
	wait_state "$id" RUNNING
	rad show "$id" | grep -q 'memory  2.0G held on each GPU (declared: '
	rad cancel "$id"
}

@test "a begin that is past is told, and keeps from nothing" {
	rad submit --dry-run --begin 2020-01-01T08:00 true >/dev/null 2>noted
	[ "$(cat noted)" = "rad: --begin: '2020-01-01T08:00' is past: it starts as soon as there is room" ]
	rad submit --dry-run --begin now true >/dev/null 2>noted
	[ ! -s noted ]
	rad submit --dry-run --begin now+1h true >/dev/null 2>noted
	[ ! -s noted ]
}

@test "a shell's script with Windows line ends is told, and how to mend it" {
	printf 'python3 x.py\r\n' >'my job.sh'
	printf 'print(1)\r\n' >fine.py
	rad submit --dry-run bash 'my job.sh' >/dev/null 2>noted
	[ "$(cat noted)" = "rad: my job.sh: its lines end as Windows has it, which bash takes for part of their words: sed -i 's/\r\$//' '$PWD/my job.sh'" ]
	bash -c "$(sed 's/.*: sed/sed/' noted)"
	rad submit --dry-run bash 'my job.sh' >/dev/null 2>noted
	[ ! -s noted ]
	rad submit --dry-run python3 fine.py >/dev/null 2>noted
	[ ! -s noted ]
}

@test "a script that is not there is told, and queued all the same" {
	rad submit --hold python3 -u nowhere.py --config conf.py 2>noted
	[ "$(cat noted)" = "rad: nowhere.py is not there (in $PWD): the task will fail unless it is by then" ]
	rad submit --dry-run bash >/dev/null 2>noted
	grep -q "^rad: bash with nothing to run ends at once.*'rad run --pty bash'" noted
	rad submit --dry-run bash -c true >/dev/null 2>noted
	[ ! -s noted ]
	touch here.py
	rad submit --hold python3 here.py --out new.py 2>noted
	rad submit --hold ls new.py 2>>noted
	rad submit --hold bash -c "cd elsewhere; python3 train.py" 2>>noted
	rad submit --hold python3 -m package.main.py 2>>noted
	[ ! -s noted ]
	rad cancel --pending
}

@test "queue: held elements of an array take one line" {
	local id
	id=$(submit --hold --array=0-9 --output=/dev/null true)
	run rad queue "$id"
	[ "${#lines[@]}" -eq 2 ]
	[[ "${lines[1]}" == *"${id}_[0-9]"* ]]
	rad cancel "$id"
}

@test "a script on standard input, as sbatch takes it, and by the name -" {
	run --separate-stderr rad submit --gpu-mem 2G <<-'EOF'
		#!/bin/bash
		#SBATCH --job-name=handed -p gpu
		echo "$# $1 in $PWD"
	EOF
	[[ "${lines[0]}" == "Submitted task "* && "$stderr" == *"standard input: "*" -p (line 2)"* ]]
	local id=${lines[0]##* }
	rad wait "$id"
	[ "$(rad logs "$id")" = "0  in $PWD" ]
	[ "$(rad show --json "$id" | jq -r '.tasks[0].name')" = handed ]
	echo 'echo "$2"; cd /nowhere' | rad run - a 'b c' >out 2>err || [ $? -eq 1 ]
	[ "$(head -n 1 out)" = "b c" ]
	grep -q '/stdin: line 1: cd: /nowhere' out err
	[ "$(rad acct --json --since 1h | jq -r '.tasks[-1].name')" = stdin ]
	: | refused "standard input: " rad submit
	: | refused "standard input: " rad submit -
	printf '#RAD --gpusx=1\n' | refused "standard input:1: unknown option" rad submit
	refused "nothing to run" rad submit --gpus 1 </dev/null
	refused "nothing to run" rad submit -- </dev/null
	head -c 1100000 /dev/zero | tr '\0' x | refused "standard input: larger than" rad submit
}

@test "bad: missing, empty, binary, huge task files" {
	refused missing.rad rad submit missing.rad
	: >empty.rad
	refused empty.rad rad submit empty.rad
	head -c 1000 /bin/true >binary.rad
	refused binary.rad rad submit binary.rad
	head -c 3000000 /dev/zero | tr '\0' 'x' >huge.rad
	refused huge.rad rad submit huge.rad
	mkdir -p folder.rad
	refused folder.rad rad submit folder.rad
}

@test "bad: unknown key names line and the nearest" {
	printf 'name: x\ngpu_men: 12G\ntrue\n' >typo.rad
	refused "typo.rad:2" rad submit typo.rad
	run rad submit typo.rad
	[[ "$output" == *gpu_mem* ]]
}

@test "bad: numbers out of range" {
	refused "gpus" rad submit --gpus=-1 -- true
	refused "gpus" rad submit --gpus 65 -- true
	refused "gpu-mem" rad submit --gpu-mem=-1 -- true
	refused "gpu-mem" rad submit --gpu-mem 12Q -- true
	refused "time" rad submit --time soon -- true
	refused "array" rad submit --array 9-0 -- true
	printf 'gpus: many\ntrue\n' >many.rad
	refused "many.rad:1" rad submit many.rad
}

@test "bad: memory that no GPU has, more GPUs than there are" {
	refused "39" rad submit --gpu-mem 50G -- true
	refused "4" rad submit --gpus 5 -- true
}

@test "bad: folder, summary, log path that are not there" {
	refused "/nowhere" rad submit --chdir /nowhere -- true
	refused "/nowhere" rad submit --output /nowhere/log -- true
	refused "none.txt" rad submit --model none.txt -- true
	refused "is a folder" rad submit --output /tmp -- true
}

@test "bad: what is no capture, no summary, no optimizer, no precision" {
	echo hello >hello.txt
	cp "$BATS_TEST_DIRNAME/fuzz/corpus-capture/broken" broken.radcap
	for dry in "" --dry-run; do
		refused "hello.txt: not a capture file" rad submit $dry --capture hello.txt -- true
		refused "broken.radcap: capture file: " rad submit $dry --capture broken.radcap -- true
		refused "hello.txt:1: 'hello': begins no model summary" rad submit $dry --model hello.txt --batch-size 3 -- true
		refused "optimizer: 'adma' is none that is known: one of adam" rad submit $dry --optimizer adma -- true
		refused "precision: 'fast' is none that is known: one of fp32" rad submit $dry --precision fast -- true
	done
	printf 'optimizer: adma\ntrue\n' >adma.rad
	refused "optimizer: 'adma'" rad submit adma.rad
	run -2 rad estimate --optimizer adma --capture "$BATS_TEST_DIRNAME/fuzz/corpus-capture/max-split"
	one_line_error "optimizer: 'adma'"
}

@test "submit: a dry run reads the capture and the summary" {
	captures=$BATS_TEST_DIRNAME/fuzz/corpus-capture
	rad submit --dry-run --json --capture "$captures/max-split" -- true |
		jq -e '.fits_now and .estimate.estimator == "replay" and .estimate.claim_mib > 0 and (.gpus | length) == 4'
	rad submit --dry-run --json --model "$BATS_TEST_DIRNAME/summaries/vgg-torchsummary.txt" --batch-size 64 -- true |
		jq -e '.estimate.estimator == "gpumemnet"'
	rad submit --dry-run --json --gpu-mem 3G --capture "$captures/max-split" -- true | jq -e '.estimate.estimator == "declared"'
	rad queue --json | jq -e '.tasks | length == 0'
}

@test "bad: a conda environment, and no conda or no such environment" {
	printf 'env: torch\npython train.py\n' >env.rad
	CONDA_EXE= PATH=$(dirname "$(command -v rad)"):/usr/bin:/bin run rad submit env.rad
	[ "$status" -eq 1 ]
	one_line_error "CONDA_EXE, PATH"
	mkdir -p conda/bin conda/envs/torch
	printf '#!/bin/sh\n' >conda/bin/conda
	chmod +x conda/bin/conda
	CONDA_EXE=$PWD/conda/bin/conda rad submit --hold env.rad 2>noted
	[ ! -s noted ]
	CONDA_EXE=$PWD/conda/bin/conda rad submit --hold --env=torhc env.rad 2>noted
	grep -q "^rad: --env: there is no 'torhc' in $PWD/conda/envs" noted
	rad cancel --pending
}

@test "a Python script with #RAD lines: its neighbours, its name, its arguments; what was submitted is what runs" {
	mkdir -p "it's here"
	echo 'told = "neighbour"' >"it's here/helper.py"
	cat >"it's here/job.py" <<-'PY'
		#!/usr/bin/env python3
		#RAD --output=job.out
		import os, sys, helper, multiprocessing
		def double(x): return 2 * x
		if __name__ == "__main__":
		    print("first", helper.told, os.path.basename(__file__), sys.argv[1:], os.path.basename(sys.argv[0]), flush=True)
		    print(multiprocessing.get_context("spawn").Pool(1).map(double, [21]))
	PY
	chmod +x "it's here/job.py"
	local id
	id=$(rad submit --parsable --hold "it's here/job.py" 'a b' c)
	sed -i 's/"first"/"edited"/' "it's here/job.py"
	rad release "$id"
	timeout 200 rad wait "$id" || { cat job.out; false; }
	[ "$(cat job.out)" = "first neighbour job.py ['a b', 'c'] job.py
[42]" ]
}

@test "bad: dependency on a task that never was" {
	refused "9999" rad submit --dependency afterok:9999 -- true
	refused "dependency" rad submit --dependency afterwards:1 -- true
}

@test "bad: more memory than a GPU has, by update" {
	local id
	id=$(rad submit --parsable --hold -- true)
	run rad update "$id" --gpu-mem 50G
	[ "$status" -eq 2 ]
	one_line_error "50.0G of GPU memory wanted"
	rad update "$id" --gpu-mem 3G
	rad cancel "$id"
}

@test "bad: an array that has ended" {
	local id
	id=$(rad submit --parsable --array 0-1 -- true)
	rad wait "$id"
	run rad cancel "$id"
	[ "$status" -eq 1 ]
	one_line_error "task $id: all elements of this array have ended already"
}

@test "update by so much, as scontrol does it: each task's own limit" {
	local id array
	id=$(submit --hold --time 1h true)
	array=$(submit --hold --time 10 --array 0-1 true)
	rad update "$id" --time=+30
	[ "$(field "$id" .time_limit_s)" = 5400 ]
	rad update JobId="$id" TimeLimit=-1h
	[ "$(field "$id" .time_limit_s)" = 1800 ]
	rad cancel "${array}_0"
	[ "$(rad update "$id" "$array" time=+5 --json | jq -r '[.changed, .ids[]] | join(" ")')" = "2 $id $array" ]
	[ "$(field "$id" .time_limit_s) $(field "${array}_1" .time_limit_s)" = "2100 900" ]
	run -2 rad update "$id" "$array" --time=-15	# of one it would be more than all: nothing is changed
	one_line_error "task ${array}_1: its time limit is 900 s"
	[ "$(field "$id" .time_limit_s)" = 2100 ]
	rad update "$id" --time=unlimited
	run -1 rad update "$id" --time=+5
	one_line_error "task $id: has no time limit that could be changed by so much"
	run -1 rad update "${array}_0" --time=+5
	one_line_error "task ${array}_0"
	run -2 rad update "$id" --time=+soon
	run -1 rad update 99999 --time=+5
	rad cancel "$id" "$array"
}

@test "an element that is named beside its array is requeued once" {
	local id
	id=$(rad submit --parsable --array 0-1 -- true)
	rad wait "$id"
	for words in "${id}_1 $id" "$id ${id}_1" "${id}_1,$id" "${id}_0 ${id}_1 ${id}_[0-1] $id"; do
		# shellcheck disable=SC2086
		[ "$(rad requeue $words --json | jq -r '[.changed, .ids[]] | join(" ")')" = "2 $id" ]
		rad wait "$id"
	done
	[ "$(rad show "$id" --json | jq -c '[.tasks[].attempts | length]')" = "[5,5]" ]
}

@test "bad: update of nothing, of nonsense" {
	run rad update 1
	[ "$status" -eq 2 ]
	run rad update 1 color=red
	[ "$status" -eq 2 ]
	one_line_error "color=red"
	id=$(submit --hold true)
	run rad update --gpu-mem 12 "$id"
	[ "$status" -eq 2 ]
	one_line_error "write 12G for GiB"
	run -2 rad submit --gpu-mem 12 true
	one_line_error "--gpu-mem: '12': a number alone is MiB, and that is less than CUDA itself takes on a GPU: write 12G for GiB"
	printf 'gpu_mem: 12\ntrue\n' >small.rad
	run -2 rad submit small.rad
	one_line_error "small.rad:1: gpu"
	run -2 rad logs --tail 5 "$id"
	one_line_error "here it is --lines=N"
	rad cancel "$id"
	run rad update --gpu-mem lots 1
	[ "$status" -eq 2 ]
}

@test "drain all names what still runs, and when in local time; undrain all" {
	local id waits
	id=$(rad submit --parsable --gpu-mem 1G -- sleep 300)
	wait_state "$id" RUNNING
	run rad drain all --reason cleaning
	[ "$status" -eq 0 ]
	[ "$output" = "Drained GPU 0-3
GPU $(rad gpus --json | jq ".gpus[] | select(.tasks != []).index"): still running there: task $id" ]
	[ "$(rad gpus --json | jq '[.gpus[] | .drained] | all')" = true ]
	waits=$(rad submit --parsable -- true)
	[ "$(TZ=XYZ-3 rad why "$waits" | tr -s ' \n' ' ' | grep -o 'since [^)]*' | head -n 1)" \
		= "since $(TZ=XYZ-3 date -d "$(rad gpus --json | jq -r '.gpus[0].drain.since_time')" '+%Y-%m-%d %H:%M:%S')" ]
	rad cancel "$id" "$waits"
	rad undrain all
	[ "$(rad gpus --json | jq '[.gpus[] | .drained] | any')" = false ]
}

# A task that begins between the question which GPUs there are and the drain.
@test "drain names what runs there once it holds" {
	cat >between.py <<-'PY'
		import os, socket, struct, subprocess, sys
		def frame(f): head = f.read(4); return head and head + f.read(struct.unpack(">I", head)[0])
		here = socket.socket(socket.AF_UNIX); here.bind("between.sock"); here.listen()
		open("between.ready", "w").close()
		while True:
		    c = here.accept()[0]; f = c.makefile("rb")
		    d = socket.socket(socket.AF_UNIX); d.connect(sys.argv[1]); g = d.makefile("rb")
		    while asked := frame(f):
		        if b'"drain"' in asked and not os.path.exists("between.done"):
		            subprocess.run(["bash", "-c", sys.argv[2]], check=True); open("between.done", "w").close()
		        d.sendall(asked); c.sendall(frame(g))
	PY
	local before
	before=$(rad gpus --json | jq '[.gpus[].tasks[]] | length')
	[ "$before" = 0 ]
	python3 between.py "$RAD_SOCKET" 'rad submit --parsable --gpu-mem 1G -- sleep 300 >between.id
		until rad show --json "$(cat between.id)" | jq -e ".tasks[0].state == \"RUNNING\"" >between.state; do :; done' 3>&- &
	local proxy=$!
	wait_for 20 test -e between.ready
	RAD_SOCKET=$PWD/between.sock run rad drain all
	kill "$proxy"
	rad undrain all
	[ "$status" -eq 0 ]
	[ "${lines[1]}" = "GPU $(rad gpus --json | jq ".gpus[] | select(.tasks != []).index"): still running there: task $(cat between.id)" ]
	rad cancel "$(cat between.id)"
}

@test "drain takes a list as others do" {
	[ "$(rad drain 0,2 3)" = "Drained GPU 0,2,3" ]
	[ "$(rad gpus --json | jq -c '[.gpus[] | select(.drained).index]')" = "[0,2,3]" ]
	[ "$(rad undrain 2,3)" = "Undrained GPU 2,3" ]
	[ "$(rad undrain 3,0,1)" = $'Undrained GPU 0\nNot drained before: GPU 3,1' ]
	[ "$(rad undrain all)" = "Not drained before: GPU 0-3" ]
	[ "$(rad drain 1-3)" = "Drained GPU 1-3" ]	# as they are told
	[ "$(rad undrain 2,0-1,3)" = $'Undrained GPU 2,1,3\nNot drained before: GPU 0' ]
	[ "$(rad drain 01 00)" = "Drained GPU 1,0" ]
	[ "$(rad undrain 01,0)" = "Undrained GPU 1,0" ]
	[ "$(rad gpus --json | jq '[.gpus[] | .drained] | any')" = false ]
}

@test "bad: drain of a GPU that is not there" {
	run rad drain 17
	[ "$status" -eq 1 ]
	one_line_error "17"
	run --separate-stderr rad drain 1,17
	[ "$status" -eq 1 ]
	[ "$output" = "Drained GPU 1" ]
	[[ "$stderr" == "rad: "*"'17'"* ]]
	rad undrain all
}

# ---- hostile clients ----

@test "garbage on the socket: an answer or a closed door, and radd goes on" {
	run timeout 100 python3 - "$RAD_SOCKET" <<-'PY'
		import socket, struct, sys, os, json
		def talk(data):
		    s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(sys.argv[1])
		    try:
		        s.sendall(data); s.shutdown(socket.SHUT_WR)
		        got = b""
		        while True:
		            part = s.recv(65536)
		            if not part: return got
		            got += part
		    except (BrokenPipeError, ConnectionResetError):
		        return b""
		def frame(o):
		    b = json.dumps(o).encode(); return struct.pack(">I", len(b)) + b
		for data in [b"", b"\0", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, struct.pack(">I", 5) + b"hello", struct.pack(">I", 2) + b"[]",
		             struct.pack(">I", 1 << 31), struct.pack(">I", 1000) + b"{", os.urandom(5000), frame({}), frame({"v": 1}),
		             frame({"v": 1, "op": "nothing"}), frame({"v": 999, "op": "list"}), frame({"v": 1, "op": ["list"]}),
		             frame({"v": 1, "op": "show", "id": 12}), frame({"v": 1, "op": "submit"}), frame({"v": 1, "op": "submit", "spec": 3}),
		             frame({"v": 1, "op": "wait", "ids": [None]}), frame({"v": 1, "op": "acct", "from_ms": "x"}), frame({"v": 1, "op": "update", "id": "1", "priority": "x"})]:
		    got = talk(data)
		    if got:
		        (n,) = struct.unpack(">I", got[:4]); reply = json.loads(got[4:4 + n])
		        assert "error" in reply and reply["error"]["text"], reply
		deep = b"[" * 100000
		talk(struct.pack(">I", len(deep)) + deep)
		print("done")
	PY
	echo "$output"
	[ "$status" -eq 0 ]
	[ "${lines[-1]}" = done ]
	rad queue
}

@test "large requests: read beside the loop, in order with small ones; too many values are refused" {
	timeout 200 python3 - "$RAD_SOCKET" <<-'PY'
		import socket, struct, sys, json
		def frame(o):
		    b = o if isinstance(o, bytes) else json.dumps(o).encode(); return struct.pack(">I", len(b)) + b
		s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
		def reply():
		    got = b""
		    while len(got) < 4 or len(got) < 4 + struct.unpack(">I", got[:4])[0]:
		        n = 4 if len(got) < 4 else 4 + struct.unpack(">I", got[:4])[0]
		        part = s.recv(n - len(got))
		        assert part, "hung up"
		        got += part
		    return json.loads(got[4:])
		spec = {"argv": ["true"], "name": "large", "cwd": "/tmp", "hold": True, "output": "/dev/null", "model": "m" * (1 << 20)}
		large = frame({"v": 1, "op": "submit", "spec": spec, "environ": ["A=" + "x" * 100000] * 10})
		small = frame({"v": 1, "op": "status"})
		s.sendall(large + small + large + frame({"v": 1, "op": "acct", "from_ms": 0}) + small + frame({"v": 1, "op": "list"}) + small)
		kinds = [sorted(reply()) for _ in range(7)]
		assert ["id" in k for k in kinds] == [True, False, True, False, False, False, False], kinds
		assert ["placement" in k for k in kinds] == [False, True, False, False, True, False, True], kinds
		assert "totals" in kinds[3] and "tasks" in kinds[5], kinds
		s.sendall(frame(b'{"v":1,"op":"status","x":[' + b"[]," * 400000 + b"0]}"))
		assert "values" in reply()["error"]["text"]
		assert s.recv(1) == b""
		gone = socket.socket(socket.AF_UNIX); gone.connect(sys.argv[1]); gone.sendall(large); gone.close()
	PY
	rad queue >/dev/null
	rad cancel --all
}

@test "what is sent behind a wait is answered once it is on disk" {
	local id
	id=$(rad submit --parsable --hold -- true)
	rad cancel "$id"
	timeout 200 python3 - "$RAD_SOCKET" "$WORLD/state/rad.db" "$id" <<-'PY'
		import socket, struct, sys, json, sqlite3
		def frame(o):
		    b = json.dumps(o).encode(); return struct.pack(">I", len(b)) + b
		s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile("rb")
		def reply(): return json.loads(f.read(struct.unpack(">I", f.read(4))[0]))
		db = sqlite3.connect("file:" + sys.argv[2] + "?mode=ro", uri=True)
		spec = {"argv": ["true"], "name": "behind", "cwd": "/tmp", "hold": True, "output": "/dev/null"}
		for _ in range(20):
		    s.sendall(frame({"v": 1, "op": "wait", "ids": [sys.argv[3]]}) + frame({"v": 1, "op": "submit", "spec": spec, "environ": []}))
		    assert reply()["tasks"]
		    job = reply()["id"]
		    assert db.execute("SELECT count(*) FROM jobs WHERE job = ?", (job,)).fetchone() == (1,), job + " is not there"
	PY
	rad cancel --all
}

@test "a slow client and one that never reads hold nobody up" {
	timeout 300 python3 - "$RAD_SOCKET" <<-'PY' 3>&- 4>&- &
		import socket, struct, sys, json, signal
		slow = socket.socket(socket.AF_UNIX); slow.connect(sys.argv[1]); slow.sendall(b"\0")
		deaf = socket.socket(socket.AF_UNIX); deaf.connect(sys.argv[1]); deaf.setblocking(False)
		b = json.dumps({"v": 1, "op": "gpus"}).encode()
		try:
		    for _ in range(200): deaf.sendall((struct.pack(">I", len(b)) + b) * 50)
		except (BlockingIOError, BrokenPipeError): pass
		open("connected", "w").close()
		signal.pause()
	PY
	local hostile=$!
	wait_for 20 test -e connected
	for _ in 1 2 3 4 5; do timeout 50 rad queue >/dev/null; done
	kill "$hostile"		# it is there yet
}

@test "100 clients at once: each task accepted once" {
	local i
	for i in $(seq 100); do
		rad submit --parsable --hold --name crowd -- true >"crowd.$i" 2>&1 &
	done
	wait
	[ "$(cat crowd.* | sort -un | wc -l)" -eq 100 ]
	[ "$(rad queue --json -t H | jq '[.tasks[] | select(.name == "crowd")] | length')" -eq 100 ]
	rad cancel --pending >/dev/null
	[ "$(rad queue --json -t H | jq '.tasks | length')" -eq 0 ]
}

@test "text that turns the direction of what follows does not reach the terminal" {
	local id turned=$'safe\u202egpj.exe\u2066'
	id=$(rad submit --parsable --hold --name "$turned" -- echo "$turned")
	rad update "$id" --name "$turned$turned"
	rad cancel "$turned" >said 2>&1 || :
	{ rad show "$id"; rad queue; rad show --events "$id"; rad top --once || :; rad why "$id"; } >>said 2>&1
	grep -q 'safe?gpj.exe?' said
	! grep -q -e $'\u202e' -e $'\u2066' said || false
	[ "$(rad show --json "$id" | jq -r '.tasks[0].name')" = "$turned$turned" ]	# data is as it is
	rad cancel "$id"
}

@test "an error that quotes a path holds nothing that a terminal obeys" {
	local id folder=$'to\e[31m\xc2\x9b31m'
	mkdir "$folder"
	id=$(cd "$folder" && rad submit --parsable -- true)
	rad wait "$id"
	rm "$folder/rad-$id.out"
	run -1 rad logs "$id"
	[[ "$output" == *"to [31m 31m/rad-$id.out is not there"* ]]
}
