/* SPDX-License-Identifier: MIT
 * What keeps a store from growing for ever beside its tasks: outcomes are bounded, and pages that nothing uses go back to the
 * disk. Both by pieces, in the transaction of a turn.
 *
 * A start reads only the newest outcomes (store_load_outcomes), so what is dropped by age and number was read by
 * nobody. The bound of a signature keeps one user's storm of short tasks from pushing out what was learnt of all
 * others.
 */
#include "store/store_internal.h"

#include "base/alloc.h"
#include "base/hash.h"

#define TRIM_PIECE 256
#define SHRINK_SPARE 256	/* pages that stay, to be used again: a file that grows and shrinks all day costs more than it frees */

/* How many of that signature were seen, this one included. Two signatures of one key share a bound: it is large. */
static size_t trim_count(struct store_trimming *t, const char *signature)
{
	int64_t key = hash_key(signature);
	size_t n = (size_t)(uintptr_t)idmap_get(t->of_signature, key) + 1;
	idmap_put(t->of_signature, key, (void *)(uintptr_t)n);	/* the number itself */
	return n;
}

int store_trim_outcomes(struct store *s, struct store_trimming *t, int64_t from_ms, unsigned of_one, unsigned most,
			struct error *err)
{
	scoped_statement *st = NULL;
	int64_t drop[TRIM_PIECE];
	unsigned n = 0, n_drop = 0;
	int rc = sqlite3_prepare_v2(s->db, "SELECT seq, told_ms, signature FROM outcomes WHERE seq < ?1 ORDER BY seq DESC"
				    " LIMIT ?2", -1, &st, NULL);
	if (rc)
		return store_fail(s, rc, err);
	if (!t->of_signature)
		*t = (struct store_trimming){ .below = INT64_MAX, .of_signature = alloc_zero(sizeof *t->of_signature) };
	sqlite3_bind_int64(st, 1, t->below);
	sqlite3_bind_int64(st, 2, TRIM_PIECE);
	for (; (rc = sqlite3_step(st)) == SQLITE_ROW; n++) {
		t->below = sqlite3_column_int64(st, 0);
		const char *signature = (const char *)sqlite3_column_text(st, 2);
		if (sqlite3_column_int64(st, 1) < from_ms || trim_count(t, signature ? signature : "") > of_one || ++t->left > most)
			drop[n_drop++] = t->below;
	}
	if (rc != SQLITE_DONE)
		return store_fail(s, rc, err);
	sqlite3_reset(st);
	for (unsigned i = 0; i < n_drop; i++)
		if (store_change(s, err, STORE_DROP_OUTCOME, "i", drop[i]))
			return -1;
	return n < TRIM_PIECE;
}

void store_trimming_clear(struct store_trimming *t)
{
	if (t->of_signature)
		idmap_free(t->of_signature);
	free(t->of_signature);
	*t = (struct store_trimming){ 0 };
}

int store_shrink(struct store *s, unsigned most, struct error *err)
{
	int64_t mode, unused;
	char sql[64];
	if (store_query_int(s, "PRAGMA auto_vacuum", &mode, err) || store_query_int(s, "PRAGMA freelist_count", &unused, err))
		return -1;
	if (mode != STORE_INCREMENTAL || unused <= SHRINK_SPARE)
		return 1;
	unused -= SHRINK_SPARE;
	snprintf(sql, sizeof sql, "PRAGMA incremental_vacuum(%u)", unused < most ? (unsigned)unused : most);
	/* In a transaction of the turn, as every change. */
	if (store_begin(s, err) || store_exec(s, sql, err))
		return -1;
	return unused <= most;
}
