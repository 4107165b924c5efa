/* SPDX-License-Identifier: MIT
 * See track_http.h. libcurl by dlopen with declarations of our own: its numbers and calls have been the same since version 7.
 */
#include "cli/track_http.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/track_answer.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ANSWER ((size_t)16 << 20)
#define MAX_SECRETS ((size_t)64 << 10)
#define CONNECT_S 10L
#define WHOLE_S 60L

/* What curl/curl.h calls CURLOPT_*, CURLINFO_* and CURLPROTO_*, and its 'all is well'. */
enum {
	OPT_WRITEDATA = 10001, OPT_URL = 10002, OPT_USERPWD = 10005, OPT_ERRORBUFFER = 10010, OPT_POSTFIELDS = 10015,
	OPT_HTTPHEADER = 10023, OPT_SSLCERT = 10025, OPT_NOPROGRESS = 43, OPT_HTTPGET = 80, OPT_XFERINFODATA = 10057, OPT_POST = 47,
	OPT_POSTFIELDSIZE = 60, OPT_SSL_VERIFYPEER = 64, OPT_CAINFO = 10065, OPT_SSL_VERIFYHOST = 81, OPT_NOSIGNAL = 99,
	OPT_TIMEOUT = 13, OPT_CONNECTTIMEOUT = 78, OPT_PROTOCOLS = 181, OPT_FRESH_CONNECT = 74, OPT_WRITEFUNCTION = 20011,
	OPT_XFERINFOFUNCTION = 20219, OPT_USERAGENT = 10018,
	INFO_RESPONSE_CODE = 0x200002,
	PROTO_HTTP_HTTPS = 3, ERROR_SIZE = 256, GLOBAL_ALL = 3,
};

struct curl_api {
	void *library;
	int (*global_init)(long flags);
	void *(*create)(void);
	void (*destroy)(void *curl);
	int (*setopt)(void *curl, int option, ...);
	int (*getinfo)(void *curl, int info, ...);
	int (*perform)(void *curl);
	const char *(*why)(int code);
	void *(*list_add)(void *list, const char *text);
	void (*list_free)(void *list);
};

struct track_http {
	struct curl_api api;
	void *curl, *headers;
	char *base;		/* the uri without a slash at its end */
	char why[ERROR_SIZE];
	struct buf answer;
	const volatile sig_atomic_t *stop;
};

/* Loading --------------------------------------------------------------------------------------------------------------- */

#define SLOT(member) offsetof(struct curl_api, member)
static const struct { const char *name; size_t slot; } symbols[] = {
	{ "curl_global_init", SLOT(global_init) }, { "curl_easy_init", SLOT(create) }, { "curl_easy_cleanup", SLOT(destroy) },
	{ "curl_easy_setopt", SLOT(setopt) }, { "curl_easy_getinfo", SLOT(getinfo) }, { "curl_easy_perform", SLOT(perform) },
	{ "curl_easy_strerror", SLOT(why) }, { "curl_slist_append", SLOT(list_add) }, { "curl_slist_free_all", SLOT(list_free) },
};

/* Debian and Ubuntu have it by two names, of which a server has the one or the other. */
static int load(struct curl_api *api, struct error *err)
{
	static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4" };
	for (size_t i = 0; i < COUNT_OF(names) && !api->library; i++)
		api->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!api->library)
		return error_set(err, ERR_NOT_FOUND, "libcurl.so.4: not found: install libcurl (Debian, Ubuntu: libcurl4; Fedora, RHEL: "
				 "libcurl)");
	for (size_t i = 0; i < COUNT_OF(symbols); i++) {
		void *found = dlsym(api->library, symbols[i].name);
		if (!found)
			return error_set(err, ERR_NOT_FOUND, "libcurl.so.4: has no %s", symbols[i].name);
		memcpy((char *)api + symbols[i].slot, &found, sizeof found);
	}
	return api->global_init(GLOBAL_ALL) ? error_set(err, ERR_NOT_FOUND, "libcurl.so.4: does not start") : 0;
}

/* Who asks -------------------------------------------------------------------------------------------------------------- */

static const char *said(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

/* "key = value" of the section [mlflow]. */
static char *from_file(const char *text, const char *key)
{
	bool ours = false;
	size_t n = strlen(key);
	for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		line += strspn(line, " \t");
		if (*line == '[')
			ours = !strncmp(line, "[mlflow]", 8);
		if (!ours || strncasecmp(line, key, n))
			continue;
		const char *value = line + n + strspn(line + n, " \t");
		if (*value != '=' && *value != ':')
			continue;
		value += 1 + strspn(value + 1, " \t");
		size_t len = strcspn(value, "\r\n");
		while (len && isspace((unsigned char)value[len - 1]))
			len--;
		return alloc_printf("%.*s", (int)len, value);
	}
	return NULL;
}

/* A header that a line break in a secret would make two of is not sent. */
static int set_secrets(struct track_http *h, struct error *err)
{
	const char *token = said("MLFLOW_TRACKING_TOKEN"), *home = said("HOME");
	scoped_free char *path = alloc_printf("%s/.mlflow/credentials", home ? home : "");
	scoped_buf file = { 0 };
	if (home)
		io_read_file(path, MAX_SECRETS, &file, NULL);
	scoped_free char *user = alloc_string_or_null(said("MLFLOW_TRACKING_USERNAME"));
	scoped_free char *password = alloc_string_or_null(said("MLFLOW_TRACKING_PASSWORD"));
	if (!user)
		user = from_file(buf_text(&file), "mlflow_tracking_username");
	if (!password)
		password = from_file(buf_text(&file), "mlflow_tracking_password");
	if (user && password) {
		scoped_free char *both = alloc_printf("%s:%s", user, password);
		h->api.setopt(h->curl, OPT_USERPWD, both);	/* copied */
		return 0;
	}
	if (!token)
		return 0;
	if (token[strcspn(token, "\r\n")])
		return error_set(err, ERR_INVALID, "MLFLOW_TRACKING_TOKEN: holds a line break");
	scoped_free char *header = alloc_printf("Authorization: Bearer %s", token);
	h->headers = h->api.list_add(h->headers, header);
	return 0;
}

static int set_certificates(struct track_http *h, struct error *err)
{
	const char *insecure = said("MLFLOW_TRACKING_INSECURE_TLS"), *server = said("MLFLOW_TRACKING_SERVER_CERT_PATH");
	const char *client = said("MLFLOW_TRACKING_CLIENT_CERT_PATH");
	if (insecure && (!strcasecmp(insecure, "true") || !strcmp(insecure, "1"))) {
		if (server)
			return error_set(err, ERR_INVALID, "MLFLOW_TRACKING_INSECURE_TLS and MLFLOW_TRACKING_SERVER_CERT_PATH: set one of them");
		h->api.setopt(h->curl, OPT_SSL_VERIFYPEER, 0L);
		h->api.setopt(h->curl, OPT_SSL_VERIFYHOST, 0L);
	}
	if (server)
		h->api.setopt(h->curl, OPT_CAINFO, server);
	if (client)
		h->api.setopt(h->curl, OPT_SSLCERT, client);
	return 0;
}

/* Making one ------------------------------------------------------------------------------------------------------------ */

static int check_uri(const char *uri, struct error *err)
{
	const char *rest = !strncmp(uri, "http://", 7) ? uri + 7 : !strncmp(uri, "https://", 8) ? uri + 8 : NULL;
	if (!rest || !*rest)
		return error_set(err, ERR_INVALID, "'%.200s': expected the address of an MLflow server, http://HOST:5000 or "
				 "https://...; for runs in a file, start one on it: mlflow server --backend-store-uri ...", uri);
	if (memchr(rest, '@', strcspn(rest, "/")))
		return error_set(err, ERR_INVALID, "no user or password in the address, where all can read them: set "
				 "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN");
	for (const char *p = uri; *p; p++)
		if (isspace((unsigned char)*p) || iscntrl((unsigned char)*p) || *p == '?' || *p == '#')
			return error_set(err, ERR_INVALID, "'%.200s': an address has no blank, '?' or '#'", uri);
	return 0;
}

static size_t on_bytes(const char *bytes, size_t size, size_t n, void *ctx)
{
	struct track_http *h = ctx;
	if (h->answer.len + size * n > MAX_ANSWER)
		return 0;
	buf_add(&h->answer, bytes, size * n);
	return size * n;
}

/* Asked about once a second, and whenever something comes. */
static int on_progress(void *ctx, int64_t a, int64_t b, int64_t c, int64_t d)
{
	(void)a, (void)b, (void)c, (void)d;
	return *((struct track_http *)ctx)->stop != 0;
}

static void set_usual(struct track_http *h)
{
	const struct curl_api *c = &h->api;
	c->setopt(h->curl, OPT_PROTOCOLS, (long)PROTO_HTTP_HTTPS);	/* redirections are not followed: they would get the secrets */
	c->setopt(h->curl, OPT_ERRORBUFFER, h->why);
	c->setopt(h->curl, OPT_WRITEFUNCTION, on_bytes);
	c->setopt(h->curl, OPT_WRITEDATA, h);
	c->setopt(h->curl, OPT_NOPROGRESS, 0L);
	c->setopt(h->curl, OPT_XFERINFOFUNCTION, on_progress);
	c->setopt(h->curl, OPT_XFERINFODATA, h);
	c->setopt(h->curl, OPT_NOSIGNAL, 1L);
	c->setopt(h->curl, OPT_CONNECTTIMEOUT, CONNECT_S);
	c->setopt(h->curl, OPT_TIMEOUT, WHOLE_S);
	c->setopt(h->curl, OPT_USERAGENT, "rad-track/" RAD_VERSION);
	h->headers = c->list_add(h->headers, "Content-Type: application/json");
	h->headers = c->list_add(h->headers, "Expect:");
}

struct track_http *track_http_create(const char *uri, const volatile sig_atomic_t *stop, struct error *err)
{
	if (check_uri(uri, err))
		return NULL;
	struct track_http *h = alloc_zero(sizeof *h);
	h->stop = stop;
	h->base = alloc_string(uri);
	for (size_t n = strlen(h->base); n && h->base[n - 1] == '/'; n--)
		h->base[n - 1] = 0;
	if (load(&h->api, err))
		goto fail;
	h->curl = h->api.create();
	if (!h->curl) {
		error_set(err, ERR_NOT_FOUND, "libcurl.so.4: does not start");
		goto fail;
	}
	set_usual(h);
	if (set_secrets(h, err) || set_certificates(h, err))
		goto fail;
	h->api.setopt(h->curl, OPT_HTTPHEADER, h->headers);
	return h;
fail:
	track_http_destroy(h);
	return NULL;
}

void track_http_destroy(struct track_http *h)
{
	if (!h)
		return;
	if (h->headers)
		h->api.list_free(h->headers);
	if (h->curl)
		h->api.destroy(h->curl);
	/* The library stays: TLS libraries do not like to be unloaded. */
	buf_free(&h->answer);
	free(h->base);
	free(h);
}

/* Calls ----------------------------------------------------------------------------------------------------------------- */

char *track_http_escape(const char *text)
{
	scoped_buf out = { 0 };
	for (; *text; text++) {
		bool plain = isalnum((unsigned char)*text) || strchr("-_.~", *text);
		buf_printf(&out, plain ? "%c" : "%%%02X", (unsigned char)*text);
	}
	return buf_steal(&out);
}

/* What must not be done twice. */
static bool once_only(const char *path)
{
	return !strcmp(path, "experiments/create") || !strcmp(path, "runs/create") || !strcmp(path, "runs/log-batch");
}

json_t *track_http_call(struct track_http *h, const char *path, json_t *body, struct error *err)
{
	const struct curl_api *c = &h->api;
	scoped_free char *url = alloc_printf("%s/api/2.0/mlflow/%s", h->base, path);
	scoped_free char *text = body ? json_to_text(body) : NULL;
	json_decref(body);
	buf_drop(&h->answer, h->answer.len);
	h->why[0] = 0;
	c->setopt(h->curl, OPT_URL, url);
	/* On a connection that was used before and ends without an answer, libcurl sends a request again by itself, POST or not. */
	c->setopt(h->curl, OPT_FRESH_CONNECT, (long)once_only(path));
	if (text) {
		c->setopt(h->curl, OPT_POST, 1L);
		c->setopt(h->curl, OPT_POSTFIELDSIZE, (long)strlen(text));
		c->setopt(h->curl, OPT_POSTFIELDS, text);
	} else {
		c->setopt(h->curl, OPT_HTTPGET, 1L);
	}
	int rc = c->perform(h->curl);
	long code = 0;
	if (!rc) {
		c->getinfo(h->curl, INFO_RESPONSE_CODE, &code);
		return track_answer(h->base, code, &h->answer, err);
	}
	error_set(err, ERR_UNAVAILABLE, "%.200s: %.300s", h->base, h->why[0] ? h->why : c->why(rc));
	return NULL;
}
