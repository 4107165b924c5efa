#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rad submit --radt: experiment files of radT as tasks. Its own example files are the first test's, by their columns.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	DEVICES='sim:2xa100-40g,1xa100-40g/mig=3g.20gb+3g.20gb' start_radd
}

teardown_file() { end_world; }

# A python that says what it was given: no test needs another.
setup()
{
	cd "$WORLD/work"
	mkdir -p bin net
	printf '#!/bin/sh\necho "$PWD|$*|$MLFLOW_EXPERIMENT_ID"\n' >bin/python
	chmod +x bin/python
	PATH=$WORLD/work/bin:$PATH
	echo 'print(1)' >net/cifar10.py
}

# csv LINE...: exp.csv
csv() { printf '%s\n' "$@" >exp.csv; }
HEAD=Experiment,Workload,Name,Status,Run,Devices,Collocation,File,Listeners,Params

@test "the columns: who runs with whom, how, and what" {
	csv "$HEAD" \
		'4,1,no sharing,,,0,-,net/cifar10.py,smi+top,--batch-size 128 --lr 0.01' \
		'4,2,shared gpu 1,,,0,-,net/cifar10.py,smi+top,--batch-size 128' \
		'4,2,shared gpu 2,,,0,-,net/cifar10.py,smi+top,--batch-size 128' \
		'4,3,MPS 1,,,0,MPS,net/cifar10.py,smi+top,-e 1' \
		'4,3,MPS 2,,,0,MPS,net/cifar10.py,smi+top,' \
		'4,4,MIG,,,2,3g.20gb,net/cifar10.py,smi+top,' \
		'4,4,both,,,0+1,-,net/cifar10.py,dcgmi,"--list 1,2"'
	run -0 --separate-stderr rad submit --hold --parsable --radt exp.csv
	local ids=("${lines[@]}")
	[ "${#ids[@]}" -eq 7 ]
	[ "$stderr" = "rad: exp.csv: column Listeners: none is started: radd samples the GPUs itself, and rad track sends that to MLflow" ]
	[ "$(for i in "${ids[@]}"; do field "$i" .share; done | tr '\n' ' ')" = "never streams streams mps mps mig never " ]
	[ "$(for i in "${ids[@]}"; do field "$i" .gpus_requested; done | tr '\n' ' ')" = "1 1 1 1 1 1 2 " ]
	[ "$(field "${ids[1]}" .name)" = "shared gpu 1" ]
	# Each workload after the one before.
	rad release "${ids[@]}"
	rad wait "${ids[@]}"
	[ "$(cat "rad-${ids[0]}.out" net/"rad-${ids[0]}.out" 2>/dev/null)" = "$WORLD/work/net|cifar10.py --batch-size 128 --lr 0.01|4" ]
	[ "$(cat net/"rad-${ids[6]}.out")" = "$WORLD/work/net|cifar10.py --list 1,2|4" ]
	rad show --json "${ids[5]}" | jq -e '.tasks[0].attempts[0].gpus[0] | startswith("MIG-")'
	local end start k
	for k in 1 3 5; do
		end=$(field "${ids[k - 1]}" .end_time)
		start=$(field "${ids[k]}" .start_time)
		[[ ! "$start" < "$end" ]]
	done
}

@test "blanks behind commas, a file without most columns, options for all rows, what has run already" {
	csv 'Workload,    File,Status' '1, net/cifar10.py,FINISHED run (0)' '2,net/cifar10.py,' '2,net/cifar10.py,FINISHED' \
		'3,net/cifar10.py,FAILED x'
	run -0 --separate-stderr rad submit --radt exp.csv --gpu-mem 3G --json
	[[ "$stderr" == *"2 rows are passed over, by the column Status"* ]]
	jq -e '.schema == 1 and ([.tasks[] | [.line, .workload]] == [[3, "0+2"], [4, "0+2"]])' <<<"$output"
	local id
	id=$(jq -r '.tasks[0].id' <<<"$output")
	[ "$(field "$id" .estimate.claim_mib)" = 3072 ]
	rad wait "$id"
	run -0 rad submit --radt exp.csv --share=mps --dry-run
	[[ "$output" == *"2 tasks would be accepted" ]]
	run -0 --separate-stderr rad submit --radt exp.csv --dry-run --json
	jq -e '.schema == 1 and .dry_run and .tasks == 2' <<<"$output"
	run -0 rad submit --radt exp.csv --test-only	# in sbatch's word
	[[ "$output" == *"2 tasks would be accepted" ]]
}

# refused TEXT: exp.csv is, with that in its one line, and nothing was queued.
refused()
{
	local before
	before=$(rad queue -t all --json | jq '.tasks | length')
	run rad submit --radt exp.csv
	[ "$status" -eq 2 ]
	one_line_error "$1"
	[ "$(rad queue -t all --json | jq '.tasks | length')" = "$before" ]
}

@test "what is wrong is told with its line and column, and nothing is queued" {
	local good='0,1,a,,,0,-,net/cifar10.py,smi,'
	csv "$HEAD" "$good" '0,1,a,,,x,-,net/cifar10.py,smi,'
	refused "exp.csv:3: column Devices: 'x': expected numbers of GPUs"
	csv "$HEAD" "$good" '0,1,a,,,0,nccl,net/cifar10.py,smi,'
	refused "exp.csv:3: column Collocation: 'nccl': expected -, MPS, or a MIG profile"
	csv "$HEAD" "$good" '0,1,a,,,0,-,net/no.py,smi,'
	refused "exp.csv:3: column File: 'net/no.py'"
	csv "$HEAD" "$good" 'rn18,1,a,,,0,-,net/cifar10.py,smi,'
	refused "exp.csv:3: column Experiment: 'rn18'"
	csv "$HEAD" "$good" '0,,a,,,0,-,net/cifar10.py,smi,'
	refused "exp.csv:3: column Workload: ''"
	csv "$HEAD" "$good" '0,1,a'
	refused "exp.csv:3: "
	csv 'Workload,Devices' '1,0'
	refused "exp.csv:1: there is no column File: "
	csv 'Workload,Collocatin,File' '1,,net/cifar10.py'
	refused "exp.csv:1: column Collocatin: did you mean Collocation?"
	csv "$HEAD" "${good/,,0,/,FINISHED,0,}"
	csv "$HEAD" '0,1,a,FINISHED,,0,-,net/cifar10.py,smi,'
	refused "all rows have finished or failed"
	csv "$HEAD"
	refused "exp.csv: has no rows"
	# What radd refuses, too: more GPUs than there are.
	csv "$HEAD" "$good" '0,1,a,,,0+1+2+3+4+5,-,net/cifar10.py,smi,'
	refused "exp.csv:3: "
	run -1 rad submit --radt none.csv
	one_line_error "none.csv"
	csv "$HEAD" "$good"
	run -2 rad submit --radt exp.csv true
	run -125 rad run --radt exp.csv
}

@test "gpus: a narrow terminal still tells the instances of a GPU apart from whole ones" {
	[ "$(COLUMNS=80 rad gpus | grep -c '^ *2:[01] *3g\.20g')" = 2 ]
	rad gpus | grep -q '3g.20gb A100-SXM4-40GB '
}
