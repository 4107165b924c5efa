/* SPDX-License-Identifier: MIT
 *
 * The protocol between `rad` and `radd`: a Unix stream socket; each message is a 4-byte big-endian length and that many
 * bytes of JSON, an object. A request carries "v" (WIRE_VERSION) and "op"; a reply "v" and either "error"
 * {"code","text"} or the members of the answer. Requests on one connection are answered in order.
 */
#ifndef RAD_SUBMIT_WIRE_H
#define RAD_SUBMIT_WIRE_H

#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>

#define WIRE_VERSION 1
#define WIRE_MAX_MESSAGE (32u << 20)
/* Of a request: all that a submission may hold (a script, a summary, a capture, arguments and environment at their largest)
 * and some room. Lists cost the reader most, so their elements are counted before anything is read. */
#define WIRE_MAX_REQUEST (24u << 20)
#define WIRE_MAX_VALUES 300000

/* Appends one message. Returns 0; or -1, with nothing appended, when it is larger than WIRE_MAX_MESSAGE. */
int wire_encode(const json_t *message, struct buf *out, struct error *err);
/* Takes one message off the front of `in`. 1: *message is a new reference; 0: not all there yet; -1: broken beyond repair. */
int wire_decode(struct buf *in, json_t **message, struct error *err);
/* The same for a request, within its limits. */
int wire_decode_request(struct buf *in, json_t **message, struct error *err);
/* How many bytes the first message takes in all, by its own word; 0: its length is not there yet. */
size_t wire_message_bytes(const struct buf *in);
/* Appends a message that is text already. As wire_encode. */
int wire_encode_text(const char *text, size_t n, struct buf *out, struct error *err);

/* {"v", "op", "rad": release} and {"v", "rad"}: what every request and every reply begins with. New references. */
json_t *wire_request(const char *op);
json_t *wire_reply(void);

json_t *wire_error(const struct error *e);
/* Daemon side: the request's `op` (borrowed); NULL when version or op are missing or not ours. */
const char *wire_check_request(const json_t *request, struct error *err);
/* Turns a reply that carries an error, or comes from another protocol version, into that error: -1; else 0. */
int wire_check(const json_t *reply, struct error *err);

/* Where the daemon's socket is: $RAD_SOCKET; root's /run/rad/radd.sock on a machine that has a radd of root's, whether it
 * answers now or not; else the user's own. Free it. */
char *wire_socket_path(void);
/* Whether that is a user's own on a machine that has the server's, too: the same ids come twice there. */
bool wire_is_own_beside_server(void);
/* Once, at the start of a program: a path in $RAD_SOCKET is a whole one from then on, for what is begun in another folder. */
void wire_settle_socket(void);
/* What $RAD_SOCKET says: a path, "own" or "server"; NULL: nothing. Free it. */
char *wire_said_socket(void);
/* What shows that a radd serves this whole machine, or did: a path that only root can have made, the first of several; NULL:
 * nothing does, or RAD_SOCKET names another radd (its own socket, as in its tasks, names it). WIRE_SERVER_UNIT: it is a service
 * that systemd starts at boot. WIRE_SERVER_STORE: it is not, and none has run since the machine was started. */
const char *wire_server_meant(void);
#define WIRE_SERVER_UNIT "/etc/systemd/system/multi-user.target.wants/radd.service"
#define WIRE_SERVER_STORE "/var/lib/rad/rad.db"
/* Why the machine's radd is not there: its last words, left beside its socket and read by whoever asks for it. Only where that
 * folder is there already, and nobody listens; NULL: it runs, and what an earlier one left goes. */
void wire_leave_words(const char *text);
/* Free it; NULL: it left none. */
char *wire_last_words(void);
/* The path for a daemon of the caller's own: $XDG_RUNTIME_DIR/rad/radd.sock (without that variable in /run/user/UID), else
 * /tmp/rad-UID/radd.sock; root's /run/rad/radd.sock. Free it. */
char *wire_own_socket_path(void);
/* Where such a daemon keeps its state: $RAD_STATE; root's /var/lib/rad; else below $XDG_STATE_HOME or the home folder.
 * Free it. */
char *wire_own_state_dir(void);
/* Makes that folder where it is not there, for whoever comes first: its user's alone, but root's lets others through to what is
 * theirs there. */
int wire_make_state_dir(const char *path, struct error *err);
/* Daemon side: makes the socket's folder (0700; root's 0755) and refuses one that others own or may write to
 * (but a sticky one such as /tmp is taken). `instead`: what the caller is told to do then. */
#define WIRE_OTHER_SOCKET "give another path (RAD_SOCKET, or --socket of radd)"
int wire_prepare_folder(const char *socket_path, const char *instead, struct error *err);
/* Connects. Returns a descriptor or -1; ERR_UNAVAILABLE when nobody listens; ERR_DENIED when the listener is neither root
 * nor the caller (unless RAD_SOCKET named it). */
int wire_connect(const char *path, struct error *err);
/* The same, and never waits, not even for a radd that hangs (ERR_CONFLICT then); the descriptor does not block. */
int wire_connect_now(const char *path, struct error *err);
/* One request, one reply (blocking). A new reference or NULL; a reply with an error counts as an error. */
json_t *wire_call(int fd, const json_t *request, struct error *err);
/* Its two halves. */
int wire_send(int fd, const json_t *request, struct error *err);
json_t *wire_receive(int fd, struct error *err);

#endif
