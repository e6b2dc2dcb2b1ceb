/*
 * ring: a real gang. Each rank passes a token round the ring, all sum their ranks; every rank prints one
 * line, rank 0 the sum. With an argument: stays for so many seconds in barriers, so that a test can do things
 * to it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int rank, size, token = 0, sum = 0;
	char host[256] = "?";
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	gethostname(host, sizeof(host) - 1);
	if (size > 1) {
		if (rank == 0) {
			MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
			MPI_Recv(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			token++;
			MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
		}
	}
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("rank %d of %d on %s token=%d\n", rank, size, host, token);
	if (rank == 0)
		printf("sum=%d\n", sum);
	fflush(stdout);
	double end = MPI_Wtime() + (argc > 1 ? atof(argv[1]) : 0);
	for (int step = 1, more = argc > 1; more; step++) {
		double now = MPI_Wtime();
		more = now < end;
		MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
		if (rank == 0) {
			printf("step=%d\n", step);
			fflush(stdout);
		}
		usleep(50000);
	}
	MPI_Finalize();
	return 0;
}
