"""One mail, by the site's mail server."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage

from tenure.config.settings import Smtp
from tenure.notice.results import Delivered, Refused, Result, TryAgain


def send(smtp: Smtp, mail: EmailMessage, timeout_ms: int) -> Result:
    """Hand the mail over once. ``timeout_ms`` is for each step of it."""
    try:
        password = smtp.password_file.read_text("utf-8").strip() if smtp.password_file is not None else ""
        server = _connected(smtp, timeout_ms / 1000)
        try:
            if smtp.user:
                server.login(smtp.user, password)
            server.send_message(mail)
        finally:
            _leave(server)
    except smtplib.SMTPRecipientsRefused as error:
        code, said = next(iter(error.recipients.values()))
        return _refused(code, said)
    except smtplib.SMTPAuthenticationError as error:
        return TryAgain(f"the mail server does not let us in: {error.smtp_code}")
    except smtplib.SMTPResponseException as error:
        return _refused(error.smtp_code, error.smtp_error)
    except ssl.SSLError as error:
        return TryAgain(f"TLS failed: {error.reason}")
    except (smtplib.SMTPException, OSError, UnicodeError) as error:
        return TryAgain(f"the mail server: {error}")
    return Delivered()


def _leave(server: smtplib.SMTP) -> None:
    """Politely; that the mail was taken is known by now, whatever is answered."""
    try:
        server.quit()
    except (smtplib.SMTPException, OSError):
        server.close()


def _connected(smtp: Smtp, timeout_s: float) -> smtplib.SMTP:
    if smtp.tls == "tls":
        return smtplib.SMTP_SSL(smtp.host, smtp.port, timeout=timeout_s, context=ssl.create_default_context())
    server = smtplib.SMTP(smtp.host, smtp.port, timeout=timeout_s)
    if smtp.tls == "starttls":
        try:
            server.starttls(context=ssl.create_default_context())
        except BaseException:
            server.close()
            raise
    return server


def _refused(code: int, said: bytes | str) -> Result:
    """A 5xx is for good, anything else may pass."""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    shown = " ".join("".join(c if c.isprintable() else " " for c in text[:200]).split())
    why = f"the mail server answered {code}: {shown}"
    return Refused(why) if code >= 500 else TryAgain(why)
