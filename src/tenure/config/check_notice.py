"""Limits of ``[notice]``: how people are told what becomes of their jobs."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from tenure.config.check import Limits
from tenure.config.problems import Problem, did_you_mean, show
from tenure.config.settings import Notice, Smtp
from tenure.core.model import DAY, HOUR, MINUTE, SECOND

TLS = ("starttls", "tls", "none")
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|[0-9a-fA-F:.]+)")
_HOST_AND_PORT = re.compile(rf"{_HOST.pattern}(:[0-9]{{1,5}})?")
_SENDER = re.compile(rf"[A-Za-z0-9._+-]{{1,64}}@{_DOMAIN.pattern}")


def check_notice(notice: Notice, file: str) -> list[Problem]:
    at = Limits(file, ("notice",))
    at.between("timeout", notice.timeout, SECOND, MINUTE)
    at.between("retry_first", notice.retry_first, 100, HOUR)
    at.between("give_up_after", notice.give_up_after, MINUTE, 7 * DAY)
    if notice.default_domain:
        if not _DOMAIN.fullmatch(notice.default_domain):
            at.add("default_domain", show(notice.default_domain), "name a domain, like lab.example")
        elif not notice.smtp.host:
            at.add("default_domain", show(notice.default_domain), "name the mail server in [notice.smtp] as well")
        elif notice.mail_domains and notice.default_domain not in notice.mail_domains:
            at.add("default_domain", show(notice.default_domain), "it has to be one of mail_domains")
    if notice.link and not _is_link(notice.link):
        at.add("link", show(notice.link), 'write an address with {job} in it, like "https://tenure.lab.example/{job}"')
    if notice.secret_file is not None and "\0" in str(notice.secret_file):
        at.add("secret_file", show(str(notice.secret_file)), "name a file, like /etc/tenure/notice.key")
    for host in notice.webhook_hosts:
        if not _HOST_AND_PORT.fullmatch(host):
            at.add("webhook_hosts", show(host), "name hosts, with or without a port, like hooks.lab.example:8443")
    for domain in notice.mail_domains:
        if not _DOMAIN.fullmatch(domain):
            at.add("mail_domains", show(domain), "name domains, like lab.example")
    return at.problems + _check_smtp(notice.smtp, file)


def _check_smtp(smtp: Smtp, file: str) -> list[Problem]:
    at = Limits(file, ("notice", "smtp"))
    if smtp == Smtp():
        return []
    if not smtp.host or not _HOST.fullmatch(smtp.host):
        at.add("host", show(smtp.host), "name the mail server, like mail.lab.example")
    if not 1 <= smtp.port <= 65535:
        at.add("port", show(smtp.port), "from 1 to 65535")
    if smtp.tls not in TLS:
        at.add("tls", show(smtp.tls), did_you_mean(smtp.tls, TLS))
    if not _SENDER.fullmatch(smtp.sender):
        at.add("from", show(smtp.sender), 'write the address that mail comes from, like "tenure@lab.example"')
    if bool(smtp.user) != (smtp.password_file is not None):
        at.add("user", show(smtp.user), "give user and password_file together, or neither")
    elif smtp.user and smtp.tls == "none":
        at.add("tls", show(smtp.tls), "a password is not sent in clear: write starttls or tls")
    if not smtp.user.isprintable():
        at.add("user", show(smtp.user), "no control characters")
    if smtp.password_file is not None and "\0" in str(smtp.password_file):
        at.add("password_file", show(str(smtp.password_file)), "name a file, like /etc/tenure/smtp.password")
    return at.problems


def _is_link(link: str) -> bool:
    try:
        parts = urlsplit(link)
    except ValueError:
        return False
    plain = link.isascii() and link.isprintable() and not set(link) & set(' "<>|\\')
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and "{job}" in link
