"""A verdict whose every text would rather be markup, a script, a template, or endless."""

from __future__ import annotations

from dataclasses import asdict, replace

from dc_engine.verdict import Dependencies, DependencyVerdict, LostDependency, Verdict
from tests.checkpoints.verdicts import RULES, pair, verdict

ATTACKS = {
    "image": "<img src=x onerror=\"window.hacked='image'\">",
    "script": "<script>window.hacked='script'</script>",
    "way_out": "</code></div></td></tr></table><b id=hacked>",
    "handler": '" onmouseover="window.hacked=1" x=\'',
    "parameter": "$name_0 $sentence_2 $text",
    "braces": "${name_0} ${x} $$ $PARAMETER.y",
    "jinja": "{{ 7 * 7 }} {% raw %} {{section_id}}",
    "printf": "%s %(x)s %d {0} {x}",
    "entity": "&amp; &lt;b&gt; &#60;i&#62; &copy",
    "comment": "<!-- <![CDATA[",
    "lines": "one\ntwo\r\n\tthree\u202e\u2028four\x00",
    "long": "x" * 10_000,
}
TAME = dict.fromkeys(ATTACKS, "tame")


def hostile(texts: dict[str, str] = ATTACKS) -> Verdict:
    """One rule for each text, which is its name, sentence, formula, key, values and more; the run has them all."""
    found = verdict(rules=RULES[:1], broken={"zip_decides_city": 2})
    (rule,) = found.constraints
    rules = [
        replace(
            rule,
            name=f"{name} {text}",
            description=f"sentence of {name}: {text}",
            formula=f"formula of {name}: {text}",
            samples=[pair({"id": f"key {text}", f"{name} {text}": text, "b": 1}, {"id": text, f"{name} {text}": 2})],
            worst_rows=[{"row": {text: text}, "violations": 2}],
            violations=f"/violations/{name}/{text}",
        )
        for name, text in texts.items()
    ]
    watched = [
        DependencyVerdict(f"dependency {name} {text}", text, f"text of {name}: {text}", f"not {text}", since=text)
        for name, text in texts.items()
    ]
    example, instead = rules[0].samples[0], [{"id": text, "text": text} for text in texts.values()]
    lost = [LostDependency(**asdict(one), violations=2, example=example, instead=instead) for one in watched[:2]]
    everything = " ".join(text[:60] for text in texts.values())
    return replace(
        found,
        table=f"table {everything}",
        load_id=f"load {everything}",
        constraints=rules,
        dependencies=Dependencies(watched=watched, invalidated=lost),
        notes=[f"note of {name}: {text}" for name, text in texts.items()],
        replaced=True,
    )
