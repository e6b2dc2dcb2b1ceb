"""mpi4py: sum of the ranks, said by rank 0."""
from mpi4py import MPI

comm = MPI.COMM_WORLD
total = comm.allreduce(comm.Get_rank(), op=MPI.SUM)
print(f"rank {comm.Get_rank()} of {comm.Get_size()} on {MPI.Get_processor_name()}", flush=True)
if comm.Get_rank() == 0:
    print(f"sum={total}", flush=True)
