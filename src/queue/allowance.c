/* SPDX-License-Identifier: MIT
 * See allowance.h.
 */
#include "queue/allowance.h"

#include "base/words.h"

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
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++)
		if (words_are_key(word, len, allowance_word((enum allowance_kind)k)))
			return (enum allowance_kind)k;
	return ALLOWANCE_COUNT;
}

bool allowance_limits(const struct allowance *a)
{
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++)
		if (a->most[k])
			return true;
	return false;
}

uint64_t allowance_has(const struct fair_taken *taken, enum allowance_kind k)
{
	return k == ALLOWANCE_RUNNING ? taken->tasks : k == ALLOWANCE_GPUS ? taken->gpus : k == ALLOWANCE_MEM ? taken->mib : 0;
}

enum allowance_kind allowance_refuses(const struct allowance *a, const struct fair_taken *taken, const struct fair_taken *more,
				      bool *never)
{
	enum allowance_kind refused = ALLOWANCE_COUNT;
	*never = false;
	for (enum allowance_kind k = 0; k < ALLOWANCE_COUNT; k++) {
		uint64_t most = a->most[k], has = allowance_has(taken, k), wants = allowance_has(more, k);
		if (!most || !wants)
			continue;
		if (wants > most) {
			*never = true;
			return k;
		}
		if (refused == ALLOWANCE_COUNT && (has > most || wants > most - has))
			refused = k;
	}
	return refused;
}
