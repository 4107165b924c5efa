#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The wheel in an environment of its own: installed without a network, a task run, upgraded over one that runs, uninstalled.

bats_require_minimum_version 1.5.0
load ../helpers.bash
load packages.bash

setup_file()
{
	python3 -c 'import ensurepip' 2>/dev/null || skip "needs Python's venv and pip"
	new_world
	make_packages wheel
	python3 -m venv "$WORLD/env"
	ENV=$WORLD/env
	export ENV RAD_DEVICES=sim:4xa100-40g RAD_SOCKET=$WORLD/own.sock RAD_NO_START=0
	(cd "$ENV" && find . ! -type d | grep -v __pycache__ | sort) >"$WORLD/before"
	PATH=$ENV/bin:$PATH
}

teardown_file()
{
	[ ! -x "$ENV/bin/rad" ] || end_world
	rm -rf "$WORLD"
}

setup() { cd "$WORLD/work"; }

pip() { "$ENV/bin/python" -m pip --disable-pip-version-check -q "$@"; }

# One's own, which the first submission started.
radd_pid() { rad start --json | jq .pid; }

@test "made twice, it is the same, byte by byte" {
	cmp "$PACKAGES"/*.whl "$AGAIN"/*.whl
}

@test "its name says on which machines it runs, and that is so" {
	local newest
	python3 -m zipfile -e "$PACKAGES"/*.whl "$WORLD/unzipped"
	newest=$(find "$WORLD/unzipped" -type f \( -path '*/scripts/*' -o -name '*.so*' \) -exec readelf -VW {} + |
		sed -n 's/.*Name: GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
	[[ $(echo "$PACKAGES"/*.whl) == *-py3-none-manylinux_"${newest//./_}"_"$(uname -m)".whl ]]
	[ "$(printf '%s\n' "$newest" 2.34 | sort -V | tail -n 1)" = 2.34 ]
}

@test "installed without a network, it has the command, its pages and the Python package" {
	pip install --no-index "$PACKAGES"/*.whl
	[ "$(type -P rad)" = "$ENV/bin/rad" ]
	rad --version
	[ -s "$ENV/share/man/man1/rad-submit.1.gz" ]
	"$ENV/bin/python" -c 'import radrm; radrm.lease; import radrm.capture.limits'
	# A notebook's Python is started without its environment's bin in PATH.
	[ "$(PATH=/usr/bin:/bin "$ENV/bin/python" -c 'from radrm import _rad; print(_rad.find())')" = "$ENV/bin/rad" ]
	! ldd "$ENV/bin/rad" | grep '=>' | grep -vE "$ENV|libc\.so|libm\.so|libdl|libpthread" || false
}

@test "upgraded over a running task: it goes on, others start, and the new radd finds it" {
	local one two pid
	one=$(rad submit --parsable --gpu-mem 1G sh -c "$(until_file "$WORLD/end")")
	wait_for 10 grep -q started "$WORLD/work/rad-$one.out"
	pid=$(radd_pid)
	pip install --no-index --upgrade "$NEWER"/*.whl
	two=$(rad submit --parsable --gpu-mem 1G rad simtask --mem 1G --seconds 0.5)
	wait_state "$two" COMPLETED
	kill "$pid"
	gone "$pid"
	[ "$(rad submit --parsable true)" -gt "$two" ]
	[ "$(radd_pid)" != "$pid" ]
	[ "$(state "$one")" = RUNNING ]
	touch "$WORLD/end"
	wait_state "$one" COMPLETED
	[ "$(grep -c started "$WORLD/work/rad-$one.out")" = 1 ]
}

@test "uninstalled, it leaves no file in the environment" {
	kill "$(radd_pid)"
	pip uninstall -y rad-rm
	(cd "$ENV" && find . ! -type d | grep -v __pycache__ | sort) >"$WORLD/after"
	diff "$WORLD/before" "$WORLD/after"
}
