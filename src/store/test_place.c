/* SPDX-License-Identifier: MIT
 * Where the state may lie, and that one daemon at a time works on it.
 */
#include "store/test_fixture.h"

#include <signal.h>
#include <sys/sysmacros.h>

static void network_file_systems_are_known(void **state)
{
	(void)state;
	assert_string_equal(store_network_fs(0x6969, "nfs4"), "NFS");
	assert_string_equal(store_network_fs(0xFF534D42, "cifs"), "CIFS");
	assert_string_equal(store_network_fs((unsigned long)(long)(int)0xFE534D42, "smb3"), "SMB");	/* sign-extended */
	assert_string_equal(store_network_fs(0x0BD00BD0, "lustre"), "Lustre");
	assert_string_equal(store_network_fs(0x47504653, "gpfs"), "GPFS");
	assert_string_equal(store_network_fs(0x65735546, "fuse.sshfs"), "fuse.sshfs");
	assert_string_equal(store_network_fs(0x65735546, ""), "FUSE");
	assert_null(store_network_fs(0x65735546, "fuseblk"));
	assert_null(store_network_fs(0xEF53, "ext4"));
	assert_null(store_network_fs(0x01021994, "tmpfs"));
	assert_null(store_network_fs(0x58465342, "xfs"));
}

static void a_line_of_mountinfo_says_type_and_whether_writes_pass(void **state)
{
	const dev_t dev = makedev(7, 0);
	struct store_mount m;
	(void)state;
	assert_true(store_mount_line("63 43 7:0 / /a\\040-\\040b rw,relatime - ext4 /dev/loop0 rw,errors=remount-ro\n", dev, &m));
	assert_string_equal(m.type, "ext4");
	assert_false(m.halted);
	assert_true(store_mount_line("63 43 7:0 / /m rw shared:1 master:2 - ext4 /dev/loop0 rw,errors=x,emergency_ro\n", dev, &m));
	assert_true(m.halted);
	assert_true(store_mount_line("63 43 7:0 / /m rw - ext4 /dev/x rw,shutdown,errors=continue", dev, &m));
	assert_true(m.halted);
	assert_true(store_mount_line("63 43 7:0 / /m rw - overlay none rw,upperdir=/shutdown,x=emergency_ro\n", dev, &m));
	assert_false(m.halted);
	assert_true(store_mount_line("63 43 7:0 / /shutdown rw - tmpfs emergency_ro\n", dev, &m));
	assert_string_equal(m.type, "tmpfs");
	assert_false(m.halted);
	assert_false(store_mount_line("63 43 7:1 / /m rw - ext4 /dev/loop0 rw\n", dev, &m));
	assert_false(store_mount_line("63 43 7:0 / /m rw ext4 /dev/loop0 rw\n", dev, &m));
	assert_false(store_mount_line("63 43 7:0 / /m rw - ", dev, &m));
}

static void a_folder_that_others_may_write_to_is_refused(void **state)
{
	assert_int_equal(chmod(*state, 0777), 0);
	fixture_refused(*state, ERR_DENIED, "others may write to it (mode 777)");
	assert_false(fixture_exists(*state, "rad.db"));
	assert_int_equal(store_lock(*state, NULL), -1);
	assert_int_equal(chmod(*state, 0755), 0);
	store_close(fixture_open(*state));
}

static void a_folder_of_another_user_is_refused(void **state)
{
	if (geteuid())
		skip();	/* only root can give a folder away */
	assert_int_equal(chown(*state, 12345, (gid_t)-1), 0);
	fixture_refused(*state, ERR_DENIED, "belongs to uid 12345");
}

static void a_file_in_the_way_is_named(void **state)
{
	scoped_free char *file = fixture_path(*state, "state");
	fixture_write(*state, "state", "", 0);
	fixture_refused(file, ERR_INVALID, "is not a folder");
}

static void the_lock_is_held_once_and_ends_with_its_holder(void **state)
{
	int up[2], down[2];
	assert_int_equal(pipe(up), 0);
	assert_int_equal(pipe(down), 0);
	pid_t pid = fork();
	if (!pid) {
		char c = store_lock(*state, NULL) < 0 ? 'n' : 'y';
		if (write(up[1], &c, 1) == 1 && read(down[0], &c, 1) < 0)
			_exit(2);
		_exit(0);
	}
	char c = 0;
	assert_int_equal(read(up[0], &c, 1), 1);
	assert_int_equal(c, 'y');
	struct error err = ERROR_INIT;
	char want[80];
	snprintf(want, sizeof want, "radd (pid %d) already runs on this state directory", (int)pid);
	assert_int_equal(store_lock(*state, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_non_null(strstr(err.text, want));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	scoped_fd int fd = store_lock(*state, &err);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	for (int i = 0; i < 2; i++)
		close(up[i]), close(down[i]);
}

static void the_lock_follows_no_link(void **state)
{
	scoped_free char *lock = fixture_path(*state, "lock");
	scoped_free char *target = fixture_path(*state, "precious");
	fixture_write(*state, "precious", "data", 4);
	assert_int_equal(symlink(target, lock), 0);
	assert_int_equal(store_lock(*state, NULL), -1);
	scoped_buf after = { 0 };
	fixture_read(*state, "precious", &after);
	assert_string_equal(buf_text(&after), "data");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		T(network_file_systems_are_known),
		T(a_line_of_mountinfo_says_type_and_whether_writes_pass),
		T(a_folder_that_others_may_write_to_is_refused),
		T(a_folder_of_another_user_is_refused),
		T(a_file_in_the_way_is_named),
		T(the_lock_is_held_once_and_ends_with_its_holder),
		T(the_lock_follows_no_link),
	};
	return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
