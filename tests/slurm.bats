#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What people who know Slurm type: dependencies, times to begin, environments, scripts of sbatch, listings.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	printf 'host_cpus: 8\n' >>"$RAD_CONFIG"	# also where there is one
	start_radd
}

teardown_file() { end_world; }

setup() { cd "$WORLD/work"; }

# ---- dependencies ----

@test "wait: a task whose dependency can no longer be met is waited for in vain: 125, and why" {
	a=$(submit -- false)
	rad wait "$a" || :
	b=$(submit --dependency=afterok:"$a" -- true)
	run timeout 100 rad wait "$b"
	[ "$status" -eq 125 ]
	one_line_error "task $b: is PENDING and will not run: afterok:$a can no longer be met"
	# one that waits for that one, and an array
	c=$(submit --dependency=afterok:"$b" --array=0-2 -- true)
	run timeout 100 rad wait "$c"
	[ "$status" -eq 125 ]
	one_line_error "task $c: is PENDING"
	# what is known at submission is said there, and nowhere but on standard error
	run --separate-stderr rad submit --parsable --dependency=afterok:"$a" -- true
	[ "$status" -eq 0 ]
	[[ "$output" =~ ^[0-9]+$ ]]
	[ "$stderr" = "rad: task $output: is PENDING and will not run: afterok:$a can no longer be met: cancel it, or requeue that one" ]
	run --separate-stderr rad submit --json --dependency=afterok:"$b" --array=0-2 -- true
	[ "$(jq -r .tasks <<<"$output")" = 3 ]
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ "$stderr" == "rad: task $(jq -r .id <<<"$output"): is PENDING and will not run: "* ]]
	run rad submit --dependency=afternotok:"$a" -- true
	[[ "$output" != *"will not run"* ]]
	run timeout 100 rad run --dependency=afterok:"$a" true
	[ "$status" -eq 125 ]
	run timeout 100 rad submit --wait --dependency=afterok:"$a" true
	[ "$status" -eq 125 ]
	rad cancel --pending >/dev/null
}

@test "wait: it is over when what it hopes for fails meanwhile; a requeue gives hope again" {
	a=$(submit -- bash -c "$(until_file go-vain); [ -e go-well ]")
	b=$(submit --dependency=afterok:"$a" -- true)
	timeout 100 rad wait "$b" 2>err &
	waiter=$!
	touch go-vain
	rc=0
	wait $waiter || rc=$?
	[ "$rc" -eq 125 ]
	touch go-well
	rad requeue "$a"
	timeout 100 rad wait "$b"
	[ "$(state "$b")" = COMPLETED ]
}

# ---- scripts of sbatch ----

@test "#SBATCH lines: what has a meaning here is obeyed, what has none is told, what cannot be is refused" {
	cat >job.sh <<'END'
#!/bin/bash
#SBATCH --job-name=from-slurm
#SBATCH -p gpu --account proj
#SBATCH --gres=gpu:1 -t 10:00   # ten minutes
#SBATCH --nodes=1
#SBATCH -o slurm-%j.out
#SBATCH --time=20:00
#SBATCH --array=0-1
#SBATCH --wait
echo "index $RAD_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_ID"
#SBATCH --gres=gpu:4
END
	run --separate-stderr rad submit --parsable --array=3 job.sh
	[ "$status" -eq 0 ]
	id=$output
	[[ "$stderr" == *"mean nothing here, and are passed over: -p (line 3), --account (line 3), --wait (line 9)"* ]]
	[[ "$stderr" == *"line 11: a #SBATCH line behind the first command is not read"* ]]
	[[ "$stderr" == *"line 10: Slurm's variables are not set here"* ]]
	rad wait "$id"
	[ "$(field "${id}_3" '| [.name, .gpus_requested, .time_limit_s] | join(" ")')" = "from-slurm 1 1200" ]
	[ "$(cat "slurm-${id}_3.out")" = "index 3 of " ]
	printf '#!/bin/bash\n#SBATCH -N 2\ntrue\n' >nodes.sh
	run rad submit nodes.sh
	[ "$status" -eq 2 ]
	one_line_error "nodes.sh:2: #SBATCH asks for 2 nodes"
	printf '#!/bin/bash\n#SBATCH --time=never\ntrue\n' >time.sh
	run rad submit time.sh
	[ "$status" -eq 2 ]
	one_line_error "time.sh:2: time:"
	printf '#!/bin/bash\n#SBATCH --time\ntrue\n' >time.sh
	run rad submit time.sh
	one_line_error "time.sh:2: '--time' needs a value"
	printf '#!/bin/bash\n#SBATCH --gpus-per-node=2\nsrun python train.py\n' >srun.sh
	run --separate-stderr rad submit --dry-run srun.sh
	[[ "$stderr" == *"line 3: srun is Slurm's"* ]]
}

# What of this #SBATCH line a task has: spec_of "OPTIONS" FILTER.
spec_of()
{
	printf '#!/bin/bash\n#SBATCH %s\ntrue\n' "$1" >spec.sh
	local id
	id=$(rad submit --parsable --hold spec.sh 2>spec.err) || { cat spec.err; return 1; }
	field "$id" "$2"
	rad cancel "$id" >/dev/null
}

@test "#SBATCH: every option of sbatch is obeyed, passed over with a word, or refused; sums are those of all tasks" {
	[ "$(spec_of '--gpus-per-node=2' .gpus_requested)" = 2 ]
	[ "$(spec_of '-G a100:3' .gpus_requested)" = 3 ]
	[ "$(spec_of '--gres gpu:a100:2' .gpus_requested)" = 2 ]
	[ "$(spec_of '-n2 --gpus-per-task=1' .gpus_requested)" = 2 ]
	[ "$(spec_of '-n 2 -c1 --mem-per-cpu=100M' '|"\(.cpus) \(.host_mem_mib)"')" = "2 200" ]
	[ "$(spec_of '--gpus=2 --mem-per-gpu=200M --cpus-per-gpu=1' '|"\(.cpus) \(.host_mem_mib)"')" = "2 400" ]
	[ "$(spec_of '--time=1-02:30' .time_limit_s)" = 95400 ]
	[ "$(spec_of '--time=2:30' .time_limit_s)" = 150 ]
	[ "$(spec_of '--array=1-10:3%2' .id)" != "" ]
	[ "$(spec_of '--job-na=short --mail-type=END,FAIL --mail-user=ada@example.org' .name)" = short ]
	[[ "$(spec_of "-o $WORLD/work/%x-%N.out --job-name=where" .log_path)" == "$WORLD/work/where-$(uname -n | cut -d. -f1).out" ]]
	[[ "$(spec_of '-o log-%04j.out' .log_path)" =~ log-[0-9]{4}.out$ ]]
	# each row of sbatch's: none is unknown, none ends in anything but a task or one line
	for option in --account=x -A=x --acctg-freq=1 --batch=x --bb=x --bbf=x --cluster-constraint=x -M=x --comment=x --contiguous -S=1 \
		--cores-per-socket=1 --cpu-freq=low --deadline=now --delay-boot=1 -m=block -x=n1 -B=1 --get-user-env --gpu-bind=none \
		--gpu-freq=low --gres-flags=x --hint=x --ignore-pbs -L=x --mcs-label=x --mem-bind=none --network=x -k \
		-F=x -w=n1 --ntasks-per-core=1 --ntasks-per-gpu=1 --ntasks-per-socket=1 -O -s --parsable -p=x --power=x \
		--prefer=x --profile=all --propagate -q=x -Q --reboot --reservation=x --sockets-per-node=1 --spread-job --switches=1 \
		--thread-spec=1 --threads-per-core=1 --time-min=1 --tmp=1G --use-min-nodes -v -W --wait-all-nodes=1 --wckey=x --exclusive=user; do
		printf '#!/bin/bash\n#SBATCH %s\ntrue\n' "$option" >one.sh
		run --separate-stderr rad submit --dry-run one.sh
		[ "$status" -eq 0 ] || { echo "$option: $stderr"; false; }
		[[ "$stderr" == *"mean nothing here, and are passed over: "*"(line 2)"* ]] || { echo "$option: $stderr"; false; }
	done
	for option in --container=x --export-file=x --gid=1 --gpus-per-socket=1 --input=x --test-only --tres-per-task=x --uid=1 --wrap=x -N2; do
		printf '#!/bin/bash\n#SBATCH %s\ntrue\n' "$option" >one.sh
		run rad submit one.sh
		[ "$status" -eq 2 ]
		one_line_error "one.sh:2: "
	done
	printf '#!/bin/bash\n#SBATCH --grse=gpu:2\ntrue\n' >one.sh
	run rad submit one.sh
	one_line_error "did you mean '--gres'"
}

@test "sbatch's options on the command line: those that have a meaning have it, the others say that they have none" {
	id=$(submit --hold --gpus-per-node a100:2 --mail-type=END --mail-user=ada@example.org true)
	[ "$(field "$id" .gpus_requested)" = 2 ]
	rad cancel "$id"
	run --separate-stderr rad submit --test-only true
	[ "$status" -eq 0 ]
	[ "$(rad queue --me --json | jq '.tasks | length')" = 0 ]
	run rad submit -p gpu true
	[ "$status" -eq 2 ]
	one_line_error "--partition is sbatch's, and means nothing here"
	run -0 rad submit --gpus=1 -N1 -n1 --nodes=1-1 --ntasks 1 --dry-run true
	run -2 rad submit --gpus=1 --nodes=2 true
	one_line_error "this is one machine"
	run -2 rad submit --ntasks=2 true
	one_line_error "is started once"
	run rad submit --container=x true
	one_line_error "start the container in the script"
	echo before >log
	rad run --open-mode=append -o log echo after
	[ "$(cat log)" = $'before\nafter' ]
	for option in -p --account -q; do
		run -2 rad queue $option gpu
		one_line_error "there are no partitions, accounts or QOS here"
	done
	run -2 rad cancel -p gpu
	one_line_error "there are no partitions, accounts or QOS here"
	for option in -N -s "-p gpu" --partition=gpu; do
		run -2 rad gpus $option
		one_line_error "this is one machine, without nodes and partitions: 'rad gpus' alone"
	done
	run -2 rad submit --open-mode=new true
	one_line_error "expected append or truncate"
}

@test "--open-mode=truncate empties the log once, also from a script; a later run appends" {
	echo before >log
	id=$(submit --open-mode=truncate -o log -- echo one)
	rad wait "$id"
	[ "$(cat log)" = one ]
	rad requeue "$id"
	rad wait "$id"
	[ "$(cat log)" = $'one\none' ]
	printf '#!/bin/bash\n#SBATCH --open-mode=truncate -o log -e errors\necho two; echo bad >&2\n' >again.sh
	echo before >errors
	run --separate-stderr submit again.sh
	[ -z "$stderr" ]
	rad wait "$output"
	[ "$(cat log errors)" = $'two\nbad' ]
}

@test "cancel --signal: to who handles it; nobody else ends of it" {
	id=$(submit -- bash -c 'trap "echo got it" USR1; sleep 300 & echo ready; while :; do wait; done')
	other=$(submit -- sleep 300)
	waits=$(submit --hold -- true)
	wait_for 15 grep -q ready "rad-$id.out"
	wait_state "$other" RUNNING
	rad cancel -s USR1 "$id"
	wait_for 15 grep -q 'got it' "rad-$id.out"
	run -1 rad cancel --signal=SIGUSR1 "$other"
	one_line_error "none of its processes has a handler for SIGUSR1, which was not sent"
	run -1 rad cancel -f -s 10 "$waits"
	one_line_error "is HELD: signals are for tasks that run"
	[ "$(rad cancel --me -s usr1 -t R)" = "Signalled 1 task" ]
	run -2 rad cancel -s STOP "$id"
	one_line_error "'rad suspend' does that"
	run -2 rad cancel -s GIT "$id"
	one_line_error "'GIT' names no signal"
	run -2 rad cancel --batch -s USR1 "$id"
	one_line_error "--batch"
	[ "$(state "$id") $(state "$other") $(state "$waits")" = "RUNNING RUNNING HELD" ]
	run -124 rad wait --timeout 1 "$id"
	one_line_error "not all have ended in that time"
	run -125 rad wait --timeout soon "$id"
	one_line_error "'soon': expected 1 to 31622400 seconds"
	rad cancel -s KILL "$id" "$other" "$waits"
	run -143 rad wait --timeout 30 "$id" "$other"
	[ "$(state "$id")" = CANCELLED ]
}

@test "a log of that name from elsewhere stays, and a line says where this task begins" {
	local next
	next=$(($(submit --hold true) + 1))
	echo "of another machine" >"rad-$next.out"
	id=$(submit -- echo mine)
	[ "$id" = "$next" ]
	rad wait "$id"
	run cat "rad-$id.out"
	[ "${lines[0]}" = "of another machine" ]
	[[ "${lines[1]}" == "--- rad: task $id of $(id -un) on $(uname -n) begins here, 20"* ]]
	[ "${lines[2]}" = mine ]
	rad requeue "$id"	# below its own there is no such line
	rad wait "$id"
	[ "$(tail -n 2 "rad-$id.out")" = $'mine\nmine' ]
	rad cancel --pending
}

@test "--wrap: a line of shell; --export: all, none, some" {
	export FROM_HERE=1 OTHER=2
	id=$(submit --wrap 'echo "$FROM_HERE-$OTHER-$SEED"; false; echo done')
	rad wait "$id"
	[ "$(cat "rad-$id.out")" = "1-2-
done" ]
	[ "$(field "$id" .name)" = wrap ]
	id=$(submit --export=NONE --wrap 'echo "$FROM_HERE-$OTHER-$HOME-$PATH-$RAD_TASK_ID"')
	rad wait "$id"
	[ "$(cat "rad-$id.out")" = "--$HOME-/usr/local/bin:/usr/bin:/bin-$id" ]
	id=$(submit --export=OTHER,SEED=3,'LIST="a,b"',NOT_SET --wrap 'echo "$FROM_HERE-$OTHER-$SEED-$LIST"')
	rad wait "$id"
	[ "$(cat "rad-$id.out")" = "-2-3-a,b" ]
	id=$(submit --export=ALL,OTHER=9 --wrap 'echo "$FROM_HERE-$OTHER"')
	rad wait "$id"
	[ "$(cat "rad-$id.out")" = "1-9" ]
	printf '#!/bin/bash\n#SBATCH --export=NONE\necho "x$OTHER"\n' >export.sh
	id=$(submit export.sh)
	rad wait "$id"
	[ "$(cat "rad-$id.out")" = x ]
	for bad in 'A-B' '=3' '1A=2' 'RAD_TASK_ID=7'; do
		run rad submit --export="$bad" true
		[ "$status" -ne 0 ]
		one_line_error "--export"
	done
	run rad submit --wrap 'true' ls
	[ "$status" -eq 2 ]
	one_line_error "leave out 'ls'"
	run rad submit --wrap ' '
	[ "$status" -eq 2 ]
}

@test "after: when the other one has started; aftercorr: element by element; singleton: one of a name at a time" {
	a=$(submit -- bash -c "$(until_file end-a)")
	b=$(submit --dependency=after:"$a" -- true)
	rad wait "$b"
	[ "$(state "$a")" = RUNNING ]
	arr=$(submit --array=0-1 -- bash -c '[ $RAD_ARRAY_TASK_ID = 0 ] || exit 3')
	corr=$(submit --array=0-1 --dependency=aftercorr:"$arr" -- true)
	rc=0
	timeout 100 rad wait "$corr" 2>/dev/null || rc=$?
	[ "$rc" -eq 125 ]
	[ "$(state "${corr}_0") $(state "${corr}_1")" = "COMPLETED PENDING" ]
	rad cancel "$corr"
	run rad submit --dependency=aftercorr:"$arr" true
	one_line_error "is between the elements of two arrays"
	run rad submit --array=0-5 --dependency=aftercorr:"$arr" true
	one_line_error "no array with the indices of this one"
	one=$(submit --name single --dependency=singleton -- bash -c "$(until_file end-one)")
	two=$(submit --name single --dependency=singleton -- true)
	other=$(submit --name another --dependency=singleton -- true)
	rad wait "$other"
	[ "$(state "$two")" = PENDING ]
	touch end-one end-a
	rad wait "$two" "$one" "$a"
}

@test "begin: at its time and not before, also over a restart; bad times are refused" {
	a=$(submit --begin=now+1hour -- true)
	[ "$(field "$a" .reason)" = BeginTime ]
	run rad show "$a"
	[[ "$output" == *begins* ]]
	rad queue --start --json | jq -e --arg a "$a" '.starts[] | select(.id == $a) | .source == "begin" and .in_s > 3300 and .in_s <= 3600'
	rad queue --start | grep -q 'no sooner'
	# In the zone of who asks, as every other time on the screen.
	TZ=XYZ-5 rad why "$a" | grep -q "begins at $(TZ=XYZ-5 date -d "$(field "$a" .begin_time)" '+%F %T'), as it asks"
	b=$(submit --begin=now+8 -- true)
	[ "$(state "$b")" = PENDING ]
	kill_radd
	start_radd
	[ "$(field "$a" .reason)" = BeginTime ]
	timeout 100 rad wait "$b"
	rad show --json "$b" | jq -e '.tasks[0] | .held_s > 0 and .start_time >= .begin_time'
	rad cancel "$a"
	run rad submit --begin=soon true
	[ "$status" -eq 2 ]
	one_line_error "--begin: 'soon': expected now+2h"
	run rad submit --begin=2099-01-01 true
	one_line_error "more than ten years ahead"
	[ "$(field "$(submit --begin=2020-02-29 -- true)" .begin_time)" = null ]
}

@test "run --array: whose output is shown is said; the code is that of the first that failed" {
	run --separate-stderr rad run --array=4-6 -- bash -c 'echo "I am $RAD_ARRAY_TASK_ID"; exit $((RAD_ARRAY_TASK_ID - 4))'
	[ "$status" -eq 1 ]
	[ "$output" = "I am 4" ]
	[[ "$stderr" == *"is an array of 3: the output of "*"_4 is shown"* ]]
}

# ---- looking ----

@test "show --script: what was submitted, to its owner; of a command, words that a shell takes back" {
	printf '#!/bin/bash\n#RAD --gpus=1\necho "what I wrote"\n' >mine.sh
	id=$(submit --array=0-1 mine.sh)
	cp mine.sh was.sh
	echo 'echo later' >>mine.sh
	rad wait "$id"
	rad show --script "$id" | cmp - was.sh
	rad show --script "${id}_1" | cmp - was.sh
	id=$(submit -- bash -c 'echo "it'\''s $0"' 'a b')
	rad wait "$id"
	[ "$(rad show "$id" | sed -n 's/^ *command  //p')" = "$(rad show --script "$id")" ]
	eval "set -- $(rad show --script "$id")"
	[ "$#" -eq 4 ]
	[ "$3" = 'echo "it'\''s $0"' ]
	[ "$4" = "a b" ]
	if [ "$(id -u)" = 0 ]; then
		chmod 755 "$WORLD"
		run setpriv --reuid=65534 --regid=65534 --clear-groups rad show --script "$id"
		[ "$status" -eq 1 ]
		one_line_error "belongs to"
	fi
	run rad show --script 9999
	[ "$status" -eq 1 ]
}

@test "report: text that turns the direction of what follows is not in the page" {
	turned=$'safe\u202egpj.exe\u2066'
	id=$(submit --name "$turned" -- true)
	rad wait "$id"
	rad report -o turned.html >/dev/null
	grep -q 'safe?gpj.exe?' turned.html
	! grep -q -e $'\u202e' -e $'\u2066' turned.html || false
}

@test "queue --format: squeue's language; what stands for nothing is refused" {
	id=$(submit --array=3-4 --hold --time=10 --name 'größer als acht' -- true)
	run rad queue --me -t H -o '%.7i|%4j|%t|%T|%l|%b|%R|%%' "$id"
	[ "${lines[0]}" = "  JOBID|NAME|ST|STATE|TIME_LIMIT|TRES_PER_NODE|GPU(REASON)|%" ]
	[ "${lines[1]}" = "$(printf '%7s' "${id}_3")|größ|H|HELD|10:00|gpu:1|(Held)|%" ]
	[ "${#lines[@]}" -eq 3 ]
	[ "$(rad queue --noheader --format=%F-%K "${id}_4")" = "$id-4" ]
	for bad in %y %.999999i % %5; do
		run rad queue -o "$bad"
		[ "$status" -eq 2 ]
		one_line_error "stands for nothing"
	done
	rad cancel "$id"
}

@test "queue: what squeue's users type; what there is not is said, with what there is" {
	id=$(submit --array=3-6 --hold --priority=-2 --name habit -- true)
	other=$(submit --hold --name other -- true)
	[ "$(rad queue -h -o '%.18i %.9P %.8j %.2t %R' "$other")" = "$(printf '%18s %9s %8s %2s %s' "$other" N/A other H '(Held)')" ]
	[ "$(rad queue -h -j "${id}_[4-5],$other" -o %i | tr '\n' ' ')" = "${id}_4 ${id}_5 $other " ]
	[ "$(rad queue -h -S -i -o %i "${id}_[3-4]" "$other" | tr '\n' ' ')" = "$other ${id}_4 ${id}_3 " ]
	[ "$(rad queue --noheader --sort=Priority,-JobID -o %i -n 'habit,nothing' | head -1)" = "${id}_6" ]
	[ "$(rad queue -h -n other,nothing -o %j)" = other ]
	[ "$(rad queue -h -n habit,other | wc -l) $(rad queue -h -r -n habit,other | wc -l)" = "2 5" ]
	[ "$(rad queue -P -h --Format=jobid,statecompact "$other")" = "$other|H" ]
	[ "$(rad queue -u "$(id -un),$(id -un)" -h -o %i -t H "$other")" = "$other" ]
	run rad queue -l
	[[ "${lines[0]}" == *"JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES GPU(REASON)" ]]
	[ "$(rad queue --json --sort=-JobID | jq -r '.tasks[0].id')" = "$other" ]
	# ended ones stand among the others by their ids
	a=$(submit true)
	rad wait "$a"
	rad queue -h -t all -o %A | sort -nc
	run rad queue -o JobId,Elasped
	[ "$status" -eq 2 ]
	one_line_error "did you mean 'Elapsed'? There are: JobID"
	run rad queue -t S
	one_line_error "suspended are R"
	run rad queue -t CG
	one_line_error "no task is ever in that state here"
	run rad queue --partition=gpu
	one_line_error "there are no partitions, accounts or QOS here"
	run rad queue --sort=nonsense
	[ "$status" -eq 2 ]
	run rad squeue
	[ "$status" -eq 2 ]
	one_line_error "here it is rad queue"
	rad cancel "$id" "$other"
}

@test "acct: sacct's columns, jobs, states and times" {
	a=$(submit --name good --time=1:00:00 --mem=100M -- true)
	b=$(submit --name bad -- false)
	c=$(submit --hold --name later -- true)
	rad wait "$a" "$b" || :
	run rad acct --format=JobID,JobName%6,State,ExitCode,Timelimit,ReqMem,Partition -j "$a,$b"
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "       JobID JobNam      State ExitCode  Timelimit     ReqMem  Partition " ]
	[ "${lines[1]}" = "------------ ------ ---------- -------- ---------- ---------- ---------- " ]
	[ "${lines[2]}" = "$(printf '%12s   good  COMPLETED      0:0   01:00:00       100M            ' "$a")" ]
	[ "${lines[3]}" = "$(printf '%12s    bad     FAILED      1:0  UNLIMITED                       ' "$b")" ]
	[ "$(rad acct -nPX -o jobid,state "$b")" = "$b|FAILED" ]
	[ "$(rad acct -n -p --delimiter=';' -o jobid,state -s F --name 'b?d')" = "$b;FAILED;" ]
	[ "$(rad acct --me -nP -o state -S now-1hour -E now+1hour --name good,bad | sort | tr '\n' ' ')" = "COMPLETED FAILED " ]
	[ -z "$(rad acct -nP -o state -S now-3days -E now-2days --name good)" ]
	# by its id, a task is told whatever its state
	[ "$(rad acct -nP -o state,exitcode "$c")" = "HELD|" ]
	[ "$(rad acct -b -n "$a")" = "$(printf '%12s     COMPLETED      0:0 ' "$a")" ]
	rad acct --json -j "$a" | jq -e '.tasks | length == 1'
	rad acct -e | grep -q '^JobID '
	for option in -A -r --qos; do
		run -2 rad acct $option gpu
		one_line_error "there are no partitions, accounts or QOS here"
	done
	run -2 rad acct -l
	one_line_error "--format=FIELDS, which --helpformat lists"
	for word in "wait_job|rad wait ID" "users|rad limit" "reservations|rad reserve" "sview|rad top" "-v|rad version" \
		"salloc|rad run --pty bash" "qstat|rad queue" "bsub|rad submit" "qdel|rad cancel"; do
		run -2 rad "${word%|*}"
		one_line_error "here it is ${word#*|}"
	done
	run rad acct -s R
	[ "$status" -eq 2 ]
	one_line_error "rad queue -t R lists those that have not"
	run rad acct --format=Stat
	one_line_error "did you mean 'State'?"
	run rad acct --by user -j "$a"
	[ "$status" -eq 2 ]
	run rad acct -S whenever
	one_line_error "expected 7d"
	rad cancel "$c"
}

@test "show, update, hold, release: scontrol's spelling" {
	id=$(submit --hold -- true)
	[[ "$(rad show job "$id")" == "Task $id  HELD"* ]]
	[[ "$(rad show JobId="$id")" == "Task $id  HELD"* ]]
	rad update JobId="$id" TimeLimit=1-02:00:00 Priority=-4 JobName=renamed
	[ "$(field "$id" '|"\(.time_limit_s) \(.priority) \(.name)"')" = "93600 -4 renamed" ]
	rad update job "$id" NumGPUs=2 MinMemoryNode=2G
	[ "$(field "$id" '|"\(.gpus_requested) \(.host_mem_mib)"')" = "2 2048" ]
	run -2 rad update job "$id" NumCPUs=2
	one_line_error "cancel it and submit it anew"
	for option in --slot=2h "--output x" --cpus-per-task=2; do
		run -2 rad update "$id" $option
		one_line_error "'${option%% *}': cannot be changed of a task that is there: cancel it and submit it anew"
	done
	rad update "$id" --job-name=again
	[ "$(field "$id" .name)" = again ]
	run rad update "$id" Partition=x
	one_line_error "expected priority, time"
	rad release job "$id"
	rad wait "$id"
	run rad show partition
	[ "$status" -eq 2 ]
	one_line_error "rad gpus"
	run rad scontrol show job 1
	[ "$status" -eq 2 ]
	one_line_error "here it is rad show, update"
}

# ---- suspend and resume ----

# Whether every process of the task but its shim is stopped.
stopped()
{
	local pid n=0
	for pid in $(pgrep -f "$WORLD/work/tick-$1"); do
		grep -q '^State:.T' "/proc/$pid/status" || return 1
		n=$((n + 1))
	done
	[ $n -gt 0 ]
}

@test "suspend: every process stops, what it holds stays, its limit stands still; resume; also over a restart" {
	printf 'i=0; while [ ! -e tick-end ]; do i=$((i+1)); echo $i >tick-count; sleep 0.1; done\n' >tick-a
	id=$(submit --gpu-mem 3G --time=1h -- bash "$WORLD/work/tick-a")
	wait_for 10 test -s tick-count
	wait_for 10 rad suspend "$id"
	wait_for 5 stopped a
	[ "$(field "$id" '| .state + .reason')" = RUNNINGSuspended ]
	ran=$(field "$id" '.run_s | ceil')
	rad update "$id" --time="$((ran + 3))s"
	run rad queue
	[[ "$output" == *"(Suspended)"* ]]
	[ "$(rad gpus --json | jq '[.gpus[].mem_held_mib] | add')" -ge 3072 ]
	run rad suspend "$id"
	one_line_error "is suspended already"
	kill_radd
	start_radd
	[ "$(field "$id" .reason)" = Suspended ]
	count=$(cat tick-count)
	read -r -t 5 <> <(:) || :	# longer than what is left of its limit
	[ "$(cat tick-count)" = "$count" ]
	[ "$(state "$id")" = RUNNING ]
	rad resume "$id"
	wait_for 5 sh -c "[ \$(cat tick-count) -gt $count ]"
	run rad resume "$id"
	one_line_error "is not suspended"
	wait_state "$id" TIMEOUT 20	# what was left of its limit counts
	rad show --json "$id" | jq -e --argjson ran "$ran" '.tasks[0] | .suspended_s > 5 and .run_s > $ran + 2 and .run_s < $ran + 30 and
		(.jct_s - .wait_s - .held_s - .run_s - .suspended_s | fabs) < 0.005'
	[ "$(rad show --events --json "$id" | jq -r '[.events[].event] | map(select(. == "suspended" or . == "resumed")) | join(" ")')" = "suspended resumed" ]
}

@test "suspend: a task that is cancelled meanwhile ends as others do; one that waits cannot be suspended" {
	printf 'trap "echo bye >tick-bye; exit 3" TERM; : >tick-on; while :; do sleep 0.1; done\n' >tick-b
	id=$(submit -- bash "$WORLD/work/tick-b")
	wait_for 10 test -e tick-on
	wait_for 10 rad suspend "$id"
	wait_for 5 stopped b
	rad cancel "$id"
	wait_state "$id" CANCELLED 15
	[ "$(cat tick-bye)" = bye ]
	id=$(submit --hold true)
	run rad suspend "$id"
	[ "$status" -eq 1 ]
	one_line_error "is HELD, so it cannot be suspended"
	rad cancel "$id"
}
