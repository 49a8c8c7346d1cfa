"""The short form of a report, for a terminal."""

from ..accounting.printing import percent
from ..store.text import printable
from ..store.words import counted
from .dossier import Dossier
from .text import paragraph, table
from .words import FALSE_POSITIVES


def short_report(dossier: Dossier, width: int = 100) -> str:
    """Write parameters, guarantee, attacker's gain and open assumptions, in lines."""
    learned = dossier.learned
    head = f"{dossier.title} ({dossier.kind})"
    lines = [head if dossier.privacy.private else f"NOT PRIVATE: {head}", ""]
    if dossier.verdict:
        lines = [paragraph(dossier.verdict, width), "", *lines]
    lines += [one if "  " in one else paragraph(one, width) for one in learned.lines]  # rows of a table stay
    for group in () if learned.lines else learned.groups[:10]:
        lines.append(f"{group.title}:")
        lines += [f"  {row.name} {row.value}" for row in group.rows.rows[:10]]
    if not (learned.topics or learned.groups or learned.lines) and learned.table:
        lines.append(table(learned.table, learned.columns))
    if learned.pictures:
        lines.append(f"{len(learned.pictures)} images: vips-fast show DIR --out FILE shows them.")
    if learned.note and (learned.topics or not learned.lines):
        lines += ["", paragraph(learned.note, width)]
    lines += ["", paragraph(dossier.privacy.statement(), width)]
    if dossier.gains:
        lines += [
            "",
            paragraph(
                "Somebody who knows all else, and thought both cases equally likely, is right at most this often "
                "(50 % is chance), and finds at most this many persons if "
                f"{percent(FALSE_POSITIVES)} of others are accused wrongly:",
                width,
            ),
        ]
        rows = [
            (f"  {counted(g.size, dossier.privacy.unit)}", percent(g.guesses), percent(g.hits, 2))
            for g in dossier.gains
        ]
        lines.append(table(rows, ("  person with", "right", "found")))
    open_titles = [finding.assumption.title for finding in dossier.findings if not finding.held]
    lines += ["", paragraph(f"Open, for somebody to vouch for: {'; '.join(open_titles)}.", width)]
    return printable("\n".join(lines))
