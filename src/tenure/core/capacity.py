"""Which hosts are free, for how much, and who may add to them: the book-keeping below placement.

Sets of hosts are integers used as bit masks: bit i is host i of ``Capacity.hosts``. Units as in ``model``:
whole GPUs, thousandths of a CPU, MiB, amounts in thousandths of a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Self

from tenure.core import tally
from tenure.core.model import GPU, Host, Role, Slots

_SHAPES_KEPT = 4096
"""How many (GPUs, CPUs, memory) shapes a layout remembers the suitable hosts of."""


@lru_cache(maxsize=_SHAPES_KEPT)
def bits_of(gpus: tuple[int, ...]) -> int:
    """The bit mask of GPU indices."""
    bits = 0
    for gpu in gpus:
        bits |= 1 << gpu
    return bits


@lru_cache(maxsize=_SHAPES_KEPT)
def lowest(bits: int, count: int) -> tuple[int, ...]:
    """The indices of the ``count`` lowest bits set."""
    indices = []
    for _ in range(count):
        low = bits & -bits
        indices.append(low.bit_length() - 1)
        bits ^= low
    return tuple(indices)


class Layout:
    """What never changes about the hosts; shared by a room and all its forks."""

    __slots__ = ("_shapes", "_values", "all", "by_size", "full", "hosts", "index", "largest", "most", "ones")

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = tuple(hosts)
        self.index = {host.name: i for i, host in enumerate(self.hosts)}
        if len(self.index) != len(self.hosts):
            raise ValueError("host names must differ within a cluster")
        self.all = (1 << len(self.hosts)) - 1
        self.full = [(1 << host.gpus) - 1 for host in self.hosts]
        self.ones = sum(1 << tally.WIDTH * i for i in range(len(self.hosts)))
        self.largest = max((host.gpus for host in self.hosts), default=0)
        self.most = (
            self.largest,
            max((host.cpus for host in self.hosts), default=0),
            max((host.mem for host in self.hosts), default=0),
        )
        """The most GPUs, CPUs and memory that one host has."""
        self.by_size: dict[int, int] = {}
        """Number of GPUs -> mask of the hosts built with that many."""
        for i, host in enumerate(self.hosts):
            self.by_size[host.gpus] = self.by_size.get(host.gpus, 0) | 1 << i
        self._values: dict[str, dict[str, int]] = {}
        self._shapes: dict[tuple[int, int, int], int] = {}

    def values(self, key: str) -> dict[str, int]:
        """Value of label ``key`` -> mask of the hosts that have it, in the order of the values' names."""
        found = self._values.get(key)
        if found is None:
            masks: dict[str, int] = {}
            for i, host in enumerate(self.hosts):
                value = host.label(key)
                if value is not None:
                    masks[value] = masks.get(value, 0) | 1 << i
            found = self._values[key] = dict(sorted(masks.items()))
        return found

    def suits(self, role: Role) -> int:
        """Mask of the hosts that, empty, could take one replica."""
        shape = (role.gpus, role.cpus, role.mem)
        mask = self._shapes.get(shape)
        if mask is None:
            mask = 0
            for i, host in enumerate(self.hosts):
                if host.gpus >= role.gpus and host.cpus >= role.cpus and host.mem >= role.mem:
                    mask |= 1 << i
            if len(self._shapes) >= _SHAPES_KEPT:
                self._shapes.clear()
            self._shapes[shape] = mask
        return mask


class Capacity:
    """The free resources of one cluster's hosts.

    A GPU is held at most twice: by its holder and by one claim that waits for that holder to leave; it is
    free when nobody holds it. CPUs and memory are plain sums and go negative while a claim waits for its
    victims. ``free_gpus`` counts the free GPUs on open hosts.

    What others than Tenure use of a host is counted, not numbered: so many fewer of its GPUs are free, and none when
    they and what is held here are more than there are.
    """

    __slots__ = (
        "_by_free",
        "_cpus",
        "_doubled",
        "_held",
        "_layout",
        "_mem",
        "_open",
        "_open_fields",
        "_others",
        "_untouched",
        "free",
        "free_gpus",
        "gained",
        "hosts",
        "index",
    )

    def __init__(self, hosts: Sequence[Host], like: Capacity | None = None) -> None:
        """Every host open and empty, or a copy of ``like``. Raises ValueError when two hosts have the same name."""
        if like is not None:
            self._copy(like)
            return
        layout = self._layout = Layout(hosts)
        self.hosts = layout.hosts
        self.index = layout.index
        self._held = [0] * len(self.hosts)
        self._doubled = [0] * len(self.hosts)
        self._others = [0] * len(self.hosts)
        self._cpus = [host.cpus for host in self.hosts]
        self._mem = [host.mem for host in self.hosts]
        self._open = layout.all
        self._open_fields = tally.spread(layout.all)
        self._untouched = layout.all  # hosts with all their CPUs and memory free
        self._by_free = [layout.by_size.get(count, 0) for count in range(layout.largest + 1)]
        self.free_gpus = sum(host.gpus for host in self.hosts)
        self.free = sum(host.gpus << tally.WIDTH * i for i, host in enumerate(self.hosts))
        """Free GPUs by host, open or not (see ``tally``)."""
        self.gained = layout.all
        """Hosts on which something became free since somebody last set this to 0."""

    def fork(self) -> Self:
        """A copy to try things on; the facts about the hosts are shared."""
        return type(self)((), self)

    def _copy(self, other: Capacity) -> None:
        self._layout = other._layout
        self.hosts = other.hosts
        self.index = other.index
        self._held = other._held.copy()
        self._doubled = other._doubled.copy()
        self._others = other._others.copy()
        self._cpus = other._cpus.copy()
        self._mem = other._mem.copy()
        self._open = other._open
        self._open_fields = other._open_fields
        self._untouched = other._untouched
        self._by_free = other._by_free.copy()
        self.free_gpus = other.free_gpus
        self.free = other.free
        self.gained = other.gained

    @property
    def most(self) -> tuple[int, int, int]:
        """The most GPUs, CPUs and memory that one host has when nothing runs on it."""
        return self._layout.most

    def set_open(self, host: str, is_open: bool) -> None:
        """A closed host takes no new replicas; what is held there stays. Raises KeyError: no such host."""
        i = self.index[host]
        if is_open != bool(self._open >> i & 1):
            self._open ^= 1 << i
            self._open_fields ^= tally.FIELD << tally.WIDTH * i
            self.gained |= 1 << i
            free = self._free_count(i)
            self.free_gpus += free if is_open else -free

    def is_open(self, host: str) -> bool:
        """Raises KeyError when there is no such host."""
        return bool(self._open >> self.index[host] & 1)

    def free_on(self, host: str) -> int:
        """The GPUs of a host that nobody of Tenure's holds, as bits, whether it is open or not. Raises KeyError."""
        i = self.index[host]
        return self._layout.full[i] & ~self._held[i]

    def free_count(self, host: str) -> int:
        """Free GPUs of a host, open or not. Raises KeyError when there is no such host."""
        return self._free_count(self.index[host])

    def _free_count(self, i: int) -> int:
        free = (self._layout.full[i] & ~self._held[i]).bit_count() - self._others[i]
        return free if free > 0 else 0

    def occupy(self, host: str, gpus: int, cpus: int, mem: int) -> None:
        """Others use so much more of a host than before, less where it is negative. Raises KeyError: no such host."""
        i = self.index[host]
        self._settle(i, self._held[i], -cpus, -mem, gpus)

    def open_hosts(self) -> int:
        """The hosts that take new replicas, as bits."""
        return self._open

    def whole_free(self, hosts: int | None = None) -> int:
        """Number of open hosts that have GPUs, all of them free; of ``hosts`` if given."""
        return self._whole(self._open if hosts is None else self._open & hosts).bit_count()

    def free_within(self, hosts: int) -> int:
        """Free GPUs on those of ``hosts`` that are open."""
        return self._free_in(self._open & hosts)

    def take(self, slots: Iterable[Slots]) -> None:
        """Hold these slots; GPUs that are held already become claimed as well.

        Raises ValueError when a GPU is claimed already or does not exist, KeyError for an unknown host; then
        nothing is taken.
        """
        done: list[Slots] = []
        for slot in slots:
            try:
                self._take(slot)
            except (KeyError, ValueError):
                self.give(done)
                raise
            done.append(slot)

    def give(self, slots: Iterable[Slots]) -> None:
        """Undo one ``take``: of a GPU that is held and claimed one of the two stays.

        Raises ValueError when a GPU is not held, KeyError for an unknown host; then nothing is given back.
        """
        done: list[Slots] = []
        for slot in slots:
            try:
                self._give(slot)
            except (KeyError, ValueError):
                self.take(done)
                raise
            done.append(slot)

    def _take(self, slot: Slots) -> None:
        i = self.index[slot.host]
        bits = bits_of(slot.gpus)
        bad = bits & (self._doubled[i] | ~self._layout.full[i])
        if bad:
            gpu = lowest(bad, 1)[0]
            raise ValueError(f"host {slot.host}: GPU {gpu} is claimed already or does not exist")
        held = self._held[i]
        self._doubled[i] |= held & bits
        self._settle(i, held | bits, -slot.cpus, -slot.mem)

    def _give(self, slot: Slots) -> None:
        i = self.index[slot.host]
        bits = bits_of(slot.gpus)
        held = self._held[i]
        bad = bits & ~held
        if bad:
            raise ValueError(f"host {slot.host}: GPU {lowest(bad, 1)[0]} is not held")
        both = self._doubled[i] & bits
        self._doubled[i] &= ~bits
        self._settle(i, held & ~(bits & ~both), slot.cpus, slot.mem)

    def _settle(self, i: int, held: int, cpus: int, mem: int, others: int = 0) -> None:
        """Host ``i`` now has ``held``, and ``cpus`` and ``mem`` more free; put it in the right masks.

        ``others``: how many more of its GPUs are used by others.
        """
        bit, old = 1 << i, self._free_count(i)
        self._held[i] = held
        self._others[i] += others
        new = self._free_count(i)
        if old != new:
            self._by_free[old] ^= bit
            self._by_free[new] ^= bit
            self.free += new - old << tally.WIDTH * i
            if self._open & bit:
                self.free_gpus += new - old
        if new > old or cpus > 0 or mem > 0:
            self.gained |= bit
        self._cpus[i] += cpus
        self._mem[i] += mem
        if self._cpus[i] == self.hosts[i].cpus and self._mem[i] == self.hosts[i].mem:
            self._untouched |= bit
        else:
            self._untouched &= ~bit

    def by_host(self, slots: Iterable[Slots]) -> int:
        """The GPUs of these slots by host (see ``tally``)."""
        index = self.index
        return sum(len(slot.gpus) << tally.WIDTH * index[slot.host] for slot in slots)

    def opens(self, slots: Iterable[Slots], hosts: int | None) -> bool:
        """Whether some of these slots are on an open host, one of ``hosts`` if given."""
        where = self._open if hosts is None else self._open & hosts
        return bool(self.mask(slots) & where)

    def mask(self, slots: Iterable[Slots]) -> int:
        """The hosts of these slots, as bits."""
        hosts = 0
        for slot in slots:
            hosts |= 1 << self.index[slot.host]
        return hosts

    def holds(self, more: int, roles: Iterable[tuple[int, int, int, int]], hosts: int) -> bool:
        """Whether the GPUs of ``hosts`` would do for every role by itself, with ``more`` (by host) than what is free.

        A role is (replicas, GPUs, CPUs, memory); of GPUs it may need more than there are hosts with.
        """
        counts, ones = (self.free + more) & self._open_fields & tally.spread(hosts), self._layout.ones
        return all(tally.holds(counts, replicas, gpus, ones) for replicas, gpus, _, _ in roles)

    def largest(self, more: int, hosts: int) -> int:
        """The most GPUs on one of these hosts, if it is open, with ``more`` (by host) than what is free."""
        return tally.largest((self.free + more) & self._open_fields, hosts)

    def amount(self, slots: Sequence[Slots]) -> int:
        """What these slots of one job are charged, in thousandths of a GPU (rule 1).

        Per host the largest of the GPUs, the CPU share and the memory share of the host, rounded up, summed
        over the hosts. Raises KeyError for an unknown host.
        """
        used: dict[str, tuple[int, int, int]] = {}
        for slot in slots:
            gpus, cpus, mem = used.get(slot.host, (0, 0, 0))
            used[slot.host] = (gpus + len(slot.gpus), cpus + slot.cpus, mem + slot.mem)
        total = 0
        for name, (gpus, cpus, mem) in used.items():
            host = self.hosts[self.index[name]]
            whole = host.gpus * GPU
            total += max(gpus * GPU, _share(cpus, host.cpus, whole), _share(mem, host.mem, whole))
        return total

    def _whole(self, mask: int) -> int:
        """The hosts of ``mask`` that have GPUs, all of them free."""
        whole = 0
        for size, hosts in self._layout.by_size.items():
            if size:
                whole |= self._by_free[size] & hosts & mask
        return whole

    def _free_in(self, mask: int) -> int:
        """Free GPUs on the hosts of ``mask``, open or not."""
        return sum(count * (hosts & mask).bit_count() for count, hosts in enumerate(self._by_free))


def _share(used: int, of: int, whole: int) -> int:
    """``used`` of ``of`` as a share of ``whole``, rounded up; 0 where the host has none of it."""
    return -(-used * whole // of) if of else 0
