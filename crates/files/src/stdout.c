#include <fcntl.h>
#include <unistd.h>

int sv_stdout_was_closed(void);

static int stdout_closed;

/* Before Rust's runtime, which opens /dev/null in the place of a standard output that is closed. */
__attribute__((constructor)) static void look_at_stdout(void)
{
	stdout_closed = fcntl(STDOUT_FILENO, F_GETFD) == -1;
}

int sv_stdout_was_closed(void)
{
	return stdout_closed;
}
