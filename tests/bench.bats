#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# That every bench runs and prints what it should; not how fast anything is.

bats_require_minimum_version 1.5.0

setup()
{
	FOLDER=$(mktemp -d)
}

teardown()
{
	rm -rf "$FOLDER"
}

# sbatch is measured where Slurm is.
@test "every bench runs and prints its figures with their units" {
	"$RAD_SOURCE_ROOT/bench/run" "$RAD_BUILD_ROOT" --short >"$FOLDER/out"
	run jq -r '.schema, .failed == [], (.benches | del(.sbatch) | keys | join(" ")), ([.benches[].figures | length > 0] | all)' "$FOLDER/out"
	[ "$output" = "1
true
accounts core daemon gpumemnet history map parse replay schedule simulate store submit turns waiting
true" ]
	run jq -r '.benches | .core.figures.sample_us_median.unit, .store.figures.submissions_per_s_batched.unit,
		.submit.figures.starting_ms_median.unit, .daemon.figures.idle_memory_mib.unit' "$FOLDER/out"
	[ "$output" = "us
1/s
ms
MiB" ]
	jq -e '.machine | .cpus > 0 and .memory_mib > 0 and (.kernel | length > 0)' "$FOLDER/out"
}

@test "a bench that fails is named; what the others measured is printed" {
	mkdir -p "$FOLDER/bench"
	ln -s "$RAD_BUILD_ROOT/bench/bench-parse" "$FOLDER/bench/bench-parse"
	printf '#!/bin/sh\necho no disk >&2\nexit 3\n' >"$FOLDER/bench/bench-core"
	printf '#!/bin/sh\necho "{\\"results\\":[]}"\n' >"$FOLDER/bench/bench-map"
	chmod +x "$FOLDER"/bench/*
	run --separate-stderr "$RAD_SOURCE_ROOT/bench/run" "$FOLDER" --short core map parse
	[ "$status" = 1 ]
	[[ $stderr == *"core: exit code 3: no disk"* ]]
	[[ $stderr == *"map: did not print results[0].median_ns"* ]]
	[ "$(jq -c .failed <<<"$output")" = '["core","map"]' ]
	[ "$(jq '.benches.parse.figures.median_us.value > 0' <<<"$output")" = true ]
}

@test "two builds are compared figure by figure" {
	run "$RAD_SOURCE_ROOT/bench/compare" "$RAD_BUILD_ROOT" "$RAD_BUILD_ROOT" --rounds 1 --json parse
	[ "$(jq -r '.schema, (.benches.parse | map(.figure) | sort | join(" "))' <<<"$output")" = "1
cpu_s max_us median_us" ]
}

@test "instructions are counted alike however busy the machine is, and more of them are slower" {
	command -v valgrind >/dev/null || skip "valgrind is not installed"
	local build
	for build in old new; do
		mkdir -p "$FOLDER/$build/bench"
		printf '#!/bin/sh\ni=0\nwhile [ $i -lt 2000 ]; do i=$((i + 1)); done\n' >"$FOLDER/$build/bench/bench-parse"
		chmod +x "$FOLDER/$build/bench/bench-parse"
	done
	run "$RAD_SOURCE_ROOT/bench/compare" --instructions "$FOLDER/old" "$FOLDER/new" --json parse
	[ "$status" = 0 ]
	[ "$(jq -c '[.slower, [.benches.parse[].figure]]' <<<"$output")" = '[[],["instructions.all"]]' ]
	jq -e '.benches.parse[0] | .old > 10000 and .ratio > 0.99 and .ratio < 1.01' <<<"$output"
	sed -i s/2000/4000/ "$FOLDER/new/bench/bench-parse"
	run "$RAD_SOURCE_ROOT/bench/compare" --instructions "$FOLDER/old" "$FOLDER/new" --json parse
	[ "$status" = 1 ]
	[ "$(jq -c .slower <<<"$output")" = '["parse: instructions.all"]' ]
}
