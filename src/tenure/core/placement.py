"""Where a job's replicas go: gangs whole or not at all, a replica on one host, best fit, labels (rule 9).

The hosts with a given number of free GPUs are one integer used as a bit mask (see ``capacity``), so that best
fit is a handful of tests and a gang of whole hosts a popcount. Units as in ``model``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tenure.core.capacity import Capacity, bits_of, lowest
from tenure.core.model import Label, Role, Slots


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a job does not fit: what stopped the next replica of the first role that could not be placed.

    Every host is counted once, in the first that applies of ``wrong_labels``, ``too_small``, ``closed``,
    ``gpus_short`` and ``cpu_mem_short``; they add up to ``hosts``. The counts are taken after the replicas
    that did find a place, so they say what is missing for one more. With a required same-value label they are
    about the value (the rack) that has the most free GPUs.
    """

    role: int
    """Index of the role that failed."""
    placed: int
    """Replicas of that role that found a place before it failed."""
    hosts: int
    """Hosts of the cluster, in any state."""
    wrong_labels: int
    """Hosts that the required labels exclude."""
    too_small: int
    """Hosts that could not take one replica even when empty."""
    closed: int
    """Hosts that would do but take no new replicas now (drained, failed, ...)."""
    gpus_short: int
    """Open hosts with fewer free GPUs than one replica needs."""
    cpu_mem_short: int
    """Open hosts that have the free GPUs but not the CPUs or the memory."""
    free_gpus: int
    """Free GPUs on all open hosts of the cluster."""
    free_gpus_labelled: int
    """Those of them on hosts that the required labels allow (in the one best value of a same-value label)."""
    whole_free: int
    """Open hosts that labels and size allow and whose GPUs are all free, before anything was placed."""
    whole_needed: int
    """Replicas, over all roles, that each need every GPU of one of the cluster's largest hosts."""
    fits_without_labels: bool
    """True when it would fit now but for the required labels."""
    fits_if_open: bool
    """True when it would fit now if the closed hosts were open."""


class Room(Capacity):
    """The free resources of one cluster's hosts, and where a job finds its place in them."""

    __slots__ = ()

    def can_fit(self, roles: Sequence[Role], labels: Sequence[Label], hosts: int | None = None) -> bool:
        """Whether ``fit`` would find a place now, on ``hosts`` if given. Preferred labels never decide that."""
        where = self._open if hosts is None else self._open & hosts
        required = [label for label in labels if label.required] if labels else []
        if len(roles) > 1:
            return self._first(roles, self._narrow([where], required)) is not None
        role = roles[0]
        if role.gpus * role.replicas > self.free_gpus:
            return False
        if not required:
            return self._replicas(role, where) == role.replicas
        domains = self._narrow([where], required)
        return any(self._replicas(role, domain) == role.replicas for domain in domains)

    def fit(self, roles: Sequence[Role], labels: Sequence[Label]) -> tuple[Slots, ...] | Misfit:
        """What ``place`` finds, or why it finds nothing."""
        slots = self.place(roles, labels)
        return slots if slots is not None else self._explain(roles, [label for label in labels if label.required])

    def place(
        self,
        roles: Sequence[Role],
        labels: Sequence[Label],
        hosts: int | None = None,
        longer: Callable[[int], int] | None = None,
    ) -> tuple[Slots, ...] | None:
        """Slots for all replicas, in the order of (role, replica), on ``hosts`` if given. Takes nothing.

        ``longer``: by how much a host is kept busy longer by a replica on it, by the host's index. Parts of hosts go
        where that is least, so that whole hosts come free together, and then where they leave the least behind.

        Larger replicas are placed first, each on the host with the fewest free GPUs that has room, then the
        lowest index. Of the values of a required same-value label, the one with the fewest free GPUs that are
        enough. Preferred labels are kept one after the other, earlier ones first, as long as the job still
        fits; a preferred same-value label that no one value can satisfy is spread over as few as possible.
        """
        required = [label for label in labels if label.required]
        where = self._open if hosts is None else self._open & hosts
        domains = self._narrow([where], required) if required else [where]
        best = self._first(roles, domains)
        if best is None:
            return None
        for label in labels:
            if not label.required:
                better = self._prefer(roles, domains, label)
                if better is not None:
                    domains, best = better
        if longer is not None and any(role.gpus < self._layout.largest for role in roles):
            packed = _Try(self, best.mask, roles, longer)
            best = packed if packed.failed is None else best
        return best.slots(roles)

    def _narrow(self, domains: list[int], labels: Iterable[Label]) -> list[int]:
        """Each domain cut down to the hosts of each way to satisfy the labels; by name, none empty."""
        for label in labels:
            values = self._layout.values(label.key)
            allowed = list(values.values()) if label.value is None else [values.get(label.value, 0)]
            domains = [domain & mask for domain in domains for mask in allowed if domain & mask]
        return domains

    def _replicas(self, role: Role, mask: int) -> int:
        """How many replicas of one role find a place on ``mask``; stops counting when all do."""
        gpus, left = role.gpus, role.replicas
        mask &= self._layout.suits(role)
        for free in range(gpus, len(self._by_free)):
            hosts = self._by_free[free] & mask
            if hosts and 0 < gpus <= free < 2 * gpus:
                # One replica each, and where nothing else runs the CPUs and memory are there: count at once.
                sure = hosts & self._untouched
                left -= sure.bit_count()
                hosts ^= sure
            while hosts and left > 0:
                low = hosts & -hosts
                hosts ^= low
                i = low.bit_length() - 1
                left -= _times(role, free, self._cpus[i], self._mem[i], left)
            if left <= 0:
                return role.replicas
        return role.replicas - left

    def _first(self, roles: Sequence[Role], domains: Sequence[int]) -> _Try | None:
        """A placement in the first domain that holds it: fewest free GPUs first, then by name."""
        for domain in sorted(domains, key=self._free_in) if len(domains) > 1 else domains:
            attempt = self._attempt(roles, domain)
            if attempt is not None:
                return attempt
        return None

    def _attempt(self, roles: Sequence[Role], domain: int) -> _Try | None:
        """A placement on the hosts of ``domain``; not even tried when the free GPUs are too few."""
        free = self.free_gpus if domain == self._open else self._free_in(domain)
        if free < sum(role.replicas * role.gpus for role in roles):
            return None
        attempt = _Try(self, domain, roles)
        return attempt if attempt.failed is None else None

    def _prefer(self, roles: Sequence[Role], domains: list[int], label: Label) -> tuple[list[int], _Try] | None:
        """The domains with a preferred label satisfied, or nearly, and a placement there, if there is one."""
        narrowed = self._narrow(domains, (label,))
        attempt = self._first(roles, narrowed)
        if attempt is not None:
            return narrowed, attempt
        if label.value is not None:
            return None
        spreads = [self._spread(roles, domain, self._narrow([domain], (label,))) for domain in domains]
        found = [spread for spread in spreads if spread is not None]
        if not found:
            return None
        _, union, attempt = min(found, key=lambda spread: spread[0])
        return [union], attempt

    def _spread(self, roles: Sequence[Role], domain: int, parts: list[int]) -> tuple[int, int, _Try] | None:
        """A placement on as few parts of a domain as possible: (number of parts, their union, placement).

        The parts with the most room come first, but the last one is the smallest that is enough.
        """
        largest = max(roles, key=_size)

        def size(part: int) -> tuple[int, int]:
            return self._replicas(largest, part), self._free_in(part)

        parts = sorted(parts, key=size, reverse=True)
        union = 0
        for n, part in enumerate(parts):
            if self._attempt(roles, union | part) is not None:
                for last in sorted(parts[n:], key=size):
                    attempt = self._attempt(roles, union | last)
                    if attempt is not None:
                        return n + 1, union | last, attempt
            union |= part
        return None

    def _explain(self, roles: Sequence[Role], required: Sequence[Label]) -> Misfit:
        layout, is_open = self._layout, self._open
        everywhere = self._narrow([layout.all], required)
        domain = max(everywhere, key=lambda mask: self._free_in(mask & is_open), default=0)
        attempt = _Try(self, domain & is_open, roles)
        index = attempt.failed or 0
        role = roles[index]
        suits = layout.suits(role)
        usable = domain & suits & is_open
        short = sum((hosts & usable).bit_count() for hosts in attempt.by_free[: role.gpus])
        without = bool(required) and self._attempt(roles, is_open) is not None
        return Misfit(
            role=index,
            placed=role.replicas - attempt.missing,
            hosts=len(self.hosts),
            wrong_labels=(layout.all & ~domain).bit_count(),
            too_small=(domain & ~suits).bit_count(),
            closed=(domain & suits & ~is_open).bit_count(),
            gpus_short=short,
            cpu_mem_short=usable.bit_count() - short,
            free_gpus=self.free_gpus,
            free_gpus_labelled=self._free_in(domain & is_open),
            whole_free=self._whole(usable).bit_count(),
            whole_needed=sum(r.replicas for r in roles if 0 < r.gpus == layout.largest),
            fits_without_labels=without,
            fits_if_open=is_open != layout.all and self._first(roles, everywhere) is not None,
        )


class _Try:
    """One attempt to place all roles on the hosts of a mask, without touching the room.

    ``failed`` is the index of the role that did not fit, ``missing`` how many of its replicas have no place.
    """

    __slots__ = ("_longer", "_picks", "_room", "_spent", "by_free", "failed", "mask", "missing")

    def __init__(
        self, room: Room, mask: int, roles: Sequence[Role], longer: Callable[[int], int] | None = None
    ) -> None:
        self._room = room
        self._longer = longer
        self.mask = mask
        self.by_free = [hosts & mask for hosts in room._by_free]
        self._spent: dict[int, tuple[int, int]] = {}  # host -> CPUs and memory of what was placed there
        self._picks: list[tuple[int, int, int]] = []  # role, host, replicas
        self.failed: int | None = None
        self.missing = 0
        order = sorted(range(len(roles)), key=lambda i: _size(roles[i]), reverse=True) if len(roles) > 1 else (0,)
        for index in order:
            self.missing = self._place(index, roles[index])
            if self.missing:
                self.failed = index
                return

    def _place(self, index: int, role: Role) -> int:
        """Place one role; returns the number of replicas that found no place.

        A host that takes one replica then has the fewest free GPUs of all that still fit, so best fit goes on
        filling it: each host is visited once.
        """
        left, suits = role.replicas, self._room._layout.suits(role)
        if self._longer is not None and role.gpus < self._room._layout.largest:
            for _, free, i in self._by_time(role, suits, self._longer):
                left -= self._put(index, role, free, i, left)
                if not left:
                    break
            return left
        for free in range(role.gpus, len(self.by_free)):
            hosts = self.by_free[free] & suits
            while hosts and left:
                low = hosts & -hosts
                hosts ^= low
                left -= self._put(index, role, free, low.bit_length() - 1, left)
            if not left:
                break
        return left

    def _by_time(self, role: Role, suits: int, longer: Callable[[int], int]) -> list[tuple[int, int, int]]:
        """Hosts with the free GPUs: how much longer a replica would keep them busy, free GPUs, index; in that order."""
        found = []
        for free in range(role.gpus, len(self.by_free)):
            hosts = self.by_free[free] & suits
            while hosts:
                low = hosts & -hosts
                hosts ^= low
                i = low.bit_length() - 1
                found.append((longer(i), free, i))
        found.sort()
        return found

    def _put(self, index: int, role: Role, free: int, i: int, left: int) -> int:
        """Place as many of ``left`` replicas on host ``i``, which has ``free`` GPUs, as go there; returns how many."""
        room = self._room
        cpus, mem = self._spent.get(i, (0, 0))
        times = _times(role, free, room._cpus[i] - cpus, room._mem[i] - mem, left)
        if times:
            self._picks.append((index, i, times))
            self._spent[i] = (cpus + times * role.cpus, mem + times * role.mem)
            self.by_free[free] ^= 1 << i
            self.by_free[free - times * role.gpus] |= 1 << i
        return times

    def slots(self, roles: Sequence[Role]) -> tuple[Slots, ...]:
        """The placement as slots; replicas of a role are numbered in the order of the hosts."""
        room = self._room
        free: dict[int, int] = {}
        made: list[Slots] = []
        replicas = [0] * len(roles)
        for index, i, times in sorted(self._picks):
            role, host = roles[index], room.hosts[i]
            bits = free.get(i, room._layout.full[i] & ~room._held[i])
            for _ in range(times):
                gpus = lowest(bits, role.gpus)
                bits &= ~bits_of(gpus)
                made.append(Slots(index, replicas[index], host.name, gpus, role.cpus, role.mem))
                replicas[index] += 1
            free[i] = bits
        return tuple(made)


def possible(empty: Room, roles: Sequence[Role], labels: Sequence[Label]) -> Misfit | None:
    """Whether a job could start on hosts that are all healthy and ``empty``: None, or why not."""
    found = empty.fit(roles, [label for label in labels if label.required])
    return found if isinstance(found, Misfit) else None


def _size(role: Role) -> tuple[int, int, int]:
    """Larger replicas are placed first: GPUs, then CPUs, then memory."""
    return role.gpus, role.cpus, role.mem


def _times(role: Role, free: int, cpus: int, mem: int, most: int) -> int:
    """How many replicas, at most ``most``, a host takes with that many free GPUs, CPUs and memory."""
    if role.apart:
        most = min(most, 1)
    if role.gpus:
        most = min(most, free // role.gpus)
    if role.cpus:
        most = min(most, cpus // role.cpus)
    if role.mem:
        most = min(most, mem // role.mem)
    return max(most, 0)
