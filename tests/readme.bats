#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# README's first steps, word for word, on a machine that has neither a GPU nor Python: whoever tries the project begins there.

bats_require_minimum_version 1.5.0
load helpers.bash

README=${RAD_SOURCE_ROOT:-$BATS_TEST_DIRNAME/..}/README.md

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
		timeout 20 rad wait "$id" >/dev/null 2>&1 || :
	done
	pid=$(sed -n 's/^rad: started radd for you (pid \([0-9]*\),.*/\1/p' started 2>/dev/null)
	[ -z "$pid" ] || { kill "$pid"; gone "$pid"; }
	cd /
	rm -rf "$WORLD"
}

# section TITLE: README's text below that headline.
section() { awk -v title="## $1" '/^## /{ on = $0 == title } on' "$README"; }

# code: the lines between fences.
code() { awk '/^```/{ on = !on; next } on'; }

# steps TITLE: what is typed, a line each: what stands behind a prompt, and lines that begin with an export.
steps() { section "$1" | code | sed -n 's/^\$ //p; /^export /p'; }

@test "first steps: every command as it stands" {
	section "First steps" | code | sed -n '/^# train\.rad$/,/^rad simtask/p' >train.rad
	grep -q '^rad simtask' train.rad
	steps "First steps" >steps
	[ "$(wc -l <steps)" -ge 10 ]
	! grep -q python steps
	while IFS= read -r step; do
		printf 'set -e\n%s\n' "$step" >one
		case $step in
		export*) printf '%s\n' "$step" >exports; continue ;;
		esac
		PATH=$WORLD/bin "$(type -P timeout)" 60 bash -c 'source ./exports; set -e; source ./one' >said 2>&1 </dev/null || {
			echo "'$step' exits $?:"
			cat said
			return 1
		}
		grep "^rad: started radd" said >>started || :
	done <steps
	[ -s week.html ]
	[ "$(state 1)" = COMPLETED ]
	[ "$(field 1 .estimate.estimator)" = declared ]
}

@test "a policy, tried: every command as it stands" {
	steps "A policy, tried before you trust it" >steps
	[ -s steps ]
	cp -R "$(dirname "$README")/workloads" . 2>/dev/null || :
	while IFS= read -r step; do
		PATH=$WORLD/bin:$(dirname "$(type -P rad)") "$(type -P timeout)" 60 bash -c "$step" >said 2>&1 </dev/null || {
			echo "'$step' exits $?:"
			cat said
			return 1
		}
	done <steps
	[ -s magm.html ]
}

@test "what README links to is there" {
	for link in $(sed -n 's/.*](\([^)]*\)).*/\1/p; s/.*](\([^)]*\)).*](.*/\1/p' "$README" | grep -v '^http' | sort -u); do
		[ -e "$(dirname "$README")/${link%%#*}" ] || { echo "$link is not there"; return 1; }
	done
}
