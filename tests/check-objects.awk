# SPDX-License-Identifier: MIT
# The rules of check-layers that objects show; reads `nm -A -f sysv` of the library and of the programs. Objects are named as
# Meson names them: src_STAGE_FILE.c.o for src/STAGE/FILE.c.

function bad(object, text) { print "src/" object ": " text }

# "STAGE: name name ..." lines into set[STAGE, name].
function read_rows(text, set,   n, i, row, at, stages, names, s, m, k, j)
{
	n = split(text, row, "\n")
	for (i = 1; i <= n; i++) {
		sub(/\t.*/, "", row[i])
		at = index(row[i], ": ")
		if (!at) continue
		s = split(substr(row[i], 1, at - 1), stages, " ")
		m = split(substr(row[i], at + 2), names, " ")
		for (k = 1; k <= s; k++) for (j = 1; j <= m; j++) set[stages[k], names[j]] = 1
	}
}

function read_list(text, set,   n, i, list)
{
	n = split(text, list, " ")
	for (i = 1; i <= n; i++) set[list[i]] = 1
}

function read_names(text,   n, i, pair, kv)
{
	n = split(text, pair, "\n")
	for (i = 1; i <= n; i++) {
		split(pair[i], kv, "=")
		gsub(/,/, " ", kv[2])
		prefixes[kv[1]] = prefixes[kv[1]] " " kv[2]
	}
}

BEGIN {
	FS = "|"
	n = split(order, list, " ")
	for (i = 1; i <= n; i++) at_stage[list[i]] = i
	read_list(pure, is_pure)
	read_list(pure_files, is_pure)
	read_list(compiler, may_call)
	read_list(text_calls, is_text_call)
	read_rows(calls, may)
	read_rows(excepted, may)
	read_rows(for_tests, for_test)
	read_names(stems)
	read_names(words)
	n = split(plugins, list, " ")
	for (i = 1; i <= n; i++) used[list[i]] = " slurm"
}

function stage_of(object) { return substr(object, 1, index(object, "/") - 1) }

function pure_object(object) { return (object in is_pure) || (stage_of(object) in is_pure) }

# The name that the source used: checked variants and those of a version of C are the compiler's.
function plain(symbol)
{
	if (symbol ~ /^__.*_chk$/) return substr(symbol, 3, length(symbol) - 6)
	sub(/^__isoc[0-9]+_/, "", symbol)
	sub(/^__/, "", symbol)
	return symbol
}

NF >= 7 && $3 ~ /^ *[A-Za-z] *$/ {
	split($1, path, ":")
	symbol = $1; sub(/.*:/, "", symbol); sub(/ *$/, "", symbol)
	class = $3; gsub(/ /, "", class)
	section = $7; gsub(/ /, "", section)
	in_library = path[1] == library || $1 ~ /libradfeed-objects\.a\.p\//
	file = substr($1, 1, length($1) - length(path[split($1, path, ":")]) - 1)
	if (in_library && match(file, /src_[a-z]+_[A-Za-z0-9_]+\.[cS]\.o$/)) {
		object = substr(file, RSTART + 4, RLENGTH - 8)
		sub(/_/, "/", object)
	} else if (in_library) {
		next
	} else {
		object = file
		is_test = file ~ /\/(test-[^\/]*|bench-[^\/]*|fuzz-[^\/]*|replay-[^\/]*|fake[^\/]*)\.p\// || file ~ /(test|fuzz|bench)_[^\/]*\.c\.o$/
	}
	if (class == "U" && (symbol in is_text_call) && object != "base/json" && (in_library || !is_test))
		bad(object, "calls " symbol ", which has no JSON for text that is no UTF-8: base/json.h has a function that does")
	if (class == "U" && in_library) {
		uses[object] = uses[object] " " symbol
		used[symbol] = used[symbol] " " object
	} else if (class == "U" && !is_test) {
		used[symbol] = used[symbol] " " object
	} else if (in_library && class ~ /[TDBRVWC]/) {
		if ((symbol in owner) && owner[symbol] != object)
			bad(object, symbol " is extern in src/" owner[symbol] ", too")
		owner[symbol] = object
	}
	if (in_library && class != "U") objects[object] = 1
	if (in_library && section ~ /^\.t?(bss|data)$/) keeps[object, section] = symbol
}

function check_name(symbol, object,   own, n, i, name)
{
	own = stage_of(object)
	n = split(own " " prefixes[own], name, " ")
	for (i = 1; i <= n; i++) if (symbol ~ "^" name[i] "s?(_|$)") return
	bad(object, "the extern name " symbol " begins with no name of its stage")
}

function allowed(object, name)
{
	return (("*", name) in may) || ((stage_of(object), name) in may) || ((object, name) in may)
}

# A pure object takes from pure ones of its own stage or an earlier one, and from outside what the tables say.
function check_calls(object,   n, i, list, symbol, to)
{
	n = split(uses[object], list, " ")
	for (i = 1; i <= n; i++) {
		symbol = list[i]
		if (!(symbol in owner)) {
			if (!(plain(symbol) in may_call) && !(symbol in may_call) && !allowed(object, plain(symbol)))
				bad(object, "pure, and calls " plain(symbol))
			continue
		}
		to = owner[symbol]
		if (allowed(object, symbol)) continue
		if (!pure_object(to)) bad(object, "pure, and calls " symbol " of src/" to ", which is not")
		else if (at_stage[stage_of(to)] > at_stage[stage_of(object)])
			bad(object, "calls " symbol " of the later stage " stage_of(to))
	}
}

function check_memory(object, section)
{
	if (((object, section) in keeps) && !allowed(object, section))
		bad(object, "pure, and keeps " keeps[object, section] " between calls (" section ")")
}

# Files of one folder need each other one way only. Depth first; a circle is told once, by the first object it was met from.
function walk(object, trail,   n, i, list, to, from)
{
	state[object] = "open"
	n = split(uses[object], list, " ")
	for (i = 1; i <= n; i++) {
		if (!(list[i] in owner)) continue
		to = owner[list[i]]
		if (to == object || stage_of(to) != stage_of(object)) continue
		if (state[to] == "open") {
			from = index(trail, " " to " ")
			if (!told[stage_of(to), to]++)
				bad(to, "a circle of files:" substr(trail, from) "-> " to " (" list[i] ")")
		} else if (state[to] == "") {
			walk(to, trail "-> " to " ")
		}
	}
	state[object] = "done"
}

function check_use(symbol, object,   n, i, list)
{
	n = split(used[symbol], list, " ")
	for (i = 1; i <= n; i++) if (list[i] != object) return
	if (!((stage_of(object), symbol) in for_test))
		bad(object, symbol " is extern and used by no other file")
}

END {
	for (object in objects) {
		if (pure_object(object)) {
			check_calls(object)
			check_memory(object, ".bss"); check_memory(object, ".data")
			check_memory(object, ".tbss"); check_memory(object, ".tdata")
		}
		if (state[object] == "") walk(object, " " object " ")
	}
	for (symbol in owner) {
		check_name(symbol, owner[symbol])
		check_use(symbol, owner[symbol])
	}
}
