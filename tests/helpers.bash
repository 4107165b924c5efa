# SPDX-License-Identifier: MIT
# Shared by the system tests. Each file has a radd of its own on simulated devices; everything it makes lies under one
# temporary folder. Tests wait for events with a deadline, never for time to pass.

# A fresh folder, the socket's name, and short windows, so that what takes minutes on a server takes seconds here.
# A short path, since a socket's name may not have more than 107 characters.
new_world()
{
	WORLD=$(mktemp -d /tmp/rad-bats.XXXXXX)
	export WORLD
	export RAD_SOCKET=$WORLD/radd.sock RAD_NO_START=1 HOME=$WORLD RAD_STATE=$WORLD/own LC_ALL=C.UTF-8
	export RAD_CONFIG=$WORLD/rad.conf RAD_CLAIMS_DIR=
	unset COLUMNS RAD_DEVICES RAD_SIM_DEVICES CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER
	printf 'interval: 0.2\nwindow: 2\nsettle: 0.5\nwarm: 1\nkill_wait: 2\n' >"$RAD_CONFIG"
	mkdir -p "$WORLD/work"
	cd "$WORLD/work"
}

# start_radd [options]: returns when it answers; its pid is in $WORLD/pid.
start_radd()
{
	mkfifo "$WORLD/ready"
	radd --devices "${DEVICES:-sim:4xa100-40g}" --state "$WORLD/state" --ready-fd 7 "$@" \
		7>"$WORLD/ready" 3>&- 4>&- >>"$WORLD/radd.log" 2>&1 </dev/null &
	echo $! >"$WORLD/pid"
	local line
	IFS= read -r -t 80 line <"$WORLD/ready" || line="no answer in 80 s"
	rm -f "$WORLD/ready"
	[ "$line" = ok ] || { echo "radd: $line" >&2; cat "$WORLD/radd.log" >&2; return 1; }
}

# Devices of kind nvml are those of $RAD_FAKE_NVML, with a control daemon of MPS. Copies: the fakes look for their scripts
# beside themselves, and write there.
fake_driver()
{
	mkdir -p "$WORLD/fake"
	cp "$BATS_TEST_DIRNAME/fake-mps/nvidia-cuda-mps-control" "$WORLD/fake/"
	export RAD_MPS_CONTROL=$WORLD/fake/nvidia-cuda-mps-control RAD_FAKE_NVML=$WORLD/fake/nvml.json
	export RAD_NVML_LIBRARY=$RAD_BUILD_ROOT/tests/fake-nvml/libnvidia-ml.so.1 RAD_DCGM_LIBRARY=$WORLD/none.so
}

# How many control daemons of MPS run.
controls() { pgrep -f "^[^ ]*bash $RAD_MPS_CONTROL -f" | wc -l; }
no_controls() { [ "$(controls)" -eq 0 ]; }

# gone PID: waits until no such process is left; a zombie is none.
gone()
{
	local until=$((SECONDS + 80))
	while [ -e "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; do
		[ $SECONDS -lt $until ] || return 1
		read -r -t 0.05 <> <(:) || :
	done
}

# has_socket PID: whether that process has a connection open.
has_socket()
{
	ls -l "/proc/$1/fd" 2>/dev/null | grep -q 'socket:'
}

kill_radd()
{
	local pid
	pid=$(cat "$WORLD/pid")
	kill -9 "$pid"
	gone "$pid"
}

stop_radd()
{
	local pid
	pid=$(cat "$WORLD/pid" 2>/dev/null) || return 0
	kill "$pid" 2>/dev/null || return 0
	gone "$pid" || kill -9 "$pid"
}

# Ends what is still there, and waits for it.
end_tasks()
{
	rad cancel --all >/dev/null 2>&1 || :
	timeout 60 rad wait $(rad queue --json 2>/dev/null | jq -r '.tasks[].id') >/dev/null 2>&1 || :
}

# The same, and shows radd's log to whoever looks why a file failed.
end_world()
{
	end_tasks
	stop_radd
	# Where feeds of a user find each other; whose own ones are left alone.
	[ "$(id -u)" != 0 ] || rmdir "/tmp/radfeed-$(id -u "$ALICE")" "/tmp/radfeed-$(id -u "$BOB")" 2>/dev/null || :
	[ -z "${BATS_ERROR_STATUS:-}" ] || tail -n 40 "$WORLD/radd.log"
	cd /
	rm -rf "$WORLD"
}

# state ID: the state's word.
state() { rad show --json "$1" | jq -r '.tasks[0].state'; }
# field ID FILTER
field() { rad show --json "$1" | jq -r ".tasks[0]$2"; }
state_is() { [ "$(state "$1")" = "$2" ]; }
reason_is() { [ "$(field "$1" .reason)" = "$2" ]; }
# shim_of FILE: the shim of the task that wrote its pid into that file.
shim_of() { ps -o ppid= -p "$(cat "$1")" | tr -d ' '; }

# A deadline is for what never comes. Those below are met on a machine that does nothing else, and one that does much gets four times
# as long.

# wait_state ID STATE [SECONDS]
wait_state()
{
	local until=$((SECONDS + 4 * ${3:-15})) now
	while now=$(state "$1") && [ "$now" != "$2" ]; do
		[ $SECONDS -lt $until ] || { echo "task $1 is $now, not $2" >&2; rad show "$1" >&2; return 1; }
		read -r -t 0.1 <> <(:) || :
	done
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for()
{
	local until=$((SECONDS + 4 * $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $until ] || { echo "never: $*" >&2; return 1; }
		read -r -t 0.1 <> <(:) || :
	done
}

# submit ARGS...: prints the id.
submit() { rad submit --parsable "$@"; }

# A task that runs until the file is there (or five minutes are over), and says when it began.
until_file() { printf 'echo started; i=0; while [ ! -e %s ] && [ $i -lt 3000 ]; do i=$((i+1)); sleep 0.1; done' "$1"; }

# The last run printed one line that begins with "rad: " and holds the text.
one_line_error()
{
	[ "${#lines[@]}" -eq 1 ] || { printf 'expected one line:\n%s\n' "$output" >&2; return 1; }
	[[ "$output" == rad:\ * && "$output" == *"$1"* ]] || { printf 'expected "%s" in: %s\n' "$1" "$output" >&2; return 1; }
}

# Accounts that every system has stand for users, where the tests run as root.
ALICE=nobody BOB=daemon

need_root() { [ "$(id -u)" = 0 ] || skip "needs root: it is about several users"; }

# make_users: a folder in the world for each of them.
make_users()
{
	chmod 755 "$WORLD"
	[ "$(id -u)" = 0 ] || return 0
	install -d -m 755 -o "$ALICE" "$WORLD/$ALICE"
	install -d -m 755 -o "$BOB" "$WORLD/$BOB"
}

# as USER COMMAND...: in a folder of that user's.
as()
{
	local user=$1
	shift
	(cd "$WORLD/$user" && exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups env HOME="$WORLD/$user" "$@")
}
