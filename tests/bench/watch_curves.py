"""Makes loss curves and step times with known events, for watch_eval.py. Each curve is a function of its seed.

The curves vary what real runs vary: the unit and sign of the loss, its noise (heavy tails, bursts, memory, skew), logging,
smoothing, epochs, warm-up, restarts of the learning rate. A bump counts as a spike that has to be found under the rule of
the recorded curves: at least three logged points are above a tenth of the loss and above six deviations of the noise.
"""
import math
import random

NOISES = ("normal", "student", "laplace", "memory", "bursts", "skewed", "outliers", "mixed")
SHAPES = ("falling", "flat", "epochs", "saw", "hump", "restarts", "mixed_evals", "policy")
SPIKES, LASTING, DIVERGENCE, NAN, NONE = "spikes", "lasting", "divergence", "nan", "none"


def noise_of(r, kind):
    """Returns a function that gives noise of about one deviation, from the step."""
    state = {"last": 0.0, "burst": 0}
    rho = r.choice((0.3, 0.6, 0.8))

    def normal():
        return r.gauss(0, 1)

    def student():
        return normal() / math.sqrt(r.gammavariate(2, 1) / 2)

    def memory():
        state["last"] = rho * state["last"] + math.sqrt(1 - rho * rho) * normal()
        return state["last"]

    def bursts():
        state["burst"] = state["burst"] - 1 if state["burst"] > 0 else 40 if r.random() < 0.002 else 0
        return normal() * (1.8 if state["burst"] else 1)

    return {"normal": normal, "student": student, "laplace": lambda: r.choice((-1, 1)) * r.expovariate(1.4), "memory": memory,
            "bursts": bursts, "skewed": lambda: (math.exp(0.5 * normal()) - 1.13) / 0.6,
            "outliers": lambda: normal() + (r.uniform(5, 20) if r.random() < 0.005 else 0),
            "mixed": lambda: normal() * 0.5 + (1.0 if r.random() < 0.3 else -0.4)}[kind]


def level_of(r, shape, steps):
    """Returns a function step -> level, near 1 at the end."""
    start, tail, power = r.uniform(1.5, 4), r.choice((10, 40, 150)), r.uniform(0.4, 1.2)
    epoch = r.randint(300, 900)

    def fall(t):
        return 1 + (start - 1) * ((1 + t / tail) ** -power - (1 + steps / tail) ** -power)

    return {"falling": fall, "flat": lambda t: 1.05 - 0.05 * t / steps,
            "epochs": lambda t: fall(t) * (0.97 ** (t // epoch)),
            "saw": lambda t: fall(t) * (0.985 ** (t // epoch)) * (1 + 0.02 * (t % epoch) / epoch),
            "hump": lambda t: fall(t) + 0.3 * math.exp(-((t - 60) / 30) ** 2),
            "restarts": lambda t: fall(t) + (0.03 * math.exp(-(t % 1000) / 150) if t >= 1000 else 0),
            "policy": lambda t: 1 + 0.05 * math.sin(t / 350), "mixed_evals": lambda t: fall(t) * (1.04 if t % 100 == 99 else 1)}[shape]


def make_events(r, kind, steps):
    """Returns [(kind, start, end, function step -> height)]."""
    out = []
    if kind == SPIKES:
        at = r.randint(100, 700)
        while at < steps - 400:
            height, rise, heal = 0.04 * 10 ** r.uniform(0, 2), r.choice((1, 1, 3, 8)), r.randint(20, 170)
            out.append((kind, at, at + rise + heal, lambda t, at=at, h=height, up=rise, down=heal:
                        h * ((t - at + 1) / up if t < at + up else max(0.0, 1 - (t - at - up) / down) ** 2)))
            at += rise + heal + r.randint(450, 900)
    elif kind == LASTING:
        at, height, rise = r.randint(600, steps - 900), 0.2 * 10 ** r.uniform(0, 1.5), r.choice((1, 5, 20))
        out.append((kind, at, steps, lambda t: height * min(1.0, (t - at + 1) / rise)))
    elif kind == DIVERGENCE:
        at, height, rise = r.randint(800, steps - 1800), r.uniform(0.4, 2), r.randint(800, 1500)
        out.append((kind, at, steps, lambda t: height * min(1.5, (t - at) / rise)))
    elif kind == NAN:
        at = r.randint(100, steps - 100)
        out.append((kind, at, steps, lambda t: float("nan")))
    return out


def make_loss(seed):
    """Returns {"rows", "events": [{"kind", "start", "end", "peak", "clear"}], "about"}; peak: as a share of the loss."""
    r = random.Random(seed)
    steps = 4000
    kind = (SPIKES, SPIKES, SPIKES, NONE, NONE, NONE, LASTING, DIVERGENCE, NAN)[seed % 9]
    noise_kind, shape = r.choice(NOISES), r.choice(SHAPES)
    noise, level = noise_of(r, noise_kind), level_of(r, shape, steps)
    sigma, cadence = 10 ** r.uniform(-2.7, -0.9), r.choice((1, 1, 1, 1, 5, 10))
    unit, offset = r.choice(((2.5, 0), (2.5, 0), (3.2, 0), (1e-4, 0), (0.02, 0), (100, 0), (2, -6), (1, -1.4)))
    smooth = r.choice((0, 0, 0, 0, 0.6, 0.9)) if noise_kind != "outliers" else 0
    if shape == "policy":  # of reinforcement learning: around zero, and as large as its noise
        sigma, unit, offset = 0.1, 0.3, -0.3
    events = make_events(r, kind, steps)
    rows, last, deviation = [], None, sigma * math.sqrt((1 - smooth) / (1 + smooth))
    seen, smoothed, peaks = [0] * len(events), [0.0] * len(events), [0.0] * len(events)
    for t in range(1, steps + 1):
        bump = 0
        for _, start, end, height in events:
            bump += height(t) if start <= t <= end else 0
        v = level(t) + bump * (1 if bump != bump else 1 + 0.1 * r.gauss(0, 1)) + sigma * level(t) * noise()
        last = v if last is None or v != v else smooth * last + (1 - smooth) * v
        for i, (_, start, end, height) in enumerate(events):
            smoothed[i] = smooth * smoothed[i] + (1 - smooth) * (height(t) if start <= t <= end else 0)
            seen[i] += t % cadence == 0 and not smoothed[i] <= max(0.1, 6 * deviation) * level(t)
            peaks[i] = max(peaks[i], smoothed[i])
        if t % cadence == 0:
            rows.append((t, unit * last + offset))
    found = [{"kind": k, "start": s, "end": e, "peak": p, "clear": n >= 3}
             for (k, s, e, _), n, p in zip(events, seen, peaks)]
    about = "%s %s %s sigma %.3f smooth %g each %d unit %g offset %g" % (kind, shape, noise_kind, sigma, smooth, cadence, unit, offset)
    return {"rows": rows, "events": found, "about": about, "cadence": cadence}


def make_steps(seed):
    """Returns {"rows", "drop": None or (step, share), "hang": None or step, "about"} of step times."""
    r = random.Random(seed)
    steps, base, sigma = 2000, 10 ** r.uniform(-1.3, 1.3), 10 ** r.uniform(-2.7, -1.5)
    kind = ("none", "drop", "none", "drop", "hang")[seed % 5]
    every = {"save": (r.randint(100, 500), r.uniform(2, 40)), "eval": (r.randint(200, 600), r.uniform(5, 60)),
             "collect": (r.randint(10, 60), r.uniform(1.05, 1.6)), "none": (steps * 2, 1)}
    pause = r.choice(sorted(every))
    jitter, drift = r.choice((0, 0, 0.01, 0.03)), r.choice((0, 0, 0.015))
    at, share = r.randint(800, 1200), r.choice((0.1, 0.1, 0.15, 0.3))
    rows = []
    for t in range(1, steps + 1):
        v = base * (1 + sigma * r.gauss(0, 1) + drift * math.sin(t / 700))
        v *= r.uniform(5, 30) if t == 1 else 1 + 0.5 * math.exp(-t / 5)
        period, times = every[pause]
        v = min(v * times, max(v * 1.6, 580)) if t % period == 0 else v
        v *= r.uniform(1.2, 4) if r.random() < jitter else 1
        v /= 1 - share if kind == "drop" and t >= at else 1
        v += max(1000, 500 * base) if kind == "hang" and t == at else 0
        rows.append((t, max(v, base * 0.2)))
    about = "%s base %.3g sigma %.4f pause %s %s jitter %g drift %g" % (kind, base, sigma, pause, every[pause], jitter, drift)
    return {"rows": rows, "drop": (at, share) if kind == "drop" else None, "hang": at if kind == "hang" else None, "about": about}
