"""Bodies that can never hold, whatever the rows: they are refused, because nothing would ever violate them.

Columns and constants are the nodes of a graph; ``a < b``, ``a <= b`` and ``a = b`` are its edges. A body is
contradictory when a strict edge lies on a cycle, or when ``!=`` is between nodes that are forced equal.
That holds in dense and in discrete orders, for every type, with NULLs ignored or equal.
"""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import combinations

from dc_engine.constraints.model import Body, Column, Constant, Op, Predicate
from dc_engine.constraints.normalise import swapped, value_key
from dc_engine.constraints.printer import print_predicate
from dc_engine.errors import ConstraintError

Node = tuple[str, ...]
Edges = dict[Node, list[tuple[Node, Predicate | None]]]
"""From a node to those that are not less than it, and the predicate that says so (none between constants)."""


def check_bodies(bodies: tuple[Body, ...]) -> None:
    """Refuse bodies that are empty, can never hold, or can hold together for one pair of rows."""
    if not bodies or not all(bodies):
        raise ConstraintError("a body without predicates.", hint="Write predicates such as t.zip = s.zip.")
    for body in bodies:
        why = contradiction(body)
        if why:
            raise ConstraintError(f"it can never be violated: {why}.", hint="Check rows and operators.")
    for one, other in combinations(bodies, 2):
        if not _exclude_each_other(one, other):
            raise ConstraintError(
                "one pair of rows can satisfy two of its bodies, and would count twice.",
                hint="Write one constraint for each body.",
            )


def contradiction(body: Body) -> str | None:
    """Why no rows can satisfy the body; nothing when some may."""
    for predicate in body:
        right = predicate.right
        always_equal = isinstance(right, Column) and right.key == predicate.left.key
        if always_equal and predicate.op in (Op.NE, Op.LT, Op.GT):
            return f"'{print_predicate(predicate)}' is never true"
    if _is_forest(body):
        return None
    edges: Edges = defaultdict(list)
    strict: list[tuple[Node, Node, Predicate | None]] = []
    _add_predicates(body, edges, strict)
    _add_constants(body, edges, strict)
    cycles = _cycles(edges)
    for less, more, reason in strict:
        if cycles[less] == cycles[more]:
            return _explain(body, [reason, *_path(edges, more, less)])
    for predicate in body:
        if predicate.op is Op.NE:
            one, other = _node(predicate.left), _node_for(predicate)
            if one in cycles and cycles[one] == cycles.get(other):
                return _explain(body, [predicate, *_path(edges, one, other), *_path(edges, other, one)])
    return None


def _exclude_each_other(one: Body, other: Body) -> bool:
    """Whether no rows can violate both; in bodies over two rows, each may hold either way round."""
    two_rows = [any(_mentions_s(predicate) for predicate in body) for body in (one, other)]
    if two_rows[0] != two_rows[1]:
        return False
    ways = (other, swapped(other)) if two_rows[0] else (other,)
    return all(contradiction(one + way) for way in ways)


def _mentions_s(predicate: Predicate) -> bool:
    right = predicate.right
    return predicate.left.row == "s" or (isinstance(right, Column) and right.row == "s")


def _is_forest(body: Body) -> bool:
    """A quick way out: terms joined without a cycle, all constants taken as one, can be satisfied."""
    group: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        while (above := group.get(node, node)) != node:
            group[node] = node = group.get(above, above)
        return node

    for predicate in body:
        right = predicate.right
        one = root(predicate.left.key)
        other = root(right.key if isinstance(right, Column) else ("constant",))
        if one == other:
            return False
        group[one] = other
    return True


def _add_predicates(body: Body, edges: Edges, strict: list[tuple[Node, Node, Predicate | None]]) -> None:
    for predicate in body:
        left, right = _node(predicate.left), _node_for(predicate)
        op = predicate.op
        if op in (Op.LT, Op.LE, Op.EQ):
            edges[left].append((right, predicate))
        if op in (Op.GT, Op.GE, Op.EQ):
            edges[right].append((left, predicate))
        if op is Op.LT:
            strict.append((left, right, predicate))
        if op is Op.GT:
            strict.append((right, left, predicate))


def _add_constants(body: Body, edges: Edges, strict: list[tuple[Node, Node, Predicate | None]]) -> None:
    """The order of constants among themselves; those that are only compared by ``!=`` lie on no cycle."""
    families: dict[str, dict[Node, Constant]] = defaultdict(dict)
    for predicate in body:
        if isinstance(predicate.right, Constant) and predicate.op is not Op.NE:
            families[value_key(predicate.right)[0]][_node_for(predicate)] = predicate.right
    for family in families.values():
        nodes = sorted(family, key=lambda node: family[node].value)
        greater: list[int] = []  # the place of the first certainly greater one; so are all after it
        for node in nodes:
            place = greater[-1] if greater else 0
            while place < len(nodes) and not _certainly_less(family[node], family[nodes[place]]):
                place += 1
            greater.append(place)
        for less, first in zip(nodes, greater, strict=True):
            for more in nodes[first : greater[first] if first < len(nodes) else first]:  # the rest follows from these
                edges[less].append((more, None))
                strict.append((less, more, None))


def _node(term: Column | Constant) -> Node:
    return term.key if isinstance(term, Column) else ("constant", *value_key(term))


def _node_for(predicate: Predicate) -> Node:
    """The node of a predicate's right side.

    A number takes the type of the column that it is compared with: 0.1 is one value in a float column and
    another in a double column. Unless it is exact in every type, it is the same only beside the same column.
    """
    right = predicate.right
    node = _node(right)
    if isinstance(right, Constant) and isinstance(right.value, int | Decimal) and not _is_exact(right.value):
        return (*node, predicate.left.key[1])
    return node


def _is_exact(number: int | Decimal) -> bool:
    try:
        return bool(struct.unpack("f", struct.pack("f", number))[0] == number)
    except OverflowError:
        return False


def _certainly_less(low: Constant, high: Constant) -> bool:
    """Whether one constant is less than another of its family in every type that both can take."""
    match low.value, high.value:
        case (bool() | str() as one, bool() | str() as other):
            return one < other  # type: ignore[operator]
        case (int() | Decimal() as one, int() | Decimal() as other):
            return _less_after_rounding(float(one), float(other))
        case (datetime() as one, datetime() as other):
            # Local times: a clock change may swap or merge two that are close.
            return other - one > timedelta(days=1) if one.tzinfo is None else one < other
        case (date() as one, date() as other):
            return one < other
    return False


def _less_after_rounding(low: float, high: float) -> bool:
    """Whether two numbers stay apart when each is rounded to float or double."""
    largest = 3.4e38
    low, high = (max(-largest, min(largest, number)) for number in (low, high))
    return high - low > 1e-6 * max(abs(low), abs(high)) + 1e-37


def _cycles(edges: Edges) -> dict[Node, int]:
    """A number for each node, the same for nodes that lie on a common cycle (its strong component, after Kosaraju)."""
    back: dict[Node, list[Node]] = {node: [] for node in edges}
    for node, following in edges.items():
        for follower, _ in following:
            back.setdefault(follower, []).append(node)
    finished: list[Node] = []
    seen: set[Node] = set()
    for start in back:
        walk = [(start, False)]
        while walk:
            node, done = walk.pop()
            if done:
                finished.append(node)
            elif node not in seen:
                seen.add(node)
                walk.append((node, True))
                walk += [(follower, False) for follower, _ in edges.get(node, ()) if follower not in seen]
    number: dict[Node, int] = {}
    for start in reversed(finished):
        waiting = [start]
        while waiting:
            node = waiting.pop()
            if node not in number:
                number[node] = number[start] if start in number else len(number)
                waiting += [one for one in back[node] if one not in number]
    return number


def _path(edges: Edges, start: Node, goal: Node) -> list[Predicate | None]:
    """The predicates along a shortest path from a node to one that is not less; there is one."""
    came: dict[Node, tuple[Node, Predicate | None]] = {}
    waiting = deque([start])
    while goal != start and goal not in came:
        node = waiting.popleft()
        for follower, predicate in edges.get(node, ()):
            if follower != start and follower not in came:
                came[follower] = (node, predicate)
                waiting.append(follower)
    return [came[one][1] for one in _backwards(came, start, goal)]


def _backwards(came: dict[Node, tuple[Node, Predicate | None]], start: Node, goal: Node) -> Iterator[Node]:
    while goal != start:
        yield goal
        goal = came[goal][0]


def _explain(body: Body, guilty: list[Predicate | None]) -> str:
    texts = [f"'{print_predicate(predicate)}'" for predicate in body if predicate in guilty]
    return f"{', '.join(texts[:-1])} and {texts[-1]} exclude each other"
