"""Where any of many values stands in a text: one pass over it, however many there are. Used by ``masking``.

The automaton of Aho and Corasick: the values are a tree of characters, and from each node a way leads back to the
longest other beginning of a value that the text read so far ends in. So no character is looked at from the start of
each value.
"""

from array import array

CODE_BITS = 21  # of a character


class Occurrences:
    """Grows by ``add``. The root is node 0; the number of a node is that of its making."""

    def __init__(self) -> None:
        self._edges: dict[int, int] = {}  # node and character: the next node
        self._parents, self._codes, self._depths = array("q", [0]), array("q", [0]), array("q", [0])
        self._ends = {0: 0}  # nodes at which a value ends, and its length
        self._back: list[int] = []
        self._longest: list[int] = []  # length of the longest value that ends at this node
        self._is_linked = False

    def add(self, value: str) -> None:
        node = 0
        for code in map(ord, value):
            edge = node << CODE_BITS | code
            following = self._edges.get(edge)
            if following is None:
                following = self._edges[edge] = len(self._parents)
                self._parents.append(node)
                self._codes.append(code)
                self._depths.append(self._depths[node] + 1)
                self._is_linked = False
            node = following
        if node not in self._ends:
            self._ends[node] = len(value)
            self._is_linked = False

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Begin and end of all that is covered by values, in order. Those that overlap are one span."""
        if not self._is_linked:
            self._link()
        edges, back, longest = self._edges, self._back, self._longest
        found: list[tuple[int, int]] = []
        node = 0
        for end, code in enumerate(map(ord, text), 1):
            following = edges.get(node << CODE_BITS | code)
            while following is None and node:
                node = back[node]
                following = edges.get(node << CODE_BITS | code)
            node = following or 0
            if longest[node]:
                begin = end - longest[node]
                while found and begin < found[-1][1]:
                    begin = min(begin, found.pop()[0])
                found.append((begin, end))
        return found

    def _link(self) -> None:
        """From short beginnings to long ones: the way back of a node goes over that of its parent."""
        edges, count = self._edges, len(self._parents)
        back, longest = [0] * count, [0] * count
        for node in sorted(range(1, count), key=self._depths.__getitem__):
            parent, code = self._parents[node], self._codes[node]
            at, following = parent, None
            while following is None and at:
                at = back[at]
                following = edges.get(at << CODE_BITS | code)
            back[node] = following or 0
            longest[node] = self._ends.get(node) or longest[back[node]]
        self._back, self._longest, self._is_linked = back, longest, True
