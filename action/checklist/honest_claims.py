"""honest-claims: nothing presents structure or smoke results as validation of prefetch edges.

A sentence is a claim when it names prefetch edges (or their order, or the hook's correctness), a
structure test, a smoke test or a falling loss as what shows it, and a verb of proof, and neither
negates it nor names the edge-identity test. In the structure and smoke tests themselves the file is
what is named.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain, islice

from action.checklist.context import Context, at, result
from action.records import CheckResult, Evidence, Location
from action.repository.syntax import UnparsableError, docstring_node

_OBJECT = (
    r"(prefetch(ing)?[ -](edge|order|target|wiring|graph|impact)s?|edges\b.{0,60}\bprefetch"
    r"|hook'?s? edges\b|prefetch\w*\s+(is|are)\s+(\w+\s+)?(correct|right)"
    r"|(correct|right)\w*\s+(of\s+)?(the\s+)?prefetch\w*"
    r"|edge[ -](impact|identity|validation)|prefetch(ing)? hook('s)? (is )?(correct|right|valid)"
    r"|(correctness|impact) of (the |its )?(prefetch|edge|hook)\w*)"
)
_PROOF = (
    r"(validat|verif|prov(e|es|ed|en|ing)\b|confirm|ensur|guarante|demonstrat|certif"
    r"|show(s|n|ed)?\b|cover(s|ed)?\b|check(s|ed)?\b|test(s|ed)?\b (that|the|all|every|prefetch)"
    r"|(is|are) (\w+ )?(correct|right)(ly)?\b|establish)"
)
_BY = (
    r"(smoke|structur(e|al)\b(?! of\b)|training (run|step|test|converge)s?"
    r"|(the )?loss (falls|goes down|drops|decreas)|green (run|test|ci)|tests? pass)"
)
_NEGATED = re.compile(
    r"\b(no|not|never|neither|nor|without|cannot|nothing|none|nobody|isn't|doesn't|don't|aren't"
    r"|won't|can't|didn't|wasn't|hasn't|unproved|unproven|unverified|unvalidated|beyond|instead"
    r"|rather than|only|gap|todo|should|must|missing|yet|until|before|remain(s|ing)?|wrong"
    r"|incorrect|would|could|might|whether|regardless|even)\b|n't\b",
    re.IGNORECASE,
)
# Words that look like a negation and are none.
_NOT_NEGATED = re.compile(
    r"\bnot (only|just|merely)\b|\bno (further|more|other|additional|extra)\b"
    r"|\bwithout (any )?(error|failure|problem|warning|hang|issue|crash)\w*|\buntil now\b",
    re.IGNORECASE,
)
_IDENTITY = re.compile(
    r"\b(identity (test|stage|check)s?|impact (test|validation test)s?|edge-identity"
    r"|test_prefetch_edges_impact|by (object )?identity|mutation|probe)", re.IGNORECASE
)  # fmt: skip
_CLAIM_IN_PLACE = re.compile(rf"(?=.*{_OBJECT})(?=.*{_PROOF})", re.IGNORECASE)
_CLAIM = re.compile(rf"(?=.*{_OBJECT})(?=.*{_PROOF})(?=.*{_BY})", re.IGNORECASE)
_CLAIMING_NAME = re.compile(
    r"^test_.*(prefetch|edge)\w*_(validat|verif|prov|correct|right|impact|identity)\w*"
    r"|^test_.*(validat|verif|prov|correct)\w*_.*(prefetch\w*_edge|edge|prefetch_order)s?",
    re.IGNORECASE,
)
_LOOKS_AT_EDGES = re.compile(
    r"prefetch_edges|_to_forward_prefetch|_to_backward_prefetch|assert_\w*edges", re.IGNORECASE
)
_MOST = 20
"""Claims that are quoted; one is enough to fail."""
_LONGEST = 1000
"""Characters of a sentence that are looked at; hostile text has sentences without end."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n\s*\n|\n\s*(?=[-*#>|])")


def check(context: Context) -> CheckResult:
    """Decide the item from test names, docstrings, READMEs and the pull request's text."""
    everywhere = chain(_in_tests(context), _in_documents(context), _in_text(context))
    claims = list(islice(everywhere, _MOST))
    if claims:
        return result(
            "honest-claims",
            "fail",
            "structure or smoke results are presented as validation of prefetch edges: "
            f"{claims[0].text}",
            claims,
        )
    unread = [p for p in context.source.problems if p.location.path.endswith(".py")]
    where = "tests, docstrings and READMEs"
    if context.pull_request_text is not None:
        where += " and the pull request's text"
    if unread:
        summary = "not every file of the recipe could be read for claims"
        return result("honest-claims", "unknown", summary, [at(p.why, p.location) for p in unread])
    summary = f"no sentence in {where} presents structure or smoke results as edge validation"
    return result("honest-claims", "pass", summary)


def claims_in(text: str, *, in_place: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line, sentence) for every sentence that claims too much; lines count from 1.

    `in_place` is for the structure and smoke tests, where the file itself is what is named.
    """
    pattern = _CLAIM_IN_PLACE if in_place else _CLAIM
    begin = 0
    for piece in [*_SENTENCE.finditer(text), None]:
        end = len(text) if piece is None else piece.start()
        sentence = " ".join(text[begin:end].split())[:_LONGEST]
        if (
            sentence
            and pattern.match(sentence)
            and not _NEGATED.search(_NOT_NEGATED.sub(" ", sentence))
            and not _IDENTITY.search(sentence)
        ):
            lead = len(text[begin:end]) - len(text[begin:end].lstrip())
            yield text.count("\n", 0, begin + lead) + 1, sentence
        begin = end if piece is None else piece.end()


def _in_tests(context: Context) -> Iterator[Evidence]:
    for path in context.head.paths():
        if not path.startswith(f"{context.source.path}/") or not path.endswith(".py"):
            continue
        in_place = path.rpartition("/")[2] in ("test_structure.py", "test_smoke.py")
        try:
            root = context.python.syntax(path)
        except (KeyError, UnparsableError):
            continue
        for node in ast.walk(root):
            docstring = docstring_node(node)
            looks = in_place and any(
                _LOOKS_AT_EDGES.search(ast.unparse(statement))
                for statement in getattr(node, "body", [])
                if isinstance(statement, ast.stmt)
            )
            if docstring is not None and not (looks and not isinstance(node, ast.Module)):
                text = str(docstring.value)
                for line, sentence in claims_in(text, in_place=in_place):
                    where = Location(path=path, line=docstring.lineno + line - 1)
                    yield at(_quoted(sentence), where)
            if (
                in_place
                and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and _CLAIMING_NAME.search(node.name)
                and not looks
            ):
                yield at(f"`{node.name}`", Location(path=path, line=node.lineno))


def _in_documents(context: Context) -> Iterator[Evidence]:
    for path in context.head.paths():
        if path.startswith(f"{context.source.path}/") and path.lower().endswith((".md", ".rst")):
            try:
                text = context.head.read(path).decode(errors="replace")
            except KeyError:
                continue
            for line, sentence in claims_in(text):
                yield at(_quoted(sentence), Location(path=path, line=line))


def _in_text(context: Context) -> Iterator[Evidence]:
    for _, sentence in claims_in(context.pull_request_text or ""):
        yield at(f"the pull request says {_quoted(sentence)}", None)


def _quoted(sentence: str) -> str:
    shown = sentence.strip("#-*> ").replace("`", "'")
    return f"“{shown if len(shown) <= 200 else shown[:199] + '…'}”"
