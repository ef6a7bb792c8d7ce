#!/usr/bin/env python3
"""Writes golden/data_vectors.json: blends, whole datasets and shuffled orders, by a plain NumPy
reading of the algorithms that Megatron's data files follow. The C++ tests must meet them bit for
bit. Needs NumPy:

    python3 tests/data/make_data_vectors.py
"""

import json
import math
import pathlib

import numpy as np

SEED = 1234
LENGTH = 8  # tokens of a sample


def fnv(values):
    """FNV-1a over 64-bit words: stands for a long list."""
    hashed = 0xCBF29CE484222325
    for value in values:
        hashed = ((hashed ^ (int(value) & (2**64 - 1))) * 0x100000001B3) % 2**64
    return f"{hashed:016x}"


def normalize(weights):
    array = np.array(weights, dtype=np.float64)
    return (array / np.sum(array)).tolist()


def share(samples, weight, surplus=0.0):
    return math.ceil(math.ceil(samples * weight) * (1 + surplus))


def blend(weights, size):
    datasets, samples, taken = [], [], [0] * len(weights)
    for i in range(size):
        lags = [w * max(float(i), 1.0) - float(t) for w, t in zip(weights, taken)]
        chosen = lags.index(max(lags))  # the first of equals
        datasets.append(chosen)
        samples.append(taken[chosen])
        taken[chosen] += 1
    return datasets, samples


def exhaustive(sizes):
    total = sum(sizes)
    weights = [s / float(total) for s in sizes]
    datasets, samples, taken = [], [], [0] * len(sizes)
    for i in range(total):
        left = [k for k in range(len(sizes)) if taken[k] < sizes[k]]
        lags = {k: weights[k] * max(float(i), 1.0) - float(taken[k]) for k in left}
        chosen = max(left, key=lambda k: (lags[k], -k))
        datasets.append(chosen)
        samples.append(taken[chosen])
        taken[chosen] += 1
    return datasets, samples


def blend_cases():
    rng = np.random.default_rng(7)
    lists = [[0.3, 0.7], [1.0], [3, 1, 1, 1], [1, 1, 1], [0.1] * 9, [1e-3, 5, 0.25, 2.5, 1e-2]]
    lists.append([float(f"{x:.4g}") for x in rng.random(20)])
    lists.append([float(f"{x:.4g}") for x in rng.random(150) * 10 ** rng.uniform(-2, 2, 150)])
    cases = []
    for weights in lists:
        for samples in (1, 10, 997):
            parts = normalize(weights)
            targets = [share(samples, w) for w in parts]
            size = sum(targets)
            datasets, numbers = blend(normalize(parts), size)
            cases.append({
                "weights": weights, "samples": samples,
                "normalized": fnv(np.array(normalize(parts)).view(np.uint64)),
                "targets": fnv(targets), "built": fnv(share(samples, w, 0.005) for w in parts),
                "size": size, "first": datasets[:16], "datasets": fnv(datasets),
                "numbers": fnv(numbers)})
    return cases


def exhaustive_cases():
    cases = []
    for sizes in ([1], [3, 5], [7, 1, 30], [11, 11, 11], [40, 3, 3, 17, 1]):
        datasets, numbers = exhaustive(sizes)
        cases.append({"sizes": sizes, "datasets": datasets, "numbers": numbers})
    return cases


def document_lengths(dataset):
    return [3 + (dataset * 13 + d * 7) % 23 for d in range(30 + 20 * dataset)]


def tokens_of(dataset, document, length):
    return [(dataset * 4001 + document * 31 + i) % 60000 for i in range(length)]


def split_range(split, part, count):
    weights = [float(x) for x in split.split(",")]
    sums = [0.0]
    for weight in weights:
        sums.append(sums[-1] + weight / sum(weights))
    return round(sums[part] * count), round(sums[part + 1] * count)


class Gpt:
    """The samples of one data set: at least `samples`, or one pass when that is None."""

    def __init__(self, dataset, begin, end, samples):
        self.dataset, lengths = dataset, document_lengths(dataset)
        self.lengths = lengths
        tokens = sum(lengths[begin:end])
        epochs = 1
        while samples is not None and epochs * tokens < samples * LENGTH + 1:
            epochs += 1
        count = (epochs * tokens - 1) // LENGTH
        before = ((epochs - 1) * tokens - 1) // LENGTH
        apart = epochs > 1 and samples - before < int(0.80 * ((tokens - 1) // LENGTH))
        random = np.random.RandomState(SEED)
        whole = np.array(list(range(begin, end)) * (epochs - apart), dtype=np.int32)
        random.shuffle(whole)
        last = np.array(list(range(begin, end)) * apart, dtype=np.int32)
        random.shuffle(last)
        self.stream = [t for d in [*whole, *last]
                       for t in tokens_of(dataset, int(d), lengths[int(d)])]
        cut = before if apart else 0
        first, rest = np.arange(cut), np.arange(cut, count)
        random.shuffle(first)
        random.shuffle(rest)
        self.order = [*first, *rest]

    def __len__(self):
        return len(self.order)

    def __getitem__(self, i):
        at = int(self.order[i]) * LENGTH
        return self.stream[at:at + LENGTH + 1]


def mixed(parts, weights, samples):
    """The samples of a blend; parts are (dataset, begin, end)."""
    if weights is not None:
        weights = normalize(weights)
        datasets = [Gpt(*p, share(samples, w, 0.005)) for p, w in zip(parts, weights)]
        size = sum(share(samples, w) for w in weights)
        order = blend(normalize(weights), size)
    else:
        datasets = [Gpt(*p, None) for p in parts]
        sizes = [len(d) for d in datasets]
        if samples is None:
            order = exhaustive(sizes)
        else:
            order = blend(normalize(sizes), min(samples, sum(sizes)))
    return [datasets[k][i] for k, i in zip(*order)]


def dataset_cases():
    cases = []

    def add(flags, split, samples, rows):
        cases.append({"flags": flags, "split": split, "samples": samples, "size": len(rows),
                      "first": rows[0], "tokens": fnv(t for row in rows for t in row)})

    def shared(numbers, weights, split, samples):
        for part, name in enumerate(("train", "valid", "test")):
            parts = [(n, *split_range(split, part, len(document_lengths(n)))) for n in numbers]
            words = [str(n) for n in numbers]
            if weights is not None:
                words = [w for pair in zip(map(str, weights), words) for w in pair]
            flags = {"data-path": words, "split": split}
            if len(numbers) == 1 and weights is None:
                gpt = Gpt(*parts[0], samples)
                add(flags, name, samples, [gpt[i] for i in range(len(gpt))])
            else:
                add(flags, name, samples, mixed(parts, weights, samples))

    shared([0], None, "6,3,1", 100)
    shared([0], [2.5], "6,3,1", 100)
    shared([0, 1, 2], [0.3, 0.5, 0.2], "8,1,1", 150)
    shared([1, 1], [1, 2], "8,1,1", 70)
    shared([0, 1, 2], None, "8,1,1", 40)
    shared([0, 1, 2], None, "8,1,1", 100000)
    for numbers, weights, samples in (([2], [0.5], 300), ([2, 0], [0.9, 0.1], 200),
                                      ([2, 0, 1], None, 50), ([2, 0, 1], None, None)):
        parts = [(n, 0, len(document_lengths(n))) for n in numbers]
        words = [str(n) for n in numbers]
        if weights is not None:
            words = [w for pair in zip(map(str, weights), words) for w in pair]
        if len(numbers) == 1:
            gpt = Gpt(*parts[0], samples)
            rows = [gpt[i] for i in range(len(gpt))]
        else:
            rows = mixed(parts, weights, samples)
        add({"valid-data-path": words}, "valid", samples, rows)
    return cases


def permutation(size, seed):
    """Of 0..size-1, as PyTorch draws it with a generator of this seed."""
    draws = np.random.RandomState(seed)._bit_generator.random_raw(max(size - 1, 1))
    values = list(range(size))
    for i in range(size - 1):
        j = i + int(draws[i]) % (size - i)
        values[i], values[j] = values[j], values[i]
    return values


def cyclic(total, micro, ranks, sharded, blocks):
    """What each rank takes, block by block, from the beginning of a run."""
    block = micro * ranks
    active = total - total % block
    taken = [[] for _ in range(ranks)]
    for number in range(blocks):
        epoch, done = divmod(number * block, active)
        for rank in range(ranks):
            if sharded:
                bucket = total // block * micro
                order = [rank * bucket + x for x in permutation(bucket, epoch)[done // ranks:]]
            else:
                order = permutation(total // micro * micro, epoch)[done:][rank::ranks]
            taken[rank].append(order[:micro])
    return taken


def cyclic_cases():
    return [{"total": t, "micro": m, "ranks": r, "sharded": s, "blocks": b,
             "taken": cyclic(t, m, r, s, b)}
            for t, m, r, s, b in ((10, 2, 1, True, 12), (10, 2, 2, True, 7), (23, 2, 3, True, 8),
                                  (23, 2, 3, False, 8), (24, 4, 2, False, 9), (7, 1, 7, False, 3),
                                  (50, 3, 4, True, 9), (50, 3, 4, False, 9))]


def main():
    vectors = {"seed": SEED, "length": LENGTH, "blends": blend_cases(),
               "exhaustive": exhaustive_cases(), "datasets": dataset_cases(),
               "permutations": [{"size": n, "seed": s, "values": permutation(n, s)}
                                for n, s in ((1, 0), (10, 0), (10, 1), (40, 3))],
               "cyclic": cyclic_cases()}
    path = pathlib.Path(__file__).parent / "golden" / "data_vectors.json"
    lines = [f'"{key}": ' + ("[\n" + ",\n".join(json.dumps(row) for row in value) + "\n]"
                             if isinstance(value, list) else json.dumps(value))
             for key, value in vectors.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
