#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rad report: from files, from a radd's accounts, and the page in a real browser. The last need a chromium (tools/deps
# --browser installs it) and are skipped without one.

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	start_radd
	make_run=$RAD_SOURCE_ROOT/tests/report/make-run
	"$make_run" 3 1 1 three >three.json
	"$make_run" 90 4 2 exclusive >exclusive.json
	"$make_run" 90 4 3 'magm, mps' >magm.json
	"$make_run" 5000 4 4 many >many.json
	BROWSER=$(command -v chromium || command -v chromium-browser || command -v google-chrome || :)
	export BROWSER
}

teardown_file() { end_world; }
setup() { cd "$WORLD/work"; }

attempts() { jq -s '[.[].runs[].tasks[].attempts[].gpus | length] | add' "$@"; }

# look FILE WIDTH [PICTURES]: the page as a browser of that width leaves it is in ./dom, what it complained about in ./console. It
# stands in a frame, since no browser's window is as narrow as a phone, and tells of itself: with PICTURES after they got that
# width, and were drawn again.
look()
{
	[ -n "$BROWSER" ] || skip "no chromium here"
	local tell='document.documentElement.dataset.over = Math.max(0, ...[...document.querySelectorAll(".wide")].map(e => e.scrollWidth - e.clientWidth)); parent.postMessage([innerWidth, document.documentElement.scrollWidth, document.documentElement.outerHTML], "*")'
	[ -z "${3:-}" ] || tell="pictures.style.width = '$3px'; setTimeout(() => { $tell }, 1000)"	# of the browser's virtual time
	tell=$(sed 's/[&|\\]/\\&/g' <<<"<script>$tell</script>")
	sed "s|</body></html>\$|$tell&|" "$1" >inner.html
	cat >outer.html <<-END
		<!DOCTYPE html><iframe src=inner.html style="border: 0; width: $2px; height: 900px"></iframe><pre></pre><script>
		addEventListener('message', e => {
			document.documentElement.dataset.probe = e.data[0] + ' ' + e.data[1];
			document.querySelector('pre').textContent = e.data[2];
		});
		</script>
	END
	timeout 500 "$BROWSER" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --virtual-time-budget=20000 \
		--user-data-dir="$WORLD/profile" --enable-logging=stderr --window-size=1400,1000 --dump-dom \
		"file://$PWD/outer.html" >outer.dom 2>browser.log
	probe=$(sed -n 's/.*data-probe="\([0-9 ]*\)".*/\1/p' outer.dom | head -n 1)
	[ -n "$probe" ] || { tail -n 20 browser.log; return 1; }
	sed -n '/<pre>/,$p' outer.dom | sed 's/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' >dom
	grep -E 'CONSOLE|Uncaught' browser.log >console || :
}

bars() { grep -o 'data-bar="' dom | wc -l; }

# fits WIDTH: nothing sticks out to the right.
fits() { [ "${probe% *}" -eq "$1" ] && [ "${probe#* }" -le "$1" ] || { echo "asked for $1, got $probe"; return 1; }; }

# ---- files ----

@test "two runs side by side: one page that asks for nothing from outside" {
	rad report --title 'Two policies' -o two.html exclusive.json magm.json
	grep -q '<title>Two policies</title>' two.html
	grep -q '<td>exclusive</td><td class=n data-v=90>90</td>' two.html
	grep -q '<td>magm, mps</td>' two.html
	run ! grep -qiE '(src|href|url|import) *[=(] *["'\'']?(https?:|//)' two.html
}

@test "the same data as JSON and CSV" {
	rad report --json exclusive.json magm.json >both.json
	jq -e '.schema == 1 and (.runs | length) == 2 and (.runs[0].tasks | length) == 90 and .runs[1].name == "magm, mps"
		and (.runs[0].series | length) == 4 and all(.runs[].totals; .avg_wait_s > 0 and .lower_bound_s > 0)' both.json
	rad report -o again.json both.json
	[ "$(jq -S '.runs' again.json)" = "$(jq -S '.runs' both.json)" ]
	rad report --csv tasks.csv --series-csv series.csv both.json
	[ "$(wc -l <tasks.csv)" -eq $((1 + $(jq '[.runs[].tasks[].attempts | length] | add' both.json))) ]
	[ "$(wc -l <series.csv)" -eq $((1 + $(jq '[.runs[].series[].mem_mib | length] | add' both.json))) ]
}

@test "what the simulator prints is a run" {
	printf 'workload,gpus,solo_s,mem_mib,gract,smact\na,1,60,9000,.4,.3\nb,2,90,4000,.3,.2\n' >W.csv
	printf 'submit_s,workload\n0,a\n1,b\n2,a\n' >T.csv
	rad simulate --trace T.csv --workloads W.csv --devices 2xa100-40g --json >sim.json
	rad report --json sim.json | jq -e '.runs[0] | .name == "sim" and (.gpus | length) == 2 and (.tasks | length) == 3
		and (.tasks[1].attempts[0].gpus | sort) == [0, 1] and .totals.trace_total_s > 0 and .totals.lower_bound_s > 0'
}

@test "rad simulate --report: devices over time too" {
	printf 'workload,gpus,solo_s,mem_mib,gract,smact\na,1,60,9000,.4,.3\nb,1,90,4000,.3,.2\n' >W.csv
	printf 'submit_s,workload\n5,a\n6,b\n7,a\n' >T.csv
	simulate() { rad simulate --trace T.csv --workloads W.csv --devices 2xa100-40g "$@"; }
	simulate --placement magm --order fifo --report magm.json >/dev/null
	simulate --placement exclusive --report alone.json >/dev/null
	jq -e '.runs[0] | .name == "magm, oracle, mps" and [.gpus[].index] == [0, 1] and .gpus[0].mem_total_mib > 40000 and (.tasks | length) == 3
		and all(.series[]; .from_s == 0) and ([.series[].mem_mib[] | numbers] | max) > 9000
		and ([.series[].smact[]] | max) > 0.29 and ([.series[].power_w[]] | max) > 55' magm.json
	# Power times time is the energy that the simulator counted.
	jq -e '.runs[0] | ([.series[] | .step_s * (.power_w | add)] | add) as $e | $e / .totals.energy_j | . > 0.98 and . < 1.02' magm.json
	simulate --report one.html >/dev/null
	grep -q '<title>T.csv</title>' one.html
	rad report -o both.html magm.json alone.json
	grep -q '<td>exclusive</td>' both.html
	cp magm.json other.json
	rad report --json magm.json other.json | jq -e '[.runs[].name] == ["magm, oracle, mps", "other"]'
	run rad simulate --mix W.csv --devices 1xa100-40g --report x.html a
	[ "$status" -eq 2 ]
	one_line_error "--report is of a trace"
}

@test "bad files get one line" {
	echo '{"tasks":' >broken.json
	run rad report -o x.html broken.json
	[ "$status" -eq 2 ]
	one_line_error "broken.json:"
	echo '{"a":1}' >other.json
	run rad report -o x.html other.json
	[ "$status" -eq 2 ]
	one_line_error "other.json: neither a report's JSON"
	run rad report -o x.html missing.json
	one_line_error "missing.json"
	run rad report three.json
	[ "$status" -eq 2 ]
	run rad report -o none/x.html three.json
	[ "$status" -eq 1 ]
	one_line_error "none/x.html"
	[ ! -e x.html ]
}

# ---- a server ----

@test "what ran on this server" {
	local a b
	a=$(submit --gpu-mem 4G --name first -- rad simtask --mem 3G --seconds 2 --ramp 0.3)
	b=$(submit --gpu-mem 4G --name second -- rad simtask --mem 3G --seconds 2 --ramp 0.3)
	rad wait "$a" "$b"
	rad report --since 1h --json >server.json
	jq -e --arg a "$a" --arg b "$b" '.runs[0] | .origin != null and (.gpus | length) == 4 and (.gpus[0].mem_total_mib > 40000)
		and ([.tasks[].id] | contains([$a, $b])) and all(.tasks[]; .attempts[0].end_s > .attempts[0].start_s)
		and .totals.avg_exec_s > 0' server.json
	# What the GPUs showed meanwhile, beside it.
	jq -e '.runs[0].series as $s | ($s | length) == 4 and all($s[]; .from_s >= -61 and .step_s > 0)
		and ([$s[].mem_mib[] | numbers] | max) > 500 and ([$s[].smact[] | numbers] | max) > 0
		and ([$s[].power_w[] | numbers] | max) > 50' server.json
	rad report --since 1h -o server.html
	grep -q '<td>first</td>' server.html
}

# Of one user, summary and table of users agree.
agree()
{
	rad report --since 1h -o running.html
	python3 - <<-'PY'
		import re
		page = open("running.html").read()
		def row(section):
		    table = re.search(f"<section id={section}>.*?</table>", page, re.S).group()
		    return dict(zip(*(re.findall(f"<{cell}(?: [^>]*)?>(.*?)</{cell}>", table) for cell in ("th", "td"))))
		summary, user = row("summary"), row("users")
		assert len(user) > 8 and user.pop("User")
		assert all(summary[name] == value for name, value in user.items()), (summary, user)
	PY
}

@test "a running task is in it, open-ended" {
	local id id2
	id=$(submit --gpu-mem 4G --name endless -- sh -c "$(until_file go)")
	wait_state "$id" RUNNING
	rad report --json | jq -e --arg id "$id" '.runs[0].tasks[] | select(.id == $id) | .state == "RUNNING" and .attempts[0].end_s == null'
	rad report -u nobody --json | jq -e '.runs[0].tasks == []'
	# The page says of which tasks it is.
	rad report -u nobody --since 2020-01-01 --until 2020-02-01 --json | jq -e '.runs[0].note ==
		"tasks of nobody that ended from 2020-01-01 00:00:00 to 2020-02-01 00:00:00, and those that still run"'
	rad report --since 2020-01-01 -o whole.html
	grep -q '</b>: tasks that ended since 2020-01-01 00:00:00, and those that still run</p>' whole.html
	TZ=UTC rad report --since 1970-01-01 -o all.html
	grep -q '</b>: tasks that ended, and those that still run</p>' all.html
	TZ=UTC rad report --since 1970-01-01 --until 2020-02-01 -o until.html
	grep -q '</b>: tasks that ended until 2020-02-01 00:00:00, and those that still run</p>' until.html
	TZ=UTC rad report --since 1960-01-01 --until 1969-12-31 --json | jq -e '.runs[0].tasks == [] and .runs[0].note ==
		"tasks that ended until 1970-01-01 00:00:00, and those that still run"'
	# Of one user, summary and table of users agree: means of what has ended, hours and energy of what runs, too.
	wait_for 15 sh -c "rad show --json $id | jq -e '.tasks[0].attempts[0].energy_j > 0'"
	rad submit --wait --gpu-mem 1G true
	agree
	# The same while it waits to run again.
	rad drain all
	rad requeue "$id"
	wait_state "$id" PENDING
	agree
	rad undrain all
	# And attempts that ran out of memory, of a task that has not ended.
	id2=$(submit --gpu-mem 1G rad simtask --mem 3G --seconds 600)
	wait_for 30 sh -c "rad show --json $id2 | jq -e '.tasks[0] | .attempts[0].verdict == \"oom\" and .state != \"OUT_OF_MEMORY\"'"
	agree
	rad cancel "$id2"
	: >go
	rad wait "$id"
}

# ---- the page in a browser ----

@test "three tasks: as many bars as attempts, no complaint" {
	rad report -o three.html three.json
	look three.html 1200
	[ "$(bars)" -eq "$(attempts three.json)" ]
	[ ! -s console ]
	fits 1200
}

@test "two runs of 90 tasks on 4 GPUs, on a desk and on a phone" {
	rad report -o two.html exclusive.json magm.json
	look two.html 1200
	[ "$(bars)" -eq "$(attempts exclusive.json magm.json)" ]
	[ "$(grep -o 'class="gantt"' dom | wc -l)" -eq 2 ]
	[ "$(grep -o '<section class="series"' dom | wc -l)" -eq 4 ]	# memory, SMACT, GRACT, power
	grep -q 'id="compared"' dom
	grep -q 'id="estimates"' dom
	[ ! -s console ]
	look two.html 360
	[ "$(bars)" -eq "$(attempts exclusive.json magm.json)" ]
	[ ! -s console ]
	fits 360
}

@test "what users waited and ran stands beside their names, also when it is drawn again" {
	jq '.runs[0].tasks |= [.[] | .user = "user-" + (.name | tostring)]' three.json >users.json
	rad report -o users.html users.json
	for again in "" 600; do
		look users.html 1280 $again
		grep -o 'Mean waiting and execution: [^"]*' dom | tee drawn.$again
		[ "$(grep -o 'user-[a-z0-9_-]* [0-9]' drawn.$again | wc -l)" -ge 2 ]
	done
	cmp drawn. drawn.600
}

@test "at 1280 and 1300 px the tables of a server are whole: one clock, GPU hours by user, no estimate where there was none" {
	jq '.runs[0] |= (.origin = "2026-11-22T14:00:00.000Z" | .tasks |= [.[] | .id = "100000_12" | .user = "anna-lena.maier"
		| .state = "OUT_OF_MEMORY" | .name = "llama-7b-fine-tuning-with-a-long-name" | .submit_s = 86000 | .wait_s = 86000
		| .exec_s = 186000 | .jct_s = 286000 | .estimate = {"estimator": "none", "claim_mib": null}
		| .attempts[] |= (.claim_mib = 5120 | .mean_smact = 0.5 | .energy_j = 4e7 | .end_s = .start_s + 90000)]
		| .tasks[0].estimate.claim_mib = 40000)' three.json >long.json
	rad report --json long.json | jq -e '[.runs[0].tasks[].estimate.claim_mib] == [40000, null, null]'
	rad report -o long.html long.json
	run ! grep -qE '5\.0 GiB</td>' long.html
	grep -Eq '<td class=n data-v=270000>75\.0</td>' long.html	# three times 25 hours, and as shares the time of the GPU
	for width in 1280 1300; do
		look long.html $width
		grep -q 'data-over="0"' dom
		[ ! -s console ]
	done
	grep -q 'Energy, kWh' dom
	run ! grep -qE '[0-9] ?[AP]M\b' dom
	grep -Eq '>11-2[2-5] [0-2][0-9]:[0-9]{2}:[0-9]{2}<' dom
}

@test "who made place at the end of his time slot did not fail" {
	jq '.runs[0].tasks |= [.[] | .attempts |= [(.[0] | .verdict = "slot"), .[]]]' three.json >slots.json
	rad report -o slots.html slots.json
	run ! grep -q '<section id=failures>' slots.html
	look slots.html 1200
	[ "$(bars)" -eq "$(attempts slots.json)" ]
	grep -q '"bar again' dom
	run ! grep -q '"bar failed' dom
	[ ! -s console ]
}

@test "5000 tasks" {
	rad report -o many.html many.json
	look many.html 360
	[ "$(bars)" -eq "$(attempts many.json)" ]
	[ ! -s console ]
	fits 360
}

@test "names are text, whatever they hold" {
	local evil='<img src=x onerror=document.documentElement.dataset.owned=1></script><script>document.documentElement.dataset.owned=1</script>'
	jq --arg evil "$evil" '.runs[0] |= (.name = $evil | .note = $evil | .gpus[0].name = $evil | .tasks[].name = $evil
		| .tasks[].user = $evil | .tasks[].attempts[].evidence = $evil)' three.json >evil.json
	rad report --title "$evil" -o evil.html evil.json evil.json
	rad report --title $'caf\xe9' -o latin.html
	grep -q '<title>caf?</title>' latin.html
	look evil.html 1300
	[ "$(bars)" -eq 6 ]
	run ! grep -q 'data-owned\|<img' <(sed 's/<script[^>]*id="data".*//' dom)
	[ ! -s console ]
}

@test "nothing ran: the page says so much" {
	echo '{"runs":[{"name":"empty","tasks":[]}]}' >empty.json
	rad report -o empty.html empty.json
	look empty.html 360
	[ "$(bars)" -eq 0 ]
	grep -q 'Nothing ran\.' dom
	run ! grep -qE 'class="gantt"|0 tasks' dom
	[ ! -s console ]
	fits 360
}
