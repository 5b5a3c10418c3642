"""Makes a container in Azurite: one signed request (shared key, as the service's reference has it)."""

import base64
import email.utils
import hashlib
import hmac
import sys
import urllib.request

url, key = sys.argv[1:]
date = email.utils.formatdate(usegmt=True)
path = url.split("/", 3)[3]
account = path.split("/")[0]
signed = "\n".join(["PUT"] + [""] * 11 + [
    f"x-ms-date:{date}", "x-ms-version:2021-12-02",
    f"/{account}/{path}", "restype:container"])
signature = hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()
request = urllib.request.Request(f"{url}?restype=container", method="PUT", headers={
    "x-ms-date": date,
    "x-ms-version": "2021-12-02",
    "Authorization": f"SharedKey {account}:{base64.b64encode(signature).decode()}"})
with urllib.request.urlopen(request) as answer:
    assert answer.status == 201, answer.status
