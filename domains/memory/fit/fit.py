#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the weights of a recall's score (domains/memory/weights.def). For maintainers; needs NumPy.

  ./dev bench memory --features /tmp/features.bin
  domains/memory/fit/fit.py /tmp/features.bin [--write] [--ablate]

The weights maximize the likelihood that evidence comes first (softmax over the candidate lines of each question) with
a small penalty on their squares, by gradient descent from zero: the same features give the same weights, one set for
all kinds of conversation. A question of LoCoMo counts as much as two of BEAM, of which there are more. Printed are the
figures of each kind with the weights fitted on all conversations, and held out: each conversation of LoCoMo, and each
fifth of BEAM's, whichever side of them is remembered, scored with weights fitted on the others. --ablate does the
latter without each part in turn. --write writes weights.def."""
import re
import sys

import numpy as np

TABLE = __file__.rsplit("/", 2)[0] + "/weights.def"
HEAD = 7
PENALTY = 1e-2
STEPS = 300
CUTS = (5, 10, 16, 2800, 12000)
KINDS = ("LoCoMo", "BEAM 100K, user", "BEAM 100K, both", "BEAM 500K, user")
COUNTS = (2, 1, 1, 1)  # how much a question of each kind counts in the fit
ROWS = 150             # the most candidate lines of a question, with its evidence
EXCERPT = 740          # the most bytes of an entry
FIRST_WEIGHT = 0.25    # the fixed weight of the first part, so that ranks stay comparable with those of vectors


def read_table():
    return re.findall(r'^PART\((\w+), ([-\d.]+), "(.*)"\)', open(TABLE).read(), re.M)


def read_questions(path, parts):
    rows = np.fromfile(path, dtype="<f4").reshape(-1, HEAD + parts).astype(np.float64)
    keys = rows[:, 0] * 10000 + rows[:, 1]
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    return [question_of(q) for q in np.split(rows, starts[1:])]


def question_of(rows):
    kind, conversation = divmod(int(rows[0, 0]), 1000)
    near = np.zeros(len(rows), bool)
    near[np.argsort(-rows[:, HEAD:].clip(0, 2).sum(axis=1), kind="stable")[:ROWS]] = True
    rows = rows[near | (rows[:, 6] > 0)]
    return {"kind": kind, "held": (kind > 0, conversation % 5 if kind else conversation), "evidence": rows[0, 3],
            "bytes": np.minimum(rows[:, 5], EXCERPT), "good": rows[:, 6] > 0, "parts": rows[:, HEAD:]}


def fit(questions, used):
    """For each question, each piece of its evidence has a softmax against all lines that are no evidence."""
    scale = np.concatenate([q["parts"] for q in questions]).std(axis=0)
    scale = np.where(scale > 0, scale, 1)
    use = np.where(used, 1 / scale, 0)
    rows, owner, good, counts, kept = [], [], [], [], 0
    for q in questions:
        if q["good"].any():
            rows.append(q["parts"] * use)
            owner.append(np.full(len(q["good"]), kept))
            good.append(q["good"])
            counts.append(COUNTS[q["kind"]])
            kept += 1
    rows, owner, good = np.concatenate(rows), np.concatenate(owner), np.concatenate(good)
    starts = np.searchsorted(owner, np.arange(kept))
    pieces = np.bincount(owner, good, kept) / counts * np.mean(counts)
    weight = np.zeros(rows.shape[1])
    mean = np.zeros_like(weight)
    square = np.zeros_like(weight)
    for step in range(1, STEPS + 1):
        score = rows @ weight
        power = np.exp(score - np.maximum.reduceat(score, starts)[owner])
        none = np.add.reduceat(np.where(good, 0, power), starts)
        chance = power / (none[owner] + power)          # the chance of each piece of evidence against these lines
        pull = np.where(good, (1 - chance) / pieces[owner], 0)
        against = pull / np.maximum(none[owner], 1e-300)
        share = np.add.reduceat(np.where(good, against, 0), starts)
        push = np.where(good, 0, power * share[owner])
        slope = rows.T @ (pull - push) / kept - PENALTY * weight
        mean = 0.9 * mean + 0.1 * slope
        square = 0.999 * square + 0.001 * slope ** 2
        size = np.sqrt(square / (1 - 0.999 ** step)) + 1e-9
        weight += 0.05 * (1 - step / STEPS) * mean / (1 - 0.9 ** step) / size
    return weight * use


def figures(questions, weights_of):
    """The figures of each kind of question."""
    total = {}
    for q in questions:
        order = np.argsort(-(q["parts"] @ weights_of(q)), kind="stable")[:64]
        good, used = q["good"][order], np.cumsum(q["bytes"][order])
        cells = total.setdefault(q["kind"], [])
        found = [good[:cut].sum() if cut < 100 else good[used <= cut].sum() for cut in CUTS]
        cells.append([(f / q["evidence"], f > 0) for f in found])
    return {kind: np.mean(cells, axis=0) for kind, cells in total.items()}


def hold_out(questions, used):
    weights = {h: fit([q for q in questions if q["held"] != h], used) for h in {q["held"] for q in questions}}
    return figures(questions, lambda q: weights[q["held"]])


def show(name, values):
    for kind in sorted(values):
        print(f"{name:18}{KINDS[kind]:17}" + "".join(f"  {m:.3f} / {a:.3f}" for m, a in values[kind]))


def main():
    table = read_table()
    names = [name for name, _, _ in table]
    questions = read_questions(sys.argv[1], len(table))
    every = np.ones(len(names), bool)
    print(" " * 35 + "".join(f"  {cut:<13}" for cut in CUTS) + "  (mean / any)")
    shipped = np.array([float(w) for _, w, _ in table])
    show("table", figures(questions, lambda q: shipped))
    out = hold_out(questions, every)
    show("held out", out)
    weights = fit(questions, every)
    show("fitted on all", figures(questions, lambda q: weights))
    if "--ablate" in sys.argv:
        for i, name in enumerate(names):
            used = every.copy()
            used[i] = False
            value = hold_out(questions, used)
            print(f"{name:18}" + "".join(f"  {out[k][1, 0] - value[k][1, 0]:+.4f} {out[k][2, 0] - value[k][2, 0]:+.4f}"
                                       for k in sorted(out)) + "  worth at 10 and 16, of each kind")
    weights *= FIRST_WEIGHT / weights[0]
    for name, weight in zip(names, weights):
        print(f"  {name:10} {weight:8.4f}")
    if "--write" in sys.argv:
        text = open(TABLE).read()
        for name, weight in zip(names, weights):
            text = re.sub(rf"PART\({name}, [-\d.]+", f"PART({name}, {weight:.4f}", text)
        open(TABLE, "w").write(text)


main()
