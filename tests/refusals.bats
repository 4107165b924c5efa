#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What is wrong on a command line ends with 2 (125 where the code is another program's), in one line, whoever finds it, rad or
# radd: every option of every verb is given a value that it cannot have, and every verb words that it does not know.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	export DEVICES=sim:2xh100-80g RAD_DEVICES=sim:2xh100-80g
	start_radd
	rad help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' >"$WORLD/verbs"
	submit --name one true
	rad wait 1
	printf 'VGG(\n  (0): Linear(in_features=1, out_features=1, bias=True)\n)\n' >summary
}
teardown_file() { end_world; }

# Text that may say anything: verb:option, or option for all verbs.
FREE="name job-name title reason experiment delimiter env mail-user gpu-model bench:pattern exporter:host web:host"

# What a verb needs beside the option, so that nothing but its value can be wrong; the words that follow in `after`.
needs()
{
	before=() after=()
	case $1 in
	submit | run) before=(--dry-run) after=(true) ;;
	show | why | logs | wait | cancel | hold | release | suspend | resume | requeue | update) after=(1) ;;
	adopt) after=($$) ;;
	purge) before=(--older=90d --dry-run) ;;
	report) before=(-o page.html) ;;
	track) before=(--once --mlflow=http://127.0.0.1:1) ;;
	drain) after=(0) ;;
	reserve) [ "$2" = delete ] || before=(--for=1h) after=(1) ;;
	estimate | parse) after=(summary) ;;
	capture) before=(-o file.radcap) after=(-- true) ;;
	monitor) before=(-n 1 -o readings.csv) ;;
	simulate) before=(--devices=1xa100-40g --trace=trace.csv --workloads=catalogue) ;;
	exporter | web) before=(--listen=127.0.0.1:0) ;;
	bench) before=(collocate) after=(-- true) ;;
	simtask) before=(--mem=1G --seconds=1) ;;
	sbatch) after=(--dry-run --wrap=true) ;;
	completion) after=(bash) ;;
	pilot)
		before=(--queue=queue --devices=sim:1xa100-40g)
		case $2 in most | each | every) before=(--queue=queue --submit) ;; esac
		;;
	trace)
		case $2 in
		start | length | gpus) before=(import log.json) ;;
		speed | estimator) before=(run trace.csv) ;;
		*) before=(make) ;;
		esac
		;;
	esac
}

usage_code() { case $1 in run | wait | monitor) echo 125 ;; *) echo 2 ;; esac; }

# refused VERB WORDS...: adds to `missed` what it does instead.
refused()
{
	local code=0 said
	said=$(timeout 100 rad "$@" 2>&1 >/dev/null </dev/null) || code=$?
	if [ "$code" != "$(usage_code "$1")" ] || [[ $said != rad:\ * ]] || [ "$(wc -l <<<"$said")" -ne 1 ]; then
		missed+="rad $*: $code $said"$'\n'
	fi
}

@test "every option of every verb refuses what it cannot be" {
	local verb option form value n=0 missed=
	printf 'submit_s,workload\n0,resnet50-imagenet-b64\n' >trace.csv
	while read -r verb; do
		while IFS='=' read -r option form; do
			option=${option#--}
			[[ " $FREE " != *" $option "* && " $FREE " != *" $verb:$option "* ]] || continue
			value=@bad@
			[[ $form != FILE && $form != DIR && $form != *.* ]] || value=	# of files no name is wrong but none
			needs "$verb" "$option"
			refused "$verb" "${before[@]}" "--$option=$value" "${after[@]}"
			n=$((n + 1))
		done < <(rad "$verb" --help | sed -nE 's/^  (-.,|   ) (--[A-Za-z0-9-]+)\[?=([^] ]+).*/\2=\3/p')
	done <"$WORLD/verbs"
	[ -z "$missed" ] || { printf '%s' "$missed" >&2; return 1; }
	[ "$n" -gt 200 ]
}

@test "every verb refuses options that it does not have, and values of those that take none" {
	local verb option missed=
	while read -r verb; do
		needs "$verb" ""
		[ "$verb" = sbatch ] || refused "$verb" --nosuchoption "${before[@]}" "${after[@]}"	# they go on to Slurm's
		while read -r option; do
			[ "$verb" = sbatch ] || refused "$verb" "$option=1" "${before[@]}" "${after[@]}"
		done < <(rad "$verb" --help | sed -nE 's/^  (-.,|   ) (--[A-Za-z0-9-]+) .*/\2/p')
	done <"$WORLD/verbs"
	[ -z "$missed" ] || { printf '%s' "$missed" >&2; return 1; }
}

@test "every verb refuses words that name nothing" {
	local verb words missed=
	while read -r verb words; do
		refused "$verb" $words
	done <<-'END'
		queue nosuch
		show nosuch
		why 1_
		logs 3-1
		wait 12_[3
		cancel 0
		hold 1 nosuch
		release 99999999999
		suspend -1
		resume 1,,2
		requeue 1_[3-1]
		update nosuch time=1h
		update 1 time=@bad@
		update 1 priority=@bad@
		update 1 gpu_mem=@bad@
		update 1 nosuch=1
		acct nosuch
		adopt nosuch
		lease nosuch
		gpus nosuch
		top nosuch
		purge nosuch --older=90d
		limit max_running=@bad@
		limit nosuch=1
		reserve nosuch --for=1h
		reserve 1
		reserve --begin=2100-01-01 --end=2099-01-01 1
		completion tcsh
		help nosuch
		version nosuch
		doctor nosuch
		start nosuch
		stop nosuch
		web nosuch
		exporter nosuch
		trace nosuch
		trace make --speed=2
		trace run trace.csv --tasks=3
		bench nosuch
		simtask nosuch
		pilot nosuch
		pilot --queue=queue --devices=sim:1xa100-40g --most=2
		pilot --queue=queue --submit --margin=2m
		submit --gpu-mem=1T --constraint=mem>=2T true
		submit --gpus=9 true
		submit --dependency=afterok:0 true
		submit --begin=nonsense true
		submit --wrap=true true
		acct --by=foo
		acct --begin=nonsense
	END
	[ -z "$missed" ] || { printf '%s' "$missed" >&2; return 1; }
	run -2 rad nosuch
	printf 'gpus: many\ntrue\n' >wrong.rad	# a file that is named is part of it
	run -2 rad submit wrong.rad
	one_line_error "wrong.rad:1"
	run -125 rad run wrong.rad
}

@test "what is not there is 1, what may not be 1, and a radd that is not there 3" {
	local verb words
	while read -r verb words; do
		run -1 rad "$verb" $words
		one_line_error ""
	done <<-'END'
		queue 99
		queue -j 98,99
		queue --start 98-99
		queue --json 1_3
		show 99
		why 99
		logs 99
		cancel 99
		cancel --name=x 99
		hold 99
		update 99 time=1h
		acct -j 99
		drain 99
		reserve --delete 99
		feed nosuch
		hold 1
	END
	run -125 rad wait 99
	# One that has ended is there, and no longer in the queue; so are some of several.
	run -0 rad queue -h 1
	[ -z "$output" ]
	run -0 rad queue -h 1 99
	[ "$(rad queue -t all -h 1,99 | wc -l)" -eq 1 ]
	export RAD_SOCKET=$WORLD/none
	for verb in queue "show 1" "why 1" "cancel 1" "hold 1" gpus acct "drain 0" reserve limit "submit true"; do
		run -3 rad $verb
		one_line_error ""
	done
	run -125 rad wait 1
}

@test "a program that is not there is 127, one that cannot be run 126, as env has it" {
	local word folder code
	: >plain
	mkdir -p folder
	printf '#!/no/such/interpreter\n' >script
	chmod +x script
	for word in nosuch ./nosuch ./plain ./folder ./script; do
		code=0
		env "$word" || code=$?
		run "-$code" rad run "$word"
		[[ "$output" == rad:* ]]
		run "-$code" rad monitor -n 1 -o readings.csv -- "$word"
		[[ "$output" == rad:* ]]
	done
	run -1 rad submit nosuch
	run -1 rad submit ./plain
	# A folder in PATH that may not be looked into hides nothing that could be run.
	make_users
	mkdir -m 700 "$WORLD/closed"
	folder=$PATH:$WORLD/closed
	if [ "$(id -u)" = 0 ]; then
		run -127 as "$ALICE" env PATH="$folder" rad monitor -n 1 -o readings.csv -- nosuch
	else
		chmod 0 "$WORLD/closed"
		PATH=$folder run -127 rad monitor -n 1 -o readings.csv -- nosuch
	fi
	[[ "$output" == "rad: nosuch: No such file or directory" ]]
}

@test "a worker that a radd of another release started says what to do" {
	run -0 env -u RAD_STATE radd --read <<<'{"op": "acct"}'
	[ "$(jq -r .error.text <<<"$output")" = "radd --read is for radd's own use; if it was radd that asked, its program was replaced by another release: restart radd (tasks go on)" ]
}
