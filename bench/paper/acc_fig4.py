"""Accountants' paper, Figure 4: Abalone, accuracy against epsilon."""

import acc_vi

TITLE = "Accountants' paper, Figure 4: Abalone, accuracy against ε"
NEEDS = ("abalone", "sklearn")
run, report, orders = acc_vi.run, acc_vi.report, acc_vi.orders


def cells(scale):
    """See `acc_vi.cells`."""
    return acc_vi.cells("abalone", scale)


def draw(rows, folder):
    """See `acc_vi.draw`."""
    return acc_vi.draw(rows, folder, "acc_fig4")
