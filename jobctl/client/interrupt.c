/*
 * interrupt: see interrupt.h. A pipe carries the signal into poll, so that every wait ends.
 */
#include "jobctl/client/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t flag;
static int fds[2] = {-1, -1};

static void on_signal(int signo)
{
	int saved = errno;
	(void)signo;
	flag = 1;
	if (write(fds[1], "x", 1) < 0) {
		/* The pipe is full, so it is readable already. */
	}
	errno = saved;
}

void interrupt_catch(void)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
	if (fds[0] >= 0 || pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return;
	sigemptyset(&sa.sa_mask);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

int interrupted(void)
{
	return flag;
}

int interrupt_fd(void)
{
	return fds[0];
}

int interrupt_sleep(int ms)
{
	struct pollfd p = {.fd = fds[0], .events = POLLIN};
	poll(&p, 1, ms);
	return flag;
}
