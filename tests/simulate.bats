#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rad simulate and rad trace: what they print, the one line that bad input gets, and that a radd places as the simulator does.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file() { new_world; }
teardown_file() { end_world; }

setup()
{
	cd "$WORLD/work"
	cat >W.csv <<-'END'
		workload,class,gpus,solo_s,mem_mib,gract,smact
		big,heavy,1,8,30000,.3,.2
		middle,medium,1,5,20000,.3,.2
		small,light,1,11,8000,.3,.2
		wide,heavy,2,6,12000,.3,.2
		half,light,1,,,,
	END
	printf 'submit_s,workload\n0,big\n1,small\n2,middle\n3,small\n4,wide\n5,big\n6,middle\n7,small\n8,small\n' >T.csv
}

simulate() { rad simulate --workloads W.csv --devices 2xa100-40g "$@"; }

@test "the result as JSON has what it must have" {
	simulate --trace T.csv --json | jq -e '.schema == 1 and .trace_total_s >= .lower_bound_s and .lower_bound_s > 0 and .oom == 0
		and .neighbours_lost == 0 and .energy_j > 0 and .mean_smact > 0 and .avg_jct_s >= .avg_exec_s and .p95_jct_s > 0
		and (.avg_wait_s + .avg_exec_s - .avg_jct_s | fabs) < 0.01 and (.tasks | length) == 9
		and all(.tasks[]; .state == "COMPLETED" and (.attempts | length) == 1)'
	simulate --trace T.csv | grep -q '^trace total time'
}

@test "exclusive is slower than sharing, and nothing is shared" {
	alone=$(simulate --trace T.csv --placement exclusive --json | jq .trace_total_s)
	shared=$(simulate --trace T.csv --json | jq .trace_total_s)
	jq -n -e "$alone > $shared"
	simulate --trace T.csv --placement exclusive --json | jq -e 'all(.tasks[].attempts[]; .mode == "exclusive" and
		.end_s - .start_s == .alone_s)'
}

@test "equal seeds give equal results, others differ" {
	simulate --trace T.csv --seed 3 --json >a
	simulate --trace T.csv --seed 3 --json >b
	simulate --trace T.csv --seed 4 --json >c
	cmp a b
	run ! cmp a c
}

@test "a mix on one device" {
	rad simulate --mix W.csv --devices 1xh200-141g --share mps --json big small |
		jq -e '.schema == 1 and .relative_speed == [1, 1] and .stp == 2'
	printf 'workload,gpus,solo_s,mem_mib,gract,smact\nfull,1,9,900,1,1\n' >full.csv
	rad simulate --mix full.csv --devices 1xh200-141g --share streams --json full full |
		jq -e '.relative_speed == [0.46, 0.46] and .stp == 0.92'
	rad simulate --mix full.csv --devices sim:1xh200-141g --json full | jq -e '.relative_speed == [1]'	# as radd has it
	run rad simulate --mix full.csv --devices 2xh200-141g full
	[ "$status" -eq 2 ]
	one_line_error "one device"
}

@test "columns under other names" {
	sed 's/solo_s/seconds/' W.csv >other.csv
	run rad simulate --workloads other.csv --trace T.csv --devices 2xa100-40g
	[ "$status" -eq 2 ]
	one_line_error "other.csv:1: has no column 'solo_s'"
	rad simulate --workloads other.csv --map solo_s=seconds --trace T.csv --devices 2xa100-40g >/dev/null
}

# refused STATUS TEXT ARGS...
refused()
{
	local want=$1 text=$2
	shift 2
	run rad "$@"
	[ "$status" -eq "$want" ] || { printf 'status %s: %s\n' "$status" "$output" >&2; return 1; }
	one_line_error "$text"
}

@test "bad input gets one clear line" {
	local base=(simulate --workloads W.csv --devices 2xa100-40g --trace)
	printf 'submit_s,workload\n5,big\n1,big\n' >order.csv
	refused 2 "order.csv:3: submit_s 1 is before that of line 2" "${base[@]}" order.csv
	printf 'submit_s,workload\n5,biggish\n' >unknown.csv
	refused 2 "unknown.csv:2: no workload is called 'biggish'" "${base[@]}" unknown.csv
	printf 'submit_s,workload\r\n-5,big\r\n' >negative.csv
	refused 2 "negative.csv:2: submit_s: '-5'" "${base[@]}" negative.csv
	printf 'submit_s\n5\n' >missing.csv
	refused 2 "missing.csv:1: has no column 'workload'" "${base[@]}" missing.csv
	printf 'submit_s,workload\n0,half\n' >empty.csv
	refused 2 "empty.csv:2: workload 'half' has no solo_s in W.csv:6" "${base[@]}" empty.csv
	refused 2 "T.csv:2: big fits no device" simulate --workloads W.csv --devices 2xv100-16g --trace T.csv
	refused 2 "T.csv:6: wide fits no device: 2 GPUs wanted" simulate --workloads W.csv --devices 1xa100-40g --trace T.csv
	refused 2 "no simulated device is called 'abacus'" simulate --workloads W.csv --devices 4xabacus --trace T.csv
	refused 1 "none.csv: No such file" simulate --workloads W.csv --devices 2xa100-40g --trace none.csv
	refused 2 "'best' is no placement policy" "${base[@]}" T.csv --placement best
	refused 2 "no estimator 'guess' for simulations; there are: oracle" "${base[@]}" T.csv --estimator guess
	refused 2 "W.csv: has no column 'horus_mib'" "${base[@]}" T.csv --estimator horus
	refused 2 "--max-smact: '7'" "${base[@]}" T.csv --max-smact 7
	refused 2 "no order of the queue" "${base[@]}" T.csv --order random
	refused 2 "--max-slowdown: '0.5'" "${base[@]}" T.csv --max-slowdown 0.5
	refused 2 "--pass-max: 'soon'" "${base[@]}" T.csv --pass-max soon
	refused 2 "--loads: 'some': learnt, guessed or known" "${base[@]}" T.csv --loads some
	refused 2 "needs --devices and" simulate --trace T.csv
}

@test "a cluster is run in four ways" {
	rad trace make --like philly --tasks 300 --interval 60 --seed 2 --longest 20000 -o P.csv
	sed -i 's/,\(32\|64\|128\),/,16,/' P.csv
	for way in whole shard-declared shard-estimated node; do
		rad simulate --trace P.csv --devices 8x8xa100-40g --cluster "$way" --seed 3 --json >"$way.json"
		jq -e --arg way "$way" '.schema == 1 and .cluster == $way and .nodes == 8 and .gpus == 64 and .jobs == 300 and .failed == 0
			and .trace_total_s >= .lower_bound_s and .gpu_hours > 0 and .energy_j > 0 and .avg_jct_s >= .avg_exec_s
			and .p95_wait_s >= .p50_wait_s and (.avg_wait_s + .avg_exec_s - .avg_jct_s | fabs) < 0.01' "$way.json"
	done
	jq -e '.oom == 0 and .sent_back == 0' whole.json
	jq -n -e '[inputs.avg_wait_s] | .[1] < .[0]' whole.json shard-estimated.json
	rad simulate --trace P.csv --devices 8x8xa100-40g --seed 3 --json | cmp - node.json	# what several nodes are without --cluster
	rad simulate --trace P.csv --devices 8x8xa100-40g --cluster whole | grep -q '^300 jobs on 8 nodes, 64 GPUs, cluster whole'
	rad simulate --trace P.csv --devices 8x8xa100-40g --cluster node --nodes spread --node-wait 600 --requeue-delay 5 --bf-depth 0 \
		--cpus-per-node 64 --cpus-per-gpu 4 --json | jq -e '.failed == 0'
}

@test "one server is one node of a cluster where that is said" {
	simulate --trace T.csv --cluster whole --json | jq -e '.nodes == 1 and .gpus == 2 and .jobs == 9'
	simulate --trace T.csv --json | jq -e '.cluster == null and (.tasks | length) == 9'
}

@test "clusters that cannot be get one clear line" {
	local trace=(simulate --workloads W.csv --trace T.csv --devices)
	refused 2 "'0x8xa100-40g': number of nodes: '0'" "${trace[@]}" 0x8xa100-40g
	refused 2 "simulated devices '0xa100-40g': number of devices: '0'" "${trace[@]}" 8x0xa100-40g
	refused 2 "number of nodes: '99999999999999999999'" "${trace[@]}" 99999999999999999999x8xa100-40g
	refused 2 "more than 131072 simulated devices" "${trace[@]}" 100000x8xa100-40g
	refused 2 "no simulated device is called ''" "${trace[@]}" 512x8x
	refused 2 "no simulated device is called 'abacus'" "${trace[@]}" 512x8xabacus
	refused 2 "no simulated device is called '2xa100-40g'" "${trace[@]}" 2x2x2xa100-40g
	refused 2 "a node of a cluster has at most 64 GPUs, not 65" "${trace[@]}" 2x65xa100-40g
	refused 2 "clusters are of whole GPUs" "${trace[@]}" 2x1xa100-40g/mig=3g.20gb
	refused 2 "--cluster: 'half': whole, shard-declared, shard-estimated or node" "${trace[@]}" 2x2xa100-40g --cluster half
	refused 2 "--nodes: 'many': spread or packed" "${trace[@]}" 2x2xa100-40g --nodes many
	refused 2 "--requeue-delay: '-1'" "${trace[@]}" 2x2xa100-40g --requeue-delay -1
	refused 2 "--nodes is of clusters" "${trace[@]}" 2xa100-40g --nodes spread
	refused 2 "--report is of one server" "${trace[@]}" 2x2xa100-40g --report x.html
	refused 2 "no estimator 'none' for clusters" "${trace[@]}" 2x2xa100-40g --estimator none
	refused 2 "wide wants 2 GPUs: no 1 nodes of 1 GPUs" "${trace[@]}" 1xa100-40g --cluster whole
	refused 2 "--mix is of one device" simulate --mix W.csv --devices 2x1xa100-40g big
}

@test "tasks of a trace have times, GPUs and declarations of their own" {
	printf 'submit_s,workload,solo_s,gpus,declared_mib,limit_s\n0,small,20,,,\n0,small,,2,9000,60\n' >own.csv
	simulate --trace own.csv --json >own.json
	jq -e '[.tasks[].attempts[0].gpus | length] == [1, 2] and .tasks[1].estimate.claim_mib == 9000' own.json
	jq -e '.tasks[0].exec_s >= 20 and .tasks[1].exec_s < 20' own.json
	printf 'submit_s,workload,gpus\n0,small,1.5\n' >half.csv
	refused 2 "half.csv:2: gpus: '1.5' is not a whole number" simulate --workloads W.csv --devices 2xa100-40g --trace half.csv
	printf 'submit_s,workload,gpus\n0,small,99999\n' >wide.csv
	refused 2 "wide.csv:2: gpus: '99999'" simulate --workloads W.csv --devices 2xa100-40g --trace wide.csv
	printf 'submit_s,workload,gpus\n0,small,65\n' >wide.csv
	refused 2 "wide.csv:2: wants 65 GPUs, on one server a task has at most 64" simulate --workloads W.csv --devices 80xa100-40g --trace wide.csv
	printf 'submit_s,workload,solo_s\n0,small,-1\n' >neg.csv
	refused 2 "neg.csv:2: solo_s: '-1'" simulate --workloads W.csv --devices 2xa100-40g --trace neg.csv
}

@test "traces like Philly's are the same for a seed" {
	rad trace make --like philly --tasks 500 --seed 5 -o a.csv
	rad trace make --like philly --tasks 500 --seed 5 | cmp - a.csv
	rad trace make --like philly --tasks 500 --seed 6 -o b.csv
	run ! cmp -s a.csv b.csv
	[ "$(head -n 1 a.csv)" = submit_s,workload,gpus,solo_s,declared_mib,limit_s ]
	[ "$(wc -l <a.csv)" -eq 501 ]
	awk -F, 'NR > 1 { n++; one += $3 == "" || $3 == 1; bad += $4 > 172800 || $6 < $4 || $1 < last; last = $1 }
		END { exit !(one / n > .88 && one / n < .98 && bad == 0) }' a.csv
	refused 2 "--like: 'helios': philly" trace make --like helios
	refused 2 "--mix: those of --like philly have their own" trace make --like philly --mix light=1
	refused 2 "--longest goes with --like philly" trace make --longest 60
	grep -v ,medium, W.csv >none.csv
	refused 2 "none.csv: has no workload of one GPU of class medium" trace make --like philly --workloads none.csv
}

@test "a trace can be printed by -o -, results and a page not on one output" {
	rad trace make --tasks 5 -o - >made.csv
	[ "$(head -n 1 made.csv | cut -d, -f 1,2)" = submit_s,workload ]
	[ ! -e - ]
	run -2 simulate --trace T.csv --report -
	one_line_error "--report: standard output has the results: name a file"
	run -1 --separate-stderr simulate --trace T.csv --report /dev/full
	[[ "$output" == *"trace total time"* ]]
	[[ "$stderr" == "rad: /dev/full: No space left on device" ]]
}

@test "the catalogue is in the program: traces are made and run with no other file" {
	mkdir alone && cd alone
	rad trace make --tasks 12 --seed 4 -o made.csv
	rad simulate --trace made.csv --devices 2xa100-40g --json | jq -e '(.tasks | length) == 12 and .trace_total_s > 0'
	rad simulate --mix catalogue --devices 1xh200-141g vgg16-imagenet-b64 vgg16-imagenet-b64 --json | jq -e '.stp > 1'
	[ "$(ls)" = made.csv ]
}

@test "a plan is quicker than backfill where times are known, and says so" {
	rad trace make --tasks 40 --mix medium=83,heavy=17 --interval 100 --seed 2 -o made.csv
	total() { rad simulate --trace made.csv --devices 4xa100-40g --placement gain --loads known --json "$@" | jq .trace_total_s; }
	awk -v plan="$(total --order plan)" -v back="$(total --order backfill)" 'BEGIN { exit !(plan < back) }'
}

@test "guesses of loads and lines of progress are used, and are the same each time" {
	rad trace make --tasks 40 --mix medium=83,heavy=17 --interval 100 --seed 2 -o made.csv
	total() { rad simulate --trace made.csv --devices 4xa100-40g --placement gain --order plan --json "$@" | jq .trace_total_s; }
	[ "$(total --progress-lines yes)" != "$(total)" ]
	[ "$(total --loads guessed)" != "$(total)" ]
	[ "$(total --loads guessed --progress-lines yes)" = "$(total --loads guessed --progress-lines yes)" ]
	refused 2 "--loads guessed goes with --estimator oracle" simulate --trace made.csv --loads guessed --estimator none
	refused 2 "--progress-lines: 'often': yes or no" simulate --trace made.csv --progress-lines often
}

@test "traces are made, the same for a seed" {
	rad trace make --workloads W.csv --tasks 40 --mix light=1,heavy=1 --seed 5 -o made.csv || [ $? -eq 1 ]
	sed -i '/^half/d' W.csv
	rad trace make --workloads W.csv --tasks 40 --mix light=1,heavy=1 --seed 5 -o made.csv
	rad trace make --workloads W.csv --tasks 40 --mix light=1,heavy=1 --seed 5 | cmp - made.csv
	[ "$(grep -c small made.csv)" -eq 20 ]
	simulate --trace made.csv --json | jq -e '(.tasks | length) == 40'
}

@test "a trace that is run on a radd: what it says of a task alone counts there as in a simulation" {
	printf 'workload,gpus,solo_s,mem_mib,gract,smact,declared_mib\nown,1,30,2000,.5,.4,3000\n' >own-W.csv
	printf 'submit_s,workload,gpus,solo_s,declared_mib\n0,own,,,\n0,own,2,8,5000\n' >own-T.csv
	rm -rf "$WORLD/state"
	DEVICES=sim:2xa100-40g start_radd
	rad trace run own-T.csv --workloads own-W.csv --speed 100 >submitted
	timeout 200 rad wait $(cut -d' ' -f1 submitted)
	rad show --json $(cut -d' ' -f1 submitted) | jq -e '[.tasks[] | .gpus_requested, .estimate.need_mib, (.command | match("--seconds ([^ ]+)").captures[0].string)]
		== [1, 3000, "0.300", 2, 5000, "0.080"]'
	stop_radd
}

@test "a window of a log has a length" {
	printf 'submit,duration_s,gpus\n0,10,1\n5,10,1\n100,20,1\n' >log.csv
	[ "$(rad trace import log.csv --length 1 | wc -l)" -eq 2 ]
	[ "$(rad trace import log.csv --length 6 | wc -l)" -eq 3 ]
	refused 2 "--length: '0' is not a number from 1" trace import log.csv --length 0
}

# Placements in their order: task, GPUs by their place in the list, and how the attempt ended. Only what is 1 s apart is surely
# in the same order, so traces are made so. Both read the same file: `same_placements DEVICES CONFIG ESTIMATOR`.
same_placements()
{
	local devices=$1 config=$2 estimator=$3
	printf 'interval: 0.2\n%b' "$config" >"$RAD_CONFIG"	# the windows of a server, as the simulator has them
	rm -rf "$WORLD/state"
	DEVICES=sim:$devices start_radd
	awk -F, -v OFS=, 'NR > 1 { $1 *= 10 } 1' T.csv >slow-T.csv
	awk -F, -v OFS=, 'NR > 1 && $4 != "" { $4 *= 10 } 1' W.csv >slow-W.csv
	rad trace run slow-T.csv --workloads slow-W.csv --speed 10 --estimator "$estimator" >submitted
	timeout 200 rad wait $(cut -d' ' -f1 submitted) || :
	rad gpus --json | jq '[.gpus[].uuid] | sort_by(.[-12:]) | to_entries | map({key: .value, value: .key}) | from_entries' >gpus.json
	rad show --json $(cut -d' ' -f1 submitted) | jq -c --slurpfile gpu gpus.json '[.tasks[] | . as $t | .attempts[] |
		{start, id: ($t.id | tonumber), verdict, gpus: ([.gpus[] | $gpu[0][.]] | sort)}] |
		sort_by(.start) | map([.id, .gpus, .verdict])' >real
	rad simulate --workloads W.csv --devices "$devices" --trace T.csv --estimator "$estimator" \
		--config "$RAD_CONFIG" --json | jq -c '[.tasks[] |
		. as $t | .attempts[] | {start: .start_s, id: ($t.id | tonumber), verdict, gpus: (.gpus | sort)}] |
		sort_by(.start) | map([.id, .gpus, .verdict])' >simulated
	stop_radd
	cat real simulated
	cmp real simulated
}

@test "a radd places as the simulator does, in the same order" {
	# Under fifo two of these start within a third of a second, on GPUs that become free one after the other.
	same_placements 2xa100-40g "placement: magm\norder: strict\n" oracle
	[ "$(jq length real)" -eq 9 ]
}

@test "the same with short windows: what a server has learnt by then, the simulator has too" {
	cat >W.csv <<-'END'
		workload,class,gpus,solo_s,mem_mib,gract,smact
		long,light,1,14,6000,.2,.2
		short,light,1,4,6000,.2,.2
	END
	printf 'submit_s,workload\n0,long\n1,short\n2,short\n3,long\n' >T.csv
	same_placements 1xa100-40g "window: 3\nsettle: 1\nwarm: 3\n" none
	# The second waited for the first to be known, not for its end.
	jq -e 'map(.[2]) | all(. == "ok")' real
	rad simulate --workloads W.csv --devices 1xa100-40g --trace T.csv --estimator none --config "$RAD_CONFIG" --json |
		jq -e '.tasks | .[1].start_s < .[0].end_s - 5'
}

@test "the same with an out-of-memory, its recovery, and MIG instances" {
	cat >W.csv <<-'END'
		workload,class,gpus,solo_s,mem_mib,gract,smact
		hog,heavy,1,9,30000,.3,.2
		small,light,1,4,6000,.3,.2
		tiny,light,1,3,2000,.3,.2
	END
	# The second comes when the first has all its memory: while both take it, either may be the one that finds none.
	printf 'submit_s,workload\n0,hog\n4,hog\n6,small\n7,tiny\n8,tiny\n' >T.csv
	same_placements 1xa100-40g,1xa100-40g/mig=2g.10gb+1g.5gb "ledger: off\n" none
	jq -e 'map(select(.[2] == "oom")) | length >= 1' real
	jq -e 'map(.[0]) | group_by(.) | map(length) | max > 1' real	# it ran again
	jq -e 'map(select(.[1] != [0])) | length >= 1' real		# an instance was used
}

@test "MIG instances: one task each, at the speed of their SMs, and only those that fit" {
	printf 'workload,gpus,solo_s,mem_mib,gract,smact\nhalf,1,100,3000,.9,.5\nlarge,1,100,30000,.9,.5\n' >M.csv
	printf 'submit_s,workload\n0,half\n0,half\n0,half\n' >three.csv
	rad simulate --workloads M.csv --trace three.csv --devices 1xa100-40g/mig=3g.20gb+1g.5gb --share mig --json >mig.json
	jq -e '[.tasks[].attempts[].mode] | unique == ["mig"]' mig.json
	# 42 and 14 of 108 SMs, and half of them wanted
	jq -e '[.tasks[].attempts[] | .end_s - .start_s | round] == [129, 386, 129]' mig.json
	jq -e '[.tasks[].attempts[].gpus[0]] == [0, 1, 0]' mig.json
	jq -e '.lower_bound_s <= .trace_total_s' mig.json
	printf 'submit_s,workload\n0,large\n' >large.csv
	refused 2 "large fits no device: 29.3G of GPU memory wanted" simulate --workloads M.csv --trace large.csv \
		--devices 1xa100-40g/mig=3g.20gb+1g.5gb
	refused 2 "it has: 1g.5gb 2g.10gb" simulate --workloads M.csv --trace three.csv --devices a100-40g/mig=3g.40gb
	refused 2 "8 of 7 compute" simulate --workloads M.csv --trace three.csv --devices a100-40g/mig=4g.20gb+4g.20gb
	refused 2 "a simulated v100-16g has no profiles" simulate --workloads M.csv --trace three.csv --devices v100-16g/mig=1g.5gb
	refused 2 "there is no MIG instance here" simulate --workloads M.csv --trace three.csv --devices a100-40g --share mig
}
