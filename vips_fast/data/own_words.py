"""What a text says beside its writer's own words: tags of HTML, and what mail programs put around a message.

Left out are tags, comments, scripts and styles of HTML; the headers of an e-mail, but for its subject; quoted lines
(">") with the line that names their writer; a signature after "--"; and "Sent from my ...". A word that is broken at
the end of a line, as in scans and books, is joined. Each expression takes time linear in the text.
"""

import re

_BROKEN = re.compile(r"-(?<=[^\W\d_]-)\r?\n[ \t]*+(?=[a-zß-öø-ÿ])")
#: Elements whose content is no text.
_CODE, _CODE_ENDS = re.compile(r"<(?:script|style)\b", re.I), re.compile(r"</(?:script|style)\s*+>", re.I)
#: A tag has attributes with values or none, so "<LOD and >5" is none; addresses in such brackets, too.
_TAG = re.compile(
    r"""</?[a-z][\w:-]*+(?:\s++[\w:-]++\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|[^\s<>"']++))*+\s*+/?>|<![^<>]*+>"""
    r"|<[^\s<>@]*+@[^\s<>]*+>",
    re.I,
)
#: Lines of headers in a row. They are an e-mail's if one names the sender.
_NAMES = """
From To Cc Bcc Sent Date Subject Reply-To Message-I[Dd] In-Reply-To References Received Return-Path Sender Delivered-To
MIME-Version Mime-Version User-Agent Organization Path Xref Newsgroups Followup-To Distribution Lines Keywords
Article-I\\.D\\. (?:X|Content|List|Thread|NNTP|Nntp|DKIM|ARC|Authentication)-[\\w-]++ Von An Gesendet Datum Betreff De À
Envoyé Objet Para Enviado Fecha Asunto Da Inviato Oggetto Van Aan Verzonden Onderwerp
""".split()
_HEADERS = re.compile(rf"^(?:(?:{'|'.join(_NAMES)}):[^\n]*+\n(?:[ \t]++\S[^\n]*+\n)*+){{2,}}+", re.M)
_SENDERS = ("From:", "Von:", "De:", "Da:", "Van:")
_SENDER = re.compile(rf"^(?:{'|'.join(_SENDERS)})", re.M)
_SUBJECT = re.compile(r"^(?:Subject|Betreff|Objet|Asunto|Oggetto|Onderwerp):([^\n]*\n)", re.M)
#: Quoted lines, after one that ends with ":", or two of which the second is one word, and perhaps an empty line. The
#: prompt ">>> " of Python is no quote.
_QUOTED = re.compile(
    r"^(?:(?:[^\n]++\n)?[ \t]*+\w++ ?:[ \t\r]*+\n(?:[ \t\r]*+\n)?|[^\n]*:[ \t\r]*+\n(?:[ \t\r]*+\n)?)?"
    r"(?:^[ \t]*+>(?!>> )[^\n]*+(?:\n|\Z))++",
    re.M,
)
#: From "--" to an empty line or the end; what a device adds; and a line over a forwarded message.
_SIGNATURE = re.compile(
    r"^--[ \r]*+\n(?:[ \t\r]*+\S[^\n]*+(?:\n|\Z))*+|^Sent from my [^\n]*+|^-----[^\n-]++-----", re.M
)
_BEGINNINGS = "\n--\n", "\n-- \n", "\n--\r\n", "\n-- \r\n", "\n-----", "\nSent from my "


def own_words(text: str) -> str:
    """Leave out of a text what its writer did not write; see the module.

    The expressions are tried only where a search that takes hardly any time finds their beginning.
    """
    if "\n" in text:
        if any(name in text for name in _SENDERS):
            text = _HEADERS.sub(
                lambda run: "".join(_SUBJECT.findall(run[0])) if _SENDER.search(run[0]) else run[0], text
            )
        if "\n>" in text or "\n >" in text or text.startswith(">"):
            text = _QUOTED.sub("", text)
        if any(begin in text for begin in _BEGINNINGS):
            text = _SIGNATURE.sub("", text)
        if "-\n" in text or "-\r\n" in text:
            text = _BROKEN.sub("", text)
    if "<" in text:
        *before, last = _CODE_ENDS.split(text)
        text = _TAG.sub(" ", " ".join([*(_CODE.split(part, maxsplit=1)[0] for part in before), last]))
    return text
