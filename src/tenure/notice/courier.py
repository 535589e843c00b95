"""The thread that delivers: each receiver has a queue of its own, and a slow one holds up nobody else."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tenure import faults
from tenure.config import Config
from tenure.core.model import HOUR
from tenure.engine.clock import wall_ms
from tenure.notice import mailing, message, webhook
from tenure.notice.kinds import Channel
from tenure.notice.message import Message
from tenure.notice.person import Person
from tenure.notice.results import Delivered, Refused, Result, TryAgain
from tenure.notice.signing import KeyFile
from tenure.notice.target import parse_target
from tenure.notice.teller import People
from tenure.store import StaleLeader
from tenure.store.store import Store
from tenure.units import UnitError

log = structlog.get_logger()

WORKERS = 16
PER_PLACE = 4
"""Deliveries at a time, and of those to one host: what hangs leaves room for the others."""
LONGEST_PAUSE = HOUR
LOOK_WITHIN_S = 60.0
STOP_WITHIN_S = 3.0
AFTER_ERROR_S = 5.0

Receiver = tuple[str, str]
"""A person and a channel."""


@dataclass(slots=True)
class Tally:
    """What ``/metrics`` says. ``oldest``: since when the one that waits longest could be delivered (ms)."""

    delivered: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    oldest: int | None = None


def pause(first: int, tries: int, roll: float) -> int:
    """ms before the next try after ``tries`` that failed: doubling from ``first``, up to 25 % more or less by ``roll``.

    So that receivers that came down together are not all asked again at the same moment.
    """
    plain = min(first << min(tries - 1, 30), LONGEST_PAUSE)
    return max(1, int(plain * (0.75 + roll / 2)))


class Courier:
    """Takes messages out of the outbox and delivers them, each at least once. ``clock``: ms UTC."""

    def __init__(self, config: Config, store: Store, epoch: int, clock: Callable[[], int] = wall_ms) -> None:
        self.tally = Tally()
        self.keys = KeyFile(config.notice_key)
        self._notice, self._store, self._epoch, self._clock = config.notice, store, epoch, clock
        self._wake = threading.Condition()
        self._poked = self._closing = False
        self._busy: dict[Receiver, str] = {}
        """Receivers that are being delivered to, and where that is."""
        self._thread = threading.Thread(target=self._run, name="notice-courier", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Deliveries under way have a moment to end. What they do not tell is tried again by the next server."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join()
        with self._wake:
            self._wake.wait_for(lambda: not self._busy, STOP_WITHIN_S)

    def poke(self) -> None:
        """There is something new. Any thread may call this."""
        with self._wake:
            self._poked = True
            self._wake.notify_all()

    def _run(self) -> None:
        while not self._closing:
            wait_s = LOOK_WITHIN_S
            try:
                wait_s = self._round()
            except StaleLeader:
                return
            except SQLAlchemyError as error:
                log.warning("notices_wait", error=str(error))
                wait_s = 1
            except Exception as error:  # what else there is to deliver must not suffer
                log.error("notices_failed", error=repr(error), exc_info=True)
            with self._wake:
                self._wake.wait_for(lambda: self._poked or self._closing, wait_s)
                self._poked = False

    def _round(self) -> float:
        """Set off for everybody who is due and not being delivered to; the seconds until somebody else is."""
        now = self._clock()
        people = People(self._store, self._notice)
        for receiver in self._store.receivers_due(now):
            place = self._place(people.get(receiver[0]), receiver)
            with self._wake:
                full = len(self._busy) >= WORKERS or Counter(self._busy.values())[place] >= PER_PLACE
                if self._closing or receiver in self._busy or full:
                    continue
                self._busy[receiver] = place
            threading.Thread(target=self._serve, args=receiver, name="notice-delivery", daemon=True).start()
        self.tally.waiting, self.tally.oldest = self._store.notices_waiting(), self._store.oldest_due(now)
        after = self._store.next_notice(now)
        return LOOK_WITHIN_S if after is None else min(LOOK_WITHIN_S, max(0, after - self._clock()) / 1000 + 0.001)

    def _place(self, person: Person | None, receiver: Receiver) -> str:
        """What may hang: the host of a webhook, or the mail server."""
        if receiver[1] != Channel.WEBHOOK or person is None:
            return receiver[1]
        try:
            return parse_target(person.webhook, self._notice.webhook_hosts).host
        except UnitError:
            return ""

    def _serve(self, user: str, channel: str) -> None:
        """Everything that is due for one receiver, until something does not go through."""
        try:
            while not self._closing and self._deliver_next(user, channel):
                pass
        except StaleLeader:
            self._closing = True
        except Exception as error:  # the database, most likely; it is still due, and tried again in a while
            log.error("notice_not_delivered", user=user, channel=channel, error=repr(error), exc_info=True)
            with self._wake:
                self._wake.wait_for(lambda: self._closing, AFTER_ERROR_S)
        finally:
            with self._wake:
                del self._busy[user, channel]
                self._poked = True
                self._wake.notify_all()

    def _deliver_next(self, user: str, channel: str) -> bool:
        """Whether there may be more to deliver. Raises StaleLeader."""
        now = self._clock()
        rows = self._store.take_message(self._epoch, user, channel, now)
        if not rows:
            return False
        whole = Message(str(rows[0].message), rows, self._notice.link)
        try:
            person = self._reached(user, channel)
            result = self._try(whole, person, channel, now) if person is not None else None
        except SQLAlchemyError:
            raise  # nothing can be written down now
        except Exception as error:  # counted as a try: what never works is given up, and not asked for all the time
            log.error("notice_not_delivered", user=user, channel=channel, error=repr(error), exc_info=True)
            result = TryAgain(f"the server failed with {type(error).__name__}; its log says where")
        if result is None:
            self._store.finish_message(whole.id, "dropped", now, "there is no address to tell any more", tried=False)
            return True
        faults.point("notice.delivered")
        return self._note(whole, channel, result)

    def _reached(self, user: str, channel: str) -> Person | None:
        """Whom the message goes to; None when they are not told by this channel any more."""
        person, known = People(self._store, self._notice).get(user), self._store.user(user)
        gone = person is None or channel not in person.channels() or (known is not None and known.disabled)
        return None if gone else person

    def _try(self, whole: Message, person: Person, channel: str, now: int) -> Result:
        if channel == Channel.EMAIL:
            if not self._notice.smtp.host:
                return Refused("this server sends no mail: it has no [notice.smtp]")
            mail = message.mail(whole, self._notice.smtp.sender, person.email, now)
            return mailing.send(self._notice.smtp, mail, self._notice.timeout)
        try:
            target = parse_target(person.webhook, self._notice.webhook_hosts)
            secret = self.keys.secret(person.salt)
        except UnitError as error:
            return Refused(str(error))
        except (OSError, ValueError) as error:
            return TryAgain(f"the key for signatures: {error}")
        return webhook.post(target, message.payload(whole), whole.id, secret, now, self._notice.timeout)

    def _note(self, whole: Message, channel: str, result: Result) -> bool:
        """Write down what became of it; whether the receiver may be asked to take more."""
        now, first = self._clock(), whole.rows[0]
        if isinstance(result, Delivered):
            self._store.finish_message(whole.id, "sent", now)
            self.tally.delivered[channel] += 1
            return True
        tries, since = first.tries + 1, first.first_try_at if first.first_try_at is not None else now
        if isinstance(result, TryAgain) and now - since < self._notice.give_up_after:
            wait = max(pause(self._notice.retry_first, tries, random.random()), result.after)
            self._store.put_off_message(whole.id, now + wait, now, result.why)
            log.info("notice_put_off", user=first.user, channel=channel, tries=tries, wait_ms=wait, why=result.why)
            return False
        self._store.finish_message(whole.id, "failed", now, result.why)
        self.tally.failed[channel] += 1
        log.warning("notice_given_up", user=first.user, channel=channel, tries=tries, why=result.why)
        return True
