/* SPDX-License-Identifier: MIT
 * See allowance.h.
 */
#include "queue/allowance.h"

#include <string.h>

const char *allowance_word(enum allowance_kind k)
{
	static const char *const words[] = {
#define X(name, word, help) [name] = word,
		ALLOWANCES(X)
#undef X
	};
	return k < ALLOWANCE_COUNT ? words[k] : "?";
}

enum allowance_kind allowance_find(const char *word, size_t len)
{
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++) {
		const char *name = allowance_word((enum allowance_kind)k);
		size_t i = 0;
		while (i < len && name[i] && (word[i] == '-' ? '_' : word[i]) == name[i])
			i++;
		if (i == len && !name[i])
			return (enum allowance_kind)k;
	}
	return ALLOWANCE_COUNT;
}

bool allowance_limits(const struct allowance *a)
{
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++)
		if (a->most[k])
			return true;
	return false;
}

enum allowance_kind allowance_refuses(const struct allowance *a, const struct fair_taken *taken, const struct fair_taken *more,
				      bool *never)
{
	const struct { enum allowance_kind kind; uint64_t has, wants; } asked[] = {
		{ ALLOWANCE_RUNNING, taken->tasks, more->tasks },
		{ ALLOWANCE_GPUS, taken->gpus, more->gpus },
		{ ALLOWANCE_MEM, taken->mib, more->mib },
	};
	enum allowance_kind refused = ALLOWANCE_COUNT;
	*never = false;
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		uint64_t most = a->most[asked[i].kind];
		if (!most)
			continue;
		if (asked[i].wants > most) {
			*never = true;
			return asked[i].kind;
		}
		if (refused == ALLOWANCE_COUNT && (asked[i].has > most || asked[i].wants > most - asked[i].has))
			refused = asked[i].kind;
	}
	return refused;
}
