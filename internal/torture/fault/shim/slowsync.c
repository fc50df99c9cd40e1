/* Makes fsync and fdatasync slow while there is a file "torture-slow-fsync" in the working directory, which
 * says by how many milliseconds. Each that was slow adds a byte to the file "torture-slow-fsync-done", if there is
 * one. Loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void slow(void)
{
	int old = errno;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "torture-slow-fsync", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		char text[16];
		long n = syscall(SYS_read, fd, text, sizeof text - 1);
		syscall(SYS_close, fd);
		if (n > 0) {
			text[n] = 0;
			long ms = strtol(text, NULL, 10);
			struct timespec t = {ms / 1000, ms % 1000 * 1000000};
			nanosleep(&t, NULL);
			fd = (int)syscall(SYS_openat, AT_FDCWD, "torture-slow-fsync-done", O_WRONLY | O_APPEND | O_CLOEXEC);
			if (fd >= 0) {
				syscall(SYS_write, fd, "x", 1);
				syscall(SYS_close, fd);
			}
		}
	}
	errno = old;
}

int fsync(int fd)
{
	slow();
	return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	slow();
	return (int)syscall(SYS_fdatasync, fd);
}
