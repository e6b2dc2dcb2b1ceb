/*
 * crowd PROCESSES LOCK READY: one process becomes many, which sleep until they are killed.
 *
 * All of them hold the same lock of the file LOCK: whoever gets it exclusively knows that the last one has
 * ended. A byte is added to READY when all are there. The program is small, so that a test can have
 * thousands.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long n = argc == 4 ? strtol(argv[1], NULL, 10) : 0;
	int lock, ready;

	if (n < 1) {
		fprintf(stderr, "usage: crowd PROCESSES LOCK READY\n");
		return 2;
	}
	lock = open(argv[2], O_RDONLY | O_CLOEXEC);
	ready = open(argv[3], O_WRONLY | O_APPEND | O_CLOEXEC);
	if (lock < 0 || ready < 0 || flock(lock, LOCK_SH) < 0) {
		perror("crowd");
		return 1;
	}
	while (--n > 0) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("crowd: fork");
			return 1;
		}
		if (pid == 0)
			break;
	}
	if (n == 0 && write(ready, "r", 1) != 1) {
		perror("crowd: write");
		return 1;
	}
	for (;;)
		pause();
}
