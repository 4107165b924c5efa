/* SPDX-License-Identifier: MIT
 *
 * The arguments that PyTorch prints in a module's parentheses: "3, 64, kernel_size=(7, 7), stride=(2, 2), bias=False".
 */
#include "parse/features_private.h"

#include <string.h>

/* What stands behind "key=", which begins an argument; at NULL: not there. */
static struct summary_text value_of(struct summary_text args, const char *key)
{
	size_t n = strlen(key);
	for (struct summary_text t = args; t.len > n; ) {
		const char *at = summary_find(t, key);
		if (!at || at + n >= args.at + args.len)
			break;
		if (at[n] == '=' && (at == args.at || at[-1] == ' ' || at[-1] == ',' || at[-1] == '('))
			return (struct summary_text){ at + n + 1, (uint32_t)(args.at + args.len - at - n - 1) };
		summary_drop(&t, (uint32_t)(at + n - t.at));
	}
	return (struct summary_text){ NULL, 0 };
}

bool features_arg_is(struct summary_text args, const char *key, const char *value)
{
	struct summary_text v = value_of(args, key);
	size_t n = strlen(value);
	return v.at && summary_starts(v, value) && (v.len == n || strchr(",) ", v.at[n]));
}

/* One number in front of *t ("2", "2.0", "-1"), which is moved behind it. */
static bool take_number(struct summary_text *t, int64_t *n)
{
	bool minus = t->len > 1 && *t->at == '-';
	if (minus)
		summary_drop(t, 1);
	struct summary_text digits = { t->at, 0 };
	while (digits.len < t->len && t->at[digits.len] >= '0' && t->at[digits.len] <= '9')
		digits.len++;
	uint64_t value;
	summary_drop(t, digits.len);
	if (!summary_number(&digits, &value))
		return false;
	for (bool point = false; t->len && ((*t->at >= '0' && *t->at <= '9') || (*t->at == '.' && !point)); summary_drop(t, 1))
		point |= *t->at == '.';	/* what follows the point does not matter here */
	*n = minus ? -(int64_t)value : (int64_t)value;
	return true;
}

bool features_arg_numbers(struct summary_text args, const char *key, int64_t *values, unsigned max)
{
	struct summary_text v = value_of(args, key);
	unsigned n = 0;
	if (!v.at)
		return false;
	bool several = v.len && (*v.at == '(' || *v.at == '[');
	if (several)
		summary_drop(&v, 1);
	while (n < max && v.len && *v.at != ')' && *v.at != ']') {
		if (summary_starts(v, "None"))
			values[n] = -1, summary_drop(&v, 4);
		else if (!take_number(&v, &values[n]))
			break;
		n++;
		if (!several)
			break;
		while (v.len && (*v.at == ',' || *v.at == ' '))
			summary_drop(&v, 1);
	}
	for (unsigned i = n; n && i < max; i++)
		values[i] = values[0];
	return n > 0;
}

unsigned features_arg_plain(struct summary_text args, int64_t *values, unsigned max)
{
	unsigned n = 0;
	struct summary_text t = args;
	while (n < max && t.len) {
		if (strchr("(), []", *t.at))
			summary_drop(&t, 1);
		else if (!take_number(&t, &values[n]) || (t.len && !strchr("(), []", *t.at)))
			break;
		else
			n++;
	}
	return n;
}
