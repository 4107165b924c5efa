#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tests/check-layers sees what it is there for: each rule is broken once, in a small tree of its own.

setup()
{
	tree=$BATS_TEST_TMPDIR/tree
	mkdir -p "$tree/src/base" "$tree/src/map" "$tree/src/core" "$tree/bench" "$tree/build/librad.a.p" "$tree/build/rad.p"
	source_file base/clock <<-'C'
	#include <time.h>
	long clock_mono_ms(void);
	long clock_mono_ms(void) { return (long)time(0); }
	C
	source_file map/ledger <<-'C'
	#include <string.h>
	unsigned ledger_length(const char *s);
	unsigned ledger_length(const char *s) { return (unsigned)strlen(s); }
	C
	program ledger_length clock_mono_ms
}

# program NAME...: a program that uses these functions.
program()
{
	for name; do echo "int $name();"; done >"$tree/main.c"
	{ echo 'int main(void) { return 0'; for name; do echo "+ $name()"; done; echo '; }'; } >>"$tree/main.c"
}

# source_file STAGE/FILE: its text on stdin.
source_file()
{
	{ echo '/* SPDX-License-Identifier: MIT */'; cat; } >"$tree/src/$1.c"
}

check()
{
	for file in "$tree"/src/*/*.c; do
		name=${file#"$tree"/}
		cc -O1 -c -o "$tree/build/librad.a.p/$(echo "$name" | tr / _).o" "$file"
	done
	cc -std=gnu11 -c -o "$tree/build/rad.p/main.c.o" "$tree/main.c"
	rm -f "$tree/build/librad.a"
	ar rcT "$tree/build/librad.a" "$tree"/build/librad.a.p/*.o
	run "$RAD_SOURCE_ROOT/tests/check-layers" "$tree" "$tree/build/librad.a" base task map account core daemon
}

# Fails, with that line and no other.
sees()
{
	check
	[ "$status" = 1 ] || { echo "passed: $output"; return 1; }
	[ "$output" = "$1" ] || { echo "said: $output"; return 1; }
}

# ledger C: another text of src/map/ledger.c; `ledger_length` stays.
ledger()
{
	{ cat; echo 'unsigned ledger_length(const char *s);'; echo "unsigned ledger_length(const char *s) $1"; } | source_file map/ledger
}

@test "a tree in order passes" {
	check
	[ "$status" = 0 ] || { echo "$output"; return 1; }
}

@test "a pure stage that asks a clock of base" {
	ledger '{ return (unsigned)clock_mono_ms() + (unsigned)*s; }' <<-'C'
	long clock_mono_ms(void);
	C
	sees 'src/map/ledger: pure, and calls clock_mono_ms of src/base/clock, which is not'
}

@test "a pure stage that asks a clock, the environment, a file, chance, or sleeps, whatever it includes" {
	for call in 'time(0)' '(long)getenv("HOME")' 'open("/etc/passwd", 0)' 'rand()' 'usleep(1)' 'fork()' 'socket(1, 1, 0)' \
		'(long)malloc(1)' 'printf("%s", s)'; do
		ledger "{ return (unsigned)($call) + (unsigned)*s; }" <<-'C'
		typedef unsigned long size_t;
		long time(long *), random(void);
		char *getenv(const char *);
		int open(const char *, int, ...), rand(void), usleep(unsigned), fork(void), socket(int, int, int), printf(const char *, ...);
		void *malloc(size_t);
		C
		name=${call%%(\"*}
		check
		[ "$status" = 1 ] || { echo "$call passed"; return 1; }
		case $output in
		'src/map/ledger: pure, and calls '*) ;;
		*) echo "$call: $output"; return 1 ;;
		esac
	done
}

@test "JSON is for the stages that print it" {
	ledger '{ return (unsigned)json_integer(*s); }' <<-'C'
	long json_integer(long long);
	C
	sees 'src/map/ledger: pure, and calls json_integer'
}

@test "jansson's own functions for text" {
	for call in 'json_pack("s", s)' 'json_string(s)' 'json_sprintf("%s", s)'; do
		source_file base/clock <<-C
		char *json_pack(const char *, ...), *json_string(const char *), *json_sprintf(const char *, ...);
		char *clock_mono_ms(const char *s);
		char *clock_mono_ms(const char *s) { return $call; }
		C
		sees "src/base/clock: calls ${call%%(*}, which has no JSON for text that is no UTF-8: base/json.h has a function that does"
	done
}

@test "a pure stage that remembers" {
	ledger '{ return n += (unsigned)*s; }' <<-'C'
	static unsigned n;
	C
	sees 'src/map/ledger: pure, and keeps n between calls (.bss)'
}

@test "a stage that calls a later one by a declaration of its own" {
	ledger '{ return core_count() + (unsigned)*s; }' <<-'C'
	unsigned core_count(void);
	C
	source_file core/core <<-'C'
	unsigned core_count(void);
	unsigned core_count(void) { return 1; }
	C
	sees 'src/map/ledger: calls core_count of the later stage core'
}

@test "a stage that includes a later one, and a header of clocks" {
	echo '/* SPDX-License-Identifier: MIT */' >"$tree/src/core/core.h"
	ledger '{ return (unsigned)*s; }' <<-'C'
	#include "core/core.h"
	#include <time.h>
	C
	CPATH=$tree/src sees 'src/map/ledger.c:2: map comes before core and may not include core/core.h
src/map/ledger.c:3: <time.h> in the pure stage map'
}

@test "two files that need each other" {
	ledger '{ return map_place(s); }' <<-'C'
	unsigned map_place(const char *s);
	C
	source_file map/map <<-'C'
	unsigned ledger_length(const char *s);
	unsigned map_place(const char *s);
	unsigned map_place(const char *s) { return *s ? ledger_length(s + 1) : 0; }
	C
	check
	[ "$status" = 1 ]
	case $output in
	*': a circle of files: map/'*' -> map/'*) ;;
	*) echo "$output"; return 1 ;;
	esac
}

@test "an extern that nobody uses, and one that is named for nothing" {
	ledger '{ return (unsigned)*s; }' <<-'C'
	int ledger_forgotten(void);
	int ledger_forgotten(void) { return 1; }
	C
	sees 'src/map/ledger: ledger_forgotten is extern and used by no other file'
	ledger '{ return (unsigned)*s; }' <<-'C'
	int helper(void);
	int helper(void) { return 1; }
	C
	program ledger_length clock_mono_ms helper
	sees 'src/map/ledger: the extern name helper begins with no name of its stage'
}

@test "what plugins of Slurm call is used, whether they were compiled or not" {
	ledger '{ return (unsigned)*s; }' <<-'C'
	int ledger_forgotten(void);
	int ledger_forgotten(void) { return 1; }
	C
	mkdir -p "$tree/slurm" "$tree/build/slurm/libplugin.so.p"
	echo 'int plugin(void) { return ledger_forgotten(); }' >"$tree/slurm/plugin.c"
	check
	[ "$status" = 0 ] || { echo "$output"; return 1; }
	echo 'int ledger_forgotten(); int plugin(void) { return 0; }' >"$tree/slurm/plugin.c"
	cc -std=gnu11 -c -o "$tree/build/slurm/libplugin.so.p/plugin.c.o" "$tree/slurm/plugin.c"
	sees 'src/map/ledger: ledger_forgotten is extern and used by no other file'
}

@test "two structs of one name, and a static function that is named as an extern one" {
	source_file map/map <<-'C'
	struct lane {
		int a;
	};
	static unsigned ledger_length(struct lane *l) { return (unsigned)l->a; }
	unsigned map_place(void);
	unsigned map_place(void) { struct lane l = { 1 }; return ledger_length(&l); }
	C
	cat >"$tree/src/map/plan.h" <<-'C'
	/* SPDX-License-Identifier: MIT */
	struct lane {
		int b;
	};
	C
	program ledger_length clock_mono_ms map_place
	sees 'src/map/map.c:5: ledger_length is the name of an extern one, too
src/map/plan.h:2: struct lane is something else in src/map/map.c:2'
}

@test "a function, and a line, that is too long" {
	{ echo 'unsigned ledger_length(const char *s);'; echo 'unsigned ledger_length(const char *s)'; echo '{'
	  for i in $(seq 60); do echo '	s++;'; done; echo '	return (unsigned)*s;'; echo '}'; } | source_file map/ledger
	sees 'src/map/ledger.c:66: function of 61 lines, 60 are allowed: unsigned ledger_length(const char *s)'
	ledger "{ return (unsigned)*s; } /* $(printf '%0100d' 0) */" </dev/null
	check
	case $output in
	*' characters, 128 are allowed') ;;
	*) echo "$output"; return 1 ;;
	esac
	ledger '{ return (unsigned)*s; }' </dev/null
	mkdir -p "$tree/python"
	printf 'x = "%0140d"\n' 0 >"$tree/python/wide.py"
	sees 'python/wide.py:1: 146 characters, 140 are allowed'
}

@test "a file without a licence" {
	sed -i 1d "$tree/src/base/clock.c"
	sees 'src/base/clock.c:1: no SPDX-License-Identifier: MIT in the first three lines'
}

@test "a line of a test that cannot fail" {
	mkdir -p "$tree/tests"
	printf '# SPDX-License-Identifier: MIT\n@test "x" {\n\t! %s\n\t[ 1 = 2 ] && [ 1 = 1 ]\n\t! grep x y || false\n}\n' 'grep x y' \
		>"$tree/tests/one.bats"
	sees "tests/one.bats:3: cannot fail its test: write '... || false', or a line for each
tests/one.bats:4: cannot fail its test: write '... || false', or a line for each"
}

@test "a page that the index does not name, links to no page and to no heading" {
	mkdir -p "$tree"/doc/decisions "$tree"/models "$tree"/examples "$tree"/tests "$tree"/workloads
	cat >"$tree/doc/README.md" <<-'MD'
	[errors](errors.md), [1](decisions/0001-one.md), [gone](gone.md#there), `src/map/ledger.c`, `src/map/lost.h`
	[a](errors.md#what-2-errors-say), [b](errors.md#what), [c](#words), [d](#Words)
	## `Words`
	MD
	printf '# What [2 Errors](x:y) say\n```\n# what\n```\n' >"$tree/doc/errors.md"
	touch "$tree/README.md" "$tree/doc/decisions/0001-one.md" "$tree/doc/decisions/0002-two.md"
	sees 'doc/decisions/0002-two.md:1: is not in doc/README.md
doc/README.md:1: links to gone.md, which is not there
doc/README.md:1: links to #Words, a heading that doc/README.md does not have
doc/README.md:1: links to #what, a heading that doc/errors.md does not have
doc/README.md:1: names src/map/lost.h, which is not there'
}

@test "HACKING: the files and functions that its walks name are there" {
	local n=0 where names name missing=
	while IFS='|' read -r where names; do
		for name in ${names//,/ }; do
			n=$((n + 1))
			grep -qrE --include='*.c' "^[a-z].*[ *]$name\(" "$RAD_SOURCE_ROOT/src/$where" || missing+=" $where:$name"
		done
	done < <(awk -F '  +' '/^```/ { on = !on } { sub(/^ +/, "") } on && $1 ~ /^[a-z]+(\/[a-z_]+\.c)?$/ { print $1 "|" $2 }' \
		"$RAD_SOURCE_ROOT/HACKING.md")
	[ -z "$missing" ] || { echo "not there:$missing"; return 1; }
	[ "$n" -gt 60 ]
}

@test "HACKING: every file of the two large folders is in its lists" {
	local file name pattern named missing=
	mapfile -t named < <(awk '/^### / { on = /large folders/ } on' "$RAD_SOURCE_ROOT/HACKING.md" | grep -o '`[a-z_*]*`' | tr -d '`')
	for file in "$RAD_SOURCE_ROOT"/src/daemon/*.c "$RAD_SOURCE_ROOT"/src/cli/*.c; do
		name=$(basename "$file" .c)
		[[ $name != test_* ]] || continue
		for pattern in "${named[@]}"; do
			[[ $name != $pattern ]] || continue 2
		done
		missing+=" $file"
	done
	[ -z "$missing" ] || { echo "not there:$missing"; return 1; }
}
