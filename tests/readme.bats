#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# README's first steps, word for word, on a machine that has neither a GPU nor Python: whoever tries the project begins there. And the
# commands of the pages for users and administrators, with a stand-in for the training that they speak of.

bats_require_minimum_version 1.5.0
load helpers.bash

ROOT=${RAD_SOURCE_ROOT:-$BATS_TEST_DIRNAME/..}
README=$ROOT/README.md

# A user's own machine: no radd runs, PATH has a shell's usual programs and no Python, and the build is where README says.
setup()
{
	new_world
	export RAD_SOCKET=$WORLD/own.sock RAD_NO_START=0
	ln -s "$(dirname "$(command -v rad)")" build
	mkdir "$WORLD/bin"
	for program in bash sh cat ls sleep rm mkdir date head tail grep sed; do
		ln -s "$(command -v $program)" "$WORLD/bin/$program"
	done
	OUTSIDE=$PATH
}

teardown()
{
	export PATH=$OUTSIDE RAD_NO_START=1
	rad cancel --all >/dev/null 2>&1 || :
	for id in $(rad queue --json 2>/dev/null | jq -r '.tasks[].id'); do
		timeout 100 rad wait "$id" >/dev/null 2>&1 || :
	done
	rad stop >/dev/null 2>&1 || :
	cd /
	rm -rf "$WORLD"
}

# section TITLE: README's text below that headline.
section() { awk -v title="## $1" '/^## /{ on = $0 == title } on' "$README"; }

# page NAME: each line of it behind a prompt, in order, with the shell as whoever reads it has it.
page()
{
	local step
	mkdir -p "$WORLD/stand-ins"
	printf '%s\n' '#!/bin/sh' '[ "$1" != fails.py ] || { echo "ValueError: bad labels" >&2; exit 3; }' \
		'case $1 in prepare.py | plot.py) exit 0 ;; esac' \
		'exec rad simtask --mem 1G --seconds 1 --ramp 0.1' >"$WORLD/stand-ins/python"
	chmod +x "$WORLD/stand-ins/python"
	code <"$1" | sed -n 's/^\$ //p' >steps
	[ "$(wc -l <steps)" -ge 10 ]
	while IFS= read -r step <&5; do
		PATH=$WORLD/stand-ins:$PATH "$(type -P timeout)" 200 bash -c "set -e; $step" >said 2>&1 </dev/null || {
			echo "'$step' exits $?:"
			cat said
			return 1
		}
	done 5<steps
}

# code: the lines between fences.
code() { awk '/^```/{ on = !on; next } on'; }

# steps TITLE: what is typed, a line each: what stands behind a prompt, and lines that begin with an export.
steps() { section "$1" | code | sed -n 's/^\$ //p; /^export /p'; }

@test "first steps: every command as it stands" {
	section "First steps" | code | sed -n '/^# train\.rad$/,/^rad simtask/p' >train.rad
	grep -q '^rad simtask' train.rad
	steps "First steps" >steps
	[ "$(wc -l <steps)" -ge 10 ]
	! grep -q python steps || false
	while IFS= read -r step; do
		printf 'set -e\n%s\n' "$step" >one
		case $step in
		export*) printf '%s\n' "$step" >exports; continue ;;
		esac
		PATH=$WORLD/bin "$(type -P timeout)" 200 bash -c 'source ./exports; set -e; source ./one' >said 2>&1 </dev/null || {
			echo "'$step' exits $?:"
			cat said
			return 1
		}
	done <steps
	[ -s week.html ]
	grep -q '^radd was stopped' said	# by the last of them
	export RAD_DEVICES=sim:4xa100-40g
	rad start >/dev/null
	[ "$(state 1)" = COMPLETED ]
	[ "$(field 1 .estimate.estimator)" = declared ]
	rad stop
}

@test "how to use it: every command as it stands" {
	export RAD_DEVICES=sim:4xa100-40g
	awk '/^# slots\.sh$/,/^while/' "$ROOT/doc/using.md" >slots.sh
	cp "$ROOT/tests/summaries/bert-classifier-printed.txt" model.txt
	page "$ROOT/doc/using.md"
	[ "$(state 3)" = COMPLETED ]
	[ "$(field 5 .attempts[0].verdict)" = failed ]
	[ "$(state 7_49)" = CANCELLED ]
	timeout 200 rad wait 12 13 14
	[ "$(field 12 .gpus_requested),$(field 13 .gpus_requested),$(field 14 .gpus_requested)" = 0,1,0 ]
	# Its script saves when it is asked to.
	local script code=0
	bash slots.sh 3>&- &
	script=$!
	wait_for 10 grep -qa '^bash.slots.sh' "/proc/$script/cmdline"		# no longer this shell's copy, which has handlers too
	wait_for 10 grep -q '^SigCgt:.*[2367abef]..$' "/proc/$script/status"	# it has its handler
	kill -USR1 $script
	wait $script || code=$?
	[ "$code" -eq 85 ]
	grep -qx '[0123]' checkpoint
}

@test "how to run it: every command as it stands" {
	[ "$(id -u)" = 0 ] || skip "an administrator's"
	export RAD_STATE=$WORLD/state1 RAD_DEVICES=sim:4xa100-40g
	mkdir "$WORLD/stand-ins"
	cat >"$WORLD/stand-ins/systemctl" <<-'SH'
		#!/bin/sh
		case $1 in
		start) exec rad start ;;
		stop) exec rad stop ;;
		reload) kill -HUP "$(cat "$RAD_STATE/lock")" ;;
		esac
	SH
	chmod +x "$WORLD/stand-ins/systemctl"
	rad start >/dev/null
	sed "s,/var/lib/rad,$WORLD/state1,g; s,/root/,$WORLD/,g" "$ROOT/doc/administering.md" >page.md
	page page.md
	[ -s "$WORLD/rad-backup.db" ]
}

@test "what README shows has the columns that rad prints" {
	export RAD_DEVICES=sim:2xa100-40g
	rad start >/dev/null
	rad submit --hold --gpu-mem 1G true
	sed -n '/^<!-- printed by/,/^<!-- end of/p' "$README" >shown
	for command in gpus queue; do
		read -ra titles <<<"$(rad $command | head -n 1)"
		read -ra theirs <<<"$(grep -x -A1 "\$ rad $command" shown | tail -n 1 | sed 's/ DONE  LEFT / /')"
		[ "${titles[*]}" = "${theirs[*]}" ]
	done
}

@test "a policy, tried: every command as it stands" {
	steps "Try a policy before you trust it" >steps
	[ -s steps ]
	cp -R "$(dirname "$README")/workloads" . 2>/dev/null || :
	while IFS= read -r step; do
		PATH=$WORLD/bin:$(dirname "$(type -P rad)") "$(type -P timeout)" 200 bash -c "$step" >said 2>&1 </dev/null || {
			echo "'$step' exits $?:"
			cat said
			return 1
		}
	done <steps
	[ -s magm.html ]
}

@test "what README and the pages link to is there, headlines too" {
	local page link file headline
	for page in "$README" "$ROOT/doc/using.md" "$ROOT/doc/administering.md"; do
		for link in $(grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//' | grep -v '^http' | sort -u); do
			file=${link%%#*} headline=
			[[ "$link" != *#* ]] || headline=${link#*#}
			file=${file:+$(dirname "$page")/$file}
			[ -e "${file:-$page}" ] || { echo "$link is not there"; return 1; }
			[ -z "$headline" ] || sed -n 's/^##* //p' "${file:-$page}" | tr 'A-Z ' 'a-z-' | tr -d ',.:`?' | grep -qx -e "$headline" ||
				{ echo "$page: no headline $headline"; return 1; }
		done
	done
}

@test "the tour of captures names each file of the package, and no other" {
	PATH=$OUTSIDE
	diff <(cd "$ROOT/python/radrm/capture" && ls -- *.py | sed 's/[.]py$//' | sort) <(grep -o '`[a-z_]*`' "$ROOT/doc/capture.md" | tr -d '`' | sort -u)
}
