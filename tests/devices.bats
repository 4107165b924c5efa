#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A part of a machine: four GPUs, played by a fake library, of which radd is given two.

load helpers

setup_file()
{
	new_world
	fake_driver
	machine a b c d
}

teardown_file()
{
	end_world
}

setup() { cd "$WORLD/work"; }

teardown()
{
	rad cancel --all >/dev/null 2>&1 || :
	stop_radd
}

# machine LETTER...: GPUs of these letters, in PCI order. They are there at once or not at all.
machine()
{
	local letter n=0 list=""
	for letter; do
		n=$((n + 1))
		list="$list${list:+,}{\"uuid\": \"GPU-$letter$letter$letter$letter-0\", \"pci\": [0, $n, 0], \"name\": \"NVIDIA H200\",
			\"cc\": [9, 0], \"cores\": 16896, \"total_mib\": 143771, \"reserved_mib\": 600, \"used_mib\": 0,
			\"power_mw\": 75000, \"processes\": [], \"mps\": [], \"fail\": {}, \"mig\": null,
			\"gpm\": {\"1\": 0, \"2\": 0, \"3\": 0, \"10\": 0, \"20\": 0, \"21\": 0}}"
	done
	echo "{\"devices\": [$list]}" >"$RAD_FAKE_NVML.new"
	mv "$RAD_FAKE_NVML.new" "$RAD_FAKE_NVML"
}

gpus() { rad gpus --json | jq -r "[.gpus[] | $1] | join(\",\")"; }
shows() { [ "$(gpus .index)" = "$1" ]; }
sampler() { pgrep -P "$(cat "$WORLD/pid")" -f -- --sampler; }
another_sampler() { [ -n "$(sampler)" ] && [ "$(sampler)" != "$1" ]; }
look='env | grep -E "CUDA_|RAD_GPU_UUIDS" | sort >'

# refused WORD...: radd does not start, and its one line holds each of these.
refused()
{
	local word
	run start_radd
	[ "$status" -ne 0 ]
	[[ "${lines[0]}" == "radd: devices: nvml: "* ]]
	for word; do
		[[ "${lines[0]}" == *"$word"* ]] || { echo "no \"$word\" in: ${lines[0]}" >&2; return 1; }
	done
}

# page EXPRESSION...: what these come to on the live page, into ./seen; see browser.py.
page()
{
	local web line
	rm -f said
	mkfifo said
	rad web --listen 127.0.0.1:0 >said 3>&- 4>&- &
	web=$!
	IFS= read -r -t 80 line <said
	timeout 200 python3 "$RAD_SOURCE_ROOT/tests/browser.py" "$browser" "$WORLD/profile" "${line#rad web: }" 1280 "$@" >seen
	kill "$web"
	cat seen
}

@test "the others are not shown, not counted and not placed on" {
	local id one
	DEVICES=nvml:0,2 start_radd
	[ "$(gpus .index)" = 0,2 ]
	[ "$(gpus .uuid)" = GPU-aaaa-0,GPU-cccc-0 ]
	grep -q 'devices nvml:0,2, GPUs 0, 2 of 4, ' "$WORLD/radd.log"
	rad doctor | grep -q 'radd uses 0, 2 of the machine.s 4'
	rad doctor | grep -q 'answers, and shows GPUs 0, 2 of 4'
	run rad submit --gpus 3 true
	[ "$status" -ne 0 ]
	# Whatever it is given, it is one of the two, by the machine's number.
	one=$(submit --gpus 2 --exclusive -- sh -c "$look both.txt")
	rad wait "$one"
	grep -qx 'CUDA_VISIBLE_DEVICES=0,2' both.txt
	grep -qx 'CUDA_DEVICE_ORDER=PCI_BUS_ID' both.txt
	grep -qx 'RAD_GPU_UUIDS=GPU-aaaa-0,GPU-cccc-0' both.txt
}

@test "of one GPU of several, too, a task that counts from 0 stays on it; one that has the only GPU loads nothing for that" {
	[ -e "$RAD_BUILD_ROOT/libradstay.so" ] || skip "it is not built beside sanitizers"
	DEVICES=nvml:0 start_radd
	[ "$(rad run --gpu-mem 1G env CUDA_VISIBLE_DEVICES=1 printenv CUDA_VISIBLE_DEVICES | tail -n 1)" = 0 ]
	stop_radd
	machine a
	DEVICES=nvml start_radd
	[ "$(rad run --gpu-mem 1G sh -c 'echo "<$LD_PRELOAD>"' | tail -n 1)" = "<>" ]
	machine a b c d
}

@test "an MPS server gets exactly these, and its clients name theirs by UUID where places differ" {
	local go=$WORLD/go-mps first second pipe
	DEVICES=nvml:0,2 start_radd
	first=$(submit --gpu-mem 4G --share mps -- sh -c "$look first.txt; $(until_file "$go")")
	wait_for 20 grep -q PIPE first.txt
	second=$(submit --gpus 2 --gpu-mem 4G --share mps -- sh -c "$look second.txt; $(until_file "$go")")
	wait_for 20 grep -q PIPE second.txt
	pipe=$(sed -n s/CUDA_MPS_PIPE_DIRECTORY=//p second.txt)
	grep -qx 'CUDA_VISIBLE_DEVICES=GPU-aaaa-0,GPU-cccc-0' "$pipe/environment"
	# GPU 2 is the server's second: to its clients "2" would be nothing.
	grep -qxE 'CUDA_VISIBLE_DEVICES=(GPU-aaaa-0,GPU-cccc-0|GPU-cccc-0,GPU-aaaa-0)' second.txt
	touch "$go"
	rad wait "$first" "$second"
}

@test "UUIDs, and beginnings of them, do as well as numbers" {
	DEVICES=nvml:GPU-dd,GPU-bbbb-0 start_radd
	[ "$(gpus .index)" = 1,3 ]
}

@test "CUDA_VISIBLE_DEVICES of radd is a part of the machine too" {
	CUDA_VISIBLE_DEVICES=3,1,9,0 DEVICES=nvml start_radd
	[ "$(gpus .index)" = 1,3 ]
	grep -q '"9,0" names no GPU here, so the list ends before it' "$WORLD/radd.log"
	stop_radd
	CUDA_VISIBLE_DEVICES=GPU-cccc DEVICES=nvml start_radd
	[ "$(gpus .index)" = 2 ]
	stop_radd
	# A list in the setting was written for radd, and counts in its place.
	CUDA_VISIBLE_DEVICES=1 DEVICES=nvml:0 start_radd
	[ "$(gpus .index)" = 0 ]
	stop_radd
	# Simulated GPUs are not CUDA's.
	CUDA_VISIBLE_DEVICES=1 DEVICES=sim:2xa100-40g start_radd
	[ "$(gpus .index)" = 0,1 ]
}

@test "what names no GPU is refused with the word and with what there is" {
	DEVICES=nvml:0,7 refused '7 names no GPU' '0 (GPU-aaaa-0), 1 (GPU-bbbb-0), 2 (GPU-cccc-0), 3 (GPU-dddd-0)'
	DEVICES=nvml:1,1 refused '1 is in its list already'
	DEVICES=nvml:GPU-eeee refused 'GPU-eeee names no GPU' 'GPU-dddd-0'
	DEVICES=nvml: refused 'empty' 'nvml:0,2'
	CUDA_VISIBLE_DEVICES= DEVICES=nvml refused 'CUDA_VISIBLE_DEVICES= leaves radd no GPU' 'GPU-dddd-0'
	CUDA_VISIBLE_DEVICES=-1 DEVICES=nvml refused 'CUDA_VISIBLE_DEVICES=-1 leaves radd no GPU'
	CUDA_VISIBLE_DEVICES=NoDevFiles DEVICES=nvml refused 'CUDA_VISIBLE_DEVICES=NoDevFiles leaves radd no GPU'
	CUDA_VISIBLE_DEVICES=1,1 DEVICES=nvml refused 'names a GPU twice'
}

@test "a GPU that falls off the bus moves the others' numbers, not radd's choice" {
	local one before
	DEVICES=nvml:2 start_radd
	[ "$(gpus .uuid)" = GPU-cccc-0 ]
	machine b c d
	wait_for 20 shows 1
	[ "$(gpus .uuid)" = GPU-cccc-0 ]
	# A sampler that starts anew meets other numbers than the first one, and keeps to the same GPU.
	before=$(sampler)
	kill -9 "$before"
	wait_for 20 another_sampler "$before"
	machine c d
	wait_for 20 shows 0
	[ "$(gpus .uuid)" = GPU-cccc-0 ]
	machine a b c d
	wait_for 20 shows 2
	[ "$(gpus .uuid)" = GPU-cccc-0 ]
	one=$(submit --exclusive -- sh -c "$look moved.txt")
	rad wait "$one"
	grep -qx 'CUDA_VISIBLE_DEVICES=2' moved.txt
}

@test "no GPU is silent between two samples, however rare they are" {
	local config looks=0 end
	config=$(cat "$RAD_CONFIG")
	printf 'interval: 3\nstale: 1\n' >"$RAD_CONFIG"
	DEVICES=nvml start_radd
	wait_for 20 eval '[ "$(gpus .stale)" = false,false,false,false ]'
	end=$((SECONDS + 5))
	while [ "$SECONDS" -lt "$end" ]; do
		[ "$(gpus .stale)" = false,false,false,false ]
		looks=$((looks + 1))
	done
	echo "$config" >"$RAD_CONFIG"
	[ "$looks" -gt 5 ]
}

@test "rad gpus shows nothing that was read of a GPU that is gone, and names it" {
	local browser
	make_users	# rad web asks as nobody
	DEVICES=nvml start_radd
	wait_state "$(submit --gpus 4 --exclusive -- sleep 100)" RUNNING	# one with no task is just not there
	machine b c d
	wait_for 20 eval '[ "$(gpus .stale)" = true,false,false,false ]'
	run rad gpus
	echo "$output"
	grep -Eq '^GPU-aaaa-0 +H200 +- +- +-/140.4G +[0-9.]+G +- +- +stale' <<<"$output"
	grep -q '^GPU GPU-aaaa-0 (which was 0): does not answer: see rad doctor$' <<<"$output"
	grep -Eq '^ +0 +H200 +0% .* exclusive' <<<"$output"
	[ "$(grep -Ec '^ +0 ' <<<"$output")" -eq 1 ]		# its number is another's
	run rad queue -h
	[[ "$output" == *" GPU-aaaa-0,0-2"* ]]
	rad why "$(submit --gpus 2 -- true)" | grep -q '^  GPU 0 GPU-aaaa-0: it does not answer'
	# The live page says the same.
	if browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome); then
		page "[...document.querySelectorAll('.card')].map(c => c.querySelector('h3').innerText).sort().join('|')" \
			"[...document.querySelectorAll('.card')].filter(c => c.innerText.includes('not read'))[0].innerText"
		head -n 1 seen | grep -q '^"GPU 0[^0-9].*|GPU 1[^0-9].*|GPU 2[^0-9].*|GPU GPU-aaaa-0[^0-9].*not read"$'
		tail -n 1 seen | grep -q 'u2013 of 140.4 GiB, .u2013 free.*not known'
	fi
	# The last one gone: nobody else has its number.
	machine a b c d
	wait_for 20 eval '[ "$(gpus .stale)" = false,false,false,false ]'
	machine a b c
	wait_for 20 eval '[ "$(gpus .stale)" = false,false,false,true ]'
	run rad gpus
	grep -Eq '^ +3 +H200 +- .* stale' <<<"$output"
	grep -q '^GPU 3 (GPU-dddd-0): does not answer: see rad doctor$' <<<"$output"
	machine a b c d
}

@test "instances of a divided GPU have numbers of their own, as nvidia-smi counts them, wherever GPUs have" {
	local id browser
	make_users
	# Of a state of its own: reports have the GPUs of those before, where they were there for long enough.
	DEVICES='sim:1xa100-40g,1xa100-40g/mig=3g.20gb+2g.10gb+2g.10gb' start_radd --state "$WORLD/instances"
	wait_for 20 eval '[ "$(gpus .number)" = 0,1:0,1:1,1:2 ]'
	shows 0,1,1,1
	[ "$(rad drain 1:1)" = "Drained GPU 1:1" ]
	[ "$(gpus .drained)" = false,false,true,false ]
	run rad drain 1:3
	one_line_error "GPU '1:3': there is none; 'rad gpus -v' lists them by number and UUID"
	run rad drain 1
	one_line_error "GPU '1': there is none"
	id=$(submit --share mig --gpu-mem 4G -- sleep 100)
	wait_state "$id" RUNNING
	run rad gpus
	grep -Eq '^1:0 +3g.20gb A100-SXM4-40GB .* mig +'"$id"'$' <<<"$output"
	grep -Eq '^1:1 +2g.10gb A100-SXM4-40GB .* drained' <<<"$output"
	[[ "$(rad queue -h)" == *" 1:0" ]]
	if browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome); then
		page "[...document.querySelectorAll('.card h3')].map(h => h.textContent).join('|')" \
			"[...document.querySelectorAll('#queue td.where')].map(c => c.innerText.trim()).join('|')"
		head -n 1 seen | grep -q '^"GPU 0A100-SXM4-40GB[^|]*|GPU 1:03g.20gb A100-SXM4-40GB[^|]*|GPU 1:12g.10gb [^|]*|GPU 1:22g.10gb '
		tail -n 1 seen | grep -qx '"GPU 1:0 (3g.20gb)"'
	fi
	[[ "$(rad why "$id")" == *" on GPU 1:0, mig"* ]]
	rad report --since 1h -o r.html --csv r.csv
	rad report --since 1h --json | jq -e '[.runs[0].gpus[].number] | sort == ["0", "1:0", "1:1", "1:2"]'
	grep "^[^,]*,$id," r.csv | grep -q ',1:0,'
	id=$(submit --share mig --gpu-mem 15G -- true)
	run rad why "$id"
	[[ "$output" == *"GPU 1:0: 1 task runs there, and a MIG instance takes one task at a time"* ]]
	[[ "$output" == *"GPU 1:1: drained by an administrator; \`rad undrain 1:1\` puts it back"* ]]
	rad undrain 1:1
	rad reserve --gpus 1:2 --user nobody --begin now+1h --for 1h | grep -q 'GPU 1:2'
}

@test "devices from a file whose name is not UTF-8: radd says how it is" {
	local file=$WORLD/caf$'\xe9'.yaml
	printf 'devices:\n  - model: a100-40g\n' >"$file"
	DEVICES=sim:$file start_radd
	rad version --json | jq -e '.radd != null'
	rad doctor --json | jq -e '.checks[] | select(.check == "daemon") | .grade == "ok" and (.text | endswith("/caf?.yaml"))'
}

@test "--log-level debug adds why tasks wait, GPU by GPU, and what events say" {
	local runs waits
	DEVICES=sim:1xa100-40g start_radd --log-level debug
	runs=$(submit --gpu-mem 30G -- sleep 100)
	waits=$(submit --gpu-mem 30G -- sleep 100)
	wait_for 20 grep -Eq "debug task $waits: GPU GPU-[^ ]*: .* available, .* short" "$WORLD/radd.log"	# the last line of it
	grep -Eq "debug task $waits: waits: Memory: " "$WORLD/radd.log"
	grep -Eq "debug task $runs: placed \{.*\"claim_mib\":30720" "$WORLD/radd.log"
	rad cancel "$runs"
	wait_state "$waits" RUNNING
	[ "$(grep -c "debug task $waits: waits: Memory: " "$WORLD/radd.log")" = 1 ]
}

@test "a temperature that the driver tells has a column, and no narrow one; without any there is none" {
	DEVICES=nvml start_radd
	wait_for 10 shows 0,1,2,3
	rad gpus --json | jq -e 'all(.gpus[]; .temperature_c == null)'
	[[ "$(rad gpus | head -n 1)" == *" W  SHARE "* ]]
	sed 's/"power_mw": 75000, /&"celsius": 61, /' "$RAD_FAKE_NVML" >"$RAD_FAKE_NVML.new"	# of the first: one is enough
	mv "$RAD_FAKE_NVML.new" "$RAD_FAKE_NVML"
	wait_for 10 sh -c 'rad gpus --json | jq -e ".gpus[0].temperature_c == 61"'
	run rad gpus
	[[ "${lines[0]}" == *" W   C  SHARE "* ]]
	[[ "${lines[1]}" == *" 75  61  idle"* ]]
	COLUMNS=70 run rad gpus
	[[ "${lines[0]}" != *" C "* ]]
	machine a b c d
}
