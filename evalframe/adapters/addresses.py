"""The address of a server, and the proxy that the environment names for it."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from evalframe.errors import AdapterError

PORTS = {"http": 80, "https": 443}
_LOOPBACK = ("localhost", "::1")


def split_url(base_url: str) -> SplitResult:
    """Take the address of a server apart.

    Raises:
        AdapterError: It is no http or https URL, or has what does not belong in one; a user or key is not repeated.
    """
    remedy = "write one such as http://127.0.0.1:8000/v1"
    try:
        url = urlsplit(base_url)
        port = url.port
    except ValueError as error:
        shown = f"{base_url!r} is" if "@" not in base_url else "this is"
        raise AdapterError(f"{shown} no URL: {error}; {remedy}") from None
    if url.username is not None or url.password is not None:
        raise AdapterError(f"the URL of {url.hostname} has a user or password in it; keys come from the environment")
    if url.scheme not in PORTS or not url.hostname or port == 0:
        raise AdapterError(f"{base_url!r} is no http or https URL; {remedy}")
    if url.query or url.fragment:
        raise AdapterError(f"the URL of {url.hostname} has a query or fragment; {remedy}")
    if any(c.isspace() or not c.isascii() or not c.isprintable() for c in base_url):
        raise AdapterError(f"{base_url!r} has blanks or letters that a URL can not have; {remedy}")
    return url


def proxy_of(url: SplitResult) -> SplitResult | None:
    """Find the proxy that the environment names for a server; a server on this machine needs none.

    Raises:
        AdapterError: The proxy is of a kind that is not supported, or its address is none.
    """
    host = url.hostname or ""
    if host in _LOOPBACK or host.startswith("127.") or proxy_bypass(url.netloc):
        return None
    proxies = getproxies()
    named = proxies.get(url.scheme) or proxies.get("all")
    if not named:
        return None
    mend = f"mend {url.scheme.upper()}_PROXY, or name {host} in NO_PROXY"
    try:
        proxy = urlsplit(named if "://" in named else f"http://{named}")
        is_address = bool(proxy.hostname) and proxy.port != 0
    except ValueError:
        is_address = False
    if not is_address:  # it may hold a password, so it is not repeated
        raise AdapterError(f"the proxy of the environment for {url.scheme} has no legal address: {mend}")
    if proxy.scheme != "http":
        raise AdapterError(
            f"the proxy of the environment for {url.scheme} is of the kind {proxy.scheme!r}; only http:// proxies are "
            f"supported: {mend}"
        )
    return proxy


def proxy_login(proxy: SplitResult) -> str:
    """Give the header that logs in to a proxy; empty where its address has no user."""
    if not proxy.username:
        return ""
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return f"Proxy-Authorization: Basic {b64encode(login.encode()).decode()}\r\n"
