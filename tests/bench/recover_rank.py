"""The rank of bench_recover: writes down when it begins and each of its steps in /mnt/JOB.ATTEMPT.RANK; rank 0 saves each tenth step.

With RANK_CHILD=1 it leaves a process that holds its output, as loaders of data do.
"""
import time

BEGIN = time.time()  # before anything else is loaded
import os  # noqa: E402

RANK, ATTEMPT = os.environ["RANK"], os.environ["HEARTH_ATTEMPT"]
OUT = os.open(f"/mnt/{os.environ['HEARTH_JOB']}.{ATTEMPT}.{RANK}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
FOLDER = os.environ["HEARTH_CHECKPOINT_DIR"]
if os.environ.get("RANK_CHILD") == "1" and os.fork() == 0:
    os.execv("/bin/sleep", ["sleep", "600"])
step = int(os.environ.get("HEARTH_RESUME_STEP") or 0)
os.write(OUT, b"begin %.6f\n" % BEGIN)
while True:
    step += 1
    os.write(OUT, b"%d %.6f\n" % (step, time.time()))
    if RANK == "0" and step % 10 == 0:
        os.makedirs(f"{FOLDER}/.new")
        with open(f"{FOLDER}/.new/state", "w") as f:
            f.write(f"{step}\n")
        os.rename(f"{FOLDER}/.new", f"{FOLDER}/step-{step}")
    time.sleep(0.05)
