/* SPDX-License-Identifier: MIT
 * Words of notices: see notices.h. A place goes into a mail's header, a file that curl reads, or an exec, so it is plain
 * printable text and says itself which of these it is.
 */
#include "submit/notices.h"

#include <string.h>

bool notices_has(const char *list, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',')
		if (strcspn(p, ",") == n && !strncmp(p, word, n))
			return true;
	return false;
}

static bool is_known(const char *word, size_t n)
{
	for (const char *p = NOTICES; *p; p += strcspn(p, " "), p += *p == ' ')
		if (n && strcspn(p, " ") == n && !strncmp(p, word, n))
			return true;
	return false;
}

int notices_check(const char *list, struct error *err)
{
	const char *p = list;
	for (;; p++) {
		size_t n = strcspn(p, ",");
		if (!is_known(p, n))
			return error_set(err, ERR_INVALID, "'%.*s' is none of: %s", (int)(n < 60 ? n : 60), p, NOTICES);
		if (!*(p += n))
			return 0;
	}
}

static bool is_plain(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text >= 0x7f || *text == '"' || *text == '\\')
			return false;
	return true;
}

int notices_check_to(const char *to, struct error *err)
{
	const char *mail = !strncmp(to, "mail:", 5) ? to + 5 : NULL, *path = !strncmp(to, "exec:", 5) ? to + 5 : NULL;
	bool web = !strncmp(to, "https://", 8) || !strncmp(to, "http://", 7);
	if (!mail && !path && !web)
		return error_set(err, ERR_INVALID, "'%.60s' is none of: mail:ADDRESS, https://..., http://..., exec:/PATH", to);
	if (strlen(to) > NOTICES_MAX_TO || !is_plain(to))
		return error_set(err, ERR_INVALID, "'%.60s' is too long, or holds a blank, a quote, or what is not plain ASCII", to);
	if (path && *path != '/')
		return error_set(err, ERR_INVALID, "'%.60s': the program needs its whole path", to);
	if (mail && (!*mail || *mail == '-' || mail[strcspn(mail, "<>,;:()[]")]))
		return error_set(err, ERR_INVALID, "'%.60s' is no mail address", to);
	return 0;
}
