#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rad web: who gets what, what is pushed, and the page in a real browser (tests/browser.py; skipped without a chromium, which
# tools/deps --browser installs).

bats_require_minimum_version 1.5.0
load helpers.bash

setup_file()
{
	new_world
	make_users	# started as root, it asks as nobody
	start_radd
	BROWSER=$(command -v chromium || command -v chromium-browser || command -v google-chrome || :)
	export BROWSER
}

teardown_file() { end_world; }
setup() { cd "$WORLD/work"; }
teardown()
{
	stop_web
	[ -z "${between:-}" ] || kill "$between" 2>/dev/null || :
}

# start_web [options]: returns when it listens; $url is what it printed, $address and $token are in it. Of the user ${whose[@]} begins commands as.
start_web()
{
	local line
	mkfifo "$WORLD/said"
	"${whose[@]}" rad web --listen 127.0.0.1:0 "$@" >"$WORLD/said" 2>"$WORLD/web.err" 3>&- 4>&- &
	web=$!
	IFS= read -r -t 80 line <"$WORLD/said" || line=
	rm -f "$WORLD/said"
	url=${line#rad web: }
	address=${url#http://} address=${address%%/*}
	token=${url#*#token=}
	[ -n "$address" ] || { cat "$WORLD/web.err"; return 1; }
}

stop_web()
{
	[ -z "${web:-}" ] || { kill "$web" 2>/dev/null && gone "$web"; } || :
	web=
}

get() { curl -s --max-time 100 -H "Authorization: Bearer $token" "http://$address$1" "${@:2}"; }
status_of() { curl -s --max-time 100 -o out -w '%{http_code}' "http://$address$1" "${@:2}"; }

# events FILE: what is pushed goes there, until the test ends.
events()
{
	curl -sN -H "Authorization: Bearer $token" "http://$address/api/events" >"$1" 2>/dev/null 3>&- 4>&- &
}

# look WIDTH STEP...: see browser.py. What the steps came to is in ./seen.
look()
{
	[ -n "$BROWSER" ] || skip "no chromium here"
	timeout 250 python3 "$RAD_SOURCE_ROOT/tests/browser.py" "$BROWSER" "$WORLD/profile" "$url" "$@" >seen || { cat seen; return 1; }
	run ! grep complaint: seen
}

# ---- who gets what ----

@test "the empty page is everybody's, what it asks for wants the token" {
	start_web
	[ "${#token}" = 32 ]
	[ "$(status_of /)" = 200 ]
	[ "$(status_of /web.js)" = 200 ]
	for path in events?a=1 task?id=1 find?q=a history?hours=1; do
		[ "$(status_of "/api/$path" --max-time 30)" = 401 ]
		[ "$(status_of "/api/$path" -H "Authorization: Bearer ${token%?}x" --max-time 30)" = 401 ]
		[ "$(status_of "/api/$path&token=$token" --max-time 30)" = 401 ]
	done
	wait_for 60 eval "get '/api/history?hours=1' | jq -e '.gpus | length == 4'"	# means of 10 s: a radd that just began has none yet
	run ! grep -rq "$token" "/proc/$web/cmdline" "/proc/$web/environ"
	stop_web
	local old=$token
	start_web
	[ "$token" != "$old" ]
	stop_web
	start_web --no-token
	[ "$token" = "$url" ]
	[ "$(status_of '/api/history?hours=1')" = 200 ]
}

@test "who came by ssh is told how a browser gets here, others nothing" {
	SSH_CONNECTION="10.0.0.2 40000 10.0.0.1 22" start_web
	wait_for 10 grep -q "ssh -L ${address##*:}:$address " "$WORLD/web.err"
	stop_web
	start_web
	[ "$(status_of /)" = 200 ]
	[ ! -s "$WORLD/web.err" ]
}

@test "started as root, it says at once when its user may not reach radd; and what --port is here" {
	need_root
	local folder mode
	folder=$(dirname "$RAD_SOCKET")
	mode=$(stat -c %a "$folder")
	chmod 700 "$folder"
	start_web
	chmod "$mode" "$folder"
	wait_for 10 grep -q "^rad: web: uid [0-9]*, which asks radd, may not reach $RAD_SOCKET: .*--user=NAME" "$WORLD/web.err"
	run rad web --port 8080
	[ "$status" -eq 2 ]
	one_line_error "unknown option '--port': here it is --listen=PORT"
}

@test "browsers are forbidden what the page need not do; names and ways that are not ours are refused" {
	start_web
	for path in / /web.js /api/task?id=1 /nothing; do
		get "$path" -D headers -o out
		grep -qi "^content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; .*frame-ancestors 'none'" headers
		grep -qi '^x-content-type-options: nosniff' headers
		grep -qi '^referrer-policy: no-referrer' headers
		run ! grep -qi '^access-control\|^set-cookie\|unsafe' headers
	done
	run ! grep -qiE '(src|href|url|import) *[=(] *["'\'']?(https?:|//)' "$RAD_SOURCE_ROOT"/share/web/*
	[ "$(status_of / -H 'Host: rebound.example')" = 421 ]
	[ "$(status_of /api/task?id=1 -X POST -d x=y -H "Authorization: Bearer $token")" = 405 ]
	[ "$(status_of '/api/task?id=../1' -H "Authorization: Bearer $token")" = 400 ]
	[ "$(status_of '/api/task?id=999' -H "Authorization: Bearer $token")" = 404 ]
	[[ "$(jq -r .error out)" == "task 999: there is none"* ]]
	[ "$(status_of '/api/history?hours=9999999' -H "Authorization: Bearer $token")" = 400 ]
}

@test "what is pushed: GPUs and queue, changes as they come, and no arguments of processes" {
	local id
	start_web
	events stream
	wait_for 10 grep -q '^event: gpus' stream
	wait_for 10 grep -q '^event: queue' stream
	id=$(submit --gpu-mem 4G --name pushed -- rad simtask --mem 3G --seconds 600 --ramp 0.1)
	wait_for 10 eval 'sed -n "/^event: queue/{n;s/^data: //p}" stream | tail -n 1 | jq -e ".rows[] | select(.id == \"'"$id"'\") | .state == \"RUNNING\""'
	wait_for 10 eval 'sed -n "/^event: gpus/{n;s/^data: //p}" stream | tail -n 1 | jq -e "[.gpus[].tasks[]] == [\"'"$id"'\"] and .tasks.RUNNING == 1"'
	# radd tells their owner the arguments of processes; this page tells nobody.
	local owner=()
	[ "$(id -u)" != 0 ] || owner=(setpriv --reuid nobody --regid "$(id -g nobody)" --init-groups)
	RAD_SIM_DEVICES=$WORLD/state/sim-devices CUDA_VISIBLE_DEVICES=$(rad gpus --json | jq -r '.gpus[1].uuid') \
		"${owner[@]}" rad simtask --ramp 0 --seconds 600 --mem 3G >/dev/null 2>&1 3>&- 4>&- &
	local stranger=$!
	wait_for 10 grep -q '"program":"rad"' stream
	"${owner[@]}" rad gpus --json | jq -e '[.gpus[].processes[].command] | any(. != null and contains("--ramp"))'
	kill -9 "$stranger"
	run ! grep -q -- '--ramp' stream
	get "/api/task?id=$id" | jq -e '.task.id == "'"$id"'" and .why.state == "RUNNING" and ([.events[].event] | contains(["submitted", "placed"]))'
	rad cancel "$id"
	wait_for 10 eval 'sed -n "/^event: queue/{n;s/^data: //p}" stream | tail -n 1 | jq -e ".rows == []"'
}

@test "who comes when nobody has looked for a while is shown what is, not what was when somebody last did" {
	start_web
	local n=0
	visit() { get /api/events --max-time 3 >stream || :; }
	is_new() {
		n=$((n + 1))
		rad drain 1 --reason "by this its stream is found to have ended: $n" >/dev/null
		sleep 5	# what is shown may be as old as a reading: those come every 2 s or, from a busy radd, more seldom
		rad drain 1 --reason "reason $n" >/dev/null
		visit
		[ "$(sed -n '/^event: gpus/{n;s/^data: //p;q}' stream | jq -r '.gpus[1].drain.reason')" = "reason $n" ]
	}
	visit
	wait_for 90 is_new
	rad undrain 1
}

@test "why a task waits is told in the queue with the sentence that rad why has, of limits too" {
	local a b held later
	rad limit max_running=1 >/dev/null
	a=$(submit --gpu-mem 4G --name runs -- rad simtask --mem 3G --seconds 600 --ramp 0.1)
	wait_state "$a" RUNNING
	b=$(submit --gpu-mem 4G --name limited -- true)
	held=$(submit --hold --gpu-mem 4G --name kept -- true)
	later=$(submit --begin now+1hour --gpu-mem 4G --name later -- true)
	start_web
	events stream
	for id in "$b" "$held"; do
		wait_for 10 eval 'sed -n "/^event: queue/{n;s/^data: //p}" stream | tail -n 1 | jq -e --arg id "$id" \
			--arg text "$(rad why --json "$id" | jq -r .reason_text)" ".rows[] | select(.id == \$id) | .reason_text == \$text"'
	done
	rad why "$b" | grep -q 'UserLimit: user .* may have'
	look 1280 "document.querySelector('#queue').innerText.includes('UserLimit: user $(id -un) may have')" \
		"document.querySelector('#queue').innerText.includes('Held: held by a person')" \
		"/BeginTime: begins at (?!.*T[0-9:.]+Z).*--begin/.test(document.querySelector('#queue').innerText)" "width:390" \
		"!document.querySelector('#queue').innerText.includes('held by a person')" \
		"location.hash = '#task=$b'" "document.querySelector('#task').innerText.includes('UserLimit: user $(id -un) may have')"
	rad cancel "$a" "$b" "$held" "$later"
	rad limit max_running=default >/dev/null
}

@test "a task that was measured for hours shows the last of it among its events" {
	local a measured='{time: "2026-11-26T09:00:00.000Z", event: "measured", text: "peak " + i + "G"}'
	a=$(submit --hold --gpu-mem 4G --name measured -- true)
	start_web
	look 1280 "document.querySelectorAll('.card').length > 0" \
		"window.fetch = (real => async (...of) => { const r = await real(...of); if (!String(of[0]).includes('/api/task?')) return r;
			const said = await r.json(); said.events = [...said.events, ...[1, 2, 3].map(i => ($measured)), {...said.events[0], event: 'placed'},
			...[4, 5].map(i => ($measured))]; return new Response(JSON.stringify(said)); })(window.fetch), true" \
		"location.hash = '#task=$a'" "document.querySelector('#task').innerText.match(/peak .G/g).join() === 'peak 5G,peak 3G'"
	rad cancel "$a"
}

@test "at a glance: which GPU is idle, whose a task with a long name is, why a GPU is drained, when who waits is expected to start" {
	local a b long failed
	long=$(printf 'a-name-%.0s' 1 2 3 4 5 6 7 8 9 10)
	a=$(submit --gpu-mem 30G --time 1h --gpus 3 --name "$long" -- rad simtask --mem 3G --seconds 600 --ramp 0.1)
	wait_state "$a" RUNNING
	rad drain --reason 'fan broken' --until now+2h "$(rad gpus --json | jq -r '.gpus[] | select(.tasks == []) | .index')"
	b=$(submit --gpu-mem 30G --time 1h --gpus 3 --exclusive --name waits -- true)
	rad queue --start --json | jq -e --arg id "$b" '.starts[] | select(.id == $id) | .start_time'
	# What the columns that a phone has no room for say, and the end of a name, by which it differs from its likes.
	local brief="[...document.querySelectorAll('#queue .brief')].filter(e => e.offsetHeight).map(e => e.innerText).join()"
	local ends="(e => e.innerText.endsWith('a-name-') && e.getBoundingClientRect().right <= e.closest('td').getBoundingClientRect().right)(
		document.querySelector('#queue .name span + span'))"
	start_web
	look 390 "document.querySelector('#sums').innerText.startsWith('4 GPUs, 0 idle')" \
		"document.querySelector('#gpus').innerText.match(/ since .* until .*: fan broken/)" \
		"[...document.querySelectorAll('.card li.task small')].filter(u => u.innerText === '$(id -un)' &&
			u.getBoundingClientRect().right <= u.closest('.card').getBoundingClientRect().right).length === 3" \
		"/starts about [0-9]+:[0-9]+/.test(document.querySelector('#queue').innerText)" \
		"/[0-9]+ s left/.test($brief) && /waits [0-9]+ s/.test($brief)" "$ends" \
		"location.hash = '#task=$a'" "/^runs, .* left$/.test(document.querySelector('.glance').innerText.trim())" \
		"location.hash = '#task=$b'" "document.querySelector('#task').innerText.includes('as far as can be told')" \
		"document.querySelector('.glance').innerText.startsWith('waits, ')" "document.title.startsWith('Task $b: waits, ')" \
		"document.activeElement.id === 'task'"
	rad cancel "$a" "$b"
	rad undrain all
	wait_state "$a" CANCELLED
	wait_state "$b" CANCELLED
	failed=$(submit --name fails -- sh -c 'exit 3')
	wait_state "$failed" FAILED
	look 1280 "document.querySelector('#sums').innerText.startsWith('4 GPUs, 4 idle')" "$brief === ''" \
		"/% now, .* mean/.test(document.querySelector('.card').innerText)" \
		"JSON.parse = (real => text => { const said = real(text); for (const g of said.gpus || []) g.smact_source = 'expected'; return said; })(
			JSON.parse), true" "/% now, .* expected/.test(document.querySelector('.card').innerText)" \
		"location.hash = '#task=$failed'" "document.querySelector('.glance.bad').innerText === 'failed, exit code 3'"
}

# ---- slow, away ----

@test "streams are counted, and one that is not read holds up nobody" {
	start_web
	timeout 200 python3 - "${address#*:}" "$token" <<-'PY'
		import socket, sys, time
		port, token = int(sys.argv[1]), sys.argv[2]
		def ask(path):
		    s = socket.create_connection(("127.0.0.1", port), timeout=60)
		    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
		    return s
		streams = [ask("/api/events") for i in range(32)]
		assert all(s.recv(12) == b"HTTP/1.1 200" for s in streams)
		assert ask("/api/events").recv(12) == b"HTTP/1.1 503"
		assert ask("/").recv(12) == b"HTTP/1.1 200"
		streams.pop().close()
		until = time.monotonic() + 120		# noticed with the next event, or the next sign of life
		while ask("/api/events").recv(12) != b"HTTP/1.1 200":
		    assert time.monotonic() < until
		    time.sleep(0.2)
	PY
}

@test "Ctrl-C with pages open ends it with one line; a port that is taken, and no radd at all" {
	start_web
	events stream
	wait_for 10 grep -q '^event: gpus' stream
	run rad web --listen "$address"
	[ "$status" -eq 1 ]
	one_line_error 'another program listens there already'
	kill -INT "$web"
	gone "$web"
	wait "$web"
	[ "$(cat "$WORLD/web.err")" = 'rad: web: Interrupt: ended' ]
	RAD_SOCKET=$WORLD/$'nob\xf8dy.sock' start_web	# a name that has no form in JSON
	events stream
	wait_for 10 grep -q '"up":false,"why":"no radd listens' stream
	[ "$(status_of '/api/history?hours=1' -H "Authorization: Bearer $token")" = 502 ]
	jq -e '.error | startswith("no radd listens")' out
}

# viewers N PATH: so many ask for it, and each has sent its request; what they are answered lies in said.1, ...
viewers()
{
	rm -f said.* sent.*
	for i in $(seq "$1"); do
		curl -sv --max-time 200 -H "Authorization: Bearer $token" "http://$address$2" >"said.$i" 2>"sent.$i" 3>&- 4>&- &
	done
	for i in $(seq "$1"); do
		wait_for 30 grep -q '^> GET' "sent.$i"
	done
	get '/api/find?q=x' >/dev/null		# that request came later, and is answered
}

@test "several who look at the same have radd asked once" {
	id=$(rad submit --parsable --output /dev/null -- true)
	rad wait "$id"
	"$RAD_SOURCE_ROOT/tests/asked.py" "$RAD_SOCKET" "$WORLD/between.sock" "$WORLD/asked" "$WORLD/go" 3>&- 4>&- &
	between=$!
	wait_for 20 test -S "$WORLD/between.sock"
	RAD_SOCKET=$WORLD/between.sock start_web
	for path in "/api/task?id=$id" '/api/history?hours=24'; do
		rm -f "$WORLD/go" "$WORLD/asked"
		viewers 5 "$path"
		[ ! -s said.1 ]
		[ ! -s said.5 ]
		touch "$WORLD/go"
		for i in $(seq 5); do
			wait_for 60 test -s "said.$i"
			cmp "said.$i" said.1
		done
		sort "$WORLD/asked" | uniq -c | awk '{print $2, $1}' >asked.counts
		case $path in
		*task*) [ "$(cat asked.counts)" = $'events 1\ngpus 1\nshow 1\nwhy 1' ] ;;
		*) [ "$(cat asked.counts)" = $'acct 2\nseries 1' ] ;;
		esac
	done
	jq -e '.hours == 24 and (.users | length > 0)' said.5
}

@test "the end of a task's log, as rad logs has it, for who has the token; a file system that hangs holds up nobody" {
	local whose=() a b c file
	[ "$(id -u)" != 0 ] || whose=(as "$ALICE")
	a=$("${whose[@]}" rad submit --parsable --gpus 0 -- sh -c 'for n in $(seq 300); do echo "line $n"; done; \
		printf "10%%\r\033[32m20%%\033[0m\r\033]0;title\007done \377<b>\n"')
	mkfifo -m 666 "$WORLD/pipe"
	b=$("${whose[@]}" rad submit --parsable --gpus 0 --output "$WORLD/pipe" --hold -- true)
	rad wait "$a"
	start_web
	get "/api/log?id=$a" | jq -e '.text | startswith("line 102\n") and endswith("line 300\ndone ?<b>\n")'
	[ "$(status_of "/api/log?id=$a")" = 401 ]
	get "/api/log?id=$b" | jq -e '.error | contains("is not a regular file") or contains("has not started")'
	rad cancel "$b"
	get "/api/log?id=99999" | jq -e '.error == "task 99999: there is none"'
	# It ends in terabytes without a line's end: nobody gets to its last lines in time.
	file=$("${whose[@]}" rad show --json "$a" | jq -r '.tasks[0].log_path')
	truncate -s 8T "$file"
	curl -sZ --parallel-immediate --max-time 60 -H "Authorization: Bearer $token" -o 'late#1' "http://$address/api/log?id=$a&n=[1-12]" 3>&- 4>&- &
	get "/api/task?id=$a" | jq -e '.task.id'
	wait "$!"
	[ "$(cat late* | grep -o 'no answer within 5 s' | wc -l)" = 8 ]
	[ "$(cat late* | grep -o 'try again' | wc -l)" = 4 ]
	c=$("${whose[@]}" rad submit --parsable --gpus 0 -- echo whole)
	rad wait "$c"
	get "/api/log?id=$c" | jq -e '.text == "whole\n" and .note == null'
	stop_web
	start_web --no-token
	[ "$(status_of "/api/log?id=$c")" = 403 ]
}

@test "a Unix socket wants no token" {
	rad web --listen "unix:$PWD/web.sock" >out 3>&- 4>&- &
	web=$!
	wait_for 10 grep -q 'unix:' out
	curl -s --unix-socket web.sock 'http://proxy.example/api/history?hours=1' | jq -e '.gpus | length == 4'
	curl -s --unix-socket web.sock 'http://proxy.example/api/log?id=1' | jq -e '.error | contains("token")'
	kill "$web"
	gone "$web"
	mkdir -m 777 everybodys		# root's is nobody by its end
	chmod 755 "$WORLD" "$WORLD/work"
	cd everybodys
	rad web --listen unix:web.sock >out 3>&- 4>&- &	# a path that is not whole
	web=$!
	wait_for 10 grep -q "unix:.*web.sock" out
	[ -S web.sock ]
	kill "$web"
	gone "$web"
	[ ! -e web.sock ]
}

# ---- the page in a browser ----

@test "an empty server says so, without a table of nothing; cards are in nobody's way by keyboard" {
	start_web
	look 1000 "document.querySelector('#more').innerText === 'Nothing runs, and nothing waits.'" \
		"['queue', 'find'].every(id => document.getElementById(id).offsetParent === null)"
	rad drain 1 --reason loud --until now+2h
	local a
	a=$(submit --gpu-mem 4G -- rad simtask --mem 3G --seconds 600 --ramp 0.1)
	wait_state "$a" RUNNING
	look 1000 "document.querySelectorAll('#queue tbody tr').length === 1 && document.querySelector('#find').offsetParent !== null" \
		"[...document.querySelectorAll('.card a')].length === 1 && document.querySelector('.card a').tabIndex === -1" \
		"document.querySelector('#queue tbody a').tabIndex === 0" \
		"/since [0-9:]+ until [0-9:]+: loud/.test(document.querySelector('#gpus').innerText)" \
		"/A100-SXM4-40GB, [0-9]+ W/.test(document.querySelector('.card h3').innerText)"
	rad undrain 1
	rad cancel "$a"
}

@test "GPUs, queue, one task and the history, on a desk and on a phone" {
	local a b longer_named=()
	[ "$(id -u)" != 0 ] || longer_named=(as "$ALICE")
	a=$(submit --gpu-mem 4G --name ended -- rad simtask --mem 3G --seconds 1 --ramp 0.1)
	rad wait "$a"
	a=$("${longer_named[@]}" rad submit --parsable --gpu-mem 4G --name "seen-after-a-long-night-of-training-with-all-of-its-settings-in-its-name_lr=0.001_wd=0.1_seed=42" \
		-- rad simtask --mem 3G --seconds 600 --ramp 0.1)
	b=$(submit --gpu-mem 20G --gpus 4 --exclusive --name waits -- true)
	wait_state "$a" RUNNING
	start_web
	local steps=() width
	# On a phone nothing has to be moved sideways, not even a table.
	local fits="document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll('.wide')].every(e => e.scrollWidth <= e.clientWidth)"
	# What is renewed stays where it is, so that it can be marked; and who came to a link by keyboard goes along with its task.
	local row="[...document.querySelectorAll('#queue tbody tr')].find(r => r.innerText.includes('waits'))"
	local reached="(r => { window.link = r.querySelector('a'); link.focus(); window.row = r; window.was = r.cells[4].textContent; return true; })($row)"
	local stays="row.cells[4].textContent !== was && document.contains(link) && document.activeElement === link"
	local sought="(f => { f.value = 'waits'; return f.dispatchEvent(new Event('input')); })(document.querySelector('#find'))"
	local along="document.querySelectorAll('#queue tbody tr').length === 1 && document.activeElement.getAttribute('href') === '#task=$b'"
	look 360 "document.querySelector('#queue').innerText.includes('seen')" "$reached" "$stays" "$sought" "$along" "document.querySelector('#turns').hidden = false, true" "$fits" \
		"location.hash = '#task=$b'" "document.querySelector('#task .not').textContent.startsWith('✗ ')" "$fits" \
		"location.hash = '#task=$a'" "document.querySelector('#task').innerText.includes('Attempts')" "$fits" \
		"document.querySelector('#task td:nth-child(2)').dataset.label.length > 0" \
		"location.hash = '#history=1'" "document.querySelector('#history').innerText.includes('ended')" "$fits"
	# What sharing saved of less than a second is nothing to be told.
	local shared="window.gpu_s = 10, window.fetch = (ask => async (url, o) => { const r = await ask(url, o); if (!url.includes('history')) return r;
		return new Response(JSON.stringify({ ...await r.json(), users: [{ user: 'ann', tasks: 2, gpu_s, gpu_share_s: gpu_s / 5 }] })); })(fetch), true"
	look 1024 "document.querySelector('#queue').innerText.includes('seen')" "$fits" "width:660" "$fits" "$shared" \
		"location.hash = '#history=1'" "document.querySelector('#history').innerText.includes('80 % less')" "gpu_s = 2" \
		"location.hash = '#history=24'" "(text => text.includes('ann') && text.includes('2 s') && !text.includes('80 % less'))(document.querySelector('#history').innerText)"
	for width in 1280 390; do
		steps+=("width:$width" 'document.querySelectorAll(".card").length === 4' 'location.hash = "#x"'
			"document.querySelector('#queue').innerText.includes('seen')" "document.documentElement.scrollWidth <= $width"
			"[...document.querySelectorAll('#queue td:nth-child(3)')].every(e => { const r = document.createRange(); r.selectNodeContents(e); return r.getClientRects().length === 1; })"
			"[...document.querySelectorAll('#queue tbody tr')].every(e => e.offsetHeight < 90)"
			"(a => { a.textContent = '123456_78'; return a.getClientRects().length === 1; })(document.querySelector('#queue tbody a'))"
			"(right => right > 200 && right <= $width)(document.querySelector('#queue th:last-child').getBoundingClientRect().right)"
			"document.querySelector('#queue tbody tr:last-child td:last-child').textContent"
			"location.hash = '#task=$b'" "document.querySelector('#task').innerText.includes('wants its GPUs alone')"
			"document.querySelectorAll('#task .not').length >= 1" "document.documentElement.scrollWidth <= $width"
			"location.hash = '#history=1'" "document.querySelectorAll('#history [data-bar]').length >= 2"
			"document.documentElement.scrollWidth <= $width" "document.querySelector('#history').innerText.includes('ended')")
	done
	look 1280 "${steps[@]}" "!location.href.includes('$token')"
	grep -qE '"(Gpus|Busy): ' seen
	rad cancel "$a" "$b"
}

@test "who feeds whom: whose loader runs, who reads, at which rate, and what waits" {
	local a b slow name=web-$$ whose=()
	if [ "$(id -u)" = 0 ]; then	# figures of a feed are its user's, and root's page asks as nobody
		whose=(setpriv --reuid "$BOB" --regid "$(id -g "$BOB")" --init-groups env "HOME=$WORLD/$BOB")
		cd "$WORLD/$BOB"
	fi
	export PYTHONPATH=$RAD_SOURCE_ROOT/python PYTHONDONTWRITEBYTECODE=1 RADFEED_LIBRARY=$RAD_BUILD_ROOT/libradfeed.so
	unset RADFEED_DIR RAD_FEED
	"${whose[@]}" test -r "$PYTHONPATH/radrm/feed.py" -a -r "$RADFEED_LIBRARY" || skip "the source is not readable by others"
	cat >"$WORLD/train.py" <<-'PY'
		import os, sys, time
		import radrm.feed
		class Loader:
		    def __len__(self):
		        return 1000000
		    def __iter__(self):
		        for i in range(len(self)):
		            time.sleep(0.01)
		            yield [i, "x" * 1000]
		for number, batch in enumerate(radrm.feed.shared(Loader(), slots=4, join="now")):
		    while sys.argv[1] == "stops" and number == 5:
		        time.sleep(0.05)
	PY
	chmod 644 "$WORLD/train.py"
	train() { "${whose[@]}" rad submit --parsable --gpu-mem 500M --feed "$name" -- python3 "$WORLD/train.py" "$1"; }
	role() { "${whose[@]}" rad show --json "$1" | jq -e ".tasks[0].feed | $2"; }
	a=$(train reads)
	wait_for 60 role "$a" '.batches_s > 0'
	b=$(train reads)
	wait_for 60 role "$b" '.role == "reader" and .batches_s > 0'
	start_web
	local text='document.querySelector("#task").innerText' fits='document.documentElement.scrollWidth <= innerWidth'
	local there='document.querySelectorAll(".card").length > 0'
	look 1280 "$there" "location.hash = '#task=$a'" "$text.includes('$name: this task runs the loader for $a, $b')" "$fits" \
		"location.hash = '#task=$b'" "$text.includes('$name: task $a runs the loader')" \
		"/[1-9][0-9.]* batches\\/s, waited [0-9]+ % of the time/.test($text)" "width:400" "$fits"
	slow=$(train stops)
	wait_for 60 role "$b" '.waits_for == "producer"'
	look 400 "$there" "location.hash = '#task=$b'" "$text.includes('; waits for the loader')" "$fits" \
		"location.hash = '#task=$a'" "$text.includes('; the loader waits for $slow')" "$fits" \
		"$text.includes('for $a, $b, $slow')"
	stop_web
	if [ "$(id -u)" = 0 ]; then	# everybody else has what radd says: the name, and who said it
		local mine=("${whose[@]}")
		whose=()
		start_web
		look 1280 "$there" "location.hash = '#task=$b'" "/$name: ([0-9]+, ){2}[0-9]+\\n/.test($text)" "!$text.includes('batches/s')"
		whose=("${mine[@]}")
	fi
	"${whose[@]}" rad cancel "$a" "$b" "$slow"
}

@test "names are text, whatever they hold" {
	local evil='<img src=x onerror=document.documentElement.dataset.owned=1></script><script>alert(1)</script>' a b c whose=()
	[ "$(id -u)" != 0 ] || whose=(as "$ALICE")
	a=$(submit --gpu-mem 4G --name "$evil" -- rad simtask --mem 3G --seconds 600 --ramp 0.1)
	b=$(submit --hold --name "$evil" -- sh -c "echo '$evil'")
	c=$("${whose[@]}" rad submit --parsable --gpus 0 -- sh -c "echo '$evil'; exec sleep 600")
	wait_state "$a" RUNNING
	start_web
	look 1280 "document.querySelector('#queue').innerText.includes('onerror')" "document.querySelector('.card').innerText.length" \
		"document.querySelectorAll('img, main script').length === 0" \
		"location.hash = '#task=$b'" "document.querySelector('#task').innerText.includes('onerror')" \
		"location.hash = '#task=$c'" "document.querySelector('pre.log').innerText.includes('onerror')" \
		"location.hash = '#history=1'" "document.querySelectorAll('#history [data-bar]').length" \
		"location.hash = '#task=1%3Cimg%20src=x%3E'" "document.documentElement.dataset.owned === undefined" \
		"document.querySelectorAll('img, main script').length === 0"
	rad cancel "$a" "$b" "$c"
}

@test "a task that is submitted appears by itself; radd that goes away is said, and found again" {
	[ -n "$BROWSER" ] || skip "no chromium here"
	start_web
	timeout 250 python3 "$RAD_SOURCE_ROOT/tests/browser.py" "$BROWSER" "$WORLD/profile" "$url" 1280 \
		"document.querySelector('#more').innerText.includes('Nothing runs')" \
		"document.querySelector('#queue').innerText.includes('appears')" \
		"document.querySelector('#more').innerText.includes('Nothing runs')" \
		"/radd does not answer.*What is shown is from .*[0-9]:/.test(document.querySelector('#away').innerText) && document.querySelector('main.old') !== null" \
		"document.querySelector('#live').innerText === 'radd is away' && (location.reload(), true)" \
		"document.querySelector('#more').innerText === 'Not known.'" \
		"document.querySelector('#away').hidden && document.querySelector('#live').innerText === 'live'" >seen 3>&- 4>&- &
	local browser=$!
	# A browser's start takes a minute on a busy machine; it has a deadline for each step itself.
	has_seen() { [ "$(wc -l <seen)" -ge "$1" ] || ! kill -0 "$browser"; }
	wait_for 240 has_seen 1
	submit --hold --name appears -- true
	wait_for 240 has_seen 2
	rad cancel --all
	wait_for 240 has_seen 3
	stop_radd
	wait_for 240 has_seen 6	# the page that is opened meanwhile knows of no queue, and does not say that nothing waits
	start_radd
	wait "$browser"
	[ "$(grep -cx true seen)" -eq 7 ]
}

# What it leaves in the accounts is in the way of other tests.
@test "10,000 tasks wait: what is pushed stays small, and the search finds the last" {
	seq 230 | xargs -P 4 -I{} rad submit --hold --parsable --name 'single-{}' -- true >/dev/null
	local i
	for i in 1 2 3 4 5; do submit --hold --array=0-1999 --name "sweep-$i" -- true; done
	start_web
	events stream
	wait_for 20 grep -q '^event: queue' stream
	sed -n '/^event: queue/{n;s/^data: //p}' stream | tail -n 1 >queue.json
	[ "$(jq '.rows | length' queue.json)" = 200 ]
	[ "$(jq '([.rows[].n] | add) + .more' queue.json)" = 10230 ]
	[ "$(wc -c <queue.json)" -lt 100000 ]
	get '/api/find?q=sweep-5' | jq -e '.rows | length == 1 and .[0].n == 2000'
	get '/api/find?q=single-230' | jq -e '[.rows[].name] == ["single-230"]'
	get '/api/find?q=single' | jq -e '(.rows | length) == 200 and .more == 30'
	rad cancel --all >/dev/null
	get '/api/history?hours=1' >history.json
	jq -e '(.tasks | length) < 600 and .shorter and ([.users[].tasks] | add) > 10000' history.json
	# Asked the less often the longer the answer takes: half a minute at most.
	wait_for 45 eval 'sed -n "/^event: queue/{n;s/^data: //p}" stream | tail -n 1 | jq -e ".rows == []"'
}
