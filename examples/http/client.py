"""Fenced writes from Python, with nothing but its standard library.

    FENCEGATE_URL=http://127.0.0.1:8080 python3 client.py
"""

import http.client
import json
import os
import re
import secrets
import threading
import time
import urllib.error
import urllib.request

URL = os.environ.get("FENCEGATE_URL", "http://127.0.0.1:8080")
API_KEY = os.environ.get("FENCEGATE_API_KEY")


class Refused(Exception):
    """The gateway answered no (or not now): status is HTTP's, problem says why, and what became of the call."""

    def __init__(self, status, problem):
        super().__init__(f"{status} {problem['type'].rsplit('/')[-1]}: {problem.get('detail', problem['title'])}")
        self.status, self.problem = status, problem


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None  # a token goes to the gateway, and to nobody else


opener = urllib.request.build_opener(NoRedirect, urllib.request.ProxyHandler({}))  # nor to a proxy
NO_REPLY = (OSError, http.client.HTTPException)  # none, or half of one


def call(method, path, token=None, body=None, json_body=None, wait=0):
    headers = {}
    if API_KEY:
        headers["Authorization"] = f"Bearer {API_KEY}"
    if token:
        headers["Fencing-Token"] = token
    if json_body is not None:
        headers["Content-Type"], body = "application/json", json.dumps(json_body).encode()
    request = urllib.request.Request(URL + path, data=body, headers=headers, method=method)
    try:
        with opener.open(request, timeout=wait + 5) as reply:
            return reply.read()
    except urllib.error.HTTPError as e:
        if e.headers.get_content_type() != "application/problem+json":
            raise
        raise Refused(e.code, json.load(e)) from None


def seconds(duration):
    """Reads a duration such as 1m29.5s."""
    units = {"h": 3600, "m": 60, "s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
    return sum(float(n) * units[u] for n, u in re.findall(r"([\d.]+)(h|ms|m|s|µs|ns)", duration))


class Lease:
    """The lock on a resource, renewed in the background until it is released."""

    def __init__(self, resource, ttl=10.0, wait=10.0, label="python"):
        self.path, self.ttl = f"/v1/resources/{resource}", ttl
        # Our own grant id: the same request, sent again after a lost reply, gets the same hold. A secret.
        grant = "".join(secrets.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") for _ in range(26))
        request = {"ttl": f"{ttl}s", "wait": f"{wait}s", "label": label, "grant": grant}
        sent = time.monotonic()  # trust counts from before the call, on a clock that nobody sets
        for attempt in (1, 2, 3):
            try:
                reply = json.loads(call("POST", self.path + "/lock", json_body=request, wait=wait))
                break
            except NO_REPLY:
                if attempt == 3:
                    raise
        self.token, self.number = reply["token"], reply["number"]
        self.deadline = sent + seconds(reply["waited"]) + seconds(reply["expires_in"])
        self.stopped = threading.Event()
        self.renewals = threading.Thread(target=self._renew, daemon=True)
        self.renewals.start()

    def _renew(self):
        while not self.stopped.wait(self.ttl / 3):
            sent = time.monotonic()
            try:
                reply = json.loads(call("PATCH", self.path + "/lock", self.token, json_body={"ttl": f"{self.ttl}s"}))
                self.deadline = sent + seconds(reply["expires_in"])
            except Refused as e:
                if e.status == 412:  # lost: let the work end at its next look
                    self.deadline = 0
                    return
            except NO_REPLY:
                pass  # try again; the deadline stands

    def trusted(self):
        """Says whether to begin something. It may be wrong a moment later: the store decides, with every write."""
        return time.monotonic() < self.deadline

    def get(self, key):
        return call("GET", f"{self.path}/records/{key}", self.token)

    def put(self, key, value):
        call("PUT", f"{self.path}/records/{key}", self.token, body=value)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.renewals.join()
        call("DELETE", self.path + "/lock", self.token)


def main():
    coupon = "coupon:python"
    with Lease(coupon) as lease:
        lease.put("left", b"10")

    a = Lease(coupon, ttl=0.5)
    left = int(a.get("left"))
    print(f"A holds token {a.number}, reads {left}, and is paused")
    a.stopped.set()  # as if the process had been stopped: nothing is renewed

    with Lease(coupon) as b:  # waits until A's lock has run out
        n = int(b.get("left"))
        b.put("left", b"%d" % (n - 1))
        print(f"B holds token {b.number}, reads {n}, writes {n - 1}")

    try:
        a.put("left", b"%d" % (left - 1))
    except Refused as e:
        print(f"A wakes up, writes {left - 1}, and is refused: {e}")

    with Lease(coupon) as lease:
        print(f"{int(lease.get('left'))} are left")


if __name__ == "__main__":
    main()
